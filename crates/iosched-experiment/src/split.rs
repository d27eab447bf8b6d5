//! Where the requests of a trial spent their time: in the queue of the scheduler, or at the disk.
//!
//! The kernel's counters know only the sum of both (iostat's await). The block layer's events tell
//! them apart ([`iosched_machine::capture`]): a tracing instance of the run's own records while a load runs, and
//! what it saw is kept as sums and histograms, never request by request. What a request waited for
//! before it was inserted (a free tag, its process' plug) is in neither; await does not count it either.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use iosched_machine::capture::{self, Events, Recorder, Took, Waits};
use iosched_machine::failure::Problem;
use iosched_machine::host::Host;
use iosched_sim::trace::kernel::{Action, Line};
use iosched_stats::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// Events that are taken in per second; of more requests only every so manieth is followed. A hard disk
/// has fewer, and reading these costs less than one per cent of a processor.
const MOST_EVENTS_PER_S: f64 = 6000.0;

/// A look at the rate of events sooner than this says nothing.
const FIRST_LOOK: Duration = Duration::from_millis(80);

/// No disk does so much that fewer than one of these (2^10) is followed.
const MOST_HALVINGS: u32 = 10;

/// Bins of a histogram from each power of two to the next: the middle of a bin is at most 6 % away
/// from what fell into it.
const BINS_PER_DOUBLING: u32 = 8;

/// The times of the requests that were completed while a load ran, and how one followed another, all disks of the
/// target together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Reads, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Parts>,
    /// Writes, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<Parts>,
    /// Events that the kernel lost meanwhile: requests are missing, and a few may be wrong.
    #[serde(default)]
    pub lost_events: u64,
    /// One of so many stretches of the disk was followed, because it did too much for all of them.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub one_in: u64,
    /// How requests followed one another to the disk; none where only a part of them was followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
}

/// How the requests followed one another as the disk got them: what a disk with an arm travels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// How many were issued.
    pub requests: u64,
    /// Those of them that began where the one before ended.
    pub sequential: u64,
    /// From the end of each to the beginning of the next, all together, in sectors of 512 bytes.
    pub distance_sectors: u64,
    /// The first and the last sector that any of them touched, and the length of the longest; none where that is
    /// not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<Reach>,
}

/// Where on the disk requests were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// The lowest sector.
    pub from: u64,
    /// The sector after the highest.
    pub to: u64,
    /// Sectors of the longest request.
    pub longest: u64,
}

impl Order {
    /// Takes in a request of so many sectors, and says where it ends; `before` is where the one before ended.
    pub(crate) fn add(&mut self, before: Option<u64>, start: u64, sectors: u64) -> u64 {
        let end = start.saturating_add(sectors);
        self.requests += 1;
        self.sequential += u64::from(before == Some(start));
        let distance = before.map_or(0, |before| before.abs_diff(start));
        self.distance_sectors = self.distance_sectors.saturating_add(distance);
        let reach = self.reach.get_or_insert(Reach {
            from: start,
            to: end,
            longest: sectors,
        });
        reach.from = reach.from.min(start);
        reach.to = reach.to.max(end);
        reach.longest = reach.longest.max(sectors);
        end
    }

    /// True if all requests were for the same sectors, as far as that is known.
    pub(crate) fn is_one_place(&self) -> bool {
        let reach = self.reach.as_ref();
        reach.is_some_and(|reach| reach.to.saturating_sub(reach.from) <= reach.longest)
    }

    /// The orders of several trials together, without the ways between them; none of none.
    pub(crate) fn merged<'a>(orders: impl Iterator<Item = &'a Order>) -> Option<Order> {
        orders.copied().reduce(|a, b| Order {
            requests: a.requests.saturating_add(b.requests),
            sequential: a.sequential.saturating_add(b.sequential),
            distance_sectors: a.distance_sectors.saturating_add(b.distance_sectors),
            reach: match (a.reach, b.reach) {
                (Some(a), Some(b)) => Some(Reach {
                    from: a.from.min(b.from),
                    to: a.to.max(b.to),
                    longest: a.longest.max(b.longest),
                }),
                _ => None,
            },
        })
    }
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_one(number: &u64) -> bool {
    *number == 1
}

