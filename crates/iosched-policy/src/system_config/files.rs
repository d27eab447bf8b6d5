//! Files of the system that we change: read and replaced without following a link, and so that a
//! power failure leaves the old file or the new one.
//!
//! A change is first a value ([`FileChange`]) that can be shown as a difference, kept in the history
//! and turned round; [`FileChange::install`] makes it: temporary file in the same directory, `fsync`,
//! `rename`, `fsync` of the directory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use iosched_machine::failure::{Problem, exit, room_hint};
use iosched_machine::foreign;
use iosched_machine::host::Host;
use iosched_machine::lossy;
use rand::Rng;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::system_config::attributes::Attributes;

/// What stands in the first line of every file that is ours alone. One without it at our place is somebody else's.
const MARK: &str = "Made by iosched";

/// The largest file of the configuration, bytes: in a copied tree it may be anything.
const LARGEST: u64 = 64 << 20;

/// What our temporary files begin with; what a power failure leaves of them is removed by the next
/// change in that directory.
const TEMPORARY: &str = ".iosched-new-";

/// A file as it is and as it will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Its path on the machine.
    pub path: PathBuf,
    /// What it holds now; none where there is no such file.
    pub before: Option<String>,
    /// What it will hold; none if it is to go.
    pub after: Option<String>,
    /// The directories that are made for it, the outermost first: who takes the change back removes those that are
    /// empty then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<PathBuf>,
    /// What a file that goes has besides its text, for who brings it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
}

/// What is said of a file that holds other bytes.
pub(crate) const NOT_TEXT: &str = "is not text in UTF-8";

/// A file that is not touched, for a reason that stands after its path.
fn untouched(path: &Path, reason: &str) -> Problem {
    let message = format!("{} {reason}: not touched", path.display());
    Problem::new(exit::BAD_FILE, message)
}

/// Somebody wrote a file after we had read it.
fn changed_meanwhile(path: &Path) -> Problem {
    untouched(path, "was changed by somebody else meanwhile").hint("look at it, then try again")
}

/// Anything else: read-only, full, not permitted. `action` is `read` or `write`.
fn io_problem(action: &str, path: &Path, source: &io::Error) -> Problem {
    let message = format!("cannot {action} {}: {source}", path.display());
    if source.kind() == io::ErrorKind::InvalidData {
        return untouched(path, NOT_TEXT).hint(
            "make it UTF-8 (`iconv -f ISO-8859-1 -t UTF-8`), or make the change in it by hand",
        );
    }
    let is_forbidden = source.kind() == io::ErrorKind::PermissionDenied;
    let is_attribute = source.raw_os_error() == Some(Errno::PERM.raw_os_error());
    // Rights do not stop root, attributes of a file or directory do.
    let hint = if is_attribute && rustix::process::geteuid().is_root() {
        let (path, above) = (path.display(), path.parent().unwrap_or(path).display());
        Some(format!(
            "see whether the file or its directory may not be changed (lsattr -d {path} {above}); if so, chattr -i"
        ))
    } else if is_forbidden {
        Some("run it as root".into())
    } else if source.kind() == io::ErrorKind::ReadOnlyFilesystem {
        Some(
            "the file system is mounted read-only: remount it writable, or make the change where the system's image is \
             made (`--dry-run` shows it)"
                .into(),
        )
    } else {
        room_hint(source).map(|way| format!("{way}, then try again"))
    };
    let code = if is_forbidden {
        exit::NOT_PERMITTED
    } else {
        exit::BAD_FILE
    };
    Problem::new(code, message).maybe_hint(hint)
}

/// Where a path of the machine leads, its links followed within the machine; none if they go round.
pub(crate) fn followed(host: &Host, path: &Path) -> Option<PathBuf> {
    const LINKS: u32 = 40; // as the kernel
    let names = |path: &Path| -> Vec<OsString> {
        let components = path.components().rev();
        components
            .filter(|component| matches!(component, Component::Normal(_) | Component::ParentDir))
            .map(|component| component.as_os_str().to_owned())
            .collect()
    };
    let mut waiting = names(path);
    let mut walked = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = waiting.pop() {
        if name == ".." {
            walked.pop();
            continue;
        }
        let next = walked.join(&name);
        let Ok(target) = fs::read_link(host.path(&next)) else {
            walked = next;
            continue;
        };
        links += 1;
        if links > LINKS {
            return None;
        }
        if target.is_absolute() {
            walked = PathBuf::from("/");
        }
        waiting.extend(names(&target));
    }
    Some(walked)
}

