//! The main jobs on kernels that lack what came after them: a seccomp filter refuses the newer calls as such a kernel
//! does (`iosched_testing::kernel`), and `results/kernels.md` has every call that the command tried.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;

use iosched_testing::kernel::{Asked, FACILITIES, LINUX_3_10, LINUX_4_19, Version, on};
use iosched_testing::world::own_mounts;
use rustix::process::Signal;

use crate::common::bench::Bench;
use crate::common::checks::names;
use crate::common::lab::stderr;
use crate::common::machine::Machine;
use crate::common::tuning::{MIB, fio_runs_on, signal, small_disk, start};
use crate::common::{
    LoopDevice, Mounted, can_emulate, can_use_loop_devices, has_fio, has_postgres, iosched, lossy,
    processes_with, run, stand_in, wait_until,
};

/// Two rounds of two arms.
const SHORT: &[&str] = &[
    "--arms",
    "none,mq-deadline",
    "--fixed-rounds",
    "2",
    "--no-html",
];

/// A row of `results/kernels.md`.
#[derive(Debug)]
struct Row {
    name: String,
    since: Version,
    /// Where it is asked for, or what for.
    who: String,
    without: String,
}

/// The rows of the table below a heading.
fn documented(heading: &str) -> Vec<Row> {
    let text = include_str!("../../../../results/kernels.md");
    let below = text.split(heading).nth(1).expect("the heading");
    let section = below.split("\n## ").next().expect("its text");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (major, minor) = cells[2].split_once('.').expect("a version");
        Row {
            name: cells[1].trim_matches('`').to_owned(),
            since: (major.parse().unwrap(), minor.parse().unwrap()),
            who: cells[3].to_owned(),
            without: cells[4].to_owned(),
        }
    })
    .collect()
}

const CALLS: &str = "## System calls\n";
/// Does something on both old kernels, and asks of the command's own calls that each is documented.
fn on_old_kernels(job: impl Fn() + Send + Sync) {
    for version in [LINUX_4_19, LINUX_3_10] {
        let ((), asked) = on(version, &job);
        assert_documented(&asked);
    }
}

#[track_caller]
fn assert_documented(asked: &Asked) {
    let rows = documented(CALLS);
    let known: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let ours = asked.get("iosched").into_iter().flatten();
    let unknown: Vec<&String> = ours.filter(|name| !known.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "not in results/kernels.md: {unknown:?}");
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> String {
    let output = iosched().args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        stderr(&output)
    );
    lossy(&output.stdout)
}

/// Measures this target with a load, and reports the record.
#[track_caller]
fn measure(target: &str, load: &[&str]) {
    let records = tempfile::tempdir().unwrap();
    let out = records.path().join("r");
    let out = out.to_str().unwrap();
    succeeds(&[&["tune", target, "--out", out], SHORT, load].concat());
    let answer = succeeds(&["report", out]);
    assert!(answer.contains("Answer: "), "{answer}");
}

#[test]
fn the_table_of_calls_is_the_filters_and_says_where_each_is_asked_for() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for row in documented(CALLS) {
        let facility = FACILITIES.iter().find(|of| of.name == row.name);
        let since = facility.map(|of| of.since);
        assert_eq!(since, Some(row.since), "{}", row.name);
        assert!(!row.without.is_empty(), "{row:?}");
        let file = row
            .who
            .split('`')
            .nth(1)
            .filter(|name| Path::new(name).extension().is_some_and(|kind| kind == "rs"));
        if let Some(file) = file {
            let text = fs::read_to_string(crates.join(file)).unwrap();
            // Names of rustix and of the kernel's headers.
            let names = [
                row.name.as_str(),
                &row.name.replace("renameat2", "renameat_with"),
                &row.name
                    .replace("PR_SET_IO_FLUSHER", "configure_io_flusher_behavior"),
            ];
            assert!(names.iter().any(|name| text.contains(name)), "{row:?}");
        }
    }
}

#[test]
fn disks_are_listed_set_and_taken_back() {
    if !can_use_loop_devices() {
        return;
    }
    on_old_kernels(|| {
        let disk = LoopDevice::new(8 * MIB);
        let before = disk.whole_queue();
        assert!(succeeds(&["list", &disk.name]).contains(&disk.name));
        succeeds(&["set", &disk.name, "bfq", "low_latency=0"]);
        assert_eq!(disk.scheduler(), "bfq");
        succeeds(&["undo"]);
        assert_eq!(disk.whole_queue(), before);
    });
}

#[test]
fn a_raw_disk_is_measured() {
    let Some(_) = small_disk() else { return };
    on_old_kernels(|| {
        let Some(disk) = small_disk() else { return };
        let before = disk.whole_queue();
        measure(&disk.name, &["--runtime", "200ms"]);
        assert_eq!(disk.whole_queue(), before);
    });
}

