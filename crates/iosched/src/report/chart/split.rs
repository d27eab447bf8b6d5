//! Bars of two parts: how long a request was in the queue, and how long at the disk.

use super::{Axis, Form, Point, Series};
use crate::report::units::MILLISECONDS;
use crate::report::words::milliseconds;

/// What a bar shows.
pub(super) struct Waited {
    /// Name of its row.
    pub(super) row: String,
    /// Of what it is, in words.
    pub(super) of: String,
    /// Mean time in the queue.
    pub(super) queue_ns: f64,
    /// Mean time at the disk.
    pub(super) service_ns: f64,
    /// The 99th percentiles of both, where they are known.
    pub(super) tails_ns: Option<(u64, u64)>,
}

/// A part of a bar: its name, from where to where it reaches, and its 99th percentile.
type Part = fn(&Waited) -> (f64, f64, Option<u64>);

const PARTS: [(&str, Part); 2] = [
    ("in the queue", |waited| {
        (0.0, waited.queue_ns, waited.tails_ns.map(|tails| tails.0))
    }),
    ("at the disk", |waited| {
        let whole = waited.queue_ns + waited.service_ns;
        (waited.queue_ns, whole, waited.tails_ns.map(|tails| tails.1))
    }),
];

/// The two series, a row for each bar.
pub(super) fn series(bars: &[Waited]) -> Vec<Series> {
    let series = PARTS.into_iter().enumerate().map(|(slot, (name, part))| {
        let point = |(row, waited): (usize, &Waited)| {
            let (from, to, tail) = part(waited);
            let mean = milliseconds(to - from);
            let tail = tail.map_or_else(String::new, |tail| {
                format!(" (99 % within {} ms)", milliseconds(tail as f64))
            });
            let words = format!("{}, {name}: {mean} ms{tail}", waited.of);
            Point {
                from: from / MILLISECONDS.size,
                ..Point::new(to / MILLISECONDS.size, -(row as f64), words)
            }
        };
        Series {
            name: name.to_owned(),
            slot: slot + 4,
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
