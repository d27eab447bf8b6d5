//! A raw disk over its life: given up and measured, interrupted, killed and gone on with, beside what others write to it,
//! new names, boots and changed settings. What was not given up is not written.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::disk::LifeOfDisk;
use super::runs::{
    self, INTERRUPTED, Kernel, Recorded, Records, is_killed, nothing_is_left, recorded, restore,
};
use super::{LIVES_OF_RUNS, Life, live, seeds};
use crate::common::chance::Chance;
use crate::common::checks::processes_here;
use crate::common::traced::{End, Traced};
use crate::common::tuning::MIB;
use crate::common::{LoopDevice, can_use_loop_devices, wait_until};

/// The exit code of a refusal to write.
const REFUSED: i32 = 11;

/// Where others write what has no signature. The load writes before that, and all in the first MiB, which is looked
/// at whole.
const DATA_AT: u64 = 512 << 10;

/// Where a swap area has its signature, and how much of it tells it from another.
const SIGNATURE_AT: usize = 4086;
const SIGNATURE: &[u8] = b"SWAPSPACE2";
const SUPERBLOCK: usize = 4096;

/// A disk, a neighbour of the same size that nobody gave up, and what must be so of both.
struct LifeOfRawDisk {
    settings: LifeOfDisk,
    neighbour: LoopDevice,
    kernel: Kernel,
    records: Records,
    unfinished: Vec<Unfinished>,
    /// How often others wrote.
    writes: u64,
}

/// A run that can be gone on with.
struct Unfinished {
    out: PathBuf,
    /// The name that its disk had.
    device: String,
    /// The signature that was given up.
    given_up: Option<Vec<u8>>,
    /// All of the disk when it was interrupted; none if it was killed.
    left: Option<Vec<u8>>,
    resumptions: usize,
}

fn signature(bytes: &[u8]) -> Option<Vec<u8>> {
    let is_there = bytes[SIGNATURE_AT..].starts_with(SIGNATURE);
    is_there.then(|| bytes[..SUPERBLOCK].to_vec())
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// What the user says of the data.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Consent {
    No,
    ToWrite,
    Named,
}

impl Consent {
    fn drawn(chance: &mut Chance) -> Consent {
        match chance.below(5) {
            0 => Consent::No,
            1 | 2 => Consent::ToWrite,
            _ => Consent::Named,
        }
    }

    fn option(self, device: &str) -> Option<String> {
        match self {
            Consent::No => None,
            Consent::ToWrite => Some("--destroy-data".into()),
            Consent::Named => Some(format!("--destroy-data={device}")),
        }
    }
}

impl LifeOfRawDisk {
    fn new() -> LifeOfRawDisk {
        let neighbour = LoopDevice::new(8 * MIB);
        fs::write(neighbour.file(), vec![0x6e; 8 << 20]).unwrap();
        LifeOfRawDisk {
            settings: LifeOfDisk::new(LoopDevice::new(8 * MIB)),
            neighbour,
            kernel: Kernel::new(),
            records: Records::new(),
            unfinished: Vec::new(),
            writes: 0,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.settings.disk.file()).unwrap()
    }

    /// Others write to the disk.
    fn write(&mut self, offset: u64, data: &[u8]) {
        let node = self.settings.disk.path();
        let node = fs::File::options().write(true).open(node).unwrap();
        node.write_all_at(data, offset).unwrap();
        node.sync_all().unwrap();
    }

    fn new_run(&mut self, chance: &mut Chance) {
        let consent = Consent::drawn(chance);
        let (number, out) = self.records.next();
        let device = self.settings.disk.name.clone();
        self.settings
            .told
            .push(format!("run {number} of {device}, {consent:?}"));
        let load = format!(
            "echo run {number} $IOSCHED_ROUND | dd of=\"$IOSCHED_TARGET\" bs=4096 seek=16 \
             conv=sync,notrunc oflag=direct status=none"
        );
        let before = self.bytes();
        let may_write = match consent {
            Consent::No => false,
            Consent::ToWrite => is_blank(&before),
            Consent::Named => true,
        };
        let mut command = runs::tune(device.as_ref(), &load, &out);
        command.args(consent.option(&device));
        let run = runs::run(&mut command, chance, &mut self.settings.told);
        self.is_as_it_must_be(&run, &before, may_write, true, chance);
        let record = Unfinished {
            out,
            device,
            given_up: signature(&before),
            left: None,
            resumptions: 0,
        };
        self.keep_if_unfinished(record, &run);
    }

