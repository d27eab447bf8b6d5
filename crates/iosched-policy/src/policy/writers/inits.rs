//! What the boot starts, by systemd, an init of old or OpenRC.

use std::path::PathBuf;

use iosched_machine::host::Host;

use super::files_of;
use super::systemd::Units;

/// Where an init of old has what it starts at boot: links called `S01name`.
const RUN_LEVELS: [&str; 11] = [
    "/etc/rcS.d",
    "/etc/rc2.d",
    "/etc/rc3.d",
    "/etc/rc4.d",
    "/etc/rc5.d",
    "/etc/rc.d/rc2.d",
    "/etc/rc.d/rc3.d",
    "/etc/rc.d/rc4.d",
    "/etc/rc.d/rc5.d",
    "/etc/init.d/boot.d",
    "/etc/init.d/rc3.d",
];

/// Where OpenRC has it.
const OPENRC_RUN_LEVELS: [&str; 3] = [
    "/etc/runlevels/sysinit",
    "/etc/runlevels/boot",
    "/etc/runlevels/default",
];

/// True if the boot starts this, by systemd, an init of old or OpenRC.
pub(super) fn is_started(host: &Host, units: &Units<'_>, name: &str) -> bool {
    if units.are_started(&format!("{name}.service")) {
        return true;
    }
    let is_of_init = || services_of_init(host).any(|service| service == name);
    let is_of_openrc = || services_of_openrc(host).any(|service| service == name);
    is_of_init() || is_of_openrc()
}

/// What an init of old starts at boot, by the names of the links without `S01`.
fn services_of_init(host: &Host) -> impl Iterator<Item = String> {
    links_of_init(host).map(|(name, _)| name)
}

/// The same with the links themselves.
pub(super) fn links_of_init(host: &Host) -> impl Iterator<Item = (String, PathBuf)> {
    RUN_LEVELS.into_iter().flat_map(|directory| {
        let files = files_of(host, &[directory], "").into_iter();
        files.filter_map(|path| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            let name = name
                .strip_prefix('S')?
                .trim_start_matches(|c: char| c.is_ascii_digit());
            Some((name.to_owned(), path))
        })
    })
}

/// What OpenRC starts at boot.
pub(super) fn services_of_openrc(host: &Host) -> impl Iterator<Item = String> {
    OPENRC_RUN_LEVELS.into_iter().flat_map(|directory| {
        let files = files_of(host, &[directory], "").into_iter();
        files.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
    })
}
