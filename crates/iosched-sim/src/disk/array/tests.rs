use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::disk::Parameters;
use crate::disk::simple::{ServiceTime, SimpleParameters};

const MS: u64 = 1_000_000;

/// A member that takes a millisecond for anything.
fn member(capacity: u64) -> Model {
    let parameters = Parameters::Simple(SimpleParameters {
        interface: Interface {
            capacity: Sectors::new(capacity),
            queue_depth: 1,
            write_cache: false,
        },
        rotational: true,
        rule: ServiceTime::Fixed(Nanos::from_millis(1)),
    });
    Model {
        name: "member".to_owned(),
        summary: String::new(),
        sources: Vec::new(),
        leaves_out: Vec::new(),
        parameters,
        text: String::new(),
    }
}

fn parameters(level: Level, members: usize) -> ArrayParameters {
    let mut parameters = ArrayParameters {
        level,
        members: vec![member(1 << 20); members],
        unequal_members: false,
        chunk: Sectors::new(128),
        interface: Interface {
            queue_depth: 64,
            ..Interface::default()
        },
        rotational: true,
        command: Millis::default(),
        link: None,
        cache: None,
    };
    parameters.interface.capacity = parameters.room();
    parameters
}

fn cache(size: u64, battery: bool) -> ControllerCache {
    ControllerCache {
        size: Sectors::new(size).to_bytes(),
        battery,
        hit: Millis(Nanos::from_micros(100)),
        high_permille: 800,
        low_permille: 200,
        destage_depth: 4,
        destage_age: Millis(Nanos::from_secs(4)),
        read_ahead: Bytes::new(0),
    }
}

struct Rig {
    array: Array,
    completed: Vec<Completion>,
    now: Time,
    tags: u64,
}

impl Rig {
    fn new(parameters: ArrayParameters) -> Rig {
        Rig {
            array: Array::new(parameters, 0),
            completed: Vec::new(),
            now: Time::ZERO,
            tags: 0,
        }
    }

    fn submit(&mut self, op: DiskOp, start: u64, length: u64) -> u64 {
        self.tags += 1;
        let command = Command {
            tag: self.tags,
            op,
            start: Sector::new(start),
            length: Sectors::new(length),
            fua: false,
        };
        self.array.submit(self.now, command);
        self.tags
    }

    fn pass(&mut self, time: Nanos) {
        self.now += time;
        self.array.advance(self.now, &mut self.completed);
    }

    /// When it was answered, in ns.
    fn answered(&mut self, tag: u64) -> u64 {
        let answer = |completed: &[Completion]| {
            let found = completed.iter().find(|completion| completion.tag == tag);
            found.map(|completion| completion.time.as_nanos())
        };
        while answer(&self.completed).is_none() {
            let next = self.array.next_event().expect("it is answered one day");
            self.array.advance(next, &mut self.completed);
        }
        answer(&self.completed).unwrap()
    }

    fn took(&mut self, op: DiskOp, start: u64, length: u64) -> u64 {
        let begun = self.now.as_nanos();
        let tag = self.submit(op, start, length);
        let answered = self.answered(tag);
        self.now = Time::from_nanos(answered);
        answered - begun
    }
}

#[test]
fn members_of_a_stripe_work_at_the_same_time() {
    let mut rig = Rig::new(parameters(Level::Raid0, 4));
    assert_eq!(rig.took(DiskOp::Read, 0, 512), MS);
    let mut rig = Rig::new(parameters(Level::Raid0, 1));
    assert_eq!(rig.took(DiskOp::Read, 0, 512), MS);
    let tags: Vec<u64> = (0..4)
        .map(|read| rig.submit(DiskOp::Read, read * 1000, 8))
        .collect();
    let last = tags.into_iter().map(|tag| rig.answered(tag)).max();
    assert_eq!(last, Some(5 * MS), "one member does one after the other");
}

