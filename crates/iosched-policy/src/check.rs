//! Checks disks against the policy and names what overrides it.
//!
//! [`check`] reads the machine and judges; it changes nothing. Since when a disk differs is known
//! from check to check, in a small file of its own ([`Memory`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iosched_experiment::analysis::Analysis;
use iosched_experiment::record::Record;
use iosched_machine::device::Inventory;
use iosched_machine::durable;
use iosched_machine::failure::{OrProblem, Problem};
use iosched_machine::host::Host;
use iosched_machine::regular_file;
use iosched_stats::Interval;
use iosched_stats::race::Contest;
use iosched_switch as switch;
use serde::{Deserialize, Serialize};

use crate::advise;
use crate::persist::from_policy::{self, DeployOptions};
use crate::policy::evidence::{self, Stale};
use crate::policy::file::Policy;
use crate::policy::matching::{self, KnownDisk};
use crate::policy::wanted::{self, Deviation, WantedDisk};
use crate::policy::writers::{self, Writer, Writers};
use crate::system_config::cmdline::{self, FileLine};
use crate::system_config::identity::Identity;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The whole of it.
    pub verdict: Verdict,
    /// Each disk that the policy has a rule for.
    pub disks: Vec<DiskReport>,
    /// Files that `apply` would change: the policy is not in force.
    pub not_in_force: Vec<PathBuf>,
    /// `elevator=` with a value that no disk listens to.
    pub dead_elevator: Vec<FileLine>,
    /// What [`advise`] says of each disk that has something else, by kernel name. It counts for no
    /// verdict.
    pub advised: BTreeMap<String, Vec<String>>,
    /// How many times as good as what is active this machine may expect what is advised, by kernel name and arm: where other
    /// machines measured both.
    pub advised_ratios: BTreeMap<String, BTreeMap<String, Interval>>,
}

/// How bad it is; also the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every disk is as wanted, and stays so.
    Good,
    /// Every disk is as wanted now, but something calls for attention.
    Warning,
    /// A disk is not as wanted.
    Bad,
}

/// What a check found of one disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskReport {
    /// Kernel name.
    pub device: String,
    /// The rule that counts.
    pub rule: String,
    /// What it is to have.
    pub wanted: String,
    /// What is not so now.
    pub deviations: Vec<Explained>,
    /// Since when, as far as earlier checks know.
    pub since: Option<Since>,
    /// Who will make it otherwise, though it may be right now.
    pub overridden: Vec<Overridden>,
    /// What the measurement behind the rule rests on and has changed.
    pub stale: Vec<Stale>,
    /// What that measurement came to, where its record can be read.
    pub measured: Option<Measured>,
}

/// What the record behind a rule says of the arm that the rule has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// When the run began, seconds since 1970.
    pub created_unix_s: f64,
    /// The arm's metric / the baseline's, with the interval: over all loads, or of each where there is no such answer.
    pub ratios: BTreeMap<String, Interval>,
}

/// A deviation, and who made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// What differs.
    #[serde(flatten)]
    pub deviation: Deviation,
    /// Most likely who made it; none if nobody is found who would write that.
    pub by: Option<Writer>,
    /// In words, where nobody is found.
    pub cause: String,
}

/// Somebody who comes after our rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overridden {
    /// `the next boot` or `the next event of udev`.
    pub when: &'static str,
    /// The file or program that sets it.
    pub by: Writer,
}

/// Since when a disk differs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Since {
    /// The first check that saw it, in seconds since 1970.
    pub first_seen_unix_s: f64,
    /// The last check before it that found the disk right.
    pub last_good_unix_s: Option<f64>,
}

