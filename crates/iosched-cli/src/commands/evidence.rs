//! `iosched evidence`: what many machines measured, gathered, merged and shown.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand};
use iosched_evidence::dataset::{
    self, DEFAULT, Dataset, DatasetError, New, Room, RowFilter, Secret,
};
use iosched_evidence::load_class::LoadClass;
use iosched_evidence::pool::{self, Finding, Level, Question};
use iosched_evidence::reduce;
use iosched_evidence::row::{OWN, Row, Source, Text};
use iosched_evidence::simulated;
use iosched_experiment::record::Record;
use iosched_machine::clock::unix_time;
use iosched_machine::command_line::quoted_path;
use iosched_machine::failure::{Failure, exit, in_a_sentence};
use iosched_report::evidence as told;
use serde::{Serialize, Serializer};

use super::{Outcome, boxed, persist};
use crate::files;
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
drives that are alike: rows of numbers in a directory of Parquet files, without
host names, serial numbers, paths, users or commands. It is pooled by drive
model, family and class, load class and kernel series (docs/evidence.md).")]
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
  iosched evidence show fleet --model ST4000 --html fleet.html
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

    /// Write a page with forest plots to this file (`-`: standard output); with --json that is printed besides
    #[arg(long, value_name = "PAGE")]
    html: Option<PathBuf>,
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

impl LeftOut {
    fn of(error: &dyn Failure) -> LeftOut {
        LeftOut {
            error: in_a_sentence(error),
            hint: error.hint(),
        }
    }
}

