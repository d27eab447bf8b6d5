//! The parameter `elevator=` among others on a line: put in, changed, taken out, found. Pure.

pub(super) const PARAMETER: &str = "elevator=";

/// Parameters with `elevator=` set once (where it first stood, or at the end) or taken out; all else,
/// blanks too, as it was.
pub(super) fn with_parameter(parameters: &str, value: Option<&str>) -> String {
    let mut text = parameters.to_owned();
    let mut wanted = value.map(|value| format!("{PARAMETER}{value}"));
    let mut from = 0;
    while let Some((start, end)) = find_parameter(&text, from) {
        if let Some(word) = wanted.take() {
            text.replace_range(start..end, &word);
            from = start + word.len();
        } else {
            from = without_word(&mut text, start, end);
        }
    }
    if let Some(word) = wanted {
        let blank = if text.is_empty() || text.ends_with(' ') {
            ""
        } else {
            " "
        };
        text = format!("{text}{blank}{word}");
    }
    text
}

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

/// Where a word `elevator=…` stands.
pub(super) fn find_parameter(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let start = from + text[from..].find(PARAMETER)?;
        let is_word = text[..start]
            .chars()
            .next_back()
            .is_none_or(char::is_whitespace);
        let end = text[start..]
            .find(char::is_whitespace)
            .map_or(text.len(), |length| start + length);
        if is_word {
            return Some((start, end));
        }
        from = end;
    }
}

/// Every line edited, line ends kept.
pub(super) fn each_line(text: &str, mut edit: impl FnMut(&str) -> String) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => edit(line) + "\n",
            None => edit(line),
        })
        .collect()
}

/// A line of a shell script whose effect on the command line is not known here: a condition, a function, `+=`, a
/// backslash, quotes within a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotUnderstood {
    /// Its number, from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
}
