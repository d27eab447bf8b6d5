//! Failures as exceptions: the message names the thing and the cause, `hint` is the way out.

use iosched_machine::failure::Failure;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    iosched,
    IoschedError,
    PyException,
    "What was asked for cannot be done. `hint` says the way out, or is None."
);

/// A failure that may cross threads.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The thing and the cause.
    pub(crate) message: String,
    /// The way out.
    pub(crate) hint: Option<String>,
}

impl Failed {
    pub(crate) fn of(failure: &dyn Failure) -> Failed {
        let mut message = failure.to_string();
        let mut cause = failure.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Failed {
            message,
            hint: failure.hint(),
        }
    }

    /// The same as an exception.
    pub(crate) fn raised(self, py: Python<'_>) -> PyErr {
        let error = IoschedError::new_err(self.message);
        match error.value(py).setattr("hint", self.hint) {
            Ok(()) => error,
            Err(other) => other,
        }
    }
}
