//! Loads that come as several, or with settings, each made into fio job files: the sweep of five
//! tests, the document server, the database server.

use std::fmt::Write as _;

use iosched_sim::units::Bytes;

use super::fixed_work::{self, Files};
use super::settings::{SettingError, Settings};
use crate::emulate::spec::parse_size;
use crate::objective::Objective;

/// A load of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name in the plan.
    pub name: String,
    /// The name of its test in the sweep's log, where that is another.
    pub test: Option<String>,
    /// What it is.
    pub work: Work,
    /// What decides.
    pub objective: Objective,
    /// True if it is there to show no difference: it has no say in the verdict over all loads.
    pub is_control: bool,
}

/// What a member of a family is.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// A job file that runs for a time.
    Timed(&'static str),
    /// A job file with an end.
    Fixed(fixed_work::Settings),
}

/// The names of all families.
pub const FAMILIES: &[&str] = &[
    "five-tests",
    "documents-read",
    "documents-create",
    "database",
];

/// The database server's four loads: small and large, read-mostly and mixed.
const DATABASE: [&str; 4] = [
    include_str!("../../loads/database-1.fio"),
    include_str!("../../loads/database-2.fio"),
    include_str!("../../loads/database-3.fio"),
    include_str!("../../loads/database-4.fio"),
];

/// The members that the user means; `None` if this is no family.
pub fn read(text: &str) -> Option<Result<Vec<Member>, SettingError>> {
    let (family, settings) = text.split_once(':').unwrap_or((text, ""));
    Some(match family {
        "five-tests" => five_tests(settings),
        "documents-read" => documents_read(settings),
        "documents-create" => documents_create(settings),
        "database" => database(settings),
        _ => return None,
    })
}

/// `1..3`, or `2`: numbers within a range.
fn numbers(
    family: &str,
    setting: &str,
    text: &str,
    largest: u32,
) -> Result<std::ops::RangeInclusive<u32>, SettingError> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let parsed = first.parse().ok().zip(last.parse().ok());
    let range = parsed.filter(|(first, last)| 1 <= *first && first <= last && *last <= largest);
    range
        .map(|(first, last)| first..=last)
        .ok_or_else(|| SettingError::Value {
            load: family.into(),
            setting: setting.into(),
            value: text.into(),
            cause: format!("a number from 1 to {largest}, or a range such as 1..3, is wanted"),
        })
}

fn database(text: &str) -> Result<Vec<Member>, SettingError> {
    let which = if text.is_empty() { "1..4" } else { text };
    let which = numbers("database", "load", which, 4)?;
    let member = |number: u32| Member {
        name: format!("database:{number}"),
        test: None,
        work: Work::Timed(DATABASE[number as usize - 1]),
        objective: Objective::Throughput,
        is_control: false,
    };
    Ok(which.map(member).collect())
}

