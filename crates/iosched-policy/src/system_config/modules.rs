//! The modules that schedulers come in: loaded at boot through `modules-load.d`, so that a rule need
//! not wait for the kernel to find them. For the root disk's see [`super::initramfs`].
//!
//! The kernel asks for a scheduler's module itself when its name is written. That fails where the
//! module is not in the initramfs, or where loading is forbidden after boot
//! (`kernel.modules_disabled`), so those that are modules are named.

use std::path::{Path, PathBuf};

use iosched_machine::host::Host;
use iosched_machine::lossy;

/// Where the modules to load at boot are named.
pub(crate) const PATH: &str = "/etc/modules-load.d/iosched.conf";

/// The text of [`PATH`] for these modules; none if there are none.
pub(crate) fn text(modules: &[String]) -> Option<String> {
    if modules.is_empty() {
        return None;
    }
    Some(format!(
        "# Made by iosched: the I/O schedulers that /etc/iosched/policy.toml asks for.\n{}\n",
        modules.join("\n")
    ))
}

/// Where the modules of the running kernel are; none where they are not there, as in a tree that was copied without them.
pub(crate) fn directory(host: &Host) -> Option<PathBuf> {
    let release = host.kernel_release()?;
    let places = ["/lib/modules", "/usr/lib/modules"];
    let mut places = places
        .map(|place| host.path(&Path::new(place).join(&release)))
        .into_iter();
    places.find(|directory| directory.is_dir())
}

/// The module that a scheduler comes in; none if it is part of the kernel, or not known to it.
pub(crate) fn of_scheduler(host: &Host, scheduler: &str) -> Option<String> {
    let directory = directory(host)?;
    let alias = format!("{scheduler}-iosched");
    let aliases = lossy::read(directory.join("modules.alias")).unwrap_or_default();
    let by_alias = aliases.lines().find_map(|line| {
        line.strip_prefix("alias ")?
            .strip_prefix(&alias)?
            .strip_prefix(' ')
            .map(str::to_owned)
    });
    if by_alias.is_some() {
        return by_alias;
    }
    // kyber's module bears the name that the kernel asks for: it has no alias.
    let dependencies = lossy::read(directory.join("modules.dep")).unwrap_or_default();
    dependencies
        .lines()
        .filter_map(|line| line.split(':').next()?.rsplit('/').next())
        .any(|file| file.split('.').next() == Some(alias.as_str()))
        .then_some(alias)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_config::testing::{machine, write};

    #[test]
    fn modules_are_found_by_alias_or_by_their_own_name_and_what_is_built_in_is_none() {
        let (dir, host) = machine(&[]);
        let modules = "lib/modules/6.12.0-test";
        write(
            dir.path(),
            &format!("{modules}/modules.alias"),
            "alias bfq-iosched bfq\n",
        );
        write(
            dir.path(),
            &format!("{modules}/modules.dep"),
            "kernel/block/bfq.ko.xz:\nkernel/block/kyber-iosched.ko.xz:\n",
        );
        assert_eq!(of_scheduler(&host, "bfq").as_deref(), Some("bfq"));
        assert_eq!(
            of_scheduler(&host, "kyber").as_deref(),
            Some("kyber-iosched")
        );
        assert_eq!(of_scheduler(&host, "mq-deadline"), None);
        assert_eq!(of_scheduler(&host, "none"), None);
    }
}
