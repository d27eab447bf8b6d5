//! Text formats line by line, out of blocks of bytes.

use super::error::{Cause, ReadError};
use super::record::Sink;

/// Longest line of any trace.
pub const LONGEST_LINE: usize = 64 << 10;

/// A text format.
pub(crate) trait LineFormat {
    /// Reads a line without its end.
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Cause>;
}

/// Reads the whole lines of a block; of the last block, what remains too. Returns how many bytes were
/// used, and counts `lines` on.
pub(crate) fn parse<F: LineFormat>(
    format: &mut F,
    block: &[u8],
    is_last: bool,
    lines: &mut u64,
    sink: &mut Sink,
) -> Result<usize, ReadError> {
    let mut used = 0;
    while used < block.len() {
        let rest = &block[used..];
        let (line, step) = match memchr::memchr(b'\n', rest) {
            Some(end) => (&rest[..end], end + 1),
            None if is_last => (rest, rest.len()),
            None if rest.len() >= LONGEST_LINE => (rest, 0),
            None => break,
        };
        *lines += 1;
        let read = if line.len() >= LONGEST_LINE {
            Err(Cause::new("longer than 64 KiB: this is no trace"))
        } else {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            format.line(line, sink)
        };
        read.map_err(|cause| ReadError::in_line(*lines, cause))?;
        used += step;
    }
    Ok(used)
}
