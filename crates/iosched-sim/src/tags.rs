//! Tags (and kyber's tokens, which are the same) by number, as the kernel's scalable bitmap hands
//! them out.
//!
//! The bitmap stands in words of a power of two of bits ([`word_bits`]). A freed number is only
//! noted; it can be had again once its word has no other left, when all that were noted in that
//! word come back. The search begins in the word of the number that was freed or refused last and
//! goes around. After the depth was cut only numbers below it are used; those above it that are
//! still in use do not count against it. Facts: `lib/sbitmap.c` (Linux 6.1).

/// Bits in each word of a bitmap of this many: 64, halved until there are more than three words.
fn word_bits(depth: u32) -> u32 {
    let mut bits = 64;
    if depth >= 4 {
        while 4 * bits > depth {
            bits /= 2;
        }
    }
    bits
}

#[derive(Debug, Clone, Copy, Default)]
struct Word {
    /// In use, or freed and not yet free again.
    taken: u64,
    /// Of those: freed.
    freed: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Tags {
    words: Vec<Word>,
    /// Bits in each word.
    bits: u32,
    depth: u32,
    /// Numbers below the depth that are not in use.
    free: u32,
    /// Where the search begins.
    hint: u32,
}

impl Tags {
    /// As many as there can ever be.
    pub(crate) fn new(depth: u32) -> Tags {
        let bits = word_bits(depth);
        Tags {
            words: vec![Word::default(); depth.div_ceil(bits) as usize],
            bits,
            depth,
            free: depth,
            hint: 0,
        }
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Words are of a power of two of bits.
    fn shift(&self) -> u32 {
        self.bits.trailing_zeros()
    }

    /// Words that still have numbers below the depth.
    fn words_in_use(&self) -> u32 {
        (self.depth + self.bits - 1) >> self.shift()
    }

    /// Cuts or restores the depth. What was freed can be had again at once.
    pub(crate) fn resize(&mut self, depth: u32) {
        let in_use = self.words_in_use() as usize;
        for word in &mut self.words[..in_use] {
            word.taken &= !std::mem::take(&mut word.freed);
        }
        self.depth = depth;
        let free = (0..self.words_in_use()).map(|index| {
            let below = (depth - index * self.bits).min(self.bits);
            let used = self.words[index as usize].in_use();
            below - (used & (u64::MAX >> (64 - below))).count_ones()
        });
        self.free = free.sum();
    }

    /// Bits in each word.
    pub(crate) fn word(&self) -> u32 {
        self.bits
    }

    /// The number of a free tag.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.take_among(self.bits)
    }

    /// The number of a free tag among the first ones of each word, as many in all as there may be.
    #[inline(never)]
    pub(crate) fn take_of(&mut self, limit: u32) -> Option<u32> {
        let (words, bits, depth) = (self.words_in_use(), self.bits, self.depth);
        let first_of = |index: u32| {
            let in_word = u64::from((depth - index * bits).min(bits));
            let whole = in_word * u64::from(limit.min(depth));
            let rest = whole % u64::from(depth) >= u64::from(index + 1) * in_word;
            u32::try_from(whole / u64::from(depth)).unwrap_or(bits) + u32::from(rest)
        };
        let first = self.hint.min(depth - 1) >> self.shift();
        let mut around = (first..words).chain(0..first);
        let found = around.find_map(|word| self.take_in(word, first_of(word)));
        self.note_taken(found);
        found
    }

    /// The number of a free tag among the first ones of each word.
    pub(crate) fn take_among(&mut self, first_of_word: u32) -> Option<u32> {
        if self.hint >= self.depth {
            self.hint = 0; // the kernel takes any number here
        }
        if self.free == 0 {
            self.hint = 0;
            return None;
        }
        // Nearly always that is the word of the tag that was freed last.
        let first = self.hint >> self.shift();
        let found = match self.take_in(first, first_of_word) {
            None => self.take_around(first, first_of_word),
            found => found,
        };
        self.note_taken(found);
        found
    }

    /// Where the next search begins after one that found this.
    fn note_taken(&mut self, found: Option<u32>) {
        match found {
            None => self.hint = 0,
            Some(number) if number == self.hint => {
                self.hint = if number + 1 >= self.depth - 1 {
                    0
                } else {
                    number + 1
                };
            }
            Some(_) => {}
        }
    }

    /// The same in the words behind the first one, and then from the beginning.
    #[inline(never)]
    fn take_around(&mut self, first: u32, first_of_word: u32) -> Option<u32> {
        let mut around = (first + 1..self.words_in_use()).chain(0..first);
        around.find_map(|word| self.take_in(word, first_of_word))
    }

