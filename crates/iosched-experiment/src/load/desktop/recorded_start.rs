//! The start of a program that is not in memory: a process that reads its pages in the order in which it needs
//! them, and waits for each read.
//!
//! The reads are those of one start that was recorded, as Linux reads ahead on such a disk: 2 MiB where it turns
//! (`loads/program-start-rotational.txt`), 128 KiB elsewhere (`loads/program-start.txt`). Each start is a process of
//! its own, as a started program is: a scheduler has not seen it before.

use std::sync::Arc;

use iosched_sim::request::Op;
use iosched_sim::units::{Nanos, Sectors};
use iosched_sim::workload::replay::Step;
use iosched_sim::workload::{Access, Job};

use super::extents::Files;

const RECORDED: &str = include_str!("../../../loads/program-start.txt");
const RECORDED_ROTATIONAL: &str = include_str!("../../../loads/program-start-rotational.txt");

/// A read of the recorded start.
struct Read {
    /// From the beginning of the program's files.
    offset: Sectors,
    length: Sectors,
    think: Nanos,
}

fn recorded(rotational: bool) -> impl Iterator<Item = Read> {
    let recorded = if rotational {
        RECORDED_ROTATIONAL
    } else {
        RECORDED
    };
    let lines = recorded.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .map(|number| number.parse().expect("our own table has numbers only"))
            .collect();
        let [offset, length, think] = numbers[..] else {
            unreachable!("our own table has three columns");
        };
        Read {
            offset: Sectors::new(offset),
            length: Sectors::new(length),
            think: Nanos::from_micros(think),
        }
    })
}

/// When the starts of a trial begin at the earliest, by their number.
pub(super) type Begin<'a> = &'a dyn Fn(u32) -> Nanos;

/// The starts of a trial, one after the other: the first processes of a load.
pub(super) fn jobs(starts: u32, rotational: bool, begin: Begin<'_>, files: &mut Files) -> Vec<Job> {
    let reads: Vec<Read> = recorded(rotational).collect();
    let ends = reads.iter().map(|read| read.offset + read.length);
    let program = files.make(ends.max().unwrap_or(Sectors::ZERO).to_bytes().as_u64());
    let steps: Arc<[Step]> = reads
        .iter()
        .map(|read| Step {
            access: Access {
                op: Op::Read,
                start: program.start + read.offset,
                length: read.length,
                sync: true,
            },
            beside: 0,
            think: read.think,
        })
        .collect();
    (0..starts)
        .map(|start| Job {
            name: format!("start-{}", start + 1),
            start: program.start,
            span: program.length,
            steps: Some(Arc::clone(&steps)),
            delay: begin(start),
            after: (start > 0).then(|| start as usize - 1),
            ..Job::default()
        })
        .collect()
}
