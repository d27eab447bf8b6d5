//! Accesses that are generated as a job says: what comes next, and not before when.

use crate::random::Random;
use crate::request::Op;
use crate::units::{Nanos, Time};
use crate::workload::{Access, Job, Stream, Think};

pub(super) struct Generated {
    stream: Stream,
    /// Reads or writes next, once that is decided.
    op: Option<Op>,
    /// With a rate: no read, no write before this.
    due: [Time; 2],
    gaps: Random,
    /// The process thinks until then.
    thinks_until: Time,
    /// Accesses since it thought last.
    since_think: u64,
    /// It had as many in flight as it keeps, and waits until there are few.
    is_full: bool,
}

impl Generated {
    pub(super) fn new(job: &Job, seed: u64) -> Generated {
        Generated {
            stream: Stream::new(job, seed),
            op: None,
            due: [Time::ZERO; 2],
            gaps: Random::new(seed, &format!("{} gaps", job.name)),
            thinks_until: Time::ZERO,
            since_think: 0,
            is_full: false,
        }
    }

    /// The process begins: rates count from now.
    pub(super) fn begin(&mut self, now: Time) {
        self.due = [now; 2];
    }

    /// When the next access may be submitted, if nothing has to happen before.
    pub(super) fn due(&mut self, now: Time, job: &Job, in_flight: usize) -> Option<Time> {
        if in_flight >= job.depth || self.is_to_think(job) {
            self.is_full = in_flight >= job.depth;
            return None;
        }
        if self.is_full && in_flight > job.refill {
            return None;
        }
        self.is_full = false;
        let rated = if job.rates == [None; 2] {
            now
        } else {
            self.rated(now, job)
        };
        Some(rated.max(self.thinks_until).max(now))
    }

    fn is_to_think(&self, job: &Job) -> bool {
        job.think
            .is_some_and(|think| self.since_think >= think.every)
    }

    /// The direction that chance chose, if its rate allows it now; else the other one, if that
    /// is to come too and its rate allows it; else whichever may go first.
    #[inline(never)]
    fn rated(&mut self, now: Time, job: &Job) -> Time {
        let op = self.op.unwrap_or_else(|| self.stream.next_op(job));
        let (chosen, other) = match op {
            Op::Read => (op, Op::Write),
            _ => (op, Op::Read),
        };
        let mixed = !job.mix.read_percent.is_multiple_of(100);
        let [at, other_at] = [chosen, other].map(|op| self.due[usize::from(op.is_write())]);
        let switches = mixed && at > now && other_at < at;
        self.op = Some(if switches { other } else { chosen });
        if switches { other_at } else { at }
    }

    pub(super) fn next(&mut self, job: &Job) -> Access {
        let op = self.op.take();
        let op = op.unwrap_or_else(|| self.stream.next_op(job));
        let access = self.stream.next(job, op);
        let side = usize::from(op.is_write());
        if let Some(rate) = job.rates[side] {
            let gap = self.gap(rate.interval(access.length), job.poisson);
            self.due[side] += gap;
        }
        if job.think.is_some_and(|think| think.counts_submitted) {
            self.since_think += 1;
        }
        access
    }

    /// The time to the next access, where the mean is this.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most 40 times the mean"
    )]
    #[inline(never)]
    fn gap(&mut self, mean: Nanos, poisson: bool) -> Nanos {
        if !poisson {
            return mean;
        }
        let factor = -(1.0 - self.gaps.unit()).ln();
        Nanos::new((mean.as_nanos() as f64 * factor) as u64)
    }

    /// An access was answered, which the process notices then: how long it thinks before it goes
    /// on.
    pub(super) fn answered(&mut self, noticed: Time, job: &Job, in_flight: usize) -> Nanos {
        let Some(Think {
            time,
            every,
            counts_submitted,
        }) = job.think
        else {
            return Nanos::ZERO;
        };
        self.since_think += u64::from(!counts_submitted);
        if self.since_think < every || in_flight > 0 {
            return Nanos::ZERO;
        }
        self.since_think = 0;
        self.thinks_until = noticed + time;
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Sectors;
    use crate::workload::{Mix, Rate, Sizes};

    /// Submits everything as soon as it is due, with nothing ever in flight.
    fn times(job: &Job, count: usize) -> Vec<(Time, Op)> {
        let mut generated = Generated::new(job, 1);
        let mut now = Time::ZERO;
        generated.begin(now);
        let mut times = Vec::new();
        while times.len() < count {
            now = generated
                .due(now, job, 0)
                .expect("nothing has to happen before");
            times.push((now, generated.next(job).op));
        }
        times
    }

    #[test]
    fn each_direction_keeps_its_own_rate() {
        let job = Job {
            mix: Mix { read_percent: 50 },
            rates: [Some(Rate::Accesses(1000)), Some(Rate::Bytes(8 << 20))],
            write_sizes: Sizes::one(Sectors::new(128)),
            ..Job::default()
        };
        let times = times(&job, 10_000);
        let end = times.last().unwrap().0.as_secs_f64();
        let reads = times.iter().filter(|(_, op)| *op == Op::Read).count();
        let writes = times.len() - reads;
        // 1000 reads, and 128 writes of 64 KiB, each second.
        assert!(
            (reads as f64 / end / 1000.0 - 1.0).abs() < 0.02,
            "{reads} in {end} s"
        );
        assert!(
            (writes as f64 / end / 128.0 - 1.0).abs() < 0.02,
            "{writes} in {end} s"
        );
    }

    #[test]
    fn a_process_thinks_after_so_many_accesses_and_when_all_are_answered() {
        let think = Think {
            time: Nanos::from_millis(1),
            every: 2,
            counts_submitted: false,
        };
        let job = Job {
            think: Some(think),
            depth: 2,
            ..Job::default()
        };
        let mut generated = Generated::new(&job, 1);
        let now = Time::from_nanos(10);
        for in_flight in 0..2 {
            assert_eq!(generated.due(now, &job, in_flight), Some(now));
            generated.next(&job);
        }
        assert_eq!(generated.answered(now, &job, 1), Nanos::ZERO);
        assert_eq!(generated.due(now, &job, 1), Some(now));
        generated.next(&job);
        assert_eq!(generated.answered(now, &job, 1), Nanos::ZERO);
        assert_eq!(generated.due(now, &job, 1), None);
        assert_eq!(generated.answered(now, &job, 0), think.time);
        assert_eq!(generated.due(now, &job, 0), Some(now + think.time));
    }
}
