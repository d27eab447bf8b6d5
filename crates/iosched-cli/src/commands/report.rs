//! `iosched report`: records of `tune` in the form that is wanted, and traces in figures.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use iosched_experiment::analysis::Analysis;
use iosched_experiment::record::{self, Record};
use iosched_experiment::simulate::replay::{Meter, TraceFigures, TraceOptions};
use iosched_machine::command_line::quoted_path;
use iosched_machine::failure::{Failure, Problem, exit};
use iosched_report::chart::{of_record, svg};
use iosched_report::{comparable, csv, html, markdown, named, text};
use serde::Serialize;

use super::trace_args::figures;
use super::{Outcome, answer_code, boxed};
use crate::files;
use crate::meter::watched;
use crate::output::Output;

/// Arguments of `iosched report`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
#[command(after_long_help = "\
Examples:
  iosched report iosched-results/20261121-101500-sda   tables and verdict
  iosched report DIR --html page.html                  everything on one page
  iosched report BEFORE AFTER                          two records side by side
  iosched report DIR --svg charts                      each chart as a file
  iosched report DIR --md                              for a ticket
  iosched report DIR --csv > trials.csv                one row per number
  iosched report DIR --json | jq .loads[0].contest.verdict
  iosched report before.trace after.trace              two traces side by side

The page needs nothing but a browser: no network, no other file. `tune` writes
it into its results directory.")]
pub(crate) struct ReportArgs {
    /// Results directory of `tune`, or a trace (docs/simulate.md); several are compared
    #[arg(required = true, value_name = "DIR|TRACE")]
    paths: Vec<PathBuf>,

    /// Write one page with tables, charts and method (of one record)
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write each chart of one record as an SVG file into this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// Markdown for a ticket
    #[arg(long, group = "form")]
    md: bool,

    /// Tidy data: one row per trial and metric
    #[arg(long, group = "form")]
    csv: bool,

    /// Print all that is known: every number, warning and setting that differs
    #[arg(long, conflicts_with = "form")]
    details: bool,

    /// Tell by the exit code what the record says: 0 a winner, 20 equal, 21 undecided, 22 disturbed (of several records the worst)
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

/// Runs `iosched report`.
pub(crate) fn run(args: &ReportArgs, output: &Output) -> Outcome {
    let printed = printed_forms(args, output);
    if args
        .paths
        .iter()
        .any(|path| path.exists() && !path.is_dir())
    {
        return traces(args, output);
    }
    files::one_on_standard_output(&[("--html", args.html.as_ref())], &printed).map_err(boxed)?;
    let named = args.paths.iter().zip(names(&args.paths));
    let records = named.map(|(path, name)| read(path, name));
    let records = records.collect::<Result<Vec<Named>, _>>()?;
    let parts = parts(&records);
    if args.paths.len() > 1 && (args.html.is_some() || args.svg.is_some()) {
        let several = Problem::usage("--html and --svg: a page and its charts are of one record");
        let hint = "without them `iosched report` prints several records side by side";
        return Err(boxed(several.hint(hint)));
    }
    let wrote = write_pictures(args, &parts[0], output)?;
    let codes = records.iter().map(|named| answer_code(&named.analysis));
    let worst = codes.max().filter(|_| args.exit_code).unwrap_or(exit::OK);
    if wrote && printed.iter().all(|(_, is_asked)| !is_asked) {
        return Ok(worst);
    }
    if args.csv {
        let all = parts.iter().map(|(name, record, _)| (&**name, *record));
        let csv = csv::trials(all);
        let written: io::Result<()> = output.stream(|out| out.write_all(csv.as_bytes()));
        let failed = |cause| {
            Problem::new(
                exit::FAILURE,
                format!("the data cannot be written: {cause}"),
            )
        };
        written.map_err(failed)?;
        return Ok(worst);
    }
    for named in &records {
        if records.len() > 1 && !output.is_json() {
            output.text(&format!("== {}", named.name));
        }
        print(args, named, output);
    }
    if records.len() > 1 {
        say_whether_comparable(args, &parts, output);
    }
    Ok(worst)
}

/// What `--json` prints of traces.
#[derive(Serialize)]
struct Traces<'a> {
    /// Of this format; a new number only when a field changes its meaning or goes.
    schema: u32,
    traces: Vec<&'a TraceFigures>,
}

