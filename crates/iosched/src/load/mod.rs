//! Loads: what a trial runs.
//!
//! A load is a fio job file ([`fio_job`]): one of the [`builtin`] ones or the user's own. [`fio`]
//! runs it and reads the result.

pub mod builtin;
pub mod fio;
pub mod fio_job;
