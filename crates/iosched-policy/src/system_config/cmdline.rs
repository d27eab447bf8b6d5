//! `elevator=` on the kernel's command line, for disks on the single-queue path: put in, changed or taken out in
//! the files that boot loaders read, every other parameter kept. Pure.
//!
//! Where the whole effect of a file is not understood, its line is an error: nothing is left half done.
//!
//! Disks on blk-mq do not listen to it, and since 5.0 there are no others: there it is refused.

use std::fmt::Write;
use std::path::PathBuf;

use iosched_machine::host::Host;
use serde::Serialize;

use crate::system_config::bls;
use crate::system_config::parameter::{
    NotUnderstood, OpenQuote, PARAMETER, each_line, find_parameter, has_dashes, in_lines,
    value_of_parameter, with_parameter,
};

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    pub file: PathBuf,
    /// From 1; 0 for a file of one line.
    pub line: usize,
}

/// A file that carries the command line, in the way of its boot loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `/etc/default/grub`: `GRUB_CMDLINE_LINUX="…"`.
    GrubDefault,
    /// A file of `/etc/default/grub.d`, which Debian's and Ubuntu's GRUB reads after that.
    GrubDropIn,
    /// `menu.lst` of GRUB before 2: lines `kernel /vmlinuz …`, and `module /vmlinuz …` below Xen.
    MenuLst,
    /// `/etc/kernel/cmdline` of kernel-install: the parameters themselves.
    KernelInstall,
    /// `/etc/update-extlinux.conf` of Alpine: `default_kernel_opts="…"`.
    Extlinux,
    /// An entry of the Boot Loader Specification: lines `options …`.
    LoaderEntry,
    /// GRUB's environment block, whose `kernelopts` come before the entry's own options: taken out there, not put in.
    GrubEnvironment,
}

impl Format {
    /// What is to be done where a line of such a file is not understood.
    pub(crate) fn by_hand(self, value: Option<&str>) -> String {
        let (place, then) = match self {
            Format::GrubDropIn if value.is_some() => {
                return "have that file keep $GRUB_CMDLINE_LINUX and give no elevator=, then try again".into();
            }
            Format::GrubDefault | Format::GrubDropIn => (
                "GRUB_CMDLINE_LINUX",
                ", and run the boot loader's generator (update-grub, grub2-mkconfig)",
            ),
            Format::Extlinux => ("default_kernel_opts", ", and run update-extlinux"),
            Format::KernelInstall => ("the parameters there", ""),
            Format::MenuLst => ("its lines `kernel` (below Xen `module`)", ""),
            Format::LoaderEntry => ("its line `options`", ""),
            Format::GrubEnvironment => (
                "that variable (grub2-editenv)",
                "; tuned_params is TuneD's, by the cmdline of its profile",
            ),
        };
        match value.filter(|_| self != Format::GrubEnvironment) {
            Some(value) => format!("put elevator={value} into {place} by hand{then}"),
            None => format!("take elevator= out of {place} by hand{then}"),
        }
    }
}

/// The text of a file with `elevator=` set to this value everywhere; with none, taken out.
///
/// # Errors
/// The first line that had to be understood and is not.
pub(crate) fn with_elevator(
    text: &str,
    format: Format,
    value: Option<&str>,
) -> Result<String, NotUnderstood> {
    let without = edited(text, format, None)?;
    if let Some(&line) = lines_with_elevator(&without, format).first() {
        return Err(NotUnderstood::of(text, line, NotUnderstood::LEFT));
    }
    if value.is_none() {
        return Ok(without);
    }
    // Boot loaders skip a carriage return at the end of a line, shells do not.
    let skips_it = matches!(
        format,
        Format::LoaderEntry | Format::MenuLst | Format::GrubEnvironment
    );
    let has_it = |line: &str| !skips_it && line.ends_with('\r');
    if let Some(index) = text.split('\n').position(has_it) {
        return Err(NotUnderstood::of(
            text,
            index + 1,
            NotUnderstood::CARRIAGE_RETURN,
        ));
    }
    edited(text, format, value)
}

