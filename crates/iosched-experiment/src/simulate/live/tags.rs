//! Who got the tags that processes slept for, counted in a recording.
//!
//! A process that is woken for a tag may come too late: the one whose request gave it back has taken it
//! for its next. Which of the two the kernel lets run first depends on the processors that they were put
//! on and on all else that runs there, which no model here says. So it is counted, as a property of the
//! machine while the load ran, and the simulated machine gets the same shares
//! ([`iosched_sim::simulate::TagSteal`]). Who waits how long for that is predicted.
//!
//! On a disk whose completions are closer together than wakes take, tens of microseconds, a
//! waiter may get the tag of another one, and what is counted is not quite what happened.

use std::collections::BTreeMap;

use iosched_sim::request::ProcessId;
use iosched_sim::simulate::TagSteal;
use iosched_sim::trace::kernel::{Action, Line, Remark, TraceEvent};
use iosched_sim::units::{Nanos, Sector, Time};
use serde::{Deserialize, Serialize};

/// Fewer contended tags in a part of a run say less of it than those of the whole run.
const ENOUGH: u64 = 20;

/// Tags that two processes could have had: one that slept for it and was woken, and the one whose
/// request gave it back, which did not sleep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagCount {
    /// How many there were.
    pub tags: u64,
    /// How many of them the woken one came too late for.
    #[serde(alias = "retaken")] // in reports of before
    pub stolen: u64,
}

/// The same of a run, for which the prediction takes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContendedTags {
    /// All.
    #[serde(flatten)]
    pub all: TagCount,
    /// In each eighth of the run, by how often the one that was woken had been woken without a tag since it
    /// found no tag: not yet, once, two or three times, more often.
    pub parts: [[TagCount; TagSteal::SORTS]; TagSteal::PARTS],
}

impl TagCount {
    /// The share that was stolen, if there were so many.
    fn share_of(self, least: u64) -> Option<f64> {
        (self.tags >= least).then(|| self.stolen as f64 / self.tags as f64)
    }

    fn count(&mut self, is_stolen: bool) {
        self.tags += 1;
        self.stolen += u64::from(is_stolen);
    }
}

impl ContendedTags {
    /// In the recording of a run that lasted as long as this.
    pub(super) fn of(lines: &[Line], runtime: Nanos) -> ContendedTags {
        let part = runtime / TagSteal::PARTS as u64;
        let mut seen = Seen::default();
        for line in lines {
            match line {
                Line::Event(event) => seen.event(event),
                Line::Remark(Remark::Woken { process, time }) => seen.woken(*time, *process),
                Line::Remark(_) => {}
            }
        }
        seen.counted(part)
    }

    /// What the simulated machine is told: of a part in which there were too few, what holds for
    /// the whole run.
    pub(super) fn tag_steal(&self, runtime: Nanos) -> TagSteal {
        let mut whole = [TagCount::default(); TagSteal::SORTS];
        for part in &self.parts {
            for (sum, of_part) in whole.iter_mut().zip(part) {
                sum.tags += of_part.tags;
                sum.stolen += of_part.stolen;
            }
        }
        let mut told = TagSteal {
            part: runtime / TagSteal::PARTS as u64,
            ..TagSteal::default()
        };
        for (shares, part) in told.shares.iter_mut().zip(&self.parts) {
            for ((share, of_part), whole) in shares.iter_mut().zip(part).zip(&whole) {
                let counted = of_part.share_of(ENOUGH).or_else(|| whole.share_of(1));
                *share = counted.unwrap_or(0.0);
            }
        }
        told
    }
}

/// A tag that was given back while processes slept, and for which some were woken.
#[derive(Debug)]
struct Contended {
    time: Time,
    /// How often the first of them had been woken without finding a tag.
    failed_wakes: u32,
    /// Those who have neither got a tag nor been woken once more.
    open: usize,
    /// One of them has got a tag.
    is_theirs: bool,
}

/// A process that has bios without a request.
#[derive(Debug, Default)]
struct Sleeper {
    bios: u64,
    /// What it was last woken for.
    tag: Option<usize>,
    /// How often it was woken.
    woken: u32,
}

#[derive(Debug, Default)]
struct Seen {
    /// Whoever has bios without a request sleeps.
    sleepers: BTreeMap<ProcessId, Sleeper>,
    /// By first sector.
    owners: BTreeMap<Sector, ProcessId>,
    contended: Vec<Contended>,
    /// Whose request was completed last, if it did not sleep; its tag, once there is one.
    last: Option<(ProcessId, Option<usize>)>,
    began: Option<Time>,
}

