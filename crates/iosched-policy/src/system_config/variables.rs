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

use crate::shell::syntax::{self, Command, Expansion, Gives, Node, Piece, Redirection, Word};

/// The statements of a text in their order; comments are none.
pub(super) fn parse(text: &str) -> Vec<Statement<'_>> {
    let found = syntax::each_statement(text, |node| followed(text, node, &mut BTreeSet::new()));
    let of_statement = found.into_iter().flat_map(|statement| match statement {
        Ok(assignments) => assignments.into_iter().map(Statement::Assignment).collect(),
        Err(range) => vec![Statement::Other(range)],
    });
    of_statement.collect()
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
    value: Word,
    /// Where the value stands without quotes, if it is one piece of one line that can be edited as text: quoted as a
    /// whole or not at all, with no backslash (but before a `$`) and nothing that a program prints.
    pub plain: Option<Plain>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plain {
    pub quote: Option<char>,
    pub inner: Range<usize>,
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
    pub(super) fn unknown_in<'s>(&self, assignment: &'s Assignment<'a>) -> Option<&'s str> {
        self.unknown_among(&assignment.value)
    }

    fn unknown_among<'s>(&self, word: &'s Word) -> Option<&'s str> {
        word.iter().find_map(|piece| {
            let Piece::Expansion { expansion, .. } = piece else {
                return None;
            };
            let (name, word) = match expansion {
                Expansion::Variable(name) => (name, None),
                Expansion::Conditional { name, word, .. } => (name, Some(word)),
                _ => return None,
            };
            let is_unknown = is_name(name) && self.scalar(name).is_none();
            is_unknown
                .then_some(&**name)
                .or_else(|| self.unknown_among(word?))
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

    fn expanded(&self, word: &Word) -> Possible<String> {
        let empty = BTreeSet::from([String::new()]);
        word.iter().try_fold(empty, |values, piece| {
            let of_piece = match piece {
                // A tilde is perhaps somebody's home.
                Piece::Text { text, is_quoted } if *is_quoted || !text.contains('~') => {
                    BTreeSet::from([text.clone()])
                }
                Piece::Text { .. } => return None,
                Piece::Expansion { expansion, .. } => self.expansion(expansion)?,
            };
            product(&values, &of_piece, "")
        })
    }

    fn expansion(&self, expansion: &Expansion) -> Possible<String> {
        match expansion {
            Expansion::Variable(name) => {
                let values = self.scalar(name)?.into_iter();
                Some(values.map(Option::unwrap_or_default).collect())
            }
            Expansion::Conditional {
                name,
                counts_empty,
                gives,
                word,
            } => {
                let mut found = BTreeSet::new();
                for value in self.scalar(name)? {
                    let is_set = |value: &String| !(*counts_empty && value.is_empty());
                    match (value.filter(is_set), gives) {
                        (Some(value), Gives::Default | Gives::AssignedDefault) => {
                            found.insert(value);
                        }
                        (None, Gives::Alternative) => _ = found.insert(String::new()),
                        _ => found.extend(self.expanded(word)?),
                    }
                }
                Some(found)
            }
            Expansion::Cut { .. } | Expansion::Output(_) | Expansion::Unknown | Expansion::Bad => {
                None
            }
        }
    }

    /// Of what is neither an array nor an argument.
    fn scalar(&self, name: &str) -> Possible<Option<String>> {
        let values = self.possible(name);
        values.filter(|_| !self.arrays.contains(name) && is_name(name))
    }
}

/// False of `1`, `@` and `*`.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
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

/// The assignments of a statement whose whole effect on variables is known; those that it names are put into `names`.
fn followed<'a>(
    text: &'a str,
    node: &Node,
    names: &mut BTreeSet<&'a str>,
) -> Option<Vec<Assignment<'a>>> {
    match node {
        Node::Command(command) => {
            let found = if is_harmless(text, command) {
                Vec::new()
            } else {
                assigned_by(text, command).or_else(|| exported_by(text, command))?
            };
            names.extend(named_in(&text[command.range.clone()]));
            Some(found)
        }
        Node::Pipeline { parts, is_negated } => match &parts[..] {
            [Node::Command(command)] if *is_negated && is_harmless(text, command) => {
                followed(text, &parts[0], names)
            }
            _ => None,
        },
        Node::AndOr(first, others) => {
            let mut asks = BTreeSet::new();
            let is_assignment = matches!(&**first, Node::Command(of) if !is_harmless(text, of));
            let mut found = followed(text, first, &mut asks).filter(|_| !is_assignment)?;
            for (_, node) in others {
                let before = asks.clone();
                let more = match node {
                    Node::Command(_) | Node::Pipeline { .. } => followed(text, node, &mut asks)?,
                    _ => return None,
                };
                found.extend(more.into_iter().map(|of| below(of, &before)));
            }
            names.extend(asks);
            Some(found)
        }
        Node::If { arms, otherwise } => {
            let (mut found, mut perhaps) = (Vec::new(), Vec::new());
            let mut asks = BTreeSet::new();
            for (index, (condition, then)) in arms.iter().enumerate() {
                // Everything but the first condition is carried out perhaps.
                let asked = if index == 0 { &mut found } else { &mut perhaps };
                for node in condition {
                    asked.extend(followed(text, node, &mut asks)?);
                }
                for node in then {
                    perhaps.extend(followed(text, node, names)?);
                }
            }
            for node in otherwise {
                perhaps.extend(followed(text, node, names)?);
            }
            found.extend(perhaps.into_iter().map(|of| below(of, &asks)));
            names.extend(asks);
            Some(found)
        }
        _ => None,
    }
}

