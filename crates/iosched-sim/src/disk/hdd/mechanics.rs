//! The arm and the platter: how long the heads take from here to there, and when sectors pass.

use super::geometry::{Angle, Geometry, Place, Spindle, passing_time};
use super::parameters::{HddParameters, SettleAfter};
use super::seek::SeekTable;
use crate::units::{Nanos, Sector, Sectors, Time};

/// How close behind the head a sector may begin and still be caught: rounding, not mechanics.
const TOLERANCE: Nanos = Nanos::from_micros(2);

/// More than what the roundings of a time and of an angle differ by.
const ROUNDING: Nanos = Nanos::new(2);

/// The moving parts of a drive, and where they are.
#[derive(Debug)]
pub(super) struct Mechanics {
    geometry: Geometry,
    spindle: Spindle,
    seeks: SeekTable,
    head_switch: Nanos,
    /// Added to a move for writing over more than this many cylinders.
    settle: Settle,
    zero_latency_read: bool,
    zero_latency_write: bool,
    /// Where the heads are (while the arm works: where they will be).
    cylinder: u32,
    head: u32,
}

#[derive(Debug, Clone, Copy)]
struct Settle {
    nanos: i64,
    /// Not after moves up to so many cylinders.
    not_within: u32,
}

/// What the arm is to do with the sectors that pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A stretch of one track that passes under the head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Sectors of the access before this piece.
    pub(super) before: Sectors,
    /// Its length.
    pub(super) sectors: Sectors,
    /// How long the head waited on the track.
    pub(super) waited: Nanos,
    /// When its first sector begins to pass.
    pub(super) begin: Time,
    /// Of its sectors, those that pass from then on: all, unless the head came down in the middle.
    pub(super) passing: Sectors,
    /// Where it is.
    pub(super) place: Place,
}

impl Mechanics {
    pub(super) fn new(parameters: &HddParameters, phase: Angle) -> Mechanics {
        let spindle = Spindle::new(parameters.turn(), phase);
        let geometry = Geometry::new(parameters, spindle);
        let settle = parameters.write_settle;
        Mechanics {
            seeks: SeekTable::new(
                &parameters.seek,
                parameters.cylinders(),
                geometry.cylinders(),
            ),
            geometry,
            spindle,
            head_switch: parameters.head_switch,
            settle: Settle {
                nanos: settle.nanos,
                not_within: match settle.after {
                    SettleAfter::EveryMove => 0,
                    SettleAfter::LongMoves => 1,
                },
            },
            zero_latency_read: parameters.reading.zero_latency,
            zero_latency_write: parameters.writing.zero_latency,
            cylinder: 0,
            head: 0,
        }
    }

    pub(super) fn place(&self, sector: Sector) -> Place {
        self.geometry.place(sector)
    }

    /// The time in which `sectors` pass at this place.
    pub(super) fn passing_time(&self, place: &Place, sectors: Sectors) -> Nanos {
        passing_time(self.spindle, place, sectors)
    }

    /// How many sectors pass at this place in this time, the last one perhaps in part.
    pub(super) fn passed_in(&self, place: &Place, time: Nanos) -> Sectors {
        let angle = self.spindle.angle_in(time).0;
        Sectors::new(u64::from(angle / place.sector_angle.0))
    }

    /// The heads are here now.
    pub(super) fn stand_at(&mut self, place: &Place) {
        (self.cylinder, self.head) = (place.cylinder, place.head);
    }

    /// Time from where the heads are to another track.
    fn move_time(&self, to: &Place, access: Access) -> Nanos {
        let distance = self.cylinder.abs_diff(to.cylinder);
        let seek = self.seeks.time(distance);
        let moved = if self.head == to.head {
            seek
        } else {
            seek.max(self.head_switch)
        };
        let settles = access == Access::Write
            && moved > Nanos::ZERO
            && (distance > self.settle.not_within || self.settle.not_within == 0);
        if settles {
            Nanos::new(moved.as_nanos().saturating_add_signed(self.settle.nanos))
        } else {
            moved
        }
    }

    /// Time until a sector begins to pass, for a head that waits on its track from `now` on.
    fn rotation_wait(&self, now: Time, place: &Place) -> Nanos {
        let wait = self
            .spindle
            .time_of(self.spindle.angle_at(now).until(place.angle));
        if wait + TOLERANCE >= self.spindle.turn() {
            Nanos::ZERO
        } else {
            wait
        }
    }

    /// The first of those that begin to pass soonest, from where the heads are now. An exact look costs
    /// divisions; few are needed beside a bound that costs none.
    pub(super) fn soonest<'a>(
        &self,
        now: Time,
        places: impl Iterator<Item = (usize, &'a Place, Access)>,
    ) -> Option<usize> {
        let angle = self.spindle.angle_at(now);
        let mut soonest: Option<(Nanos, usize)> = None;
        for (index, place, access) in places {
            let least = self.least_access_time(angle, place, access);
            if soonest.is_some_and(|(time, _)| time <= least) {
                continue;
            }
            let time = self.access_time(now, place, access);
            if soonest.is_none_or(|(best, _)| time < best) {
                soonest = Some((time, index));
            }
        }
        soonest.map(|(_, index)| index)
    }

    /// What the access time is at least, for a platter that is at this angle now: less than it by
    /// rounding only, or by a turn where a sector is just missed.
    fn least_access_time(&self, angle: Angle, place: &Place, access: Access) -> Nanos {
        let moved = self.move_time(place, access);
        let there = angle.plus(self.spindle.angle_about(moved));
        let wait = self.spindle.time_of(there.until(place.angle));
        if wait + TOLERANCE + ROUNDING >= self.spindle.turn() {
            return moved;
        }
        (moved + wait).saturating_sub(ROUNDING)
    }

    /// Time until a sector begins to pass, from where the heads are now.
    pub(super) fn access_time(&self, now: Time, place: &Place, access: Access) -> Nanos {
        let moved = self.move_time(place, access);
        moved + self.rotation_wait(now + moved, place)
    }

    /// Moves the heads and lets `start` to `end` pass under them; says when the last has passed.
    /// `first` is the place of `start`. `delay` sees each piece and says for how many turns it has to wait.
    pub(super) fn pass(
        &mut self,
        now: Time,
        (start, end): (Sector, Sector),
        first: Place,
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
            let moved = self.move_time(&place, access);
            let waited = self.rotation_wait(time + moved, &place);
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
