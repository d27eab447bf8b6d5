//! Whether the path to a directory, a record or a device, and what stands there, can be trusted: whoever may rename what
//! stands on the way can put another directory, or a link, where a load expects its files; and who may write a record says what is run.
//!
//! Root's load would write to whatever it is led to. Working below a descriptor would not help: fio, iozone and
//! any command open their files by path, one after the other, and follow links. So root's loads run where only
//! root may rename, and a user's loads where only root and that user may.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::process;

/// Others may rename entries, or write the file.
const WRITABLE_BY_OTHERS: u32 = 0o002;
/// Those of the group may; so may those whom an access control list names, whose mask stands here.
const WRITABLE_BY_GROUP: u32 = 0o020;
/// What anybody but its owner may do with a file.
const RIGHTS_OF_OTHERS: u32 = 0o077;
/// Entries of a directory can be renamed only by those who own them, or the directory.
const STICKY: u32 = 0o1000;

/// Who may change what is on the way, besides root.
#[derive(Debug, Clone, Copy)]
pub struct Trusted {
    /// As whom the loads run, or we.
    pub runner: u32,
    /// Who became root to start us.
    pub invoker: Option<u32>,
}

/// Who could lead a load astray.
#[derive(Debug, PartialEq, Eq)]
pub enum Danger {
    /// A user, by number.
    Owner(u32),
    /// Those of a group, by number.
    Group(u32),
    /// All users.
    Everybody,
}

impl Danger {
    /// For people.
    pub fn who(&self) -> String {
        match self {
            Danger::Owner(uid) => name_of("passwd", *uid),
            Danger::Group(gid) => format!("group {}", name_of("group", *gid)),
            Danger::Everybody => "everybody".into(),
        }
    }

    /// The name of the user, if it is one.
    pub fn user(&self) -> Option<String> {
        matches!(self, Danger::Owner(_)).then(|| self.who())
    }
}

/// Why a way cannot be trusted.
#[derive(Debug)]
pub enum WayError {
    /// Somebody may change this.
    Danger {
        /// What of the way.
        at: PathBuf,
        /// The owner or permission that makes it unsafe.
        danger: Danger,
    },
    /// It cannot be looked at.
    Unusable {
        /// The file or directory concerned.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Trusted {
    /// Whom a command trusts whose loads run as this user, or as we are: root, that user, and who called `sudo`.
    pub fn of(user: Option<u32>) -> Trusted {
        let we = rustix::process::geteuid();
        let invoker = std::env::var("SUDO_UID").ok().filter(|_| we.is_root());
        Trusted {
            runner: user.unwrap_or(we.as_raw()),
            invoker: invoker.and_then(|uid| uid.parse().ok()),
        }
    }
}

/// Refuses a path by which somebody else could make us take another device: its links, and the node at its end. Who is
/// not root opens what he may open anyway.
pub(crate) fn check_device(path: &Path) -> Result<(), WayError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let trusted = Trusted::of(None);
    check_written(path, trusted)?;
    check_links(path, trusted)?;
    let node = path
        .canonicalize()
        .map_err(|source| unusable(path, source))?;
    check_way(node.parent().unwrap_or(&node), trusted)
}

/// Refuses a path, as it was written, on which somebody else may rename: he could swap what stands there at any moment, so
/// that a look at its links says nothing. Of all that is his, the uppermost stands where he may not.
pub fn check_written(path: &Path, trusted: Trusted) -> Result<(), WayError> {
    let above = std::path::absolute(path).map_err(|source| unusable(path, source))?;
    let mut above = above.ancestors().skip(1);
    above.try_for_each(|at| check_one(at, trusted))
}

/// Refuses a path without links on which somebody else may rename: the directories above, and what stands at its end.
pub fn check_way(path: &Path, trusted: Trusted) -> Result<(), WayError> {
    path.ancestors().try_for_each(|at| check_one(at, trusted))
}

/// Refuses a path, as it was written, that leads through a link which somebody else can replace.
pub fn check_links(path: &Path, trusted: Trusted) -> Result<(), WayError> {
    let links = links_of(path).map_err(|source| unusable(path, source))?;
    for link in links {
        let owner = status(&link)?.uid();
        if !trusted.is_owner(owner) {
            let danger = Danger::Owner(owner);
            return Err(WayError::Danger { at: link, danger });
        }
        let above = link.parent().unwrap_or(&link);
        check_way(above, trusted)?;
    }
    Ok(())
}

/// Refuses a file or a directory that somebody else may change.
fn check_one(at: &Path, trusted: Trusted) -> Result<(), WayError> {
    match trusted.danger(&status(at)?) {
        None => Ok(()),
        Some(danger) => Err(WayError::Danger {
            at: at.into(),
            danger,
        }),
    }
}

fn status(at: &Path) -> Result<Metadata, WayError> {
    at.symlink_metadata().map_err(|source| unusable(at, source))
}

