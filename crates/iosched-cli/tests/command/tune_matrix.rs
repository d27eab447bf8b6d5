//! The refusal matrix through the command: for each state one device, on each occasion, and where it is
//! refused not a byte of it has changed. The library's tests have the other kinds of devices.
use std::any::Any;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use iosched_machine::failure::exit;
use iosched_testing::loop_device;
use iosched_testing::refusal_matrix::{Answer, Kind, Occasion, State, answer};
use iosched_testing::shell::Shell;

use crate::common::tuning::{record, start, tune};
use crate::common::{LoopDevice, iosched, run, wait_until};
use crate::tune_may_write::Interrupted;

#[test]
fn a_device_in_use_is_written_on_no_occasion() {
    let Some(mut bench) = Bench::new() else {
        return;
    };
    bench.check(State::MountedHere, Kind::Loop);
    bench.check(State::MountedElsewhere, Kind::Loop);
    bench.check(State::OpenForWriting, Kind::Loop);
    bench.check(State::Held, Kind::Loop);
}

#[test]
fn what_came_to_a_device_is_destroyed_only_where_the_matrix_says_so() {
    let Some(mut bench) = Bench::new() else {
        return;
    };
    bench.check(State::Signature, Kind::Loop);
    bench.check(State::Data, Kind::Loop);
}

#[test]
fn another_name_is_no_other_device_and_another_device_is_not_written() {
    let Some(mut bench) = Bench::new() else {
        return;
    };
    bench.check(State::Renamed, Kind::Loop);
    bench.check(State::Replaced, Kind::Loop);
    bench.check(State::Nameless, Kind::Loop);
}

/// A disk, and the record of a run on it that was interrupted.
struct Bench {
    interrupted: Interrupted,
    /// The disk's name in the record.
    recorded_name: String,
    /// What the run left.
    image: Vec<u8>,
}

/// What is asked of: the bench's disk, or what has its name or its file now.
struct Target {
    name: String,
    file: PathBuf,
    /// What the user of a new run names the second time.
    named: String,
    /// Undone in this order.
    _happened: Vec<Box<dyn Any>>,
}

impl Bench {
    fn new() -> Option<Bench> {
        let interrupted = Interrupted::new()?;
        let image = fs::read(interrupted.disk.file()).unwrap();
        Some(Bench {
            recorded_name: interrupted.disk.name.clone(),
            interrupted,
            image,
        })
    }

    fn disk(&self) -> &LoopDevice {
        &self.interrupted.disk
    }

    fn check(&mut self, state: State, kind: Kind) {
        for asked in Occasion::ALL {
            let wanted = answer(asked, state, kind);
            let is_of_another = matches!(state, State::Renamed | State::Replaced | State::Nameless);
            let is_too_late = asked == Occasion::Mkfs && is_of_another;
            if matches!(wanted, Answer::Impossible(_)) || is_too_late {
                continue;
            }
            let (found, said) = self.ask(asked, state);
            if state == State::Renamed {
                self.interrupted.disk.attach_again();
            }
            assert_eq!(found, wanted, "{asked:?}, {state:?}: {said}");
            let because = because(asked, state);
            assert!(
                wanted == Answer::Allowed || said.contains(because),
                "{asked:?}, {state:?}: {because} is not said in: {said}"
            );
        }
    }

