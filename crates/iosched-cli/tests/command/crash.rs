//! Commands that were killed, and commands that meet: whatever is left is put back or named, by whichever
//! comes next.
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use iosched_testing::is_root;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use crate::common::tuning::signal;
use crate::common::{iosched, iosched_process};

const LOCK: &str = "/var/lib/iosched/lock";

#[test]
fn who_waits_for_another_command_says_for_whom_and_ctrl_c_ends_it() {
    if !is_root() {
        return;
    }
    // As an older version left it: anybody could open it, and hold it.
    fs::write(LOCK, "").unwrap();
    fs::set_permissions(LOCK, fs::Permissions::from_mode(0o644)).unwrap();
    let held = File::open(LOCK).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let mut waiting = iosched_process()
        .arg("undo")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(waiting.stderr.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert!(
        said.contains(&format!("holds {LOCK}: pid {}", std::process::id())),
        "{said}"
    );
    signal(waiting.id(), Signal::INT);
    assert_eq!(waiting.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    drop(held);
    let mode = fs::metadata(LOCK).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else can hold it from now on");
    iosched().arg("undo").assert().code(1);
}
