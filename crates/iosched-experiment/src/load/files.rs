//! What we do ourselves to the files of a load, with the rights of the load's user: in a directory that is
//! theirs a name may lead anywhere.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use iosched_machine::beneath::{self, Directory};
use iosched_machine::path_trust::{self, Trusted, WayError};
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
/// does, in a directory that it reaches by no link, and that nobody else can put in the place of another one of root's.
pub(crate) fn make_new_directory(path: &Path, user: Option<&User>) -> io::Result<()> {
    let create = || DirBuilder::new().mode(0o700).create(path);
    match (as_user(user, create), user) {
        (Err(error), Some(user)) if error.kind() == io::ErrorKind::PermissionDenied => {
            check_stays(path.parent().unwrap_or(path), user)?;
            let (above, name) = beneath::split(path)?;
            above.create_directory(name)?;
            give_away(&above, name, user)
        }
        (made, _) => made,
    }
}

/// Refuses a directory in which a user may make none, and which somebody but root may rename.
fn check_stays(above: &Path, user: &User) -> io::Result<()> {
    let root = Trusted {
        runner: 0,
        invoker: None,
    };
    match path_trust::check_way(above, root) {
        Ok(()) => Ok(()),
        Err(WayError::Unusable { source, .. }) => Err(source),
        Err(WayError::Danger { at, danger }) => {
            let (user, above) = (&user.name, above.display());
            let (who, at) = (danger.who(), at.display());
            Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{user} may make no directory there, and root makes none in {above}, which {who} can rename in {at}"
                ),
            ))
        }
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

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

    use super::*;

    #[test]
    fn root_makes_no_directory_where_the_user_can_put_another_one_of_roots() {
        if !iosched_testing::is_root() {
            return;
        }
        let nobody = User::find("nobody").unwrap().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let owned_by = |name: &str, owner: u32| {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            chown(&path, Some(owner), None).unwrap();
            path
        };
        owned_by("theirs", nobody.uid);
        for target in ["roots", "theirs/roots"] {
            let run = owned_by(target, 0).join("run");
            let made = make_new_directory(&run, Some(&nobody));
            let is_trusted = target == "roots";
            assert_eq!(made.is_ok(), is_trusted, "{target}: {made:?}");
            assert_eq!(run.exists(), is_trusted, "{target}");
            if is_trusted {
                assert_eq!(run.metadata().unwrap().uid(), nobody.uid);
            } else {
                let error = made.unwrap_err().to_string();
                assert!(error.contains("nobody can rename in "), "{error}");
            }
        }
    }
}
