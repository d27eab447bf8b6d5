//! Record + analysis → text. Pure, text, tables or bytes out: only [`input`] reads files.
//!
//! - [`input`]: what is to be reported on: a record, a simulation or a recording
//! - [`words`], `sentences`, `columns`, `units`: how numbers and findings are put, the same in every form; `why`: the
//!   sentences that say why one arm is faster
//! - [`text`]: tables and sentences for a terminal
//! - [`table`]: columns that line up, within a width
//! - [`chart`]: what charts show, and how they are drawn
//! - [`html`]: one page with all of it, which opens offline
//! - [`markdown`]: for a ticket
//! - [`tidy`]: one row per trial and metric, or per event of a recording, as CSV and Parquet
//! - [`comparable`]: whether several records answer the same question
//! - [`named`]: JSON for programs, with names instead of indices
//! - [`mod@evidence`]: what many machines found
//! - [`traffic`]: what a recording tells of a disk's traffic
//! - [`known`]: the tables that people know: iozone sweep log, 2/1/0 points, baseline = 100

pub mod chart;
mod columns;
pub mod comparable;
pub mod evidence;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod html;
pub mod input;
pub mod known;
pub mod markdown;
pub mod named;
mod sentences;
pub mod table;
pub mod text;
pub mod tidy;
pub mod traffic;
mod units;
mod why;
pub mod words;

#[cfg(test)]
iosched_testing::world!();
