//! Angles, and the platter that turns: which angle is under the heads when.

use crate::reciprocal::Divisor;
use crate::units::{Nanos, Time};

/// A part of a turn, in units of 2^-32 of it. Arithmetic wraps, as angles do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Angle(pub(super) u32);

impl Angle {
    /// How far it is from here on to `other`, in the direction of rotation.
    pub(super) fn until(self, other: Angle) -> Angle {
        Angle(other.0.wrapping_sub(self.0))
    }

    pub(super) fn plus(self, other: Angle) -> Angle {
        Angle(self.0.wrapping_add(other.0))
    }

    pub(super) fn times(self, factor: u64) -> Angle {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole turns are dropped on purpose"
        )]
        let product = u64::from(self.0).wrapping_mul(factor) as u32;
        Angle(product)
    }
}

/// How close behind the head a sector may begin and still be caught: rounding, not mechanics.
pub(super) const TOLERANCE: Nanos = Nanos::from_micros(2);

/// The turning platter: which angle is under the heads when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spindle {
    /// Nanoseconds.
    turn: Divisor,
    /// Angle under the heads at the beginning of the run.
    phase: Angle,
}

impl Spindle {
    pub(super) fn new(turn: Nanos, phase: Angle) -> Spindle {
        assert!((1..1 << 30).contains(&turn.as_nanos()), "a turn of {turn}");
        Spindle {
            turn: Divisor::new(turn.as_nanos()),
            phase,
        }
    }

    pub(super) fn turn(self) -> Nanos {
        Nanos::new(self.turn.get())
    }

    #[expect(clippy::cast_possible_truncation, reason = "less than a whole turn")]
    pub(super) fn angle_at(self, time: Time) -> Angle {
        let (_, nanos) = self.turn.divide(time.as_nanos());
        let (angle, _) = self.turn.divide(nanos << 32);
        Angle(angle as u32).plus(self.phase)
    }

    /// How long the platter takes for this angle.
    pub(super) fn time_of(self, angle: Angle) -> Nanos {
        Nanos::new((u64::from(angle.0) * self.turn.get()) >> 32)
    }

    /// The angle that passes in this time, rounded up.
    #[expect(clippy::cast_possible_truncation, reason = "less than a whole turn")]
    pub(super) fn angle_in(self, time: Nanos) -> Angle {
        let (_, nanos) = self.turn.divide(time.as_nanos());
        Angle(self.turn.divide_up(nanos << 32) as u32)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "less than a whole turn")]
pub(super) fn part_of_turn(sectors: u64, sectors_per_track: Divisor) -> Angle {
    Angle(sectors_per_track.divide(sectors << 32).0 as u32)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a turn"
)]
pub(super) fn angle_of_sectors(sectors: f64, sectors_per_track: u32) -> Angle {
    let share = (sectors / f64::from(sectors_per_track)).rem_euclid(1.0);
    Angle((share * 4_294_967_296.0) as u64 as u32)
}
