//! cron: lines `@reboot COMMAND` of its tables.
//!
//! Debian's cron takes of `/etc/cron.d` only names of letters, digits, `_` and `-`; cronie (Fedora, SUSE, Arch) all but hidden ones and
//! copies of editors and of rpm. In a command `%` ends the line, and what follows is its standard input, with further ones as ends
//! of lines; not so for busybox.

use std::path::{Path, PathBuf};

use iosched_machine::host::Host;

use super::shell::{self, Environment, FollowedDisk, Write};
use super::{files_of, text_of};

/// Tables that are read whatever they are called, and whether they name the user before the command.
const TABLES: [(&str, bool); 5] = [
    ("/etc/crontab", true),
    (OF_BUSYBOX, false),
    ("/var/spool/cron/root", false),
    ("/var/spool/cron/crontabs/root", false),
    ("/var/spool/cron/tabs/root", false), // SUSE
];

const OF_BUSYBOX: &str = "/etc/crontabs/root";

/// What they write when cron starts.
pub(super) fn writes(host: &Host, place: &FollowedDisk<'_>) -> Vec<Write> {
    let tables = TABLES.iter();
    let mut found: Vec<Write> = tables
        .flat_map(|&(path, has_user)| of_table(host, place, Path::new(path), has_user))
        .collect();
    for file in files_of(host, &["/etc/cron.d"], "") {
        let Some(is_sure) = is_read(host, &file) else {
            continue;
        };
        let writes = of_table(host, place, &file, true).into_iter();
        found.extend(writes.map(|write| Write {
            certain: write.certain && is_sure,
            ..write
        }));
    }
    found
}

/// Whether a file of `/etc/cron.d` is surely read; nothing if it surely is not.
fn is_read(host: &Host, file: &Path) -> Option<bool> {
    let name = file.file_name()?.to_string_lossy();
    let is_of_debian = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.chars().all(is_of_debian) {
        return Some(true);
    }
    let is_left = name.starts_with(['.', '#'])
        || [".rpmsave", ".rpmorig", ".rpmnew", "~"]
            .iter()
            .any(|end| name.ends_with(end));
    if is_left {
        return None;
    }
    let release = ["/etc/os-release", "/usr/lib/os-release"].map(PathBuf::from);
    let Some(release) = release.iter().find_map(|file| text_of(host, file)) else {
        return Some(false);
    };
    let names = release.lines().filter_map(|line| {
        let value = line
            .strip_prefix("ID=")
            .or_else(|| line.strip_prefix("ID_LIKE="))?;
        Some(value.trim_matches(['"', '\'']))
    });
    let mut names = names.flat_map(str::split_whitespace);
    let is_debian = names.any(|name| matches!(name, "debian" | "ubuntu"));
    (!is_debian).then_some(true)
}

fn of_table(host: &Host, place: &FollowedDisk<'_>, file: &Path, has_user: bool) -> Vec<Write> {
    let text = text_of(host, file).unwrap_or_default();
    let mut environment = Environment::default();
    let mut shell = "/bin/sh".to_owned();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if let Some((name, value)) = assignment(line) {
            if name == "SHELL" {
                value.clone_into(&mut shell);
            }
            environment
                .variables
                .insert(name.to_owned(), value.to_owned());
        }
        let Some(rest) = line.strip_prefix("@reboot") else {
            continue;
        };
        let rest = rest.trim_start();
        let command = match rest.split_once(char::is_whitespace) {
            Some(("root", command)) if has_user => command.trim_start(),
            _ if has_user => continue,
            _ => rest,
        };
        let (command, input) = if file == Path::new(OF_BUSYBOX) {
            (command.to_owned(), None)
        } else {
            with_input(command)
        };
        environment.input = input;
        let words = [shell.clone(), "-c".to_owned(), command];
        let at = (file, index + 1);
        found.extend(shell::writes_of_program(place, &words, &environment, at));
    }
    found
}

/// `NAME = value`, in quotes or not.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let value = value.trim();
    let quoted = ['"', '\''].iter().find_map(|quote| {
        let inner = value.strip_prefix(*quote)?;
        inner.strip_suffix(*quote)
    });
    is_name.then_some((name, quoted.unwrap_or(value)))
}

