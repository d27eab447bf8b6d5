//! Files that a shell sources for their variables, as `/etc/default/grub`: which variable each statement sets, and to
//! what. Pure.
//!
//! What is followed: assignments (`NAME=…`, `NAME+=…`, exported or not, arrays), whose values are text, quotes, the
//! expansions `$NAME`, `${NAME}`, `${NAME+…}` and `${NAME-…}` with a colon or without, and what other programs print,
//! which is not known. All else (a condition, a function, `unset`, `.`, an expansion that assigns) is
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
        if let Some(assignments) = parser.assignments() {
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

/// Whether a variable is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Condition<'a> {
    name: &'a str,
    /// An empty one counts as not set: there is a colon.
    and_not_empty: bool,
}

/// The bytes of a value that is followed. Linux takes 4096 of a command line at the most.
const LONGEST: usize = 1 << 16;

/// The variables that are known, each with its value as far as that is.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables<'a> {
    values: BTreeMap<&'a str, Option<String>>,
    /// Those that are arrays: `$NAME` is their first element alone, and a text that is appended is, too.
    arrays: BTreeSet<&'a str>,
    /// What a variable that is set nowhere may begin with, and is empty then; others may come from anywhere.
    own: &'static str,
}

impl<'a> Variables<'a> {
    /// None is set. Those whose names begin with `own` are set by nobody else.
    pub(super) fn none(own: &'static str) -> Variables<'a> {
        Variables {
            values: BTreeMap::new(),
            arrays: BTreeSet::new(),
            own,
        }
    }

    /// Follows an assignment; the words of an array are parted by a blank.
    pub(super) fn assign(&mut self, assignment: &Assignment<'a>) {
        let value = self.expanded(&assignment.value);
        let name = assignment.name;
        let is_to_first = assignment.appends && !assignment.is_array && self.arrays.contains(name);
        if assignment.is_array {
            self.arrays.insert(name);
        } else if !assignment.appends {
            self.arrays.remove(name);
        }
        let value = if is_to_first {
            None
        } else if assignment.appends {
            let between = if assignment.is_array { " " } else { "" };
            let before = self.value(assignment.name);
            before
                .zip(value)
                .map(|(a, b)| [a.as_str(), between, &b].concat())
        } else {
            value
        };
        let value = value.filter(|value| value.len() <= LONGEST);
        self.values.insert(assignment.name, value);
    }

    /// Takes over what is known from elsewhere.
    pub(super) fn set(&mut self, name: &'a str, value: Option<String>) {
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

    /// Nothing if it is not known; empty if it is not set.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        match self.values.get(name) {
            Some(value) => value.clone(),
            None => name.starts_with(self.own).then(String::new),
        }
    }

    fn expanded(&self, parts: &[Part<'a>]) -> Option<String> {
        parts.iter().map(|part| self.expanded_part(part)).collect()
    }

    fn expanded_part(&self, part: &Part<'a>) -> Option<String> {
        match part {
            Part::Text(text) => Some(text.clone()),
            Part::Variable(name) => self.scalar(name),
            Part::IfSet(condition, then) => {
                if self.holds(condition)? {
                    self.expanded(then)
                } else {
                    Some(String::new())
                }
            }
            Part::Unless(condition, otherwise) => {
                if self.holds(condition)? {
                    self.scalar(condition.name)
                } else {
                    self.expanded(otherwise)
                }
            }
            Part::Unknown => None,
        }
    }

    /// Of what is not an array.
    fn scalar(&self, name: &str) -> Option<String> {
        let value = self.value(name);
        value.filter(|_| !self.arrays.contains(name))
    }

    fn holds(&self, condition: &Condition<'a>) -> Option<bool> {
        let value = self.scalar(condition.name)?;
        Some(if condition.and_not_empty {
            !value.is_empty()
        } else {
            self.values.contains_key(condition.name)
        })
    }
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

    /// A statement that consists of assignments alone.
    fn assignments(&mut self) -> Option<Vec<Assignment<'a>>> {
        if self.takes("export ") || self.takes("export\t") {
            self.take_while(|c| matches!(c, ' ' | '\t'));
        }
        let mut found: Vec<Assignment<'a>> = Vec::new();
        loop {
            found.push(self.assignment()?);
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
        const DEEPEST: usize = 32;
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
        let script = format!("{text}\nprintf '%s|' \"${name}\"\n");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .env_clear()
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        output.status.success().then_some(())?;
        text.strip_suffix('|').map(str::to_owned)
    }

    fn ours(text: &str, name: &str) -> Option<String> {
        let mut variables = Variables::none("");
        let statements = parse(text);
        let is_other = |statement: &Statement| matches!(statement, Statement::Other(_));
        if statements.iter().any(is_other) {
            return None;
        }
        variables.assign_all(&statements);
        variables.value(name)
    }

    /// Lines of which scripts are made, followed or not.
    const LINES: [&str; 41] = [
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
                if let Some(value) = ours(&text, name) {
                    proptest::prop_assert_eq!(Some(value), by_shell(&text, name), "{}", &text);
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
            ("export A", false),
            ("unset A", false),
            ("A=1 x", false),
            ("A=1 && x", false),
            (". /x", false),
            ("[ -e /x ] || A=1", false),
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
        let value = ours(text, "A").unwrap();
        let words: Vec<&str> = value.split_whitespace().collect();
        assert_eq!(words, ["a", "b", "c", "d"]);
    }
}
