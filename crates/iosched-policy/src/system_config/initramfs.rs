//! The initramfs of a root disk whose scheduler is a module.
//!
//! Without the module in it, the root disk runs with the kernel's default until the root file system is
//! mounted, and the module is then read from the very disk that is being switched. Asked for, it is put
//! into the initramfs and loaded there: a file of our own for the program that makes initramfs images
//! here, which is then run for every kernel. The file stays true to the policy from then on, and goes
//! with the last rule that needs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use iosched_machine::host::Host;

use crate::system_config::boot;
use crate::system_config::files::{self, FileChange, FileError};
use crate::system_config::rules;

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
        if self == Maker::Dracut && boot::sdbootutil_is_in_charge(host) {
            // It calls dracut, and names the images in its entries by what is in them.
            return Some(vec!["/usr/bin/sdbootutil".into(), "mkinitrd".into()]);
        }
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
///
/// # Errors
/// A file that cannot be read, or images that are made in a way in which ours would not be read.
pub(crate) fn files(
    host: &Host,
    modules: &[String],
    wish: bool,
) -> Result<Vec<FileChange>, FileError> {
    let here = Maker::of(host);
    let puts = wish && !modules.is_empty();
    if puts && let Some(error) = somebody_elses(host, here, modules) {
        return Err(error);
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

/// Why a file of ours would not be read where the images are made.
fn somebody_elses(host: &Host, maker: Option<Maker>, modules: &[String]) -> Option<FileError> {
    if host.run("ostree-booted").exists() {
        return Some(FileError::Elsewhere {
            path: "/run/ostree-booted".into(),
            reason: "the initramfs is part of an image of ostree".into(),
            way: format!(
                "leave out --initramfs, or rpm-ostree initramfs --enable --arg=--force-drivers --arg=\"{}\"",
                modules.join(" ")
            ),
        });
    }
    if maker != Some(Maker::Mkinitcpio) {
        return None;
    }
    if let Some(error) = assigned_after_ours(host, modules) {
        return Some(error);
    }
    // mkinitcpio(8): with a configuration file of its own (`-c`, which a preset gives it) no other is read.
    let presets = fs::read_dir(host.path(Path::new(PRESETS))).ok()?;
    let mut presets: Vec<PathBuf> = presets
        .flatten()
        .map(|entry| Path::new(PRESETS).join(entry.file_name()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "preset")
        })
        .collect();
    presets.sort();
    presets.into_iter().find_map(|path| {
        let text = fs::read_to_string(host.path(&path)).ok()?;
        let config = text.lines().find_map(|line| {
            let (name, value) = line.trim().split_once('=')?;
            let value = value.trim_matches(['"', '\'']);
            (name.ends_with("_config") && !name.starts_with('#') && !value.is_empty())
                .then(|| value.to_owned())
        })?;
        Some(FileError::Elsewhere {
            reason: format!(
                "it has mkinitcpio read {config}, and then nothing in /etc/mkinitcpio.conf.d"
            ),
            way: format!(
                "put MODULES+=( {} ) into {config} and run mkinitcpio --allpresets, or take the \
                 line …_config= out of {} if that is the usual file",
                modules.join(" "),
                path.display()
            ),
            path,
        })
    })
}

/// A file beside ours that mkinitcpio reads later (in the order of their names), and that sets `MODULES` anew.
fn assigned_after_ours(host: &Host, modules: &[String]) -> Option<FileError> {
    let ours = Maker::Mkinitcpio.path();
    let directory = ours.parent()?;
    let entries = fs::read_dir(host.path(directory)).ok()?;
    let mut later: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| directory.join(entry.file_name()))
        .filter(|path| path.extension() == ours.extension() && path.file_name() > ours.file_name())
        .collect();
    later.sort();
    later.into_iter().find_map(|path| {
        let text = fs::read_to_string(host.path(&path)).ok()?;
        let is_anew = |line: &str| line.trim_start().starts_with("MODULES=");
        text.lines().any(is_anew).then(|| FileError::Elsewhere {
            reason: "it is read after ours and sets MODULES anew".into(),
            way: format!(
                "put {} into its MODULES=(…) and run mkinitcpio --allpresets, or write MODULES+=(…) there",
                modules.join(" ")
            ),
            path,
        })
    })
}

/// Where the presets of mkinitcpio are.
const PRESETS: &str = "/etc/mkinitcpio.d";

/// An image made by dracut while our rules were as they are now. Some of its versions put the rules of `/etc` into
/// the image (`hostonly`), where they act before the root is mounted, whatever becomes of them in `/etc`.
pub(crate) fn image_with_rules(host: &Host) -> Option<PathBuf> {
    let time =
        |path: &Path| -> Option<SystemTime> { fs::metadata(host.path(path)).ok()?.modified().ok() };
    if Maker::of(host) != Some(Maker::Dracut) {
        return None;
    }
    let written = time(Path::new(rules::PATH))?;
    let images = fs::read_dir(host.path(Path::new("/boot"))).ok()?;
    let mut images: Vec<PathBuf> = images
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("initramfs-") || name.starts_with("initrd-")
        })
        .map(|entry| Path::new("/boot").join(entry.file_name()))
        .filter(|path| time(path).is_some_and(|made| made > written))
        .collect();
    images.sort();
    images.into_iter().next()
}