fn edited(text: &str, format: Format, value: Option<&str>) -> Result<String, NotUnderstood> {
    let open_quote = |line| NotUnderstood::of(text, line, NotUnderstood::QUOTE);
    match format {
        Format::GrubDefault => {
            check_script(text, GRUB, value.is_some())?;
            script(text, GRUB, value).map_err(open_quote)
        }
        Format::Extlinux => {
            check_script(text, EXTLINUX, value.is_some())?;
            script(text, EXTLINUX, value).map_err(open_quote)
        }
        Format::GrubDropIn => {
            check_drop_in(text, value.is_some())?;
            script(text, GRUB, None).map_err(open_quote)
        }
        Format::LoaderEntry => {
            in_lines(text, bls::is_options, "options ", value).map_err(open_quote)
        }
        Format::GrubEnvironment => bls::environment_without(text),
        Format::MenuLst => try_each_line(text, |line| menu_line(line, value)).map_err(open_quote),
        Format::KernelInstall => in_lines(text, is_parameters, "", value).map_err(open_quote),
    }
}

/// True of a line of kernel-install's file that is no comment, as mkinitcpio and ukify take them.
fn is_parameters(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with('#')
}

/// As [`each_line`], up to the first line that cannot be edited, whose number it gives, from 1.
fn try_each_line(
    text: &str,
    mut edit: impl FnMut(&str) -> Result<String, OpenQuote>,
) -> Result<String, usize> {
    let mut index = 0;
    let mut open = None;
    let edited = each_line(text, |line| {
        index += 1;
        edit(line).unwrap_or_else(|OpenQuote| {
            open.get_or_insert(index);
            line.to_owned()
        })
    });
    open.map_or(Ok(edited), Err)
}

/// Finds what [`script`] would misread: to put the parameter in, all that can touch the variables has to be
/// understood, the shell's conditions and functions included; to take it out, the lines that have it.
fn check_script(text: &str, every: &str, puts: bool) -> Result<(), NotUnderstood> {
    let lines = text.lines().enumerate();
    for (index, line) in lines.filter(|(_, line)| !line.trim_start().starts_with('#')) {
        let names_it = line.contains(every) && (puts || line.contains(PARAMETER));
        let assignment = Assignment::of(line);
        let is_all = assignment.as_ref().is_some_and(Assignment::is_all);
        let is_plain = assignment.as_ref().is_some_and(Assignment::is_plain);
        let is_shell = puts && !line.trim().is_empty() && !is_all;
        if is_shell || (names_it && !is_plain) {
            return Err(NotUnderstood::of(text, index + 1, NotUnderstood::SHELL));
        }
    }
    Ok(())
}

/// Finds in a file that is read after `/etc/default/grub` what would lose the parameter put in there, or has it in a
/// way that is not understood.
fn check_drop_in(text: &str, puts: bool) -> Result<(), NotUnderstood> {
    let lines = text.lines().enumerate();
    for (index, line) in lines.filter(|(_, line)| !line.trim_start().starts_with('#')) {
        let assigned = line
            .split_once(&format!("{GRUB}="))
            .map(|(_, assigned)| assigned);
        let loses = |assigned: &str| {
            let keeps = [
                format!("${GRUB} "),
                format!("${GRUB}\""),
                format!("${{{GRUB}}}"),
            ];
            !keeps.iter().any(|words| assigned.contains(words.as_str()))
        };
        let has_it = line.contains(GRUB) && line.contains(PARAMETER);
        let is_plain = Assignment::of(line).is_some_and(|assignment| assignment.is_plain());
        if puts && assigned.is_some_and(loses) {
            return Err(NotUnderstood::of(text, index + 1, NotUnderstood::LOSES));
        }
        if has_it && !is_plain {
            return Err(NotUnderstood::of(text, index + 1, NotUnderstood::LEFT));
        }
    }
    Ok(())
}

/// A line `NAME=…` of a shell, exported or not.
struct Assignment<'a> {
    /// What stands before the name.
    export: &'a str,
    name: &'a str,
    /// What stands after the `=`.
    assigned: &'a str,
}

