//! How long the trials of a load should be, by what they say of themselves: from plan and trials alone.
//!
//! A trial's own course says how well it knows its mean ([`iosched_stats::autocorrelation`]), the rounds say how much trials differ, and
//! the race says what it takes to tell arms apart with such noise ([`iosched_stats::trial_length`]).
//!
//! Only for loads that run for a time that is given, decided by what a course counts: throughput and IOPS. A trial is never to be
//! shorter than it takes to forget what it began with, nor than its beginning differs between arms from the rest: that would be another
//! question (a write cache that fills, requests that expire after seconds).

use std::collections::{BTreeMap, BTreeSet};

use iosched_stats::autocorrelation::series_mean;
use iosched_stats::trial_length::{Question, TrialNoise};
use serde::Serialize;

use crate::course::Course;
use crate::plan::{Plan, TRIAL_OVERHEAD, Target};
use crate::trial::Trial;

/// Lengths that are proposed, s.
const LENGTHS: [f64; 20] = [
    1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0,
    300.0, 600.0, 1200.0, 3600.0,
];

/// Nothing is proposed that is longer than the plan's trials by more than this factor.
const MOST_TIMES_LONGER: f64 = 6.0;

/// No trial is made shorter than so many times what it takes to forget.
const LEAST_TIMES_CORRELATED: f64 = 20.0;

/// A trial has at least so many accesses, of which percentiles are.
const LEAST_ACCESSES: f64 = 200.0;

/// Another length is worth its while if it saves this part of the time.
const LEAST_SAVING: f64 = 0.2;

/// Of shorter trials nothing is said, s: no run of ours has such, but a record may be anybody's.
const SHORTEST_TRIAL: f64 = 1e-3;

/// What trials say of their noise by their course weighs as much as so many degrees of freedom of what rounds say.
const WEIGHT_OF_COURSES: f64 = 4.0;

/// How long the trials of a load should be, and why.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TrialLength {
    /// How long they are, s: in the last round, where that was chosen as the run went on.
    pub length_s: f64,
    /// Standard error of a trial of that length by its own course, as a part of its mean.
    pub within: f64,
    /// How long a load remembers, s: twice the integrated autocorrelation time; no more than a slice where it remembers nothing.
    pub autocorrelation_s: f64,
    /// By how much trials differ however long they are, as a part of their mean.
    pub between: f64,
    /// What a trial takes besides, s.
    pub overhead_s: f64,
    /// Rounds after which this is known.
    pub rounds: u32,
    /// How long they should be, s; the same where no other length is worth its while.
    pub best_s: f64,
    /// The part of the time until the answer that this would save.
    pub saves: f64,
}

impl TrialLength {
    /// Whether they should be another length by a factor of two or more.
    pub fn is_far_off(&self) -> bool {
        let factor = self.best_s / self.length_s;
        !(0.5 < factor && factor < 2.0)
    }
}

/// What the trials of a load have said so far.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LengthStudy {
    load: usize,
    samples: Vec<Sample>,
}

/// What one trial says.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    round: u32,
    arm: usize,
    /// Logarithm of what decides.
    merit: f64,
    length_s: f64,
    overhead_s: f64,
    course: Option<CourseSays>,
}

/// What its course says, where there is enough of it.
#[derive(Debug, Clone, PartialEq)]
struct CourseSays {
    /// Relative variance of the trial's mean.
    squared_error: f64,
    autocorrelation_s: f64,
    /// That beyond which slices of its course are independent: 0 if they all are.
    remembers_s: f64,
    accesses_per_s: f64,
    /// Logarithm of the mean of its beginning over that of all, for [`LENGTHS`] that are shorter than it.
    heads: Vec<f64>,
}

impl LengthStudy {
    /// Of a load, before its first trial; `None` if nothing can be said of such a load.
    pub(crate) fn new(plan: &Plan, load: usize) -> Option<LengthStudy> {
        let planned = &plan.loads[load];
        let is_asked = planned.objective.has_course()
            && planned.spec.runs_for_a_time()
            && planned.spec.times_of_its_own().is_none();
        is_asked.then(|| LengthStudy {
            load,
            samples: Vec::new(),
        })
    }

