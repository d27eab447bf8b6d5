//! Calibration: whole tunes over simulated trials, to see whether the verdicts keep what they promise.
//!
//! The simulation and the methods are [`iosched_stats::calibrate`]; here are the cases that the promises
//! are about, the threads, and the search for the fixed design that would do as well.
//!
//! - *Nobody to name*: arms that are all the same, and two best ones among worse; in every kind of
//!   noise. A winner named here is false.
//! - *The mix*: four arms of which one is better by 0, 3, 10, 30 %, in normal noise of 2, 5, 10 %. Rounds
//!   and trials that it takes to find it.
//! - *Looking on*: arms that are all the same, looked at after every round; by t intervals for as many
//!   rounds as a tune may take, and by the race for `LOOKING_ROUNDS`.
//! - *The oracle*: the same race, in the cases of the mix, where the noise is known and need not be estimated.
//! - *Adversaries*: whole tunes in which something interferes ([`adversary`]).
//! - *The fixed design*: all arms in a number of rounds chosen before, paired t intervals corrected over
//!   arms. Its number is the smallest that is correct as often as the race in every case of the mix.

pub mod adversary;

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use iosched_stats::calibrate::{Case, Method, Noise, Rates, Truth, run};
pub use iosched_stats::race::Rules;

use iosched_stats::race::Design;
use serde::Serialize;

use self::adversary::Met;
use crate::threads;

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct CalibrationSettings {
    /// Runs of each method in each case.
    pub runs: NonZeroUsize,
    /// All chance comes from it.
    pub seed: u64,
    /// The rules that are put to the test.
    pub rules: Rules,
    /// Worker threads.
    pub threads: NonZeroUsize,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// Runs of each method in each case.
    pub runs: usize,
    /// All chance came from it.
    pub seed: u64,
    /// The rules that were put to the test.
    pub rules: Rules,
    /// Cases in which nobody may be named.
    pub nobody: Vec<MeasuredCase>,
    /// Cases of the mix.
    pub mix: Vec<MeasuredCase>,
    /// The race in the cases of the mix, in their order, by an oracle that knows the noise.
    pub oracle: Vec<Rates>,
    /// Looked at after every round.
    pub looking: Vec<Looking>,
    /// The fixed design that does as well as the race; `None` if no number of rounds up to
    /// `MOST_FIXED_ROUNDS` does.
    pub fixed: Option<Fixed>,
    /// Whole tunes in which something interferes, over the default rules of `tune`.
    pub adversaries: Vec<Met>,
}

/// One case under every method.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredCase {
    /// What is true.
    pub case: Case,
    /// The race.
    pub race: Rates,
    /// One run of each arm, the best wins.
    pub one_run: Rates,
    /// Points by place over three runs.
    pub points: Rates,
    /// Five rounds, t intervals, no correction.
    pub plain_t: Rates,
}

/// Arms that are all the same, looked at after every round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Looking {
    /// How many arms.
    pub arms: usize,
    /// The race, over `LOOKING_ROUNDS` rounds and never hopeless.
    pub race: Rates,
    /// 95 % t intervals over as many rounds as a tune may take, stopped at the first that names
    /// somebody.
    pub peeking_t: Rates,
}

/// How long the race is looked at where nobody may be named.
pub(crate) const LOOKING_ROUNDS: usize = 200;

/// The fixed design that is correct as often as the race in every case of the mix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fixed {
    /// Its rounds.
    pub rounds: usize,
    /// Its trials in each run.
    pub trials: usize,
    /// What it does in the cases of the mix.
    pub rates: Vec<Rates>,
    /// Trials of the race, on average over the mix.
    pub race_trials: f64,
    /// `race_trials / trials`.
    pub ratio: f64,
}

/// The search for a fixed design ends here.
pub(crate) const MOST_FIXED_ROUNDS: usize = 120;

/// A rate above this counts as this, so that the fixed design need not reach the last run in a
/// thousand.
const AS_GOOD_AS_ALWAYS: f64 = 0.99;

