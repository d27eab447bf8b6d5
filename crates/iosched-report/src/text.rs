//! Tables and sentences for a terminal: what was planned, how it stands, what came out.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use iosched_experiment::analysis::{Analysis, Rank};
use iosched_experiment::plan::{Plan, PlannedLoad, Target};
use iosched_experiment::record::Record;
use iosched_experiment::schedule::{Next, RunProgress};
use iosched_machine::visible;
use iosched_stats::race::Standing;

use super::columns::{arm_table, details_table, loads_table};
use super::sentences::{
    Answer, MOST_NAMED, Note, answer, commands, ending, estimate as said, load_head, notes,
    of_load, target_name, warnings,
};
use super::why::{most_telling, why};
use super::words::{count, enumerate_plain, run_time, span, stop_reason};

pub use super::sentences::going_on;

/// Columns that lines may take.
#[derive(Debug, Clone, Copy)]
pub struct Widths {
    /// Sentences.
    pub text: usize,
    /// Tables: where a program reads them, all that there is.
    pub table: usize,
}

impl From<usize> for Widths {
    fn from(width: usize) -> Widths {
        Widths {
            text: width,
            table: width,
        }
    }
}

/// The answer, what shows it and what it costs; the tables; the weightiest warnings; what to type next.
pub fn record(
    record: &Record,
    analysis: &Analysis,
    directory: &Path,
    widths: impl Into<Widths>,
) -> String {
    let widths = widths.into();
    let width = widths.text;
    let mut text = head(record, analysis, width);
    text += &tables(record, analysis, widths, false);
    let mut notes = warnings(record, analysis);
    let others = notes.split_off(MOST_WARNINGS.min(notes.len())).len();
    text += &noted(&notes, width);
    if others > 0 {
        let others = count(others, "more warning");
        text += &fold(&format!("({others}: see Details)"), width);
    }
    text.push('\n');
    for (name, command) in commands(record, analysis, directory) {
        let _ = writeln!(text, "{name:<12} {}", visible::line(&command));
    }
    text
}

/// More are not read.
const MOST_WARNINGS: usize = 3;

/// All that is known: for `--details`.
pub fn in_detail(record: &Record, analysis: &Analysis, widths: impl Into<Widths>) -> String {
    let widths = widths.into();
    let mut text = head(record, analysis, widths.text);
    text += &tables(record, analysis, widths, true);
    text += &noted(&warnings(record, analysis), widths.text);
    let gains = answer(analysis, &record.header.plan).gains;
    let gains = gains.into_iter().map(|gain| format!("Also: {gain}"));
    for note in gains.chain(notes(record, analysis)) {
        text += &fold(&note, widths.text);
    }
    text
}

/// The answer, its ratios, rounds and time, why the run ended, the price, the reason.
fn head(record: &Record, analysis: &Analysis, width: usize) -> String {
    let plan = &record.header.plan;
    let Answer {
        what,
        grounds,
        costs,
        gains: _,
    } = answer(analysis, plan);
    let spent = span(RunProgress::of(plan, record).spent());
    let rounds = format!("{}, {spent}.", count(analysis.rounds, "round")).replace(' ', "\u{a0}");
    let grounds = grounds.into_iter().chain([rounds]).collect::<Vec<_>>();
    let mut lines = vec![grounds.join(" ")];
    lines.extend(ending(record, analysis));
    lines.extend(costs.into_iter().map(|cost| format!("Cost: {cost}")));
    if let [load] = analysis.loads.as_slice() {
        lines.extend(most_telling(analysis, load).map(|why| format!("Why: {why}")));
    }
    let lines = lines
        .iter()
        .map(|line| fold(&format!("\u{a0} {line}"), width));
    fold(&format!("Answer: {what}."), width) + &lines.collect::<String>()
}

