//! Times to the nanosecond, in files beside a recording.
//!
//! | file | each line | of each |
//! |---|---|---|
//! | `NAME.start` | time in µs, sector, start time | request that was dispatched |
//! | `NAME.done` | sector, issue time, now, … | completion |
//!
//! The lines of a file are in the order of the recording's events. Times are those that the scheduler saw, in nanoseconds
//! from the recording's time zero.

use std::collections::BTreeMap;

use iosched_facts::units::{Sector, Sectors, Time};
use iosched_sim::request::Op;
use iosched_sim::trace::kernel::Action;

use super::multi_queue::Recording;

/// What such a file tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exact {
    /// `NAME.start`
    Starts,
    /// `NAME.done`
    Completions,
}

impl Exact {
    /// All of them, with what follows the recording's name.
    pub const ALL: [(Exact, &'static str); 2] =
        [(Exact::Starts, ".start"), (Exact::Completions, ".done")];
}

/// What the files beside a recording tell.
#[derive(Debug, Default)]
pub struct Beside {
    starts: Vec<(Sector, i64)>,
    completions: Vec<(Sector, i64, i64)>,
}

impl Beside {
    /// Reads a line. `None`: it is no such line.
    pub fn line(&mut self, of: Exact, text: &str) -> Option<()> {
        if text.starts_with('#') || text.trim().is_empty() {
            return Some(());
        }
        let mut numbers = text.split_ascii_whitespace();
        let mut number = || numbers.next()?.parse::<i64>().ok();
        let sector = |number: i64| u64::try_from(number).ok().map(Sector::new);
        match of {
            Exact::Starts => {
                let _ = number()?;
                self.starts.push((sector(number()?)?, number()?));
            }
            Exact::Completions => {
                let completion = (sector(number()?)?, number()?, number()?);
                self.completions.push(completion);
            }
        }
        Some(())
    }
}

/// Requests by what they do and where they begin, as places in a recording.
#[derive(Default)]
struct Open(BTreeMap<(Option<Op>, Sector), Vec<usize>>);

impl Open {
    fn add(&mut self, op: Option<Op>, start: Sector, place: usize) {
        self.0.entry((op, start)).or_default().push(place);
    }

    fn take(&mut self, op: Option<Op>, start: Sector) -> Option<usize> {
        let places = self.0.get_mut(&(op, start))?;
        (!places.is_empty()).then(|| places.remove(0))
    }
}

impl Recording {
    /// Takes over what is told beside it, as far as it is of the same events.
    pub fn refine(&mut self, beside: &Beside) {
        let time = |nanos: i64, zero: u64| {
            let time = zero.checked_add_signed(nanos).unwrap_or_default();
            Time::from_nanos(time)
        };
        let zero = self.reader.zero().as_nanos();
        let mut starts = beside.starts.iter();
        let mut completions = beside.completions.iter();
        let (mut allocated, mut issued) = (Open::default(), Open::default());
        for at in 0..self.steps.len() {
            let step = self.steps[at];
            match step.action {
                Action::Allocated => allocated.add(step.op, step.start, at),
                Action::FrontMerged => {
                    let old: Sector = step.start + step.length;
                    if let Some(place) = allocated.take(step.op, old) {
                        allocated.add(step.op, step.start, place);
                    }
                }
                Action::BackMerged | Action::RequestsMerged => {
                    allocated.take(step.op, step.start);
                }
                Action::Dispatched => {
                    let told = starts.next().filter(|told| told.0 == step.start);
                    let place = allocated.take(step.op, step.start);
                    if let (Some(&(_, start)), Some(place)) = (told, place) {
                        self.steps[place].exact = Some(time(start, zero));
                    }
                }
                Action::Issued => issued.add(step.op, step.start, at),
                Action::Completed if step.length > Sectors::ZERO => {
                    let told = completions.next().filter(|told| told.0 == step.start);
                    let place = issued.take(step.op, step.start);
                    if let (Some(&(_, issue, now)), Some(place)) = (told, place) {
                        self.steps[place].exact = Some(time(issue, zero));
                        self.steps[at].exact = Some(time(now, zero));
                    }
                }
                _ => {}
            }
        }
    }
}
