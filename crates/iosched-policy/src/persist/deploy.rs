//! `persist` as one line: plan once ([`Deployment::plan`], nothing touched), show, try, commit, read back
//! ([`Deployment::make`]), or all back.
//!
//! 1. Each disk that is not as wanted is switched once, so that the kernel itself says what it does not take.
//! 2. The state before is written into the history, then the files are written, and programs read them.
//! 3. udev applies its rules to these disks. Our rule must be the one applied, and each disk still as in step 1; else
//!    another rule comes after ours.
//!
//! A failure of any step puts files and disks back.

use std::path::Path;

use iosched_machine::device::{self, Device};
use iosched_machine::failure::{OrProblem, Problem, exit};
use iosched_machine::host::Host;
use iosched_switch::journal::{SavedDisk, Undone};
use iosched_switch::{self as switch, Adjusted, Arm, Entered, QueueState};

use crate::history::Turn;
use crate::persist::choice::{self, Grounds};
use crate::persist::{from_policy, tuned};
use crate::policy::file::{self, Policy};
use crate::policy::matching;
use crate::policy::wanted::{self, Deviation, WantedDisk};
use crate::set::{self, Settled};
use crate::system_config::announce::announce;
use crate::system_config::files::FileChange;
use crate::system_config::identity::Properties;
use crate::system_config::{cmdline, grub, initramfs, rules, udev};

pub use crate::persist::from_policy::DeployOptions;

/// What is to be in force.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// The machine's policy as it is.
    Policy,
    /// A policy of this text, which becomes the machine's.
    Text(&'a str),
    /// The machine's policy with a rule for every disk below these devices.
    Choice {
        /// Devices as the user names them.
        targets: &'a [&'a str],
        /// What their disks get.
        arm: &'a Arm,
        /// Why.
        grounds: &'a Grounds,
    },
    /// The machine's policy without the rules that name a device or are called so.
    Without(&'a str),
}

/// What will be changed, and what the user should know of it.
#[derive(Debug)]
pub struct Deployment {
    /// The policy that will be in force.
    pub policy: Policy,
    /// The disks that it is for, and what of each is not as wanted now.
    pub disks: Vec<(WantedDisk, Vec<Deviation>)>,
    /// The files that change.
    pub files: Vec<FileChange>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// The switches to be tried.
    change: set::Change,
}

/// What was done.
#[derive(Debug)]
pub struct Deployed {
    /// The number of the change in the history; none if nothing was to be changed.
    pub id: Option<u64>,
    /// Each disk that was switched, with its state now.
    pub disks: Vec<(String, QueueState)>,
    /// What the kernel took otherwise than asked.
    pub adjusted: Vec<Adjusted>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// When the disks get what the policy wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Now, and at every boot.
    Now,
    /// At the next boot or event.
    Later,
}

impl Deployment {
    /// Plans what brings a request into force.
    pub fn plan(
        host: &Host,
        request: Request<'_>,
        options: DeployOptions,
    ) -> Result<Deployment, Problem> {
        let disks = matching::disks(host)?;
        let mut chosen = set::Change::default();
        let mut notes = Vec::new();
        let current = file::read(host);
        let text = match request {
            Request::Policy => None,
            Request::Text(text) => Some(text.to_owned()),
            Request::Choice {
                targets,
                arm,
                grounds,
            } => {
                for target in targets {
                    let change = set::Change::plan(host, target, arm)?;
                    chosen.notes.extend(change.notes);
                    chosen.disks.extend(change.disks);
                }
                let current = current.clone()?.unwrap_or_default();
                let (text, more) = choice::with_choice(host, &disks, current, &chosen, grounds)?;
                notes = more;
                Some(text)
            }
            Request::Without(what) => {
                let current = current.clone()?.unwrap_or_default();
                notes.push(
                    "the disks keep their scheduler until the next boot or event; `iosched set` changes it now".into(),
                );
                Some(choice::without_choice(host, &disks, &current, what)?)
            }
        };
        let path = Path::new(file::PATH);
        let (policy, policy_file) = match text {
            Some(text) => {
                let policy = Policy::parse(&text, path)?;
                // A policy without rules that we would have made anew need not be there.
                let keep = !policy.rules.is_empty() || !text.trim().is_empty();
                (policy, FileChange::plan(host, path, keep.then_some(text))?)
            }
            None => (current?.unwrap_or_default().0, None),
        };
        let wanted = wanted::wanted(&policy, &disks);
        let made = from_policy::files(host, &policy, &wanted, options)?;
        let rules = made.iter().find(|file| file.path == Path::new(rules::PATH));
        if let Some(text) = rules.and_then(|file| file.after.as_deref()) {
            if !udev::is_here(host) {
                return Err(choice::no_udev());
            }
            udev::verify(text)?;
        }
        tuned::check_is_ours_to_choose(host, &made)?;
        notes.extend(from_policy::notes(host, &policy, &wanted, &made, options));
        let mut deployment = Deployment {
            policy,
            disks: Vec::new(),
            files: policy_file.into_iter().chain(made).collect(),
            notes,
            change: set::Change::default(),
        };
        for wanted in wanted {
            switch::check_can_be_kept(&wanted.arm).or_problem()?;
            deployment.add(host, wanted, &chosen)?;
        }
        if !host.is_live() {
            deployment.foresee(host)?;
        }
        Ok(deployment)
    }

