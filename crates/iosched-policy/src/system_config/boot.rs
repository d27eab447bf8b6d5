//! The kernel's command line changed for good: which files carry it here, which program makes the boot loader's own
//! file of them, and where it is somebody else's.
//!
//! | boot loader | files | then run |
//! |---|---|---|
//! | GRUB | `/etc/default/grub`, `/etc/default/grub.d` | `update-grub`, `grubby`, `grub2-mkconfig` |
//! | GRUB with entries of the Boot Loader Specification (Fedora, RHEL 8) | the same, the entries, `grubenv` | nothing |
//! | systemd-boot with kernel-install | the entries, `/etc/kernel/cmdline` | nothing |
//! | either, with openSUSE's sdbootutil | `/etc/kernel/cmdline` | `sdbootutil update-all-entries` |
//! | extlinux of Alpine | `/etc/update-extlinux.conf` | `update-extlinux` |
//! | GRUB before 2 | `menu.lst`, `grub.conf` | nothing |

use std::path::{Path, PathBuf};

use iosched_machine::host::Host;

use crate::system_config::bls;
use crate::system_config::cmdline::{self, Format, Place, elevator_in, with_elevator};
use crate::system_config::files::{self, FileChange, FileError};

/// The files that may carry the command line, and their format. Where there are several, all count.
const FILES: [(&str, Format); 5] = [
    (GRUB_DEFAULT, Format::GrubDefault),
    (KERNEL_INSTALL, Format::KernelInstall),
    ("/boot/grub/menu.lst", Format::MenuLst),
    ("/boot/grub/grub.conf", Format::MenuLst),
    (EXTLINUX, Format::Extlinux),
];

const GRUB_DEFAULT: &str = "/etc/default/grub";
/// Read by GRUB of Debian and Ubuntu, after [`GRUB_DEFAULT`].
const GRUB_DROP_INS: &str = "/etc/default/grub.d";
const KERNEL_INSTALL: &str = "/etc/kernel/cmdline";
/// What kernel-install reads where there is no file of that name in `/etc`.
const KERNEL_INSTALL_VENDOR: &str = "/usr/lib/kernel/cmdline";
const EXTLINUX: &str = "/etc/update-extlinux.conf";

/// Where a partition with boot files may be mounted, below which `loader/entries` and `EFI/Linux` are.
const BOOT: [&str; 3] = ["/boot", "/efi", "/boot/efi"];

/// What must change for `elevator=` to have this value at every boot; with none, to be gone.
pub(crate) fn files(host: &Host, value: Option<&str>) -> Result<Vec<FileChange>, FileError> {
    let mut changes = Vec::new();
    if let Some(error) = somebody_elses(host, value) {
        let is_given = cmdline::given_at_boot(host).is_some();
        let has_it = value.is_some() || is_given || !places_of_elevator(host).is_empty();
        return if has_it { Err(error) } else { Ok(changes) };
    }
    for (path, format) in places(host) {
        // menu.lst is often a link to grub.conf, which is in the list itself.
        if host.path(&path).is_symlink() {
            continue;
        }
        let vendor = || files::read(host, Path::new(KERNEL_INSTALL_VENDOR));
        let text = match files::read(host, &path)? {
            None if format == Format::KernelInstall => vendor()?,
            text => text,
        };
        let Some(text) = text else {
            continue;
        };
        let edited =
            with_elevator(&text, format, value).map_err(|line| FileError::CommandLine {
                path: path.clone(),
                line: line.line,
                text: line.text,
            })?;
        if edited != text {
            changes.extend(FileChange::plan(host, path, Some(edited))?);
        }
    }
    Ok(changes)
}

/// The lines in which `elevator=` is given.
pub(crate) fn places_of_elevator(host: &Host) -> Vec<Place> {
    let mut found = Vec::new();
    for (file, _) in places(host) {
        let text = std::fs::read_to_string(host.path(&file)).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            if cmdline::given_in(line).is_some() {
                found.push(Place {
                    file: file.clone(),
                    line: index + 1,
                });
            }
        }
    }
    found
}

