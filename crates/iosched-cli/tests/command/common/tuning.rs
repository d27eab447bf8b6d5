//! What the tests of `iosched tune` share: a disk, a short run, a run to be disturbed.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Output, Stdio};

use super::{LoopDevice, can_use_loop_devices, has_fio, iosched, iosched_process, processes_with};

/// 2^20 bytes.
pub(crate) const MIB: u64 = 1 << 20;

/// Arguments for two very short rounds of two arms.
const SHORT: &[&str] = &[
    "--arms",
    "none,mq-deadline",
    "--fixed-rounds",
    "2",
    "--runtime",
    "200ms",
];

/// Arguments for four trials that take next to no time, and no page.
pub(crate) const SHORTEST: &[&str] = &[
    "--arms",
    "none,mq-deadline",
    "--fixed-rounds",
    "2",
    "--runtime",
    "50ms",
    "--no-html",
];

/// A small disk to be measured with fio; says what lacks otherwise.
pub(crate) fn small_disk() -> Option<LoopDevice> {
    (can_use_loop_devices() && has_fio()).then(|| LoopDevice::new(64 * MIB))
}

/// Runs `tune` for [`SHORT`]: exit code, standard output, standard error.
pub(crate) fn tune(target: &str, out: &Path, more: &[&str]) -> (i32, String, String) {
    let output = iosched()
        .arg("tune")
        .arg(target)
        .arg("--out")
        .arg(out)
        .args(SHORT)
        .args(more)
        .output()
        .expect("the command under test");
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8(output.stdout).expect("text"),
        String::from_utf8(output.stderr).expect("text"),
    )
}

/// A command that a test has started. It does not outlive the test, which may fail first.
pub(crate) struct Started(Option<Child>);

impl Started {
    /// Waits for its end, and what it said.
    pub(crate) fn wait_with_output(mut self) -> std::io::Result<Output> {
        self.0.take().expect("it was started").wait_with_output()
    }
}

impl Deref for Started {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it was started")
    }
}

impl DerefMut for Started {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it was started")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts `tune`, to be disturbed.
pub(crate) fn start(arguments: &[&str], out: &Path) -> Started {
    let child = iosched_process()
        .arg("tune")
        .args(arguments)
        .arg("--out")
        .arg(out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command under test");
    Started(Some(child))
}

/// True while some fio has this device open.
pub(crate) fn fio_runs_on(device: &str) -> bool {
    // It may have a root of its own.
    let node = format!("dev/{device}");
    processes_with("fio ").into_iter().any(|pid| {
        fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target.ends_with(&node)))
    })
}

/// Sends a signal.
pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = i32::try_from(pid).expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, signal).expect("it is ours");
}

/// The lines of a record.
pub(crate) fn record(out: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(out.join("record.jsonl")).expect("a record");
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("JSON lines")
}
