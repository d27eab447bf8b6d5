//! Runs: `tune` of everything that it can measure, `--resume`, and `restore` after a run that was killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DRAWN, DRAWN_OF_RUNS, Situation, at_calls, at_moments};
use crate::common::checks::{difference, must, names, processes_here, restore};
use crate::common::served::ServedDisk;
use crate::common::traced::{End, Traced, Way};
use crate::common::tuning::{MIB, SHORTEST, fio_runs_on, small_disk, start};
use crate::common::{
    LoopDevice, Mounted, can_emulate, has_fio, has_postgres, iosched, iosched_process,
    tracing_instances, wait_until,
};
use iosched_testing::mounts::own_mounts;
use iosched_testing::world;

/// Where entries of runs are.
const JOURNAL: &str = "/var/lib/iosched/journal";

/// `iosched tune` of a raw disk, of a directory or with a file system of its own; or `--resume` of the first.
struct Tune {
    on: On,
    records: tempfile::TempDir,
    before: BTreeMap<String, String>,
    runs: usize,
}

enum On {
    Raw(LoopDevice),
    Resumed(LoopDevice),
    /// With schedulers of ours inside.
    Served(ServedDisk),
    FileSystem(LoopDevice),
    Directory(Mounted),
    /// With a PostgreSQL server of its own.
    Server(Mounted),
    /// A disk that it makes itself.
    Emulated,
}

impl On {
    /// The disk, if there is one before.
    fn disk(&self) -> Option<&LoopDevice> {
        match self {
            On::Raw(disk) | On::Resumed(disk) | On::FileSystem(disk) => Some(disk),
            On::Directory(mounted) | On::Server(mounted) => Some(&mounted.disk),
            On::Served(_) | On::Emulated => None,
        }
    }
}

impl Tune {
    fn new(on: On) -> Tune {
        if let Some(disk) = on.disk() {
            disk.write("read_ahead_kb", "72");
        }
        let mut tune = Tune {
            before: BTreeMap::new(),
            on,
            records: tempfile::tempdir().unwrap(),
            runs: 0,
        };
        tune.before = tune.queue();
        tune
    }

    /// All of the queue, but for what the kernel finds out by itself when mkfs asks the disk for it.
    fn queue(&self) -> BTreeMap<String, String> {
        if let On::Served(disk) = &self.on {
            return disk.state();
        }
        let mut queue = self
            .on
            .disk()
            .map(LoopDevice::whole_queue)
            .unwrap_or_default();
        queue.remove("write_zeroes_max_bytes");
        queue
    }

    fn out(&self) -> PathBuf {
        self.records.path().join(self.runs.to_string())
    }

    /// A record that lacks all but its first trial.
    fn prepare_record(&self, disk: &LoopDevice) {
        let output = iosched()
            .args(["tune", &disk.name, "--out"])
            .arg(self.out())
            .args(SHORTEST)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let path = self.out().join("record.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let first = lines
            .iter()
            .position(|line| line.contains("\"type\":\"trial\""))
            .unwrap();
        fs::write(path, lines[..=first].concat()).unwrap();
    }
}

impl Tune {
    /// What the command has left running.
    fn processes(&self) -> Vec<String> {
        let mut processes = processes_here();
        if let On::Served(disk) = &self.on {
            let server = format!("{} ", disk.status()["server_pid"]);
            processes.retain(|process| !process.starts_with(&server));
        }
        processes
    }

    /// Nothing is left for `restore`.
    fn is_put_back(&self) -> Result<(), String> {
        let is = self.queue();
        must(is == self.before, || {
            format!("not put back: {}", difference(&is, &self.before))
        })?;
        let left = names(Path::new(JOURNAL));
        must(left.is_empty(), || format!("left in the journal: {left:?}"))
    }

    /// Nothing is left once `restore` was run.
    fn is_as_before(&self) -> Result<(), String> {
        restore()?;
        let is = self.queue();
        must(is == self.before, || {
            format!("not restored: {}", difference(&is, &self.before))
        })?;
        if let On::Directory(mounted) | On::Server(mounted) = &self.on {
            let left = mounted.names();
            must(left.is_empty(), || {
                format!("left in the directory: {left:?}")
            })?;
        }
        if matches!(self.on, On::Served(_)) {
            return Ok(()); // the disk that is measured is there, and mounted
        }
        let mounts = own_mounts();
        let is_mounted = mounts.contains(" /run/iosched/");
        must(!is_mounted, || format!("still mounted:\n{mounts}"))?;
        // The directories that these stand in stay.
        let below = ["mounted", "emulated"].map(|name| Path::new("/run/iosched").join(name));
        let left: Vec<_> = below
            .iter()
            .flat_map(|directory| names(directory))
            .collect();
        must(left.is_empty(), || {
            format!("left in /run/iosched: {left:?}")
        })
    }
}

impl Situation for Tune {
    fn prepare(&mut self) {
        let _ = fs::remove_dir_all(self.out());
        self.runs += 1;
        if let On::Resumed(disk) = &self.on {
            self.prepare_record(disk);
        }
    }

