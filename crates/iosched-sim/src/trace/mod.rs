//! Recordings of block traffic: text in, events out.
//!
//! Readers work line by line, so that memory does not grow with the recording. [`kernel`] reads the
//! format of this project's recordings of kernel schedulers.

pub mod kernel;
