//! The emulated disk that a run makes for itself, as its plan keeps it.

use std::num::NonZeroU32;
use std::path::PathBuf;

use iosched_emulate::spec::Spec;
use iosched_sim::disk::Model;
use iosched_sim::units::Bytes;
use serde::{Deserialize, Serialize};

/// The disk, as it can be made again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnDisk {
    /// The disk model.
    pub model: Model,
    /// Another size than the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Another queue depth than the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<usize>,
    /// All that the disk does takes this many times as long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_down: Option<NonZeroU32>,
    /// The scheduler of ours that stands inside at first, where arms are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
}

impl OwnDisk {
    /// A disk as its model describes it.
    pub fn new(model: Model) -> OwnDisk {
        OwnDisk {
            model,
            size_bytes: None,
            queue_depth: None,
            slow_down: None,
            scheduler: None,
        }
    }

    /// How large it is.
    pub(super) fn bytes(&self) -> u64 {
        let of_model = || self.model.capacity().as_u64();
        self.size_bytes.unwrap_or_else(of_model)
    }

    /// The model, and what is other than it says: `hdd-7200, 16 GiB, 4 times as slow`.
    pub fn described(&self) -> String {
        let size = self.size_bytes.map(|size| Bytes::new(size).to_string());
        let depth = self.queue_depth.map(|depth| format!("queue depth {depth}"));
        let slow = self.slow_down.filter(|factor| factor.get() > 1);
        let slow = slow.map(|factor| format!("{factor} times as slow"));
        let name = std::iter::once(self.model.name.clone());
        let words = name.chain(size).chain(depth).chain(slow);
        words.collect::<Vec<_>>().join(", ")
    }

    /// As it is made: by the program `server`, for as long as this process lives.
    pub fn spec(&self, server: impl Into<PathBuf>) -> Spec {
        let mut spec = Spec::new(self.model.clone(), server);
        spec.size_bytes = self.size_bytes;
        spec.queue_depth = self.queue_depth;
        spec.slow_down = self.slow_down;
        spec.scheduler.clone_from(&self.scheduler);
        spec.owner_pid = i32::try_from(std::process::id()).ok();
        spec
    }
}
