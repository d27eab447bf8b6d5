//! The job file that fio gets: the sections anew, with what the trial says put last.

use std::fmt::Write as _;

use super::{Assignment, Job, JobFile, JobTarget, TrialSettings};

/// Options that say which part of a disk is used: then that is kept.
const PLACED: &[&str] = &[
    "offset",
    "offset_increment",
    "offset_align",
    "size",
    "filesize",
    "io_size",
    "zonemode",
    "zonesize",
    "zonerange",
    "zoneskip",
    "random_distribution",
];

/// Options that say which files there are, and what is in them.
const OF_FILES: &[&str] = &[
    "rw",
    "bs",
    "bsrange",
    "bssplit",
    "size",
    "io_size",
    "filesize",
    "fill_device",
    "nrfiles",
    "openfiles",
    "numjobs",
    "offset",
    "offset_align",
    "offset_increment",
    "kb_base",
    "buffer_compress_chunk",
    "buffer_compress_percentage",
    "buffer_pattern",
    "dedupe_mode",
    "dedupe_percentage",
    "zero_buffers",
];

impl JobFile {
    /// True if nothing says which part of a disk is used.
    pub(crate) fn can_move(&self) -> bool {
        self.jobs.iter().all(Job::can_move)
    }

    /// The job file that fio gets for a trial.
    pub(crate) fn compose(&self, settings: &TrialSettings) -> String {
        self.compose_with(settings, &[])
    }

    /// The job file that writes the test files of a directory and does nothing else.
    pub(crate) fn compose_layout(&self, settings: &TrialSettings) -> String {
        let mut file = self.clone();
        for job in &mut file.jobs {
            // Nothing of when and how fast: the first one that has its file must not end the others.
            let of_files = |given: &Assignment| OF_FILES.contains(&given.key.as_str());
            job.assignments.retain(of_files);
        }
        file.compose_with(settings, &[("create_only", "1")])
    }

    /// The same for jobs that make their files: nothing is written before.
    pub(crate) fn compose_new(&self, settings: &TrialSettings) -> String {
        self.compose_with(settings, &[("overwrite", "0"), ("create_on_open", "1")])
    }

    fn compose_with(&self, settings: &TrialSettings, last: &[(&str, &str)]) -> String {
        let mut text = String::new();
        for job in &self.jobs {
            let _ = writeln!(text, "[{}]", job.name);
            let mut put = |key: &str, value: &str| {
                let _ = writeln!(text, "{key}={value}");
            };
            if let JobTarget::Directory { file_size, .. } = &settings.place {
                put("size", &file_size.to_string());
            }
            for assignment in &job.assignments {
                let _ = writeln!(text, "{}", assignment.plain(&settings.place));
            }
            let mut put = |key: &str, value: &str| {
                let _ = writeln!(text, "{key}={value}");
            };
            match &settings.place {
                JobTarget::Path(path) => {
                    if settings.shift > 0 && job.can_move() {
                        put("offset", &settings.shift.to_string());
                    }
                    put("filename", &path.replace(':', "\\:"));
                    // It is somebody's, and must be there.
                    put("allow_file_create", "0");
                }
                JobTarget::Directory { directory, .. } => {
                    put("directory", &directory.replace(':', "\\:"));
                    // Files are written in full before the first trial, and only overwritten then:
                    // reads of holes and first writes would measure the file system's allocator.
                    put("fallocate", "none");
                    put("overwrite", "1");
                }
            }
            // What fio works on stays: the user's file, and our own for the next trial.
            put("unlink", "0");
            put("unlink_each_loop", "0");
            // Otherwise fio leaves a state file in its working directory.
            put("verify_state_save", "0");
            if let Some(runtime) = settings.runtime {
                put("runtime", &format!("{}ms", runtime.as_millis()));
                put("time_based", "1");
            }
            if let Some(ramp) = settings.ramp {
                put("ramp_time", &format!("{}ms", ramp.as_millis()));
            }
            // With the default, 1, fio 3.33 reads the same places whatever the seed is.
            put("randrepeat", "0");
            put("randseed", &settings.seed.to_string());
            // Threads of one process: they die with it, and each still has its own io context.
            put("thread", "1");
            put("group_reporting", "0");
            // Latencies are the program's: from before the submission until it has the answer.
            put("disable_lat", "0");
            put("lat_percentiles", "1");
            put("clat_percentiles", "0");
            for (key, value) in last {
                put(key, value);
            }
            text.push('\n');
        }
        text
    }
}

impl Job {
    fn can_move(&self) -> bool {
        let is_placed = |given: &Assignment| PLACED.contains(&given.key.as_str());
        !self.assignments.iter().any(is_placed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::allowed::DIRECTIONS;
    use super::*;

    fn settings() -> TrialSettings {
        TrialSettings {
            place: JobTarget::Path("/dev/loop9".into()),
            runtime: Some(Duration::from_secs(10)),
            ramp: None,
            counted: None,
            seed: 7,
            shift: 0,
        }
    }

    #[test]
    fn offsets_are_moved_unless_the_file_says_where_it_reads() {
        let text = "[a]\nrw=randread\n[b]\nrw=randread\nsize=1g\n";
        let file = JobFile::parse("j", text).unwrap();
        let moved = TrialSettings {
            shift: 1 << 24,
            ..settings()
        };
        let text = file.compose(&moved);
        let (a, b) = text.split_once("[b]").unwrap();
        assert!(
            a.contains("offset=16777216\n") && !b.contains("offset"),
            "{text}"
        );
        assert!(!file.compose(&settings()).contains("offset"));
    }

    #[test]
    fn the_target_the_seed_and_the_run_time_stand_last_where_fio_lets_them_win() {
        let file = JobFile::parse("j", "[global]\nbs=4k\n[a]\nrw=randread\nruntime=99\n").unwrap();
        let text = file.compose(&settings());
        let own = text.find("runtime=99").unwrap();
        assert!(text.find("runtime=10000ms").unwrap() > own, "{text}");
        assert!(text.contains("filename=/dev/loop9\n"), "{text}");
        assert!(
            text.contains("randrepeat=0\nrandseed=7\n") && text.contains("thread=1\n"),
            "{text}"
        );
    }

    #[test]
    fn a_colon_in_a_path_is_escaped_because_fio_splits_there() {
        let file = JobFile::parse("j", "[a]\nrw=read\n").unwrap();
        let place = JobTarget::Path("/dev/disk/by-path/pci-0000:00".into());
        let text = file.compose(&TrialSettings {
            place,
            ..settings()
        });
        assert!(
            text.contains("filename=/dev/disk/by-path/pci-0000\\:00\n"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn what_is_composed_can_be_read_again_but_for_our_own_options(
            bs in 1u32..64, depth in 1u32..64, direction in 0usize..7,
        ) {
            let text = format!("[a]\nrw={}\nbs={bs}k\niodepth={depth}\n", DIRECTIONS[direction]);
            let file = JobFile::parse("j", &text).unwrap();
            let composed = file.compose(&settings());
            for line in text.lines() {
                prop_assert!(composed.lines().any(|other| other == line));
            }
        }
    }
}
