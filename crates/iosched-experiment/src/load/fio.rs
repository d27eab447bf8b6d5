//! Runs fio on a composed job file and reads what it measured.
//!
//! Follows the JSON+ output of fio 3.33 (HOWTO, "Interpreting the output"). Latencies are those that the program sees
//! (`lat_ns`): from before the submission, in which it may sleep for want of a free request, until it has the answer.
//! They are kept as histogram bins so that percentiles of several jobs are merged from counts and never averaged.
//!
//! **The end.** When a worker's time is over, fio waits for all that it has under way, and takes them as done when the last
//! one is (`do_io` in backend.c): their latencies are too long. fio is asked to print what it has counted shortly before, too
//! (`--status-interval`), and percentiles are those of what was completed until then (`CountedWindow`). Rates and means are those of
//! all: the drain makes up for the beginning, when nothing can have been completed yet (docs/statistics.md).
//!
//! Versions before 3.11 show the bins below `clat_ns`. Options of ours that a version does not know are left out: fio
//! names them before it does anything.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use iosched_machine::failure::{Problem, exit};
use iosched_machine::process::{self, ChildError, Finished, Reach, Scope, Stop};
use iosched_machine::visible;
use serde::Deserialize;

use super::LoadError;
use super::fio_job::{CountedWindow, JobTarget};
use crate::metrics::{Flow, JobResult};

/// Time that fio may take beyond the load's own duration: start, layout of nothing, result.
const ALLOWANCE: Duration = Duration::from_secs(30);

/// What may take long takes at the most this long: a large slow disk, written twice.
pub(super) const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// fio did not run to its end.
fn child_error(error: ChildError) -> LoadError {
    let is_missing = matches!(error, ChildError::Missing { .. });
    if is_missing && let Some(named) = PROGRAM.get() {
        let message = format!("--fio {}: there is no such file", named.display());
        let hint = "name the program fio; without --fio the one on PATH is run";
        return LoadError::Run(Problem::new(exit::MISSING, message).hint(hint));
    }
    let error = LoadError::from(error);
    if !is_missing {
        return error;
    }
    error.with_hint(
        "install it: apt install fio (Debian, Ubuntu), dnf install fio (Fedora, RHEL), zypper \
         install fio (openSUSE), pacman -S fio (Arch), apk add fio (Alpine)",
    )
}

fn no_engine(engine: &str) -> LoadError {
    let problem = Problem::new(exit::MISSING, format!("this fio has no engine {engine}"));
    LoadError::Run(problem.hint(format!(
        "install it: dnf install fio-engine-{engine} (Fedora, RHEL 9 and later); elsewhere an fio that was built with \
         it (`fio --enghelp` lists what there is)"
    )))
}

/// The program that is run; the one on PATH if nobody named another.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Runs this fio from now on, and not the one on PATH.
pub fn use_program(program: &Path) {
    // Without a working directory there is no relative path, either.
    let program = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
    PROGRAM.get_or_init(|| program);
}

fn command() -> Command {
    Command::new(PROGRAM.get().map_or(Path::new("fio"), PathBuf::as_path))
}

/// The oldest version of fio whose results are read: its JSON+ has bins.
const OLDEST: (u32, u32) = (3, 0);

/// fio's version, for example `fio-3.33`.
///
/// # Errors
/// It is not there, or older than 3.0.
pub fn version() -> Result<String, LoadError> {
    let mut command = command();
    command.arg("--version");
    let finished = process::run(command, Duration::from_secs(30), &Stop::new(), &mut |_| {});
    let found = finished.map_err(child_error)?.stdout.trim().to_owned();
    if numbers(&found).is_none_or(|numbers| numbers >= OLDEST) {
        return Ok(found);
    }
    let message = format!("fio is too old: {found}, and 3.0 is the oldest that is understood");
    Err(LoadError::Run(Problem::new(exit::MISSING, message).hint(
        "install a newer one, from backports or https://github.com/axboe/fio; `fio --version` says which \
             one is found first",
    )))
}

