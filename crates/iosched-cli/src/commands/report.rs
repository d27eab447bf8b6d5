//! `iosched report`: records, simulations and recordings, in the form that is wanted.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use iosched_experiment::analysis::Analysis;
use iosched_experiment::record::{self, Record};
use iosched_machine::failure::{Failure, exit};
use iosched_report::chart::{Chart, of_events, of_record, of_simulated, png, svg};
use iosched_report::input::{Input, Recording};
use iosched_report::tidy::{events, trials};
use iosched_report::traffic::Traffic;
use iosched_report::{comparable, html, known, markdown, named, text, words};

use super::{Outcome, answer_code, boxed, conform, simulate};
use crate::files;
use crate::output::Output;

#[cfg(test)]
mod mutated;

/// Arguments of `iosched report`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched report iosched-results/20261121-101500-sda   tables and verdict
  iosched report DIR --html page.html                  everything on one page
  iosched report BEFORE AFTER --html compared.html     two records side by side
  iosched report DIR --svg charts                      each chart as a file
  iosched report DIR --md                              for a ticket
  iosched report DIR --csv > trials.csv                one row per number
  iosched simulate --json > sim.json; iosched report sim.json --html sim.html
  iosched report EVENTS --html traffic.html            a recording: seeks, queue
  iosched report EVENTS --parquet events.parquet       one row per event
  iosched report DIR --json | jq .loads[0].contest.verdict
  iosched report DIR --points --normalised             tables that people know

The page needs nothing but a browser: no network, no other file. `tune` writes
it into its results directory. The points and the normalised table stand in
many articles. They have no intervals and tell less than the verdict above
them.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct ReportArgs {
    /// Results directory of `tune` (several are compared), output of `simulate --json` or
    /// `conform --json`, or a recording of block traffic (`simulate --events`, blktrace, CSV, ...)
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Write one page with tables, charts, method and data
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write each chart as an SVG file into this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// Write each chart as a PNG file into this directory
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,

    /// Markdown for a ticket
    #[arg(long, group = "form")]
    md: bool,

    /// Tidy data: one row per trial and metric, or per event of a recording
    #[arg(long, group = "form")]
    csv: bool,

    /// The same rows as a Parquet file
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,

    /// Tab-separated log of the iozone sweep: Test, Throughput (KB/s), I/O Scheduler, Threads, n
    #[arg(long, group = "form")]
    tsv: bool,

    /// 2/1/0 points: in each round the best arm gets most, the worst none
    #[arg(long)]
    points: bool,

    /// Throughput with the baseline at 100
    #[arg(long)]
    normalised: bool,

    /// Tell by the exit code what the record says: 0 a winner, 20 equal, 21 undecided (of several records the worst)
    #[arg(long)]
    exit_code: bool,
}

/// A record with its name.
struct Named {
    name: String,
    /// Its directory, as it was named.
    path: PathBuf,
    record: Record,
    analysis: Analysis,
}

/// What cannot be done with what was named.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error("{} is no results directory, and only those can be put side by side", path.display())]
    NotComparable { path: PathBuf },
    #[error("--{form} is for {of}, and {} is none", path.display())]
    OtherForm {
        form: &'static str,
        of: &'static str,
        path: PathBuf,
    },
    #[error("the data cannot be written")]
    Csv {
        #[source]
        cause: io::Error,
    },
    #[error("the Parquet file cannot be made: {cause}")]
    Parquet { cause: String },
}

impl Failure for ReportError {
    fn hint(&self) -> Option<String> {
        match self {
            ReportError::NotComparable { .. } => Some("report on one file at a time".into()),
            ReportError::OtherForm { .. } => {
                Some("--html, --svg and --png show it; `simulate --csv` has its numbers".into())
            }
            ReportError::Csv { .. } | ReportError::Parquet { .. } => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            ReportError::Csv { .. } | ReportError::Parquet { .. } => exit::FAILURE,
            _ => exit::USAGE,
        }
    }
}

/// Runs `iosched report`.
pub(crate) fn run(args: &ReportArgs, output: &Output) -> Outcome {
    let files = [
        ("--html", args.html.as_ref()),
        ("--parquet", args.parquet.as_ref()),
    ];
    files::one_on_standard_output(&files, &printed_forms(args, output)).map_err(boxed)?;
    if let [path] = &args.paths[..]
        && (args.csv || args.parquet.is_some())
        && let Some(recording) = Recording::open(path).map_err(boxed)?
    {
        return of_recording(args, path, recording, output);
    }
    let mut records = Vec::new();
    for (path, name) in args.paths.iter().zip(names(&args.paths)) {
        match Input::read(path).map_err(boxed)? {
            Input::Record(record) => records.push(Named {
                name,
                path: path.clone(),
                analysis: Analysis {
                    is_running: record::is_being_written(path),
                    ..Analysis::of(&record)
                },
                record: *record,
            }),
            other if args.paths.len() == 1 => return of_file(args, path, &other, output),
            _ => return Err(boxed(ReportError::NotComparable { path: path.clone() })),
        }
    }
    of_records(args, &records, output)
}

