//! A simulated scheduler with its settings: what the command line says, over what a recording's file
//! of tunables says, over the kernel's defaults.

use std::path::{Path, PathBuf};

use iosched_conform::Settings;
use iosched_facts::Problem;
use iosched_facts::kernel::USUAL_HZ;
use iosched_sim::block_layer::{MergeLimits, Merging};
use iosched_sim::scheduler::{self, Kernel, NamedValues, SchedulerSpec};
use iosched_sim::simulate::Attachment;
use iosched_sim::units::{Bytes, Nanos};

use super::file::Lines;

/// `max_sectors_kb` of the queues on which this project's recordings were made, which have it in
/// their file of tunables: taken where no such file is given.
const RECORDED_MAX_KIB: u64 = 512;

/// Ticks per second, if kernels have so many.
pub(super) fn checked_hz(hz: u32) -> Result<u32, Problem> {
    if !USUAL_HZ.contains(&hz) {
        return Err(Problem::usage(format!(
            "a kernel cannot have {hz} ticks per second: it has 100, 250, 300 or 1000"
        )));
    }
    Ok(hz)
}

/// A phase in microseconds, which may lie some ticks away.
pub(super) fn tick_phase(micros: f64, kernel: &Kernel) -> Result<Nanos, Problem> {
    if !micros.is_finite() {
        return Err(Problem::usage(format!(
            "ticks cannot begin {micros} µs before a recording does"
        )));
    }
    let nanos = (micros * 1e3).rem_euclid(kernel.tick_nanos() as f64);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within a tick"
    )]
    Ok(Nanos::new(nanos as u64))
}

/// What is wanted.
#[derive(Debug, Clone, Default)]
pub struct SchedulerRequest {
    /// `name[:tunable=value,…]`.
    pub scheduler: String,
    /// A file of lines `path: value`, as `tunables.txt` beside recordings.
    pub tunables: Option<PathBuf>,
    /// Ticks per second, if not 1000 (multi-queue: 250).
    pub hz: Option<u32>,
    /// How long before a recording's time zero a tick began, in microseconds, if it is known.
    pub tick_phase_us: Option<f64>,
    /// The device is not rotational, whatever the file says.
    pub non_rotational: bool,
    /// Commands that the device takes, whatever the file says.
    pub queue_depth: Option<usize>,
    /// State that the scheduler begins with.
    pub initial: NamedValues,
}

/// Looks at everything that is wanted.
pub(crate) fn checked(wanted: &SchedulerRequest) -> Result<Settings, Problem> {
    let mut spec = SchedulerSpec::parse(&wanted.scheduler)?;
    let info = scheduler::info(&spec.name)?;
    let mut kernel = spec.usual_kernel()?;
    let max_sectors = Bytes::from_kib(RECORDED_MAX_KIB).to_sectors();
    let mut limits = MergeLimits {
        max_sectors,
        merging: Merging::Full,
    };
    let mut queue_depth = None;
    let mut attachment = None;
    if let Some(path) = &wanted.tunables {
        let file = QueueFile::read(path)?;
        if let Some(kib) = file.number("queue/max_sectors_kb")? {
            limits.max_sectors = Bytes::from_kib(kib.unsigned_abs().max(4)).to_sectors();
        }
        if let Some(rotational) = file.number("queue/rotational")? {
            kernel.rotational = rotational != 0;
        }
        let slots = file.number("device/queue_depth")?;
        let tags = file.number("hctx0/tags")?;
        queue_depth = slots.or(tags).and_then(|depth| usize::try_from(depth).ok());
        attachment = match (slots, tags) {
            (Some(_), _) => Some(Attachment::Budget),
            (None, Some(_)) => Some(Attachment::TagOnly),
            (None, None) => None,
        };
        let mut from_file = Vec::new();
        for tunable in info.facts.tunables {
            let overridden = spec.tunables.iter().any(|(name, _)| {
                name.trim_end_matches("_us") == tunable.name.trim_end_matches("_us")
            });
            if let Some(value) = file.number(&format!("iosched/{}", tunable.name))?
                && !overridden
            {
                from_file.push((tunable.name.to_owned(), value));
            }
        }
        spec.tunables.splice(0..0, from_file);
    }
    if wanted.non_rotational {
        kernel.rotational = false;
    }
    if let Some(hz) = wanted.hz {
        kernel.hz = checked_hz(hz)?;
    }
    if let Some(phase) = wanted.tick_phase_us {
        kernel.tick_phase = tick_phase(phase, &kernel)?;
    }
    let initial = wanted.initial.clone();
    scheduler::build_followed(&spec, &kernel, &initial)?; // tells what is wrong, if anything
    let queue_depth = wanted.queue_depth.or(queue_depth);
    Ok(Settings {
        spec,
        kernel,
        initial,
        limits,
        queue_depth: queue_depth.map(|depth| depth.max(1)),
        attachment,
        tick_phase_given: wanted.tick_phase_us.is_some(),
        info,
    })
}

