//! fio job files, as far as they can be simulated.
//!
//! `setting` has what is understood; options that change nothing here (`group_reporting`, …) are
//! passed over. All others are refused by name with their line, because a load that is only nearly
//! the one described gives figures that mean nothing.
//!
//! Where this differs from fio: random places are drawn with replacement (as with `norandommap`); with a synchronous
//! engine, and through the page cache, the depth is 1; `normal` is a normal distribution, fio's is a sum of twelve dice; a rate
//! counts from one access to the next, not over a window; trims count as writes.

pub mod lines;
mod section;
mod setting;
mod value;

use iosched_facts::Problem;
use iosched_facts::fio::FioOption;
use lines::{BadLine, Item, Line};
use section::Section;
use setting::Setting;

use super::Job;
use crate::units::Sectors;

/// Most processes in a load.
const MAX_PROCESSES: u64 = 10_000;

/// The processes that a job file describes, on a disk of this size.
pub fn parse(text: &str, capacity: Sectors) -> Result<Vec<Job>, Problem> {
    let mut wrong = Vec::new();
    let sections = sections(text, &mut wrong)?;
    let count: u64 = sections.iter().map(|section| section.numjobs).sum();
    if count > MAX_PROCESSES {
        return Err(too_many(count));
    }
    wrong.extend(sections.iter().filter_map(|section| section.check().err()));
    if !wrong.is_empty() {
        return Err(all(wrong));
    }
    let mut jobs = Vec::new();
    let mut group = 0;
    for section in &sections {
        if section.stonewall && !jobs.is_empty() {
            group += 1;
        }
        for clone in 0..section.numjobs {
            jobs.push(section.job(clone, group, capacity)?);
        }
    }
    if jobs.is_empty() {
        Err(Problem::usage("there is no job in it"))
    } else {
        Ok(jobs)
    }
}

