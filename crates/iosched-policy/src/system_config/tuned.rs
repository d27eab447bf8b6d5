//! What of TuneD's files is ours: a profile by this name.

use std::path::{Path, PathBuf};

use iosched_machine::host::Host;

use crate::system_config::identity::Identity;

/// Where TuneD keeps which profile is active.
pub(crate) const ACTIVE: &str = "/etc/tuned/active_profile";

/// Where profiles are; of one name that in the first directory counts.
pub(crate) const DIRECTORIES: [&str; 4] = [
    "/etc/tuned/profiles",
    "/etc/tuned",
    "/usr/lib/tuned/profiles",
    "/usr/lib/tuned",
];

/// The name of our profile.
pub(crate) const PROFILE: &str = "iosched";

/// Where our profile is: TuneD 2.23 and later have a directory for profiles.
pub(crate) fn path(host: &Host) -> PathBuf {
    let has_own = ["/etc/tuned/profiles", "/usr/lib/tuned/profiles"]
        .iter()
        .any(|directory| host.path(Path::new(directory)).is_dir());
    let directory = if has_own {
        "/etc/tuned/profiles"
    } else {
        "/etc/tuned"
    };
    Path::new(directory).join(PROFILE).join("tuned.conf")
}

/// True if a file is part of what tells TuneD which profile is active.
pub(crate) fn is_for_tuned(path: &Path) -> bool {
    path.starts_with("/etc/tuned")
}

/// What TuneD recognises a disk by: a pattern over the lines `PROPERTY=value` of udev's database.
pub(crate) fn regex(identity: &Identity) -> String {
    let (property, value) = identity.property();
    let mut pattern = format!("^{property}=");
    for c in value.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':') {
            pattern.push(c);
        } else {
            pattern.push('.');
        }
    }
    pattern.push('$');
    pattern
}
