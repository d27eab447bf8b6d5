//! Tidy data: one row per trial that counts, one column per number, units in the names.

use std::fmt::Write as _;

use crate::record::Record;
use crate::trial::{Latency, Trial};

const COLUMNS: &str = "load,round,arm,sequence,started_unix_s,load_s,throughput_bytes_per_s,iops,\
read_bytes_per_s,write_bytes_per_s,latency_mean_ns,latency_p50_ns,latency_p99_ns,latency_p999_ns,\
latency_max_ns,read_latency_mean_ns,read_latency_p99_ns,write_latency_mean_ns,write_latency_p99_ns,\
fairness,cpu_ns_per_io,disk_reads,disk_writes,disk_reads_merged,disk_writes_merged,read_await_ns,\
write_await_ns,average_queue_length,utilisation,pressure_some_ns,pressure_full_ns";

/// The trials of a record as CSV (RFC 4180). Numbers that a trial does not have are empty.
pub fn trials(record: &Record) -> String {
    let mut text = String::from(COLUMNS);
    text.push('\n');
    for trial in record.trials() {
        let _ = writeln!(text, "{}", row(record, trial).join(","));
    }
    text
}

fn row(record: &Record, trial: &Trial) -> Vec<String> {
    let plan = &record.header.plan;
    let (metrics, measured) = (&trial.metrics, &trial.measured);
    let latency = |of: Option<&Latency>, number: fn(&Latency) -> f64| optional(of.map(number));
    vec![
        quoted(&plan.loads[trial.slot.load].name),
        (trial.slot.round + 1).to_string(),
        quoted(&plan.arm_label(trial.slot.arm)),
        trial.sequence.to_string(),
        format!("{:.3}", trial.started_unix_s),
        (trial.phases.load_ns as f64 / 1e9).to_string(),
        metrics.throughput_bytes_per_s.to_string(),
        metrics.iops.to_string(),
        metrics.read_bytes_per_s.to_string(),
        metrics.write_bytes_per_s.to_string(),
        latency(metrics.all.as_ref(), |l| l.mean_ns),
        latency(metrics.all.as_ref(), |l| l.p50_ns),
        latency(metrics.all.as_ref(), |l| l.p99_ns),
        latency(metrics.all.as_ref(), |l| l.p999_ns),
        latency(metrics.all.as_ref(), |l| l.max_ns),
        latency(metrics.read.as_ref(), |l| l.mean_ns),
        latency(metrics.read.as_ref(), |l| l.p99_ns),
        latency(metrics.write.as_ref(), |l| l.mean_ns),
        latency(metrics.write.as_ref(), |l| l.p99_ns),
        optional(metrics.fairness),
        optional(metrics.cpu_ns_per_io),
        measured.reads.to_string(),
        measured.writes.to_string(),
        measured.reads_merged.to_string(),
        measured.writes_merged.to_string(),
        optional(measured.read_await_ns),
        optional(measured.write_await_ns),
        measured.average_queue_length.to_string(),
        measured.utilisation.to_string(),
        optional(measured.pressure_some_ns),
        optional(measured.pressure_full_ns),
    ]
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// A cell in quotes where it needs them: arms with several tunables have commas.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::switch::Arm;
    use crate::trial::Slot;

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        let plan = fixture::plan(2);
        let mut record = fixture::record(&plan);
        record.entries.push(fixture::trial(
            Slot {
                load: 0,
                round: 0,
                arm: 1,
            },
            5e6,
        ));
        let text = trials(&record);
        let cells: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(cells, [31, 31]);
        assert!(text.contains("\nrandom-read,1,mq-deadline,"));
    }

    #[test]
    fn an_arm_with_commas_is_quoted() {
        let mut plan = fixture::plan(2);
        plan.arms[1] = Arm::parse("bfq:low_latency=0,slice_idle=0").unwrap();
        let mut record = fixture::record(&plan);
        record.entries.push(fixture::trial(
            Slot {
                load: 0,
                round: 0,
                arm: 1,
            },
            5e6,
        ));
        assert!(trials(&record).contains(",\"bfq:low_latency=0,slice_idle=0\","));
    }
}
