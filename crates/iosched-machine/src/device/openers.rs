//! The processes that have a device or a file open: a virtual machine, a raw database, an mkfs that still runs.
//!
//! A descriptor counts by the number of the device that it leads to, so that a node of another name or in
//! another mount namespace hides nobody; a shared writable mapping counts as well, since its descriptor may
//! be closed. Seen are the processes in our pid namespace and below it: all of them, for root on the machine
//! itself. Not seen are descriptors that a process sent away or registered with `io_uring` and then closed,
//! and the kernel's own users that do not open exclusively.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mounts::{Mount, MountTable};
use super::{Device, DeviceNumber, FileNumber, overlay};
use crate::host::Host;
use crate::process::{self, patience::ask_each};
use crate::{lossy, regular_file};

/// A process that has a device open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    /// The device, or the path of the file.
    pub device: String,
    /// The process' command.
    pub command: String,
    /// The process.
    pub pid: i32,
    /// True if it can write to it.
    pub writes: bool,
}

/// Who has devices open, and whom we were not allowed to look at.
#[derive(Debug, Default)]
pub struct Openers {
    /// Each process and device once.
    pub found: Vec<Opener>,
    /// A process whose descriptors we may not list, and why.
    pub not_looked_at: Option<(PathBuf, io::Error)>,
}

/// Looks for processes that have one of the devices open, other than those in `except`.
pub fn openers(host: &Host, devices: &[Device], except: &[i32]) -> Openers {
    let name = |device: usize| devices[device].name.clone();
    look_for(host, Sought::Devices(devices.to_vec()), name, except)
}

/// Looks for processes that have one of these files open, other than those in `except`: the same file under several
/// numbers ([`overlay`]), called by its path.
pub(super) fn openers_of_file(
    host: &Host,
    path: &Path,
    files: &[FileNumber],
    except: &[i32],
) -> Openers {
    let sought = Sought::File {
        numbers: files.to_vec(),
        mounts: Arc::new(MountTable::read(host).unwrap_or_default()),
    };
    let name = |_: usize| path.display().to_string();
    look_for(host, sought, name, except)
}

/// What is looked for.
enum Sought {
    Devices(Vec<Device>),
    File {
        numbers: Vec<FileNumber>,
        /// Our mounts, by which layers of overlays are found.
        mounts: Arc<MountTable>,
    },
}

fn look_for(
    host: &Host,
    sought: Sought,
    name: impl Fn(usize) -> String,
    except: &[i32],
) -> Openers {
    let mut openers = Openers::default();
    let processes = match process::numbers(host) {
        Ok(processes) => processes,
        Err(error) => {
            // A copied tree need not have it.
            openers.not_looked_at = host.is_live().then(|| (host.proc(""), error));
            return openers;
        }
    };
    let mut look = Look {
        is_live: host.is_live(),
        sought: Arc::new(sought),
        mounts: HashMap::new(),
    };
    let others: Vec<i32> = processes
        .into_iter()
        .filter(|pid| !except.contains(pid))
        .collect();
    let of_host = host.clone();
    let answers = ask_each(&others, move |pid| {
        look.uses(&of_host.proc(&pid.to_string()))
    });
    for (pid, answer) in others.into_iter().zip(answers) {
        openers.add(host, pid, answer, &name);
    }
    openers
}

/// What a process has open: devices by index, the file as 0, each with whether it can write to it.
type Uses = HashMap<usize, bool>;

impl Openers {
    /// What was found of a process; nothing if it did not answer.
    fn add(
        &mut self,
        host: &Host,
        pid: i32,
        answer: Option<io::Result<Uses>>,
        name: impl Fn(usize) -> String,
    ) {
        let process = host.proc(&pid.to_string());
        match answer {
            Some(Ok(uses)) => {
                self.found
                    .extend(uses.into_iter().map(|(device, writes)| Opener {
                        device: name(device),
                        command: command_of(&process),
                        pid,
                        writes,
                    }));
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.not_looked_at
                    .get_or_insert((process.join("fd"), error));
            }
            Some(Err(_)) => {} // it has ended
            None => {
                let error = io::Error::other(
                    "this process does not answer: a server of a file that it has mapped hangs, as it seems",
                );
                self.not_looked_at.get_or_insert((process, error));
            }
        }
    }
}

