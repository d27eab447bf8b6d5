//! What values of a model's file can be: bounds, and units (which are parts of the keys' names).

use std::ops::Deref;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::units::{Bytes, Nanos};

/// A whole number from `MIN` to `MAX`.
pub(super) fn whole<'de, D, N, const MIN: u64, const MAX: u64>(from: D) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<u64>,
{
    let number = u64::deserialize(from)?;
    let within = Some(number).filter(|number| (MIN..=MAX).contains(number));
    within
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| D::Error::custom(format!("{number} is not between {MIN} and {MAX}")))
}

/// Like [`whole`], for a key that may be left out.
pub(super) fn some_whole<'de, D, N, const MIN: u64, const MAX: u64>(
    from: D,
) -> Result<Option<N>, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<u64>,
{
    whole::<D, N, MIN, MAX>(from).map(Some)
}

/// Bytes, `MIN` or more.
pub(super) fn bytes<'de, D, const MIN: u64>(from: D) -> Result<Bytes, D::Error>
where
    D: Deserializer<'de>,
{
    whole::<D, u64, MIN, { 1 << 40 }>(from).map(Bytes::new)
}

/// Like [`bytes`], for a key that may be left out.
pub(super) fn some_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bytes>, D::Error> {
    bytes::<D, 0>(from).map(Some)
}

/// A number from `MIN` to `MAX`.
pub(super) fn number<'de, D, const MIN: i32, const MAX: i32>(from: D) -> Result<f64, D::Error>
where
    D: Deserializer<'de>,
{
    let number = f64::deserialize(from)?;
    if (f64::from(MIN)..=f64::from(MAX)).contains(&number) {
        Ok(number)
    } else {
        let message = format!("{number} is not between {MIN} and {MAX}");
        Err(D::Error::custom(message))
    }
}

/// A length of time, which a file gives in milliseconds: up to a minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Millis(pub Nanos);

impl Deref for Millis {
    type Target = Nanos;

    fn deref(&self) -> &Nanos {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Millis, D::Error> {
        number::<D, 0, 60_000>(from).map(|millis| Millis(Nanos::from_millis_f64(millis)))
    }
}

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub u64);

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Rate, D::Error> {
        whole::<D, u64, 1000, { 1 << 40 }>(from).map(Rate)
    }
}
