//! What this machine can do through an emulated disk, whatever the disk's model: for a fast one that is
//! the limit, and the reason to slow it down.

use std::num::NonZeroU32;
use std::time::Duration;

use iosched_sim::disk::Model;
use iosched_sim::units::{Bytes, Nanos};

use super::{LiveError, Wanted};
use crate::emulate::{EmulatedDisk, Spec};
use crate::load::fio;
use crate::process::Stop;

/// How long the limit is measured.
const TIME: Duration = Duration::from_secs(1);

/// The machine is to be this many times as fast as the disk, or else what is measured are its own
/// wake-ups. From experiments: docs/validation.md.
pub(super) const TIMES_AS_FAST: f64 = 10.0;

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

/// The least factor by which a disk of so many requests per second is to be slowed down, so that a
/// machine which completes `most_iops` is [`TIMES_AS_FAST`] as fast.
pub(super) fn least_slow_down(disk_iops: f64, most_iops: f64) -> NonZeroU32 {
    let factor = disk_iops * TIMES_AS_FAST / most_iops.max(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range"
    )]
    let whole = factor.ceil().clamp(1.0, 1e6) as u32;
    NonZeroU32::new(whole).unwrap_or(NonZeroU32::MIN)
}

/// Measures how many requests per second come through a disk that answers at once. For a model with
/// an arm this is not asked.
pub(super) fn most_iops(wanted: &Wanted, stop: &Stop) -> Result<Option<f64>, LiveError> {
    if wanted.model.rotational() {
        return Ok(None);
    }
    let mut spec = Spec::new(Model::named("null")?, &wanted.server);
    spec.size = Some(Bytes::from_gib(1));
    spec.owner_pid = i32::try_from(std::process::id()).ok();
    let disk = EmulatedDisk::create(&spec)?;
    let job = format!(
        "[limit]\nfilename=/dev/{}\nioengine=libaio\ndirect=1\nrw=randread\nbs=4k\niodepth=32\n\
         norandommap=1\nruntime={}ms\ntime_based=1\nthread=1\n",
        disk.device(),
        TIME.as_millis()
    );
    let running = fio::Running {
        duration: TIME,
        read_only: true,
        limit: None,
        user: None,
        stop,
    };
    let measured = fio::run(&job, &running, &mut |_| {});
    disk.remove(true)?;
    let reads = measured?.into_iter().filter_map(|job| job.read);
    Ok(Some(reads.map(|flow| flow.iops).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_slowed_down_just_so_far_that_the_machine_is_ten_times_as_fast() {
        for (disk_iops, most_iops, factor) in [
            (100.0, 100_000.0, 1),
            (10_000.0, 100_000.0, 1),
            (10_001.0, 100_000.0, 2),
            (97_000.0, 138_000.0, 8),
            (97_000.0, 0.0, 970_000),
        ] {
            assert_eq!(
                least_slow_down(disk_iops, most_iops).get(),
                factor,
                "{disk_iops}"
            );
        }
    }
}
