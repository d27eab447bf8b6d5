//! The kernel's tracing files, and an instance of our own among them: a directory with buffers and
//! switches that no other user of tracing sees.
//!
//! An instance is called `iosched-PID-START`, after the process that made it, which has its directory locked (`flock`):
//! when both are gone, the next recorder and `iosched restore` remove it. In another pid namespace only the lock tells.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{no_tracefs, unusable};
use crate::detached_mount;
use crate::failure::Problem;
use crate::host::Host;
use crate::lock;
use crate::process::{Owner, OwnerState};

/// Where tracefs is, unless the machine has not mounted it.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// What instances of ours are called.
const PREFIX: &str = "iosched-";

/// The tracing files of this machine.
#[derive(Debug, Clone)]
pub(super) struct Tracefs {
    root: PathBuf,
    /// A mount that only we have, where the machine has none. It goes with us.
    _mount: Option<Arc<OwnedFd>>,
}

impl Tracefs {
    /// Finds them, or makes a mount of them that nobody else sees.
    pub(super) fn open() -> Result<Tracefs, Problem> {
        for place in PLACES {
            if Path::new(place).join("events/header_page").exists() {
                return Ok(Tracefs {
                    root: place.into(),
                    _mount: None,
                });
            }
        }
        let mount = detached_mount::mount("tracefs").map_err(|error| no_tracefs(&error))?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        if !root.join("events/header_page").exists() {
            return Err(no_tracefs(&io::ErrorKind::NotFound.into()));
        }
        Ok(Tracefs {
            root,
            _mount: Some(Arc::new(mount)),
        })
    }

    fn instances(&self) -> PathBuf {
        self.root.join("instances")
    }

    /// The instances of processes that are gone.
    pub(super) fn left(&self, host: &Host) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.instances()) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_left = |name: &String| {
            let owner = owner_of(name).map(|owner| owner.state(host));
            let is_over = !matches!(owner, None | Some(OwnerState::Runs | OwnerState::Dying));
            is_over && !is_locked(&self.instances().join(name))
        };
        names.filter(is_left).collect()
    }

    /// Removes the instances of processes that are gone, and returns their names.
    pub(super) fn sweep(&self, host: &Host) -> Vec<String> {
        let mut left = self.left(host);
        left.retain(|name| remove(&self.instances().join(name)).is_ok());
        left
    }

    /// Makes an instance of our own.
    pub(super) fn make_instance(&self, host: &Host) -> Result<Instance, Problem> {
        let owner = Owner::this_process(host);
        let mut number = 0_u32;
        loop {
            let name = format!("{PREFIX}{}-{}-{number}", owner.pid, owner.start_ticks);
            let path = self.instances().join(&name);
            match fs::create_dir(&path) {
                Ok(()) => {
                    // Without it the name alone tells whose it is.
                    let lock = fs::File::open(&path).ok();
                    let lock = lock.filter(|file| lock::try_lock(file).unwrap_or(false));
                    return Ok(Instance {
                        _tracefs: self.clone(),
                        name,
                        path,
                        lock,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(source) => {
                    return Err(unusable("make the tracing instance", &path, &source));
                }
            }
        }
    }

    /// A file that describes what is recorded.
    pub(super) fn read(&self, below: &str) -> Result<String, Problem> {
        let path = self.root.join(below);
        read_at_once(&path).map_err(|error| unusable("read", &path, &error))
    }

    /// True if this kernel has the event (`block/block_rq_merge`).
    pub(super) fn has_event(&self, event: &str) -> bool {
        self.root.join("events").join(event).exists()
    }
}

/// Reads a file that may give no more than its first piece (`header_page` ends with that, however
/// short it was).
fn read_at_once(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            length => bytes.extend_from_slice(&piece[..length]),
        }
    }
}

/// Who made the instance of this name, if it is one of ours.
fn owner_of(name: &str) -> Option<Owner> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let pid = parts.next()?.parse().ok()?;
    let start_ticks = parts.next()?.parse().ok()?;
    let _number: u32 = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(Owner {
        pid,
        start_ticks,
        pid_namespace: None,
    })
}

/// True while its owner runs, wherever that is.
fn is_locked(instance: &Path) -> bool {
    fs::File::open(instance).is_ok_and(|directory| lock::is_locked(&directory))
}

/// Removes an instance. While somebody still reads from it, it is busy, which is not waited for longer than a moment: what
/// stays has next to no memory, and the next recorder or `restore` removes it.
fn remove(path: &Path) -> io::Result<()> {
    for (file, value) in [
        ("events/enable", "0"),
        ("tracing_on", "0"),
        ("buffer_size_kb", "1"),
    ] {
        let _ = fs::write(path.join(file), value);
    }
    for _ in 0..8 {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_millis(25));
            }
            other => return other,
        }
    }
    fs::remove_dir(path)
}

/// An instance of our own; removed when dropped.
#[derive(Debug)]
pub(super) struct Instance {
    _tracefs: Tracefs,
    name: String,
    path: PathBuf,
    /// Its directory, while it is ours.
    lock: Option<fs::File>,
}

impl Instance {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.path.join(below)
    }

    pub(super) fn write(&self, below: &str, value: &str) -> Result<(), Problem> {
        let path = self.path(below);
        fs::write(&path, value).map_err(|error| unusable("write", &path, &error))
    }

    pub(super) fn read(&self, below: &str) -> Result<String, Problem> {
        let path = self.path(below);
        read_at_once(&path).map_err(|error| unusable("read", &path, &error))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.lock = None;
        let _ = remove(&self.path); // what stays is removed by the next recorder, or `restore`
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_that_somebody_reads_stays_with_next_to_no_memory() {
        if !iosched_testing::is_root() {
            return;
        }
        let Ok(tracefs) = Tracefs::open() else {
            iosched_testing::lacks("tracefs");
            return;
        };
        let host = Host::live();
        let instance = tracefs.make_instance(&host).unwrap();
        instance.write("buffer_size_kb", "4096").unwrap();
        let path = instance.path.clone();
        let reader = fs::File::open(path.join("per_cpu/cpu0/trace_pipe_raw")).unwrap();
        drop(instance);
        let left = fs::read_to_string(path.join("buffer_size_kb")).unwrap();
        let left: u32 = left.trim().parse().unwrap();
        assert!(left <= 64, "{left} KiB of each processor");
        drop(reader);
        remove(&path).unwrap();
    }

    #[test]
    fn an_instance_whose_owner_cannot_be_seen_stays_while_it_is_locked() {
        let dir = tempfile::tempdir().unwrap();
        let tracefs = Tracefs {
            root: dir.path().to_owned(),
            _mount: None,
        };
        // No process has such a number here.
        let path = tracefs.instances().join("iosched-4999999-1-0");
        fs::create_dir_all(&path).unwrap();
        let lock = fs::File::open(&path).unwrap();
        assert!(lock::try_lock(&lock).unwrap());
        let host = Host::live();
        assert_eq!(tracefs.left(&host), [""; 0]);
        drop(lock);
        assert_eq!(tracefs.left(&host), ["iosched-4999999-1-0"]);
    }

    #[test]
    fn an_instance_tells_whose_it_is_and_others_are_left_alone() {
        let owner = Owner {
            pid: 12,
            start_ticks: 3456,
            pid_namespace: None,
        };
        assert_eq!(owner_of("iosched-12-3456-0"), Some(owner));
        for other in [
            "iosched",
            "iosched-12",
            "iosched-12-x-0",
            "iosched-1-2-3-4",
            "trace-1-2-3",
        ] {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }
}
