//! Rows in a directory of Parquet files: `class=nvme-ssd/DIGEST.parquet`.
//!
//! A file is named after its content, so damage is seen before it is read, and written once: an addition is a new file,
//! whole or not there. The same comparison in two files counts once, the longer one. Other programs read the directory as one
//! table with a column `class`. `.machines.key` beside it makes the names of machines; who has it and knows a host's name can
//! find that host's rows, so it is for its owner alone and not to be passed on.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;

use bytes::Bytes;
use iosched_machine::beneath::Directory;
use iosched_machine::failure::{Failure, exit};
use iosched_machine::lock;
use iosched_machine::path_trust::Trusted;
use iosched_machine::user_files::{self, NewFile};
use parquet::data_type::{BoolType, DoubleType, Int32Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::schema::types::Type;
use rand::Rng;

use crate::columns::{Columns, Texts, column, optional_column, parquet_file, texts};
use crate::digest::sha256;
use crate::envelope::{Envelope, Needs};
use crate::load_class::LoadClass;
use crate::reduce::Pseudonyms;
use crate::row::{P99Counted, Row, Source};

/// Where the evidence of this machine is, unless the user says otherwise.
pub const DEFAULT: &str = "/var/lib/iosched/evidence";

/// The version of the columns that this program writes. Newer ones are refused.
pub(crate) const SCHEMA: u32 = 2;

/// What a file says of itself.
const KIND: &str = "iosched-evidence";
const SCHEMA_KEY: &str = "iosched-evidence.schema";

/// Locked by whoever adds.
const LOCK: &str = ".lock";

/// What makes the names of machines.
const KEY: &str = ".machines.key";

/// How the part of a class is called.
const CLASS: &str = "class=";

/// So much of a digest is a file's name.
const NAME: usize = 32;

/// The most memory that the rows of a dataset may take, with all that is made of them to answer from, bytes.
const MOST_MEMORY: u64 = 384 << 20;

/// What a row takes of that without its texts, bytes: itself in a vector that grows by a quarter, its places in what finds
/// repeated comparisons, in its question, and in what pools a question that all rows answer.
const EACH_ROW: u64 = 640;

/// What a comparison takes that no row before it made: its questions of one level, or its arm in the answer to one.
const EACH_KIND: u64 = 900;

/// How often its names are held besides: drives in questions, arms in answers and their tables.
const NAMED_AGAIN: u64 = 4;

/// The most that is told apart of them: comparisons of two arms on a drive under a load on a kernel series, whatever machine
/// made them. Each is pooled by itself.
const MOST_KINDS: usize = 200_000;

/// The most that its files may have without their compression, bytes.
const MOST_UNCOMPRESSED: u64 = 1 << 30;

/// The largest file, bytes.
const LARGEST_FILE: u64 = 64 << 20;

/// The rows of a file have no more than so many bytes before they are encoded, so that it is no larger than that.
const WRITTEN_TOGETHER: usize = 48 << 20;

/// Rows of a file that are compressed together.
const GROUP: usize = 1 << 17;

/// By how many rows a vector of them grows at least.
const LEAST_GROWTH: usize = 64;

/// A load class with so many rows in a file has groups of its own, so that who wants another one need not read them.
const OWN_GROUP: usize = 1 << 12;

/// Columns that tell whether a row is wanted.
const SOURCE_COLUMN: usize = 2;
const LOAD_CLASS_COLUMN: usize = 13;

/// The columns of a version, in their order, and how many there are. What is new stands behind what was there; rows of older
/// files have none of it.
fn columns_of(version: u32) -> (usize, String) {
    let (count, added) = match version {
        1 => (25, ""),
        _ => (27, SINCE_2),
    };
    (count, format!("{COLUMNS}{added}}}"))
}

/// How p99 was counted.
const SINCE_2: &str = "
    required binary p99_counted (UTF8);
    optional int32 p99_count;
";

/// The columns of version 1.
const COLUMNS: &str = "message evidence {
    required binary record (UTF8);
    required binary machine (UTF8);
    required binary source (UTF8);
    required int32 day (DATE);
    required binary program (UTF8);
    required binary model (UTF8);
    required binary firmware (UTF8);
    required binary transport (UTF8);
    optional boolean rotational;
    required boolean is_virtual;
    optional int32 queue_depth;
    required binary kernel (UTF8);
    required binary file_system (UTF8);
    required binary load_class (UTF8);
    required binary load (UTF8);
    required binary fingerprint (UTF8);
    required binary objective (UTF8);
    required binary arm (UTF8);
    required binary against (UTF8);
    required boolean is_baseline;
    required double log_ratio;
    required double standard_error;
    required int32 rounds;
    optional double p99_ratio;
    optional double cpu_ratio;
";

/// Why a dataset cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// There is none.
    #[error("there is no evidence in {}: no such directory", path.display())]
    Missing {
        /// As given.
        path: PathBuf,
    },
    /// A directory of something else.
    #[error("{} is no evidence: it has files, and no class=...", path.display())]
    Other {
        /// As given.
        path: PathBuf,
    },
    /// A file is not what its name says.
    #[error("{} is damaged: {cause}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A file of a newer program.
    #[error("{} has evidence schema {found}; this iosched knows up to {SCHEMA}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// All files together take more than is read.
    #[error("{} and the files before it have more than the {most} {what} that are read of a dataset", path.display())]
    TooMuch {
        /// The file that is too much.
        path: PathBuf,
        /// Of what.
        what: &'static str,
        /// How many are read.
        most: u64,
    },
    /// With what is to be added it would have more than is read.
    #[error("{} would have more than the {most} {what} that are read of a dataset", path.display())]
    Full {
        /// As given.
        path: PathBuf,
        /// Of what.
        what: &'static str,
        /// How many are read.
        most: u64,
    },
    /// Another command gave it its secret meanwhile, or adds to it now.
    #[error("another command adds to {} at the same time", path.display())]
    Busy {
        /// As given.
        path: PathBuf,
    },
    /// Others know the secret that names machines, or gave it.
    #[error("{} is no secret: others may read it, or it is somebody else's", path.display())]
    NoSecret {
        /// The file.
        path: PathBuf,
    },
    /// The secret that names machines is none any more.
    #[error("{} is damaged: it has not 64 hexadecimal digits", path.display())]
    DamagedSecret {
        /// The file.
        path: PathBuf,
    },
    /// A comparison that is there stands again, with more rounds, and as found somewhere else.
    #[error(
        "the record {record} is there with another {column}: it cannot have grown to what is to be added"
    )]
    Conflict {
        /// Which record.
        record: String,
        /// The first column that differs.
        column: &'static str,
    },
    /// It cannot be read or written.
    #[error("cannot access {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Failure for DatasetError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            DatasetError::Missing { .. } => {
                "make it of records: `iosched evidence add RECORD...`, or name another one".into()
            }
            DatasetError::Other { .. } => "name a new directory, or an empty one".into(),
            DatasetError::Damaged { .. } => {
                "remove it, and add its records again, or take it from a copy".into()
            }
            DatasetError::TooMuch { .. } => {
                "keep several datasets, one for each site or class of drives; remove the file if you do not know who made it".into()
            }
            DatasetError::Full { .. } => {
                "add to several datasets, one for each site or class of drives".into()
            }
            DatasetError::Busy { .. } => "wait until it ends, then run the command again".into(),
            DatasetError::NoSecret { .. } => {
                "merge what is there into a new dataset, which gets a secret of its own, and add to that; a file system without modes (vfat, CIFS) keeps none".into()
            }
            DatasetError::DamagedSecret { .. } => {
                "take it from a copy of the dataset; if there is none, remove it: then machines that are there already count twice when they are added again".into()
            }
            DatasetError::Conflict { .. } => {
                "what is there stays; find out who made the other: the identifier of a record is known to all who have a dataset with it".into()
            }
            DatasetError::Newer { .. } => "use the iosched that wrote it, or a newer one".into(),
            DatasetError::Io { source, .. } if user_files::is_led_elsewhere(source) => {
                "name the directory by a way on which no link of another user stands".into()
            }
            DatasetError::Io { .. } => return None,
        })
    }

    fn exit_code(&self) -> u8 {
        match self {
            DatasetError::Missing { .. } => exit::NO_SUCH_DEVICE,
            DatasetError::Busy { .. } => exit::BUSY,
            DatasetError::NoSecret { .. } => exit::UNSAFE,
            DatasetError::Io { source, .. } if user_files::is_led_elsewhere(source) => exit::UNSAFE,
            DatasetError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                exit::NOT_PERMITTED
            }
            DatasetError::Io { .. } => exit::FAILURE,
            _ => exit::BAD_RECORD,
        }
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> DatasetError + use<> {
    let path = path.to_owned();
    move |source| DatasetError::Io {
        path: path.clone(),
        source,
    }
}

