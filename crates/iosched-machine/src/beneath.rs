//! Files in a directory that somebody else may change: reached from a descriptor of it, by no link, and never
//! outside of it.
//!
//! Paths are resolved by the kernel in one step (`openat2`, Linux 5.6 and later), or component by component
//! with `O_NOFOLLOW`. A file is opened only if it is a regular one: a FIFO in its place would never let go of
//! whoever opens it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, chmod, fstat, mkdirat, openat,
    openat2, statat, unlinkat,
};
use rustix::io::Errno;

use crate::durable;
use crate::process::Stop;

/// How a directory is opened.
const AS_DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// How one is opened that is only passed through.
pub(crate) const PASSING: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A directory that is held open: whatever happens to its name, this is the same one.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
}

impl Directory {
    /// Opens a directory whose path has no links in it.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let descriptor = match open_without_links(path, AS_DIRECTORY) {
            // One that may not be read can still be written beneath.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                open_without_links(path, PASSING)?
            }
            opened => opened?,
        };
        Ok(Directory { descriptor })
    }

    /// The directory that a descriptor holds, which may only pass through it.
    pub(crate) fn hold(passed: OwnedFd) -> io::Result<Directory> {
        let descriptor = match openat(&passed, ".", AS_DIRECTORY, Mode::empty()) {
            // One that may not be read can still be written beneath.
            Err(Errno::ACCESS) => passed,
            opened => opened?,
        };
        Ok(Directory { descriptor })
    }

    /// A path that leads to this very directory as long as it is held.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()).into()
    }

    /// The same directory, held once more.
    pub fn hold_again(&self) -> io::Result<Directory> {
        let descriptor = self.descriptor.try_clone()?;
        Ok(Directory { descriptor })
    }

    /// A directory below this one.
    pub fn enter(&self, path: &Path) -> io::Result<Directory> {
        let descriptor = resolve(&self.descriptor, path, AS_DIRECTORY, Mode::empty())?;
        Ok(Directory { descriptor })
    }

    /// The descriptor itself.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// Opens a regular file below this directory to be read.
    pub fn open_file(&self, path: &Path) -> io::Result<File> {
        self.open_file_with(path, OFlags::RDONLY, Mode::empty())
    }

    /// Opens a regular file below this directory to be read and written.
    pub fn open_file_to_write(&self, path: &Path) -> io::Result<File> {
        self.open_file_with(path, OFlags::RDWR, Mode::empty())
    }

    /// Not with `O_TRUNC`: what was opened is known only afterwards.
    fn open_file_with(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let descriptor = resolve(&self.descriptor, path, flags, mode)?;
        let kind = FileType::from_raw_mode(fstat(&descriptor)?.st_mode);
        if kind == FileType::RegularFile {
            Ok(File::from(descriptor))
        } else {
            Err(io::Error::other("it is not a regular file"))
        }
    }

    /// The whole text of a regular file of so many bytes at the most: whoever owns it may have made it as large as it
    /// likes.
    ///
    /// # Errors
    /// It is none, is longer, or is no text.
    pub fn read_to_string(&self, path: &Path, most: u64) -> io::Result<String> {
        let mut text = String::new();
        let mut file = self.open_file(path)?.take(most);
        file.read_to_string(&mut text)?;
        if file.into_inner().read(&mut [0])? > 0 {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!(
                    "{} has more than {} MiB",
                    path.display(),
                    most.div_ceil(1 << 20)
                ),
            ));
        }
        Ok(text)
    }

    /// True if nothing stands in this directory.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.entries()?.next().is_none())
    }

    /// The names in this directory, as they come: it may hold more than memory has room for.
    fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
        let names = Dir::read_from(&self.descriptor)?.filter_map(|entry| {
            let name = match entry {
                Ok(entry) => OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(),
                Err(error) => return Some(Err(error.into())),
            };
            (name != "." && name != "..").then_some(Ok(name))
        });
        Ok(names)
    }

    /// What stands in this directory, in the order of the names.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = self.entries()?.collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    /// A directory in this one, made if it is lacking: writable for its owner alone.
    pub fn make(&self, name: &OsStr) -> io::Result<Directory> {
        match mkdirat(&self.descriptor, name, Mode::from_raw_mode(0o755)) {
            Err(error) if error != Errno::EXIST => Err(error.into()),
            _ => self.enter(Path::new(name)),
        }
    }

    /// Makes sure that its names are on disk, as far as its file system can do that.
    pub fn sync(&self) -> io::Result<()> {
        durable::sync_names(&self.descriptor)
    }

    /// What a name in this directory stands for, links themselves included.
    pub fn status(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Makes a directory that only its owner may enter.
    pub fn create_directory(&self, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(&self.descriptor, name, Mode::RWXU)?)
    }

    /// Makes a file, which must not be there, that only its owner may read.
    pub fn create_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.open_file_with(Path::new(name), flags, Mode::RUSR | Mode::WUSR)
    }

    /// Removes a name that is no directory.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes whatever a name stands for; of a directory with all that is in it.
    pub fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        if !is_directory(&self.status(name)?) {
            return self.remove_file(name);
        }
        self.clear_directory(name)?;
        self.remove_directory(name)
    }

    /// Removes all that is in a directory, however deep: only one level is held open at a time.
    ///
    /// # Errors
    /// Something cannot be removed, is mounted there, or was moved away meanwhile.
    pub fn clear_directory(&self, name: &OsStr) -> io::Result<()> {
        self.clear_directory_until(&Stop::new(), name)
    }

    /// The same, until we are asked to stop: not before `REMOVED_REGARDLESS` names are gone, so that what loads usually
    /// leave goes in any case.
    ///
    /// # Errors
    /// As above; of the kind `Interrupted` if we were asked to stop and something is left.
    pub fn clear_directory_until(&self, stop: &Stop, name: &OsStr) -> io::Result<()> {
        let mut removed = 0;
        let mut at = self.enter_to_clear(name)?;
        // The names on the way to `at`, and the identities of the directories that they are in.
        let mut way = vec![(name.to_owned(), identity(&self.descriptor)?)];
        loop {
            if let Some(full) = at.clear_up_to_full(&way, &mut removed, stop)? {
                let inner = at.enter_to_clear(&full);
                let inner = inner.map_err(|error| not_removed(&way, &full, &error))?;
                way.push((full, identity(&at.descriptor)?));
                at = inner;
                continue;
            }
            let (empty, above) = way.pop().expect("it ends with the first");
            if way.is_empty() {
                return Ok(());
            }
            at = at.above(above)?;
            let gone = at.remove_directory(&empty);
            gone.map_err(|error| not_removed(&way, &empty, &error))?;
        }
    }

    /// Removes what stands in this directory up to the first directory that has something in it, which is returned; none if
    /// nothing is left.
    fn clear_up_to_full(
        &self,
        way: &[(OsString, Identity)],
        removed: &mut u64,
        stop: &Stop,
    ) -> io::Result<Option<OsString>> {
        // What is removed while a directory is read may hide others from who reads it: it is empty when it is read so.
        while !self.is_empty()? {
            for name in self.entries()? {
                let name = name?;
                let failed = |error| not_removed(way, &name, &error);
                if !is_directory(&self.status(&name).map_err(failed)?) {
                    self.remove_file(&name).map_err(failed)?;
                } else if self.remove_directory(&name).is_err() {
                    return Ok(Some(name));
                }
                *removed += 1;
                if *removed > REMOVED_REGARDLESS && stop.is_asked() {
                    let said = format!(
                        "stopped after {removed} names; `iosched restore` removes the rest"
                    );
                    return Err(io::Error::new(io::ErrorKind::Interrupted, said));
                }
            }
        }
        Ok(None)
    }

    /// A directory in this one, on the same mount, in which its owner may do everything.
    fn enter_to_clear(&self, name: &OsStr) -> io::Result<Directory> {
        let mode = Mode::from_raw_mode(self.status(name)?.st_mode);
        if !mode.contains(Mode::RWXU) {
            // What its owner may not do he may allow himself. If not, what comes next says so.
            let _ = self.allow_all_to_owner(name);
        }
        let descriptor = open_on_this_mount(&self.descriptor, name)?;
        Ok(Directory { descriptor })
    }

    /// The directory that this one is in, if that is still the one that we came from.
    fn above(&self, came_from: Identity) -> io::Result<Directory> {
        let descriptor = openat(&self.descriptor, "..", AS_DIRECTORY, Mode::empty())?;
        if identity(&descriptor)? != came_from {
            return Err(io::Error::other(
                "a directory was moved while it was being removed",
            ));
        }
        Ok(Directory { descriptor })
    }

    fn allow_all_to_owner(&self, name: &OsStr) -> io::Result<()> {
        let inner = openat(&self.descriptor, name, PASSING, Mode::empty())?;
        // A directory that cannot be read can be held, but not changed through the descriptor itself.
        let held = format!("/proc/self/fd/{}", inner.as_raw_fd());
        Ok(chmod(held, Mode::RWXU)?)
    }
}

