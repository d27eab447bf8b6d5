//! `elevator=` on the kernel's command line, for disks on the single-queue path: put in, changed or taken out in
//! the files that boot loaders read, every other parameter kept. Pure.
//!
//! Where the whole effect of a file is not understood, its line is an error: nothing is left half done.
//!
//! Disks on blk-mq do not listen to it, and since 5.0 there are no others: there it is refused.

use std::path::{Path, PathBuf};

use iosched_machine::host::Host;
use iosched_machine::lossy;
use serde::{Serialize, Serializer};

use crate::system_config::parameter::{
    GoesInto, NotUnderstood, find_parameter, has_dashes, in_lines, value_of_parameter,
};
use crate::system_config::{bls, menu_lst, scripts};

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileLine {
    #[serde(serialize_with = "displayed")]
    pub file: PathBuf,
    /// From 1; 0 for a file of one line.
    pub line: usize,
}

/// JSON has no bytes that are no text.
fn displayed<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
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
    /// The same where GRUB reads it, which takes the first of these lines, and other parameters where there is none.
    GrubEntry,
    /// GRUB's environment block, with the `kernelopts` of entries that name them.
    GrubEnvironment,
}

impl Format {
    /// What is to be done where a line of such a file is not understood.
    pub(crate) fn by_hand(
        self,
        value: Option<&str>,
        path: &Path,
        text: &str,
        line: &NotUnderstood,
    ) -> String {
        if line.why == NotUnderstood::CARRIAGE_RETURN {
            let path = path.display();
            return format!(
                "take the carriage returns out, then try again: sed -i 's/\\r$//' {path}"
            );
        }
        if [NotUnderstood::NO_OPTIONS, NotUnderstood::UNDEFINED].contains(&&*line.why) {
            return "give it a line `options` with all its parameters (`cat /proc/cmdline`, if it is what was started), before any \
                    empty line, then try again"
                .to_owned();
        }
        if line.why == NotUnderstood::ALONE {
            return "put the parameters that it is to have into that line, then try again; or take the line out by hand, if \
                    those of default_kernelopts in grub.cfg are right"
                .to_owned();
        }
        let is_left = line.why == NotUnderstood::LEFT;
        if let (Format::GrubDropIn, Some(value), false) = (self, value, is_left) {
            return format!(
                "have {} keep $GRUB_CMDLINE_LINUX, in plain assignments and with no elevator=, then try again; or write \
                 GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX elevator={value}\" into {GRUB_LAST}, which is read last, and run \
                 update-grub",
                path.display()
            );
        }
        let assigned = is_left
            .then(|| scripts::assigned_in(text, line.line))
            .flatten();
        let (place, then) = match self {
            Format::GrubDefault | Format::GrubDropIn => (
                assigned.as_deref().unwrap_or("GRUB_CMDLINE_LINUX"),
                ", and run the boot loader's generator (update-grub, grub2-mkconfig)",
            ),
            Format::Extlinux => (
                assigned.as_deref().unwrap_or("default_kernel_opts"),
                ", and run update-extlinux",
            ),
            Format::KernelInstall => ("the parameters there", ""),
            Format::MenuLst => ("its lines `kernel` (below Xen `module`)", ""),
            Format::LoaderEntry | Format::GrubEntry => ("its line `options`", ""),
            Format::GrubEnvironment if line.why == NotUnderstood::NO_ROOM => {
                return "shorten kernelopts, then try again: grub2-editenv - set kernelopts=\"…\""
                    .to_owned();
            }
            Format::GrubEnvironment => (
                "that variable (grub2-editenv)",
                "; tuned_params is TuneD's, by the cmdline of its profile",
            ),
        };
        // What gives it already has to go first.
        match value.filter(|_| self != Format::GrubEnvironment && assigned.is_none()) {
            Some(value) => format!("put elevator={value} into {place} by hand{then}"),
            None => format!("take elevator= out of {place} by hand{then}"),
        }
    }