/// A larger file is no configuration that anybody wrote, and no script.
pub(crate) const LONGEST: u64 = 1 << 20;

/// The text of a file of the machine, links followed within the machine; nothing of one that a link to `/dev/null` turned
/// off, or that cannot be read.
pub(crate) fn text_of(host: &Host, path: &Path) -> Option<String> {
    let end = followed(host, path).filter(|end| end != Path::new("/dev/null"))?;
    let path = host.path(&end);
    let is_short = fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= LONGEST);
    is_short.then(|| lossy::read(path).ok()).flatten()
}

/// The files of these directories whose name ends so: of one name only that in the first directory, sorted by name (the
/// order in which systemd and udev read them).
pub(crate) fn files_of(host: &Host, directories: &[&str], suffix: &str) -> Vec<PathBuf> {
    let mut found = std::collections::BTreeMap::new();
    for directory in directories {
        let entries = fs::read_dir(host.path(Path::new(directory))).into_iter();
        for entry in entries.flatten().flatten() {
            let name = entry.file_name();
            if name.as_encoded_bytes().ends_with(suffix.as_bytes()) {
                let path = Path::new(directory).join(&name);
                found.entry(name).or_insert(path);
            }
        }
    }
    found.into_values().collect()
}

/// True of the text of a file that is ours alone.
pub(crate) fn is_ours(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.contains(MARK))
}

impl FileChange {
    /// What must be done for the file to hold `after` (none: for it to be gone); none if that is so.
    pub(crate) fn plan(
        host: &Host,
        path: impl Into<PathBuf>,
        after: Option<String>,
    ) -> Result<Option<FileChange>, Problem> {
        let path = path.into();
        let found = Found::look(host, &path)?;
        let before = found.as_ref().map(|found| found.text.clone());
        if before == after {
            return Ok(None);
        }
        if let (Some(found), Some(_)) = (&found, &after) {
            found.check_names(&path)?;
        }
        let attributes = match (&found, &after) {
            (Some(found), None) => Some(found.attributes(&path)?),
            _ => None,
        };
        let directories = if after.is_some() {
            missing_directories(host, &path)
        } else {
            Vec::new()
        };
        Ok(Some(FileChange {
            path,
            before,
            after,
            directories,
            attributes,
        }))
    }

    /// The same for a file that is ours alone: one that somebody else wrote at its place is left alone.
    ///
    /// # Errors
    /// It would have to be replaced.
    pub(crate) fn plan_own(
        host: &Host,
        path: impl Into<PathBuf>,
        after: Option<String>,
    ) -> Result<Option<FileChange>, Problem> {
        let path = path.into();
        let is_foreign = read(host, &path)?.is_some_and(|text| !is_ours(&text));
        match (is_foreign, &after) {
            (true, Some(_)) => Err(not_ours(&path)),
            (true, None) => Ok(None),
            (false, _) => FileChange::plan(host, path, after),
        }
    }

    /// The change that takes this one back.
    #[must_use]
    pub(crate) fn reversed(&self) -> FileChange {
        FileChange {
            path: self.path.clone(),
            before: self.after.clone(),
            after: self.before.clone(),
            directories: self.directories.clone(),
            attributes: self.attributes.clone(),
        }
    }

    /// The difference as `diff -u` shows it.
    pub fn diff(&self) -> String {
        let name = |text: &Option<String>| match text {
            Some(_) => self.path.display().to_string(),
            None => "/dev/null".to_owned(),
        };
        let before = self.before.as_deref().unwrap_or_default();
        let after = self.after.as_deref().unwrap_or_default();
        similar::TextDiff::from_lines(before, after)
            .unified_diff()
            .header(&name(&self.before), &name(&self.after))
            .to_string()
    }

