//! What this machine can do through an emulated disk, whatever the disk's model: for a fast one that is
//! the limit.

use std::time::Duration;

use iosched_sim::disk::Model;
use iosched_sim::units::{Bytes, Nanos};

use super::{LiveError, Wanted};
use crate::emulate::{EmulatedDisk, Spec};
use crate::load::fio;
use crate::process::Stop;

/// How long the limit is measured.
const TIME: Duration = Duration::from_secs(1);

/// The machine around the emulated disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Machine {
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
