//! Text that says what it looks like: for terminals, and for files that somebody may show on one.
//!
//! Models of devices, names of processes, jobs and loads and whole commands come from others, and are printed. A control
//! character in them could move the cursor, change the title of the window or send an answer as if it had been typed; a
//! bidi control could show the letters of a line in another order. Here each is replaced by a picture of it.
//!
//! A newline in a name would begin a line that looks like one of ours. What is one line of ours stays one, whatever is in it
//! ([`line()`]); texts and errors of several lines make the names in them visible by themselves ([`lines_of_error`]).

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write as _};

/// The text with a picture for each control character but newline and tab.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_hidden) {
        text.chars().map(picture).collect()
    } else {
        text.into()
    }
}

/// The same in one line: with a picture for newline and tab, too.
pub fn line(text: &str) -> Cow<'_, str> {
    let breaks = |c: char| is_hidden(c) || matches!(c, '\n' | '\t');
    if text.chars().any(breaks) {
        let shown = |c| if breaks(c) { picture_of(c) } else { c };
        text.chars().map(shown).collect()
    } else {
        text.into()
    }
}

/// What an error says, in one line; in several if it is written by [`lines_of_error`].
pub fn message(error: &(impl Error + ?Sized)) -> String {
    let (plain, alternate) = (error.to_string(), format!("{error:#}"));
    if alternate == plain {
        line(&plain).into_owned()
    } else {
        visible(alternate.trim_end_matches('\n')).into_owned()
    }
}

/// Writes an error of several lines: the first, and details below it. In the alternate form, which errors that are
/// transparent pass on, it ends with a newline: so [`message`] tells its lines from those of a name.
///
/// # Errors
/// Those of the formatter.
pub fn lines_of_error(
    f: &mut fmt::Formatter<'_>,
    first: &str,
    details: impl IntoIterator<Item = String>,
) -> fmt::Result {
    f.write_str(&line(first))?;
    for detail in details {
        write!(f, "\n  {}", line(&detail))?;
    }
    if f.alternate() {
        f.write_str("\n")
    } else {
        Ok(())
    }
}

/// JSON with an escape for each character that [`visible`] would replace and serde leaves as it is: they stand in strings
/// only, and are read as the same.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_hidden) {
        return json.into();
    }
    let mut text = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if is_hidden(c) {
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text.into()
}

pub(crate) fn is_hidden(c: char) -> bool {
    let is_bidi = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    let is_line_end = matches!(c, '\u{2028}' | '\u{2029}');
    is_bidi || is_line_end || c.is_control() && !matches!(c, '\n' | '\t')
}

fn picture(c: char) -> char {
    if is_hidden(c) { picture_of(c) } else { c }
}

/// What stands for a control character, one column wide like it.
fn picture_of(c: char) -> char {
    /// U+2400 to U+2420 are pictures of the control characters of ASCII.
    const PICTURES: u32 = 0x2400;
    match c {
        '\u{7f}' => '\u{2421}',
        '\0'..='\u{1f}' => char::from_u32(PICTURES + u32::from(c)).unwrap_or('\u{fffd}'),
        _ => '\u{fffd}',
    }
}

/// A line of what a program said, as it goes into a message: of a long one the beginning.
pub fn beginning_of(line: &str) -> String {
    const LONGEST: usize = 1000;
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_become_pictures_and_all_else_stays() {
        assert_eq!(visible("a\tb\nµ → é 漢"), "a\tb\nµ → é 漢");
        assert_eq!(visible("\u{1b}]0;x\u{7}\r\u{7f}"), "␛]0;x␇␍␡");
        assert_eq!(
            visible("\u{9b}31m \u{202e}abc\u{2069}"),
            "\u{fffd}31m \u{fffd}abc\u{fffd}"
        );
    }

    #[derive(Debug)]
    struct Several(&'static str);

    impl fmt::Display for Several {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            lines_of_error(f, "refused:", [format!("- {}", self.0)])
        }
    }

    impl Error for Several {}

    #[derive(Debug, thiserror::Error)]
    enum Failed {
        #[error("{0} is gone")]
        Name(&'static str),
        #[error(transparent)]
        Several(#[from] Several),
    }

    #[test]
    fn how_many_lines_there_are_does_not_depend_on_names() {
        assert_eq!(line("a\nb\r\tc\u{2028}d µ"), "a␊b␍␉c\u{fffd}d µ");
        assert_eq!(message(&Failed::Name("x\ny")), "x␊y is gone");
        let several = message(&Failed::from(Several("x\n  - y is fine\n")));
        assert_eq!(several, "refused:\n  - x␊  - y is fine␊");
        assert_eq!(Several("x").to_string(), "refused:\n  - x");
    }

    #[test]
    fn json_is_read_as_the_same() {
        let text = "\u{1b}[0m\u{9b}\u{202e}\u{7f}µ\n";
        let json = serde_json::to_string(text).unwrap();
        let shown = visible_json(&json);
        assert!(
            !shown.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7f}']),
            "{shown}"
        );
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }
}
