//! Whether several records answer the same question: what of a load, a machine and a queue has to be the
//! same before numbers of one may be held against numbers of another.

use std::collections::BTreeSet;
use std::time::Duration;

use iosched_experiment::analysis::{Analysis, Rank};
use iosched_experiment::load::Spec;
use iosched_experiment::plan::{Plan, PlannedLoad, Target};
use iosched_experiment::record::Record;

use super::columns::deciding_number;
use super::sentences::{self, ratio_cell, target_name};
use super::table::{Align, Table};
use super::text::{Widths, fold};
use super::words::{clipped, enumerate, span};

/// Something that is not the same in all records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What it is.
    pub what: String,
    /// What each record says, in their order.
    pub values: Vec<String>,
}

/// What a record says of something: what must be equal, and what is shown.
type Fact<'a> = Box<dyn Fn(&Record) -> (String, String) + 'a>;

/// What makes answers of these records answers to different questions: loads, kernel, target, the length of a
/// trial, and `nr_requests` of an arm that they share.
pub fn differences(records: &[&Record]) -> Vec<Difference> {
    let plans = || records.iter().map(|record| &record.header.plan);
    let mut facts: Vec<(String, Fact<'_>)> = vec![
        ("kernel".into(), Box::new(kernel)),
        ("target".into(), Box::new(target)),
        ("loads".into(), Box::new(loads)),
        ("requirements".into(), Box::new(requirements)),
    ];
    for name in shared(plans().map(|plan| plan.loads.iter().map(|load| load.name.clone()))) {
        let (text_of, length_of) = (name.clone(), name.clone());
        facts.push((
            format!("load {}", clipped(&name)),
            Box::new(move |record| load_text(records, record, &text_of)),
        ));
        facts.push((
            format!("trial length of {}", clipped(&name)),
            Box::new(move |record| same(trial_length(&record.header.plan, &length_of))),
        ));
    }
    let labels = |plan: &Plan| {
        (0..plan.arms.len())
            .map(|arm| plan.arm_label(arm))
            .collect()
    };
    for label in shared(plans().map(|plan| -> Vec<String> { labels(plan) })) {
        facts.push((
            format!("nr_requests of {label}"),
            Box::new(move |record| same(nr_requests(record, &label))),
        ));
    }
    let differ = facts.into_iter().filter_map(|(what, fact)| {
        let all: Vec<(String, String)> = records.iter().map(|record| fact(record)).collect();
        all.iter()
            .any(|(key, _)| *key != all[0].0)
            .then(|| Difference {
                what,
                values: all.into_iter().map(|(_, shown)| shown).collect(),
            })
    });
    differ.collect()
}

/// What the differences mean for a reader, in a sentence.
pub fn sentence(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "The records are of the same loads, kernel, target, trial length and nr_requests."
            .into();
    }
    format!(
        "The records differ in {}: each answers for itself, and their numbers are not held against \
         one another.",
        enumerate(
            differences
                .iter()
                .map(|difference| difference.what.as_str())
        )
    )
}

/// A row for each difference, a column for each record.
pub(crate) fn table(differences: &[Difference], names: &[String]) -> Table {
    let mut table = Table::new([("what differs", Align::Left)]);
    for name in names {
        table.column(name, Align::Left);
    }
    for Difference { what, values } in differences {
        table.push(std::iter::once(what).chain(values).cloned().collect());
    }
    table
}

/// What differs, for a terminal.
pub fn text(differences: &[Difference], names: &[String], widths: Widths) -> String {
    let sentence = fold(&sentence(differences), widths.text);
    sentence + &table(differences, names).render_whole(widths.table)
}

/// A record with its name and what it came to.
pub type Named<'a> = (String, &'a Record, &'a Analysis);

