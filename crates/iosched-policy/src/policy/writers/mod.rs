//! Who else sets a disk's scheduler: every rule, profile, unit and script of the machine that would,
//! with file and line, and which of them really wins at boot and at an event of udev.
//!
//! | who | when | at a later event |
//! |---|---|---|
//! | kernel, `elevator=` (before 5.0) | first | |
//! | udev rule (`ATTR{…}=`) | in the order of file names; the last write stays | again |
//! | program of a udev rule (`RUN`) | after all rules | again |
//! | command of `mdev.conf`, where mdev is udev | when the disk comes | |
//! | `tmpfiles.d` | after udev's first events | |
//! | unit of systemd, sysfsutils | later | |
//! | script of OpenRC or an init of old, `rc.local`, cron | later | |
//! | cloud-init | later | |
//! | TuneD, TLP, saptune, sapconf, a cloud's agent | last | |

mod cloud;
mod cron;
mod inits;
mod mdev;
mod programs;
pub(crate) mod rule_text;
mod services;
mod shell;
mod substitute;
mod systemd;
mod truth;
mod udev;

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use iosched_machine::host::Host;
use iosched_machine::lossy;
use serde::Serialize;

use self::systemd::Units;
use crate::policy::matching::KnownDisk;
use crate::system_config::rules;

/// Somebody who writes a file of a disk's queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Writer {
    /// What it is.
    pub kind: WriterKind,
    /// The file that says so.
    pub file: PathBuf,
    /// The line in it, from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// What is written, below `/sys/block/<device>/`.
    pub target: String,
    /// The value; none where it is only known when it runs.
    pub value: Option<String>,
    /// False where a condition cannot be judged from here.
    pub certain: bool,
    /// True if not every shell would write it, and it is not known which one reads the script (what `/bin/sh` is).
    pub depends_on_shell: bool,
    /// True of a scheduler of the other block layer, and of what is no name at all (`-e bfq`): the kernel refuses to be given
    /// it for this disk, and nothing changes.
    pub is_refused: bool,
}

/// What a writer is, in the order in which they come at boot: a later one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriterKind {
    /// `elevator=` on the command line of a kernel before 5.0.
    CommandLine,
    /// An assignment in a udev rule.
    UdevRule,
    /// A program that a udev rule starts.
    UdevProgram,
    /// mdev of busybox.
    Mdev,
    /// `tmpfiles.d`.
    Tmpfiles,
    /// A unit of systemd.
    Unit,
    /// sysfsutils, by `/etc/sysfs.conf`.
    Sysfsutils,
    /// A script of the boot: `rc.local`, one of an init of old, of OpenRC, or of cron.
    BootScript,
    /// cloud-init.
    CloudInit,
    /// TLP.
    Tlp,
    /// saptune.
    Saptune,
    /// sapconf.
    Sapconf,
    /// A cloud's agent in the guest.
    GuestAgent,
    /// TuneD.
    Tuned,
}

impl WriterKind {
    /// True if it acts again at every event of udev, not only at boot.
    pub fn acts_on_events(self) -> bool {
        matches!(self, WriterKind::UdevRule | WriterKind::UdevProgram)
    }
}

impl fmt::Display for WriterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WriterKind::CommandLine => "the kernel's command line",
            WriterKind::UdevRule => "udev rule",
            WriterKind::UdevProgram => "program of a udev rule",
            WriterKind::Mdev => "mdev",
            WriterKind::Tmpfiles => "systemd-tmpfiles",
            WriterKind::Unit => "systemd unit",
            WriterKind::Sysfsutils => "sysfsutils",
            WriterKind::BootScript => "boot script",
            WriterKind::CloudInit => "cloud-init",
            WriterKind::Tlp => "TLP",
            WriterKind::Saptune => "saptune",
            WriterKind::Sapconf => "sapconf",
            WriterKind::GuestAgent => "guest agent",
            WriterKind::Tuned => "TuneD",
        })
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.kind, self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        Ok(())
    }
}

impl Writer {
    /// True if it is a rule or profile of ours.
    pub(crate) fn is_ours(&self) -> bool {
        self.file == Path::new(rules::PATH) || self.file.ends_with("iosched/tuned.conf")
    }
}

