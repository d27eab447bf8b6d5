//! Tables and sentences for a terminal: what was planned, how it stands, what came out.

use std::fmt::Write as _;
use std::time::Duration;

use iosched_stats::Interval;
use iosched_stats::race::{ArmStanding, Better, Contest, Place, Verdict};
use iosched_stats::remarks::Remark;

use super::table::{Align, Table};
use crate::analysis::{Analysis, ArmSummary, Confound, LoadAnalysis, SideEffect};
use crate::objective::Objective;
use crate::plan::{Plan, Target};
use crate::record::{Entry, Record, StopReason};

/// The answer: per load a table and a sentence, then over all loads.
pub fn record(record: &Record, analysis: &Analysis, width: usize) -> String {
    let plan = &record.header.plan;
    let mut text = String::new();
    for (index, load) in analysis.loads.iter().enumerate() {
        let trial_s = plan.trial_duration(index).as_secs_f64();
        let head = format!(
            "{} on {}: {}{}, {} of {trial_s} s each",
            load.name,
            target_name(plan),
            load.objective.words(),
            if load.objective.higher_is_better() {
                ""
            } else {
                " (less is better)"
            },
            count(analysis.rounds, "round"),
        );
        text += "\n";
        text += &fold(&head, width);
        text += &load_table(plan, analysis, load, width);
        for (arm, summary) in load.arms.iter().enumerate() {
            if let Some(reason) = &summary.left {
                text += &fold(&format!("{} left: {reason}", analysis.arms[arm]), width);
            }
        }
        text += "\n";
        text += &fold(
            &verdict(analysis, &load.contest, &in_load(load), plan),
            width,
        );
        text += &fold(&robust(analysis, load), width);
        for remark in &load.remarks {
            text += &fold(&remark_sentence(analysis, load, remark), width);
        }
    }
    if analysis.overall.is_some() {
        text += "\n";
    }
    if let Some(overall) = &analysis.overall {
        text += &fold(&verdict(analysis, overall, "over all loads", plan), width);
    }
    for line in choice(analysis, plan).lines() {
        text += &fold(line, width);
    }
    if analysis.void_trials > 0 {
        let _ = writeln!(
            text,
            "{} did not count and were repeated.",
            count(analysis.void_trials, "trial")
        );
    }
    for line in preparation(record) {
        text += &fold(&line, width);
    }
    for confound in &analysis.confounds {
        text += &fold(&confound_sentence(analysis, confound), width);
    }
    if plan.emulated.is_some() {
        text += "CPU time includes that of the emulated disk's server.\n";
    }
    // A fixed design is one look at its end: more rounds would make it something else.
    let is_open =
        |stop: &StopReason| *stop != StopReason::Decided && plan.rules.fixed_rounds.is_none();
    if let Some(stop) = analysis.stop.filter(is_open) {
        let line = format!(
            "It stopped because {}; it goes on with --resume and a larger --budget or --rounds.",
            stop_reason(stop)
        );
        text += &fold(&line, width);
    }
    if analysis.stop.is_none() {
        text += "The run was interrupted: this is what is known so far.\n";
    }
    text
}

/// What was done before the first trial, and what that says.
fn preparation(record: &Record) -> Vec<String> {
    let plan = &record.header.plan;
    let mut lines = Vec::new();
    if plan.ramp_s > 0.0 {
        lines.push(format!(
            "The first {} s of each trial were cut.",
            plan.ramp_s
        ));
    }
    for entry in &record.entries {
        match entry {
            Entry::Preconditioned { bytes, elapsed_s } => lines.push(format!(
                "The device was filled first: {:.0} MB in {}.",
                *bytes as f64 / 1e6,
                span(Duration::from_secs_f64(*elapsed_s))
            )),
            Entry::Steady {
                load,
                throughput_bytes_per_s,
                window,
            } => {
                let name = &plan.loads[*load].name;
                let runs = count(throughput_bytes_per_s.len(), "run");
                lines.push(match window {
                    Some(window) => format!(
                        "{name} was steady after {runs}: excursion {}, slope {}.",
                        percent(window.excursion),
                        percent(window.slope)
                    ),
                    None => format!("{name} was not steady after {runs}: the disk may drift."),
                });
            }
            _ => {}
        }
    }
    lines
}

