//! The initramfs of a root disk whose scheduler is a module.
//!
//! Without the module in it, the root disk runs with the kernel's default until the root file system is
//! mounted, and the module is then read from the very disk that is being switched. Asked for, it is put
//! into the initramfs and loaded there: a file of our own for the program that makes initramfs images
//! here, which is then run for every kernel. The file stays true to the policy from then on, and goes
//! with the last rule that needs it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use iosched_machine::host::Host;
use iosched_machine::regular_file;

use crate::system_config::files::{self, FileChange, FileError};
use crate::system_config::variables::{self, Statement, Variables};
use crate::system_config::{boot, pattern, rules};

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

    /// True where mkinitcpio is there and reads no file of ours.
    pub(crate) fn is_old_mkinitcpio(host: &Host) -> bool {
        Maker::Mkinitcpio.program(host).is_some() && Maker::of(host).is_none()
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
    if puts {
        check_counts(host, here, modules)?;
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

/// Finds what would keep a file of ours from being read where the images are made, or make it of no effect.
fn check_counts(host: &Host, maker: Option<Maker>, modules: &[String]) -> Result<(), FileError> {
    let elsewhere = |path: &str, reason: &str, way: String| {
        Err(FileError::Elsewhere {
            path: path.into(),
            reason: reason.into(),
            way,
        })
    };
    if host.run("ostree-booted").exists() {
        let reason = "the initramfs is part of an image of ostree";
        let way = format!(
            "leave out --initramfs, or rpm-ostree initramfs --enable --arg=--force-drivers --arg=\"{}\"",
            modules.join(" ")
        );
        return elsewhere("/run/ostree-booted", reason, way);
    }
    if host.path(Path::new(NIXOS)).exists() {
        let way = format!(
            "leave out --initramfs, or put \"{}\" into boot.initrd.kernelModules",
            modules.join("\" \"")
        );
        return elsewhere(NIXOS, "NixOS makes the initramfs", way);
    }
    match maker {
        Some(Maker::Mkinitcpio) => {
            check_mkinitcpio_drop_ins(host, modules)?;
            check_presets(host, modules)
        }
        Some(Maker::Dracut) => check_dracut(host, modules),
        Some(Maker::InitramfsTools) => check_updates(host, modules),
        None => Ok(()),
    }
}

pub(crate) const NIXOS: &str = "/etc/NIXOS";

/// What is said of a statement that is not followed.
const SHELL: &str = "is not understood, and may undo what ours sets";

/// A statement of a configuration file, as an error.
fn statement(path: &Path, text: &str, at: usize, why: &'static str, way: String) -> FileError {
    let line = variables::line_at(text, at);
    let words = text.lines().nth(line - 1).unwrap_or_default().trim();
    FileError::CommandLine {
        path: path.into(),
        line,
        text: words.into(),
        why: why.into(),
        way,
    }
}

/// The files of a directory with this extension, by name; a link that leads nowhere is none.
pub(super) fn files_in(
    host: &Host,
    directory: &str,
    extension: &str,
) -> BTreeMap<OsString, PathBuf> {
    let entries = fs::read_dir(host.path(Path::new(directory))).into_iter();
    let names = entries.flatten().flatten().map(|entry| entry.file_name());
    let all = names.map(|name| {
        let path = Path::new(directory).join(&name);
        (name, path)
    });
    let is_it = |path: &Path| path.extension().is_some_and(|found| found == extension);
    let is_there = |path: &Path| {
        let real = files::followed(host, path);
        real.is_none_or(|real| is_off(&real) || host.path(&real).exists())
    };
    all.filter(|(_, path)| is_it(path) && is_there(path))
        .collect()
}

/// True of where a file leads that somebody has turned off.
fn is_off(real: &Path) -> bool {
    real == Path::new("/dev/null")
}

/// The text of a file that a shell sources, links followed within the machine.
pub(super) fn text_of(host: &Host, path: &Path) -> Result<String, FileError> {
    let fail = |source: io::Error| FileError::Io {
        action: "read",
        path: path.into(),
        source,
    };
    let real =
        files::followed(host, path).ok_or_else(|| fail(io::ErrorKind::InvalidInput.into()))?;
    // A shell that sources a directory says so, and goes on.
    if is_off(&real) || host.path(&real).is_dir() {
        return Ok(String::new());
    }
    let bytes = regular_file::read(host.path(&real)).map_err(fail)?;
    String::from_utf8(bytes).map_err(|_| FileError::NotText { path: path.into() })
}

/// update-initramfs.conf(5): told so there, `update-initramfs -u` changes no image and succeeds.
fn check_updates(host: &Host, modules: &[String]) -> Result<(), FileError> {
    const NAME: &str = "update_initramfs";
    let path = Path::new("/etc/initramfs-tools/update-initramfs.conf");
    let Some(text) = files::read(host, path)? else {
        return Ok(());
    };
    let way = || {
        format!(
            "set {NAME}=yes there, or put {} into /etc/initramfs-tools/modules and make the image yourself",
            modules.join(" ")
        )
    };
    let mut variables = Variables::none(NAME);
    for found in variables::parse(&text) {
        let (start, why) = match found {
            Statement::Other(range) if text[range.clone()].contains(NAME) => (range.start, SHELL),
            Statement::Other(_) => continue,
            Statement::Assignment(it) => {
                variables.assign(&it);
                match variables.value(it.name) {
                    Some(value) if it.name == NAME && value == "no" => {
                        (it.start, "keeps update-initramfs from making images anew")
                    }
                    None if it.name == NAME => (it.start, SHELL),
                    _ => continue,
                }
            }
        };
        return Err(statement(path, &text, start, why, way()));
    }
    Ok(())
}

/// The files beside ours that mkinitcpio reads later, in the order of their names: none may set `MODULES` anew.
fn check_mkinitcpio_drop_ins(host: &Host, modules: &[String]) -> Result<(), FileError> {
    let way = || {
        format!(
            "put {} into its MODULES=(…) and run mkinitcpio --allpresets, or write MODULES+=(…) there, in plain \
             assignments",
            modules.join(" ")
        )
    };
    let ours = Maker::Mkinitcpio.path();
    let all = files_in(host, "/etc/mkinitcpio.conf.d", "conf").into_iter();
    for (_, path) in all.filter(|(name, _)| Some(name.as_os_str()) > ours.file_name()) {
        let text = text_of(host, &path)?;
        for found in variables::parse(&text) {
            match found {
                Statement::Other(range) => {
                    return Err(statement(&path, &text, range.start, SHELL, way()));
                }
                Statement::Assignment(it)
                    if it.name == "MODULES" && !(it.appends && it.is_array) =>
                {
                    let why = if it.appends {
                        "is read after ours and makes one word of MODULES' first and this"
                    } else {
                        "is read after ours and sets MODULES anew"
                    };
                    return Err(statement(&path, &text, it.start, why, way()));
                }
                Statement::Assignment(_) => {}
            }
        }
    }
    Ok(())
}

/// mkinitcpio(8): with a configuration file of its own (`-c`, which a preset may give it) no other is read.
fn check_presets(host: &Host, modules: &[String]) -> Result<(), FileError> {
    let way = |config: &str, path: &Path| {
        format!(
            "put MODULES+=( {} ) into {config} and run mkinitcpio --allpresets, or take that out of {} if it is the \
             usual file",
            modules.join(" "),
            path.display()
        )
    };
    let unknown = |path: &Path| way("the file that mkinitcpio reads", path);
    for (_, path) in files_in(host, PRESETS, "preset") {
        let text = text_of(host, &path)?;
        let statements = variables::parse(&text);
        let mut variables = Variables::none("");
        variables.assign_all(&statements);
        for found in &statements {
            let it = match found {
                Statement::Other(range) => {
                    return Err(statement(&path, &text, range.start, SHELL, unknown(&path)));
                }
                Statement::Assignment(it) => it,
            };
            let is_config = it.name.ends_with("_config");
            if !is_config && !it.name.ends_with("_options") {
                continue;
            }
            let Some(value) = variables.value(it.name) else {
                return Err(statement(&path, &text, it.start, SHELL, unknown(&path)));
            };
            let config = if is_config {
                Some(value.trim().to_owned()).filter(|config| !config.is_empty())
            } else {
                config_of(&value)
            };
            if let Some(config) = config {
                return Err(FileError::Elsewhere {
                    reason: format!(
                        "it has mkinitcpio read {config}, and then nothing in /etc/mkinitcpio.conf.d"
                    ),
                    way: way(&config, &path),
                    path,
                });
            }
        }
    }
    Ok(())
}

/// The configuration file that options of mkinitcpio name.
fn config_of(options: &str) -> Option<String> {
    /// Those of one letter that take what follows them.
    const TAKE: &str = "ADgkrStUz";
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').unwrap_or((long, ""));
            if !name.is_empty() && "config".starts_with(name) {
                let value = if value.is_empty() {
                    words.next()?
                } else {
                    value
                };
                return Some(value.to_owned());
            }
            continue;
        }
        let letters = word.strip_prefix('-').unwrap_or_default();
        let Some(at) = letters.find(|letter| letter == 'c' || TAKE.contains(letter)) else {
            continue;
        };
        let value = &letters[at + 1..];
        let value = if value.is_empty() {
            words.next().unwrap_or("another file")
        } else {
            value
        };
        if letters[at..].starts_with('c') {
            return Some(value.to_owned());
        }
    }
    None
}

