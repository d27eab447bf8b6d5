//! Record + analysis → text. Pure: each function returns a `String`.
//!
//! - [`words`], `sentences`, `columns`: how numbers and findings are put, the same in every form
//! - [`text`]: tables and sentences for a terminal
//! - [`table`]: columns that line up, within a width
//! - [`chart`]: what charts show, and how they are drawn
//! - [`html`]: one page with all of it, which opens offline
//! - [`csv`]: tidy data, one row per trial
//! - [`known`]: the tables that people know: iozone sweep log, 2/1/0 points, baseline = 100

pub mod chart;
mod columns;
pub mod csv;
pub mod html;
pub mod known;
mod sentences;
pub mod table;
pub mod text;
mod units;
pub mod words;
