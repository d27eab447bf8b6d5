//! Power cuts: disks that log every write and every flush in order, and what they may hold after the power failed at
//! some point of that log.
//!
//! A flush makes durable what its disk was given before it. Of each later write a disk may hold all, nothing, or some
//! of its sectors, because only a sector is written as a whole. The order of those writes says nothing: a sector that
//! was written twice holds its old, its first or its second data. One exception: ext4 relies on a disk to write its
//! superblock as a whole, so the first block is never torn.
//!
//! The disks are files of a FUSE file system that this process serves, each below a loop device with ext4. No thread
//! of the test may wait for a file on them: killed meanwhile, it would wait for a server that ended with it. Commands
//! may; they get an error then.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, SessionACL, WriteFlags,
};
use iosched_testing::loop_device;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::chance::Chance;
use super::run;
use super::traced::{self, End};
use super::tuning::MIB;

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// Where ext4 has its superblock, with a block size of 4 KiB.
const FIRST_BLOCK: usize = 4096;

/// The file that a neighbour writes.
pub(crate) const NEIGHBOUR: &str = "neighbour";

/// Enough for a journal of 4 MiB.
const DISK_SIZE: usize = 24 << 20;

/// Disks with a file system each, mounted, whose writes and flushes are logged.
pub(crate) struct RecordedDisks {
    mounts: Mounts,
    disks: Shared,
    /// Where the FUSE file system is mounted.
    server: tempfile::TempDir,
}

impl RecordedDisks {
    /// Mounts an empty disk on each of these directories. What is on them now is durable.
    pub(crate) fn new(places: &[&Path]) -> RecordedDisks {
        let disks = Shared::new(places.len());
        let server = tempfile::Builder::new()
            .prefix("iosched-test-")
            .tempdir()
            .expect("a directory");
        serve(disks.clone(), server.path());
        let mut recorded = RecordedDisks {
            mounts: Mounts::default(),
            disks,
            server,
        };
        for (number, place) in places.iter().enumerate() {
            let file = recorded.server.path().join(number.to_string());
            let disk = Attached::new(&file, &["--direct-io=on"]);
            run(
                "mkfs.ext4",
                &[
                    "-q",
                    "-b",
                    "4096",
                    "-J",
                    "size=4",
                    "-E",
                    "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
                    &disk.node(),
                ],
            );
            recorded.mounts.mount(&disk, place);
        }
        recorded.begin();
        recorded
    }

    /// What is on the disks now is durable, and the log begins.
    pub(crate) fn begin(&self) {
        for place in &self.mounts.0 {
            run("sync", &["--file-system", &place.display().to_string()]);
        }
        self.disks.lock().begin();
    }

    /// How much was logged.
    pub(crate) fn position(&self) -> usize {
        self.disks.lock().log.len()
    }

    /// Runs a command that must succeed. Gives each line that it printed, with the position in the log at which it
    /// had been printed, and the position at which the command had ended.
    ///
    /// With a neighbour, another program syncs a file of its own on that disk before each of the command's calls that
    /// change something: ext4 commits what the command has done so far at moments that the command did not choose.
    pub(crate) fn run(
        &self,
        command: &mut Command,
        neighbour: Option<usize>,
    ) -> (Vec<(usize, String)>, usize) {
        let stdout = tempfile::tempfile().expect("a file");
        let printed = Printed::new(stdout.try_clone().expect("a descriptor"));
        let ended = traced::watch(stdout, command, |kind| {
            printed.look(self.position());
            if let Some(disk) = neighbour.filter(|_| kind.is_change()) {
                self.sync_file_on(disk);
            }
        });
        printed.look(self.position());
        assert_eq!(ended.end, End::Exited(0), "{command:?}: {}", ended.stderr);
        (printed.lines.into_inner(), self.position())
    }

    fn sync_file_on(&self, disk: usize) {
        let file = self.mounts.0[disk].join(NEIGHBOUR);
        let script = "echo x >> \"$1\" && sync \"$1\"";
        run("sh", &["-c", script, "sh", &file.display().to_string()]);
    }

    /// Unmounts the disks; what was logged until now can be cut.
    pub(crate) fn end(self) -> Recording {
        let mut disks = self.disks.lock();
        let (base, log) = (
            std::mem::take(&mut disks.base),
            std::mem::take(&mut disks.log),
        );
        drop(disks);
        Recording {
            base,
            log,
            places: self.mounts.0.clone(),
        }
    }
}

impl Drop for RecordedDisks {
    fn drop(&mut self) {
        self.mounts.unmount();
        let _ = unmount(self.server.path(), UnmountFlags::DETACH);
    }
}

/// What a command has printed so far.
struct Printed {
    file: fs::File,
    read: Cell<u64>,
    lines: RefCell<Vec<(usize, String)>>,
}

impl Printed {
    fn new(file: fs::File) -> Printed {
        Printed {
            file,
            read: Cell::new(0),
            lines: RefCell::default(),
        }
    }

