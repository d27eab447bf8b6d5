//! Records what a disk's block layer does: tracefs in, events out.
//!
//! ```text
//!  Tracefs      finds the kernel's tracing files; an instance of our own, removed when dropped
//!  Recorder     sets it up for one disk, reads its pages, and puts the processors' events in order
//!  page         pages of the ring buffer -> records          pure
//!  event        records -> events, as recordings give them   pure
//!  format       where the kernel says that the fields are    pure
//!  waits        events -> queue and service time of requests  pure
//!  foreign      who else submits I/O to a disk, while a load has it
//! ```
//!
//! No package is needed and no other user of tracing is disturbed; it works under lockdown, where
//! blktrace does not. Binary pages are read, not text, so that nothing is lost at high rates; what
//! the kernel loses all the same is counted ([`Losses`]).
//!
//! ```no_run
//! # fn example() -> Result<(), iosched_machine::failure::Problem> {
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
mod foreign;
pub(crate) mod format;
pub(crate) mod page;
mod recorder;
mod tracefs;
mod waits;

use std::io;
use std::path::Path;

pub use self::foreign::{ForeignIo, Submitter};
pub use self::recorder::{Losses, Recorder};
pub use self::waits::{Took, Waits};
use crate::failure::{Problem, exit};
use crate::host::Host;

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
    /// Who submits which bio, and who makes pages of files dirty.
    Submitted,
    /// Ends of processes, of all that there are.
    Exits,
    /// Latencies that kyber found, and depths that it set. Nothing where there is no kyber.
    Kyber,
}

/// A tracing file cannot be used.
fn unusable(action: &str, path: &Path, error: &io::Error) -> Problem {
    let message = format!("cannot {action} {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Problem::new(exit::NOT_PERMITTED, message).hint("run it as root")
        }
        _ => Problem::new(exit::FAILURE, message),
    }
}

fn no_tracefs(error: &io::Error) -> Problem {
    let message = format!("this machine offers no tracefs: {error}");
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Problem::new(exit::NOT_PERMITTED, message).hint("run it as root")
        }
        _ => Problem::new(exit::MISSING, message).hint(
            "the kernel needs CONFIG_BLK_DEV_IO_TRACE or CONFIG_EVENT_TRACING; with a \
             kernel before 5.2 mount it: `mount -t tracefs tracefs /sys/kernel/tracing`",
        ),
    }
}

fn not_understood(cause: String) -> Problem {
    let message =
        format!("the kernel describes its events in a way that is not understood: {cause}");
    Problem::new(exit::FAILURE, message)
}

/// A disk as the kernel's events name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceNumber(u32);

/// The number of the device of this kernel name (`sda`).
pub fn device_number(host: &Host, device: &str) -> Result<DeviceNumber, Problem> {
    let text = host.sysfs().read_if_present(device, "dev");
    let numbers = text.as_deref().and_then(|text| text.trim().split_once(':'));
    let number = numbers.and_then(|(major, minor)| {
        let major: u32 = major.parse().ok().filter(|&major| major < 1 << 12)?;
        let minor: u32 = minor.parse().ok().filter(|&minor| minor < 1 << 20)?;
        Some(DeviceNumber(major << 20 | minor))
    });
    let message = format!("there is no block device {device}");
    number.ok_or_else(|| Problem::new(exit::NO_SUCH_DEVICE, message))
}

/// Why nothing can be recorded here; nothing if it can.
pub fn missing() -> Option<Problem> {
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
