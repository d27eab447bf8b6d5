//! The `queue` directory of a disk as another kernel would show it, with a scheduler that no kernel here has: a FUSE file
//! system over the directory of a real loop device, in the mounts of one test. Files answer as those of sysfs do.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, mount};

/// Below `queue/`: name, rights, value when the scheduler is set.
type File = (&'static str, u16, &'static str);

/// Files that are there whatever the scheduler.
const OF_QUEUE: [File; 5] = [
    ("scheduler", 0o644, ""),
    ("nr_requests", 0o644, "256"),
    ("async_depth", 0o644, "256"),
    ("read_ahead_kb", 0o644, "128"),
    ("rotational", 0o644, "0"),
];

/// What the unknown scheduler has: a tunable that the kernel limits, statistics, a switch that cannot be read, flags that
/// are shown by their bits, a choice of words, and what was learned, which can be written and changes by itself.
const OF_UNKNOWN: [File; 6] = [
    ("lat_target", 0o644, "2000000"),
    ("batches", 0o444, "0"),
    ("reset", 0o200, ""),
    ("flags", 0o644, "0x0"),
    ("order", 0o644, "[type] position"),
    ("lat_model", 0o644, ""),
];

const OF_DEADLINE: [File; 1] = [("fifo_batch", 0o644, "16")];

const SCHEDULERS: [&str; 3] = ["none", "mq-deadline", "adios"];

/// The most that `lat_target` can be.
const MOST: u64 = 1_000_000_000;

const ROOT: INodeNo = INodeNo(1);
const IOSCHED: INodeNo = INodeNo(2);
/// Inodes of files: those of the queue, and those of schedulers by their number.
const FIRST: u64 = 10;
const PER_DIRECTORY: u64 = 10;

struct Queue {
    scheduler: usize,
    values: BTreeMap<&'static str, String>,
    /// Times that the statistics were read.
    reads: u64,
}

impl Queue {
    fn switch(&mut self, scheduler: usize) {
        self.scheduler = scheduler;
        let reset = tunables(scheduler).iter().chain(&OF_QUEUE[1..3]);
        for &(name, _, value) in reset {
            self.values.insert(name, value.to_owned());
        }
    }

    fn read(&mut self, name: &str) -> String {
        self.reads += 1;
        match name {
            "scheduler" => {
                let shown = SCHEDULERS.iter().enumerate().map(|(number, name)| {
                    if number == self.scheduler {
                        format!("[{name}]")
                    } else {
                        (*name).to_owned()
                    }
                });
                shown.collect::<Vec<_>>().join(" ")
            }
            "batches" => format!("Total: {}\nRead: 1", self.reads),
            "lat_model" => format!("base : {} ns\nslope: 1 ns/KiB", self.reads),
            _ => self.values.get(name).cloned().unwrap_or_default(),
        }
    }

    /// False for what the kernel refuses as invalid.
    fn write(&mut self, name: &'static str, text: &str) -> bool {
        let text = text.trim();
        if name == "scheduler" {
            let number = SCHEDULERS.iter().position(|scheduler| *scheduler == text);
            if let Some(number) = number.filter(|&number| number != self.scheduler) {
                self.switch(number);
            }
            return number.is_some();
        }
        if name == "order" {
            let shown = match text {
                "type" => "[type] position",
                "position" => "type [position]",
                _ => return false,
            };
            self.values.insert(name, shown.to_owned());
            return true;
        }
        if name == "flags" {
            let bits = match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => text.parse(),
            };
            let shown = bits.as_ref().map(|bits| format!("{bits:#x}"));
            self.values.extend(shown.ok().map(|shown| (name, shown)));
            return bits.is_ok();
        }
        let Ok(value) = text.parse::<u64>() else {
            return false;
        };
        self.values.insert(name, value.min(MOST).to_string());
        true
    }
}

fn tunables(scheduler: usize) -> &'static [File] {
    match SCHEDULERS[scheduler] {
        "adios" => &OF_UNKNOWN,
        "mq-deadline" => &OF_DEADLINE,
        _ => &[],
    }
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Queue>>);