/// The numbers in `fio-3.33`, or `fio-3.33-7-g0a1b`; nothing of what is no version.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version
        .strip_prefix("fio-")?
        .split(|c: char| !c.is_ascii_digit());
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next().and_then(|minor| minor.parse().ok());
    Some((major, minor.unwrap_or(0)))
}

/// How fio is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running<'a> {
    /// How long the load lasts by its own words.
    pub duration: Duration,
    /// fio's own guard against writes, beside our check of the job file.
    pub read_only: bool,
    /// When it is killed; by default after 30 s more than twice its duration.
    pub limit: Option<Duration>,
    /// What percentiles are to be of, if that ends while the load still runs.
    pub counted: Option<CountedWindow>,
    /// What it works on: it reaches nothing else.
    pub place: &'a JobTarget,
    /// Whose rights it has, and where its processes are kept together.
    pub scope: &'a Scope,
    /// Whether the user wants us to stop.
    pub stop: &'a Stop,
}

/// What fio measured.
#[derive(Debug)]
pub(crate) struct Measurement {
    /// What each job did.
    pub jobs: Vec<JobResult>,
    /// How long each job took, by fio's clock: its start and end are not in it.
    pub runtimes: Vec<Duration>,
    /// Until when the latencies of their percentiles were counted, if the load still ran then.
    pub counted: Option<Duration>,
}

impl Measurement {
    /// How long the job took that ended last.
    pub(crate) fn longest(&self) -> Duration {
        self.runtimes.iter().max().copied().unwrap_or_default()
    }
}

/// Runs a composed job file. `tick` is called while it runs.
pub(crate) fn run(
    job_file: &str,
    running: &Running<'_>,
    tick: &mut dyn FnMut(Duration),
) -> Result<Vec<JobResult>, LoadError> {
    Ok(run_timed(job_file, running, tick)?.jobs)
}

/// [`run`], with the time that it took.
pub(crate) fn run_timed(
    job_file: &str,
    running: &Running<'_>,
    tick: &mut dyn FnMut(Duration),
) -> Result<Measurement, LoadError> {
    let mut finished = start(job_file, running, tick)?;
    if !finished.status.success() {
        let unknown = unknown_options(&finished.stderr);
        if !unknown.is_empty() {
            finished = start(&without(job_file, &unknown), running, tick)?;
        }
    }
    if !finished.status.success() {
        if let Some(engine) = lacking_engine(&finished) {
            return Err(no_engine(&engine));
        }
        let status = process::describe(finished.status);
        let message = last_lines(&finished.stderr, &finished.stdout);
        return Err(failed(&status, &message));
    }
    read_result(&finished.stdout, running.counted.as_ref())
}

/// A scope in which fio reaches nothing but this place. A program that is a script needs more than we know, and whoever put
/// it there is trusted.
fn confined(scope: &Scope, place: Option<&JobTarget>) -> Scope {
    let program = PROGRAM.get().map_or(Path::new("fio"), PathBuf::as_path);
    let Some(program) = process::find_program(program).filter(|path| is_binary(path)) else {
        return scope.clone();
    };
    let place = place.map(|place| match place {
        JobTarget::Path(path) => path.into(),
        JobTarget::Directory { directory, .. } => directory.into(),
    });
    scope.within(Reach::of(&program, place.into_iter().collect()))
}

fn is_binary(program: &Path) -> bool {
    let mut begin = [0; 4];
    let read = std::fs::File::open(program).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == *b"\x7fELF"
}

