//! Units as types: a point in time is not a length of time, a position is not a length.
//!
//! All of them are whole numbers, so that a run is the same on every machine. What has no meaning
//! (adding two positions) does not compile; what cannot happen (time running backwards) panics.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Bytes in a sector. Everywhere in the block layer, whatever the device's physical sector.
pub const SECTOR_BYTES: u64 = 512;

/// A point on the run's clock: nanoseconds since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A length of time in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(u64);

/// A position on a disk, in sectors of 512 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sector(u64);

/// A length on a disk, in sectors of 512 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sectors(u64);

/// An amount of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Time {
    /// The beginning of the run.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens.
    pub const MAX: Time = Time(u64::MAX);

    /// The point this many nanoseconds after the beginning.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the beginning.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the beginning, for people.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How long after `earlier` this is; nothing if it is not after it.
    pub const fn saturating_since(self, earlier: Time) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Nanos {
    /// No time.
    pub const ZERO: Nanos = Nanos(0);

    /// A length in nanoseconds.
    pub const fn new(nanos: u64) -> Nanos {
        Nanos(nanos)
    }

    /// A length in microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// A length in milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    /// A length in seconds.
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs * 1_000_000_000)
    }

    /// A length in milliseconds with decimals, rounded to nanoseconds.
    ///
    /// # Panics
    /// If it is negative or not a number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "asserted to be in range"
    )]
    pub fn from_millis_f64(millis: f64) -> Nanos {
        let nanos = millis * 1e6;
        assert!(
            nanos > -0.5 && nanos < 9.2e18,
            "{millis} ms is no length of time"
        );
        // As `round` does it, without a call.
        let whole = nanos as i64; // a signed number is converted in one step
        Nanos(whole as u64 + u64::from(nanos - whole as f64 >= 0.5))
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// In milliseconds with decimals.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In microseconds with decimals.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// In seconds with decimals.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The difference, or nothing if the other is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl Sector {
    /// The first sector.
    pub const ZERO: Sector = Sector(0);

    /// The position with this number.
    pub const fn new(sector: u64) -> Sector {
        Sector(sector)
    }

    /// Counted from the beginning of the device.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The distance to another position, in either direction.
    pub const fn distance(self, other: Sector) -> Sectors {
        Sectors(self.0.abs_diff(other.0))
    }
}

impl Sectors {
    /// Nothing.
    pub const ZERO: Sectors = Sectors(0);

    /// This many sectors.
    pub const fn new(sectors: u64) -> Sectors {
        Sectors(sectors)
    }

    /// As a number, for arithmetic and output.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The same length in bytes.
    pub const fn to_bytes(self) -> Bytes {
        Bytes(self.0 * SECTOR_BYTES)
    }
}

impl Bytes {
    /// Nothing.
    pub const ZERO: Bytes = Bytes(0);

    /// This many bytes.
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }

    /// This many KiB.
    pub const fn from_kib(kib: u64) -> Bytes {
        Bytes(kib << 10)
    }

    /// This many MiB.
    pub const fn from_mib(mib: u64) -> Bytes {
        Bytes(mib << 20)
    }

    /// This many GiB.
    pub const fn from_gib(gib: u64) -> Bytes {
        Bytes(gib << 30)
    }

    /// As a number, for arithmetic and output.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The same amount in whole sectors; a part of a sector is dropped.
    pub const fn to_sectors(self) -> Sectors {
        Sectors(self.0 / SECTOR_BYTES)
    }
}

