//! Loads that come as several, or with settings, each made into fio job files: the sweep of five
//! tests, the document server, the database server.

use std::fmt::Write as _;

use iosched_machine::device::Buffer;
use iosched_sim::units::Bytes;

use super::fixed_work::{self, Files};
use super::iozone::{self, Test};
use super::settings::{GivenSettings, SettingError};
use crate::objective::Objective;

/// A load of a family.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    /// Its name in the plan.
    pub name: String,
    /// The name of its test in the sweep's log, where that is another.
    pub test: Option<String>,
    /// What it is.
    pub work: Work,
    /// What decides.
    pub objective: Objective,
    /// What was chosen for the user, and why.
    pub note: Option<String>,
    /// True if it is there to show no difference: it has no say in the verdict over all loads.
    pub is_control: bool,
    /// How often each arm takes its turn in a round.
    pub turns: u32,
}

/// What a member of a family is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Work {
    /// A job file that runs for a time.
    Timed(&'static str),
    /// A job file with an end.
    Fixed(fixed_work::FixedWorkSettings),
    /// The same by iozone.
    Iozone(iozone::IozoneSettings),
}

/// The database server's four loads: small and large, read-mostly and mixed.
const DATABASE: [&str; 4] = [
    include_str!("../../loads/database-1.fio"),
    include_str!("../../loads/database-2.fio"),
    include_str!("../../loads/database-3.fio"),
    include_str!("../../loads/database-4.fio"),
];

/// The members that the user means; `None` if this is no family. `buffer` is that of the drive, where
/// it is known.
pub(crate) fn read(
    text: &str,
    buffer: Option<&Buffer>,
) -> Option<Result<Vec<Member>, SettingError>> {
    let (family, settings) = text.split_once(':').unwrap_or((text, ""));
    Some(match family {
        "five-tests" => five_tests(settings, buffer),
        "documents-read" => documents_read(settings),
        "documents-create" => documents_create(settings),
        "database" => database(settings),
        _ => return None,
    })
}

/// How many rounds the sweep is to have, if one of the loads says so: it calls them runs.
pub(crate) fn runs(loads: &[String]) -> Option<u32> {
    let settings = loads
        .iter()
        .filter_map(|load| load.strip_prefix("five-tests:"));
    settings
        .flat_map(|settings| settings.split(','))
        .find_map(|setting| setting.trim().strip_prefix("runs=")?.parse().ok())
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
        note: None,
        work: Work::Timed(DATABASE[number as usize - 1]),
        objective: Objective::Throughput,
        is_control: false,
        turns: 1,
    };
    Ok(which.map(member).collect())
}

/// True of the job file of a load that runs for a time.
pub fn has_job_file(text: &str) -> bool {
    DATABASE.contains(&text)
}

/// The sweep's tests, by their names in its log.
const FIVE: [(&str, Test); 5] = [
    ("Initial write", Test::InitialWrite),
    ("Rewrite", Test::Rewrite),
    ("Random read", Test::RandomRead),
    ("Mixed workload", Test::Mixed),
    ("Random write", Test::RandomWrite),
];

fn five_tests(text: &str, buffer: Option<&Buffer>) -> Result<Vec<Member>, SettingError> {
    let known = ["size", "record", "threads", "runs", "driver", "tests"];
    let mut given = GivenSettings::parse("five-tests", text, &known)?;
    given.number("runs", 2..=10_000, 2_u32)?; // see `runs`
    let bytes = given.size("size", 1 << 20..=1 << 44, 1 << 30)?;
    let chosen = choose_record(buffer, bytes);
    let (record, note) = match given.size("record", 512..=1 << 30, 0)? {
        0 => (chosen.bytes, Some(chosen.note())),
        given => (given, None),
    };
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
    let driver = match given.text("driver") {
        Some("fio") => Driver::Fio,
        Some("iozone") if !iozone::takes(record) => {
            let cause = "with O_DIRECT its records are multiples of 4k, up to 16m";
            return Err(given.refuse("driver", "iozone", cause));
        }
        Some("iozone") => Driver::Iozone,
        Some(other) => return Err(given.refuse("driver", other, "iozone or fio is wanted")),
        None if iozone::is_installed() && iozone::takes(record) => Driver::Iozone,
        None => Driver::Fio,
    };
    let tests = which_tests(&mut given)?;
    let most = u64::from(*threads.end());
    let member = |threads: u32, (name, test): (&str, Test)| {
        let sweep = iozone::IozoneSettings {
            test,
            threads,
            size: bytes,
            record,
            directory: match test {
                Test::InitialWrite => "five-tests-new".into(),
                _ => "five-tests".into(),
            },
            bytes: bytes * most,
        };
        Member {
            name: format!("{} ×{threads}", name.to_lowercase()),
            test: Some(name.to_owned()),
            note: note.clone(),
            objective: Objective::Throughput,
            is_control: false,
            turns: 1,
            work: match driver {
                Driver::Iozone => Work::Iozone(sweep),
                Driver::Fio => Work::Fixed(like_iozone(sweep)),
            },
        }
    };
    Ok(threads
        .flat_map(|threads| tests.iter().map(move |&test| (threads, test)))
        .map(|(threads, test)| member(threads, test))
        .collect())
}

