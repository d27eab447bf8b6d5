//! What ADIOS expects a request to take: a base and a slope for each kind, learnt from completions.
//!
//! Follows `adios.c` 3.3.0. Samples are counted in buckets by how many times longer they took than expected. When the
//! timer goes off each kind takes its new samples into one aggregate, and whichever kind is due consumes all of it:
//! samples leak between kinds, as they do there.

use super::{KINDS, OTHER};

/// Buckets of samples.
const BUCKETS: usize = 64;

/// What is no longer than this tells of the base; what is longer, of the slope.
const SMALL: u64 = 4096;

/// So many samples make an update before its time.
const ENOUGH: u64 = 1024;

/// An update is due after so many milliseconds.
pub(super) const STALE_MS: u64 = 1500;

/// When sums are cut, and how far (`shrink_at_kreqs`, `shrink_at_gbytes`, `shrink_resist`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Shrink {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) resist: u32,
}

/// What is summed of samples: their weight, latency and bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    weight: u64,
    latency: u64,
    bytes: u64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.weight += other.weight;
        self.latency += other.latency;
        self.bytes += other.bytes;
    }

    /// So much of its weight, and as much of the rest.
    fn part(self, weight: u64) -> Sums {
        let share = |sum: u64| {
            let share = u128::from(sum) * u128::from(weight) / u128::from(self.weight.max(1));
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        Sums {
            weight,
            latency: share(self.latency),
            bytes: share(self.bytes),
        }
    }
}

/// Samples of one kind and size.
#[derive(Debug, Clone)]
struct Samples([Sums; BUCKETS]);

impl Samples {
    const NONE: Samples = Samples(
        [Sums {
            weight: 0,
            latency: 0,
            bytes: 0,
        }; BUCKETS],
    );

    fn weight(&self) -> u64 {
        self.0.iter().map(|bucket| bucket.weight).sum()
    }

    /// Takes all that `from` has.
    fn take(&mut self, from: &mut Samples) {
        for (bucket, taken) in self.0.iter_mut().zip(&mut from.0) {
            bucket.add(std::mem::take(taken));
        }
    }

    /// The sums of the fastest samples, so many percent of the weight. All are gone then.
    fn fastest(&mut self, percent: u64) -> Sums {
        let least = self.weight() * percent / 100;
        let mut sums = Sums::default();
        for bucket in std::mem::replace(self, Samples::NONE).0 {
            if sums.weight + bucket.weight >= least {
                sums.add(bucket.part(least - sums.weight));
                break;
            }
            sums.add(bucket);
        }
        sums
    }
}

/// Of a sample that took `latency` where `expected` was expected. Not monotonic.
fn bucket(latency: u64, expected: u64) -> usize {
    let times = |factor: u64| latency.saturating_mul(factor) / expected;
    let bucket = match latency / expected {
        0..2 => times(20),
        2..5 => times(10) + 20,
        _ => times(3) + 40,
    };
    usize::try_from(bucket).map_or(BUCKETS - 1, |bucket| bucket.min(BUCKETS - 1))
}

/// The model of one kind (`latency_model`).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Model {
    /// Nanoseconds of a request of 4 KiB.
    pub(super) base: u64,
    /// Nanoseconds for each KiB more.
    pub(super) slope: u64,
    small_delay: u64,
    small_count: u64,
    large_delay: u64,
    large_bytes: u64,
    /// The tick of its last update.
    pub(super) updated: u64,
}

impl Model {
    /// As after a write to `lat_model_*` at this tick: one sample of each size.
    pub(super) fn given(base: u64, slope: u64, updated: u64) -> Model {
        Model {
            base,
            slope,
            small_delay: base,
            small_count: u64::from(base > 0),
            large_delay: slope,
            large_bytes: if slope > 0 { 1024 } else { 0 },
            updated,
        }
    }

    /// `latency_model_predict()`
    pub(super) fn predict(&self, bytes: u64) -> u64 {
        let more = bytes.saturating_sub(SMALL).div_ceil(1024);
        self.base + self.slope * more
    }

    /// What the small samples tell of the base. False if they tell nothing.
    fn learn_base(&mut self, samples: &mut Samples, shrink: Shrink) -> bool {
        let sums = samples.fastest(if self.base == 0 { 100 } else { 99 });
        if self.small_count >= shrink.requests {
            self.small_count -= self.small_count >> shrink.resist;
            self.small_delay -= self.small_delay >> shrink.resist;
        }
        self.small_count += sums.weight;
        self.small_delay += sums.latency;
        sums.weight > 0
    }

