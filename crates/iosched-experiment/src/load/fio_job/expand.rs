//! A job file as one text: files that it includes in their places, and values instead of variables.
//!
//! Follows fio 3.33 (`__parse_jobs_ini`, `fio_keyword_replace`): a path that leads nowhere is looked for beside the file that
//! includes it; an included file has no sections. Left out: `bc` over what stands beside a variable.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use iosched_machine::failure::Problem;
use iosched_machine::foreign;

/// How deep files may include one another, and how long the text may become.
const DEEPEST: usize = 16;
const LONGEST: usize = 16 << 20;

/// The value of a variable.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The text of a job file with all that it includes, without variables.
///
/// # Errors
/// A file cannot be read, or a variable has no value: all of these, with their lines.
pub(crate) fn expand(path: &Path, text: &str, variables: Variables<'_>) -> Result<String, Problem> {
    let mut expansion = Expansion {
        variables,
        text: String::new(),
        wrong: Vec::new(),
    };
    expansion.take(path, text, 0);
    if expansion.wrong.is_empty() {
        return Ok(expansion.text);
    }
    let first = format!("{} cannot be read whole:", path.display());
    let hint = "a variable is set by --define NAME=VALUE, or in the environment";
    Err(Problem::of_all(first, expansion.wrong).hint(hint))
}

/// The text of a job file that is there, expanded if anything is to be.
///
/// # Errors
/// It cannot be read, or what [`expand`] says.
pub(crate) fn read_whole(path: &Path, variables: Variables<'_>) -> Result<String, Problem> {
    let text = foreign::read_text(path).map_err(|error| {
        Problem::usage(format!("cannot read job file {}: {error}", path.display()))
    })?;
    if is_needed(&text) {
        return expand(path, &text, variables);
    }
    Ok(text)
}

/// The value of a variable: the last that was defined, else the environment's.
pub(crate) fn value_of(defines: &[(String, String)], name: &str) -> Option<String> {
    let mut latest_first = defines.iter().rev();
    let found = latest_first.find(|(defined, _)| defined == name);
    let value = found.map(|(_, value)| value.clone());
    value.or_else(|| std::env::var(name).ok())
}

/// True if there is anything to do.
fn is_needed(text: &str) -> bool {
    text.contains('$') || text.lines().any(|line| included(line).is_some())
}

struct Expansion<'a> {
    variables: Variables<'a>,
    text: String,
    wrong: Vec<String>,
}

impl Expansion<'_> {
    fn take(&mut self, path: &Path, text: &str, depth: usize) {
        for (line, number) in text.lines().zip(1..) {
            let place = format!("{}:{number}", path.display());
            if let Some(name) = included(line) {
                self.include(path, name, depth + 1, &place);
            } else {
                let line = self.with_values(line, &place);
                self.text.push_str(&line);
            }
            self.text.push('\n');
            if self.text.len() > LONGEST {
                self.wrong.push(format!("{place}: the text is too long"));
                return;
            }
        }
    }

    fn include(&mut self, from: &Path, name: &str, depth: usize, place: &str) {
        let beside = from.parent().unwrap_or(Path::new("")).join(name);
        let path = PathBuf::from(name);
        let path = if path.exists() { path } else { beside };
        match read(&path, from) {
            _ if depth > DEEPEST => self.wrong.push(format!("{place}: includes itself")),
            Err(error) => {
                let path = path.display();
                self.wrong
                    .push(format!("{place}: cannot include {path}: {error}"));
            }
            Ok(text) if text.lines().any(|line| line.trim_start().starts_with('[')) => {
                let path = path.display();
                self.wrong.push(format!(
                    "{place}: cannot include {path}: it has a [section]"
                ));
            }
            Ok(text) => self.take(&path, &text, depth),
        }
    }

    fn with_values(&mut self, line: &str, place: &str) -> String {
        let mut done = String::new();
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("${") {
            done.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                done.push_str("${");
                rest = after;
                break;
            };
            match (self.variables)(name) {
                Some(value) => done.push_str(&value),
                None => self.wrong.push(format!("{place}: {name} has no value")),
            }
            rest = after;
        }
        done.push_str(rest);
        for (keyword, value) in keywords() {
            if done.contains(keyword) {
                done = done.replace(keyword, &value.to_string());
            }
        }
        done
    }
}

/// The file that a line includes.
fn included(line: &str) -> Option<&str> {
    let line = line.split(['#', ';']).next().unwrap_or_default().trim();
    let name = line.strip_prefix("include")?;
    name.starts_with(char::is_whitespace).then(|| name.trim())
}

/// A file that everybody may read, or that belongs to the one whose file includes it: errors show its lines.
fn read(path: &Path, from: &Path) -> io::Result<String> {
    let included = path.metadata()?;
    if !included.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let is_anybodys = included.mode() & 0o4 != 0;
    if !is_anybodys && included.uid() != from.metadata()?.uid() {
        return Err(io::Error::other(
            "only its owner may read it, and does not own the job file",
        ));
    }
    foreign::read_text(path)
}

/// What fio knows of the machine.
fn keywords() -> [(&'static str, u64); 3] {
    let page = rustix::param::page_size() as u64;
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok());
    [
        ("$pagesize", page),
        ("$mb_memory", memory.unwrap_or(0) >> 10),
        ("$ncpus", processors),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_values_stand_where_they_are_named_and_all_that_lacks_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("job.fio");
        let text = "[a]\ninclude common.fio # more\nbs=${BS}k\nsize=$pagesize\n";
        std::fs::write(&path, text).unwrap();
        std::fs::write(directory.path().join("common.fio"), "rw=${RW}\ndirect=1\n").unwrap();
        let set = |name: &str| match name {
            "BS" => Some("64".to_owned()),
            "RW" => Some("randread".to_owned()),
            _ => None,
        };
        let page = rustix::param::page_size();
        let expected = format!("[a]\nrw=randread\ndirect=1\n\nbs=64k\nsize={page}\n");
        assert_eq!(expand(&path, text, &set).unwrap(), expected);
        std::fs::write(directory.path().join("common.fio"), "include common.fio\n").unwrap();
        let error = expand(
            &path,
            "include nowhere\nbs=${X}\ninclude common.fio\n",
            &set,
        );
        let error = error.unwrap_err().to_string();
        for words in [
            "job.fio:1: cannot include",
            "job.fio:2: X has no value",
            "common.fio:1: includes itself",
        ] {
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_file_that_its_owner_alone_may_read_is_included_by_that_one_only() {
        if !iosched_testing::is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let job = directory.path().join("job.fio");
        std::fs::write(&job, "include link\n").unwrap();
        std::os::unix::fs::symlink("/etc/shadow", directory.path().join("link")).unwrap();
        std::os::unix::fs::chown(&job, Some(65534), None).unwrap();
        let error = expand(&job, "include link\n", &|_| None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("only its owner may read it"), "{error}");
    }
}
