//! Who got the tags that processes slept for, counted in a recording.
//!
//! A process that is woken for a tag may come too late: the one whose request gave it back has taken it
//! for its next. Which of the two the kernel lets run first depends on the processors that they were put
//! on and on all else that runs there, which no model here says. So it is counted, as a property of the
//! machine while the load ran, and the simulated machine gets the same share
//! ([`iosched_sim::simulate::MultiQueueSettings::retaken`]). Who waits how long for that is predicted.

use std::collections::BTreeMap;

use iosched_sim::request::ProcessId;
use iosched_sim::trace::kernel::{Action, Event, Line};
use iosched_sim::units::Sector;
use serde::{Deserialize, Serialize};

/// Tags that two processes could have had: one that slept for it, and the one whose request gave it
/// back, which was awake and came with another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contested {
    /// How many there were.
    pub tags: u64,
    /// How many of them the process had that gave them back.
    pub retaken: u64,
}

impl Contested {
    /// The share that was retaken.
    pub(super) fn share(self) -> f64 {
        if self.tags == 0 {
            return 0.0;
        }
        self.retaken as f64 / self.tags as f64
    }

    pub(super) fn of(lines: &[Line]) -> Contested {
        let mut contests = Contests::default();
        for line in lines {
            if let Line::Event(event) = line {
                contests.see(event);
            }
        }
        contests.counted
    }
}

/// A tag that is free again while processes sleep.
#[derive(Debug)]
struct Contest {
    /// Whose request gave it back.
    owner: ProcessId,
    sleepers: Vec<ProcessId>,
    /// One of those has it.
    is_theirs: bool,
}

#[derive(Debug, Default)]
struct Contests {
    /// Bios that have no request yet, by process: it sleeps.
    without: BTreeMap<ProcessId, u64>,
    /// By first sector.
    owners: BTreeMap<Sector, ProcessId>,
    open: Option<Contest>,
    counted: Contested,
}

impl Contests {
    fn see(&mut self, event: &Event) {
        let process = event.process;
        match event.action {
            Action::Queued => {
                *self.without.entry(process).or_default() += 1;
                let lost = |contest: &mut Contest| contest.is_theirs && contest.owner == process;
                if self.open.take_if(lost).is_some() {
                    self.counted.tags += 1;
                }
            }
            Action::BackMerged | Action::FrontMerged => self.goes_on(process),
            Action::Allocated => {
                self.goes_on(process);
                self.owners.insert(event.start, process);
                self.taken_by(process);
            }
            Action::Completed => {
                self.open = None; // two at a time: whose was taken cannot be told
                if let Some(owner) = self.owners.remove(&event.start) {
                    self.is_free(owner);
                }
            }
            _ => {}
        }
    }

    fn goes_on(&mut self, process: ProcessId) {
        if let Some(bios) = self.without.get_mut(&process) {
            *bios = bios.saturating_sub(1);
        }
    }

    fn is_free(&mut self, owner: ProcessId) {
        let asleep = self.without.iter().filter(|(_, bios)| **bios > 0);
        let sleepers: Vec<ProcessId> = asleep.map(|(process, _)| *process).collect();
        self.open = (!sleepers.is_empty() && !sleepers.contains(&owner)).then_some(Contest {
            owner,
            sleepers,
            is_theirs: false,
        });
    }

    /// If a sleeper was sooner, there was a contest only if the other came at all.
    fn taken_by(&mut self, process: ProcessId) {
        let Some(contest) = &mut self.open else {
            return;
        };
        if contest.sleepers.contains(&process) {
            contest.is_theirs = true;
            return;
        }
        if !contest.is_theirs && contest.owner == process {
            self.counted.tags += 1;
            self.counted.retaken += 1;
        }
        self.open = None;
    }
}

#[cfg(test)]
mod tests {
    use iosched_sim::disk::{self, ModelOptions};
    use iosched_sim::scheduler::{Kernel, SchedulerSpec, Settings, build};
    use iosched_sim::simulate::{MultiQueueSettings, Setup, run};
    use iosched_sim::trace::kernel::Reader;
    use iosched_sim::units::Nanos;
    use iosched_sim::workload::fio_job;

    use super::*;
    use crate::fixture::Recording;

    fn lines(text: &str) -> Vec<Line> {
        let mut reader = Reader::default();
        let read = text.lines().map(|line| reader.read(line).unwrap());
        read.flatten().collect()
    }

    #[test]
    fn a_tag_counts_if_one_slept_for_it_and_the_other_came() {
        // 3 sleeps all the time; 1 retakes its tag; 2 comes too late; 4 does not come back.
        let text = "0 Q R 0 8 1 a - - 0\n0 G R 0 8 1 a - - 0\n1 Q R 8 8 2 a - - 0\n1 G R 8 8 2 a - - 0\n\
                    1 Q R 32 8 4 a - - 0\n1 G R 32 8 4 a - - 0\n\
                    2 Q R 16 8 3 a - - 0\n3 C R 0 8 0 - - - 0\n4 Q R 24 8 1 a - - 0\n4 G R 24 8 1 a - - 0\n\
                    5 C R 8 8 0 - - - 0\n6 G R 16 8 3 a - - 0\n7 Q R 40 8 2 a - - 0\n\
                    8 C R 32 8 0 - - - 0\n9 G R 40 8 2 a - - 0\n9 C R 24 8 0 - - - 0\n";
        let counted = Contested::of(&lines(text));
        assert_eq!((counted.retaken, counted.tags), (1, 2));
    }

    #[test]
    fn what_a_simulated_machine_is_told_is_counted_in_its_recording() {
        let model = disk::build("fixed", &ModelOptions::default()).unwrap();
        let load = "[readers]\nrw=randread\nbs=4k\nnumjobs=32\ntime_based\nruntime=4\n";
        let jobs = fio_job::parse(load, model.capacity()).unwrap();
        let none = SchedulerSpec::parse("none").unwrap();
        for share in [0.0, 0.4, 1.0] {
            let disk = disk::build("fixed", &ModelOptions::default()).unwrap();
            let none = build(&none, &Kernel::default(), &Settings::new()).unwrap();
            let setup = Setup {
                queue_depth: 4,
                multi_queue: MultiQueueSettings {
                    retaken: share,
                    ..MultiQueueSettings::default()
                },
                until: Nanos::from_secs(4),
                ..Setup::new(none, disk, jobs.clone())
            };
            let mut recorder = Recording::default();
            run(setup, &mut recorder);
            let counted = Contested::of(&lines(&recorder.0));
            assert!(counted.tags > 500, "{counted:?}");
            assert!(
                (counted.share() - share).abs() < 0.06,
                "{share}: {counted:?}"
            );
        }
    }
}
