//! The files that are made from a policy, and what the user should know of them.

use std::path::Path;

use iosched_machine::device::{self, User};
use iosched_machine::failure::Problem;
use iosched_machine::host::Host;

use crate::persist::tuned;
use crate::policy::file::Policy;
use crate::policy::matching::KnownDisk;
use crate::policy::wanted::{self, WantedDisk};
use crate::system_config::files::FileChange;
use crate::system_config::{initramfs, modules, rules};

/// All that can be chosen of how a policy is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeployOptions {
    /// By udev's rules alone, without a profile of TuneD where its active one would undo them.
    pub udev_alone: bool,
    /// Put the modules of the root disk's scheduler into the initramfs. If that was done before they
    /// are kept true in any case.
    pub initramfs: bool,
}

/// What must change in the files that are made from a policy.
pub(crate) fn files(
    host: &Host,
    policy: &Policy,
    wanted: &[WantedDisk],
    options: DeployOptions,
) -> Result<Vec<FileChange>, Problem> {
    let rules = wanted::udev_rules(host, policy, wanted);
    let rules_text = (!rules.is_empty()).then(|| rules::text(&rules));
    let schedulers = policy.rules.iter().map(|rule| rule.arm.scheduler.as_str());
    let all_modules = modules_of(host, schedulers);
    let mut files = [
        FileChange::plan_own(host, modules::PATH, modules::text(&all_modules))?,
        FileChange::plan_own(host, rules::PATH, rules_text)?,
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>();
    let of_root = modules_of(host, schedulers_of_root(host, wanted));
    files.extend(initramfs::files(host, &of_root, options.initramfs)?);
    if !options.udev_alone {
        files.extend(tuned::files(host, wanted)?);
    }
    Ok(files)
}

/// The modules that these schedulers come in.
fn modules_of<'a>(host: &Host, schedulers: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut modules: Vec<String> = schedulers
        .filter_map(|scheduler| modules::of_scheduler(host, scheduler))
        .collect();
    modules.sort();
    modules.dedup();
    modules
}

fn schedulers_of_root<'a>(host: &Host, wanted: &'a [WantedDisk]) -> impl Iterator<Item = &'a str> {
    wanted
        .iter()
        .filter(|disk| holds_root(host, &disk.disk))
        .map(|disk| disk.arm.scheduler.as_str())
}

fn holds_root(host: &Host, disk: &KnownDisk) -> bool {
    device::users(host, &disk.device).iter().any(
        |user| matches!(user, User::Mount { mount_point, .. } if mount_point == Path::new("/")),
    )
}

/// What the user should know of these changes and disks.
pub(super) fn notes(
    host: &Host,
    policy: &Policy,
    wanted: &[WantedDisk],
    made: &[FileChange],
    options: DeployOptions,
) -> Vec<String> {
    let mut notes = root_notes(host, wanted, options);
    for command in made
        .iter()
        .filter_map(|file| initramfs::generator(host, file))
    {
        notes.push(format!(
            "the initramfs will be made anew, which takes a while: {}",
            command.join(" ")
        ));
    }
    for disk in wanted {
        notes.extend(remarks(policy, disk));
    }
    notes
}

/// What can be done where the root disk needs a module.
fn root_notes(host: &Host, wanted: &[WantedDisk], options: DeployOptions) -> Vec<String> {
    let of_root = modules_of(host, schedulers_of_root(host, wanted));
    if options.initramfs && of_root.is_empty() {
        return vec![
            "nothing to put into the initramfs: no scheduler of the root disk is known as a module"
                .into(),
        ];
    }
    if options.initramfs || initramfs::Maker::of(host).is_none() {
        return Vec::new();
    }
    of_root
        .iter()
        .filter(|module| !initramfs::has(host, module))
        .map(|module| {
            format!(
                "the root disk has the kernel's default until the root is mounted, and {module} is \
                 then read from that disk: --initramfs puts it into the initramfs"
            )
        })
        .collect()
}

/// What the user should know of one disk.
fn remarks(policy: &Policy, wanted: &WantedDisk) -> Vec<String> {
    let device = &wanted.disk.device.name;
    let rule = &policy.rules[wanted.rule];
    let mut remarks = Vec::new();
    if !wanted.is_kept(policy) {
        remarks.push(format!(
            "{device} matches rule {:?} only by what udev cannot ask, and has no identity: it is \
             set now, and not at the next boot",
            rule.name
        ));
    }
    if rule.matching.path.is_some() {
        remarks.push(format!(
            "{device} is recognised by its place: another disk plugged in there gets the same"
        ));
    }
    for &index in &wanted.also {
        remarks.push(format!(
            "{device}: rule {:?} counts; rule {:?} (line {}) matches, too, and does not",
            rule.name, policy.rules[index].name, policy.rules[index].line
        ));
    }
    remarks
}
