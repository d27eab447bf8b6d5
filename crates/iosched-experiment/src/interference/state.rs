//! What of the machine's state decides how fast a disk is, and must not change while a load runs.

use std::collections::BTreeMap;
use std::path::Path;

use iosched_machine::host::Host;
use iosched_machine::lossy;

/// A setting that somebody changed while a load ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// The disk; of the machine's own settings the first one.
    pub(crate) device: String,
    /// Below `/sys/block/<device>/`, or a path.
    pub(crate) file: String,
    pub(crate) before: String,
    pub(crate) found: String,
}

/// Attributes of a disk's queue that decide, and are looked at while a load runs, with the scheduler's tunables.
const DECIDING: [&str; 6] = [
    "queue/scheduler",
    "queue/nr_requests",
    "queue/write_cache",
    "queue/rotational",
    "queue/wbt_lat_usec",
    "loop/dio",
];

/// Attributes of the device below its queue.
const OF_DEVICE: [&str; 4] = [
    "device/queue_depth",
    "device/queue_type",
    "device/power/control",
    "ro",
];

/// Of the machine: how much may be dirty, and for how long (`Documentation/admin-guide/sysctl/vm.rst`).
const OF_MEMORY: [&str; 6] = [
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_expire_centisecs",
    "dirty_ratio",
    "dirty_writeback_centisecs",
];

/// By disk and file.
type Values = BTreeMap<(String, String), String>;

/// The state before a load.
#[derive(Debug)]
pub(crate) struct State {
    whole: Values,
    deciding: Values,
    /// The first change that was seen on the way.
    seen: Option<Change>,
}

impl State {
    pub(crate) fn read(host: &Host, disks: &[String]) -> State {
        State {
            whole: whole(host, disks),
            deciding: deciding(host, disks),
            seen: None,
        }
    }

    /// Looks at what decides, so that a change and its undoing are seen.
    pub(crate) fn look(&mut self, host: &Host, disks: &[String]) {
        if self.seen.is_none() {
            self.seen = first_change(&self.deciding, &deciding(host, disks));
        }
    }

    /// What has changed since then, if anything: what was seen on the way comes first.
    pub(crate) fn change(self, host: &Host, disks: &[String]) -> Option<Change> {
        let State {
            whole: then, seen, ..
        } = self;
        seen.or_else(|| first_change(&then, &whole(host, disks)))
    }
}

fn first_change(then: &Values, now: &Values) -> Option<Change> {
    let nothing = String::new();
    let names = then.keys().chain(now.keys());
    names.into_iter().find_map(|name| {
        let before = then.get(name).unwrap_or(&nothing);
        let found = now.get(name).unwrap_or(&nothing);
        let (device, file) = name.clone();
        (before != found).then(|| Change {
            device,
            file,
            before: before.clone(),
            found: found.clone(),
        })
    })
}

fn deciding(host: &Host, disks: &[String]) -> Values {
    let sysfs = host.sysfs();
    let mut values = Values::new();
    for disk in disks {
        let tunables = sysfs.list(disk, "queue/iosched").into_iter();
        let tunables = tunables.filter(|name| iosched_switch::is_tunable(&sysfs, disk, name));
        let files = tunables.map(|name| format!("queue/iosched/{name}"));
        for file in files.chain(DECIDING.map(str::to_owned)) {
            if let Some(value) = sysfs.read_if_present(disk, &file) {
                values.insert((disk.clone(), file), value);
            }
        }
    }
    values
}

fn whole(host: &Host, disks: &[String]) -> Values {
    let sysfs = host.sysfs();
    let mut values = deciding(host, disks);
    for disk in disks {
        let queue = sysfs.list(disk, "queue").into_iter();
        let files = queue.map(|name| format!("queue/{name}"));
        let of_loop = sysfs.list(disk, "loop").into_iter();
        let files = files.chain(of_loop.map(|name| format!("loop/{name}")));
        let files = files.chain(OF_DEVICE.map(str::to_owned));
        // Directories are no values.
        for file in files {
            if let Some(value) = sysfs.read_if_present(disk, &file) {
                values.insert((disk.clone(), file), value);
            }
        }
        let scsi = sysfs.list(disk, "device/scsi_disk").into_iter();
        for file in scsi.map(|name| format!("device/scsi_disk/{name}/cache_type")) {
            if let Some(value) = sysfs.read_if_present(disk, &file) {
                values.insert((disk.clone(), file), value);
            }
        }
    }
    let first = disks.first().cloned().unwrap_or_default();
    let mut machine = |path: String| {
        if let Ok(value) = lossy::read(host.path(Path::new(&path))) {
            values.insert((first.clone(), path), value.trim_end().to_owned());
        }
    };
    for name in OF_MEMORY {
        machine(format!("/proc/sys/vm/{name}"));
    }
    for policy in 0.. {
        let path = format!("/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_governor");
        if !host.path(Path::new(&path)).exists() {
            break;
        }
        machine(path);
    }
    for (mount, options) in mounts(host, disks) {
        values.insert((first.clone(), mount), options);
    }
    values
}

/// The options of each mount of these disks and what stands on them directly, by its place.
fn mounts(host: &Host, disks: &[String]) -> Vec<(String, String)> {
    let text = lossy::read(host.proc("self/mountinfo")).unwrap_or_default();
    let sysfs = host.sysfs();
    let numbers: Vec<String> = disks
        .iter()
        .filter_map(|disk| sysfs.read_if_present(disk, "dev"))
        .collect();
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = fields.get(2)?;
        if !numbers.iter().any(|own| own == number) {
            return None;
        }
        let end = fields.iter().position(|field| *field == "-")?;
        let options = [*fields.get(5)?, fields.get(end + 3).copied().unwrap_or("")];
        Some((format!("mount {}", fields.get(4)?), options.join(" ")))
    };
    text.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_change_is_seen_whether_it_stays_or_was_there_for_a_moment() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        let write = |file: &str, value: &str| {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{value}\n")).unwrap();
        };
        write("sys/block/sda/queue/scheduler", "[none] bfq");
        write("sys/block/sda/queue/write_cache", "write back");
        write("sys/block/sda/queue/read_ahead_kb", "128");
        write("proc/sys/vm/dirty_ratio", "20");
        let disks = ["sda".to_owned()];
        let changes = [
            ("sys/block/sda/queue/read_ahead_kb", "128", "4096", false),
            ("proc/sys/vm/dirty_ratio", "20", "40", false),
            (
                "sys/block/sda/queue/write_cache",
                "write back",
                "write through",
                true,
            ),
        ];
        for (file, before, after, goes_back) in changes {
            let mut state = State::read(&host, &disks);
            state.look(&host, &disks);
            assert_eq!(state.seen, None);
            write(file, after);
            state.look(&host, &disks);
            if goes_back {
                write(file, before);
            }
            let change = state.change(&host, &disks).unwrap();
            assert!(
                file.ends_with(change.file.trim_start_matches('/')),
                "{change:?}"
            );
            assert_eq!((&*change.before, &*change.found), (before, after));
            write(file, before);
        }
        let unchanged = State::read(&host, &disks).change(&host, &disks);
        assert_eq!(unchanged, None);
    }
}
