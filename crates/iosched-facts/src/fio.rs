//! fio's options: which of them a load takes as they are, which iosched replaces, and which it refuses.
//!
//! Follows fio's HOWTO and `fio --cmdhelp` (3.33), with the options of the engines in [`ENGINES`]. What a version of fio has
//! besides is no business of this table: fio takes or refuses it.

use Handling::{Kept, Refused, Replaced};
use Value::{Flag, Number, Size, SizeOrShare, Switch, Text, Time, Word};

/// An option of a fio job file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FioOption {
    /// As fio calls it.
    pub name: &'static str,
    /// Its other name.
    pub alias: Option<&'static str>,
    /// What becomes of it in a load.
    pub handling: Handling,
    /// What it can be set to.
    pub value: Value,
}

/// What becomes of an option in a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    /// It shapes the I/O, or changes nothing.
    Kept,
    /// Left out, with what is there instead.
    Replaced(&'static str),
    /// The file is refused, with the reason.
    Refused(&'static str),
}

/// What an option can be set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// Anything, or several values.
    Text,
    /// 0 or 1.
    Flag,
    /// 0 or 1, and 1 where it stands alone.
    Switch,
    /// A whole number.
    Number,
    /// Bytes, with a unit or not.
    Size,
    /// [`Value::Size`], or a percentage.
    SizeOrShare,
    /// A time; without a unit it counts in so many nanoseconds.
    Time(u64),
    /// One of these words, before a `:`.
    Word(&'static [&'static str]),
}

/// Engines by which fio does block I/O on a file or a disk. `splice` and `mmap` go through the page cache.
pub const ENGINES: &[&str] = &[
    "libaio", "io_uring", "psync", "sync", "vsync", "pvsync", "pvsync2", "posixaio", "mmap",
    "splice",
];

const SECOND: u64 = 1_000_000_000;
const MICROSECOND: u64 = 1_000;

const TARGET: Handling = Replaced("the target");
const SECTION: Handling = Replaced("the section's name");
const SEED: Handling = Replaced("the seed of the round");
const FILES: Handling = Replaced("test files that are written before the first trial and kept");
const THREADS: Handling = Replaced("threads");
const JOBS: Handling = Replaced("a result for each job");
const DIRECTIONS: Handling = Replaced("a result for reads and one for writes");
const LATENCIES: Handling = Replaced("all latencies");
const RECORD: Handling = Replaced("the record");
const USER: Handling = Replaced("--user");
const PROGRAM: Handling = Replaced("an empty page cache (no program runs beside a trial)");
const CGROUP: Handling = Refused("fio makes cgroups of version 1, which a load may not");
const PLAYBACK: Handling =
    Refused("it plays a recording back: `iosched simulate --trace FILE` does that");
const VERIFIED: Handling = Refused("it verifies data that another run wrote");

const fn option(name: &'static str, handling: Handling, value: Value) -> FioOption {
    FioOption {
        name,
        alias: None,
        handling,
        value,
    }
}

impl FioOption {
    const fn also(self, alias: &'static str) -> FioOption {
        FioOption {
            alias: Some(alias),
            ..self
        }
    }

    /// The option of this name, or of which this is the other name.
    pub fn find(name: &str) -> Option<&'static FioOption> {
        let by_name = OPTIONS.binary_search_by_key(&name, |option| option.name);
        match by_name {
            Ok(at) => Some(&OPTIONS[at]),
            Err(_) => OPTIONS.iter().find(|option| option.alias == Some(name)),
        }
    }
}

