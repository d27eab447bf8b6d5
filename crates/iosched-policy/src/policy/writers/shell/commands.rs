//! Single commands: those of a shell itself, programs that write what they are given, and those that start others.

use std::path::{Path, PathBuf};

use super::reader::Named;
use super::{Leaves, Outcome, Rights, Shell, Truth, UNKNOWN, words};
use crate::policy::writers::is_executable;
use crate::shell::dialect::Dialect;

/// Commands that start the one which follows them, and of which of their options a word follows.
const STARTERS: [(&str, &str); 13] = [
    ("sudo", "ugh"),
    ("doas", "u"),
    ("nice", "n"),
    ("ionice", "cn"),
    ("chrt", ""),
    ("env", "u"),
    ("nohup", ""),
    ("setsid", ""),
    ("exec", "a"),
    ("command", ""),
    ("builtin", ""),
    ("busybox", ""),
    ("timeout", "ks"),
];

/// Programs that write nothing into the files that they are given.
const READERS: [&str; 24] = [
    "awk", "basename", "cat", "chgrp", "chmod", "chown", "cut", "dirname", "egrep", "fgrep",
    "file", "grep", "head", "logger", "ls", "readlink", "realpath", "sort", "stat", "tail", "test",
    "touch", "udevadm", "wc",
];

