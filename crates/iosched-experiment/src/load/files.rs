//! What we do ourselves to the files of a load, with the rights of the load's user: in a directory that is
//! theirs a name may lead anywhere.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use iosched_machine::beneath::{self, Directory};
use iosched_machine::process::{Stop, User, as_user};
use rustix::fs::Mode;

/// Makes a directory that only the load's user may enter. It may be there already.
pub(super) fn make_directory(path: &Path, user: Option<&User>) -> io::Result<()> {
    match make_new_directory(path, user) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Makes a directory that only the load's user may enter, and that is not there. Where that user may make none, root
/// does, in a directory that it reaches by no link.
pub(crate) fn make_new_directory(path: &Path, user: Option<&User>) -> io::Result<()> {
    let create = || DirBuilder::new().mode(0o700).create(path);
    match (as_user(user, create), user) {
        (Err(error), Some(user)) if error.kind() == io::ErrorKind::PermissionDenied => {
            let (above, name) = beneath::split(path)?;
            above.create_directory(name)?;
            give_away(&above, name, user)
        }
        (made, _) => made,
    }
}

/// Gives an empty directory that we have just made to a user. Held by its descriptor: should somebody have put
/// another in its place, that one is not given away unless it is as empty and as much ours.
fn give_away(above: &Directory, name: &OsStr, user: &User) -> io::Result<()> {
    let made = above.enter(Path::new(name))?;
    let status = rustix::fs::fstat(made.descriptor())?;
    let is_ours = status.st_uid == rustix::process::geteuid().as_raw()
        && Mode::from_raw_mode(status.st_mode) == Mode::RWXU;
    if !is_ours || !made.is_empty()? {
        return Err(io::Error::other("it was replaced while it was made"));
    }
    let (uid, gid) = (user.uid, user.gid);
    Ok(rustix::fs::fchown(
        made.descriptor(),
        Some(rustix::fs::Uid::from_raw(uid)),
        Some(rustix::fs::Gid::from_raw(gid)),
    )?)
}

/// True if nothing stands in a directory.
pub(super) fn is_empty(directory: &Path, user: Option<&User>) -> io::Result<bool> {
    as_user(user, || Directory::open(directory)?.is_empty())
}

/// The length of a file.
pub(super) fn length(directory: &Path, name: &str, user: Option<&User>) -> io::Result<u64> {
    as_user(user, || {
        Ok(fs::symlink_metadata(directory.join(name))?.len())
    })
}

/// Removes the files in a directory.
pub(super) fn remove_files(directory: &Path, user: Option<&User>) -> io::Result<()> {
    as_user(user, || {
        let directory = Directory::open(directory)?;
        let names = directory.names()?;
        names
            .iter()
            .try_for_each(|name| directory.remove_file(name))
    })
}

/// Reads the files in a directory, so that they are in memory, until all is read or it is to stop.
pub(super) fn read_files(directory: &Path, user: Option<&User>, stop: &Stop) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    as_user(user, || {
        let directory = Directory::open(directory)?;
        for name in directory.names()? {
            let mut file = directory.open_file(Path::new(&name))?;
            while !stop.is_wanted() && file.read(&mut buffer)? > 0 {}
        }
        Ok(())
    })
}
