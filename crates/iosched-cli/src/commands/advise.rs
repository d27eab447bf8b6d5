//! `iosched advise`: what each disk should have, without measuring.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use iosched_evidence::dataset::{self, DEFAULT};
use iosched_evidence::pool::{
    Answer, ArmFinding, Finding, LEAST_MACHINES, MARGIN, Price, SideNumber,
};
use iosched_evidence::row::Row;
use iosched_machine::device::{Inventory, Target};
use iosched_machine::failure::{Failure, Problem, exit, in_a_sentence};
use iosched_machine::host::Host;
use iosched_policy::advise::elsewhere::{self, Elsewhere};
use iosched_policy::advise::simulated::Simulated;
use iosched_policy::advise::{
    self, Advice, Basis, Evidence, LoadClass, Measured, Proposed, RuleOfThumb,
};
use iosched_policy::policy::file::{self, Policy};
use iosched_policy::policy::writers::Effect;
use iosched_policy::set;
use iosched_report::evidence as evidence_words;
use iosched_report::text::fold;
use iosched_report::words::percent;
use rustix::fs::{Access, access};
use serde::Serialize;

use super::list::{inventory, size};
use super::{Outcome, boxed};
use crate::output::Output;

/// Arguments of `iosched advise`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched advise                          every disk
  iosched advise sda --load-class desktop
  iosched advise /var/lib/postgresql --load-class database
  iosched advise --evidence fleet         by what other machines found, too
  iosched advise --json | jq .

Three answers are kept apart: what was measured on this machine and is kept in
its policy; what other machines measured of such drives (`iosched evidence`),
with what the next machine may expect; and a rule of thumb, with its source and
the reason to doubt it. What simulations of a disk model say stands beside them,
and decides nothing. Nothing is measured, and nothing is changed; the command
that would settle it loads the disk, and switches its scheduler meanwhile.")]
pub(crate) struct AdviseArgs {
    /// Disks to advise on [default: all but loop devices]: a kernel name, a node or a link to one, a
    /// directory or file
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,

    /// What they are used for
    #[arg(long, value_name = "CLASS", default_value = "general", value_parser = load_class())]
    load_class: LoadClass,

    /// What other machines measured [default: /var/lib/iosched/evidence, if it is there]
    #[arg(long, value_name = "DATASET")]
    evidence: Option<PathBuf>,

    /// Advise on a copied tree (DIR/sys, DIR/proc, DIR/etc) instead of this machine
    #[arg(long, value_name = "DIR", value_parser = crate::values::tree())]
    root: Option<PathBuf>,
}

fn load_class() -> impl TypedValueParser<Value = LoadClass> {
    let values = LoadClass::ALL.map(|class| PossibleValue::new(class.name()).help(class.what()));
    PossibleValuesParser::new(values).map(|name| {
        let mut all = LoadClass::ALL.into_iter();
        all.find(|class| class.name() == name)
            .expect("one of the possible values")
    })
}

/// What `--json` prints.
#[derive(Serialize)]
struct Advised {
    /// Of this format; a new number only when a field changes its meaning or goes.
    schema: u32,
    load_class: LoadClass,
    disks: Vec<Advice>,
}

/// Runs `iosched advise`.
pub(crate) fn run(args: &AdviseArgs, output: &Output) -> Outcome {
    let host = args.root.as_ref().map_or_else(Host::live, Host::at);
    let class = args.load_class;
    let inventory = inventory(&host, args.root.as_deref())?; // a root without devices is a mistake, whatever its policy
    let policy = file::read(&host).unwrap_or_else(|error| {
        output.warn(&format!(
            "warning: what was measured here is not known: {}",
            in_a_sentence(&error)
        ));
        None
    });
    let policy = policy.map(|(policy, _)| policy).unwrap_or_default();
    let rows = evidence(args, &host, &inventory, output)?;
    let mut evidence = Evidence::of(&rows, &host, &inventory, class);
    let disks = if args.devices.is_empty() {
        let disks = advise::disks(&host, class, &policy, &mut evidence);
        disks?
    } else {
        named(args, &host, &policy, &mut evidence)?
    };
    if output.is_json() {
        output.json(&Advised {
            schema: 1,
            load_class: class,
            disks,
        });
        return Ok(exit::OK);
    }
    if disks.is_empty() {
        output.line("no disk here has a scheduler to choose");
    }
    for (number, disk) in disks.iter().enumerate() {
        if number > 0 {
            output.line("");
        }
        let is_told = |before: &&Advice| before.rule_of_thumb == disk.rule_of_thumb;
        tell(disk, disks[..number].iter().find(is_told), output);
    }
    if disks
        .iter()
        .any(|disk| !disk.rule_of_thumb.sources.is_empty())
    {
        output.note("--json has what each source says, and where");
    }
    Ok(exit::OK)
}

