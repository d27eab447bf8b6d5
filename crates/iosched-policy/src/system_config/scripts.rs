//! The command line in files that a shell sources: `/etc/default/grub`, what Debian's GRUB reads after it, and
//! `/etc/update-extlinux.conf`. Pure.
//!
//! The parameter is put into the text or taken out of it, and then the shell is followed ([`shell`]) to see what the
//! variables of the command line hold in the end: ours once, all else as before. Where that is not so, or is not
//! known, the statement is an error: nothing is guessed.
//!
//! | variable (GRUB's manual, "Simple configuration"; `20_linux_xen`; update-extlinux) | given to |
//! |---|---|
//! | `GRUB_CMDLINE_LINUX` | every entry |
//! | `GRUB_CMDLINE_LINUX_DEFAULT`, `…_RECOVERY` and others that begin so | some, after that or before it |
//! | `GRUB_CMDLINE_LINUX_XEN_REPLACE`, where it is not empty | every entry below Xen, in place of the first |
//! | `GRUB_CMDLINE_XEN`, `GRUB_CMDLINE_XEN_DEFAULT` | the hypervisor |
//! | `default_kernel_opts` | every entry of extlinux |

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::system_config::parameter::{
    NotUnderstood, OpenQuote, PARAMETER, value_of_parameter, with_parameter,
};
use crate::system_config::shell::{self, Assignment, Statement, Variables};

/// The variables of one program.
struct Names {
    /// Its parameters are for every entry, and it is where ours is put; others that carry some begin like it.
    every: &'static str,
    /// What counts in its place in some entries.
    instead: Option<&'static str>,
    /// What all variables begin with that nobody but these files sets.
    own: &'static str,
}

const GRUB: Names = Names {
    every: "GRUB_CMDLINE_LINUX",
    instead: Some("GRUB_CMDLINE_LINUX_XEN_REPLACE"),
    own: "GRUB_",
};

const EXTLINUX: Names = Names {
    every: "default_kernel_opts",
    instead: None,
    own: "default_kernel_opts",
};

/// What a script is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// GRUB's own, where the parameter is put.
    Grub,
    /// One that GRUB reads after that.
    GrubDropIn,
    /// The only one of update-extlinux.
    Extlinux,
}

impl Kind {
    fn names(self) -> &'static Names {
        match self {
            Kind::Grub | Kind::GrubDropIn => &GRUB,
            Kind::Extlinux => &EXTLINUX,
        }
    }
}

/// A text, and what it is.
pub(super) type Script<'a> = (&'a str, Kind);

/// Which of the scripts is not understood, and where.
pub(super) type Failed = (usize, NotUnderstood);

/// The texts of files that are sourced one after the other, with `elevator=` set to this value in the end; with none,
/// taken out.
///
/// # Errors
/// The first statement that had to be understood and is not.
pub(super) fn with_elevator(
    scripts: &[Script<'_>],
    value: Option<&str>,
) -> Result<Vec<String>, Failed> {
    let mut edited = Vec::new();
    for (index, (text, kind)) in scripts.iter().enumerate() {
        let at = |error| (index, error);
        let without = without(text, kind.names()).map_err(at)?;
        if let Some((line, _)) = given(&without).into_iter().next() {
            return Err(at(NotUnderstood::of(text, line, NotUnderstood::LEFT)));
        }
        edited.push(without);
    }
    if let Some(value) = value {
        for (index, (text, _)) in scripts.iter().enumerate() {
            check_line_ends(text).map_err(|error| (index, error))?;
        }
        let kinds: Vec<Kind> = scripts.iter().map(|(_, kind)| *kind).collect();
        put(&mut edited, &kinds, value)?;
        let before: Vec<String> = scripts.iter().map(|(text, _)| (*text).to_owned()).collect();
        if is_once(&before) && check_is_put(&before, &kinds, value).is_ok() {
            return Ok(before);
        }
        check_is_put(&edited, &kinds, value)?;
    }
    check_others_are_kept(scripts, &edited)?;
    Ok(edited)
}

/// The lines in which `elevator=` is given, by their numbers from 1, each with its value; comments do not.
pub(super) fn given(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for statement in shell::parse(text) {
        let range = match statement {
            Statement::Assignment(Assignment {
                plain: Some(plain), ..
            }) => {
                let inner = &text[plain.inner.clone()];
                let line = shell::line_at(text, plain.inner.start);
                let value = value_of_parameter(inner).or_else(|| in_expansion(inner));
                found.extend(value.map(|value| (line, value.to_owned())));
                continue;
            }
            Statement::Assignment(assignment) => assignment.assigned,
            Statement::Other(range) => range,
        };
        let first = shell::line_at(text, range.start);
        for (index, line) in text[range].lines().enumerate() {
            if line.trim_start().starts_with('#') {
                continue;
            }
            let value = anywhere(line).map(str::to_owned);
            found.extend(value.map(|value| (first + index, value)));
        }
    }
    found
}

/// The value of the parameter in a part of a value that depends on a variable (`${A:+elevator=cfq }`).
fn in_expansion(text: &str) -> Option<&str> {
    let mut expansions = text.split("${").skip(1);
    expansions.find_map(|expansion| anywhere(expansion.split('}').next().unwrap_or_default()))
}

/// The value of the parameter, wherever a word of that name begins in a text that is not understood.
fn anywhere(text: &str) -> Option<&str> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    let mut found = text.match_indices(PARAMETER);
    let (at, _) = found.find(|(at, _)| !text[..*at].ends_with(is_of_word))?;
    let value = &text[at + PARAMETER.len()..];
    let end = value.find(|c: char| c.is_whitespace() || "\"'`;)}".contains(c));
    Some(&value[..end.unwrap_or(value.len())])
}