/// What is wanted of a directory: all of it, unless something is said.
#[derive(Debug, Clone, Default)]
pub struct RowFilter {
    /// Drives of these classes.
    pub classes: Option<BTreeSet<String>>,
    /// What was measured on drives, under loads of this class.
    pub measured: Option<LoadClass>,
}

impl RowFilter {
    fn has_class(&self, class: &str) -> bool {
        let classes = self.classes.as_ref();
        classes.is_none_or(|classes| classes.contains(class))
    }

    fn has(&self, source: Source, load_class: &str) -> bool {
        self.measured
            .is_none_or(|wanted| source == Source::Measured && *load_class == *wanted.name())
    }

    /// Whether rows of a group can be wanted, by what the file says of the least and the greatest value of a column.
    fn may_have(&self, group: &RowGroupMetaData) -> bool {
        let Some(wanted) = self.measured else {
            return true;
        };
        let texts = [
            (SOURCE_COLUMN, Source::Measured.name()),
            (LOAD_CLASS_COLUMN, wanted.name()),
        ];
        texts.into_iter().all(|(column, text)| {
            let of_column = group.column(column).statistics();
            let least = of_column.and_then(Statistics::min_bytes_opt);
            let greatest = of_column.and_then(Statistics::max_bytes_opt);
            least.is_none_or(|least| least <= text.as_bytes())
                && greatest.is_none_or(|greatest| text.as_bytes() <= greatest)
        })
    }
}

/// What a directory holds.
#[derive(Debug, Default)]
pub struct Dataset {
    /// Each comparison once.
    pub rows: Vec<Row>,
    /// Files that cannot be used; their rows are not among the others.
    pub unusable: Vec<DatasetError>,
    /// Rows that were decoded for them: those of the groups that may have what is wanted.
    pub decoded: u64,
}

impl Dataset {
    /// Reads what is wanted of a directory.
    ///
    /// # Errors
    /// It is not there, or is no dataset, or cannot be listed.
    pub fn read(directory: &Path, wanted: &RowFilter) -> Result<Dataset, DatasetError> {
        Dataset::read_within(directory, wanted, &mut Room::default())
    }

    /// The same, beside what has taken of the room already.
    ///
    /// # Errors
    /// As [`Dataset::read`].
    pub fn read_within(
        directory: &Path,
        wanted: &RowFilter,
        room: &mut Room,
    ) -> Result<Dataset, DatasetError> {
        let mut read = Dataset::default();
        for (class, part) in classes_of(directory)? {
            if !wanted.has_class(&class) {
                continue;
            }
            let files = files_of(&part).unwrap_or_else(|error| {
                read.unusable.push(error);
                Vec::new()
            });
            for path in files {
                match read_file(&path, &class, wanted, room, &mut read.rows) {
                    Ok(decoded) => read.decoded += decoded,
                    Err(error) => read.unusable.push(error),
                }
            }
        }
        let (rows, refused) = each_once(read.rows);
        read.rows = rows;
        read.unusable.extend(refused);
        Ok(read)
    }

    /// Of these rows those that say something new.
    pub fn new_of(&self, rows: Vec<Row>) -> New {
        let records = |rows: &[Row]| -> BTreeSet<String> {
            rows.iter().map(|row| row.record.to_string()).collect()
        };
        let mut left_out = records(&rows);
        let known: HashSet<Same<'_>> = self.rows.iter().map(Same).collect();
        let mut refused = Vec::new();
        let mut is_new = |row: &Row| {
            let Some(Same(known)) = known.get(&Same(row)) else {
                return true;
            };
            has_grown(known, row, &mut refused)
        };
        let new = rows.into_iter().filter(&mut is_new).collect();
        let (rows, among_them) = each_once(new);
        refused.extend(among_them);
        let refused = each_named_once(refused);
        for record in records(&rows) {
            left_out.remove(&record);
        }
        for error in &refused {
            if let DatasetError::Conflict { record, .. } = error {
                left_out.remove(record);
            }
        }
        New {
            rows,
            already_there: left_out.len(),
            refused,
        }
    }
}

/// What rows say beside a dataset.
#[derive(Debug)]
pub struct New {
    /// Those that say something new.
    pub rows: Vec<Row>,
    /// How many records say nothing new.
    pub already_there: usize,
    /// Records that are there as found somewhere else; their rows are not among the others.
    pub refused: Vec<DatasetError>,
}

/// Whether a row has more rounds of the comparison that is known; if it was found somewhere else, that is an error.
fn has_grown(known: &Row, row: &Row, refused: &mut Vec<DatasetError>) -> bool {
    if row.rounds <= known.rounds {
        return false;
    }
    let Some(column) = known.other_origin(row) else {
        return true;
    };
    refused.push(DatasetError::Conflict {
        record: row.record.to_string(),
        column,
    });
    false
}

/// The same comparison once, with the most rounds, in the order in which they came; what more rounds were found somewhere
/// else than those that came first.
fn each_once(mut rows: Vec<Row>) -> (Vec<Row>, Vec<DatasetError>) {
    let mut longest: HashMap<Same<'_>, usize> = HashMap::with_capacity(rows.len());
    let mut refused = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let best = longest.entry(Same(row)).or_insert(at);
        if has_grown(&rows[*best], row, &mut refused) {
            *best = at;
        }
    }
    if longest.len() == rows.len() {
        return (rows, refused);
    }
    let kept: HashSet<usize> = longest.into_values().collect();
    let mut at = 0..rows.len();
    rows.retain(|_| at.next().is_some_and(|at| kept.contains(&at)));
    (rows, each_named_once(refused))
}

/// One error for each record.
fn each_named_once(mut refused: Vec<DatasetError>) -> Vec<DatasetError> {
    let mut named = HashSet::new();
    refused.retain(|error| match error {
        DatasetError::Conflict { record, .. } => named.insert(record.clone()),
        _ => true,
    });
    refused
}

/// A row, equal to others that compare the same.
struct Same<'a>(&'a Row);

impl PartialEq for Same<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for Same<'_> {}

impl Hash for Same<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key().hash(state);
    }
}

/// The classes of a dataset, each with its directory, in a fixed order.
fn classes_of(directory: &Path) -> Result<Vec<(String, PathBuf)>, DatasetError> {
    let mut found = Vec::new();
    let mut has_others = false;
    for entry in sorted(directory)? {
        let name = entry.file_name().and_then(OsStr::to_str);
        let name = name.unwrap_or_default();
        match name.strip_prefix(CLASS) {
            Some(class) => found.push((class.to_owned(), entry)),
            None => has_others |= !name.starts_with('.'),
        }
    }
    if found.is_empty() && has_others {
        return Err(DatasetError::Other {
            path: directory.into(),
        });
    }
    Ok(found)
}

