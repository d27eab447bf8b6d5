//! Power cuts at random moments of commands: whatever of their last writes a disk has, each file of the journal and
//! of the history is whole or absent, what a command has said is so, and `restore`, `undo` and `tune --resume` go on
//! from there.
//!
//! Commands run once while their disks are recorded (`common::power`), and the cuts are replayed from that; once more
//! for each disk, with a neighbour that syncs a file on it. `IOSCHED_TEST_CUTS_REPLAYED` says how many cuts,
//! `IOSCHED_TEST_SEED` which: a recording differs a little from the next one, so a seed brings about similar cuts and
//! not the same ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::chance::{Chance, number, seed};
use crate::common::checks::{difference, must, names, restore, undo_all};
use crate::common::machine::{Machine, is_unfinished};
use crate::common::power::{Boots, NEIGHBOUR, RecordedDisks, Recording};
use crate::common::tuning::{MIB, SHORTEST, small_disk};
use crate::common::{LoopDevice, can_emulate, has_fio, iosched, iosched_process, run, text};

/// So many where nothing else is said.
const CUTS: u64 = 12;

/// Where the command keeps what must outlive a power cut.
const STATE: &str = "/var/lib/iosched";

/// Commands whose disks lose power.
trait Scene {
    /// Where the disks are mounted that are recorded, the one with the state of the command first.
    fn places(&self) -> Vec<PathBuf>;

    /// Runs the commands. Gives the positions in the log at which they had said something.
    fn play(&mut self, recorded: &RecordedDisks, neighbour: Option<usize>) -> Vec<usize>;

    /// What must hold after a power cut before which so many of those things were said: gives in a word what
    /// was found, `Err` says what does not hold.
    fn holds(&mut self, said: usize) -> Result<String, String>;
}

/// Replays cuts, and fails with all that does not hold.
fn at_cuts(name: &str, scene: &mut dyn Scene) {
    let cuts = usize::try_from(number("IOSCHED_TEST_CUTS_REPLAYED", CUTS)).unwrap();
    let mut chance = Chance::new(seed());
    let (mut found, mut wrong) = (BTreeMap::new(), Vec::new());
    let mut boots = Boots::new();
    let disks = scene.places().len();
    let neighbours: Vec<_> = std::iter::once(None).chain((0..disks).map(Some)).collect();
    for &neighbour in &neighbours {
        boots.next();
        let (recording, said) = record(scene, neighbour);
        for _ in 0..cuts.div_ceil(neighbours.len()) {
            let cut = drawn(&said, recording.len(), &mut chance);
            let said_before = said.partition_point(|&position| position <= cut);
            boots.next();
            let _restarted = recording.restart_after(cut, &mut chance);
            match scene.holds(said_before) {
                Ok(state) => *found.entry(state).or_insert(0) += 1,
                Err(what) => wrong.push(format!(
                    "cut at {cut} of {}, {said_before} of {said:?} said, neighbour on {neighbour:?}: {what}",
                    recording.len()
                )),
            }
        }
    }
    let (right, wrongs) = (found.values().sum::<usize>(), wrong.len());
    eprintln!("{name}: {right} cuts held, {wrongs} did not; {found:#?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n---\n"));
}

/// Runs the commands on recorded disks.
fn record(scene: &mut dyn Scene, neighbour: Option<usize>) -> (Recording, Vec<usize>) {
    let places = scene.places();
    let places: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
    let recorded = RecordedDisks::new(&places);
    let said = scene.play(&recorded, neighbour);
    (recorded.end(), said)
}

/// A point of a log; as many between any two things that were said.
fn drawn(said: &[usize], len: usize, chance: &mut Chance) -> usize {
    let n = chance.below(said.len() + 1);
    let from = if n == 0 { 0 } else { said[n - 1] };
    let to = said.get(n).copied().unwrap_or(len);
    from + chance.below(to - from + 1)
}

/// How many files of ours a directory has. Each was written whole, or has the name of one that was not.
fn whole_files(directory: &Path) -> Result<usize, String> {
    let mut names = names(directory);
    names.retain(|name| !name.starts_with(".new-"));
    for name in &names {
        let bytes = fs::read(directory.join(name)).unwrap();
        let is_whole = serde_json::from_slice::<Value>(&bytes).is_ok_and(|entry| entry.is_object());
        must(is_whole, || {
            let text = String::from_utf8_lossy(&bytes).replace('\0', "");
            let (path, len) = (directory.join(name), bytes.len());
            format!("{} has {len} bytes: {text:?}", path.display())
        })?;
    }
    Ok(names.len())
}

