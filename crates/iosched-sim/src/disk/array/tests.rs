use super::*;
use crate::disk::Parameters;
use crate::disk::simple::{ServiceTime, SimpleParameters};

const MS: u64 = 1_000_000;

/// A member that takes a millisecond for anything.
fn member(capacity: u64) -> Model {
    let parameters = Parameters::Simple(SimpleParameters {
        capacity: Sectors::new(capacity),
        queue_depth: 1,
        rotational: true,
        rule: ServiceTime::Fixed(Nanos::from_millis(1)),
    });
    Model {
        name: "member".to_owned(),
        summary: String::new(),
        sources: Vec::new(),
        leaves_out: Vec::new(),
        parameters,
    }
}

fn parameters(level: Level, members: usize) -> ArrayParameters {
    let mut parameters = ArrayParameters {
        level,
        members: vec![member(1 << 20); members],
        chunk: Sectors::new(128),
        capacity: Sectors::ZERO,
        queue_depth: 64,
        rotational: true,
        command: Nanos::ZERO,
        cache: None,
    };
    parameters.capacity = parameters.room();
    parameters
}

fn cache(size: u64, battery: bool) -> ControllerCache {
    ControllerCache {
        size: Sectors::new(size).to_bytes(),
        battery,
        hit: Nanos::from_micros(100),
        high_permille: 800,
        low_permille: 200,
        destage_depth: 4,
        destage_age: Nanos::from_secs(4),
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
fn a_small_write_with_parity_takes_two_turns_and_a_whole_row_one() {
    let mut rig = Rig::new(parameters(Level::Raid5, 5));
    assert_eq!(rig.took(DiskOp::Write, 0, 8), 2 * MS);
    assert_eq!(rig.took(DiskOp::Write, 0, 512), MS);
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
fn what_is_in_the_cache_is_read_from_it_and_leaves_when_it_is_old() {
    let mut array = parameters(Level::Raid0, 1);
    array.cache = Some(cache(64, true));
    let mut rig = Rig::new(array);
    rig.took(DiskOp::Write, 1000, 8);
    assert_eq!(rig.took(DiskOp::Read, 1000, 8), MS / 10);
    rig.pass(Nanos::from_secs(5));
    assert_eq!(rig.took(DiskOp::Read, 1000, 8), MS);
    assert_eq!(rig.array.next_event(), None, "nothing is left to do");
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

#[test]
fn a_write_larger_than_the_cache_goes_through_it_alone() {
    let mut array = parameters(Level::Raid0, 2);
    array.cache = Some(cache(64, true));
    let mut rig = Rig::new(array);
    let first = rig.submit(DiskOp::Write, 0, 300);
    let second = rig.submit(DiskOp::Write, 1000, 8);
    assert_eq!(rig.answered(first), MS / 10);
    assert!(rig.answered(second) > MS);
}

#[test]
fn the_room_of_an_array_is_that_of_its_data_members() {
    for (level, members, data) in [
        (Level::Raid0, 3, 3),
        (Level::Raid1, 3, 1),
        (Level::Raid5, 5, 4),
        (Level::Raid6, 6, 4),
        (Level::Raid10, 6, 3),
    ] {
        let room = parameters(level, members).room();
        assert_eq!(room, Sectors::new((1 << 20) * data), "{level:?}");
    }
}