/// What other machines measured of such disks; what cannot be read, unless it was named, is told.
fn evidence(
    args: &AdviseArgs,
    host: &Host,
    inventory: &Inventory,
    output: &Output,
) -> Result<Vec<Row>, Problem> {
    let at = host.path(Path::new(DEFAULT));
    let at = args.evidence.as_ref().unwrap_or(&at);
    let read = dataset::read(at, elsewhere::wanted(inventory, args.load_class));
    match (read, &args.evidence) {
        (Ok(Some(rows)), _) => Ok(rows),
        (Ok(None), None) => Ok(Vec::new()),
        (Ok(None), Some(at)) => Err(super::evidence::nothing_in(at)),
        (Err(problem), None) => {
            let hint = problem
                .hint
                .map_or(String::new(), |hint| format!("; {hint}"));
            output.warn(&format!(
                "warning: what was measured elsewhere is not known: {}{hint}",
                problem.message
            ));
            Ok(Vec::new())
        }
        (Err(problem), Some(_)) => Err(problem),
    }
}

/// The disks below what was named, each once.
fn named(
    args: &AdviseArgs,
    host: &Host,
    policy: &Policy,
    evidence: &mut Evidence<'_>,
) -> Result<Vec<Advice>, Box<dyn Failure>> {
    let mut found: Vec<Advice> = Vec::new();
    for target in &args.devices {
        let given = target;
        let target = Target::find(host, given).map_err(boxed)?;
        let directory = is_writable_directory(host, &target).then_some(given.as_str());
        for device in target.devices() {
            for name in set::disks_of(host, device).map_err(boxed)? {
                if found.iter().any(|advice| advice.device == name) {
                    continue;
                }
                let advice =
                    advise::disk(host, &name, directory, args.load_class, policy, evidence);
                found.extend(advice?);
            }
        }
    }
    Ok(found)
}

/// True of a directory in which loads can have files. A copied tree has no files to look at.
fn is_writable_directory(host: &Host, target: &Target) -> bool {
    match target {
        Target::Device(_) => false,
        Target::FileSystem(found) if host.is_live() => {
            found.path.is_dir() && access(&found.path, Access::WRITE_OK).is_ok()
        }
        Target::FileSystem(_) => true,
    }
}

/// Tells of a disk; the reasons of its rule only if no other disk was told to have it before.
fn tell(disk: &Advice, same_rule: Option<&Advice>, output: &Output) {
    let model: Vec<&str> = disk
        .model
        .iter()
        .flat_map(|model| model.split_whitespace())
        .collect();
    let model = model.join(" ");
    let size = size(disk.size_bytes);
    if let Some(directory) = &disk.directory {
        output.line(&format!("{directory} is on {}:", disk.device));
    }
    output.line(format!("{}  {size}  {model}", disk.device).trim_end());
    let set_by = match &disk.set_by {
        Some(writer) if writer.effect == Effect::MaySet => {
            format!("a line may set it at boot: {writer}")
        }
        Some(writer) => {
            let value = writer.value.as_deref().unwrap_or("something");
            format!("set to {value} at boot by: {writer}")
        }
        None => "nobody sets it at boot".to_owned(),
    };
    let line = |what: &str, text: &str| entry(output, what, text);
    line("now", &format!("{}; {set_by}", disk.active));
    line("measured here", &measured(disk.measured_here.as_ref()));
    line(
        "measured elsewhere",
        &elsewhere_words(disk.measured_elsewhere.as_ref()),
    );
    if let Some(prices) = disk.measured_elsewhere.as_ref().and_then(prices_elsewhere) {
        line("at the price of", &prices);
    }
    let taken = taken(&disk.rule_of_thumb);
    if let Some(other) = same_rule {
        line(
            "rule of thumb",
            &format!("{taken}: as for {}", other.device),
        );
    } else {
        line("rule of thumb", &taken);
        reasons(&disk.rule_of_thumb, output);
    }
    if let Some(simulated) = &disk.simulated {
        line("simulated", &simulated_words(simulated));
    }
    if let Some(differs) = &disk.differs {
        let by = match differs.by {
            Basis::MeasuredHere => "as measured here",
            Basis::MeasuredElsewhere => "as measured elsewhere",
            Basis::RuleOfThumb => "by the rule of thumb",
        };
        let should = differs.should.join(" or ");
        line(
            "differs",
            &format!("{} instead of {should}, {by}", disk.active),
        );
    }
    if let Some(command) = &disk.to_settle {
        let what = if command.writes_files {
            "loads the disk and switches its scheduler meanwhile; files of its own are removed afterwards"
        } else {
            "loads the disk with reads alone and switches its scheduler meanwhile"
        };
        line("to settle it", what);
        // Not folded: it is there to be copied.
        output.line(&format!("    {}", command.line));
    }
}

