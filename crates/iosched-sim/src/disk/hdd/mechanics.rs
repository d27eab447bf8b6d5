//! The arm and the platter: how long the heads take from here to there, and when sectors pass.

use super::Access;
use super::geometry::{Geometry, PlatterPosition, Spot, passing_time};
use super::parameters::{HddParameters, SettleAfter};
use super::reach::{Part, Reach};
use super::seek::{SeekTimes, Settle};
use super::turn::{Angle, Spindle, TOLERANCE};
use crate::units::{Nanos, Sector, Sectors, Time};

/// The moving parts of a drive, and where they are.
#[derive(Debug)]
pub(super) struct Mechanics {
    geometry: Geometry,
    spindle: Spindle,
    seeks: SeekTimes,
    reach: Reach,
    head_switch: Nanos,
    /// Added to a move for writing over more than this many cylinders.
    settle: Settle,
    zero_latency_read: bool,
    zero_latency_write: bool,
    /// Where the heads are (while the arm works: where they will be).
    cylinder: u32,
    head: u32,
}

/// A spot by its bound, and of those with the same bound by its index: one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate(u64);

impl Candidate {
    /// After all others.
    const NONE: Candidate = Candidate(u64::MAX);

    fn new(bound: Part, index: usize) -> Candidate {
        Candidate(u64::from(bound.0) << 32 | index as u64)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the halves")]
    fn index(self) -> Option<usize> {
        (self != Self::NONE).then_some(self.0 as u32 as usize)
    }

    fn bound(self) -> Part {
        Part((self.0 >> 32) as u32)
    }
}

/// A stretch of one track that passes under the head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Sectors of the access before this piece.
    pub(super) before: Sectors,
    pub(super) sectors: Sectors,
    /// How long the head waited on the track.
    pub(super) waited: Nanos,
    /// When its first sector begins to pass.
    pub(super) begin: Time,
    /// Of its sectors, those that pass from then on: all, unless the head came down in the middle.
    pub(super) passing: Sectors,
    pub(super) place: PlatterPosition,
}

impl Mechanics {
    pub(super) fn new(parameters: &HddParameters, phase: Angle) -> Mechanics {
        let spindle = Spindle::new(parameters.turn(), phase);
        let geometry = Geometry::new(parameters, spindle);
        let settle = Settle {
            nanos: parameters.write_settle,
            not_within: match parameters.write_settle_after {
                SettleAfter::EveryMove => 0,
                SettleAfter::LongMoves => 1,
            },
        };
        let (nominal, actual) = (parameters.cylinders(), geometry.cylinders());
        let seeks = SeekTimes::new(&parameters.seek, nominal, actual);
        Mechanics {
            reach: Reach::new(&seeks, *parameters.head_switch, settle, spindle.turn()),
            seeks,
            geometry,
            spindle,
            head_switch: *parameters.head_switch,
            settle,
            zero_latency_read: parameters.reading.zero_latency,
            zero_latency_write: parameters.writing.zero_latency,
            cylinder: 0,
            head: 0,
        }
    }

    pub(super) fn place(&self, sector: Sector) -> PlatterPosition {
        self.geometry.place(sector)
    }

    /// The same where it is needed for each command.
    #[inline]
    pub(super) fn place_in_line(&self, sector: Sector) -> PlatterPosition {
        self.geometry.place_in_line(sector)
    }

    /// The time in which `sectors` pass at this place.
    pub(super) fn passing_time(&self, place: &PlatterPosition, sectors: Sectors) -> Nanos {
        passing_time(self.spindle, place, sectors)
    }

    /// The least time in which a sector passes anywhere.
    pub(super) fn quickest_sector(&self) -> Nanos {
        self.spindle.time_of(self.geometry.least_sector_angle())
    }

    /// How many sectors pass at this place in this time, the last one perhaps in part.
    pub(super) fn passed_in(&self, place: &PlatterPosition, time: Nanos) -> Sectors {
        let angle = self.spindle.angle_in(time).0;
        Sectors::new(u64::from(angle / place.sector_angle.0))
    }

    /// The heads are here now.
    pub(super) fn stand_at(&mut self, place: &PlatterPosition) {
        (self.cylinder, self.head) = (place.spot.cylinder, place.spot.head);
    }

    /// Time from where the heads are to another track.
    #[inline(always)]
    fn move_time(&self, to: Spot, access: Access) -> Nanos {
        let distance = self.cylinder.abs_diff(to.cylinder);
        let seek = self.seeks.time(distance);
        let moved = if self.head == to.head {
            seek
        } else {
            seek.max(self.head_switch)
        };
        let settles =
            access == Access::Write && moved > Nanos::ZERO && self.settle.after_move_over(distance);
        if settles {
            self.settle.add(moved)
        } else {
            moved
        }
    }

