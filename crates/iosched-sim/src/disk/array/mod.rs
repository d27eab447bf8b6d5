//! Several drives as one: stripes, mirrors and parity, behind a controller with or without a cache.
//!
//! Each member is a model of its own, of any kind. A command of the host becomes commands of members
//! (`layout`); what a write needs read for its parity is read first. A cache with a battery
//! acknowledges writes that it has room for and puts them on the members later (`write_back`), one
//! without writes through; both read ahead for those that read in sequence (`streams`). What is
//! known of controllers is structure rather than figures, see `results/disk-models.md`.

mod layout;
mod streams;
#[cfg(test)]
mod tests;
mod write_back;

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

pub use self::layout::Level;
use self::layout::{Layout, Span, WritePlan};
use self::streams::{Fetch, Found, Streams};
use self::write_back::WriteBack;
use super::admission::{Admission, CompletionQueue};
use super::model::File;
use super::values::{Millis, Rate, bytes, whole};
use super::{
    Command, Completion, DiskModel, DiskOp, Interface, Model, ModelOptions, Parameters,
    assert_on_disk,
};
use crate::slab::Slab;
use crate::units::{Bytes, Nanos, Sector, Sectors, Time};

/// What makes one array differ from another: `[array]` of a model's file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayParameters {
    /// Its size is at most what the members hold ([`ArrayParameters::room`]). Their write caches are off.
    #[serde(skip)]
    pub interface: Interface,
    /// How its members share the data.
    pub level: Level,
    /// The drives, in order. Their own write caches are off.
    #[serde(rename = "member", deserialize_with = "members")]
    pub members: Vec<Model>,
    /// They may differ: the smallest decides what each holds.
    #[serde(default)]
    pub unequal_members: bool,
    /// What stands on one member before the next has its turn.
    #[serde(rename = "chunk_bytes", deserialize_with = "blocks")]
    pub chunk: Sectors,
    /// What a kernel would find in `queue/rotational`: what the controller says, true or not.
    pub rotational: bool,
    /// Of each command in the controller, and on the way there and back.
    #[serde(rename = "command_ms")]
    pub command: Millis,
    /// Bytes a second on the way between host and controller, in each direction: data of one command after those of
    /// another. Nothing: data take no time on it.
    #[serde(rename = "link_bytes_per_second")]
    pub link: Option<Rate>,
    /// Its memory, if it has one.
    pub cache: Option<ControllerCache>,
}

/// A controller's memory.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerCache {
    /// Room for writes.
    #[serde(rename = "size_bytes", deserialize_with = "bytes::<_, 0x10_0000>")]
    pub size: Bytes,
    /// It outlives a power failure: writes may be acknowledged that are only in it. Without, it only reads
    /// ahead.
    pub battery: bool,
    /// For an answer out of it, besides [`ArrayParameters::command`].
    #[serde(rename = "hit_ms")]
    pub hit: Millis,
    /// From so many thousandths of the size on it is emptied, until so many are left.
    #[serde(deserialize_with = "whole::<_, _, 1, 1000>")]
    pub high_permille: u64,
    /// See [`ControllerCache::high_permille`].
    #[serde(deserialize_with = "whole::<_, _, 0, 1000>")]
    pub low_permille: u64,
    /// Writes under way to the members at a time.
    #[serde(deserialize_with = "whole::<_, _, 1, 1024>")]
    pub destage_depth: usize,
    /// What is in it for so long is put on the members although there is room.
    #[serde(rename = "destage_age_ms")]
    pub destage_age: Millis,
    /// So much is read ahead for a reader in sequence; zero: nothing is.
    #[serde(rename = "read_ahead_bytes", deserialize_with = "bytes::<_, 0>")]
    pub read_ahead: Bytes,
}

/// `[[array.member]]`: so many drives alike, by the name of one that comes with the program, or as its file would say.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberKeys {
    #[serde(deserialize_with = "whole::<_, _, 1, MOST_MEMBERS>")]
    count: usize,
    model: Option<String>,
    drive: Option<Box<File>>,
}