    /// Whole lines that are new were printed before this position.
    fn look(&self, position: usize) {
        let size = self.file.metadata().expect("it is ours").len();
        let new = usize::try_from(size - self.read.get()).expect("a few lines");
        let mut bytes = vec![0; new];
        let read = self.file.read_exact_at(&mut bytes, self.read.get());
        read.expect("what was printed");
        let text = String::from_utf8(bytes).expect("text");
        for line in text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
        {
            self.read.set(self.read.get() + line.len() as u64);
            let line = (position, line.trim_end().to_owned());
            self.lines.borrow_mut().push(line);
        }
    }
}

/// All that disks were asked to do.
pub(crate) struct Recording {
    /// What each held at first.
    base: Vec<Vec<u8>>,
    log: Vec<Logged>,
    /// Where each was mounted.
    places: Vec<PathBuf>,
}

impl Recording {
    /// How many writes and flushes it has.
    pub(crate) fn len(&self) -> usize {
        self.log.len()
    }

    /// Mounts what the disks may hold after a power cut at this point of the log.
    pub(crate) fn restart_after(&self, cut: usize, chance: &mut Chance) -> Restarted {
        let mut restarted = Restarted(Mounts::default());
        for (number, place) in self.places.iter().enumerate() {
            let mut file = tempfile::Builder::new()
                .prefix(&loop_device::prefix())
                .tempfile_in(loop_device::directory())
                .expect("a file");
            let contents = self.contents_after(number, cut, chance);
            file.write_all(&contents).expect("room for a disk");
            // The loop device keeps the file, which loses its name here.
            restarted.0.mount(&Attached::new(file.path(), &[]), place);
        }
        restarted
    }

    /// What a disk may hold after a power cut at this point of the log.
    fn contents_after(&self, number: usize, cut: usize, chance: &mut Chance) -> Vec<u8> {
        let log = &self.log[..cut];
        let is_flush = |logged: &Logged| logged.disk == number && logged.data.is_none();
        let durable = log.iter().rposition(is_flush).unwrap_or(0);
        let mut contents = self.base[number].clone();
        let share = 25 * chance.below(5);
        for (position, logged) in log.iter().enumerate() {
            let Some(data) = logged.data.as_ref().filter(|_| logged.disk == number) else {
                continue;
            };
            let is_torn = logged.at >= FIRST_BLOCK && chance.below(3) == 0;
            let piece = if is_torn { SECTOR } else { data.len() };
            for (n, piece) in data.chunks(piece.max(1)).enumerate() {
                if position < durable || chance.below(100) < share {
                    let at = logged.at + n * SECTOR;
                    contents[at..at + piece.len()].copy_from_slice(piece);
                }
            }
        }
        contents
    }
}

/// What a power cut left of the disks, mounted where they were; unmounted when dropped.
pub(crate) struct Restarted(Mounts);

impl Drop for Restarted {
    fn drop(&mut self) {
        self.0.unmount();
    }
}

/// The names that the kernel gives to boots, in the mount namespace of the tests: another one after each cut.
pub(crate) struct Boots {
    name: tempfile::NamedTempFile,
    count: u32,
}

impl Boots {
    const FILE: &str = "/proc/sys/kernel/random/boot_id";

    /// Takes the place of the kernel's.
    pub(crate) fn new() -> Boots {
        let mut boots = Boots {
            name: tempfile::NamedTempFile::new().expect("a file"),
            count: 0,
        };
        boots.next();
        mount_bind(boots.name.path(), Boots::FILE).expect("a world of its own");
        boots
    }

    /// The machine boots: nothing is left below `/run`, and the kernel has another name for this.
    pub(crate) fn next(&mut self) {
        self.count += 1;
        let name = format!("00000000-0000-4000-8000-{:012}\n", self.count);
        fs::write(self.name.path(), name).expect("room for a line");
        for entry in fs::read_dir("/run/iosched").expect("a world").flatten() {
            let path = entry.path();
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
    }
}

impl Drop for Boots {
    fn drop(&mut self) {
        let _ = unmount(Boots::FILE, UnmountFlags::DETACH);
    }
}

/// File systems that are unmounted by a command, in the order opposite to that in which they were mounted.
#[derive(Default)]
struct Mounts(Vec<PathBuf>);

impl Mounts {
    /// From now on the device lasts as long as it is mounted.
    fn mount(&mut self, disk: &Attached, place: &Path) {
        run(
            "mount",
            &["-t", "ext4", &disk.node(), &place.display().to_string()],
        );
        self.0.push(place.to_owned());
    }

    fn unmount(&self) {
        for place in self.0.iter().rev() {
            let is_done = |options: &[&str]| {
                let mut command = Command::new("umount");
                let output = command.args(options).arg(place).output();
                output.is_ok_and(|output| output.status.success())
            };
            let _ = is_done(&[]) || is_done(&["--lazy"]);
        }
    }
}

/// A loop device; when this is dropped it lasts as long as it is mounted.
struct Attached(String);

impl Attached {
    fn new(file: &Path, options: &[&str]) -> Attached {
        Attached(loop_device::attach(file, options))
    }

