//! Bounds of how soon the heads can be where a sector begins to pass, cheap enough to be worked out
//! for every command that waits.
//!
//! Moves of about the same distance share the time of the shortest. With that, in parts of a turn, a
//! bound costs an access to a table that stays in the processor's cache, two subtractions and a
//! comparison; it is wrong only where the difference between two neighbouring distances makes the
//! head miss the sector.

use super::Access;
use super::seek::{SeekTimes, Settle};
use super::turn::{Angle, TOLERANCE};
use crate::units::Nanos;

/// A time in units of 2^-28 turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part(pub(super) u32);

impl Part {
    const TURN: u32 = 1 << 28;
    /// More than bounds and times differ by for rounding.
    const ROUNDING: u32 = 3;

    /// Rounded down, and not more than 15 turns.
    fn of(time: Nanos, turn: Nanos) -> Part {
        let parts =
            u128::from(time.as_nanos()) * u128::from(Self::TURN) / u128::from(turn.as_nanos());
        Part(
            u32::try_from(parts)
                .unwrap_or(u32::MAX)
                .min(15 * Self::TURN),
        )
    }

    /// What a time that is not less than this one, save for rounding, is at least.
    pub(super) fn at_least(self, turn: Nanos) -> Nanos {
        let parts = u64::from(self.0.saturating_sub(Self::ROUNDING));
        Nanos::new((parts * turn.as_nanos()) >> 28).saturating_sub(Nanos::new(2))
    }
}

#[derive(Debug)]
pub(super) struct Reach {
    /// By distance in units of 2^`shift` cylinders: reading and writing, each without and with a
    /// change of the head.
    moves: Vec<[Part; 4]>,
    shift: u32,
    /// A wait longer than this is none: the sector was only just missed, and is not.
    longest_wait: Part,
}

impl Reach {
    /// More entries would be seldom in the cache.
    const ENTRIES: u32 = 2048;

    pub(super) fn new(seeks: &SeekTimes, head_switch: Nanos, settle: Settle, turn: Nanos) -> Reach {
        let cylinders = seeks.cylinders();
        let shift = (cylinders / Self::ENTRIES)
            .max(1)
            .next_power_of_two()
            .ilog2();
        let chunks = (0..cylinders).step_by(1 << shift);
        let parts = chunks.map(|first| {
            let shortest = seeks.least(first..cylinders.min(first + (1 << shift)));
            // All moves of the chunk settle, or perhaps not all.
            let all_settle = settle.after_move_over(first) && shortest > Nanos::ZERO;
            let settled = |moved: Nanos| {
                if all_settle || settle.nanos < 0 {
                    settle.add(moved)
                } else {
                    moved
                }
            };
            let switched = shortest.max(head_switch);
            let times = [shortest, switched, settled(shortest), settled(switched)];
            times.map(|time| Part::of(time, turn))
        });
        let tolerance = Part::of(TOLERANCE, turn).0 + Part::ROUNDING;
        Reach {
            moves: parts.collect(),
            shift,
            longest_wait: Part(Part::TURN.saturating_sub(tolerance)),
        }
    }

    /// What the time until a sector begins to pass is at least. `until`: from the angle now under the
    /// heads to the sector's.
    #[inline]
    pub(super) fn bound(
        &self,
        distance: u32,
        switches: bool,
        access: Access,
        until: Angle,
    ) -> Part {
        let kind = usize::from(access == Access::Write) * 2 + usize::from(switches);
        let moved = self.moves[(distance >> self.shift) as usize][kind].0;
        let wait = (until.0 >> 4).wrapping_sub(moved) & (Part::TURN - 1);
        Part(if wait < self.longest_wait.0 {
            moved + wait
        } else {
            moved
        })
    }
}
