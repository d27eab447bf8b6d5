//! What requests of one kind have in common, whichever hardware queue they are in: tokens, a latency
//! target, and what is known of the latencies.

use super::latency::{Clock, Latencies};
use super::tokens::Tokens;
use crate::reciprocal::Divisor;
use iosched_facts::event::KyberEvent;

pub(super) const READ: usize = 0;
pub(super) const WRITE: usize = 1;
pub(super) const DISCARD: usize = 2;
pub(super) const DOMAINS: usize = 3;

pub(super) const NAMES: [&str; DOMAINS] = ["READ", "WRITE", "DISCARD"];

/// Tokens of each domain at most.
pub(super) const MAX_DEPTH: [u32; DOMAINS] = [256, 128, 64];

#[derive(Debug, Clone)]
pub(super) struct Domain {
    pub(super) name: &'static str,
    pub(super) tokens: Tokens,
    /// A quarter of the latency that is aimed at, in nanoseconds, but not zero.
    pub(super) quarter_of_target: Divisor,
    /// From allocation to completion.
    pub(super) total: Latencies,
    /// From issue to completion.
    pub(super) device: Latencies,
    /// The 99th percentile of the total latency, kept for when the device is slow.
    pub(super) saved_p99: Option<usize>,
    /// Tick from which on fewer samples will do.
    pub(super) deadline: Option<u64>,
}

impl Domain {
    pub(super) fn new(domain: usize, depth: u32, quarter_of_target: Divisor) -> Domain {
        Domain {
            name: NAMES[domain],
            tokens: Tokens::new(MAX_DEPTH[domain], depth),
            quarter_of_target,
            total: Latencies::default(),
            device: Latencies::default(),
            saved_p99: None,
            deadline: None,
        }
    }

    /// The bucket of the 99th percentile of the total latency, or of the 90th of the device's.
    pub(super) fn percentile(
        &mut self,
        of_total: bool,
        clock: Clock,
        said: Option<&[KyberEvent]>,
    ) -> Option<usize> {
        let Domain {
            name,
            total,
            device,
            deadline,
            ..
        } = self;
        let (latencies, percent) = if of_total { (total, 99) } else { (device, 90) };
        let Some(said) = said else {
            return latencies.percentile(percent, clock, deadline);
        };
        let mut buckets = said.iter();
        let told = buckets.find_map(|statement| statement.bucket(name, of_total));
        latencies.told(told, clock, deadline);
        told
    }

    pub(super) fn set_depth(&mut self, depth: u32, max_depth: u32) {
        let depth = depth.clamp(1, max_depth);
        if depth != self.tokens.depth() {
            self.tokens.resize(depth);
        }
    }
}