/// The forms that go to standard output, and whether each is asked for: then it is printed beside what goes to files.
fn printed_forms(args: &ReportArgs, output: &Output) -> [(&'static str, bool); 6] {
    [
        ("--json", output.is_json()),
        ("--md", args.md),
        ("--csv", args.csv),
        ("--tsv", args.tsv),
        ("--points", args.points),
        ("--normalised", args.normalised),
    ]
}

/// What each path is called: its last part, or all of it where two end alike.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &Path| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let names: Vec<String> = paths.iter().map(|path| short(path)).collect();
    let is_alone = |name: &String| names.iter().filter(|other| *other == name).count() == 1;
    let pairs = paths.iter().zip(&names);
    pairs
        .map(|(path, name)| {
            if is_alone(name) {
                name.clone()
            } else {
                path.display().to_string()
            }
        })
        .collect()
}

fn of_records(args: &ReportArgs, records: &[Named], output: &Output) -> Outcome {
    let rows = || {
        records
            .iter()
            .flat_map(|named| trials::rows(&named.name, &named.record))
    };
    if let Some(path) = &args.parquet {
        let rows: Vec<trials::TrialRow> = rows().collect();
        let failed = |cause: String| boxed(ReportError::Parquet { cause });
        let bytes = trials::parquet(&rows).map_err(|error| failed(error.to_string()))?;
        files::write(path, &bytes).map_err(boxed)?;
        output.note(&format!("data: {}", path.display()));
    }
    let parts = parts(records);
    let charts = || match &parts[..] {
        [(_, record, analysis)] => of_record::charts(record, analysis),
        several => vec![of_record::compared(several)],
    };
    let wrote = write_pictures(args, || html::records(&parts), charts, output)?;
    let codes = records.iter().map(|named| answer_code(&named.analysis));
    let code = if args.exit_code {
        codes.max().unwrap_or(exit::OK)
    } else {
        exit::OK
    };
    let is_asked = printed_forms(args, output)
        .iter()
        .any(|(_, is_asked)| *is_asked);
    if (wrote || args.parquet.is_some()) && !is_asked {
        return Ok(code);
    }
    if args.csv {
        let written: io::Result<()> =
            output.stream(|out| out.write_all(trials::csv(rows()).as_bytes()));
        written.map_err(|cause| boxed(ReportError::Csv { cause }))?;
        return Ok(code);
    }
    for named in records {
        if records.len() > 1 && !output.is_json() && !args.tsv {
            output.text(&format!("== {}", named.name));
        }
        print(args, named, output);
    }
    if records.len() > 1 {
        say_whether_comparable(args, records, output);
    }
    Ok(code)
}

fn parts(records: &[Named]) -> Vec<comparable::Named<'_>> {
    let parts = records.iter();
    parts
        .map(|named| (named.name.clone(), &named.record, &named.analysis))
        .collect()
}

/// Numbers of several records stand below one another: what must be known before they are compared.
fn say_whether_comparable(args: &ReportArgs, records: &[Named], output: &Output) {
    let all: Vec<&Record> = records.iter().map(|named| &named.record).collect();
    let differences = comparable::differences(&all);
    if args.md || args.tsv || output.is_json() {
        if !differences.is_empty() {
            output.warn(&format!("note: {}", comparable::sentence(&differences)));
        }
        return;
    }
    let text = if differences.is_empty() {
        comparable::compared(&parts(records), output.widths())
    } else {
        let names: Vec<String> = records.iter().map(|named| named.name.clone()).collect();
        comparable::text(&differences, &names, output.widths())
    };
    output.text(&format!("\n{text}"));
}

fn print(args: &ReportArgs, named: &Named, output: &Output) {
    let Named {
        record, analysis, ..
    } = named;
    if args.md {
        output.text(&markdown::record(record, analysis));
    } else if args.tsv {
        output.text(&known::sweep_log(record));
    } else if output.is_json() {
        output.json(&named::analysis(analysis));
    } else {
        output.text(&text::record(record, analysis, output.widths()));
        let going_on =
            text::going_on(record, analysis, &named.path).filter(|_| !analysis.is_running);
        if let Some(command) = going_on {
            output.text(&format!("to go on: {command}"));
        }
        if args.points {
            output.text(&known::points(record, output.table_width()));
        }
        if args.normalised {
            output.text(&known::normalised(record, analysis, output.table_width()));
        }
    }
}

