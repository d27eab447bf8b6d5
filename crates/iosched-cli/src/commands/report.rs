//! `iosched report`: records again, in the form that is wanted.

use std::path::{Path, PathBuf};

use clap::Args;
use iosched::analysis::Analysis;
use iosched::failure::{Failure, exit};
use iosched::record::Record;
use iosched::report::chart::{Chart, of_record, png, svg};
use iosched::report::{csv, html, known, text};

use super::{Outcome, boxed};
use crate::files;
use crate::output::Output;

/// Arguments of `iosched report`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched report iosched-results/20261121-101500-sda   tables and verdict
  iosched report DIR --html page.html                  everything on one page
  iosched report BEFORE AFTER --html compared.html     two records side by side
  iosched report DIR --svg charts                      each chart as a file
  iosched report DIR --csv > trials.csv                one row per trial
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
    /// Results directories that `iosched tune` wrote; several are compared on a page
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,

    /// Write one page with tables, charts, method and data
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write each chart as an SVG file into this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// Write each chart as a PNG file into this directory
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,

    /// Tidy data, one row per trial
    #[arg(long, group = "form")]
    csv: bool,

    /// Tab-separated log of the iozone sweep: Test, Throughput (KB/s), I/O Scheduler, Threads, n
    #[arg(long, group = "form")]
    tsv: bool,

    /// 2/1/0 points: in each round the best arm gets most, the worst none
    #[arg(long)]
    points: bool,

    /// Throughput with the baseline at 100
    #[arg(long)]
    normalised: bool,
}

/// A record with its name.
struct Named {
    name: String,
    record: Record,
    analysis: Analysis,
}

/// Runs `iosched report`.
pub(crate) fn run(args: &ReportArgs, output: &Output) -> Outcome {
    let records = load(&args.directories)?;
    let writes_files = args.html.is_some() || args.svg.is_some() || args.png.is_some();
    if writes_files {
        write_files(args, &records, output)?;
        return Ok(exit::OK);
    }
    for named in &records {
        if records.len() > 1 && !output.is_json() && !args.csv && !args.tsv {
            output.text(&format!("== {}", named.name));
        }
        print(args, named, output);
    }
    Ok(exit::OK)
}

/// Reads the records; each is called as its directory, or by the path where two are called alike.
fn load(directories: &[PathBuf]) -> Result<Vec<Named>, Box<dyn Failure>> {
    let short = |path: &Path| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let names: Vec<String> = directories.iter().map(|path| short(path)).collect();
    directories
        .iter()
        .zip(&names)
        .map(|(path, name)| {
            let record = Record::load(path).map_err(boxed)?;
            let is_alone = names.iter().filter(|other| *other == name).count() == 1;
            Ok(Named {
                name: if is_alone {
                    name.clone()
                } else {
                    path.display().to_string()
                },
                analysis: Analysis::of(&record),
                record,
            })
        })
        .collect()
}

fn print(args: &ReportArgs, named: &Named, output: &Output) {
    let Named {
        record, analysis, ..
    } = named;
    if args.csv {
        output.text(&csv::trials(record));
    } else if args.tsv {
        output.text(&known::sweep_log(record));
    } else if output.is_json() {
        output.json(analysis);
    } else {
        output.text(&text::record(record, analysis, output.width()));
        if args.points {
            output.text(&known::points(record, output.width()));
        }
        if args.normalised {
            output.text(&known::normalised(record, analysis, output.width()));
        }
    }
}

fn write_files(
    args: &ReportArgs,
    records: &[Named],
    output: &Output,
) -> Result<(), Box<dyn Failure>> {
    if let Some(path) = &args.html {
        let parts: Vec<(String, &Record, &Analysis)> = records
            .iter()
            .map(|named| (named.name.clone(), &named.record, &named.analysis))
            .collect();
        files::write(path, html::records(&parts).as_bytes()).map_err(boxed)?;
        output.note(&format!("page: {}", path.display()));
    }
    let charts = charts(records);
    if let Some(directory) = &args.svg {
        files::directory(directory).map_err(boxed)?;
        for chart in &charts {
            let path = directory.join(format!("{}.svg", chart.id));
            files::write(&path, svg::file(chart).as_bytes()).map_err(boxed)?;
        }
        output.note(&format!("{} charts: {}", charts.len(), directory.display()));
    }
    if let Some(directory) = &args.png {
        files::directory(directory).map_err(boxed)?;
        for chart in &charts {
            let path = directory.join(format!("{}.png", chart.id));
            files::write(&path, &png::file(chart).map_err(boxed)?).map_err(boxed)?;
        }
        output.note(&format!("{} charts: {}", charts.len(), directory.display()));
    }
    Ok(())
}

/// The charts of the only record, or the comparison of several.
fn charts(records: &[Named]) -> Vec<Chart> {
    if let [named] = records {
        return of_record::charts(&named.record, &named.analysis);
    }
    let parts: Vec<(String, &Record, &Analysis)> = records
        .iter()
        .map(|named| (named.name.clone(), &named.record, &named.analysis))
        .collect();
    vec![of_record::compared(&parts)]
}
