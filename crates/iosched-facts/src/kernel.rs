//! Kernel versions, the two block layers, and what a queue begins with.

use crate::units::Nanos;

/// A kernel's version, as far as rules depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// 6 of 6.12.
    pub major: u16,
    /// 12 of 6.12.
    pub minor: u16,
}

impl KernelVersion {
    /// `KernelVersion::new(6, 12)` is 6.12, with all of its stable releases.
    pub const fn new(major: u16, minor: u16) -> KernelVersion {
        KernelVersion { major, minor }
    }

    /// Reads the version at the beginning of a text: `6.12`, `6.1.176-1`, what `uname -r` says.
    pub fn parse(text: &str) -> Option<KernelVersion> {
        let (major, rest) = text.split_once('.')?;
        let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(KernelVersion {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl std::fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Ticks per second that kernels are built with (`CONFIG_HZ`).
pub const USUAL_HZ: [u32; 4] = [1000, 300, 250, 100];

/// The two block layers of Linux: each has its own schedulers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockLayer {
    /// One queue per device, one lock (kernels before 5.0).
    SingleQueue,
    /// Software queues per CPU over hardware queues (blk-mq).
    MultiQueue,
}

impl BlockLayer {
    /// Ticks per second of the kernels that had it last: those of the recordings that were followed.
    pub fn usual_hz(self) -> u32 {
        match self {
            BlockLayer::SingleQueue => 1000,
            BlockLayer::MultiQueue => 250,
        }
    }
}

/// Requests of each kind of a single-queue device by default (`nr_requests`).
pub const USUAL_REQUESTS: usize = 128;

/// Most tags that the kernel doubles to get its default of `nr_requests`.
const DOUBLED: usize = 128;

/// The most requests that a multi-queue scheduler has by default, whatever the device's depth (`nr_requests`).
pub const MOST_SCHEDULER_TAGS: usize = 2 * DOUBLED;

/// The requests that a multi-queue scheduler has by default on a device that takes so many commands (`nr_requests`).
pub fn usual_scheduler_tags(commands: usize) -> usize {
    2 * commands.min(DOUBLED)
}

/// The default of `wbt_lat_usec` (`wbt_default_latency_nsec`).
pub fn usual_throttling(rotational: bool) -> Nanos {
    Nanos::from_millis(if rotational { 75 } else { 2 })
}
