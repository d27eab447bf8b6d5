//! A load by fio under the kernel's own scheduler, with every event of the block layer recorded.

use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iosched_conform::multi_queue::{self, Device, Recording};
use iosched_conform::{Conformance, Settings, best_phase};
use iosched_machine::capture::{self, DeviceNumber, Losses, Recorder};
use iosched_machine::failure::Problem;
use iosched_machine::host::Host;
use iosched_machine::process::{Scope, Stop};
use iosched_machine::user_files::{self, NewFile};
use iosched_sim::block_layer::MergeLimits;
use iosched_sim::scheduler::{self, Rule, SchedulerSpec};
use iosched_sim::simulate::Attachment;
use iosched_sim::trace::kernel::Line;
use iosched_sim::trace::write_event;
use iosched_sim::units::{Nanos, Time};
use iosched_switch::lock::{self, Lock};
use iosched_switch::{self as switch, Arm, QueueState};

use super::{Load, Plan, not_kept};
use crate::load::fio;
use crate::load::fio_job::{JobTarget, TrialSettings};
use crate::trial::JobResult;

/// How often events are taken from the kernel's buffers, which hold a second and more.
const DRAIN: Duration = Duration::from_millis(50);

/// What the load's processes are called.
pub(super) const FIO: &str = "fio";

/// The emulated disk, ready for loads.
pub(super) struct Bench<'a> {
    host: Host,
    device: &'a str,
    number: DeviceNumber,
    stop: &'a Stop,
    /// The queue as the kernel set it up.
    baseline: QueueState,
    /// Nobody who looks at the disk changes its scheduler meanwhile.
    _lock: Lock,
}

/// What was measured.
pub(super) struct Measured {
    /// What fio says of its jobs.
    pub(super) jobs: Vec<JobResult>,
    /// What the block layer did, in the order of time.
    pub(super) lines: Vec<Line>,
    pub(super) losses: Losses,
    /// The queue while the load ran.
    pub(super) state: QueueState,
}

impl<'a> Bench<'a> {
    pub(super) fn new(device: &'a str, stop: &'a Stop) -> Result<Bench<'a>, Problem> {
        let host = Host::live();
        Ok(Bench {
            number: capture::device_number(&host, device)?,
            _lock: lock::lock_own(&host, device)?,
            baseline: QueueState::read(&host.sysfs(), device)?,
            host,
            device,
            stop,
        })
    }

    /// Runs the load under the scheduler.
    pub(super) fn run(
        &self,
        plan: &Plan,
        scheduler: &SchedulerSpec,
        load: &Load,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Measured, Problem> {
        let state = self.set(scheduler)?;
        let path = self.host.dev(self.device);
        // What an earlier load left in the page cache is none of this one's.
        let _ = File::open(&path).and_then(|file| file.sync_all());
        let settings = TrialSettings {
            place: JobTarget::Path(path.display().to_string()),
            runtime: Some(plan.wanted.runtime),
            ramp: None,
            counted: None,
            seed: plan.wanted.seed,
            shift: 0,
        };
        let job_file = load.file.compose(&settings);
        let running = fio::Running {
            duration: load.file.duration(&settings),
            read_only: !load.file.writes(),
            limit: None,
            counted: None,
            place: &settings.place,
            scope: &Scope::default(),
            stop: self.stop,
        };
        let [block, kyber] = capture::EVENTS;
        let recorder = Recorder::start(self.number, &[block, kyber])?;
        let (jobs, events) = record(recorder, || fio::run(&job_file, &running, tick));
        let (jobs, (lines, losses)) = (jobs?, events?);
        let measured = Measured {
            jobs,
            lines,
            losses,
            state,
        };
        measured.keep(plan, scheduler, load)?;
        Ok(measured)
    }

    /// Sets the scheduler with its tunables; all else is as the kernel set it up.
    fn set(&self, scheduler: &SchedulerSpec) -> Result<QueueState, Problem> {
        let sysfs = self.host.sysfs();
        let tunables = scheduler.tunables.iter();
        let arm = Arm {
            layer: None,
            scheduler: scheduler.name.clone(),
            tunables: tunables
                .map(|(name, value)| (name.clone(), value.to_string()))
                .collect(),
        };
        switch::enter(&sysfs, self.device, &arm, &self.baseline)?;
        Ok(QueueState::read(&sysfs, self.device)?)
    }
}

