//! In which surroundings the loads of a run are started: whose rights they have, and where their processes
//! are kept together.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::descendants::{self, Descendants};
use super::pidfd::signal_if;
use super::remains::{self, LoadProcesses, RUN};
use super::stat::ProcessStat;
use super::user::User;
use super::{cgroup, confine};
use crate::host::Host;
use crate::lossy;

/// How long what a load started may take to end after SIGKILL. What takes longer is waited for when the run
/// ends.
const KILLED_WITHIN: Duration = Duration::from_secs(5);

/// How long what was killed may wait in the kernel, for a disk that is slow to give up, before we go on without it.
const WAITED_FOR: Duration = Duration::from_secs(60);

/// How long a child may take from its start to the program that it is to run.
const STARTED_WITHIN: Duration = Duration::from_secs(60);

/// How often a child is looked at that is being started.
const LOOK: Duration = Duration::from_millis(500);

/// How often a child is looked at that is about to end.
const STEP: Duration = Duration::from_millis(2);

/// The cgroup and the marker's end of what lives as long as the run.
const LASTING: &str = "lasting";

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
            self.before = descendants::keep().then(|| Descendants::now(&Host::live()));
        }
    }

    /// Ends, where there is no cgroup, all that the run started: what it says of itself in its environment finds
    /// the rest ([`LoadProcesses::end`]).
    pub fn end(&self) {
        if let Some(before) = &self.before {
            before.kill_others(&Host::live(), None, |_| true);
        }
    }

    /// Whose rights loads have, if not ours.
    pub fn user(&self) -> Option<&User> {
        self.user.as_ref()
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

    /// Starts a child that gets this signal when the thread that calls this dies.
    pub(super) fn spawn(&self, mut command: Command, when_we_die: Signal) -> io::Result<Child> {
        let name = self.name_of_child();
        let marker = self
            .processes
            .as_ref()
            .map(|of| format!("{}.{name}", of.marker));
        if let Some(marker) = &marker {
            command.env(RUN, marker);
        }
        let cgroup = self.cgroup_of_child(&name);
        let cgroup = cgroup.map_err(|error| self.without_cgroup(&error))?;
        let before = self
            .before
            .as_ref()
            .map(|_| Descendants::now(&Host::live()));
        let entrance = cgroup.as_deref().map(cgroup::entrance).transpose();
        let entrance = entrance.map_err(|error| self.without_cgroup(&error))?;
        let lent = self.lent.as_ref().map(AsRawFd::as_raw_fd);
        confine::confine(&mut command, self.user(), entrance, lent, when_we_die);
        let process = match self.user() {
            Some(_) => spawn_watched(&mut command),
            None => command.spawn(),
        };
        let cgroup = cgroup.filter(|_| !self.is_lasting);
        if process.is_err()
            && let Some(path) = &cgroup
        {
            end_cgroup(path);
        }
        Ok(Child {
            process: process?,
            marker: marker.filter(|_| !self.is_lasting),
            cgroup,
            before,
            is_lasting: self.is_lasting,
        })
    }

    /// Why a child was not started: the cgroup of the run was removed, or takes no more.
    fn without_cgroup(&self, error: &io::Error) -> io::Error {
        let run = self.processes.as_ref().and_then(|of| of.cgroup.as_ref());
        let path = run.map(|run| run.display().to_string()).unwrap_or_default();
        io::Error::other(format!("no cgroup for it in {path}: {error}"))
    }

    /// What tells a child from the others of its run.
    fn name_of_child(&self) -> String {
        if self.is_lasting {
            return LASTING.to_owned();
        }
        self.started.fetch_add(1, Ordering::Relaxed).to_string()
    }

    /// The cgroup that a child of this name is to be in, which is there.
    fn cgroup_of_child(&self, name: &str) -> io::Result<Option<PathBuf>> {
        let run = self.processes.as_ref().and_then(|of| of.cgroup.as_deref());
        let own = run.map(|run| run.join(name));
        if let Some(own) = own.as_deref().filter(|_| !self.is_lasting) {
            cgroup::make(own)?;
        }
        Ok(own)
    }
}

/// A child that was started, and where all that it starts is found.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) process: std::process::Child,
    marker: Option<String>,
    cgroup: Option<PathBuf>,
    /// Where there is no cgroup: what descended from us before it.
    before: Option<Descendants>,
    is_lasting: bool,
}

impl Child {
    pub(super) fn pid(&self) -> Pid {
        let raw = i32::try_from(self.process.id()).expect("the kernel's pids fit");
        Pid::from_raw(raw).expect("a child's pid is not 0")
    }

