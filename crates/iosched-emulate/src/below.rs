//! The device or file that a disk without a model stands over: commands go to it with direct I/O, by as many
//! threads as it is to have commands under way.
//!
//! - A flush is answered when `fdatasync` has returned. Once one has failed, all later ones fail: what the kernel
//!   could not write then it does not write again, and nothing may be told to be safe that is not.
//! - A discard punches a hole, where that is possible below: its range reads as zeros, which the loop driver asks
//!   for in the same way. Where it is not, none is offered.
//! - The device is open exclusively, the file locked (flock), as long as this lives.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use iosched_machine::beneath::{self, Directory};
use iosched_machine::device::{
    Device, FileIdentity, GivenUp, NotClaimed, Purpose, claim, may_read_file_alone,
};
use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_sim::disk::DiskOp;
use iosched_sim::units::Bytes;
use rustix::fs::{
    FallocateFlags, FlockOperation, OFlags, fallocate, fcntl_getfl, fcntl_setfl, fdatasync, flock,
};
use rustix::io::Errno;

use super::log::log_access;
use super::over::{Over, OverKind, exists, failed, has_changed, is_taken, may_not, open_file};

/// The largest logical block that a loop device may have.
const LARGEST_BLOCK: u64 = 4096;

/// Memory begins on such a boundary: direct I/O wants that of a logical block.
const ALIGNMENT: usize = 4096;

/// Pieces of memory that one system call takes (`UIO_MAXIOV`).
const MOST_PIECES: usize = 1024;

/// Memory that direct I/O can use.
#[derive(Debug)]
pub(super) struct Aligned {
    memory: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Aligned {
    pub(super) fn zeroed(length: usize) -> Aligned {
        let memory = vec![0_u8; length + ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT);
        Aligned {
            memory,
            begin,
            length,
        }
    }

    pub(super) fn of(data: &[u8]) -> Aligned {
        let mut aligned = Aligned::zeroed(data.len());
        aligned.bytes_mut().copy_from_slice(data);
        aligned
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..][..self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..][..self.length]
    }
}

/// The data of one access, which a thread reads or writes while the access waits.
pub(super) type Data = Arc<Mutex<Aligned>>;

/// A command for the thing below.
#[derive(Debug)]
pub(super) struct Order {
    /// The block layer's name for it.
    pub(super) tag: u64,
    pub(super) op: DiskOp,
    /// The first byte.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) length: u64,
    /// What is read or written, side by side.
    pub(super) data: Vec<Data>,
}

#[derive(Debug)]
pub(super) struct Below {
    file: File,
    name: String,
    size: Bytes,
    block: u64,
    can_discard: bool,
    read_only: bool,
    flush_failed: AtomicBool,
    orders: Mutex<VecDeque<Order>>,
    ordered: Condvar,
}

/// A file that was made, and goes again unless it is kept.
#[derive(Debug)]
pub(super) struct NewFile(Option<(Directory, OsString)>);

impl NewFile {
    pub(super) fn nothing() -> Self {
        NewFile(None)
    }

    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((directory, name)) = &self.0 {
            let _ = directory.remove_file(name);
        }
    }
}

impl Below {
    /// Opens what is there, for nobody else, and asks once more whether it may be served; or makes a file.
    pub(super) fn open(host: &Host, over: &Over) -> Result<(Below, NewFile), Problem> {
        let (file, made) = match &over.kind {
            OverKind::Device { name, given_up } => {
                let file = open_device(host, over, name, given_up.as_deref())?;
                (file, NewFile(None))
            }
            OverKind::File { identity } => (open_known_file(host, over, identity)?, NewFile(None)),
            OverKind::NewFile { size_bytes } => make_file(&over.path, *size_bytes)?,
        };
        let block = logical_block(&file, over)?;
        let size = match &over.kind {
            OverKind::Device { name, .. } => {
                Device::read(host, name).map(|device| device.size_bytes)
            }
            _ => file.metadata().map(|metadata| metadata.len()),
        };
        let size = size.map_err(failed("look at", &over.path))? / block * block;
        if size == 0 {
            let path = over.path.display();
            let message = format!("{path} has no room for a block of {block} bytes");
            return Err(Problem::new(exit::NO_SUCH_DEVICE, message));
        }
        let below = Below {
            can_discard: !over.read_only && can_discard(host, over, &file),
            file,
            name: over.path.display().to_string(),
            size: Bytes::new(size),
            block,
            read_only: over.read_only,
            flush_failed: AtomicBool::new(false),
            orders: Mutex::new(VecDeque::new()),
            ordered: Condvar::new(),
        };
        Ok((below, made))
    }