/// Noise of the cases in which nobody may be named.
const NULL_SIZE: f64 = 0.05;

/// How far it is: steps done, steps in all. The number of steps grows when the search for the fixed
/// design begins.
pub(crate) type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Runs the calibration.
pub fn calibrate(settings: &CalibrationSettings, progress: Progress<'_>) -> Calibration {
    let nobody = nobody_to_name();
    let mix = mix();
    let cases: Vec<Case> = nobody.iter().chain(&mix).copied().collect();
    let jobs: Vec<(Case, Method)> = cases
        .iter()
        .flat_map(|&case| methods(settings.rules).map(|method| (case, method)))
        .collect();
    let rates = run_all(settings, &jobs, progress);
    let mut rows: Vec<MeasuredCase> = cases
        .iter()
        .zip(rates.chunks_exact(METHODS))
        .map(|(&case, rates)| MeasuredCase {
            case,
            race: rates[0],
            one_run: rates[1],
            points: rates[2],
            plain_t: rates[3],
        })
        .collect();
    let mix_rows = rows.split_off(nobody.len());
    let oracle = oracle(settings, &mix, progress);
    let looking = looking(settings, progress);
    let fixed = fixed_design(settings, &mix_rows, progress);
    let adversaries = adversaries(settings, progress);
    Calibration {
        runs: settings.runs.get(),
        seed: settings.seed,
        rules: settings.rules,
        nobody: rows,
        mix: mix_rows,
        oracle,
        looking,
        fixed,
        adversaries,
    }
}

fn adversaries(settings: &CalibrationSettings, progress: Progress<'_>) -> Vec<Met> {
    let done = AtomicUsize::new(0);
    let all = adversary::all();
    threads::each_on(settings.threads.get(), all.len(), |number| {
        let (adversary, tied) = all[number];
        let met = adversary::meet(adversary, tied, settings.runs.get(), settings.seed);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, all.len());
        met
    })
}

const METHODS: usize = 4;

fn methods(rules: Rules) -> [Method; METHODS] {
    [
        Method::Race(rules),
        Method::OneRun,
        Method::Points(3),
        Method::PlainT(5),
    ]
}

fn nobody_to_name() -> Vec<Case> {
    let mut cases = Vec::new();
    for noise in Noise::ALL {
        for (arms, truth) in [
            (2, Truth::AllEqual),
            (4, Truth::AllEqual),
            (8, Truth::AllEqual),
            (4, Truth::TwoBetter(1.3)),
            (8, Truth::TwoBetter(1.3)),
        ] {
            cases.push(Case {
                arms,
                truth,
                noise,
                size: NULL_SIZE,
            });
        }
    }
    cases
}

fn mix() -> Vec<Case> {
    let truths = [
        Truth::AllEqual,
        Truth::OneBetter(1.03),
        Truth::OneBetter(1.10),
        Truth::OneBetter(1.30),
    ];
    let mut cases = Vec::new();
    for truth in truths {
        for size in [0.02, 0.05, 0.10] {
            cases.push(Case {
                arms: 4,
                truth,
                noise: Noise::Normal,
                size,
            });
        }
    }
    cases
}

fn oracle(settings: &CalibrationSettings, mix: &[Case], progress: Progress<'_>) -> Vec<Rates> {
    let knowing = |case: &Case| {
        let rules = Rules {
            known_noise: Some(case.size),
            ..settings.rules
        };
        (*case, Method::Race(rules))
    };
    let jobs: Vec<_> = mix.iter().map(knowing).collect();
    run_all(settings, &jobs, progress)
}

