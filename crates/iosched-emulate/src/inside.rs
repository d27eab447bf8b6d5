//! The scheduler inside a served disk: from its name to a block layer over the model, or over what is below.

use iosched_facts::Problem;
use iosched_sim::block_layer::MergeLimits;
use iosched_sim::scheduler::{self, Elevator, Kernel, SchedulerSpec};
use iosched_sim::serve::QueueSettings;
use iosched_sim::units::Bytes;

/// What all schedulers that stand inside one disk have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inside {
    /// Commands that the disk takes at a time.
    pub(super) queue_depth: usize,
    /// What the scheduler is told of the disk.
    pub(super) rotational: bool,
    /// The longest request that comes.
    pub(super) max_request: Bytes,
}

impl Inside {
    /// The scheduler that a text names, with its tunables.
    pub(super) fn build(self, text: &str) -> Result<(Box<dyn Elevator>, Kernel), Problem> {
        let spec = SchedulerSpec::parse(text)?;
        let kernel = Kernel {
            rotational: self.rotational,
            ..spec.usual_kernel()?
        };
        Ok((scheduler::build(&spec, &kernel, &Vec::new())?, kernel))
    }

    /// What the block layer of this scheduler is like.
    pub(super) fn settings(self, kernel: Kernel) -> QueueSettings {
        let usual = MergeLimits::default();
        QueueSettings {
            queue_depth: self.queue_depth,
            nr_requests: None,
            limits: MergeLimits {
                max_sectors: usual.max_sectors.max(self.max_request.to_sectors()),
                ..usual
            },
            kernel,
        }
    }
}

/// Requests that the loop driver above is to take at a time, as far as it has so many: all that come are to reach the
/// scheduler. One without requests of its own (none) leaves the disk's tags above, where processes sleep for them, as
/// under the kernel's none.
pub(super) fn driver_depth(scheduler: &str, queue_depth: usize) -> usize {
    let spec = SchedulerSpec::parse(scheduler);
    let info = spec.and_then(|spec| scheduler::info(&spec.name));
    if info.is_ok_and(|info| info.facts.direct) {
        queue_depth
    } else {
        usize::MAX
    }
}

/// Whether there is such a scheduler, with such tunables.
pub(super) fn check(text: &str) -> Result<(), Problem> {
    let inside = Inside {
        queue_depth: 1,
        rotational: true,
        max_request: Bytes::ZERO,
    };
    inside.build(text).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_sim::scheduler::KernelVersion;

    #[test]
    fn the_block_layer_is_of_the_version_whose_rules_the_scheduler_is_to_follow() {
        let inside = Inside {
            queue_depth: 4,
            rotational: false,
            max_request: Bytes::ZERO,
        };
        for (text, version) in [("mq-deadline:kernel=6.1", (6, 1)), ("mq-deadline", (6, 12))] {
            let (_, kernel) = inside.build(text).unwrap();
            let kernel = inside.settings(kernel).kernel;
            let version = KernelVersion::new(version.0, version.1);
            assert_eq!((kernel.version, kernel.hz), (version, 250), "{text}");
            assert!(!kernel.rotational);
        }
    }

    #[test]
    fn only_a_scheduler_without_requests_of_its_own_leaves_the_tags_above() {
        assert_eq!(driver_depth("none", 4), 4);
        for scheduler in ["noop", "cfq:slice_idle=0", "mq-deadline"] {
            assert_eq!(driver_depth(scheduler, 4), usize::MAX, "{scheduler}");
        }
    }
}
