//! The state of a queue: read it, set an arm, put it back, and always look at what really came.
//!
//! A state is the scheduler, then `nr_requests`, then the scheduler's tunables, then the other
//! settings of the queue, with write-back throttling last: a switch of scheduler resets all of
//! them, so they are saved, written and restored in this order. A write that the kernel accepts
//! proves nothing: everything is read back.
//!
//! Modules in the order data passes:
//!
//! - `arm`: a scheduler with tunables, as it is written; `value`: what may be written to which
//! - `names`, `offered`: the two generations of names, and what a device offers
//! - `foresee`: what setting an arm would lead to, nothing touched; `zones`: who keeps writes in order;
//!   `hangs`: when a write may never return
//! - `state`: a queue's state, and its way back; `served`, [`inside`]: the same inside an emulated disk
//! - [`journal`]: what is changed, written down before; [`lock`]: one run per disk
//!
//! Follows `block/elevator.c`, `block/blk-sysfs.c` and `Documentation/ABI/stable/sysfs-block`
//! (Linux 4.19 to 6.12). What stands inside an emulated disk that is served with a scheduler of ours is part of its
//! state (`served`). Never written: `write_cache` (loses data) and `rotational` (a lie).

mod arm;
mod error;
mod foresee;
mod hangs;
pub mod inside;
pub mod journal;
pub mod lock;
mod names;
mod offered;
mod served;
mod state;
mod value;
mod zones;

use std::fmt;

use iosched_facts::kernel::modelled_scheduler_tags;
use iosched_machine::sysfs::Sysfs;
use serde::{Deserialize, Serialize};

pub use self::arm::{Arm, Layer};
pub use self::error::{SwitchError, not_offered, nothing_to_choose, unknown_tunable};
pub use self::foresee::{check_can_be_kept, foresee};
pub use self::hangs::check_hang;
pub use self::names::{
    is_alias, is_of_other_layer, is_old_name, is_single_queue, modern_name, name_on, old_name,
    renamed,
};
pub use self::offered::{active, offered, resolve};
pub use self::state::{Difference, QueueState};
pub use self::value::means;
pub use self::zones::check_order;
pub use self::zones::only_in_order;

use self::arm::tunable_rank;
use self::error::{io_error, is_of_value};

/// Settings of a queue besides the scheduler's own tunables that may be set, in the order in which
/// they are written.
pub(crate) const SETTINGS: &[&str] = &[
    "async_depth", // in queue/iosched/ before 7.0
    "max_sectors_kb",
    "nomerges",
    "rq_affinity",
    "add_random",
    "iostats",
    "read_ahead_kb", // a write to one before it resets it (seen on Linux 6.18; blk_apply_bdi_limits)
    "wbt_lat_usec",  // last: a switch resets it, and bfq turns it off
];

/// A value that the kernel took otherwise than it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjusted {
    /// Kernel name of the device.
    pub device: String,
    /// The tunable.
    pub tunable: String,
    /// What was written.
    pub asked: String,
    /// What was read back.
    pub got: String,
}

impl fmt::Display for Adjusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Adjusted {
            device,
            tunable,
            asked,
            got,
        } = self;
        write!(
            f,
            "{device}: {tunable}={asked} was asked, the kernel made it {got}"
        )
    }
}

/// Writes the scheduler and reads it back.
fn switch(sysfs: &Sysfs, device: &str, scheduler: &str) -> Result<(), SwitchError> {
    let written = sysfs.write(device, "queue/scheduler", scheduler);
    let now = active(sysfs, device)?;
    match written {
        Ok(()) if now == scheduler => {
            if scheduler != "none" {
                set_requests_of_model(sysfs, device);
            }
            Ok(())
        }
        Ok(()) => Err(error::not_taken(device, scheduler, &now).into()),
        Err(error) => Err(error::not_switched(device, scheduler, &now, error)),
    }
}

/// Gives a scheduler above an emulated disk as many requests as above such a drive: the kernel goes by the loop driver's tags.
fn set_requests_of_model(sysfs: &Sysfs, device: &str) {
    let server = inside::server(sysfs);
    if let Some(depth) = server.and_then(|(server, host)| server.depth(&host, device)) {
        let requests = modelled_scheduler_tags(depth as usize).to_string();
        let _ = sysfs.write(device, "queue/nr_requests", &requests);
    }
}

/// What setting an arm led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entered {
    /// The whole state as read back.
    pub state: QueueState,
    /// What the kernel took otherwise than asked.
    pub adjusted: Vec<Adjusted>,
}

/// Sets an arm for an experiment: the scheduler with the kernel's own defaults, all other settings
/// as they were in `baseline`, then the arm's tunables. The baseline's own scheduler without
/// tunables is the state as it was found, its tuned values included. On a disk that has a scheduler of ours
/// inside, the arm says which of the two schedulers it is ([`Layer`]).
pub fn enter(
    sysfs: &Sysfs,
    device: &str,
    arm: &Arm,
    baseline: &QueueState,
) -> Result<Entered, SwitchError> {
    match arm.layer {
        Some(Layer::Served) => return served::enter(sysfs, device, arm, baseline),
        Some(Layer::Kernel) => {
            served::clear_inside(sysfs, device)?;
            return set(sysfs, device, arm, Some(baseline));
        }
        None => {}
    }
    if arm.tunables.is_empty() && arm.scheduler == baseline.scheduler {
        let adjusted = baseline.restore(sysfs, device)?;
        return Ok(Entered {
            state: QueueState::read(sysfs, device)?,
            adjusted,
        });
    }
    if active(sysfs, device)? == arm.scheduler {
        // A switch to itself resets nothing: leave and come back.
        let other = offered(sysfs, device)?
            .into_iter()
            .find(|name| *name != arm.scheduler);
        if let Some(other) = other {
            switch(sysfs, device, &other)?;
        }
    }
    set(sysfs, device, arm, Some(baseline))
}

