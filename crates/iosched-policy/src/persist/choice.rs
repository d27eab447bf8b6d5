//! From "this disk, that scheduler" to rules of the policy: what each disk is recognised by.

use std::path::{Path, PathBuf};

use iosched_experiment::plan::disks_below;
use iosched_experiment::record::Record;
use iosched_machine::command_line::joined;
use iosched_machine::device;
use iosched_machine::failure::{OrProblem, Problem, exit};
use iosched_machine::host::Host;
use iosched_switch::Arm;

use crate::policy::edit::{self, NewRule};
use crate::policy::file::{self, Evidence, Policy};
use crate::policy::matching::{KnownDisk, Match};
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

/// The text of the policy with a rule for every disk of a change, and what the user should know.
pub(super) fn with_choice(
    host: &Host,
    disks: &[KnownDisk],
    (mut policy, mut text): (Policy, String),
    change: &set::Change,
    grounds: &Grounds,
) -> Result<(String, Vec<String>), Problem> {
    let mut notes = change.notes.clone();
    for (name, _, arm) in &change.disks {
        let (identity, disk) = identity_of(host, disks, name, arm)?;
        notes.extend(remarks(disk, identity));
        let mut evidence = grounds.evidence.iter();
        let rule = NewRule {
            name: rule_name(disk),
            matching: Match::of_identity(identity),
            arm: arm.clone(),
            why: grounds.why.clone(),
            record: grounds.record.clone(),
            evidence: evidence
                .find(|(device, _)| device == name)
                .map(|(_, found)| found.clone()),
        };
        text = edit::with_rule(&text, &mut policy, &rule);
    }
    Ok((text, notes))
}

/// The text of the policy without the rules that name a device or are called so; empty if nothing of the user's is left.
pub(super) fn without_choice(
    host: &Host,
    disks: &[KnownDisk],
    (policy, text): &(Policy, String),
    what: &str,
) -> Result<String, Problem> {
    let by_name = |index: &usize| policy.rules[*index].name == what;
    let mut indices: Vec<usize> = (0..policy.rules.len()).filter(by_name).collect();
    if indices.is_empty() && !policy.rules.is_empty() {
        let device = device::find(host, what)?;
        let below = disks_below(host, &device).or_problem()?;
        let is_for = |index: &usize| {
            let matching = &policy.rules[*index].matching;
            let mut disks = disks
                .iter()
                .filter(|disk| below.contains(&disk.device.name));
            matching.is_of_identity() && disks.any(|disk| matching.is_met(disk))
        };
        indices = (0..policy.rules.len()).filter(is_for).collect();
    }
    if indices.is_empty() {
        let message = format!("no rule of {} is for {what}", file::PATH);
        return Err(Problem::new(exit::NO_SUCH_DEVICE, message)
            .hint("`iosched persist --list` shows the rules"));
    }
    let rest = edit::without_rules(text, &indices);
    // What we alone made goes as a whole; the user's own words stay.
    let is_all = indices.len() == policy.rules.len();
    Ok(if is_all && edit::is_bare(&rest) {
        String::new()
    } else {
        rest
    })
}

/// No udev is installed, and nothing else reads its rules.
pub(super) fn no_udev() -> Problem {
    let message = "no udev is installed here, and nothing else reads its rules";
    Problem::new(exit::MISSING, message).hint(
        "install it (Alpine: `setup-devd udev`), or have `iosched set` run at every boot (OpenRC: a script in /etc/local.d)",
    )
}

fn identity_of<'a>(
    host: &Host,
    disks: &'a [KnownDisk],
    name: &str,
    arm: &Arm,
) -> Result<(&'a Identity, &'a KnownDisk), Problem> {
    let refuse = |reason: &str| {
        let message = format!("{name} cannot be recognised at the next boot: {reason}");
        Problem::new(exit::NO_SUCH_DEVICE, message)
    };
    let disk = disks.iter().find(|disk| disk.device.name == name);
    let disk = disk.ok_or_else(|| {
        let way = joined(&arm.set_on(name));
        refuse("a loop device is another disk each time")
            .hint(format!("set it for as long as the device is there: {way}"))
    })?;
    // Without udev nothing is known of any disk, and nothing would read the rules.
    if disk.identities.is_empty() && !udev::is_here(host) {
        return Err(no_udev());
    }
    let identity = disk.identities.first().ok_or_else(|| {
        let problem = match disk.shared.first().map(Identity::property) {
            Some((property, value)) => refuse(&format!(
                "another disk here has the same {property}={value}, and there is nothing else"
            )),
            None if !host.run("udev").exists() => refuse(
                "udev, which knows disks by what stays of them, does not run here (there is no /run/udev)",
            ),
            None => refuse("udev knows no world-wide name, serial number or path of it"),
        };
        problem.hint(
            "give the disk a serial number where it is made (virtual machines), or write a rule by model or transport into \
             the policy",
        )
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
    use crate::history;
    use crate::persist::deploy::{DeployOptions, Deployment, Request, When};
    use crate::system_config::testing::{Disk, machine};
    use iosched_experiment::fixture;
    use iosched_machine::facts::MachineFacts;
    use iosched_machine::process::Stop;

    fn kept(host: &Host, targets: &[&str], arm: &str, grounds: &Grounds) -> Deployment {
        let arm = Arm::plain(arm);
        let request = Request::Choice {
            targets,
            arm: &arm,
            grounds,
        };
        Deployment::plan(host, request, DeployOptions::default()).unwrap()
    }

    #[test]
    fn a_tunes_answer_is_kept_with_its_record_and_taken_back_as_one() {
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
        let plan = kept(&host, &["sda", "sdb"], "none", &grounds);
        let turn = history::take_turn(&host, &Stop::new(), &mut |_| {}).unwrap();
        plan.make(&turn, When::Later, grounds.why).unwrap();

        let (policy, _) = file::read(&host).unwrap().unwrap();
        let rule = &policy.rules[1];
        assert_eq!(rule.record.as_deref(), Some(Path::new("/root/record")));
        assert!(
            rule.why
                .as_ref()
                .is_some_and(|why| why.starts_with("the answer of a tune"))
        );
        assert_eq!(rule.matching.serial.as_deref(), Some("S2"));
        turn.undo().unwrap();
        assert!(file::read(&host).unwrap().is_none());
        let rules = dir.path().join("etc/udev/rules.d/99-iosched.rules");
        assert!(!rules.exists());
    }
}
