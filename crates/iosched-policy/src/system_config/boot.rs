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

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use iosched_machine::host::Host;
use iosched_machine::lossy;

use crate::system_config::bls::{self, Starts};
use crate::system_config::cmdline::{
    self, FileLine, Format, elevator_in, with_elevator, with_elevator_in_scripts,
};
use crate::system_config::files::{self, FileChange, FileError};
use crate::system_config::parameter::{NotUnderstood, PARAMETER, value_of_parameter};

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
const DROP_IN: &str = "cfg";
const KERNEL_INSTALL: &str = "/etc/kernel/cmdline";
/// Where Proxmox keeps which partitions its tool makes entries on: nothing else reads the parameters there.
const PROXMOX_BOOT: &str = "/etc/kernel/proxmox-boot-uuids";

/// What kernel-install reads where there is no file of that name in `/etc`.
const KERNEL_INSTALL_VENDOR: &str = "/usr/lib/kernel/cmdline";
const EXTLINUX: &str = "/etc/update-extlinux.conf";

/// What makes GRUB's own file of [`GRUB_DEFAULT`].
const GRUB_MKCONFIG: [&str; 3] = [
    "/usr/sbin/grub-mkconfig",
    "/usr/sbin/grub2-mkconfig",
    "/usr/bin/grub-mkconfig",
];

/// What kernelstub of Pop!_OS makes its entries of, at every new kernel.
const KERNELSTUB: &str = "/etc/kernelstub/configuration";

/// Files that carry a command line, and are edited by nobody here.
const BY_HAND: [&str; 18] = [
    "/boot/firmware/cmdline.txt",
    "/boot/cmdline.txt",
    "/boot/armbianEnv.txt",
    "/boot/orangepiEnv.txt",
    "/boot/uEnv.txt",
    "/etc/default/u-boot",
    "/etc/default/limine",
    "/boot/limine.conf",
    "/boot/limine/limine.conf",
    "/boot/EFI/limine/limine.conf",
    "/boot/EFI/BOOT/limine.conf",
    "/boot/refind_linux.conf",
    "/boot/extlinux/extlinux.conf",
    "/boot/extlinux.conf",
    "/boot/syslinux/syslinux.cfg",
    "/etc/lilo.conf",
    "/etc/zipl.conf",
    "/etc/silo.conf",
];

/// Where a partition with boot files may be mounted, below which `loader/entries` and `EFI/Linux` are.
const BOOT: [&str; 3] = ["/boot", "/efi", "/boot/efi"];

/// A file, what it is, and what it holds.
type BootFile = (PathBuf, Format, String);

/// What must change for `elevator=` to have this value at every boot; with none, to be gone.
pub(crate) fn files(host: &Host, value: Option<&str>) -> Result<Vec<FileChange>, FileError> {
    if let Some(error) = somebody_elses(host, value) {
        let is_given = cmdline::given_at_boot(host).is_some();
        let has_it = value.is_some() || is_given || !places_of_elevator(host).is_empty();
        return if has_it { Err(error) } else { Ok(Vec::new()) };
    }
    let uses_environment = takes_kernelopts(host);
    let is_of_grub = |format| matches!(format, Format::GrubDefault | Format::GrubDropIn);
    let (of_grub, others): (Vec<_>, Vec<_>) = read(host, value, uses_environment)?
        .into_iter()
        .partition(|(_, format, _)| is_of_grub(*format));
    check_tuned(host, &of_grub, value)?;
    let mut edited = edited_scripts(&of_grub, value)?;
    for other in &others {
        edited.push(edited_file(host, other, value, uses_environment)?);
    }
    let mut changes = Vec::new();
    for ((path, _, before), after) in of_grub.iter().chain(&others).zip(edited) {
        if after != *before {
            changes.extend(FileChange::plan(host, path, Some(after))?);
        }
    }
    Ok(changes)
}

/// The files that are there, but for those which cannot be followed and need no change.
fn read(
    host: &Host,
    value: Option<&str>,
    uses_environment: bool,
) -> Result<Vec<BootFile>, FileError> {
    let mut found = Vec::new();
    for (path, format) in places(host) {
        let value = value.filter(|_| format != Format::GrubEnvironment || uses_environment);
        let vendor = || files::read(host, Path::new(KERNEL_INSTALL_VENDOR));
        let text = match files::read(host, &path) {
            Err(FileError::Link { is_on_the_way, .. })
                if need_not_change(host, &path, format, value, is_on_the_way) =>
            {
                continue;
            }
            Err(FileError::NotTextName { .. })
                if need_not_change(host, &path, format, value, false) =>
            {
                continue;
            }
            Ok(None) if format == Format::KernelInstall => vendor()?,
            text => text?,
        };
        found.extend(text.map(|text| (path, format, text)));
    }
    Ok(found)
}

/// GRUB's files, which are one script, with the parameter. The first of them is GRUB's own if that is there.
fn edited_scripts(of_grub: &[BootFile], value: Option<&str>) -> Result<Vec<String>, FileError> {
    let scripts = of_grub.iter();
    let scripts: Vec<_> = scripts
        .map(|(_, format, text)| (text.as_str(), *format))
        .collect();
    let is_own = |(_, format): &(&str, Format)| *format == Format::GrubDefault;
    with_elevator_in_scripts(&scripts, value).map_err(|(index, line)| {
        if scripts.iter().any(is_own) || line.why != NotUnderstood::LOSES {
            return not_understood(&of_grub[index], value, line);
        }
        FileError::Elsewhere {
            path: of_grub[index].0.clone(),
            reason: format!(
                "GRUB reads it, and there is no {GRUB_DEFAULT} to put {PARAMETER} into"
            ),
            way: format!("make an empty one, then try again: touch {GRUB_DEFAULT}"),
        }
    })
}

/// A file that is no script of GRUB's, with the parameter where it does not get it from GRUB's environment.
fn edited_file(
    host: &Host,
    file: &BootFile,
    value: Option<&str>,
    uses_environment: bool,
) -> Result<String, FileError> {
    let (_, format, text) = file;
    let is_by_environment = match format {
        Format::GrubEnvironment => !(uses_environment && bls::has_kernelopts(text)),
        Format::LoaderEntry | Format::GrubEntry => uses_environment && bls::takes_kernelopts(text),
        _ => false,
    };
    let after = with_elevator(text, *format, value.filter(|_| !is_by_environment));
    let after = after.and_then(|after| match format {
        Format::GrubEntry => check_variables(host, text, &after).map(|()| after),
        _ => Ok(after),
    });
    after.map_err(|line| not_understood(file, value, line))
}

