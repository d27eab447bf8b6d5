//! Latencies in a table of fixed size: each factor of two in 64 steps, so that a percentile is right
//! to 0.8 %. Mean and maximum are exact.

use crate::units::Nanos;

const STEPS: u64 = 64;

/// Lengths of time, counted.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// By step, as far as the longest needs: memory stays within 30 KiB.
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: u64,
}

/// The step that a value falls in.
#[expect(clippy::cast_possible_truncation, reason = "less than 64 * 60")]
fn step(value: u64) -> usize {
    let shift = u64::from((value | STEPS).ilog2()) - 6;
    (shift * STEPS + (value >> shift)) as usize
}

fn middle(step: usize) -> u64 {
    let step = step as u64;
    if step < 2 * STEPS {
        return step;
    }
    let shift = step / STEPS - 1;
    let low = (step - shift * STEPS) << shift;
    low + (1 << shift) / 2
}

impl Histogram {
    /// Counts one.
    pub fn add(&mut self, value: Nanos) {
        let value = value.as_nanos();
        let step = step(value);
        if step >= self.counts.len() {
            self.grow(step);
        }
        self.counts[step] += 1;
        self.total += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// Counts so many of no length at all.
    pub(crate) fn add_zeros(&mut self, count: u64) {
        if self.counts.is_empty() {
            self.grow(0);
        }
        self.counts[0] += count;
        self.total += count;
    }

    #[cold]
    fn grow(&mut self, step: usize) {
        self.counts.resize(step + 1, 0);
    }

    /// Counts all of another one too.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// The middle of each step that holds any, and how many: ascending.
    pub fn bins(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let steps = self.counts.iter().enumerate();
        steps
            .filter(|&(_, &count)| count > 0)
            .map(|(step, &count)| (Nanos::new(middle(step).min(self.max)), count))
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Their mean; nothing if there is none.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a mean is below the maximum"
    )]
    pub fn mean(&self) -> Nanos {
        Nanos::new((self.sum / u128::from(self.total.max(1))) as u64)
    }

    /// The longest.
    pub fn max(&self) -> Nanos {
        Nanos::new(self.max)
    }

    /// The shortest that at least this share of them does not exceed.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count"
    )]
    pub fn percentile(&self, share: f64) -> Nanos {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (step, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Nanos::new(middle(step).min(self.max));
            }
        }
        self.max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_their_step() {
        let mut histogram = Histogram::default();
        for value in 1..=100_000_u64 {
            histogram.add(Nanos::new(value * 1_000));
        }
        for (share, exact) in [
            (0.5, 50_000_000.0),
            (0.99, 99_000_000.0),
            (0.001, 100_000.0),
        ] {
            let found = histogram.percentile(share).as_nanos() as f64;
            assert!(
                (found / exact - 1.0).abs() < 0.009,
                "{share}: {found} for {exact}"
            );
        }
        assert_eq!(histogram.mean(), Nanos::new(50_000_500));
        assert_eq!(histogram.max(), Nanos::from_millis(100));
        assert_eq!(histogram.percentile(1.0), Nanos::from_millis(100));
    }

    #[test]
    fn every_value_lies_in_its_step() {
        for value in (0..200).chain([1_000, 123_456_789, u64::MAX >> 5]) {
            let middle = middle(step(value)) as f64;
            assert!(
                (middle - value as f64).abs() <= 1.0 + value as f64 / 120.0,
                "{value}"
            );
        }
    }
}