/// `nr_requests came with the arms: 32 with none; 256 with mq-deadline and bfq.`
fn confound_sentence(analysis: &Analysis, confound: &Confound) -> String {
    let mut values: Vec<&str> = confound
        .values
        .iter()
        .map(|(_, value)| value.as_str())
        .collect();
    values.sort_unstable();
    values.dedup();
    let parts: Vec<String> = values
        .into_iter()
        .map(|value| {
            let with = confound.values.iter().filter(|(_, other)| other == value);
            let arms = with.map(|&(arm, _)| analysis.arms[arm].as_str());
            format!("{value} with {}", enumerate(arms))
        })
        .collect();
    format!(
        "{} came with the arms: {}.",
        confound.setting,
        parts.join("; ")
    )
}

/// Breaks the lines that are too long between words; what follows is indented. Lines of tables are
/// left alone: they were made to fit.
fn fold(sentence: &str, width: usize) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in sentence.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            text += "\n  ";
            column = 2;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += length;
    }
    if text.is_empty() { text } else { text + "\n" }
}

fn in_load(load: &LoadAnalysis) -> String {
    format!("in {}", load.name)
}

/// `Median of the rounds' ratios in random-read: bfq 1.60 (1.58-1.62), kyber 1.00.`
fn robust(analysis: &Analysis, load: &LoadAnalysis) -> String {
    let arms = load.arms.iter().enumerate().filter_map(|(arm, summary)| {
        let robust = summary.robust?;
        let interval = robust.median_interval.map_or(String::new(), |interval| {
            format!(" ({}-{})", number(interval.lower), number(interval.upper))
        });
        Some(format!(
            "{} {}{interval}",
            analysis.arms[arm],
            number(robust.median)
        ))
    });
    let medians = enumerate_plain(arms);
    if medians.is_empty() {
        return String::new();
    }
    format!("Median of the rounds' ratios in {}: {medians}.", load.name)
}

/// What looks odd, and whether it matters.
fn remark_sentence(analysis: &Analysis, load: &LoadAnalysis, remark: &Remark) -> String {
    let name = |arm: usize| analysis.arms[arm].as_str();
    let per_round = |ratio: f64| {
        let word = if ratio > 1.0 { "more" } else { "less" };
        format!("{} {word} per round", percent((ratio - 1.0).abs()))
    };
    let what = match *remark {
        Remark::Outlier { arm, round, ratio } => format!(
            "the trial of {} in round {} is {} of what is expected",
            name(arm),
            round + 1,
            percent(ratio)
        ),
        Remark::FirstRound { ratio } => format!(
            "the first round lies at {} of the others for all arms (harmless: arms are compared \
             within rounds)",
            percent(ratio)
        ),
        Remark::SharedTrend { per_round: ratio } => format!(
            "all arms drift alike, {} (harmless: arms are compared within rounds)",
            per_round(ratio)
        ),
        Remark::OwnTrend {
            arm,
            per_round: ratio,
        } => {
            format!("{} drifts by itself, {}", name(arm), per_round(ratio))
        }
        Remark::Autocorrelated { arm, coefficient } => format!(
            "the trials of {} remember the one before (correlation {})",
            name(arm),
            number(coefficient)
        ),
        Remark::TwoGroups {
            arm,
            low,
            high,
            high_share,
        } => format!(
            "the trials of {} fall into two groups, at {} and {} of its median ({} in the higher)",
            name(arm),
            percent(low),
            percent(high),
            percent(high_share)
        ),
        Remark::Noisy { arm, times } => {
            format!(
                "{} is {} times as noisy as the others",
                name(arm),
                number(times)
            )
        }
    };
    let weight = if remark.weakens() {
        "; the interval may be too narrow"
    } else {
        ""
    };
    format!("Remark on {}: {what}{weight}.", load.name)
}

/// `loop0 (emulated hdd-7200)`, `/srv/data (sda)`.
fn target_name(plan: &Plan) -> String {
    let disks = plan.disks.join(", ");
    match (&plan.target, &plan.emulated) {
        (_, Some(model)) => format!("{disks} (emulated {model})"),
        (Target::Device { device, .. }, None) if *device == disks => disks,
        (Target::Device { device, .. }, None) => format!("{device} ({disks})"),
        (Target::Directory { path, .. } | Target::File { path, .. }, None) => {
            format!("{} ({disks})", path.display())
        }
    }
}

