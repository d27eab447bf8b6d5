//! From rows to what holds for a model, for its family, for its class: under one load class, by one objective, on one
//! series of kernels. Pure.
//!
//! The machine is the unit: what one machine found of two arms, in however many records and loads of the class, is one
//! number with one variance. Machines are pooled by random effects ([`iosched_stats::meta`]).

use std::collections::BTreeMap;

use iosched_stats::Interval;
use iosched_stats::interval::student_t;
use iosched_stats::meta::{Pooled, RandomEffects, Study};
use iosched_stats::summary::median;
use serde::Serialize;

use crate::drive;
use crate::row::{Row, Source, Text};

/// Fewer machines say nothing of the next one.
pub const LEAST_MACHINES: usize = 5;

/// Arms that are surely no further apart than this ratio are equally good.
pub const MARGIN: f64 = 1.05;

/// Of all intervals.
pub const CONFIDENCE: f64 = 0.95;

/// A number beside the one that decides is told from this ratio on, even where it is not proven.
pub(crate) const LARGE: f64 = 1.5;

/// How much alike drives are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// One model, attached in one way: the same drive behind a USB bridge is another.
    Model,
    /// Models that differ in capacity and revision (`drive::family`).
    Family,
    /// All that are attached in one way and rotate, or do not.
    Class,
}

impl Level {
    /// From the narrowest.
    pub const ALL: [Level; 3] = [Level::Model, Level::Family, Level::Class];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Model => "model",
            Level::Family => "family",
            Level::Class => "class",
        }
    }

    /// The group of a row at this level; none for a drive that does not say what it is.
    pub fn of(self, row: &Row) -> Option<Text> {
        self.of_drive(&row.model, &row.class())
    }

    /// The group of a drive at this level.
    pub fn of_drive(self, model: &str, class: &str) -> Option<Text> {
        match self {
            Level::Class => Some(class.into()),
            Level::Model if !model.is_empty() => Some(model.into()),
            Level::Family if !model.is_empty() => {
                Some(format!("{} ({class})", drive::family(model)).into())
            }
            Level::Model | Level::Family => None,
        }
    }
}

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Question {
    /// What was measured on.
    pub source: Source,
    /// How much alike the drives are.
    pub level: Level,
    /// Their model, family or class.
    pub drive: Text,
    /// Their class: how they are attached, and whether they rotate.
    pub class: Text,
    /// What the load stands for.
    pub load_class: Text,
    /// Which load, where it is one of somebody's own; else empty.
    pub own_load: Text,
    /// What decides.
    pub objective: Text,
    /// The kernel's series; empty where no kernel took part.
    pub kernel: Text,
}

/// What is known of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// What it is about.
    #[serde(flatten)]
    pub question: Question,
    /// Machines that measured anything of it.
    pub machines: usize,
    /// First and last day on which records were begun, since 1970.
    pub days: (i32, i32),
    /// The arm that ratios are taken to: the one that most machines have measured.
    pub reference: Text,
    /// Every other arm that was measured, the best first, then those of which too little or nothing is known beside it.
    pub arms: Vec<ArmFinding>,
    /// What that amounts to.
    pub answer: Answer,
    /// What to take: the best, then those that are surely as good within [`MARGIN`]. Empty unless that is the answer.
    pub take: Vec<Text>,
    /// The best by its mean, then all that may be as good as it. Empty unless that is the answer.
    pub not_told_apart: Vec<Text>,
}

/// What is known of a question. None says more than the intervals of the means do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Too few machines measured two arms.
    Unknown,
    /// Another arm may be as good as the best, or more than [`MARGIN`] behind it, or was measured by enough machines and
    /// beside no arm that it could be compared by.
    NotToldApart,
    /// One arm is better than all others but those that are as good within [`MARGIN`].
    Take,
}

/// What is known of an arm, as ratios to the reference: above 1 is better.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmFinding {
    /// The arm.
    pub arm: Text,
    /// Machines that measured both.
    pub machines: usize,
    /// The mean over machines with its interval; none below [`LEAST_MACHINES`].
    pub ratio: Option<Interval>,
    /// Where the next machine's lies.
    pub next_machine: Option<Interval>,
    /// Variance of the logarithms between machines.
    pub tau_squared: Option<f64>,
    /// Part of the variance that is between machines, 0 to 1.
    pub i_squared: Option<f64>,
    /// p99 latency / that of the reference, geometric mean over machines.
    pub p99_ratio: Option<f64>,
    /// Processor time per I/O / that of the reference, geometric mean over machines.
    pub cpu_ratio: Option<f64>,
    /// What each machine found, in the order of their names: for a forest plot.
    #[serde(skip)]
    pub each: Vec<(Text, Study)>,
}

