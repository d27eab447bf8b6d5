//! A file system of our own on a device that the user gave up (`--mkfs`): made and mounted before
//! the first trial, unmounted and its signature erased after the last.
//!
//! It bears a label that was drawn by chance and is in the journal before anything is written, and so is what tells the
//! device from others. By both it is known again after a crash, also after a reboot: what has another label, or none, and
//! a copy on another disk are left alone. So is what somebody has used since: a file system that is not mounted where the
//! run had it is looked into first.

use std::ffi::CStr;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rand::Rng;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde::{Deserialize, Serialize};

use crate::device::mounts::MountTable;
use crate::device::{self, Device, Identity, Mount, Recognition};
use crate::failure::{NotUndone, Problem, exit, in_a_sentence};
use crate::host::Host;
use crate::process::{self, ChildError, Stop, User};
use crate::sysfs::natural_order;
use crate::user_files;

/// mkfs on a large slow disk takes at the most this long.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long those who work in it may take to end: what a killed run leaves is ended by the kernel.
const PATIENCE: Duration = Duration::from_secs(10);

/// What erases signatures.
const ERASER: &str = "wipefs";

/// A kind of file system, with what it takes to make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystemKind {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// F2FS.
    F2fs,
}

impl FileSystemKind {
    /// All of them, the default first.
    pub const ALL: [FileSystemKind; 4] = [
        FileSystemKind::Ext4,
        FileSystemKind::Xfs,
        FileSystemKind::Btrfs,
        FileSystemKind::F2fs,
    ];

    /// What the kernel and the user call it.
    pub fn name(self) -> &'static str {
        match self {
            FileSystemKind::Ext4 => "ext4",
            FileSystemKind::Xfs => "xfs",
            FileSystemKind::Btrfs => "btrfs",
            FileSystemKind::F2fs => "f2fs",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<FileSystemKind> {
        FileSystemKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// The program that makes it, its options, and the one before the label. Whether the device may be
    /// written was asked before: what is on it is no reason to stop.
    fn mkfs(self) -> (&'static str, &'static [&'static str], &'static str) {
        match self {
            // Empty inode tables are not written at all (minutes on a large disk), see `mount_options`.
            // What is kept back for root would be missing to a load that runs as somebody else.
            FileSystemKind::Ext4 => (
                "mkfs.ext4",
                &[
                    "-q",
                    "-F",
                    "-m0",
                    "-Elazy_itable_init=1,lazy_journal_init=1",
                ],
                "-L",
            ),
            FileSystemKind::Xfs => ("mkfs.xfs", &["-q", "-f"], "-L"),
            FileSystemKind::Btrfs => ("mkfs.btrfs", &["-q", "-f"], "-L"),
            FileSystemKind::F2fs => ("mkfs.f2fs", &["-q", "-f"], "-l"),
        }
    }

    /// What keeps it from working on itself in the middle of a trial; what older kernels take comes second.
    fn mount_options(self) -> &'static [Option<&'static CStr>] {
        match self {
            // Since 5.17 all block bitmaps are read in the background: of a disk of 4 TB for 15 s.
            FileSystemKind::Ext4 => &[
                Some(c"noinit_itable,no_prefetch_block_bitmaps"),
                Some(c"noinit_itable"),
            ],
            FileSystemKind::Xfs | FileSystemKind::Btrfs | FileSystemKind::F2fs => &[None],
        }
    }

    /// XFS mounts nothing whose UUID is mounted already.
    fn options_beside_a_copy(self) -> Option<&'static CStr> {
        match self {
            FileSystemKind::Xfs => Some(c"nouuid"),
            FileSystemKind::Ext4 | FileSystemKind::Btrfs | FileSystemKind::F2fs => None,
        }
    }

    fn package(self) -> &'static str {
        match self {
            FileSystemKind::Ext4 => "e2fsprogs",
            FileSystemKind::Xfs => "xfsprogs",
            FileSystemKind::Btrfs => "btrfs-progs",
            FileSystemKind::F2fs => "f2fs-tools",
        }
    }
}