    /// What the shell's part of the work calls it; nothing if no shell reads it.
    fn script(self) -> Option<scripts::ScriptKind> {
        match self {
            Format::GrubDefault => Some(scripts::ScriptKind::Grub),
            Format::GrubDropIn => Some(scripts::ScriptKind::GrubDropIn),
            Format::Extlinux => Some(scripts::ScriptKind::Extlinux),
            _ => None,
        }
    }
}

/// A file that is read after all others of `/etc/default/grub.d`.
const GRUB_LAST: &str = "/etc/default/grub.d/zz-local.cfg";

/// The text of a file with `elevator=` set to this value everywhere; with none, taken out.
///
/// # Errors
/// The first line that had to be understood and is not.
pub(crate) fn with_elevator(
    text: &str,
    format: Format,
    value: Option<&str>,
) -> Result<String, NotUnderstood> {
    if format.script().is_some() {
        let edited = with_elevator_in_scripts(&[(text, format)], value);
        return edited
            .map_err(|(_, error)| error)
            .map(|mut edited| edited.remove(0));
    }
    let without = edited(text, format, None)?;
    if let Some((line, _)) = given(&without, format).into_iter().next() {
        return Err(NotUnderstood::of(text, line, NotUnderstood::LEFT));
    }
    let check = |after: String| match format {
        Format::GrubEntry => bls::check_for_grub(text, &after, value).map(|()| after),
        _ => Ok(after),
    };
    if value.is_none() {
        return check(without);
    }
    // To GRUB, which reads an entry as a script, the blank after it is a part of the word.
    let goes_on = |line: &str| bls::is_options(line) && line.trim_end().ends_with('\\');
    if matches!(format, Format::LoaderEntry | Format::GrubEntry)
        && let Some(index) = text.lines().position(goes_on)
    {
        return Err(NotUnderstood::of(text, index + 1, NotUnderstood::BACKSLASH));
    }
    // Boot loaders skip a carriage return at the end of a line, what reads this file does not.
    let has_it = |line: &str| format == Format::KernelInstall && line.ends_with('\r');
    if let Some(index) = text.split('\n').position(has_it) {
        return Err(NotUnderstood::of(
            text,
            index + 1,
            NotUnderstood::CARRIAGE_RETURN,
        ));
    }
    check(edited(text, format, value)?)
}

/// The same for files that a shell sources one after the other.
///
/// # Errors
/// Which of the files, and what of it.
pub(crate) fn with_elevator_in_scripts(
    texts: &[(&str, Format)],
    value: Option<&str>,
) -> Result<Vec<String>, (usize, NotUnderstood)> {
    let scripts: Vec<_> = texts
        .iter()
        .filter_map(|&(text, format)| Some((text, format.script()?)))
        .collect();
    assert_eq!(scripts.len(), texts.len(), "a shell reads all of them");
    scripts::with_elevator(&scripts, value)
}

fn edited(text: &str, format: Format, value: Option<&str>) -> Result<String, NotUnderstood> {
    let open_quote = |line| NotUnderstood::of(text, line, NotUnderstood::QUOTE);
    match format {
        Format::LoaderEntry | Format::GrubEntry => {
            bls::with_elevator(text, value).map_err(open_quote)
        }
        Format::GrubEnvironment => bls::environment_with(text, value),
        Format::MenuLst => menu_lst::with_elevator(text, value)
            .map_err(|(line, why)| NotUnderstood::of(text, line, why)),
        Format::KernelInstall => {
            let edited = in_lines(text, is_parameters, "", GoesInto::ItsOwnOrLast, value);
            let edited = edited.map_err(open_quote)?;
            // What stood behind the parameter may begin a comment now.
            let is_lost = |(before, after): (&str, &str)| {
                is_parameters(before) && !is_parameters(after) && !after.trim().is_empty()
            };
            match text.lines().zip(edited.lines()).position(is_lost) {
                Some(index) => Err(NotUnderstood::of(text, index + 1, NotUnderstood::LEFT)),
                None => Ok(edited),
            }
        }
        Format::GrubDefault | Format::GrubDropIn | Format::Extlinux => Ok(text.to_owned()),
    }
}

