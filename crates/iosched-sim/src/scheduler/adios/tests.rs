//! What ADIOS decides, rule by rule.

use super::*;
use crate::block_layer::{MergeLimits, Merger};
use crate::request::Request;
use crate::scheduler::NamedValues;
use crate::scheduler::fixture::bio;
use crate::units::Sectors;

/// ADIOS with a few requests, which are named by where they start.
struct Lab {
    adios: Adios,
    requests: Requests,
    now: Time,
    in_driver: Vec<RequestId>,
}

impl Lab {
    fn new(tunables: &[(&str, i64)], initial: &[(&str, i64)]) -> Lab {
        let named = |values: &[(&str, i64)]| -> NamedValues {
            let values = values.iter();
            values
                .map(|&(name, value)| (name.to_owned(), value))
                .collect()
        };
        let kernel = Kernel {
            hz: 250,
            rotational: tunables.iter().any(|&(name, _)| name == "batch_order"),
            ..Kernel::default()
        };
        let tunables = Values::new("adios", "tunable", facts::ADIOS.tunables, &named(tunables));
        let initial = Values::new("adios", "initial value", INFO.initial, &named(initial));
        Lab {
            adios: Adios::new(&tunables.unwrap(), &kernel, &initial.unwrap()),
            requests: Requests::default(),
            now: Time::ZERO + Nanos::from_secs(1),
            in_driver: Vec::new(),
        }
    }

    /// One whose models know reads and writes of 1 ms, and that uses its trees.
    fn stable(tunables: &[(&str, i64)]) -> Lab {
        let mut lab = Lab::new(
            tunables,
            &[("read_base", 1_000_000), ("write_base", 1_000_000)],
        );
        lab.adios.is_stable = true;
        lab
    }

    fn insert(&mut self, op: Op, start: u64, sync_flag: bool) -> RequestId {
        let bio = Bio {
            op,
            sync_flag,
            length: Sectors::new(8),
            ..bio(Sector::new(start))
        };
        let id = self.requests.add(Request::new(&bio, self.now));
        self.adios.insert(self.now, &self.requests, id);
        id
    }

    fn dispatch(&mut self) -> Option<u64> {
        let id = self.adios.dispatch(self.now, &self.requests, 0)?;
        self.adios.activate(self.now, &self.requests, id);
        self.in_driver.push(id);
        Some(self.requests[id].start.as_u64())
    }

    fn all(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.dispatch()).collect()
    }

    /// The oldest in the driver completes this much later.
    fn complete_after(&mut self, nanos: Nanos) {
        self.now += nanos;
        let id = self.in_driver.remove(0);
        self.adios.completed(self.now, &self.requests, id);
        self.requests.remove(id);
    }

    /// So many requests, one after the other, each taking this long.
    fn serve(&mut self, op: Op, count: u64, latency: Nanos) {
        for start in 0..count {
            self.insert(op, start * 8, true);
            self.dispatch().unwrap();
            self.complete_after(latency);
        }
    }

    fn base(&self, kind: usize) -> u64 {
        self.adios.models.of[kind].base
    }
}

const MS: Nanos = Nanos::from_millis(1);

#[test]
fn the_first_insert_that_knows_reads_and_writes_is_the_last_in_order_of_arrival() {
    let mut lab = Lab::new(&[], &[]);
    lab.serve(Op::Read, 1, MS);
    lab.serve(Op::Write, 1, MS);
    let place = |lab: &Lab, id: RequestId| lab.adios.request_data[id].place;
    let next = lab.insert(Op::Read, 100, true);
    assert_eq!(place(&lab, next), Place::Priority);
    let after = lab.insert(Op::Read, 200, true);
    assert_eq!(place(&lab, after), Place::Tree);
    assert_eq!(lab.all(), [100, 200]);
}

#[test]
fn reads_alone_teach_what_writes_take_at_the_first_timer() {
    let mut lab = Lab::new(&[], &[]);
    lab.serve(Op::Read, 1, Nanos::from_micros(500));
    for latency in [900, 1000, 1100, 1200] {
        lab.serve(Op::Read, 1, Nanos::from_micros(latency));
    }
    assert_eq!((lab.base(READ), lab.base(WRITE)), (500_000, 0));
    let due = lab.adios.next_timer().unwrap();
    lab.adios.timer(due, &lab.requests);
    assert_eq!((lab.base(READ), lab.base(WRITE)), (500_000, 1_050_000));
    lab.insert(Op::Read, 100, true);
    let second = lab.insert(Op::Read, 200, true);
    assert_eq!(lab.adios.request_data[second].place, Place::Tree);
}

#[test]
fn a_kind_without_a_base_takes_the_samples_of_others() {
    let mut lab = Lab::new(&[], &[]);
    for _ in 0..10 {
        lab.serve(Op::Read, 1, MS);
        lab.serve(Op::Write, 1, MS);
    }
    assert_eq!(lab.base(DISCARD), 0);
    let due = lab.adios.next_timer().unwrap();
    lab.adios.timer(due, &lab.requests);
    assert_eq!((lab.base(DISCARD), lab.base(OTHER)), (1_000_000, 0));
}

