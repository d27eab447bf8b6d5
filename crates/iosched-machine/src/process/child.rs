//! A child: in which surroundings it is started, how it is waited for, and how it is ended with all that it started.

use std::fs::File;
use std::io::{self, PipeReader, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use super::output::{MOST_OUTPUT, Outputs};
use super::pidfd::signal_if;
use super::remains::{LoadProcesses, RUN};
use super::sandbox::{Reach, Sandbox};
use super::stop::Stop;
use super::table::{Descendants, ProcessStat, not_begun};
use super::user::User;
use super::{cgroup, confine};
use crate::host::Host;

/// How often a waiting loop looks at [`Stop`] and tells its observer that time passes.
const TICK: Duration = Duration::from_millis(50);

/// How often a child is looked at that is about to end, or of whose end no descriptor tells.
const STEP: Duration = Duration::from_millis(2);

/// How long a child may take to die after SIGTERM before it gets SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// How long what a load started may take to end after SIGKILL. What takes longer is waited for when the run ends.
const KILLED_WITHIN: Duration = Duration::from_secs(5);

/// How long what was killed may wait in the kernel, for a disk that is slow to give up, before we go on without it.
const WAITED_FOR: Duration = Duration::from_secs(60);

/// What a signal gets of its time when a stop is wanted.
const WHEN_STOPPED: Duration = Duration::from_secs(10);

/// How long a child may take from its start to the program that it is to run, and how often it is looked at meanwhile.
const STARTED_WITHIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(500);

/// The cgroup of what lives as long as the run.
const LASTING: &str = "lasting";

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
    Missing { program: String },
    #[error("cannot run {program}")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    /// It ran longer than it may, and was ended.
    #[error("{program} did not end within {} s and was killed", limit.as_secs_f64())]
    TimedOut { program: String, limit: Duration },
    /// It printed more than is kept, and was killed.
    #[error("{program} printed more than {} MiB and was killed", MOST_OUTPUT >> 20)]
    TooMuchOutput { program: String },
    #[error("interrupted")]
    Stopped,
}

/// Whose rights loads have, and where their processes are kept together. The default is our own rights, and
/// nothing kept together: for our own tools.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    user: Option<User>,
    processes: Option<LoadProcesses>,
    is_lasting: bool,
    /// Where there is no cgroup: what descended from us before the run.
    before: Option<Descendants>,
    /// How many children were started, in this scope and in those made from it.
    started: Arc<AtomicU32>,
    /// A file that what is started has open, too.
    lent: Option<Arc<File>>,
    /// All that what is started can open, if it is not all that its user can.
    reach: Option<Reach>,
}

impl Scope {
    /// For loads with the rights of `user`, if not ours, whose processes are found as `processes` says.
    pub fn new(user: Option<User>, processes: Option<LoadProcesses>) -> Scope {
        Scope {
            user,
            processes,
            ..Scope::default()
        }
    }

    /// For our own tools, with a file that they and all that they start have open: its lock is held until the last of
    /// them has ended, if we have not let it go before.
    pub fn lending(file: File) -> Scope {
        Scope {
            lent: Some(Arc::new(file)),
            ..Scope::default()
        }
    }

    /// The same with the rights of somebody else.
    #[must_use]
    pub fn with_user(&self, user: Option<User>) -> Scope {
        Scope {
            user,
            ..self.clone()
        }
    }

    /// The same for what prepares trials: a server that it leaves running goes on until the run ends.
    #[must_use]
    pub fn lasting(&self) -> Scope {
        Scope {
            is_lasting: true,
            ..self.clone()
        }
    }

    /// The same for a program that can open no more than this.
    #[must_use]
    pub fn within(&self, reach: Reach) -> Scope {
        Scope {
            reach: Some(reach),
            ..self.clone()
        }
    }

    /// Whose rights loads have, if not ours.
    pub fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    /// Makes the cgroup, where that is possible. Where not, what loses its parent comes to us.
    pub fn make(&mut self) {
        let Some(processes) = &mut self.processes else {
            return;
        };
        let made = processes.cgroup.as_deref().map(|path| {
            cgroup::make(path)?;
            cgroup::make(&path.join(LASTING))
        });
        if !matches!(made, Some(Ok(()))) {
            processes.cgroup = None;
            self.before = Descendants::keep(&Host::live());
        }
    }

    /// Ends, where there is no cgroup, all that the run started ([`LoadProcesses::end`] finds the rest).
    pub fn end(&self) {
        if let Some(before) = &self.before {
            before.kill_others(&Host::live(), None);
        }
    }

