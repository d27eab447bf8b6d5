//! Files that a user names, to be read or to be written: one rule for all of them.
//!
//! What is read is a regular file ([`open_to_read`]).
//!
//! What is written is whole, or is not there. It takes the place of nothing but a regular file, and keeps that one's owner
//! and mode. Everything happens beneath the directory that was found in the beginning, whatever has its name later; and
//! root finds it by no link that another user can replace, who would choose where root writes.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::{Component, Path, PathBuf};

use rand::Rng;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat, renameat};
use rustix::io::Errno;

use crate::beneath::{Directory, PASSING};
use crate::durable;
use crate::process;
use crate::regular_file::held_path;

pub use crate::regular_file::open_to_read;

/// Opens the directory that a path leads to.
///
/// # Errors
/// It cannot be entered, or the way is [led elsewhere](is_led_elsewhere).
pub fn directory(path: &Path) -> io::Result<Directory> {
    walk_to(path, false)
}

/// The same; directories that are lacking are made, writable for their owner alone.
///
/// # Errors
/// Those of [`directory`], or one cannot be made.
pub fn make_directory(path: &Path) -> io::Result<Directory> {
    walk_to(path, true)
}

/// Makes a file that must not be there yet.
///
/// # Errors
/// There is one, or it cannot be made, or the way is [led elsewhere](is_led_elsewhere).
pub fn create_new(path: &Path) -> io::Result<File> {
    let (above, name) = split(path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666); // but for the umask, as any new file
    Ok(File::from(openat(above.descriptor(), name, flags, mode)?))
}

/// How names begin that are drawn by chance: of files that are not whole yet, and of the directories of runs.
const DRAWN: &str = ".iosched-";

/// A name that nobody can guess, and that nothing else has.
pub fn draw_name() -> OsString {
    format!("{DRAWN}{:016x}", rand::rng().next_u64()).into()
}

