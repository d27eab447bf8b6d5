//! What the tests of several commands share: real loop devices, their whole queue state, and the
//! command itself.
pub(crate) mod bench;
pub(crate) mod chance;
pub(crate) mod checks;
pub(crate) mod lab;
pub(crate) mod machine;
pub(crate) mod machines;
pub(crate) mod options;
pub(crate) mod power;
pub(crate) mod served;
pub(crate) mod traced;
pub(crate) mod tuning;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) use iosched_testing::wait_until;
use iosched_testing::{lacks, loop_device, world};

/// What a command that changes nothing says.
pub(crate) fn answer(arguments: &[&str]) -> Output {
    iosched().args(arguments).output().unwrap()
}

/// What a command printed.
pub(crate) fn stdout(output: &Output) -> String {
    lossy(&output.stdout)
}

/// What a command said besides.
pub(crate) fn stderr(output: &Output) -> String {
    lossy(&output.stderr)
}

#[track_caller]
pub(crate) fn assert_done(output: &Output) {
    assert!(output.status.success(), "{}", stderr(output));
}

/// Fails unless the command ended with this exit code and one error, which says this in words that may be broken at any blank.
#[track_caller]
pub(crate) fn assert_refused(output: &Output, code: i32, says: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
    assert!(in_one_line(&said).contains(says), "{said}");
}

/// Output as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Fails if there is something in it that a terminal obeys.
#[track_caller]
pub(crate) fn assert_plain(what: &str, printed: &str) {
    let is_plain = |c: char| !(c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}');
    assert!(printed.chars().all(is_plain), "{what}: {printed:?}");
}

/// Makes a program of the test's own in a directory.
pub(crate) fn stand_in(dir: &Path, name: &str, script: &str) -> PathBuf {
    let program = dir.join(name);
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Puts programs of the test's own where root looks first, for this test and what it starts: root's PATH is fixed. What is
/// mounted is the test's directory, never one of the system's: a temporary directory is emptied through its mounts.
pub(crate) fn come_first(programs: &Path) {
    const FIRST: &str = "/usr/local/sbin";
    world::own_mounts().unwrap();
    // Those of before, whose directory may have gone: nothing is mounted on that.
    let _ = rustix::mount::unmount(FIRST, rustix::mount::UnmountFlags::DETACH);
    rustix::mount::mount_bind(programs, FIRST).unwrap();
}

/// As one word of the shell.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Output of which not all needs to be text.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Lines that were broken for the width of a terminal, where depends on the length of names in them.
pub(crate) fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// True if we are root and there are loop devices; says what lacks otherwise.
pub(crate) fn can_use_loop_devices() -> bool {
    loop_device::can_attach()
}

/// True if emulated disks can be made, too.
pub(crate) fn can_emulate() -> bool {
    if !can_use_loop_devices() {
        return false;
    }
    if !Path::new("/dev/fuse").exists() {
        lacks("FUSE (/dev/fuse)");
        return false;
    }
    true
}

/// True if fio is installed; says so otherwise.
pub(crate) fn has_fio() -> bool {
    let found = Command::new("fio").arg("--version").output().is_ok();
    if !found {
        lacks("fio");
    }
    found
}

/// True if PostgreSQL's server can be run as root's servant.
pub(crate) fn has_postgres() -> bool {
    let is_there = server_programs().is_some() && postgres_user().is_some();
    if !is_there {
        lacks("PostgreSQL's server and a user postgres");
    }
    is_there && can_use_loop_devices()
}

/// Where PostgreSQL's server and its tools are.
pub(crate) fn server_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let places = versions.map(|version| version.path().join("bin"));
    places.filter(|place| place.join("initdb").is_file()).max()
}

