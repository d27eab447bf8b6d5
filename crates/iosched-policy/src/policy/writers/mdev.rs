//! mdev of busybox, and mdevd, which make device nodes where there is no udev (Alpine): what `/etc/mdev.conf` has run when a
//! disk comes.
//!
//! A line is `[-][VAR=REGEX;]...REGEX user:group mode [alias] [@command]`: the first whose expression is like the whole name
//! counts, and those with `-` besides. `@` runs a command when a device comes, `*` when it goes, too, `$` only then.

use std::path::Path;

use iosched_machine::host::Host;
use iosched_machine::sysfs::sysfs_name;
use regex_lite::Regex;

use super::shell::{self, Environment, FollowedDisk, Write};
use super::systemd::Units;
use super::{inits, text_of};
use crate::policy::matching::KnownDisk;
use crate::system_config::udev;

const PATH: &str = "/etc/mdev.conf";

/// What it writes when this disk comes; in doubt where nothing is seen that starts it, and there is no udev either.
pub(super) fn writes(
    host: &Host,
    units: &Units<'_>,
    place: &FollowedDisk<'_>,
    disk: &KnownDisk,
) -> Vec<Write> {
    let path = Path::new(PATH);
    let Some(text) = text_of(host, path) else {
        return Vec::new();
    };
    let is_started = is_started(host, units);
    if !is_started && udev::is_here(host) {
        return Vec::new();
    }
    let name = disk.device.name.as_str();
    let mut environment = Environment::default();
    for (variable, value) in variables(name) {
        environment
            .variables
            .insert(variable.into(), value.to_owned());
    }
    environment
        .variables
        .insert("DEVPATH".into(), format!("/block/{}", sysfs_name(name)));
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(line) = Line::read(line) else {
            continue;
        };
        let is_for = line.is_for(name);
        if is_for == Some(false) {
            continue;
        }
        if let Some(command) = line.command {
            let words = ["/bin/sh", "-c", command].map(str::to_owned);
            let writes = shell::writes_of_program(place, &words, &environment, (path, index + 1));
            found.extend(writes.into_iter().map(|write| Write {
                certain: write.certain && is_started && is_for == Some(true),
                ..write
            }));
        }
        if is_for == Some(true) && !line.goes_on {
            break;
        }
    }
    found
}

/// True if OpenRC starts it, or what busybox' init reads names it.
fn is_started(host: &Host, units: &Units<'_>) -> bool {
    let services = ["mdev", "mdevd", "mdevd-init"];
    let scripts = ["/etc/inittab", "/etc/init.d/rcS", "/etc/rc.d/rcS"];
    let names_it = |path: &&str| {
        let text = text_of(host, Path::new(path)).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        lines.any(|line| !line.starts_with('#') && line.contains("mdev"))
    };
    services
        .iter()
        .any(|name| inits::is_started(host, units, name))
        || scripts.iter().any(names_it)
}

/// What a command is told of a disk.
fn variables(name: &str) -> [(&'static str, &str); 5] {
    [
        ("MDEV", name),
        ("DEVNAME", name),
        ("ACTION", "add"),
        ("SUBSYSTEM", "block"),
        ("DEVTYPE", "disk"),
    ]
}

struct Line<'a> {
    /// `VAR=REGEX` that must hold besides.
    conditions: Vec<(&'a str, &'a str)>,
    /// Of the name; `@8,0` and `$VAR=` are not judged.
    expression: &'a str,
    goes_on: bool,
    /// Run when a device comes.
    command: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Option<Line<'a>> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (goes_on, line) = match line.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (names, mut rest) = line.split_once(char::is_whitespace)?;
        let mut conditions: Vec<&str> = names.split(';').collect();
        let expression = conditions.pop()?;
        let mut command = None;
        while let Some(word) = rest.split_whitespace().next() {
            if matches!(word.as_bytes()[0], b'@' | b'*' | b'$') {
                let when_it_comes = !word.starts_with('$');
                command = rest.trim().get(1..).filter(|_| when_it_comes);
                break;
            }
            rest = &rest.trim_start()[word.len()..];
        }
        Some(Line {
            conditions: conditions
                .into_iter()
                .filter_map(|condition| condition.split_once('='))
                .collect(),
            expression,
            goes_on,
            command,
        })
    }

    /// Whether it is for a disk that comes; nothing where that cannot be told.
    fn is_for(&self, name: &str) -> Option<bool> {
        let of_name = if self.expression.starts_with(['@', '$']) {
            None
        } else {
            is_whole(self.expression, name)
        };
        let conditions = self.conditions.iter().map(|(variable, expression)| {
            let known = variables(name);
            let known = known.iter().find(|(known, _)| known == variable);
            known.and_then(|(_, value)| is_whole(expression, value))
        });
        let mut all: Vec<Option<bool>> = conditions.collect();
        all.push(of_name);
        if all.contains(&Some(false)) {
            Some(false)
        } else {
            all.contains(&None)
                .then_some(())
                .map_or(Some(true), |()| None)
        }
    }
}

