//! Files that a shell sources for their variables, as `/etc/default/grub`: which variable each statement sets, and to
//! what. Pure.
//!
//! What is followed: assignments (`NAME=…`, `NAME+=…`, exported or not, arrays), whose values are text, quotes, the
//! expansions `$NAME`, `${NAME}`, `${NAME+…}` and `${NAME-…}` with a colon or without, and what other programs print,
//! which is not known; and conditions (`if`, `&&`, `||`) that ask one of [`HARMLESS`], after which a variable may have
//! one of several values. All else (a function, `case`, `unset`, `.`, an expansion that assigns) is
//! [`Statement::Other`]: who depends on a value refuses it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The statements of a text in their order; comments are none.
pub(super) fn parse(text: &str) -> Vec<Statement<'_>> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
    };
    let mut statements = Vec::new();
    while parser.at_statement() {
        let start = parser.at;
        parser.depth = 0;
        if let Some(assignments) = parser.statement() {
            statements.extend(assignments.into_iter().map(Statement::Assignment));
        } else {
            parser.at = start;
            parser.depth = 0;
            let range = start..parser.end_of_other();
            parser.at = range.end;
            statements.push(Statement::Other(range));
        }
    }
    statements
}

/// The number, from 1, of the line in which a byte of a text stands.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement<'a> {
    Assignment(Assignment<'a>),
    /// Where something stands that is not followed.
    Other(Range<usize>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment<'a> {
    pub name: &'a str,
    /// True of `NAME+=…`.
    pub appends: bool,
    pub is_array: bool,
    /// True if it stands below a condition.
    pub is_conditional: bool,
    /// The variables that such conditions ask.
    pub asks: BTreeSet<&'a str>,
    /// Where the name begins.
    pub start: usize,
    /// Where the right side stands.
    pub assigned: Range<usize>,
    value: Vec<Part<'a>>,
    /// Where the value stands without quotes, if it is one piece of one line that can be edited as text: quoted as a
    /// whole or not at all, with no backslash (but before a `$`) and nothing that a program prints.
    pub plain: Option<Plain>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plain {
    pub quote: Option<char>,
    pub inner: Range<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part<'a> {
    Text(String),
    Variable(&'a str),
    /// `${NAME:+…}`, or without the colon.
    IfSet(Condition<'a>, Vec<Part<'a>>),
    /// `${NAME:-…}`, or without the colon.
    Unless(Condition<'a>, Vec<Part<'a>>),
    /// What a program prints, or an expansion of another sort.
    Unknown,
}

/// The variables that a piece of a script names, within what other programs print, too, and in `[ -v NAME ]`.
pub(super) fn named_in(text: &str) -> impl Iterator<Item = &str> {
    let expanded = text.split('$').skip(1);
    let expanded = expanded.map(|rest| rest.trim_start_matches(['{', '#', '!']));
    let tested = text.split(" -v ").skip(1);
    let tested = tested.map(|rest| rest.trim_start_matches([' ', '"', '\'']));
    expanded.chain(tested).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        Some(&rest[..end.unwrap_or(rest.len())]).filter(|name| !name.is_empty())
    })
}

/// Whether a variable is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Condition<'a> {
    name: &'a str,
    /// An empty one counts as not set: there is a colon.
    and_not_empty: bool,
}

/// How many expansions or conditions may stand within each other.
const DEEPEST: usize = 32;

/// Commands that set no variable, whatever they are given.
const HARMLESS: [&str; 9] = [
    ":",
    "[",
    "dpkg",
    "echo",
    "false",
    "grep",
    "systemd-detect-virt",
    "test",
    "true",
];

/// The bytes of a value that is followed. Linux takes 4096 of a command line at the most.
const LONGEST: usize = 1 << 16;

/// How many values a variable may have that are told apart.
const MOST: usize = 16;

/// The values that something may have; nothing if they are not known. A variable that is not set has none.
pub(super) type Possible<T> = Option<BTreeSet<T>>;

/// The variables that are known, each with the values that it may have as far as they are.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables<'a> {
    values: BTreeMap<&'a str, Possible<Option<String>>>,
    /// Those that are arrays: `$NAME` is their first element alone, and a text that is appended is, too.
    arrays: BTreeSet<&'a str>,
    /// What a variable that is set nowhere may begin with, and is empty then; others may come from anywhere.
    own: Option<&'static str>,
    /// Not every shell has `NAME+=…`: to dash it is a command that is not there.
    may_lack_append: bool,
}

