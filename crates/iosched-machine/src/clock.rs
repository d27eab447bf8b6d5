//! The time of day.

use std::time::SystemTime;

/// Seconds since 1970.
pub fn unix_time() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