fn start(
    job_file: &str,
    running: &Running<'_>,
    tick: &mut dyn FnMut(Duration),
) -> Result<Finished, LoadError> {
    let mut command = command();
    command
        .arg("--output-format=json+")
        .arg("--eta=never")
        // Where everybody may be, and nobody can lay a link for what fio writes into its working directory.
        .current_dir("/proc");
    if running.read_only {
        command.arg("--readonly");
    }
    if let Some(window) = &running.counted {
        // Before 2.2.7, which is older than any that is taken, fio could hang on it (its issue 52).
        let at = (window.ramp + window.counted).as_millis();
        command.arg(format!("--status-interval={at}ms"));
    }
    command.arg("-"); // the job file comes on standard input
    let limit = running.limit.unwrap_or(running.duration * 2 + ALLOWANCE);
    let scope = confined(running.scope, Some(running.place));
    let ran = scope.run_with_input(command, job_file, limit, running.stop, tick);
    ran.map_err(child_error)
}

/// What fio refuses of a composed job file, in its words; nothing where fio is not there, or says nothing of options.
pub(crate) fn refusals(job_file: &str) -> Vec<String> {
    let mut command = command();
    command.args(["--parse-only", "-"]).current_dir("/proc");
    let scope = confined(&Scope::default(), None);
    let (limit, stop) = (Duration::from_secs(30), Stop::new());
    let Ok(said) = scope.run_with_input(command, job_file, limit, &stop, &mut |_| {}) else {
        return Vec::new();
    };
    let ours = unknown_options(&said.stderr);
    let is_refusal = |line: &&str| {
        let is_ours = ours
            .iter()
            .any(|option| line.contains(&format!("<{option}=")));
        let begins = ["Bad option", "fio: failed parsing", "Option "];
        !is_ours && begins.iter().any(|begin| line.starts_with(begin))
    };
    let lines = said.stderr.lines().filter(is_refusal);
    lines
        .map(|line| visible::beginning_of(line.trim_start_matches("fio: ")))
        .collect()
}

fn failed(status: &str, message: &str) -> LoadError {
    LoadError::trial(format!("fio failed with {status}: {message}"))
}

/// Options that we set for what newer versions do, and that mean nothing to those that lack them.
const NOT_EVERYWHERE: [&str; 3] = ["lat_percentiles", "unlink_each_loop", "verify_state_save"];

/// Those of [`NOT_EVERYWHERE`] that fio says it does not know, as it says it.
fn unknown_options(stderr: &str) -> BTreeSet<&'static str> {
    let named = |option: &&str| stderr.contains(&format!("Bad option <{option}="));
    let mut unknown: BTreeSet<&str> = NOT_EVERYWHERE.into_iter().filter(named).collect();
    if unknown.contains("lat_percentiles") {
        unknown.insert("clat_percentiles"); // then these are all that there are
    }
    unknown
}

/// The engine that fio says it cannot load: `fio: engine libaio not loadable`.
fn lacking_engine(finished: &Finished) -> Option<String> {
    let mut lines = finished.stderr.lines().chain(finished.stdout.lines());
    lines.find_map(|line| {
        let named = line.split("fio: engine ").nth(1)?;
        let engine = named.strip_suffix(" not loadable")?;
        Some(visible::beginning_of(engine))
    })
}

/// A job file without these options.
fn without(job_file: &str, options: &BTreeSet<&str>) -> String {
    let is_kept = |line: &&str| {
        let name = line.split('=').next().unwrap_or_default();
        !options.contains(name.trim())
    };
    job_file.split_inclusive('\n').filter(is_kept).collect()
}

/// Runs a composed job file for as long as it takes: to write test files, or to fill a device.
pub(crate) fn run_long(
    job_file: &str,
    place: &JobTarget,
    scope: &Scope,
    stop: &Stop,
) -> Result<Vec<JobResult>, LoadError> {
    let running = Running {
        duration: Duration::ZERO,
        read_only: false,
        limit: Some(LONGEST),
        counted: None,
        place,
        scope,
        stop,
    };
    run(job_file, &running, &mut |_| {})
}