/// `tests=random-read+random-write`, or all five.
fn which_tests(given: &mut GivenSettings<'_>) -> Result<Vec<(&'static str, Test)>, SettingError> {
    let Some(text) = given.text("tests") else {
        return Ok(FIVE.to_vec());
    };
    let slug = |name: &str| name.to_lowercase().replace(' ', "-");
    let is_known = |wanted: &str| FIVE.iter().any(|(name, _)| slug(name) == wanted);
    if !text.split('+').all(is_known) {
        let known = FIVE.map(|(name, _)| slug(name)).join(", ");
        let cause = format!("names from {known}, joined by +, are wanted");
        return Err(given.refuse("tests", text, cause));
    }
    let is_wanted = |(name, _): &(&str, Test)| text.split('+').any(|wanted| wanted == slug(name));
    Ok(FIVE.into_iter().filter(is_wanted).collect())
}

/// Size of a record where the drive does not say how large its buffer is: that of the drive that the
/// sweep was made for. No record is larger by itself, because iozone takes none.
const RECORD: u64 = 16 << 20;

/// The size of a record, where the user does not say it.
struct ChosenRecord {
    bytes: u64,
    because: String,
}

impl ChosenRecord {
    fn note(&self) -> String {
        let ChosenRecord { bytes, because } = self;
        format!("five-tests: records of {}, {because}", Bytes::new(*bytes))
    }
}

/// The drive's buffer, in whole MiB or pages, within what iozone and the files can have.
fn choose_record(buffer: Option<&Buffer>, file: u64) -> ChosenRecord {
    let whole = |bytes: u64| match bytes {
        1_048_576.. => bytes >> 20 << 20,
        _ => (bytes & !4095).max(4096),
    };
    let (bytes, mut because) = match buffer {
        Some(Buffer { bytes, source }) if whole(*bytes) > RECORD => {
            let all = Bytes::new(*bytes);
            let because = format!("the most that iozone takes ({source} has a buffer of {all})");
            (RECORD, because)
        }
        Some(Buffer { bytes, source }) => (
            whole(*bytes),
            format!("the drive's buffer, as {source} says"),
        ),
        None => (RECORD, "because the drive's buffer is not known".into()),
    };
    if bytes <= file {
        return ChosenRecord { bytes, because };
    }
    because = "as large as a file".into();
    ChosenRecord {
        bytes: whole(file),
        because,
    }
}

/// What runs the sweep.
#[derive(Clone, Copy)]
enum Driver {
    Iozone,
    Fio,
}

/// A test of the sweep as a fio job file that does what iozone does: each thread goes through its own
/// file once, one record at a time, past the page cache; in the mixed workload each thread either
/// reads or writes; when the first thread is ready all end, and what each did until then counts.
fn like_iozone(sweep: iozone::IozoneSettings) -> fixed_work::FixedWorkSettings {
    let iozone::IozoneSettings {
        test,
        threads,
        size,
        record,
        directory,
        bytes,
    } = sweep;
    let mut job_file = format!(
        "[global]\nioengine=psync\ndirect=1\nbs={record}\nsize={size}\nend_fsync=1\nexitall=1\n"
    );
    for thread in 0..threads {
        let direction = match test {
            Test::InitialWrite | Test::Rewrite => "write",
            _ if test.reads(thread) => "randread",
            _ => "randwrite",
        };
        let _ = write!(job_file, "[thread-{}]\nrw={direction}\n", thread + 1);
    }
    fixed_work::FixedWorkSettings {
        job_file,
        directory,
        bytes,
        files: match test {
            Test::InitialWrite => Files::New,
            _ => Files::Cold,
        },
    }
}

