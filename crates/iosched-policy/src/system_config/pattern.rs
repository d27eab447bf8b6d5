//! Patterns as udev and the shell have them: `*`, `?`, `[a-z]`, and alternatives with `|`.
//!
//! Byte by byte, as fnmatch(3) is in udev's daemon, which runs in the C locale.

/// Longer patterns are like nothing: udev reads no longer line, and sets without an end are looked for from every `[` on.
const LONGEST: usize = 16 << 10;

/// What makes a pattern of a text. Without one of them udev compares texts, and a `\` is nothing but itself.
const SIGNS: [char; 3] = ['*', '?', '['];

/// True if the whole text is like one of the alternatives.
pub(crate) fn is_like_any(patterns: &str, text: &str) -> bool {
    let is_pattern = patterns.contains(SIGNS);
    let mut alternatives = patterns.split('|');
    alternatives.any(|one| {
        if is_pattern {
            matches(one, text)
        } else {
            one == text
        }
    })
}

/// True if the whole text is like the pattern: `*` is anything (`/` too), `?` one byte, `[a-z]`
/// or `[!a-z]` one of a set, `\*` a star.
pub(crate) fn is_like(pattern: &str, text: &str) -> bool {
    if pattern.contains(SIGNS) {
        matches(pattern, text)
    } else {
        pattern == text
    }
}

/// A pattern that is like this text alone. Three things cannot be said so in a rule of udev, and are like any byte: a
/// quote ends the string, `|` parts alternatives within a set, too, and control characters end lines.
pub(crate) fn literal(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        match c {
            '"' | '|' => pattern.push('?'),
            c if c.is_control() => pattern.extend(std::iter::repeat_n('?', c.len_utf8())),
            '*' | '?' | '[' => pattern.extend(['[', c, ']']),
            '\\' => pattern.push_str("[\\\\]"),
            c => pattern.push(c),
        }
    }
    pattern
}

fn matches(pattern: &str, text: &str) -> bool {
    let parsed = (pattern.len() <= LONGEST).then(|| parse(pattern.as_bytes()));
    let Some(pattern) = parsed.flatten() else {
        return false;
    };
    let text = text.as_bytes();
    let (mut p, mut t) = (0, 0);
    let mut star = None; // where the last `*` stands, and up to where it has taken the text
    while t < text.len() {
        match pattern.get(p) {
            Some(Part::Anything) => {
                star = Some((p, t));
                p += 1;
            }
            Some(part) if part.takes(text[t]) => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, taken)) = star else {
                    return false;
                };
                star = Some((at, taken + 1));
                p = at + 1;
                t = taken + 1;
            }
        }
    }
    pattern[p..]
        .iter()
        .all(|part| matches!(part, Part::Anything))
}

enum Part {
    Anything,
    AnyOne,
    This(u8),
    OneOf { set: Vec<Member>, negated: bool },
}

enum Member {
    Range(u8, u8),
    Class(IsOf),
}

impl Part {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Part::Anything => false,
            Part::AnyOne => true,
            Part::This(this) => *this == byte,
            Part::OneOf { set, negated } => {
                let has = set.iter().any(|member| match member {
                    Member::Range(from, to) => (from..=to).contains(&&byte),
                    Member::Class(is_of) => is_of(&byte),
                });
                has != *negated
            }
        }
    }
}

/// The parts of a pattern; none of one that ends within an escape and is like nothing.
fn parse(pattern: &[u8]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let last_end = pattern.iter().rposition(|&byte| byte == b']').unwrap_or(0);
    let mut at = 0;
    while at < pattern.len() {
        let (part, next) = match pattern[at] {
            b'*' => (Part::Anything, at + 1),
            b'?' => (Part::AnyOne, at + 1),
            b'[' if at < last_end => set(pattern, at).unwrap_or((Part::This(b'['), at + 1)),
            b'\\' => (Part::This(*pattern.get(at + 1)?), at + 2),
            byte => (Part::This(byte), at + 1),
        };
        parts.push(part);
        at = next;
    }
    Some(parts)
}