/// dracut.conf(5): `/etc/dracut.conf`, then the files of two directories in the order of their names, those of `/etc` in
/// place of those of `/usr` with the same name. What ours puts into `force_drivers` must be there in the end, and not
/// in `omit_drivers`.
fn check_dracut(host: &Host, modules: &[String]) -> Result<(), FileError> {
    /// Set to `yes`, it leaves all drivers out, those of `force_drivers`, too.
    const NO_KERNEL: &str = "no_kernel";
    let ours = Maker::Dracut.path();
    let mut all = files_in(host, "/usr/lib/dracut/dracut.conf.d", "conf");
    all.extend(files_in(host, "/etc/dracut.conf.d", "conf"));
    all.insert(ours.file_name().unwrap_or_default().into(), ours.into());
    let first = Path::new("/etc/dracut.conf");
    let first = Some(first.to_owned()).filter(|path| host.path(path).exists());
    let way = |path: &Path, name: &str| {
        let (path, modules) = (path.display(), modules.join(" "));
        if name == NO_KERNEL {
            return format!(
                "take {NO_KERNEL} out of {path}, so that {modules} gets in; or leave out --initramfs"
            );
        }
        format!(
            "have {path} add {modules} to force_drivers and leave it in, in plain assignments; or leave out --initramfs"
        )
    };
    let (mut forced, mut omitted) = (Some(String::new()), Some(String::new()));
    let mut is_after_ours = false;
    for path in first.into_iter().chain(all.into_values()) {
        let is_ours = path == ours;
        is_after_ours |= is_ours;
        let text = if is_ours {
            Maker::Dracut.text(modules)
        } else {
            text_of(host, &path)?
        };
        let statements = variables::parse(&text);
        let mut variables = Variables::none("");
        // What other files set is not known to this one but by these two.
        variables.set("force_drivers", forced.take());
        variables.set("omit_drivers", omitted.take());
        for found in &statements {
            let it = match found {
                Statement::Assignment(it) => it,
                Statement::Other(range) => {
                    let names_it = text[range.clone()].contains("omit_drivers");
                    if is_after_ours || names_it {
                        return Err(statement(&path, &text, range.start, SHELL, way(&path, "")));
                    }
                    continue;
                }
            };
            variables.assign(it);
            let error = |why| Err(statement(&path, &text, it.start, why, way(&path, it.name)));
            let value = variables.value(it.name);
            if it.name == "omit_drivers" {
                let Some(value) = value else {
                    return error(SHELL);
                };
                let omits =
                    |module: &String| value.split_whitespace().any(|word| may_omit(word, module));
                if modules.iter().any(omits) {
                    return error("keeps the scheduler's module out of the image");
                }
            } else if it.name == NO_KERNEL && value.as_deref() != Some("no") {
                return error(match value.as_deref() {
                    Some("yes") => "keeps all drivers out of the image",
                    Some(_) => continue,
                    None => SHELL,
                });
            } else if it.name == "force_drivers" && is_after_ours {
                let Some(value) = value else {
                    return error(SHELL);
                };
                let has = |module: &String| value.split_whitespace().any(|word| word == module);
                if !modules.iter().all(has) {
                    return error("is read after ours and sets force_drivers anew");
                }
            }
        }
        forced = variables.value("force_drivers").or(Some(String::new()));
        omitted = variables.value("omit_drivers");
    }
    Ok(())
}

