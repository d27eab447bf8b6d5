//! Taking a raw device for oneself, right before it is written or served: opened so that nobody else can mount or
//! hold it, and asked about once more, because somebody may have come to it since it was asked about first.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::may_write::{Consent, GivenUp, MayNotWrite, Occasion, Write, may_read_alone, may_write};
use super::node::open_for_oneself;
use super::{Device, DeviceNumber};
use crate::host::Host;

/// What a device is claimed for.
#[derive(Debug, Clone, Copy)]
pub enum Purpose<'a> {
    /// To be written.
    Write {
        /// What writes: `load random-write`, `--mkfs`.
        what: &'a str,
        /// What the user gave up; without that it may not be written.
        given_up: Option<&'a GivenUp>,
    },
    /// To be read, while nobody writes.
    Read,
    /// To be used as the caller likes: a disk that the caller made.
    Own,
}

/// Why a device was not claimed.
#[derive(Debug)]
pub enum NotClaimed {
    /// It is in use, or holds what nobody gave up.
    MayNotWrite(MayNotWrite),
    /// Another program has it mounted, or open for itself.
    Taken,
    /// The node is that of another device.
    AnotherDevice,
    /// It cannot be opened or looked at.
    Io(io::Error),
}

impl From<io::Error> for NotClaimed {
    fn from(error: io::Error) -> NotClaimed {
        match error.kind() {
            io::ErrorKind::ResourceBusy => NotClaimed::Taken,
            _ => NotClaimed::Io(error),
        }
    }
}

/// Claims the device of this kernel name by its node: until the file is dropped nobody else can mount it or open it for
/// himself.
///
/// # Errors
/// Nothing was written, and nobody has it.
pub fn claim(
    host: &Host,
    name: &str,
    node: &Path,
    access: OFlags,
    purpose: Purpose<'_>,
) -> Result<File, NotClaimed> {
    let file = open_for_oneself(node, access)?;
    let device = Device::read(host, name).map_err(|source| {
        NotClaimed::MayNotWrite(MayNotWrite::Unreadable {
            device: name.to_owned(),
            source,
        })
    })?;
    if DeviceNumber::of_raw(file.metadata()?.rdev()) != device.number {
        return Err(NotClaimed::AnotherDevice);
    }
    ask(host, &device, purpose).map_err(NotClaimed::MayNotWrite)?;
    Ok(file)
}

fn ask(host: &Host, claimed: &Device, purpose: Purpose<'_>) -> Result<(), MayNotWrite> {
    let (what, given_up) = match purpose {
        Purpose::Own => return Ok(()),
        Purpose::Read => return may_read_alone(host, claimed, true),
        Purpose::Write { what, given_up } => (what, given_up),
    };
    let given_up = given_up.ok_or_else(|| MayNotWrite::NotAllowed {
        what: what.to_owned(),
        device: claimed.name.clone(),
    })?;
    let write = Write {
        what,
        consent: &Consent::ToWrite, // taken before
        occasion: Occasion::Claimed { given_up },
    };
    may_write(host, claimed, &write).map(drop)
}
