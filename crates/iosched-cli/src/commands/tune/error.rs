//! What `iosched tune` cannot do here, and the way out of it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use iosched_machine::command_line::{Remedy, quoted_path};
use iosched_machine::failure::{Failure, exit};
use iosched_report as report;

/// Something that `tune` cannot do here.
#[derive(Debug, thiserror::Error)]
pub(super) enum TuneError {
    #[error("this machine cannot measure: {}", missing.join("; "))]
    Missing {
        missing: Vec<String>,
        hints: Vec<String>,
    },
    #[error("{option} is for a disk that is there after the run, and this one is not")]
    GoneAfterRun { option: &'static str },
    #[error(
        "--persist keeps the answer of a disk for later boots, and an emulated disk is gone by then"
    )]
    NothingToKeep,
    #[error(
        "--timeout {} ends every trial of {load}, which takes {}",
        report::words::span(*timeout),
        report::words::span(*takes)
    )]
    EndsEachTrial {
        load: String,
        timeout: Duration,
        takes: Duration,
    },
    #[error("there is no user {name:?}")]
    NoSuchUser { name: String },
    #[error("{} cannot be changed: the run in {} has what it began with", option_names(options), directory.display())]
    FixedByRecord {
        /// Each with whether it has a value.
        options: Vec<(&'static str, bool)>,
        directory: PathBuf,
        /// Without them it would go on.
        goes_on_without: bool,
    },
    #[error("cannot find out who {name:?} is")]
    UnknownUser {
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("the run in {} is over: {why}", directory.display())]
    Complete {
        directory: PathBuf,
        why: &'static str,
        /// The command that goes on with it all the same, with a larger budget.
        going_on: Option<String>,
    },
    #[error("with {} the run would not go on: {why} ({so_far})", given.join(" and "))]
    EndsAtOnce {
        given: Vec<String>,
        why: &'static str,
        so_far: String,
        /// The command that has something left.
        going_on: Option<String>,
    },
    #[error("the record in {} is of another machine or kernel: {difference}", directory.display())]
    OtherMachine {
        directory: PathBuf,
        difference: String,
    },
}

fn option_names(options: &[(&'static str, bool)]) -> String {
    report::words::enumerate(options.iter().map(|&(name, _)| name))
}

impl Failure for TuneError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            TuneError::Missing { hints, .. } => hints.join("; "),
            TuneError::GoneAfterRun { option } => {
                format!("name the disk to measure, or leave {option} out")
            }
            TuneError::NothingToKeep => {
                "leave --persist out; --apply leaves the answer inside as long as the disk is there"
                    .into()
            }
            TuneError::EndsEachTrial { .. } => {
                "--timeout is for a load that hangs: give it more, give trials less (--runtime), or leave it out".into()
            }
            TuneError::NoSuchUser { .. } => {
                "`getent passwd` lists the users of this machine".into()
            }
            TuneError::UnknownUser { name, .. } => format!("`id {name}` should say it"),
            TuneError::Complete {
                directory,
                going_on,
                ..
            } => {
                let directory = quoted_path(directory);
                let larger = going_on.as_ref().map_or(String::new(), |command| {
                    format!("; go on with a larger budget: {command}")
                });
                format!("see it with: iosched report {directory}{larger}")
            }
            TuneError::FixedByRecord { .. } => {
                "--resume takes the plan from the record; --rounds and --budget may be larger; for anything \
                 else start a new run"
                    .into()
            }
            TuneError::EndsAtOnce { going_on, .. } => {
                let example = going_on.as_ref().map_or(String::new(), |command| format!(", as in: {command}"));
                format!("what was measured before counts: give more{example}")
            }
            TuneError::OtherMachine { .. } => {
                "its trials cannot be continued here: start a new run".into()
            }
        })
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            TuneError::FixedByRecord {
                options,
                goes_on_without: true,
                ..
            } => Some(Remedy::Without(options.clone())),
            _ => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            TuneError::Missing { .. } => exit::MISSING,
            TuneError::GoneAfterRun { .. }
            | TuneError::NothingToKeep
            | TuneError::EndsEachTrial { .. }
            | TuneError::NoSuchUser { .. }
            | TuneError::EndsAtOnce { .. }
            | TuneError::FixedByRecord { .. } => exit::USAGE,
            TuneError::UnknownUser { .. } => exit::FAILURE,
            TuneError::Complete { .. } | TuneError::OtherMachine { .. } => exit::BAD_RECORD,
        }
    }
}