    /// Makes the change, on disk when this returns.
    pub(crate) fn install(&self, host: &Host) -> Result<(), Problem> {
        let installed = self.put(host);
        let is_gone = if installed.is_ok() {
            &self.after
        } else {
            &self.before
        }
        .is_none();
        if is_gone {
            self.remove_directories(host);
        }
        installed
    }

    fn put(&self, host: &Host) -> Result<(), Problem> {
        let found = Found::look(host, &self.path)?;
        if let (Some(found), Some(_)) = (&found, &self.after) {
            found.check_names(&self.path)?;
        }
        if found.map(|found| found.text) != self.before {
            return Err(changed_meanwhile(&self.path));
        }
        let fail = |source: io::Error| io_problem("write", &self.path, &source);
        let Some((directory, name)) = open_parent(host, &self.path, self.after.is_some())? else {
            return Ok(()); // to be gone, and so is its directory
        };
        remove_temporaries(&directory);
        let place = DirectoryEntry {
            directory: &directory,
            name: &name,
        };
        let attributes = self.attributes.as_ref();
        let (before, after) = (self.before.as_deref(), self.after.as_deref());
        if !place.put(before, after, attributes).map_err(fail)? {
            return Err(changed_meanwhile(&self.path));
        }
        let synced = rustix::fs::fsync(&directory);
        if synced.is_err() {
            // After a power failure it might not be so: then it is not made at all.
            let _ = place.put(after, before, attributes);
        }
        synced.map_err(|error| fail(error.into()))
    }

    /// Removes the directories that were made for the file, and the one that it was in if that is ours alone
    /// (`/etc/iosched`, TuneD's profile), as far as they are empty.
    pub(crate) fn remove_directories(&self, host: &Host) {
        let own = self.path.parent().filter(|path| path.ends_with("iosched"));
        for directory in own
            .into_iter()
            .chain(self.directories.iter().rev().map(PathBuf::as_path))
        {
            if let Ok(Some((above, name))) = open_parent(host, directory, false) {
                let _ = rustix::fs::unlinkat(&above, &name, AtFlags::REMOVEDIR);
            }
        }
    }
}

/// The directories on the way to a file that are not there, the outermost first.
fn missing_directories(host: &Host, file: &Path) -> Vec<PathBuf> {
    let above = file.ancestors().skip(1);
    let is_missing = |directory: &&Path| !host.path(directory).exists();
    let mut missing: Vec<PathBuf> = above.take_while(is_missing).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Where a file is, or is to be.
struct DirectoryEntry<'a> {
    directory: &'a OwnedFd,
    name: &'a str,
}

impl DirectoryEntry<'_> {
    /// Gives a file that holds `before` the text `after`, or takes it away; not yet for sure on disk when this returns.
    /// A new file gets what the old one has besides its text; where there is none, these attributes, or those of a file
    /// that all may read. False if somebody has written it meanwhile: an editor may save while the new text is synced,
    /// which can take seconds, so the file is looked at once more right before it is replaced.
    fn put(
        &self,
        before: Option<&str>,
        after: Option<&str>,
        attributes: Option<&Attributes>,
    ) -> io::Result<bool> {
        let Some(text) = after else {
            if !self.holds(before)? {
                return Ok(false);
            }
            return match rustix::fs::unlinkat(self.directory, self.name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(true),
                Err(error) => Err(error.into()),
            };
        };
        let temporary = format!("{TEMPORARY}{:08x}", rand::rng().next_u32());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let fd = rustix::fs::openat(self.directory, &temporary, flags, mode)?;
        let replaced = self
            .fill(File::from(fd), text, attributes)
            .and_then(|()| self.take(before, &temporary));
        if !matches!(replaced, Ok(true)) {
            let _ = rustix::fs::unlinkat(self.directory, &temporary, AtFlags::empty());
        }
        replaced
    }

    fn take(&self, before: Option<&str>, temporary: &str) -> io::Result<bool> {
        let is_as_read = self.holds(before)?;
        if is_as_read {
            rustix::fs::renameat(self.directory, temporary, self.directory, self.name)?;
        }
        Ok(is_as_read)
    }

    fn fill(&self, mut file: File, text: &str, attributes: Option<&Attributes>) -> io::Result<()> {
        file.write_all(text.as_bytes())?;
        let old = match open_found(self.directory, self.name) {
            Ok(old) => Some(Attributes::of(&old)?),
            Err(Errno::NOENT) => attributes.cloned(),
            Err(error) => return Err(error.into()),
        };
        match old {
            Some(attributes) => attributes.give_to(&file)?,
            None => rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?,
        }
        file.sync_all()
    }

    /// True if the file holds this text; if there is none, where none is expected.
    fn holds(&self, text: Option<&str>) -> io::Result<bool> {
        let file = match open_found(self.directory, self.name) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(text.is_none()),
            Err(Errno::LOOP) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = Vec::new();
        // What is no regular file may have no end.
        if file.metadata()?.is_file() {
            let enough = text.map_or(0, str::len) as u64 + 1;
            file.take(enough).read_to_end(&mut bytes)?;
            return Ok(text.is_some_and(|text| text.as_bytes() == bytes));
        }
        Ok(false)
    }
}

