//! Served disks over a real file or device: what is written is in it, whatever is switched or killed meanwhile; a
//! flush above is a flush below; errors and blocks of the thing below show above; and nothing is written that may
//! not be.
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use iosched_testing::refusal_matrix::{Answer, Said, Target, served};
use iosched_testing::{lacks, loop_device};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::common::chance::{Chance, seed};
use crate::common::lab::{Lab, attribute, wait_for};
use crate::common::{LoopDevice, Mounted, run, stderr};

const BLOCK: usize = 4096;

/// Aligned as direct I/O wants it.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

impl Block {
    /// A block that says in several places what it is.
    fn holding(number: u64) -> Block {
        let mut block = Block([0; BLOCK]);
        for place in block.0.chunks_mut(8) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        block
    }
}

/// What a block holds, if it is whole.
fn number_in(block: &[u8]) -> u64 {
    let number = u64::from_le_bytes(block[..8].try_into().unwrap());
    assert!(block == Block::holding(number).0, "a torn block");
    number
}

fn open_with(path: impl AsRef<Path>, flags: OFlags) -> File {
    let flags = i32::try_from(flags.bits()).unwrap();
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).custom_flags(flags);
    options.open(path).unwrap()
}

/// A directory for files of ours, its name without links.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let dir = tempfile::Builder::new()
            .prefix(&loop_device::prefix())
            .tempdir_in(loop_device::direct_io_directory());
        Place(dir.unwrap())
    }

    fn file(&self, name: &str) -> String {
        let path = self.0.path().canonicalize().unwrap().join(name);
        path.to_str().unwrap().to_owned()
    }

    /// A file of zeros.
    fn zeros(&self, name: &str, mebibytes: u64) -> String {
        let path = self.file(name);
        File::create(&path)
            .unwrap()
            .set_len(mebibytes << 20)
            .unwrap();
        path
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn what_is_written_is_in_the_file_whichever_scheduler_comes_meanwhile() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let place = Place::new();
    let file = place.file("disk");
    let device = lab.create(&format!(
        "--over {file} --size 64M --scheduler cfq:slice_idle=0 --depth 3"
    ));
    let disk = lab.only_disk();
    assert_eq!(disk["over"], file);
    assert_eq!(
        (&disk["queue_depth"], &disk["scheduler"]),
        (&3.into(), &"cfq:slice_idle=0".into())
    );
    assert!(
        disk["model"].is_null() && disk["backing_dir"].is_null(),
        "{disk}"
    );
    assert_eq!(attribute(&device, "queue/logical_block_size"), "512");
    let writers: Vec<_> = (0..4_u64)
        .map(|first| {
            let device = open_with(&device, OFlags::DIRECT);
            thread::spawn(move || {
                let blocks = (0..400).map(|place| place * 4 + first);
                for block in blocks.clone() {
                    let data = Block::holding(block + 1);
                    device.write_all_at(&data.0, block * BLOCK as u64).unwrap();
                }
                for block in blocks {
                    let mut data = Block([0; BLOCK]);
                    device
                        .read_exact_at(&mut data.0, block * BLOCK as u64)
                        .unwrap();
                    assert_eq!(number_in(&data.0), block + 1);
                }
                device.sync_all().unwrap();
            })
        })
        .collect();
    lab.set_each_inside(&device);
    for writer in writers {
        writer.join().unwrap();
    }
    let below = fs::read(&file).unwrap();
    assert_eq!(below.len(), 64 << 20);
    for (block, data) in below.chunks(BLOCK).take(1600).enumerate() {
        assert_eq!(number_in(data), block as u64 + 1);
    }
    assert!(below[1600 * BLOCK..].iter().all(|&byte| byte == 0));
    lab.refuses(&format!("check {device}"), 1, "has no model");
    lab.remove(&device);
    lab.assert_clean();
    assert_eq!(
        fs::metadata(&file).unwrap().len(),
        64 << 20,
        "the file stays"
    );
}

