//! Where a new run measures: on what the user named, on an emulated disk of its own, or over the
//! simulator where there is no such thing.

use iosched::disk_file;
use iosched::emulate::spec::Spec;
use iosched::emulate::{self, EmulatedDisk};
use iosched::failure::Failure;
use iosched::host::Host;
use iosched::load::fio;
use iosched::load::simulated::SimulatedDisk;
use iosched_sim::disk::Model;

use super::{TuneArgs, TuneError, boxed};
use crate::output::Output;

/// The disk that is made where no target is named.
pub(super) const EMULATED_MODEL: &str = "hdd-7200";

/// Where a new run measures.
pub(super) enum Place {
    /// What the user named.
    Target(String),
    /// An emulated disk of our own.
    Emulated(EmulatedDisk),
    /// A dry run makes no disk: any loop device shows what the kernel offers.
    LikeEmulated(String),
    /// No device at all.
    Simulated {
        disk: Box<SimulatedDisk>,
        /// How the line begins that says so.
        because: String,
    },
}

impl Place {
    pub(super) fn choose(
        args: &TuneArgs,
        host: &Host,
        output: &Output,
    ) -> Result<Place, Box<dyn Failure>> {
        if let Some(model) = &args.simulate {
            return Place::simulated(model, "Simulating".to_owned());
        }
        if let Some(target) = &args.target {
            return Ok(Place::Target(target.clone()));
        }
        let lacks = lacks_for_emulation(host);
        if !lacks.is_empty() && args.user.is_none() && !args.precondition {
            let what: Vec<String> = lacks.iter().map(|(what, _)| what.clone()).collect();
            let because = format!("No emulated disk here ({}): simulating", what.join("; "));
            return Place::simulated(EMULATED_MODEL, because);
        }
        if args.dry_run {
            return Ok(Place::LikeEmulated(any_loop_device(host)));
        }
        make_disk(host, EMULATED_MODEL, output).map(Place::Emulated)
    }

    fn simulated(model: &str, because: String) -> Result<Place, Box<dyn Failure>> {
        let disk = Box::new(SimulatedDisk {
            model: disk_file::find(model).map_err(boxed)?,
        });
        Ok(Place::Simulated { disk, because })
    }

    /// The model of an emulated disk of our own, made or yet to be made.
    pub(super) fn own_model(&self) -> Option<Model> {
        let known = self.is_emulated().then(|| disk_file::find(EMULATED_MODEL));
        known.and_then(Result::ok)
    }

    /// The target as the plan understands it.
    pub(super) fn target(&self) -> String {
        match self {
            Place::Target(target) => target.clone(),
            Place::Emulated(disk) => disk.device().to_owned(),
            Place::LikeEmulated(device) => device.clone(),
            Place::Simulated { disk, .. } => disk.model.name.clone(),
        }
    }

    /// What the record is named after.
    pub(super) fn name(&self) -> &str {
        match self {
            Place::Target(target) => target,
            Place::Emulated(_) | Place::LikeEmulated(_) => EMULATED_MODEL,
            Place::Simulated { disk, .. } => &disk.model.name,
        }
    }

    pub(super) fn is_emulated(&self) -> bool {
        matches!(self, Place::Emulated(_) | Place::LikeEmulated(_))
    }

    pub(super) fn emulated(&self) -> Option<&EmulatedDisk> {
        match self {
            Place::Emulated(disk) => Some(disk),
            _ => None,
        }
    }

    /// The first line of a run that touches no device says so.
    pub(super) fn say_simulated(&self, output: &Output) {
        if let Place::Simulated { disk, because } = self
            && !output.is_json()
        {
            output.note(&format!(
                "{because} {} with our own schedulers, in virtual time; no device is touched.",
                disk.model.name
            ));
        }
    }

    pub(super) fn leave(self, output: &Output) {
        if let Place::Emulated(disk) = self {
            end_disk(disk, output);
        }
    }
}

/// What keeps an emulated disk from being measured here, each with the way out.
fn lacks_for_emulation(host: &Host) -> Vec<(String, String)> {
    let missing = emulate::missing(host);
    let mut lacks: Vec<(String, String)> = missing
        .iter()
        .map(|missing| (missing.to_string(), missing.hint()))
        .collect();
    if let Err(error) = fio::version() {
        lacks.push((error.to_string(), error.hint().unwrap_or_default()));
    }
    lacks
}

fn any_loop_device(host: &Host) -> String {
    let devices = host.sysfs().block_devices().unwrap_or_default();
    devices
        .into_iter()
        .find(|device| device.starts_with("loop"))
        .unwrap_or_else(|| "loop0".into())
}

/// An error where no emulated disk can be made and measured.
pub(super) fn check_can_emulate(host: &Host) -> Result<(), Box<dyn Failure>> {
    let lacks = lacks_for_emulation(host);
    if lacks.is_empty() {
        return Ok(());
    }
    let (missing, hints) = lacks.into_iter().unzip();
    Err(boxed(TuneError::Missing { missing, hints }))
}

/// Makes the emulated disk, which goes when we do, whatever happens to us.
pub(super) fn make_disk(
    host: &Host,
    model: &str,
    output: &Output,
) -> Result<EmulatedDisk, Box<dyn Failure>> {
    check_can_emulate(host)?;
    let server = std::env::current_exe().unwrap_or_else(|_| "iosched".into());
    let mut spec = Spec::new(disk_file::find(model).map_err(boxed)?, server);
    spec.owner_pid = i32::try_from(std::process::id()).ok();
    let disk = EmulatedDisk::create(&spec).map_err(boxed)?;
    if !output.is_json() {
        output.note(&format!(
            "No target given: measuring an emulated {model} as /dev/{}, which is removed afterwards.",
            disk.device()
        ));
    }
    Ok(disk)
}

/// Removes it; a note if that is not possible.
pub(super) fn end_disk(disk: EmulatedDisk, output: &Output) {
    if let Err(error) = disk.remove(true) {
        output.warn(&format!("note: {error}"));
    }
}