#[test]
fn a_directory_is_measured_with_fio_a_command_and_a_file_system_of_our_own() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    on_old_kernels(|| {
        let mounted = Mounted::new(256 * MIB);
        let before = mounted.disk.whole_queue();
        let fio = ["--load", "random-read", "--file-size", "16M"];
        let fio = [&fio[..], &["--runtime", "200ms"]].concat();
        measure(mounted.path(), &fio);
        // A process that leaves its session and empties its environment ends with its trial all the same.
        let stray = format!("sleep {}", 3600 + std::process::id());
        let load = format!("command: sh: env -i setsid {stray} & sync");
        measure(mounted.path(), &["--load", &load]);
        let goes_on = || processes_with(&stray);
        assert!(wait_until(|| goes_on().is_empty()), "{:?}", goes_on());
        assert_eq!(mounted.names(), [""; 0]);
        assert_eq!(mounted.disk.whole_queue(), before);

        let disk = LoopDevice::new(512 * MIB);
        let load = "documents-create:threads=2,documents=500";
        measure(
            &disk.name,
            &["--mkfs", "ext4", "--destroy-data", "--load", load],
        );
    });
}

#[test]
fn a_database_is_measured() {
    if !has_postgres() {
        return;
    }
    // Today's OpenSSL, which PostgreSQL has, asks for getrandom and takes nothing else: it does not start on 3.10.
    let ((), asked) = on(LINUX_4_19, || {
        let mounted = Mounted::new(512 * MIB);
        let load = "pgbench:scale=1,clients=4,transactions=25";
        measure(mounted.path(), &["--load", load]);
        assert_eq!(mounted.names(), [""; 0]);
    });
    assert_documented(&asked);
}

/// On an old kernel a file of another user's directory is reached by no link either.
#[test]
fn a_load_of_another_user_reaches_no_file_of_roots() {
    if Bench::new().is_none() {
        return;
    }
    on_old_kernels(|| {
        let Some(bench) = Bench::new() else { return };
        let script = format!(
            "command: sh: cat {}; ln -sfn {} $IOSCHED_SCRATCH/out; true",
            bench.path("private/secret"),
            bench.path("private"),
        );
        let at = bench.mounted.path().to_owned();
        let output = bench.tune(&at, &["--load", &script, "--user", "nobody"]);
        bench.assert_private_is_untouched();
        assert!(output.status.success(), "{}", stderr(&output));
    });
}

#[test]
fn what_a_killed_run_changed_is_restored() {
    let Some(_) = small_disk() else { return };
    on_old_kernels(|| {
        let Some(disk) = small_disk() else { return };
        disk.write("read_ahead_kb", "64");
        let before = disk.whole_queue();
        let dir = tempfile::tempdir().unwrap();
        let arguments = [&disk.name, "--arms", "none,bfq", "--runtime", "500ms"];
        let arguments = [&arguments[..], &["--fixed-rounds", "100"]].concat();
        let mut tune = start(&arguments, &dir.path().join("r"));
        let is_changed = || fio_runs_on(&disk.name) && disk.scheduler() == "bfq";
        assert!(wait_until(is_changed));
        signal(tune.id(), Signal::KILL);
        tune.wait().unwrap();
        assert!(wait_until(|| !fio_runs_on(&disk.name)), "fio goes on");
        succeeds(&["restore"]);
        assert_eq!(disk.whole_queue(), before);
    });
}

#[test]
fn what_a_killed_run_in_a_directory_changed_is_restored() {
    if !can_use_loop_devices() {
        return;
    }
    on_old_kernels(|| {
        let mounted = Mounted::new(64 * MIB);
        let before = mounted.disk.whole_queue();
        let dir = tempfile::tempdir().unwrap();
        let stray = format!("sleep {}", 7200 + std::process::id());
        let load = format!("command: sh: {stray}");
        let arguments = [mounted.path(), "--arms", "bfq,mq-deadline", "--load", &load];
        let mut tune = start(&arguments, &dir.path().join("r"));
        let is_changed =
            || !processes_with(&stray).is_empty() && mounted.disk.scheduler() != "none";
        assert!(wait_until(is_changed));
        assert_ne!(mounted.names(), [""; 0], "a directory of the run's");
        signal(tune.id(), Signal::KILL);
        tune.wait().unwrap();
        succeeds(&["restore"]);
        assert!(wait_until(|| processes_with(&stray).is_empty()));
        assert_eq!(mounted.names(), [""; 0]);
        assert_eq!(mounted.disk.whole_queue(), before);
    });
}

