//! Where the members have what: chunks, copies and parity.
//!
//! RAID 5 and 6 rotate parity as Linux's md does by default (left-symmetric, `drivers/md/raid5.c`): the
//! parity of row r stands on member n-1-(r mod n), the data begin behind it. RAID 10 is pairs of
//! mirrors in stripes (md's *near 2*).

use serde::Deserialize;

use crate::units::{Sector, Sectors};

/// How the members of an array share its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Stripes: each chunk on one member. One member: itself.
    Raid0,
    /// All members have all data.
    Raid1,
    /// Stripes with one chunk of parity in each row.
    Raid5,
    /// Stripes with two chunks of parity in each row.
    Raid6,
    /// Stripes over pairs of mirrors.
    Raid10,
}

impl Level {
    /// The fewest members that make sense.
    pub fn least_members(self) -> usize {
        match self {
            Level::Raid0 => 1,
            Level::Raid1 => 2,
            Level::Raid5 => 3,
            Level::Raid6 | Level::Raid10 => 4,
        }
    }

    /// True if there can be so many members.
    pub fn takes(self, members: usize) -> bool {
        members >= self.least_members() && (self != Level::Raid10 || members.is_multiple_of(2))
    }

    /// How many members' worth of data so many members hold.
    pub(crate) fn data_members(self, members: usize) -> usize {
        members / self.copies(members) - self.parities()
    }

    /// On how many members each datum stands.
    pub(super) fn copies(self, members: usize) -> usize {
        match self {
            Level::Raid1 => members,
            Level::Raid10 => 2,
            Level::Raid0 | Level::Raid5 | Level::Raid6 => 1,
        }
    }

    /// Chunks of parity in each row.
    pub(super) fn parities(self) -> usize {
        match self {
            Level::Raid5 => 1,
            Level::Raid6 => 2,
            Level::Raid0 | Level::Raid1 | Level::Raid10 => 0,
        }
    }
}

/// Sectors of one member that follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// The member; the first of those that have a copy.
    pub(super) member: usize,
    pub(super) start: Sector,
    pub(super) length: Sectors,
}

/// What a write makes of the members: these are read, and when they are here those are written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WritePlan {
    pub(super) first_read: Vec<Span>,
    pub(super) then_written: Vec<Span>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    level: Level,
    members: usize,
    /// In sectors.
    chunk: u64,
}

/// A part of a command that lies in one chunk.
#[derive(Debug, Clone, Copy)]
struct Part {
    row: u64,
    /// Which of the row's data chunks.
    column: usize,
    /// Where in the chunk it begins, and ends.
    from: u64,
    to: u64,
}

impl Layout {
    pub(super) fn new(level: Level, members: usize, chunk: Sectors) -> Layout {
        assert!(level.takes(members), "{level:?} of {members} members");
        let chunk = chunk.as_u64();
        assert!(chunk > 0, "a chunk has sectors");
        Layout {
            level,
            members,
            chunk,
        }
    }

    /// On how many members each datum stands: those from a span's member on.
    pub(super) fn copies(&self) -> usize {
        self.level.copies(self.members)
    }

    /// Sectors of data in a row: what is written whole needs nothing read for its parity.
    pub(super) fn row(&self) -> Sectors {
        Sectors::new(self.chunk * self.columns())
    }

    fn columns(&self) -> u64 {
        self.level.data_members(self.members) as u64
    }

