//! The text of udev's rules: lines, and in each its keys, operators and values. What a rule does is
//! followed by [`super::udev`].

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
    Add,
    Remove,
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
        let Some((token, after)) = token(rest) else {
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
        (":=", Operator::Assign),
        ("=", Operator::Assign),
    ]
    .into_iter()
    .find_map(|(sign, operator)| Some((operator, rest.strip_prefix(sign)?)))?;
    let after = after.trim_start();
    // e"…" has escapes, i"…" ignores case.
    let open = after.find('"')?;
    let prefixes = &after[..open];
    prefixes
        .chars()
        .all(|c| matches!(c, 'e' | 'i'))
        .then_some(())?;
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
}
