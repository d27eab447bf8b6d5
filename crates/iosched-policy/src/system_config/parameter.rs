//! The parameter `elevator=` among others: put in, changed, taken out, found. Pure.
//!
//! Words are told apart as the kernel does (`next_arg` in `lib/cmdline.c`): blanks between double quotes are part of a
//! word. What follows a word `--` is for init (since Linux 3.16), so the parameter is put before that.

use std::borrow::Cow;
use std::ops::Range;

pub(super) const PARAMETER: &str = "elevator=";

/// Parameters with `elevator=` set once (where it first stood, or after the last word that is for the kernel) or taken
/// out; all else, blanks too, as it was.
///
/// # Errors
/// A quote is not closed, or there is a single one, which is a quote to GRUB and a letter to the kernel: nobody can
/// say where a word ends.
pub(super) fn with_parameter(parameters: &str, value: Option<&str>) -> Result<String, OpenQuote> {
    if !Words::of(parameters).are_closed && (value.is_some() || parameters.contains(PARAMETER)) {
        return Err(OpenQuote);
    }
    let mut text = parameters.to_owned();
    let mut wanted = value.map(|value| format!("{PARAMETER}{value}"));
    let mut from = 0;
    while let Some(Range { start, end }) = find_parameter(&text, from) {
        if let Some(word) = wanted.take() {
            text.replace_range(start..end, &word);
            from = start + word.len();
        } else {
            from = without_word(&mut text, start, end);
        }
    }
    if let Some(word) = wanted {
        let words = Words::of(&text);
        match (words.for_kernel.last(), words.dashes) {
            (Some(last), _) => text.insert_str(last.end, &format!(" {word}")),
            (None, Some(dashes)) => text.insert_str(dashes, &format!("{word} ")),
            (None, None) => text.insert_str(0, &word),
        }
    }
    Ok(text)
}

/// A quote that is not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenQuote;

/// Takes a word out with the blanks before it, or, at the beginning, with those after it; where the
/// text goes on.
fn without_word(text: &mut String, start: usize, end: usize) -> usize {
    let before = text[..start].trim_end().len();
    if before > 0 {
        text.replace_range(before..end, "");
        before
    } else {
        let after = text.len() - text[end..].trim_start().len();
        text.replace_range(start..after, "");
        start
    }
}

/// Where a word `elevator=…` that is for the kernel stands, not before `from`.
pub(super) fn find_parameter(text: &str, from: usize) -> Option<Range<usize>> {
    let is_it = |word: &Range<usize>| {
        let word = &text[word.clone()];
        // The kernel takes quotes around a whole parameter, too.
        word.trim_start_matches('"').starts_with(PARAMETER)
    };
    let mut words = Words::of(text).for_kernel.into_iter();
    words.find(|word| word.start >= from && is_it(word))
}

/// The value that `elevator=` has first.
pub(super) fn value_of_parameter(text: &str) -> Option<&str> {
    let word = &text[find_parameter(text, 0)?];
    let value = word.trim_start_matches('"').strip_prefix(PARAMETER)?;
    Some(value.trim_matches('"'))
}

/// Every word but ours, in its order; the whole text of one in which it is not clear what a word is.
pub(super) fn others(text: &str) -> Vec<&str> {
    let words = Words::of(text);
    if !words.are_closed {
        return vec![text];
    }
    let is_ours = |word: &&str| word.trim_start_matches('"').starts_with(PARAMETER);
    let of_kernel = words.for_kernel.iter().map(|word| &text[word.clone()]);
    let of_init = words.dashes.map_or("", |dashes| &text[dashes..]);
    let others = of_kernel.filter(|word| !is_ours(word));
    others.chain(of_init.split_whitespace()).collect()
}

/// True if some of the parameters are for init.
pub(super) fn has_dashes(text: &str) -> bool {
    Words::of(text).dashes.is_some()
}

struct Words {
    for_kernel: Vec<Range<usize>>,
    /// Where the word `--` stands.
    dashes: Option<usize>,
    /// False if a quote is open at the end, or it is not clear what is one.
    are_closed: bool,
}

