//! Commands that were killed, and commands that meet: whatever is left is put back or named, by whichever
//! comes next.
use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use iosched_testing::is_root;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use crate::common::traced::{self, End, Kind, Way};
use crate::common::tuning::{MIB, SHORTEST, fio_runs_on, record, signal, small_disk, start, tune};
use crate::common::{
    LoopDevice, Mounted, can_use_loop_devices, has_fio, iosched, iosched_process, processes_with,
    run, text, wait_until,
};

const LOCK: &str = "/var/lib/iosched/lock";
const JOURNAL: &str = "/var/lib/iosched/journal";

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
        said.contains(&format!("(pid {}), which holds {LOCK}", std::process::id())),
        "{said}"
    );
    signal(waiting.id(), Signal::INT);
    assert_eq!(waiting.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    drop(held);
    let mode = fs::metadata(LOCK).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else can hold it from now on");
    iosched().arg("undo").assert().code(1);
}

#[test]
fn a_set_that_waited_finds_the_disk_as_it_is_in_its_turn() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let held = File::create(LOCK).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let mut set = iosched_process();
    set.args(["set", &disk.name, "bfq"]);
    set.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut set = set.spawn().unwrap();
    let mut said = String::new();
    let mut errors = BufReader::new(set.stderr.take().unwrap());
    errors.read_line(&mut said).unwrap(); // it waits
    disk.write("scheduler", "kyber");
    drop(held);
    let done = text(&set.wait_with_output().unwrap().stdout);
    let line = format!("{}: kyber -> bfq\n", disk.name);
    assert!(done.starts_with(&line), "{said}{done}");
    iosched().arg("undo").assert().success();
    assert_eq!(disk.scheduler(), "kyber");
}

/// The second has planned, and stands before its lock, when the first begins and is killed: what it would find then is not
/// what was there before.
#[test]
fn a_run_that_waited_for_one_that_was_killed_finds_what_was_there_before_that() {
    let Some(disk) = small_disk() else { return };
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let has_disk_open = || {
        let mut ours = processes_with(second.to_str().unwrap()).into_iter();
        ours.any(|pid| has_open(pid, &disk.path()))
    };
    let was_killed = Cell::new(false);
    let at_lock = |kind| {
        if kind != Kind::Lock || was_killed.get() || !has_disk_open() {
            return;
        }
        was_killed.set(true);
        assert_eq!(disk.scheduler(), "none");
        let arms = ["--arms", "kyber,bfq", "--baseline", "kyber"];
        let long = ["--fixed-rounds", "9", "--runtime", "60s"];
        let mut killed = start(&[&[&*disk.name], &arms[..], &long].concat(), &first);
        // Not before its first trial: it tries each arm out first, and puts that back.
        let began = wait_until(|| fio_runs_on(&disk.name));
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert!(began, "it never began");
        assert!(
            wait_until(|| !fio_runs_on(&disk.name)),
            "it ends with the run"
        );
        assert_ne!(disk.scheduler(), "none", "nobody has put it back");
    };
    let mut command = iosched_process();
    let command = command.args(["tune", &disk.name]).args(SHORTEST);
    let command = command.arg("--out").arg(&second);
    let ended = traced::watch(tempfile::tempfile().unwrap(), command, at_lock);
    assert_eq!(ended.end, End::Exited(0), "{}", ended.stderr);
    assert!(was_killed.get());
    assert_eq!(disk.whole_queue(), before);
    iosched().arg("restore").assert().success();
    assert_eq!(disk.whole_queue(), before);
}

/// It has begun to change the disk when a run comes: that one would take a state for the one before that is going away.
#[test]
fn no_run_begins_on_a_disk_that_an_undo_puts_back() {
    let Some(disk) = small_disk() else { return };
    let before = disk.whole_queue();
    iosched()
        .args(["set", &disk.name, "bfq"])
        .assert()
        .success();
    let changed = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let run = RefCell::new(None);
    let at_change = |kind| {
        if kind == Kind::Rename && run.borrow().is_none() {
            let tuned = tune(&disk.name, &dir.path().join("r"), &[]);
            assert_eq!(disk.whole_queue(), changed);
            *run.borrow_mut() = Some(tuned);
        }
    };
    let mut command = iosched_process();
    let ended = traced::watch(
        tempfile::tempfile().unwrap(),
        command.arg("undo"),
        at_change,
    );
    let (code, _, said) = run
        .into_inner()
        .expect("the undo has written something down");
    assert_eq!(code, 9, "{said}");
    let in_use = format!("{} is in use by iosched (pid {})", disk.name, ended.pid);
    assert!(said.contains(&in_use), "{said}");
    assert_eq!(ended.end, End::Exited(0), "{}", ended.stderr);
    assert_eq!(disk.whole_queue(), before);
}

