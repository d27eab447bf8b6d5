//! A directory put back as it was, file by file, into the same blocks.
//!
//! Copying a template anew for each trial would lay the files out anew, and layouts differ in speed.
//! So the files stay where they are: only pages that differ from the copy are written again, and files
//! that nobody has touched since (by inode, size, change and modification time) are not even read.
//! The directory belongs to the server's user, with whose rights all of this is called.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use iosched_machine::beneath::{self, Directory};
use iosched_machine::process::Stop;
use rustix::fs::{Gid, Mode, Stat, Uid};

/// What is compared and written at once: a page of PostgreSQL.
const PAGE: usize = 8192;

/// A directory as it was, with a copy of it beside.
#[derive(Debug)]
pub(super) struct Snapshot {
    live: PathBuf,
    copy: PathBuf,
    /// By path below `live`; a directory comes before what is in it.
    entries: BTreeMap<PathBuf, Entry>,
}

#[derive(Debug)]
struct Entry {
    mode: u32,
    owner: (u32, u32),
    /// None for a directory.
    content: Option<Content>,
}

#[derive(Debug)]
struct Content {
    length: u64,
    /// What the file looked like when it had this content.
    seen: Stamp,
}

/// What changes whenever a file is written to.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(status: &Stat) -> Stamp {
        Stamp {
            inode: status.st_ino,
            length: status.st_size.cast_unsigned(),
            modified: (status.st_mtime, status.st_mtime_nsec.cast_signed()),
            changed: (status.st_ctime, status.st_ctime_nsec.cast_signed()),
        }
    }
}

impl Snapshot {
    /// Copies `live`, of at most `most` bytes, to `copy`, which must not be there. Nobody may write to `live` meanwhile; but
    /// it is its owner's, who may make a file of it that would fill the disk.
    pub(super) fn take(live: &Path, copy: &Path, most: u64, stop: &Stop) -> io::Result<Snapshot> {
        let mut bytes = Bytes { left: most, stop };
        let (above, name) = beneath::split(copy)?;
        above.create_directory(name)?;
        let source = Directory::open(live)?;
        let target = above.enter(Path::new(name))?;
        let mut entries = BTreeMap::new();
        for path in beneath::walk(&source)? {
            let (inner, name) = inside(&source, &path)?;
            let (copies, _) = inside(&target, &path)?;
            let status = inner.status(name)?;
            let content = if beneath::is_directory(&status) {
                copies.create_directory(name)?;
                None
            } else {
                let from = inner.open_file(Path::new(name))?;
                Some(copy_file(&from, &copies.create_file(name)?, &mut bytes)?)
            };
            let entry = Entry {
                mode: status.st_mode & 0o7777,
                owner: (status.st_uid, status.st_gid),
                content,
            };
            entries.insert(path, entry);
        }
        Ok(Snapshot {
            live: live.into(),
            copy: copy.into(),
            entries,
        })
    }

    /// Puts the directory back. Nobody may use it meanwhile. Returns how many bytes were written.
    pub(super) fn restore(&mut self, stop: &Stop) -> io::Result<u64> {
        let live = Directory::open(&self.live)?;
        let copy = Directory::open(&self.copy)?;
        for path in beneath::walk(&live)?.into_iter().rev() {
            if !self.entries.contains_key(&path) {
                let (inner, name) = inside(&live, &path)?;
                inner.remove_all(name)?;
            }
        }
        let mut written = 0;
        for (path, entry) in &mut self.entries {
            let (inner, name) = inside(&live, path)?;
            match &mut entry.content {
                None => {
                    if !inner.status(name).is_ok_and(|s| beneath::is_directory(&s)) {
                        inner.create_directory(name)?;
                        entry.give_owner_and_mode(inner.enter(Path::new(name))?.descriptor())?;
                    }
                }
                Some(content) => {
                    if inner
                        .status(name)
                        .is_ok_and(|s| Stamp::of(&s) == content.seen)
                    {
                        continue;
                    }
                    let (file, is_new) = match inner.open_file_to_write(Path::new(name)) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {
                            (inner.create_file(name)?, true)
                        }
                        other => (other?, false),
                    };
                    written += content.restore(&file, &copy.open_file(path)?, stop)?;
                    if is_new {
                        entry.give_owner_and_mode(&file)?;
                    }
                    entry.remember(&file)?;
                }
            }
        }
        Ok(written)
    }
}