/// `Time + Nanos`, `Sector + Sectors` and the like: a point moved by a length.
macro_rules! point_and_length {
    ($point:ident, $length:ident, $what:literal) => {
        impl Add<$length> for $point {
            type Output = $point;
            fn add(self, length: $length) -> $point {
                $point(self.0 + length.0)
            }
        }

        impl AddAssign<$length> for $point {
            fn add_assign(&mut self, length: $length) {
                self.0 += length.0;
            }
        }

        impl Sub<$length> for $point {
            type Output = $point;
            fn sub(self, length: $length) -> $point {
                assert!(
                    self.0 >= length.0,
                    concat!($what, " below zero: {} - {}"),
                    self.0,
                    length.0
                );
                $point(self.0 - length.0)
            }
        }

        impl Sub for $point {
            type Output = $length;
            fn sub(self, earlier: $point) -> $length {
                assert!(
                    self.0 >= earlier.0,
                    concat!($what, " ran backwards: {} - {}"),
                    self.0,
                    earlier.0
                );
                $length(self.0 - earlier.0)
            }
        }
    };
}

/// Lengths add up, are taken from one another, multiplied by and divided into counts.
macro_rules! length {
    ($length:ident) => {
        impl Add for $length {
            type Output = $length;
            fn add(self, other: $length) -> $length {
                $length(self.0 + other.0)
            }
        }

        impl AddAssign for $length {
            fn add_assign(&mut self, other: $length) {
                self.0 += other.0;
            }
        }

        impl Sub for $length {
            type Output = $length;
            fn sub(self, other: $length) -> $length {
                assert!(
                    self.0 >= other.0,
                    "negative length: {} - {}",
                    self.0,
                    other.0
                );
                $length(self.0 - other.0)
            }
        }

        impl SubAssign for $length {
            fn sub_assign(&mut self, other: $length) {
                *self = *self - other;
            }
        }

        impl Mul<u64> for $length {
            type Output = $length;
            fn mul(self, times: u64) -> $length {
                $length(self.0 * times)
            }
        }

        impl Div<u64> for $length {
            type Output = $length;
            fn div(self, parts: u64) -> $length {
                $length(self.0 / parts)
            }
        }

        impl std::iter::Sum for $length {
            fn sum<I: Iterator<Item = $length>>(lengths: I) -> $length {
                $length(lengths.map(|length| length.0).sum())
            }
        }
    };
}

point_and_length!(Time, Nanos, "time");
point_and_length!(Sector, Sectors, "position");
length!(Nanos);
length!(Sectors);
length!(Bytes);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09} s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            nanos if nanos < 1_000 => write!(f, "{nanos} ns"),
            nanos if nanos < 1_000_000 => write!(f, "{:.1} µs", nanos as f64 / 1e3),
            nanos if nanos < 1_000_000_000 => write!(f, "{:.2} ms", nanos as f64 / 1e6),
            nanos => write!(f, "{:.3} s", nanos as f64 / 1e9),
        }
    }
}

impl fmt::Display for Sector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sector {}", self.0)
    }
}

impl fmt::Display for Sectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sectors", self.0)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        for (shift, unit) in units {
            let size = 1_u64 << shift;
            if self.0 >= size {
                return if self.0.is_multiple_of(size) {
                    write!(f, "{} {unit}", self.0 / size)
                } else {
                    write!(f, "{:.1} {unit}", self.0 as f64 / size as f64)
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_moves_by_a_length_and_two_points_are_a_length_apart() {
        let start = Time::from_nanos(5);
        assert_eq!((start + Nanos::from_micros(1)) - start, Nanos::new(1000));
        assert_eq!(Sector::new(8) + Sectors::new(8), Sector::new(16));
        assert_eq!(Sector::new(8).distance(Sector::new(2)), Sectors::new(6));
    }

    #[test]
    #[should_panic(expected = "time ran backwards: 1 - 2")]
    fn time_does_not_run_backwards() {
        let _ = Time::from_nanos(1) - Time::from_nanos(2);
    }

    #[test]
    fn amounts_are_written_for_people() {
        assert_eq!(Bytes::from_gib(4).to_string(), "4 GiB");
        assert_eq!(Bytes::new(1536).to_string(), "1.5 KiB");
        assert_eq!(Nanos::new(1_500).to_string(), "1.5 µs");
        assert_eq!(Nanos::from_millis(8).to_string(), "8.00 ms");
    }
}
