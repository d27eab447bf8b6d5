//! When a run asks whether it may write to its raw device: on resuming, and with the device claimed. (When
//! it is planned, the plan asks.)

use std::fs::File;
use std::io;

use iosched_machine::device::{
    self, Consent, Content, Device, GivenUp, MayNotWrite, NotClaimed, OPENED_EXCLUSIVELY, Occasion,
    Purpose, Write, may_write,
};
use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_machine::lock;
use rustix::fs::OFlags;

use super::RunError;
use crate::record::{Entry, Record, Recorder};

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
    let device = Device::read(host, device).map_err(|source| MayNotWrite::Unreadable {
        device: device.to_owned(),
        source,
    })?;
    may_write(host, &device, &write).map(Some)
}

/// Claims the raw device that a run writes to, and asks once more: between the plan and now somebody may have
/// come to it, and nobody comes until the file is dropped.
pub(super) fn claim(host: &Host, record: &Record) -> Result<Option<File>, RunError> {
    let plan = &record.header.plan;
    let Some((name, what)) = plan.writes_to() else {
        return Ok(None);
    };
    let purpose = match plan.destroys() {
        None => Purpose::Own,
        Some(_) => Purpose::Write {
            what: &what,
            given_up: record.given_up(),
        },
    };
    claim_for(host, name, purpose).map(Some)
}

fn claim_for(host: &Host, name: &str, purpose: Purpose<'_>) -> Result<File, RunError> {
    let path = host.dev(name);
    // Closing a writable descriptor would wake udev.
    let access = OFlags::RDONLY | OFlags::NONBLOCK;
    device::claim(host, name, &path, access, purpose).map_err(|error| match error {
        NotClaimed::MayNotWrite(refusal) => refusal.into(),
        NotClaimed::Taken => {
            let message = lock::in_use(name, None, OPENED_EXCLUSIVELY);
            let hint = format!("take it out of use; what uses it, says: iosched list -v {name}");
            Problem::new(exit::UNSAFE, message).hint(hint).into()
        }
        NotClaimed::AnotherDevice => {
            RunError::io(&path, &io::Error::other("it is the node of another device"))
        }
        NotClaimed::Io(error) => RunError::io(&path, &error),
    })
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

#[cfg(test)]
mod tests;
