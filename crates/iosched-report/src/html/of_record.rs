//! The page of one record.

use std::collections::BTreeMap;

use iosched_experiment::analysis::Analysis;
use iosched_experiment::load::Spec;
use iosched_experiment::plan::{Plan, PlannedLoad};
use iosched_experiment::record::{Entry, Record};
use iosched_machine::command_line;
use iosched_machine::facts::DiskFacts;

use super::{FigureSet, Fold, HtmlTable, Page, Room, Section, Tone, render};
use crate::chart::of_record;
use crate::columns::{self, arm_table, details_table};
use crate::sentences;
use crate::table::{Align, Table};
use crate::why::why;
use crate::words::{clipped, percent, run_time, span};

/// The page of one record, as HTML.
pub fn record(record: &Record, analysis: &Analysis) -> String {
    render(&page(record, analysis))
}

fn page(record: &Record, analysis: &Analysis) -> Page {
    let plan = &record.header.plan;
    let answer = sentences::answer(analysis, plan);
    let costs = answer.costs.iter().map(|cost| format!("Cost: {cost}"));
    let gains = answer.gains.iter().map(|gain| format!("Also: {gain}"));
    let mut page = Page {
        title: format!(
            "{} on {}",
            sentences::loads_named(analysis),
            sentences::target_name(plan)
        ),
        subtitle: subtitle(record),
        headline: answer.what,
        tone: tone(analysis),
        sentences: (answer.grounds.into_iter())
            .chain(said_of_loads(analysis, plan))
            .chain(whys(analysis).filter(|_| analysis.loads.len() <= sentences::MOST_NAMED))
            .chain(costs.chain(gains))
            .collect(),
        sections: sections(record, analysis),
        folded: folded(record, analysis),
    };
    capitalise(&mut page.headline);
    page
}

/// An arm is only chosen where its own interval proves it, or where the baseline is proven as good.
fn tone(analysis: &Analysis) -> Tone {
    match analysis.choice {
        Some(_) => Tone::Proven,
        None => Tone::Undecided,
    }
}

pub(super) fn capitalise(text: &mut String) {
    if let Some(first) = text.chars().next().filter(char::is_ascii_lowercase) {
        text.replace_range(..1, &first.to_ascii_uppercase().to_string());
    }
}

/// When, where, with which kernel.
pub(super) fn subtitle(record: &Record) -> String {
    let machine = &record.header.machine;
    let models = machine.disks.iter().filter_map(|disk| disk.model.clone());
    let mut parts = vec![
        date(record.header.created_unix_s),
        machine.hostname.clone(),
        format!("Linux {}", machine.kernel),
    ];
    parts.extend(models);
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

pub(super) fn date(unix_s: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "seconds since 1970 fit")]
    let time = jiff::Timestamp::from_second(unix_s as i64).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// The verdict of each load beside the answer, which is that of the only one, and of many is over all.
fn said_of_loads(analysis: &Analysis, plan: &Plan) -> Vec<String> {
    match analysis.loads.len() {
        1 if analysis.loads[0].control.is_none() => Vec::new(),
        loads if loads > sentences::MOST_NAMED => Vec::new(),
        _ => verdicts(analysis, plan),
    }
}

/// What the winner of each load does there, where there is one and the record shows it.
fn whys(analysis: &Analysis) -> impl Iterator<Item = String> {
    let whys = analysis.loads.iter().map(|load| why(analysis, load));
    whys.filter(|why| !why.is_empty())
}

/// The verdict of each load.
fn verdicts(analysis: &Analysis, plan: &Plan) -> Vec<String> {
    let loads = analysis.loads.iter();
    let said = loads.map(|load| {
        format!(
            "In {}: {}",
            load.name,
            sentences::of_load(analysis, load, plan)
        )
    });
    said.collect()
}

fn sections(record: &Record, analysis: &Analysis) -> Vec<Section> {
    let groups = of_record::groups(record, analysis);
    let room = Room::of(groups.iter().flat_map(|group| &group.charts));
    let mut sections: Vec<Section> = groups
        .into_iter()
        .map(|group| Section {
            id: group.id,
            title: group.title,
            sets: FigureSet::of(&group.charts, room),
            ..Section::default()
        })
        .collect();
    let first = Section {
        id: "comparison".into(),
        title: "The comparison".into(),
        ..Section::default()
    };
    if sections
        .first()
        .is_none_or(|section| section.id != first.id)
    {
        sections.insert(0, first);
    }
    if analysis.loads.len() > sentences::MOST_NAMED {
        sections[0].tables = vec![loads_table(record, analysis)];
        sections[0].folds = vec![
            Fold {
                title: "Each load's own table".into(),
                tables: arm_tables(record, analysis),
                ..Fold::default()
            },
            Fold {
                title: "What is said of each load".into(),
                sentences: verdicts(analysis, &record.header.plan)
                    .into_iter()
                    .chain(whys(analysis))
                    .chain(remarks(record, analysis))
                    .collect(),
                ..Fold::default()
            },
        ];
    } else {
        sections[0].tables = arm_tables(record, analysis);
        sections[0].sentences = remarks(record, analysis);
    }
    if analysis.trials == 0 {
        // Charts of nothing would only say so again.
        sections[0].sets.clear();
    }
    sections
}

