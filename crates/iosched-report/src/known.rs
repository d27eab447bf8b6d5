//! The tables that people know: the iozone sweep's tab-separated log, its 2/1/0 points, and the
//! table with the baseline at 100.
//!
//! They are printed because people compare them with what they have. They decide nothing here:
//! points count a difference of 0.1 % like one of 30 %, and neither table has intervals.

use std::fmt::Write as _;

use iosched_experiment::analysis::Analysis;
use iosched_experiment::objective::Objective;
use iosched_experiment::plan::PlannedLoad;
use iosched_experiment::record::Record;
use iosched_experiment::schedule;
use iosched_stats::points;
use iosched_stats::race::Better;

use super::table::{Align, Table};

/// The sweep's log: `Test`, `Throughput (KB/s)`, `I/O Scheduler`, `Threads`, `n`, one row per
/// trial, in KiB per second as iozone has it.
pub fn sweep_log(record: &Record) -> String {
    let plan = &record.header.plan;
    let mut text = String::from("Test\tThroughput (KB/s)\tI/O Scheduler\tThreads\tn\n");
    for trial in record.trials() {
        let _ = writeln!(
            text,
            "{}\t{:.2}\t{}\t{}\t{}",
            test_name(&plan.loads[trial.slot.load]),
            trial.metrics.throughput_bytes_per_s / 1024.0,
            plan.arm_label(trial.slot.arm),
            trial.jobs.len(),
            trial.slot.round + 1,
        );
    }
    text
}

fn test_name(load: &PlannedLoad) -> &str {
    load.test.as_deref().unwrap_or(&load.name)
}

/// Points per load and arm over all rounds, as text.
pub fn points(record: &Record, width: usize) -> String {
    format!(
        "\nPoints (each round: one for every arm that is beaten)\n{}",
        points_table(record).render(width)
    )
}

/// Points per load and arm over all rounds: in each round an arm gets one for every arm it beats.
pub(super) fn points_table(record: &Record) -> Table {
    let plan = &record.header.plan;
    let mut table = by_load(record, "points");
    for (load, planned) in plan.loads.iter().enumerate() {
        let rows = schedule::table(record, load, rounds(record), planned.objective);
        let mut sums = points::sums(&rows, better(planned.objective));
        sums.resize(plan.arms.len(), 0.0); // no round, no row
        let mut row = vec![planned.name.clone()];
        row.extend(sums.iter().map(ToString::to_string));
        table.push(row);
    }
    table
}

/// The objective per load and arm with the baseline at 100, as text.
pub fn normalised(record: &Record, analysis: &Analysis, width: usize) -> String {
    format!(
        "\n{} = 100\n{}",
        analysis.arms[analysis.baseline],
        normalised_table(record, analysis).render(width)
    )
}

/// The objective per load and arm with the baseline at 100; more is better.
pub(super) fn normalised_table(record: &Record, analysis: &Analysis) -> Table {
    let mut table = by_load(record, "baseline = 100");
    for load in &analysis.loads {
        let values: Vec<Option<f64>> = load.arms.iter().map(|arm| arm.objective).collect();
        let of_100 = points::baseline_100(&values, analysis.baseline, better(load.objective));
        let mut row = vec![load.name.clone()];
        row.extend(
            of_100
                .iter()
                .map(|value| value.map_or("-".into(), |value| format!("{value:.0}"))),
        );
        table.push(row);
    }
    table
}

/// A table with a row per load and a column per arm.
fn by_load(record: &Record, head: &str) -> Table {
    let plan = &record.header.plan;
    let mut table = Table::new([(head, Align::Left)]);
    for arm in 0..plan.arms.len() {
        table.column(&plan.arm_label(arm), Align::Right);
    }
    table
}

fn better(objective: Objective) -> Better {
    if objective.higher_is_better() {
        Better::Higher
    } else {
        Better::Lower
    }
}

fn rounds(record: &Record) -> u32 {
    record
        .trials()
        .map(|trial| trial.slot.round + 1)
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_experiment::fixture;
    use iosched_experiment::trial::Slot;

    fn measured() -> (Record, Analysis) {
        let plan = fixture::plan(3);
        let mut record = fixture::record(&plan);
        for round in 0..3 {
            for (arm, throughput) in [1024.0 * 100.0, 1024.0 * 150.0, 1024.0 * 50.0]
                .into_iter()
                .enumerate()
            {
                record.entries.push(fixture::trial(
                    Slot {
                        load: 0,
                        round,
                        arm,
                    },
                    throughput,
                ));
            }
        }
        let analysis = Analysis::of(&record);
        (record, analysis)
    }

    #[test]
    fn a_record_without_a_trial_has_its_tables_too() {
        let plan = fixture::plan(3);
        let record = fixture::record(&plan);
        assert!(points(&record, 80).contains("random-read"));
        assert!(normalised(&record, &Analysis::of(&record), 80).contains("random-read"));
    }

    #[test]
    fn the_sweep_log_has_the_five_columns_and_a_row_per_trial() {
        let (record, _) = measured();
        let log = sweep_log(&record);
        let mut lines = log.lines();
        assert_eq!(
            lines.next(),
            Some("Test\tThroughput (KB/s)\tI/O Scheduler\tThreads\tn")
        );
        assert_eq!(lines.next(), Some("random-read\t100.00\tnone\t1\t1"));
        assert_eq!(log.lines().count(), 10);
    }

    #[test]
    fn the_best_of_three_gets_two_points_a_round_and_the_worst_none() {
        let (record, _) = measured();
        let text = points(&record, 80);
        assert!(
            text.lines()
                .any(|line| line.split_whitespace().eq(["random-read", "3", "6", "0"])),
            "{text}"
        );
    }

    #[test]
    fn the_baseline_is_100() {
        let (record, analysis) = measured();
        let text = normalised(&record, &analysis, 80);
        assert!(
            text.lines().any(|line| line.split_whitespace().eq([
                "random-read",
                "100",
                "150",
                "50"
            ])),
            "{text}"
        );
    }
}
