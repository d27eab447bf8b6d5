//! What kyber knows of latencies: counts in quarters of the target, and percentiles of them.

use crate::reciprocal::Divisor;
use crate::units::Nanos;

/// Buckets: four up to the target, four beyond, the last without end.
const BUCKETS: usize = 8;

/// From this bucket on a latency misses its target.
pub(super) const MISSED: usize = 4;

/// Samples that make a percentile before its time.
const ENOUGH: u64 = 500;

/// What time it is, in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) tick: u64,
    /// Ticks per second.
    pub(super) second: u64,
}

/// Latencies of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Latencies {
    counts: [u64; BUCKETS],
}

impl Latencies {
    /// `add_latency_sample()`.
    pub(super) fn add(&mut self, latency: Nanos, quarter_of_target: Divisor) {
        let (bucket, _) = quarter_of_target.divide(latency.as_nanos().saturating_sub(1));
        let bucket = usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1);
        self.counts[bucket] += 1;
    }

    pub(super) fn samples(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The bucket in which this percentile lies, once there are samples enough or the domain's time
    /// has come; the counts then begin anew. `deadline` is the domain's: a tick, shared by its
    /// kinds of latency, set by the first that lacks samples and cleared by the first that is due.
    /// `calculate_percentile()`.
    pub(super) fn percentile(
        &mut self,
        percent: u64,
        clock: Clock,
        deadline: &mut Option<u64>,
    ) -> Option<usize> {
        let samples = self.samples();
        if samples == 0 {
            return None;
        }
        let due = *deadline.get_or_insert(clock.tick + clock.second);
        if samples < ENOUGH && clock.tick < due {
            return None;
        }
        *deadline = None;
        let mut rank = (samples * percent).div_ceil(100);
        let counts = std::mem::take(&mut self.counts);
        for (bucket, &count) in counts[..BUCKETS - 1].iter().enumerate() {
            if count >= rank {
                return Some(bucket);
            }
            rank -= count;
        }
        Some(BUCKETS - 1)
    }

    /// A kernel found the percentile in this bucket, or had too few samples.
    pub(super) fn told(&mut self, told: Option<usize>, clock: Clock, deadline: &mut Option<u64>) {
        if told.is_some() {
            *self = Latencies::default();
            *deadline = None;
        } else if self.samples() > 0 {
            deadline.get_or_insert(clock.tick + clock.second);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUARTER: Divisor = Divisor::new(500);

    #[test]
    fn a_latency_of_exactly_a_quarter_is_in_the_first_bucket() {
        let mut latencies = Latencies::default();
        for nanos in [0, 1, 500, 501, 2000, 2001, u64::MAX] {
            latencies.add(Nanos::new(nanos), QUARTER);
        }
        assert_eq!(latencies.counts, [3, 1, 0, 1, 1, 0, 0, 1]);
    }

    #[test]
    fn samples_count_from_the_five_hundredth_or_after_a_second() {
        let mut latencies = Latencies::default();
        let mut deadline = None;
        let at = |tick| Clock { tick, second: 250 };
        for _ in 0..499 {
            latencies.add(Nanos::new(1900), QUARTER);
        }
        assert_eq!(latencies.percentile(90, at(100), &mut deadline), None);
        assert_eq!(latencies.percentile(90, at(349), &mut deadline), None);
        let mut early = latencies;
        early.add(Nanos::new(9000), QUARTER);
        let mut its_deadline = deadline;
        assert_eq!(early.percentile(90, at(349), &mut its_deadline), Some(3));
        assert_eq!((its_deadline, early.samples()), (None, 0));
        assert_eq!(latencies.percentile(90, at(350), &mut deadline), Some(3));
        let empty = latencies.percentile(90, at(350), &mut deadline);
        assert_eq!(empty, None, "no samples");
    }
}
