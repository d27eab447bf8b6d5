//! The events of a recording as CSV, written while it is read, so that memory does not grow with it.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use iosched_experiment::simulate::file::decompressed;
use iosched_machine::user_files;
use iosched_report::csv::cell;
use iosched_sim::request::Op;
use iosched_sim::trace::{Merge, ReadError, Record, Records, Stage};

use crate::error::Failed;

/// The columns, in their order: results/fleet.md describes them.
const COLUMNS: &str =
    "recording,time_ns,stage,op,sync,sector,sectors,device,process,process_name,response_ns";

/// Writes the events of a recording into a new file, with a head.
pub(crate) fn write(trace: &Path, csv: &Path) -> Result<(), Failed> {
    let failed = |source: std::io::Error| Failed {
        message: format!("cannot write {}: {source}", csv.display()),
        hint: None,
    };
    let mut records = open(trace)?;
    let name = trace.file_name().unwrap_or(trace.as_os_str());
    let name = cell(&name.to_string_lossy());
    let mut out = BufWriter::with_capacity(1 << 18, File::create(csv).map_err(failed)?);
    writeln!(out, "{COLUMNS}").map_err(failed)?;
    let mut begin = None;
    while let Some(record) = records.next() {
        let record = record.map_err(|cause| unreadable(trace, &cause.error))?;
        let clock = record.time.as_nanos();
        let time_ns = clock - *begin.get_or_insert(clock);
        let labels = records.labels();
        let process = labels.process(record.process);
        let names = [
            labels.device_name(record.device),
            process.map_or("", |label| &label.name),
        ];
        line(&mut out, &name, time_ns, &record, names).map_err(failed)?;
    }
    out.flush().map_err(failed)
}

fn open(trace: &Path) -> Result<Merge<Box<dyn BufRead + Send>>, Failed> {
    let failed = |source: std::io::Error| Failed {
        message: format!("cannot read {}: {source}", trace.display()),
        hint: None,
    };
    let none = || Failed {
        message: format!("{} is no recording of block traffic", trace.display()),
        hint: Some("a directory of `iosched tune` is read by read_record()".to_owned()),
    };
    if trace.is_dir() {
        return Err(none());
    }
    let file = user_files::open_to_read(trace).map_err(failed)?;
    let mut reader = decompressed(BufReader::with_capacity(1 << 18, file)).map_err(failed)?;
    let head = reader.fill_buf().map_err(failed)?;
    if head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        return Err(none());
    }
    let records = Records::new(reader, None).map_err(|cause| unreadable(trace, &cause))?;
    Ok(Merge::new(vec![records]))
}

fn unreadable(trace: &Path, cause: &ReadError) -> Failed {
    Failed {
        message: format!("{}: {cause}", trace.display()),
        hint: cause.cause.hint().map(str::to_owned),
    }
}

/// Device and process by their names.
fn line(
    out: &mut impl Write,
    name: &str,
    time_ns: u64,
    record: &Record,
    [device, process_name]: [&str; 2],
) -> std::io::Result<()> {
    let stage = match record.stage {
        Stage::Submitted => "submitted",
        Stage::Issued => "issued",
        Stage::Completed => "completed",
    };
    let op = match record.op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Discard => "discard",
    };
    let response = record.response.map(|ns| ns.as_nanos().to_string());
    writeln!(
        out,
        "{name},{time_ns},{stage},{op},{},{},{},{},{},{},{}",
        record.sync,
        record.start.as_u64(),
        record.length.as_u64(),
        cell(device),
        record.process.0,
        cell(process_name),
        response.unwrap_or_default()
    )
}
