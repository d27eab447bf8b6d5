//! Where a new run measures: on what the user named, on an emulated disk of its own, or over the
//! simulator where there is no such thing.

use iosched_emulate::disk_file;
use iosched_emulate::{self as emulate, EmulatedDisk, Spec};
use iosched_experiment::load::fio;
use iosched_experiment::load::simulated::SimulatedDisk;
use iosched_experiment::plan::{self, OwnDisk, Plan};
use iosched_machine::device::loop_number;
use iosched_machine::failure::{Failure, Problem, exit};
use iosched_machine::host::Host;
use iosched_sim::units::Bytes;

use super::{TuneArgs, boxed};
use crate::output::Output;
use crate::values::split_arms;

/// The disk that is made where no target is named.
pub(super) const EMULATED_MODEL: &str = "hdd-7200";

/// What stands for the kernel's name of a disk that is not there.
const YET_TO_BE_MADE: &str = "loopN";

/// Where a new run measures.
pub(super) enum RunPlace {
    /// What the user named.
    Target(String),
    /// An emulated disk of our own.
    Emulated { disk: EmulatedDisk, own: OwnDisk },
    /// A dry run makes no disk: this loop device shows what the kernel offers, and is named nowhere.
    LikeEmulated { device: String, own: OwnDisk },
    /// No device at all.
    Simulated {
        disk: Box<SimulatedDisk>,
        /// How the line begins that says so.
        because: String,
    },
}

impl RunPlace {
    pub(super) fn choose(
        args: &TuneArgs,
        host: &Host,
        output: &Output,
    ) -> Result<RunPlace, Box<dyn Failure>> {
        if let Some(model) = &args.simulate {
            return RunPlace::simulated(model, "Simulating".to_owned());
        }
        if let Some(target) = &args.target {
            return Ok(RunPlace::Target(target.clone()));
        }
        if let Some(model) = &args.emulate {
            let own = own_disk(model, args, host)?;
            if args.dry_run {
                EmulatedDisk::check(&spec(&own), host).map_err(boxed)?;
                let device = any_loop_device(host);
                return Ok(RunPlace::LikeEmulated { device, own });
            }
            let disk = make(&own)?;
            say_emulated("Measuring", &disk, &own, output);
            return Ok(RunPlace::Emulated { disk, own });
        }
        let lacks = lacks_for_emulation(host);
        let may_simulate = args.user.is_none() && !args.precondition;
        let simulated = |lacks: String| {
            let because = format!("No emulated disk here ({lacks}): simulating");
            RunPlace::simulated(EMULATED_MODEL, because)
        };
        if !lacks.is_empty() && may_simulate {
            let what: Vec<String> = lacks.into_iter().map(|(what, _)| what).collect();
            return simulated(what.join("; "));
        }
        let own = named_disk(EMULATED_MODEL)?;
        if args.dry_run {
            let device = any_loop_device(host);
            return Ok(RunPlace::LikeEmulated { device, own });
        }
        check_can_emulate(host)?;
        let disk = match make(&own) {
            // An old kernel's FUSE is known to lack something only when a disk is made.
            Err(failure) if failure.exit_code() == exit::MISSING && may_simulate => {
                return simulated(failure.to_string());
            }
            made => made?,
        };
        say_emulated("No target given: measuring", &disk, &own, output);
        Ok(RunPlace::Emulated { disk, own })
    }

    fn simulated(model: &str, because: String) -> Result<RunPlace, Box<dyn Failure>> {
        let disk = Box::new(SimulatedDisk {
            model: disk_file::find(model).map_err(boxed)?,
        });
        Ok(RunPlace::Simulated { disk, because })
    }

    /// The emulated disk of our own, made or yet to be made.
    pub(super) fn own_disk(&self) -> Option<&OwnDisk> {
        match self {
            RunPlace::Emulated { own, .. } | RunPlace::LikeEmulated { own, .. } => Some(own),
            RunPlace::Target(_) | RunPlace::Simulated { .. } => None,
        }
    }

    /// The target as the plan understands it.
    pub(super) fn target(&self) -> String {
        match self {
            RunPlace::Target(target) => target.clone(),
            RunPlace::Emulated { disk, .. } => disk.device().to_owned(),
            RunPlace::LikeEmulated { device, .. } => device.clone(),
            RunPlace::Simulated { disk, .. } => disk.model.name.clone(),
        }
    }

    /// What the record is named after.
    pub(super) fn name(&self) -> &str {
        match self {
            RunPlace::Target(target) => target,
            RunPlace::Emulated { own, .. } | RunPlace::LikeEmulated { own, .. } => &own.model.name,
            RunPlace::Simulated { disk, .. } => &disk.model.name,
        }
    }

    pub(super) fn is_emulated(&self) -> bool {
        self.own_disk().is_some()
    }