/// The files of this machine that carry the command line, or may.
fn places(host: &Host) -> Vec<(PathBuf, Format)> {
    let mut places: Vec<(PathBuf, Format)> = FILES
        .iter()
        .map(|&(path, format)| (path.into(), format))
        .collect();
    let drop_ins = files_in(host, GRUB_DROP_INS, "cfg");
    places.extend(drop_ins.into_iter().map(|path| (path, Format::GrubDropIn)));
    if !sdbootutil_is_in_charge(host) {
        places.extend(
            entries(host)
                .into_iter()
                .map(|path| (path, Format::LoaderEntry)),
        );
    }
    let environments = environments(host).into_iter();
    places.extend(environments.map(|path| (path, Format::GrubEnvironment)));
    places
}

/// The files of a directory with this extension, in the order of their names.
fn files_in(host: &Host, directory: &str, extension: &str) -> Vec<PathBuf> {
    let directory = Path::new(directory);
    let entries = std::fs::read_dir(host.path(directory));
    let mut found: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| directory.join(entry.file_name()))
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    found.sort();
    found
}

/// The entries of the Boot Loader Specification by which Linux is started on this machine.
fn entries(host: &Host) -> Vec<PathBuf> {
    let machine_id = std::fs::read_to_string(host.path(Path::new("/etc/machine-id")));
    let machine_id = machine_id.ok().map(|id| id.trim().to_owned());
    let all = BOOT
        .iter()
        .flat_map(|boot| files_in(host, &format!("{boot}/loader/entries"), "conf"));
    all.filter(|path| {
        let text = std::fs::read_to_string(host.path(path)).unwrap_or_default();
        bls::is_for(&text, machine_id.as_deref())
    })
    .collect()
}

/// GRUB's environment blocks.
fn environments(host: &Host) -> Vec<PathBuf> {
    let below = std::fs::read_dir(host.path(Path::new("/boot/efi/EFI")));
    let of_efi = below.into_iter().flatten().flatten();
    let of_efi = of_efi.map(|vendor| Path::new("/boot/efi/EFI").join(vendor.file_name()));
    let directories = ["/boot/grub2", "/boot/grub"].map(PathBuf::from);
    directories
        .into_iter()
        .chain(of_efi)
        .map(|directory| directory.join("grubenv"))
        .filter(|path| host.path(path).exists())
        .collect()
}

/// The first of these programs that is there.
fn program(host: &Host, names: &[&str]) -> Option<String> {
    let mut there = names
        .iter()
        .filter(|name| host.path(Path::new(name)).exists());
    there.next().map(|&name| name.to_owned())
}

const SDBOOTUTIL: &str = "/usr/bin/sdbootutil";

/// True if openSUSE's sdbootutil makes the entries and the initramfs images that they name: what it has made it
/// measures for the TPM, so that nobody else may change it.
pub(crate) fn sdbootutil_is_in_charge(host: &Host) -> bool {
    host.path(Path::new(SDBOOTUTIL)).exists() && !entries(host).is_empty()
}

/// True if GRUB makes its menu of the entries of the Boot Loader Specification.
fn grub_reads_entries(host: &Host) -> bool {
    let text = |path: &str| std::fs::read_to_string(host.path(Path::new(path))).unwrap_or_default();
    let is_set = |text: &str| {
        let mut values = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("GRUB_ENABLE_BLSCFG="));
        values
            .next_back()
            .map(|value| value.trim_matches(['"', '\'']) == "true")
    };
    let has_command = || {
        let lines = text("/boot/grub2/grub.cfg");
        lines.lines().any(|line| line.trim() == "blscfg")
    };
    is_set(&text(GRUB_DEFAULT)).unwrap_or_else(has_command) && !entries(host).is_empty()
}

