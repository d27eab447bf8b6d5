//! Adversaries: does an answer hold when something interferes with the arm that should win?
//!
//! Three arms, of which the first is the only best: the others are 10 % worse. An adversary does harm to trials of the best
//! arm only, to all trials of each second round, or to trials drawn by lot; what a kernel would have seen of it is in the
//! trial. The plan, the order of trials, what voids one, what ends a run and the analysis are those of `tune`.

use iosched_stats::chance::Chance;
use serde::Serialize;

use crate::analysis::{Analysis, Caveat, Conclusion, lead_in};
use crate::fixture;
use crate::interference::{ForeignIo, Interference, Other};
use crate::objective::Objective;
use crate::plan::Plan;
use crate::record::{Entry, Record, StopReason};
use crate::run::{AfterVoid, after_void};
use crate::schedule::{Next, RunProgress};
use crate::trial::{Slot, Trial, VoidReason, VoidTrial};

/// What interferes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adversary {
    /// Nothing.
    None,
    /// A neighbour has 30 % of the disk's time.
    ForeignIo,
    /// A neighbour has 1.5 %, which voids nothing, and costs 15 %, since each of its I/Os is a seek.
    LittleIo,
    /// A neighbour has half of the processors.
    Processors,
    /// A neighbour that no kernel of this machine sees, behind the same storage network, costs 30 %.
    Unseen,
    /// Somebody changes a setting that decides, or changes it and puts it back.
    Setting,
    /// What runs after an arm that is worse is slower by 30 %, and it is led in by itself.
    CarryOver,
    /// The first trial of each round is slower by 30 %.
    Order,
    /// Each third trial is slower by 30 %: as many as there are arms.
    Periodic,
    /// Each trial is slower by 1 % than the one before it.
    Drift,
    /// After the third round the disk is hot, and slower by 30 %.
    Heat,
    /// The numbers are printed as whole ones: 3.3 and 3.0 as 3.
    Rounding,
    /// The best arm's number is 0, and less is better.
    Zeros,
    /// Half of the best arm's trials crash.
    Crashes,
}

/// Which trials it meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tied {
    /// Those of the best arm.
    ToArm,
    /// Those of each second round.
    ToRound,
    /// A quarter of them, by lot.
    ToNothing,
    /// It says so itself.
    ToItself,
}

impl Adversary {
    /// In a table.
    pub(super) fn words(self) -> &'static str {
        match self {
            Adversary::None => "none",
            Adversary::ForeignIo => "neighbour, 30 % of the disk",
            Adversary::LittleIo => "neighbour, 1.5 %, costs 15 %",
            Adversary::Processors => "half of the processors, costs 30 %",
            Adversary::Unseen => "unseen neighbour, costs 30 %",
            Adversary::Setting => "setting flipped",
            Adversary::CarryOver => "carry-over of a worse arm, 30 %",
            Adversary::Order => "first trial of a round, 30 %",
            Adversary::Periodic => "every third trial, 30 %",
            Adversary::Drift => "1 % slower with each trial",
            Adversary::Heat => "30 % slower from round 4",
            Adversary::Rounding => "3.3 and 3.0 printed as 3",
            Adversary::Zeros => "the best number is 0",
            Adversary::Crashes => "half of the best arm's runs crash",
        }
    }
}

impl Tied {
    /// In a table.
    pub(super) fn words(self) -> &'static str {
        match self {
            Tied::ToArm => "arm",
            Tied::ToRound => "round",
            Tied::ToNothing => "lot",
            Tied::ToItself => "",
        }
    }
}

/// How runs with an adversary ended: shares of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Met {
    /// What interfered.
    pub adversary: Adversary,
    /// With which trials.
    pub tied: Tied,
    /// An arm was named that is not the best, without a word on what it was spared.
    pub wrong_winner: f64,
    /// The best arm was named, or that it is to be kept.
    pub right: f64,
    /// The answer was *disturbed*.
    pub disturbed: f64,
    /// Neither.
    pub undecided: f64,
    /// The cause was told: by the answer, by void trials, or by a remark beside it.
    pub told: f64,
    /// Trials of a run on average, void ones included.
    pub trials: f64,
}

/// All that are tried.
pub(super) fn all() -> Vec<(Adversary, Tied)> {
    use Adversary as A;
    use Tied::{ToArm, ToItself, ToNothing, ToRound};
    let tied = [A::ForeignIo, A::LittleIo, A::Processors, A::Setting];
    let tied = tied
        .into_iter()
        .flat_map(|adversary| [ToArm, ToRound, ToNothing].map(|tied| (adversary, tied)));
    let unseen = [ToArm, ToRound].map(|tied| (A::Unseen, tied));
    let free = [
        A::CarryOver,
        A::Order,
        A::Periodic,
        A::Drift,
        A::Heat,
        A::Rounding,
        A::Zeros,
        A::Crashes,
    ];
    let free = free.into_iter().map(|adversary| (adversary, ToItself));
    [(A::None, ToItself)]
        .into_iter()
        .chain(tied)
        .chain(free)
        .chain(unseen)
        .collect()
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    WrongWinner,
    Right,
    Disturbed,
    Undecided,
}

