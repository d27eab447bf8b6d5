//! cloud-init: its scripts of every boot, and `bootcmd` of its configuration.
//!
//! What it does at a machine's first boot alone (`runcmd`, scripts of an instance) is done already and is not followed.
//! Which `bootcmd` counts where several files have one, its merging decides: each is told of with a doubt.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use iosched_machine::host::Host;

use super::shell::{self, Environment, FollowedDisk, Write};
use super::systemd::Units;
use super::{files_of, inits, text_of};

/// What it writes at every boot.
pub(super) fn writes(host: &Host, units: &Units<'_>, place: &FollowedDisk<'_>) -> Vec<Write> {
    let services = ["cloud-final", "cloud-init", "cloud-init-network"];
    let is_started = services
        .iter()
        .any(|name| inits::is_started(host, units, name));
    let is_disabled = host
        .path(Path::new("/etc/cloud/cloud-init.disabled"))
        .exists();
    if !is_started || is_disabled {
        return Vec::new();
    }
    let mut found = Vec::new();
    for file in configurations(host) {
        let text = text_of(host, &file).unwrap_or_default();
        for (line, command) in boot_commands(&text) {
            let at = (file.as_path(), line);
            let writes = match &command {
                Words::Line(line) => shell::writes_of_line(place, line, at),
                Words::Program(words) => {
                    shell::writes_of_program(place, words, &Environment::default(), at)
                }
            };
            found.extend(writes.into_iter().map(|write| Write {
                certain: false,
                ..write
            }));
        }
    }
    for script in files_of(host, &["/var/lib/cloud/scripts/per-boot"], "") {
        let metadata = std::fs::metadata(host.path(&script));
        if metadata.is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0) {
            found.extend(shell::writes_of_script(place, &script, &[], &[]));
        }
    }
    found
}

fn configurations(host: &Host) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/etc/cloud/cloud.cfg")];
    found.extend(files_of(host, &["/etc/cloud/cloud.cfg.d"], ".cfg"));
    found.push("/var/lib/cloud/instance/cloud-config.txt".into());
    found
}

#[derive(Debug)]
enum Words {
    Line(String),
    Program(Vec<String>),
}

/// The items of `bootcmd`, each with its line, as YAML has them in such files: a text in quotes or without, one of several lines, or a list
/// in brackets.
fn boot_commands(text: &str) -> Vec<(usize, Words)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let Some(begin) = lines
        .iter()
        .position(|line| line.trim_end() == "bootcmd:" || line.starts_with("bootcmd: "))
    else {
        return found;
    };
    let indent_of = |line: &str| line.len() - line.trim_start().len();
    let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let mut at = begin + 1;
    let mut indent = None;
    while at < lines.len() {
        if is_empty(lines[at]) {
            at += 1;
            continue;
        }
        let own = indent_of(lines[at]);
        let Some(item) = lines[at].trim_start().strip_prefix("- ") else {
            break;
        };
        if *indent.get_or_insert(own) != own {
            break;
        }
        let first = at;
        at += 1;
        let is_block = item.trim().starts_with(['|', '>']);
        let mut more = Vec::new();
        while at < lines.len() && (lines[at].trim().is_empty() || indent_of(lines[at]) > own) {
            more.push(lines[at].trim());
            at += 1;
        }
        // In a text of several lines they are the shell's own.
        let whole = if is_block {
            more.join("\n")
        } else {
            let parts = std::iter::once(item.trim()).chain(more);
            parts.collect::<Vec<_>>().join(" ")
        };
        let command = if is_block {
            Words::Line(whole)
        } else {
            words_of(whole.trim())
        };
        found.push((first + 1, command));
    }
    found
}

fn words_of(text: &str) -> Words {
    match text
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
    {
        Some(list) => Words::Program(listed(list)),
        None => Words::Line(scalar(text)),
    }
}

