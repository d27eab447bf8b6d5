//! How long the arm takes for a distance.
//!
//! The form of Ruemmler and Wilkes (1994): `a + b * sqrt(d)` for short moves, `c + e * d` for long
//! ones, with a measured value for one cylinder; or a measured table with linear interpolation.

use std::ops::Range;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::disk::values::{number, some_whole};
use crate::units::Nanos;

/// The longest move that a file may give.
const LONGEST_MS: i32 = 1_000;

/// Time of a read seek by distance in cylinders of the drive in its nominal size: `[hdd.seek]` of a model's file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeekCurve {
    /// A function.
    Fit(Fit),
    /// (distance, time) in rising order of distance, linear in between and, along the last piece,
    /// beyond.
    #[serde(rename = "table_ms", deserialize_with = "table")]
    Table(Vec<(u32, Nanos)>),
}

/// `a + b * sqrt(d)` below the knee, `c + e * d` from there on.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The first distances, from one cylinder on, where they were measured.
    #[serde(deserialize_with = "each_millis")]
    pub first_ms: Vec<f64>,
    /// Offset of short moves.
    #[serde(deserialize_with = "number::<_, 0, 1000>")]
    pub a_ms: f64,
    /// Factor of the root.
    #[serde(deserialize_with = "number::<_, 0, 1000>")]
    pub b_ms: f64,
    /// Where long moves begin, if they differ.
    #[serde(default, deserialize_with = "some_whole::<_, _, 2, 0xffff_ffff>")]
    pub knee_cylinders: Option<u32>,
    /// Offset of long moves.
    #[serde(default, deserialize_with = "number::<_, 0, 1000>")]
    pub c_ms: f64,
    /// Factor of the distance.
    #[serde(default, deserialize_with = "number::<_, 0, 1000>")]
    pub e_ms: f64,
}

fn each_millis<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let first = Vec::<f64>::deserialize(from)?;
    check_millis(&first)?;
    Ok(first)
}

fn check_millis<E: Error>(times: &[f64]) -> Result<(), E> {
    let mut bad = times
        .iter()
        .filter(|time| !(0.0..=f64::from(LONGEST_MS)).contains(*time));
    bad.next().map_or(Ok(()), |time| {
        Err(E::custom(format!(
            "{time} is not between 0 and {LONGEST_MS}"
        )))
    })
}

fn table<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(u32, Nanos)>, D::Error> {
    let pairs = Vec::<(u32, f64)>::deserialize(from)?;
    let (distances, times): (Vec<u32>, Vec<f64>) = pairs.into_iter().unzip();
    check_millis(&times)?;
    if distances.len() < 2 || distances[0] == 0 || !distances.is_sorted_by(|a, b| a < b) {
        return Err(Error::custom(
            "two pairs [cylinders, ms] or more are needed; cylinders rise, from 1",
        ));
    }
    let times = times.into_iter().map(Nanos::from_millis_f64);
    Ok(distances.into_iter().zip(times).collect())
}

impl SeekCurve {
    /// The time for a move over `distance` cylinders; nothing for none.
    pub fn time(&self, distance: f64) -> Nanos {
        if distance <= 0.0 {
            return Nanos::ZERO;
        }
        match self {
            SeekCurve::Fit(fit) => Nanos::from_millis_f64(fit.millis(distance)),
            SeekCurve::Table(table) => {
                let after = table.partition_point(|&(known, _)| f64::from(known) < distance);
                let after = after.clamp(1, table.len() - 1);
                let ((d0, t0), (d1, t1)) = (table[after - 1], table[after]);
                let share = (distance - f64::from(d0)) / f64::from(d1 - d0);
                let time = t0.as_millis_f64() + share * (t1.as_millis_f64() - t0.as_millis_f64());
                Nanos::from_millis_f64(time.max(0.0))
            }
        }
    }