impl Words {
    fn of(text: &str) -> Words {
        let mut found = Vec::new();
        let mut start = None;
        let mut is_quoted = false;
        for (at, c) in text.char_indices() {
            is_quoted ^= c == '"';
            if c.is_whitespace() && !is_quoted {
                found.extend(start.take().map(|start| start..at));
            } else {
                start.get_or_insert(at);
            }
        }
        found.extend(start.map(|start| start..text.len()));
        let dashes = found.iter().position(|word| &text[word.clone()] == "--");
        let of_init = dashes.map_or(Vec::new(), |dashes| found.split_off(dashes));
        Words {
            for_kernel: found,
            dashes: of_init.first().map(|word| word.start),
            are_closed: !is_quoted && !text.contains('\''),
        }
    }
}

/// Which of several lines gets the parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoesInto {
    First,
    /// The one that has it already, or else the last one that is for the kernel.
    ItsOwnOrLast,
}

/// Lines that are read one after the other as one line of parameters, with `elevator=` set once or taken out; a line of
/// its own, after `key`, where no line is read.
///
/// # Errors
/// The number of a line, from 1, in which a quote is not closed.
pub(super) fn in_lines(
    text: &str,
    is_read: impl Fn(&str) -> bool,
    key: &str,
    goes_into: GoesInto,
    value: Option<&str>,
) -> Result<String, usize> {
    let read: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| is_read(line))
        .collect();
    let dashes = read.iter().find(|(_, line)| has_dashes(line));
    let last = dashes.or(read.last()).map(|(index, _)| *index);
    let mut before_last = read.iter().filter(|(index, _)| Some(*index) <= last);
    let has_it = |(_, line): &&(usize, &str)| find_parameter(line, 0).is_some();
    let chosen = match goes_into {
        GoesInto::First => read.first().map(|(index, _)| *index),
        GoesInto::ItsOwnOrLast => before_last.find(has_it).map(|(index, _)| *index).or(last),
    };
    let mut index = 0;
    let mut open = None;
    let mut edited = each_line(text, |line| {
        index += 1;
        let at = index - 1;
        if !is_read(line) || Some(at) > last {
            return line.to_owned();
        }
        with_parameter(line, value.filter(|_| Some(at) == chosen)).unwrap_or_else(|OpenQuote| {
            open.get_or_insert(index);
            line.to_owned()
        })
    });
    if let (None, Some(value)) = (chosen, value) {
        let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        if !edited.is_empty() && !edited.ends_with('\n') {
            edited += end;
        }
        edited += &[key, PARAMETER, value, end].concat();
    }
    open.map_or(Ok(edited), Err)
}

/// Every line edited, line ends (of DOS, too) kept.
pub(super) fn each_line(text: &str, mut edit: impl FnMut(&str) -> String) -> String {
    text.split_inclusive('\n')
        .map(|line| {
            let end = ["\r\n", "\n"].into_iter().find(|&end| line.ends_with(end));
            let end = end.unwrap_or_default();
            edit(&line[..line.len() - end.len()]) + end
        })
        .collect()
}

/// A line whose effect on the command line is not known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotUnderstood {
    /// Its number, from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
    /// What of it, after the text.
    pub why: Cow<'static, str>,
}

impl NotUnderstood {
    /// To take out what an entry has alone would bring in parameters that it was not started with.
    pub(super) const ALONE: &str =
        "is all that GRUB gives this entry: without it, other parameters take its place";
    /// The backslash would be part of the parameter that is put after it.
    pub(super) const BACKSLASH: &str = "ends in a backslash";
    /// What the parameter changes, a condition asks.
    pub(super) const ASKED: &str = "depends on a variable that elevator= is in";
    /// A line of a shell script that is a condition, a function, `+=`, a backslash, quotes within a word.
    pub(super) const SHELL: &str = "is not understood";
    /// `elevator=` in a variable of another name, in a line that is continued.
    pub(super) const LEFT: &str = "gives elevator= in a way that is not understood";
    /// A file that is read after the one with our parameter.
    pub(super) const LOSES: &str = "loses what /etc/default/grub has in it";
    /// GRUB ends the key of a line at a tab only where the line has no blank.
    pub(super) const NOT_FOR_GRUB: &str =
        "is not read by GRUB as parameters once elevator= is in it";
    /// With a line `options` an entry would lose what GRUB gives those that have none.
    pub(super) const NO_OPTIONS: &str = "has no parameters of its own (`options`) that GRUB reads, but those of default_kernelopts, which it would \
         lose";
    /// The same of an entry whose parameters are those of variables that GRUB does not have.
    pub(super) const UNDEFINED: &str = "has no parameters but those of variables that GRUB's files do not set, and so those of default_kernelopts, \
         which it would lose";
    pub(super) const QUOTE: &str = "has single quotes, or a quote that is not closed";
    /// GRUB's environment block has the size that it has.
    pub(super) const NO_ROOM: &str = "has no room for it in GRUB's environment block";
    pub(super) const CONTINUED: &str = "goes on in the next line";
    /// The shell takes the carriage return for a part of the word before it.
    pub(super) const CARRIAGE_RETURN: &str =
        "ends in a carriage return, which would become part of a parameter";

