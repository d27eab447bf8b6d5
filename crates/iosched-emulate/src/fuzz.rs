//! Readers of disks that users describe, as functions of bytes: for fuzzing.
//!
//! See [`iosched_testing::fuzz`]: what a reader promises, and who runs this list.

use std::path::Path;

use iosched_sim::disk::{Command, DiskModel, DiskOp, ModelOptions};
use iosched_sim::units::{Sector, Sectors, Time};
use iosched_testing::fuzz::{MIB, NOWHERE, Target, file, files, target, utf8};

use crate::disk_file::{self, disksim};

/// The readers of this crate.
pub const TARGETS: &[Target] = &[
    target("disk", disk, 64 * MIB, 300),
    target("disksim", disksim, 64 * MIB, 300),
];

fn disk(bytes: &[u8]) {
    let parse = |text: &str| disk_file::parse(text, Path::new(NOWHERE));
    let Some(Ok(model)) = utf8(bytes).map(parse) else {
        return;
    };
    let written = disk_file::to_toml(&model);
    let again = parse(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(again, model);
    if let Ok(mut disk) = model.build(&ModelOptions::default()) {
        use_a_little(disk.as_mut());
    }
}

/// Some commands, each of which completes.
fn use_a_little(disk: &mut dyn DiskModel) {
    let end = disk.capacity().as_u64();
    let (mut now, mut completed) = (Time::ZERO, Vec::new());
    let places = [0, end / 2, end.saturating_sub(8), end / 3, end / 3 + 8];
    for (tag, start) in (0..).zip(places) {
        let op = if tag % 2 == 0 {
            DiskOp::Read
        } else {
            DiskOp::Write
        };
        let length = Sectors::new(8.min(end - start));
        let start = Sector::new(start);
        let fua = tag == 3;
        disk.submit(
            now,
            Command {
                tag,
                op,
                start,
                length,
                fua,
            },
        );
        while completed.is_empty() {
            let event = disk.next_event().expect("a command is in the drive");
            now = event.max(now);
            disk.advance(now, &mut completed);
        }
        completed.clear();
    }
}

fn disksim(bytes: &[u8]) {
    for name in ["drive.diskspecs", "drive.model", "drive.seek"] {
        file(name, b"");
    }
    let mut drive = file("drive.diskspecs", b"");
    for (name, body) in files(bytes).take(3) {
        let is_harmless = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
        if is_harmless && name.starts_with("drive.") {
            let path = file(name, body);
            if name.ends_with("diskspecs") {
                drive = path;
            }
        }
    }
    // Where it is not in the file, DiskSim has the bus's time in another one.
    let bus = disksim::BusTimes {
        read_ms: 0.01,
        write_ms: 0.02,
    };
    for bus in [None, Some(bus)] {
        if let Ok(model) = disksim::convert(&drive, bus) {
            disk(disk_file::to_toml(&model).as_bytes());
        }
    }
}

iosched_testing::replay!(TARGETS);
