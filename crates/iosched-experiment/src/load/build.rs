//! A build: a tree of small files is read and as many are written, by several processes at once, then all that was
//! written is read again and becomes one file. How long that takes until it is on the disk is what counts.
//!
//! What compilers do to a disk, without their work on a processor: each source is read with a part of the headers, all
//! of them small files in many directories and cold at first, and an object of twice its size is written; the end reads
//! all objects. It is done by the shell and `cat`, which are everywhere, in as many processes as a compiler would be
//! started; all of it goes through the page cache.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use iosched_machine::beneath::Directory;
use iosched_machine::process::{self, Stop, as_user};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::command::{self, CommandError};
use super::fio::FioError;
use super::settings::{self, SettingError};
use super::{Kept, Load, LoadError, Outcome, Turn, Workplace, files, lacks_if_untimed};
use crate::objective::Objective;

/// The name of the load, and of its directory on the target.
pub(crate) const NAME: &str = "build";

/// The settings that it has.
const KNOWN: &[&str] = &["files", "jobs"];

/// A build that hangs is killed after this time, where the user does not say (`--timeout`).
const LONGEST: Duration = Duration::from_secs(3600);

/// Groups of headers; a source includes one of them.
pub(super) const HEADER_GROUPS: u32 = 10;

/// Headers of a group.
pub(super) const HEADERS: u32 = 20;

pub(super) const SOURCES_OF_A_DIRECTORY: u32 = 25;

/// Headers are of this size, and sources of one to eight times as much.
pub(super) const UNIT: usize = 4096;

