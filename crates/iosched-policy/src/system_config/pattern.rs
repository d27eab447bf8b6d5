//! Patterns as udev and the shell have them: `*`, `?`, `[a-z]`, and alternatives with `|`.

/// True if the whole text is like one of the alternatives.
pub(crate) fn is_like_any(patterns: &str, text: &str) -> bool {
    patterns.split('|').any(|pattern| is_like(pattern, text))
}

/// True if the whole text is like the pattern: `*` is anything (`/` too), `?` one character, `[a-z]`
/// or `[!a-z]` one of a set.
pub(crate) fn is_like(pattern: &str, text: &str) -> bool {
    let pattern = parse(pattern);
    let text: Vec<char> = text.chars().collect();
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
    This(char),
    OneOf {
        set: Vec<(char, char)>,
        negated: bool,
    },
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Part::Anything => false,
            Part::AnyOne => true,
            Part::This(this) => *this == c,
            Part::OneOf { set, negated } => {
                set.iter().any(|&(from, to)| (from..=to).contains(&c)) != *negated
            }
        }
    }
}

fn parse(pattern: &str) -> Vec<Part> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut parts = Vec::new();
    let last_end = chars.iter().rposition(|&c| c == ']').unwrap_or(0);
    let mut at = 0;
    while at < chars.len() {
        let (part, next) = match chars[at] {
            '*' => (Part::Anything, at + 1),
            '?' => (Part::AnyOne, at + 1),
            '[' if at < last_end => set(&chars, at).unwrap_or((Part::This('['), at + 1)),
            c => (Part::This(c), at + 1),
        };
        parts.push(part);
        at = next;
    }
    parts
}

/// The set that begins at `[`, and where the pattern goes on; none if it does not end.
fn set(chars: &[char], at: usize) -> Option<(Part, usize)> {
    let negated = matches!(chars.get(at + 1), Some('!' | '^'));
    let first = at + 1 + usize::from(negated);
    // A `]` that comes first is one of the set.
    let end = first + 1 + chars.get(first + 1..)?.iter().position(|&c| c == ']')?;
    let mut set = Vec::new();
    let mut i = first;
    while i < end {
        if i + 2 < end && chars[i + 1] == '-' {
            set.push((chars[i], chars[i + 2]));
            i += 3;
        } else {
            set.push((chars[i], chars[i]));
            i += 1;
        }
    }
    Some((Part::OneOf { set, negated }, end + 1))
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
        ] {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
        assert!(is_like_any("sd*|vd*", "vda"));
        assert!(!is_like_any("sd*|vd*", "xvda"));
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_panics_and_a_text_is_like_itself(text in "[a-z\\[\\]*?!-]{0,10}", other in "[a-z\\[\\]]{0,10}") {
            let _ = is_like(&text, &other);
            let plain: String = other.chars().filter(char::is_ascii_alphabetic).collect();
            proptest::prop_assert!(is_like(&plain, &plain));
        }
    }
}
