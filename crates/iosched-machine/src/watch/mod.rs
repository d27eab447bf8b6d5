//! What each device does now: counters read again and again, and what they say of the time between.
//!
//! Only reads; needs no rights. How await is split, the block layer's events tell ([`latency`]), where
//! they may be recorded.

pub mod latency;
mod rates;

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use serde::Serialize;

pub use self::rates::{FlowRates, Rates};
use crate::device::Schedulers;
use crate::diskstats::{self, DiskCounters};
use crate::host::Host;
use crate::lossy;
use crate::pressure::Pressure;

/// What was seen between two looks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since 1970 at its end.
    pub unix_s: f64,
    /// How long it was.
    pub elapsed_s: f64,
    /// Share of it in which at least one task waited for I/O (PSI `some`), where the kernel tells.
    pub pressure_some: Option<f64>,
    /// Share of it in which all tasks waited (PSI `full`).
    pub pressure_full: Option<f64>,
    /// Each device, in natural order of names.
    pub devices: Vec<DeviceSample>,
}

/// What a device did between two looks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceSample {
    /// Kernel name.
    pub device: String,
    /// The active scheduler; none where there is nothing to choose.
    pub scheduler: Option<String>,
    /// The schedulers that could be.
    pub offered: Vec<String>,
    /// What it did; none if it is not there (any more), or appeared in this interval.
    pub rates: Option<Rates>,
}

/// Looks at devices again and again.
#[derive(Debug)]
pub struct Watcher {
    host: Host,
    /// Those asked for; empty for all disks that have a size.
    wanted: Vec<String>,
    before: Look,
}

#[derive(Debug)]
struct Look {
    at: Instant,
    counters: BTreeMap<String, DiskCounters>,
    pressure: Option<Pressure>,
}

impl Watcher {
    /// Looks for the first time. `wanted` are kernel names; empty for all disks that have a size,
    /// whenever they appear.
    pub fn new(host: &Host, wanted: Vec<String>) -> io::Result<Watcher> {
        Ok(Watcher {
            before: Look::now(host)?,
            host: host.clone(),
            wanted,
        })
    }

    /// Kernel names of the devices that were asked for.
    pub fn wanted(&self) -> &[String] {
        &self.wanted
    }

    /// Looks again: what happened since the last time.
    pub fn look(&mut self) -> io::Result<Sample> {
        let now = Look::now(&self.host)?;
        let elapsed_s = (now.at - self.before.at).as_secs_f64().max(1e-3);
        let names = if self.wanted.is_empty() {
            disks(&self.host)?
        } else {
            self.wanted.clone()
        };
        let devices = names
            .into_iter()
            .map(|device| self.device(device, &now, elapsed_s));
        let share = |field: fn(&Pressure) -> u64| {
            let waited = field(&now.pressure?).checked_sub(field(&self.before.pressure?))?;
            Some((waited as f64 / 1e6 / elapsed_s).min(1.0))
        };
        let sample = Sample {
            unix_s: crate::clock::unix_time(),
            elapsed_s,
            pressure_some: share(|pressure| pressure.some_us),
            pressure_full: share(|pressure| pressure.full_us),
            devices: devices.collect(),
        };
        self.before = now;
        Ok(sample)
    }

    fn device(&self, device: String, now: &Look, elapsed_s: f64) -> DeviceSample {
        let counters = now
            .counters
            .get(&device)
            .zip(self.before.counters.get(&device));
        let schedulers = Schedulers::of_file(self.host.sysfs().read(&device, "queue/scheduler"));
        DeviceSample {
            rates: counters.map(|(now, then)| Rates::of(&now.since(then), elapsed_s)),
            scheduler: schedulers.active().map(str::to_owned),
            offered: schedulers.offered().to_vec(),
            device,
        }
    }
}

impl Look {
    fn now(host: &Host) -> io::Result<Look> {
        let text = lossy::read(host.proc("diskstats"))?;
        Ok(Look {
            at: Instant::now(),
            counters: diskstats::all(&text),
            pressure: Pressure::read(host),
        })
    }
}

/// Whole devices that have a size: an unused loop device has none.
fn disks(host: &Host) -> io::Result<Vec<String>> {
    let sysfs = host.sysfs();
    let mut names = sysfs.block_devices()?;
    names.retain(|name| {
        sysfs
            .read_if_present(name, "size")
            .is_some_and(|size| size.trim() != "0")
    });
    Ok(names)
}
