//! Questions about processes that may never be answered: the kernel reads a process' environment and its mappings with
//! that process' memory locked, and who has mapped a file there whose server does not answer keeps everybody waiting.

use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{Stop, TICK};

/// How long is waited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For one answer.
    each: Duration,
    /// For all together: many may come just in time.
    all: Duration,
}

/// What processes are asked with.
pub(crate) const PATIENCE: Patience = Patience {
    each: Duration::from_secs(5),
    all: Duration::from_secs(60),
};

/// What is left of it once we are asked to stop. Not nothing: whom a load left running is asked for then.
const HURRY: Patience = Patience {
    each: Duration::from_secs(1),
    all: Duration::from_secs(10),
};

/// So many answers that do not come are waited for.
const MOST_UNANSWERED: usize = 10;

/// Set by the signals of this process, of which those who ask deep below know nothing.
static STOP: OnceLock<Stop> = OnceLock::new();

/// Once this is asked to stop, nobody is waited for patiently any more. The first of a process holds. What puts things
/// back forgets the stop, and is patient again until somebody asks once more: who is asked then may be a load's.
pub fn hurry_on(stop: &Stop) {
    let _ = STOP.set(stop.clone());
}

impl Patience {
    /// Asks each question, one after the other, and gives the answers in their order; none of what is not answered in time,
    /// nor of what was not asked any more. The thread that asked what is not answered stays behind, and ends with us.
    pub(crate) fn ask_each<Q, A>(
        self,
        questions: &[Q],
        ask: impl FnMut(&Q) -> A + Clone + Send + 'static,
    ) -> Vec<Option<A>>
    where
        Q: Clone + Send + 'static,
        A: Send + 'static,
    {
        let stop = STOP.get().cloned().unwrap_or_default();
        self.ask_each_until(&stop, questions, ask)
    }

    fn ask_each_until<Q, A>(
        self,
        stop: &Stop,
        questions: &[Q],
        ask: impl FnMut(&Q) -> A + Clone + Send + 'static,
    ) -> Vec<Option<A>>
    where
        Q: Clone + Send + 'static,
        A: Send + 'static,
    {
        let mut waiting = Waiting::new(self, stop);
        let mut answers = Vec::new();
        let mut unanswered = 0;
        while answers.len() < questions.len() && unanswered < MOST_UNANSWERED && !waiting.is_over()
        {
            let (sender, receiver) = mpsc::channel();
            let (rest, mut ask) = (questions[answers.len()..].to_vec(), ask.clone());
            let asking = move || {
                for question in &rest {
                    if sender.send(ask(question)).is_err() {
                        return;
                    }
                }
            };
            if std::thread::Builder::new().spawn(asking).is_err() {
                break;
            }
            while let Some(answer) = waiting.next(&receiver) {
                answers.push(Some(answer));
                if waiting.is_over() {
                    break;
                }
            }
            if answers.len() < questions.len() {
                answers.push(None);
                unanswered += 1;
            }
        }
        answers.resize_with(questions.len(), || None);
        answers
    }
}

/// How long is still waited.
struct Waiting<'a> {
    patience: Patience,
    stop: &'a Stop,
    /// Since when that is its time.
    since: Instant,
    is_hurried: bool,
}

impl<'a> Waiting<'a> {
    fn new(patience: Patience, stop: &'a Stop) -> Waiting<'a> {
        Waiting {
            patience,
            stop,
            since: Instant::now(),
            is_hurried: false,
        }
    }

    fn is_over(&mut self) -> bool {
        if self.stop.is_asked() && !self.is_hurried {
            self.is_hurried = true;
            self.patience = HURRY;
            self.since = Instant::now();
        }
        self.since.elapsed() >= self.patience.all
    }

    /// The next answer; none if it does not come in time, or all have come.
    fn next<A>(&mut self, receiver: &Receiver<A>) -> Option<A> {
        let begin = Instant::now();
        loop {
            match receiver.recv_timeout(TICK.min(self.patience.each)) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    if self.is_over() || begin.elapsed() >= self.patience.each {
                        return None;
                    }
                }
            }
        }
    }
}

/// Asks what may never be answered; none if it is not answered in time. The thread that asked stays behind, and ends with
/// us.
pub fn ask_patiently<A: Send + 'static>(ask: impl FnOnce() -> A + Send + 'static) -> Option<A> {
    let (sender, receiver) = mpsc::channel();
    let asking = move || {
        let _ = sender.send(ask()); // it may be too late
    };
    std::thread::Builder::new().spawn(asking).ok()?;
    let stop = STOP.get().cloned().unwrap_or_default();
    Waiting::new(PATIENCE, &stop).next(&receiver)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn what_is_not_answered_keeps_no_other_from_being_asked() {
        // Held by us until the end: who asks for it waits.
        let held = Arc::new(Mutex::new(()));
        let ours = held.lock();
        let hangs = Arc::clone(&held);
        let answers = PATIENCE.ask_each(&[1, 2, 3], move |&number| {
            if number == 2 {
                drop(hangs.lock());
            }
            10 * number
        });
        assert_eq!(answers, [Some(10), None, Some(30)]);
        drop(ours);
    }

    /// Without the stop this does not end.
    #[test]
    fn who_asks_us_to_stop_does_not_wait_for_what_is_never_answered() {
        let held = Arc::new(Mutex::new(()));
        let ours = held.lock();
        let hangs = Arc::clone(&held);
        let day = Duration::from_secs(24 * 3600);
        let endless = Patience {
            each: day,
            all: day,
        };
        let stop = Stop::new();
        let asks = stop.clone();
        let answers = endless.ask_each_until(&stop, &[1, 2, 3], move |&number| {
            if number == 2 {
                asks.ask();
                drop(hangs.lock());
            }
            10 * number
        });
        assert_eq!(answers, [Some(10), None, Some(30)]);
        drop(ours);
    }

    #[test]
    fn after_many_that_are_not_answered_nobody_else_is_asked() {
        let held = Arc::new(Mutex::new(()));
        let ours = held.lock();
        let hangs = Arc::clone(&held);
        let questions: Vec<usize> = (0..100).collect();
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let hasty = Patience {
            each: Duration::from_millis(10),
            ..PATIENCE
        };
        let answers = hasty.ask_each(&questions, move |_| {
            *count.lock().unwrap() += 1;
            drop(hangs.lock());
        });
        assert_eq!(answers.len(), 100);
        assert!(answers.iter().all(Option::is_none));
        // One that was given up may not even have begun.
        assert!(*asked.lock().unwrap() <= MOST_UNANSWERED);
        drop(ours);
    }
}
