//! Questions about processes that may never be answered: the kernel reads a process' environment and its mappings with
//! that process' memory locked, and who has mapped a file there whose server does not answer keeps everybody waiting.

use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::Stop;

/// How long one answer is waited for; once we are asked to stop, a shorter time: who is asked then may be a load's.
const FOR_EACH: Duration = Duration::from_secs(5);
const IN_A_HURRY: Duration = Duration::from_secs(1);

/// How long all answers together are waited for: many may come just in time.
const FOR_ALL: Duration = Duration::from_secs(60);

/// So many answers that do not come are waited for.
const MOST_UNANSWERED: usize = 10;

const TICK: Duration = Duration::from_millis(50);

/// Set by the signals of this process, of which those who ask deep below know nothing.
static STOP: OnceLock<Stop> = OnceLock::new();

/// Once this is asked to stop, nobody is waited for patiently any more. The first of a process holds.
pub fn hurry_on(stop: &Stop) {
    let _ = STOP.set(stop.clone());
}

/// Asks each question, one after the other, and gives the answers in their order; none of what is not answered in time,
/// nor of what was not asked any more. The thread that asked what is not answered stays behind, and ends with us.
pub(crate) fn ask_each<Q, A>(
    questions: &[Q],
    ask: impl FnMut(&Q) -> A + Clone + Send + 'static,
) -> Vec<Option<A>>
where
    Q: Clone + Send + 'static,
    A: Send + 'static,
{
    let end = Instant::now() + FOR_ALL;
    let mut answers = Vec::new();
    let mut unanswered = 0;
    while answers.len() < questions.len() && unanswered < MOST_UNANSWERED && Instant::now() < end {
        let (sender, receiver) = mpsc::channel();
        let (rest, mut ask) = (questions[answers.len()..].to_vec(), ask.clone());
        let asking = move || {
            rest.iter()
                .all(|question| sender.send(ask(question)).is_ok())
        };
        if std::thread::Builder::new().spawn(asking).is_err() {
            break;
        }
        while let Some(answer) = next(&receiver, end) {
            answers.push(Some(answer));
        }
        if answers.len() < questions.len() {
            answers.push(None);
            unanswered += 1;
        }
    }
    answers.resize_with(questions.len(), || None);
    answers
}

/// The next answer; none if it does not come in time, or all have come.
fn next<A>(receiver: &Receiver<A>, end: Instant) -> Option<A> {
    let begun = Instant::now();
    loop {
        let is_hurried = STOP.get().is_some_and(Stop::is_asked);
        let limit = if is_hurried { IN_A_HURRY } else { FOR_EACH };
        match receiver.recv_timeout(TICK) {
            Ok(answer) => return Some(answer),
            Err(RecvTimeoutError::Timeout) if begun.elapsed() < limit && Instant::now() < end => {}
            Err(_) => return None,
        }
    }
}

/// Asks what may never be answered; none if it is not answered in time. The thread that asked stays behind, and ends with
/// us.
pub fn ask_patiently<A: Send + 'static>(ask: impl FnOnce() -> A + Send + 'static) -> Option<A> {
    let (sender, receiver) = mpsc::channel();
    let asking = move || sender.send(ask()).is_ok(); // it may be too late
    std::thread::Builder::new().spawn(asking).ok()?;
    next(&receiver, Instant::now() + FOR_EACH)
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
        let answers = ask_each(&[1, 2, 3], move |&number| {
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
        let stop = Stop::new();
        hurry_on(&stop);
        stop.ask(); // for this test's sake
        let held = Arc::new(Mutex::new(()));
        let ours = held.lock();
        let hangs = Arc::clone(&held);
        let questions: Vec<usize> = (0..100).collect();
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let answers = ask_each(&questions, move |_| {
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