#[test]
fn a_choice_is_kept_checked_and_taken_back_on_a_copied_machine() {
    on_old_kernels(|| {
        // What is given to the kernel's command line is no rule that disks are compared with.
        for (method, scheduler, verdict) in [("udev", "deadline", 2), ("cmdline", "noop", 0)] {
            let machine = Machine::copied("legacy-4.4");
            machine.write("etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\"\n");
            machine.write("run/udev/data/b8:0", "E:ID_SERIAL=WDC_WD10EZEX\n");
            let before = machine.etc();
            let list = machine.succeeds("list", &[]);
            assert!(list.contains("cfq"), "{list}");
            let choice = ["--yes", "--method", method, "sda", scheduler];
            machine.succeeds("persist", &choice);
            assert_ne!(machine.etc(), before);
            let (code, said, error) = machine.run("check", &[]);
            assert_eq!(code, verdict, "sda is at cfq: {said}{error}");
            machine.succeeds("undo", &[]);
            assert_eq!(machine.etc(), before);
        }
    });
}

#[test]
fn an_emulated_disk_is_refused_by_name_and_leaves_nothing() {
    if !can_emulate() {
        return;
    }
    // The command takes the number after the largest that it sees in /sys/block: one that nobody else has. What the
    // kernel really has is in /sys/class/block.
    let largest = 50_000 + std::process::id() % 10_000;
    let shown = tempfile::tempdir().unwrap();
    fs::create_dir(shown.path().join(format!("loop{largest}"))).unwrap();
    own_mounts().unwrap();
    run(
        "mount",
        &["--bind", shown.path().to_str().unwrap(), "/sys/block"],
    );
    let added = format!("/sys/class/block/loop{}", largest + 1);
    on_old_kernels(|| {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("emulated");
        let state = state.to_str().unwrap();
        let create = || -> Output {
            let arguments = [
                "emulate",
                "create",
                "ssd-sata",
                "--size",
                "64M",
                "--state-dir",
            ];
            iosched().args(arguments).arg(state).output().unwrap()
        };
        let output = create();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(10), "{said}");
        assert!(
            said.contains("LOOP_CONFIGURE") && said.contains("hint: "),
            "{said}"
        );
        assert_eq!(names(Path::new(state)), [""; 0]);
        assert!(!Path::new(&added).exists(), "{added} is left");
    });
}

/// A disk measured with this script in the place of fio; the record is `r` in the directory.
fn tune_by(script: &str, disk: &LoopDevice, dir: &Path) -> Output {
    let fio = stand_in(dir, "fio", script);
    iosched()
        .arg("tune")
        .arg("--fio")
        .arg(fio)
        .args([&*disk.name, "--runtime", "200ms", "--out"])
        .arg(dir.join("r"))
        .args(SHORT)
        .output()
        .unwrap()
}

#[test]
fn an_fio_that_is_too_old_is_refused_by_its_version() {
    let Some(disk) = small_disk() else { return };
    let before = disk.scheduler();
    let dir = tempfile::tempdir().unwrap();
    let output = tune_by("#!/bin/sh\necho fio-2.1.10\n", &disk, dir.path());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(10), "{said}");
    let names_it = said.contains("fio is too old: fio-2.1.10, and 3.0 is");
    assert!(
        names_it && said.contains("hint: install a newer one"),
        "{said}"
    );
    assert_eq!(disk.scheduler(), before);
}

/// What comes out of it is other tests' affair: here it is what is asked of the kernel.
#[test]
fn the_other_commands_ask_for_nothing_else_that_is_new() {
    if !can_use_loop_devices() {
        return;
    }
    on_old_kernels(|| {
        let disk = LoopDevice::new(8 * MIB);
        let dir = tempfile::tempdir().unwrap();
        let man = dir.path().join("man");
        for arguments in [
            &["watch", "--once", "-i", "50ms", &disk.name][..],
            &[
                "watch", "--split", "--count", "2", "-i", "50ms", "--json", &disk.name,
            ],
            &["simulate", "--load", "random-read", "--until", "0.1"],
            &["calibrate", "--runs", "1"],
            &["manual", man.to_str().unwrap()],
            &["completions", "bash"],
            &["log"],
            &["check"],
            &["restore", "--dry-run"],
            &["emulate", "models"],
            &["emulate", "list"],
            &["set", &disk.name, "bfq", "--for", "1s"],
        ] {
            let output = iosched().args(arguments).output().unwrap();
            let said = stderr(&output);
            assert!(!said.contains("not implemented"), "{arguments:?}: {said}");
            // 2 of `check`: a disk of this machine is not as its policy says.
            let most = if arguments == ["check"] { 2 } else { 1 };
            let code = output.status.code();
            assert!(
                code.is_some_and(|code| code <= most),
                "{arguments:?}: {said}"
            );
        }
        assert!(wait_until(|| disk.scheduler() == "none"), "it goes back");
    });
}
