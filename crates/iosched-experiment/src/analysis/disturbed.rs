//! When others interfered with what decides, so that there is no answer, whatever the race says.

use std::collections::BTreeMap;

use iosched_stats::Interval;
use iosched_stats::interval::surely_more;
use serde::Serialize;

use super::carry::surely_carried;
use crate::interference::Other;
use crate::load::Spec;
use crate::plan::Plan;
use crate::record::{Record, StopReason};
use crate::trial::Trial;

/// Why there is no answer although arms were measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Disturbed {
    /// Trials were void for it again and again, and the run ended.
    Trials {
        /// How many did not count.
        void: usize,
        /// What others did in the last of them.
        last: String,
    },
    /// What others did was not the same under all arms: it may be what the arms differ by.
    Arms {
        /// Index of the load.
        load: usize,
        /// `io`, `kernel` (I/O of its threads: write-back, journals) or `cpu`.
        what: &'static str,
        /// The arm with more of it.
        more: usize,
        /// The arm with less of it.
        less: usize,
        /// The difference, as a share of the load's own I/O, of the disk's time, or of the machine's processors.
        difference: f64,
        /// Who it was, the most first; at most three.
        by: Vec<String>,
    },
    /// What an arm leaves behind changes the trial after it: it may be what the arms differ by.
    CarryOver {
        /// Index of the load.
        load: usize,
        /// The arm.
        arm: usize,
        /// How many times as large the objective is after this arm as after the others.
        ratio: Interval,
    },
}

/// The smallest standard deviation of a difference of shares that we believe.
const RESOLUTION: f64 = 0.002;

/// Differences in what kernel threads had of the disk's time that are too small to decide anything.
const OF_KERNEL: f64 = 0.05;

/// Differences in what others had of the processors that are too small to decide anything.
const OF_PROCESSORS: f64 = 0.1;

/// What keeps a record from having an answer, if anything.
pub(super) fn disturbed(plan: &Plan, record: &Record) -> Option<Disturbed> {
    let void = || {
        let reasons = record.void_trials().map(|void| &void.reason);
        reasons.filter(|reason| !reason.is_failure())
    };
    if record.stop_reason() == Some(StopReason::Disturbed) {
        return Some(Disturbed::Trials {
            void: void().count(),
            last: void().last().map_or_else(String::new, ToString::to_string),
        });
    }
    let loads = || 0..plan.loads.len();
    let of_others = loads().find_map(|load| differs(plan, record, load));
    of_others.or_else(|| {
        let (load, arm, ratio) = surely_carried(plan, record)?;
        Some(Disturbed::CarryOver { load, arm, ratio })
    })
}

/// What others had of something during a trial, if that is known.
type Share<'a> = &'a dyn Fn(&Trial) -> Option<f64>;

/// What differs surely between two arms of a load, the probability of a mistake shared between all pairs and both
/// kinds.
fn differs(plan: &Plan, record: &Record, load: usize) -> Option<Disturbed> {
    let arms = plan.arms.len();
    let trials: Vec<&Trial> = record
        .trials()
        .filter(|trial| trial.slot.load == load)
        .collect();
    let pairs = (arms * (arms - 1) / 2).max(1) as f64;
    // Three kinds, each in both directions.
    let level = (1.0 - plan.rules.confidence) / pairs / 6.0 / plan.loads.len() as f64;
    let cpus = record.header.machine.cpus.max(1) as f64;
    let of_all: Vec<(f64, f64)> = trials.iter().filter_map(|trial| own_rate(trial)).collect();
    let mean = |pick: fn(&(f64, f64)) -> f64| {
        let sum: f64 = of_all.iter().map(pick).sum();
        (sum / of_all.len().max(1) as f64).max(f64::MIN_POSITIVE)
    };
    let means = (mean(|rate| rate.0), mean(|rate| rate.1));
    let io = |trial: &Trial| {
        let (ios, bytes) = foreign_rate(trial)?;
        Some((ios / means.0).max(bytes / means.1))
    };
    let cpu = |trial: &Trial| {
        let used = trial.measured.others_cpu_ns? as f64;
        Some(used / trial.phases.load_ns.max(1) as f64 / cpus)
    };
    // Of other loads it may be theirs: what they wrote, and the journal of what they synced.
    let is_direct =
        matches!(plan.loads[load].spec, Spec::JobFile(_)) && !plan.loads[load].open().is_cold();
    let kernel = |trial: &Trial| {
        let io = trial.interference.as_ref()?.io.as_ref()?;
        is_direct.then_some(io.kernel_share)
    };
    let kinds: [(&'static str, f64, Share<'_>); 3] = [
        ("io", 0.0, &io),
        ("kernel", OF_KERNEL, &kernel),
        ("cpu", OF_PROCESSORS, &cpu),
    ];
    for (what, least, share) in kinds {
        let table = by_round(&trials, arms, share);
        if let Some((more, less, difference)) = surely_more(&table, level, least, RESOLUTION) {
            let by = names(&trials, more, what);
            return Some(Disturbed::Arms {
                load,
                what,
                more,
                less,
                difference,
                by,
            });
        }
    }
    None
}

