//! A directory over its life: measured, interrupted, killed and gone on with, while its file system is unmounted, comes
//! under another name, or its users change their files. Those stay as they are, and nothing of ours stays.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::disk::LifeOfDisk;
use super::runs::{
    self, INTERRUPTED, Kernel, Recorded, Records, is_killed, nothing_is_left, recorded, restore,
};
use super::{LIVES_OF_RUNS, Life, live, seeds};
use crate::common::chance::Chance;
use crate::common::checks::{names, processes_here};
use crate::common::traced::{End, Traced};
use crate::common::tuning::MIB;
use crate::common::{
    LoopDevice, Mounted, can_use_loop_devices, iosched, lossy, run as run_tool, wait_until,
};

const JOURNAL: &str = "/var/lib/iosched/journal";

/// What its run writes.
const LOAD: &str =
    "dd if=/dev/zero of=\"$IOSCHED_SCRATCH/file\" bs=64k count=1 conv=fsync status=none";

/// A directory that is a mount point on another disk: where it is not mounted, that one is below it.
struct LifeOfDirectory {
    settings: LifeOfDisk,
    /// Another disk of the same size, for its name.
    spare: LoopDevice,
    /// Dropped after what is mounted in it.
    below: Mounted,
    is_mounted: bool,
    /// What its users have in it.
    files: BTreeMap<String, Vec<u8>>,
    kernel: Kernel,
    records: Records,
    /// Records to go on with, and the names that their disks had.
    unfinished: Vec<(PathBuf, String)>,
}

impl LifeOfDirectory {
    fn new() -> LifeOfDirectory {
        let settings = LifeOfDisk::new(LoopDevice::new(16 * MIB));
        let node = settings.disk.path().display().to_string();
        run_tool("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0", &node]);
        let life = LifeOfDirectory {
            settings,
            spare: LoopDevice::new(16 * MIB),
            below: Mounted::new(16 * MIB),
            is_mounted: false,
            files: BTreeMap::new(),
            kernel: Kernel::new(),
            records: Records::new(),
            unfinished: Vec::new(),
        };
        fs::create_dir(life.point()).unwrap();
        let mut life = life;
        life.mount();
        life
    }

    fn point(&self) -> PathBuf {
        self.below.at.join("data")
    }

    fn mount(&mut self) {
        if !self.is_mounted {
            let node = self.settings.disk.path();
            let point = self.point();
            let [node, point] = [&node, &point].map(|path| path.to_str().unwrap());
            run_tool("mount", &[node, point]);
            self.is_mounted = true;
        }
    }

    fn unmount(&mut self) {
        if self.is_mounted {
            assert!(wait_until(|| processes_here().is_empty()));
            run_tool("umount", &[self.point().to_str().unwrap()]);
            self.is_mounted = false;
        }
    }

    fn new_run(&mut self, chance: &mut Chance) {
        // Elsewhere it would measure what is below.
        self.mount();
        let (number, out) = self.records.next();
        let device = self.settings.disk.name.clone();
        self.settings.told.push(format!("run {number}"));
        let mut command = runs::tune(&self.point(), LOAD, &out);
        let run = runs::run(&mut command, chance, &mut self.settings.told);
        self.is_as_it_must_be(&run, true, chance);
        self.keep_if_unfinished(out, device, &run);
    }

    fn resume(&mut self, chance: &mut Chance) {
        if self.unfinished.is_empty() {
            return self.new_run(chance);
        }
        let which = chance.below(self.unfinished.len());
        let (out, device) = self.unfinished.swap_remove(which);
        self.settings
            .told
            .push(format!("run {} goes on", out.display()));
        let is_where_it_was = self.is_mounted && device == self.settings.disk.name;
        let run = runs::run(&mut runs::resume(&out), chance, &mut self.settings.told);
        self.is_as_it_must_be(&run, is_where_it_was, chance);
        self.keep_if_unfinished(out, device, &run);
    }

    /// After a run: it goes on only where it began, and what it made goes, at once or with `restore`.
    fn is_as_it_must_be(&mut self, run: &Traced, may_run: bool, chance: &mut Chance) {
        match run.end {
            End::Exited(0) => assert!(may_run, "it ran"),
            End::Exited(INTERRUPTED) | End::Killed => assert!(run.hit.is_some(), "{}", run.stderr),
            End::Exited(_) => assert!(!may_run, "{}", run.stderr),
        }
        if !is_killed(run) {
            return;
        }
        match chance.below(4) {
            0 => {
                assert!(wait_until(|| processes_here().is_empty()));
                self.reboot(chance);
            }
            1 => {
                self.settings.told.push("it is unmounted".into());
                self.unmount();
            }
            _ => {}
        }
        // What is not whole yet is no entry: its run had changed nothing.
        let is_whole = |name: &String| !name.starts_with('.');
        let has_entry = names(Path::new(JOURNAL)).iter().any(is_whole);
        if has_entry && !self.is_mounted {
            let entries = names(Path::new(JOURNAL));
            let output = iosched().arg("restore").output().unwrap();
            let said = lossy(&output.stdout) + &lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("is not mounted on"), "{said}");
            assert_eq!(names(Path::new(JOURNAL)), entries, "it is kept");
            self.settings
                .told
                .push("it is mounted, and restored".into());
            self.mount();
        }
        restore();
    }

    fn keep_if_unfinished(&mut self, out: PathBuf, device: String, run: &Traced) {
        let now = recorded(&out);
        assert!(run.end != End::Exited(0) || now == Recorded::Finished);
        if matches!(now, Recorded::Unfinished { .. }) {
            self.unfinished.push((out, device));
        }
    }

    /// It is unmounted, and comes under the same name or another.
    fn reboot(&mut self, chance: &mut Chance) {
        self.unmount();
        self.kernel.is_booted();
        if chance.below(2) == 0 {
            self.settings.told.push("reboot".into());
            self.settings.disk.attach_again();
        } else {
            self.settings.told.push("reboot, another name".into());
            self.settings.disk.swap_names(&mut self.spare);
        }
        self.settings.disk.reset();
        self.spare.reset();
        self.settings.is_another();
        if chance.below(2) == 0 {
            self.mount();
        }
    }

    fn happens(&mut self, chance: &mut Chance) {
        match chance.below(12) {
            0..=2 => self.settings.change_settings(chance),
            3..=5 => self.new_run(chance),
            6..=8 => self.resume(chance),
            9 if self.is_mounted => {
                self.settings.told.push("its users write a file".into());
                let name = format!("file-{}", chance.below(3));
                let text = vec![u8::try_from(chance.below(256)).unwrap(); 1000];
                fs::write(self.point().join(&name), &text).unwrap();
                self.files.insert(name, text);
            }
            9 | 10 if !self.is_mounted => {
                self.settings.told.push("it is mounted".into());
                self.mount();
            }
            10 => {
                self.settings.told.push("it is unmounted".into());
                self.unmount();
            }
            _ => self.reboot(chance),
        }
    }

    /// Its users' files, as they are there.
    fn is_there(&self) -> BTreeMap<String, Vec<u8>> {
        let point = self.point();
        let mut names = names(&point);
        names.retain(|name| name != "lost+found");
        let read = |name: String| {
            let text = fs::read(point.join(&name)).unwrap_or_default();
            (name, text)
        };
        names.into_iter().map(read).collect()
    }
}

