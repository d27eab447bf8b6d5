//! The history where it cannot be written, and undos that were cut short: what is said is so, and what somebody set since
//! stays.
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::machine::Machine;
use crate::common::tuning::MIB;
use crate::common::{LoopDevice, can_use_loop_devices, iosched, run, text};

const STATE: &str = "/var/lib/iosched";

/// A file system of memory with room for so many files more.
struct Small(PathBuf);

impl Small {
    fn on(at: &Path) -> Small {
        fs::create_dir_all(at).unwrap();
        let node = at.to_str().unwrap();
        run(
            "mount",
            &["-t", "tmpfs", "-o", "size=8m,mode=755", "none", node],
        );
        Small(at.to_owned())
    }

    fn leave_room_for(&self, files: u64) {
        let used = rustix::fs::statvfs(&self.0).unwrap();
        let most = used.f_files - used.f_ffree + files;
        let options = format!("remount,nr_inodes={most}");
        run("mount", &["-o", &options, self.0.to_str().unwrap()]);
    }

    /// Runs a command with room for none, one, two files more, until it succeeds: it needs two at the least, says before that
    /// that nothing is changed, and nothing is.
    fn refuse_until_there_is_room(
        &self,
        command: impl Fn() -> (i32, String, String),
        unchanged: impl Fn(u64),
    ) {
        let mut failures = 0;
        for room in 0.. {
            self.leave_room_for(room);
            let (code, _, errors) = command();
            if code == 0 {
                break;
            }
            failures += 1;
            assert!(
                errors.contains("without a history nothing is changed: make room there"),
                "{errors}"
            );
            unchanged(room);
        }
        assert!(failures >= 2, "{failures}");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        run("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

/// Exit code, standard output, standard error.
fn said(arguments: &[&str]) -> (i32, String, String) {
    let output = iosched().args(arguments).output().unwrap();
    let code = output.status.code().unwrap_or(-1);
    (code, text(&output.stdout), text(&output.stderr))
}

#[test]
fn an_undo_that_cannot_be_written_down_changes_nothing() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let before = disk.whole_queue();
    let small = Small::on(Path::new(STATE));
    assert_eq!(said(&["set", &disk.name, "bfq"]).0, 0);
    let after = disk.whole_queue();
    let unchanged = |room| {
        assert_eq!(disk.whole_queue(), after, "room for {room}");
        let (_, foretold, _) = said(&["undo", "--dry-run"]);
        assert!(
            foretold.starts_with("would take back change 1"),
            "{foretold}"
        );
    };
    small.refuse_until_there_is_room(|| said(&["undo"]), unchanged);
    assert_eq!(disk.whole_queue(), before);
    assert_eq!(said(&["undo"]).0, 1, "there is nothing left");
}

#[test]
fn a_policy_whose_change_cannot_be_written_down_changes_nothing() {
    if !iosched_testing::is_root() {
        return;
    }
    let machine = Machine::two_disks();
    let small = Small::on(&machine.path("var/lib/iosched"));
    machine.write("var/lib/iosched/lock", "");
    fs::create_dir(machine.path("var/lib/iosched/history")).unwrap();
    let before = machine.etc();
    // With room for one, the change can be begun, and not be ended.
    small.refuse_until_there_is_room(
        || machine.run("persist", &["sda", "bfq", "--yes"]),
        |room| assert_eq!(machine.etc(), before, "room for {room}"),
    );
    assert_ne!(machine.etc(), before);
}
