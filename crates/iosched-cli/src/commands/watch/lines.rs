//! A sample as a table of text, 80 columns wide.

use std::fmt::Write as _;

use iosched_machine::watch::latency::{LatencySample, Parts};
use iosched_machine::watch::{DeviceSample, Rates, Sample};

/// The heading of every table.
pub(super) const HEADING: &str =
    "DEVICE   SCHEDULER       r/s     w/s  rMB/s  wMB/s r_await w_await aqu-sz  %util";

/// The heading where [`HEADING`] is too wide.
pub(super) const NARROW_HEADING: &str = "DEVICE   SCHEDULER      IO/s   MB/s   await  %util";

pub(super) fn table(sample: &Sample) -> String {
    let mut text = format!("{HEADING}\n");
    for device in &sample.devices {
        let _ = writeln!(text, "{}", line(device));
    }
    text
}

/// A device's line.
pub(super) fn line(device: &DeviceSample) -> String {
    let scheduler = device.scheduler.as_deref().unwrap_or("-");
    let head = format!("{:<8} {scheduler:<11}", device.device);
    match &device.rates {
        Some(rates) => format!("{head} {}", numbers(rates)),
        None => format!("{head} gone, or not yet seen for a whole interval"),
    }
}

/// A device's line below [`NARROW_HEADING`].
pub(super) fn narrow_line(device: &DeviceSample) -> String {
    let scheduler = device.scheduler.as_deref().unwrap_or("-");
    let head = format!("{:<8} {scheduler:<11}", device.device);
    match &device.rates {
        Some(rates) => format!(
            "{head} {:>7} {:>6} {:>7} {:>6.1}",
            short(rates.ios_per_s()),
            short(rates.bytes_per_s() / 1e6),
            milliseconds(rates.await_ns()),
            rates.utilisation * 100.0
        ),
        None => format!("{head} gone"),
    }
}

fn numbers(rates: &Rates) -> String {
    format!(
        "{:>7} {:>7} {:>6} {:>6} {:>7} {:>7} {:>6} {:>6.1}",
        short(rates.read.ios_per_s),
        short(rates.write.ios_per_s),
        short(rates.read.bytes_per_s / 1e6),
        short(rates.write.bytes_per_s / 1e6),
        milliseconds(rates.read.await_ns),
        milliseconds(rates.write.await_ns),
        short(rates.queue_length),
        rates.utilisation * 100.0,
    )
}

/// A number that is at least zero, in at most six characters, with what decimals fit.
pub(super) fn short(number: f64) -> String {
    match number {
        n if n < 99.995 => format!("{n:.2}"),
        n if n < 9999.95 => format!("{n:.1}"),
        n if n < 999_999.5 => format!("{n:.0}"),
        n => format!("{:.1}M", n / 1e6),
    }
}

/// A time in ms; a dash where nothing was timed.
pub(super) fn milliseconds(nanos: Option<f64>) -> String {
    nanos.map_or_else(|| "-".to_owned(), |ns| short(ns / 1e6))
}

/// What reads and writes took, a line each.
pub(super) fn split_lines(sample: &LatencySample) -> Vec<String> {
    let line = |name: &str, parts: &Parts| {
        let whole = parts.queue_ns.zip(parts.service_ns);
        let whole = whole.map(|(queue, service)| queue + service);
        format!(
            "{name:<6} {:>7}: {:>6} ms = queue {:>6} + service {:>6}",
            parts.requests,
            milliseconds(whole),
            milliseconds(parts.queue_ns),
            milliseconds(parts.service_ns)
        )
    };
    vec![line("reads", &sample.read), line("writes", &sample.write)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_sizes_keep_their_column() {
        for (number, shown) in [
            (0.0, "0.00"),
            (99.99, "99.99"),
            (99.999, "100.0"),
            (9999.94, "9999.9"),
            (9999.96, "10000"),
            (3_420_000.0, "3.4M"),
        ] {
            assert_eq!(short(number), shown);
            assert!(short(number).len() <= 6);
        }
        assert_eq!(milliseconds(None), "-");
    }

    #[test]
    fn a_table_is_at_most_80_columns_wide() {
        let device = DeviceSample {
            device: "nvme10n1".into(),
            scheduler: Some("mq-deadline".into()),
            offered: Vec::new(),
            rates: Some(Rates {
                queue_length: 12_345.6,
                utilisation: 1.0,
                ..Rates::default()
            }),
        };
        assert!(HEADING.len() <= 80);
        assert_eq!(line(&device).len(), HEADING.len());
        assert_eq!(narrow_line(&device).len(), NARROW_HEADING.len());
    }
}