/// True if a word of `omit_drivers`, which is a regular expression, is like this module, or is one that is not understood.
fn may_omit(word: &str, module: &str) -> bool {
    let plain = |text: &str| text.replace('-', "_");
    if word.contains(['(', ')', '|', '+', '?', '^', '$', '{', '\\']) {
        return true;
    }
    // Older versions of dracut (RHEL 7, RHEL 8) take any word for an expression.
    let is_within = plain(module).contains(&plain(word));
    let has_odd_star = word.replace(".*", "").contains('*');
    let pattern = format!("*{}*", plain(word).replace(".*", "*").replace('.', "?"));
    let is_expression = word.contains(['.', '*', '[']);
    let path = format!("/kernel/block/{}.ko", plain(module));
    has_odd_star || is_within || (is_expression && pattern::is_like(&pattern, &path))
}

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

    /// Where a machine has this file it is refused by its name, or not; the hint says what to do in it.
    fn check_refusal(host: &Host, dir: &Path, file: &str, text: &[u8], is_refused: bool) {
        write(dir, file, "");
        fs::write(dir.join(file), text).unwrap();
        let shown = String::from_utf8_lossy(text);
        match files(host, &["bfq".to_owned()], true) {
            Ok(changes) => assert_eq!((changes.len(), is_refused), (1, false), "{file}: {shown}"),
            Err(error) => {
                let said = error.to_string();
                assert!(
                    is_refused && said.starts_with(&format!("/{file}")),
                    "{shown}: {said}"
                );
                let hint = iosched_machine::failure::Failure::hint(&error).unwrap();
                let way = if text.is_ascii() { "bfq" } else { "UTF-8" };
                assert!(hint.contains(way), "{hint}");
            }
        }
        fs::remove_file(dir.join(file)).unwrap();
    }

    #[test]
    fn images_that_are_not_to_be_made_anew_are_refused_by_name() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "usr/sbin/mkinitramfs", "");
        write(dir.path(), "usr/sbin/update-initramfs", "");
        fs::create_dir_all(dir.path().join("usr/share/initramfs-tools/modules.d")).unwrap();
        let file = "etc/initramfs-tools/update-initramfs.conf";
        for (text, is_refused) in [
            (
                "# update_initramfs=no\nupdate_initramfs=yes\nbackup_initramfs=no\n",
                false,
            ),
            ("update_initramfs=all\n", false),
            ("update_initramfs=no\n", true),
            ("update_initramfs='no' # until the kernel is out\n", true),
            ("[ -e /x ] && update_initramfs=no\n", true),
        ] {
            check_refusal(&host, dir.path(), file, text.as_bytes(), is_refused);
        }
    }

    #[test]
    fn what_mkinitcpio_reads_after_ours_keeps_it_or_is_refused_by_name() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "usr/bin/mkinitcpio", "");
        for (file, text, is_refused) in [
            ("a.conf", "MODULES=(ext4)\n", false),
            ("a.conf", "if true; then", false),
            ("z.txt", "MODULES=(ext4)\n", false),
            (
                "x.conf",
                "MODULES+=(ext4)\nHOOKS=(base # udev\n block)\n",
                false,
            ),
            ("z.conf", "MODULES=(ext4)\n", true),
            ("z.conf", "[ -e /x ] || MODULES=(ext4)\n", true),
            ("z.conf", "export MODULES=(ext4)\n", true),
            ("z.conf", "unset MODULES\n", true),
            ("z.conf", "MODULES+=\" x\"\n", true),
            ("z.conf", "X=${MODULES:=}\n", true),
            ("z.conf", "NOTE='\nMODULES=(ext4)'\n", false),
            ("z.conf", "# caf\u{e9}\n", false),
        ] {
            let file = format!("etc/mkinitcpio.conf.d/{file}");
            check_refusal(&host, dir.path(), &file, text.as_bytes(), is_refused);
        }
        check_refusal(
            &host,
            dir.path(),
            "etc/mkinitcpio.conf.d/z.conf",
            b"# caf\xe9\n",
            true,
        );
    }

    #[test]
    fn a_preset_that_names_another_file_is_refused_however_it_says_so() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "usr/bin/mkinitcpio", "");
        write(dir.path(), "etc/mkinitcpio.conf.d/x", "");
        let preset = "etc/mkinitcpio.d/linux.preset";
        for (text, is_refused) in [
            (
                "PRESETS=('default' 'fallback')\nfallback_options=\"-S autodetect\"\n",
                false,
            ),
            ("default_config=\"\" # none\n", false),
            ("default_config='' #/etc/x.conf\nALL_config=\n", false),
            ("default_options=\"-Sconf --kernel c\"\n", false),
            ("default_config=/etc/x.conf # one\n", true),
            ("A=/etc/x.conf; ALL_config=$A\n", true),
            ("ALL_config=$HOME/$(uname -r)\n", true),
            ("default_options=\"-c /etc/x.conf\"\n", true),
            ("default_options=\"-vc/etc/x.conf\"\n", true),
            ("default_options='-v --conf=/etc/x.conf'\n", true),
            ("[ -e /x ] && default_config=/etc/x.conf\n", true),
            (". /etc/x.conf\n", true),
        ] {
            check_refusal(&host, dir.path(), preset, text.as_bytes(), is_refused);
        }
        check_refusal(&host, dir.path(), preset, b"# caf\xe9\n", true);
        write(
            dir.path(),
            preset,
            "default_config=\"/etc/x.conf\" # mine\n",
        );
        let error = files(&host, &["bfq".to_owned()], true)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("it has mkinitcpio read /etc/x.conf, and"),
            "{error}"
        );
    }

    #[test]
    fn what_dracut_reads_keeps_the_module_in_or_is_refused_by_name() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "usr/bin/dracut", "");
        for (file, text, is_refused) in [
            (
                "etc/dracut.conf",
                "omit_drivers+=\" .*/fs/ocfs/.* i2o_scsi \"\n",
                false,
            ),
            ("etc/dracut.conf", "force_drivers=\" nvme \"\n", false),
            ("etc/dracut.conf", "[ -e /x ] && hostonly=yes\n", false),
            ("etc/dracut.conf", "[ -e /x ] && omit_drivers+=bfq\n", true),
            (
                "etc/dracut.conf.d/a.conf",
                "omit_drivers+=\" bfq \"\n",
                true,
            ),
            (
                "etc/dracut.conf.d/a.conf",
                "omit_drivers+=\" .*block/b.* \"\n",
                true,
            ),
            (
                "etc/dracut.conf.d/a.conf",
                "omit_drivers+=\" (a|b)fq \"\n",
                true,
            ),
            (
                "etc/dracut.conf.d/z.conf",
                "force_drivers+=\" nvme \"\n",
                false,
            ),
            (
                "etc/dracut.conf.d/z.conf",
                "hostonly=\"yes\" # here\n",
                false,
            ),
            ("etc/dracut.conf.d/z.conf", "force_drivers=\"nvme\"\n", true),
            (
                "etc/dracut.conf.d/z.conf",
                "force_drivers=\"$force_drivers nvme\"\n",
                false,
            ),
            (
                "etc/dracut.conf.d/z.conf",
                "force_drivers=\"$(cat /x)\"\n",
                true,
            ),
            ("etc/dracut.conf.d/z.conf", "unset force_drivers\n", true),
            ("etc/dracut.conf.d/a.conf", "omit_drivers+=\" bf \"\n", true),
            (
                "etc/dracut.conf.d/a.conf",
                "omit_drivers+=\" bfqx \"\n",
                false,
            ),
            ("etc/dracut.conf.d/a.conf", "no_kernel=\"yes\"\n", true),
            ("etc/dracut.conf.d/a.conf", "no_kernel=no\n", false),
            (
                "usr/lib/dracut/dracut.conf.d/z.conf",
                "omit_drivers=bfq\n",
                true,
            ),
        ] {
            check_refusal(&host, dir.path(), file, text.as_bytes(), is_refused);
        }
        // A file of /etc stands in the place of one of that name in /usr.
        write(
            dir.path(),
            "usr/lib/dracut/dracut.conf.d/z.conf",
            "omit_drivers=bfq\n",
        );
        check_refusal(&host, dir.path(), "etc/dracut.conf.d/z.conf", b"\n", false);
        // So does a link that turns it off; one that leads nowhere does not.
        let wish = || files(&host, &["bfq".to_owned()], true);
        let link = dir.path().join("etc/dracut.conf.d/z.conf");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert!(wish().is_ok());
        fs::remove_file(&link).unwrap();
        fs::create_dir(&link).unwrap();
        assert!(wish().is_ok());
        fs::remove_dir(&link).unwrap();
        std::os::unix::fs::symlink("/nowhere", &link).unwrap();
        assert!(matches!(wish(), Err(FileError::CommandLine { .. })));
    }

    #[test]
    fn on_nixos_the_way_is_its_configuration() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "etc/NIXOS", "");
        let error = files(&host, &["bfq".to_owned()], true).unwrap_err();
        let hint = iosched_machine::failure::Failure::hint(&error).unwrap();
        assert!(
            hint.contains("put \"bfq\" into boot.initrd.kernelModules"),
            "{hint}"
        );
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
