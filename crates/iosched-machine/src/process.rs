//! Child processes that cannot outlive us, hang for ever, or fill a disk with their output.
//!
//! A child gets a session of its own, so that all it starts can be ended with it and none of it reaches our
//! terminal; dies with us (`PR_SET_PDEATHSIG`); is waited for with a time limit, and is ended when [`Stop`] is asked for.
//! Its output comes through pipes and is kept in memory, up to a limit.
//!
//! - `child`: [`run`], for our own tools; [`Scope`], for loads: whose rights they have, and where their processes are kept
//!   together; [`Daemon`]: what runs beside us
//! - `confine`: what a child is left with when it starts; `user`: whose rights it has
//! - `sandbox`: what a program of a load can reach at the most
//! - `cgroup`: where there is cgroup v2, each load has its own, which is killed whole; `table`: where there is none, all
//!   that a load started descends from us (`PR_SET_CHILD_SUBREAPER`)
//! - `remains`: what is left of a run that was killed; `owner`: whether its process still runs
//! - `patience`: questions about processes that may never be answered

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use std::os::unix::process::ExitStatusExt;

pub(crate) mod cgroup;
mod child;
mod confine;
mod output;
mod owner;
pub(crate) mod patience;
mod pidfd;
pub mod processors;
mod remains;
mod sandbox;
mod stop;
mod table;
mod user;

pub use child::{ChildError, Daemon, Finished, Scope, do_patiently, run, signal_until_ended};
pub use confine::{SAFE_PATH, close_inherited};
pub use owner::{Owner, OwnerState};
pub use patience::{ask_patiently, hurry_on};
pub use pidfd::{ProcessFd, signal_if};
pub use remains::LoadProcesses;
pub use sandbox::Reach;
pub use stop::{AskAtEnd, Stop};
pub use table::ProcessStat;
pub(crate) use table::numbers;
pub use user::{User, as_user, name_of};

use crate::visible;

/// Some parents (services, interpreters) ignore SIGCHLD, and what they start does, too: how a child ended would then be lost
/// with the child.
pub fn be_told_of_ended_children() {
    // SAFETY: no handler is named.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Where memory runs out, others are ended before us as long as there are: we put back what we change. Without the right
/// to ask for that it stays as it is.
pub fn be_spared_for_want_of_memory() {
    // Ordinary processes have 0, and what is never ended has -1000.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-900");
}

/// Whether a program can be started that has a name on PATH, or a path from the root; of another path that depends on where it
/// is called from.
///
/// # Errors
/// It is not there.
pub fn check_installed(program: &str) -> Result<(), ChildError> {
    let path = Path::new(program);
    let is_elsewhere = path.components().count() > 1 && path.is_relative();
    if is_elsewhere || find_program(path).is_some() {
        return Ok(());
    }
    let program = program.to_owned();
    Err(ChildError::Missing { program })
}

/// Where a program is that has a name on PATH, or a path from the root.
pub fn find_program(program: &Path) -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").unwrap_or_else(|| SAFE_PATH.into());
    match program.components().count() {
        0 | 1 => std::env::split_paths(&on_path)
            .map(|place| place.join(program))
            .find(|path| path.is_file()),
        _ => program.exists().then(|| program.to_owned()),
    }
}

/// How a child ended, in words: `exit code 3`, `signal 9`.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(libc::SIGXFSZ)) => {
            "signal 25 (a file of its would have become larger than `ulimit -f` allows)".into()
        }
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown status".into(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_where_it_is_told_of() {
        assert_eq!(last_lines("a\n\nb\nc\n", 2), "b; c");
        assert_eq!(last_lines(" \n", 2), "it said nothing");
        assert_eq!(last_lines(&"é".repeat(5000), 1).chars().count(), 1001);
    }
}
