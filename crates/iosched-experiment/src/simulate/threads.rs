//! Work that is done on all processors, or one after the other where no thread can be started.

use rayon::prelude::*;

/// Does what `one` does for each number below `count`; the results are in their order.
pub(crate) fn each<T: Send>(count: usize, one: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
    match rayon::ThreadPoolBuilder::new().build() {
        Ok(threads) => threads.install(|| (0..count).into_par_iter().map(one).collect()),
        Err(_) => (0..count).map(one).collect(),
    }
}