fn load_table(plan: &Plan, analysis: &Analysis, load: &LoadAnalysis, width: usize) -> String {
    let baseline = &analysis.arms[analysis.baseline];
    let confidence = percent(plan.rules.confidence);
    let mut table = Table::new([
        ("arm", Align::Left),
        (&format!("ratio to {baseline} ({confidence})"), Align::Left),
    ]);
    table.column("", Align::Left);
    let shown = columns(load);
    for column in &shown {
        table.column(column.head, Align::Right);
    }
    for (arm, label) in analysis.arms.iter().enumerate() {
        let standing = &load.contest.arms[arm];
        let mut row = vec![
            label.clone(),
            ratio_cell(arm, analysis.baseline, standing),
            standing_word(arm, analysis, &load.contest, plan.rules.margin),
        ];
        row.extend(
            shown
                .iter()
                .map(|column| (column.cell)(&load.arms[arm]).unwrap_or_default()),
        );
        table.push(row);
    }
    table.render(width)
}

/// A column of an arm's own numbers.
struct Column {
    head: &'static str,
    cell: fn(&ArmSummary) -> Option<String>,
}

/// The numbers that are shown, the most telling first; columns from the right are left out on a
/// narrow terminal.
fn columns(load: &LoadAnalysis) -> Vec<Column> {
    let mut columns = vec![
        Column {
            head: "MB/s",
            cell: |arm| Some(megabytes(arm.throughput_bytes_per_s?)),
        },
        Column {
            head: "p99 ms",
            cell: |arm| Some(milliseconds(arm.latency_p99_ns?)),
        },
        Column {
            head: "CPU µs/IO",
            cell: |arm| Some(microseconds(arm.cpu_ns_per_io?)),
        },
        Column {
            head: "IOPS",
            cell: |arm| Some(significant(arm.iops?)),
        },
        Column {
            head: "p50 ms",
            cell: |arm| Some(milliseconds(arm.latency_p50_ns?)),
        },
        Column {
            head: "queue",
            cell: |arm| Some(significant(arm.average_queue_length?)),
        },
        Column {
            head: "await r ms",
            cell: |arm| Some(milliseconds(arm.read_await_ns?)),
        },
        Column {
            head: "await w ms",
            cell: |arm| Some(milliseconds(arm.write_await_ns?)),
        },
    ];
    match load.objective {
        Objective::ReadMean | Objective::ReadP99 => columns.insert(
            0,
            Column {
                head: "read p99 ms",
                cell: |arm| Some(milliseconds(arm.read_latency_p99_ns?)),
            },
        ),
        Objective::Fairness => columns.insert(
            0,
            Column {
                head: "fairness",
                cell: |arm| Some(format!("{:.3}", arm.fairness?)),
            },
        ),
        Objective::P999 => columns.insert(
            0,
            Column {
                head: "p99.9 ms",
                cell: |arm| Some(milliseconds(arm.latency_p999_ns?)),
            },
        ),
        _ => {}
    }
    columns
}

fn ratio_cell(arm: usize, baseline: usize, standing: &ArmStanding) -> String {
    if arm == baseline {
        return "1".into();
    }
    standing.to_baseline.as_ref().map_or("-".into(), |ratio| {
        if ratio.is_bounded() && (ratio.lower > 0.01 || ratio.upper < 100.0) {
            format!(
                "{} ({}-{})",
                number(ratio.estimate),
                number(ratio.lower),
                number(ratio.upper)
            )
        } else {
            format!("{} (few rounds)", number(ratio.estimate))
        }
    })
}

/// What the ratio means, in a word.
fn standing_word(arm: usize, analysis: &Analysis, contest: &Contest, margin: f64) -> String {
    if matches!(contest.arms[arm].place, Place::Withdrawn) {
        return "failed".into();
    }
    if arm == analysis.baseline {
        return "baseline".into();
    }
    let Some(ratio) = contest.arms[arm].to_baseline.as_ref() else {
        return String::new();
    };
    let is_above = ratio.lower > 1.0;
    let is_below = ratio.upper < 1.0;
    let is_within = ratio.lower > 1.0 / margin && ratio.upper < margin;
    match (contest.better, is_within, contest.arms[arm].place) {
        (_, true, _) => "no difference".into(),
        (Better::Higher, ..) if is_above => "better".into(),
        (Better::Lower, ..) if is_below => "better".into(),
        _ if is_above || is_below => "worse".into(),
        // Not against the baseline, but what drove it out is known.
        (.., Place::Worse { than, .. }) => format!("loses to {}", analysis.arms[than]),
        _ => "not told apart".into(),
    }
}