/// The value that a script gives a variable in the end, as far as that is known.
pub(super) fn variable(text: &str, name: &str) -> Option<String> {
    let mut variables = Variables::none("-");
    variables.assign_all(&shell::parse(text));
    variables.value(name)
}

/// The variable that the assignment in this line sets, if there is one.
pub(super) fn assigned_in(text: &str, line: usize) -> Option<String> {
    let statements = shell::parse(text).into_iter();
    let mut names = statements.filter_map(|statement| match statement {
        Statement::Assignment(assignment) => {
            let first = shell::line_at(text, assignment.start);
            let last = shell::line_at(text, assignment.assigned.end);
            (first..=last)
                .contains(&line)
                .then(|| assignment.name.to_owned())
        }
        Statement::Other(_) => None,
    });
    names.next()
}

fn assignments(text: &str) -> impl Iterator<Item = Assignment<'_>> {
    shell::parse(text)
        .into_iter()
        .filter_map(|statement| match statement {
            Statement::Assignment(assignment) => Some(assignment),
            Statement::Other(_) => None,
        })
}

/// Takes the parameter out where it can be edited.
fn without(text: &str, names: &Names) -> Result<String, NotUnderstood> {
    let mut edited = text.to_owned();
    let all: Vec<_> = assignments(text)
        .filter(|of| of.name.starts_with(names.every))
        .collect();
    // From the end on, so that what stands before it is where it was.
    for assignment in all.iter().rev() {
        if let Some(assigned) = assigned_with(text, assignment, None)? {
            edited.replace_range(assignment.assigned.clone(), &assigned);
        }
    }
    Ok(edited)
}

/// The right side of an assignment with the parameter in it, quoted as it was; nothing if it is no plain text.
fn assigned_with(
    text: &str,
    assignment: &Assignment<'_>,
    value: Option<&str>,
) -> Result<Option<String>, NotUnderstood> {
    let Some(plain) = &assignment.plain else {
        return Ok(None);
    };
    let line = shell::line_at(text, assignment.start);
    let inner = &text[plain.inner.clone()];
    // A word that goes on in a variable, or is cut by an expansion, is no word of its own.
    let mut ours = inner
        .split_whitespace()
        .filter(|word| word.starts_with(PARAMETER));
    if ours.any(|word| word.replace("\\$", "").contains('$')) {
        return Err(NotUnderstood::of(text, line, NotUnderstood::SHELL));
    }
    let edited = with_parameter(inner, value)
        .map_err(|OpenQuote| NotUnderstood::of(text, line, NotUnderstood::QUOTE))?;
    if edited == inner {
        return Ok(Some(text[assignment.assigned.clone()].to_owned()));
    }
    let quote = plain.quote.unwrap_or('"');
    Ok(Some(format!("{quote}{edited}{quote}")))
}

/// A shell takes a carriage return for a part of the word before it.
fn check_line_ends(text: &str) -> Result<(), NotUnderstood> {
    let found = text.split('\n').position(|line| line.ends_with('\r'));
    found.map_or(Ok(()), |index| {
        Err(NotUnderstood::of(
            text,
            index + 1,
            NotUnderstood::CARRIAGE_RETURN,
        ))
    })
}

/// Puts the parameter into the last assignment of the variable of every entry, and of what counts in its place.
fn put(texts: &mut [String], kinds: &[Kind], value: &str) -> Result<(), Failed> {
    let is_main = |kind: &Kind| *kind != Kind::GrubDropIn;
    for (index, text) in texts.iter_mut().enumerate() {
        let at = |error| (index, error);
        let names = kinds[index].names();
        if let Some(Statement::Other(range)) = shell::parse(text)
            .into_iter()
            .find(|statement| matches!(statement, Statement::Other(_)))
        {
            let line = shell::line_at(text, range.start);
            return Err(at(NotUnderstood::of(text, line, NotUnderstood::SHELL)));
        }
        if is_main(&kinds[index]) && !put_into(text, names.every, value).map_err(at)? {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            // Should something that is sourced set it, that stays.
            let every = names.every;
            let _ = writeln!(text, "{every}=\"${every} {PARAMETER}{value}\"");
        }
    }
    let Some(instead) = kinds.first().and_then(|kind| kind.names().instead) else {
        return Ok(());
    };
    let in_the_end = variables(texts, kinds).value(instead).unwrap_or_default();
    if in_the_end.trim().is_empty() || value_of_parameter(&in_the_end).is_some() {
        return Ok(());
    }
    for (index, text) in texts.iter_mut().enumerate().rev() {
        if put_into(text, instead, value).map_err(|error| (index, error))? {
            break;
        }
    }
    Ok(())
}

