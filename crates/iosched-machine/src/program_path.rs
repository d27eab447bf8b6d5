//! Where root looks for programs: only in directories of PATH that nobody else can write.
//!
//! We start `fio`, `blkid`, `getent`, `modprobe` and others by name. A directory that is relative, or that somebody else may
//! write or rename, would let that one choose what root runs. So would `/tmp`: what is not yet there needs not be renamed.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::lossy;
use crate::path_trust::{Danger, Trusted, WayError, check_entries, check_links, check_way};

/// Where nothing is found: an empty PATH would be the current directory.
const NOWHERE: &str = "/nonexistent";

/// What was left out of our own PATH.
static LEFT_OUT: OnceLock<Vec<LeftOut>> = OnceLock::new();

/// A directory of PATH in which root does not look for programs.
#[derive(Debug)]
pub struct LeftOut {
    /// As it stands there.
    directory: PathBuf,
    why: Untrusted,
}

/// Why root does not look in a directory. Users and groups are numbers until they are told: `getent`, which knows
/// their names, would be looked for in that very directory.
#[derive(Debug)]
enum Untrusted {
    Relative,
    Way(WayError),
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.directory.as_os_str().is_empty() {
            f.write_str("an empty entry")?;
        } else {
            self.directory.display().fmt(f)?;
        }
        match &self.why {
            Untrusted::Relative => f.write_str(" (it is relative)"),
            Untrusted::Way(WayError::Danger { at, danger }) => {
                write!(f, " ({} can change {})", danger.who(), at.display())
            }
            Untrusted::Way(WayError::Unusable { source, .. }) => write!(f, " ({source})"),
        }
    }
}

/// The PATH that root is to have instead of this one, and what is left out of it. Starts no program: ours is not trusted yet.
pub fn of_root(path: &OsStr) -> (OsString, Vec<LeftOut>) {
    let mut left_out = Vec::new();
    let mut kept: Vec<&OsStr> = Vec::new();
    for entry in path.as_bytes().split(|&byte| byte == b':') {
        let entry = OsStr::from_bytes(entry);
        match check(Path::new(entry)) {
            Ok(()) => kept.push(entry),
            Err(why) => left_out.push(LeftOut {
                directory: entry.into(),
                why,
            }),
        }
    }
    if kept.is_empty() {
        kept.push(OsStr::new(NOWHERE));
    }
    (kept.join(OsStr::new(":")), left_out)
}

/// Remembers what was left out of our own PATH, for errors about programs that are not found.
pub fn note(left_out: Vec<LeftOut>) {
    let _ = LEFT_OUT.set(left_out);
}

/// What was left out of our own PATH, as a sentence; nothing if nothing was.
pub fn left_out() -> Option<String> {
    let left_out = LEFT_OUT.get().filter(|left_out| !left_out.is_empty())?;
    let each: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    Some(format!(
        "of PATH, root leaves out what others can change: {}",
        each.join(", ")
    ))
}

/// Why root is not to look there.
fn check(directory: &Path) -> Result<(), Untrusted> {
    if !directory.is_absolute() {
        return Err(Untrusted::Relative);
    }
    let trusted = Trusted {
        runner: 0,
        invoker: None,
    };
    let checked = check_links(directory, trusted).and_then(|()| {
        // What is not there can be made by who may write above it, or where a link leads that leads nowhere yet.
        let mut ancestors = directory.ancestors();
        let there = ancestors.find(|at| at.symlink_metadata().is_ok());
        let there = there.unwrap_or(Path::new("/"));
        let real = there.canonicalize().map_err(|source| WayError::Unusable {
            path: there.into(),
            source,
        })?;
        check_each(&real, trusted)
    });
    checked.map_err(Untrusted::Way)
}

/// The same as [`check_entries`] and [`check_way`], but for groups in which there is nobody, as Debian's `staff`, which may
/// write `/usr/local/bin`.
fn check_each(path: &Path, trusted: Trusted) -> Result<(), WayError> {
    let mut ancestors = path.ancestors();
    let mut checked = check_entries(path, trusted).and_then(|()| check_way(path, trusted));
    loop {
        match checked {
            Err(WayError::Danger {
                at: there,
                danger: Danger::Group(gid),
            }) if is_of_nobody(gid) && !is_open_to_all(&there) => {
                // Go on above it.
                let above = ancestors.find(|one| *one == there).and(ancestors.next());
                match above {
                    Some(above) => checked = check_way(above, trusted),
                    None => return Ok(()),
                }
            }
            other => return other,
        }
    }
}

/// True where everybody may write, which a group that may is found before.
fn is_open_to_all(directory: &Path) -> bool {
    let metadata = directory.symlink_metadata();
    metadata.map_or(true, |metadata| metadata.mode() & 0o002 != 0)
}

/// True of a group of `/etc/group` that has no members but root, and that is nobody's first group.
fn is_of_nobody(gid: u32) -> bool {
    let read = |file: &str| lossy::read(Path::new("/etc").join(file));
    let (Ok(groups), Ok(users)) = (read("group"), read("passwd")) else {
        return false;
    };
    is_of_nobody_in(&groups, &users, gid)
}