/// Checks the machine against a policy.
pub fn check(host: &Host, policy: &Policy) -> Result<Report, Problem> {
    let disks = matching::disks(host)?;
    let all_wanted = wanted::wanted(policy, &disks);
    let writers = Writers::of(host);
    let of_disk = |wanted| check_disk(host, policy, &writers, wanted);
    let mut found = all_wanted
        .iter()
        .map(of_disk)
        .collect::<Result<Vec<_>, _>>()?;
    let files = from_policy::files(host, policy, &all_wanted, DeployOptions::default())?;
    let not_in_force: Vec<PathBuf> = files.into_iter().map(|file| file.path).collect();
    if !not_in_force.is_empty() {
        for disk in &mut found {
            disk.overridden.retain(|by| !by.by.is_ours());
        }
    }
    let dead_elevator = dead_elevator(host, &writers, &disks);
    let verdict = if found.iter().any(|disk| !disk.deviations.is_empty()) {
        Verdict::Bad
    } else if !not_in_force.is_empty()
        || !dead_elevator.is_empty()
        || (found.iter()).any(|disk| !disk.overridden.is_empty() || !disk.stale.is_empty())
    {
        Verdict::Warning
    } else {
        Verdict::Good
    };
    let inventory = Inventory::read(host).map_err(|error| matching::not_listed(&error))?;
    let (mut advised, mut advised_ratios) = (BTreeMap::new(), BTreeMap::new());
    for (device, differing) in advise::differing(host, &inventory) {
        if !differing.expected.is_empty() {
            advised_ratios.insert(device.clone(), differing.expected);
        }
        advised.insert(device, differing.should);
    }
    Ok(Report {
        verdict,
        disks: found,
        not_in_force,
        dead_elevator,
        advised,
        advised_ratios,
    })
}

fn check_disk(
    host: &Host,
    policy: &Policy,
    writers: &Writers<'_>,
    wanted: &WantedDisk,
) -> Result<DiskReport, Problem> {
    let at_boot = writers.at_boot(&wanted.disk);
    let on_change = writers.on_change(&wanted.disk);
    let deviations = wanted
        .deviations(&host.sysfs())
        .or_problem()?
        .into_iter()
        .map(|deviation| explain(deviation, &at_boot, &on_change))
        .collect();
    let rule = &policy.rules[wanted.rule];
    Ok(DiskReport {
        device: wanted.disk.device.name.clone(),
        rule: rule.name.clone(),
        wanted: wanted.arm.to_string(),
        deviations,
        since: None,
        overridden: overridden(wanted, &at_boot, &on_change),
        stale: rule
            .evidence
            .as_ref()
            .map(|evidence| evidence::stale(host, &wanted.disk.device, evidence))
            .unwrap_or_default(),
        measured: rule
            .record
            .as_ref()
            .and_then(|record| measured(&host.path(record), &rule.arm.to_string())),
    })
}

/// What the record in a directory says of an arm; nothing if it is not there, or is of other arms.
fn measured(directory: &Path, arm: &str) -> Option<Measured> {
    // It may be on a server that is gone.
    iosched_machine::device::answers(directory).ok()?;
    let record = Record::load(directory).ok()?;
    let analysis = Analysis::of(&record);
    let arm = analysis.arms.iter().position(|label| label == arm)?;
    let ratio = |contest: &Contest| {
        let ratio = contest.arms.get(arm)?.to_baseline;
        ratio.filter(|_| contest.scale.is_ratio())
    };
    let overall = analysis.overall.as_ref().and_then(ratio);
    let ratios = if let Some(overall) = overall {
        BTreeMap::from([("all loads".to_owned(), overall)])
    } else {
        let loads = analysis.loads.iter();
        loads
            .filter_map(|load| Some((load.name.clone(), ratio(&load.contest)?)))
            .collect()
    };
    Some(Measured {
        created_unix_s: record.header.created_unix_s,
        ratios,
    })
}

fn explain(deviation: Deviation, at_boot: &[Writer], on_change: &[Writer]) -> Explained {
    let culprit = |of| writers::culprit(of, &deviation.file, &deviation.found);
    let by = culprit(at_boot).or_else(|| culprit(on_change)).cloned();
    let ours_comes_last = writers::winner(at_boot, &deviation.file).is_some_and(Writer::is_ours);
    let has_ours = at_boot
        .iter()
        .chain(on_change)
        .any(|writer| writer.is_ours() && writer.target == deviation.file);
    let cause = match (&by, has_ours, ours_comes_last) {
        (Some(by), ..) if by.certain => by.to_string(),
        (Some(by), ..) => format!("perhaps {by}"),
        (None, false, _) => {
            "no rule of ours is installed for it, and nobody else sets it: the kernel's own default"
                .into()
        }
        (None, true, true) => {
            "nothing at boot sets that: by hand, or by a program that is not known here".into()
        }
        (None, true, false) => "somebody after our rule".into(),
    };
    Explained {
        deviation,
        by,
        cause,
    }
}

