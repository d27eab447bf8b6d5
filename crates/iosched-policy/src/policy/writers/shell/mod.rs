//! What a program that is started at boot writes into a disk's queue: shells and their scripts are followed for one disk, as
//! far as that goes without running them.
//!
//! Followed: variables, arguments, functions, loops over words and over what is below `/sys/block`, conditions that ask for files,
//! texts and numbers, `case`, `.` and other scripts, `sh -c`, and the ways in which people write a file: redirections of
//! `echo` and `printf`, `tee`, `dd`, `cp`, `find -exec`, `xargs`. What is not known is [`UNKNOWN`] within a text; what is carried out only
//! under a condition that cannot be judged is uncertain. Of a program that is not followed it is only said that it names
//! the file. Where shells differ, the script is followed as the one does that reads it; where the machine's files do not say which
//! one that is, as each of them does.

mod commands;
mod condition;
mod reader;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use iosched_machine::host::Host;
use iosched_machine::regular_file::open_to_read;
use iosched_machine::sysfs::sysfs_name;

use self::reader::Named;
use super::text_of;
use super::truth::Truth;
use crate::policy::matching::KnownDisk;
use crate::shell::dialect::{self, Dialect};
pub(super) use crate::shell::syntax::UNKNOWN;
use crate::shell::syntax::{self, Command, List, Node, Piece, Redirection, Rest, Word};
use crate::system_config::pattern::is_like;

/// A write that would be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    /// The script, and the line in it.
    pub(super) file: PathBuf,
    pub(super) line: usize,
    /// Below `/sys/block/<device>/`.
    pub(super) target: String,
    /// Absent where it is not known.
    pub(super) value: Option<String>,
    /// False where it, or which disk it is for, depends on what is not known.
    pub(super) certain: bool,
    /// True if not every shell writes it, and it is not known which one reads the script.
    pub(super) depends_on_shell: bool,
}

/// A disk of a machine, for which programs are followed.
pub(super) struct FollowedDisk<'a> {
    host: &'a Host,
    /// As it is called in sysfs.
    name: String,
    /// `8:0`.
    number: String,
    offered: &'a [String],
    /// What `/bin/sh` is, if that is known.
    sh: Option<Dialect>,
}

impl<'a> FollowedDisk<'a> {
    pub(super) fn of(host: &'a Host, disk: &'a KnownDisk) -> FollowedDisk<'a> {
        FollowedDisk {
            host,
            name: sysfs_name(&disk.device.name),
            number: disk.device.number.to_string(),
            offered: disk.device.schedulers.offered(),
            sh: Dialect::of_sh(host),
        }
    }
}

/// What a program is started with.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    pub(super) variables: BTreeMap<String, String>,
    /// True if there are others.
    pub(super) has_more: bool,
    pub(super) rights: Rights,
    /// What it reads, if that is known.
    pub(super) input: Option<String>,
}

/// What a program may do with the files of sysfs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Rights {
    #[default]
    Root,
    /// It is another user's: nothing but by `sudo`.
    OfUser,
    /// They are read-only where it runs.
    ReadOnly,
}

/// What a program writes that is started with these words, as `file` says in this line.
pub(super) fn writes_of_program(
    place: &FollowedDisk<'_>,
    words: &[String],
    environment: &Environment,
    (file, line): (&Path, usize),
) -> Vec<Write> {
    as_each_shell(place, environment, file, |shell| {
        shell.line = Some(line);
        shell.program(words);
    })
}

/// What a script writes that is started with these arguments, after which of its functions are called.
pub(super) fn writes_of_script(
    place: &FollowedDisk<'_>,
    script: &Path,
    arguments: &[&str],
    functions: &[&str],
) -> Vec<Write> {
    let mut words = vec![script.display().to_string()];
    words.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    as_each_shell(place, &Environment::default(), script, |shell| {
        shell.script(script, &words, functions);
    })
}