/// The files of a class.
fn files_of(part: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let mut files = sorted(part)?;
    files.retain(|file| {
        let name = file.file_name().unwrap_or_default();
        file.extension() == Some(OsStr::new("parquet"))
            && !name.as_encoded_bytes().starts_with(b".")
    });
    Ok(files)
}

fn sorted(directory: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let list = fs::read_dir(directory).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => DatasetError::Missing {
            path: directory.into(),
        },
        _ => failed(directory)(source),
    })?;
    let paths = list
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>();
    let mut paths = paths.map_err(failed(directory))?;
    paths.sort();
    Ok(paths)
}

/// What is left of what datasets that are held at the same time may take.
#[derive(Debug)]
pub struct Room {
    memory: u64,
    uncompressed: u64,
    /// What is told apart, by its digest. Who makes files does not know how digests are made.
    kinds: HashSet<u64>,
    most_kinds: usize,
    digests: RandomState,
}

/// What there is too much of, and how much of it is read.
type TooMuch = (&'static str, u64);

impl Default for Room {
    fn default() -> Room {
        Room {
            memory: MOST_MEMORY,
            uncompressed: MOST_UNCOMPRESSED,
            kinds: HashSet::new(),
            most_kinds: MOST_KINDS,
            digests: RandomState::new(),
        }
    }
}

impl Room {
    const OF_MEMORY: TooMuch = ("MiB of rows and names", MOST_MEMORY >> 20);

    /// Makes room for what is to be added to a dataset.
    ///
    /// # Errors
    /// There is none.
    pub fn take(&mut self, directory: &Path, rows: &[Row]) -> Result<(), DatasetError> {
        let mut texts = Texts::within(self.memory);
        let mut all = rows.iter().flat_map(Row::texts);
        let has_room = all.all(|text| texts.one(text).is_some());
        let left = texts.left().filter(|_| has_room).ok_or(Room::OF_MEMORY);
        let taken = left.and_then(|left| {
            self.memory = left;
            self.take_rows(rows.len() as u64)?;
            self.take_kinds(rows)
        });
        taken.map_err(|(what, most)| DatasetError::Full {
            path: directory.into(),
            what,
            most,
        })
    }

    fn take_memory(&mut self, bytes: u64) -> Result<(), TooMuch> {
        let left = self.memory.checked_sub(bytes);
        self.memory = left.ok_or(Room::OF_MEMORY)?;
        Ok(())
    }

    fn take_rows(&mut self, rows: u64) -> Result<(), TooMuch> {
        self.take_memory(rows.saturating_mul(EACH_ROW))
    }

    fn take_uncompressed(&mut self, bytes: u64) -> Result<(), TooMuch> {
        let left = self.uncompressed.checked_sub(bytes);
        self.uncompressed = left.ok_or(("MiB without compression", MOST_UNCOMPRESSED >> 20))?;
        Ok(())
    }

    /// Makes room for what rows tell apart; for none of it where that is too much.
    fn take_kinds(&mut self, rows: &[Row]) -> Result<(), TooMuch> {
        let mut new = HashSet::new();
        let mut memory = 0;
        for row in rows {
            let kind = self.digests.hash_one(row.kind());
            if !self.kinds.contains(&kind) && new.insert(kind) {
                let names = [&row.model, &row.transport, &row.arm, &row.against];
                let names: u64 = names.iter().map(|name| name.len() as u64).sum();
                memory += EACH_KIND + NAMED_AGAIN * names;
            }
            if self.kinds.len() + new.len() > self.most_kinds {
                let what = "different comparisons (drive, load, kernel series, two arms)";
                return Err((what, self.most_kinds as u64));
            }
        }
        self.take_memory(memory)?;
        self.kinds.extend(new);
        Ok(())
    }
}

/// Appends those rows of a file that are wanted, each checked, and says how many were decoded for them. If it fails,
/// nothing is appended, and no room is taken.
fn read_file(
    path: &Path,
    class: &str,
    wanted: &RowFilter,
    room: &mut Room,
    rows: &mut Vec<Row>,
) -> Result<u64, DatasetError> {
    let (memory, uncompressed, before) = (room.memory, room.uncompressed, rows.len());
    let read = read_rows(path, class, wanted, room, rows);
    if read.is_err() {
        rows.truncate(before);
        (room.memory, room.uncompressed) = (memory, uncompressed);
    }
    read
}

fn read_rows(
    path: &Path,
    class: &str,
    wanted: &RowFilter,
    room: &mut Room,
    rows: &mut Vec<Row>,
) -> Result<u64, DatasetError> {
    let damaged = |cause: String| DatasetError::Damaged {
        path: path.into(),
        cause,
    };
    let bytes = whole_file(path).map_err(failed(path))?;
    let named = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    if sha256(&bytes)[..NAME] != *named {
        return Err(damaged("its name is not that of its content".into()));
    }
    // What somebody made to harm has the right name, too.
    let envelope = Envelope::of(&bytes).map_err(damaged)?;
    if let Some(found) = version(&envelope).filter(|found| *found > SCHEMA) {
        return Err(DatasetError::Newer {
            path: path.into(),
            found,
        });
    }
    let needs = check(&envelope).map_err(damaged)?;
    drop(envelope);
    let too_much = |(what, most)| DatasetError::TooMuch {
        path: path.into(),
        what,
        most,
    };
    let begin = rows.len();
    let taken = room.take_uncompressed(needs.uncompressed);
    let taken = taken.and_then(|()| room.take_rows(needs.rows));
    taken.map_err(too_much)?;
    let mut texts = Texts::within(room.memory);
    let read = rows_of(bytes.into(), wanted, &mut texts, rows);
    room.memory = texts.left().ok_or_else(|| too_much(Room::OF_MEMORY))?;
    let decoded = read.map_err(damaged)?;
    drop(texts);
    let rows = &rows[begin..];
    let drive = |row: &Row| (row.transport.clone(), row.rotational, row.is_virtual);
    let mut last = None;
    for (number, row) in rows.iter().enumerate() {
        let checked = row.check().and_then(|()| {
            let this = Some(drive(row));
            if last == this {
                return Ok(());
            }
            last = this;
            let of = row.class();
            if of == class {
                Ok(())
            } else {
                Err(format!("it is of class {of}"))
            }
        });
        checked.map_err(|cause| damaged(format!("row {}: {cause}", number + 1)))?;
    }
    room.take_kinds(rows).map_err(too_much)?;
    Ok(decoded)
}

fn whole_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = user_files::open_to_read(path)?;
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(iosched_machine::foreign::too_large("it", LARGEST_FILE));
    }
    Ok(bytes)
}

/// The version of the columns that a file says it has.
fn version(envelope: &Envelope<'_>) -> Option<u32> {
    envelope.says(SCHEMA_KEY)?.parse().ok()
}

/// What reading a file would take, if it is one of this version.
fn check(envelope: &Envelope<'_>) -> Result<Needs, String> {
    let version = version(envelope).ok_or_else(|| format!("it is no {KIND}"))?;
    envelope.check(columns_of(version).0, GROUP as u64)
}

/// The same of bytes.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn needs(bytes: &[u8]) -> Result<Needs, String> {
    check(&Envelope::of(bytes)?)
}

