//! Every case of [`refusal_matrix`](iosched_testing::refusal_matrix), built on loop devices and asked as a new
//! run, a resumed one and one that has claimed its device ask.
//!
//! Disks with names, and what holds others (md, device mapper, bcache), are loop devices too, which a `/sys` of
//! the test's own describes so; who mounts, opens and swaps is real.

use std::any::Any;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use iosched_machine::device::fixture::{LoopDevice, Mounted, succeeds, tool};
use iosched_testing::refusal_matrix::{Answer, Kind, Occasion as Asked, State, answer};
use iosched_testing::shell::Shell;
use iosched_testing::{lacks, loop_device};
use tempfile::{NamedTempFile, TempDir};

use super::*;

#[test]
fn a_disk_is_written_when_the_matrix_says_so() {
    check_all(Kind::Disk);
}

#[test]
fn a_partition_is_written_when_the_matrix_says_so() {
    check_all(Kind::Partition);
}

#[test]
fn a_loop_device_is_written_when_the_matrix_says_so() {
    check_all(Kind::Loop);
}

#[test]
fn a_member_is_written_when_the_matrix_says_so() {
    check_all(Kind::Member);
}

#[test]
fn swap_is_written_when_the_matrix_says_so() {
    check_all(Kind::Swap);
}

#[test]
fn one_of_several_devices_is_written_when_the_matrix_says_so() {
    check_all(Kind::Several);
}

/// What a device of a kind can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Disk,
    Partition,
    Loop,
    Md,
    Lvm,
    Bcache,
    Swap,
    Btrfs,
    Zfs,
}

impl Sort {
    /// Those of a kind that can be in a state here: no kernel module of ZFS mounts a pool. A writer is waited
    /// for, so that one of a kind is enough there.
    fn of(kind: Kind, state: State) -> &'static [Sort] {
        match (kind, state) {
            (Kind::Disk, _) => &[Sort::Disk],
            (Kind::Partition, _) => &[Sort::Partition],
            (Kind::Loop, _) => &[Sort::Loop],
            (Kind::Member, State::OpenForWriting) => &[Sort::Md],
            (Kind::Member, _) => &[Sort::Md, Sort::Lvm, Sort::Bcache],
            (Kind::Swap, _) => &[Sort::Swap],
            (
                Kind::Several,
                State::MountedHere | State::MountedElsewhere | State::OpenForWriting,
            ) => &[Sort::Btrfs],
            (Kind::Several, _) => &[Sort::Btrfs, Sort::Zfs],
        }
    }

    /// What stands on it when it is assembled.
    fn holder(self) -> Option<&'static str> {
        match self {
            Sort::Md => Some("md127"),
            Sort::Lvm => Some("dm-90"),
            Sort::Bcache => Some("bcache9"),
            _ => None,
        }
    }

    fn is_described(self) -> bool {
        self == Sort::Disk || self.holder().is_some()
    }
}

fn check_all(kind: Kind) {
    for state in State::ALL {
        let is_possible =
            |&asked: &Asked| !matches!(answer(asked, state, kind), Answer::Impossible(_));
        let occasions: Vec<Asked> = Asked::ALL.into_iter().filter(is_possible).collect();
        if occasions.is_empty() {
            continue;
        }
        for &sort in Sort::of(kind, state) {
            let Some(case) = Case::new(sort, state) else {
                continue;
            };
            for (asked, outcome) in case.question.ask_all(&occasions, state) {
                let because = because(asked, state, sort);
                let said = outcome.as_ref().err().map(ToString::to_string);
                let said = said.unwrap_or_default();
                assert_eq!(
                    classify(outcome),
                    answer(asked, state, kind),
                    "{asked:?}, {sort:?}, {state:?}: {said}"
                );
                assert!(
                    said.is_empty() || said.contains(because),
                    "{asked:?}, {sort:?}, {state:?}: {because} is not said in: {said}"
                );
            }
        }
    }
}

fn classify(outcome: Result<(), RunError>) -> Answer {
    match outcome {
        Ok(()) => Answer::Allowed,
        Err(RunError::Problem(_)) => Answer::Refused,
        Err(RunError::MayNotWrite(error)) => match &error {
            MayNotWrite::AnotherDisk { .. } | MayNotWrite::NamedAnother { .. } => {
                Answer::AnotherDisk
            }
            MayNotWrite::Refused { .. } if error.way_out().is_some() => Answer::UntilNamed,
            MayNotWrite::Refused { .. } => Answer::Refused,
            MayNotWrite::NotAllowed { .. }
            | MayNotWrite::NotAlone { .. }
            | MayNotWrite::Unreadable { .. } => panic!("{error}"),
        },
        Err(error) => panic!("{error}"),
    }
}