#[test]
fn blocks_and_discards_are_those_of_the_device_below() {
    let Some(lab) = Lab::new(&["blkdiscard"]) else {
        return;
    };
    let place = Place::new();
    let file = place.zeros("disk", 32);
    let name = loop_device::attach(file.as_ref(), &["--sector-size", "4096"]);
    let below = Detached(format!("/dev/{name}"));
    let device = lab.create(&format!(
        "--over {} --scheduler deadline --destroy-data",
        below.0
    ));
    assert_eq!(lab.only_disk()["id"], format!("over-{name}-1"));
    assert_eq!(attribute(&device, "queue/logical_block_size"), "4096");
    let disk = open_with(&device, OFlags::DIRECT);
    let whole = Block::holding(7);
    let error = disk.write_all_at(&whole.0[..512], 512).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    for block in 0..512 {
        disk.write_all_at(&whole.0, block * BLOCK as u64).unwrap();
    }
    disk.sync_all().unwrap();
    let stored = || {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(&file).unwrap().blocks() * 512
    };
    assert_eq!(number_in(&fs::read(&file).unwrap()[..BLOCK]), 7);
    assert!(stored() >= 512 * BLOCK as u64);
    drop(disk);
    run(
        "blkdiscard",
        &["--offset", "4096", "--length", "1M", &device],
    );
    assert!(stored() <= 256 * BLOCK as u64);
    let data = fs::read(&file).unwrap();
    assert_eq!(number_in(&data[..BLOCK]), 7);
    assert!(data[BLOCK..][..1 << 20].iter().all(|&byte| byte == 0));
    // Claimed: nobody else mounts it or writes it, and nothing is left of that.
    let exclusive = OFlags::RDONLY | OFlags::EXCL;
    let open = || rustix::fs::open(&below.0, exclusive, rustix::fs::Mode::empty());
    assert_eq!(open().unwrap_err(), Errno::BUSY);
    lab.remove(&device);
    open().unwrap();
    lab.assert_clean();
}

/// A loop device that is detached in the end.
struct Detached(String);

impl Drop for Detached {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).output();
    }
}

/// A mount that goes in the end.
struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

#[test]
fn each_flush_above_is_one_below_after_what_was_written_before() {
    const WRITES: u64 = 40;
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let Some(below) = Lab::new(&[]) else {
        return;
    };
    let disk = below.create("null --size 16M");
    let device = lab.create(&format!("--over {disk} --scheduler cfq --destroy-data"));
    let file = open_with(&device, OFlags::DIRECT);
    for block in 0..WRITES {
        file.write_all_at(&Block::holding(block).0, block * BLOCK as u64)
            .unwrap();
        file.sync_data().unwrap();
    }
    let served = below.served();
    let deeds = served.iter().filter(|served| served.op != "read");
    let mut deeds = deeds
        .map(|served| (served.op.as_str(), served.start))
        .collect::<Vec<_>>();
    let first = deeds.iter().position(|&deed| deed == ("write", 0)).unwrap();
    let expected: Vec<_> = (0..WRITES)
        .flat_map(|block| [("write", block * 8), ("flush", 0)])
        .collect();
    assert_eq!(deeds.split_off(first), expected);
    drop(file);
    lab.remove(&device);
    lab.assert_clean();
    below.remove(&disk);
}

