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

/// The text, or its beginning with an ellipsis, within `most` px.
pub(super) fn fitted(text: &str, size: f32, most: f32) -> String {
    // No label is readable beyond this, and a hostile name may be a megabyte.
    let mut shown: String = text.chars().take(200).collect();
    if shown.len() == text.len() && width(text, size) <= most {
        return shown;
    }
    while !shown.is_empty() && width(&shown, size) + width("…", size) > most {
        shown.pop();
    }
    shown + "…"
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
        assert!(cut.ends_with('…') && width(&cut, 12.0) <= 100.0, "{cut}");
        assert_eq!(fitted("bfq", 12.0, 100.0), "bfq");
    }
}
