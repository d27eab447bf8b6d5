//! The numbers of all processes.

use std::fs;
use std::io;

use crate::host::Host;

/// The numbers of the processes that are there, as `/proc` lists them. Any of them may have ended since.
///
/// # Errors
/// The list cannot be read: then nothing is known of any process.
pub(crate) fn numbers(host: &Host) -> io::Result<Vec<i32>> {
    numbers_below(host, "")
}

/// The same of what a directory of `/proc` lists: the threads in a process' `task`.
///
/// # Errors
/// The list cannot be read.
pub(super) fn numbers_below(host: &Host, directory: &str) -> io::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(host.proc(directory))? {
        numbers.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<i32>().ok()),
        );
    }
    Ok(numbers)
}