/// Whether an extended regular expression (POSIX) is like the whole text; nothing of one that cannot be read, or is so
/// large that going through it would take long.
fn is_whole(expression: &str, text: &str) -> Option<bool> {
    means_the_same(expression).then_some(())?;
    // By itself first: as a part of ours, a parenthesis too many would end our group.
    Regex::new(expression).ok()?;
    let whole = Regex::new(&format!("^(?:{expression})$")).ok()?;
    Some(whole.is_match(text))
}

/// False if something stands in it that POSIX leaves undefined, or that means something else to the library: a repetition
/// of nothing or of a repetition (`(?i)`, `^*`, `a+?`), `\d`, and within brackets a backslash, `[.` and `[=`.
fn means_the_same(expression: &str) -> bool {
    let mut chars = expression.chars().peekable();
    let mut in_brackets = false;
    let mut can_be_repeated = false;
    while let Some(char) = chars.next() {
        let next = chars.peek().copied();
        let is_known = match char {
            '[' if in_brackets => !matches!(next, Some('.' | '=')),
            '\\' => !in_brackets && chars.next().is_some_and(|char| !char.is_alphanumeric()),
            '*' | '+' | '?' | '{' if !in_brackets => can_be_repeated,
            _ => true,
        };
        if !is_known {
            return false;
        }
        match char {
            '[' if !in_brackets => {
                in_brackets = true;
                chars.next_if_eq(&'^');
                chars.next_if_eq(&']');
            }
            '[' if next == Some(':') => {
                // To the end of the class' name, whose bracket ends nothing else.
                while chars.next().is_some_and(|char| char != ']') {}
            }
            ']' => in_brackets = false,
            _ => {}
        }
        can_be_repeated = !matches!(char, '*' | '+' | '?' | '}' | '(' | '|' | '^' | '$');
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::matching::disks;
    use crate::system_config::testing::{Disk, machine, write};

    fn written(files: &[(&str, &str)]) -> Vec<String> {
        let (dir, host) = machine(&[Disk::new("sda")]);
        let database = dir.path().join("run/udev");
        if database.exists() {
            std::fs::remove_dir_all(database).unwrap();
        }
        for (name, text) in files {
            write(dir.path(), name, text);
        }
        let disks = disks(&host).unwrap();
        let place = FollowedDisk::of(&host, &disks[0]);
        let found = writes(&host, &Units::of(&host), &place, &disks[0]);
        let told = |write: &Write| {
            let doubt = if write.certain { "" } else { "?" };
            let value = write.value.as_deref().unwrap_or("…");
            format!("{}:{} {value}{doubt}", write.file.display(), write.line)
        };
        found.iter().map(told).collect()
    }

    const STARTED: (&str, &str) = ("etc/runlevels/sysinit/mdev", "");

    #[test]
    fn a_command_that_is_run_when_the_disk_comes_is_found() {
        let bfq = "echo bfq > /sys/block/$MDEV/queue/scheduler";
        let none = "echo none > /sys/block/sda/queue/scheduler";
        for (conf, expected) in [
            (format!("sd[a-z] root:disk 0660 @{bfq}\n"), vec!["1 bfq"]),
            (format!("# x\n\nsd[a-z]+ 0:0 660 * {bfq}\n"), vec!["3 bfq"]),
            (format!("sda 0:0 660 >disks/ @{bfq}\n"), vec!["1 bfq"]),
            (format!("sda 0:0 660 ${bfq}\n"), vec![]),
            (format!("sda 0:0 660\nsd.* 0:0 660 @{bfq}\n"), vec![]),
            (
                format!("-sda 0:0 660\nsd.* 0:0 660 @{bfq}\n"),
                vec!["2 bfq"],
            ),
            (
                format!("-sda 0:0 660 @{none}\nsd.* 0:0 660 @{bfq}\n"),
                vec!["1 none", "2 bfq"],
            ),
            (format!("sd 0:0 660 @{bfq}\n"), vec![]),
            (format!("sda[0-9] 0:0 660 @{bfq}\n"), vec![]),
            (
                format!("SUBSYSTEM=block;.* 0:0 660 @{bfq}\n"),
                vec!["1 bfq"],
            ),
            (format!("SUBSYSTEM=net;.* 0:0 660 @{bfq}\n"), vec![]),
            (format!("ID_X=y;sda 0:0 660 @{bfq}\n"), vec!["1 bfq?"]),
            (format!("@8,0 0:0 660 @{bfq}\n"), vec!["1 bfq?"]),
            (
                "sda 0:0 660 @/lib/mdev/set\n".to_owned(),
                vec!["/lib/mdev/set:2 kyber"],
            ),
        ] {
            let script = "#!/bin/sh\necho kyber > /sys$DEVPATH/queue/scheduler\n";
            let files = [
                ("etc/mdev.conf", conf.as_str()),
                STARTED,
                ("lib/mdev/set", script),
            ];
            let expected: Vec<String> = expected
                .iter()
                .map(|said| {
                    if said.starts_with('/') {
                        (*said).to_owned()
                    } else {
                        format!("/etc/mdev.conf:{said}")
                    }
                })
                .collect();
            assert_eq!(written(&files), expected, "{conf}");
        }
    }

    #[test]
    fn it_counts_where_it_is_started() {
        let conf = (
            "etc/mdev.conf",
            "sda 0:0 660 @echo bfq > /sys/block/sda/queue/scheduler\n",
        );
        let sure = ["/etc/mdev.conf:1 bfq"];
        for by in [
            STARTED,
            ("etc/runlevels/sysinit/mdevd", ""),
            ("etc/inittab", "::sysinit:/sbin/mdev -s\n"),
            ("etc/init.d/rcS", "#!/bin/sh\nmdev -s\n"),
        ] {
            assert_eq!(written(&[conf, by]), sure, "{by:?}");
        }
        assert_eq!(written(&[conf]), ["/etc/mdev.conf:1 bfq?"]);
        let udev = ("usr/lib/systemd/systemd-udevd", "");
        assert_eq!(written(&[conf, udev]), [""; 0]);
        assert_eq!(written(&[conf, udev, STARTED]), sure);
    }

    /// What grep says of each name, of an expression that it can read.
    fn like_by_grep(expression: &str, names: &[&str]) -> Option<Vec<bool>> {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "names", &(names.join("\n") + "\n"));
        let output = std::process::Command::new("grep")
            .args(["-xnE", "-e", expression, "names"])
            .current_dir(dir.path())
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        let numbers = String::from_utf8(output.stdout).unwrap();
        let is_like = |number: usize| {
            let mut lines = numbers.lines();
            lines.any(|line| line.starts_with(&format!("{number}:")))
        };
        let could = output.status.code().is_some_and(|code| code < 2);
        could.then(|| (1..=names.len()).map(is_like).collect())
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

        #[test]
        fn expressions_are_those_of_grep(
            parts in proptest::collection::vec(
                proptest::sample::select(&[
                    "s", "d", "a", "b", "1", "sd", ".", "[a-z]", "[^a-s]", "[[:digit:]]", "[]a]", "[[:alpha:]1-]",
                    "*", "+", "?", "{2}", "{1,3}", "{,2}", "(", ")", "|", "^", "$", "\\.", "\\(", "[", "]", "{", "}",
                    "&&", "-", "[a&&b]", "[(?]", "~",
                ][..]),
                1..9,
            ),
        ) {
            let expression = parts.concat();
            let names = ["s", "sd", "sda", "sdab", "sda1", "a", "aaa", "1", ".", "sd.", "(", "]", "-", "&&a", "b{", "a}", ""];
            if let Some(by_grep) = like_by_grep(&expression, &names) {
                for (name, by_grep) in names.iter().zip(by_grep) {
                    let ours = is_whole(&expression, name);
                    proptest::prop_assert!(ours.is_none() || ours == Some(by_grep), "{:?} {:?}: {:?}", expression, name, ours);
                }
            }
        }
    }

    #[test]
    fn expressions_are_those_of_posix() {
        for (expression, text, expected) in [
            ("sd[a-z]", "sda", Some(true)),
            ("sd[a-z]", "sdaa", Some(false)),
            ("(sd|vd)[a-z]+", "vdab", Some(true)),
            ("nvme[0-9]+n[0-9]{1,2}", "nvme0n11", Some(true)),
            ("nvme[0-9]+n[0-9]{1,2}", "nvme0n111", Some(false)),
            ("a|", "", Some(true)),
            ("(a*)*b", "aaaab", Some(true)),
            ("(a*)*b", "aaaac", Some(false)),
            ("^sda$", "sda", Some(true)),
            ("[^s].*", "sda", Some(false)),
            ("[[:alpha:]]+[[:digit:]]?", "sda", Some(true)),
            ("a\\.b", "a.b", Some(true)),
            ("[]a]", "]", Some(true)),
            ("*a", "a", None),
            ("(a", "a", None),
            ("a)", "a", None),
            ("[a", "a", None),
        ] {
            assert_eq!(is_whole(expression, text), expected, "{expression} {text}");
        }
        for nothing_of in [
            "(?i)SDA", "a+?", "a{2}?", "a(?:b)", "\\d", "\\", "[\\d]", "[[.a.]]", "[[=a=]]", "[a",
        ] {
            assert_eq!(is_whole(nothing_of, "sda"), None, "{nothing_of}");
        }
        assert_eq!(is_whole("[(]?[]?]?(x)?s?da", "sda"), Some(true));
        assert_eq!(is_whole(&"(".repeat(100_000), "a"), None);
        // Of one that would take long nothing is told.
        let nested = |inner: &str, around: &str| {
            (0..14).fold(inner.to_owned(), |inner, _| format!("({inner}){around}"))
        };
        let name = "a".repeat(40);
        for (expression, expected) in [
            (nested("", "{256}"), None),
            (nested("a*", "*"), Some(true)),
            (nested("a*b", "+"), Some(false)),
            (nested("a?", "{2,256}"), None),
        ] {
            assert_eq!(is_whole(&expression, &name), expected, "{expression}");
        }
    }
}
