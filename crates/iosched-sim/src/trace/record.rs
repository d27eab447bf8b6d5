//! What readers of all formats give: records of accesses, and the names that go with them.

use std::collections::BTreeMap;

use super::error::Cause;
use crate::request::{IoPriority, Op, ProcessId};
use crate::units::{Nanos, Sector, Sectors, Time};

/// Where an access was when it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Submitted by its process (blktrace's Q; every line of formats without events).
    Submitted,
    /// Taken by the driver (D).
    Issued,
    /// Done (C).
    Completed,
}

/// Names a device in [`Labels`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId(pub u32);

/// One access at one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// When, on the trace's own clock.
    pub time: Time,
    /// At which stage.
    pub stage: Stage,
    /// What it does.
    pub op: Op,
    /// Someone waits for it. True where the format does not say.
    pub sync: bool,
    /// First sector.
    pub start: Sector,
    /// How many sectors: at least one.
    pub length: Sectors,
    /// Who submitted it; 0 where the format does not say.
    pub process: ProcessId,
    /// On which device.
    pub device: DeviceId,
    /// How long it took, in formats that say so beside the submission.
    pub response: Option<Nanos>,
}

/// Why a line or a binary record is no access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// An event between submission, issue and completion: allocation, merge, plug, …
    OtherEvent,
    /// A discard, secure erase or write of zeroes: the drive gets no data.
    Discard,
    /// A zone that is reset, finished, opened or closed.
    Zone,
    /// A flush of the drive's cache.
    Flush,
    /// Another command without data.
    NoData,
    /// A command past the scheduler (SCSI commands from user space, …).
    Passthrough,
    /// Something said: a comment, a scheduler's message, the name of a process.
    Message,
    /// Events that the recorder lost, one for each time that it says so.
    Lost,
    /// Totals that a tool appends, headers, empty lines.
    Summary,
    /// A record cut off at the end of the trace.
    CutOff,
}

impl Skip {
    /// Why a request with these letters (`rwbs`) moves no data, unless it does.
    pub(crate) fn of_letters(letters: &[u8]) -> Option<Skip> {
        // A flush before it.
        let letters = match letters {
            [b'F', rest @ ..] if rest.first().is_some_and(|op| b"RWDZN".contains(op)) => rest,
            letters => letters,
        };
        match letters {
            [b'D', ..] | [b'W', b'Z', ..] => Some(Skip::Discard),
            [b'R' | b'W', ..] | [b'Z', b'A', ..] => None,
            [b'Z', ..] => Some(Skip::Zone),
            [b'F', ..] => Some(Skip::Flush),
            _ => Some(Skip::NoData),
        }
    }

    /// All reasons.
    pub(crate) const ALL: [Skip; 10] = [
        Skip::OtherEvent,
        Skip::Discard,
        Skip::Zone,
        Skip::Flush,
        Skip::NoData,
        Skip::Passthrough,
        Skip::Message,
        Skip::Lost,
        Skip::Summary,
        Skip::CutOff,
    ];

    /// For reports.
    pub fn name(self) -> &'static str {
        match self {
            Skip::OtherEvent => "other events",
            Skip::Discard => "discards and writes of zeroes",
            Skip::Zone => "zone operations",
            Skip::Flush => "flushes",
            Skip::NoData => "commands without data",
            Skip::Passthrough => "commands past the scheduler",
            Skip::Message => "messages and comments",
            Skip::Lost => "gaps where the recorder lost events",
            Skip::Summary => "headers, totals and empty lines",
            Skip::CutOff => "cut off at the end",
        }
    }
}

/// How much was skipped, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped([u64; Skip::ALL.len()]);

impl Skipped {
    /// Counts one.
    pub(crate) fn add(&mut self, skip: Skip) {
        self.0[skip as usize] += 1;
    }

    /// Counts all of another one too.
    pub(crate) fn merge(&mut self, other: &Skipped) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// The reasons that occurred, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Skip, u64)> {
        Skip::ALL
            .into_iter()
            .zip(self.0)
            .filter(|(_, count)| *count > 0)
    }
}

/// What is known of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessLabel {
    /// Its name; empty where the trace does not tell.
    pub name: String,
    /// Its priority, where the trace tells.
    pub priority: Option<IoPriority>,
}

/// Most devices and most processes that are told apart: memory does not grow with a trace that names
/// ever new ones.
pub(crate) const MOST_LABELS: usize = 1 << 16;

/// The longest name of a process that is kept, bytes: what is longer is cut.
const LONGEST_PROCESS_NAME: usize = 256;

/// The most bytes of names of devices, all together.
const MOST_DEVICE_BYTES: usize = 16 << 20;

/// Names of devices and processes, as they come up.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    devices: Vec<String>,
    device_bytes: usize,
    by_name: BTreeMap<Vec<u8>, DeviceId>,
    /// The device asked for last: most records are of the same one as the one before.
    last_device: Option<(Vec<u8>, DeviceId)>,
    processes: BTreeMap<ProcessId, ProcessLabel>,
    /// The process named last.
    last_process: Option<ProcessId>,
    /// Writes in `blktrace`'s version 7, and whether one of them has FUA.
    narrow_write: Option<bool>,
}