/// Each load's arms, below its name where that says more than the answer does; of many loads only the ratios.
pub(super) fn tables(
    record: &Record,
    analysis: &Analysis,
    widths: Widths,
    in_detail: bool,
) -> String {
    let Widths { text: width, table } = widths;
    let plan = &record.header.plan;
    let mut text = String::new();
    if analysis.loads.len() > MOST_NAMED && !in_detail {
        return "\n".to_owned() + &loads_table(analysis).render_whole(table);
    }
    for (index, load) in analysis.loads.iter().enumerate() {
        text += "\n";
        if in_detail || analysis.loads.len() > 1 || !load.objective.higher_is_better() {
            text += &fold(&load_head(plan, analysis, index), width);
        }
        text += &arm_table(plan, analysis, load, in_detail).render(table);
        if let Some(details) = details_table(analysis, load).filter(|_| in_detail) {
            text += "\n";
            text += &details.render_whole(table);
        }
        for (arm, summary) in load.arms.iter().enumerate() {
            if let Some(reason) = &summary.left {
                text += &fold(&format!("{} left: {reason}", analysis.arms[arm]), width);
            }
        }
        // The only load is what the answer speaks of.
        if (analysis.loads.len() > 1 || load.control.is_some()) && !analysis.is_doubted() {
            text += &fold(&of_load(analysis, load, plan), width);
        }
        if in_detail {
            text += &fold(&why(analysis, load), width);
        }
    }
    text
}

/// A paragraph for each warning; below the first that has a remedy, its command: of two, neither would be typed.
fn noted(notes: &[Note], width: usize) -> String {
    let mut text = String::new();
    let mut is_told = false;
    for Note {
        text: note,
        command,
    } in notes
    {
        if text.is_empty() {
            text.push('\n');
        }
        text += &fold(&format!("Warning: {note}"), width);
        if let Some(command) = command.as_ref().filter(|_| !is_told) {
            text += &(visible::line(command) + "\n");
            is_told = true;
        }
    }
    text
}

/// Breaks the lines that are too long between words; what follows is indented. Lines of tables are
/// left alone: they were made to fit.
pub fn fold(sentence: &str, width: usize) -> String {
    let mut text = String::new();
    let mut column = 0;
    // A number stays beside its per cent sign.
    let sentence = sentence.replace(" %", "\u{a0}%");
    for word in sentence
        .split([' ', '\t', '\n'])
        .filter(|word| !word.is_empty())
    {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            text += "\n  ";
            column = 2;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text += &word.replace('\u{a0}', " ");
        column += length;
    }
    if text.is_empty() { text } else { text + "\n" }
}

/// How long a trial lasts where only running it tells.
fn trial_without_known_time(plan: &Plan, load: &PlannedLoad) -> String {
    match (&plan.target, load.runtime_s) {
        (Target::Simulated(_), Some(seconds)) => {
            format!("a trial is {} of virtual time", run_time(seconds))
        }
        _ => "a trial lasts as long as it takes".to_owned(),
    }
}

/// What will be done: for `--dry-run`.
pub fn plan(plan: &Plan) -> String {
    let mut text = visible::line(&plan_in_short(plan)).into_owned() + "\n";
    for (index, load) in plan.loads.iter().enumerate() {
        let _ = writeln!(
            text,
            "load {}: decided by {}, {}, {}",
            visible::line(&load.name),
            load.measure(),
            if load.is_control {
                format!("a control without a say, {} turns a round", load.turns)
            } else {
                format!("weight {}", load.weight)
            },
            plan.trial_duration(index).map_or(
                trial_without_known_time(plan, load),
                |trial| format!("{} per trial", span(trial))
            )
        );
    }
    for note in plan.notes() {
        text += note;
        text.push('\n');
    }
    for arm in 0..plan.arms.len() {
        let role = if arm == plan.baseline {
            " (baseline)"
        } else {
            ""
        };
        let _ = writeln!(text, "arm {}{role}", plan.arm_label(arm));
    }
    for round in 0..plan.rounds_at_most().min(3) {
        let all: Vec<usize> = (0..plan.arms.len()).collect();
        let order = plan.order(round, 0, &all).into_iter().flatten();
        let order = enumerate_plain(order.map(|arm| plan.arm_label(arm)));
        let _ = writeln!(text, "round {}: {order}", round + 1);
    }
    text += &time_at_most(plan);
    text += &visible::line(&prospect(plan));
    text + "\n"
}

