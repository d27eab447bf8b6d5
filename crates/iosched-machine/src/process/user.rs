//! Users: who they are, and how files are touched with no more rights than theirs.
//!
//! `getent` and `id` ask wherever the system keeps its users (LDAP, systemd). Nothing is asked of the C library, whose ways to find users are libraries that a
//! static program cannot load.

use std::ffi::OsString;
use std::io;
use std::panic;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Gid;
use rustix::thread::{
    CapabilitiesSecureBits, capabilities_secure_bits, set_capabilities_secure_bits,
    set_thread_groups,
};
use serde::{Deserialize, Serialize};

/// Whose rights a child has, where they are not ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups, the primary one among them.
    #[serde(default)]
    pub groups: Vec<u32>,
    /// Login name.
    #[serde(default)]
    pub name: String,
    /// Home directory.
    #[serde(default = "no_home")]
    pub home: PathBuf,
    /// Login shell.
    #[serde(default = "plain_shell")]
    pub shell: PathBuf,
}

/// The home of a user who has none.
fn no_home() -> PathBuf {
    "/".into()
}

/// The shell of a user who has none.
fn plain_shell() -> PathBuf {
    "/bin/sh".into()
}

impl User {
    /// Finds a user by name (or number), wherever the system keeps its users; nothing if there is none.
    ///
    /// # Errors
    /// A program that knows users is there and cannot be run.
    pub fn find(name: &str) -> io::Result<Option<User>> {
        let Some(line) = line_of("passwd", name)? else {
            return Ok(None);
        };
        let Some(mut user) = User::of(&line) else {
            return Ok(None);
        };
        let groups = said_by("id", &["-G", "--", &user.name])?;
        user.groups = groups
            .split(' ')
            .filter_map(|group| group.parse().ok())
            .collect();
        Ok(Some(user))
    }

    /// From a line of `passwd`.
    fn of(line: &str) -> Option<User> {
        let fields: Vec<&str> = line.split(':').collect();
        let field = |at: usize| fields.get(at).copied().filter(|text| !text.is_empty());
        // The largest number is nobody's: to the kernel's calls it says that nothing is to change, so that a load would stay root.
        let number = |at: usize| field(at)?.parse().ok().filter(|&id| id != u32::MAX);
        Some(User {
            uid: number(2)?,
            gid: number(3)?,
            groups: Vec::new(),
            name: field(0)?.to_owned(),
            home: field(5).map_or_else(no_home, PathBuf::from),
            shell: field(6).map_or_else(plain_shell, PathBuf::from),
        })
    }

    /// True if this is who we are: there are no rights to give up.
    pub(super) fn is_us(&self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }

    /// The groups as the kernel takes them.
    pub(super) fn kernel_groups(&self) -> Vec<Gid> {
        self.groups
            .iter()
            .map(|&group| Gid::from_raw(group))
            .collect()
    }