/// Records while something is done, and what was recorded.
fn record<T>(
    mut recorder: Recorder,
    work: impl FnOnce() -> T,
) -> (T, Result<(Vec<Line>, Losses), Problem>) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut lines = Vec::new();
            while !done.load(Ordering::Acquire) {
                recorder.drain(&mut lines)?;
                std::thread::sleep(DRAIN);
            }
            let losses = recorder.finish(&mut lines)?;
            Ok((lines, losses))
        });
        let result = work();
        done.store(true, Ordering::Release);
        (result, reader.join().expect("reading pages does not panic"))
    })
}

impl Measured {
    /// A setting of the queue while the load ran.
    pub(super) fn setting(&self, name: &str) -> Option<usize> {
        self.state.settings.get(name)?.parse().ok()
    }

    /// Write-back throttling: the latency of reads above which it acts, where it is on.
    pub(super) fn wbt_lat(&self) -> Option<Nanos> {
        let micros = self.setting("wbt_lat_usec")?;
        (micros > 0).then(|| Nanos::from_micros(micros as u64))
    }

    /// Requests that the scheduler could hold.
    pub(super) fn nr_requests(&self) -> Option<usize> {
        self.state.nr_requests.as_ref()?.parse().ok()
    }

    /// Writes the recording where the user wants to have it.
    fn keep(&self, plan: &Plan, scheduler: &SchedulerSpec, load: &Load) -> Result<(), Problem> {
        let Some(folder) = &plan.wanted.recordings else {
            return Ok(());
        };
        let kernel = plan.kernel.version;
        // The rules are those of this kernel.
        let recorded = SchedulerSpec {
            kernel: None,
            ..scheduler.clone()
        };
        let mut text = format!(
            "# Linux {kernel} blk-mq, scheduler={recorded} disk={} workload={}\n",
            plan.wanted.model.name, load.name
        );
        for line in &self.lines {
            if let Line::Event(event) = line {
                write_event(&mut text, Time::ZERO, event).expect("strings take all text");
            }
        }
        let path = folder.join(plan.recording(scheduler, load));
        let written = user_files::make_directory(folder).and_then(|_| {
            let mut new = NewFile::at(&path)?;
            new.file().write_all(text.as_bytes())?;
            new.put_in_place()
        });
        written.map_err(|cause| not_kept(&path, &cause))
    }

    /// Follows the recording with our scheduler.
    pub(super) fn follow(
        &self,
        plan: &Plan,
        of: &SchedulerSpec,
        depth: u32,
    ) -> Result<Conformance, Problem> {
        let recording = Recording::of_lines(self.lines.clone());
        let device = Device {
            queue_depth: usize::try_from(depth).unwrap_or(1),
            attachment: Attachment::TagOnly,
        };
        let settings = Settings {
            spec: of.clone(),
            // Events are stamped with `CLOCK_MONOTONIC`.
            kernel: plan.kernel,
            tick_phase_given: plan.kernel.follows(Rule::TicksAligned),
            initial: Vec::new(),
            limits: MergeLimits::default(),
            queue_depth: Some(device.queue_depth),
            attachment: Some(device.attachment),
            info: scheduler::info(&of.name)?,
        };
        let (report, _, phase) = best_phase(&settings, |settings, until| {
            let scheduler = settings.build();
            let kernel = &settings.kernel;
            let followed = multi_queue::follow(until, &recording, scheduler, kernel, device);
            Ok::<_, Problem>(followed)
        })?;
        Ok(Conformance::of(&of.name, &settings, report, phase))
    }
}
