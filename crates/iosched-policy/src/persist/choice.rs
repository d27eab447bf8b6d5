//! From "this disk, that scheduler" to rules of the policy: which disks stand below, what each is
//! recognised by.

use std::path::{Path, PathBuf};

use iosched_experiment::record::Record;
use iosched_machine::device;
use iosched_machine::host::Host;
use iosched_switch::Arm;

use crate::persist::deploy::DeployError;
use crate::policy::edit::{self, NewRule};
use crate::policy::file::{self, Evidence};
use crate::policy::matching::{self, KnownDisk, Match};
use crate::set;
use crate::system_config::identity::Identity;
use crate::system_config::udev;

/// Why a choice was made, as the policy keeps it.
#[derive(Debug, Clone, Default)]
pub struct Grounds {
    /// In words.
    pub why: Option<String>,
    /// The directory of the record.
    pub record: Option<PathBuf>,
    /// Kernel, and per disk (kernel name) what else it rests on.
    pub evidence: Vec<(String, Evidence)>,
}

/// The policy's new text.
#[derive(Debug)]
pub struct Edited {
    /// The text.
    pub text: String,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl Grounds {
    /// What a tune's record, kept in a directory, says for its answer.
    pub fn of(record: &Record, arm: usize, directory: &Path) -> Grounds {
        let machine = &record.header.machine;
        let evidence = machine.disks.iter().map(|disk| {
            let evidence = Evidence {
                kernel: Some(machine.kernel.clone()),
                model: disk.model.clone(),
                firmware: disk.firmware.clone(),
            };
            (disk.device.clone(), evidence)
        });
        let label = record.header.plan.arm_label(arm);
        Grounds {
            why: Some(format!("the answer of a tune: {label}")),
            record: Some(std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())),
            evidence: evidence.collect(),
        }
    }
}

/// The machine's policy with a rule for every disk below these devices.
pub fn with_choice(
    host: &Host,
    targets: &[&str],
    arm: &Arm,
    grounds: &Grounds,
) -> Result<Edited, DeployError> {
    let disks = matching::disks(host).map_err(DeployError::List)?;
    let mut current = file::read(host)?;
    let mut notes = Vec::new();
    let mut chosen = Vec::new();
    for target in targets {
        let change = set::Change::plan(host, target, arm)?;
        notes.extend(change.notes);
        chosen.extend(change.disks);
    }
    for (name, _, arm) in &chosen {
        let (identity, disk) = identity_of(host, &disks, name, arm)?;
        notes.extend(remarks(disk, identity));
        let rule = NewRule {
            name: rule_name(disk),
            matching: Match::of_identity(identity),
            arm: Some(arm.clone()),
            why: grounds.why.clone(),
            record: grounds.record.clone(),
            evidence: grounds
                .evidence
                .iter()
                .find(|(device, _)| device == name)
                .map(|(_, evidence)| evidence.clone()),
        };
        let (policy, text) = current.unwrap_or_default();
        let text = edit::with_rule((!text.is_empty()).then_some(&text), &policy, &rule);
        let policy = file::Policy::parse(&text, std::path::Path::new(file::PATH))?;
        current = Some((policy, text));
    }
    Ok(Edited {
        text: current.map(|(_, text)| text).unwrap_or_default(),
        notes,
    })
}

/// The machine's policy without the rules that name a device or are called so.
pub fn without_choice(host: &Host, what: &str) -> Result<Edited, DeployError> {
    let no_rule = || DeployError::NoRule { what: what.into() };
    let (policy, text) = file::read(host)?.ok_or_else(no_rule)?;
    let by_name = |index: &usize| policy.rules[*index].name == what;
    let mut indices: Vec<usize> = (0..policy.rules.len()).filter(by_name).collect();
    if indices.is_empty() {
        let device = device::find(host, what)?;
        let below =
            iosched_experiment::plan::disks_below(host, &device).map_err(set::SetError::from)?;
        let disks = matching::disks(host).map_err(DeployError::List)?;
        let is_for = |rule: &file::Rule| {
            rule.matching.is_of_identity()
                && disks
                    .iter()
                    .any(|disk| below.contains(&disk.device.name) && rule.matching.is_met(disk))
        };
        indices = (0..policy.rules.len())
            .filter(|&index| is_for(&policy.rules[index]))
            .collect();
    }
    if indices.is_empty() {
        return Err(no_rule());
    }
    let is_all = indices.len() == policy.rules.len();
    let text = if is_all {
        // What we alone made goes as a whole; the user's own words stay.
        let rest = edit::without_rules(&text, &indices);
        if edit::is_bare(&rest) {
            String::new()
        } else {
            rest
        }
    } else {
        edit::without_rules(&text, &indices)
    };
    Ok(Edited {
        text,
        notes: vec![
            "the disks keep their scheduler until the next boot or event; `iosched set` changes it \
             now"
                .into(),
        ],
    })
}

fn identity_of<'a>(
    host: &Host,
    disks: &'a [KnownDisk],
    name: &str,
    arm: &Arm,
) -> Result<(&'a Identity, &'a KnownDisk), DeployError> {
    let refuse = |reason: String| DeployError::NoIdentity {
        device: name.into(),
        reason,
    };
    let disk = disks.iter().find(|disk| disk.device.name == name);
    let disk = disk.ok_or_else(|| DeployError::LoopDevice {
        device: name.into(),
        arm: arm.clone(),
    })?;
    // Without udev nothing is known of any disk, and nothing would read the rules.
    if disk.identities.is_empty() && !udev::is_here(host) {
        return Err(DeployError::NoUdev);
    }
    let identity = disk.identities.first().ok_or_else(|| {
        refuse(match disk.shared.first() {
            Some(shared) => {
                let (property, value) = shared.property();
                format!(
                    "another disk here has the same {property}={value}, and there is nothing else"
                )
            }
            None if !host.run("udev").exists() => {
                "udev, which knows disks by what stays of them, does not run here (there is no /run/udev)".into()
            }
            None => "udev knows no world-wide name, serial number or path of it".into(),
        })
    })?;
    Ok((identity, disk))
}

