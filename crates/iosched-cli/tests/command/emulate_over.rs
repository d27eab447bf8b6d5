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
use crate::common::lab::{Lab, attribute, stderr, wait_for};
use crate::common::{LoopDevice, Mounted, run};

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

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// A file of zeros.
    fn zeros(&self, name: &str, mebibytes: u64) -> PathBuf {
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

/// `--destroy-data=…`.
fn destroy(path: &Path) -> String {
    format!("--destroy-data={}", path.display())
}

#[test]
fn what_is_written_is_in_the_file_whichever_scheduler_comes_meanwhile() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let place = Place::new();
    let file = place.file("disk");
    let device = lab.create(&[
        "--over",
        text(&file),
        "--size",
        "64M",
        "--scheduler",
        "cfq:slice_idle=0",
        "--depth",
        "3",
    ]);
    let disk = lab.only_disk();
    assert_eq!(disk["over"], text(&file));
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
    let check = lab.emulate(&["check", &device]);
    assert_eq!(check.status.code(), Some(1));
    assert!(
        stderr(&check).contains("has no model"),
        "{}",
        stderr(&check)
    );
    lab.remove(&[&device]);
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
    let name = loop_device::attach(&file, &["--sector-size", "4096"]);
    let below = Detached(format!("/dev/{name}"));
    let device = lab.create(&[
        "--over",
        &below.0,
        "--scheduler",
        "deadline",
        "--destroy-data",
    ]);
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
    lab.remove(&[&device]);
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

#[test]
fn discards_are_not_offered_where_they_cannot_be_done_below() {
    let Some(lab) = Lab::new(&["blkdiscard", "mount"]) else {
        return;
    };
    let place = Place::new();
    let memory = place.file("ramfs");
    fs::create_dir(&memory).unwrap();
    run("mount", &["-t", "ramfs", "none", text(&memory)]);
    let _mounted = Unmounted(memory.clone());
    let file = memory.join("disk");
    File::create(&file).unwrap().set_len(8 << 20).unwrap();
    let refused = lab.emulate(&["create", "--over", text(&file), "--scheduler", "noop"]);
    assert_eq!(refused.status.code(), Some(15), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("cannot be opened for direct I/O"),
        "{}",
        stderr(&refused)
    );
    let below = Detached(format!("/dev/{}", loop_device::attach(&file, &[])));
    assert_eq!(attribute(&below.0, "queue/write_zeroes_max_bytes"), "0");
    let device = lab.create(&["--over", &below.0, "--scheduler", "noop", "--destroy-data"]);
    assert_eq!(attribute(&device, "queue/discard_max_bytes"), "0");
    let discard = Command::new("blkdiscard").arg(&device).output().unwrap();
    assert!(!discard.status.success());
    // Zeros are written where they cannot be made otherwise.
    let disk = open_with(&device, OFlags::DIRECT);
    disk.write_all_at(&Block::holding(9).0, 0).unwrap();
    drop(disk);
    run("blkdiscard", &["--zeroout", &device]);
    assert!(fs::read(&file).unwrap().iter().all(|&byte| byte == 0));
    lab.remove(&[&device]);
    lab.assert_clean();
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
    let disk = below.create(&["null", "--size", "16M"]);
    let device = lab.create(&["--over", &disk, "--scheduler", "cfq", "--destroy-data"]);
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
    lab.remove(&[&device]);
    lab.assert_clean();
    below.remove(&[&disk]);
}

/// Every access to a file that became shorter fails; the log is in memory.
#[test]
fn of_many_accesses_that_fail_the_log_names_some_and_counts_the_others() {
    const READS: u64 = 1000;
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let place = Place::new();
    let file = place.zeros("disk", 64);
    let device = lab.create(&["--over", text(&file), "--scheduler", "noop"]);
    let disk = open_with(&device, OFlags::DIRECT);
    File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_len(BLOCK as u64)
        .unwrap();
    for block in 1..=READS {
        let mut data = Block([0; BLOCK]);
        disk.read_exact_at(&mut data.0, block * BLOCK as u64)
            .unwrap_err();
    }
    // What is not about an access comes after the count.
    let set = lab.emulate(&["set", &device, "deadline"]);
    assert!(set.status.success(), "{}", stderr(&set));
    let log = fs::read_to_string(lab.only_dir().join("server.log")).unwrap();
    let named = log
        .lines()
        .filter(|line| line.contains("cannot read"))
        .count() as u64;
    let counts = log.lines().filter_map(|line| {
        let (_, text) = line.split_once("] ")?;
        text.strip_suffix(" more lines about accesses are left out")
    });
    let counted: u64 = counts.map(|count| count.parse::<u64>().unwrap()).sum();
    assert!(named < READS / 2 && named + counted >= READS, "{log}");
    drop(disk);
    lab.remove(&[&device]);
    lab.assert_clean();
}

#[test]
fn an_error_below_is_an_error_above_and_of_nothing_else() {
    let Some(lab) = Lab::new(&["mount"]) else {
        return;
    };
    let place = Place::new();
    let small = place.file("small");
    fs::create_dir(&small).unwrap();
    run(
        "mount",
        &["-t", "tmpfs", "-o", "size=4m", "none", text(&small)],
    );
    let _mounted = Unmounted(small.clone());
    if !loop_device::takes_direct_io(&small) {
        lacks("direct I/O on tmpfs (Linux 6.6)");
        return;
    }
    let file = small.join("disk");
    let device = lab.create(&[
        "--over",
        text(&file),
        "--size",
        "64M",
        "--scheduler",
        "noop",
    ]);
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
    lab.remove(&[&device]);
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
        let device = lab.create(&[
            "--over",
            text(&file),
            "--scheduler",
            scheduler,
            "--depth",
            &(1 + chance.below(32)).to_string(),
            &destroy(&file),
        ]);
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
        wait_for("the end of whoever else looks at the disk", || {
            lab.emulate(&["remove", "--all"]).status.success() && lab.remains().is_empty()
        });
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
fn a_file_system_on_it_is_clean_after_its_journal_is_replayed_whenever_the_server_is_killed() {
    const KILLS: u64 = 3;
    let Some(lab) = Lab::new(&["mkfs.ext4", "e2fsck", "mount"]) else {
        return;
    };
    let place = Place::new();
    let file = place.file("disk");
    let device = lab.create(&["--over", text(&file), "--size", "64M", "--scheduler", "cfq"]);
    run("mkfs.ext4", &["-q", &device]);
    lab.remove(&[&device]);
    let at = lab.mount_point();
    let mut chance = Chance::new(seed());
    for round in 0..KILLS {
        let device = lab.create(&[
            "--over",
            text(&file),
            "--scheduler",
            "deadline",
            &destroy(&file),
        ]);
        run("mount", &[&device, text(&at)]);
        if round == 0 {
            let remove = lab.emulate(&["remove", &device]);
            assert_eq!(remove.status.code(), Some(9), "{}", stderr(&remove));
            assert!(
                stderr(&remove).contains("is mounted at"),
                "{}",
                stderr(&remove)
            );
        }
        let enough = 1 + chance.below(40);
        let count = Mutex::new(0);
        let safe: u64 = thread::scope(|threads| {
            let writer = threads.spawn(|| {
                // Files that grow and are renamed: their names and sizes are in the journal.
                for number in 1.. {
                    let write = || -> std::io::Result<()> {
                        let path = at.join("new");
                        let new = File::create(&path)?;
                        new.write_all_at(&Block::holding(number).0, 0)?;
                        new.sync_all()?;
                        fs::rename(path, at.join(format!("file-{}", number % 5)))?;
                        File::open(&at)?.sync_all()
                    };
                    if write().is_err() {
                        return number - 1;
                    }
                    *count.lock().unwrap() += 1;
                }
                unreachable!("numbers do not end")
            });
            wait_for("files", || *count.lock().unwrap() >= enough);
            lab.kill_server();
            writer.join().unwrap()
        });
        run("umount", &["--lazy", text(&at)]);
        wait_for("the end of whoever else looks at the disk", || {
            lab.emulate(&["remove", "--all"]).status.success() && lab.remains().is_empty()
        });
        let replay = Command::new("e2fsck")
            .args(["-p", text(&file)])
            .output()
            .unwrap();
        assert!(
            replay.status.code().is_some_and(|code| code <= 1),
            "{replay:?}"
        );
        let check = Command::new("e2fsck")
            .args(["-fn", text(&file)])
            .output()
            .unwrap();
        assert_eq!(check.status.code(), Some(0), "{check:?}");
        run("mount", &["-o", "loop,ro", text(&file), text(&at)]);
        for number in safe.saturating_sub(4).max(1)..=safe {
            let found = fs::read(at.join(format!("file-{}", number % 5))).unwrap();
            let found = number_in(&found);
            // A rename that was not acknowledged may have come as well.
            assert!(
                found == number || found == safe + 1,
                "{found} for {number} of {safe}"
            );
        }
        run("umount", &[text(&at)]);
    }
}

#[test]
fn what_is_dirty_above_is_in_the_file_when_the_server_ends_in_order_whoever_has_it_open() {
    let Some(lab) = Lab::new(&["mkfs.ext4", "mount"]) else {
        return;
    };
    let place = Place::new();
    let file = place.file("disk");
    let device = lab.create(&["--over", text(&file), "--size", "64M", "--scheduler", "cfq"]);
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
    wait_for("the end of whoever else looks at the disk", || {
        lab.emulate(&["remove", "--all"]).status.success() && lab.remains().is_empty()
    });
}

#[test]
fn what_is_only_to_be_read_takes_no_writes_and_stays_as_it_is() {
    let Some(lab) = Lab::new(&["mkfs.ext4", "mount"]) else {
        return;
    };
    let place = Place::new();
    let file = place.zeros("disk", 16);
    run("mkfs.ext4", &["-q", "-F", text(&file)]);
    let before = fs::read(&file).unwrap();
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    let device = lab.create(&["--over", text(&file), "--scheduler", "cfq", "--read-only"]);
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
    lab.remove(&[&device]);
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
    options: Vec<&'static str>,
    /// Dropped with it, the first first.
    keeps: Vec<Box<dyn std::any::Any>>,
}

impl Case {
    fn of(target: &str, keeps: Vec<Box<dyn std::any::Any>>) -> Case {
        Case {
            target: target.to_owned(),
            options: Vec::new(),
            keeps,
        }
    }

    fn device(disk: LoopDevice) -> Case {
        Case::of(&disk.path().display().to_string(), vec![Box::new(disk)])
    }

    fn file(path: &Path) -> Case {
        Case::of(text(path), Vec::new())
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
            other.create(&["--over", target, "--scheduler", "noop", "--destroy-data"]);
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
                options: vec!["--size", "16M"],
                ..Case::file(&place.file("new"))
            },
            Target::File => Case::file(&new()),
            Target::FileSignature => {
                run("mkfs.ext4", &["-q", "-F", text(&new())]);
                Case::file(&place.file("disk"))
            }
            Target::FileData => {
                open_with(new(), OFlags::empty())
                    .write_all_at(b"x", (9 << 20) + 77)
                    .unwrap();
                Case::file(&place.file("disk"))
            }
            Target::FileLoop => {
                let name = loop_device::attach(&new(), &[]);
                Case::file(&place.file("disk")).with(Detached(format!("/dev/{name}")))
            }
            Target::FileOpen => {
                Case::file(&new()).with(open_with(place.file("disk"), OFlags::empty()))
            }
            Target::FileServed => {
                serve(text(&new()));
                Case::file(&place.file("disk"))
            }
            Target::FileOfEmulated => {
                serve(text(&new()));
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
                Case::file(&names.into_iter().find(is_disk).unwrap())
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
            let named = format!("--destroy-data={}", case.target);
            let mut args = vec!["create", "--over", &case.target, "--scheduler", "noop"];
            args.extend(&case.options);
            match said {
                Said::Nothing => {}
                Said::Destroy => args.push("--destroy-data"),
                Said::DestroyNamed => args.push(&named),
                Said::ReadOnly => args.push("--read-only"),
            }
            if matches!(expected, Answer::Impossible(_)) {
                continue;
            }
            let output = lab.emulate(&args);
            let words = stderr(&output);
            let case_is = format!("{target:?}, {said:?}: {words}");
            match (expected, output.status.code()) {
                (Answer::Allowed, Some(0)) => lab.remove(&["--all"]),
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
        other.remove(&["--all"]);
    }
}

/// Disks that stand over one another go from the top, so that none is in use and nothing that was written is lost.
#[test]
fn all_disks_of_a_stack_are_removed_at_once() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    for force in [&[][..], &["--force"]] {
        // By their names the lowest would be first, the top last but one.
        let mut device = lab.create(&["fixed", "--size", "16M", "--scheduler", "noop"]);
        for scheduler in ["deadline", "cfq"] {
            device = lab.create(&[
                "--over",
                &device,
                "--scheduler",
                scheduler,
                "--destroy-data",
            ]);
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
            let removed = lab.emulate(&[&["remove", "--all"], force].concat());
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
    let over = ["create", "--over", text(&file)];
    let noop = ["--scheduler", "noop"];
    let tiny = place.file("tiny");
    fs::write(&tiny, b"").unwrap();
    let missing = place.file("missing");
    for (args, code, says) in [
        (
            [&over[..], &noop, &["--depth", "0"]].concat(),
            2,
            "`0` is no depth",
        ),
        (
            [&over[..], &noop, &["--depth", "33"]].concat(),
            2,
            "`33` is no depth",
        ),
        (over.to_vec(), 2, "--scheduler"),
        (
            [&over[..], &["--scheduler", "anticipatory"]].concat(),
            5,
            "no scheduler is called `anticipatory`",
        ),
        (
            [&over[..], &noop, &["hdd-7200"]].concat(),
            2,
            "cannot be used with",
        ),
        (
            [&over[..], &noop, &["--size", "16M"]].concat(),
            11,
            "is there already",
        ),
        (
            [&over[..], &noop, &["--read-only", "--destroy-data"]].concat(),
            2,
            "cannot be used with",
        ),
        (
            [&["create", "--over", text(&missing)][..], &noop].concat(),
            3,
            "does not exist",
        ),
        (
            [&["create", "--over", "/dev/no-such-disk"][..], &noop].concat(),
            3,
            "hint: `iosched list` shows the disks",
        ),
        (
            [&["create", "--over", "/dev/shm/no-such-file"][..], &noop].concat(),
            3,
            "hint: with --size a file of zeros is made",
        ),
        (
            [&["create", "--over", text(&tiny)][..], &noop].concat(),
            3,
            "has no room for a block",
        ),
        (
            [&["create", "--over", "/dev/null"][..], &noop].concat(),
            3,
            "neither a block device nor a regular file",
        ),
        (
            [&["create", "--over", "/proc/sys/vm/swappiness"][..], &noop].concat(),
            3,
            "is on proc, where the kernel shows its own state",
        ),
        (
            [&["create", "--over", "/sys/new", "--size", "1M"][..], &noop].concat(),
            3,
            "is on sysfs, where the kernel shows its own state",
        ),
        (
            [&over[..], &["--scheduler", "cfq:slice_idle"]].concat(),
            2,
            "hint: tunables stand behind the scheduler's name",
        ),
        (
            [&["create", "--over", "no-such-disk"][..], &noop].concat(),
            3,
            "there is no block device no-such-disk",
        ),
        (vec!["create"], 2, "MODEL|FILE"),
    ] {
        let output = lab.emulate(&args);
        let words = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {words}");
        assert!(words.contains(says), "{args:?}: {words}");
        assert_eq!(words.matches("error: ").count(), 1, "{args:?}: {words}");
        assert!(!missing.exists());
        lab.assert_clean();
    }
}

#[test]
fn a_path_that_leads_to_no_disk_says_what_is_wrong_with_it() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    let place = Place::new();
    let disk = LoopDevice::new(16 << 20);
    let file = place.zeros("disk", 16);
    let circle = place.file("circle");
    std::os::unix::fs::symlink(&circle, &circle).unwrap();
    let with_slash = |path: &Path| format!("{}/", path.display());
    let without_slash = "hint: leave out the / at its end: /dev/loop";
    for (path, size, code, says) in [
        (with_slash(&disk.path()), None, 3, without_slash),
        (with_slash(&file), None, 3, "is not a directory"),
        (with_slash(&file), Some("1M"), 11, "is there already"),
        (with_slash(&file) + "disk", None, 3, "is not a directory"),
        (text(&circle).to_owned(), None, 11, "is reached by a link"),
        (
            with_slash(&place.file("")) + &"l".repeat(300),
            None,
            3,
            "File name too long",
        ),
    ] {
        let mut args = vec!["create", "--scheduler", "noop", "--over", &path];
        args.extend(size.map(|size| ["--size", size]).into_iter().flatten());
        let output = lab.emulate(&args);
        let words = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{path}: {words}");
        assert!(words.contains(says), "{path}: {words}");
        lab.assert_clean();
    }
}

/// Also where a scheduler is to stand inside, which both take.
#[test]
fn what_is_for_a_disk_below_is_refused_with_a_model() {
    let Some(lab) = Lab::new(&[]) else {
        return;
    };
    for option in [&["--depth", "3"][..], &["--read-only"], &["--destroy-data"]] {
        for scheduler in [&[][..], &["--scheduler", "noop"]] {
            let output = lab.emulate(&[&["create", "null"], option, scheduler].concat());
            let words = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{option:?}: {words}");
            assert!(words.contains(option[0]), "{words}");
            lab.assert_clean();
        }
    }
    let twice = ["--scheduler", "cfq:slice_idle=0,slice_idle=8"];
    let output = lab.emulate(&[&["create", "null"], &twice[..]].concat());
    let words = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("`slice_idle` is set twice"), "{words}");
    lab.assert_clean();
}

#[test]
fn a_new_file_goes_with_a_disk_that_does_not_come() {
    let Some(lab) = Lab::new(&["mount"]) else {
        return;
    };
    let place = Place::new();
    let dir = place.file("dir");
    fs::create_dir(&dir).unwrap();
    run("mount", &["-t", "ramfs", "none", text(&dir)]);
    let _mounted = Unmounted(dir.clone());
    let new = dir.join("new");
    let output = lab.emulate(&[
        "create",
        "--over",
        text(&new),
        "--size",
        "1M",
        "--scheduler",
        "noop",
    ]);
    assert_eq!(output.status.code(), Some(15), "{}", stderr(&output));
    assert!(!new.exists());
    lab.assert_clean();
}