fn not_understood(file: &BootFile, value: Option<&str>, line: NotUnderstood) -> FileError {
    let (path, format, text) = file;
    let way = format.by_hand(value, path, text, &line);
    FileError::CommandLine {
        path: path.clone(),
        line: line.line,
        text: line.text,
        why: line.why,
        way,
    }
}

/// What TuneD's profile gives comes after ours where GRUB's file has `$tuned_params`, which TuneD's script of
/// `/etc/grub.d` takes from this file.
fn check_tuned(host: &Host, of_grub: &[BootFile], value: Option<&str>) -> Result<(), FileError> {
    const NAME: &str = "TUNED_BOOT_CMDLINE";
    let path = Path::new("/etc/tuned/bootcmdline");
    let is_used = of_grub
        .iter()
        .any(|(_, _, text)| text.contains("tuned_params"));
    let Some(text) = is_used.then(|| text_of(host, path).ok()).flatten() else {
        return Ok(());
    };
    let given = match cmdline::variable(&text, NAME) {
        Some(held) => value_of_parameter(&held).map(str::to_owned),
        None => text.contains(PARAMETER).then(String::new),
    };
    if given.is_none() || given.as_deref() == value {
        return Ok(());
    }
    Err(FileError::Elsewhere {
        path: path.into(),
        reason: format!("{NAME} gives {PARAMETER} too, and comes last"),
        way: format!(
            "take {PARAMETER} out of the cmdline of TuneD's profile (`grep -r {PARAMETER} /etc/tuned /usr/lib/tuned`), and \
             activate it anew with tuned-adm profile"
        ),
    })
}

/// True if nothing is to be done in a file that a link leads to.
fn need_not_change(
    host: &Host,
    path: &Path,
    format: Format,
    value: Option<&str>,
    is_on_the_way: bool,
) -> bool {
    match text_of(host, path) {
        Ok(text) => value.is_none() && cmdline::lines_with_elevator(&text, format).is_empty(),
        // What leads nowhere, or round, gives nothing.
        Err(error) => {
            let is_round = files::followed(host, path).is_none();
            (is_on_the_way || value.is_none())
                && (is_round || error.kind() == io::ErrorKind::NotFound)
        }
    }
}

/// The lines in which `elevator=` is given, each with its value.
pub(crate) fn places_of_elevator(host: &Host) -> Vec<(FileLine, String)> {
    let mut found = Vec::new();
    for (file, format) in places(host) {
        let text = text_of(host, &file).unwrap_or_default();
        for (line, value) in cmdline::given(&text, format) {
            let file = file.clone();
            found.push((FileLine { file, line }, value));
        }
    }
    found
}

/// The entries that start a Linux of another machine: every boot loader offers them all the same, and a machine whose
/// id was made anew keeps its old ones.
fn entries_of_others(host: &Host) -> Vec<PathBuf> {
    if sdbootutil_is_in_charge(host) {
        return Vec::new();
    }
    entries_that(host, |starts| starts == Some(Starts::OtherMachine))
}

/// Why the command line cannot be changed where all entries are of another machine; nothing if there are none.
pub(crate) fn of_another_machine(host: &Host) -> Option<FileError> {
    let path = entries_of_others(host).into_iter().next()?;
    Some(FileError::Elsewhere {
        path,
        reason: "its machine-id is not that of /etc/machine-id, and there is no other entry".into(),
        way: "if it starts this machine, give it the id of /etc/machine-id, then try again".into(),
    })
}

/// That the running kernel was given `elevator=` although no file that is known here gives it.
pub(crate) fn given_from_elsewhere(host: &Host) -> Option<String> {
    let value = cmdline::given_at_boot(host)?;
    let has_it = |path: &PathBuf| {
        text_of(host, path).is_ok_and(|text| {
            let mut lines = text
                .lines()
                .filter(|line| !line.trim_start().starts_with('#'));
            lines.any(|line| line.contains(PARAMETER))
        })
    };
    if let Some(path) = changed_by_hand(host).into_iter().find(has_it) {
        return Some(format!(
            "{} has elevator={value}, and is changed by hand alone: take it out there",
            path.display()
        ));
    }
    Some(format!(
        "this kernel was started with elevator={value}, and no file that is known here gives it: if it was taken out \
         since, it is gone after the next boot; else it stands in a file that the boot loader alone reads (grub.cfg: \
         `grubby --update-kernel=ALL --remove-args=elevator`; cmdline.txt, armbianEnv.txt, limine.conf, \
         refind_linux.conf, extlinux.conf, syslinux.cfg, lilo.conf, zipl.conf: by hand)"
    ))
}

/// The files of this machine that carry a command line, or may, and that nobody here changes.
pub(crate) fn changed_by_hand(host: &Host) -> Vec<PathBuf> {
    let known: Vec<PathBuf> = places(host).into_iter().map(|(path, _)| path).collect();
    // That of Alpine is made of another file, and several names may be of one file.
    let is_made = |path: &Path| {
        path == Path::new("/boot/extlinux.conf") && known.contains(&PathBuf::from(EXTLINUX))
    };
    let mut found: Vec<PathBuf> = Vec::new();
    for path in BY_HAND.map(Path::new) {
        let real = files::followed(host, path);
        let is_file = real.as_ref().is_some_and(|real| host.path(real).is_file());
        let is_another = !real
            .as_deref()
            .is_some_and(|real| real != path && found.iter().any(|known| known == real));
        if is_file && is_another && !is_made(path) {
            found.push(path.to_owned());
        }
    }
    found
}

/// The files of this machine that carry the command line, or may, each once: a link to one of them (`menu.lst` to
/// `grub.conf`, GRUB's environment block to that on the EFI partition) is passed over.
fn places(host: &Host) -> Vec<(PathBuf, Format)> {
    let mut places: Vec<(PathBuf, Format)> = FILES
        .iter()
        .map(|&(path, format)| (path.into(), format))
        .collect();
    let drop_ins = if drop_ins_are_read(host) {
        all_of(host, Path::new(GRUB_DROP_INS), DROP_IN)
    } else {
        Vec::new()
    };
    places.extend(drop_ins.into_iter().map(|path| (path, Format::GrubDropIn)));
    if !sdbootutil_is_in_charge(host) {
        let format = if grub_reads_entries(host) {
            Format::GrubEntry
        } else {
            Format::LoaderEntry
        };
        places.extend(entries(host).into_iter().map(|path| (path, format)));
    }
    let environments = environments(host).into_iter();
    places.extend(environments.map(|path| (path, Format::GrubEnvironment)));
    let real: Vec<Option<PathBuf>> = places
        .iter()
        .map(|(path, _)| files::followed(host, path))
        .collect();
    let is_another = |index: usize| {
        let others = places.iter().enumerate();
        let mut others = others.filter(|(other, _)| *other != index);
        others.any(|(_, (path, _))| real[index].as_ref() == Some(path))
    };
    let once = (0..places.len()).filter(|&index| !is_another(index));
    once.map(|index| places[index].clone()).collect()
}

