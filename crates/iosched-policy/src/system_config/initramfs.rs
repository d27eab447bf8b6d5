//! The initramfs of a root disk whose scheduler is a module.
//!
//! Without the module in it, the root disk runs with the kernel's default until the root file system is mounted. Asked
//! for, a file of ours tells the program that makes the images here to put the module in; that program is run, and its
//! image is looked into. The file stays true to the policy from then on, and goes with the last rule that needs it.

use std::path::Path;

use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_machine::process::{Scope, Stop};

use crate::system_config::cmdline::value_of;
use crate::system_config::files::{self, FileChange};
use crate::system_config::udev::{self, PATIENCE};

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

/// openSUSE's program, which calls dracut, and names the images in the boot loader's entries by what is in them.
const SDBOOTUTIL: &str = "/usr/bin/sdbootutil";

impl Maker {
    /// The one that makes the images of this machine; none if there is none that is known here.
    pub(crate) fn of(host: &Host) -> Option<Maker> {
        let has = |path: &str| host.path(Path::new(path)).exists();
        // Debian's dracut has a program called update-initramfs, too; an Arch may have dracut beside mkinitcpio.
        if has("/usr/sbin/mkinitramfs") && has("/usr/share/initramfs-tools/modules.d") {
            Some(Maker::InitramfsTools)
        } else if has("/etc/mkinitcpio.conf.d") && has("/usr/bin/mkinitcpio") {
            Some(Maker::Mkinitcpio)
        } else {
            Maker::Dracut.program(host).map(|_| Maker::Dracut)
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

    /// What makes the images of all kernels anew; none if the program is gone.
    fn command(self, host: &Host) -> Option<Vec<String>> {
        let words = match self {
            Maker::Dracut if host.path(Path::new(SDBOOTUTIL)).exists() => {
                vec![SDBOOTUTIL, "mkinitrd"]
            }
            Maker::InitramfsTools => vec![self.program(host)?, "-u", "-k", "all"],
            Maker::Dracut => vec![self.program(host)?, "--force", "--regenerate-all"],
            Maker::Mkinitcpio => vec![self.program(host)?, "--allpresets"],
        };
        Some(words.into_iter().map(str::to_owned).collect())
    }

    /// What lists the files in the image of the running kernel; none if it is not known where that is.
    fn lister(self, host: &Host) -> Option<Vec<String>> {
        let release = host.kernel_release()?;
        Some(match self {
            Maker::InitramfsTools => {
                vec!["lsinitramfs".into(), format!("/boot/initrd.img-{release}")]
            }
            Maker::Dracut if host.path(Path::new(SDBOOTUTIL)).exists() => return None,
            Maker::Dracut => vec!["lsinitrd".into(), "--kver".into(), release],
            Maker::Mkinitcpio => {
                let presets = files::files_of(host, &["/etc/mkinitcpio.d"], ".preset");
                let mut texts = presets.iter().filter_map(|path| files::text_of(host, path));
                let image = texts.find_map(|text| {
                    let keys = ["default_image", "default_uki"];
                    let mut values = keys
                        .iter()
                        .flat_map(|key| text.lines().filter_map(move |line| value_of(line, key)));
                    values.next().map(str::to_owned)
                });
                vec!["lsinitcpio".into(), image?]
            }
        })
    }
}

/// What must change for these modules to be in the initramfs: asked for (`wish`), or because an earlier wish left a file
/// that is not true any more.
///
/// # Errors
/// A file cannot be read, or nothing here makes an initramfs with a file of ours.
pub(crate) fn files(
    host: &Host,
    modules: &[String],
    wish: bool,
) -> Result<Vec<FileChange>, Problem> {
    let here = Maker::of(host);
    if wish && (here.is_none() || host.run("ostree-booted").exists()) {
        return Err(nobody_makes_it());
    }
    let mut changes = Vec::new();
    for maker in MAKERS {
        let path = maker.path();
        let is_wanted = wish || files::read(host, path)?.is_some_and(|text| files::is_ours(&text));
        let is_needed = is_wanted && !modules.is_empty() && here == Some(maker);
        let text = is_needed.then(|| maker.text(modules));
        changes.extend(FileChange::plan_own(host, path, text)?);
    }
    Ok(changes)
}

fn nobody_makes_it() -> Problem {
    let message =
        "none of initramfs-tools, dracut and mkinitcpio (38 or later) makes the initramfs here";
    Problem::new(exit::MISSING, message).hint(
        "leave out --initramfs: the module is loaded when the root is mounted; or name it to the program that makes the \
         initramfs",
    )
}

/// Looks whether the modules of a change are in the image that was made after it.
///
/// # Errors
/// One is not, or the image cannot be listed.
pub(crate) fn check(
    host: &Host,
    scope: &Scope,
    change: &FileChange,
    stop: &Stop,
) -> Result<(), Problem> {
    let maker = MAKERS.into_iter().find(|maker| maker.path() == change.path);
    let lister = maker.and_then(|maker| maker.lister(host));
    let (Some(lister), Some(text)) = (lister, &change.after) else {
        return Ok(());
    };
    let image = udev::run(scope, &lister, PATIENCE, stop)?.stdout;
    match missing(text, &image) {
        None => Ok(()),
        Some(module) => {
            let message = format!(
                "{module} is not in the initramfs that was made: {}",
                lister.join(" ")
            );
            Err(Problem::new(exit::NOT_TAKEN, message).hint(format!(
                "everything was taken back; find what keeps {module} out (omit_drivers, a preset, MODULES= in a \
             later file), or leave out --initramfs"
            )))
        }
    }
}

/// The first module that a file of ours names and that is not among these files.
fn missing<'a>(text: &'a str, listed: &str) -> Option<&'a str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let words =
        lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || "\"()".contains(c)));
    let mut modules = words.filter(|word| !word.is_empty() && !word.ends_with("+="));
    let same = |name: &str| name.replace('-', "_");
    modules.find(|module| {
        let file = format!("/{}.ko", same(module));
        !listed.lines().any(|line| same(line).contains(&file))
    })
}

