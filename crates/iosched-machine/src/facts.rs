//! Facts of the machine that a record carries, so that a result can be judged later: kernel,
//! processors, memory, fio, and every setting of each measured disk.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::capture;
use crate::device::Device;
use crate::host::Host;
use crate::lossy;
use crate::sysfs::Sysfs;

/// What a record says of the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineFacts {
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub architecture: String,
    /// The host's name.
    pub hostname: String,
    /// Processors online.
    pub cpus: usize,
    /// Memory.
    pub memory_bytes: u64,
    /// Processes that ran or waited for a disk over about the minute before: the load average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_average: Option<f64>,
    /// fio's version.
    pub fio: Option<String>,
    /// The programs that its loads ran, with their versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Why the block layer's events could not be recorded; none where they could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_tracing: Option<String>,
    /// The file system that the loads' files are on (`ext4`); none for a raw device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<String>,
    /// Each measured disk.
    pub disks: Vec<DiskFacts>,
}

/// What a record says of a disk, before anything was changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskFacts {
    /// Kernel name.
    pub device: String,
    /// Model as the device says it.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// World-wide name.
    pub wwn: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// How it is attached, as `iosched list` has it: `sata`, `nvme`; not in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// True of a hypervisor's disk; not in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_virtual: Option<bool>,
    /// Requests that it takes at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// Size.
    pub size_bytes: u64,
    /// Every readable file of `queue/`, by name.
    pub queue: BTreeMap<String, String>,
}

/// The command that runs, to be repeated; what of it is no UTF-8 is replaced.
pub fn command_line() -> Vec<String> {
    let words = std::env::args_os();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

impl MachineFacts {
    /// Looks at the machine and at these devices (kernel names). `programs` are those that the loads
    /// run, with their versions.
    pub fn read(host: &Host, devices: &[String], programs: Vec<String>) -> MachineFacts {
        let uname = rustix::system::uname();
        let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
        MachineFacts {
            kernel: text(uname.release()),
            architecture: text(uname.machine()),
            hostname: text(uname.nodename()),
            cpus: std::thread::available_parallelism().map_or(1, Into::into),
            memory_bytes: memory_bytes(host),
            load_average: load_average(host),
            fio: programs
                .iter()
                .find(|name| name.starts_with("fio-"))
                .cloned(),
            programs,
            no_tracing: capture::missing().map(|error| error.to_string()),
            file_system: None,
            disks: devices
                .iter()
                .map(|device| DiskFacts::read(host, device))
                .collect(),
        }
    }
}

impl MachineFacts {
    /// What makes trials here not comparable with trials there, in words.
    pub fn difference_that_matters(&self, other: &MachineFacts) -> Option<String> {
        if self.hostname != other.hostname {
            return Some(format!(
                "host {} there, {} here",
                other.hostname, self.hostname
            ));
        }
        if self.kernel != other.kernel {
            return Some(format!(
                "kernel {} there, {} here",
                other.kernel, self.kernel
            ));
        }
        if self.disks.len() != other.disks.len() {
            let [there, here] = [other, self].map(|facts| facts.disks.len());
            return Some(format!("disks: {there} there, {here} here"));
        }
        self.disks
            .iter()
            .zip(&other.disks)
            .find_map(|(here, there)| {
                let same = (&here.model, &here.serial, here.size_bytes)
                    == (&there.model, &there.serial, there.size_bytes);
                let is_renamed = here.wwn.is_some() && there.wwn.is_some() && here.wwn != there.wwn;
                (!same || is_renamed).then(|| format!("{} is another disk now", there.device))
            })
    }
}

impl DiskFacts {
    fn read(host: &Host, device: &str) -> DiskFacts {
        let sysfs = &host.sysfs();
        let known = Device::read(host, device).ok();
        let first = |files: &[&str]| {
            files
                .iter()
                .find_map(|file| sysfs.read_if_present(device, file))
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let sectors: u64 = first(&["size"])
            .and_then(|size| size.parse().ok())
            .unwrap_or(0);
        DiskFacts {
            device: device.into(),
            model: first(&["device/model"]),
            serial: first(&["device/serial", "serial"]),
            wwn: first(&["wwid", "device/wwid"]),
            firmware: firmware(sysfs, device),
            transport: known.as_ref().map(|known| known.transport.to_string()),
            is_virtual: known.as_ref().map(Device::is_virtual),
            queue_depth: known.as_ref().and_then(|known| known.queue_depth),
            size_bytes: sectors * 512,
            queue: sysfs
                .list(device, "queue")
                .into_iter()
                .filter_map(|name| {
                    let value = sysfs.read_if_present(device, &format!("queue/{name}"))?;
                    Some((name, value))
                })
                .collect(),
        }
    }
}

/// The first number of `/proc/loadavg` (`proc_loadavg(5)`).
fn load_average(host: &Host) -> Option<f64> {
    let text = lossy::read(host.proc("loadavg")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

fn memory_bytes(host: &Host) -> u64 {
    lossy::read(host.proc("meminfo"))
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(0, |kib| kib * 1024)
}
/// A disk's firmware revision, wherever its driver keeps it.
pub fn firmware(sysfs: &Sysfs, device: &str) -> Option<String> {
    ["device/firmware_rev", "device/rev", "device/fwrev"]
        .iter()
        .find_map(|file| sysfs.read_if_present(device, file))
        .map(|text| text.trim().to_owned())
}