    /// Adds a disk, with the switch to be tried if it is not as wanted: one that was chosen is checked already.
    fn add(
        &mut self,
        host: &Host,
        wanted: WantedDisk,
        chosen: &set::Change,
    ) -> Result<(), Problem> {
        let deviations = wanted.deviations(&host.sysfs()).or_problem()?;
        if !deviations.is_empty() {
            let name = &wanted.disk.device.name;
            let is_it = |(chosen, _, arm): &&(String, _, Arm)| chosen == name && *arm == wanted.arm;
            match chosen.disks.iter().find(is_it) {
                Some(known) => self.change.disks.push(known.clone()),
                None => self.change.add(host, name.clone(), &wanted.arm)?,
            }
        }
        self.disks.push((wanted, deviations));
        Ok(())
    }

    /// Asks what nobody tries out (a copied machine, `--dry-run`): whether each disk has the tunables that the policy
    /// wants of it, and whether their values are what such a file shows.
    ///
    /// # Errors
    /// The first one that it has not, or that cannot be.
    pub fn foresee(&self, host: &Host) -> Result<(), Problem> {
        let sysfs = host.sysfs();
        for (wanted, _) in &self.disks {
            switch::foresee(&sysfs, &wanted.disk.device.name, &wanted.arm).or_problem()?;
        }
        Ok(())
    }

    /// What sets `elevator=` at every boot, for a device on the single-queue path and all others there; with no
    /// scheduler, what takes it out, on all machines.
    pub fn plan_command_line(
        host: &Host,
        wanted: Option<(&str, &str)>,
    ) -> Result<Deployment, Problem> {
        let mut notes = Vec::new();
        if let Some((device, scheduler)) = wanted {
            notes.push(check_elevator(host, device, scheduler)?);
        }
        let scheduler = wanted.map(|(_, scheduler)| scheduler);
        let files = grub::files(host, scheduler)?;
        if scheduler.is_some() && files.is_empty() && cmdline::places_of_elevator(host).is_empty() {
            let message =
                "no file of a boot loader that is known here carries the kernel's command line";
            return Err(Problem::new(exit::MISSING, message)
                .hint("a udev rule needs none: leave out --method"));
        }
        notes.extend(grub::notes(host, &files, scheduler));
        Ok(Deployment {
            policy: Policy::default(),
            disks: Vec::new(),
            files,
            notes,
            change: set::Change::default(),
        })
    }

    /// True if there is nothing to do.
    pub fn is_in_force(&self) -> bool {
        let mut disks = self.disks.iter();
        self.files.is_empty() && disks.all(|(_, deviations)| deviations.is_empty())
    }