/// The few lines that say what went wrong: standard error, or what stands before the JSON.
fn last_lines(stderr: &str, stdout: &str) -> String {
    let before_json = stdout.split("\n{").next().unwrap_or_default();
    let text = if stderr.trim().is_empty() {
        before_json
    } else {
        stderr
    };
    process::last_lines(text, 3)
}

#[derive(Debug, Deserialize)]
struct FioOutput {
    jobs: Vec<FioJob>,
}

#[derive(Debug, Deserialize)]
struct FioJob {
    jobname: String,
    error: i64,
    read: FioFlow,
    write: FioFlow,
    trim: Option<FioFlow>,
    /// ms.
    #[serde(default)]
    job_runtime: u64,
}

impl FioJob {
    /// ms. Old versions have no time of the job, only of its flows.
    fn runtime(&self) -> u64 {
        match self.job_runtime {
            0 => self.read.runtime.max(self.write.runtime),
            runtime => runtime,
        }
    }
}

#[derive(Debug, Deserialize)]
struct FioFlow {
    io_bytes: u64,
    bw_bytes: Option<f64>,
    iops: f64,
    total_ios: u64,
    /// ms.
    #[serde(default)]
    runtime: u64,
    lat_ns: Option<FioLatency>,
    clat_ns: Option<FioLatency>,
}

#[derive(Debug, Deserialize)]
struct FioLatency {
    mean: f64,
    max: f64,
    #[serde(default)]
    bins: BTreeMap<String, u64>,
    /// Per cent, and ns: all that plain JSON has of the distribution.
    #[serde(default)]
    percentile: BTreeMap<String, u64>,
}

impl FioLatency {
    /// As many of `count` between two percentiles as there must be, each with the upper one: the percentiles that fio
    /// printed are read back as they are.
    fn of_percentiles(&self, count: u64) -> Vec<(u64, u64)> {
        let percents = self.percentile.iter();
        let parsed = percents.filter_map(|(percent, &ns)| Some((percent.parse::<f64>().ok()?, ns)));
        let mut percents: Vec<(f64, u64)> = parsed.collect();
        percents.sort_by(|a, b| a.0.total_cmp(&b.0));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the largest number ends it; a percentile is not negative"
        )]
        let (longest, mut below, mut bins) = (self.max as u64, 0, Vec::new());
        for (percent, ns) in percents.into_iter().chain([(100.0, longest)]) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "as above"
            )]
            let upto = ((count as f64 * percent / 100.0).ceil() as u64).min(count);
            bins.push((ns, upto.saturating_sub(below)));
            below = below.max(upto);
        }
        bins.retain(|(_, count)| *count > 0);
        bins
    }
}

impl FioFlow {
    /// The latencies, and their bins.
    fn latencies(&self) -> Option<(&FioLatency, &BTreeMap<String, u64>)> {
        let all = self.lat_ns.as_ref()?;
        let own = Some(&all.bins).filter(|bins| !bins.is_empty());
        let of_completion = self.clat_ns.as_ref().map(|latency| &latency.bins);
        Some((all, own.or(of_completion).unwrap_or(&all.bins)))
    }

    fn bytes_per_s(&self) -> f64 {
        let by_time = || self.io_bytes as f64 * 1000.0 / self.runtime.max(1) as f64;
        self.bw_bytes.unwrap_or_else(by_time)
    }
}

/// Reads fio's JSON+, before which it may have printed notes: its last account, and what of an earlier one counts.
pub(crate) fn read_result(
    stdout: &str,
    window: Option<&CountedWindow>,
) -> Result<Measurement, LoadError> {
    let accounts = read_accounts(stdout)?;
    let Some((last, before)) = accounts.split_last() else {
        return Err(unreadable("there is no JSON in it"));
    };
    let runtimes = last.jobs.iter().map(FioJob::runtime);
    let runtimes = runtimes.map(Duration::from_millis).collect();
    let jobs: Vec<JobResult> = last.jobs.iter().map(job_result).collect::<Result<_, _>>()?;
    let earlier = window.and_then(|window| {
        let mut latest_first = before.iter().rev();
        latest_first.find_map(|early| counted_until(early, last, &jobs, window))
    });
    let (jobs, counted) = match earlier {
        Some((jobs, counted)) => (jobs, Some(counted)),
        None => (jobs, None),
    };
    Ok(Measurement {
        jobs,
        runtimes,
        counted,
    })
}