/// The lines `path: value` of a recording's file.
#[derive(Debug)]
struct QueueFile {
    path: PathBuf,
    values: Vec<(String, String)>,
}

impl QueueFile {
    fn read(path: &Path) -> Result<QueueFile, Problem> {
        let mut lines = Lines::open(path)?;
        let mut values = Vec::new();
        while let Some(line) = lines.next_line()? {
            if let Some((name, value)) = line.split_once(':') {
                values.push((name.trim().to_owned(), value.trim().to_owned()));
            }
        }
        Ok(QueueFile {
            path: path.to_owned(),
            values,
        })
    }

    /// The value of the line whose path ends like this; of a line about tags, how many there are.
    fn number(&self, name: &str) -> Result<Option<i64>, Problem> {
        let ends = |path: &str| path == name || path.ends_with(&format!("/{name}"));
        let Some((_, value)) = self.values.iter().find(|(path, _)| ends(path)) else {
            return Ok(None);
        };
        let failed = |_| {
            let path = self.path.display();
            Problem::usage(format!("{path}: {name} is `{value}`, which is no number"))
        };
        let depth = value
            .split_ascii_whitespace()
            .find_map(|word| word.strip_prefix("depth="));
        depth.unwrap_or(value).parse().map(Some).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(scheduler: &str) -> SchedulerRequest {
        SchedulerRequest {
            scheduler: scheduler.to_owned(),
            ..SchedulerRequest::default()
        }
    }

    #[test]
    fn the_command_line_goes_before_the_file_and_the_file_before_the_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tunables.txt");
        let text = "/sys/block/sda/queue/max_sectors_kb: 512\n/sys/block/sda/queue/rotational: 0\n\
                    /sys/block/sda/queue/iosched/slice_idle: 5\n\
                    /sys/block/sda/queue/iosched/slice_idle_us: 5000\n\
                    /sys/block/sda/queue/iosched/quantum: 4\ndevice/queue_depth: 4\n";
        std::fs::write(&path, text).unwrap();
        let with_file = SchedulerRequest {
            tunables: Some(path),
            ..wanted("cfq:slice_idle=3")
        };
        let found = checked(&with_file).unwrap();
        let tunables = [("quantum".to_owned(), 4), ("slice_idle".to_owned(), 3)];
        assert_eq!(found.spec.tunables, tunables);
        assert_eq!(found.queue_depth, Some(4));
        assert!(!found.kernel.rotational);
        assert_eq!(found.limits.max_sectors.as_u64(), 1024);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |scheduler: &str| checked(&wanted(scheduler)).unwrap_err().to_string();
        let known: Vec<_> = scheduler::schedulers()
            .map(|info| info.facts.name)
            .collect();
        assert_eq!(
            message("bfg"),
            format!(
                "no scheduler is called `bfg` here; there are: {}",
                known.join(", ")
            )
        );
        assert_eq!(message("noop:x=1"), "noop has no tunable `x`; it has: none");
        assert_eq!(
            message("deadline:front_merges=2"),
            "deadline: front_merges cannot be 2: it can be 0 to 1"
        );
        let text = "`fifo_batch` is not of the form tunable=value with a whole number";
        assert_eq!(message("deadline:fifo_batch"), text);
        let hz = SchedulerRequest {
            hz: Some(7),
            ..wanted("noop")
        };
        assert!(
            checked(&hz)
                .unwrap_err()
                .to_string()
                .contains("cannot have 7 ticks")
        );
    }
}
