//! Patterns as udev has them: `*`, `?`, `[a-z]`, and alternatives with `|`. Matched by fnmatch(3), as in udev's daemon.

use std::ffi::CString;

/// Longer patterns match nothing: udev reads no longer line.
const LONGEST: usize = 16 << 10;

/// What makes a pattern of a text. Without one of them udev compares texts, and a `\` is nothing but itself.
const SIGNS: [char; 3] = ['*', '?', '['];

/// True if the whole text is like one of the alternatives.
pub(crate) fn is_like_any(patterns: &str, text: &str) -> bool {
    let is_pattern = patterns.contains(SIGNS);
    let mut alternatives = patterns.split('|');
    alternatives.any(|one| matches(one, text, is_pattern))
}

/// True if the whole text is like the pattern: `*` is anything (`/` too), `?` one byte, `[a-z]`
/// or `[!a-z]` one of a set, `\*` a star.
pub(crate) fn is_like(pattern: &str, text: &str) -> bool {
    matches(pattern, text, pattern.contains(SIGNS))
}

fn matches(pattern: &str, text: &str, is_pattern: bool) -> bool {
    if !is_pattern {
        return pattern == text;
    }
    match [pattern, text].map(CString::new) {
        [Ok(pattern), Ok(text)] if pattern.count_bytes() <= LONGEST => {
            // SAFETY: both are strings that end in NUL and outlive the call.
            unsafe { libc::fnmatch(pattern.as_ptr(), text.as_ptr(), 0) == 0 }
        }
        _ => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_udev() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("sd[!a-c]", "sda", false),
            ("nvme[0-9]*n[0-9]", "nvme0n1", true),
            ("a[b", "a[b", true),
            ("a[*]b", "axb", false),
            ("a\\*b", "a*b", true),
            ("a\\b", "a\\b", true),
            ("?", "é", false), // two bytes
            ("*", "a\0", false),
        ] {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
        assert!(is_like_any("sd*|vd*", "vda"));
        assert!(!is_like_any("sd*|vd*", "xvda"));
    }

    /// Few letters, so that texts match now and then.
    const TEXT: &str = "[abc19\\[\\]*?!^\\\\é -]{0,8}";

    proptest::proptest! {
        #[test]
        fn a_literal_is_like_its_text_alone(text in TEXT, other in TEXT) {
            let pattern = literal(&text);
            proptest::prop_assert!(is_like(&pattern, &text));
            proptest::prop_assert_eq!(is_like(&pattern, &other), other == text);
        }

        #[test]
        fn what_cannot_be_said_is_like_any_byte(text in "[a\"|\\x07\u{85}*]{0,8}") {
            proptest::prop_assert!(is_like(&literal(&text), &text));
            let is_left = literal(&text).contains(['"', '|', '\x07', '\u{85}']);
            proptest::prop_assert!(!is_left);
        }
    }
}
