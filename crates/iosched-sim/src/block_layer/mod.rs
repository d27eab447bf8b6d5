//! Linux's two block layers, without clock, disk or processes: a driver tells what happens and when.
//!
//! - `hw_queue`: when a hardware queue of the multi-queue block layer asks the scheduler, what stands
//!   before the device, and when the queue is run again
//!
//! Drivers: [`simulate`](crate::simulate) in virtual time, [`conform`](crate::conform) by a
//! recording.

mod hw_queue;

pub use hw_queue::Attachment;
pub(crate) use hw_queue::{Depth, HwQueue};