/// The words of a list, parted by commas outside of quotes.
fn listed(list: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut from = 0;
    let mut quote = None;
    for (at, c) in list.char_indices() {
        match c {
            _ if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() && list[from..at].trim().is_empty() => quote = Some(c),
            ',' if quote.is_none() => {
                found.push(scalar(list[from..at].trim()));
                from = at + 1;
            }
            _ => {}
        }
    }
    let rest = list[from..].trim();
    if !rest.is_empty() {
        found.push(scalar(rest));
    }
    found
}

fn scalar(text: &str) -> String {
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(inner) = within('\'') {
        return inner.replace("''", "'");
    }
    if let Some(inner) = within('"') {
        return inner.replace("\\\"", "\"").replace("\\\\", "\\");
    }
    match text.split_once(" #") {
        Some((text, _)) => text.trim_end().to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::matching::disks;
    use crate::system_config::testing::{Disk, machine, write};

    const STARTED: (&str, &str) = (
        "etc/systemd/system/cloud-init.target.wants/cloud-final.service",
        "",
    );

    fn written(files: &[(&str, &str)]) -> Vec<String> {
        let (dir, host) = machine(&[Disk::new("sda")]);
        for (name, text) in files {
            write(dir.path(), name, text);
        }
        let disks = disks(&host).unwrap();
        let found = writes(
            &host,
            &Units::of(&host),
            &FollowedDisk::of(&host, &disks[0]),
        );
        let told = |write: &Write| {
            let doubt = if write.certain { "" } else { "?" };
            let value = write.value.as_deref().unwrap_or("…");
            format!("{}:{} {value}{doubt}", write.file.display(), write.line)
        };
        found.iter().map(told).collect()
    }

    #[test]
    fn scripts_of_every_boot_are_followed_where_it_is_started() {
        let bfq = "#!/bin/sh\necho bfq > /sys/block/sda/queue/scheduler\n";
        let script = ("var/lib/cloud/scripts/per-boot/disks.sh", bfq);
        let said = ["/var/lib/cloud/scripts/per-boot/disks.sh:2 bfq"];
        assert_eq!(written(&[script]), [""; 0]);
        assert_eq!(written(&[script, STARTED]), said);
        let by_openrc = ("etc/runlevels/default/cloud-final", "");
        assert_eq!(written(&[script, by_openrc]), said);
        let disabled = ("etc/cloud/cloud-init.disabled", "");
        assert_eq!(written(&[script, STARTED, disabled]), [""; 0]);
        let of_once = ("var/lib/cloud/scripts/per-once/disks.sh", bfq);
        assert_eq!(written(&[of_once, STARTED]), [""; 0]);
    }

    #[test]
    fn a_boot_command_is_found_however_it_is_written() {
        for (items, expected) in [
            (
                "- echo bfq > /sys/block/sda/queue/scheduler\n",
                Some("2 bfq?"),
            ),
            (
                "  # x\n  - date\n  - 'echo bfq > /sys/block/sda/queue/scheduler'\nruncmd:\n",
                Some("4 bfq?"),
            ),
            (
                " - [ sh, -c, \"echo bfq > /sys/block/sda/queue/scheduler\" ]\n",
                Some("2 bfq?"),
            ),
            (
                " - [ sh, -c,\n     'echo bfq > /sys/block/sda/queue/scheduler' ]\n",
                Some("2 bfq?"),
            ),
            (
                " - |\n   for d in sda sdb; do\n     echo bfq > /sys/block/$d/queue/scheduler\n   done\n - date\n",
                Some("2 bfq?"),
            ),
            ("- echo bfq > /sys/block/sdb/queue/scheduler\n", None),
            (
                "- date\nruncmd:\n- echo bfq > /sys/block/sda/queue/scheduler\n",
                None,
            ),
        ] {
            for file in [
                "etc/cloud/cloud.cfg",
                "etc/cloud/cloud.cfg.d/90.cfg",
                "var/lib/cloud/instance/cloud-config.txt",
            ] {
                let text = format!("bootcmd:\n{items}");
                let expected: Vec<String> = expected
                    .iter()
                    .map(|said| format!("/{file}:{said}"))
                    .collect();
                assert_eq!(written(&[(file, &text), STARTED]), expected, "{items}");
            }
        }
    }
}
