//! The table of a load's arms: the same columns on the terminal, on the page and in a ticket.

use std::collections::BTreeSet;

use iosched_experiment::analysis::{Analysis, ArmSummary, LoadAnalysis, Rank, SplitSummary};
use iosched_experiment::metrics::FRAMES_IN_TIME;
use iosched_experiment::objective::Objective;
use iosched_experiment::plan::Plan;

use super::sentences::ratio_cell;
use super::table::{Align, Table};
use super::words::{clipped, milliseconds, percent, rate, significant, time};

/// A load's arms: the number that decides, their ratios, what these mean, and their other numbers, the most telling first: all
/// of them in detail.
pub(super) fn arm_table(
    plan: &Plan,
    analysis: &Analysis,
    load: &LoadAnalysis,
    in_detail: bool,
) -> Table {
    let baseline = &analysis.arms[analysis.baseline];
    let confidence = percent(plan.rules.confidence);
    let mut shown = columns(load);
    if !in_detail {
        shown.truncate(SHORT);
    }
    let mut table = Table::new([
        ("arm", Align::Left),
        (shown[0].head, Align::Right),
        (
            &format!("{} to {baseline} ({confidence} CI)", scale_word(load)),
            Align::Left,
        ),
        ("verdict", Align::Left),
    ]);
    for column in &shown[1..] {
        table.column(column.head, Align::Right);
    }
    // The arm, the number that decides, its ratio, the verdict.
    table.keep(4);
    for (arm, label) in analysis.arms.iter().enumerate() {
        let mut cells = shown.iter().map(|column| column.cell(&load.arms[arm]));
        let mut row = vec![label.clone()];
        row.extend(cells.next());
        row.push(ratio_cell(arm, analysis.baseline, &load.contest));
        row.push(rank_cell(analysis, load, arm));
        row.extend(cells);
        table.push(row);
    }
    table
}

/// Numbers of an arm that are shown beside its ratio: the one that decides, and two more.
const SHORT: usize = 3;

/// The ratios of all loads, a row each.
pub(super) fn loads_table(analysis: &Analysis) -> Table {
    let mut table = Table::new([("load", Align::Left)]);
    for label in &analysis.arms {
        table.column(label, Align::Right);
    }
    let loads = analysis.loads.iter();
    let contests = loads.map(|load| (clipped(&load.name), &load.contest));
    let all = analysis.overall.iter();
    for (name, contest) in contests.chain(all.map(|all| ("over all loads".to_owned(), all))) {
        let cells = (0..analysis.arms.len()).map(|arm| ratio_cell(arm, analysis.baseline, contest));
        table.push(std::iter::once(name).chain(cells).collect());
    }
    table
}

/// What the comparison to the baseline is.
pub(super) fn scale_word(load: &LoadAnalysis) -> &'static str {
    if load.contest.scale.is_ratio() {
        "ratio"
    } else {
        "difference"
    }
}

/// Nothing where the design shows none, and for a control, which is there to show no difference and is spoken of below its table.
fn rank_cell(analysis: &Analysis, load: &LoadAnalysis, arm: usize) -> String {
    if load.control.is_some() || analysis.is_doubted() {
        return String::new();
    }
    let rank = Rank::of(&load.contest, arm, analysis.baseline);
    rank.word().into()
}

/// What there is to know of a load besides: who of its workers got what, where they are of several
/// kinds, and the numbers that it says itself. A row for each, a column for each arm.
pub(super) fn details_table(analysis: &Analysis, load: &LoadAnalysis) -> Option<Table> {
    let mut rows = worker_rows(load);
    if load.objective == Objective::Tps {
        rows.extend(transaction_rows(load));
    }
    rows.extend(split_rows(load));
    rows.extend(number_rows(load));
    rows.retain(|row| row.cells.iter().any(|cell| !cell.is_empty()));
    if rows.is_empty() {
        return None;
    }
    let has_workers = rows[0].cells.iter().any(|cell| cell.contains(", "));
    let head = if has_workers { "share, p99" } else { "besides" };
    let mut table = Table::new([(head, Align::Left)]);
    for label in &analysis.arms {
        table.column(label, Align::Right);
    }
    for Details { head, cells } in rows {
        table.push(std::iter::once(head).chain(cells).collect());
    }
    Some(table)
}

