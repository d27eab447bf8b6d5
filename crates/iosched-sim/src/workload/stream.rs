//! The accesses of a job, one after the other, as chance has it.

use super::distribution::{Distribution, Places};
use super::{Access, Job, Pattern};
use crate::random::Random;
use crate::reciprocal::Divisor;
use crate::request::Op;
use crate::units::{Sector, Sectors};

/// The accesses of a job, one after the other, as chance has it.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    places: Random,
    kinds: Random,
    sizes: Random,
    /// The units whose multiples random places are: of reads, of writes.
    units: [Divisor; 2],
    /// Where a sequential access goes: below the beginning of its part it is to begin at the end.
    next: i64,
    /// Accesses since a random place.
    since_place: u64,
    distribution: Places,
}

impl Stream {
    /// The accesses of this job in a run with this seed.
    pub(crate) fn new(job: &Job, seed: u64) -> Stream {
        let name = |what: &str| format!("{} {what}", job.name);
        let unit = job.read_sizes.least().min(job.write_sizes.least());
        let distribution = match job.pattern {
            Pattern::Random { distribution, .. } => distribution,
            Pattern::Sequential { .. } => Distribution::Even,
        };
        Stream {
            places: Random::new(seed, &name("places")),
            kinds: Random::new(seed, &name("kinds")),
            sizes: Random::new(seed, &name("sizes")),
            units: [&job.read_sizes, &job.write_sizes]
                .map(|sizes| Divisor::new(sizes.least().as_u64())),
            next: i64::MIN,
            since_place: 0,
            distribution: Places::new(distribution, job.span.as_u64() / unit.as_u64().max(1)),
        }
    }

    /// Reads or writes?
    pub(crate) fn next_op(&mut self, job: &Job) -> Op {
        let read = match job.mix.read_percent {
            0 => false,
            100 => true,
            percent => self.kinds.below(100) < u64::from(percent),
        };
        match (read, job.trims) {
            (true, _) => Op::Read,
            (false, true) => Op::Discard,
            (false, false) => Op::Write,
        }
    }

    /// The next access, which is to do this.
    #[inline]
    pub(crate) fn next(&mut self, job: &Job, op: Op) -> Access {
        let sizes = job.sizes(op);
        let length = sizes.draw(&mut self.sizes);
        let start = match job.pattern {
            Pattern::Sequential { skip } => self.onward(job, length, skip),
            Pattern::Random { run, .. } if !self.since_place.is_multiple_of(run) => {
                self.since_place += 1;
                self.onward(job, length, 0)
            }
            Pattern::Random { percent, .. }
                if percent < 100 && self.kinds.below(100) >= u64::from(percent) =>
            {
                self.onward(job, length, 0)
            }
            Pattern::Random { .. } => {
                self.since_place = 1;
                self.anywhere(job, length, op)
            }
        };
        Access {
            op,
            start,
            length,
            sync: true, // direct access
        }
    }

    /// Behind the last one; at the end from the beginning again, or the other way round.
    #[expect(
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        reason = "places on disks are far below 2^63, and this one is within the job's part"
    )]
    fn onward(&mut self, job: &Job, length: Sectors, skip: i64) -> Sector {
        let [begin, span, length] =
            [job.start.as_u64(), job.span.as_u64(), length.as_u64()].map(|sectors| sectors as i64);
        let last = begin + span - length;
        if skip < -length && self.next < begin {
            self.next = last;
        } else if self.next < begin || self.next > last {
            self.next = begin;
        }
        let start = self.next;
        self.next = start.saturating_add(length).saturating_add(skip);
        Sector::new(start as u64)
    }

    /// A place that is a multiple of the unit.
    fn anywhere(&mut self, job: &Job, length: Sectors, op: Op) -> Sector {
        let room = job.span - length;
        let unit = self.units[usize::from(op.is_write())];
        let (last, _) = unit.divide(room.as_u64());
        let place = self.distribution.draw(&mut self.places, last + 1);
        let start = job.start + Sectors::new(unit.get()) * place;
        self.next = i64::try_from((start + length).as_u64()).unwrap_or(i64::MIN);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Mix, Sizes};
    use super::*;

    fn job(pattern: Pattern) -> Job {
        Job {
            name: "test".to_owned(),
            pattern,
            write_sizes: Sizes::split(&[(Sectors::new(8), 50), (Sectors::new(64), 50)]),
            start: Sector::new(1000),
            span: Sectors::new(8000),
            ..Job::default()
        }
    }

    fn next(stream: &mut Stream, job: &Job) -> Access {
        let op = stream.next_op(job);
        stream.next(job, op)
    }

    #[test]
    fn all_accesses_lie_in_the_jobs_part_and_sequential_ones_follow_one_another() {
        let skip = 8;
        let mut patterns = [skip, -16, -8, 0]
            .map(|skip| Pattern::Sequential { skip })
            .to_vec();
        for percent in [0, 50, 100] {
            for distribution in [
                Distribution::Even,
                Distribution::Zipf { theta: 1.2 },
                Distribution::Pareto { h: 0.3 },
                Distribution::Normal { deviation: 30.0 },
                Distribution::Zoned([
                    (50, 10),
                    (50, 90),
                    (0, 0),
                    (0, 0),
                    (0, 0),
                    (0, 0),
                    (0, 0),
                    (0, 0),
                ]),
            ] {
                let run = 1 + u64::from(percent) / 25;
                patterns.push(Pattern::Random {
                    distribution,
                    percent,
                    run,
                });
            }
        }
        for pattern in patterns {
            let job = Job {
                mix: Mix { read_percent: 50 },
                ..job(pattern)
            };
            let mut stream = Stream::new(&job, 1);
            for _ in 0..10_000 {
                let access = next(&mut stream, &job);
                assert!(access.start >= job.start);
                assert!(access.start + access.length <= job.start + job.span);
            }
        }
        let sequential = job(Pattern::Sequential { skip });
        let mut stream = Stream::new(&sequential, 1);
        let (first, second) = (
            next(&mut stream, &sequential),
            next(&mut stream, &sequential),
        );
        assert_eq!(second.start - first.start, Sectors::new(16));
    }

    #[test]
    fn backwards_begins_at_the_end_and_a_run_follows_each_random_place() {
        let starts = |job: &Job, count: usize| {
            let mut stream = Stream::new(job, 1);
            let mut one = || next(&mut stream, job).start.as_u64();
            (0..count).map(|_| one()).collect::<Vec<_>>()
        };
        let backwards = job(Pattern::Sequential { skip: -16 });
        assert_eq!(starts(&backwards, 3), [8992, 8984, 8976]);
        let runs = job(Pattern::Random {
            distribution: Distribution::Even,
            percent: 100,
            run: 4,
        });
        for run in starts(&runs, 400).chunks(4) {
            assert!(
                run.windows(2)
                    .all(|two| two[1] == two[0] + 8 || two[1] == 1000),
                "{run:?}"
            );
        }
    }

    #[test]
    fn so_many_accesses_are_random_as_was_asked_for() {
        let job = job(Pattern::Random {
            distribution: Distribution::Even,
            percent: 30,
            run: 1,
        });
        let mut stream = Stream::new(&job, 1);
        let mut end = job.start;
        let mut onward = 0;
        for _ in 0..10_000 {
            let access = next(&mut stream, &job);
            onward += u32::from(access.start == end);
            end = access.start + access.length;
        }
        assert!((6_800..7_200).contains(&onward), "{onward}");
    }
}
