//! The FUSE file system with the emulated disk's file, and one with the last requests that it served.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, SessionACL,
    WriteFlags,
};
use iosched_machine::device::{EMULATED, EMULATED_OVER};
use iosched_sim::units::Bytes;
use rustix::mount::{MountFlags, mount};

use super::disk::Disk;
use super::ledger;
use super::log::monotonic;

/// Name of the file with the last requests served.
pub(super) const SERVED_FILE: &str = "served.csv";

/// Name of the file to which another scheduler for the inside is written.
pub(super) const SCHEDULER_FILE: &str = "scheduler";

/// Name of the file that tells how many accesses are known whose they are.
pub(super) const ASKERS_FILE: &str = "askers.json";

/// The largest request that is asked for: one block request is to be one FUSE request.
pub(super) const MAX_REQUEST: Bytes = Bytes::from_mib(1);
/// What FUSE grants where it cannot negotiate (before Linux 4.20): 32 pages.
const MAX_REQUEST_OLD: Bytes = Bytes::from_kib(128);

/// Threads that take requests from FUSE. With two, one copies data while the other takes the next.
const FUSE_THREADS: usize = 2;

/// More requests than a loop device can have in flight: FUSE is never to hold one back.
const MAX_BACKGROUND: u16 = 1024;

const ROOT: INodeNo = INodeNo(1);
const DISK: INodeNo = INodeNo(2);
const SERVED: INodeNo = INodeNo(3);
const SCHEDULER: INodeNo = INodeNo(4);
const ASKERS: INodeNo = INodeNo(5);

/// Attributes never change behind the kernel's back.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The file system around a [`Disk`].
struct DiskFilesystem {
    disk: Arc<Disk>,
    /// Name of the disk's data file in the mount.
    disk_file: String,
    max_request: Arc<Mutex<Bytes>>,
    /// Texts of `served.csv` and `askers.json` as they were when they were opened, by handle.
    snapshots: Mutex<BTreeMap<u64, String>>,
}

