//! Questions about processes that may never be answered: the kernel reads a process' environment and its mappings with
//! that process' memory locked, and who has mapped a file there whose server does not answer keeps everybody waiting.

use std::sync::mpsc;
use std::time::{Duration, Instant};

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

/// So many answers that do not come are waited for.
const MOST_UNANSWERED: usize = 10;

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
        let deadline = Instant::now() + self.all;
        let is_over = || Instant::now() >= deadline;
        let mut answers = Vec::new();
        let mut unanswered = 0;
        while answers.len() < questions.len() && unanswered < MOST_UNANSWERED && !is_over() {
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
            while let Ok(answer) = receiver.recv_timeout(self.each) {
                answers.push(Some(answer));
                if is_over() {
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
