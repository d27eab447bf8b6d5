//! The time of day.

use std::time::SystemTime;

/// The latest moment that is written down, in seconds since 1970 (the year 5138), and that is read again.
pub(crate) const LATEST: f64 = 1e11;

/// Seconds since 1970; from a clock that is set far ahead, the year 5138.
pub fn unix_time() -> f64 {
    since_1970(SystemTime::now())
}

fn since_1970(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64().min(LATEST))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::foreign::check_numbers;

    #[test]
    fn what_a_clock_shows_is_read_again_however_far_ahead_it_is() {
        for seconds in [0, 1_800_000_000, 101_800_000_000, i64::MAX.cast_unsigned()] {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let line = format!(r#"{{"created_unix_s":{}}}"#, since_1970(at));
            assert_eq!(check_numbers(&line), Ok(()), "{line}");
        }
    }
}
