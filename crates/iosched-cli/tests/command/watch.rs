//! `iosched watch`: its numbers beside iostat's, and its screen in a real terminal.

use iosched_testing::lacks;
use std::fs;
use std::process::{Child, Command, Stdio};

use crate::common::{
    LoopDevice, can_emulate, can_trace, can_use_loop_devices, iosched, run, wait_until,
};
use iosched_machine::watch::Rates;
use serde_json::Value;

fn has(program: &str, argument: &str) -> bool {
    let found = Command::new(program).arg(argument).output().is_ok();
    if !found {
        lacks(program);
    }
    found
}

/// Made-up counters of a device.
const COUNTERS: &str =
    "1437 93 118248 13370 811 204 101376 15397 9 13630 46123 61 5 12288 107 30 411";

/// Seconds in which they were counted, as `iostat` is told: it reports from the start of the machine on, so
/// that no clock is part of the comparison.
const UPTIME_S: f64 = 1000.0;

/// What `iostat` says of [`COUNTERS`], in a mount namespace where the files that it reads are ours.
fn iostat_of_made_up_counters(device: &str) -> Value {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let ours = |name: &str, text: String| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let stat = ours("stat", format!("{COUNTERS}\n"));
    let all = ours("all", format!("   7       0 {device} {COUNTERS}\n"));
    let uptime = ours("uptime", format!("{UPTIME_S:.2} {UPTIME_S:.2}\n"));
    let script = format!(
        "mount --bind {all} /proc/diskstats && mount --bind {stat} /sys/block/{device}/stat && \
         mount --bind {uptime} /proc/uptime && iostat -x -d -o JSON {device}"
    );
    let output = run("unshare", &["--mount", "sh", "-c", &script]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["sysstat"]["hosts"][0]["statistics"][0]["disk"][0].clone()
}

#[test]
fn its_numbers_are_those_of_iostat() {
    if !can_use_loop_devices() || !has("iostat", "-V") {
        return;
    }
    let disk = LoopDevice::new(1 << 20);
    let theirs = iostat_of_made_up_counters(&disk.name);
    assert_eq!(theirs["disk_device"], disk.name);
    let line = format!("7 0 {} {COUNTERS}", disk.name);
    let counted = iosched_machine::diskstats::counters_of(&line, &disk.name).unwrap();
    let ours = serde_json::to_value(Rates::of(&counted, UPTIME_S)).unwrap();
    // They print hundredths.
    let near = |ours: f64, theirs: &Value, what: &str| {
        let theirs = theirs.as_f64().unwrap();
        let difference = (ours - theirs).abs();
        assert!(difference <= 0.0051, "{what}: {ours} here, {theirs} there");
    };
    for (flow, letter) in [("read", "r"), ("write", "w"), ("discard", "d")] {
        let flow = &ours[flow];
        let number = |name: &str| flow[name].as_f64().unwrap();
        let their = |name: &str| &theirs[name.replacen('r', letter, 1)];
        near(number("await_ns") / 1e6, their("r_await"), "await");
        near(number("mean_bytes") / 1024.0, their("rareq-sz"), "size");
        let merged = &theirs[format!("{letter}rqm")];
        near(number("merged_share") * 100.0, merged, "merged");
        near(number("ios_per_s"), their("r/s"), "per second");
        near(number("bytes_per_s") / 1024.0, their("rkB/s"), "data");
    }
    let number = |name: &str| ours[name].as_f64().unwrap();
    near(number("flush_await_ns") / 1e6, &theirs["f_await"], "flush");
    near(number("queue_length"), &theirs["aqu-sz"], "queue length");
    near(
        number("utilisation") * 100.0,
        &theirs["util"],
        "utilisation",
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
            wait_until(|| self.text().contains(text)),
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
    assert!(wait_until(|| !screen.is_alive()), "q ends it");
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
        let disk = BusyDisk {
            readers: (0..readers).map(read).collect(),
            name: device.trim_start_matches("/dev/").to_owned(),
        };
        let stat = format!("/sys/block/{}/stat", disk.name);
        let reads = || -> Option<u64> {
            let text = fs::read_to_string(&stat).ok()?;
            text.split_ascii_whitespace().next()?.parse().ok()
        };
        let before = reads().unwrap();
        assert!(wait_until(|| reads() > Some(before)), "nobody reads");
        disk
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
fn each_request_that_was_followed_has_a_time_in_the_queue_and_one_at_the_disk() {
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
    assert!(queue > 0.0 && service > 0.0, "{queue} {service}");
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
