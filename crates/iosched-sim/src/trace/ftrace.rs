//! Text of block events: the kernel's trace files, `trace-cmd report` and `perf script`.
//!
//! `comm-pid [cpu] flags seconds: block_rq_issue: major,minor RWBS bytes (command) sector + nsectors [process]`; perf writes
//! `comm pid [cpu] seconds: block:block_rq_issue: …`. Other events and lines of other kinds (perf's call chains) are
//! skipped and counted.

use memchr::memmem;

use super::blkparse::{self, Happened};
use super::error::Cause;
use super::lines::LineFormat;
use super::record::{Sink, Skip, Stage};
use super::text::{Blanks, fixed};
use crate::units::Time;

/// Reads one line after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ftrace;

impl LineFormat for Ftrace {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
        let Some(event) = Event::of(line) else {
            let line = line.trim_ascii();
            sink.skip(match line.first() {
                None => Skip::Summary,
                Some(b'#') => Skip::Message,
                Some(_) if is_loss(line) => Skip::Lost,
                Some(_) => Skip::OtherEvent,
            });
            return Ok(());
        };
        let stage = match event.name {
            b"block_bio_queue" => Stage::Submitted,
            b"block_rq_issue" => Stage::Issued,
            b"block_rq_complete" => Stage::Completed,
            _ => {
                sink.skip(Skip::OtherEvent);
                return Ok(());
            }
        };
        let mut words = Blanks(event.fields);
        let [device, letters] = super::text::columns(&mut words, LAYOUT)?;
        // Requests have their bytes and their command before the position.
        if let Some(end) = memchr::memchr(b')', words.rest()).filter(|_| stage != Stage::Submitted)
        {
            words = Blanks(&words.rest()[end + 1..]);
        }
        let happened = Happened {
            time: event.time,
            stage,
            pid: event.pid,
            device,
            letters,
        };
        blkparse::access(&happened, words, sink)
    }
}

const LAYOUT: &str = "`major,minor RWBS [bytes (command)] sector + nsectors [process]`";

/// True if one of the lines is a block event.
pub(crate) fn has_event<'line>(mut lines: impl Iterator<Item = &'line [u8]>) -> bool {
    lines.any(|line| Event::of(line).is_some())
}

/// `CPU:1 [LOST 34 EVENTS]`, in the text of `trace-cmd` `CPU:1 [34 EVENTS DROPPED]`.
fn is_loss(line: &[u8]) -> bool {
    line.starts_with(b"CPU:") && memmem::find(line, b"EVENTS").is_some()
}

/// A line with a block event.
struct Event<'line> {
    pid: &'line [u8],
    time: Time,
    name: &'line [u8],
    fields: &'line [u8],
}

impl<'line> Event<'line> {
    fn of(line: &'line [u8]) -> Option<Event<'line>> {
        // A process may be called so, too.
        memmem::find_iter(line, b"block_").find_map(|at| {
            let before = line[..at].strip_suffix(b"block:").unwrap_or(&line[..at]);
            let before = before.trim_ascii_end().strip_suffix(b":")?;
            let begin = before.iter().rposition(u8::is_ascii_whitespace)? + 1;
            let (task, time) = before.split_at(begin);
            let length = memchr::memchr(b':', &line[at..])?;
            let (name, fields) = line[at..].split_at(length);
            // Clocks that count no seconds have no point.
            let time = fixed(time, 9).filter(|_| time.contains(&b'.'))?;
            Some(Event {
                pid: pid(task)?,
                time: Time::from_nanos(time),
                name,
                fields: &fields[1..],
            })
        })
    }
}

/// The thread of `comm-pid (tgid) [cpu] flags` or `comm pid/tid [cpu]`.
fn pid(task: &[u8]) -> Option<&[u8]> {
    let task = match memmem::rfind(task, b" [") {
        Some(cpu) => &task[..cpu],
        None => task,
    };
    let task = task.trim_ascii_end();
    let task = match task.strip_suffix(b")") {
        Some(group) => &group[..memchr::memrchr(b'(', group)?],
        None => task,
    };
    let task = task.trim_ascii_end();
    let digits = task.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let pid = &task[task.len() - digits.count()..];
    (!pid.is_empty()).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_whoever_printed_it() {
        let lines = [
            "             fio-1234    [001] d..1.    32.415492: block_rq_issue: 8,0 R",
            " block_x y-z-1234  (   1230) [001]  32.415492: block_rq_issue: 8,0 R",
            "             fio-1234  [001]    32.415492000: block_rq_issue:       8,0 R",
            "my [odd] fio  1234 [001]    32.415492:       block:block_rq_issue: 8,0 R",
            "fio  1230/1234    32.415492: block:block_rq_issue: 8,0 R",
        ];
        for line in lines {
            let event = Event::of(line.as_bytes()).unwrap();
            assert_eq!(event.pid, b"1234", "{line}");
            assert_eq!(event.time, Time::from_nanos(32_415_492_000), "{line}");
            assert_eq!(event.name, b"block_rq_issue", "{line}");
            assert_eq!(event.fields.trim_ascii(), b"8,0 R", "{line}");
        }
        for other in [
            "        ffffffff81a3 block_rq_issue+0x12 ([kernel.kallsyms])",
            "fio-1234 [001] 32415492: block_rq_issue: 8,0 R",
            "fio-1234 [001] d..1. 32.4: sched_switch: prev_comm=block_x prev_pid=3",
        ] {
            assert!(Event::of(other.as_bytes()).is_none(), "{other}");
        }
    }
}