/// The verdict of one contest as a sentence.
fn verdict(analysis: &Analysis, contest: &Contest, place: &str, plan: &Plan) -> String {
    let names = |arms: &[usize]| enumerate(arms.iter().map(|&arm| analysis.arms[arm].as_str()));
    let margin = percent(plan.rules.margin - 1.0);
    let rounds = count(contest.rounds, "round");
    match &contest.verdict {
        Verdict::Winner { arm } if *arm == analysis.baseline => {
            let next = next_best(contest, *arm);
            let ratio = next
                .and_then(|next| Some((next, contest.ratio(next, *arm)?)))
                .map_or(String::new(), |(next, ratio)| {
                    let next = &analysis.arms[next];
                    format!(
                        ": the next, {next}, has {}",
                        times(ratio, &analysis.arms[*arm], plan)
                    )
                });
            format!("{} is best {place}{ratio}, {rounds}\n", analysis.arms[*arm])
        }
        Verdict::Winner { arm } => {
            let ratio = contest
                .ratio(*arm, analysis.baseline)
                .map_or(String::new(), |ratio| {
                    times(ratio, &analysis.arms[analysis.baseline], plan)
                });
            format!("{}: {ratio} {place}, {rounds}\n", analysis.arms[*arm])
        }
        Verdict::Equal { arms, .. } => {
            let others = contest.arms.len() - arms.len();
            let rest = if others > 0 {
                "; the others are worse"
            } else {
                ""
            };
            format!(
                "{}: no difference larger than {margin} {place}{rest}, {rounds}\n",
                names(arms)
            )
        }
        Verdict::Undecided {
            arms,
            within,
            rounds_needed,
            ..
        } => {
            let bound = if *within < 2.0 {
                format!("the difference is at most {}", percent_up(within - 1.0))
            } else {
                "it may still be more than twofold".into()
            };
            // What a requirement or another load keeps open is not told by rounds of this contest.
            let needed = rounds_needed
                .filter(|&needed| needed > contest.rounds)
                .map_or(String::new(), |rounds| {
                    format!("; about {rounds} rounds would tell, if it is what it looks like")
                });
            format!(
                "{}: not told apart {place}: {bound}, {rounds}{needed}\n",
                names(arms)
            )
        }
        Verdict::Open => {
            let arms: Vec<usize> = contest.remaining().collect();
            format!("{}: not told apart yet {place}, {rounds}\n", names(&arms))
        }
        Verdict::Alone { arm } => {
            format!(
                "{} is the only arm that could be measured {place}\n",
                analysis.arms[*arm]
            )
        }
        Verdict::Nobody => format!("no arm could be measured {place}\n"),
    }
}

/// `1.62 × none (95 % 1.55-1.70)`.
fn times(ratio: Interval, of: &str, plan: &Plan) -> String {
    format!(
        "{} × {of} ({} {}-{})",
        number(ratio.estimate),
        percent(plan.rules.confidence),
        number(ratio.lower),
        number(ratio.upper)
    )
}

/// The best of the others, by estimate.
fn next_best(contest: &Contest, winner: usize) -> Option<usize> {
    let estimate = |arm: usize| contest.ratio(arm, winner).map(|ratio| ratio.estimate);
    let others = (0..contest.arms.len()).filter(|&arm| arm != winner && estimate(arm).is_some());
    let key = |arm: &usize| estimate(*arm).unwrap_or(0.0);
    match contest.better {
        Better::Higher => others.max_by(|a, b| key(a).total_cmp(&key(b))),
        Better::Lower => others.min_by(|a, b| key(a).total_cmp(&key(b))),
    }
}