/// The text of a file of the machine; none where there is none. Links are not followed.
pub(crate) fn read(host: &Host, path: &Path) -> Result<Option<String>, Problem> {
    Ok(Found::look(host, path)?.map(|found| found.text))
}

/// A file that is there.
struct Found {
    file: File,
    text: String,
    /// How many names it has.
    names: u64,
}

impl Found {
    fn look(host: &Host, path: &Path) -> Result<Option<Found>, Problem> {
        let Some((directory, name)) = open_parent(host, path, false)? else {
            return Ok(None);
        };
        let fail = |source: io::Error| io_problem("read", path, &source);
        let file = match open_found(&directory, &name) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(link(host, &directory, &name, path)),
            Err(error) => return Err(fail(error.into())),
        };
        let metadata = file.metadata().map_err(fail)?;
        if !metadata.is_file() {
            return Err(not_regular(path));
        }
        let text = foreign::read_all(&file, LARGEST).map_err(fail)?;
        Ok(Some(Found {
            file,
            text,
            names: metadata.nlink(),
        }))
    }

    /// A new file in its place would part it from its other names.
    fn check_names(&self, path: &Path) -> Result<(), Problem> {
        if self.names > 1 {
            let reason = format!("is one of {} names of one file (hard links)", self.names);
            let path_shown = path.display();
            return Err(untouched(path, &reason).hint(format!(
                "make it a file of its own: cp -a {path_shown} {path_shown}.new && mv {path_shown}.new {path_shown}"
            )));
        }
        Ok(())
    }

    fn attributes(&self, path: &Path) -> Result<Attributes, Problem> {
        Attributes::of(&self.file).map_err(|source| io_problem("read", path, &source))
    }
}

/// Opens a file of a directory, and waits for nobody.
fn open_found(directory: &OwnedFd, name: &str) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty()).map(File::from)
}

/// Opens the directory of a file step by step, so that no link leads out of the machine's tree.
/// Missing ones are made if asked; none where they are missing otherwise.
fn open_parent(host: &Host, path: &Path, make: bool) -> Result<Option<(OwnedFd, String)>, Problem> {
    let action = if make { "write" } else { "read" };
    let fail = |source: io::Error| io_problem(action, path, &source);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = rustix::fs::open(host.path(Path::new("/")), flags, Mode::empty())
        .map_err(|error| fail(error.into()))?;
    let mut walked = PathBuf::from("/");
    let parent = path.parent().unwrap_or(Path::new("/"));
    for component in parent.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        walked.push(name);
        let open = || rustix::fs::openat(&directory, name, flags | OFlags::NOFOLLOW, Mode::empty());
        let opened = match open() {
            Err(Errno::NOENT) if make => {
                let mode = Mode::from_raw_mode(0o755);
                match rustix::fs::mkdirat(&directory, name, mode) {
                    // All may read it, whatever root's umask is.
                    Ok(()) => rustix::fs::chmodat(&directory, name, mode, AtFlags::empty())
                        .map_err(|error| fail(error.into()))?,
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(fail(error.into())),
                }
                rustix::fs::fsync(&directory).map_err(|error| fail(error.into()))?;
                open()
            }
            other => other,
        };
        directory = match opened {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            // A link to a directory gives ENOTDIR, too.
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(link(host, &directory, &name.to_string_lossy(), &walked));
            }
            Err(error) => return Err(fail(error.into())),
        };
    }
    let name = path.file_name().unwrap_or_default().to_str();
    let name = name.ok_or_else(|| {
        let problem = untouched(path, "has a name that is not UTF-8");
        problem.hint("give it another name, then try again")
    })?;
    Ok(Some((directory, name.to_owned())))
}

