//! Record + analysis → text. Pure: each function returns a `String`.
//!
//! - [`text`]: tables and sentences for a terminal
//! - [`table`]: columns that line up, within a width
//! - [`csv`]: tidy data, one row per trial
//! - [`known`]: the tables that people know: iozone sweep log, 2/1/0 points, baseline = 100

pub mod csv;
pub mod known;
pub mod table;
pub mod text;
