//! `iosched tune DEVICE --mkfs …`: a file system of our own for loads that need a directory. It is
//! made only where the user gave the device up, and nothing of it is left, whatever happens.
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use iosched_testing::{lacks, loop_device};

use crate::common::chance::{Chance, number, seed};
use crate::common::checks::names;
use crate::common::lab::is_installed;
use crate::common::traced::{self, End, Kind};
use crate::common::tuning::MIB;
use crate::common::{
    LoopDevice, can_emulate, can_use_loop_devices, come_first, has_fio, in_one_line, iosched,
    iosched_process, lossy, processes_with, run, stand_in, wait_until,
};

/// A load that needs a directory, and takes many ticks of fio's clock (1 ms) on the fastest machine.
const LOAD: &str = "documents-create:threads=2,documents=500";

/// Two rounds of two arms.
const SHORT: &[&str] = &["--arms", "none,mq-deadline", "--fixed-rounds", "2"];

/// An empty disk and a place for records.
struct Bench {
    disk: LoopDevice,
    records: tempfile::TempDir,
    /// How long a trial of [`Bench::start`] lasts, s: tells its process from others.
    span: u32,
}

/// How a run ended.
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Tells the processes of tests in one process apart.
static BENCHES: AtomicU32 = AtomicU32::new(0);

impl Bench {
    fn new() -> Option<Bench> {
        (can_use_loop_devices() && has_fio()).then(|| Bench {
            disk: LoopDevice::new(512 * MIB),
            records: tempfile::tempdir().unwrap(),
            span: std::process::id() + 4711 + BENCHES.fetch_add(10_000_000, Ordering::Relaxed),
        })
    }

    fn tune(&self, more: &[&str]) -> Ended {
        let before = self.settings();
        let output = iosched()
            .args(["tune", &self.disk.name, "--load", LOAD])
            .args(SHORT)
            .arg("--out")
            .arg(self.records.path().join("r"))
            .args(more)
            .output()
            .unwrap();
        assert!(!self.is_mounted());
        assert_eq!(self.settings(), before);
        let ended = Ended {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        if ended.code == 0 {
            fs::remove_dir_all(self.records.path().join("r")).unwrap();
        }
        ended
    }

    /// Its queue's files, without what the kernel learns when mkfs tries it.
    fn settings(&self) -> BTreeMap<String, String> {
        let mut files = self.disk.whole_queue();
        files.remove("write_zeroes_max_bytes");
        files
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        mounts.contains(&format!("/dev/{} ", self.disk.name))
    }

    /// Mounts what is on the disk for a moment.
    fn in_its_file_system(&self, act: impl Fn(&Path)) {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().to_str().unwrap();
        run("mount", &[self.disk.path().to_str().unwrap(), at]);
        act(root.path());
        run("umount", &[at]);
    }

    /// What `blkid` finds on the disk.
    fn content(&self) -> String {
        blkid(&self.disk.path())
    }

    /// Goes on with the record: exit code and standard error.
    fn resume(&self, more: &[&str]) -> (i32, String) {
        let mut command = iosched();
        command
            .args(["tune", "--resume"])
            .arg(self.records.path().join("r"));
        let output = command.args(more).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap_or(-1), stderr)
    }