    /// Whole logical blocks.
    pub(super) fn size(&self) -> Bytes {
        self.size
    }

    /// Bytes of a logical block.
    pub(super) fn block(&self) -> u64 {
        self.block
    }

    pub(super) fn can_discard(&self) -> bool {
        self.can_discard
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The descriptor, so that others can find the file below `/proc/PID/fd`.
    pub(super) fn raw_fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// True for whole logical blocks, the only ones that direct I/O takes.
    pub(super) fn takes(&self, offset: u64, length: u64) -> bool {
        offset.is_multiple_of(self.block) && length.is_multiple_of(self.block)
    }

    /// One of the threads takes it up, in the order in which they come.
    pub(super) fn order(&self, order: Order) {
        self.orders().push_back(order);
        self.ordered.notify_one();
    }

    /// The next order, when there is one.
    pub(super) fn next_order(&self) -> Order {
        let mut orders = self.orders();
        loop {
            if let Some(order) = orders.pop_front() {
                return order;
            }
            let waited = self.ordered.wait(orders);
            orders = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Does it; says in the log what went wrong.
    pub(super) fn carry_out(&self, order: &Order) -> Result<(), Errno> {
        let done = match order.op {
            DiskOp::Read => self.read(order),
            DiskOp::Write => self.write(order),
            DiskOp::Flush => self.flush(),
            DiskOp::Discard => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&self.file, mode, order.offset, order.length)
            }
        };
        if let Err(error) = done {
            let what = match order.op {
                DiskOp::Read => "read",
                DiskOp::Write => "write",
                DiskOp::Flush => "flush",
                DiskOp::Discard => "discard",
            };
            log_access(format_args!(
                "cannot {what} {} bytes at {} of {}: {error}",
                order.length, order.offset, self.name
            ));
        }
        done
    }

    fn read(&self, order: &Order) -> Result<(), Errno> {
        let mut data: Vec<_> = order.data.iter().map(lock).collect();
        let mut slices: Vec<_> = data
            .iter_mut()
            .map(|data| IoSliceMut::new(data.bytes_mut()))
            .collect();
        let mut left = &mut slices[..];
        let mut at = order.offset;
        while !left.is_empty() {
            let now = left.len().min(MOST_PIECES);
            match rustix::io::preadv(&self.file, &mut left[..now], at) {
                Ok(0) => return Err(Errno::IO), // it was made shorter
                Ok(read) => {
                    at += read as u64;
                    IoSliceMut::advance_slices(&mut left, read);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&self, order: &Order) -> Result<(), Errno> {
        let data: Vec<_> = order.data.iter().map(lock).collect();
        let mut slices: Vec<_> = data.iter().map(|data| IoSlice::new(data.bytes())).collect();
        let mut left = &mut slices[..];
        let mut at = order.offset;
        while !left.is_empty() {
            let now = left.len().min(MOST_PIECES);
            match rustix::io::pwritev(&self.file, &left[..now], at) {
                Ok(0) => return Err(Errno::IO),
                Ok(written) => {
                    at += written as u64;
                    IoSlice::advance_slices(&mut left, written);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What was written is on the medium, if this returns well.
    pub(super) fn flush(&self) -> Result<(), Errno> {
        if self.read_only {
            return Ok(());
        }
        if self.flush_failed.load(Ordering::Relaxed) {
            return Err(Errno::IO);
        }
        let done = fdatasync(&self.file);
        if done.is_err() {
            self.flush_failed.store(true, Ordering::Relaxed);
        }
        done
    }

    fn orders(&self) -> MutexGuard<'_, VecDeque<Order>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody else has it: an access is in one command at a time.
pub(super) fn lock(data: &Data) -> MutexGuard<'_, Aligned> {
    data.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_device(
    host: &Host,
    over: &Over,
    name: &str,
    given_up: Option<&GivenUp>,
) -> Result<File, Problem> {
    let (access, purpose) = if over.read_only {
        (OFlags::RDONLY, Purpose::Read)
    } else {
        let what = "emulate create --over";
        (OFlags::RDWR, Purpose::Write { what, given_up })
    };
    let claimed = claim(host, name, &over.path, access | OFlags::DIRECT, purpose);
    claimed.map_err(|error| match error {
        NotClaimed::MayNotWrite(refusal) => may_not(&refusal),
        NotClaimed::Taken => is_taken(&over.path),
        NotClaimed::AnotherDevice => has_changed(&over.path),
        NotClaimed::Io(error) => failed("open", &over.path)(error),
    })
}

/// The file that was looked at, if nothing has happened to it since.
fn open_known_file(host: &Host, over: &Over, identity: &FileIdentity) -> Result<File, Problem> {
    let file = open_file(&over.path, over.read_only)?;
    take(&file, &over.path)?;
    let metadata = file.metadata().map_err(failed("look at", &over.path))?;
    if FileIdentity::of(&metadata) != *identity {
        return Err(has_changed(&over.path));
    }
    // What it holds was given up.
    may_read_file_alone(host, &over.path, &metadata).map_err(|error| may_not(&error))?;
    Ok(file)
}

fn make_file(path: &Path, size: u64) -> Result<(File, NewFile), Problem> {
    let (directory, name) = beneath::split(path).map_err(failed("open", path))?;
    let made = directory.create_file(name.as_ref());
    let file = made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => failed("make", path)(error),
    })?;
    let again = directory.hold_again().map_err(failed("open", path))?;
    let made = NewFile(Some((directory, name.into())));
    file.set_len(size).map_err(failed("make", path))?;
    // Flushes of the disk make its data durable, and not that there is such a file.
    file.sync_all().map_err(failed("make", path))?;
    again.sync().map_err(failed("make", path))?;
    take(&file, path)?;
    Ok((file, made))
}

/// Locks a file, and lets it be read and written directly.
fn take(file: &File, path: &Path) -> Result<(), Problem> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(is_taken(path)),
        Err(error) => return Err(failed("lock", path)(error.into())),
    }
    let direct = fcntl_getfl(file)
        .and_then(|flags| fcntl_setfl(file, (flags | OFlags::DIRECT) - OFlags::NONBLOCK));
    direct.map_err(|error| is_not_direct(path, &error.into()))
}

fn is_not_direct(path: &Path, error: &io::Error) -> Problem {
    let message = format!(
        "{} cannot be opened for direct I/O: {error}",
        path.display()
    );
    Problem::new(exit::NOT_SUPPORTED, message)
        .hint("put it on another file system, ext4 or xfs for example")
}

/// The smallest piece that can be read directly. A device says it; of a file it is tried.
fn logical_block(file: &File, over: &Over) -> Result<u64, Problem> {
    let block = if matches!(over.kind, OverKind::Device { .. }) {
        let block = rustix::fs::ioctl_blksszget(file).map_err(io::Error::from);
        u64::from(block.map_err(failed("look at", &over.path))?)
    } else {
        smallest_read(file).map_err(|error| is_not_direct(&over.path, &error))?
    };
    if block > LARGEST_BLOCK {
        let message = format!(
            "{} has logical blocks of {block} bytes, and a loop device has {LARGEST_BLOCK} at most",
            over.path.display()
        );
        return Err(Problem::new(exit::NOT_SUPPORTED, message));
    }
    Ok(block)
}

/// 512, 1024 … bytes: what can be read directly, at a place that is a multiple of it and of nothing larger.
fn smallest_read(file: &File) -> io::Result<u64> {
    let mut block = 512;
    loop {
        let length = usize::try_from(block).expect("a block is small");
        let mut memory = Aligned::zeroed(length);
        let slice = &mut [IoSliceMut::new(memory.bytes_mut())];
        match rustix::io::preadv(file, slice, block) {
            Ok(_) => return Ok(block),
            Err(Errno::INTR) => {}
            Err(Errno::INVAL) if block <= LARGEST_BLOCK => block *= 2,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a range can be made zeros without their being written. Beyond its end that changes nothing of a file.
fn can_discard(host: &Host, over: &Over, file: &File) -> bool {
    match &over.kind {
        OverKind::Device { name, .. } => {
            let disk = Device::read(host, name).ok().and_then(|device| device.disk);
            let disk = disk.as_deref().unwrap_or(name);
            let most = host
                .sysfs()
                .read_if_present(disk, "queue/write_zeroes_max_bytes");
            most.and_then(|text| text.parse().ok())
                .is_some_and(|most: u64| most > 0)
        }
        OverKind::File { .. } | OverKind::NewFile { .. } => {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let end = file.metadata().map_or(0, |metadata| metadata.len());
            fallocate(
                file,
                mode,
                end.next_multiple_of(LARGEST_BLOCK),
                LARGEST_BLOCK,
            )
            .is_ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(path: &Path, size: u64) -> Over {
        Over {
            path: path.to_owned(),
            kind: OverKind::NewFile { size_bytes: size },
            depth: 1,
            read_only: false,
            rotational: None,
        }
    }

    fn order(op: DiskOp, offset: u64, data: &[&Data]) -> Order {
        let length = data
            .iter()
            .map(|data| lock(data).bytes().len() as u64)
            .sum();
        Order {
            tag: 0,
            op,
            offset,
            length,
            data: data.iter().map(|&data| data.clone()).collect(),
        }
    }

    /// Another one for each of 251.
    fn byte(number: usize) -> u8 {
        u8::try_from(number % 251).unwrap()
    }

    fn data(bytes: &[u8]) -> Data {
        Arc::new(Mutex::new(Aligned::of(bytes)))
    }

    #[test]
    fn memory_begins_where_direct_io_wants_it_and_holds_what_it_was_given() {
        for length in [512, 4096, 65_536] {
            let bytes: Vec<u8> = (0..length).map(byte).collect();
            let aligned = Aligned::of(&bytes);
            assert_eq!(aligned.bytes().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(aligned.bytes(), bytes);
        }
    }

    fn place() -> tempfile::TempDir {
        use iosched_testing::loop_device::{direct_io_directory, prefix};
        let mut place = tempfile::Builder::new();
        let place = place.prefix(&prefix()).tempdir_in(direct_io_directory());
        place.unwrap()
    }

    #[test]
    fn a_command_for_several_accesses_reads_and_writes_them_side_by_side() {
        let dir = place();
        let over = over(&dir.path().canonicalize().unwrap().join("disk"), 1 << 20);
        let (below, made) = Below::open(&Host::live(), &over).unwrap();
        made.keep();
        let (first, second) = (data(&[1; 4096]), data(&[2; 8192]));
        let write = order(DiskOp::Write, 8192, &[&first, &second]);
        below.carry_out(&write).unwrap();
        below.carry_out(&order(DiskOp::Flush, 0, &[])).unwrap();
        let (head, tail) = (data(&[9; 8192]), data(&[9; 4096]));
        let read = order(DiskOp::Read, 8192, &[&head, &tail]);
        below.carry_out(&read).unwrap();
        assert_eq!(lock(&head).bytes(), [vec![1; 4096], vec![2; 4096]].concat());
        assert_eq!(lock(&tail).bytes(), [2; 4096]);
        let beyond = order(DiskOp::Read, 1 << 20, &[&tail]);
        assert_eq!(below.carry_out(&beyond), Err(Errno::IO));
        let written = std::fs::read(&over.path).unwrap();
        assert_eq!(written[8192..12_288], [1; 4096]);
    }

    #[test]
    fn more_pieces_than_a_system_call_takes_are_written_and_read() {
        let dir = place();
        let over = over(&dir.path().canonicalize().unwrap().join("disk"), 8 << 20);
        let (below, _made) = Below::open(&Host::live(), &over).unwrap();
        let block = usize::try_from(below.block()).unwrap();
        let pieces: Vec<Data> = (0..MOST_PIECES + 3)
            .map(|piece| data(&vec![byte(piece); block]))
            .collect();
        let pieces: Vec<&Data> = pieces.iter().collect();
        below.carry_out(&order(DiskOp::Write, 0, &pieces)).unwrap();
        let whole = data(&vec![0; block * pieces.len()]);
        below.carry_out(&order(DiskOp::Read, 0, &[&whole])).unwrap();
        for (piece, read) in lock(&whole).bytes().chunks(block).enumerate() {
            assert!(read.iter().all(|&at| at == byte(piece)), "{piece}");
        }
    }

    #[test]
    fn a_file_that_was_made_goes_with_a_disk_that_does_not_come() {
        let dir = place();
        let over = over(&dir.path().canonicalize().unwrap().join("disk"), 1 << 20);
        let (below, made) = Below::open(&Host::live(), &over).unwrap();
        drop((below, made));
        assert!(!over.path.exists());
    }

    #[test]
    fn after_a_flush_that_failed_every_later_one_fails() {
        let dir = place();
        let over = over(&dir.path().canonicalize().unwrap().join("disk"), 1 << 20);
        let (below, _made) = Below::open(&Host::live(), &over).unwrap();
        below.flush().unwrap();
        below.flush_failed.store(true, Ordering::Relaxed);
        assert_eq!(below.flush(), Err(Errno::IO));
    }
}
