//! The recordings below a folder.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use iosched_machine::failure::Problem;
use iosched_sim::request::ProcessId;
use iosched_sim::trace::kernel::{Line, Queue, Reader, Remark};

use super::file::{self, Lines};

/// The file of tunables beside recordings.
pub(super) const TUNABLES: &str = "tunables.txt";

/// How recordings are called, before the ending of a compressed file.
const ENDINGS: [&str; 4] = [".txt", ".trace", ".blkparse", ".log"];
const COMPRESSED: [&str; 3] = [".gz", ".zst", ".zstd"];

/// Lines at the beginning among which a recording has an event.
const HEAD: usize = 200;

/// The file, or the recordings below the folder: folder by folder, each in the order of names. Those
/// of one folder follow one another. A recording is what is called like one, and what reads like one.
pub(super) fn below(path: &Path) -> Result<Vec<Vec<PathBuf>>, Problem> {
    if !path.is_dir() {
        return Ok(vec![vec![path.to_owned()]]);
    }
    let mut folders = Vec::new();
    collect(path, &mut folders)?;
    Ok(folders)
}

/// The scheduler under which these were recorded, with tunables if they are ours: what the remarks at the beginning of
/// the recordings say that say something, each once.
pub(super) fn named_schedulers(paths: &[PathBuf]) -> Result<Vec<String>, Problem> {
    let mut names = Vec::new();
    for path in paths {
        for recording in below(path)?.into_iter().flatten() {
            let queue = queue_in(Lines::open(&recording)?);
            match queue.map(|queue| queue.scheduler) {
                Some(name) if !names.contains(&name) => names.push(name),
                _ => {}
            }
        }
    }
    Ok(names)
}

/// The scheduler that a recording's first remarks name; nothing if they do not, or it cannot be read.
pub fn named_scheduler(recording: &Path) -> Option<String> {
    queue_of(recording).map(|queue| queue.scheduler)
}

/// True unless this says that it was recorded under another scheduler than the one that is written so, with or
/// without tunables.
pub(super) fn is_of(queue: Option<&Queue>, scheduler: &str) -> bool {
    fn name(text: &str) -> Option<&str> {
        text.split(':').next()
    }
    queue.is_none_or(|queue| name(&queue.scheduler) == name(scheduler))
}

/// The load's name: that of its file up to the first dot.
pub(super) fn load_name(recording: &Path) -> &str {
    let file = recording.file_name().and_then(|name| name.to_str());
    let name = file.and_then(|name| name.split('.').next());
    name.unwrap_or_default()
}

/// What a recording's first remarks say of the queue that was recorded.
pub(super) fn queue_of(recording: &Path) -> Option<Queue> {
    queue_in(Lines::open(recording).ok()?)
}

fn queue_in(mut lines: Lines) -> Option<Queue> {
    let mut reader = Reader::default();
    for _ in 0..HEAD {
        match reader.read(lines.next_line().ok()??).ok()? {
            Some(Line::Remark(Remark::Queue(queue))) => return Some(queue),
            Some(Line::Event(_)) => return None,
            _ => {}
        }
    }
    None
}

/// Recordings of a folder in the order in which they were made: by the process numbers of their first
/// workers, if all say them, or else as they are.
pub(super) fn in_order(mut recordings: Vec<PathBuf>) -> Vec<PathBuf> {
    let workers: Option<Vec<_>> = recordings.iter().map(|path| first_worker(path)).collect();
    if let Some(workers) = workers {
        let mut numbered: Vec<_> = workers.into_iter().zip(recordings).collect();
        numbered.sort_by_key(|&(worker, _)| worker);
        recordings = numbered.into_iter().map(|(_, path)| path).collect();
    }
    recordings
}

/// The least process number of the workers that a recording's first remarks name.
fn first_worker(recording: &Path) -> Option<ProcessId> {
    let mut lines = Lines::open(recording).ok()?;
    let mut reader = Reader::default();
    let mut first = None;
    for _ in 0..HEAD {
        match reader.read(lines.next_line().ok()??).ok()? {
            Some(Line::Remark(Remark::Worker { process, .. })) => {
                first = Some(first.map_or(process, |first: ProcessId| first.min(process)));
            }
            Some(Line::Event(_)) => break,
            _ => {}
        }
    }
    first
}

