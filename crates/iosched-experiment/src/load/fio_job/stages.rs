//! Which jobs run at the same time: stages, and when each job of a stage begins.

use std::time::Duration;

use super::{JobFile, TrialSettings, parse_time};

/// When the workers of a trial ran, in the order of their results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stages {
    /// The stage of each worker.
    pub of_workers: Vec<usize>,
    /// The time in which at least one of them ran, over all stages.
    pub active: Duration,
}

impl JobFile {
    /// When the workers ran, by how long each did; `None` if all ran side by side as long as one another, so that their
    /// rates add up.
    pub(crate) fn stages(&self, settings: &TrialSettings, runtimes: &[Duration]) -> Option<Stages> {
        /// What fio's clock, the start of a worker and its drain make of the same time.
        const SAME: f64 = 0.95;
        let mut stage = 0;
        let mut of_workers = Vec::new();
        // (stage, beginning, end) of each worker, and the jobs with their names.
        let mut ran: Vec<(usize, Duration, Duration)> = Vec::new();
        let mut ends: Vec<(&str, Duration)> = Vec::new();
        for job in &self.jobs {
            if job.has("stonewall") && !ran.is_empty() {
                stage += 1;
                ends.clear();
            }
            let time = |key: &str| job.last(key).and_then(parse_time).unwrap_or_default();
            let waited_for = job.last("wait_for").and_then(|name| {
                let named = ends.iter().filter(|(other, _)| *other == name);
                named.map(|(_, end)| *end).max()
            });
            let ramp = settings.ramp.unwrap_or_else(|| time("ramp_time"));
            let begin = waited_for.unwrap_or_default() + time("startdelay") + ramp;
            for _ in 0..job.workers() {
                let end = begin + *runtimes.get(of_workers.len())?;
                of_workers.push(stage);
                ran.push((stage, begin, end));
                ends.push((&job.name, end));
            }
        }
        if of_workers.len() != runtimes.len() {
            return None;
        }
        ran.sort_unstable();
        let mut active = Duration::ZERO;
        let mut until: Option<(usize, Duration)> = None;
        for &(stage, begin, end) in &ran {
            let covered = until.filter(|(of, _)| *of == stage).map(|(_, until)| until);
            active += end.saturating_sub(begin.max(covered.unwrap_or_default()));
            until = Some((stage, end.max(covered.unwrap_or_default())));
        }
        let shortest = runtimes.iter().min()?;
        let is_side_by_side = shortest.as_secs_f64() >= active.as_secs_f64() * SAME;
        (!is_side_by_side).then_some(Stages { of_workers, active })
    }
}

#[cfg(test)]
mod tests {
    use super::super::JobTarget;
    use super::*;

    #[test]
    fn time_in_which_somebody_ran_is_counted_once_and_stage_by_stage() {
        let stages = |text: &str, runtimes: &[u64]| {
            let settings = TrialSettings {
                place: JobTarget::Path("/dev/loop9".into()),
                runtime: None,
                ramp: None,
                counted: None,
                seed: 7,
                shift: 0,
            };
            let runtimes: Vec<Duration> =
                runtimes.iter().map(|s| Duration::from_secs(*s)).collect();
            let found = JobFile::parse("j", text)
                .unwrap()
                .stages(&settings, &runtimes)?;
            Some((found.of_workers, found.active.as_secs()))
        };
        assert_eq!(stages("[a]\nnumjobs=2\n[b]\n", &[10, 10, 10]), None);
        let walls = "[a]\nnumjobs=2\n[b]\nstonewall\n[c]\n";
        assert_eq!(stages(walls, &[10, 8, 5, 5]), Some((vec![0, 0, 1, 1], 15)));
        assert_eq!(
            stages("[a]\n[b]\nstartdelay=5\n", &[10, 10]),
            Some((vec![0, 0], 15))
        );
        assert_eq!(
            stages("[a]\n[b]\nstartdelay=20\n", &[10, 10]),
            Some((vec![0, 0], 20))
        );
        assert_eq!(
            stages("[a]\n[b]\nwait_for=a\n", &[10, 10]),
            Some((vec![0, 0], 20))
        );
        assert_eq!(stages("[a]\n[b]\n", &[10, 2]), Some((vec![0, 0], 10)));
        assert_eq!(stages("[a]\n[b]\n", &[10]), None, "results of others");
    }
}
