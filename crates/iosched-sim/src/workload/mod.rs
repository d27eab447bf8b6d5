//! Loads: what processes ask of a disk.
//!
//! [`fio_job`] reads the field's own description, a fio job file, as far as it can be simulated.
//! [`recorded`] takes the accesses of a recording. [`Stream`] turns a job into one access after the other.

pub mod fio_job;
pub mod recorded;

use crate::random::Random;
use crate::request::{IoPriority, Op};
use crate::units::{Bytes, Nanos, Sector, Sectors};

/// In which order a process visits the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// One after the other, leaving out this much after each.
    Sequential {
        /// What is left out.
        skip: Sectors,
    },
    /// Anywhere, each place as likely as the others.
    Random,
    /// Anywhere, few places very often: the k-th most popular place with weight `k^-theta`.
    Zipf {
        /// The exponent, above 0, not 1.
        theta: f64,
    },
}

/// Reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// Reads per hundred accesses.
    pub read_percent: u8,
}

/// One process of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name; clones of a job have a number behind it.
    pub name: String,
    /// Reads and writes.
    pub mix: Mix,
    /// Order of places.
    pub pattern: Pattern,
    /// With a sequential pattern: this many of a hundred accesses go anywhere all the same.
    pub random_percent: u8,
    /// Length of a read.
    pub read_size: Sectors,
    /// Length of a write.
    pub write_size: Sectors,
    /// Where its part of the disk begins.
    pub start: Sector,
    /// How long its part is.
    pub span: Sectors,
    /// Accesses that it keeps in flight.
    pub depth: usize,
    /// Accesses that it submits in one go, if it can.
    pub batch: usize,
    /// Pause after an access was answered.
    pub think: Nanos,
    /// At most this many accesses per second.
    pub rate_iops: Option<u64>,
    /// Its I/O priority.
    pub priority: IoPriority,
    /// When it begins, after its group begins.
    pub delay: Nanos,
    /// It ends after this much data, if it is not bound by time alone.
    pub amount: Option<Bytes>,
    /// It ends this long after it began.
    pub runtime: Option<Nanos>,
    /// Groups run one after the other.
    pub group: usize,
    /// These accesses one after the other, instead of what the pattern says; it ends with the last.
    pub listed: Option<Vec<Access>>,
}

/// One access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Reads or writes.
    pub op: Op,
    /// Where.
    pub start: Sector,
    /// How much.
    pub length: Sectors,
    /// Pause before it, after the access before it was answered and nothing else is in flight.
    pub think: Nanos,
}

/// The accesses of one process, one after the other.
#[derive(Debug, Clone)]
pub struct Stream {
    places: Random,
    kinds: Random,
    next: Sector,
    listed: usize,
    zipf: Option<Zipf>,
}

impl Stream {
    /// The accesses of this job in a run with this seed.
    pub fn new(job: &Job, seed: u64) -> Stream {
        let name = |what: &str| format!("{} {what}", job.name);
        let unit = job.read_size.as_u64().min(job.write_size.as_u64()).max(1);
        let zipf = match job.pattern {
            Pattern::Zipf { theta } => Some(Zipf::new(job.span.as_u64() / unit, theta)),
            _ => None,
        };
        Stream {
            places: Random::new(seed, &name("places")),
            kinds: Random::new(seed, &name("kinds")),
            next: job.start,
            listed: 0,
            zipf,
        }
    }

    /// True if the job's list of accesses, if it has one, is not at its end.
    pub fn has_more(&self, job: &Job) -> bool {
        job.listed
            .as_ref()
            .is_none_or(|listed| self.listed < listed.len())
    }

    /// The next access.
    pub fn next(&mut self, job: &Job) -> Access {
        if let Some(listed) = &job.listed {
            self.listed += 1;
            return listed[self.listed - 1];
        }
        let read = match job.mix.read_percent {
            0 => false,
            100 => true,
            percent => self.kinds.below(100) < u64::from(percent),
        };
        let (op, length) = if read {
            (Op::Read, job.read_size)
        } else {
            (Op::Write, job.write_size)
        };
        let start = match job.pattern {
            Pattern::Sequential { .. }
                if job.random_percent > 0
                    && self.kinds.below(100) < u64::from(job.random_percent) =>
            {
                self.anywhere(job, length)
            }
            Pattern::Sequential { skip } => self.onward(job, length, skip),
            Pattern::Random => self.anywhere(job, length),
            Pattern::Zipf { .. } => self.popular(job, length),
        };
        Access {
            op,
            start,
            length,
            think: job.think,
        }
    }

    /// The pause before the next access.
    pub fn think(&self, job: &Job) -> Nanos {
        let listed = job
            .listed
            .as_ref()
            .and_then(|listed| listed.get(self.listed));
        listed.map_or(job.think, |access| access.think)
    }

    /// Behind the last one; at the end from the beginning again.
    fn onward(&mut self, job: &Job, length: Sectors, skip: Sectors) -> Sector {
        let end = job.start + job.span;
        if self.next + length > end {
            self.next = job.start;
        }
        let start = self.next;
        self.next = start + length + skip;
        start
    }

