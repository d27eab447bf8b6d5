//! Whether a file may become a disk: [`may_write`](super::may_write()) for a regular file. The rule is the same but for one thing:
//! a file of zeros needs no word, a device always does.
//!
//! - who uses it: loop devices on it, swap, processes that can write to it. That is final.
//! - what it holds: signatures, else the first byte that is not zero, of all of them. Who names the file may give
//!   that up. A file of zeros holds nothing, so nothing has to be said.
//!
//! Whether it is still the file that was looked at when it is opened to be written: [`FileIdentity`].

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::content::digest;
use super::loop_file::loops_on_files;
use super::may_write::{Consent, MayNotWrite, Reason};
use super::mounts::MountTable;
use super::openers::openers_of_file;
use super::refusals::{Refusal, swapped_to, writers};
use super::{Blocks, FileNumber, content, overlay};
use crate::host::Host;

/// What is read at a time when a file is looked through.
const PIECE: usize = 1 << 20;

/// A file as it was when it was looked at: nothing was written to it since if this is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    size_bytes: u64,
    changed_s: i64,
    changed_ns: i64,
}

impl FileIdentity {
    /// Of this file now.
    pub fn of(file: &Metadata) -> FileIdentity {
        FileIdentity {
            device: file.dev(),
            inode: file.ino(),
            size_bytes: file.size(),
            changed_s: file.ctime(),
            changed_ns: file.ctime_nsec(),
        }
    }
}

/// The rule when the bytes of a file may be written as those of a disk: nobody uses it, and it holds nothing
/// but zeros, unless the user named it. `path` has no links.
///
/// # Errors
/// It may not; nothing was written.
pub fn may_write_file(
    host: &Host,
    path: &Path,
    file: &File,
    consent: &Consent,
) -> Result<(), MayNotWrite> {
    let name = path.display().to_string();
    let unreadable = |source| MayNotWrite::Unreadable {
        device: name.clone(),
        source,
    };
    let metadata = file.metadata().map_err(unreadable)?;
    let is_named = match consent {
        Consent::No | Consent::ToWrite => false,
        Consent::Named(named) => {
            let is_it = |other: Metadata| FileNumber::of(&other) == FileNumber::of(&metadata);
            if !std::fs::metadata(named).is_ok_and(is_it) {
                return Err(MayNotWrite::NamedAnother {
                    device: name,
                    named: named.clone(),
                });
            }
            true
        }
    };
    let mut refusals = uses(host, path, &metadata);
    if !is_named || !refusals.is_empty() {
        refusals.extend(holds(path, file, metadata.size()).map_err(unreadable)?);
    }
    if refusals.is_empty() || (is_named && refusals.iter().all(Refusal::can_be_overruled)) {
        return Ok(());
    }
    Err(MayNotWrite::Refused {
        device: name,
        reasons: refusals.into_iter().map(Reason::Always).collect(),
    })
}

/// The rule when the bytes of a file may be read as those of a disk: nobody changes them meanwhile.
///
/// # Errors
/// Somebody does.
pub fn may_read_file_alone(host: &Host, path: &Path, file: &Metadata) -> Result<(), MayNotWrite> {
    let uses = uses(host, path, file);
    if uses.is_empty() {
        return Ok(());
    }
    Err(MayNotWrite::NotAlone {
        device: path.display().to_string(),
        reasons: uses.into_iter().map(Reason::Always).collect(),
    })
}

/// Who uses the file as a disk, or can write to it.
fn uses(host: &Host, path: &Path, file: &Metadata) -> Vec<Refusal> {
    let mounts = MountTable::read(host).unwrap_or_default();
    let files = overlay::numbers_of(&mounts, path, file);
    let loops = loops_on_files(host, &files).into_iter();
    let mut uses: Vec<Refusal> = loops
        .map(|by| Refusal::BacksLoop {
            device: path.display().to_string(),
            by,
        })
        .collect();
    uses.extend(swapped_to(host, path, &files));
    uses.extend(writers(|own| openers_of_file(host, path, &files, own)));
    uses
}

/// What is in the file: its signatures, or where the first data are.
fn holds(path: &Path, file: &File, size: u64) -> io::Result<Vec<Refusal>> {
    let name = path.display().to_string();
    let signatures = content(path)?.into_iter();
    let mut holds: Vec<Refusal> = signatures
        .map(|signature| Refusal::Signature {
            device: name.clone(),
            signature,
        })
        .collect();
    if holds.is_empty() {
        let data = first_data(file, size)?;
        holds.extend(data.map(|blocks| Refusal::Data {
            device: name,
            blocks,
        }));
    }
    Ok(holds)
}

/// The first piece that is not zero, of the whole file but its holes.
fn first_data(file: &File, size: u64) -> io::Result<Option<Blocks>> {
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < size {
        at = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(None), // nothing but a hole up to the end
            Err(Errno::INVAL) => at,             // the file system does not tell
            Err(error) => return Err(error.into()),
        };
        let length = usize::try_from(size.saturating_sub(at)).map_or(PIECE, |left| left.min(PIECE));
        let read = file.read_at(&mut piece[..length], at)?;
        if read == 0 {
            return Ok(None); // it was made shorter
        }
        if let Some(first) = piece[..read].iter().position(|&byte| byte != 0) {
            return Ok(Some(Blocks::Data {
                offset_bytes: at + first as u64,
                digest: digest(&piece[..read]),
            }));
        }
        at += read as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(file: &tempfile::NamedTempFile, consent: &Consent) -> Result<(), MayNotWrite> {
        let path = file.path().canonicalize().unwrap();
        may_write_file(&Host::live(), &path, &File::open(&path).unwrap(), consent)
    }

    #[test]
    fn a_file_of_zeros_may_be_written_and_one_with_a_byte_anywhere_once_it_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(64 << 20).unwrap();
        asked(&file, &Consent::No).unwrap();
        let between_samples = (5 << 20) + 12_345;
        file.as_file().write_all_at(b"x", between_samples).unwrap();
        let path = file.path().to_str().unwrap();
        for (consent, is_allowed) in [
            (Consent::No, false),
            (Consent::ToWrite, false),
            (Consent::Named(path.to_owned()), true),
            (Consent::Named("/bin/sh".to_owned()), false),
        ] {
            assert_eq!(asked(&file, &consent).is_ok(), is_allowed, "{consent:?}");
        }
        let error = asked(&file, &Consent::No).unwrap_err();
        let expected = format!("there are data at byte {between_samples}");
        assert!(error.to_string().contains(&expected), "{error}");
        assert_eq!(error.way_out(), Some(format!("--destroy-data={path}")));
    }

    #[test]
    fn what_was_written_to_a_file_gives_it_another_identity() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        let identity = || FileIdentity::of(&file.as_file().metadata().unwrap());
        let before = identity();
        assert_eq!(before, identity());
        assert!(iosched_testing::wait_until(|| {
            // The clock of the file system has ticks.
            file.as_file().write_all_at(b"x", 0).unwrap();
            identity() != before
        }));
    }
}