/// The set that begins at `[`, and where the pattern goes on; none if it does not end.
fn set(pattern: &[u8], at: usize) -> Option<(Part, usize)> {
    let negated = matches!(pattern.get(at + 1), Some(b'!' | b'^'));
    let first = at + 1 + usize::from(negated);
    let mut set = Vec::new();
    let mut i = first;
    // A `]` that comes first is one of the set.
    while i == first || *pattern.get(i)? != b']' {
        if let Some((class, next)) = class(pattern, i) {
            set.push(Member::Class(class));
            i = next;
            continue;
        }
        let (from, next) = member(pattern, i)?;
        i = next;
        let is_range = pattern.get(i) == Some(&b'-') && *pattern.get(i + 1)? != b']';
        let to = if is_range {
            let (to, next) = member(pattern, i + 1)?;
            i = next;
            to
        } else {
            from
        };
        set.push(Member::Range(from, to));
    }
    Some((Part::OneOf { set, negated }, i + 1))
}

/// A byte within a set, escaped or not.
fn member(pattern: &[u8], at: usize) -> Option<(u8, usize)> {
    match pattern.get(at)? {
        b'\\' => Some((*pattern.get(at + 1)?, at + 2)),
        byte => Some((*byte, at + 1)),
    }
}

/// Whether a byte is one of a class.
type IsOf = fn(&u8) -> bool;

/// A class, `[:digit:]`, and where the set goes on.
fn class(pattern: &[u8], at: usize) -> Option<(IsOf, usize)> {
    let rest = pattern[at..].strip_prefix(b"[:")?;
    let length = rest.windows(2).position(|two| two == b":]")?;
    let class: IsOf = match &rest[..length] {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    };
    Some((class, at + 2 + length + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_udev() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("*b*", "abc", true),
            ("a?c", "ac", false),
            ("*aab", "aaaab", true),
            ("sd[a-z]", "sdb", true),
            ("sd[a-z]", "sdaa", false),
            ("sd[!a-c]", "sda", false),
            ("nvme[0-9]*n[0-9]", "nvme0n1", true),
            ("a[]]b", "a]b", true),
            ("a[b", "a[b", true),
            ("a[*]b", "a*b", true),
            ("a[*]b", "axb", false),
            ("a\\*b", "a\\*b", false),
            ("a\\*b", "a*b", true),
            ("a\\b", "a\\b", true),
            ("[[:digit:]]", "5", true),
            ("[[:digit:]]", ":]", false),
            ("?", "é", false), // two bytes
            ("*\\", "\\", false),
        ] {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
        assert!(is_like_any("sd*|vd*", "vda"));
        assert!(!is_like_any("sd*|vd*", "xvda"));
    }

    /// Texts and patterns of few letters, so that they match now and then.
    const TEXT: &str = "[abc19\\[\\]*?!^\\\\é -]{0,8}";
    const PATTERN: &str = "([abc19\\]*?!^\\\\é -]|\\[[!^]?([abc19]|[]*?\\[-]|\\\\[abc\\]-]|[a-c]-[a-c1-9]|\\[:(alpha|digit|upper|space):\\]){0,3}\\]|\\[){0,6}";

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config { cases: 4000, ..Default::default() })]

        #[test]
        fn patterns_match_as_fnmatch_says(pattern in PATTERN, text in TEXT) {
            // udev asks fnmatch of patterns alone.
            if pattern.contains(SIGNS) {
                let theirs = iosched_testing::fnmatch::is_like(&pattern, &text);
                proptest::prop_assert_eq!(is_like(&pattern, &text), theirs);
            }
        }

        #[test]
        fn a_literal_is_like_its_text_alone(text in TEXT, other in TEXT) {
            let pattern = literal(&text);
            let is_like_both = |text: &str| {
                let ours = is_like(&pattern, text);
                let theirs = if pattern.contains(SIGNS) {
                    iosched_testing::fnmatch::is_like(&pattern, text)
                } else {
                    pattern == text
                };
                assert_eq!(ours, theirs, "{pattern} {text}");
                ours
            };
            proptest::prop_assert!(is_like_both(&text));
            proptest::prop_assert_eq!(is_like_both(&other), other == text);
            // One that differs in a byte.
            for (at, _) in text.char_indices() {
                let changed = format!("{}z{}", &text[..at], text[at..].chars().skip(1).collect::<String>());
                proptest::prop_assert!(!is_like_both(&changed));
            }
        }

        #[test]
        fn what_cannot_be_said_is_like_any_byte(text in "[a\"|\\x07\u{85}*]{0,8}") {
            proptest::prop_assert!(is_like(&literal(&text), &text));
            let is_left = literal(&text).contains(['"', '|', '\x07', '\u{85}']);
            proptest::prop_assert!(!is_left);
        }
    }
}