/// What makes the images of all kernels anew, in words; none where nothing that is known here makes them.
pub(crate) fn remake(host: &Host) -> Option<String> {
    Some(Maker::of(host)?.command(host)?.join(" "))
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
    fn a_preset_with_a_configuration_of_its_own_is_refused_by_name() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "usr/bin/mkinitcpio", "");
        write(dir.path(), "etc/mkinitcpio.conf.d/x", "");
        let preset = "etc/mkinitcpio.d/linux.preset";
        // As Arch's packages make it: of all that could be set the image's name alone is.
        let usual = "#ALL_config=\"/etc/mkinitcpio.conf\"\nALL_kver=\"/boot/vmlinuz-linux\"\nPRESETS=('default')\n\
            #default_config=\"/etc/mkinitcpio.conf\"\ndefault_image=\"/boot/initramfs-linux.img\"\n";
        write(dir.path(), preset, usual);
        let modules = ["bfq".to_owned()];
        assert_eq!(files(&host, &modules, true).unwrap().len(), 1);
        write(dir.path(), preset, &usual.replace("#default_", "default_"));
        let error = files(&host, &modules, true).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains(
                "/etc/mkinitcpio.d/linux.preset: it has mkinitcpio read /etc/mkinitcpio.conf"
            ),
            "{said}"
        );
        let hint = iosched_machine::failure::Failure::hint(&error).unwrap();
        assert!(hint.contains("MODULES+=( bfq )"), "{hint}");
        assert!(
            files(&host, &modules, false).unwrap().is_empty(),
            "nobody asked"
        );
    }

    #[test]
    fn a_file_that_is_read_after_ours_and_sets_the_modules_anew_is_refused_by_name() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "usr/bin/mkinitcpio", "");
        let modules = ["bfq".to_owned()];
        for (file, text, is_refused) in [
            ("etc/mkinitcpio.conf.d/a.conf", "MODULES=(ext4)\n", false),
            ("etc/mkinitcpio.conf.d/z.txt", "MODULES=(ext4)\n", false),
            ("etc/mkinitcpio.conf.d/x.conf", "MODULES+=(ext4)\n", false),
            ("etc/mkinitcpio.conf.d/z.conf", "MODULES=(ext4)\n", true),
        ] {
            write(dir.path(), file, text);
            match files(&host, &modules, true) {
                Ok(changes) => assert_eq!((changes.len(), is_refused), (1, false), "{file}"),
                Err(error) => {
                    assert!(is_refused && error.to_string().contains(file), "{error}");
                    let hint = iosched_machine::failure::Failure::hint(&error).unwrap();
                    assert!(hint.starts_with("put bfq into"), "{hint}");
                }
            }
        }
    }

    #[test]
    fn nothing_to_put_in_is_refused_nowhere() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "run/ostree-booted", "");
        write(dir.path(), "usr/bin/dracut", "");
        assert!(files(&host, &[], true).unwrap().is_empty());
    }

    #[test]
    fn images_that_another_program_has_in_hand_are_left_to_it() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "usr/bin/dracut", "");
        write(
            dir.path(),
            "boot/efi/loader/entries/1.conf",
            "linux /vmlinuz\noptions ro\n",
        );
        assert_eq!(
            carry_out(&host, &["bfq"], true),
            ["/usr/bin/dracut --force --regenerate-all"]
        );
        write(dir.path(), "usr/bin/sdbootutil", "");
        assert_eq!(
            carry_out(&host, &["kyber-iosched"], true),
            ["/usr/bin/sdbootutil mkinitrd"]
        );
        write(dir.path(), "run/ostree-booted", "");
        let error = files(&host, &["bfq".to_owned()], true).unwrap_err();
        assert!(error.to_string().contains("ostree"), "{error}");
    }

    #[test]
    fn an_image_that_dracut_made_since_the_rules_were_written_may_have_them() {
        let (dir, host) = machine(&[]);
        let set = |path: &str, seconds: u64| {
            write(dir.path(), path, "");
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            let mut options = fs::File::options();
            let file = options.write(true).open(dir.path().join(path)).unwrap();
            file.set_modified(time).unwrap();
        };
        set("etc/udev/rules.d/99-iosched.rules", 1000);
        set("boot/initramfs-6.12.0.img", 999);
        set("boot/vmlinuz-6.12.0", 1001);
        set("usr/bin/dracut", 1);
        assert_eq!(image_with_rules(&host), None);
        set("boot/initramfs-6.13.0.img", 1001);
        assert_eq!(
            image_with_rules(&host),
            Some("/boot/initramfs-6.13.0.img".into())
        );
        set("usr/bin/mkinitcpio", 1);
        write(dir.path(), "etc/mkinitcpio.conf.d/x", "");
        assert_eq!(image_with_rules(&host), None, "it takes no rules of /etc");
    }

    #[test]
    fn a_machine_without_such_a_program_has_nothing_changed() {
        let (_dir, host) = machine(&[]);
        assert_eq!(Maker::of(&host), None);
        assert!(carry_out(&host, &["bfq"], true).is_empty());
    }
}