/// True unless what makes GRUB's own file is a script that names no such directory.
fn drop_ins_are_read(host: &Host) -> bool {
    let texts = GRUB_MKCONFIG.iter().map(Path::new);
    let texts = texts.filter_map(|path| text_of(host, path).ok());
    let mut scripts = texts.filter(|text| text.starts_with("#!")).peekable();
    scripts.peek().is_none() || scripts.any(|text| text.contains("default/grub.d"))
}

/// The files of a directory with this extension, in the order of their names. Those of boot loaders stand on file
/// systems that do not tell `A` from `a`; what a shell reads does not.
fn files_in(host: &Host, directory: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let real = files::followed(host, directory).ok_or(io::ErrorKind::InvalidInput)?;
    let is_it = |found: &OsStr| {
        found == extension || (extension != DROP_IN && found.eq_ignore_ascii_case(extension))
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(host.path(&real))? {
        let name = entry?.file_name();
        // Drop-ins are what a shell finds by `*.cfg`.
        let is_hidden = extension == DROP_IN && name.as_encoded_bytes().starts_with(b".");
        let path = directory.join(name);
        if !is_hidden && path.extension().is_some_and(is_it) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The same; a directory that is there and cannot be read stands for what it holds, so that who edits that fails.
fn all_of(host: &Host, directory: &Path, extension: &str) -> Vec<PathBuf> {
    files_in(host, directory, extension).unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Vec::new(),
        _ => vec![directory.into()],
    })
}

/// A directory two levels below each of [`BOOT`], as its names are spelled there.
fn below_boot(host: &Host, names: [&str; 2]) -> Vec<PathBuf> {
    let spelled = |boot: &&str| {
        names.iter().fold(PathBuf::from(boot), |directory, name| {
            let exact = directory.join(name);
            if host.path(&exact).symlink_metadata().is_ok() {
                return exact;
            }
            let entries = std::fs::read_dir(host.path(&directory)).into_iter();
            let mut others = entries.flatten().flatten().map(|entry| entry.file_name());
            let other = others.find(|other| other.eq_ignore_ascii_case(name));
            other.map_or(exact, |other| directory.join(other))
        })
    };
    BOOT.iter().map(spelled).collect()
}

/// The text of a file, links followed within the machine, bytes that are no text replaced.
fn text_of(host: &Host, path: &Path) -> io::Result<String> {
    let real = files::followed(host, path).ok_or(io::ErrorKind::InvalidInput)?;
    lossy::read(host.path(&real))
}

/// The entries of the Boot Loader Specification by which Linux is started on this machine, or may be: what cannot be
/// read is refused where it is to be edited.
fn entries(host: &Host) -> Vec<PathBuf> {
    entries_that(host, |starts| match starts {
        Some(starts) => starts == Starts::Linux,
        None => true,
    })
}

/// The entries that are chosen by what they start; by nothing those that cannot be read.
fn entries_that(host: &Host, is_chosen: impl Fn(Option<Starts>) -> bool) -> Vec<PathBuf> {
    let machine_id = text_of(host, Path::new("/etc/machine-id")).ok();
    // Images that are to be copied have none yet.
    let machine_id = machine_id.as_deref().map(str::trim);
    let machine_id = machine_id.filter(|id| !matches!(*id, "" | "uninitialized"));
    let directories = below_boot(host, ["loader", "entries"]).into_iter();
    let all = directories.flat_map(|entries| all_of(host, &entries, "conf"));
    all.filter(|path| match text_of(host, path) {
        Ok(text) => is_chosen(Some(bls::starts(&text, machine_id))),
        // Without an extension it is the directory of entries itself, see `all_of`.
        Err(_) => (path.extension().is_none() || !host.path(path).is_dir()) && is_chosen(None),
    })
    .collect()
}

/// True if GRUB's environment has the parameters of some entries, and of those that are made for the kernels to come.
fn takes_kernelopts(host: &Host) -> bool {
    let holds =
        |path: &PathBuf, is: fn(&str) -> bool| text_of(host, path).is_ok_and(|text| is(&text));
    environments(host)
        .iter()
        .any(|path| holds(path, bls::has_kernelopts))
        && entries(host)
            .iter()
            .any(|path| holds(path, bls::takes_kernelopts))
}

/// GRUB's environment blocks.
fn environments(host: &Host) -> Vec<PathBuf> {
    of_grub_directories(host, "grubenv")
}

/// What GRUB carries out when it starts.
fn configurations(host: &Host) -> Vec<PathBuf> {
    of_grub_directories(host, "grub.cfg")
}

/// The files of this name where GRUB has its own: on the EFI partition, too.
fn of_grub_directories(host: &Host, name: &str) -> Vec<PathBuf> {
    let below = std::fs::read_dir(host.path(Path::new("/boot/efi/EFI")));
    let of_efi = below.into_iter().flatten().flatten();
    let of_efi = of_efi.map(|vendor| Path::new("/boot/efi/EFI").join(vendor.file_name()));
    let directories = ["/boot/grub2", "/boot/grub"].map(PathBuf::from);
    directories
        .into_iter()
        .chain(of_efi)
        .map(|directory| directory.join(name))
        .filter(|path| files::followed(host, path).is_some_and(|real| host.path(&real).exists()))
        .collect()
}

/// True of a variable that GRUB has when it reads the entries, as far as its files say.
fn grub_sets(host: &Host, variable: &str) -> bool {
    let has = |paths: Vec<PathBuf>, is: &dyn Fn(&str) -> bool| {
        let mut texts = paths.iter().filter_map(|path| text_of(host, path).ok());
        texts.any(|text| text.lines().any(is))
    };
    let assigned = |line: &str| {
        line.strip_prefix(variable)
            .is_some_and(|rest| rest.starts_with('='))
    };
    has(environments(host), &assigned)
        || has(configurations(host), &|line| {
            let words = line.trim_start().strip_prefix("set ");
            words.is_some_and(|words| assigned(words.trim_start()))
        })
}

/// That an entry which GRUB reads has parameters in the end: of a variable that is not set it makes none, and gives
/// the entry those of `default_kernelopts` then, which one with `elevator=` beside it loses.
fn check_variables(host: &Host, before: &str, after: &str) -> Result<(), NotUnderstood> {
    let Some((number, line)) = bls::line_for_grub(before).filter(|_| before != after) else {
        return Ok(());
    };
    let is_empty = |word: &str| {
        let name = word
            .strip_prefix('$')
            .map(|name| name.trim_matches(['{', '}']));
        word.starts_with(PARAMETER) || name.is_some_and(|name| !grub_sets(host, name))
    };
    let mut words = line.split_whitespace().skip(1).peekable();
    let has_variable = line.contains('$');
    if has_variable && words.peek().is_some() && words.all(is_empty) {
        return Err(NotUnderstood::of(before, number, NotUnderstood::UNDEFINED));
    }
    Ok(())
}

/// What is left of a change in a file that others change, too, without it; nothing if that is not known. Such a file is
/// GRUB's environment.
pub(crate) fn taken_back_in(change: &FileChange, now: &str) -> Option<String> {
    let is_environment = change.path.ends_with("grubenv");
    let (before, after) = (change.before.as_deref()?, change.after.as_deref()?);
    is_environment
        .then(|| bls::environment_with_old(before, after, now))
        .flatten()
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
    let text = |path: &str| text_of(host, Path::new(path)).unwrap_or_default();
    let is_set =
        |text: &str| cmdline::variable(text, "GRUB_ENABLE_BLSCFG").map(|value| value == "true");
    let has_command = || {
        let texts = configurations(host).into_iter();
        let mut texts = texts.filter_map(|path| text_of(host, &path).ok());
        texts.any(|text| text.lines().any(|line| line.trim() == "blscfg"))
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
    if is_there(KERNELSTUB) {
        let reason = "kernelstub makes the boot loader's entries of it, anew for each kernel";
        let way = match value {
            Some(value) => format!("kernelstub -a elevator={value}"),
            None => format!("kernelstub -d elevator={old}"),
        };
        return error(Path::new(KERNELSTUB), reason, way);
    }
    let directories = below_boot(host, ["EFI", "Linux"]).into_iter();
    let images = directories.flat_map(|images| files_in(host, &images, "efi").unwrap_or_default());
    let of_entries = entries_that(host, |starts| starts == Some(Starts::Unified));
    if let Some(image) = images.chain(of_entries).next() {
        let there = command_lines_of_images(host);
        let there: Vec<String> = there
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let way = format!(
            "{}, and have the program that made the image make it anew (kernel-install, mkinitcpio, dracut)",
            match &there[..] {
                [] => put_or_take(KERNEL_INSTALL),
                [file] => put_or_take(file),
                files => put_or_take(&format!("the one of {} that it reads", files.join(", "))),
            }
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
    let extlinux = text_of(host, Path::new(EXTLINUX)).unwrap_or_default();
    if !extlinux.is_empty() && cmdline::variable(&extlinux, "overwrite").as_deref() != Some("1") {
        let reason = "overwrite is not 1, so update-extlinux leaves /boot/extlinux.conf alone";
        let way = put_or_take("/boot/extlinux.conf");
        return error(Path::new(EXTLINUX), reason, way);
    }
    None
}

/// The files of this machine from which a unified kernel image gets its command line, or may: which of them counts is
/// decided by the program that makes it, and how that is called.
fn command_lines_of_images(host: &Host) -> Vec<PathBuf> {
    let has = |path: &Path, keys: &[&str]| {
        let text = text_of(host, path).unwrap_or_default();
        let is_set = |line: &str| {
            let (key, _) = line.split_once('=').unwrap_or_default();
            keys.contains(&key.trim().trim_end_matches('+'))
        };
        text.lines().any(is_set)
    };
    let mut found = Vec::new();
    for path in ["/etc/kernel/uki.conf", "/etc/systemd/ukify.conf"].map(PathBuf::from) {
        if has(&path, &["Cmdline"]) {
            found.push(path);
        }
    }
    for path in [KERNEL_INSTALL, KERNEL_INSTALL_VENDOR].map(PathBuf::from) {
        if host.path(&path).exists() && found.is_empty() {
            found.push(PathBuf::from(KERNEL_INSTALL)); // one below /usr is stood for by that in /etc
        }
    }
    found.extend(all_of(host, Path::new("/etc/cmdline.d"), "conf"));
    let of_dracut = all_of(host, Path::new("/etc/dracut.conf.d"), "conf");
    for path in std::iter::once(PathBuf::from("/etc/dracut.conf")).chain(of_dracut) {
        if has(&path, &["kernel_cmdline"]) {
            found.push(path);
        }
    }
    found
}

/// What the user should know of these changes: what is run after them, and what nobody does.
pub(crate) fn notes(host: &Host, files: &[FileChange]) -> Vec<String> {
    let mut notes = Vec::new();
    let programs = entries_that(host, |starts| starts == Some(Starts::Program));
    for path in programs.iter().filter(|_| !files.is_empty()) {
        notes.push(format!(
            "{}: starts an EFI program with options, and is left alone: if that is Linux, change its line `options` by hand",
            path.display()
        ));
    }
    for path in entries_of_others(host) {
        let text = text_of(host, &path).unwrap_or_default();
        let has_it = !cmdline::given(&text, Format::LoaderEntry).is_empty();
        if has_it || !files.is_empty() {
            notes.push(format!(
                "{}: is of another machine by its machine-id, and is left alone: if it starts this one, change its line \
                 `options` by hand",
                path.display()
            ));
        }
    }
    for path in changed_by_hand(host).iter().filter(|_| !files.is_empty()) {
        notes.push(format!(
            "{} carries a command line, too, if its boot loader is the one that is used, and is left alone: change it by hand",
            path.display()
        ));
    }
    notes.extend(files.iter().filter_map(too_long));
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
            None if file.path == Path::new(KERNEL_INSTALL) && entries(host).is_empty() => {
                let is_proxmox = host.path(Path::new(PROXMOX_BOOT)).exists();
                let (program, of) = if is_proxmox {
                    ("proxmox-boot-tool refresh", "all kernels")
                } else {
                    ("kernel-install", "the present one")
                };
                format!("{path} is for kernels installed from now on: run {program} for {of}")
            }
            None => continue,
        };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// That the kernel may cut off the parameter, which stands at the end.
fn too_long(file: &FileChange) -> Option<String> {
    /// `COMMAND_LINE_SIZE` of x86, arm64 and powerpc; s390 has 4096, others less.
    const MOST: usize = 2048;
    let text = file.after.as_deref()?;
    let with_it = text.lines().filter(|line| line.contains(PARAMETER));
    let longest = with_it.map(str::len).max().filter(|&most| most >= MOST)?;
    Some(format!(
        "{}: the line with {PARAMETER} has {longest} bytes; Linux takes {MOST} of a command line on most machines, and \
         cuts off the end",
        file.path.display()
    ))
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
        path if path.to_ascii_lowercase().contains("/loader/entries/") => {
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
        let value = |text: &Option<String>| {
            elevator_in(text.as_deref().unwrap_or_default(), Format::GrubDefault)
        };
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
        let value = |text: &str| elevator_in(text, Format::GrubDefault);
        assert_eq!(value(text).as_deref(), Some("noop"));
        assert_eq!(value("  # elevator=cfq\n"), None);
        assert_eq!(value("GRUB_CMDLINE_LINUX=ro # elevator=cfq\n"), None);
    }

    use std::os::unix::fs::symlink;

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
                "GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX console=ttyS0\"\n",
                Some(""),
            ),
            ("GRUB_CMDLINE_LINUX=\"a ${GRUB_CMDLINE_LINUX}\"\n", Some("")),
            (
                "GRUB_CMDLINE_LINUX_XEN_REPLACE=\"$GRUB_CMDLINE_LINUX x\"\n",
                Some(""),
            ),
            (
                "GRUB_CMDLINE_LINUX_XEN_REPLACE=\"x elevator=cfq\"\n",
                Some("GRUB_CMDLINE_LINUX_XEN_REPLACE=\"x elevator=noop\"\n"),
            ),
            ("unset GRUB_CMDLINE_LINUX\n", None),
            ("read GRUB_CMDLINE_LINUX\n", None),
            ("if true; then\n  GRUB_TIMEOUT=0\nfi\n", Some("")),
            ("while true; do\n  GRUB_TIMEOUT=0\ndone\n", None),
            ("GRUB_CMDLINE_LINUX='$GRUB_CMDLINE_LINUX x'\n", None),
            ("GRUB_CMDLINE_LINUX=\"x\" # \"$GRUB_CMDLINE_LINUX\"\n", None),
            ("GRUB_CMDLINE_LINUX=\"-- s $GRUB_CMDLINE_LINUX\"\n", None),
            (
                "GRUB_CMDLINE_LINUX=$(echo \"$GRUB_CMDLINE_LINUX\" | sed s/e/f/)\n",
                None,
            ),
            ("GRUB_CMDLINE_XEN=\"elevator=cfq\"\n", None),
            ("GRUB_CMDLINE_LINUX+=\" nosmt\"\n", Some("")),
            ("GRUB_CMDLINE_LINUX=\"console=ttyS0\"\n", None),
            (
                "[ -e /x ] && GRUB_CMDLINE_LINUX_DEFAULT=elevator=cfq\n",
                Some("[ -e /x ] && GRUB_CMDLINE_LINUX_DEFAULT=\"\"\n"),
            ),
            (
                "[[ -e /x ]] && GRUB_CMDLINE_LINUX_DEFAULT=elevator=cfq\n",
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
    fn drop_ins_are_those_of_a_grub_that_reads_them() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "etc/default/grub", "GRUB_CMDLINE_LINUX=ro\n");
        let drop_in = "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX elevator=noop\"\n";
        write(dir.path(), "etc/default/grub.d/x.cfg", drop_in);
        let with = files(&host, Some("noop")).unwrap();
        assert_eq!(with, [], "for all that is known it is read");
        let reads = "#!/bin/sh\nfor x in ${sysconfdir}/default/grub.d/*.cfg ; do . \"$x\"; done\n";
        write(dir.path(), "usr/sbin/grub-mkconfig", reads);
        assert_eq!(files(&host, Some("noop")).unwrap(), with);
        std::fs::remove_file(dir.path().join("usr/sbin/grub-mkconfig")).unwrap();
        let alone =
            "#!/bin/sh\ngrub_mkconfig_dir=\"${sysconfdir}\"/grub.d\n. ${sysconfdir}/default/grub\n";
        write(dir.path(), "usr/sbin/grub2-mkconfig", alone);
        let changes = files(&host, Some("noop")).unwrap();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].path, Path::new(GRUB_DEFAULT));
    }

    #[test]
    fn a_file_whose_name_is_no_text_is_read_and_named() {
        use std::os::unix::ffi::OsStrExt;
        for (directory, extension, text) in [
            (
                "etc/default/grub.d",
                "cfg",
                "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX elevator=cfq\"\n",
            ),
            (
                "boot/loader/entries",
                "conf",
                "linux /l\noptions elevator=cfq\n",
            ),
        ] {
            let (dir, host) = machine(&[]);
            write(dir.path(), "etc/default/grub", "GRUB_CMDLINE_LINUX=ro\n");
            let directory = dir.path().join(directory);
            std::fs::create_dir_all(&directory).unwrap();
            let name = [b"\xff.", extension.as_bytes()].concat();
            let file = directory.join(OsStr::from_bytes(&name));
            std::fs::write(&file, text).unwrap();
            for value in [Some("noop"), None] {
                let error = files(&host, value).unwrap_err();
                assert!(matches!(error, FileError::NotTextName { .. }), "{error}");
            }
            let (place, _) = places_of_elevator(&host).remove(0);
            assert!(serde_json::to_string(&place).is_ok());
            std::fs::write(&file, text.replace("elevator=cfq", "")).unwrap();
            assert_eq!(files(&host, None).unwrap(), [], "nothing to take out");
        }
    }

    #[test]
    fn entries_of_another_machine_id_are_told_of() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "etc/machine-id", "aaa\n");
        let entry = |id: &str| format!("machine-id {id}\nlinux /l\noptions ro\n");
        write(dir.path(), "boot/loader/entries/1.conf", &entry("bbb"));
        assert_eq!(files(&host, Some("noop")).unwrap(), []);
        let error = of_another_machine(&host).unwrap().to_string();
        assert!(
            error.starts_with("/boot/loader/entries/1.conf: its machine-id"),
            "{error}"
        );
        assert!(notes(&host, &[]).is_empty());
        write(dir.path(), "boot/loader/entries/2.conf", &entry("aaa"));
        let changes = files(&host, Some("noop")).unwrap();
        assert_eq!(changes.len(), 1);
        let told = notes(&host, &changes);
        assert!(
            told.len() == 1
                && told[0].starts_with("/boot/loader/entries/1.conf: is of another machine"),
            "{told:?}"
        );
        let given = entry("bbb").replace("ro", "elevator=cfq");
        write(dir.path(), "boot/loader/entries/1.conf", &given);
        assert_eq!(notes(&host, &[]).len(), 1, "it is left there");
    }

    #[test]
    fn where_grub_has_drop_ins_alone_that_is_said() {
        let (dir, host) = machine(&[]);
        write(
            dir.path(),
            "etc/default/grub.d/1.cfg",
            "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX ro\"\n",
        );
        let error = files(&host, Some("noop")).unwrap_err().to_string();
        assert!(error.contains("there is no /etc/default/grub"), "{error}");
        write(dir.path(), "etc/default/grub", "");
        assert_eq!(files(&host, Some("noop")).unwrap().len(), 1, "the way out");
    }

    #[test]
    fn a_command_line_that_the_kernel_would_cut_off_is_told_of() {
        let (dir, host) = machine(&[]);
        for (length, count) in [(1000, 0), (2040, 1)] {
            let line = format!("ro {}\n", "a".repeat(length));
            write(
                dir.path(),
                "boot/loader/entries/1.conf",
                &format!("linux /l\noptions {line}"),
            );
            let notes = notes(&host, &files(&host, Some("noop")).unwrap());
            assert_eq!(notes.len(), count, "{notes:?}");
        }
    }

    #[test]
    fn a_hidden_drop_in_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        write(dir.path(), "etc/default/grub", "GRUB_CMDLINE_LINUX=ro\n");
        let hidden = "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX elevator=noop\"\n";
        write(dir.path(), "etc/default/grub.d/.z.cfg", hidden);
        let changes = files(&host, Some("noop")).unwrap();
        assert_eq!(changes[0].path, Path::new(GRUB_DEFAULT));
        assert_eq!(changes.len(), 1);
    }

    #[test]
    fn what_tuned_gives_after_ours_is_refused_by_name() {
        const LINE: &str =
            "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT \\$tuned_params\"\n";
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        let boots = |grub: &str, tuned: &str, value: Option<&str>| {
            write(dir.path(), "etc/default/grub", grub);
            write(dir.path(), "etc/tuned/bootcmdline", tuned);
            files(&host, value)
        };
        let grub = format!("GRUB_CMDLINE_LINUX=\"ro\"\n{LINE}");
        for (tuned, value, is_refused) in [
            (
                "TUNED_BOOT_CMDLINE='elevator=cfq isolcpus=1'\n",
                Some("noop"),
                true,
            ),
            ("TUNED_BOOT_CMDLINE='elevator=noop'\n", Some("noop"), false),
            ("TUNED_BOOT_CMDLINE='isolcpus=1'\n", Some("noop"), false),
            ("TUNED_BOOT_CMDLINE=\n", Some("noop"), false),
            (
                "TUNED_BOOT_CMDLINE=\"$(echo elevator=cfq)\"\n",
                Some("noop"),
                true,
            ),
            ("TUNED_BOOT_CMDLINE='elevator=cfq'\n", None, true),
            ("TUNED_BOOT_CMDLINE='isolcpus=1'\n", None, false),
        ] {
            let is_so = match boots(&grub, tuned, value) {
                Err(FileError::Elsewhere { path, .. }) => {
                    path == Path::new("/etc/tuned/bootcmdline")
                }
                Err(error) => panic!("{error}"),
                Ok(_) => false,
            };
            assert_eq!(is_so, is_refused, "{tuned}");
        }
        let unused = "GRUB_CMDLINE_LINUX=\"ro\"\n";
        assert!(boots(unused, "TUNED_BOOT_CMDLINE='elevator=cfq'\n", Some("noop")).is_ok());
    }

    #[test]
    fn a_link_from_menu_lst_to_grub_conf_is_edited_once() {
        let (dir, host) = machine(&[]);
        write(
            dir.path(),
            "boot/grub/grub.conf",
            "title x\n\tkernel /vmlinuz ro root=/dev/sda1\n",
        );
        let menu = dir.path().join("boot/grub/menu.lst");
        for target in ["grub.conf", "/boot/grub/./grub.conf"] {
            symlink(target, &menu).unwrap();
            let changes = files(&host, Some("noop")).unwrap();
            assert_eq!(changes.len(), 1);
            assert_eq!(changes[0].path, Path::new("/boot/grub/grub.conf"));
            std::fs::remove_file(&menu).unwrap();
        }
    }

    #[test]
    fn names_on_a_partition_of_efi_count_in_any_case() {
        let (dir, host) = machine(&[]);
        write(
            dir.path(),
            "boot/LOADER/Entries/1.CONF",
            "linux /l\noptions ro\n",
        );
        write(
            dir.path(),
            "boot/LOADER/Entries/2.conf",
            "efi /shell.efi\noptions -x\n",
        );
        let changes = files(&host, Some("noop")).unwrap();
        let paths: Vec<_> = changes.iter().map(|change| change.path.as_path()).collect();
        assert_eq!(paths, [Path::new("/boot/LOADER/Entries/1.CONF")]);
        let notes = notes(&host, &changes);
        assert!(
            notes.len() == 1 && notes[0].starts_with("/boot/LOADER/Entries/2.conf: "),
            "{notes:?}"
        );
        write(dir.path(), "boot/LOADER/Entries/3.conf", "uki /x.efi\n");
        let error = files(&host, Some("noop")).unwrap_err().to_string();
        assert!(
            error.starts_with("/boot/LOADER/Entries/3.conf: a unified"),
            "{error}"
        );
        std::fs::remove_file(dir.path().join("boot/LOADER/Entries/3.conf")).unwrap();
        write(dir.path(), "efi/EFI/LINUX/A.EFI", "");
        let error = files(&host, Some("noop")).unwrap_err().to_string();
        assert!(
            error.starts_with("/efi/EFI/LINUX/A.EFI: a unified"),
            "{error}"
        );
    }

    #[test]
    fn what_grub_gives_an_entry_is_not_lost_where_grub_reads_it() {
        const ENTRY: &str = "boot/loader/entries/1.conf";
        let (dir, host) = machine(&[]);
        let change = |text: &str, value| {
            write(dir.path(), ENTRY, text);
            let files = files(&host, value).map_err(|error| error.to_string())?;
            let of_entry = files.into_iter().find(|file| file.path.ends_with("1.conf"));
            Ok::<_, String>(of_entry.and_then(|file| file.after))
        };
        let without = "linux /l\ninitrd /i\n";
        let alone = "linux /l\noptions elevator=noop\ninitrd /i\n";
        let two = "linux /l\noptions root=/dev/sda1\noptions quiet elevator=cfq\n";
        let of_two = two
            .replace(" elevator=cfq", "")
            .replace("a1", "a1 elevator=noop");
        let lines = || {
            let places = places_of_elevator(&host).into_iter();
            let lines = places.map(|(place, value)| (place.line, value));
            lines.collect::<Vec<_>>()
        };

        let put = change(without, Some("noop")).unwrap();
        assert_eq!(put.unwrap(), format!("{without}options elevator=noop\n"));
        assert_eq!(change(alone, None).unwrap().as_deref(), Some(without));
        assert_eq!(change(two, Some("noop")).unwrap(), Some(of_two.clone()));
        assert_eq!(lines(), [(3, "cfq".to_owned())]);

        write(
            dir.path(),
            "boot/grub2/grub.cfg",
            "set default_kernelopts=\"root=UUID=1 ro\"\nblscfg\n",
        );
        let error = change(without, Some("noop")).unwrap_err();
        assert!(
            error
                .starts_with("/boot/loader/entries/1.conf, line 1: \"linux /l\" has no parameters"),
            "{error}"
        );
        assert_eq!(change(without, None).unwrap(), None);
        let error = change(alone, None).unwrap_err();
        assert!(
            error.starts_with(
                "/boot/loader/entries/1.conf, line 2: \"options elevator=noop\" is all"
            ),
            "{error}"
        );
        assert_eq!(change(two, Some("noop")).unwrap().as_ref(), Some(&of_two));
        assert_eq!(lines(), [], "GRUB does not read the second line");
        write(dir.path(), ENTRY, &of_two);
        assert_eq!(lines(), [(2, "noop".to_owned())]);
    }

    #[test]
    fn a_machine_without_an_id_has_every_entry() {
        for id in ["", "uninitialized\n"] {
            let (dir, host) = machine(&[]);
            write(dir.path(), "etc/machine-id", id);
            let entry = "machine-id abc\nlinux /l\noptions ro elevator=cfq\n";
            write(dir.path(), "boot/loader/entries/1.conf", entry);
            assert_eq!(files(&host, None).unwrap().len(), 1, "{id:?}");
        }
    }

    #[test]
    fn grub_reads_entries_where_a_file_of_its_on_the_efi_partition_says_so() {
        let entry = "linux /l\n";
        for (file, is_read) in [
            ("boot/grub2/grub.cfg", true),
            ("boot/grub/grub.cfg", true),
            ("boot/efi/EFI/fedora/grub.cfg", true),
            ("boot/efi/EFI/grub.cfg", false),
        ] {
            let (dir, host) = machine(&[]);
            write(dir.path(), "boot/loader/entries/1.conf", entry);
            write(dir.path(), file, "insmod blscfg\nblscfg\n");
            assert_eq!(grub_reads_entries(&host), is_read, "{file}");
            let error = files(&host, Some("noop")).map_err(|error| error.to_string());
            assert_eq!(error.is_err(), is_read, "{error:?}");
        }
    }

    /// GRUB makes nothing of a variable that is not set: the entry has the parameters of `default_kernelopts` as long as
    /// it has no other.
    #[test]
    fn an_entry_whose_variables_are_not_set_is_refused_by_name() {
        let environment =
            |text: &str| format!("# GRUB Environment Block\n{text}{}", "#".repeat(400));
        let elsewhere = "set default_kernelopts=\"root=UUID=1 ro\"\nblscfg\n";
        let fallback =
            "if [ -z \"${kernelopts}\" ]; then\n  set kernelopts=\"root=UUID=1\"\nfi\nblscfg\n";
        for (options, block, configuration, value, is_refused) in [
            ("$kernelopts", "x=1\n", elsewhere, Some("noop"), true),
            (
                "${kernelopts} $tuned_params",
                "x=1\n",
                elsewhere,
                Some("noop"),
                true,
            ),
            ("$kernelopts elevator=cfq", "x=1\n", elsewhere, None, true),
            ("$kernelopts", "x=1\n", elsewhere, None, false),
            ("$kernelopts", "x=1\n", fallback, Some("noop"), false),
            (
                "$kernelopts",
                "kernelopts=root=1\n",
                elsewhere,
                Some("noop"),
                false,
            ),
            (
                "root=1 $tuned_params",
                "x=1\n",
                elsewhere,
                Some("noop"),
                false,
            ),
        ] {
            let (dir, host) = machine(&[]);
            let entry = format!("linux /l\noptions {options}\n");
            write(dir.path(), "boot/loader/entries/1.conf", &entry);
            write(dir.path(), "boot/grub2/grub.cfg", configuration);
            write(dir.path(), "boot/grub2/grubenv", &environment(block));
            let found = files(&host, value).map_err(|error| error.to_string());
            assert_eq!(found.is_err(), is_refused, "{options} {block}: {found:?}");
            if let Err(error) = found {
                let said = format!("1.conf, line 2: \"options {options}\" has no parameters but");
                assert!(error.contains(&said), "{error}");
            }
        }
    }

    #[test]
    fn what_kernelstub_makes_is_refused_with_its_command() {
        let (dir, host) = machine(&[]);
        let entry = "linux /EFI/Pop_OS/vmlinuz.efi\noptions root=UUID=1 ro elevator=cfq\n";
        write(
            dir.path(),
            "boot/efi/loader/entries/Pop_OS-current.conf",
            entry,
        );
        write(dir.path(), "etc/kernelstub/configuration", "{}\n");
        for (value, command) in [
            (Some("noop"), "kernelstub -a elevator=noop"),
            (None, "kernelstub -d elevator=VALUE"),
        ] {
            let error = files(&host, value).unwrap_err();
            assert!(error.to_string().contains("/etc/kernelstub/configuration"));
            assert_eq!(
                iosched_machine::failure::Failure::hint(&error).as_deref(),
                Some(command)
            );
        }
        assert_eq!(places_of_elevator(&host).len(), 1);
    }

    #[test]
    fn files_that_are_changed_by_hand_are_named() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "proc/cmdline", "ro elevator=cfq\n");
        assert!(changed_by_hand(&host).is_empty());
        let by = |text: &str| {
            write(dir.path(), "boot/limine.conf", text);
            given_from_elsewhere(&host).unwrap()
        };
        assert!(by("# elevator=cfq\n").contains("limine.conf, refind_linux.conf"));
        let own = by("/Linux\n  cmdline: ro elevator=cfq\n");
        assert!(
            own.starts_with("/boot/limine.conf has elevator=cfq"),
            "{own}"
        );
        // Raspberry Pi OS has a link to where the file was.
        write(dir.path(), "boot/firmware/cmdline.txt", "ro\n");
        symlink("firmware/cmdline.txt", dir.path().join("boot/cmdline.txt")).unwrap();
        let found = changed_by_hand(&host);
        assert_eq!(
            found,
            ["/boot/firmware/cmdline.txt", "/boot/limine.conf"].map(PathBuf::from)
        );
        write(dir.path(), "etc/default/grub", GRUB);
        let changes = files(&host, Some("noop")).unwrap();
        let notes = notes(&host, &changes).join("\n");
        assert!(
            notes.contains("/boot/limine.conf carries a command line, too"),
            "{notes}"
        );
    }

    #[test]
    fn a_parameter_that_no_file_gives_is_told_of() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "proc/cmdline", "ro -- elevator=init\n");
        assert_eq!(given_from_elsewhere(&host), None);
        for line in ["ro elevator=noop", "ro x=\"a b\" \"elevator=noop\""] {
            write(dir.path(), "proc/cmdline", line);
            let note = given_from_elsewhere(&host).unwrap();
            assert!(note.contains("elevator=noop,"), "{note}");
        }
        std::fs::write(
            dir.path().join("proc/cmdline"),
            b"x=caf\xe9 elevator=noop elevator=cfq\n",
        )
        .unwrap();
        assert_eq!(cmdline::given_at_boot(&host).as_deref(), Some("cfq"));
    }

    #[test]
    fn a_link_to_a_file_elsewhere_is_refused_by_name() {
        for (path, text) in [
            ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"elevator=cfq\"\n"),
            (
                "etc/default/grub.d/60-x.cfg",
                "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX elevator=cfq\"\n",
            ),
            ("etc/kernel/cmdline", "ro elevator=cfq\n"),
            (
                "etc/update-extlinux.conf",
                "overwrite=1\ndefault_kernel_opts=elevator=cfq\n",
            ),
            (
                "boot/grub/menu.lst",
                "kernel /vmlinuz root=/dev/sda1 elevator=cfq\n",
            ),
            (
                "boot/grub2/grubenv",
                "# GRUB Environment Block\nkernelopts=elevator=cfq\n",
            ),
            (
                "boot/loader/entries/1.conf",
                "linux /l\noptions elevator=cfq\n",
            ),
        ] {
            for target in ["/srv/boot/file", "file"] {
                let (dir, host) = machine(&[]);
                let link = dir.path().join(path);
                write(dir.path(), path, "");
                std::fs::remove_file(&link).unwrap();
                let real = Path::new("/").join(path).with_file_name(target);
                let put = |text: &str| {
                    let below = real.strip_prefix("/").unwrap().to_str().unwrap();
                    write(dir.path(), below, text);
                };
                put(text);
                symlink(target, &link).unwrap();
                for value in [Some("noop"), None] {
                    let error = files(&host, value).unwrap_err();
                    let FileError::Link { path: at, .. } = &error else {
                        panic!("{path}: {error}");
                    };
                    assert_eq!(at, &Path::new("/").join(path));
                    let said = iosched_machine::failure::Failure::hint(&error).unwrap();
                    assert!(said.contains(real.to_str().unwrap()), "{said}");
                }
                put(&text.replace("elevator=cfq", "quiet"));
                let changes = files(&host, None);
                assert_eq!(changes.unwrap(), [], "{path} has nothing to take out");
            }
        }
        // One that leads nowhere, or round, is no entry that is passed over either.
        for target in ["nowhere", "1.conf"] {
            let (dir, host) = machine(&[]);
            write(dir.path(), "boot/loader/entries/2.conf", "linux /l\n");
            symlink(target, dir.path().join("boot/loader/entries/1.conf")).unwrap();
            let error = files(&host, Some("noop")).unwrap_err();
            assert!(matches!(error, FileError::Link { .. }), "{error}");
            assert_eq!(
                files(&host, None).unwrap(),
                [],
                "it has nothing to take out"
            );
        }
        let (dir, host) = machine(&[]);
        std::fs::create_dir_all(dir.path().join("boot/loader")).unwrap();
        symlink("entries", dir.path().join("boot/loader/entries")).unwrap();
        let error = files(&host, Some("noop")).unwrap_err();
        assert!(
            matches!(&error, FileError::Link { path, .. } if path == Path::new("/boot/loader/entries")),
            "{error}"
        );
    }

    #[test]
    fn an_entry_that_is_no_text_is_refused_and_a_directory_is_none() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "boot/loader/entries/1.conf", "");
        let bytes = b"title caf\xe9\nlinux /l\noptions ro\n";
        let entry = dir.path().join("boot/loader/entries/1.conf");
        std::fs::write(&entry, bytes).unwrap();
        for value in [Some("noop"), None] {
            let error = files(&host, value).unwrap_err();
            assert!(
                error.to_string().contains("/boot/loader/entries/1.conf"),
                "{error}"
            );
            assert!(matches!(error, FileError::NotText { .. }), "{error}");
        }
        std::fs::write(&entry, "title caf\u{e9}\nefi /x\n").unwrap();
        std::fs::create_dir(dir.path().join("boot/loader/entries/2.conf")).unwrap();
        assert!(files(&host, Some("noop")).unwrap().is_empty());
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            dir.path().join("boot/loader/entries/3.conf"),
            rustix::fs::Mode::from_raw_mode(0o600),
        )
        .unwrap();
        let error = files(&host, Some("noop")).unwrap_err();
        assert!(matches!(error, FileError::NotRegular { .. }), "{error}");
    }

    #[test]
    fn a_comment_after_overwrite_is_no_part_of_it() {
        let (dir, host) = machine(&[]);
        let text = "overwrite=1 # kept by update-extlinux\ndefault_kernel_opts=\"quiet\"\n";
        write(dir.path(), "etc/update-extlinux.conf", text);
        let changes = files(&host, Some("noop")).unwrap();
        let after = text.replace("quiet", "quiet elevator=noop");
        assert_eq!(changes[0].after.as_deref(), Some(after.as_str()));
        write(
            dir.path(),
            "etc/update-extlinux.conf",
            &text.replace("=1 #", "=0 # 1"),
        );
        assert!(files(&host, Some("noop")).is_err());
    }

    #[test]
    fn what_is_to_be_done_by_hand_is_said_in_the_words_of_the_boot_loader() {
        for (path, text, value, way) in [
            (
                "etc/update-extlinux.conf",
                "overwrite=1\n. /etc/more\n",
                Some("noop"),
                "put elevator=noop into default_kernel_opts by hand, and run update-extlinux",
            ),
            (
                "etc/default/grub",
                ". /etc/more\n",
                Some("noop"),
                "put elevator=noop into GRUB_CMDLINE_LINUX by hand",
            ),
            (
                "etc/default/grub",
                "MORE=\"elevator=cfq\"\n",
                None,
                "take elevator= out of MORE by hand",
            ),
            (
                "etc/default/grub",
                "GRUB_CMDLINE_XEN_DEFAULT=\"elevator=cfq\"\n",
                Some("noop"),
                "take elevator= out of GRUB_CMDLINE_XEN_DEFAULT by hand",
            ),
            (
                "etc/default/grub",
                "A=1\r\n",
                Some("noop"),
                "take the carriage returns out, then try again: sed -i 's/\\r$//' /etc/default/grub",
            ),
            (
                "etc/default/grub.d/1.cfg",
                "GRUB_CMDLINE_LINUX=x\n",
                Some("noop"),
                "have /etc/default/grub.d/1.cfg keep $GRUB_CMDLINE_LINUX, in plain assignments and with no elevator=, \
                 then try again; or write GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX elevator=noop\" into \
                 /etc/default/grub.d/zz-local.cfg",
            ),
        ] {
            let (dir, host) = machine(&[]);
            write(dir.path(), "etc/default/grub", "");
            write(dir.path(), path, text);
            let error = files(&host, value).unwrap_err();
            let hint = iosched_machine::failure::Failure::hint(&error).unwrap();
            assert!(hint.starts_with(way), "{hint}");
        }
    }
}