#[test]
fn an_error_below_is_an_error_above_and_of_nothing_else() {
    let Some(lab) = Lab::new(&["mount"]) else {
        return;
    };
    let place = Place::new();
    let small = place.file("small");
    fs::create_dir(&small).unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=4m", "none", &small]);
    let _mounted = Unmounted(small.clone().into());
    if !loop_device::takes_direct_io(small.as_ref()) {
        lacks("direct I/O on tmpfs (Linux 6.6)");
        return;
    }
    let file = format!("{small}/disk");
    let device = lab.create(&format!("--over {file} --size 64M --scheduler noop"));
    let disk = open_with(&device, OFlags::DIRECT);
    let mut errors = 0;
    let mut written = Vec::new();
    for block in 0..2048_u64 {
        match disk.write_all_at(&Block::holding(block + 1).0, block * BLOCK as u64) {
            Ok(()) => written.push(block),
            // Older kernels say EIO for every error of a loop device's file.
            Err(error) => {
                let said = error.raw_os_error();
                let known = [Errno::NOSPC, Errno::IO].map(|errno| Some(errno.raw_os_error()));
                assert!(known.contains(&said), "{error}");
                errors += 1;
            }
        }
    }
    assert!(
        errors >= 1024 && written.len() >= 512,
        "{errors} errors, {} written",
        written.len()
    );
    for block in written {
        let mut data = Block([0; BLOCK]);
        disk.read_exact_at(&mut data.0, block * BLOCK as u64)
            .unwrap();
        assert_eq!(number_in(&data.0), block + 1);
    }
    drop(disk);
    lab.remove(&device);
    lab.assert_clean();
}

/// What was written to a block: what was acknowledged last by a flush, and all that was tried since.
#[derive(Debug, Default, Clone)]
struct History {
    acknowledged: u64,
    tried: Vec<u64>,
}

/// Writes blocks of its own, drawn by chance, and flushes now and then, until that fails; says what was
/// acknowledged, and counts it.
fn write_until_it_fails(
    device: &str,
    (writer, flags): (u64, OFlags),
    mut chance: Chance,
    count: &Mutex<usize>,
) -> BTreeMap<u64, History> {
    const BLOCKS: usize = 64;
    let file = open_with(device, flags);
    let mut histories = BTreeMap::<u64, History>::new();
    let mut number = writer << 32;
    loop {
        for _ in 0..=chance.below(8) {
            let block = writer * BLOCKS as u64 + chance.below(BLOCKS) as u64;
            number += 1;
            histories.entry(block).or_default().tried.push(number);
            let data = Block::holding(number);
            if file.write_all_at(&data.0, block * BLOCK as u64).is_err() {
                return histories;
            }
        }
        if file.sync_data().is_err() {
            return histories;
        }
        for history in histories.values_mut() {
            if let Some(last) = history.tried.pop() {
                history.acknowledged = last;
                history.tried.clear();
            }
        }
        *count.lock().unwrap() += 1;
    }
}

#[test]
fn what_was_acknowledged_is_in_the_file_whenever_the_server_is_killed() {
    const KILLS: usize = 6;
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let place = Place::new();
    let file = place.zeros("disk", 8);
    let mut chance = Chance::new(seed());
    let mut known = BTreeMap::<u64, u64>::new();
    let mut killed = 0;
    for scheduler in ["cfq", "deadline", "noop", "bfq", "cfq:slice_idle=0", "none"] {
        let device = lab.create(&format!(
            "--over {} --scheduler {scheduler} --depth {} --destroy-data={}",
            file,
            (1 + chance.below(32)),
            file
        ));
        let count = Mutex::new(0);
        let enough = 1 + chance.below(60);
        let histories: Vec<_> = thread::scope(|threads| {
            let writers: Vec<_> = (0..4_u64)
                .map(|writer| {
                    let flags = if writer % 2 == 0 {
                        OFlags::DIRECT
                    } else {
                        OFlags::empty()
                    };
                    let chance = Chance::new(chance.below(1 << 30) as u64);
                    let (device, count) = (&device, &count);
                    let writer = (writer, flags);
                    threads.spawn(move || write_until_it_fails(device, writer, chance, count))
                })
                .collect();
            wait_for("flushes", || *count.lock().unwrap() >= enough);
            lab.kill_server();
            killed += 1;
            writers
                .into_iter()
                .map(|writer| writer.join().unwrap())
                .collect()
        });
        lab.remove_all();
        let below = fs::read(&file).unwrap();
        let read =
            |block: u64| number_in(&below[usize::try_from(block).unwrap() * BLOCK..][..BLOCK]);
        let histories: BTreeMap<u64, History> = histories.into_iter().flatten().collect();
        for (&block, &number) in &known {
            assert!(
                histories.contains_key(&block) || read(block) == number,
                "{block} changed"
            );
        }
        for (block, history) in histories {
            let found = read(block);
            let before = known.get(&block).copied().unwrap_or(0);
            let last = if history.acknowledged == 0 {
                before
            } else {
                history.acknowledged
            };
            assert!(
                found == last || history.tried.contains(&found),
                "block {block} has {found:x} after {history:x?}, seed {}",
                seed()
            );
            known.insert(block, found);
        }
    }
    assert_eq!(killed, KILLS);
}

