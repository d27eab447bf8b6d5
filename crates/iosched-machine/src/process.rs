//! Child processes that cannot outlive us, hang for ever, or fill a disk with their output.
//!
//! A child gets a session of its own, so that all it starts can be ended with it and none of it reaches our
//! terminal; dies with us (`PR_SET_PDEATHSIG`); is waited for through a descriptor with a time limit, and is ended
//! when [`Stop`] is asked for. Its output comes through pipes and is kept in memory: a full disk does not stop it, and
//! what prints more than `MOST_OUTPUT` is ended.
//!
//! [`run`] is for our own tools. Loads are run in a [`Scope`], which says whose rights they have and keeps
//! their processes together ([`LoadProcesses`]), so that those are found that have left the session and outlive
//! a run that was killed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, PipeReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

mod accounts;
pub(crate) mod cgroup;
mod confine;
mod descendants;
mod numbers;
mod output;
mod owner;
pub(crate) mod patience;
mod pidfd;
mod remains;
mod scope;
mod stat;
mod user;

pub use accounts::name_of;
pub use confine::{SAFE_PATH, close_inherited};
pub(crate) use numbers::numbers;
pub(crate) use output::MOST_OUTPUT;
pub use owner::{Owner, OwnerState};
pub use patience::{ask_patiently, hurry_on};
pub use pidfd::{ProcessFd, signal_if};
pub use remains::LoadProcesses;
pub use scope::Scope;
pub use stat::ProcessStat;
pub use user::User;
pub use user::as_user;

use crate::visible;
use output::Outputs;
use scope::Child;

/// Some parents (services, interpreters) ignore SIGCHLD, and what they start does, too: how a child ended would then be lost
/// with the child.
pub fn be_told_of_ended_children() {
    // SAFETY: no handler is named.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// How often a waiting loop looks at [`Stop`] and tells its observer that time passes.
const TICK: Duration = Duration::from_millis(50);

/// How long a child may take to die after SIGTERM before it gets SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// Whether we are to stop, because the user wants it (set by a signal handler) or because the time for
/// what we do is over: read by every loop that waits.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Stop {
    /// Nobody wants us to stop.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// The same, and at this moment at the latest.
    #[must_use]
    pub fn at(&self, deadline: Option<Instant>) -> Stop {
        Stop {
            asked: self.flag(),
            deadline,
        }
    }

    /// The flag itself, for a signal handler to set.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// Asks every waiting loop to stop.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }

    /// Asks when what is returned goes, however that comes: what has begun beside then ends, and who waits for it goes on.
    #[must_use]
    pub fn ask_at_end(&self) -> AskAtEnd<'_> {
        AskAtEnd(self)
    }

    /// Nobody wants us to stop any more: what puts things back goes on until somebody asks again.
    pub fn forget(&self) {
        self.asked.store(false, Ordering::SeqCst);
    }

    /// True once somebody asked, or the time is over.
    pub fn is_wanted(&self) -> bool {
        self.is_asked() || self.is_time_over()
    }

    /// True once somebody asked.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// True after the deadline.
    pub(crate) fn is_time_over(&self) -> bool {
        self.deadline.is_some_and(|at| Instant::now() >= at)
    }
}

/// Asks for the end when it goes.
#[derive(Debug)]
pub struct AskAtEnd<'a>(&'a Stop);

impl Drop for AskAtEnd<'_> {
    fn drop(&mut self) {
        self.0.ask();
    }
}

/// What a child left when it ended by itself.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// All it wrote to standard output.
    pub stdout: String,
    /// All it wrote to standard error.
    pub stderr: String,
    /// From start to end.
    pub elapsed: Duration,
}

/// Why a child gave no result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ChildError {
    /// There is no such program on PATH.
    #[error("{program} is not installed")]
    Missing {
        /// The program, as it was called.
        program: String,
    },
    #[error("cannot run {program}")]
    Start {
        /// The program, as it was called.
        program: String,
        #[source]
        source: io::Error,
    },
    /// It ran longer than it may, and was ended.
    #[error("{program} did not end within {} s and was killed", limit.as_secs_f64())]
    TimedOut {
        /// The program, as it was called.
        program: String,
        /// What it was given.
        limit: Duration,
    },
    /// It printed more than is kept, and was killed.
    #[error("{program} printed more than {} MiB and was killed", MOST_OUTPUT >> 20)]
    TooMuchOutput {
        /// The program, as it was called.
        program: String,
    },
    #[error("interrupted")]
    Stopped,
}

