//! The FUSE file system with the emulated disk's file, and the clock that drives its model.
//!
//! Requests arrive on FUSE's threads, which hand them to the model under a lock; a thread of its own
//! sleeps on a timer that is always set to the model's next event, and sends the answers that are
//! due. So nobody is woken only to pass a request on, and a model without delays is answered at once
//! in the thread that the request arrived on.
//!
//! Data are written when a write arrives and read just before a read is answered: how long that
//! takes is hidden in the time that the disk takes anyway.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, SessionACL,
    WriteFlags,
};
use iosched_sim::disk::{DiskModel, DiskOp};
use iosched_sim::units::{Bytes, Nanos, SECTOR_BYTES, Sector, Sectors, Time};
use rustix::mount::{MountFlags, mount};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::backing::Backing;
use super::engine::{Engine, Finished, Job};
use super::ledger::{self, Ledger, Served};
use super::log::{log, monotonic};

/// Name of the disk's data file in the mount.
pub(super) const DISK_FILE: &str = "disk";
/// Name of the file with the last requests served.
pub(super) const SERVED_FILE: &str = "served.csv";

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

/// A sleep of at least this length ends early, see [`EarlyRising`]; shorter ones do not, so that the
/// clock takes a few percent of a processor at most, and never holds one for a fast disk.
const LONG_SLEEP: Nanos = Nanos::from_millis(2);

/// Attributes never change behind the kernel's back.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// An emulated disk on the machine's clock.
pub(super) struct Disk {
    core: Mutex<Core>,
    timer: OwnedFd,
    /// The next event on the machine's clock in nanoseconds, for a clock that is awake.
    next_event: AtomicU64,
    /// What the timer is set to before a long sleep, on the machine's clock in nanoseconds; else 0.
    alarm: AtomicU64,
    backing: Backing,
    size: Bytes,
}

/// What the lock protects: the model and everything that depends on its time.
struct Core {
    engine: Engine<Answer>,
    /// The machine's monotonic clock when the model's clock was zero.
    epoch: Nanos,
    /// How long a request is under way to us and back: it arrived earlier by this much.
    path: Nanos,
    /// The event that the timer is set for.
    armed: Option<Time>,
    rising: EarlyRising,
    ledger: Ledger,
}

/// What is left to do for a command once the disk is done with it.
#[derive(Debug)]
enum Answer {
    Data(ReplyData, u64, usize),
    Written(ReplyWrite, u32),
    Done(ReplyEmpty),
}

impl Disk {
    pub(super) fn new(model: Box<dyn DiskModel>, backing: Backing) -> io::Result<Disk> {
        let size = model.capacity().to_bytes();
        Ok(Disk {
            core: Mutex::new(Core {
                engine: Engine::new(model),
                epoch: monotonic(),
                path: Nanos::ZERO,
                armed: None,
                rising: EarlyRising::default(),
                ledger: Ledger::default(),
            }),
            timer: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?,
            next_event: AtomicU64::new(0),
            alarm: AtomicU64::new(0),
            backing,
            size,
        })
    }

    pub(super) fn size(&self) -> Bytes {
        self.size
    }

    /// Puts a fresh model in the place of one that has nothing in flight; its clock starts now.
    pub(super) fn replace_model(&self, model: Box<dyn DiskModel>, path: Nanos) {
        let mut core = self.lock();
        assert_eq!(
            core.engine.in_flight(),
            0,
            "requests in a model that is to go"
        );
        core.engine = Engine::new(model);
        core.epoch = monotonic();
        core.path = path;
        core.armed = None;
        core.ledger.clear();
    }

    /// The last requests served.
    pub(super) fn served(&self) -> Vec<Served> {
        self.lock().ledger.entries()
    }

    /// Sleeps until the model's next event, answers what is due, and so on; never returns.
    pub(super) fn keep_time(&self) -> io::Result<()> {
        let mut timer = File::from(self.timer.try_clone()?);
        let mut buffer = Vec::new();
        let mut expirations = [0; 8];
        loop {
            match timer.read_exact(&mut expirations) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let woke = monotonic();
            let alarm = self.alarm.swap(0, Ordering::Relaxed);
            if !self.pass_time_awake() {
                continue; // the event is gone, the timer is set to the next
            }
            let mut finished = Vec::new();
            let mut core = self.lock();
            if alarm > 0 {
                core.rising.learn(woke.saturating_sub(Nanos::new(alarm)));
            }
            core.armed = None;
            self.step(&mut core, &mut finished);
            drop(core);
            self.answer(finished, &mut buffer);
        }
    }