/// How many reads a trial of the control makes, its threads together: memory is fast, and a median
/// wants many.
const CONTROL_READS: u64 = 200_000;

/// How often each arm takes its turn at the control in a round. Other work on the processors comes and goes
/// within seconds and changes even a median by a tenth and more; in short turns it meets all arms alike.
const CONTROL_TURNS: u32 = 5;

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
    fn parse(given: &mut GivenSettings<'_>, documents: u64) -> Result<Documents, SettingError> {
        let count = given.number("documents", 1..=100_000_000, documents)?;
        Ok(Documents {
            threads: given.number("threads", 1..=4096, 80)?,
            count,
            stored: given.number("stored", count..=100_000_000, count)?,
            size: given.size("size", 512..=1 << 30, 4096)?,
        })
    }

    /// How often the control reads what the load reads.
    fn control_times(&self) -> u64 {
        (CONTROL_READS / (u64::from(self.threads) * self.count)).max(1)
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
        Work::Fixed(fixed_work::FixedWorkSettings {
            job_file,
            directory: directory.into(),
            bytes: database * u64::from(*threads),
            files,
        })
    }
}

/// Documents, none twice, through the page cache, which is empty at first: in random order, or as they
/// are stored, so that the kernel reads ahead. With `control=on` the same follows with all of them in
/// memory, in random order. To be read from the disk and not from the drive's own memory, more must be
/// `stored` than that holds.
fn documents_read(text: &str) -> Result<Vec<Member>, SettingError> {
    let known = ["threads", "documents", "stored", "size", "order", "control"];
    let mut given = GivenSettings::parse("documents-read", text, &known)?;
    let documents = Documents::parse(&mut given, 32_000)?;
    let has_control = match given.text("control").unwrap_or("on") {
        "on" => true,
        "off" => false,
        other => return Err(given.refuse("control", other, "on or off is wanted")),
    };
    let (name, options) = match given.text("order").unwrap_or("random") {
        "random" => ("documents-read", "rw=randread\n"),
        "stored" => ("documents-read-as-stored", "rw=read\n"),
        other => return Err(given.refuse("order", other, "random or stored is wanted")),
    };
    let member = |name: &str, options: &str, files, times| Member {
        name: name.into(),
        test: None,
        note: None,
        work: documents.work("documents-read", options, files, times),
        // Time tells who else needs the processors, too; the median of so many reads hardly.
        objective: match files {
            Files::Cached => Objective::P50,
            _ => Objective::Time,
        },
        is_control: files == Files::Cached,
        turns: match files {
            Files::Cached => CONTROL_TURNS,
            _ => 1,
        },
    };
    let mut members = vec![member(name, options, Files::Cold, 1)];
    if has_control {
        // The kernel is not told to forget the file. Should somebody else empty the page cache meanwhile,
        // the rest would come from the disk and take hours.
        let options = "rw=randread\nnorandommap=1\ninvalidate=0\nruntime=20\n";
        members.push(member(
            "documents-read-cached",
            options,
            Files::Cached,
            documents.control_times(),
        ));
    }
    Ok(members)
}