/// A command, and what stands behind its first `%`.
fn with_input(command: &str) -> (String, Option<String>) {
    let mut parts = vec![String::new()];
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        let last = parts.len() - 1;
        match c {
            '\\' if chars.peek() == Some(&'%') => parts[last].extend(chars.next()),
            '%' => parts.push(String::new()),
            c => parts[last].push(c),
        }
    }
    let command = parts.remove(0);
    (command, (!parts.is_empty()).then(|| parts.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::matching::disks;
    use crate::system_config::testing::{Disk, machine, write};

    const SDA: &str = "/sys/block/sda/queue/scheduler";

    fn written(files: &[(&str, &str)]) -> Vec<String> {
        let (dir, host) = machine(&[Disk::new("sda")]);
        write(dir.path(), "bin/x", "");
        std::os::unix::fs::symlink("dash", dir.path().join("bin/sh")).unwrap();
        for (name, text) in files {
            write(dir.path(), name, text);
        }
        let disks = disks(&host).unwrap();
        let told = |write: Write| {
            let doubt = if write.certain { "" } else { "?" };
            format!(
                "{} {}{doubt}",
                write.line,
                write.value.as_deref().unwrap_or("…")
            )
        };
        let found = writes(&host, &FollowedDisk::of(&host, &disks[0])).into_iter();
        found.map(told).collect()
    }

    #[test]
    fn names_with_dots_are_not_read_by_debians_cron() {
        let table = format!("@reboot root echo bfq > {SDA}\n");
        let (debian, fedora) = ("ID=ubuntu\nID_LIKE=debian\n", "ID=\"fedora\"\n");
        for (name, release, expected) in [
            ("disks", Some(debian), Some("1 bfq")),
            ("disks.sh", Some(debian), None),
            (
                "disks.sh",
                Some("ID=mint\nID_LIKE=\"ubuntu debian\"\n"),
                None,
            ),
            ("disks.sh", Some(fedora), Some("1 bfq")),
            ("disks.sh", None, Some("1 bfq?")),
            ("disks~", Some(fedora), None),
            ("disks.rpmsave", Some(fedora), None),
            (".disks", Some(fedora), None),
            ("disks", None, Some("1 bfq")),
        ] {
            let file = format!("etc/cron.d/{name}");
            let mut files = vec![(file.as_str(), table.as_str())];
            files.extend(release.map(|release| ("etc/os-release", release)));
            assert_eq!(
                written(&files),
                Vec::from_iter(expected),
                "{name} {release:?}"
            );
        }
    }

    #[test]
    fn a_percent_sign_ends_the_command_and_begins_its_input() {
        for (command, expected) in [
            (format!("tee {SDA}%bfq"), Some("1 bfq")),
            (format!("cat > {SDA} %none%"), Some("1 none")),
            (format!("echo bfq % > {SDA}"), None),
            (format!("date +\\%s; echo bfq > {SDA}"), Some("1 bfq")),
            (format!("date +%s; echo bfq > {SDA}"), None),
        ] {
            let table = format!("@reboot root {command}\n");
            let found = written(&[("etc/crontab", &table)]);
            assert_eq!(found, Vec::from_iter(expected), "{command}");
        }
        let own = format!("@reboot date +%s; echo bfq > {SDA}\n");
        assert_eq!(written(&[("etc/crontabs/root", &own)]), ["1 bfq"]);
    }

    #[test]
    fn the_shell_and_the_variables_are_those_of_the_table() {
        let command = format!("@reboot root [[ $S == bfq ]] && echo $S > {SDA}\n");
        for (before, expected) in [
            ("S=bfq\n", None), // dash
            ("S=bfq\nSHELL=/bin/bash\n", Some("3 bfq")),
            ("S=\"bfq\"\nSHELL = /bin/bash\n", Some("3 bfq")),
            ("S=none\nSHELL=/bin/bash\n", None),
        ] {
            let found = written(&[("etc/crontab", &format!("{before}{command}"))]);
            assert_eq!(found, Vec::from_iter(expected), "{before}");
        }
    }
}
