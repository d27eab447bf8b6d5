//! Which shell reads a script: what its first line and the machine's `/bin/sh` say.

use std::path::Path;

use iosched_machine::host::Host;

use super::super::end_of_links;
use crate::shell::dialect::Dialect;

/// A shell, as far as its name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Is(Dialect),
    /// `sh`: what that is depends on the machine.
    Sh,
    /// One of which it is not said here what it does.
    Other,
}

impl Named {
    /// Of a command that starts a shell; nothing if it starts none.
    pub(super) fn of(words: &[&str]) -> Option<Named> {
        let is_posix = words.contains(&"--posix");
        let mut names = words.iter().filter_map(|word| word.rsplit('/').next());
        names.find_map(|name| {
            Some(match name {
                "bash" | "rbash" if is_posix => Named::Is(Dialect::BashAsSh),
                "bash" | "rbash" => Named::Is(Dialect::Bash),
                "dash" => Named::Is(Dialect::Dash),
                "ash" | "busybox" => Named::Is(Dialect::Busybox),
                "sh" | "openrc-run" | "runscript" => Named::Sh,
                "ksh" | "mksh" | "zsh" => Named::Other,
                _ => return None,
            })
        })
    }
}

impl Dialect {
    /// What `/bin/sh` is on a machine; nothing where its files do not tell.
    pub(super) fn of_sh(host: &Host) -> Option<Dialect> {
        let sh = ["/bin/sh", "/usr/bin/sh"]
            .into_iter()
            .map(|path| end_of_links(host, Path::new(path)))
            .find(|path| {
                host.path(path).exists() || path.file_name().is_some_and(|name| name != "sh")
            })?;
        let named = |path: &Path| match path.file_name()?.to_str()? {
            "dash" => Some(Dialect::Dash),
            "ash" | "busybox" => Some(Dialect::Busybox),
            "bash" => Some(Dialect::BashAsSh),
            _ => None,
        };
        named(&sh).or_else(|| {
            // A second name of the same file.
            let others = ["dash", "bash", "busybox"].iter();
            let others = others.map(|name| sh.with_file_name(name));
            others
                .filter(|path| is_same_file(host, path, &sh))
                .find_map(|path| named(&path))
        })
    }
}

fn is_same_file(host: &Host, a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path| {
        let metadata = std::fs::metadata(host.path(path)).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    identity(a).is_some_and(|a| identity(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_config::testing::{machine, write};
    use std::os::unix::fs::symlink;

    #[test]
    fn what_sh_is_says_the_machine_or_nobody() {
        for (links, expected) in [
            (&[("bin/sh", "dash")][..], Some(Dialect::Dash)),
            (&[("bin/sh", "/bin/busybox")], Some(Dialect::Busybox)),
            (&[("usr/bin/sh", "bash")], Some(Dialect::BashAsSh)),
            (
                &[
                    ("bin/sh", "/etc/alternatives/sh"),
                    ("etc/alternatives/sh", "/usr/bin/dash"),
                ],
                Some(Dialect::Dash),
            ),
            (&[("bin/sh", "mksh")], None),
            (&[("bin/sh", "sh")], None),
            (&[], None),
        ] {
            let (dir, host) = machine(&[]);
            for (link, target) in links {
                write(dir.path(), &format!("{link}.x"), ""); // the directory
                symlink(target, dir.path().join(link)).unwrap();
            }
            assert_eq!(Dialect::of_sh(&host), expected, "{links:?}");
        }
        // No link, but a second name.
        let (dir, host) = machine(&[]);
        write(dir.path(), "bin/dash", "x");
        write(dir.path(), "bin/bash", "y");
        std::fs::hard_link(dir.path().join("bin/dash"), dir.path().join("bin/sh")).unwrap();
        assert_eq!(Dialect::of_sh(&host), Some(Dialect::Dash));
        std::fs::remove_file(dir.path().join("bin/sh")).unwrap();
        write(dir.path(), "bin/sh", "x");
        assert_eq!(Dialect::of_sh(&host), None);
    }

    #[test]
    fn shells_are_told_by_their_names() {
        for (words, expected) in [
            ("/bin/sh -e", Some(Named::Sh)),
            ("/usr/bin/env bash", Some(Named::Is(Dialect::Bash))),
            ("/bin/bash --posix", Some(Named::Is(Dialect::BashAsSh))),
            ("/bin/busybox sh", Some(Named::Is(Dialect::Busybox))),
            ("/sbin/openrc-run", Some(Named::Sh)),
            ("/bin/zsh", Some(Named::Other)),
            ("/usr/bin/python3 -u", None),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            assert_eq!(Named::of(&words), expected, "{words:?}");
        }
    }
}