    fn parts(&self, start: Sector, length: Sectors) -> impl Iterator<Item = Part> + use<> {
        let (chunk, columns) = (self.chunk, self.columns());
        let end = start.as_u64() + length.as_u64();
        let mut at = start.as_u64();
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let number = at / chunk;
                let until = end.min((number + 1) * chunk);
                let part = Part {
                    row: number / columns,
                    column: usize::try_from(number % columns).expect("fewer than members"),
                    from: at - number * chunk,
                    to: until - number * chunk,
                };
                at = until;
                part
            })
        })
    }

    /// The member that has a row's data chunk, or the first that has it.
    fn data_member(&self, row: u64, column: usize) -> usize {
        match self.level {
            Level::Raid0 | Level::Raid1 | Level::Raid10 => column * self.copies(),
            Level::Raid5 | Level::Raid6 => {
                (self.parity_member(row) + self.level.parities() + column) % self.members
            }
        }
    }

    /// The member that has a row's first chunk of parity; the second stands on the next.
    fn parity_member(&self, row: u64) -> usize {
        let turned = usize::try_from(row % self.members as u64).expect("fewer than members");
        self.members - 1 - turned
    }

    fn span(&self, row: u64, member: usize, from: u64, to: u64) -> Span {
        Span {
            member,
            start: Sector::new(row * self.chunk + from),
            length: Sectors::new(to - from),
        }
    }

    /// What is read of which members: each from one of its copies.
    pub(super) fn reads(&self, start: Sector, length: Sectors) -> Vec<Span> {
        let mut spans = Vec::new();
        for part in self.parts(start, length) {
            let member = self.data_member(part.row, part.column);
            join(&mut spans, self.span(part.row, member, part.from, part.to));
        }
        spans
    }

    /// What a write reads and writes.
    pub(super) fn write(&self, start: Sector, length: Sectors) -> WritePlan {
        let mut plan = WritePlan::default();
        if self.level.parities() == 0 {
            for span in self.reads(start, length) {
                let copies = (0..self.copies()).map(|copy| Span {
                    member: span.member + copy,
                    ..span
                });
                plan.then_written.extend(copies);
            }
            return plan;
        }
        let mut row: Vec<Part> = Vec::new();
        for part in self.parts(start, length) {
            if row.last().is_some_and(|last| last.row != part.row) {
                self.write_row(&row, &mut plan);
                row.clear();
            }
            row.push(part);
        }
        self.write_row(&row, &mut plan);
        plan
    }

    /// A row with parity: what was there is read, or what is not written, whichever is less to do.
    fn write_row(&self, parts: &[Part], plan: &mut WritePlan) {
        let Some(&Part { row, .. }) = parts.first() else {
            return;
        };
        let from = parts.iter().map(|part| part.from).min().unwrap_or(0);
        let to = parts.iter().map(|part| part.to).max().unwrap_or(0);
        let data = |part: &Part| {
            let member = self.data_member(row, part.column);
            self.span(row, member, part.from, part.to)
        };
        let parity = (0..self.level.parities()).map(|which| {
            let member = (self.parity_member(row) + which) % self.members;
            self.span(row, member, from, to)
        });
        let parity: Vec<Span> = parity.collect();
        let of_before: Vec<Span> = parts
            .iter()
            .map(data)
            .chain(parity.iter().copied())
            .collect();
        let of_the_others = self.not_written(row, parts, from, to);
        let read = if of_the_others.len() < of_before.len() {
            &of_the_others
        } else {
            &of_before
        };
        for &span in read {
            join(&mut plan.first_read, span);
        }
        for span in parts.iter().map(data).chain(parity) {
            join(&mut plan.then_written, span);
        }
    }

    /// Of a row's data from one place in the chunks to another, what these parts leave.
    fn not_written(&self, row: u64, parts: &[Part], from: u64, to: u64) -> Vec<Span> {
        let mut left = Vec::new();
        for column in 0..self.level.data_members(self.members) {
            let member = self.data_member(row, column);
            let written = parts.iter().find(|part| part.column == column);
            let (begins, ends) = written.map_or((to, to), |part| (part.from, part.to));
            for (from, to) in [(from, begins), (ends, to)] {
                if from < to {
                    left.push(self.span(row, member, from, to));
                }
            }
        }
        left
    }
}

