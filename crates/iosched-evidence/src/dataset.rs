//! Rows in a directory: `rows.jsonl.gz`, JSON Lines compressed with gzip.
//!
//! The first line says what the file is, each other line is a [`Row`]. gzip's checksum shows damage. An addition writes the
//! file anew, whole or not at all, one command at a time. `.machines.key` beside it makes the names of machines; who has it
//! and knows a host's name can find that host's rows, so it is for its owner alone and not to be passed on.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use iosched_machine::beneath::Directory;
use iosched_machine::failure::{Problem, exit, room_hint};
use iosched_machine::path_trust::Trusted;
use iosched_machine::user_files::{self, NewFile};
use iosched_machine::{foreign, lock};
use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::reduce::Pseudonyms;
use crate::row::{Row, Text};

/// Where the evidence of this machine is, unless the user says otherwise.
pub const DEFAULT: &str = "/var/lib/iosched/evidence";

/// The version of the rows that this program reads and writes; 1 and 2 were Parquet files.
const SCHEMA: u32 = 3;

/// What the first line says that the file is.
const KIND: &str = "iosched-evidence";

/// The rows of a dataset.
const ROWS: &str = "rows.jsonl.gz";

/// Locked by whoever adds.
const LOCK: &str = ".lock";

/// What makes the names of machines.
const KEY: &str = ".machines.key";

/// How directories in a dataset of Parquet files begin.
const OF_PARQUET: &str = "class=";

/// The most rows that are read or written, and the most bytes that these may be without compression: what is pooled of
/// them fits into some hundred megabytes, whatever they say.
const MOST: Limits = Limits {
    rows: 200_000,
    bytes: 128 << 20,
};

/// The most rows of one machine in a dataset: one that contributes more than others (two hundred arms are 20 000 rows a
/// record) leaves room for a score of them.
const MOST_OF_MACHINE: usize = MOST.rows / 20;

#[derive(Debug, Clone, Copy)]
struct Limits {
    rows: usize,
    bytes: u64,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    kind: String,
    schema: u32,
}

/// Reads the rows of a directory that are wanted, each comparison once; none if there is no evidence.
///
/// # Errors
/// It holds something else, or what cannot be read.
pub fn read(
    directory: &Path,
    is_wanted: impl Fn(&Row) -> bool,
) -> Result<Option<Vec<Row>>, Problem> {
    read_at(directory, directory, is_wanted)
}

/// The same from `at`, which is that directory.
fn read_at(
    at: &Path,
    directory: &Path,
    is_wanted: impl Fn(&Row) -> bool,
) -> Result<Option<Vec<Row>>, Problem> {
    let path = directory.join(ROWS);
    match user_files::open_to_read(&at.join(ROWS)) {
        Ok(file) => parse(&path, MultiGzDecoder::new(BufReader::new(file)), is_wanted).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            nothing_else(at, directory).map(|()| None)
        }
        Err(error) => Err(failed(&path, &error)),
    }
}

/// Fails if a directory without rows is one of something else.
fn nothing_else(at: &Path, directory: &Path) -> Result<(), Problem> {
    let list = match fs::read_dir(at) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(directory, &error)),
    };
    let named = directory.display();
    for entry in list {
        let name = entry
            .map_err(|error| failed(directory, &error))?
            .file_name();
        let name = name.to_string_lossy();
        if name.starts_with(OF_PARQUET) {
            let message = format!("{named}: rows in Parquet files, which iosched reads no more");
            let hint = "the Python package makes a new dataset of them: \
                        `python3 -c 'import iosched; iosched.convert_evidence(\"OLD\", \"NEW\")'`";
            return Err(Problem::new(exit::BAD_RECORD, message).hint(hint));
        }
        if !name.starts_with('.') {
            let message = format!("{named} is no evidence: it has files, and no {ROWS}");
            let hint = "name a new directory, or an empty one";
            return Err(Problem::new(exit::BAD_RECORD, message).hint(hint));
        }
    }
    Ok(())
}

/// Reads rows without their compression; `path` is for errors.
pub(crate) fn parse(
    path: &Path,
    reader: impl Read,
    is_wanted: impl Fn(&Row) -> bool,
) -> Result<Vec<Row>, Problem> {
    parse_within(path, reader, MOST, is_wanted)
}