/// Appends those rows of a file that are wanted, which was found to take no more than it has: as they are there, whatever they
/// say. How many were decoded.
pub(crate) fn rows_of(
    file: Bytes,
    wanted: &RowFilter,
    texts: &mut Texts,
    rows: &mut Vec<Row>,
) -> Result<u64, String> {
    // The library panics on some of what is damaged.
    let read = unwound(|| parse(file, wanted, texts, rows));
    read.unwrap_or_else(|| Err("it is no Parquet file".into()))
}

thread_local! {
    /// What panics is caught, and what it says is of no use to anybody.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// What is done, or nothing if it panics; nothing is printed then.
fn unwound<T>(act: impl FnOnce() -> T) -> Option<T> {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                before(panic);
            }
        }));
    });
    IS_CAUGHT.set(true);
    let done = catch_unwind(AssertUnwindSafe(act));
    IS_CAUGHT.set(false);
    done.ok()
}

fn parse(
    file: Bytes,
    wanted: &RowFilter,
    texts: &mut Texts,
    rows: &mut Vec<Row>,
) -> Result<u64, String> {
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    let about = reader.metadata().file_metadata();
    let version = (about.key_value_metadata().into_iter().flatten())
        .find(|said| said.key == SCHEMA_KEY)
        .and_then(|said| said.value.as_ref()?.parse().ok());
    let version: u32 = version.ok_or_else(|| format!("it is no {KIND}"))?;
    let (_, columns) = columns_of(version);
    let expected = parquet::schema::parser::parse_message_type(&columns);
    let expected = expected.expect("our own columns are well-formed");
    if expected != *about.schema() {
        let difference = difference(&expected, about.schema());
        return Err(format!("{difference}, other than in schema {version}"));
    }
    let mut decoded = 0;
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number);
        let group = group.map_err(|error| error.to_string())?;
        if wanted.may_have(group.metadata()) {
            let mut columns = Columns::of(group.as_ref(), texts)?;
            decoded += columns.rows() as u64;
            read_group(&mut columns, version, wanted, rows)?;
        }
    }
    Ok(decoded)
}

/// How the columns of a file depart from ours.
fn difference(expected: &Type, found: &Type) -> String {
    let columns = expected.get_fields().iter().zip(found.get_fields());
    for (ours, theirs) in columns {
        if ours.name() != theirs.name() {
            let (ours, theirs) = (ours.name(), theirs.name());
            return format!("it has a column {theirs:?} where {ours} belongs");
        }
        if ours != theirs {
            return format!("its column {} is of another type", ours.name());
        }
    }
    "its columns are there, but another program than iosched wrote it".into()
}

fn read_group(
    columns: &mut Columns<'_>,
    version: u32,
    wanted: &RowFilter,
    rows: &mut Vec<Row>,
) -> Result<(), String> {
    let mut record = columns.texts()?.into_iter();
    let mut machine = columns.texts()?.into_iter();
    let mut source = columns.texts()?.into_iter();
    let mut day = columns.column::<Int32Type>()?.into_iter();
    let mut program = columns.texts()?.into_iter();
    let mut model = columns.texts()?.into_iter();
    let mut firmware = columns.texts()?.into_iter();
    let mut transport = columns.texts()?.into_iter();
    let mut rotational = columns.optional_column::<BoolType>()?.into_iter();
    let mut is_virtual = columns.column::<BoolType>()?.into_iter();
    let mut queue_depth = columns.optional_column::<Int32Type>()?.into_iter();
    let mut kernel = columns.texts()?.into_iter();
    let mut file_system = columns.texts()?.into_iter();
    let mut load_class = columns.texts()?.into_iter();
    let mut load = columns.texts()?.into_iter();
    let mut fingerprint = columns.texts()?.into_iter();
    let mut objective = columns.texts()?.into_iter();
    let mut arm = columns.texts()?.into_iter();
    let mut against = columns.texts()?.into_iter();
    let mut is_baseline = columns.column::<BoolType>()?.into_iter();
    let mut log_ratio = columns.column::<DoubleType>()?.into_iter();
    let mut standard_error = columns.column::<DoubleType>()?.into_iter();
    let mut rounds = columns.column::<Int32Type>()?.into_iter();
    let mut p99_ratio = columns.optional_column::<DoubleType>()?.into_iter();
    let mut cpu_ratio = columns.optional_column::<DoubleType>()?.into_iter();
    let (mut p99_counted, mut p99_count) = match version {
        1 => (Vec::new().into_iter(), Vec::new().into_iter()),
        _ => (
            columns.texts()?.into_iter(),
            columns.optional_column::<Int32Type>()?.into_iter(),
        ),
    };
    let mut next = || -> Option<Result<Row, String>> {
        let record = record.next()?;
        let source = source.next()?;
        let Some(source) = Source::from_name(&source) else {
            return Some(Err(format!("source is {:?}", &*source)));
        };
        let counted = p99_counted.next().filter(|name| !name.is_empty());
        let counted = counted.map(|name| P99Counted::from_name(&name).ok_or(name));
        let counted = match counted.transpose() {
            Ok(counted) => counted,
            Err(name) => return Some(Err(format!("p99_counted is {:?}", &*name))),
        };
        Some(Ok(Row {
            record,
            machine: machine.next()?,
            source,
            day: day.next()?,
            program: program.next()?,
            model: model.next()?,
            firmware: firmware.next()?,
            transport: transport.next()?,
            rotational: rotational.next()?,
            is_virtual: is_virtual.next()?,
            queue_depth: queue_depth.next()?,
            kernel: kernel.next()?,
            file_system: file_system.next()?,
            load_class: load_class.next()?,
            load: load.next()?,
            fingerprint: fingerprint.next()?,
            objective: objective.next()?,
            arm: arm.next()?,
            against: against.next()?,
            is_baseline: is_baseline.next()?,
            log_ratio: log_ratio.next()?,
            standard_error: standard_error.next()?,
            rounds: rounds.next()?,
            p99_ratio: p99_ratio.next()?,
            cpu_ratio: cpu_ratio.next()?,
            p99_counted: counted,
            p99_count: p99_count.next().flatten(),
        }))
    };
    for row in std::iter::from_fn(&mut next) {
        let row = row?;
        if !wanted.has(row.source, &row.load_class) {
            continue;
        }
        // Doubled, a vector takes more than there is room for.
        if rows.len() == rows.capacity() {
            rows.reserve_exact(LEAST_GROWTH.max(rows.len() / 4));
        }
        rows.push(row);
    }
    Ok(())
}

/// Rows that are encoded together, in the order in which they are: of a source and load class where these have many there, the
/// others between them.
fn groups<'a, 'b>(rows: &'b [&'a Row]) -> impl Iterator<Item = &'b [&'a Row]> {
    let mut groups = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for alike in rows.chunk_by(|a, b| (a.source, &a.load_class) == (b.source, &b.load_class)) {
        if alike.len() >= OWN_GROUP {
            groups.extend([&rows[begin..end], alike]);
            begin = end + alike.len();
        }
        end += alike.len();
    }
    groups.push(&rows[begin..end]);
    groups.into_iter().flat_map(|rows| rows.chunks(GROUP))
}

/// Rows as a file.
pub(crate) fn bytes_of(rows: &[&Row]) -> Result<Vec<u8>, ParquetError> {
    bytes_of_version(rows, SCHEMA)
}

