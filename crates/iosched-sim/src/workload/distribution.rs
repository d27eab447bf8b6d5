//! Where random accesses go: which places are popular.
//!
//! With `zipf` and `pareto` a rank is drawn, few ranks very often, and ranks are spread over the
//! places, as fio does: popularity is not locality. With `normal` places near the middle are popular.

use crate::random::Random;

/// How often each place is visited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Each place as likely as the others.
    Even,
    /// The k-th most popular place with weight `k^-theta`.
    Zipf {
        /// The exponent, above 0, not 1.
        theta: f64,
    },
    /// A share of `1 - h` of the accesses goes to a share of `h` of the places, and so on within.
    Pareto {
        /// Above 0, below 1.
        h: f64,
    },
    /// So many percent of the accesses go to the next so many percent of the places; `(0, 0)` behind the last.
    Zoned([(u8, u8); 8]),
    /// Around the middle.
    Normal {
        /// Standard deviation in percent of the whole, above 0, at most 100.
        deviation: f64,
    },
}

/// A distribution over a number of places.
#[derive(Debug, Clone)]
pub(super) enum Places {
    Even,
    Zipf(Zipf),
    Pareto { power: f64 },
    Zoned([(u8, u8); 8]),
    Normal { deviation: f64 },
}

impl Places {
    /// For a stream whose accesses find this many places, most of the time.
    pub(super) fn new(distribution: Distribution, count: u64) -> Places {
        match distribution {
            Distribution::Even => Places::Even,
            Distribution::Zipf { theta } => Places::Zipf(Zipf::new(count, theta)),
            Distribution::Pareto { h } => Places::Pareto {
                power: h.ln() / (1.0 - h).ln(),
            },
            Distribution::Zoned(zones) => Places::Zoned(zones),
            Distribution::Normal { deviation } => Places::Normal {
                deviation: deviation / 100.0,
            },
        }
    }

    /// One of the places 0 to `count` - 1.
    pub(super) fn draw(&self, random: &mut Random, count: u64) -> u64 {
        match self {
            Places::Even => random.below(count),
            _ => self.draw_uneven(random, count),
        }
    }

    #[inline(never)]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the number of places"
    )]
    fn draw_uneven(&self, random: &mut Random, count: u64) -> u64 {
        match self {
            Places::Even => unreachable!("these are even"),
            Places::Zipf(zipf) => spread(zipf.rank(random.unit()).min(count - 1), count),
            Places::Pareto { power } => {
                let rank = (count - 1) as f64 * random.unit().powf(*power);
                spread(rank as u64, count)
            }
            Places::Zoned(zones) => {
                let mut drawn = random.below(100);
                let mut begin = 0;
                let zone = zones.iter().find(|(share, size)| {
                    let is_here = drawn < u64::from(*share);
                    if !is_here {
                        drawn -= u64::from(*share);
                        begin += u64::from(*size);
                    }
                    is_here
                });
                let size = zone.map_or(0, |&(_, size)| u64::from(size));
                let (first, end) = (count * begin / 100, count * (begin + size) / 100);
                (first + random.below((end - first).max(1))).min(count - 1)
            }
            Places::Normal { deviation } => loop {
                let place = 0.5 + deviation * normal(random);
                if (0.0..1.0).contains(&place) {
                    return ((place * count as f64) as u64).min(count - 1);
                }
            },
        }
    }
}

/// A standard normal number (Box and Muller, 1958).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

fn spread(rank: u64, count: u64) -> u64 {
    rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count
}

/// Ranks with weight `k^-theta`, by the usual approximation of Gray and others (1994), which needs
/// no table.
#[derive(Debug, Clone)]
pub(super) struct Zipf {
    ranks: f64,
    theta: f64,
    alpha: f64,
    eta: f64,
    zeta: f64,
}

impl Zipf {
    fn new(ranks: u64, theta: f64) -> Zipf {
        let ranks = ranks.max(2);
        // The sum beyond the first terms is close to its integral.
        let exact = ranks.min(10_000);
        let mut zeta: f64 = (1..=exact).map(|rank| (rank as f64).powf(-theta)).sum();
        if ranks > exact {
            let power = 1.0 - theta;
            zeta += ((ranks as f64).powf(power) - (exact as f64).powf(power)) / power;
        }
        let zeta2 = 1.0 + 0.5_f64.powf(theta);
        let ranks = ranks as f64;
        let eta = (1.0 - (2.0 / ranks).powf(1.0 - theta)) / (1.0 - zeta2 / zeta);
        Zipf {
            ranks,
            theta,
            alpha: 1.0 / (1.0 - theta),
            eta,
            zeta,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the number of ranks"
    )]
    fn rank(&self, unit: f64) -> u64 {
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.theta) {
            return 1;
        }
        (self.ranks * (self.eta * unit - self.eta + 1.0).powf(self.alpha)).max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularity_falls_as_the_exponent_says() {
        // 1000 places, theta 0.9: the most popular one has 1 / sum(k^-0.9) = 9.2 % of the accesses.
        let zipf = Zipf::new(1000, 0.9);
        let mut random = Random::new(1, "zipf");
        let ranks: Vec<u64> = (0..100_000).map(|_| zipf.rank(random.unit())).collect();
        let share = |rank| ranks.iter().filter(|&&other| other == rank).count() as f64 / 1e5;
        let zeta: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-0.9)).sum();
        assert!((share(0) * zeta - 1.0).abs() < 0.05, "{}", share(0));
        assert!(
            (share(1) * zeta * 2_f64.powf(0.9) - 1.0).abs() < 0.1,
            "{}",
            share(1)
        );
        assert!(ranks.iter().all(|&rank| rank <= 1000));
    }

    fn visits(distribution: Distribution, count: u64) -> Vec<u64> {
        let places = Places::new(distribution, count);
        let mut random = Random::new(1, "places");
        let mut visits = vec![0; usize::try_from(count).unwrap()];
        for _ in 0..100_000 {
            visits[usize::try_from(places.draw(&mut random, count)).unwrap()] += 1;
        }
        visits
    }

    #[test]
    fn of_pareto_few_places_get_most_accesses() {
        // h = 0.2: four fifths of the accesses go to a fifth of the places.
        let mut visits = visits(Distribution::Pareto { h: 0.2 }, 1009);
        visits.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        let fifth: u64 = visits[..202].iter().sum();
        // A little more, because some ranks share a place.
        assert!((79_000..84_000).contains(&fifth), "{fifth}");
    }

    #[test]
    fn zones_get_their_shares() {
        let mut zones = [(0, 0); 8];
        zones[..3].copy_from_slice(&[(60, 10), (30, 20), (10, 70)]);
        let visits = visits(Distribution::Zoned(zones), 1000);
        let share = |range: std::ops::Range<usize>| visits[range].iter().sum::<u64>() / 1000;
        assert!(share(0..100).abs_diff(60) <= 1 && share(100..300).abs_diff(30) <= 1);
    }

    #[test]
    fn two_thirds_of_normal_lie_within_one_deviation_of_the_middle() {
        let visits = visits(Distribution::Normal { deviation: 10.0 }, 1000);
        let near: u64 = visits[400..600].iter().sum();
        assert!((67_700..68_900).contains(&near), "{near}");
    }
}