fn parse_within(
    path: &Path,
    reader: impl Read,
    most: Limits,
    is_wanted: impl Fn(&Row) -> bool,
) -> Result<Vec<Row>, Problem> {
    let damaged = |cause: String| damaged(path, &cause);
    let mut reader = BufReader::new(reader.take(most.bytes + 1));
    let mut line = Vec::new();
    let mut texts = HashSet::new();
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for number in 0.. {
        let read = foreign::read_line(&mut reader, &mut line);
        read.map_err(|error| damaged(error.to_string()))?;
        bytes += line.len() as u64;
        if bytes > most.bytes || (number > most.rows && !line.is_empty()) {
            return Err(too_much(path, "has"));
        }
        if number == 0 {
            check(path, &line)?;
            continue;
        }
        if line.is_empty() {
            break;
        }
        let row: Result<Row, serde_json::Error> = serde_json::from_slice(&line);
        let row = row.map_err(|error| foreign::cause(&error));
        let row = row.and_then(|row| row.check().map(|()| row));
        let mut row = row.map_err(|cause| damaged(format!("row {number}: {cause}")))?;
        if is_wanted(&row) {
            row.share(&mut texts);
            rows.push(row);
        }
    }
    let unique: HashSet<_> = rows.iter().map(Row::key).collect();
    if unique.len() < rows.len() {
        return Err(damaged("it has a comparison twice".into()));
    }
    Ok(rows)
}

/// Whether a first line is one of ours.
fn check(path: &Path, line: &[u8]) -> Result<(), Problem> {
    let head: Option<Head> = serde_json::from_slice(line).ok();
    let head = head.filter(|head| head.kind == KIND);
    let found = head
        .ok_or_else(|| damaged(path, &format!("it is no {KIND}")))?
        .schema;
    if found == SCHEMA {
        return Ok(());
    }
    let message = format!(
        "{} has evidence schema {found}; this iosched knows {SCHEMA}",
        path.display()
    );
    Err(Problem::new(exit::BAD_RECORD, message).hint("use the iosched that wrote it"))
}

fn damaged(path: &Path, cause: &str) -> Problem {
    let message = format!("{} is damaged: {cause}", path.display());
    let hint = "take it from a copy, or remove it and add its records again";
    Problem::new(exit::BAD_RECORD, message).hint(hint)
}

fn too_much(path: &Path, has: &str) -> Problem {
    let message = format!(
        "{} {has} more than {} rows or {} MiB, which is not read",
        path.display(),
        MOST.rows,
        MOST.bytes >> 20
    );
    let hint = "keep several datasets, one for each site or class of drives";
    Problem::new(exit::BAD_RECORD, message).hint(hint)
}

/// It cannot be read or written.
fn failed(path: &Path, error: &io::Error) -> Problem {
    let message = format!("cannot access {}: {error}", path.display());
    if user_files::is_led_elsewhere(error) {
        let hint = "name the directory by a way on which no link of another user stands";
        return Problem::new(exit::UNSAFE, message).hint(hint);
    }
    let code = match error.kind() {
        io::ErrorKind::PermissionDenied => exit::NOT_PERMITTED,
        _ => exit::FAILURE,
    };
    Problem::new(code, message).maybe_hint(room_hint(error))
}

/// What rows say beside those that are known.
#[derive(Debug)]
pub struct New {
    /// Those that say something new.
    pub rows: Vec<Row>,
    /// How many records say nothing new.
    pub already_there: usize,
    /// Records that are known as found somewhere else, or are more than their machine may have; their rows are not among
    /// the others.
    pub refused: Vec<Problem>,
}

impl New {
    /// Of these rows those that say something new: comparisons that are not known, or known with fewer rounds.
    pub fn beside(known: &[Row], rows: Vec<Row>) -> New {
        New::within(MOST_OF_MACHINE, known, rows)
    }

