//! What a kernel's scheduler tells of itself in trace events when its timer has gone off: kyber does. Recordings have it
//! ([`trace`](crate::trace)), and who follows them believes it ([`Followed`](crate::scheduler::Followed)).

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// It had samples enough for a percentile, in this bucket of eight (`kyber_latency`).
    Percentile {
        /// The domain's name.
        domain: String,
        /// Of the total latency; otherwise of the device's.
        total: bool,
        /// Quarters of the target, from 0.
        bucket: usize,
    },
    /// It set a depth (`kyber_adjust`).
    Depth {
        /// The domain's name.
        domain: String,
        /// Its tokens from now on.
        depth: u32,
    },
}

impl Statement {
    /// The bucket of this kind of latency, if that is what it tells.
    pub(crate) fn bucket(&self, of: &str, of_total: bool) -> Option<usize> {
        match self {
            Statement::Percentile {
                domain,
                total,
                bucket,
            } if domain == of && *total == of_total => Some(*bucket),
            _ => None,
        }
    }

    /// The depth of this domain, if that is what it tells.
    pub(crate) fn depth(&self, of: &str) -> Option<u32> {
        match self {
            Statement::Depth { domain, depth } if domain == of => Some(*depth),
            _ => None,
        }
    }
}