#[test]
fn latency_counts_from_the_completion_before_while_others_are_under_way() {
    let mut lab = Lab::stable(&[]);
    for start in [8, 16] {
        lab.insert(Op::Read, start, true);
    }
    assert_eq!(lab.all(), [8, 16]);
    lab.complete_after(MS);
    assert_eq!(lab.adios.last_completion, Some(lab.now));
    lab.complete_after(MS);
    assert_eq!(lab.adios.last_completion, None, "nothing is under way");
    assert_eq!((lab.adios.in_flight, lab.adios.expected), (0, 0));
}

#[test]
fn a_read_without_the_flag_is_due_later_than_one_with_it_that_came_after() {
    let mut lab = Lab::stable(&[]);
    lab.insert(Op::Read, 100, false);
    lab.now += MS;
    lab.insert(Op::Read, 200, true);
    assert_eq!(lab.all(), [200, 100]);
}

#[test]
fn deadlines_within_a_step_of_two_to_the_twentieth_are_alike() {
    let mut lab = Lab::stable(&[]);
    let step = 1 << QUANTUM_BITS;
    lab.now = Time::from_nanos(1000 * step);
    let late = Time::from_nanos(1001 * step - 1);
    for (start, now) in [(300, late), (200, lab.now), (100, late + Nanos::new(1))] {
        lab.now = now;
        lab.insert(Op::Read, start, true);
    }
    assert_eq!(lab.all(), [300, 200, 100]);
}

#[test]
fn an_early_read_costs_a_sixth_of_what_an_early_write_does() {
    let mut lab = Lab::stable(&[]);
    lab.insert(Op::Write, 1000, true);
    lab.now += MS;
    lab.insert(Op::Read, 2000, true);
    assert_eq!(lab.dispatch(), Some(2000), "reads of a page go first");
    // The read was due later: it is paid for. The write was alone then, but the bias is against reads: it is paid back.
    assert_eq!(lab.adios.bias, 1_000_000 - 167_968);
    lab.adios.change_bias(0, 0);
    assert_eq!(
        lab.adios.bias, -1,
        "of an unknown latency only the sign counts"
    );
}

#[test]
fn a_batch_ends_at_the_window_or_at_the_limit_of_a_kind() {
    let filled = |tunables: &[(&str, i64)]| {
        let mut lab = Lab::stable(tunables);
        for start in 0..40 {
            lab.insert(Op::Read, start * 8, true);
        }
        lab.dispatch();
        lab.adios.in_flight
    };
    assert_eq!(filled(&[]), 16, "16 ms of 1 ms each");
    assert_eq!(filled(&[("global_latency_window", 1)]), 1, "never none");
    assert_eq!(filled(&[("batch_limit_read", 7)]), 7);
    assert_eq!(filled(&[("batch_order", 0)]), 22, "a rotational device");
}

#[test]
fn the_next_batch_is_made_when_little_is_under_way() {
    let mut lab = Lab::stable(&[("batch_limit_read", 6)]);
    for start in 0..12 {
        lab.insert(Op::Read, start * 8, true);
    }
    for _ in 0..4 {
        lab.dispatch();
    }
    assert_eq!(lab.adios.in_flight, 6);
    // 20 % of 16 ms: fewer than 3.2 of 1 ms each.
    for left in [5, 4, 3] {
        lab.complete_after(MS);
        assert_eq!(lab.adios.in_flight, left);
    }
    lab.dispatch();
    assert_eq!(lab.adios.in_flight, 3 + 6);
    assert_eq!(
        lab.all().len(),
        7,
        "and what is left of the first goes first"
    );
}

#[test]
fn a_request_that_grows_goes_to_the_end_of_its_step_and_one_in_a_batch_grows_no_more() {
    let mut lab = Lab::stable(&[]);
    let mut merger = Merger::new(MergeLimits::default(), &lab.adios);
    let mut first = None;
    for start in [100, 200] {
        let whole = Bio {
            length: Sectors::new(8),
            ..bio(Sector::new(start))
        };
        let id = lab.requests.add(Request::new(&whole, lab.now));
        merger.insert_alone(lab.now, &lab.requests, &mut lab.adios, id);
        first = first.or(Some(id));
    }
    let first = first.unwrap();
    let takes = |lab: &mut Lab, merger: &mut Merger, start: u64| {
        let (requests, adios) = (&mut lab.requests, &mut lab.adios);
        let bio = (&bio(Sector::new(start)), 0);
        merger.merge(lab.now, requests, adios, &[], bio).is_some()
    };
    assert!(takes(&mut lab, &mut merger, 108));
    assert_eq!(lab.requests[first].length, Sectors::new(9));
    assert_eq!(lab.dispatch(), Some(200));
    merger.dispatched(&mut lab.adios, lab.in_driver[0]);
    assert!(!takes(&mut lab, &mut merger, 109), "it is in the batch");
    assert_eq!(lab.all(), [100]);
}

#[test]
fn in_elevator_order_what_nobody_waits_for_goes_by_place_from_the_nearer_half() {
    let order = |head: u64| {
        let mut lab = Lab::stable(&[("batch_order", 1)]);
        lab.adios.head = Sector::new(head);
        for start in [300, 100, 200] {
            lab.insert(Op::Write, start, false);
        }
        lab.insert(Op::Read, 50, true);
        lab.all()
    };
    assert_eq!(order(0), [50, 100, 200, 300]);
    assert_eq!(order(250), [50, 300, 200, 100]);
}