/// What is looked for, and what is known of the machine's mounts.
#[derive(Clone)]
struct Look {
    /// False for a copied tree: its links lead nowhere, or to devices of this machine.
    is_live: bool,
    sought: Arc<Sought>,
    /// What is mounted in each mount namespace.
    mounts: HashMap<PathBuf, Arc<MountTable>>,
}

impl Look {
    fn uses(&mut self, process: &Path) -> io::Result<Uses> {
        let mut uses = Uses::new();
        let mut found = |device: Option<usize>, writes: bool| {
            if let Some(device) = device {
                *uses.entry(device).or_insert(false) |= writes;
            }
        };
        for table in tables(process)? {
            for descriptor in fs::read_dir(table.join("fd"))?.flatten() {
                let link = descriptor.path();
                let info = lossy::read(table.join("fdinfo").join(descriptor.file_name()));
                let info = Info::parse(&info.unwrap_or_default());
                if !info.is_path_only {
                    let on = info.mount.map(On::Mount);
                    found(self.leads_to(process, &link, on), info.writes);
                }
            }
        }
        let maps = lossy::read(process.join("maps")).unwrap_or_default();
        for (range, file_system) in maps.lines().filter_map(shared_and_writable) {
            let link = process.join("map_files").join(range);
            let on = file_system.map(On::FileSystem);
            found(self.leads_to(process, &link, on), true);
        }
        Ok(uses)
    }

    /// What is sought that a link of `/proc` leads to. Links to file systems of other machines and to FUSE are
    /// not followed: their servers may hang.
    fn leads_to(&mut self, process: &Path, link: &Path, on: Option<On>) -> Option<usize> {
        let target = fs::read_link(link).ok()?;
        if !target.is_absolute() {
            return None; // a socket, a pipe
        }
        if !self.is_live {
            let Sought::Devices(devices) = &*self.sought else {
                return None;
            };
            return devices.iter().position(|device| device.node() == target);
        }
        let sought = Arc::clone(&self.sought);
        let mounted = on.and_then(|on| self.mount(process, on));
        let may_hang = mounted.is_some_and(may_hang);
        // The file system of the file that is sought has answered already.
        let has_answered = match &*sought {
            Sought::File { numbers, .. } => {
                let is_on = |mount: &Mount, file: &FileNumber| {
                    mount.number == DeviceNumber::of_raw(file.device)
                };
                mounted.is_some_and(|mount| numbers.iter().any(|file| is_on(mount, file)))
            }
            Sought::Devices(_) => false,
        };
        if may_hang && !has_answered {
            return None;
        }
        let metadata = fs::metadata(link).ok()?;
        match &*sought {
            Sought::Devices(devices) => {
                let number = DeviceNumber::of_raw(Some(metadata).filter(is_block)?.rdev());
                devices.iter().position(|device| device.number == number)
            }
            Sought::File { numbers, mounts } => {
                let in_layers =
                    || mounted.map_or(Vec::new(), |mount| overlay::below(mounts, mount, &target));
                let is_it = numbers.contains(&FileNumber::of(&metadata))
                    || in_layers().iter().any(|file| numbers.contains(file));
                is_it.then_some(0)
            }
        }
    }

    fn mount(&mut self, process: &Path, on: On) -> Option<&Mount> {
        let namespace = fs::read_link(process.join("ns/mnt")).ok()?;
        let mounts = self.mounts.entry(namespace).or_insert_with(|| {
            let table = regular_file::read(process.join("mountinfo")).unwrap_or_default();
            Arc::new(MountTable::of(&table))
        });
        match on {
            On::Mount(id) => mounts.with_id(id),
            On::FileSystem(number) => mounts.with_number(number),
        }
    }
}

/// What the kernel says of where a file is, without asking its file system.
#[derive(Clone, Copy)]
enum On {
    /// The number of the mount.
    Mount(u64),
    /// The number of the file system.
    FileSystem(DeviceNumber),
}

/// True of file systems whose server may be gone: who asks them waits.
fn may_hang(mount: &Mount) -> bool {
    const OF_OTHERS: [&str; 10] = [
        "nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs", "lustre", "coda", "virtiofs",
    ];
    OF_OTHERS.contains(&mount.fs_type.as_str()) || mount.fs_type.starts_with("fuse")
}

