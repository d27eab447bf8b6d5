//! `elevator=` on the kernel's command line, for disks on the single-queue path: put in, changed or taken out in
//! the files that boot loaders read, every other parameter kept. Pure.
//!
//! Disks on blk-mq do not listen to it, and since 5.0 there are no others: there it is refused.

use std::fmt::Write;
use std::path::PathBuf;

use iosched_machine::host::Host;
use serde::Serialize;

use crate::system_config::bls;
use crate::system_config::parameter::{
    NotUnderstood, PARAMETER, each_line, find_parameter, with_parameter,
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
    /// `menu.lst` of GRUB before 2: lines `kernel /vmlinuz …`.
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

/// The text of a file with `elevator=` set to this value everywhere; with none, taken out.
///
/// # Errors
/// The first line that had to be understood and is not.
pub(crate) fn with_elevator(
    text: &str,
    format: Format,
    value: Option<&str>,
) -> Result<String, NotUnderstood> {
    Ok(match format {
        Format::GrubDefault => {
            check_script(text, GRUB, value.is_some())?;
            script(text, GRUB, value)
        }
        Format::Extlinux => {
            check_script(text, EXTLINUX, value.is_some())?;
            script(text, EXTLINUX, value)
        }
        Format::GrubDropIn => {
            check_drop_in(text, value.is_some())?;
            script(text, GRUB, None)
        }
        Format::LoaderEntry => bls::entry(text, value),
        Format::GrubEnvironment => bls::environment_without(text)?,
        Format::MenuLst => each_line(text, |line| menu_line(line, value)),
        Format::KernelInstall => {
            let (parameters, blank) = text.split_at(text.trim_end().len());
            let blank = if blank.is_empty() { "\n" } else { blank };
            with_parameter(parameters, value) + blank
        }
    })
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
            return Err(NotUnderstood {
                line: index + 1,
                text: line.trim().to_owned(),
            });
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
        if (puts && assigned.is_some_and(loses)) || (has_it && !is_plain) {
            return Err(NotUnderstood {
                line: index + 1,
                text: line.trim().to_owned(),
            });
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
fn script(text: &str, every: &str, value: Option<&str>) -> String {
    let mut is_put = false;
    let mut edited = each_line(text, |line| {
        let Some(Assignment {
            export,
            name,
            assigned,
        }) = Assignment::of(line).filter(|assignment| assignment.name.starts_with(every))
        else {
            return line.to_owned();
        };
        // Several assignments of one variable: the last one counts, so all are the same.
        let put = (name == every).then_some(value).flatten();
        is_put |= put.is_some();
        format!("{export}{name}={}", quoted_with(assigned, put))
    });
    if let (Some(value), false) = (value, is_put) {
        if !edited.is_empty() && !edited.ends_with('\n') {
            edited.push('\n');
        }
        // Should something that is sourced set it, that stays.
        let _ = writeln!(edited, "{every}=\"${every} {PARAMETER}{value}\"");
    }
    edited
}

/// The right side of a shell assignment with the parameter in it, quoted as it was; a comment after it
/// stays.
fn quoted_with(assigned: &str, value: Option<&str>) -> String {
    let Some(Value {
        quote,
        inner,
        after,
    }) = Value::of(assigned)
    else {
        return assigned.to_owned(); // not ours to guess
    };
    let quote = quote.unwrap_or('"');
    let edited = with_parameter(inner, value);
    if edited == inner {
        return assigned.to_owned();
    }
    format!("{quote}{edited}{quote}{after}")
}

/// A line `kernel /boot/vmlinuz root=…` of an entry (not of a memory test).
fn menu_line(line: &str, value: Option<&str>) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_linux = words.first() == Some(&"kernel")
        && words
            .iter()
            .any(|word| word.starts_with("root=") || word.contains("vmlinuz"));
    if is_linux {
        with_parameter(line, value)
    } else {
        line.to_owned()
    }
}

/// The value of `elevator=` that this boot was given last, which is the one that counts.
pub(crate) fn given_at_boot(host: &Host) -> Option<String> {
    let line = std::fs::read_to_string(host.proc("cmdline")).unwrap_or_default();
    let values = line
        .split_whitespace()
        .filter_map(|word| word.strip_prefix(PARAMETER));
    values.map(str::to_owned).next_back()
}

/// The value of `elevator=` where a text gives it first; comments do not.
pub(crate) fn elevator_in(text: &str) -> Option<String> {
    text.lines().find_map(given_in)
}

/// The value that a line gives.
pub(super) fn given_in(line: &str) -> Option<String> {
    if line.trim_start().starts_with('#') {
        return None;
    }
    let of_variable = Assignment::of(line).filter(|variable| variable.name != "elevator");
    let line = of_variable.map_or(line, |variable| variable.assigned);
    let parameters = line.replace(['"', '\''], " ");
    let (start, end) = find_parameter(&parameters, 0)?;
    Some(parameters[start + PARAMETER.len()..end].to_owned())
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
            assert_eq!(with_parameter(text, value), expected, "{text:?}");
        }
    }

    #[test]
    fn blanks_after_the_parameters_of_kernel_install_stay() {
        for (text, expected) in [
            ("ro elevator=cfq", "ro\n"),
            ("ro elevator=cfq \n\n", "ro \n\n"),
            ("\nelevator=cfq\n", "\n\n"),
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
            let set = with_parameter(&with.join(" "), Some("noop"));
            proptest::prop_assert_eq!(&set, &with.join(" ").replace("elevator=cfq", "elevator=noop"));
            proptest::prop_assert_eq!(with_parameter(&set, None), words.join(" "));
        }
    }
}
