//! Recordings of a kernel's scheduler as traces: [`super::kernel`] reads their lines.

use super::error::Cause;
use super::kernel::{Action, Line, Reader, Remark, TraceEvent};
use super::lines::LineFormat;
use super::record::{Record, Sink, Skip, Stage};
use super::text::extent;
use crate::units::Sectors;

/// Reads one line after the other.
#[derive(Debug, Clone)]
pub(crate) struct Recording {
    reader: Reader,
}

impl Default for Recording {
    fn default() -> Recording {
        Recording {
            reader: Reader::of_ours(),
        }
    }
}

impl LineFormat for Recording {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Cause> {
        let text = std::str::from_utf8(line);
        let text = text.map_err(|_| Cause::bad("line", line, "UTF-8 text"))?;
        match self.reader.read(text) {
            Ok(Some(Line::Event(event))) => return event_read(&event, sink),
            Ok(Some(Line::Remark(Remark::Worker {
                process, priority, ..
            }))) => {
                sink.labels.set_priority(process, priority);
                sink.skip(Skip::Message);
            }
            Ok(Some(Line::Remark(_))) => sink.skip(Skip::Message),
            Ok(None) => sink.skip(Skip::Summary),
            Err(error) => return Err(error.cause),
        }
        Ok(())
    }
}

fn event_read(event: &TraceEvent, sink: &mut Sink) -> Result<(), Cause> {
    let stage = match event.action {
        Action::Queued => Stage::Submitted,
        Action::Issued => Stage::Issued,
        Action::Completed => Stage::Completed,
        _ => {
            sink.skip(Skip::OtherEvent);
            return Ok(());
        }
    };
    let (Some(op), true) = (event.op, event.length > Sectors::ZERO) else {
        sink.skip(match event.length {
            Sectors::ZERO if event.sync => Skip::Flush,
            _ => Skip::NoData,
        });
        return Ok(());
    };
    let (start, length) = extent(event.start.as_u64(), event.length.as_u64())?;
    if stage == Stage::Submitted {
        let comm = event.comm.as_bytes();
        sink.labels.name_process(event.process, comm);
    }
    let device = sink.device(b"disk")?;
    sink.push(Record {
        time: event.time,
        stage,
        op,
        sync: event.sync,
        start,
        length,
        process: event.process,
        device,
        response: None,
    });
    Ok(())
}
