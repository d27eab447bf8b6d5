//! Numbers that look like chance, the same for a seed each time, and what the environment says of a test.

/// `SplitMix64` (Steele, Lea, Flood, OOPSLA 2014).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// One from 0, below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) >> 1).expect("64 bits") % end
    }

    /// One of these.
    pub(crate) fn of<'a, T: ?Sized>(&mut self, things: &[&'a T]) -> &'a T {
        things[self.below(things.len())]
    }
}

/// A number that the environment says, or another one.
pub(crate) fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |said| {
        let number = said.parse();
        number.unwrap_or_else(|_| panic!("{variable}={said} is no number"))
    })
}

/// The seed of what is drawn: `IOSCHED_TEST_SEED`.
pub(crate) fn seed() -> u64 {
    number("IOSCHED_TEST_SEED", 1)
}