/// True if this module is in the initramfs by an earlier wish.
pub(crate) fn has(host: &Host, module: &str) -> bool {
    MAKERS.iter().any(|maker| {
        let text = files::read(host, maker.path()).ok().flatten();
        text.is_some_and(|text| text.split_whitespace().any(|word| word == module))
    })
}

/// The command that must be run after this file has changed; none for other files.
pub(crate) fn generator(host: &Host, change: &FileChange) -> Option<Vec<String>> {
    let mut makers = MAKERS.into_iter();
    makers
        .find(|maker| maker.path() == change.path)?
        .command(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_config::testing::{machine, write};

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
        for (tools, maker, text, command, lister) in [
            (
                &[
                    "usr/sbin/mkinitramfs",
                    "usr/sbin/update-initramfs",
                    "usr/share/initramfs-tools/modules.d/x",
                ][..],
                Maker::InitramfsTools,
                "bfq\n",
                "/usr/sbin/update-initramfs -u -k all",
                "lsinitramfs /boot/initrd.img-6.12.0-test",
            ),
            (
                &["usr/bin/dracut", "usr/sbin/update-initramfs"],
                Maker::Dracut,
                "force_drivers+=\" bfq \"\n",
                "/usr/bin/dracut --force --regenerate-all",
                "lsinitrd --kver 6.12.0-test",
            ),
            (
                &["usr/bin/mkinitcpio", "etc/mkinitcpio.conf.d/x"],
                Maker::Mkinitcpio,
                "MODULES+=( bfq )\n",
                "/usr/bin/mkinitcpio --allpresets",
                "lsinitcpio /boot/initramfs-linux.img",
            ),
        ] {
            let (dir, host) = machine(&[]);
            let preset = "#default_config=\"/x\"\ndefault_image=\"/boot/initramfs-linux.img\"\n";
            write(dir.path(), "etc/mkinitcpio.d/linux.preset", preset);
            for tool in tools {
                write(dir.path(), tool, "");
            }
            let read = || std::fs::read_to_string(host.path(maker.path())).ok();
            assert_eq!(Maker::of(&host), Some(maker));
            assert_eq!(maker.lister(&host).unwrap().join(" "), lister);
            assert!(carry_out(&host, &["bfq"], false).is_empty(), "nobody asked");
            assert_eq!(carry_out(&host, &["bfq"], true), [command]);
            let made = read().unwrap();
            assert!(made.ends_with(text));
            assert!(has(&host, "bfq") && !has(&host, "kyber-iosched"));
            for (listed, lacks) in [
                ("usr/lib/modules/6.12/kernel/block/bfq.ko.xz\n", None),
                (
                    "-rw-r--r-- 1 root root 9 Jan 1 usr/lib/modules/x/bfq.ko\n",
                    None,
                ),
                (
                    "usr/lib/modules/6.12/kernel/block/bfqx.ko\nbfq\n",
                    Some("bfq"),
                ),
            ] {
                assert_eq!(missing(&made, listed), lacks, "{listed}");
            }
            assert!(
                carry_out(&host, &["bfq"], true).is_empty(),
                "once is enough"
            );
            assert_eq!(carry_out(&host, &["kyber-iosched"], false), [command]);
            let made = read().unwrap();
            assert_eq!(missing(&made, "x/kyber_iosched.ko.zst"), None);
            assert_eq!(carry_out(&host, &[], false), [command]);
            assert_eq!(read(), None);
        }
    }

    #[test]
    fn an_image_without_the_module_is_an_error() {
        if !iosched_testing::is_root() {
            return;
        }
        iosched_testing::world::own_mounts().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "none", "/usr/local/bin"]);
        assert!(mount.status().unwrap().success());
        let lister = Path::new("/usr/local/bin/lsinitrd");
        let change = FileChange {
            path: Maker::Dracut.path().into(),
            before: None,
            after: Some(Maker::Dracut.text(&["bfq".into()])),
            directories: Vec::new(),
            attributes: None,
        };
        for (script, code) in [
            ("echo usr/lib/modules/x/bfq.ko", None),
            (
                "echo usr/lib/modules/x/kyber-iosched.ko",
                Some(exit::NOT_TAKEN),
            ),
            ("exit 1", Some(exit::FAILURE)),
        ] {
            std::fs::write(lister, format!("#!/bin/sh\n{script}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(lister, mode).unwrap();
            let checked = check(&Host::live(), &Scope::default(), &change, &Stop::new());
            assert_eq!(checked.err().map(|error| error.code), code, "{script}");
        }
    }

    #[test]
    fn a_machine_without_such_a_program_is_refused_if_asked_and_else_left_alone() {
        let (dir, host) = machine(&[]);
        let modules = ["bfq".to_owned()];
        assert!(files(&host, &modules, false).unwrap().is_empty());
        for program in ["usr/bin/mkinitcpio", "run/ostree-booted", "usr/bin/dracut"] {
            write(dir.path(), program, "");
            assert_eq!(
                files(&host, &modules, true).unwrap_err().code,
                exit::MISSING
            );
        }
    }
}