/// A file system of our own: where it is, and how it is known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnFileSystem {
    /// Kernel name of the device that it is on.
    pub device: String,
    /// The device's node.
    pub node: PathBuf,
    /// What it is.
    pub kind: FileSystemKind,
    /// Drawn by chance.
    pub label: String,
    /// Where it is mounted, below `/run/iosched/mounted`.
    pub mount_point: PathBuf,
    /// What tells the device that was given up from others; not in older entries of the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The device is an emulated disk, and what is on it goes with its server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_with_server: bool,
}

/// Which device has a file system of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bearer {
    /// None: the one that was given up holds none of ours, or went for good with what it held.
    None,
    /// None, but what is on the one that was given up is mounted where the run mounted it: it was given another label, or
    /// went for good.
    MountedAlone,
    /// The one that was given up is not there, and may hold it.
    Away,
    /// The one that was given up.
    Known(PathBuf),
    /// One has its label, and nothing proves that it is the one that was given up.
    Doubtful(PathBuf),
}

/// What became of a file system of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// There was none.
    Nothing,
    /// On the device of this name it was unmounted, and its signature erased.
    Done(String),
    /// On the device of this name it was unmounted, and nothing was erased: what is there is not ours any more, or went
    /// for good.
    Unmounted(String),
    /// The device that was given up is not there: it may still be on it.
    Away,
}

impl OwnFileSystem {
    /// Chooses a label and a place; makes nothing.
    pub fn choose(host: &Host, device: &str, kind: FileSystemKind) -> OwnFileSystem {
        let given_up = Device::read(host, device).ok();
        // XFS takes labels of up to 12 bytes.
        let label = format!("ios-{:08x}", rand::rng().next_u32());
        OwnFileSystem {
            device: device.into(),
            node: host.dev(device),
            kind,
            mount_point: host.run("iosched/mounted").join(&label),
            label,
            goes_with_server: given_up
                .as_ref()
                .is_some_and(|device| device.goes_with_server(host)),
            identity: given_up.map(|device| Identity::of(host, &device)),
        }
    }

    /// Makes it and mounts it, so that this user can write to it. Whether the device may be written was
    /// asked before ([`may_write`](crate::device::may_write)).
    ///
    /// # Errors
    /// It cannot be made or mounted, or we were interrupted ([`exit::INTERRUPTED`]): then nothing of it is left.
    pub fn make(&self, user: Option<&User>, stop: &Stop) -> Result<(), Problem> {
        check_can_be_erased()?;
        let failed = |source: io::Error| {
            let path = self.mount_point.display();
            Problem::new(exit::FAILURE, format!("cannot use {path}: {source}"))
        };
        make_passage(&self.mount_point).map_err(failed)?;
        self.mkfs(stop)
            .and_then(|()| self.mount())
            .inspect_err(|_| self.erase_unused())?;
        let Some(user) = user else { return Ok(()) };
        chown(&self.mount_point, Some(user.uid), Some(user.gid)).map_err(failed)
    }

    /// What was made a moment ago, or begun, and could not be used: nobody can have put anything into it.
    fn erase_unused(&self) {
        if self.is_on(&self.node) {
            let _ = erase_signatures(&self.node); // what stays is found by `undo`
        }
    }

    fn mkfs(&self, stop: &Stop) -> Result<(), Problem> {
        let (program, options, label) = self.kind.mkfs();
        let mut command = Command::new(program);
        command
            .args(options)
            .args([label, &self.label])
            .arg(&self.node);
        let finished = match process::run(command, LONGEST, stop, &mut |_| {}) {
            Err(ChildError::Missing { .. }) => return Err(missing(program, self.kind.package())),
            Err(ChildError::Stopped) => return Err(Problem::new(exit::INTERRUPTED, "interrupted")),
            other => other.map_err(|error| Problem::new(exit::FAILURE, in_a_sentence(&error)))?,
        };
        if finished.status.success() {
            return Ok(());
        }
        let said = format!("{}\n{}", finished.stdout, finished.stderr);
        let said = process::last_lines(&said, 2);
        let status = process::describe(finished.status);
        let message = format!(
            "cannot make a file system ({}) on {}: {program} failed with {status}: {said}",
            self.kind.name(),
            self.device
        );
        Err(Problem::new(exit::FAILURE, message).hint("is the device large enough for it?"))
    }