    /// Mean time of a move between two random cylinders of `cylinders`.
    #[cfg(test)]
    pub(crate) fn mean(&self, cylinders: u32) -> Nanos {
        // The density of the distance x (as a share of the whole) is 2 (1 - x).
        let steps = 10_000;
        let sum: f64 = (0..steps)
            .map(|step| {
                let share = (f64::from(step) + 0.5) / f64::from(steps);
                2.0 * (1.0 - share) * self.time(share * f64::from(cylinders)).as_millis_f64()
            })
            .sum();
        Nanos::from_millis_f64(sum / f64::from(steps))
    }
}

/// Distances on a drive made smaller than it is, in cylinders of the whole one: one cylinder stays
/// one, the whole way stays the whole way, in between it is linear.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    factor: f64,
}

impl Scale {
    pub(super) fn new(nominal: u32, actual: u32) -> Scale {
        let moves = |cylinders: u32| f64::from(cylinders.max(2) - 2).max(1.0);
        Scale {
            factor: moves(nominal) / moves(actual),
        }
    }

    #[inline]
    pub(super) fn nominal(self, distance: u32) -> f64 {
        if distance == 0 {
            return 0.0;
        }
        1.0 + f64::from(distance - 1) * self.factor
    }
}

/// The times of all moves of a drive, by distance in its own cylinders; four seconds at most.
#[derive(Debug)]
pub(super) enum SeekTimes {
    /// A table of a large drive would not stay in the processor's cache: working a time out from the
    /// fit is faster than waiting for memory.
    Fit {
        fit: Fit,
        scale: Scale,
        cylinders: u32,
    },
    /// Nanoseconds.
    Table(Vec<u32>),
}

impl Fit {
    /// In milliseconds, for a distance above zero.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a distance is below 2^32"
    )]
    fn millis(&self, distance: f64) -> f64 {
        if distance <= self.first_ms.len() as f64 {
            return self.first_ms[(distance.ceil() as usize).max(1) - 1];
        }
        if self.is_short(distance) {
            self.a_ms + self.b_ms * distance.sqrt()
        } else {
            self.c_ms + self.e_ms * distance
        }
    }

    #[inline]
    fn is_short(&self, distance: f64) -> bool {
        self.knee_cylinders
            .is_none_or(|knee| distance < f64::from(knee))
    }

    /// True if it may bend between these two distances: elsewhere it rises or falls all the way.
    fn bends_between(&self, from: f64, to: f64) -> bool {
        from <= self.first_ms.len() as f64 || (self.is_short(from) && !self.is_short(to))
    }
}

impl SeekTimes {
    /// `nominal`: cylinders that the curve refers to; `actual`: those that the drive has.
    pub(super) fn new(curve: &SeekCurve, nominal: u32, actual: u32) -> SeekTimes {
        let scale = Scale::new(nominal, actual);
        match curve {
            SeekCurve::Fit(fit) => SeekTimes::Fit {
                fit: fit.clone(),
                scale,
                cylinders: actual,
            },
            SeekCurve::Table(_) => {
                let time = |distance| clamped(curve.time(scale.nominal(distance)));
                SeekTimes::Table((0..actual).map(time).collect())
            }
        }
    }

    /// Cylinders of the drive.
    pub(super) fn cylinders(&self) -> u32 {
        match self {
            SeekTimes::Fit { cylinders, .. } => *cylinders,
            SeekTimes::Table(nanos) => u32::try_from(nanos.len()).expect("made for as many"),
        }
    }

    #[inline]
    pub(super) fn time(&self, distance: u32) -> Nanos {
        Nanos::new(u64::from(match self {
            SeekTimes::Table(nanos) => nanos[distance as usize],
            SeekTimes::Fit { .. } if distance == 0 => 0,
            SeekTimes::Fit { fit, scale, .. } => {
                clamped(Nanos::from_millis_f64(fit.millis(scale.nominal(distance))))
            }
        }))
    }