/// As whom root runs it.
pub(crate) fn postgres_user() -> Option<u32> {
    let output = Command::new("id").args(["-u", "postgres"]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// A loop device over a sparse file in memory, removed when dropped.
pub(crate) struct LoopDevice {
    /// `loop3`.
    pub name: String,
    /// Keeps the file, which nobody has open.
    file: tempfile::TempPath,
}

impl LoopDevice {
    /// Makes one of this size.
    pub(crate) fn new(bytes: u64) -> LoopDevice {
        let file = tempfile::Builder::new()
            .prefix(&loop_device::prefix())
            .tempfile_in(loop_device::directory())
            .expect("a file");
        file.as_file().set_len(bytes).expect("room for nothing");
        let file = file.into_temp_path();
        let name = loop_device::attach(&file, &["--direct-io=on"]);
        LoopDevice { name, file }
    }

    /// Takes back what was set for its queue.
    pub(crate) fn reset(&self) {
        loop_device::set_as_new(&self.name);
    }

    /// Detaches it, if a test has not done so, and attaches its file again: another disk of the same name. False if another test was faster:
    /// then it has another name.
    pub(crate) fn attach_again(&mut self) -> bool {
        let node = self.path().display().to_string();
        if loop_device::stands_on(&self.name, &self.file) {
            loop_device::detach(&self.name);
        }
        self.attach_at(&node)
    }

    /// Detaches both, and attaches each file under the name that the other had. If another test was faster, a disk has
    /// a third name then.
    pub(crate) fn swap_names(&mut self, other: &mut LoopDevice) {
        let names = [self.name.clone(), other.name.clone()];
        for name in &names {
            loop_device::detach(name);
        }
        let [of_self, of_other] = names.map(|name| format!("/dev/{name}"));
        self.attach_at(&of_other);
        other.attach_at(&of_self);
    }

    /// Attaches its file at a node, or where there is one free; false if that is elsewhere.
    fn attach_at(&mut self, node: &str) -> bool {
        let again = Command::new("losetup").arg(node).arg(&*self.file).output();
        let is_there = again.is_ok_and(|output| output.status.success());
        self.name = if is_there {
            node.trim_start_matches("/dev/").to_owned()
        } else {
            loop_device::attach(&self.file, &[])
        };
        is_there
    }

    /// `/dev/loop3`.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// The file behind it.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Writes a file of its queue.
    pub(crate) fn write(&self, file: &str, value: &str) {
        let path = format!("/sys/block/{}/queue/{file}", self.name);
        fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Reads a file of its queue.
    pub(crate) fn read(&self, file: &str) -> String {
        let path = format!("/sys/block/{}/queue/{file}", self.name);
        fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{path}: {error}"))
            .trim()
            .to_owned()
    }

    /// The scheduler in brackets.
    pub(crate) fn scheduler(&self) -> String {
        let text = self.read("scheduler");
        let active = text.split(['[', ']']).nth(1).expect("one is active");
        active.to_owned()
    }

    /// Every readable file of its queue.
    pub(crate) fn whole_queue(&self) -> BTreeMap<String, String> {
        whole_queue(&self.name)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // A test may have detached it itself: then its number is somebody else's by now.
        if !loop_device::stands_on(&self.name, &self.file) {
            return;
        }
        self.reset();
        // A kernel that reads no partition table does not drop the partitions either.
        let _ = Command::new("partx")
            .arg("--delete")
            .arg(self.path())
            .output();
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(self.path())
            .output();
    }
}

/// An ext4 file system on a loop device, mounted; unmounted when dropped.
pub(crate) struct Mounted {
    pub at: PathBuf,
    /// What it is on; dropped after it was unmounted.
    pub disk: LoopDevice,
    /// Keeps the directory.
    _directory: tempfile::TempDir,
}

impl Mounted {
    /// Makes one on a loop device of this size. Anybody may enter it, only root may write.
    pub(crate) fn new(bytes: u64) -> Mounted {
        Mounted::with(LoopDevice::new(bytes), &[])
    }

    /// The same with options for mkfs.
    pub(crate) fn with(disk: LoopDevice, options: &[&str]) -> Mounted {
        let directory = tempfile::Builder::new()
            .prefix("iosched-test-")
            .tempdir()
            .expect("a directory");
        let at = directory.path().to_owned();
        let device = disk.path().display().to_string();
        let mut arguments = vec!["-q", "-E", "lazy_itable_init=0"];
        arguments.extend(options);
        arguments.push(&device);
        run("mkfs.ext4", &arguments);
        run("mount", &[&device, at.to_str().expect("our own name")]);
        Mounted {
            at,
            disk,
            _directory: directory,
        }
    }

    /// What stands in it besides `lost+found`.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.at).expect("it is mounted").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name != "lost+found").collect()
    }

    /// `/tmp/iosched-test-…`.
    pub(crate) fn path(&self) -> &str {
        self.at.to_str().expect("our own name")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a killed run's children may not have closed their files yet.
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).output();
    }
}

/// Every readable file of a queue, those of the scheduler included; of the schedulers only the active one, since
/// any module that is loaded meanwhile joins the others.
pub(crate) fn whole_queue(device: &str) -> BTreeMap<String, String> {
    let root = PathBuf::from(format!("/sys/block/{device}/queue"));
    let mut files = BTreeMap::new();
    for directory in [root.clone(), root.join("iosched")] {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if let Ok(text) = fs::read_to_string(&path) {
                let name = path
                    .strip_prefix(&root)
                    .expect("below it")
                    .display()
                    .to_string();
                let active = text
                    .split(['[', ']'])
                    .nth(1)
                    .filter(|_| name == "scheduler");
                files.insert(name, active.unwrap_or(text.trim()).to_owned());
            }
        }
    }
    files
}

