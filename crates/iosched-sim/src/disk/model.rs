//! What a disk model is before it is a machine: its name, its parameters, their sources, and how to
//! make the machine from them.

use std::num::NonZeroU32;

use super::array::{Array, ArrayParameters};
use super::hdd::{Hdd, HddParameters};
use super::simple::{SimpleDisk, SimpleParameters};
use super::slowed::SlowedDown;
use super::ssd::{Ssd, SsdParameters};
use super::{DiskModel, DriveQueue};
use crate::units::Bytes;

/// A disk model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// What it is, in half a line.
    pub summary: String,
    /// Where its parameters come from, one per group of parameters.
    pub sources: Vec<String>,
    /// What a real one does and this one does not.
    pub leaves_out: Vec<String>,
    /// The numbers.
    pub parameters: Parameters,
}

/// The numbers that make a model.
#[expect(
    clippy::large_enum_variant,
    reason = "there are a dozen of them, and not in a queue"
)]
#[derive(Debug, Clone, PartialEq)]
pub enum Parameters {
    /// Platters and an arm.
    Hdd(HddParameters),
    /// Flash.
    Ssd(SsdParameters),
    /// A rule for the service time, no drive.
    Simple(SimpleParameters),
    /// Several drives as one.
    Array(ArrayParameters),
}

/// What kind of thing a model stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelKind {
    /// Platters and an arm.
    HardDisk,
    /// Flash.
    SolidState,
    /// A rule for the service time, no drive.
    Abstract,
    /// Several drives as one.
    Array,
}

/// Departures from a model as it is described. `Default` departs in nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelOptions {
    /// Another size, a whole number of 4096-byte blocks.
    pub size: Option<Bytes>,
    /// Another queue depth.
    pub queue_depth: Option<usize>,
    /// Another order inside the drive.
    pub order: Option<DriveQueue>,
    /// Write cache on or off.
    pub write_cache: Option<bool>,
    /// All that the disk does takes this many times as long.
    pub slow_down: Option<NonZeroU32>,
    /// Where chance comes from: same seed, same times.
    pub seed: u64,
}

/// Why a model cannot be built as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ModelError {
    #[error("no disk model is called `{name}`; there are: {}", known.join(", "))]
    Unknown { name: String, known: Vec<String> },
    #[error("{model} cannot be {size} large: it can have {min} to {max}")]
    Size {
        model: String,
        size: Bytes,
        min: Bytes,
        max: Bytes,
    },
    #[error("{model} cannot be {} bytes large: sizes are whole numbers of 4096 bytes", size.as_u64())]
    PartialBlock { model: String, size: Bytes },
    #[error("{model} cannot have a queue depth of {depth}: it can have 1 to {max}")]
    QueueDepth {
        model: String,
        depth: usize,
        max: usize,
    },
    #[error("{model} has no {what}")]
    NotApplicable { model: String, what: &'static str },
}

/// Sizes and depths within which a model makes sense.
struct Bounds {
    min_size: Bytes,
    max_size: Bytes,
    max_depth: usize,
}

impl Model {
    /// What it stands for.
    pub fn kind(&self) -> ModelKind {
        match self.parameters {
            Parameters::Hdd(_) => ModelKind::HardDisk,
            Parameters::Ssd(_) => ModelKind::SolidState,
            Parameters::Simple(_) => ModelKind::Abstract,
            Parameters::Array(_) => ModelKind::Array,
        }
    }

    /// What a kernel would find in `queue/rotational`.
    pub fn rotational(&self) -> bool {
        match &self.parameters {
            Parameters::Hdd(_) => true,
            Parameters::Ssd(_) => false,
            Parameters::Simple(simple) => simple.rotational,
            Parameters::Array(array) => array.rotational,
        }
    }

    /// Its size unless another is asked for.
    pub fn capacity(&self) -> Bytes {
        let sectors = match &self.parameters {
            Parameters::Hdd(hdd) => hdd.capacity,
            Parameters::Ssd(ssd) => ssd.capacity,
            Parameters::Simple(simple) => simple.capacity,
            Parameters::Array(array) => array.capacity,
        };
        sectors.to_bytes()
    }

    /// Its queue depth unless another is asked for.
    pub fn queue_depth(&self) -> usize {
        match &self.parameters {
            Parameters::Hdd(hdd) => hdd.queue_depth,
            Parameters::Ssd(ssd) => ssd.queue_depth,
            Parameters::Simple(simple) => simple.queue_depth,
            Parameters::Array(array) => array.queue_depth,
        }
    }

