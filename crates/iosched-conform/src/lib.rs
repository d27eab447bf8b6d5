//! Follows a recording of a kernel's scheduler, and counts where ours decides the same.
//!
//! Our scheduler is given the recorded inserts, merges and completions at their times. Whenever the
//! recording shows that a request was dispatched, ours is asked; where it names another one, that is a
//! disagreement, and the recorded one is dispatched, so that the next decision is again made from the
//! recording's state. A dispatch that gave nothing leaves no line but may change the scheduler's state:
//! ours is asked wherever the kernel runs the queue; if it then dispatches a request where the kernel
//! held back, that is an *eager* moment.
//!
//! The two block layers ask the scheduler at different moments: [`single_queue`] follows kernels before 5.0,
//! [`multi_queue`] those with blk-mq. `phase` finds where the recorded kernel's ticks began. [`of_single_queue`] and
//! [`of_multi_queue`] do all of it for a recording that may be read as often as needed.
//!
//! Pure, as the simulator is: callers bring the lines.

#![forbid(unsafe_code)]

mod exact;
mod follow;
pub mod multi_queue;
mod phase;
mod recording;
mod settings;
pub mod single_queue;

pub use exact::{Beside, Exact};
pub use follow::{Conformance, History, StartState, Told, of_multi_queue, of_single_queue};
pub use phase::best_phase;
pub use settings::Settings;

use iosched_facts::units::{Nanos, Sector, Sectors};
use iosched_sim::request::{Op, ProcessId, Request};
use serde::{Deserialize, Serialize};

/// What is issued or dispatched later than this after the queue could have been run was not by that run: it had another
/// cause (a timer), whose time we know.
const SAME_RUN: Nanos = Nanos::from_micros(200);

/// Most requests under way in a recording: no queue has more, so that of more the older half were lost from it. Each choice
/// is tried on a copy of what the scheduler has.
const MOST_UNDER_WAY: usize = 1 << 14;

/// Disagreements that are kept in words.
const KEPT: usize = 20;

/// Where ours decided otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disagreement {
    /// Time in the recording, in microseconds.
    pub time_us: f64,
    /// What was recorded.
    pub recorded: String,
    /// What ours dispatched.
    pub ours: String,
}

/// What came out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Requests that the recorded scheduler dispatched.
    pub decisions: u64,
    /// Decisions in which ours dispatched the same request. `issued_out_of_order` to `ended` are kinds of these that agree
    /// only if the recording is not taken literally.
    pub agreed: u64,
    /// Decisions in which two requests or more could be dispatched: with one there is nothing to agree on.
    pub with_choice: u64,
    /// Those on which ours agreed.
    pub agreed_with_choice: u64,
    /// Issued after the next decision's request, while another processor held them: where two processors
    /// dispatch at a time, the order of issue need not be that of the decisions.
    pub issued_out_of_order: u64,
    /// Chosen while requests that were chosen before still waited for a tag, by several processors at once (bfq,
    /// where the recording does not show choices).
    pub chosen_ahead: u64,
    /// Alike if the completions or the tick just before came after the choice had begun.
    pub interrupted: u64,
    /// Alike if a process that had done its last request ended a little earlier than is inferred (bfq).
    pub ended: u64,
    /// Decisions before the first disagreement.
    #[serde(skip)]
    pub agreed_at_first: u64,
    /// Moments where ours would have dispatched a request and the recorded one held back.
    pub eager: u64,
    /// Bios that were merged and ours would not have been, or otherwise.
    pub merge_mismatches: u64,
    /// Events that do not fit what went before (completions of unknown requests and the like), and requests that were given up
    /// because more were under way than any queue has.
    pub unexplained: u64,
    /// Times that the recorded scheduler changed one of its depths (kyber).
    pub depth_changes: u64,
    /// Those that ours made too, in the same tick and to the same depth.
    pub depth_changes_agreed: u64,
    /// Where the first request lay that the recorded scheduler dispatched (single-queue).
    #[serde(skip)]
    pub first_position: Option<Sector>,
    /// At most twenty.
    pub first_disagreements: Vec<Disagreement>,
}

impl Report {
    /// Share of decisions on which ours agreed; none of no decision.
    pub fn agreement(&self) -> Option<f64> {
        (self.decisions > 0).then(|| self.agreed as f64 / self.decisions as f64)
    }

    /// The same of the decisions in which there was a choice.
    pub fn agreement_with_choice(&self) -> Option<f64> {
        (self.with_choice > 0).then(|| self.agreed_with_choice as f64 / self.with_choice as f64)
    }

    fn decided(&mut self, has_choice: bool) {
        self.decisions += 1;
        self.with_choice += u64::from(has_choice);
    }

    fn agreed(&mut self, has_choice: bool) {
        self.agreed += 1;
        self.agreed_with_choice += u64::from(has_choice);
    }

    /// Keeps a disagreement in words, if it is among the first; `make` is called only then.
    fn disagree(&mut self, make: impl FnOnce() -> Disagreement) {
        if self.first_disagreements.len() < KEPT {
            self.first_disagreements.push(make());
        }
    }
}

/// A request in words.
fn describe(op: Op, start: Sector, length: Sectors, process: ProcessId) -> String {
    let kind = match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Discard => "discard",
    };
    let (start, length) = (start.as_u64(), length.as_u64());
    format!("{kind} {start} + {length} of process {}", process.0)
}

/// What ours would have dispatched, in words.
fn describe_ours(ours: Option<&Request>) -> String {
    ours.map_or("nothing yet".to_owned(), |request| {
        let Request {
            op,
            start,
            length,
            process,
            ..
        } = *request;
        describe(op, start, length, process)
    })
}
