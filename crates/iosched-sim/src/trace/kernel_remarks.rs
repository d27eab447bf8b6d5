//! What lines that begin with `#` say about a recording.

use iosched_facts::event::{KyberEvent, Queue, Remark};

use super::error::Cause;
use super::kernel_fields::{Fields, exact_micros, priority};
use crate::request::{IoPriority, ProcessId};
use crate::scheduler::KernelVersion;
use crate::units::Nanos;

/// `Debian 6.1.176 (…) blk-mq, scheduler=… device=…`: nothing if the line is about something else.
fn queue(text: &str) -> Option<Queue> {
    let mut words = text.split_ascii_whitespace();
    Some(Queue {
        scheduler: field(text, "scheduler")?.to_owned(),
        multi_queue: text.contains("blk-mq"),
        version: words.find_map(KernelVersion::parse),
        queue_depth: field(text, "queue_depth").and_then(|depth| depth.parse().ok()),
        look_ahead: field(text, "look_ahead").map(|look_ahead| look_ahead != "0"),
        hz: field(text, "hz").and_then(|hz| hz.parse().ok()),
        tick_phase: field(text, "tick_phase_us").and_then(exact_micros),
        rotational: field(text, "rotational").map(|rotational| rotational != "0"),
        max_sectors_kib: field(text, "max_sectors_kb").and_then(|kib| kib.parse().ok()),
        attached: field(text, "attached_us").and_then(exact_micros),
    })
}

/// The value of the word `name=value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = text
        .split_ascii_whitespace()
        .filter_map(|word| word.split_once('='));
    fields.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Reads what stands behind the `#` of a line.
pub(super) fn remark(fields: &Fields, text: &str) -> Result<Remark, Cause> {
    let mut words = text.split_ascii_whitespace();
    let kind = words.next().unwrap_or("");
    let process = || -> Result<ProcessId, Cause> {
        let pid = field(text, "pid").unwrap_or("");
        pid.parse()
            .map(ProcessId)
            .map_err(|_| Cause::bad("pid", pid.as_bytes(), "process"))
    };
    Ok(match kind {
        "worker" => Remark::Worker {
            process: process()?,
            priority: field(text, "ioprio").map_or(Ok(IoPriority::default()), |text| {
                priority(text).ok_or_else(|| Cause::bad("ioprio", text.as_bytes(), "priority"))
            })?,
            buffered: field(text, "buf").is_some_and(|buffered| buffered != "0"),
            depth: field(text, "depth")
                .and_then(|depth| depth.parse().ok())
                .unwrap_or(1),
            think: field(text, "think_us")
                .and_then(exact_micros)
                .unwrap_or_default(),
            elapsed: field(text, "elapsed_us").and_then(exact_micros),
        },
        "exit" => {
            let time = field(text, "time_us").unwrap_or("");
            Remark::Exit {
                process: process()?,
                time: fields.time(time)?,
            }
        }
        "kyber" => {
            let time = fields.time(words.next().unwrap_or(""))?;
            statement(words).map_or(Remark::Other, |said| Remark::Kyber { time, said })
        }
        "time" => time_zero(words).map_or(Remark::Other, Remark::TimeZero),
        _ => queue(text).map_or(Remark::Other, Remark::Queue),
    })
}

/// `zero: 4071002 us of CLOCK_MONOTONIC`
fn time_zero<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Nanos> {
    let micros = words.nth(1).and_then(exact_micros);
    micros.filter(|_| {
        words
            .nth(2)
            .is_some_and(|clock| clock.starts_with("CLOCK_MONOTONIC"))
    })
}

/// `kyber_adjust: 8,0 WRITE 96`, `kyber_latency: 8,0 READ I/O p90 3/4 samples=510`
fn statement<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<KyberEvent> {
    let event = words.next()?;
    let domain = words.nth(1)?.to_owned();
    let what = words.next()?;
    match event {
        "kyber_adjust:" => Some(KyberEvent::Depth {
            domain,
            depth: what.parse().ok()?,
        }),
        "kyber_latency:" => {
            let quarters: usize = words.nth(1)?.split('/').next()?.parse().ok()?;
            Some(KyberEvent::Percentile {
                domain,
                total: what == "total",
                bucket: quarters.checked_sub(1).filter(|&bucket| bucket < 8)?,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::PriorityClass;
    use crate::trace::kernel::{Line, Reader};
    use crate::units::{Nanos, Time};

    #[test]
    fn remarks_name_workers_and_exits() {
        let mut reader = Reader::new(Nanos::ZERO);
        let worker = reader
            .read("# worker name=be0 pid=288 op=r depth=4 think_us=2000 ioprio=2/0 buf=1 | x=1")
            .unwrap();
        let priority = IoPriority {
            class: PriorityClass::BestEffort,
            level: 0,
        };
        let process = ProcessId(288);
        let expected = Remark::Worker {
            process,
            priority,
            buffered: true,
            depth: 4,
            think: Nanos::from_millis(2),
            elapsed: None,
        };
        assert_eq!(worker, Some(Line::Remark(expected)));
        let exit = reader
            .read("# exit pid=230 time_us=3000840.740 (end)")
            .unwrap();
        let time = Time::from_nanos(3_000_840_740);
        let expected = Remark::Exit {
            process: ProcessId(230),
            time,
        };
        assert_eq!(exit, Some(Line::Remark(expected)));
    }
}