impl Finding {
    /// Whether anything is known.
    pub fn is_known(&self) -> bool {
        self.answer != Answer::Unknown
    }

    /// The arms that may be taken, the best by its mean first; none if too little is known.
    pub fn candidates(&self) -> &[Text] {
        match self.answer {
            Answer::Take => &self.take,
            Answer::NotToldApart | Answer::Unknown => &self.not_told_apart,
        }
    }
}

/// A number that is measured beside the one that decides; less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SideNumber {
    /// p99 latency.
    P99,
    /// Processor time per I/O.
    Cpu,
}

impl SideNumber {
    const ALL: [SideNumber; 2] = [SideNumber::P99, SideNumber::Cpu];

    /// The objective that decides by it.
    fn objective(self) -> &'static str {
        match self {
            SideNumber::P99 => "p99",
            SideNumber::Cpu => "cpu",
        }
    }

    fn of(self, row: &Row) -> Option<f64> {
        match self {
            SideNumber::P99 => row.p99_ratio,
            SideNumber::Cpu => row.cpu_ratio,
        }
    }
}

/// By how much an arm is worse than another in a number that did not decide.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Price {
    /// The arm.
    pub arm: Text,
    /// The other one.
    pub against: Text,
    /// In what.
    pub number: SideNumber,
    /// The geometric mean over machines; where that is not proven their median, for which one machine counts little.
    pub ratio: f64,
    /// Of the mean; none below [`LEAST_MACHINES`].
    pub interval: Option<Interval>,
    /// Machines that measured it for both.
    pub machines: usize,
    /// The interval lies above [`MARGIN`].
    pub is_proven: bool,
}

impl Price {
    /// Whether the number is surely at least `LARGE` times the other arm's.
    pub fn is_surely_large(&self) -> bool {
        self.interval.is_some_and(|interval| interval.lower > LARGE)
    }
}

/// Rows by question.
#[derive(Debug)]
pub struct Groups<'a> {
    groups: BTreeMap<Question, Group<'a>>,
    method: RandomEffects,
}

/// The rows of one question.
#[derive(Debug, Default)]
struct Group<'a> {
    rows: Vec<&'a Row>,
}

/// The arms of a row in the order of their names.
fn arms(row: &Row) -> (&str, &str) {
    (
        (&*row.arm).min(&*row.against),
        (&*row.arm).max(&*row.against),
    )
}

/// Of a ratio of a row: 1 where it is the first of these arms to the second.
fn sign(row: &Row) -> f64 {
    if row.arm < row.against { 1.0 } else { -1.0 }
}

fn load(row: &Row) -> (&Text, &Text) {
    (&row.fingerprint, &row.model)
}

/// What machines found of each two arms: by these, machine and load.
#[derive(Debug)]
struct Pairs<'a>(Vec<&'a Row>);