fn add(args: &AddArgs, output: &Output) -> Outcome {
    let secret = dataset::pseudonyms(&args.to).map_err(boxed)?;
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
    for error in &bad {
        warn_of(error.as_ref(), output);
    }
    let mut left_out: Vec<LeftOut> = bad
        .iter()
        .map(|error| LeftOut::of(error.as_ref()))
        .collect();
    let mut room = Room::default();
    let known = existing(&args.to, &mut room, output)?;
    if secret.is_new() && !known.rows.is_empty() {
        output.warn(&format!(
            "warning: {} came without the secret that named its machines: those that are in it already and are added again count twice",
            quoted_path(&args.to)
        ));
    }
    let (mut new, already_there) = new_beside(&known, rows, &mut left_out, output);
    room.take(&args.to, &new).map_err(boxed)?;
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
    let files = written(&args.to, &secret, &new, is_wanted)?;
    let added = Added {
        schema: 1,
        dry_run: args.dry_run,
        dataset: &args.to,
        already_there,
        new_rows: new.len(),
        rows: Some(&new),
        files,
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

/// The files that now hold these rows, written beside the secret that names their machines; none unless that is wanted.
fn written(
    dataset: &Path,
    secret: &Secret,
    rows: &[Row],
    is_wanted: bool,
) -> Result<Vec<PathBuf>, Box<dyn Failure>> {
    if !is_wanted {
        return Ok(Vec::new());
    }
    dataset::add(dataset, secret, rows).map_err(boxed)
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

/// What a directory has already, which need not be there; what of it cannot be used is told.
fn existing(
    directory: &Path,
    room: &mut Room,
    output: &Output,
) -> Result<Dataset, Box<dyn Failure>> {
    match Dataset::read_within(directory, &RowFilter::default(), room) {
        Ok(mut dataset) => {
            // It would only grow.
            let is_too_much = |error: &DatasetError| matches!(error, DatasetError::TooMuch { .. });
            if let Some(at) = dataset.unusable.iter().position(is_too_much) {
                return Err(boxed(dataset.unusable.swap_remove(at)));
            }
            warn(&dataset, output);
            Ok(dataset)
        }
        Err(DatasetError::Missing { .. }) => Ok(Dataset::default()),
        Err(error) => Err(boxed(error)),
    }
}

/// Names each file that cannot be used, with the cause and the way out.
pub(crate) fn warn(dataset: &Dataset, output: &Output) {
    for error in &dataset.unusable {
        warn_of(error, output);
    }
}

/// Tells of rows that are dated in the future, as those that an earlier version added. What was measured holds nevertheless.
fn warn_of_future(at: &Path, rows: &[Row], output: &Output) {
    let tomorrow = unix_time() / 86_400.0 + 1.0;
    let is_late = |row: &&Row| row.source != Source::Simulated && f64::from(row.day) > tomorrow;
    let late = || rows.iter().filter(is_late);
    let Some(last) = late().map(|row| row.day).max() else {
        return;
    };
    let records: BTreeSet<&str> = late().map(|row| &*row.record).collect();
    output.warn(&format!(
        "warning: {} has records of the future ({}, up to {}): a clock was wrong when they were made, or the one here is",
        quoted_path(at),
        records.len(),
        told::date(last)
    ));
}

fn warn_of(error: &dyn Failure, output: &Output) {
    let hint = error.hint();
    let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
    let error = in_a_sentence(error);
    output.warn(&format!("warning: left out: {error}{hint}"));
}

fn merge(args: &MergeArgs, output: &Output) -> Outcome {
    let mut secret = dataset::pseudonyms(&args.to).map_err(boxed)?;
    let mut room = Room::default();
    let mut rows = Vec::new();
    let mut left_out: Vec<LeftOut> = Vec::new();
    let mut has_anothers_secret = false;
    for path in &args.datasets {
        let mut read =
            Dataset::read_within(path, &RowFilter::default(), &mut room).map_err(boxed)?;
        // What is left out here would be missed later by nobody; of a record in two ways, one is there.
        let is_conflict = |error: &DatasetError| matches!(error, DatasetError::Conflict { .. });
        if let Some(at) = read.unusable.iter().position(|error| !is_conflict(error)) {
            return Err(boxed(read.unusable.swap_remove(at)));
        }
        left_out.extend(told_of(&read.unusable, output));
        warn_of_future(path, &read.rows, output);
        rows.extend(read.rows);
        let other = match dataset::pseudonyms(path) {
            Ok(other) if other.is_new() => continue,
            Ok(other) => Some(other),
            // One that others know is not gone on with, and one that its owner keeps is not needed.
            Err(error) if is_without_secret(&error) => None,
            Err(error) => return Err(boxed(error)),
        };
        let is_same = other
            .as_ref()
            .is_some_and(|other| other.names() == secret.names());
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
    // What is read is held at the same time, so what is written takes no more.
    let known = existing(&args.to, &mut room, output)?;
    let (new, already_there) = new_beside(&known, rows, &mut left_out, output);
    let is_wanted = !args.dry_run && !new.is_empty();
    let files = written(&args.to, &secret, &new, is_wanted)?;
    let added = Added {
        schema: 1,
        dry_run: args.dry_run,
        dataset: &args.to,
        already_there,
        new_rows: new.len(),
        rows: None,
        files,
        left_out: &left_out,
    };
    say_added(&added, output);
    Ok(added.exit_code())
}

/// The rows that say something new beside a dataset, and how many records say nothing new. What is refused is warned of.
fn new_beside(
    known: &Dataset,
    rows: Vec<Row>,
    left_out: &mut Vec<LeftOut>,
    output: &Output,
) -> (Vec<Row>, usize) {
    let New {
        rows,
        already_there,
        refused,
    } = known.new_of(rows);
    left_out.extend(told_of(&refused, output));
    (rows, already_there)
}

/// Whether a dataset has no secret that can be gone on with here: others know it, its owner alone may read it, or it is damaged.
fn is_without_secret(error: &DatasetError) -> bool {
    match error {
        DatasetError::NoSecret { .. } | DatasetError::DamagedSecret { .. } => true,
        DatasetError::Io { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
        _ => false,
    }
}

/// Warns of each record that is left out, and gives it as `--json` names it.
fn told_of(refused: &[DatasetError], output: &Output) -> impl Iterator<Item = LeftOut> {
    refused.iter().map(|error| {
        warn_of(error, output);
        LeftOut::of(error)
    })
}

/// What `--json` prints of what is known: one finding after the other, as they come.
#[derive(Serialize)]
struct Shown<'a, Findings: Iterator<Item = Finding>> {
    /// Of this format; a new number only when a field changes its meaning or goes.
    schema: u32,
    dataset: &'a Path,
    rows: usize,
    records: usize,
    machines: usize,
    /// Files that cannot be used.
    left_out: Vec<LeftOut>,
    #[serde(serialize_with = "one_by_one")]
    findings: RefCell<Findings>,
}

fn one_by_one<S: Serializer>(
    findings: &RefCell<impl Iterator<Item = Finding>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(&mut *findings.borrow_mut())
}

/// Nothing is left of what was asked for.
#[derive(Debug, thiserror::Error)]
enum NothingFound {
    #[error("there is no evidence in {}", path.display())]
    Empty { path: PathBuf },
    #[error("none of the evidence in {} can be used: {} left out", path.display(), are(*files, "file"))]
    LeftOut { path: PathBuf, files: usize },
    #[error("the evidence in {} has nothing of that kind", path.display())]
    OfThatKind {
        path: PathBuf,
        /// What it has of each kind that was asked for and is not there.
        has: Vec<String>,
    },
}

impl NothingFound {
    fn in_dataset(path: &Path, dataset: &Dataset, args: &ShowArgs) -> NothingFound {
        let path = path.to_owned();
        let files = dataset.unusable.len();
        match (dataset.rows.is_empty(), files) {
            (true, 0) => NothingFound::Empty { path },
            (true, _) => NothingFound::LeftOut { path, files },
            (false, _) => NothingFound::OfThatKind {
                path,
                has: lacking(&dataset.rows, args),
            },
        }
    }
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

impl Failure for NothingFound {
    fn hint(&self) -> Option<String> {
        Some(match self {
            NothingFound::Empty { .. } => {
                "add records to it: `iosched evidence add RECORD...`".into()
            }
            NothingFound::LeftOut { .. } => {
                "the warnings above say why, and what can be done".into()
            }
            NothingFound::OfThatKind { has, .. } if has.is_empty() => {
                "it has each of them, but not together: leave one of them out".into()
            }
            NothingFound::OfThatKind { has, .. } => has.join("; "),
        })
    }

    fn exit_code(&self) -> u8 {
        match self {
            NothingFound::LeftOut { .. } => exit::BAD_RECORD,
            NothingFound::Empty { .. } | NothingFound::OfThatKind { .. } => exit::NO_SUCH_DEVICE,
        }
    }
}

/// A page would be larger than browsers show.
#[derive(Debug, thiserror::Error)]
#[error("the page {} would have more than {MOST_ON_PAGE} lines of tables", path.display())]
struct LargePage {
    path: PathBuf,
}

impl Failure for LargePage {
    fn hint(&self) -> Option<String> {
        Some("choose with --model, --load-class and --kernel".into())
    }

    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}

/// Questions and arms on a page.
const MOST_ON_PAGE: usize = 20_000;

fn show(args: &ShowArgs, output: &Output) -> Outcome {
    files::one_on_standard_output(
        &[("--html", args.html.as_ref())],
        &[("--json", output.is_json())],
    )
    .map_err(boxed)?;
    let (at, dataset) = what_is_shown(args)?;
    warn(&dataset, output);
    let rows = &dataset.rows;
    warn_of_future(at, rows, output);
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
    let mut findings = pool::findings(rows, &is_wanted).peekable();
    if findings.peek().is_none() {
        return Err(boxed(NothingFound::in_dataset(at, &dataset, args)));
    }
    let said = |findings: &mut dyn Iterator<Item = Finding>| {
        let distinct = |of: fn(&Row) -> &str| rows.iter().map(of).collect::<BTreeSet<_>>().len();
        output.json(&Shown {
            schema: 1,
            dataset: at,
            rows: rows.len(),
            records: distinct(|row| &row.record),
            machines: distinct(|row| &row.machine),
            left_out: dataset
                .unusable
                .iter()
                .map(|error| LeftOut::of(error))
                .collect(),
            findings: findings.into(),
        });
    };
    if let Some(page) = &args.html {
        let shown = write_page(page, at, findings)?;
        if !files::is_standard_output(page) {
            output.note(&format!("page: {}", page.display()));
        }
        if output.is_json() {
            said(&mut shown.into_iter());
        }
    } else if output.is_json() {
        said(&mut findings);
    } else {
        told::findings(findings, output.width(), |text| output.text(text));
    }
    Ok(exit::OK)
}

/// The dataset, and what it is called.
fn what_is_shown(args: &ShowArgs) -> Result<(&Path, Dataset), Box<dyn Failure>> {
    if args.simulated {
        let dataset = Dataset {
            rows: simulated::rows().to_vec(),
            ..Dataset::default()
        };
        return Ok((Path::new("simulated machines"), dataset));
    }
    let dataset = Dataset::read(&args.dataset, &RowFilter::default()).map_err(boxed)?;
    Ok((args.dataset.as_path(), dataset))
}

/// Writes the findings of the dataset at a path as a page, if they have room there.
fn write_page(
    page: &Path,
    at: &Path,
    findings: impl Iterator<Item = Finding>,
) -> Result<Vec<Finding>, Box<dyn Failure>> {
    let mut shown = Vec::new();
    let mut lines = 0;
    for finding in findings {
        lines += 1 + finding.arms.len();
        if lines > MOST_ON_PAGE {
            let path = page.to_owned();
            return Err(boxed(LargePage { path }));
        }
        shown.push(finding);
    }
    let name = at.file_name().unwrap_or(at.as_os_str());
    let html = iosched_report::html::evidence(&name.to_string_lossy(), &shown);
    files::write(page, html.as_bytes()).map_err(boxed)?;
    Ok(shown)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_may_not_be_read_is_none_to_go_on_with() {
        let path = PathBuf::from("fleet/.machines.key");
        let io = |kind: io::ErrorKind| DatasetError::Io {
            path: path.clone(),
            source: kind.into(),
        };
        assert!(is_without_secret(&io(io::ErrorKind::PermissionDenied)));
        assert!(is_without_secret(&DatasetError::NoSecret {
            path: path.clone()
        }));
        assert!(!is_without_secret(&io(io::ErrorKind::Other)));
        let cause = String::new();
        assert!(!is_without_secret(&DatasetError::Damaged { path, cause }));
    }
}
