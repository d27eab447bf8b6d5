//! Commands that change no setting: they make emulated disks, record the kernel's events, write pages and metrics, or only
//! look.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DRAWN, DRAWN_OF_RUNS, Situation, at_calls};
use crate::common::checks::{self, must, names, processes_here, restore};
use crate::common::lab::Lab;
use crate::common::machine::{Machine, is_unfinished};
use crate::common::traced::{End, Traced};
use crate::common::{
    can_emulate, can_trace, has_fio, iosched_process, lossy, tracing_instances, wait_until,
};

/// `emulate create`, or `emulate remove` after it.
struct Emulate {
    lab: Lab,
    is_removal: bool,
}

impl Emulate {
    fn new(is_removal: bool) -> Option<Emulate> {
        let lab = Lab::new(&[])?;
        Some(Emulate { lab, is_removal })
    }
}

const SMALL_DISK: &str = "null --size 8M";

impl Situation for Emulate {
    fn prepare(&mut self) {
        if self.is_removal {
            self.lab.create(SMALL_DISK);
        }
    }

    fn command(&self) -> Command {
        self.lab.command(&if self.is_removal {
            "remove --all".into()
        } else {
            format!("create {SMALL_DISK}")
        })
    }

    fn holds(&mut self, run: &Traced) -> Result<(), String> {
        if run.end == End::Exited(0) {
            let count = self.lab.list().len();
            let expected = usize::from(!self.is_removal);
            must(count == expected, || format!("there are {count} disks"))?;
        }
        let mut said = String::new();
        // A server that was left goes on, or is about to end by itself.
        let is_cleared = wait_until(|| {
            let output = self.lab.emulate("remove --all --force");
            said = lossy(&output.stdout) + &lossy(&output.stderr);
            output.status.success() && self.lab.remains().is_empty()
        });
        must(is_cleared, || {
            format!("left: {}: {said}", self.lab.remains())
        })
    }
}

#[test]
fn an_emulated_disk_is_there_or_nothing_of_it_whatever_fails() {
    if let Some(mut create) = Emulate::new(false) {
        at_calls("emulate create", DRAWN, &mut create);
    }
}

#[test]
fn an_emulated_disk_is_removed_by_this_command_or_the_next_whatever_fails() {
    if let Some(mut remove) = Emulate::new(true) {
        at_calls("emulate remove", DRAWN, &mut remove);
    }
}

/// `conform --live`: a disk, a load, and a recording of the kernel's events.
struct Live {
    recordings: tempfile::TempDir,
}

impl Situation for Live {
    fn prepare(&mut self) {
        self.recordings = tempfile::tempdir().unwrap();
    }

    fn command(&self) -> Command {
        let mut command = iosched_process();
        command
            .args(["conform", "--live", "--runtime", "200ms", "--seed", "1"])
            .args(["--scheduler", "mq-deadline", "--recordings"])
            .arg(self.recordings.path());
        command
    }

    fn holds(&mut self, run: &Traced) -> Result<(), String> {
        // The server of a disk takes it down itself, unless it had not yet begun.
        let is_cleared = wait_until(|| restore().is_ok() && processes_here().is_empty());
        must(is_cleared, || {
            format!("processes go on: {:?}", processes_here())
        })?;
        let left = tracing_instances(run.pid);
        must(left.is_empty(), || format!("left in tracefs: {left:?}"))?;
        let mut left = names(Path::new("/run/iosched/emulated"));
        // What has no name yet may be made by somebody now; it goes with a later command.
        left.retain(|name| !name.starts_with(".new-"));
        must(left.is_empty(), || format!("left of the disk: {left:?}"))
    }
}

#[test]
fn a_live_comparison_leaves_nothing_whatever_fails() {
    if can_emulate() && has_fio() && can_trace() {
        let recordings = tempfile::tempdir().unwrap();
        // How well this machine agrees is another question.
        let is_sound = &[0, 1];
        super::at_calls_of(
            "conform --live",
            DRAWN_OF_RUNS,
            &mut Live { recordings },
            is_sound,
        );
    }
}

/// `report --html` over a page that is there.
struct Page {
    directory: tempfile::TempDir,
    whole: Option<String>,
}

/// What stood there before.
const OLD: &str = "an old page";

impl Page {
    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn example() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/example-record/record.jsonl")
    }
}

impl Situation for Page {
    fn prepare(&mut self) {
        self.directory = tempfile::tempdir().unwrap();
        fs::create_dir(self.at("record")).unwrap();
        fs::copy(Page::example(), self.at("record/record.jsonl")).unwrap();
        fs::write(self.at("page.html"), OLD).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = iosched_process();
        command.current_dir(self.directory.path());
        command.args(["report", "record", "--html", "page.html"]);
        command
    }