impl<'a> Pairs<'a> {
    fn of(rows: impl Iterator<Item = &'a Row>) -> Pairs<'a> {
        let mut all: Vec<&Row> = rows.collect();
        let key = |row: &&'a Row| (arms(row), &row.machine, load(row));
        all.sort_by(|a, b| key(a).cmp(&key(b)));
        Pairs(all)
    }

    /// What each machine found of two arms, and the sign of the first against the second.
    fn machines(&self, arm: &str, against: &str) -> (impl Iterator<Item = &[&'a Row]>, f64) {
        let (pair, sign) = if arm < against {
            ((arm, against), 1.0)
        } else {
            ((against, arm), -1.0)
        };
        let begin = self.0.partition_point(|row| arms(row) < pair);
        let length = self.0[begin..].partition_point(|row| arms(row) == pair);
        let found = &self.0[begin..begin + length];
        let machines = found.chunk_by(|a, b| a.machine == b.machine);
        (machines, sign)
    }

    fn studies(&self, arm: &str, against: &str) -> Vec<(&'a Text, Study)> {
        let (machines, sign) = self.machines(arm, against);
        let studies = machines.map(|found| {
            let Study { effect, variance } = study(found);
            let effect = sign * effect;
            (&found[0].machine, Study { effect, variance })
        });
        studies.collect()
    }

    fn arm(&self, arm: &str, reference: &str, method: &mut RandomEffects) -> ArmFinding {
        let each = self.studies(arm, reference);
        let studies: Vec<Study> = each.iter().map(|(_, study)| *study).collect();
        let is_enough = studies.len() >= LEAST_MACHINES;
        let pooled = is_enough.then(|| method.pool(&studies)).flatten();
        ArmFinding {
            arm: arm.into(),
            machines: each.len(),
            ratio: pooled.map(|pooled| pooled.mean.exp()),
            next_machine: pooled.and_then(|pooled| Some(pooled.prediction?.exp())),
            tau_squared: pooled.map(|pooled| pooled.tau_squared),
            i_squared: pooled.map(|pooled| pooled.i_squared),
            p99_ratio: self.mean_ratio(arm, reference, SideNumber::P99),
            cpu_ratio: self.mean_ratio(arm, reference, SideNumber::Cpu),
            each: each
                .into_iter()
                .map(|(machine, study)| (machine.clone(), study))
                .collect(),
        }
    }

    /// The geometric mean over machines of a ratio.
    fn mean_ratio(&self, arm: &str, against: &str, number: SideNumber) -> Option<f64> {
        let logs = self.logs(arm, against, number);
        (!logs.is_empty()).then(|| mean(&logs).exp())
    }

    /// ln of a ratio, of each machine that has it.
    fn logs(&self, arm: &str, against: &str, number: SideNumber) -> Vec<f64> {
        let (machines, of_pair) = self.machines(arm, against);
        let means = machines.filter_map(|found| {
            let log = |row: &&Row| Some(of_pair * sign(row) * number.of(row)?.ln());
            let logs: Vec<f64> = found.iter().filter_map(log).collect();
            (!logs.is_empty()).then(|| mean(&logs))
        });
        means.collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// One number of what a machine found of two arms: what was measured repeatedly weighs by its variance, loads weigh the same.
fn study(found: &[&Row]) -> Study {
    let (mut effect, mut variance, mut loads) = (0.0, 0.0, 0.0);
    for of_load in found.chunk_by(|a, b| load(a) == load(b)) {
        let weight = |row: &&Row| 1.0 / row.standard_error.powi(2);
        let weights: f64 = of_load.iter().map(weight).sum();
        let effects = of_load
            .iter()
            .map(|row| sign(row) * row.log_ratio * weight(row));
        effect += effects.sum::<f64>() / weights;
        variance += 1.0 / weights;
        loads += 1.0;
    }
    Study {
        effect: effect / loads,
        variance: variance / (loads * loads),
    }
}

impl<'a> Groups<'a> {
    /// Sorts rows by the questions that they answer, as far as these are wanted.
    pub fn of(rows: &'a [Row], is_wanted: impl Fn(&Question) -> bool) -> Groups<'a> {
        let mut groups: BTreeMap<Question, Group<'a>> = BTreeMap::new();
        // Rows of one record stand together: what they have in common is worked out once.
        for run in rows.chunk_by(Row::is_of_the_same_run) {
            for question in questions(&run[0]).filter(|question| is_wanted(question)) {
                groups.entry(question).or_default().rows.extend(run);
            }
        }
        Groups {
            groups,
            method: RandomEffects::new(CONFIDENCE),
        }
    }

    /// All questions.
    pub fn questions(&self) -> impl Iterator<Item = &Question> {
        self.groups.keys()
    }

    /// How many machines measured anything of a question.
    pub fn machines(&self, question: &Question) -> usize {
        self.groups.get(question).map_or(0, Group::machines)
    }

    /// What is known of a question that rows answer.
    pub fn finding(&mut self, question: &Question) -> Option<Finding> {
        let group = self.groups.get(question)?;
        Some(group.finding(question, &mut self.method))
    }

    /// All of them, in order.
    pub fn findings(&mut self) -> Vec<Finding> {
        let groups = self.groups.iter();
        groups
            .map(|(question, group)| group.finding(question, &mut self.method))
            .collect()
    }

    /// ln of how many times as good an arm is as another, if enough machines measured both.
    pub fn compare(&mut self, question: &Question, arm: &str, against: &str) -> Option<Pooled> {
        let pairs = self.groups.get(question)?.pair(arm, against);
        let studies: Vec<Study> = pairs
            .studies(arm, against)
            .into_iter()
            .map(|(_, study)| study)
            .collect();
        if studies.len() < LEAST_MACHINES {
            return None;
        }
        self.method.pool(&studies)
    }

    /// In what an arm is worse than another beside what decides, where that is proven, or large on most machines; none if no machine has such
    /// numbers of both. Rows have no errors of these numbers, so each machine counts the same.
    pub fn prices(&self, question: &Question, arm: &str, against: &str) -> Option<Vec<Price>> {
        let pairs = self.groups.get(question)?.pair(arm, against);
        let is_beside = |number: &SideNumber| number.objective() != &*question.objective;
        let mut is_known = false;
        let mut prices = Vec::new();
        for number in SideNumber::ALL.into_iter().filter(is_beside) {
            let logs = pairs.logs(arm, against, number);
            if logs.is_empty() {
                continue;
            }
            is_known = true;
            let is_enough = logs.len() >= LEAST_MACHINES;
            let interval = is_enough.then(|| student_t(&logs, CONFIDENCE)).flatten();
            let interval = interval.map(Interval::exp);
            let proven = interval.filter(|interval| interval.lower > MARGIN);
            let ratio = proven.map_or_else(|| median(&logs).exp(), |interval| interval.estimate);
            if proven.is_none() && ratio < LARGE {
                continue;
            }
            prices.push(Price {
                arm: arm.into(),
                against: against.into(),
                number,
                ratio,
                interval,
                machines: logs.len(),
                is_proven: proven.is_some(),
            });
        }
        is_known.then_some(prices)
    }
}

/// The questions that a row answers.
fn questions(row: &Row) -> impl Iterator<Item = Question> {
    let is_own = *row.load_class == *crate::row::OWN;
    let own_load = if is_own {
        row.fingerprint.clone()
    } else {
        Text::from("")
    };
    Level::ALL.into_iter().filter_map(move |level| {
        Some(Question {
            source: row.source,
            level,
            drive: level.of(row)?,
            class: row.class().into(),
            load_class: row.load_class.clone(),
            own_load: own_load.clone(),
            objective: row.objective.clone(),
            kernel: row.series().into(),
        })
    })
}

impl<'a> Group<'a> {
    /// What was found of two arms.
    fn pair(&self, arm: &str, against: &str) -> Pairs<'a> {
        let is_of_them = |row: &Row| {
            let arms = (&*row.arm, &*row.against);
            arms == (arm, against) || arms == (against, arm)
        };
        Pairs::of(self.rows.iter().copied().filter(|row| is_of_them(row)))
    }

    fn machines(&self) -> usize {
        let mut machines: Vec<&str> = self.rows.iter().map(|row| &*row.machine).collect();
        machines.sort_unstable();
        machines.dedup();
        machines.len()
    }

    /// Each arm, and how many machines measured it, by its name.
    fn arms(&self) -> Vec<(&'a str, usize)> {
        let of_row = |row: &&'a Row| -> [(&'a str, &'a str); 2] {
            let machine = &*row.machine;
            [(&row.arm, machine), (&row.against, machine)]
        };
        let mut measured: Vec<(&str, &str)> = self.rows.iter().flat_map(of_row).collect();
        measured.sort_unstable();
        measured.dedup();
        let arms = measured.chunk_by(|a, b| a.0 == b.0);
        arms.map(|machines| (machines[0].0, machines.len()))
            .collect()
    }

    fn finding(&self, question: &Question, method: &mut RandomEffects) -> Finding {
        let arms = self.arms();
        // Of several that as many have measured, the one that costs nothing.
        let rank = |&&(name, machines): &&(&'a str, usize)| {
            (machines, name == "none", std::cmp::Reverse(name))
        };
        let reference = arms.iter().max_by_key(rank).map_or("", |(name, _)| name);
        let others = arms.iter().filter(|(arm, _)| *arm != reference);
        let pairs = Pairs::of(self.rows.iter().copied());
        let mut found: Vec<ArmFinding> = others
            .map(|(arm, _)| pairs.arm(arm, reference, method))
            .collect();
        let estimate =
            |arm: &ArmFinding| arm.ratio.map_or(f64::NEG_INFINITY, |ratio| ratio.estimate);
        found.sort_by(|a, b| {
            estimate(b)
                .total_cmp(&estimate(a))
                .then_with(|| a.arm.cmp(&b.arm))
        });
        let (answer, arms) = answer(reference, &found, &arms, &pairs, method);
        let of = |wanted: Answer| {
            if answer == wanted {
                arms.clone()
            } else {
                Vec::new()
            }
        };
        Finding {
            machines: self.machines(),
            days: (
                self.rows.iter().map(|row| row.day).min().unwrap_or(0),
                self.rows.iter().map(|row| row.day).max().unwrap_or(0),
            ),
            answer,
            take: of(Answer::Take),
            not_told_apart: of(Answer::NotToldApart),
            question: question.clone(),
            reference: reference.into(),
            arms: found,
        }
    }
}

/// What the intervals say of all arms that enough machines measured, and those that may be taken: the best first.
fn answer(
    reference: &str,
    arms: &[ArmFinding],
    measured: &[(&str, usize)],
    pairs: &Pairs<'_>,
    method: &RandomEffects,
) -> (Answer, Vec<Text>) {
    /// So often a better arm than the best one is looked for: each is surely ahead of the one before.
    const STEPS: usize = 8;
    let as_itself = Interval {
        estimate: 1.0,
        lower: 1.0,
        upper: 1.0,
    };
    if arms.iter().all(|arm| arm.ratio.is_none()) {
        return (Answer::Unknown, Vec::new());
    }
    let is_measured = |arm: &ArmFinding| {
        let at = measured.binary_search_by_key(&&*arm.arm, |(name, _)| name);
        arm.ratio.is_some() || at.is_ok_and(|at| measured[at].1 >= LEAST_MACHINES)
    };
    // Before those that are exactly as good: nothing is gained by a change.
    let mut known = vec![(reference, Some(as_itself))];
    let others = arms.iter().filter(|arm| is_measured(arm));
    known.extend(others.map(|arm| (&*arm.arm, arm.ratio)));
    let estimate = |of: &(&str, Option<Interval>)| of.1.map_or(f64::NEG_INFINITY, |it| it.estimate);
    known.sort_by(|a, b| estimate(b).total_cmp(&estimate(a)));
    let ahead =
        |one: usize, other: usize| ahead(known[one], known[other], reference, pairs, method);
    let is_surely_behind =
        |one: usize, other: usize| ahead(other, one).is_some_and(|ahead| ahead.lower > 1.0);
    // Machines that measured two arms side by side may say the contrary of their ratios to the reference.
    let mut led = vec![0];
    while led.len() < STEPS {
        let best = led[led.len() - 1];
        let better = (0..known.len()).find(|&other| other != best && is_surely_behind(best, other));
        match better {
            Some(better) if !led.contains(&better) => led.push(better),
            _ => break,
        }
    }
    let (best, led) = led.split_last().expect("it begins with one");
    let mut found = vec![Text::from(known[*best].0)];
    let mut answer = Answer::Take;
    for other in (0..known.len()).filter(|other| other != best) {
        let (is_as_good, may_be) = match ahead(*best, other) {
            Some(ahead) => (
                ahead.lower >= 1.0 / MARGIN && ahead.upper <= MARGIN,
                ahead.lower <= 1.0,
            ),
            None => (false, !led.iter().any(|led| is_surely_behind(other, *led))),
        };
        if is_as_good || may_be {
            found.push(Text::from(known[other].0));
        }
        if !is_as_good && may_be {
            answer = Answer::NotToldApart;
        }
    }
    (answer, found)
}

/// How many times as good one arm is as another, each with its ratio to the reference; none if too few machines measured
/// them together and one has no such ratio.
fn ahead(
    one: (&str, Option<Interval>),
    other: (&str, Option<Interval>),
    reference: &str,
    pairs: &Pairs<'_>,
    method: &RandomEffects,
) -> Option<Interval> {
    if one.0 != reference && other.0 != reference {
        let studies = pairs.studies(one.0, other.0).into_iter();
        let studies: Vec<Study> = studies.map(|(_, study)| study).collect();
        let is_enough = studies.len() >= LEAST_MACHINES;
        if let Some(mean) = is_enough.then(|| method.mean(&studies)).flatten() {
            return Some(mean.exp());
        }
    }
    let (one, other) = (one.1?, other.1?);
    // Exact where one of them is the reference, whose interval is 1; otherwise too wide rather than too narrow.
    Some(Interval {
        estimate: one.estimate / other.estimate,
        lower: one.lower / other.upper,
        upper: one.upper / other.lower,
    })
}

#[cfg(test)]
mod tests;