    fn resume(&mut self, chance: &mut Chance) {
        if self.unfinished.is_empty() {
            return self.new_run(chance);
        }
        let which = chance.below(self.unfinished.len());
        let mut record = self.unfinished.swap_remove(which);
        let consent = Consent::drawn(chance);
        self.settings
            .told
            .push(format!("run {} goes on, {consent:?}", record.out.display()));
        let before = self.bytes();
        let is_there = record.device == self.settings.disk.name;
        let is_neighbour = record.device == self.neighbour.name;
        let now = signature(&before);
        let is_known = now.is_none()
            || now
                == match &record.left {
                    Some(left) => signature(left),
                    None => record.given_up.clone(),
                };
        let is_ours = is_blank(&before) || record.left.as_ref().is_none_or(|left| *left == before);
        let may_write = is_there
            && match consent {
                Consent::No => false,
                Consent::ToWrite => is_known && is_ours,
                Consent::Named => true,
            };
        let mut command = runs::resume(&record.out);
        command.args(consent.option(&record.device));
        let run = runs::run(&mut command, chance, &mut self.settings.told);
        self.is_as_it_must_be(&run, &before, may_write, is_there || is_neighbour, chance);
        if let Recorded::Unfinished { resumptions, .. } = recorded(&record.out)
            && resumptions > record.resumptions
        {
            record.resumptions = resumptions;
            record.given_up = now;
            record.left = None;
        }
        self.keep_if_unfinished(record, &run);
    }

    /// After a run: what may not be written was not, and its end was one of those that it may have.
    fn is_as_it_must_be(
        &mut self,
        run: &Traced,
        before: &[u8],
        may_write: bool,
        is_disk_there: bool,
        chance: &mut Chance,
    ) {
        let is_cut = run.hit.is_some();
        match run.end {
            End::Exited(0) => assert!(may_write, "it wrote"),
            End::Killed | End::Exited(INTERRUPTED) => assert!(is_cut, "{}", run.stderr),
            End::Exited(REFUSED) => assert!(!may_write, "{}", run.stderr),
            // Where there is no disk of that name, or a stranger's, it says that in other ways.
            End::Exited(_) => assert!(!may_write && !is_disk_there, "{}", run.stderr),
        }
        if !may_write {
            assert!(self.bytes() == before, "the disk was written");
        }
        if is_killed(run) {
            if chance.below(3) == 0 {
                assert!(wait_until(|| processes_here().is_empty()));
                self.reboot(chance);
            }
            restore();
        }
    }

    /// After a run whose record may be one to go on with.
    fn keep_if_unfinished(&mut self, mut record: Unfinished, run: &Traced) {
        let now = recorded(&record.out);
        assert!(run.end != End::Exited(0) || now == Recorded::Finished);
        if let Recorded::Unfinished {
            resumptions,
            has_left,
        } = now
        {
            if has_left && record.left.is_none() {
                record.left = Some(self.bytes());
            }
            record.resumptions = resumptions;
            self.unfinished.push(record);
        }
    }

    /// Both disks are attached anew, under the same names or the other's.
    fn reboot(&mut self, chance: &mut Chance) {
        self.kernel.is_booted();
        if chance.below(2) == 0 {
            self.settings.told.push("reboot".into());
            self.settings.disk.attach_again();
            self.neighbour.attach_again();
        } else {
            self.settings.told.push("reboot, other names".into());
            self.settings.disk.swap_names(&mut self.neighbour);
        }
        self.settings.disk.reset();
        self.neighbour.reset();
        self.settings.is_another();
    }

    fn happens(&mut self, chance: &mut Chance) {
        self.writes += 1;
        let number = u8::try_from(self.writes % 251).unwrap();
        match chance.below(14) {
            0..=2 => self.settings.change_settings(chance),
            3..=5 => self.new_run(chance),
            6..=9 => self.resume(chance),
            10 => {
                self.settings.told.push("others write data".into());
                self.write(DATA_AT, &[1 + number; 4096]);
            }
            11 => {
                self.settings.told.push("others make it swap".into());
                let mut superblock = vec![0; SUPERBLOCK];
                superblock[1024] = 1; // the version
                superblock[1028..1032].copy_from_slice(&100_u32.to_le_bytes()); // the last page
                superblock[1036..1052].fill(1 + number); // the UUID
                let mut magic = &mut superblock[SIGNATURE_AT..];
                magic.write_all(SIGNATURE).unwrap();
                self.write(0, &superblock);
            }
            12 => {
                self.settings.told.push("others wipe it".into());
                self.write(0, &vec![0; 1 << 20]);
            }
            _ => self.reboot(chance),
        }
    }
}

impl Life for LifeOfRawDisk {
    fn step(&mut self, chance: &mut Chance) {
        let told = self.settings.told.len();
        let queue = self.settings.disk.whole_queue();
        let of_neighbour = self.neighbour.whole_queue();
        self.happens(chance);
        let happened = &self.settings.told[told..];
        let is_booted = happened.iter().any(|what| what.starts_with("reboot"));
        let is_set = !happened.iter().any(|what| what.starts_with("run "));
        if !is_booted {
            assert_eq!(self.neighbour.whole_queue(), of_neighbour);
            assert!(is_set || self.settings.disk.whole_queue() == queue);
        }
        let data = fs::read(self.neighbour.file()).unwrap();
        assert!(
            data.iter().all(|&byte| byte == 0x6e),
            "not given up, and written"
        );
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

#[test]
fn whatever_a_raw_disk_lives_through_only_what_was_given_up_is_written() {
    if !can_use_loop_devices() {
        return;
    }
    for seed in seeds(LIVES_OF_RUNS) {
        live(seed, LifeOfRawDisk::new());
    }
}