impl Shell<'_> {
    /// A command of a shell and its arguments.
    pub(super) fn run(&mut self, words: &[String], line: usize) -> Outcome {
        if self.dialect.lacks(&words[0]) {
            return Outcome::silent(Truth::No);
        }
        self.run_by(words, line, self.dialect)
    }

    /// A program that no shell starts, and its arguments: what is built into a shell is not meant.
    pub(super) fn run_file(&mut self, words: &[String], line: usize) -> Outcome {
        self.run_by(words, line, Dialect::Bash) // coreutils and busybox have the tools of the same names do what bash's do
    }

    fn run_by(&mut self, words: &[String], line: usize, of_tools: Dialect) -> Outcome {
        let name = words[0].rsplit('/').next().unwrap_or_default();
        let arguments = &words[1..];
        let path = Path::new(&words[0]);
        if path.is_absolute() && self.script_of(path).is_some() {
            return if is_executable(self.place.host, path) {
                self.script(path, words, &[])
            } else {
                Outcome::silent(Truth::No)
            };
        }
        if let Some(body) = self.functions.get(&words[0]).cloned() {
            return self.within(words, |shell| shell.framed(|shell| shell.node(&body)));
        }
        if let Some((_, with_word)) = STARTERS.iter().find(|(starter, _)| *starter == name) {
            let rest = after_options(name, with_word, arguments);
            let is_of_shell = matches!(name, "command" | "builtin");
            return match rest {
                [] => Outcome::of(Truth::Unknown),
                [shell, more @ ..] if name == "busybox" && shell == "sh" => {
                    let words = [&["ash".to_owned()], more].concat();
                    self.shell(&words, line)
                }
                _ if is_of_shell => self.deeper(0, |shell| shell.run(rest, line)),
                _ if matches!(name, "sudo" | "doas") && self.rights == Rights::OfUser => {
                    self.rights = Rights::Root;
                    self.in_doubt(|shell| shell.deeper(0, |shell| shell.run_file(rest, line)));
                    self.rights = Rights::OfUser;
                    Outcome::of(Truth::Unknown)
                }
                _ => self.deeper(0, |shell| shell.run_file(rest, line)),
            };
        }
        let of_tools = if words[0].contains('/') {
            Dialect::Bash
        } else {
            of_tools
        };
        let is_for_scripts = matches!(name, "openrc-run" | "runscript");
        if !is_for_scripts && Named::of(&[name]).is_some() {
            return self.shell(words, line);
        }
        if let Some(success) = self.condition(name, arguments, of_tools) {
            return Outcome::silent(success);
        }
        let builtin = self.builtin(&words[0], arguments, line);
        builtin.unwrap_or_else(|| self.tool(name, arguments, line, of_tools))
    }

    /// A command of the shell itself; nothing if it is none.
    fn builtin(&mut self, name: &str, arguments: &[String], line: usize) -> Option<Outcome> {
        Some(match name {
            "exit" => Outcome {
                leaves: Leaves::Script,
                ..Outcome::of(Truth::Unknown)
            },
            "break" | "continue" if self.loops == 0 => Outcome::silent(Truth::Yes),
            "return" if self.frames == 0 && self.dialect.is_bash() => {
                if self.dialect == Dialect::BashAsSh {
                    // Ends the script as a command of its own, and not before `||`.
                    self.perhaps_left = self.perhaps_left.max(Leaves::Script);
                }
                Outcome::silent(Truth::No)
            }
            "return" | "break" | "continue" => Outcome {
                leaves: match name {
                    "return" => Leaves::Function,
                    "break" => Leaves::Loop,
                    _ => Leaves::Turn,
                },
                ..Outcome::of(Truth::Unknown)
            },
            "cd" | "pushd" => {
                let to = arguments
                    .iter()
                    .rfind(|argument| !argument.starts_with('-'));
                self.directory = to.map_or_else(|| UNKNOWN.to_string(), |to| self.absolute(to));
                Outcome::of(Truth::Yes)
            }
            "export" | "readonly" | "local" | "declare" | "typeset" => {
                self.declare(name == "export", arguments);
                Outcome::of(Truth::Yes)
            }
            "unset" | "read" | "mapfile" | "readarray" | "getopts" => {
                for name in arguments {
                    self.variables.insert(name.clone(), UNKNOWN.to_string());
                }
                Outcome::of(Truth::Unknown)
            }
            "set" => {
                self.set(arguments);
                Outcome::of(Truth::Yes)
            }
            "shift" => {
                let by = arguments.first().map_or(Ok(1), |by| by.parse::<usize>());
                let last = self.arguments.len();
                self.arguments
                    .drain(1.min(last)..by.unwrap_or(last).saturating_add(1).min(last));
                Outcome::of(Truth::Yes)
            }
            "eval" => {
                let text = arguments.join(" ");
                if text.contains(UNKNOWN) {
                    self.names_in(&text);
                    return Some(Outcome::of(Truth::Unknown));
                }
                self.has_failed = false;
                let outcome = self.deeper(line, |shell| shell.text(&text));
                self.unless_it_goes_on(outcome)
            }
            "." | "source" => self.sourced(arguments),
            _ => return None,
        })
    }

    fn declare(&mut self, is_export: bool, arguments: &[String]) {
        let exports = is_export || arguments.iter().any(|word| word == "-x");
        for argument in arguments {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (argument.as_str(), None),
            };
            if exports {
                self.exported.insert(name.to_owned());
            }
            if let Some(value) = value {
                self.keep(name, value.to_owned());
            }
        }
    }

    fn set(&mut self, arguments: &[String]) {
        self.exports_all = exports_all(arguments).unwrap_or(self.exports_all);
        if arguments.iter().any(|word| word == "pipefail") && self.dialect == Dialect::Dash {
            // An error to dash before 0.5.13, which ends the script.
            self.perhaps_left = self.perhaps_left.max(Leaves::Script);
        }
        if let Some(at) = arguments.iter().position(|argument| argument == "--") {
            self.arguments.truncate(1);
            self.arguments.extend_from_slice(&arguments[at + 1..]);
        }
    }

    /// A program.
    fn tool(
        &mut self,
        name: &str,
        arguments: &[String],
        line: usize,
        of_tools: Dialect,
    ) -> Outcome {
        match name {
            "echo" => Outcome::printing(words::echoed(arguments, of_tools)),
            "printf" => Outcome::printing(words::formatted(arguments)),
            "tee" => {
                let value = self.input.clone();
                for path in arguments
                    .iter()
                    .filter(|argument| !argument.starts_with('-'))
                {
                    self.write(path, &value, line);
                }
                // Whether another file can be written is not known.
                let is_known = |path: &String| {
                    let path = self.absolute(path);
                    path == "/dev/null" || self.place.target(&path, &value).is_some()
                };
                let mut paths = arguments
                    .iter()
                    .filter(|argument| !argument.starts_with('-'));
                let success = if paths.all(is_known) {
                    Truth::Yes
                } else {
                    Truth::Unknown
                };
                Outcome {
                    success,
                    ..Outcome::printing(value)
                }
            }
            "cat" if arguments.is_empty() || arguments == ["-"] => {
                Outcome::printing(self.input.clone())
            }
            "cat" if arguments.len() == 1 => {
                let text = self.place.text_at(&self.absolute(&arguments[0]));
                Outcome::printing(text.unwrap_or_else(|| UNKNOWN.to_string()))
            }
            "basename" | "dirname" => Outcome::printing(words::part_of_path(name, arguments)),
            "dd" => {
                let value = self.input.clone();
                for argument in arguments {
                    if let Some(path) = argument.strip_prefix("of=") {
                        self.write(path, &value, line);
                    }
                }
                Outcome::of(Truth::Unknown)
            }
            "cp" | "install" => {
                if let Some(path) = arguments.last() {
                    self.write(path, &UNKNOWN.to_string(), line);
                }
                Outcome::of(Truth::Unknown)
            }
            "find" => self.found(arguments, line),
            "xargs" => self.with_more(arguments, line),
            "sleep" | "wait" | "sync" | "modprobe" | "trap" | "umask" | "ulimit" => {
                Outcome::of(Truth::Unknown)
            }
            _ => {
                self.other(name, arguments, line);
                Outcome::of(Truth::Unknown)
            }
        }
    }

    /// A program that is not followed: it writes perhaps what it names.
    fn other(&mut self, name: &str, arguments: &[String], line: usize) {
        let before = self.line;
        self.line = before.or(Some(line));
        for argument in arguments {
            let is_path = argument.starts_with('/') && !argument.contains(char::is_whitespace);
            if is_path && !READERS.contains(&name) && name != "sed" {
                self.doubts += 1;
                self.write(argument, &UNKNOWN.to_string(), line);
                self.doubts -= 1;
            } else if !is_path && !matches!(name, "logger" | "grep") {
                self.names_in(argument);
            }
        }
        self.line = before;
    }

    /// A shell, with these words.
    fn shell(&mut self, words: &[String], line: usize) -> Outcome {
        let name = words[0].rsplit('/').next().unwrap_or_default();
        let is_posix = words.iter().any(|word| word == "--posix");
        let named = Named::of(&[name, if is_posix { "--posix" } else { "" }]);
        let dialect = self.dialect_of(named.unwrap_or(Named::Other));
        let mut rest = &words[1..];
        while let Some((option, more)) = rest.split_first() {
            if !option.starts_with(['-', '+']) || option.len() < 2 {
                break;
            }
            rest = more;
            if option.starts_with('-') && !option.starts_with("--") && option.contains('c') {
                let Some((text, arguments)) = more.split_first() else {
                    break;
                };
                let arguments = if arguments.is_empty() {
                    &words[..1]
                } else {
                    arguments
                };
                let line = self.line.unwrap_or(line);
                return self.within(arguments, |shell| {
                    let before = shell.line;
                    if line > 0 {
                        shell.line = Some(line);
                    }
                    let outcome = shell.as_child(dialect, |shell| shell.text(text));
                    shell.line = before;
                    outcome
                });
            }
        }
        match rest.first() {
            Some(script) if script.starts_with('/') => {
                let script = PathBuf::from(script);
                self.script_by(&script, rest, &[], Some(dialect))
            }
            _ => Outcome::of(Truth::Unknown),
        }
    }

    /// `. FILE`.
    fn sourced(&mut self, arguments: &[String]) -> Outcome {
        let Some(path) = arguments.first() else {
            return Outcome::of(Truth::Unknown);
        };
        let path = PathBuf::from(self.absolute(path));
        let Some(text) = self.script_of(&path) else {
            self.may_have_more = true;
            let is_not_there = self.exists(&path.to_string_lossy()) == Truth::No;
            return if is_not_there && self.dialect.dies_of_special_builtins() {
                Outcome {
                    leaves: Leaves::Script,
                    ..Outcome::of(Truth::No)
                }
            } else {
                Outcome::of(Truth::Unknown)
            };
        };
        let file = std::mem::replace(&mut self.file, path);
        let line = self.line.take();
        self.has_failed = false;
        let outcome = self.deeper(0, |shell| shell.framed(|shell| shell.text(&text)));
        (self.file, self.line) = (file, line);
        self.unless_it_goes_on(outcome)
    }

    /// What `eval` and `.` come to: bash itself goes on after a text that is an error.
    fn unless_it_goes_on(&mut self, outcome: Outcome) -> Outcome {
        if std::mem::take(&mut self.has_failed) && !self.dialect.dies_of_special_builtins() {
            return Outcome::of(Truth::No);
        }
        outcome
    }

    /// `find … -exec COMMAND`.
    fn found(&mut self, arguments: &[String], line: usize) -> Outcome {
        let is_exec = |argument: &String| matches!(argument.as_str(), "-exec" | "-execdir" | "-ok");
        if let Some(at) = arguments.iter().position(is_exec) {
            let words = arguments[at + 1..].iter();
            let words = words.take_while(|word| !matches!(word.as_str(), ";" | "+"));
            let words: Vec<String> = words.map(|word| word.replace("{}", "\0")).collect();
            if !words.is_empty() {
                self.in_doubt(|shell| shell.deeper(0, |shell| shell.run_file(&words, line)));
            }
        }
        Outcome::of(Truth::Unknown)
    }

    /// `xargs COMMAND`.
    fn with_more(&mut self, arguments: &[String], line: usize) -> Outcome {
        let mut rest = arguments;
        let mut stands_for = None;
        while let Some((option, more)) = rest.split_first() {
            if !option.starts_with('-') {
                break;
            }
            rest = more;
            let has_word = option.len() == 2 && "IniLPsda".contains(&option[1..]);
            if let Some(together) = option.strip_prefix("-I") {
                let apart = more.first().map(String::as_str).unwrap_or_default();
                stands_for = Some(if has_word { apart } else { together }.to_owned());
            }
            rest = rest.get(usize::from(has_word)..).unwrap_or_default();
        }
        if rest.is_empty() {
            return Outcome::of(Truth::Unknown);
        }
        let words: Vec<String> = match stands_for.filter(|text| !text.is_empty()) {
            Some(text) => rest.iter().map(|word| word.replace(&text, "\0")).collect(),
            None => rest.iter().cloned().chain(["\0".to_owned()]).collect(),
        };
        self.in_doubt(|shell| shell.deeper(0, |shell| shell.run_file(&words, line)));
        Outcome::of(Truth::Unknown)
    }
}

