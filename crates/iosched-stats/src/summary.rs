//! The robust view beside the race's intervals, deciding nothing: the median of the rounds' ratios.
//!
//! Where mean and median disagree, a few rounds carry the mean; the reader should look at them.

use serde::Serialize;

/// Ratios of one arm to the baseline over the rounds, seen robustly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// How many rounds.
    pub rounds: usize,
    /// The median ratio.
    pub median: f64,
    /// The lowest ratio of a round.
    pub lowest: f64,
    /// The highest ratio of a round.
    pub highest: f64,
}

impl Summary {
    /// Of the ratios of the rounds; `None` if there are none.
    pub fn of(ratios: &[f64]) -> Option<Summary> {
        let ordered = sorted(ratios);
        // Between two rounds the ratio that is as far from one as from the other.
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        Some(Summary {
            rounds: ratios.len(),
            lowest: *ordered.first()?,
            highest: *ordered.last()?,
            median: median(&logs).exp(),
        })
    }
}

/// The middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> f64 {
    let ordered = sorted(values);
    let middle = ordered.len() / 2;
    if ordered.len() % 2 == 1 {
        ordered[middle]
    } else {
        0.5 * (ordered[middle - 1] + ordered[middle])
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut ordered = values.to_vec();
    ordered.sort_by(f64::total_cmp);
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wild_round_does_not_move_the_median() {
        let found = Summary::of(&[1.10, 1.11, 1.09, 40.0, 1.10, 1.08, 1.12]).unwrap();
        assert!((found.median - 1.10).abs() < 1e-9, "{found:?}");
        assert_eq!((found.rounds, found.lowest, found.highest), (7, 1.08, 40.0));
        let even = Summary::of(&[0.5, 2.0]).unwrap();
        assert!((even.median - 1.0).abs() < 1e-9, "{even:?}");
        assert_eq!(Summary::of(&[]), None);
    }
}
