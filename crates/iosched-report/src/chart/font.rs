//! The font of charts without a browser: Noto Sans, a part of it (Latin, Greek, Cyrillic), carried in
//! the program so that a server without any font draws the same picture.

use std::sync::OnceLock;

use ab_glyph::{Font as _, FontRef, PxScale, ScaleFont as _};

/// SIL Open Font License 1.1, see `assets/NotoSans-subset.txt`.
static BYTES: &[u8] = include_bytes!("../../assets/NotoSans-subset.ttf");

pub(super) fn font() -> &'static FontRef<'static> {
    static FONT: OnceLock<FontRef<'static>> = OnceLock::new();
    FONT.get_or_init(|| FontRef::try_from_slice(BYTES).expect("the font in the program is whole"))
}

/// The size that `ab_glyph` understands for a size in pixels of the em square, as browsers count.
pub(super) fn scale(size: f32) -> PxScale {
    let font = font();
    let em = font.units_per_em().unwrap_or(1000.0);
    PxScale::from(size * font.height_unscaled() / em)
}

/// How far a text reaches, px.
pub(super) fn width(text: &str, size: f32) -> f32 {
    let font = font().as_scaled(scale(size));
    text.chars().map(|c| font.h_advance(font.glyph_id(c))).sum()
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
    fn the_font_has_what_labels_are_made_of() {
        for c in "aZ09 µ×·–—…ÄßжΩ%()/".chars() {
            assert_ne!(font().glyph_id(c).0, 0, "no glyph for {c:?}");
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_with_an_ellipsis() {
        let cut = fitted(&"w".repeat(1_000_000), 12.0, 100.0);
        assert!(cut.contains('…') && width(&cut, 12.0) <= 100.0, "{cut}");
        let arm = |value: u32| {
            fitted(
                &format!("served/cfq:slice_idle={value} (0.97)"),
                12.0,
                100.0,
            )
        };
        assert!(
            arm(1).starts_with("served") && arm(1).ends_with("(0.97)"),
            "{}",
            arm(1)
        );
        assert_eq!(fitted("bfq", 12.0, 100.0), "bfq");
    }
}
