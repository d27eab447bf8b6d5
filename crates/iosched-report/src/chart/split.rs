//! Bars of parts: how long an access waited before the queue, in it, and at the disk.

use super::{Axis, Form, Point, Series};
use crate::units::MILLISECONDS;
use crate::words::milliseconds;

/// What a bar shows.
pub(super) struct Waited {
    /// Name of its row.
    pub(super) row: String,
    /// Of what it is, in words.
    pub(super) of: String,
    /// Mean time before the queue: no free request or tag. Nothing if that is not known.
    pub(super) before_ns: Option<f64>,
    /// Mean time in the queue.
    pub(super) queue_ns: f64,
    /// Mean time at the disk.
    pub(super) service_ns: f64,
    /// The 99th percentiles of both, where they are known.
    pub(super) tails_ns: Option<(u64, u64)>,
}

/// A part of a bar: its name, from where to where it reaches, and its 99th percentile.
type Part = fn(&Waited) -> (f64, f64, Option<u64>);

impl Waited {
    /// Where the time in the queue begins and ends.
    fn queue(&self) -> (f64, f64) {
        let begins = self.before_ns.unwrap_or(0.0);
        (begins, begins + self.queue_ns)
    }
}

/// In the order in which they lie in a bar, each with its colour.
const PARTS: [(&str, usize, Part); 3] = [
    ("before the queue", 6, |waited| {
        (0.0, waited.queue().0, None)
    }),
    ("in the queue", 4, |waited| {
        let (begins, ends) = waited.queue();
        (begins, ends, waited.tails_ns.map(|tails| tails.0))
    }),
    ("at the disk", 5, |waited| {
        let (_, begins) = waited.queue();
        let ends = begins + waited.service_ns;
        (begins, ends, waited.tails_ns.map(|tails| tails.1))
    }),
];

/// The series, a row for each bar; what is known of no bar is none.
pub(super) fn series(bars: &[Waited]) -> Vec<Series> {
    let is_whole = bars.iter().any(|waited| waited.before_ns.is_some());
    let parts = PARTS.into_iter().skip(usize::from(!is_whole));
    let series = parts.map(|(name, slot, part)| {
        let point = |(row, waited): (usize, &Waited)| {
            let (from, to, tail) = part(waited);
            let mean = milliseconds(to - from);
            let tail = tail.map_or_else(String::new, |tail| {
                let about = if tail == 0 { "" } else { "about " };
                format!(" (99 % within {about}{} ms)", milliseconds(tail as f64))
            });
            let words = format!("{}, {name}: {mean} ms{tail}", waited.of);
            Point {
                from: from / MILLISECONDS.size,
                ..Point::new(to / MILLISECONDS.size, -(row as f64), words)
            }
        };
        Series {
            name: name.to_owned(),
            slot,
            form: Form::Bars(0.66),
            points: bars.iter().enumerate().map(point).collect(),
        }
    });
    series.collect()
}

/// The names of the rows.
pub(super) fn rows(bars: &[Waited]) -> Axis {
    Axis::names(bars.iter().map(|waited| waited.row.as_str()))
}