    fn mount(&self) -> Result<(), Problem> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let name = self.kind.name();
        let mut mounted = Err(Errno::INVAL);
        for &options in self.kind.mount_options() {
            if mounted == Err(Errno::INVAL) {
                mounted = mount(&self.node, &self.mount_point, name, flags, options);
            }
        }
        mounted.map_err(|errno| {
            let device = &self.device;
            let error = io::Error::from(errno);
            let message = format!("cannot mount the file system ({name}) on {device}: {error}");
            let unknown =
                format!("this kernel does not know {name}: run `modprobe {name}`, or take another");
            Problem::new(exit::FAILURE, message)
                .maybe_hint((errno == Errno::NODEV).then_some(unknown))
        })
    }

    /// Unmounts it and erases its signature, so that the device is known to hold nothing.
    pub fn undo(&self, host: &Host) -> Result<Removal, NotUndone> {
        let not_undone = |thing: String, cause: String| NotUndone { thing, cause };
        let at = || self.mount_point.display().to_string();
        let bearer = self.bearer(host);
        // Who may mount nothing (the unit at boot) finds nothing mounted after a boot.
        let mounts = MountTable::read(host);
        let mounted = mounts.as_ref().ok().and_then(|mounts| self.mounted(mounts));
        if let Some(other) = mounted.filter(|mount| !self.is_own(host, mount)) {
            let cause = format!(
                "{} is mounted there, which no run does",
                other.source.display()
            );
            return Err(not_undone(at(), cause));
        }
        let is_mounted = mounts.is_err() || mounted.is_some();
        let unmounted = if is_mounted {
            unmount_patiently(&self.mount_point)
        } else {
            Ok(false)
        };
        let was_mounted = match unmounted {
            Ok(was_mounted) => was_mounted,
            Err(Errno::BUSY) => return Err(not_undone(at(), "somebody still works in it".into())),
            Err(error) => return Err(not_undone(at(), error.to_string())),
        };
        let _ = fs::remove_dir(&self.mount_point);
        let node = match bearer {
            Bearer::None | Bearer::MountedAlone if was_mounted => {
                return Ok(Removal::Unmounted(self.device.clone()));
            }
            Bearer::None | Bearer::MountedAlone => return Ok(Removal::Nothing),
            Bearer::Away => return Ok(Removal::Away),
            Bearer::Known(node) => node,
            Bearer::Doubtful(node) => {
                let cause = "nothing proves that it is the device that was given up";
                return Err(not_undone(kernel_name(&node), self.left(&node, cause)));
            }
        };
        if let Err(cause) = self.check_unused(&node) {
            // Nobody keeps anything on a disk whose content ends with its server.
            if self.goes_with_server {
                return Ok(Removal::Unmounted(self.device.clone()));
            }
            return Err(not_undone(kernel_name(&node), self.left(&node, &cause)));
        }
        erase_signatures(&node).map_err(|cause| not_undone(kernel_name(&node), cause))?;
        Ok(Removal::Done(kernel_name(&node)))
    }

    /// The device that it is on now: after a reboot the disk may have another name.
    pub fn bearer(&self, host: &Host) -> Bearer {
        let mounted_from = self.mounted_from(host);
        if let Some(node) = mounted_from.as_ref().filter(|node| self.is_on(node)) {
            return Bearer::Known(node.clone());
        }
        let (mut doubtful, mut is_here) = (None, false);
        let own = (self.device.clone(), self.node.clone());
        // All other disks are read only if it is not where it was.
        let others = others(host).filter(|(_, node)| *node != self.node);
        for (device, node) in std::iter::once(own).chain(others) {
            match self.recognise(host, &device) {
                Recognition::Another(_) => {}
                Recognition::Same if self.is_on(&node) => return Bearer::Known(node),
                Recognition::Same => is_here |= is_readable(&node),
                Recognition::Unknown if self.is_on(&node) => {
                    doubtful = Some(Bearer::Doubtful(node));
                }
                // One of its name that nothing tells from it is taken for it, unless it came later in the same boot.
                Recognition::Unknown => {
                    let is_home = device == self.device && !self.came_later(host);
                    is_here |= is_home && is_readable(&node);
                }
            }
        }
        doubtful.unwrap_or(if !self.goes_with_server && !is_here {
            Bearer::Away
        } else if mounted_from.is_some() {
            Bearer::MountedAlone
        } else {
            Bearer::None
        })
    }

    /// Whether this is the device that was given up.
    fn recognise(&self, host: &Host, device: &str) -> Recognition {
        match (&self.identity, identity_now(host, device)) {
            (Some(then), Some(now)) => then.recognise(&now),
            _ => Recognition::Unknown,
        }
    }

    /// True if the device of this name has come, or got another medium, since the run began, in the same boot.
    fn came_later(&self, host: &Host) -> bool {
        let (Some(then), Some(now)) = (&self.identity, identity_now(host, &self.device)) else {
            return false;
        };
        let is_same_boot = then.boot_id.is_some() && then.boot_id == now.boot_id;
        is_same_boot && then.diskseq.is_some() && then.diskseq != now.diskseq
    }

    /// What the run mounted, if its mount is there, whatever is on the device by now.
    fn mounted_from(&self, host: &Host) -> Option<PathBuf> {
        let mounts = MountTable::read(host).ok()?;
        let mount = self.mounted(&mounts)?;
        self.is_own(host, mount).then(|| mount.source.clone())
    }

    /// What is mounted, uppermost, where the run mounted it.
    fn mounted<'table>(&self, mounts: &'table MountTable) -> Option<&'table Mount> {
        let mount = mounts.containing(&self.mount_point)?;
        (mount.mount_point == self.mount_point).then_some(mount)
    }

    /// Whether the run mounted this: of a disk that does not answer any more the label cannot be read, and a copy on
    /// another has it, too.
    fn is_own(&self, host: &Host, mount: &Mount) -> bool {
        let node = fs::canonicalize(&mount.source).unwrap_or_else(|_| mount.source.clone());
        match self.recognise(host, &kernel_name(&node)) {
            Recognition::Same => node == self.node || self.is_on(&node),
            Recognition::Another(_) => false,
            Recognition::Unknown => node == self.node,
        }
    }

    fn is_on(&self, node: &Path) -> bool {
        device::label(node).is_ok_and(|label| label.as_ref() == Some(&self.label))
    }

    /// Whether it holds nothing but what a run puts there: somebody may have mounted it since and kept files in it.
    fn check_unused(&self, node: &Path) -> Result<(), String> {
        let unseen = |error: io::Error| format!("it cannot be looked into: {error}");
        // Not where the run had it: who is killed here must not leave what looks like the run's own mount.
        let at = self.mount_point.with_extension("look");
        let _ = unmount_patiently(&at);
        let _ = fs::remove_dir(&at);
        make_passage(&at).map_err(unseen)?;
        let flags =
            MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        let mounted = mount(
            node,
            &at,
            self.kind.name(),
            flags,
            self.kind.options_beside_a_copy(),
        );
        let looked = mounted
            .map_err(io::Error::from)
            .and_then(|()| stranger_in(&at));
        let unmounted = unmount_patiently(&at);
        let is_half_made = |error: &io::Error| {
            // mkfs.xfs writes the label first: with `sb_inprogress` it is corrupt for the kernel, and nobody can mount it.
            self.kind == FileSystemKind::Xfs
                && error.raw_os_error() == Some(Errno::UCLEAN.raw_os_error())
        };
        if looked.as_ref().is_err_and(is_half_made) {
            let _ = fs::remove_dir(&at);
            return Ok(());
        }
        let _ = fs::remove_dir(&at);
        if let Some(name) = looked.map_err(unseen)? {
            return Err(format!("it holds {name:?}, which no run makes"));
        }
        unmounted.map(drop).map_err(|error| unseen(error.into()))
    }

    /// Why it stays, and what would remove it.
    fn left(&self, node: &Path, cause: &str) -> String {
        format!(
            "it has the file system {} of a run that was cut short, and {cause}; to remove it: wipefs --all {}; to keep it, give it another label",
            self.label,
            node.display()
        )
    }
}