    pub(super) fn emulated(&self) -> Option<&EmulatedDisk> {
        match self {
            RunPlace::Emulated { disk, .. } => Some(disk),
            _ => None,
        }
    }

    /// The first line of a run that touches no device says so.
    pub(super) fn say_simulated(&self, output: &Output) {
        if let RunPlace::Simulated { disk, because } = self
            && !output.is_json()
        {
            output.note(&format!(
                "{because} {} with our own schedulers, in virtual time; no device is touched.",
                disk.model.name
            ));
        }
    }

    /// In the plan of a dry run, the disk that would be made has the place of the one that was asked instead.
    pub(super) fn leave_out_of(&self, plan: &mut Plan, output: &Output) {
        if let RunPlace::LikeEmulated { own, .. } = self {
            plan.move_to_disk(YET_TO_BE_MADE);
            output.note(&format!(
                "A run would make an emulated {}, and remove it afterwards.",
                own.described()
            ));
        }
    }

    pub(super) fn leave(self, output: &Output) {
        if let RunPlace::Emulated { disk, .. } = self {
            end_disk(disk, output);
        }
    }
}

/// What keeps an emulated disk from being measured here, each with the way out.
fn lacks_for_emulation(host: &Host) -> Vec<(String, String)> {
    let missing = emulate::missing(host).into_iter();
    let mut lacks: Vec<(String, String)> = missing
        .map(|missing| (missing.message, missing.hint.unwrap_or_default()))
        .collect();
    if let Err(error) = fio::version() {
        lacks.push((error.to_string(), error.hint().unwrap_or_default()));
    }
    lacks
}

/// A loop device that can be asked what the kernel offers: one that is not in use, where there is one. Of these the one of the lowest number:
/// the kernel's first ones stay, while those that others had made may go at any moment.
fn any_loop_device(host: &Host) -> String {
    let sysfs = host.sysfs();
    let devices = sysfs.block_devices().unwrap_or_default().into_iter();
    let loops = devices.filter_map(|device| {
        let number = loop_number(&device)?;
        let is_used = sysfs
            .read_if_present(&device, "loop/backing_file")
            .is_some();
        Some((is_used, number, device))
    });
    loops
        .min()
        .map_or_else(|| "loop0".into(), |(.., device)| device)
}

/// An error where no emulated disk can be made and measured.
pub(super) fn check_can_emulate(host: &Host) -> Result<(), Box<dyn Failure>> {
    let lacks = lacks_for_emulation(host);
    if lacks.is_empty() {
        return Ok(());
    }
    let (missing, hints): (Vec<String>, Vec<String>) = lacks.into_iter().unzip();
    let message = format!("this machine cannot measure: {}", missing.join("; "));
    Err(Problem::new(exit::MISSING, message)
        .hint(hints.join("; "))
        .into())
}

/// The disk that is asked for, with a scheduler inside if the arms need one.
fn own_disk(model: &str, args: &TuneArgs, host: &Host) -> Result<OwnDisk, Box<dyn Failure>> {
    let arms = split_arms(&args.arms);
    let baseline = args.baseline.as_deref();
    let device = any_loop_device(host);
    let scheduler = plan::scheduler_for_own_disk(&arms, baseline, host, &device);
    Ok(OwnDisk {
        size_bytes: args.size.map(Bytes::as_u64),
        queue_depth: args.queue_depth,
        slow_down: args.slow_down,
        scheduler: scheduler.map_err(boxed)?,
        ..named_disk(model)?
    })
}

/// A disk as its model describes it.
pub(super) fn named_disk(model: &str) -> Result<OwnDisk, Box<dyn Failure>> {
    Ok(OwnDisk::new(disk_file::find(model).map_err(boxed)?))
}

/// Makes the emulated disk, which goes when we do, whatever happens to us.
pub(super) fn make(own: &OwnDisk) -> Result<EmulatedDisk, Box<dyn Failure>> {
    EmulatedDisk::create(&spec(own)).map_err(boxed)
}

/// How it is made: served by this program.
fn spec(own: &OwnDisk) -> Spec {
    let server = std::env::current_exe().unwrap_or_else(|_| "iosched".into());
    own.spec(server)
}

/// Says what is measured.
pub(super) fn say_emulated(begins: &str, disk: &EmulatedDisk, own: &OwnDisk, output: &Output) {
    if output.is_json() {
        return;
    }
    let served = own.scheduler.as_ref().map_or(
        "",
        |_| ", with arms served inside it (schedulers of iosched's, not this kernel's)",
    );
    output.note(&format!(
        "{begins} an emulated {} as /dev/{}{served}, which is removed afterwards.",
        own.described(),
        disk.device()
    ));
}

/// Removes it; a note if that is not possible.
pub(super) fn end_disk(disk: EmulatedDisk, output: &Output) {
    if let Err(error) = disk.remove(true) {
        output.warn(&format!("note: {error}"));
    }
}
