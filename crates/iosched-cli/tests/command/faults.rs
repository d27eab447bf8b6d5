//! Commands whose n-th system call fails, or that are killed before it: whatever they were doing, the machine
//! is then as before or as committed, the next command finishes what is left, and what is said is one error.
//!
//! Which calls: some, drawn by `IOSCHED_TEST_SEED`. `IOSCHED_TEST_FAULTS` says how many, or `all`, as
//! `make test-full` does, or which one: `Fail Open 17`, as a failure names it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use iosched_testing::is_root;

use crate::common::chance::{Chance, seed};
use crate::common::machine::{Machine, is_unfinished};
use crate::common::traced::{self, End, Kind, Traced, Way};
use crate::common::tuning::{MIB, small_disk};
use crate::common::{
    LoopDevice, Mounted, can_use_loop_devices, iosched, iosched_process, processes_with, wait_until,
};

/// So many faults of a command are tried where nothing else is said, and so many of one that measures.
const DRAWN: usize = 16;
const DRAWN_OF_RUNS: usize = 4;

/// A command in surroundings that can be brought about again and again.
trait Situation {
    /// Brings them about.
    fn prepare(&mut self);

    /// The command.
    fn command(&self) -> Command;

    /// What must hold after it, however it ended; `Err` says what does not.
    fn holds(&mut self, run: &Traced) -> Result<(), String>;
}

/// What happens at which call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    way: Way,
    /// Counted are its calls; those before which it matters to be killed if it is `None`.
    kind: Option<Kind>,
    n: usize,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self
            .kind
            .map_or("Any".to_owned(), |kind| format!("{kind:?}"));
        write!(f, "{:?} {kind} {}", self.way, self.n)
    }
}

impl Fault {
    fn is_wanted(self, kind: Kind) -> bool {
        self.kind
            .map_or_else(|| matters(kind), |wanted| wanted == kind)
    }

    /// All that can happen to a command that makes these calls.
    fn all(calls: &BTreeMap<Kind, usize>) -> Vec<Fault> {
        let kills: usize = calls
            .iter()
            .filter(|(kind, _)| matters(**kind))
            .map(|(_, n)| n)
            .sum();
        let kind = None;
        let mut all: Vec<Fault> = (1..=kills)
            .map(|n| Fault {
                way: Way::Kill,
                kind,
                n,
            })
            .collect();
        for (&kind, &count) in calls {
            let kind = Some(kind);
            for n in 1..=count {
                all.push(Fault {
                    way: Way::Fail,
                    kind,
                    n,
                });
                all.push(Fault {
                    way: Way::FailEver,
                    kind,
                    n,
                });
            }
        }
        all.retain(|fault| fault.way.is_possible());
        all
    }

    /// Those that are tried.
    fn chosen(calls: &BTreeMap<Kind, usize>, drawn: usize) -> Vec<Fault> {
        let mut all = Fault::all(calls);
        let wanted = std::env::var("IOSCHED_TEST_FAULTS").unwrap_or(drawn.to_string());
        if let Ok(count) = wanted.parse::<usize>() {
            let mut chance = Chance::new(seed());
            let drawn = (0..count.min(all.len())).map(|_| all.swap_remove(chance.below(all.len())));
            return drawn.collect();
        }
        all.retain(|fault| wanted == "all" || fault.to_string() == wanted);
        all
    }
}

/// What is changed stays after a kill; between two calls that change nothing, nothing is to be seen.
fn matters(kind: Kind) -> bool {
    kind.is_change() || matches!(kind, Kind::Ioctl | Kind::Mount | Kind::Fork | Kind::Lock)
}