/// Records that may be compared, for a terminal: whether they agree, and every arm in each of them.
pub fn compared(records: &[Named<'_>], widths: Widths) -> String {
    let mut text = fold(&sentence(&[]), widths.text);
    text += &fold(&agreement(records), widths.text);
    text += &side_by_side(records).render_whole(widths.table);
    text + &fold(NOT_PAIRED, widths.text)
}

/// What may be read out of numbers of several records.
pub(super) const NOT_PAIRED: &str = "Within a record, arms ran in the same rounds, and their ratios have intervals. Between records nothing is \
     paired: the columns of numbers say what was seen, not what is proven.";

/// Whether records that may be compared come to the same answer.
pub(super) fn agreement(records: &[Named<'_>]) -> String {
    let choice = |(_, _, analysis): &Named<'_>| {
        let choice = analysis.choice;
        choice.map(|arm| analysis.arms[arm].clone())
    };
    let choices: Vec<Option<String>> = records.iter().map(choice).collect();
    match &choices[0] {
        Some(arm) if choices.iter().all(|choice| choice.as_ref() == Some(arm)) => {
            format!("All records say {arm}.")
        }
        None if choices.iter().all(Option::is_none) => "No record has an answer.".into(),
        _ => "The records differ in their answers.".into(),
    }
}

/// A row for each arm of each load; for each record the number that decides, and the ratio to its baseline with
/// the verdict.
fn side_by_side(records: &[Named<'_>]) -> Table {
    let (_, _, first) = &records[0];
    let is_alone = first.loads.len() == 1;
    let unit = deciding_number(&first.loads[0], 0).0;
    let mut table = Table::new([(if is_alone { "arm" } else { "load: arm" }, Align::Left)]);
    for (name, _, analysis) in records {
        let number = if is_alone {
            format!("{name}: {unit}")
        } else {
            name.clone()
        };
        let baseline = &analysis.arms[analysis.baseline];
        table.column(&number, Align::Right);
        table.column(&format!("ratio to {baseline}, verdict"), Align::Left);
    }
    for (index, load) in first.loads.iter().enumerate() {
        let unit = deciding_number(load, 0).0;
        for arm in all_arms(records) {
            let head = if is_alone {
                arm.clone()
            } else {
                format!("{} ({unit}): {arm}", clipped(&load.name))
            };
            let cells = records.iter().flat_map(|(_, _, analysis)| {
                cells_of(analysis, index, &arm).unwrap_or_else(|| ["-".into(), "-".into()])
            });
            table.push(std::iter::once(head).chain(cells).collect());
        }
    }
    table
}

/// The arms of all records, each once, in their order.
fn all_arms(records: &[Named<'_>]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for arm in records.iter().flat_map(|(_, _, analysis)| &analysis.arms) {
        if !all.contains(arm) {
            all.push(arm.clone());
        }
    }
    all
}

fn cells_of(analysis: &Analysis, load: usize, arm: &str) -> Option<[String; 2]> {
    let arm = analysis.arms.iter().position(|label| label == arm)?;
    let load = analysis.loads.get(load)?;
    let ratio = ratio_cell(arm, analysis.baseline, &load.contest);
    let rank = Rank::of(&load.contest, arm, analysis.baseline);
    let verdict = match load.control {
        None => format!("{ratio}, {}", rank.word()),
        Some(_) => ratio,
    };
    Some([deciding_number(load, arm).1, verdict])
}

fn same(value: String) -> (String, String) {
    (value.clone(), value)
}

fn kernel(record: &Record) -> (String, String) {
    same(record.header.machine.kernel.clone())
}

/// The disk or model, and the file system on it; not the name that the kernel gave the disk this time, where the
/// disk says who it is.
fn target(record: &Record) -> (String, String) {
    let plan = &record.header.plan;
    let disks = record.header.machine.disks.iter().map(|disk| {
        if disk.serial.is_none() && disk.wwn.is_none() {
            return disk.device.clone();
        }
        format!("{:?} {:?} {:?}", disk.model, disk.serial, disk.wwn)
    });
    let place = match (&plan.target, &plan.emulated) {
        (Target::Simulated(disk), _) => format!("simulated {}", disk.model.name),
        (target, Some(model)) => format!("emulated {model}, {}", way(target)),
        (target, None) => format!("{}, {}", disks.collect::<Vec<_>>().join(", "), way(target)),
    };
    (place, target_name(plan))
}

/// How the loads use the disk.
fn way(target: &Target) -> String {
    match target {
        Target::Device { .. } | Target::Simulated(_) => "raw".into(),
        Target::Directory { path, .. } | Target::File { path, .. } => path.display().to_string(),
        Target::FileSystem { file_system, .. } => file_system.name().to_owned(),
    }
}

/// What an arm had to keep to win.
fn requirements(record: &Record) -> (String, String) {
    let all = record.header.plan.rules.requirements.iter();
    let all: Vec<String> = all.map(sentences::requirement).collect();
    same(if all.is_empty() {
        "none".into()
    } else {
        all.join(", ")
    })
}

fn loads(record: &Record) -> (String, String) {
    let loads = record.header.plan.loads.iter();
    let names: Vec<String> = loads.map(|load| clipped(&load.name)).collect();
    same(names.join(", "))
}

/// What a load is: shown are the lines that the others do not have.
fn load_text(records: &[&Record], record: &Record, name: &str) -> (String, String) {
    let text_in =
        |record: &Record| load_of(&record.header.plan, name).map_or(String::new(), spec_text);
    let text = text_in(record);
    let others = records.iter().map(|other| text_in(other));
    let others: Vec<String> = others.filter(|other| *other != text).collect();
    let is_own = |line: &&str| {
        others
            .iter()
            .any(|other| !other.lines().any(|it| it == *line))
    };
    let own: Vec<&str> = text.lines().filter(is_own).map(str::trim).collect();
    let shown = match own.as_slice() {
        [] => "lacks lines of the other".to_owned(),
        own => clipped(&own.join(" ")),
    };
    (text, shown)
}

fn load_of<'a>(plan: &'a Plan, name: &str) -> Option<&'a PlannedLoad> {
    plan.loads.iter().find(|load| load.name == name)
}