struct Details {
    head: String,
    /// Of each arm.
    cells: Vec<String>,
}

impl Details {
    fn of(
        head: impl Into<String>,
        load: &LoadAnalysis,
        cell: impl Fn(&ArmSummary) -> Option<String>,
    ) -> Details {
        let cells = load.arms.iter().map(|arm| cell(arm).unwrap_or_default());
        Details {
            head: head.into(),
            cells: cells.collect(),
        }
    }
}

/// What each kind of worker got, and how long it waited; nothing to say of one kind.
fn worker_rows(load: &LoadAnalysis) -> Vec<Details> {
    let Some(measured) = load.arms.iter().find(|arm| arm.kinds.len() > 1) else {
        return Vec::new();
    };
    let kinds = measured.kinds.iter().enumerate();
    let mut rows: Vec<Details> = kinds
        .map(|(index, kind)| {
            let head = match kind.count {
                1 => clipped(&kind.name),
                count => format!("{} ×{count}", clipped(&kind.name)),
            };
            Details::of(head, load, |arm| {
                let kind = arm.kinds.get(index)?;
                let waited = kind.latency_p99_ns.map_or("-".into(), time);
                Some(format!("{}, {waited}", percents(kind.share?)))
            })
        })
        .collect();
    rows.push(Details::of("smallest share", load, |arm| {
        Some(percents(arm.smallest_share?))
    }));
    rows.push(Details::of("largest share", load, |arm| {
        Some(percents(arm.largest_share?))
    }));
    rows
}

/// A share that may be small and still matter: `0.04 %`.
fn percents(share: f64) -> String {
    format!("{} %", significant(share * 100.0))
}

/// What does not fit beside a database's tps on a terminal, and is asked for.
fn transaction_rows(load: &LoadAnalysis) -> Vec<Details> {
    let rows: [(&str, Value); 5] = [
        ("mean latency", |arm| arm.latency_mean_ns),
        ("p50 latency", |arm| arm.latency_p50_ns),
        ("max latency", |arm| arm.latency_max_ns),
        ("await of reads", |arm| arm.read_await_ns),
        ("await of writes", |arm| arm.write_await_ns),
    ];
    let row = |(head, value): (&str, Value)| Details::of(head, load, |arm| value(arm).map(time));
    rows.into_iter().map(row).collect()
}

/// Where accesses spend their time: before the queue, if that is known, in it, and at the disk.
fn split_rows(load: &LoadAnalysis) -> [Details; 2] {
    let row = |direction: &str, split: fn(&ArmSummary) -> Option<SplitSummary>| {
        let splits = || load.arms.iter().filter_map(split);
        let is_whole = splits().all(|split| split.before_mean_ns.is_some());
        let before = if is_whole { "before + " } else { "" };
        let head = format!("{direction}: {before}queue + disk");
        Details::of(head, load, |arm| {
            let split = split(arm)?;
            let before = split.before_mean_ns.filter(|_| is_whole);
            let parts = [
                before,
                Some(split.queue_mean_ns),
                Some(split.service_mean_ns),
            ];
            let parts = parts.into_iter().flatten().map(milliseconds);
            Some(parts.collect::<Vec<_>>().join(" + ") + " ms")
        })
    };
    [
        row("read", |arm| arm.read_split),
        row("write", |arm| arm.write_split),
    ]
}

fn number_rows(load: &LoadAnalysis) -> Vec<Details> {
    let names = load.arms.iter().flat_map(|arm| arm.numbers.keys());
    let names: BTreeSet<&String> = names.collect();
    let row = |name: &String| {
        Details::of(clipped(name), load, |arm| {
            Some(significant(*arm.numbers.get(name)?))
        })
    };
    names.into_iter().map(row).collect()
}

/// A column of an arm's own numbers.
struct Column {
    /// Its head.
    head: &'static str,
    /// The number in SI units (bytes per second, ns), if the arm has it.
    value: Value,
    /// The number with its unit.
    show: Show,
}

