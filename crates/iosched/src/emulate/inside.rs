//! The scheduler inside a served disk: from its name to a block layer over the model.

use iosched_sim::block_layer::MergeLimits;
use iosched_sim::scheduler::{
    self, BlockLayer, Elevator, Kernel, SchedulerError, SchedulerInfo, SchedulerSpec,
};
use iosched_sim::serve::Settings;
use iosched_sim::units::Bytes;

/// As many as the kernel gives its own schedulers above an emulated disk.
const SCHEDULER_TAGS: usize = 256;

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
    pub(super) fn build(self, text: &str) -> Result<(Box<dyn Elevator>, Kernel), SchedulerError> {
        let spec = SchedulerSpec::parse(text)?;
        let kernel = Kernel {
            hz: scheduler::info(&spec.name)?.block_layer.usual_hz(),
            rotational: self.rotational,
            ..Kernel::default()
        };
        Ok((scheduler::build(&spec, &kernel, &Vec::new())?, kernel))
    }

    /// What the block layer of this scheduler is like.
    pub(super) fn settings(self, info: &SchedulerInfo, kernel: Kernel) -> Settings {
        let usual = MergeLimits::default();
        let has_tags = info.block_layer == BlockLayer::MultiQueue && !info.direct;
        Settings {
            queue_depth: self.queue_depth,
            nr_requests: has_tags.then_some(SCHEDULER_TAGS),
            limits: MergeLimits {
                max_sectors: usual.max_sectors.max(self.max_request.to_sectors()),
                ..usual
            },
            kernel,
        }
    }
}

/// Whether there is such a scheduler, with such tunables.
pub(super) fn check(text: &str) -> Result<(), SchedulerError> {
    let inside = Inside {
        queue_depth: 1,
        rotational: true,
        max_request: Bytes::ZERO,
    };
    inside.build(text).map(|_| ())
}
