//! Record + analysis → text. Pure: text or bytes out, no file is read.
//!
//! - [`words`], `sentences`, `columns`, `units`: how numbers and findings are put, the same in every form; `why`: the
//!   sentences that say why one arm is faster
//! - [`text`]: tables and sentences for a terminal
//! - [`table`]: columns that line up, within a width
//! - [`chart`]: what charts show, and how they are drawn
//! - [`html`]: one page with all of it, which opens offline
//! - [`markdown`]: for a ticket
//! - [`csv`]: one row per trial and metric
//! - [`comparable`]: whether several records answer the same question
//! - [`judged`]: what results of others show
//! - [`named`]: JSON for programs, with names instead of indices
//! - [`mod@evidence`]: what many machines found

pub mod chart;
mod columns;
pub mod comparable;
pub mod csv;
pub mod evidence;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod html;
pub mod judged;
pub mod markdown;
pub mod named;
mod sentences;
pub mod table;
pub mod text;
mod units;
mod why;
pub mod words;

#[cfg(test)]
iosched_testing::world!();