/// What comes after our rule with another value, at the next boot or event: a write of udev that stays, and lines that
/// may set it and do not have the value that is wanted.
fn overridden(wanted: &WantedDisk, at_boot: &[Writer], on_change: &[Writer]) -> Vec<Overridden> {
    let scheduler = (
        vec![writers::SCHEDULER.to_owned()],
        wanted.arm.scheduler.as_str(),
    );
    let targets = std::iter::once(scheduler).chain(wanted.arm.files_in_order());
    let mut found: Vec<Overridden> = Vec::new();
    for (places, value) in targets {
        for (when, writers) in [
            ("the next boot", at_boot),
            ("the next event of udev", on_change),
        ] {
            let wins = places
                .iter()
                .find_map(|place| writers::winner(writers, place));
            let may_set = places
                .iter()
                .flat_map(|place| writers::may_set(writers, place));
            let others = wins.into_iter().chain(may_set);
            let others = others.filter(|other| !other.is_ours() && !other.has(value));
            found.extend(others.map(|by| Overridden {
                when,
                by: by.clone(),
            }));
        }
    }
    let mut seen = Vec::new();
    found.retain(|one| {
        let is_new = !seen.contains(one);
        seen.push(one.clone());
        is_new
    });
    found
}

/// Where `elevator=` is given a value that no disk listens to: those on the single-queue path do, and where a rule of
/// udev reads it the others.
fn dead_elevator(host: &Host, writers: &Writers<'_>, disks: &[KnownDisk]) -> Vec<FileLine> {
    let by_rule = writers.reads_elevator();
    let is_dead = |value: &String| {
        let listens = |disk: &KnownDisk| {
            let offered = disk.device.schedulers.offered();
            // Of a variable the value is not known.
            let has_it = offered.contains(value) || value.contains('$');
            let takes_it = by_rule && !switch::is_of_other_layer(value, offered);
            takes_it || switch::is_single_queue(offered) && has_it
        };
        !disks.iter().any(listens)
    };
    let given = cmdline::places_of_elevator(host).into_iter();
    let dead = given.filter(|(_, value)| is_dead(value));
    let mut places: Vec<FileLine> = dead.map(|(place, _)| place).collect();
    if places.is_empty() && cmdline::given_at_boot(host).as_ref().is_some_and(is_dead) {
        places.push(FileLine {
            file: "/proc/cmdline".into(),
            line: 0,
        });
    }
    places
}

/// What earlier checks saw, by what each disk is recognised by.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Memory {
    disks: BTreeMap<String, Seen>,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Seen {
    last_good_unix_s: Option<f64>,
    bad: Option<Since>,
}

impl Memory {
    fn path(host: &Host) -> PathBuf {
        host.path(Path::new("/var/lib/iosched/check.json"))
    }