impl Seen {
    fn event(&mut self, event: &TraceEvent) {
        let process = event.process;
        self.began.get_or_insert(event.time);
        match event.action {
            Action::Queued => self.sleepers.entry(process).or_default().bios += 1,
            Action::BackMerged | Action::FrontMerged => self.goes_on(process),
            Action::Allocated => {
                self.goes_on(process);
                self.owners.insert(event.start, process);
            }
            Action::Completed => {
                let owner = self.owners.remove(&event.start);
                let awake = |owner: &ProcessId| !self.sleepers.contains_key(owner);
                self.last = owner.filter(awake).map(|owner| (owner, None));
            }
            _ => {}
        }
    }

    /// A bio of the process has a request.
    fn goes_on(&mut self, process: ProcessId) {
        let Some(sleeper) = self.sleepers.get_mut(&process) else {
            return;
        };
        sleeper.bios -= 1;
        if let Some(tag) = sleeper.tag.take() {
            self.contended[tag].open -= 1;
            self.contended[tag].is_theirs = true;
        }
        if sleeper.bios == 0 {
            self.sleepers.remove(&process);
        }
    }

    fn woken(&mut self, time: Time, process: ProcessId) {
        let Some(sleeper) = self.sleepers.get_mut(&process) else {
            return; // it waited for something else
        };
        let failed_wakes = sleeper.woken;
        sleeper.woken += 1;
        if let Some(tag) = sleeper.tag.take() {
            self.contended[tag].open -= 1;
        }
        let Some((_, tag)) = &mut self.last else {
            return;
        };
        let tag = *tag.get_or_insert_with(|| {
            self.contended.push(Contended {
                time,
                failed_wakes,
                open: 0,
                is_theirs: false,
            });
            self.contended.len() - 1
        });
        self.contended[tag].open += 1;
        sleeper.tag = Some(tag);
    }