/// All jobs at once, each with every so manieth of the directories: how many jobs and the directories are the arguments.
const COMPILE: &str = "\
jobs=$1
shift
compile() {
  turn=0
  for directory in \"$@\"; do
    turn=$(((turn + 1) % jobs))
    [ $turn = $job ] || continue
    for source in \"$directory\"/*; do
      name=${source##*/}
      cat include/\"${name%%-*}\"/* \"$source\" > /dev/null
      cat \"$source\" \"$source\" > objects/\"$name\"
    done
  done
}
job=0
started=
while [ $job -lt $jobs ]; do
  (set -e; compile \"$@\") &
  started=\"$started $!\"
  job=$((job + 1))
done
status=0
for one in $started; do
  wait $one || status=$?
done
exit $status";

/// What comes after all jobs: group after group, since a command takes no more than 2 MiB of names.
const LINK: &str = "\
set -e
for group in include/*; do
  set -- objects/${group#include/}-*
  [ ! -e \"$1\" ] || cat \"$@\"
done > program";

/// How much is built, and by how many at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildSettings {
    /// Sources.
    pub files: u32,
    /// Processes at once.
    pub jobs: u32,
}

impl Default for BuildSettings {
    fn default() -> BuildSettings {
        BuildSettings {
            files: 1000,
            jobs: 4,
        }
    }
}

impl BuildSettings {
    /// Reads what stands after `build:`.
    ///
    /// # Errors
    /// A setting that it does not have, or a value that the setting does not take.
    pub(crate) fn parse(text: &str) -> Result<BuildSettings, SettingError> {
        let mut given = settings::GivenSettings::parse(NAME, text, KNOWN)?;
        let default = BuildSettings::default();
        Ok(BuildSettings {
            files: given.number("files", 1..=100_000, default.files)?,
            jobs: given.number("jobs", 1..=100, default.jobs)?,
        })
    }

    fn directories(&self) -> u32 {
        self.files.div_ceil(SOURCES_OF_A_DIRECTORY)
    }
}

/// The load.
#[derive(Debug)]
pub(crate) struct Build {
    settings: BuildSettings,
}

impl Build {
    /// Makes it of its settings.
    pub(crate) fn new(settings: &BuildSettings) -> Build {
        Build {
            settings: settings.clone(),
        }
    }

    /// Runs a script of ours where the tree is.
    fn shell(
        at: &Workplace<'_>,
        script: &str,
        arguments: &[String],
        tick: &mut dyn FnMut(Duration),
    ) -> Result<(), CommandError> {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).args(arguments);
        command.current_dir(at.directory_of(NAME));
        let limit = at.trial_limit.unwrap_or(LONGEST);
        let finished = at.scope.run(command, limit, at.stop, tick)?;
        command::went_well(finished, "the shell of", NAME, false).map(drop)
    }

    /// All sources, by so many processes at once.
    fn compile(
        &self,
        at: &Workplace<'_>,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<(), CommandError> {
        let directories = (0..self.settings.directories()).map(source_directory);
        let jobs = std::iter::once(self.settings.jobs.to_string());
        let arguments: Vec<String> = jobs.chain(directories).collect();
        Build::shell(at, COMPILE, &arguments, tick)
    }
}

/// The name of the n-th directory of sources.
fn source_directory(number: u32) -> String {
    format!("source-{number}")
}

/// Units of the n-th source: the sizes go round.
pub(super) fn units_of_source(number: u32) -> u32 {
    1 + number % 8
}

/// Writes the tree, unless it is there.
fn write_tree(path: &Path, settings: &BuildSettings) -> io::Result<()> {
    let root = Directory::open(path)?;
    if !root.is_empty()? {
        return Ok(());
    }
    let mut stream = ChaCha8Rng::seed_from_u64(u64::from(settings.files));
    let mut write = |directory: &Directory, name: &str, units: u32| {
        let mut text = vec![0; UNIT * units as usize];
        stream.fill_bytes(&mut text);
        directory.create_file(name.as_ref())?.write_all(&text)
    };
    let make = |above: &Directory, name: &str| {
        above.create_directory(name.as_ref())?;
        above.enter(name.as_ref())
    };
    let include = make(&root, "include")?;
    for group in 0..HEADER_GROUPS {
        let group = make(&include, &group.to_string())?;
        (0..HEADERS).try_for_each(|header| write(&group, &format!("{header}.h"), 1))?;
    }
    for number in 0..settings.directories() {
        let directory = make(&root, &source_directory(number))?;
        let first = number * SOURCES_OF_A_DIRECTORY;
        let end = settings.files.min(first + SOURCES_OF_A_DIRECTORY);
        for source in first..end {
            let mut name = String::new();
            let _ = write!(name, "{}-{source}", source % HEADER_GROUPS);
            write(&directory, &name, units_of_source(source))?;
        }
    }
    root.create_directory("objects".as_ref())?;
    rustix::fs::sync();
    Ok(())
}

/// What of an earlier trial is there goes.
fn remove_built(path: &Path) -> io::Result<()> {
    let root = Directory::open(path)?;
    root.clear_directory("objects".as_ref())?;
    match root.remove_file("program".as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Waits until all that was built is on the disk.
fn write_back(path: &Path) -> io::Result<()> {
    let program = Directory::open(path)?.open_file("program".as_ref())?;
    Ok(rustix::fs::syncfs(program)?)
}

impl Load for Build {
    fn needs_directory(&self) -> bool {
        true
    }

    fn programs(&self) -> Result<Vec<String>, LoadError> {
        for (program, arguments) in [("sh", ["-c", ":"].as_slice()), ("cat", &["/dev/null"])] {
            let mut command = Command::new(program);
            command.args(arguments);
            let limit = Duration::from_secs(30);
            let ran = process::run(command, limit, &Stop::new(), &mut |_| {});
            ran.map_err(CommandError::from)?;
        }
        Ok(Vec::new())
    }

    fn kept(&self, _file_size: u64) -> Vec<Kept> {
        let sources: u64 = (0..self.settings.files)
            .map(|source| u64::from(units_of_source(source)))
            .sum();
        let headers = u64::from(HEADER_GROUPS * HEADERS);
        // The sources, the objects of twice their size, and the program of all objects.
        Kept::own((headers + 5 * sources) * UNIT as u64)
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        let untimed = "its processes do not time their accesses: the build is what is timed";
        lacks_if_untimed(objective, untimed, "its processes share one job")
    }

    fn prepare(&mut self, at: &Workplace<'_>, say: &mut dyn FnMut(&str)) -> Result<(), LoadError> {
        let path = at.directory_of(NAME);
        files::make_directory(&path, at.user()).map_err(FioError::Files)?;
        say(&format!(
            "writing {} sources to be built",
            self.settings.files
        ));
        let written = as_user(at.user(), || write_tree(&path, &self.settings));
        Ok(written.map_err(FioError::Files)?)
    }

    fn reset(&mut self, at: &Workplace<'_>, _turn: &Turn<'_>) -> Result<(), LoadError> {
        let path = at.directory_of(NAME);
        let removed = as_user(at.user(), || remove_built(&path));
        Ok(removed.map_err(FioError::Files)?)
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        _turn: &Turn<'_>,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let begun = Instant::now();
        let so_far = || begun.elapsed().as_secs_f64();
        self.compile(at, tick)?;
        let compiled = so_far();
        Build::shell(at, LINK, &[], &mut |_| tick(begun.elapsed()))?;
        let linked = so_far();
        let path = at.directory_of(NAME);
        as_user(at.user(), || write_back(&path)).map_err(FioError::Files)?;
        let whole = so_far();
        let numbers = [
            ("compiling s", compiled),
            ("linking s", linked - compiled),
            ("writing back s", whole - linked),
        ];
        let numbers = numbers.map(|(name, seconds)| (name.to_owned(), seconds));
        Ok(Outcome {
            elapsed_s: Some(whole),
            numbers: numbers.into(),
            ..Outcome::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(at: &Path, script: &str, arguments: &[String]) -> bool {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).args(arguments);
        command.current_dir(at).status().unwrap().success()
    }

    #[test]
    fn each_source_is_built_once_however_many_jobs_there_are_and_one_that_fails_is_told() {
        for (files, jobs) in [(3, 1), (60, 2), (30, 8)] {
            let settings = BuildSettings { files, jobs };
            let tree = tempfile::tempdir().unwrap();
            write_tree(tree.path(), &settings).unwrap();
            let directories = (0..settings.directories()).map(source_directory);
            let jobs = std::iter::once(jobs.to_string());
            let arguments: Vec<String> = jobs.chain(directories).collect();
            assert!(shell(tree.path(), COMPILE, &arguments));
            assert!(shell(tree.path(), LINK, &[]));
            let of_sources: u64 = (0..files).map(|n| u64::from(units_of_source(n))).sum();
            let program = std::fs::metadata(tree.path().join("program")).unwrap();
            assert_eq!(program.len(), 2 * of_sources * UNIT as u64, "{files}");
            std::fs::remove_dir_all(tree.path().join("include/0")).unwrap();
            assert!(!shell(tree.path(), COMPILE, &arguments), "no headers");
        }
    }

    #[test]
    fn what_it_does_not_have_is_refused_by_name() {
        assert_eq!(BuildSettings::parse("").unwrap(), BuildSettings::default());
        let few = BuildSettings::parse("files=26,jobs=2").unwrap();
        assert_eq!((few.files, few.jobs, few.directories()), (26, 2, 2));
        for (text, named) in [
            ("file=1", "file"),
            ("files=0", "files"),
            ("jobs=101", "jobs"),
        ] {
            let error = BuildSettings::parse(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn its_files_take_no_more_room_than_it_says() {
        let dir = tempfile::tempdir().unwrap();
        let settings = BuildSettings::parse("files=60").unwrap();
        write_tree(dir.path(), &settings).unwrap();
        write_tree(dir.path(), &settings).unwrap();
        let directories = (0..settings.directories()).map(source_directory);
        let arguments: Vec<String> = std::iter::once("4".to_owned()).chain(directories).collect();
        for script in [COMPILE, LINK] {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]).args(&arguments);
            assert!(command.current_dir(dir.path()).status().unwrap().success());
        }
        let all = iosched_machine::beneath::walk(&Directory::open(dir.path()).unwrap()).unwrap();
        let length = |path: &std::path::PathBuf| {
            let metadata = std::fs::metadata(dir.path().join(path)).unwrap();
            if metadata.is_file() {
                metadata.len()
            } else {
                0
            }
        };
        let bytes: u64 = all.iter().map(length).sum();
        let kept: u64 = Build::new(&settings)
            .kept(0)
            .iter()
            .map(|kept| kept.bytes)
            .sum();
        assert_eq!(bytes, kept);
        let objects = std::fs::read_dir(dir.path().join("objects")).unwrap();
        assert_eq!(objects.count(), 60);
        remove_built(dir.path()).unwrap();
        remove_built(dir.path()).unwrap();
        assert!(!dir.path().join("program").exists());
    }
}