/// What a line of commands for `sh` writes, as `file` says in this line.
pub(super) fn writes_of_line(
    place: &FollowedDisk<'_>,
    text: &str,
    (file, line): (&Path, usize),
) -> Vec<Write> {
    as_each_shell(place, &Environment::default(), file, |shell| {
        shell.line = Some(line);
        shell.text(text);
    })
}

/// Follows something as each shell would which may read it, and says in what they differ.
fn as_each_shell(
    place: &FollowedDisk<'_>,
    environment: &Environment,
    file: &Path,
    follow: impl Fn(&mut Shell<'_>),
) -> Vec<Write> {
    let mut found: Option<Vec<Write>> = None;
    for unknown in dialect::ALL {
        let mut shell = Shell::new(place, environment, file, unknown);
        follow(&mut shell);
        found = Some(match found {
            Some(others) => merged(others, shell.writes),
            None => shell.writes,
        });
        if !shell.has_guessed {
            break;
        }
    }
    found.unwrap_or_default()
}

/// What two shells write, in the order of both; what one of them alone does is in doubt.
fn merged(mut found: Vec<Write>, other: Vec<Write>) -> Vec<Write> {
    let same = |a: &Write, b: &Write| {
        let of = |write: &Write| (write.line, write.target.clone(), write.value.clone());
        a.file == b.file && of(a) == of(b)
    };
    let doubtful = |write: Write| Write {
        depends_on_shell: true,
        certain: false,
        ..write
    };
    let mut at = 0;
    for write in other {
        let rest = found.get(at..).unwrap_or_default();
        match rest.iter().position(|known| same(known, &write)) {
            Some(skipped) => {
                for alone in &mut found[at..at + skipped] {
                    *alone = doubtful(alone.clone());
                }
                at += skipped;
                if found[at].certain != write.certain {
                    found[at] = doubtful(found[at].clone());
                }
            }
            None => found.insert(at, doubtful(write)),
        }
        at += 1;
    }
    for alone in &mut found[at..] {
        *alone = doubtful(alone.clone());
    }
    found
}

/// What is left when a command has ended, from the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Leaves {
    Nothing,
    /// This turn of a loop.
    Turn,
    Loop,
    Function,
    Script,
}

/// What a command came to.
struct Outcome {
    success: Truth,
    leaves: Leaves,
    /// What it prints, if that is known.
    output: String,
}

impl Outcome {
    fn of(success: Truth) -> Outcome {
        Outcome {
            success,
            leaves: Leaves::Nothing,
            output: UNKNOWN.to_string(),
        }
    }

    fn silent(success: Truth) -> Outcome {
        Outcome {
            output: String::new(),
            ..Outcome::of(success)
        }
    }

    fn printing(output: String) -> Outcome {
        Outcome {
            output,
            ..Outcome::of(Truth::Yes)
        }
    }
}

/// Commands that are followed of one program, with all the scripts that it runs.
const MOST_COMMANDS: usize = 20_000;

/// So many bytes that are copied or put together count as a command: a short script can ask for gigabytes.
const BYTES_OF_COMMAND: usize = 4096;

/// What a variable takes besides its name and its text, about.
const BYTES_OF_VARIABLE: usize = 64;

/// Scripts, functions and shells within each other.
const DEEPEST: usize = 12;

/// Words over which a loop runs; of more than these one turn is followed, with a word that is not known.
const MOST_TURNS: usize = 64;

/// What a script may hold.
const LARGEST_SCRIPT: u64 = 256 * 1024;

