//! The recorder of block events on real loop devices: nothing lost unnoticed, nothing left behind.
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{LoopDevice, can_trace, can_use_loop_devices, has_fio, run, tracing_instances};
use iosched_machine::capture::{self, Losses, Recorder};
use iosched_machine::host::Host;
use iosched_sim::trace::kernel::{Action, Line, TraceEvent};
use iosched_sim::units::Sector;
use iosched_testing::world::TRACEFS;

/// True if block events can be recorded; says why not otherwise.
fn can_record() -> bool {
    can_use_loop_devices() && has_fio() && can_trace()
}

/// What happened on the disk while this was done twice, read after each time. `buffer_kib`: memory for the
/// events of one processor; what the recorder chooses if `None`.
fn record(
    disk: &LoopDevice,
    buffer_kib: Option<u32>,
    work: impl Fn(),
) -> (Vec<TraceEvent>, Losses) {
    let number = capture::device_number(&Host::live(), &disk.name).unwrap();
    let mut recorder = Recorder::start(number, &capture::EVENTS).unwrap();
    if let Some(kib) = buffer_kib {
        let instance = Path::new(TRACEFS)
            .join("instances")
            .join(recorder.instance());
        fs::write(instance.join("buffer_size_kb"), kib.to_string()).unwrap();
    }
    let mut lines = Vec::new();
    for _ in 0..2 {
        work();
        recorder.drain(&mut lines).unwrap();
    }
    let losses = recorder.finish(&mut lines).unwrap();
    let events = lines.into_iter().filter_map(|line| match line {
        Line::Event(event) => Some(event),
        Line::Remark(_) => None,
    });
    (events.collect(), losses)
}

fn fio(disk: &LoopDevice, options: &[&str]) {
    let filename = format!("--filename={}", disk.path().display());
    let mut arguments = vec!["--name=x", "--direct=1", "--ioengine=libaio", &filename];
    arguments.extend(options);
    run("fio", &arguments);
}

fn count(events: &[TraceEvent], action: Action, comm: &str) -> usize {
    let of = |event: &&TraceEvent| event.action == action && event.op.is_some();
    let events = events.iter().filter(of);
    events
        .filter(|event| comm.is_empty() || event.comm == comm)
        .count()
}

/// Names of tracing instances that this process made.
fn instances() -> Vec<String> {
    tracing_instances(std::process::id())
}

/// So few that all their events fit into the smallest buffer that the recorder chooses for one processor.
const READS: usize = 1000;

fn random_reads(disk: &LoopDevice, count: usize) {
    let number = format!("--number_ios={count}");
    let random = ["--rw=randread", "--bs=4k", "--norandommap"];
    fio(disk, &[&random[..], &["--iodepth=32", &number]].concat());
}

#[test]
fn every_request_is_recorded_once_and_in_order() {
    if !can_record() {
        return;
    }
    let disk = LoopDevice::new(1 << 30);
    disk.write("scheduler", "mq-deadline");
    let (events, losses) = record(&disk, None, || random_reads(&disk, READS));
    assert_eq!((losses.events, losses.unknown), (0, 0), "{losses:?}");
    assert_eq!(count(&events, Action::Queued, "fio"), 2 * READS);
    // Whoever looks at a new device (udev) may read from it too, before the recording and after it.
    let theirs = |event: &&TraceEvent| event.action == Action::Queued && event.comm != "fio";
    let theirs: BTreeSet<Sector> = events
        .iter()
        .filter(theirs)
        .map(|event| event.start)
        .collect();
    let ours = |event: &&TraceEvent| event.action == Action::Queued && event.comm == "fio";
    let ours: BTreeSet<Sector> = events
        .iter()
        .filter(ours)
        .map(|event| event.start)
        .collect();
    let mut events = events;
    events.retain(|event| ours.contains(&event.start) && !theirs.contains(&event.start));
    let merged = count(&events, Action::BackMerged, "") + count(&events, Action::FrontMerged, "");
    let joined = count(&events, Action::RequestsMerged, "");
    let issued = count(&events, Action::Issued, "");
    assert_eq!(count(&events, Action::Queued, "") - merged - joined, issued);
    assert_eq!(count(&events, Action::Inserted, ""), issued + joined);
    assert_eq!(count(&events, Action::Completed, ""), issued);
    assert!(events.is_sorted_by_key(|event| event.time));
    assert!(
        events.iter().all(|event| event.cpu.is_some()),
        "each event names its processor"
    );
    assert_eq!(
        instances(),
        Vec::<String>::new(),
        "the recorder took its instance away"
    );
}

#[test]
fn events_for_which_there_is_no_room_are_counted_and_the_others_stay_in_order() {
    if !can_record() {
        return;
    }
    let disk = LoopDevice::new(1 << 30);
    disk.write("scheduler", "mq-deadline");
    let processors = std::thread::available_parallelism().unwrap().get();
    // Ten times as many as fit.
    let reads = 1000 * processors;
    let (events, losses) = record(&disk, Some(64), || random_reads(&disk, reads));
    assert!(losses.events > 0, "{losses:?}");
    assert_eq!(losses.unknown, 0, "{losses:?}");
    assert_eq!(events.len() as u64, losses.read);
    assert!(events.is_sorted_by_key(|event| event.time));
    // Each read, of twice as many, was queued, inserted, issued and completed, or merged: two events at least.
    assert!(
        losses.read + losses.events >= 4 * reads as u64,
        "{losses:?}"
    );
}
