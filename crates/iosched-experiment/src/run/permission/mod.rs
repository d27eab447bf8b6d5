//! When a run asks whether it may write to its raw device: on resuming, and with the device claimed. (When
//! it is planned, the plan asks.)

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use iosched_machine::device::{
    Consent, Content, Device, DeviceNumber, GivenUp, MayNotWrite, Occasion, Write, may_write,
};
use iosched_machine::host::Host;

use super::RunError;
use crate::record::{Entry, Record, Recorder};

/// A device that nobody else may mount or open for himself, until this is dropped.
pub(super) struct Claim {
    _file: File,
}

/// Asks whether a record may go on to write, which the user has to allow again; `None` where it does not
/// write to a raw device.
///
/// # Errors
/// It may not.
pub fn may_go_on(
    host: &Host,
    record: &Record,
    consent: &Consent,
) -> Result<Option<GivenUp>, MayNotWrite> {
    let Some((device, what)) = record.header.plan.destroys() else {
        return Ok(None);
    };
    let write = Write {
        what: &what,
        consent,
        occasion: Occasion::Resume {
            given_up: record.given_up(),
            left: record.left(),
        },
    };
    may_write(host, &read(host, device)?, &write).map(Some)
}

/// Claims the raw device that a run writes to, and asks once more: between the plan and now somebody may have
/// come to it, and from now on nobody comes.
pub(super) fn claim(host: &Host, record: &Record) -> Result<Option<Claim>, RunError> {
    let plan = &record.header.plan;
    let Some((name, what)) = plan.writes_to() else {
        return Ok(None);
    };
    let device = read(host, name)?;
    if plan.destroys().is_none() {
        return open_exclusively(host, &device).map(Some);
    }
    let given_up = record.given_up().ok_or_else(|| MayNotWrite::NotAllowed {
        what: what.clone(),
        device: name.to_owned(),
    })?;
    claim_to_write(host, &device, &what, given_up).map(Some)
}

fn claim_to_write(
    host: &Host,
    device: &Device,
    what: &str,
    given_up: &GivenUp,
) -> Result<Claim, RunError> {
    let claim = open_exclusively(host, device)?;
    let write = Write {
        what,
        consent: &Consent::ToWrite,
        occasion: Occasion::Claimed { given_up },
    };
    may_write(host, device, &write)?;
    Ok(claim)
}

/// Notes what the run leaves on its raw device, so that what others write to it afterwards is known for
/// theirs. Without that note (a disk that is gone, a full directory) less is known, and nothing else is lost.
pub(super) fn note_what_is_left(host: &Host, recorder: &mut Recorder) {
    let plan = &recorder.record().header.plan;
    let Some((name, _)) = plan.destroys() else {
        return;
    };
    let content = Device::read(host, name).and_then(|device| Content::read(host, &device));
    if let Ok(content) = content {
        let _ = recorder.append(Entry::Left { content });
    }
}

fn read(host: &Host, name: &str) -> Result<Device, MayNotWrite> {
    Device::read(host, name).map_err(|source| MayNotWrite::Unreadable {
        device: name.to_owned(),
        source,
    })
}

fn open_exclusively(host: &Host, device: &Device) -> Result<Claim, RunError> {
    let path = host.dev(&device.name);
    let opened = iosched_machine::device::open_exclusively(&path).and_then(|file| {
        let number = DeviceNumber::of_raw(file.metadata()?.rdev());
        if number == device.number {
            Ok(Claim { _file: file })
        } else {
            Err(io::Error::other("it is the node of another device"))
        }
    });
    opened.map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy => RunError::InUse {
            device: device.name.clone(),
        },
        _ => RunError::Io { path, source },
    })
}

#[cfg(test)]
mod tests;
