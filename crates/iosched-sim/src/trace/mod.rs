//! Recordings of block traffic: bytes in, records out.
//!
//! [`Records`] reads any of the formats that [`Format`] lists as a stream; [`Merge`] puts the files of one
//! recording, and what a file has out of order, into the order of time. Memory does not grow with the
//! recording. [`kernel`] reads every event of this project's recordings of kernel schedulers, which are
//! followed decision by decision.

mod blkparse;
mod blktrace;
mod error;
mod fio_iolog;
mod format;
mod ftrace;
pub mod kernel;
mod kernel_blk;
mod kernel_fields;
mod kernel_remarks;
pub(crate) mod kernel_write;
mod lines;
mod merge;
mod msr;
mod record;
mod recording;
mod records;
mod survey;
mod systor;
mod text;

pub use error::{Cause, ReadError, TracePosition};
pub use format::Format;
pub use kernel_write::write_event;
pub use lines::LONGEST_LINE;
pub use merge::{Merge, MergeError, WINDOW};
pub use record::{DeviceId, Labels, ProcessLabel, Record, Skip, Skipped, Stage};
pub use records::Records;
pub use survey::{DeviceUse, MOST_PROCESSES, ProcessUse, Survey};