impl Entry {
    fn give_owner_and_mode(&self, made: impl AsFd) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
        rustix::fs::fchown(&made, Some(uid), Some(gid))?;
        Ok(rustix::fs::fchmod(&made, Mode::from_raw_mode(self.mode))?)
    }

    /// What the file looks like now that it has the content again.
    fn remember(&mut self, file: &File) -> io::Result<()> {
        if let Some(content) = &mut self.content {
            content.seen = Stamp::of(&rustix::fs::fstat(file)?);
        }
        Ok(())
    }
}

/// The directory that a path below another one is in, and its name there.
fn inside<'a>(directory: &Directory, path: &'a Path) -> io::Result<(Directory, &'a OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => Ok((directory.enter(above)?, name)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

impl Content {
    /// Writes the pages that differ. Returns how many bytes that were.
    fn restore(&self, file: &File, copy: &File, stop: &Stop) -> io::Result<u64> {
        let (mut found, mut wanted) = ([0; PAGE], [0; PAGE]);
        let mut bytes = 0;
        for at in (0..self.length).step_by(PAGE) {
            go_on(stop)?;
            let length = usize::try_from(self.length - at).unwrap_or(PAGE).min(PAGE);
            copy.read_exact_at(&mut wanted[..length], at)?;
            if read_page(file, &mut found, at)? < length || found[..length] != wanted[..length] {
                file.write_all_at(&wanted[..length], at)?;
                bytes += length as u64;
            }
        }
        file.set_len(self.length)?;
        Ok(bytes)
    }
}

/// How much may still be copied.
struct Bytes<'a> {
    left: u64,
    stop: &'a Stop,
}

impl Bytes<'_> {
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        go_on(self.stop)?;
        let left = self.left.checked_sub(bytes);
        self.left =
            left.ok_or_else(|| io::Error::other("the database has become larger than it is made"))?;
        Ok(())
    }
}

/// An error if a stop is wanted.
fn go_on(stop: &Stop) -> io::Result<()> {
    if stop.is_wanted() {
        return Err(io::ErrorKind::Interrupted.into());
    }
    Ok(())
}

/// Copies a file by reading and writing: a shared extent (reflink) would be copied on the first
/// write, in the middle of a trial.
fn copy_file(source: &File, target: &File, bytes: &mut Bytes<'_>) -> io::Result<Content> {
    let mut page = [0; PAGE];
    let mut length = 0;
    loop {
        let found = read_page(source, &mut page, length)?;
        if found == 0 {
            break;
        }
        bytes.take(found as u64)?;
        target.write_all_at(&page[..found], length)?;
        length += found as u64;
    }
    Ok(Content {
        length,
        seen: Stamp::of(&rustix::fs::fstat(source)?),
    })
}

