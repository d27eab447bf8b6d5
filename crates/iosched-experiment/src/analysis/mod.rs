//! From the record to the answer: pure, from the record alone, the same whenever it is asked.

mod carry;
mod caveat;
mod choice;
mod control;
mod disturbed;
mod rank;
mod summary;

use std::collections::BTreeMap;

use iosched_stats::Interval;
use iosched_stats::race::{Contest, Scale, Standing, Verdict};
use iosched_stats::remarks::{self, Remark};
use serde::Serialize;

pub(crate) use self::carry::lead_in;
pub use self::caveat::Caveat;
pub use self::choice::{Action, RESOLUTION, SideEffect};
pub use self::control::Control;
pub use self::disturbed::Disturbed;
pub use self::rank::Rank;
pub use self::rank::undecided_yet;
pub use self::summary::{ArmSummary, OrderSummary, SplitSummary, Worker};

use self::caveat::caveats;
use self::choice::{action, choose, held_against, losses, side_effects};
use self::control::Turns;
use self::summary::summarise;
use crate::objective::Objective;
use crate::plan::{Plan, Target};
use crate::record::{Record, StopReason};
use crate::schedule;

/// What a run came to, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    /// One arm is surely better than every other.
    Winner,
    /// It makes no difference, or none above the margin, which of several is taken.
    Equal,
    /// It is not known which is best, or there was nothing to compare.
    Undecided,
    /// Others interfered with what decides.
    Disturbed,
}

impl Conclusion {
    fn of(verdict: &Verdict) -> Conclusion {
        match verdict {
            Verdict::Winner { .. } => Conclusion::Winner,
            Verdict::Equal { .. } | Verdict::NearBest { .. } => Conclusion::Equal,
            Verdict::Open | Verdict::Undecided { .. } | Verdict::Alone { .. } | Verdict::Nobody => {
                Conclusion::Undecided
            }
        }
    }
}

/// Everything worked out from a record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// Labels of the arms.
    pub arms: Vec<String>,
    /// Index of the arm that ratios are taken to.
    pub baseline: usize,
    /// Rounds that are complete.
    pub rounds: u32,
    /// Trials that count.
    pub trials: usize,
    /// Trials that do not.
    pub void_trials: usize,
    /// Each load by itself.
    pub loads: Vec<LoadAnalysis>,
    /// Over all loads, where there are several.
    pub overall: Option<Contest>,
    /// What the run came to.
    pub conclusion: Conclusion,
    /// Why there is no answer, where others interfered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<Disturbed>,
    /// Index of the arm to use, if there is one answer.
    pub choice: Option<usize>,
    /// What to do, also while it is undecided, and what it can cost; none before two rounds, or if there is nothing to compare.
    pub action: Option<Action>,
    /// Why the run ended; none while it has not.
    pub stop: Option<StopReason>,
    /// True if the run goes on: known to who read the record from its directory
    /// ([`is_being_written`](crate::record::is_being_written)).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_running: bool,
    /// How the choice compares with the baseline in what does not decide, where that is surely
    /// different, or looks worse: the price of the choice, or what comes with it for free.
    pub side_effects: Vec<SideEffect>,
    /// Settings of the queue that are not the same under all arms, because a switch of scheduler
    /// changes them too.
    pub confounds: Vec<Confound>,
    /// Whether the disks have an arm that travels, by what the kernel or the model says; none if that is not known.
    pub rotational: Option<bool>,
    /// What lets the numbers say less than they seem to.
    pub caveats: Vec<Caveat>,
    /// Time in which no load ran and nothing was prepared, as a share of the whole.
    pub harness_share: f64,
}

/// A setting of the queue that came with the arms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confound {
    /// The file below `queue/`.
    pub setting: String,
    /// Its value under each arm that was measured: (arm, value).
    pub values: Vec<(usize, String)>,
}

