//! Kernel versions, the two block layers, and what a queue begins with.

use crate::units::Nanos;

pub mod rules;

/// A kernel's version. What depends on it stands in [`rules`]: versions cannot be compared elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelVersion {
    /// 6 of 6.12.43.
    major: u16,
    /// 12 of 6.12.43.
    minor: u16,
    /// 43 of 6.12.43; 0 of 6.12.
    stable: u16,
}

impl KernelVersion {
    /// `KernelVersion::new(6, 12)` is 6.12 as it was released, without what its stable releases brought.
    pub const fn new(major: u16, minor: u16) -> KernelVersion {
        KernelVersion::stable(major, minor, 0)
    }

    /// `KernelVersion::stable(6, 12, 43)` is 6.12.43.
    pub const fn stable(major: u16, minor: u16, stable: u16) -> KernelVersion {
        KernelVersion {
            major,
            minor,
            stable,
        }
    }

    /// Reads the version at the beginning of a text: `6.12`, `6.1.176-1`, what `uname -r` says.
    pub fn parse(text: &str) -> Option<KernelVersion> {
        let number = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_digit());
            text[..end.unwrap_or(text.len())].parse().ok()
        };
        let mut parts = text.splitn(3, '.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?;
        let minor_alone = minor.chars().all(|c| c.is_ascii_digit());
        let stable = parts.next().filter(|_| minor_alone).and_then(number);
        Some(KernelVersion::stable(
            major,
            number(minor)?,
            stable.unwrap_or(0),
        ))
    }

    /// It is of the same stable series: 6.12.43 and 6.12.
    pub fn is_of_series(self, other: KernelVersion) -> bool {
        (self.major, self.minor) == (other.major, other.minor)
    }

    /// It is this version or a later one.
    pub const fn is_since(self, first: KernelVersion) -> bool {
        self.number() >= first.number()
    }

    const fn number(self) -> u64 {
        (self.major as u64) << 32 | (self.minor as u64) << 16 | self.stable as u64
    }
}

impl std::fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.stable > 0 {
            write!(f, ".{}", self.stable)?;
        }
        Ok(())
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

/// The requests that a multi-queue scheduler has by default above an adapter with so many tags (`nr_requests`).
pub fn usual_scheduler_tags(tags: usize) -> usize {
    2 * tags.min(DOUBLED)
}

/// The same above a disk model that takes so many commands: 64 for a SATA disk. An adapter has 32 tags at least (AHCI), even
/// for a disk that takes fewer commands.
pub fn modelled_scheduler_tags(commands: usize) -> usize {
    const ADAPTER_TAGS: usize = 32;
    usual_scheduler_tags(commands.max(ADAPTER_TAGS))
}

/// The default of `wbt_lat_usec` (`wbt_default_latency_nsec`).
pub fn usual_throttling(rotational: bool) -> Nanos {
    Nanos::from_millis(if rotational { 75 } else { 2 })
}