/// An assignment below a condition that asks these variables.
fn below<'a>(assignment: Assignment<'a>, asks: &BTreeSet<&'a str>) -> Assignment<'a> {
    Assignment {
        is_conditional: true,
        asks: &assignment.asks | asks,
        ..assignment
    }
}

/// True of one of [`HARMLESS`].
fn is_harmless(text: &str, command: &Command) -> bool {
    let is_one = match command.words.first().map(Vec::as_slice) {
        Some([Piece::Text { text, is_quoted }]) => !is_quoted && HARMLESS.contains(&&**text),
        _ => false,
    };
    let says = |to: &Redirection| matches!(to.operator, ">" | ">>" | ">&" | "2>");
    // What asks a file that is edited may find something else afterwards.
    let text = &text[command.range.clone()];
    let only_says = text.starts_with("echo") && !text.contains('>');
    is_one
        && !command.is_odd
        && command.assignments.is_empty()
        && command.redirections.iter().all(says)
        && (only_says || !text.contains("/etc/default/grub"))
}

/// The assignments of which a command consists.
fn assigned_by<'a>(text: &'a str, command: &Command) -> Option<Vec<Assignment<'a>>> {
    let is_alone = command.words.is_empty() && command.redirections.is_empty();
    let found = command.assignments.iter();
    let found = found.map(|of| Assignment {
        name: &text[of.start..][..of.name.len()],
        appends: of.appends,
        is_array: of.is_array,
        is_conditional: false,
        asks: BTreeSet::new(),
        start: of.start,
        assigned: of.assigned.clone(),
        value: of.value.clone(),
        plain: plain_at(text, &of.assigned),
    });
    let has_element = command.assignments.iter().any(|of| of.is_of_element);
    let found: Vec<_> = found.collect();
    (is_alone && !command.is_odd && !has_element && is_of_any_shell(&found)).then_some(found)
}

/// The assignments of `export`.
fn exported_by<'a>(text: &'a str, command: &Command) -> Option<Vec<Assignment<'a>>> {
    let (first, words) = command.words.split_first()?;
    let is_plain = command.assignments.is_empty() && command.redirections.is_empty();
    (is_plain && !command.is_odd && !words.is_empty()).then_some(())?;
    matches!(&first[..], [Piece::Text { text, is_quoted: false }] if text == "export")
        .then_some(())?;
    let mut found = Vec::new();
    for (word, range) in words.iter().zip(&command.word_ranges[1..]) {
        let (source, mut value) = (&text[range.clone()], word.clone());
        let name = source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = name.take(1).find(|name| !name.is_empty())?;
        (!name.starts_with(|c: char| c.is_ascii_digit())).then_some(())?;
        if source == name {
            continue; // its value stays
        }
        let sign = ["=", "+="]
            .into_iter()
            .find(|sign| source[name.len()..].starts_with(sign))?;
        let before = name.len() + sign.len();
        let Some(Piece::Text { text: first, .. }) = value.first_mut() else {
            return None;
        };
        *first = first.get(before..)?.to_owned();
        let assigned = range.start + before..range.end;
        let plain = plain_at(text, &assigned);
        // Some shells part the value at its blanks, as they do with what any command is given.
        let is_quoted = plain.as_ref().is_some_and(|plain| plain.quote.is_some());
        (is_quoted || !source.contains(['$', '`'])).then_some(())?;
        found.push(Assignment {
            name,
            appends: sign == "+=",
            is_array: false,
            is_conditional: false,
            asks: BTreeSet::new(),
            start: range.start,
            assigned,
            value,
            plain,
        });
    }
    is_of_any_shell(&found).then_some(found)
}

/// To a shell without `+=` that is a command, and what stands beside it are its arguments.
fn is_of_any_shell(assignments: &[Assignment<'_>]) -> bool {
    assignments.len() == 1 || !assignments.iter().any(|of| of.appends)
}

/// As [`Assignment::plain`].
fn plain_at(text: &str, assigned: &Range<usize>) -> Option<Plain> {
    let source = &text[assigned.clone()];
    let quote = source.chars().next().filter(|c| matches!(c, '"' | '\''));
    let length = quote.map_or(0, char::len_utf8);
    let inner = source.get(length..source.len().checked_sub(length)?)?;
    let is_whole = match quote {
        Some(quote) => source.len() > 1 && source.ends_with(quote) && !inner.contains(quote),
        None => !source.contains(['"', '\'', '\\', '$', '`', '(']),
    };
    let known = inner.replace("\\$", "");
    let is_odd = quote == Some('"') && (known.contains(['\\', '`']) || known.contains("$("));
    (is_whole && !is_odd && !inner.contains('\n')).then_some(Plain {
        quote,
        inner: assigned.start + length..assigned.end - length,
    })
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
    const LINES: [&str; 67] = [
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
        "A=$(case x in x) B=14;; esac)",
        "A=\"${B:-it's}\"",
        "A=\"${B:+\"x y\"}\"",
        "time A=15",
        "true && export A=16",
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