/// One load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadAnalysis {
    /// Its name.
    pub name: String,
    /// What decides.
    pub objective: Objective,
    /// What that is for this load, in words.
    #[serde(skip)]
    pub measure: &'static str,
    /// Ratios with their intervals, and the verdict.
    pub contest: Contest,
    /// Each arm's own numbers.
    pub arms: Vec<ArmSummary>,
    /// What looks odd in its trials; none of them was left out because of it.
    pub remarks: Vec<Remark>,
    /// For each arm: what is measured after its trials / what is measured after the others'; none where the order of the
    /// trials does not tell. The intervals hold together.
    pub carried: Vec<Option<Interval>>,
    /// What it says of the measurement, if it is there to show no difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// Turns of a control that say nothing, because its data did not all come from memory.
    #[serde(skip_serializing_if = "is_zero")]
    pub turns_left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Analysis {
    /// Works it out.
    pub fn of(record: &Record) -> Analysis {
        let plan = &record.header.plan;
        let (rounds, Standing { loads, overall, .. }) = schedule::standing_to_report(plan, record);
        let mut loads: Vec<LoadAnalysis> = loads
            .into_iter()
            .enumerate()
            .map(|(load, contest)| LoadAnalysis {
                name: plan.loads[load].name.clone(),
                objective: plan.loads[load].objective,
                measure: plan.loads[load].measure(),
                arms: (0..plan.arms.len())
                    .map(|arm| summarise(plan, record, (load, contest.scale), arm))
                    .collect(),
                remarks: remarks_of(plan, record, load, rounds, &contest),
                carried: carry::carried(plan, record, load),
                control: None,
                turns_left_out: 0,
                contest,
            })
            .collect();
        for (load, found) in loads.iter_mut().enumerate() {
            if plan.loads[load].is_control {
                let turns = Turns::of(plan, record, load);
                found.control = Some(Control::of(&turns, plan.rules.confidence));
                found.turns_left_out = turns.left_out;
            }
        }
        let decisive = overall.as_ref().unwrap_or(&loads[0].contest);
        let disturbed = disturbed::disturbed(plan, record);
        let choice = choose(plan, record, &loads, decisive).filter(|_| disturbed.is_none());
        Analysis {
            action: action(plan, decisive, choice).filter(|_| disturbed.is_none()),
            side_effects: choice
                .and_then(|choice| Some((choice, held_against(decisive, choice, plan.baseline)?)))
                .map_or_else(Vec::new, |(choice, than)| {
                    let mut effects = side_effects(plan, record, choice, than);
                    effects.extend(losses(plan, &loads, choice, than));
                    effects
                }),
            arms: (0..plan.arms.len())
                .map(|arm| plan.arm_label(arm))
                .collect(),
            baseline: plan.baseline,
            rounds,
            trials: record.trials().count(),
            void_trials: record.void_trials().count(),
            conclusion: match disturbed {
                Some(_) => Conclusion::Disturbed,
                None => Conclusion::of(&decisive.verdict),
            },
            disturbed,
            choice,
            loads,
            overall,
            stop: record.stop_reason(),
            is_running: false,
            confounds: confounds(plan, record),
            rotational: rotational(record),
            caveats: caveats(plan, record),
            harness_share: harness_share(record),
        }
    }

    /// True of results of others whose design cannot show what their numbers say (`judge`).
    pub fn is_doubted(&self) -> bool {
        self.conclusion == Conclusion::Disturbed && self.disturbed.is_none()
    }

    /// True if the CPU time per I/O is known, as it is of every real disk.
    pub fn has_cpu_time(&self) -> bool {
        let mut arms = self.loads.iter().flat_map(|load| &load.arms);
        arms.any(|arm| arm.cpu_ns_per_io.is_some())
    }

    /// How many of an arm's trials failed, and how many it had, over these loads; none where another arm that was measured lost
    /// as many.
    pub fn failed_more(&self, loads: &[LoadAnalysis], arm: usize) -> Option<(usize, usize)> {
        let failed = |arm: usize| -> usize {
            let of_arm = loads.iter().map(|load| load.arms[arm].failed_trials);
            of_arm.sum()
        };
        let is_measured = |arm: &usize| loads.iter().all(|load| load.arms[*arm].left.is_none());
        let least = (0..self.arms.len()).filter(is_measured).map(failed).min();
        let counted: usize = loads.iter().map(|load| load.arms[arm].trials).sum();
        (failed(arm) > least?).then(|| (failed(arm), failed(arm) + counted))
    }

    /// The verdict that the run was about: over all loads, or that of the only one.
    pub fn decisive(&self) -> &Contest {
        self.overall.as_ref().unwrap_or(&self.loads[0].contest)
    }
}

