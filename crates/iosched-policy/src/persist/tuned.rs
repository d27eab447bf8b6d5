//! TuneD: a profile of ours that includes the active one, so that TuneD and our rules do not fight.
//!
//! TuneD sets `elevator=` of its `[disk]` sections after udev has run, and so wins at boot. Our profile
//! gives each disk of the policy a section of its own, which comes before the others (`priority`), with
//! the same scheduler as our rule. It is made only where the active profile would set another one.

use std::fmt::Write;
use std::path::Path;

use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;

use crate::policy::wanted::{self, WantedDisk};
use crate::policy::writers;
use crate::policy::writers::scan::{self, Started};
use crate::system_config::cmdline::value_of;
use crate::system_config::files::{self, FileChange};
use crate::system_config::tuned::{ACTIVE, PROFILE, path, regex};

/// What must change in TuneD's files.
pub(crate) fn files(host: &Host, wanted: &[WantedDisk]) -> Result<Vec<FileChange>, Problem> {
    let Some(active) = files::read(host, Path::new(ACTIVE))? else {
        return Ok(Vec::new());
    };
    let path = path(host);
    let ours = files::read(host, &path)?;
    let is_active = active.split_whitespace().any(|name| name == PROFILE);
    // The profiles that the user chose: those that ours includes, where it is active.
    let chosen = match ours.as_deref().and_then(included).filter(|_| is_active) {
        Some(included) => included,
        None => active.split_whitespace().collect::<Vec<_>>().join(","),
    };
    let started = Started::of(host);
    let runs = scan::tuned_runs(host, &started);
    let profiles = scan::tuned_profiles(host, &chosen);
    let lines = profiles.iter().flat_map(|(_, text)| text.lines());
    let set: Vec<&str> = lines
        .filter_map(|line| value_of(line, "elevator"))
        .collect();
    let disagrees = |wanted: &WantedDisk| {
        set.iter()
            .any(|value| !writers::means(value, &wanted.arm.scheduler))
    };
    let is_needed = runs && wanted.iter().any(disagrees);
    let (profile, active) = if is_needed {
        (Some(text(&chosen, wanted)), format!("{PROFILE}\n"))
    } else if is_active {
        (None, chosen.replace(',', " ") + "\n")
    } else {
        (None, active)
    };
    let changes = [
        FileChange::plan_own(host, path, profile)?,
        FileChange::plan(host, ACTIVE, Some(active))?,
    ];
    Ok(changes.into_iter().flatten().collect())
}

/// Refuses to make our profile the active one where another program chooses TuneD's profile at every boot.
///
/// # Errors
/// tuned-ppd is enabled (Fedora 41 and later): it knows the profiles of `/etc/tuned/ppd.conf` alone.
pub(crate) fn check_is_ours_to_choose(host: &Host, made: &[FileChange]) -> Result<(), Problem> {
    let chooses = made.iter().any(|file| {
        let after = file.after.as_deref().unwrap_or_default();
        file.path == Path::new(ACTIVE) && after.split_whitespace().any(|name| name == PROFILE)
    });
    if !chooses || !Started::of(host).has("tuned-ppd") {
        return Ok(());
    }
    let message = format!(
        "{ACTIVE}: tuned-ppd chooses TuneD's profile at every boot, and would not choose ours: nothing was changed"
    );
    Err(Problem::new(exit::BAD_FILE, message).hint(
        "take elevator= out of the profiles that /etc/tuned/ppd.conf names, or disable tuned-ppd: \
             systemctl disable --now tuned-ppd",
    ))
}

/// The profile's text.
pub(crate) fn text(chosen: &str, wanted: &[WantedDisk]) -> String {
    let mut text = format!(
        "# Made by iosched from /etc/iosched/policy.toml; do not edit: `iosched apply` makes it anew.\n\
         [main]\n\
         summary={chosen}, with the I/O schedulers of iosched's policy\n\
         include={chosen}\n"
    );
    for (index, (identity, wanted)) in wanted::by_identity(wanted).into_iter().enumerate() {
        let _ = write!(
            text,
            "\n[iosched_{}]\ntype=disk\npriority=-10\ndevices_udev_regex={}\nelevator={}\n",
            index + 1,
            regex(identity),
            wanted.arm.scheduler
        );
    }
    text
}

