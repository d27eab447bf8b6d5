//! What pgbench prints and logs, as numbers.
//!
//! Follows the manual of pgbench 10 to 17 ("Per-Transaction Logging" and the examples of its report).

use crate::metrics::Flow;

/// Bits of a latency that are kept in a bin: 64 bins per power of two, as fio has them.
const KEPT_BITS: u32 = 7;

/// What the report at the end says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Report {
    /// Transactions per second, the time to connect not counted.
    pub(crate) tps: f64,
    /// Transactions that were committed.
    pub(crate) transactions: u64,
}

impl Report {
    /// Reads it; `None` if it is not there.
    pub(crate) fn read(stdout: &str) -> Option<Report> {
        let line = |start: &str| {
            let line = stdout.lines().find(|line| line.starts_with(start))?;
            Some(line[start.len()..].trim())
        };
        // Up to 13 there are two lines of tps, the second without the time to connect.
        let tps = stdout
            .lines()
            .filter_map(|line| line.strip_prefix("tps = "))
            .filter(|line| !line.contains("including connections"))
            .find_map(|line| line.split(' ').next()?.parse().ok())?;
        let processed = line("number of transactions actually processed:")?;
        let processed = processed.split('/').next()?;
        Some(Report {
            tps,
            transactions: processed.parse().ok()?,
        })
    }
}

/// The transactions of a log: `client transaction latency_us script second microsecond …`. Those
/// that failed or were skipped have a word in place of the latency, and are left out.
pub(crate) fn transactions(logs: &[String], tps: f64) -> Option<Flow> {
    let latencies = logs.iter().flat_map(|log| log.lines()).filter_map(|line| {
        let latency_us = line.split_ascii_whitespace().nth(2)?;
        latency_us.parse::<u64>().ok()?.checked_mul(1000)
    });
    Flow::of_latencies(latencies, bin, |_| tps)
}

/// The middle of the bin of a value: at most 0.8 % off.
fn bin(value: u64) -> u64 {
    let bits = u64::BITS - value.leading_zeros();
    let width = 1 << bits.saturating_sub(KEPT_BITS);
    value / width * width + width / 2
}

/// The fewest transactions in a whole second, from `--progress=1`: how bad a stall was.
pub(crate) fn slowest_second(stderr: &str) -> Option<f64> {
    let lines = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("progress: "));
    let tps = lines.filter_map(|line| {
        let (number, _) = line.split_once(" s, ")?.1.split_once(" tps")?;
        number.parse::<f64>().ok()
    });
    tps.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT_15: &str = "\
pgbench (15.18)
number of transactions actually processed: 80/80
number of failed transactions: 0 (0.000%)
latency average = 12.272 ms
initial connection time = 8.333 ms
tps = 282.351280 (without initial connection time)
";

    const REPORT_9: &str = "\
number of transactions actually processed: 100000/100000
tps = 1644.104024 (including connections establishing)
tps = 1644.228715 (excluding connections establishing)
";

    #[test]
    fn tps_without_the_time_to_connect_is_read_from_old_and_new_reports() {
        let read = |text| {
            let report = Report::read(text).unwrap();
            format!("{} {}", report.tps, report.transactions)
        };
        assert_eq!(read(REPORT_15), "282.35128 80");
        assert_eq!(read(REPORT_9), "1644.228715 100000");
        assert_eq!(Report::read("pgbench: error: no"), None);
    }

    #[test]
    fn latencies_come_from_all_logs_and_what_failed_is_left_out() {
        let logs = [
            "1 1 15328 0 1795254045 960196\n0 1 35406 0 1795254045 980267\n".to_owned(),
            "2 1 failed 0 1795254045 1\n3 1 10000 0 1795254045 956181\n".to_owned(),
        ];
        let flow = transactions(&logs, 5.0).unwrap();
        assert_eq!((flow.ios, flow.latency_max_ns), (3, 35_406_000));
        let mean = (15_328.0 + 35_406.0 + 10_000.0) * 1000.0 / 3.0;
        assert!((flow.latency_mean_ns - mean).abs() < 1.0);
        assert!(transactions(&[String::new()], 5.0).is_none());
    }

    #[test]
    fn a_bin_is_within_one_percent_of_its_values() {
        for value in (0..100_000)
            .step_by(7)
            .chain([u64::from(u32::MAX), 1 << 60])
        {
            let off = bin(value).abs_diff(value) as f64 / (value.max(1)) as f64;
            assert!(off <= 0.008, "{value}: {}", bin(value));
        }
    }

    #[test]
    fn the_slowest_second_is_the_worst_of_the_progress_lines() {
        let stderr = "pgbench: note\nprogress: 1.0 s, 15.0 tps, lat 8.7 ms stddev 3.2, 0 failed\n\
                      progress: 2.0 s, 3.0 tps, lat 98.7 ms stddev 3.2, 0 failed\n";
        assert_eq!(slowest_second(stderr), Some(3.0));
    }
}