/// Shows such a queue as that of this device, until the mounts of this thread are gone.
pub(crate) fn show_as_queue_of(device: &str) {
    let mut queue = Queue {
        scheduler: 0,
        values: OF_QUEUE
            .iter()
            .map(|&(name, _, value)| (name, value.to_owned()))
            .collect(),
        reads: 0,
    };
    queue.switch(0);
    let at = Path::new("/sys/block").join(device).join("queue");
    let fuse = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let fuse = fuse.expect("FUSE");
    let options = format!(
        "fd={},rootmode=40500,user_id=0,group_id=0",
        fuse.as_raw_fd()
    );
    let options = std::ffi::CString::new(options).expect("numbers have no NUL");
    let kind = "fuse.iosched-test";
    mount(
        "iosched-test",
        &at,
        kind,
        MountFlags::empty(),
        options.as_c_str(),
    )
    .expect("root may");
    let shared = Shared(Arc::new(Mutex::new(queue)));
    let session = Session::from_fd(shared, fuse, SessionACL::Owner, Config::default());
    session
        .expect("a FUSE session")
        .spawn()
        .map(std::mem::forget)
        .expect("a thread");
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What stands in a directory, with inodes.
    fn entries(&self, directory: INodeNo) -> Vec<(INodeNo, File)> {
        let scheduler = self.lock().scheduler;
        let (files, first): (&[File], u64) = match directory {
            ROOT => (&OF_QUEUE, FIRST),
            IOSCHED => (
                tunables(scheduler),
                FIRST + PER_DIRECTORY * (1 + scheduler as u64),
            ),
            _ => (&[], 0),
        };
        let inodes = (first..).map(INodeNo);
        inodes.zip(files.iter().copied()).collect()
    }

    fn file(&self, inode: INodeNo) -> Option<File> {
        let all = [ROOT, IOSCHED]
            .into_iter()
            .flat_map(|directory| self.entries(directory));
        all.into_iter()
            .find(|(number, _)| *number == inode)
            .map(|(_, file)| file)
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm) = match inode {
            ROOT | IOSCHED => (FileType::Directory, 0o755),
            _ => (FileType::RegularFile, self.file(inode)?.1),
        };
        Some(FileAttr {
            ino: inode,
            size: 4096,
            blocks: 0,
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
}

/// Nothing is remembered by the kernel: it changes with the scheduler.
const AT_ONCE: Duration = Duration::ZERO;

impl Filesystem for Shared {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let entries = self.entries(parent);
        let found = entries
            .iter()
            .find(|(_, file)| name == file.0)
            .map(|(inode, _)| *inode);
        let found = found.or((parent == ROOT && name == "iosched").then_some(IOSCHED));
        match found.and_then(|inode| self.attributes(inode)) {
            Some(attributes) => reply.entry(&AT_ONCE, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&AT_ONCE, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// A truncation changes nothing, as in sysfs.
    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.getattr(request, inode, handle, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut names: Vec<(INodeNo, FileType, &str)> = Vec::new();
        if inode == ROOT {
            names.push((IOSCHED, FileType::Directory, "iosched"));
        }
        let files = self.entries(inode).into_iter();
        names.extend(files.map(|(inode, file)| (inode, FileType::RegularFile, file.0)));
        for (next, (inode, kind, name)) in (1..).zip(names).skip(usize::try_from(offset).unwrap()) {
            if reply.add(inode, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    /// What a file has no right for is refused to root, too.
    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let Some((_, rights, _)) = self.file(inode) else {
            return reply.error(Errno::ENOENT);
        };
        let asked = flags.0 & access_mode();
        let reads = asked != i32::try_from(OFlags::WRONLY.bits()).unwrap();
        let writes = asked != i32::try_from(OFlags::RDONLY.bits()).unwrap();
        if reads && rights & 0o400 == 0 || writes && rights & 0o200 == 0 {
            return reply.error(Errno::EINVAL);
        }
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        _: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.file(inode) {
            Some((name, ..)) if offset == 0 => {
                reply.data((self.lock().read(name) + "\n").as_bytes());
            }
            _ => reply.data(&[]),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let text = String::from_utf8_lossy(data);
        let is_taken = self
            .file(inode)
            .is_some_and(|(name, ..)| self.lock().write(name, &text));
        if is_taken {
            reply.written(u32::try_from(data.len()).expect("a short text"));
        } else {
            reply.error(Errno::EINVAL);
        }
    }
}

/// The bits of a file's flags that say whether it is read or written (`O_ACCMODE`).
fn access_mode() -> i32 {
    let both = OFlags::WRONLY | OFlags::RDWR;
    i32::try_from(both.bits()).unwrap()
}