/// All of them, sorted by name.
pub static OPTIONS: &[FioOption] = &[
    option("allow_file_create", TARGET, Flag),
    option(
        "allow_mounted_write",
        Refused("it takes away fio's own guard of mounted disks"),
        Flag,
    ),
    option("allrandrepeat", SEED, Flag),
    option("atomic", Kept, Flag),
    option("ba", Kept, Size).also("blockalign"),
    option("block_error_percentiles", Kept, Flag),
    option("bs", Kept, Size).also("blocksize"),
    option("bs_is_seq_rand", Kept, Flag),
    option("bs_unaligned", Kept, Switch).also("blocksize_unaligned"),
    option("bsrange", Kept, Text).also("blocksize_range"),
    option("bssplit", Kept, Text),
    option("buffer_compress_chunk", Kept, Size),
    option("buffer_compress_percentage", Kept, Number),
    option("buffer_pattern", Kept, Text),
    option("buffered", Kept, Flag),
    option("bwavgtime", RECORD, Number),
    option("cgroup", CGROUP, Text),
    option("cgroup_nodelete", CGROUP, Flag),
    option("cgroup_weight", CGROUP, Number),
    option("clat_percentiles", LATENCIES, Flag),
    option(
        "clocksource",
        Kept,
        Word(&["gettimeofday", "clock_gettime", "cpu"]),
    ),
    option("cmdprio", Kept, Text),
    option("cmdprio_bssplit", Kept, Text),
    option("cmdprio_class", Kept, Text),
    option("cmdprio_percentage", Kept, Text),
    option(
        "continue_on_error",
        Kept,
        Word(&["none", "read", "write", "io", "verify", "all", "0", "1"]),
    ),
    option("cpumask", Kept, Number),
    option("cpus_allowed", Kept, Text),
    option("cpus_allowed_policy", Kept, Word(&["shared", "split"])),
    option("create_fsync", FILES, Flag),
    option("create_on_open", FILES, Flag),
    option("create_only", FILES, Flag),
    option("create_serialize", FILES, Flag),
    option("dedupe_global", Kept, Flag),
    option("dedupe_mode", Kept, Word(&["repeat", "working_set"])),
    option("dedupe_percentage", Kept, Number),
    option("dedupe_working_set_percentage", Kept, Number),
    option("description", Kept, Text),
    option("direct", Kept, Flag),
    option("directory", TARGET, Text),
    option("disable_bw_measurement", Kept, Flag).also("disable_bw"),
    option("disable_clat", LATENCIES, Flag),
    option("disable_lat", LATENCIES, Flag),
    option("disable_slat", LATENCIES, Flag),
    option("disk_util", Kept, Flag),
    option("do_verify", Kept, Flag),
    option("end_fsync", Kept, Flag),
    option("error_dump", Kept, Flag),
    option("exec_postrun", PROGRAM, Text),
    option("exec_prerun", PROGRAM, Text),
    option("exit_what", Kept, Word(&["group", "stonewall", "all"])),
    option("exitall", Kept, Switch),
    option("exitall_on_error", Kept, Switch),
    option("experimental_verify", Kept, Flag),
    option(
        "fadvise_hint",
        Kept,
        Word(&["0", "1", "random", "sequential"]),
    ),
    option(
        "fallocate",
        FILES,
        Word(&["none", "native", "posix", "keep", "truncate", "0", "1"]),
    ),
    option("fdatasync", Kept, Number),
    option("file_append", FILES, Flag),
    option("file_service_type", Kept, Text),
    option("filename", TARGET, Text),
    option("filename_format", TARGET, Text),
    option("filesize", Kept, Size),
    option("fill_device", Kept, Flag).also("fill_fs"),
    option("fixedbufs", Kept, Switch),
    option("flow", Kept, Number),
    option("flow_id", Kept, Number),
    option("flow_sleep", Kept, Number),
    option("force_async", Kept, Number),
    option("fsync", Kept, Number),
    option("fsync_on_close", Kept, Flag),
    option("gid", USER, Number),
    option("group_reporting", JOBS, Switch),
    option("gtod_cpu", Kept, Number),
    option("gtod_reduce", LATENCIES, Flag),
    option("hipri", Kept, Switch),
    option("hipri_percentage", Kept, Number),
    option("hugepage-size", Kept, Size),
    option("ignore_error", Kept, Text),
    option("ignore_zone_limits", Kept, Flag),
    option("invalidate", Kept, Flag),
    option("io_size", Kept, SizeOrShare).also("io_limit"),
    option("io_submit_mode", Kept, Word(&["inline", "offload"])),
    option("iodepth", Kept, Number),
    option("iodepth_batch", Kept, Number).also("iodepth_batch_submit"),
    option("iodepth_batch_complete_max", Kept, Number),
    option("iodepth_batch_complete_min", Kept, Number).also("iodepth_batch_complete"),
    option("iodepth_low", Kept, Number),
    option("ioengine", Kept, Word(ENGINES)),
    option("iopsavgtime", RECORD, Number),
    option(
        "ioscheduler",
        Refused("it would switch the scheduler under the trial: name schedulers with --arms"),
        Text,
    ),
    option("job_max_open_zones", Kept, Number),
    option("kb_base", Kept, Word(&["1024", "1000"])),
    option("lat_percentiles", LATENCIES, Flag),
    option("latency_percentile", Kept, Text),
    option("latency_run", Kept, Flag),
    option("latency_target", Kept, Time(MICROSECOND)),
    option("latency_window", Kept, Time(MICROSECOND)),
    option("lockfile", Kept, Word(&["none", "exclusive", "readwrite"])),
    option("lockmem", Kept, Size),
    option("log_alternate_epoch", RECORD, Flag),
    option("log_alternate_epoch_clock_id", RECORD, Number),
    option("log_avg_msec", RECORD, Number),
    option("log_compression", RECORD, Size),
    option("log_compression_cpus", RECORD, Text),
    option("log_entries", RECORD, Number),
    option("log_hist_coarseness", RECORD, Number),
    option("log_hist_msec", RECORD, Number),
    option("log_max_value", RECORD, Flag),
    option("log_offset", RECORD, Flag),
    option("log_prio", RECORD, Flag),
    option("log_store_compressed", RECORD, Flag),
    option("log_unix_epoch", RECORD, Flag),
    option("loops", Kept, Number),
    option("max_latency", Kept, Time(MICROSECOND)),
    option("max_open_zones", Kept, Number),
    option("mem", Kept, Text).also("iomem"),
    option("merge_blktrace_file", PLAYBACK, Text),
    option("merge_blktrace_iters", PLAYBACK, Text),
    option("merge_blktrace_scalars", PLAYBACK, Text),
    option("name", SECTION, Text),
    option("new_group", Kept, Switch),
    option("nice", Kept, Number),
    option("nonvectored", Kept, Switch),
    option("norandommap", Kept, Switch),
    option("nowait", Kept, Switch),
    option("nrfiles", Kept, Number).also("nr_files"),
    option("numa_cpu_nodes", Kept, Text),
    option("numa_mem_policy", Kept, Text),
    option("number_ios", Kept, Number),
    option("numjobs", Kept, Number),
    option("offset", Kept, SizeOrShare).also("fileoffset"),
    option("offset_align", Kept, Size),
    option("offset_increment", Kept, SizeOrShare),
    option("opendir", TARGET, Text),
    option("openfiles", Kept, Number),
    option("overwrite", FILES, Flag),
    option("per_job_logs", RECORD, Flag),
    option("percentage_random", Kept, Text),
    option("percentage_sequential", Kept, Number),
    option("percentile_list", LATENCIES, Text),
    option("pre_read", Kept, Flag),
    option("prio", Kept, Number),
    option("prioclass", Kept, Number),
    option(
        "profile",
        Refused("it replaces the job by one of fio's own programs"),
        Text,
    ),
    option("ramp_time", Kept, Time(SECOND)),
    option("random_distribution", Kept, Text),
    option(
        "random_generator",
        Kept,
        Word(&["tausworthe", "lfsr", "tausworthe64"]),
    ),
    option("randrepeat", SEED, Flag),
    option("randseed", SEED, Number),
    option("rate", Kept, Text),
    option("rate_cycle", Kept, Number).also("ratecycle"),
    option("rate_ignore_thinktime", Kept, Flag),
    option("rate_iops", Kept, Text),
    option("rate_iops_min", Kept, Text),
    option("rate_min", Kept, Text).also("ratemin"),
    option("rate_process", Kept, Word(&["linear", "poisson"])),
    option("read_beyond_wp", Kept, Flag),
    option("read_iolog", PLAYBACK, Text),
    option("read_iolog_chunked", Kept, Flag),
    option("refill_buffers", Kept, Switch),
    option("registerfiles", Kept, Switch),
    option("replay_align", Kept, Size),
    option("replay_no_stall", Kept, Flag),
    option("replay_redirect", TARGET, Text),
    option("replay_scale", Kept, Number),
    option("replay_skip", Kept, Text),
    option("replay_time_scale", Kept, Number),
    option("runtime", Kept, Time(SECOND)).also("timeout"),
    option("rw", Kept, Text).also("readwrite"),
    option("rw_sequencer", Kept, Word(&["sequential", "identical"])),
    option("rwmixread", Kept, Number),
    option("rwmixwrite", Kept, Number),
    option("scramble_buffers", Kept, Flag),
    option("serialize_overlap", Kept, Flag),
    option("significant_figures", Kept, Number),
    option("size", Kept, SizeOrShare),
    option("slat_percentiles", LATENCIES, Flag),
    option("softrandommap", Kept, Flag),
    option("sqthread_poll", Kept, Switch),
    option("sqthread_poll_cpu", Kept, Number),
    option("startdelay", Kept, Time(SECOND)),
    option("stats", JOBS, Flag),
    option("steadystate", Kept, Text).also("ss"),
    option("steadystate_duration", Kept, Time(SECOND)).also("ss_dur"),
    option("steadystate_ramp_time", Kept, Time(SECOND)).also("ss_ramp"),
    option("stonewall", Kept, Switch).also("wait_for_previous"),
    option("sync", Kept, Word(&["none", "0", "sync", "1", "dsync"])),
    option("sync_file_range", Kept, Text),
    option("thinktime", Kept, Time(MICROSECOND)),
    option("thinktime_blocks", Kept, Number),
    option("thinktime_blocks_type", Kept, Word(&["complete", "issue"])),
    option("thinktime_iotime", Kept, Time(MICROSECOND)),
    option("thinktime_spin", Kept, Time(MICROSECOND)),
    option("thp", Kept, Flag),
    option("thread", THREADS, Switch),
    option("time_based", Kept, Switch),
    option("trim_backlog", Kept, Number),
    option("trim_backlog_batch", Kept, Number),
    option("trim_percentage", Kept, Number),
    option("trim_verify_zero", Kept, Flag),
    option("uid", USER, Number),
    option("uncached", Kept, Switch),
    option(
        "unified_rw_reporting",
        DIRECTIONS,
        Word(&["none", "mixed", "both", "0", "1", "2"]),
    ),
    option("unique_filename", TARGET, Flag),
    option("unit_base", Kept, Word(&["0", "8", "1"])),
    option("unlink", FILES, Flag),
    option("unlink_each_loop", FILES, Flag),
    option("userspace_reap", Kept, Switch),
    option("verify", Kept, Text),
    option("verify_async", Kept, Number),
    option("verify_async_cpus", Kept, Text),
    option("verify_backlog", Kept, Number),
    option("verify_backlog_batch", Kept, Number),
    option("verify_dump", FILES, Flag),
    option("verify_fatal", Kept, Flag),
    option("verify_interval", Kept, Size),
    option("verify_offset", Kept, Size),
    option("verify_only", VERIFIED, Switch),
    option("verify_pattern", Kept, Text),
    option("verify_state_load", VERIFIED, Flag),
    option("verify_state_save", FILES, Flag),
    option("wait_for", Kept, Text),
    option("write_barrier", Kept, Number),
    option("write_bw_log", RECORD, Text),
    option(
        "write_hint",
        Kept,
        Word(&["none", "short", "medium", "long", "extreme"]),
    ),
    option("write_hist_log", RECORD, Text),
    option("write_iolog", RECORD, Text),
    option("write_iops_log", RECORD, Text),
    option("write_lat_log", RECORD, Text),
    option("zero_buffers", Kept, Switch),
    option("zone_reset_frequency", Kept, Text),
    option("zone_reset_threshold", Kept, Text),
    option("zonecapacity", Kept, Size),
    option("zonemode", Kept, Word(&["none", "strided"])),
    option("zonerange", Kept, Size),
    option("zonesize", Kept, Size),
    option("zoneskip", Kept, SizeOrShare),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_sorted_and_each_name_is_there_once() {
        assert!(OPTIONS.is_sorted_by_key(|option| option.name));
        let names = OPTIONS.iter().map(|option| option.name);
        let mut names: Vec<_> = names
            .chain(OPTIONS.iter().filter_map(|option| option.alias))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert_eq!(FioOption::find("blocksize").unwrap().name, "bs");
        assert_eq!(FioOption::find("frobnicate"), None);
    }
}
