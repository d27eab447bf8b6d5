//! How long the arm takes for a distance.
//!
//! The form of Ruemmler and Wilkes (1994): `a + b * sqrt(d)` for short moves, `c + e * d` for long
//! ones, with a measured value for one cylinder; or a measured table with linear interpolation.

use crate::units::Nanos;

/// Time of a read seek by distance in cylinders of the drive in its nominal size.
#[derive(Debug, Clone, PartialEq)]
pub enum SeekCurve {
    /// `a + b * sqrt(d)` below `knee`, `c + e * d` from there on; milliseconds.
    Fit {
        /// The first distances, from one cylinder on, where they were measured.
        first: Vec<f64>,
        /// Offset of short moves.
        a: f64,
        /// Factor of the root.
        b: f64,
        /// Where long moves begin.
        knee: u32,
        /// Offset of long moves.
        c: f64,
        /// Factor of the distance.
        e: f64,
    },
    /// (distance, time) in rising order of distance, linear in between and, along the last piece,
    /// beyond.
    Table(Vec<(u32, Nanos)>),
}

impl SeekCurve {
    /// The time for a move over `distance` cylinders; nothing for none.
    pub fn time(&self, distance: f64) -> Nanos {
        if distance <= 0.0 {
            return Nanos::ZERO;
        }
        match self {
            SeekCurve::Fit {
                first,
                a,
                b,
                knee,
                c,
                e,
            } => {
                let measured = (1..=first.len()).find(|&known| distance <= known as f64);
                Nanos::from_millis_f64(match measured {
                    Some(known) => first[known - 1],
                    None if distance < f64::from(*knee) => a + b * distance.sqrt(),
                    None => c + e * distance,
                })
            }
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
    pub fn mean(&self, cylinders: u32) -> Nanos {
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

    pub(super) fn nominal(self, distance: u32) -> f64 {
        if distance == 0 {
            return 0.0;
        }
        1.0 + f64::from(distance - 1) * self.factor
    }
}

/// The times of all moves of a drive, by distance in its own cylinders.
#[derive(Debug)]
pub(super) struct SeekTable {
    nanos: Vec<u32>,
}

impl SeekTable {
    /// `nominal`: cylinders that the curve refers to; `actual`: those that the drive has.
    pub(super) fn new(curve: &SeekCurve, nominal: u32, actual: u32) -> SeekTable {
        let scale = Scale::new(nominal, actual);
        let nanos = |distance| {
            let time = curve.time(scale.nominal(distance)).as_nanos();
            u32::try_from(time).unwrap_or(u32::MAX) // four seconds
        };
        SeekTable {
            nanos: (0..actual).map(nanos).collect(),
        }
    }

    /// Nanoseconds of each distance, from none on.
    pub(super) fn all(&self) -> &[u32] {
        &self.nanos
    }

    pub(super) fn time(&self, distance: u32) -> Nanos {
        Nanos::new(u64::from(self.nanos[distance as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn the_mean_over_a_root_is_eight_fifteenths_of_the_way() {
        // E[sqrt(x)] for the distance of two random points is 8/15.
        let curve = SeekCurve::Fit {
            first: vec![0.0],
            a: 0.0,
            b: 1.0,
            knee: u32::MAX,
            c: 0.0,
            e: 0.0,
        };
        let mean = curve.mean(1_000_000).as_millis_f64();
        assert!((mean - 1000.0 * 8.0 / 15.0).abs() < 1.0, "{mean}");
    }
}
