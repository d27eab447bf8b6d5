//! Whether we are to stop: read by every loop that waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Whether we are to stop, because the user wants it (set by a signal handler) or because the time for what we do is over.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Stop {
    /// Nobody wants us to stop.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// The same, and at this moment at the latest.
    #[must_use]
    pub fn at(&self, deadline: Option<Instant>) -> Stop {
        Stop {
            asked: self.flag(),
            deadline,
        }
    }

    /// The flag itself, for a signal handler to set.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// Asks every waiting loop to stop.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }

    /// Asks when what is returned goes, however that comes: what has begun beside then ends, and who waits for it goes on.
    #[must_use]
    pub fn ask_at_end(&self) -> AskAtEnd<'_> {
        AskAtEnd(self)
    }

    /// Nobody wants us to stop any more: what puts things back goes on until somebody asks again.
    pub fn forget(&self) {
        self.asked.store(false, Ordering::SeqCst);
    }

    /// True once somebody asked, or the time is over.
    pub fn is_wanted(&self) -> bool {
        self.is_asked() || self.deadline.is_some_and(|at| Instant::now() >= at)
    }

    /// True once somebody asked.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Asks for the end when it goes.
#[derive(Debug)]
pub struct AskAtEnd<'a>(&'a Stop);

impl Drop for AskAtEnd<'_> {
    fn drop(&mut self) {
        self.0.ask();
    }
}