    /// Waits awake for an event that is near; false if the next one is far.
    fn pass_time_awake(&self) -> bool {
        loop {
            let next = self.next_event.load(Ordering::Relaxed);
            let left = next.saturating_sub(monotonic().as_nanos());
            if left == 0 {
                return true;
            }
            if left > EarlyRising::MOST.as_nanos() {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// A command that was received at `received` on the machine's clock.
    fn arrive(&self, received: Nanos, job: Job, answer: Answer) {
        let mut finished = Vec::new();
        let mut core = self.lock();
        let since_epoch = received
            .saturating_sub(core.epoch)
            .saturating_sub(core.path);
        let at = Time::ZERO + since_epoch;
        core.engine.submit(at, job, answer, &mut finished);
        self.step(&mut core, &mut finished);
        drop(core);
        self.answer(finished, &mut Vec::new());
    }

    /// Lets the model do what is due, and sets the timer to what comes next.
    fn step(&self, core: &mut Core, finished: &mut Vec<Finished<Answer>>) {
        let now = Time::ZERO + monotonic().saturating_sub(core.epoch);
        core.engine.advance(now, finished);
        for done in finished.iter() {
            core.ledger.record(Served {
                op: done.job.op,
                start: done.job.start,
                length: done.job.length,
                arrived: done.arrived,
                started: done.started,
                completed: done.completed,
                answered: now,
            });
        }
        let next = core.engine.next_event();
        if next.is_some() && next != core.armed {
            core.armed = next;
            let event = core.epoch + (next.unwrap_or(Time::MAX) - Time::ZERO);
            self.next_event.store(event.as_nanos(), Ordering::Relaxed);
            let sleep = event.saturating_sub(core.epoch + (now - Time::ZERO));
            let is_long = sleep >= LONG_SLEEP;
            let early = if is_long {
                core.rising.early
            } else {
                Nanos::ZERO
            };
            let alarm = event.saturating_sub(early);
            let lesson = if is_long { alarm.as_nanos() } else { 0 };
            self.alarm.store(lesson, Ordering::Relaxed);
            let setting = Itimerspec {
                it_interval: timespec(Nanos::ZERO),
                it_value: timespec(alarm),
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)
                .expect("our own timer takes any time");
        }
    }

    fn answer(&self, finished: Vec<Finished<Answer>>, buffer: &mut Vec<u8>) {
        for done in finished {
            match done.token {
                Answer::Data(reply, offset, length) => {
                    buffer.resize(length.max(buffer.len()), 0);
                    match self.backing.read(offset, &mut buffer[..length]) {
                        Ok(()) => reply.data(&buffer[..length]),
                        Err(error) => {
                            log(format_args!(
                                "cannot read {length} bytes at {offset}: {error}"
                            ));
                            reply.error(error.into());
                        }
                    }
                }
                Answer::Written(reply, length) => reply.written(length),
                Answer::Done(reply) => reply.ok(),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic ends the server (see `server`), so a poisoned lock is never seen.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sectors that a range of bytes touches.
    fn job(&self, op: DiskOp, offset: u64, length: u64) -> Job {
        let end = (offset + length).min(self.size.as_u64());
        let first = offset / SECTOR_BYTES;
        Job {
            op,
            start: Sector::new(first),
            length: Sectors::new(end.div_ceil(SECTOR_BYTES) - first),
        }
    }

    fn is_inside(&self, offset: u64, length: u64) -> bool {
        offset
            .checked_add(length)
            .is_some_and(|end| end <= self.size.as_u64())
    }
}

/// How much earlier than needed the clock is to wake up from a long sleep.
///
/// A processor that sleeps for long wakes up late: by microseconds on real hardware, by hundreds of
/// them on a virtual machine. So the clock rises early and passes what is left awake. How early is
/// learned from how late it was: a step up when that was not enough, a small step down when it was,
/// which settles where one sleep in fifty ends too late.
struct EarlyRising {
    early: Nanos,
}

impl EarlyRising {
    const LEAST: Nanos = Nanos::from_micros(10);
    const MOST: Nanos = Nanos::from_micros(500);
    const STEP_DOWN: Nanos = Nanos::new(500);
    const STEP_UP: Nanos = Nanos::new(49 * 500);

    fn learn(&mut self, late: Nanos) {
        let next = if late > self.early {
            self.early + EarlyRising::STEP_UP
        } else {
            self.early.saturating_sub(EarlyRising::STEP_DOWN)
        };
        self.early = next.clamp(EarlyRising::LEAST, EarlyRising::MOST);
    }
}

impl Default for EarlyRising {
    fn default() -> EarlyRising {
        EarlyRising {
            early: Nanos::from_micros(150),
        }
    }
}

#[expect(clippy::cast_possible_wrap, reason = "292 years fit")]
fn timespec(at: Nanos) -> Timespec {
    Timespec {
        tv_sec: (at.as_nanos() / 1_000_000_000) as i64,
        tv_nsec: (at.as_nanos() % 1_000_000_000) as i64,
    }
}

/// The file system around a [`Disk`].
struct DiskFilesystem {
    disk: Arc<Disk>,
    max_request: Arc<Mutex<Bytes>>,
    /// Texts of `served.csv` as they were when it was opened, by handle.
    snapshots: Mutex<BTreeMap<u64, String>>,
}

/// Mounts the file system on `at` and serves it on threads of its own; `ended` runs when the
/// session ends. Returns the largest request that FUSE will send.
pub(super) fn serve(
    disk: Arc<Disk>,
    id: &str,
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
        "fuse.iosched",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        options.as_c_str(),
    )?;
    let max_request = Arc::new(Mutex::new(MAX_REQUEST_OLD));
    let filesystem = DiskFilesystem {
        disk: disk.clone(),
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
            DISK => (FileType::RegularFile, 0o600, self.disk.size.as_u64()),
            SERVED => (FileType::RegularFile, 0o400, 0),
            _ => return None,
        };
        let stored = match inode {
            DISK => self.disk.backing.stored().unwrap_or(Bytes::ZERO),
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
            Some(DISK_FILE) if parent == ROOT => DISK,
            Some(SERVED_FILE) if parent == ROOT => SERVED,
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
            (DISK, FileType::RegularFile, DISK_FILE),
            (SERVED, FileType::RegularFile, SERVED_FILE),
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
            SERVED => {
                let text = ledger::to_csv(&self.disk.served());
                let mut snapshots = self.snapshots();
                let handle = snapshots.last_key_value().map_or(1, |(&last, _)| last + 1);
                snapshots.insert(handle, text);
                reply.opened(FileHandle(handle), direct);
            }
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
        if inode == SERVED {
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
        if offset >= self.disk.size.as_u64() {
            return reply.data(&[]);
        }
        let length = u64::from(size).min(self.disk.size.as_u64() - offset);
        let job = self.disk.job(DiskOp::Read, offset, length);
        let answer = Answer::Data(reply, offset, usize::try_from(length).unwrap_or(0));
        self.disk.arrive(received, job, answer);
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
        if inode != DISK {
            return reply.error(Errno::EBADF);
        }
        if !self.disk.is_inside(offset, length) {
            return reply.error(Errno::ENOSPC);
        }
        if let Err(error) = self.disk.backing.write(offset, data) {
            log(format_args!(
                "cannot store {length} bytes at {offset}: {error}"
            ));
            return reply.error(error.into());
        }
        let job = self.disk.job(DiskOp::Write, offset, length);
        let answer = Answer::Written(reply, u32::try_from(length).unwrap_or(0));
        self.disk.arrive(received, job, answer);
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let received = monotonic();
        if inode != DISK {
            return reply.ok();
        }
        let job = Job {
            op: DiskOp::Flush,
            start: Sector::ZERO,
            length: Sectors::ZERO,
        };
        self.disk.arrive(received, job, Answer::Done(reply));
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
        if let Err(error) = self.disk.backing.punch(offset, length) {
            log(format_args!(
                "cannot discard {length} bytes at {offset}: {error}"
            ));
            return reply.error(error.into());
        }
        let job = self.disk.job(DiskOp::Discard, offset, length);
        self.disk.arrive(received, job, Answer::Done(reply));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // The loop driver takes the block size as the granularity of discards.
        let blocks = self.disk.size.as_u64() / 4096;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_rises_as_early_as_its_sleeps_end_late_but_for_one_in_fifty() {
        let mut rising = EarlyRising::default();
        for sleep in 0..20_000_u64 {
            // 30 to 79 µs late in turn, one sleep in a hundred by 5 ms
            let late = if sleep % 100 == 99 {
                5_000
            } else {
                30 + sleep * 7 % 50
            };
            rising.learn(Nanos::from_micros(late));
        }
        let early = rising.early.as_micros_f64();
        assert!((60.0..=110.0).contains(&early), "{early} µs");
    }

    #[test]
    fn the_clock_rises_early_within_bounds() {
        let mut rising = EarlyRising::default();
        (0..10_000).for_each(|_| rising.learn(Nanos::from_millis(9)));
        assert_eq!(rising.early, EarlyRising::MOST);
        (0..10_000).for_each(|_| rising.learn(Nanos::ZERO));
        assert_eq!(rising.early, EarlyRising::LEAST);
    }
}
