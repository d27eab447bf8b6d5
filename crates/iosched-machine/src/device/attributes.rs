//! Every file below `queue/` and `queue/iosched/`: its value, its unit, and the kernel's default where
//! that is known.
//!
//! The files are listed, not assumed: they come and go with scheduler and kernel. A default depends
//! on the scheduler, and for times that old code keeps in timer ticks on how many of these the
//! kernel has in a second: what any usual kernel would show counts as the default.

use iosched_facts::kernel::{
    BlockLayer, USUAL_HZ, USUAL_REQUESTS, usual_scheduler_tags, usual_throttling,
};
use iosched_facts::scheduler::{self, SchedulerFacts, TunableInfo};
use serde::Serialize;

use super::Device;
use crate::host::Host;

/// A file below `queue/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attribute {
    /// Its path below the device: `queue/iosched/read_expire`.
    pub path: String,
    /// Its text; absent if it cannot be read.
    pub value: Option<String>,
    /// Why it cannot be read (`wbt_lat_usec` answers EINVAL where no throttling is attached).
    pub error: Option<String>,
    /// The unit of the value, where it has one.
    pub unit: Option<&'static str>,
    /// The kernel's default, where it is known.
    pub default: Option<String>,
    /// True if the default is known and the value differs from it.
    pub differs: bool,
}

/// Reads every file below `queue/` and `queue/iosched/` of a device; none for a partition.
pub fn attributes(host: &Host, device: &Device) -> Vec<Attribute> {
    let Ok(dir) = host.sysfs().open_device(&device.name) else {
        return Vec::new();
    };
    let context = Context {
        device,
        hardware_depth: dir.number("mq/0/nr_tags"),
    };
    let mut attributes = Vec::new();
    for directory in ["queue", "queue/iosched"] {
        let mut files = dir.list(directory);
        files.sort();
        for file in files {
            let path = format!("{directory}/{file}");
            let (value, error) = match dir.try_bytes(&path) {
                Ok(bytes) => (
                    Some(String::from_utf8_lossy(&bytes).trim().to_owned()),
                    None,
                ),
                Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => continue,
                Err(error) => (None, Some(error.to_string())),
            };
            let known = if directory == "queue" {
                context.of_queue(&file)
            } else {
                context.of_scheduler(&file)
            };
            let differs = value
                .as_ref()
                .is_some_and(|value| !known.defaults.is_empty() && !known.defaults.contains(value));
            attributes.push(Attribute {
                path,
                value,
                error,
                unit: known.unit,
                default: known.defaults.into_iter().next(),
                differs,
            });
        }
    }
    attributes
}

/// What is known of a file: its unit, and the values that count as its default, the usual one first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) unit: Option<&'static str>,
    pub(super) defaults: Vec<String>,
}

impl Known {
    fn none() -> Known {
        Known::default()
    }

    fn unit(unit: &'static str) -> Known {
        Known {
            unit: Some(unit),
            defaults: Vec::new(),
        }
    }

    fn value(default: u64) -> Known {
        Known {
            unit: None,
            defaults: vec![default.to_string()],
        }
    }

    /// A time that the kernel keeps in ticks, as a fraction of a second, shown in milliseconds.
    fn ticks(divisor: u64) -> Known {
        let mut defaults = vec![(1000 / divisor).to_string()];
        for per_second in USUAL_HZ.map(u64::from) {
            let ticks = (per_second / divisor).max(1); // never none at all
            let shown = (ticks * 1000 / per_second).to_string();
            if !defaults.contains(&shown) {
                defaults.push(shown);
            }
        }
        Known {
            unit: Some("ms"),
            defaults,
        }
    }
}

/// What defaults depend on.
struct Context<'a> {
    device: &'a Device,
    hardware_depth: Option<u64>,
}

impl Context<'_> {
    /// Files of the queue itself.
    fn of_queue(&self, file: &str) -> Known {
        let known = match file {
            "nr_requests" => self.default_requests(),
            // What stands on other disks sets these after them.
            "iostats" | "rq_affinity" if self.schedules() => Known::value(1),
            "nomerges" if self.schedules() => Known::value(0),
            "wbt_lat_usec" => self.default_write_back_throttling(),
            _ => Known::none(),
        };
        Known {
            unit: unit_of_queue(file),
            ..known
        }
    }

    /// `none` holds what the hardware takes; a scheduler twice that, of at most 128. The legacy path
    /// holds 128.
    fn default_requests(&self) -> Known {
        match (self.device.schedulers.active(), self.hardware_depth) {
            (Some(_), Some(depth)) if self.active_is(|info| info.direct) => Known::value(depth),
            (Some(_), None) if self.is_legacy() => Known::value(USUAL_REQUESTS as u64),
            (Some(_), Some(depth)) => {
                let depth = usize::try_from(depth).unwrap_or(usize::MAX);
                Known::value(usual_scheduler_tags(depth) as u64)
            }
            _ => Known::none(),
        }
    }

    /// True for a disk with a queue of requests, false for md, LVM, crypt and their like.
    fn schedules(&self) -> bool {
        self.device.schedulers.choice().is_some()
    }

    /// By what the disk says of itself; bfq turns it off. The legacy path has it only where it was
    /// built in on purpose.
    fn default_write_back_throttling(&self) -> Known {
        match (self.device.schedulers.active(), self.device.rotational) {
            _ if self.active_is(|info| info.disables_wbt) => Known::value(0),
            _ if self.is_legacy() => Known::none(),
            (None, _) | (_, None) => Known::none(),
            (_, Some(rotational)) => Known::value(usual_throttling(rotational).as_nanos() / 1000),
        }
    }

    /// What is known of the active scheduler; false if nothing is.
    fn active_is(&self, what: fn(&SchedulerFacts) -> bool) -> bool {
        let active = self.device.schedulers.active();
        let info = active.and_then(scheduler::find);
        info.is_some_and(what)
    }

    /// The active scheduler belongs to kernels before 5.0.
    fn is_legacy(&self) -> bool {
        self.active_is(|info| info.block_layer == BlockLayer::SingleQueue)
    }

    /// Tunables of the active scheduler.
    fn of_scheduler(&self, file: &str) -> Known {
        let Some(scheduler) = self.device.schedulers.active() else {
            return Known::none();
        };
        let tunables = tunables_of(scheduler).unwrap_or_default();
        match tunables.iter().find(|tunable| tunable.name == file) {
            Some(tunable) => of_tunable(tunable),
            None => Known::none(),
        }
    }
}

