//! Reading on behind the last read, while nothing else is to be done.

use super::Access;
use super::{Hdd, ReadAhead};
use crate::disk::Command;
use crate::units::{Bytes, Sector, Sectors, Time};

/// Reading on behind the last read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// Where it began.
    pub(super) begin: Sector,
    /// The next sector to come; all before it, back to the beginning of its segment, are there.
    pub(super) next: Sector,
    /// When the head is in place to wait for it.
    pub(super) ready: Time,
    /// Where reading on ends.
    pub(super) limit: Sector,
}

impl Hdd {
    /// How far the drive reads on behind a read that ends here, of a stream that began there.
    #[inline(always)]
    pub(super) fn read_ahead_limit(&self, begin: Sector, end: Sector) -> Sector {
        let disk_end = Sector::ZERO + self.parameters.interface.capacity;
        let reading = &self.parameters.reading;
        let distance = reading.ahead_distance.unwrap_or(Bytes::ZERO).to_sectors();
        let limit = match reading.ahead {
            ReadAhead::Distance => end + distance,
            ReadAhead::WithinTrack => {
                let last = end - Sectors::new(1);
                let track_end = last + Sectors::new(self.mechanics.place(last).left_on_track);
                track_end.min(end + distance)
            }
            ReadAhead::TrackByTrack if end < disk_end => {
                let place = self.mechanics.place(end);
                let track_start = end - Sectors::new(place.passed_on_track);
                let track_end = end + Sectors::new(place.left_on_track);
                if begin < track_start {
                    track_end + (track_end - track_start)
                } else {
                    track_end
                }
            }
            ReadAhead::TrackByTrack => end,
        };
        limit.min(disk_end)
    }

    /// True if the stream has the beginning of a read, not all of it.
    pub(super) fn begins_in_stream(&mut self, command: &Command) -> bool {
        self.stream.is_some_and(|stream| {
            command.start < stream.next
                && stream.next < command.end()
                && self.read_buffer.holds(command.start, stream.next)
        })
    }

    /// A read was answered from the stream's segment: reading on goes further, and begins again
    /// when half of what was read ahead is used.
    pub(super) fn keep_reading(&mut self, now: Time, command: &Command) {
        let Some(stream) = self.stream.filter(|_| self.work.is_none()) else {
            return;
        };
        let limit = self.read_ahead_limit(stream.begin, command.end());
        let ahead = limit - command.end();
        if command.end() > stream.next || stream.next - command.end() > ahead {
            return; // another segment's
        }
        let stopped = stream.next == stream.limit;
        if stopped && (stream.next - command.end()) * 2 > ahead {
            return;
        }
        self.stream = Some(Stream {
            ready: if stopped {
                stream.ready.max(now)
            } else {
                stream.ready
            },
            limit: stream.limit.max(limit),
            ..stream
        });
    }

    /// Reads on until `now` and keeps what came.
    pub(super) fn settle_stream(&mut self, now: Time) {
        if self.work.is_some() {
            return; // the stream begins where the work ends
        }
        if let Some(stream) = self.stream
            && stream.next < stream.limit
            && stream.ready < now
        {
            self.read_on(now, stream);
        }
    }

    /// What the stream reads until `now`.
    #[inline(never)]
    fn read_on(&mut self, now: Time, mut stream: Stream) {
        let first = stream.next;
        while stream.next < stream.limit && stream.ready < now {
            let place = self.mechanics.place(stream.next);
            let wait = self
                .mechanics
                .access_time(stream.ready, place.spot, Access::Read);
            let begin = stream.ready + wait;
            if begin >= now {
                break;
            }
            self.mechanics.stand_at(&place);
            let left = Sectors::new(place.left_on_track).min(stream.limit - stream.next);
            let whole = begin + self.mechanics.passing_time(&place, left);
            if whole <= now {
                stream.next += left;
                stream.ready = whole;
                continue;
            }
            let passed = self.mechanics.passed_in(&place, now - begin).min(left);
            stream.next += passed;
            stream.ready = begin + self.mechanics.passing_time(&place, passed);
            break;
        }
        self.read_buffer.fill(first, stream.next);
        self.stream = Some(stream);
    }
}
