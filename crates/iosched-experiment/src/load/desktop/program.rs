//! The program that is started: a shell with its libraries, copied to the target, so that its pages come from
//! the disk that is measured and from no other.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use iosched_machine::beneath::Directory;
use iosched_machine::process::{ChildError, User, as_user};
use iosched_machine::user_files;
use rustix::fs::{Advice, fadvise};

use super::super::{LoadError, Workplace, files};

/// Shells that are looked for, the larger first.
const SHELLS: &[&str] = &["/bin/bash", "/usr/bin/bash", "/bin/sh"];

/// How long `ldd` may take.
const LISTED_WITHIN: Duration = Duration::from_secs(60);

/// A copied program.
#[derive(Debug)]
pub(super) struct Program {
    /// What was copied.
    original: PathBuf,
    directory: PathBuf,
    /// The names of the copies; the program's is the first, then its loader's if it has one.
    names: Vec<String>,
    has_loader: bool,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -c exit", self.original.display())
    }
}

impl Program {
    /// Copies a shell with all that it loads into `directory`, which is the load's user's.
    pub(super) fn copy(directory: &Path, at: &Workplace<'_>) -> Result<Program, LoadError> {
        let original = shell()?;
        let listed = libraries(original, at)?;
        let directory = directory.join("program");
        files::make_directory(&directory, at.user()).map_err(LoadError::files)?;
        let mut names = Vec::new();
        let paths = [original].into_iter().chain(listed.all());
        for path in paths {
            names.push(copy_one(path, &directory, at.user()).map_err(LoadError::files)?);
        }
        Ok(Program {
            original: original.to_owned(),
            has_loader: listed.loader.is_some(),
            directory,
            names,
        })
    }

    /// Starts and ends at once. The loader is named: the one that the program names is on another disk.
    pub(super) fn command(&self) -> Command {
        let path = |name: &str| self.directory.join(name);
        let mut command = if self.has_loader {
            let mut command = Command::new(path(&self.names[1]));
            command.arg("--library-path").arg(&self.directory);
            command.arg(path(&self.names[0]));
            command
        } else {
            Command::new(path(&self.names[0]))
        };
        // Its messages' catalogues are on another disk.
        command.args(["-c", "exit"]).env("LC_ALL", "C");
        command
    }

    /// Takes its pages out of memory.
    pub(super) fn forget(&self, user: Option<&User>) -> io::Result<()> {
        as_user(user, || {
            let directory = Directory::open(&self.directory)?;
            for name in &self.names {
                let file = directory.open_file(Path::new(name))?;
                fadvise(&file, 0, None, Advice::DontNeed)?;
            }
            Ok(())
        })
    }
}

/// The shell that is there.
///
/// # Errors
/// There is none.
pub(super) fn shell() -> Result<&'static Path, LoadError> {
    let found = SHELLS.iter().map(Path::new).find(|path| path.exists());
    found.ok_or_else(|| {
        LoadError::from(ChildError::Missing {
            program: "bash".into(),
        })
    })
}

/// What a program loads.
struct Libraries {
    loader: Option<PathBuf>,
    others: Vec<PathBuf>,
}

impl Libraries {
    /// The loader first.
    fn all(&self) -> impl Iterator<Item = &Path> {
        self.loader.iter().chain(&self.others).map(PathBuf::as_path)
    }
}

/// Asks `ldd`. Of a program that loads nothing it says so with an exit code. It has our rights, not those of the
/// load's user, whose processes could write into what it prints.
fn libraries(program: &Path, at: &Workplace<'_>) -> Result<Libraries, LoadError> {
    let mut command = Command::new("ldd");
    command.arg(program).env("LC_ALL", "C");
    let listed = at
        .scope
        .with_user(None)
        .run(command, LISTED_WITHIN, at.stop, &mut |_| {});
    Ok(read_list(&listed?.stdout))
}

/// `libc.so.6 => /lib/libc.so.6 (0x…)`, and `/lib64/ld-linux-x86-64.so.2 (0x…)` for the loader; what is in no file
/// (`linux-vdso.so.1 (0x…)`) has no path.
fn read_list(text: &str) -> Libraries {
    let mut libraries = Libraries {
        loader: None,
        others: Vec::new(),
    };
    for line in text.lines() {
        let (name, path) = line.split_once("=>").unwrap_or(("", line));
        let path = path.split(" (").next().unwrap_or_default().trim();
        if !path.starts_with('/') {
            continue;
        }
        let is_loader = name.is_empty() || path.contains("/ld-");
        if is_loader && libraries.loader.is_none() {
            libraries.loader = Some(path.into());
        } else if !is_loader {
            libraries.others.push(path.into());
        }
    }
    libraries
}

/// Copies a regular file that the user may read under its own name, to be run by the user, and waits until it is on
/// the disk.
fn copy_one(path: &Path, directory: &Path, user: Option<&User>) -> io::Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| io::Error::other("a library without a name"))?;
    as_user(user, || {
        let mut original = user_files::open_to_read(path)?;
        let mut copy = Directory::open(directory)?.create_file(name.as_ref())?;
        io::copy(&mut original, &mut copy)?;
        copy.set_permissions(fs::Permissions::from_mode(0o700))?;
        copy.sync_all()
    })?;
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_may_not_read_or_is_no_regular_file_is_not_copied() {
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        open(dir.path(), 0o777);
        let [secret, fifo, plain] = ["secret", "fifo", "plain"].map(|name| dir.path().join(name));
        for (path, mode) in [(&secret, 0o600), (&plain, 0o644)] {
            fs::write(path, "root's").unwrap();
            open(path, mode);
        }
        let made = rustix::fs::CWD;
        rustix::fs::mknodat(made, &fifo, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap();
        open(&fifo, 0o666);
        let nobody = User::find("nobody").unwrap().unwrap();
        let copies = dir.path().join("copies");
        files::make_directory(&copies, Some(&nobody)).unwrap();
        for path in [&secret, &fifo] {
            copy_one(path, &copies, Some(&nobody)).unwrap_err();
        }
        assert_eq!(fs::read_dir(&copies).unwrap().count(), 0);
        assert_eq!(copy_one(&plain, &copies, Some(&nobody)).unwrap(), "plain");
    }

    #[test]
    fn what_ldd_lists_is_read_for_both_c_libraries_and_for_a_static_program() {
        let glibc = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                     \tlibtinfo.so.6 => /lib/x86_64-linux-gnu/libtinfo.so.6 (0x00007f1)\n\
                     \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f2)\n\
                     \t/lib64/ld-linux-x86-64.so.2 (0x00007f3)\n";
        let found = read_list(glibc);
        assert_eq!(
            found.loader.as_deref(),
            Some(Path::new("/lib64/ld-linux-x86-64.so.2"))
        );
        assert_eq!(found.all().count(), 3);
        let musl = "\t/lib/ld-musl-x86_64.so.1 (0x7f)\n\
                    \tlibreadline.so.8 => /usr/lib/libreadline.so.8 (0x7e)\n\
                    \tlibc.musl-x86_64.so.1 => /lib/ld-musl-x86_64.so.1 (0x7f)\n";
        let found = read_list(musl);
        assert_eq!(
            found.loader.as_deref(),
            Some(Path::new("/lib/ld-musl-x86_64.so.1"))
        );
        assert_eq!(found.all().count(), 2);
        assert_eq!(read_list("\tnot a dynamic executable\n").all().count(), 0);
    }
}