/// The times of one kind of request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// How many were completed.
    pub requests: u64,
    /// Inserted to issued, all together, ns.
    pub queue_sum_ns: u64,
    /// Issued to completed, all together, ns.
    pub service_sum_ns: u64,
    /// Queue times: (ns, count), ascending.
    pub queue_bins: Vec<(u64, u64)>,
    /// Service times: (ns, count), ascending.
    pub service_bins: Vec<(u64, u64)>,
}

impl Parts {
    /// Mean queue time.
    pub fn queue_mean_ns(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.queue_sum_ns as f64 / self.requests as f64)
    }

    /// Mean service time.
    pub fn service_mean_ns(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.service_sum_ns as f64 / self.requests as f64)
    }

    /// Times that were counted elsewhere: of each kind their sum and its histogram.
    pub fn counted(
        requests: u64,
        queue: (u64, impl Iterator<Item = (u64, u64)>),
        service: (u64, impl Iterator<Item = (u64, u64)>),
    ) -> Parts {
        let rebinned = |bins: &mut dyn Iterator<Item = (u64, u64)>| {
            let mut all = BTreeMap::new();
            for (value, count) in bins {
                *all.entry(bin(value)).or_default() += count;
            }
            all.into_iter().collect()
        };
        let ((queue_sum_ns, mut queue), (service_sum_ns, mut service)) = (queue, service);
        Parts {
            requests,
            queue_sum_ns,
            service_sum_ns,
            queue_bins: rebinned(&mut queue),
            service_bins: rebinned(&mut service),
        }
    }

    /// The times of several trials together; none of no requests.
    pub(crate) fn merged<'a>(parts: impl Iterator<Item = &'a Parts>) -> Option<Parts> {
        let mut all = Gathered::default();
        for part in parts {
            all.requests += part.requests;
            all.queue_sum_ns += part.queue_sum_ns;
            all.service_sum_ns += part.service_sum_ns;
            add(&mut all.queue, &part.queue_bins);
            add(&mut all.service, &part.service_bins);
        }
        all.parts()
    }

    /// 99th percentile of queue times.
    pub fn queue_p99_ns(&self) -> Option<u64> {
        Histogram::from_bins(self.queue_bins.iter().copied()).percentile(99.0)
    }

    /// 99th percentile of service times.
    pub fn service_p99_ns(&self) -> Option<u64> {
        Histogram::from_bins(self.service_bins.iter().copied()).percentile(99.0)
    }
}

fn add(bins: &mut BTreeMap<u64, u64>, more: &[(u64, u64)]) {
    for &(value, count) in more {
        *bins.entry(value).or_default() += count;
    }
}

/// Parts while they grow.
#[derive(Debug, Default)]
struct Gathered {
    requests: u64,
    queue_sum_ns: u64,
    service_sum_ns: u64,
    queue: BTreeMap<u64, u64>,
    service: BTreeMap<u64, u64>,
}

impl Gathered {
    fn add(&mut self, took: Took) {
        self.requests += 1;
        self.queue_sum_ns += took.queue_ns;
        self.service_sum_ns += took.service_ns;
        *self.queue.entry(bin(took.queue_ns)).or_default() += 1;
        *self.service.entry(bin(took.service_ns)).or_default() += 1;
    }

    fn parts(self) -> Option<Parts> {
        (self.requests > 0).then(|| Parts {
            requests: self.requests,
            queue_sum_ns: self.queue_sum_ns,
            service_sum_ns: self.service_sum_ns,
            queue_bins: self.queue.into_iter().collect(),
            service_bins: self.service.into_iter().collect(),
        })
    }
}