/// What `set` with these words makes of `-a`; nothing if it leaves it as it is.
fn exports_all(arguments: &[String]) -> Option<bool> {
    let mut words = arguments.iter().take_while(|word| *word != "--").peekable();
    let mut found = None;
    while let Some(word) = words.next() {
        let letters = word.strip_prefix(['-', '+']);
        let is_named =
            letters == Some("o") && words.peek().is_some_and(|name| *name == "allexport");
        if is_named || letters.is_some_and(|letters| letters.contains('a')) {
            found = Some(word.starts_with('-'));
        }
    }
    found
}

/// What follows the options of a command that starts another one.
fn after_options<'w>(name: &str, with_word: &str, arguments: &'w [String]) -> &'w [String] {
    let mut rest = arguments;
    while let Some((first, more)) = rest.split_first() {
        let is_option = first.starts_with('-') && first.len() > 1;
        let is_setting = matches!(name, "env" | "sudo") && first.contains('=');
        let is_time = name == "timeout" && first.starts_with(|c: char| c.is_ascii_digit());
        let is_priority = name == "chrt" && first.parse::<u8>().is_ok();
        if !(is_option || is_setting || is_time || is_priority) {
            break;
        }
        let takes_word = is_option && first.len() == 2 && with_word.contains(&first[1..]);
        rest = more.get(usize::from(takes_word)..).unwrap_or_default();
    }
    rest
}
