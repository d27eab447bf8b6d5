//! `iosched watch`: its numbers beside iostat's, and its screen in a real terminal.

use iosched_testing::lacks;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{
    LoopDevice, can_emulate, can_trace, can_use_loop_devices, iosched, iosched_process, run,
    tracing_instances, wait_until,
};
use serde_json::Value;

fn has(program: &str, argument: &str) -> bool {
    let found = Command::new(program).arg(argument).output().is_ok();
    if !found {
        lacks(program);
    }
    found
}

/// Made-up counters of a device, and what they are later.
const BEFORE: &str = "1000 50 80000 9000 500 70 64000 7000 3 12000 30000 40 2 4096 80 9 33";
const AFTER: &str = "1437 93 118248 13370 811 204 101376 15397 9 13630 46123 61 5 12288 107 30 411";

/// Runs a command in a mount namespace of its own where both files that have the counters of a
/// device are ours, and change in the middle of an interval of 2 s.
fn with_made_up_counters(device: &str, directory: &Path, command: &str) -> Value {
    let ours = |name: &str, counters: &str, head: &str| {
        let path = directory.join(name);
        fs::write(&path, format!("{head}{counters}\n")).unwrap();
        path.display().to_string()
    };
    let head = format!("   7       0 {device} ");
    let (stat, stat_after) = (ours("stat", BEFORE, ""), ours("stat.after", AFTER, ""));
    let (all, all_after) = (ours("all", BEFORE, &head), ours("all.after", AFTER, &head));
    let script = format!(
        "mount --bind {all} /proc/diskstats && mount --bind {stat} /sys/block/{device}/stat && \
         {{ {command} & pid=$!; sleep 1; cat {all_after} > {all}; cat {stat_after} > {stat}; \
         wait $pid; }}"
    );
    let output = run("unshare", &["--mount", "sh", "-c", &script]);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn its_numbers_are_those_of_iostat() {
    if !can_use_loop_devices() || !has("iostat", "-V") {
        return;
    }
    let disk = LoopDevice::new(1 << 20);
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let iostat = format!("iostat -x -y -d 2 1 -o JSON {}", disk.name);
    let iostat = with_made_up_counters(&disk.name, dir.path(), &iostat);
    let theirs = &iostat["sysstat"]["hosts"][0]["statistics"][0]["disk"][0];
    assert_eq!(theirs["disk_device"], disk.name);
    let binary = assert_cmd::cargo::cargo_bin!("iosched").display();
    let watch = format!("{binary} watch --once --interval 2s --json {}", disk.name);
    let ours = with_made_up_counters(&disk.name, dir.path(), &watch);
    let ours = &ours["devices"][0]["rates"];
    // Their interval is 2 s to a hundredth; ours to the microsecond, and the shell takes its time.
    let near = |ours: f64, theirs: &Value, what: &str, tolerance: f64| {
        let theirs = theirs.as_f64().unwrap();
        let difference = (ours - theirs).abs();
        assert!(
            difference <= 0.0051 + tolerance * theirs,
            "{what}: {ours} here, {theirs} there"
        );
    };
    for (flow, letter) in [("read", "r"), ("write", "w"), ("discard", "d")] {
        let flow = &ours[flow];
        let number = |name: &str| flow[name].as_f64().unwrap();
        let their = |name: &str| &theirs[name.replacen('r', letter, 1)];
        near(number("await_ns") / 1e6, their("r_await"), "await", 0.0);
        near(
            number("mean_bytes") / 1024.0,
            their("rareq-sz"),
            "size",
            0.0,
        );
        let merged = &theirs[format!("{letter}rqm")];
        near(number("merged_share") * 100.0, merged, "merged", 0.0);
        near(number("ios_per_s"), their("r/s"), "per second", 0.02);
        near(number("bytes_per_s") / 1024.0, their("rkB/s"), "data", 0.02);
    }
    let number = |name: &str| ours[name].as_f64().unwrap();
    near(
        number("flush_await_ns") / 1e6,
        &theirs["f_await"],
        "flush",
        0.0,
    );
    near(
        number("queue_length"),
        &theirs["aqu-sz"],
        "queue length",
        0.02,
    );
    near(
        number("utilisation") * 100.0,
        &theirs["util"],
        "utilisation",
        0.02,
    );
}

/// `iosched watch` in a terminal of its own.
struct Screen {
    socket: String,
}

impl Screen {
    fn new(size: (u16, u16), command: &str) -> Screen {
        let screen = Screen {
            socket: format!("iosched-test-{}-{}", std::process::id(), size.0),
        };
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let arguments = [
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
        ];
        screen.tmux(&[&arguments[..], &[command]].concat());
        screen
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        let output = command.args(["-L", &self.socket]).args(arguments).output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        assert!(
            wait_until(20, || self.text().contains(text)),
            "{text:?} is not on the screen:\n{}",
            self.text()
        );
    }

    fn is_alive(&self) -> bool {
        !self.tmux(&["list-sessions"]).is_empty()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn it_ends_when_its_terminal_is_closed() {
    if !can_use_loop_devices() || !has("tmux", "-V") {
        return;
    }
    let disk = LoopDevice::new(1 << 20);
    let binary = assert_cmd::cargo::cargo_bin!("iosched").display();
    // As under nohup: the signal that says so is not heard.
    let watch = format!("trap '' HUP; {binary} watch -i 200ms {}", disk.name);
    let screen = Screen::new((79, 20), &format!("sh -c \"{watch}\""));
    screen.shows(&format!("{:<8} none", disk.name));
    let command = format!("watch -i 200ms {}", disk.name);
    let running = || !crate::common::processes_with(&format!("iosched {command}")).is_empty();
    assert!(running());
    drop(screen);
    assert!(wait_until(10, || !running()), "it runs without a terminal");
}

#[test]
fn keys_switch_a_scheduler_after_asking() {
    if !can_use_loop_devices() || !has("tmux", "-V") {
        return;
    }
    let disk = LoopDevice::new(1 << 20);
    let binary = assert_cmd::cargo::cargo_bin!("iosched").display();
    let screen = Screen::new((80, 24), &format!("{binary} watch -i 200ms {}", disk.name));
    screen.shows("r_await w_await aqu-sz");
    screen.shows(&format!("{:<8} none", disk.name));
    for (key, shown) in [
        ("s", "none (active)"),
        ("Down", "mq-deadline"),
        ("Enter", "from none to mq-deadline now?"),
        ("n", "nothing was changed"),
    ] {
        screen.press(key);
        screen.shows(shown);
    }
    assert_eq!(disk.scheduler(), "none");
    for key in ["s", "Down", "Enter"] {
        screen.press(key);
    }
    screen.shows("now?");
    screen.press("y");
    screen.shows(&format!("{:<8} mq-deadline", disk.name));
    assert_eq!(disk.scheduler(), "mq-deadline");
    screen.shows("mq-deadline\u{25bc}"); // marked on the history
    screen.tmux(&["resize-window", "-x", "50", "-y", "12"]);
    screen.shows("IO/s   MB/s   await");
    screen.press("?");
    screen.shows("choose a device");
    screen.press("q"); // closes the help
    screen.shows("q quit");
    screen.press("q");
    assert!(wait_until(10, || !screen.is_alive()), "q ends it");
}

#[test]
fn a_device_that_vanishes_is_said_to_be_gone() {
    if !can_emulate() || !has("tmux", "-V") {
        return;
    }
    let output = iosched()
        .args(["emulate", "create", "null", "--json"])
        .output()
        .unwrap();
    let disk: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = disk["device"]
        .as_str()
        .unwrap()
        .trim_start_matches("/dev/")
        .to_owned();
    let binary = assert_cmd::cargo::cargo_bin!("iosched").display();
    let screen = Screen::new((81, 20), &format!("{binary} watch -i 200ms {name}"));
    screen.shows("aqu-sz");
    iosched()
        .args(["emulate", "remove", &name])
        .assert()
        .success();
    screen.shows("gone");
    screen.press("s");
    screen.shows(&format!("{name} is gone"));
    screen.press("C-c");
    assert!(wait_until(10, || !screen.is_alive()), "Ctrl-C ends it");
}

#[test]
fn without_rights_it_reads_and_says_that_it_may_not_switch() {
    if !can_use_loop_devices() || !has("tmux", "-V") {
        return;
    }
    let disk = LoopDevice::new(1 << 20);
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = dir.path().join("iosched");
    fs::copy(assert_cmd::cargo::cargo_bin!("iosched"), &binary).unwrap();
    let as_nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let watch = format!(
        "{as_nobody} {} watch -i 200ms {}",
        binary.display(),
        disk.name
    );
    let screen = Screen::new((82, 20), &watch);
    screen.shows(&format!("{:<8} none", disk.name));
    for key in ["s", "Down", "Enter"] {
        screen.press(key);
    }
    screen.shows("now?");
    screen.press("y");
    screen.shows("root");
    assert_eq!(disk.scheduler(), "none");
    screen.press("l");
    screen.shows("await is not split: ");
    screen.shows("IOPS"); // the counters go on
}

/// An emulated disk that takes 1 ms for each command, one at a time, and readers of it.
struct BusyDisk {
    name: String,
    readers: Vec<Child>,
}

impl BusyDisk {
    fn new(readers: u32) -> BusyDisk {
        let output = iosched().args(["emulate", "create", "fixed"]).output();
        let device = String::from_utf8(output.unwrap().stdout).unwrap();
        let device = device.trim().to_owned();
        let read = |reader: u32| {
            let skip = format!("skip={}", reader * 100_000);
            let input = format!("if={device}");
            let dd = ["dd", &input, "of=/dev/null", "bs=4k", "iflag=direct", &skip];
            Command::new("setpriv")
                .args(["--pdeathsig", "KILL"])
                .args(dd)
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        BusyDisk {
            readers: (0..readers).map(read).collect(),
            name: device.trim_start_matches("/dev/").to_owned(),
        }
    }
}

impl Drop for BusyDisk {
    fn drop(&mut self) {
        for reader in &mut self.readers {
            let _ = reader.kill();
            let _ = reader.wait();
        }
        let remove = ["emulate", "remove", &self.name, "--force"];
        let _ = iosched().args(remove).output();
    }
}

#[test]
fn await_is_the_sum_of_its_parts_and_what_the_disk_does_not_take_waits_in_the_scheduler() {
    if !can_emulate() || !can_trace() {
        return;
    }
    let disk = BusyDisk::new(12);
    let scheduler = ["set", &disk.name, "mq-deadline"];
    assert!(iosched().args(scheduler).output().unwrap().status.success());
    let watch = [
        "watch",
        "--once",
        "--interval",
        "2s",
        "--split",
        "--json",
        &disk.name,
    ];
    let output = iosched().args(watch).output().unwrap();
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let read = &seen["latency"][&disk.name]["read"];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{seen}"));
    let (queue, service) = (number(&read["queue_ns"]), number(&read["service_ns"]));
    let counted = number(&seen["devices"][0]["rates"]["read"]["await_ns"]);
    let ratio = (queue + service) / counted;
    assert!(
        (0.8..1.2).contains(&ratio),
        "{queue} + {service}, counted {counted}"
    );
    // The kernel has eight requests in this scheduler, and four of them in the driver.
    assert!(
        queue > 0.3 * service,
        "half of them wait: {queue} {service}"
    );
    let classes = seen["latency"][&disk.name]["classes"].as_array().unwrap();
    let in_classes: u64 = classes.iter().filter_map(Value::as_u64).sum();
    assert_eq!(Some(in_classes), read["requests"].as_u64());
}

#[test]
fn a_key_shows_where_requests_spend_their_time() {
    if !can_emulate() || !can_trace() || !has("tmux", "-V") {
        return;
    }
    let disk = BusyDisk::new(2);
    let binary = assert_cmd::cargo::cargo_bin!("iosched").display();
    let screen = Screen::new((83, 24), &format!("{binary} watch -i 200ms {}", disk.name));
    screen.shows(&format!("{:<8} ", disk.name)); // a key before the first look is lost
    let pid = screen.tmux(&["list-panes", "-F", "#{pane_pid}"]);
    let pid: u32 = pid.trim().parse().unwrap();
    screen.press("l");
    screen.shows(&format!("{}: latency of requests", disk.name));
    screen.shows("ms = queue");
    screen.shows("\u{2588}"); // the hottest cell of the map
    assert_eq!(tracing_instances(pid).len(), 1);
    screen.tmux(&["resize-window", "-x", "50", "-y", "12"]);
    screen.shows("ms = queue");
    screen.press("l");
    screen.shows("IOPS");
    assert_eq!(tracing_instances(pid), Vec::<String>::new());
    screen.press("l");
    screen.shows("ms = queue");
    screen.press("q");
    assert!(wait_until(10, || !screen.is_alive()), "q ends it");
    assert_eq!(tracing_instances(pid), Vec::<String>::new());
}

#[test]
fn the_kernel_keeps_nothing_of_a_watch_that_was_killed_while_it_traced() {
    if !can_use_loop_devices() || !can_trace() {
        return;
    }
    let disk = LoopDevice::new(1 << 20);
    let mut watch = iosched_process()
        .args(["watch", "--json", "--split", "-i", "200ms", &disk.name])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = watch.id();
    assert!(wait_until(10, || tracing_instances(pid).len() == 1));
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(iosched().arg("restore").output().unwrap().status.success());
    assert_eq!(tracing_instances(pid), Vec::<String>::new());
}

#[test]
fn lines_end_when_they_are_counted_or_nobody_reads() {
    let lines = iosched()
        .args(["watch", "--json", "--count", "3", "-i", "50ms"])
        .output()
        .unwrap();
    let lines: Vec<Value> = String::from_utf8(lines.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    let no_such = iosched()
        .args(["watch", "--once", "no-such-disk"])
        .output()
        .unwrap();
    assert_eq!(no_such.status.code(), Some(3));
}
