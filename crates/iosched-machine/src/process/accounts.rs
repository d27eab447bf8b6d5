//! Who a name or a number is. `id` and `getent` ask wherever the system keeps its users (LDAP, systemd); where they are
//! not installed, and only there, `/etc/passwd` and `/etc/group` are read. Nothing is asked of the C library, whose ways to find users are
//! libraries that a static program cannot load.

use std::io;
use std::path::Path;
use std::process::Command;

use crate::lossy;

/// Where the files are.
const ETC: &str = "/etc";

/// The line of `passwd` for a user's name or number, and the numbers of all groups of that user; nothing if there is no
/// such user.
///
/// # Errors
/// A program that knows users is there and cannot be run.
pub(super) fn user(name: &str) -> io::Result<Option<(String, Vec<u32>)>> {
    match said_by("id", &["-u", "--", name])? {
        Said::Nothing => Ok(None),
        Said::Text(uid) => {
            let groups = said_by("id", &["-G", "--", name])?.text();
            let Some(gid) = said_by("id", &["-g", "--", name])?.text() else {
                return Ok(None);
            };
            let line = said_by("getent", &["passwd", "--", name])?.text();
            let line = line.or_else(|| in_file(Path::new(ETC), "passwd", name));
            let line = line.filter(|line| has_ids(line, &uid, &gid));
            // A user whom only `id` knows.
            let line = line.unwrap_or_else(|| format!("{name}:x:{uid}:{gid}:::"));
            Ok(Some((line, numbers(&groups.unwrap_or_default()))))
        }
        Said::NotInstalled => Ok(user_in_files(Path::new(ETC), name)),
    }
}

/// True of a line of `passwd` with these numbers. A login name of digits is a name for `id` and a number for `getent`, and
/// the groups of the one would go to the other.
fn has_ids(line: &str, uid: &str, gid: &str) -> bool {
    line.split(':').skip(2).take(2).eq([uid, gid])
}

/// The name of a number in `passwd` or `group`, where it can be found out.
pub fn name_of(database: &str, number: u32) -> Option<String> {
    let number = number.to_string();
    let line = match said_by("getent", &[database, &number]).ok()? {
        Said::Text(line) => line,
        Said::Nothing => return None,
        Said::NotInstalled => in_file(Path::new(ETC), database, &number)?,
    };
    let name = line.split(':').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn user_in_files(etc: &Path, name: &str) -> Option<(String, Vec<u32>)> {
    let line = in_file(etc, "passwd", name)?;
    let mut fields = line.split(':');
    let login = fields.next()?.to_owned();
    let gid: u32 = fields.nth(2)?.parse().ok()?;
    let text = lossy::read(etc.join("group")).unwrap_or_default();
    let mut groups = vec![gid];
    for group in text.lines() {
        let fields: Vec<&str> = group.split(':').collect();
        let &[_, _, number, members] = fields.as_slice() else {
            continue;
        };
        let is_member = members.split(',').any(|member| member == login);
        groups.extend(
            numbers(number)
                .into_iter()
                .filter(|&number| is_member && number != gid),
        );
    }
    Some((line, groups))
}

/// The line with this name or number, the first and third field of both files.
fn in_file(etc: &Path, file: &str, wanted: &str) -> Option<String> {
    let text = lossy::read(etc.join(file)).ok()?;
    let by = |field: usize| {
        let is_it = |line: &&str| line.split(':').nth(field) == Some(wanted);
        text.lines().find(is_it).map(str::to_owned)
    };
    by(0).or_else(|| by(2))
}

fn numbers(text: &str) -> Vec<u32> {
    let words = text.split(' ');
    words.filter_map(|word| word.parse().ok()).collect()
}

/// What a program says.
enum Said {
    /// Its standard output.
    Text(String),
    /// It did not find it.
    Nothing,
    /// There is no such program.
    NotInstalled,
}

impl Said {
    fn text(self) -> Option<String> {
        match self {
            Said::Text(text) => Some(text),
            Said::Nothing | Said::NotInstalled => None,
        }
    }
}

fn said_by(program: &str, arguments: &[&str]) -> io::Result<Said> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Said::NotInstalled),
        Err(error) => {
            return Err(io::Error::new(
                error.kind(),
                format!("cannot run {program}: {error}"),
            ));
        }
    };
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    Ok(if output.status.success() {
        Said::Text(text.trim().to_owned())
    } else {
        Said::Nothing
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_files_say_the_same_of_root_as_the_programs() {
        let (line, groups) = user("root").unwrap().unwrap();
        let (in_files, groups_in_files) = user_in_files(Path::new(ETC), "root").unwrap();
        assert_eq!((line, groups), (in_files, groups_in_files));
    }

    #[test]
    fn a_line_with_other_numbers_than_id_says_is_of_another_user() {
        let line = "1000:x:1001:1002::/home/of-digits:/bin/sh";
        assert!(has_ids(line, "1001", "1002"));
        for (uid, gid) in [("1000", "1002"), ("1001", "0"), ("", "")] {
            assert!(!has_ids(line, uid, gid));
        }
        assert!(!has_ids("1000:x:1001", "1001", ""));
    }

    #[test]
    fn a_program_that_is_there_and_does_not_start_is_not_one_that_is_not_installed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        assert!(matches!(
            said_by(&path("absent"), &[]),
            Ok(Said::NotInstalled)
        ));
        fs::write(path("getent"), "#!/bin/sh\n").unwrap(); // nobody may run it
        let error = said_by(&path("getent"), &[]).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("getent"), "{error}");
    }

    #[test]
    fn a_user_is_found_in_files_by_name_and_number_with_all_groups() {
        let etc = tempfile::tempdir().unwrap();
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nbench:x:1000:100:Bench,,,:/home/bench:/bin/dash\n";
        fs::write(etc.path().join("passwd"), passwd).unwrap();
        let group =
            "root:x:0:\nusers:x:100:bench\ndisk:x:6:root,bench\nbenchers:x:7:benchmark\nodd\n";
        fs::write(etc.path().join("group"), group).unwrap();
        let line = passwd.lines().nth(1).unwrap().to_owned();
        for wanted in ["bench", "1000"] {
            let found = user_in_files(etc.path(), wanted);
            assert_eq!(found, Some((line.clone(), vec![100, 6])));
        }
        assert_eq!(user_in_files(etc.path(), "nobody"), None);
        assert_eq!(
            in_file(etc.path(), "group", "6").as_deref(),
            Some("disk:x:6:root,bench")
        );
        assert_eq!(in_file(etc.path(), "shadow", "0"), None);
    }
}