/// The middle of the bin that a time falls into.
fn bin(nanos: u64) -> u64 {
    let shift = BINS_PER_DOUBLING.ilog2();
    let Some(width) = nanos
        .checked_ilog2()
        .and_then(|octave| octave.checked_sub(shift))
    else {
        return nanos; // below 8 ns each has its own
    };
    (nanos >> width << width) + ((1 << width) >> 1)
}

/// Records the requests of a run's disks, trial after trial.
#[derive(Debug)]
pub struct SplitWatch {
    disks: Vec<Disk>,
    read: Gathered,
    write: Gathered,
    lines: Vec<Line>,
    /// How often the number of requests that are followed was halved, by load.
    halvings: BTreeMap<usize, u32>,
    load: usize,
    /// When these halvings began, and how many events had been read until then.
    since: (Instant, u64),
}

/// One disk: a request is known by its place on it.
#[derive(Debug)]
struct Disk {
    recorder: Recorder,
    waits: Waits,
    lost: u64,
    /// How its requests have followed one another, and where the last one ended.
    order: Order,
    last_end: Option<u64>,
}

impl SplitWatch {
    /// Gets ready for these disks (kernel names), and records nothing yet.
    ///
    /// # Errors
    /// Where the kernel's tracing files may not be used, or do not exist.
    pub fn new(host: &Host, disks: &[String]) -> Result<SplitWatch, Problem> {
        let open = |disk: &String| -> Result<Disk, Problem> {
            let number = capture::device_number(host, disk)?;
            let mut recorder = Recorder::start(number, &[Events::Requests])?;
            recorder.pause(&mut Vec::new())?;
            Ok(Disk {
                recorder,
                waits: Waits::default(),
                lost: 0,
                order: Order::default(),
                last_end: None,
            })
        };
        Ok(SplitWatch {
            disks: disks.iter().map(open).collect::<Result<_, Problem>>()?,
            read: Gathered::default(),
            write: Gathered::default(),
            lines: Vec::new(),
            halvings: BTreeMap::new(),
            load: 0,
            since: (Instant::now(), 0),
        })
    }

    /// Records from now on, while this load runs.
    ///
    /// # Errors
    /// When the tracing files cannot be used any more.
    pub fn begin(&mut self, load: usize) -> Result<(), Problem> {
        self.load = load;
        self.follow()?;
        for disk in &mut self.disks {
            disk.lost = disk.recorder.lost()?;
            disk.recorder.resume()?;
        }
        Ok(())
    }

    /// Follows as many requests as the load has shown that it can have, from the beginning.
    fn follow(&mut self) -> Result<(), Problem> {
        let halvings = self.halvings.get(&self.load).copied().unwrap_or(0);
        for disk in &mut self.disks {
            disk.recorder.sample(halvings)?;
            disk.waits.clear();
            disk.order = Order::default();
            disk.last_end = None;
        }
        self.read = Gathered::default();
        self.write = Gathered::default();
        self.since = (Instant::now(), self.events());
        Ok(())
    }

    fn events(&self) -> u64 {
        self.disks.iter().map(|disk| disk.recorder.read()).sum()
    }

    /// Follows fewer requests if there are too many.
    fn slow_down(&mut self) -> Result<(), Problem> {
        let (begun, before) = self.since;
        let elapsed = begun.elapsed();
        if elapsed < FIRST_LOOK {
            return Ok(());
        }
        let rate = (self.events() - before) as f64 / elapsed.as_secs_f64();
        let halvings = self.halvings.entry(self.load).or_default();
        let more = (0..=MOST_HALVINGS - *halvings)
            .find(|&more| rate / f64::from(1 << more) <= MOST_EVENTS_PER_S)
            .unwrap_or(MOST_HALVINGS - *halvings);
        if more == 0 {
            return Ok(());
        }
        *halvings += more;
        self.follow()
    }

