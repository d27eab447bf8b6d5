//! One row per event of a recording: written while it is read, so that memory does not grow with it.

use std::io::{self, Write};
use std::sync::Arc;

use iosched_evidence::columns::{column, number, optional_column, parquet_file, texts};
use iosched_machine::failure::Failure;
use iosched_sim::request::Op;
use iosched_sim::trace::{Labels, Record, Stage};
use parquet::data_type::{BoolType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::file::quoted;
use crate::input::{InputError, Recording};

/// The columns, in their order.
const COLUMNS: &str =
    "recording,time_ns,stage,op,sync,sector,sectors,device,process,process_name,response_ns";

/// The same for Parquet.
const SCHEMA: &str = "message events {
    required binary recording (UTF8);
    required int64 time_ns;
    required binary stage (UTF8);
    required binary op (UTF8);
    required boolean sync;
    required int64 sector;
    required int64 sectors;
    required binary device (UTF8);
    required int32 process;
    required binary process_name (UTF8);
    optional int64 response_ns;
}";

/// Rows of a Parquet file that are compressed together.
const GROUP: usize = 1 << 17;

/// Why it went no further.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] InputError),
    /// The rows cannot be written.
    #[error("the events cannot be written")]
    Write(#[from] io::Error),
    /// They cannot be written as Parquet.
    #[error("the Parquet file cannot be made")]
    Parquet(#[from] ParquetError),
}

impl Failure for ExportError {
    iosched_machine::passes_on!(ExportError: Read);
}

/// An event.
#[derive(Debug, Clone)]
struct EventRow {
    /// Since the first event of the recording, ns.
    time_ns: u64,
    record: Record,
    device: Arc<str>,
    process_name: Arc<str>,
}

/// Puts names to the records of a recording.
struct Rows {
    recording: Recording,
    begin_ns: Option<u64>,
    /// The names that the event before had, which most events have again.
    device: Arc<str>,
    process_name: Arc<str>,
}

impl Rows {
    fn of(recording: Recording) -> Rows {
        Rows {
            recording,
            begin_ns: None,
            device: "".into(),
            process_name: "".into(),
        }
    }

    fn name(&mut self, record: Record) -> EventRow {
        let labels = self.recording.records.labels();
        again(&mut self.device, labels.device_name(record.device));
        again(&mut self.process_name, process_name(labels, &record));
        let clock = record.time.as_nanos();
        EventRow {
            time_ns: clock - *self.begin_ns.get_or_insert(clock),
            record,
            device: self.device.clone(),
            process_name: self.process_name.clone(),
        }
    }
}

impl Iterator for Rows {
    type Item = Result<EventRow, InputError>;

    fn next(&mut self) -> Option<Result<EventRow, InputError>> {
        let record = self.recording.records.next()?;
        Some(match record {
            Ok(record) => Ok(self.name(record)),
            Err(cause) => Err(self.recording.failed(cause.error)),
        })
    }
}

fn again(name: &mut Arc<str>, now: &str) {
    if **name != *now {
        *name = now.into();
    }
}

fn process_name<'a>(labels: &'a Labels, record: &Record) -> &'a str {
    let label = labels.process(record.process);
    label.map_or("", |label| &label.name)
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Submitted => "submitted",
        Stage::Issued => "issued",
        Stage::Completed => "completed",
    }
}

fn op(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Discard => "discard",
    }
}

/// Writes the events of a recording as CSV, with a head.
///
/// # Errors
/// When one cannot be read or written; those before it are written.
pub fn csv(recording: Recording, out: &mut dyn Write) -> Result<(), ExportError> {
    let name = quoted(&recording.name);
    writeln!(out, "{COLUMNS}")?;
    for row in Rows::of(recording) {
        let EventRow {
            time_ns,
            record,
            device,
            process_name,
        } = row?;
        let response = record.response.map(|ns| ns.as_nanos().to_string());
        writeln!(
            out,
            "{name},{time_ns},{},{},{},{},{},{},{},{},{}",
            stage(record.stage),
            op(record.op),
            record.sync,
            record.start.as_u64(),
            record.length.as_u64(),
            quoted(&device),
            record.process.0,
            quoted(&process_name),
            response.unwrap_or_default()
        )?;
    }
    Ok(())
}

/// Writes the events of a recording as a Parquet file.
///
/// # Errors
/// When one cannot be read or written; the file is then none.
pub fn parquet<W: Write + Send>(recording: Recording, out: W) -> Result<(), ExportError> {
    let name = recording.name.clone();
    let mut writer = parquet_file(SCHEMA, &[], out)?;
    let mut rows = Rows::of(recording);
    loop {
        let group = rows
            .by_ref()
            .take(GROUP)
            .collect::<Result<Vec<EventRow>, _>>()?;
        if group.is_empty() {
            writer.close()?;
            return Ok(());
        }
        write_group(&mut writer, &name, &group)?;
    }
}

fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    name: &str,
    rows: &[EventRow],
) -> Result<(), ParquetError> {
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let records = || rows.iter().map(|row| &row.record);
    let mut group = writer.next_row_group()?;
    texts(&mut group, rows.iter().map(|_| name))?;
    column::<Int64Type, W>(&mut group, rows.iter().map(|row| signed(row.time_ns)))?;
    texts(&mut group, records().map(|record| stage(record.stage)))?;
    texts(&mut group, records().map(|record| op(record.op)))?;
    column::<BoolType, W>(&mut group, records().map(|record| record.sync))?;
    column::<Int64Type, W>(
        &mut group,
        records().map(|record| signed(record.start.as_u64())),
    )?;
    column::<Int64Type, W>(
        &mut group,
        records().map(|record| signed(record.length.as_u64())),
    )?;
    texts(&mut group, rows.iter().map(|row| &*row.device))?;
    column::<Int32Type, W>(&mut group, records().map(|record| number(record.process.0)))?;
    texts(&mut group, rows.iter().map(|row| &*row.process_name))?;
    let responses = records().map(|record| record.response.map(|ns| signed(ns.as_nanos())));
    optional_column::<Int64Type, W>(&mut group, responses)?;
    group.close()?;
    Ok(())
}