impl<'a> Variables<'a> {
    /// None is set. Those whose names begin with `own` are set by nobody else.
    pub(super) fn none(own: &'static str) -> Variables<'a> {
        Variables {
            values: BTreeMap::new(),
            arrays: BTreeSet::new(),
            own: Some(own),
            may_lack_append: false,
        }
    }

    /// The same where dash may read the file, or bash.
    pub(super) fn none_of_any_shell(own: &'static str) -> Variables<'a> {
        Variables {
            may_lack_append: true,
            ..Variables::none(own)
        }
    }

    /// After a statement that may have set any of them.
    pub(super) fn forget(&mut self) {
        *self = Variables {
            may_lack_append: self.may_lack_append,
            ..Variables::default()
        };
    }

    /// Follows an assignment; the words of an array are parted by a blank.
    pub(super) fn assign(&mut self, assignment: &Assignment<'a>) {
        let name = assignment.name;
        let value = self.assigned(assignment);
        let is_scalar = !assignment.is_array && !assignment.appends;
        if assignment.is_array {
            self.arrays.insert(name);
        } else if is_scalar && !assignment.is_conditional {
            self.arrays.remove(name);
        }
        let set = |value: BTreeSet<String>| value.into_iter().map(Some).collect::<BTreeSet<_>>();
        let mut value = value.map(set);
        if assignment.is_conditional || assignment.appends && self.may_lack_append {
            let before = self.possible(name);
            value = value
                .zip(before)
                .map(|(a, b)| a.union(&b).cloned().collect());
        }
        let value = value.filter(|values| values.len() <= MOST);
        self.values.insert(name, value);
    }

    /// What the variable has after this assignment, if that is carried out.
    pub(super) fn assigned(&self, assignment: &Assignment<'a>) -> Possible<String> {
        let value = self.expanded(&assignment.value)?;
        let name = assignment.name;
        let is_to_first = assignment.appends && !assignment.is_array && self.arrays.contains(name);
        if is_to_first {
            return None;
        }
        if !assignment.appends {
            return Some(value);
        }
        let between = if assignment.is_array { " " } else { "" };
        let before = self.values(name)?;
        product(&before, &value, between)
    }

    /// Takes over what is known from elsewhere.
    pub(super) fn set(&mut self, name: &'a str, value: Option<String>) {
        let value = value.map(|value| BTreeSet::from([Some(value)]));
        self.values.insert(name, value);
    }

    /// Follows every assignment among these.
    pub(super) fn assign_all<'s>(&mut self, statements: impl IntoIterator<Item = &'s Statement<'a>>)
    where
        'a: 's,
    {
        for statement in statements {
            if let Statement::Assignment(assignment) = statement {
                self.assign(assignment);
            }
        }
    }

    /// Nothing if it is not known, or may be one of several; empty if it is not set.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        let mut values = self.values(name)?.into_iter();
        values.next().filter(|_| values.next().is_none())
    }

    /// All values that it may have, an empty one for what is not set; nothing if they are not known.
    pub(super) fn values(&self, name: &str) -> Possible<String> {
        let values = self.possible(name)?.into_iter();
        Some(values.map(Option::unwrap_or_default).collect())
    }

    /// The first variable in the right side of an assignment whose value is not known.
    pub(super) fn unknown_in(&self, assignment: &Assignment<'a>) -> Option<&'a str> {
        self.unknown_among(&assignment.value)
    }

    fn unknown_among(&self, parts: &[Part<'a>]) -> Option<&'a str> {
        parts.iter().find_map(|part| match part {
            Part::Text(_) | Part::Unknown => None,
            Part::Variable(name) => self.scalar(name).is_none().then_some(*name),
            Part::IfSet(condition, parts) | Part::Unless(condition, parts) => {
                let name = condition.name;
                let is_unknown = self.scalar(name).is_none();
                is_unknown
                    .then_some(name)
                    .or_else(|| self.unknown_among(parts))
            }
        })
    }

    /// The values of two of them, one after the other with a blank between.
    pub(super) fn joined(&self, first: &str, second: &str) -> Possible<String> {
        product(&self.values(first)?, &self.values(second)?, " ")
    }

    fn possible(&self, name: &str) -> Possible<Option<String>> {
        if let Some(values) = self.values.get(name) {
            return values.clone();
        }
        let is_own = self.own.is_some_and(|own| name.starts_with(own));
        is_own.then(|| BTreeSet::from([None]))
    }

    fn expanded(&self, parts: &[Part<'a>]) -> Possible<String> {
        let empty = BTreeSet::from([String::new()]);
        parts.iter().try_fold(empty, |values, part| {
            product(&values, &self.expanded_part(part)?, "")
        })
    }

    fn expanded_part(&self, part: &Part<'a>) -> Possible<String> {
        match part {
            Part::Text(text) => Some(BTreeSet::from([text.clone()])),
            Part::Variable(name) => {
                let values = self.scalar(name)?.into_iter();
                Some(values.map(Option::unwrap_or_default).collect())
            }
            Part::IfSet(condition, then) => {
                let (set, unset) = self.parted(condition)?;
                let mut values = BTreeSet::new();
                if !set.is_empty() {
                    values.extend(self.expanded(then)?);
                }
                values.extend(unset.map(|()| String::new()));
                Some(values)
            }
            Part::Unless(condition, otherwise) => {
                let (mut values, unset) = self.parted(condition)?;
                if unset.is_some() {
                    values.extend(self.expanded(otherwise)?);
                }
                Some(values)
            }
            Part::Unknown => None,
        }
    }

    /// Of what is not an array.
    fn scalar(&self, name: &str) -> Possible<Option<String>> {
        let values = self.possible(name);
        values.filter(|_| !self.arrays.contains(name))
    }

    /// The values for which a condition holds, and whether there are others.
    fn parted(&self, condition: &Condition<'a>) -> Option<(BTreeSet<String>, Option<()>)> {
        let values = self.scalar(condition.name)?;
        let holds = |value: &Option<String>| {
            let value = value.as_ref();
            value.is_some_and(|value| !(condition.and_not_empty && value.is_empty()))
        };
        let (set, others): (Vec<_>, Vec<_>) = values.into_iter().partition(holds);
        let set = set.into_iter().flatten().collect();
        Some((set, (!others.is_empty()).then_some(())))
    }
}

/// Each of these before each of those; nothing if they are too many or too long.
fn product(before: &BTreeSet<String>, after: &BTreeSet<String>, between: &str) -> Possible<String> {
    if before.len() * after.len() > MOST {
        return None;
    }
    let mut found = BTreeSet::new();
    for a in before {
        for b in after {
            if a.len() + b.len() > LONGEST {
                return None;
            }
            found.insert([a, between, b].concat());
        }
    }
    Some(found)
}

/// What parts words to a shell, and the carriage return before the end of a line; no other space does.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// How many expansions are open.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Passes over this text, if it is next.
    fn takes(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text);
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    /// Passes over all characters that are like this.
    fn take_while(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !is(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// Goes to the next statement; false at the end.
    fn at_statement(&mut self) -> bool {
        loop {
            self.take_while(is_blank);
            match self.peek() {
                None => return false,
                Some('#') => _ = self.take_while(|c| c != '\n'),
                Some(_) => return true,
            }
        }
    }

    /// Blanks and continued lines; a carriage return before the end of a line, too.
    fn take_blanks(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t'));
            if self.rest().starts_with("\r\n") {
                self.at += 1;
            }
            if !self.takes("\\\n") {
                return;
            }
        }
    }

    /// A statement whose whole effect on variables is known: its assignments.
    fn statement(&mut self) -> Option<Vec<Assignment<'a>>> {
        let start = self.at;
        if let Some(found) = self.assignments() {
            return Some(found);
        }
        self.at = start;
        if self.is_word("if") {
            self.at += "if".len();
            return self.condition();
        }
        self.harmless()
    }

    /// True if this word is next, and ends there.
    fn is_word(&self, word: &str) -> bool {
        let rest = self.rest().strip_prefix(word);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n', ';']))
    }

    /// After `if`: to the end of the statement.
    fn condition(&mut self) -> Option<Vec<Assignment<'a>>> {
        self.depth += 1;
        (self.depth <= DEEPEST).then_some(())?;
        let start = self.at;
        // Everything but the first condition is carried out perhaps.
        let mut found = self.statements_up_to(&["then"])?.0;
        let first = found.len();
        let mut asks: BTreeSet<_> = named_in(&self.text[start..self.at]).collect();
        loop {
            let (more, end) = self.statements_up_to(&["elif", "else", "fi"])?;
            found.extend(more);
            match end {
                "elif" => {
                    let start = self.at;
                    found.extend(self.statements_up_to(&["then"])?.0);
                    asks.extend(named_in(&self.text[start..self.at]));
                }
                "else" => {
                    found.extend(self.statements_up_to(&["fi"])?.0);
                    break;
                }
                _ => break,
            }
        }
        self.depth -= 1;
        for assignment in &mut found[first..] {
            assignment.is_conditional = true;
            assignment.asks.extend(&asks);
        }
        self.end_of_statement().then_some(found)
    }

    /// The assignments of statements, at least one, and the word that ends them.
    fn statements_up_to(
        &mut self,
        ends: &[&'static str],
    ) -> Option<(Vec<Assignment<'a>>, &'static str)> {
        let mut found = Vec::new();
        let mut is_empty = true;
        while self.at_statement() {
            if let Some(end) = ends.iter().find(|end| self.is_word(end)) {
                self.at += end.len();
                return (!is_empty).then_some((found, *end));
            }
            found.extend(self.statement()?);
            is_empty = false;
        }
        None
    }

    /// Commands of [`HARMLESS`], and others or assignments that are carried out if they succeed, or do not.
    fn harmless(&mut self) -> Option<Vec<Assignment<'a>>> {
        let first = self.at;
        let mut found = Vec::new();
        let mut is_conditional = false;
        loop {
            let start = self.at;
            if let Some(assignment) = is_conditional.then(|| self.assignment()).flatten() {
                found.push(Assignment {
                    is_conditional,
                    asks: named_in(&self.text[first..start]).collect(),
                    ..assignment
                });
            } else {
                self.at = start;
                self.command()?;
                // What asks a file that is edited may find something else afterwards.
                let command = &self.text[start..self.at];
                let only_says = command.starts_with("echo") && !command.contains('>');
                (only_says || !command.contains("/etc/default/grub")).then_some(())?;
            }
            let end = self.at;
            self.take_blanks();
            if self.takes("&&") || self.takes("||") {
                is_conditional = true;
                self.at_statement().then_some(())?;
                continue;
            }
            self.at = end;
            return self.end_of_statement().then_some(found);
        }
    }

    /// One command that sets no variable, and what it is given.
    fn command(&mut self) -> Option<()> {
        if self.takes("! ") {
            self.take_blanks();
        }
        let is_of_name = |c: char| !c.is_whitespace() && !"\"'\\$`;&|<>()#".contains(c);
        let name = self.take_while(is_of_name);
        HARMLESS.contains(&name).then_some(())?;
        let goes_on = |c: char| !is_blank(c) && !";&|>".contains(c);
        (!self.peek().is_some_and(goes_on)).then_some(())?;
        loop {
            let end = self.at;
            self.take_blanks();
            match self.peek() {
                None | Some('\n' | ';') => break,
                Some('#') if self.at > end => {
                    self.at = end;
                    break;
                }
                Some('&' | '|') => {
                    let rest = self.rest();
                    (rest.starts_with("&&") || rest.starts_with("||")).then_some(())?;
                    self.at = end;
                    break;
                }
                Some('>') => {
                    _ = self.takes(">>") || self.takes(">");
                    self.takes("&");
                    self.take_blanks();
                }
                Some(_) => {}
            }
            let start = self.at;
            self.word()?;
            (self.at > start).then_some(())?;
        }
        Some(())
    }

    /// Passes over the end of a statement, if it is next.
    fn end_of_statement(&mut self) -> bool {
        let end = self.at;
        self.take_blanks();
        match self.peek() {
            None | Some('\n') => true,
            Some(';') => {
                self.at += 1;
                !self.rest().starts_with(';')
            }
            Some('#') if self.at > end => {
                self.take_while(|c| c != '\n');
                true
            }
            Some(_) => false,
        }
    }

    /// A statement that consists of assignments alone, or exports variables.
    fn assignments(&mut self) -> Option<Vec<Assignment<'a>>> {
        let exports = self.takes("export ") || self.takes("export\t");
        if exports {
            self.take_while(|c| matches!(c, ' ' | '\t'));
        }
        let mut found: Vec<Assignment<'a>> = Vec::new();
        loop {
            let start = self.at;
            if exports && self.name().is_some() && !self.rest().starts_with(['=', '+']) {
                // Its value stays.
            } else {
                self.at = start;
                let assignment = self.assignment()?;
                if exports && self.is_split(&assignment) {
                    return None;
                }
                found.push(assignment);
            }
            // To a shell without `+=` that is a command, and what stands beside it are its arguments.
            if found.len() > 1 && found.iter().any(|of| of.appends) {
                return None;
            }
            let end = self.at;
            self.take_blanks();
            match self.peek() {
                None | Some('\n') => return Some(found),
                Some('#') if self.at > end => {
                    self.take_while(|c| c != '\n');
                    return Some(found);
                }
                // A command may follow, or another assignment.
                Some(';') => {
                    self.at += 1;
                    return Some(found);
                }
                Some(_) if self.at > end => {}
                Some(_) => return None,
            }
        }
    }

    /// True if some shells part the value at its blanks, as they do with what any command is given.
    fn is_split(&self, assignment: &Assignment<'a>) -> bool {
        let is_quoted = |plain: &Plain| plain.quote.is_some();
        let text = &self.text[assignment.assigned.clone()];
        text.contains(['$', '`']) && !assignment.plain.as_ref().is_some_and(is_quoted)
    }

    fn assignment(&mut self) -> Option<Assignment<'a>> {
        let start = self.at;
        let name = self.name()?;
        let appends = self.takes("+=");
        (appends || self.takes("=")).then_some(())?;
        let from = self.at;
        let is_array = self.takes("(");
        let (value, plain) = if is_array {
            (self.array()?, None)
        } else {
            self.word()?
        };
        Some(Assignment {
            name,
            appends,
            is_array,
            is_conditional: false,
            asks: BTreeSet::new(),
            start,
            assigned: from..self.at,
            value,
            plain,
        })
    }

    fn name(&mut self) -> Option<&'a str> {
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_name = !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit());
        is_name.then_some(name)
    }

    /// Words up to `)`, parted by a blank.
    fn array(&mut self) -> Option<Vec<Part<'a>>> {
        let mut value = Vec::new();
        loop {
            self.take_while(is_blank);
            match self.peek()? {
                ')' => {
                    self.at += 1;
                    return Some(value);
                }
                '#' => _ = self.take_while(|c| c != '\n'),
                _ => {
                    let start = self.at;
                    let (word, _) = self.word()?;
                    (self.at > start).then_some(())?;
                    value.push(Part::Text(" ".into()));
                    value.extend(word);
                }
            }
        }
    }

    /// A word, which may be empty, up to a blank, the end of the line or an operator.
    fn word(&mut self) -> Option<(Vec<Part<'a>>, Option<Plain>)> {
        let start = self.at;
        let mut parts = Vec::new();
        let mut pieces = 0;
        let mut plain = Some(Plain {
            quote: None,
            inner: start..start,
        });
        while let Some(c) = self.peek() {
            match c {
                '"' | '\'' => {
                    self.at += 1;
                    let inner = self.at;
                    if c == '"' {
                        parts.extend(self.double_quoted()?);
                    } else {
                        let text = self.take_while(|c| c != '\'');
                        parts.push(Part::Text(text.into()));
                    }
                    let end = self.at;
                    self.takes(if c == '"' { "\"" } else { "'" })
                        .then_some(())?;
                    pieces += 1;
                    plain = Some(Plain {
                        quote: Some(c),
                        inner: inner..end,
                    });
                }
                c if c.is_whitespace() => break,
                ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\\' => {
                    self.at += 1;
                    let c = self.peek()?;
                    self.at += c.len_utf8();
                    if c != '\n' {
                        parts.push(Part::Text(c.into()));
                    }
                    pieces += 2; // not plain
                }
                '$' | '`' => {
                    parts.push(self.expansion()?);
                    pieces += 2;
                }
                _ => {
                    let is_text = |c: char| !c.is_whitespace() && !"\"'\\$`;&|<>()".contains(c);
                    let from = self.at;
                    let text = self.take_while(is_text);
                    // A tilde is perhaps somebody's home.
                    let is_known = !text.contains('~');
                    parts.push(if is_known {
                        Part::Text(text.into())
                    } else {
                        Part::Unknown
                    });
                    pieces += 1;
                    plain = Some(Plain {
                        quote: None,
                        inner: from..self.at,
                    });
                }
            }
        }
        let plain = plain.filter(|plain| pieces <= 1 && self.is_plain(plain));
        Some((parts, plain))
    }

    fn is_plain(&self, plain: &Plain) -> bool {
        let inner = &self.text[plain.inner.clone()];
        let has_odd = match plain.quote {
            Some('"') => {
                let known = inner.replace("\\$", "");
                known.contains(['\\', '`']) || known.contains("$(")
            }
            _ => false,
        };
        !has_odd && !inner.contains('\n')
    }

    /// What stands between double quotes, up to the second one.
    fn double_quoted(&mut self) -> Option<Vec<Part<'a>>> {
        let mut parts = Vec::new();
        loop {
            match self.peek()? {
                '"' => return Some(parts),
                '$' | '`' => parts.push(self.expansion()?),
                '\\' => {
                    self.at += 1;
                    let c = self.peek()?;
                    self.at += c.len_utf8();
                    let text = match c {
                        '\n' => String::new(),
                        '$' | '`' | '"' | '\\' => c.into(),
                        c => format!("\\{c}"),
                    };
                    parts.push(Part::Text(text));
                }
                _ => {
                    let text = self.take_while(|c| !matches!(c, '"' | '$' | '`' | '\\'));
                    parts.push(Part::Text(text.into()));
                }
            }
        }
    }

    /// What begins with a `$` or a backquote; nothing too deep within others.
    fn expansion(&mut self) -> Option<Part<'a>> {
        self.depth += 1;
        let part = (self.depth <= DEEPEST).then(|| self.one_expansion());
        self.depth -= 1;
        part?
    }

    fn one_expansion(&mut self) -> Option<Part<'a>> {
        if self.takes("`") {
            while !self.takes("`") {
                self.takes("\\");
                self.at += self.peek()?.len_utf8();
            }
            return Some(Part::Unknown);
        }
        self.takes("$");
        if self.rest().starts_with("((") {
            return None; // arithmetic may assign
        }
        if self.takes("(") {
            self.take_command()?;
            return Some(Part::Unknown);
        }
        if self.takes("{") {
            return self.braces();
        }
        match self.peek() {
            Some(c) if c.is_ascii_alphabetic() || c == '_' => Some(Part::Variable(self.name()?)),
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                self.at += 1;
                Some(Part::Unknown)
            }
            Some('\'') => None, // bash's $'…'
            _ => Some(Part::Text("$".into())),
        }
    }

    /// After `${`.
    fn braces(&mut self) -> Option<Part<'a>> {
        let name = self.name()?;
        if self.takes("}") {
            return Some(Part::Variable(name));
        }
        let and_not_empty = self.takes(":");
        let condition = Condition {
            name,
            and_not_empty,
        };
        if matches!(self.peek(), Some('=' | '?')) {
            return None; // it assigns, or ends the shell
        }
        let is_if_set = self.takes("+");
        if !is_if_set && !self.takes("-") {
            // Cut, replaced or counted.
            let rest =
                self.take_while(|c| !matches!(c, '}' | '\n' | '"' | '\'' | '$' | '`' | '\\'));
            return (self.takes("}") && !rest.is_empty()).then_some(Part::Unknown);
        }
        let mut then = Vec::new();
        while !self.takes("}") {
            match self.peek()? {
                '$' | '`' => then.push(self.expansion()?),
                '"' | '\'' | '\\' | '\n' => return None,
                _ => {
                    let text = self.take_while(|c| !"}$`\"'\\\n".contains(c));
                    then.push(Part::Text(text.into()));
                }
            }
        }
        Some(if is_if_set {
            Part::IfSet(condition, then)
        } else {
            Part::Unless(condition, then)
        })
    }

    /// After `$(`: to the parenthesis that closes it.
    fn take_command(&mut self) -> Option<()> {
        let mut depth = 1;
        while depth > 0 {
            let c = self.peek()?;
            self.at += c.len_utf8();
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                '<' if self.rest().starts_with('<') => return None, // a here-document
                '#' => {
                    let before = &self.text[..self.at - 1];
                    if before.ends_with(|c: char| c.is_whitespace() || "(;&|".contains(c)) {
                        self.take_while(|c| c != '\n');
                    }
                }
                '\\' => self.at += self.peek()?.len_utf8(),
                '\'' => {
                    self.take_while(|c| c != '\'');
                    self.takes("'").then_some(())?;
                }
                '"' => {
                    self.double_quoted()?;
                    self.takes("\"").then_some(())?;
                }
                _ => {}
            }
        }
        Some(())
    }

    /// Where a statement ends that is not followed: at the end of its line, what is quoted passed over. The text of a
    /// here-document is not told from statements, nor what follows an open quote: that is all the rest.
    fn end_of_other(&mut self) -> usize {
        let rest = self.text.len();
        while let Some(c) = self.peek() {
            match c {
                '\n' => return self.at,
                '\\' => {
                    self.at += 1;
                    self.at += self.peek().map_or(0, char::len_utf8);
                }
                '\'' => {
                    self.at += 1;
                    self.take_while(|c| c != '\'');
                    self.takes("'");
                }
                '"' => {
                    self.at += 1;
                    if self.double_quoted().is_none() {
                        return rest;
                    }
                    self.takes("\"");
                }
                '<' if self.rest().starts_with("<<") => return rest,
                '#' if self.text[..self.at].ends_with([' ', '\t']) => {
                    self.take_while(|c| c != '\n');
                }
                _ => self.at += c.len_utf8(),
            }
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shell says that a variable holds after this text; nothing if it says nothing.
    fn by_shell(text: &str, name: &str) -> Option<String> {
        let script = format!("exec 3>&1 >/dev/null 2>&1\n{text}\nprintf '%s|' \"${name}\" >&3\n");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .env_clear()
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        output.status.success().then_some(())?;
        text.strip_suffix('|').map(str::to_owned)
    }

    /// What it may hold.
    fn ours(text: &str, name: &str) -> Option<BTreeSet<String>> {
        let mut variables = Variables::none("");
        let statements = parse(text);
        let is_other = |statement: &Statement| matches!(statement, Statement::Other(_));
        if statements.iter().any(is_other) {
            return None;
        }
        variables.assign_all(&statements);
        variables.values(name)
    }

    /// Lines of which scripts are made, followed or not.
    const LINES: [&str; 62] = [
        "A=1",
        "A=\"1 2\" # and so on",
        "A='1 \"2\" $B'",
        "A=",
        "A=\"\"",
        "A=\"$A b\"",
        "A=\"${A} c\"",
        "A=${A}d",
        "A=$B'x y'\"z $A\"",
        "A=\"${A:+$A }\\$tuned_params\"",
        "A=\"${B:-none of $A}\"",
        "export A=e",
        "  A=f",
        "A=g;",
        "A=h; B=i",
        "A=j B=k",
        "B=\"l \\\n m\"",
        "B='two\nA=lines\n'",
        "B=\"also\nA=$A\"",
        "A=a\\ b",
        "A=\"a\\b\\\"c\\`\"",
        "A=#no",
        "A=x#no # yes",
        "# A=comment",
        "A=\"$\"",
        "A=$B$A",
        "A=$(echo run)",
        "A=`echo run`",
        "if true; then A=then; fi",
        "test -e /nonexistent && A=lost",
        "A=1 true",
        "unset A",
        "read A <<X\nA=here\nX",
        "A=m& true",
        "B=${A:=n}",
        "B=${A=o}",
        "B=$((A=3))",
        "A=\"p${B-q}\"",
        "A=\"${B+r $B}\"",
        "\u{c}A=s",
        "B+=' t' A=u",
        "export A",
        "export B A=v",
        "export A=\"$B\"",
        "export A=$B",
        "echo \"$A\" it\\'s >&2 # A=no",
        "[ \"$B\" = i ] && A=w",
        "test -n \"$A\" || A=\"$B x\"",
        "[ -z \"$A\" ] && ! [ -z \"$B\" ] && A=y || B=z",
        "if [ \"$A\" ]; then B=\"$A 1\"; else A=2; fi",
        "if grep -q x /nonexistent; then\n  # A=comment\n  A=3\nelif true; then A=4\nfi # done",
        "if [ -e / ]\nthen\n  if [ \"$A\" = 1 ]; then A=5; fi\n  echo x\nfi",
        "if true; then unset A; fi",
        "if true; then A=6; fi | cat",
        "if A=7; then :; fi",
        "if false; then export A=8; fi; B=\"${A:+$B }9\"",
        "echo x | read A",
        ": ${A:=10}",
        "true && A=11 B=12",
        "A=$(echo run # it's\n)",
        "A=$(echo run # it's\n)\nB=13\n# it's )",
        "A=$(cat <<X\n)'\nX\n)",
    ];

    #[test]
    fn what_grows_without_end_is_not_followed() {
        let deep = format!("A=\"{}\"\n", "${A:+".repeat(20_000));
        assert!(matches!(parse(&deep)[..], [Statement::Other(_)]));
        let twice = "A=\"$A $A\"\n".repeat(40);
        assert_eq!(ours(&format!("A=a\n{twice}"), "A"), None);
    }

    proptest::proptest! {
        #[test]
        fn what_is_followed_is_what_a_shell_does(
            lines in proptest::collection::vec(proptest::sample::select(LINES.to_vec()), 0..6),
        ) {
            let text = lines.join("\n") + "\n";
            for name in ["A", "B"] {
                if let Some(values) = ours(&text, name) {
                    let value = by_shell(&text, name);
                    let is_among = value.as_ref().is_some_and(|value| values.contains(value));
                    proptest::prop_assert!(is_among, "{}{:?}: {:?}", &text, values, value);
                }
            }
        }

        #[test]
        fn no_text_panics_and_every_assignment_stands_where_it_is_said_to(text in "[A=+\"'\\\\$`{}():# \n;x-]{0,24}") {
            for statement in parse(&text) {
                match statement {
                    Statement::Assignment(it) => {
                        proptest::prop_assert!(text[it.start..].starts_with(it.name));
                        if let Some(Plain { quote, inner }) = it.plain {
                            let quote = quote.map_or(String::new(), String::from);
                            let whole = format!("{quote}{}{quote}", &text[inner]);
                            proptest::prop_assert_eq!(whole, &text[it.assigned]);
                        }
                    }
                    Statement::Other(range) => proptest::prop_assert!(!range.is_empty()),
                }
            }
        }
    }

    #[test]
    fn what_is_not_followed_is_told_from_what_is() {
        for (text, is_followed) in [
            ("A=1 # x", true),
            ("A=\"${A:+$A }\\$tuned_params\"", true),
            ("MODULES=(a \"b\" # c\n d)\n", true),
            ("MODULES+=(a)", true),
            ("export A", true),
            ("export -n A", false),
            ("if [ \"$A\" = \"\" ]; then echo x; A=1; fi", true),
            ("[ -e /x ] || A=1", true),
            ("[ -e /x ] || exit", false),
            ("if x; then A=1; fi", false),
            ("if systemd-detect-virt -q; then A=1; fi", true),
            (
                "if dpkg --compare-versions \"$A\" ge 5.3; then A=1; fi",
                true,
            ),
            ("if true; then A=1", false),
            ("if then fi", false),
            ("echox", false),
            ("echo x &", false),
            ("unset A", false),
            ("A=1 x", false),
            ("A=1 && x", false),
            (". /x", false),
            ("A=\"open", false),
            ("A=(open", false),
            ("A=$'x'", false),
            ("f() {", false),
        ] {
            let others = parse(text).into_iter();
            let others = others.filter(|of| matches!(of, Statement::Other(_)));
            assert_eq!(others.count() == 0, is_followed, "{text}");
        }
    }

    #[test]
    fn words_of_an_array_are_parted_and_added_to() {
        let text = "A=( a \"b c\" )\nA+=(d)\n";
        let value = ours(text, "A").unwrap().pop_first().unwrap();
        let words: Vec<&str> = value.split_whitespace().collect();
        assert_eq!(words, ["a", "b", "c", "d"]);
    }
}
