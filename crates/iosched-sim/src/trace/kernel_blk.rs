//! The columns of an event as others print it: `blkparse`, and the kernel's `blk` tracer.
//!
//! `8,0 1 17 0.000107123 1234 Q WS 123456 + 8 [fio]` and
//! `fio-1234 [001] d..1. 32.415492: 8,0 Q WS 123456 + 8 [fio]`: times in seconds.

/// The action of a scheduler's message.
pub(super) const MESSAGE: &str = "m";

/// The action of a bio that was split: its rest is queued by itself. In recordings of our own the letter is that of a
/// scheduler's decision, which others do not print.
pub(super) const SPLIT: &str = "X";

/// An event's columns as they stand in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns<'a> {
    pub(super) seconds: &'a str,
    pub(super) action: &'a str,
    pub(super) rwbs: &'a str,
    pub(super) sector: &'a str,
    pub(super) length: &'a str,
    pub(super) pid: &'a str,
    pub(super) cpu: &'a str,
    pub(super) comm: &'a str,
}

/// The columns of a line in one of the two layouts; nothing if it is in neither.
pub(super) fn columns(line: &str) -> Option<Columns<'_>> {
    blkparse(line).or_else(|| traced(line))
}

/// True for what stands behind the events: what `blkparse` counted.
pub(super) fn begins_totals(line: &str) -> bool {
    (line.starts_with("CPU") || line.starts_with("Total (")) && line.ends_with("):")
}

/// True for a line of `blkparse` about what it reads.
pub(super) fn names_input(line: &str) -> bool {
    line.starts_with("Input file ")
}

fn blkparse(line: &str) -> Option<Columns<'_>> {
    let mut words = line.split_ascii_whitespace();
    is_device(words.next()?).then_some(())?;
    let (cpu, sequence) = (words.next()?, words.next()?);
    let all_numbers = [cpu, sequence].into_iter().all(is_number);
    let (seconds, pid) = (words.next()?, words.next()?);
    let event = all_numbers.then(|| event(&mut words))??;
    Some(Columns {
        seconds,
        pid,
        cpu,
        ..event
    })
}

fn traced(line: &str) -> Option<Columns<'_>> {
    let (task, rest) = line.split_once(" [")?;
    let (_, pid) = task.trim().rsplit_once('-')?;
    let (cpu, rest) = rest.split_once("] ")?;
    let mut words = rest.split_ascii_whitespace();
    let seconds = words.nth(1)?.strip_suffix(':')?;
    is_device(words.next()?).then_some(())?;
    let event = event(&mut words)?;
    Some(Columns {
        seconds,
        pid,
        cpu,
        ..event
    })
}

/// `Q WS 123456 + 8 [fio]`; messages (`m N …`) and plugs have no position.
fn event<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Columns<'a>> {
    let mut action = words.next()?;
    if is_device(action) {
        action = words.next()?; // a control group stands before it
    }
    let rwbs = words.next()?;
    let mut columns = Columns {
        seconds: "",
        action,
        rwbs,
        sector: "0",
        length: "0",
        pid: "",
        cpu: "",
        comm: "-",
    };
    if action == MESSAGE {
        return Some(columns);
    }
    let mut word = words.next();
    if let Some(sector) = word.filter(|word| is_number(word)) {
        word = words.next();
        if word == Some("+") {
            (columns.sector, columns.length) = (sector, words.next()?);
            word = words.next();
        }
    }
    if let Some(name) = word.and_then(|word| word.strip_prefix('[')) {
        columns.comm = name.strip_suffix(']').unwrap_or(name);
    }
    Some(columns)
}

fn is_device(word: &str) -> bool {
    let numbers = word.split_once(',');
    numbers.is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(line: &str) -> Option<[&str; 8]> {
        let found = columns(line)?;
        Some([
            found.seconds,
            found.action,
            found.rwbs,
            found.sector,
            found.length,
            found.pid,
            found.cpu,
            found.comm,
        ])
    }

    #[test]
    fn both_layouts_give_the_same_columns() {
        let expected = ["32.415492", "Q", "WS", "9796816", "8", "1583", "000", "rw"];
        let traced = "  rw-1583    [000] d..1.    32.415492:   8,0    Q  WS 9796816 + 8 [rw]";
        assert_eq!(all(traced), Some(expected));
        let parsed = "  8,0  000  5  32.415492  1583  Q  WS 9796816 + 8 [rw]";
        assert_eq!(all(parsed), Some(expected));
    }

    #[test]
    fn plugs_messages_and_commands_past_the_scheduler_have_no_position() {
        let plug = all("8,0 0 7 0.05 369 P N [rw]").unwrap();
        assert_eq!(plug, ["0.05", "P", "N", "0", "0", "369", "0", "rw"]);
        let unplug = all("8,0 0 7 0.05 369 U N [rw] 4").unwrap();
        assert_eq!(unplug, ["0.05", "U", "N", "0", "0", "369", "0", "rw"]);
        let message = all("8,0 0 0 0.05 0 m N cfq369S alloced").unwrap();
        assert_eq!(message[1..5], ["m", "N", "0", "0"]);
        let past = all("8,0 0 2 0.000000370 20 I N 0 [kworker/0:1]").unwrap();
        assert_eq!(past[1..5], ["I", "N", "0", "0"]);
        let message = all("rw-1583 [000] d.... 32.4: 8,0 1,0 m N bfq [bfq_limit_depth]");
        assert_eq!(message.unwrap()[1..3], ["m", "N"]);
    }

    #[test]
    fn where_a_bio_was_split_two_positions_stand_and_none_is_a_request() {
        let split = all("8,0 3 1 0.000000000 697 X W 223490 / 223746 [kjournald]").unwrap();
        assert_eq!(split[1..5], [SPLIT, "W", "0", "0"]);
        assert_eq!(split[7], "-");
    }

    #[test]
    fn other_lines_are_not_taken_for_events() {
        for line in [
            "",
            "0.000 Q WS 9796816 8 369 rw rw",
            "path: value",
            "a-1 [0] b",
            "8,0 x 1 0.1 2 Q R",
        ] {
            assert_eq!(columns(line), None, "{line}");
        }
        assert!(begins_totals("CPU0 (8,0):") && begins_totals("Total (8,0):"));
        assert!(names_input("Input file disk.blktrace.0 added"));
    }
}