/// The command under test.
pub(crate) fn iosched() -> assert_cmd::Command {
    let mut command = assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("iosched"));
    command.env("NO_COLOR", "1").env("COLUMNS", "80");
    command
}

/// The same for `std`, to be started and signalled.
pub(crate) fn iosched_process() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("iosched"));
    command.env("NO_COLOR", "1").env("COLUMNS", "80");
    command
}

/// Removes an emulated disk once nobody looks into it any more: another test, or udev.
pub(crate) fn remove_emulated(arguments: &[&str]) {
    let remove = || answer(&[&["emulate", "remove"], arguments].concat());
    let mut output = remove();
    assert!(wait_until(|| {
        if output.status.code() == Some(9) {
            output = remove();
        }
        output.status.code() != Some(9)
    }));
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// The command in a directory that any user may enter: the build directory may be root's alone.
pub(crate) struct CopyForEverybody {
    dir: tempfile::TempDir,
}

impl CopyForEverybody {
    pub(crate) fn new() -> CopyForEverybody {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = CopyForEverybody { dir };
        fs::copy(assert_cmd::cargo::cargo_bin!("iosched"), copy.binary()).unwrap();
        copy
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn binary(&self) -> PathBuf {
        self.dir.path().join("iosched")
    }

    /// To be run without any right.
    pub(crate) fn as_nobody(&self) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.arg(self.binary()).current_dir("/");
        command
    }
}

/// Runs a program that must succeed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Pids of the processes whose command line contains `text`, not followed by a letter or digit (`loop1` is not
/// in `/dev/loop12`); zombies not counted.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let ends_there = |(at, _): (usize, &str)| {
            let next = command[at + text.len()..].chars().next();
            !next.is_some_and(char::is_alphanumeric)
        };
        if command.match_indices(text).any(ends_there) && pid != std::process::id() {
            found.push(pid);
        }
    }
    found
}

/// True if the kernel's tracing files may be used; says so otherwise.
pub(crate) fn can_trace() -> bool {
    let error = iosched_machine::capture::missing();
    if let Some(error) = &error {
        lacks(&format!("tracefs ({error})"));
    }
    error.is_none()
}

/// The tracing instances of a process of ours.
pub(crate) fn tracing_instances(pid: u32) -> Vec<String> {
    let ours = format!("iosched-{pid}-");
    let entries = fs::read_dir(Path::new(world::TRACEFS).join("instances")).expect("tracefs");
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&ours)).collect()
}
