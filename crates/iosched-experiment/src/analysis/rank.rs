//! Where an arm stands in a contest: one scale of words for tables, sentences, pages and JSON.

use iosched_stats::race::{ArmState, Contest, Verdict};
use serde::Serialize;

/// What is known of an arm, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rank {
    /// Surely better than every other.
    Winner,
    /// Surely within the margin of the best.
    Equal,
    /// None of the others is better than it by more than the margin.
    NearBest,
    /// It may be the best, or not.
    Undecided,
    /// Surely worse than another one, or missing a requirement.
    Eliminated,
    /// It could not be measured.
    Failed,
}

impl Rank {
    /// That of an arm in a contest whose ratios are to this baseline.
    pub fn of(contest: &Contest, arm: usize, baseline: usize) -> Rank {
        if matches!(contest.arms[arm].place, ArmState::Withdrawn) {
            return Rank::Failed;
        }
        let among = |arms: &[usize], rank: Rank| arms.contains(&arm).then_some(rank);
        let rank = match &contest.verdict {
            Verdict::Winner { arm: winner } => among(&[*winner], Rank::Winner),
            Verdict::Equal { arms, .. } => among(arms, Rank::Equal),
            Verdict::NearBest {
                arms, among: all, ..
            } => among(arms, Rank::NearBest).or(among(all, Rank::Undecided)),
            Verdict::Undecided { arms, .. } => among(arms, Rank::Undecided),
            Verdict::Open => among(&undecided_yet(contest, baseline), Rank::Undecided),
            Verdict::Alone { arm } => among(&[*arm], Rank::Undecided),
            Verdict::Nobody => None,
        };
        rank.unwrap_or(Rank::Eliminated)
    }

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Rank::Winner => "best",
            Rank::Equal => "equal",
            Rank::NearBest => "near best",
            Rank::Undecided => "undecided",
            Rank::Eliminated => "out",
            Rank::Failed => "failed",
        }
    }
}

/// The arms between which an open contest has to decide: those that remain, and a baseline that was beaten by none of
/// them.
pub fn undecided_yet(contest: &Contest, baseline: usize) -> Vec<usize> {
    let mut arms: Vec<usize> = contest.remaining().collect();
    if arms.len() == 1 && arms[0] != baseline {
        arms.insert(0, baseline);
    }
    arms
}