/// True of such a name.
pub fn is_drawn_name(name: &OsStr) -> bool {
    let number = name.to_str().and_then(|name| name.strip_prefix(DRAWN));
    number.is_some_and(|number| {
        number.len() == 16 && number.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Removes the files that were never whole because their writer was killed, from a directory where nobody else writes now.
///
/// # Errors
/// It cannot be listed, or one cannot be removed.
pub fn remove_unfinished(directory: &Directory) -> io::Result<()> {
    for name in directory.names()? {
        let is_file = || {
            let mode = directory.status(&name)?.st_mode;
            io::Result::Ok(FileType::from_raw_mode(mode) == FileType::RegularFile)
        };
        if is_drawn_name(&name) && is_file()? {
            directory.remove_file(&name)?;
        }
    }
    Ok(())
}

/// A file that takes its place once it is whole.
#[derive(Debug)]
pub struct NewFile {
    directory: Directory,
    name: OsString,
    file: File,
    /// What it is called until then; none any more.
    temporary: Option<OsString>,
}

impl NewFile {
    /// Begins a file for a path.
    ///
    /// # Errors
    /// What stands there is no regular file, none can be made in its directory, or the way is
    /// [led elsewhere](is_led_elsewhere).
    pub fn at(path: &Path) -> io::Result<NewFile> {
        let (directory, name) = split(path)?;
        NewFile::beneath(directory, name)
    }

    /// Begins a file for a name in a directory.
    ///
    /// # Errors
    /// Those of [`NewFile::at`].
    pub fn beneath(directory: Directory, name: &OsStr) -> io::Result<NewFile> {
        NewFile::begin(directory, name, 0o644)
    }

    /// The same of a secret: where there is none yet, nobody but its owner can open it at any moment.
    ///
    /// # Errors
    /// Those of [`NewFile::at`].
    pub fn secret_beneath(directory: Directory, name: &OsStr) -> io::Result<NewFile> {
        NewFile::begin(directory, name, 0o600)
    }

    fn begin(directory: Directory, name: &OsStr, mode_of_new: u32) -> io::Result<NewFile> {
        let there = match directory.status(name) {
            Ok(status) => Some(status),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mode = there.as_ref().map_or(Ok(mode_of_new), mode_to_keep)?;
        if let Some(there) = &there {
            check_owner(there, &fstat(directory.descriptor())?)?;
        }
        let temporary = draw_name();
        let new = NewFile {
            file: directory.create_file(&temporary)?,
            directory,
            name: name.to_owned(),
            temporary: Some(temporary),
        };
        if let Some(there) = there {
            // Only root may give a file away; for others it becomes theirs.
            let _ = fchown(&new.file, Some(there.st_uid), Some(there.st_gid));
        }
        new.file.set_permissions(Permissions::from_mode(mode))?;
        Ok(new)
    }

    /// To be written.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// It is whole: it stands under its name now.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn put_in_place(mut self) -> io::Result<()> {
        let directory = self.directory.descriptor();
        if let Some(temporary) = &self.temporary {
            renameat(directory, temporary, directory, &self.name)?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Drop for NewFile {
    /// What does not take its place goes.
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = self.directory.remove_file(temporary);
        }
    }
}

/// In a directory where everybody may write, somebody else may have put a file there to alter what is written later
/// (the kernel's `protected_regular`).
fn check_owner(there: &Stat, above: &Stat) -> io::Result<()> {
    let is_everybodys = above.st_mode & 0o1002 == 0o1002;
    let we = rustix::process::geteuid().as_raw();
    if is_everybodys && there.st_uid != we && there.st_uid != above.st_uid {
        return Err(io::Error::other(
            "it is another user's file in a directory where everybody may write",
        ));
    }
    Ok(())
}

/// The mode of what is to be replaced.
fn mode_to_keep(there: &Stat) -> io::Result<u32> {
    match FileType::from_raw_mode(there.st_mode) {
        FileType::RegularFile => Ok(there.st_mode & 0o777),
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        FileType::Symlink => Err(io::Error::other(
            "it is a symbolic link, which is neither followed nor replaced",
        )),
        _ => Err(io::Error::other(
            "it is no regular file, and is not replaced by one",
        )),
    }
}

/// The directory of a path, and the name in it.
fn split(path: &Path) -> io::Result<(Directory, &OsStr)> {
    let is_directory = path.as_os_str().as_bytes().ends_with(b"/");
    let name = path.file_name().filter(|_| !is_directory);
    let name = name.ok_or(io::ErrorKind::IsADirectory)?;
    let above = path.parent().unwrap_or(Path::new(""));
    Ok((directory(above)?, name))
}

/// Somebody else could choose where a path leads.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct LedElsewhere(String);

/// True of the error that says that another user can replace a link on the way.
pub fn is_led_elsewhere(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(cause) if cause.is::<LedElsewhere>())
}

/// Goes to a directory step by step. Each step begins in the directory that the one before opened, and a link is looked at
/// through the descriptor by which it is followed: what is swapped meanwhile leads nowhere.
fn walk_to(path: &Path, makes: bool) -> io::Result<Directory> {
    /// As many as Linux follows (`MAXSYMLINKS`).
    const MOST_LINKS: usize = 40;
    let start = |path: &Path| {
        let start = if path.is_absolute() { "/" } else { "." };
        openat(CWD, start, PASSING, Mode::empty())
    };
    let mut at = start(path)?;
    let mut steps = steps_of(path);
    let mut links = 0;
    while let Some(step) = steps.pop() {
        match openat(&at, &step, PASSING, Mode::empty()) {
            Ok(next) => at = next,
            Err(Errno::NOENT) if makes => {
                match mkdirat(&at, &step, Mode::from_raw_mode(0o755)) {
                    Ok(()) => durable::sync_directory(&held_path(&at))?,
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                at = openat(&at, &step, PASSING, Mode::empty())?;
            }
            // A link is no directory.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let leads_to = follow(path, &at, &step)?;
                if leads_to.is_absolute() {
                    at = start(&leads_to)?;
                }
                steps.extend(steps_of(&leads_to));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Directory::hold(at)
}

/// Where a link leads, if nobody but root and who called `sudo` can replace it.
fn follow(path: &Path, at: &OwnedFd, step: &OsStr) -> io::Result<PathBuf> {
    let link = openat(
        at,
        step,
        PASSING.difference(OFlags::DIRECTORY),
        Mode::empty(),
    )?;
    let status = fstat(&link)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Symlink {
        return Err(Errno::NOTDIR.into());
    }
    if rustix::process::geteuid().is_root()
        && let Some(who) = who_can_replace(&status, &fstat(at)?)
    {
        let (path, link) = (path.display(), Path::new(step).display());
        let cause = format!(
            "{who} can replace the link {link} on the way to {path}: root does not follow it"
        );
        let error = LedElsewhere(cause);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, error));
    }
    let leads_to = readlinkat(&link, "", Vec::new())?;
    Ok(OsStr::from_bytes(leads_to.as_bytes()).into())
}

/// Who but root, if anybody, can replace a link that stands in this directory.
fn who_can_replace(link: &Stat, above: &Stat) -> Option<String> {
    let is_sticky = above.st_mode & 0o1000 != 0;
    match (link.st_uid, above.st_uid) {
        (0, 0) => (above.st_mode & 0o022 != 0 && !is_sticky).then(|| "others".to_owned()),
        (0, owner) | (owner, _) => {
            let name = process::name_of("passwd", owner);
            Some(name.unwrap_or_else(|| format!("user {owner}")))
        }
    }
}

/// The steps of a path, the last one first.
fn steps_of(path: &Path) -> Vec<OsString> {
    let steps = path.components().rev().filter_map(|step| match step {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    use super::*;

    fn fifo(path: &Path) {
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).unwrap();
    }

    #[test]
    fn what_is_to_be_read_is_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fifo(&at("fifo"));
        let socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        symlink("fifo", at("link")).unwrap();
        for path in [
            &at("fifo"),
            &at("socket"),
            &at("link"),
            Path::new("/dev/null"),
            dir.path(),
        ] {
            let error = open_to_read(path).unwrap_err();
            let said = error.to_string();
            assert_eq!(said, "it is no regular file", "{}", path.display());
        }
        drop(socket);
        fs::write(at("file"), "text").unwrap();
        symlink("file", at("to-file")).unwrap();
        assert_eq!(
            io::read_to_string(open_to_read(&at("to-file")).unwrap()).unwrap(),
            "text"
        );
        let lacking = open_to_read(&at("lacking")).unwrap_err();
        assert_eq!(lacking.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn directories_are_made_through_links_of_ones_own_and_as_root_through_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("real")).unwrap();
        symlink("real", at("ours")).unwrap();
        let made = make_directory(&at("ours/../ours/b/./c")).unwrap();
        fs::write(made.path().join("file"), "x").unwrap();
        assert!(at("real/b/c/file").exists());
        let file = directory(&at("real/b/c/file")).unwrap_err();
        assert_eq!(file.kind(), io::ErrorKind::NotADirectory);
        symlink("round", at("round")).unwrap();
        assert!(make_directory(&at("round/x")).is_err());
        let lacking = directory(&at("ours/lacking")).unwrap_err();
        assert_eq!(lacking.kind(), io::ErrorKind::NotFound);
        if !iosched_testing::is_root() {
            return;
        }
        // Another user's link; root's in a directory of another user, and in one where the group may rename.
        fs::create_dir(at("others")).unwrap();
        for link in ["theirs", "others/link", "group"] {
            symlink(at("real"), at(link)).unwrap();
        }
        lchown(at("theirs"), Some(65534), Some(65534)).unwrap();
        lchown(at("others"), Some(65534), Some(65534)).unwrap();
        for path in ["theirs", "theirs/x", "real/../theirs/x", "others/link/x"] {
            let error = make_directory(&at(path)).unwrap_err();
            assert!(is_led_elsewhere(&error), "{path}: {error}");
            assert!(create_new(&at(path).join("y")).is_err(), "{path}");
            assert!(NewFile::at(&at(path).join("y")).is_err(), "{path}");
        }
        fs::set_permissions(dir.path(), Permissions::from_mode(0o775)).unwrap();
        assert!(is_led_elsewhere(
            &make_directory(&at("group/x")).unwrap_err()
        ));
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        make_directory(&at("group/y")).unwrap();
        assert!(!at("real/x").exists() && at("real/y").exists());
    }

    #[test]
    fn a_new_file_takes_the_place_of_nothing_but_a_file_and_keeps_its_owner_and_mode() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let write = |path: &Path, text: &str| {
            let mut new = NewFile::at(path)?;
            new.file().write_all(text.as_bytes())?;
            new.put_in_place()
        };
        write(&at("new"), "one").unwrap();
        let mode = |name: &str| fs::metadata(at(name)).unwrap().mode() & 0o7777;
        assert_eq!(mode("new"), 0o644);
        fs::set_permissions(at("new"), Permissions::from_mode(0o4600)).unwrap();
        fs::hard_link(at("new"), at("hard")).unwrap();
        let is_root = iosched_testing::is_root();
        if is_root {
            lchown(at("new"), Some(65534), Some(65533)).unwrap();
        }
        write(&at("new"), "two").unwrap();
        assert_eq!(fs::read_to_string(at("new")).unwrap(), "two");
        assert_eq!(fs::read_to_string(at("hard")).unwrap(), "one");
        assert_eq!(mode("new"), 0o600);
        if is_root {
            let now = fs::metadata(at("new")).unwrap();
            assert_eq!((now.uid(), now.gid()), (65534, 65533));
        }
        fifo(&at("fifo"));
        symlink("new", at("link")).unwrap();
        symlink("nowhere", at("broken")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        for (name, says) in [
            ("fifo", "no regular file"),
            ("link", "a symbolic link"),
            ("broken", "a symbolic link"),
            ("directory", "is a directory"),
            ("directory/..", "is a directory"),
            ("nothing/", "is a directory"),
        ] {
            let error = write(&at(name), "three").unwrap_err().to_string();
            assert!(error.contains(says), "{name}: {error}");
        }
        if is_root {
            let everybodys = tempfile::tempdir().unwrap();
            let page = everybodys.path().join("page");
            fs::write(&page, "theirs").unwrap();
            lchown(&page, Some(65534), None).unwrap();
            write(&page, "in a private directory").unwrap();
            fs::set_permissions(everybodys.path(), Permissions::from_mode(0o1777)).unwrap();
            let error = write(&page, "three").unwrap_err().to_string();
            assert!(error.contains("another user's file"), "{error}");
        }
        // One that is not finished leaves nothing.
        drop(NewFile::at(&at("unfinished")).unwrap());
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(
            names,
            ["broken", "directory", "fifo", "hard", "link", "new"]
        );
        assert_eq!(fs::read_to_string(at("new")).unwrap(), "two");
    }

    #[test]
    fn a_directory_that_is_swapped_for_a_link_meanwhile_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let [here, away, elsewhere] =
            ["here", "away", "elsewhere"].map(|name| dir.path().join(name));
        fs::create_dir(&elsewhere).unwrap();
        fs::create_dir(&here).unwrap();
        fs::write(elsewhere.join("page"), "precious").unwrap();
        let mut new = NewFile::at(&here.join("page")).unwrap();
        fs::rename(&here, &away).unwrap();
        symlink(&elsewhere, &here).unwrap();
        new.file().write_all(b"page").unwrap();
        new.put_in_place().unwrap();
        assert_eq!(fs::read_to_string(away.join("page")).unwrap(), "page");
        assert_eq!(
            fs::read_to_string(elsewhere.join("page")).unwrap(),
            "precious"
        );
    }

    #[test]
    fn a_secret_can_be_opened_by_nobody_else_at_any_moment() {
        let dir = tempfile::tempdir().unwrap();
        let here = || directory(dir.path()).unwrap();
        let mode = |file: &File| file.metadata().unwrap().permissions().mode() & 0o777;
        let mut new = NewFile::secret_beneath(here(), "key".as_ref()).unwrap();
        assert_eq!(mode(new.file()), 0o600);
        new.put_in_place().unwrap();
        assert_eq!(mode(&File::open(dir.path().join("key")).unwrap()), 0o600);
        let mut other = NewFile::beneath(here(), "page".as_ref()).unwrap();
        assert_eq!(mode(other.file()), 0o644);
    }
}