/// What to do, and what it costs.
fn choice(analysis: &Analysis, plan: &Plan) -> String {
    let stays = match plan.active {
        Some(active) => format!("keep {} (it was active)", analysis.arms[active]),
        None => "leave the disk as it is".to_owned(),
    };
    let mut text = match analysis.choice {
        Some(choice) if Some(choice) == plan.active => format!("Answer: {stays}.\n"),
        Some(choice) => {
            let why = match analysis.decisive().verdict {
                Verdict::Equal { .. } => ": of the equals, it takes the least CPU time per I/O",
                Verdict::Undecided { .. } => {
                    ": it is not told apart from the others that remain, but the baseline has lost"
                }
                _ => "",
            };
            format!("Answer: use {}{why}.\n", analysis.arms[choice])
        }
        None => format!("Answer: no arm is proven better; {stays}.\n"),
    };
    if analysis.choice.is_some() {
        text += &side_effects(analysis, plan);
    }
    text
}

/// The trade-off in plain sentences.
fn side_effects(analysis: &Analysis, plan: &Plan) -> String {
    let mut text = String::new();
    for SideEffect {
        load,
        objective,
        ratio,
    } in &analysis.side_effects
    {
        let is_good = (ratio.estimate > 1.0) == objective.higher_is_better();
        let _ = writeln!(
            text,
            "{} its {} is {} in {}.",
            if is_good { "With it," } else { "But" },
            objective.words(),
            times(
                *ratio,
                &format!("{}'s", analysis.arms[analysis.baseline]),
                plan
            ),
            analysis.loads[*load].name,
        );
    }
    text
}

/// What will be done: for `--dry-run`.
pub fn plan(plan: &Plan) -> String {
    let mut text = plan_in_short(plan) + "\n";
    for (index, load) in plan.loads.iter().enumerate() {
        let _ = writeln!(
            text,
            "load {}: decided by {}, weight {}, {} per trial",
            load.name,
            load.objective.words(),
            load.weight,
            span(plan.trial_duration(index))
        );
    }
    for arm in 0..plan.arms.len() {
        let role = if arm == plan.baseline {
            " (baseline)"
        } else {
            ""
        };
        let _ = writeln!(text, "arm {}{role}", plan.arm_label(arm));
    }
    let order: Vec<String> = (0..3)
        .map(|round| {
            let all: Vec<usize> = (0..plan.arms.len()).collect();
            let order = plan.order(round, 0, &all);
            enumerate_plain(order.into_iter().map(|arm| plan.arm_label(arm)))
        })
        .collect();
    let _ = writeln!(text, "first rounds: {} …", order.join(" | "));
    let round = plan.round_duration(plan.arms.len());
    let all = round * plan.rounds_at_most();
    let most = plan.rules.time_budget_s.map_or(all, |budget| {
        all.min(Duration::from_secs_f64(budget) + round)
    });
    let _ = writeln!(
        text,
        "{} per round; at most {} in all, usually much less; seed {}",
        span(round),
        span(most),
        plan.seed
    );
    text
}

/// One line on what is measured.
pub fn plan_in_short(plan: &Plan) -> String {
    let arms = enumerate_plain((0..plan.arms.len()).map(|arm| plan.arm_label(arm)));
    let loads = enumerate_plain(plan.loads.iter().map(|load| load.name.clone()));
    let rounds = match plan.rules.fixed_rounds {
        Some(rounds) => format!("exactly {rounds} rounds"),
        None => format!("at most {} rounds", plan.rules.max_rounds),
    };
    format!("{loads} on {}: {arms}; {rounds}", target_name(plan))
}

/// How the race stands after a round, in one line.
pub fn estimate(plan: &Plan, analysis: &Analysis) -> String {
    let contest = analysis.decisive();
    let ratios: Vec<String> = analysis
        .arms
        .iter()
        .enumerate()
        .filter(|&(arm, _)| arm != analysis.baseline)
        .map(|(arm, label)| {
            let gone = if contest.arms[arm].place == Place::Remaining {
                ""
            } else {
                " (out)"
            };
            let ratio = contest.arms[arm].to_baseline.as_ref();
            format!(
                "{label} {}{gone}",
                ratio.map_or("-".into(), |ratio| number(ratio.estimate))
            )
        })
        .collect();
    let baseline = plan.arm_label(analysis.baseline);
    let gone = if contest.arms[analysis.baseline].place == Place::Remaining {
        ""
    } else {
        " (out)"
    };
    format!(
        "round {}: against {baseline}{gone}: {}",
        analysis.rounds,
        ratios.join(", ")
    )
}