/// Runs one of our own tools to its end, with our rights and our environment. `tick` is called about twenty
/// times a second with the time passed.
///
/// The child dies when the *thread* that called this dies: call it from a thread that lives as
/// long as the run.
pub fn run(
    command: Command,
    limit: Duration,
    stop: &Stop,
    tick: &mut dyn FnMut(Duration),
) -> Result<Finished, ChildError> {
    Scope::default().run(command, limit, stop, tick)
}

impl Scope {
    /// [`run`] for a load.
    pub fn run(
        &self,
        command: Command,
        limit: Duration,
        stop: &Stop,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Finished, ChildError> {
        self.run_on(command, Stdio::null(), limit, stop, tick)
    }

    /// [`Scope::run`] with a text on standard input, which leaves no file behind, whatever happens.
    pub fn run_with_input(
        &self,
        command: Command,
        input: &str,
        limit: Duration,
        stop: &Stop,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Finished, ChildError> {
        let stdin = pipe_with(input).map_err(|source| ChildError::Start {
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
        self.run_on(command, stdin.into(), limit, stop, tick)
    }

    fn run_on(
        &self,
        mut command: Command,
        stdin: Stdio,
        limit: Duration,
        stop: &Stop,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Finished, ChildError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let start_error = |source| ChildError::Start {
            program: program.clone(),
            source,
        };
        let (mut outputs, stdout, stderr) = Outputs::new().map_err(start_error)?;
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let started = Instant::now();
        let is_installed = is_installed(&command);
        let mut child = self.spawn(command, Signal::KILL).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound && !is_installed {
                ChildError::Missing {
                    program: program.clone(),
                }
            } else {
                start_error(source)
            }
        })?;
        let outcome = wait(&mut child, &mut outputs, started, limit, stop, tick);
        let elapsed = started.elapsed();
        child.end_all();
        // What it left in the pipes, or another that it started.
        let rest = outputs.take_in();
        if outputs.is_too_much() {
            return Err(ChildError::TooMuchOutput { program });
        }
        let status = match outcome.and_then(|outcome| rest.map(|()| outcome)) {
            Ok(Some(status)) => status,
            Ok(None) if stop.is_wanted() => return Err(ChildError::Stopped),
            Ok(None) => return Err(ChildError::TimedOut { program, limit }),
            Err(source) => return Err(start_error(source)),
        };
        let [stdout, stderr] = outputs.end();
        Ok(Finished {
            status,
            stdout,
            stderr,
            elapsed,
        })
    }
}

/// True if its program is where it is looked for. What starting it needs besides (its directory, its interpreter, its
/// cgroup) may be missing too, which the system calls by the same name.
/// Whether a program can be started that has a name on PATH, or a path from the root; of another path that depends on where it
/// is called from.
///
/// # Errors
/// It is not there.
pub fn check_installed(program: &str) -> Result<(), ChildError> {
    let path = Path::new(program);
    let is_relative = path.components().count() > 1 && path.is_relative();
    if is_relative || is_installed(&Command::new(program)) {
        return Ok(());
    }
    Err(ChildError::Missing {
        program: program.to_owned(),
    })
}

fn is_installed(command: &Command) -> bool {
    let program = Path::new(command.get_program());
    if program.components().count() > 1 {
        return program.exists();
    }
    let own = command.get_envs().find(|(name, _)| *name == "PATH");
    let path = own.map_or_else(
        || std::env::var_os("PATH"),
        |(_, value)| value.map(OsStr::to_owned),
    );
    let path = path.unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).any(|place| place.join(program).is_file())
}

/// A program that runs beside us until it is ended. Like every child it dies with us.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    /// All that it started was killed with it.
    is_over: bool,
}