/// All who write a disk's queue, in the order in which they do at boot: of those that write the same
/// file the last one wins.
pub fn find(host: &Host, disk: &KnownDisk) -> Vec<Writer> {
    let units = Units::of(host);
    let mut found = programs::command_line(host, disk);
    let by_rules = udev_at_boot(host, disk);
    found.extend(by_rules.writers);
    found.extend(services::writers(host, &units, disk, &by_rules.units));
    found.extend(programs::writers(host, &units, disk));
    found.sort_by_key(|writer| writer.kind); // stable: within a kind in their own order
    with_refusals(found, disk)
}

/// All who write it when udev has a `change` event, in their order.
pub fn find_on_change(host: &Host, disk: &KnownDisk) -> Vec<Writer> {
    let mut found = udev::followed(host, disk, "change").writers;
    found.sort_by_key(|writer| writer.kind);
    with_refusals(found, disk)
}

/// What rules do with a disk as it comes. One of the device mapper has no table before its first change; an `add` comes
/// to it besides where the initramfs made it.
fn udev_at_boot(host: &Host, disk: &KnownDisk) -> udev::Followed {
    let mut found = udev::followed(host, disk, "add");
    if disk.device.name.starts_with("dm-") {
        for writer in &mut found.writers {
            writer.certain = false;
        }
        let later = udev::followed(host, disk, "change");
        found.writers.extend(later.writers);
        found.units.extend(later.units);
    }
    found
}

/// Says of each writer whether the disk refuses its value.
fn with_refusals(mut writers: Vec<Writer>, disk: &KnownDisk) -> Vec<Writer> {
    let offered = disk.device.schedulers.offered();
    for writer in &mut writers {
        let value = writer.value.as_deref();
        writer.is_refused = writer.target == "queue/scheduler"
            && value.is_some_and(|value| {
                iosched_switch::is_of_other_layer(value, offered) || !is_name(value)
            });
    }
    writers
}

/// True of a text that can be the name of a scheduler, which has 15 bytes at the most (`ELV_NAME_MAX`).
fn is_name(value: &str) -> bool {
    let name = value.trim();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.starts_with('-') && name.len() <= 15 && name.chars().all(is_of_name)
}

/// True if TuneD runs, or will at the next boot.
pub(crate) fn tuned_runs(host: &Host) -> bool {
    programs::tuned_runs(host)
}

/// True if tuned-ppd, which chooses TuneD's profile by the desktop's choice of power, will run at the next boot.
pub(crate) fn tuned_ppd_runs(host: &Host) -> bool {
    inits::is_started(host, &Units::of(host), "tuned-ppd")
}

/// What these profiles of TuneD (separated by commas or blanks) write into a disk's queue.
pub(crate) fn tuned_writers(host: &Host, profiles: &str, disk: &KnownDisk) -> Vec<Writer> {
    let found = programs::tuned_writers(host, profiles, disk);
    with_refusals(found, disk)
}

/// True if a rule of udev reads `elevator=` (RHEL 8 and 9 bring it back to life so).
pub(crate) fn reads_elevator(host: &Host) -> bool {
    udev::imports_from_command_line(host, "elevator")
}

/// The writer that stays in force for a file of the queue. One that only may write it is passed over
/// for one that surely does.
pub fn winner<'a>(writers: &'a [Writer], target: &str) -> Option<&'a Writer> {
    let mut of_target = writers
        .iter()
        .rev()
        .filter(|writer| writer.target == target && !writer.is_refused);
    let last = of_target.clone().next();
    of_target.find(|writer| writer.certain).or(last)
}

/// Most likely who made a file hold this value: the last one that writes it.
pub(crate) fn culprit<'a>(writers: &'a [Writer], target: &str, found: &str) -> Option<&'a Writer> {
    let is_it = |writer: &&Writer| {
        writer.target == target
            && !writer.is_ours()
            && !writer.is_refused
            && writer
                .value
                .as_deref()
                .is_some_and(|value| means(value, found))
    };
    writers
        .iter()
        .rev()
        .filter(|writer| writer.certain)
        .find(is_it)
        .or_else(|| writers.iter().rev().find(is_it))
        .or_else(|| {
            // One whose value is only known when it runs.
            let mut others = writers.iter().rev();
            others.find(|writer| writer.target == target && writer.value.is_none())
        })
}

/// True if writing `value` leads to `found`: the same value in any spelling; blk-mq knows mq-deadline by its old name, too,
/// and no other; TuneD's `>4096` leaves what is more.
pub(crate) fn means(value: &str, found: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let is_at_least = |least: &str| {
        number(least)
            .zip(number(found))
            .is_some_and(|(a, b)| b >= a)
    };
    iosched_switch::means(value, found)
        || iosched_switch::is_alias(value, found)
        || value.strip_prefix('>').is_some_and(is_at_least)
}

