//! How much room the files of a job file take in a directory.
//!
//! Follows fio's `setup_files` (3.33): each worker has `nrfiles` files that share its `size`, or of `filesize` each, and a
//! file reaches up to `offset` + its size. Taken as the most that it can be: fio may write less.

use iosched_sim::quantity;

use super::{Assignment, Job, JobFile};

/// Options whose value is a size.
pub(super) const SIZES: [&str; 5] = [
    "size",
    "filesize",
    "offset",
    "offset_align",
    "offset_increment",
];

/// What is said of a size that [`parse_size`] does not know.
pub(super) const SIZE_WANTED: &str = "a size such as 512m, 10g or 50% is wanted";

/// A size as fio reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Bytes(u64),
    /// Of the file or device; in a directory, of the size that a file gets where its job does not say.
    Percent(u64),
}

impl Size {
    /// In bytes, of a file of this size.
    pub(super) fn of(self, file_size: u64) -> u64 {
        match self {
            Size::Bytes(bytes) => bytes,
            Size::Percent(percent) => {
                let bytes = u128::from(file_size) * u128::from(percent) / 100;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }
}

impl JobFile {
    /// The files of each worker as one, by its name and number, and the bytes that they take in a directory, where a
    /// worker has `file_size` unless its job says otherwise. Jobs of the same name in other job files have the same.
    pub(crate) fn files(&self, file_size: u64) -> Vec<(String, u64)> {
        let is_told_apart = self.workers() <= MOST_WORKERS;
        let files = self.jobs.iter().flat_map(|job| {
            if is_told_apart {
                job.files(file_size)
            } else {
                vec![(job.name.clone(), job.bytes_needed(file_size))]
            }
        });
        files.collect()
    }

    /// True if each worker has room for a single block and no more, where its file has `file_size` unless its job says
    /// otherwise; false where that is not known.
    pub(crate) fn is_one_block(&self, file_size: Option<u64>) -> bool {
        self.jobs.iter().all(|job| {
            let bytes = |key| match job.size(key)? {
                Size::Bytes(bytes) => Some(bytes),
                share @ Size::Percent(_) => file_size.map(|file_size| share.of(file_size)),
            };
            let block = bytes("bs").unwrap_or(DEFAULT_BLOCK);
            let room = bytes("filesize").or(bytes("size")).or(file_size);
            job.files_each() == 1 && room.is_some_and(|room| room <= block)
        })
    }

    /// An option that takes all that is free in a directory, as it stands in the file.
    pub(crate) fn fills(&self) -> Option<String> {
        let mut given = self.jobs.iter().flat_map(|job| &job.assignments);
        given
            .find(|assignment| assignment.fills())
            .map(|Assignment { line, key, value }| {
                let value = value.as_deref().unwrap_or("1");
                format!("{key}={value} in line {line}")
            })
    }
}

impl Assignment {
    fn fills(&self) -> bool {
        let value = self.value.as_deref().unwrap_or("1");
        self.key == "fill_device" && value != "0"
    }
}

/// fio's `bs` where nobody sets it.
const DEFAULT_BLOCK: u64 = 4096;

/// Workers of a file whose files are told apart; of more the sum is taken.
const MOST_WORKERS: u64 = 10_000;

impl Job {
    fn files(&self, file_size: u64) -> Vec<(String, u64)> {
        let [of_worker, step] = self.bytes_of_worker(file_size);
        let files = (0..self.workers()).map(|worker| {
            let bytes = of_worker.saturating_add(step.saturating_mul(worker));
            // Files of another number have other names and sizes.
            (
                format!("{}.{worker} of {}", self.name, self.files_each()),
                bytes,
            )
        });
        files.collect()
    }

    fn bytes_needed(&self, file_size: u64) -> u64 {
        let workers = self.workers();
        let [of_worker, step] = self.bytes_of_worker(file_size);
        let before = workers.saturating_mul(workers.saturating_sub(1)) / 2;
        workers
            .saturating_mul(of_worker)
            .saturating_add(step.saturating_mul(before))
    }

    fn files_each(&self) -> u64 {
        self.number("nrfiles").unwrap_or(1)
    }

    /// How many workers fio starts for it.
    pub(super) fn workers(&self) -> u64 {
        self.number("numjobs").unwrap_or(1)
    }

    /// What the first worker takes, and how much more each further one.
    fn bytes_of_worker(&self, file_size: u64) -> [u64; 2] {
        let files = self.files_each();
        let bytes = |key| self.size(key).map(|size| size.of(file_size));
        let of_files = match bytes("filesize") {
            Some(each) => each.saturating_mul(files),
            None => bytes("size").unwrap_or(file_size),
        };
        let reaches = |key| bytes(key).unwrap_or(0);
        let offset = reaches("offset").saturating_add(reaches("offset_align"));
        let first = offset.saturating_mul(files);
        let steps = reaches("offset_increment").saturating_mul(files);
        [of_files.saturating_add(first), steps]
    }

    /// The last value of an option, if it is a number.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.last(key)?.parse().ok()
    }

    fn size(&self, key: &str) -> Option<Size> {
        parse_size(self.last(key)?)
    }
}

/// fio's size, of a range its larger end. Units are powers of 1024, also those that may be powers of 1000.
pub(super) fn parse_size(text: &str) -> Option<Size> {
    let ends = text.split([':', '-', ',']).map(|end| parse_one(end.trim()));
    ends.collect::<Option<Vec<Size>>>()?
        .into_iter()
        .max_by_key(|size| match size {
            Size::Bytes(bytes) => (0, *bytes),
            Size::Percent(percent) => (1, *percent),
        })
}

fn parse_one(text: &str) -> Option<Size> {
    match text.strip_suffix('%') {
        Some(share) => share.trim().parse().ok().map(Size::Percent),
        None => quantity::bytes(text).map(Size::Bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn needed(text: &str) -> u64 {
        let files = JobFile::parse("j", text).unwrap().files(MIB).into_iter();
        files.map(|(_, bytes)| bytes).fold(0, u64::saturating_add)
    }

    #[test]
    fn workers_without_number_are_counted_and_not_listed() {
        let file = JobFile::parse("j", &"[a]\nnumjobs=4096\nsize=1m\n".repeat(3)).unwrap();
        let each = ("a".to_owned(), 4096 * MIB);
        assert_eq!(file.files(MIB), [each.clone(), each.clone(), each]);
    }

    #[test]
    fn the_files_of_workers_are_known_by_name_and_are_all_that_is_needed() {
        let text = "[a]\nnumjobs=2\noffset_increment=4m\n[b]\nsize=3m\n";
        let file = JobFile::parse("j", text).unwrap();
        let files = file.files(MIB);
        let expected = [
            ("a.0 of 1", MIB),
            ("a.1 of 1", 5 * MIB),
            ("b.0 of 1", 3 * MIB),
        ];
        assert_eq!(
            files,
            expected.map(|(name, bytes)| (name.to_owned(), bytes))
        );
        assert_eq!(needed(text), 9 * MIB);
    }

    #[test]
    fn what_the_sections_say_goes_before_what_the_run_says() {
        for (text, bytes) in [
            ("[a]\nrw=write\n", MIB),
            ("[a]\nrw=write\nsize=10m\n", 10 * MIB),
            ("[a]\nsize=1g\nsize=2MiB\n", 2 * MIB),
            (
                "[global]\nsize=3m\n[a]\nnumjobs=4\n[b]\nsize=0.5m\n",
                12 * MIB + MIB / 2,
            ),
            ("[a]\nfilesize=1m-4m\nnrfiles=5\n", 20 * MIB),
            ("[a]\nsize=9m\nfilesize=1m\nnr_files=2\n", 2 * MIB),
            ("[a]\noffset=7m\n", 8 * MIB),
            ("[a]\nnumjobs=3\noffset_increment=10m\n", 33 * MIB),
            ("[a]\nsize=0x100000\n", MIB),
            ("[a]\nsize=50%\noffset=25%\n", MIB / 4 * 3),
            ("[a]\nsize=2Mi\n", 2 * MIB),
            ("[a]\nsize=4000000t\nnumjobs=4096\n", u64::MAX),
        ] {
            assert_eq!(needed(text), bytes, "{text}");
        }
    }

    #[test]
    fn a_load_that_has_room_for_one_block_is_known() {
        let is_one =
            |text: &str, file_size| JobFile::parse("j", text).unwrap().is_one_block(file_size);
        assert!(is_one("[a]\nrw=read\nbs=64k\nsize=64k\n", Some(MIB)));
        assert!(is_one("[a]\nrw=read\nfilesize=4096\n", None));
        assert!(is_one("[a]\nrw=read\nbs=1m\n", Some(MIB)));
        assert!(!is_one("[a]\nrw=read\nbs=4k\nsize=64k\n", None));
        assert!(!is_one("[a]\nrw=read\n", None));
        assert!(!is_one("[a]\nsize=4k\n[b]\nsize=1m\n", None));
        assert!(!is_one("[a]\nsize=4k\nnrfiles=4\n", None));
    }

    #[test]
    fn what_takes_all_that_is_free_is_named() {
        let fills = |text: &str| JobFile::parse("j", text).unwrap().fills();
        assert_eq!(fills("[a]\nrw=write\nsize=100%\n"), None);
        assert_eq!(
            fills("[a]\nfill_fs=1\n").unwrap(),
            "fill_device=1 in line 2"
        );
        assert_eq!(
            fills("[a]\nfill_device\n").unwrap(),
            "fill_device=1 in line 2"
        );
        assert_eq!(fills("[a]\nsize=1g\nfill_device=0\n"), None);
    }

    #[test]
    fn a_size_that_is_not_understood_is_refused_by_line() {
        for value in ["much", "10z", "(1g*2)", "", "-5", "900000000t"] {
            let text = format!("[a]\nrw=write\nsize={value}\n");
            let error = JobFile::parse("j", &text).unwrap_err().to_string();
            assert!(error.starts_with("j:3: size"), "{error}");
        }
    }
}
