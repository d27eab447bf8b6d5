//! A device or file, read at places that may lie beyond its end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A device or file whose end is known.
pub(super) struct Image<'a> {
    pub(super) file: &'a File,
    pub(super) size: u64,
}

impl Image<'_> {
    /// Bytes at a place; fewer where the device ends.
    pub(super) fn bytes(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            match self.file.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    pub(super) fn is(&self, offset: u64, magic: &[u8]) -> io::Result<bool> {
        Ok(self.bytes(offset, magic.len())? == magic)
    }

    pub(super) fn u32_le(&self, offset: u64) -> io::Result<Option<u32>> {
        let bytes = self.bytes(offset, 4)?;
        Ok(bytes.try_into().ok().map(u32::from_le_bytes))
    }

    pub(super) fn u32_be(&self, offset: u64) -> io::Result<Option<u32>> {
        Ok(self.u32_le(offset)?.map(u32::swap_bytes))
    }

    /// A text that ends with a zero byte or after `length` bytes.
    pub(super) fn label(&self, offset: u64, length: usize) -> io::Result<Option<String>> {
        let bytes = self.bytes(offset, length)?;
        let end = bytes.iter().position(|&byte| byte == 0);
        let text = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]);
        let text = text.trim();
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    /// The place `back` bytes before the end, if there is one.
    pub(super) fn before_end(&self, back: u64) -> Option<u64> {
        self.size.checked_sub(back)
    }
}