    /// Time until a sector begins to pass, for a head that waits on its track from `now` on.
    fn rotation_wait(&self, now: Time, spot: Spot) -> Nanos {
        let wait = self
            .spindle
            .time_of(self.spindle.angle_at(now).until(spot.angle));
        if wait + TOLERANCE >= self.spindle.turn() {
            Nanos::ZERO
        } else {
            wait
        }
    }

    /// Of `count` spots the first of those that begin to pass soonest, from where the heads are now;
    /// those that `spot` does not give are left out.
    ///
    /// Nearly always that is the one with the least bound, and its time is not above the next bound:
    /// then no other time has to be worked out.
    pub(super) fn soonest(
        &self,
        now: Time,
        count: usize,
        spot: impl Fn(usize) -> Option<(Spot, Access)>,
    ) -> Option<usize> {
        let angle = self.spindle.angle_at(now);
        let (mut least, mut next) = (Candidate::NONE, Candidate::NONE);
        for index in 0..count {
            let Some((spot, access)) = spot(index) else {
                continue;
            };
            let candidate = Candidate::new(self.bound(angle, spot, access), index);
            next = next.min(least.max(candidate));
            least = least.min(candidate);
        }
        let (spot_of_least, access) = spot(least.index()?)?;
        let turn = self.spindle.turn();
        let time = self.access_time(now, spot_of_least, access);
        if next.index().is_none() || time < next.bound().at_least(turn) {
            return least.index();
        }
        let exact = |index| {
            let (spot, access) = spot(index)?;
            let bound = self.bound(angle, spot, access);
            let near = bound.at_least(turn) <= time;
            near.then(|| (self.access_time(now, spot, access), index))
        };
        let soonest = (0..count).filter_map(exact).min();
        soonest.map(|(_, index)| index)
    }

    /// What the access time is at least, for a platter that is at this angle now.
    #[inline]
    fn bound(&self, angle: Angle, spot: Spot, access: Access) -> Part {
        let distance = self.cylinder.abs_diff(spot.cylinder);
        let switches = self.head != spot.head;
        self.reach
            .bound(distance, switches, access, angle.until(spot.angle))
    }

    /// Time until a sector begins to pass, from where the heads are now.
    pub(super) fn access_time(&self, now: Time, spot: Spot, access: Access) -> Nanos {
        let moved = self.move_time(spot, access);
        moved + self.rotation_wait(now + moved, spot)
    }

    /// Moves the heads and lets `start` to `end` pass under them; says when the last has passed.
    /// `first` is the place of `start`. `delay` sees each piece and says for how many turns it has to wait.
    pub(super) fn pass(
        &mut self,
        now: Time,
        (start, end): (Sector, Sector),
        first: PlatterPosition,
        access: Access,
        mut delay: impl FnMut(&Mechanics, &Piece) -> u64,
    ) -> Time {
        let zero_latency = match access {
            Access::Read => self.zero_latency_read,
            Access::Write => self.zero_latency_write,
        };
        let turn = self.spindle.turn();
        let mut time = now;
        let mut from = start;
        let mut place = first;
        while from < end {
            let moved = self.move_time(place.spot, access);
            let waited = self.rotation_wait(time + moved, place.spot);
            self.stand_at(&place);
            let sectors = (end - from).min(Sectors::new(place.left_on_track));
            // Down in the middle: the sectors that passed before come again at the end of the turn.
            let inside = zero_latency && waited + self.passing_time(&place, sectors) > turn;
            let passing = if inside {
                let passed = self.passed_in(&place, turn - waited) + Sectors::new(1);
                passed.min(sectors)
            } else {
                sectors
            };
            let mut piece = Piece {
                before: from - start,
                sectors,
                waited,
                begin: time + moved + waited,
                passing,
                place,
            };
            piece.begin += turn * delay(self, &piece);
            time = piece.begin + self.passing_time(&place, piece.passing);
            from += sectors;
            if from < end {
                place = self.geometry.place(from);
            }
        }
        time
    }
}

/// How fast data pass on the link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Nanoseconds per sector, in units of 2^-16.
    per_sector: u64,
}

impl Pace {
    pub(super) fn new(bytes_per_second: u64) -> Pace {
        let per_sector = (512_000_000_000_u128 << 16).div_ceil(u128::from(bytes_per_second));
        Pace {
            per_sector: u64::try_from(per_sector).expect("a link is not that slow"),
        }
    }

    pub(super) fn time(self, sectors: Sectors) -> Nanos {
        let time = (u128::from(sectors.as_u64()) * u128::from(self.per_sector)) >> 16;
        Nanos::new(u64::try_from(time).expect("centuries fit"))
    }
}

/// A read's data on their way to the host, while they come from the medium.
#[derive(Debug)]
pub(super) struct Sending {
    pace: Pace,
    total: Sectors,
    /// In the buffer before the medium delivers any.
    present: Sectors,
    /// So many are to be there before the first is sent.
    threshold: Sectors,
    /// Nothing is sent before.
    not_before: Time,
    /// From there being enough to the first being sent.
    setup: Nanos,
    /// When the last one is with the host, as far as is known.
    delivered: Option<Time>,
}

