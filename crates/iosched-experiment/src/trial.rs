//! A trial: one load under one arm, once; what it measured, or why it does not count.

use std::time::Duration;

use iosched_stats::fairness;
use iosched_switch::QueueState;
use serde::{Deserialize, Serialize};

use crate::interference::{Disturbance, Interference};
use crate::load::Outcome;
use crate::measure::Measured;
use crate::metrics::count;
pub use crate::metrics::latency_histogram;
pub use crate::metrics::{Flow, JobResult, Latency, Metrics};

/// Where a trial stands in the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slot {
    /// Index of the load in the plan.
    pub load: usize,
    /// Counted from 0.
    pub round: u32,
    /// Index of the arm in the plan.
    pub arm: usize,
}

/// One load under one arm, once, as it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which trial of the plan this is.
    #[serde(flatten)]
    pub slot: Slot,
    /// How many trials ran before it, void ones included.
    pub sequence: u32,
    /// Seconds since 1970 when the load started.
    pub started_unix_s: f64,
    /// How long each part of it took.
    pub phases: Phases,
    /// The state of each switched disk while the load ran, in the order of the plan.
    pub states: Vec<QueueState>,
    /// What the kernel counted while the load ran.
    pub measured: Measured,
    /// What the load's workers saw.
    pub jobs: Vec<JobResult>,
    /// The numbers that arms are compared by, worked out of the above.
    pub metrics: Metrics,
    /// Until when the latencies were counted that percentiles are of, s, if the load still ran then: what was under way at the end
    /// is not among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_s: Option<f64>,
    /// Its run time, s, where that was chosen as the run went on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_s: Option<f64>,
    /// What others did meanwhile; none where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interference: Option<Interference>,
    /// Commands of other runs that were alive when the load ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
}

/// How long each part of a trial took, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// Setting the arm and reading it back.
    pub switch_ns: u64,
    /// Writing back dirty pages, dropping caches, the load's own preparation.
    pub prepare_ns: u64,
    /// The load, from the start of its process to its end.
    pub load_ns: u64,
    /// Everything else: reading counters and states, saving the record.
    pub harness_ns: u64,
}

impl Phases {
    /// From the end of the trial before to the end of this one.
    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.switch_ns + self.prepare_ns + self.load_ns + self.harness_ns)
    }
}

/// A trial that does not count, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VoidTrial {
    /// Which trial of the plan this was.
    #[serde(flatten)]
    pub slot: Slot,
    /// How many trials ran before it, void ones included.
    pub sequence: u32,
    /// Why it does not count.
    pub reason: VoidReason,
    /// How long it took, s: it counts into the budget of time.
    #[serde(default)]
    pub elapsed_s: f64,
}

/// Why a trial does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum VoidReason {
    /// Something else changed the queue while the load ran.
    StateChanged {
        /// Kernel name.
        device: String,
        /// File below `/sys/block/<device>/`.
        file: String,
        /// What we had set and read back.
        expected: String,
        /// What stood there after the load.
        found: String,
    },
    /// Others used what the load was to have.
    Disturbed(Disturbance),
    /// The load failed.
    LoadFailed {
        /// Its words.
        message: String,
    },
    /// The load ran, but a number that decides is missing, zero or not a number.
    BadMetric {
        /// The objective.
        objective: String,
        /// What was found.
        found: String,
    },
}

impl VoidReason {
    /// True if the load itself is at fault, and nothing that interfered.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(
            self,
            VoidReason::LoadFailed { .. } | VoidReason::BadMetric { .. }
        )
    }
}

