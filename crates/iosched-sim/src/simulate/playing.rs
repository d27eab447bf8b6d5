//! The accesses of a process that plays a video: a frame each, in order, none before its time.

use std::time::Duration;

use crate::request::Op;
use crate::units::{Bytes, Nanos, Sectors, Time};
use crate::workload::{Access, FRAME_BYTES, Job, Playback};

#[derive(Default)]
pub(super) struct Player {
    playback: Playback,
    began: Time,
    /// The frame that is due, or was asked for.
    frame: u32,
}

impl Player {
    pub(super) fn begin(&mut self, now: Time) {
        self.began = now;
    }

    fn played(&self, now: Time) -> Duration {
        Duration::from_nanos(now.saturating_since(self.began).as_nanos())
    }

    /// When the next frame is read, once the one before is there.
    pub(super) fn due(&mut self, now: Time, in_flight: usize) -> Option<Time> {
        if in_flight > 0 {
            return None;
        }
        let played = self.played(now);
        let (frame, not_before) = self.playback.next(played);
        self.frame = frame;
        let early = not_before.saturating_sub(played);
        Some(now + Nanos::new(u64::try_from(early.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The frame that is due. At its end the video begins again.
    pub(super) fn next(&mut self, job: &Job) -> Access {
        let length = Bytes::new(FRAME_BYTES as u64).to_sectors();
        let frames = (job.span.as_u64() / length.as_u64()).max(1);
        let place = u64::from(self.frame) % frames * length.as_u64();
        Access {
            op: Op::Read,
            start: job.start + Sectors::new(place),
            length,
            sync: true,
        }
    }

    /// The frame that was asked for is there.
    pub(super) fn arrived(&mut self, now: Time) {
        let played = self.played(now);
        self.playback.arrived(played);
    }

    pub(super) fn frames_in_time(&self, now: Time) -> f64 {
        self.playback.clone().in_time(self.played(now))
    }
}