/// Switches to an arm's scheduler if it is not active, then sets the arm's tunables over whatever
/// is there (over `settings_of`, where given), and reads everything back.
pub fn set(
    sysfs: &Sysfs,
    device: &str,
    arm: &Arm,
    settings_of: Option<&QueueState>,
) -> Result<Entered, SwitchError> {
    if active(sysfs, device)? != arm.scheduler {
        switch(sysfs, device, &arm.scheduler)?;
    }
    for (name, value) in settings_of.iter().flat_map(|state| &state.settings) {
        // What a switch resets is the arm's own business, not the baseline's.
        if name != "wbt_lat_usec" && name != "async_depth" {
            let file = format!("queue/{name}");
            if sysfs.read_if_present(device, &file).as_ref() != Some(value) {
                let _ = sysfs.write(device, &file, value);
            }
        }
    }
    let adjusted = write_tunables(sysfs, device, arm)?;
    Ok(Entered {
        state: QueueState::read(sysfs, device)?,
        adjusted,
    })
}

/// Writes an arm's tunables in the order that the kernel needs, then reads each back.
fn write_tunables(sysfs: &Sysfs, device: &str, arm: &Arm) -> Result<Vec<Adjusted>, SwitchError> {
    let mut located = arm
        .tunables
        .iter()
        .map(|(name, value)| Ok((locate(sysfs, device, arm, name)?, name, value)))
        .collect::<Result<Vec<_>, SwitchError>>()?;
    located.sort_by_key(|(file, _, _)| tunable_rank(file));
    for (file, name, value) in &located {
        let shown = sysfs.read_if_present(device, file).unwrap_or_default();
        value::check_like(&shown, value)
            .map_err(|cause| error::wrong_value(Some(device), name, value, &cause))?;
    }
    for (file, name, value) in &located {
        sysfs.write(device, file, value).map_err(|source| {
            if is_of_value(&source) {
                error::bad_value(device, name, value, &source).into()
            } else {
                io_error(device, file, source)
            }
        })?;
    }
    let mut adjusted = Vec::new();
    for (file, name, value) in located {
        let got = sysfs
            .read(device, &file)
            .map_err(|source| io_error(device, &file, source))?;
        if !means(value, &got) {
            adjusted.push(Adjusted {
                device: device.into(),
                tunable: name.clone(),
                asked: value.clone(),
                got,
            });
        }
    }
    Ok(adjusted)
}

/// True of a file below `queue/iosched/` that can be set; schedulers show statistics there, too. What takes several lines
/// is no value but an account, though it can be written: adios shows there what it has learned of the disk.
pub fn is_tunable(sysfs: &Sysfs, device: &str, name: &str) -> bool {
    let file = format!("queue/iosched/{name}");
    let is_account = || {
        let shown = sysfs.read_if_present(device, &file);
        shown.is_some_and(|shown| shown.contains('\n'))
    };
    sysfs.is_writable(device, &file) && !is_account()
}

/// The tunables of the scheduler that is active on a device.
fn own_tunables(sysfs: &Sysfs, device: &str) -> Vec<String> {
    let mut names = sysfs.list(device, "queue/iosched");
    names.retain(|name| is_tunable(sysfs, device, name));
    names
}

/// The file of a tunable: `queue/nr_requests`, `queue/iosched/NAME`, or one of [`SETTINGS`].
fn locate(sysfs: &Sysfs, device: &str, arm: &Arm, name: &str) -> Result<String, SwitchError> {
    let own = own_tunables(sysfs, device);
    if own.iter().any(|tunable| tunable == name) {
        return Ok(format!("queue/iosched/{name}"));
    }
    let file = format!("queue/{name}");
    let may_be_set = name == "nr_requests" || SETTINGS.contains(&name);
    if may_be_set && sysfs.device_dir(device).join(&file).exists() {
        return Ok(file);
    }
    Err(unknown(sysfs, device, &arm.scheduler, name, own))
}

/// That a scheduler has no such tunable, with what can be set there: its own, and the settings of the queue.
fn unknown(
    sysfs: &Sysfs,
    device: &str,
    scheduler: &str,
    tunable: &str,
    own: Vec<String>,
) -> SwitchError {
    let queue = sysfs.device_dir(device).join("queue");
    let of_queue = std::iter::once("nr_requests").chain(SETTINGS.iter().copied());
    let of_queue = of_queue.filter(|setting| queue.join(setting).exists());
    let mut known = own;
    known.extend(of_queue.map(str::to_owned));
    error::unknown_tunable(device, scheduler, tunable, &known).into()
}

#[cfg(test)]
iosched_testing::world!();
