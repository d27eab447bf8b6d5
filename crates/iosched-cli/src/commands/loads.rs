//! `iosched loads`, `iosched help loads` and `tune --load help`: the loads that `--load` takes.

use clap::Args;
use iosched_experiment::load::listed::{ListedLoad, loads};
use iosched_machine::failure::exit;

use super::Outcome;
use crate::output::Output;

/// Arguments of `iosched loads`.
#[derive(Debug, Args)]
#[command(after_help = table())]
pub(crate) struct LoadsArgs {}

/// Runs `iosched loads`.
pub(crate) fn run(output: &Output) -> Outcome {
    if output.is_json() {
        output.json(&loads().collect::<Vec<_>>());
    } else {
        output.text(&table());
    }
    Ok(exit::OK)
}

/// The loads, and how to write one.
fn table() -> String {
    let rows = loads().chain([
        ListedLoad {
            name: "FILE.fio",
            summary: "your own fio job file; without direct=1 through the page cache, as in fio",
            options: "",
        },
        ListedLoad {
            name: "'command: PROGRAM'",
            summary: "any program; 'command: sh: LINE' for a shell",
            options: "",
        },
    ]);
    let rows: Vec<String> = rows.map(row).collect();
    format!(
        "Loads, and below each its options with their defaults:\n{}\nExamples:{EXAMPLES}",
        rows.concat()
    )
}

fn row(load: ListedLoad) -> String {
    let row = format!("  {:<18}  {}\n", load.name, load.summary);
    match load.options {
        "" => row,
        options => row + &format!("      {}:{options}\n", load.name),
    }
}

const EXAMPLES: &str = "
  iosched tune /srv/data --load mixed
  iosched tune /srv/data --load mixed:2 --load my.fio   mixed counts twice
  iosched tune /srv/data --load pgbench:scale=10,clients=20
  iosched tune /srv/data --load 'command: make -j2' --prepare 'make clean'";