/// The history by the numbers of its entries.
type Log = BTreeMap<u64, Value>;

/// What `iosched log` says.
fn log(root: Option<&Path>) -> Result<Log, String> {
    let mut command = iosched();
    command.args(["log", "--json"]);
    if let Some(root) = root {
        command.arg("--root").arg(root);
    }
    let output = command.output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    must(output.status.success() && output.stderr.is_empty(), || {
        format!("log: {said}")
    })?;
    let entries: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let numbered = entries
        .into_iter()
        .map(|entry| (entry["id"].as_u64().unwrap(), entry));
    Ok(numbered.collect())
}

fn status(entry: &Value) -> &str {
    entry["status"].as_str().unwrap()
}

/// How far a command came that was cut, as its history says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// Nothing of it is known.
    Nothing,
    /// It had begun.
    Begun,
    /// It was done.
    Done,
}

/// A history must be that before a command, that after it, or one that it wrote on the way.
fn reached(is: &Log, before: &Log, after: Option<&Log>) -> Result<Reached, String> {
    let Some(after) = after.filter(|_| is != before) else {
        must(is == before, || {
            format!("the history is {is:#?}, was {before:#?}")
        })?;
        return Ok(Reached::Nothing);
    };
    if is == after {
        return Ok(Reached::Done);
    }
    // An entry is new from its beginning; what it takes back is marked after that.
    let is_between = after
        .iter()
        .all(|(id, done)| match (is.get(id), before.get(id)) {
            (Some(now), None) => now == done || matches!(status(now), "begun" | "undoing"),
            (now, was) => now == was || now == Some(done),
        });
    must(is_between && is.len() == after.len(), || {
        format!("the history is {is:#?}, was {before:#?}, became {after:#?}")
    })?;
    Ok(Reached::Begun)
}

/// What was found of the command that was cut, for people.
fn cut_short(commands: &[&[&str]], said: usize, reached: Reached) -> String {
    let command = commands.get(said);
    let command = command.map_or("after all".into(), |command| command.join(" "));
    format!("{command}: {reached:?}")
}

/// How many changes of a history were not taken back; one that an undo takes back counts until it is done.
fn not_taken_back(log: &Log) -> usize {
    let is_there = |entry: &&Value| matches!(status(entry), "begun" | "done");
    log.values().filter(is_there).count()
}

/// `set` and `undo` of a disk.
struct Changes {
    disk: LoopDevice,
    at_boot: BTreeMap<String, String>,
    /// The history before the first command and after each.
    logs: Vec<Log>,
}

const CHANGES: &[&[&str]] = &[
    &["set", "bfq", "low_latency=0", "nr_requests=64"],
    &["set", "mq-deadline", "fifo_batch=3"],
    &["undo"],
    &["set", "none", "read_ahead_kb=64"],
    &["undo"],
];

impl Changes {
    fn new() -> Changes {
        let mut changes = Changes {
            disk: LoopDevice::new(8 * MIB),
            at_boot: BTreeMap::new(),
            logs: Vec::new(),
        };
        boot(&changes.disk);
        changes.at_boot = changes.disk.whole_queue();
        changes
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = iosched_process();
        command.arg(arguments[0]);
        if arguments[0] == "set" {
            command.arg(&self.disk.name).args(&arguments[1..]);
        }
        command
    }

    fn change(&self, arguments: &[&str]) -> Result<(), String> {
        let output = self.command(arguments).output().unwrap();
        must(output.status.success(), || {
            format!("{arguments:?}: {}", text(&output.stderr))
        })
    }

    fn is_as_at_boot(&self) -> Result<(), String> {
        let is = self.disk.whole_queue();
        must(is == self.at_boot, || {
            format!("not as at boot: {}", difference(&is, &self.at_boot))
        })
    }
}

/// What the kernel does with a disk when it boots.
fn boot(disk: &LoopDevice) {
    for (file, value) in [
        // The second resets what the first does not have.
        ("scheduler", "mq-deadline"),
        ("scheduler", "none"),
        ("nr_requests", "128"),
        ("read_ahead_kb", "128"),
    ] {
        disk.write(file, value);
    }
}