impl Assignment<'_> {
    /// Nothing if the line is something else; that it goes on with another command is not looked for.
    fn of(line: &str) -> Option<Assignment<'_>> {
        let rest = line.strip_prefix("export ").unwrap_or(line);
        let (name, assigned) = rest.split_once('=')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.chars().all(is_name).then_some(Assignment {
            export: &line[..line.len() - rest.len()],
            name,
            assigned,
        })
    }

    /// True if the line goes on with no other command, and does not go on in the next one.
    fn is_all(&self) -> bool {
        let assigned = self.assigned;
        let is_quoted = assigned.starts_with(['"', '\'', '`']) || assigned.starts_with("$(");
        !assigned.ends_with('\\')
            && assigned.matches('"').count().is_multiple_of(2)
            && (is_quoted || !assigned.contains([';', '&', '|']))
    }

    /// True of words, quoted as a whole or not at all, with nothing but a comment after them.
    fn is_plain(&self) -> bool {
        let Some(Value {
            quote,
            inner,
            after,
        }) = Value::of(self.assigned)
        else {
            return false;
        };
        let odd: &[char] = if quote.is_some() {
            &['\\', '`']
        } else {
            &['\\', '`', '"', '\'', ';', '&', '|', '(', '$']
        };
        let after = after.trim_start();
        !inner.contains(odd) && (after.is_empty() || after.starts_with('#'))
    }
}

/// The right side of an assignment.
struct Value<'a> {
    quote: Option<char>,
    /// Without quotes.
    inner: &'a str,
    after: &'a str,
}

impl Value<'_> {
    /// Nothing if it goes on in the next line.
    fn of(assigned: &str) -> Option<Value<'_>> {
        let quote = assigned.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (inner, after) = match quote {
            Some(quote) => assigned[1..].split_once(quote)?,
            None => assigned.split_at(assigned.find(char::is_whitespace).unwrap_or(assigned.len())),
        };
        Some(Value {
            quote,
            inner,
            after,
        })
    }
}

/// The variable of GRUB that counts for every entry; the names of the others begin like it.
const GRUB: &str = "GRUB_CMDLINE_LINUX";

/// The variable of Alpine's update-extlinux.
const EXTLINUX: &str = "default_kernel_opts";

/// The value is put into the variable that counts for every entry, and taken out of all others, which come after it.
fn script(text: &str, every: &str, value: Option<&str>) -> Result<String, usize> {
    let mut is_put = false;
    let mut edited = try_each_line(text, |line| {
        let Some(Assignment {
            export,
            name,
            assigned,
        }) = Assignment::of(line).filter(|assignment| assignment.name.starts_with(every))
        else {
            return Ok(line.to_owned());
        };
        // Several assignments of one variable: the last one counts, so all are the same.
        let put = (name == every).then_some(value).flatten();
        is_put |= put.is_some();
        Ok(format!("{export}{name}={}", quoted_with(assigned, put)?))
    })?;
    if let (Some(value), false) = (value, is_put) {
        if !edited.is_empty() && !edited.ends_with('\n') {
            edited.push('\n');
        }
        // Should something that is sourced set it, that stays.
        let _ = writeln!(edited, "{every}=\"${every} {PARAMETER}{value}\"");
    }
    Ok(edited)
}

/// The right side of a shell assignment with the parameter in it, quoted as it was; a comment after it
/// stays.
fn quoted_with(assigned: &str, value: Option<&str>) -> Result<String, OpenQuote> {
    let Some(Value {
        quote,
        inner,
        after,
    }) = Value::of(assigned)
    else {
        return Ok(assigned.to_owned()); // not ours to guess
    };
    let quote = quote.unwrap_or('"');
    let edited = with_parameter(inner, value)?;
    if edited == inner {
        return Ok(assigned.to_owned());
    }
    Ok(format!("{quote}{edited}{quote}{after}"))
}

/// A line `kernel /boot/vmlinuz root=…` of an entry (not of a memory test), or `module /boot/vmlinuz root=…` where Xen is
/// the kernel.
fn menu_line(line: &str, value: Option<&str>) -> Result<String, OpenQuote> {
    let mut words = line.split_whitespace().skip(1);
    let is_linux = is_kernel(line)
        && (words.any(|word| word.starts_with("root=") || word.contains("vmlinuz"))
            || find_parameter(line, 0).is_some());
    if is_linux {
        with_parameter(line, value)
    } else {
        Ok(line.to_owned())
    }
}

fn is_kernel(line: &str) -> bool {
    matches!(line.split_whitespace().next(), Some("kernel" | "module"))
}

/// The value of `elevator=` that this boot was given last, which is the one that counts.
pub(crate) fn given_at_boot(host: &Host) -> Option<String> {
    let line = std::fs::read(host.proc("cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let words = std::iter::successors(find_parameter(&line, 0), |word| {
        find_parameter(&line, word.end)
    });
    let values = words.filter_map(|word| value_of_parameter(&line[word]));
    values.last().map(str::to_owned)
}

