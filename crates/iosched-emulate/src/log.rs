//! The server's log, and the clock that stamps it and drives the model.

use std::fmt::Arguments;
use std::io::{self, Write};

use iosched_sim::units::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// The machine's monotonic clock.
pub(super) fn monotonic() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    #[expect(clippy::cast_sign_loss, reason = "this clock starts at zero")]
    Nanos::new(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// A line in the server's log (its standard error).
pub(super) fn log(line: Arguments<'_>) {
    let seconds = monotonic().as_secs_f64();
    let _ = writeln!(io::stderr(), "[{seconds:12.3}] {line}");
}
