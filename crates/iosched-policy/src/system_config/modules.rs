//! The modules that schedulers come in: loaded at boot through `modules-load.d`, so that a rule need
//! not wait for the kernel to find them. For the root disk's see [`super::initramfs`].
//!
//! The kernel asks for a scheduler's module itself when its name is written. That fails where the
//! module is not in the initramfs, or where loading is forbidden after boot
//! (`kernel.modules_disabled`), so those that are modules are named.

use std::path::{Path, PathBuf};

use iosched_machine::host::Host;
use iosched_machine::lossy;

use super::files::{files_of, text_of};

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

/// Where modprobe's configuration is; of one name that in the first directory counts.
const MODPROBE: [&str; 5] = [
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
];

/// What keeps a module from being loaded at boot (modprobe.d(5), the kernel's parameters), and where; nothing if
/// nothing does.
pub(crate) fn kept_out_by(host: &Host, module: &str) -> Option<String> {
    let is_it = |name: &str| name.replace('-', "_") == module.replace('-', "_");
    let command_line = lossy::read(host.proc("cmdline")).unwrap_or_default();
    let mut parameters = command_line.split_whitespace();
    let is_listed = |word: &&str| {
        let list = ["module_blacklist=", "modprobe.blacklist="]
            .iter()
            .find_map(|name| word.strip_prefix(name));
        list.is_some_and(|list| list.split(',').any(is_it))
    };
    if let Some(word) = parameters.find(is_listed) {
        return Some(format!("the kernel's command line has {word}"));
    }
    files_of(host, &MODPROBE, ".conf").iter().find_map(|path| {
        let text = text_of(host, path)?;
        let mut lines = text.lines().enumerate();
        let (index, line) = lines.find(|(_, line)| {
            let mut words = line.split_whitespace();
            match (words.next(), words.next().is_some_and(is_it)) {
                (Some("blacklist"), true) => true,
                (Some("install"), true) => words
                    .next()
                    .is_some_and(|by| by.ends_with("/true") || by.ends_with("/false")),
                _ => false,
            }
        })?;
        Some(format!(
            "{}:{} has `{}`",
            path.display(),
            index + 1,
            line.trim()
        ))
    })
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

    #[test]
    fn what_keeps_a_module_out_is_found_where_modprobe_finds_it() {
        let (dir, host) = machine(&[]);
        let found = |module: &str| kept_out_by(&host, module);
        for (text, by) in [
            ("# blacklist bfq\nblacklist bfqx\n", None),
            ("install bfq /sbin/modprobe -i bfq\n", None),
            (
                "\nblacklist bfq\n",
                Some("/etc/modprobe.d/a.conf:2 has `blacklist bfq`"),
            ),
            (
                " install  bfq /bin/true\n",
                Some("/etc/modprobe.d/a.conf:1 has `install  bfq /bin/true`"),
            ),
        ] {
            write(dir.path(), "etc/modprobe.d/a.conf", text);
            assert_eq!(found("bfq").as_deref(), by, "{text}");
        }
        // A file of /etc stands in the place of one of that name in /usr.
        write(
            dir.path(),
            "usr/lib/modprobe.d/a.conf",
            "blacklist kyber-iosched\n",
        );
        assert_eq!(found("kyber_iosched"), None);
        write(
            dir.path(),
            "usr/lib/modprobe.d/b.conf",
            "blacklist kyber_iosched\n",
        );
        let by = found("kyber-iosched").unwrap();
        assert!(by.starts_with("/usr/lib/modprobe.d/b.conf:1 has"), "{by}");
        write(
            dir.path(),
            "proc/cmdline",
            "ro module_blacklist=x,kyber_iosched\n",
        );
        let by = found("kyber-iosched").unwrap();
        assert!(by.contains("command line has module_blacklist="), "{by}");
    }
}