/// The value of `elevator=` where a file gives it first; comments do not.
pub(crate) fn elevator_in(text: &str, format: Format) -> Option<String> {
    let line = *lines_with_elevator(text, format).first()?;
    given_in(text.lines().nth(line - 1)?, format)
}

/// The numbers, from 1, of the lines in which a file gives `elevator=` to the kernel.
pub(super) fn lines_with_elevator(text: &str, format: Format) -> Vec<usize> {
    let is_one_line = matches!(format, Format::KernelInstall | Format::LoaderEntry);
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if given_in(line, format).is_some() {
            found.push(index + 1);
        }
        if is_one_line && is_read(line, format) && has_dashes(line) {
            break; // the rest is for init
        }
    }
    found
}

/// True of a line that may have parameters; of a script every one that is no comment.
fn is_read(line: &str, format: Format) -> bool {
    match format {
        Format::LoaderEntry => bls::is_options(line),
        Format::MenuLst => is_kernel(line),
        _ => is_parameters(line),
    }
}

/// The value that a line gives.
fn given_in(line: &str, format: Format) -> Option<String> {
    if !is_read(line, format) {
        return None;
    }
    let found = match format {
        Format::LoaderEntry | Format::MenuLst | Format::KernelInstall => value_of_parameter(line),
        Format::GrubEnvironment => value_of_parameter(line.split_once('=')?.1),
        Format::GrubDefault | Format::GrubDropIn | Format::Extlinux => {
            let assignment = Assignment::of(line).filter(Assignment::is_plain);
            let value = assignment.and_then(|assignment| Value::of(assignment.assigned));
            let Some(value) = value else {
                let words = line.replace(['"', '\''], " ");
                return value_of_parameter(&words).map(str::to_owned);
            };
            value_of_parameter(value.inner)
        }
    };
    found.map(str::to_owned)
}