/// Follows commands.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says something of its own, at a time of its own"
)]
struct Shell<'a> {
    place: &'a FollowedDisk<'a>,
    variables: BTreeMap<String, String>,
    /// Those that came from outside.
    may_have_more: bool,
    /// The variables that programs get which it starts.
    exported: BTreeSet<String>,
    /// True after `set -a`: all of them.
    exports_all: bool,
    /// From `$0` on.
    arguments: Vec<String>,
    functions: BTreeMap<String, Rc<Node>>,
    /// The shell that reads the commands.
    dialect: Dialect,
    /// What a shell is taken for that is not known.
    unknown: Dialect,
    /// True once that was asked.
    has_guessed: bool,
    /// True after a text that its shell takes for an error.
    has_failed: bool,
    /// True after an expansion that ends the script.
    is_broken: bool,
    directory: String,
    input: String,
    file: PathBuf,
    /// The line of the file in which all of this stands; none where the commands have lines of their own.
    line: Option<usize>,
    /// How many conditions stand around that cannot be judged.
    doubts: usize,
    /// What was perhaps left: to its end nothing is certain.
    perhaps_left: Leaves,
    depth: usize,
    /// Loops that stand around.
    loops: usize,
    /// Functions and files that are sourced, which stand around.
    frames: usize,
    commands: usize,
    rights: Rights,
    writes: Vec<Write>,
}