/// What the tables of many loads come to.
fn loads_table(record: &Record, analysis: &Analysis) -> String {
    let confidence = percent(record.header.plan.rules.confidence);
    let baseline = &analysis.arms[analysis.baseline];
    let caption = format!("Ratio to {baseline} ({confidence}), load by load");
    HtmlTable::of(&caption, &columns::loads_table(analysis), None).html()
}

/// The table of each load.
pub(super) fn arm_tables(record: &Record, analysis: &Analysis) -> Vec<String> {
    let plan = &record.header.plan;
    let chosen = analysis.choice.map(|arm| analysis.arms[arm].as_str());
    let loads = analysis.loads.iter().enumerate();
    loads
        .flat_map(|(index, load)| {
            let caption = sentences::load_head(plan, analysis, index);
            let arms =
                HtmlTable::of(&caption, &arm_table(plan, analysis, load, true), chosen).html();
            let details = details_table(analysis, load).map(|details| {
                let caption = format!("What else is known of {}", load.name);
                HtmlTable::of(&caption, &details, None).html()
            });
            std::iter::once(arms).chain(details)
        })
        .collect()
}

/// Who could not be measured, what looks odd, what came with the arms, why it ended.
fn remarks(record: &Record, analysis: &Analysis) -> Vec<String> {
    let arms = analysis
        .loads
        .iter()
        .flat_map(|load| load.arms.iter().enumerate());
    let left = arms.filter_map(|(arm, summary)| {
        let reason = summary.left.as_ref()?;
        Some(format!("{} left: {reason}", analysis.arms[arm]))
    });
    // A command stands with the remark that it is the remedy of.
    let warnings = sentences::warnings(record, analysis).into_iter();
    let warnings = warnings.map(|note| match note.command {
        Some(command) => format!("{} {command}", note.text),
        None => note.text,
    });
    let ending = sentences::ending(record, analysis);
    let notes = sentences::notes(record, analysis);
    left.chain(warnings).chain(notes).chain(ending).collect()
}

fn folded(record: &Record, analysis: &Analysis) -> Vec<Fold> {
    let mut folds = vec![repeat(record), plan_fold(record), machine(record)];
    folds.extend(record.header.machine.disks.iter().map(queue));
    folds.push(states(record, analysis));
    folds.extend(record.header.plan.loads.iter().map(|load| Fold {
        title: format!("Load {}", clipped(&load.name)),
        code: load_text(load),
        ..Fold::default()
    }));
    folds.push(void_trials(record, analysis));
    folds.retain(|fold| !fold.tables.is_empty() || !fold.code.is_empty());
    folds
}

/// The very command, so that somebody else can do it again.
fn repeat(record: &Record) -> Fold {
    let header = &record.header;
    // Its directory is there now.
    let mut words = command_line::without(&command_line::ours(&header.command), "--out", true);
    for (option, last) in larger_bounds(record) {
        words = command_line::with(&words, &format!("{option}={last}"));
    }
    if !header.command.iter().any(|word| word.starts_with("--seed")) {
        words.push(format!("--seed={}", header.plan.seed));
    }
    Fold {
        title: "How to repeat it".into(),
        sentences: vec![
            "The same seed gives the same order of arms and the same offsets; what the disk and the \
             machine do is never the same."
                .into(),
        ],
        code: command_line::joined(&words),
        ..Fold::default()
    }
}

/// The bounds with which a run was gone on with last, by their options.
fn larger_bounds(record: &Record) -> BTreeMap<&'static str, String> {
    let mut bounds = BTreeMap::new();
    for entry in &record.entries {
        if let Entry::Resumed {
            max_rounds,
            time_budget_s,
            ..
        } = entry
        {
            bounds.extend(max_rounds.map(|rounds| ("--rounds", rounds.to_string())));
            bounds.extend(time_budget_s.map(|seconds| ("--budget", format!("{seconds}s"))));
        }
    }
    bounds
}