/// So many levels of a path are named.
const MOST_NAMED: usize = 20;

/// So many names are removed before a stop is heard.
pub(crate) const REMOVED_REGARDLESS: u64 = 10_000;

/// File system and number of a directory, which no other has as long as it is there.
type Identity = (u64, u64);

fn identity(directory: &OwnedFd) -> io::Result<Identity> {
    let status = fstat(directory)?;
    Ok((status.st_dev, status.st_ino))
}

/// Why what was to be cleared stays, with the path of what cannot be removed.
fn not_removed(way: &[(OsString, Identity)], name: &OsStr, error: &io::Error) -> io::Error {
    let above = way.iter().take(MOST_NAMED).map(|(name, _)| &**name);
    let path: PathBuf = above.chain([name]).collect();
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Opens a directory in another that is not a mount point. Without `openat2` only a mount of another file system
/// is noticed.
fn open_on_this_mount(above: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let how = ResolveFlags::NO_XDEV | ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match openat2(above, name, AS_DIRECTORY, Mode::empty(), how) {
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {
            let inner = openat(above, name, AS_DIRECTORY, Mode::empty())?;
            if fstat(&inner)?.st_dev == fstat(above)?.st_dev {
                Ok(inner)
            } else {
                Err(Errno::XDEV.into())
            }
        }
        other => Ok(other?),
    }
}

/// True if this is a directory.
pub fn is_directory(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode) == FileType::Directory
}

