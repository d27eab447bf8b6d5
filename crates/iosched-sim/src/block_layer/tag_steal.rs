//! How often a process that is woken for a tag loses it to another one.
//!
//! The process whose request freed the tag is woken just before. Which of the two runs first depends on
//! where the kernel's process scheduler puts them and on other processes: if the waiter's processor is
//! idle and has to leave a sleep state, the waiter is nearly always late; if both share a processor, the
//! waiter is credited with the time that it waited, and runs sooner the next time. None of this is
//! simulated. How often it happens is a parameter of the run.

use crate::units::{Nanos, Time};

/// The shares of tags that another process takes first, in each part of a run. By default none, as where all have a
/// processor.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TagSteal {
    /// How long each part of the run is; the last has no end. All is the first one if it is zero.
    pub part: Nanos,
    /// In each part of the run (what else the machine has to do changes): the shares, from 0 to 1, of
    /// tags that went to the process that had given them back, though another was woken for them; by
    /// how often that one [had been woken without finding a tag](TagSteal::sort).
    pub shares: [[f64; TagSteal::SORTS]; TagSteal::PARTS],
}

impl TagSteal {
    /// Parts of a run.
    pub const PARTS: usize = 8;

    /// Sorts of those who are woken.
    pub const SORTS: usize = 4;

    /// As often at all times.
    pub fn steadily(shares: [f64; TagSteal::SORTS]) -> TagSteal {
        TagSteal {
            part: Nanos::ZERO,
            shares: [shares; TagSteal::PARTS],
        }
    }

    /// The sort of a process that was woken so often without finding a tag: not yet, once, two
    /// or three times, more often.
    pub fn sort(failed_wakes: u32) -> usize {
        match failed_wakes {
            0 => 0,
            1 => 1,
            2 | 3 => 2,
            _ => 3,
        }
    }

    /// The part of the run at this time.
    pub fn part_at(part: Nanos, time: Time) -> usize {
        let number = time.as_nanos().checked_div(part.as_nanos());
        usize::try_from(number.unwrap_or(0)).map_or(0, |number| number.min(TagSteal::PARTS - 1))
    }

    /// For one who was woken so often without finding a tag.
    pub(super) fn at(&self, time: Time, failed_wakes: u32) -> f64 {
        self.shares[TagSteal::part_at(self.part, time)][TagSteal::sort(failed_wakes)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As percent.
    fn at(tag_steal: &TagSteal, secs: u64, failed_wakes: u32) -> String {
        let time = Time::ZERO + Nanos::from_secs(secs);
        format!("{:.0}", 100.0 * tag_steal.at(time, failed_wakes))
    }

    #[test]
    fn each_part_has_its_share_and_the_last_has_no_end() {
        let mut tag_steal = TagSteal {
            part: Nanos::from_secs(2),
            ..TagSteal::default()
        };
        (tag_steal.shares[1][0], tag_steal.shares[7][0]) = (0.5, 1.0);
        let found = [0, 1, 2, 3, 4, 14, 500].map(|secs| at(&tag_steal, secs, 0));
        assert_eq!(found, ["0", "0", "50", "50", "0", "100", "100"]);
    }

    #[test]
    fn who_was_woken_and_found_no_tag_has_a_share_of_its_own() {
        let tag_steal = TagSteal::steadily([0.1, 0.2, 0.3, 0.4]);
        let found = [0, 1, 2, 3, 4, 1000].map(|failed_wakes| at(&tag_steal, 9, failed_wakes));
        assert_eq!(found, ["10", "20", "30", "30", "40", "40"]);
    }
}