/// The events of a recording, as rows; and the pictures, where they are wanted, too.
fn of_recording(args: &ReportArgs, path: &Path, recording: Recording, output: &Output) -> Outcome {
    if let Some(parquet) = &args.parquet {
        files::write_with(parquet, |file| events::parquet(recording, file))?;
        output.note(&format!("data: {}", parquet.display()));
    } else {
        let written = output.stream(|out| events::csv(recording, out));
        return written.map(|()| exit::OK).map_err(boxed);
    }
    let has_pictures = args.html.is_some() || args.svg.is_some() || args.png.is_some();
    if has_pictures || output.is_json() {
        let input = Input::read(path).map_err(boxed)?;
        return of_file(args, path, &input, output);
    }
    Ok(exit::OK)
}

/// What is no record: the output of another command, or a recording.
fn of_file(args: &ReportArgs, path: &Path, input: &Input, output: &Output) -> Outcome {
    const RECORDS: &str = "results directories";
    const TABLES: &str = "results directories and recordings";
    let is_recording = matches!(input, Input::Traffic(_));
    let forms = [
        ("md", RECORDS, args.md),
        ("csv", TABLES, args.csv),
        ("tsv", RECORDS, args.tsv),
        ("parquet", TABLES, args.parquet.is_some() && !is_recording),
        ("points", RECORDS, args.points),
        ("normalised", RECORDS, args.normalised),
    ];
    if let Some(&(form, of, _)) = forms.iter().find(|(_, _, is_asked)| *is_asked) {
        let path = path.to_owned();
        return Err(boxed(ReportError::OtherForm { form, of, path }));
    }
    let page = || match input {
        Input::Simulated(simulated) => html::simulated(simulated),
        Input::Conformances(all) => html::conformances(all),
        Input::Traffic(traffic) => html::traffic(traffic),
        Input::Record(record) => html::record(record, &Analysis::of(record)),
    };
    let charts = || match input {
        Input::Simulated(simulated) => of_simulated::charts(simulated),
        Input::Conformances(all) => vec![of_simulated::agreement(all)],
        Input::Traffic(traffic) => of_events::charts(traffic),
        Input::Record(record) => of_record::charts(record, &Analysis::of(record)),
    };
    if !write_pictures(args, page, charts, output)? || output.is_json() {
        print_file(input, output);
    }
    Ok(exit::OK)
}

fn print_file(input: &Input, output: &Output) {
    match input {
        Input::Simulated(simulated) if output.is_json() => output.json(simulated),
        Input::Simulated(simulated) => {
            output.text(&simulate::table(simulated, output.table_width()));
        }
        Input::Conformances(all) => {
            for one in all {
                if output.is_json() {
                    output.json(one);
                } else {
                    output.text(&conform::text(one));
                }
            }
        }
        Input::Traffic(traffic) => print_traffic(traffic, output),
        Input::Record(_) => {}
    }
}

fn print_traffic(traffic: &Traffic, output: &Output) {
    let seconds = traffic.length_ns as f64 / 1e9;
    if output.is_json() {
        output.json(&serde_json::json!({
            "name": traffic.name,
            "format": traffic.format,
            "records": traffic.records,
            "requests": traffic.requests(),
            "length_s": seconds,
        }));
        return;
    }
    let kinds = traffic.accesses().iter();
    let kinds = kinds.map(|(kind, accesses)| format!("{} {}", accesses.len(), kind.words()));
    output.text(&format!(
        "{} ({}): {} in {seconds:.3} s; --html FILE shows where they went",
        traffic.name,
        traffic.format,
        words::enumerate(kinds.collect::<Vec<_>>().iter().map(String::as_str))
    ));
}

/// The page and the charts, where they are wanted; true if any of them is.
fn write_pictures(
    args: &ReportArgs,
    page: impl Fn() -> String,
    charts: impl Fn() -> Vec<Chart>,
    output: &Output,
) -> Result<bool, Box<dyn Failure>> {
    if let Some(path) = &args.html {
        files::write(path, page().as_bytes()).map_err(boxed)?;
        if !files::is_standard_output(path) {
            output.note(&format!("page: {}", path.display()));
        }
    }
    if let Some(directory) = &args.svg {
        let draw = |chart: &Chart| Ok(svg::file(chart).into_bytes());
        write_charts(directory, "svg", &charts(), draw, output)?;
    }
    if let Some(directory) = &args.png {
        write_charts(directory, "png", &charts(), png::file, output)?;
    }
    Ok(args.html.is_some() || args.svg.is_some() || args.png.is_some())
}

fn write_charts(
    directory: &Path,
    extension: &str,
    charts: &[Chart],
    draw: impl Fn(&Chart) -> Result<Vec<u8>, png::PaintError>,
    output: &Output,
) -> Result<(), Box<dyn Failure>> {
    files::directory(directory).map_err(boxed)?;
    for chart in charts {
        let path = directory.join(format!("{}.{extension}", chart.id));
        files::write(&path, &draw(chart).map_err(boxed)?).map_err(boxed)?;
    }
    output.note(&format!("{} charts: {}", charts.len(), directory.display()));
    Ok(())
}