    /// Takes in what has happened; to be called some ten times a second.
    ///
    /// # Errors
    /// When the tracing files cannot be used any more.
    pub fn drain(&mut self) -> Result<(), Problem> {
        for index in 0..self.disks.len() {
            self.disks[index].recorder.drain(&mut self.lines)?;
            self.take(index);
        }
        self.slow_down()
    }

    /// Stops recording, and says what was seen since [`SplitWatch::begin`]. A request that was not
    /// completed by then is not counted.
    ///
    /// # Errors
    /// When the tracing files cannot be used any more.
    pub fn end(&mut self) -> Result<Split, Problem> {
        let mut lost_events = 0;
        for index in 0..self.disks.len() {
            self.disks[index].recorder.pause(&mut self.lines)?;
            self.take(index);
            let disk = &self.disks[index];
            lost_events += disk.recorder.lost()?.saturating_sub(disk.lost);
        }
        let halvings = self.halvings.get(&self.load).copied().unwrap_or(0);
        // Of a part of the requests it is not known what lay between them.
        let orders = self.disks.iter().map(|disk| &disk.order);
        let order = Order::merged(orders).filter(|order| halvings == 0 && order.requests > 0);
        Ok(Split {
            read: std::mem::take(&mut self.read).parts(),
            write: std::mem::take(&mut self.write).parts(),
            lost_events,
            one_in: 1 << halvings,
            order,
        })
    }

    fn take(&mut self, index: usize) {
        for line in self.lines.drain(..) {
            let Line::Event(event) = line else { continue };
            let disk = &mut self.disks[index];
            if event.action == Action::Issued && event.length.as_u64() > 0 {
                let (start, sectors) = (event.start.as_u64(), event.length.as_u64());
                disk.last_end = Some(disk.order.add(disk.last_end, start, sectors));
            }
            let Some(took) = disk.waits.take(&event) else {
                continue;
            };
            if took.is_read {
                self.read.add(took);
            } else {
                self.write.add(took);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_middle_of_a_bin_is_near_what_fell_into_it(nanos in 0..1_u64 << 50) {
            let off = bin(nanos).abs_diff(nanos) as f64 / nanos.max(1) as f64;
            prop_assert!(off <= 0.0625, "{nanos} is in {}", bin(nanos));
        }
    }

    #[test]
    fn the_way_between_requests_is_from_the_end_of_one_to_the_beginning_of_the_next() {
        let mut order = Order::default();
        let mut end = None;
        for start in [1000, 1008, 16, 1016] {
            end = Some(order.add(end, start, 8));
        }
        assert_eq!((order.requests, order.sequential), (4, 1));
        assert_eq!(order.distance_sectors, 1000 + 992);
        let reach = order.reach.unwrap();
        assert_eq!((reach.from, reach.to, reach.longest), (16, 1024, 8));
        assert!(!order.is_one_place());
    }

    #[test]
    fn trials_add_up_to_what_their_requests_would_give() {
        let took = |queue_ns, service_ns| Took {
            is_read: true,
            queue_ns,
            service_ns,
        };
        let gather = |all: &[Took]| {
            let mut gathered = Gathered::default();
            for &one in all {
                gathered.add(one);
            }
            gathered.parts()
        };
        let (first, second) = (
            [took(0, 5_000_000), took(2_000_000, 1_000_000)],
            [took(7, 90_000)],
        );
        let apart = [gather(&first).unwrap(), gather(&second).unwrap()];
        let together = gather(&[first.as_slice(), &second].concat());
        assert_eq!(Parts::merged(apart.iter()), together);
        let together = together.unwrap();
        assert_eq!(together.queue_mean_ns(), Some(2_000_007.0 / 3.0));
        assert_eq!(together.queue_p99_ns(), Some(bin(2_000_000)));
        assert_eq!(together.service_p99_ns(), Some(bin(5_000_000)));
        assert_eq!(Parts::merged(std::iter::empty()), None);
    }
}
