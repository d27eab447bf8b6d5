//! A mounted disk for loads of another user, with a file of root's that they must never reach.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use super::tuning::MIB;
use super::{Mounted, can_use_loop_devices, iosched, lossy, run};

/// The smallest run.
const SHORT: &[&str] = &["--arms", "none,mq-deadline", "--fixed-rounds", "2"];

/// A mounted disk with a directory `private` of root's, which holds `secret`, and a directory for records.
pub(crate) struct Bench {
    pub(crate) mounted: Mounted,
    pub(crate) records: tempfile::TempDir,
}

impl Bench {
    /// `None` where there are no loop devices.
    pub(crate) fn new() -> Option<Bench> {
        can_use_loop_devices().then(|| Bench::on(Mounted::new(64 * MIB)))
    }

    /// On a file system that was made for it.
    pub(crate) fn on(mounted: Mounted) -> Bench {
        let private = mounted.at.join("private");
        fs::create_dir(&private).unwrap();
        fs::set_permissions(&private, Permissions::from_mode(0o700)).unwrap();
        fs::write(private.join("secret"), "secret").unwrap();
        Bench {
            mounted,
            records: tempfile::tempdir().unwrap(),
        }
    }

    /// Of a file on the disk.
    pub(crate) fn path(&self, name: &str) -> String {
        self.mounted.at.join(name).display().to_string()
    }

    /// A file that every load can write to.
    pub(crate) fn report(&self) -> String {
        let path = self.path("report");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        path
    }

    /// `iosched tune` on this target.
    pub(crate) fn arguments(&self, target: &str, more: &[&str]) -> Vec<String> {
        let out = self.records.path().join("r").display().to_string();
        let words = [&["tune", target, "--out", &out], SHORT, more].concat();
        words.into_iter().map(str::to_owned).collect()
    }

    pub(crate) fn tune(&self, target: &str, more: &[&str]) -> Output {
        let mut command = iosched();
        command.args(self.arguments(target, more));
        command.output().unwrap()
    }

    #[track_caller]
    pub(crate) fn assert_private_is_untouched(&self) {
        let secret = fs::read_to_string(self.path("private/secret"));
        assert_eq!(secret.unwrap(), "secret");
    }
}

/// User and group.
pub(crate) fn nobody() -> (u32, u32) {
    let id = |option: &str| {
        let output = run("id", &[option, "nobody"]);
        lossy(&output.stdout).trim().parse().unwrap()
    };
    (id("-u"), id("-g"))
}