/// A directory and a name in it. The name must not be `..`, nor be lacking.
pub fn split(path: &Path) -> io::Result<(Directory, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => Ok((Directory::open(above)?, name)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Opens a path below `start` that neither leads out of it nor has links in it.
fn resolve(start: &OwnedFd, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(start, path, flags, mode, how) {
        // Not known, or forbidden to programs that a filter does not expect to know it; or somebody renamed
        // directories at that moment.
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {
            resolve_by_steps(start, path, flags, mode)
        }
        other => Ok(other?),
    }
}

/// Whatever stands at a path that has no links in it, to be named but not read.
pub(crate) fn hold_path(path: &Path) -> io::Result<OwnedFd> {
    open_without_links(path, OFlags::PATH | OFlags::CLOEXEC)
}

fn open_without_links(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let start = if path.is_absolute() { "/" } else { "." };
    let start = openat(CWD, start, PASSING, Mode::empty())?;
    let below = path.strip_prefix("/").unwrap_or(path);
    resolve(&start, below, flags, Mode::empty())
}

/// The same without `openat2`.
fn resolve_by_steps(
    start: &OwnedFd,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let mut names: Vec<&OsStr> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Errno::XDEV.into());
            }
        }
    }
    let last = names.pop().unwrap_or(OsStr::new("."));
    let mut at = start.try_clone()?;
    for name in names {
        at = openat(&at, name, PASSING, Mode::empty())?;
    }
    Ok(openat(&at, last, flags | OFlags::NOFOLLOW, mode)?)
}

