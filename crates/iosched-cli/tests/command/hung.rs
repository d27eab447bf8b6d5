//! Beside file systems whose servers do not answer: every command ends, and the disk is as it was.
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::lab::Lab;
use crate::common::tuning::{MIB, SHORTEST};
use crate::common::{Mounted, can_use_loop_devices, has_fio, iosched_process, text, wait_until};

/// A FUSE file system that nobody serves: whoever asks about it waits until this is dropped.
struct Hung {
    at: tempfile::TempDir,
    _connection: File,
}

impl Hung {
    fn new() -> Hung {
        let at = tempfile::tempdir().unwrap();
        let connection = File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .unwrap();
        let number = connection.as_raw_fd();
        let how = format!("fd={number},rootmode=40000,user_id=0,group_id=0\0");
        let how = std::ffi::CString::from_vec_with_nul(how.into()).unwrap();
        let flags = MountFlags::empty();
        mount("hung", at.path(), "fuse.hung", flags, how.as_c_str()).unwrap();
        Hung {
            at,
            _connection: connection,
        }
    }

    fn path(&self) -> &Path {
        self.at.path()
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}

/// Exit code and what it said. Its own patience ends it, and not ours.
fn ended(arguments: &[&str]) -> (Option<i32>, String) {
    let out = tempfile::tempfile().unwrap();
    let mut command = iosched_process();
    command.args(arguments).stdout(out.try_clone().unwrap());
    command.stderr(out.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    let has_ended = wait_until(|| child.try_wait().unwrap().is_some());
    let _ = child.kill();
    let code = child.wait().unwrap().code();
    let mut said = Vec::new();
    std::io::Seek::rewind(&mut &out).unwrap();
    std::io::Read::read_to_end(&mut &out, &mut said).unwrap();
    assert!(has_ended, "{arguments:?} waits: {}", text(&said));
    (code, text(&said))
}

#[test]
fn no_command_waits_for_a_file_system_whose_server_does_not_answer() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let Some(lab) = Lab::new(&[]) else { return };
    lab.create("null --size 64M");
    let server = Pid::from_raw(lab.server_pid().parse().unwrap()).unwrap();
    let mounted = Mounted::new(64 * MIB);
    let disk = &mounted.disk;
    let before = disk.whole_queue();
    let hung = Hung::new();
    kill_process(server, Signal::STOP).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let out = out.to_str().unwrap();
    let node = disk.path();
    let node = node.to_str().unwrap();
    let read = ["--load=random-read", "--file-size=4M", "--out", out];
    let tune = [&["tune", mounted.path()], SHORTEST, &read].concat();
    for arguments in [
        &["list"][..],
        &["list", node],
        &["advise"],
        &["check"],
        &["set", &disk.name, "bfq"],
        &["log"],
        &["undo"],
        &["set", &disk.name, "kyber", "--for", "1h"],
        &["restore"],
        &tune,
        &["report", out],
        &["emulate", "list"],
    ] {
        let (code, said) = ended(arguments);
        let may_fail = ["check", "restore"]; // there is no policy; a server that does not answer is named
        assert!(
            code == Some(0) || may_fail.contains(&arguments[0]),
            "{arguments:?}: {said}"
        );
    }
    let (code, said) = ended(&["persist", &disk.name, "bfq", "--dry-run"]);
    assert_eq!(code, Some(3), "a loop device is not kept: {said}");
    assert_eq!(disk.whole_queue(), before);
    let hung = hung.path().to_str().unwrap();
    let below = format!("--out={hung}/r");
    for arguments in [
        &["tune", hung][..],
        &["tune", node, &below],
        &["set", hung, "bfq"],
        &["report", hung],
    ] {
        let (code, said) = ended(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("its file system does not answer"), "{said}");
    }
    assert_eq!(disk.whole_queue(), before);
    kill_process(server, Signal::CONT).unwrap();
}
