//! Numbers and columns of text, taken from bytes: nothing is copied.

use super::error::Cause;
use crate::units::{SECTOR_BYTES, Sector, Sectors};

/// A whole number.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut value = 0_u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A number with decimals, as a whole number of `10^-places`: what is finer is dropped.
pub(crate) fn fixed(text: &[u8], places: usize) -> Option<u64> {
    let point = text.iter().position(|&byte| byte == b'.');
    let (whole, decimals) = match point {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &[][..]),
    };
    let mut value = if whole.is_empty() && !decimals.is_empty() {
        0
    } else {
        number(whole)?
    };
    for place in 0..places {
        let digit = match decimals.get(place) {
            Some(byte) => byte.wrapping_sub(b'0'),
            None => 0,
        };
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    let finer = decimals.get(places..).unwrap_or_default();
    finer.iter().all(u8::is_ascii_digit).then_some(value)
}

/// Columns between blanks.
#[derive(Debug, Clone)]
pub(crate) struct Blanks<'line>(pub(crate) &'line [u8]);

impl<'line> Blanks<'line> {
    /// What has not been taken yet, without blanks before it.
    pub(crate) fn rest(&self) -> &'line [u8] {
        self.0.trim_ascii_start()
    }
}

impl<'line> Iterator for Blanks<'line> {
    type Item = &'line [u8];

    fn next(&mut self) -> Option<&'line [u8]> {
        let text = self.0.trim_ascii_start();
        if text.is_empty() {
            self.0 = text;
            return None;
        }
        let end = text.iter().position(u8::is_ascii_whitespace);
        let (column, rest) = text.split_at(end.unwrap_or(text.len()));
        self.0 = rest;
        Some(column)
    }
}

/// The first `N` columns of an iterator, or how many there are.
pub(crate) fn columns<'line, const N: usize>(
    mut from: impl Iterator<Item = &'line [u8]>,
    layout: &'static str,
) -> Result<[&'line [u8]; N], Cause> {
    let mut found = [&[][..]; N];
    for (columns, place) in found.iter_mut().enumerate() {
        *place = from
            .next()
            .ok_or_else(|| Cause::too_short(columns, layout))?;
    }
    Ok(found)
}

/// Columns between commas, without blanks around them.
pub(crate) fn commas(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// Largest position: nothing of it overflows when it is counted in bytes.
const FARTHEST: u64 = u64::MAX / 1024;

/// The longest access, sectors: the kernel counts the bytes of a bio in 32 bits.
const LONGEST: u64 = (1 << 32) / SECTOR_BYTES;

fn too_far(start: u64, length: u64) -> Cause {
    Cause::new(format!(
        "an access at sector {start} of {length} sectors ends beyond the largest disk"
    ))
}

/// A part of a disk, within what can be counted.
pub(crate) fn extent(start: u64, length: u64) -> Result<(Sector, Sectors), Cause> {
    match start.checked_add(length) {
        Some(end) if end <= FARTHEST && length > LONGEST => Err(Cause::new(format!(
            "an access of {length} sectors is longer than any, 4 GiB"
        ))),
        Some(end) if end <= FARTHEST => Ok((Sector::new(start), Sectors::new(length))),
        _ => Err(too_far(start, length)),
    }
}

/// A part of a disk given in bytes: all sectors that it touches.
pub(crate) fn byte_extent(offset: u64, bytes: u64) -> Result<(Sector, Sectors), Cause> {
    let start = offset / SECTOR_BYTES;
    let Some(end) = offset.checked_add(bytes) else {
        let length = bytes / SECTOR_BYTES;
        return Err(too_far(start, length));
    };
    extent(start, end.div_ceil(SECTOR_BYTES) - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_disk_is_no_longer_than_a_bio_can_be() {
        assert!(extent(7, LONGEST).is_ok());
        assert!(extent(7, LONGEST + 1).is_err());
        assert!(byte_extent(1, 1 << 32).is_err());
    }

    #[test]
    fn numbers_are_read_exactly_or_not_at_all() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        for bad in [&b""[..], b"-1", b"+1", b"1 ", b"0x1", b"1.0"] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
        assert_eq!(fixed(b"0.000000107", 9), Some(107));
        assert_eq!(fixed(b"12", 3), Some(12_000));
        assert_eq!(fixed(b"1.5", 9), Some(1_500_000_000));
        assert_eq!(fixed(b".25", 2), Some(25));
        assert_eq!(
            fixed(b"1.23456", 3),
            Some(1_234),
            "finer digits are dropped"
        );
        for bad in [
            &b""[..],
            b".",
            b"1.x",
            b"1.2345x",
            b"1e3",
            b"99999999999999999999.1",
        ] {
            assert_eq!(fixed(bad, 3), None, "{bad:?}");
        }
    }

    #[test]
    fn parts_given_in_bytes_become_all_sectors_touched() {
        let touched = |offset, bytes| byte_extent(offset, bytes).unwrap();
        assert_eq!(touched(512, 1024), (Sector::new(1), Sectors::new(2)));
        assert_eq!(touched(1000, 100), (Sector::new(1), Sectors::new(2)));
        assert_eq!(touched(1000, 0), (Sector::new(1), Sectors::new(1)));
        assert!(byte_extent(u64::MAX, 1).is_err());
        assert!(extent(u64::MAX / 1024, 1).is_err());
    }
}
