//! A directory put back as it was, file by file, into the same blocks.
//!
//! Copying a template anew for each trial would lay the files out anew, and layouts differ in speed.
//! So the files stay where they are: only pages whose checksum differs are written again, and files
//! that nobody has touched since (by inode, size, change and modification time) are not even read.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

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
    /// Of each page.
    checksums: Vec<u64>,
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
    fn of(metadata: &fs::Metadata) -> Stamp {
        Stamp {
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Snapshot {
    /// Copies `live` to `copy`, which must not be there. Nobody may write to `live` meanwhile.
    pub(super) fn take(live: &Path, copy: &Path) -> io::Result<Snapshot> {
        fs::create_dir(copy)?;
        let mut entries = BTreeMap::new();
        for path in walk(live)? {
            let from = live.join(&path);
            let metadata = fs::symlink_metadata(&from)?;
            let content = if metadata.is_dir() {
                fs::create_dir(copy.join(&path))?;
                None
            } else {
                Some(copy_file(&from, &copy.join(&path))?)
            };
            let entry = Entry {
                mode: metadata.mode() & 0o7777,
                owner: (metadata.uid(), metadata.gid()),
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
    pub(super) fn restore(&mut self) -> io::Result<u64> {
        for path in walk(&self.live)?.into_iter().rev() {
            if !self.entries.contains_key(&path) {
                remove(&self.live.join(path))?;
            }
        }
        let mut written = 0;
        for (path, entry) in &mut self.entries {
            let live = self.live.join(path);
            match &mut entry.content {
                None if live.is_dir() => continue,
                None => fs::create_dir(&live)?,
                Some(content) => match content.restore(&live, &self.copy.join(path))? {
                    Restored::AsItWas => continue,
                    Restored::Written { bytes, is_new } => {
                        written += bytes;
                        if !is_new {
                            continue;
                        }
                    }
                },
            }
            fs::set_permissions(&live, Permissions::from_mode(entry.mode))?;
            lchown(&live, Some(entry.owner.0), Some(entry.owner.1))?;
            if let Some(content) = &mut entry.content {
                content.seen = Stamp::of(&fs::symlink_metadata(&live)?);
            }
        }
        Ok(written)
    }
}

enum Restored {
    AsItWas,
    Written { bytes: u64, is_new: bool },
}

impl Content {
    /// Writes the pages that differ.
    fn restore(&mut self, live: &Path, copy: &Path) -> io::Result<Restored> {
        let is_new = match fs::symlink_metadata(live) {
            Ok(metadata) if Stamp::of(&metadata) == self.seen => return Ok(Restored::AsItWas),
            Ok(_) => false,
            Err(_) => true,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(is_new)
            .truncate(false)
            .open(live)?;
        let copy = File::open(copy)?;
        let mut page = [0; PAGE];
        let mut bytes = 0;
        for (index, &checksum) in self.checksums.iter().enumerate() {
            let at = (index * PAGE) as u64;
            let wanted = usize::try_from(self.length - at).unwrap_or(PAGE).min(PAGE);
            let found = read_page(&file, &mut page, at)?.min(wanted);
            if found == wanted && checksum_of(&page[..wanted]) == checksum {
                continue;
            }
            copy.read_exact_at(&mut page[..wanted], at)?;
            file.write_all_at(&page[..wanted], at)?;
            bytes += wanted as u64;
        }
        file.set_len(self.length)?;
        self.seen = Stamp::of(&file.metadata()?);
        Ok(Restored::Written { bytes, is_new })
    }
}

/// Copies a file by reading and writing: a shared extent (reflink) would be copied on the first
/// write, in the middle of a trial.
fn copy_file(from: &Path, to: &Path) -> io::Result<Content> {
    let mut source = File::open(from)?;
    let target = OpenOptions::new().write(true).create_new(true).open(to)?;
    let mut page = [0; PAGE];
    let mut checksums = Vec::new();
    let mut length = 0;
    loop {
        let found = read_full(&mut source, &mut page)?;
        if found == 0 {
            break;
        }
        target.write_all_at(&page[..found], length)?;
        checksums.push(checksum_of(&page[..found]));
        length += found as u64;
    }
    Ok(Content {
        length,
        checksums,
        seen: Stamp::of(&source.metadata()?),
    })
}

fn read_full(source: &mut File, page: &mut [u8]) -> io::Result<usize> {
    let mut found = 0;
    while found < page.len() {
        match source.read(&mut page[found..])? {
            0 => break,
            count => found += count,
        }
    }
    Ok(found)
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

fn checksum_of(page: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(page);
    hasher.finish()
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir(path)
    } else {
        fs::remove_file(path)
    }
}

/// All paths below a directory, relative to it; a directory comes before what is in it.
fn walk(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        for entry in fs::read_dir(directory.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() {
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
    use super::*;
    use proptest::prelude::*;

    /// Path and content (none for a directory) of all that is in it.
    fn content(directory: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let read = |path: PathBuf| {
            let bytes = fs::read(directory.join(&path)).ok();
            (path, bytes)
        };
        walk(directory).unwrap().into_iter().map(read).collect()
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
        let mut snapshot = Snapshot::take(&live, &dir.path().join("copy")).unwrap();
        assert_eq!(snapshot.restore().unwrap(), 0, "nothing was changed");
        let large = OpenOptions::new()
            .write(true)
            .open(live.join("base/1/large"))
            .unwrap();
        large.write_all_at(b"x", PAGE as u64 + 5).unwrap();
        assert_eq!(snapshot.restore().unwrap(), PAGE as u64);
        assert_eq!(content(&live), before);
        assert_eq!(
            snapshot.restore().unwrap(),
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
            let mut snapshot = Snapshot::take(&live, &dir.path().join("copy")).unwrap();
            for changes in &rounds {
                for change in changes {
                    apply(&live, change);
                }
                snapshot.restore().unwrap();
                prop_assert_eq!(&content(&live), &before);
            }
        }
    }
}
