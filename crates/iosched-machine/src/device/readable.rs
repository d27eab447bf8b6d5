//! Whether a disk still gives what is on it: asked after a load failed, so that a disk that is broken is not taken for an
//! arm that is bad.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::num::NonZero;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;

use crate::host::Host;

/// What is read at each place.
const BLOCK: usize = 4096;

/// Why a disk cannot be read, at its beginning, in its middle or at its end; nothing if it can, or if that cannot be known.
pub fn unreadable(host: &Host, disk: &str) -> Option<String> {
    let file = File::open(host.dev(disk)).ok()?;
    let size = (&file).seek(SeekFrom::End(0)).ok()?;
    let last = size.checked_sub(BLOCK as u64)?;
    [0, last / 2, last]
        .map(|at| at - at % BLOCK as u64)
        .into_iter()
        .find_map(|at| {
            let error = read_block(&file, at).err()?;
            let is_broken = error.raw_os_error() == Some(Errno::IO.raw_os_error());
            is_broken.then(|| format!("{disk} cannot be read at byte {at}: {error}"))
        })
}

/// Reads what is on the disk, and not what is in memory of it.
fn read_block(file: &File, at: u64) -> io::Result<()> {
    fadvise(file, at, NonZero::new(BLOCK as u64), Advice::DontNeed)?;
    file.read_exact_at(&mut [0; BLOCK], at)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::LoopDevice;
    use super::*;

    #[test]
    fn a_disk_whose_file_was_cut_off_is_broken_where_it_was() {
        let Some(disk) = LoopDevice::new(16) else {
            return;
        };
        let host = Host::live();
        assert_eq!(unreadable(&host, &disk.name), None);
        let backing =
            std::fs::read_to_string(format!("/sys/block/{}/loop/backing_file", disk.name));
        let backing = File::options().write(true).open(backing.unwrap().trim());
        backing.unwrap().set_len(4096).unwrap();
        let cause = unreadable(&host, &disk.name).unwrap();
        assert!(cause.contains("cannot be read at byte"), "{cause}");
        assert!(!cause.contains("byte 0"), "{cause}");
        assert_eq!(unreadable(&host, "iosched-no-such-disk"), None);
    }
}
