//! A video: which frame is read when, and which of them come too late to be shown.

use std::time::Duration;

/// From one frame to the next: 25 in a second.
const FRAME: Duration = Duration::from_millis(40);

/// A frame is asked for so many frames before it is shown: what players read ahead.
const AHEAD: u32 = 25;

/// The bytes of a frame: 26 Mbit/s, a disc's.
pub const FRAME_BYTES: usize = 128 << 10;

/// A video while it is played, by the time since it was started.
#[derive(Debug, Clone)]
pub struct Playback {
    /// The frame that is read next.
    next: u32,
    /// When it was asked for.
    asked: Duration,
    /// How long the last two frames took to be read: the shorter one is what the next is expected to take, so
    /// that a pause of the disk is not taken for a slow disk.
    took: [Duration; 2],
    /// Frames that were there when they were to be shown. The first one is: a player waits for it.
    shown: u32,
    dropped: u32,
}

impl Default for Playback {
    fn default() -> Playback {
        Playback::new()
    }
}

impl Playback {
    /// It is started.
    pub fn new() -> Playback {
        Playback {
            next: 1,
            asked: Duration::ZERO,
            took: [Duration::ZERO; 2],
            shown: 1,
            dropped: 0,
        }
    }

    /// When a frame is to be shown.
    fn due(frame: u32) -> Duration {
        FRAME * (frame + AHEAD)
    }

    /// The frame that is read next, and before when not. Those that would come too late are not read any more.
    pub fn next(&mut self, now: Duration) -> (u32, Duration) {
        self.drop_all_due_before(now + self.took[0].min(self.took[1]));
        self.asked = now;
        (self.next, FRAME * self.next)
    }

    /// The frame that was asked for last is there.
    pub fn arrived(&mut self, now: Duration) {
        self.took = [self.took[1], now.saturating_sub(self.asked)];
        if now <= Playback::due(self.next) {
            self.shown += 1;
        } else {
            self.dropped += 1;
        }
        self.next += 1;
    }

    /// Part of the frames that were there in time when it is stopped, 0 to 1.
    pub fn in_time(mut self, now: Duration) -> f64 {
        self.drop_all_due_before(now);
        f64::from(self.shown) / f64::from(self.shown + self.dropped)
    }

    fn drop_all_due_before(&mut self, time: Duration) {
        while Playback::due(self.next) < time {
            self.dropped += 1;
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays for ten seconds on a disk that takes so long for the frames, one after the other.
    fn played(takes: impl Fn(u32) -> Duration) -> f64 {
        let mut playback = Playback::new();
        let end = Duration::from_secs(10);
        let mut now = Duration::ZERO;
        loop {
            let (_, not_before) = playback.next(now);
            now = now.max(not_before);
            let (frame, _) = playback.next(now);
            now += takes(frame);
            if now > end {
                return playback.in_time(end);
            }
            playback.arrived(now);
        }
    }

    #[test]
    fn a_disk_that_keeps_up_drops_no_frame() {
        assert!(played(|_| Duration::from_millis(1)) >= 1.0);
        assert!(played(|_| FRAME) >= 1.0, "as fast as it is shown");
    }

    #[test]
    fn what_was_read_ahead_covers_a_pause_of_a_second_and_no_longer_one() {
        let pauses =
            |ms: u64| played(|frame| Duration::from_millis(if frame == 50 { ms } else { 1 }));
        assert!(pauses(990) >= 1.0);
        let after_two_seconds = pauses(2000);
        assert!(
            (0.87..0.91).contains(&after_two_seconds),
            "{after_two_seconds}"
        );
    }

    #[test]
    fn a_disk_that_is_half_as_fast_shows_half_of_the_frames() {
        let half = played(|_| FRAME * 2);
        assert!((0.45..0.6).contains(&half), "{half}");
    }

    #[test]
    fn the_share_is_never_nothing() {
        let stalled = played(|_| Duration::from_secs(60));
        assert!(stalled > 0.0 && stalled < 0.01, "{stalled}");
    }
}
