//! What comes before the first trial: the loads' data, a filled device, steady writes, and every
//! arm set once.

use std::time::{Duration, Instant};

use iosched_stats::steady;
use iosched_switch as switch;

use super::{RunError, Runner, workplace};
use crate::event::RunEvent;
use crate::interference::Watch;
use crate::load::fio;
use crate::load::fio_job::{JobFile, TrialSettings};
use crate::plan::STEADY_SHARE;
use crate::record::{Entry, SteadyWindow};
use crate::split::SplitWatch;
use crate::trial::Slot;

/// Runs of a load after which it is measured although it is not steady (SNIA: 25 rounds).
pub(crate) const MOST_STEADY_RUNS: usize = 25;

/// The job that fills a device twice.
const PRECONDITION: &str = "[precondition]\nrw=write\nbs=128k\niodepth=32\nloops=2\n";

impl Runner<'_> {
    /// Lets each load make what all its trials use, so that none pays for it.
    pub(super) fn prepare_loads(&mut self) -> Result<(), RunError> {
        let at = workplace(self.options, &self.scope, self.stop, &self.place);
        let observer = &mut *self.observer;
        for load in &mut self.loads {
            load.prepare(&at, &mut |what| {
                observer.event(&RunEvent::Preparing { what });
            })?;
        }
        Ok(())
    }

    /// Looks on at what others do from now on: what is started after this is known to be the load's.
    pub(super) fn open_watch(&mut self) {
        if self.plan.disks.is_empty() {
            return;
        }
        let (watch, why_not) = Watch::open(self.host, &self.plan.disks, &self.servers);
        self.watch = Some(watch);
        if let Some(error) = why_not {
            let reason = &error.to_string();
            self.observer.event(&RunEvent::NotWatched { reason });
        }
    }

    /// Gets ready to record where requests spend their time. A run without that is as good.
    pub(super) fn open_split(&mut self) {
        if self.plan.split && !self.plan.disks.is_empty() {
            let opened = SplitWatch::new(self.host, &self.plan.disks);
            self.split = self.or_no_split(opened);
        }
    }

    /// Fills the whole device twice, sequentially, as the SNIA's Performance Test Specification
    /// (2.0.1, purge left out) does before it measures flash.
    pub(super) fn precondition(&mut self) -> Result<(), RunError> {
        let was_done = |entry: &Entry| matches!(entry, Entry::Preconditioned { .. });
        if !self.plan.precondition || self.recorder.record().entries.iter().any(was_done) {
            return Ok(());
        }
        self.observer.event(&RunEvent::Preparing {
            what: "filling the whole device twice (--precondition)",
        });
        let fill = JobFile::parse("precondition", PRECONDITION).expect("our own job file");
        let settings = TrialSettings {
            runtime: None,
            ramp: None,
            ..self.plan.trial_settings(0, 0, self.place.clone())
        };
        let begun = Instant::now();
        let job_file = fill.compose(&settings);
        let jobs = fio::run_long(&job_file, &settings.place, &self.scope, self.stop)?;
        let written = jobs.iter().filter_map(|job| job.write.as_ref());
        self.recorder.append(Entry::Preconditioned {
            bytes: written.map(|flow| flow.bytes).sum(),
            elapsed_s: begun.elapsed().as_secs_f64(),
        })?;
        Ok(())
    }

    /// Runs each load that asks for it, under the baseline, until five runs in a row are steady by
    /// the SNIA's rule, or [`MOST_STEADY_RUNS`] have passed, or the load's share of
    /// [`STEADY_SHARE`] of the budget. Again after an interruption: a rest lets flash recover.
    pub(super) fn wait_until_steady(&mut self) -> Result<(), RunError> {
        let loads = 0..self.plan.loads.len();
        let waiting: Vec<usize> = loads
            .filter(|&load| self.plan.loads[load].wait_until_steady)
            .collect();
        let budget = self.plan.rules.time_budget();
        for (done, &load) in waiting.iter().enumerate() {
            let left = budget.map(|budget| {
                let share = budget.mul_f64(STEADY_SHARE);
                let left = share.saturating_sub(self.progress.steadying());
                left.div_f64((waiting.len() - done) as f64)
            });
            self.run_until_steady(load, left)?;
        }
        Ok(())
    }

    /// As long as another run fits into the time that is left.
    fn run_until_steady(&mut self, load: usize, left: Option<Duration>) -> Result<(), RunError> {
        let rule = steady::Rule::default();
        self.enter(self.plan.baseline)?;
        let begun = Instant::now();
        let mut throughput = Vec::new();
        let mut window = None;
        while window.is_none() && throughput.len() < MOST_STEADY_RUNS {
            self.check_stop()?;
            let runs = u32::try_from(throughput.len()).unwrap_or(0);
            let one = match runs {
                0 => self.progress.trial_time(load),
                _ => begun.elapsed() / runs,
            };
            if left.is_some_and(|left| begun.elapsed() + one > left) {
                break;
            }
            let slot = Slot {
                load,
                round: u32::MAX - runs,
                arm: self.plan.baseline,
            };
            self.reset_load(slot)?;
            self.start_load(slot)?;
            let run = self.run_load(slot)?;
            throughput.push(run.metrics().throughput_bytes_per_s);
            window = throughput
                .len()
                .checked_sub(rule.rounds)
                .and_then(|first| rule.window(&throughput, first))
                .filter(|window| rule.holds(window));
            self.observer.event(&RunEvent::SteadyRun {
                load: &self.plan.loads[load].name,
                throughput_bytes_per_s: &throughput,
                is_steady: window.is_some(),
            });
        }
        self.save(Entry::Steady {
            load,
            throughput_bytes_per_s: throughput,
            window: window.map(|window| SteadyWindow {
                excursion: window.excursion,
                slope: window.slope,
            }),
            elapsed_s: begun.elapsed().as_secs_f64(),
        })
    }

    /// Sets every arm once, so that a tunable that this kernel refuses is known before an hour
    /// of measuring, and what it clamps is said.
    pub(super) fn rehearse(&mut self) -> Result<(), RunError> {
        for arm in 0..self.plan.arms.len() {
            self.check_stop()?;
            let label = self.plan.arm_label(arm);
            for (disk, baseline) in self.plan.disks.iter().zip(&self.baseline) {
                let entered =
                    switch::enter(&self.host.sysfs(), disk, &self.plan.arms[arm], baseline)?;
                for adjusted in &entered.adjusted {
                    self.observer.event(&RunEvent::Adjusted {
                        arm: &label,
                        adjusted,
                    });
                }
            }
        }
        Ok(())
    }
}