/// Why the command line cannot be changed here by its files.
fn somebody_elses(host: &Host, value: Option<&str>) -> Option<FileError> {
    let is_there = |path: &str| host.path(Path::new(path)).exists();
    let error = |path: &Path, reason: &str, way: String| {
        Some(FileError::Elsewhere {
            path: path.to_owned(),
            reason: reason.to_owned(),
            way,
        })
    };
    let old = cmdline::given_at_boot(host).unwrap_or_else(|| "VALUE".to_owned());
    let put_or_take = |into: &str| match value {
        Some(value) => format!("put elevator={value} into {into}"),
        None => format!("take elevator= out of {into}"),
    };
    if is_there("/run/ostree-booted") {
        let way = match value {
            Some(value) => format!("rpm-ostree kargs --append-if-missing=elevator={value}"),
            None => format!("rpm-ostree kargs --delete-if-present=elevator={old}"),
        };
        let reason = "the system is an image of ostree, which makes the boot loader's entries";
        return error(Path::new("/run/ostree-booted"), reason, way);
    }
    if is_there("/etc/NIXOS") {
        let reason = "NixOS makes the boot loader's files";
        return error(
            Path::new("/etc/NIXOS"),
            reason,
            put_or_take("boot.kernelParams"),
        );
    }
    let images = BOOT
        .iter()
        .flat_map(|boot| files_in(host, &format!("{boot}/EFI/Linux"), "efi"));
    if let Some(image) = images.into_iter().next() {
        let way = format!(
            "{}, and have the program that made the image make it anew (kernel-install, mkinitcpio, dracut)",
            put_or_take(KERNEL_INSTALL)
        );
        let reason = "a unified kernel image holds its command line itself";
        return error(&image, reason, way);
    }
    let has_command_line = is_there(KERNEL_INSTALL) || is_there(KERNEL_INSTALL_VENDOR);
    if sdbootutil_is_in_charge(host) && !has_command_line {
        let reason =
            "sdbootutil makes the boot loader's entries, and there is no /etc/kernel/cmdline";
        let way = "write the command line into /etc/kernel/cmdline first (see /proc/cmdline)";
        return error(Path::new(SDBOOTUTIL), reason, way.to_owned());
    }
    let extlinux = std::fs::read_to_string(host.path(Path::new(EXTLINUX))).unwrap_or_default();
    let mut overwrite = extlinux
        .lines()
        .filter_map(|line| line.trim().strip_prefix("overwrite="));
    if !extlinux.is_empty()
        && overwrite
            .next_back()
            .map(|value| value.trim_matches(['"', '\'']))
            != Some("1")
    {
        let reason = "overwrite is not 1, so update-extlinux leaves /boot/extlinux.conf alone";
        let way = put_or_take("/boot/extlinux.conf");
        return error(Path::new(EXTLINUX), reason, way);
    }
    None
}

