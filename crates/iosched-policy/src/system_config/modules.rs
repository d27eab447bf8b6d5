//! The modules that schedulers come in: loaded at boot through `modules-load.d`, so that a rule need
//! not wait for the kernel to find them. For the root disk's see [`super::initramfs`].
//!
//! The kernel asks for a scheduler's module itself when its name is written. That fails where the
//! module is not in the initramfs, or where loading is forbidden after boot
//! (`kernel.modules_disabled`), so those that are modules are named.

use std::fs;
use std::path::Path;

use iosched_machine::host::Host;

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

/// The module that a scheduler comes in; none if it is part of the kernel, or not known to it.
pub(crate) fn of_scheduler(host: &Host, scheduler: &str) -> Option<String> {
    let release = fs::read_to_string(host.proc("sys/kernel/osrelease")).ok()?;
    let directory = ["/lib/modules", "/usr/lib/modules"]
        .map(|modules| host.path(&Path::new(modules).join(release.trim())))
        .into_iter()
        .find(|directory| directory.is_dir())?;
    let alias = format!("{scheduler}-iosched");
    let aliases = fs::read_to_string(directory.join("modules.alias")).unwrap_or_default();
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
    let dependencies = fs::read_to_string(directory.join("modules.dep")).unwrap_or_default();
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