/// All paths below a directory, relative to it; a directory comes before what is in it. Links are listed and not
/// followed.
pub fn walk(directory: &Directory) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        let inner = directory.enter(&below)?;
        for name in inner.names()? {
            let path = below.join(&name);
            if is_directory(&inner.status(&name)?) {
                open.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::device::fixture::succeeds;

    type Resolve = fn(&OwnedFd, &Path, OFlags, Mode) -> io::Result<OwnedFd>;

    /// With the kernel's help and without.
    const BOTH: [Resolve; 2] = [resolve, resolve_by_steps];

    #[test]
    fn a_path_is_followed_down_and_neither_out_nor_through_links() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("held/inner")).unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        fs::write(dir.path().join("held/inner/file"), "file").unwrap();
        symlink("../secret", dir.path().join("held/link")).unwrap();
        symlink("inner", dir.path().join("held/dirlink")).unwrap();
        let held = Directory::open(&dir.path().join("held")).unwrap();
        for resolve in BOTH {
            let open = |path: &str| {
                resolve(
                    &held.descriptor,
                    Path::new(path),
                    OFlags::RDONLY,
                    Mode::empty(),
                )
            };
            open("inner/file").unwrap();
            open("./inner").unwrap();
            for bad in [
                "link",
                "dirlink/file",
                "../secret",
                "/etc/passwd",
                "inner/../../secret",
            ] {
                assert!(open(bad).is_err(), "{bad}");
            }
        }
        assert!(Directory::open(&dir.path().join("held/dirlink")).is_err());
    }

    #[test]
    fn a_fifo_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let held = Directory::open(dir.path()).unwrap();
        rustix::fs::mknodat(
            held.descriptor(),
            "fifo",
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let error = held.open_file(Path::new("fifo")).unwrap_err();
        assert_eq!(error.to_string(), "it is not a regular file");
    }

    #[test]
    fn removal_takes_links_away_and_leaves_what_they_lead_to() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "kept").unwrap();
        let goes = dir.path().join("goes");
        fs::create_dir_all(goes.join("a/b")).unwrap();
        symlink(&kept, goes.join("a/link")).unwrap();
        symlink(kept.join("file"), goes.join("a/b/link")).unwrap();
        fs::hard_link(kept.join("file"), goes.join("hard")).unwrap();
        fs::set_permissions(goes.join("a/b"), fs::Permissions::from_mode(0o0)).unwrap();
        let held = Directory::open(dir.path()).unwrap();
        held.remove_all(OsStr::new("goes")).unwrap();
        assert!(!goes.exists());
        assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "kept");
    }

    /// Makes one directory in the other, this many, and gives the last.
    fn nest(within: &Directory, depth: usize) -> Directory {
        let mut at = within.hold_again().unwrap();
        for _ in 0..depth {
            at = at.make(OsStr::new("d")).unwrap();
        }
        at
    }

    #[test]
    fn directories_are_removed_however_deep() {
        // Where nothing waits for a disk.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        let held = Directory::open(dir.path()).unwrap();
        // More than a stack has room for frames and a process for descriptors.
        let last = nest(&held, 4000);
        drop(last.create_file(OsStr::new("file")).unwrap());
        held.remove_all(OsStr::new("d")).unwrap();
        assert_eq!(held.names().unwrap(), Vec::<OsString>::new());
    }

    fn many(directory: &Directory, files: u64) {
        drop(directory.create_file(OsStr::new("file")).unwrap());
        for number in 1..files {
            let name = format!("{number}");
            rustix::fs::linkat(
                directory.descriptor(),
                "file",
                directory.descriptor(),
                name,
                AtFlags::empty(),
            )
            .unwrap();
        }
    }

    #[test]
    fn of_many_names_the_rest_is_left_to_who_asks_again_after_a_stop() {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        let held = Directory::open(dir.path()).unwrap();
        let goes = held.make(OsStr::new("goes")).unwrap();
        for (name, files) in [("a", REMOVED_REGARDLESS), ("b", REMOVED_REGARDLESS - 10)] {
            many(&goes.make(OsStr::new(name)).unwrap(), files);
        }
        let stop = Stop::new();
        stop.ask();
        let remove = || held.clear_directory_until(&stop, OsStr::new("goes"));
        let error = remove().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert!(
            error
                .to_string()
                .contains("`iosched restore` removes the rest")
        );
        assert!(!goes.is_empty().unwrap());
        remove().unwrap(); // fewer than are removed in any case
        assert!(goes.is_empty().unwrap());
    }

    #[test]
    fn memory_for_a_removal_does_not_grow_with_the_names() {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        let held = Directory::open(dir.path()).unwrap();
        let goes = held.make(OsStr::new("goes")).unwrap();
        let inner = goes.make(OsStr::new("a")).unwrap();
        let name = "x".repeat(200);
        for number in 0..30_000 {
            inner
                .create_directory(OsStr::new(&format!("{number}{name}")))
                .unwrap();
        }
        many(&goes, 50_000);
        let most = iosched_testing::memory::most_during(|| {
            held.clear_directory(OsStr::new("goes")).unwrap();
        });
        assert!(goes.is_empty().unwrap());
        // All 30 000 names together are 6 MB.
        assert!(most < 4 << 20, "{most} bytes");
    }

    #[test]
    fn what_is_mounted_in_a_directory_is_not_removed_with_it() {
        if !iosched_testing::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        for (what, kind) in [("tmpfs", "--types=tmpfs"), ("../kept", "--bind")] {
            let (goes, kept) = (dir.path().join("goes"), dir.path().join("kept"));
            fs::create_dir_all(goes.join("a/mounted")).unwrap();
            fs::create_dir_all(&kept).unwrap();
            let point = goes.join("a/mounted");
            let (what, point) = (goes.join(what), point.to_str().unwrap());
            assert!(succeeds(
                "mount",
                &["mount", kind, what.to_str().unwrap(), point]
            ));
            fs::write(goes.join("a/mounted/file"), "kept").unwrap();
            let held = Directory::open(dir.path()).unwrap();
            let error = held.remove_all(OsStr::new("goes")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::CrossesDevices, "{kind}");
            let file = fs::read_to_string(goes.join("a/mounted/file"));
            assert!(succeeds("mount", &["umount", point]));
            assert_eq!(file.unwrap(), "kept", "{kind}");
            held.remove_all(OsStr::new("goes")).unwrap();
        }
    }

    #[test]
    fn a_directory_that_is_moved_away_leads_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["goes/a/b", "kept/a"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let held = Directory::open(dir.path()).unwrap();
        let goes = held.enter(Path::new("goes")).unwrap();
        let came_from = identity(&goes.enter(Path::new("a")).unwrap().descriptor).unwrap();
        let inner = goes.enter(Path::new("a/b")).unwrap();
        fs::rename(dir.path().join("goes/a/b"), dir.path().join("kept/a/b")).unwrap();
        let error = inner.above(came_from).unwrap_err().to_string();
        assert_eq!(error, "a directory was moved while it was being removed");
    }

    #[test]
    fn what_is_longer_than_it_may_be_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("log"), "12345678").unwrap();
        let held = Directory::open(dir.path()).unwrap();
        let read = |most| held.read_to_string(Path::new("log"), most);
        assert_eq!(read(8).unwrap(), "12345678");
        let error = read(7).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "log has more than 1 MiB");
    }

    #[test]
    fn what_cannot_be_removed_is_named_by_its_path() {
        if !iosched_testing::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("goes/a/b")).unwrap();
        let point = dir.path().join("goes/a/b");
        let point = point.to_str().unwrap();
        assert!(succeeds("mount", &["mount", "-t", "tmpfs", "none", point]));
        let held = Directory::open(dir.path()).unwrap();
        let error = held.remove_all(OsStr::new("goes")).unwrap_err();
        assert!(succeeds("mount", &["umount", point]));
        assert!(error.to_string().starts_with("goes/a/b: "), "{error}");
    }

    #[test]
    fn a_walk_lists_links_and_does_not_follow_them() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        symlink("/", dir.path().join("a/root")).unwrap();
        let held = Directory::open(dir.path()).unwrap();
        let found = walk(&held).unwrap();
        assert_eq!(found, ["a", "a/b", "a/root"].map(PathBuf::from));
    }
}
