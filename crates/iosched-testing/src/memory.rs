//! How much memory a piece of work takes: an allocator that counts, for programs that test bounds.
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOCATOR: iosched_testing::memory::Counting = iosched_testing::memory::Counting;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated and not given back; what another thread allocated counts when it is
    /// given back here, so it may be negative.
    static NOW: Cell<isize> = const { Cell::new(0) };
    /// The most that it was.
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, with an account for each thread.
#[derive(Debug)]
pub struct Counting;

fn count(bytes: isize) {
    // A thread that ends has no account any more.
    let _ = NOW.try_with(|now| {
        now.set(now.get().wrapping_add(bytes));
        let _ = MOST.try_with(|most| most.set(most.get().max(now.get())));
    });
}

#[expect(
    clippy::cast_possible_wrap,
    reason = "no allocation is larger than isize::MAX"
)]
fn signed(bytes: usize) -> isize {
    bytes as isize
}

// SAFETY: every call is passed on to the system's allocator as it came; what is counted besides allocates nothing,
// because a thread-local `Cell` with a constant has no destructor and is not initialised on first use.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: as above; the place is one that the system gave.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size) - signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}

/// The most memory that this thread had more than before, while it did the work: 0 unless [`Counting`] is the
/// program's allocator.
pub fn most_during(work: impl FnOnce()) -> usize {
    let before = NOW.get();
    MOST.set(before);
    work();
    (MOST.get() - before).max(0).unsigned_abs()
}