    /// The least time of these distances, of which there is one at least.
    pub(super) fn least(&self, distances: Range<u32>) -> Nanos {
        let (first, last) = (distances.start, distances.end - 1);
        let ends_tell = match self {
            SeekTimes::Fit { fit, scale, .. } => {
                first > 0 && !fit.bends_between(scale.nominal(first), scale.nominal(last))
            }
            SeekTimes::Table(_) => false,
        };
        if ends_tell {
            return self.time(first).min(self.time(last));
        }
        let times = distances.map(|distance| self.time(distance));
        times.min().expect("there is a distance")
    }
}

fn clamped(time: Nanos) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

/// What is added to moves for writing, and to which.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settle {
    pub(super) nanos: i64,
    /// Not after moves up to so many cylinders.
    pub(super) not_within: u32,
}

impl Settle {
    /// True if the heads settle after a move over so many cylinders, as far as that goes.
    pub(super) fn after_move_over(self, distance: u32) -> bool {
        distance > self.not_within || self.not_within == 0
    }

    /// The time of a move with settling.
    pub(super) fn add(self, moved: Nanos) -> Nanos {
        Nanos::new(moved.as_nanos().saturating_add_signed(self.nanos))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn curves() -> impl Strategy<Value = SeekCurve> {
        let first = prop::collection::vec(0.1..3.0_f64, 0..4);
        let fit = (
            first,
            0.0..3.0_f64,
            0.0..0.3_f64,
            1..3000_u32,
            0.0..8.0_f64,
            0.0..0.01_f64,
        );
        let fit = fit.prop_map(|(first_ms, a_ms, b_ms, knee, c_ms, e_ms)| {
            SeekCurve::Fit(Fit {
                first_ms,
                a_ms,
                b_ms,
                knee_cylinders: Some(knee),
                c_ms,
                e_ms,
            })
        });
        let steps = prop::collection::vec((1..500_u32, 0..9_000_000_u64), 2..6);
        let table = steps.prop_map(|steps| {
            let mut distance = 0;
            let points = steps.into_iter().map(|(step, nanos)| {
                distance += step;
                (distance, Nanos::new(nanos))
            });
            SeekCurve::Table(points.collect())
        });
        prop_oneof![fit, table]
    }

    proptest! {
        #[test]
        fn times_and_least_times_are_those_of_the_curve(
            curve in curves(), nominal in 3..6000_u32, actual in 3..6000_u32,
            chunk in prop::sample::select(vec![1_u32, 8, 256]),
        ) {
            let scale = Scale::new(nominal, actual);
            let times = SeekTimes::new(&curve, nominal, actual);
            prop_assert_eq!(times.cylinders(), actual);
            let most = Nanos::new(u64::from(u32::MAX));
            let expected = |distance| curve.time(scale.nominal(distance)).min(most);
            for begin in (0..actual).step_by(chunk as usize) {
                let range = begin..actual.min(begin + chunk);
                for distance in range.clone() {
                    prop_assert_eq!(times.time(distance), expected(distance));
                }
                prop_assert_eq!(times.least(range.clone()), range.map(expected).min().unwrap());
            }
        }
    }

    #[test]
    fn a_smaller_drive_keeps_its_shortest_and_its_longest_move() {
        let scale = Scale::new(10_001, 101);
        assert!((scale.nominal(1) - 1.0).abs() < 1e-9);
        assert!((scale.nominal(100) - 10_000.0).abs() < 1e-6);
        assert!(scale.nominal(0).abs() < 1e-9);
    }

    #[test]
    fn a_table_is_linear_between_its_points() {
        let table = vec![(1, Nanos::from_millis(1)), (101, Nanos::from_millis(3))];
        let curve = SeekCurve::Table(table);
        assert_eq!(curve.time(1.0), Nanos::from_millis(1));
        assert_eq!(curve.time(51.0), Nanos::from_millis(2));
        assert_eq!(curve.time(151.0), Nanos::from_millis(4));
        assert_eq!(curve.time(0.0), Nanos::ZERO);
    }
}