/// The directories with a process' descriptors: its own, or those of its threads where the first one
/// has ended before the others.
fn tables(process: &Path) -> io::Result<Vec<PathBuf>> {
    if fs::read_dir(process.join("fd"))?.next().is_some() {
        return Ok(vec![process.to_owned()]);
    }
    let threads = fs::read_dir(process.join("task")).into_iter().flatten();
    Ok(threads.flatten().map(|thread| thread.path()).collect())
}

fn is_block(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_block_device()
}

/// What `/proc/PID/fdinfo` says of a descriptor.
struct Info {
    /// Also where nothing is said.
    writes: bool,
    /// It stands for a path, and nothing can be done with what is there.
    is_path_only: bool,
    mount: Option<u64>,
}

impl Info {
    fn parse(text: &str) -> Info {
        const ACCESS_MODE: u32 = 0o3;
        const READ_ONLY: u32 = 0;
        const PATH: u32 = 0o10_000_000;
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let flags = value("flags:").and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok());
        Info {
            writes: flags.is_none_or(|flags| flags & ACCESS_MODE != READ_ONLY),
            is_path_only: flags.is_some_and(|flags| flags & PATH != 0),
            mount: value("mnt_id:").and_then(|id| id.trim().parse().ok()),
        }
    }
}

/// Of a line of `/proc/PID/maps` that is mapped shared and may be written to: the range, and the file system of what is
/// mapped (hexadecimal there).
fn shared_and_writable(line: &str) -> Option<(&str, Option<DeviceNumber>)> {
    let mut fields = line.split_ascii_whitespace();
    let (range, rights) = (fields.next()?, fields.next()?.as_bytes());
    let file_system = fields.nth(1).and_then(|number| {
        let (major, minor) = number.split_once(':')?;
        let parse = |number| u32::from_str_radix(number, 16).ok();
        Some(DeviceNumber {
            major: parse(major)?,
            minor: parse(minor)?,
        })
    });
    let is_both = rights.get(1) == Some(&b'w') && rights.get(3) == Some(&b's');
    is_both.then_some((range, file_system))
}