impl Life for LifeOfDirectory {
    fn step(&mut self, chance: &mut Chance) {
        let told = self.settings.told.len();
        let queue = self.settings.disk.whole_queue();
        let others = [self.spare.whole_queue(), self.below.disk.whole_queue()];
        self.happens(chance);
        let happened = &self.settings.told[told..];
        let is_booted = happened.iter().any(|what| what.starts_with("reboot"));
        let is_run = happened.iter().any(|what| what.starts_with("run "));
        if !is_booted {
            let now = [self.spare.whole_queue(), self.below.disk.whole_queue()];
            assert_eq!(now, others, "disks that are not its own");
            assert!(!is_run || self.settings.disk.whole_queue() == queue);
        }
        let expected = if self.is_mounted {
            self.files.clone()
        } else {
            BTreeMap::new()
        };
        assert_eq!(self.is_there(), expected);
        assert_eq!(self.below.names(), ["data"]);
        nothing_is_left();
        self.settings.nothing_is_left();
    }

    fn end(&mut self) {
        runs::records_are_read(self.records.path());
        self.settings.end();
        nothing_is_left();
    }

    fn told(&self) -> String {
        self.settings.told()
    }
}

impl Drop for LifeOfDirectory {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = Command::new("umount").arg(self.point()).output();
        }
    }
}

#[test]
fn whatever_a_directory_lives_through_its_files_stay_and_ours_go() {
    if !can_use_loop_devices() {
        return;
    }
    for seed in seeds(LIVES_OF_RUNS) {
        live(seed, LifeOfDirectory::new());
    }
}
