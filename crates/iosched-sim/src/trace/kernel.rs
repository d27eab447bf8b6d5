//! Recordings of a kernel's scheduler: one event per line, as blktrace names them.
//!
//! `time_us action rwbs sector nsectors pid comm owner`, separated by blanks; times in microseconds
//! with decimals, from the first bio, negative before it. Lines that begin with `#` describe the
//! workers (`# worker pid=… ioprio=class/level buf=0|1 …`), say when a process ended as the scheduler
//! sees it (`# exit pid=… time_us=…`), name the recorded queue (`# … blk-mq, scheduler=…`), tell what
//! kyber said (`# kyber time …`), or are for people. A ninth column is the request's priority
//! (`be/4`), a tenth the processor. Left out: the eighth column, and those after the tenth.
//!
//! Events as `blkparse` and the kernel's `blk` tracer print them are read, too (`kernel_blk`); nothing
//! there tells priorities, nor when a process ended.

use super::kernel_blk;
pub use super::kernel_remarks::{Queue, Remark};
pub use super::kernel_write::{write_event, write_head, write_line};
use crate::request::{IoPriority, Op, PriorityClass, ProcessId};
use crate::units::{Nanos, Sector, Sectors, Time};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Q: a bio was queued.
    Queued,
    /// G: a request was allocated.
    Allocated,
    /// P: a process holds its requests back.
    Plugged,
    /// U: and lets them go.
    Unplugged,
    /// UT: it let them go because it fell asleep; a worker runs the queue.
    UnpluggedLater,
    /// I: a request entered the scheduler.
    Inserted,
    /// M: a bio continued a request.
    BackMerged,
    /// F: a bio was put before a request.
    FrontMerged,
    /// RM: a request became part of the one before it.
    Joined,
    /// X: the scheduler gave out a request (multi-queue, in recordings of our own; for `blktrace` it is a split).
    Decided,
    /// D: the driver took a request.
    Issued,
    /// R: the disk did not take it after all; the driver has to try again.
    GivenBack,
    /// C: the disk was done.
    Completed,
    /// Anything else (A, X of others, …).
    Other,
}

/// One event of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When. Recordings begin some time after their clock, see [`Reader::new`].
    pub time: Time,
    /// What.
    pub action: Action,
    /// What the request does; `None` for commands that do not pass the scheduler.
    pub op: Option<Op>,
    /// Someone waits for it.
    pub sync: bool,
    /// Metadata.
    pub meta: bool,
    /// First sector.
    pub start: Sector,
    /// How many sectors.
    pub length: Sectors,
    /// The process in whose context it happened.
    pub process: ProcessId,
    /// Its name.
    pub comm: String,
    /// With which priority, if the line says so.
    pub priority: Option<IoPriority>,
    /// On which processor, if the line says so.
    pub cpu: Option<u16>,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// An event.
    Event(Event),
    /// Something said about the recording.
    Remark(Remark),
}

/// Why a line cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// Too few columns.
    #[error(
        "line {line}: {columns} columns where at least 6 are needed (time action rwbs sector nsectors pid)"
    )]
    TooShort {
        /// Number of the line, from 1.
        line: u64,
        /// How many there are.
        columns: usize,
    },
    /// A column is not what it should be.
    #[error("line {line}: {what} `{text}` is no {expected}")]
    BadColumn {
        /// Number of the line, from 1.
        line: u64,
        /// Which column.
        what: &'static str,
        /// What stands there.
        text: String,
        /// What should.
        expected: &'static str,
    },
    /// A recording of the multi-queue block layer.
    #[error(
        "line {line}: this is a recording of the multi-queue block layer, which has none, mq-deadline, kyber and bfq"
    )]
    MultiQueue {
        /// Number of the line, from 1.
        line: u64,
    },
    /// Time ran backwards.
    #[error("line {line}: its time is before that of the line before")]
    Backwards {
        /// Number of the line, from 1.
        line: u64,
    },
}

/// Reads lines one after the other.
#[derive(Debug, Clone)]
pub struct Reader {
    /// Where the recording's time zero lies on our clock.
    zero: Nanos,
    line: u64,
    last: Time,
    /// Totals have begun: no events any more.
    over: bool,
    /// Only lines of our own recordings are events.
    ours_only: bool,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new(Nanos::from_secs(1000))
    }
}

impl Reader {
    /// A reader that puts the recording's time zero at `zero` on our clock, so that what happened
    /// before it has a time too.
    pub fn new(zero: Nanos) -> Reader {
        Reader {
            zero,
            line: 0,
            last: Time::ZERO,
            over: false,
            ours_only: false,
        }
    }

    /// A reader that takes what others print for what it is: no recording of ours.
    pub(super) fn of_ours() -> Reader {
        Reader {
            ours_only: true,
            ..Reader::default()
        }
    }

    /// Puts the recording's time zero elsewhere on our clock, before any event is read.
    pub(crate) fn set_zero(&mut self, zero: Nanos) {
        self.zero = zero;
    }

    /// Lines read.
    pub fn lines(&self) -> u64 {
        self.line
    }