fn traces(args: &ReportArgs, output: &Output) -> Outcome {
    if args.html.is_some() || args.svg.is_some() || args.md || args.csv || args.exit_code {
        let problem = Problem::usage(
            "a trace has no pages, charts and verdicts: it is printed as text or with --json",
        );
        return Err(boxed(problem));
    }
    if let Some(directory) = args.paths.iter().find(|path| path.is_dir()) {
        let what = format!(
            "{} is a directory, and others are traces",
            quoted_path(directory)
        );
        return Err(boxed(
            Problem::usage(what).hint("report records and traces apart"),
        ));
    }
    let meter = Arc::new(Meter::default());
    let named = args.paths.iter().zip(names(&args.paths));
    let read = |(path, name): (&PathBuf, String)| {
        let read = || TraceFigures::read(&TraceOptions::all(path.clone()), &meter);
        Ok((name, watched("reading the trace", &meter, output, read)?))
    };
    let traces = named.map(read).collect::<Result<Vec<_>, Problem>>();
    let traces = traces.map_err(boxed)?;
    if output.is_json() {
        let traces = traces.iter().map(|(_, figures)| figures).collect();
        output.json(&Traces { schema: 1, traces });
    } else {
        output.text(&figures(&traces, output.table_width()));
    }
    Ok(exit::OK)
}

/// The forms that go to standard output, and whether each is asked for: then it is printed beside what goes to files.
fn printed_forms(args: &ReportArgs, output: &Output) -> [(&'static str, bool); 3] {
    [
        ("--json", output.is_json()),
        ("--md", args.md),
        ("--csv", args.csv),
    ]
}

fn read(directory: &Path, name: String) -> Result<Named, Box<dyn Failure>> {
    let record = Record::load(directory).map_err(boxed)?;
    Ok(Named {
        name,
        path: directory.into(),
        analysis: Analysis {
            is_running: record::is_being_written(directory),
            ..Analysis::of(&record)
        },
        record,
    })
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

fn parts(records: &[Named]) -> Vec<comparable::Named<'_>> {
    let parts = records.iter();
    parts
        .map(|named| (named.name.clone(), &named.record, &named.analysis))
        .collect()
}

/// Numbers of several records stand below one another: what must be known before they are compared.
fn say_whether_comparable(args: &ReportArgs, parts: &[comparable::Named<'_>], output: &Output) {
    let all: Vec<&Record> = parts.iter().map(|(_, record, _)| *record).collect();
    let differences = comparable::differences(&all);
    if args.md || output.is_json() {
        if !differences.is_empty() {
            output.warn(&format!("note: {}", comparable::sentence(&differences)));
        }
        return;
    }
    let text = if differences.is_empty() {
        comparable::compared(parts, output.widths())
    } else {
        let names: Vec<String> = parts.iter().map(|(name, ..)| name.clone()).collect();
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
    } else if output.is_json() {
        output.json(&named::analysis(analysis));
    } else {
        let text = if args.details {
            text::in_detail(record, analysis, output.widths())
        } else {
            text::record(record, analysis, &named.path, output.widths())
        };
        output.text(&text);
    }
}

/// The page and the charts, where they are wanted; true if any of them is.
fn write_pictures(
    args: &ReportArgs,
    (_, record, analysis): &comparable::Named<'_>,
    output: &Output,
) -> Result<bool, Box<dyn Failure>> {
    if let Some(path) = &args.html {
        files::write(path, html::record(record, analysis).as_bytes()).map_err(boxed)?;
        if !files::is_standard_output(path) {
            output.note(&format!("page: {}", path.display()));
        }
    }
    if let Some(directory) = &args.svg {
        let charts = of_record::charts(record, analysis);
        files::directory(directory).map_err(boxed)?;
        for chart in &charts {
            let path = directory.join(format!("{}.svg", chart.id));
            files::write(&path, svg::file(chart).as_bytes()).map_err(boxed)?;
        }
        output.note(&format!("{} charts: {}", charts.len(), directory.display()));
    }
    Ok(args.html.is_some() || args.svg.is_some())
}