fn unusable(path: &Path, source: io::Error) -> WayError {
    let path = path.into();
    WayError::Unusable { path, source }
}

impl Trusted {
    /// True of a file that only those who are trusted can read or write.
    pub fn has_alone(self, of: &Metadata) -> bool {
        self.is_owner(of.uid()) && of.mode() & RIGHTS_OF_OTHERS == 0
    }

    fn is_owner(self, uid: u32) -> bool {
        uid == 0 || uid == self.runner || Some(uid) == self.invoker
    }

    /// Who else may rename what stands in a directory, or write a file.
    fn danger(self, of: &Metadata) -> Option<Danger> {
        if of.is_dir() && of.mode() & STICKY != 0 && self.is_owner(of.uid()) {
            return None;
        }
        self.writer(of)
    }

    /// Who else may write a file, or put something into a directory.
    fn writer(self, of: &Metadata) -> Option<Danger> {
        let (mode, owner) = (of.mode(), of.uid());
        if !self.is_owner(owner) {
            return Some(Danger::Owner(owner));
        }
        // The mode of a link says nothing.
        if of.is_symlink() {
            return None;
        }
        // Whom an ordinary user lets into his directories is his affair; what root owns is not.
        let is_users = self.runner != 0 || Some(owner) == self.invoker;
        if mode & WRITABLE_BY_GROUP != 0 && !is_users {
            return Some(Danger::Group(of.gid()));
        }
        (mode & WRITABLE_BY_OTHERS != 0).then_some(Danger::Everybody)
    }
}

/// The links that a path leads through, in order; none of their own paths leads through one.
fn links_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    /// As many as Linux follows (`MAXSYMLINKS`).
    const MOST: usize = 40;
    let mut links = Vec::new();
    let mut at = PathBuf::from("/");
    let mut rest: Vec<PathBuf> = parts(&std::path::absolute(path)?);
    while let Some(part) = rest.pop() {
        match part.components().next() {
            Some(Component::RootDir) => at = "/".into(),
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::Normal(name)) => {
                let next = at.join(name);
                let Ok(leads_to) = next.read_link() else {
                    at = next;
                    continue;
                };
                if links.len() == MOST {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                links.push(next);
                rest.extend(parts(&leads_to));
            }
            _ => {}
        }
    }
    Ok(links)
}

/// The components of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let components = path.components().rev();
    components.map(|part| part.as_os_str().into()).collect()
}

/// The name that a database of the system has for a number; the number itself where it has none.
fn name_of(database: &str, number: u32) -> String {
    process::name_of(database, number).unwrap_or_else(|| number.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn who_may_rename_on_the_way_is_known() {
        if !iosched_testing::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let invoker = Some(1002);
        for (mode, owner, runner, expected) in [
            (0o755, 0, 0, None),
            (0o1777, 0, 0, None),
            (0o775, 0, 0, Some(Danger::Group(7))),
            (0o775, 1000, 1000, None),
            (0o777, 0, 0, Some(Danger::Group(7))),
            (0o777, 1000, 1000, Some(Danger::Everybody)),
            (0o755, 1000, 0, Some(Danger::Owner(1000))),
            (0o1777, 1000, 0, Some(Danger::Owner(1000))),
            (0o700, 1000, 1001, Some(Danger::Owner(1000))),
            (0o755, 1002, 0, None),
            (0o775, 1002, 0, None),
            (0o777, 1002, 0, Some(Danger::Everybody)),
        ] {
            chown(dir.path(), Some(owner), Some(7)).unwrap();
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            let metadata = dir.path().symlink_metadata().unwrap();
            let trusted = Trusted { runner, invoker };
            assert_eq!(
                trusted.danger(&metadata),
                expected,
                "{mode:o} {owner} {runner}"
            );
        }
        // Of a file the sticky bit says nothing.
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o1666)).unwrap();
        let trusted = Trusted {
            runner: 1000,
            invoker: None,
        };
        let metadata = file.symlink_metadata().unwrap();
        assert_eq!(trusted.danger(&metadata), Some(Danger::Everybody));
    }

    #[test]
    fn links_are_found_wherever_they_lead() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        for (link, leads_to) in [("a/up", ".."), ("way", "a/up/a"), ("round", "round")] {
            symlink(leads_to, at(link)).unwrap();
        }
        symlink(at("a"), at("a/b/far")).unwrap();
        for (path, links) in [
            ("a/b", &[][..]),
            ("nothing/here", &[]),
            ("way/b", &["way", "a/up"]),
            ("a/b/../b/far/b", &["a/b/far"]),
        ] {
            let links: Vec<PathBuf> = links.iter().map(|link| at(link)).collect();
            assert_eq!(links_of(&at(path)).unwrap(), links, "{path}");
        }
        assert!(links_of(&at("round")).is_err());
    }
}
