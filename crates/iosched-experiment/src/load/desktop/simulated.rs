//! The same load for the simulator: what is a thread or a program there is a process here.
//!
//! Files lie one after the other from the beginning of the disk, each in one piece. Left out: what a file system reads
//! and writes itself (inodes, directories, its journal), and processors that somebody else needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use iosched_machine::failure::{Problem, exit};
use iosched_sim::request::Op;
use iosched_sim::simulate::Outcome as Simulated;
use iosched_sim::units::{Bytes, Nanos, Sector, Sectors};
use iosched_sim::workload::replay::Step;
use iosched_sim::workload::{Access, Job, Mix, Pattern, Sizes, Syncing, Think};

use super::super::simulated::{self, RealTime, SimulatedDisk};
use super::super::{Load, LoadError, Outcome, TrialInfo, Workplace};
use super::activity::{BETWEEN_READS, CHUNK, CHUNKS_SYNCED, STREAMED};
use super::extents::{Extent, Files};
use super::{DesktopSettings, NAME, SETTLING, SMALL_READS, START, later, recorded_start};
use crate::objective::Objective;

/// A run ends here at the latest.
pub(crate) const LONGEST: Nanos = Nanos::from_secs(3600);

/// How near this comes to the load on a disk that is rotational, or not.
pub(crate) fn accuracy(rotational: bool) -> &'static str {
    if rotational {
        "load desktop: a simulated start takes 0.5 to 1.6 times as long as on an emulated disk (results/validation.md)"
    } else {
        "load desktop: its simulated starts have not been compared with an emulated flash disk"
    }
}

/// The processes of a trial, and what their results mean.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) jobs: Vec<Job>,
    settings: DesktopSettings,
}

impl Script {
    /// The processes on a disk of this size, which is rotational or not, as chance has it: the starts, the small reads, then the copy or the streams.
    ///
    /// # Errors
    /// Its files do not fit on the disk.
    pub(crate) fn new(
        settings: &DesktopSettings,
        (capacity, rotational): (Sectors, bool),
        seed: u64,
    ) -> Result<Script, Problem> {
        let mut files = Files::default();
        let settled = simulated::nanos(SETTLING);
        let whole = simulated::nanos(settings.whole());
        let begin = |start: u32| {
            settled
                + simulated::nanos(later(seed))
                + Nanos::new(whole.as_nanos() / u64::from(settings.starts) * u64::from(start))
        };
        let mut jobs = recorded_start::jobs(settings.starts, rotational, &begin, &mut files);
        jobs.push(small_reads(files.make(settings.size), settled, whole));
        if settings.copies() {
            let [copied, copy] = [(); 2].map(|()| files.make(settings.size));
            jobs.push(copies(copied, copy, rotational));
        }
        let readers = (0..settings.readers).map(|number| (format!("reader-{number}"), 100));
        let writers = (0..settings.writers).map(|number| (format!("writer-{number}"), 0));
        for (name, read_percent) in readers.chain(writers) {
            jobs.push(stream(name, read_percent, files.make(settings.size)));
        }
        if files.end > capacity {
            let (needed, capacity) = (files.end.to_bytes(), capacity.to_bytes());
            let message =
                format!("load {NAME}: its files need {needed}, and the disk has {capacity}");
            let hint = format!("make them smaller: --load {NAME}:size=16m");
            return Err(Problem::usage(message).hint(hint));
        }
        Ok(Script {
            jobs,
            settings: settings.clone(),
        })
    }

    /// What came out of a trial, as the load itself would say it.
    ///
    /// # Errors
    /// It was not over when the simulation ended.
    pub(crate) fn outcome(&self, simulated: &Simulated) -> Result<Outcome, Problem> {
        let (starts, beside) = simulated.processes.split_at(self.settings.starts as usize);
        let are_over = self.jobs.iter().zip(starts).all(|(job, process)| {
            let steps = job.steps.iter().flat_map(|steps| steps.iter());
            let bytes: u64 = steps
                .map(|step| step.access.length.to_bytes().as_u64())
                .sum();
            process.bytes().as_u64() == bytes
        });
        if !are_over {
            let after = simulated.elapsed.as_secs_f64();
            let message = format!("load {NAME} was not over after {after} s of virtual time");
            let hint = "let it run longer (`simulate --until`), or leave out the scheduler or the streams that starve it";
            return Err(Problem::new(exit::FAILURE, message).hint(hint));
        }
        let took: Vec<f64> = starts
            .iter()
            .map(|process| process.elapsed.as_secs_f64())
            .collect();
        let copied = beside
            .get(1)
            .filter(|_| self.settings.copies())
            .map(|copy| copy.read.bytes.as_u64() as f64 / copy.elapsed.as_secs_f64().max(1e-9));
        Ok(Outcome {
            measured: Some(simulated::measured(simulated)),
            virtual_time: Some(Duration::from_nanos(simulated.elapsed.as_nanos())),
            ..super::outcome(&took, simulated::job_result(&beside[0]), copied)
        })
    }
}