fn plan_fold(record: &Record) -> Fold {
    let plan = &record.header.plan;
    let rules = &plan.rules;
    let rounds = match rules.fixed_rounds {
        Some(rounds) => format!("exactly {rounds}"),
        None => format!(
            "at most {}; it ends when the answer is known",
            rules.max_rounds
        ),
    };
    let mut pairs = vec![
        ("target", sentences::target_name(plan)),
        (
            "arms",
            (0..plan.arms.len())
                .map(|arm| plan.arm_label(arm))
                .collect::<Vec<_>>()
                .join(", "),
        ),
        ("baseline", plan.arm_label(plan.baseline)),
        ("rounds", rounds),
        ("margin", percent(rules.margin - 1.0)),
        ("confidence", percent(rules.confidence)),
        ("seed", plan.seed.to_string()),
        ("ramp cut from each trial", format!("{} s", plan.ramp_s)),
        (
            "time budget",
            rules.time_budget_s.map_or("none".into(), |s| {
                span(std::time::Duration::from_secs_f64(s))
            }),
        ),
    ];
    pairs.extend(
        rules
            .requirements
            .iter()
            .map(|requirement| ("requirement", sentences::requirement(requirement))),
    );
    pairs.extend(plan.loads.iter().enumerate().map(|(index, load)| {
        let words = format!(
            "{}: decided by {}, weight {}{}",
            load.name,
            load.objective.words(),
            load.weight,
            plan.trial_duration(index).map_or(String::new(), |trial| {
                let at_first = if load.is_runtime_auto {
                    " at first"
                } else {
                    ""
                };
                format!(", {} per trial{at_first}", run_time(trial.as_secs_f64()))
            })
        );
        ("load", words)
    }));
    Fold {
        title: "Plan".into(),
        sentences: vec![
            "Each round runs every remaining arm once, in random order. Arms are compared by their \
             ratio within a round; the state of the queue is read back after every trial."
                .into(),
        ],
        tables: vec![named_pairs("Plan", pairs)],
        ..Fold::default()
    }
}

fn named_pairs(caption: &str, pairs: Vec<(&str, String)>) -> String {
    let pairs = pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    HtmlTable::pairs(caption, pairs.collect()).html()
}

fn machine(record: &Record) -> Fold {
    let header = &record.header;
    let facts = &header.machine;
    let ended = header_end(record).map_or("not yet".into(), date);
    let pairs = vec![
        ("host", facts.hostname.clone()),
        (
            "kernel",
            format!("{} ({})", facts.kernel, facts.architecture),
        ),
        ("processors", facts.cpus.to_string()),
        (
            "memory",
            format!("{:.1} GB", facts.memory_bytes as f64 / 1e9),
        ),
        (
            "fio",
            facts.fio.clone().unwrap_or_else(|| "not used".into()),
        ),
        ("iosched", header.program.clone()),
        ("begun", date(header.created_unix_s)),
        ("ended", ended),
    ];
    Fold {
        title: "Machine".into(),
        tables: vec![named_pairs("Machine", pairs)],
        ..Fold::default()
    }
}

/// What a load is: its job file, or its settings.
fn load_text(load: &PlannedLoad) -> String {
    if let Spec::JobFile(text) = &load.spec {
        return text.clone();
    }
    serde_json::to_string_pretty(&load.spec).expect("our own types serialise")
}

fn header_end(record: &Record) -> Option<f64> {
    record.entries.iter().rev().find_map(|entry| match entry {
        Entry::Finished { at_unix_s, .. } => Some(*at_unix_s),
        _ => None,
    })
}

/// A disk and every setting of its queue before anything was changed.
fn queue(disk: &DiskFacts) -> Fold {
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "not told".into());
    let pairs = vec![
        ("model", known(&disk.model)),
        ("firmware", known(&disk.firmware)),
        ("serial number", known(&disk.serial)),
        ("world-wide name", known(&disk.wwn)),
        ("size", format!("{:.1} GB", disk.size_bytes as f64 / 1e9)),
    ];
    let settings = disk
        .queue
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    Fold {
        title: format!("Disk {} and its queue, as found", disk.device),
        tables: vec![
            named_pairs("Disk", pairs),
            HtmlTable::pairs("Files of queue/", settings.collect()).html(),
        ],
        ..Fold::default()
    }
}