fn looking(settings: &CalibrationSettings, progress: Progress<'_>) -> Vec<Looking> {
    let endless = Rules {
        budget_rounds: LOOKING_ROUNDS,
        hopeless: 0.0,
        margin: 1.0, // nobody is called equal, so only a false winner ends it early
        ..settings.rules
    };
    let arms = [2, 4, 8];
    let jobs: Vec<(Case, Method)> = arms
        .iter()
        .flat_map(|&arms| {
            let case = Case {
                arms,
                truth: Truth::AllEqual,
                noise: Noise::Normal,
                size: NULL_SIZE,
            };
            let peeking = Method::PeekingT(settings.rules.budget_rounds);
            [(case, Method::Race(endless)), (case, peeking)]
        })
        .collect();
    let rates = run_all(settings, &jobs, progress);
    arms.iter()
        .zip(rates.chunks_exact(2))
        .map(|(&arms, rates)| Looking {
            arms,
            race: rates[0],
            peeking_t: rates[1],
        })
        .collect()
}

/// The smallest number of rounds at which the fixed design is correct as often as the race. More
/// rounds never make it worse, so halving finds it.
fn fixed_design(
    settings: &CalibrationSettings,
    mix: &[MeasuredCase],
    progress: Progress<'_>,
) -> Option<Fixed> {
    let attempt = |rounds: usize| -> Option<Vec<Rates>> {
        let rules = Rules {
            design: Design::FixedRounds(rounds),
            ..settings.rules
        };
        let jobs: Vec<_> = mix
            .iter()
            .map(|row| (row.case, Method::Race(rules)))
            .collect();
        let rates = run_all(settings, &jobs, progress);
        let good = |(row, fixed): (&MeasuredCase, &Rates)| match row.case.truth {
            Truth::OneBetter(_) => fixed.correct >= row.race.correct.min(AS_GOOD_AS_ALWAYS),
            Truth::AllEqual | Truth::TwoBetter(_) => {
                fixed.false_winner <= 1.0 - settings.rules.confidence
            }
        };
        mix.iter().zip(&rates).all(good).then_some(rates)
    };
    let (mut below, mut above) = (1, MOST_FIXED_ROUNDS);
    let mut best = attempt(above)?;
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if let Some(rates) = attempt(middle) {
            (above, best) = (middle, rates);
        } else {
            below = middle;
        }
    }
    let trials = above * mix[0].case.arms;
    let race_trials = mix.iter().map(|row| row.race.mean_trials).sum::<f64>() / mix.len() as f64;
    Some(Fixed {
        rounds: above,
        trials,
        rates: best,
        race_trials,
        ratio: race_trials / trials as f64,
    })
}

/// Runs the jobs on the worker threads; the results are in the jobs' order, and do not depend on the
/// number of threads.
fn run_all(
    settings: &CalibrationSettings,
    jobs: &[(Case, Method)],
    progress: Progress<'_>,
) -> Vec<Rates> {
    let done = AtomicUsize::new(0);
    threads::each_on(settings.threads.get(), jobs.len(), |number| {
        let (case, method) = jobs[number];
        let tally = run(case, method, settings.runs.get(), settings.seed);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        tally.rates(case.truth)
    })
}

