//! A section of a job file as it is being read, and the processes that come of it.

use super::super::{Cgroup, Distribution, Job, Mix, Pattern, Rate, Sizes, Syncing, Think};
use iosched_facts::Problem;

use super::bad_value;
use super::value::Size;
use crate::request::{IoPriority, PriorityClass};
use crate::units::{Bytes, Nanos, Sector, Sectors};

/// The weight of a control group that says none.
const DEFAULT_WEIGHT: u16 = 500;

/// What its lines have said so far.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "fio's switches, one by one")]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) mix: Mix,
    pub(super) random: bool,
    pub(super) skip: i64,
    pub(super) run: u64,
    pub(super) trims: bool,
    pub(super) distribution: Distribution,
    pub(super) random_percent: u8,
    pub(super) blocks: [Sectors; 2],
    pub(super) splits: Option<[Sizes; 2]>,
    pub(super) size: Option<Size>,
    pub(super) io_size: Option<Size>,
    pub(super) offset: Size,
    pub(super) offset_increment: Size,
    pub(super) depth: usize,
    pub(super) batch: usize,
    pub(super) numjobs: u64,
    pub(super) synchronous: bool,
    pub(super) buffered: bool,
    pub(super) think: Nanos,
    pub(super) think_every: u64,
    pub(super) think_counts_submitted: bool,
    pub(super) rates: [Option<Rate>; 2],
    pub(super) poisson: bool,
    pub(super) sync: Syncing,
    pub(super) class: Option<PriorityClass>,
    pub(super) level: Option<u8>,
    pub(super) cgroup: Option<String>,
    pub(super) weight: Option<(u16, usize)>,
    pub(super) delay: Nanos,
    pub(super) runtime: Option<Nanos>,
    pub(super) time_based: bool,
    pub(super) stonewall: bool,
    pub(super) ramp: Nanos,
    pub(super) loops: u64,
    pub(super) files: u64,
    pub(super) keeps: Option<usize>,
    pub(super) reaps: Option<usize>,
    pub(super) other_priority: ([u8; 2], IoPriority),
}

impl Default for Section {
    fn default() -> Section {
        Section {
            name: String::new(),
            mix: Mix { read_percent: 100 },
            random: false,
            skip: 0,
            run: 1,
            trims: false,
            distribution: Distribution::Even,
            random_percent: 100,
            blocks: [Sectors::new(8); 2], // fio's default of 4 KiB
            splits: None,
            size: None,
            io_size: None,
            offset: Size::Bytes(0),
            offset_increment: Size::Bytes(0),
            depth: 1,
            batch: 1,
            numjobs: 1,
            synchronous: true,
            buffered: true,
            think: Nanos::ZERO,
            think_every: 1,
            think_counts_submitted: false,
            rates: [None; 2],
            poisson: false,
            sync: Syncing::default(),
            class: None,
            level: None,
            cgroup: None,
            weight: None,
            delay: Nanos::ZERO,
            runtime: None,
            time_based: false,
            stonewall: false,
            ramp: Nanos::ZERO,
            loops: 1,
            files: 1,
            keeps: None,
            reaps: None,
            other_priority: (
                [0; 2],
                IoPriority {
                    class: PriorityClass::RealTime,
                    level: 0,
                },
            ),
        }
    }
}