impl Scene for Changes {
    fn places(&self) -> Vec<PathBuf> {
        vec![STATE.into()]
    }

    fn play(&mut self, recorded: &RecordedDisks, neighbour: Option<usize>) -> Vec<usize> {
        boot(&self.disk);
        self.logs = vec![Log::new()];
        let mut said = Vec::new();
        for arguments in CHANGES {
            let (_, end) = recorded.run(&mut self.command(arguments), neighbour);
            said.push(end);
            self.logs.push(log(None).unwrap());
        }
        said
    }

    fn holds(&mut self, said: usize) -> Result<String, String> {
        boot(&self.disk);
        whole_files(&Path::new(STATE).join("history"))?;
        let journal = whole_files(&Path::new(STATE).join("journal"))?;
        let found = log(None)?;
        let reached = reached(&found, &self.logs[said], self.logs.get(said + 1))?;
        let is_setting = CHANGES.get(said).is_some_and(|next| next[0] == "set");
        must(is_setting || journal == 0, || {
            "a command that had ended is in the journal".into()
        })?;
        restore()?;
        self.is_as_at_boot()?;
        let left = not_taken_back(&log(None)?);
        let undone = undo_all(None)?;
        must(undone == left, || format!("{undone} of {left} undone"))?;
        self.is_as_at_boot()?;
        self.change(CHANGES[0])?;
        self.change(&["undo"])?;
        self.is_as_at_boot()?;
        Ok(cut_short(CHANGES, said, reached))
    }
}

#[test]
fn set_and_undo_are_done_or_not_done_and_stay_so() {
    if can_emulate() {
        at_cuts("set and undo", &mut Changes::new());
    }
}

/// `persist` and `undo` on a copied machine whose `/etc` is on another disk than its history.
struct Files {
    machine: Machine,
    /// The history and the files before the first command and after each.
    states: Vec<(Log, Etc)>,
    boots: u64,
}

/// Whole files below `/etc`.
type Etc = BTreeMap<PathBuf, String>;

const KEPT: &[&[&str]] = &[
    &["persist", "--yes", "sda", "bfq"],
    &["persist", "--yes", "sdb", "none"],
    &["undo"],
    &["persist", "--yes", "sda", "mq-deadline", "fifo_batch=4"],
    &["undo"],
];

impl Files {
    fn new() -> Files {
        let machine = Machine::two_disks();
        fs::create_dir_all(machine.path("var/lib/iosched")).unwrap();
        Files {
            machine,
            states: Vec::new(),
            boots: 0,
        }
    }

    fn boot(&mut self) {
        self.boots += 1;
        let name = format!("boot-{}\n", self.boots);
        self.machine.write("proc/sys/kernel/random/boot_id", &name);
    }

    fn etc(&self) -> Etc {
        etc_of(&self.machine)
    }

    /// What is on disks that are recorded is copied by a command.
    fn recorded_state(&self) -> (Log, Etc) {
        let copy = Machine::empty();
        let etc = self.machine.path("etc").display().to_string();
        run("cp", &["-a", &etc, copy.root().to_str().unwrap()]);
        (log(Some(self.machine.root())).unwrap(), etc_of(&copy))
    }

    fn is_as_at_first(&self) -> Result<(), String> {
        let (is, first) = (self.etc(), &self.states[0].1);
        must(is == *first, || {
            format!("not taken back: {}", difference(&is, first))
        })
    }

    /// Each file is that before the command or that after it, and all of them are if the history says so.
    fn are_files_old_or_new(&self, said: usize, reached: Reached) -> Result<(), String> {
        let is = self.etc();
        let before = &self.states[said].1;
        let after = self.states.get(said + 1).map_or(before, |(_, etc)| etc);
        let must_be = |expected: &Etc| {
            must(is == *expected, || {
                format!("{reached:?}, and {}", difference(&is, expected))
            })
        };
        match reached {
            Reached::Nothing => must_be(before),
            Reached::Done => must_be(after),
            Reached::Begun => {
                let mut paths = is.keys().chain(before.keys()).chain(after.keys());
                let is_half = |path: &&PathBuf| {
                    is.get(*path) != before.get(*path) && is.get(*path) != after.get(*path)
                };
                let half = paths.find(is_half);
                must(half.is_none(), || {
                    format!("{half:?} is neither old nor new: {is:#?}")
                })
            }
        }
    }
}

