//! The record: everything measured, in a directory, saved after every trial.
//!
//! `record.jsonl` has one JSON object per line: first the [`Header`] (format version, machine,
//! plan), then an [`Entry`] per trial or event, appended and synced as they happen. A record that
//! ends in the middle of a line (power failure, full disk) is good up to the line before.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iosched_machine::beneath::Directory;
use iosched_machine::command_line::quoted_path;
use iosched_machine::device::{Content, GivenUp};
use iosched_machine::durable;
use iosched_machine::facts::MachineFacts;
use iosched_machine::failure::{Problem, exit, room_hint};
use iosched_machine::foreign;
use iosched_machine::host::Host;
use iosched_machine::lock::{self, Holder};
use iosched_machine::path_trust::{self, Trusted, WayError};
use iosched_machine::process::{self, User};
use iosched_machine::user_files::{self, NewFile};
use iosched_stats::Interval;
use rustix::fs::{Access, OFlags, fstat};
use serde::{Deserialize, Serialize};

use crate::plan::{MOST_ROUNDS, Plan};
use crate::trial::{Slot, Trial, VoidTrial};

/// The version of the format that this program writes. Newer ones are refused, older ones read.
///
/// - 1: every load is a job file
/// - 2: a load may be something else ([`crate::load::Spec`]); trials may have transactions, a time,
///   a number
/// - 3: what was given up of a raw device that is written, and what a run left on it
/// - 4: how long preparing took; a round that the budget of time cut short
/// - 5: what else was at work (load average, CPU time of others, other runs); how requests followed one another; the
///   names of load and arm beside their indices, which count
/// - 6: an arm may be a scheduler of ours inside the disk; what the emulated disk of the run is
/// - 7: how long a trial ran, where that is chosen as the run goes on: by the plan alone its length would be taken for another
/// - 8: lead-ins: what came before one does not count; how coarsely a number was printed
pub(crate) const SCHEMA: u32 = 8;

/// What [`Header::kind`] says.
const KIND: &str = "iosched-record";

/// The file in the directory.
const FILE: &str = "record.jsonl";

/// How the name of that file begins until the first line is in it.
const UNFINISHED: &str = ".record.jsonl.new-";

/// The file beside it that is locked by whoever writes the record. Others may read a record, and whoever may read
/// a file may lock it: this one is for its owner alone.
const LOCK: &str = ".lock";

/// So long a lock may be held by who only looks whether it is held.
const LOOKED_AT: Duration = Duration::from_millis(200);

/// The first line of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// `iosched-record`.
    pub kind: String,
    /// `SCHEMA` of the program that wrote it.
    pub schema: u32,
    /// Version of the program that wrote it.
    pub program: String,
    /// The command, as it can be repeated.
    pub command: Vec<String>,
    /// Seconds since 1970.
    pub created_unix_s: f64,
    /// The machine and the disks before anything was changed.
    pub machine: MachineFacts,
    /// What was to be measured.
    pub plan: Plan,
}

/// A line after the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Entry {
    /// A trial that counts.
    Trial(Box<Trial>),
    /// A trial that does not, and why.
    Void(VoidTrial),
    /// An arm cannot be measured and leaves the run.
    ArmLeft {
        /// Index of the load under which it failed.
        load: usize,
        /// Index of the arm.
        arm: usize,
        /// Why, in words.
        reason: String,
    },
    /// The whole device was filled before the first trial.
    Preconditioned {
        /// Bytes written.
        bytes: u64,
        /// How long it took, s.
        elapsed_s: f64,
    },
    /// Everything was ready, in this sitting, for the first trial or for the runs until steady.
    Prepared {
        /// How long it took from the start of the command, s: it counts into the budget of time.
        elapsed_s: f64,
    },
    /// A load was run until it was steady, or too often; these runs count for nothing else.
    Steady {
        /// Index of the load.
        load: usize,
        /// Bytes per second of each run.
        throughput_bytes_per_s: Vec<f64>,
        /// The window that was steady; none if none was.
        window: Option<SteadyWindow>,
        /// How long it took, s: it counts into the budget of time.
        #[serde(default)]
        elapsed_s: f64,
    },
    /// Trials surely depend on the arm before them: from here on each is led in by runs under its own arm that do not
    /// count, and the trials before do not count, either.
    LeadIn {
        /// Index of a load of which that is true.
        load: usize,
        /// Index of the arm that leaves something behind.
        arm: usize,
        /// What was measured after this arm / what was measured after the others.
        ratio: Interval,
        /// Runs before each trial from here on: one more than before.
        runs: u32,
        /// The first round that counts.
        round: u32,
    },
    /// The run went on after it had been interrupted.
    Resumed {
        /// Seconds since 1970.
        at_unix_s: f64,
        /// Rounds at the most from now on, if they were changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_rounds: Option<u32>,
        /// Budget of time from now on, if it was changed, s.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time_budget_s: Option<f64>,
        /// What the user gave up this time, where the run writes to a raw device.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given_up: Option<Box<GivenUp>>,
    },
    /// What was on the raw device that the run wrote to when it came to an orderly end, or was interrupted.
    Left {
        /// What can be seen of it.
        content: Content,
    },
    /// The run came to its end (decided, or out of budget).
    Finished {
        /// Seconds since 1970.
        at_unix_s: f64,
        /// Why it stopped.
        stop: StopReason,
        /// True if its time was over within a round: what that round has is no whole one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_cut: bool,
    },
}