/// The profiles that a profile includes.
fn included(text: &str) -> Option<String> {
    text.lines()
        .find_map(|line| line.trim().strip_prefix("include="))
        .map(|names| names.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::file::Policy;
    use crate::policy::matching;
    use crate::system_config::testing::{Disk, machine, write};

    fn plan(host: &Host, policy: &str) -> Vec<FileChange> {
        let policy = Policy::parse(policy, Path::new("p")).unwrap();
        let disks = matching::disks(host).unwrap();
        files(host, &wanted::wanted(&policy, &disks)).unwrap()
    }

    const POLICY: &str = "[[rule]]\nname = 'a'\nmatch = { serial = 'S.1' }\nscheduler = 'bfq'\n";

    #[test]
    fn a_profile_is_made_where_the_active_one_disagrees_and_goes_with_the_policy() {
        let (dir, host) = machine(&[Disk::new("sda").property("ID_SERIAL", "S.1")]);
        assert_eq!(plan(&host, POLICY), [], "no TuneD here");
        write(dir.path(), "run/tuned/tuned.pid", "1\n");
        write(dir.path(), "etc/tuned/active_profile", "desktop\n");
        write(
            dir.path(),
            "usr/lib/tuned/desktop/tuned.conf",
            "[cpu]\ngovernor=x\n",
        );
        assert_eq!(plan(&host, POLICY), [], "it does not touch disks");
        write(
            dir.path(),
            "usr/lib/tuned/desktop/tuned.conf",
            "[disk]\nelevator=none\n",
        );
        let changes = plan(&host, POLICY);
        for change in &changes {
            change.install(&host).unwrap();
        }
        let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap();
        insta::assert_snapshot!(read("etc/tuned/iosched/tuned.conf"), @r"
        # Made by iosched from /etc/iosched/policy.toml; do not edit: `iosched apply` makes it anew.
        [main]
        summary=desktop, with the I/O schedulers of iosched's policy
        include=desktop

        [iosched_1]
        type=disk
        priority=-10
        devices_udev_regex=^ID_SERIAL=S.1$
        elevator=bfq
        ");
        assert_eq!(read("etc/tuned/active_profile"), "iosched\n");
        assert_eq!(plan(&host, POLICY), [], "once is enough");
        // In force, our section is the one that counts for the disk.
        let disks = matching::disks(&host).unwrap();
        let by = writers::Writers::of(&host).at_boot(&disks[0]);
        let mut active = by.iter().filter(|writer| writer.is_active());
        assert!(active.all(writers::Writer::is_ours), "{by:?}");
        for change in plan(&host, "") {
            change.install(&host).unwrap();
        }
        assert_eq!(read("etc/tuned/active_profile"), "desktop\n");
        assert!(!dir.path().join("etc/tuned/iosched/tuned.conf").exists());
    }

    #[test]
    fn a_profile_that_tuned_ppd_would_not_choose_is_refused() {
        let (dir, host) = machine(&[Disk::new("sda").property("ID_SERIAL", "S.1")]);
        write(dir.path(), "run/tuned/tuned.pid", "1\n");
        write(dir.path(), "etc/tuned/active_profile", "desktop\n");
        write(
            dir.path(),
            "usr/lib/tuned/desktop/tuned.conf",
            "[disk]\nelevator=none\n",
        );
        let changes = plan(&host, POLICY);
        assert!(check_is_ours_to_choose(&host, &changes).is_ok());
        let unit = "etc/systemd/system/graphical.target.wants/tuned-ppd.service";
        write(dir.path(), unit, "");
        let error = check_is_ours_to_choose(&host, &changes).unwrap_err();
        assert!(error.to_string().contains("tuned-ppd chooses"), "{error}");
        assert!(check_is_ours_to_choose(&host, &plan(&host, "")).is_ok());
    }
}