/// The devices of the machine that can be read, with their nodes, looked for once the first is wanted: one of device
/// mapper's that is suspended would not answer. None of a copied tree.
fn others(host: &Host) -> impl Iterator<Item = (String, PathBuf)> {
    let look = || {
        let sysfs = host.sysfs();
        let mut names = sysfs.all_devices().unwrap_or_default();
        names.retain(|name| {
            let is = |file, value| sysfs.read_if_present(name, file).as_deref() == Some(value);
            !is("size", "0") && !is("dm/suspended", "1")
        });
        names.sort_by(|a, b| natural_order(a, b));
        names
    };
    let names = host.is_live().then_some(look).into_iter();
    names.flat_map(|look| look()).map(|name| {
        let node = host.dev(&name);
        (name, node)
    })
}

fn is_readable(node: &Path) -> bool {
    let opened = fs::File::open(node);
    opened.is_ok_and(|mut node| node.read_exact(&mut [0; 512]).is_ok())
}

fn missing(program: &str, package: &str) -> Problem {
    let problem = Problem::new(exit::MISSING, format!("{program} is not installed"));
    problem.hint(format!("install it: it is in the package {package}"))
}

/// The identity of the device that has this name now, if one has.
fn identity_now(host: &Host, device: &str) -> Option<Identity> {
    let device = Device::read(host, device).ok()?;
    Some(Identity::of(host, &device))
}

