//! What goes on beside the starts of a program: each a thread that reads and writes files through the page cache
//! until it is told to end. Threads are told apart by the schedulers as processes are: by their I/O context.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use iosched_machine::beneath::Directory;
use iosched_machine::process::Stop;
use iosched_sim::workload::{FRAME_BYTES, Playback};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::fs::{Advice, fadvise};

/// What a copy reads and writes at once.
pub(in crate::load) const CHUNK: usize = 1 << 20;

/// A page: what small reads and a browser's database take at once.
pub(in crate::load) const PAGE: usize = 4096;

/// From the end of a small read to the next one.
pub(in crate::load) const BETWEEN_READS: Duration = Duration::from_millis(20);

/// From the end of a browser's commit to the next one.
pub(in crate::load) const BETWEEN_COMMITS: Duration = Duration::from_millis(200);

pub(in crate::load) const FILES_OF_A_PACKAGE: usize = 100;

/// How long a thread sleeps before it looks again whether it is to end.
const NAP: Duration = Duration::from_millis(50);

/// Copies a file over and over: what was read is not read from memory again, and each copy is on the disk before
/// the next begins. Bytes copied.
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
        }
        to.sync_data()?;
        fadvise(from, 0, None, Advice::DontNeed)?;
    }
    Ok(copied)
}

/// Plays a video: part of the frames that were there in time, 0 to 1.
pub(super) fn play(video: &File, end: &Stop) -> io::Result<f64> {
    let frames = (video.metadata()?.len() / FRAME_BYTES as u64).max(1);
    let mut frame = vec![0; FRAME_BYTES];
    let mut playback = Playback::new();
    let begun = Instant::now();
    while !end.is_wanted() {
        let (number, not_before) = playback.next(begun.elapsed());
        let early = not_before.saturating_sub(begun.elapsed());
        if !early.is_zero() {
            std::thread::sleep(early.min(NAP));
            continue;
        }
        let at = u64::from(number) % frames * FRAME_BYTES as u64;
        let read = video.read_at(&mut frame, at)?;
        fadvise(
            video,
            at,
            std::num::NonZeroU64::new(read as u64),
            Advice::DontNeed,
        )?;
        playback.arrived(begun.elapsed());
    }
    Ok(playback.in_time(begun.elapsed()))
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

/// Writes a page of a browser's database and waits until it is on the disk: how long that took, each time.
pub(super) fn commit(profile: &File, seed: u64, end: &Stop) -> io::Result<Vec<Duration>> {
    let mut stream = ChaCha8Rng::seed_from_u64(seed);
    let pages = (profile.metadata()?.len() / PAGE as u64).max(1);
    let mut page = vec![0; PAGE];
    let mut took = Vec::new();
    while !end.is_wanted() {
        stream.fill_bytes(&mut page);
        let at = stream.random_range(0..pages) * PAGE as u64;
        let begun = Instant::now();
        profile.write_all_at(&page, at)?;
        profile.sync_data()?;
        took.push(begun.elapsed());
        std::thread::sleep(BETWEEN_COMMITS);
    }
    Ok(took)
}

/// Unpacks a package over and over, as a package manager does: each file on the disk before the next one, the old
/// ones removed when the package is whole. Files written.
pub(super) fn unpack(directory: &Path, end: &Stop) -> io::Result<u64> {
    let directory = Directory::open(directory)?;
    let largest = vec![0x5a; PAGE << 4];
    let mut written = 0;
    while !end.is_wanted() {
        let mut names: Vec<OsString> = Vec::new();
        for number in 0..FILES_OF_A_PACKAGE {
            if end.is_wanted() {
                break;
            }
            let name = OsString::from(format!("file-{number}"));
            let mut file = directory.create_file(&name)?;
            file.write_all(&largest[..PAGE << (number % 5)])?;
            file.sync_all()?;
            names.push(name);
            written += 1;
        }
        names
            .iter()
            .try_for_each(|name| directory.remove_file(name))?;
    }
    Ok(written)
}
