//! Events as lines of this project's recordings, as [`Reader`](super::kernel::Reader) reads them.

use super::kernel::TraceEvent;
use crate::request::{Action, Op, PriorityClass, ProcessId};
use crate::units::{Nanos, Sector, Sectors, Time};

/// Writes a recorded event as a line that [`Reader`](super::kernel::Reader) reads, with its priority and processor: `zero` is where the
/// recording's time begins.
pub fn write_event(
    out: &mut impl std::fmt::Write,
    zero: Time,
    event: &TraceEvent,
) -> std::fmt::Result {
    let name = |c: char| if c.is_whitespace() { '_' } else { c };
    let comm: String = event.comm.chars().map(name).collect();
    let comm = if comm.is_empty() { "-" } else { &comm };
    write_columns(
        out,
        event.time.saturating_since(zero),
        event.action,
        RwbsFlags {
            op: event.op,
            flush: false,
            sync: if event.op == Some(Op::Read) {
                event.sync_flag
            } else {
                event.sync
            },
            meta: event.meta,
        },
        (event.start, event.length),
        event.process,
    )?;
    let priority = event.priority.map_or("-".to_owned(), |priority| {
        let class = match priority.class {
            PriorityClass::RealTime => "rt",
            PriorityClass::BestEffort => "be",
            PriorityClass::Idle => "idle",
        };
        format!("{class}/{}", priority.level)
    });
    let cpu = event.cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
    writeln!(out, " {comm} - {priority} {cpu}")
}

/// What the third column says.
#[derive(Clone, Copy)]
pub(crate) struct RwbsFlags {
    pub(crate) op: Option<Op>,
    pub(crate) flush: bool,
    pub(crate) sync: bool,
    pub(crate) meta: bool,
}

/// The first six columns.
pub(crate) fn write_columns(
    out: &mut impl std::fmt::Write,
    since: Nanos,
    action: Action,
    kind: RwbsFlags,
    (start, length): (Sector, Sectors),
    process: ProcessId,
) -> std::fmt::Result {
    let action = action.letters();
    let rwbs = match (kind.op, kind.sync) {
        (None, _) if kind.flush => "FF",
        (None, _) => "N",
        (Some(Op::Read), true) => "RS",
        (Some(Op::Read), false) => "R",
        (Some(Op::Write), true) => "WS",
        (Some(Op::Write), false) => "W",
        (Some(Op::Discard), true) => "DS",
        (Some(Op::Discard), false) => "D",
    };
    let meta = if kind.meta { "M" } else { "" };
    let nanos = since.as_nanos();
    let (micros, rest, start) = (nanos / 1000, nanos % 1000, start.as_u64());
    let (length, process) = (length.as_u64(), process.0);
    write!(
        out,
        "{micros}.{rest:03} {action} {rwbs}{meta} {start} {length} {process}"
    )
}
