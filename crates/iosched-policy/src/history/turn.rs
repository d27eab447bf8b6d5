//! The right to change the machine for good: one command at a time has it, by a `flock` on
//! `/var/lib/iosched/lock`.
//!
//! Whoever may open a file may lock it, and so make root wait. Only root can open this one, and only root
//! can put another in its place.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iosched_machine::durable;
use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_machine::lock::{self, Holder};
use iosched_machine::process::{Scope, Stop};

use rustix::fs::{FlockOperation, flock};

use super::{directory, not_written, refuse_links};
use crate::system_config::udev;

/// Most commands change the machine within this time: waiting for them is not worth a word.
const SHORT: Duration = Duration::from_secs(1);

/// The right to change the machine for good.
#[derive(Debug)]
pub struct Turn {
    file: File,
    host: Host,
    stop: Stop,
}

impl Turn {
    /// The machine that may be changed.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Whether the user wants no more of it.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// For programs that are started in it. They hold the turn, too: if we are killed, what they still do goes on, and
    /// the next command waits for its end instead of working beside it.
    pub(crate) fn scope(&self) -> Result<Scope, Problem> {
        let lent = self
            .file
            .try_clone()
            .map_err(|error| udev::cannot_prepare(&error))?;
        Ok(Scope::lending(lent))
    }
}

impl Drop for Turn {
    /// For whoever still has the file open, too.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// What a command waits for.
#[derive(Debug, thiserror::Error)]
#[error("waiting for {}, which holds {}", lock::named(holder.as_ref()), path.display())]
pub struct Waiting {
    /// The lock.
    pub path: PathBuf,
    /// Who holds it, where `/proc/locks` tells.
    pub holder: Option<Holder>,
}

/// Waits until no other command changes the machine, or until asked to stop. `tell` hears of it, once, if it
/// takes longer than a moment.
pub fn take_turn(
    host: &Host,
    stop: &Stop,
    tell: &mut dyn FnMut(&Waiting),
) -> Result<Turn, Problem> {
    let path = host.path(Path::new("/var/lib/iosched/lock"));
    let failed = |source| not_written(&path, &source);
    refuse_links(host).map_err(failed)?;
    make_directory(&directory(host)).map_err(failed)?;
    let file = lock::open_private(&path).map_err(failed)?;
    restrict(&file, 0o600).map_err(failed)?; // an older version let others open it
    let begun = Instant::now();
    let mut is_told = false;
    while !lock::try_lock(&file).map_err(failed)? {
        let waiting = || Waiting {
            path: path.clone(),
            holder: lock::holder(host, &file),
        };
        if stop.is_wanted() {
            return Err(stopped(&waiting()));
        }
        if !is_told && begun.elapsed() >= SHORT {
            is_told = true;
            tell(&waiting());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    durable::remove_unfinished(&directory(host));
    Ok(Turn {
        file,
        host: host.clone(),
        stop: stop.clone(),
    })
}

/// Asked to stop while another command had its turn.
fn stopped(waiting: &Waiting) -> Problem {
    let message = format!("nothing was changed: stopped while {waiting}");
    Problem::new(exit::BUSY, message).hint(match &waiting.holder {
        Some(Holder { pid, .. }) => format!("wait for it, or look what it does: ps {pid}"),
        None => "try again once it has ended".into(),
    })
}

/// Makes a directory of the history, and leaves no one else the right to write to the one above.
fn make_directory(path: &Path) -> io::Result<()> {
    durable::make_directories(path)?;
    let above = path.parent().expect("the history is below our directory");
    restrict(&File::open(above)?, 0o755)
}

/// Takes away the rights that a file or directory gives beyond these.
fn restrict(file: &File, most: u32) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & !most == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(mode & most))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::system_config::testing::machine;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_copied_tree_whose_way_to_the_history_is_a_link_is_refused_and_nothing_is_made_there() {
        for way in [
            "var",
            "var/lib",
            "var/lib/iosched",
            "var/lib/iosched/history",
        ] {
            let (dir, host) = machine(&[]);
            let elsewhere = tempfile::tempdir().unwrap();
            let link = dir.path().join(way);
            let _ = fs::remove_dir_all(&link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
            let refused = take_turn(&host, &Stop::new(), &mut |_| {}).unwrap_err();
            assert!(
                refused.message.starts_with("cannot write"),
                "{way}: {refused}"
            );
            super::super::entries(&host).unwrap_err();
            assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0, "{way}");
        }
    }

    #[test]
    fn nobody_else_can_open_the_lock_or_replace_it_also_where_an_older_version_made_it() {
        let (dir, host) = machine(&[]);
        let ours = dir.path().join("var/lib/iosched");
        let lock = ours.join("lock");
        drop(take_turn(&host, &Stop::new(), &mut |_| {}).unwrap());
        assert_eq!((mode(&lock), mode(&ours) & 0o022), (0o600, 0));
        fs::set_permissions(&lock, Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(&ours, Permissions::from_mode(0o777)).unwrap();
        drop(take_turn(&host, &Stop::new(), &mut |_| {}).unwrap());
        assert_eq!((mode(&lock), mode(&ours)), (0o600, 0o755));
    }

    #[test]
    fn who_waits_is_told_once_what_for_and_can_stop() {
        let (dir, host) = machine(&[]);
        let _turn = take_turn(&host, &Stop::new(), &mut |_| {}).unwrap();
        let stop = Stop::new();
        let mut told = Vec::new();
        let error = take_turn(&host, &stop, &mut |waiting| {
            told.push(waiting.path.clone());
            stop.ask();
        });
        assert_eq!(error.unwrap_err().code, exit::BUSY);
        assert_eq!(told, [dir.path().join("var/lib/iosched/lock")]);
    }
}