/// What has to be said where it is refused.
fn because(asked: Asked, state: State, sort: Sort) -> &'static str {
    let cannot_be_claimed = matches!(
        state,
        State::MountedHere | State::MountedElsewhere | State::Held
    );
    match (state, asked) {
        _ if asked == Asked::Mkfs && cannot_be_claimed => {
            "is in use by another program: opened exclusively"
        }
        (State::MountedHere, _) => "is mounted on",
        (State::MountedElsewhere | State::Held, _) if sort.holder().is_some() => "is part of",
        (State::Held, _) if sort == Sort::Swap => "is swap",
        (State::MountedElsewhere | State::Held, _) => "opened exclusively",
        (State::OpenForWriting, _) => "open for writing",
        (State::Signature, Asked::New) => "carries",
        (State::Signature, _) => "new or changed since",
        (State::Data, Asked::New) => "carries no signature, but it is not empty",
        (State::Data, _) => "holds other data",
        (State::Replaced, Asked::Over) => "--destroy-data names",
        (State::Renamed | State::Replaced, _) => "not the disk that was given up",
        (State::Nameless, _) => "nothing proves",
    }
}

/// What is asked, and of what.
#[derive(Clone)]
struct Question {
    host: Host,
    /// Kernel name of the target.
    name: String,
    /// What the user names the second time for a new run; a run that goes on has the target named.
    named: String,
    given_up: GivenUp,
}

impl Question {
    /// Asks on each occasion. A writer is waited for: all wait together.
    fn ask_all(&self, occasions: &[Asked], state: State) -> Vec<(Asked, Result<(), RunError>)> {
        let (together, alone): (Vec<Asked>, Vec<Asked>) = occasions
            .iter()
            .partition(|&&asked| state == State::OpenForWriting && asked != Asked::Mkfs);
        let mut outcomes: Vec<_> = std::thread::scope(|scope| {
            let ask = |asked: Asked| scope.spawn(move || (asked, self.ask(asked)));
            let asking: Vec<_> = together.into_iter().map(ask).collect();
            let answers = asking.into_iter().map(|one| one.join().unwrap());
            answers.collect()
        });
        outcomes.extend(alone.into_iter().map(|asked| (asked, self.ask(asked))));
        outcomes
    }

    fn ask(&self, asked: Asked) -> Result<(), RunError> {
        let given_up = Some(&self.given_up);
        let resume = |left| Occasion::Resume { given_up, left };
        let left = Some(&self.given_up.content);
        let named = |name: &String| Consent::Named(name.clone());
        let device = Device::read(&self.host, &self.name).unwrap();
        let (consent, occasion) = match asked {
            Asked::New => (Consent::ToWrite, Occasion::Start),
            Asked::Over => (named(&self.named), Occasion::Start),
            Asked::Resume => (Consent::ToWrite, resume(left)),
            Asked::ResumeKilled => (Consent::ToWrite, resume(None)),
            Asked::ResumeOver => (named(&self.name), resume(left)),
            Asked::Mkfs => {
                let purpose = Purpose::Write {
                    what: "--mkfs",
                    given_up,
                };
                return claim_for(&self.host, &self.name, purpose).map(drop);
            }
        };
        let write = Write {
            what: "load random-write",
            consent: &consent,
            occasion,
        };
        may_write(&self.host, &device, &write)?;
        Ok(())
    }
}

/// A device that was given up, and what has happened to it since.
struct Case {
    question: Question,
    /// What happened: undone first.
    happened: Vec<Box<dyn Any>>,
    sort: Sort,
    /// Where the test describes its devices.
    sysfs: TempDir,
    /// The first one is, or has, the target.
    disks: Vec<LoopDevice>,
    /// Other names of the first one's file and of nodes.
    links: TempDir,
}