/// A window that keeps the limits of [`iosched_stats::steady`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyWindow {
    /// (largest - smallest) / mean.
    pub excursion: f64,
    /// Change of the fitted line over the window / mean.
    pub slope: f64,
}

/// Why a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// Every load has its answer.
    Decided,
    /// The budget of rounds is spent.
    RoundsSpent,
    /// The budget of time is spent.
    TimeSpent,
    /// A decision within the budget had become too unlikely to go on: so versions before schema 8 ended.
    Hopeless,
    /// Others used what the loads were to have, again and again.
    Disturbed,
}

/// Runs that lead a trial in, at the most.
pub(crate) const LONGEST_LEAD_IN: u32 = 2;

/// A record in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The first line.
    pub header: Header,
    /// The lines after it.
    pub entries: Vec<Entry>,
}

/// The directory of a record, by its path or by that of the record's file.
fn results_of(path: &Path) -> &Path {
    let is_file = path.file_name() == Some(OsStr::new(FILE));
    path.parent().filter(|_| is_file).unwrap_or(path)
}

/// A record or its directory cannot be used.
fn bad(message: String) -> Problem {
    Problem::new(exit::BAD_RECORD, message)
}

fn not_a_record(path: &Path) -> Problem {
    let cause = if path.exists() {
        " holds no record"
    } else {
        ": there is no such directory"
    };
    bad(format!("{}{cause}", path.display()))
        .hint("a record is the directory that `iosched tune` wrote (it has record.jsonl)")
}

fn io_problem(path: &Path, error: &io::Error) -> Problem {
    let code = match error.kind() {
        io::ErrorKind::PermissionDenied => exit::NOT_PERMITTED,
        _ => exit::BAD_RECORD,
    };
    let hint = match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            Some("name a directory with --out that can be written")
        }
        _ => room_hint(error),
    };
    Problem::new(code, format!("cannot access {}: {error}", path.display())).maybe_hint(hint)
}

/// Where what counts begins among these entries: after the last lead-in.
pub(crate) fn counted_from(entries: &[Entry]) -> usize {
    let is_lead_in = |entry: &Entry| matches!(entry, Entry::LeadIn { .. });
    let last = entries.iter().rposition(is_lead_in);
    last.map_or(0, |index| index + 1)
}

impl Record {
    /// Reads the record in a directory. It is data from anywhere: what cannot be a run is refused here, and nothing
    /// that follows has to expect it.
    pub fn load(directory: &Path) -> Result<Record, Problem> {
        Record::load_at(directory, directory)
    }

