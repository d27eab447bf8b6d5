//! The text of udev's rules: lines, and in each its keys, operators and values. What a rule does is
//! followed by [`super::udev`].
//!
//! A line with one key that udev does not take (`KERNEL="sda"`, `ENV="x"`, an unknown one) is none: udev drops it as a whole.
//! Which it takes was asked of systemd 252 (`udevadm test`).

/// A rule: its line in the file, from 1, and its keys.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) tokens: Vec<Token>,
}

impl Line {
    /// The value of the first of its keys that is called so.
    pub(crate) fn value_of(&self, key: &str) -> Option<&str> {
        self.tokens
            .iter()
            .find(|token| token.key == key)
            .map(|token| token.value.as_str())
    }
}

/// `KEY{attribute}=="value"`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) key: String,
    pub(crate) attribute: Option<String>,
    pub(crate) operator: Operator,
    pub(crate) value: String,
    /// True of `i"…"`, which is like a text in any case.
    pub(crate) ignores_case: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Is,
    IsNot,
    Assign,
    /// `:=`, after which no other rule assigns it.
    AssignFinally,
    Add,
    Remove,
}

impl Operator {
    /// True of those that give an attribute or a property a value.
    pub(crate) fn assigns(self) -> bool {
        matches!(
            self,
            Operator::Assign | Operator::AssignFinally | Operator::Add
        )
    }
}

impl Token {
    /// True if udev takes the key with this operator, and an attribute or none.
    fn is_valid(&self) -> bool {
        let has_attribute = self.attribute.as_ref().is_some_and(|name| !name.is_empty());
        let compares = matches!(self.operator, Operator::Is | Operator::IsNot);
        match self.key.as_str() {
            "ACTION" | "DEVPATH" | "DRIVER" | "DRIVERS" | "KERNEL" | "KERNELS" | "RESULT"
            | "SUBSYSTEM" | "SUBSYSTEMS" | "TAGS" => !has_attribute && compares,
            "ATTRS" | "CONST" => has_attribute && compares,
            "TEST" => compares,
            "ATTR" | "ENV" | "SECLABEL" | "SYSCTL" => {
                has_attribute && self.operator != Operator::Remove
            }
            "RUN" => self.operator.assigns(),
            "LABEL" | "GOTO" => !has_attribute && self.operator == Operator::Assign,
            "GROUP" | "IMPORT" | "MODE" | "NAME" | "OPTIONS" | "OWNER" | "PROGRAM" | "SYMLINK"
            | "TAG"
            // Of udev before 174, which old kernels have.
            | "BUS" | "ID" | "SYSFS" | "WAIT_FOR" | "WAIT_FOR_SYSFS" => true,
            _ => false,
        }
    }
}

/// The rules of a file: comments left out, continued lines joined.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let mut joined = String::new();
    let mut first = 0;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with('#') {
            continue;
        }
        if joined.is_empty() {
            first = index + 1;
        }
        if let Some(continued) = line.strip_suffix('\\') {
            joined.push_str(continued);
            continue;
        }
        joined.push_str(line);
        let tokens = tokens(&joined);
        if !tokens.is_empty() {
            found.push(Line {
                number: first,
                tokens,
            });
        }
        joined.clear();
    }
    found
}

/// The keys of a rule; what cannot be read ends it, as udev ignores such a rule.
pub(crate) fn tokens(line: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = line.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
    while !rest.is_empty() {
        let Some((token, after)) = token(rest).filter(|(token, _)| token.is_valid()) else {
            return Vec::new();
        };
        found.push(token);
        rest = after.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
    }
    found
}

fn token(text: &str) -> Option<(Token, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphabetic() && c != '_')?;
    let (key, mut rest) = text.split_at(end);
    let mut attribute = None;
    if let Some(inner) = rest.strip_prefix('{') {
        let (name, after) = inner.split_once('}')?;
        attribute = Some(name.to_owned());
        rest = after;
    }
    rest = rest.trim_start();
    let (operator, after) = [
        ("==", Operator::Is),
        ("!=", Operator::IsNot),
        ("+=", Operator::Add),
        ("-=", Operator::Remove),
        (":=", Operator::AssignFinally),
        ("=", Operator::Assign),
    ]
    .into_iter()
    .find_map(|(sign, operator)| Some((operator, rest.strip_prefix(sign)?)))?;
    let after = after.trim_start();
    // i"…" ignores case. The escapes of e"…" stay as they are.
    let open = after.find('"')?;
    let prefixes = &after[..open];
    matches!(prefixes, "" | "e" | "i" | "ei" | "ie").then_some(())?;
    let quoted = &after[open + 1..];
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                let token = Token {
                    key: key.to_owned(),
                    attribute,
                    operator,
                    value,
                    ignores_case: prefixes.contains('i'),
                };
                return Some((token, &quoted[at + 1..]));
            }
            '\\' if quoted[at + 1..].starts_with('"') => {
                chars.next();
                value.push('"');
            }
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continued_lines_comments_and_quotes_are_read() {
        let text =
            "\n# comment\nKERNEL==\"sd[a-z]\", \\\n# in between\n  ATTR{queue/scheduler}=\"bfq\"\n";
        let found = lines(text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].number, found[0].tokens.len()), (3, 2));
        assert_eq!(found[0].value_of("ATTR"), Some("bfq"));
        let quoted = tokens(r#"RUN+="/bin/sh -c \"echo x\"", ENV{A}=e"b""#);
        assert_eq!(quoted[0].value, "/bin/sh -c \"echo x\"");
        assert_eq!(quoted[1].value, "b");
        assert_eq!(tokens("KERNEL==\"sda\" garbage"), []);
    }

    /// What systemd 252 takes: it carries out the rest of the line.
    const TAKEN: [&str; 11] = [
        r#"KERNEL=="null""#,
        r#"ATTR{dev}=="1:3""#,
        r#"ATTR{x}+="1""#,
        r#"ENV{Y} = "1""#,
        r#"RUN="x""#,
        r#"RUN{program}+="/x""#,
        r#"PROGRAM="/bin/true""#,
        r#"TEST=="/etc""#,
        r#"TAG+="a""#,
        r#"LABEL="a""#,
        r#"GOTO="nowhere""#,
    ];

    /// What it drops, with all that stands beside it.
    const DROPPED: [&str; 16] = [
        r#"KERNEL="null""#,
        r#"ATTRS{dev}="1:3""#,
        r#"KERNEL{a}=="null""#,
        r#"ATTR{}=="1:3""#,
        r#"ATTR{x}-="1""#,
        r#"UNKNOWN=="x""#,
        r#"kernel=="null""#,
        "FOO",
        r#"KERNEL=="null"#,
        "KERNEL==null",
        "KERNEL=='null'",
        r#"KERNEL=~"null""#,
        r#"KERNEL==x"null""#,
        r#"ATTR {dev}=="1:3""#,
        r#"RUN=="x""#,
        r#"TEST="/etc""#,
    ];

    #[test]
    fn a_line_with_a_key_that_udev_does_not_take_is_no_rule() {
        let with = |key: &str| format!("ENV{{X}}==\"\", {key}");
        for key in TAKEN {
            assert_eq!(tokens(&with(key)).len(), 2, "{key}");
            assert!(!tokens(key).is_empty(), "{key}");
        }
        for key in DROPPED {
            assert_eq!(tokens(&with(key)), [], "{key}");
        }
    }
}
