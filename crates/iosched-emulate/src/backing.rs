//! Where the data of an emulated disk are: a sparse file without a name.
//!
//! The file is unlinked as soon as it is open, so that the data go when the server goes, however it
//! ends. Holes read as zeros and take no space; discarded ranges become holes again.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use iosched_machine::failure::Problem;
use iosched_machine::host::Host;
use iosched_sim::disk::{Model, Parameters};
use iosched_sim::units::Bytes;
use rustix::fs::{FallocateFlags, fallocate, statfs};

/// The data of one emulated disk.
#[derive(Debug)]
pub(super) struct Backing {
    file: File,
}

impl Backing {
    /// A file of `size` zeros in `dir`.
    pub(super) fn create(dir: &Path, size: Bytes) -> io::Result<Backing> {
        let file = tempfile::tempfile_in(dir)?;
        file.set_len(size.as_u64())?;
        Ok(Backing { file })
    }

    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    pub(super) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    /// Makes a range read as zeros and gives its space back.
    pub(super) fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, mode, offset, length)?;
        Ok(())
    }

    /// Space that the data really take.
    pub(super) fn stored(&self) -> io::Result<Bytes> {
        Ok(Bytes::new(self.file.metadata()?.blocks() * 512))
    }

    /// The descriptor, so that others can find the file below `/proc/PID/fd`.
    pub(super) fn raw_fd(&self) -> i32 {
        use std::os::fd::AsRawFd;
        self.file.as_raw_fd()
    }
}

/// Memory that must be available before data go to memory unless told otherwise.
const MEMORY_TO_SPARE: Bytes = Bytes::from_gib(2);

/// Where data go unless told otherwise: to `/dev/shm` while the machine has memory to spare, for
/// there a dropped page cache does not send reads to a real disk; else to `/var/tmp`.
pub(super) fn default_dir(host: &Host, size: Bytes) -> PathBuf {
    let in_memory = host.dev("shm");
    let wanted = size.min(MEMORY_TO_SPARE);
    let has_room =
        is_tmpfs(&in_memory) && free_space(&in_memory).is_some_and(|free| free >= wanted);
    let can_spare = memory(host, "MemAvailable:").is_some_and(|memory| memory >= MEMORY_TO_SPARE);
    if has_room && can_spare {
        in_memory
    } else {
        host.path(Path::new("/var/tmp"))
    }
}

/// True if files in this directory live in memory.
pub(super) fn is_tmpfs(dir: &Path) -> bool {
    const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
    statfs(dir).is_ok_and(|fs| fs.f_type == TMPFS_MAGIC)
}

fn free_space(dir: &Path) -> Option<Bytes> {
    let fs = statfs(dir).ok()?;
    Some(Bytes::new(fs.f_bavail * u64::try_from(fs.f_bsize).ok()?))
}

/// A cache that the machine could not hold is none that it can play.
pub(super) fn check_memory(host: &Host, model: &Model) -> Result<(), Problem> {
    let Parameters::Array(array) = &model.parameters else {
        return Ok(());
    };
    let (Some(cache), Some(memory)) = (&array.cache, memory(host, "MemTotal:")) else {
        return Ok(());
    };
    if cache.size <= memory {
        return Ok(());
    }
    let message = format!(
        "the cache of {} is {}, more than this machine's memory, {memory}",
        model.name, cache.size
    );
    Err(Problem::usage(message).hint(
        "`size_bytes` in [array.cache] of a file of its own makes it smaller; `iosched simulate --disk FILE` takes any",
    ))
}

fn memory(host: &Host, what: &str) -> Option<Bytes> {
    let meminfo = std::fs::read_to_string(host.proc("meminfo")).ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix(what))?;
    let kib = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(Bytes::from_kib(kib))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_read_as_zeros_and_data_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let backing = Backing::create(dir.path(), Bytes::from_mib(8)).unwrap();
        backing.write(4096, &[7; 4096]).unwrap();
        let mut read = vec![1; 8192];
        backing.read(0, &mut read).unwrap();
        assert!(read[..4096].iter().all(|&byte| byte == 0));
        assert!(read[4096..].iter().all(|&byte| byte == 7));
    }

    #[test]
    fn a_punched_range_gives_its_space_back_and_reads_as_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let backing = Backing::create(dir.path(), Bytes::from_mib(8)).unwrap();
        let empty = backing.stored().unwrap();
        backing.write(0, &vec![7; 4 << 20]).unwrap();
        let full = backing.stored().unwrap();
        backing.punch(0, 4 << 20).unwrap();
        assert!(full.as_u64() >= empty.as_u64() + (4 << 20));
        assert!(backing.stored().unwrap().as_u64() <= empty.as_u64() + 4096);
        let mut read = [1; 512];
        backing.read(1 << 20, &mut read).unwrap();
        assert_eq!(read, [0; 512]);
    }

    #[test]
    fn the_file_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let _backing = Backing::create(dir.path(), Bytes::from_mib(1)).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_cache_larger_than_the_memory_is_refused() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let host = Host::at(root.path());
        let model = Model::named("san-volume").unwrap(); // 4 GiB
        check_memory(&host, &model).expect("a machine that does not tell");
        for (kib, takes) in [(4 << 20, true), ((4 << 20) - 1, false)] {
            let meminfo = format!("MemTotal: {kib} kB\nMemAvailable: 1000 kB\n");
            std::fs::write(root.path().join("proc/meminfo"), meminfo).unwrap();
            assert_eq!(check_memory(&host, &model).is_ok(), takes, "{kib}");
            let hdd = Model::named("hdd-7200-fifo").unwrap();
            check_memory(&host, &hdd).expect("it has no controller");
        }
        let error = check_memory(&host, &model).unwrap_err();
        assert!(
            error.to_string().starts_with(
                "the cache of san-volume is 4 GiB, more than this machine's memory, 4"
            ),
            "{error}"
        );
    }
}
