//! Files that the user asked for, by the rule of [`user_files`]. `-` is standard output.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use iosched_machine::failure::{Problem, exit, room_hint};
use iosched_machine::user_files::{self, NewFile};

/// Writes a file as a whole.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Problem> {
    let failed = |cause: io::Error| failed(path, &cause);
    if is_standard_output(path) {
        let written = standard_output().and_then(|mut file| file.write_all(bytes));
        return match written {
            // Whoever reads it has read enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(failed),
        };
    }
    let mut new = NewFile::at(path).map_err(failed)?;
    new.file().write_all(bytes).map_err(failed)?;
    new.put_in_place().map_err(failed)
}

/// True of `-`.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn standard_output() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

fn failed(path: &Path, cause: &io::Error) -> Problem {
    let is_led_elsewhere = user_files::is_led_elsewhere(cause);
    let code = match cause.kind() {
        _ if is_led_elsewhere => exit::UNSAFE,
        io::ErrorKind::PermissionDenied => exit::NOT_PERMITTED,
        _ => exit::FAILURE,
    };
    let parent = path.parent().filter(|above| *above != Path::new(""));
    let parent = parent.unwrap_or(Path::new(".")).display();
    let hint = match cause.kind() {
        io::ErrorKind::NotFound => Some(format!("make the directory {parent} first")),
        io::ErrorKind::NotADirectory => {
            let mut way = path.ancestors();
            let file = way.find(|above| above.exists()).unwrap_or(path).display();
            Some(format!("{file} is no directory: name one"))
        }
        io::ErrorKind::IsADirectory => Some("name a file in it".into()),
        io::ErrorKind::Other => {
            Some("name a new file or a regular one; `-` is standard output".into())
        }
        _ if is_led_elsewhere => {
            Some("name the file by a way on which no link of another user stands".into())
        }
        _ => room_hint(cause).map(str::to_owned),
    };
    let message = format!("cannot write {}: {cause}", path.display());
    Problem::new(code, message).maybe_hint(hint)
}

/// Fails where a file that is asked for is standard output, and another file is too, or something is printed: files by
/// option and path, what is printed by its option.
pub(crate) fn one_on_standard_output(
    files: &[(&str, Option<&PathBuf>)],
    printed: &[(&str, bool)],
) -> Result<(), Problem> {
    let mut there = files.iter().filter_map(|(option, path)| {
        let is_there = path.is_some_and(|path| is_standard_output(path));
        is_there.then(|| format!("`{option} -`"))
    });
    let Some(one) = there.next() else {
        return Ok(());
    };
    let mut printed = printed.iter().filter(|(_, is_asked)| *is_asked);
    let other = there.next();
    match other.or_else(|| printed.next().map(|(option, _)| format!("`{option}`"))) {
        Some(other) => {
            let message = format!("{one} and {other} would both go to standard output");
            Err(Problem::usage(message).hint("name a file instead of `-`"))
        }
        None => Ok(()),
    }
}

/// Makes a directory for files, if it is not there.
pub(crate) fn directory(path: &Path) -> Result<(), Problem> {
    let made = user_files::make_directory(path);
    made.map(drop).map_err(|cause| failed(path, &cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_file_can_be_the_way_there_is_named() {
        for (path, named) in [
            ("/dev/null/page.html", "/dev/null is no directory"),
            ("/dev/null/a/page.html", "/dev/null is no directory"),
            ("/nonexistent/page.html", "make the directory /nonexistent"),
        ] {
            let error = write(Path::new(path), b"").unwrap_err();
            let hint = error.hint.unwrap();
            assert!(hint.contains(named), "{hint}");
        }
        let error = directory(Path::new("/dev/null")).unwrap_err();
        let hint = error.hint.unwrap();
        assert!(hint.contains("/dev/null is no directory"), "{hint}");
    }
}
