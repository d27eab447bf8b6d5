//! The machine as a value: the directory under which `/sys`, `/proc`, `/dev` and `/run` are found.
//!
//! On a live machine that is `/`. Tests, and `iosched list --root DIR`, hand in a copied tree.

use std::io;
use std::path::{Path, PathBuf};

use iosched_facts::kernel::KernelVersion;

use crate::lossy;
use crate::sysfs::Sysfs;

/// A machine: live, or a copied tree of its `/sys`, `/proc`, `/dev` and `/run`.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
    sysfs: Sysfs,
}

impl Host {
    /// The machine that we run on.
    pub fn live() -> Host {
        Host::at("/")
    }

    /// A machine whose file tree was copied to `root`.
    pub fn at(root: impl Into<PathBuf>) -> Host {
        let root = root.into();
        Host {
            sysfs: Sysfs::at(root.join("sys")),
            root,
        }
    }

    /// The machine that we run on, with a `/sys` made by a test: its devices can be described there as what
    /// they are not, and as held by what this kernel does not have.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn with_sysfs_at(sysfs: impl Into<PathBuf>) -> Host {
        Host {
            root: PathBuf::from("/"),
            sysfs: Sysfs::at(sysfs),
        }
    }

    /// The same machine, whose `n`-th write to `/sys` from now fails with EIO. For tests.
    #[must_use]
    pub fn failing_write(mut self, n: u32) -> Host {
        self.sysfs = self.sysfs.failing_write(n);
        self
    }

    /// The same machine, whose next `n` writes to `/sys` find the queue busy. For tests.
    #[must_use]
    pub fn busy_writes(mut self, n: u32) -> Host {
        self.sysfs = self.sysfs.busy_writes(n);
        self
    }

    /// The same machine, whose kernel does not return from the `n`-th write to `/sys` from now. For tests.
    #[must_use]
    pub fn hanging_write(mut self, n: u32) -> Host {
        self.sysfs = self.sysfs.hanging_write(n);
        self
    }

    /// True if this is the machine that we run on, so that its devices can be opened.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The only way to `/sys`.
    pub fn sysfs(&self) -> Sysfs {
        self.sysfs.clone()
    }

    /// A file below `/proc`, for example `mounts`.
    pub fn proc(&self, below: &str) -> PathBuf {
        self.root.join("proc").join(below)
    }

    /// A file below `/dev`, for example `sda`.
    pub fn dev(&self, below: &str) -> PathBuf {
        self.root.join("dev").join(below)
    }

    /// A file below `/run`, for example `udev/data/b8:0`.
    pub fn run(&self, below: &str) -> PathBuf {
        self.root.join("run").join(below)
    }

    /// The version of its kernel, without the stable release.
    pub fn kernel_version(&self) -> Option<KernelVersion> {
        KernelVersion::parse(&self.kernel_release()?)
    }

    /// The kernel's release, as `uname -r` says it: `6.12.48-amd64`.
    pub fn kernel_release(&self) -> Option<String> {
        let release = lossy::read(self.proc("sys/kernel/osrelease")).ok()?;
        Some(release.trim().to_owned())
    }

    /// Names this boot of the machine; `None` where the kernel has no name for it (a copied tree).
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn boot_id(&self) -> io::Result<Option<String>> {
        match lossy::read(self.proc("sys/kernel/random/boot_id")) {
            Ok(id) => Ok(Some(id.trim().to_owned())),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// A path of the machine as we see it: `/etc/fstab` is `ROOT/etc/fstab`.
    pub fn path(&self, absolute: &Path) -> PathBuf {
        self.root
            .join(absolute.strip_prefix("/").unwrap_or(absolute))
    }
}