/// What the user should know of these changes: what is run after them, and what nobody does.
pub(crate) fn notes(host: &Host, files: &[FileChange]) -> Vec<String> {
    let mut notes = Vec::new();
    for file in files {
        let is_of_grub =
            file.path.starts_with(GRUB_DEFAULT) || file.path.starts_with(GRUB_DROP_INS);
        let path = file.path.display();
        let note = match generator(host, file) {
            Some(command) => format!("`{}` is run then, for {path}", command.join(" ")),
            None if is_of_grub && !grub_reads_entries(host) && !sdbootutil_is_in_charge(host) => {
                format!(
                    "{path} counts when update-grub, grubby or grub2-mkconfig has made GRUB's own file of it: \
                     none of them is here"
                )
            }
            None if file.path == Path::new(EXTLINUX) => {
                format!("{path} counts when update-extlinux has been run, which is not here")
            }
            None if file.path == Path::new(KERNEL_INSTALL) && entries(host).is_empty() => format!(
                "{path} is for kernels installed from now on: run kernel-install for the present one"
            ),
            None => continue,
        };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// The command that must be run after this file has changed so that the boot loader sees it; none where the boot
/// loader reads the file itself.
pub(crate) fn generator(host: &Host, change: &FileChange) -> Option<Vec<String>> {
    let alone = |name: String| vec![name];
    match change.path.to_str()? {
        GRUB_DEFAULT => of_grub(host, Some(change)),
        EXTLINUX => program(
            host,
            &["/sbin/update-extlinux", "/usr/sbin/update-extlinux"],
        )
        .map(alone),
        KERNEL_INSTALL if sdbootutil_is_in_charge(host) => {
            Some(vec![SDBOOTUTIL.into(), "update-all-entries".into()])
        }
        path if path.starts_with(GRUB_DROP_INS) => of_grub(host, None),
        // s390x: zipl writes what it starts where the firmware finds it.
        path if path.contains("/loader/entries/") => {
            program(host, &["/usr/sbin/zipl", "/sbin/zipl"]).map(alone)
        }
        _ => None,
    }
}

/// What makes GRUB's own file; with a change of [`GRUB_DEFAULT`] whatever is fit for that.
fn of_grub(host: &Host, change: Option<&FileChange>) -> Option<Vec<String>> {
    if grub_reads_entries(host) || sdbootutil_is_in_charge(host) {
        return None;
    }
    if let Some(update_grub) = program(host, &["/usr/sbin/update-grub"]) {
        return Some(vec![update_grub]);
    }
    if let Some(change) = change
        && let Some(grubby) = program(host, &["/usr/sbin/grubby", "/sbin/grubby"])
    {
        let value = |text: &Option<String>| elevator_in(text.as_deref().unwrap_or_default());
        let argument = match (value(&change.after), value(&change.before)) {
            (Some(value), _) => format!("--args=elevator={value}"),
            (None, _) => "--remove-args=elevator".to_owned(),
        };
        return Some(vec![grubby, "--update-kernel=ALL".into(), argument]);
    }
    let mkconfig = program(
        host,
        &["/usr/sbin/grub2-mkconfig", "/usr/sbin/grub-mkconfig"],
    )?;
    // Fedora before 34 and RHEL before 9 have the file on the EFI partition, and this link to it.
    let of_efi = "/etc/grub2-efi.cfg";
    let has_efi = |path: &str| host.path(Path::new(path)).exists();
    let output = if !mkconfig.contains("grub2") {
        "/boot/grub/grub.cfg"
    } else if has_efi("/sys/firmware/efi") && has_efi(of_efi) {
        of_efi
    } else {
        "/boot/grub2/grub.cfg"
    };
    Some(vec![mkconfig, "-o".into(), output.into()])
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_stands_in_a_comment_is_not_given_to_grubby() {
        let text = "# was: elevator=cfq\nGRUB_CMDLINE_LINUX=\"ro elevator=noop\"\n";
        assert_eq!(elevator_in(text).as_deref(), Some("noop"));
        assert_eq!(elevator_in("  # elevator=cfq\n"), None);
    }

    use super::*;
    use crate::system_config::testing::{machine, write};

    const GRUB: &str = "GRUB_CMDLINE_LINUX=\"quiet\"\n";

    #[test]
    fn the_command_is_the_one_of_the_distribution() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "etc/default/grub", GRUB);
        let change = files(&host, Some("noop")).unwrap().remove(0);
        assert_eq!(generator(&host, &change), None);
        write(dir.path(), "usr/sbin/grub2-mkconfig", "");
        let command = |change: &FileChange| generator(&host, change).unwrap().join(" ");
        assert_eq!(
            command(&change),
            "/usr/sbin/grub2-mkconfig -o /boot/grub2/grub.cfg"
        );
        write(dir.path(), "sbin/grubby", "");
        assert_eq!(
            command(&change),
            "/sbin/grubby --update-kernel=ALL --args=elevator=noop"
        );
        assert_eq!(
            command(&change.reversed()),
            "/sbin/grubby --update-kernel=ALL --remove-args=elevator"
        );
        write(dir.path(), "usr/sbin/update-grub", "");
        assert_eq!(command(&change), "/usr/sbin/update-grub");
    }

    #[test]
    fn of_entries_nothing_is_made_and_what_sdbootutil_makes_it_makes_itself() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "etc/default/grub", GRUB);
        write(dir.path(), "usr/sbin/grub2-mkconfig", "");
        let grub = files(&host, Some("noop")).unwrap().remove(0);
        let command = |change: &FileChange| generator(&host, change).map(|words| words.join(" "));
        assert!(command(&grub).is_some());
        write(
            dir.path(),
            "boot/loader/entries/1.conf",
            "linux /vmlinuz\noptions ro\n",
        );
        assert!(command(&grub).is_some(), "nothing says that GRUB reads it");
        write(dir.path(), "boot/grub2/grub.cfg", "insmod blscfg\nblscfg\n");
        assert_eq!(command(&grub), None, "the entry itself is changed");
        write(
            dir.path(),
            "etc/default/grub",
            "GRUB_ENABLE_BLSCFG=\"false\"\n",
        );
        assert!(command(&grub).is_some(), "grub.cfg is of another time");
        write(dir.path(), "etc/default/grub", "GRUB_ENABLE_BLSCFG=true\n");
        assert_eq!(command(&grub), None);

        let changed = |host: &Host| -> Vec<_> {
            let files = files(host, Some("noop")).unwrap();
            files.into_iter().map(|file| file.path).collect()
        };
        let entry = Path::new("/boot/loader/entries/1.conf");
        assert_eq!(changed(&host), [Path::new(GRUB_DEFAULT), entry]);
        write(dir.path(), "usr/sbin/zipl", "");
        let of_entry = files(&host, Some("noop")).unwrap().remove(1);
        assert_eq!(command(&of_entry).as_deref(), Some("/usr/sbin/zipl"));

        write(dir.path(), "usr/bin/sdbootutil", "");
        let error = files(&host, Some("noop")).unwrap_err().to_string();
        assert!(error.contains("there is no /etc/kernel/cmdline"), "{error}");
        write(dir.path(), "etc/kernel/cmdline", "ro\n");
        let of_all = files(&host, Some("noop")).unwrap();
        assert!(of_all.iter().all(|file| file.path != entry));
        let own = of_all.iter().find(|file| file.path.ends_with("cmdline"));
        assert_eq!(
            command(own.unwrap()).as_deref(),
            Some("/usr/bin/sdbootutil update-all-entries")
        );
    }

    #[test]
    fn on_an_efi_machine_of_old_the_file_on_its_partition_is_made() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "etc/default/grub", GRUB);
        write(dir.path(), "usr/sbin/grub2-mkconfig", "");
        write(dir.path(), "etc/grub2-efi.cfg", "");
        let change = files(&host, Some("noop")).unwrap().remove(0);
        let output = || generator(&host, &change).unwrap().pop().unwrap();
        assert_eq!(output(), "/boot/grub2/grub.cfg");
        write(dir.path(), "sys/firmware/efi/x", "");
        assert_eq!(output(), "/etc/grub2-efi.cfg");
    }

    #[test]
    fn what_is_read_after_grubs_file_does_not_undo_it() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "etc/default/grub", GRUB);
        let drop_in = "etc/default/grub.d/50-cloudimg-settings.cfg";
        for (text, edited) in [
            (
                "GRUB_CMDLINE_LINUX_DEFAULT=\"console=tty1 elevator=cfq\"\n",
                Some("GRUB_CMDLINE_LINUX_DEFAULT=\"console=tty1\"\n"),
            ),
            (
                "if true; then\n  GRUB_TIMEOUT=0\nfi\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX console=ttyS0\"\n",
                Some(""),
            ),
            ("GRUB_CMDLINE_LINUX+=\" nosmt\"\n", Some("")),
            ("GRUB_CMDLINE_LINUX=\"console=ttyS0\"\n", None),
            (
                "[ -e /x ] && GRUB_CMDLINE_LINUX_DEFAULT=elevator=cfq\n",
                None,
            ),
        ] {
            write(dir.path(), drop_in, text);
            match (files(&host, Some("noop")), edited) {
                (Ok(changes), Some("")) => assert_eq!(changes.len(), 1, "{text}"),
                (Ok(changes), Some(edited)) => {
                    assert_eq!(changes[1].path, Path::new("/").join(drop_in));
                    assert_eq!(changes[1].after.as_deref(), Some(edited));
                    write(dir.path(), "usr/sbin/update-grub", "");
                    let command = generator(&host, &changes[1]).unwrap();
                    assert_eq!(command, ["/usr/sbin/update-grub"]);
                }
                (Err(FileError::CommandLine { line: 1, .. }), None) => {}
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_link_from_menu_lst_to_grub_conf_is_edited_once() {
        let (dir, host) = machine(&[]);
        write(
            dir.path(),
            "boot/grub/grub.conf",
            "title x\n\tkernel /vmlinuz ro root=/dev/sda1\n",
        );
        std::os::unix::fs::symlink("grub.conf", dir.path().join("boot/grub/menu.lst")).unwrap();
        let changes = files(&host, Some("noop")).unwrap();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].path, Path::new("/boot/grub/grub.conf"));
    }
}
