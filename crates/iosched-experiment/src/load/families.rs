//! Loads that come as several, or with settings, each made into fio job files: the sweep of five
//! tests, the document server, the database server.

use std::fmt::Write as _;

use iosched_machine::failure::Problem;

use super::fixed_work::{self, Files};
use super::settings::GivenSettings;
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
}

/// The database server's four loads: small and large, read-mostly and mixed.
const DATABASE: [&str; 4] = [
    include_str!("../../loads/database-1.fio"),
    include_str!("../../loads/database-2.fio"),
    include_str!("../../loads/database-3.fio"),
    include_str!("../../loads/database-4.fio"),
];

/// The members that the user means; `None` if this is no family.
pub(crate) fn read(text: &str) -> Option<Result<Vec<Member>, Problem>> {
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
) -> Result<std::ops::RangeInclusive<u32>, Problem> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let parsed = first.parse().ok().zip(last.parse().ok());
    let range = parsed.filter(|(first, last)| 1 <= *first && first <= last && *last <= largest);
    range
        .map(|(first, last)| first..=last)
        .ok_or_else(|| {
            Problem::usage(format!(
                "{family}: {setting}={text} is not possible: a number from 1 to {largest}, or a range such as 1..3, \
                 is wanted"
            ))
        })
}

fn database(text: &str) -> Result<Vec<Member>, Problem> {
    let which = if text.is_empty() { "1..4" } else { text };
    let which = numbers("database", "load", which, 4)?;
    let member = |number: u32| Member {
        name: format!("database:{number}"),
        test: None,
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

/// A test of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    /// New files, in order.
    InitialWrite,
    /// The same files again, in order.
    Rewrite,
    /// Every record once, in random order.
    RandomRead,
    /// The first, third, … thread reads at random, the others write at random.
    Mixed,
    /// Every record once, in random order.
    RandomWrite,
}

/// The sweep's tests, by their names in its log.
const FIVE: [(&str, Test); 5] = [
    ("Initial write", Test::InitialWrite),
    ("Rewrite", Test::Rewrite),
    ("Random read", Test::RandomRead),
    ("Mixed workload", Test::Mixed),
    ("Random write", Test::RandomWrite),
];

/// Size of a record where the user does not say it: that of the drive's memory for which the sweep was made.
const RECORD: u64 = 16 << 20;

fn five_tests(text: &str) -> Result<Vec<Member>, Problem> {
    let mut given = GivenSettings::parse("five-tests", text, &["size", "record", "threads"])?;
    let size = given.size("size", 1 << 20..=1 << 44, 1 << 30)?;
    let record = given.size("record", 512..=1 << 30, RECORD.min(size))?;
    if record > size {
        let cause = "it must not be larger than size";
        return Err(given.refuse("record", &record.to_string(), cause));
    }
    let threads = given.text("threads").unwrap_or("1..3");
    let threads = numbers("five-tests", "threads", threads, 256)?;
    let bytes = size * u64::from(*threads.end());
    let member = |threads: u32, (name, test): (&str, Test)| Member {
        name: format!("{} ×{threads}", name.to_lowercase()),
        test: Some(name.to_owned()),
        objective: Objective::Throughput,
        is_control: false,
        turns: 1,
        work: Work::Fixed(sweep(test, threads, [size, record], bytes)),
    };
    Ok(threads
        .flat_map(|threads| FIVE.iter().map(move |&test| (threads, test)))
        .map(|(threads, test)| member(threads, test))
        .collect())
}

/// A test of the sweep as a fio job file that does what iozone does (`-I -e -+n`): each thread goes through its own file
/// once, one record at a time, past the page cache; in the mixed workload each thread either reads or writes; when the
/// first thread is ready all end, and what each did until then counts.
fn sweep(
    test: Test,
    threads: u32,
    [size, record]: [u64; 2],
    bytes: u64,
) -> fixed_work::FixedWorkSettings {
    let mut job_file = format!(
        "[global]\nioengine=psync\ndirect=1\nbs={record}\nsize={size}\nend_fsync=1\nexitall=1\n"
    );
    for thread in 0..threads {
        let direction = match test {
            Test::InitialWrite | Test::Rewrite => "write",
            Test::RandomRead => "randread",
            Test::Mixed if thread.is_multiple_of(2) => "randread",
            Test::Mixed | Test::RandomWrite => "randwrite",
        };
        let _ = write!(job_file, "[thread-{}]\nrw={direction}\n", thread + 1);
    }
    let (directory, files) = match test {
        Test::InitialWrite => ("five-tests-new", Files::New),
        _ => ("five-tests", Files::Cold),
    };
    fixed_work::FixedWorkSettings {
        job_file,
        directory: directory.into(),
        bytes,
        files,
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
    fn parse(given: &mut GivenSettings<'_>, documents: u64) -> Result<Documents, Problem> {
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

/// Documents, none twice, through the page cache, which is empty at first: in random order, or as they are stored, so
/// that the kernel reads ahead. With `control=on` the same follows with all of them in memory, in random order. To be
/// read from the disk and not from the drive's own memory, more must be `stored` than that holds.
fn documents_read(text: &str) -> Result<Vec<Member>, Problem> {
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
fn documents_create(text: &str) -> Result<Vec<Member>, Problem> {
    let known = ["threads", "documents", "size"];
    let mut given = GivenSettings::parse("documents-create", text, &known)?;
    let documents = Documents::parse(&mut given, 2_000)?;
    Ok(vec![Member {
        name: "documents-create".into(),
        test: None,
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
        read(text).unwrap().unwrap()
    }

    #[test]
    fn every_member_is_a_load_that_passes_our_own_check() {
        for text in [
            "five-tests",
            "documents-read",
            "documents-create",
            "database",
        ] {
            for member in members(text) {
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
    fn the_sweep_has_five_tests_per_number_of_threads_that_do_what_iozone_does() {
        let sweep = members("five-tests:threads=1..3,size=8m,record=1m");
        assert_eq!(sweep.len(), 15);
        assert_eq!(sweep[0].name, "initial write ×1");
        let directions = |test: usize| {
            let Work::Fixed(settings) = &sweep[10 + test].work else {
                panic!("{test}");
            };
            assert!(settings.job_file.contains("exitall=1"));
            let lines = settings.job_file.lines();
            let found = lines.filter_map(|line| line.strip_prefix("rw="));
            found.collect::<Vec<&str>>().join(" ")
        };
        assert_eq!(directions(2), "randread randread randread");
        assert_eq!(directions(3), "randread randwrite randread");
        assert_eq!(directions(4), "randwrite randwrite randwrite");
    }

    #[test]
    fn only_the_control_has_no_say() {
        let documents = members("documents-read");
        let controls: Vec<bool> = documents.iter().map(|one| one.is_control).collect();
        assert_eq!(controls, [false, true]);
        assert_eq!(members("documents-read:control=off").len(), 1);
    }

    #[test]
    fn what_a_family_does_not_have_is_refused() {
        for (text, words) in [
            ("five-tests:run=3", "five-tests has no setting \"run\""),
            ("database:5", "a number from 1 to 4"),
            ("documents-read:size=huge", "a size such as 4k"),
            ("five-tests:size=1m,record=2m", "must not be larger"),
        ] {
            let error = read(text).unwrap().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(read("random-read").is_none());
    }
}
