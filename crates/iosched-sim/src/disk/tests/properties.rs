//! Properties that every model keeps.

use std::num::NonZeroU32;

use proptest::prelude::*;

use crate::disk::*;
use crate::units::{Bytes, Nanos};

/// One thing that happens to a model in a property test.
#[derive(Debug, Clone)]
struct Arrival {
    gap: Nanos,
    op: DiskOp,
    start: u64,
    length: u64,
    fua: bool,
}

const TEST_SECTORS: u64 = (64 << 20) / 512;

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let op = prop_oneof![
        5 => Just(DiskOp::Read),
        5 => Just(DiskOp::Write),
        1 => Just(DiskOp::Flush),
        1 => Just(DiskOp::Discard),
    ];
    let gap = prop_oneof![Just(0_u64), 0..200_000_u64, 0..40_000_000_u64];
    // A few places near one another, so that commands overlap, continue and hit.
    let start = prop_oneof![0..512_u64, 0..TEST_SECTORS - 4096];
    let one = (gap, op, start, 1..4096_u64, proptest::bool::weighted(0.1));
    let one = one.prop_map(|(gap, op, start, length, fua)| Arrival {
        gap: Nanos::new(gap),
        op,
        start,
        length,
        fua,
    });
    prop::collection::vec(one, 1..60)
}

fn any_model() -> impl Strategy<Value = (Model, ModelOptions)> {
    (
        prop::sample::select(models()),
        1..40_usize,
        any::<bool>(),
        any::<bool>(),
        prop::option::of(1..100_u32),
        any::<u64>(),
    )
        .prop_map(|(model, depth, shortest, cached, slow_down, seed)| {
            let order = if shortest {
                DriveQueue::ShortestAccessFirst
            } else {
                DriveQueue::Fifo
            };
            let options = ModelOptions {
                size: Some(Bytes::new(TEST_SECTORS * 512)),
                queue_depth: Some(depth),
                order: model.order().map(|_| order),
                write_cache: matches!(model.parameters, Parameters::Hdd(_) | Parameters::Ssd(_))
                    .then_some(cached),
                slow_down: slow_down.and_then(NonZeroU32::new),
                seed,
            };
            (model, options)
        })
}

/// Advances the model; what completes by that was announced, and its next time is later.
fn advance(model: &mut dyn DiskModel, now: Time, completed: &mut Vec<Completion>) {
    let before = completed.len();
    let announced = model.next_event().unwrap();
    model.advance(now, completed);
    let mut new = completed[before..].iter();
    assert!(
        new.all(|completion| completion.time >= announced),
        "announced for {announced:?}: {:?}",
        &completed[before..]
    );
    assert!(model.next_event().is_none_or(|next| next > now));
}

/// Runs the arrivals; `late` is by how much the caller comes late to each internal event.
fn run(model: &Model, options: &ModelOptions, load: &[Arrival], late: Nanos) -> Vec<Completion> {
    let mut model = model.build(options).unwrap();
    let mut completed = Vec::new();
    let mut at = Time::ZERO;
    for (tag, arrival) in load.iter().enumerate() {
        let arrives = at + arrival.gap;
        while let Some(event) = model.next_event() {
            if event + late >= arrives {
                break;
            }
            advance(model.as_mut(), event + late, &mut completed);
        }
        at = arrives;
        model.submit(
            at,
            Command {
                tag: tag as u64,
                op: arrival.op,
                start: Sector::new(arrival.start),
                length: Sectors::new(arrival.length),
                fua: arrival.fua,
            },
        );
    }
    let mut turns = 0;
    while completed.len() < load.len() {
        let event = model
            .next_event()
            .expect("something is outstanding, so something will happen");
        advance(model.as_mut(), event.max(at) + late, &mut completed);
        turns += 1;
        assert!(turns < 1_000_000, "the model spins");
    }
    completed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_command_completes_exactly_once_and_not_before_it_began(
        (model, options) in any_model(),
        load in arrivals(),
    ) {
        let completed = run(&model, &options, &load, Nanos::ZERO);
        let mut seen = vec![0; load.len()];
        let mut submitted = Vec::new();
        let mut at = Time::ZERO;
        for arrival in &load {
            at += arrival.gap;
            submitted.push(at);
        }
        for completion in &completed {
            let index = usize::try_from(completion.tag).unwrap();
            seen[index] += 1;
            prop_assert!(completion.started >= submitted[index]);
            prop_assert!(completion.time >= completion.started);
        }
        prop_assert!(seen.iter().all(|&times| times == 1), "{seen:?}");
        prop_assert!(completed.is_sorted_by_key(|completion| completion.time));
    }

    #[test]
    fn a_late_caller_does_not_slow_the_disk_and_the_same_seed_gives_the_same_times(
        (model, options) in any_model(),
        load in arrivals(),
        late in 0..100_000_000_u64,
    ) {
        let prompt = run(&model, &options, &load, Nanos::ZERO);
        prop_assert_eq!(&prompt, &run(&model, &options, &load, Nanos::ZERO));
        prop_assert_eq!(&prompt, &run(&model, &options, &load, Nanos::new(late)));
    }

    #[test]
    fn a_slowed_disk_takes_exactly_so_many_times_as_long(
        (model, options) in any_model(),
        load in arrivals(),
        factor in 1..1000_u32,
    ) {
        let factor = NonZeroU32::new(factor).unwrap();
        let as_fast = ModelOptions { slow_down: None, ..options };
        let slowed = ModelOptions { slow_down: Some(factor), ..options };
        let times = u64::from(factor.get());
        let later = |time: Time| Time::from_nanos(time.as_nanos() * times);
        let load_later: Vec<Arrival> = load
            .iter()
            .map(|arrival| Arrival { gap: arrival.gap * times, ..arrival.clone() })
            .collect();
        let expected: Vec<Completion> = run(&model, &as_fast, &load, Nanos::ZERO)
            .into_iter()
            .map(|done| Completion { started: later(done.started), time: later(done.time), ..done })
            .collect();
        prop_assert_eq!(run(&model, &slowed, &load_later, Nanos::ZERO), expected);
    }
}
