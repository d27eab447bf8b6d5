//! What lets the numbers say less than they seem to: of the load, of the disk, of the machine. Nothing is left out
//! because of it; whoever reads the answer has to know.

use iosched_sim::disk::{Model, Parameters};
use serde::Serialize;

use crate::load::Spec;
use crate::load::fio_job::JobFile;
use crate::objective::Objective;
use crate::plan::{Plan, PlannedLoad, Target};
use crate::record::Record;
use crate::split::Order;
use crate::trial::{JobResult, Trial};

/// Something that a reader has to know before trusting a number.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Caveat {
    /// The trials of a load have too few accesses.
    FewAccesses {
        /// Index of the load.
        load: usize,
        /// Index of the arm whose trial has the fewest.
        arm: usize,
        /// How many it has.
        accesses: u64,
        /// A run time with which it would have enough, s; none where that is not the user's to choose.
        runtime_s: Option<f64>,
    },
    /// More than one in a hundred of a trial's accesses were under way when it ended: fio counts them as done when the
    /// last one is, so that the 99th percentile is theirs, and too long.
    UnderWayAtTheEnd {
        /// Index of the load.
        load: usize,
        /// Index of the arm whose trial has the fewest accesses.
        arm: usize,
        /// How many may have been under way.
        under_way: u64,
        /// Of so many.
        accesses: u64,
        /// A run time with which they would be one in a hundred, s; none where that is not the user's to choose.
        runtime_s: Option<f64>,
    },
    /// All accesses of a load go to one block.
    OneBlock {
        /// Index of the load.
        load: usize,
    },
    /// A load reads beside writes on simulated flash.
    ReadsBesideWritesOnFlash {
        /// Index of the load.
        load: usize,
    },
    /// Programs were at work when the run began.
    LoadAverage {
        /// Mean of processes that ran or waited for a disk, over about a minute.
        one_minute: f64,
        /// Processors of the machine.
        cpus: usize,
    },
    /// Other programs used the processors during trials.
    OtherPrograms {
        /// Trials of which this is true.
        trials: usize,
        /// Of so many that tell.
        of: usize,
        /// The most processors that they used, over a trial.
        processors: f64,
    },
    /// The disk was written to during trials of loads that only read.
    OtherWrites {
        /// Trials of which this is true.
        trials: usize,
        /// Of so many of such loads.
        of: usize,
        /// The most writes of one trial.
        writes: u64,
        /// Reads of that trial.
        reads: u64,
    },
    /// Other runs of ours were at work during trials.
    OtherRuns {
        /// Trials of which this is true.
        trials: usize,
        /// Their commands, each once.
        commands: Vec<String>,
    },
}

/// With fewer accesses than this a trial's 99th percentile is its slowest access.
const ENOUGH_ACCESSES: u64 = 100;

/// Processors that others use during a trial, from which on it is said. What a desktop does by itself is less.
const BUSY: f64 = 0.25;

/// Writes for each read, from which on a load that only reads is told of them; and the fewest.
const WRITES_PER_READ: f64 = 0.05;
const FEWEST_WRITES: u64 = 10;

/// All that there is to know of this kind.
pub(super) fn caveats(plan: &Plan, record: &Record) -> Vec<Caveat> {
    let loads = 0..plan.loads.len();
    let few = loads
        .clone()
        .filter_map(|load| few_accesses(plan, record, load));
    let is_one_block = |&load: &usize| is_one_block(plan, record, load);
    let one_block = loads
        .filter(is_one_block)
        .map(|load| Caveat::OneBlock { load });
    let reads_beside_writes = (0..plan.loads.len())
        .filter(|&load| reads_beside_writes_on_flash(plan, record, load))
        .map(|load| Caveat::ReadsBesideWritesOnFlash { load });
    let under_way =
        (0..plan.loads.len()).filter_map(|load| under_way_at_the_end(plan, record, load));
    let few = few.chain(under_way);
    let mut caveats: Vec<Caveat> = few.chain(one_block).chain(reads_beside_writes).collect();
    caveats.extend(load_average(record));
    caveats.extend(other_programs(plan, record));
    caveats.extend(other_writes(plan, record));
    caveats.extend(other_runs(record));
    caveats
}