/// The state of the first disk's queue under each arm.
fn states(record: &Record, analysis: &Analysis) -> Fold {
    let states: Vec<_> = (0..analysis.arms.len())
        .filter_map(|arm| {
            let mut trials = record.trials().filter(|trial| trial.slot.arm == arm);
            Some((arm, trials.next()?.states.first()?))
        })
        .collect();
    let mut table = Table::new([("setting", Align::Left)]);
    for (arm, _) in &states {
        table.column(&analysis.arms[*arm], Align::Left);
    }
    let settings = |state: &iosched_switch::QueueState| -> Vec<(String, String)> {
        let served = state.served.iter();
        let served = served.map(|served| ("served inside".to_owned(), served.clone()));
        let depth = state
            .nr_requests
            .iter()
            .map(|depth| ("nr_requests".to_owned(), depth.clone()));
        let tunables = state.tunables.iter();
        let tunables = tunables.map(|(name, value)| (format!("iosched/{name}"), value.clone()));
        let others = state
            .settings
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()));
        let above =
            (state.served.is_some()).then(|| ("scheduler above".into(), state.scheduler.clone()));
        let both = served.chain(above).chain(depth);
        both.chain(others).chain(tunables).collect()
    };
    let mut names: Vec<String> = Vec::new();
    for (name, _) in states.iter().flat_map(|(_, state)| settings(state)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let value = |state| {
            settings(state)
                .into_iter()
                .find(|(other, _)| *other == name)
        };
        let values = states
            .iter()
            .map(|(_, state)| value(state).map_or("-".into(), |(_, v)| v));
        table.push(std::iter::once(name.clone()).chain(values).collect());
    }
    Fold {
        title: "State of the queue under each arm, read back".into(),
        tables: (!states.is_empty())
            .then(|| HtmlTable::of("State of the queue", &table, None).html())
            .into_iter()
            .collect(),
        ..Fold::default()
    }
}

fn void_trials(record: &Record, analysis: &Analysis) -> Fold {
    let rows = record.void_trials().map(|void| {
        let who = format!(
            "trial {}, {}",
            void.sequence + 1,
            analysis.arms[void.slot.arm]
        );
        (who, void.reason.to_string())
    });
    let rows: Vec<(String, String)> = rows.collect();
    Fold {
        title: format!("Trials that did not count ({})", rows.len()),
        tables: (!rows.is_empty())
            .then(|| HtmlTable::pairs("Trials that did not count", rows).html())
            .into_iter()
            .collect(),
        ..Fold::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_experiment::analysis::Caveat;
    use iosched_experiment::fixture;
    use iosched_experiment::schedule::{Next, next};

    #[test]
    fn what_repeats_a_run_has_its_last_bounds_and_not_the_directory_that_is_there() {
        let mut record = fixture::record(&fixture::plan(2));
        let words = "iosched tune sda --out=r --budget 3s --seed 7";
        record.header.command = words.split(' ').map(str::to_owned).collect();
        assert_eq!(
            repeat(&record).code,
            "iosched tune sda --budget 3s --seed 7"
        );
        for seconds in [10.0, 34.0] {
            record.push(Entry::Resumed {
                given_up: None,
                at_unix_s: 0.0,
                max_rounds: None,
                time_budget_s: Some(seconds),
            });
        }
        assert_eq!(
            repeat(&record).code,
            "iosched tune sda --seed 7 --budget=34s"
        );
    }

    #[test]
    fn a_record_without_a_trial_has_a_page() {
        let nothing = fixture::record(&fixture::plan(3));
        let page = record(&nothing, &Analysis::of(&nothing));
        assert!(page.contains("othing was measured"), "{page}");
        assert!(!page.contains("<figure"));
    }

    #[test]
    fn a_remedy_stands_with_its_remark() {
        let plan = fixture::plan(2);
        let mut measured = fixture::record(&plan);
        measured.header.command = ["iosched", "tune"].map(str::to_owned).into();
        while let Next::Trial(slot) = next(&plan, &measured) {
            measured.entries.push(fixture::trial(slot, 1e6));
        }
        let mut analysis = Analysis::of(&measured);
        analysis.caveats = vec![Caveat::FewAccesses {
            load: 0,
            arm: 0,
            accesses: 40,
            runtime_s: Some(60.0),
        }];
        let said = remarks(&measured, &analysis);
        let few: Vec<&String> = said
            .iter()
            .filter(|line| line.contains("too few"))
            .collect();
        assert!(
            matches!(few.as_slice(), [line] if line.ends_with("try: iosched tune --runtime=60s")),
            "{said:?}"
        );
    }

    #[test]
    fn only_a_proven_answer_looks_proven() {
        let tone = |factor: f64, rounds: u32| {
            let mut plan = fixture::plan(2);
            plan.rules.max_rounds = rounds;
            let mut measured = fixture::record(&plan);
            while let Next::Trial(slot) = next(&plan, &measured) {
                let noise = ((slot.round as usize * 7 + slot.arm * 3) % 5) as f64 * 0.004;
                let factor = [1.0, factor][slot.arm];
                let entry = fixture::trial(slot, 1e6 * factor * (1.0 + noise));
                measured.entries.push(entry);
            }
            let page = record(&measured, &Analysis::of(&measured));
            let class = page.split("id=\"answer\" class=\"answer ").nth(1).unwrap();
            class.split('"').next().unwrap().to_owned()
        };
        assert_eq!(tone(1.5, 30), "proven");
        assert_eq!(tone(1.0, 30), "proven");
        assert_eq!(tone(1.02, 3), "undecided");
    }
}