/// The text of a file of the machine, links followed within the machine; none if it cannot be read.
fn text_of(host: &Host, path: &Path) -> Option<String> {
    let end = end_of_links(host, path);
    if end == Path::new("/dev/null") && end != path {
        return Some(String::new());
    }
    lossy::read(host.path(&end)).ok()
}

/// Where the links of a path lead within the machine.
fn end_of_links(host: &Host, path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..8 {
        match fs::read_link(host.path(&path)) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => break,
        }
    }
    path
}

/// True if the file may be run: systemd runs no `rc.local` that may not.
fn is_executable(host: &Host, path: &Path) -> bool {
    let metadata = fs::metadata(host.path(path));
    metadata.is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

/// The files of these directories whose name ends so: of one name only that in the first directory,
/// sorted by name (the order in which systemd and udev read them).
fn files_of(host: &Host, directories: &[&str], suffix: &str) -> Vec<PathBuf> {
    let mut found = std::collections::BTreeMap::new();
    for directory in directories {
        let Ok(entries) = fs::read_dir(host.path(Path::new(directory))) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(suffix) {
                found
                    .entry(name.clone())
                    .or_insert_with(|| Path::new(directory).join(&name));
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::matching;
    use crate::system_config::testing::{Disk, machine, write};

    fn writer(kind: WriterKind, value: &str, certain: bool) -> Writer {
        Writer {
            kind,
            file: "/x".into(),
            line: 1,
            target: "queue/scheduler".into(),
            value: Some(value.into()),
            certain,
            depends_on_shell: false,
            is_refused: false,
        }
    }

    #[test]
    fn the_last_sure_writer_wins_and_who_left_a_value_is_the_last_that_writes_it() {
        let writers = [
            writer(WriterKind::UdevRule, "bfq", true),
            writer(WriterKind::UdevRule, "none", true),
            writer(WriterKind::Tuned, "deadline", false),
        ];
        let wins = winner(&writers, "queue/scheduler").unwrap();
        assert_eq!(wins.value.as_deref(), Some("none"));
        let who = |found| culprit(&writers, "queue/scheduler", found).map(|writer| writer.kind);
        assert_eq!(who("bfq"), Some(WriterKind::UdevRule));
        assert_eq!(who("mq-deadline"), Some(WriterKind::Tuned));
        assert_eq!(who("kyber"), None);
    }

    #[test]
    fn who_writes_a_number_in_another_base_has_written_it() {
        for (value, found, is_it) in [
            ("0x1", "1", true),
            ("1", "0x1", true),
            ("0x40", "64", true),
            ("64", "32", false),
            (">4096", "8192", true),
            ("deadline", "mq-deadline", true),
            ("mq-deadline", "deadline", false),
        ] {
            assert_eq!(means(value, found), is_it, "{value} {found}");
        }
    }

    /// Which rules of udev count for a disk at boot: value by value, and who wins.
    fn at_boot(disk: Disk, rules: &str) -> (Vec<String>, Option<String>) {
        let (dir, host) = machine(&[disk]);
        write(dir.path(), "etc/udev/rules.d/60-x.rules", rules);
        let found = find(&host, &matching::disks(&host).unwrap()[0]);
        let wins = winner(&found, "queue/scheduler").and_then(|writer| writer.value.clone());
        let values = found.into_iter().filter_map(|writer| writer.value);
        (values.collect(), wins)
    }

    #[test]
    fn a_scheduler_of_the_other_block_layer_does_not_win() {
        let rules = "ATTR{queue/scheduler}=\"VALUE\"\n";
        let old = || Disk::new("sda").file("queue/scheduler", "noop deadline [cfq]");
        for (disk, value, is_taken) in [
            (Disk::new("sda"), "noop", false),
            (Disk::new("sda"), "cfq", false),
            (Disk::new("sda"), "deadline", true),
            (Disk::new("sda"), "adios", true), // a module that is not loaded, perhaps
            (Disk::new("sda"), "-e bfq", false),
            (Disk::new("sda"), "bfq\\\\n", false),
            (Disk::new("sda"), "a-scheduler-1-2", true),
            (Disk::new("sda"), "a-scheduler-1-23", false),
            (old(), "mq-deadline", false),
            (old(), "noop", true),
        ] {
            let (all, wins) = at_boot(disk, &rules.replace("VALUE", value));
            assert_eq!(all, [value]);
            assert_eq!(wins.is_some(), is_taken, "{value}");
        }
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