/// The trial of a load with the fewest accesses, if these are too few.
fn few_accesses(plan: &Plan, record: &Record, load: usize) -> Option<Caveat> {
    let fewest = fewest_accesses(plan, record, load, |_| true)?;
    (fewest.accesses < ENOUGH_ACCESSES).then(|| Caveat::FewAccesses {
        load,
        arm: fewest.arm,
        accesses: fewest.accesses,
        runtime_s: fewest.runtime_for(plan, load, ENOUGH_ACCESSES),
    })
}

/// The trial of a load with the fewest accesses, if more than one in a hundred may have been under way at its end, and
/// were counted.
fn under_way_at_the_end(plan: &Plan, record: &Record, load: usize) -> Option<Caveat> {
    let Spec::JobFile(text) = &plan.loads[load].spec else {
        return None;
    };
    let counts_before_the_end = |trial: &Trial| trial.counted_s.is_some();
    let fewest = fewest_accesses(plan, record, load, |trial| !counts_before_the_end(trial))?;
    let accesses = fewest.accesses;
    let under_way = JobFile::parse(&plan.loads[load].name, text)
        .ok()?
        .under_way_at_the_end();
    let enough = under_way.saturating_mul(100);
    (accesses >= ENOUGH_ACCESSES && accesses < enough).then(|| Caveat::UnderWayAtTheEnd {
        load,
        arm: fewest.arm,
        under_way,
        accesses,
        runtime_s: fewest.runtime_for(plan, load, enough),
    })
}

/// The trial of a load with the fewest accesses.
struct Fewest {
    accesses: u64,
    arm: usize,
    /// How long it ran, where that was given, s.
    ran_s: Option<f64>,
}

impl Fewest {
    /// The run time in which there would be `enough` accesses, s; none of a load with an end of its own, which takes none.
    fn runtime_for(&self, plan: &Plan, load: usize, enough: u64) -> Option<f64> {
        let ran_s = self.ran_s.filter(|_| plan.trial_duration(load).is_some())?;
        Some((ran_s * enough as f64 / self.accesses.max(1) as f64).ceil())
    }
}

/// The fewest accesses that a trial of a load has, of the trials that this `concerns`; none of a control, and where nothing counts them.
fn fewest_accesses(
    plan: &Plan,
    record: &Record,
    load: usize,
    concerns: impl Fn(&Trial) -> bool,
) -> Option<Fewest> {
    // Where a time decides, percentiles are of all rounds together.
    if plan.loads[load].is_control || plan.loads[load].objective == Objective::Time {
        return None;
    }
    let of_load = record
        .trials()
        .filter(|trial| trial.slot.load == load && concerns(trial));
    let counted = of_load.filter_map(|trial| {
        Some(Fewest {
            accesses: accesses(trial)?,
            arm: trial.slot.arm,
            ran_s: trial.runtime_s.or(plan.loads[load].runtime_s),
        })
    });
    counted.min_by_key(|fewest| (fewest.accesses, fewest.arm))
}

/// Accesses that the workers of a trial counted; none where they count none.
fn accesses(trial: &Trial) -> Option<u64> {
    let flows: Vec<_> = trial.jobs.iter().flat_map(JobResult::flows).collect();
    let ios = flows.iter().map(|flow| flow.ios);
    (!flows.is_empty()).then(|| ios.fold(0, u64::saturating_add))
}

/// Whether the requests of each trial all covered the same sectors, or the job file has room for one block only.
fn is_one_block(plan: &Plan, record: &Record, load: usize) -> bool {
    let trials = record.trials().filter(|trial| trial.slot.load == load);
    let mut orders = trials
        .filter_map(|trial| trial.measured.split.as_ref()?.order.as_ref())
        .filter(|order| order.requests > 1)
        .peekable();
    let is_seen = orders.peek().is_some() && orders.all(Order::is_one_place);
    is_seen || has_room_for_one_block(plan, &plan.loads[load])
}