    /// What the command answers, and what it says.
    fn ask(&self, asked: Occasion, state: State) -> (Answer, String) {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("r");
        if asked == Occasion::Mkfs {
            return self.ask_before_mkfs(state);
        }
        let is_new = matches!(asked, Occasion::New | Occasion::Over);
        self.put_back(!is_new || state == State::Renamed);
        lay(self.disk(), state);
        let target = self.let_happen(state);
        let before = fs::read(&target.file).unwrap();
        let consent = match asked {
            Occasion::Over => format!("--destroy-data={}", target.named),
            Occasion::ResumeOver => format!("--destroy-data={}", target.name),
            _ => "--destroy-data".to_owned(),
        };
        let (code, said) = if is_new {
            let load = ["--load", "random-write", "--steady", "off", &consent];
            let (code, _, said) = tune(&target.name, &out, &load);
            (code, said)
        } else {
            self.copy_record(asked, state, &target.name, &out);
            let mut command = iosched();
            command.args(["tune", "--resume"]).arg(&out).arg(&consent);
            let output = command.output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            (output.status.code().unwrap_or(-1), said)
        };
        let found = classify(code, &said, &target.name);
        if found != Answer::Allowed {
            assert!(fs::read(&target.file).unwrap() == before, "{said}");
        }
        (found, said)
    }

    /// It happens after the plan has asked, and before the disk is claimed: a run waits for the disk's lock
    /// in between, which we hold until it has happened. Where the machine is so slow that the run gives up
    /// waiting, it is tried again.
    fn ask_before_mkfs(&self, state: State) -> (Answer, String) {
        let disk = self.disk();
        loop {
            self.put_back(false);
            lay(disk, state);
            let directory = tempfile::tempdir().unwrap();
            let out = directory.path().join("r");
            let lock = File::open(disk.path()).unwrap();
            rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
            let consent = format!("--destroy-data={}", disk.name);
            let load = ["--load", "command: true", "--fixed-rounds", "2"];
            let mkfs = [disk.name.as_str(), "--mkfs", "ext4", &consent];
            let child = start(&[&mkfs[..], &load].concat(), &out);
            assert!(wait_until(|| out.join("record.jsonl").exists()));
            let target = self.let_happen(state);
            let before = fs::read(&target.file).unwrap();
            drop(lock);
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            let code = output.status.code().unwrap_or(-1);
            assert!(fs::read(&target.file).unwrap() == before, "{said}");
            if code != i32::from(exit::BUSY) {
                return (classify(code, &said, &disk.name), said);
            }
        }
    }

    /// The disk as the run left it, or blank.
    fn put_back(&self, is_as_left: bool) {
        let file = File::options().write(true).open(self.disk().file());
        let blank = vec![0; self.image.len()];
        let image = if is_as_left { &self.image } else { &blank };
        file.unwrap().write_all_at(image, 0).unwrap();
    }

    fn let_happen(&self, state: State) -> Target {
        let disk = self.disk();
        let (mut name, mut named) = (disk.name.clone(), disk.name.clone());
        let mut file = disk.file().to_owned();
        let happened: Vec<Box<dyn Any>> = match state {
            State::MountedHere => vec![Box::new(Mount::new(disk))],
            State::MountedElsewhere => {
                let script =
                    r#"mount -o ro,noload "$1" "$2" && echo done && read -r _; umount "$2""#;
                let point = tempfile::tempdir().unwrap();
                let arguments = [disk.path(), point.path().to_owned()];
                let shell = Shell::new(&["unshare", "--mount", "sh"], script, &arguments);
                vec![Box::new(shell), Box::new(point)]
            }
            State::OpenForWriting => {
                let script = r#"exec 3<>"$1" && echo done && read -r _"#;
                vec![Box::new(Shell::new(&["sh"], script, &[disk.path()]))]
            }
            State::Held => vec![Box::new(open_exclusively(disk))],
            State::Signature => {
                write_at(disk, 1024, &[1, 0, 0, 0, 100, 0, 0, 0]); // the version, the last page
                write_at(disk, 4096 - 10, b"SWAPSPACE2");
                Vec::new()
            }
            State::Data => {
                write_at(disk, 1 << 20, &[0xa5; 8192]);
                Vec::new()
            }
            State::Renamed => {
                let again = Again(loop_device::attach(disk.file(), &["--direct-io=on"]));
                loop_device::detach(&disk.name);
                name.clone_from(&again.0);
                let links = tempfile::tempdir().unwrap();
                let link = links.path().join("by-id");
                symlink(Path::new("/dev").join(&again.0), &link).unwrap();
                named = link.display().to_string();
                vec![Box::new(again), Box::new(links)]
            }
            State::Replaced => {
                let other = LoopDevice::new(self.image.len() as u64);
                name.clone_from(&other.name);
                other.file().clone_into(&mut file);
                vec![Box::new(other)]
            }
            State::Nameless => Vec::new(), // the record is changed
        };
        Target {
            name,
            file,
            named,
            _happened: happened,
        }
    }