    fn within(most_of_machine: usize, known: &[Row], rows: Vec<Row>) -> New {
        let mut longest: HashMap<_, &Row> = known.iter().map(|row| (row.key(), row)).collect();
        let mut refused: BTreeMap<Text, &str> = BTreeMap::new();
        for row in &rows {
            if let Some(known) = longest.get(&row.key()) {
                if row.rounds <= known.rounds {
                    continue;
                }
                if let Some(column) = known.other_origin(row) {
                    refused.entry(row.record.clone()).or_insert(column);
                    continue;
                }
            }
            longest.insert(row.key(), row);
        }
        let is_kept = |row: &Row| std::ptr::eq(longest[&row.key()], row);
        let kept: Vec<bool> = rows.iter().map(is_kept).collect();
        let mut silent: HashSet<Text> = rows.iter().map(|row| row.record.clone()).collect();
        let kept_rows = rows.into_iter().zip(kept);
        let kept_rows = kept_rows.filter_map(|(row, is_kept)| is_kept.then_some(row));
        let mut new: Vec<Row> = kept_rows.collect();
        let over = over_quota(most_of_machine, known, &new);
        let names = new.iter().map(|row| &row.record).chain(refused.keys());
        for record in names {
            silent.remove(record);
        }
        new.retain(|row| !over.contains(&row.record));
        let refused = refused.iter();
        let refused = refused.map(|(record, column)| conflict(record, column));
        let over = over.iter();
        New {
            rows: new,
            already_there: silent.len(),
            refused: refused
                .chain(over.map(|record| too_much_of_machine(record, most_of_machine)))
                .collect(),
        }
    }
}

/// The records with which their machines would have more rows than a machine may have, in the order in which they come.
fn over_quota(most: usize, known: &[Row], new: &[Row]) -> BTreeSet<Text> {
    let mut of_machine: HashMap<&Text, usize> = HashMap::new();
    for row in known {
        *of_machine.entry(&row.machine).or_default() += 1;
    }
    let there: HashSet<_> = known.iter().map(Row::key).collect();
    let mut of_record: HashMap<&Text, usize> = HashMap::new();
    for row in new.iter().filter(|row| !there.contains(&row.key())) {
        *of_record.entry(&row.record).or_default() += 1;
    }
    let mut over = BTreeSet::new();
    for row in new {
        let Some(rows) = of_record.remove(&row.record) else {
            continue;
        };
        let has = of_machine.entry(&row.machine).or_default();
        if *has + rows > most {
            over.insert(row.record.clone());
        } else {
            *has += rows;
        }
    }
    over
}

fn too_much_of_machine(record: &str, most: usize) -> Problem {
    let message = format!(
        "the record {record} is too large: with it its machine would have more than {most} comparisons here"
    );
    let hint = "add records with fewer arms, or keep that machine's in a dataset of its own";
    Problem::new(exit::BAD_RECORD, message).hint(hint)
}

/// A comparison that is known comes again, with more rounds, and as found somewhere else.
fn conflict(record: &str, column: &str) -> Problem {
    let message = format!(
        "the record {record} is there with another {column}: it cannot have grown to what is to be added"
    );
    let hint = "what is there stays; find out who made the other: the identifier of a record is known to all who have a \
                dataset with it";
    Problem::new(exit::BAD_RECORD, message).hint(hint)
}

/// Adds rows to a directory, which is made if it is not there, beside the secret that named their machines. Of a comparison
/// that is there, the one with more rounds stays. Returns the file.
///
/// # Errors
/// It cannot be written, then it is as before. Another command adds to it.
pub fn add(directory: &Path, secret: &Secret, rows: &[Row]) -> Result<PathBuf, Problem> {
    let path = directory.join(ROWS);
    let of_directory = |error: io::Error| failed(directory, &error);
    let held = user_files::make_directory(directory).map_err(of_directory)?;
    let at = held.path();
    let lock = lock::open_private(&at.join(LOCK));
    let lock = lock.map_err(|error| failed(&directory.join(LOCK), &error))?;
    // Where a file system locks nothing, nobody is kept out.
    if lock::try_lock(&lock).is_ok_and(|is_ours| !is_ours) {
        return Err(busy(directory));
    }
    user_files::remove_unfinished(&held).map_err(of_directory)?;
    secret.keep(&held, directory)?;
    let mut all = read_at(&at, directory, |_| true)?.unwrap_or_default();
    let new = New::beside(&all, rows.to_vec()).rows;
    let grown: HashSet<_> = new.iter().map(Row::key).collect();
    all.retain(|row| !grown.contains(&row.key()));
    all.extend(new.iter().cloned());
    let bytes = compressed(&all).map_err(|error| failed(&path, &error))?;
    let bytes = bytes.ok_or_else(|| too_much(&path, "would have"))?;
    put(&held, ROWS.as_ref(), &bytes, NewFile::beneath).map_err(|error| failed(&path, &error))?;
    Ok(path)
}

fn busy(directory: &Path) -> Problem {
    let message = format!(
        "another command adds to {} at the same time",
        directory.display()
    );
    Problem::new(exit::BUSY, message).hint("wait until it ends, then run the command again")
}

