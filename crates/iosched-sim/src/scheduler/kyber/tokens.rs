//! The tokens of a domain, and the hardware queues that lacked one.
//!
//! Follows the kernel's `sbitmap_queue` (Linux 6.12) as kyber uses it: who lacks a token waits in a list of
//! the domain's own; tokens that are given back while somebody waits are counted, and a batch of them
//! wakes all who wait, since those of kyber do not wait exclusively. Left out: that the woken are run
//! by workers, some microseconds later.

use crate::tags::Tags;

/// The kernel has so many lists of waiting queues and wakes for each its share of the tokens, but not
/// for more than so many.
const SHARES: u32 = 8;

#[derive(Debug, Clone)]
pub(super) struct Tokens {
    tags: Tags,
    /// Hardware queues, in the order in which they came.
    waiting: Vec<usize>,
    /// Given back while somebody waited, since somebody was woken.
    freed: u32,
}

impl Tokens {
    /// So many at most, and so many for now.
    pub(super) fn new(most: u32, depth: u32) -> Tokens {
        let mut tags = Tags::new(most);
        tags.resize(depth);
        Tokens {
            tags,
            waiting: Vec::new(),
            freed: 0,
        }
    }

    pub(super) fn depth(&self) -> u32 {
        self.tags.depth()
    }

    /// From now on there are so many; who has one above that keeps it (`sbitmap_queue_resize()`).
    pub(super) fn resize(&mut self, depth: u32) {
        self.tags.resize(depth);
    }

    /// True if there is one. If not, the hardware queue waits (`kyber_get_domain_token()`).
    pub(super) fn ask(&mut self, hardware_queue: usize) -> bool {
        let free = self.tags.ask();
        if !free && !self.waiting.contains(&hardware_queue) {
            self.waiting.push(hardware_queue);
        }
        free
    }

    /// The hardware queue gets one, if there is one, and waits no longer.
    pub(super) fn take(&mut self, hardware_queue: usize) -> Option<u32> {
        let token = self.tags.take();
        if token.is_some() {
            self.waiting.retain(|&waiting| waiting != hardware_queue);
        }
        token
    }

    /// Gives one back: says which hardware queues are to be run (`rq_clear_domain_token()`).
    pub(super) fn free(&mut self, token: u32) -> impl Iterator<Item = usize> {
        self.tags.free(token);
        let mut wakes = false;
        if !self.waiting.is_empty() {
            self.freed += 1;
            wakes = self.freed >= self.batch();
        }
        if wakes {
            self.freed -= self.batch();
        }
        let woken = if wakes { self.waiting.len() } else { 0 };
        self.waiting.drain(..woken)
    }

    /// How many have to be given back before somebody is woken.
    fn batch(&self) -> u32 {
        (self.depth() / SHARES).clamp(1, SHARES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All tokens of this many, taken by hardware queue 0.
    fn taken(depth: u32) -> Tokens {
        let mut tokens = Tokens::new(256, depth);
        for _ in 0..depth {
            assert!(tokens.ask(0) && tokens.take(0).is_some());
        }
        tokens
    }

    fn free(tokens: &mut Tokens, token: u32) -> Vec<usize> {
        tokens.free(token).collect()
    }

    #[test]
    fn a_batch_of_tokens_wakes_all_who_wait() {
        let mut tokens = taken(32); // batches of 4
        assert_eq!(free(&mut tokens, 0), [0; 0], "nobody waits");
        assert!(tokens.take(0).is_some());
        assert!(!tokens.ask(2) && !tokens.ask(1) && !tokens.ask(2));
        for token in 1..4 {
            assert_eq!(free(&mut tokens, token), [0; 0]);
        }
        assert_eq!(free(&mut tokens, 4), [2, 1]);
        assert_eq!(free(&mut tokens, 5), [0; 0], "nobody waits any more");
    }

    #[test]
    fn who_gets_a_token_in_the_meantime_waits_no_longer() {
        let mut tokens = taken(16); // batches of 2
        assert!(!tokens.ask(0) && !tokens.ask(1));
        assert_eq!(free(&mut tokens, 3), [0; 0]);
        assert_eq!(tokens.take(0), Some(3));
        assert_eq!(free(&mut tokens, 7), [1], "the one before counts");
    }

    #[test]
    fn with_few_tokens_each_wakes() {
        for depth in 1..16 {
            let mut tokens = taken(depth);
            assert!(!tokens.ask(0));
            assert_eq!(free(&mut tokens, 0), [0]);
        }
    }
}
