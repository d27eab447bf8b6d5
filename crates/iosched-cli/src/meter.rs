//! A bar with the time left for work that takes longer than a moment, on a terminal.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use iosched_experiment::simulate::replay::Meter;

use crate::output::Output;

/// Work that is done before this needs no bar.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is drawn.
const TICK: Duration = Duration::from_millis(200);

/// Does the work, and shows how far its meter is.
pub(crate) fn watched<T>(
    what: &str,
    meter: &Arc<Meter>,
    output: &Output,
    work: impl FnOnce() -> T,
) -> T {
    if output.is_quiet() {
        return work();
    }
    std::thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        let draw = move || {
            let mut wait = PATIENCE;
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
            let style =
                ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes}, {eta} left");
            bar.set_style(style.expect("the template is right"));
            bar.set_message(what.to_owned());
            while is_done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let (position, total) = meter.read();
                if total == 0 {
                    continue; // nothing is measured
                }
                if wait == PATIENCE {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                    wait = TICK;
                }
                bar.set_length(total);
                bar.set_position(position);
            }
            bar.finish_and_clear();
        };
        // Where no thread can be started there is no bar.
        let _ = std::thread::Builder::new().spawn_scoped(scope, draw);
        let result = work();
        drop(done);
        result
    })
}
