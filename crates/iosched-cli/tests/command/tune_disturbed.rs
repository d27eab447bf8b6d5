//! `iosched tune` when things go wrong: interrupted, killed, interfered with, without room, without its disk.
//! The machine must end as it began, whatever happens.
use std::fs;
use std::process::{Child, Stdio};

use iosched_machine::capture::ForeignIo;
use iosched_machine::host::Host;

use crate::common::tuning::{fio_runs_on, signal, small_disk, start};
use crate::common::{
    can_emulate, has_fio, iosched, iosched_process, processes_with, run, stand_in, wait_until,
};

#[test]
fn a_trial_whose_scheduler_was_changed_by_another_is_void_and_repeated() {
    let Some(disk) = small_disk() else {
        return;
    };
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    // A fio that goes on only when the scheduler was changed.
    let waits = dir.path().join("waits");
    let (begun, changed) = (dir.path().join("begun"), dir.path().join("changed"));
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" != --version ]; then\n  touch {}\n  until [ -e {} ]; do sleep 0.05; done\nfi\n\
         exec fio \"$@\"\n",
        begun.display(),
        changed.display()
    );
    fs::create_dir(&waits).unwrap();
    let fio = stand_in(&waits, "fio", &script);
    let child = iosched_process()
        .args(["tune", &disk.name, "--arms", "none,mq-deadline"])
        .args(["--fixed-rounds", "2", "--runtime", "200ms", "--out"])
        .arg(&out)
        .arg("--fio")
        .arg(fio)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(wait_until(|| begun.exists()), "fio never ran");
    disk.write("scheduler", "kyber");
    fs::write(&changed, "").unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("another process changed queue/scheduler"),
        "{stderr}"
    );
    assert!(stderr.contains("kyber was found"), "{stderr}");
    assert_eq!(disk.whole_queue(), before);
    let text = fs::read_to_string(out.join("record.jsonl")).unwrap();
    assert_eq!(text.matches("\"type\":\"trial\"").count(), 4);
    assert_eq!(text.matches("\"type\":\"void\"").count(), 1);
}

/// Reads a disk while a scheduler is in force on it, until its input ends.
const NEIGHBOUR: &str = r#"
disk=$1 scheduler=$2
(while read -r _; do :; done; kill $$) <&0 &
while :; do
    if grep -qF "[$scheduler]" /sys/block/"$disk"/queue/scheduler; then
        dd if=/dev/"$disk" of=/dev/null bs=1M count=16 iflag=direct 2>/dev/null
    else
        sleep 0.05
    fi
done
"#;