    #[inline]
    fn take_in(&mut self, index: u32, among: u32) -> Option<u32> {
        let first = index * self.bits;
        let below = (self.depth - first).min(self.bits).min(among);
        let word = &mut self.words[index as usize];
        let mut bit = word.taken.trailing_ones();
        if bit >= below && word.freed != 0 {
            word.taken &= !std::mem::take(&mut word.freed);
            bit = word.taken.trailing_ones();
        }
        if bit >= below {
            return None;
        }
        word.taken |= 1 << bit;
        self.free -= 1;
        Some(first + bit)
    }

    /// Gives a tag back.
    #[inline]
    pub(crate) fn free(&mut self, number: u32) {
        let index = (number >> self.shift()) as usize;
        let word = &mut self.words[index];
        let bit = 1 << (number & (self.bits - 1));
        assert!(
            word.taken & bit != 0 && word.freed & bit == 0,
            "tag {number} is given back once"
        );
        word.freed |= bit;
        if number < self.depth {
            self.free += 1;
            self.hint = number;
        }
    }

    /// True if [`Tags::take`] gives one. If not, the next search begins at the lowest number.
    pub(crate) fn ask(&mut self) -> bool {
        let available = self.available();
        if !available {
            self.hint = 0;
        }
        available
    }

    fn available(&self) -> bool {
        self.free > 0
    }
}

impl Word {
    fn in_use(self) -> u64 {
        self.taken & !self.freed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_as_long_as_the_kernel_makes_them() {
        // kernels of 6.1 show these in debugfs for 256, 128, 64, 16 and 192
        let words = [256, 128, 64, 16, 192].map(word_bits);
        assert_eq!(words, [64, 32, 16, 4, 32]);
        assert_eq!([1, 3, 4, 62].map(word_bits), [64, 64, 1, 8]);
    }

    #[test]
    fn after_a_cut_only_low_numbers_are_taken_and_high_ones_do_not_count() {
        let mut tokens = Tags::new(128);
        let all: Vec<_> = std::iter::from_fn(|| tokens.take()).collect();
        assert_eq!(all.len(), 128);
        assert!(!tokens.available());
        tokens.resize(96);
        tokens.free(127);
        assert_eq!(tokens.take(), None, "127 is above the depth");
        tokens.free(3);
        assert!(tokens.available());
        assert_eq!(tokens.take(), Some(3));
        tokens.resize(128);
        assert_eq!(tokens.take(), Some(127));
    }

    #[test]
    fn a_share_of_each_word_is_what_shallow_allocations_get() {
        let mut tags = Tags::new(256); // words of 64
        let few: Vec<_> = std::iter::from_fn(|| tags.take_among(1)).collect();
        assert_eq!(few, [0, 64, 128, 192]);
        assert_eq!(tags.take(), Some(1), "the others have all");
    }

    #[test]
    fn a_share_of_all_is_dealt_out_over_the_words() {
        let few = |limit| {
            let mut tags = Tags::new(256); // words of 64
            std::iter::from_fn(|| tags.take_of(limit)).collect::<Vec<_>>()
        };
        assert_eq!(few(1), [0]);
        assert_eq!(few(6), [0, 1, 64, 65, 128, 192]);
        for limit in 1..=256 {
            assert_eq!(few(limit).len(), limit as usize);
        }
        assert_eq!(few(1000).len(), 256);
        // Words of 2.
        let mut tags = Tags::new(10);
        assert_eq!(tags.words.len(), 5);
        let half: Vec<_> = std::iter::from_fn(|| tags.take_of(5)).collect();
        assert_eq!(half, [0, 2, 4, 6, 8]);
    }

    proptest! {
        #[test]
        fn what_is_free_is_counted(
            depth in 1..300_u32,
            steps in prop::collection::vec((0..8_u8, 0..300_u32), 1..300),
        ) {
            let mut tags = Tags::new(depth);
            let mut out = std::collections::BTreeSet::new();
            for (step, number) in steps {
                let free = (0..tags.depth()).filter(|number| !out.contains(number)).count();
                prop_assert_eq!(tags.free as usize, free);
                match step {
                    0..4 => {
                        let taken = tags.take();
                        prop_assert_eq!(taken.is_some(), free > 0);
                        if let Some(taken) = taken {
                            prop_assert!(taken < tags.depth() && out.insert(taken));
                        }
                    }
                    4..7 => {
                        if let Some(&number) = out.range(number % depth..).next() {
                            out.remove(&number);
                            tags.free(number);
                        }
                    }
                    _ => tags.resize(number % depth + 1),
                }
            }
        }
    }

    #[test]
    fn a_freed_number_waits_until_its_word_has_no_other() {
        let mut tokens = Tags::new(16); // words of 4
        assert_eq!((tokens.take(), tokens.take()), (Some(0), Some(1)));
        tokens.free(0);
        let next: Vec<_> = (0..3).filter_map(|_| tokens.take()).collect();
        assert_eq!(next, [2, 3, 0]);
    }
}
