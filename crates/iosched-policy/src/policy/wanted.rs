//! What a policy wants of the disks that are there, and how far they are from it. Reads, never writes.

use iosched_machine::host::Host;
use iosched_machine::sysfs::Sysfs;
use iosched_switch::{self as switch, Arm, SwitchError};
use serde::Serialize;

use crate::policy::file::Policy;
use crate::policy::matching::KnownDisk;
use crate::system_config::identity::Identity;
use crate::system_config::rules;

/// A disk for which the policy has a rule.
#[derive(Debug, Clone)]
pub struct WantedDisk {
    /// The disk.
    pub disk: KnownDisk,
    /// Index of the rule that counts.
    pub rule: usize,
    /// Indices of rules that match as well and do not count.
    pub also: Vec<usize>,
    /// What it is to get, old names replaced.
    pub arm: Arm,
}

/// A setting that is not as wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deviation {
    /// Below `/sys/block/<device>/`.
    pub file: String,
    /// In the policy.
    pub wanted: String,
    /// On the machine.
    pub found: String,
}

/// The order in which rules are asked: those that name a disk before those for a sort of disks.
pub(crate) fn order(policy: &Policy) -> Vec<usize> {
    let mut order: Vec<usize> = (0..policy.rules.len()).collect();
    order.sort_by_key(|&index| !policy.rules[index].matching.is_of_identity());
    order
}

/// The disks for which the policy has a rule.
pub fn wanted(policy: &Policy, disks: &[KnownDisk]) -> Vec<WantedDisk> {
    let order = order(policy);
    disks
        .iter()
        .filter_map(|disk| {
            let mut matching = order
                .iter()
                .copied()
                .filter(|&index| policy.rules[index].matching.is_met(disk));
            let rule = matching.next()?;
            Some(WantedDisk {
                arm: on_disk(disk, &policy.rules[rule].arm),
                disk: disk.clone(),
                rule,
                also: matching.collect(),
            })
        })
        .collect()
}

/// The arm with the name that this disk has for its scheduler.
fn on_disk(disk: &KnownDisk, arm: &Arm) -> Arm {
    let offered = disk.device.schedulers.offered();
    Arm {
        layer: None,
        scheduler: switch::name_on(offered, &arm.scheduler).into(),
        tunables: arm.tunables.clone(),
    }
}

/// True if a disk of the machine is on the single-queue path, and so has schedulers by their old names.
fn has_single_queue(host: &Host) -> bool {
    let sysfs = host.sysfs();
    let devices = sysfs.block_devices().unwrap_or_default();
    let mut offered = devices
        .iter()
        .filter_map(|name| switch::offered(&sysfs, name).ok());
    offered.any(|offered| switch::is_single_queue(&offered))
}

/// The rules of udev that make it last. A rule that udev cannot ask becomes one for each disk that it
/// is for now; a disk without identity is left out (see [`WantedDisk::is_kept`]).
pub(crate) fn udev_rules(host: &Host, policy: &Policy, wanted: &[WantedDisk]) -> Vec<rules::Rule> {
    let mut found = Vec::new();
    let has_single_queue = has_single_queue(host);
    for index in order(policy) {
        let rule = &policy.rules[index];
        let remark = rule.why.clone().unwrap_or_default();
        if let Some(conditions) = rule.matching.conditions() {
            let modern = switch::modern_name(&rule.arm.scheduler);
            let arm = Arm {
                layer: None,
                scheduler: modern.unwrap_or(&rule.arm.scheduler).into(),
                tunables: rule.arm.tunables.clone(),
            };
            let old_name = modern.filter(|_| has_single_queue);
            found.push(rules::Rule {
                old_name: old_name.map(|_| rule.arm.scheduler.clone()),
                name: rule.name.clone(),
                remark,
                conditions,
                arm,
            });
            continue;
        }
        for (identity, disk) in by_identity(wanted) {
            if disk.rule != index {
                continue;
            }
            let model = disk.disk.device.model.clone().unwrap_or_default();
            let remarks = [model, remark.clone()];
            let remarks: Vec<_> = remarks
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect();
            found.push(rules::Rule {
                name: rule.name.clone(),
                remark: remarks.join(": "),
                conditions: vec![rules::Condition::is(identity)],
                arm: disk.arm.clone(),
                old_name: None,
            });
        }
    }
    found
}

/// The disks that have an identity, in its order: files made of them are the same at the next boot, when
/// the kernel may have given the disks other names.
pub(crate) fn by_identity(wanted: &[WantedDisk]) -> Vec<(&Identity, &WantedDisk)> {
    let mut found: Vec<_> = wanted
        .iter()
        .filter_map(|wanted| Some((wanted.disk.identities.first()?, wanted)))
        .collect();
    found.sort_by_key(|(identity, _)| *identity);
    found
}

impl WantedDisk {
    /// True if udev can recognise it at the next boot.
    pub(crate) fn is_kept(&self, policy: &Policy) -> bool {
        policy.rules[self.rule].matching.conditions().is_some() || !self.disk.identities.is_empty()
    }

    /// What of it is not as wanted now.
    pub(crate) fn deviations(&self, sysfs: &Sysfs) -> Result<Vec<Deviation>, SwitchError> {
        deviations(sysfs, &self.disk.device.name, &self.arm)
    }
}