    /// What the large samples tell of the slope. The base counts once, however many they are.
    fn learn_slope(&mut self, samples: &mut Samples, shrink: Shrink) -> bool {
        let sums = samples.fastest(if self.slope == 0 { 100 } else { 99 });
        if sums.weight == 0 {
            return false;
        }
        if self.large_bytes >= shrink.bytes {
            self.large_bytes -= self.large_bytes >> shrink.resist;
            self.large_delay -= self.large_delay >> shrink.resist;
        }
        let above_base = sums.latency.checked_sub(self.base);
        self.large_delay += above_base.unwrap_or(sums.latency);
        self.large_bytes += sums.bytes;
        true
    }
}

/// New samples of a kind, small and large.
#[derive(Debug, Clone)]
struct Fresh {
    small: Samples,
    large: Samples,
}

impl Fresh {
    const NONE: Fresh = Fresh {
        small: Samples::NONE,
        large: Samples::NONE,
    };
}

/// All four models.
#[derive(Debug, Clone)]
pub(super) struct Models {
    pub(super) of: [Model; KINDS],
    fresh: [Fresh; KINDS],
    /// What none has consumed yet.
    aggregate: Fresh,
    shrink: Shrink,
}

/// When something is updated, in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) tick: u64,
    /// Ticks of [`STALE_MS`].
    pub(super) stale: u64,
}

impl Models {
    pub(super) fn new(of: [Model; KINDS], shrink: Shrink) -> Models {
        Models {
            of,
            fresh: [Fresh::NONE; KINDS],
            aggregate: Fresh::NONE,
            shrink,
        }
    }

    /// A request of so many bytes took so long (`latency_model_input()`).
    pub(super) fn input(
        &mut self,
        kind: usize,
        (bytes, predicted): (u64, u64),
        latency: u64,
        weight: u64,
        clock: Clock,
    ) {
        let sample = Sums {
            weight,
            latency: latency * weight,
            bytes: bytes * weight,
        };
        let base = self.of[kind].base;
        if bytes <= SMALL {
            self.fresh[kind].small.0[bucket(latency, base.max(1))].add(sample);
            if base == 0 {
                self.update(kind, clock);
            }
        } else if base > 0 && predicted > 0 {
            self.fresh[kind].large.0[bucket(latency, predicted)].add(sample);
        }
    }

    /// The timer went off.
    pub(super) fn update_all(&mut self, clock: Clock) {
        (0..=OTHER).for_each(|kind| self.update(kind, clock));
    }

    /// `latency_model_update()`
    fn update(&mut self, kind: usize, clock: Clock) {
        let Models {
            of,
            fresh,
            aggregate,
            shrink,
        } = self;
        let model = &mut of[kind];
        aggregate.small.take(&mut fresh[kind].small);
        aggregate.large.take(&mut fresh[kind].large);
        let is_stale = model.base == 0 || model.updated + clock.stale <= clock.tick;
        let is_due =
            |weight: u64, at_once: bool| weight > 0 && (is_stale || weight >= ENOUGH || at_once);
        let small = is_due(aggregate.small.weight(), false)
            && model.learn_base(&mut aggregate.small, *shrink);
        let large = is_due(aggregate.large.weight(), model.slope == 0)
            && model.learn_slope(&mut aggregate.large, *shrink);
        if small {
            model.base = model.small_delay / model.small_count;
        }
        if large {
            model.slope = model.large_delay / model.large_bytes.div_ceil(1024);
        }
        if small || large || is_stale {
            model.updated = clock.tick;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHRINK: Shrink = Shrink {
        requests: 5_000_000,
        bytes: 50 << 30,
        resist: 2,
    };

    #[test]
    fn buckets_are_finer_near_what_was_expected_and_run_backwards_once() {
        let of = |percent: u64| bucket(percent * 10, 1000);
        assert_eq!([0, 99, 100, 199].map(of), [0, 19, 20, 39]);
        assert_eq!([200, 430, 499, 500].map(of), [40, 63, 63, 55]);
        assert_eq!(of(100_000), 63);
    }

    #[test]
    fn a_single_sample_is_lost_where_the_slowest_hundredth_is_left_out() {
        let mut samples = Samples::NONE;
        let sample = Sums {
            weight: 1,
            latency: 700,
            bytes: 0,
        };
        samples.0[20].add(sample);
        let mut copy = samples.clone();
        assert_eq!(copy.fastest(100).latency, 700);
        assert_eq!((samples.fastest(99).weight, samples.weight()), (0, 0));
    }

    #[test]
    fn a_written_model_counts_as_one_sample() {
        let mut models = Models::new(
            [
                Model::given(1000, 0, 0),
                Model::default(),
                Model::default(),
                Model::default(),
            ],
            SHRINK,
        );
        let clock = Clock {
            tick: 500,
            stale: 375,
        };
        for _ in 0..100 {
            models.input(0, (4096, 1000), 3000, 1, clock);
        }
        models.update_all(clock);
        assert_eq!(models.of[0].base, (1000 + 99 * 3000) / 100);
    }
}
