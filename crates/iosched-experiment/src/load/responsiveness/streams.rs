//! The streams beside which a program starts: run by fio, and waited for until each has begun. How long fio takes from
//! its start to the first access depends on how busy the machine is.

use std::path::Path;
use std::time::{Duration, Instant};

use iosched_machine::host::Host;
use iosched_machine::process::{ChildError, Scope, Session, Stop};

use super::start;
use crate::load::fio::{self, FioError};
use crate::load::{LoadError, Workplace};

/// What `statfs(2)` says of a file system whose server, and no stream, accesses the disk.
const FUSE_SUPER_MAGIC: u32 = 0x6573_5546;

/// Runs the streams until they are told to end; an error if they end otherwise.
pub(super) fn run(job_file: &str, scope: &Scope, stop: &Stop) -> Result<(), FioError> {
    match fio::run_long(job_file, scope, stop) {
        Err(FioError::Child(ChildError::Stopped)) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(FioError::Unreadable {
            cause: "the streams ended before the program had started".into(),
        }),
    }
}

/// Waits until `count` streams have made their first access, and then as long as they are to settle; false if they are
/// over before that.
///
/// # Errors
/// The run is to stop, or they take longer to begin than a trial may last.
pub(super) fn wait_until_settled(
    count: usize,
    settling: Duration,
    session: &Session,
    at: &Workplace<'_>,
    are_over: &dyn Fn() -> bool,
    tick: &mut dyn FnMut(Duration),
) -> Result<bool, LoadError> {
    let started = Instant::now();
    let limit = at.trial_limit.unwrap_or(start::LONGEST);
    let host = Host::live();
    let are_accounted = at.own_directory().is_none_or(|path| !is_on_fuse(path));
    let mut begun = 0;
    let mut have_begun = || {
        let seen = session.workers(&host);
        // Where nobody says what each has accessed, that it is there has to do.
        let with_io = seen.with_io.filter(|_| are_accounted);
        begun = with_io.unwrap_or(seen.count);
        begun >= count || started.elapsed() >= limit
    };
    if !start::wait(&mut have_begun, started, at, are_over, tick)? {
        return Ok(false);
    }
    if begun < count {
        return Err(FioError::NotBegun {
            begun,
            streams: count,
            limit,
        }
        .into());
    }
    let when = started.elapsed() + settling;
    start::wait_until(when, started, at, are_over, tick)
}

fn is_on_fuse(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| u32::try_from(found.f_type) == Ok(FUSE_SUPER_MAGIC))
}