    /// The same from `at`, which is that directory.
    fn load_at(at: &Path, directory: &Path) -> Result<Record, Problem> {
        let path = directory.join(FILE);
        let opened = user_files::open_to_read(&at.join(FILE));
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => not_a_record(directory),
            _ => io_problem(&path, &error),
        })?;
        // One more, so that a file that is too large is seen to be.
        Record::parse(&path, BufReader::new(file.take(foreign::LARGEST_FILE + 1)))
    }

    /// Reads a record; `path` is for errors.
    pub fn parse(path: &Path, mut reader: impl BufRead) -> Result<Record, Problem> {
        let mut lines = Lines {
            path,
            number: 0,
            bytes: 0,
            line: Vec::new(),
        };
        let Some(first) = lines.next(&mut reader)? else {
            return Err(not_a_record(path));
        };
        check_schema(path, first)?;
        let header: Header = lines.read()?;
        let plan = header.plan.check();
        plan.map_err(|error| lines.corrupt(error.to_string()))?;
        let mut record = Record {
            header,
            entries: Vec::new(),
        };
        while lines.next(&mut reader)?.is_some() {
            let entry = lines.read()?;
            check_entry(&record.header.plan, &entry).map_err(|cause| lines.corrupt(cause))?;
            if let Entry::LeadIn { runs, .. } = entry {
                let is_next = runs == record.lead_in() + 1 && runs <= LONGEST_LEAD_IN;
                let cause = || lines.corrupt(format!("a lead-in cannot have {runs} runs here"));
                is_next.then_some(()).ok_or_else(cause)?;
            }
            record.push(entry);
        }
        Ok(record)
    }

    /// Takes an entry in, in memory only. A run that goes on with a larger budget has a plan with that
    /// budget.
    pub fn push(&mut self, entry: Entry) {
        if let Entry::Resumed {
            max_rounds,
            time_budget_s,
            ..
        } = &entry
        {
            let rules = &mut self.header.plan.rules;
            rules.max_rounds = max_rounds.unwrap_or(rules.max_rounds);
            rules.time_budget_s = time_budget_s.or(rules.time_budget_s);
        }
        self.entries.push(entry);
    }

    /// What counts: all that came after the last [lead-in](Entry::LeadIn).
    pub(crate) fn that_count(&self) -> impl Iterator<Item = &Entry> {
        self.entries[counted_from(&self.entries)..].iter()
    }

    /// The first round that counts.
    pub(crate) fn first_round(&self) -> u32 {
        self.last_lead_in().map_or(0, |(_, round)| round)
    }

    /// Runs of its load that come before each trial and do not count.
    pub fn lead_in(&self) -> u32 {
        self.last_lead_in().map_or(0, |(runs, _)| runs)
    }

    /// Its runs, and the first round after it.
    fn last_lead_in(&self) -> Option<(u32, u32)> {
        self.entries.iter().rev().find_map(|entry| match entry {
            Entry::LeadIn { runs, round, .. } => Some((*runs, *round)),
            _ => None,
        })
    }

    /// The trials that count, in the order they ran.
    pub fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.that_count().filter_map(|entry| match entry {
            Entry::Trial(trial) => Some(trial.as_ref()),
            _ => None,
        })
    }

    /// The trials that do not count.
    pub fn void_trials(&self) -> impl Iterator<Item = &VoidTrial> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Void(void) => Some(void),
            _ => None,
        })
    }

    /// Why an arm left the run, if it did.
    pub(crate) fn arm_left(&self, wanted: usize) -> Option<&str> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::ArmLeft { arm, reason, .. } if *arm == wanted => Some(reason.as_str()),
            _ => None,
        })
    }

    /// Why the run ended; `None` if it was interrupted.
    pub fn stop_reason(&self) -> Option<StopReason> {
        let is_of_the_run = |entry: &&Entry| !matches!(entry, Entry::Left { .. });
        match self.entries.iter().rev().find(is_of_the_run) {
            Some(Entry::Finished { stop, .. }) => Some(*stop),
            _ => None,
        }
    }

    /// What the user gave up the last time; `None` if nothing, or if the record is from before schema 3.
    pub(crate) fn given_up(&self) -> Option<&GivenUp> {
        let resumed = self.entries.iter().rev().find_map(|entry| match entry {
            Entry::Resumed { given_up, .. } => given_up.as_deref(),
            _ => None,
        });
        resumed.or(self.header.plan.given_up.as_ref())
    }

    /// What the run left on its raw device when it ended the last time; `None` if it was killed.
    pub(crate) fn left(&self) -> Option<&Content> {
        let mut last = self.entries.iter().rev();
        last.find_map(|entry| match entry {
            Entry::Left { content } => Some(Some(content)),
            Entry::Resumed { .. } => Some(None),
            _ => None,
        })
        .flatten()
    }
}

/// The lines of a record, one at a time.
struct Lines<'a> {
    path: &'a Path,
    /// The line that was read last, counted from 1.
    number: usize,
    /// How much was read.
    bytes: u64,
    line: Vec<u8>,
}

impl Lines<'_> {
    /// The next whole line: what stands after the last newline was cut off while it was written.
    fn next(&mut self, reader: &mut impl BufRead) -> Result<Option<&str>, Problem> {
        self.number += 1;
        foreign::read_line(reader, &mut self.line).map_err(|source| self.unreadable(source))?;
        self.bytes += self.line.len() as u64;
        if self.bytes > foreign::LARGEST_FILE {
            let source = foreign::too_large("it", foreign::LARGEST_FILE);
            return Err(self.unreadable(source));
        }
        if self.line.pop() != Some(b'\n') {
            return Ok(None);
        }
        self.text().map(Some)
    }

    /// What the line says, its numbers within range.
    fn read<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Problem> {
        let text = self.text()?;
        foreign::check_numbers(text).map_err(|cause| self.corrupt(cause))?;
        serde_json::from_str(text).map_err(|error| self.corrupt(foreign::cause(&error)))
    }

    fn text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.line).map_err(|error| self.corrupt(error.to_string()))
    }

    fn corrupt(&self, cause: String) -> Problem {
        let (path, line) = (self.path.display(), self.number);
        bad(format!("{path}:{line}: not a line of a record: {cause}")).hint(
            "it was damaged or edited: take a whole copy of it, or measure again with `iosched tune`",
        )
    }

    fn unreadable(&self, source: io::Error) -> Problem {
        match source.kind() {
            io::ErrorKind::FileTooLarge => self.corrupt(source.to_string()),
            _ => io_problem(self.path, &source),
        }
    }
}

