//! Emulated disks with a scheduler of ours inside, on the real kernel: what is written is read again whatever is
//! switched meanwhile, the kernel's events tell whose each access is, and nothing is left of them.
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Child, Command, Stdio};
use std::thread;

use iosched_machine::capture;
use iosched_machine::file_system::{FileSystemKind, OwnFileSystem};
use iosched_machine::host::Host;
use iosched_testing::lacks;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::lab::{Lab, attribute, stderr, stdout, wait_for};
use crate::common::traced::{self, Kind, Way};
use crate::common::{LoopDevice, in_one_line, iosched_process, processes_with, run, wait_until};

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
fn what_is_written_is_read_again_whichever_scheduler_comes_meanwhile() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let device = lab.create(&[
        "ssd-sata",
        "--size",
        "64M",
        "--scheduler",
        "cfq:slice_idle=0",
    ]);
    assert_eq!(lab.only_disk()["scheduler"], "cfq:slice_idle=0");
    let writers: Vec<_> = (0..4_u64)
        .map(|first| {
            let device = device.clone();
            let numbers = (0..400).map(move |place| place * 4 + first);
            thread::spawn(move || write_and_read(&device, numbers))
        })
        .collect();
    lab.set_each_inside(&device);
    for writer in writers {
        writer.join().unwrap();
    }
    lab.remove(&[&device]);
    lab.assert_clean();
}

#[test]
fn the_process_of_each_access_is_known() {
    let Some(lab) = Lab::new(&["dd"]) else {
        return;
    };
    if let Some(missing) = capture::missing() {
        return lacks(&missing.to_string());
    }
    let device = lab.create(&["ssd-sata", "--size", "256M", "--scheduler", "cfq"]);
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
    lab.remove(&[&device]);
    let left = capture::remains(&Host::live());
    assert!(!left.iter().any(|name| name.contains(&ours)), "{left:?}");
    lab.assert_clean();
}

#[test]
fn a_disk_whose_server_was_killed_gives_errors_and_leaves_nothing() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let device = lab.create(&["hdd-7200", "--size", "64M", "--scheduler", "cfq"]);
    let server = lab.server_pid();
    let file = open_directly(&device);
    lab.kill_server();
    let set = lab.emulate(&["set", &device, "noop"]);
    assert_eq!(set.status.code(), Some(1), "{}", stderr(&set));
    assert!(stderr(&set).contains("is gone"), "{}", stderr(&set));
    let mut block = Block([0; 4096]);
    let error = file.read_exact_at(&mut block.0, 0).unwrap_err();
    assert_eq!(
        error.raw_os_error(),
        Some(rustix::io::Errno::IO.raw_os_error())
    );
    drop(file);
    wait_for("the end of whoever else looks at the disk", || {
        lab.emulate(&["remove", "--all"]).status.success() && lab.remains().is_empty()
    });
    let host = Host::live();
    let ours = format!("iosched-{server}-");
    let left = capture::remains(&host);
    assert!(!left.iter().any(|name| name.contains(&ours)), "{left:?}");
}

#[test]
fn a_scheduler_that_cannot_be_noted_does_not_come() {
    let Some(lab) = Lab::new(&["mount"]) else {
        return;
    };
    let state_dir = lab.state_dir();
    fs::create_dir(&state_dir).unwrap();
    let options = ["-t", "tmpfs", "-o", "size=1m,mode=700", "none"];
    run(
        "mount",
        &[&options[..], &[state_dir.to_str().unwrap()]].concat(),
    );
    let device = lab.create(&["null", "--size", "64M", "--scheduler", "cfq"]);
    let full = state_dir.join(".full");
    let mut file = File::create(&full).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    drop(file);
    let set = lab.emulate(&["set", &device, "noop"]);
    let words = stderr(&set);
    assert_eq!(set.status.code(), Some(1), "{words}");
    assert!(
        words.contains("nothing was changed: cannot write the state in "),
        "{words}"
    );
    assert!(
        words.contains("cfq stands inside still: make room there"),
        "{words}"
    );
    assert_eq!(lab.only_disk()["scheduler"], "cfq");
    let is_inside = |scheduler: &str| {
        let log = fs::read_to_string(lab.only_dir().join("server.log")).unwrap();
        log.contains(&format!("the scheduler inside is {scheduler}"))
    };
    assert!(!is_inside("noop"));
    write_and_read(&device, 0..10); // it serves on
    fs::remove_file(&full).unwrap();
    let set = lab.emulate(&["set", &device, "deadline"]);
    assert!(set.status.success(), "{}", stderr(&set));
    assert!(is_inside("deadline"));
    assert_eq!(lab.only_disk()["scheduler"], "deadline");
    lab.remove(&[&device]);
    run("umount", &[state_dir.to_str().unwrap()]);
    lab.assert_clean();
}