/// One that reads while mq-deadline is.
fn neighbour(disk: &str) -> Child {
    std::process::Command::new("bash")
        .args(["-c", NEIGHBOUR, "neighbour", disk, "mq-deadline"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

fn end(mut neighbour: Child) {
    drop(neighbour.stdin.take());
    neighbour.wait().unwrap();
}

#[test]
fn a_neighbour_that_reads_while_one_arm_runs_is_named_and_nobody_wins() {
    let Some(disk) = small_disk() else {
        return;
    };
    let disks = std::slice::from_ref(&disk.name);
    if ForeignIo::open(&Host::live(), disks, &[]).is_err() {
        return; // an older kernel, or a container
    }
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let neighbour = neighbour(&disk.name);
    let arguments = ["--arms", "none,mq-deadline", "--fixed-rounds", "2"];
    let output = iosched_process()
        .args(["tune", &disk.name, "--runtime", "500ms", "--exit-code"])
        .args(arguments)
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    end(neighbour);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(22), "{said}");
    let answer = said
        .lines()
        .find(|line| line.starts_with("Answer:"))
        .unwrap();
    assert!(answer.contains("disturbed: "), "{said}");
    assert!(
        said.contains("dd (") && said.contains("of the disk's time"),
        "{said}"
    );
    assert_eq!(disk.whole_queue(), before);
    let text = fs::read_to_string(out.join("record.jsonl")).unwrap();
    // What it had begun before a switch may reach into the other arm's trial.
    assert!(text.matches("\"kind\":\"disturbed\"").count() >= 5);
    // Who says that it does not matter has trials that count.
    let output = iosched_process()
        .args([
            "tune",
            &disk.name,
            "--runtime",
            "200ms",
            "--tolerate",
            "io=off",
        ])
        .args(arguments)
        .arg("--out")
        .arg(dir.path().join("tolerated"))
        .output()
        .unwrap();
    assert!(output.status.success());
}

/// As in a container, and on kernels without such events: by what the kernel counted beyond the load's own account.
#[test]
fn where_no_event_tells_a_neighbour_is_seen_by_what_the_load_did_not_read() {
    let Some(disk) = small_disk() else {
        return;
    };
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let neighbour = neighbour(&disk.name);
    let output = std::process::Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(iosched_process().get_program())
        .args(["tune", &disk.name, "--runtime", "500ms", "--exit-code"])
        .args(["--arms", "none,mq-deadline", "--fixed-rounds", "2", "--out"])
        .arg(dir.path().join("r"))
        .env("IOSCHED_IN_CONTAINER", "1")
        .output()
        .unwrap();
    end(neighbour);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(22), "{said}");
    assert!(said.contains("others had"), "{said}");
    assert_eq!(disk.whole_queue(), before);
}

#[test]
fn a_disk_that_breaks_is_not_taken_for_a_bad_scheduler() {
    let Some(disk) = small_disk() else {
        return;
    };
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let child = start(&[&disk.name, "--runtime", "60s"], &dir.path().join("r"));
    assert!(wait_until(|| fio_runs_on(&disk.name)), "fio never ran");
    // The medium goes, and the disk stays as large as it was.
    let file = fs::File::options().write(true).open(disk.file()).unwrap();
    file.set_len(0).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(14), "{stderr}");
    assert!(stderr.contains("cannot be read at byte"), "{stderr}");
    assert_eq!(disk.whole_queue(), before);
}

#[test]
fn ctrl_c_puts_everything_back_and_the_record_can_be_resumed() {
    let Some(disk) = small_disk() else {
        return;
    };
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let child = start(&[&disk.name, "--runtime", "60s"], &dir.path().join("r"));
    assert!(wait_until(|| fio_runs_on(&disk.name)), "fio never ran");
    signal(child.id(), rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(
        stderr.contains("interrupted") && stderr.contains("--resume"),
        "{stderr}"
    );
    assert_eq!(disk.whole_queue(), before);
    assert!(!fio_runs_on(&disk.name));
}

#[test]
fn the_death_of_the_emulated_disks_server_ends_the_run_with_its_cause() {
    if !can_emulate() || !has_fio() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let child = start(&["--runtime", "2s"], &dir.path().join("r"));
    let mut server = 0;
    let is_served = wait_until(|| {
        let output = iosched()
            .args(["emulate", "list", "--json"])
            .output()
            .unwrap();
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let disks = list
            .as_array()
            .cloned()
            .or_else(|| list["disks"].as_array().cloned());
        let ours = disks
            .unwrap_or_default()
            .into_iter()
            .find(|disk| disk["owner_pid"] == child.id());
        let Some(ours) = ours else { return false };
        server = u32::try_from(ours["server_pid"].as_u64().unwrap_or(0)).unwrap();
        server != 0 && ours["device"].as_str().is_some_and(fio_runs_on)
    });
    assert!(is_served, "no trial ran");
    signal(server, rustix::process::Signal::KILL);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(14), "{stderr}");
    assert!(stderr.contains("server has ended"), "{stderr}");
    iosched().arg("restore").assert().success();
    let output = iosched()
        .args(["emulate", "list", "--json"])
        .output()
        .unwrap();
    let list = String::from_utf8(output.stdout).unwrap();
    assert!(
        !list.contains(&format!("\"server_pid\":{server},")),
        "{list}"
    );
}