impl Case {
    /// `None`, and a line that says why, where it cannot be built.
    fn new(sort: Sort, state: State) -> Option<Case> {
        let mebibytes = match sort {
            Sort::Btrfs => 128,
            Sort::Partition => 32,
            Sort::Zfs => 64, // a smaller one is none to blkid
            _ => 16,
        };
        let file = NamedTempFile::new().unwrap();
        file.as_file().set_len(mebibytes << 20).unwrap();
        let links = tempfile::tempdir().unwrap();
        let link = links.path().join("file");
        let is_nameless = state == State::Nameless && !sort.is_described();
        if is_nameless {
            fs::hard_link(file.path(), &link).unwrap();
        }
        let mut disks = vec![LoopDevice::on(file, &[])?];
        if is_nameless {
            // A loop device whose file has no name is known by nothing.
            fs::remove_file(disks[0].file()).unwrap();
        }
        if sort == Sort::Btrfs {
            disks.push(LoopDevice::new(mebibytes)?);
        }
        let sysfs = tempfile::tempdir().unwrap();
        let mut name = disks[0].name.clone();
        let host = if sort.is_described() {
            let names = if state == State::Nameless {
                Names::NONE
            } else {
                Names::FIRST
            };
            names.describe(sysfs.path(), &name);
            Host::with_sysfs_at(sysfs.path())
        } else {
            Host::live()
        };
        if sort == Sort::Partition {
            let table = ["sgdisk", "-n", "1:0:+16M", disks[0].path()];
            if !succeeds("gdisk", &table) {
                return None;
            }
            name = first_partition(&name);
        }
        if !matches!(state, State::Signature | State::Data) && !lay(sort, state, &name, &disks) {
            return None;
        }
        let consent = Consent::Named(name.clone());
        let write = Write {
            what: "load random-write",
            consent: &consent,
            occasion: Occasion::Start,
        };
        let device = Device::read(&host, &name).unwrap();
        let given_up = may_write(&host, &device, &write).unwrap();
        let mut case = Case {
            question: Question {
                host,
                named: name.clone(),
                name,
                given_up,
            },
            happened: Vec::new(),
            sort,
            sysfs,
            disks,
            links,
        };
        case.let_happen(state).then_some(case)
    }

    fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.question.name)
    }

    fn let_happen(&mut self, state: State) -> bool {
        match state {
            State::MountedHere => self.mount(|node| Box::new(Mounted::new(node))),
            State::MountedElsewhere => self.mount(|node| Box::new(Elsewhere::new(node))),
            State::OpenForWriting => self.happened.push(Box::new(Opened::new(&self.node()))),
            State::Held if self.sort == Sort::Swap => match Swapped::new(&self.node()) {
                Some(swapped) => self.happened.push(Box::new(swapped)),
                None => return false,
            },
            State::Held if self.sort.holder().is_some() => self.assemble("9:900"),
            State::Held => self.hold(),
            State::Signature => {
                return lay(self.sort, state, &self.question.name, &self.disks);
            }
            State::Data => write_at(&self.node(), 1 << 20, &[0xa5; 8192]),
            State::Renamed => self.rename(),
            State::Replaced => self.replace(),
            State::Nameless if self.sort.is_described() => {
                let name = &self.question.name;
                Names::AGAIN.describe(self.sysfs.path(), name);
            }
            State::Nameless => {
                let link = self.links.path().join("file");
                self.detach_first();
                self.attach(&link);
                fs::remove_file(link).unwrap();
            }
        }
        true
    }

    /// Mounts what is on the device: a file system, that of all devices of a btrfs by the other one, or that
    /// of what stands on it.
    fn mount(&mut self, mount: impl Fn(&Path) -> Box<dyn Any>) {
        let on = match self.sort {
            Sort::Btrfs => {
                let scan = ["btrfs", "device", "scan"];
                let nodes = [self.disks[0].path(), self.disks[1].path()];
                succeeds("btrfs-progs", &[&scan[..], &nodes].concat());
                self.disks[1].node.clone()
            }
            sort if sort.holder().is_some() => {
                let upper = LoopDevice::new(16).unwrap();
                assert!(mkfs_ext4(&upper.node));
                let number = fs::read_to_string(format!("/sys/block/{}/dev", upper.name));
                self.assemble(number.unwrap().trim());
                let node = upper.node.clone();
                self.disks.push(upper);
                node
            }
            _ => self.node(),
        };
        self.happened.push(mount(&on));
    }

    /// Somebody opens it for himself.
    fn hold(&mut self) {
        let held = device::open_exclusively(&self.node());
        self.happened.push(Box::new(held.unwrap()));
    }

    /// Something stands on it, whose device has this number, and has opened it for itself.
    fn assemble(&mut self, number: &str) {
        let above = self.sort.holder().unwrap();
        let lower = &self.question.name;
        let sysfs = self.sysfs.path();
        put(sysfs, &format!("block/{lower}/holders/{above}"), b"");
        put(sysfs, &format!("block/{above}/dev"), number.as_bytes());
        put(sysfs, &format!("block/{above}/slaves/{lower}"), b"");
        match self.sort {
            Sort::Md => put(sysfs, &format!("block/{above}/md/level"), b"raid1"),
            Sort::Lvm => put(sysfs, &format!("block/{above}/dm/uuid"), b"LVM-1"),
            _ => {}
        }
        link_number(sysfs, number, above);
        self.hold();
    }

    /// Two loop devices on one file are refused. Those that are described are none there.
    fn detach_first(&self) {
        if self.sort.is_described() {
            return;
        }
        let node = self.disks[0].path();
        if self.sort == Sort::Partition {
            tool("mount", &["partx", "--delete", node]);
        }
        loop_device::detach(node.trim_start_matches("/dev/"));
    }

    /// The file under another name is the target now.
    fn attach(&mut self, file: &Path) {
        let again = Again {
            name: loop_device::attach(file, &["--partscan"]),
        };
        self.question.name = if self.sort == Sort::Partition {
            first_partition(&again.name)
        } else {
            again.name.clone()
        };
        self.happened.push(Box::new(again));
    }

    /// The disk gets another name, and, where that is described, its name goes to another disk.
    fn rename(&mut self) {
        let file = self.disks[0].file().to_owned();
        let old = self.question.clone();
        self.detach_first();
        self.attach(&file);
        if self.sort.is_described() {
            let sysfs = self.sysfs.path();
            Names::FIRST.describe(sysfs, &self.question.name);
            Names::OTHER.describe(sysfs, &old.name);
            for asked in [Asked::Resume, Asked::ResumeOver, Asked::Mkfs] {
                let outcome = old.ask(asked);
                let said = outcome.as_ref().unwrap_err().to_string();
                assert!(said.contains(because(asked, State::Replaced, self.sort)));
                assert_eq!(classify(outcome), Answer::AnotherDisk, "{asked:?}");
            }
        }
        let link = self.links.path().join("by-id");
        symlink(self.node(), &link).unwrap();
        self.question.named = link.display().to_string();
    }

    /// Another disk like it, to the last byte, has its name; where it is described, with the same serial
    /// number. The user of a new run means the first one.
    fn replace(&mut self) {
        let copy = NamedTempFile::new().unwrap();
        fs::copy(self.disks[0].file(), copy.path()).unwrap();
        self.attach(copy.path());
        self.happened.push(Box::new(copy));
        if self.sort.is_described() {
            Names::OTHER.describe(self.sysfs.path(), &self.question.name);
        }
        self.question.given_up.device = self.question.name.clone();
    }
}