    fn holds(&mut self, run: &Traced) -> Result<(), String> {
        let page = fs::read_to_string(self.at("page.html")).unwrap_or_default();
        let is_old = page == OLD;
        if run.end == End::Exited(0) {
            must(!is_old, || "no page was written".into())?;
            let whole = self.whole.get_or_insert_with(|| page.clone());
            must(page == *whole, || {
                format!("{} bytes, not {}", page.len(), whole.len())
            })?;
        }
        let is_whole = Some(&page) == self.whole.as_ref();
        must(is_old || is_whole, || {
            format!("half a page: {} bytes", page.len())
        })?;
        let record = fs::read(self.at("record/record.jsonl")).unwrap();
        must(record == fs::read(Page::example()).unwrap(), || {
            "the record differs".into()
        })?;
        let left = names(self.directory.path());
        let is_known = |name: &String| ["record", "page.html"].contains(&name.as_str());
        let killed = run.end == End::Killed;
        must(left.iter().all(|name| is_known(name) || killed), || {
            format!("left: {left:?}")
        })
    }
}

#[test]
fn a_page_is_the_old_or_the_new_one_whatever_fails() {
    let directory = tempfile::tempdir().unwrap();
    at_calls(
        "report",
        DRAWN,
        &mut Page {
            directory,
            whole: None,
        },
    );
}

/// `check --textfile` over metrics that are there.
struct Metrics {
    machine: Machine,
    whole: String,
}

impl Metrics {
    fn text(&self) -> String {
        self.machine.read("metrics.prom")
    }
}

impl Situation for Metrics {
    fn prepare(&mut self) {
        self.machine = Machine::two_disks();
        self.machine.succeeds("persist", &["--yes", "sda", "bfq"]);
        self.machine.write("metrics.prom", OLD);
    }

    fn command(&self) -> Command {
        let mut command = iosched_process();
        let file = self.machine.root().join("metrics.prom");
        command
            .args(["check", "--root"])
            .arg(self.machine.root())
            .arg("--textfile")
            .arg(file);
        command
    }

    fn holds(&mut self, run: &Traced) -> Result<(), String> {
        let text = self.text();
        if matches!(run.end, End::Exited(0..=2)) && run.hit.is_none() {
            self.whole.clone_from(&text);
        }
        // Times differ; lines do not.
        let names = |text: &str| -> BTreeMap<String, usize> {
            let lines = text
                .lines()
                .map(|line| line.split([' ', '{']).next().unwrap_or_default());
            lines.fold(BTreeMap::new(), |mut count, name| {
                *count.entry(name.to_owned()).or_default() += 1;
                count
            })
        };
        let is_whole = text == OLD || names(&text) == names(&self.whole);
        must(is_whole, || format!("half: {text}"))?;
        let files = checks::names(self.machine.root());
        let left = files
            .iter()
            .filter(|name| is_unfinished(Path::new(name)))
            .count();
        must(left == 0 || run.end == End::Killed, || {
            format!("left: {files:?}")
        })
    }
}

#[test]
fn metrics_are_the_old_or_the_new_ones_whatever_fails() {
    let machine = Machine::two_disks();
    let mut metrics = Metrics {
        machine,
        whole: String::new(),
    };
    super::at_calls_of("check", DRAWN, &mut metrics, &[0, 1, 2]);
}

/// A command that looks, and changes nothing.
struct Look(&'static [&'static str]);

impl Situation for Look {
    fn prepare(&mut self) {}

    fn command(&self) -> Command {
        let mut command = iosched_process();
        command.args(self.0);
        command
    }

    fn holds(&mut self, _: &Traced) -> Result<(), String> {
        let left = names(Path::new("/var/lib/iosched/journal"));
        must(left.is_empty(), || format!("left in the journal: {left:?}"))
    }
}

#[test]
fn what_only_looks_says_one_error_whatever_fails() {
    for arguments in [
        &["list", "--json"][..],
        &["log"],
        &["watch", "--once", "--interval", "100ms"],
        &[
            "simulate",
            "--load",
            "random-read",
            "--scheduler",
            "none,mq-deadline",
        ],
        &[
            "tune",
            "--simulate",
            "fixed",
            "--arms",
            "none,noop",
            "--fixed-rounds",
            "2",
            "--dry-run",
        ],
    ] {
        at_calls(&arguments.join(" "), DRAWN / 4, &mut Look(arguments));
    }
}
