//! What `iosched report` is given: a results directory, the JSON of `simulate` or `conform`, or a
//! recording of block traffic. What it is, its content tells. The only file of reports that reads.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use iosched_experiment::record::{Record, RecordError};
use iosched_experiment::simulate::conform::Conformance;
use iosched_experiment::simulate::file::decompressed;
use iosched_experiment::simulate::run::Simulated;
use iosched_machine::failure::{Failure, exit};
use iosched_machine::foreign;
use iosched_machine::user_files;
use iosched_sim::trace::{Merge, ReadError, Records};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::traffic::Traffic;

/// Something to report on.
#[derive(Debug)]
pub enum Input {
    /// What `tune` measured.
    Record(Box<Record>),
    /// What `simulate --json` printed.
    Simulated(Box<Simulated>),
    /// What `conform --json` printed.
    Conformances(Vec<Conformance>),
    /// A recording: of `simulate --events`, of blktrace, of a published trace.
    Traffic(Box<Traffic>),
}

/// Why it cannot be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum InputError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("cannot read {}", path.display())]
    Io {
        /// The path as the user wrote it.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// JSON, but not of ours.
    #[error("{} is JSON, but not what `simulate --json` or `conform --json` print: {cause}", path.display())]
    OtherJson {
        /// The path as the user wrote it.
        path: PathBuf,
        cause: String,
    },
    #[error("{}: {cause}", path.display())]
    Trace {
        /// The path as the user wrote it.
        path: PathBuf,
        cause: ReadError,
    },
    /// A recording without a single access.
    #[error("{} has no access to a disk", path.display())]
    Empty {
        /// The path as the user wrote it.
        path: PathBuf,
    },
}

impl Failure for InputError {
    iosched_machine::passes_on!(InputError: Record);

    fn hint(&self) -> Option<String> {
        match self {
            InputError::Trace { cause, .. } => cause.cause.hint().map(str::to_owned),
            InputError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("name a results directory, or a file of `simulate` or `conform`".into())
            }
            _ => self.passes_on()?.hint(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            InputError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                exit::NOT_PERMITTED
            }
            _ => self
                .passes_on()
                .map_or(exit::BAD_RECORD, Failure::exit_code),
        }
    }
}

/// A recording that is opened and not read yet.
pub struct Recording {
    path: PathBuf,
    /// Name of its file.
    pub name: String,
    /// Its records, in the order of time.
    pub records: Merge<Box<dyn BufRead + Send>>,
}

/// What stands at a path, before more than its beginning is read.
enum Opened {
    Json(Box<dyn BufRead + Send>),
    Recording(Box<Recording>),
}

impl Input {
    /// Reads whatever stands there.
    pub fn read(path: &Path) -> Result<Input, InputError> {
        if path.is_dir() {
            return Ok(Input::Record(Box::new(Record::load(path)?)));
        }
        match open(path)? {
            Opened::Recording(recording) => traffic(*recording),
            Opened::Json(reader) => json(path, reader),
        }
    }
}

impl Recording {
    /// Opens the recording at a path; `None` if something else stands there.
    pub fn open(path: &Path) -> Result<Option<Recording>, InputError> {
        if path.is_dir() {
            return Ok(None);
        }
        Ok(match open(path)? {
            Opened::Recording(recording) => Some(*recording),
            Opened::Json(_) => None,
        })
    }

    /// What is wrong in it.
    pub(crate) fn failed(&self, cause: ReadError) -> InputError {
        InputError::Trace {
            path: self.path.clone(),
            cause,
        }
    }
}

fn unreadable(path: &Path, source: io::Error) -> InputError {
    let path = path.to_owned();
    InputError::Io { path, source }
}

fn open(path: &Path) -> Result<Opened, InputError> {
    let failed = |source| unreadable(path, source);
    let file = user_files::open_to_read(path).map_err(failed)?;
    let mut reader = decompressed(BufReader::with_capacity(1 << 18, file)).map_err(failed)?;
    let head = reader.fill_buf().map_err(failed)?;
    if head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        return Ok(Opened::Json(reader));
    }
    let records = Records::new(reader, None).map_err(|cause| InputError::Trace {
        path: path.into(),
        cause,
    })?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    Ok(Opened::Recording(Box::new(Recording {
        path: path.into(),
        name: name.to_string_lossy().into_owned(),
        records: Merge::new(vec![records]),
    })))
}

/// What tells the kinds of JSON apart.
#[derive(Deserialize)]
struct Peek {
    kind: Option<String>,
    runs: Option<IgnoredAny>,
}

/// A record, whose other lines are not looked at, or what `simulate` and `conform` print.
fn json(path: &Path, mut reader: Box<dyn BufRead + Send>) -> Result<Input, InputError> {
    let failed = |source| unreadable(path, source);
    let mut first = Vec::new();
    foreign::read_line(&mut reader, &mut first).map_err(failed)?;
    let peek: Option<Peek> = serde_json::from_slice(&first).ok();
    if peek.is_some_and(|peek| peek.kind.as_deref() == Some("iosched-record")) {
        let directory = path.parent().unwrap_or(Path::new("."));
        return Ok(Input::Record(Box::new(Record::load(directory)?)));
    }
    let text = foreign::read_all(first.as_slice().chain(reader), foreign::LARGEST_OUTPUT)
        .map_err(failed)?;
    results(&text).map_err(|cause| InputError::OtherJson {
        path: path.into(),
        cause,
    })
}

/// Results of `simulate` and `conform`: one object, or one after the other.
pub(crate) fn results(text: &str) -> Result<Input, String> {
    foreign::check_numbers(text)?;
    let mut peeks = serde_json::Deserializer::from_str(text).into_iter::<Peek>();
    let first = peeks.next().ok_or("it is empty")?;
    let failed = |error: serde_json::Error| error.to_string();
    if first.map_err(failed)?.runs.is_some() {
        let mut all = serde_json::Deserializer::from_str(text).into_iter::<Simulated>();
        let first = all.next().ok_or("it is empty")?;
        let simulated = first.map_err(failed)?;
        if simulated.runs.is_empty() {
            return Err("runs is empty".into());
        }
        return Ok(Input::Simulated(Box::new(simulated)));
    }
    let all = serde_json::Deserializer::from_str(text).into_iter::<Conformance>();
    let all = all.collect::<Result<Vec<_>, _>>();
    Ok(Input::Conformances(all.map_err(failed)?))
}

fn traffic(mut recording: Recording) -> Result<Input, InputError> {
    let format = recording.records.format().name().to_owned();
    let mut traffic = Traffic::new(recording.name.clone(), format);
    while let Some(record) = recording.records.next() {
        traffic.take(&record.map_err(|cause| recording.failed(cause.error))?);
    }
    if traffic.records == 0 {
        let path = recording.path;
        return Err(InputError::Empty { path });
    }
    Ok(Input::Traffic(Box::new(traffic)))
}
