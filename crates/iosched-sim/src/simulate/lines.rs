//! Events of a run as lines of this project's recordings.

use super::{Attachment, BlockEvent, Setup};
use crate::request::PriorityClass;
use crate::scheduler::BlockLayer;
use crate::trace::kernel_write::{RwbsFlags, write_columns};
use crate::units::Time;

/// Writes what is said before the events of a simulation: what was simulated, by the names of its
/// scheduler and disk, and who the processes are.
pub fn write_head(
    out: &mut impl std::fmt::Write,
    setup: &Setup,
    (scheduler, disk): (&str, &str),
) -> std::fmt::Result {
    let multi_queue = setup.scheduler.info().facts.block_layer == BlockLayer::MultiQueue;
    let blk_mq = if multi_queue { "blk-mq, " } else { "" };
    let (queue_depth, seed) = (setup.queue_depth, setup.seed);
    let kernel = &setup.multi_queue.kernel; // of any scheduler
    let max_kib = setup.limits.max_sectors.to_bytes().as_u64() / 1024;
    write!(
        out,
        "# simulated: {blk_mq}scheduler={scheduler} disk={disk} queue_depth={queue_depth} seed={seed} attached_us=0 \
         max_sectors_kb={max_kib} hz={} rotational={}",
        kernel.hz,
        u8::from(kernel.rotational),
    )?;
    if multi_queue {
        let settings = &setup.multi_queue;
        let look_ahead = u8::from(settings.attachment == Attachment::TagOnly);
        let phase = kernel.tick_phase.as_nanos();
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

/// Writes an event of a simulation as a line that [`Reader`](crate::trace::kernel::Reader) reads: `zero` is where the recording's
/// time begins.
pub fn write_line(
    out: &mut impl std::fmt::Write,
    zero: Time,
    block_event: &BlockEvent,
) -> std::fmt::Result {
    // The fields of a line are separated by blanks.
    let name = |c: char| if c.is_whitespace() { '_' } else { c };
    let owner: String = block_event.owner.chars().map(name).collect();
    write_columns(
        out,
        block_event.time.saturating_since(zero),
        block_event.action,
        RwbsFlags {
            op: block_event.op,
            flush: block_event.flush,
            sync: block_event.sync,
            meta: false,
        },
        (block_event.start, block_event.length),
        block_event.process,
    )?;
    write!(out, " {owner} {owner}")?;
    if let Some(cpu) = block_event.cpu {
        write!(out, " - {cpu}")?;
    }
    writeln!(out)
}
