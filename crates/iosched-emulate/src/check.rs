//! Does an emulated disk take the time that its model says? Single random reads, measured from
//! outside and compared one by one with the disk's own account.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_sim::disk::DiskOp;
use iosched_sim::units::{Bytes, Nanos, SECTOR_BYTES, Sector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::fs::OFlags;
use serde::Serialize;

use super::disk_directory::DiskDirectory;
use super::filesystem::SERVED_FILE;
use super::ledger::{self, Served};
use super::log::monotonic;

pub(super) const READ_SIZE: Bytes = Bytes::from_kib(4);

/// Reads between two looks at the disk's account, which does not go back for ever.
const BATCH: usize = 4096;

/// What a check found.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// The disk.
    pub id: String,
    /// Its device.
    pub device: String,
    /// The kernel's scheduler that was active meanwhile.
    pub scheduler: String,
    /// The scheduler of ours inside, if there is one.
    pub inside: Option<String>,
    /// How many reads of 4 KiB, at depth 1.
    pub reads: usize,
    /// What the model says that they took.
    pub modelled_ns: Spread,
    /// What they took, from `pread` to its return.
    pub measured_ns: Spread,
    /// Measured minus modelled, read by read.
    pub difference_ns: Spread,
    /// How much after the model's time the server sent its answer.
    pub late_ns: Spread,
    /// What the server takes off for the way to the model and back.
    pub path_ns: u64,
}

/// Where a set of numbers lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: i64,
    /// The middle.
    pub p50: i64,
    /// One in a hundred is above.
    pub p99: i64,
    /// The most.
    pub max: i64,
}

impl Spread {
    /// Of a set that is not empty; quantiles are members of the set (nearest rank).
    fn of(mut numbers: Vec<i64>) -> Spread {
        assert!(!numbers.is_empty(), "nothing has no spread");
        numbers.sort_unstable();
        let last = numbers.len() - 1;
        let rank = |percent: usize| {
            numbers[(numbers.len() * percent).div_ceil(100).clamp(1, last + 1) - 1]
        };
        Spread {
            min: numbers[0],
            p50: rank(50),
            p99: rank(99),
            max: numbers[last],
        }
    }
}

/// Compares `reads` single random reads of a running disk with its model.
pub(super) fn check(
    host: &Host,
    place: &DiskDirectory,
    device: &str,
    path_ns: u64,
    reads: usize,
    seed: u64,
) -> Result<Check, Problem> {
    let failed = |why: String| Problem::new(exit::FAILURE, format!("cannot check {device}: {why}"));
    let reader =
        DirectReader::open(&host.dev(device)).map_err(|error| failed(error.to_string()))?;
    let account = place.mount_point().join(SERVED_FILE);
    let size = place.state().map_or(0, |state| state.size_bytes);
    let blocks = size / READ_SIZE.as_u64();
    if blocks == 0 || reads == 0 {
        return Err(failed("there is nothing to read".to_owned()));
    }
    let scheduler = host
        .sysfs()
        .read_if_present(device, "queue/scheduler")
        .unwrap_or_default();
    let mut pairs = Vec::new();
    let mut positions = random_blocks(blocks, seed).take(reads);
    loop {
        let batch: Vec<Sector> = positions.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let mut timed = Vec::with_capacity(batch.len());
        for position in batch {
            timed.push(
                reader
                    .timed_read(position)
                    .map_err(|error| failed(error.to_string()))?,
            );
        }
        let text = std::fs::read_to_string(&account).map_err(|error| failed(error.to_string()))?;
        let served = ledger::from_csv(&text)
            .ok_or_else(|| failed(format!("{} is not understood", account.display())))?;
        let paired = pair(&timed, &served).ok_or_else(|| {
            failed("others use it: the disk served more than these reads".to_owned())
        })?;
        pairs.extend(paired);
    }
    let spread = |of: &dyn Fn(&Pair) -> i64| Spread::of(pairs.iter().map(of).collect());
    Ok(Check {
        id: place.id().to_owned(),
        device: device.to_owned(),
        scheduler: active(&scheduler).to_owned(),
        inside: place.state().and_then(|state| state.scheduler),
        reads: pairs.len(),
        modelled_ns: spread(&|pair| signed(pair.served.modelled())),
        measured_ns: spread(&|pair| signed(pair.measured)),
        difference_ns: spread(&|pair| signed(pair.measured) - signed(pair.served.modelled())),
        late_ns: spread(&|pair| signed(pair.served.answered - pair.served.completed)),
        path_ns,
    })
}

/// The name in brackets.
fn active(schedulers: &str) -> &str {
    let after = schedulers
        .split_once('[')
        .map_or(schedulers, |(_, after)| after);
    after.split_once(']').map_or(after, |(name, _)| name)
}