impl Calibration {
    /// The tables, as text of at most 80 columns.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{} runs of each method in each case, seed {}. Rates in percent of the runs.\n\n",
            self.runs, self.seed
        );
        self.nobody_table(&mut text);
        self.looking_table(&mut text);
        self.mix_table(&mut text);
        self.oracle_table(&mut text);
        self.fixed_paragraph(&mut text);
        self.adversary_table(&mut text);
        text
    }

    fn nobody_table(&self, text: &mut String) {
        text.push_str(
            "False winners, where nobody may be named: arms all the same (=), or two best\n\
             ones 30 % above the rest (2). Trial noise 5 %. \"wrong interval\": a ratio to the\n\
             baseline that iosched printed in any round did not hold the truth.\n\n",
        );
        let _ = writeln!(
            text,
            "{:<26} {:>6} {:>8} {:>7} {:>7} {:>8} {:>9}",
            "", "", "", "1 run", "points,", "5 rounds", "wrong"
        );
        let _ = writeln!(
            text,
            "{:<26} {:>6} {:>8} {:>7} {:>7} {:>8} {:>9}",
            "noise", "arms", "iosched", "each", "3 runs", "plain t", "interval"
        );
        for row in &self.nobody {
            let mark = match row.case.truth {
                Truth::TwoBetter(_) => "2",
                Truth::AllEqual | Truth::OneBetter(_) => "=",
            };
            let _ = writeln!(
                text,
                "{:<26} {:>4} {} {:>8} {:>7} {:>7} {:>8} {:>9}",
                name(row.case.noise),
                row.case.arms,
                mark,
                percent(row.race.false_winner),
                percent(row.one_run.false_winner),
                percent(row.points.false_winner),
                percent(row.plain_t.false_winner),
                percent(row.race.wrong_interval),
            );
        }
    }

    fn looking_table(&self, text: &mut String) {
        let _ = write!(
            text,
            "\nFalse winners when one looks after every round and stops at the first; arms all\n\
             the same, normal noise. t: uncorrected intervals for {} rounds. iosched: for\n\
             {LOOKING_ROUNDS} rounds, whatever its budget.\n\n{:>4} {:>8} {:>8}\n",
            self.rules.budget_rounds, "arms", "iosched", "t"
        );
        for looking in &self.looking {
            let _ = writeln!(
                text,
                "{:>4} {:>8} {:>8}",
                looking.arms,
                percent(looking.race.false_winner),
                percent(looking.peeking_t.false_winner)
            );
        }
    }

    fn mix_table(&self, text: &mut String) {
        text.push_str(
            "\nThe mix: four arms, one of them better; normal noise. Right: the only best arm\n\
             is named (in the first three rows: nobody is). False: another one is.\n\n",
        );
        let _ = writeln!(
            text,
            "{:<12} {:^29} {:^11} {:^11} {:^11}",
            "", "iosched", "1 run each", "points, 3", "5 r plain t"
        );
        let _ = writeln!(
            text,
            "{:>5} {:>6} {:>5} {:>5} {:>6} {:>4} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5}",
            "diff.",
            "noise",
            "right",
            "false",
            "rounds",
            "90 %",
            "trial",
            "right",
            "false",
            "right",
            "false",
            "right",
            "false"
        );
        for row in &self.mix {
            let _ = write!(
                text,
                "{} {:>5} {:>5} {:>6} {:>4} {:>5.1}",
                difference_and_noise(&row.case),
                percent(row.race.correct),
                percent(row.race.false_winner),
                row.race.rounds_median,
                row.race.rounds_p90,
                row.race.mean_trials,
            );
            for rates in [&row.one_run, &row.points, &row.plain_t] {
                let _ = write!(
                    text,
                    " {:>5} {:>5}",
                    percent(rates.correct),
                    percent(rates.false_winner)
                );
            }
            text.push('\n');
        }
    }

    fn oracle_table(&self, text: &mut String) {
        text.push_str(
            "\nThe oracle: the same rule, where the noise is known and need not be estimated.\n\n",
        );
        let _ = writeln!(
            text,
            "{:<12} {:^16} {:^16}\n{:>5} {:>6} {:>9} {:>6} {:>9} {:>6} {:>6}",
            "", "iosched", "oracle", "diff.", "noise", "right", "trial", "right", "trial", "ratio"
        );
        for (row, oracle) in self.mix.iter().zip(&self.oracle) {
            let _ = writeln!(
                text,
                "{} {:>9} {:>6.1} {:>9} {:>6.1} {:>6.2}",
                difference_and_noise(&row.case),
                percent(row.race.correct),
                row.race.mean_trials,
                percent(oracle.correct),
                oracle.mean_trials,
                row.race.mean_trials / oracle.mean_trials,
            );
        }
    }

    fn fixed_paragraph(&self, text: &mut String) {
        match &self.fixed {
            Some(fixed) => {
                let _ = write!(
                    text,
                    "\nA fixed design (all arms in all rounds, paired t intervals corrected over arms)\n\
                     is right as often in every case of the mix from {} rounds on: {} trials.\n\
                     iosched takes {:.1} trials on average over the mix: {:.2} of them.\n",
                    fixed.rounds, fixed.trials, fixed.race_trials, fixed.ratio
                );
            }
            None => {
                let _ = write!(
                    text,
                    "\nNo fixed design of up to {MOST_FIXED_ROUNDS} rounds is right as often in every case.\n"
                );
            }
        }
    }
}