/// True while a process has this open.
fn has_open(pid: u32, path: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let mut targets = descriptors.flatten().map(|fd| fs::read_link(fd.path()));
    targets.any(|target| target.is_ok_and(|target| target == path))
}

#[test]
fn a_directory_on_a_file_system_that_is_not_mounted_is_kept_in_mind() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let mounted = Mounted::new(256 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let arguments = [mounted.path(), "--file-size", "16M", "--runtime", "60s"];
    let mut tune = start(&arguments, &dir.path().join("r"));
    assert!(wait_until(|| !mounted.names().is_empty()), "it never began");
    tune.kill().unwrap();
    tune.wait().unwrap();
    let unmount = || Command::new("umount").arg(mounted.path()).status();
    let unmounted = wait_until(|| unmount().is_ok_and(|status| status.success()));
    assert!(unmounted, "its processes end with it");

    let foretold = foretold();
    let unmounted = format!("is not mounted on {}", mounted.path());
    assert!(
        foretold.contains("would be kept in the journal"),
        "{foretold}"
    );
    assert!(foretold.contains(&unmounted), "{foretold}");
    for _ in 0..2 {
        let output = iosched().arg("restore").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let hint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let node = mounted.disk.path().display().to_string();
        let expected = format!("{node} is not mounted on {}", mounted.path());
        assert!(said.contains(&expected), "{said}");
        assert!(hint.contains("mount it there"), "{hint}");
    }
    // Another file system in its place is not the one.
    run("mount", &["-t", "tmpfs", "tmpfs", mounted.path()]);
    iosched().arg("restore").assert().code(1);
    run("umount", &[mounted.path()]);

    run(
        "mount",
        &[mounted.disk.path().to_str().unwrap(), mounted.path()],
    );
    let names = mounted.names();
    let foretold = self::foretold();
    let directory = format!("would remove {}/{}", mounted.path(), names[0]);
    assert!(foretold.contains(&directory), "{foretold}");
    assert_eq!(mounted.names(), names, "nothing was touched");
    iosched().arg("restore").assert().success();
    assert_eq!(mounted.names(), [""; 0]);
    // Tracing instances are the kernel's, and not of this test's world: those of commands that other tests have just killed
    // are foretold here, too, until one of them restores.
    let is_nothing_left = || self::foretold().contains("nothing to restore");
    assert!(wait_until(is_nothing_left));
    assert_eq!(fs::read_dir(JOURNAL).unwrap().count(), 0);
}