/// New documents, each safe on the disk before the thread's next one.
fn documents_create(text: &str) -> Result<Vec<Member>, SettingError> {
    let known = ["threads", "documents", "size"];
    let mut given = GivenSettings::parse("documents-create", text, &known)?;
    let documents = Documents::parse(&mut given, 2_000)?;
    Ok(vec![Member {
        name: "documents-create".into(),
        test: None,
        note: None,
        work: documents.work("documents-create", "rw=write\nfdatasync=1\n", Files::New, 1),
        objective: Objective::Time,
        is_control: false,
        turns: 1,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Spec;

    fn members(text: &str) -> Vec<Member> {
        read(text, None).unwrap().unwrap()
    }

    #[test]
    fn every_member_passes_our_own_check() {
        for family in [
            "five-tests",
            "documents-read",
            "documents-create",
            "database",
        ] {
            for member in members(family) {
                let spec = match member.work {
                    Work::Timed(text) => Spec::JobFile(text.into()),
                    Work::Fixed(settings) => Spec::FixedWork(settings),
                    Work::Iozone(settings) => Spec::Iozone(settings),
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
        let some = members("five-tests:threads=2,tests=random-write+rewrite");
        let some: Vec<&str> = some.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(some, ["rewrite ×2", "random write ×2"]);
    }

    #[test]
    fn fio_does_what_iozone_does() {
        let job_file = |test: usize| {
            let sweep = members("five-tests:threads=3,size=8m,record=1m,driver=fio");
            match sweep.into_iter().nth(test).unwrap().work {
                Work::Fixed(settings) => settings.job_file,
                other => panic!("{other:?}"),
            }
        };
        let directions = |test| -> Vec<String> {
            let text = job_file(test);
            let lines = text.lines().filter_map(|line| line.strip_prefix("rw="));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(directions(2), ["randread"; 3]);
        assert_eq!(directions(3), ["randread", "randwrite", "randread"]);
        assert_eq!(directions(4), ["randwrite"; 3]);
        assert!(job_file(3).contains("exitall=1"));
        assert_eq!(
            members("five-tests:threads=3,record=4k,driver=iozone").len(),
            5
        );
        assert!(
            read("five-tests:record=1k,size=1m,driver=iozone", None)
                .unwrap()
                .is_err()
        );
    }

    #[test]
    fn a_record_is_the_drives_buffer_where_it_is_known_and_the_plan_says_so() {
        let note = |text: &str, bytes: Option<u64>| {
            let source = "the model m".to_owned();
            let buffer = bytes.map(|bytes| Buffer { bytes, source });
            let members = read(text, buffer.as_ref()).unwrap().unwrap();
            members[0].note.clone()
        };
        let says = |text, bytes| note(text, bytes).unwrap();
        assert_eq!(
            says("five-tests", Some(8 << 20)),
            "five-tests: records of 8 MiB, the drive's buffer, as the model m says"
        );
        assert!(says("five-tests", Some((2 << 20) + 5)).contains("records of 2 MiB,"));
        assert!(says("five-tests", Some(861_696)).contains("records of 840 KiB,"));
        assert_eq!(
            says("five-tests", Some(64 << 20)),
            "five-tests: records of 16 MiB, the most that iozone takes (the model m has a buffer of 64 MiB)"
        );
        assert!(
            says("five-tests", None).contains("16 MiB, because the drive's buffer is not known")
        );
        assert!(says("five-tests:size=5m", None).contains("records of 5 MiB, as large as a file"));
        assert_eq!(note("five-tests:record=1m", Some(8 << 20)), None);
    }

    #[test]
    fn only_the_control_has_no_say() {
        let controls: Vec<bool> = members("documents-read")
            .iter()
            .map(|member| member.is_control)
            .collect();
        assert_eq!(controls, [false, true]);
        assert_eq!(members("documents-read:control=off").len(), 1);
        let stored = members("documents-read:order=stored,control=off");
        assert_eq!(stored[0].name, "documents-read-as-stored");
    }

    #[test]
    fn what_a_family_does_not_have_is_refused() {
        let error = |text| read(text, None).unwrap().unwrap_err().to_string();
        assert_eq!(
            error("five-tests:run=3"),
            "five-tests has no setting \"run\""
        );
        assert!(error("five-tests:runs=1").contains("a number from 2 to"));
        assert_eq!(
            runs(&["mixed".into(), "five-tests:size=1m,runs=3".into()]),
            Some(3)
        );
        assert!(error("five-tests:tests=rewrite+reread").contains("names from initial-write, "));
        assert!(error("database:5").contains("a number from 1 to 4"));
        assert!(error("documents-read:size=huge").contains("a size such as 4k"));
        assert!(error("documents-read:order=age").contains("random or stored is wanted"));
        assert!(error("five-tests:size=1m,record=2m").contains("must not be larger"));
        assert!(read("random-read", None).is_none());
    }
}
