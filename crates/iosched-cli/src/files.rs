//! Files that the user asked for: whole or not at all, and never through a symbolic link. `-` is standard
//! output.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use iosched_machine::failure::{Failure, exit};
use tempfile::NamedTempFile;

/// A file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub(crate) struct WriteError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl Failure for WriteError {
    fn hint(&self) -> Option<String> {
        let parent = self.path.parent().unwrap_or(Path::new("."));
        match self.source.kind() {
            io::ErrorKind::NotFound => {
                Some(format!("make the directory {} first", parent.display()))
            }
            io::ErrorKind::IsADirectory => Some("name a file in it".into()),
            io::ErrorKind::Other => Some("`-` is standard output".into()),
            _ => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self.source.kind() {
            io::ErrorKind::PermissionDenied => exit::NOT_PERMITTED,
            _ => exit::FAILURE,
        }
    }
}

/// Writes a file of its own beside the wanted one and renames it: what stood there before is replaced
/// as a whole, and a link that somebody laid is replaced, not followed.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    if is_standard_output(path) {
        let written = standard_output().and_then(|mut file| file.write_all(bytes));
        return written.map_err(|source| failed(path, source));
    }
    let mut file = beside(path)?;
    file.write_all(bytes)
        .map_err(|source| failed(path, source))?;
    rename(file, path)
}

/// The same for what is made piece by piece.
pub(crate) fn write_with<E: Failure + 'static>(
    path: &Path,
    make: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), Box<dyn Failure>> {
    let boxed = |error| -> Box<dyn Failure> { Box::new(error) };
    if is_standard_output(path) {
        let mut file = standard_output().map_err(|source| boxed(failed(path, source)))?;
        return make(&mut file).map_err(|error| -> Box<dyn Failure> { Box::new(error) });
    }
    let mut file = beside(path).map_err(boxed)?;
    make(file.as_file_mut()).map_err(|error| -> Box<dyn Failure> { Box::new(error) })?;
    rename(file, path).map_err(boxed)
}

/// True of `-`.
fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn standard_output() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

fn beside(path: &Path) -> Result<NamedTempFile, WriteError> {
    if path.is_dir() && !path.is_symlink() {
        return Err(failed(path, io::ErrorKind::IsADirectory.into()));
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // To be replaced by a file: a terminal, a disk, a pipe that somebody reads.
    let is_something_else = path
        .symlink_metadata()
        .is_ok_and(|found| !found.is_file() && !found.is_symlink());
    if is_something_else || is_of_devices(directory) {
        let cause = "it is no regular file, and is not replaced by one";
        return Err(failed(path, io::Error::other(cause)));
    }
    tempfile::Builder::new()
        .prefix(".iosched-")
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(directory)
        .map_err(|source| failed(path, source))
}

/// True of `/dev`, but for where files are kept in memory.
fn is_of_devices(directory: &Path) -> bool {
    let real = directory.canonicalize();
    real.is_ok_and(|real| real.starts_with("/dev") && !real.starts_with("/dev/shm"))
}

fn rename(file: NamedTempFile, path: &Path) -> Result<(), WriteError> {
    let renamed = file.persist(path);
    renamed.map_err(|error| failed(path, error.error))?;
    Ok(())
}

fn failed(path: &Path, source: io::Error) -> WriteError {
    let path = path.to_owned();
    WriteError { path, source }
}

/// Makes a directory for files, if it is not there.
pub(crate) fn directory(path: &Path) -> Result<(), WriteError> {
    std::fs::create_dir_all(path).map_err(|source| failed(path, source))
}