/// Tries faults, and fails with all that does not hold.
fn at_calls(name: &str, drawn: usize, situation: &mut dyn Situation) {
    situation.prepare();
    let whole = traced::count(&mut situation.command());
    assert_eq!(whole.end, End::Exited(0), "{whole:?}");
    situation.holds(&whole).unwrap();

    let faults = Fault::chosen(&whole.calls, drawn);
    assert!(!faults.is_empty());
    let (mut ends, mut wrong) = (BTreeMap::new(), Vec::new());
    for &fault in &faults {
        situation.prepare();
        let mut command = situation.command();
        let run = traced::run(
            &mut command,
            |kind| fault.is_wanted(kind),
            fault.n,
            fault.way,
        );
        if run.hit.is_none() {
            continue; // threads take turns: it made fewer such calls this time
        }
        *ends
            .entry(format!("{:?} {:?}", fault.way, run.end))
            .or_insert(0) += 1;
        let verdict = is_well_said(fault, &run).and_then(|()| situation.holds(&run));
        if let Err(what) = verdict {
            let hit = run.hit.as_deref().unwrap_or_default();
            let end = &run.end;
            wrong.push(format!("{fault} ({hit}), {end:?}: {what}\n{}", run.stderr));
        }
    }
    eprintln!(
        "{name}: {} faults, {} wrong; {ends:?}",
        faults.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n---\n"));
}

/// A command does not panic, and an error is one.
fn is_well_said(fault: Fault, run: &Traced) -> Result<(), String> {
    /// The exit code of a Rust program that panics, and that of a dynamic loader that gives up.
    const PANIC: i32 = 101;
    const LOADER: i32 = 127;
    // Before `main` there is nobody to say it better.
    let is_of_rust = run.stderr.contains("/stack_overflow.rs:");
    if (run.stderr.contains("panicked at") && !is_of_rust) || run.end == End::Exited(PANIC) {
        return Err("it panics".into());
    }
    let can_say = fault.kind != Some(Kind::Write) && !matches!(run.end, End::Exited(0 | LOADER));
    let errors = run
        .stderr
        .lines()
        .filter(|line| line.starts_with("error: "))
        .count();
    if can_say && run.end != End::Killed && errors != 1 {
        return Err(format!("it says {errors} errors"));
    }
    Ok(())
}

/// Asks for something with words for people.
fn must(is_so: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what()) }
}

/// What two maps have that differs.
fn difference(is: &BTreeMap<String, String>, was: &BTreeMap<String, String>) -> String {
    let names = is.keys().chain(was.keys());
    let differ = names.filter(|name| is.get(*name) != was.get(*name));
    let lines = differ.map(|name| format!("{name}: {:?}, was {:?}", is.get(name), was.get(name)));
    lines.collect::<Vec<_>>().join("; ")
}