    /// A run in the middle of its trials, with a load that lasts.
    fn start(&self) -> std::process::Child {
        let child = iosched_process()
            .args(["tune", &self.disk.name, "--mkfs", "ext4", "--destroy-data"])
            .args([
                "--load",
                &format!("command: sleep {}", self.span),
                "--arms",
                "none,mq-deadline",
            ])
            .arg("--out")
            .arg(self.records.path().join("r"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        assert!(wait_until(
            || self.is_mounted() && !processes_with(&format!("sleep {}", self.span)).is_empty()
        ));
        child
    }
}

#[test]
fn a_disk_that_holds_nothing_is_measured_in_one_command_and_holds_nothing_again() {
    let Some(bench) = Bench::new() else { return };
    // After the first one it holds no signature; the second one's blocks are not zero.
    let named = format!("--destroy-data={}", bench.disk.name);
    for (kind, consent) in [("ext4", "--destroy-data"), ("xfs", named.as_str())] {
        let ended = bench.tune(&["--mkfs", kind, consent]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let name = format!(
            "documents-create on {} ({kind} of our own)",
            bench.disk.name
        );
        let said = in_one_line(&ended.stdout);
        assert!(said.contains(&name), "{said}");
        assert_eq!(bench.content(), "");
    }
}

#[test]
fn after_a_kill_restore_unmounts_it_and_erases_it() {
    let Some(bench) = Bench::new() else { return };
    let mut child = bench.start();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(bench.is_mounted());
    let output = iosched().arg("restore").output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    let words = format!("{}: our ext4 file system unmounted", bench.disk.name);
    assert!(said.contains(&words), "{said}");
    assert!(!bench.is_mounted());
    assert_eq!(bench.content(), "");
    assert_eq!(bench.disk.scheduler(), "none");
}

/// A run that is killed while its mkfs works, which a script stands for: what mkfs was to be run with.
fn killed_in_mkfs(bench: &Bench, kind: &str) -> Vec<String> {
    let programs = tempfile::tempdir().unwrap();
    let at = |name: &str| programs.path().join(name);
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" >'{0}/new' && mv '{0}/new' '{0}/asked'\nexec sleep {1}\n",
        programs.path().display(),
        bench.span
    );
    stand_in(programs.path(), &format!("mkfs.{kind}"), &script);
    come_first(programs.path());
    let mut killed = iosched_process()
        .args(["tune", &bench.disk.name, "--mkfs", kind, "--load", LOAD])
        .arg(format!("--destroy-data={}", bench.disk.name))
        .arg("--out")
        .arg(bench.records.path().join("r"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(wait_until(|| at("asked").exists()), "mkfs was not started");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let is_over = || processes_with(&format!("sleep {}", bench.span)).is_empty();
    assert!(wait_until(is_over), "mkfs outlives the run");
    fs::remove_dir_all(bench.records.path().join("r")).unwrap();
    let asked = fs::read_to_string(at("asked")).unwrap();
    asked.lines().map(str::to_owned).collect()
}

#[test]
fn what_a_killed_mkfs_left_goes_or_is_named_with_the_way_out() {
    let Some(bench) = Bench::new() else { return };
    let path = bench.disk.path().display().to_string();
    let mut chance = Chance::new(seed());
    let cases = number("IOSCHED_TEST_KILLS", 2);
    for kind in ["ext4", "xfs", "btrfs", "f2fs"] {
        let program = format!("mkfs.{kind}");
        if !is_installed(&program) {
            lacks(&program);
            continue;
        }
        let mut of_mkfs = Vec::new();
        for case in 0..=cases {
            run("wipefs", &["--all", "--quiet", &path]);
            let arguments = killed_in_mkfs(&bench, kind);
            assert_eq!(arguments.last(), Some(&path));
            let mut mkfs = Command::new(&program);
            mkfs.args(&arguments);
            if case == 0 {
                let whole = traced::count(&mut mkfs);
                assert_eq!(whole.end, End::Exited(0), "{}", whole.stderr);
                let writes = whole.calls[&Kind::Write];
                of_mkfs = (1..=writes).collect();
            } else {
                let n = of_mkfs[chance.below(of_mkfs.len())];
                let is_write = |kind| kind == Kind::Write;
                traced::run(&mut mkfs, is_write, n, traced::Way::Kill);
            }
            let left = bench.content();
            let output = iosched().arg("restore").output().unwrap();
            let said = lossy(&output.stdout) + &lossy(&output.stderr);
            let told = format!("{kind}, case {case}, left: {left:?}: {said}");
            let label = arguments.iter().find(|word| word.starts_with("ios-"));
            let label = label.expect("a label of ours");
            if output.status.success() {
                assert!(!bench.content().contains(label.as_str()), "{told}");
            } else {
                // What cannot be looked into may be anybody's; what is whole can be, if this kernel has that kind.
                let kinds = fs::read_to_string("/proc/filesystems").unwrap();
                let is_known = kinds.lines().any(|line| line.ends_with(kind));
                assert!(case > 0 || !is_known, "{told}");
                assert!(said.contains(&format!("wipefs --all {path}")), "{told}");
                run("wipefs", &["--all", "--quiet", &path]);
                iosched().arg("restore").assert().success();
            }
            assert!(!bench.is_mounted(), "{told}");
            assert_eq!(names(Path::new("/run/iosched/mounted")), [] as [&str; 0]);
            let journal = names(Path::new("/var/lib/iosched/journal"));
            assert_eq!(journal, [] as [&str; 0], "{told}");
        }
    }
}

/// A run that was killed, when its load has ended, too.
fn killed() -> Option<Bench> {
    let bench = Bench::new()?;
    let mut child = bench.start();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(wait_until(|| {
        processes_with(&format!("sleep {}", bench.span)).is_empty()
    }));
    Some(bench)
}

/// After a kill, with nothing mounted any more, as after a reboot.
fn killed_and_unmounted() -> Option<Bench> {
    let bench = killed()?;
    run("umount", &[bench.disk.path().to_str().unwrap()]);
    Some(bench)
}

/// A run that was killed while its file system is mounted, and where that is.
fn killed_and_mounted() -> Option<(Bench, PathBuf)> {
    let bench = killed()?;
    let label = bench.content();
    let label = label.lines().find_map(|line| line.strip_prefix("LABEL="));
    let at = Path::new("/run/iosched/mounted").join(label.unwrap());
    Some((bench, at))
}

/// What `restore` said, and its exit code.
fn restored(more: &[&str]) -> (Option<i32>, String) {
    let output = iosched().arg("restore").args(more).output().unwrap();
    let said = lossy(&output.stdout) + &lossy(&output.stderr);
    (output.status.code(), said)
}

#[test]
fn a_disk_that_is_away_is_named_and_its_file_system_goes_once_it_is_back() {
    for is_replaced in [false, true] {
        let Some(mut bench) = killed_and_unmounted() else {
            return;
        };
        let content = bench.content();
        let label = content.lines().find_map(|line| line.strip_prefix("LABEL="));
        let label = label.expect("a label of ours").to_owned();
        // Of the same size, and perhaps of the same name.
        let mut other = LoopDevice::new(512 * MIB);
        if is_replaced {
            bench.disk.swap_names(&mut other);
        }
        loop_device::detach(&bench.disk.name);
        let (code, said) = restored(&["--dry-run"]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("would be kept in the journal"), "{said}");
        for _ in 0..2 {
            let (code, said) = restored(&[]);
            assert_eq!(code, Some(1), "{said}");
            assert!(
                said.contains(&format!("our file system {label} is not there")),
                "{said}"
            );
            assert!(said.contains("hint: attach that disk"), "{said}");
        }
        bench.disk.attach_again();
        assert!(bench.content().contains(&label));
        let (code, said) = restored(&[]);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(bench.content(), "", "{said}");
        assert_eq!(
            names(Path::new("/var/lib/iosched/journal")),
            [] as [&str; 0]
        );
    }
}

#[test]
fn a_file_system_that_somebody_has_used_since_is_named_and_stays() {
    let Some(bench) = killed_and_unmounted() else {
        return;
    };
    bench.in_its_file_system(|root| fs::write(root.join("precious"), "kept").unwrap());
    // As a restore leaves it that is killed while it looks.
    let content = bench.content();
    let label = content.lines().find_map(|line| line.strip_prefix("LABEL="));
    let look = format!("/run/iosched/mounted/{}.look", label.unwrap());
    fs::create_dir_all(&look).unwrap();
    let node = bench.disk.path().display().to_string();
    run("mount", &["-o", "ro", &node, &look]);
    for _ in 0..2 {
        let output = iosched().arg("restore").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(!Path::new(&look).exists());
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("it holds \"precious\""), "{said}");
        assert!(said.contains("wipefs --all"), "{said}");
        bench.in_its_file_system(|root| {
            assert_eq!(fs::read_to_string(root.join("precious")).unwrap(), "kept");
        });
    }
    // The way out that was named.
    run("wipefs", &["--all", bench.disk.path().to_str().unwrap()]);
    iosched().arg("restore").assert().success();
}

/// What `blkid` finds on a device.
fn blkid(node: &Path) -> String {
    let mut command = Command::new("blkid");
    command.args(["--probe", "-o", "export"]).arg(node);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// What is mounted, uppermost, at a path, by its type.
fn mounted_at(path: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let words = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mut at = words.filter(|words| Path::new(words[1]) == path);
    at.next_back().map(|words| words[2].to_owned())
}

#[test]
fn what_somebody_put_where_a_killed_run_has_it_mounted_stays() {
    let Some((bench, at)) = killed_and_mounted() else {
        return;
    };
    // Something else over it: nothing is unmounted.
    run("mount", &["-t", "tmpfs", "somebodys", at.to_str().unwrap()]);
    fs::write(at.join("precious"), "kept").unwrap();
    let (code, said) = restored(&[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("somebodys is mounted there"), "{said}");
    assert_eq!(mounted_at(&at).as_deref(), Some("tmpfs"));
    assert_eq!(fs::read_to_string(at.join("precious")).unwrap(), "kept");
    run("umount", &[at.to_str().unwrap()]);
    // A copy of it, on a disk that nobody gave up.
    run("umount", &[at.to_str().unwrap()]);
    let copy = LoopDevice::new(512 * MIB);
    fs::copy(bench.disk.file(), copy.file()).unwrap();
    fs::create_dir_all(&at).unwrap();
    run(
        "mount",
        &[copy.path().to_str().unwrap(), at.to_str().unwrap()],
    );
    let (code, said) = restored(&[]);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(mounted_at(&at).as_deref(), Some("ext4"), "{said}");
    run("umount", &[at.to_str().unwrap()]);
    assert!(blkid(&copy.path()).contains("LABEL="), "{said}");
    run(
        "wipefs",
        &["--all", "--quiet", copy.path().to_str().unwrap()],
    );
    // Something within it, where a new one has nothing.
    for place in ["lost+found/saved", "precious"] {
        let node = bench.disk.path().display().to_string();
        if mounted_at(&at).is_none() {
            fs::create_dir_all(&at).unwrap();
            run("mount", &[&node, at.to_str().unwrap()]);
        }
        fs::write(at.join(place), "kept").unwrap();
        let (code, said) = restored(&[]);
        assert_eq!(code, Some(1), "{said}");
        let first = place.split('/').next().unwrap();
        assert!(said.contains(&format!("it holds {first:?}")), "{said}");
        bench.in_its_file_system(|root| {
            assert_eq!(fs::read_to_string(root.join(place)).unwrap(), "kept");
            fs::remove_file(root.join(place)).unwrap();
        });
    }
    iosched().arg("restore").assert().success();
    assert_eq!(bench.content(), "");
}

#[test]
fn a_run_on_a_file_system_of_its_own_goes_on_when_it_is_allowed_again() {
    let Some(bench) = Bench::new() else { return };
    let child = bench.start();
    run("kill", &["-INT", &child.id().to_string()]);
    child.wait_with_output().unwrap();
    let (code, stderr) = bench.resume(&[]);
    assert_eq!(code, 11, "{stderr}");
    assert!(stderr.contains("--mkfs writes, and"), "{stderr}");
    // What goes on shall soon end.
    let record = bench.records.path().join("r/record.jsonl");
    let text = fs::read_to_string(&record).unwrap();
    let lasting = format!("sleep {}", bench.span);
    assert!(text.contains(&lasting), "{text}");
    let short = text.replace(&lasting, "sleep 0.01");
    fs::write(
        &record,
        short.replace("\"fixed_rounds\":null", "\"fixed_rounds\":2"),
    )
    .unwrap();
    let (code, stderr) = bench.resume(&["--destroy-data"]);
    assert_eq!(code, 0, "what it wrote itself is its own: {stderr}");
    assert_eq!(bench.content(), "");
}

#[test]
fn an_emulated_disk_of_the_runs_own_gets_one_by_itself() {
    if !can_emulate() || !has_fio() {
        return;
    }
    let records = tempfile::tempdir().unwrap();
    let output = iosched()
        .args(["tune", "--load", "documents-create:threads=2,documents=5"])
        .args(SHORT)
        .arg("--out")
        .arg(records.path().join("r"))
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("our ext4 file system unmounted"),
        "{stderr}"
    );
    let record = fs::read_to_string(records.path().join("r/record.jsonl")).unwrap();
    assert_eq!(record.matches("\"type\":\"trial\"").count(), 4);
}

/// The matrix (`tune_matrix`) has what else comes between.
#[test]
fn another_disk_that_takes_the_name_between_the_plan_and_mkfs_is_not_destroyed() {
    if !can_use_loop_devices() {
        return;
    }
    loop {
        let dir = tempfile::tempdir().unwrap();
        let disks = RefCell::new([LoopDevice::new(64 * MIB), LoopDevice::new(64 * MIB)]);
        let names = disks.borrow().each_ref().map(|disk| disk.name.clone());
        let mut command = iosched_process();
        command.args(["tune", &names[0], "--mkfs", "ext4", "--destroy-data"]);
        command.args(["--load", "command: true", "--arms", "none,mq-deadline"]);
        command.arg("--out").arg(dir.path().join("r"));
        // The record's first line is synced right after the plan was made.
        let is_done = Cell::new(false);
        let bytes = || {
            disks
                .borrow()
                .each_ref()
                .map(|disk| fs::read(disk.file()).unwrap())
        };
        let before = bytes();
        let at_call = |kind| {
            if kind == Kind::Sync && !is_done.replace(true) {
                let [disk, other] = &mut *disks.borrow_mut();
                disk.swap_names(other);
            }
        };
        let ended = traced::watch(tempfile::tempfile().unwrap(), &mut command, at_call);
        let is_third = |disk: &LoopDevice| !names.contains(&disk.name);
        if disks.borrow().iter().any(is_third) {
            continue; // another test took one of the names meanwhile
        }
        assert_eq!(ended.end, End::Exited(11), "{}", ended.stderr);
        let because = "not the disk that was given up";
        assert!(ended.stderr.contains(because), "{}", ended.stderr);
        assert!(before == bytes(), "a disk was written");
        break;
    }
}
