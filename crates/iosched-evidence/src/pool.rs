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
        match self {
            Level::Model => (!row.model.is_empty()).then(|| row.model.clone()),
            _ => self.of_drive(&row.model, &row.class()),
        }
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

/// The rows of one question: nothing else is kept of it, so that a dataset of many questions takes little.
#[derive(Debug, Default)]
struct Group<'a> {
    rows: Vec<&'a Row>,
}

/// A row, with its arms in the order of their names.
#[derive(Debug, Clone, Copy)]
struct Compared<'a> {
    first: &'a str,
    second: &'a str,
    row: &'a Row,
}

impl<'a> Compared<'a> {
    fn of(row: &'a Row) -> Compared<'a> {
        let (arm, against): (&str, &str) = (&row.arm, &row.against);
        Compared {
            first: arm.min(against),
            second: arm.max(against),
            row,
        }
    }

    /// Of a ratio of the row: 1 where it is the first arm's to the second's.
    fn sign(&self) -> f64 {
        if *self.row.arm == *self.first {
            1.0
        } else {
            -1.0
        }
    }

    fn study(&self) -> Study {
        Study {
            effect: self.sign() * self.row.log_ratio,
            variance: self.row.standard_error.powi(2),
        }
    }

    fn arms(&self) -> (&'a str, &'a str) {
        (self.first, self.second)
    }

    fn load(&self) -> (&'a str, &'a str) {
        (&self.row.fingerprint, &self.row.model)
    }
}

/// What machines found of each two arms: by these, machine and load.
#[derive(Debug)]
struct Pairs<'a>(Vec<Compared<'a>>);

