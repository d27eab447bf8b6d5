//! Programs that read what was written only when told: udev, TuneD, makers of boot files.

use std::path::Path;

use iosched_machine::failure::Problem;
use iosched_machine::host::Host;
use iosched_machine::process::{Scope, Stop};

use crate::system_config::files::FileChange;
use crate::system_config::{grub, initramfs, rules, tuned, udev};

/// Has every program read what was written, until the user wants no more of it.
pub(crate) fn announce(
    host: &Host,
    scope: &Scope,
    files: &[FileChange],
    stop: &Stop,
) -> Result<(), Problem> {
    if !host.is_live() {
        return Ok(());
    }
    if stop.is_wanted() {
        return Err(udev::stopped());
    }
    if udev::is_running(host) && files.iter().any(|file| file.path == Path::new(rules::PATH)) {
        udev::reload()?;
    }
    for command in commands(host, files) {
        udev::run(scope, &command, udev::PATIENCE, stop)?;
    }
    Ok(())
}

/// The programs to be run after these files have changed.
pub(crate) fn commands(host: &Host, files: &[FileChange]) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    if files.iter().any(|file| tuned::is_for_tuned(&file.path)) {
        let restart = ["systemctl", "try-restart", "tuned.service"];
        commands.push(restart.map(str::to_owned).to_vec());
    }
    for file in files {
        for command in [
            grub::generator(host, file),
            initramfs::generator(host, file),
        ]
        .into_iter()
        .flatten()
        {
            // Several files may be read by one program.
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
    }
    commands
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::system_config::testing::{machine, write};

    #[test]
    fn each_file_has_the_program_run_that_reads_it() {
        let (dir, host) = machine(&[]);
        for tool in ["update-initramfs", "mkinitramfs", "update-grub"] {
            write(dir.path(), &format!("usr/sbin/{tool}"), "");
        }
        let change = |path: &str| FileChange {
            path: path.into(),
            before: None,
            after: Some("x".into()),
            directories: Vec::new(),
            attributes: None,
        };
        let commands = |paths: &[&str]| -> Vec<String> {
            let files: Vec<_> = paths.iter().map(|path| change(path)).collect();
            let commands = commands(&host, &files);
            commands.iter().map(|words| words.join(" ")).collect()
        };
        assert_eq!(
            commands(&["/etc/iosched/policy.toml", rules::PATH]),
            [""; 0]
        );
        assert_eq!(
            commands(&[
                "/etc/default/grub",
                "/usr/share/initramfs-tools/modules.d/iosched",
                "/etc/tuned/active_profile"
            ]),
            [
                "systemctl try-restart tuned.service",
                "/usr/sbin/update-grub",
                "/usr/sbin/update-initramfs -u -k all"
            ]
        );
    }
}