    /// How a child ended that has ended, or is about to. Whoever traces it (`ptrace(2)`) is told first, and we only once
    /// that lets go of it: a tracer that it started itself is killed with all the rest.
    ///
    /// # Errors
    /// Somebody else traces it and does not let go; or it waits in the kernel for what does not come.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        let (host, pid) = (Host::live(), self.pid().as_raw_nonzero().get());
        let begun = Instant::now();
        let mut kept_since = None;
        let mut next_end = begun + KILLED_WITHIN;
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            if ProcessStat::read(&host, pid).is_some_and(|stat| stat.is_zombie) {
                match kept_since {
                    None => self.end_all(),
                    Some(since) if Instant::now() > since + KILLED_WITHIN => {
                        return Err(kept_by_a_tracer(&host, pid));
                    }
                    Some(_) => {}
                }
                kept_since.get_or_insert_with(Instant::now);
            } else if Instant::now() > begun + WAITED_FOR {
                return Err(io::Error::other(format!(
                    "process {pid} was killed and does not end: it waits in the kernel"
                )));
            } else if Instant::now() > next_end {
                self.end_all();
                next_end = Instant::now() + KILLED_WITHIN;
            }
            std::thread::sleep(STEP);
        }
    }

    /// Signals the child and what it started that did not leave its group.
    pub(super) fn signal_group(&self, signal: Signal) {
        // ESRCH (all of the group ended already) is what we hope for.
        let _ = kill_process_group(self.pid(), signal);
    }

    /// Kills the child with all that it started, wherever that went; but for what a child that prepares trials
    /// leaves running, which lives as long as the run.
    pub(super) fn end_all(&self) {
        if self.is_lasting {
            return;
        }
        self.signal_group(Signal::KILL);
        match (&self.cgroup, &self.marker) {
            (Some(path), _) => end_cgroup(path),
            (None, Some(marker)) => self.end_without_cgroup(marker),
            (None, None) => {}
        }
    }

    /// What was there before goes on, and so does what says of itself that it belongs to another child.
    fn end_without_cgroup(&self, marker: &str) {
        let host = Host::live();
        if let Some(before) = &self.before {
            let may_end = |pid| !remains::is_of_another_child(&host, pid, marker);
            before.kill_others(&host, Some(self.pid()), may_end);
        }
        remains::kill_marked(&host, marker);
    }
}

/// Starts a child that has another user's rights before it runs that user's program: whoever has these rights can stop it
/// there, and the start with it. One that is stopped, or takes too long, is killed.
fn spawn_watched(command: &mut Command) -> io::Result<std::process::Child> {
    let (has_begun, begins) = mpsc::channel::<()>();
    let watch = move || {
        let (host, begun) = (Host::live(), Instant::now());
        while begins.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            for pid in descendants::not_begun(&host, begun.elapsed() < STARTED_WITHIN) {
                signal_if(pid, Signal::KILL, || {
                    descendants::not_begun(&host, false).contains(&pid)
                });
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

/// It has ended, and its end is kept from us.
fn kept_by_a_tracer(host: &Host, pid: i32) -> io::Error {
    let status = lossy::read(host.proc(&format!("{pid}/status"))).unwrap_or_default();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    let tracer = tracer.map_or("?", str::trim);
    io::Error::other(format!(
        "it has ended, but process {tracer} traces it and does not let go: end that one"
    ))
}

/// What does not end is found again when the run ends.
fn end_cgroup(path: &Path) {
    if cgroup::kill(path, KILLED_WITHIN) {
        let _ = cgroup::remove_within(path, KILLED_WITHIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::sh;
    use crate::process::{ChildError, Stop, descendants::Descendants};

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
    fn who_traces_a_child_from_outside_is_named() {
        if !can_trace() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (begun, number) = (dir.path().join("begun"), dir.path().join("number"));
        let (number, is_begun) = (number.display(), begun.display());
        let outside = begin_to_trace(&format!("$(cat {number})"), &begun);
        let outside = format!("until [ -s {number} ]; do :; done; {outside}; wait");
        let mut outside = sh(&outside).spawn().unwrap();
        let script = format!("echo $$ > {number}; until [ -e {is_begun} ]; do :; done");
        let (limit, stop) = (Duration::from_secs(600), Stop::new());
        let error = Scope::default().run(sh(&script), limit, &stop, &mut |_| {});
        let ChildError::Start { source, .. } = error.unwrap_err() else {
            panic!("it was started");
        };
        let text = source.to_string();
        let named = text.split_whitespace().find_map(|word| word.parse().ok());
        let named = named.and_then(Pid::from_raw).expect("a tracer is named");
        rustix::process::kill_process(named, Signal::KILL).unwrap();
        outside.wait().unwrap();
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