impl Sending {
    /// Of a read of `total` sectors, of which some are `present`: those are sent from `not_before`
    /// on.
    pub(super) fn new(
        pace: Pace,
        (total, present): (Sectors, Sectors),
        threshold: Sectors,
        not_before: Time,
        setup: Nanos,
    ) -> Sending {
        let at_once = present > Sectors::ZERO;
        Sending {
            pace,
            total,
            present,
            threshold,
            not_before,
            setup,
            delivered: at_once.then(|| not_before + pace.time(total)),
        }
    }

    /// A piece passes under the head.
    pub(super) fn pass(&mut self, mechanics: &Mechanics, piece: &Piece) {
        let before = self.present + piece.before;
        let after = before + piece.sectors;
        let passed = |sectors| piece.begin + mechanics.passing_time(&piece.place, sectors);
        if self.delivered.is_none() && after >= self.threshold {
            let missing = self.threshold - before.min(self.threshold);
            let enough = passed(missing.min(piece.passing));
            let begin = enough.max(self.not_before) + self.setup;
            self.delivered = Some(begin + self.pace.time(self.total));
        }
        // Not faster than the first and the last sector of the piece allow.
        let one = Sectors::new(1);
        let first = passed(one) + self.pace.time(self.total - before);
        let rest = self.total + one - before - piece.passing;
        let last = passed(piece.passing) + self.pace.time(rest);
        if let Some(delivered) = &mut self.delivered {
            *delivered = first.max(last).max(*delivered);
        }
    }

    /// When all data are with the host.
    pub(super) fn delivered(&self) -> Time {
        self.delivered.expect("all sectors have passed")
    }
}

/// A write's data on their way from the host, while the medium takes them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Receiving {
    /// How fast they come.
    pub(super) pace: Pace,
    /// When the first begins to come.
    pub(super) from: Time,
    /// So many are to be there before the medium takes the first.
    pub(super) threshold: Sectors,
}

impl Receiving {
    /// How many turns a piece waits until its data are there when they are wanted.
    pub(super) fn delay(&self, mechanics: &Mechanics, piece: &Piece) -> u64 {
        let there = |sectors: Sectors| self.from + self.pace.time(sectors);
        let one = Sectors::new(1);
        let last = piece.sectors - one;
        let wanted = piece.begin + mechanics.passing_time(&piece.place, last);
        let first_late = there((piece.before + one).max(self.threshold));
        let late = first_late
            .saturating_since(piece.begin)
            .max(there(piece.before + piece.sectors).saturating_since(wanted));
        late.as_nanos()
            .div_ceil(mechanics.spindle.turn().as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parameters::Layout;
    use super::super::tests::any_hdd;
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        #[test]
        fn the_soonest_is_the_first_of_the_least_access_time(
            hdd in any_hdd(),
            large in any::<bool>(),
            phase in any::<u32>(),
            now in prop_oneof![0..1_u64 << 30, 0..1_u64 << 50],
            from in 0.0..1.0_f64,
            near in any::<bool>(),
            waiting in prop::collection::vec((0.0..1.0_f64, any::<bool>()), 0..64),
        ) {
            let mut hdd = hdd;
            if large && matches!(hdd.layout, Layout::Proportional { .. }) {
                hdd.interface.capacity = Sectors::new(1 << 27); // many cylinders share a bound
            }
            let last = hdd.interface.capacity.as_u64() - 1;
            let mut mechanics = Mechanics::new(&hdd, Angle(phase));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let place_at = |mechanics: &Mechanics, share: f64| {
                mechanics.place(Sector::new((share * last as f64) as u64))
            };
            let start = place_at(&mechanics, from);
            mechanics.stand_at(&start);
            let now = Time::from_nanos(now);
            let places: Vec<_> = waiting.iter().map(|&(share, write)| {
                // Close to the heads and to one another, many begin to pass at the same time.
                let share = if near { from * 0.99 + share * 0.01 } else { share };
                let access = if write { Access::Write } else { Access::Read };
                (place_at(&mechanics, share), access)
            }).collect();
            let times = places.iter().map(|(place, access)| mechanics.access_time(now, place.spot, *access));
            let wanted = |index: usize| index % 7 != 3;
            let times = times.enumerate().filter(|&(index, _)| wanted(index));
            let expected = times.min_by_key(|&(index, time)| (time, index));
            let spot = |index: usize| {
                let (place, access) = places[index];
                wanted(index).then_some((place.spot, access))
            };
            let soonest = mechanics.soonest(now, places.len(), spot);
            prop_assert_eq!(soonest, expected.map(|(index, _)| index));
        }
    }
}