#[test]
fn what_is_dirty_above_is_in_the_file_when_the_server_ends_in_order_whoever_has_it_open() {
    let Some(lab) = Lab::new(&["mkfs.ext4", "mount"]) else {
        return;
    };
    let place = Place::new();
    let file = place.file("disk");
    let device = lab.create(&format!("--over {file} --size 64M --scheduler cfq"));
    run("mkfs.ext4", &["-q", "-b", "4096", &device]);
    let at = lab.mount_point();
    run("mount", &[&device, text(&at)]);
    let held = File::create(at.join("held")).unwrap();
    for block in 0..256 {
        let data = Block::holding(1_000_000 + block);
        held.write_all_at(&data.0, block * BLOCK as u64).unwrap();
    }
    lab.end_server();
    let below = fs::read(&file).unwrap();
    let found = below
        .chunks(BLOCK)
        .filter(|block| {
            let number = u64::from_le_bytes(block[..8].try_into().unwrap());
            (1_000_000..1_000_256).contains(&number) && **block == Block::holding(number).0
        })
        .count();
    assert_eq!(found, 256, "blocks that were written and not flushed");
    drop(held);
    lab.remove_all();
}

#[test]
fn what_is_only_to_be_read_takes_no_writes_and_stays_as_it_is() {
    let Some(lab) = Lab::new(&["mkfs.ext4", "mount"]) else {
        return;
    };
    let place = Place::new();
    let file = place.zeros("disk", 16);
    run("mkfs.ext4", &["-q", "-F", &file]);
    let before = fs::read(&file).unwrap();
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    let device = lab.create(&format!("--over {file} --scheduler cfq --read-only"));
    assert_eq!(lab.only_disk()["read_only"], true);
    assert_eq!(attribute(&device, "ro"), "1");
    assert!(
        fs::read(&device).unwrap() == before,
        "it has other bytes above"
    );
    let disk = open_with(&device, OFlags::DIRECT);
    disk.write_all_at(&Block::holding(1).0, 0).unwrap_err();
    drop(disk);
    run("mount", &["-o", "ro", &device, text(&lab.mount_point())]);
    run("umount", &[text(&lab.mount_point())]);
    lab.remove(&device);
    assert!(fs::read(&file).unwrap() == before, "it was changed");
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), written);
    lab.assert_clean();
}

/// The kernel keeps the flag when the file is detached: the next disk of that number would be read-only.
struct WritableAgain(String);

impl Drop for WritableAgain {
    fn drop(&mut self) {
        loop_device::make_writable(&self.0);
    }
}

/// A target, made; what keeps it so goes with it.
struct Case {
    /// As it is named.
    target: String,
    size: &'static str,
    /// Dropped with it, the first first.
    keeps: Vec<Box<dyn std::any::Any>>,
}

impl Case {
    fn of(target: &str, keeps: Vec<Box<dyn std::any::Any>>) -> Case {
        Case {
            target: target.to_owned(),
            size: "",
            keeps,
        }
    }

    fn device(disk: LoopDevice) -> Case {
        Case::of(&disk.path().display().to_string(), vec![Box::new(disk)])
    }

