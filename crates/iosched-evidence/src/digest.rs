//! SHA-256: the same name for the same content, and no way back from the name.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The digest of bytes, in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all text");
        text
    })
}
