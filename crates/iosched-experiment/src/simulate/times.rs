//! A distribution of times in five numbers.

use iosched_sim::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// A distribution of times.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Times {
    /// Mean.
    pub mean_ns: u64,
    /// Half are at most this.
    pub p50_ns: u64,
    /// 99 of 100 are at most this.
    pub p99_ns: u64,
    /// 999 of 1000 are at most this.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl From<&Histogram> for Times {
    fn from(histogram: &Histogram) -> Times {
        Times {
            mean_ns: histogram.mean().as_nanos(),
            p50_ns: histogram.percentile(0.5).as_nanos(),
            p99_ns: histogram.percentile(0.99).as_nanos(),
            p999_ns: histogram.percentile(0.999).as_nanos(),
            max_ns: histogram.max().as_nanos(),
        }
    }
}
