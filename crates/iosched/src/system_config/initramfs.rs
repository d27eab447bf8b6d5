//! The initramfs of a root disk whose scheduler is a module.
//!
//! Without the module in it, the root disk runs with the kernel's default until the root file system is
//! mounted, and the module is then read from the very disk that is being switched. Asked for, it is put
//! into the initramfs and loaded there: a file of our own for the program that makes initramfs images
//! here, which is then run for every kernel. The file stays true to the policy from then on, and goes
//! with the last rule that needs it.

use std::path::Path;

use crate::host::Host;
use crate::system_config::files::{self, FileChange, FileError};

/// A program that makes initramfs images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    /// Debian, Ubuntu. `initramfs.conf(5)` names the directory of the file.
    InitramfsTools,
    /// Fedora, RHEL, SUSE. `dracut.conf(5)` describes `force_drivers`.
    Dracut,
    /// Arch. `mkinitcpio.conf(5)` describes `MODULES`, and files beside it since version 38.
    Mkinitcpio,
}

const MAKERS: [Maker; 3] = [Maker::InitramfsTools, Maker::Dracut, Maker::Mkinitcpio];

impl Maker {
    /// The one that makes the images of this machine; none if there is none that is known here.
    pub(crate) fn of(host: &Host) -> Option<Maker> {
        // Debian's dracut has a program called update-initramfs, too.
        let has = |path: &str| host.path(Path::new(path)).exists();
        if has("/usr/sbin/mkinitramfs") && has("/usr/share/initramfs-tools/modules.d") {
            Some(Maker::InitramfsTools)
        } else if has("/etc/mkinitcpio.conf.d") && Maker::Mkinitcpio.program(host).is_some() {
            // An Arch with dracut installed beside it still makes its images with this one.
            Some(Maker::Mkinitcpio)
        } else {
            Maker::Dracut
                .program(host)
                .is_some()
                .then_some(Maker::Dracut)
        }
    }

    /// Our file.
    pub(crate) fn path(self) -> &'static Path {
        Path::new(match self {
            Maker::InitramfsTools => "/usr/share/initramfs-tools/modules.d/iosched",
            Maker::Dracut => "/etc/dracut.conf.d/iosched.conf",
            Maker::Mkinitcpio => "/etc/mkinitcpio.conf.d/iosched.conf",
        })
    }

    fn text(self, modules: &[String]) -> String {
        let remark = "# Made by iosched: the I/O schedulers of the root disk.\n";
        match self {
            Maker::InitramfsTools => format!("{remark}{}\n", modules.join("\n")),
            Maker::Dracut => format!("{remark}force_drivers+=\" {} \"\n", modules.join(" ")),
            Maker::Mkinitcpio => format!("{remark}MODULES+=( {} )\n", modules.join(" ")),
        }
    }

    fn program(self, host: &Host) -> Option<&'static str> {
        let places: &[&str] = match self {
            Maker::InitramfsTools => &["/usr/sbin/update-initramfs"],
            Maker::Dracut => &["/usr/bin/dracut", "/usr/sbin/dracut", "/sbin/dracut"],
            Maker::Mkinitcpio => &["/usr/bin/mkinitcpio"],
        };
        let is_there = |path: &&&str| host.path(Path::new(path)).exists();
        places.iter().find(is_there).copied()
    }

    /// What makes the images of all kernels anew; none where the program is gone.
    fn command(self, host: &Host) -> Option<Vec<String>> {
        let arguments = match self {
            Maker::InitramfsTools => ["-u", "-k", "all"].as_slice(),
            Maker::Dracut => &["--force", "--regenerate-all"],
            Maker::Mkinitcpio => &["--allpresets"],
        };
        let words = std::iter::once(self.program(host)?).chain(arguments.iter().copied());
        Some(words.map(str::to_owned).collect())
    }
}