impl Daemon {
    /// Starts it; what it says goes to `log`. `when_we_die` is the signal that ends it then.
    pub fn start(
        scope: &Scope,
        mut command: Command,
        log: File,
        when_we_die: Signal,
    ) -> Result<Daemon, ChildError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let start_error = |source| ChildError::Start {
            program: program.clone(),
            source,
        };
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(start_error)?)
            .stderr(log);
        let child = scope.spawn(command, when_we_die).map_err(start_error)?;
        Ok(Daemon {
            child,
            is_over: false,
        })
    }

    /// How it ended, if it has.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.process.try_wait().ok().flatten()
    }

    /// Ends it: each signal in turn with the time that it may take, which is cut to a moment once a stop is wanted, then
    /// SIGKILL. True if it says that it ended well.
    pub fn end(&mut self, signals: &[(Signal, Duration)], stop: &Stop) -> bool {
        signal_until_ended(&mut self.child.process, signals, stop);
        if !std::mem::replace(&mut self.is_over, true) {
            self.child.end_all();
            let _ = self.child.reap();
        }
        self.has_ended().is_some_and(|status| status.success())
    }

    /// True if it was ended by SIGKILL, and could tidy up nothing.
    pub fn was_killed(&mut self) -> bool {
        self.has_ended()
            .is_some_and(|status| status.signal() == Some(Signal::KILL.as_raw()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end(&[], &Stop::new());
    }
}

/// What a signal gets of its time when a stop is wanted.
const WHEN_STOPPED: Duration = Duration::from_secs(10);

/// Sends a child each signal in turn with the time that it may take to end, which is cut to a moment once a stop is
/// wanted. A child that somebody has stopped is set going, so that it sees the signal.
pub fn signal_until_ended(
    child: &mut std::process::Child,
    signals: &[(Signal, Duration)],
    stop: &Stop,
) -> Option<ExitStatus> {
    let has_ended = |child: &mut std::process::Child| child.try_wait().ok().flatten();
    for &(signal, limit) in signals {
        if let Some(status) = has_ended(child) {
            return Some(status);
        }
        let pid = rustix::process::Pid::from_child(child);
        for signal in [signal, Signal::CONT] {
            // Fails only if it has ended.
            let _ = rustix::process::kill_process(pid, signal);
        }
        let sent = Instant::now();
        let is_over = || {
            let limit = if stop.is_wanted() {
                limit.min(WHEN_STOPPED)
            } else {
                limit
            };
            sent.elapsed() >= limit
        };
        while !is_over() && has_ended(child).is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    has_ended(child)
}

/// How a child ended, in words: `exit code 3`, `signal 9`.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) if signal == Signal::XFSZ.as_raw() => format!(
            "signal {signal} (a file of its would have become larger than `ulimit -f` allows)"
        ),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown status".into(),
    }
}

/// Where memory runs out, others are ended before us as long as there are: we put back what we change. Without the right
/// to ask for that it stays as it is.
pub fn be_spared_for_want_of_memory() {
    // Ordinary processes have 0, and what is never ended has -1000.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-900");
}

/// The last lines of a program's output that have something in them, in one line; of long ones the beginning.
pub fn last_lines(text: &str, count: usize) -> String {
    let lines = text.lines().rev().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty()).take(count);
    let mut lines: Vec<String> = lines.map(visible::beginning_of).collect();
    lines.reverse();
    if lines.is_empty() {
        return "it said nothing".into();
    }
    lines.join("; ")
}