/// Adds a span, to the member's last one if it goes on there.
fn join(spans: &mut Vec<Span>, span: Span) {
    let last = spans
        .iter_mut()
        .rev()
        .find(|last| last.member == span.member);
    match last {
        Some(last) if last.start + last.length == span.start => last.length += span.length,
        _ => spans.push(span),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout(level: Level, members: usize) -> Layout {
        Layout::new(level, members, Sectors::new(8))
    }

    fn tell(spans: &[Span]) -> Vec<(usize, u64, u64)> {
        let each = spans.iter();
        each.map(|span| (span.member, span.start.as_u64(), span.length.as_u64()))
            .collect()
    }

    fn write(layout: &Layout, start: u64, length: u64) -> [Vec<(usize, u64, u64)>; 2] {
        let plan = layout.write(Sector::new(start), Sectors::new(length));
        [tell(&plan.first_read), tell(&plan.then_written)]
    }

    #[test]
    fn stripes_go_from_member_to_member_and_what_follows_on_a_member_is_one_command() {
        let striped = layout(Level::Raid0, 3);
        let spans = striped.reads(Sector::new(4), Sectors::new(36));
        assert_eq!(tell(&spans), [(0, 4, 12), (1, 0, 16), (2, 0, 8)]);
    }

    #[test]
    fn a_small_write_reads_two_and_writes_two_with_one_parity_and_three_with_two() {
        let [read, written] = write(&layout(Level::Raid5, 5), 2, 4);
        assert_eq!(read, [(0, 2, 4), (4, 2, 4)]);
        assert_eq!(written, [(0, 2, 4), (4, 2, 4)]);
        let [read, written] = write(&layout(Level::Raid6, 6), 2, 4);
        assert_eq!(read, [(1, 2, 4), (5, 2, 4), (0, 2, 4)]);
        assert_eq!(written, read);
    }

    #[test]
    fn a_whole_row_is_written_with_its_parity_and_nothing_is_read() {
        let [read, written] = write(&layout(Level::Raid5, 4), 0, 24);
        assert_eq!(read, []);
        assert_eq!(written, [(0, 0, 8), (1, 0, 8), (2, 0, 8), (3, 0, 8)]);
    }

    #[test]
    fn of_a_nearly_whole_row_the_rest_is_read() {
        let [read, _] = write(&layout(Level::Raid5, 5), 0, 24);
        assert_eq!(read, [(3, 0, 8)]);
    }

    #[test]
    fn parity_turns_as_in_md() {
        let layout = layout(Level::Raid5, 3);
        let parity: Vec<usize> = (0..4).map(|row| layout.parity_member(row)).collect();
        assert_eq!(parity, [2, 1, 0, 2]);
        let second_row = layout.reads(Sector::new(16), Sectors::new(16));
        assert_eq!(tell(&second_row), [(2, 8, 8), (0, 8, 8)]);
    }

    fn any_layout() -> impl Strategy<Value = (Level, usize)> {
        let level = prop::sample::select(vec![
            Level::Raid0,
            Level::Raid1,
            Level::Raid5,
            Level::Raid6,
            Level::Raid10,
        ]);
        (level, 1..9_usize).prop_filter("takes", |(level, members)| level.takes(*members))
    }

    proptest! {
        /// No two data share a sector of a member, and none lies where a row's parity does.
        #[test]
        fn each_sector_has_a_place_of_its_own((level, members) in any_layout(), rows in 1..6_u64) {
            let layout = layout(level, members);
            let mut seen = std::collections::BTreeSet::new();
            for sector in 0..rows * layout.row().as_u64() {
                let spans = layout.reads(Sector::new(sector), Sectors::new(1));
                prop_assert_eq!(spans.len(), 1);
                let row = spans[0].start.as_u64() / 8;
                for copy in 0..layout.copies() {
                    let member = spans[0].member + copy;
                    prop_assert!(member < members);
                    prop_assert!(seen.insert((member, spans[0].start)));
                    for which in 0..level.parities() {
                        prop_assert_ne!(member, (layout.parity_member(row) + which) % members);
                    }
                }
            }
        }

        /// Each sector written is written on each of its copies, once, and so much parity as the
        /// longest stretch of each row: with parity, everything of a row that is not written
        /// is read, or all that is written was read before.
        #[test]
        fn a_write_reaches_every_copy_and_every_parity(
            (level, members) in any_layout(), start in 0..200_u64, length in 1..200_u64,
        ) {
            let layout = layout(level, members);
            let plan = layout.write(Sector::new(start), Sectors::new(length));
            let sectors = |spans: &[Span]| spans.iter().map(|span| span.length.as_u64()).sum::<u64>();
            let mut parity = 0;
            for row in start / layout.row().as_u64()..=(start + length - 1) / layout.row().as_u64() {
                let parts: Vec<Part> = layout
                    .parts(Sector::new(start), Sectors::new(length))
                    .filter(|part| part.row == row)
                    .collect();
                let from = parts.iter().map(|part| part.from).min().unwrap_or(0);
                let to = parts.iter().map(|part| part.to).max().unwrap_or(0);
                parity += (to - from) * level.parities() as u64;
            }
            prop_assert_eq!(sectors(&plan.then_written), length * layout.copies() as u64 + parity);
            if level.parities() == 0 {
                prop_assert_eq!(plan.first_read, vec![]);
            }
        }
    }
}