impl<'a> Shell<'a> {
    fn new(
        place: &'a FollowedDisk<'a>,
        environment: &Environment,
        file: &Path,
        unknown: Dialect,
    ) -> Shell<'a> {
        let mut shell = Shell {
            place,
            variables: environment.variables.clone(),
            may_have_more: environment.has_more,
            exported: environment.variables.keys().cloned().collect(),
            exports_all: false,
            arguments: vec!["sh".into()],
            functions: BTreeMap::new(),
            dialect: unknown,
            unknown,
            has_guessed: false,
            has_failed: false,
            is_broken: false,
            directory: "/".into(),
            input: environment
                .input
                .clone()
                .unwrap_or_else(|| UNKNOWN.to_string()),
            file: file.to_owned(),
            line: None,
            doubts: 0,
            perhaps_left: Leaves::Nothing,
            depth: 0,
            loops: 0,
            frames: 0,
            commands: 0,
            rights: environment.rights,
            writes: Vec::new(),
        };
        shell.dialect = place.sh.unwrap_or(unknown);
        shell.has_guessed = place.sh.is_none();
        shell
    }

    /// What a shell of this name is here.
    fn dialect_of(&mut self, named: Named) -> Dialect {
        let known = match named {
            Named::Is(dialect) => Some(dialect),
            Named::Sh => self.place.sh,
            Named::Other => None,
        };
        self.has_guessed |= known.is_none();
        known.unwrap_or(self.unknown)
    }

    fn is_certain(&self) -> bool {
        self.doubts == 0 && self.perhaps_left == Leaves::Nothing
    }

    /// A text of commands.
    fn text(&mut self, text: &str) -> Outcome {
        let (list, rest) = syntax::parse(text, self.dialect);
        let outcome = self.list(&list);
        if outcome.leaves != Leaves::Nothing {
            return outcome;
        }
        match rest {
            Rest::Nothing => outcome,
            Rest::Error => {
                self.has_failed = true;
                Outcome {
                    leaves: Leaves::Script,
                    ..Outcome::of(Truth::No)
                }
            }
            Rest::NotRead(text, first) => {
                self.lines(text, first);
                Outcome::of(Truth::Unknown)
            }
        }
    }

    /// Line by line, as far as that goes.
    fn lines(&mut self, text: &str, first: usize) {
        self.doubts += 1;
        let line_of_all = self.line;
        for (index, line) in text.lines().enumerate() {
            self.line = line_of_all.or(Some(first + index));
            match syntax::parse(line, self.dialect) {
                (list, Rest::Nothing) => _ = self.list(&list),
                _ if !line.trim_start().starts_with('#') => self.names_in(line),
                _ => {}
            }
        }
        self.line = line_of_all;
        self.doubts -= 1;
    }

    fn list(&mut self, list: &List) -> Outcome {
        let mut outcome = Outcome::of(Truth::Yes);
        for node in list {
            outcome = self.node(node);
            if outcome.leaves != Leaves::Nothing {
                break;
            }
        }
        if list.len() > 1 {
            outcome.output = UNKNOWN.to_string();
        }
        outcome
    }

    /// Counts bytes that are copied or put together.
    fn spend(&mut self, bytes: usize) {
        self.commands += bytes / BYTES_OF_COMMAND;
    }

    /// True once no more is followed.
    fn is_spent(&self) -> bool {
        self.commands > MOST_COMMANDS
    }

    fn keep(&mut self, name: &str, value: String) -> Option<String> {
        self.spend(value.len());
        self.variables.insert(name.to_owned(), value)
    }

    fn copy_of_variables(&mut self) -> BTreeMap<String, String> {
        let variables = self.variables.iter();
        let bytes = variables.map(|(name, value)| name.len() + value.len() + BYTES_OF_VARIABLE);
        self.spend(bytes.sum());
        self.variables.clone()
    }

    /// Carries out something of which it is not known whether it is.
    fn in_doubt(&mut self, follow: impl FnOnce(&mut Self) -> Outcome) {
        let before = self.copy_of_variables();
        let directory = self.directory.clone();
        self.doubts += 1;
        let left = follow(self).leaves;
        self.doubts -= 1;
        self.perhaps_left = self.perhaps_left.max(left);
        for (name, value) in &mut self.variables {
            if before.get(name) != Some(value) {
                *value = UNKNOWN.to_string();
            }
        }
        if self.directory != directory {
            self.directory = UNKNOWN.to_string();
        }
    }

    /// To the end of what may be left within it.
    fn up_to(&mut self, end: Leaves, follow: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let before = std::mem::replace(&mut self.perhaps_left, Leaves::Nothing);
        let is_in_doubt = usize::from(before != Leaves::Nothing);
        self.doubts += is_in_doubt;
        let mut outcome = follow(self);
        self.doubts -= is_in_doubt;
        if outcome.leaves <= end {
            outcome.leaves = Leaves::Nothing;
        }
        if self.perhaps_left <= end {
            self.perhaps_left = Leaves::Nothing;
        }
        self.perhaps_left = self.perhaps_left.max(before);
        outcome
    }

    /// A function or a file that is sourced, which may be returned from.
    fn framed(&mut self, follow: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        self.frames += 1;
        let outcome = self.up_to(Leaves::Function, follow);
        self.frames -= 1;
        outcome
    }

    fn looped(&mut self, follow: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        self.loops += 1;
        let outcome = self.up_to(Leaves::Loop, follow);
        self.loops -= 1;
        outcome
    }

    fn node(&mut self, node: &Node) -> Outcome {
        if self.is_spent() {
            return Outcome {
                leaves: Leaves::Script,
                ..Outcome::of(Truth::Unknown)
            };
        }
        let outcome = self.followed(node);
        if std::mem::take(&mut self.is_broken) {
            return Outcome {
                leaves: Leaves::Script,
                ..Outcome::of(Truth::No)
            };
        }
        outcome
    }

    fn followed(&mut self, node: &Node) -> Outcome {
        match node {
            Node::Command(command) => self.command(command),
            Node::Pipeline { parts, is_negated } => {
                let before = self.input.clone();
                let mut last = Outcome::of(Truth::Unknown);
                for part in parts {
                    last = self.node(part);
                    self.input.clone_from(&last.output);
                }
                self.input = before;
                if *is_negated {
                    last.success = last.success.not();
                }
                if parts.len() > 1 {
                    last.leaves = Leaves::Nothing;
                }
                last
            }
            Node::AndOr(first, others) => {
                let mut outcome = self.node(first);
                for (is_and, node) in others {
                    if outcome.leaves != Leaves::Nothing {
                        break;
                    }
                    let wanted = Truth::of(*is_and);
                    if outcome.success == wanted {
                        outcome = self.node(node);
                    } else if outcome.success == Truth::Unknown {
                        self.in_doubt(|shell| shell.node(node));
                    }
                }
                outcome
            }
            Node::If { arms, otherwise } => self.conditional(arms, otherwise),
            Node::Case { word, arms } => self.case(word, arms),
            Node::For { name, words, body } => self.each(name, words.as_deref(), body),
            Node::While { condition, body } => self.looped(|shell| {
                shell.list(condition);
                shell.in_doubt(|shell| shell.list(body));
                Outcome::of(Truth::Unknown)
            }),
            Node::Function { name, body } => {
                let body = Rc::new((**body).clone());
                self.functions.insert(name.clone(), body);
                Outcome::of(Truth::Yes)
            }
            Node::Group { body, is_subshell } => {
                if !is_subshell {
                    return self.list(body);
                }
                let (variables, directory) = (self.copy_of_variables(), self.directory.clone());
                let outcome = self.up_to(Leaves::Script, |shell| shell.list(body));
                (self.variables, self.directory) = (variables, directory);
                outcome
            }
            Node::Redirected(node, redirections, line) => {
                let before = self.input.clone();
                self.redirect_input(redirections);
                if self.is_broken {
                    return Outcome::of(Truth::No);
                }
                let outcome = self.node(node);
                self.input = before;
                let output = outcome.output.clone();
                self.redirect_output(redirections, &output, *line);
                outcome
            }
        }
    }

    fn conditional(&mut self, arms: &[(List, List)], otherwise: &List) -> Outcome {
        let mut is_in_doubt = false;
        for (condition, then) in arms {
            let asked = self.list(condition);
            match asked.success {
                _ if asked.leaves != Leaves::Nothing => return asked,
                Truth::No => {}
                Truth::Yes if !is_in_doubt => return self.list(then),
                Truth::Yes => {
                    self.in_doubt(|shell| shell.list(then));
                    return Outcome::of(Truth::Unknown);
                }
                Truth::Unknown => {
                    self.in_doubt(|shell| shell.list(then));
                    is_in_doubt = true;
                }
            }
        }
        if is_in_doubt {
            self.in_doubt(|shell| shell.list(otherwise));
            return Outcome::of(Truth::Unknown);
        }
        self.list(otherwise)
    }

    fn case(&mut self, word: &Word, arms: &[(Vec<Word>, List)]) -> Outcome {
        let text = self.text_of_word(word);
        let mut is_in_doubt = false;
        if self.is_broken {
            return Outcome::of(Truth::No);
        }
        for (patterns, body) in arms {
            let mut is_taken = Truth::No;
            for pattern in patterns {
                let pattern = self.text_of_word(pattern);
                if pattern == "*" || pattern == text && !text.contains(UNKNOWN) {
                    is_taken = Truth::Yes;
                } else if pattern.contains(UNKNOWN) || text.contains(UNKNOWN) {
                    is_taken = Truth::Unknown;
                } else if is_like(&pattern, &text) {
                    is_taken = Truth::Yes;
                }
                if is_taken == Truth::Yes {
                    break;
                }
            }
            match is_taken {
                Truth::No => {}
                Truth::Yes if !is_in_doubt => return self.list(body),
                Truth::Yes => {
                    self.in_doubt(|shell| shell.list(body));
                    break;
                }
                Truth::Unknown => {
                    self.in_doubt(|shell| shell.list(body));
                    is_in_doubt = true;
                }
            }
        }
        Outcome::of(Truth::Unknown)
    }

    fn each(&mut self, name: &str, words: Option<&[Word]>, body: &List) -> Outcome {
        let mut turns = match words {
            Some(words) => self.fields(words),
            None => self.arguments.iter().skip(1).cloned().collect(),
        };
        if self.is_broken {
            return Outcome::of(Truth::No);
        }
        if turns.len() > MOST_TURNS {
            turns = vec![UNKNOWN.to_string()];
        }
        self.looped(|shell| {
            for turn in turns {
                let is_known = !turn.contains(UNKNOWN);
                shell.keep(name, turn);
                let left = shell.up_to(Leaves::Turn, |shell| {
                    if is_known {
                        return shell.list(body);
                    }
                    shell.in_doubt(|shell| shell.list(body));
                    Outcome::of(Truth::Unknown)
                });
                if left.leaves != Leaves::Nothing {
                    return left;
                }
            }
            Outcome::of(Truth::Unknown)
        })
    }

    fn command(&mut self, command: &Command) -> Outcome {
        self.commands += 1;
        let is_double_bracket = matches!(
            command.words.first().map(Vec::as_slice),
            Some([Piece::Text { text, .. }]) if text == "[["
        );
        let words = if is_double_bracket && self.dialect.has_common_extensions() {
            let words = command.words.iter();
            words.map(|word| self.text_of_word(word)).collect()
        } else {
            self.fields(&command.words)
        };
        let mut before = Vec::new();
        for assignment in &command.assignments {
            let name = &assignment.name;
            let is_whole = !(assignment.appends || assignment.is_of_element || assignment.is_array);
            let value = if is_whole {
                self.text_of_word(&assignment.value)
            } else {
                UNKNOWN.to_string()
            };
            let old = self.keep(name, value);
            let is_exported = self.exports_all || !words.is_empty();
            let is_new = is_exported && self.exported.insert(name.clone());
            before.push((name.clone(), old, is_new));
        }
        let input = self.input.clone();
        self.redirect_input(&command.redirections);
        if self.is_broken {
            return Outcome::of(Truth::No);
        }
        let outcome = match words.split_first() {
            Some(_) => self.run(&words, command.line),
            None => Outcome::silent(Truth::Yes),
        };
        self.input = input;
        self.redirect_output(&command.redirections, &outcome.output, command.line);
        if !words.is_empty() {
            for (name, old, was_not_exported) in before.into_iter().rev() {
                if was_not_exported {
                    self.exported.remove(&name);
                }
                match old {
                    Some(value) => _ = self.variables.insert(name, value),
                    None => _ = self.variables.remove(&name),
                }
            }
        }
        outcome
    }

    /// A program that the kernel is told to start with these words.
    fn program(&mut self, words: &[String]) -> Outcome {
        let line = self.line.unwrap_or(0);
        let Some(path) = words.first().map(Path::new) else {
            return Outcome::of(Truth::Unknown);
        };
        let is_no_program = || {
            let text = self.script_of(path);
            text.is_some_and(|text| !text.is_empty() && !text.starts_with("#!"))
        };
        if path.is_absolute() && (self.surely_lacks(path) || is_no_program()) {
            return Outcome::silent(Truth::No);
        }
        self.run_file(words, line)
    }

    /// True of a program that is not there. A part of a machine may be copied without its common programs.
    fn surely_lacks(&self, path: &Path) -> bool {
        const COMMON: [&str; 4] = ["/bin", "/sbin", "/usr/bin", "/usr/sbin"];
        let is_common = path
            .parent()
            .is_some_and(|parent| COMMON.iter().any(|common| parent == Path::new(common)));
        let is_known = self.place.host.is_live() || !is_common;
        is_known && self.exists(&path.to_string_lossy()) == Truth::No
    }

    /// A text that is not followed, in which the file of a scheduler is perhaps named.
    fn names_in(&mut self, text: &str) {
        let is_named = text.contains("queue/scheduler")
            || text.contains("/sys/") && text.contains("block") && text.contains("scheduler");
        if is_named && self.rights == Rights::Root {
            let write = Write {
                file: self.file.clone(),
                line: self.line.unwrap_or(0),
                target: "queue/scheduler".into(),
                value: None,
                certain: false,
                depends_on_shell: false,
            };
            self.writes.push(write);
        }
    }

    /// A script that is started with these words, the first of which it is itself.
    fn script(&mut self, script: &Path, words: &[String], functions: &[&str]) -> Outcome {
        self.script_by(script, words, functions, None)
    }

    /// The same, where a shell is given the script and does not ask for `#!`.
    fn script_by(
        &mut self,
        script: &Path,
        words: &[String],
        functions: &[&str],
        by: Option<Dialect>,
    ) -> Outcome {
        let Some(text) = self.script_of(script) else {
            return Outcome::of(Truth::Unknown);
        };
        let file = std::mem::replace(&mut self.file, script.to_owned());
        let line = self.line.take();
        let named = shell_of(&text).map(|named| self.dialect_of(named));
        let dialect = by.or(named).unwrap_or(self.dialect); // without `#!` the shell that starts it reads it
        let outcome = self.within(words, |shell| {
            shell.as_child(dialect, |shell| {
                if by.is_none() && !is_of_shell(&text) {
                    for (index, line) in text.lines().enumerate() {
                        if !line.trim_start().starts_with('#') {
                            shell.line = Some(index + 1);
                            shell.names_in(line);
                        }
                    }
                    shell.line = None;
                    return Outcome::of(Truth::Unknown);
                }
                let outcome = shell.text(&text);
                for name in functions {
                    if shell.functions.contains_key(*name) {
                        shell.run(&[(*name).to_owned()], 0);
                    }
                }
                outcome
            })
        });
        (self.file, self.line) = (file, line);
        outcome
    }

    /// As another shell, which gets what is exported and gives nothing back.
    fn as_child(&mut self, dialect: Dialect, follow: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let variables = self.copy_of_variables();
        let functions = std::mem::take(&mut self.functions);
        let (exported, directory) = (self.exported.clone(), self.directory.clone());
        let before = (self.dialect, self.loops, self.frames, self.exports_all);
        self.variables.retain(|name, _| exported.contains(name));
        self.exported = self.variables.keys().cloned().collect();
        (self.dialect, self.loops, self.frames, self.exports_all) = (dialect, 0, 0, false);
        let outcome = self.up_to(Leaves::Script, follow);
        (self.dialect, self.loops, self.frames, self.exports_all) = before;
        (self.variables, self.functions) = (variables, functions);
        (self.exported, self.directory) = (exported, directory);
        outcome
    }

    /// The text of a script; none of what is no text, or larger than any script is.
    fn script_of(&self, path: &Path) -> Option<String> {
        if path.to_string_lossy().contains(UNKNOWN) {
            return None;
        }
        let metadata = std::fs::metadata(self.place.host.path(path));
        let is_large = metadata.is_ok_and(|metadata| metadata.len() > LARGEST_SCRIPT);
        let is_binary = is_large || is_program(&self.place.host.path(path));
        if is_binary {
            return None;
        }
        text_of(self.place.host, path).filter(|text| !text.contains(UNKNOWN))
    }

    /// With these arguments, unless that is too deep.
    fn within(&mut self, words: &[String], follow: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let before = std::mem::replace(&mut self.arguments, words.to_vec());
        let outcome = self.deeper(0, follow);
        self.arguments = before;
        outcome
    }

    fn deeper(&mut self, line: usize, follow: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let before = self.line;
        if line > 0 {
            self.line = self.line.or(Some(line));
        }
        self.depth += 1;
        let outcome = if self.depth <= DEEPEST {
            follow(self)
        } else {
            Outcome::of(Truth::Unknown)
        };
        self.depth -= 1;
        self.line = before;
        outcome
    }

    fn redirect_input(&mut self, redirections: &[Redirection]) {
        for redirection in redirections {
            match redirection.operator {
                "<<<" => self.input = self.text_of_word(&redirection.to),
                syntax::NO_DESCRIPTOR => self.is_broken = true,
                operator if operator.starts_with('<') => self.input = UNKNOWN.to_string(),
                _ => {}
            }
        }
    }

    fn redirect_output(&mut self, redirections: &[Redirection], output: &str, line: usize) {
        for redirection in redirections {
            if matches!(redirection.operator, ">" | ">>" | ">|" | "&>" | "&>>") {
                let (paths, is_sure) = self.redirected_to(&redirection.to);
                if self.is_broken {
                    return;
                }
                self.doubts += usize::from(!is_sure);
                for path in paths {
                    self.write(&path, output, line);
                }
                self.doubts -= usize::from(!is_sure);
            }
        }
    }

    /// A path from the root.
    fn absolute(&self, path: &str) -> String {
        if path.starts_with(['/', UNKNOWN]) {
            return path.to_owned();
        }
        format!("{}/{path}", self.directory)
    }

    /// Writes a text to a file.
    fn write(&mut self, path: &str, text: &str, line: usize) {
        let Some((target, is_ours)) = self.place.target(&self.absolute(path), text) else {
            return;
        };
        let value = text.trim();
        if self.rights != Rights::Root {
            return;
        }
        if value.is_empty() {
            return; // to open a file of sysfs changes nothing, and no value is empty
        }
        let is_known = !value.contains(UNKNOWN);
        let write = Write {
            file: self.file.clone(),
            line: self.line.unwrap_or(line),
            target,
            value: is_known.then(|| value.to_owned()),
            certain: is_ours && self.is_certain(),
            depends_on_shell: false,
        };
        self.writes.push(write);
    }
}

