//! With what a recording is followed.

use iosched_facts::Problem;
use iosched_sim::block_layer::{Attachment, MergeLimits};
use iosched_sim::scheduler::{
    self, Followed, Kernel, KernelVersion, NamedValues, SchedulerInfo, SchedulerSpec,
};

/// Settings, checked: a scheduler can be made from them as often as needed.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The scheduler with all that is set.
    pub spec: SchedulerSpec,
    /// HZ and rotational.
    pub kernel: Kernel,
    /// State to begin with.
    pub initial: NamedValues,
    /// Limits of merging.
    pub limits: MergeLimits,
    /// Commands that the device takes, if that is known.
    pub queue_depth: Option<usize>,
    /// How the block layer knows that the device has room, if that is known.
    pub attachment: Option<Attachment>,
    /// Where ticks begin is known: it is not to be searched for.
    pub tick_phase_given: bool,
    /// How the scheduler is listed.
    pub info: &'static SchedulerInfo,
}

impl Settings {
    /// The same on a kernel of this version, unless the scheduler names its own.
    ///
    /// # Errors
    /// It is older than the scheduler, as ours is.
    pub fn on(&self, version: KernelVersion) -> Result<Settings, Problem> {
        let mut settings = self.clone();
        settings.kernel = settings.spec.kernel(&Kernel {
            version,
            ..settings.kernel
        });
        scheduler::build_followed(&settings.spec, &settings.kernel, &settings.initial)?;
        Ok(settings)
    }

    /// A fresh scheduler, to follow a recording.
    pub fn build(&self) -> Box<dyn Followed> {
        let built = scheduler::build_followed(&self.spec, &self.kernel, &self.initial);
        built.expect("checked when the settings were")
    }
}