#[expect(clippy::cast_possible_wrap, reason = "292 years fit")]
fn signed(length: Nanos) -> i64 {
    length.as_nanos() as i64
}

/// Reads past the page cache, one at a time, and takes the time.
pub(super) struct DirectReader {
    file: File,
    buffer: std::cell::RefCell<AlignedBlock>,
}

/// Memory as direct I/O wants it.
#[repr(C, align(4096))]
struct AlignedBlock([u8; 4096]);

/// One read and how long it took.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimedRead {
    position: Sector,
    taken: Nanos,
}

/// A read as seen from both sides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) measured: Nanos,
    pub(super) served: Served,
}

impl DirectReader {
    pub(super) fn open(path: &Path) -> io::Result<DirectReader> {
        let direct = i32::try_from(OFlags::DIRECT.bits()).expect("flags are small");
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(direct)
            .open(path)?;
        Ok(DirectReader {
            file,
            buffer: std::cell::RefCell::new(AlignedBlock([0; 4096])),
        })
    }

    pub(super) fn timed_read(&self, position: Sector) -> io::Result<TimedRead> {
        let mut buffer = self.buffer.borrow_mut();
        let begin = monotonic();
        self.file
            .read_exact_at(&mut buffer.0, position.as_u64() * SECTOR_BYTES)?;
        let taken = monotonic().saturating_sub(begin);
        Ok(TimedRead { position, taken })
    }
}

/// Block positions all over the disk, the same for the same seed.
pub(super) fn random_blocks(blocks: u64, seed: u64) -> impl Iterator<Item = Sector> {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let sectors = READ_SIZE.to_sectors().as_u64();
    std::iter::repeat_with(move || Sector::new(chance.random_range(0..blocks.max(1)) * sectors))
}

/// Finds each read in the disk's account. `None` if the account does not end with these very reads:
/// then somebody else used the disk, and single reads were not single.
pub(super) fn pair(reads: &[TimedRead], account: &[Served]) -> Option<Vec<Pair>> {
    let tail = account.get(account.len().checked_sub(reads.len())?..)?;
    let pairs = reads.iter().zip(tail).map(|(read, served)| {
        let same = served.op == DiskOp::Read
            && served.start == read.position
            && served.length == READ_SIZE.to_sectors();
        same.then_some(Pair {
            measured: read.taken,
            served: *served,
        })
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use iosched_sim::units::Time;

    use super::*;

    fn served(position: Sector) -> Served {
        Served {
            op: DiskOp::Read,
            start: position,
            length: READ_SIZE.to_sectors(),
            arrived: Time::from_nanos(100),
            started: Time::from_nanos(100),
            completed: Time::from_nanos(300),
            answered: Time::from_nanos(310),
        }
    }

    fn read(position: u64) -> TimedRead {
        TimedRead {
            position: Sector::new(position),
            taken: Nanos::new(240),
        }
    }

    #[test]
    fn quantiles_are_members_of_the_set() {
        let spread = Spread::of((1..=200).collect());
        assert_eq!(
            (spread.min, spread.p50, spread.p99, spread.max),
            (1, 100, 198, 200)
        );
        assert_eq!(Spread::of(vec![5]).p99, 5);
    }

    #[test]
    fn reads_are_paired_with_the_end_of_the_account() {
        let account: Vec<Served> = [8, 16, 24].map(|at| served(Sector::new(at))).to_vec();
        let pairs = pair(&[read(16), read(24)], &account).unwrap();
        assert_eq!(pairs[0].served.start, Sector::new(16));
        assert_eq!(pairs[0].measured, Nanos::new(240));
    }

    #[test]
    fn an_account_with_somebody_elses_requests_is_refused() {
        let account: Vec<Served> = [8, 16, 24].map(|at| served(Sector::new(at))).to_vec();
        assert!(pair(&[read(8), read(24)], &account).is_none());
        assert!(pair(&[read(24); 4], &account).is_none());
    }

    #[test]
    fn positions_repeat_with_their_seed_and_stay_on_the_disk() {
        let some: Vec<Sector> = random_blocks(100, 7).take(1000).collect();
        assert_eq!(some, random_blocks(100, 7).take(1000).collect::<Vec<_>>());
        assert_ne!(some, random_blocks(100, 8).take(1000).collect::<Vec<_>>());
        assert!(
            some.iter()
                .all(|position| position.as_u64() < 800 && position.as_u64() % 8 == 0)
        );
    }

    #[test]
    fn the_active_scheduler_is_the_one_in_brackets() {
        assert_eq!(active("none [mq-deadline] bfq"), "mq-deadline");
        assert_eq!(active("none"), "none");
    }
}