    /// Tries, commits and reads back, or leaves the machine as it was.
    pub fn make(&self, turn: &Turn, when: When, why: Option<String>) -> Result<Deployed, Problem> {
        let mut deployed = Deployed {
            id: None,
            disks: Vec::new(),
            adjusted: Vec::new(),
            notes: Vec::new(),
        };
        if self.is_in_force() {
            return Ok(deployed);
        }
        let host = turn.host();
        let is_now = when == When::Now && host.is_live();
        let (mut tried, mut before, mut journal) = (Vec::new(), Vec::new(), None);
        if is_now && !self.change.disks.is_empty() {
            let made = self.change.make(host)?;
            deployed
                .notes
                .extend(made.settled.iter().flat_map(Settled::notes));
            before = made.journal.saved().to_vec();
            (tried, journal) = (made.disks, Some(made.journal));
        }
        let begun = turn.begin(why, self.files.clone(), before.clone());
        let mut change = match (begun, journal) {
            (Err(error), Some(journal)) => return Err(set::put_back(journal, error)),
            (begun, None) => begun?,
            (Ok(change), Some(journal)) => {
                // From here on the history has what it takes to put the disks back.
                if let Err(error) = journal.keep_changes() {
                    take_back(turn, &[], &before);
                    change.forget();
                    return Err(error);
                }
                change
            }
        };
        let mut made = Vec::new();
        let outcome = self.commit(turn, is_now, &tried, &mut made);
        let outcome = outcome.and_then(|states| change.done(states.clone()).map(|()| states));
        match outcome {
            Ok(states) => {
                if !tried.is_empty() && !udev::is_running(host) {
                    deployed.notes.push(
                        "udev does not run here: the disks were set directly, and the rules are for the next boot".into(),
                    );
                }
                deployed.id = Some(change.id());
                let devices = tried.iter().map(|(device, _)| device.clone());
                deployed.disks = devices.zip(states).collect();
                deployed.adjusted = tried
                    .into_iter()
                    .flat_map(|(_, entered)| entered.adjusted)
                    .collect();
                Ok(deployed)
            }
            Err(error) if take_back(turn, &made, &before) => {
                change.forget();
                Err(match error.code {
                    exit::INTERRUPTED => error.hint("what was written was taken back"),
                    _ => error,
                })
            }
            Err(error) => {
                let message = format!("{error}; change {} is made in part", change.id());
                Err(Problem::new(error.code, message).hint("`iosched undo` takes it back"))
            }
        }
    }

    /// Writes the files and has programs read them; the disks' states then, if udev has left them as they were tried.
    fn commit(
        &self,
        turn: &Turn,
        is_now: bool,
        tried: &[(String, Entered)],
        made: &mut Vec<FileChange>,
    ) -> Result<Vec<QueueState>, Problem> {
        let host = turn.host();
        for file in &self.files {
            file.install(host)?;
            made.push(file.clone());
        }
        let scope = turn.scope()?;
        announce(host, &scope, &self.files, turn.stop())?;
        if host.is_live() {
            for file in &self.files {
                initramfs::check(host, &scope, file, turn.stop())?;
            }
        }
        if is_now && udev::is_running(host) {
            let devices: Vec<String> = tried.iter().map(|(device, _)| device.clone()).collect();
            udev::trigger(host, &devices)?;
            self.check_applied(host, tried)?;
        }
        let sysfs = host.sysfs();
        let read = |(device, _): &(String, Entered)| QueueState::read(&sysfs, device).or_problem();
        tried.iter().map(read).collect()
    }

    /// Checks that our rule was the one applied, and that each disk is as the kernel had it when it was tried.
    fn check_applied(&self, host: &Host, tried: &[(String, Entered)]) -> Result<(), Problem> {
        let sysfs = host.sysfs();
        for (device, entered) in tried {
            let wanted = self.disks.iter().map(|(wanted, _)| wanted);
            let Some(wanted) = wanted
                .clone()
                .find(|wanted| wanted.disk.device.name == *device)
            else {
                continue;
            };
            let found = QueueState::read(&sysfs, device).or_problem()?;
            let files = wanted.arm.files_in_order();
            // Settings that the arm does not name may be another rule's business.
            let is_named = |file: &String| {
                file == "queue/scheduler" || files.iter().any(|(places, _)| places.contains(file))
            };
            let mut differences = entered.state.differences(&found).into_iter();
            let message = if let Some(it) = differences.find(|it| is_named(&it.file)) {
                format!(
                    "{device}: udev made {} {}, not {}: another rule or program comes after ours",
                    it.file, it.found, it.expected
                )
            } else if wanted.is_kept(&self.policy) && !self.is_marked(host, wanted) {
                format!("{device}: our rule was not applied by udev")
            } else {
                continue;
            };
            return Err(Problem::new(exit::NOT_TAKEN, message)
                .hint("everything was taken back; `iosched check` names who else sets it"));
        }
        Ok(())
    }