fn bytes_of_version(rows: &[&Row], version: u32) -> Result<Vec<u8>, ParquetError> {
    let schema = version.to_string();
    let (_, columns) = columns_of(version);
    let mut writer = parquet_file(&columns, &[(SCHEMA_KEY, &schema)], Vec::new())?;
    for rows in groups(rows) {
        let mut group = writer.next_row_group()?;
        texts(&mut group, rows.iter().map(|row| &*row.record))?;
        texts(&mut group, rows.iter().map(|row| &*row.machine))?;
        texts(&mut group, rows.iter().map(|row| row.source.name()))?;
        column::<Int32Type, _>(&mut group, rows.iter().map(|row| row.day))?;
        texts(&mut group, rows.iter().map(|row| &*row.program))?;
        texts(&mut group, rows.iter().map(|row| &*row.model))?;
        texts(&mut group, rows.iter().map(|row| &*row.firmware))?;
        texts(&mut group, rows.iter().map(|row| &*row.transport))?;
        optional_column::<BoolType, _>(&mut group, rows.iter().map(|row| row.rotational))?;
        column::<BoolType, _>(&mut group, rows.iter().map(|row| row.is_virtual))?;
        optional_column::<Int32Type, _>(&mut group, rows.iter().map(|row| row.queue_depth))?;
        texts(&mut group, rows.iter().map(|row| &*row.kernel))?;
        texts(&mut group, rows.iter().map(|row| &*row.file_system))?;
        texts(&mut group, rows.iter().map(|row| &*row.load_class))?;
        texts(&mut group, rows.iter().map(|row| &*row.load))?;
        texts(&mut group, rows.iter().map(|row| &*row.fingerprint))?;
        texts(&mut group, rows.iter().map(|row| &*row.objective))?;
        texts(&mut group, rows.iter().map(|row| &*row.arm))?;
        texts(&mut group, rows.iter().map(|row| &*row.against))?;
        column::<BoolType, _>(&mut group, rows.iter().map(|row| row.is_baseline))?;
        column::<DoubleType, _>(&mut group, rows.iter().map(|row| row.log_ratio))?;
        column::<DoubleType, _>(&mut group, rows.iter().map(|row| row.standard_error))?;
        column::<Int32Type, _>(&mut group, rows.iter().map(|row| row.rounds))?;
        optional_column::<DoubleType, _>(&mut group, rows.iter().map(|row| row.p99_ratio))?;
        optional_column::<DoubleType, _>(&mut group, rows.iter().map(|row| row.cpu_ratio))?;
        if version > 1 {
            let counted = |row: &&Row| row.p99_counted.map_or("", P99Counted::name);
            texts(&mut group, rows.iter().map(counted))?;
            optional_column::<Int32Type, _>(&mut group, rows.iter().map(|row| row.p99_count))?;
        }
        group.close()?;
    }
    writer.into_inner()
}

/// Adds rows to a directory, which is made if it is not there: a new file for each class (several where there is much),
/// beside the secret that named their machines. Returns the files.
///
/// # Errors
/// One cannot be written; those before it are whole. Another command adds to it.
pub fn add(directory: &Path, secret: &Secret, rows: &[Row]) -> Result<Vec<PathBuf>, DatasetError> {
    let mut classes: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        classes.entry(row.class()).or_default().push(row);
    }
    let held = user_files::make_directory(directory).map_err(failed(directory))?;
    let lock = lock::open_private(&held.path().join(LOCK));
    let lock = lock.map_err(failed(&directory.join(LOCK)))?;
    // Where a file system locks nothing, nobody is kept out.
    if lock::try_lock(&lock).is_ok_and(|is_ours| !is_ours) {
        return Err(DatasetError::Busy {
            path: directory.into(),
        });
    }
    user_files::remove_unfinished(&held).map_err(failed(directory))?;
    secret.keep(&held, directory)?;
    let mut written = Vec::new();
    for (class, mut rows) in classes {
        let class = format!("{CLASS}{class}");
        // In groups of their own: each in the order of its records.
        rows.sort_by(|a, b| (a.source, &a.load_class).cmp(&(b.source, &b.load_class)));
        for rows in files(&rows, WRITTEN_TOGETHER) {
            let bytes =
                bytes_of(rows).expect("rows have the columns, and memory takes all of them");
            let name = format!("{}.parquet", &sha256(&bytes)[..NAME]);
            let path = directory.join(&class).join(&name);
            let write = || -> io::Result<()> {
                let part = held.make(class.as_ref())?;
                user_files::remove_unfinished(&part)?;
                put(&part, name.as_ref(), &bytes, NewFile::beneath)?;
                held.sync()
            };
            write().map_err(failed(&path))?;
            written.push(path);
        }
    }
    Ok(written)
}

/// Rows that are written into one file each, of no more than so many bytes before they are encoded.
fn files<'a, 'b>(rows: &'b [&'a Row], together: usize) -> Vec<&'b [&'a Row]> {
    /// Its numbers, and the lengths of its texts.
    const NUMBERS: usize = 160;
    let size = |row: &Row| NUMBERS + row.texts().map(|text| text.len()).sum::<usize>();
    let mut files = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (at, row) in rows.iter().enumerate() {
        bytes += size(row);
        if bytes > together && at > begin {
            files.push(&rows[begin..at]);
            (begin, bytes) = (at, size(row));
        }
    }
    files.push(&rows[begin..]);
    files
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

/// What names machines in a directory, made by chance if it has nothing of the kind yet. Nothing is written.
///
/// # Errors
/// It cannot be read, or is none.
pub fn pseudonyms(directory: &Path) -> Result<Secret, DatasetError> {
    let path = directory.join(KEY);
    let file = match user_files::open_to_read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut chance = rand::rng();
            let words: Vec<String> = (0..4)
                .map(|_| format!("{:016x}", chance.next_u64()))
                .collect();
            return Ok(Secret {
                key: words.concat(),
                is_new: true,
            });
        }
        Err(error) => return Err(failed(&path)(error)),
    };
    let is_link = fs::symlink_metadata(&path).is_ok_and(|status| status.is_symlink());
    let status = file.metadata().map_err(failed(&path))?;
    if is_link || !Trusted::of(None).has_alone(&status) {
        return Err(DatasetError::NoSecret { path });
    }
    let mut key = String::new();
    match file.take(65).read_to_string(&mut key) {
        Err(error) if error.kind() != io::ErrorKind::InvalidData => {
            return Err(failed(&path)(error));
        }
        _ => {}
    }
    if key.len() != 64 || !key.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(DatasetError::DamagedSecret { path });
    }
    Ok(Secret { key, is_new: false })
}

/// What names machines in a directory.
#[derive(Debug, Clone)]
pub struct Secret {
    key: String,
    is_new: bool,
}

impl Secret {
    /// By which names are made.
    pub fn names(&self) -> Pseudonyms {
        Pseudonyms::new(&self.key)
    }

    /// Keeps it in a directory that is locked, for its owner alone.
    ///
    /// # Errors
    /// It cannot be written; the directory was given another one since it was asked for its own.
    fn keep(&self, held: &Directory, path: &Path) -> Result<(), DatasetError> {
        if !self.is_new {
            return Ok(());
        }
        if held.status(KEY.as_ref()).is_ok() {
            return Err(DatasetError::Busy { path: path.into() });
        }
        let bytes = self.key.as_bytes();
        let key = path.join(KEY);
        put(held, KEY.as_ref(), bytes, NewFile::secret_beneath).map_err(failed(&key))?;
        // Where the file system keeps no modes, all can read it.
        let status = fs::symlink_metadata(held.path().join(KEY)).map_err(failed(&key))?;
        if Trusted::of(None).has_alone(&status) {
            return Ok(());
        }
        let _ = held.remove_file(KEY.as_ref());
        Err(DatasetError::NoSecret { path: key })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Text, example};
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

    const ALL: RowFilter = RowFilter {
        classes: None,
        measured: None,
    };

    fn added(directory: &Path, rows: &[Row]) -> Result<Vec<PathBuf>, DatasetError> {
        add(directory, &pseudonyms(directory)?, rows)
    }