impl std::fmt::Display for VoidReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VoidReason::StateChanged {
                device,
                file,
                expected,
                found,
            } => write!(
                f,
                "another process changed {file} of {device} during the trial: {expected} was set, \
                 {found} was found"
            ),
            VoidReason::Disturbed(disturbance) => write!(f, "{disturbance}"),
            VoidReason::LoadFailed { message } => write!(f, "the load failed: {message}"),
            VoidReason::BadMetric { objective, found } => {
                write!(
                    f,
                    "the load's {objective} is {found}, which is no measurement"
                )?;
                match found.as_str() {
                    "0" => {
                        f.write_str(": it did nothing, or was over within the tick of its clock")
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

impl Metrics {
    /// Works the numbers out of what the load and the kernel saw. Where the load counts no I/O of
    /// its own, rates are those of the disk.
    pub(crate) fn of(outcome: &Outcome, measured: &Measured, elapsed: Duration) -> Metrics {
        let flows = |pick: fn(&JobResult) -> Vec<&Flow>| -> Vec<&Flow> {
            outcome.jobs.iter().flat_map(pick).collect()
        };
        let reads = flows(|job| job.read.iter().collect());
        let writes = flows(|job| job.write.iter().collect());
        let transactions = flows(|job| job.transactions.iter().collect());
        let all = flows(JobResult::flows);
        let rates = Rates::of(outcome, measured, outcome.virtual_time.unwrap_or(elapsed));
        let operations = count(&all);
        // What the CPU time is shared out over: what the load counts, or the disk's requests.
        let operations = match operations {
            _ if outcome.counts_a_part => measured.reads + measured.writes,
            0 => measured.reads + measured.writes,
            counted => counted,
        };
        let shares = shares(outcome);
        let has_shares = shares.len() > 1 && transactions.is_empty();
        let others_cpu_ns = measured.others_cpu_ns.unwrap_or(0);
        let own_cpu_ns = measured.cpu_busy_ns.saturating_sub(others_cpu_ns);
        Metrics {
            throughput_bytes_per_s: rates.read_bytes_per_s
                + rates.write_bytes_per_s
                + rates.trim_bytes_per_s,
            iops: rates.iops,
            read_bytes_per_s: rates.read_bytes_per_s,
            write_bytes_per_s: rates.write_bytes_per_s,
            all: Latency::of(&all),
            read: Latency::of(&reads),
            write: Latency::of(&writes),
            fairness: has_shares.then(|| fairness::jain(&shares)).flatten(),
            // Without what other programs used. A simulated machine has no processors that could be busy.
            cpu_ns_per_io: (operations > 0 && own_cpu_ns > 0)
                .then(|| own_cpu_ns as f64 / operations as f64),
            transactions_per_s: (!transactions.is_empty())
                .then(|| transactions.iter().map(|flow| flow.iops).sum()),
            elapsed_s: outcome.elapsed_s,
            number: outcome.number,
            number_unit: outcome.number_unit,
            numbers: outcome.numbers.clone(),
        }
    }
}

/// What each worker got, for Jain's index: its rate, and where not all ran together, its part of the mean rate of those of its
/// stage; a worker that is alone in its stage has nobody to share with.
fn shares(outcome: &Outcome) -> Vec<f64> {
    let rates = outcome.jobs.iter().map(|job| bytes_per_s(&job.flows()));
    let Some(stages) = &outcome.stages else {
        return rates.collect();
    };
    let rates: Vec<(usize, f64)> = stages.of_workers.iter().copied().zip(rates).collect();
    let shares = rates.iter().filter_map(|&(stage, rate)| {
        let of_stage = rates.iter().filter(|(other, _)| *other == stage);
        let of_stage: Vec<f64> = of_stage.map(|(_, rate)| *rate).collect();
        let sum: f64 = of_stage.iter().sum();
        (of_stage.len() > 1 && sum > 0.0).then(|| rate * of_stage.len() as f64 / sum)
    });
    shares.collect()
}

/// I/O per second: what the load's workers counted, or what the disk did.
struct Rates {
    read_bytes_per_s: f64,
    write_bytes_per_s: f64,
    trim_bytes_per_s: f64,
    iops: f64,
}

impl Rates {
    fn of(outcome: &Outcome, measured: &Measured, elapsed: Duration) -> Rates {
        let jobs = &outcome.jobs;
        let of = |pick: fn(&JobResult) -> &Option<Flow>| -> Vec<&Flow> {
            jobs.iter().filter_map(|job| pick(job).as_ref()).collect()
        };
        let (reads, writes, trims) = (
            of(|job| &job.read),
            of(|job| &job.write),
            of(|job| &job.trim),
        );
        let counts_nothing = reads.is_empty() && writes.is_empty() && trims.is_empty();
        if counts_nothing || outcome.counts_a_part {
            return Rates::of_disk(measured, elapsed.as_secs_f64());
        }
        let all: Vec<&Flow> = [&reads[..], &writes, &trims].concat();
        let Some(stages) = &outcome.stages else {
            return Rates {
                read_bytes_per_s: bytes_per_s(&reads),
                write_bytes_per_s: bytes_per_s(&writes),
                trim_bytes_per_s: bytes_per_s(&trims),
                iops: all.iter().map(|flow| flow.iops).sum(),
            };
        };
        // Rates of what did not run together do not add up.
        let seconds = stages.active.as_secs_f64().max(1e-3);
        let of_bytes = |flows: &[&Flow]| {
            let bytes = flows.iter().map(|flow| flow.bytes);
            bytes.fold(0, u64::saturating_add) as f64 / seconds
        };
        Rates {
            read_bytes_per_s: of_bytes(&reads),
            write_bytes_per_s: of_bytes(&writes),
            trim_bytes_per_s: of_bytes(&trims),
            iops: count(&all) as f64 / seconds,
        }
    }

    fn of_disk(measured: &Measured, elapsed_s: f64) -> Rates {
        let rate = |count: u64| {
            if elapsed_s > 0.0 {
                count as f64 / elapsed_s
            } else {
                0.0
            }
        };
        Rates {
            read_bytes_per_s: rate(measured.read_bytes),
            write_bytes_per_s: rate(measured.write_bytes),
            trim_bytes_per_s: 0.0,
            iops: rate(measured.reads + measured.writes),
        }
    }
}

fn bytes_per_s(flows: &[&Flow]) -> f64 {
    flows.iter().fold(0.0, |sum, flow| sum + flow.bytes_per_s)
}
