//! Processes by their numbers, in a fixed number of places: block layer and scheduler know them by these.
//!
//! A place goes from a process to another once nothing of it is on its way; where all are taken, the one
//! that has asked for nothing for longest has to go. Where none can go, a newcomer counts as unknown.

use std::collections::BTreeMap;

/// A place that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) place: usize,
    /// The place had a process that has to end first.
    pub(super) instead_of: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Askers {
    /// Place and turn of each process.
    known: BTreeMap<u32, (usize, u64)>,
    /// Places that no process has, the next last.
    free: Vec<usize>,
    turn: u64,
}

impl Askers {
    /// So many places; the first is that of all who are not known.
    pub(super) fn new(places: usize) -> Askers {
        Askers {
            known: BTreeMap::new(),
            free: (1..places).rev().collect(),
            turn: 0,
        }
    }

    /// The place of a process. `is_idle`: nothing of who has it is on its way.
    pub(super) fn find(&mut self, process: u32, is_idle: impl Fn(usize) -> bool) -> Found {
        self.turn += 1;
        let turn = self.turn;
        if process == 0 {
            return Found::here(0);
        }
        if let Some((place, asked)) = self.known.get_mut(&process) {
            *asked = turn;
            return Found::here(*place);
        }
        if let Some(free) = self.free.iter().rposition(|&place| is_idle(place)) {
            let place = self.free.remove(free);
            self.known.insert(process, (place, turn));
            return Found::here(place);
        }
        let idle = self.known.iter().filter(|(_, (place, _))| is_idle(*place));
        let oldest = idle.min_by_key(|(_, (_, asked))| *asked);
        let Some((&gone, &(place, _))) = oldest else {
            return Found::here(0);
        };
        self.known.remove(&gone);
        self.known.insert(process, (place, turn));
        Found {
            place,
            instead_of: Some(place),
        }
    }

    /// The process ended: its place, if it had one.
    pub(super) fn leave(&mut self, process: u32) -> Option<usize> {
        let (place, _) = self.known.remove(&process)?;
        self.free.push(place);
        Some(place)
    }
}

impl Found {
    fn here(place: usize) -> Found {
        Found {
            place,
            instead_of: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_goes_to_another_process_once_its_own_has_nothing_on_its_way() {
        let mut askers = Askers::new(3);
        let all_idle = |_: usize| true;
        assert_eq!(askers.find(0, all_idle), Found::here(0));
        assert_eq!(askers.find(70, all_idle), Found::here(1));
        assert_eq!(askers.find(71, all_idle), Found::here(2));
        assert_eq!(askers.find(70, all_idle), Found::here(1));
        // The one that asked longest ago goes, unless something of it is on its way.
        assert_eq!(
            askers.find(72, |place| place != 2),
            Found {
                place: 1,
                instead_of: Some(1)
            }
        );
        assert_eq!(askers.find(73, |_| false), Found::here(0), "nobody can go");
        assert_eq!(askers.leave(72), Some(1));
        assert_eq!(askers.leave(72), None);
        assert_eq!(
            askers.find(74, |_| false),
            Found::here(0),
            "of who left something is on its way"
        );
        assert_eq!(askers.find(74, all_idle), Found::here(1));
    }
}
