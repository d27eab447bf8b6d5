//! A world of its own for each test: a mount namespace in which no state of other runs exists.
//!
//! The command keeps its journal, history and lock in `/var/lib/iosched`, its emulated disks and file systems
//! in `/run/iosched`. In a world both are empty and in memory, so that `iosched restore` in one test
//! never sees what another test killed. What is mounted in a world disappears with its last process. tracefs
//! is mounted at its usual place, whether the machine has mounted it or not. Devices, processes and the
//! instances of tracefs are shared by all worlds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Directories that are empty in a new world.
const EMPTY: [&str; 2] = ["/var/lib/iosched", "/run/iosched"];

/// Where tracefs is mounted.
pub const TRACEFS: &str = "/sys/kernel/tracing";

/// Worlds made by this process, by the identity of their namespace.
static WORLDS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Moves this thread, and what it starts from now on, into a world of its own, unless it is in one. Without
/// root it stays where it is: the tests that need a world need root, and say so.
pub fn enter() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut worlds = WORLDS.lock().unwrap_or_else(PoisonError::into_inner);
    if worlds.contains(&namespace()) {
        return;
    }
    make().unwrap_or_else(|error| panic!("cannot make a mount namespace for a test: {error}"));
    worlds.insert(namespace());
}

/// The mount namespace of this thread (`mnt:[4026531841]`).
fn namespace() -> PathBuf {
    fs::read_link("/proc/thread-self/ns/mnt").expect("/proc is mounted")
}

fn make() -> io::Result<()> {
    // SAFETY: file descriptors stay shared; only mounts and the working directory become this thread's own.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    for directory in EMPTY {
        fs::create_dir_all(directory)?;
        mount(
            "tmpfs",
            directory,
            "tmpfs",
            MountFlags::empty(),
            c"mode=0755",
        )?;
    }
    if !Path::new(TRACEFS).join("instances").exists() {
        // A kernel without tracing: the tests that need it say so.
        let _ = mount("tracefs", TRACEFS, "tracefs", MountFlags::empty(), None);
    }
    Ok(())
}