fn command_of(process: &Path) -> String {
    let name = lossy::read(process.join("comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::fd::AsFd;
    use std::os::unix::ffi::OsStrExt;

    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::super::find;
    use super::super::fixture::LoopDevice;
    use super::*;

    /// Whether we ourselves have it open, and can write to it.
    fn ours(disk: &LoopDevice) -> Option<bool> {
        let host = Host::live();
        let device = find(&host, disk.path()).unwrap();
        let found = openers(&host, &[device], &[]).found;
        let own = i32::try_from(std::process::id()).unwrap();
        let ours = found.into_iter().find(|opener| opener.pid == own);
        ours.map(|opener| opener.writes)
    }

    #[test]
    fn a_reader_and_a_writer_are_told_apart_and_a_closed_one_is_none() {
        let Some(disk) = LoopDevice::new(16) else {
            return;
        };
        assert_eq!(ours(&disk), None);
        let reader = fs::File::open(&disk.node).unwrap();
        assert_eq!(ours(&disk), Some(false));
        let writer = fs::File::options().write(true).open(&disk.node).unwrap();
        assert_eq!(ours(&disk), Some(true));
        drop((reader, writer));
        assert_eq!(ours(&disk), None);
    }

    #[test]
    fn a_node_of_another_name_and_a_mapping_without_descriptor_are_found() {
        let Some(disk) = LoopDevice::new(16) else {
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let node = dir.path().join("disk-of-a-machine");
        let number = fs::metadata(&disk.node).unwrap().rdev();
        let kind = rustix::fs::FileType::BlockDevice;
        rustix::fs::mknodat(rustix::fs::CWD, &node, kind, 0o600.into(), number).unwrap();
        let file = fs::File::options().read(true).write(true).open(&node);
        let Ok(file) = file else {
            iosched_testing::lacks("nodes outside of /dev (the directory is mounted nodev)");
            return;
        };
        assert_eq!(ours(&disk), Some(true));
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice, which is never touched.
        let at =
            unsafe { mmap(std::ptr::null_mut(), 4096, rights, flags, file.as_fd(), 0) }.unwrap();
        drop(file);
        assert_eq!(ours(&disk), Some(true));
        // Whatever else is mapped: names are bytes.
        let other = dir.path().join(OsStr::from_bytes(b"caf\xe9"));
        fs::write(&other, [0; 4096]).unwrap();
        let other = fs::File::open(&other).unwrap();
        let (rights, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
        // SAFETY: as above.
        let beside =
            unsafe { mmap(std::ptr::null_mut(), 4096, rights, flags, other.as_fd(), 0) }.unwrap();
        assert_eq!(ours(&disk), Some(true));
        // SAFETY: what was mapped above, and nothing refers to it.
        unsafe { munmap(beside, 4096) }.unwrap();
        // SAFETY: what was mapped above, and nothing refers to it.
        unsafe { munmap(at, 4096) }.unwrap();
        assert_eq!(ours(&disk), None);
    }

    #[test]
    fn who_does_not_answer_is_named_and_not_taken_for_nobody() {
        let mut openers = Openers::default();
        let name = |_: usize| "sda".to_owned();
        let host = Host::live();
        let ended = io::ErrorKind::NotFound.into();
        openers.add(&host, 3, Some(Err(ended)), name);
        assert!(openers.not_looked_at.is_none());
        openers.add(&host, 4, None, name);
        let (process, error) = openers.not_looked_at.unwrap();
        assert_eq!(process, Path::new("/proc/4"));
        assert!(error.to_string().contains("does not answer"), "{error}");
    }

    #[test]
    fn a_file_system_whose_server_may_be_gone_is_not_asked_of_descriptors_and_mappings() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["fd", "fdinfo", "map_files", "ns"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("file"), "").unwrap();
        let metadata = fs::metadata(at("file")).unwrap();
        let link = |target: &Path, name: &str| {
            std::os::unix::fs::symlink(target, at(name)).unwrap();
        };
        link(Path::new("mnt:[1]"), "ns/mnt");
        link(&at("file"), "fd/3");
        link(&at("file"), "map_files/7f0000000000-7f0000001000");
        fs::write(at("fdinfo/3"), "flags:\t0100002\nmnt_id:\t29\n").unwrap();
        let maps = "7f0000000000-7f0000001000 rw-s 00000000 ff:fffff 7 /mnt/file\n";
        fs::write(at("maps"), maps).unwrap();
        let sought = Arc::new(Sought::File {
            numbers: vec![FileNumber::of(&metadata)],
            mounts: Arc::default(),
        });
        for (kind, is_found) in [("ext4", true), ("nfs4", false), ("fuse.sshfs", false)] {
            let mountinfo = format!("29 1 255:1048575 / /mnt rw - {kind} there rw\n");
            fs::write(at("mountinfo"), mountinfo).unwrap();
            for only in ["fd/3", "map_files/7f0000000000-7f0000001000"] {
                let mut look = Look {
                    is_live: true,
                    sought: Arc::clone(&sought),
                    mounts: HashMap::new(),
                };
                let on = match only {
                    "fd/3" => Some(On::Mount(29)),
                    _ => shared_and_writable(maps).and_then(|(_, on)| on.map(On::FileSystem)),
                };
                let found = look.leads_to(dir.path(), &at(only), on);
                assert_eq!(found.is_some(), is_found, "{kind}: {only}");
            }
            let mut look = Look {
                is_live: true,
                sought: Arc::clone(&sought),
                mounts: HashMap::new(),
            };
            assert_eq!(look.uses(dir.path()).unwrap().len(), usize::from(is_found));
        }
    }

    #[test]
    fn flags_are_octal_and_a_descriptor_of_a_path_is_no_use_of_it() {
        let info = Info::parse("pos:\t0\nflags:\t0100002\nmnt_id:\t29\n");
        assert!(info.writes && !info.is_path_only);
        assert_eq!(info.mount, Some(29));
        assert!(!Info::parse("flags:\t0100000\n").writes);
        assert!(Info::parse("flags:\t012000000\n").is_path_only);
        assert!(Info::parse("").writes, "unknown");
    }
}
