//! Which options and values may be in a load.

use iosched_machine::failure::Problem;

use super::room::{SIZE_WANTED, SIZES, parse_size};
use super::{Assignment, parse_time};

/// The rule which options may be in a load: what is known to stay inside the target passes, what
/// is known to reach beyond it is refused with the reason, everything else is refused by name.
pub(super) fn check(file: &str, assignment: &Assignment) -> Result<(), Problem> {
    let Assignment { line, key, value } = assignment;
    if let Some((_, cause)) = DANGEROUS.iter().find(|(option, _)| option == key) {
        let message = format!("{file}:{line}: option {key} is refused: {cause}");
        return Err(Problem::usage(message).hint(match key.as_str() {
            "ioscheduler" => "name the schedulers with --arms instead".into(),
            "filename" | "directory" | "filename_format" | "opendir" => {
                "name the target on the command line: iosched tune TARGET".into()
            }
            _ => format!("remove {key} from the job file"),
        }));
    }
    if HARMLESS.binary_search(&key.as_str()).is_err() {
        let message = format!("{file}:{line}: option {key} is not supported in a load");
        return Err(Problem::usage(message).hint(format!(
            "remove {key}: only options that are known to stay inside the target are run"
        )));
    }
    let given = value.as_deref().unwrap_or("1");
    let bad = |cause: String| {
        Problem::usage(format!(
            "{file}:{line}: {key}={given} is not supported in a load: {cause}"
        ))
        .hint("change the value")
    };
    match key.as_str() {
        "ioengine" if !ENGINES.contains(&given) => Err(bad(format!(
            "engines that do block I/O on the target are {}",
            ENGINES.join(", ")
        ))),
        "rw" | "readwrite" if !DIRECTIONS.contains(&given.split(':').next().unwrap_or("")) => {
            Err(bad(format!("known are {}", DIRECTIONS.join(", "))))
        }
        "numjobs"
            if given
                .parse::<u64>()
                .ok()
                .is_none_or(|n| !(1..=4096).contains(&n)) =>
        {
            Err(bad("a number from 1 to 4096 is wanted".into()))
        }
        "runtime" | "ramp_time" | "startdelay" if parse_time(given).is_none() => {
            Err(bad("a time such as 10, 10s or 500ms is wanted".into()))
        }
        "nrfiles" | "nr_files" if given.parse().is_ok_and(|n: u32| n == 0) => Err(bad(
            "a job without files does nothing: a number from 1 on is wanted".into(),
        )),
        "nrfiles" | "nr_files" if given.parse::<u32>().is_err() => {
            Err(bad("a number of files is wanted".into()))
        }
        size if SIZES.contains(&size) && parse_size(given).is_none() => {
            Err(bad(SIZE_WANTED.into()))
        }
        _ => Ok(()),
    }
}

const ENGINES: &[&str] = &[
    "libaio", "io_uring", "psync", "sync", "vsync", "pvsync", "pvsync2", "posixaio", "mmap",
];

pub(super) const DIRECTIONS: &[&str] = &[
    "read",
    "write",
    "randread",
    "randwrite",
    "rw",
    "readwrite",
    "randrw",
    "trim",
    "randtrim",
    "trimwrite",
    "randtrimwrite",
];

/// Options that could write elsewhere than the target, run programs, or change what is measured.
const DANGEROUS: &[(&str, &str)] = &[
    (
        "ioscheduler",
        "it would switch the scheduler under the trial",
    ),
    ("filename", "it could write elsewhere than the target"),
    ("directory", "it could write elsewhere than the target"),
    (
        "filename_format",
        "it could write elsewhere than the target",
    ),
    ("opendir", "it could write elsewhere than the target"),
    ("include", "it reads another file, which is not checked"),
    ("exec_prerun", "it runs a program"),
    ("exec_postrun", "it runs a program"),
    (
        "replay_redirect",
        "it could write elsewhere than the target",
    ),
    ("read_iolog", "it could write elsewhere than the target"),
    ("write_iolog", "it writes a file outside the target"),
    ("write_bw_log", "it writes a file outside the target"),
    ("write_lat_log", "it writes a file outside the target"),
    ("write_hist_log", "it writes a file outside the target"),
    ("write_iops_log", "it writes a file outside the target"),
    ("bwavgtime", "it belongs to log files, which are refused"),
    ("write_global", "it writes a file outside the target"),
    ("aux-path", "it writes files outside the target"),
    ("trigger_file", "it runs a program"),
    ("trigger", "it runs a program"),
    ("verify_state_save", "it writes a file outside the target"),
    ("verify_state_load", "it reads a file outside the target"),
    ("buffer_pattern", "it can read any file of the machine"),
    ("hostname", "it opens a network connection"),
    ("uid", "use --user of iosched instead"),
    ("gid", "use --user of iosched instead"),
    (
        "allow_mounted_write",
        "it takes away fio's own guard of mounted disks",
    ),
    ("kb_base", "it changes the units of the result"),
    ("unit_base", "it changes the units of the result"),
    ("group_reporting", "results are wanted job by job"),
];