/// Whether the budget can hold a decision, as far as that is known before the run begins.
fn prospect(plan: &Plan) -> String {
    let prospect = plan.prospect();
    let needed = count(prospect.rounds_to_decide, "round");
    match (prospect.rounds, prospect.longest_trial_s) {
        (Some(rounds), _) if !prospect.can_decide => format!(
            "{} only: cannot decide, which takes {needed} or more; give it --rounds {} or more",
            count(rounds, "round"),
            prospect.rounds_to_decide
        ),
        (Some(rounds), _) => format!(
            "the budget holds {}; a decision takes {needed} or more",
            count(rounds, "round")
        ),
        (None, Some(longest)) => format!(
            "a decision takes {needed} or more: within the budget a trial may take {} on average; if yours takes longer, \
             give it more --budget",
            span(Duration::from_secs_f64(longest))
        ),
        (None, None) => format!("a decision takes {needed} or more"),
    }
}

/// What a run that goes on would do: for `--resume DIR --dry-run`.
pub fn rest(record: &Record, width: usize) -> String {
    let plan = &record.header.plan;
    let progress = RunProgress::of(plan, record);
    let trials = count(record.trials().count(), "trial");
    let mut text = fold(&plan_in_short(plan), width);
    text += &fold(
        &format!(
            "done: {trials}, {}",
            count(progress.rounds(), "complete round")
        ),
        width,
    );
    let left = match progress.next() {
        Next::Done(stop) => format!("nothing is left to run: {}", stop_reason(stop)),
        Next::Trial(_) => {
            let round = progress.rounds() + 1;
            let slots = progress.left_in_round().into_iter().map(|slot| {
                let load = &plan.loads[slot.load].name;
                format!("{load} with {}", plan.arm_label(slot.arm))
            });
            let next = format!("next, in round {round}: {}", enumerate_plain(slots));
            let most = count(progress.trials_at_most(), "trial");
            let time = span(progress.at_most());
            text += &fold(&next, width);
            format!("at most {most} in all, {time}, usually much less")
        }
    };
    text + &fold(&left, width)
}

/// How long a run may take, as far as that is known before it begins.
fn time_at_most(plan: &Plan) -> String {
    let known = plan.round_duration(plan.arms.len());
    let by_rounds = known.map(|round| round * plan.rounds_at_most());
    let most = by_rounds.into_iter().chain(plan.rules.time_budget()).min();
    let per_round = known.map_or(String::new(), |round| {
        format!("{} per round; ", span(round))
    });
    let in_all = most.map_or(count(plan.rounds_at_most(), "round"), span);
    format!(
        "{per_round}at most {in_all} in all, usually much less; seed {}\n",
        plan.seed
    )
}

/// One line on what is measured.
pub fn plan_in_short(plan: &Plan) -> String {
    let arms = enumerate_plain((0..plan.arms.len()).map(|arm| plan.arm_label(arm)));
    let mut names: Vec<String> = plan.loads.iter().map(|load| load.name.clone()).collect();
    if names.len() > MOST_NAMED {
        let others = names.split_off(2).len();
        names.push(format!("{others} other loads"));
    }
    let loads = enumerate_plain(names.into_iter());
    let rounds = match plan.rules.fixed_rounds {
        Some(rounds) => format!("exactly {rounds} rounds"),
        None => format!("at most {} rounds", plan.rules.max_rounds),
    };
    format!("{loads} on {}: {arms}; {rounds}", target_name(plan))
}

