//! Traces as loads of `iosched simulate`: how they are asked for, and what is said of them.

use std::path::PathBuf;

use clap::Args;
use iosched_experiment::simulate::replay::{Loop, TraceOptions, TraceReport};
use iosched_sim::trace::Format;

/// Arguments about a trace.
#[derive(Debug, Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct TraceArgs {
    /// Replay a trace: blktrace, blkparse, fio iolog or MSR
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
    lines
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