/// One account after another, as fio prints them if it is to say how far it is.
fn read_accounts(stdout: &str) -> Result<Vec<FioOutput>, LoadError> {
    let mut accounts = Vec::new();
    let mut rest = stdout;
    while let Some(start) = start_of_json(rest) {
        let mut read = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<FioOutput>();
        let Some(account) = read.next() else { break };
        let account = account.map_err(unreadable)?;
        if account.jobs.is_empty() {
            return Err(unreadable("it names no job"));
        }
        accounts.push(account);
        rest = &rest[start + read.byte_offset()..];
    }
    Ok(accounts)
}

pub(crate) fn start_of_json(text: &str) -> Option<usize> {
    if text.starts_with('{') {
        return Some(0);
    }
    text.find("\n{").map(|line_end| line_end + 1)
}

/// What each job did, with the percentiles of an earlier account, and until when that was. `None` if that account cannot serve: it came after
/// the run time (when the drain may be in it), or some job has completed nothing since, or not yet.
fn counted_until(
    early: &FioOutput,
    last: &FioOutput,
    jobs: &[JobResult],
    window: &CountedWindow,
) -> Option<(Vec<JobResult>, Duration)> {
    if early.jobs.len() != last.jobs.len() {
        return None;
    }
    let mut longest = 0;
    let mut counted = Vec::new();
    for ((early, last), whole) in early.jobs.iter().zip(&last.jobs).zip(jobs) {
        let runtime = early.runtime();
        if early.jobname != last.jobname || u128::from(runtime) > window.runtime.as_millis() {
            return None;
        }
        longest = longest.max(runtime);
        let until = job_result(early).ok()?;
        if completed(&until) >= completed(whole) {
            return None;
        }
        counted.push(JobResult {
            name: until.name,
            read: flow_until(until.read, whole.read.as_ref())?,
            write: flow_until(until.write, whole.write.as_ref())?,
            trim: flow_until(until.trim, whole.trim.as_ref())?,
            transactions: None,
        });
    }
    Some((counted, Duration::from_millis(longest)))
}

/// Accesses whose latency is known. Meanwhile fio's own count has those in it that are under way.
fn completed(job: &JobResult) -> u64 {
    let bins = job.flows().into_iter().flat_map(|flow| &flow.latency_bins);
    bins.map(|&(_, count)| count).fold(0, u64::saturating_add)
}

/// The whole flow, with the percentiles of what was completed until then; outside: that cannot be told.
#[expect(clippy::option_option, reason = "no flow is an answer, too")]
fn flow_until(until: Option<Flow>, whole: Option<&Flow>) -> Option<Option<Flow>> {
    let Some(whole) = whole else {
        return until.is_none().then_some(None);
    };
    let until = until.filter(|until| !until.latency_bins.is_empty())?;
    Some(Some(Flow {
        latency_max_ns: until.latency_max_ns,
        latency_bins: until.latency_bins,
        ..whole.clone()
    }))
}

fn unreadable(cause: impl std::fmt::Display) -> LoadError {
    LoadError::trial(format!("cannot read fio's result: {cause}"))
}

fn job_result(job: &FioJob) -> Result<JobResult, LoadError> {
    if job.error != 0 {
        let raw = i32::try_from(job.error).unwrap_or(5);
        let status = format!("error {raw} in job {}", job.jobname);
        return Err(failed(
            &status,
            &io::Error::from_raw_os_error(raw).to_string(),
        ));
    }
    Ok(JobResult {
        name: job.jobname.clone(),
        read: flow(&job.read)?,
        write: flow(&job.write)?,
        trim: job.trim.as_ref().map(flow).transpose()?.flatten(),
        transactions: None,
    })
}