/// What must change for these modules to be in the initramfs: asked for (`wish`), or because an earlier
/// wish left a file that is not true any more.
pub(crate) fn files(
    host: &Host,
    modules: &[String],
    wish: bool,
) -> Result<Vec<FileChange>, FileError> {
    let here = Maker::of(host);
    let mut changes = Vec::new();
    for maker in MAKERS {
        let path = maker.path();
        let is_wanted = wish || files::read(host, path)?.is_some();
        let is_needed = is_wanted && !modules.is_empty() && here == Some(maker);
        let text = is_needed.then(|| maker.text(modules));
        changes.extend(FileChange::plan(host, path, text)?);
    }
    Ok(changes)
}

/// True if these modules are in the initramfs by an earlier wish.
pub(crate) fn has(host: &Host, module: &str) -> bool {
    MAKERS.iter().any(|maker| {
        files::read(host, maker.path())
            .ok()
            .flatten()
            .is_some_and(|text| text.split_whitespace().any(|word| word == module))
    })
}

/// The command that must be run after this file has changed; none for other files.
pub(crate) fn generator(host: &Host, change: &FileChange) -> Option<Vec<String>> {
    let maker = MAKERS
        .into_iter()
        .find(|maker| maker.path() == change.path)?;
    maker.command(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_config::testing::{machine, write};

    fn read(dir: &tempfile::TempDir, maker: Maker) -> Option<String> {
        let path = dir.path().join(maker.path().strip_prefix("/").unwrap());
        std::fs::read_to_string(path).ok()
    }

    fn carry_out(host: &Host, modules: &[&str], wish: bool) -> Vec<String> {
        let modules: Vec<String> = modules.iter().map(|&module| module.to_owned()).collect();
        let changes = files(host, &modules, wish).unwrap();
        let commands = |change: &FileChange| {
            change.install(host).unwrap();
            generator(host, change).unwrap().join(" ")
        };
        changes.iter().map(commands).collect()
    }

    #[test]
    fn a_file_is_made_when_asked_kept_true_and_goes_with_the_need() {
        for (tools, maker, text, command) in [
            (
                [
                    "usr/sbin/mkinitramfs",
                    "usr/sbin/update-initramfs",
                    "usr/share/initramfs-tools/modules.d/x",
                ]
                .as_slice(),
                Maker::InitramfsTools,
                "bfq\n",
                "/usr/sbin/update-initramfs -u -k all",
            ),
            (
                &["usr/bin/dracut", "usr/sbin/update-initramfs"],
                Maker::Dracut,
                "force_drivers+=\" bfq \"\n",
                "/usr/bin/dracut --force --regenerate-all",
            ),
            (
                &["usr/bin/mkinitcpio", "etc/mkinitcpio.conf.d/x"],
                Maker::Mkinitcpio,
                "MODULES+=( bfq )\n",
                "/usr/bin/mkinitcpio --allpresets",
            ),
        ] {
            let (dir, host) = machine(&[]);
            for tool in tools {
                write(dir.path(), tool, "");
            }
            assert_eq!(Maker::of(&host), Some(maker));
            assert!(carry_out(&host, &["bfq"], false).is_empty(), "nobody asked");
            assert_eq!(carry_out(&host, &["bfq"], true), [command]);
            assert!(read(&dir, maker).unwrap().ends_with(text));
            assert!(has(&host, "bfq") && !has(&host, "kyber-iosched"));
            assert!(
                carry_out(&host, &["bfq"], true).is_empty(),
                "once is enough"
            );
            assert_eq!(carry_out(&host, &["kyber-iosched"], false), [command]);
            assert!(read(&dir, maker).unwrap().contains("kyber-iosched"));
            assert_eq!(carry_out(&host, &[], false), [command]);
            assert_eq!(read(&dir, maker), None);
        }
    }

    #[test]
    fn a_machine_without_such_a_program_has_nothing_changed() {
        let (_dir, host) = machine(&[]);
        assert_eq!(Maker::of(&host), None);
        assert!(carry_out(&host, &["bfq"], true).is_empty());
    }
}