    /// The interrupted run's record, as it would be.
    fn copy_record(&self, asked: Occasion, state: State, name: &str, out: &Path) {
        let mut lines = record(&self.interrupted.out());
        if asked == Occasion::ResumeKilled {
            lines.retain(|line| line["type"] != "left");
        }
        if state == State::Nameless {
            let identity = &mut lines[0]["plan"]["given_up"]["identity"];
            identity["diskseq"] = 1.into();
            identity.as_object_mut().unwrap().remove("file").unwrap();
        }
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let text = lines.join("\n") + "\n";
        let old = format!("\"{}\"", self.recorded_name);
        fs::create_dir(out).unwrap();
        let text = text.replace(&old, &format!("\"{name}\""));
        fs::write(out.join("record.jsonl"), text).unwrap();
    }
}

/// What the device carries before anything happens to it.
fn lay(disk: &LoopDevice, state: State) {
    if matches!(state, State::MountedHere | State::MountedElsewhere) {
        run("mkfs.ext4", &["-q", "-F", disk.path().to_str().unwrap()]);
    }
}

fn classify(code: i32, said: &str, device: &str) -> Answer {
    let another = [
        "not the disk that was given up",
        "error: --destroy-data names",
    ];
    if code == 0 {
        return Answer::Allowed;
    }
    assert_eq!(code, i32::from(exit::UNSAFE), "{said}");
    if another.iter().any(|words| said.contains(words)) {
        Answer::AnotherDisk
    } else if said.contains(&format!("--destroy-data={device}")) {
        Answer::UntilNamed
    } else {
        Answer::Refused
    }
}

/// What has to be said where it is refused.
fn because(asked: Occasion, state: State) -> &'static str {
    let is_new = matches!(asked, Occasion::New | Occasion::Over);
    match state {
        State::MountedHere | State::MountedElsewhere | State::Held if asked == Occasion::Mkfs => {
            "is in use"
        }
        State::MountedHere => "is mounted on",
        State::MountedElsewhere | State::Held => "opened exclusively",
        State::OpenForWriting => "open for writing",
        State::Signature if is_new => "carries swap",
        State::Signature => "new or changed since",
        State::Data if is_new => "carries no signature, but it is not empty",
        State::Data => "holds other data",
        State::Replaced if is_new => "--destroy-data names",
        State::Renamed | State::Replaced => "another file is behind it",
        State::Nameless => "nothing proves",
    }
}

fn open_exclusively(disk: &LoopDevice) -> File {
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let mut options = File::options();
    options.read(true).custom_flags(exclusive);
    options.open(disk.path()).unwrap()
}

fn write_at(disk: &LoopDevice, offset: u64, bytes: &[u8]) {
    let node = File::options().write(true).open(disk.path()).unwrap();
    node.write_all_at(bytes, offset).unwrap();
    node.sync_all().unwrap();
}

/// A loop device on a file that others keep.
struct Again(String);

impl Drop for Again {
    fn drop(&mut self) {
        let node = Path::new("/dev").join(&self.0);
        let _ = Command::new("losetup").arg("--detach").arg(node).output();
    }
}

/// A mount that writes nothing by itself.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(disk: &LoopDevice) -> Mount {
        let point = tempfile::tempdir().unwrap();
        let node = disk.path().display().to_string();
        run(
            "mount",
            &["-o", "ro,noload", &node, point.path().to_str().unwrap()],
        );
        Mount(point)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).output();
    }
}
