//! A build: what the processes of [`build`](super::super::build) read and write.

use std::collections::BTreeSet;
use std::sync::Arc;

use iosched_sim::request::Op;
use iosched_sim::simulate::Outcome as Simulated;
use iosched_sim::units::{Nanos, Sector, Sectors};
use iosched_sim::workload::replay::Step;
use iosched_sim::workload::{Access, Job, Syncing};

use super::super::Outcome;
use super::super::build::{
    BuildSettings, HEADER_GROUPS, HEADERS, SOURCES_OF_A_DIRECTORY, UNIT, units_of_source,
};
use super::files::{File, Files, sectors};

/// To start `cat`, which the load does twice for each source.
const STARTED: Nanos = Nanos::from_millis(1);

/// What `cat` writes at once.
const LINKED: Sectors = Sectors::new(256);

/// Where everything lies.
struct Tree {
    /// Of each group.
    headers: Vec<File>,
    sources: Vec<File>,
    objects: Vec<File>,
}

/// Processes that build the sources, then one that puts the objects together and waits until all is on the disk.
pub(super) fn jobs(settings: &BuildSettings, files: &mut Files) -> Vec<Job> {
    let unit = UNIT as u64;
    let size = |source: u32| u64::from(units_of_source(source)) * unit;
    let tree = Tree {
        headers: (0..HEADER_GROUPS)
            .map(|_| files.make(u64::from(HEADERS) * unit))
            .collect(),
        sources: (0..settings.files)
            .map(|source| files.make(size(source)))
            .collect(),
        objects: (0..settings.files)
            .map(|source| files.make(2 * size(source)))
            .collect(),
    };
    let objects: Sectors = tree.objects.iter().map(|object| object.length).sum();
    let program = files.make(objects.to_bytes().as_u64());
    let mut jobs = compilers(settings, &tree);
    jobs.push(Job {
        name: "link".to_owned(),
        start: program.start,
        span: program.length,
        buffered: true,
        steps: Some(program_written(program)),
        sync: Syncing {
            at_end: true,
            ..Syncing::default()
        },
        group: 1,
        ..Job::default()
    });
    jobs
}

/// What it is made of is in memory: it was written only now.
fn program_written(program: File) -> Arc<[Step]> {
    let mut steps = Vec::new();
    let mut at = Sectors::ZERO;
    while at < program.length {
        let length = LINKED.min(program.length - at);
        steps.push(step(Op::Write, program.start + at, length, Nanos::ZERO));
        at += length;
    }
    steps.into()
}

fn step(op: Op, start: Sector, length: Sectors, think: Nanos) -> Step {
    Step {
        access: Access {
            op,
            start,
            length,
            sync: true,
        },
        beside: 0,
        think,
    }
}

/// Headers that are not in memory yet are read by whoever comes to them first: who has fewer sources before, and of
/// those the first.
fn compilers(settings: &BuildSettings, tree: &Tree) -> Vec<Job> {
    let lists: Vec<Vec<u32>> = (0..settings.jobs)
        .map(|job| sources_of(settings, job))
        .collect();
    let mut steps: Vec<Vec<Step>> = vec![Vec::new(); lists.len()];
    let mut known = BTreeSet::new();
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    for place in 0..longest {
        for (list, steps) in lists.iter().zip(&mut steps) {
            if let Some(&source) = list.get(place) {
                let group = source % HEADER_GROUPS;
                build_one(tree, source, known.insert(group), steps);
            }
        }
    }
    let compiler = |(number, steps): (usize, Vec<Step>)| Job {
        name: format!("job-{}", number + 1),
        buffered: true,
        steps: Some(steps.into()),
        ..Job::default()
    };
    let busy = steps.into_iter().enumerate();
    let busy = busy.filter(|(_, steps)| !steps.is_empty());
    busy.map(compiler).collect()
}

/// Every so manieth directory, its files in the order of their names, as the shell lists them.
fn sources_of(settings: &BuildSettings, job: u32) -> Vec<u32> {
    let directories = settings.files.div_ceil(SOURCES_OF_A_DIRECTORY);
    let own = (0..directories).filter(|directory| (directory + 1) % settings.jobs == job);
    own.flat_map(|directory| {
        let first = directory * SOURCES_OF_A_DIRECTORY;
        let end = settings.files.min(first + SOURCES_OF_A_DIRECTORY);
        let mut sources: Vec<u32> = (first..end).collect();
        sources.sort_by_key(|source| format!("{}-{source}", source % HEADER_GROUPS));
        sources
    })
    .collect()
}

fn build_one(tree: &Tree, source: u32, is_first_of_group: bool, steps: &mut Vec<Step>) {
    let mut think = STARTED;
    if is_first_of_group {
        let group = tree.headers[(source % HEADER_GROUPS) as usize];
        let header = sectors(UNIT as u64);
        for number in 0..u64::from(HEADERS) {
            let start = group.start + header * number;
            steps.push(step(Op::Read, start, header, think));
            think = Nanos::ZERO;
        }
    }
    let text = tree.sources[source as usize];
    steps.push(step(Op::Read, text.start, text.length, think));
    let object = tree.objects[source as usize];
    steps.push(step(Op::Write, object.start, object.length, STARTED));
}

/// As the load itself says it.
pub(super) fn outcome(simulated: &Simulated) -> Outcome {
    let whole = simulated.elapsed.as_secs_f64();
    let link = simulated.processes.last().expect("it comes last");
    let written_back = link.syncs.total.mean().as_secs_f64();
    let linking = (link.elapsed.as_secs_f64() - written_back).max(0.0);
    let numbers = [
        ("compiling s", whole - linking - written_back),
        ("linking s", linking),
        ("writing back s", written_back),
    ];
    Outcome {
        elapsed_s: Some(whole),
        numbers: numbers
            .map(|(name, seconds)| (name.to_owned(), seconds))
            .into(),
        ..Outcome::default()
    }
}
