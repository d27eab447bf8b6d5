//! Places of an axis that get a number.

/// Steps that lie between zero and a place of an axis, at the most: to one more would make no difference (2⁵³).
const MOST_STEPS: f64 = 9e15;

/// Round numbers within a range, at most about `wanted` of them: multiples of 1, 2 or 5 by a power of
/// ten.
pub(super) fn linear(from: f64, to: f64, wanted: usize) -> Vec<f64> {
    let span = to - from;
    if !(span > 0.0 && span.is_finite()) || wanted == 0 {
        return vec![from];
    }
    let rough = span / wanted as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(power * 10.0);
    let first = (from / step - 1e-9).ceil();
    let last = (to / step + 1e-9).floor();
    if first.abs().max(last.abs()) > MOST_STEPS {
        return vec![from]; // steps from zero are too many to be told from one another
    }
    let mut ticks = Vec::new();
    let mut index = first;
    while index <= last {
        // Not `+ step` again and again: 0.3 is to be 0.3. And no -0.
        ticks.push(rounded(index * step, step) + 0.0);
        index += 1.0;
    }
    ticks
}

/// Round numbers for an axis of ratios: powers of ten, with 2 and 5 between where there is room; for
/// less than a factor of four the round numbers of an even axis.
pub(super) fn log(from: f64, to: f64, wanted: usize) -> Vec<f64> {
    if to / from < 4.0 {
        return linear(from, to, wanted);
    }
    for steps in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
        let ticks = log_with(from, to, steps);
        if ticks.len() < 2 {
            break; // one number alone tells no scale
        }
        if ticks.len() <= wanted + 2 {
            return ticks;
        }
    }
    if to / from < 10.0 {
        return linear(from, to, wanted);
    }
    let decades = log_with(from, to, &[1.0]);
    let every = decades.len().div_ceil(wanted.max(1));
    decades.into_iter().step_by(every).collect()
}

fn log_with(from: f64, to: f64, steps: &[f64]) -> Vec<f64> {
    let mut ticks = Vec::new();
    let mut decade = from.log10().floor();
    while decade <= to.log10() {
        let power = 10f64.powf(decade);
        ticks.extend(steps.iter().map(|step| rounded(step * power, power)));
        decade += 1.0;
    }
    ticks.retain(|tick| *tick >= from * 0.9999 && *tick <= to * 1.0001);
    ticks
}

/// A number without the dust behind the last digit of `step`.
fn rounded(value: f64, step: f64) -> f64 {
    let digits = (1.0 - step.log10().floor()).clamp(0.0, 12.0);
    let factor = 10f64.powf(digits);
    (value * factor).round() / factor
}

/// `0.5`, `12`, `40 000`, `2 million`: as short as the tick allows.
pub(super) fn label(value: f64) -> String {
    let size = value.abs();
    if size >= 1e6 {
        return format!("{} million", rounded(value / 1e6, 1e-3));
    }
    if size < 1e4 {
        return format!("{}", rounded(value, size.max(1e-9) * 1e-3));
    }
    let thousands = (value / 1e3).trunc();
    let rest = (value - thousands * 1e3).abs().round();
    format!("{thousands}\u{a0}{rest:03}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(linear(0.0, 1.0, 5), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(linear(0.93, 1.07, 5), [0.95, 1.0, 1.05]);
        assert_eq!(log(0.8, 12.0, 6), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(log(1.0, 1e6, 4), [1.0, 100.0, 10_000.0, 1e6]);
        assert_eq!(label(0.95), "0.95");
        assert_eq!(label(40_000.0), "40\u{a0}000");
        assert_eq!(label(2_500_000.0), "2.5 million");
    }

    proptest! {
        #[test]
        fn ticks_lie_within_the_axis_and_are_few(from in -1e9f64..1e9, span in 1e-3f64..1e9) {
            let ticks = linear(from, from + span, 6);
            prop_assert!(ticks.len() <= 8, "{ticks:?}");
            let slack = span * 1e-6 + from.abs() * 1e-9;
            prop_assert!(ticks.iter().all(|t| *t >= from - slack && *t <= from + span + slack));
        }

        /// What was measured twice and differs in its last digit has an axis, too.
        #[test]
        fn an_axis_as_short_as_numbers_allow_has_few_ticks(from in 1e-9f64..1e12, steps in 1u64..100_000) {
            let to = f64::from_bits(from.to_bits() + steps);
            prop_assert!(linear(from, to, 6).len() <= 9);
            prop_assert!(log(from, to, 6).len() <= 9);
        }

        #[test]
        fn ticks_of_ratios_lie_within_the_axis(low in -9f64..9.0, decades in 0.01f64..12.0) {
            let (from, to) = (10f64.powf(low), 10f64.powf(low + decades));
            let ticks = log(from, to, 6);
            prop_assert!(ticks.len() <= 9, "{ticks:?}");
            prop_assert!(ticks.iter().all(|t| *t >= from * 0.999 && *t <= to * 1.001), "{ticks:?}");
        }
    }
}