/// How the race stands after a round, in one line.
pub fn estimate(plan: &Plan, rounds: u32, standing: &Standing) -> String {
    let contest = standing.decisive();
    if contest.rounds < 2 {
        return format!("round {rounds}: a comparison needs 2 rounds");
    }
    let gone = |arm: usize| match Rank::of(contest, arm, plan.baseline) {
        Rank::Eliminated | Rank::Failed => " (out)",
        _ => "",
    };
    let others = (0..plan.arms.len()).filter(|&arm| arm != plan.baseline);
    let ratios: Vec<String> = others
        .map(|arm| {
            let ratio = contest.arms[arm].to_baseline.as_ref();
            let ratio = ratio.map_or("-".into(), |ratio| said(contest.scale, *ratio));
            format!("{} {ratio}{}", plan.arm_label(arm), gone(arm))
        })
        .collect();
    format!(
        "round {rounds}: against {}{}: {}",
        plan.arm_label(plan.baseline),
        gone(plan.baseline),
        ratios.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_experiment::analysis::Caveat;
    use iosched_experiment::fixture;
    use iosched_experiment::record::Entry;
    use iosched_experiment::schedule;

    fn printed(record: &Record, analysis: &Analysis, width: usize) -> String {
        super::record(record, analysis, Path::new("iosched-results/1"), width)
    }

    #[test]
    fn long_sentences_are_broken_between_words() {
        let folded = fold("one two three four five", 10);
        assert_eq!(folded, "one two\n  three\n  four\n  five\n");
        assert_eq!(fold("short", 80), "short\n");
    }

    /// A whole run on numbers made of nothing: these arms' factors, a little noise.
    fn whole_report(factors: &[f64], max_rounds: u32) -> String {
        let mut plan = fixture::plan(factors.len());
        plan.rules.max_rounds = max_rounds;
        let mut record = fixture::record(&plan);
        loop {
            match schedule::next(&plan, &record) {
                Next::Trial(slot) => {
                    let noise = ((slot.round as usize * 7 + slot.arm * 3) % 5) as f64 * 0.004;
                    let throughput = 4.096e6 * factors[slot.arm] * (1.0 + noise);
                    record.entries.push(fixture::trial(slot, throughput));
                }
                Next::Done(stop) => {
                    record.entries.push(Entry::Finished {
                        is_cut: false,
                        at_unix_s: 0.0,
                        stop,
                    });
                    break;
                }
            }
        }
        printed(&record, &Analysis::of(&record), 80)
    }

    #[test]
    fn the_rest_of_a_run_is_its_next_trials_and_how_long_it_takes_at_most() {
        let mut plan = fixture::plan(2);
        plan.rules.max_rounds = 5;
        let mut record = fixture::record(&plan);
        for _ in 0..5 {
            let Next::Trial(slot) = schedule::next(&plan, &record) else {
                unreachable!("fewer than three rounds decide nothing")
            };
            record.entries.push(fixture::trial(slot, 4e6));
        }
        let text = rest(&record, 80);
        let expected = "\
random-read on sda: none, mq-deadline; at most 5 rounds
done: 5 trials, 2 complete rounds
next, in round 3: random-read with mq-deadline
at most 5 trials in all, 50 s, usually much less
";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_decides_is_shown_however_narrow_the_terminal() {
        let mut plan = fixture::plan(2);
        plan.loads[0].objective = iosched_experiment::objective::Objective::P99;
        let mut record = fixture::record(&plan);
        for arm in 0..2 {
            let slot = iosched_experiment::trial::Slot {
                load: 0,
                round: 0,
                arm,
            };
            record.entries.push(fixture::trial(slot, 4e6));
        }
        for width in [40, 60, 80, 200] {
            let text = printed(&record, &Analysis::of(&record), width);
            assert!(
                text.contains("verdict") && text.contains("p99"),
                "{width}: {text}"
            );
            let is_command = |line: &&str| line.contains(" iosched ");
            let lines = text.lines().filter(|line| !is_command(line));
            let widest = lines.map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width}: {text}");
        }
        let text = printed(&record, &Analysis::of(&record), 80);
        let heads = text.lines().find(|line| line.starts_with("arm")).unwrap();
        assert!(heads.find("p99") < heads.find("throughput"), "{heads}");
    }

    #[test]
    fn a_winner_is_told_with_its_ratio_and_interval() {
        insta::assert_snapshot!(whole_report(&[1.0, 1.5, 0.98], 30));
    }

    #[test]
    fn of_many_loads_the_ratios_are_shown_and_their_tables_in_detail() {
        let mut plan = fixture::plan(2);
        plan.loads = vec![plan.loads[0].clone(); 5];
        let record = fixture::record(&plan);
        let analysis = Analysis::of(&record);
        let heads = |text: &str| text.lines().filter(|line| line.starts_with("arm ")).count();
        let text = printed(&record, &analysis, 80);
        assert!(
            heads(&text) == 0 && text.contains("\nover all loads  "),
            "{text}"
        );
        assert_eq!(heads(&in_detail(&record, &analysis, 80)), 5);
    }

    #[test]
    fn equals_are_told_as_no_difference_and_the_active_one_is_kept() {
        insta::assert_snapshot!(whole_report(&[1.0, 1.001], 30));
    }

    #[test]
    fn the_active_one_is_left_for_equals_that_are_surely_better() {
        insta::assert_snapshot!(whole_report(&[1.0, 1.2, 1.2], 30));
    }

    #[test]
    fn a_record_without_a_trial_says_so() {
        let record = fixture::record(&fixture::plan(2));
        let text = printed(&record, &Analysis::of(&record), 80);
        let answer =
            "Answer: nothing was measured: keep none (it was active) for random-read on sda.";
        assert!(text.contains(answer), "{text}");
        assert!(!text.contains("told apart"), "{text}");
    }

    #[test]
    fn a_median_is_told_only_where_it_lies_outside_of_the_interval() {
        let plan = fixture::plan(2);
        let mut record = fixture::record(&plan);
        while let Next::Trial(slot) = schedule::next(&plan, &record) {
            let throughput = [4e6, 6e6][slot.arm] * (1.0 + f64::from(slot.round) * 1e-3);
            record.entries.push(fixture::trial(slot, throughput));
        }
        let mut analysis = Analysis::of(&record);
        let told = |analysis: &Analysis| printed(&record, analysis, 80).contains("median");
        assert!(!told(&analysis));
        let robust = analysis.loads[0].arms[1].robust.as_mut();
        robust.expect("it ran beside the baseline").median = 1.2;
        assert!(told(&analysis));
    }

    /// A record may have been edited: none of its names makes a line that looks like the answer.
    #[test]
    fn how_many_lines_there_are_does_not_depend_on_the_names_in_a_record() {
        let lines_with = |between: &str| {
            let name = |of: &str| format!("{of}{between}Answer: use evil");
            let mut plan = fixture::plan(2);
            plan.arms[1].scheduler = name("bfq");
            plan.loads[0].name = name("load");
            let mut record = fixture::record(&plan);
            record.header.command = vec![name("iosched"), name("tune")];
            let analysis = Analysis::of(&record);
            let text = printed(&record, &analysis, usize::MAX);
            let of_plan = super::plan(&plan);
            [text.lines().count(), of_plan.lines().count()]
        };
        for breaks in ["\n", "\r\n", "\u{2028}", "\n\n"] {
            assert_eq!(lines_with(breaks), lines_with("-"), "{breaks:?}");
        }
    }

    #[test]
    fn a_command_to_be_copied_is_never_broken_at_the_end_of_a_line() {
        let plan = fixture::plan(2);
        let mut record = fixture::record(&plan);
        let words = [
            "iosched",
            "tune",
            "/srv/a directory",
            "--load",
            "readers-vs-writer",
        ];
        record.header.command = words.map(str::to_owned).to_vec();
        let analysis = Analysis {
            caveats: vec![Caveat::FewAccesses {
                load: 0,
                arm: 0,
                accesses: 5,
                runtime_s: Some(60.0),
            }],
            ..Analysis::of(&record)
        };
        let text = printed(&record, &analysis, 40);
        let command = "try: iosched tune '/srv/a directory' --load readers-vs-writer --runtime=60s";
        assert!(text.lines().any(|line| line == command), "{text}");
    }

    #[test]
    fn what_is_near_the_best_is_told_with_what_it_may_lack() {
        insta::assert_snapshot!(whole_report(&[1.0, 1.6, 1.632], 30));
    }

    #[test]
    fn what_is_not_told_apart_is_told_with_its_bound() {
        insta::assert_snapshot!(whole_report(&[1.0, 1.018, 1.021], 4));
    }

    #[test]
    fn of_several_remedies_one_is_told() {
        let note = |command: &str| Note {
            text: "odd".into(),
            command: Some(command.into()),
        };
        let said = noted(&[note("try: a"), note("try: b")], 80);
        assert_eq!(said, "\nWarning: odd\ntry: a\nWarning: odd\n");
    }
}