impl Script {
    /// What a user asks of it, by name: how long a start took, and its other numbers.
    ///
    /// # Errors
    /// It was not over when the simulation ended.
    pub(crate) fn numbers(&self, simulated: &Simulated) -> Result<BTreeMap<String, f64>, Problem> {
        let outcome = self.outcome(simulated)?;
        let mut numbers = outcome.numbers;
        let start = |elapsed| (START.to_owned(), elapsed);
        numbers.extend(outcome.elapsed_s.map(start));
        Ok(numbers)
    }
}

/// They last as long as the trial.
fn small_reads(file: Extent, settled: Nanos, whole: Nanos) -> Job {
    Job {
        name: SMALL_READS.to_owned(),
        pattern: Pattern::EVEN,
        start: file.start,
        span: file.length,
        think: Some(Think {
            time: simulated::nanos(BETWEEN_READS),
            every: 1,
            counts_submitted: false,
        }),
        delay: settled,
        runtime: Some(whole),
        ..Job::default()
    }
}

/// What Linux reads ahead of a copy from a disk that is rotational (`read_ahead_kb`): one such part while the copy takes
/// in the one before. Elsewhere, where it reads less ahead, a chunk is read as it is asked for.
const READ_AHEAD: Bytes = Bytes::from_mib(2);

/// A file is read in parts, and written into the page cache in chunks.
fn copies(copied: Extent, copy: Extent, rotational: bool) -> Job {
    let chunk = Bytes::new(CHUNK as u64).to_sectors();
    let (part, ahead) = if rotational {
        (READ_AHEAD.to_sectors(), 1)
    } else {
        (chunk, 0)
    };
    let step = |op: Op, start: Sector, length: Sectors, beside: usize| Step {
        access: Access {
            op,
            start,
            length,
            sync: true,
        },
        beside,
        think: Nanos::ZERO,
    };
    let (mut steps, mut at, mut read) = (Vec::new(), Sectors::ZERO, Sectors::ZERO);
    while at < copied.length {
        let taken_in = Sectors::new((at.as_u64() / part.as_u64() + 1) * part.as_u64());
        while read < copied.length && read < taken_in + part * ahead as u64 {
            let length = part.min(copied.length - read);
            steps.push(step(Op::Read, copied.start + read, length, ahead));
            read += length;
        }
        let length = chunk.min(copied.length - at);
        let beside = if read > taken_in { ahead } else { 0 };
        steps.push(step(Op::Write, copy.start + at, length, beside));
        at += length;
    }
    let chunks = copied.length.as_u64().div_ceil(chunk.as_u64());
    Job {
        name: "copy".to_owned(),
        start: copy.start,
        span: copy.length,
        depth: ahead + 1,
        buffered: true,
        background: true,
        sync: Syncing {
            every: Some(CHUNKS_SYNCED.min(chunks)),
            own_file: true,
            ..Syncing::default()
        },
        steps: Some(Arc::from(steps)),
        ..Job::default()
    }
}

fn stream(name: String, read_percent: u8, file: Extent) -> Job {
    let sizes = Sizes::one(Bytes::new(STREAMED as u64).to_sectors());
    Job {
        name,
        mix: Mix { read_percent },
        read_sizes: sizes.clone(),
        write_sizes: sizes,
        start: file.start,
        span: file.length,
        background: true,
        ..Job::default()
    }
}

/// The load over a disk model.
#[derive(Debug)]
pub(in crate::load) struct SimulatedDesktop {
    settings: DesktopSettings,
    disk: SimulatedDisk,
}

impl SimulatedDesktop {
    /// Checks that it fits the disk.
    pub(in crate::load) fn new(
        settings: &DesktopSettings,
        disk: &SimulatedDisk,
    ) -> Result<SimulatedDesktop, Problem> {
        Script::new(settings, disk.size_and_kind(), 0)?;
        Ok(SimulatedDesktop {
            settings: settings.clone(),
            disk: disk.clone(),
        })
    }
}

impl Load for SimulatedDesktop {
    /// No device is there to be written.
    fn writes(&self) -> bool {
        false
    }

    fn is_cold(&self) -> bool {
        false
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        match objective {
            Objective::Cpu => Some("the simulation has no processors"),
            _ => DesktopSettings::lacks(objective),
        }
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        trial: &TrialInfo,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let seed = trial.settings.seed;
        let disk = self.disk.size_and_kind();
        let script = Script::new(&self.settings, disk, seed).map_err(LoadError::Run)?;
        let real_time = &mut RealTime::of_trial(at, tick);
        let (jobs, until) = (script.jobs.clone(), Some(LONGEST));
        let simulated = self
            .disk
            .run((&trial.arm, seed), jobs, until, None, real_time)?;
        script.outcome(&simulated).map_err(LoadError::Trial)
    }
}
