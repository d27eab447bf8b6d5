//! The kernel's letters for what a request does: `R`, `WS`, `FWFS`, `DS`, …
//!
//! An optional `F` (flush before), the operation (`R` read, `W` write, `D` discard, `DE` secure erase, `F` flush, `N` none,
//! other letters in newer kernels), then `F` (force unit access), `A` (read-ahead), `S` (synchronous),
//! `M` (metadata).

use crate::request::Op;

/// What the letters say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rwbs {
    /// What it does to data; nothing for flushes and commands past the scheduler.
    pub op: Option<Op>,
    /// Someone waits for it.
    pub sync: bool,
}

/// Reads the letters; nothing if they are no such letters.
pub fn kind(letters: &[u8]) -> Option<Rwbs> {
    if letters.is_empty() || !letters.iter().all(u8::is_ascii_alphabetic) {
        return (letters == b"-").then_some(Rwbs {
            op: None,
            sync: false,
        });
    }
    let flush_first = letters.len() > 1 && letters[0] == b'F' && letters[1].is_ascii_uppercase();
    let flush_first = flush_first && matches!(letters[1], b'W' | b'R' | b'D' | b'F' | b'N');
    let letters = &letters[usize::from(flush_first)..];
    let op = match letters[0] {
        b'R' => Some(Op::Read),
        b'W' => Some(Op::Write),
        b'D' => Some(Op::Discard),
        _ => None,
    };
    let flags = &letters[1..];
    let sync =
        op == Some(Op::Read) || flush_first || flags.iter().any(|f| matches!(f, b'S' | b'F'));
    Some(Rwbs { op, sync })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_what_the_kernel_means() {
        let (read, write, discard) = (Some(Op::Read), Some(Op::Write), Some(Op::Discard));
        let table: [(&[u8], Option<Op>, bool); 12] = [
            (b"R", read, true),
            (b"RA", read, true),
            (b"RSM", read, true),
            (b"W", write, false),
            (b"WS", write, true),
            (b"WM", write, false),
            (b"WFS", write, true),
            (b"FWFS", write, true),
            (b"D", discard, false),
            (b"DES", discard, true),
            (b"FF", None, true),
            (b"N", None, false),
        ];
        for (letters, op, sync) in table {
            assert_eq!(kind(letters), Some(Rwbs { op, sync }), "{letters:?}");
        }
        assert_eq!(kind(b"8"), None);
        assert_eq!(kind(b""), None);
    }
}