/// True of a line of kernel-install's file that is no comment, as mkinitcpio and ukify take them.
fn is_parameters(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with('#')
}

/// The longest line that any kernel takes is a small part of that (`COMMAND_LINE_SIZE`).
const LONGEST: usize = 64 << 10;

/// What the running kernel was given; nothing where that is longer than any kernel takes, as in a copied tree.
pub(crate) fn of_this_boot(host: &Host) -> String {
    let mut line = lossy::read(host.proc("cmdline")).unwrap_or_default();
    if line.len() > LONGEST {
        line.clear();
    }
    line
}

/// The value of `elevator=` that this boot was given last, which is the one that counts.
pub(crate) fn given_at_boot(host: &Host) -> Option<String> {
    let line = of_this_boot(host);
    let words = std::iter::successors(find_parameter(&line, 0), |word| {
        find_parameter(&line, word.end)
    });
    let values = words.filter_map(|word| value_of_parameter(&line[word]));
    values.last().map(str::to_owned)
}

/// The value of `elevator=` where a file gives it first; comments do not.
pub(crate) fn elevator_in(text: &str, format: Format) -> Option<String> {
    given(text, format)
        .into_iter()
        .next()
        .map(|(_, value)| value)
}

/// The numbers, from 1, of the lines in which a file gives `elevator=` to the kernel.
pub(super) fn lines_with_elevator(text: &str, format: Format) -> Vec<usize> {
    given(text, format)
        .into_iter()
        .map(|(line, _)| line)
        .collect()
}

/// The same, each with its value.
pub(super) fn given(text: &str, format: Format) -> Vec<(usize, String)> {
    match format {
        Format::GrubDefault | Format::GrubDropIn | Format::Extlinux => scripts::given(text),
        Format::MenuLst => menu_lst::given(text),
        Format::GrubEnvironment => given_in_lines(text, |line| {
            is_parameters(line).then(|| line.split_once('=').map_or("", |(_, value)| value))
        }),
        Format::KernelInstall => given_in_lines(before_init(text, is_parameters), |line| {
            is_parameters(line).then_some(line)
        }),
        Format::LoaderEntry => given_in_lines(before_init(text, bls::is_options), |line| {
            bls::is_options(line).then_some(line)
        }),
        Format::GrubEntry => {
            let given = bls::line_for_grub(text).and_then(|(number, line)| {
                let value = value_of_parameter(line)?;
                Some((number, value.to_owned()))
            });
            given.into_iter().collect()
        }
    }
}

/// The lines that give the parameter, by what `parameters` says that a line has.
fn given_in_lines<'a>(
    text: &'a str,
    parameters: impl Fn(&'a str) -> Option<&'a str>,
) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let value = value_of_parameter(parameters(line)?)?;
            Some((index + 1, value.to_owned()))
        })
        .collect()
}

/// The lines up to the first one with a word `--`: the rest is for init.
fn before_init(text: &str, is_read: impl Fn(&str) -> bool) -> &str {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        if is_read(line) && has_dashes(line) {
            break;
        }
    }
    &text[..end]
}

