//! The menu of GRUB before 2 (`menu.lst`, `grub.conf`): which of its lines have parameters of Linux. Pure.
//!
//! | line (GRUB's manual, "Commands"; Debian's update-grub) | parameters of |
//! |---|---|
//! | `kernel [--type=linux\|biglinux] FILE …` | Linux, but for the programs of [`NO_LINUX`] |
//! | `kernel [--type=TYPE] FILE …` of another type | another system |
//! | `kernel FILE …` in an entry with `module` | a hypervisor or another kernel of the Multiboot Specification |
//! | `module FILE …`, `modulenounzip FILE …` | Linux, where its name or `root=` says so; else the first one below Xen |
//! | `# kopt=…`, `# kopt_VERSION=…` between other comments | Linux, in the entries that Debian's update-grub makes |
//! | `# defoptions=…`, `# altoptions=…`, `# xenkopt=…` | the same entries, after those |
//!
//! A command and what it is given are parted by blanks or by a `=`.

use std::ops::Range;

use crate::system_config::parameter::{
    NotUnderstood, PARAMETER, each_line, value_of_parameter, with_parameter,
};

/// What is started by `kernel` and has no use for Linux's parameters, by a part of its name.
const NO_LINUX: [&str; 8] = [
    "memtest",
    "memdisk",
    "ipxe",
    "gnumach",
    "multiboot",
    "xen",
    "tboot",
    ".c32",
];

/// What the file of Linux begins with.
const LINUX: [&str; 5] = ["vmlinu", "linux", "bzimage", "zimage", "kernel-"];

/// By this line the menu is one of Debian's update-grub.
const OF_UPDATE_GRUB: &str = "### BEGIN AUTOMAGIC KERNELS LIST";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Parameters of Linux in every entry.
    Every,
    /// Parameters that come after those.
    Later,
    /// None of Linux.
    Nothing,
}

/// The menu with `elevator=` set to this value for every Linux; with none, taken out.
///
/// # Errors
/// The number of a line, from 1, in which it is not clear where a word ends, or which goes on in the next one, and
/// what of it is not understood.
pub(super) fn with_elevator(
    text: &str,
    value: Option<&str>,
) -> Result<String, (usize, &'static str)> {
    let roles = roles(text);
    if let Some(line) = continued(text, &roles, value.is_some()) {
        return Err((line, NotUnderstood::CONTINUED));
    }
    let mut index = 0;
    let mut open = None;
    let edited = each_line(text, |line| {
        let role = roles[index];
        index += 1;
        let value = match role {
            Role::Every => value,
            Role::Later => None,
            Role::Nothing => return line.to_owned(),
        };
        let range = parameters(line);
        if let Ok(edited) = with_parameter(&line[range.clone()], value) {
            [&line[..range.start], &edited].concat()
        } else {
            open.get_or_insert((index, NotUnderstood::QUOTE));
            line.to_owned()
        }
    });
    open.map_or(Ok(edited), Err)
}

/// The first line of Linux, from 1, which a backslash at its end joins with the next one: any such, or one in which
/// the parameter stands.
fn continued(text: &str, roles: &[Role], whatever: bool) -> Option<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let goes_on = |line: &&str| line.ends_with('\\');
    let mut found =
        (0..lines.len()).filter(|&at| roles[at] != Role::Nothing && goes_on(&lines[at]));
    found
        .find(|&at| {
            let more = lines[at..].iter().take_while(|line| goes_on(line)).count();
            let last = (at + more).min(lines.len() - 1);
            whatever || lines[at..=last].iter().any(|line| line.contains(PARAMETER))
        })
        .map(|at| at + 1)
}

/// The lines in which `elevator=` is given to Linux, by their numbers from 1, each with its value.
pub(super) fn given(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().zip(roles(text)).enumerate();
    let given = lines.filter(|(_, (_, role))| *role != Role::Nothing);
    given
        .filter_map(|(index, (line, _))| {
            let value = value_of_parameter(&line[parameters(line)])?;
            Some((index + 1, value.to_owned()))
        })
        .collect()
}