fn reasons(rule: &RuleOfThumb, output: &Output) {
    let line = |text: &str| entry(output, "", text);
    line(&format!("for {}", rule.of));
    line(&format!("because {}", rule.because));
    line(&format!("doubt: {}", rule.doubt));
    let sources: Vec<&str> = rule.sources.iter().map(|source| source.who).collect();
    if !sources.is_empty() {
        line(&format!("sources: {}", sources.join("; ")));
    }
}

fn measured(measured: Option<&Measured>) -> String {
    let Some(measured) = measured else {
        return "never".to_owned();
    };
    let why = measured.why.as_ref();
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    let which = if measured.is_of_this_disk {
        ""
    } else {
        ", which is for all disks like it"
    };
    let mut parts = vec![format!(
        "{} (rule {:?} of the policy{which}{why})",
        measured.arm, measured.rule
    )];
    if measured.is_unchecked {
        parts.push(
            "what it was measured on was not kept: whether it still holds cannot be told".into(),
        );
    }
    parts.extend(measured.stale.iter().map(|stale| {
        format!(
            "does not hold any more: {} was {}, is {}",
            stale.what, stale.measured, stale.now
        )
    }));
    parts.join("; ")
}

/// What other machines say, and how many they are.
fn elsewhere_words(elsewhere: Option<&Elsewhere>) -> String {
    let Some(Elsewhere { known, machines }) = elsewhere else {
        return "nothing is known of such disks".to_owned();
    };
    let Some(known) = known else {
        return format!(
            "unknown: {} with this kernel series, and {LEAST_MACHINES} are needed",
            machines_words(*machines)
        );
    };
    let finding = &known.finding;
    let question = &finding.question;
    let machines = machines_words(told_machines(finding));
    let proposed = known.proposed.iter();
    let proposed = proposed.map(|arm| proposed_word(&arm.arm, arm.is_offered));
    let mut text = format!(
        "{}{}, by {} on {machines} with this {} ({}), Linux {}",
        answer_words(finding),
        proposed.collect::<Vec<_>>().join(" or "),
        question.objective,
        question.level.name(),
        question.drive,
        question.kernel,
    );
    for arm in told_arms(finding) {
        if let (Some(ratio), Some(next)) = (arm.ratio, arm.next_machine) {
            let _ = write!(
                text,
                "; {} {:.2} times {}, here {:.2} to {:.2} ({})",
                arm.arm,
                ratio.estimate,
                finding.reference,
                next.lower,
                next.upper,
                machines_words(arm.machines),
            );
        }
    }
    if let Some(ratio) = known.against_active {
        let _ = write!(
            text,
            "; against what is active {:.2}, here {:.2} to {:.2}",
            ratio.estimate, ratio.lower, ratio.upper
        );
    }
    for other in &known.otherwise {
        let apart = match other.answer {
            Answer::NotToldApart => "not told apart: ",
            Answer::Take | Answer::Unknown => "",
        };
        let arms: Vec<&str> = other.proposed.iter().map(|arm| &**arm).collect();
        let _ = write!(
            text,
            "; but by {} on {}: {apart}{}",
            other.objective,
            machines_words(other.machines),
            arms.join(" or "),
        );
    }
    text
}

/// What the arms that other machines found good cost; none where that is nothing that is known.
fn prices_elsewhere(elsewhere: &Elsewhere) -> Option<String> {
    let proposed = elsewhere.known.iter().flat_map(|known| &known.proposed);
    let prices: Vec<&Price> = proposed.flat_map(|arm| &arm.prices).collect();
    (!prices.is_empty()).then(|| prices_words(&prices))
}

