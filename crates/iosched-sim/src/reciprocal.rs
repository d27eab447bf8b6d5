//! Division by a number that stays the same, without dividing: a multiplication by its reciprocal
//! is off by one at most, which a comparison mends. Exact for all numbers.

/// A number to divide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Divisor {
    divisor: u64,
    /// 2^64 divided by it, or up to one less than that.
    reciprocal: u64,
}

impl Divisor {
    /// # Panics
    /// If it is zero.
    pub(crate) const fn new(divisor: u64) -> Divisor {
        assert!(divisor > 0, "nothing is divided by zero");
        Divisor {
            divisor,
            reciprocal: u64::MAX / divisor,
        }
    }

    /// The number itself.
    pub(crate) const fn get(self) -> u64 {
        self.divisor
    }

    /// Quotient and remainder.
    #[inline]
    pub(crate) const fn divide(self, number: u64) -> (u64, u64) {
        let quotient = ((number as u128 * self.reciprocal as u128) >> 64) as u64;
        let remainder = number - quotient * self.divisor;
        if remainder >= self.divisor {
            (quotient + 1, remainder - self.divisor)
        } else {
            (quotient, remainder)
        }
    }

    /// The quotient, rounded up.
    #[inline]
    pub(crate) const fn divide_up(self, number: u64) -> u64 {
        let (quotient, remainder) = self.divide(number);
        quotient + (remainder > 0) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers() -> impl Strategy<Value = u64> {
        let near = |bits: u32| (1_u64 << bits).wrapping_sub(1)..=(1_u64 << bits).wrapping_add(1);
        prop_oneof![
            any::<u64>(),
            0..100_u64,
            u64::MAX - 100..=u64::MAX,
            (0..64_u32, 0..3_u64)
                .prop_map(move |(bits, more)| near(bits).start().wrapping_add(more)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

        #[test]
        fn it_divides_as_division_does(number in numbers(), divisor in numbers()) {
            let divisor = divisor.max(1);
            let ours = Divisor::new(divisor);
            prop_assert_eq!(ours.divide(number), (number / divisor, number % divisor));
            prop_assert_eq!(ours.divide_up(number), number.div_ceil(divisor));
            let multiple = number / divisor * divisor;
            prop_assert_eq!(ours.divide(multiple), (multiple / divisor, 0));
        }
    }
}