/// The models of flash have no garbage collection, and how long reads wait for writes has not been checked against a
/// drive as their reads alone have (results/validation.md).
fn reads_beside_writes_on_flash(plan: &Plan, record: &Record, load: usize) -> bool {
    let Target::Simulated(disk) = &plan.target else {
        return false;
    };
    let mut trials = record.trials().filter(|trial| trial.slot.load == load);
    let does_both = |trial: &Trial| trial.measured.reads > 0 && trial.measured.writes > 0;
    is_flash(&disk.model) && trials.any(does_both)
}

fn is_flash(model: &Model) -> bool {
    match &model.parameters {
        Parameters::Ssd(_) => true,
        Parameters::Array(array) => array.members.iter().any(is_flash),
        Parameters::Hdd(_) | Parameters::Simple(_) => false,
    }
}

fn has_room_for_one_block(plan: &Plan, load: &PlannedLoad) -> bool {
    let (Spec::JobFile(text) | Spec::Simulated { job_file: text, .. }) = &load.spec else {
        return false;
    };
    let file_size = match plan.target {
        Target::Directory { file_size, .. } | Target::FileSystem { file_size, .. } => {
            Some(file_size)
        }
        Target::Device { .. } | Target::File { .. } | Target::Simulated(_) => None,
    };
    JobFile::parse(&load.name, text).is_ok_and(|file| file.is_one_block(file_size))
}

/// A machine on which more runs than one process for every four processors, and at least one.
fn load_average(record: &Record) -> Option<Caveat> {
    let machine = &record.header.machine;
    let one_minute = machine.load_average?;
    if matches!(record.header.plan.target, Target::Simulated(_)) {
        return None; // virtual time
    }
    let is_busy = one_minute >= (machine.cpus as f64 / 4.0).max(1.0);
    is_busy.then_some(Caveat::LoadAverage {
        one_minute,
        cpus: machine.cpus,
    })
}

fn other_programs(plan: &Plan, record: &Record) -> Option<Caveat> {
    let known: Vec<f64> = record
        .trials()
        .filter(|trial| runs_only_children(&plan.loads[trial.slot.load].spec))
        .filter_map(|trial| {
            let ours = trial.phases.load_ns.max(1) as f64;
            Some(trial.measured.others_cpu_ns? as f64 / ours)
        })
        .collect();
    let busy: Vec<f64> = known.iter().copied().filter(|&used| used >= BUSY).collect();
    let processors = busy.iter().copied().max_by(f64::total_cmp)?;
    Some(Caveat::OtherPrograms {
        trials: busy.len(),
        of: known.len(),
        processors,
    })
}

/// True if all that a load runs are children that it waits for: what a server does for it would be taken for the
/// work of others.
fn runs_only_children(spec: &Spec) -> bool {
    matches!(
        spec,
        Spec::JobFile(_) | Spec::FixedWork(_) | Spec::Iozone(_)
    )
}

/// Writes during trials of loads that only read: somebody else's, or the file system's own.
fn other_writes(plan: &Plan, record: &Record) -> Option<Caveat> {
    let only_reads = |trial: &&Trial| {
        let mut jobs = trial.jobs.iter();
        !trial.jobs.is_empty() && jobs.all(|job| job.write.is_none() && job.trim.is_none())
    };
    let of_reads: Vec<(u64, u64)> = record
        .trials()
        .filter(|trial| runs_only_children(&plan.loads[trial.slot.load].spec))
        .filter(only_reads)
        .map(|trial| (trial.measured.writes, trial.measured.reads))
        .collect();
    let is_much = |&(writes, reads): &(u64, u64)| {
        writes >= FEWEST_WRITES && writes as f64 >= WRITES_PER_READ * reads as f64
    };
    let disturbed = || of_reads.iter().copied().filter(is_much);
    let (writes, reads) = disturbed().max()?;
    Some(Caveat::OtherWrites {
        trials: disturbed().count(),
        of: of_reads.len(),
        writes,
        reads,
    })
}