    /// A place aligned to the access's length.
    fn anywhere(&mut self, job: &Job, length: Sectors) -> Sector {
        let places = (job.span.as_u64() / length.as_u64()).max(1);
        job.start + length * self.places.below(places)
    }

    /// Popular places are spread over the disk, as fio does: popularity is not locality.
    fn popular(&mut self, job: &Job, length: Sectors) -> Sector {
        let places = (job.span.as_u64() / length.as_u64()).max(1);
        let zipf = self.zipf.as_ref().expect("made with the pattern");
        let rank = zipf.rank(self.places.unit()).min(places - 1);
        let spread = rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % places;
        job.start + length * spread
    }
}

/// Ranks with weight `k^-theta`, by the usual approximation of Gray and others (1994), which needs
/// no table.
#[derive(Debug, Clone)]
struct Zipf {
    ranks: f64,
    theta: f64,
    alpha: f64,
    eta: f64,
    zeta: f64,
}

impl Zipf {
    fn new(ranks: u64, theta: f64) -> Zipf {
        let ranks = ranks.max(2);
        // The sum beyond the first terms is close to its integral.
        let exact = ranks.min(10_000);
        let mut zeta: f64 = (1..=exact).map(|rank| (rank as f64).powf(-theta)).sum();
        if ranks > exact {
            let power = 1.0 - theta;
            zeta += ((ranks as f64).powf(power) - (exact as f64).powf(power)) / power;
        }
        let zeta2 = 1.0 + 0.5_f64.powf(theta);
        let ranks = ranks as f64;
        let eta = (1.0 - (2.0 / ranks).powf(1.0 - theta)) / (1.0 - zeta2 / zeta);
        Zipf {
            ranks,
            theta,
            alpha: 1.0 / (1.0 - theta),
            eta,
            zeta,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the number of ranks"
    )]
    fn rank(&self, unit: f64) -> u64 {
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.theta) {
            return 1;
        }
        (self.ranks * (self.eta * unit - self.eta + 1.0).powf(self.alpha)).max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(pattern: Pattern) -> Job {
        Job {
            name: "test".to_owned(),
            mix: Mix { read_percent: 100 },
            pattern,
            random_percent: 0,
            read_size: Sectors::new(8),
            write_size: Sectors::new(16),
            start: Sector::new(1000),
            span: Sectors::new(8000),
            depth: 1,
            batch: 1,
            think: Nanos::ZERO,
            rate_iops: None,
            priority: IoPriority::default(),
            delay: Nanos::ZERO,
            amount: None,
            runtime: None,
            group: 0,
            listed: None,
        }
    }

    #[test]
    fn all_accesses_lie_in_the_jobs_part_and_sequential_ones_follow_one_another() {
        let patterns = [
            Pattern::Sequential {
                skip: Sectors::new(8),
            },
            Pattern::Random,
            Pattern::Zipf { theta: 1.2 },
        ];
        for pattern in patterns {
            let job = Job {
                mix: Mix { read_percent: 50 },
                ..job(pattern)
            };
            let mut stream = Stream::new(&job, 1);
            for _ in 0..10_000 {
                let access = stream.next(&job);
                assert!(access.start >= job.start);
                assert!(access.start + access.length <= job.start + job.span);
            }
        }
        let sequential = job(Pattern::Sequential {
            skip: Sectors::new(8),
        });
        let mut stream = Stream::new(&sequential, 1);
        let (first, second) = (stream.next(&sequential), stream.next(&sequential));
        assert_eq!(second.start - first.start, Sectors::new(16));
    }

    #[test]
    fn reads_and_writes_come_in_the_proportion_asked_for() {
        let job = Job {
            mix: Mix { read_percent: 70 },
            ..job(Pattern::Random)
        };
        let mut stream = Stream::new(&job, 1);
        let reads = (0..10_000)
            .filter(|_| stream.next(&job).op == Op::Read)
            .count();
        assert!((6_800..7_200).contains(&reads), "{reads}");
    }

    #[test]
    fn popularity_falls_as_the_exponent_says() {
        // 1000 places, theta 0.9: the most popular one has 1 / sum(k^-0.9) = 9.2 % of the accesses.
        let zipf = Zipf::new(1000, 0.9);
        let mut random = Random::new(1, "zipf");
        let ranks: Vec<u64> = (0..100_000).map(|_| zipf.rank(random.unit())).collect();
        let share = |rank| ranks.iter().filter(|&&other| other == rank).count() as f64 / 1e5;
        let zeta: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-0.9)).sum();
        assert!((share(0) * zeta - 1.0).abs() < 0.05, "{}", share(0));
        assert!(
            (share(1) * zeta * 2_f64.powf(0.9) - 1.0).abs() < 0.1,
            "{}",
            share(1)
        );
        assert!(ranks.iter().all(|&rank| rank <= 1000));
    }
}