/// Mounts the file system on `at` and serves it on threads of its own; `ended` runs when the
/// session ends. Returns the largest request that FUSE will send.
pub(super) fn serve(
    disk: Arc<Disk>,
    id: &str,
    keeps_content: bool,
    disk_file: &str,
    at: &Path,
    ended: impl FnOnce(io::Result<()>) + Send + 'static,
) -> io::Result<Bytes> {
    let device = rustix::fs::open(
        "/dev/fuse",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let options = format!(
        "fd={},rootmode=40500,user_id=0,group_id=0",
        std::os::fd::AsRawFd::as_raw_fd(&device)
    );
    let options = std::ffi::CString::new(options).expect("numbers have no NUL");
    mount(
        format!("iosched:{id}"),
        at,
        if keeps_content {
            EMULATED_OVER
        } else {
            EMULATED
        },
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        options.as_c_str(),
    )?;
    let max_request = Arc::new(Mutex::new(MAX_REQUEST_OLD));
    let filesystem = DiskFilesystem {
        disk: disk.clone(),
        disk_file: disk_file.to_owned(),
        max_request: max_request.clone(),
        snapshots: Mutex::new(BTreeMap::new()),
    };
    let mut config = Config::default();
    config.n_threads = Some(FUSE_THREADS);
    let session = Session::from_fd(filesystem, device, SessionACL::Owner, config)?;
    let threads = std::thread::Builder::new();
    threads.name("fuse".to_owned()).spawn(move || {
        super::priority::prefer_this_thread();
        ended(session.run());
    })?;
    let threads = std::thread::Builder::new();
    threads.name("clock".to_owned()).spawn(move || {
        super::priority::run_clock_in_real_time();
        if let Err(error) = disk.keep_time() {
            panic!("the disk's clock stopped: {error}");
        }
    })?;
    let granted = *max_request.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(granted)
}

impl DiskFilesystem {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            ROOT => (FileType::Directory, 0o500, 0),
            DISK => {
                let perm = if self.disk.is_read_only() {
                    0o400
                } else {
                    0o600
                };
                (FileType::RegularFile, perm, self.disk.size().as_u64())
            }
            SERVED | ASKERS => (FileType::RegularFile, 0o400, 0),
            SCHEDULER => (FileType::RegularFile, 0o200, 0),
            _ => return None,
        };
        let stored = match inode {
            DISK => self.disk.stored(),
            _ => Bytes::ZERO,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: stored.to_sectors().as_u64(),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn snapshots(&self) -> MutexGuard<'_, BTreeMap<u64, String>> {
        self.snapshots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filesystem for DiskFilesystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it direct I/O to the file is synchronous, and the disk would only ever see one
        // request at a time.
        if config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).is_err() {
            let why = "this kernel's FUSE has no asynchronous direct I/O";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let granted = if config.capabilities().contains(InitFlags::FUSE_MAX_PAGES) {
            MAX_REQUEST.min(page_limit())
        } else {
            MAX_REQUEST_OLD
        };
        let bytes = u32::try_from(granted.as_u64()).expect("at most 1 MiB");
        let refused = |nearest| io::Error::other(format!("fuser refuses this, takes {nearest}"));
        config.set_max_write(bytes).map_err(refused)?;
        let _ = config.set_max_readahead(4096); // the file is only read directly
        let refused = |nearest| io::Error::other(format!("fuser refuses this, takes {nearest}"));
        config.set_max_background(MAX_BACKGROUND).map_err(refused)?;
        config
            .set_congestion_threshold(MAX_BACKGROUND)
            .map_err(refused)?;
        *self
            .max_request
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = granted;
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let inode = match name.to_str() {
            Some(name) if name == self.disk_file && parent == ROOT => DISK,
            Some(SERVED_FILE) if parent == ROOT => SERVED,
            Some(SCHEDULER_FILE) if parent == ROOT => SCHEDULER,
            Some(ASKERS_FILE) if parent == ROOT => ASKERS,
            _ => return reply.error(Errno::ENOENT),
        };
        match self.attributes(inode) {
            Some(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            // Space stored changes all the time: not to be cached.
            Some(attributes) => reply.attr(&Duration::ZERO, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if inode != ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (ROOT, FileType::Directory, "."),
            (ROOT, FileType::Directory, ".."),
            (DISK, FileType::RegularFile, &self.disk_file),
            (SERVED, FileType::RegularFile, SERVED_FILE),
            (SCHEDULER, FileType::RegularFile, SCHEDULER_FILE),
            (ASKERS, FileType::RegularFile, ASKERS_FILE),
        ];
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        for (position, (inode, kind, name)) in (1..).zip(entries).skip(first) {
            if reply.add(inode, position, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH;
        match inode {
            DISK => {
                let parallel = FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
                reply.opened(FileHandle(0), direct | parallel);
            }
            SERVED | ASKERS => {
                let text = if inode == SERVED {
                    ledger::to_csv(&self.disk.served())
                } else {
                    let counts = serde_json::to_string(&self.disk.attributed());
                    counts.expect("our own types serialise")
                };
                let mut snapshots = self.snapshots();
                let handle = snapshots.last_key_value().map_or(1, |(&last, _)| last + 1);
                snapshots.insert(handle, text);
                reply.opened(FileHandle(handle), direct);
            }
            SCHEDULER => reply.opened(FileHandle(0), direct),
            _ => reply.error(Errno::EISDIR),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.snapshots().remove(&handle.0);
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let received = monotonic();
        if inode == SCHEDULER {
            return reply.error(Errno::EBADF);
        }
        if matches!(inode, SERVED | ASKERS) {
            let snapshots = self.snapshots();
            let text = snapshots
                .get(&handle.0)
                .map_or(&[][..], |text| text.as_bytes());
            let from = usize::try_from(offset)
                .unwrap_or(usize::MAX)
                .min(text.len());
            let to = from.saturating_add(size as usize).min(text.len());
            return reply.data(&text[from..to]);
        }
        if offset >= self.disk.size().as_u64() {
            return reply.data(&[]);
        }
        let length = u64::from(size).min(self.disk.size().as_u64() - offset);
        self.disk.read(received, offset, length, reply);
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let received = monotonic();
        let length = data.len() as u64;
        if inode == SCHEDULER {
            let name = String::from_utf8_lossy(data);
            let length = u32::try_from(length).unwrap_or(0);
            return self.disk.switch(name.trim(), reply, length);
        }
        if inode != DISK {
            return reply.error(Errno::EBADF);
        }
        if !self.disk.is_inside(offset, length) {
            return reply.error(Errno::ENOSPC);
        }
        self.disk.write(received, offset, data, reply);
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let received = monotonic();
        if inode != DISK {
            return reply.ok();
        }
        self.disk.flush(received, reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP_SIZE: i32 = 0x01;
        const PUNCH_HOLE: i32 = 0x02;
        const ZERO_RANGE: i32 = 0x10;
        let received = monotonic();
        // A loop device asks for a hole when data are discarded, and for zeros when zeros are to be
        // written. A hole is zeros, so it serves for both.
        let understood = matches!(mode & !KEEP_SIZE, PUNCH_HOLE | ZERO_RANGE);
        if inode != DISK || !understood {
            return reply.error(Errno::EOPNOTSUPP);
        }
        if !self.disk.is_inside(offset, length) {
            return reply.error(Errno::EINVAL);
        }
        self.disk.discard(received, offset, length, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // The loop driver takes the block size as the granularity of discards.
        let blocks = self.disk.size().as_u64() / 4096;
        reply.statfs(blocks, 0, 0, 2, 0, 4096, 255, 4096);
    }
}

/// The administrator's limit on the size of a FUSE request (`fs.fuse.max_pages_limit`, Linux 6.13).
fn page_limit() -> Bytes {
    let pages = std::fs::read_to_string("/proc/sys/fs/fuse/max_pages_limit")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(256);
    Bytes::new(pages * rustix::param::page_size() as u64)
}