/// False if the text does not set this variable.
fn put_into(text: &mut String, name: &str, value: &str) -> Result<bool, NotUnderstood> {
    let found = assignments(text).filter(|of| of.name == name).last();
    let Some((assigned, range)) = found
        .map(|assignment| {
            let line = shell::line_at(text, assignment.start);
            // Not every `sh` has `+=`.
            let assigned = assigned_with(text, &assignment, Some(value))?;
            let assigned = assigned.filter(|_| !assignment.appends);
            let assigned =
                assigned.ok_or_else(|| NotUnderstood::of(text, line, NotUnderstood::SHELL))?;
            Ok((assigned, assignment.assigned.clone()))
        })
        .transpose()?
    else {
        return Ok(false);
    };
    text.replace_range(range, &assigned);
    Ok(true)
}

/// What the variables hold after all these.
fn variables<'a>(texts: &'a [String], kinds: &[Kind]) -> Variables<'a> {
    let own = kinds.first().map_or("-", |kind| kind.names().own);
    let mut variables = Variables::none(own);
    for text in texts {
        variables.assign_all(&shell::parse(text));
    }
    variables
}

/// True if the parameter is written down once.
fn is_once(texts: &[String]) -> bool {
    texts.iter().map(|text| given(text).len()).sum::<usize>() == 1
}

/// Follows the scripts: the variable of every entry has the parameter once in the end, in each of the scripts that are
/// read after the one where it was put in, and no other has another value of it.
fn check_is_put(texts: &[String], kinds: &[Kind], value: &str) -> Result<(), Failed> {
    let Some(names) = kinds.first().map(|kind| kind.names()) else {
        return Ok(());
    };
    let mut variables = Variables::none(names.own);
    let mut last = BTreeMap::new();
    for (index, text) in texts.iter().enumerate() {
        for assignment in assignments(text) {
            variables.assign(&assignment);
            let name = assignment.name;
            if !name.starts_with(names.every) {
                continue;
            }
            let line = shell::line_at(text, assignment.start);
            let failed = |why| Err((index, NotUnderstood::of(text, line, why)));
            let held = variables.value(name).filter(|_| !assignment.is_array);
            let Some(held) = held else {
                return failed(NotUnderstood::SHELL);
            };
            let is_later = kinds[index] == Kind::GrubDropIn && name == names.every;
            if is_later && value_of_parameter(&held) != Some(value) {
                return failed(NotUnderstood::LOSES);
            }
            last.insert(name, (index, line));
        }
    }
    // Appended to a line that goes on, ours is no assignment.
    let main = kinds.iter().position(|kind| *kind != Kind::GrubDropIn);
    if let Some(index) = main.filter(|_| !last.contains_key(names.every)) {
        let text = &texts[index];
        let line = text.lines().count();
        return Err((index, NotUnderstood::of(text, line, NotUnderstood::SHELL)));
    }
    for (name, (index, line)) in last {
        let failed = |why| Err((index, NotUnderstood::of(&texts[index], line, why)));
        let held = variables.value(name).unwrap_or_default();
        let words = held.split_whitespace();
        let times = words.filter(|word| word.starts_with(PARAMETER)).count();
        let of_kernel = value_of_parameter(&held);
        let is_needed =
            name == names.every || (Some(name) == names.instead && !held.trim().is_empty());
        if of_kernel.is_some_and(|of_kernel| of_kernel != value)
            || (is_needed && of_kernel.is_none())
            || (name == names.every && with_parameter(&held, Some(value)).as_deref() != Ok(&held))
        {
            let why = if times > 1 {
                NotUnderstood::LEFT
            } else {
                NotUnderstood::SHELL
            };
            return failed(why);
        }
    }
    Ok(())
}

/// Every other word that is given to Linux is as it was, as far as that is known.
fn check_others_are_kept(scripts: &[Script<'_>], edited: &[String]) -> Result<(), Failed> {
    let before: Vec<String> = scripts.iter().map(|(text, _)| (*text).to_owned()).collect();
    let kinds: Vec<Kind> = scripts.iter().map(|(_, kind)| *kind).collect();
    let (before, after) = (variables(&before, &kinds), variables(edited, &kinds));
    let others = |variables: &Variables<'_>, name: &str| {
        let value = variables.value(name)?;
        let words = value.split_whitespace();
        let words = words.filter(|word| !word.trim_start_matches('"').starts_with(PARAMETER));
        Some(words.map(str::to_owned).collect::<Vec<_>>())
    };
    for (index, (text, kind)) in scripts.iter().enumerate() {
        for assignment in assignments(text) {
            let name = assignment.name;
            if name.starts_with(kind.names().every) && others(&before, name) != others(&after, name)
            {
                let line = shell::line_at(text, assignment.start);
                return Err((index, NotUnderstood::of(text, line, NotUnderstood::LEFT)));
            }
        }
    }
    Ok(())
}