/// A line that could have been edited or damaged must not lead the analysis astray.
fn check_entry(plan: &Plan, entry: &Entry) -> Result<(), String> {
    if let Entry::Resumed {
        max_rounds: Some(rounds),
        ..
    } = entry
        && !Plan::may_have_rounds(*rounds)
    {
        return Err(format!(
            "max_rounds is {rounds}, and must be from 2 to {MOST_ROUNDS}"
        ));
    }
    let slot = match entry {
        Entry::Trial(trial) => trial.slot,
        Entry::Void(void) => void.slot,
        Entry::ArmLeft { load, arm, .. } => Slot {
            load: *load,
            round: 0,
            arm: *arm,
        },
        Entry::LeadIn {
            load, arm, round, ..
        } => Slot {
            load: *load,
            round: *round,
            arm: *arm,
        },
        Entry::Steady { load, .. } => Slot {
            load: *load,
            round: 0,
            arm: 0,
        },
        _ => return Ok(()),
    };
    if !plan.has_slot(slot) {
        return Err(format!(
            "the plan has no load {} with arm {}",
            slot.load, slot.arm
        ));
    }
    let sequence = match entry {
        Entry::Trial(trial) => trial.sequence,
        Entry::Void(void) => void.sequence,
        _ => 0,
    };
    if sequence == u32::MAX {
        return Err(format!("sequence is {sequence}, and must be less"));
    }
    // Loads run until they are steady before the first round, and say so with other rounds.
    if slot.round >= MOST_ROUNDS && !matches!(entry, Entry::Void(_)) {
        let most = MOST_ROUNDS - 1;
        return Err(format!(
            "round is {}, and must be at most {most}",
            slot.round
        ));
    }
    if let Entry::Trial(trial) = entry
        && let Some(unit) = trial.metrics.number_unit
    {
        let number = trial.metrics.number.unwrap_or(0.0).abs();
        if !(unit > 0.0 && (number == 0.0 || unit <= 2.0 * number)) {
            return Err(format!(
                "a number {number} cannot be printed in steps of {unit}"
            ));
        }
    }
    if let Entry::Trial(trial) = entry
        && let Some(reason) = plan.bad_metric(slot, &trial.metrics)
    {
        return Err(reason.to_string());
    }
    Ok(())
}

/// The version is looked at before anything else: a newer format may differ in all the rest.
fn check_schema(path: &Path, first: &str) -> Result<(), Problem> {
    #[derive(Deserialize)]
    struct Version {
        kind: String,
        schema: u32,
    }
    match serde_json::from_str::<Version>(first) {
        Ok(version) if version.kind != KIND => Err(not_a_record(path)),
        Ok(version) if version.schema > SCHEMA => Err(bad(format!(
            "{} has record schema {}; this iosched knows up to {SCHEMA}",
            path.display(),
            version.schema
        ))
        .hint("read it with the version that wrote it, or a newer one")),
        Ok(_) => Ok(()),
        Err(_) => Err(not_a_record(path)),
    }
}

/// A record in memory and on disk, growing together.
#[derive(Debug)]
pub struct Recorder {
    record: Record,
    /// As it was named.
    directory: PathBuf,
    /// The same, whatever has that name by now: all that belongs to the record is written beneath it.
    held: Directory,
    file: File,
    /// Held as long as we may write.
    _lock: File,
}

impl Header {
    /// A header of this program's version.
    pub fn new(
        command: Vec<String>,
        created_unix_s: f64,
        machine: MachineFacts,
        plan: Plan,
    ) -> Header {
        Header {
            kind: KIND.into(),
            schema: SCHEMA,
            program: env!("CARGO_PKG_VERSION").into(),
            command,
            created_unix_s,
            machine,
            plan,
        }
    }
}

/// Refuses to go on with a record that somebody else could have written than root, ourselves, who became root to start
/// us (`sudo`), and `user`, whose rights the loads have: its loads are programs. To read it is another thing.
///
/// # Errors
/// Who that is, and what they may change.
pub fn check_writers(directory: &Path, user: Option<&User>) -> Result<(), Problem> {
    let held = user_files::directory(directory).map_err(|e| way_error(directory, e))?;
    check_writers_of(&held, directory, user)
}

fn check_writers_of(
    held: &Directory,
    directory: &Path,
    user: Option<&User>,
) -> Result<(), Problem> {
    let we = rustix::process::geteuid().as_raw();
    let trusted = Trusted::of(user.map(|user| user.uid));
    // Where it is, whatever links lead there. Only root and those whom we trust can have put it below directories of
    // theirs.
    let at = fs::read_link(held.path()).map_err(|error| io_problem(directory, &error))?;
    let file = at.join(FILE);
    path_trust::check_way(&file, trusted).map_err(|error| match error {
        WayError::Unusable { path, source } => io_problem(&path, &source),
        WayError::Danger { at, danger } => {
            let runner = user.map_or_else(
                || process::name_of("passwd", we).unwrap_or_else(|| format!("user {we}")),
                |user| user.name.clone(),
            );
            let message = format!(
                "refusing to run as {runner} what the record in {} says: {} may change {}",
                directory.display(),
                danger.who(),
                at.display()
            );
            let read = format!("read what it runs (the first line of {FILE})");
            let away = "copy it to a directory that only you can write, and go on with that";
            let hint = match danger.user().filter(|_| we == 0) {
                Some(user) => {
                    format!("{read}, {away}; or run its loads as that user: --user {user}")
                }
                None => format!(
                    "{read}, then take that right away (chmod go-w {}), or {away}",
                    quoted_path(&at)
                ),
            };
            Problem::new(exit::UNSAFE, message).hint(hint)
        }
    })?;
    // The way that was looked at goes where a link leads; the record is read and written where it stands.
    let own = OpenOptions::new()
        .read(true)
        .custom_flags(NOFOLLOW)
        .open(held.path().join(FILE));
    own.map_err(|error| io_problem(&directory.join(FILE), &error))?;
    // What was looked at is what is held.
    if has_its_name(&at, held) {
        Ok(())
    } else {
        Err(io_problem(
            directory,
            &io::Error::other("it was moved away"),
        ))
    }
}

