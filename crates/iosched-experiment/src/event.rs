//! All that a run says while it works: for a progress bar, for JSON lines, for a test's `Vec`.

use iosched_stats::Interval;
use iosched_stats::race::Standing;
use iosched_switch::Adjusted;
use serde::Serialize;

use crate::analysis::Analysis;
use crate::plan::Plan;
use crate::record::StopReason;
use crate::trial::{Trial, VoidTrial};
use iosched_switch::journal::Undone;

/// Something happened.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum RunEvent<'a> {
    /// The plan stands and the run begins.
    Started {
        /// The plan.
        plan: &'a Plan,
        /// Where the record is kept.
        directory: &'a std::path::Path,
        /// Trials that are in the record already (a resumed run).
        trials_done: usize,
    },
    /// Test files are written, before the first trial.
    Preparing {
        /// What, in words.
        what: &'a str,
    },
    /// A load was run once more to see whether it is steady.
    SteadyRun {
        /// Name of the load.
        load: &'a str,
        /// Bytes per second of each run so far.
        throughput_bytes_per_s: &'a [f64],
        /// True if the last of them make a steady window.
        is_steady: bool,
    },
    /// The kernel took a value otherwise than an arm wants it.
    Adjusted {
        /// Label of the arm.
        arm: &'a str,
        /// What became of it.
        adjusted: &'a Adjusted,
    },
    /// The kernel counts nothing for a disk: its `queue/iostats` is 0.
    NotCounted {
        /// Kernel name.
        disk: &'a str,
    },
    /// The loads moved the directory that they worked in: it was not removed.
    Moved {
        /// Where it was made.
        directory: &'a str,
        /// Where it is.
        now: &'a str,
    },
    /// The I/O of other programs is not told apart from the load's.
    NotWatched {
        /// The cause, as a clause of the message.
        reason: &'a str,
    },
    /// Where requests spend their time is not recorded, or no longer.
    NoSplit {
        /// The cause, as a clause of the message.
        reason: &'a str,
    },
    /// A trial begins.
    TrialStarted {
        /// Label of the arm.
        arm: &'a str,
        /// Name of the load.
        load: &'a str,
        /// Counted from 1.
        round: u32,
        /// How long the load will run, s.
        expected_s: f64,
        /// How long the rest of the run takes at the most, this trial included, s: a bound where there is a budget
        /// of time, else what its rounds so far tell, and nothing before there is one.
        at_most_s: Option<f64>,
    },
    /// The load of a trial runs; about ten times a second.
    Tick {
        /// Since the load started, s.
        elapsed_s: f64,
    },
    /// A trial counts, and is in the record on disk.
    TrialEnded {
        /// Label of the arm.
        arm: &'a str,
        /// Name of the load.
        load: &'a str,
        /// What it measured, histograms included.
        trial: &'a Trial,
    },
    /// Trials surely depend on the arm before them: they begin anew, each led in by runs that do not count.
    LeadIn {
        /// Label of the arm that leaves something behind.
        arm: &'a str,
        /// Name of the load.
        load: &'a str,
        /// What was measured after this arm / what was measured after the others.
        ratio: Interval,
        /// Runs before each trial from now on.
        runs: u32,
    },
    /// A trial does not count; the record on disk says so.
    TrialVoid {
        /// Label of the arm.
        arm: &'a str,
        /// Name of the load.
        load: &'a str,
        /// Which, and why.
        trial: &'a VoidTrial,
        /// False if it was tried often enough, and its arm leaves.
        is_repeated: bool,
    },
    /// An arm cannot be measured under a load and leaves it.
    ArmLeft {
        /// Label of the arm.
        arm: &'a str,
        /// Name of the load.
        load: &'a str,
        /// The cause, as a clause of the message.
        reason: &'a str,
    },
    /// A round is complete: what is known so far.
    Estimate {
        /// Rounds that are complete.
        rounds: u32,
        /// Where the race stands after them.
        standing: &'a Standing,
    },
    /// The disks are as before.
    Restored {
        /// What became of each.
        undone: &'a [Undone],
    },
    /// The run came to its end.
    Finished {
        /// The reason that ended it.
        stop: StopReason,
        /// The answer.
        analysis: &'a Analysis,
    },
}

/// Somebody who wants to know.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: &RunEvent<'_>);
}

/// Nobody wants to know.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: &RunEvent<'_>) {}
}