fn etc_of(machine: &Machine) -> Etc {
    let files = machine.etc().into_iter();
    files
        .filter(|(path, _)| !is_unfinished(path) && !path.ends_with(NEIGHBOUR))
        .map(|(path, text)| {
            let below = path.strip_prefix(machine.root()).unwrap();
            (below.to_owned(), text)
        })
        .collect()
}

impl Scene for Files {
    fn places(&self) -> Vec<PathBuf> {
        ["var/lib/iosched", "etc"]
            .map(|place| self.machine.path(place))
            .into()
    }

    fn play(&mut self, recorded: &RecordedDisks, neighbour: Option<usize>) -> Vec<usize> {
        self.boot();
        let at_first = Machine::two_disks();
        let etc = format!("{}/.", at_first.path("etc").display());
        let here = self.machine.path("etc").display().to_string();
        run("cp", &["-a", &etc, &here]);
        recorded.begin();
        self.states = vec![self.recorded_state()];
        let mut said = Vec::new();
        for arguments in KEPT {
            let mut command = iosched_process();
            command.arg(arguments[0]).arg("--root");
            command.arg(self.machine.root()).args(&arguments[1..]);
            let (_, end) = recorded.run(&mut command, neighbour);
            said.push(end);
            self.states.push(self.recorded_state());
        }
        said
    }

    fn holds(&mut self, said: usize) -> Result<String, String> {
        self.boot();
        let root = self.machine.root().to_owned();
        whole_files(&self.machine.path("var/lib/iosched/history"))?;
        let found = log(Some(&root))?;
        let after = self.states.get(said + 1).map(|(log, _)| log);
        let reached = reached(&found, &self.states[said].0, after)?;
        self.are_files_old_or_new(said, reached)?;
        undo_all(Some(&root))?;
        self.is_as_at_first()?;
        for arguments in &KEPT[..2] {
            self.machine.succeeds(arguments[0], &arguments[1..]);
        }
        let left: Vec<_> = self.machine.etc().into_keys().collect();
        must(!left.iter().any(|path| is_unfinished(path)), || {
            format!("left: {left:?}")
        })?;
        undo_all(Some(&root))?;
        self.is_as_at_first()?;
        Ok(cut_short(KEPT, said, reached))
    }
}

#[test]
fn persist_and_undo_are_done_or_not_done_and_stay_so() {
    if can_emulate() {
        at_cuts("persist and undo", &mut Files::new());
    }
}

/// `tune` of a disk, or of a directory on a disk that loses power, too.
struct Run {
    target: Target,
    /// Where `tune` keeps its record.
    out: PathBuf,
    /// All of it.
    record: Vec<u8>,
    /// What was said, in order.
    events: Vec<String>,
}

enum Target {
    Disk(LoopDevice, BTreeMap<String, String>),
    Directory(tempfile::TempDir),
}

impl Run {
    fn new(target: Target) -> Run {
        Run {
            target,
            out: Path::new(STATE).join("runs/r"),
            record: Vec::new(),
            events: Vec::new(),
        }
    }

    fn command(&self) -> Command {
        let mut command = iosched_process();
        command.arg("tune");
        match &self.target {
            Target::Disk(disk, _) => command.arg(&disk.name),
            Target::Directory(at) => command.arg(at.path()).args(["--file-size", "4M"]),
        };
        command
            .args(SHORTEST)
            .args(["--json", "--out"])
            .arg(&self.out);
        command
    }

    /// The whole lines of the record are those that were written, and at least those that were said to be.
    fn is_record_whole(&self, said: usize) -> Result<usize, String> {
        let found = fs::read(self.out.join("record.jsonl")).unwrap_or_default();
        let end = found.iter().rposition(|&byte| byte == b'\n');
        let whole = &found[..end.map_or(0, |end| end + 1)];
        must(self.record.starts_with(whole), || {
            format!("another record: {}", String::from_utf8_lossy(&found))
        })?;
        let events = &self.events[..said];
        let lines = String::from_utf8_lossy(whole).lines().count();
        must(lines > 0 || events.is_empty(), || {
            "there is no record".into()
        })?;
        let trials = trials(whole);
        let told = events.iter().filter(|event| *event == "trial-ended");
        let told = told.count();
        must(trials >= told, || {
            let found = String::from_utf8_lossy(&found);
            format!("{trials} trials of {told} that had ended: {found}")
        })?;
        let is_over = events.iter().any(|event| event == "exit");
        must(!is_over || found == self.record, || "not all of it".into())?;
        Ok(lines)
    }

