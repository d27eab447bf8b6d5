//! How wide labels are: estimated from the advance widths of a common sans-serif font, since the reader's browser chooses
//! the font.

/// Advance widths of `' '` to `'~'` in Noto Sans Regular 2.004, thousandths of the em square.
#[rustfmt::skip]
const ASCII: [u16; 95] = [
    260, 269, 408, 646, 572, 831, 732, 225, 300, 300, 551, 572, 268, 322, 268, 372,
    572, 572, 572, 572, 572, 572, 572, 572, 572, 572, 268, 268, 572, 572, 572, 434,
    899, 639, 650, 632, 730, 556, 519, 728, 741, 339, 273, 619, 524, 907, 760, 781,
    605, 781, 622, 549, 556, 731, 600, 930, 586, 566, 572, 329, 372, 329, 572, 444,
    281, 561, 615, 480, 615, 564, 344, 615, 618, 258, 258, 534, 258, 935, 618, 605,
    615, 615, 413, 479, 361, 618, 508, 786, 529, 510, 470, 380, 551, 380, 572,
];

fn advance(c: char) -> f32 {
    let place = (c as usize).checked_sub(' ' as usize);
    let thousandths = match place.and_then(|place| ASCII.get(place)) {
        Some(known) => *known,
        None if c == '\u{a0}' => ASCII[0],
        None if c < '\u{530}' => 650, // Latin, Greek, Cyrillic
        None => 1000,
    };
    f32::from(thousandths) / 1000.0
}

/// How far a text reaches, px.
pub(super) fn width(text: &str, size: f32) -> f32 {
    text.chars().map(advance).sum::<f32>() * size
}
/// The text, or its beginning and its end with an ellipsis between, within `most` px: arms often differ at the end.
pub(super) fn fitted(text: &str, size: f32, most: f32) -> String {
    // No label is readable beyond this, and a hostile name may be a megabyte.
    const LONGEST: usize = 200;
    let whole: Vec<char> = text.chars().take(LONGEST).collect();
    if whole.iter().collect::<String>() == text && width(text, size) <= most {
        return text.to_owned();
    }
    let mut end: Vec<char> = text.chars().rev().take(LONGEST).collect();
    let mut begin = whole;
    loop {
        let shown: String = begin.iter().chain(&['…']).chain(end.iter().rev()).collect();
        if (begin.is_empty() && end.is_empty()) || width(&shown, size) <= most {
            return shown;
        }
        let longer = if end.len() >= begin.len() {
            &mut end
        } else {
            &mut begin
        };
        longer.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_cut_with_an_ellipsis() {
        let cut = fitted(&"w".repeat(1_000_000), 12.0, 100.0);
        assert!(cut.contains('…') && width(&cut, 12.0) <= 100.0, "{cut}");
        let arm = |value: u32| {
            let name = format!("served/cfq:slice_idle={value} (0.97)");
            fitted(&name, 12.0, 100.0)
        };
        let first = arm(1);
        assert!(
            first.starts_with("served") && first.ends_with("(0.97)"),
            "{first}"
        );
        assert_eq!(fitted("bfq", 12.0, 100.0), "bfq");
    }
}