/// `p99 of bfq 12.25 (9.10 to 15.80) times that of none (6 machines)`.
fn prices_words(prices: &[&Price]) -> String {
    let word = |price: &&Price| {
        let what = match price.number {
            SideNumber::P99 => "p99",
            SideNumber::Cpu => "processor time per I/O",
        };
        let proven = price.interval.as_ref().filter(|_| price.is_proven);
        let ratio = proven.map_or(format!("{:.2}", price.ratio), evidence_words::ratio);
        let doubt = if price.is_proven { "" } else { ", not proven" };
        format!(
            "{what} of {} {ratio} times that of {} ({}{doubt})",
            price.arm,
            price.against,
            machines_words(price.machines),
        )
    };
    prices.iter().map(word).collect::<Vec<_>>().join("; ")
}

/// What stands before the arms that may be taken.
fn answer_words(finding: &Finding) -> &'static str {
    match finding.answer {
        Answer::NotToldApart => "not told apart: ",
        Answer::Take | Answer::Unknown => "",
    }
}

/// Machines that measured the best arm beside what it is compared with.
fn told_machines(finding: &Finding) -> usize {
    let machines = told_arms(finding).iter().map(|arm| arm.machines);
    machines.max().unwrap_or(finding.machines)
}

/// The best arm; where that is what the others are compared with, each of them: they say how far they are behind.
fn told_arms(finding: &Finding) -> &[ArmFinding] {
    let mut arms = finding.arms.iter();
    let best = arms.find(|arm| Some(&arm.arm) == finding.candidates().first());
    best.map_or(&finding.arms[..], std::slice::from_ref)
}

/// What simulated machines say, and of what.
fn simulated_words(simulated: &Simulated) -> String {
    let finding = &simulated.finding;
    let question = &finding.question;
    let is_one_as_good_as_another = finding.take.len() > finding.arms.len();
    let take = if is_one_as_good_as_another {
        format!(
            "no scheduler is {} better than another",
            percent(MARGIN - 1.0)
        )
    } else {
        answer_words(finding).to_owned() + &proposed_words(&simulated.proposed)
    };
    let mut text = format!(
        "{take}, by {} on {} simulated machines with the disk model {}",
        question.objective, finding.machines, question.drive,
    );
    let arms = told_arms(finding).iter();
    for arm in arms.filter(|_| !is_one_as_good_as_another) {
        if let Some(ratio) = &arm.ratio {
            let ratio = evidence_words::ratio(ratio);
            let _ = write!(text, "; {} {ratio} times {}", arm.arm, finding.reference);
        }
    }
    let prices: Vec<&Price> = simulated.prices.iter().collect();
    if !is_one_as_good_as_another && !prices.is_empty() {
        let _ = write!(text, "; at the price of {}", prices_words(&prices));
    }
    text + "; no drive was measured"
}

fn taken(rule: &RuleOfThumb) -> String {
    let names = proposed_words(&rule.take);
    match (names.is_empty(), rule.is_required) {
        (true, _) => "unknown".to_owned(),
        (_, true) => format!("{names} and no other"),
        _ => names,
    }
}

/// `kyber or bfq (not offered here)`.
fn proposed_words(proposed: &[Proposed]) -> String {
    let names = proposed.iter();
    let names = names.map(|proposed| proposed_word(&proposed.scheduler, proposed.is_offered));
    names.collect::<Vec<_>>().join(" or ")
}

fn proposed_word(arm: &str, is_offered: bool) -> String {
    let lacking = if is_offered {
        ""
    } else {
        " (not offered here)"
    };
    format!("{arm}{lacking}")
}

fn machines_words(machines: usize) -> String {
    match machines {
        0 => "no machine".to_owned(),
        1 => "1 machine".to_owned(),
        several => format!("{several} machines"),
    }
}

/// A line with its name before it; what does not fit goes on below.
fn entry(output: &Output, what: &str, text: &str) {
    const NAMES: usize = 22;
    let folded = fold(text, output.width().saturating_sub(NAMES).max(24));
    for (number, line) in folded.lines().enumerate() {
        let what = if number == 0 { what } else { "" };
        output.line(&format!("  {what:<20}{line}"));
    }
}