    /// Takes a trial of the load in.
    pub(crate) fn add(&mut self, plan: &Plan, trial: &Trial) {
        self.samples.extend(Sample::of(plan, trial));
    }

    /// How long its trials of a round ran, as far as any did, s.
    pub(crate) fn length_in(&self, round: u32) -> Option<f64> {
        let mut samples = self.samples.iter();
        let in_round = samples.find(|sample| sample.round == round);
        in_round.map(|sample| sample.length_s)
    }

    /// The same of the last round before this one, s.
    pub(crate) fn length_before(&self, round: u32) -> Option<f64> {
        let before = self.samples.iter().filter(|sample| sample.round < round);
        before
            .max_by_key(|sample| sample.round)
            .map(|sample| sample.length_s)
    }

    /// Arms of which a trial of a round ran.
    fn arms_in(&self, round: u32) -> Vec<usize> {
        let in_round = self.samples.iter().filter(|sample| sample.round == round);
        let arms: BTreeSet<usize> = in_round.map(|sample| sample.arm).collect();
        arms.into_iter().collect()
    }

    /// Whether the trials of a round would have been longer if there had been time: the run time is chosen as the run goes on.
    pub(crate) fn is_cut_in(&self, plan: &Plan, round: u32) -> bool {
        let wanted = self.judge(plan, round, &self.arms_in(round));
        wanted
            .zip(self.length_in(round))
            .is_some_and(|(wanted, length)| length < wanted.best_s)
    }

    /// What follows for the trials of these arms, of the rounds that are complete.
    pub(crate) fn judge(&self, plan: &Plan, rounds: u32, arms: &[usize]) -> Option<TrialLength> {
        self.judge_within(plan, rounds, arms, &|_| true)
    }

    /// The same, of lengths for which there is time: of one that `fits`, s. Where even trials as long as before do not fit, the
    /// longest that do are best, whether they save anything or not.
    pub(crate) fn judge_within(
        &self,
        plan: &Plan,
        rounds: u32,
        arms: &[usize],
        fits: &dyn Fn(f64) -> bool,
    ) -> Option<TrialLength> {
        let samples: Vec<&Sample> = self
            .samples
            .iter()
            .filter(|sample| sample.round < rounds && arms.contains(&sample.arm))
            .collect();
        let courses: Vec<(&Sample, &CourseSays)> = samples
            .iter()
            .filter_map(|sample| Some((*sample, sample.course.as_ref()?)))
            .collect();
        let seen: BTreeSet<usize> = courses.iter().map(|(sample, _)| sample.arm).collect();
        let now = self.length_before(rounds)?;
        if seen.len() < 2 || seen.len() < arms.len() {
            return None;
        }
        let table = Table::of(&samples);
        let noise = table.noise(&courses);
        let question = Question {
            distance: table.distance(noise.of_length(now), plan.rules.margin.ln())?,
            level: level(plan),
            arms: arms.len(),
            min_rounds: iosched_stats::race::Rules::default().min_rounds,
        };
        // The mean of the arm in which it is largest.
        let most = |number: fn(&CourseSays) -> f64| {
            let of_arm = seen.iter().map(|&arm| {
                let of_arm = courses.iter().filter(|(sample, _)| sample.arm == arm);
                let numbers: Vec<f64> = of_arm.map(|(_, says)| number(says)).collect();
                numbers.iter().sum::<f64>() / numbers.len() as f64
            });
            of_arm.fold(0.0, f64::max)
        };
        let besides = samples.iter().map(|sample| sample.overhead_s);
        let overhead_s = besides.sum::<f64>() / samples.len() as f64;
        let shortest = (LEAST_TIMES_CORRELATED * most(|says| says.remembers_s))
            .max(plan.ramp_s)
            .max(LEAST_ACCESSES * most(|says| 1.0 / says.accesses_per_s.max(1e-9)));
        let longest = plan.loads[self.load].runtime_s? * MOST_TIMES_LONGER;
        let cost = |length: f64| question.cost(noise, length, overhead_s);
        let present = cost(now)?;
        // Where the plan's rounds are not enough even so, a few more of shorter trials are not worse.
        let most_rounds = (present.rounds * 5 / 4).max(plan.rounds_at_most() as usize);
        let lengths = LENGTHS
            .into_iter()
            .filter(|length| (shortest..=longest).contains(length))
            .filter(|&length| {
                length > now || is_like_the_whole(&courses, &seen, length, plan.rules.margin)
            })
            .filter(|&length| fits(length));
        let longest_that_fits = lengths.clone().last();
        let candidates = lengths
            .filter_map(cost)
            .filter(|cost| cost.rounds <= most_rounds);
        let cheapest = candidates.min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let saves = cheapest.map_or(0.0, |cheapest| 1.0 - cheapest.seconds / present.seconds);
        let best_s = match cheapest.filter(|_| saves >= LEAST_SAVING) {
            Some(best) => best.length_s,
            None if fits(now) => now,
            None => longest_that_fits.unwrap_or(now),
        };
        Some(TrialLength {
            length_s: now,
            within: noise.within_one_second / now.sqrt(),
            autocorrelation_s: most(|says| says.autocorrelation_s),
            between: noise.between,
            overhead_s,
            rounds,
            best_s,
            saves: if saves >= LEAST_SAVING { saves } else { 0.0 },
        })
    }
}

