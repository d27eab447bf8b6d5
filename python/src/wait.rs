//! Work that Ctrl-C can leave.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How often signals are looked for.
const GLANCE: Duration = Duration::from_millis(50);

/// Does work in a thread of its own, while other threads of Python run. A signal whose handler raises (Ctrl-C) ends the
/// waiting; the thread then goes on to the end of its work, and what comes of that is dropped.
///
/// # Errors
/// What a signal's handler raised; a panic of the work.
pub(crate) fn interruptibly<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, result) = mpsc::channel();
    let result = Mutex::new(result);
    thread::spawn(move || done.send(work()));
    loop {
        let received = py.detach(|| {
            let result = result.lock().unwrap_or_else(PoisonError::into_inner);
            result.recv_timeout(GLANCE)
        });
        match received {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "a bug in iosched: the work panicked",
                ));
            }
        }
    }
}
