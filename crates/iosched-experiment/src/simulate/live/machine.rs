//! What this machine can do through an emulated disk, whatever the disk's model: for a fast one that is
//! the limit, and the reason to slow it down.

use std::num::NonZeroU32;
use std::time::Duration;

use iosched_emulate::{EmulatedDisk, Spec};
use iosched_machine::process::{Scope, Stop};
use iosched_sim::disk::Model;
use iosched_sim::units::Nanos;

use super::{LiveRequest, Pace};
use crate::load::fio;
use crate::load::fio_job::JobTarget;
use iosched_machine::failure::Problem;

/// How long each of its two figures is measured.
const TIME: Duration = Duration::from_secs(1);

/// The machine is to complete this many times as many requests as the disk, or else what is measured
/// is its own rate.
const TIMES_THE_RATE: f64 = 30.0;

/// The disk is to take this many times as long for a request as the machine does, or else what is
/// measured are its own wake-ups: there are some six to a request, and on a busy machine one in a
/// hundred takes milliseconds. From experiments: results/validation.md.
const TIMES_THE_LATENCY: f64 = 40.0;

/// The machine around the emulated disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Machine {
    /// All that the disk does takes this many times as long as its model says.
    pub(super) slow_down: NonZeroU32,
    /// Requests that the loop driver gives to the disk at a time.
    pub(super) driver_depth: u32,
    /// Requests per second that it completes at the most; nothing where the disk is far slower.
    pub(super) most_iops: Option<f64>,
}

impl Machine {
    /// Completions are at least this far apart.
    pub(super) fn completion_gap(&self) -> Nanos {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "less than a second"
        )]
        let gap = |iops: f64| Nanos::new((1e9 / iops.max(1.0)) as u64);
        self.most_iops.map_or(Nanos::ZERO, gap)
    }
}

/// The least factor by which the disk is to be slowed down, so that this machine is well faster.
pub(super) fn least_slow_down(disk: Pace, machine: Pace) -> NonZeroU32 {
    let for_rate = TIMES_THE_RATE * disk.iops / machine.iops.max(1.0);
    let for_latency = TIMES_THE_LATENCY * machine.latency_ns / disk.latency_ns.max(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range"
    )]
    let whole = for_rate.max(for_latency).ceil().clamp(1.0, 1e6) as u32;
    NonZeroU32::new(whole).unwrap_or(NonZeroU32::MIN)
}

/// Measures what comes through a disk that answers at once. For a model with an arm this is not asked.
pub(super) fn pace(wanted: &LiveRequest, stop: &Stop) -> Result<Option<Pace>, Problem> {
    if wanted.model.rotational() {
        return Ok(None);
    }
    let mut spec = Spec::new(Model::named("null")?, &wanted.server);
    spec.size_bytes = Some(1 << 30);
    spec.owner_pid = i32::try_from(std::process::id()).ok();
    let disk = EmulatedDisk::create(&spec)?;
    let measured = reads(disk.device(), 32, stop).and_then(|(iops, _)| {
        let (_, latency_ns) = reads(disk.device(), 1, stop)?;
        Ok(Pace { iops, latency_ns })
    });
    disk.remove(true)?;
    measured.map(Some)
}

/// Reads per second with so many in flight, and their mean latency in nanoseconds.
fn reads(device: &str, depth: usize, stop: &Stop) -> Result<(f64, f64), Problem> {
    let job = format!(
        "[limit]\nfilename=/dev/{device}\nioengine=libaio\ndirect=1\nrw=randread\nbs=4k\n\
         iodepth={depth}\nnorandommap=1\nruntime={}ms\ntime_based=1\nthread=1\n",
        TIME.as_millis()
    );
    let running = fio::Running {
        duration: TIME,
        read_only: true,
        limit: None,
        counted: None,
        place: &JobTarget::Path(format!("/dev/{device}")),
        scope: &Scope::default(),
        stop,
    };
    let measured = fio::run(&job, &running, &mut |_| {})?;
    let flow = measured.into_iter().find_map(|job| job.read);
    Ok(flow.map_or((0.0, 0.0), |flow| (flow.iops, flow.latency_mean_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_slowed_down_just_so_far_that_the_machine_is_well_faster() {
        let pace = |iops, latency_ns| Pace { iops, latency_ns };
        let quiet = pace(100_000.0, 25_000.0);
        for (disk, machine, factor) in [
            (pace(100.0, 10e6), quiet, 1),
            (pace(3_333.0, 1e6), quiet, 1),
            (pace(3_334.0, 1e6), quiet, 2),
            (pace(90_000.0, 45_000.0), quiet, 27),
            (pace(90_000.0, 45_000.0), pace(60_000.0, 180_000.0), 160),
            (pace(3_800.0, 100_000.0), pace(0.0, 0.0), 114_000),
        ] {
            assert_eq!(least_slow_down(disk, machine).get(), factor, "{disk:?}");
        }
    }
}