impl Sample {
    fn of(plan: &Plan, trial: &Trial) -> Option<Sample> {
        let planned = &plan.loads[trial.slot.load];
        let length_s = trial.runtime_s.or(planned.runtime_s)?;
        let merit = planned.objective.of(&trial.metrics)?.ln();
        let is_simulated = matches!(plan.target, Target::Simulated(_));
        let overhead_s = if is_simulated {
            TRIAL_OVERHEAD.as_secs_f64() // virtual time has none, and is to say what a disk would
        } else {
            (trial.phases.total().as_secs_f64() - length_s).max(0.0)
        };
        let course = trial.measured.course.as_ref();
        let course = course.and_then(|course| {
            let series = course.running(planned.objective, plan.ramp_s);
            CourseSays::of(course, &series, length_s)
        });
        (length_s >= SHORTEST_TRIAL && merit.is_finite()).then_some(Sample {
            round: trial.slot.round,
            arm: trial.slot.arm,
            merit,
            length_s,
            overhead_s,
            course,
        })
    }
}

impl CourseSays {
    fn of(course: &Course, series: &[f64], length_s: f64) -> Option<CourseSays> {
        let found = series_mean(series)?;
        let seen_s = course.slice_s * series.len() as f64;
        let ios = course.ios.iter();
        let ios = ios.fold(0_u64, |sum, ios| sum.saturating_add(*ios));
        let heads = LENGTHS.into_iter().take_while(|length| *length < seen_s);
        let heads = heads.map(|length| {
            let slices = slices_of(length, course.slice_s).clamp(1, series.len());
            let head = series[..slices].iter().sum::<f64>() / slices as f64;
            (head.max(f64::MIN_POSITIVE) / found.mean).ln()
        });
        let says = CourseSays {
            squared_error: found.relative_error.powi(2) * seen_s / length_s,
            autocorrelation_s: found.inefficiency * course.slice_s,
            remembers_s: (found.inefficiency - 1.0).max(0.0) * course.slice_s,
            accesses_per_s: ios as f64 / (course.slice_s * course.ios.len() as f64),
            heads: heads.collect(),
        };
        let numbers = [says.squared_error, says.accesses_per_s];
        numbers
            .iter()
            .all(|number| number.is_finite())
            .then_some(says)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of slices, bounded by who asks"
)]
fn slices_of(length_s: f64, slice_s: f64) -> usize {
    (length_s / slice_s).round() as usize
}

/// Whether beginnings of this length have the ratios between arms that whole trials have, as far as can be told.
fn is_like_the_whole(
    courses: &[(&Sample, &CourseSays)],
    arms: &BTreeSet<usize>,
    length: f64,
    margin: f64,
) -> bool {
    let at = LENGTHS
        .iter()
        .position(|one| one.total_cmp(&length).is_eq());
    let shifts = arms.iter().filter_map(|&arm| {
        let of_arm = courses.iter().filter(|(sample, _)| sample.arm == arm);
        let heads: Vec<(f64, f64)> = of_arm
            .filter_map(|(sample, says)| {
                let part = (sample.length_s / length - 1.0).max(0.0);
                Some((*says.heads.get(at?)?, says.squared_error * part))
            })
            .collect();
        let count = heads.len() as f64;
        let shift = heads.iter().map(|head| head.0).sum::<f64>() / count;
        let variance = heads.iter().map(|head| head.1).sum::<f64>() / count / count;
        (count > 0.0).then_some((shift, variance))
    });
    let shifts: Vec<(f64, f64)> = shifts.collect();
    let mean = shifts.iter().map(|shift| shift.0).sum::<f64>() / shifts.len() as f64;
    let tolerated = |variance: f64| (margin.ln() / 2.0).max(3.0 * variance.sqrt());
    shifts
        .iter()
        .all(|&(shift, variance)| (shift - mean).abs() <= tolerated(variance))
}