/// The mean of each arm's trials in each round.
fn by_round(trials: &[&Trial], arms: usize, share: Share<'_>) -> Vec<Vec<Option<f64>>> {
    let mut table: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for trial in trials {
        if let Some(value) = share(trial) {
            let row = table
                .entry(trial.slot.round)
                .or_insert_with(|| vec![(0.0, 0.0); arms]);
            let (sum, count) = &mut row[trial.slot.arm];
            *sum += value;
            *count += 1.0;
        }
    }
    let mean = |(sum, count): (f64, f64)| (count > 0.0).then(|| sum / count);
    let rows = table.into_values();
    rows.map(|row| row.into_iter().map(mean).collect())
        .collect()
}

/// I/Os and bytes per second of other programs.
fn foreign_rate(trial: &Trial) -> Option<(f64, f64)> {
    let io = trial.interference.as_ref()?.io.as_ref()?;
    let seconds = trial.phases.load_ns.max(1) as f64 / 1e9;
    Some((io.ios as f64 / seconds, io.bytes as f64 / seconds))
}

/// I/Os and bytes per second of all.
fn own_rate(trial: &Trial) -> Option<(f64, f64)> {
    foreign_rate(trial)?;
    let (measured, seconds) = (&trial.measured, trial.phases.load_ns.max(1) as f64 / 1e9);
    let ios = measured.reads + measured.writes;
    let bytes = measured.read_bytes + measured.write_bytes;
    Some((ios as f64 / seconds, bytes as f64 / seconds))
}

