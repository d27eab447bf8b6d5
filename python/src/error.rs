//! Failures as exceptions: the message names the thing and the cause, `hint` is the way out.

use iosched_machine::failure::Failure;
use pyo3::prelude::*;

// Of Python: a class that is made here has no constructor with a hint (abi3 before Python 3.12).
pyo3::import_exception!(iosched._error, IoschedError);

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
    pub(crate) fn raised(self) -> PyErr {
        IoschedError::new_err((self.message, self.hint))
    }
}