/// Where the parameters of a line stand: after the command, or after the `=` of a setting.
fn parameters(line: &str) -> Range<usize> {
    let (_, rest) = command(line).unwrap_or(("", line));
    line.len() - rest.len()..line.len()
}

/// A command, or the name of a setting of update-grub, and what it is given.
fn command(line: &str) -> Option<(&str, &str)> {
    let setting = line.strip_prefix("# ");
    let line = setting.unwrap_or(line).trim_start();
    let end = line.find([' ', '\t', '='])?;
    let rest = line[end..].trim_start_matches([' ', '\t']);
    let rest = rest.strip_prefix('=').unwrap_or(rest);
    Some((&line[..end], rest))
}

fn roles(text: &str) -> Vec<Role> {
    let lines: Vec<&str> = text.lines().collect();
    let is_of_update_grub = text.contains(OF_UPDATE_GRUB);
    let mut roles = Vec::with_capacity(lines.len());
    let mut from = 0;
    while from < lines.len() {
        let is_title = |line: &&str| name_of(line) == "title";
        let next = lines[from + 1..].iter().position(is_title);
        let end = next.map_or(lines.len(), |next| from + 1 + next);
        roles.extend(roles_of_entry(&lines[from..end]));
        from = end;
    }
    for (role, line) in roles.iter_mut().zip(&lines) {
        if let (Some((name, _)), true) =
            (command(line), is_of_update_grub && line.starts_with("# "))
        {
            *role = match name {
                "defoptions" | "altoptions" | "xenkopt" => Role::Later,
                name if name == "kopt" || name.starts_with("kopt_") => Role::Every,
                _ => Role::Nothing,
            };
        }
    }
    roles
}

/// The command of a line, if it is no comment.
fn name_of(line: &str) -> &str {
    let is_comment = line.trim_start().starts_with('#');
    let command = command(line).filter(|_| !is_comment);
    command.map_or("", |(name, _)| name)
}

fn roles_of_entry(lines: &[&str]) -> Vec<Role> {
    let is_module = |line: &str| matches!(name_of(line), "module" | "modulenounzip");
    let has_modules = lines.iter().any(|line| is_module(line));
    let is_named = lines
        .iter()
        .any(|line| is_module(line) && is_linux_module(line));
    let is_below_xen = lines
        .iter()
        .any(|line| name_of(line) == "kernel" && image(line).contains("xen"));
    let mut is_first = true;
    let role = |line: &&str| {
        let is_linux = if is_module(line) {
            let is_first = std::mem::take(&mut is_first);
            is_linux_module(line) || (is_first && is_below_xen && !is_named)
        } else {
            name_of(line) == "kernel" && !has_modules && is_linux_kernel(line)
        };
        if is_linux { Role::Every } else { Role::Nothing }
    };
    lines.iter().map(role).collect()
}

/// The name of the file that a line loads, in lower case.
fn image(line: &str) -> String {
    let (_, rest) = command(line).unwrap_or_default();
    let mut words = rest.split_whitespace();
    let path = words
        .find(|word| !word.starts_with("--"))
        .unwrap_or_default();
    let name = path.rsplit(['/', ')']).next().unwrap_or_default();
    name.to_lowercase()
}

fn is_linux_kernel(line: &str) -> bool {
    let (_, rest) = command(line).unwrap_or_default();
    let mut words = rest.split_whitespace();
    let of_type = words.find_map(|word| word.strip_prefix("--type="));
    let image = image(line);
    matches!(of_type, None | Some("linux" | "biglinux"))
        && !image.is_empty()
        && (is_named_linux(&image) || !NO_LINUX.iter().any(|name| image.contains(name)))
}

/// True of `vmlinuz-2.6-xen`, too.
fn is_named_linux(image: &str) -> bool {
    LINUX.iter().any(|name| image.starts_with(name))
}