/// Waits for the end; `None` if the limit, a wish to stop or too much output came first (the child is dead then).
fn wait(
    child: &mut Child,
    outputs: &mut Outputs,
    started: Instant,
    limit: Duration,
    stop: &Stop,
    tick: &mut dyn FnMut(Duration),
) -> io::Result<Option<ExitStatus>> {
    let process = ProcessFd::open(child.pid())?;
    let mut next_tick = started + TICK;
    loop {
        let mut fds = vec![PollFd::new(&process, PollFlags::IN)];
        fds.extend(outputs.open().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let left = next_tick.saturating_duration_since(Instant::now());
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_ended = !fds[0].revents().is_empty();
        outputs.take_in()?;
        if has_ended {
            return child.reap().map(Some);
        }
        let elapsed = started.elapsed();
        if stop.is_wanted() || elapsed > limit || outputs.is_too_much() {
            end(child, outputs)?;
            return Ok(None);
        }
        if Instant::now() >= next_tick {
            next_tick = Instant::now() + TICK;
            tick(elapsed);
        }
    }
}

/// Ends a child: it may say goodbye, which is read so that a full pipe does not keep it from it.
fn end(child: &mut Child, outputs: &mut Outputs) -> io::Result<()> {
    child.signal_group(Signal::TERM);
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline && child.process.try_wait()?.is_none() {
        outputs.take_in()?;
        std::thread::sleep(Duration::from_millis(10));
    }
    child.signal_group(Signal::KILL);
    child.reap().map(|_| ())
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// A pipe from which a text is read, however long. Who does not read it to its end ends the writing.
fn pipe_with(text: &str) -> io::Result<PipeReader> {
    let (reader, mut writer) = io::pipe()?;
    let text = text.to_owned();
    let write = move || {
        let _ = writer.write_all(text.as_bytes());
    };
    std::thread::Builder::new().spawn(write)?;
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn sh(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    fn run_for(script: &str, limit: Duration) -> Result<Finished, ChildError> {
        run(sh(script), limit, &Stop::new(), &mut |_| {})
    }

    #[test]
    fn output_and_status_come_back() {
        let finished = run_for("echo out; echo err >&2; exit 3", Duration::from_secs(60)).unwrap();
        assert_eq!(finished.stdout, "out\n");
        assert_eq!(finished.stderr, "err\n");
        assert_eq!(describe(finished.status), "exit code 3");
    }

    #[test]
    fn what_prints_without_end_is_killed_and_what_prints_much_is_not() {
        let limit = Duration::from_secs(600);
        for endless in ["cat /dev/zero", "cat /dev/zero >&2", "trap '' TERM; yes"] {
            let error = run_for(endless, limit).unwrap_err();
            let message = error.to_string();
            assert_eq!(message, "/bin/sh printed more than 64 MiB and was killed");
        }
        let much = run_for("head -c 20000000 /dev/zero; echo end", limit).unwrap();
        assert_eq!(much.stdout.len(), 20_000_004);
        // A background process goes on with the pipe that it was given.
        let beside = run_for("sleep 1000 & echo begun", limit).unwrap();
        assert_eq!(beside.stdout, "begun\n");
    }

    #[test]
    fn who_opens_its_output_by_name_adds_to_it() {
        let script = "echo a; echo b > /dev/stdout; echo c > /dev/stderr; echo d >&2";
        let finished = run_for(script, Duration::from_secs(60)).unwrap();
        assert_eq!(finished.stdout, "a\nb\n");
        assert_eq!(finished.stderr, "c\nd\n");
    }

    #[test]
    fn a_long_line_is_cut_where_it_is_told_of() {
        assert_eq!(last_lines("a\n\nb\nc\n", 2), "b; c");
        assert_eq!(last_lines(" \n", 2), "it said nothing");
        assert_eq!(last_lines(&"é".repeat(5000), 1).chars().count(), 1001);
    }

    #[test]
    fn what_is_put_in_comes_back_through_cat() {
        let (limit, stop) = (Duration::from_secs(60), Stop::new());
        let finished = Scope::default()
            .run_with_input(sh("cat"), "a\nb\n", limit, &stop, &mut |_| {})
            .unwrap();
        assert_eq!(finished.stdout, "a\nb\n");
    }

    #[test]
    fn a_child_that_hangs_is_killed_with_all_it_started() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let script = format!("sleep 1000 & echo $! > {}; wait", file.path().display());
        let pid = || {
            std::fs::read_to_string(file.path())
                .unwrap()
                .trim()
                .parse::<i32>()
        };
        // A time within which the child has begun on any machine is found, not assumed.
        let mut limit = Duration::from_millis(500);
        let grandchild = loop {
            let error = run_for(&script, limit).unwrap_err();
            assert!(matches!(error, ChildError::TimedOut { .. }), "{error}");
            match pid() {
                Ok(pid) => break pid,
                Err(_) => limit *= 2,
            }
        };
        // SIGKILL was sent; the kernel may take a moment to carry it out.
        let is_dead = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            let stat = std::fs::read_to_string(format!("/proc/{grandchild}/stat"));
            stat.unwrap_or_default()
                .rsplit(')')
                .next()
                .is_none_or(|s| !s.contains(['R', 'S', 'D']))
        });
        assert!(is_dead, "pid {grandchild} goes on");
    }

    #[test]
    fn a_wish_to_stop_ends_it() {
        let stop = Stop::new();
        let error = run(
            sh("sleep 1000"),
            Duration::from_secs(600),
            &stop.clone(),
            &mut |_| {
                stop.ask();
            },
        )
        .unwrap_err();
        assert!(matches!(error, ChildError::Stopped), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let command = Command::new("iosched-no-such-program");
        let error = run(command, Duration::from_secs(1), &Stop::new(), &mut |_| {}).unwrap_err();
        assert_eq!(
            error.to_string(),
            "iosched-no-such-program is not installed"
        );
    }

    #[test]
    fn a_program_that_lacks_something_else_is_not_called_missing() {
        let dir = tempfile::tempdir().unwrap();
        let mut elsewhere = sh("true");
        elsewhere.current_dir(dir.path().join("none"));
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, executable).unwrap();
        for command in [elsewhere, Command::new(&script)] {
            let error = run(command, Duration::from_secs(9), &Stop::new(), &mut |_| {});
            let error = error.unwrap_err();
            assert!(matches!(error, ChildError::Start { .. }), "{error}");
        }
    }
}