fn remarks(disk: &KnownDisk, identity: &Identity) -> Vec<String> {
    let device = &disk.device.name;
    let mut remarks = Vec::new();
    if let Some(shared) = disk.shared.first() {
        let (property, value) = shared.property();
        remarks.push(format!(
            "another disk here has the same {property}={value} as {device}: not recognised by it"
        ));
    }
    if identity.is_a_place() && disk.shared.is_empty() {
        remarks.push(format!(
            "udev knows no world-wide name or serial number of {device}"
        ));
    }
    remarks
}

/// What people would call the disk: model and serial number, else what it is recognised by.
fn rule_name(disk: &KnownDisk) -> String {
    let words: Vec<&str> = [&disk.device.model, &disk.device.serial]
        .into_iter()
        .filter_map(|word| word.as_deref())
        .map(str::trim)
        .collect();
    let name = if words.is_empty() {
        disk.identities
            .first()
            .map_or("", |identity| identity.property().1)
            .to_owned()
    } else {
        words.join(" ")
    };
    name.replace(|c: char| c.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;
    use crate::history;
    use crate::persist::deploy::{DeployOptions, Deployment, When};
    use crate::system_config::testing::{Disk, machine, write};
    use iosched_experiment::fixture;
    use iosched_machine::facts::MachineFacts;
    use iosched_machine::process::Stop;

    #[test]
    fn where_no_udev_is_that_is_said_and_not_that_it_knows_no_serial_number() {
        let (dir, host) = machine(&[Disk::new("sda")]);
        let choice = || with_choice(&host, &["sda"], &Arm::plain("bfq"), &Grounds::default());
        assert!(matches!(choice(), Err(DeployError::NoIdentity { .. })));
        std::fs::remove_dir_all(dir.path().join("run/udev")).unwrap();
        assert!(matches!(choice(), Err(DeployError::NoUdev)));
    }

    #[test]
    fn the_grounds_of_a_choice_are_kept_with_the_rule() {
        let (_dir, host) = machine(&[Disk::new("sda").property("ID_SERIAL", "S1")]);
        let evidence = Evidence {
            kernel: Some("6.12.1".into()),
            model: None,
            firmware: Some("1.02".into()),
        };
        let grounds = Grounds {
            why: Some("it won".into()),
            record: Some("/root/r".into()),
            evidence: vec![
                ("sda".into(), evidence.clone()),
                ("sdb".into(), Evidence::default()),
            ],
        };
        let edited = with_choice(&host, &["sda"], &Arm::plain("bfq"), &grounds).unwrap();
        let policy = file::Policy::parse(&edited.text, std::path::Path::new("p")).unwrap();
        let rule = &policy.rules[0];
        assert_eq!(rule.why.as_deref(), Some("it won"));
        assert_eq!(
            rule.record.as_deref(),
            Some(std::path::Path::new("/root/r"))
        );
        assert_eq!(rule.evidence, Some(evidence));
        assert_eq!(rule.matching.serial.as_deref(), Some("S1"));
    }

    #[test]
    fn a_tunes_answer_is_kept_with_its_record_goes_stale_and_is_taken_back_as_one() {
        let disk = |name: &str, serial: &str| {
            Disk::new(name)
                .property("ID_SERIAL", serial)
                .file("device/rev", "1.02")
        };
        let (dir, host) = machine(&[disk("sda", "S1"), disk("sdb", "S2")]);
        let mut record = fixture::record(&fixture::plan(2));
        record.header.machine = MachineFacts::read(&host, &["sda".into(), "sdb".into()], vec![]);
        record.header.machine.kernel = "6.12.0-test".into();
        let grounds = Grounds::of(&record, 0, Path::new("/root/record"));
        let edited = with_choice(&host, &["sda", "sdb"], &Arm::plain("none"), &grounds).unwrap();
        let plan = Deployment::plan(&host, Some(edited.text), DeployOptions::default()).unwrap();
        let turn = history::take_turn(&host, &Stop::new(), &mut |_| {}).unwrap();
        plan.make(&turn, When::Later, grounds.why).unwrap();

        let (policy, _) = file::read(&host).unwrap().unwrap();
        let record_of = |rule: &file::Rule| rule.record.clone();
        let records: Vec<_> = policy.rules.iter().map(record_of).collect();
        assert_eq!(
            records,
            [Some("/root/record".into()), Some("/root/record".into())]
        );
        let stale = || -> Vec<&str> {
            let disks = check(&host, &policy).unwrap().disks;
            disks[1].stale.iter().map(|stale| stale.what).collect()
        };
        assert_eq!(stale(), [""; 0]);
        write(dir.path(), "proc/sys/kernel/osrelease", "6.18.1\n");
        write(dir.path(), "sys/block/sdb/device/rev", "1.03\n");
        assert_eq!(stale(), ["kernel", "firmware"]);

        turn.undo().unwrap();
        assert!(file::read(&host).unwrap().is_none());
        let rules = dir.path().join("etc/udev/rules.d/99-iosched.rules");
        assert!(!rules.exists());
    }
}
