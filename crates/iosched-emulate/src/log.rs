//! The server's log, and the clock that stamps it and drives the model.
//!
//! The log is in `/run`, which is memory, and a disk below that fails makes every access fail: so what is said of single
//! accesses has a rate, and the log as a whole a size.

use std::fmt::Arguments;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iosched_sim::units::Nanos;
use rustix::fs::{FileType, SeekFrom, fstat, ftruncate, seek};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

/// Lines about single accesses that are written within [`WINDOW`].
const MOST_IN_WINDOW: u64 = 20;

/// Within this time.
const WINDOW: Nanos = Nanos::from_millis(60_000);

/// A log that is longer is cut down to its last lines.
const MOST_BYTES: u64 = 1 << 20;

/// So much of it is kept then.
const KEPT_BYTES: u64 = 64 << 10;

/// The machine's monotonic clock.
pub(super) fn monotonic() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    #[expect(clippy::cast_sign_loss, reason = "this clock starts at zero")]
    Nanos::new(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// A line in the server's log (its standard error).
pub(super) fn log(line: Arguments<'_>) {
    let line = line.to_string(); // it may panic, which is logged
    server_log().line(io::stderr().as_fd(), monotonic(), &line);
}

/// The same for what may be said of every access: of many in a short time, most are counted only.
pub(super) fn log_access(line: Arguments<'_>) {
    let line = line.to_string();
    server_log().line_of_access(io::stderr().as_fd(), monotonic(), &line);
}

fn server_log() -> MutexGuard<'static, Log> {
    static LOG: Mutex<Log> = Mutex::new(Log::new());
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of a log that is being written.
struct Log {
    /// The first line about an access that counts for the rate.
    window_began: Nanos,
    /// Lines about accesses since.
    in_window: u64,
    /// Those of them that were not written.
    left_out: u64,
    /// Bytes of the file that are ours.
    written: u64,
}

impl Log {
    const fn new() -> Log {
        Log {
            window_began: Nanos::ZERO,
            in_window: 0,
            left_out: 0,
            written: 0,
        }
    }

    fn line_of_access(&mut self, file: BorrowedFd<'_>, now: Nanos, line: &str) {
        if now.saturating_sub(self.window_began) >= WINDOW {
            self.window_began = now;
            self.in_window = 0;
        }
        self.in_window += 1;
        if self.in_window <= MOST_IN_WINDOW {
            self.line(file, now, line);
        } else {
            self.left_out += 1;
        }
    }

    fn line(&mut self, file: BorrowedFd<'_>, now: Nanos, line: &str) {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let before = format!("{left_out} more lines about accesses are left out");
            self.write(file, &stamped(now, &before));
        }
        self.write(file, &stamped(now, line));
        if self.written > MOST_BYTES {
            // That it stays long does no harm now; the next line tries again.
            let _ = self.cut_down(file, now);
        }
    }

    /// A log that cannot be written keeps nobody from being served.
    fn write(&mut self, file: BorrowedFd<'_>, mut text: &[u8]) {
        while !text.is_empty() {
            match rustix::io::write(file, text) {
                Ok(length) => {
                    self.written += length as u64;
                    text = &text[length..];
                }
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Keeps the last lines, if the file holds nothing but what we wrote.
    fn cut_down(&mut self, file: BorrowedFd<'_>, now: Nanos) -> Result<(), Errno> {
        let status = fstat(file)?;
        let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
        if !is_file || u64::try_from(status.st_size) != Ok(self.written) {
            return Ok(());
        }
        let mut kept = vec![0; usize::try_from(KEPT_BYTES).expect("it is small")];
        let length = rustix::io::pread(file, &mut kept, self.written - KEPT_BYTES)?;
        kept.truncate(length);
        let whole_lines = kept.iter().position(|&byte| byte == b'\n');
        let kept = kept.split_off(whole_lines.map_or(0, |end| end + 1));
        ftruncate(file, 0)?;
        seek(file, SeekFrom::Start(0))?;
        self.written = 0;
        self.write(
            file,
            &stamped(now, "the log was long: what came before is cut off"),
        );
        self.write(file, &kept);
        Ok(())
    }
}

fn stamped(now: Nanos, line: &str) -> Vec<u8> {
    format!("[{:12.3}] {line}\n", now.as_secs_f64()).into_bytes()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn at(seconds: u64) -> Nanos {
        Nanos::from_millis(1000 * seconds)
    }

    fn read(file: &tempfile::NamedTempFile) -> String {
        fs::read_to_string(file.path()).unwrap()
    }

    #[test]
    fn of_a_million_accesses_that_fail_a_few_are_named_and_the_others_counted_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = Log::new();
        log.line(file.as_fd(), at(1), "ready");
        for number in 0..1_000_000 {
            log.line_of_access(file.as_fd(), at(100), &format!("cannot write {number}"));
        }
        let text = read(&file);
        assert_eq!(text.lines().count(), 21, "{text}");
        assert!(text.contains("ready") && text.contains("cannot write 19\n"));
        log.line(file.as_fd(), at(101), "ending");
        log.line_of_access(file.as_fd(), at(161), "cannot read");
        let text = read(&file);
        let last: Vec<&str> = text.lines().skip(21).collect();
        assert_eq!(
            last,
            [
                "[     101.000] 999980 more lines about accesses are left out",
                "[     101.000] ending",
                "[     161.000] cannot read"
            ]
        );
    }

    #[test]
    fn a_log_has_a_size_and_keeps_its_last_lines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = Log::new();
        let padding = "x".repeat(1000);
        for number in 0..5000 {
            log.line(file.as_fd(), at(number), &format!("{number} {padding}"));
            assert!(file.as_file().metadata().unwrap().len() <= MOST_BYTES + 1100);
        }
        let text = read(&file);
        assert!(text.lines().next().unwrap().ends_with("is cut off"));
        assert!(text.lines().last().unwrap().contains(" 4999 xxx"));
        assert!(!text.contains('\0'));
    }

    #[test]
    fn a_file_that_holds_what_others_wrote_is_never_cut() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "theirs").unwrap();
        let appended = fs::OpenOptions::new()
            .read(true)
            .append(true)
            .open(file.path())
            .unwrap();
        let mut log = Log::new();
        for number in 0..2000 {
            log.line(appended.as_fd(), at(number), &"x".repeat(1000));
        }
        assert!(read(&file).starts_with("theirs"));
    }
}
