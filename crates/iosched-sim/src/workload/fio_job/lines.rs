//! The lines of a job file: sections, options and comments. The one reader of that format: what may be run and
//! what is simulated are asked about the same lines.
//!
//! Follows fio's HOWTO ("Job file format", fio 3.33). Left out: commands in values. Variables and `include` are replaced
//! before, by what knows files and the environment.

/// The longest name of a section.
const LONGEST_NAME: usize = 200;

/// The longest line, bytes. fio takes what stands behind its first 4095 (fio 2) or 8191 characters (fio 3.33) for a line of
/// its own, which would be an option that nobody has looked at.
pub const LONGEST_LINE: usize = 4000;

/// A line that says something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    /// Counted from 1.
    pub number: usize,
    /// What it says.
    pub item: Item<'a>,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'a> {
    /// `[global]`: what follows holds for the sections after it.
    Global,
    /// `[name]`: a job begins.
    Section(&'a str),
    /// `key=value`, or a bare `key`.
    Option {
        /// As it is written: fio tells upper from lower case.
        key: String,
        /// What stands after the first `=`.
        value: Option<&'a str>,
    },
}

/// A line that says nothing that can be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine<'a> {
    /// Counted from 1.
    pub number: usize,
    /// The line.
    pub text: &'a str,
    /// What is wrong with it.
    pub cause: &'static str,
}

/// The lines that say something, in their order.
pub fn lines(text: &str) -> impl Iterator<Item = Result<Line<'_>, BadLine<'_>>> {
    let numbered = text.lines().zip(1..);
    numbered.filter_map(|(raw, number)| {
        let content = without_comment(raw.trim_start_matches('\u{feff}')).trim();
        let item = match content.strip_prefix('[') {
            _ if content.is_empty() => return None,
            _ if content.len() > LONGEST_LINE => Err(TOO_LONG),
            Some(rest) => section(rest),
            None => option(content),
        };
        let text = beginning(raw.trim());
        let bad = |cause| BadLine {
            number,
            text,
            cause,
        };
        Some(item.map(|item| Line { number, item }).map_err(bad))
    })
}

const TOO_LONG: &str = "fio would take the end of so long a line for another option";

/// Enough of a line to find it.
fn beginning(line: &str) -> &str {
    const SHOWN: usize = 200;
    line.char_indices()
        .nth(SHOWN)
        .map_or(line, |(at, _)| &line[..at])
}

/// The line up to a comment: fio takes every `#` and `;` for the beginning of one.
fn without_comment(line: &str) -> &str {
    line.split(['#', ';']).next().unwrap_or_default()
}

fn section(rest: &str) -> Result<Item<'_>, &'static str> {
    let (name, _) = rest.split_once(']').ok_or("the section's ] is missing")?;
    let name = name.trim();
    // fio compares the first six characters.
    if name.starts_with("global") {
        return Ok(Item::Global);
    }
    if name.is_empty() {
        return Err("the section has no name");
    }
    if name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err("a section's name is at most 200 characters");
    }
    Ok(Item::Section(name))
}

fn option(content: &str) -> Result<Item<'_>, &'static str> {
    let (key, value) = match content.split_once('=') {
        Some((key, value)) => (key.trim(), Some(value.trim())),
        None => (content, None),
    };
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if key.is_empty() || !key.chars().all(is_of_key) {
        return Err("this is not option=value");
    }
    if value.is_some_and(|value| value.contains(char::is_control)) {
        return Err("a value has no control characters");
    }
    Ok(Item::Option {
        key: key.to_owned(),
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_fio_would_read_in_two_parts_is_refused() {
        let line = |length: usize| format!("thinktime={:0>1$}", "", length - "thinktime=".len());
        assert!(lines(&line(LONGEST_LINE)).all(|line| line.is_ok()));
        let text = line(8191) + "exec_prerun=reboot";
        let bad = lines(&text).next().unwrap().unwrap_err();
        assert_eq!((bad.cause, bad.text.len()), (TOO_LONG, 200));
    }

    #[test]
    fn comments_after_a_value_and_a_byte_order_mark_are_passed_over() {
        let text = "\u{feff}[a] # first\n\n rw = randwrite ; of all\r\nbs=4k\t# small\n;rw=read\nname=a#b\ndirect\n";
        let found: Vec<Line<'_>> = lines(text).map(Result::unwrap).collect();
        let option = |number, key: &str, value| Line {
            number,
            item: Item::Option {
                key: key.to_owned(),
                value,
            },
        };
        let expected = [
            Line {
                number: 1,
                item: Item::Section("a"),
            },
            option(3, "rw", Some("randwrite")),
            option(4, "bs", Some("4k")),
            option(6, "name", Some("a")),
            option(7, "direct", None),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_line_of_a_job_file_is_told_with_its_number() {
        for (text, cause) in [
            ("[a", "] is missing"),
            ("[]", "no name"),
            ("a b=1", "not option=value"),
            ("=1", "not option=value"),
        ] {
            let file = format!("[x]\n{text}\n");
            let error = lines(&file).nth(1).unwrap().unwrap_err();
            assert_eq!((error.number, error.text), (2, text));
            assert!(error.cause.contains(cause), "{text}: {}", error.cause);
        }
    }
}
