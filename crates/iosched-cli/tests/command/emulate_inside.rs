//! Emulated disks with a scheduler of ours inside, on the real kernel: what is written is read again whatever is
//! switched meanwhile, the kernel's events tell whose each access is, and nothing is left of them.
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::Command;

use iosched_machine::capture;
use iosched_machine::host::Host;
use iosched_testing::lacks;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::lab::{Lab, attribute, wait_for};
use crate::common::traced::{self, Kind, Way};
use crate::common::{assert_refused, in_one_line, stderr, stdout};

/// Aligned as direct I/O wants it.
#[repr(align(4096))]
struct Block([u8; 4096]);

fn open_directly(device: &str) -> File {
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(direct);
    options.open(device).unwrap()
}

/// Writes every so many blocks of 4 KiB, each with its number, and reads them again.
fn write_and_read(device: &str, numbers: impl Iterator<Item = u64> + Clone) {
    let file = open_directly(device);
    for number in numbers.clone() {
        let mut block = Block([0; 4096]);
        block.0[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all_at(&block.0, number * 4096).unwrap();
    }
    for number in numbers {
        let mut block = Block([0; 4096]);
        file.read_exact_at(&mut block.0, number * 4096).unwrap();
        assert_eq!(block.0[..8], number.to_le_bytes());
    }
}

/// Accesses whose process is known, and others.
fn attributed(lab: &Lab) -> (u64, u64) {
    let disk = lab.only_disk();
    let count = |name: &str| disk["attributed"][name].as_u64().unwrap();
    (count("known"), count("unknown"))
}

#[test]
fn the_process_of_each_access_is_known() {
    let Some(lab) = Lab::new(&["dd"]) else {
        return;
    };
    if let Some(missing) = capture::missing() {
        return lacks(&missing.to_string());
    }
    let device = lab.create("ssd-sata --size 256M --scheduler cfq");
    write_and_read(&device, 0..1); // whoever looks at a new disk has begun
    let (known, unknown) = attributed(&lab);
    write_and_read(&device, 0..200);
    // Through the page cache, in long requests that the kernel splits and merges.
    let output = Command::new("dd")
        .args(["if=/dev/zero", &format!("of={device}"), "bs=4M", "count=32"])
        .args(["conv=fsync"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let (now_known, now_unknown) = attributed(&lab);
    // 400 of ours, and 128 MiB of dd's in requests of 1 MiB at the most.
    assert!(now_known >= known + 400 + 128, "{known} to {now_known}");
    let id = lab.only_disk()["id"].as_str().unwrap().to_owned();
    let log = std::fs::read_to_string(lab.state_dir().join(id).join("server.log")).unwrap();
    assert_eq!(now_unknown, unknown, "of {}: {log}", now_known - known);
    let ours = format!("iosched-{}-", lab.server_pid());
    lab.remove(&device);
    let left = capture::remains(&Host::live());
    assert!(!left.iter().any(|name| name.contains(&ours)), "{left:?}");
    lab.assert_clean();
}

#[test]
fn a_server_that_does_not_answer_keeps_neither_a_list_nor_a_switch_waiting() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let device = lab.create("null --size 64M --scheduler cfq");
    let server = Pid::from_raw(lab.server_pid().parse().unwrap()).unwrap();
    kill_process(server, Signal::STOP).unwrap();
    // A thread that has taken a question and stops before its answer keeps who asked in the kernel.
    wait_for("all threads of the server to stop", || {
        let tasks = format!("/proc/{}/task", server.as_raw_nonzero());
        std::fs::read_dir(tasks).unwrap().flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.contains(") T ")
        })
    });
    let listed = lab.emulate("list");
    let condition = lab.only_disk()["condition"].clone();
    let set = lab.emulate(&format!("set {device} noop"));
    kill_process(server, Signal::CONT).unwrap();
    assert_refused(&set, 1, ") does not answer");
    let (words, errors) = (stdout(&listed), stderr(&listed));
    assert!(listed.status.success(), "{errors}");
    let row = format!(
        "its server (pid {}) does not answer",
        server.as_raw_nonzero()
    );
    assert!(in_one_line(&words).contains(&row), "{words}");
    assert_eq!(condition, "not_answering");
    wait_for("the server to answer again", || {
        lab.only_disk()["condition"] == "running"
    });
    lab.remove(&device);
    lab.assert_clean();
}

#[test]
fn what_cannot_stand_inside_is_refused_by_name() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let create = "create null --size 8M --scheduler";
    let unknown = "no scheduler is called `anticipatory`";
    lab.refuses(&format!("{create} anticipatory"), 5, unknown);
    lab.refuses(&format!("{create} cfq:slice_idel=0"), 6, "slice_idle");
    lab.assert_clean();
    let device = lab.create("null --size 8M");
    let set = format!("set {device} cfq");
    lab.refuses(&set, 2, "without a scheduler inside");
    lab.remove(&device);
    lab.refuses(&set, 3, "no emulated disk");
}

#[test]
fn whoever_sets_a_scheduler_may_be_killed_at_any_write_and_all_requests_above_are_there() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let device = lab.create("null --size 8M --scheduler cfq");
    assert_eq!(attribute(&device, "queue/nr_requests"), "128");
    for n in 1.. {
        let mut set = lab.command(&format!("set {device} noop"));
        let run = traced::run(&mut set, |kind| kind == Kind::Write, n, Way::Kill);
        wait_for("128 requests", || {
            attribute(&device, "queue/nr_requests") == "128"
        });
        if run.hit.is_none() {
            break;
        }
    }
    lab.remove(&device);
    lab.assert_clean();
}
