//! The scheduler of ours inside an emulated disk, as part of the state of its queue. Whoever serves such disks says so
//! once ([`serve_by`]); before that, and in a copied tree, no disk has one.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use iosched_machine::host::Host;
use iosched_machine::sysfs::Sysfs;

use super::error::{SwitchError, not_taken};

/// What a server of disks is asked about one of them, by its kernel name.
pub trait Server: Sync {
    /// The scheduler inside, with its tunables; none if there is none.
    fn scheduler(&self, host: &Host, device: &str) -> Option<String>;

    /// How many requests the disk takes at a time.
    fn depth(&self, host: &Host, device: &str) -> Option<u32>;

    /// Puts a scheduler inside, a fresh one even if it is the same: what the old one holds is done first. Gives the one that
    /// is there then.
    ///
    /// # Errors
    /// The server is gone, or does not know it.
    fn put(&self, host: &Host, device: &str, scheduler: &str) -> Result<String, SwitchError>;

    /// Sets how many requests the loop driver above may have.
    ///
    /// # Errors
    /// They cannot be written.
    fn set_requests(&self, sysfs: &Sysfs, device: &str, requests: &str) -> io::Result<()>;
}

static SERVER: OnceLock<&'static dyn Server> = OnceLock::new();

/// From now on disks are asked about here.
pub fn serve_by(server: &'static dyn Server) {
    let _ = SERVER.set(server);
}

/// The server, and this machine; none of a copied tree.
pub(super) fn server(sysfs: &Sysfs) -> Option<(&'static dyn Server, Host)> {
    let server = SERVER.get().filter(|_| sysfs.root() == Path::new("/sys"))?;
    Some((*server, Host::live()))
}

/// The scheduler of ours that stands inside a device, with its tunables; `None` if there is none.
pub(super) fn found(sysfs: &Sysfs, device: &str) -> Option<String> {
    let (server, host) = server(sysfs)?;
    server.scheduler(&host, device)
}

pub(super) fn put(sysfs: &Sysfs, device: &str, scheduler: &str) -> Result<(), SwitchError> {
    let Some((server, host)) = server(sysfs) else {
        return Err(gone(device));
    };
    let now = server.put(&host, device, scheduler)?;
    if now == scheduler {
        return Ok(());
    }
    Err(not_taken(device, scheduler, &now).into())
}

/// Sets how many requests the loop driver above a disk with a scheduler inside may have.
pub(super) fn set_requests(sysfs: &Sysfs, device: &str, requests: &str) -> io::Result<()> {
    match server(sysfs) {
        Some((server, _)) => server.set_requests(sysfs, device, requests),
        None => sysfs.write(device, "queue/nr_requests", requests),
    }
}

pub(super) fn gone(device: &str) -> SwitchError {
    SwitchError::Vanished {
        device: device.into(),
    }
}