    /// Reads it; empty where there is none.
    pub fn read(host: &Host) -> Memory {
        regular_file::read(Memory::path(host))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// Writes into the report since when each disk differs, and remembers what it says now.
    pub fn enter(&mut self, host: &Host, report: &mut Report, now_unix_s: f64) {
        let disks = matching::disks(host).unwrap_or_default();
        for disk in &mut report.disks {
            let known = disks
                .iter()
                .find(|known| known.device.name == disk.device)
                .and_then(|known| known.identities.first())
                .map(|identity: &Identity| identity.property().1.to_owned());
            let seen = self
                .disks
                .entry(known.unwrap_or_else(|| disk.device.clone()))
                .or_default();
            if disk.deviations.is_empty() {
                *seen = Seen {
                    last_good_unix_s: Some(now_unix_s),
                    bad: None,
                };
            } else {
                let since = seen.bad.get_or_insert(Since {
                    first_seen_unix_s: now_unix_s,
                    last_good_unix_s: seen.last_good_unix_s,
                });
                disk.since = Some(*since);
            }
        }
    }

    /// Writes it. Who may not write it (an ordinary user) checks without.
    pub fn save(&self, host: &Host) {
        let _ = durable::write_whole(&Memory::path(host), self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_config::testing::{Disk, machine, write};

    fn policy(more: &str) -> Policy {
        let text =
            format!("[[rule]]\nname = 'a'\nmatch = {{ serial = 'S1' }}\nscheduler = 'bfq'\n{more}");
        Policy::parse(&text, Path::new("p")).unwrap()
    }

    fn sda(scheduler: &str) -> Disk {
        Disk::new("sda")
            .property("ID_SERIAL", "S1")
            .file("queue/scheduler", scheduler)
            .file("device/rev", "1.02")
    }

    #[test]
    fn evidence_of_another_kernel_series_model_or_firmware_is_stale() {
        let (_dir, host) = machine(&[sda("[bfq] none")]);
        let report = |evidence: &str| {
            check(&host, &policy(&format!("evidence = {{ {evidence} }}")))
                .unwrap()
                .disks[0]
                .stale
                .iter()
                .map(|stale| stale.what)
                .collect::<Vec<_>>()
        };
        assert_eq!(report("kernel = '6.12.9', firmware = '1.02'"), [""; 0]);
        assert_eq!(report("kernel = '6.1.12'"), ["kernel"]);
        assert_eq!(
            report("firmware = '1.01', model = 'ACME'"),
            ["model", "firmware"]
        );
    }

    #[test]
    fn since_when_is_known_from_check_to_check() {
        let (dir, host) = machine(&[sda("[bfq] none")]);
        let policy = policy("");
        let mut memory = Memory::default();
        let mut at = |now: f64| {
            let mut report = check(&host, &policy).unwrap();
            memory.enter(&host, &mut report, now);
            report.disks[0].since
        };
        assert_eq!(at(1.0), None);
        write(dir.path(), "sys/block/sda/queue/scheduler", "bfq [none]\n");
        let since = Some(Since {
            first_seen_unix_s: 2.0,
            last_good_unix_s: Some(1.0),
        });
        assert_eq!(at(2.0), since);
        assert_eq!(at(3.0), since);
        write(dir.path(), "sys/block/sda/queue/scheduler", "[bfq] none\n");
        assert_eq!(at(4.0), None);
    }

    #[test]
    fn a_dead_elevator_is_pointed_out_unless_a_rule_brings_it_to_life() {
        let (dir, host) = machine(&[sda("[bfq] none")]);
        let rule = "IMPORT{cmdline}=\"elevator\"\nENV{elevator}!=\"\", ATTR{queue/scheduler}=\"$env{elevator}\"\n";
        let report = |value: &str, has_rule: bool| {
            let grub = format!("GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX=\"elevator={value}\"\n");
            write(dir.path(), "etc/default/grub", &grub);
            write(
                dir.path(),
                "proc/cmdline",
                &format!("ro elevator={value}\n"),
            );
            let rule = if has_rule { rule } else { "" };
            write(dir.path(), "usr/lib/udev/rules.d/40-elevator.rules", rule);
            check(&host, &policy("")).unwrap()
        };
        let in_file = [FileLine {
            file: "/etc/default/grub".into(),
            line: 2,
        }];
        assert_eq!(report("noop", false).dead_elevator, in_file);
        let refused = report("noop", true);
        assert_eq!(refused.dead_elevator, in_file, "blk-mq refuses noop");
        assert_eq!(refused.disks[0].overridden, []);
        let alive = report("deadline", true);
        assert_eq!(alive.dead_elevator, []);
        let by = &alive.disks[0].overridden[0].by;
        assert_eq!(by.value.as_deref(), Some("deadline"));
    }
}