/// The value that a script gives a variable last, as far as that is plain.
pub(super) fn variable<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| {
        let assignment = Assignment::of(line.trim_start()).filter(|of| of.name == name)?;
        Some(Value::of(assignment.assigned)?.inner)
    };
    text.lines().filter_map(value).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_set_once_and_every_other_one_kept() {
        for (text, value, expected) in [
            (
                "root=/dev/sda1 ro quiet",
                Some("noop"),
                "root=/dev/sda1 ro quiet elevator=noop",
            ),
            ("elevator=cfq ro", Some("noop"), "elevator=noop ro"),
            (
                "ro elevator=cfq  quiet elevator=deadline",
                Some("noop"),
                "ro elevator=noop  quiet",
            ),
            ("ro elevator=cfq quiet", None, "ro quiet"),
            ("elevator=cfq quiet", None, "quiet"),
            ("elevator=cfq", None, ""),
            ("", Some("noop"), "elevator=noop"),
            (
                "x.elevator=1 ro",
                Some("noop"),
                "x.elevator=1 ro elevator=noop",
            ),
        ] {
            let edited = with_parameter(text, value);
            assert_eq!(edited.as_deref(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn blanks_after_the_parameters_of_kernel_install_stay() {
        for (text, expected) in [
            ("ro elevator=cfq", "ro"),
            ("ro elevator=cfq \n\n", "ro \n\n"),
            ("\nelevator=cfq\n", "\n\n"),
            ("ro quiet\n# elevator=cfq\n", "ro quiet\n# elevator=cfq\n"),
        ] {
            let without = |text: &str| with_elevator(text, Format::KernelInstall, None).unwrap();
            assert_eq!(without(text), expected);
            assert_eq!(without(expected), expected, "nothing is left to take out");
        }
    }

    /// `/etc/default/grub` as Ubuntu 16.04 and RHEL 7 have it, in our own words.
    const UBUNTU: &str = "GRUB_DEFAULT=0\n#GRUB_HIDDEN_TIMEOUT=0\nGRUB_TIMEOUT=10\n\
        GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash elevator=cfq\"\nGRUB_CMDLINE_LINUX=\"\"\n";
    const RHEL: &str = "GRUB_TIMEOUT=5\nGRUB_DISABLE_SUBMENU=true\n\
        GRUB_CMDLINE_LINUX=\"crashkernel=auto rd.lvm.lv=rhel/root rhgb quiet\" # ours\nGRUB_DISABLE_RECOVERY='true'\n";
    const SLES: &str = "default 0\ntimeout 8\n##YaST - activate\n\ntitle SUSE Linux Enterprise Server 11\n    \
        root (hd0,1)\n    kernel /boot/vmlinuz-3.0.101 root=/dev/sda2 resume=/dev/sda1 splash=silent showopts\n    \
        initrd /boot/initrd-3.0.101\n\ntitle Failsafe\n    kernel /boot/vmlinuz-3.0.101 root=/dev/sda2 noresume\n\n\
        title Memory test\n    kernel /boot/memtest.bin\n";

    #[test]
    fn a_grub_file_that_is_more_than_assignments_is_refused_by_its_line() {
        for (text, line) in [
            (
                "A=1\nif [ -e /x ]; then\n  GRUB_CMDLINE_LINUX=\"quiet\"\nfi\n",
                2,
            ),
            ("[ -e /x ] && GRUB_CMDLINE_LINUX=\"quiet\"\n", 1),
            ("GRUB_CMDLINE_LINUX+=\" quiet\"\n", 1),
            (
                "# ours\nGRUB_CMDLINE_LINUX=\"dyndbg=\\\"file a +p\\\" ro\"\n",
                2,
            ),
            ("GRUB_CMDLINE_LINUX=\"ro \\\n quiet\"\n", 1),
            ("GRUB_CMDLINE_LINUX=\"ro\"' quiet'\n", 1),
            ("GRUB_CMDLINE_LINUX=ro\\ quiet\n", 1),
            ("GRUB_CMDLINE_LINUX=\"$(cat /x)\" ; x\n", 1),
            (". /etc/default/grub.more\n", 1),
            ("add() {\n", 1),
            ("[ -f /x ] && . /x\n", 1),
            ("test -f /x && source /x\n", 1),
            ("A=1; . /x\n", 1),
            ("set -a; . /x\n", 1),
        ] {
            let error = with_elevator(text, Format::GrubDefault, Some("noop")).unwrap_err();
            assert_eq!(error.line, line, "{text}");
            let same = with_elevator(text, Format::GrubDefault, None);
            assert_eq!(same.as_deref(), Ok(text), "it holds nothing to take out");
        }
        let hidden = "GRUB_CMDLINE_LINUX+=\" elevator=cfq\"\n";
        assert!(with_elevator(hidden, Format::GrubDefault, None).is_err());
    }

    #[test]
    fn an_exported_variable_keeps_what_root_wrote() {
        let text = "export GRUB_CMDLINE_LINUX=\"ro quiet\"\n";
        let edited = with_elevator(text, Format::GrubDefault, Some("noop")).unwrap();
        assert_eq!(
            edited,
            "export GRUB_CMDLINE_LINUX=\"ro quiet elevator=noop\"\n"
        );
        assert_eq!(
            with_elevator(&edited, Format::GrubDefault, None).as_deref(),
            Ok(text)
        );
    }

    #[test]
    fn grub_of_ubuntu_16_04_gets_it_for_every_entry_and_loses_the_one_that_came_after() {
        let edited = with_elevator(UBUNTU, Format::GrubDefault, Some("deadline")).unwrap();
        assert_eq!(
            edited,
            UBUNTU
                .replace("quiet splash elevator=cfq", "quiet splash")
                .replace(
                    "GRUB_CMDLINE_LINUX=\"\"",
                    "GRUB_CMDLINE_LINUX=\"elevator=deadline\""
                )
        );
        let removed = with_elevator(&edited, Format::GrubDefault, None).unwrap();
        assert_eq!(removed, UBUNTU.replace(" elevator=cfq", ""));
    }

    #[test]
    fn grub_of_rhel_7_keeps_crashkernel_volumes_and_the_comment() {
        let edited = with_elevator(RHEL, Format::GrubDefault, Some("noop")).unwrap();
        assert_eq!(
            edited,
            RHEL.replace("rhgb quiet\"", "rhgb quiet elevator=noop\"")
        );
        assert_eq!(
            with_elevator(&edited, Format::GrubDefault, None).unwrap(),
            RHEL
        );
    }

    #[test]
    fn a_comment_after_the_parameters_of_kernel_install_gets_nothing() {
        let text = "root=/dev/sda1 ro\n# quiet\n";
        let edited = with_elevator(text, Format::KernelInstall, Some("noop")).unwrap();
        assert_eq!(edited, text.replace("ro\n", "ro elevator=noop\n"));
        assert_eq!(
            with_elevator(&edited, Format::KernelInstall, None).unwrap(),
            text
        );
    }

    #[test]
    fn what_gives_it_where_it_cannot_be_taken_out_is_named() {
        for (text, format, line) in [
            (
                "MORE=\"elevator=cfq\"\nGRUB_CMDLINE_LINUX=\"ro $MORE\"\n",
                Format::GrubDefault,
                1,
            ),
            (
                "GRUB_CMDLINE_LINUX=\"ro \\\n  elevator=cfq quiet\"\n",
                Format::GrubDefault,
                2,
            ),
            ("A=1\nMORE=elevator=cfq\n", Format::GrubDropIn, 2),
            (
                "default_kernel_opts=\"ro \\\nelevator=cfq\"\n",
                Format::Extlinux,
                2,
            ),
            (
                "# GRUB Environment Block\nkernelopts=ro\ntuned_params=elevator=cfq\n",
                Format::GrubEnvironment,
                3,
            ),
        ] {
            let error = with_elevator(text, format, None).unwrap_err();
            assert_eq!(
                (error.line, error.why),
                (line, NotUnderstood::LEFT),
                "{text}"
            );
            assert!(with_elevator(text, format, Some("noop")).is_err(), "{text}");
        }
        for (text, format) in [
            (
                "GRUB_CMDLINE_LINUX=\"ro -- elevator=init\" # elevator=cfq\n",
                Format::GrubDefault,
            ),
            ("ro -- x\nelevator=init\n", Format::KernelInstall),
            ("title elevator=cfq\nlinux /l\n", Format::LoaderEntry),
        ] {
            let same = with_elevator(text, format, None);
            assert_eq!(same.as_deref(), Ok(text), "it gives nothing to the kernel");
            assert_eq!(elevator_in(text, format), None, "{text}");
        }
    }

    #[test]
    fn a_carriage_return_is_kept_where_it_is_skipped_and_refused_where_a_shell_reads_it() {
        let menu = "title A\r\n kernel /vmlinuz root=/dev/sda1 ro\r\n";
        let edited = with_elevator(menu, Format::MenuLst, Some("noop")).unwrap();
        assert_eq!(edited, menu.replace("ro\r", "ro elevator=noop\r"));
        assert_eq!(with_elevator(&edited, Format::MenuLst, None).unwrap(), menu);
        for (text, format) in [
            ("A=1\nGRUB_CMDLINE_LINUX=\"ro\"\r\n", Format::GrubDefault),
            ("A=1\ndefault_kernel_opts=\"ro\"\r\n", Format::Extlinux),
            ("root=/dev/sda1\nro\r\n", Format::KernelInstall),
        ] {
            let error = with_elevator(text, format, Some("noop")).unwrap_err();
            assert_eq!(
                (error.line, error.why),
                (2, NotUnderstood::CARRIAGE_RETURN),
                "{text:?}"
            );
            assert_eq!(with_elevator(text, format, None).as_deref(), Ok(text));
        }
    }

    #[test]
    fn an_entry_of_xen_gets_it_at_linux_and_not_at_the_hypervisor() {
        let text = "title Xen\n\tkernel /xen.gz dom0_mem=1G\n\tmodule /vmlinuz-2.6.32-xen ro root=/dev/sda1\n\t\
            module /initrd-2.6.32-xen.img\n";
        let edited = with_elevator(text, Format::MenuLst, Some("noop")).unwrap();
        assert_eq!(edited, text.replace("sda1\n", "sda1 elevator=noop\n"));
        assert_eq!(with_elevator(&edited, Format::MenuLst, None).unwrap(), text);
    }

    #[test]
    fn a_quoted_parameter_keeps_its_blanks_and_a_quote_that_is_open_is_refused() {
        let text = "GRUB_CMDLINE_LINUX='dyndbg=\"file a.c +p\" ro'\n";
        let edited = with_elevator(text, Format::GrubDefault, Some("noop")).unwrap();
        assert_eq!(edited, text.replace(" ro'", " ro elevator=noop'"));
        for (text, format) in [
            ("linux /l\noptions dyndbg=\"file a\n", Format::LoaderEntry),
            ("kernel /vmlinuz root=/dev/sda1 a=\"b\n", Format::MenuLst),
        ] {
            let error = with_elevator(text, format, Some("noop")).unwrap_err();
            assert_eq!(error.why, NotUnderstood::QUOTE, "{text}");
            assert_eq!(with_elevator(text, format, None).as_deref(), Ok(text));
        }
    }

    #[test]
    fn menu_lst_of_sles_11_gets_it_in_every_linux_entry_and_in_no_other() {
        let edited = with_elevator(SLES, Format::MenuLst, Some("noop")).unwrap();
        assert_eq!(
            edited,
            SLES.replace("showopts\n", "showopts elevator=noop\n")
                .replace("noresume\n", "noresume elevator=noop\n")
        );
        assert_eq!(with_elevator(&edited, Format::MenuLst, None).unwrap(), SLES);
    }

    #[test]
    fn a_grub_file_without_the_variable_gets_it() {
        assert_eq!(
            with_elevator("GRUB_TIMEOUT=1", Format::GrubDefault, Some("noop")).unwrap(),
            "GRUB_TIMEOUT=1\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX elevator=noop\"\n"
        );
    }

    /// Lines of grub's file, some of them not understood.
    const LINES: [&str; 16] = [
        "GRUB_TIMEOUT=1",
        "# GRUB_CMDLINE_LINUX=\"old\"",
        "",
        "GRUB_CMDLINE_LINUX=\"ro quiet\"",
        "GRUB_CMDLINE_LINUX='ro root=/dev/sda1' # ours",
        "GRUB_CMDLINE_LINUX=ro",
        "GRUB_CMDLINE_LINUX=",
        "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX elevator=cfq rw\"",
        "GRUB_CMDLINE_LINUX_DEFAULT=\"splash elevator=deadline\"",
        "export GRUB_CMDLINE_LINUX=\"crashkernel=auto\"",
        "  GRUB_CMDLINE_LINUX=\"indented\"",
        "GRUB_CMDLINE_LINUX=\"a \\\"b c\\\" d\"",
        "GRUB_CMDLINE_LINUX=\"two\"' quotes'",
        "test -e /nonexistent && GRUB_CMDLINE_LINUX=lost",
        "if true; then GRUB_CMDLINE_LINUX=kept; fi",
        "GRUB_CMDLINE_LINUX=\"$(echo run)\"",
    ];

    /// The words of the command line as a shell reads them.
    fn words_of(text: &str) -> Vec<String> {
        let script = format!(
            "{text}\nprintf '%s %s' \"$GRUB_CMDLINE_LINUX\" \"$GRUB_CMDLINE_LINUX_DEFAULT\"\n"
        );
        let output = std::process::Command::new("sh")
            .arg("-c")
            .arg(script)
            .output()
            .unwrap();
        let words = String::from_utf8(output.stdout).unwrap();
        words.split_whitespace().map(str::to_owned).collect()
    }

    proptest::proptest! {
        #[test]
        fn a_shell_reads_every_other_word_as_before_and_ours_once(
            lines in proptest::collection::vec(proptest::sample::select(LINES.to_vec()), 0..6),
        ) {
            let text = lines.join("\n") + "\n";
            let others = |text: &str| {
                let words = words_of(text).into_iter();
                words.filter(|word| !word.starts_with(PARAMETER)).collect::<Vec<_>>()
            };
            if let Ok(edited) = with_elevator(&text, Format::GrubDefault, Some("noop")) {
                proptest::prop_assert_eq!(others(&edited), others(&text), "{}", edited);
                let ours: Vec<_> = words_of(&edited);
                let ours = ours.iter().filter(|word| word.starts_with(PARAMETER));
                proptest::prop_assert!(ours.clone().count() >= 1, "{}", edited);
                proptest::prop_assert!(ours.clone().all(|word| word == "elevator=noop"), "{}", edited);
            }
            if let Ok(edited) = with_elevator(&text, Format::GrubDefault, None) {
                proptest::prop_assert_eq!(words_of(&edited), others(&text), "{}", edited);
            }
        }

        #[test]
        fn putting_in_and_taking_out_keeps_every_other_parameter(
            words in proptest::collection::vec("[a-z]{1,5}(=[a-z0-9/.,]{1,5})?", 0..6),
            at in 0..6usize,
        ) {
            let words: Vec<String> = words.into_iter().filter(|w| !w.starts_with(PARAMETER)).collect();
            let mut with = words.clone();
            with.insert(at.min(words.len()), "elevator=cfq".into());
            let set = with_parameter(&with.join(" "), Some("noop")).unwrap();
            proptest::prop_assert_eq!(&set, &with.join(" ").replace("elevator=cfq", "elevator=noop"));
            proptest::prop_assert_eq!(with_parameter(&set, None), Ok(words.join(" ")));
        }
    }
}
