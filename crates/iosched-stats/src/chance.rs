//! Chance as an argument: numbers that look random and are a function of a seed and a stream.
//!
//! `ChaCha` with 8 rounds, the same on every machine; each use has its own stream, so adding one leaves
//! the others as they were.

use std::f64::consts::TAU;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Chance(ChaCha8Rng);

impl Chance {
    /// The stream number `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Chance {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Chance(generator)
    }

    /// A number of [0, 1), one of 2^53 evenly spaced ones.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of `0 .. count`.
    pub fn below(&mut self, count: usize) -> usize {
        assert!(count > 0, "nothing to choose from");
        // The bias of the multiplication is count / 2^64.
        let scaled = (u128::from(self.0.next_u64()) * count as u128) >> 64;
        usize::try_from(scaled).expect("below a usize")
    }

    /// A standard normal number (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (TAU * self.uniform()).cos()
    }

    /// Puts the entries into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, entries: &mut [T]) {
        for last in (1..entries.len()).rev() {
            entries.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_stream_repeat_and_others_differ() {
        let draw = |seed, stream| -> Vec<usize> {
            let mut chance = Chance::new(seed, stream);
            (0..8).map(|_| chance.below(1000)).collect()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn normal_numbers_have_the_normal_moments() {
        let mut chance = Chance::new(7, 0);
        let count = 200_000.0;
        let (mut sum, mut squares, mut fourth) = (0.0, 0.0, 0.0);
        for _ in 0..200_000 {
            let z = chance.normal();
            sum += z;
            squares += z * z;
            fourth += z.powi(4);
        }
        assert!((sum / count).abs() < 0.01);
        assert!((squares / count - 1.0).abs() < 0.015);
        assert!((fourth / count - 3.0).abs() < 0.1);
    }

    #[test]
    fn every_order_is_about_equally_frequent() {
        let mut chance = Chance::new(3, 0);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut order = [0, 1, 2];
            chance.shuffle(&mut order);
            *counts.entry(order).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|&count| (850..1150).contains(&count)));
    }
}