    /// Order in which the drive serves its queue, if it has one to choose.
    pub fn order(&self) -> Option<DriveQueue> {
        match &self.parameters {
            Parameters::Hdd(hdd) => Some(hdd.order),
            Parameters::Ssd(_) | Parameters::Simple(_) | Parameters::Array(_) => None,
        }
    }

    /// True if it has a volatile write cache that is on unless asked otherwise.
    pub fn write_cache(&self) -> bool {
        match &self.parameters {
            Parameters::Hdd(hdd) => hdd.write_cache,
            Parameters::Ssd(ssd) => ssd.write_cache,
            Parameters::Simple(_) | Parameters::Array(_) => false,
        }
    }

    /// Makes the machine, with departures.
    ///
    /// A hard disk made smaller keeps its zones, its seek range (one cylinder stays one, the whole
    /// way stays the whole way) and its speeds: a short disk with the times of the long one.
    pub fn build(&self, options: &ModelOptions) -> Result<Box<dyn DiskModel>, ModelError> {
        self.check(options)?;
        let disk = self.build_as_fast(options);
        Ok(match options.slow_down {
            Some(factor) if factor.get() > 1 => Box::new(SlowedDown::new(disk, factor)),
            _ => disk,
        })
    }

    fn build_as_fast(&self, options: &ModelOptions) -> Box<dyn DiskModel> {
        let capacity = options.size.map(Bytes::to_sectors);
        match self.parameters.clone() {
            Parameters::Hdd(mut hdd) => {
                hdd.capacity = capacity.unwrap_or(hdd.capacity);
                hdd.queue_depth = options.queue_depth.unwrap_or(hdd.queue_depth);
                hdd.order = options.order.unwrap_or(hdd.order);
                hdd.write_cache = options.write_cache.unwrap_or(hdd.write_cache);
                Box::new(Hdd::new(hdd, options.seed))
            }
            Parameters::Ssd(mut ssd) => {
                ssd.capacity = capacity.unwrap_or(ssd.capacity);
                ssd.queue_depth = options.queue_depth.unwrap_or(ssd.queue_depth);
                ssd.write_cache = options.write_cache.unwrap_or(ssd.write_cache);
                Box::new(Ssd::new(ssd, options.seed))
            }
            Parameters::Simple(simple) => Box::new(SimpleDisk::new(
                capacity.unwrap_or(simple.capacity),
                simple.rule,
                options.queue_depth.unwrap_or(simple.queue_depth),
            )),
            Parameters::Array(mut array) => {
                array.capacity = capacity.unwrap_or(array.capacity);
                array.queue_depth = options.queue_depth.unwrap_or(array.queue_depth);
                Box::new(Array::new(array, options.seed))
            }
        }
    }

    fn bounds(&self) -> Bounds {
        match self.kind() {
            // Below that a zone is less than a track; above it there are no platters.
            ModelKind::HardDisk => Bounds {
                min_size: Bytes::from_mib(16),
                max_size: self.capacity(),
                max_depth: 256,
            },
            ModelKind::SolidState | ModelKind::Abstract => Bounds {
                min_size: Bytes::from_mib(1),
                max_size: Bytes::from_gib(64 << 10),
                max_depth: 1024,
            },
            ModelKind::Array => Bounds {
                min_size: Bytes::from_mib(1),
                max_size: self.capacity(),
                max_depth: 1024,
            },
        }
    }

    fn check(&self, options: &ModelOptions) -> Result<(), ModelError> {
        let model = self.name.clone();
        let Bounds {
            min_size: min,
            max_size: max,
            max_depth,
        } = self.bounds();
        if let Some(size) = options.size {
            if size < min || size > max {
                return Err(ModelError::Size {
                    model,
                    size,
                    min,
                    max,
                });
            }
            if !size.as_u64().is_multiple_of(4096) {
                return Err(ModelError::PartialBlock { model, size });
            }
        }
        if let Some(depth) = options.queue_depth
            && (depth == 0 || depth > max_depth)
        {
            let max = max_depth;
            return Err(ModelError::QueueDepth { model, depth, max });
        }
        if options.order.is_some() && self.order().is_none() {
            let what = "order of its own to choose";
            return Err(ModelError::NotApplicable { model, what });
        }
        let cached = [ModelKind::HardDisk, ModelKind::SolidState];
        if options.write_cache == Some(true) && !cached.contains(&self.kind()) {
            let what = "write cache";
            return Err(ModelError::NotApplicable { model, what });
        }
        Ok(())
    }
}
