//! What becomes of writes to a disk's queue, in the order in which they are made.
//!
//! The kernel's rules (`block/elevator.c`, `block/blk-mq.c`):
//!
//! - a switch of the scheduler resets `nr_requests`, write-back throttling and the scheduler's tunables
//!   (`elevator_switch()`); the name of the active scheduler switches nothing (`elv_iosched_store()`)
//! - a tunable is there only while its scheduler is active
//! - without a scheduler `nr_requests` is at most the number of the device's tags (`blk_mq_update_nr_requests()`)
//! - of several writes to one file the last one stays

use std::path::PathBuf;

use iosched_machine::device;
use iosched_machine::host::Host;
use iosched_switch as switch;

use super::{Effect, SCHEDULER, Writer, WriterKind};
use crate::policy::matching::KnownDisk;

/// A write to a file of the queue.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub(super) kind: WriterKind,
    pub(super) file: PathBuf,
    /// From 1; 0 for the whole file.
    pub(super) line: usize,
    /// Below `/sys/block/<device>/`.
    pub(super) target: String,
    /// None if it is only known when the rule runs.
    pub(super) value: Option<String>,
    /// False if it is not known whether it is made.
    pub(super) certain: bool,
}

/// The scheduler between two writes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Active {
    Known(String),
    /// The kernel's own choice: none or mq-deadline.
    Default,
    Unknown,
}

/// What a switch of the scheduler resets besides the scheduler's tunables.
const RESET: [&str; 3] = [
    "queue/nr_requests",
    "queue/async_depth",
    "queue/wbt_lat_usec",
];

const TUNABLES: &str = "queue/iosched/";

/// What becomes of each of these writes, from a queue with this scheduler; none for one that the kernel has just made.
pub(super) fn effects(
    host: &Host,
    disk: &KnownDisk,
    assignments: Vec<Assignment>,
    active: Option<&str>,
) -> Vec<Writer> {
    let mut active = active.map_or(Active::Default, |name| Active::Known(name.into()));
    let tags = tags(host, disk);
    let mut done: Vec<Writer> = Vec::new();
    for assignment in assignments {
        let mut writer = Writer {
            kind: assignment.kind,
            file: assignment.file,
            line: assignment.line,
            target: assignment.target,
            value: assignment.value,
            certain: assignment.certain,
            effect: Effect::InEffect,
            why: None,
            text: None,
        };
        if let Some(why) = refusal(disk, &writer, &active, tags) {
            writer.effect = Effect::Fails;
            writer.why = Some(why);
            done.push(writer);
            continue;
        }
        let switches = switches(&active, &writer);
        if writer.certain {
            let place = format!("{}:{}", writer.file.display(), writer.line);
            for before in &mut done {
                if before.target == writer.target {
                    lose(before, format!("{place} writes it again"));
                } else if is_reset(&before.target) && switches == Some(true) {
                    lose(
                        before,
                        format!("{place} switches the scheduler, which resets it"),
                    );
                } else if is_reset(&before.target) && switches.is_none() {
                    before.certain = false;
                }
            }
        }
        if switches != Some(false) {
            active = match writer.value.clone().filter(|_| writer.certain) {
                Some(name) => Active::Known(modern(disk, &name)),
                None => Active::Unknown,
            };
        }
        done.push(writer);
    }
    done
}

fn lose(writer: &mut Writer, why: String) {
    if writer.effect == Effect::InEffect {
        writer.effect = Effect::Lost;
        writer.why = Some(why);
    }
}

fn is_reset(target: &str) -> bool {
    RESET.contains(&target) || target.starts_with(TUNABLES)
}

/// Whether a write switches the scheduler; none if that depends on what is not known.
fn switches(active: &Active, writer: &Writer) -> Option<bool> {
    if writer.target != SCHEDULER {
        return Some(false);
    }
    let name = writer.value.as_deref()?;
    let is = |other: &str| name == other || switch::is_alias(name, other);
    match active {
        Active::Known(active) => Some(!is(active)),
        Active::Default if is("none") || is("mq-deadline") => None,
        Active::Default => Some(true),
        Active::Unknown => None,
    }
}

/// The name under which the disk has a scheduler.
fn modern(disk: &KnownDisk, name: &str) -> String {
    let offered = disk.device.schedulers.offered();
    let known = offered
        .iter()
        .find(|offered| switch::is_alias(name, offered));
    known.map_or_else(|| name.to_owned(), Clone::clone)
}

/// Why the kernel refuses a write, if it surely does.
fn refusal(
    disk: &KnownDisk,
    writer: &Writer,
    active: &Active,
    tags: Option<u64>,
) -> Option<String> {
    let value = writer.value.as_deref();
    let offered = disk.device.schedulers.offered();
    if writer.target == SCHEDULER {
        let value = value?;
        let is_refused = switch::is_of_other_layer(value, offered) || !is_name(value);
        return is_refused.then(|| format!("{} does not offer it", disk.device.name));
    }
    if let Some(tunable) = writer.target.strip_prefix(TUNABLES) {
        let has = |scheduler: &str| {
            let tunables = device::tunables_of(scheduler);
            tunables.is_none_or(|all| all.iter().any(|one| one.name == tunable))
        };
        return match active {
            Active::Known(active) if !has(active) => {
                Some(format!("{active} is active there, which has no {tunable}"))
            }
            Active::Default if !has("mq-deadline") && !switch::is_single_queue(offered) => {
                Some(format!(
                    "the scheduler is still the kernel's default there, which has no {tunable}"
                ))
            }
            _ => None,
        };
    }
    let is_none = *active == Active::Known("none".into());
    let depth = value?.trim().parse::<u64>().ok()?;
    let most = tags.filter(|&most| is_none && writer.target == RESET[0] && depth > most)?;
    Some(format!(
        "without a scheduler it is at most {most}, the number of the device's tags"
    ))
}