    fn command(&self) -> Command {
        let mut command = iosched_process();
        command.arg("tune");
        match &self.on {
            On::Resumed(_) => {
                command.arg("--no-html").arg("--resume").arg(self.out());
                return command;
            }
            On::Raw(disk) => command.arg(&disk.name),
            On::Served(disk) => {
                let arms = "deadline,cfq:slice_idle=0,kernel/mq-deadline";
                let rest = ["--fixed-rounds", "2", "--runtime", "50ms", "--no-html"];
                command.args([&disk.name, "--arms", arms]).args(rest);
                command.arg("--out").arg(self.out());
                return command;
            }
            On::FileSystem(disk) => command.args([
                &disk.name,
                "--mkfs",
                "ext4",
                &format!("--destroy-data={}", disk.name),
                "--file-size",
                "4M",
            ]),
            On::Directory(mounted) => command.args([mounted.path(), "--file-size", "4M"]),
            On::Server(mounted) => {
                let load = "pgbench:scale=1,clients=2,transactions=25";
                command.args([mounted.path(), "--load", load])
            }
            On::Emulated => &mut command,
        };
        command.args(SHORTEST).arg("--out").arg(self.out());
        command
    }

    fn holds(&mut self, run: &Traced) -> Result<(), String> {
        let is_ended = matches!(run.end, End::Exited(_)) && !is_cut_off(run);
        if is_ended || !matches!(self.on, On::Emulated) {
            let is_free = wait_until(|| self.processes().is_empty());
            must(is_free, || {
                format!("processes go on: {:?}", self.processes())
            })?;
        }
        if is_ended {
            self.is_put_back()?;
        }
        if matches!(self.on, On::Emulated) {
            // The server of a disk takes it down itself, unless it had not yet begun.
            wait_until(|| restore().is_ok() && processes_here().is_empty());
            must(processes_here().is_empty(), || {
                format!("processes go on: {:?}", processes_here())
            })?;
        }
        self.is_as_before()
    }
}

/// True if something failed that it needs to put back what it changed; then it says so, unless it can write nothing
/// any more, and the journal stays.
fn is_cut_off(run: &Traced) -> bool {
    let is_write = |hit: &String| hit.starts_with("Write");
    let is_silent = run.way == Way::FailEver && run.hit.as_ref().is_some_and(is_write);
    is_silent || run.stderr.contains("iosched restore")
}

fn raw() -> Option<Tune> {
    small_disk().map(|disk| Tune::new(On::Raw(disk)))
}

fn resumed() -> Option<Tune> {
    small_disk().map(|disk| Tune::new(On::Resumed(disk)))
}

fn file_system() -> Option<Tune> {
    small_disk().map(|disk| Tune::new(On::FileSystem(disk)))
}

fn directory() -> Option<Tune> {
    small_disk().map(|disk| Tune::new(On::Directory(Mounted::with(disk, &[]))))
}

fn server() -> Option<Tune> {
    has_postgres().then(|| Tune::new(On::Server(Mounted::new(512 * MIB))))
}

fn served() -> Option<Tune> {
    ServedDisk::new("null", "cfq").map(|disk| Tune::new(On::Served(disk)))
}

fn emulated() -> Option<Tune> {
    (can_emulate() && has_fio()).then(|| Tune::new(On::Emulated))
}

/// `restore` after a run that was killed while it measured.
struct Restore {
    tune: Tune,
    killed_pid: u32,
}

impl Situation for Restore {
    fn prepare(&mut self) {
        self.tune.prepare();
        let disk = self.tune.on.disk().expect("it has one");
        // Whichever comes first, the queue is changed.
        let arms = "mq-deadline,mq-deadline:fifo_batch=8";
        let arms = ["--arms", arms, "--baseline", "mq-deadline"];
        let long = ["--runtime", "60s", "--no-html"];
        let mut run = start(
            &[&[&*disk.name], &arms[..], &long].concat(),
            &self.tune.out(),
        );
        assert!(wait_until(|| fio_runs_on(&disk.name)), "fio never ran");
        run.kill().unwrap();
        run.wait().unwrap();
        let has_ended = wait_until(|| !fio_runs_on(&disk.name));
        assert!(has_ended, "it ends with the run");
        self.killed_pid = run.id();
        assert_ne!(self.tune.queue(), self.tune.before);
    }