    /// The line of a text with this number, from 1.
    pub(super) fn of(text: &str, line: usize, why: impl Into<Cow<'static, str>>) -> NotUnderstood {
        let words = text.split('\n').nth(line - 1).unwrap_or_default();
        NotUnderstood {
            line,
            text: words.trim_matches([' ', '\t']).to_owned(),
            why: why.into(),
        }
    }

    /// What of a line depends on this variable.
    pub(super) fn depends_on(variable: &str) -> String {
        format!("depends on {variable}, whose value is not known from here")
    }

    /// The same line as it stands in another text, or the last one there.
    pub(super) fn in_text(self, text: &str) -> NotUnderstood {
        let lines = text.lines().count().max(1);
        NotUnderstood::of(text, self.line.min(lines), self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_init_and_what_is_quoted_is_not_the_kernels_parameter() {
        for (text, value, expected) in [
            ("ro -- single", Some("noop"), "ro elevator=noop -- single"),
            ("-- single", Some("noop"), "elevator=noop -- single"),
            (
                "ro -- elevator=init",
                Some("noop"),
                "ro elevator=noop -- elevator=init",
            ),
            ("ro -- elevator=init", None, "ro -- elevator=init"),
            (
                "ro elevator=cfq -- elevator=init",
                None,
                "ro -- elevator=init",
            ),
            ("ro --x", Some("noop"), "ro --x elevator=noop"),
            (
                "dyndbg=\"file a.c +p; elevator=x -- y\" ro",
                Some("noop"),
                "dyndbg=\"file a.c +p; elevator=x -- y\" ro elevator=noop",
            ),
            (
                "dyndbg=\"a elevator=x\" ro",
                None,
                "dyndbg=\"a elevator=x\" ro",
            ),
            ("ro \"elevator=cfq\" x", Some("noop"), "ro elevator=noop x"),
            ("ro elevator=\"cfq\"", None, "ro"),
            ("ro ", Some("noop"), "ro elevator=noop "),
        ] {
            let edited = with_parameter(text, value);
            assert_eq!(edited.as_deref(), Ok(expected), "{text:?}");
        }
        for text in [
            "ro dyndbg=\"file a",
            "elevator=\"cfq ro",
            "dyndbg='file x elevator=noop' ro",
        ] {
            assert_eq!(with_parameter(text, Some("noop")), Err(OpenQuote));
        }
        assert!(with_parameter("elevator=\"cfq ro", None).is_err());
        assert!(with_parameter("dyndbg='x elevator=noop'", None).is_err());
        assert_eq!(with_parameter("x=\"a", None).as_deref(), Ok("x=\"a"));
    }

    #[test]
    fn lines_that_are_one_line_to_the_kernel_have_it_once_and_before_the_dashes() {
        let of = |text: &str, value| {
            let is_read = |line: &str| !line.starts_with('#');
            in_lines(text, is_read, "", GoesInto::ItsOwnOrLast, value)
        };
        for (text, value, expected) in [
            ("a\nb\n", Some("noop"), "a\nb elevator=noop\n"),
            ("a\n# b\n", Some("noop"), "a elevator=noop\n# b\n"),
            (
                "a -- x\nelevator=init\n",
                Some("noop"),
                "a elevator=noop -- x\nelevator=init\n",
            ),
            ("a\r\n# b\r\n", Some("noop"), "a elevator=noop\r\n# b\r\n"),
            ("# a", Some("noop"), "# a\nelevator=noop\n"),
            ("# a\r\n", Some("noop"), "# a\r\nelevator=noop\r\n"),
            ("# a elevator=b\n", None, "# a elevator=b\n"),
            (
                "elevator=a b\nelevator=c\n",
                Some("noop"),
                "elevator=noop b\n\n",
            ),
        ] {
            assert_eq!(of(text, value).as_deref(), Ok(expected), "{text:?}");
        }
        assert_eq!(of("a\nb=\"c\n", Some("noop")), Err(2));
    }
}
