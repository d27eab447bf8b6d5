//! Loads that are no more. Their records are read and reported; their runs cannot go on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Load, LoadError, Outcome, TrialInfo, Workplace};
use crate::objective::Objective;

/// Such a load for the simulator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "data of old records")]
pub enum RetiredScenario {
    Responsiveness(ResponsivenessSettings),
    Desktop(DesktopSettings),
    Build(BuildSettings),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "data of old records")]
pub struct ResponsivenessSettings {
    pub readers: u32,
    pub random_readers: u32,
    pub writers: u32,
    pub random_writers: u32,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<u64>,
    pub starts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "data of old records")]
pub struct DesktopSettings {
    pub starts: u32,
    pub seconds: u32,
    pub size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "data of old records")]
pub struct BuildSettings {
    pub files: u32,
    pub jobs: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "data of old records")]
pub struct IozoneSettings {
    pub test: String,
    pub threads: u32,
    pub size: u64,
    pub record: u64,
    pub directory: String,
    pub bytes: u64,
}

/// Stands for such a load where a record is read.
#[derive(Debug)]
pub(super) struct RetiredLoad;

impl Load for RetiredLoad {
    fn lacks(&self, _objective: Objective) -> Option<&'static str> {
        None
    }

    fn run(
        &mut self,
        _at: &Workplace<'_>,
        _trial: &TrialInfo,
        _tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        Err(LoadError::run("this load is no more"))
    }
}
