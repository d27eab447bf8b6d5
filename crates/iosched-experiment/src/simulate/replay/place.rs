//! Where on the disk the devices of a trace lie.

use std::mem::discriminant;

use iosched_machine::failure::Problem;
use iosched_sim::disk::{Model, models};
use iosched_sim::trace::{Labels, Record, Survey};
use iosched_sim::units::{Bytes, Sector, Sectors};

use super::TraceOptions;
use super::error::wrong;

/// Devices that an error names.
const NAMED: usize = 8;

const CHOOSE: &str = "`--trace-device NAME` replays one of them, `--trace-device all` puts them one after the other on the disk";

#[derive(Debug)]
pub(super) struct Placement {
    /// By device: where it begins on the disk, if it is replayed.
    begins: Vec<Option<Sectors>>,
    /// Where the last one ends.
    end: Sectors,
    /// What is beyond this is folded back.
    fold: Option<Sectors>,
}

impl Placement {
    /// One device at the beginning of the disk, or all of them one after the other.
    pub(super) fn new(
        options: &TraceOptions,
        survey: &Survey,
        labels: &Labels,
        (disk, capacity): (&Model, Sectors),
    ) -> Result<Placement, Problem> {
        let count = survey.devices().count();
        if count > 1 && options.device.is_none() {
            let names = survey.devices().map(|(id, _)| labels.device_name(id));
            let names = in_short(names);
            let what = format!("is of {count} devices: {names}");
            return Err(wrong(&options.path, what).hint(CHOOSE));
        }
        let mut begins = vec![None; labels.devices().count()];
        let mut end = Sectors::ZERO;
        for (id, device) in survey.devices() {
            begins[id.0 as usize] = Some(end);
            // No device is longer than what can be counted in bytes; several together can be.
            let sum = end.as_u64().saturating_add(device.end.as_u64());
            end = Sectors::new(sum.min(u64::MAX / 1024));
        }
        if end > capacity && !options.wrap {
            let (reach, ends): (Bytes, Bytes) = (end.to_bytes(), capacity.to_bytes());
            let what = format!("reaches to {reach}, and the disk ends at {ends}");
            let room = room(disk, reach).map_or(String::new(), |room| room + ", ");
            return Err(wrong(&options.path, what).hint(format!(
                "{room}`--wrap` folds what lies beyond the disk's end back onto it (distances change)"
            )));
        }
        Ok(Placement {
            begins,
            end,
            fold: (end > capacity).then_some(capacity),
        })
    }

    /// Where the last device ends.
    pub(super) fn reach(&self) -> Sectors {
        self.end
    }

    /// The record in its place on the disk; nothing if its device is not replayed.
    pub(super) fn place(&self, mut record: Record) -> Option<Record> {
        let begin = (*self.begins.get(record.device.0 as usize)?)?;
        record.start += begin;
        if let Some(capacity) = self.fold {
            record.length = record.length.min(capacity);
            let start = record.start.as_u64() % capacity.as_u64();
            let last = capacity.as_u64() - record.length.as_u64();
            record.start = Sector::new(start.min(last));
        }
        Some(record)
    }
}

/// What makes room for so much: another size of the disk, or the smallest disk of its kind that can be so large.
fn room(disk: &Model, reach: Bytes) -> Option<String> {
    let gib = reach.as_u64().div_ceil(1 << 30);
    let has_room = |disk: &Model| disk.largest() >= Bytes::from_gib(gib);
    if has_room(disk) {
        return Some(format!("`--size {gib}G` makes the disk large enough"));
    }
    let kind = discriminant(&disk.parameters);
    let others = models().into_iter();
    let others = others.filter(|other| discriminant(&other.parameters) == kind && has_room(other));
    let smallest = others.min_by_key(Model::largest)?.name;
    Some(format!("`--disk {smallest} --size {gib}G` is large enough"))
}

/// Why there is no access: the trace has none, or the chosen device has none.
pub(super) fn nothing(options: &TraceOptions, labels: &Labels) -> Problem {
    let names: Vec<&str> = labels.devices().map(|(_, name)| name).collect();
    match &options.device {
        Some(device) if device != "all" && !names.is_empty() => {
            let names = in_short(names.into_iter());
            let what = format!("has no accesses on a device `{device}`; it has: {names}");
            wrong(&options.path, what).hint(CHOOSE)
        }
        _ => wrong(&options.path, "holds no access"),
    }
}

fn in_short<'a>(mut names: impl Iterator<Item = &'a str>) -> String {
    let mut text = names.by_ref().take(NAMED).collect::<Vec<_>>().join(", ");
    if names.next().is_some() {
        text.push_str(", …");
    }
    text
}