/// Why a run ended, in words.
pub fn stop_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Decided => "the answer is known",
        StopReason::RoundsSpent => "its rounds are spent",
        StopReason::TimeSpent => "its time is spent",
        StopReason::Hopeless => "a decision within its budget had become too unlikely",
    }
}

/// A length of time for people: `45 s`, `3 min 20 s`, `2 h 5 min`.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 10.0 && time.subsec_millis() != 0 {
        return format!("{seconds:.1} s");
    }
    let whole = time.as_secs() + u64::from(time.subsec_millis() >= 500);
    match (whole / 3600, whole % 3600 / 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// `2 %`, `4.1 %`, `95 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    let rounded = (value * 10.0).round() / 10.0;
    format!("{rounded} %")
}

/// A bound, rounded away from what it bounds: `4.1 %` for 0.0401.
fn percent_up(share: f64) -> String {
    percent((share * 1000.0).ceil() / 1000.0)
}

/// A ratio with three significant digits: `1.62`, `0.954`, `12.3`; near 1 with one more.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "∞".into(),
        a if a >= 1000.0 => ">1000".into(),
        a if a >= 100.0 => format!("{value:.0}"),
        a if a >= 10.0 => format!("{value:.1}"),
        a if a >= 1.1 => format!("{value:.2}"),
        // Near 1 the third decimal says whether the interval excludes it.
        a if a < 0.001 => "<0.001".into(),
        _ => format!("{value:.3}"),
    }
}

fn significant(value: f64) -> String {
    match value.abs() {
        a if a >= 100.0 => format!("{value:.0}"),
        a if a >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn megabytes(bytes_per_s: f64) -> String {
    significant(bytes_per_s / 1e6)
}

fn milliseconds(ns: f64) -> String {
    let ms = ns / 1e6;
    if ms < 1.0 {
        format!("{ms:.3}")
    } else {
        significant(ms)
    }
}

fn microseconds(ns: f64) -> String {
    significant(ns / 1e3)
}

fn count(number: impl Into<Count>, thing: &str) -> String {
    let Count(number) = number.into();
    if number == 1 {
        format!("1 {thing}")
    } else {
        format!("{number} {thing}s")
    }
}

/// A whole number of any of the types that count things here.
struct Count(u64);

impl From<u32> for Count {
    fn from(number: u32) -> Count {
        Count(u64::from(number))
    }
}

impl From<usize> for Count {
    fn from(number: usize) -> Count {
        Count(number as u64)
    }
}

/// `a`, `a and b`, `a, b and c`.
fn enumerate<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

fn enumerate_plain(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{self, Next};
    use crate::{fixture, record::Entry};

    #[test]
    fn numbers_have_three_digits_that_mean_something() {
        assert_eq!(number(1.6234), "1.62");
        assert_eq!(number(0.9541), "0.954");
        assert_eq!(number(123.4), "123");
        assert_eq!(percent(0.95), "95 %");
        assert_eq!(percent(0.041), "4.1 %");
        assert_eq!(percent_up(0.0401), "4.1 %");
        assert_eq!(span(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(span(Duration::from_millis(1500)), "1.5 s");
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
                        at_unix_s: 0.0,
                        stop,
                    });
                    break;
                }
            }
        }
        super::record(&record, &Analysis::of(&record), 80)
    }

    #[test]
    fn a_winner_is_told_with_its_ratio_and_interval() {
        insta::assert_snapshot!(whole_report(&[1.0, 1.5, 0.98], 30));
    }

    #[test]
    fn equals_are_told_as_no_difference_and_the_active_one_is_kept() {
        insta::assert_snapshot!(whole_report(&[1.0, 1.001], 30));
    }

    #[test]
    fn the_active_one_is_left_for_equals_that_are_surely_better() {
        insta::assert_snapshot!(whole_report(&[1.0, 1.018, 1.021], 30));
    }

    #[test]
    fn what_is_not_told_apart_is_told_with_its_bound() {
        insta::assert_snapshot!(whole_report(&[1.0, 1.018, 1.021], 4));
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!(enumerate(["a"].into_iter()), "a");
        assert_eq!(enumerate(["a", "b", "c"].into_iter()), "a, b and c");
    }
}