/// Rows as a file; none if they are more than are read.
fn compressed(rows: &[Row]) -> io::Result<Option<Vec<u8>>> {
    let head = Head {
        kind: KIND.into(),
        schema: SCHEMA,
    };
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    let mut bytes = 0;
    let lines =
        std::iter::once(serde_json::to_vec(&head)).chain(rows.iter().map(serde_json::to_vec));
    for line in lines {
        let mut line = line?;
        line.push(b'\n');
        bytes += line.len() as u64;
        out.write_all(&line)?;
    }
    let is_too_much = bytes > MOST.bytes || rows.len() > MOST.rows;
    let file = out.finish()?;
    Ok((!is_too_much).then_some(file))
}

/// Writes a file beneath a directory, whole and on disk when this returns.
fn put(
    directory: &Directory,
    name: &OsStr,
    bytes: &[u8],
    begin: fn(Directory, &OsStr) -> io::Result<NewFile>,
) -> io::Result<()> {
    let mut file = begin(directory.hold_again()?, name)?;
    file.file().write_all(bytes)?;
    file.file().sync_all()?;
    file.put_in_place()?;
    directory.sync()
}

/// What names machines in a directory.
#[derive(Debug, Clone)]
pub struct Secret {
    key: String,
    is_new: bool,
}

impl Secret {
    /// That of a directory, drawn by chance if it has none yet. Nothing is written.
    ///
    /// # Errors
    /// It cannot be read, others can read it, or it is none.
    pub fn of(directory: &Path) -> Result<Secret, Problem> {
        let path = directory.join(KEY);
        let of_key = |error: io::Error| failed(&path, &error);
        let file = match user_files::open_to_read(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut chance = rand::rng();
                let words = (0..4).map(|_| format!("{:016x}", chance.next_u64()));
                return Ok(Secret {
                    key: words.collect(),
                    is_new: true,
                });
            }
            Err(error) => return Err(of_key(error)),
        };
        let is_link = fs::symlink_metadata(&path).is_ok_and(|status| status.is_symlink());
        let status = file.metadata().map_err(of_key)?;
        if is_link || !Trusted::of(None).has_alone(&status) {
            return Err(no_secret(&path));
        }
        let mut key = Vec::new();
        file.take(65).read_to_end(&mut key).map_err(of_key)?;
        if key.len() != 64 || !key.iter().all(u8::is_ascii_hexdigit) {
            let message = format!(
                "{} is damaged: it has not 64 hexadecimal digits",
                path.display()
            );
            let hint = "take it from a copy of the dataset; if there is none, remove it: then machines that are there \
                        already count twice when they are added again";
            return Err(Problem::new(exit::BAD_RECORD, message).hint(hint));
        }
        Ok(Secret {
            key: String::from_utf8_lossy(&key).into_owned(),
            is_new: false,
        })
    }

    /// By which names are made.
    pub fn names(&self) -> Pseudonyms {
        Pseudonyms::new(&self.key)
    }

    /// Keeps it in a directory that is locked, for its owner alone.
    ///
    /// # Errors
    /// It cannot be written; the directory was given another one since it was asked for its own.
    fn keep(&self, held: &Directory, directory: &Path) -> Result<(), Problem> {
        if !self.is_new {
            return Ok(());
        }
        if held.status(KEY.as_ref()).is_ok() {
            return Err(busy(directory));
        }
        let path = directory.join(KEY);
        let of_key = |error: io::Error| failed(&path, &error);
        put(
            held,
            KEY.as_ref(),
            self.key.as_bytes(),
            NewFile::secret_beneath,
        )
        .map_err(of_key)?;
        // Where the file system keeps no modes, all can read it.
        let status = fs::symlink_metadata(held.path().join(KEY)).map_err(of_key)?;
        if Trusted::of(None).has_alone(&status) {
            return Ok(());
        }
        let _ = held.remove_file(KEY.as_ref());
        Err(no_secret(&path))
    }

    /// True if the directory had none.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The same for another directory.
    #[must_use]
    pub fn for_new(mut self) -> Secret {
        self.is_new = true;
        self
    }
}

