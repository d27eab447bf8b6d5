//! A world of its own for each test program: a mount namespace in which no state of other runs exists.
//!
//! The command keeps its journal, history and lock in `/var/lib/iosched`, its emulated disks and file systems
//! in `/run/iosched`. In a world both are empty and in memory, so that `iosched restore` in one test
//! never sees what another test killed. What is mounted in a world disappears with its last process. tracefs
//! and debugfs are mounted at their usual places, whether the machine has mounted them or not. Devices,
//! processes and the instances of tracefs are shared by all worlds.
//!
//! `scripts/run-tests` starts each test in a process, so that each has a world. `cargo test` starts a program
//! once: its tests share a world and run one after the other (`RUST_TEST_THREADS` in `.cargo/config.toml`).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::mounts;

/// Directories that are empty in a new world.
const EMPTY: [&str; 2] = ["/var/lib/iosched", "/run/iosched"];

/// Where tracefs is mounted.
pub const TRACEFS: &str = "/sys/kernel/tracing";

/// Where debugfs is mounted.
pub const DEBUGFS: &str = "/sys/kernel/debug";

/// Gives a test program its world: to be written once at the top of each that uses the command, devices or
/// mounts.
#[macro_export]
macro_rules! world {
    () => {
        // SAFETY: the section holds functions without arguments that the loader calls before `main`; this one
        // is called while there is one thread, and touches nothing that `main` sets up.
        #[used]
        #[unsafe(link_section = ".init_array")]
        static ENTER_WORLD: extern "C" fn() = $crate::world::enter;
    };
}

/// True if we are root, and are not allowed to make a world.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Moves this process into a world of its own. Without root, or as root without its capabilities (in a
/// container), it stays where it is: the tests that need a world ask [`crate::is_root`], and say so.
pub extern "C" fn enter() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    match make() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            IS_REFUSED.store(true, Ordering::Relaxed);
        }
        made => made.unwrap_or_else(|error| panic!("cannot make a world for a test: {error}")),
    }
}

/// True if this is root whom the kernel refused a world.
pub(crate) fn is_refused() -> bool {
    IS_REFUSED.load(Ordering::Relaxed)
}

/// Gives this thread, and what it starts, mounts of its own: for a test that changes what is mounted, while other
/// tests of its program keep theirs.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: file descriptors stay shared; only mounts and the working directory become our own.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    Ok(())
}

/// Detaches, for us alone, what others have mounted below a directory. Those mounts may vanish and come again under the same
/// names while a test runs, which would look as if the test had unmounted them.
fn detach_below(directory: &str) -> io::Result<()> {
    let table = fs::read("/proc/thread-self/mounts")?;
    let table = String::from_utf8_lossy(&table); // names are bytes
    let places = table.lines().filter_map(|line| line.split(' ').nth(1));
    let below = places.filter(|place| Path::new(place).starts_with(directory));
    for place in below.collect::<Vec<_>>().into_iter().rev() {
        // What has vanished meanwhile is not there either.
        let _ = unmount(place, UnmountFlags::DETACH);
    }
    Ok(())
}

fn make() -> io::Result<()> {
    own_mounts()?;
    for directory in EMPTY {
        detach_below(directory)?;
        fs::create_dir_all(directory)?;
        mount(
            "tmpfs",
            directory,
            "tmpfs",
            MountFlags::empty(),
            c"mode=0755",
        )?;
    }
    for (kind, at, inside) in [
        ("debugfs", DEBUGFS, "block"),
        ("tracefs", TRACEFS, "instances"),
    ] {
        if !Path::new(at).join(inside).exists() {
            // A kernel without it: the tests that need it say so.
            let _ = mount(kind, at, kind, MountFlags::empty(), None);
        }
    }
    mounts::remember();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_mounted_below_is_not_in_a_world() {
        if !crate::is_root() {
            return;
        }
        own_mounts().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().to_str().unwrap();
        let outer = format!("{at}/outer");
        let inner = format!("{outer}/inner");
        for place in [&outer, &inner] {
            fs::create_dir(place).unwrap();
            mount("tmpfs", place, "tmpfs", MountFlags::empty(), None).unwrap();
        }
        let lists = || fs::read_to_string("/proc/thread-self/mounts").unwrap();
        assert!(lists().contains(&inner));
        detach_below(at).unwrap();
        assert!(!lists().contains(at), "{}", lists());
    }
}