fn is_of_nobody_in(groups: &str, users: &str, gid: u32) -> bool {
    let gid = gid.to_string();
    let of = |line: &str, field: usize| line.split(':').nth(field).map(str::to_owned);
    let is_it = |line: &&str| of(line, 2).as_ref() == Some(&gid);
    let mut lines = groups.lines().filter(is_it).peekable();
    let is_known = lines.peek().is_some();
    let has_members = lines.any(|line| {
        let members = of(line, 3).unwrap_or_default();
        members
            .split(',')
            .any(|member| !member.is_empty() && member != "root")
    });
    let is_first = users
        .lines()
        .any(|line| of(line, 3).as_ref() == Some(&gid) && of(line, 2).as_deref() != Some("0"));
    is_known && !has_members && !is_first
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn root_looks_for_programs_only_where_nobody_else_can_put_one() {
        if !iosched_testing::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let make = |name: &str, mode: u32, owner: u32| {
            let path = dir.path().join(name);
            fs::create_dir_all(&path).unwrap();
            chown(&path, Some(owner), Some(0)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path.display().to_string()
        };
        let ours = make("ours", 0o755, 0);
        let of_user = make("of-user", 0o755, 5);
        let below = make("of-user/below", 0o755, 0);
        let open = make("open", 0o777, 0);
        let sticky = make("sticky", 0o1777, 0);
        let below_sticky = make("sticky/below", 0o755, 0);
        let of_group = make("of-group", 0o1775, 0);
        chown(&of_group, None, Some(65533)).unwrap();
        let absent_in_sticky = format!("{sticky}/absent");
        let link = dir.path().join("of-user/link");
        symlink(&ours, &link).unwrap();
        rustix::fs::chownat(
            rustix::fs::CWD,
            &link,
            Some(rustix::fs::Uid::from_raw(5)),
            None,
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
        let link = link.display().to_string();
        let dangling = dir.path().join("dangling");
        symlink(&absent_in_sticky, &dangling).unwrap();
        let below_dangling = dangling.join("below").display().to_string();
        let absent = format!("{ours}/absent");
        let absent_of_user = format!("{of_user}/absent");
        let entries = [
            &*ours,
            &of_user,
            "",
            ".",
            "bin",
            &below,
            &open,
            &absent,
            &link,
            &absent_of_user,
            &sticky,
            &below_sticky,
            &of_group,
            &absent_in_sticky,
            &below_dangling,
            "/usr/bin",
        ];
        let (path, left_out) = of_root(OsStr::new(&entries.join(":")));
        let kept = format!("{ours}:{absent}:{below_sticky}:/usr/bin");
        assert_eq!(path.to_str().unwrap(), kept);
        let left_out: Vec<&str> = left_out
            .iter()
            .map(|one| one.directory.to_str().unwrap())
            .collect();
        let expected = [
            &*of_user,
            "",
            ".",
            "bin",
            &below,
            &open,
            &link,
            &absent_of_user,
            &sticky,
            &of_group,
            &absent_in_sticky,
            &below_dangling,
        ];
        assert_eq!(left_out, expected);
        // Never the current directory.
        for path in ["", ".", &of_user] {
            assert_eq!(of_root(OsStr::new(path)).0, NOWHERE);
        }
    }

    /// The test is run again in a process of its own, whose PATH leads to a user's `getent` first.
    #[test]
    fn while_path_is_looked_at_no_program_of_it_is_run() {
        const PATH_OF_TEST: &str = "IOSCHED_TEST_PATH";
        if let Some(path) = std::env::var_os(PATH_OF_TEST) {
            let (_, left_out) = of_root(&path);
            assert_eq!(left_out.len(), 1);
            return;
        }
        if !iosched_testing::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let ran = dir.path().join("ran");
        let getent = dir.path().join("getent");
        fs::write(&getent, format!("#!/bin/sh\n: >{}\n", ran.display())).unwrap();
        fs::set_permissions(&getent, Permissions::from_mode(0o755)).unwrap();
        chown(dir.path(), Some(65534), None).unwrap();
        let path = format!("{}:/usr/bin:/bin", dir.path().display());
        let mut again = Command::new(std::env::current_exe().unwrap());
        let name = "program_path::tests::while_path_is_looked_at_no_program_of_it_is_run";
        again.args(["--exact", name]).env("PATH", &path);
        let output = again.env(PATH_OF_TEST, &path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 passed"), "{said}");
        assert!(!ran.exists(), "a user's program was run as root");
        // Who it is is told later, when only root's directories are left.
        let (_, left_out) = of_root(OsStr::new(&path));
        let why = format!("{0} ({{}} can change {0})", dir.path().display());
        let nobody = Danger::Owner(65534).who();
        assert_eq!(left_out[0].to_string(), why.replace("{}", &nobody));
    }

    #[test]
    fn a_group_without_members_is_nobody() {
        let groups = "root:x:0:\nstaff:x:50:\nadm:x:4:root,syslog\nwheel:x:10:root\nusers:x:100:\n";
        let users = "root:x:0:0:::\njo:x:1000:100:::\n";
        let is = |gid| is_of_nobody_in(groups, users, gid);
        assert_eq!(
            [0, 50, 10, 4, 100, 7].map(is),
            [true, true, true, false, false, false]
        );
    }
}