/// Who interfered most with an arm's trials, by name.
fn names(trials: &[&Trial], arm: usize, what: &str) -> Vec<String> {
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    let of_arm = trials.iter().filter(|trial| trial.slot.arm == arm);
    for seen in of_arm.filter_map(|trial| trial.interference.as_ref()) {
        let others: &[Other] = match (what, &seen.io) {
            ("io", Some(io)) => &io.by,
            ("io", None) | ("kernel", _) => &[],
            _ => &seen.processors,
        };
        for other in others {
            *shares.entry(&other.command).or_default() += other.share;
        }
    }
    let mut names: Vec<(&str, f64)> = shares.into_iter().collect();
    names.sort_by(|a, b| b.1.total_cmp(&a.1));
    names
        .into_iter()
        .take(3)
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Analysis, Conclusion, lead_in};
    use super::*;
    use crate::fixture::{plan, record, trial};
    use crate::interference::{Disturbance, ForeignIo, Interference};
    use crate::record::Entry;
    use crate::schedule::{Next, RunProgress, next};
    use crate::trial::{VoidReason, VoidTrial};

    /// A run whose second arm is twice as fast, while another program does so many I/Os under each arm.
    fn run(foreign: [u64; 2], processors: [u64; 2]) -> Analysis {
        let plan = plan(2);
        let mut record = record(&plan);
        record.header.machine.cpus = 2;
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = [0.0, 0.01, 0.004][slot.round as usize % 3];
            let mut entry = trial(slot, 1e6 * [1.0, 2.0][slot.arm] * (1.0 + noise));
            let Entry::Trial(measured) = &mut entry else {
                unreachable!("a trial was made")
            };
            let seconds = measured.phases.load_ns / 1_000_000_000;
            measured.measured.reads = 1000;
            measured.measured.read_bytes = 1 << 20;
            measured.measured.others_cpu_ns = Some(processors[slot.arm] * seconds);
            measured.interference = Some(Interference {
                io: Some(ForeignIo {
                    ios: foreign[slot.arm] + u64::from(slot.round % 2),
                    by: vec![Other {
                        command: "updatedb".into(),
                        share: 0.01,
                        ..Other::default()
                    }],
                    ..ForeignIo::default()
                }),
                ..Interference::default()
            });
            record.entries.push(entry);
        }
        Analysis::of(&record)
    }

    #[test]
    fn no_arm_wins_by_what_others_did_under_one_of_them_only() {
        let quiet = run([0, 0], [0, 0]);
        assert_eq!(
            (quiet.conclusion, quiet.choice),
            (Conclusion::Winner, Some(1))
        );
        // The same for both disturbs both.
        assert_eq!(run([100, 100], [0, 0]).conclusion, Conclusion::Winner);
        let analysis = run([100, 0], [0, 0]);
        assert_eq!(
            (analysis.conclusion, analysis.choice),
            (Conclusion::Disturbed, None)
        );
        let Some(Disturbed::Arms {
            more: 0,
            what: "io",
            by,
            ..
        }) = &analysis.disturbed
        else {
            panic!("{:?}", analysis.disturbed)
        };
        assert_eq!(by, &["updatedb"]);
        let analysis = run([0, 0], [0, 900_000_000]);
        assert!(
            matches!(
                analysis.disturbed,
                Some(Disturbed::Arms {
                    more: 1,
                    what: "cpu",
                    ..
                })
            ),
            "{:?}",
            analysis.disturbed
        );
        assert_eq!(run([0, 0], [0, 90_000_000]).conclusion, Conclusion::Winner);
    }

    /// A run in which one arm is 10 % slower, and slows by 30 % the run after it, or all runs of the trial after it.
    fn run_after_a_slow_arm(goes: bool, seed: u64) -> (Analysis, Record) {
        let mut plan = plan(2);
        plan.seed = seed;
        let mut record = record(&plan);
        let mut before = 0;
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = [0.0, 0.01, 0.004][record.entries.len() % 3];
            if goes && record.lead_in() > 0 {
                before = slot.arm;
            }
            let left = [1.0, 0.7][before];
            let value = 1e6 * [1.0, 0.9][slot.arm] * left * (1.0 + noise);
            before = slot.arm;
            record.entries.push(trial(slot, value));
            let progress = RunProgress::of(&plan, &record);
            if progress.rounds() > slot.round {
                let lead_in = lead_in(&plan, &record, &progress);
                record.entries.extend(lead_in);
            }
        }
        (Analysis::of(&record), record)
    }

    #[test]
    fn what_an_arm_leaves_behind_is_led_in_until_it_is_gone_and_the_arm_that_stays_wins() {
        // It makes itself slower, too: an arm that stays is 0.63 times the other one.
        for seed in 0..20 {
            let (analysis, record) = run_after_a_slow_arm(true, seed);
            assert_ne!(analysis.choice, Some(1), "seed {seed}");
            assert_eq!(analysis.conclusion, Conclusion::Winner, "seed {seed}");
            if record.lead_in() > 0 {
                let ratio = analysis.loads[0].contest.ratio(1, 0).unwrap();
                assert!(ratio.contains(0.63), "seed {seed}: {ratio:?}");
            }
        }
        let led_in = |seed: u64| run_after_a_slow_arm(true, seed).1.lead_in() == 1;
        assert!((0..20).any(led_in));
    }

    #[test]
    fn what_does_not_go_has_no_answer() {
        let found = (0..20).map(|seed| run_after_a_slow_arm(false, seed));
        let mut found = found.filter(|(_, record)| record.lead_in() == 2);
        let (analysis, _) = found.next().unwrap();
        assert_eq!(
            (analysis.conclusion, analysis.choice),
            (Conclusion::Disturbed, None)
        );
    }

    #[test]
    fn a_run_that_ended_for_it_has_no_answer() {
        let plan = plan(2);
        let mut record = record(&plan);
        let Next::Trial(slot) = next(&plan, &record) else {
            panic!("nothing to run")
        };
        record.entries.push(Entry::Void(VoidTrial {
            slot,
            sequence: 0,
            reason: VoidReason::Disturbed(Disturbance {
                what: "io".into(),
                share_ppm: 123_000,
                by: vec!["dd (pid 7)".into()],
            }),
            elapsed_s: 1.0,
        }));
        record.entries.push(Entry::Finished {
            at_unix_s: 0.0,
            stop: StopReason::Disturbed,
            is_cut: true,
        });
        let analysis = Analysis::of(&record);
        assert_eq!(analysis.conclusion, Conclusion::Disturbed);
        let last = "dd (pid 7) had 12.3 % of the disk's time".to_owned();
        assert_eq!(
            analysis.disturbed,
            Some(Disturbed::Trials { void: 1, last })
        );
    }
}