    fn is_put_back(&self) -> Result<(), String> {
        match &self.target {
            Target::Disk(disk, at_boot) => {
                let is = disk.whole_queue();
                must(is == *at_boot, || {
                    format!("not as at boot: {}", difference(&is, at_boot))
                })
            }
            Target::Directory(at) => {
                let left = ours(at.path());
                must(left.is_empty(), || {
                    format!("left in the directory: {left:?}")
                })
            }
        }
    }

    /// A record is read, however much of it there is; a run that had none begins anew.
    fn goes_on(&self, lines: usize) -> Result<(), String> {
        let report = iosched().arg("report").arg(&self.out).output().unwrap();
        let said = text(&report.stdout) + &text(&report.stderr);
        must(report.status.success() == (lines > 0), || {
            format!("report: {said}")
        })?;
        if matches!(self.target, Target::Directory(_)) {
            return Ok(()); // a loop device that is attached again is another disk
        }
        let is_over = String::from_utf8_lossy(&self.record).lines().count() == lines;
        let mut again = self.command();
        if lines > 0 {
            again = iosched_process();
            again.args(["tune", "--no-html", "--resume"]).arg(&self.out);
        }
        let output = again.output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        let is_refused = said.contains(" is over: ");
        must(output.status.success() || (is_over && is_refused), || {
            format!("goes on from {lines} lines: {said}")
        })?;
        let record = fs::read(self.out.join("record.jsonl")).unwrap();
        let trials = trials(&record);
        must(trials == 4, || format!("{trials} trials in the end"))
    }
}

/// What a run left in a directory.
fn ours(at: &Path) -> Vec<String> {
    let mut names = names(at);
    names.retain(|name| name != "lost+found" && name != NEIGHBOUR);
    names
}

fn trials(record: &[u8]) -> usize {
    let text = String::from_utf8_lossy(record);
    let is_trial = |line: &&str| line.contains("\"type\":\"trial\"");
    text.lines().filter(is_trial).count()
}

impl Scene for Run {
    fn places(&self) -> Vec<PathBuf> {
        let mut places = vec![STATE.into()];
        if let Target::Directory(at) = &self.target {
            places.push(at.path().to_owned());
        }
        places
    }

    fn play(&mut self, recorded: &RecordedDisks, neighbour: Option<usize>) -> Vec<usize> {
        let (lines, end) = recorded.run(&mut self.command(), neighbour);
        self.events.clear();
        let mut said = Vec::new();
        for (position, line) in lines {
            let event: Value = serde_json::from_str(&line).unwrap();
            let event = event["event"].as_str().unwrap_or("answer");
            if event != "tick" {
                said.push(position);
                self.events.push(event.to_owned());
            }
        }
        said.push(end);
        self.events.push("exit".into());
        let record = self.out.join("record.jsonl").display().to_string();
        self.record = run("cat", &[&record]).stdout;
        said
    }

    fn holds(&mut self, said: usize) -> Result<String, String> {
        if let Target::Disk(disk, _) = &self.target {
            boot(disk);
        }
        let journal = whole_files(&Path::new(STATE).join("journal"))?;
        let lines = self.is_record_whole(said)?;
        let directories = match &self.target {
            Target::Directory(at) => ours(at.path()).len(),
            Target::Disk(..) => 0,
        };
        let record = if self.out.join("record.jsonl").exists() {
            format!("{lines} lines of a record")
        } else {
            "no record".into()
        };
        restore()?;
        self.is_put_back()?;
        self.goes_on(lines)?;
        Ok(format!(
            "{journal} in the journal, {directories} directories, {record}"
        ))
    }
}

#[test]
fn a_run_of_a_disk_goes_on_from_its_record() {
    if !can_emulate() {
        return;
    }
    if let Some(disk) = small_disk() {
        boot(&disk);
        let at_boot = disk.whole_queue();
        at_cuts("tune of a disk", &mut Run::new(Target::Disk(disk, at_boot)));
    }
}

#[test]
fn a_directory_of_a_run_goes_after_a_cut() {
    if can_emulate() && has_fio() {
        let at = tempfile::Builder::new()
            .prefix("iosched-test-")
            .tempdir()
            .unwrap();
        at_cuts("tune of a directory", &mut Run::new(Target::Directory(at)));
    }
}