    fn file(path: &str) -> Case {
        Case::of(path, Vec::new())
    }

    fn with(mut self, keeps: impl std::any::Any) -> Case {
        self.keeps.insert(0, Box::new(keeps));
        self
    }

    /// Makes what the matrix has a row for.
    fn new(target: Target, place: &Place, other: &Lab) -> Case {
        let disk = || LoopDevice::new(16 << 20);
        let new = || place.zeros("disk", 16);
        let serve = |target: &str| {
            other.create(&format!("--over {target} --scheduler noop --destroy-data"));
        };
        match target {
            Target::Device => Case::device(disk()),
            Target::DeviceSignature => {
                let disk = disk();
                run("mkfs.ext4", &["-q", text(&disk.path())]);
                Case::device(disk)
            }
            Target::DeviceData => {
                let disk = disk();
                open_with(disk.path(), OFlags::empty())
                    .write_all_at(b"x", 5)
                    .unwrap();
                Case::device(disk)
            }
            Target::DeviceMounted => {
                let mounted = Mounted::new(16 << 20);
                Case::of(text(&mounted.disk.path()), Vec::new()).with(mounted)
            }
            Target::DeviceOpen => {
                let disk = disk();
                let writer = open_with(disk.path(), OFlags::empty());
                Case::device(disk).with(writer)
            }
            Target::DeviceHeld => {
                let disk = disk();
                let flags = OFlags::RDONLY | OFlags::EXCL;
                let holder = rustix::fs::open(disk.path(), flags, rustix::fs::Mode::empty());
                Case::device(disk).with(holder.unwrap())
            }
            Target::DeviceServed => {
                let disk = disk();
                serve(text(&disk.path()));
                Case::device(disk)
            }
            Target::DeviceReadOnly => {
                let disk = disk();
                run("blockdev", &["--setro", text(&disk.path())]);
                let writable_again = WritableAgain(disk.name.clone());
                Case::device(disk).with(writable_again)
            }
            Target::FileNew => Case {
                size: " --size 16M",
                ..Case::file(&place.file("new"))
            },
            Target::File => Case::file(&new()),
            Target::FileSignature => {
                run("mkfs.ext4", &["-q", "-F", &new()]);
                Case::file(&place.file("disk"))
            }
            Target::FileData => {
                open_with(new(), OFlags::empty())
                    .write_all_at(b"x", (9 << 20) + 77)
                    .unwrap();
                Case::file(&place.file("disk"))
            }
            Target::FileLoop => {
                let name = loop_device::attach(new().as_ref(), &[]);
                Case::file(&place.file("disk")).with(Detached(format!("/dev/{name}")))
            }
            Target::FileOpen => {
                Case::file(&new()).with(open_with(place.file("disk"), OFlags::empty()))
            }
            Target::FileServed => {
                serve(&new());
                Case::file(&place.file("disk"))
            }
            Target::FileOfEmulated => {
                serve(&new());
                let id = other.only_disk()["id"].as_str().unwrap().to_owned();
                let mount = other
                    .state_dir()
                    .canonicalize()
                    .unwrap()
                    .join(id)
                    .join("mount");
                let names = fs::read_dir(&mount)
                    .unwrap()
                    .flatten()
                    .map(|entry| entry.path());
                let is_disk = |path: &PathBuf| text(path).contains("/disk-");
                Case::file(names.into_iter().find(is_disk).unwrap().to_str().unwrap())
            }
            Target::FileOfTwoNames => {
                fs::hard_link(new(), place.file("other")).unwrap();
                Case::file(&place.file("disk"))
            }
            Target::Link => {
                std::os::unix::fs::symlink(new(), place.file("link")).unwrap();
                Case::file(&place.file("link"))
            }
        }
    }
}