/// By what a disk is known.
struct Names {
    serial: Option<&'static str>,
    wwn: Option<&'static str>,
    diskseq: &'static str,
}

impl Names {
    const FIRST: Names = Names {
        serial: Some("S1"),
        wwn: Some("naa.5000000000000001"),
        diskseq: "71",
    };
    const OTHER: Names = Names {
        wwn: Some("naa.5000000000000002"),
        diskseq: "72",
        ..Names::FIRST
    };
    const NONE: Names = Names {
        serial: None,
        wwn: None,
        diskseq: "73",
    };
    const AGAIN: Names = Names {
        diskseq: "74",
        ..Names::NONE
    };

    /// Describes a loop device as a SCSI disk.
    fn describe(&self, sysfs: &Path, name: &str) {
        let put = |file: &str, bytes: &[u8]| put(sysfs, &format!("block/{name}/{file}"), bytes);
        let real = |file: &str| fs::read_to_string(format!("/sys/block/{name}/{file}")).unwrap();
        put("size", real("size").as_bytes());
        put("dev", real("dev").as_bytes());
        put("ro", b"0");
        put("diskseq", self.diskseq.as_bytes());
        put("queue/scheduler", b"[none] mq-deadline");
        put("device/model", b"Like Others");
        if let Some(serial) = self.serial {
            let length = u8::try_from(serial.len()).unwrap();
            let page = [&[0, 0x80, 0, length], serial.as_bytes()].concat();
            put("device/vpd_pg80", &page);
        }
        if let Some(wwn) = self.wwn {
            put("device/wwid", wwn.as_bytes());
        }
        link_number(sysfs, real("dev").trim(), name);
    }
}

