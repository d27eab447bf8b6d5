//! What the design of somebody's measurement cannot show, whatever its numbers are.

use std::collections::BTreeSet;

use serde::Serialize;

use super::results::Run;

/// Fewer runs of an arm have no interval that is worth its name.
const LEAST: usize = 3;

/// Fewer runs seldom tell a difference from noise.
const ENOUGH: usize = 5;

/// A part of a second with less than this of the load's usual rate is a stall.
const STALL: f64 = 0.1;

/// Something that the numbers cannot say, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Doubt {
    /// Which kind.
    pub kind: DoubtKind,
    /// In a sentence.
    pub sentence: String,
    /// No difference, and no equality, is shown with it.
    pub is_fatal: bool,
}

/// Kinds of doubts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoubtKind {
    /// An arm has too few runs.
    TooFew,
    /// The arms ran one after the other.
    OneAfterTheOther,
    /// One arm was always first.
    SameOrder,
    /// Nobody knows in which order they ran.
    UnknownOrder,
    /// Something stopped the disk for a while.
    Stalls,
    /// The programs differ.
    Programs,
    /// The disks differ.
    Devices,
    /// What was asked of the program differs.
    Settings,
}

/// The doubts about one load's runs, by arm; fatal ones first.
pub(super) fn doubts(arms: &[String], runs: &[(usize, &Run)]) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let mut add = |kind, is_fatal, sentence: String| {
        doubts.push(Doubt {
            kind,
            sentence,
            is_fatal,
        });
    };
    let of = |arm: usize| runs.iter().filter(move |(of, _)| *of == arm);
    let (least, arm) = (0..arms.len())
        .map(|arm| (of(arm).count(), arm))
        .min()
        .unwrap_or_default();
    if least < ENOUGH {
        let times = match least {
            0 => "did not run",
            1 => "ran once",
            2 => "ran twice",
            _ => "ran fewer than five times",
        };
        let who = if (0..arms.len()).all(|arm| of(arm).count() == least) {
            "each arm"
        } else {
            &arms[arm]
        };
        let what = "too few to tell a difference from noise; take 5 or more of each";
        add(
            DoubtKind::TooFew,
            least < LEAST,
            format!("{who} {times}: {what}"),
        );
    }
    if let Some((kind, sentence)) = order(arms, runs) {
        add(kind, kind != DoubtKind::UnknownOrder, sentence);
    }
    let stalls = stalled(runs);
    if !stalls.is_empty() {
        let names: BTreeSet<&str> = stalls.iter().map(|arm| arms[*arm].as_str()).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let (stalled, all) = (stalls.len(), runs.len());
        add(
            DoubtKind::Stalls,
            true,
            format!(
                "{stalled} of {all} runs stalled (less than a tenth of the usual rate, for a part of a second or longer; {names}): \
             means and tails say how often the disk stalled, not what the scheduler does"
            ),
        );
    }
    let settings = |run: &Run| {
        let all = run.settings.iter();
        let all: Vec<String> = all.map(|(key, value)| format!("{key}={value}")).collect();
        (!all.is_empty()).then(|| all.join(" "))
    };
    if let Some(differ) = differing(runs, settings) {
        let sets: Vec<BTreeSet<&str>> = differ.iter().map(|it| it.split(' ').collect()).collect();
        let common = sets
            .iter()
            .skip(1)
            .fold(sets[0].clone(), |all, set| &all & set);
        let only = |set: &BTreeSet<&str>| match (set - &common).into_iter().collect::<Vec<_>>() {
            none if none.is_empty() => "without".to_owned(),
            some => some.join(" "),
        };
        let only: Vec<String> = sets.iter().map(only).collect();
        add(
            DoubtKind::Settings,
            true,
            format!(
                "the runs were asked for different things: {}",
                only.join(" / ")
            ),
        );
    }
    if let Some(differ) = differing(runs, |run| run.device.clone()) {
        add(
            DoubtKind::Devices,
            true,
            format!("the runs are of different disks: {}", differ.join(" / ")),
        );
    }
    if let Some(differ) = differing(runs, |run| run.program.clone()) {
        add(
            DoubtKind::Programs,
            false,
            format!("the runs are of different programs: {}", differ.join(" / ")),
        );
    }
    doubts.sort_by_key(|doubt| !doubt.is_fatal);
    doubts
}

/// What is wrong with the order in time.
fn order(arms: &[String], runs: &[(usize, &Run)]) -> Option<(DoubtKind, String)> {
    let timed = runs.iter().map(|&(arm, run)| Some((run.began?, arm)));
    let Some(mut timed) = timed.collect::<Option<Vec<_>>>() else {
        let sentence = "the files do not tell in which order the runs were made: a drift of the disk may look like a difference";
        return Some((DoubtKind::UnknownOrder, sentence.to_owned()));
    };
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let order: Vec<usize> = timed.into_iter().map(|(_, arm)| arm).collect();
    let changes = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let present: BTreeSet<usize> = order.iter().copied().collect();
    if present.len() < 2 || order.len() <= present.len() {
        return None; // one run of each: said already
    }
    let name = |arm: &usize| arms[*arm].as_str();
    if changes + 1 == present.len() {
        let mut blocks = order.clone();
        blocks.dedup();
        let blocks = blocks
            .iter()
            .map(name)
            .collect::<Vec<_>>()
            .join(", then all of ");
        let what = "a drift of the disk (heat, garbage collection, a fuller cache) explains a difference as well as the scheduler does";
        return Some((
            DoubtKind::OneAfterTheOther,
            format!("all runs of {blocks}: {what}"),
        ));
    }
    let rounds: Vec<&[usize]> = order.chunks(present.len()).collect();
    let is_same = rounds
        .iter()
        .all(|round| *round == rounds[0] || round.len() < present.len());
    if is_same && rounds[0].iter().collect::<BTreeSet<_>>().len() == present.len() {
        let order = rounds[0]
            .iter()
            .map(name)
            .collect::<Vec<_>>()
            .join(" before ");
        let what = "what a run leaves behind (cache, garbage, heat) is part of the difference";
        return Some((DoubtKind::SameOrder, format!("always {order}: {what}")));
    }
    None
}

/// The arms of the runs that stalled.
fn stalled(runs: &[(usize, &Run)]) -> Vec<usize> {
    let mut rates: Vec<f64> = runs.iter().filter_map(|(_, run)| run.rate).collect();
    rates.sort_by(f64::total_cmp);
    let Some(usual) = rates.get(rates.len() / 2) else {
        return Vec::new();
    };
    let has_stalled = |run: &Run| {
        let least = run.least_rate.into_iter().chain(run.rate).reduce(f64::min);
        least.is_some_and(|least| least < STALL * usual)
    };
    runs.iter()
        .filter(|(_, run)| has_stalled(run))
        .map(|(arm, _)| *arm)
        .collect()
}

/// What several runs say differently, where there is more than one answer.
fn differing(runs: &[(usize, &Run)], of: impl Fn(&Run) -> Option<String>) -> Option<Vec<String>> {
    let all: BTreeSet<String> = runs.iter().filter_map(|(_, run)| of(run)).collect();
    (all.len() > 1).then(|| all.into_iter().collect())
}