impl FollowedDisk<'_> {
    /// What a path names below our disk, and whether it surely does; nothing if it is of something else.
    fn target(&self, path: &str, text: &str) -> Option<(String, bool)> {
        let parts: Vec<&str> = path
            .split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .collect();
        if path == UNKNOWN.to_string() {
            let is_scheduler = |name: &String| name == text.trim();
            let is_one =
                iosched_switch::is_old_name(text.trim()) || self.offered.iter().any(is_scheduler);
            return is_one.then(|| ("queue/scheduler".to_owned(), false));
        }
        let is_in_sysfs = parts
            .first()
            .is_some_and(|part| *part == "sys" || part.contains(UNKNOWN));
        let queue = parts.iter().rposition(|part| *part == "queue");
        let below = match queue {
            Some(at) => parts[at..].join("/"),
            None if parts.last() == Some(&"scheduler")
                && parts
                    .iter()
                    .rev()
                    .skip(1)
                    .any(|part| part.contains(UNKNOWN)) =>
            {
                "queue/scheduler".to_owned()
            }
            None => return None,
        };
        if !is_in_sysfs || below == "queue" || below.contains(UNKNOWN) {
            return None;
        }
        let Some(at) = queue.filter(|at| *at > 0) else {
            return Some((below, false));
        };
        let name = parts[at - 1];
        let of_block = at >= 2 && parts.iter().position(|part| *part == "block") == Some(at - 2);
        let is_ours = name == self.name || name == self.number && path.starts_with("/sys/dev/");
        if name.contains(UNKNOWN) {
            let pattern = name.replace(UNKNOWN, "*");
            return is_like(&pattern, &self.name).then_some((below, false));
        }
        (is_ours && of_block).then_some((below, true))
    }
}

/// True of a text that a shell reads: one that says so, or nothing.
fn is_of_shell(text: &str) -> bool {
    !text.starts_with("#!") || shell_of(text).is_some()
}

/// The shell that a script says is to read it.
fn shell_of(text: &str) -> Option<Named> {
    let first = text.lines().next()?.strip_prefix("#!")?;
    let words: Vec<&str> = first.split_whitespace().take(3).collect();
    Named::of(&words)
}

/// True of a file that the kernel loads itself.
fn is_program(path: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 4];
    let file = open_to_read(path).and_then(|mut file| file.read_exact(&mut start));
    file.is_ok() && start == *b"\x7fELF"
}

#[cfg(test)]
mod tests;
