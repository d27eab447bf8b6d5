//! `iosched evidence`: what many machines measured, gathered, merged and shown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand};
use iosched_evidence::dataset::{self, DEFAULT, New, Secret};
use iosched_evidence::load_class::LoadClass;
use iosched_evidence::pool::{Finding, Groups, Level, Question};
use iosched_evidence::reduce;
use iosched_evidence::row::{OWN, Row, Text};
use iosched_evidence::simulated;
use iosched_experiment::record::Record;
use iosched_machine::clock::unix_time;
use iosched_machine::command_line::quoted_path;
use iosched_machine::failure::{Failure, Problem, exit, in_a_sentence};
use iosched_report::evidence as told;
use serde::Serialize;

use super::{Outcome, boxed, persist};
use crate::output::Output;

/// Arguments of `iosched evidence`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched evidence add results-2026-11-25          shows what, and asks
  iosched evidence add /srv/records/* --to fleet --yes
  iosched evidence merge fleet other-site --to all
  iosched evidence show all --model 'ST4000DM004'
  iosched advise --evidence all                    what it says of disks here

One machine's measurement answers for one disk. Evidence is what many found of
drives that are alike: rows of numbers in a compressed file, without host names,
serial numbers, paths, users or commands. It is pooled by drive model, family
and class, load class and kernel series (docs/fleet.md).")]
pub(crate) struct EvidenceArgs {
    #[command(subcommand)]
    command: EvidenceCommand,
}

#[derive(Debug, Subcommand)]
enum EvidenceCommand {
    /// Add what records found of each two arms
    Add(AddArgs),
    /// Put datasets together, each comparison once
    Merge(MergeArgs),
    /// Show what is known of each model, family and class
    Show(ShowArgs),
}

/// Arguments of `iosched evidence add`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iosched evidence add results --dry-run   what would be added, and nothing else
  iosched evidence add results other-results
  iosched evidence add records/* --to fleet --yes

What would be written is shown first. Of the machine a row has a number that is
made of its name and a secret that stays in the directory (.machines.key): so
that a machine counts once, and nobody can tell which it is.

A record that cannot be used is named and left out, and the others are added:
the exit code is 12 then.")]
struct AddArgs {
    /// Results directories of `iosched tune`
    #[arg(value_name = "RECORD", required = true)]
    records: Vec<PathBuf>,

    /// The directory to add to; it is made if it is not there
    #[arg(long, value_name = "DATASET", default_value = DEFAULT)]
    to: PathBuf,

    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// Arguments of `iosched evidence merge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iosched evidence merge site-a site-b --to all
  iosched evidence merge new --to all      into what is there already

A comparison that is in several counts once. A machine that was added to several
under different secrets counts as several machines there.")]
struct MergeArgs {
    /// Directories that `evidence add` or `merge` wrote
    #[arg(value_name = "DATASET", required = true)]
    datasets: Vec<PathBuf>,

    /// The directory to write to; it is made if it is not there
    #[arg(long, value_name = "DATASET")]
    to: PathBuf,

    /// Say how much would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of `iosched evidence show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iosched evidence show
  iosched evidence show fleet --model '970 EVO' --load-class desktop
  iosched evidence show fleet --kernel 6.12 --json | jq .
  iosched evidence show --simulated

Ratios are to the arm that most machines measured; above 1 is better, whatever
decides. In brackets stands what holds with 95 %: of the mean over machines, and
of the next machine. I² is the part of the variance that is between machines.")]
struct ShowArgs {
    /// The directory
    #[arg(value_name = "DATASET", default_value = DEFAULT)]
    dataset: PathBuf,

    /// The set that ships with iosched instead: simulated machines with disk models
    #[arg(long, conflicts_with = "dataset")]
    simulated: bool,

    /// Drives whose model has this in its name, with their families and classes
    #[arg(long, value_name = "TEXT")]
    model: Option<String>,

    /// What they are used for
    #[arg(long, value_name = "CLASS", value_parser = load_classes())]
    load_class: Option<String>,

    /// Kernels of this series, as 6.12
    #[arg(long, value_name = "SERIES")]
    kernel: Option<String>,
}

fn load_classes() -> PossibleValuesParser {
    let classes = LoadClass::ALL.map(|class| PossibleValue::new(class.name()).help(class.what()));
    let own = PossibleValue::new(OWN).help("Loads of one's own, each by its fingerprint");
    PossibleValuesParser::new(classes.into_iter().chain([own]))
}

/// Runs `iosched evidence`.
pub(crate) fn run(args: &EvidenceArgs, output: &Output) -> Outcome {
    match &args.command {
        EvidenceCommand::Add(args) => add(args, output),
        EvidenceCommand::Merge(args) => merge(args, output),
        EvidenceCommand::Show(args) => show(args, output),
    }
}

/// What `--json` prints of an addition.
#[derive(Serialize)]
struct Added<'a> {
    /// Of this format; a new number only when a field changes its meaning or goes.
    schema: u32,
    dry_run: bool,
    dataset: &'a Path,
    /// Records that say nothing new.
    already_there: usize,
    /// Rows that are new; those themselves where records are added.
    new_rows: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<&'a [Row]>,
    files: Vec<PathBuf>,
    /// Records that cannot be used.
    left_out: &'a [LeftOut],
}

impl Added<'_> {
    fn exit_code(&self) -> u8 {
        if self.left_out.is_empty() {
            exit::OK
        } else {
            exit::BAD_RECORD
        }
    }
}

/// What cannot be used, as `--json` names it.
#[derive(Debug, Serialize)]
struct LeftOut {
    /// Which, and why.
    error: String,
    /// The way out.
    hint: Option<String>,
}

/// Warns of what is left out, and gives it as `--json` names it.
fn left_out(error: &dyn Failure, output: &Output) -> LeftOut {
    let (hint, error) = (error.hint(), in_a_sentence(error));
    let way_out = hint
        .as_ref()
        .map_or(String::new(), |hint| format!("; {hint}"));
    output.warn(&format!("warning: left out: {error}{way_out}"));
    LeftOut { error, hint }
}

fn add(args: &AddArgs, output: &Output) -> Outcome {
    let secret = Secret::of(&args.to)?;
    let names = secret.names();
    let now = unix_time();
    let mut rows = Vec::new();
    let mut bad: Vec<Box<dyn Failure>> = Vec::new();
    for path in &args.records {
        let read = Record::load(path).map_err(boxed);
        match read.and_then(|record| reduce::rows(path, &record, &names, now).map_err(boxed)) {
            Ok(of_record) => rows.extend(of_record),
            Err(error) => bad.push(error),
        }
    }
    // One that cannot be used keeps none of the others out.
    if bad.len() == args.records.len() {
        return Err(bad.remove(0));
    }
    let left_out = bad.iter().map(|error| left_out(error.as_ref(), output));
    let mut left_out: Vec<LeftOut> = left_out.collect();
    let known = dataset::read(&args.to, |_| true)?.unwrap_or_default();
    if secret.is_new() && !known.is_empty() {
        output.warn(&format!(
            "warning: {} came without the secret that named its machines: those that are in it already and are added again count twice",
            quoted_path(&args.to)
        ));
    }
    let (mut new, already_there) = new_beside(&known, rows, &mut left_out, output);
    if args.dry_run && secret.is_new() && !new.is_empty() {
        leave_unnamed(&mut new);
        output.note("note: machines get their numbers when the first rows are written; new-1 and so on stand for them here");
    }
    if !output.is_json() {
        output.text(&told::rows(&new, output.width()));
    }
    if already_there > 0 {
        output.warn(&format!(
            "note: {} in {} already and {} left out",
            are(already_there, "record"),
            quoted_path(&args.to),
            if already_there == 1 { "is" } else { "are" },
        ));
    }
    let is_wanted = !args.dry_run && !new.is_empty();
    let is_wanted = is_wanted && (args.yes || persist::asked(output)?);
    let added = Added {
        schema: 2,
        dry_run: args.dry_run,
        dataset: &args.to,
        already_there,
        new_rows: new.len(),
        rows: Some(&new),
        files: written(&args.to, &secret, &new, is_wanted)?,
        left_out: &left_out,
    };
    say_added(&added, output);
    Ok(added.exit_code())
}

/// Gives machines names that nobody takes for those that another secret will make.
fn leave_unnamed(rows: &mut [Row]) {
    let mut names: BTreeMap<Text, Text> = BTreeMap::new();
    for row in rows {
        let next = format!("new-{}", names.len() + 1);
        let name = names.entry(row.machine.clone());
        row.machine = name.or_insert_with(|| next.into()).clone();
    }
}

/// The file that now holds these rows, written beside the secret that names their machines; none unless that is wanted.
fn written(
    dataset: &Path,
    secret: &Secret,
    rows: &[Row],
    is_wanted: bool,
) -> Result<Vec<PathBuf>, Problem> {
    let written = is_wanted.then(|| dataset::add(dataset, secret, rows));
    Ok(written.transpose()?.into_iter().collect())
}

fn say_added(added: &Added<'_>, output: &Output) {
    if output.is_json() {
        output.json(added);
        return;
    }
    let rows = match added.new_rows {
        1 => "1 row".to_owned(),
        several => format!("{several} rows"),
    };
    let at = quoted_path(added.dataset);
    output.line(&match (added.files.is_empty(), added.new_rows) {
        (_, 0) => format!("nothing new for {at}"),
        (true, _) => format!("{rows} for {at} (not written)"),
        (false, _) => format!("{rows} added to {at}"),
    });
}

/// `1 record is`, `3 records are`.
fn are(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what} is"),
        several => format!("{several} {what}s are"),
    }
}

fn merge(args: &MergeArgs, output: &Output) -> Outcome {
    let mut secret = Secret::of(&args.to)?;
    let mut rows = Vec::new();
    let mut left_out: Vec<LeftOut> = Vec::new();
    let mut has_anothers_secret = false;
    for path in &args.datasets {
        let read = dataset::read(path, |_| true)?.ok_or_else(|| nothing_in(path))?;
        rows.extend(read);
        // One that others know is not gone on with, and one that its owner keeps is not needed.
        let other = Secret::of(path).ok();
        if other.as_ref().is_some_and(Secret::is_new) {
            continue;
        }
        let is_same = |other: &Secret| other.names() == secret.names();
        let is_same = other.as_ref().is_some_and(is_same);
        if let Some(other) = other.filter(|_| secret.is_new() && !has_anothers_secret) {
            secret = other.for_new();
            has_anothers_secret = true;
        } else if !is_same {
            output.note(&format!(
                "note: machines of {} are counted apart from the others: they were named by another secret",
                quoted_path(path)
            ));
        }
    }
    let known = dataset::read(&args.to, |_| true)?.unwrap_or_default();
    let (new, already_there) = new_beside(&known, rows, &mut left_out, output);
    let is_wanted = !args.dry_run && !new.is_empty();
    let added = Added {
        schema: 2,
        dry_run: args.dry_run,
        dataset: &args.to,
        already_there,
        new_rows: new.len(),
        rows: None,
        files: written(&args.to, &secret, &new, is_wanted)?,
        left_out: &left_out,
    };
    say_added(&added, output);
    Ok(added.exit_code())
}

/// The rows that say something new beside a dataset, and how many records say nothing new. What is refused is warned of.
fn new_beside(
    known: &[Row],
    rows: Vec<Row>,
    refused: &mut Vec<LeftOut>,
    output: &Output,
) -> (Vec<Row>, usize) {
    let new = New::beside(known, rows);
    refused.extend(new.refused.iter().map(|problem| left_out(problem, output)));
    (new.rows, new.already_there)
}

/// There is no evidence.
pub(crate) fn nothing_in(path: &Path) -> Problem {
    let message = format!("there is no evidence in {}", path.display());
    let hint = "add records to it: `iosched evidence add RECORD...`";
    Problem::new(exit::NO_SUCH_DEVICE, message).hint(hint)
}

/// What `--json` prints of what is known.
#[derive(Serialize)]
struct Shown<'a> {
    /// Of this format; a new number only when a field changes its meaning or goes.
    schema: u32,
    dataset: &'a Path,
    rows: usize,
    records: usize,
    machines: usize,
    findings: &'a [Finding],
}

/// Nothing is there of what was asked for; what it has of each kind of which nothing is there.
fn nothing_of_that_kind(path: &Path, rows: &[Row], args: &ShowArgs) -> Problem {
    let has = lacking(rows, args);
    let hint = if has.is_empty() {
        "it has each of them, but not together: leave one of them out".to_owned()
    } else {
        has.join("; ")
    };
    let message = format!(
        "the evidence in {} has nothing of that kind",
        path.display()
    );
    Problem::new(exit::NO_SUCH_DEVICE, message).hint(hint)
}

/// What rows have of each kind of which nothing is there that was asked for.
fn lacking(rows: &[Row], args: &ShowArgs) -> Vec<String> {
    type Kind<'a> = (&'a str, &'a Option<String>, fn(&Row) -> &str);
    let kinds: [Kind<'_>; 3] = [
        ("models", &args.model, |row| &row.model),
        ("kernel series", &args.kernel, Row::series),
        ("load classes", &args.load_class, |row| &row.load_class),
    ];
    let mut has = Vec::new();
    for (what, asked, of) in kinds {
        let Some(asked) = asked else { continue };
        let there: BTreeSet<&str> = rows.iter().map(of).collect();
        let is_there = if what == "models" {
            let asked = asked.to_lowercase();
            there
                .iter()
                .any(|model| model.to_lowercase().contains(&asked))
        } else {
            there.contains(asked.as_str())
        };
        if !is_there {
            has.push(named(what, &there));
        }
    }
    has
}

/// `its models are: A, B and 3 more`.
fn named(what: &str, there: &BTreeSet<&str>) -> String {
    const NAMED: usize = 8;
    let names: Vec<&str> = there
        .iter()
        .copied()
        .filter(|name| !name.is_empty())
        .collect();
    let shown = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        _ if names.is_empty() => format!("it has no {what}"),
        0 => format!("its {what} are: {shown}"),
        more => format!("its {what} are: {shown} and {more} more"),
    }
}

fn show(args: &ShowArgs, output: &Output) -> Outcome {
    let (at, rows) = what_is_shown(args)?;
    let rows = &rows;
    let drives = args.model.as_deref().map(|model| drives(rows, model));
    let is_wanted = |question: &Question| {
        let of_drive = (
            question.level,
            question.drive.clone(),
            question.class.clone(),
        );
        drives.as_ref().is_none_or(|them| them.contains(&of_drive))
            && args
                .load_class
                .as_ref()
                .is_none_or(|class| **class == *question.load_class)
            && args
                .kernel
                .as_ref()
                .is_none_or(|series| **series == *question.kernel)
    };
    let findings = Groups::of(rows, is_wanted).findings();
    if findings.is_empty() {
        return Err(nothing_of_that_kind(at, rows, args).into());
    }
    if output.is_json() {
        let distinct = |of: fn(&Row) -> &str| rows.iter().map(of).collect::<BTreeSet<_>>().len();
        output.json(&Shown {
            schema: 2,
            dataset: at,
            rows: rows.len(),
            records: distinct(|row| &row.record),
            machines: distinct(|row| &row.machine),
            findings: &findings,
        });
    } else {
        told::findings(findings.into_iter(), output.width(), |text| {
            output.text(text);
        });
    }
    Ok(exit::OK)
}

/// The rows, and what they are called.
fn what_is_shown(args: &ShowArgs) -> Result<(&Path, Vec<Row>), Problem> {
    if args.simulated {
        return Ok((Path::new("simulated machines"), simulated::rows().to_vec()));
    }
    let rows = dataset::read(&args.dataset, |_| true)?.filter(|rows| !rows.is_empty());
    let rows = rows.ok_or_else(|| nothing_in(&args.dataset))?;
    Ok((args.dataset.as_path(), rows))
}

/// The models that have a text in their names, and what these belong to.
fn drives(rows: &[Row], model: &str) -> BTreeSet<(Level, Text, Text)> {
    let model = model.to_lowercase();
    let mut drives = BTreeSet::new();
    let mut last: Option<&Row> = None;
    for row in rows {
        let is_alike = |last: &Row| last.model == row.model && last.record == row.record;
        if last.is_some_and(is_alike) {
            continue;
        }
        last = Some(row);
        if row.model.to_lowercase().contains(&model) {
            let class = Text::from(row.class());
            let of = |level: Level| Some((level, level.of(row)?, class.clone()));
            drives.extend(Level::ALL.into_iter().filter_map(of));
        }
    }
    drives
}