/// What `restore --dry-run` says.
fn foretold() -> String {
    let output = iosched().args(["restore", "--dry-run"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

#[test]
fn a_record_is_gone_on_with_by_one_command_at_a_time() {
    let Some(disk) = small_disk() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let mut first = start(&[&disk.name, "--runtime", "60s"], &out);
    assert!(wait_until(|| fio_runs_on(&disk.name)), "fio never ran");
    let output = iosched()
        .arg("tune")
        .arg("--resume")
        .arg(&out)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(9), "{stderr}");
    let pid = first.id();
    let writer = format!("is being written by iosched (pid {pid})");
    assert!(stderr.contains(&writer), "{stderr}");
    assert!(stderr.contains("hint: "), "{stderr}");
    let report = || {
        let output = iosched().arg("report").arg(&out).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (goes_on, interrupted) = ("The run goes on", "The run was interrupted");
    let said = report();
    assert!(
        said.contains(goes_on) && !said.contains(interrupted),
        "{said}"
    );
    assert!(!said.contains("--resume"), "{said}");
    signal(pid, Signal::INT);
    assert_eq!(first.wait().unwrap().code(), Some(130));
    let said = report();
    assert!(
        said.contains(interrupted) && !said.contains(goes_on),
        "{said}"
    );
    for line in record(&out) {
        assert!(line.is_object(), "{line}");
    }
}

#[test]
fn a_set_that_is_killed_before_it_hands_over_leaves_no_process() {
    if !can_use_loop_devices() {
        return;
    }
    let disk = LoopDevice::new(8 * MIB);
    let before = disk.whole_queue();
    let mut set = iosched_process();
    set.args(["set", &disk.name, "bfq", "--for", "1h"]);
    // The first gives the journal its name, the second hands it over to the process that waits.
    let run = traced::run(&mut set, |kind| kind == Kind::Rename, 2, Way::Kill);
    assert_eq!(run.end, End::Killed, "{}", run.stderr);
    assert_eq!(disk.scheduler(), "bfq");
    let waits = || processes_with(&format!("revert-after {JOURNAL}/{}", run.pid));
    assert!(wait_until(|| waits().is_empty()), "{:?}", waits());
    let check = iosched().arg("check").output().unwrap();
    let said = text(&check.stderr);
    let left = format!(
        "an interrupted run changed on {} is not put back",
        disk.name
    );
    assert!(said.contains(&left), "{said}");
    assert_ne!(check.status.code(), Some(0), "{said}");
    iosched().arg("restore").assert().success();
    assert_eq!(disk.whole_queue(), before);
    assert_eq!(fs::read_dir(JOURNAL).unwrap().count(), 0);
}

/// What the kernel does for a process goes on for a moment after SIGKILL.
#[test]
fn restore_waits_for_the_end_of_a_run_that_was_killed() {
    let Some(disk) = small_disk() else {
        return;
    };
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    // Whichever comes first, the queue is changed; before its first trial tune tries each out and puts it back.
    let arms = ["--arms", "bfq,kyber", "--baseline", "bfq"];
    let arguments = [&[&*disk.name, "--runtime", "60s"], &arms[..]].concat();
    let mut tune = start(&arguments, &dir.path().join("r"));
    assert!(wait_until(|| fio_runs_on(&disk.name)), "fio never ran");
    let dying = traced::hold_dying(tune.id());
    let mut restore = iosched_process()
        .arg("restore")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300)); // which may be too short to see it: never too long
    assert!(
        restore.try_wait().unwrap().is_none(),
        "it does not end before"
    );
    assert_ne!(disk.whole_queue(), before);
    dying.let_go();
    let restored = restore.wait_with_output().unwrap();
    assert!(restored.status.success(), "{}", text(&restored.stdout));
    assert_eq!(disk.whole_queue(), before);
    tune.wait().unwrap();
}

#[test]
fn a_run_in_another_pid_namespace_is_left_alone_and_named() {
    let Some(disk) = small_disk() else {
        return;
    };
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let mut run = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(iosched_process().get_program())
        .args([
            "tune",
            &disk.name,
            "--arms",
            "bfq,kyber",
            "--runtime",
            "60s",
        ])
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let is_measured = || disk.scheduler() != "none" && fio_runs_on(&disk.name);
    assert!(wait_until(is_measured), "it never began");
    let scheduler = disk.scheduler();
    let output = iosched().arg("restore").output().unwrap();
    let (said, hint) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("still runs, left alone"), "{said}");
    assert!(hint.contains("another pid namespace"), "{hint}");
    for arguments in [&["set", &disk.name, "none"][..], &["tune", &disk.name]] {
        let output = iosched().args(arguments).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(9), "{stderr}");
        assert!(
            !stderr.contains("kill "),
            "its number is another's here: {stderr}"
        );
    }
    assert_eq!(disk.scheduler(), scheduler);
    assert!(fio_runs_on(&disk.name), "its load goes on");
    run.kill().unwrap();
    run.wait().unwrap();
    // Its journal says of itself when it has ended.
    let restore = || iosched().arg("restore").output().unwrap().status.success();
    assert!(wait_until(restore));
    assert_eq!(disk.whole_queue(), before);
}

