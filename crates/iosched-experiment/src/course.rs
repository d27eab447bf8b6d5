//! The course of a trial: what the disks completed in slices of it.
//!
//! On a device the thread that waits for the load reads the disks' counters now and then; slices become twice as long whenever there are
//! 64 of them, so that a trial of any length has some dozens, and reading them costs nothing to speak of.

use std::time::Duration;

use iosched_stats::autocorrelation::FEWEST;
use serde::{Deserialize, Serialize};

use crate::objective::Objective;

/// The most slices that are kept.
const MOST_SLICES: usize = 64;

/// The most slices that are looked at: no run of ours has so many, but a record may be anybody's.
const MOST_READ: usize = 1000;

/// The shortest slice: waiting loops look around that often.
const SHORTEST_SLICE: Duration = Duration::from_millis(50);

/// Slices of a trial whose run time is known before.
const WANTED_SLICES: u32 = 50;

/// The part of what is usual from which on a slice counts as one in which the load ran.
const RUNNING: f64 = 0.1;

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

    /// What decides in each slice in which the load ran, without a time at its beginning. The first and the last such slice are left out, in
    /// which it ran for a part of the time only.
    pub(crate) fn running(&self, objective: Objective, ramp_s: f64) -> Vec<f64> {
        let counts = match objective {
            Objective::Throughput => &self.bytes,
            _ => &self.ios,
        };
        if !(FEWEST..=MOST_READ).contains(&counts.len()) {
            return Vec::new();
        }
        let values: Vec<f64> = counts.iter().map(|&count| count as f64).collect();
        let middle = &values[values.len() / 4..values.len() - values.len() / 4];
        let usual = middle.iter().sum::<f64>() / middle.len().max(1) as f64;
        if usual <= 0.0 {
            return Vec::new();
        }
        let is_running = |value: &f64| *value >= usual * RUNNING;
        let first = values.iter().position(is_running).unwrap_or(0);
        let last = values.iter().rposition(is_running).unwrap_or(0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of slices; too large a one is the largest"
        )]
        let ramp = (ramp_s / self.slice_s).ceil().max(0.0) as usize;
        let from = first.saturating_add(1).saturating_add(ramp);
        values.get(from..last).unwrap_or_default().to_vec()
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

    #[test]
    fn a_course_of_more_slices_than_any_run_has_says_nothing() {
        let said = |slices: usize| {
            let course = Course {
                slice_s: 1e-4,
                ios: vec![1; slices],
                bytes: vec![1; slices],
            };
            course.running(Objective::Throughput, 0.0).len()
        };
        assert!(said(MOST_READ) > 0);
        assert_eq!(said(MOST_READ + 1), 0);
    }

    #[test]
    fn what_is_before_and_after_the_load_is_no_part_of_its_course() {
        let mut bytes = vec![0, 3, 50];
        bytes.extend([100; 30]);
        bytes.extend([40, 0, 0]);
        let course = Course {
            slice_s: 0.1,
            ios: bytes.iter().map(|bytes| bytes * 2).collect(),
            bytes,
        };
        assert_eq!(course.running(Objective::Throughput, 0.0), [100.0; 30]);
        assert_eq!(course.running(Objective::Iops, 0.0), [200.0; 30]);
        assert_eq!(course.running(Objective::Throughput, 1.0), [100.0; 20]);
        assert!(course.running(Objective::Throughput, 1e300).is_empty());
    }

    #[test]
    fn of_nothing_there_is_no_course() {
        assert_eq!(CourseWatch::new().end(), None);
        assert!(Course::default().running(Objective::Iops, 0.0).is_empty());
        let idle = Course {
            slice_s: 0.1,
            ios: vec![0; 50],
            bytes: vec![0; 50],
        };
        assert!(idle.running(Objective::Iops, 0.0).is_empty());
        let odd = Course {
            slice_s: 0.0,
            ios: vec![1; 50],
            bytes: Vec::new(),
        };
        assert!(odd.running(Objective::Throughput, 0.0).is_empty());
        let _ = odd.running(Objective::Iops, 1.0);
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