fn spec_text(load: &PlannedLoad) -> String {
    let what = match &load.spec {
        Spec::JobFile(text) | Spec::Simulated { job_file: text, .. } => text.clone(),
        other => serde_json::to_string_pretty(other).expect("our own types serialise"),
    };
    format!("decided by {}\n{what}", load.objective.words())
}

fn trial_length(plan: &Plan, name: &str) -> String {
    let Some(load) = plan.loads.iter().position(|load| load.name == name) else {
        return String::new();
    };
    let planned = plan.loads[load].runtime_s;
    let length = planned.map(Duration::from_secs_f64);
    let length = length
        .or_else(|| plan.trial_duration(load))
        .map_or("as long as it takes".into(), span);
    let counted = plan.loads[load].counted_s.map(Duration::from_secs_f64);
    match (plan.loads[load].is_runtime_auto, counted) {
        (false, None) => length,
        (false, Some(counted)) => format!("{length}, percentiles of its first {}", span(counted)),
        (true, counted) => {
            let end = counted.map_or("", |_| ", percentiles without its end");
            format!("{length} at first, then chosen as the run went on{end}")
        }
    }
}

/// As it was read back in the first trial of the arm.
fn nr_requests(record: &Record, label: &str) -> String {
    let plan = &record.header.plan;
    let mut trials = record.trials();
    let first = trials.find(|trial| plan.arm_label(trial.slot.arm) == label);
    let state = first.and_then(|trial| trial.states.first());
    state
        .and_then(|state| state.nr_requests.clone())
        .unwrap_or_else(|| "not known".into())
}

