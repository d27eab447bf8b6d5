//! The command line in files that a shell sources: `/etc/default/grub`, what Debian's GRUB reads after it, and
//! `/etc/update-extlinux.conf`. Pure.
//!
//! The parameter is put into the text or taken out of it, and then the shell is followed ([`variables`]) to see what the
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

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::system_config::parameter::{
    NotUnderstood, OpenQuote, PARAMETER, others, value_of_parameter, with_parameter,
};
use crate::system_config::variables::{self, Assignment, Possible, Statement, Variables};

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
pub(super) enum ScriptKind {
    /// GRUB's own, where the parameter is put.
    Grub,
    /// One that GRUB reads after that.
    GrubDropIn,
    /// The only one of update-extlinux.
    Extlinux,
}

impl ScriptKind {
    fn names(self) -> &'static Names {
        match self {
            ScriptKind::Grub | ScriptKind::GrubDropIn => &GRUB,
            ScriptKind::Extlinux => &EXTLINUX,
        }
    }
}

/// A text, and what it is.
pub(super) type Script<'a> = (&'a str, ScriptKind);

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
    edited(scripts, value).map_err(|(index, error)| {
        // What is said of a line is said of the file as it stands, not of what was made of it.
        (index, error.in_text(scripts[index].0))
    })
}

fn edited(scripts: &[Script<'_>], value: Option<&str>) -> Result<Vec<String>, Failed> {
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
        let kinds: Vec<ScriptKind> = scripts.iter().map(|(_, kind)| *kind).collect();
        put(&mut edited, &kinds, value)?;
        let before: Vec<String> = scripts.iter().map(|(text, _)| (*text).to_owned()).collect();
        if is_once(&before) && check_is_put(&before, &kinds, value).is_ok() {
            return Ok(before);
        }
        check_is_put(&edited, &kinds, value)?;
    }
    check_conditions(scripts, &edited)?;
    check_is_followed(scripts, &edited)?;
    check_others_are_kept(scripts, &edited)?;
    if value.is_none() {
        check_is_gone(scripts, &edited)?;
    }
    Ok(edited)
}