impl Section {
    /// What a section says that contradicts itself only when it is complete.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.files > 1 && !self.random {
            return Err(Problem::usage(format!(
                "{}: a sequential job with nrfiles={} is not simulated: it goes from file to file",
                self.name, self.files
            )));
        }
        match self.weight {
            Some((weight, line)) if self.cgroup.is_none() => {
                let allowed = "set only together with cgroup=NAME";
                Err(bad_value(
                    line,
                    "cgroup_weight",
                    &weight.to_string(),
                    allowed,
                ))
            }
            _ => Ok(()),
        }
    }

    /// Its process with this number among its clones.
    pub(super) fn job(&self, clone: u64, group: usize, capacity: Sectors) -> Result<Job, Problem> {
        let name = if self.numjobs == 1 {
            self.name.clone()
        } else {
            format!("{}.{clone}", self.name)
        };
        let [read_sizes, write_sizes] = match &self.splits {
            Some(splits) => splits.clone(),
            None => self.blocks.map(Sizes::one),
        };
        let longest = read_sizes.most().max(write_sizes.most());
        let (start, span) = self.part(&name, clone, longest, capacity)?;
        let amount = self.amount(&name, span, longest, capacity)?;
        Ok(Job {
            name,
            mix: self.mix,
            pattern: self.pattern(),
            read_sizes,
            write_sizes,
            start,
            span,
            depth: self.depth(),
            batch: self.batch,
            refill: self.refill(),
            think: self.think(),
            rates: self.rates,
            poisson: self.poisson,
            trims: self.trims,
            buffered: self.buffered,
            sync: self.sync,
            priority: self.priority(),
            other_priority: self.other_priority,
            cgroup: self.cgroup.clone().map(|name| Cgroup {
                name,
                weight: self.weight.map_or(DEFAULT_WEIGHT, |(weight, _)| weight),
            }),
            delay: self.delay,
            amount: (!self.time_based)
                .then_some(Bytes::new(amount.as_u64().saturating_mul(self.loops))),
            runtime: self.runtime,
            ramp: self.ramp,
            group,
            ..Job::default()
        })
    }

    /// The part of the disk that the clone works on.
    fn part(
        &self,
        name: &str,
        clone: u64,
        longest: Sectors,
        capacity: Sectors,
    ) -> Result<(Sector, Sectors), Problem> {
        let offset = self.offset.on(capacity) + self.offset_increment.on(capacity) * clone;
        if offset >= capacity {
            return Err(Problem::usage(format!(
                "{name}: its part begins at {}, and the disk ends at {}",
                offset.to_bytes(),
                capacity.to_bytes()
            )));
        }
        let left = capacity - offset;
        let span = self.size.map_or(left, |size| size.on(capacity)).min(left);
        if span < longest {
            return Err(Problem::usage(format!(
                "{name}: its part of the disk ({}) is smaller than one access ({})",
                span.to_bytes(),
                longest.to_bytes()
            )));
        }
        Ok((Sector::ZERO + offset, span))
    }

    /// How much it transfers: its part once, or `io_size` in whole accesses.
    fn amount(
        &self,
        name: &str,
        span: Sectors,
        longest: Sectors,
        capacity: Sectors,
    ) -> Result<Bytes, Problem> {
        // fio takes 0 for not given.
        let Some(size) = self.io_size.filter(|&size| size != Size::Bytes(0)) else {
            return Ok(span.to_bytes());
        };
        let amount = size.bytes_of(capacity);
        let access = longest.to_bytes();
        if amount < access {
            return Err(Problem::usage(format!(
                "{name}: its io_size ({amount}) is smaller than one access ({access})"
            )));
        }
        // fio makes no access that would go beyond.
        let one_size = self.splits.is_none() && self.blocks[0] == self.blocks[1];
        let beyond = amount.as_u64() % access.as_u64();
        Ok(if one_size {
            Bytes::new(amount.as_u64() - beyond)
        } else {
            amount
        })
    }

    /// Through the page cache, and with an engine that waits, there is one at a time.
    fn depth(&self) -> usize {
        if self.synchronous || self.buffered {
            1
        } else {
            self.depth
        }
    }

    /// It goes on when it has so few accesses in flight.
    fn refill(&self) -> usize {
        let depth = self.depth();
        let reaps = self.reaps.unwrap_or(1).clamp(1, depth);
        let keeps = self.keeps.unwrap_or(depth).min(depth - 1);
        keeps.min(depth - reaps)
    }

    fn pattern(&self) -> Pattern {
        if self.random {
            Pattern::Random {
                distribution: self.distribution,
                percent: self.random_percent,
                run: self.run,
            }
        } else {
            Pattern::Sequential { skip: self.skip }
        }
    }

    fn think(&self) -> Option<Think> {
        (self.think > Nanos::ZERO).then_some(Think {
            time: self.think,
            every: self.think_every,
            counts_submitted: self.think_counts_submitted,
        })
    }

    fn priority(&self) -> IoPriority {
        let class = self.class.unwrap_or_default();
        match class {
            PriorityClass::Idle => IoPriority { class, level: 7 },
            _ => IoPriority {
                class,
                level: self.level.unwrap_or(4),
            },
        }
    }
}
