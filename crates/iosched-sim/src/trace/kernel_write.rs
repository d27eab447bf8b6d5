//! Events as lines of this project's recordings.

use super::kernel::{Action, Event};
use crate::request::{Op, PriorityClass, ProcessId};
use crate::scheduler::BlockLayer;
use crate::simulate::{Attachment, Happening, Setup};
use crate::units::{Nanos, Sector, Sectors, Time};

/// Writes what is said before the events of a simulation: what was simulated, by the names of its
/// scheduler and disk, and who the processes are.
pub fn write_head(
    out: &mut impl std::fmt::Write,
    setup: &Setup,
    (scheduler, disk): (&str, &str),
) -> std::fmt::Result {
    let multi_queue = setup.scheduler.info().block_layer == BlockLayer::MultiQueue;
    let blk_mq = if multi_queue { "blk-mq, " } else { "" };
    let (queue_depth, seed) = (setup.queue_depth, setup.seed);
    write!(
        out,
        "# simulated: {blk_mq}scheduler={scheduler} disk={disk} queue_depth={queue_depth} seed={seed} attached_us=0"
    )?;
    if multi_queue {
        let settings = &setup.multi_queue;
        let look_ahead = u8::from(settings.attachment == Attachment::LookAhead);
        let phase = settings.kernel.tick_phase.as_nanos();
        let (micros, rest) = (phase / 1000, phase % 1000);
        write!(
            out,
            " look_ahead={look_ahead} tick_phase_us={micros}.{rest:03}"
        )?;
    }
    writeln!(out)?;
    for (process, job) in (1000..).zip(&setup.jobs) {
        let name = job.name.replace(char::is_whitespace, "_");
        let class = match job.priority.class {
            PriorityClass::RealTime => 1,
            PriorityClass::BestEffort => 2,
            PriorityClass::Idle => 3,
        };
        let level = job.priority.level;
        writeln!(
            out,
            "# worker name={name} pid={process} ioprio={class}/{level} buf=0"
        )?;
    }
    Ok(())
}

/// Writes an event of a simulation as a line that [`Reader`](super::kernel::Reader) reads: `zero` is where the recording's
/// time begins.
pub fn write_line(
    out: &mut impl std::fmt::Write,
    zero: Time,
    happening: &Happening,
) -> std::fmt::Result {
    // The fields of a line are separated by blanks.
    let name = |c: char| if c.is_whitespace() { '_' } else { c };
    let owner: String = happening.owner.chars().map(name).collect();
    write_columns(
        out,
        happening.time.saturating_since(zero),
        happening.action,
        Kind {
            op: happening.op,
            flush: happening.flush,
            sync: happening.sync,
            meta: false,
        },
        (happening.start, happening.length),
        happening.process,
    )?;
    write!(out, " {owner} {owner}")?;
    if let Some(cpu) = happening.cpu {
        write!(out, " - {cpu}")?;
    }
    writeln!(out)
}

/// Writes a recorded event as a line that [`Reader`](super::kernel::Reader) reads, with its priority and processor: `zero` is where the
/// recording's time begins.
pub fn write_event(out: &mut impl std::fmt::Write, zero: Time, event: &Event) -> std::fmt::Result {
    let name = |c: char| if c.is_whitespace() { '_' } else { c };
    let comm: String = event.comm.chars().map(name).collect();
    let comm = if comm.is_empty() { "-" } else { &comm };
    write_columns(
        out,
        event.time.saturating_since(zero),
        event.action,
        Kind {
            op: event.op,
            flush: false,
            sync: event.sync,
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
struct Kind {
    op: Option<Op>,
    flush: bool,
    sync: bool,
    meta: bool,
}

/// The first six columns.
fn write_columns(
    out: &mut impl std::fmt::Write,
    since: Nanos,
    action: Action,
    kind: Kind,
    (start, length): (Sector, Sectors),
    process: ProcessId,
) -> std::fmt::Result {
    let action = match action {
        Action::Queued => "Q",
        Action::Allocated => "G",
        Action::Plugged => "P",
        Action::Unplugged => "U",
        Action::Inserted => "I",
        Action::BackMerged => "M",
        Action::FrontMerged => "F",
        Action::Joined => "RM",
        Action::GivenBack => "R",
        Action::Decided => "X",
        Action::Issued => "D",
        Action::Completed => "C",
        Action::UnpluggedLater => "UT",
        Action::Other => "A",
    };
    let rwbs = match (kind.op, kind.sync) {
        (None, _) if kind.flush => "FF",
        (None, _) => "N",
        (Some(Op::Read), _) => "R",
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
