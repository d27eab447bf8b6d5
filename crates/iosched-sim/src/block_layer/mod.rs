//! Linux's two block layers, without clock, disk or processes: a driver tells what happens and when.
//!
//! - `merging`: where a bio finds a request that takes it (`merge_hash`), and requests that become one
//! - `hw_queue`: when a hardware queue of the multi-queue block layer asks the scheduler, what stands
//!   before the device, and when the queue is run again
//!
//! Drivers: [`simulate`](crate::simulate) in virtual time, [`conform`](crate::conform) by a
//! recording.

mod hw_queue;
mod merge_hash;
mod merging;

pub use hw_queue::Attachment;
pub(crate) use hw_queue::{Depth, HwQueue};
pub use merging::{MergeLimits, Merging};
pub(crate) use merging::{Merger, RequestsMerged};
