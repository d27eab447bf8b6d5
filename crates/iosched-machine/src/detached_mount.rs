//! File systems of the kernel's own (tracefs, fusectl) that nobody has mounted: a mount of them without a place in the file
//! tree, which goes with its descriptor.

use std::io;
use std::os::fd::OwnedFd;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

/// Mounts the file system of this type (Linux 5.2).
///
/// # Errors
/// The kernel does not know it, or we may not mount.
pub(crate) fn mount(kind: &str) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    let attributes = MountAttrFlags::empty();
    Ok(rustix::mount::fsmount(&context, flags, attributes)?)
}
