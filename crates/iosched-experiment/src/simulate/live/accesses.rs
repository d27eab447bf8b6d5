//! Bios from submission to completion (Q2C), by the events of the block layer: by one rule for what the kernel recorded and for
//! what is simulated, so that the two latencies can be compared. A program that has many in flight but sleeps in one submission
//! counts from that bio's own submission on, in both.

use iosched_sim::request::{Op, ProcessId};
use iosched_sim::simulate::{BlockEvent, Outcome, Tracer};
use iosched_sim::trace::kernel::{Action, Line};
use iosched_sim::units::{Sector, Sectors, Time};

/// Parts of a run from which the rate's interval is worked out.
const PARTS: u64 = 10;

/// A simulated run.
#[derive(Debug)]
pub(super) struct Predicted {
    /// What the processes got.
    pub(super) outcome: Outcome,
    /// What the block layer saw.
    pub(super) accesses: Accesses,
}

/// The bios of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Accesses {
    /// Reads alone: writes go through the page cache, and no program waits for them.
    reads_only: bool,
    under_way: Vec<UnderWay>,
    /// When each was done, and how long it had taken, both in nanoseconds.
    done: Vec<(u64, u64)>,
}

/// A bio under way: where from, where to, and how many sectors of it are not done yet.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    since: u64,
    start: u64,
    end: u64,
    left: u64,
    is_write: bool,
}

impl Accesses {
    /// None yet.
    pub(super) fn new(reads_only: bool) -> Accesses {
        Accesses {
            reads_only,
            ..Accesses::default()
        }
    }

    /// Those of a recording.
    pub(super) fn of(lines: &[Line], reads_only: bool) -> Accesses {
        let mut accesses = Accesses::new(reads_only);
        for line in lines {
            if let Line::Event(event) = line {
                let place = (event.start, event.length);
                accesses.add(event.time, event.action, event.op, place);
            }
        }
        accesses
    }

    fn add(&mut self, time: Time, action: Action, op: Option<Op>, place: (Sector, Sectors)) {
        let (start, length) = (place.0.as_u64(), place.1.as_u64());
        let counts = |op: &Op| length > 0 && !(self.reads_only && op.is_write());
        let Some(op) = op.filter(counts) else {
            return; // a flush, among others
        };
        match action {
            Action::Queued => self.under_way.push(UnderWay {
                since: time.as_nanos(),
                start,
                end: start + length,
                left: length,
                is_write: op.is_write(),
            }),
            Action::Completed => self.complete(time.as_nanos(), op, start..start + length),
            _ => {}
        }
    }

    fn complete(&mut self, now: u64, op: Op, sectors: std::ops::Range<u64>) {
        for bio in &mut self.under_way {
            let common = (sectors.end.min(bio.end)).saturating_sub(sectors.start.max(bio.start));
            if bio.is_write == op.is_write() {
                bio.left = bio.left.saturating_sub(common);
            }
        }
        self.under_way.retain(|bio| {
            if bio.left == 0 {
                self.done.push((now, now - bio.since));
            }
            bio.left > 0
        });
    }

    /// How long each took, in nanoseconds.
    pub(super) fn latencies(&self) -> impl Iterator<Item = u64> {
        self.done.iter().map(|(_, latency)| *latency)
    }

    /// Accesses per second in each tenth of the run; nothing for too short a run.
    pub(super) fn rates(&self) -> Vec<f64> {
        let (Some((first, _)), Some((last, _))) = (self.done.first(), self.done.last()) else {
            return Vec::new();
        };
        let part = (last - first) / PARTS;
        if part == 0 {
            return Vec::new();
        }
        let in_part = |index: u64| {
            let is_in = |(time, _): &&(u64, u64)| (time - first) / part == index;
            self.done.iter().filter(is_in).count() as f64 * 1e9 / part as f64
        };
        (0..PARTS).map(in_part).collect()
    }
}

impl Tracer for Accesses {
    fn happened(&mut self, event: &BlockEvent) {
        let place = (event.start, event.length);
        self.add(event.time, event.action, event.op, place);
    }

    fn exited(&mut self, _time: Time, _process: ProcessId, _name: &str) {}
}

#[cfg(test)]
mod tests {
    use iosched_sim::disk::{self, ModelOptions};
    use iosched_sim::scheduler::{Kernel, NamedValues, SchedulerSpec, build};
    use iosched_sim::simulate::{Setup, run, write_line};
    use iosched_sim::trace::kernel::Reader;
    use iosched_sim::units::Nanos;
    use iosched_sim::workload::fio_job;

    use super::*;

    /// What is simulated, as a recording of a kernel is read, and as it is seen meanwhile.
    #[derive(Default)]
    struct Both(Vec<Line>, Accesses);

    impl Tracer for Both {
        fn happened(&mut self, event: &BlockEvent) {
            let mut text = String::new();
            write_line(&mut text, Time::ZERO, event).unwrap();
            self.0
                .extend(Reader::new(Nanos::ZERO).read(text.trim_end()).unwrap());
            self.1.happened(event);
        }

        fn exited(&mut self, _time: Time, _process: ProcessId, _name: &str) {}
    }

    #[test]
    fn what_is_simulated_counts_as_what_is_recorded_and_from_each_bios_own_submission_on() {
        let disk = disk::build("hdd-7200-fifo", &ModelOptions::default()).unwrap();
        let load = "[reader]\nrw=randread\ndirect=1\nioengine=libaio\nbs=4k\niodepth=32\n";
        let jobs = fio_job::parse(load, disk.capacity()).unwrap();
        let none = SchedulerSpec::parse("none").unwrap();
        let setup = Setup {
            queue_depth: 4,
            until: Nanos::from_secs(4),
            ..Setup::new(
                build(&none, &Kernel::default(), &NamedValues::new()).unwrap(),
                disk,
                jobs,
            )
        };
        let mut both = Both::default();
        let outcome = run(setup, &mut both);
        let recorded = Accesses::of(&both.0, false);
        assert_eq!(recorded.done, both.1.done);
        // Four at the disk and one that waits for a tag are the block layer's; 27 more are not submitted.
        let mean = both.1.latencies().sum::<u64>() as f64 / both.1.done.len() as f64;
        let iops = both.1.done.len() as f64 / outcome.elapsed.as_secs_f64();
        let under_way = mean / 1e9 * iops;
        assert!((4.5..5.5).contains(&under_way), "{under_way}");
    }

    #[test]
    fn a_bio_is_done_when_its_last_sector_is_and_writes_count_if_asked_for() {
        let text = "0 Q R 0 16 1 a - - 0\n0 Q W 0 16 1 a - - 0\n5 C R 0 8 0 - - - 0\n9 C R 8 8 0 - - - 0\n12 C W 0 16 0 - - - 0\n";
        let mut reader = Reader::new(Nanos::ZERO);
        let lines: Vec<Line> = text
            .lines()
            .filter_map(|line| reader.read(line).unwrap())
            .collect();
        let of = |reads_only| {
            Accesses::of(&lines, reads_only)
                .latencies()
                .collect::<Vec<_>>()
        };
        assert_eq!(of(true), [9000]);
        assert_eq!(of(false), [9000, 12000]);
    }
}
