//! What goes on beside the starts of a program: each a thread that reads and writes files until it is told to end.
//! Schedulers tell threads apart as they do processes: by their I/O context.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use iosched_machine::process::Stop;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::fs::{Advice, fadvise};

/// What a copy reads and writes at once.
pub(super) const CHUNK: usize = 1 << 20;

/// Chunks of a copy after which it waits until they are on the disk.
pub(super) const CHUNKS_SYNCED: u64 = 16;

/// What a stream reads or writes at once.
pub(super) const STREAMED: usize = 128 << 10;

/// What small reads read at once.
pub(super) const PAGE: usize = 4096;

/// From the end of a small read to the next one.
pub(super) const BETWEEN_READS: Duration = Duration::from_millis(20);

/// Copies a file over and over, never from memory. Bytes copied.
pub(super) fn copy(from: &File, to: &File, end: &Stop) -> io::Result<u64> {
    let size = from.metadata()?.len();
    let mut chunk = vec![0; CHUNK];
    let mut copied = 0;
    while !end.is_wanted() {
        let mut at = 0;
        while at < size && !end.is_wanted() {
            let length = chunk.len().min(usize::try_from(size - at).unwrap_or(CHUNK));
            from.read_exact_at(&mut chunk[..length], at)?;
            to.write_all_at(&chunk[..length], at)?;
            at += length as u64;
            copied += length as u64;
            if at.is_multiple_of(CHUNK as u64 * CHUNKS_SYNCED) {
                to.sync_data()?;
            }
        }
        to.sync_data()?;
        fadvise(from, 0, None, Advice::DontNeed)?;
    }
    Ok(copied)
}

/// Reads a file in sequence, over and over. Bytes read.
pub(super) fn read_on(file: &File, end: &Stop) -> io::Result<u64> {
    stream(file, end, |buffer, at| file.read_exact_at(buffer, at))
}

/// Writes a file anew in sequence, over and over. Bytes written.
pub(super) fn write_on(file: &File, end: &Stop) -> io::Result<u64> {
    stream(file, end, |buffer, at| file.write_all_at(buffer, at))
}

fn stream(
    file: &File,
    end: &Stop,
    step: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<u64> {
    let steps = (file.metadata()?.len() / STREAMED as u64).max(1);
    // O_DIRECT wants a buffer that begins at a page.
    let mut buffer = vec![0; STREAMED + PAGE];
    let begin = buffer.as_ptr().align_offset(PAGE).min(PAGE);
    let buffer = &mut buffer[begin..][..STREAMED];
    let mut done: u64 = 0;
    while !end.is_wanted() {
        step(buffer, done % steps * STREAMED as u64)?;
        done += 1;
    }
    Ok(done * STREAMED as u64)
}

/// Reads pages here and there, as programs read their settings, icons and mail: how long each read took that began
/// after all had settled; there is one at least.
pub(super) fn read_here_and_there(
    file: &File,
    seed: u64,
    settled: &OnceLock<Instant>,
    end: &Stop,
) -> io::Result<Vec<Duration>> {
    fadvise(file, 0, None, Advice::Random)?;
    let mut stream = ChaCha8Rng::seed_from_u64(seed);
    let pages = (file.metadata()?.len() / PAGE as u64).max(1);
    let mut page = vec![0; PAGE];
    let mut took = Vec::new();
    loop {
        let is_last = end.is_wanted();
        let at = stream.random_range(0..pages) * PAGE as u64;
        let begun = Instant::now();
        file.read_exact_at(&mut page, at)?;
        let has_settled = settled.get().is_some_and(|settled| begun >= *settled);
        if has_settled || is_last {
            took.push(begun.elapsed());
        }
        if is_last {
            return Ok(took);
        }
        std::thread::sleep(BETWEEN_READS);
    }
}
