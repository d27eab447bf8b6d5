//! `elevator=` set for good: for GRUB, whose file is a list of plain assignments on most machines. With any other boot
//! loader the user is told the words to add.

use std::path::{Path, PathBuf};

use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;

use crate::system_config::cmdline::{self, PARAMETER, is_comment, places_of_elevator};
use crate::system_config::files::{self, FileChange};

const DEFAULT: &str = "/etc/default/grub";

/// Read after [`DEFAULT`] by the GRUB of Debian and Ubuntu.
const DROP_INS: &str = "/etc/default/grub.d";

/// Ours, which is read last.
pub(crate) const OURS: &str = "/etc/default/grub.d/zz-iosched.cfg";

/// What must change for `elevator=` to have this value at every boot; with none, to be gone.
///
/// # Errors
/// GRUB does not start this machine, or a line of its files is not a plain assignment.
pub(crate) fn files(host: &Host, value: Option<&str>) -> Result<Vec<FileChange>, Problem> {
    let is_of_grub = |path: &Path| path == Path::new(DEFAULT) || path.starts_with(DROP_INS);
    let others: Vec<PathBuf> = places_of_elevator(host)
        .into_iter()
        .map(|(place, _)| place.file)
        .filter(|file| !is_of_grub(file))
        .collect();
    if let (Some(value), Some(path)) = (value, other_loader(host)) {
        return Err(refused(host, &path, Some(value)));
    }
    let drop_ins = drop_ins(host);
    let mut changes = Vec::new();
    let has_drop_ins = !drop_ins.is_empty();
    for path in std::iter::once(PathBuf::from(DEFAULT)).chain(drop_ins) {
        let Some(text) = files::read(host, &path)? else {
            continue;
        };
        let put = value.filter(|_| path == Path::new(DEFAULT) && !has_drop_ins);
        let edited = edited(&text, put).map_err(|line| not_plain(&path, &text, line, value))?;
        changes.extend(FileChange::plan(host, path, Some(edited))?);
    }
    let ours = value.filter(|_| has_drop_ins).map(|value| {
        format!(
            "# Made by iosched: for disks on the single-queue path.\n\
             GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {PARAMETER}{value}\"\n"
        )
    });
    changes.retain(|change| change.path != Path::new(OURS));
    changes.extend(FileChange::plan_own(host, OURS, ours)?);
    match others.first() {
        Some(path) if value.is_none() && changes.is_empty() => Err(refused(host, path, None)),
        _ => Ok(changes),
    }
}

/// The drop-ins, if GRUB reads any: ours is one of them then.
fn drop_ins(host: &Host) -> Vec<PathBuf> {
    let makers = ["/usr/sbin/grub-mkconfig", "/usr/sbin/grub2-mkconfig"];
    let mut scripts = makers
        .iter()
        .filter_map(|path| files::text_of(host, Path::new(path)));
    if scripts.any(|text| text.starts_with("#!") && !text.contains("default/grub.d")) {
        return Vec::new();
    }
    files::files_of(host, &[DROP_INS], ".cfg")
}

/// The file of another boot loader that starts this machine, as far as that can be told.
fn other_loader(host: &Host) -> Option<PathBuf> {
    let is_there = |path: &&str| host.path(Path::new(path)).exists();
    let of_system = [
        "/run/ostree-booted",
        "/etc/NIXOS",
        "/etc/kernelstub/configuration",
    ];
    let of_system = of_system
        .iter()
        .find(|path| is_there(path))
        .map(PathBuf::from);
    let grub = files::text_of(host, Path::new(DEFAULT)).unwrap_or_default();
    let by_entries = grub
        .lines()
        .any(|line| line.trim() == "GRUB_ENABLE_BLSCFG=true");
    let is_grub = !grub.is_empty() && !by_entries;
    let mut known = cmdline::files(host).into_iter();
    of_system.or_else(|| {
        // What other programs make a command line of says nothing of the boot loader.
        let others = [DEFAULT, DROP_INS, "/etc/dracut.conf.d", "/etc/tuned"];
        let is_other = |path: &PathBuf| !others.iter().any(|other| path.starts_with(other));
        known.find(is_other).filter(|_| !is_grub)
    })
}

/// That the parameter stands, or is to stand, in a file that nobody changes here.
fn refused(host: &Host, path: &Path, value: Option<&str>) -> Problem {
    let has_grubby = || host.path(Path::new("/usr/sbin/grubby")).exists();
    let message = format!(
        "{}: the kernel's command line is changed by iosched only for GRUB, in {DEFAULT}",
        path.display()
    );
    let then = "by hand, and run what your boot loader reads it with";
    let way = match (path.to_str(), value) {
        (Some("/run/ostree-booted"), Some(value)) => {
            format!("rpm-ostree kargs --append-if-missing={PARAMETER}{value}")
        }
        (Some("/etc/NIXOS"), Some(value)) => {
            format!("put {PARAMETER}{value} into boot.kernelParams {then}")
        }
        (_, Some(value)) if has_grubby() => {
            format!("grubby --update-kernel=ALL --args={PARAMETER}{value}")
        }
        (_, Some(value)) => format!("put {PARAMETER}{value} into {} {then}", path.display()),
        (_, None) => format!("take {PARAMETER} out of {} {then}", path.display()),
    };
    Problem::new(exit::BAD_FILE, message).hint(way)
}