/// The value that a script gives a variable in the end, as far as that is known.
pub(super) fn variable(text: &str, name: &str) -> Option<String> {
    scripts::variable(text, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_config::parameter::{PARAMETER, with_parameter};
    use crate::system_config::testing::{machine, write};

    #[test]
    fn no_kernel_was_given_megabytes() {
        let (dir, host) = machine(&[]);
        for (length, expected) in [(4000, Some("noop")), (6_500_000, None)] {
            let line = "quiet ".repeat(length / 6) + "elevator=noop\n";
            write(dir.path(), "proc/cmdline", &line);
            assert_eq!(given_at_boot(&host).as_deref(), expected, "{length}");
        }
    }

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
                3,
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
        let hidden = "GRUB_CMDLINE_LINUX=\"ro\"' elevator=cfq'\n";
        assert!(with_elevator(hidden, Format::GrubDefault, None).is_err());
    }

    #[test]
    fn what_the_variables_hold_in_the_end_has_it_once() {
        // TuneD appends this line; see also the property below.
        const TUNED: &str = "GRUB_CMDLINE_LINUX_DEFAULT=\
            \"${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }\\$tuned_params\"\n";
        for (text, expected) in [
            (
                format!("GRUB_CMDLINE_LINUX=\"ro\"\n{TUNED}"),
                format!("GRUB_CMDLINE_LINUX=\"ro elevator=noop\"\n{TUNED}"),
            ),
            (
                "GRUB_CMDLINE_LINUX=\"a\"\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX b\"\n".into(),
                "GRUB_CMDLINE_LINUX=\"a\"\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX b elevator=noop\"\n".into(),
            ),
            (
                "NOTE='two\nGRUB_CMDLINE_LINUX=\"lines\"\n'\n  GRUB_CMDLINE_LINUX=ro\n".into(),
                "NOTE='two\nGRUB_CMDLINE_LINUX=\"lines\"\n'\n  GRUB_CMDLINE_LINUX=\"ro elevator=noop\"\n".into(),
            ),
            (
                "GRUB_CMDLINE_LINUX=ro\nGRUB_CMDLINE_LINUX_XEN_REPLACE=\"x elevator=cfq\"\n".into(),
                "GRUB_CMDLINE_LINUX=\"ro elevator=noop\"\n\
                 GRUB_CMDLINE_LINUX_XEN_REPLACE=\"x elevator=noop\"\n".into(),
            ),
            (
                "GRUB_CMDLINE_LINUX=ro\nGRUB_CMDLINE_LINUX_XEN_REPLACE=\"$GRUB_CMDLINE_LINUX x\"\n".into(),
                "GRUB_CMDLINE_LINUX=\"ro elevator=noop\"\n\
                 GRUB_CMDLINE_LINUX_XEN_REPLACE=\"$GRUB_CMDLINE_LINUX x\"\n".into(),
            ),
        ] as [(String, String); 5] {
            let edited = with_elevator(&text, Format::GrubDefault, Some("noop"));
            assert_eq!(edited.as_deref(), Ok(expected.as_str()), "{text}");
            let again = with_elevator(&expected, Format::GrubDefault, Some("noop"));
            assert_eq!(again.as_deref(), Ok(expected.as_str()));
            let without = with_elevator(&expected, Format::GrubDefault, None).unwrap();
            assert!(!without.contains("elevator"), "{without}");
        }
        // What it holds is not known, or has a quote that comes from elsewhere, or a `--`.
        for text in [
            "GRUB_CMDLINE_LINUX=\"ro $MORE\"\n",
            "GRUB_CMDLINE_LINUX=\"$(echo ro)\"\n",
            "GRUB_CMDLINE_LINUX_DEFAULT=`cat /x`\n",
            "GRUB_CMDLINE_LINUX=\"ro\"\nunset GRUB_CMDLINE_LINUX\n",
            "A=\"x -- \"\nGRUB_CMDLINE_LINUX=\"$A ro\"\n",
            "A='\"'\nGRUB_CMDLINE_LINUX=\"$A ro\"\n",
            "GRUB_CMDLINE_LINUX=(ro)\n",
            "GRUB_CMDLINE_LINUX=ro\nGRUB_X=(a b)\nGRUB_CMDLINE_LINUX=\"$GRUB_X c\"\n",
            "A=\"${GRUB_CMDLINE_LINUX:=ro quiet}\"\n",
            "A=$((GRUB_CMDLINE_LINUX=3))\n",
            "\u{c}GRUB_CMDLINE_LINUX=\"\"\n",
            "A=\\\n",
            "A=\\",
        ] {
            assert!(
                with_elevator(text, Format::GrubDefault, Some("noop")).is_err(),
                "{text}"
            );
            assert_eq!(
                with_elevator(text, Format::GrubDefault, None).as_deref(),
                Ok(text)
            );
        }
    }

    /// The statements of Debian's `xen.cfg`, and parameters that are added below a condition.
    #[test]
    fn conditions_are_followed_where_every_outcome_has_it() {
        let grub = "GRUB_CMDLINE_LINUX=\"ro\"\n";
        let xen = "echo \"Including Xen's overrides\"\nif [ \"$XEN\" = \"\" ]; then\n\techo \"WARNING: it's changed\"\n\t\
            XEN=1\nfi\nif [ \"$XEN\" = \"1\" ]; then\n\tGRUB_DEFAULT=$( \\\n\t\tprintf \"$(gettext \"%s, with Xen\")\" \\\n\
            \t\t\"$(gettext \"Debian\")\")\nfi\n";
        let put = |drop_in: &str| {
            let texts = [(grub, Format::GrubDefault), (drop_in, Format::GrubDropIn)];
            with_elevator_in_scripts(&texts, Some("noop"))
        };
        for drop_in in [
            xen,
            "if [ -e /x ]; then GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX quiet\"; fi\n",
            "[ -e /x ] && GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n",
            "if [ -e /x ]; then GRUB_CMDLINE_LINUX_XEN_REPLACE=\"$GRUB_CMDLINE_LINUX x\"; fi\n",
        ] {
            let edited = put(drop_in).unwrap();
            assert_eq!(
                edited,
                ["GRUB_CMDLINE_LINUX=\"ro elevator=noop\"\n", drop_in]
            );
        }
        for (drop_in, line) in [
            (
                "if [ -e /x ]; then\n  GRUB_CMDLINE_LINUX=\"quiet\"\nfi\n",
                2,
            ),
            ("if [ -e /x ]; then . /y; fi\n", 1),
            ("[ -e /x ] && GRUB_CMDLINE_LINUX=\"\"\n", 1),
            (
                "if [ -e /x ]; then\n  GRUB_CMDLINE_LINUX_XEN_REPLACE=\"x\"\nfi\n",
                2,
            ),
        ] {
            let (index, error) = put(drop_in).unwrap_err();
            assert_eq!((index, error.line), (1, line), "{drop_in}");
        }
        // What is conditional in the first file may be all that there is.
        let text = "if [ -e /x ]; then GRUB_CMDLINE_LINUX=\"quiet\"; fi\n";
        assert!(with_elevator(text, Format::GrubDefault, Some("noop")).is_err());
        let text = format!("{grub}{}", text.replace("\"q", "\"$GRUB_CMDLINE_LINUX q"));
        let edited = with_elevator(&text, Format::GrubDefault, Some("noop")).unwrap();
        assert_eq!(edited, text.replace("ro", "ro elevator=noop"));
    }

    /// Where the parameter decides whether there are others, it is taken out by hand.
    #[test]
    fn what_a_condition_asks_is_not_changed_under_it() {
        let grub = "GRUB_CMDLINE_LINUX=\"elevator=cfq\"\n";
        for more in [
            "[ \"$GRUB_CMDLINE_LINUX\" ] && GRUB_CMDLINE_LINUX_DEFAULT=quiet\n",
            "[ -v GRUB_CMDLINE_LINUX ] && GRUB_CMDLINE_LINUX_DEFAULT=quiet\n",
            "[ \"$GRUB_CMDLINE_LINUX\" ] && GRUB_TIMEOUT=1\n",
            "A=\"$(echo \"$GRUB_CMDLINE_LINUX\")\"\n[ \"$A\" ] || GRUB_CMDLINE_LINUX_DEFAULT=quiet\n",
            "if true; then\nif [ \"${GRUB_CMDLINE_LINUX#x}\" ]; then A=1; fi; fi\n[ \"$A\" ] && GRUB_CMDLINE_LINUX_DEFAULT=quiet\n",
            "case \"$GRUB_CMDLINE_LINUX\" in\n *elevator*) ;;\n *) GRUB_CMDLINE_LINUX=\"crashkernel=auto\";;\nesac\n",
        ] {
            let text = format!("{grub}{more}");
            let error = with_elevator(&text, Format::GrubDefault, None).unwrap_err();
            assert_eq!(&*error.why, NotUnderstood::ASKED, "{text}");
        }
        let text =
            format!("[ \"$GRUB_CMDLINE_LINUX\" ] && GRUB_CMDLINE_LINUX_DEFAULT=quiet\n{grub}");
        let edited = with_elevator(&text, Format::GrubDefault, None);
        assert_eq!(edited, Ok(text.replace("elevator=cfq", "")));
    }

    /// What stands between quotes of the kernel's is no parameter, whichever file they are in; a number is counted, a
    /// word that is added to another one's end is a part of that.
    #[test]
    fn what_is_no_parameter_in_the_end_is_not_taken_out() {
        for (text, line) in [
            ("A='\"x'\nGRUB_CMDLINE_LINUX=\"$A elevator=cfq y\"\n", 2),
            (
                "GRUB_CMDLINE_LINUX='x=\"a'\nGRUB_CMDLINE_LINUX_DEFAULT=\"elevator=cfq b\"\n",
                2,
            ),
            ("A=--\nGRUB_CMDLINE_LINUX=\"$A ro elevator=cfq\"\n", 2),
            (
                "let GRUB_CMDLINE_LINUX=5\nGRUB_CMDLINE_LINUX+=\"elevator=cfq\"\n",
                1,
            ),
            ("let A=5\nGRUB_CMDLINE_LINUX+=\"elevator=cfq\"\n", 2),
            (
                "declare -i GRUB_CMDLINE_LINUX\nGRUB_CMDLINE_LINUX='ro elevator=cfq'\n",
                1,
            ),
            ("GRUB_CMDLINE_LINUX=\"${A}elevator=cfq\"\n", 1),
            (
                "E=\"$A --\"; GRUB_CMDLINE_LINUX_DEFAULT=\"elevator=cfq\"\nGRUB_CMDLINE_LINUX=\"${E:-ro}\"\n",
                2,
            ),
            (
                "read E <<X\n--\nX\nGRUB_CMDLINE_LINUX_DEFAULT=\"elevator=cfq\"\nGRUB_CMDLINE_LINUX=\"$E\"\n",
                4,
            ),
            (
                "let A=5\nif true; then GRUB_CMDLINE_LINUX=elevator=cfq; fi\nGRUB_CMDLINE_LINUX_RECOVERY='x=\"a'\n",
                2,
            ),
        ] {
            let error = with_elevator(text, Format::GrubDefault, None).unwrap_err();
            assert_eq!(error.line, line, "{text}");
        }
        let text = ". /etc/default/mine\nGRUB_CMDLINE_LINUX=\"ro elevator=cfq\"\n";
        let edited = with_elevator(text, Format::GrubDefault, None);
        assert_eq!(
            edited,
            Ok(text.replace(" elevator=cfq", "")),
            "whatever is in there"
        );
    }

    #[test]
    fn a_drop_in_that_has_it_beside_an_empty_file_is_no_mistake() {
        let drop_in =
            "if [ -n \"$GRUB_X\" ]; then GRUB_CMDLINE_LINUX_DEFAULT=\"elevator=noop\"; fi\n";
        let texts = [("", Format::GrubDefault), (drop_in, Format::GrubDropIn)];
        let edited = with_elevator_in_scripts(&texts, Some("noop")).unwrap();
        assert_eq!(
            edited,
            [
                "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX elevator=noop\"\n",
                &drop_in.replace("elevator=noop", "")
            ]
        );
    }

    /// dash has no `+=`: that it is there already is not enough.
    #[test]
    fn what_is_appended_is_there_in_some_shells_only() {
        let drop_in = "GRUB_CMDLINE_LINUX+=\" elevator=noop\"\n";
        let texts = [("", Format::GrubDefault), (drop_in, Format::GrubDropIn)];
        let edited = with_elevator_in_scripts(&texts, Some("noop")).unwrap();
        assert!(edited[0].contains("elevator=noop"), "{edited:?}");
    }

    /// It is said of the text that root has, and names what is not known.
    #[test]
    fn an_error_shows_the_line_as_it_stands() {
        for (text, format, line) in [
            (
                "\ndefault_kernel_opts=\"${X:-quiet}\"\n",
                Format::Extlinux,
                2,
            ),
            ("GRUB_CMDLINE_LINUX=\"ro $X\"\n", Format::GrubDefault, 1),
        ] {
            let error = with_elevator(text, format, Some("noop")).unwrap_err();
            assert_eq!(
                (error.line, Some(&*error.text)),
                (line, text.lines().nth(line - 1))
            );
            assert_eq!(
                error.why,
                "depends on X, whose value is not known from here"
            );
        }
        let text = "E=cfq; GRUB_CMDLINE_LINUX=\"ro elevator=$E\"\n";
        assert_eq!(
            scripts::assigned_in(text, 1).as_deref(),
            Some("GRUB_CMDLINE_LINUX")
        );
    }

    #[test]
    fn what_is_put_together_of_parts_is_found() {
        for text in [
            "E=elevator\nGRUB_CMDLINE_LINUX=\"ro $E=cfq\"\n",
            "\nGRUB_CMDLINE_LINUX=\"ro ele\"\"vator=cfq\"\n",
        ] {
            let error = with_elevator(text, Format::GrubDefault, None).unwrap_err();
            assert_eq!((error.line, &*error.why), (2, NotUnderstood::LEFT));
        }
    }

    #[test]
    fn a_long_file_is_followed() {
        let lines =
            "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet x\"\n";
        let text = lines.repeat(10_000);
        let edited = with_elevator(&text, Format::GrubDefault, Some("noop")).unwrap();
        assert!(edited.ends_with(&lines.replacen("LINUX\"\n", "LINUX elevator=noop\"\n", 1)));
        assert_eq!(with_elevator(&edited, Format::GrubDefault, None), Ok(text));
    }

    #[test]
    fn what_would_become_part_of_another_word_or_a_comment_is_refused() {
        let text = "linux /l\noptions ro\\\n";
        let error = with_elevator(text, Format::LoaderEntry, Some("noop")).unwrap_err();
        assert_eq!((error.line, &*error.why), (2, NotUnderstood::BACKSLASH));
        assert_eq!(
            with_elevator(text, Format::LoaderEntry, None).as_deref(),
            Ok(text)
        );
        let text = "elevator=noop #x ro\n";
        let error = with_elevator(text, Format::KernelInstall, None).unwrap_err();
        assert_eq!((error.line, &*error.why), (1, NotUnderstood::LEFT));
        let text = "elevator=noop\n# x\n";
        let edited = with_elevator(text, Format::KernelInstall, None);
        assert_eq!(edited.as_deref(), Ok("\n# x\n"));
    }

    /// A word that goes on in a variable, or is cut by an expansion, is not taken out.
    #[test]
    fn no_word_is_cut_in_two() {
        for value in [
            "$U elevator=cfq${V:+ quiet x}",
            "$U elevator=${E:+cfq x} y",
            "$U elevator=cfq$V",
        ] {
            let text = format!("GRUB_CMDLINE_LINUX=\"{value}\"\n");
            for value in [Some("noop"), None] {
                let error = with_elevator(&text, Format::GrubDefault, value).unwrap_err();
                assert_eq!(error.line, 1, "{text}");
            }
        }
    }

    /// That another variable has it is not enough: it is for some of the entries.
    #[test]
    fn every_entry_gets_it_although_some_have_it() {
        for name in ["DEFAULT", "RECOVERY"] {
            let text = format!("GRUB_CMDLINE_LINUX_{name}=\"quiet elevator=noop\"\n");
            let edited = with_elevator(&text, Format::GrubDefault, Some("noop")).unwrap();
            let every = "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX elevator=noop\"\n";
            assert!(edited.ends_with(every), "{edited}");
        }
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
                "GRUB_CMDLINE_LINUX=\"${GRUB_X-elevator=cfq} quiet\"\n",
                Format::GrubDefault,
                1,
            ),
            (
                "zgrep -q -- x /y && GRUB_CMDLINE_LINUX=\"ro elevator=cfq\"\n",
                Format::GrubDefault,
                1,
            ),
            (
                "case x in x) GRUB_CMDLINE_LINUX=elevator=cfq;; esac\n",
                Format::GrubDefault,
                1,
            ),
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
                (error.line, &*error.why),
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
                (error.line, &*error.why),
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
    const LINES: [&str; 30] = [
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
        "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX more\"",
        "GRUB_CMDLINE_LINUX_DEFAULT=\"${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }\\$tuned_params\"",
        "NOTE='two\nGRUB_CMDLINE_LINUX=\"lines\"\n'",
        "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX -- s\"",
        "GRUB_CMDLINE_LINUX=\"${NOTE:+elevator=cfq }b\"",
        "GRUB_CMDLINE_LINUX=\"a \\\"b c\\\" d\"",
        "GRUB_CMDLINE_LINUX=\"two\"' quotes'",
        "test -e /nonexistent && GRUB_CMDLINE_LINUX=lost",
        "if true; then GRUB_CMDLINE_LINUX=kept; fi",
        "GRUB_CMDLINE_LINUX=\"$(echo run)\"",
        "E=elevator",
        "GRUB_CMDLINE_LINUX=\"ro $E=cfq\"",
        "GRUB_CMDLINE_LINUX_DEFAULT=\"ele\"'vator=cfq'",
        "if [ \"$NOTE\" ]; then GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX if\"; fi",
        "if true; then\n  GRUB_CMDLINE_LINUX_DEFAULT=\"elevator=cfq then\"\nelse GRUB_CMDLINE_LINUX=else\nfi",
        "[ \"$GRUB_CMDLINE_LINUX\" ] || GRUB_CMDLINE_LINUX=\"elevator=deadline or\"",
        "export GRUB_CMDLINE_LINUX",
        "export NOTE=\"${GRUB_CMDLINE_LINUX:+elevator=cfq}\"",
        "if [ \"$GRUB_CMDLINE_LINUX\" = \"elevator=cfq rw\" ]; then GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX is\"; fi",
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

    /// Of what files are made, good or bad.
    const TOKENS: [&str; 30] = [
        "GRUB_CMDLINE_LINUX=",
        "GRUB_CMDLINE_LINUX_XEN_REPLACE=",
        "default_kernel_opts=",
        "kernelopts=",
        "options ",
        "kernel /vmlinuz ",
        "kernel /xen.gz ",
        "module /vmlinuz ",
        "title x",
        "# kopt=",
        "### BEGIN AUTOMAGIC KERNELS LIST",
        "# GRUB Environment Block\n",
        "elevator=cfq",
        "elevator=noop",
        "$GRUB_CMDLINE_LINUX",
        "${A:+",
        "}",
        "A=",
        "ro",
        " ",
        " ",
        "\n",
        "\n",
        "\r\n",
        "\"",
        "\"",
        "'",
        "\\",
        "--",
        "#",
    ];

    proptest::proptest! {
        #[test]
        fn what_was_put_in_is_there_once_and_can_be_taken_out(
            tokens in proptest::collection::vec(proptest::sample::select(TOKENS.to_vec()), 0..16),
        ) {
            let text = tokens.concat();
            for format in [
                Format::GrubDefault,
                Format::GrubDropIn,
                Format::MenuLst,
                Format::KernelInstall,
                Format::Extlinux,
                Format::LoaderEntry,
                Format::GrubEnvironment,
            ] {
                let Ok(with) = with_elevator(&text, format, Some("noop")) else {
                    continue;
                };
                let again = with_elevator(&with, format, Some("noop"));
                proptest::prop_assert_eq!(again.as_ref(), Ok(&with), "{:?}", format);
                let without = with_elevator(&with, format, None);
                proptest::prop_assert!(without.is_ok(), "{:?} of {:?}", format, with);
                let given = lines_with_elevator(&without.unwrap(), format);
                proptest::prop_assert!(given.is_empty(), "{:?} of {:?}", format, with);
            }
        }

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
                proptest::prop_assert!(ours.clone().count() == 1, "{}", edited);
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
