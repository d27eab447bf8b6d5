//! Which of the programs given to the dies are on the medium, and the commands that wait for it: flushes, and
//! writes that are to be durable before they complete. Each waits for the programs that were given before it.

use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Durability {
    /// Programs given to the dies.
    given: u64,
    /// The first that is not on the medium.
    oldest: u64,
    /// From that on: which are.
    ended: VecDeque<bool>,
    /// Slots of commands, each with the number of programs given before; in order of that number.
    waiting: VecDeque<(u64, usize)>,
}

impl Durability {
    /// The number of a program that is given to a die now.
    pub(super) fn begin_program(&mut self) -> u64 {
        let number = self.given;
        self.given += 1;
        self.ended.push_back(false);
        number
    }

    /// This program is on the medium.
    pub(super) fn end_program(&mut self, number: u64) {
        let place = usize::try_from(number - self.oldest).expect("as many as fit into memory");
        self.ended[place] = true;
        while self.ended.front() == Some(&true) {
            self.ended.pop_front();
            self.oldest += 1;
        }
    }

    /// All programs given so far are on the medium.
    pub(super) fn is_clean(&self) -> bool {
        self.oldest == self.given
    }

    /// The command in this slot waits for all programs given so far.
    pub(super) fn wait(&mut self, slot: usize) {
        self.waiting.push_back((self.given, slot));
    }

    /// A command that need not wait any more.
    pub(super) fn next_durable(&mut self) -> Option<usize> {
        let &(given, slot) = self.waiting.front()?;
        (given <= self.oldest).then(|| {
            self.waiting.pop_front();
            slot
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_waits_for_the_programs_before_it_in_whichever_order_they_end() {
        let mut durability = Durability::default();
        assert!(durability.is_clean());
        let [first, second] = [(); 2].map(|()| durability.begin_program());
        durability.wait(7);
        let third = durability.begin_program();
        durability.wait(8);
        durability.end_program(second);
        assert_eq!(durability.next_durable(), None);
        durability.end_program(first);
        assert_eq!(durability.next_durable(), Some(7));
        assert_eq!(durability.next_durable(), None);
        durability.end_program(third);
        assert_eq!(durability.next_durable(), Some(8));
        assert!(durability.is_clean());
    }
}