fn flow(flow: &FioFlow) -> Result<Option<Flow>, LoadError> {
    if flow.total_ios == 0 {
        return Ok(None);
    }
    let (all, bins) = flow
        .latencies()
        .ok_or_else(|| unreadable("it has no latencies (lat_ns)"))?;
    let mut bins = bins
        .iter()
        .map(|(bin, &count)| Ok((bin.parse()?, count)))
        .collect::<Result<Vec<(u64, u64)>, std::num::ParseIntError>>()
        .map_err(|_| unreadable("a latency bin is not a number"))?;
    bins.sort_unstable();
    if bins.is_empty() {
        let latencies = [&flow.lat_ns, &flow.clat_ns].into_iter().flatten();
        let mut told = latencies.filter(|latency| !latency.percentile.is_empty());
        bins = told
            .next()
            .map_or(bins, |latency| latency.of_percentiles(flow.total_ios));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "fio prints a whole number of nanoseconds here"
    )]
    let latency_max_ns = all.max as u64;
    Ok(Some(Flow {
        ios: flow.total_ios,
        bytes: flow.io_bytes,
        bytes_per_s: flow.bytes_per_s(),
        iops: flow.iops,
        latency_mean_ns: all.mean,
        latency_max_ns,
        latency_bins: bins,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{"fio version":"fio-3.33","jobs":[{"jobname":"a","error":0,
 "read":{"io_bytes":8192,"bw_bytes":4096,"iops":1.0,"total_ios":2,
   "lat_ns":{"min":10,"max":2000,"mean":1005.0,"N":2,"bins":{"2000":1,"10":1}}},
 "write":{"io_bytes":0,"bw_bytes":0,"iops":0.0,"total_ios":0,
   "lat_ns":{"min":0,"max":0,"mean":0.0,"N":0}}}]}"#;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (version, is_too_old) in [
            ("fio-3.33", false),
            ("fio-2.16", true),   // Debian 9
            ("fio-2.2.10", true), // Ubuntu 16.04, Debian 8
            ("fio-2.2.8", true),  // RHEL 7 with EPEL of old
            ("fio-2.1.3", true),
            ("fio-3.1", false),
            ("fio-3.36-12-g0a1b2c", false),
            ("fio-4", false),
            ("fio of somebody", false),
        ] {
            let is_older = numbers(version).is_some_and(|numbers| numbers < OLDEST);
            assert_eq!(is_older, is_too_old, "{version}");
        }
    }

    #[test]
    fn notes_before_the_json_are_passed_over_and_bins_are_sorted() {
        let jobs = read_result(OUTPUT, None).unwrap().jobs;
        let read = jobs[0].read.as_ref().unwrap();
        assert_eq!(read.latency_bins, vec![(10, 1), (2000, 1)]);
        assert_eq!(read.ios, 2);
        assert!(
            jobs[0].write.is_none(),
            "a direction without I/O is no flow"
        );
    }

    #[test]
    fn bins_below_clat_ns_count_where_lat_ns_has_none() {
        let output = OUTPUT.replacen(
            r#","bins":{"2000":1,"10":1}}"#,
            r#"},"clat_ns":{"max":9,"mean":1.0,"bins":{"8":2}}"#,
            1,
        );
        let jobs = read_result(&output, None).unwrap().jobs;
        let read = jobs[0].read.as_ref().unwrap();
        assert_eq!(
            (read.latency_max_ns, &read.latency_bins[..]),
            (2000, &[(8, 2)][..])
        );
    }

    #[test]
    fn options_of_ours_that_an_old_fio_does_not_know_are_left_out_and_no_others() {
        let said = "Bad option <lat_percentiles=1>\nBad option <unlink_each_loop=0>\nBad option <fsync=x>\n\
                    fio: job global dropped\n";
        let unknown = unknown_options(said);
        let job = "[a]\nrw=read\nlat_percentiles=1\nclat_percentiles=0\nunlink_each_loop=0\nunlink=0\nfsync=x\n";
        assert_eq!(without(job, &unknown), "[a]\nrw=read\nunlink=0\nfsync=x\n");
        assert!(unknown_options("fio: Bad option <rw=lat_percentiles>").is_empty());
    }

    #[test]
    fn a_job_that_ended_with_an_error_is_an_error() {
        let error = read_result(&OUTPUT.replace("\"error\":0", "\"error\":5"), None).unwrap_err();
        assert!(error.to_string().contains("Input/output error"), "{error}");
    }

    /// An account of one worker: how long it ran, what fio counts, and the accesses whose latency is known.
    fn account(runtime: u64, begun: u64, bins: &[(u64, u64)]) -> String {
        let bins: BTreeMap<String, u64> = bins.iter().map(|(ns, n)| (ns.to_string(), *n)).collect();
        let known: u64 = bins.values().sum();
        let longest = bins.keys().filter_map(|ns| ns.parse::<u64>().ok()).max();
        let longest = longest.unwrap_or(0);
        let (bytes, iops) = (known * 4096, known * 1000 / runtime);
        let (bytes_per_s, mean) = (iops * 4096, 32_000_000_000 / iops.max(1));
        let bins = serde_json::to_string(&bins).unwrap();
        format!(
            r#"{{"jobs":[{{"jobname":"a","error":0,"job_runtime":{runtime},
 "read":{{"io_bytes":{bytes},"bw_bytes":{bytes_per_s},"iops":{iops},"runtime":{runtime},"total_ios":{begun},
   "lat_ns":{{"max":{longest},"mean":{mean},"bins":{bins}}}}},
 "write":{{"io_bytes":0,"bw_bytes":0,"iops":0.0,"total_ios":0,"lat_ns":{{"max":0,"mean":0.0}}}}}}]}}
