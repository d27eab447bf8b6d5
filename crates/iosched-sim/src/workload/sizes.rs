//! Lengths of accesses: one, or several with their shares.

use crate::random::Random;
use crate::units::Sectors;

/// Lengths of accesses: one, or several with their shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// Each with its share and those of the ones before it; the last has the whole.
    parts: Vec<(Sectors, u32)>,
    /// Each multiple of the only one up to this.
    multiples: u64,
}

impl Sizes {
    /// Always the same.
    pub fn one(size: Sectors) -> Sizes {
        Sizes {
            parts: vec![(size, 100)],
            multiples: 1,
        }
    }

    /// Each multiple of `least` up to `most`, as likely as the others (fio's `bsrange`).
    pub fn range(least: Sectors, most: Sectors) -> Sizes {
        Sizes {
            multiples: (most.as_u64() / least.as_u64().max(1)).max(1),
            ..Sizes::one(least)
        }
    }

    /// Each size with its share in percent; what is missing to a hundred goes to the last.
    ///
    /// # Panics
    /// If there is none.
    pub fn split(shares: &[(Sectors, u8)]) -> Sizes {
        assert!(!shares.is_empty(), "an access has a length");
        let mut sum = 0_u8;
        let mut parts: Vec<_> = shares
            .iter()
            .map(|&(size, share)| {
                sum = sum.saturating_add(share).min(100);
                (size, u32::from(sum))
            })
            .collect();
        parts.last_mut().expect("there is one").1 = 100;
        Sizes {
            parts,
            multiples: 1,
        }
    }

    /// The shortest: random places are multiples of it.
    pub fn least(&self) -> Sectors {
        self.all().min().expect("there is one")
    }

    /// The longest.
    pub(crate) fn most(&self) -> Sectors {
        self.all().max().expect("there is one") * self.multiples
    }

    fn all(&self) -> impl Iterator<Item = Sectors> {
        self.parts.iter().map(|&(size, _)| size)
    }

    pub(super) fn draw(&self, random: &mut Random) -> Sectors {
        match self.parts[..] {
            [(size, _)] if self.multiples == 1 => size,
            _ => self.draw_among_several(random),
        }
    }

    #[inline(never)]
    fn draw_among_several(&self, random: &mut Random) -> Sectors {
        if self.multiples > 1 {
            return self.parts[0].0 * (1 + random.below(self.multiples));
        }
        let (_, whole) = self.parts[self.parts.len() - 1];
        let drawn = random.below(u64::from(whole));
        let part = self
            .parts
            .partition_point(|(_, up_to)| drawn >= u64::from(*up_to));
        self.parts[part].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_in_the_shares_asked_for() {
        let [small, large] = [Sectors::new(8), Sectors::new(128)];
        let sizes = Sizes::split(&[(small, 70), (large, 30)]);
        let mut random = Random::new(1, "sizes");
        let drawn = (0..10_000).map(|_| sizes.draw(&mut random));
        let small_ones = drawn.filter(|&size| size == small).count();
        assert!((6_800..7_200).contains(&small_ones), "{small_ones}");
        assert_eq!((sizes.least(), sizes.most()), (small, large));
        let range = Sizes::range(small, large);
        let mean = (0..10_000)
            .map(|_| range.draw(&mut random).as_u64())
            .sum::<u64>()
            / 10_000;
        assert!((66..=70).contains(&mean), "{mean}");
        assert_eq!((range.least(), range.most()), (small, large));
    }
}
