//! The files of a trace: one, or those that `blktrace` wrote, one per CPU.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iosched_machine::failure::Problem;
use iosched_machine::user_files;
use iosched_sim::trace::{Format, Merge, Records};

use super::error::{unreadable, wrong};
use super::meter::{Meter, Metered};
use crate::simulate::file::{decompressed_among, not_opened};

/// The most files of one recording, one per CPU: each has buffers of some 350 KiB.
const MOST_FILES: usize = 1024;

/// What a trace is read from.
pub(super) type Source = Box<dyn BufRead + Send>;

/// The files of a trace, in the order of their CPUs.
#[derive(Debug, Clone)]
pub(super) struct Files {
    paths: Vec<PathBuf>,
    format: Option<Format>,
    /// Of all files, compressed as they are.
    bytes: u64,
}

impl Files {
    /// Finds the files that belong to `path`. They are read twice and more, so that pipes are refused.
    pub(super) fn find(path: &Path, format: Option<Format>) -> Result<Files, Problem> {
        let mut files = Files {
            paths: Vec::new(),
            format,
            bytes: 0,
        };
        for path in siblings(path)? {
            let metadata = fs::metadata(&path).map_err(|cause| not_opened(&path, &cause))?;
            if !metadata.is_file() {
                return Err(wrong(&path, "is no file: a trace is read more than once")
                    .hint("write it into a file first (gzip or zstd will do)"));
            }
            // A CPU on which nothing happened.
            if metadata.len() > 0 {
                files.bytes += metadata.len();
                files.paths.push(path);
            }
        }
        if files.paths.is_empty() {
            return Err(wrong(path, "holds no access"));
        }
        if files.paths.len() > MOST_FILES {
            let what = format!("is one of more than {MOST_FILES} files of a recording");
            return Err(wrong(path, what).hint("blkparse puts them together into one file"));
        }
        Ok(files)
    }

    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All records from the beginning, in the order of time.
    pub(super) fn open(&self, meter: &Arc<Meter>) -> Result<Merge<Source>, Problem> {
        let mut all = Vec::new();
        for path in &self.paths {
            let file = user_files::open_to_read(path).map_err(|cause| not_opened(path, &cause))?;
            let metered = Metered {
                inner: file,
                meter: Arc::clone(meter),
            };
            let input = BufReader::with_capacity(1 << 16, metered);
            let source = decompressed_among(self.paths.len(), input);
            let source = source.map_err(|cause| not_opened(path, &cause))?;
            let records =
                Records::new(source, self.format).map_err(|cause| unreadable(path, &cause))?;
            all.push(records);
        }
        Ok(Merge::new(all))
    }
}

/// `X.blktrace.0` is one of `X.blktrace.N`; `X` alone names them too, as for `blkparse -i X`.
fn siblings(path: &Path) -> Result<Vec<PathBuf>, Problem> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, ending) = match name.rsplit_once(".blktrace.") {
        Some((stem, cpu)) => (
            stem.to_owned(),
            cpu_and_ending(cpu).map(|(_, ending)| ending),
        ),
        None if path.exists() => return Ok(vec![path.to_owned()]),
        None => (name.into_owned(), Some("")),
    };
    let Some(ending) = ending else {
        return Ok(vec![path.to_owned()]);
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let entries = fs::read_dir(directory).map_err(|cause| not_opened(path, &cause))?;
    let prefix = format!("{stem}.blktrace.");
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|cause| not_opened(path, &cause))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let parts = name.strip_prefix(&prefix).and_then(cpu_and_ending);
        if let Some((cpu, _)) = parts.filter(|(_, other)| *other == ending) {
            found.push((cpu, entry.path()));
        }
    }
    found.sort();
    if found.is_empty() {
        return Ok(vec![path.to_owned()]); // the error names what the user named
    }
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// `0`, `0.gz`, `0.zst`: the CPU, and how the file was compressed.
fn cpu_and_ending(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (cpu, ending) = text.split_at(digits);
    let known = ["", ".gz", ".zst"].contains(&ending);
    cpu.parse().ok().filter(|_| known).map(|cpu| (cpu, ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_no_more_files_than_machines_have_cpus() {
        let dir = tempfile::tempdir().unwrap();
        let add =
            |cpu: usize| fs::write(dir.path().join(format!("a.blktrace.{cpu}")), "x").unwrap();
        (0..MOST_FILES).for_each(add);
        let found = || Files::find(&dir.path().join("a"), None);
        assert_eq!(found().unwrap().paths().len(), MOST_FILES);
        add(MOST_FILES);
        let error = found().unwrap_err().to_string();
        assert!(
            error.ends_with("is one of more than 1024 files of a recording"),
            "{error}"
        );
    }

    #[test]
    fn the_files_of_all_cpus_belong_together() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in [
            "a.blktrace.0",
            "a.blktrace.1",
            "a.blktrace.10",
            "a.blktrace.2.gz",
            "b.blktrace.0",
            "a.blktrace.x",
            "plain",
        ] {
            fs::write(path(name), "x").unwrap();
        }
        let found = |name: &str| {
            let all = siblings(&path(name)).unwrap();
            let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
            all.iter().map(name).collect::<Vec<_>>()
        };
        let all = ["a.blktrace.0", "a.blktrace.1", "a.blktrace.10"];
        assert_eq!(found("a.blktrace.1"), all);
        assert_eq!(found("a"), all);
        assert_eq!(found("a.blktrace.2.gz"), ["a.blktrace.2.gz"]);
        assert_eq!(found("a.blktrace.x"), ["a.blktrace.x"]);
        assert_eq!(found("plain"), ["plain"]);
        assert_eq!(found("missing"), ["missing"]);
    }
}