fn size(
    given: &mut Settings<'_>,
    name: &str,
    default: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, SettingError> {
    let Some(text) = given.text(name) else {
        return Ok(default);
    };
    let parsed = parse_size(text).ok().map(Bytes::as_u64);
    let parsed = parsed.filter(|bytes| range.contains(bytes));
    parsed.ok_or_else(|| given.refuse(name, text, "a size such as 4k, 16m or 1g is wanted"))
}

/// The sweep's tests as fio job files: name, direction, and whether the files are made by it. All
/// with `O_DIRECT` (iozone's `-I`), one request at a time per thread, each thread its own file, once
/// through.
const FIVE: [(&str, &str, bool); 5] = [
    ("Initial write", "rw=write", true),
    ("Rewrite", "rw=write", false),
    ("Random read", "rw=randread", false),
    // iozone's threads take turns: every other one reads. A mix of one half each is the same in sum.
    ("Mixed workload", "rw=randrw\nrwmixread=50", false),
    ("Random write", "rw=randwrite", false),
];

fn five_tests(text: &str) -> Result<Vec<Member>, SettingError> {
    let mut given = Settings::parse("five-tests", text, &["size", "record", "threads"])?;
    let bytes = size(&mut given, "size", 1 << 30, 1 << 20..=1 << 44)?;
    let record = size(&mut given, "record", 16 << 20, 512..=1 << 30)?;
    if record > bytes {
        let record = record.to_string();
        return Err(given.refuse("record", &record, "it must not be larger than size"));
    }
    let threads = numbers(
        "five-tests",
        "threads",
        given.text("threads").unwrap_or("1..3"),
        256,
    )?;
    let most = u64::from(*threads.end());
    let member = |threads: u32, (test, direction, makes_files): (&str, &str, bool)| {
        let mut job = format!("[five-tests]\n{direction}\nioengine=psync\ndirect=1\n");
        let _ = write!(
            job,
            "bs={record}\nsize={bytes}\nnumjobs={threads}\nend_fsync=1\n"
        );
        let (directory, files) = if makes_files {
            ("five-tests-new", Files::New)
        } else {
            ("five-tests", Files::Cold)
        };
        Member {
            name: format!("{} ×{threads}", test.to_lowercase()),
            test: Some(test.to_owned()),
            objective: Objective::Throughput,
            is_control: false,
            work: Work::Fixed(fixed_work::Settings {
                job_file: job,
                directory: directory.into(),
                bytes: bytes * most,
                files,
            }),
        }
    };
    Ok(threads
        .flat_map(|threads| FIVE.map(|test| member(threads, test)))
        .collect())
}

/// How often the control reads what the load reads: memory is fast, and a clock coarse.
const CONTROL_TIMES: u64 = 100;

/// What the document server's loads are told.
struct Documents {
    threads: u32,
    /// That each thread reads or makes.
    count: u64,
    /// In the database of each thread.
    stored: u64,
    size: u64,
}

impl Documents {
    fn parse(given: &mut Settings<'_>, documents: u64) -> Result<Documents, SettingError> {
        let count = given.number("documents", 1..=100_000_000, documents)?;
        Ok(Documents {
            threads: given.number("threads", 1..=4096, 80)?,
            count,
            stored: given.number("stored", count..=100_000_000, count)?,
            size: size(given, "size", 4096, 512..=1 << 30)?,
        })
    }

    /// Each thread goes through documents of its own database, one after the other, this many
    /// times as many as it is told to.
    fn work(&self, directory: &str, options: &str, files: Files, times: u64) -> Work {
        let Documents {
            threads,
            count,
            stored,
            size,
        } = self;
        let database = stored * size;
        let moved = times * count * size;
        let job_file = format!(
            "[documents]\nioengine=psync\ndirect=0\nbs={size}\nsize={database}\n\
             io_size={moved}\nnumjobs={threads}\n{options}"
        );
        Work::Fixed(fixed_work::Settings {
            job_file,
            directory: directory.into(),
            bytes: database * u64::from(*threads),
            files,
        })
    }
}

/// Documents in random order, none twice, through the page cache, which is empty at first. With
/// `control=on` the same follows with all of them in memory. To be read from the disk and not from
/// the drive's own memory, more must be `stored` than that holds.
fn documents_read(text: &str) -> Result<Vec<Member>, SettingError> {
    let known = ["threads", "documents", "stored", "size", "control"];
    let mut given = Settings::parse("documents-read", text, &known)?;
    let documents = Documents::parse(&mut given, 32_000)?;
    let has_control = match given.text("control").unwrap_or("on") {
        "on" => true,
        "off" => false,
        other => return Err(given.refuse("control", other, "on or off is wanted")),
    };
    let member = |name: &str, options: &str, files, times| Member {
        name: name.into(),
        test: None,
        work: documents.work("documents-read", options, files, times),
        objective: Objective::Time,
        is_control: files == Files::Cached,
    };
    let mut members = vec![member("documents-read", "rw=randread\n", Files::Cold, 1)];
    if has_control {
        // The kernel is not told to forget the file.
        let options = "rw=randread\nnorandommap=1\ninvalidate=0\n";
        members.push(member(
            "documents-read-cached",
            options,
            Files::Cached,
            CONTROL_TIMES,
        ));
    }
    Ok(members)
}

/// New documents, each safe on the disk before the thread's next one.
fn documents_create(text: &str) -> Result<Vec<Member>, SettingError> {
    let known = ["threads", "documents", "size"];
    let mut given = Settings::parse("documents-create", text, &known)?;
    let documents = Documents::parse(&mut given, 2_000)?;
    Ok(vec![Member {
        name: "documents-create".into(),
        test: None,
        work: documents.work("documents-create", "rw=write\nfdatasync=1\n", Files::New, 1),
        objective: Objective::Time,
        is_control: false,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Spec;

    fn members(text: &str) -> Vec<Member> {
        read(text).unwrap().unwrap()
    }

    #[test]
    fn every_member_passes_our_own_check() {
        for family in FAMILIES {
            for member in members(family) {
                let spec = match member.work {
                    Work::Timed(text) => Spec::JobFile(text.into()),
                    Work::Fixed(settings) => Spec::FixedWork(settings),
                };
                let load = spec.open(&member.name).unwrap();
                assert_eq!(load.lacks(member.objective), None, "{}", member.name);
            }
        }
    }

    #[test]
    fn the_sweep_has_five_tests_per_number_of_threads() {
        let names: Vec<String> = members("five-tests:threads=1..2,size=64m,record=1m")
            .into_iter()
            .map(|member| member.name)
            .collect();
        assert_eq!(names.len(), 10);
        assert_eq!(names[0], "initial write ×1");
        assert_eq!(names[9], "random write ×2");
    }

    #[test]
    fn only_the_control_has_no_say() {
        let controls: Vec<bool> = members("documents-read")
            .iter()
            .map(|member| member.is_control)
            .collect();
        assert_eq!(controls, [false, true]);
        assert_eq!(members("documents-read:control=off").len(), 1);
    }

    #[test]
    fn what_a_family_does_not_have_is_refused() {
        let error = |text| read(text).unwrap().unwrap_err().to_string();
        assert_eq!(
            error("five-tests:runs=3"),
            "five-tests has no setting \"runs\""
        );
        assert!(error("database:5").contains("a number from 1 to 4"));
        assert!(error("documents-read:size=huge").contains("a size such as 4k"));
        assert!(error("five-tests:size=1m,record=2m").contains("must not be larger"));
        assert!(read("random-read").is_none());
    }
}
