//! Who else sets a disk's queue: what udev's rules do to it, and every line elsewhere that may.
//!
//! Only udev can be followed without running anything: its rules say for which disk they are and what they write
//! (`udev`), and `queue` says what becomes of each write. Everything else is searched for lines that name a file of
//! a queue (`scan`): such a line *may* set the disk, later in the boot than udev.

pub(crate) mod queue;
pub(crate) mod rule_text;
pub(crate) mod scan;
mod substitute;
pub(crate) mod udev;

use std::fmt;
use std::path::{Path, PathBuf};

use iosched_machine::host::Host;
use serde::Serialize;

use self::queue::Assignment;
use self::scan::FoundLine;
use self::udev::RuleFile;
use crate::policy::matching::KnownDisk;
use crate::system_config::cmdline;
use crate::system_config::rules;

/// The file that holds the scheduler, below the directory of a disk.
pub const SCHEDULER: &str = "queue/scheduler";

/// Something that writes, or may write, a file of a disk's queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Writer {
    /// What it is.
    pub kind: WriterKind,
    /// The file that says so.
    pub file: PathBuf,
    /// The line in it, from 1; 0 for the whole file.
    pub line: usize,
    /// What is written, below `/sys/block/<device>/`.
    pub target: String,
    /// The value; none if only running it would tell.
    pub value: Option<String>,
    /// False if a condition of the rule cannot be judged from here, and for every [`Effect::MaySet`].
    pub certain: bool,
    /// What becomes of it.
    pub effect: Effect,
    /// Why it has no effect, or may have none.
    pub why: Option<String>,
    /// The line as it stands there, for [`Effect::MaySet`].
    pub text: Option<String>,
}

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The queue has this value once udev is through.
    InEffect,
    /// A later write, or a switch of the scheduler, replaces it.
    Lost,
    /// The kernel refuses it.
    Fails,
    /// The line names the file; nothing more is known without running it.
    MaySet,
}

/// What a writer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriterKind {
    /// The default of a kernel before 5.0 (`CONFIG_DEFAULT_IOSCHED`).
    KernelConfig,
    /// `elevator=` on the command line of a kernel before 5.0.
    CommandLine,
    /// A script of the initramfs.
    Initramfs,
    /// `modprobe.d`.
    Modprobe,
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
    /// A script of the boot: `rc.local`, one of an init of old or of OpenRC.
    BootScript,
    /// A table of cron.
    Cron,
    /// A script that runs before or after sleep.
    SleepHook,
    /// cloud-init.
    CloudInit,
    /// TLP.
    Tlp,
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
            WriterKind::KernelConfig => "kernel configuration",
            WriterKind::CommandLine => "the kernel's command line",
            WriterKind::Initramfs => "initramfs script",
            WriterKind::Modprobe => "modprobe",
            WriterKind::UdevRule => "udev rule",
            WriterKind::UdevProgram => "program of a udev rule",
            WriterKind::Mdev => "mdev",
            WriterKind::Tmpfiles => "systemd-tmpfiles",
            WriterKind::Unit => "systemd unit",
            WriterKind::Sysfsutils => "sysfsutils",
            WriterKind::BootScript => "boot script",
            WriterKind::Cron => "cron",
            WriterKind::SleepHook => "sleep hook",
            WriterKind::CloudInit => "cloud-init",
            WriterKind::Tlp => "TLP",
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

    /// True if it is not switched off, as far as one look tells.
    pub fn is_active(&self) -> bool {
        self.effect == Effect::InEffect || self.effect == Effect::MaySet && self.why.is_none()
    }

    /// True if it writes a value that leads to `found`, or has it as a word of its line.
    pub(crate) fn has(&self, found: &str) -> bool {
        if let Some(value) = &self.value {
            return means(value, found);
        }
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let text = self.text.as_deref().unwrap_or_default();
        text.split(|c| !is_of_word(c))
            .any(|word| means(word, found))
    }
}

/// What sets the disks of a machine, read once for all of them.
#[derive(Debug)]
pub struct Writers<'a> {
    host: &'a Host,
    rules: Vec<RuleFile>,
    lines: Vec<FoundLine>,
}

