//! Readers of disks that users describe, as functions of bytes: for fuzzing.
//!
//! See [`iosched_testing::fuzz`]: what a reader promises, and who runs this list.

use iosched_sim::disk::{Command, DiskModel, DiskOp, Model, ModelOptions};
use iosched_sim::units::{Sector, Sectors, Time};
use iosched_testing::fuzz::{MIB, Target, target, utf8};

/// The readers of this crate.
pub const TARGETS: &[Target] = &[target("disk", disk, 64 * MIB, 300)];

fn disk(bytes: &[u8]) {
    let Some(Ok(model)) = utf8(bytes).map(Model::parse) else {
        return;
    };
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

iosched_testing::replay!(TARGETS);