/// Checks that a directory can take a new record, without making anything.
pub fn check_new(directory: &Path) -> Result<(), Problem> {
    let metadata = match fs::symlink_metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return check_can_make(directory);
        }
        Err(error) => return Err(io_problem(directory, &error)),
        Ok(metadata) => metadata,
    };
    if metadata.is_symlink() {
        let message = format!(
            "the results directory {} is a symbolic link",
            directory.display()
        );
        return Err(bad(message).hint("name the directory that it points to"));
    }
    if !metadata.is_dir() {
        let message = format!(
            "the results directory {} is not a directory",
            directory.display()
        );
        return Err(bad(message).hint("name a new directory with --out"));
    }
    check_empty(directory, directory)
}

/// Checks that a directory that is not there can be made, by what stands above it and without making anything.
///
/// # Errors
/// Nothing can be made there: a read-only file system, or another's directory.
pub fn check_can_make(directory: &Path) -> Result<(), Problem> {
    let is_there = |path: &&Path| fs::symlink_metadata(path).is_ok();
    let above = directory.ancestors().skip(1).find(is_there);
    // A relative path ends with nothing: the directory that we are in.
    let above = above.filter(|path| !path.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    let access = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::access(above, access).map_err(|errno| io_problem(directory, &errno.into()))
}

/// The same of what is in it; `at` is that directory.
fn check_empty(at: &Path, directory: &Path) -> Result<(), Problem> {
    let mut entries = fs::read_dir(at).map_err(|error| io_problem(directory, &error))?;
    // What a run left that was cut short before it had a record.
    let is_remains = |name: &OsStr| name == LOCK || is_unfinished(name);
    if entries.any(|entry| entry.is_ok_and(|entry| !is_remains(&entry.file_name()))) {
        let going_on = if directory.join(FILE).is_file() {
            format!(", or go on with: {}", resume(directory))
        } else {
            String::new()
        };
        let message = format!("the results directory {} is not empty", directory.display());
        return Err(bad(message).hint(format!("name a new directory with --out{going_on}")));
    }
    Ok(())
}

fn is_unfinished(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
}

/// Removes what runs left that were cut short before they had a record; we have the lock.
fn remove_unfinished(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if is_unfinished(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl Recorder {
    /// Starts a record in a new or empty directory.
    pub fn create(directory: &Path, header: Header) -> Result<Recorder, Problem> {
        check_new(directory)?;
        let path = directory.join(FILE);
        let is_new = !directory.exists();
        let held = user_files::make_directory(directory).map_err(|e| way_error(directory, e))?;
        // Another one may have its name since it was looked at.
        let at = held.path();
        check_empty(&at, directory)?;
        let lock = lock_record(&at, directory)?;
        let first = line_of(&path, &header)?;
        let begun = remove_unfinished(&at).and_then(|()| begin_file(&at, &first));
        let file = match begun {
            Ok(file) => file,
            Err(source) => {
                // What cannot be removed is in the way of no other run.
                let _ = held.remove_file(LOCK.as_ref());
                if is_new {
                    let _ = remove_directory(directory, &held);
                }
                return Err(io_problem(&path, &source));
            }
        };
        Ok(Recorder {
            record: Record {
                header,
                entries: Vec::new(),
            },
            directory: directory.into(),
            held,
            file,
            _lock: lock,
        })
    }

    /// Goes on with a record, if nobody else can have written it ([`check_writers`]): the half line that a crash may
    /// have left is cut off.
    pub fn resume(directory: &Path, user: Option<&User>) -> Result<Recorder, Problem> {
        let path = directory.join(FILE);
        if !path.is_file() {
            return Err(not_a_record(directory));
        }
        let held = user_files::directory(directory).map_err(|e| way_error(directory, e))?;
        check_writers_of(&held, directory, user)?;
        let at = held.path();
        let lock = lock_record(&at, directory)?;
        let record = Record::load_at(&at, directory)?;
        let failed = |error| write_error(&path, &error);
        let file = open_to_append(OpenOptions::new().read(true), &at.join(FILE));
        let file = file.map_err(failed)?;
        let mut text = Vec::new();
        (&file).read_to_end(&mut text).map_err(failed)?;
        let whole = text
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1);
        file.set_len(whole as u64).map_err(failed)?;
        Ok(Recorder {
            record,
            directory: directory.into(),
            held,
            file,
            _lock: lock,
        })
    }

    /// Appends an entry, on disk before it returns.
    pub fn append(&mut self, entry: Entry) -> Result<(), Problem> {
        self.write_line(&NamedEntry::new(&entry, &self.record.header.plan))?;
        self.record.push(entry);
        Ok(())
    }

    /// What was recorded so far.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Removes a record in which nothing was recorded; what else is in its directory stays, and so does that.
    pub fn remove_if_empty(self) {
        if self.record.entries.is_empty() {
            self.remove_what_is_there();
        }
    }

    /// Removes a record that says no more than that a trial could have begun, too.
    pub fn remove_if_only_prepared(self) {
        let is_prepared = |entry: &Entry| matches!(entry, Entry::Prepared { .. });
        if self.record.entries.iter().all(is_prepared) {
            self.remove_what_is_there();
        }
    }

    fn remove_what_is_there(&self) {
        // What cannot be removed is a record without a trial, and is read as one.
        let _ = self.remove();
    }

    /// Removes the record and its lock, then their directory if it is empty and has its name still.
    fn remove(&self) -> io::Result<()> {
        for name in [FILE, LOCK] {
            self.held.remove_file(name.as_ref())?;
        }
        remove_directory(&self.directory, &self.held)
    }

    /// Writes a file beside the record, in the directory that has it: another one may have its name by now.
    ///
    /// # Errors
    /// It cannot be written, what is called so is no regular file, or the directory was moved.
    pub fn write_beside(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if !has_its_name(&self.directory, &self.held) {
            return Err(io::Error::other("the results directory was moved away"));
        }
        let mut new = NewFile::beneath(self.held.hold_again()?, name.as_ref())?;
        new.file().write_all(bytes)?;
        new.put_in_place()
    }

    /// Says that the emulated disk of a resumed run has another name now.
    pub fn move_to_disk(&mut self, device: &str) {
        self.record.header.plan.move_to_disk(device);
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn write_line<T: Serialize>(&self, value: &T) -> Result<(), Problem> {
        let path = self.directory.join(FILE);
        let line = line_of(&path, value)?;
        let before = self.file.metadata();
        let before = before.map_err(|error| write_error(&path, &error))?.len();
        if before + line.len() as u64 > foreign::LARGEST_FILE {
            return Err(io_problem(
                &path,
                &foreign::too_large("it", foreign::LARGEST_FILE),
            ));
        }
        (&self.file)
            .write_all(&line)
            .and_then(|()| self.file.sync_data())
            .map_err(|error| write_error(&path, &error))
    }
}

/// True if the name that was given leads to the record's directory.
fn has_its_name(directory: &Path, held: &Directory) -> bool {
    let held = fstat(held.descriptor());
    fs::metadata(directory).is_ok_and(|named| {
        held.is_ok_and(|held| (held.st_dev, held.st_ino) == (named.dev(), named.ino()))
    })
}

/// Removes a directory that is empty and has its name still.
fn remove_directory(directory: &Path, held: &Directory) -> io::Result<()> {
    let name = directory.file_name();
    if let Some(name) = name.filter(|_| has_its_name(directory, held)) {
        let above = directory.parent().unwrap_or(Path::new(""));
        user_files::directory(above)?.remove_directory(name)?;
    }
    Ok(())
}

/// An entry as it is written: with the names of its load and arm, for whoever reads the file without its first line.
/// The indices are what counts.
#[derive(Serialize)]
struct NamedEntry<'a> {
    #[serde(flatten)]
    entry: &'a Entry,
    #[serde(skip_serializing_if = "Option::is_none")]
    load_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arm_name: Option<String>,
}

impl NamedEntry<'_> {
    fn new<'a>(entry: &'a Entry, plan: &'a Plan) -> NamedEntry<'a> {
        let (load, arm) = match entry {
            Entry::Trial(trial) => (Some(trial.slot.load), Some(trial.slot.arm)),
            Entry::Void(void) => (Some(void.slot.load), Some(void.slot.arm)),
            Entry::ArmLeft { load, arm, .. } | Entry::LeadIn { load, arm, .. } => {
                (Some(*load), Some(*arm))
            }
            Entry::Steady { load, .. } => (Some(*load), None),
            _ => (None, None),
        };
        NamedEntry {
            entry,
            load_name: load.map(|load| plan.loads[load].name.as_str()),
            arm_name: arm.map(|arm| plan.arm_label(arm)),
        }
    }
}

/// A line of a record. What could not be read again is none.
fn line_of<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, Problem> {
    let mut line =
        serde_json::to_vec(value).map_err(|error| io_problem(path, &io::Error::other(error)))?;
    line.push(b'\n');
    if line.len() as u64 > foreign::LONGEST_LINE {
        return Err(io_problem(
            path,
            &foreign::too_large("a line", foreign::LONGEST_LINE),
        ));
    }
    Ok(line)
}

/// Makes the file with its first line, on disk when this returns: cut short before, there is no record.
fn begin_file(directory: &Path, first: &[u8]) -> io::Result<File> {
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .append(true)
        .permissions(Permissions::from_mode(0o666)) // but for the umask, as any new file
        .tempfile_in(directory)
        .map_err(|error| io::Error::from(error.kind()))?; // without the name of an unfinished file
    file.write_all(first)?;
    file.as_file().sync_all()?;
    let file = file.persist_noclobber(directory.join(FILE))?;
    durable::sync_directory(directory)?;
    Ok(file)
}

/// True if a run writes the record in a directory now. For those who may not open its lock the kernel's table of
/// locks says it, where its numbers are those of the file system (not on btrfs).
pub fn is_being_written(directory: &Path) -> bool {
    let path = directory.join(LOCK);
    let Ok(metadata) = fs::symlink_metadata(&path) else {
        return false;
    };
    if lock::holder_of(&Host::live(), &metadata).is_some() {
        return true;
    }
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(NOFOLLOW)
        .open(&path);
    opened.is_ok_and(|file| lock::is_locked(&file))
}

/// Takes the right to write the record in a directory, which lasts as long as the file is open. `at` is that directory.
fn lock_record(at: &Path, directory: &Path) -> Result<File, Problem> {
    let path = directory.join(LOCK);
    let failed = |error| write_error(&path, &error);
    let file = lock::open_private(&at.join(LOCK)).map_err(failed)?;
    let begun = Instant::now();
    while begun.elapsed() < LOOKED_AT {
        if lock::try_lock(&file).map_err(failed)? {
            return Ok(file);
        }
        std::thread::sleep(LOOKED_AT / 10);
    }
    let holder = lock::holder(&Host::live(), &file);
    let message = format!(
        "the record {} is being written by {}",
        directory.display(),
        lock::named(holder.as_ref())
    );
    let kill = holder.map_or(String::new(), |Holder { pid, .. }| {
        format!(", or interrupt it: kill -INT {pid}")
    });
    let hint = format!("wait for it{kill}; then: {}", resume(directory));
    Err(Problem::new(exit::BUSY, message).hint(hint))
}

/// The command that goes on with a record.
fn resume(directory: &Path) -> String {
    format!("iosched tune --resume {}", quoted_path(directory))
}

/// Opens the record so that each line goes to its end, wherever that is by then.
fn open_to_append(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.append(true).custom_flags(NOFOLLOW).open(path)
}

/// `O_NOFOLLOW`: as root we never write through a link that somebody laid. `O_NONBLOCK`: a FIFO in its place is an
/// error, not a wait without end; files do not mind.
const NOFOLLOW: i32 = {
    #[expect(clippy::cast_possible_wrap, reason = "a flag of the kernel's int")]
    let flag = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32;
    flag
};

/// Why there is no way to a directory for records.
fn way_error(directory: &Path, source: io::Error) -> Problem {
    if user_files::is_led_elsewhere(&source) {
        let directory = directory.display();
        let message = format!("another user could lead the record {directory} elsewhere: {source}");
        let hint = "name a directory with --out to which no link of another user leads";
        return Problem::new(exit::UNSAFE, message).hint(hint);
    }
    write_error(directory, &source)
}

fn write_error(path: &Path, error: &io::Error) -> Problem {
    let directory = results_of(path);
    let (message, hint) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (
            format!("the results directory {} is full", directory.display()),
            "make room",
        ),
        io::ErrorKind::FileTooLarge => (
            format!(
                "the record {} may not become larger here (`ulimit -f`)",
                path.display()
            ),
            "let files become larger (ulimit -f unlimited)",
        ),
        _ => return io_problem(path, error),
    };
    bad(format!(
        "{message}: the trials so far are saved, the last is not"
    ))
    .hint(format!("{hint}, then go on with: {}", resume(directory)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::load::Spec;

    /// A load as schema 1 had it.
    const LOAD_OF_1: &str = r#"{"name":"a","weight":1.0,"objective":"throughput",
        "job_file":"[a]\nrw=randread\n","runtime_s":10.0,"wait_until_steady":false}"#;

    #[test]
    fn a_record_of_schema_1_is_read() {
        let mut header = serde_json::to_value(fixture::record(&fixture::plan(2)).header).unwrap();
        header["schema"] = 1.into();
        header["plan"]["loads"][0] = serde_json::from_str(LOAD_OF_1).unwrap();
        let text = format!("{header}\n");
        let record = Record::parse(Path::new("r"), text.as_bytes()).unwrap();
        let spec = &record.header.plan.loads[0].spec;
        assert_eq!(*spec, Spec::JobFile("[a]\nrw=randread\n".into()));
    }

    /// `--resume` compares trials that were read back with those measured since.
    #[test]
    fn a_number_is_read_back_to_its_last_bit() {
        for number in [403_187_455.801_394_76_f64, 0.1 + 0.2, 1.0 / 3.0, 5e-324] {
            let text = serde_json::to_string(&number).unwrap();
            let read: f64 = serde_json::from_str(&text).unwrap();
            assert_eq!(read.to_bits(), number.to_bits(), "{text}");
        }
    }

    #[test]
    fn why_no_record_could_be_begun_does_not_name_a_file_that_nobody_knows() {
        let error = begin_file(Path::new("/nonexistent"), b"").unwrap_err();
        assert_eq!(error.to_string(), "entity not found");
    }

    #[test]
    fn a_record_that_is_a_link_is_not_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let theirs = elsewhere.path().join(FILE);
        fs::write(&theirs, "{}\n").unwrap();
        check_writers(elsewhere.path(), None).unwrap();
        std::os::unix::fs::symlink(&theirs, dir.path().join(FILE)).unwrap();
        let error = check_writers(dir.path(), None).unwrap_err();
        assert!(error.message.starts_with("cannot access"), "{error}");
    }

    #[test]
    fn a_fifo_in_the_place_of_a_record_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let error = Record::load(dir.path()).unwrap_err();
        assert!(error.message.ends_with("it is no regular file"), "{error}");
        let error = Recorder::resume(dir.path(), None).unwrap_err();
        assert!(error.message.ends_with("holds no record"), "{error}");
    }

    #[test]
    fn a_page_stays_with_its_record_when_a_link_takes_the_directorys_name() {
        let dir = tempfile::tempdir().unwrap();
        let [results, away, others] = ["r", "away", "others"].map(|name| dir.path().join(name));
        let header = fixture::record(&fixture::plan(2)).header;
        let recorder = Recorder::create(&results, header).unwrap();
        recorder.write_beside("report.html", b"one").unwrap();
        std::os::unix::fs::symlink("report.html", results.join("link.html")).unwrap();
        recorder.write_beside("link.html", b"two").unwrap_err();
        let page = fs::read_to_string(results.join("report.html")).unwrap();
        assert_eq!(page, "one");
        fs::rename(&results, away).unwrap();
        fs::create_dir(&others).unwrap();
        std::os::unix::fs::symlink(&others, &results).unwrap();
        recorder.write_beside("report.html", b"two").unwrap_err();
        fs::write(others.join(FILE), "another record").unwrap();
        fs::remove_file(&results).unwrap();
        fs::rename(&others, &results).unwrap();
        recorder.write_beside("report.html", b"two").unwrap_err();
        assert_eq!(fs::read_dir(&results).unwrap().count(), 1);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let plan = fixture::plan(2);
        let mut text = serde_json::to_string(&fixture::record(&plan).header).unwrap() + "\n";
        let slot = Slot {
            load: 0,
            round: 0,
            arm: 1,
        };
        let entry = fixture::trial(slot, 1e6);
        text += &(serde_json::to_string(&entry).unwrap() + "\n");
        let record = Record::parse(Path::new("r"), text.as_bytes()).unwrap();
        assert_eq!(record.header.plan, plan);
        assert_eq!(record.entries, [entry]);
    }

    #[test]
    fn a_line_names_the_load_and_the_arm_that_it_is_about() {
        let dir = tempfile::tempdir().unwrap();
        let header = fixture::record(&fixture::plan(2)).header;
        let mut recorder = Recorder::create(dir.path(), header).unwrap();
        let slot = Slot {
            load: 0,
            round: 0,
            arm: 1,
        };
        let left = Entry::ArmLeft {
            load: 0,
            arm: 0,
            reason: "it failed".into(),
        };
        let entries = [fixture::trial(slot, 1e6), left];
        for entry in entries.clone() {
            recorder.append(entry).unwrap();
        }
        let text = fs::read_to_string(dir.path().join(FILE)).unwrap();
        let names: Vec<[String; 2]> = text
            .lines()
            .skip(1)
            .map(|line| {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                ["load_name", "arm_name"].map(|name| value[name].as_str().unwrap().to_owned())
            })
            .collect();
        let expected = [["random-read", "mq-deadline"], ["random-read", "none"]];
        assert_eq!(names, expected);
        assert_eq!(Record::load(dir.path()).unwrap().entries, entries);
    }

    #[test]
    fn a_record_has_one_writer_at_a_time_and_takes_what_others_appended() {
        let dir = tempfile::tempdir().unwrap();
        let header = fixture::record(&fixture::plan(2)).header;
        let first = Recorder::create(dir.path(), header).unwrap();
        let second = Recorder::resume(dir.path(), None);
        assert_eq!(second.unwrap_err().code, exit::BUSY);
        let mode = fs::metadata(dir.path().join(LOCK))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else can hold it");
        drop(first);

        let mut resumed = Recorder::resume(dir.path(), None).unwrap();
        let slot = |arm| Slot {
            load: 0,
            round: 0,
            arm,
        };
        let path = dir.path().join(FILE);
        let line = serde_json::to_string(&fixture::trial(slot(0), 1e6)).unwrap() + "\n";
        let mut other = OpenOptions::new().append(true).open(&path).unwrap();
        other.write_all(line.as_bytes()).unwrap();
        resumed.append(fixture::trial(slot(1), 1e6)).unwrap();
        assert_eq!(Record::load(dir.path()).unwrap().trials().count(), 2);
    }

    #[test]
    fn a_record_in_which_nothing_happened_goes_and_another_one_in_its_place_stays() {
        let dir = tempfile::tempdir().unwrap();
        let header = || fixture::record(&fixture::plan(2)).header;
        let (here, aside) = (dir.path().join("r"), dir.path().join("aside"));
        Recorder::create(&here, header()).unwrap().remove_if_empty();
        assert!(!here.exists());
        let ours = Recorder::create(&here, header()).unwrap();
        fs::rename(&here, &aside).unwrap();
        drop(Recorder::create(&here, header()).unwrap());
        ours.remove_if_empty();
        assert_eq!(fs::read_dir(&here).unwrap().count(), 2);
    }

    #[test]
    fn what_a_run_left_that_was_cut_short_before_its_first_line_is_no_record() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(format!("{UNFINISHED}x"));
        fs::write(&left, "{\"kind\"").unwrap();
        fs::write(dir.path().join(LOCK), "").unwrap();
        let header = fixture::record(&fixture::plan(2)).header;
        drop(Recorder::create(dir.path(), header).unwrap());
        assert!(!left.exists());
        assert!(Record::load(dir.path()).is_ok());
    }

    #[test]
    fn a_directory_without_a_record_gets_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Recorder::resume(dir.path(), None).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
