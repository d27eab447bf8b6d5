//! Whether anything at all is on a device: what a raw database, a virtual machine or a plain dm-crypt keeps
//! there has no signature.
//!
//! The first and the last mebibyte are read, and 128 blocks of 4 KiB at even distances between. Data that
//! lie between all of these are not seen.

use std::io::{self, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::image::Image;
use super::{digest, open};

/// How much is read at either end.
const END: u64 = 1 << 20;

/// How many blocks are read between the ends.
const SAMPLES: u64 = 128;

/// What is read at a time.
const BLOCK: usize = 4096;

/// What the blocks that were read hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocks {
    /// Zeros only, or there are none.
    Zero,
    /// Something else somewhere.
    Data {
        /// The first block that is not zero.
        offset_bytes: u64,
        /// Of all that was read: another one means that something was written.
        digest: String,
    },
}

/// Reads samples of the device or file at `path`.
pub(crate) fn blocks(path: &Path) -> io::Result<Blocks> {
    let mut file = open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    let image = Image { file: &file, size };
    let mut first = None;
    let mut read = Vec::new();
    for offset in offsets(size) {
        let block = image.bytes(offset, BLOCK)?;
        if first.is_none() && block.iter().any(|&byte| byte != 0) {
            first = Some(offset);
        }
        read.extend(block);
    }
    Ok(first.map_or(Blocks::Zero, |offset_bytes| Blocks::Data {
        offset_bytes,
        digest: digest(&read),
    }))
}

/// Where blocks are read on a device of this size, in order.
fn offsets(size: u64) -> Vec<u64> {
    let block_size = BLOCK as u64;
    let blocks = size.div_ceil(block_size);
    let end = END / block_size;
    if blocks <= 2 * end + SAMPLES {
        return (0..blocks).map(|block| block * block_size).collect();
    }
    let between = blocks - 2 * end;
    let samples = (0..SAMPLES).map(|sample| {
        let part = u128::from(between) * u128::from(sample) / u128::from(SAMPLES);
        end + u64::try_from(part).expect("less than the whole")
    });
    (0..end)
        .chain(samples)
        .chain(blocks - end..blocks)
        .map(|block| block * block_size)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn the_blocks_that_are_read_ascend_and_cover_both_ends() {
        for size in [0, 1, 4095, 4096, 1 << 20, 3 << 20, 64 << 20, 20 << 40] {
            let offsets = offsets(size);
            assert!(offsets.is_sorted_by(|a, b| a < b), "{size}");
            if let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) {
                assert_eq!(first, 0);
                assert!(last < size && size <= last + BLOCK as u64, "{size}: {last}");
            }
        }
    }

    #[test]
    fn a_byte_at_either_end_is_seen_and_another_byte_gives_another_digest() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let size = 64 << 20;
        file.as_file().set_len(size).unwrap();
        assert_eq!(blocks(file.path()).unwrap(), Blocks::Zero);
        file.as_file().write_all_at(b"x", size - 1).unwrap();
        let one = blocks(file.path()).unwrap();
        let offset_bytes = size - BLOCK as u64;
        assert!(matches!(&one, Blocks::Data { offset_bytes: at, .. } if *at == offset_bytes));
        file.as_file().write_all_at(b"y", 0).unwrap();
        let two = blocks(file.path()).unwrap();
        assert!(matches!(
            &two,
            Blocks::Data {
                offset_bytes: 0,
                ..
            }
        ));
        assert_ne!(one, two);
    }
}
