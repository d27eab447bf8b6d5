//! Command lines of ours, made so that they can be pasted into a shell.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::visible::is_hidden;

/// What has to be different in a command line that failed, so that it does what was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// An option besides, in the place of what was given of it: `--budget=95s`, `--yes`.
    With(String),
    /// Without these options, each with whether it has a value.
    Without(Vec<(&'static str, bool)>),
    /// This word in the place of that one.
    Instead {
        /// The word that was given.
        of: String,
        /// The word that is meant.
        with: String,
    },
    /// The same with the rights of root.
    AsRoot,
}

impl Remedy {
    /// The whole command line, from the words that were given.
    pub fn command_line(&self, given: &[String]) -> String {
        let words = ours(given);
        let words = match self {
            Remedy::With(option) => with(&words, option),
            Remedy::Without(options) => options.iter().fold(words, |words, &(name, has_value)| {
                without(&words, name, has_value)
            }),
            Remedy::Instead { of, with } => words
                .into_iter()
                .map(|word| if word == *of { with.clone() } else { word })
                .collect(),
            Remedy::AsRoot => std::iter::once("sudo".to_owned()).chain(words).collect(),
        };
        joined(&words)
    }
}

/// A command line as a shell takes it.
pub fn joined(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// The words of a command with this option (`--name=value`, or `--name`) in the place of what was given of it.
pub fn with(words: &[String], option: &str) -> Vec<String> {
    let mut words = without(
        words,
        option.split('=').next().unwrap_or(option),
        option.contains('='),
    );
    words.push(option.to_owned());
    words
}

/// The words without an option, and without the value that stands apart from it if it has one.
pub fn without(words: &[String], name: &str, has_value: bool) -> Vec<String> {
    let assigned = format!("{name}=");
    let mut left = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if *word == name {
            let is_value = |next: &&String| has_value && !next.starts_with('-');
            words.next_if(is_value);
        } else if !word.starts_with(&assigned) {
            left.push(word.clone());
        }
    }
    left
}

/// The words of a command of ours, called as it is in any shell.
pub fn ours(given: &[String]) -> Vec<String> {
    let others = given.iter().skip(1).cloned();
    std::iter::once("iosched".to_owned())
        .chain(others)
        .collect()
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    quoted_bytes(word.as_bytes())
}

/// A path as a shell takes it, and a command after that: what begins with a dash would be an option.
pub fn quoted_path(path: &Path) -> String {
    let path = path.as_os_str().as_bytes();
    if path.starts_with(b"-") {
        quoted_bytes(&[b"./", path].concat())
    } else {
        quoted_bytes(path)
    }
}

/// What cannot be shown is written as bash, zsh and POSIX.1-2024 read it between `$'` and `'`.
fn quoted_bytes(word: &[u8]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    let is_shown = |c: char| !is_hidden(c) && !matches!(c, '\n' | '\t');
    match std::str::from_utf8(word) {
        Ok(word) if !word.is_empty() && word.chars().all(is_plain) => word.to_owned(),
        Ok(word) if word.chars().all(is_shown) => format!("'{}'", word.replace('\'', r"'\''")),
        _ => {
            let escaped = |byte: &u8| format!("\\{byte:03o}");
            let mut text = String::new();
            for chunk in word.utf8_chunks() {
                for c in chunk.valid().chars() {
                    match c {
                        '\n' => text += r"\n",
                        '\t' => text += r"\t",
                        '\\' | '\'' => text.extend(['\\', c]),
                        c if is_shown(c) => text.push(c),
                        c => text.extend(c.to_string().as_bytes().iter().map(escaped)),
                    }
                }
                text.extend(chunk.invalid().iter().map(escaped));
            }
            format!("$'{text}'")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<String> {
        line.iter().map(|&word| word.to_owned()).collect()
    }

    fn again(remedy: &Remedy, line: &[&str]) -> String {
        remedy.command_line(&words(line))
    }

    #[test]
    fn an_option_is_there_once_and_the_rest_as_it_was_given() {
        let with = |option: &str| Remedy::With(option.to_owned());
        for given in [
            vec!["/usr/bin/iosched", "tune", "sda", "--budget", "10s"],
            vec!["./iosched", "tune", "--budget=10s", "sda"],
        ] {
            assert_eq!(
                again(&with("--budget=95s"), &given),
                "iosched tune sda --budget=95s"
            );
        }
        let given = ["iosched", "tune", "--destroy-data", "--resume", "it's here"];
        let expected = r"iosched tune --resume 'it'\''s here' --destroy-data=sdb";
        assert_eq!(again(&with("--destroy-data=sdb"), &given), expected);
        let flag = ["iosched", "persist", "sda", "none"];
        assert_eq!(
            again(&with("--yes"), &flag),
            "iosched persist sda none --yes"
        );
    }

    #[test]
    fn options_that_are_not_possible_are_left_out_with_their_values() {
        let remedy = Remedy::Without(vec![("--runtime", true), ("--no-split", false)]);
        let given = [
            "iosched",
            "tune",
            "--no-split",
            "--resume",
            "r",
            "--runtime",
            "2s",
            "--apply",
        ];
        assert_eq!(again(&remedy, &given), "iosched tune --resume r --apply");
    }

    /// bash says what it takes each word for.
    #[test]
    fn a_shell_reads_the_word_that_was_meant() {
        use std::ffi::OsStr;
        for (word, written) in [
            (&b"a b"[..], "'a b'"),
            (b"it's", r"'it'\''s'"),
            (b"", "''"),
            (b"-dash", "./-dash"),
            (b"-a b", "'./-a b'"),
            (b"a\nb\tc", r"$'a\nb\tc'"),
            (b"\x1b[31m'\\7", r"$'\033[31m\'\\7'"),
            ("\u{202e}\u{9b}µ".as_bytes(), r"$'\342\200\256\302\233µ'"),
            (b"\xff7", r"$'\3777'"),
        ] {
            let quoted = quoted_path(Path::new(OsStr::from_bytes(word)));
            assert_eq!(quoted, written);
            let script = format!("printf %s {quoted}");
            let shell = std::process::Command::new("bash")
                .args(["-c", &script])
                .output();
            let Ok(shell) = shell else {
                return iosched_testing::lacks("bash");
            };
            let meant = if word.starts_with(b"-") {
                [b"./", word].concat()
            } else {
                word.to_owned()
            };
            assert_eq!(shell.stdout, meant, "{quoted}");
        }
    }

    #[test]
    fn who_is_not_root_is_told_the_command_with_sudo() {
        let given = ["/opt/iosched", "set", "sda", "mq-deadline"];
        assert_eq!(
            again(&Remedy::AsRoot, &given),
            "sudo iosched set sda mq-deadline"
        );
    }
}
