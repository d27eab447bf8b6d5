//! An error that nobody matches on: a message, a hint, an exit code.
//!
//! Enums of errors stay where a caller decides by the variant. Everything else is a [`Problem`].

use std::fmt;

/// Exit codes of the command `iosched`. Documented in the manual page and in `iosched --help`;
/// numbers never change their meaning.
pub mod exit {
    /// Everything asked for was done.
    pub const OK: u8 = 0;
    /// Something went wrong that no other code names (an I/O error, a bug).
    pub const FAILURE: u8 = 1;
    /// The command line, a job file or a record cannot be understood.
    pub const USAGE: u8 = 2;
    /// The named device, directory or file does not exist, or is not what it must be.
    pub const NO_SUCH_DEVICE: u8 = 3;
    /// The device has no scheduler to choose (bio-based, or the kernel offers none).
    pub const NOTHING_TO_CHOOSE: u8 = 4;
    /// The kernel does not offer this scheduler for this device.
    pub const NOT_OFFERED: u8 = 5;
    /// The scheduler has no such tunable, or its value is out of range or refused.
    pub const BAD_TUNABLE: u8 = 6;
    /// The kernel accepted a write and did something else: read-back differs.
    pub const NOT_TAKEN: u8 = 7;
    /// Not allowed: root is needed.
    pub const NOT_PERMITTED: u8 = 8;
    /// The device is in use by another run, or too busy to switch.
    pub const BUSY: u8 = 9;
    /// A program or kernel feature that this needs is missing (fio, FUSE, loop).
    pub const MISSING: u8 = 10;
    /// Refused because it could destroy data.
    pub const UNSAFE: u8 = 11;
    /// The results directory or a record cannot be used (not empty, full, newer schema).
    pub const BAD_RECORD: u8 = 12;
    /// The load failed (fio ended with an error or hung) in every trial.
    pub const LOAD_FAILED: u8 = 13;
    /// The device vanished while it was measured.
    pub const VANISHED: u8 = 14;
    /// The kernel or the device does not support the switch (EOPNOTSUPP).
    pub const NOT_SUPPORTED: u8 = 15;
    /// A file of the system cannot be read or written, or is not what it must be.
    pub const BAD_FILE: u8 = 16;
    /// With `--exit-code`: what was compared is equal, or near enough to the best that it does not matter.
    pub const EQUAL: u8 = 20;
    /// With `--exit-code`: it is not known which is best.
    pub const UNDECIDED: u8 = 21;
    /// With `--exit-code`: other programs interfered with what decides.
    pub const DISTURBED: u8 = 22;
    /// With `conform --exit-code`: ours agrees on less than is wanted, or there was nothing to choose.
    pub const DISAGREES: u8 = 23;
    /// Interrupted by a signal: everything was put back.
    pub const INTERRUPTED: u8 = 130;
}

/// An error for the user: the thing and the cause, one thing to do about it, and what a script sees.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problem {
    /// `<thing>: <cause>` in lower case, so that it fits after `error: `.
    pub message: String,
    /// Several wrong things of one input: lines below the message.
    pub details: Option<Box<Details>>,
    /// One thing to do, after `hint: `.
    pub hint: Option<String>,
    /// One of [`exit`].
    pub code: u8,
}

/// What is wrong, one thing each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details(pub Vec<String>);

impl Problem {
    /// A problem without a hint.
    pub fn new(code: u8, message: impl Into<String>) -> Problem {
        Problem {
            message: message.into(),
            details: None,
            hint: None,
            code,
        }
    }

    /// What is wrong with one input, which is a single thing or several ([`exit::USAGE`]). `first` says of what they are.
    pub fn of_all(first: impl Into<String>, mut causes: Vec<String>) -> Problem {
        if causes.len() == 1 {
            return Problem::usage(causes.remove(0));
        }
        Problem {
            details: Some(Box::new(Details(causes))),
            ..Problem::usage(first)
        }
    }

    /// The command line or an input file cannot be understood ([`exit::USAGE`]).
    pub fn usage(message: impl Into<String>) -> Problem {
        Problem::new(exit::USAGE, message)
    }

    /// Puts the thing that it is about before the message: `name: message`.
    #[must_use]
    pub fn about(self, thing: impl std::fmt::Display) -> Problem {
        Problem {
            message: format!("{thing}: {}", self.message),
            ..self
        }
    }

    /// Adds the one thing to do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Problem {
        Problem {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Adds a hint if there is one.
    #[must_use]
    pub fn maybe_hint(self, hint: Option<impl Into<String>>) -> Problem {
        Problem {
            hint: hint.map(Into::into),
            ..self
        }
    }
}

/// The alternate form of several lines ends with a newline, by which they are told from those of a name.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let Some(details) = &self.details else {
            return Ok(());
        };
        for detail in &details.0 {
            write!(f, "\n  - {}", detail.replace('\n', "␊"))?;
        }
        f.write_str(if f.alternate() { "\n" } else { "" })
    }
}