#[test]
fn a_full_results_directory_ends_the_run_with_its_cause() {
    let Some(disk) = small_disk() else {
        return;
    };
    let before = disk.whole_queue();
    let mount = tempfile::tempdir().unwrap();
    let at = mount.path().to_str().unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=16k", "tmpfs", at]);
    let output = iosched()
        .args([
            "tune",
            &disk.name,
            "--runtime",
            "100ms",
            "--out",
            &format!("{at}/r"),
        ])
        .output()
        .unwrap();
    let remount = ["-t", "tmpfs", "-o", "remount,ro", "tmpfs", at];
    run("mount", &remount);
    let read_only = iosched()
        .args(["tune", &disk.name, "--dry-run"])
        .args(["--out", &format!("{at}/other")])
        .output()
        .unwrap();
    run("umount", &[at]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(12), "{stderr}");
    let said = format!("the results directory {at}/r is full");
    assert!(
        stderr.contains(&said) && stderr.contains("make room"),
        "{stderr}"
    );
    assert_eq!(disk.whole_queue(), before);
    let stderr = String::from_utf8(read_only.stderr).unwrap();
    assert_eq!(read_only.status.code(), Some(12), "{stderr}");
    let hint = "hint: name a directory with --out that can be written";
    assert!(stderr.contains(hint), "{stderr}");
}

#[test]
fn fio_missing_and_fio_hanging_are_said_so() {
    let Some(disk) = small_disk() else {
        return;
    };
    let before = disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let output = iosched()
        .args(["tune", &disk.name, "--out"])
        .arg(dir.path().join("r"))
        .args(["--fio", "/proc/nonexistent"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(10), "{stderr}");
    let said = "--fio /proc/nonexistent: there is no such file";
    assert!(stderr.contains(said), "{stderr}");

    let bin = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo fio-3.33 && exit\nsleep 1000\n";
    let fake = stand_in(bin.path(), "fio", script);
    let output = iosched()
        .args([
            "tune",
            &disk.name,
            "--arms",
            "none,bfq",
            "--runtime",
            "100ms",
            "--timeout",
            "300ms",
            "--out",
        ])
        .arg(dir.path().join("hang"))
        .arg("--fio")
        .arg(&fake)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(13), "{stderr}");
    assert!(stderr.contains("was killed"), "{stderr}");
    assert_eq!(disk.whole_queue(), before);
    assert!(processes_with(fake.to_str().unwrap()).is_empty());
}

#[test]
fn root_runs_no_program_from_a_path_of_somebody_else() {
    let Some(disk) = small_disk() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let ran = dir.path().join("ran");
    let script = format!("#!/bin/sh\ntouch {}\necho fio-3.33\n", ran.display());
    stand_in(dir.path(), "fio", &script);
    for path in [dir.path().to_str().unwrap(), ".", ""] {
        let output = iosched()
            .current_dir(dir.path())
            .env("PATH", path)
            .args(["tune", &disk.name, "--dry-run"])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!ran.exists(), "{path}");
    }
}

#[test]
fn an_arm_that_always_fails_leaves_with_its_error_and_the_others_go_on() {
    let Some(disk) = small_disk() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    // A fio that fails under bfq and is the real one otherwise.
    let script = format!(
        "#!/bin/sh\nif grep -q '\\[bfq\\]' /sys/block/{}/queue/scheduler && [ \"$1\" != --version ]; then\n\
         echo no luck with bfq >&2; exit 1\nfi\nexec fio \"$@\"\n",
        disk.name
    );
    let fio = stand_in(dir.path(), "fio", &script);
    let output = iosched()
        .args([
            "tune",
            &disk.name,
            "--arms",
            "none,mq-deadline,bfq",
            "--fixed-rounds",
            "2",
        ])
        .args(["--runtime", "200ms", "--out"])
        .arg(dir.path().join("r"))
        .arg("--fio")
        .arg(fio)
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        stdout.contains("bfq left: the load failed") && stdout.contains("no luck"),
        "{stdout}"
    );
    let text = fs::read_to_string(dir.path().join("r/record.jsonl")).unwrap();
    assert_eq!(text.matches("\"type\":\"trial\"").count(), 4);
    assert_eq!(text.matches("\"type\":\"void\"").count(), 3);
}
