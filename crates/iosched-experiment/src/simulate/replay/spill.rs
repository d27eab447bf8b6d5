//! The steps of closed loops in a temporary file, so that processes can be at different places of a trace
//! without the trace being in memory.
//!
//! A process's steps stand in chunks; each begins with the number of its steps and the place of the
//! next. The file has no name: it is gone with the program, however that ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use iosched_sim::request::Op;
use iosched_sim::units::{Nanos, Sector, Sectors};
use iosched_sim::workload::Access;
use iosched_sim::workload::replay::Step;

use super::error::{Failed, ReplayError};
use super::meter::Meter;

/// Bytes of a step in the file.
pub(super) const STEP: usize = 32;
const CHUNK_STEPS: usize = 255;
/// Number of steps, place of the next chunk, steps.
const HEADER: usize = 16;
const CHUNK: usize = HEADER + CHUNK_STEPS * STEP;

/// A chunk that is being filled, and where its process's steps begin.
struct Filling {
    first: u64,
    place: u64,
    bytes: Vec<u8>,
}

/// The temporary file cannot be written or read.
pub(super) fn spill_failed(cause: io::Error) -> ReplayError {
    ReplayError::Spill {
        directory: std::env::temp_dir(),
        cause,
    }
}

/// Takes the steps of all processes.
pub(super) struct SpillWriter {
    file: File,
    end: u64,
    /// By process.
    filling: Vec<Filling>,
}

impl SpillWriter {
    pub(super) fn new(processes: usize) -> io::Result<SpillWriter> {
        let mut writer = SpillWriter {
            file: tempfile::tempfile()?,
            end: 0,
            filling: Vec::new(),
        };
        for _ in 0..processes {
            let first = writer.place();
            writer.filling.push(Filling {
                first,
                place: first,
                bytes: vec![0; HEADER],
            });
        }
        Ok(writer)
    }

    fn place(&mut self) -> u64 {
        let place = self.end;
        self.end += CHUNK as u64;
        place
    }

    /// The next step of a process.
    pub(super) fn add(&mut self, process: usize, step: &Step) -> io::Result<()> {
        if self.filling[process].bytes.len() == CHUNK {
            let next = self.place();
            self.write(process, next)?;
            let filling = &mut self.filling[process];
            filling.place = next;
            filling.bytes.truncate(HEADER);
        }
        self.filling[process].bytes.extend_from_slice(&encode(step));
        Ok(())
    }

    fn write(&mut self, process: usize, next: u64) -> io::Result<()> {
        let Filling { place, bytes, .. } = &mut self.filling[process];
        let steps = (bytes.len() - HEADER) / STEP;
        bytes[..8].copy_from_slice(&(steps as u64).to_le_bytes());
        bytes[8..HEADER].copy_from_slice(&next.to_le_bytes());
        self.file.write_all_at(bytes, *place)
    }

    pub(super) fn finish(mut self) -> io::Result<Spill> {
        for process in 0..self.filling.len() {
            self.write(process, u64::MAX)?;
        }
        Ok(Spill {
            file: Arc::new(self.file),
            firsts: self.filling.iter().map(|filling| filling.first).collect(),
        })
    }
}

#[derive(Debug)]
pub(super) struct Spill {
    file: Arc<File>,
    firsts: Vec<u64>,
}

impl Spill {
    /// The steps of a process from the beginning. `failed` is told if they cannot be read to the end.
    pub(super) fn steps(&self, process: usize, meter: &Arc<Meter>, failed: &Failed) -> SpillReader {
        SpillReader {
            file: Arc::clone(&self.file),
            next: self.firsts[process],
            bytes: Vec::new(),
            at: 0,
            meter: Arc::clone(meter),
            failed: failed.clone(),
        }
    }
}

/// The steps of a process.
pub(super) struct SpillReader {
    file: Arc<File>,
    next: u64,
    bytes: Vec<u8>,
    at: usize,
    meter: Arc<Meter>,
    failed: Failed,
}

impl SpillReader {
    /// Reads the next chunk; false if there is none.
    fn read(&mut self) -> io::Result<bool> {
        if self.next == u64::MAX {
            return Ok(false);
        }
        let mut header = [0; HEADER];
        self.file.read_exact_at(&mut header, self.next)?;
        let (steps, next) = (number(&header[..8]), number(&header[8..]));
        let length = usize::try_from(steps).map_or(0, |steps| steps.min(CHUNK_STEPS) * STEP);
        self.bytes.resize(length, 0);
        self.file
            .read_exact_at(&mut self.bytes, self.next + HEADER as u64)?;
        self.meter.advance(length as u64);
        self.next = next;
        self.at = 0;
        Ok(true)
    }
}

impl Iterator for SpillReader {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        while self.at == self.bytes.len() {
            match self.read() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(cause) => {
                    self.failed.set(spill_failed(cause));
                    self.next = u64::MAX;
                    return None;
                }
            }
        }
        self.at += STEP;
        Some(decode(&self.bytes[self.at - STEP..self.at]))
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn encode(step: &Step) -> [u8; STEP] {
    let access = &step.access;
    let kind: u8 = match access.op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Discard => 2,
    };
    let beside = u32::try_from(step.beside).unwrap_or(u32::MAX);
    let mut bytes = [0; STEP];
    bytes[..8].copy_from_slice(&access.start.as_u64().to_le_bytes());
    bytes[8..16].copy_from_slice(&access.length.as_u64().to_le_bytes());
    bytes[16..24].copy_from_slice(&step.think.as_nanos().to_le_bytes());
    bytes[24..28].copy_from_slice(&beside.to_le_bytes());
    bytes[28] = kind;
    bytes[29] = u8::from(access.sync);
    bytes
}

fn decode(bytes: &[u8]) -> Step {
    let beside = u32::from_le_bytes(bytes[24..28].try_into().expect("four bytes"));
    Step {
        access: Access {
            op: match bytes[28] {
                0 => Op::Read,
                1 => Op::Write,
                _ => Op::Discard,
            },
            start: Sector::new(number(&bytes[..8])),
            length: Sectors::new(number(&bytes[8..16])),
            sync: bytes[29] != 0,
        },
        beside: beside as usize,
        think: Nanos::new(number(&bytes[16..24])),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn step(seed: u64) -> Step {
        Step {
            access: Access {
                op: [Op::Read, Op::Write, Op::Discard][usize::try_from(seed % 3).unwrap()],
                start: Sector::new(seed * 7),
                length: Sectors::new(seed % 100 + 1),
                sync: seed.is_multiple_of(2),
            },
            beside: usize::try_from(seed % 50).unwrap(),
            think: Nanos::new(seed * 3),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn each_process_gets_its_steps_back_in_order(
            order in prop::collection::vec(0_usize..4, 0..3000),
        ) {
            let mut writer = SpillWriter::new(4).unwrap();
            let mut expected = vec![Vec::new(); 4];
            for (seed, process) in (0..).zip(&order) {
                writer.add(*process, &step(seed)).unwrap();
                expected[*process].push(step(seed));
            }
            let spill = writer.finish().unwrap();
            let (meter, failed) = (Arc::default(), Failed::default());
            for (process, expected) in expected.into_iter().enumerate() {
                let steps: Vec<_> = spill.steps(process, &meter, &failed).collect();
                prop_assert_eq!(steps, expected);
            }
            prop_assert!(failed.take().is_none());
            prop_assert_eq!(meter.read().0, (order.len() * STEP) as u64);
        }
    }
}