/// Options that stay inside the target. Sorted, for the search.
const HARMLESS: &[&str] = &[
    "atomic",
    "blockalign",
    "blocksize",
    "blocksize_range",
    "blocksize_unaligned",
    "bs",
    "bs_is_seq_rand",
    "bs_unaligned",
    "bsrange",
    "bssplit",
    "buffer_compress_chunk",
    "buffer_compress_percentage",
    "buffered",
    "clat_percentiles",
    "clocksource",
    "cmdprio_percentage",
    "continue_on_error",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_fsync",
    "create_on_open",
    "create_serialize",
    "dedupe_percentage",
    "direct",
    "disable_clat",
    "disable_slat",
    "do_verify",
    "end_fsync",
    "exitall",
    "fadvise_hint",
    "fallocate",
    "fdatasync",
    "file_service_type",
    "filesize",
    "fill_device",
    "fill_fs",
    "fixedbufs",
    "flow",
    "flow_id",
    "flow_sleep",
    "fsync",
    "fsync_on_close",
    "gtod_reduce",
    "hipri",
    "invalidate",
    "io_size",
    "io_submit_mode",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete",
    "iodepth_batch_complete_max",
    "iodepth_batch_complete_min",
    "iodepth_batch_submit",
    "iodepth_low",
    "ioengine",
    "latency_percentile",
    "latency_run",
    "latency_target",
    "latency_window",
    "lockmem",
    "log_avg_msec",
    "loops",
    "max_latency",
    "new_group",
    "nice",
    "norandommap",
    "nowait",
    "nr_files",
    "nrfiles",
    "number_ios",
    "numjobs",
    "offset",
    "offset_align",
    "offset_increment",
    "openfiles",
    "overwrite",
    "percentage_random",
    "percentage_sequential",
    "percentile_list",
    "pre_read",
    "prio",
    "prio_class",
    "prioclass",
    "priolevel",
    "ramp_time",
    "random_distribution",
    "random_generator",
    "randrepeat",
    "randseed",
    "rate",
    "rate_cycle",
    "rate_iops",
    "rate_iops_min",
    "rate_min",
    "rate_process",
    "read_beyond_wp",
    "readwrite",
    "refill_buffers",
    "registerfiles",
    "runtime",
    "rw",
    "rw_sequencer",
    "rwmixread",
    "rwmixwrite",
    "scramble_buffers",
    "serialize_overlap",
    "significant_figures",
    "size",
    "slat_percentiles",
    "softrandommap",
    "ss",
    "ss_dur",
    "ss_ramp",
    "startdelay",
    "steadystate",
    "steadystate_duration",
    "steadystate_ramp_time",
    "stonewall",
    "sync",
    "sync_file_range",
    "thinktime",
    "thinktime_blocks",
    "thinktime_blocks_type",
    "thinktime_iotime",
    "thinktime_spin",
    "thread",
    "time_based",
    "timeout",
    "trim_backlog",
    "trim_percentage",
    "unlink",
    "userspace_reap",
    "verify",
    "verify_fatal",
    "verify_interval",
    "wait_for",
    "wait_for_previous",
    "write_barrier",
    "zero_buffers",
];

#[cfg(test)]
mod tests {
    use super::super::JobFile;
    use super::*;

    #[test]
    fn the_harmless_options_are_sorted_for_the_search_and_none_is_dangerous() {
        assert!(HARMLESS.is_sorted(), "keep the list sorted");
        for (option, _) in DANGEROUS {
            assert!(HARMLESS.binary_search(option).is_err(), "{option}");
        }
    }

    #[test]
    fn an_option_that_reaches_beyond_the_target_is_refused_by_name_and_line() {
        for option in [
            "filename=/etc/passwd",
            "ioscheduler=bfq",
            "exec_prerun=rm -rf /",
            "write_bw_log=x",
            "directory=/",
        ] {
            let text = format!("[a]\nrw=read\n{option}\n");
            let error = JobFile::parse("my.fio", &text).unwrap_err().to_string();
            let name = option.split('=').next().unwrap();
            let begins = format!("my.fio:3: option {name} is refused: ");
            assert!(error.starts_with(&begins), "{error}");
        }
    }

    #[test]
    fn an_unknown_option_an_engine_and_a_direction_are_refused_by_name() {
        let refused = |text: &str| JobFile::parse("j", text).unwrap_err().to_string();
        assert_eq!(
            refused("[a]\nrw=read\nfrobnicate=1\n"),
            "j:3: option frobnicate is not supported in a load"
        );
        assert!(refused("[a]\nioengine=exec\n").starts_with("j:2: ioengine=exec is not supported"));
        assert!(refused("[a]\nrw=upward\n").starts_with("j:2: rw=upward is not supported"));
        assert!(refused("[a]\nbs=${HOME}\n").contains("variables"));
        assert!(refused("[global]\nbs=4k\n").contains("no job in it"));
    }
}
