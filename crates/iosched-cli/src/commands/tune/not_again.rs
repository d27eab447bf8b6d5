//! A run that writes to a raw device may not go on: why, and the whole command line that allows it.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;

use iosched::device::MayNotWrite;
use iosched::failure::Failure;

/// Why a run may not go on to write.
#[derive(Debug)]
pub(super) struct NotAgain {
    error: MayNotWrite,
    /// The command line as it was given, without `--destroy-data`.
    command: String,
}

impl NotAgain {
    pub(super) fn new(error: MayNotWrite, given: impl Iterator<Item = OsString>) -> NotAgain {
        let words = given.map(|word| word.to_string_lossy().into_owned());
        let others = words
            .skip(1)
            .filter(|word| !word.starts_with("--destroy-data"));
        let quoted: Vec<String> = others.map(|word| quoted(&word)).collect();
        NotAgain {
            error,
            command: format!("iosched {}", quoted.join(" ")),
        }
    }
}

impl fmt::Display for NotAgain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for NotAgain {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl Failure for NotAgain {
    fn hint(&self) -> Option<String> {
        let Some(option) = self.error.way_out() else {
            return self.error.hint();
        };
        let command = &self.command;
        Some(match &self.error {
            MayNotWrite::NotAllowed { .. } => {
                format!("a run that writes has to be allowed again: {command} {option}")
            }
            _ => format!(
                "if all of that may be destroyed, name the device again: {command} {option}"
            ),
        })
    }

    fn exit_code(&self) -> u8 {
        self.error.exit_code()
    }
}

/// A word as the shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_is_the_command_line_with_the_option_once() {
        let given = [
            "/usr/bin/iosched",
            "tune",
            "--destroy-data",
            "--resume",
            "it's here",
        ];
        let error = MayNotWrite::NotAllowed {
            what: "load random-write".into(),
            device: "sdb".into(),
        };
        let hint = NotAgain::new(error, given.iter().map(OsString::from))
            .hint()
            .unwrap();
        let command = r"iosched tune --resume 'it'\''s here' --destroy-data";
        assert!(hint.ends_with(command), "{hint}");
    }
}