"#
        )
    }

    #[test]
    fn what_was_under_way_at_the_end_is_not_counted_where_fio_tells() {
        let window = CountedWindow {
            ramp: Duration::ZERO,
            counted: Duration::from_secs(9),
            runtime: Duration::from_secs(10),
        };
        let read = |output: &str| read_result(output, Some(&window)).unwrap();
        let whole = account(10_500, 1050, &[(10, 1018), (999, 32)]);
        let before = account(9000, 932, &[(10, 900)]);
        let before_that = account(4500, 482, &[(10, 450)]);

        let counted = read(&format!("{before_that}{before}{whole}"));
        assert_eq!(counted.counted, Some(Duration::from_secs(9)));
        assert_eq!(counted.runtimes, [Duration::from_millis(10_500)]);
        let flow = counted.jobs[0].read.as_ref().unwrap();
        assert_eq!(flow.latency_bins, [(10, 900)]);
        assert_eq!(flow.latency_max_ns, 10);
        let of_all = (flow.ios, flow.bytes, flow.iops, flow.latency_mean_ns);
        assert_eq!(of_all, (1050, 1050 * 4096, 100.0, 320_000_000.0));

        let too_late = account(10_001, 1050, &[(10, 1000)]);
        let nothing_since = account(9000, 1050, &[(10, 1018), (999, 32)]);
        let nothing_yet = account(9000, 32, &[]);
        let other_job = before.replace("\"a\"", "\"b\"");
        for unusable in [
            too_late,
            nothing_since,
            nothing_yet,
            other_job,
            String::new(),
        ] {
            let all = read(&format!("note: of fio\n{unusable}{whole}"));
            assert_eq!(all.counted, None, "{unusable}");
            let bins = &all.jobs[0].read.as_ref().unwrap().latency_bins;
            assert_eq!(bins[..], [(10, 1018), (999, 32)]);
        }
        let of_all = read_result(&format!("{before}{whole}"), None).unwrap();
        assert_eq!(of_all.counted, None);
    }

    #[test]
    fn output_without_json_is_unreadable() {
        let error = read_result("fio: nothing", None).unwrap_err().to_string();
        assert!(error.contains("there is no JSON"), "{error}");
    }

    /// Options that do something beyond the target when root runs them, `DIR` and `LINK` being outside of it.
    const ATTACKS: [&str; 12] = [
        "exec_prerun=touch DIR/made && true",
        "exec_postrun=touch DIR/made && true",
        "filename=DIR/secret",
        "filename=LINK\nbs=8\nsize=16",
        "filename=DIR/made",
        "write_bw_log=DIR/made",
        "write_iolog=DIR/made",
        "write_hist_log=DIR/made\nlog_hist_msec=1",
        "buffer_pattern='DIR/secret'",
        "include LINK",
        "opendir=DIR\nbs=8\nsize=16",
        "ioengine=filecreate\nfilename=DIR/made",
    ];

    #[test]
    fn what_a_job_file_asks_of_root_beyond_the_target_is_not_done_with_landlock_nor_without() {
        if !iosched_testing::is_root() || version().is_err() {
            return iosched_testing::lacks("root and fio");
        }
        let [inside, outside] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let (target, link) = (inside.path().join("target"), inside.path().join("link"));
        let [secret, made] = ["secret", "made"].map(|name| outside.path().join(name));
        let text = format!("write_iops_log={}\n", made.display());
        let stop = Stop::new();
        let place = JobTarget::Path(target.display().to_string());
        let begin = || {
            std::fs::remove_dir_all(outside.path()).unwrap();
            std::fs::create_dir(outside.path()).unwrap();
            std::fs::write(&secret, &text).unwrap();
            std::fs::write(&target, vec![0; 1 << 16]).unwrap();
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(&secret, &link).unwrap();
        };
        let is_harmed = || {
            let names = std::fs::read_dir(outside.path()).unwrap().count();
            let written = std::fs::read(&target).unwrap();
            let is_read = written
                .windows(text.len())
                .any(|part| part == text.as_bytes());
            is_read || names != 1 || std::fs::read(&secret).unwrap() != text.as_bytes()
        };
        let job = |attack: &str| {
            let attack = attack.replace("DIR", &outside.path().display().to_string());
            let attack = attack.replace("LINK", &link.display().to_string());
            format!(
                "[a]\nfilename={}\nioengine=psync\nrw=write\nbs=4k\nsize=64k\nthread=1\n{attack}\n",
                target.display()
            )
        };
        let running = Running {
            duration: Duration::from_secs(1),
            read_only: false,
            limit: None,
            counted: None,
            place: &place,
            scope: &Scope::default(),
            stop: &stop,
        };
        let confined = |attack: &str| run(&job(attack), &running, &mut |_| {});
        for attack in ATTACKS {
            begin();
            let mut command = command();
            command.arg("-").current_dir("/proc");
            let limit = Duration::from_secs(20);
            let ran =
                running
                    .scope
                    .run_with_input(command, &job(attack), limit, &stop, &mut |_| {});
            assert!(is_harmed(), "no attack: {attack}: {ran:?}");
            begin();
            let ran = confined(attack);
            assert!(!is_harmed(), "{attack}: {ran:?}");
            begin();
            let (ran, _) = iosched_testing::kernel::on((5, 12), || confined(attack));
            assert!(!is_harmed(), "without Landlock: {attack}: {ran:?}");
        }
        begin();
        let written = confined("").unwrap()[0].write.as_ref().unwrap().bytes;
        let (without, _) = iosched_testing::kernel::on((5, 12), || confined(""));
        assert_eq!(
            (written, without.unwrap()[0].write.as_ref().unwrap().bytes),
            (1 << 16, 1 << 16)
        );
    }
}