/// What of a disk is not as an arm wants it.
pub(crate) fn deviations(
    sysfs: &Sysfs,
    device: &str,
    arm: &Arm,
) -> Result<Vec<Deviation>, SwitchError> {
    let active = switch::active(sysfs, device)?;
    if active != arm.scheduler {
        return Ok(vec![Deviation {
            file: "queue/scheduler".into(),
            wanted: arm.scheduler.clone(),
            found: active,
        }]);
    }
    Ok(arm
        .files_in_order()
        .into_iter()
        .filter_map(|(places, wanted)| {
            let found = places.iter().find_map(|place| {
                let value = sysfs.read_if_present(device, place)?;
                Some((place.clone(), value))
            });
            let (file, found) = found.unwrap_or((places[0].clone(), "(absent)".into()));
            (!switch::means(wanted, &found)).then(|| Deviation {
                file,
                wanted: wanted.into(),
                found,
            })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::policy::matching::disks;
    use crate::system_config::testing::{Disk, machine};

    const POLICY: &str = "
[[rule]]
name = 'large'
match = { min_size = '1M' }
scheduler = 'bfq'
[[rule]]
name = 'one'
match = { serial = 'S1' }
scheduler = 'deadline'
tunables = { fifo_batch = 1, nr_requests = 64 }
";

    fn policy() -> Policy {
        Policy::parse(POLICY, Path::new("p")).unwrap()
    }

    #[test]
    fn a_rule_that_names_the_disk_counts_before_one_for_a_sort_of_disks() {
        let (_dir, host) = machine(&[
            Disk::new("sda").property("ID_SERIAL", "S1"),
            Disk::new("sdb").property("ID_SERIAL", "S2"),
            Disk::new("sdc"),
        ]);
        let policy = policy();
        let wanted = wanted(&policy, &disks(&host).unwrap());
        let rules: Vec<usize> = wanted.iter().map(|wanted| wanted.rule).collect();
        assert_eq!(rules, [1, 0, 0]);
        assert_eq!(wanted[0].also, [0]);
        assert_eq!(wanted[0].arm.scheduler, "mq-deadline");
        let deviations = wanted[0].deviations(&host.sysfs()).unwrap();
        assert_eq!(deviations.len(), 1);
        assert_eq!(deviations[0].file, "queue/iosched/fifo_batch");
        assert_eq!(
            wanted[1].deviations(&host.sysfs()).unwrap()[0].found,
            "mq-deadline"
        );
        assert!(!wanted[2].is_kept(&policy), "it has no identity");
        // udev cannot compare sizes: the disk that is large now is named.
        let rules = udev_rules(&host, &policy, &wanted);
        let asked = |rule: &rules::Rule| format!("{:?}", rule.conditions);
        assert!(asked(&rules[1]).contains("S2"), "{rules:?}");
        assert_eq!(rules.len(), 2);
    }

    #[test]
    fn the_files_are_the_same_when_the_kernel_gives_the_disks_other_names() {
        let policy = policy();
        let files = |names: [&str; 3]| {
            let serials = ["S2", "S3", "S4"];
            let disk = |(name, serial): (&&str, &str)| {
                Disk::new(name)
                    .property("ID_SERIAL", serial)
                    .file("device/model", "ACME")
            };
            let disks_here: Vec<_> = names.iter().zip(serials).map(disk).collect();
            let (_dir, host) = machine(&disks_here);
            let wanted = wanted(&policy, &disks(&host).unwrap());
            let rules = rules::text(&udev_rules(&host, &policy, &wanted));
            (rules, crate::persist::tuned::text("balanced", &wanted))
        };
        let before = files(["sda", "sdb", "sdc"]);
        assert!(
            before.0.contains("S4") && before.1.contains("S4"),
            "{before:?}"
        );
        assert_eq!(files(["sdc", "sda", "sdb"]), before);
    }

    /// A disk on the single-queue path of a 4.x kernel.
    fn single_queue(name: &str) -> Disk {
        Disk::new(name).file("queue/scheduler", "noop [deadline] cfq")
    }

    #[test]
    fn each_disk_of_a_machine_with_both_block_layers_gets_its_own_name() {
        let text = "
[[rule]]
name = 'all'
match = { serial = 'S*' }
scheduler = 'deadline'
";
        let policy = Policy::parse(text, Path::new("p")).unwrap();
        let (dir, host) = machine(&[
            single_queue("sda").property("ID_SERIAL", "S1"),
            Disk::new("vda").property("ID_SERIAL", "S2"),
        ]);
        crate::system_config::testing::write(dir.path(), "proc/sys/kernel/osrelease", "4.19.304\n");
        let wanted = wanted(&policy, &disks(&host).unwrap());
        let names: Vec<&str> = wanted.iter().map(|w| w.arm.scheduler.as_str()).collect();
        assert_eq!(names, ["deadline", "mq-deadline"]);
        for disk in &wanted {
            assert_eq!(disk.deviations(&host.sysfs()).unwrap(), []);
        }
        // The rule is for disks that may come, on either path.
        let rules = rules::text(&udev_rules(&host, &policy, &wanted));
        let of_blk_mq = "ATTR{queue/scheduler}!=\"*noop*\", ATTR{queue/scheduler}=\"mq-deadline\"";
        let of_single = "ATTR{queue/scheduler}==\"*noop*\", ATTR{queue/scheduler}=\"deadline\"";
        let places = [of_blk_mq, of_single].map(|line| rules.find(line));
        assert!(places[0].is_some() && places[0] < places[1], "{rules}");
    }
}