/// Writes a file of a described `/sys`.
fn put(sysfs: &Path, file: &str, bytes: &[u8]) {
    let path = sysfs.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// The way from a device's number to its name.
fn link_number(sysfs: &Path, number: &str, name: &str) {
    let links = sysfs.join("dev/block");
    fs::create_dir_all(&links).unwrap();
    let link = links.join(number);
    if !link.is_symlink() {
        symlink(format!("../../block/{name}"), link).unwrap();
    }
}

/// Writes what devices of this sort carry; false if a tool is lacking.
fn lay(sort: Sort, state: State, name: &str, disks: &[LoopDevice]) -> bool {
    let node = Path::new("/dev").join(name);
    let has_file_system = matches!(
        state,
        State::MountedHere | State::MountedElsewhere | State::Signature
    );
    match sort {
        Sort::Disk | Sort::Partition | Sort::Loop if has_file_system => return mkfs_ext4(&node),
        Sort::Disk | Sort::Partition | Sort::Loop => write_at(&node, 1 << 20, &[0x5a; 4096]),
        Sort::Md => {
            write_at(&node, 4096, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
            write_at(&node, 4096 + 144, &8_u64.to_le_bytes()); // where it is, in sectors
        }
        Sort::Lvm => {
            write_at(&node, 512, b"LABELONE\x01"); // and the sector that it is in
            write_at(&node, 512 + 24, b"LVM2 001");
        }
        Sort::Bcache => {
            write_at(&node, 0x1008, &[8, 0, 0, 0, 0, 0, 0, 0, 1]); // the sector that it is in, the version
            let magic = 0xc685_73f6_4e1a_45ca_8265_f57f_48ba_6d81_u128;
            write_at(&node, 0x1018, &magic.to_be_bytes());
        }
        Sort::Swap => return succeeds("util-linux", &["mkswap", node.to_str().unwrap()]),
        Sort::Btrfs => {
            let known = fs::read_to_string("/proc/filesystems").unwrap();
            if !known.contains("btrfs") {
                lacks("a kernel with btrfs");
                return false;
            }
            let make = ["mkfs.btrfs", "-q", "-f", disks[0].path(), disks[1].path()];
            return succeeds("btrfs-progs", &make);
        }
        Sort::Zfs => {
            // blkid wants four uberblocks.
            for at in 128..132 {
                write_at(&node, at << 10, &0x00ba_b10c_u64.to_le_bytes());
            }
        }
    }
    true
}

fn mkfs_ext4(node: &Path) -> bool {
    let path = node.to_str().unwrap();
    succeeds("e2fsprogs", &["mkfs.ext4", "-q", "-F", path])
}

fn write_at(node: &Path, offset: u64, bytes: &[u8]) {
    let node = File::options().write(true).open(node).unwrap();
    node.write_all_at(bytes, offset).unwrap();
    node.sync_all().unwrap();
}

/// Makes the kernel see the first partition, and waits for its node.
fn first_partition(disk: &str) -> String {
    let node = format!("/dev/{disk}p1");
    // Whoever looks at all loop devices may have this one open for a moment.
    let update = ["partx", "--update", &format!("/dev/{disk}")];
    let is_read = || tool("mount", &update).is_some_and(|output| output.status.success());
    assert!(iosched_testing::wait_until(is_read), "{update:?} fails");
    assert!(
        iosched_testing::wait_until(|| Path::new(&node).exists()),
        "{node} does not appear"
    );
    format!("{disk}p1")
}

/// A loop device on a file that others keep.
struct Again {
    name: String,
}

impl Drop for Again {
    fn drop(&mut self) {
        let node = format!("/dev/{}", self.name);
        let _ = tool("mount", &["losetup", "--detach", &node]);
    }
}

/// Swap that is switched off in the end.
struct Swapped {
    node: PathBuf,
}

impl Swapped {
    fn new(node: &Path) -> Option<Swapped> {
        let on = tool("mount", &["swapon", node.to_str().unwrap()])?;
        if !on.status.success() {
            lacks("a kernel that lets us swap to a loop device");
            return None;
        }
        let node = node.to_owned();
        Some(Swapped { node })
    }
}

impl Drop for Swapped {
    fn drop(&mut self) {
        let _ = tool("mount", &["swapoff", self.node.to_str().unwrap()]);
    }
}

/// A process that can write to a device.
struct Opened {
    _shell: Shell,
}

impl Opened {
    fn new(node: &Path) -> Opened {
        let script = r#"exec 3<>"$1" && echo done && read -r _"#;
        Opened {
            _shell: Shell::new(&["sh"], script, &[node]),
        }
    }
}

/// A mount that only another namespace has.
struct Elsewhere {
    _shell: Shell,
    _point: TempDir,
}

impl Elsewhere {
    fn new(node: &Path) -> Elsewhere {
        let script = r#"mount "$1" "$2" && echo done && read -r _ && umount "$2""#;
        let point = tempfile::tempdir().unwrap();
        let unshare = ["unshare", "--mount", "sh"];
        Elsewhere {
            _shell: Shell::new(&unshare, script, &[node, point.path()]),
            _point: point,
        }
    }
}