    /// What names this user in an environment.
    pub(super) fn variables(&self) -> [(&'static str, OsString); 4] {
        [
            ("HOME", self.home.clone().into()),
            ("USER", self.name.clone().into()),
            ("LOGNAME", self.name.clone().into()),
            ("SHELL", self.shell.clone().into()),
        ]
    }
}

/// The name of a number in `passwd` or `group`, where it can be found out.
pub fn name_of(database: &str, number: u32) -> Option<String> {
    let line = line_of(database, &number.to_string()).ok()??;
    let name = line.split(':').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// The line of `passwd` or `group` for a name or a number.
fn line_of(database: &str, wanted: &str) -> io::Result<Option<String>> {
    let line = said_by("getent", &[database, "--", wanted])?;
    Ok(Some(line).filter(|line| !line.is_empty()))
}

/// What a program says, which is nothing if it did not find it.
fn said_by(program: &str, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run {program}: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(Some(text)
        .filter(|_| output.status.success())
        .unwrap_or_default())
}

/// Touches files with the rights of `user` and no others; with ours where there is none.
///
/// Root follows every link and passes every directory, so a path in a directory that somebody else may
/// change leads root wherever that user likes. The work is done on a thread of its own with the user's file
/// system identity (`setfsuid`), for which the kernel checks each access as for a process of that user. The
/// thread's other ids stay ours, so that the user can neither signal nor trace it.
///
/// # Errors
/// What `work` returns, or that these rights cannot be taken.
pub fn as_user<T: Send>(
    user: Option<&User>,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    /// So long we wait for a thread where there can be no more of them: a load that has just been killed may have had all.
    const A_THREAD_WITHIN: Duration = Duration::from_secs(5);
    let Some(user) = user.filter(|user| !user.is_us()) else {
        return work();
    };
    let work = Mutex::new(Some(work));
    let work_once = || {
        take_file_rights(user)?;
        let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.expect("one thread is started")()
    };
    thread::scope(|threads| {
        let begun = Instant::now();
        let worker = loop {
            match thread::Builder::new().spawn_scoped(threads, work_once) {
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && begun.elapsed() < A_THREAD_WITHIN =>
                {
                    thread::sleep(Duration::from_millis(50));
                }
                started => break started?,
            }
        };
        worker
            .join()
            .unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}

/// Gives this thread the file rights of a user, until it ends.
fn take_file_rights(user: &User) -> io::Result<()> {
    /// No such id: the kernel changes nothing and says which one is in force.
    const ASK: u32 = u32::MAX;
    set_thread_groups(&user.kernel_groups())?;
    // With this bit another file system user id leaves the thread the capabilities that reach all files.
    let bits = capabilities_secure_bits()?;
    if bits.contains(CapabilitiesSecureBits::NO_SETUID_FIXUP) {
        set_capabilities_secure_bits(bits - CapabilitiesSecureBits::NO_SETUID_FIXUP)?;
    }
    // SAFETY: these calls take numbers only, and act on the calling thread alone.
    let (uid, gid) = unsafe {
        libc::setfsgid(user.gid);
        libc::setfsuid(user.uid);
        (libc::setfsuid(ASK), libc::setfsgid(ASK))
    };
    if uid.cast_unsigned() == user.uid && gid.cast_unsigned() == user.gid {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_user_is_found_with_home_shell_and_groups() {
        let root = User::find("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert_eq!(root.name, "root");
        assert!(root.groups.contains(&0));
        assert!(root.home.is_absolute() && root.shell.is_absolute());
        assert_eq!(User::find("iosched-no-such-user").unwrap(), None);
        let line = line_of("passwd", "0").unwrap().unwrap();
        assert_eq!(User::of(&line).unwrap().name, "root");
    }

    #[test]
    fn a_number_that_leaves_root_as_it_is_is_no_user() {
        assert!(User::of("x:x:4294967294:1::/:/bin/sh").is_some());
        for line in [
            "x:x:4294967295:1::/:",
            "x:x:1:4294967295::/:",
            "x:x:-1:1::/:",
        ] {
            assert_eq!(User::of(line), None, "{line}");
        }
    }

    #[test]
    fn a_journal_from_before_groups_and_homes_were_kept_is_read() {
        let user: User = serde_json::from_str(r#"{"uid":1,"gid":2}"#).unwrap();
        assert_eq!((user.uid, user.gid, user.groups.len()), (1, 2, 0));
        assert_eq!(user.home, PathBuf::from("/"));
    }

    #[test]
    fn a_link_to_a_file_of_roots_leads_nobody_to_it() {
        if !iosched_testing::is_root() {
            return;
        }
        let nobody = User::find("nobody").unwrap().unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let secret = tempfile::NamedTempFile::new().unwrap();
        symlink(secret.path(), dir.path().join("link")).unwrap();
        let refused = as_user(Some(&nobody), || fs::read(dir.path().join("link")));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        as_user(Some(&nobody), || fs::write(dir.path().join("file"), "")).unwrap();
        let metadata = fs::metadata(dir.path().join("file")).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (nobody.uid, nobody.gid));
        // This thread is who it was.
        fs::read(dir.path().join("link")).unwrap();
    }
}