/// All that keeps a file from being simulated, in one message.
fn all(wrong: Vec<Problem>) -> Problem {
    let hint = wrong.iter().find_map(|problem| problem.hint.clone());
    let causes = wrong.into_iter().map(|problem| problem.message).collect();
    let problem = Problem::of_all("it cannot be simulated:", causes);
    match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn too_many(count: u64) -> Problem {
    Problem::usage(format!(
        "{count} processes are more than the {MAX_PROCESSES} that can be simulated"
    ))
}

/// An option that cannot have this value.
fn bad_value(line: usize, name: &str, value: &str, allowed: &str) -> Problem {
    Problem::usage(format!(
        "line {line}: {name} cannot be `{value}`: it can be {allowed}"
    ))
}

/// The sections, each with what stood in `[global]` before it. What cannot be simulated goes to `wrong`.
fn sections(text: &str, wrong: &mut Vec<Problem>) -> Result<Vec<Section>, Problem> {
    let mut global = Section::default();
    let mut sections: Vec<Section> = Vec::new();
    let mut in_global = None;
    for line in lines::lines(text) {
        let Line { number: line, item } = line.map_err(|bad| {
            let BadLine { number, cause, .. } = bad;
            Problem::usage(format!("line {number}: cannot read it: {cause}"))
        })?;
        match item {
            Item::Global => in_global = Some(true),
            Item::Section(name) => {
                in_global = Some(false);
                let count = sections.len() as u64;
                if count > MAX_PROCESSES {
                    return Err(too_many(count));
                }
                let name = name.to_owned();
                sections.push(Section {
                    name,
                    ..global.clone()
                });
            }
            Item::Option { key, value } => {
                let section = match in_global {
                    None => {
                        let message = format!("line {line}: `{key}` stands in no section");
                        return Err(Problem::usage(message));
                    }
                    Some(true) => &mut global,
                    Some(false) => sections.last_mut().expect("a section was begun"),
                };
                let value = value.unwrap_or_default();
                let setting = Setting {
                    line,
                    name: FioOption::find(&key).map_or(key.as_str(), |option| option.name),
                    value,
                };
                wrong.extend(setting.apply(section).err());
            }
        }
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::{IoPriority, PriorityClass};
    use crate::units::{Bytes, Nanos, Sector};
    use crate::workload::{Cgroup, Distribution, Mix, Pattern, Rate, Sizes, Syncing, Think};

    const CAPACITY: Sectors = Sectors::new((16 << 30) / 512);

    #[test]
    fn a_job_file_is_read_with_its_globals_and_clones() {
        let text = "; two readers\n[global]\ndirect=1\nbs=64k\nruntime=10\ntime_based\nioengine=libaio\n\n\
                    [sr]\nrw=read\noffset=1g\nsize=4g\n[w]\nrw=randrw\nrwmixread=70\nbs=4k,8k\n\
                    iodepth=32\niodepth_batch=8\nnumjobs=2\noffset_increment=25%\nprioclass=1\nprio=2\n";
        let jobs = parse(text, CAPACITY).unwrap();
        let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["sr", "w.0", "w.1"]);
        let reader = &jobs[0];
        assert_eq!(reader.pattern, Pattern::Sequential { skip: 0 });
        assert_eq!(
            (reader.start, reader.span),
            (Sector::new(1 << 21), Sectors::new(1 << 23))
        );
        assert_eq!(reader.read_sizes, Sizes::one(Sectors::new(128)));
        assert_eq!(reader.depth, 1);
        assert_eq!(
            (reader.runtime, reader.amount),
            (Some(Nanos::from_secs(10)), None)
        );
        let writer = &jobs[2];
        assert_eq!(writer.mix, Mix { read_percent: 70 });
        assert_eq!(
            (writer.read_sizes.least(), writer.write_sizes.least()),
            (Sectors::new(8), Sectors::new(16))
        );
        assert_eq!((writer.depth, writer.batch), (32, 8));
        assert_eq!(
            writer.start,
            Sector::new(CAPACITY.as_u64() / 100 * 25 / 8 * 8)
        );
        let priority = IoPriority {
            class: PriorityClass::RealTime,
            level: 2,
        };
        assert_eq!(writer.priority, priority);
    }

    #[test]
    fn what_cannot_be_simulated_is_named_with_its_line() {
        let message = |text: &str| parse(text, CAPACITY).unwrap_err().to_string();
        assert_eq!(
            message("[a]\nrw=read\nverify=crc32c\n"),
            "line 3: `verify` is not simulated"
        );
        assert!(
            message("[a]\nrw=trimwrite")
                .starts_with("line 2: rw cannot be `trimwrite`: it can be read,")
        );
        assert_eq!(message("rw=read"), "line 1: `rw` stands in no section");
        assert_eq!(message("[global]\nrw=read"), "there is no job in it");
        assert_eq!(
            message("[a]\nsize=4k\nbs=64k"),
            "a: its part of the disk (4 KiB) is smaller than one access (64 KiB)"
        );
        assert_eq!(
            message("[a]\nio_size=512"),
            "a: its io_size (512 B) is smaller than one access (4 KiB)"
        );
        assert_eq!(
            message("[a]\noffset=17g"),
            "a: its part begins at 17 GiB, and the disk ends at 16 GiB"
        );
    }

    #[test]
    fn pace_shares_and_groups_of_processes_are_read() {
        let text = "[a]\nrw=randrw\nbssplit=4k/60:64k/40,8k\nthinktime=2ms\nthinktime_blocks=4\n\
                    thinktime_blocks_type=issue\nrate=1m,\nrate_process=poisson\nio_size=1g\n\
                    random_distribution=pareto:0.3\npercentage_random=50\n\
                    [b]\nrw=randwrite\nbuffered=1\nfsync=8\nend_fsync=1\ncgroup=two\n\
                    cgroup_weight=200\nrate_iops=100\niodepth=32\n";
        let [a, b] = &parse(text, CAPACITY).unwrap()[..] else {
            panic!("two jobs")
        };
        let [small, large] = [Sectors::new(8), Sectors::new(128)];
        assert_eq!(a.read_sizes, Sizes::split(&[(small, 60), (large, 40)]));
        assert_eq!(a.write_sizes, Sizes::one(Sectors::new(16)));
        let think = Think {
            time: Nanos::from_millis(2),
            every: 4,
            counts_submitted: true,
        };
        assert_eq!(a.think, Some(think));
        assert_eq!(a.rates, [Some(Rate::Bytes(1 << 20)), None]);
        assert_eq!((a.poisson, a.amount), (true, Some(Bytes::from_gib(1))));
        let pattern = Pattern::Random {
            distribution: Distribution::Pareto { h: 0.3 },
            percent: 50,
            run: 1,
        };
        assert_eq!(a.pattern, pattern);
        assert!(b.buffered && b.depth == 1);
        let sync = Syncing {
            each_write: false,
            every: Some(8),
            at_end: true,
            ..Syncing::default()
        };
        assert_eq!(b.sync, sync);
        let (name, weight) = ("two".to_owned(), 200);
        assert_eq!(b.cgroup, Some(Cgroup { name, weight }));
        assert_eq!(b.rates[1], Some(Rate::Accesses(100)));
    }

    #[test]
    fn what_published_files_say_is_read() {
        let text = "[global]\nioengine=libaio\ndirect=1\nverify=0\nramp_time=2\nruntime=10\n\
                    [a]\nrw=randread:8\nbsrange=4k-64k\niodepth=32\niodepth_batch_complete=8\niodepth_low=4\nloops=3\n\
                    size=1g\ncmdprio_percentage=10\n[b]\nrw=read:-8k\nbs=4k\n[c]\nrw=randtrim\nnrfiles=4\n\
                    random_distribution=zoned:50/10:30/20:20/\n";
        let [a, b, c] = &parse(text, CAPACITY).unwrap()[..] else {
            panic!("three jobs")
        };
        let run = Pattern::Random {
            distribution: Distribution::Even,
            percent: 100,
            run: 8,
        };
        assert_eq!((a.pattern, a.refill), (run, 4));
        assert_eq!(
            a.read_sizes,
            Sizes::range(Sectors::new(8), Sectors::new(128))
        );
        assert_eq!(
            (a.ramp, a.amount),
            (Nanos::from_secs(2), Some(Bytes::from_gib(3)))
        );
        assert_eq!(a.other_priority.0, [10, 10]);
        assert_eq!(b.pattern, Pattern::Sequential { skip: -16 });
        let Pattern::Random {
            distribution: Distribution::Zoned(zones),
            ..
        } = c.pattern
        else {
            panic!("{:?}", c.pattern)
        };
        assert!(
            c.trims && zones[..4] == [(50, 10), (30, 20), (20, 70), (0, 0)],
            "{zones:?}"
        );
    }

    #[test]
    fn fio_goes_through_the_page_cache_one_at_a_time_unless_told() {
        let jobs = parse(
            "[a]\nrw=read\niodepth=8\n[b]\nrw=read\nioengine=libaio\niodepth=8\ndirect=1\n",
            CAPACITY,
        );
        let [a, b] = &jobs.unwrap()[..] else {
            panic!("two jobs")
        };
        assert!(a.buffered && a.depth == 1 && !b.buffered && b.depth == 8);
    }

    #[test]
    fn groups_follow_one_another_at_a_stonewall() {
        let jobs = parse("[a]\n[b]\n[c]\nstonewall\n[d]\n", CAPACITY).unwrap();
        assert_eq!(
            jobs.iter().map(|job| job.group).collect::<Vec<_>>(),
            [0, 0, 1, 1]
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\[[a-z]{1,4}\\]\n|[a-z_]{0,12}=?[-0-9a-z:%.,]{0,12}\n){0,8}") {
            let _ = parse(&text, CAPACITY);
        }

        #[test]
        fn no_value_of_a_known_option_makes_it_panic(
            name in prop::sample::select(vec![
                "rw", "bs", "size", "offset", "offset_increment", "iodepth", "numjobs",
                "thinktime", "rate_iops", "runtime", "random_distribution", "startdelay",
                "bssplit", "rate", "io_size", "cgroup_weight", "fsync", "percentage_random",
            ]),
            value in "[-0-9a-zµ:%.,]{0,22}",
        ) {
            let _ = parse(&format!("[a]\n{name}={value}\n"), CAPACITY);
        }
    }
}