#[test]
fn mirrors_share_reads_and_both_write() {
    for (op, expected) in [(DiskOp::Read, MS), (DiskOp::Write, 2 * MS)] {
        let mut rig = Rig::new(parameters(Level::Raid1, 2));
        let (first, second) = (rig.submit(op, 0, 8), rig.submit(op, 5000, 8));
        assert_eq!(rig.answered(first), MS);
        assert_eq!(rig.answered(second), expected, "{op:?}");
    }
}

#[test]
fn with_a_battery_writes_are_answered_from_the_cache_until_it_is_full() {
    let mut array = parameters(Level::Raid0, 1);
    array.cache = Some(cache(64, true));
    let mut rig = Rig::new(array);
    let tags: Vec<u64> = (0..20)
        .map(|write| rig.submit(DiskOp::Write, write * 1000, 8))
        .collect();
    let answers: Vec<u64> = tags.into_iter().map(|tag| rig.answered(tag)).collect();
    assert!(
        answers[..8].iter().all(|&time| time == MS / 10),
        "{answers:?}"
    );
    let expected: Vec<u64> = (1..=12).map(|turn| turn * MS + MS / 10).collect();
    assert_eq!(answers[8..], expected, "one leaves, one may come");
}

#[test]
fn without_a_battery_nothing_is_acknowledged_that_a_power_failure_would_lose() {
    let mut array = parameters(Level::Raid0, 1);
    array.cache = Some(cache(64, false));
    let mut rig = Rig::new(array);
    assert_eq!(rig.took(DiskOp::Write, 0, 8), MS);
    assert_eq!(rig.took(DiskOp::Flush, 0, 0), 0);
}

#[test]
fn a_reader_in_sequence_finds_what_was_read_ahead() {
    let mut array = parameters(Level::Raid0, 4);
    array.cache = Some(ControllerCache {
        read_ahead: Sectors::new(512).to_bytes(),
        ..cache(64, false)
    });
    let mut rig = Rig::new(array);
    let times: Vec<u64> = (0..8)
        .map(|read| rig.took(DiskOp::Read, read * 8, 8))
        .collect();
    assert_eq!(times[..2], [MS, MS], "it is not known yet");
    let hits = times[2..].iter().filter(|&&time| time == MS / 10).count();
    assert!(hits >= 5, "{times:?}");
}

proptest! {}

/// Member and sector.
type Place = (usize, u64);

/// A member that tells what is on it.
struct Recorder {
    disk: Box<dyn DiskModel>,
    member: usize,
    under_way: BTreeMap<u64, Command>,
    /// What was written where, in order; of all members.
    written: Arc<Mutex<Vec<Place>>>,
}

impl DiskModel for Recorder {
    fn capacity(&self) -> Sectors {
        self.disk.capacity()
    }

    fn queue_depth(&self) -> usize {
        self.disk.queue_depth()
    }

    fn submit(&mut self, now: Time, command: Command) {
        self.under_way.insert(command.tag, command);
        self.disk.submit(now, command);
    }

    fn next_event(&self) -> Option<Time> {
        self.disk.next_event()
    }

    fn advance(&mut self, now: Time, completed: &mut Vec<Completion>) {
        let before = completed.len();
        self.disk.advance(now, completed);
        for completion in &completed[before..] {
            let command = self.under_way.remove(&completion.tag).unwrap();
            if command.op == DiskOp::Write {
                let sectors = command.start.as_u64()..command.end().as_u64();
                let places = sectors.map(|sector| (self.member, sector));
                self.written.lock().unwrap().extend(places);
            }
        }
    }
}

fn places(spans: &[Span]) -> Vec<Place> {
    let sectors = |span: &Span| {
        let (member, start) = (span.member, span.start.as_u64());
        (start..start + span.length.as_u64()).map(move |sector| (member, sector))
    };
    spans.iter().flat_map(sectors).collect()
}

