//! `iosched conform`: does our scheduler decide what the kernel's did?

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use iosched::failure::exit;
use iosched::simulate::conform::{self, Conformance};
use iosched::simulate::settings::{Checked, Wanted};

use super::{Outcome, boxed};
use crate::output::Output;

/// Arguments of `iosched conform`.
#[derive(Debug, Args)]
pub(crate) struct ConformArgs {
    /// Recordings (text, may be compressed with gzip)
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,

    /// Our scheduler, with tunables where they differ from the kernel's defaults
    #[arg(long, value_name = "NAME[:TUNABLE=VALUE,…]")]
    scheduler: String,

    /// Commands that the recorded device took at a time (default: as the tunables file says, or 1)
    #[arg(long, value_name = "N")]
    queue_depth: Option<usize>,

    /// The recorded device was not rotational
    #[arg(long)]
    non_rotational: bool,

    /// Ticks per second of the recorded kernel (default: 1000)
    #[arg(long, value_name = "N")]
    hz: Option<u32>,

    /// File of lines `path: value` with the tunables and limits of the recorded queue
    #[arg(long, value_name = "FILE")]
    tunables: Option<PathBuf>,

    /// State that the scheduler had when the recording began (cfq: average, last-position)
    #[arg(long, value_name = "NAME=VALUE,…")]
    initial: Option<String>,
}

/// Runs `iosched conform`. With `--json`, one object for each recording, one to a line.
pub(crate) fn run(args: &ConformArgs, output: &Output) -> Outcome {
    let wanted = Wanted {
        scheduler: args.scheduler.clone(),
        tunables: args.tunables.clone(),
        hz: args.hz,
        non_rotational: args.non_rotational,
        queue_depth: args.queue_depth,
        initial: args.initial.clone(),
    };
    let settings = Checked::new(&wanted).map_err(boxed)?;
    for trace in &args.traces {
        let conformance = conform::follow(trace, &settings).map_err(boxed)?;
        if output.is_json() {
            output.json(&conformance);
        } else {
            output.text(&text(&conformance));
        }
    }
    Ok(exit::OK)
}

/// The recording's figures, and the first disagreements in words.
fn text(conformance: &Conformance) -> String {
    let Conformance {
        trace,
        scheduler,
        decisions,
        agreed,
        agreement,
        ..
    } = conformance;
    let mut text = format!(
        "{trace}: {scheduler} agrees on {agreed} of {decisions} decisions ({:.3} %)\n",
        agreement * 100.0
    );
    let counts = [
        (
            conformance.eager,
            "moments where ours would not have held back",
        ),
        (
            conformance.merge_mismatches,
            "merges that only one of the two made",
        ),
        (
            conformance.unexplained,
            "events that do not fit what went before",
        ),
    ];
    for (count, what) in counts.into_iter().filter(|&(count, _)| count > 0) {
        let _ = writeln!(text, "  {count} {what}");
    }
    for one in conformance.first_disagreements.iter().take(5) {
        let _ = writeln!(
            text,
            "  at {:.3} µs: recorded {}, ours {}\n    {}",
            one.time_us, one.recorded, one.ours, one.why
        );
    }
    text
}