/// Names that all of them have, in the order of the alphabet.
fn shared(all: impl Iterator<Item = impl IntoIterator<Item = String>>) -> BTreeSet<String> {
    all.map(|names| names.into_iter().collect::<BTreeSet<String>>())
        .reduce(|a, b| a.intersection(&b).cloned().collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_experiment::fixture;
    use iosched_experiment::objective::Objective;
    use iosched_experiment::plan::Requirement;
    use iosched_experiment::record::Entry;
    use iosched_experiment::trial::Slot;
    use iosched_switch::QueueState;

    type Edit = fn(&mut Record);

    fn measured(edit: impl Fn(&mut Record)) -> Record {
        let plan = fixture::plan(2);
        let mut record = fixture::record(&plan);
        for arm in 0..2 {
            let slot = Slot {
                load: 0,
                round: 0,
                arm,
            };
            record.entries.push(fixture::trial(slot, 1e6));
        }
        edit(&mut record);
        record
    }

    fn has_requests(record: &mut Record, requests: &str) {
        for entry in &mut record.entries {
            let Entry::Trial(trial) = entry else { continue };
            trial.states = vec![QueueState {
                nr_requests: Some(requests.into()),
                ..QueueState::default()
            }];
        }
    }

    #[test]
    fn what_makes_two_records_answers_to_different_questions_is_named() {
        let cases: [(&str, Edit); 8] = [
            ("requirements", |record| {
                let required = Requirement {
                    objective: Objective::P99,
                    at_least: 0.8,
                };
                record.header.plan.rules.requirements.push(required);
            }),
            ("kernel", |record| {
                record.header.machine.kernel = "6.12".into();
            }),
            ("target", |record| {
                record.header.plan.emulated = Some("ssd-sata".into());
            }),
            ("loads", |record| {
                record.header.plan.loads[0].name = "other".into();
            }),
            ("load random-read", |record| {
                let text = "[random-read]\nrw=randread\nbs=64k\n";
                record.header.plan.loads[0].spec = Spec::JobFile(text.into());
            }),
            ("trial length of random-read", |record| {
                record.header.plan.loads[0].runtime_s = Some(3.0);
            }),
            ("trial length of random-read", |record| {
                record.header.plan.loads[0].counted_s = Some(9.0);
            }),
            ("nr_requests of none", |record| has_requests(record, "256")),
        ];
        let first = measured(|_| {});
        assert_eq!(differences(&[&first, &measured(|_| {})]), []);
        for (what, edit) in cases {
            let found = differences(&[&first, &measured(edit)]);
            assert!(
                found.iter().any(|one| one.what == what),
                "{what}: {found:?}"
            );
        }
    }

    #[test]
    fn comparable_records_stand_side_by_side_with_what_decides_and_what_it_means() {
        let slow = measured(|_| {});
        let fast = measured(|record| {
            for entry in &mut record.entries {
                let Entry::Trial(trial) = entry else { continue };
                trial.metrics.throughput_bytes_per_s *= 3.0;
            }
        });
        let (of_slow, of_fast) = (Analysis::of(&slow), Analysis::of(&fast));
        let records = [("a".into(), &slow, &of_slow), ("b".into(), &fast, &of_fast)];
        let text = compared(&records, Widths::from(100));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.contains(&"No record has an answer."), "{text}");
        let cells = |arm: &str| -> Vec<&str> {
            let row = lines.iter().find(|line| line.starts_with(arm)).unwrap();
            row.split("  ")
                .filter(|cell| !cell.is_empty())
                .map(str::trim)
                .collect()
        };
        let head = cells("arm ");
        let expected = [
            "arm",
            "a: throughput",
            "ratio to none, verdict",
            "b: throughput",
        ];
        assert_eq!(head[..4], expected, "{text}");
        let row = cells("none ");
        assert_eq!([row[1], row[3]], ["1.00 MB/s", "3.00 MB/s"], "{text}");
        assert_eq!(row[2], "1 (baseline), undecided", "{text}");
        assert!(text.contains("Between"), "{text}");
    }

    #[test]
    fn of_job_files_the_lines_are_shown_that_differ() {
        let other = measured(|record| {
            let text = "[random-read]\nrw=randread\nbs=64k\n";
            record.header.plan.loads[0].spec = Spec::JobFile(text.into());
        });
        let found = differences(&[&measured(|_| {}), &other]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].values, ["lacks lines of the other", "bs=64k"]);
    }

    #[test]
    fn a_number_that_the_kernel_gave_an_emulated_disk_is_no_difference() {
        let on = |device: &'static str| {
            measured(move |record| {
                record.header.plan.emulated = Some("hdd-7200".into());
                record.header.plan.move_to_disk(device);
            })
        };
        assert_eq!(differences(&[&on("loop1"), &on("loop2")]), []);
    }
}