    fn command(&self) -> Command {
        let mut command = iosched_process();
        command.arg("restore");
        command
    }

    fn holds(&mut self, run: &Traced) -> Result<(), String> {
        if run.end == End::Exited(0) {
            self.tune.is_put_back()?;
        }
        self.tune.is_as_before()?;
        let mut left = Vec::new();
        if Path::new(world::TRACEFS).join("instances").is_dir() {
            left = tracing_instances(self.killed_pid);
        }
        must(left.is_empty(), || format!("left in tracefs: {left:?}"))
    }
}

/// Runs a test again where no process is seen but its own, and says whether this is that time. `restore` looks at each process
/// in `/proc` for a load's: hundreds of the same calls on a busy machine.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "IOSCHED_TEST_ALONE";
    if !iosched_testing::is_root() {
        return false;
    }
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut alone = Command::new("unshare");
    alone.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    alone.arg(std::env::current_exe().unwrap());
    let status = alone
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .status();
    assert!(status.unwrap().success());
    false
}

#[test]
fn restore_of_a_run_is_done_or_not_done_whatever_fails() {
    if !is_alone("faults::runs::restore_of_a_run_is_done_or_not_done_whatever_fails") {
        return;
    }
    if let Some(tune) = raw() {
        let killed_pid = 0;
        at_calls("restore", DRAWN / 2, &mut Restore { tune, killed_pid });
    }
}

#[test]
fn a_run_on_a_raw_disk_ends_as_it_began_whatever_fails() {
    if let Some(mut tune) = raw() {
        at_calls("tune of a disk", DRAWN_OF_RUNS, &mut tune);
    }
}

#[test]
fn a_run_that_goes_on_ends_as_it_began_whatever_fails() {
    if let Some(mut tune) = resumed() {
        at_calls("tune --resume", DRAWN_OF_RUNS, &mut tune);
    }
}

#[test]
fn a_run_with_a_file_system_of_its_own_ends_as_it_began_whatever_fails() {
    if let Some(mut tune) = file_system() {
        at_calls("tune --mkfs", DRAWN_OF_RUNS, &mut tune);
    }
}

#[test]
fn a_run_in_a_directory_ends_as_it_began_whatever_fails() {
    if let Some(mut tune) = directory() {
        at_calls("tune of a directory", DRAWN_OF_RUNS, &mut tune);
    }
}

#[test]
fn a_run_over_schedulers_inside_ends_as_it_began_whatever_fails() {
    if let Some(mut tune) = served() {
        at_calls("tune of a served disk", DRAWN_OF_RUNS / 2, &mut tune);
    }
}

#[test]
fn a_run_over_schedulers_inside_that_is_killed_leaves_nothing() {
    if let Some(mut tune) = served() {
        at_moments("tune of a served disk", &mut tune);
    }
}

#[test]
fn a_run_on_a_raw_disk_that_is_killed_leaves_nothing() {
    if let Some(mut tune) = raw() {
        at_moments("tune of a disk", &mut tune);
    }
}

#[test]
fn a_run_that_goes_on_and_is_killed_leaves_nothing() {
    if let Some(mut tune) = resumed() {
        at_moments("tune --resume", &mut tune);
    }
}

#[test]
fn a_run_with_a_file_system_of_its_own_that_is_killed_leaves_nothing() {
    if let Some(mut tune) = file_system() {
        at_moments("tune --mkfs", &mut tune);
    }
}

#[test]
fn a_run_in_a_directory_that_is_killed_leaves_nothing() {
    if let Some(mut tune) = directory() {
        at_moments("tune of a directory", &mut tune);
    }
}

#[test]
fn a_run_with_a_server_of_its_own_that_is_killed_leaves_nothing() {
    if let Some(mut tune) = server() {
        at_moments("tune with pgbench", &mut tune);
    }
}

#[test]
fn a_run_on_an_emulated_disk_that_is_killed_leaves_nothing() {
    if let Some(mut tune) = emulated() {
        at_moments("tune of an emulated disk", &mut tune);
    }
}