const MOST_MEMBERS: u64 = 256;

/// What every kind of drive can be made as; 256 of the largest are still a number of bytes.
const MEMBER_BYTES: RangeInclusive<u64> = 16 << 20..=64 << 40;

impl MemberKeys {
    fn drive(self) -> Result<Model, String> {
        let drive = match (self.model, self.drive) {
            (Some(name), None) => Model::named(&name).map_err(|unknown| {
                format!("{unknown}; a drive of your own is written out as [array.member.drive]")
            })?,
            (None, Some(file)) => file.model().map_err(|wrong| format!("drive.{wrong}"))?,
            _ => return Err("either model or [array.member.drive] is needed".to_owned()),
        };
        if matches!(drive.parameters, Parameters::Array(_)) {
            return Err(format!(
                "{} is an array itself: members are drives",
                drive.name
            ));
        }
        if !MEMBER_BYTES.contains(&drive.capacity().as_u64()) {
            let has = drive.capacity();
            return Err(format!(
                "{} has {has}: members hold 16 MiB to 64 TiB",
                drive.name
            ));
        }
        Ok(drive)
    }
}

fn members<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Model>, D::Error> {
    let keys = Vec::<MemberKeys>::deserialize(from)?;
    // Before the drives are made: there could be millions.
    let all: usize = keys.iter().map(|keys| keys.count).sum();
    if all as u64 > MOST_MEMBERS {
        return Err(D::Error::custom(format!(
            "{all} drives in all, and an array has {MOST_MEMBERS} at the most"
        )));
    }
    let mut members = Vec::with_capacity(all);
    for keys in keys {
        let count = keys.count;
        let drive = keys.drive().map_err(D::Error::custom)?;
        members.extend(std::iter::repeat_n(drive, count));
    }
    Ok(members)
}

fn blocks<'de, D: Deserializer<'de>>(from: D) -> Result<Sectors, D::Error> {
    let bytes = whole::<D, u64, 4096, { 16 << 20 }>(from)?;
    if bytes.is_multiple_of(4096) {
        Ok(Bytes::new(bytes).to_sectors())
    } else {
        Err(D::Error::custom(format!(
            "{bytes} is no whole number of 4096-byte blocks"
        )))
    }
}