fn read_page(file: &File, page: &mut [u8], at: u64) -> io::Result<usize> {
    let mut found = 0;
    while found < page.len() {
        match file.read_at(&mut page[found..], at + found as u64)? {
            0 => break,
            count => found += count,
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use proptest::prelude::*;

    use super::*;

    /// Path and content (none for a directory) of all that is in it.
    fn content(directory: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let read = |path: PathBuf| {
            let bytes = fs::read(directory.join(&path)).ok();
            (path, bytes)
        };
        let directory = Directory::open(directory).unwrap();
        let paths = beneath::walk(&directory).unwrap();
        paths.into_iter().map(read).collect()
    }

    /// A directory with three files, the last of several pages.
    fn example(at: &Path) {
        fs::create_dir_all(at.join("base/1")).unwrap();
        fs::write(at.join("empty"), "").unwrap();
        fs::write(at.join("base/small"), "small").unwrap();
        let large: Vec<u8> = (0..=250).cycle().take(3 * PAGE + 100).collect();
        fs::write(at.join("base/1/large"), large).unwrap();
    }

    #[test]
    fn a_page_that_was_changed_is_the_only_one_written() {
        let dir = tempfile::tempdir().unwrap();
        let live = dir.path().join("live");
        example(&live);
        let before = content(&live);
        let mut snapshot =
            Snapshot::take(&live, &dir.path().join("copy"), u64::MAX, &Stop::new()).unwrap();
        assert_eq!(
            snapshot.restore(&Stop::new()).unwrap(),
            0,
            "nothing was changed"
        );
        let large = OpenOptions::new()
            .write(true)
            .open(live.join("base/1/large"))
            .unwrap();
        large.write_all_at(b"x", PAGE as u64 + 5).unwrap();
        assert_eq!(snapshot.restore(&Stop::new()).unwrap(), PAGE as u64);
        assert_eq!(content(&live), before);
        assert_eq!(
            snapshot.restore(&Stop::new()).unwrap(),
            0,
            "what was restored is known again"
        );
    }

    #[derive(Debug, Clone)]
    enum Change {
        Write { file: usize, at: u64, byte: u8 },
        Truncate { file: usize, length: u64 },
        Remove { file: usize },
        Add { name: String },
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (0..3usize, 0..40_000u64, any::<u8>()).prop_map(|(file, at, byte)| Change::Write {
                file,
                at,
                byte
            }),
            (0..3usize, 0..40_000u64).prop_map(|(file, length)| Change::Truncate { file, length }),
            (0..3usize).prop_map(|file| Change::Remove { file }),
            "[a-z]{1,3}".prop_map(|name| Change::Add { name }),
        ]
    }

    fn apply(live: &Path, change: &Change) {
        let file = |index: usize| live.join(["empty", "base/small", "base/1/large"][index]);
        let open = |path: PathBuf| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).open(path)
        };
        match change {
            Change::Write {
                file: index,
                at,
                byte,
            } => {
                open(file(*index))
                    .unwrap()
                    .write_all_at(&[*byte], *at)
                    .unwrap();
            }
            Change::Truncate {
                file: index,
                length,
            } => {
                open(file(*index)).unwrap().set_len(*length).unwrap();
            }
            Change::Remove { file: index } => {
                let _ = fs::remove_file(file(*index));
            }
            Change::Add { name } => {
                fs::create_dir_all(live.join("new").join(name)).unwrap();
                fs::write(live.join("new").join(name).join("file"), name).unwrap();
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whatever_was_done_to_it_it_is_as_before(
            rounds in prop::collection::vec(prop::collection::vec(change(), 0..6), 1..4)
        ) {
            let dir = tempfile::tempdir().unwrap();
            let live = dir.path().join("live");
            example(&live);
            let before = content(&live);
            let mut snapshot = Snapshot::take(&live, &dir.path().join("copy"), u64::MAX, &Stop::new()).unwrap();
            for changes in &rounds {
                for change in changes {
                    apply(&live, change);
                }
                snapshot.restore(&Stop::new()).unwrap();
                prop_assert_eq!(&content(&live), &before);
            }
        }
    }

    #[test]
    fn what_would_fill_the_disk_is_not_copied_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let live = dir.path().join("live");
        fs::create_dir(&live).unwrap();
        fs::write(live.join("a"), vec![1; 3 * PAGE]).unwrap();
        let take = |copy: &str, most, stop: &Stop| {
            Snapshot::take(&live, &dir.path().join(copy), most, stop)
        };
        assert!(take("all", 3 * PAGE as u64, &Stop::new()).is_ok());
        let hole = File::create(live.join("b")).unwrap();
        hole.set_len(1 << 40).unwrap();
        let error = take("hole", 5 * PAGE as u64, &Stop::new()).unwrap_err();
        assert!(error.to_string().contains("larger"), "{error}");
        let copied = dir.path().join("hole/b").metadata().unwrap().len();
        assert_eq!(copied, 2 * PAGE as u64);
        let stop = Stop::new();
        stop.ask();
        let error = take("stopped", u64::MAX, &stop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
}