fn is_linux_module(line: &str) -> bool {
    let image = image(line);
    let has_root = || {
        line.split_whitespace()
            .any(|word| word.starts_with("root="))
    };
    is_named_linux(&image) || has_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_linux_gets_it_and_no_other() {
        // `^` marks the lines that get it.
        let menu = "default=0\n\
            kernel /nothing/but/defaults^\n\
            title=Debian\n\
            \tkernel=/vmlinuz root=/dev/sda1 ro^\n\
            title Gentoo\n\
            kernel (hd0,0)/kernel-genkernel-x86_64-2.6.34 real_root=/dev/sda3^\n\
            initrd /initramfs\n\
            title By type\n\
            kernel --type=linux --no-mem-option /boot/image ro^\n\
            title BSD\n\
            kernel --type=freebsd /boot/loader\n\
            title Guest of Xen\n\
            kernel /boot/vmlinuz-2.6.18-xen root=/dev/sda1^\n\
            title Tests\n\
            kernel /boot/memtest86+.bin\n\
            title Old\n\
            # kernel /vmlinuz-old root=/dev/sda1\n\
            title Xen\n\
            kernel /xen.gz dom0_mem=1G elevator=xen\n\
            module /vmlinuz-2.6-xen ro root=/dev/sda1^\n\
            module /initrd-2.6-xen.img\n\
            title Xen by order\n\
            kernel /boot/xen-4.gz\n\
            module /boot/dom0 ro^\n\
            module /boot/rd\n\
            title Measured\n\
            kernel /tboot.gz logging=vga\n\
            module /xen.gz\n\
            module /vmlinuz ro^\n\
            title Hurd\n\
            kernel /boot/gnumach.gz root=device:hd0s1\n\
            module /hurd/ext2fs.static $(task-create)\n";
        let text = menu.replace('^', "");
        let edited = with_elevator(&text, Some("noop")).unwrap();
        assert_eq!(edited, menu.replace('^', " elevator=noop"));
        assert_eq!(
            with_elevator(&edited, Some("noop")).as_deref(),
            Ok(edited.as_str())
        );
        assert_eq!(with_elevator(&edited, None), Ok(text));
        assert_eq!(given(&edited).len(), menu.matches('^').count());
    }

    /// GRUB joins it with the next one.
    #[test]
    fn a_line_that_goes_on_is_refused_where_it_would_be_cut_in_two() {
        let menu = "title a\nkernel /vmlinuz ro \\\n quiet \\\n elevator=cfq root=/dev/sda1\n";
        let refused = Err((2, NotUnderstood::CONTINUED));
        assert_eq!(with_elevator(menu, Some("noop")), refused);
        assert_eq!(with_elevator(menu, None), refused);
        let plain = menu.replace(" elevator=cfq", "");
        assert_eq!(with_elevator(&plain, Some("noop")), refused);
        assert_eq!(with_elevator(&plain, None), Ok(plain));
        let other = "# a \\\ntitle b \\\nkernel /vmlinuz ro\n";
        assert!(with_elevator(other, Some("noop")).is_ok());
        assert_eq!(
            with_elevator("kernel /vmlinuz \\", Some("noop")),
            Err((1, NotUnderstood::CONTINUED))
        );
    }

    #[test]
    fn what_debians_update_grub_makes_its_entries_of_has_it_too() {
        let menu = format!(
            "{OF_UPDATE_GRUB}\n## kopt=root=/dev/hda1 ro\n# kopt=root=/dev/sda1 ro\n# kopt_2_6=root=/dev/sda1\n\
             # xenkopt=\n## alternatives\n# defoptions=quiet elevator=cfq\n# altoptions=(single-user mode) single\n\
             title x\nkernel /vmlinuz root=/dev/sda1 ro quiet elevator=cfq\n"
        );
        let edited = with_elevator(&menu, Some("noop")).unwrap();
        let expected = menu
            .replace(
                "# kopt=root=/dev/sda1 ro\n# kopt_2_6=root=/dev/sda1",
                "\
                # kopt=root=/dev/sda1 ro elevator=noop\n# kopt_2_6=root=/dev/sda1 elevator=noop",
            )
            .replace("=quiet elevator=cfq", "=quiet")
            .replace("elevator=cfq", "elevator=noop");
        assert_eq!(edited, expected);
        let lines: Vec<usize> = given(&menu).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [7, 10]);
        let by_hand = menu.replace(OF_UPDATE_GRUB, "");
        assert!(given(&by_hand).len() == 1, "comments are comments there");
    }
}