impl Writers<'_> {
    /// Reads the rules of udev, and searches the other places.
    pub fn of(host: &Host) -> Writers<'_> {
        Writers {
            host,
            rules: udev::rule_files(host),
            lines: scan::machine(host),
        }
    }

    /// Everything that sets a disk at boot: udev's writes in their order, then the lines that may set it.
    pub fn at_boot(&self, disk: &KnownDisk) -> Vec<Writer> {
        let mut assignments = Vec::from_iter(command_line(self.host, disk));
        let mut programs = Vec::new();
        // One of the device mapper has no table before its first change; it is added besides if the initramfs made it.
        let is_mapped = disk.device.name.starts_with("dm-");
        for action in if is_mapped {
            &["add", "change"][..]
        } else {
            &["add"]
        } {
            let mut followed = udev::followed(self.host, &self.rules, disk, action);
            for assignment in &mut followed.assignments {
                assignment.certain &= !is_mapped || *action == "change";
            }
            assignments.extend(followed.assignments);
            programs.extend(followed.programs);
        }
        let mut found = queue::effects(self.host, disk, assignments, None);
        programs.dedup();
        let lines = programs.iter().chain(&self.lines);
        found.extend(lines.filter_map(|line| line.on(disk)));
        found
    }

    /// Everything that sets it when udev has a `change` event.
    pub fn on_change(&self, disk: &KnownDisk) -> Vec<Writer> {
        let followed = udev::followed(self.host, &self.rules, disk, "change");
        let active = disk.device.schedulers.active();
        let mut found = queue::effects(self.host, disk, followed.assignments, active);
        found.extend(followed.programs.iter().filter_map(|line| line.on(disk)));
        found
    }

    /// True if a rule of udev reads `elevator=` (RHEL 8 and 9 bring it back to life so).
    pub(crate) fn reads_elevator(&self) -> bool {
        udev::imports_from_command_line(&self.rules, "elevator")
    }
}

/// `elevator=` if the disk listens to it: one on the single-queue path that has a scheduler of this name.
fn command_line(host: &Host, disk: &KnownDisk) -> Option<Assignment> {
    let offered = disk.device.schedulers.offered();
    let value = cmdline::given_at_boot(host)
        .filter(|value| iosched_switch::is_single_queue(offered) && offered.contains(value))?;
    Some(Assignment {
        kind: WriterKind::CommandLine,
        file: "/proc/cmdline".into(),
        line: 0,
        target: SCHEDULER.into(),
        value: Some(value),
        certain: true,
    })
}

/// The write that stays in effect for a file of the queue, as far as udev decides. One that is only perhaps made is passed
/// over for one that surely is.
pub fn winner<'a>(writers: &'a [Writer], target: &str) -> Option<&'a Writer> {
    let mut of_target = writers
        .iter()
        .rev()
        .filter(|writer| writer.target == target && writer.effect == Effect::InEffect);
    let last = of_target.clone().next();
    of_target.find(|writer| writer.certain).or(last)
}

/// The lines that may set a file of the queue after udev, and are not switched off.
pub fn may_set<'a>(writers: &'a [Writer], target: &str) -> impl Iterator<Item = &'a Writer> {
    let of_target = move |writer: &&Writer| writer.target == target || writer.target == scan::ANY;
    let active = writers.iter().filter(|writer| writer.is_active());
    active.filter(move |writer| writer.effect == Effect::MaySet && of_target(writer))
}

/// Most likely who made a file hold this value: the last write of it in effect, else the last line that has it, else
/// the last line of which the value is not known.
pub(crate) fn culprit<'a>(writers: &'a [Writer], target: &str, found: &str) -> Option<&'a Writer> {
    let theirs: Vec<&Writer> = writers.iter().filter(|writer| !writer.is_ours()).collect();
    let written = theirs.iter().rev().filter(|writer| {
        writer.effect == Effect::InEffect && writer.target == target && writer.has(found)
    });
    let written = written.min_by_key(|writer| !writer.certain);
    let may = || may_set(writers, target).filter(|writer| !writer.is_ours());
    written
        .copied()
        .or_else(|| may().filter(|writer| writer.has(found)).last())
        .or_else(|| may().filter(|writer| !writer.names_a_scheduler()).last())
}

impl Writer {
    /// True if its line has the name of a scheduler: then that is what it writes.
    fn names_a_scheduler(&self) -> bool {
        let mut names = "none mq-deadline kyber bfq noop deadline cfq adios".split(' ');
        names.any(|name| self.has(name))
    }
}

/// True if writing `value` leads to `found`: the same value in any spelling; blk-mq knows mq-deadline by its old name, too,
/// and no other; TuneD's `>4096` leaves what is more.
pub(crate) fn means(value: &str, found: &str) -> bool {
    iosched_switch::means(value, found) || iosched_switch::is_alias(value, found)
}