/// What looks odd among a load's trials: as far as they have logarithms.
fn remarks_of(
    plan: &Plan,
    record: &Record,
    load: usize,
    rounds: u32,
    contest: &Contest,
) -> Vec<Remark> {
    if contest.scale != Scale::Ratio {
        return Vec::new();
    }
    let objective = plan.loads[load].objective;
    remarks::remarks(&schedule::table(record, load, rounds, objective))
}

/// The settings beside the tunables that differ between arms, by the first trial of each.
fn confounds(plan: &Plan, record: &Record) -> Vec<Confound> {
    let mut values: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    for arm in 0..plan.arms.len() {
        let first = record.trials().find(|trial| trial.slot.arm == arm);
        let Some(state) = first.and_then(|trial| trial.states.first()) else {
            continue;
        };
        let depth = state
            .nr_requests
            .iter()
            .map(|value| ("nr_requests".to_owned(), value.clone()));
        let settings = state
            .settings
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()));
        for (name, value) in depth.chain(settings) {
            let is_asked = plan.arms[arm]
                .tunables
                .iter()
                .any(|(asked, _)| *asked == name);
            if !is_asked {
                values.entry(name).or_default().push((arm, value));
            }
        }
    }
    values
        .into_iter()
        .filter(|(_, values)| values.iter().any(|(_, value)| *value != values[0].1))
        .map(|(setting, values)| Confound { setting, values })
        .collect()
}

/// What the kernel says of the disks, if it says the same of all; of a simulated one its model does.
fn rotational(record: &Record) -> Option<bool> {
    if let Target::Simulated(disk) = &record.header.plan.target {
        return Some(disk.model.rotational());
    }
    let disks = record.header.machine.disks.iter();
    let mut said = disks.map(|disk| {
        disk.queue
            .get("rotational")
            .map(|value| value.trim() == "1")
    });
    let first = said.next()??;
    said.all(|other| other == Some(first)).then_some(first)
}

