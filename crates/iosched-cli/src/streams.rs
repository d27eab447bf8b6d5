//! Standard output and standard error, whose reader may have stopped reading: a pager that waits, a terminal after Ctrl-S,
//! a program that hangs. Once we are asked to end, what nobody reads is left out: it must not keep a run from putting back
//! what it changed.

use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How often a waiting write looks whether we are to end.
const STEP: Duration = Duration::from_millis(100);

/// How long a reader has once we are to end.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// What a pipe with room takes as a whole (`PIPE_BUF`): no write of more can be sure not to wait.
const PIECE: usize = 4096;

/// Set by signals and never taken back, unlike what [`iosched_machine::process::Stop`] says, which is forgotten once it is
/// heard.
static IS_TO_END: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Nobody reads standard output, or standard error, any more.
static UNREAD: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];

/// The flag for a signal handler to set.
pub(crate) fn is_to_end() -> Arc<AtomicBool> {
    Arc::clone(&IS_TO_END)
}

/// One of our two streams. What is written goes out at once.
pub(crate) struct Stream<'a> {
    descriptor: BorrowedFd<'a>,
    is_to_end: &'a AtomicBool,
    is_unread: &'a AtomicBool,
}

/// Standard output.
pub(crate) fn stdout() -> Stream<'static> {
    Stream {
        descriptor: rustix::stdio::stdout(),
        is_to_end: &IS_TO_END,
        is_unread: &UNREAD[0],
    }
}

/// Standard error.
pub(crate) fn stderr() -> Stream<'static> {
    Stream {
        descriptor: rustix::stdio::stderr(),
        is_to_end: &IS_TO_END,
        is_unread: &UNREAD[1],
    }
}

impl Stream<'_> {
    /// True if something can be written at this moment without waiting.
    pub(crate) fn has_room(&self) -> bool {
        self.has_room_within(Duration::ZERO)
    }

    /// Waits until something can be written; false if we are to end first.
    pub(crate) fn wait_for_room(&self) -> bool {
        let mut since = None;
        loop {
            let is_unread = self.is_unread.load(Ordering::Relaxed);
            if self.has_room_within(if is_unread { Duration::ZERO } else { STEP }) {
                return true;
            }
            if self.is_to_end.load(Ordering::Relaxed) {
                let since: &mut Instant = since.get_or_insert_with(Instant::now);
                if is_unread || since.elapsed() >= LAST_CHANCE {
                    self.is_unread.store(true, Ordering::Relaxed);
                    return false;
                }
            }
        }
    }

    fn has_room_within(&self, wait: Duration) -> bool {
        let wait = Timespec::try_from(wait).expect("a moment is a time");
        let mut waiting = [PollFd::new(&self.descriptor, PollFlags::OUT)];
        // What cannot be asked is written to: that says why.
        !matches!(poll(&mut waiting, Some(&wait)), Ok(0) | Err(Errno::INTR))
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        loop {
            if !self.wait_for_room() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads it"));
            }
            match rustix::io::write(self.descriptor, piece) {
                // Whoever shares it with us has made it so, and has taken the room.
                Err(Errno::AGAIN) => std::thread::sleep(STEP),
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_nobody_reads_is_waited_for_until_we_are_to_end_and_no_longer() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (is_to_end, is_unread) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut stream = Stream {
            descriptor: writer.as_fd(),
            is_to_end: &is_to_end,
            is_unread: &is_unread,
        };
        let mut filled = 0;
        while stream.has_room() {
            filled += stream.write(&[b'x'; 2 * PIECE]).unwrap();
        }
        // While we are not to end, it waits until there is room.
        std::thread::scope(|scope| {
            let read = scope.spawn(|| {
                let mut text = vec![0; filled];
                reader.read_exact(&mut text).unwrap();
            });
            stream.write_all(b"more").unwrap();
            read.join().unwrap();
        });
        while stream.has_room() {
            stream.write_all(&[b'x'; PIECE]).unwrap();
        }
        is_to_end.store(true, Ordering::Relaxed);
        for _ in 0..1000 {
            let error = stream.write(b"nobody").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        // Whoever reads again gets what comes from then on.
        let mut text = vec![0; PIECE];
        reader.read_exact(&mut text).unwrap();
        stream.write_all(b"somebody").unwrap();
        drop(reader);
        let error = stream.write_all(b"closed").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
