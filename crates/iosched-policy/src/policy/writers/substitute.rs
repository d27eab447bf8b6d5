//! udev's substitutions in the value of a rule: `$env{NAME}`, `%k` and the like.

/// Stands in a text for what is not known.
const UNKNOWN: char = '\0';

/// A value after its substitutions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Substituted {
    /// The text; [`UNKNOWN`] stands in it for what is not known.
    pub(super) text: String,
    /// False if something in it is only known when the rule runs.
    pub(super) is_known: bool,
    /// True if it is the text of the rule itself.
    pub(super) is_literal: bool,
}

/// Names of substitutions with their letter; those with an argument have it in braces.
const NAMES: [(&str, char); 17] = [
    ("attr", 's'),
    ("devnode", 'N'),
    ("devpath", 'p'),
    ("driver", 'd'),
    ("env", 'E'),
    ("id", 'b'),
    ("kernel", 'k'),
    ("links", 'L'),
    ("major", 'M'),
    ("minor", 'm'),
    ("name", 'D'),
    ("number", 'n'),
    ("parent", 'P'),
    ("result", 'c'),
    ("root", 'r'),
    ("sysfs", 's'),
    ("sys", 'S'),
];

/// A line of a rules file has no more in udev, nor has what is made of its value: what would be longer is not known, or rules
/// that put a property into itself would double it until no memory is left.
const LONGEST: usize = 16 << 10;

/// Makes the substitutions of a value. `known` gives what stands for a letter (of `%k`, and of the
/// word that means the same) and its argument; none where that cannot be known from here.
pub(super) fn substituted(
    value: &str,
    known: &dyn Fn(char, &str) -> Option<String>,
) -> Substituted {
    let mut found = Substituted {
        text: String::new(),
        is_known: true,
        is_literal: true,
    };
    let mut rest = value;
    while let Some(at) = rest.find(['$', '%']) {
        found.text.push_str(&rest[..at]);
        rest = &rest[at..];
        found.is_literal = false;
        let sign = &rest[..1];
        if rest[1..].starts_with(sign) {
            found.text.push_str(sign);
            rest = &rest[2..];
            continue;
        }
        let Some((letter, argument, length)) = placeholder(rest) else {
            // udev leaves it as it is.
            found.text.push_str(sign);
            found.is_known = false;
            rest = &rest[1..];
            continue;
        };
        if let Some(with) = known(letter, argument) {
            found.text.push_str(&with);
        } else {
            found.is_known = false;
            found.text.push(UNKNOWN);
        }
        if found.text.len() > LONGEST {
            found.text = UNKNOWN.into();
            found.is_known = false;
            return found;
        }
        rest = &rest[length..];
    }
    found.text.push_str(rest);
    found
}

/// The letter, the argument and the length of what a text begins with, `$env{A}` or `%E{A}`.
fn placeholder(text: &str) -> Option<(char, &str, usize)> {
    let (letter, named) = if let Some(after) = text.strip_prefix('%') {
        let letter = after.chars().next()?;
        (letter, 1 + letter.len_utf8())
    } else {
        let after = text.strip_prefix('$')?;
        let (name, letter) = NAMES.iter().find(|(name, _)| after.starts_with(name))?;
        (*letter, 1 + name.len())
    };
    let argument = text[named..]
        .strip_prefix('{')
        .and_then(|inner| Some(&inner[..inner.find('}')?]));
    let length = named + argument.map_or(0, |argument| argument.len() + 2);
    Some((letter, argument.unwrap_or_default(), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> (String, bool) {
        let found = substituted(value, &|letter, argument| match (letter, argument) {
            ('k', "") => Some("sda".into()),
            ('E', "A") => Some("$env{A}".into()),
            _ => None,
        });
        (found.text, found.is_known)
    }

    #[test]
    fn what_grows_beyond_what_udev_takes_is_not_known() {
        let long = "x".repeat(LONGEST / 2);
        let of = |value: &str| substituted(value, &|_, _| Some(long.clone()));
        assert!(of("%E{A}$env{A}").is_known);
        for value in ["%E{A}%E{A}%E{A}", &"%E{A}".repeat(100_000)] {
            let found = of(value);
            assert_eq!((&*found.text, found.is_known), ("\0", false));
            assert!(!found.is_literal);
        }
    }

    #[test]
    fn what_is_known_is_put_in_once_and_the_rest_is_left_and_said() {
        assert_eq!(of("a %k$kernel b"), ("a sdasda b".into(), true));
        assert_eq!(
            of("%E{A}, 100 %%, $$1"),
            ("$env{A}, 100 %, $1".into(), true)
        );
        assert_eq!(of("$result-%c{2}"), ("\0-\0".into(), false));
        assert_eq!(of("$env{A"), ("\0{A".into(), false));
        assert_eq!(of("100 %"), ("100 %".into(), false));
        assert!(!substituted("$$", &|_, _| None).is_literal);
        assert!(substituted("plain", &|_, _| None).is_literal);
    }
}
