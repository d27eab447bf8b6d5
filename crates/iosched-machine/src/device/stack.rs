//! Down from a device to the disks whose scheduler matters for it.
//!
//! | layer | where the scheduler is |
//! |---|---|
//! | partition | its whole disk |
//! | md, LVM, crypt, bcache | every member disk below |
//! | multipath, request-based | itself; its paths stay at `none` |
//! | NVMe head and its paths | nowhere: `none` |
//! | loop | itself, and the disk that holds its file |

use serde::Serialize;

use super::{Device, DeviceKind};

/// A device of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// The device.
    pub device: Device,
    /// How far below the device that was asked for: 0 is that device itself.
    pub depth: usize,
    /// What it has to do with scheduling.
    pub role: Role,
}

/// What a layer has to do with scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Its scheduler matters.
    Schedules,
    /// It passes requests on to the layers below.
    PassesOn,
    /// A path of a multipath device that schedules itself: this one stays at `none`.
    PathOfMultipath,
    /// It has no scheduler to choose and nothing below.
    NothingToChoose,
}

/// The table at the top of this file.
pub(super) fn role(device: &Device, is_path: bool, has_below: bool) -> Role {
    match device.kind {
        DeviceKind::NvmePath { .. } | DeviceKind::NvmeHead => Role::NothingToChoose,
        DeviceKind::Partition => Role::PassesOn,
        _ if is_path => Role::PathOfMultipath,
        _ if device.schedulers.choice().is_some() => Role::Schedules,
        _ if has_below => Role::PassesOn,
        _ => Role::NothingToChoose,
    }
}