#[test]
fn a_server_that_does_not_answer_keeps_neither_a_list_nor_a_switch_waiting() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let device = lab.create(&["null", "--size", "64M", "--scheduler", "cfq"]);
    let server = Pid::from_raw(lab.server_pid().parse().unwrap()).unwrap();
    kill_process(server, Signal::STOP).unwrap();
    let listed = lab.emulate(&["list"]);
    let condition = lab.only_disk()["condition"].clone();
    let set = lab.emulate(&["set", &device, "noop"]);
    kill_process(server, Signal::CONT).unwrap();
    assert_eq!(set.status.code(), Some(1), "{}", stderr(&set));
    assert!(
        stderr(&set).contains(") does not answer"),
        "{}",
        stderr(&set)
    );
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
    lab.remove(&[&device]);
    lab.assert_clean();
}

#[test]
fn a_disk_that_does_not_answer_keeps_nobody_from_looking_for_another() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let host = Host::live();
    let gone = LoopDevice::new(8 << 20);
    let of_a_run = OwnFileSystem::choose(&host, &gone.name, FileSystemKind::Ext4);
    drop(gone);
    let device = lab.create(&["null", "--size", "64M", "--scheduler", "cfq"]);
    let server = Pid::from_raw(lab.server_pid().parse().unwrap()).unwrap();
    kill_process(server, Signal::STOP).unwrap();
    let looking = thread::spawn(move || of_a_run.bearer(&host));
    let is_found = wait_until(|| looking.is_finished());
    kill_process(server, Signal::CONT).unwrap();
    looking.join().unwrap();
    assert!(is_found, "{device} was waited for");
    lab.remove(&[&device]);
    lab.assert_clean();
}

#[test]
fn a_disk_whose_maker_is_gone_before_it_is_there_goes_too() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    // A maker that dies sooner leaves a directory, one that dies later a disk: `remove` is for these.
    wait_for("a server that is stopped before its disk is there", || {
        let mut maker = Maker::start(&lab);
        let server = Maker::server(&lab);
        kill_process(server, Signal::STOP).unwrap();
        let is_there = lab.state_dir().join("hdd-7200-1/state.json").exists();
        maker.kill();
        kill_process(server, Signal::CONT).unwrap();
        if is_there {
            lab.remove(&["--all"]);
        }
        !is_there
    });
    wait_for("the end of the disk", || lab.remains().is_empty());
}

/// `emulate create` of a disk whose path is measured for a while.
struct Maker(Child);

impl Maker {
    fn start(lab: &Lab) -> Maker {
        let mut maker = iosched_process();
        maker.args(["emulate", "create", "hdd-7200", "--size", "64M"]);
        maker.args(["--scheduler", "cfq", "--state-dir"]);
        maker.arg(lab.state_dir());
        let maker = maker.stdout(Stdio::null()).stderr(Stdio::null());
        Maker(maker.spawn().unwrap())
    }

