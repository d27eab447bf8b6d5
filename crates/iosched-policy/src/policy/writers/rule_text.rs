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
    fn compares(self) -> bool {
        matches!(self, Operator::Is | Operator::IsNot)
    }

    /// True of those that give an attribute or a property a value.
    pub(crate) fn assigns(self) -> bool {
        matches!(
            self,
            Operator::Assign | Operator::AssignFinally | Operator::Add
        )
    }
}

impl Token {
    /// True if udev takes the key with this operator and attribute.
    fn is_valid(&self) -> bool {
        let operator = self.operator;
        let attribute = self.attribute.as_deref();
        let is_plain = attribute.is_none_or(str::is_empty);
        let has_attribute = !is_plain;
        let compares = operator.compares();
        let compares_or_assigns = compares || operator.assigns();
        match self.key.as_str() {
            "ACTION" | "DEVPATH" | "DRIVER" | "DRIVERS" | "KERNEL" | "KERNELS" | "RESULT"
            | "SUBSYSTEM" | "SUBSYSTEMS" | "TAGS" => is_plain && compares,
            "ATTRS" => has_attribute && compares,
            "CONST" => matches!(attribute, Some("arch" | "virt" | "cvm")) && compares,
            "ATTR" | "SYSCTL" => has_attribute && compares_or_assigns,
            "ENV" => has_attribute && (compares || operator.assigns() && !self.is_of_kernel()),
            "TEST" => {
                let is_octal = |mode: &str| mode.chars().all(|c| ('0'..='7').contains(&c));
                attribute.is_none_or(is_octal) && compares
            }
            "TAG" => is_plain,
            "NAME" | "SYMLINK" | "PROGRAM" => is_plain && compares_or_assigns,
            "IMPORT" => {
                let kinds = ["program", "builtin", "file", "db", "cmdline", "parent"];
                attribute.is_some_and(|kind| kinds.contains(&kind)) && compares_or_assigns
            }
            "OWNER" | "GROUP" | "MODE" | "OPTIONS" => is_plain && operator.assigns(),
            "SECLABEL" => has_attribute && operator.assigns(),
            "RUN" => {
                let is_kind = matches!(attribute, None | Some("program" | "builtin"));
                is_kind && operator.assigns()
            }
            "LABEL" | "GOTO" => is_plain && operator == Operator::Assign,
            // Of udev before 174, which old kernels have.
            "BUS" | "ID" | "SYSFS" | "WAIT_FOR" | "WAIT_FOR_SYSFS" => true,
            _ => false,
        }
    }

    /// True of a property that the kernel gives, and no rule may.
    fn is_of_kernel(&self) -> bool {
        let properties = [
            "ACTION",
            "DEVLINKS",
            "DEVNAME",
            "DEVPATH",
            "DEVTYPE",
            "DRIVER",
            "IFINDEX",
            "MAJOR",
            "MINOR",
            "SEQNUM",
            "SUBSYSTEM",
            "TAGS",
        ];
        let name = self.attribute.as_deref().unwrap_or_default();
        properties.contains(&name)
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
    // e"…" has escapes, i"…" ignores case.
    let open = after.find('"')?;
    let prefixes = &after[..open];
    matches!(prefixes, "" | "e" | "i" | "ei" | "ie").then_some(())?;
    let has_escapes = prefixes.contains('e');
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
            '\\' if has_escapes => {
                let (c, length) = escape(&quoted[at + 1..])?;
                value.push(c);
                for _ in 0..length {
                    chars.next();
                }
            }
            c => value.push(c),
        }
    }
    None
}

/// What an escape of C stands for, and its length behind the backslash.
fn escape(text: &str) -> Option<(char, usize)> {
    let of_digits = |digits: &str, radix| {
        let code = u32::from_str_radix(digits, radix).ok()?;
        char::from_u32(code).filter(|c| *c != '\0')
    };
    let c = match text.chars().next()? {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        's' => ' ',
        c @ ('\\' | '\'') => c,
        'x' => return Some((of_digits(text.get(1..3)?, 16)?, 3)),
        'u' => return Some((of_digits(text.get(1..5)?, 16)?, 5)),
        '0'..='7' => return Some((of_digits(text.get(..3)?, 8)?, 3)),
        _ => return None,
    };
    Some((c, 1))
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
        assert_eq!(tokens(r#"ENV{A}=e"a\x62\143\\""#)[0].value, "abc\\");
    }

    /// What systemd 252 takes: it carries out the rest of the line.
    const TAKEN: [&str; 23] = [
        r#"KERNEL=="null""#,
        r#"ATTR{dev}=="1:3""#,
        r#"ATTR{x}+="1""#,
        r#"ENV{Y}=="""#,
        r#"ENV{Y} = "1""#,
        r#"ENV{DEVTYPE}!="x""#,
        r#"NAME="x""#,
        r#"SYMLINK="a""#,
        r#"OWNER="0""#,
        r#"SECLABEL{a}="b""#,
        r#"RUN="x""#,
        r#"RUN{program}+="/x""#,
        r#"RUN{builtin}+="kmod load x""#,
        r#"PROGRAM="/bin/true""#,
        r#"IMPORT{program}+="/bin/true""#,
        r#"TEST=="/etc""#,
        r#"TEST{0444}=="/etc""#,
        r#"CONST{virt}=="*""#,
        r#"TAG+="a""#,
        r#"SYSCTL{kernel/ostype}=="Linux""#,
        r#"LABEL="a""#,
        r#"GOTO="nowhere""#,
        r#"KERNEL==e"n\x75ll""#,
    ];

    /// What it drops, with all that stands beside it.
    const DROPPED: [&str; 33] = [
        r#"KERNEL="null""#,
        r#"SUBSYSTEM="mem""#,
        r#"ATTRS{dev}="1:3""#,
        r#"KERNEL{a}=="null""#,
        r#"ATTR=="1:3""#,
        r#"ATTR{}=="1:3""#,
        r#"ATTR{x}-="1""#,
        r#"ENV=="1""#,
        r#"ENV{}="1""#,
        r#"ENV{Y}-="1""#,
        r#"ENV{ACTION}="x""#,
        r#"ENV{DEVTYPE}="x""#,
        r#"UNKNOWN=="x""#,
        r#"kernel=="null""#,
        "FOO",
        r#"KERNEL=="null"#,
        "KERNEL==null",
        "KERNEL=='null'",
        r#"KERNEL=~"null""#,
        r#"KERNEL==x"null""#,
        r#"KERNEL==e"n\qll""#,
        r#"ATTR {dev}=="1:3""#,
        r#"NAME-="x""#,
        r#"SECLABEL="x""#,
        r#"RUN=="x""#,
        r#"RUN{foo}+="x""#,
        r#"PROGRAM-="x""#,
        r#"IMPORT="x""#,
        r#"IMPORT{foo}="x""#,
        r#"TEST="/etc""#,
        r#"TEST{x}=="/etc""#,
        r#"CONST{foo}=="x""#,
        r#"OPTIONS=="watch""#,
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