fn any_array() -> impl Strategy<Value = ArrayParameters> {
    let level = prop::sample::select(vec![
        (Level::Raid0, 1),
        (Level::Raid0, 3),
        (Level::Raid1, 3),
        (Level::Raid5, 3),
        (Level::Raid5, 5),
        (Level::Raid6, 5),
        (Level::Raid10, 6),
    ]);
    let memory = prop::option::of((1..200_u64, any::<bool>(), 0..300_u64));
    (level, 1..64_u64, memory).prop_map(|((level, members), chunk, memory)| {
        let mut array = parameters(level, members);
        array.chunk = Sectors::new(chunk);
        array.interface.capacity = array.room();
        array.cache = memory.map(|(size, battery, ahead)| ControllerCache {
            read_ahead: Sectors::new(ahead).to_bytes(),
            ..cache(size, battery)
        });
        array
    })
}

proptest! {
    /// Every command is answered once. What is answered is on the members, all copies and parity of it, or in a
    /// battery's cache that has room for it; in the end it is on the members. Without a battery's cache, which may write
    /// once what was written twice, nothing else is written, and nothing twice.
    #[test]
    fn what_is_answered_is_safe_and_the_members_get_what_the_level_wants(
        array in any_array(),
        commands in prop::collection::vec((any::<bool>(), 0..3000_u64, 1..300_u64, 0..3000_u64), 1..40),
    ) {
        let written = Arc::new(Mutex::new(Vec::new()));
        let battery = array.cache.as_ref().filter(|cache| cache.battery).map(|cache| cache.size);
        let mut rig = Rig::new(array);
        for (member, state) in rig.array.members.iter_mut().enumerate() {
            let disk = std::mem::replace(&mut state.disk, member_disk());
            let under_way = BTreeMap::new();
            state.disk = Box::new(Recorder { disk, member, under_way, written: Arc::clone(&written) });
        }
        let layout = rig.array.layout;
        let mut writes: BTreeMap<u64, (Vec<Place>, Bytes)> = BTreeMap::new();
        let mut wanted = Vec::new();
        let submitted = commands.len();
        for (is_read, start, length, micros) in commands {
            let op = if is_read { DiskOp::Read } else { DiskOp::Write };
            let tag = rig.submit(op, start, length);
            if !is_read {
                let plan = layout.write(Sector::new(start), Sectors::new(length));
                let all = places(&plan.then_written);
                wanted.extend(all.iter().copied());
                writes.insert(tag, (all, Sectors::new(length).to_bytes()));
            }
            rig.pass(Nanos::from_micros(micros));
        }
        let (mut checked, mut seen, mut on_members) = (0, 0, BTreeSet::<Place>::new());
        loop {
            let so_far = written.lock().unwrap();
            on_members.extend(&so_far[seen..]);
            seen = so_far.len();
            drop(so_far);
            for completion in &rig.completed[checked..] {
                let Some((all, length)) = writes.get(&completion.tag) else { continue };
                if battery.is_none_or(|size| *length > size) {
                    prop_assert!(all.iter().all(|place| on_members.contains(place)));
                }
            }
            checked = rig.completed.len();
            let Some(next) = rig.array.next_event() else { break };
            rig.array.advance(next, &mut rig.completed);
        }
        let answered: BTreeSet<u64> = rig.completed.iter().map(|completion| completion.tag).collect();
        prop_assert_eq!((answered.len(), rig.completed.len()), (submitted, submitted));
        let mut on_members = written.lock().unwrap().clone();
        on_members.sort_unstable();
        wanted.sort_unstable();
        if battery.is_none() {
            prop_assert_eq!(on_members, wanted);
        } else {
            let (have, want): (BTreeSet<Place>, BTreeSet<Place>) =
                (on_members.into_iter().collect(), wanted.into_iter().collect());
            prop_assert!(have.is_superset(&want));
        }
    }
}

fn member_disk() -> Box<dyn DiskModel> {
    member(1 << 20).build(&ModelOptions::default()).unwrap()
}