    /// Runs a load to its end. `tick` is called about twenty times a second with the time passed.
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
        let stdin = pipe_with(input).map_err(|source| not_started(&command, source))?;
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
        let (mut outputs, stdout, stderr) =
            Outputs::new().map_err(|source| not_started(&command, source))?;
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let started = Instant::now();
        let mut child = self.start(command, Signal::KILL)?;
        let outcome = child.wait(&mut outputs, limit, stop, tick);
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
            Err(source) => return Err(ChildError::Start { program, source }),
        };
        let [stdout, stderr] = outputs.end();
        Ok(Finished {
            status,
            stdout,
            stderr,
            elapsed,
        })
    }

    /// Starts a child that gets this signal when the thread that calls this dies.
    fn start(&self, command: Command, when_we_die: Signal) -> Result<Child, ChildError> {
        let program = command.get_program().to_string_lossy().into_owned();
        self.spawn(command, when_we_die).map_err(|source| {
            // Its directory, its interpreter or its cgroup may be missing, too.
            let is_missing = source.kind() == io::ErrorKind::NotFound;
            match super::check_installed(&program) {
                Err(missing) if is_missing => missing,
                _ => ChildError::Start { program, source },
            }
        })
    }

    fn spawn(&self, mut command: Command, when_we_die: Signal) -> io::Result<Child> {
        if let Some(processes) = &self.processes {
            command.env(RUN, &processes.marker);
        }
        let cgroup = self.cgroup_of_child()?;
        let entrance = cgroup.as_deref().map(cgroup::entrance).transpose()?;
        let before = self
            .before
            .as_ref()
            .map(|_| Descendants::now(&Host::live()));
        let lent = self.lent.as_ref().map(AsRawFd::as_raw_fd);
        let sandbox = self.reach.as_ref().map(Sandbox::prepare).transpose()?;
        confine::confine(
            &mut command,
            self.user(),
            entrance,
            lent,
            sandbox,
            when_we_die,
        );
        let process = match self.user() {
            Some(_) => spawn_watched(&mut command),
            None => command.spawn(),
        };
        let cgroup = cgroup.filter(|_| !self.is_lasting);
        if let (Err(_), Some(path)) = (&process, &cgroup) {
            let _ = cgroup::end(path, KILLED_WITHIN);
        }
        Ok(Child {
            process: process?,
            cgroup,
            before,
            is_lasting: self.is_lasting,
        })
    }

    /// A cgroup for a child, where the run has one; that of the run, if it is to go on as long as that.
    fn cgroup_of_child(&self) -> io::Result<Option<PathBuf>> {
        let run = self.processes.as_ref().and_then(|of| of.cgroup.as_deref());
        let Some(run) = run else { return Ok(None) };
        if self.is_lasting {
            return Ok(Some(run.join(LASTING)));
        }
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let own = run.join(number.to_string());
        let made = cgroup::make(&own);
        let told =
            |error| io::Error::other(format!("no cgroup for it in {}: {error}", run.display()));
        made.map_err(told).map(|()| Some(own))
    }
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

/// Does something that the kernel may never finish (a disk that does not answer) in a child, which is left behind then: a
/// thread that waits in the kernel would keep this process from ending, whatever signal it gets. True if the child ended in
/// time, and well.
pub fn do_patiently(mut command: Command, limit: Duration, stop: &Stop) -> bool {
    let [input, output, errors] = std::array::from_fn(|_| Stdio::null());
    command.stdin(input).stdout(output).stderr(errors);
    let (Ok(mut child), begun) = (command.spawn(), Instant::now()) else {
        return false;
    };
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if begun.elapsed() < limit && !stop.is_wanted() => {
                std::thread::sleep(Duration::from_millis(2));
            }
            _ => {
                let _ = child.kill();
                return false;
            }
        }
    }
}

fn not_started(command: &Command, source: io::Error) -> ChildError {
    ChildError::Start {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    }
}

/// Starts a child that has another user's rights before it runs that user's program: whoever has these rights can stop it
/// there, and the start with it. One that is stopped, or takes too long, is killed.
fn spawn_watched(command: &mut Command) -> io::Result<std::process::Child> {
    let (has_begun, begins) = mpsc::channel::<()>();
    let watch = move || {
        let (host, begun) = (Host::live(), Instant::now());
        while begins.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            for pid in not_begun(&host, begun.elapsed() < STARTED_WITHIN) {
                signal_if(pid, Signal::KILL, || not_begun(&host, false).contains(&pid));
            }
        }
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new().spawn_scoped(scope, watch)?;
        let process = command.spawn();
        drop(has_begun);
        process
    })
}