/// What stands at the place of a file or directory, as an error.
fn link(host: &Host, directory: &impl AsFd, name: &str, path: &Path) -> Problem {
    let Ok(target) = rustix::fs::readlinkat(directory, name, Vec::new()) else {
        return not_regular(path);
    };
    let target = PathBuf::from(target.to_string_lossy().into_owned());
    let real = followed(host, path).unwrap_or_else(|| target.clone());
    // The file behind it may be another machine's, too, or in the hands of another program.
    let hint = if target.starts_with("/nix/store") {
        "NixOS makes this file: put the rule into services.udev.extraRules".to_owned()
    } else if target == Path::new("/dev/null") {
        format!(
            "somebody has turned this file off; if it is to count again: rm {}",
            path.display()
        )
    } else {
        format!("make the change in {} by hand", real.display())
    };
    untouched(path, &format!("is a symbolic link to {}", target.display())).hint(hint)
}

fn not_regular(path: &Path) -> Problem {
    untouched(path, "is no regular file").hint("look what put it there")
}

/// A file bears the name that ours has, and somebody else wrote it.
fn not_ours(path: &Path) -> Problem {
    untouched(path, "is not of iosched, which keeps its own there").hint(format!(
        "if it is to count on, give it another name, then try again: mv {0} {1}/local-{2}",
        path.display(),
        path.parent().unwrap_or(Path::new("/")).display(),
        path.file_name().unwrap_or_default().display()
    ))
}

