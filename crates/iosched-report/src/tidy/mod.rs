//! Tidy data for those who analyse themselves, as CSV (RFC 4180) and as Parquet, with the same columns;
//! docs/report.md describes them.
//!
//! - [`trials`]: one row per trial and metric of a record
//! - [`events`]: one row per event of a recording, written while it is read

pub mod events;
mod file;
pub mod trials;
