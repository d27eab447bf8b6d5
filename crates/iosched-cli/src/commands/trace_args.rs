//! Traces, as loads of `iosched simulate` and by themselves: how they are asked for, and what is said of them.

use std::path::PathBuf;

use clap::Args;
use iosched_experiment::simulate::replay::{
    Loop, TraceFigures, TraceOptions, TraceReport, TracedDirection,
};
use iosched_experiment::simulate::run::Times;
use iosched_report::table::{Align, Table};
use iosched_sim::trace::Format;
use iosched_sim::units::Bytes;

/// Arguments about a trace.
#[derive(Debug, Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct TraceArgs {
    /// Replay a trace: blktrace, blkparse, block events of ftrace, perf or trace-cmd, fio iolog, MSR or SYSTOR
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Format of the trace, if it is not recognised (docs/simulate.md lists them)
    #[arg(long, value_name = "FORMAT", requires = "trace", value_parser = parse_format, hide_short_help = true)]
    trace_format: Option<Format>,

    /// Device to replay from a trace of several; `all` places them one after the other on the disk
    #[arg(long, value_name = "NAME", requires = "trace", hide_short_help = true)]
    trace_device: Option<String>,

    /// Keep recorded waits, not recorded times
    #[arg(
        long,
        requires = "trace",
        conflicts_with = "speed",
        long_help = "Issue each access when those that its process waited for are done, not at its recorded time"
    )]
    closed: bool,

    /// Replay this many times as fast
    #[arg(long, value_name = "FACTOR", requires = "trace", value_parser = parse_speed)]
    speed: Option<f64>,

    /// Fold accesses beyond the disk's end onto the disk
    #[arg(long, requires = "trace")]
    wrap: bool,
}

fn parse_format(text: &str) -> Result<Format, String> {
    Format::named(text).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("there are: {}", names.join(", "))
    })
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().ok();
    speed
        .filter(|speed| (1e-6..=1e6).contains(speed))
        .ok_or_else(|| "a number from 0.000001 to 1000000 is wanted".into())
}

impl TraceArgs {
    /// What is to be replayed, if anything.
    pub(crate) fn options(&self) -> Option<TraceOptions> {
        let path = self.trace.clone()?;
        Some(TraceOptions {
            path,
            format: self.trace_format,
            device: self.trace_device.clone(),
            wrap: self.wrap,
            closed: self.closed,
            speed: self.speed,
        })
    }
}

/// What was found in a trace, line by line.
pub(crate) fn describe(trace: &TraceReport) -> Vec<String> {
    let how = match trace.mode {
        Loop::Open if (trace.speed - 1.0).abs() < 1e-9 => "each at its time".to_owned(),
        Loop::Open => format!("at {} times the speed", trace.speed),
        Loop::Closed => "in closed loops".to_owned(),
    };
    let (format, accesses) = (&trace.format, trace.accesses);
    let seconds = trace.duration_ns as f64 / 1e9;
    let mut lines = vec![format!(
        "trace: {format}, {accesses} accesses in {seconds:.1} s, {how}"
    )];
    if trace.made == "issued" {
        lines.push("  without submissions: made when the driver took them".to_owned());
    }
    lines.extend(found(trace));
    lines
}

/// What else was found in it.
fn found(trace: &TraceReport) -> Vec<String> {
    let mut lines = Vec::new();
    let skipped = trace.skipped.iter();
    let skipped = skipped.map(|(reason, count)| format!("{count} {reason}"));
    lines.extend(listed("  skipped: ", skipped));
    let remarks = [
        (trace.other_devices, "records of other devices left out"),
        (
            trace.late,
            "records too late to be put in order: made where they stand",
        ),
        (
            trace.unanswered,
            "accesses whose answer is not in the trace",
        ),
    ];
    let remarks = remarks.iter().filter(|(count, _)| *count > 0);
    lines.extend(remarks.map(|(count, what)| format!("  {count} {what}")));
    if let Some(size) = trace.short_size {
        let (end, gib) = (Bytes::new(trace.reach_bytes), size >> 30);
        lines.push(format!(
            "  it ends at {end}, far below the disk's end: the arm travels little; --size {gib}G makes a disk of that size"
        ));
    }
    if trace.may_lack_fua {
        lines.push(
            "  no FUA writes: Linux 6.19 and later leave them out of blktrace's version 7".into(),
        );
        lines.push("  (a blktrace of version 8, or block events of ftrace have them)".into());
    }
    lines
}

/// Traces in figures: what each is, then a table with all of them below one another, by direction.
pub(crate) fn figures(traces: &[(String, TraceFigures)], width: usize) -> String {
    let mut text = String::new();
    for (name, figures) in traces {
        let trace = &figures.trace;
        let (seconds, end) = (
            trace.duration_ns as f64 / 1e9,
            Bytes::new(trace.reach_bytes),
        );
        let (format, accesses, devices) = (&trace.format, trace.accesses, trace.devices.join(", "));
        let what = format!(
            "{name}: {format}, {accesses} accesses in {seconds:.1} s on {devices}, up to {end}"
        );
        for line in std::iter::once(what).chain(found(trace)) {
            text += &line;
            text.push('\n');
        }
    }
    let mut table = Table::new([("", Align::Left), ("trace", Align::Left)]);
    for head in [
        "MB/s",
        "IOPS",
        "KiB each",
        "sequential",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "max ms",
        "at disk ms",
        "p99 at disk",
    ] {
        table.column(head, Align::Right);
    }
    for is_read in [true, false] {
        for (name, figures) in traces {
            let (direction, found) = if is_read {
                ("read", &figures.read)
            } else {
                ("write", &figures.write)
            };
            let name = if traces.len() > 1 { name } else { "" };
            if let Some(found) = found {
                table.push(figures_row(direction, name, found));
            }
        }
    }
    text + "\n" + &table.render(width)
}

fn figures_row(direction: &str, name: &str, found: &TracedDirection) -> Vec<String> {
    let ms = |times: Option<Times>, of: fn(&Times) -> u64| {
        times.map_or(String::new(), |times| {
            format!("{:.3}", of(&times) as f64 / 1e6)
        })
    };
    let (latency, service) = (found.latency, found.service);
    vec![
        direction.to_owned(),
        name.to_owned(),
        format!("{:.2}", found.bytes_per_second / 1e6),
        format!("{:.0}", found.iops),
        format!("{:.1}", found.mean_bytes / 1024.0),
        format!("{:.0} %", found.sequential_share * 100.0),
        ms(latency, |times| times.mean_ns),
        ms(latency, |times| times.p50_ns),
        ms(latency, |times| times.p99_ns),
        ms(latency, |times| times.max_ns),
        ms(service, |times| times.mean_ns),
        ms(service, |times| times.p99_ns),
    ]
}

/// Items after a heading, in as many lines as they need.
fn listed(heading: &str, items: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            None => lines.push(format!("{heading}{item}")),
            Some(line) => {
                line.push(',');
                if line.chars().count() + item.chars().count() < WIDTH {
                    line.push(' ');
                    line.push_str(&item);
                } else {
                    lines.push(" ".repeat(heading.len()) + &item);
                }
            }
        }
    }
    lines
}

/// Columns of a line.
const WIDTH: usize = 78;