fn not_plain(path: &Path, text: &str, line: usize, value: Option<&str>) -> Problem {
    let words = text.lines().nth(line - 1).unwrap_or_default().trim();
    let message = format!(
        "{}, line {line}: {words:?} is not a plain assignment: not touched",
        path.display()
    );
    let way = match value {
        Some(value) => format!(
            "put {PARAMETER}{value} into GRUB_CMDLINE_LINUX by hand, once, and run update-grub or grub2-mkconfig"
        ),
        None => format!("take {PARAMETER} out by hand, and run update-grub or grub2-mkconfig"),
    };
    Problem::new(exit::BAD_FILE, message).hint(way)
}

/// A file of GRUB's without `elevator=`, and with this value in `GRUB_CMDLINE_LINUX`.
///
/// # Errors
/// The number of a line, from 1, that is not a plain assignment and would have to be changed.
fn edited(text: &str, value: Option<&str>) -> Result<String, usize> {
    const MAIN: &str = "GRUB_CMDLINE_LINUX";
    let plain = text.lines().map(Plain::of).collect::<Vec<_>>();
    let is_main = |plain: &Option<Plain>| plain.as_ref().is_some_and(|plain| plain.name == MAIN);
    let main = plain.iter().rposition(is_main);
    let mut edited = String::new();
    for (index, (line, plain)) in text.split_inclusive('\n').zip(plain).enumerate() {
        let sets_main =
            line.contains("GRUB_CMDLINE_LINUX=") || line.contains("GRUB_CMDLINE_LINUX+=");
        let must_change = line.contains(PARAMETER) || value.is_some() && sets_main;
        match plain {
            _ if is_comment(line) || !must_change => edited.push_str(line),
            Some(plain) => {
                edited += &plain.with(line, value.filter(|_| main == Some(index)));
            }
            None => return Err(index + 1),
        }
    }
    if let (None, Some(value)) = (main, value) {
        if !edited.is_empty() && !edited.ends_with('\n') {
            edited.push('\n');
        }
        edited += &[MAIN, "=\"", PARAMETER, value, "\"\n"].concat();
    }
    Ok(edited)
}

/// `GRUB_CMDLINE_LINUX_DEFAULT="quiet"`: a line that is nothing but this.
struct Plain<'a> {
    name: &'a str,
    words: &'a str,
}

impl<'a> Plain<'a> {
    fn of(line: &'a str) -> Option<Plain<'a>> {
        let (name, value) = line.trim().split_once('=')?;
        let name = name.trim_start_matches("export ").trim_start();
        let inner = value
            .strip_prefix('"')
            .and_then(|value| value.strip_suffix('"'));
        let is_bare = || !value.contains(|c: char| c.is_whitespace() || "\"'$`\\;&|#".contains(c));
        let words = inner.or_else(|| is_bare().then_some(value))?;
        let is_plain = name.starts_with("GRUB_CMDLINE_LINUX")
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !words.contains(['"', '\'', '`', '\\']);
        is_plain.then_some(Plain { name, words })
    }

    /// The line without the parameter, then with it at the end of what is for the kernel: what follows `--` is init's.
    fn with(&self, line: &str, value: Option<&str>) -> String {
        let mut words: Vec<&str> = self.words.split(' ').collect();
        words.retain(|word| !word.starts_with(PARAMETER));
        let parameter = value.map(|value| format!("{PARAMETER}{value}"));
        if let Some(parameter) = &parameter {
            let at = words.iter().position(|word| *word == "--");
            words.insert(at.unwrap_or(words.len()), parameter);
        }
        let (head, rest) = line.split_once('=').unwrap_or((line, ""));
        let end = &rest[rest.trim_end().len()..];
        format!("{head}=\"{}\"{end}", words.join(" ").trim())
    }

    /// What it gives the parameter.
    fn value(&self) -> Option<&'a str> {
        let mut words = self.words.split(' ');
        words.find_map(|word| word.strip_prefix(PARAMETER))
    }
}