fn no_secret(path: &Path) -> Problem {
    let message = format!(
        "{} is no secret: others may read it, or it is somebody else's",
        path.display()
    );
    let hint = "merge what is there into a new dataset, which gets a secret of its own, and add to that; a file system \
                without modes (vfat, CIFS) keeps none";
    Problem::new(exit::UNSAFE, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::example;
    use std::os::unix::fs::PermissionsExt;

    /// Rows of so many records.
    fn rows(records: usize) -> Vec<Row> {
        let row = |record: usize| Row {
            record: format!("{record:032x}").into(),
            queue_depth: record.is_multiple_of(2).then_some(32),
            rotational: Some(record.is_multiple_of(3)),
            cpu_ratio: (!record.is_multiple_of(2)).then_some(1.5),
            p99_ratio: None,
            ..example()
        };
        (0..records).map(row).collect()
    }

    fn added(directory: &Path, rows: &[Row]) -> Result<PathBuf, Problem> {
        add(directory, &Secret::of(directory)?, rows)
    }

    fn all(directory: &Path) -> Vec<Row> {
        read(directory, |_| true).unwrap().unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_added_is_read_again_and_the_longer_of_a_comparison_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("a/evidence");
        assert_eq!(read(&at, |_| true), Ok(None));
        let path = added(&at, &rows(7)).unwrap();
        assert_eq!(all(&at), rows(7));
        assert_eq!((mode(&path), mode(&at.join(KEY))), (0o644, 0o600));
        let rotating = |row: &Row| row.rotational == Some(true);
        assert_eq!(read(&at, rotating).unwrap().unwrap().len(), 3);
        let mut more = rows(9);
        (more[0].rounds, more[1].rounds) = (9, 3);
        let new = New::beside(&all(&at), more.clone());
        assert_eq!((new.rows.len(), new.already_there), (3, 6));
        added(&at, &more).unwrap();
        let mut found = all(&at);
        found.sort_by(|a, b| a.record.cmp(&b.record));
        more[1].rounds = 5;
        assert_eq!(found, more);
    }

    #[test]
    fn a_record_cannot_grow_on_another_machine() {
        type Spoil = fn(&mut Row);
        let others: [(&str, Spoil); 4] = [
            ("machine", |row| row.machine = "fedcba9876543210".into()),
            ("model", |row| row.model = "another".into()),
            ("kernel", |row| row.kernel = "6.12.49".into()),
            ("day", |row| row.day += 1),
        ];
        for (column, spoil) in others {
            let mut foreign = rows(6);
            for row in &mut foreign {
                (row.rounds, row.log_ratio) = (1000, -0.5);
            }
            spoil(&mut foreign[2]);
            let new = New::beside(&rows(4), foreign.clone());
            assert_eq!((new.rows.len(), new.already_there), (5, 0), "{column}");
            let [refused] = &new.refused[..] else {
                panic!("{:?}", new.refused)
            };
            let named = format!("{:032x} is there with another {column}:", 2);
            assert!(refused.message.contains(&named), "{refused}");
            // So it is where both are given at once.
            let new = New::beside(&[], [rows(4), foreign].concat());
            assert_eq!((new.rows.len(), new.refused.len()), (6, 1), "{column}");
        }
    }

    #[test]
    fn a_machine_has_its_share_and_no_more_and_what_it_has_may_grow() {
        let of = |machine: &str, record: usize| Row {
            machine: machine.into(),
            ..rows(record + 1).remove(record)
        };
        let known = [of("canary", 0), of("canary", 1)];
        let longer = Row {
            rounds: 9,
            ..of("canary", 1)
        };
        let added = vec![longer, of("canary", 2), of("canary", 3), of("other", 4)];
        let new = New::within(3, &known, added);
        let records: Vec<&str> = new.rows.iter().map(|row| &row.record[31..]).collect();
        assert_eq!((records, new.already_there), (vec!["1", "2", "4"], 0));
        let [refused] = &new.refused[..] else {
            panic!("{:?}", new.refused)
        };
        let named = format!("the record {:032x} is too large", 3);
        assert!(refused.message.contains(&named), "{refused}");
    }

    #[test]
    fn what_is_damaged_or_of_another_kind_is_refused_with_the_cause() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |bytes: &[u8]| {
            fs::write(dir.path().join(ROWS), bytes).unwrap();
            let problem = read(dir.path(), |_| true).unwrap_err();
            assert_eq!(problem.code, exit::BAD_RECORD);
            assert!(problem.hint.is_some());
            problem.message
        };
        let lines = |lines: &[&str]| {
            let mut out = GzEncoder::new(Vec::new(), Compression::default());
            out.write_all(lines.join("\n").as_bytes()).unwrap();
            out.finish().unwrap()
        };
        let whole = compressed(&rows(5)).unwrap().unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() - 6] ^= 1; // of the checksum
        for bytes in [&whole[..whole.len() - 3], &flipped, b"nonsense"] {
            assert!(refused(bytes).contains(" is damaged: "));
        }
        let head = r#"{"kind": "iosched-evidence", "schema": 3}"#;
        let row = serde_json::to_string(&example()).unwrap();
        let broken = row.replace("ext4", "ext4\\nall is well");
        for (lines, expected) in [
            (lines(&["{}"]), "it is no iosched-evidence"),
            (lines(&[&head.replace('3', "4")]), "has evidence schema 4"),
            (lines(&[head, "{}"]), "row 1: missing field"),
            (lines(&[head, &row, &row]), "it has a comparison twice"),
            (lines(&[head, &broken]), "row 1: file_system has what"),
        ] {
            let said = refused(&lines);
            assert!(said.contains(expected), "{said}");
        }
        fs::remove_file(dir.path().join(ROWS)).unwrap();
        fs::write(dir.path().join("holiday.jpg"), "x").unwrap();
        let other = read(dir.path(), |_| true).unwrap_err();
        assert!(other.message.contains("is no evidence"), "{other}");
        let old = tempfile::tempdir().unwrap();
        fs::create_dir(old.path().join("class=nvme-ssd")).unwrap();
        let old = read(old.path(), |_| true).unwrap_err();
        let hint = old.hint.unwrap();
        assert!(hint.contains("iosched.convert_evidence("), "{hint}");
    }

    #[test]
    fn more_than_is_read_is_refused() {
        let bytes = compressed(&rows(5)).unwrap().unwrap();
        let read = |rows: usize, bytes_at_most: u64| {
            let most = Limits {
                rows,
                bytes: bytes_at_most,
            };
            parse_within(
                Path::new("e"),
                MultiGzDecoder::new(&bytes[..]),
                most,
                |_| true,
            )
        };
        assert_eq!(read(5, 10_000).unwrap().len(), 5);
        for (rows, bytes) in [(4, 10_000), (5, 1000)] {
            let problem = read(rows, bytes).unwrap_err();
            assert!(
                problem
                    .message
                    .contains("e has more than 200000 rows or 128 MiB")
            );
        }
    }

    #[test]
    fn what_a_killed_command_left_unfinished_goes_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        added(dir.path(), &rows(1)).unwrap();
        fs::write(dir.path().join(".iosched-0123456789abcdef"), "half").unwrap();
        fs::write(dir.path().join(".iosched-notes"), "somebody's").unwrap();
        added(dir.path(), &rows(2)).unwrap();
        assert!(!dir.path().join(".iosched-0123456789abcdef").exists());
        assert!(dir.path().join(".iosched-notes").exists());
    }

    #[test]
    fn one_command_adds_at_a_time_and_all_of_them_by_one_secret() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second] = [(); 2].map(|()| Secret::of(dir.path()).unwrap());
        assert!(first.is_new());
        add(dir.path(), &first, &rows(1)).unwrap();
        let is_busy = |done: Result<PathBuf, Problem>| done.unwrap_err().code == exit::BUSY;
        assert!(is_busy(add(dir.path(), &second, &rows(2))));
        let held = lock::open_private(&dir.path().join(LOCK)).unwrap();
        assert!(lock::try_lock(&held).unwrap());
        assert!(is_busy(added(dir.path(), &rows(2))));
        drop(held);
        added(dir.path(), &rows(2)).unwrap();
        assert_eq!(all(dir.path()).len(), 2);
        let now = Secret::of(dir.path()).unwrap();
        assert_eq!((now.is_new(), now.names()), (false, first.names()));
    }

    #[test]
    fn a_secret_that_others_know_or_that_is_damaged_is_none() {
        let dir = tempfile::tempdir().unwrap();
        added(dir.path(), &[]).unwrap();
        let key = dir.path().join(KEY);
        let refused = || Secret::of(dir.path()).unwrap_err();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(refused().code, exit::UNSAFE);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&key, dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &key).unwrap();
        assert!(Secret::of(dir.path()).is_err());
        fs::remove_file(&key).unwrap();
        fs::rename(dir.path().join("elsewhere"), &key).unwrap();
        assert!(Secret::of(dir.path()).is_ok());
        for damaged in [&b"short"[..], b"", &[0xff; 64], &[0; 64]] {
            fs::write(&key, damaged).unwrap();
            let hint = refused().hint.unwrap();
            assert!(hint.contains("count twice"), "{hint}");
        }
    }
}