/// The level of one pair's intervals, as the race has it.
fn level(plan: &Plan) -> f64 {
    let families = plan.loads.len() * (1 + plan.rules.requirements.len());
    let families = families + usize::from(plan.loads.len() > 1);
    (1.0 - plan.rules.confidence) / ((plan.arms.len() - 1) * families) as f64
}

/// What decided, round by round.
struct Table {
    /// The mean merit of each arm in each round.
    merits: BTreeMap<usize, BTreeMap<u32, f64>>,
    /// The length of trials whose noise has the mean of theirs, s.
    length_s: f64,
}

impl Table {
    fn of(samples: &[&Sample]) -> Table {
        let mut sums: BTreeMap<usize, BTreeMap<u32, (f64, f64)>> = BTreeMap::new();
        for sample in samples {
            let (sum, count) = sums
                .entry(sample.arm)
                .or_default()
                .entry(sample.round)
                .or_default();
            *sum += sample.merit;
            *count += 1.0;
        }
        let means = sums.into_iter().map(|(arm, rounds)| {
            let rounds = rounds.into_iter();
            (
                arm,
                rounds
                    .map(|(round, (sum, count))| (round, sum / count))
                    .collect(),
            )
        });
        let per_second = samples.iter().map(|sample| 1.0 / sample.length_s);
        Table {
            merits: means.collect(),
            length_s: samples.len() as f64 / per_second.sum::<f64>(),
        }
    }

    /// Differences of two arms, round by round.
    fn differences(&self, a: usize, b: usize) -> Vec<f64> {
        let (a, b) = (&self.merits[&a], &self.merits[&b]);
        a.iter()
            .filter_map(|(round, value)| Some(value - b.get(round)?))
            .collect()
    }

    /// What rounds say of the noise, joined with what the courses say.
    fn noise(&self, courses: &[(&Sample, &CourseSays)]) -> TrialNoise {
        let arms: Vec<usize> = self.merits.keys().copied().collect();
        let (mut squares, mut weight) = (0.0, 0.0);
        for (index, &a) in arms.iter().enumerate() {
            for &b in &arms[index + 1..] {
                let differences = self.differences(a, b);
                let count = differences.len() as f64;
                let mean = differences.iter().sum::<f64>() / count;
                squares += differences
                    .iter()
                    .map(|one| (one - mean).powi(2))
                    .sum::<f64>();
                weight += (count - 1.0).max(0.0);
            }
        }
        let rounds = self.merits.values().map(BTreeMap::len);
        let spare = rounds.clone().max().unwrap_or(1) - 1;
        let df: usize = rounds.map(|rounds| rounds - 1).sum();
        let df = df.saturating_sub(spare) as f64;
        // A difference has the noise of two trials.
        let of_rounds = if weight > 0.0 {
            squares / weight / 2.0
        } else {
            0.0
        };
        let count = courses.len() as f64;
        let of_a_second = courses
            .iter()
            .map(|(sample, says)| says.squared_error * sample.length_s);
        let of_a_second = of_a_second.sum::<f64>() / count;
        // What is to be expected of the rounds by their trials' courses, whose lengths may have been several.
        let own = of_a_second / self.length_s;
        let joined = (df * of_rounds + WEIGHT_OF_COURSES * own) / (df + WEIGHT_OF_COURSES);
        TrialNoise::of(joined, own, self.length_s)
    }

