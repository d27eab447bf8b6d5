//! Files of the kernel's and the system's in which names of others stand: processes, mounts, mapped files, users.
//!
//! Names are bytes. What in them is no UTF-8 is replaced, and never makes such a file unreadable or empty: a process that
//! was called so would be none, a mount would hide the others.

use std::io;
use std::path::Path;

use crate::regular_file;

/// Reads one.
///
/// # Errors
/// It cannot be read.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let text = String::from_utf8(regular_file::read(path)?);
    Ok(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_utf_8_is_replaced_and_the_rest_is_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mounts");
        std::fs::write(&path, b"/mnt/caf\xe9 rw\n/mnt/\xc3\xa9 ro\n").unwrap();
        assert_eq!(
            read(&path).unwrap(),
            "/mnt/caf\u{fffd} rw\n/mnt/\u{e9} ro\n"
        );
        assert!(read(dir.path().join("none")).is_err());
    }
}