impl End {
    fn of(analysis: &Analysis) -> End {
        let keeps_best = analysis
            .action
            .as_ref()
            .is_some_and(|action| action.arm == BEST);
        let was_spared = analysis.failed_more(&analysis.loads, BEST).is_some();
        match (analysis.conclusion, analysis.choice) {
            (Conclusion::Disturbed, _) => End::Disturbed,
            (_, Some(arm)) if arm != BEST && !was_spared => End::WrongWinner,
            (_, Some(BEST)) => End::Right,
            (_, None) if keeps_best => End::Right,
            _ => End::Undecided,
        }
    }
}

/// Meets an adversary in so many runs.
pub(super) fn meet(adversary: Adversary, tied: Tied, runs: usize, seed: u64) -> Met {
    let mut ends = Vec::with_capacity(runs);
    let (mut told, mut trials) = (0, 0);
    for number in 0..runs {
        let record = Machine::new(adversary, tied, seed, number as u64).run();
        let analysis = Analysis::of(&record);
        ends.push(End::of(&analysis));
        told += usize::from(is_told(&record, &analysis));
        trials += record.trials().count() + record.void_trials().count();
    }
    let share = |count: usize| count as f64 / runs as f64;
    let ended = |as_wanted: End| share(ends.iter().filter(|&&end| end == as_wanted).count());
    Met {
        adversary,
        tied,
        wrong_winner: ended(End::WrongWinner),
        right: ended(End::Right),
        disturbed: ended(End::Disturbed),
        undecided: ended(End::Undecided),
        told: share(told),
        trials: share(trials),
    }
}

/// The arm that is better than the others, and not the baseline.
const BEST: usize = 1;

/// An arm that is worse.
const WORSE: usize = 2;

/// What the others have of its number.
const OF_BEST: f64 = 0.9;

/// Whether something of the run says that there was interference.
fn is_told(record: &Record, analysis: &Analysis) -> bool {
    let is_lead_in = |entry: &Entry| matches!(entry, Entry::LeadIn { .. });
    let tells = |caveat: &Caveat| matches!(caveat, Caveat::OtherPrograms { .. });
    analysis.disturbed.is_some()
        || record.void_trials().next().is_some()
        || record.entries.iter().any(is_lead_in)
        || analysis.caveats.iter().any(tells)
        || !analysis.loads[0].remarks.is_empty()
}

/// A machine with an adversary on it.
struct Machine {
    adversary: Adversary,
    tied: Tied,
    chance: Chance,
    record: Record,
    plan: Plan,
    /// The arm that ran last.
    before: Option<usize>,
    /// Trials so far.
    ran: u32,
}

impl Machine {
    fn new(adversary: Adversary, tied: Tied, seed: u64, run: u64) -> Machine {
        let mut plan = fixture::plan(3);
        plan.seed = seed.wrapping_mul(1_000_003).wrapping_add(run);
        plan.loads[0].objective = match adversary {
            Adversary::Zeros => Objective::NumberLower,
            _ => Objective::NumberHigher,
        };
        let mut record = fixture::record(&plan);
        record.header.machine.cpus = 2;
        Machine {
            adversary,
            tied,
            chance: Chance::new(seed, run),
            record,
            plan,
            before: None,
            ran: 0,
        }
    }

    fn run(mut self) -> Record {
        let plan = self.plan.clone();
        let mut progress = RunProgress::of(&plan, &self.record);
        let stop = loop {
            let slot = match progress.next() {
                Next::Trial(slot) => slot,
                Next::Done(stop) => break stop,
            };
            let entry = self.trial(slot);
            let after = match &entry {
                Entry::Void(void) => Some(after_void(&self.record, void)),
                _ => None,
            };
            let left = match &entry {
                Entry::Void(void) if after == Some(AfterVoid::ArmLeaves) => Some(Entry::ArmLeft {
                    load: slot.load,
                    arm: slot.arm,
                    reason: void.reason.to_string(),
                }),
                _ => None,
            };
            self.record.push(entry);
            self.record.entries.extend(left);
            progress.follow(&self.record);
            if after == Some(AfterVoid::EndRun) {
                break StopReason::Disturbed;
            }
            if after.is_none() && progress.rounds() > slot.round {
                let lead_in = lead_in(&self.plan, &self.record, &progress);
                self.record.entries.extend(lead_in);
                progress.follow(&self.record);
            }
        };
        self.record.push(Entry::Finished {
            at_unix_s: 0.0,
            stop,
            is_cut: stop == StopReason::Disturbed,
        });
        self.record
    }