    /// The smallest difference that has to be told, between the best arm and each of the others: by the race's rule a pair is
    /// settled at the larger of its difference and the margin without it. Of differences that may be, the hardest counts.
    fn distance(&self, noise: f64, margin: f64) -> Option<f64> {
        let mean = |arm: usize| {
            let of_others = self
                .merits
                .keys()
                .filter(|&&other| other != arm)
                .map(|&other| {
                    let differences = self.differences(arm, other);
                    differences.iter().sum::<f64>() / (differences.len() as f64).max(1.0)
                });
            of_others.sum::<f64>()
        };
        let leader = self
            .merits
            .keys()
            .copied()
            .max_by(|&a, &b| mean(a).total_cmp(&mean(b)))?;
        let others = self.merits.keys().filter(|&&other| other != leader);
        let distances = others.filter_map(|&other| {
            let differences = self.differences(leader, other);
            let count = differences.len() as f64;
            let mean = differences.iter().sum::<f64>() / count;
            let error = noise * (2.0 / count).sqrt();
            (count > 0.0).then(|| hardest(mean.abs(), error, margin))
        });
        distances.min_by(f64::total_cmp)
    }
}

/// The smallest half-width that settles a pair whose difference is this, give or take its error.
fn hardest(difference: f64, error: f64, margin: f64) -> f64 {
    let settles = |difference: f64| difference.max(margin - difference);
    let (least, most) = ((difference - error).max(0.0), difference + error);
    settles((margin / 2.0).clamp(least, most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::course::Course;
    use crate::fixture;
    use crate::load::Spec;
    use crate::objective::Objective;
    use crate::record::Entry;
    use crate::schedule::{Next, RunProgress};
    use crate::trial::Slot;
    use iosched_stats::race::Verdict;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// How a trial goes: by how much trials differ, how much slices of 0.2 s do, and what they remember.
    #[derive(Debug, Clone, Copy)]
    struct Made {
        between: f64,
        slices: f64,
        memory: f64,
        overhead_s: f64,
    }

    const QUIET: Made = Made {
        between: 0.002,
        slices: 0.02,
        memory: 0.0,
        overhead_s: 1.0,
    };

    /// About normal.
    fn noise(chance: &mut ChaCha8Rng) -> f64 {
        let uniform = |_| f64::from(chance.next_u32()) / f64::from(u32::MAX);
        (0..12).map(uniform).sum::<f64>() - 6.0
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts and times of a few seconds"
    )]
    fn whole(number: f64) -> u64 {
        number.max(0.0).round() as u64
    }

    /// A trial of so many seconds in 52 slices, of which the first and the last are left out.
    fn trial(made: Made, slot: Slot, rate: f64, seconds: f64, chance: &mut ChaCha8Rng) -> Trial {
        let rate = rate * (made.between * noise(chance)).exp();
        let slice_s = seconds / 50.0;
        let spread = made.slices * (0.2 / slice_s).sqrt();
        let fresh = (1.0 - made.memory * made.memory).sqrt();
        let mut state = noise(chance);
        let ios: Vec<u64> = (0..52)
            .map(|_| {
                state = made.memory * state + fresh * noise(chance);
                whole(rate * slice_s * (1.0 + spread * state))
            })
            .collect();
        let throughput = ios[1..51].iter().sum::<u64>().max(1) as f64 * 4096.0 / seconds;
        let Entry::Trial(mut trial) = fixture::trial(slot, throughput) else {
            unreachable!("a trial was made")
        };
        trial.phases.load_ns = whole(seconds * 1e9);
        trial.phases.prepare_ns = whole(made.overhead_s * 1e9);
        trial.measured.course = Some(Course {
            slice_s,
            bytes: ios.iter().map(|ios| ios * 4096).collect(),
            ios,
        });
        *trial
    }

    /// The study of so many rounds of two arms, the second of which is faster by this factor.
    fn study(made: Made, rounds: u32, factor: f64) -> (Plan, LengthStudy) {
        let plan = fixture::plan(2);
        let mut chance = ChaCha8Rng::seed_from_u64(7);
        let mut study = LengthStudy::new(&plan, 0).unwrap();
        for round in 0..rounds {
            for arm in 0..2 {
                let slot = Slot {
                    load: 0,
                    round,
                    arm,
                };
                let rate = 100_000.0 * [1.0, factor][arm];
                study.add(&plan, &trial(made, slot, rate, 10.0, &mut chance));
            }
        }
        (plan, study)
    }

    /// A whole race of two arms whose run time is chosen: what it came to, and the time of its trials, s.
    fn race(made: Made, factor: f64, seed: u64, is_auto: bool) -> (Verdict, f64) {
        let mut plan = fixture::plan(2);
        plan.loads[0].is_runtime_auto = is_auto;
        let mut record = fixture::record(&plan);
        let mut progress = RunProgress::of(&plan, &record);
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let mut seconds = 0.0;
        while let Next::Trial(slot) = progress.next() {
            let runtime = progress.runtime(0).map(|runtime| runtime.as_secs_f64());
            let rate = 100_000.0 * [1.0, factor][slot.arm];
            let length = runtime.unwrap_or(10.0);
            seconds += length + made.overhead_s;
            let mut trial = trial(made, slot, rate, length, &mut chance);
            trial.runtime_s = runtime;
            record.push(Entry::Trial(Box::new(trial)));
            progress.follow(&record);
        }
        (progress.standing().decisive().verdict.clone(), seconds)
    }

    /// How a trial of ten seconds goes, with a noise of 0.2 to 5 %.
    const CASES: [(&str, f64, f64); 4] = [
        ("quiet", 0.002, 0.02),
        ("by its course", 0.0, 0.3),
        ("whatever its length", 0.05, 0.02),
        ("both", 0.03, 0.2),
    ];

    fn made_of((_, between, slices): (&str, f64, f64)) -> Made {
        Made {
            between,
            slices,
            ..QUIET
        }
    }

    /// Races of each case, drawn from their seeds: `IOSCHED_TEST_RACES` says how many.
    fn races() -> u64 {
        let given = std::env::var("IOSCHED_TEST_RACES").ok();
        given.and_then(|races| races.parse().ok()).unwrap_or(200)
    }

    #[test]
    fn of_arms_that_are_the_same_one_wins_as_seldom_as_is_promised() {
        for case in CASES {
            let winners = |is_auto| {
                let runs = (0..races()).map(|seed| race(made_of(case), 1.0, seed, is_auto).0);
                runs.filter(|verdict| matches!(verdict, Verdict::Winner { .. }))
                    .count() as u64
            };
            let (fixed, auto) = (winners(false), winners(true));
            let races = races();
            eprintln!(
                "{}: of {races} races {fixed} false winners with 10 s, {auto} with auto",
                case.0
            );
            assert!(auto * 20 <= races, "{}: {auto} of {races}", case.0);
        }
    }

    #[test]
    fn what_differs_is_found_as_often_and_in_less_time() {
        for case in CASES {
            let found = |is_auto| {
                let races = (0..races()).map(|seed| race(made_of(case), 1.1, seed, is_auto));
                races.fold((0, 0.0), |(right, seconds), (verdict, took)| {
                    let is_right = matches!(verdict, Verdict::Winner { arm: 1 });
                    (right + u64::from(is_right), seconds + took)
                })
            };
            let (fixed, auto) = (found(false), found(true));
            eprintln!(
                "{}: of {} with 10 s {fixed:?}, with auto {auto:?}",
                case.0,
                races()
            );
            assert!(
                auto.0 + races() / 10 >= fixed.0,
                "{}: {fixed:?}, {auto:?}",
                case.0
            );
            assert!(auto.1 <= 1.1 * fixed.1, "{}: {fixed:?}, {auto:?}", case.0);
        }
    }

    #[test]
    fn of_a_trial_that_cannot_have_been_nothing_is_said() {
        let plan = fixture::plan(2);
        let mut chance = ChaCha8Rng::seed_from_u64(7);
        let mut study = LengthStudy::new(&plan, 0).unwrap();
        for (round, arm) in (0..4).flat_map(|round| [(round, 0), (round, 1)]) {
            let slot = Slot {
                load: 0,
                round,
                arm,
            };
            let mut trial = trial(QUIET, slot, 100_000.0, 10.0, &mut chance);
            trial.runtime_s = Some(1e-310);
            study.add(&plan, &trial);
        }
        assert!(study.judge(&plan, 4, &[0, 1]).is_none());
    }

    fn judged(made: Made, rounds: u32, factor: f64) -> TrialLength {
        let (plan, study) = study(made, rounds, factor);
        study.judge(&plan, rounds, &[0, 1]).unwrap()
    }

    #[test]
    fn trials_that_know_their_mean_within_a_second_may_be_short() {
        let found = judged(QUIET, 3, 1.3);
        assert!(found.best_s <= 2.0, "{found:?}");
        assert!(found.is_far_off() && found.saves > 0.5, "{found:?}");
        assert!(
            (found.within - 0.02 / 50f64.sqrt()).abs() < 0.0015,
            "{found:?}"
        );
        // Already after one round: that trials might differ by more speaks for short ones, too.
        assert!(judged(QUIET, 1, 1.3).best_s <= 2.0);
    }

    #[test]
    fn trials_that_differ_whatever_their_length_may_be_short() {
        let noisy = Made {
            between: 0.08,
            ..QUIET
        };
        let found = judged(noisy, 6, 1.1);
        assert!(found.best_s <= 2.0 && found.between > 0.04, "{found:?}");
    }

    #[test]
    fn trials_that_cost_much_to_prepare_are_to_be_longer() {
        let dear = Made {
            between: 0.001,
            slices: 0.3,
            overhead_s: 120.0,
            ..QUIET
        };
        let found = judged(dear, 4, 1.05);
        assert!(found.best_s >= 30.0, "{found:?}");
        assert!(found.best_s <= 10.0 * MOST_TIMES_LONGER);
        let cheap = Made {
            overhead_s: 0.5,
            ..dear
        };
        let found = judged(cheap, 4, 1.05);
        assert!(!found.is_far_off(), "{found:?}");
    }

    #[test]
    fn no_trial_is_to_be_shorter_than_twenty_times_what_it_remembers() {
        let slow = Made {
            memory: 0.8, // nine slices of 0.2 s, eight of them more than one
            ..QUIET
        };
        let found = judged(slow, 3, 1.5);
        assert!((0.8..3.0).contains(&found.autocorrelation_s), "{found:?}");
        assert!(found.best_s >= 10.0, "{found:?}");
    }

    #[test]
    fn a_beginning_that_is_another_for_one_arm_keeps_trials_long() {
        let (plan, mut study) = study(QUIET, 3, 1.3);
        assert!(study.judge(&plan, 3, &[0, 1]).unwrap().best_s <= 2.0);
        for sample in study.samples.iter_mut().filter(|sample| sample.arm == 1) {
            // Its cache takes writes for three seconds.
            sample.course.as_mut().unwrap().heads[..4].fill(0.5);
        }
        let found = study.judge(&plan, 3, &[0, 1]).unwrap();
        assert!(found.best_s >= 4.0, "{found:?}");
    }

    #[test]
    fn a_length_for_which_there_is_no_time_is_not_chosen() {
        let dear = Made {
            between: 0.001,
            slices: 0.3,
            overhead_s: 120.0,
            ..QUIET
        };
        let (plan, study) = study(dear, 4, 1.05);
        let within = |most: f64| {
            let found = study.judge_within(&plan, 4, &[0, 1], &|length| length <= most);
            found.unwrap().best_s
        };
        assert!(within(f64::INFINITY) >= 30.0);
        assert!((10.0..=20.0).contains(&within(20.0)), "{}", within(20.0));
        assert!(within(7.0) <= 7.0, "as long as before is too long");
        assert!((within(0.0) - 10.0).abs() < 1e-9, "nothing fits");
    }

    /// Trials that cost much to prepare: without a budget the second round has long ones.
    #[test]
    fn with_a_budget_of_time_the_next_round_fits_into_what_is_left_of_it() {
        let dear = Made {
            between: 0.001,
            slices: 0.3,
            overhead_s: 60.0,
            ..QUIET
        };
        let mut seen = Vec::new();
        for budget_s in [None, Some(500.0), Some(700.0), Some(1000.0), Some(2000.0)] {
            let mut plan = fixture::plan(2);
            plan.loads[0].is_runtime_auto = true;
            plan.rules.time_budget_s = budget_s;
            let mut record = fixture::record(&plan);
            let mut progress = RunProgress::of(&plan, &record);
            let mut chance = ChaCha8Rng::seed_from_u64(3);
            let mut spent = 0.0;
            while let Next::Trial(slot) = progress.next() {
                let length = progress.runtime(0).unwrap().as_secs_f64();
                let rate = 100_000.0 * [1.0, 1.05][slot.arm];
                let mut trial = trial(dear, slot, rate, length, &mut chance);
                trial.runtime_s = Some(length);
                record.push(Entry::Trial(Box::new(trial)));
                progress.follow(&record);
                spent += length + dear.overhead_s;
            }
            assert!(
                budget_s.is_none_or(|budget| spent <= budget),
                "{spent} of {budget_s:?}"
            );
            let mut study = LengthStudy::new(&plan, 0).unwrap();
            record.trials().for_each(|trial| study.add(&plan, trial));
            seen.push((study.length_in(1).unwrap(), study.is_cut_in(&plan, 1)));
        }
        let [(free, is_cut), (short, short_is_cut), ..] = seen[..] else {
            unreachable!("five budgets")
        };
        assert!(free >= 30.0 && !is_cut, "{seen:?}");
        assert!(short < free && short_is_cut, "{seen:?}");
        assert!(seen[1..].is_sorted(), "{seen:?}");
    }

    #[test]
    fn jobs_that_do_not_run_at_the_same_time_say_nothing_of_what_a_trial_costs() {
        let mut plan = fixture::plan(2);
        plan.loads[0].spec = Spec::JobFile("[a]\nrw=read\n[b]\nstonewall\nrw=randread\n".into());
        assert_eq!(LengthStudy::new(&plan, 0), None);
    }

    #[test]
    fn nothing_is_said_where_too_little_is_known() {
        let (plan, mut study) = study(QUIET, 2, 1.3);
        assert_eq!(study.judge(&plan, 0, &[0, 1]), None, "no round is complete");
        assert_eq!(study.judge(&plan, 2, &[0]), None, "nothing to tell apart");
        study.samples.clear();
        let slot = Slot {
            load: 0,
            round: 0,
            arm: 0,
        };
        let mut trial = trial(QUIET, slot, 1e5, 10.0, &mut ChaCha8Rng::seed_from_u64(1));
        trial.measured.course = None;
        study.add(&plan, &trial);
        trial.measured.course = Some(Course {
            slice_s: 0.1,
            ios: vec![10; 15],
            bytes: vec![10; 15],
        });
        study.add(&plan, &trial);
        let without = study
            .samples
            .iter()
            .filter(|sample| sample.course.is_none());
        assert_eq!(without.count(), 2, "without a course, and with a short one");
        assert_eq!(study.judge(&plan, 1, &[0, 1]), None);
        let mut of_p99 = plan;
        of_p99.loads[0].objective = Objective::P99;
        assert!(LengthStudy::new(&of_p99, 0).is_none());
    }

    #[test]
    fn a_pair_is_hardest_where_it_is_settled_last() {
        for (difference, error, expected) in [
            (0.3, 0.1, 0.2),
            (0.0, 0.0, 0.02),
            (0.0, 0.5, 0.01),
            (0.001, 0.002, 0.017),
        ] {
            assert!((hardest(difference, error, 0.02) - expected).abs() < 1e-12);
        }
    }

    proptest! {
        #[test]
        fn a_proposed_length_is_within_its_bounds_and_follows_from_the_trials_alone(
            between in 0.0_f64..0.1,
            slices in 0.0_f64..0.5,
            memory in 0.0_f64..0.95,
            overhead_s in 0.1_f64..200.0,
            rounds in 1_u32..6,
            factor in 0.5_f64..2.0,
        ) {
            let made = Made { between, slices, memory, overhead_s };
            let (plan, study) = study(made, rounds, factor);
            let found = study.judge(&plan, rounds, &[0, 1]);
            prop_assert_eq!(found, study.judge(&plan, rounds, &[0, 1]));
            if let Some(found) = found {
                prop_assert!((1.0..=60.0).contains(&found.best_s));
                let is_as_before = found.best_s.total_cmp(&found.length_s).is_eq();
                prop_assert!(is_as_before || LENGTHS.contains(&found.best_s));
                prop_assert!(found.saves <= 1.0 && (found.saves >= LEAST_SAVING || is_as_before));
            }
        }
    }
}
