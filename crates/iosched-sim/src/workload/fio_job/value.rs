//! Values of options: sizes, times, shares, lists of them.

use super::super::{Distribution, Rate, Sizes};
use crate::quantity::bytes;
use crate::units::{Bytes, Sectors};

/// A size in the file: bytes, or a share of the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Size {
    Bytes(u64),
    Percent(u64),
}

impl Size {
    /// In whole 4 KiB blocks of a disk.
    pub(super) fn on(self, capacity: Sectors) -> Sectors {
        let bytes = self.bytes_of(capacity).as_u64();
        Bytes::new(bytes / 4096 * 4096).to_sectors()
    }

    /// To the byte.
    pub(super) fn bytes_of(self, capacity: Sectors) -> Bytes {
        Bytes::new(match self {
            Size::Bytes(bytes) => bytes,
            Size::Percent(percent) => capacity.to_bytes().as_u64() / 100 * percent,
        })
    }
}

pub(super) fn size(text: &str) -> Option<Size> {
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent = percent.parse().ok().filter(|&percent| percent <= 100);
            percent.map(Size::Percent)
        }
        None => bytes(text).map(Size::Bytes),
    }
}

pub(super) fn percent(text: &str) -> Option<u8> {
    let number = text.trim_end_matches('%').parse().ok();
    number.filter(|&percent| percent <= 100)
}

/// For reads and for writes: `both`, `reads,writes` or one of them left out (`,writes`).
pub(super) fn pair<T: Clone>(
    text: &str,
    before: [T; 2],
    one: impl Fn(&str) -> Option<T>,
) -> Option<[T; 2]> {
    let [reads, writes] = before;
    let mut parts = text.split(',');
    let (first, second) = (parts.next().unwrap_or(""), parts.next());
    let _trims = parts.next(); // there are none in a load
    if parts.next().is_some() {
        return None;
    }
    let read = match first {
        "" if second.is_some() => reads,
        text => one(text)?,
    };
    let write = match second {
        None => read.clone(),
        Some("") => writes,
        Some(text) => one(text)?,
    };
    Some([read, write])
}

/// The length of an access.
pub(super) fn block(text: &str) -> Option<Sectors> {
    let size =
        bytes(text).filter(|&size| size > 0 && size.is_multiple_of(512) && size <= 1 << 30)?;
    Some(Bytes::new(size).to_sectors())
}

/// `LEAST-MOST`, of which all multiples of the least are as likely; or one length.
pub(super) fn range(text: &str) -> Option<Sizes> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) = (block(least)?, block(most)?);
    (least <= most).then(|| Sizes::range(least, most))
}

/// `SIZE/PERCENT:SIZE/PERCENT:…`; those without a percentage share what is left.
pub(super) fn split(text: &str) -> Option<Sizes> {
    let parts = text.split(':').filter(|part| !part.is_empty());
    let parts: Option<Vec<(Sectors, Option<u8>)>> = parts
        .map(|part| {
            let (size, share) = part.split_once('/').unwrap_or((part, ""));
            let share = if share.is_empty() {
                None
            } else {
                Some(percent(share)?)
            };
            Some((block(size)?, share))
        })
        .collect();
    let parts = parts.filter(|parts| !parts.is_empty())?;
    let given: u32 = parts
        .iter()
        .filter_map(|&(_, share)| share)
        .map(u32::from)
        .sum();
    let left = u8::try_from(100_u32.checked_sub(given)?).ok()?;
    let without = parts.iter().filter(|(_, share)| share.is_none()).count();
    let each = left / u8::try_from(without.max(1)).ok()?;
    let shares: Vec<_> = parts
        .iter()
        .map(|&(size, share)| (size, share.unwrap_or(each)))
        .collect();
    Some(Sizes::split(&shares))
}

/// A rate in bytes per second.
pub(super) fn byte_rate(text: &str) -> Option<Rate> {
    bytes(text).filter(|&rate| rate > 0).map(Rate::Bytes)
}

/// A rate in accesses per second.
pub(super) fn access_rate(text: &str) -> Option<Rate> {
    let rate = text.parse().ok();
    rate.filter(|&rate| rate > 0 && rate <= 1 << 30)
        .map(Rate::Accesses)
}

/// `random`, `zipf:THETA`, `pareto:H`, `normal:DEVIATION`, `zoned:ACCESSES/PLACES:…`.
pub(super) fn distribution(text: &str) -> Option<Distribution> {
    if let Some(zones) = text.strip_prefix("zoned:") {
        return zoned(zones);
    }
    let (name, parameter) = match text.split_once(':') {
        None => (text, None),
        Some((name, parameter)) => (name, Some(parameter.parse::<f64>().ok()?)),
    };
    // The defaults are fio's.
    let found = match (name, parameter) {
        ("random", None) => Distribution::Even,
        ("zipf", theta) => Distribution::Zipf {
            theta: theta.unwrap_or(1.1),
        },
        ("pareto", h) => Distribution::Pareto {
            h: h.unwrap_or(0.2),
        },
        ("normal", Some(deviation)) => Distribution::Normal { deviation },
        _ => return None,
    };
    let in_range = match found {
        Distribution::Even | Distribution::Zoned(_) => true,
        Distribution::Zipf { theta } => theta > 0.0 && theta < 10.0 && (theta - 1.0).abs() > 1e-6,
        Distribution::Pareto { h } => h > 0.0 && h < 1.0,
        Distribution::Normal { deviation } => deviation > 0.0 && deviation <= 100.0,
    };
    in_range.then_some(found)
}

/// Up to eight zones, of shares of the accesses and of the places in percent; a place left out has what is left.
fn zoned(text: &str) -> Option<Distribution> {
    let mut zones = [(0, 0); 8];
    let parts = text.split(':').filter(|part| !part.is_empty());
    let parts: Vec<_> = parts
        .map(|part| {
            let (accesses, places) = part.split_once('/')?;
            let places = if places.is_empty() {
                None
            } else {
                Some(percent(places)?)
            };
            Some((percent(accesses)?, places))
        })
        .collect::<Option<_>>()?;
    let given: u32 = parts
        .iter()
        .filter_map(|&(_, places)| places)
        .map(u32::from)
        .sum();
    let left = u8::try_from(100_u32.checked_sub(given)?).ok()?;
    let open = parts.iter().filter(|(_, places)| places.is_none()).count();
    let each = left / u8::try_from(open.max(1)).ok()?;
    let is_whole = parts
        .iter()
        .map(|&(accesses, _)| u32::from(accesses))
        .sum::<u32>()
        == 100;
    if !is_whole || parts.len() > zones.len() {
        return None;
    }
    for (zone, &(accesses, places)) in zones.iter_mut().zip(&parts) {
        *zone = (accesses, places.unwrap_or(each));
    }
    Some(Distribution::Zoned(zones))
}