/// The lines in which `elevator=` is given, by their numbers from 1, each with its value; comments do not.
pub(super) fn given(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for statement in variables::parse(text) {
        let range = match statement {
            Statement::Assignment(Assignment {
                plain: Some(plain), ..
            }) => {
                let inner = &text[plain.inner.clone()];
                let line = || variables::line_at(text, plain.inner.start);
                let value = value_of_parameter(inner).or_else(|| beside_expansions(inner));
                found.extend(value.map(|value| (line(), value.to_owned())));
                continue;
            }
            Statement::Assignment(assignment) => assignment.assigned,
            Statement::Other(range) => range,
        };
        if !text[range.clone()].contains(PARAMETER) {
            continue;
        }
        let first = variables::line_at(text, range.start);
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

/// The value of the parameter in a text that depends on variables (`${A:+elevator=cfq }`, `${A}elevator=cfq`).
fn beside_expansions(text: &str) -> Option<&str> {
    let is_expanded = text.replace("\\$", "").contains('$');
    is_expanded.then(|| anywhere(text)).flatten()
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
    variables.assign_all(&variables::parse(text));
    variables.value(name)
}

/// The variable to which an assignment in this line gives the parameter, or the first that one there sets.
pub(super) fn assigned_in(text: &str, line: usize) -> Option<String> {
    let is_here = |assignment: &Assignment<'_>| {
        let first = variables::line_at(text, assignment.start);
        let last = variables::line_at(text, assignment.assigned.end);
        (first..=last).contains(&line)
    };
    let here: Vec<_> = assignments(text).filter(is_here).collect();
    let gives_it = |of: &&Assignment<'_>| text[of.assigned.clone()].contains(PARAMETER);
    let found = here.iter().find(gives_it).or(here.first())?;
    Some(found.name.to_owned())
}

fn assignments(text: &str) -> impl Iterator<Item = Assignment<'_>> {
    variables::parse(text)
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
        let assigned = assigned_with(text, assignment, None)?;
        if let Some(assigned) = assigned.filter(|of| *of != text[assignment.assigned.clone()]) {
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
    let not_understood =
        |why| NotUnderstood::of(text, variables::line_at(text, assignment.start), why);
    let inner = &text[plain.inner.clone()];
    // A word that goes on in a variable, or is cut by an expansion, is no word of its own.
    let mut ours = inner
        .split_whitespace()
        .filter(|word| word.starts_with(PARAMETER));
    if ours.any(|word| word.replace("\\$", "").contains('$')) {
        return Err(not_understood(NotUnderstood::SHELL));
    }
    let edited =
        with_parameter(inner, value).map_err(|OpenQuote| not_understood(NotUnderstood::QUOTE))?;
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
fn put(texts: &mut [String], kinds: &[ScriptKind], value: &str) -> Result<(), Failed> {
    let is_main = |kind: &ScriptKind| *kind != ScriptKind::GrubDropIn;
    for (index, text) in texts.iter_mut().enumerate() {
        let at = |error| (index, error);
        let names = kinds[index].names();
        if let Some(Statement::Other(range)) = variables::parse(text)
            .into_iter()
            .find(|statement| matches!(statement, Statement::Other(_)))
        {
            let line = variables::line_at(text, range.start);
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
    let in_the_end = variables(texts, kinds).values(instead).unwrap_or_default();
    let needs_none = |held: &String| held.trim().is_empty() || value_of_parameter(held).is_some();
    if in_the_end.iter().all(needs_none) {
        return Ok(());
    }
    for (index, text) in texts.iter_mut().enumerate().rev() {
        if put_into(text, instead, value).map_err(|error| (index, error))? {
            break;
        }
    }
    Ok(())
}

/// Puts the parameter into the last assignment that is carried out in any case; false if the text does not set this
/// variable.
fn put_into(text: &mut String, name: &str, value: &str) -> Result<bool, NotUnderstood> {
    let all: Vec<_> = assignments(text).filter(|of| of.name == name).collect();
    let found = all.iter().rfind(|of| !of.is_conditional);
    if let (None, Some(conditional)) = (found, all.last()) {
        let line = variables::line_at(text, conditional.start);
        return Err(NotUnderstood::of(text, line, NotUnderstood::SHELL));
    }
    let Some((assigned, range)) = found
        .map(|assignment| {
            let line = variables::line_at(text, assignment.start);
            // Not every `sh` has `+=`.
            let assigned = assigned_with(text, assignment, Some(value))?;
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
fn variables<'a>(texts: &'a [String], kinds: &[ScriptKind]) -> Variables<'a> {
    let own = kinds.first().map_or("-", |kind| kind.names().own);
    let mut variables = Variables::none_of_any_shell(own);
    for text in texts {
        variables.assign_all(&variables::parse(text));
    }
    variables
}

/// True if the parameter is written down once.
fn is_once(texts: &[String]) -> bool {
    texts.iter().map(|text| given(text).len()).sum::<usize>() == 1
}

/// Follows the scripts: the variable of every entry has the parameter once in the end, in each of the scripts that are
/// read after the one where it was put in, and no other has another value of it.
fn check_is_put(texts: &[String], kinds: &[ScriptKind], value: &str) -> Result<(), Failed> {
    let Some(names) = kinds.first().map(|kind| kind.names()) else {
        return Ok(());
    };
    let mut variables = Variables::none_of_any_shell(names.own);
    let mut last = BTreeMap::new();
    for (index, text) in texts.iter().enumerate() {
        for assignment in assignments(text) {
            let unknown = variables.unknown_in(&assignment);
            variables.assign(&assignment);
            let name = assignment.name;
            if !name.starts_with(names.every) {
                continue;
            }
            let failed = |why: Cow<'static, str>| {
                let line = variables::line_at(text, assignment.start);
                Err((index, NotUnderstood::of(text, line, why)))
            };
            let held = variables.values(name).filter(|_| !assignment.is_array);
            let Some(held) = held else {
                let depends = unknown.map(|name| NotUnderstood::depends_on(name).into());
                return failed(depends.unwrap_or(NotUnderstood::SHELL.into()));
            };
            let is_later = kinds[index] == ScriptKind::GrubDropIn && name == names.every;
            let loses = |held: &String| value_of_parameter(held) != Some(value);
            if is_later && held.iter().any(loses) {
                return failed(NotUnderstood::LOSES.into());
            }
            last.insert(name, (index, assignment.start));
        }
    }
    // Appended to a line that goes on, ours is no assignment.
    let main = kinds
        .iter()
        .position(|kind| *kind != ScriptKind::GrubDropIn);
    if let Some(index) = main.filter(|_| !last.contains_key(names.every)) {
        let text = &texts[index];
        let line = text.lines().count().max(1);
        return Err((index, NotUnderstood::of(text, line, NotUnderstood::SHELL)));
    }
    for (name, (index, start)) in last {
        let held = variables.values(name).unwrap_or_default();
        if let Some(why) = held
            .iter()
            .find_map(|held| why_not_put(held, name, names, value))
        {
            let text = &texts[index];
            let line = variables::line_at(text, start);
            return Err((index, NotUnderstood::of(text, line, why)));
        }
    }
    Ok(())
}

/// Why what a variable holds in the end is not as it is to be; nothing if it is.
fn why_not_put(held: &str, name: &str, names: &Names, value: &str) -> Option<&'static str> {
    let words = held.split_whitespace();
    let times = words.filter(|word| word.starts_with(PARAMETER)).count();
    let of_kernel = value_of_parameter(held);
    let is_needed = name == names.every || (Some(name) == names.instead && !held.trim().is_empty());
    let is_wrong = of_kernel.is_some_and(|of_kernel| of_kernel != value)
        || (is_needed && of_kernel.is_none())
        || (name == names.every && with_parameter(held, Some(value)).as_deref() != Ok(held));
    is_wrong.then_some(if times > 1 {
        NotUnderstood::LEFT
    } else {
        NotUnderstood::SHELL
    })
}

/// What is changed here is asked by no condition on which a variable depends.
fn check_conditions(scripts: &[Script<'_>], edited: &[String]) -> Result<(), Failed> {
    // Variables that may hold something else than before.
    let mut changed = BTreeSet::new();
    for (index, ((before, _), after)) in scripts.iter().zip(edited).enumerate() {
        let statements = variables::parse(before);
        let mut before_it = statements.iter();
        for statement in variables::parse(after) {
            let old = before_it.next();
            let (start, is_asked) = match &statement {
                Statement::Assignment(it) => {
                    let right =
                        |text: &str, of: &Assignment<'_>| text[of.assigned.clone()].to_owned();
                    let is_as_before = matches!(old, Some(Statement::Assignment(old))
                        if right(before, old) == right(after, it));
                    let mut names = variables::named_in(&after[it.assigned.clone()]);
                    let is_asked = it.asks.iter().any(|name| changed.contains(*name));
                    let is_changed =
                        !is_as_before || is_asked || names.any(|name| changed.contains(name));
                    if is_changed || it.appends && changed.contains(it.name) {
                        changed.insert(it.name.to_owned());
                    } else if !it.is_conditional {
                        changed.remove(it.name);
                    }
                    (it.start, is_asked)
                }
                Statement::Other(range) => {
                    let mut names = variables::named_in(&after[range.clone()]);
                    let is_asked = names.any(|name| changed.contains(name));
                    (range.start, is_asked)
                }
            };
            if is_asked {
                let line = variables::line_at(after, start);
                let error = NotUnderstood::of(after, line, NotUnderstood::ASKED);
                return Err((index, error.in_text(before)));
            }
        }
    }
    Ok(())
}

/// Follows the scripts: no variable of the command line has the parameter in the end, as far as that is known, put
/// together of others.
fn check_is_gone(scripts: &[Script<'_>], edited: &[String]) -> Result<(), Failed> {
    let kinds: Vec<ScriptKind> = scripts.iter().map(|(_, kind)| *kind).collect();
    let variables = variables(edited, &kinds);
    for (name, (index, start)) in last_assignments(edited, &kinds) {
        let held = variables.values(name).unwrap_or_default();
        if held.iter().any(|held| value_of_parameter(held).is_some()) {
            let line = variables::line_at(&edited[index], start);
            let text = scripts[index].0;
            return Err((index, NotUnderstood::of(text, line, NotUnderstood::LEFT)));
        }
    }
    Ok(())
}

/// The variables of the command line, each with the script that sets it last, and where.
fn last_assignments<'a>(
    texts: &'a [String],
    kinds: &[ScriptKind],
) -> BTreeMap<&'a str, (usize, usize)> {
    let mut last = BTreeMap::new();
    for (index, text) in texts.iter().enumerate() {
        let every = kinds[index].names().every;
        let of_linux = assignments(text).filter(|of| of.name.starts_with(every));
        last.extend(of_linux.map(|of| (of.name, (index, of.start))));
    }
    last
}

/// No variable of the command line is named in a statement that is not followed: it may be a number from there on
/// (`declare -i`), be read only, or set to something else, such as an open quote.
fn check_is_followed(scripts: &[Script<'_>], edited: &[String]) -> Result<(), Failed> {
    let is_same = |((before, _), after): (&Script<'_>, &String)| *before == after.as_str();
    if scripts.iter().zip(edited).all(is_same) {
        return Ok(());
    }
    for (index, (text, kind)) in scripts.iter().enumerate() {
        for statement in variables::parse(text) {
            let Statement::Other(range) = statement else {
                continue;
            };
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let mut words = text[range.clone()].split(|c| !is_of_name(c));
            if words.any(|word| word.starts_with(kind.names().every)) {
                let line = variables::line_at(text, range.start);
                let error = NotUnderstood::of(text, line, NotUnderstood::SHELL);
                return Err((index, error));
            }
        }
    }
    Ok(())
}

/// Every other word is as it was: in each assignment that is changed, in those that depend on one, and in the lines
/// that are given to Linux in the end.
fn check_others_are_kept(scripts: &[Script<'_>], edited: &[String]) -> Result<(), Failed> {
    let own = scripts.first().map_or("-", |(_, kind)| kind.names().own);
    let (mut before, mut after) = (
        Variables::none_of_any_shell(own),
        Variables::none_of_any_shell(own),
    );
    let mut changed = BTreeSet::new();
    for (index, ((text, kind), edited)) in scripts.iter().zip(edited).enumerate() {
        let mut old_statements = variables::parse(text).into_iter();
        for new in variables::parse(edited) {
            let (old, new) = match (old_statements.next(), new) {
                (Some(Statement::Assignment(old)), Statement::Assignment(new)) => (old, new),
                (None, Statement::Assignment(appended)) => {
                    changed.insert(appended.name.to_owned());
                    after.assign(&appended);
                    continue;
                }
                _ => {
                    before.forget();
                    after.forget();
                    continue;
                }
            };
            let is_edited = text[old.assigned.clone()] != edited[new.assigned.clone()];
            let depends = variables::named_in(&edited[new.assigned.clone()])
                .any(|name| changed.contains(name))
                || new.appends && changed.contains(new.name);
            if is_edited || depends {
                let is_kept = are_kept(before.assigned(&old), after.assigned(&new));
                let is_of_linux = new.name.starts_with(kind.names().every);
                if is_kept == Some(false) || is_kept.is_none() && is_of_linux {
                    let line = variables::line_at(text, old.start);
                    let error = NotUnderstood::of(text, line, NotUnderstood::LEFT);
                    return Err((index, error));
                }
                changed.insert(new.name.to_owned());
            } else if !new.is_conditional {
                changed.remove(new.name);
            }
            before.assign(&old);
            after.assign(&new);
        }
    }
    let texts: Vec<String> = scripts.iter().map(|(text, _)| (*text).to_owned()).collect();
    let kinds: Vec<ScriptKind> = scripts.iter().map(|(_, kind)| *kind).collect();
    let names = scripts.first().map(|(_, kind)| kind.names());
    let firsts = names.map(|names| std::iter::once(names.every).chain(names.instead));
    let firsts: Vec<_> = firsts.into_iter().flatten().collect();
    let is_edited = texts != edited;
    let ends_for_kernel = may_end_for_kernel(&texts, &firsts);
    for (name, (index, start)) in last_assignments(&texts, &kinds) {
        let lines = |variables: &Variables<'_>| {
            let is_first = firsts.contains(&name);
            let before_it = firsts.iter().filter(|_| !is_first);
            let joined = before_it.map(|first| {
                if name.ends_with("_RECOVERY") {
                    variables.joined(name, first)
                } else {
                    variables.joined(first, name)
                }
            });
            std::iter::once(variables.values(name))
                .chain(joined)
                .collect::<Vec<_>>()
        };
        let (old, new) = (lines(&before), lines(&after));
        let may_be_lost = old.into_iter().zip(new).any(|(old, new)| {
            let is_kept = are_kept(old, new);
            is_kept == Some(false) || is_kept.is_none() && is_edited && ends_for_kernel
        });
        if may_be_lost {
            let line = variables::line_at(&texts[index], start);
            let error = NotUnderstood::of(&texts[index], line, NotUnderstood::LEFT);
            return Err((index, error));
        }
    }
    Ok(())
}

/// True if what stands before others in a line, or a variable that leads to it, may have a `--` or an open quote, after
/// which there is no parameter of the kernel's.
fn may_end_for_kernel(texts: &[String], firsts: &[&str]) -> bool {
    let all = || {
        texts
            .iter()
            .flat_map(|text| assignments(text).map(move |of| (text, of)))
    };
    let mut leads: BTreeSet<&str> = firsts.iter().copied().collect();
    loop {
        let known = leads.len();
        for (text, of) in all() {
            if leads.contains(of.name) || of.name.ends_with("_RECOVERY") {
                leads.insert(of.name);
                leads.extend(variables::named_in(&text[of.assigned]));
            }
        }
        if leads.len() == known {
            break;
        }
    }
    let has_end = |text: &str| text.contains("--") || text.contains('"');
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    texts.iter().any(|text| {
        variables::parse(text)
            .into_iter()
            .any(|statement| match statement {
                Statement::Assignment(of) => {
                    let inner = of.plain.map_or(of.assigned, |plain| plain.inner);
                    leads.contains(of.name) && has_end(&text[inner])
                }
                Statement::Other(range) => {
                    let mut words = text[range.clone()].split(|c| !is_of_name(c));
                    words.any(|word| leads.contains(word)) && has_end(&text[range])
                }
            })
    })
}

/// Whether values that are possible before and after have the same words but for ours; nothing if they are not known.
fn are_kept(before: Possible<String>, after: Possible<String>) -> Option<bool> {
    let words_of = |values: BTreeSet<String>| {
        let words_of = |value: &String| {
            let words = others(value).into_iter();
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        values.iter().map(words_of).collect::<BTreeSet<_>>()
    };
    Some(words_of(before?) == words_of(after?))
}

#[cfg(test)]
mod tests;
