//! Writers that systemd starts: `tmpfiles.d`, units with their scripts, and the boot scripts of old.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use iosched_machine::host::Host;
use iosched_machine::sysfs::sysfs_name;

use super::{Writer, WriterKind, files_of, shell, text_of};
use crate::policy::matching::KnownDisk;
use crate::system_config::pattern::is_like;

/// Where systemd's units are, the first wins.
const UNITS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Scripts that the boot runs at its end.
const BOOT_SCRIPTS: [&str; 3] = [
    "/etc/rc.local",
    "/etc/rc.d/rc.local",
    "/etc/init.d/boot.local",
];

/// Scripts of units are looked into only here: what a distribution brings is known by name.
const SCRIPTS: [&str; 4] = ["/usr/local/", "/opt/", "/etc/", "/root/"];

/// All of them, in the order in which they come.
pub(super) fn writers(host: &Host, disk: &KnownDisk) -> Vec<Writer> {
    let device = &disk.device.name;
    let mut found = tmpfiles(host, device);
    for unit in files_of(host, &UNITS, ".service") {
        if is_enabled(host, &unit) {
            found.extend(unit_writers(host, &unit, device));
        }
    }
    for script in BOOT_SCRIPTS {
        let path = Path::new(script);
        // Some distributions link one to the other.
        if !host.path(path).is_symlink() {
            let scripts = script_writers(host, path, device, WriterKind::BootScript);
            let runs = script.ends_with("boot.local") || is_executable(host, path);
            found.extend(scripts.into_iter().map(|writer| Writer {
                certain: writer.certain && runs,
                ..writer
            }));
        }
    }
    found
}

/// True if the file may be run: systemd runs no `rc.local` that may not.
fn is_executable(host: &Host, path: &Path) -> bool {
    let metadata = std::fs::metadata(host.path(path));
    metadata.is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

/// True if a unit of this name is wanted by a target.
pub(super) fn is_enabled(host: &Host, unit: &Path) -> bool {
    let name = unit.file_name().unwrap_or_default();
    UNITS.iter().any(|directory| {
        let Ok(entries) = std::fs::read_dir(host.path(Path::new(directory))) else {
            return false;
        };
        entries.flatten().any(|entry| {
            let is_wants = [".wants", ".requires"]
                .iter()
                .any(|suffix| entry.file_name().to_string_lossy().ends_with(suffix));
            is_wants && entry.path().join(name).symlink_metadata().is_ok()
        })
    })
}

/// Lines `w /sys/block/sda/queue/scheduler - - - - bfq`.
fn tmpfiles(host: &Host, device: &str) -> Vec<Writer> {
    let directories = ["/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/lib/tmpfiles.d"];
    let mut found = Vec::new();
    for file in files_of(host, &directories, ".conf") {
        let text = text_of(host, &file).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [kind, path, _, _, _, _, value] = words[..] else {
                continue;
            };
            let below = ["/sys/block/", "/sys/class/block/"]
                .iter()
                .find_map(|prefix| path.strip_prefix(prefix));
            let Some((name, target)) = below.and_then(|below| below.split_once('/')) else {
                continue;
            };
            if kind.starts_with('w') && is_like(name, &sysfs_name(device)) {
                found.push(Writer {
                    kind: WriterKind::Tmpfiles,
                    file: file.clone(),
                    line: index + 1,
                    target: target.to_owned(),
                    value: Some(value.to_owned()),
                    certain: true,
                    is_refused: false,
                });
            }
        }
    }
    found
}

/// What the commands of a unit write, and the scripts that they run.
fn unit_writers(host: &Host, unit: &Path, device: &str) -> Vec<Writer> {
    let text = text_of(host, unit).unwrap_or_default();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some((key, command)) = line.trim().split_once('=') else {
            continue;
        };
        if !key.starts_with("ExecStart") {
            continue;
        }
        if let Some(write) = shell::write_of(command, device) {
            found.push(writer_of(write, WriterKind::Unit, unit, index));
        }
        let words = command.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
        for word in words {
            let path = word.trim_start_matches(['-', '@', ':', '+', '!']);
            if SCRIPTS.iter().any(|directory| path.starts_with(directory)) {
                let script = PathBuf::from(path);
                found.extend(script_writers(host, &script, device, WriterKind::Unit));
            }
        }
    }
    found
}

/// What the lines of a script write.
fn script_writers(host: &Host, script: &Path, device: &str, kind: WriterKind) -> Vec<Writer> {
    let text = text_of(host, script).unwrap_or_default();
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| {
            Some(writer_of(
                shell::write_of(line, device)?,
                kind,
                script,
                index,
            ))
        })
        .collect()
}

fn writer_of(write: shell::Write, kind: WriterKind, file: &Path, index: usize) -> Writer {
    Writer {
        kind,
        file: file.into(),
        line: index + 1,
        target: write.target,
        value: write.value,
        certain: write.certain,
        is_refused: false,
    }
}