#[test]
fn signals_that_programs_send_one_another_put_the_disk_back() {
    let Some(disk) = small_disk() else { return };
    let before = disk.whole_queue();
    for end in [Signal::QUIT, Signal::ABORT, Signal::ALARM] {
        let dir = tempfile::tempdir().unwrap();
        let long = ["--arms", "kyber,bfq", "--fixed-rounds=9", "--runtime=60s"];
        let mut tune = start(&[&[&*disk.name], &long[..]].concat(), &dir.path().join("r"));
        let began = wait_until(|| fio_runs_on(&disk.name));
        signal(tune.id(), end);
        assert_eq!(tune.wait().unwrap().code(), Some(130), "{end:?}");
        assert!(began, "it never began");
        assert_eq!(disk.whole_queue(), before, "{end:?}");
    }
}

/// What the run left on the disk is not somebody's choice.
#[test]
fn an_undo_after_a_run_that_was_killed_takes_back_what_was_set_before_it() {
    let Some(disk) = small_disk() else { return };
    let before = disk.whole_queue();
    iosched()
        .args(["set", &disk.name, "bfq"])
        .assert()
        .success();
    let dir = tempfile::tempdir().unwrap();
    let long = ["--arms=kyber,mq-deadline", "--baseline=kyber"];
    let more = ["--fixed-rounds=9", "--runtime=60s"];
    let mut killed = start(
        &[&[&*disk.name], &long[..], &more].concat(),
        &dir.path().join("r"),
    );
    let began = wait_until(|| fio_runs_on(&disk.name));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(began, "it never began");
    assert!(wait_until(|| !fio_runs_on(&disk.name)));
    assert_ne!(disk.scheduler(), "bfq");
    let foretold = iosched().args(["undo", "--dry-run"]).output().unwrap();
    let foretold = text(&foretold.stdout);
    assert!(foretold.contains("back to none"), "{foretold}");
    iosched().arg("undo").assert().success();
    assert_eq!(disk.whole_queue(), before);
    iosched().arg("restore").assert().success();
    assert_eq!(disk.whole_queue(), before);
}

/// A pager that waits, a program that hangs: the run waits for it, too, but not once it is to end.
#[test]
fn a_run_whose_output_nobody_reads_ends_when_it_is_asked_to() {
    if !can_use_loop_devices() {
        return;
    }
    let mounted = Mounted::new(64 * MIB);
    let before = mounted.disk.whole_queue();
    let other = if mounted.disk.scheduler() == "bfq" {
        "none"
    } else {
        "bfq"
    };
    let arms = format!("{other},mq-deadline");
    for (output, end) in [(&[][..], Signal::INT), (&["--json"], Signal::TERM)] {
        let dir = tempfile::tempdir().unwrap();
        let (_reader, writer) = std::io::pipe().unwrap();
        let mut command = iosched_process();
        command
            .args(["tune", mounted.path(), "--load=command: true"])
            .args(["--fixed-rounds=5000", "--no-html", "--arms", &arms])
            .args(output)
            .arg("--out")
            .arg(dir.path().join("r"))
            .stdout(writer.try_clone().unwrap())
            .stderr(writer.try_clone().unwrap());
        let mut tune = command.spawn().unwrap();
        assert!(wait_until(|| mounted.disk.scheduler() == other));
        // Of our own, so that it is ours alone that does not wait.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        let mut filler = File::options();
        let filler =
            std::os::unix::fs::OpenOptionsExt::custom_flags(filler.write(true), libc::O_NONBLOCK);
        let mut filler = filler.open(path).unwrap();
        while std::io::Write::write(&mut filler, b".").is_ok() {}
        signal(tune.id(), end);
        let has_ended = wait_until(|| tune.try_wait().unwrap().is_some());
        if !has_ended {
            tune.kill().unwrap();
        }
        let status = tune.wait().unwrap();
        assert!(has_ended, "it waits for its reader: {output:?}");
        assert_eq!(status.code(), Some(130));
        assert_eq!(mounted.disk.whole_queue(), before);
        assert_eq!(fs::read_dir(JOURNAL).unwrap().count(), 0);
        assert_eq!(mounted.names(), [""; 0]);
    }
}
