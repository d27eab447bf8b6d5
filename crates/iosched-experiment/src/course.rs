//! The course of a trial: what the disks completed in slices of it.
//!
//! On a device the thread that waits for the load reads the disks' counters now and then; slices become twice as long whenever there are
//! 64 of them, so that a trial of any length has some dozens, and reading them costs nothing to speak of.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The most slices that are kept.
const MOST_SLICES: usize = 64;

/// The shortest slice: waiting loops look around that often.
const SHORTEST_SLICE: Duration = Duration::from_millis(50);

/// Slices of a trial whose run time is known before.
const WANTED_SLICES: u32 = 50;

/// What the disks of the target completed in slices of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// Length of a slice, s.
    pub slice_s: f64,
    /// I/Os completed in each.
    pub ios: Vec<u64>,
    /// Bytes of them.
    pub bytes: Vec<u64>,
}

impl Course {
    /// How long slices are of a load that is simulated for so long.
    pub(crate) fn slice_of(runtime: Duration) -> Duration {
        (runtime / WANTED_SLICES).max(SHORTEST_SLICE)
    }
}

/// Keeps a course while a load runs.
#[derive(Debug)]
pub(crate) struct CourseWatch {
    /// Time, I/Os and bytes since the beginning.
    samples: Vec<(Duration, u64, u64)>,
    slice: Duration,
}

impl CourseWatch {
    pub(crate) fn new() -> CourseWatch {
        CourseWatch {
            samples: vec![(Duration::ZERO, 0, 0)],
            slice: SHORTEST_SLICE,
        }
    }

    /// Whether a slice is over.
    pub(crate) fn is_due(&self, elapsed: Duration) -> bool {
        let last = self.samples.last().map_or(Duration::ZERO, |last| last.0);
        // Who waits looks around at times of his own, some of them a little early.
        elapsed >= last + self.slice * 9 / 10
    }

    /// So much was completed since the beginning.
    pub(crate) fn add(&mut self, elapsed: Duration, ios: u64, bytes: u64) {
        self.samples.push((elapsed, ios, bytes));
        if self.samples.len() > MOST_SLICES + 1 {
            let mut number = 0_usize;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.slice *= 2;
        }
    }

    /// In slices of equal length; what was completed between two samples is taken to have come evenly.
    pub(crate) fn end(self) -> Option<Course> {
        let (end, ..) = *self.samples.last()?;
        let slices = end.as_nanos() / self.slice.as_nanos();
        let slices = u32::try_from(slices).ok().filter(|&slices| slices > 0)?;
        let mut samples = self.samples.windows(2).peekable();
        let edges = (0..=slices).map(|slice| {
            let at = self.slice * slice;
            while samples.peek().is_some_and(|pair| pair[1].0 < at) {
                samples.next();
            }
            samples.peek().map_or((0.0, 0.0), |pair| {
                let ((from, ios, bytes), (to, ios_then, bytes_then)) = (pair[0], pair[1]);
                let length = to.saturating_sub(from).as_secs_f64();
                let part = at.saturating_sub(from).as_secs_f64() / length.max(1e-9);
                let between = |a: u64, b: u64| a as f64 + (b as f64 - a as f64) * part.min(1.0);
                (between(ios, ios_then), between(bytes, bytes_then))
            })
        });
        let edges: Vec<(f64, f64)> = edges.collect();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counters only grow, and were whole"
        )]
        let steps = |pick: fn(&(f64, f64)) -> f64| {
            let pairs = edges.windows(2);
            pairs
                .map(|pair| (pick(&pair[1]).round() - pick(&pair[0]).round()).max(0.0) as u64)
                .collect()
        };
        Some(Course {
            slice_s: self.slice.as_secs_f64(),
            ios: steps(|edge| edge.0),
            bytes: steps(|edge| edge.1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn watched(samples: &[(u64, u64)]) -> Course {
        let mut watch = CourseWatch::new();
        for &(millis, ios) in samples {
            let elapsed = Duration::from_millis(millis);
            if watch.is_due(elapsed) {
                watch.add(elapsed, ios, ios * 4096);
            }
        }
        watch.end().unwrap()
    }

    #[test]
    fn slices_are_of_equal_length_though_samples_come_late() {
        // Ten I/Os in ten milliseconds, all the time.
        let course = watched(&[(50, 50), (115, 115), (165, 165), (225, 225)]);
        assert_eq!(course.ios, [50; 4]);
        assert_eq!(course.bytes, [204_800; 4]);
    }

    #[test]
    fn a_trial_of_any_length_has_some_dozens_of_slices() {
        for seconds in [5, 10, 60, 3600] {
            let samples: Vec<(u64, u64)> = (1..=seconds * 20).map(|at| (at * 50, at * 7)).collect();
            let course = watched(&samples);
            assert!(
                (30..=64).contains(&course.ios.len()),
                "{seconds}: {}",
                course.ios.len()
            );
            let length = course.slice_s * course.ios.len() as f64;
            assert!(
                (length - seconds as f64).abs() <= 2.0 * course.slice_s,
                "{seconds}: {length}"
            );
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_between_slices(
            steps in prop::collection::vec((47_u64..400, 0_u64..1_000_000), 1..400),
        ) {
            let mut at = (0, 0);
            let samples: Vec<(u64, u64)> = steps
                .into_iter()
                .map(|(millis, ios)| {
                    at = (at.0 + millis, at.1 + ios);
                    at
                })
                .collect();
            if samples.last().is_some_and(|last| last.0 >= 50) {
                let course = watched(&samples);
                let total: u64 = course.ios.iter().sum();
                prop_assert!(total <= at.1);
                prop_assert!(course.ios.len() <= 2 * MOST_SLICES * 4);
            }
        }
    }
}
