//! Simulated requests cost no allocation: once a run has grown to what it holds at a time, ten times
//! as many requests take the same memory.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it should be"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use iosched_sim::disk::{self, ModelOptions};
use iosched_sim::scheduler::{Kernel, SchedulerSpec, build, schedulers};
use iosched_sim::simulate::{ProcessOutcome, Setup, run};
use iosched_sim::workload::fio_job;

/// Counts what this thread allocates.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending no longer has its counter.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: hands every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of a run of this many accesses, from before its first to after its last event.
fn allocations(load: &str, scheduler: &str, disk: &str, accesses: u64) -> u64 {
    let disk = disk::build(disk, &ModelOptions::default()).unwrap();
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    let mut jobs = fio_job::parse(load, disk.capacity()).unwrap();
    let count = jobs.len() as u64;
    for job in &mut jobs {
        job.amount = Some(job.read_sizes.least().to_bytes() * (accesses / count));
    }
    let scheduler = build(&spec, &Kernel::default(), &Vec::new()).unwrap();
    let setup = Setup {
        queue_depth: 4,
        ..Setup::new(scheduler, disk, jobs)
    };
    let before = ALLOCATIONS.get();
    let outcome = run(setup, &mut ());
    let done: u64 = outcome.processes.iter().map(ProcessOutcome::accesses).sum();
    assert!(done >= accesses / count * count);
    ALLOCATIONS.get() - before
}

/// Merging, plugs, several processes, more in flight than there are requests.
const LOADS: [&str; 3] = [
    "[r]\nrw=randread\ndirect=1\nioengine=libaio\nbs=4k\niodepth=32\ntime_based\n",
    "[global]\nbs=4k\ntime_based\n[a]\nrw=read\ndirect=1\nioengine=libaio\niodepth=16\niodepth_batch=8\n[b]\nrw=randrw\ndirect=1\nioengine=libaio\n\
     iodepth=200\n[c]\nrw=randread\ndirect=1\nioengine=libaio\nnumjobs=4\noffset=50%\n",
    "[global]\nrw=read\ndirect=1\nioengine=libaio\nbs=4k\ntime_based\n[one]\n[other]\noffset=1m\n[third]\nrw=randread\ndirect=1\nioengine=libaio\n",
];

#[test]
fn no_scheduler_allocates_for_a_request() {
    for scheduler in schedulers() {
        for (number, load) in LOADS.iter().enumerate() {
            let short = allocations(load, scheduler.facts.name, "fixed", 10_000);
            let long = allocations(load, scheduler.facts.name, "fixed", 30_000);
            // Growth to the longest queue comes late now and then; 20 000 requests do not.
            assert!(
                long <= short + 16,
                "{}, load {number}: {short} allocations for 10 000 requests, {long} for 30 000",
                scheduler.facts.name
            );
        }
    }
}