impl Labels {
    /// The device of this name; nothing if there are too many, or too long ones.
    pub(crate) fn device(&mut self, name: &[u8]) -> Option<DeviceId> {
        if let Some((last, id)) = &self.last_device
            && last == name
        {
            return Some(*id);
        }
        let id = self.find_or_add(name)?;
        self.last_device = Some((name.to_vec(), id));
        Some(id)
    }

    fn find_or_add(&mut self, name: &[u8]) -> Option<DeviceId> {
        if let Some(&id) = self.by_name.get(name) {
            return Some(id);
        }
        let id = DeviceId(u32::try_from(self.devices.len()).ok()?);
        let device_bytes = self.device_bytes + name.len();
        if self.devices.len() == MOST_LABELS || device_bytes > MOST_DEVICE_BYTES {
            return None;
        }
        self.device_bytes = device_bytes;
        self.devices
            .push(String::from_utf8_lossy(name).into_owned());
        self.by_name.insert(name.to_vec(), id);
        Some(id)
    }

    /// The name of a device.
    pub fn device_name(&self, id: DeviceId) -> &str {
        &self.devices[id.0 as usize]
    }

    /// All devices, in the order in which they came up.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceId, &str)> {
        (0..)
            .map(DeviceId)
            .zip(self.devices.iter().map(String::as_str))
    }

    /// Remembers the name of a process, if it has none yet.
    pub(crate) fn name_process(&mut self, process: ProcessId, name: &[u8]) {
        if self.last_process == Some(process) {
            return;
        }
        self.last_process = Some(process);
        let known = self.processes.len() < MOST_LABELS || self.processes.contains_key(&process);
        if known {
            let label = self.processes.entry(process).or_default();
            if label.name.is_empty() {
                let name = &name[..name.len().min(LONGEST_PROCESS_NAME)];
                label.name = String::from_utf8_lossy(name).into_owned();
            }
        }
    }

    /// Remembers a write that `blktrace` recorded in its version 7.
    pub(crate) fn see_write(&mut self, has_fua: bool) {
        *self.narrow_write.get_or_insert(false) |= has_fua;
    }

    /// True for recordings in `blktrace`'s version 7 that have writes, but none with FUA: from Linux 6.19 on, the kernel
    /// leaves FUA requests out of that version.
    pub fn may_lack_fua(&self) -> bool {
        self.narrow_write == Some(false)
    }

    /// Remembers the priority of a process.
    pub(crate) fn set_priority(&mut self, process: ProcessId, priority: IoPriority) {
        if self.processes.len() < MOST_LABELS || self.processes.contains_key(&process) {
            self.processes.entry(process).or_default().priority = Some(priority);
        }
    }

    /// What is known of a process.
    pub fn process(&self, process: ProcessId) -> Option<&ProcessLabel> {
        self.processes.get(&process)
    }
}

/// Where a parser puts what it finds.
pub(crate) struct Sink<'run> {
    pub(crate) records: &'run mut Vec<Record>,
    pub(crate) labels: &'run mut Labels,
    pub(crate) skipped: &'run mut Skipped,
}

impl Sink<'_> {
    pub(crate) fn skip(&mut self, skip: Skip) {
        self.skipped.add(skip);
    }

    pub(crate) fn device(&mut self, name: &[u8]) -> Result<DeviceId, Cause> {
        self.labels
            .device(name)
            .ok_or_else(|| Cause::new("more than 65536 devices"))
    }

    /// Takes a record; discards are counted apart, since they move no data.
    pub(crate) fn push(&mut self, record: Record) {
        match record.op {
            Op::Discard => self.skip(Skip::Discard),
            Op::Read | Op::Write => self.records.push(record),
        }
    }

    /// An access of a format that knows only submissions, and neither processes nor whether
    /// someone waits.
    pub(crate) fn access(
        &mut self,
        time: Time,
        op: Op,
        (start, length): (Sector, Sectors),
        device: DeviceId,
        response: Option<Nanos>,
    ) {
        self.push(Record {
            time,
            stage: Stage::Submitted,
            op,
            sync: true,
            start,
            length,
            process: ProcessId(0),
            device,
            response,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_take_bounded_memory() {
        let mut labels = Labels::default();
        let long = vec![b'x'; 64 << 10];
        for process in (0..).map(ProcessId).take(2 * MOST_LABELS) {
            labels.name_process(process, &long);
        }
        let kept = labels.processes.values().map(|label| label.name.len());
        assert_eq!(kept.sum::<usize>(), MOST_LABELS * LONGEST_PROCESS_NAME);
        let names = (0..1000_u32).map(|number| [&number.to_le_bytes()[..], &long].concat());
        let known = names.filter_map(|name| labels.device(&name)).count();
        assert_eq!(known, MOST_DEVICE_BYTES / (long.len() + 4));
    }
}