    /// True if udev's database says that our rule was the one applied.
    fn is_marked(&self, host: &Host, wanted: &WantedDisk) -> bool {
        // What cannot be read does not say so.
        let properties = Properties::read(host, &wanted.disk.device).unwrap_or_default();
        let name = &self.policy.rules[wanted.rule].name;
        properties.get(rules::MARK) == Some(&rules::mark(name))
    }
}

/// Asks whether the disks of a device listen to `elevator=` with this value; a note on all that do.
fn check_elevator(host: &Host, device: &str, scheduler: &str) -> Result<String, Problem> {
    let device = device::find(host, device)?;
    let disks = matching::disks(host)?;
    let listens = |disk: &Device| switch::is_single_queue(disk.schedulers.offered());
    let of = disks.iter().map(|disk| &disk.device);
    let names: Vec<&str> = of
        .filter(|disk| listens(disk))
        .map(|disk| disk.name.as_str())
        .collect();
    let listening = names.join(", ");
    if listening.is_empty() {
        let kernel = host.kernel_version();
        let kernel = kernel.map_or("of unknown version".into(), |version| version.to_string());
        let message = format!(
            "elevator= has no effect on Linux {kernel}: no disk here is on the single-queue path, which 5.0 removed"
        );
        return Err(Problem::new(exit::MISSING, message)
            .hint("leave out --method: a udev rule does it, disk by disk"));
    }
    let not_for = |name: &str| {
        let message =
            format!("elevator= does nothing for {name}, which is not on the single-queue path");
        let way = format!("leave out --method: a udev rule does it; elevator= is for {listening}");
        Err(Problem::new(exit::MISSING, message).hint(way))
    };
    let below =
        device::schedulable_disks(host, &device).map_err(|error| matching::not_listed(&error))?;
    if below.is_empty() {
        return not_for(&device.name);
    }
    for disk in below {
        let offered = disk.schedulers.offered().to_vec();
        if !listens(&disk) {
            return not_for(&disk.name);
        }
        if !offered.iter().any(|name| name == scheduler) {
            return Err(switch::not_offered(&disk.name, scheduler, &offered)).or_problem();
        }
    }
    Ok(format!(
        "elevator= is for all disks on the single-queue path, from the next boot on: {listening}"
    ))
}

/// Puts files and disks back after a failure; true if all is as before.
fn take_back(turn: &Turn, made: &[FileChange], before: &[SavedDisk]) -> bool {
    let host = turn.host();
    let files = made
        .iter()
        .rev()
        .all(|file| file.reversed().install(host).is_ok());
    // A second Ctrl-C ends that, too: what is left then is for `undo`.
    turn.stop().forget();
    let announced = turn
        .scope()
        .and_then(|scope| announce(host, &scope, made, turn.stop()))
        .is_ok();
    let disks = before
        .iter()
        .filter(|_| host.is_live())
        .all(|disk| Undone::is_settled(&disk.undo(host, true)));
    files && announced && disks
}

#[cfg(test)]
mod tests {
    use iosched_machine::device::fixture::LoopDevice;
    use std::fs;
    use std::process::Command;

    use iosched_machine::process::Stop;

    use super::*;
    use crate::history;

    /// This machine with a disk that has a serial number, until the test ends: a made `/sys`, in which the disk is a loop
    /// device, an empty `/etc`, and no rules of udev.
    struct Bench {
        disk: LoopDevice,
        sys: tempfile::TempDir,
        udev: Option<std::process::Child>,
    }

