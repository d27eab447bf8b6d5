//! How long it takes until the kernel's worker runs a hardware queue that waited for a completion.
//!
//! A completion wakes the process that waited for it, perhaps another one that waits for a tag, and the worker. Their order
//! matters: a process that runs before the worker still finds other requests in the scheduler. With constant delays the same
//! one would always be first, so the worker's delay is drawn from a measured distribution.

use crate::random::Random;
use crate::units::Nanos;

/// The times at `WorkerDelay::PERCENT`; between them it is as likely everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerDelay {
    /// Of 100 times so many are at most as long.
    pub quantiles: [Nanos; WorkerDelay::PERCENT.len()],
}

impl WorkerDelay {
    /// At which parts of all times the quantiles are.
    pub(crate) const PERCENT: [u64; 6] = [0, 25, 50, 75, 90, 100];

    /// The queue is run within the completion.
    pub const ZERO: WorkerDelay = WorkerDelay {
        quantiles: [Nanos::ZERO; WorkerDelay::PERCENT.len()],
    };

    /// Around an emulated disk: from a completion while requests waited and the disk was full until the worker issued the
    /// next, medians of the quantiles of 33 recordings of bfq on Linux 6.18 with two processors (*think-time*,
    /// *stream-and-random*), where it was the first. On a busy machine it takes milliseconds now and then: cut off.
    pub(crate) const EMULATED: WorkerDelay = WorkerDelay {
        quantiles: [
            Nanos::from_micros(3),
            Nanos::from_micros(8),
            Nanos::from_micros(13),
            Nanos::from_micros(22),
            Nanos::from_micros(37),
            Nanos::from_micros(100),
        ],
    };

    /// One that takes no time; nothing is drawn for it.
    pub(super) fn is_zero(&self) -> bool {
        self.quantiles[WorkerDelay::PERCENT.len() - 1] == Nanos::ZERO // they rise
    }

    /// How long it takes this time.
    pub(super) fn draw(&self, chance: &mut Random) -> Nanos {
        const PARTS: u64 = 1000; // to a percent
        let drawn = chance.below(100 * PARTS);
        let above = WorkerDelay::PERCENT.partition_point(|percent| percent * PARTS <= drawn);
        let at = |index: usize| (WorkerDelay::PERCENT[index] * PARTS, self.quantiles[index]);
        let ((from, least), (to, most)) = (at(above - 1), at(above));
        least + (most - least) * (drawn - from) / (to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workers_times_have_the_quantiles_that_were_measured() {
        let delay = WorkerDelay::EMULATED;
        let mut chance = Random::new(1, "test");
        let mut times: Vec<Nanos> = (0..100_000).map(|_| delay.draw(&mut chance)).collect();
        times.sort_unstable();
        for (percent, quantile) in WorkerDelay::PERCENT.into_iter().zip(delay.quantiles) {
            let index = (times.len() - 1) * usize::try_from(percent).unwrap() / 100;
            let (found, wanted) = (times[index].as_nanos(), quantile.as_nanos());
            assert!(
                found.abs_diff(wanted) <= wanted / 20,
                "{percent} %: {found} beside {wanted}"
            );
        }
    }
}
