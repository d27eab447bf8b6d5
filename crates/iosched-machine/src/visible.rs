//! Text that says what it looks like: for terminals, and for files that somebody may show on one.
//!
//! Models of devices, names of processes, jobs and loads and whole commands come from others, and are printed. A control
//! character in them could move the cursor, change the title of the window or send an answer as if it had been typed; a
//! bidi control could show the letters of a line in another order. Here each is replaced by a picture of it.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with a picture for each control character but newline and tab.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_hidden) {
        text.chars().map(picture).collect()
    } else {
        text.into()
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

/// What stands for a character, one column wide like it.
fn picture(c: char) -> char {
    /// U+2400 to U+2420 are pictures of the control characters of ASCII.
    const PICTURES: u32 = 0x2400;
    match c {
        _ if !is_hidden(c) => c,
        '\u{7f}' => '\u{2421}',
        '\0'..='\u{1f}' => char::from_u32(PICTURES + u32::from(c)).unwrap_or('\u{fffd}'),
        _ => '\u{fffd}',
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
