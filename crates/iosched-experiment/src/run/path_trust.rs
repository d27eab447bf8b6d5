//! Whether the way to a directory can be trusted: whoever may rename what stands on it can put another
//! directory, or a link, where a load expects its files.
//!
//! Root's load would write to whatever it is led to. Working below a descriptor would not help: fio, iozone and
//! any command open their files by path, one after the other, and follow links. So root's loads run where only
//! root may rename, and a user's loads where only root and that user may.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use iosched_machine::process::{self, User, as_user};

use super::RunError;

/// Others may rename entries.
const WRITABLE_BY_OTHERS: u32 = 0o002;
/// Those of the group may; so may those whom an access control list names, whose mask stands here.
const WRITABLE_BY_GROUP: u32 = 0o020;
/// Entries can be renamed only by those who own them, or the directory.
const STICKY: u32 = 0o1000;

/// Who could lead a load astray.
#[derive(Debug, PartialEq, Eq)]
enum Danger {
    Owner(u32),
    Group(u32),
    Everybody,
}

/// Refuses a directory on the way to which somebody else than root and the loads' user may rename, or that this
/// user cannot enter. Loads that run as ourselves are refused only if we are root: others risk no more than what
/// they own.
pub(super) fn check(target: &Path, user: Option<&User>) -> Result<(), RunError> {
    let we = rustix::process::geteuid().as_raw();
    let runner = user.map_or(we, |user| user.uid);
    if we != 0 {
        return Ok(());
    }
    for above in target.ancestors() {
        let metadata = above
            .symlink_metadata()
            .map_err(|source| unusable(above, source))?;
        if let Some(danger) = danger(&metadata, runner) {
            return Err(untrusted(target, above, &danger, user));
        }
    }
    let inside = target.join(".");
    as_user(user, || inside.metadata().map(drop)).map_err(|source| match user {
        Some(user) if source.kind() == io::ErrorKind::PermissionDenied => RunError::MayNotEnter {
            user: user.name.clone(),
            target: target.into(),
            source,
        },
        _ => unusable(target, source),
    })
}

/// Refuses a path, as it was written, that leads through a link which somebody else than root and the loads' user can
/// replace: that one would choose where root measures.
pub(super) fn check_links(path: &Path, user: Option<&User>) -> Result<(), RunError> {
    let we = rustix::process::geteuid().as_raw();
    let runner = user.map_or(we, |user| user.uid);
    if we != 0 {
        return Ok(());
    }
    for link in links_of(path).map_err(|source| unusable(path, source))? {
        let status = |at: &Path| at.symlink_metadata().map_err(|source| unusable(at, source));
        let owner = status(&link)?.uid();
        if owner != 0 && owner != runner {
            return Err(untrusted(path, &link, &Danger::Owner(owner), user));
        }
        for above in link.ancestors().skip(1) {
            if let Some(danger) = danger(&status(above)?, runner) {
                return Err(untrusted(path, above, &danger, user));
            }
        }
    }
    Ok(())
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

fn unusable(path: &Path, source: io::Error) -> RunError {
    RunError::Io {
        path: path.into(),
        source,
    }
}

fn untrusted(target: &Path, above: &Path, danger: &Danger, user: Option<&User>) -> RunError {
    let owner = match danger {
        Danger::Owner(uid) => name_of("passwd", *uid),
        Danger::Group(gid) => format!("group {}", name_of("group", *gid)),
        Danger::Everybody => "everybody".into(),
    };
    RunError::Untrusted {
        target: target.into(),
        above: above.into(),
        suggests: matches!(danger, Danger::Owner(_)).then(|| owner.clone()),
        owner,
        runner: user.map_or_else(|| "root".into(), |user| user.name.clone()),
    }
}

/// Who besides root and the runner may rename what stands in a directory.
fn danger(directory: &Metadata, runner: u32) -> Option<Danger> {
    let (mode, owner) = (directory.mode(), directory.uid());
    if owner != 0 && owner != runner {
        return Some(Danger::Owner(owner));
    }
    if mode & STICKY != 0 {
        return None;
    }
    // Whom an ordinary user lets into his directories is his affair; what root owns is not.
    if mode & WRITABLE_BY_GROUP != 0 && runner == 0 {
        return Some(Danger::Group(directory.gid()));
    }
    (mode & WRITABLE_BY_OTHERS != 0).then_some(Danger::Everybody)
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
        ] {
            chown(dir.path(), Some(owner), Some(7)).unwrap();
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            let metadata = dir.path().symlink_metadata().unwrap();
            assert_eq!(
                danger(&metadata, runner),
                expected,
                "{mode:o} {owner} {runner}"
            );
        }
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