/// What the user should know of these changes: what is run after them, and what else gives the parameter.
pub(crate) fn notes(host: &Host, changes: &[FileChange], value: Option<&str>) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for change in changes {
        let path = change.path.display();
        let note = match generator(host, change) {
            Some(command) => format!("`{}` is run then", command.join(" ")),
            None => format!(
                "{path} counts once GRUB's own file is made of it: no program for that is here"
            ),
        };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let is_changed = |file: &Path| changes.iter().any(|change| change.path == *file);
    for (place, _) in places_of_elevator(host)
        .iter()
        .filter(|(place, _)| !is_changed(&place.file))
    {
        notes.push(format!(
            "{}:{} gives {PARAMETER}, too, and is left alone: change it by hand",
            place.file.display(),
            place.line
        ));
    }
    let given = cmdline::given_at_boot(host).filter(|_| value.is_none() && changes.is_empty());
    notes.extend(given.map(|given| {
        format!(
            "this kernel was started with {PARAMETER}{given}, which no known file sets: it is gone after the \
             next boot, or the boot loader has it"
        )
    }));
    notes
}

/// The command that must be run after this file has changed so that the boot loader sees it; none if the boot loader
/// reads the file itself. Files that older versions changed are known, too: an undo puts them back.
pub(crate) fn generator(host: &Host, change: &FileChange) -> Option<Vec<String>> {
    let program = |names: &[&str]| {
        let mut there = names
            .iter()
            .filter(|name| host.path(Path::new(name)).exists());
        there.next().map(|&name| name.to_owned())
    };
    let path = change.path.to_str()?;
    if path == "/etc/update-extlinux.conf" {
        return Some(vec![program(&["/sbin/update-extlinux"])?]);
    }
    if path == "/etc/kernel/cmdline" {
        let maker = program(&["/usr/bin/sdbootutil"])?;
        return Some(vec![maker, "update-all-entries".into()]);
    }
    if path.contains("/loader/entries/") {
        return Some(vec![program(&["/usr/sbin/zipl", "/sbin/zipl"])?]);
    }
    if path != DEFAULT && !path.starts_with(DROP_INS) {
        return None;
    }
    if let Some(update_grub) = program(&["/usr/sbin/update-grub"]) {
        return Some(vec![update_grub]);
    }
    if let Some(mkconfig) = program(&["/usr/sbin/grub2-mkconfig", "/usr/sbin/grub-mkconfig"]) {
        // RHEL before 9 has the file on the EFI partition, and this link to it.
        let of_efi = "/etc/grub2-efi.cfg";
        let has = |path: &str| host.path(Path::new(path)).exists();
        let output = if !mkconfig.contains("grub2") {
            "/boot/grub/grub.cfg"
        } else if has("/sys/firmware/efi") && has(of_efi) {
            of_efi
        } else {
            "/boot/grub2/grub.cfg"
        };
        return Some(vec![mkconfig, "-o".into(), output.into()]);
    }
    let grubby = program(&["/usr/sbin/grubby", "/sbin/grubby"])?;
    let after = change.after.as_deref().unwrap_or_default();
    let mut plain = after
        .lines()
        .filter(|line| !is_comment(line))
        .filter_map(Plain::of);
    let argument = match plain.find_map(|plain| plain.value()) {
        Some(value) => format!("--args={PARAMETER}{value}"),
        None => "--remove-args=elevator".to_owned(),
    };
    Some(vec![grubby, "--update-kernel=ALL".into(), argument])
}

