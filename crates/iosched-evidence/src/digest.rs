//! SHA-256: the same name for the same content, and no way back from the name.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// A digest of bytes that come in parts.
#[derive(Default)]
pub(crate) struct Digest(Sha256);

impl Digest {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// In hexadecimal digits.
    pub(crate) fn finish(self) -> String {
        let bytes = self.0.finalize();
        bytes.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes all text");
            text
        })
    }
}

/// The digest of bytes that are there, in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let mut digest = Digest::default();
    digest.update(bytes);
    digest.finish()
}