    /// Our time in the recording's microseconds.
    pub fn recorded_micros(&self, time: Time) -> f64 {
        (time.as_nanos() as f64 - self.zero.as_nanos() as f64) / 1e3
    }

    /// The event or remark of the next line; `None` for an empty one.
    pub fn read(&mut self, text: &str) -> Result<Option<Line>, TraceError> {
        self.line += 1;
        let text = text.trim_end();
        self.over |= !self.ours_only && kernel_blk::begins_totals(text);
        let of_blkparse = !self.ours_only && kernel_blk::names_input(text);
        if text.is_empty() || self.over || of_blkparse {
            return Ok(None);
        }
        if let Some(remark) = text.strip_prefix('#') {
            return self.remark(remark).map(|remark| Some(Line::Remark(remark)));
        }
        let Some(event) = self.event(text)? else {
            return Ok(None);
        };
        if event.time < self.last {
            return Err(TraceError::Backwards { line: self.line });
        }
        self.last = event.time;
        Ok(Some(Line::Event(event)))
    }

    pub(super) fn bad(&self, what: &'static str, text: &str, expected: &'static str) -> TraceError {
        let text = text.chars().take(40).collect();
        TraceError::BadColumn {
            line: self.line,
            what,
            text,
            expected,
        }
    }

    /// Microseconds with decimals, exactly.
    pub(super) fn time(&self, text: &str) -> Result<Time, TraceError> {
        let bad = || self.bad("time", text, "number of microseconds");
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let total = exact_micros(digits).ok_or_else(bad)?.as_nanos();
        let zero = self.zero.as_nanos();
        let time = if negative {
            zero.checked_sub(total)
        } else {
            zero.checked_add(total)
        };
        time.map(Time::from_nanos).ok_or_else(bad)
    }

    /// An event; nothing if it is a scheduler's message.
    fn event(&self, text: &str) -> Result<Option<Event>, TraceError> {
        let foreign = (!self.ours_only).then(|| kernel_blk::columns(text));
        if let Some(columns) = foreign.flatten() {
            if columns.action == kernel_blk::MESSAGE {
                return Ok(None);
            }
            let event = self.event_of([
                columns.action,
                columns.rwbs,
                columns.sector,
                columns.length,
                columns.pid,
            ])?;
            return Ok(Some(Event {
                time: self.seconds(columns.seconds)?,
                action: match columns.action {
                    kernel_blk::SPLIT => Action::Other,
                    _ => event.action,
                },
                comm: columns.comm.to_owned(),
                cpu: columns.cpu.parse().ok(),
                ..event
            }));
        }
        let mut columns = text.split_ascii_whitespace();
        let mut found = [""; 6];
        for (index, place) in found.iter_mut().enumerate() {
            *place = columns.next().ok_or(TraceError::TooShort {
                line: self.line,
                columns: index,
            })?;
        }
        let [time, event @ ..] = found;
        Ok(Some(Event {
            time: self.time(time)?,
            comm: columns.next().unwrap_or("-").to_owned(),
            priority: columns.nth(1).and_then(priority),
            cpu: columns.next().and_then(|cpu| cpu.parse().ok()),
            ..self.event_of(event)?
        }))
    }

    /// What is the same in all layouts.
    fn event_of(
        &self,
        [action, rwbs, sector, length, pid]: [&str; 5],
    ) -> Result<Event, TraceError> {
        let number = |what, text: &str| -> Result<u64, TraceError> {
            match text {
                "-" => Ok(0),
                text => text.parse().map_err(|_| self.bad(what, text, "number")),
            }
        };
        let op = match rwbs.trim_start_matches('F').bytes().next() {
            Some(b'R') => Some(Op::Read),
            Some(b'W') => Some(Op::Write),
            Some(b'D') => Some(Op::Discard),
            Some(b'N' | b'-') | None => None,
            Some(_) => return Err(self.bad("rwbs", rwbs, "kind of request")),
        };
        let start = number("sector", sector)?;
        let length = number("nsectors", length)?;
        if start
            .checked_add(length)
            .is_none_or(|end| end > u64::MAX / 1024)
        {
            return Err(self.bad("sector", sector, "position on a disk"));
        }
        let process = pid.parse().map_err(|_| self.bad("pid", pid, "process"))?;
        let after_op = rwbs.get(1..).unwrap_or("");
        Ok(Event {
            time: Time::ZERO,
            action: match action {
                "Q" => Action::Queued,
                "G" => Action::Allocated,
                "P" => Action::Plugged,
                "U" => Action::Unplugged,
                "UT" => Action::UnpluggedLater,
                "I" => Action::Inserted,
                "M" => Action::BackMerged,
                "F" => Action::FrontMerged,
                "D" => Action::Issued,
                "C" => Action::Completed,
                "RM" => Action::Joined,
                "X" => Action::Decided,
                "R" => Action::GivenBack,
                _ => Action::Other,
            },
            sync: op == Some(Op::Read) || after_op.contains(['S', 'F']),
            meta: after_op.contains('M'),
            op,
            start: Sector::new(start),
            length: Sectors::new(length),
            process: ProcessId(process),
            comm: String::new(),
            priority: None,
            cpu: None,
        })
    }