fn harness_share(record: &Record) -> f64 {
    let total: f64 = record
        .trials()
        .map(|trial| trial.phases.total().as_secs_f64())
        .sum();
    let harness: f64 = record
        .trials()
        .map(|trial| trial.phases.harness_ns as f64 / 1e9)
        .sum();
    if total > 0.0 { harness / total } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{plan, record, trial};
    use crate::plan::{PlannedLoad, Rules};
    use crate::record::Entry;
    use crate::schedule::{Next, next};
    use crate::split::{Parts, Split};

    /// A whole run whose arms are this much faster than the first, with a little noise.
    fn run(factors: &[f64]) -> Analysis {
        let plan = plan(factors.len());
        let mut record = record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = ((slot.round as usize * 7 + slot.arm * 3) % 5) as f64 * 0.002;
            record
                .entries
                .push(trial(slot, 1e6 * factors[slot.arm] * (1.0 + noise)));
        }
        Analysis::of(&record)
    }

    #[test]
    fn the_best_arm_is_chosen_and_its_ratio_stated() {
        let analysis = run(&[1.0, 1.5, 0.7]);
        assert_eq!(analysis.choice, Some(1));
        let ratio = analysis.loads[0].contest.ratio(1, 0).unwrap();
        assert!(
            ratio.lower < 1.5 && ratio.upper > 1.5 && ratio.lower > 1.4,
            "{ratio:?}"
        );
    }

    /// Two beat the baseline; the second is so many times as fast as the first, takes less CPU time, and its
    /// latencies at the 99th percentile are this many times the first's.
    fn two_beat_the_baseline(faster: f64, times: f64, max_rounds: u32) -> Analysis {
        let plan = Plan {
            rules: Rules {
                max_rounds,
                ..Rules::default()
            },
            ..plan(3)
        };
        let mut record = record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = [0.0, 0.06, 0.02, 0.05, 0.01][(slot.round as usize + slot.arm * 2) % 5];
            let factor = [1.0, 2.0, 2.0 * faster][slot.arm];
            let mut entry = trial(slot, 1e6 * factor * (1.0 + noise));
            let Entry::Trial(measured) = &mut entry else {
                unreachable!("a trial was made")
            };
            let metrics = &mut measured.metrics;
            metrics.cpu_ns_per_io = Some([9e4, 6e4, 5e4][slot.arm]);
            let of_all = metrics.all.as_mut().unwrap();
            of_all.p99_ns = 1e6 * [1.0, 1.0, times][slot.arm] * (1.0 + noise);
            record.entries.push(entry);
        }
        Analysis::of(&record)
    }

    #[test]
    fn what_the_choice_over_several_loads_loses_in_one_of_them_is_told() {
        let mut plan = plan(2);
        let other = PlannedLoad {
            name: "sequential-read".into(),
            ..plan.loads[0].clone()
        };
        plan.loads.push(other);
        let mut record = record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = [0.0, 0.01, 0.004][(slot.round as usize + slot.arm) % 3];
            let factor = [1.0, [3.0, 0.8][slot.load]][slot.arm];
            record
                .entries
                .push(trial(slot, 1e6 * factor * (1.0 + noise)));
        }
        let analysis = Analysis::of(&record);
        assert_eq!(analysis.choice, Some(1));
        let told = |effect: &&SideEffect| effect.objective == plan.loads[1].objective;
        let told: Vec<_> = analysis.side_effects.iter().filter(told).collect();
        let [loss] = told.as_slice() else {
            panic!("{told:?}");
        };
        assert!(
            loss.is_proven && loss.load == 1 && loss.ratio.upper < 1.0,
            "{loss:?}"
        );
    }

    #[test]
    fn of_two_that_are_not_told_apart_none_is_chosen_because_it_is_cheap() {
        let analysis = two_beat_the_baseline(1.01, 1.0, 8);
        let verdict = &analysis.decisive().verdict;
        assert!(matches!(verdict, Verdict::Undecided { .. }), "{verdict:?}");
        assert_eq!(analysis.choice, None);
    }

    #[test]
    fn of_equals_the_cheapest_is_chosen_unless_it_is_surely_worse_in_something_else() {
        for (p99, expected) in [(1.0, 2), (25.0, 1)] {
            let analysis = two_beat_the_baseline(1.0, p99, 200);
            let verdict = &analysis.decisive().verdict;
            assert!(matches!(verdict, Verdict::Equal { .. }), "{verdict:?}");
            assert_eq!(analysis.choice, Some(expected));
        }
    }

    /// A run of two arms: the second is twice as fast, and its 99th percentile is this many times the
    /// first's in the rounds, one after the other.
    fn twice_as_fast(p99_times: [f64; 3]) -> Analysis {
        so_fast(2.0, p99_times)
    }

    /// The same with a second arm that is so many times as fast.
    fn so_fast(times: f64, p99_times: [f64; 3]) -> Analysis {
        let plan = plan(2);
        let mut record = record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = [0.0, 0.01, 0.004][slot.round as usize % 3];
            let factor = [1.0, times][slot.arm];
            let mut entry = trial(slot, 1e6 * factor * (1.0 + noise));
            let Entry::Trial(measured) = &mut entry else {
                unreachable!("a trial was made")
            };
            let of_all = measured.metrics.all.as_mut().unwrap();
            of_all.p99_ns = 1e6 * [1.0, p99_times[slot.round as usize % 3]][slot.arm];
            record.entries.push(entry);
        }
        Analysis::of(&record)
    }

    #[test]
    fn a_price_that_is_not_proven_is_shown_as_such_and_a_gift_only_when_it_is_proven() {
        let effects = twice_as_fast([1.2, 3.0, 0.9]).side_effects;
        assert_eq!(effects.len(), 1, "{effects:?}");
        assert_eq!(effects[0].objective, Objective::P99);
        assert!(!effects[0].is_proven && !effects[0].is_good());
        assert!(effects[0].ratio.contains(1.0));
        let effects = twice_as_fast([1.5, 1.51, 1.49]).side_effects;
        assert!(effects[0].is_proven, "{effects:?}");
        assert_eq!(twice_as_fast([0.8, 0.3, 1.1]).side_effects, []);
        assert!(twice_as_fast([0.5, 0.51, 0.49]).side_effects[0].is_good());
    }

    #[test]
    fn a_baseline_that_wins_has_its_price_beside_the_next() {
        let analysis = so_fast(0.5, [0.3, 0.31, 0.29]);
        assert_eq!((analysis.choice, analysis.baseline), (Some(0), 0));
        let [effect] = &analysis.side_effects[..] else {
            panic!("{:?}", analysis.side_effects)
        };
        assert_eq!((effect.than, effect.objective), (1, Objective::P99));
        assert!(effect.is_proven && !effect.is_good(), "{effect:?}");
        // Where it only stays, nothing is given up for it.
        assert_eq!(so_fast(1.0, [0.3, 0.31, 0.29]).side_effects, []);
    }

    #[test]
    fn among_equals_the_baseline_stays() {
        let analysis = run(&[1.0, 1.0005, 0.5]);
        assert!(matches!(analysis.decisive().verdict, Verdict::Equal { .. }));
        assert_eq!(analysis.choice, Some(0));
    }

    #[test]
    fn means_that_stand_beside_one_another_are_of_one_kind() {
        let mut plan = plan(2);
        plan.loads[0].objective = Objective::Time;
        let mut record = record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let is_long = slot.round == 1;
            let mut entry = trial(slot, 1e6 * [1.0, 1.5][slot.arm]);
            let Entry::Trial(trial) = &mut entry else {
                unreachable!("a trial was made")
            };
            let (seconds, reads, each_ms): (u32, u64, u32) =
                if is_long { (11, 1700, 40) } else { (1, 300, 1) };
            trial.metrics.elapsed_s = Some(f64::from(seconds) * [2.0, 1.0][slot.arm]);
            let compiling = 0.9 * trial.metrics.elapsed_s.unwrap();
            trial
                .metrics
                .numbers
                .insert("compiling s".into(), compiling);
            trial.measured.reads = reads;
            trial.measured.read_await_ns = Some(f64::from(each_ms) * 1e6);
            let parts = |ns: u64| (ns * reads, [(ns, reads)].into_iter());
            trial.measured.split = Some(Split {
                read: Some(Parts::counted(
                    reads,
                    parts(0),
                    parts(u64::from(each_ms) * 1_000_000),
                )),
                ..Split::default()
            });
            record.entries.push(entry);
        }
        for arm in &Analysis::of(&record).loads[0].arms {
            let is_part = arm.numbers["compiling s"] / arm.objective_mean.unwrap();
            assert!((is_part - 0.9).abs() < 1e-9, "{arm:?}");
            let split = arm.read_split.unwrap();
            let both = split.queue_mean_ns + split.service_mean_ns;
            assert!(
                (both / arm.read_await_ns.unwrap() - 1.0).abs() < 1e-9,
                "{arm:?}"
            );
        }
    }

    #[test]
    fn percentiles_come_from_the_counts_of_all_trials() {
        let analysis = run(&[1.0, 2.0]);
        let arm = &analysis.loads[0].arms[0];
        assert!(arm.latency_p50_ns.unwrap() <= 1e6 * 1.01);
        assert!(arm.latency_p999_ns.unwrap() > 1.5e6);
    }
}