/// A file that others change, too, with what a change had made of it taken back; nothing if that is not known. Older
/// versions changed `kernelopts` in GRUB's environment block, in which a boot writes variables of its own.
pub(crate) fn taken_back_in(change: &FileChange, now: &str) -> Option<String> {
    if !change.path.ends_with("grubenv") {
        return None;
    }
    let parameters = |text: &str| {
        text.lines()
            .find(|line| line.starts_with("kernelopts="))
            .map(str::to_owned)
    };
    let old = parameters(change.before.as_deref()?)?;
    let new = parameters(change.after.as_deref()?)?;
    let found = parameters(now)?;
    if found == old {
        return Some(now.to_owned());
    }
    if found != new {
        return None;
    }
    // The block keeps its size.
    let mut back = now.trim_end_matches('#').replacen(&new, &old, 1);
    let room = now.len().checked_sub(back.len())?;
    back.extend(std::iter::repeat_n('#', room));
    Some(back)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_config::testing::{machine, write};

    #[test]
    fn plain_assignments_are_edited_and_every_other_word_is_kept() {
        for (text, value, expected) in [
            (
                "GRUB_CMDLINE_LINUX=\"\"\n",
                Some("noop"),
                "GRUB_CMDLINE_LINUX=\"elevator=noop\"\n",
            ),
            (
                "GRUB_CMDLINE_LINUX=quiet\n",
                Some("noop"),
                "GRUB_CMDLINE_LINUX=\"quiet elevator=noop\"\n",
            ),
            (
                "GRUB_CMDLINE_LINUX=\"a  b\"\n",
                Some("noop"),
                "GRUB_CMDLINE_LINUX=\"a  b elevator=noop\"\n",
            ),
            (
                "GRUB_CMDLINE_LINUX=\"a elevator=cfq b\"\n",
                Some("noop"),
                "GRUB_CMDLINE_LINUX=\"a b elevator=noop\"\n",
            ),
            (
                "GRUB_CMDLINE_LINUX_DEFAULT=\"elevator=cfq quiet\"\nGRUB_CMDLINE_LINUX=\"ro -- single\"\n",
                Some("noop"),
                "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"ro elevator=noop -- single\"\n",
            ),
            (
                "# elevator=cfq\nGRUB_TIMEOUT=5",
                Some("noop"),
                "# elevator=cfq\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX=\"elevator=noop\"\n",
            ),
            (
                "GRUB_CMDLINE_LINUX=\"$X elevator=cfq\"\n",
                None,
                "GRUB_CMDLINE_LINUX=\"$X\"\n",
            ),
            (
                "GRUB_CMDLINE_LINUX=\"relevator=cfq\"\n",
                None,
                "GRUB_CMDLINE_LINUX=\"relevator=cfq\"\n",
            ),
        ] {
            assert_eq!(edited(text, value).as_deref(), Ok(expected), "{text:?}");
        }
        for (text, value, line) in [
            ("MORE=\"elevator=cfq\"\n", None, 1),
            ("\nGRUB_CMDLINE_LINUX='elevator=cfq'\n", None, 2),
            ("GRUB_CMDLINE_LINUX=\"ro \\\n elevator=cfq\"\n", None, 2),
            ("GRUB_CMDLINE_LINUX=\"$(cat /x)`y`\"\n", Some("noop"), 1),
            ("GRUB_CMDLINE_LINUX+=\" a\"\n", Some("noop"), 1),
            ("if x; then GRUB_CMDLINE_LINUX=\"a\"; fi\n", Some("noop"), 1),
        ] {
            assert_eq!(edited(text, value), Err(line), "{text:?}");
        }
    }

    #[test]
    fn the_command_is_the_one_of_the_distribution() {
        let (dir, host) = machine(&[]);
        write(
            dir.path(),
            DEFAULT.trim_start_matches('/'),
            "GRUB_CMDLINE_LINUX=\"quiet\"\n",
        );
        let change = files(&host, Some("noop")).unwrap().remove(0);
        assert_eq!(generator(&host, &change), None);
        let command = || generator(&host, &change).unwrap().join(" ");
        for (program, expected) in [
            (
                "sbin/grubby",
                "/sbin/grubby --update-kernel=ALL --args=elevator=noop",
            ),
            (
                "usr/sbin/grub2-mkconfig",
                "/usr/sbin/grub2-mkconfig -o /boot/grub2/grub.cfg",
            ),
            ("usr/sbin/update-grub", "/usr/sbin/update-grub"),
        ] {
            write(dir.path(), program, "");
            assert_eq!(command(), expected);
        }
    }

    #[test]
    fn drop_ins_lose_it_and_ours_has_it() {
        let (dir, host) = machine(&[]);
        write(dir.path(), "etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n");
        let other = "etc/default/grub.d/50-cloud.cfg";
        write(
            dir.path(),
            other,
            "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet elevator=noop\"\n",
        );
        for change in files(&host, Some("deadline")).unwrap() {
            change.install(&host).unwrap();
        }
        let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap();
        assert_eq!(read(other), "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n");
        assert!(read(&OURS[1..]).ends_with("=\"$GRUB_CMDLINE_LINUX elevator=deadline\"\n"));
        assert_eq!(
            files(&host, Some("deadline")).unwrap(),
            [],
            "once is enough"
        );
        let gone = files(&host, None).unwrap();
        assert_eq!(gone.len(), 1);
        assert_eq!(
            (gone[0].path.as_path(), &gone[0].after),
            (Path::new(OURS), &None)
        );
    }

    /// An undo of a change that an older version made on RHEL 8.
    #[test]
    fn an_environment_block_is_put_back_beside_what_a_boot_wrote() {
        let block = |opts: &str, more: &str| {
            let text = format!("# GRUB Environment Block\nkernelopts=ro{opts}\n{more}");
            format!("{text:#<1024}")
        };
        let change = FileChange {
            path: "/boot/efi/EFI/redhat/grubenv".into(),
            before: Some(block("", "")),
            after: Some(block(" elevator=noop", "")),
            directories: Vec::new(),
            attributes: None,
        };
        let now = block(" elevator=noop", "boot_success=1\n");
        assert_eq!(
            taken_back_in(&change, &now),
            Some(block("", "boot_success=1\n"))
        );
        assert_eq!(taken_back_in(&change, &block(" x", "")), None);
    }
}