impl Calibration {
    fn adversary_table(&self, text: &mut String) {
        text.push_str(
            "\nSomething interferes: three arms, one of them 11 % better; trial noise 2 %.\n\
             Tied to the best arm (arm), to each second round (round) or to nothing (lot).\n\
             Right: the best arm is named, or is to be kept. Told: by the answer, by void\n\
             trials or by a remark. The last two rows are of what this machine cannot see.\n\n\
             interference                       tied    wrong right  dist. undec.  told trial\n",
        );
        for met in &self.adversaries {
            let _ = writeln!(
                text,
                "{:<34} {:<6} {:>6} {:>5} {:>6} {:>6} {:>5} {:>5.1}",
                met.adversary.words(),
                met.tied.words(),
                percent(met.wrong_winner),
                percent(met.right),
                percent(met.disturbed),
                percent(met.undecided),
                percent(met.told),
                met.trials
            );
        }
    }
}

fn difference_and_noise(case: &Case) -> String {
    let difference = match case.truth {
        Truth::OneBetter(ratio) | Truth::TwoBetter(ratio) => 100.0 * (ratio - 1.0),
        Truth::AllEqual => 0.0,
    };
    format!("{difference:>3.0} % {:>4.0} %", 100.0 * case.size)
}

fn percent(rate: f64) -> String {
    format!("{:.1}", 100.0 * rate)
}

fn name(noise: Noise) -> &'static str {
    match noise {
        Noise::Normal => "normal",
        Noise::HeavyTailed => "heavy tails (t, 3 df)",
        Noise::Contaminated => "1 of 10 trials far slower",
        Noise::Drifting => "drifting machine",
        Noise::Autocorrelated => "moody machine, AR(1) 0.5",
        Noise::ArmAutocorrelated => "moody arms, AR(1) 0.5",
        Noise::Unequal => "one arm 3 x as noisy",
        Noise::VeryUnequal => "one arm 10 x as noisy",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn settings(threads: usize) -> CalibrationSettings {
        CalibrationSettings {
            runs: NonZeroUsize::new(2).unwrap(),
            seed: 5,
            rules: Rules::default(),
            threads: NonZeroUsize::new(threads).unwrap(),
        }
    }

    #[test]
    fn the_result_does_not_depend_on_the_number_of_threads() {
        let jobs: Vec<_> = mix()
            .into_iter()
            .take(6)
            .map(|case| (case, Method::Race(Rules::default())))
            .collect();
        let one = run_all(&settings(1), &jobs, &|_, _| {});
        let three = run_all(&settings(3), &jobs, &|_, _| {});
        assert_eq!(one, three);
    }

    #[test]
    fn every_job_is_reported_as_progress() {
        let jobs: Vec<_> = mix()
            .into_iter()
            .map(|case| (case, Method::OneRun))
            .collect();
        let seen = Mutex::new(Vec::new());
        run_all(&settings(2), &jobs, &|done, all| {
            seen.lock().unwrap().push((done, all));
        });
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        let expected: Vec<_> = (1..=jobs.len()).map(|done| (done, jobs.len())).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_text_has_a_line_per_case_and_keeps_to_eighty_columns() {
        let calibration = calibrate(&settings(2), &|_, _| {});
        let text = calibration.to_text();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert_eq!(text.matches("moody arms").count(), 5);
        assert!(text.lines().count() > calibration.nobody.len() + calibration.mix.len());
    }

    #[test]
    fn the_cases_are_those_that_the_promises_are_about() {
        assert_eq!(mix().len(), 12);
        let nobody = nobody_to_name();
        for noise in Noise::ALL {
            for arms in [2, 4, 8] {
                assert!(nobody.iter().any(|case| {
                    case.noise == noise && case.arms == arms && case.truth == Truth::AllEqual
                }));
            }
        }
    }
}