/// A child that was started, and where all that it starts is found.
#[derive(Debug)]
struct Child {
    process: std::process::Child,
    cgroup: Option<PathBuf>,
    /// Where there is no cgroup: what descended from us before it.
    before: Option<Descendants>,
    is_lasting: bool,
}

impl Child {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Waits for the end; `None` if the limit, a wish to stop or too much output came first (the child is dead then).
    fn wait(
        &mut self,
        outputs: &mut Outputs,
        limit: Duration,
        stop: &Stop,
        tick: &mut dyn FnMut(Duration),
    ) -> io::Result<Option<ExitStatus>> {
        let started = Instant::now();
        // Linux 5.3; without it the child is looked at every few milliseconds.
        let end = pidfd_open(self.pid(), PidfdFlags::empty()).ok();
        let mut next_tick = started + TICK;
        loop {
            let fds = outputs
                .open()
                .map(AsFd::as_fd)
                .chain(end.as_ref().map(AsFd::as_fd));
            let mut fds: Vec<PollFd> = fds
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            let left = next_tick.saturating_duration_since(Instant::now());
            let left = if end.is_some() { left } else { left.min(STEP) };
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            outputs.take_in()?;
            if self.process.try_wait()?.is_some() || self.is_zombie() {
                return self.reap().map(Some);
            }
            let elapsed = started.elapsed();
            if stop.is_wanted() || elapsed > limit || outputs.is_too_much() {
                self.kill(outputs)?;
                return Ok(None);
            }
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                tick(elapsed);
            }
        }
    }

    /// Ends it: it may say goodbye, which is read so that a full pipe does not keep it from it.
    fn kill(&mut self, outputs: &mut Outputs) -> io::Result<()> {
        self.signal_group(Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline && self.process.try_wait()?.is_none() {
            outputs.take_in()?;
            std::thread::sleep(STEP);
        }
        self.signal_group(Signal::KILL);
        self.reap().map(|_| ())
    }

    fn is_zombie(&self) -> bool {
        ProcessStat::read(&Host::live(), self.process.id()).is_some_and(|stat| stat.is_zombie)
    }

    /// How a child ended that has ended, or is about to. Whoever traces it (`ptrace(2)`) is told first, and we only once
    /// that lets go of it: a tracer that it started itself is killed with all the rest.
    ///
    /// # Errors
    /// Somebody else traces it and does not let go; or it waits in the kernel for what does not come.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        let begun = Instant::now();
        let mut next_end = begun;
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            let pid = self.process.id();
            let is_kept = begun.elapsed() > KILLED_WITHIN && self.is_zombie();
            if is_kept || begun.elapsed() > WAITED_FOR {
                return Err(io::Error::other(format!(
                    "process {pid} was killed and does not end: it waits in the kernel, or a debugger traces it"
                )));
            }
            if Instant::now() >= next_end {
                self.end_all();
                next_end = Instant::now() + KILLED_WITHIN;
            }
            std::thread::sleep(STEP);
        }
    }

    /// Signals the child and what it started that did not leave its group.
    fn signal_group(&self, signal: Signal) {
        // ESRCH (all of the group ended already) is what we hope for.
        let _ = kill_process_group(self.pid(), signal);
    }

    /// Kills the child with all that it started, wherever that went; but for what a child that prepares trials
    /// leaves running, which lives as long as the run. What does not end is found again when the run ends.
    fn end_all(&self) {
        if self.is_lasting {
            return;
        }
        self.signal_group(Signal::KILL);
        if let Some(path) = &self.cgroup {
            let _ = cgroup::end(path, KILLED_WITHIN);
        }
        if let Some(before) = &self.before {
            before.kill_others(&Host::live(), Some(self.pid()));
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).expect("a moment")
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
        let stdout = log
            .try_clone()
            .map_err(|source| not_started(&command, source))?;
        command.stdin(Stdio::null()).stdout(stdout).stderr(log);
        Ok(Daemon {
            child: scope.start(command, when_we_die)?,
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
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end(&[], &Stop::new());
    }
}

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
        for signal in [signal, Signal::CONT] {
            // Fails only if it has ended.
            let _ = kill_process(Pid::from_child(child), signal);
        }
        let sent = Instant::now();
        let limit = || {
            if stop.is_wanted() {
                limit.min(WHEN_STOPPED)
            } else {
                limit
            }
        };
        while sent.elapsed() < limit() && has_ended(child).is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    has_ended(child)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::process::describe;

    fn sh(script: &str) -> Command {
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

    /// Living processes that descend from us.
    fn descendants() -> Descendants {
        Descendants::now(&Host::live())
    }

    #[test]
    fn a_cgroup_that_was_removed_is_no_missing_program() {
        let mut scope = Scope::new(
            None,
            Some(LoadProcesses {
                marker: "1-2".into(),
                cgroup: None,
            }),
        );
        let gone = tempfile::tempdir().unwrap().path().join("gone");
        scope.processes.as_mut().unwrap().cgroup = Some(gone.clone());
        let (limit, stop) = (Duration::from_secs(9), Stop::new());
        let error = scope.run(sh("true"), limit, &stop, &mut |_| {});
        let ChildError::Start { source, .. } = error.unwrap_err() else {
            panic!("it is installed");
        };
        assert!(source.to_string().contains(&*gone.to_string_lossy()));
    }

    /// Traces the process `$1` and lets nobody know how it ends.
    const TRACE: &str = "import ctypes, sys, time
call = ctypes.CDLL(None, use_errno=True).ptrace
call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
seize = 0x4206
assert call(seize, int(sys.argv[1]), None, None) == 0, ctypes.get_errno()
open(sys.argv[2], 'w').close()
time.sleep(100000)";

    /// Where a process may trace its parent with python3, and says so if not.
    fn can_trace() -> bool {
        let dir = tempfile::tempdir().unwrap();
        let begun = dir.path().join("begun");
        let script = format!(
            "timeout 60 python3 -c \"{}\" $$ {}",
            TRACE.replace("time.sleep(100000)", ""),
            begun.display()
        );
        let can = sh(&script).output().unwrap().status.success() && begun.exists();
        if !can {
            iosched_testing::lacks("python3, and the right to trace a parent (ptrace)");
        }
        can
    }

    /// Starts something in a session of its own that traces a process, and waits until it does: then `begun` is there.
    fn begin_to_trace(process: &str, begun: &Path) -> String {
        let path = begun.display();
        format!("setsid python3 -c \"{TRACE}\" {process} {path} & until [ -e {path} ]; do :; done")
    }

    #[test]
    fn a_child_that_is_traced_by_its_own_child_ends_with_it() {
        if !can_trace() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let limit = Duration::from_secs(600);
        for has_cgroup in [true, false] {
            let mut processes = LoadProcesses::of_run(&Host::live(), std::process::id(), 4711);
            if !has_cgroup {
                processes.cgroup = None;
            }
            let mut scope = Scope::new(None, Some(processes.clone()));
            scope.make();
            let traces = dir.path().join(format!("ends-{has_cgroup}"));
            let script = format!("{}; exit 7", begin_to_trace("$$", &traces));
            let ended = scope.run(sh(&script), limit, &Stop::new(), &mut |_| {});
            assert_eq!(ended.unwrap().status.code(), Some(7));

            let traces = dir.path().join(format!("goes-on-{has_cgroup}"));
            let script = format!("{}; sleep 100000", begin_to_trace("$$", &traces));
            let stop = Stop::new();
            let stopped = scope.run(sh(&script), limit, &stop, &mut |_| {
                if traces.exists() {
                    stop.ask();
                }
            });
            assert!(matches!(stopped, Err(ChildError::Stopped)), "{stopped:?}");
            scope.end();
            assert_eq!(processes.end(&Host::live()), Ok(Vec::new()));
        }
    }

    #[test]
    fn a_child_that_is_stopped_before_its_program_begins_is_killed() {
        let mut command = Command::new("true");
        // SAFETY: one system call, on nothing that is ours.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(&mut command, || {
                rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)?;
                Ok(())
            });
        }
        let mut child = spawn_watched(&mut command).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(crate::process::describe(status), "signal 9");
    }

    #[test]
    fn without_cgroups_nothing_outlives_a_child_whatever_it_does_to_its_environment() {
        let processes = LoadProcesses {
            marker: format!("{}-test", std::process::id()),
            cgroup: None,
        };
        let mut scope = Scope::new(None, Some(processes));
        scope.make();
        let run = |scope: &Scope, script: &str| {
            let (limit, stop) = (Duration::from_secs(600), Stop::new());
            scope.run(sh(script), limit, &stop, &mut |_| {}).unwrap();
        };
        let at_first = descendants();
        run(&scope.lasting(), "sleep 1000 >&- 2>&- &");
        let with_server = descendants();
        assert_ne!(with_server, at_first);
        let ways = [
            "setsid sleep 1000 &",
            "env -i setsid sleep 1000 &",
            "(setsid env -i sh -c 'sleep 1000 & sleep 1000' &)",
            "(setsid env -i sh -c 'while :; do sh -c : & wait; done' &)",
        ];
        for way in ways {
            let begun = Instant::now();
            run(&scope, way);
            assert_eq!(descendants(), with_server, "{way}, {:?}", begun.elapsed());
        }
        scope.end();
        assert_eq!(descendants(), at_first);
    }
}