/// The unit of a file of the queue, where it has one.
pub(super) fn unit_of_queue(file: &str) -> Option<&'static str> {
    let is_size = || {
        ["_bytes", "_size", "_granularity"]
            .iter()
            .any(|end| file.ends_with(end))
    };
    Some(match file {
        "nr_requests" | ASYNC_DEPTH => "requests",
        "wbt_lat_usec" => "us",
        "io_timeout" => "ms",
        "chunk_sectors" => "sectors",
        "dma_alignment" | "virt_boundary_mask" => "mask",
        _ if file.ends_with("_kb") => "KiB",
        _ if is_size() => "bytes",
        _ => return None,
    })
}

/// The tunables of a scheduler; `None` of one that nobody knows here.
pub fn tunables_of(scheduler: &str) -> Option<&'static [TunableInfo]> {
    scheduler::find(scheduler).map(|info| info.tunables)
}

/// What is known of a scheduler's tunable. Unit and default are those that it is simulated with, but where a kernel's
/// ticks or its other settings have a say.
pub(super) fn of_tunable(tunable: &TunableInfo) -> Known {
    if tunable.name == ASYNC_DEPTH {
        return Known::unit("requests");
    }
    if tunable.in_ticks {
        return Known::ticks(1000 / tunable.default.unsigned_abs().max(1));
    }
    Known {
        unit: Some(tunable.unit).filter(|unit| !unit.is_empty()),
        defaults: [Some(tunable.default), tunable.rotational]
            .into_iter()
            .flatten()
            .flat_map(|default| [default.to_string(), format!("{default:#x}")])
            .collect(),
    }
}

/// Its default follows `nr_requests`; kernels have it as a file of the scheduler or of the queue.
const ASYNC_DEPTH: &str = "async_depth";

#[cfg(test)]
mod tests {
    use super::super::fixture::{LoopDevice, machine};
    use super::super::{Inventory, find};
    use super::*;

    #[test]
    fn times_kept_in_ticks_have_a_default_for_every_usual_tick() {
        assert_eq!(Known::ticks(8).defaults, ["125", "123", "124", "120"]);
        assert_eq!(Known::ticks(125).defaults, ["8", "6", "10"]);
    }

    #[test]
    fn what_the_copied_machines_changed_and_nothing_else_differs_from_the_default() {
        let mut differing = Vec::new();
        for name in iosched_testing::machine_tree::names() {
            let host = machine(&name);
            for device in &Inventory::read(&host).unwrap().devices {
                for attribute in attributes(&host, device) {
                    if attribute.differs {
                        differing.push(format!("{name} {} {}", device.name, attribute.path));
                    }
                }
            }
        }
        assert_eq!(
            differing,
            [
                "legacy-4.4 sda queue/iosched/slice_idle",
                "newest-7.0 vda queue/iosched/lat_target_write",
                "workstation sda queue/nr_requests",
                "workstation sda queue/iosched/fifo_batch",
            ]
        );
    }

    #[test]
    fn this_kernels_own_defaults_are_those_of_our_table() {
        let Some(device) = LoopDevice::new(64) else {
            return;
        };
        let host = Host::live();
        let offered = find(&host, &device.name).unwrap().schedulers;
        for scheduler in offered.offered() {
            host.sysfs()
                .write(&device.name, "queue/scheduler", scheduler)
                .unwrap();
            let device = find(&host, &device.name).unwrap();
            assert_eq!(device.schedulers.active(), Some(scheduler.as_str()));
            for attribute in attributes(&host, &device) {
                assert!(
                    !attribute.differs || attribute.path == "queue/wbt_lat_usec",
                    "{scheduler}: {attribute:?}"
                );
                let known = ["none", "mq-deadline", "kyber", "bfq"].contains(&scheduler.as_str());
                let has_default = !attribute.path.ends_with(ASYNC_DEPTH);
                if known && has_default && attribute.path.starts_with("queue/iosched/") {
                    assert!(attribute.default.is_some(), "{scheduler}: {attribute:?}");
                }
            }
        }
    }
}