    /// Whether the adversary is at work during a trial.
    fn is_met(&mut self, slot: Slot) -> bool {
        let drawn = self.chance.uniform() < 0.25;
        match self.tied {
            Tied::ToArm => slot.arm == BEST,
            Tied::ToRound => slot.round % 2 == 1,
            Tied::ToNothing => drawn,
            Tied::ToItself => match self.adversary {
                Adversary::CarryOver => {
                    self.before == Some(WORSE) && (slot.arm == WORSE || self.record.lead_in() == 0)
                }
                Adversary::Order => self
                    .record
                    .trials()
                    .all(|trial| trial.slot.round < slot.round),
                Adversary::Periodic => self.ran.is_multiple_of(3),
                Adversary::Heat => slot.round >= 3,
                Adversary::Crashes => slot.arm == BEST && self.chance.uniform() < 0.5,
                _ => false,
            },
        }
    }

    fn trial(&mut self, slot: Slot) -> Entry {
        let is_met = self.is_met(slot);
        let noise: f64 = 0.02 * self.chance.normal();
        let harm = match self.adversary {
            Adversary::LittleIo => 0.15,
            _ => 0.3,
        };
        let mut value = 100.0 * noise.exp();
        if slot.arm != BEST {
            value *= OF_BEST;
        }
        if is_met {
            value *= 1.0 - harm;
        }
        if self.adversary == Adversary::Drift {
            value *= 0.99_f64.powf(f64::from(self.ran));
        }
        self.before = Some(slot.arm);
        self.ran += 1;
        let mut entry = fixture::trial(slot, 1e6 * value);
        let Entry::Trial(trial) = &mut entry else {
            unreachable!("a trial was made")
        };
        trial.sequence = self.ran;
        self.seen(trial, value, is_met);
        match self.void(trial, is_met) {
            Some(reason) => Entry::Void(VoidTrial {
                slot,
                sequence: self.ran,
                reason,
                elapsed_s: 10.0,
            }),
            None => entry,
        }
    }

    /// What the load says, and what the kernel has seen.
    fn seen(&self, trial: &mut Trial, value: f64, is_met: bool) {
        let (number, unit) = match self.adversary {
            Adversary::Rounding => ((value / 30.0).round(), Some(1.0)),
            Adversary::Zeros if trial.slot.arm == BEST => (0.0, Some(1.0)),
            _ => (value, None),
        };
        trial.metrics.number = Some(number);
        trial.metrics.number_unit = unit;
        let share = match self.adversary {
            Adversary::ForeignIo => 0.3,
            Adversary::LittleIo => 0.015,
            _ => 0.0,
        };
        let share = if is_met { share } else { 0.0 };
        let neighbour = |share| Other {
            pid: 7,
            command: "neighbour".into(),
            processes: 1,
            share,
        };
        trial.measured.others_cpu_ns = Some(0);
        let mut seen = Interference {
            io: Some(ForeignIo {
                share,
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "some I/Os"
                )]
                ios: (trial.measured.reads as f64 * share) as u64,
                by: (share > 0.0)
                    .then(|| neighbour(share))
                    .into_iter()
                    .collect(),
                ..ForeignIo::default()
            }),
            ..Interference::default()
        };
        if is_met && self.adversary == Adversary::Processors {
            // One of two processors.
            trial.measured.others_cpu_ns = Some(trial.phases.load_ns);
            seen.processors.push(neighbour(1.0));
        }
        trial.interference = Some(seen);
    }

    /// Why the trial does not count.
    fn void(&self, trial: &Trial, is_met: bool) -> Option<VoidReason> {
        match self.adversary {
            Adversary::Setting if is_met => Some(VoidReason::StateChanged {
                device: "sda".into(),
                file: "queue/write_cache".into(),
                expected: "write back".into(),
                found: "write through".into(),
            }),
            Adversary::Crashes if is_met => Some(VoidReason::LoadFailed {
                message: "it crashed".into(),
            }),
            _ => {
                let seen = trial.interference.as_ref()?;
                let (tolerance, cpus) =
                    (&self.plan.rules.tolerance, self.record.header.machine.cpus);
                let others = trial.measured.others_cpu_ns;
                let beyond = seen.beyond(tolerance, others, trial.phases.load_ns, cpus)?;
                Some(VoidReason::Disturbed(beyond))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_adversary_that_a_kernel_sees_makes_a_worse_arm_win_and_what_matters_is_told() {
        for (adversary, tied) in all() {
            let met = meet(adversary, tied, 40, 1);
            let is_unseen = adversary == Adversary::Unseen && tied == Tied::ToArm;
            assert_eq!(met.wrong_winner > 0.05, is_unseen, "{met:?}");
            // What leaves the answer right need not be told.
            let is_right = met.right > 0.9 || adversary == Adversary::Rounding || is_unseen;
            assert!(is_right || met.told > 0.95, "{met:?}");
        }
        let quiet = meet(Adversary::None, Tied::ToItself, 100, 2);
        assert!(quiet.told <= 0.05 && quiet.right > 0.99, "{quiet:?}");
    }
}