    fn only_file(directory: &Path) -> PathBuf {
        let mut classes = classes_of(directory).unwrap();
        let mut found = files_of(&classes.remove(0).1).unwrap();
        assert_eq!((classes.len(), found.len()), (0, 1));
        found.remove(0)
    }

    #[test]
    fn what_is_added_is_read_again_each_class_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("a/evidence");
        let mut expected = rows(7);
        assert_eq!(added(&at, &expected).unwrap().len(), 2);
        let mut read = Dataset::read(&at, &ALL).unwrap();
        assert!(read.unusable.is_empty());
        let by_record = |a: &Row, b: &Row| a.record.cmp(&b.record);
        read.rows.sort_by(by_record);
        expected.sort_by(by_record);
        assert_eq!(read.rows, expected);
        let one = RowFilter {
            classes: Some(["nvme-hdd".to_owned()].into()),
            ..ALL
        };
        let read = Dataset::read(&at, &one).unwrap();
        assert_eq!(read.rows.len(), 3);
        assert_eq!(
            fs::metadata(at.join("class=nvme-ssd"))
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o755
        );
    }

    #[test]
    fn of_a_load_class_no_row_of_another_is_decoded_where_there_are_many() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = rows(4 * OWN_GROUP);
        for (number, row) in all.iter_mut().enumerate() {
            row.rotational = Some(false);
            row.load_class = LoadClass::ALL[number % 3].name().into();
            if number % 8 == 0 {
                row.source = Source::Emulated;
            }
        }
        added(dir.path(), &all).unwrap();
        for class in LoadClass::ALL {
            let wanted = RowFilter {
                measured: Some(class),
                ..ALL
            };
            let read = Dataset::read(dir.path(), &wanted).unwrap();
            assert!(read.unusable.is_empty());
            let is_wanted =
                |row: &&Row| row.source == Source::Measured && *row.load_class == *class.name();
            let mut expected: Vec<&Row> = all.iter().filter(is_wanted).collect();
            expected.sort_by_key(|row| row.record.clone());
            let mut found: Vec<&Row> = read.rows.iter().collect();
            found.sort_by_key(|row| row.record.clone());
            assert_eq!(found, expected);
            assert_eq!(read.decoded, expected.len() as u64, "{class:?}");
        }
        assert_eq!(
            Dataset::read(dir.path(), &ALL).unwrap().rows.len(),
            all.len()
        );
        // Few stand together, and those that are not wanted are left out all the same.
        let few = tempfile::tempdir().unwrap();
        added(few.path(), &all[..30]).unwrap();
        let wanted = RowFilter {
            measured: Some(LoadClass::General),
            ..ALL
        };
        let read = Dataset::read(few.path(), &wanted).unwrap();
        assert_eq!((read.decoded, read.rows.len()), (30, 8));
    }

    #[test]
    fn the_same_comparison_counts_once_and_the_longer_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        added(dir.path(), &rows(4)).unwrap();
        let known = Dataset::read(dir.path(), &ALL).unwrap();
        let new = known.new_of(rows(6));
        assert_eq!((new.rows.len(), new.already_there), (2, 4));
        let mut longer = rows(1);
        longer[0].rounds = 9;
        let new = known.new_of(longer);
        assert_eq!((new.rows.len(), new.already_there), (1, 0));
        added(dir.path(), &new.rows).unwrap();
        added(dir.path(), &rows(2)).unwrap();
        let read = Dataset::read(dir.path(), &ALL).unwrap();
        assert_eq!(read.rows.len(), 4);
        assert_eq!(read.rows.iter().map(|row| row.rounds).max(), Some(9));
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
            let dir = tempfile::tempdir().unwrap();
            added(dir.path(), &rows(4)).unwrap();
            let known = Dataset::read(dir.path(), &ALL).unwrap();
            let mut foreign = rows(6);
            for row in &mut foreign {
                (row.rounds, row.log_ratio) = (1000, -0.5);
            }
            spoil(&mut foreign[2]);
            let new = known.new_of(foreign.clone());
            assert_eq!((new.rows.len(), new.already_there), (5, 0), "{column}");
            assert_eq!(new.refused.len(), 1, "{:?}", new.refused);
            let said = new.refused[0].to_string();
            let named = format!("{:032x} is there with another {column}:", 2);
            assert!(said.contains(&named), "{said}");
            // So it is where both were given at once, and in a directory that files were copied into.
            let both = [rows(4), foreign.clone()].concat();
            let new = Dataset::default().new_of(both);
            assert_eq!((new.rows.len(), new.refused.len()), (6, 1), "{column}");
            let stays = &new.rows[..4];
            assert!(stays.iter().any(|row| row.log_ratio > 0.0), "{stays:?}");
            added(dir.path(), &foreign).unwrap();
            let read = Dataset::read(dir.path(), &ALL).unwrap();
            assert_eq!(read.rows.len(), 6, "{column}");
        }
    }

    #[test]
    fn a_damaged_file_is_named_and_the_rest_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = rows(6);
        for row in &mut all {
            row.rotational = Some(false);
        }
        added(dir.path(), &all[..3]).unwrap();
        let path = only_file(dir.path());
        let whole = fs::read(&path).unwrap();
        added(dir.path(), &all[3..]).unwrap();
        for at in (0..whole.len()).step_by(97) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, bytes).unwrap();
            let read = Dataset::read(dir.path(), &ALL).unwrap();
            assert_eq!(read.rows.len(), 3);
            let said = read.unusable[0].to_string();
            assert!(
                said.contains("its name is not that of its content"),
                "{said}"
            );
            assert!(said.contains(path.to_str().unwrap()), "{said}");
        }
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(Dataset::read(dir.path(), &ALL).unwrap().unusable.len(), 1);
    }

    /// Puts bytes into a dataset under the name that they have.
    fn put(directory: &Path, class: &str, bytes: &[u8]) {
        let part = directory.join(format!("class={class}"));
        fs::create_dir_all(&part).unwrap();
        let name = format!("{}.parquet", &sha256(bytes)[..NAME]);
        fs::write(part.join(name), bytes).unwrap();
    }

    #[test]
    fn what_is_made_to_harm_is_an_error_and_no_panic_or_flood() {
        let all = rows(10);
        let whole = bytes_of(&all.iter().collect::<Vec<_>>()).unwrap();
        for step in 0..whole.len() {
            // The end has what the file says of itself, and is looked at more closely.
            if step % if step + 2500 < whole.len() { 61 } else { 5 } != 0 {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let mut bytes = whole.clone();
            bytes[step] = bytes[step].wrapping_add(0x5b);
            put(dir.path(), "nvme-ssd", &bytes);
            let read = Dataset::read(dir.path(), &ALL).unwrap();
            assert!(read.rows.len() <= all.len());
        }
    }

    #[test]
    fn what_a_row_cannot_say_is_named_with_the_row() {
        let dir = tempfile::tempdir().unwrap();
        let mut bad = rows(3);
        for row in &mut bad {
            row.rotational = Some(false);
        }
        bad[1].standard_error = -1.0;
        put(
            dir.path(),
            "nvme-ssd",
            &bytes_of(&bad.iter().collect::<Vec<_>>()).unwrap(),
        );
        let said = Dataset::read(dir.path(), &ALL).unwrap().unusable[0].to_string();
        assert!(
            said.ends_with("row 2: standard_error is -1, not within 0.000438 to 2"),
            "{said}"
        );
        let dir = tempfile::tempdir().unwrap();
        let good = rows(3);
        put(
            dir.path(),
            "sata-hdd",
            &bytes_of(&good.iter().collect::<Vec<_>>()).unwrap(),
        );
        let said = Dataset::read(dir.path(), &ALL).unwrap().unusable[0].to_string();
        assert!(said.contains("row 1: it is of class nvme-hdd"), "{said}");
    }

    #[test]
    fn another_version_and_another_file_are_told_apart() {
        let written = |columns: &str, says: &[(&str, &str)]| {
            parquet_file(columns, says, Vec::new())
                .unwrap()
                .into_inner()
                .unwrap()
        };
        let newer = "has evidence schema 3; this iosched knows up to 2";
        let others = "message evidence { required int32 day; }";
        let (first, second) = (columns_of(1).1, columns_of(2).1);
        for (columns, says, expected) in [
            (&*second, vec![(SCHEMA_KEY, "3")], newer),
            (others, vec![(SCHEMA_KEY, "3")], newer),
            (others, vec![(SCHEMA_KEY, "1")], "is not of 25 columns"),
            (&first, vec![(SCHEMA_KEY, "2")], "is not of 27 columns"),
            (&second, vec![(SCHEMA_KEY, "1")], "is not of 25 columns"),
            (
                &second.replace(" arm ", " leg "),
                vec![(SCHEMA_KEY, "2")],
                "it has a column \"leg\" where arm belongs",
            ),
            (
                &first.replace("required int32 day (DATE)", "required int64 day"),
                vec![(SCHEMA_KEY, "1")],
                "its column day is of another type",
            ),
            (
                &first.replace("message evidence", "message schema"),
                vec![(SCHEMA_KEY, "1")],
                "another program than iosched wrote it",
            ),
            (&second, vec![], "it is no iosched-evidence"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            put(dir.path(), "nvme-ssd", &written(columns, &says));
            let read = Dataset::read(dir.path(), &ALL).unwrap();
            let said = read.unusable[0].to_string();
            assert!(said.contains(expected), "{said}");
        }
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("holiday.jpg"), "x").unwrap();
        assert!(matches!(
            Dataset::read(dir.path(), &ALL),
            Err(DatasetError::Other { .. })
        ));
        let missing = dir.path().join("missing");
        assert!(matches!(
            Dataset::read(&missing, &ALL),
            Err(DatasetError::Missing { .. })
        ));
    }

    #[test]
    fn what_a_program_of_before_wrote_is_read_and_says_nothing_of_how_p99_was_counted() {
        let dir = tempfile::tempdir().unwrap();
        let of_one_class = rows(9).into_iter().map(|row| Row {
            rotational: Some(true),
            ..row
        });
        let all: Vec<Row> = of_one_class.collect();
        let (old, new) = all.split_at(6);
        let first = bytes_of_version(&old.iter().collect::<Vec<_>>(), 1).unwrap();
        put(dir.path(), "nvme-hdd", &first);
        added(dir.path(), new).unwrap();
        let read = Dataset::read(dir.path(), &ALL).unwrap();
        assert!(read.unusable.is_empty(), "{:?}", read.unusable);
        let as_old = old.iter().map(|row| Row {
            p99_counted: None,
            p99_count: None,
            ..row.clone()
        });
        let mut expected: Vec<Row> = as_old.chain(new.iter().cloned()).collect();
        let mut found = read.rows;
        for rows in [&mut expected, &mut found] {
            rows.sort_by(|a, b| a.record.cmp(&b.record).then(a.arm.cmp(&b.arm)));
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn a_stray_file_in_the_place_of_a_class_is_named_and_the_rest_is_read() {
        let dir = tempfile::tempdir().unwrap();
        added(dir.path(), &rows(2)).unwrap();
        fs::write(dir.path().join("class=nvme-strange"), "").unwrap();
        let read = Dataset::read(dir.path(), &ALL).unwrap();
        assert_eq!((read.rows.len(), read.unusable.len()), (2, 1));
    }

    #[test]
    fn names_are_of_one_line_that_can_be_shown() {
        let dir = tempfile::tempdir().unwrap();
        let mut forged = rows(1);
        forged[0].model = "a drive\nall is well".into();
        added(dir.path(), &forged).unwrap();
        let read = Dataset::read(dir.path(), &ALL).unwrap();
        assert!(read.rows.is_empty());
        let told = read.unusable[0].to_string();
        assert!(told.contains("model has what cannot be shown"), "{told}");
        assert!(!told.contains('\n'), "{told}");
    }

    #[test]
    fn what_a_killed_command_left_unfinished_goes_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        added(dir.path(), &rows(1)).unwrap();
        let part = only_file(dir.path()).parent().unwrap().to_owned();
        for directory in [dir.path(), &part] {
            fs::write(directory.join(".iosched-0123456789abcdef"), "half").unwrap();
            fs::write(directory.join(".iosched-notes"), "somebody's").unwrap();
        }
        let mut more = rows(3);
        more.remove(0);
        for row in &mut more {
            row.rotational = Some(true);
        }
        added(dir.path(), &rows(2)[..1]).unwrap();
        added(dir.path(), &more).unwrap();
        for directory in [dir.path(), &part] {
            assert!(!directory.join(".iosched-0123456789abcdef").exists());
            assert!(directory.join(".iosched-notes").exists());
        }
    }

    #[test]
    fn more_than_is_read_is_left_out_and_named() {
        let mut room = Room {
            memory: 5 * EACH_ROW,
            uncompressed: 100,
            ..Room::default()
        };
        assert!(room.take_rows(3).is_ok() && room.take_uncompressed(50).is_ok());
        assert_eq!(room.take_rows(3).unwrap_err(), Room::OF_MEMORY);
        let of_bytes = ("MiB without compression", 1024);
        assert_eq!(room.take_uncompressed(60).unwrap_err(), of_bytes);
    }

    // The limits themselves, of rows that are in no file: a test of the command holds memory against a part of them.

    #[test]
    fn as_many_different_comparisons_are_read_as_documented() {
        let mut room = Room::default();
        let kinds = all_different(1, MOST_KINDS + 1);
        let (fits, too_much) = kinds.split_at(MOST_KINDS);
        for rows in fits.chunks(1000) {
            room.take_kinds(rows).unwrap();
        }
        assert!(room.take_kinds(&fits[..1]).is_ok());
        let (_, most) = room.take_kinds(too_much).unwrap_err();
        assert_eq!(most, 200_000);
    }

    #[test]
    fn fifty_thousand_rows_of_long_names_are_read_and_seventy_are_not() {
        let mut room = Room::default();
        let mut batches = (0..14).map(|batch| all_long(5000 * batch..5000 * (batch + 1)));
        let is_full = |rows: Vec<Row>| room.take(Path::new("/e"), &rows).is_err();
        let fit = batches.position(is_full).unwrap();
        assert!((10..14).contains(&fit), "{fit} times 5000");
    }

    /// Rows whose arm, model, load of one's own, kernel series, objective or load class is another in each.
    fn all_different(what: usize, count: usize) -> Vec<Row> {
        let row = |number: usize| {
            let mut row = Row {
                record: format!("{:032x}", 1000 + number).into(),
                ..example()
            };
            let name = format!("{number}");
            match what {
                0 => row.arm = name.into(),
                1 => row.model = name.into(),
                2 => {
                    row.load_class = crate::row::OWN.into();
                    row.fingerprint = name.into();
                }
                3 => row.kernel = format!("6.{number}").into(),
                4 => row.objective = name.into(),
                _ => row.load_class = name.into(),
            }
            row
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn a_file_that_tells_too_much_apart_is_left_out_with_the_limit_and_the_way_out() {
        for what in 0..6 {
            let dir = tempfile::tempdir().unwrap();
            for rows in [rows(40), all_different(what, 30)] {
                let rows: Vec<Row> = rows
                    .into_iter()
                    .map(|row| Row {
                        rotational: Some(false),
                        ..row
                    })
                    .collect();
                put(
                    dir.path(),
                    "nvme-ssd",
                    &bytes_of(&rows.iter().collect::<Vec<_>>()).unwrap(),
                );
            }
            let all = Dataset::read(dir.path(), &ALL).unwrap();
            assert_eq!((all.rows.len(), all.unusable.len()), (70, 0), "{what}");
            let mut room = Room {
                most_kinds: 20,
                ..Room::default()
            };
            let read = Dataset::read_within(dir.path(), &ALL, &mut room).unwrap();
            assert_eq!((read.rows.len(), read.unusable.len()), (40, 1), "{what}");
            let said = read.unusable[0].to_string();
            let path = files_of(&dir.path().join("class=nvme-ssd")).unwrap();
            assert!(
                path.iter()
                    .any(|path| said.starts_with(path.to_str().unwrap())),
                "{said}"
            );
            assert!(
                said.contains("more than the 20 different comparisons"),
                "{said}"
            );
            let hint = read.unusable[0].hint().unwrap();
            assert!(hint.contains("keep several datasets"), "{hint}");
        }
    }

    /// Rows of these numbers, of which all texts are others, and long.
    fn all_long(numbers: std::ops::Range<usize>) -> Vec<Row> {
        let row = |number: usize| {
            let text = |column: &str| -> Text { format!("{column}{number:0>149}").into() };
            Row {
                record: text("r"),
                machine: text("m"),
                program: text("p"),
                model: text("d"),
                firmware: text("f"),
                file_system: text("s"),
                load_class: text("c"),
                load: text("l"),
                fingerprint: text("w"),
                objective: text("o"),
                arm: text("a"),
                against: text("b"),
                ..example()
            }
        };
        numbers.map(row).collect()
    }

    /// Rows of machines that all measured the same two arms.
    fn all_alike(count: usize) -> Vec<Row> {
        let row = |number: usize| Row {
            record: format!("{number:032x}").into(),
            machine: format!("{:016x}", number / 4).into(),
            ..example()
        };
        (0..count).map(row).collect()
    }

    /// What rows take to be read, pooled and counted is no more than they take of the room, and what reading a file takes.
    #[test]
    fn rows_take_no_more_memory_than_is_accounted_for() {
        const COUNT: usize = 8000;
        type Make = fn() -> Vec<Row>;
        let shapes: [Make; 8] = [
            || all_different(0, COUNT),
            || all_different(1, COUNT),
            || all_different(2, COUNT),
            || all_different(3, COUNT),
            || all_different(4, COUNT),
            || all_different(5, COUNT),
            || all_long(0..COUNT / 4),
            || all_alike(COUNT),
        ];
        for (what, make) in shapes.into_iter().enumerate() {
            let rows = make();
            let dir = tempfile::tempdir().unwrap();
            let bytes = bytes_of(&rows.iter().collect::<Vec<_>>()).unwrap();
            drop(rows);
            put(dir.path(), "nvme-ssd", &bytes);
            // Its bytes, and the columns of its one group: texts as they are decoded, and as they are shared.
            let of_file = bytes.len() + COUNT * (14 * 16 + 48 + 200);
            let mut room = Room::default();
            let mut found = 0;
            let most = iosched_testing::memory::most_during(|| {
                let read = Dataset::read_within(dir.path(), &ALL, &mut room).unwrap();
                assert!(read.unusable.is_empty(), "{:?}", read.unusable);
                found = crate::pool::findings(&read.rows, |_| true).count();
            });
            let accounted = usize::try_from(MOST_MEMORY - room.memory).unwrap();
            println!("{what}: {found} findings, {most} bytes of {accounted} + {of_file}");
            assert!(most <= accounted + of_file, "{what}: {most} {accounted}");
        }
    }

    #[test]
    fn a_file_without_room_for_its_texts_takes_none_and_smaller_ones_are_read() {
        let dir = tempfile::tempdir().unwrap();
        for rows in [all_long(0..300), all_different(0, 10)] {
            let bytes = bytes_of(&rows.iter().collect::<Vec<_>>()).unwrap();
            put(dir.path(), "nvme-ssd", &bytes);
        }
        let mut room = Room {
            memory: 400_000,
            ..Room::default()
        };
        let read = Dataset::read_within(dir.path(), &ALL, &mut room).unwrap();
        assert_eq!((read.rows.len(), read.unusable.len()), (10, 1));
        let said = read.unusable[0].to_string();
        assert!(
            said.contains("more than the 384 MiB of rows and names"),
            "{said}"
        );
        assert!(
            read.unusable[0]
                .hint()
                .unwrap()
                .contains("keep several datasets")
        );
        assert!(room.memory > 350_000, "{}", room.memory);
        // What is to be added is refused before it is written.
        assert!(room.take(dir.path(), &all_different(1, 10)).is_ok());
        let full = room.take(dir.path(), &all_long(0..300)).unwrap_err();
        assert!(
            full.to_string()
                .contains("would have more than the 384 MiB"),
            "{full}"
        );
    }

    #[test]
    fn what_is_much_is_written_as_several_files_that_are_read_as_one() {
        let rows = all_long(0..40);
        let refs: Vec<&Row> = rows.iter().collect();
        let parts = files(&refs, 10_000);
        assert!(parts.len() > 5 && parts.iter().all(|part| !part.is_empty()));
        let together: Vec<&Row> = parts.concat();
        assert_eq!(together, refs);
        assert_eq!(files(&refs, 1).len(), 40);
        assert_eq!(files(&refs, WRITTEN_TOGETHER).len(), 1);
    }

    #[test]
    fn a_machine_has_one_name_however_many_commands_add_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (
            pseudonyms(dir.path()).unwrap(),
            pseudonyms(dir.path()).unwrap(),
        );
        add(dir.path(), &first, &rows(1)).unwrap();
        let busy = add(dir.path(), &second, &rows(2));
        assert!(matches!(busy, Err(DatasetError::Busy { .. })), "{busy:?}");
        let held = lock::open_private(&dir.path().join(LOCK)).unwrap();
        assert!(lock::try_lock(&held).unwrap());
        let busy = added(dir.path(), &rows(2));
        assert!(matches!(busy, Err(DatasetError::Busy { .. })), "{busy:?}");
        drop(held);
        added(dir.path(), &rows(2)).unwrap();
        assert_eq!(Dataset::read(dir.path(), &ALL).unwrap().rows.len(), 2);
    }

    #[test]
    fn a_secret_is_made_once_and_is_its_owners() {
        let dir = tempfile::tempdir().unwrap();
        let first = pseudonyms(dir.path()).unwrap();
        assert!(first.is_new());
        add(dir.path(), &first, &[]).unwrap();
        let second = pseudonyms(dir.path()).unwrap();
        assert!(!second.is_new());
        assert_eq!(second.names(), first.names());
        let mode = fs::metadata(dir.path().join(KEY))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let key = dir.path().join(KEY);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        let known = pseudonyms(dir.path());
        assert!(
            matches!(known, Err(DatasetError::NoSecret { .. })),
            "{known:?}"
        );
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&key, dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &key).unwrap();
        assert!(pseudonyms(dir.path()).is_err());
        fs::remove_file(&key).unwrap();
        fs::rename(dir.path().join("elsewhere"), &key).unwrap();
        assert!(pseudonyms(dir.path()).is_ok());
        for damaged in [&b"short"[..], b"", &[0xff; 64], &[0; 64]] {
            fs::write(&key, damaged).unwrap();
            let error = pseudonyms(dir.path()).unwrap_err();
            assert!(matches!(error, DatasetError::DamagedSecret { .. }));
            let hint = error.hint().unwrap();
            assert!(hint.contains("count twice"), "{hint}");
        }
    }
}