    /// The process that is to be the disk, once it is.
    fn server(lab: &Lab) -> Pid {
        let place = lab.state_dir().join("hdd-7200-1");
        let place = place.to_str().unwrap();
        let mut server = None;
        wait_for("the server", || {
            server = processes_with(place).first().copied();
            server.is_some()
        });
        Pid::from_raw(server.unwrap().cast_signed()).unwrap()
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn under_none_processes_wait_above_for_as_many_tags_as_the_disk_has() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let requests = |device: &str| attribute(device, "queue/nr_requests");
    let set = |device: &str, scheduler: &str| {
        let set = lab.emulate(&["set", device, scheduler]);
        assert!(set.status.success(), "{}", stderr(&set));
    };
    let create = [
        "hdd-7200",
        "--size",
        "64M",
        "--queue-depth",
        "8",
        "--scheduler",
    ];
    let device = lab.create(&[&create[..], &["none"]].concat());
    assert_eq!(requests(&device), "8");
    set(&device, "noop"); // which has requests of its own
    assert_eq!(requests(&device), "128");
    write_and_read(&device, 0..4);
    set(&device, "none");
    assert_eq!(requests(&device), "8");
    lab.remove(&[&device]);
    lab.assert_clean();
}

#[test]
fn what_cannot_stand_inside_is_refused_by_name() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let refused = |args: &[&str], code: i32, words: [&str; 2]| {
        let output = lab.emulate(args);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        for word in words {
            assert!(stderr(&output).contains(word), "{}", stderr(&output));
        }
    };
    let create = ["create", "null", "--size", "8M", "--scheduler"];
    refused(
        &[&create[..], &["anticipatory"]].concat(),
        5,
        [
            "no scheduler is called `anticipatory`",
            "noop, deadline, cfq",
        ],
    );
    refused(
        &[&create[..], &["cfq:slice_idel=0"]].concat(),
        6,
        ["slice_idel", "slice_idle"],
    );
    lab.assert_clean();
    let device = lab.create(&["null", "--size", "8M"]);
    refused(
        &["set", &device, "cfq"],
        2,
        ["without a scheduler inside", "--scheduler cfq"],
    );
    lab.remove(&[&device]);
    let gone = lab.emulate(&["set", &device, "cfq"]);
    assert_eq!(gone.status.code(), Some(3), "{}", stderr(&gone));
}

#[test]
fn whoever_sets_a_scheduler_may_be_killed_at_any_write_and_all_requests_above_are_there() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let device = lab.create(&["null", "--size", "8M", "--scheduler", "cfq"]);
    assert_eq!(attribute(&device, "queue/nr_requests"), "128");
    for n in 1.. {
        let mut set = iosched_process();
        set.args(["emulate", "set", &device, "noop", "--state-dir"]);
        set.arg(lab.state_dir());
        let run = traced::run(&mut set, |kind| kind == Kind::Write, n, Way::Kill);
        wait_for("128 requests", || {
            attribute(&device, "queue/nr_requests") == "128"
        });
        if run.hit.is_none() {
            break;
        }
    }
    lab.remove(&[&device]);
    lab.assert_clean();
}

#[test]
fn a_scheduler_whose_requests_the_queue_above_does_not_take_does_not_stay() {
    let Some(lab) = Lab::new(&["mount"]) else {
        return;
    };
    let device = lab.create(&["null", "--size", "8M", "--scheduler", "cfq"]);
    let stand_in = lab.state_dir().join(".four");
    fs::write(&stand_in, "4\n").unwrap();
    let requests = device.replace("/dev/", "/sys/block/") + "/queue/nr_requests";
    run("mount", &["--bind", stand_in.to_str().unwrap(), &requests]);
    run("mount", &["-o", "remount,bind,ro", &requests]);
    let set = lab.emulate(&["set", &device, "noop"]);
    run("umount", &[&requests]);
    let words = stderr(&set);
    assert_eq!(set.status.code(), Some(1), "{words}");
    let name = device.trim_start_matches("/dev/");
    let cause = format!("cannot set queue/nr_requests of {name} as noop needs it");
    assert!(in_one_line(&words).contains(&cause), "{words}");
    assert!(words.contains("cfq stands inside"), "{words}");
    assert_eq!(lab.only_disk()["scheduler"], "cfq");
    let set = lab.emulate(&["set", &device, "noop"]);
    assert!(set.status.success(), "{}", stderr(&set));
    fs::remove_file(&stand_in).unwrap();
    lab.remove(&[&device]);
    lab.assert_clean();
}

#[test]
fn a_disk_that_was_made_in_another_time_namespace_is_removed_from_here() {
    let Some(lab) = Lab::new(&["unshare"]) else {
        return;
    };
    let elsewhere = ["--time", "--boottime", "1000000", "--fork"];
    let is_possible = Command::new("unshare").args(elsewhere).arg("true").output();
    if !is_possible.unwrap().status.success() {
        return lacks("time namespaces (Linux 5.6, util-linux 2.36)");
    }
    let mut create = Command::new("unshare");
    create
        .args(elsewhere)
        .arg(iosched_process().get_program())
        .args(["emulate", "create", "null", "--size", "8M", "--state-dir"])
        .arg(lab.state_dir());
    let created = create.output().unwrap();
    assert!(created.status.success(), "{}", stderr(&created));
    let device = stdout(&created).trim_end().to_owned();
    lab.remove(&[&device]);
    lab.assert_clean();
}
