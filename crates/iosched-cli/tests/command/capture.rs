//! The recorder of block events on real loop devices: nothing lost, nothing left behind.
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{LoopDevice, can_trace, can_use_loop_devices, has_fio, run, tracing_instances};
use iosched::capture::{self, Losses, Recorder};
use iosched::host::Host;
use iosched_sim::trace::kernel::{Action, Event, Line};

/// True if block events can be recorded; says why not otherwise.
fn can_record() -> bool {
    can_use_loop_devices() && has_fio() && can_trace()
}

/// What happened on the disk while this was done.
fn record(disk: &LoopDevice, work: impl FnOnce()) -> (Vec<Event>, Losses) {
    let number = capture::device_number(&Host::live(), &disk.name).unwrap();
    let mut recorder = Recorder::start(number, &capture::EVENTS).unwrap();
    let done = AtomicBool::new(false);
    let mut lines = Vec::new();
    let recorder = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                recorder.drain(&mut lines).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            recorder
        });
        work();
        done.store(true, Ordering::SeqCst);
        reader.join().unwrap()
    });
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

fn count(events: &[Event], action: Action, comm: &str) -> usize {
    let of = |event: &&Event| event.action == action && event.op.is_some();
    let events = events.iter().filter(of);
    events
        .filter(|event| comm.is_empty() || event.comm == comm)
        .count()
}

/// Names of tracing instances that this process made.
fn instances() -> Vec<String> {
    tracing_instances(std::process::id())
}

/// A third of a million events and more.
const READS: usize = 100_000;

#[test]
fn every_request_of_a_fast_load_is_recorded_once_and_in_order() {
    if !can_record() {
        return;
    }
    let disk = LoopDevice::new(1 << 30);
    disk.write("scheduler", "mq-deadline");
    let (events, losses) = record(&disk, || {
        let number = format!("--number_ios={READS}");
        fio(
            &disk,
            &[
                "--rw=randread",
                "--bs=4k",
                "--iodepth=32",
                "--norandommap",
                &number,
            ],
        );
    });
    assert_eq!((losses.events, losses.unknown), (0, 0), "{losses:?}");
    let fios = |action| count(&events, action, "fio");
    assert_eq!(fios(Action::Queued), READS);
    // Whoever looks at a device that was written to (udev) may read from it too.
    let merged = count(&events, Action::BackMerged, "") + count(&events, Action::FrontMerged, "");
    let joined = count(&events, Action::Joined, "");
    let issued = count(&events, Action::Issued, "");
    assert_eq!(count(&events, Action::Queued, "") - merged - joined, issued);
    assert_eq!(count(&events, Action::Inserted, ""), issued + joined);
    assert_eq!(count(&events, Action::Completed, ""), issued);
    assert!(events.is_sorted_by_key(|event| event.time));
    let processors: std::collections::BTreeSet<_> = events.iter().map(|event| event.cpu).collect();
    assert!(
        !processors.contains(&None),
        "each event names its processor"
    );
    assert_eq!(
        instances(),
        Vec::<String>::new(),
        "the recorder took its instance away"
    );
}

#[test]
fn priorities_and_other_disks_are_told_apart() {
    if !can_record() {
        return;
    }
    let (disk, other) = (LoopDevice::new(1 << 28), LoopDevice::new(1 << 28));
    disk.write("scheduler", "mq-deadline");
    let (events, losses) = record(&disk, || {
        let few = ["--rw=randwrite", "--bs=8k", "--number_ios=50"];
        fio(&disk, &[&few[..], &["--prioclass=1", "--prio=3"]].concat());
        fio(&other, &["--rw=write", "--bs=64k", "--number_ios=50"]);
    });
    assert_eq!(losses.events, 0);
    let inserted = events
        .iter()
        .filter(|event| event.action == Action::Inserted);
    let writes: Vec<_> = inserted.filter(|event| event.comm == "fio").collect();
    assert!(!writes.is_empty() && writes.len() <= 50, "{}", writes.len());
    for write in writes {
        assert_eq!(write.op, Some(iosched_sim::request::Op::Write));
        assert!(write.sync, "past the page cache, somebody waits");
        let priority = write.priority.unwrap();
        assert_eq!(
            priority.class,
            iosched_sim::request::PriorityClass::RealTime
        );
        assert_eq!(priority.level, 3);
    }
}

#[test]
fn a_recorder_that_was_killed_leaves_its_instance_to_the_next_and_no_longer() {
    if !can_record() {
        return;
    }
    // An instance of a process that is gone: no pid is as large.
    let make = |command: &str| {
        let script = format!(
            "mount -t tracefs tracefs /sys/kernel/tracing; cd /sys/kernel/tracing/instances; {command}"
        );
        let arguments = ["--mount", "sh", "-c", &script];
        String::from_utf8(run("unshare", &arguments).stdout).unwrap()
    };
    make("mkdir iosched-4194999-1-0 iosched-mine");
    let removed = capture::remove_remains(&Host::live());
    let left = make("ls; rmdir iosched-mine");
    assert!(
        removed.contains(&"iosched-4194999-1-0".to_owned()),
        "{removed:?}"
    );
    assert!(!left.contains("iosched-4194999-1-0"), "{left}");
    assert!(left.contains("iosched-mine"), "{left}");
}