    /// Seconds with up to nine decimals, exactly.
    fn seconds(&self, text: &str) -> Result<Time, TraceError> {
        let bad = || self.bad("time", text, "number of seconds");
        let (seconds, decimals) = text.split_once('.').unwrap_or((text, ""));
        let digits = decimals.len();
        let all_digits = decimals.bytes().all(|byte| byte.is_ascii_digit());
        let seconds: u64 = seconds.parse().map_err(|_| bad())?;
        let nanos = format!("{decimals:0<9}").parse::<u64>();
        let nanos = nanos.ok().filter(|_| digits <= 9 && all_digits);
        let total = seconds.checked_mul(1_000_000_000).zip(nanos);
        let total = total.and_then(|(seconds, nanos)| seconds.checked_add(nanos));
        let time = total.and_then(|total| self.zero.as_nanos().checked_add(total));
        time.map(Time::from_nanos).ok_or_else(bad)
    }
}

/// Microseconds with decimals, of which the first three count.
pub(super) fn exact_micros(digits: &str) -> Option<Nanos> {
    let (micros, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let number = |text: &str| -> Option<u64> {
        let only_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        only_digits.then(|| text.parse().ok()).flatten()
    };
    let decimals = format!("{:0<3}", decimals.get(..decimals.len().min(3))?);
    let nanos = number(micros)?.checked_mul(1000)?;
    nanos.checked_add(number(&decimals)?).map(Nanos::new)
}

/// `class/level`, the class as a number or by name; class 0 takes its level from the nice value,
/// which is 0 here.
pub(super) fn priority(text: &str) -> Option<IoPriority> {
    let (class, level) = text.split_once('/')?;
    let level = level.parse().ok().filter(|&level| level < 8)?;
    Some(match class {
        "0" | "none" => IoPriority::default(),
        "1" | "rt" => IoPriority {
            class: PriorityClass::RealTime,
            level,
        },
        "2" | "be" => IoPriority {
            class: PriorityClass::BestEffort,
            level,
        },
        "3" | "idle" => IoPriority {
            class: PriorityClass::Idle,
            level: 7,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_event_is_read_to_the_nanosecond() {
        let mut reader = Reader::new(Nanos::from_secs(1));
        let line = reader.read("117.927 I WS 2135184 8 257 rw rw").unwrap();
        let Some(Line::Event(event)) = line else {
            panic!("{line:?}")
        };
        assert_eq!(event.time, Time::from_nanos(1_000_117_927));
        assert_eq!(
            (event.action, event.op, event.sync),
            (Action::Inserted, Some(Op::Write), true)
        );
        assert_eq!(
            (event.start, event.length),
            (Sector::new(2_135_184), Sectors::new(8))
        );
        assert_eq!((event.process, event.comm.as_str()), (ProcessId(257), "rw"));
        let early = Reader::new(Nanos::from_secs(1)).read("-50448.1 G N - 0 20 kworker/0:1 -");
        let Some(Line::Event(early)) = early.unwrap() else {
            panic!()
        };
        assert_eq!(early.time, Time::from_nanos(1_000_000_000 - 50_448_100));
        assert_eq!(early.op, None);
    }

    /// A kernel of the single-queue block layer splits bios, too: that is no sign of the other layer.
    #[test]
    fn the_same_letter_is_a_decision_in_our_recordings_and_a_split_in_those_of_others() {
        let action = |text: &str| match Reader::default().read(text).unwrap() {
            Some(Line::Event(event)) => event.action,
            other => panic!("{other:?}"),
        };
        assert_eq!(action("1.0 X W 8 8 369 rw rw"), Action::Decided);
        let others = [
            "8,0 3 1 0.000000000 697 X W 223490 / 223746 [kjournald]",
            "rw-1583 [000] d..1. 32.415492: 8,0 X WS 9796816 / 9797328 [rw]",
        ];
        for text in others {
            assert_eq!(action(text), Action::Other, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        let mut reader = Reader::default();
        assert_eq!(reader.read("").unwrap(), None);
        let error = |reader: &mut Reader, text: &str| reader.read(text).unwrap_err().to_string();
        assert_eq!(
            error(&mut reader, "1.0 Q R"),
            "line 2: 3 columns where at least 6 are needed (time action rwbs sector nsectors pid)"
        );
        let message = error(&mut reader, "x Q R 1 8 1 a a");
        assert_eq!(message, "line 3: time `x` is no number of microseconds");
        assert_eq!(
            error(&mut reader, "1 Q R -8 8 1"),
            "line 4: sector `-8` is no number"
        );
        reader.read("2 Q R 8 8 1").unwrap();
        let message = error(&mut reader, "1 Q R 8 8 1");
        assert_eq!(
            message,
            "line 6: its time is before that of the line before"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in ".{0,80}") {
            let _ = Reader::default().read(&text);
        }

        #[test]
        fn no_columns_make_the_reader_panic(
            columns in prop::collection::vec("[-0-9.QGIDCRWSN#=/]{0,25}", 0..9)
        ) {
            let _ = Reader::default().read(&columns.join(" "));
        }
    }
}