#[test]
fn what_a_disk_may_stand_over_is_what_the_document_says() {
    let tools = ["mkfs.ext4", "mount", "blockdev"];
    let (Some(lab), Some(other)) = (Lab::new(&tools), Lab::new(&tools)) else {
        return;
    };
    for target in Target::ALL {
        let place = Place::new();
        let case = Case::new(target, &place, &other);
        for said in Said::ALL {
            let expected = served(target, said);
            let option = match said {
                Said::Nothing => String::new(),
                Said::Destroy => " --destroy-data".into(),
                Said::DestroyNamed => format!(" --destroy-data={}", case.target),
                Said::ReadOnly => " --read-only".into(),
            };
            if matches!(expected, Answer::Impossible(_)) {
                continue;
            }
            let (target_name, size) = (&case.target, case.size);
            let output = lab.emulate(&format!(
                "create --over {target_name} --scheduler noop{size}{option}"
            ));
            let words = stderr(&output);
            let case_is = format!("{target:?}, {said:?}: {words}");
            match (expected, output.status.code()) {
                (Answer::Allowed, Some(0)) => lab.remove("--all"),
                (Answer::UntilNamed, Some(11)) => {
                    assert!(words.contains("--destroy-data="), "{case_is}");
                }
                (Answer::Refused, Some(9 | 11)) => {
                    assert_eq!(words.matches("error: ").count(), 1, "{case_is}");
                    assert!(words.contains("hint: "), "{case_is}");
                }
                (expected, code) => panic!("{expected:?}, but {code:?} for {case_is}"),
            }
            if target == Target::FileNew {
                fs::remove_file(&case.target).unwrap();
            }
            lab.assert_clean();
        }
        other.remove("--all");
    }
}

/// Disks that stand over one another go from the top, so that none is in use and nothing that was written is lost.
#[test]
fn all_disks_of_a_stack_are_removed_at_once() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    for remove in ["remove --all", "remove --all --force"] {
        // By their names the lowest would be first, the top last but one.
        let mut device = lab.create("fixed --size 16M --scheduler noop");
        for scheduler in ["deadline", "cfq"] {
            device = lab.create(&format!(
                "--over {device} --scheduler {scheduler} --destroy-data"
            ));
        }
        let top = OpenOptions::new().write(true).open(&device).unwrap();
        top.write_all_at(&[7; BLOCK], 0).unwrap();
        drop(top);
        let servers: Vec<String> = lab
            .list()
            .iter()
            .map(|disk| format!("(pid {})", disk["server_pid"]))
            .collect();
        // udev may look into one for a moment, but none is kept by another's server.
        wait_for("the end of whoever else looks at a disk", || {
            let removed = lab.emulate(remove);
            let words = stderr(&removed);
            assert!(!words.contains("may not be on the medium"), "{words}");
            let kept = servers.iter().find(|server| words.contains(*server));
            assert_eq!(kept, None, "{words}");
            removed.status.success() && lab.remains().is_empty()
        });
        lab.assert_clean();
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_one_sentence() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let place = Place::new();
    let file = place.zeros("disk", 16);
    let missing = place.file("missing");
    let proc = "/proc/sys/vm/swappiness";
    for (words, code, says) in [
        (
            format!("{file} --scheduler noop --depth 33"),
            2,
            "33 is not in 1..=32",
        ),
        (file.clone(), 2, "--scheduler"),
        (
            format!("{file} --scheduler noop hdd-7200-fifo"),
            2,
            "cannot be used with",
        ),
        (
            format!("{file} --scheduler noop --size 16M"),
            11,
            "is there already",
        ),
        (
            format!("{file} --scheduler cfq:slice_idle"),
            2,
            "hint: tunables stand",
        ),
        (format!("{missing} --scheduler noop"), 3, "does not exist"),
        (
            "/dev/null --scheduler noop".into(),
            3,
            "neither a block device",
        ),
        (format!("{proc} --scheduler noop"), 3, "is on proc, where"),
    ] {
        lab.refuses(&format!("create --over {words}"), code, says);
        assert!(!Path::new(&missing).exists());
        lab.assert_clean();
    }
}