/// `iosched restore` must say that all is as before, and leave nothing in the journal.
fn restore() -> Result<(), String> {
    let output = iosched().arg("restore").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    must(output.status.success(), || format!("restore: {said}"))?;
    let left = names(Path::new("/var/lib/iosched/journal"));
    must(left.is_empty(), || format!("left in the journal: {left:?}"))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Takes back all changes that the history has.
fn undo_all() -> Result<(), String> {
    loop {
        let output = iosched().arg("undo").output().unwrap();
        match output.status.code() {
            Some(0) => {}
            code => {
                let said = String::from_utf8_lossy(&output.stdout);
                let error = String::from_utf8_lossy(&output.stderr);
                let is_done = code == Some(1) && error.contains("no change to take back");
                return must(is_done, || {
                    format!("undo ends with {code:?}: {said}{error}")
                });
            }
        }
    }
}

/// `iosched set`, or the `iosched undo` after it.
struct Set {
    disk: LoopDevice,
    is_undo: bool,
    before: BTreeMap<String, String>,
    after: BTreeMap<String, String>,
}

impl Set {
    fn new(is_undo: bool) -> Option<Set> {
        if !can_use_loop_devices() {
            return None;
        }
        let mut set = Set {
            disk: LoopDevice::new(8 * MIB),
            is_undo,
            before: BTreeMap::new(),
            after: BTreeMap::new(),
        };
        set.begin_anew();
        set.before = set.disk.whole_queue();
        set.set();
        set.after = set.disk.whole_queue();
        assert_ne!(set.after, set.before);
        Some(set)
    }

    /// Whatever came before, which may have failed.
    fn begin_anew(&self) {
        for directory in ["history", "journal"] {
            let _ = fs::remove_dir_all(Path::new("/var/lib/iosched").join(directory));
        }
        for (file, value) in [
            ("scheduler", "none"),
            ("scheduler", "mq-deadline"),
            ("iosched/fifo_batch", "7"),
            ("nr_requests", "99"),
        ] {
            self.disk.write(file, value);
        }
    }

    fn arguments(&self) -> [&str; 5] {
        [
            "set",
            &self.disk.name,
            "bfq",
            "low_latency=0",
            "nr_requests=64",
        ]
    }

    fn set(&self) {
        iosched().args(self.arguments()).assert().success();
    }
}

impl Situation for Set {
    fn prepare(&mut self) {
        self.begin_anew();
        assert_eq!(self.disk.whole_queue(), self.before);
        if self.is_undo {
            self.set();
        }
    }

    fn command(&self) -> Command {
        let mut command = iosched_process();
        if self.is_undo {
            command.arg("undo");
        } else {
            command.args(self.arguments());
        }
        command
    }

    fn holds(&mut self, run: &Traced) -> Result<(), String> {
        let (from, to) = if self.is_undo {
            (&self.after, &self.before)
        } else {
            (&self.before, &self.after)
        };
        restore()?;
        let is = self.disk.whole_queue();
        if run.end == End::Exited(0) {
            must(is == *to, || format!("not done: {}", difference(&is, to)))?;
        }
        must(is == *from || is == *to, || {
            format!("half: {}", difference(&is, to))
        })?;
        undo_all()?;
        let is = self.disk.whole_queue();
        must(is == self.before, || {
            format!("not taken back: {}", difference(&is, &self.before))
        })
    }
}

#[test]
fn set_is_done_or_not_done_whatever_fails() {
    if let Some(mut set) = Set::new(false) {
        at_calls("set", DRAWN, &mut set);
    }
}

#[test]
fn undo_is_done_or_not_done_whatever_fails() {
    if let Some(mut undo) = Set::new(true) {
        at_calls("undo", DRAWN, &mut undo);
    }
}

/// `iosched persist`, `iosched undo` after it, or `iosched apply`, on a copied tree.
struct Persist {
    command: &'static str,
    machine: Machine,
    /// Before all changes.
    at_first: BTreeMap<PathBuf, String>,
    before: BTreeMap<PathBuf, String>,
    after: BTreeMap<PathBuf, String>,
}

impl Persist {
    fn new(command: &'static str) -> Persist {
        let mut persist = Persist {
            command,
            machine: Machine::two_disks(),
            at_first: BTreeMap::new(),
            before: BTreeMap::new(),
            after: BTreeMap::new(),
        };
        persist.at_first = persist.etc();
        persist.prepare();
        let output = persist.command().output().unwrap();
        assert!(output.status.success(), "{output:?}");
        persist.after = persist.etc();
        persist
    }

    /// Below `/etc`, by what it is called there.
    fn etc(&self) -> BTreeMap<PathBuf, String> {
        let files = self.machine.etc().into_iter();
        let root = self.machine.root();
        files
            .map(|(path, text)| (path.strip_prefix(root).unwrap().to_owned(), text))
            .collect()
    }
}

impl Situation for Persist {
    fn prepare(&mut self) {
        self.machine = Machine::two_disks();
        self.machine.succeeds("persist", &["--yes", "sdb", "none"]);
        match self.command {
            "undo" => {
                self.machine.succeeds("persist", &["--yes", "sda", "bfq"]);
            }
            "apply" => {
                let policy = self.machine.read("etc/iosched/policy.toml");
                let policy = policy.replace("\"none\"", "\"mq-deadline\"");
                self.machine.write("etc/iosched/policy.toml", &policy);
            }
            _ => {}
        }
        self.before = self.etc();
    }

    fn command(&self) -> Command {
        let mut command = iosched_process();
        command
            .arg(self.command)
            .arg("--root")
            .arg(self.machine.root());
        match self.command {
            "persist" => command.args(["--yes", "sda", "bfq"]),
            "apply" => command.arg("--yes"),
            _ => &mut command,
        };
        command
    }

    fn holds(&mut self, run: &Traced) -> Result<(), String> {
        let is = self.etc();
        let told = format!("{is:#?}");
        match run.end {
            End::Exited(0) => must(is == self.after, || format!("not done: {told}"))?,
            End::Exited(_) if run.way != Way::FailEver => {
                let is_whole = is == self.before || is == self.after;
                must(is_whole, || format!("half: {told}"))?;
            }
            // Not even what was changed can be changed back.
            End::Exited(_) | End::Killed => {}
        }
        // The next one finishes what is left.
        let mut again = self.command();
        let output = again.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_undone = self.command == "undo" && output.status.code() == Some(1);
        must(output.status.success() || is_undone, || {
            format!("again: {said}")
        })?;
        let mut expected = &self.after;
        if self.command == "undo" {
            while self.machine.run("undo", &[]).0 == 0 {}
            expected = &self.at_first;
        }
        let is = self.etc();
        must(is == *expected, || format!("not finished: {is:#?}"))?;
        let left: Vec<_> = is.keys().filter(|path| is_unfinished(path)).collect();
        must(left.is_empty(), || format!("left: {left:?}"))
    }
}

#[test]
fn persist_is_done_or_not_done_whatever_fails() {
    at_calls("persist", DRAWN, &mut Persist::new("persist"));
}

#[test]
fn undo_of_persist_is_done_or_not_done_whatever_fails() {
    at_calls("undo of persist", DRAWN, &mut Persist::new("undo"));
}

#[test]
fn apply_is_done_or_not_done_whatever_fails() {
    at_calls("apply", DRAWN, &mut Persist::new("apply"));
}

/// `iosched tune` of a raw disk, of a directory or with a file system of its own; or `--resume` of the first.
struct Tune {
    on: On,
    records: tempfile::TempDir,
    before: BTreeMap<String, String>,
    runs: usize,
}

enum On {
    Raw(LoopDevice),
    Resumed(LoopDevice),
    FileSystem(LoopDevice),
    Directory(Mounted),
}

impl On {
    fn disk(&self) -> &LoopDevice {
        match self {
            On::Raw(disk) | On::Resumed(disk) | On::FileSystem(disk) => disk,
            On::Directory(mounted) => &mounted.disk,
        }
    }
}

/// Four trials.
const SHORT: &[&str] = &[
    "--arms",
    "none,mq-deadline",
    "--fixed-rounds",
    "2",
    "--runtime",
    "50ms",
    "--no-html",
];

impl Tune {
    fn new(on: On) -> Tune {
        on.disk().write("read_ahead_kb", "72");
        let mut tune = Tune {
            before: BTreeMap::new(),
            on,
            records: tempfile::tempdir().unwrap(),
            runs: 0,
        };
        tune.before = tune.queue();
        tune
    }

    /// All of the queue, but for what the kernel finds out by itself when mkfs asks the disk for it.
    fn queue(&self) -> BTreeMap<String, String> {
        let mut queue = self.on.disk().whole_queue();
        queue.remove("write_zeroes_max_bytes");
        queue
    }

    fn out(&self) -> PathBuf {
        self.records.path().join(self.runs.to_string())
    }

    /// A record that lacks all but its first trial.
    fn prepare_record(&self, disk: &LoopDevice) {
        let output = iosched()
            .args(["tune", &disk.name, "--out"])
            .arg(self.out())
            .args(SHORT)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let path = self.out().join("record.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let first = lines
            .iter()
            .position(|line| line.contains("\"type\":\"trial\""))
            .unwrap();
        fs::write(path, lines[..=first].concat()).unwrap();
    }
}

impl Situation for Tune {
    fn prepare(&mut self) {
        let _ = fs::remove_dir_all(self.out());
        self.runs += 1;
        if let On::Resumed(disk) = &self.on {
            self.prepare_record(disk);
        }
    }

    fn command(&self) -> Command {
        let mut command = iosched_process();
        command.arg("tune");
        match &self.on {
            On::Resumed(_) => {
                command.arg("--no-html").arg("--resume").arg(self.out());
                return command;
            }
            On::Raw(disk) => command.arg(&disk.name),
            On::FileSystem(disk) => command.args([
                &disk.name,
                "--mkfs",
                "ext4",
                &format!("--destroy-data={}", disk.name),
                "--file-size",
                "4M",
            ]),
            On::Directory(mounted) => command.args([mounted.path(), "--file-size", "4M"]),
        };
        command.args(SHORT).arg("--out").arg(self.out());
        command
    }

    fn holds(&mut self, run: &Traced) -> Result<(), String> {
        let disk = self.on.disk();
        let node = disk.path().display().to_string();
        let is_free = wait_until(|| processes_with(&node).is_empty());
        must(is_free, || {
            format!("processes go on: {:?}", processes_with(&node))
        })?;
        let is = self.queue();
        if matches!(run.end, End::Exited(_)) && !is_cut_off(run) {
            let left = names(Path::new("/var/lib/iosched/journal"));
            must(is == self.before, || {
                format!("not put back: {}", difference(&is, &self.before))
            })?;
            must(left.is_empty(), || format!("left in the journal: {left:?}"))?;
        }
        restore()?;
        let is = self.queue();
        must(is == self.before, || {
            format!("not restored: {}", difference(&is, &self.before))
        })?;
        if let On::Directory(mounted) = &self.on {
            let left = mounted.names();
            must(left.is_empty(), || {
                format!("left in the directory: {left:?}")
            })?;
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let is_mounted = matches!(self.on, On::FileSystem(_)) && mounts.contains(&node);
        must(!is_mounted, || format!("still mounted:\n{mounts}"))?;
        // The directories that these stand in stay.
        let below = ["mounted", "emulated"].map(|name| Path::new("/run/iosched").join(name));
        let left: Vec<_> = below
            .iter()
            .flat_map(|directory| names(directory))
            .collect();
        must(left.is_empty(), || {
            format!("left in /run/iosched: {left:?}")
        })
    }
}

/// True if something failed that it needs to put back what it changed; then it says so, and the journal stays.
fn is_cut_off(run: &Traced) -> bool {
    run.stderr.contains("iosched restore")
}

#[test]
fn a_run_on_a_raw_disk_ends_as_it_began_whatever_fails() {
    if let Some(disk) = small_disk() {
        at_calls(
            "tune of a disk",
            DRAWN_OF_RUNS,
            &mut Tune::new(On::Raw(disk)),
        );
    }
}

#[test]
fn a_run_that_goes_on_ends_as_it_began_whatever_fails() {
    if let Some(disk) = small_disk() {
        at_calls(
            "tune --resume",
            DRAWN_OF_RUNS,
            &mut Tune::new(On::Resumed(disk)),
        );
    }
}

#[test]
fn a_run_with_a_file_system_of_its_own_ends_as_it_began_whatever_fails() {
    if let Some(disk) = small_disk() {
        at_calls(
            "tune --mkfs",
            DRAWN_OF_RUNS,
            &mut Tune::new(On::FileSystem(disk)),
        );
    }
}

#[test]
fn a_run_in_a_directory_ends_as_it_began_whatever_fails() {
    if is_root() && small_disk().is_some() {
        let mounted = Mounted::new(64 * MIB);
        at_calls(
            "tune of a directory",
            DRAWN_OF_RUNS,
            &mut Tune::new(On::Directory(mounted)),
        );
    }
}
