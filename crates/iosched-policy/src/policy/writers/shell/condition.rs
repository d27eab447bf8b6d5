//! Commands that only ask something: `[`, `test`, `[[`, `grep -q` and those that always say the same.

use std::path::Path;

use super::{Shell, Truth, UNKNOWN};
use crate::shell::dialect::Dialect;
use crate::system_config::pattern::is_like;

impl Shell<'_> {
    /// Whether a command that asks something succeeds; nothing of any other command.
    pub(super) fn condition(
        &self,
        name: &str,
        arguments: &[String],
        of_tools: Dialect,
    ) -> Option<Truth> {
        Some(match name {
            "true" | ":" => Truth::Yes,
            "false" => Truth::No,
            "[" => self.test(
                arguments
                    .strip_suffix(&["]".to_owned()])
                    .unwrap_or(arguments),
                of_tools,
                false,
            ),
            "[[" => self.test(
                arguments
                    .strip_suffix(&["]]".to_owned()])
                    .unwrap_or(arguments),
                of_tools,
                true,
            ),
            "test" => self.test(arguments, of_tools, false),
            "grep" | "egrep" | "fgrep" => self.grep(arguments),
            _ => return None,
        })
    }

    fn test(&self, words: &[String], of_tools: Dialect, takes_patterns: bool) -> Truth {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            // An error, with `!` before it, too.
            [_, "==", _] | ["!", _, "==", _] if !of_tools.has_common_extensions() => Truth::No,
            ["!", ref rest @ ..] if !rest.is_empty() => {
                let rest: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
                self.test(&rest, of_tools, takes_patterns).not()
            }
            [] => Truth::No,
            [text] => is_known(text, || !text.is_empty()),
            ["-n", text] => is_known(text, || !text.is_empty()),
            ["-z", text] => is_known(text, || text.is_empty()),
            ["-e" | "-f" | "-d" | "-r" | "-w" | "-x" | "-s" | "-b", path] => self.exists(path),
            [a, operator, b] => {
                if a.contains(UNKNOWN) || b.contains(UNKNOWN) {
                    return Truth::Unknown;
                }
                let is_same = || {
                    if takes_patterns {
                        is_like(b, a)
                    } else {
                        a == b
                    }
                };
                let numbers =
                    || Some((a.trim().parse::<i64>().ok()?, b.trim().parse::<i64>().ok()?));
                let is = match operator {
                    "=" | "==" => Some(is_same()),
                    "!=" => Some(!is_same()),
                    "-eq" => numbers().map(|(a, b)| a == b),
                    "-ne" => numbers().map(|(a, b)| a != b),
                    "-lt" => numbers().map(|(a, b)| a < b),
                    "-le" => numbers().map(|(a, b)| a <= b),
                    "-gt" => numbers().map(|(a, b)| a > b),
                    "-ge" => numbers().map(|(a, b)| a >= b),
                    _ => None,
                };
                is.map_or(Truth::Unknown, Truth::of)
            }
            _ => Truth::Unknown,
        }
    }

    /// Whether a file is there. That a copied tree lacks it says nothing, unless the tree has the directory.
    pub(super) fn exists(&self, path: &str) -> Truth {
        if path.is_empty() {
            return Truth::No;
        }
        let path = self.absolute(path);
        if path.contains(UNKNOWN) {
            return Truth::Unknown;
        }
        let host = self.place.host;
        let in_machine = |path: &Path| match (
            self.place.below(&path.to_string_lossy()),
            path.strip_prefix("/sys"),
        ) {
            (Some(below), _) => self.place.directory().join(below),
            (None, Ok(below)) => host.sysfs().root().join(below),
            (None, Err(_)) => host.path(path),
        };
        let path = Path::new(&path);
        if in_machine(path).exists() {
            return Truth::Yes;
        }
        let is_complete = host.is_live()
            || path
                .parent()
                .is_some_and(|parent| in_machine(parent).is_dir());
        if is_complete {
            Truth::No
        } else {
            Truth::Unknown
        }
    }

    /// Whether a plain text stands in a file of the disk. The names of schedulers that it does not offer may come.
    fn grep(&self, arguments: &[String]) -> Truth {
        let mut words = arguments.iter().filter(|word| !word.starts_with('-'));
        let (Some(text), Some(path), None) = (words.next(), words.next(), words.next()) else {
            return Truth::Unknown;
        };
        let is_plain =
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let has_effect = arguments
            .iter()
            .filter(|word| word.starts_with('-'))
            .any(|word| word.contains(['v', 'x', 'c', 'L']));
        if !is_plain || has_effect {
            return Truth::Unknown;
        }
        let path = self.absolute(path);
        if let Some(held) = self.place.text_at(&path) {
            return Truth::of(held.contains(text.as_str()));
        }
        let is_offered = self.place.offered.iter().any(|name| name == text);
        if self.place.below(&path) == Some("queue/scheduler") && is_offered {
            return Truth::Yes;
        }
        Truth::Unknown
    }
}

fn is_known(text: &str, is: impl Fn() -> bool) -> Truth {
    if text.contains(UNKNOWN) {
        Truth::Unknown
    } else {
        Truth::of(is())
    }
}
