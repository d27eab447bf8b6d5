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

use super::error::{Cause, ReadError};
use super::kernel_blk;
use super::kernel_fields::{Fields, priority};
use super::kernel_remarks;
pub use iosched_facts::event::{Action, Line, Queue, Remark, TraceEvent};

use iosched_facts::event::Rwbs;

use crate::request::ProcessId;
use crate::units::{Nanos, Sector, Sectors, Time};

/// Reads lines one after the other.
#[derive(Debug, Clone)]
pub struct Reader {
    /// Where the recording's time zero lies on our clock.
    fields: Fields,
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
            fields: Fields { line: 0, zero },
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
    pub fn set_zero(&mut self, zero: Nanos) {
        self.fields.zero = zero;
    }

    /// Where the recording's time zero lies on our clock.
    pub fn zero(&self) -> Nanos {
        self.fields.zero
    }

    /// Lines read.
    pub fn lines(&self) -> u64 {
        self.fields.line
    }

    /// Our time in the recording's microseconds.
    pub fn recorded_micros(&self, time: Time) -> f64 {
        (time.as_nanos() as f64 - self.fields.zero.as_nanos() as f64) / 1e3
    }

    /// The event or remark of the next line; `None` for an empty one.
    pub fn read(&mut self, text: &str) -> Result<Option<Line>, ReadError> {
        self.fields.line += 1;
        self.line(text)
            .map_err(|cause| ReadError::in_line(self.fields.line, cause))
    }

    fn line(&mut self, text: &str) -> Result<Option<Line>, Cause> {
        let text = text.trim_end();
        self.over |= !self.ours_only && kernel_blk::begins_totals(text);
        let of_blkparse = !self.ours_only && kernel_blk::names_input(text);
        if text.is_empty() || self.over || of_blkparse {
            return Ok(None);
        }
        if let Some(remark) = text.strip_prefix('#') {
            return kernel_remarks::remark(&self.fields, remark)
                .map(|remark| Some(Line::Remark(remark)));
        }
        let Some(event) = self.event(text)? else {
            return Ok(None);
        };
        if event.time < self.last {
            return Err(Cause::new("its time is before that of the line before"));
        }
        self.last = event.time;
        Ok(Some(Line::Event(event)))
    }

    /// An event; nothing if it is a scheduler's message.
    fn event(&self, text: &str) -> Result<Option<TraceEvent>, Cause> {
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
            return Ok(Some(TraceEvent {
                time: self.fields.seconds(columns.seconds)?,
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
            *place = columns.next().ok_or_else(|| {
                Cause::new(format!(
                    "{index} columns where at least 6 are needed (time action rwbs sector nsectors pid)"
                ))
            })?;
        }
        let [time, event @ ..] = found;
        Ok(Some(TraceEvent {
            time: self.fields.time(time)?,
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
    ) -> Result<TraceEvent, Cause> {
        let number = |what, text: &str| -> Result<u64, Cause> {
            match text {
                "-" => Ok(0),
                text => text
                    .parse()
                    .map_err(|_| Cause::bad(what, text.as_bytes(), "number")),
            }
        };
        let Rwbs {
            op,
            sync,
            sync_flag,
        } = Rwbs::parse(rwbs.as_bytes())
            .ok_or_else(|| Cause::bad("rwbs", rwbs.as_bytes(), "kind of request"))?;
        let start = number("sector", sector)?;
        let length = number("nsectors", length)?;
        if start
            .checked_add(length)
            .is_none_or(|end| end > u64::MAX / 1024)
        {
            return Err(Cause::bad(
                "sector",
                sector.as_bytes(),
                "position on a disk",
            ));
        }
        let process = pid
            .parse()
            .map_err(|_| Cause::bad("pid", pid.as_bytes(), "process"))?;
        Ok(TraceEvent {
            time: Time::ZERO,
            action: Action::of_letters(action),
            sync,
            sync_flag,
            meta: rwbs.contains('M'),
            op,
            start: Sector::new(start),
            length: Sectors::new(length),
            process: ProcessId(process),
            comm: String::new(),
            priority: None,
            cpu: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Op;

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
        assert_eq!(action("1.0 X W 8 8 369 rw rw"), Action::Dispatched);
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
