//! The kernel's command line changed for good: which files carry it here, and which program makes the
//! boot loader's own file of them.

use std::path::{Path, PathBuf};

use crate::host::Host;
use crate::system_config::cmdline::{Format, elevator_in, with_elevator};
use crate::system_config::files::{self, FileChange, FileError};

/// The files that may carry the command line, and their format. Where there are several, all count.
const FILES: [(&str, Format); 4] = [
    ("/etc/default/grub", Format::GrubDefault),
    ("/etc/kernel/cmdline", Format::KernelInstall),
    ("/boot/grub/menu.lst", Format::MenuLst),
    ("/boot/grub/grub.conf", Format::MenuLst),
];

/// What must change for `elevator=` to have this value at every boot; with none, to be gone.
pub(crate) fn files(host: &Host, value: Option<&str>) -> Result<Vec<FileChange>, FileError> {
    let mut changes = Vec::new();
    for (path, format) in FILES {
        // menu.lst is often a link to grub.conf, which is in the list itself.
        if host.path(Path::new(path)).is_symlink() {
            continue;
        }
        let Some(text) = files::read(host, Path::new(path))? else {
            continue;
        };
        let edited =
            with_elevator(&text, format, value).map_err(|line| FileError::CommandLine {
                path: path.into(),
                line: line.line,
                text: line.text,
            })?;
        changes.extend(FileChange::plan(host, path, Some(edited))?);
    }
    Ok(changes)
}

/// The command that must be run after these files have changed so that the boot loader sees it, with
/// `after` the new text of the first of them; none where the boot loader reads the file itself.
pub(crate) fn generator(host: &Host, change: &FileChange) -> Option<Vec<String>> {
    if change.path != Path::new("/etc/default/grub") {
        return None;
    }
    let find = |names: &[&str]| {
        names
            .iter()
            .map(PathBuf::from)
            .find(|path| host.path(path).exists())
            .map(|path| path.display().to_string())
    };
    if let Some(update_grub) = find(&["/usr/sbin/update-grub"]) {
        return Some(vec![update_grub]);
    }
    if let Some(grubby) = find(&["/usr/sbin/grubby", "/sbin/grubby"]) {
        let value = |text: &Option<String>| elevator_in(text.as_deref().unwrap_or_default());
        let argument = match (value(&change.after), value(&change.before)) {
            (Some(value), _) => format!("--args=elevator={value}"),
            (None, _) => "--remove-args=elevator".to_owned(),
        };
        return Some(vec![grubby, "--update-kernel=ALL".into(), argument]);
    }
    let mkconfig = find(&["/usr/sbin/grub2-mkconfig", "/usr/sbin/grub-mkconfig"])?;
    let output = if mkconfig.contains("grub2") {
        "/boot/grub2/grub.cfg"
    } else {
        "/boot/grub/grub.cfg"
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
