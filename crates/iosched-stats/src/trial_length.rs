//! How long a trial should be: longer trials, or more of them?
//!
//! The noise of a trial has two parts: what differs from trial to trial however long they are (`between`), and what the
//! trial's own course leaves open (`within`), whose square falls with the length `L`. A trial costs `overhead + L`. Where
//! many rounds are needed, their number goes with the noise squared, and the cheapest length is the classic one of
//! repeated experiments, `sqrt(overhead × within² × L / between²)`: T. Kalibera and R. Jones, *Rigorous benchmarking in
//! reasonable time*, ISMM 2013 (of subsampling: W. G. Cochran, *Sampling techniques*, 3rd edition 1977, chapter 10).
//!
//! A race is no such experiment where its differences are large or its noise small: it takes a few rounds at the least, and
//! the critical values of a few rounds are larger than those of many. The classic length then asks for trials as long as
//! can be (`between` near 0), although the answer would be known as soon from short ones. So what is made small here
//! is the cost itself: rounds, by the race's own critical values, times what one takes. With many rounds that
//! is the classic length (a test compares them).

use crate::sequence::{critical_t_with, first_rounds};

/// The noise of a trial, as standard deviations of its logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialNoise {
    /// From trial to trial, however long they are.
    pub between: f64,
    /// By its own course, of a trial of one second.
    pub within_one_second: f64,
}

/// What is to be told apart, and what the race asks for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// The difference of two logarithms.
    pub distance: f64,
    /// The level of a pair's intervals.
    pub level: f64,
    /// Arms of a round.
    pub arms: usize,
    /// Rounds that a race takes at the least.
    pub min_rounds: usize,
}

/// What an answer takes with trials of some length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Of a trial, s.
    pub length_s: f64,
    /// Until the difference is known.
    pub rounds: usize,
    /// Of one arm over these rounds, s.
    pub seconds: f64,
}

/// The noise of all pairs together is known from so many times the rounds of one: as in the race.
const POOL_LIMIT: usize = 3;

impl TrialNoise {
    /// From the variance that trials of this length have around what rounds and arms explain, and the squared error of
    /// their own course. Where trials differ by less than their courses say, the courses say too much.
    pub fn of(variance: f64, squared_error: f64, length_s: f64) -> TrialNoise {
        TrialNoise {
            between: (variance - squared_error).max(0.0).sqrt(),
            within_one_second: (squared_error.min(variance) * length_s).sqrt(),
        }
    }

    /// Of a trial of this length.
    pub fn of_length(self, length_s: f64) -> f64 {
        (self.between.powi(2) + self.within_one_second.powi(2) / length_s).sqrt()
    }
}

impl Question {
    /// What it takes with trials of this length, each of which takes the overhead besides; `None` if no number of rounds
    /// is enough.
    pub fn cost(&self, noise: TrialNoise, length_s: f64, overhead_s: f64) -> Option<Cost> {
        let sd = noise.of_length(length_s) * 2f64.sqrt();
        let is_known = |rounds: usize| {
            let own = rounds.saturating_sub(1);
            let df = own * self.arms.saturating_sub(1).clamp(1, POOL_LIMIT);
            let critical = critical_t_with(rounds, df as f64, self.level);
            critical * sd / (rounds as f64).sqrt() <= self.distance
        };
        let rounds = first_rounds(is_known)?.max(self.min_rounds);
        Some(Cost {
            length_s,
            rounds,
            seconds: rounds as f64 * (overhead_s + length_s),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TWO_PER_CENT: Question = Question {
        distance: 0.02,
        level: 0.05 / 3.0,
        arms: 4,
        min_rounds: 3,
    };

    fn cheapest(question: Question, noise: TrialNoise, overhead_s: f64) -> Cost {
        let lengths = (1..2000).map(|tenths| f64::from(tenths) / 10.0);
        let costs = lengths.filter_map(|length| question.cost(noise, length, overhead_s));
        costs
            .min_by(|a, b| a.seconds.total_cmp(&b.seconds))
            .unwrap()
    }

    /// Kalibera and Jones' length, where hundreds of rounds are needed.
    #[test]
    fn with_many_rounds_the_cheapest_length_is_the_classic_one() {
        for (between, within, overhead) in [(0.05, 0.1, 1.0), (0.05, 0.2, 4.0), (0.08, 0.04, 10.0)]
        {
            let noise = TrialNoise {
                between,
                within_one_second: within,
            };
            let question = Question {
                distance: 0.005,
                ..TWO_PER_CENT
            };
            let classic: f64 = within * f64::sqrt(overhead) / between;
            let classic = question.cost(noise, classic, overhead).unwrap();
            let found = cheapest(question, noise, overhead);
            assert!(found.rounds > 300, "{found:?}");
            let ratio = found.length_s / classic.length_s;
            assert!((0.7..1.4).contains(&ratio), "{found:?} and {classic:?}");
            // The minimum is flat.
            assert!(
                classic.seconds < 1.01 * found.seconds,
                "{found:?} and {classic:?}"
            );
        }
    }

    #[test]
    fn where_trials_differ_by_their_course_alone_the_length_that_needs_the_fewest_rounds_is_enough()
    {
        let noise = TrialNoise {
            between: 0.0,
            within_one_second: 0.02,
        };
        let question = Question {
            distance: 0.2,
            ..TWO_PER_CENT
        };
        let found = cheapest(question, noise, 0.8);
        assert_eq!(found.rounds, 3);
        assert!(found.length_s < 1.0, "{found:?}");
        // A smaller difference takes more, and never less.
        let harder = cheapest(TWO_PER_CENT, noise, 0.8);
        assert!(harder.seconds > found.seconds);
    }

    #[test]
    fn what_costs_much_to_prepare_is_run_for_longer() {
        let noise = TrialNoise {
            between: 0.01,
            within_one_second: 0.1,
        };
        let [cheap, dear] = [1.0, 60.0].map(|overhead| cheapest(TWO_PER_CENT, noise, overhead));
        assert!(
            dear.length_s > 3.0 * cheap.length_s,
            "{cheap:?} and {dear:?}"
        );
    }

    #[test]
    fn the_parts_of_the_noise_add_up_to_what_was_measured() {
        let noise = TrialNoise::of(0.0016, 0.0004, 10.0);
        assert!((noise.of_length(10.0).powi(2) - 0.0016).abs() < 1e-12);
        assert!((noise.of_length(2.5).powi(2) - (0.0012 + 0.0016)).abs() < 1e-12);
        let too_much_said = TrialNoise::of(0.0001, 0.0004, 10.0);
        assert!(too_much_said.between.abs() < 1e-12);
        assert!((too_much_said.of_length(10.0) - 0.01).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn longer_trials_never_need_more_rounds(
            between in 0.0_f64..0.2,
            within in 0.0_f64..0.5,
            distance in 0.005_f64..1.0,
            length in 0.1_f64..100.0,
        ) {
            let noise = TrialNoise { between, within_one_second: within };
            let question = Question { distance, ..TWO_PER_CENT };
            let rounds = |length| question.cost(noise, length, 1.0).map(|cost| cost.rounds);
            let (short, long) = (rounds(length), rounds(2.0 * length));
            if let Some(short) = short {
                prop_assert!(long.is_some_and(|long| long <= short && long >= 3));
            }
        }
    }
}
