//! `elevator=`: what this boot was given, and the files that give it to the next one. Reads only.
//!
//! Only disks on the single-queue path listen to it, which Linux has until 4.20.

use std::path::{Path, PathBuf};

use iosched_machine::host::Host;
use iosched_machine::lossy;
use serde::{Serialize, Serializer};

use crate::system_config::files;

pub(crate) const PARAMETER: &str = "elevator=";

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileLine {
    #[serde(serialize_with = "displayed")]
    pub file: PathBuf,
    /// From 1; 0 for a file of one line.
    pub line: usize,
}

/// JSON has no bytes that are not UTF-8.
fn displayed<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Files that may carry the command line of a kernel before 5.0. A name that ends in `/` is a directory whose files count.
const FILES: [&str; 28] = [
    "/etc/default/grub",
    "/etc/default/grub.d/",
    "/etc/kernel/cmdline",
    "/etc/cmdline.d/",
    "/etc/kernelstub/configuration",
    "/etc/tuned/bootcmdline",
    "/etc/update-extlinux.conf",
    "/etc/dracut.conf.d/",
    "/boot/loader/entries/",
    "/efi/loader/entries/",
    "/boot/efi/loader/entries/",
    "/boot/grub/menu.lst",
    "/boot/grub/grub.conf",
    "/boot/grub/grubenv",
    "/boot/grub2/grubenv",
    "/boot/efi/EFI/fedora/grubenv",
    "/boot/efi/EFI/redhat/grubenv",
    "/boot/efi/EFI/centos/grubenv",
    "/boot/firmware/cmdline.txt",
    "/boot/cmdline.txt",
    "/boot/armbianEnv.txt",
    "/boot/uEnv.txt",
    "/etc/default/u-boot",
    "/boot/extlinux/extlinux.conf",
    "/boot/extlinux.conf",
    "/boot/syslinux/syslinux.cfg",
    "/etc/lilo.conf",
    "/etc/zipl.conf",
];

/// The files of this machine that may carry a command line, each once.
pub(crate) fn files(host: &Host) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut known = Vec::new();
    for name in FILES {
        let paths = match name.strip_suffix('/') {
            Some(directory) => files::files_of(host, &[directory], ""),
            None => vec![name.into()],
        };
        for path in paths {
            let real = files::followed(host, &path).filter(|real| host.path(real).is_file());
            if real.as_ref().is_some_and(|real| !known.contains(real)) {
                known.extend(real);
                found.push(path);
            }
        }
    }
    found
}

/// The lines of files that give `elevator=`, each with its value; comments do not.
pub(crate) fn places_of_elevator(host: &Host) -> Vec<(FileLine, String)> {
    let of_file = |file: PathBuf| {
        let text = files::text_of(host, &file).unwrap_or_default();
        let lines = text.lines().enumerate().filter_map(|(index, line)| {
            let line = (!is_comment(line)).then_some(line)?;
            let value = values(line).last()?.to_owned();
            let (file, line) = (file.clone(), index + 1);
            Some((FileLine { file, line }, value))
        });
        lines.collect::<Vec<_>>()
    };
    files(host).into_iter().flat_map(of_file).collect()
}

/// The value that a line gives a key.
pub(crate) fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line.trim().strip_prefix(key)?.trim_start();
    let value = rest.strip_prefix(['=', ':'])?;
    Some(value.trim().trim_matches(['"', '\'']))
}

pub(crate) fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// The values that a line gives `elevator=`, as words of their own.
fn values(line: &str) -> impl Iterator<Item = &str> {
    let is_word = |at: usize| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || matches!(c, '"' | '\'' | '='))
    };
    let found = line
        .match_indices(PARAMETER)
        .filter(move |(at, _)| is_word(*at));
    found.map(|(at, _)| {
        let value = &line[at + PARAMETER.len()..];
        let value = value.trim_start_matches(['"', '\'']);
        let end = value.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
        &value[..end.unwrap_or(value.len())]
    })
}

/// The longest line that any kernel takes is a small part of that (`COMMAND_LINE_SIZE`).
const LONGEST: usize = 64 << 10;

/// What the running kernel was given; nothing if that is longer than any kernel takes, as in a copied tree.
pub(crate) fn of_this_boot(host: &Host) -> String {
    let mut line = lossy::read(host.proc("cmdline")).unwrap_or_default();
    if line.len() > LONGEST {
        line.clear();
    }
    line
}

/// The value of `elevator=` that this boot was given last, which is the one that counts. What is behind `--` is init's.
pub(crate) fn given_at_boot(host: &Host) -> Option<String> {
    let line = of_this_boot(host);
    let of_kernel = line.split(" -- ").next()?;
    values(of_kernel).last().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_config::testing::{machine, write};

    #[test]
    fn the_last_value_counts_and_what_is_behind_the_dashes_is_inits() {
        let (dir, host) = machine(&[]);
        for (line, value) in [
            ("ro elevator=noop elevator=cfq quiet", Some("cfq")),
            ("ro -- elevator=noop", None),
            ("ro relevator=noop", None),
            ("\"elevator=noop\" ro", Some("noop")),
            ("elevator=\"noop\"", Some("noop")),
        ] {
            write(dir.path(), "proc/cmdline", line);
            assert_eq!(given_at_boot(&host).as_deref(), value, "{line}");
        }
    }

    #[test]
    fn every_file_that_gives_it_is_named_once_with_its_line() {
        let (dir, host) = machine(&[]);
        for (file, text) in [
            (
                "etc/default/grub",
                "# elevator=a\nGRUB_CMDLINE_LINUX=\"ro elevator=b\"\n",
            ),
            (
                "boot/loader/entries/x.conf",
                "title x\noptions ro elevator=c\n",
            ),
            ("boot/grub/grub.conf", "kernel /vmlinuz elevator=d\n"),
            (
                "boot/efi/EFI/redhat/grubenv",
                "kernelopts=ro elevator=e \n####",
            ),
            ("boot/cmdline.txt", "ro elevator=f"),
        ] {
            write(dir.path(), file, text);
        }
        std::os::unix::fs::symlink("grub.conf", dir.path().join("boot/grub/menu.lst")).unwrap();
        let found = places_of_elevator(&host).into_iter();
        let told: Vec<_> = found
            .map(|(at, value)| format!("{}:{} {value}", at.file.display(), at.line))
            .collect();
        assert_eq!(
            told,
            [
                "/etc/default/grub:2 b",
                "/boot/loader/entries/x.conf:2 c",
                "/boot/grub/menu.lst:1 d",
                "/boot/efi/EFI/redhat/grubenv:1 e",
                "/boot/cmdline.txt:1 f"
            ]
        );
    }
}
