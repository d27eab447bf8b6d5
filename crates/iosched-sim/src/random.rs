//! Chance as an argument: small generators, each its own named stream from the run's seed.
//!
//! xoshiro256** (Blackman, Vigna 2018), seeded through `splitmix64`; the published algorithms. A
//! stream's name goes into its seed, so that adding a stream leaves the others as they were. Not
//! for secrets.

/// One stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream called `name` of the run with this seed.
    pub fn new(seed: u64, name: &str) -> Random {
        // FNV-1a of the name: any fixed mapping from names to numbers would do.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut mixed = seed ^ hash;
        let state = std::array::from_fn(|_| splitmix64(&mut mixed));
        Random { state }
    }

    /// 64 random bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// A number from 0 to `bound` - 1, each as likely as the others (to one part in 2^64 / bound).
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing is below zero");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 (included) to 1 (excluded).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_name_others() {
        let mut one = Random::new(7, "dies");
        let mut same = Random::new(7, "dies");
        let mut other = Random::new(7, "phase");
        let first: Vec<u64> = (0..8).map(|_| one.next_u64()).collect();
        assert_eq!(first, (0..8).map(|_| same.next_u64()).collect::<Vec<_>>());
        assert_ne!(first, (0..8).map(|_| other.next_u64()).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let mut random = Random::new(1, "test");
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[usize::try_from(random.below(10)).unwrap()] += 1;
        }
        // Standard deviation of each count is 95.
        assert!(
            counts.iter().all(|&count| (9_500..10_500).contains(&count)),
            "{counts:?}"
        );
        let mean = (0..100_000).map(|_| random.unit()).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }

    #[test]
    fn splitmix_gives_its_published_first_value() {
        // From the reference implementation with state 1234567.
        let mut state = 1_234_567;
        assert_eq!(splitmix64(&mut state), 6_457_827_717_110_365_317);
    }
}
