//! What is submitted (a bio), and what stands in a queue (a request).
//!
//! For both block layers: which operations are synchronous, which merge, what an I/O priority is (as in Linux 4.19).

use std::collections::BTreeSet;
use std::num::NonZeroU32;

pub use iosched_facts::event::{Action, IoPriority, Op, PriorityClass, ProcessId};

use crate::units::{Sector, Sectors, Time};

/// One submission, before merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the kernel's flags, one by one"
)]
pub struct Bio {
    /// What it does.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// How many sectors.
    pub length: Sectors,
    /// Someone waits for it: reads, and writes with the flag (direct I/O, fsync).
    pub sync: bool,
    /// It carries the flag (`REQ_SYNC`): reads of `pread` do; buffered ones and those of libaio and `io_uring` do not.
    pub sync_flag: bool,
    /// A synchronous write after which no other is to be waited for (fsync's, not direct I/O's).
    pub noidle: bool,
    /// Metadata or otherwise urgent (`REQ_PRIO`).
    pub prio: bool,
    /// Force unit access: a write is to be on the medium before it completes.
    pub fua: bool,
    /// Who submits.
    pub process: ProcessId,
    /// Of the process when it submitted the bio.
    pub priority: IoPriority,
}

impl Bio {
    /// The position after the last sector.
    pub fn end(&self) -> Sector {
        self.start + self.length
    }

    /// A flush: no sectors, but a request like any other (`blkdev_issue_flush`).
    pub fn flush(process: ProcessId, priority: IoPriority) -> Bio {
        Bio {
            op: Op::Write,
            start: Sector::ZERO,
            length: Sectors::ZERO,
            sync: true,
            sync_flag: true,
            noidle: true,
            prio: false,
            fua: false,
            process,
            priority,
        }
    }

    /// True for a flush.
    pub fn is_flush(&self) -> bool {
        self.length == Sectors::ZERO
    }
}

/// What stands in a scheduler's queue: one or more bios that are contiguous on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the kernel's flags, one by one"
)]
pub struct Request {
    /// What it does.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// How many sectors.
    pub length: Sectors,
    /// Someone waits for it.
    pub sync: bool,
    /// See [`Bio::sync_flag`].
    pub sync_flag: bool,
    /// See [`Bio::noidle`].
    pub noidle: bool,
    /// See [`Bio::prio`].
    pub prio: bool,
    /// See [`Bio::fua`].
    pub fua: bool,
    /// Who opened it.
    pub process: ProcessId,
    /// The best priority of its bios.
    pub priority: IoPriority,
    /// When it was allocated (the earliest of those merged).
    pub allocated: Time,
    /// Takes no more: it reached a size limit, or stands for itself.
    pub unmergeable: bool,
    /// The CPU on which it was submitted: multi-queue schedulers keep lists per CPU.
    pub cpu: u16,
}

impl Request {
    /// True for a flush, which has no sectors.
    #[inline]
    pub fn is_flush(&self) -> bool {
        self.length == Sectors::ZERO
    }

    /// A request that holds this bio.
    pub fn new(bio: &Bio, now: Time) -> Request {
        Request {
            op: bio.op,
            start: bio.start,
            length: bio.length,
            sync: bio.sync,
            sync_flag: bio.sync_flag,
            noidle: bio.noidle,
            prio: bio.prio,
            fua: bio.fua,
            process: bio.process,
            priority: bio.priority,
            allocated: now,
            unmergeable: bio.fua,
            cpu: 0,
        }
    }

    /// The position after the last sector.
    pub fn end(&self) -> Sector {
        self.start + self.length
    }
}

/// Names a request in [`Requests`]: its place counted from one, so that an `Option` of it is as small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(NonZeroU32);

impl RequestId {
    /// Its place in tables that run beside [`Requests`].
    pub fn index(self) -> usize {
        self.number() - 1
    }

    /// Its place, counted from one.
    pub fn number(self) -> usize {
        self.0.get() as usize
    }

    /// The request with this place, counted from one; none for zero.
    pub fn from_number(number: usize) -> Option<RequestId> {
        let number = u32::try_from(number).expect("the place of a request");
        NonZeroU32::new(number).map(RequestId)
    }

    /// The tag of a command for it.
    pub fn tag(self) -> u64 {
        u64::from(self.0.get()) - 1
    }

    /// The request that a command with this tag is for.
    pub fn of_tag(tag: u64) -> RequestId {
        let number = u32::try_from(tag + 1).ok().and_then(NonZeroU32::new);
        RequestId(number.expect("the tag of a request"))
    }
}

/// Where a bio finds its place in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// The bio continues this request.
    Back(RequestId),
    /// The request continues the bio.
    Front(RequestId),
}

impl Merge {
    /// The request that takes the bio.
    pub fn request(self) -> RequestId {
        let (Merge::Back(id) | Merge::Front(id)) = self;
        id
    }

    /// True if the bio comes behind the request.
    pub fn is_back(self) -> bool {
        matches!(self, Merge::Back(_))
    }
}

/// All requests that exist, from allocation to completion. Places are used again.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    slots: Vec<Option<Request>>,
    free: Vec<RequestId>,
}

impl Requests {
    /// Allocates one.
    pub fn add(&mut self, request: Request) -> RequestId {
        let id = match self.free.pop() {
            Some(id) => id,
            None => self.grow(),
        };
        self.slots[id.index()] = Some(request);
        id
    }

    /// One place more.
    #[cold]
    fn grow(&mut self) -> RequestId {
        self.slots.push(None);
        let id = RequestId::from_number(self.slots.len());
        id.expect("there is one at least")
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The half of them that was allocated first.
    pub fn older_half(&self) -> BTreeSet<RequestId> {
        let there = self.slots.iter().zip(1..);
        let there = there.filter_map(|(slot, number)| {
            Some((slot.as_ref()?.allocated, RequestId::from_number(number)?))
        });
        let mut by_age: Vec<(Time, RequestId)> = there.collect();
        by_age.sort_unstable();
        by_age.truncate(by_age.len().div_ceil(2));
        by_age.into_iter().map(|(_, id)| id).collect()
    }

    /// Frees a request's place.
    pub fn remove(&mut self, id: RequestId) -> Request {
        let request = self.slots[id.index()]
            .take()
            .expect("a request is freed once");
        self.free.push(id);
        request
    }
}

impl std::ops::Index<RequestId> for Requests {
    type Output = Request;
    fn index(&self, id: RequestId) -> &Request {
        self.slots[id.index()].as_ref().expect("the request exists")
    }
}

impl std::ops::IndexMut<RequestId> for Requests {
    fn index_mut(&mut self, id: RequestId) -> &mut Request {
        self.slots[id.index()].as_mut().expect("the request exists")
    }
}