/// The tags of the disk's first hardware queue.
fn tags(host: &Host, disk: &KnownDisk) -> Option<u64> {
    let text = host
        .sysfs()
        .read_if_present(&disk.device.name, "mq/0/nr_tags")?;
    text.trim().parse().ok()
}

/// True of a text that can be the name of a scheduler, which has 15 bytes at the most (`ELV_NAME_MAX`).
fn is_name(value: &str) -> bool {
    let name = value.trim();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.starts_with('-') && name.len() <= 15 && name.chars().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::matching;
    use crate::policy::writers::{Writers, winner};
    use crate::system_config::testing::{Disk, machine, write};

    /// Each assignment of these rules with what becomes of it: `bfq`, `lost 32`, `fails 1`; and what wins.
    fn at_boot(disk: Disk, rules: &str) -> (Vec<String>, Option<String>) {
        let (dir, host) = machine(&[disk]);
        write(dir.path(), "etc/udev/rules.d/60-x.rules", rules);
        let found = Writers::of(&host).at_boot(&matching::disks(&host).unwrap()[0]);
        let wins = winner(&found, SCHEDULER).and_then(|writer| writer.value.clone());
        (told(&found), wins)
    }

    fn told(found: &[Writer]) -> Vec<String> {
        let told = found.iter().map(|writer| {
            let value = writer.value.as_deref().unwrap_or("?");
            assert_eq!(writer.why.is_some(), writer.effect != Effect::InEffect);
            match writer.effect {
                Effect::InEffect => value.to_owned(),
                Effect::Lost => format!("lost {value}"),
                Effect::Fails => format!("fails {value}"),
                Effect::MaySet => "may".to_owned(),
            }
        });
        told.collect()
    }

    /// `scheduler=bfq nr_requests=64` as a rule of udev each.
    fn rules(words: &str) -> String {
        let rule = |word: &str| {
            let (name, value) = word.split_once('=').unwrap();
            format!("ATTR{{queue/{name}}}=\"{value}\"\n")
        };
        words.split(' ').map(rule).collect()
    }

    #[test]
    fn writes_act_in_their_order_on_one_queue() {
        for (words, expected) in [
            ("scheduler=bfq iosched/low_latency=0", "bfq, 0"),
            ("iosched/low_latency=0 scheduler=bfq", "fails 0, bfq"),
            ("iosched/fifo_batch=1 scheduler=bfq", "lost 1, bfq"),
            (
                "scheduler=bfq iosched/low_latency=0 scheduler=bfq",
                "lost bfq, 0, bfq",
            ),
            (
                "scheduler=bfq iosched/low_latency=0 scheduler=none",
                "lost bfq, lost 0, none",
            ),
            ("scheduler=bfq iosched/fifo_batch=1", "bfq, fails 1"),
            ("scheduler=none iosched/fifo_batch=1", "none, fails 1"),
            ("nr_requests=64 scheduler=bfq", "lost 64, bfq"),
            ("read_ahead_kb=64 scheduler=bfq", "64, bfq"),
            ("wbt_lat_usec=0 scheduler=kyber", "lost 0, kyber"),
            ("scheduler=none nr_requests=33", "none, fails 33"),
            ("scheduler=none nr_requests=32", "none, 32"),
            ("scheduler=bfq nr_requests=256", "bfq, 256"),
            ("scheduler=deadline iosched/fifo_batch=1", "deadline, 1"),
            (
                "scheduler=mq-deadline scheduler=deadline",
                "lost mq-deadline, deadline",
            ),
            ("scheduler=flow iosched/any=1", "flow, 1"),
            ("scheduler=noop", "fails noop"),
            ("scheduler=a-scheduler-1-23", "fails a-scheduler-1-23"),
        ] {
            let disk = Disk::new("sda").file("mq/0/nr_tags", "32");
            assert_eq!(
                at_boot(disk, &rules(words)).0.join(", "),
                expected,
                "{words}"
            );
        }
    }

    #[test]
    fn a_write_that_is_only_perhaps_made_decides_nothing_about_others() {
        let perhaps = "PROGRAM==\"/bin/x\", ATTR{queue/scheduler}=\"none\"\n";
        let text = rules("scheduler=bfq nr_requests=64") + perhaps + &rules("iosched/fifo_batch=1");
        let (all, wins) = at_boot(Disk::new("sda"), &text);
        assert_eq!(all, ["bfq", "64", "none", "1"]);
        assert_eq!(wins.as_deref(), Some("bfq"));
    }

    #[test]
    fn at_an_event_the_disk_has_the_scheduler_that_it_has() {
        let (dir, host) = machine(&[Disk::new("sda").file("queue/scheduler", "none [bfq]")]);
        let text = rules("iosched/low_latency=0 scheduler=bfq");
        write(dir.path(), "etc/udev/rules.d/60-x.rules", &text);
        let found = Writers::of(&host).on_change(&matching::disks(&host).unwrap()[0]);
        assert_eq!(told(&found), ["0", "bfq"]);
    }

    #[test]
    fn a_disk_of_the_device_mapper_is_ready_with_its_first_change() {
        let rules = "ACTION==\"add\", ATTR{queue/scheduler}=\"none\"\n\
                     ACTION==\"change\", ATTR{queue/scheduler}=\"bfq\"\n";
        for (name, value) in [("dm-0", "bfq"), ("sda", "none")] {
            let (_, wins) = at_boot(Disk::new(name), rules);
            assert_eq!(wins.as_deref(), Some(value), "{name}");
        }
    }
}
