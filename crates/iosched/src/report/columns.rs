//! The table of a load's arms: the same columns on the terminal, on the page and in a ticket.

use super::sentences::{ratio_cell, standing_word};
use super::table::{Align, Table};
use super::words::{megabytes, microseconds, milliseconds, percent, significant};
use crate::analysis::{Analysis, ArmSummary, LoadAnalysis};
use crate::objective::Objective;
use crate::plan::Plan;

/// A load's arms: their ratios, what these mean, and their own numbers, the most telling first.
pub(super) fn arm_table(plan: &Plan, analysis: &Analysis, load: &LoadAnalysis) -> Table {
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
        row.extend(shown.iter().map(|column| column.cell(&load.arms[arm])));
        table.push(row);
    }
    table
}

/// A column of an arm's own numbers.
struct Column {
    /// Its head, unit included.
    head: &'static str,
    /// The number in SI units (bytes per second, ns), if the arm has it.
    value: Value,
    /// The number in the unit of the head.
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

/// The numbers that are shown, the most telling first; columns from the right are left out on a
/// narrow terminal.
fn columns(load: &LoadAnalysis) -> Vec<Column> {
    let mut columns = vec![
        Column {
            head: "MB/s",
            value: |arm| arm.throughput_bytes_per_s,
            show: megabytes,
        },
        Column {
            head: "p99 ms",
            value: |arm| arm.latency_p99_ns,
            show: milliseconds,
        },
        Column {
            head: "CPU µs/IO",
            value: |arm| arm.cpu_ns_per_io,
            show: microseconds,
        },
        Column {
            head: "IOPS",
            value: |arm| arm.iops,
            show: significant,
        },
        Column {
            head: "p50 ms",
            value: |arm| arm.latency_p50_ns,
            show: milliseconds,
        },
        Column {
            head: "queue",
            value: |arm| arm.average_queue_length,
            show: significant,
        },
        Column {
            head: "await r ms",
            value: |arm| arm.read_await_ns,
            show: milliseconds,
        },
        Column {
            head: "await w ms",
            value: |arm| arm.write_await_ns,
            show: milliseconds,
        },
    ];
    if let Some(column) = decisive_column(load.objective) {
        columns.insert(0, column);
    }
    columns
}

/// The column of what decides, where it is not among the others.
fn decisive_column(objective: Objective) -> Option<Column> {
    let (head, value, show): (_, Value, Show) = match objective {
        Objective::ReadMean | Objective::ReadP99 => {
            ("read p99 ms", |arm| arm.read_latency_p99_ns, milliseconds)
        }
        Objective::Fairness => (
            "fairness",
            |arm| arm.fairness,
            |index| format!("{index:.3}"),
        ),
        Objective::P999 => ("p99.9 ms", |arm| arm.latency_p999_ns, milliseconds),
        Objective::Tps => ("tps", |arm| arm.objective, significant),
        Objective::Time => ("time s", |arm| arm.objective, significant),
        Objective::NumberHigher | Objective::NumberLower => {
            ("number", |arm| arm.objective, significant)
        }
        _ => return None,
    };
    Some(Column { head, value, show })
}