fn collect(folder: &Path, folders: &mut Vec<Vec<PathBuf>>) -> Result<(), Problem> {
    let unreadable = |cause| file::not_opened(folder, &cause);
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let mut entries: Vec<DirEntry> = entries.collect::<Result<_, _>>().map_err(unreadable)?;
    entries.sort_by_key(DirEntry::file_name);
    let mut recordings = Vec::new();
    let mut inner = Vec::new();
    for entry in entries {
        let path = entry.path();
        // A link to a folder is not followed: it may lead back.
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_dir() {
            inner.push(path);
            continue;
        }
        // A FIFO or a device is refused by its name when it is opened.
        let is_special = path.exists() && !path.is_file() && !path.is_dir();
        if !is_left_out(&path) && (is_special || is_recording(&path)) {
            recordings.push(path);
        }
    }
    drop_messages(&mut recordings);
    if !recordings.is_empty() {
        folders.push(recordings);
    }
    inner.iter().try_for_each(|path| collect(path, folders))
}

/// `NAME.trace` beside `NAME.txt` is the same once more, with the scheduler's messages.
fn drop_messages(recordings: &mut Vec<PathBuf>) {
    let stem = |path: &Path, ending: &str| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let (stem, _) = name.split_once(ending)?;
        Some(stem.to_owned())
    };
    let texts: Vec<_> = recordings
        .iter()
        .filter_map(|path| stem(path, ".txt"))
        .collect();
    recordings.retain(|path| stem(path, ".trace").is_none_or(|stem| !texts.contains(&stem)));
}

/// The file of this ending beside a recording `NAME.txt`, both perhaps compressed.
pub(super) fn sibling(recording: &Path, ending: &str) -> Option<PathBuf> {
    let name = recording.file_name()?.to_str()?;
    let stem = &name[..name.rfind(".txt")?];
    let endings = std::iter::once("").chain(COMPRESSED);
    let mut paths =
        endings.map(|packed| recording.with_file_name(format!("{stem}{ending}{packed}")));
    paths.find(|path| path.is_file())
}

/// What is no recording whatever is in it.
fn is_left_out(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name == TUNABLES || name.as_encoded_bytes().starts_with(b".")
}

fn is_recording(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let name = name.unwrap_or_default();
    let ending = COMPRESSED
        .iter()
        .find_map(|ending| name.strip_suffix(ending));
    let plain = ending.unwrap_or(&name);
    !path.is_dir() && ENDINGS.iter().any(|ending| plain.ends_with(ending)) || reads_like_one(path)
}

/// True if there is an event among the first lines, and nothing else but remarks before it.
pub(super) fn reads_like_one(path: &Path) -> bool {
    let Ok(mut lines) = Lines::open(path) else {
        return false;
    };
    let mut reader = Reader::default();
    for _ in 0..HEAD {
        let Ok(Some(line)) = lines.next_line() else {
            return false;
        };
        match reader.read(line) {
            Ok(Some(Line::Event(_))) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn recordings_are_found_below_by_name_or_by_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let event = "0.000 Q R 8 8 1 a a\n";
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("tunables.txt", "queue/nr_requests: 128");
        write("README.md", "Recordings of a disk.");
        write("sd4/tunables.txt", "queue/nr_requests: 128");
        write("sd4/b.txt", event);
        write("sd4/a.trace.gz", "damaged");
        write("sd4/unnamed", &format!("# worker pid=1\n{event}"));
        write("sd4/deep/c.blkparse", "8,0 0 1 0.1 9 Q R 8 + 8 [a]\n");
        write("sd4/deep/numbers", "1 2 3\n");
        write("sd4/.hidden.txt", event);
        let packed = fs::File::create(dir.path().join("sd4/packed")).unwrap();
        let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
        packed.write_all(event.as_bytes()).unwrap();
        packed.finish().unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("sd4/deep/back")).unwrap();
        let found = below(dir.path()).unwrap();
        let names = |folder: &Vec<PathBuf>| -> Vec<String> {
            let names = folder
                .iter()
                .map(|path| path.strip_prefix(dir.path()).unwrap());
            names.map(|name| name.display().to_string()).collect()
        };
        let found: Vec<_> = found.iter().map(names).collect();
        let first = ["sd4/a.trace.gz", "sd4/b.txt", "sd4/packed", "sd4/unnamed"];
        assert_eq!(found, [&first[..], &["sd4/deep/c.blkparse"]]);
        write(
            "kyber",
            "# host 6.18 blk-mq, scheduler=kyber device=sd1\n0.000 Q R 8 8 1 a a\n",
        );
        write("ours", "# simulated: scheduler=cfq:quantum=1 disk=null\n");
        let recorded_under = |names: &[&str]| {
            let paths: Vec<_> = names.iter().map(|name| dir.path().join(name)).collect();
            named_schedulers(&paths).unwrap()
        };
        assert_eq!(
            recorded_under(&["kyber", "ours", "kyber"]),
            ["kyber", "cfq:quantum=1"]
        );
        assert!(recorded_under(&["sd4"]).is_empty(), "nothing says so there");
        let one = dir.path().join("README.md");
        assert_eq!(
            below(&one).unwrap(),
            [[one]],
            "what is recorded_under is taken"
        );
    }
}