    fn node(&self) -> String {
        format!("/dev/{}", self.0)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .args(["--detach", &self.node()])
            .output();
    }
}

/// A write to a disk, or a flush of it.
struct Logged {
    disk: usize,
    at: usize,
    /// `None` is a flush.
    data: Option<Vec<u8>>,
}

/// What the disks hold, and how they came to it.
struct Disks {
    contents: Vec<Vec<u8>>,
    /// What they held when the log began.
    base: Vec<Vec<u8>>,
    log: Vec<Logged>,
}

impl Disks {
    fn begin(&mut self) {
        self.base.clone_from(&self.contents);
        self.log.clear();
    }
}

/// Disks that the test and the FUSE server have in common; which one is the file's inode, from [`FIRST`].
#[derive(Clone)]
struct Shared(Arc<Mutex<Disks>>);

const ROOT: INodeNo = INodeNo(1);
const FIRST: u64 = 2;

/// Attributes never change.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Mounts a FUSE file system with a file for each disk, and serves it in a thread until it is unmounted. One thread:
/// a request is in the log and answered before the next one is taken.
fn serve(disks: Shared, at: &Path) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let at = at.to_owned();
    std::thread::spawn(move || {
        have_own_descriptors();
        let session = mount_server(disks, &at);
        leave_world(&at);
        ready.send(()).expect("somebody waits");
        let _ = session.run();
    });
    is_ready.recv().expect("a FUSE server");
}

/// A killed process unmounts what only its mount namespace has, and waits for that. The server must have ended by
/// then: its descriptor is in no other thread's table, and its thread in no namespace with the file systems above it.
fn have_own_descriptors() {
    let unshare = libc::CLOSE_RANGE_UNSHARE;
    // SAFETY: this thread owns no descriptor yet; those of the others stay open in their own table.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, unshare) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// See [`have_own_descriptors`]; nothing is mounted from the server yet.
fn leave_world(at: &Path) {
    // SAFETY: file descriptors stay as they are; only mounts and the working directory become our own.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.expect("root may");
    unmount(at, UnmountFlags::DETACH).expect("our own copy");
}

fn mount_server(disks: Shared, at: &Path) -> Session<Shared> {
    let device =
        rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).expect("FUSE");
    let options = format!(
        "fd={},rootmode=40500,user_id=0,group_id=0",
        device.as_raw_fd()
    );
    let options = std::ffi::CString::new(options).expect("numbers have no NUL");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let kind = "fuse.iosched-test";
    mount("iosched-test", at, kind, flags, options.as_c_str()).expect("root may mount");
    let session = Session::from_fd(disks, device, SessionACL::Owner, Config::default());
    session.expect("a FUSE session")
}

impl Shared {
    fn new(count: usize) -> Shared {
        Shared(Arc::new(Mutex::new(Disks {
            contents: vec![vec![0; DISK_SIZE]; count],
            base: Vec::new(),
            log: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Disks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self, inode: INodeNo) -> Option<usize> {
        let number = usize::try_from(inode.0.checked_sub(FIRST)?).ok()?;
        (number < self.lock().contents.len()).then_some(number)
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let is_disk = self.number(inode).is_some();
        if inode != ROOT && !is_disk {
            return None;
        }
        Some(FileAttr {
            ino: inode,
            size: if is_disk { DISK_SIZE as u64 } else { 0 },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_disk {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn log(&self, disk: usize, at: usize, data: Option<Vec<u8>>) {
        self.lock().log.push(Logged { disk, at, data });
    }
}

impl Filesystem for Shared {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // As for an emulated disk: a loop device is to have more than one request on its way.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let most = u32::try_from(MIB).expect("a small number");
        let _ = config.set_max_write(most);
        Ok(())
    }

    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
        let inode = number.map(|number| INodeNo(FIRST.saturating_add(number)));
        match inode.and_then(|inode| self.attributes(inode)) {
            Some(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH;
        let parallel = FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), direct | parallel);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (Some(number), Ok(offset)) = (self.number(inode), usize::try_from(offset)) else {
            return reply.error(Errno::EINVAL);
        };
        let disks = self.lock();
        let from = offset.min(DISK_SIZE);
        let to = from.saturating_add(size as usize).min(DISK_SIZE);
        reply.data(&disks.contents[number][from..to]);
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
        let (Some(number), Ok(offset)) = (self.number(inode), usize::try_from(offset)) else {
            return reply.error(Errno::EINVAL);
        };
        let end = offset.saturating_add(data.len());
        if end > DISK_SIZE {
            return reply.error(Errno::ENOSPC);
        }
        self.lock().contents[number][offset..end].copy_from_slice(data);
        self.log(number, offset, Some(data.to_vec()));
        reply.written(u32::try_from(data.len()).expect("at most 1 MiB"));
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if let Some(number) = self.number(inode) {
            self.log(number, 0, None);
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = (DISK_SIZE / 4096) as u64;
        reply.statfs(blocks, 0, 0, 2, 0, 4096, 255, 4096);
    }
}