impl ArrayParameters {
    /// What single values do not show, but for the size.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (members, level) = (&self.members, self.level);
        if !level.takes(members.len()) {
            let even = if level == Level::Raid10 {
                ", an even number"
            } else {
                ""
            };
            return Err(format!(
                "member: {} drives in all, and this level takes {} or more{even}",
                members.len(),
                level.least_members()
            ));
        }
        if !self.unequal_members && members.iter().any(|member| *member != members[0]) {
            let what = "member: drives of different kinds or sizes: `unequal_members = true` says that this is meant";
            return Err(what.to_owned());
        }
        match &self.cache {
            Some(cache) if cache.low_permille > cache.high_permille => {
                Err("cache.low_permille is above high_permille".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The controller's memory.
    pub(crate) fn cache_size(&self) -> Bytes {
        self.cache.as_ref().map_or(Bytes::ZERO, |cache| cache.size)
    }

    /// What the members hold together, as whole rows: the smallest of them decides.
    pub fn room(&self) -> Sectors {
        let each = self.members.iter().map(Model::capacity);
        let least = each.min().unwrap_or(Bytes::new(0)).to_sectors().as_u64();
        let chunk = self.chunk.as_u64();
        let data = self.level.data_members(self.members.len()) as u64;
        Sectors::new(least / chunk * chunk * data)
    }

    /// How large each member is made where the array has this size: they hold it, and are what they can be.
    fn member_size(&self, capacity: Sectors) -> Bytes {
        const LEAST: u64 = 16 << 20; // of a hard disk
        let data = self.level.data_members(self.members.len()) as u64;
        let row = self.chunk.as_u64() * data;
        let needed = capacity.as_u64().div_ceil(row) * self.chunk.as_u64() * 512;
        Bytes::new(needed.next_multiple_of(4096).max(LEAST))
    }
}

/// The answer to a command of the host.
#[derive(Debug, Clone, Copy)]
struct Host {
    tag: u64,
    started: Time,
    /// Data that go to the host with it.
    data: Sectors,
}

/// Who waits for commands of members.
#[derive(Debug)]
enum Asked {
    Host(Host),
    /// A write out of the cache.
    Destage(Sector, Sectors),
    /// What is read ahead for a stream.
    Ahead(usize),
}

/// Commands of members that belong together.
#[derive(Debug)]
struct Job {
    asked: Asked,
    /// How many have not completed.
    pending: usize,
    /// What is written when they have.
    then_written: Vec<Span>,
}

/// What the controller does at a time of its own.
#[derive(Debug)]
enum Due {
    Understood(Command, Time),
    /// The data of a write have come.
    Arrived(Command, Host),
    /// What is to be answered is in its memory.
    Found(Host),
    /// The data of a read are with the host.
    Answered(Host),
    /// What is in its cache is old.
    Old,
}

/// How far the cache is to be emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destaging {
    No,
    ToLow,
    Wholly,
}

/// A drive and what it is at.
struct Member {
    disk: Box<dyn DiskModel>,
    next_event: Time,
    outstanding: usize,
    /// Where its last command ended.
    position: Sector,
}

/// A RAID array behind a controller.
pub(crate) struct Array {
    parameters: ArrayParameters,
    layout: Layout,
    members: Vec<Member>,
    admission: Admission,
    completed_commands: CompletionQueue,
    /// By time, then by number.
    due: BTreeMap<(Time, u64), Due>,
    numbered: u64,
    jobs: Slab<Job>,
    /// By the tag of a member's command: the job that it belongs to.
    commands: Slab<usize>,
    writes: Option<WriteBack>,
    /// Writes that wait for room, in order.
    no_room: VecDeque<(Sector, Sectors, Host)>,
    destaging: Destaging,
    /// [`Due::Old`] is planned.
    ages: bool,
    streams: Streams,
    /// When the link is free for data to the host, and from it.
    to_host_free: Time,
    from_host_free: Time,
    now: Time,
    completions: Vec<Completion>,
}

impl Array {
    /// An array; `seed` is where the members' chance comes from.
    ///
    /// # Panics
    /// If the level does not take so many members, or a chunk has no sectors.
    pub(crate) fn new(parameters: ArrayParameters, seed: u64) -> Array {
        let count = parameters.members.len();
        let layout = Layout::new(parameters.level, count, parameters.chunk);
        let size = parameters.member_size(parameters.interface.capacity);
        let each = parameters.members.iter().zip(seed..);
        let members = each.map(|(model, seed)| Member::new(model, size, seed));
        let cache = parameters.cache.as_ref();
        let read_ahead = cache.map_or(Bytes::new(0), |cache| cache.read_ahead);
        Array {
            members: members.collect(),
            admission: Admission::new(parameters.interface.queue_depth),
            completed_commands: CompletionQueue::default(),
            due: BTreeMap::new(),
            numbered: 0,
            jobs: Slab::new(),
            commands: Slab::new(),
            writes: cache
                .filter(|cache| cache.battery)
                .map(|_| WriteBack::new(layout.row())),
            no_room: VecDeque::new(),
            destaging: Destaging::No,
            ages: false,
            streams: Streams::new(read_ahead.to_sectors(), parameters.interface.capacity),
            to_host_free: Time::ZERO,
            from_host_free: Time::ZERO,
            now: Time::ZERO,
            completions: Vec::new(),
            layout,
            parameters,
        }
    }

    // ---- time ----------------------------------------------------------------------------

    fn plan(&mut self, time: Time, due: Due) {
        self.numbered += 1;
        self.due.insert((time, self.numbered), due);
    }

    /// When the controller or a member has something to do; [`Time::MAX`] if none has.
    fn next_inside(&self) -> Time {
        let first = self.due.keys().next();
        let own = first.map_or(Time::MAX, |&(time, _)| time);
        let members = self.members.iter().map(|member| member.next_event);
        members.min().map_or(own, |theirs| theirs.min(own))
    }

    fn catch_up(&mut self, now: Time) {
        loop {
            let next = self.next_inside();
            if next > now {
                break;
            }
            self.now = self.now.max(next);
            self.do_what_is_due();
        }
        self.now = self.now.max(now);
    }

    fn do_what_is_due(&mut self) {
        while let Some(entry) = self
            .due
            .first_entry()
            .filter(|first| first.key().0 <= self.now)
        {
            match entry.remove() {
                Due::Understood(command, started) => self.understood(&command, started),
                Due::Arrived(command, host) => self.write(&command, host),
                Due::Found(host) => self.send(host),
                Due::Answered(host) => self.answer(host),
                Due::Old => self.old(),
            }
        }
        for index in 0..self.members.len() {
            if self.members[index].next_event <= self.now {
                self.advance_member(index);
            }
        }
    }

    fn advance_member(&mut self, index: usize) {
        let mut completions = std::mem::take(&mut self.completions);
        let member = &mut self.members[index];
        member.disk.advance(self.now, &mut completions);
        member.next_event = member.disk.next_event().unwrap_or(Time::MAX);
        member.outstanding -= completions.len();
        for completion in completions.drain(..) {
            let place = usize::try_from(completion.tag).expect("a place");
            let job = self.commands.remove(place);
            self.command_completed(job);
        }
        self.completions = completions;
    }

    // ---- the host's commands -------------------------------------------------------------

    fn take_next(&mut self) {
        while let Some(command) = self.admission.enter() {
            let time = self.now + *self.parameters.command;
            self.plan(time, Due::Understood(command, self.now));
        }
    }

    fn understood(&mut self, command: &Command, started: Time) {
        let is_read = command.op == DiskOp::Read;
        let host = Host {
            tag: command.tag,
            started,
            data: if is_read {
                command.length
            } else {
                Sectors::ZERO
            },
        };
        match command.op {
            DiskOp::Read => self.read(command, host),
            DiskOp::Write => match self.parameters.link {
                Some(rate) => {
                    let arrived = pass(&mut self.from_host_free, self.now, command.length, rate.0);
                    self.plan(arrived, Due::Arrived(*command, host));
                }
                None => self.write(command, host),
            },
            // What was acknowledged is on the members, or outlives a power failure.
            DiskOp::Flush | DiskOp::Discard => self.answer(host),
        }
    }

    fn write(&mut self, command: &Command, host: Host) {
        let (start, length) = (command.start, command.length);
        if self.writes.is_some() {
            self.no_room.push_back((start, length, host));
            self.admit();
        } else {
            let plan = self.layout.write(start, length);
            self.begin(Asked::Host(host), plan);
        }
    }

    fn read(&mut self, command: &Command, host: Host) {
        let in_cache = |writes: &WriteBack| writes.holds(command.start, command.end());
        if self.writes.as_ref().is_some_and(in_cache) {
            return self.answer_from_cache(host);
        }
        let (found, fetch) = self.streams.read(command.start, command.length);
        match found {
            Found::Here => self.answer_from_cache(host),
            Found::Coming(stream) => {
                let waiter = (host.tag, host.started, host.data);
                self.streams.wait(stream, waiter);
            }
            Found::Nothing => {
                let spans = self.layout.reads(command.start, command.length);
                self.begin_reading(Asked::Host(host), spans);
            }
        }
        if let Some(fetch) = fetch {
            self.read_ahead(fetch);
        }
    }

    fn read_ahead(&mut self, fetch: Fetch) {
        let spans = self.layout.reads(fetch.start, fetch.length);
        self.begin_reading(Asked::Ahead(fetch.stream), spans);
    }

    fn answer_from_cache(&mut self, host: Host) {
        let hit = self
            .parameters
            .cache
            .as_ref()
            .map_or(Nanos::ZERO, |cache| *cache.hit);
        self.plan(self.now + hit, Due::Found(host));
    }

    /// Its data go over the link, then it is answered.
    fn send(&mut self, host: Host) {
        match self.parameters.link {
            Some(rate) if host.data > Sectors::ZERO => {
                let answered = pass(&mut self.to_host_free, self.now, host.data, rate.0);
                self.plan(answered, Due::Answered(host));
            }
            _ => self.answer(host),
        }
    }

    fn answer(&mut self, host: Host) {
        self.admission.leave();
        self.completed_commands.put(Completion {
            tag: host.tag,
            started: host.started,
            time: self.now,
        });
        self.take_next();
    }

    // ---- the cache -----------------------------------------------------------------------

    /// Acknowledges the writes that there is room for, in order.
    fn admit(&mut self) {
        let Some(cache) = self.parameters.cache.clone() else {
            return;
        };
        while let Some(&(start, length, host)) = self.no_room.front() {
            let writes = self.writes.as_mut().expect("there is a battery");
            let used = writes.used();
            let fits = (used + length).to_bytes() <= cache.size;
            if !fits && used > Sectors::ZERO {
                break;
            }
            self.no_room.pop_front();
            if fits {
                writes.write(start, start + length);
                self.answer_from_cache(host);
            } else {
                // It is larger than the cache.
                let plan = self.layout.write(start, length);
                self.begin(Asked::Host(host), plan);
            }
        }
        self.destage(&cache);
    }

    /// What is in the cache has been there for long.
    fn old(&mut self) {
        self.ages = false;
        self.destaging = Destaging::Wholly;
        if let Some(cache) = self.parameters.cache.clone() {
            self.destage(&cache);
        }
    }

    /// Empties the cache as far as it is to be.
    fn destage(&mut self, cache: &ControllerCache) {
        let Some(writes) = &self.writes else { return };
        let (dirty, used) = (writes.dirty(), writes.used().to_bytes().as_u64());
        let is_full = used * 1000 >= cache.size.as_u64() * cache.high_permille;
        let is_low = dirty.to_bytes().as_u64() * 1000 <= cache.size.as_u64() * cache.low_permille;
        self.destaging = match self.destaging {
            Destaging::No if is_full || !self.no_room.is_empty() => Destaging::ToLow,
            Destaging::ToLow if is_low && self.no_room.is_empty() => Destaging::No,
            Destaging::Wholly if dirty == Sectors::ZERO => Destaging::No,
            as_before => as_before,
        };
        if dirty > Sectors::ZERO && !self.ages && self.destaging != Destaging::Wholly {
            self.ages = true;
            self.plan(self.now + *cache.destage_age, Due::Old);
        }
        if self.destaging != Destaging::No {
            self.send_writes(cache.destage_depth);
        }
    }

    fn send_writes(&mut self, depth: usize) {
        while let Some(writes) = self
            .writes
            .as_mut()
            .filter(|writes| writes.leaving() < depth)
        {
            let Some((start, length)) = writes.next() else {
                break;
            };
            let plan = self.layout.write(start, length);
            self.begin(Asked::Destage(start, length), plan);
        }
    }

    fn destaged(&mut self, start: Sector, length: Sectors) {
        let writes = self.writes.as_mut().expect("it was in the cache");
        writes.left(start, length);
        self.admit();
    }

    // ---- the members' commands -----------------------------------------------------------

    fn begin(&mut self, asked: Asked, plan: WritePlan) {
        let WritePlan {
            first_read,
            then_written,
        } = plan;
        let (op, spans, then_written) = if first_read.is_empty() {
            (DiskOp::Write, then_written, Vec::new())
        } else {
            (DiskOp::Read, first_read, then_written)
        };
        let pending = 0;
        let job = self.jobs.add(Job {
            asked,
            pending,
            then_written,
        });
        self.give(job, op, spans);
    }

    /// Reads each span from the copy that has the least to do, of those alike from the nearest.
    fn begin_reading(&mut self, asked: Asked, mut spans: Vec<Span>) {
        let copies = self.layout.copies();
        for span in &mut spans {
            let all = span.member..span.member + copies;
            let to_do = |&copy: &usize| {
                let member = &self.members[copy];
                (member.outstanding, member.position.distance(span.start))
            };
            span.member = all.min_by_key(to_do).expect("there is a copy");
        }
        let plan = WritePlan {
            first_read: spans,
            then_written: Vec::new(),
        };
        self.begin(asked, plan);
    }

    fn give(&mut self, job: usize, op: DiskOp, spans: Vec<Span>) {
        self.jobs.get_mut(job).pending = spans.len();
        for span in spans {
            let tag = self.commands.add(job) as u64;
            self.members[span.member].give(self.now, tag, op, span);
        }
    }

    fn command_completed(&mut self, job: usize) {
        let state = self.jobs.get_mut(job);
        state.pending -= 1;
        if state.pending > 0 {
            return;
        }
        let then_written = std::mem::take(&mut state.then_written);
        if !then_written.is_empty() {
            return self.give(job, DiskOp::Write, then_written);
        }
        match self.jobs.remove(job).asked {
            Asked::Host(host) => self.send(host),
            Asked::Destage(start, length) => self.destaged(start, length),
            Asked::Ahead(stream) => {
                for (tag, started, data) in self.streams.fetched(stream) {
                    self.answer_from_cache(Host { tag, started, data });
                }
            }
        }
    }
}

/// When so much has passed a link in one direction, behind what passes already.
fn pass(free: &mut Time, now: Time, data: Sectors, bytes_per_second: u64) -> Time {
    let scaled = u128::from(data.to_bytes().as_u64()) * 1_000_000_000;
    let takes = scaled.div_ceil(u128::from(bytes_per_second));
    *free = now.max(*free) + Nanos::new(u64::try_from(takes).unwrap_or(u64::MAX));
    *free
}

impl Member {
    fn new(model: &Model, size: Bytes, seed: u64) -> Member {
        let options = ModelOptions {
            size: Some(size.min(model.capacity())),
            write_cache: (!matches!(model.parameters, Parameters::Simple(_))).then_some(false),
            seed,
            ..ModelOptions::default()
        };
        let disk = model.build(&options);
        Member {
            disk: disk.expect("a size that it can have"),
            next_event: Time::MAX,
            outstanding: 0,
            position: Sector::ZERO,
        }
    }

    fn give(&mut self, now: Time, tag: u64, op: DiskOp, span: Span) {
        let Span { start, length, .. } = span;
        self.outstanding += 1;
        self.position = start + length;
        let command = Command {
            tag,
            op,
            start,
            length,
            fua: false, // its write cache is off
        };
        self.disk.submit(now, command);
        self.next_event = self.disk.next_event().unwrap_or(Time::MAX);
    }
}

impl DiskModel for Array {
    fn capacity(&self) -> Sectors {
        self.parameters.interface.capacity
    }

    fn queue_depth(&self) -> usize {
        self.parameters.interface.queue_depth
    }

    fn submit(&mut self, now: Time, command: Command) {
        assert_on_disk(&command, self.parameters.interface.capacity);
        self.catch_up(now);
        self.admission.arrive(command);
        self.take_next();
    }

    fn next_event(&self) -> Option<Time> {
        let next = self.next_inside().min(self.completed_commands.next_time());
        (next < Time::MAX).then_some(next)
    }

    fn advance(&mut self, now: Time, completed: &mut Vec<Completion>) {
        self.catch_up(now);
        self.completed_commands.fetch(completed);
    }
}