/// Removes what a power failure in the middle of [`DirectoryEntry::put`] left.
fn remove_temporaries(directory: &OwnedFd) {
    let Ok(entries) = rustix::fs::Dir::read_from(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if entry
            .file_name()
            .to_bytes()
            .starts_with(TEMPORARY.as_bytes())
        {
            let _ = rustix::fs::unlinkat(directory, entry.file_name(), AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn host() -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("etc")).unwrap();
        let host = Host::at(dir.path());
        (dir, host)
    }

    fn change(host: &Host, path: &str, after: Option<&str>) -> Option<FileChange> {
        FileChange::plan(host, path, after.map(str::to_owned)).unwrap()
    }

    #[test]
    fn a_file_of_somebody_elses_at_our_place_is_left_alone_or_refused() {
        let (_dir, host) = host();
        fs::write(host.path(Path::new("/etc/x")), "add_drivers+=\" nvme \"\n").unwrap();
        assert_eq!(FileChange::plan_own(&host, "/etc/x", None).unwrap(), None);
        let error = FileChange::plan_own(&host, "/etc/x", Some("# Made by iosched\n".into()));
        let error = error.unwrap_err();
        assert!(error.message.contains("is not of iosched"), "{error}");
        assert!(error.hint.unwrap().ends_with("mv /etc/x /etc/local-x"));
        fs::write(host.path(Path::new("/etc/x")), "# Made by iosched: y\n").unwrap();
        let change = FileChange::plan_own(&host, "/etc/x", None).unwrap();
        assert!(change.is_some_and(|change| change.after.is_none()));
    }

    #[test]
    fn no_more_is_read_of_a_file_than_has_room() {
        let (_dir, host) = host();
        let path = Path::new("/etc/iosched.toml");
        File::create(host.path(path))
            .unwrap()
            .set_len(LARGEST + 1)
            .unwrap();
        let error = read(&host, path).unwrap_err().message;
        assert!(error.ends_with("it is larger than 64 MiB"), "{error}");
    }

    #[test]
    fn a_change_is_made_and_turned_round() {
        let (dir, host) = host();
        let made = change(&host, "/etc/iosched/policy.toml", Some("a\n")).unwrap();
        made.install(&host).unwrap();
        let file = dir.path().join("etc/iosched/policy.toml");
        assert_eq!(fs::read_to_string(&file).unwrap(), "a\n");
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o644
        );
        assert_eq!(change(&host, "/etc/iosched/policy.toml", Some("a\n")), None);
        made.reversed().install(&host).unwrap();
        assert!(!file.parent().unwrap().exists(), "its directory is ours");
        assert_eq!(change(&host, "/etc/iosched/policy.toml", None), None);
    }

    /// A user's access control list: rights of root and of user 1000, who may read.
    const LIST: [u8; 44] = [
        2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 232, 3, 0, 0, 4, 0, 4, 0, 255, 255,
        255, 255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
    ];

    #[test]
    fn what_a_file_has_besides_its_text_is_kept_and_brought_back() {
        let (dir, host) = host();
        let file = dir.path().join("etc/grub");
        fs::write(&file, "old\n").unwrap();
        let give = |name: &str, value: &[u8]| {
            rustix::fs::setxattr(&file, name, value, rustix::fs::XattrFlags::empty())
        };
        if give("user.note", b"mine").is_err() {
            return iosched_testing::lacks("extended attributes in the temporary directory");
        }
        let has_list = give("system.posix_acl_access", &LIST).is_ok();
        let attributes = || Attributes::of(&File::open(&file).unwrap()).unwrap();
        let before = attributes();
        assert!(
            before
                .extended
                .contains(&("user.note".into(), b"mine".to_vec()))
        );
        assert_eq!(
            before.extended.iter().any(|(name, _)| name.contains("acl")),
            has_list
        );
        for after in [Some("new\n"), None] {
            let made = change(&host, "/etc/grub", after).unwrap();
            made.install(&host).unwrap();
            if after.is_some() {
                assert_eq!(attributes(), before);
            }
            // As the history keeps it.
            let kept = serde_json::to_string(&made.reversed()).unwrap();
            let back: FileChange = serde_json::from_str(&kept).unwrap();
            back.install(&host).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), "old\n");
            assert_eq!(attributes(), before);
        }
    }

    #[test]
    fn a_file_with_several_names_is_refused_and_can_go() {
        let (dir, host) = host();
        let file = dir.path().join("etc/grub");
        fs::write(&file, "old\n").unwrap();
        let planned = change(&host, "/etc/grub", Some("new\n")).unwrap();
        fs::hard_link(&file, dir.path().join("other")).unwrap();
        let again = FileChange::plan(&host, "/etc/grub", Some("new\n".into()));
        for error in [planned.install(&host).unwrap_err(), again.unwrap_err()] {
            assert!(error.message.contains("one of 2 names"), "{error}");
            assert!(error.hint.unwrap().ends_with("mv /etc/grub.new /etc/grub"));
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "old\n");
        change(&host, "/etc/grub", None)
            .unwrap()
            .install(&host)
            .unwrap();
        assert_eq!(
            fs::read_to_string(dir.path().join("other")).unwrap(),
            "old\n"
        );
    }

    #[test]
    fn directories_that_were_made_for_a_file_go_with_it_if_they_are_empty() {
        let (dir, host) = host();
        let paths = ["/etc/udev/rules.d/a", "/etc/udev/rules.d/b", "/etc/c.d/c"];
        let made = paths.map(|path| change(&host, path, Some("x")).unwrap());
        let rules = ["/etc/udev", "/etc/udev/rules.d"].map(PathBuf::from);
        assert_eq!(made[1].directories, rules);
        for change in &made {
            change.install(&host).unwrap();
        }
        fs::write(dir.path().join("etc/c.d/theirs"), "").unwrap();
        for change in made.iter().rev() {
            assert!(dir.path().join("etc/udev/rules.d").exists());
            change.reversed().install(&host).unwrap();
        }
        assert!(!dir.path().join("etc/udev").exists());
        assert!(dir.path().join("etc/c.d/theirs").exists());
    }

    #[test]
    fn a_link_is_never_followed_neither_at_the_end_nor_on_the_way() {
        let (dir, host) = host();
        let secret = dir.path().join("secret");
        fs::write(&secret, "secret\n").unwrap();
        symlink(&secret, dir.path().join("etc/file")).unwrap();
        fs::create_dir(dir.path().join("elsewhere")).unwrap();
        symlink("../elsewhere", dir.path().join("etc/way")).unwrap();
        for (path, at) in [("/etc/file", "/etc/file"), ("/etc/way/file", "/etc/way")] {
            let error = FileChange::plan(&host, path, Some("x".into())).unwrap_err();
            let said = format!("{at} is a symbolic link to");
            assert!(error.message.starts_with(&said), "{error}");
            let way = error.hint.unwrap();
            let real = if at == path {
                secret.clone()
            } else {
                "/elsewhere".into()
            };
            assert!(way.contains(real.to_str().unwrap()), "{way}");
        }
        // Planted between the plan and the deed.
        let planned = change(&host, "/etc/late", Some("x")).unwrap();
        symlink(&secret, dir.path().join("etc/late")).unwrap();
        let error = planned.install(&host).unwrap_err();
        assert!(error.message.contains("is a symbolic link"), "{error}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret\n");
    }

    #[test]
    fn what_somebody_else_wrote_meanwhile_is_left() {
        let (dir, host) = host();
        let planned = change(&host, "/etc/file", Some("ours\n")).unwrap();
        fs::write(dir.path().join("etc/file"), "theirs\n").unwrap();
        let error = planned.install(&host).unwrap_err();
        assert!(
            error.message.contains("changed by somebody else"),
            "{error}"
        );
        assert_eq!(
            fs::read_to_string(dir.path().join("etc/file")).unwrap(),
            "theirs\n"
        );
    }

    #[test]
    fn what_an_editor_saves_while_the_new_text_is_synced_is_left() {
        let (dir, host) = host();
        let file = dir.path().join("etc/grub");
        let (directory, name) = open_parent(&host, Path::new("/etc/grub"), false)
            .unwrap()
            .unwrap();
        let place = DirectoryEntry {
            directory: &directory,
            name: &name,
        };
        // Each was right when the change began.
        for (before, after) in [
            (Some("old\n"), Some("ours\n")),
            (Some("old\n"), None),
            (None, Some("ours\n")),
        ] {
            fs::write(&file, "theirs\n").unwrap();
            assert!(!place.put(before, after, None).unwrap());
            assert_eq!(fs::read_to_string(&file).unwrap(), "theirs\n");
        }
        fs::remove_file(&file).unwrap();
        assert!(!place.put(Some("old\n"), Some("ours\n"), None).unwrap());
        symlink("elsewhere", &file).unwrap();
        assert!(!place.put(None, None, None).unwrap());
        let left: Vec<_> = fs::read_dir(dir.path().join("etc")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn what_a_power_failure_left_goes_with_the_next_change() {
        let (dir, host) = host();
        fs::write(dir.path().join("etc/.iosched-new-1234abcd"), "half").unwrap();
        change(&host, "/etc/file", Some("x\n"))
            .unwrap()
            .install(&host)
            .unwrap();
        assert!(!dir.path().join("etc/.iosched-new-1234abcd").exists());
    }

    #[test]
    fn a_directory_or_a_file_that_is_no_text_is_not_touched() {
        let (dir, host) = host();
        fs::create_dir(dir.path().join("etc/dir")).unwrap();
        fs::write(dir.path().join("etc/bytes"), b"\xff\xfe").unwrap();
        for (path, said) in [("/etc/dir", "is no regular file"), ("/etc/bytes", NOT_TEXT)] {
            let error = FileChange::plan(&host, path, None).unwrap_err();
            assert!(error.message.contains(said), "{error}");
        }
    }
}