    impl Bench {
        fn new() -> Option<Bench> {
            let disk = LoopDevice::new(8)?;
            iosched_testing::world::own_mounts().unwrap();
            let sys = tempfile::tempdir().unwrap();
            fs::create_dir(sys.path().join("block")).unwrap();
            let real = format!("/sys/block/{}", disk.name);
            std::os::unix::fs::symlink(&real, sys.path().join("block/sda")).unwrap();
            let number = fs::read_to_string(format!("{real}/dev")).unwrap();
            let (major, minor) = number.trim().split_once(':').unwrap();
            let script = format!(
                "mkdir -p /run/udev /usr/lib/udev/rules.d
                 for at in /etc /run/udev /usr/lib/udev/rules.d /dev; do mount -t tmpfs none $at; done
                 mkdir /run/udev/data; echo E:ID_SERIAL=S1 >/run/udev/data/b{major}:{minor}
                 mknod /dev/null c 1 3; for name in sda {}; do mknod /dev/$name b {major} {minor}; done
                 mkdir -p /etc/udev/rules.d
                 echo 'KERNEL==\"{0}\", ENV{{ID_SERIAL}}=\"S1\"' >/etc/udev/rules.d/10-serial.rules",
                disk.name
            );
            let made = Command::new("sh").args(["-ec", &script]).status();
            assert!(made.unwrap().success());
            fs::write(format!("{real}/queue/scheduler"), "mq-deadline").unwrap();
            let udev = None;
            Some(Bench { disk, sys, udev })
        }

        /// With a udev of its own.
        fn with_udev() -> Option<Bench> {
            let mut bench = Bench::new()?;
            if let Ok(child) = Command::new("/lib/systemd/systemd-udevd").spawn() {
                bench.udev = Some(child);
            } else {
                iosched_testing::lacks("systemd-udevd");
                return None;
            }
            assert!(iosched_testing::wait_until(|| Path::new(
                "/run/udev/control"
            )
            .exists()));
            Some(bench)
        }

        fn host(&self) -> Host {
            Host::with_sysfs_at(self.sys.path())
        }

        fn scheduler(&self) -> String {
            switch::active(&self.host().sysfs(), "sda").unwrap()
        }

        /// Makes bfq stay; takes it back if that worked.
        fn keep_and_undo(&self, host: &Host) -> Result<Deployed, Problem> {
            let policy = "[[rule]]\nname = 'a'\nmatch = { serial = 'S1' }\nscheduler = 'bfq'\n";
            let options = DeployOptions::default();
            let plan = Deployment::plan(host, Request::Text(policy), options).unwrap();
            let turn = history::take_turn(host, &Stop::new(), &mut |_| {}).unwrap();
            let made = plan.make(&turn, When::Now, None);
            assert_eq!(made.is_ok(), Path::new(rules::PATH).exists(), "{made:?}");
            if made.is_ok() {
                assert_eq!(self.scheduler(), "bfq");
                turn.undo().unwrap();
            }
            assert_eq!(self.scheduler(), "mq-deadline", "{made:?}");
            assert!(!Path::new(rules::PATH).exists());
            made
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            if let Some(udev) = &mut self.udev {
                udev.kill().unwrap();
                udev.wait().unwrap();
            }
        }
    }

    #[test]
    fn whichever_write_fails_the_disk_ends_as_it_began_or_its_original_is_in_the_history() {
        let Some(bench) = Bench::new() else { return };
        for write in 1..=8 {
            let _ = bench.keep_and_undo(&bench.host().failing_write(write));
        }
        assert!(bench.keep_and_undo(&bench.host()).is_ok());
    }

    #[test]
    fn what_udev_then_does_is_read_back_and_all_is_taken_back_if_it_is_not_ours() {
        let Some(bench) = Bench::with_udev() else {
            return;
        };
        let made = bench.keep_and_undo(&bench.host()).unwrap();
        assert_eq!(
            (made.disks[0].1.scheduler.as_str(), made.notes.len()),
            ("bfq", 0)
        );
        for (file, rule, said) in [
            (
                "99-zz.rules",
                "ATTR{queue/scheduler}=\"kyber\"",
                "sda: udev made queue/scheduler kyber, not bfq: another rule or program comes after ours",
            ),
            (
                "98-x.rules",
                "ENV{ID_SERIAL}=\"S2\"",
                "sda: our rule was not applied by udev",
            ),
        ] {
            let file = Path::new("/etc/udev/rules.d").join(file);
            fs::write(&file, format!("KERNEL==\"{}\", {rule}\n", bench.disk.name)).unwrap();
            let error = bench.keep_and_undo(&bench.host()).unwrap_err();
            assert_eq!(
                (error.message.as_str(), error.code),
                (said, exit::NOT_TAKEN)
            );
            fs::remove_file(&file).unwrap();
        }
    }
}
