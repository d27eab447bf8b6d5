//! Files of our own that are on disk when the call returns, whole or not at all: entries of the journal and
//! of the history, and the directories that they are in.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::lock;
use crate::regular_file;

/// What a file is called until it is whole: after this comes the pid of who writes it.
const UNFINISHED: &str = ".new-";

/// Writes JSON so that a crash leaves the old file or the new one, on disk, never half of one.
pub fn write_whole<T: Serialize>(path: &Path, entry: &T) -> io::Result<()> {
    Unfinished::beside(path)?.finish(path, entry).map(drop)
}

/// A file that takes the place of another once it is whole. It is locked (`flock`) from its beginning, and stays so while
/// somebody holds the descriptor.
#[derive(Debug)]
pub struct Unfinished(NamedTempFile);

impl Unfinished {
    /// An empty one, in the directory of the file whose place it is to take.
    pub fn beside(path: &Path) -> io::Result<Unfinished> {
        let directory = parent(path);
        make_directories(directory)?;
        let file = tempfile::Builder::new()
            .prefix(&format!("{UNFINISHED}{}-", std::process::id()))
            .tempfile_in(directory)?;
        // Not waited for longer than somebody takes to see whether it is locked.
        rustix::fs::flock(file.as_file(), FlockOperation::LockExclusive)?;
        Ok(Unfinished(file))
    }

    /// Its descriptor, for another process that is to hold it too.
    pub fn descriptor(&self) -> io::Result<File> {
        self.0.as_file().try_clone()
    }

    /// Writes it, and puts it in its place.
    pub fn finish<T: Serialize>(self, path: &Path, entry: &T) -> io::Result<File> {
        self.write(path, entry)?.commit()
    }

    /// Writes it, so that taking its place needs no more room.
    fn write<T: Serialize>(mut self, path: &Path, entry: &T) -> io::Result<Prepared> {
        let json = serde_json::to_vec_pretty(entry).map_err(io::Error::other)?;
        self.0.write_all(&json)?;
        self.0.as_file().sync_all()?;
        Ok(Prepared {
            file: self,
            path: path.to_owned(),
        })
    }
}

/// A file that is whole, and takes the place of another when it is told to; if it is not, it goes.
#[derive(Debug)]
pub struct Prepared {
    file: Unfinished,
    path: PathBuf,
}

impl Prepared {
    /// Writes JSON beside this file.
    pub fn new<T: Serialize>(path: &Path, entry: &T) -> io::Result<Prepared> {
        Unfinished::beside(path)?.write(path, entry)
    }

    /// The file whose place it takes.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes its place.
    pub fn commit(self) -> io::Result<File> {
        let file = self.file.0.persist(&self.path)?;
        sync_directory(parent(&self.path))?;
        Ok(file)
    }
}

/// Removes a file for good, if it is there: a power failure does not bring it back.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    sync_directory(parent(path))
}

/// Makes a directory and those that lead to it, writable for their owner alone.
pub fn make_directories(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    if let Some(above) = above {
        make_directories(above)?;
    }
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => Err(error),
        _ => sync_directory(above.unwrap_or(Path::new("."))),
    }
}

/// Makes sure that the names in a directory are on disk, as far as its file system can do that and we may.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    // What has taken its place meanwhile is not opened: a FIFO would be waited for.
    let as_directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(path, as_directory, Mode::empty()).map_err(io::Error::from) {
        Ok(directory) => sync_names(directory),
        Err(error) if is_beyond_us(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The same for a directory that is open.
pub fn sync_names(directory: impl AsFd) -> io::Result<()> {
    match rustix::fs::fsync(directory).map_err(io::Error::from) {
        Err(error) if !is_beyond_us(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Some network file systems sync no directories; one that may be written need not be readable.
fn is_beyond_us(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied
    )
}

/// Reads an entry whose format has a version, `newest` at the most; else says why it is not understood. What is no
/// file is not opened: a FIFO would be waited for.
pub fn read_entry<T: DeserializeOwned>(path: &Path, newest: u32) -> Result<T, String> {
    let unreadable = |error: io::Error| error.to_string();
    if !fs::symlink_metadata(path).map_err(unreadable)?.is_file() {
        return Err("it is no regular file".into());
    }
    entry_of(&regular_file::read(path).map_err(unreadable)?, newest)
}

/// The entry that a file holds.
pub(crate) fn entry_of<T: DeserializeOwned>(bytes: &[u8], newest: u32) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let damaged = |error: serde_json::Error| format!("it is cut short or damaged: {error}");
    let Version { schema } = serde_json::from_slice(bytes).map_err(damaged)?;
    if schema > newest {
        return Err(format!(
            "it has schema {schema}, and this iosched knows up to {newest}"
        ));
    }
    serde_json::from_slice(bytes).map_err(damaged)
}

/// The files of a directory that were written whole; none where there is no such directory.
///
/// # Errors
/// What is there cannot be told.
pub fn whole_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let files = match fs::read_dir(directory) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let paths = files.map(|file| Ok(file?.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| pid_of_writer(path).is_none());
    Ok(paths)
}

/// Removes what writers left that were killed before their file was whole.
pub fn remove_unfinished(directory: &Path) {
    for file in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = file.path();
        // Who writes it may be in a pid namespace that is not ours: then its lock tells.
        let writes = |pid: &str| Path::new("/proc").join(pid).exists();
        if pid_of_writer(&path).is_some_and(|pid| !writes(&pid) && !is_locked(&path)) {
            let _ = fs::remove_file(path);
        }
    }
}

/// True while somebody holds the file that has this path as it was written ([`Unfinished`]).
pub fn is_locked(path: &Path) -> bool {
    let is_file = fs::symlink_metadata(path).is_ok_and(|file| file.is_file());
    is_file && File::open(path).is_ok_and(|file| lock::is_locked(&file))
}

/// Who writes a file that is not whole yet; none for one that is.
fn pid_of_writer(path: &Path) -> Option<String> {
    let rest = path.file_name()?.to_str()?.strip_prefix(UNFINISHED)?;
    let (pid, _) = rest.split_once('-').unwrap_or(("none", rest));
    Some(pid.to_owned())
}

fn parent(path: &Path) -> &Path {
    path.parent().expect("such a file is in a directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_in_the_place_of_an_entry_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.json");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let error = read_entry::<u32>(&path, 1).unwrap_err();
        assert_eq!(error, "it is no regular file");
        assert!(crate::lock::open_private(&path).is_err());
        // Nor in the place of a directory.
        assert!(sync_directory(&path).is_err());
    }

    #[test]
    fn what_a_killed_writer_left_is_no_file_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("a/b");
        write_whole(&directory.join("1.json"), &1).unwrap();
        let writes = format!(".new-{}-x", std::process::id());
        // No process has such a number; older versions wrote none.
        for name in [".new-4999999-x", ".new-4999999-y", ".new-x", &writes] {
            fs::write(directory.join(name), "1").unwrap();
        }
        assert_eq!(whole_files(&directory).unwrap(), [directory.join("1.json")]);
        let held = File::open(directory.join(".new-4999999-y")).unwrap();
        assert!(lock::try_lock(&held).unwrap());
        remove_unfinished(&directory);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 3);
        assert!(directory.join(writes).exists(), "it is still being written");
        drop(held);
        remove_unfinished(&directory);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
    }
}