    fn counted(&self, part: Nanos) -> ContendedTags {
        let mut counted = ContendedTags::default();
        let began = self.began.unwrap_or(Time::ZERO);
        for tag in &self.contended {
            if !tag.is_theirs && tag.open > 0 {
                continue; // the recording ended before
            }
            let time = Time::ZERO + (tag.time - began);
            let of_part = &mut counted.parts[TagSteal::part_at(part, time)];
            of_part[TagSteal::sort(tag.failed_wakes)].count(!tag.is_theirs);
            counted.all.count(!tag.is_theirs);
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use iosched_sim::disk::{self, ModelOptions};
    use iosched_sim::scheduler::{Kernel, NamedValues, SchedulerSpec, build};
    use iosched_sim::simulate::{BlockEvent, MultiQueueSettings, Setup, Tracer, run, write_line};
    use iosched_sim::trace::kernel::Reader;
    use iosched_sim::workload::fio_job;

    use super::*;

    const SECONDS: u64 = 4;

    /// A recording, line by line.
    #[derive(Default)]
    struct Lines(Vec<Line>);

    impl Lines {
        fn add(&mut self, text: &str) {
            let mut reader = Reader::new(Nanos::ZERO);
            let read = text.lines().map(|line| reader.read(line).unwrap());
            self.0.extend(read.flatten());
        }

        fn wake(&mut self, micros: u64, process: u32) {
            self.woken(Time::ZERO + Nanos::from_micros(micros), ProcessId(process));
        }
    }

    impl Tracer for Lines {
        fn happened(&mut self, block_event: &BlockEvent) {
            let mut text = String::new();
            write_line(&mut text, Time::ZERO, block_event).unwrap();
            self.add(&text);
        }

        fn exited(&mut self, _time: Time, _process: ProcessId, _name: &str) {}

        fn woken(&mut self, time: Time, process: ProcessId) {
            self.0.push(Line::Remark(Remark::Woken { process, time }));
        }
    }

    #[test]
    fn reports_of_before_are_read() {
        let mut counted = ContendedTags::default();
        counted.all.count(true);
        counted.parts[1][2].count(true);
        let now = serde_json::to_string(&counted).unwrap();
        let before = now.replace("stolen", "retaken");
        assert!(before != now && now.starts_with("{\"tags\":1,\"stolen\":1,"));
        for text in [now, before] {
            let read: ContendedTags = serde_json::from_str(&text).unwrap();
            assert_eq!(read, counted);
        }
    }

    #[test]
    fn a_tag_counts_if_one_was_woken_for_it_while_the_other_did_not_sleep() {
        let mut lines = Lines::default();
        lines.add(
            "0 Q R 0 8 1 a - - 0\n0 G R 0 8 1 a - - 0\n1 Q R 8 8 2 a - - 0\n1 G R 8 8 2 a - - 0\n\
             2 Q R 16 8 3 a - - 0\n3 C R 0 8 0 - - - 0\n",
        );
        lines.wake(3, 1); // for what it read
        lines.wake(3, 3);
        lines.add("4 Q R 24 8 1 a - - 0\n4 G R 24 8 1 a - - 0\n5 C R 8 8 0 - - - 0\n");
        lines.wake(5, 3);
        lines.add("6 G R 16 8 3 a - - 0\n7 Q R 40 8 2 a - - 0\n7 Q R 48 8 4 a - - 0\n");
        // 1 has two reads under way: it sleeps for the third itself
        lines.add("8 Q R 56 8 1 a - - 0\n9 C R 24 8 0 - - - 0\n");
        lines.wake(9, 2);
        lines.add("9 G R 40 8 2 a - - 0\n");
        let counted = ContendedTags::of(&lines.0, Nanos::from_secs(SECONDS));
        let of = |tags, stolen| TagCount { tags, stolen };
        assert_eq!(counted.all, of(2, 1));
        let none = of(0, 0);
        assert_eq!(counted.parts[0], [of(1, 1), of(1, 0), none, none]);
        let told = counted.tag_steal(Nanos::from_secs(SECONDS));
        assert_eq!(percent(told.shares[5]), "[100, 0, 0, 0]", "as on the whole");
    }

    fn percent(shares: [f64; 4]) -> String {
        format!("{:.0?}", shares.map(|share| 100.0 * share))
    }

    /// What is counted in the recording of a simulated run of so many readers.
    fn counted(tag_steal: &TagSteal, queue_depth: usize, readers: usize) -> ContendedTags {
        let slow = ModelOptions {
            slow_down: NonZeroU32::new(30), // completions are further apart than wakes take
            ..ModelOptions::default()
        };
        let disk = disk::build("ssd-sata", &slow).unwrap();
        let load = format!(
            "[readers]\nrw=randread\nbs=4k\nnumjobs={readers}\ntime_based\nruntime={SECONDS}\n"
        );
        let jobs = fio_job::parse(&load, disk.capacity()).unwrap();
        let none = SchedulerSpec::parse("none").unwrap();
        let none = build(&none, &Kernel::default(), &NamedValues::new()).unwrap();
        let setup = Setup {
            queue_depth,
            multi_queue: MultiQueueSettings {
                tag_steal: *tag_steal,
                ..MultiQueueSettings::default()
            },
            until: Nanos::from_secs(SECONDS),
            ..Setup::new(none, disk, jobs)
        };
        let mut lines = Lines::default();
        run(setup, &mut lines);
        ContendedTags::of(&lines.0, Nanos::from_secs(SECONDS))
    }

    #[test]
    fn what_a_simulated_machine_is_told_is_counted_in_its_recording() {
        let told = [[0.0; 4], [0.8, 0.2, 0.4, 0.9], [0.4; 4], [1.0; 4]];
        for (depth, readers) in [(1, 8), (4, 32), (16, 48)] {
            for told in told {
                let counted = counted(&TagSteal::steadily(told), depth, readers);
                assert!(counted.all.tags > 500, "{counted:?}");
                let shares = counted.tag_steal(Nanos::ZERO).shares[7];
                for (sort, (told, share)) in told.iter().zip(shares).enumerate() {
                    let of_sort = |part: &[TagCount; 4]| part[sort].tags;
                    let tags: u64 = counted.parts.iter().map(of_sort).sum();
                    let is_told = tags < 100 || (share - told).abs() < 0.1;
                    assert!(is_told, "depth {depth}, {told}: {share} of {tags}");
                }
            }
        }
    }

    #[test]
    fn each_part_of_a_run_has_its_own_share() {
        let mut told = TagSteal {
            part: Nanos::from_millis(500),
            ..TagSteal::default()
        };
        for (index, shares) in told.shares.iter_mut().enumerate() {
            *shares = [if index < 4 { 0.9 } else { 0.1 }, 0.5, 0.5, 0.5];
        }
        let counted = counted(&told, 4, 32).tag_steal(Nanos::from_secs(SECONDS));
        for (told, counted) in told.shares.iter().zip(&counted.shares) {
            assert!((told[0] - counted[0]).abs() < 0.15, "{counted:?}");
        }
    }
}