impl<'a> Pairs<'a> {
    fn of(rows: impl Iterator<Item = &'a Row>) -> Pairs<'a> {
        let mut all: Vec<Compared<'_>> = rows.map(Compared::of).collect();
        all.sort_by(|a, b| {
            let key = |it: &Compared<'a>| (it.arms(), &it.row.machine, it.load());
            key(a).cmp(&key(b))
        });
        Pairs(all)
    }

    /// What each machine found of two arms, and the sign of the first against the second.
    fn machines(&self, arm: &str, against: &str) -> (impl Iterator<Item = &[Compared<'a>]>, f64) {
        let (arms, sign) = if arm < against {
            ((arm, against), 1.0)
        } else {
            ((against, arm), -1.0)
        };
        let begin = self.0.partition_point(|it| it.arms() < arms);
        let length = self.0[begin..].partition_point(|it| it.arms() == arms);
        let found = &self.0[begin..begin + length];
        let machines = found.chunk_by(|a, b| a.row.machine == b.row.machine);
        (machines, sign)
    }

    fn studies(&self, arm: &str, against: &str) -> Vec<(&'a Text, Study)> {
        let (machines, sign) = self.machines(arm, against);
        let studies = machines.map(|found| {
            let Study { effect, variance } = study(found);
            let effect = sign * effect;
            (&found[0].row.machine, Study { effect, variance })
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
        let says_how = |it: &Compared<'_>| it.row.p99_counted.is_some();
        // What was counted in another way than it would be now is no measure beside what says how it was.
        let is_p99 = number == SideNumber::P99;
        let only_those = is_p99 && self.machines(arm, against).0.flatten().any(says_how);
        let (machines, sign) = self.machines(arm, against);
        let means = machines.filter_map(|found| {
            let log = |it: &Compared<'_>| {
                let counts = !only_those || says_how(it);
                Some(sign * it.sign() * number.of(it.row).filter(|_| counts)?.ln())
            };
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
fn study(found: &[Compared<'_>]) -> Study {
    let (mut effect, mut variance, mut loads) = (0.0, 0.0, 0.0);
    for of_load in found.chunk_by(|a, b| a.load() == b.load()) {
        let studies = || of_load.iter().map(Compared::study);
        let weight: f64 = studies().map(|study| 1.0 / study.variance).sum();
        let sum: f64 = studies().map(|study| study.effect / study.variance).sum();
        effect += sum / weight;
        variance += 1.0 / weight;
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
        Groups::of_levels(rows, &Level::ALL, is_wanted)
    }

    fn of_levels(
        rows: impl IntoIterator<Item = &'a Row>,
        levels: &[Level],
        is_wanted: impl Fn(&Question) -> bool,
    ) -> Groups<'a> {
        let mut groups: BTreeMap<Question, Group<'a>> = BTreeMap::new();
        // Rows of one record stand together: what they have in common is worked out once.
        let mut last: Option<(&Row, Vec<Question>)> = None;
        let no_load = Text::from("");
        for row in rows {
            let is_alike = last
                .as_ref()
                .is_some_and(|(other, _)| other.is_of_the_same_run(row));
            if !is_alike {
                let questions = questions(row, levels, &no_load)
                    .filter(|question| is_wanted(question))
                    .collect();
                last = Some((row, questions));
            }
            for question in last.iter().flat_map(|(_, questions)| questions) {
                if let Some(group) = groups.get_mut(question) {
                    group.rows.push(row);
                } else {
                    groups.insert(question.clone(), Group { rows: vec![row] });
                }
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

/// What rows say of each question that is wanted, in order. No more is held at a time than the questions of one level, so
/// that a dataset of many takes little.
pub fn findings<'a>(
    rows: &'a [Row],
    is_wanted: impl Fn(&Question) -> bool + Copy + 'a,
) -> impl Iterator<Item = Finding> + 'a {
    let parts = Source::ALL.into_iter();
    let parts = parts.flat_map(|source| Level::ALL.map(|level| (source, level)));
    parts.flat_map(move |(source, level)| {
        let of_source = rows.iter().filter(move |row| row.source == source);
        let Groups { groups, mut method } = Groups::of_levels(of_source, &[level], is_wanted);
        let groups = groups.into_iter();
        groups.map(move |(question, group)| group.finding(&question, &mut method))
    })
}

/// The questions of these levels that a row answers; `no_load` is the empty text.
fn questions<'a>(
    row: &'a Row,
    levels: &'a [Level],
    no_load: &'a Text,
) -> impl Iterator<Item = Question> + 'a {
    levels.iter().filter_map(move |&level| {
        Some(Question {
            source: row.source,
            level,
            drive: level.of(row)?,
            class: row.class().into(),
            load_class: row.load_class.clone(),
            own_load: if *row.load_class == *crate::row::OWN {
                row.fingerprint.clone()
            } else {
                no_load.clone()
            },
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
mod tests {
    use super::*;
    use crate::row::example;

    /// A machine's rows of three arms that are so many times as good as none.
    fn machine(number: usize, kyber: f64, bfq: f64) -> Vec<Row> {
        let row = |arm: &str, against: &str, ratio: f64| Row {
            record: format!("{number:032x}").into(),
            machine: format!("{number:016x}").into(),
            arm: arm.into(),
            against: against.into(),
            log_ratio: ratio.ln(),
            ..example()
        };
        vec![
            row("kyber", "none", kyber),
            row("none", "bfq", 1.0 / bfq), // as it stands where bfq is the baseline
            row("bfq", "kyber", bfq / kyber),
        ]
    }

    fn machines(count: usize) -> Vec<Row> {
        let all = (0..count).flat_map(|number| {
            let off = [0.98, 1.0, 1.02, 1.01, 0.99][number % 5];
            machine(number, 1.3 * off, 0.8 * off)
        });
        all.collect()
    }

    fn of_model(rows: &[Row]) -> Finding {
        let mut groups = Groups::of(rows, |question| question.level == Level::Model);
        let mut findings = groups.findings();
        assert_eq!(findings.len(), 1);
        findings.remove(0)
    }

    #[test]
    fn the_best_arm_is_taken_and_its_ratio_holds_the_truth() {
        let found = of_model(&machines(8));
        assert_eq!((found.machines, &*found.reference), (8, "none"));
        assert_eq!(found.take, ["kyber".into()]);
        let [kyber, bfq] = &found.arms[..] else {
            panic!("{found:?}")
        };
        assert!(kyber.ratio.unwrap().contains(1.3) && bfq.ratio.unwrap().contains(0.8));
        assert!(kyber.next_machine.unwrap().lower < kyber.ratio.unwrap().lower);
        assert_eq!(kyber.each.len(), 8);
        assert!((kyber.p99_ratio.unwrap() - 0.8).abs() < 1e-9);
    }

    #[test]
    fn a_p99_that_does_not_say_how_it_was_counted_is_left_out_beside_others_that_do() {
        let mut rows = machines(8);
        for row in &mut rows {
            if usize::from_str_radix(&row.machine, 16).unwrap() % 2 == 0 {
                (row.p99_counted, row.p99_ratio) = (None, Some(5.0));
            }
        }
        let p99 = |rows: &[Row]| of_model(rows).arms[0].p99_ratio.unwrap();
        assert!((p99(&rows) - 0.8).abs() < 1e-9);
        for row in &mut rows {
            (row.p99_counted, row.p99_ratio) = (None, Some(5.0));
        }
        assert!(
            (p99(&rows) - 5.0).abs() < 1e-9,
            "where none does, all count"
        );
    }

    #[test]
    fn few_machines_say_nothing() {
        let found = of_model(&machines(LEAST_MACHINES - 1));
        assert_eq!((found.machines, found.is_known()), (4, false));
        assert_eq!(found.arms[0].ratio, None);
        assert!(of_model(&machines(LEAST_MACHINES)).is_known());
    }

    #[test]
    fn one_machine_counts_once_however_often_it_measured() {
        let mut rows = machines(LEAST_MACHINES);
        for row in &mut rows {
            row.machine = "one".into();
        }
        let found = of_model(&rows);
        assert_eq!((found.machines, found.is_known()), (1, false));
        let study = found
            .arms
            .iter()
            .find(|arm| &*arm.arm == "kyber")
            .unwrap()
            .each[0]
            .1;
        assert!(
            (study.variance - 0.02_f64.powi(2) / 5.0).abs() < 1e-9,
            "{study:?}"
        );
    }

    #[test]
    fn kernels_loads_sources_and_objectives_are_never_mixed() {
        type Other = fn(&mut Row);
        let others: [Other; 4] = [
            |row| row.kernel = "6.6.3".into(),
            |row| row.load_class = "database".into(),
            |row| row.source = Source::Emulated,
            |row| row.objective = "p99".into(),
        ];
        for other in others {
            let mut rows = machines(10);
            rows.iter_mut().skip(15).for_each(other);
            let groups = Groups::of(&rows, |_| true);
            let counts: Vec<usize> = groups
                .questions()
                .map(|question| groups.machines(question))
                .collect();
            assert_eq!(counts, [5; 6], "two of each level");
        }
    }

    #[test]
    fn a_family_has_all_its_models_and_a_class_all_families() {
        let mut rows = machines(6);
        rows.iter_mut()
            .skip(9)
            .for_each(|row| row.model = "Samsung SSD 970 EVO Plus 500GB".into());
        let mut groups = Groups::of(&rows, |_| true);
        let counts: Vec<(Level, usize)> = groups
            .findings()
            .iter()
            .map(|found| (found.question.level, found.machines))
            .collect();
        assert_eq!(
            counts,
            [
                (Level::Model, 3),
                (Level::Model, 3),
                (Level::Family, 6),
                (Level::Class, 6)
            ]
        );
    }

    #[test]
    fn what_an_arm_costs_is_told_where_it_is_proven_or_large_and_of_machines_that_measured_it() {
        let rows_of = |p99: &[Option<f64>], cpu: f64| {
            let mut rows = machines(p99.len());
            for row in &mut rows {
                let number = usize::from_str_radix(&row.machine, 16).unwrap();
                (row.p99_ratio, row.cpu_ratio) = (p99[number], Some(cpu));
            }
            rows
        };
        let prices = |rows: &[Row], arm: &str, against: &str| {
            let mut groups = Groups::of(rows, |_| true);
            let found = groups.findings().remove(0);
            groups.prices(&found.question, arm, against)
        };
        let twelve = [11.0, 12.0, 13.0, 12.0, 12.5, 11.5].map(Some);
        let rows = rows_of(&twelve, 1.04);
        let found = prices(&rows, "kyber", "none").unwrap();
        let [price] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((price.number, price.machines), (SideNumber::P99, 6));
        assert!((price.ratio - 12.0).abs() < 0.1, "{price:?}");
        assert!(price.is_proven && price.is_surely_large(), "{price:?}");
        assert_eq!(prices(&rows, "none", "kyber"), Some(Vec::new()), "a gain");
        assert_eq!(prices(&rows, "kyber", "nobody"), None);
        // Some percent more on all machines is proven; a lot more on few is told, and said not to be.
        let found = prices(&rows_of(&twelve, 1.2), "kyber", "none").unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].is_proven && !found[1].is_surely_large());
        let few = [Some(9.0), Some(12.0), None, None, None, None];
        let found = prices(&rows_of(&few, 1.0), "kyber", "none").unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].machines, found[0].interval), (2, None));
        assert!(!found[0].is_proven && !found[0].is_surely_large());
        let scattered = [0.9, 1.2, 1.0, 1.1, 0.95, 1.25].map(Some);
        assert_eq!(
            prices(&rows_of(&scattered, 1.0), "kyber", "none"),
            Some(vec![])
        );
        // One machine that lies neither makes a price nor hides one.
        let lie = [1.0, 1.0, 1.0, 1.0, 1.0, 1e9].map(Some);
        assert_eq!(prices(&rows_of(&lie, 1.0), "kyber", "none"), Some(vec![]));
        let lie = [3.0, 3.1, 2.9, 3.0, 3.0, 1e-9].map(Some);
        let found = prices(&rows_of(&lie, 1.0), "kyber", "none").unwrap();
        assert!((found[0].ratio - 3.0).abs() < 0.1 && !found[0].is_proven);
        // What decides is no number beside it.
        let mut rows = rows_of(&twelve, 1.0);
        for row in &mut rows {
            row.objective = "p99".into();
        }
        assert_eq!(prices(&rows, "kyber", "none"), Some(Vec::new()));
    }

    #[test]
    fn what_the_interval_does_not_tell_apart_is_not_advised() {
        // 1.07 (0.74 to 1.57) says neither that kyber is better nor that it is as good.
        let found = |ratios: [f64; 5]| {
            let rows = ratios.into_iter().enumerate();
            let rows = rows.flat_map(|(number, ratio)| machine(number, ratio, 0.2));
            of_model(&rows.collect::<Vec<_>>())
        };
        let unsure = found([1.06, 0.7, 1.7, 1.2, 0.9]);
        assert_eq!(unsure.answer, Answer::NotToldApart, "{unsure:?}");
        assert_eq!(unsure.not_told_apart, ["kyber".into(), "none".into()]);
        assert!(unsure.take.is_empty() && unsure.is_known());
        assert_eq!(unsure.candidates(), unsure.not_told_apart);
        let sure = found([1.30, 1.31, 1.29, 1.3, 1.3]);
        assert_eq!(
            (sure.answer, &*sure.take),
            (Answer::Take, &["kyber".into()][..])
        );
        assert!(sure.not_told_apart.is_empty());
    }

    #[test]
    fn arms_that_no_machine_measured_together_are_told_apart_by_what_both_have_in_common() {
        let only = |number: usize, arm: &str, ratio: f64| {
            let mut rows = machine(number, ratio, ratio);
            let is_with_none = |row: &Row| {
                let arms = [&*row.arm, &*row.against];
                arms.contains(&arm) && arms.contains(&"none")
            };
            rows.retain(is_with_none);
            rows
        };
        let with = |bfq: f64| {
            let kyber = (0..6).flat_map(|number| only(number, "kyber", 1.3));
            let bfq = (6..12).flat_map(|number| only(number, "bfq", bfq));
            of_model(&kyber.chain(bfq).collect::<Vec<_>>())
        };
        let apart = with(0.8);
        assert_eq!(
            (apart.answer, &*apart.take),
            (Answer::Take, &["kyber".into()][..])
        );
        let close = with(1.28);
        assert_eq!(
            close.not_told_apart,
            ["kyber".into(), "bfq".into()],
            "{close:?}"
        );
    }

    /// What machines found of two arms alone.
    fn pair(machines: std::ops::Range<usize>, arm: &str, against: &str, ratio: f64) -> Vec<Row> {
        let row = |number: usize| Row {
            record: format!("{number:032x}").into(),
            machine: format!("{number:016x}").into(),
            arm: arm.into(),
            against: against.into(),
            log_ratio: (ratio * [0.98, 1.0, 1.02, 1.01, 0.99][number % 5]).ln(),
            ..example()
        };
        machines.map(row).collect()
    }

    #[test]
    fn an_arm_that_was_measured_beside_another_than_the_reference_counts() {
        let without = [
            pair(0..25, "mq-deadline", "none", 1.05),
            pair(30..38, "bfq", "none", 1.3),
        ]
        .concat();
        assert_eq!(of_model(&without).take, ["bfq".into()]);
        let faster = of_model(&[without.clone(), pair(40..60, "kyber", "bfq", 2.0)].concat());
        assert_eq!(faster.take, ["kyber".into()], "{faster:?}");
        let kyber = faster.arms.iter().find(|arm| &*arm.arm == "kyber").unwrap();
        assert_eq!((kyber.machines, kyber.ratio), (0, None));
        let slower = of_model(&[without.clone(), pair(40..60, "kyber", "bfq", 0.5)].concat());
        assert_eq!(slower.take, ["bfq".into()], "{slower:?}");
        // Beside nothing that both were compared with.
        let apart = of_model(&[without, pair(40..60, "kyber", "cfq", 2.0)].concat());
        let all = ["bfq", "cfq", "kyber"].map(Text::from);
        assert_eq!(apart.not_told_apart, all, "{apart:?}");
    }

    #[test]
    fn what_was_measured_side_by_side_decides_against_the_ratios_to_the_reference() {
        let rows = [
            pair(0..8, "mq-deadline", "none", 1.10),
            pair(10..18, "bfq", "none", 1.20),
            pair(20..28, "mq-deadline", "bfq", 1.30),
        ];
        let found = of_model(&rows.concat());
        assert_eq!(found.take, ["mq-deadline".into()], "{found:?}");
    }

    #[test]
    fn a_model_behind_another_bridge_is_another_drive() {
        let mut rows = machines(10);
        rows.iter_mut()
            .skip(15)
            .for_each(|row| row.transport = "usb".into());
        let mut groups = Groups::of(&rows, |question| question.level == Level::Model);
        let found = groups.findings();
        let of: Vec<_> = found
            .iter()
            .map(|found| (&*found.question.class, found.machines))
            .collect();
        assert_eq!(of, [("nvme-ssd", 5), ("usb-ssd", 5)]);
    }

    #[test]
    fn arms_that_are_as_good_are_named_too() {
        let rows: Vec<Row> = (0..6)
            .flat_map(|number| machine(number, 1.02, 0.5))
            .collect();
        assert_eq!(of_model(&rows).take, ["kyber".into(), "none".into()]);
        let same: Vec<Row> = (0..6)
            .flat_map(|number| machine(number, 1.0, 1.0))
            .collect();
        assert_eq!(
            of_model(&same).take,
            ["none".into(), "bfq".into(), "kyber".into()]
        );
    }

    #[test]
    fn one_after_the_other_they_are_the_same_in_the_same_order() {
        let mut rows = machines(12);
        for (number, row) in rows.iter_mut().enumerate() {
            row.source = Source::ALL[number / 3 % 3];
            row.model = ["A 1TB", "A 2TB", ""][number / 9 % 3].into();
            row.kernel = if row.source == Source::Simulated {
                "".into()
            } else {
                "6.6.1".into()
            };
        }
        let is_wanted = |question: &Question| &*question.drive != "A 2TB";
        let all = Groups::of(&rows, is_wanted).findings();
        assert!(all.len() > 8, "{all:?}");
        assert_eq!(findings(&rows, is_wanted).collect::<Vec<_>>(), all);
    }

    #[test]
    fn any_two_arms_can_be_compared() {
        let rows = machines(8);
        let mut groups = Groups::of(&rows, |question| question.level == Level::Class);
        let question = groups.questions().next().unwrap().clone();
        let pooled = groups.compare(&question, "kyber", "bfq").unwrap();
        assert!((pooled.mean.estimate - (1.3_f64 / 0.8).ln()).abs() < 1e-9);
        assert_eq!(groups.compare(&question, "kyber", "cfq"), None);
    }
}