fn other_runs(record: &Record) -> Option<Caveat> {
    if matches!(record.header.plan.target, Target::Simulated(_)) {
        return None; // virtual time
    }
    let disturbed = || record.trials().filter(|trial| !trial.beside.is_empty());
    let mut commands: Vec<String> = Vec::new();
    for command in disturbed().flat_map(|trial| &trial.beside) {
        if !commands.contains(command) {
            commands.push(command.clone());
        }
    }
    (!commands.is_empty()).then(|| Caveat::OtherRuns {
        trials: disturbed().count(),
        commands,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::load::desktop;
    use crate::load::simulated::SimulatedDisk;
    use crate::record::Entry;
    use crate::split::Split;
    use crate::trial::Slot;

    /// What is said of a record of two trials that were changed like this.
    fn said_of(edit: impl Fn(&mut Trial)) -> Vec<Caveat> {
        said_of_plan(&fixture::plan(2), edit)
    }

    fn said_of_plan(plan: &Plan, edit: impl Fn(&mut Trial)) -> Vec<Caveat> {
        let mut record = fixture::record(plan);
        for arm in 0..2 {
            let slot = Slot {
                load: 0,
                round: 0,
                arm,
            };
            let mut entry = fixture::trial(slot, 1e6);
            let Entry::Trial(trial) = &mut entry else {
                unreachable!("a trial was made")
            };
            edit(trial);
            record.entries.push(entry);
        }
        caveats(&record.header.plan, &record)
    }

    #[test]
    fn a_plain_record_has_none() {
        assert_eq!(said_of(|_| {}), []);
    }

    #[test]
    fn writes_beside_a_load_that_only_reads_are_told_where_they_are_many() {
        let plan = {
            let mut plan = fixture::plan(2);
            plan.loads[0].spec = Spec::JobFile("[a]\nrw=randread\n".into());
            plan
        };
        let beside = |writes: u64, reads: u64| {
            said_of_plan(&plan, |trial| {
                trial.measured.writes = writes * trial.slot.arm as u64;
                trial.measured.reads = reads;
            })
        };
        let expected = Caveat::OtherWrites {
            trials: 1,
            of: 2,
            writes: 44,
            reads: 170,
        };
        assert_eq!(beside(44, 170), [expected]);
        assert_eq!(beside(9, 20), [], "a few");
        assert_eq!(beside(44, 100_000), [], "next to nothing");
        let its_own = said_of_plan(&plan, |trial| {
            trial.jobs[0].write = trial.jobs[0].read.clone();
            (trial.measured.writes, trial.measured.reads) = (1000, 1000);
        });
        assert_eq!(its_own, []);
    }

    #[test]
    fn accesses_under_way_at_the_end_are_told_where_they_are_more_than_one_in_a_hundred() {
        let of_job = |job: &str, ios: u64| {
            let mut plan = fixture::plan(2);
            plan.loads[0].spec = Spec::JobFile(format!(
                "[a]\nrw=randread\nioengine=libaio\ndirect=1\n{job}"
            ));
            said_of_plan(&plan, |trial| {
                trial.jobs[0].read.as_mut().unwrap().ios = ios * (2 - trial.slot.arm as u64);
            })
        };
        let deep = "iodepth=16\nnumjobs=2\n";
        let expected = Caveat::UnderWayAtTheEnd {
            load: 0,
            arm: 1,
            under_way: 32,
            accesses: 1600,
            runtime_s: Some(20.0),
        };
        assert_eq!(of_job(deep, 1600), [expected]);
        assert_eq!(of_job(deep, 3200), []);
        let mut plan = fixture::plan(2);
        plan.loads[0].spec = Spec::JobFile(format!("[a]\nrw=randread\n{deep}"));
        let before_the_end = said_of_plan(&plan, |trial| trial.counted_s = Some(9.0));
        assert_eq!(before_the_end, []);
        for one_at_a_time in [
            "numjobs=32\n",
            "iodepth=32\nioengine=psync\n",
            "iodepth=32\ndirect=0\n",
        ] {
            assert_eq!(of_job(one_at_a_time, 1600), [], "{one_at_a_time}");
        }
    }

    #[test]
    fn a_trial_of_less_than_a_hundred_accesses_is_told_with_a_run_time_that_has_more() {
        let few = said_of(|trial| {
            let read = trial.jobs[0].read.as_mut().unwrap();
            read.ios = [400, 40][trial.slot.arm];
        });
        let expected = Caveat::FewAccesses {
            load: 0,
            arm: 1,
            accesses: 40,
            runtime_s: Some(25.0),
        };
        assert_eq!(few, [expected]);
    }

    #[test]
    fn a_load_with_an_end_of_its_own_is_told_no_run_time() {
        let mut plan = fixture::plan(2);
        plan.loads[0].spec = Spec::DesktopStart(desktop::DesktopSettings::default());
        let mut record = fixture::record(&plan);
        let slot = Slot {
            load: 0,
            round: 0,
            arm: 0,
        };
        let mut entry = fixture::trial(slot, 1e6);
        let Entry::Trial(trial) = &mut entry else {
            unreachable!("a trial was made")
        };
        trial.jobs[0].read.as_mut().unwrap().ios = 40;
        record.entries.push(entry);
        let expected = Caveat::FewAccesses {
            load: 0,
            arm: 0,
            accesses: 40,
            runtime_s: None,
        };
        assert_eq!(caveats(&plan, &record), [expected]);
    }

    #[test]
    fn a_load_that_asks_for_one_place_only_is_told() {
        let at = |places: &'static [u64]| {
            said_of(move |trial| {
                let mut order = Order::default();
                let mut end = None;
                for &start in places {
                    end = Some(order.add(end, start, 8));
                }
                trial.measured.split = Some(Split {
                    order: Some(order),
                    ..Split::default()
                });
            })
        };
        assert_eq!(at(&[800, 800, 800]), [Caveat::OneBlock { load: 0 }]);
        assert_eq!(at(&[800, 808, 800]), []);
        assert_eq!(at(&[800]), [], "one request alone says nothing");
    }

    #[test]
    fn a_job_file_with_room_for_one_block_is_told_whatever_was_recorded() {
        let mut plan = fixture::plan(2);
        let text = "[random-read]\nrw=randread\nbs=4k\nsize=4k\n";
        plan.loads[0].spec = Spec::JobFile(text.into());
        assert_eq!(
            caveats(&plan, &fixture::record(&plan)),
            [Caveat::OneBlock { load: 0 }]
        );
    }

    #[test]
    fn a_machine_that_was_busy_at_the_start_is_told() {
        let plan = fixture::plan(2);
        let said = |cpus, one_minute| {
            let mut record = fixture::record(&plan);
            record.header.machine.cpus = cpus;
            record.header.machine.load_average = one_minute;
            caveats(&plan, &record).len()
        };
        assert_eq!(
            [said(2, None), said(2, Some(0.9)), said(16, Some(3.9))],
            [0; 3]
        );
        assert_eq!([said(2, Some(1.0)), said(16, Some(4.0))], [1; 2]);
    }

    #[test]
    fn programs_and_runs_beside_trials_are_counted() {
        let said = said_of(|trial| {
            // Half a processor for ten seconds, beside the second arm only.
            trial.measured.others_cpu_ns = Some([0, 5_000_000_000][trial.slot.arm]);
            trial.beside = vec![String::from("iosched tune sdb"); trial.slot.arm];
        });
        let expected = [
            Caveat::OtherPrograms {
                trials: 1,
                of: 2,
                processors: 0.5,
            },
            Caveat::OtherRuns {
                trials: 1,
                commands: vec!["iosched tune sdb".into()],
            },
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn what_ran_beside_a_run_in_virtual_time_is_nobody_s_concern() {
        let mut plan = fixture::plan(2);
        plan.target = Target::Simulated(Box::new(SimulatedDisk {
            model: iosched_sim::disk::Model::named("hdd-7200-fifo").unwrap(),
        }));
        let said = said_of_plan(&plan, |trial| {
            trial.beside = vec!["iosched tune sdb".into()];
        });
        assert_eq!(said, []);
    }
}