/// The first name in the root of a file system that a run does not make there.
fn stranger_in(root: &Path) -> io::Result<Option<String>> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_as_made = match name.to_str() {
            Some("lost+found") => fs::read_dir(entry.path())?.next().is_none(),
            _ => user_files::is_drawn_name(&name) && entry.file_type()?.is_dir(),
        };
        if !is_as_made {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

/// A new directory whose parents can be passed through, but not listed, by whoever the loads run as.
fn make_passage(path: &Path) -> io::Result<()> {
    for above in path
        .ancestors()
        .skip(1)
        .take(2)
        .collect::<Vec<_>>()
        .iter()
        .rev()
    {
        match DirBuilder::new().mode(0o711).create(above) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => fs::set_permissions(above, Permissions::from_mode(0o711))?,
        }
    }
    DirBuilder::new().mode(0o755).create(path)
}

/// True if something was mounted there. Those who are just ending are waited for.
fn unmount_patiently(at: &Path) -> Result<bool, Errno> {
    const STEP: Duration = Duration::from_millis(50);
    let mut waited = Duration::ZERO;
    loop {
        match unmount(at, UnmountFlags::NOFOLLOW) {
            Ok(()) => return Ok(true),
            // It is no mount point, or not there at all.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(false),
            Err(Errno::BUSY) if waited < PATIENCE => {
                std::thread::sleep(STEP);
                waited += STEP;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The kernel's name of the device behind a node.
pub fn kernel_name(node: &Path) -> String {
    node.strip_prefix("/dev")
        .unwrap_or(node)
        .display()
        .to_string()
}

/// What makes it is of no use where what erases it is not installed.
fn check_can_be_erased() -> Result<(), Problem> {
    match Command::new(ERASER).arg("--version").output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(ERASER, "util-linux")),
        _ => Ok(()),
    }
}

fn erase_signatures(node: &Path) -> Result<(), String> {
    let mut command = Command::new(ERASER);
    let output = command.args(["--all", "--quiet"]).arg(node).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(process::last_lines(
            &String::from_utf8_lossy(&output.stderr),
            2,
        )),
        Err(error) => Err(format!("cannot run {ERASER}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name() {
        for kind in FileSystemKind::ALL {
            assert_eq!(FileSystemKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(FileSystemKind::from_name("ntfs"), None);
    }

    #[test]
    fn a_label_fits_into_every_kind_of_file_system() {
        let chosen = OwnFileSystem::choose(&Host::live(), "loop0", FileSystemKind::Xfs);
        assert_eq!(chosen.label.len(), 12);
        assert!(chosen.mount_point.starts_with("/run/iosched/mounted"));
    }

    #[test]
    fn where_none_was_made_there_is_nothing_to_undo() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        let mut chosen = OwnFileSystem::choose(&host, "loop0", FileSystemKind::Ext4);
        assert_eq!(chosen.undo(&host), Ok(Removal::Away)); // nor is the device
        // Another's is left alone.
        let node = dir.path().join("disk");
        fs::write(&node, [0; 4096]).unwrap();
        chosen.node = node;
        assert_eq!(chosen.undo(&host), Ok(Removal::Nothing));
    }

    /// A file of 16 MiB in the place of a device: a file system can be made in it, and it cannot be mounted.
    fn on_a_file() -> (tempfile::TempDir, Host, OwnFileSystem) {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        fs::create_dir(dir.path().join("run")).unwrap();
        let mut chosen = OwnFileSystem::choose(&host, "loop0", FileSystemKind::Ext4);
        chosen.node = dir.path().join("disk");
        let disk = fs::File::create(&chosen.node).unwrap();
        disk.set_len(16 << 20).unwrap();
        (dir, host, chosen)
    }

    #[test]
    fn what_cannot_be_mounted_is_erased_at_once() {
        let (_dir, host, chosen) = on_a_file();
        let error = chosen.make(None, &Stop::new()).unwrap_err();
        assert!(error.message.starts_with("cannot mount"), "{error}");
        assert_eq!(device::label(&chosen.node).unwrap(), None);
        assert_eq!(chosen.undo(&host), Ok(Removal::Nothing));
    }

    #[test]
    fn what_nothing_proves_to_be_ours_is_named_and_stays() {
        let (_dir, host, mut chosen) = on_a_file();
        chosen.identity = None; // as an older version wrote it
        chosen.mkfs(&Stop::new()).unwrap();
        assert_eq!(chosen.bearer(&host), Bearer::Doubtful(chosen.node.clone()));
        for _ in 0..2 {
            let left = chosen.undo(&host).unwrap_err();
            assert!(left.cause.contains("nothing proves"), "{}", left.cause);
            assert!(left.cause.contains("another label"), "{}", left.cause);
            assert!(chosen.is_on(&chosen.node));
        }
    }

    #[test]
    fn what_a_run_does_not_make_is_somebody_elses() {
        let dir = tempfile::tempdir().unwrap();
        let stranger = || stranger_in(dir.path()).unwrap();
        for ours in ["lost+found", ".iosched-0123456789abcdef"] {
            fs::create_dir(dir.path().join(ours)).unwrap();
        }
        assert_eq!(stranger(), None);
        for theirs in [".iosched-notes", "precious"] {
            let path = dir.path().join(theirs);
            fs::write(&path, "").unwrap();
            assert_eq!(stranger().as_deref(), Some(theirs));
            fs::remove_file(path).unwrap();
        }
        let named_like_ours = dir.path().join(".iosched-fedcba9876543210");
        fs::write(&named_like_ours, "").unwrap();
        assert!(stranger().is_some());
    }
}