type Value = fn(&ArmSummary) -> Option<f64>;
type Show = fn(f64) -> String;

impl Column {
    /// The cell of an arm; empty where there is no number.
    fn cell(&self, arm: &ArmSummary) -> String {
        (self.value)(arm).map_or_else(String::new, self.show)
    }
}

/// The numbers that are shown: what decides, then the most telling first. On a narrow terminal columns from the right
/// are left out, but never what decides.
fn columns(load: &LoadAnalysis) -> Vec<Column> {
    let mut columns = vec![
        Column {
            head: "throughput",
            value: |arm| arm.throughput_bytes_per_s,
            show: rate,
        },
        Column {
            head: "p99",
            value: |arm| arm.latency_p99_ns,
            show: time,
        },
        Column {
            head: "CPU/IO",
            value: |arm| arm.cpu_ns_per_io,
            show: time,
        },
        Column {
            head: "IOPS",
            value: |arm| arm.iops,
            show: significant,
        },
        Column {
            head: "p50",
            value: |arm| arm.latency_p50_ns,
            show: time,
        },
        Column {
            head: "queue",
            value: |arm| arm.average_queue_length,
            show: significant,
        },
        Column {
            head: "read await",
            value: |arm| arm.read_await_ns,
            show: time,
        },
        Column {
            head: "write await",
            value: |arm| arm.write_await_ns,
            show: time,
        },
    ];
    let decisive = decisive_column(load.objective);
    columns.retain(|column| column.head != decisive.head);
    columns.insert(0, decisive);
    columns
}

/// What decides a load: its head, and the number of an arm.
pub(super) fn deciding_number(load: &LoadAnalysis, arm: usize) -> (&'static str, String) {
    let column = decisive_column(load.objective);
    (column.head, column.cell(&load.arms[arm]))
}

/// The column of what decides: the geometric mean over trials, as the ratios are, so that both say the same.
fn decisive_column(objective: Objective) -> Column {
    let (head, show): (_, Show) = match objective {
        Objective::Throughput => ("throughput", rate),
        Objective::Iops => ("IOPS", significant),
        Objective::Mean => ("mean", time),
        Objective::P50 => ("p50", time),
        Objective::P99 => ("p99", time),
        Objective::P999 => ("p99.9", time),
        Objective::ReadMean => ("read mean", time),
        Objective::ReadP99 => ("read p99", time),
        Objective::Cpu => ("CPU/IO", time),
        Objective::Fairness => ("fairness", |index| format!("{index:.3}")),
        Objective::Tps => ("tps", significant),
        Objective::Time => ("time", |seconds| time(seconds * 1e9)),
        Objective::Frames => (FRAMES_IN_TIME, significant),
        Objective::NumberHigher | Objective::NumberLower => ("number", significant),
    };
    Column {
        head,
        value: |arm| arm.objective.or(arm.objective_mean),
        show,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_experiment::fixture;
    use iosched_experiment::record::Entry;
    use iosched_experiment::schedule::{Next, next};

    #[test]
    fn the_number_that_decides_agrees_with_the_ratio_beside_it() {
        let mut plan = fixture::plan(2);
        plan.loads[0].objective = Objective::Time;
        plan.rules.fixed_rounds = Some(6);
        let mut record = fixture::record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let mut entry = fixture::trial(slot, 1e6);
            if let Entry::Trial(trial) = &mut entry {
                let is_long = slot.round == 0 && slot.arm == 1;
                let usual = [0.4, 0.15][slot.arm];
                // The means are 0.4 and 0.66.
                trial.metrics.elapsed_s = Some(if is_long { 3.2 } else { usual });
            }
            record.entries.push(entry);
        }
        let analysis = Analysis::of(&record);
        let load = &analysis.loads[0];
        assert_eq!(deciding_number(load, 0), ("time", "400 ms".into()));
        assert_eq!(deciding_number(load, 1), ("time", "250 ms".into()));
        let ratio = load.contest.ratio(1, 0).unwrap().estimate;
        assert!((ratio - 0.250 / 0.400).abs() < 1e-3, "{ratio}");
    }
}
