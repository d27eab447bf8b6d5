//! Work that is done on all processors, or by this thread alone where no other can be started.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does what `one` does for each number below `count`; the results are in their order.
pub(crate) fn each<T: Send>(count: usize, one: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, Into::into);
    each_on(threads, count, one)
}

/// The same on so many threads.
pub(crate) fn each_on<T: Send>(
    threads: usize,
    count: usize,
    one: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let result = one(number);
            done.lock()
                .expect("nobody panics holding it")
                .push((number, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            let _ = thread::Builder::new().spawn_scoped(scope, work); // what cannot be started is done here
        }
        work();
    });
    let mut done = done.into_inner().expect("nobody panics holding it");
    done.sort_by_key(|&(number, _)| number);
    done.into_iter().map(|(_, result)| result).collect()
}
