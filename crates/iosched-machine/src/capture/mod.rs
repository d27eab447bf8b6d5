//! Records what a disk's block layer does: tracefs in, events out.
//!
//! ```text
//!  Tracefs      finds the kernel's tracing files; an instance of our own, removed when dropped
//!  Recorder     sets it up for one disk, reads its pages, and puts the processors' events in order
//!  page         pages of the ring buffer -> records          pure
//!  event        records -> events, as recordings give them   pure
//!  format       where the kernel says that the fields are    pure
//!  waits        events -> queue and service time of requests  pure
//! ```
//!
//! No package is needed and no other user of tracing is disturbed; it works under lockdown, where
//! blktrace does not. Binary pages are read, not text, so that nothing is lost at high rates; what
//! the kernel loses all the same is counted ([`Losses`]).
//!
//! ```no_run
//! # fn example() -> Result<(), iosched_machine::capture::CaptureError> {
//! use iosched_machine::capture::{self, Recorder};
//! use iosched_facts::event::{Action, Line};
//!
//! let disk = capture::device_number(&iosched_machine::host::Host::live(), "sda")?;
//! let mut recorder = Recorder::start(disk, &capture::EVENTS)?;
//! let mut lines = Vec::new();
//! recorder.drain(&mut lines)?; // again and again, some ten times a second
//! let losses = recorder.finish(&mut lines)?;
//! let issued = lines.iter().filter(|line| matches!(line, Line::Event(e) if e.action == Action::Issued));
//! println!("{} issued, {} lost", issued.count(), losses.events);
//! # Ok(())
//! # }
//! ```

pub(crate) mod event;
pub(crate) mod format;
pub(crate) mod page;
mod recorder;
mod tracefs;
mod waits;

use std::io;
use std::path::PathBuf;

pub use self::recorder::{Losses, Recorder};
pub use self::waits::{Took, Waits};
use crate::failure::{Failure, exit};
use crate::host::Host;
use format::FormatError;
use page::PageError;

/// Everything that can be recorded: events of requests and bios, and what kyber says.
pub const EVENTS: [Events; 2] = [Events::Block, Events::Kyber];

/// What is to be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Events {
    /// Bios queued and merged, requests allocated, inserted, merged, issued and completed.
    Block,
    /// Only requests inserted, issued and completed: a third of the events.
    Requests,
    /// Who submits which bio, and with which priority requests are issued.
    Asked,
    /// Ends of processes, of all that there are.
    Exits,
    /// Latencies that kyber found, and depths that it set. Nothing where there is no kyber.
    Kyber,
}

/// Why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CaptureError {
    #[error("this machine offers no tracefs")]
    NoTracefs {
        #[source]
        source: io::Error,
    },
    #[error("there is no block device {device}")]
    NoDevice { device: String },
    #[error("cannot {action} {}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the kernel describes its events in a way that is not understood: {0}")]
    Format(#[from] FormatError),
    #[error("what processor {cpu} recorded cannot be read: {cause}")]
    Page { cpu: u16, cause: PageError },
}

impl Failure for CaptureError {
    fn hint(&self) -> Option<String> {
        match self {
            CaptureError::NoTracefs { source } | CaptureError::File { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Some("run it as root".to_owned())
            }
            CaptureError::NoTracefs { .. } => Some(
                "the kernel needs CONFIG_BLK_DEV_IO_TRACE or CONFIG_EVENT_TRACING; with a \
                 kernel before 5.2 mount it: `mount -t tracefs tracefs /sys/kernel/tracing`"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            CaptureError::NoTracefs { source } | CaptureError::File { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                exit::NOT_PERMITTED
            }
            CaptureError::NoTracefs { .. } => exit::MISSING,
            CaptureError::NoDevice { .. } => exit::NO_SUCH_DEVICE,
            _ => exit::FAILURE,
        }
    }
}

/// A disk as the kernel's events name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceNumber(u32);

/// The number of the device of this kernel name (`sda`).
pub fn device_number(host: &Host, device: &str) -> Result<DeviceNumber, CaptureError> {
    let text = host.sysfs().read_if_present(device, "dev");
    let numbers = text.as_deref().and_then(|text| text.trim().split_once(':'));
    let number = numbers.and_then(|(major, minor)| {
        let major: u32 = major.parse().ok().filter(|&major| major < 1 << 12)?;
        let minor: u32 = minor.parse().ok().filter(|&minor| minor < 1 << 20)?;
        Some(DeviceNumber(major << 20 | minor))
    });
    number.ok_or_else(|| CaptureError::NoDevice {
        device: device.to_owned(),
    })
}

/// Why nothing can be recorded here; nothing if it can.
pub fn missing() -> Option<CaptureError> {
    tracefs::Tracefs::open().err()
}

/// The tracing instances of our processes that were killed.
pub fn remains(host: &Host) -> Vec<String> {
    tracefs::Tracefs::open().map_or_else(|_| Vec::new(), |tracefs| tracefs.left(host))
}

/// Removes the tracing instances of our processes that were killed, and returns their names.
pub fn remove_remains(host: &Host) -> Vec<String> {
    tracefs::Tracefs::open().map_or_else(|_| Vec::new(), |tracefs| tracefs.sweep(host))
}
