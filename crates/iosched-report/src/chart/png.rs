//! A chart as PNG, without a browser: the shapes of `scene.rs` painted by `tiny-skia`, words in
//! the program's own font, twice as fine as the SVG's pixels.

use ab_glyph::{Font as _, ScaleFont as _};
use iosched_machine::failure::{Failure, exit};
use tiny_skia::{
    Color, FillRule, Paint, PathBuilder, Pixmap, PremultipliedColorU8, Rect, Stroke, StrokeDash,
    Transform,
};

use super::font::{font, scale, width};
use super::palette::Marker;
use super::scene::{Anchor, Format, Ink, Shape, lay_out, outline};
use super::svg::colour;
use super::{Chart, palette};

/// Pixels per px of the layout.
const FINENESS: f32 = 2.0;

/// A picture could not be made: it is too large, or cannot be written as PNG.
#[derive(Debug, thiserror::Error)]
#[error("cannot paint the chart {id}")]
pub struct PaintError {
    /// Which chart.
    pub id: String,
}

impl Failure for PaintError {
    fn hint(&self) -> Option<String> {
        Some("the SVG has the same chart: --svg DIR".into())
    }

    fn exit_code(&self) -> u8 {
        exit::FAILURE
    }
}

/// The bytes of a PNG file.
pub fn file(chart: &Chart) -> Result<Vec<u8>, PaintError> {
    let failed = || PaintError {
        id: chart.id.clone(),
    };
    let scene = lay_out(chart, Format::FILE);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size in pixels: small and positive"
    )]
    let pixels = |length: f32| (length * FINENESS).ceil() as u32;
    let mut map = Pixmap::new(pixels(scene.width), pixels(scene.height)).ok_or_else(failed)?;
    map.fill(rgb(palette::PAPER));
    for shape in scene.ground.iter().chain(scene.series.iter().flatten()) {
        paint(&mut map, shape);
    }
    map.encode_png().map_err(|_| failed())
}

fn paint(map: &mut Pixmap, shape: &Shape) {
    match shape {
        Shape::Rectangle {
            from,
            size,
            ink,
            opacity,
            ..
        } => {
            if let Some(rectangle) = Rect::from_xywh(from.0, from.1, size.0, size.1) {
                map.fill_rect(rectangle, &ink_of(*ink, *opacity), fine(), None);
            }
        }
        Shape::Path {
            points,
            ink,
            width,
            is_dashed,
        } => paint_line(map, points, &ink_of(*ink, 1.0), *width, *is_dashed),
        Shape::Curve { spots, ink, width } => {
            let points: Vec<(f32, f32)> = spots.iter().map(|spot| spot.at).collect();
            paint_line(map, &points, &ink_of(*ink, 1.0), *width, false);
        }
        Shape::Markers {
            spots,
            marker,
            radius,
            ink,
            opacity,
        } => {
            let ink = ink_of(*ink, *opacity);
            for spot in spots {
                paint_marker(map, spot.at, *marker, *radius, &ink);
            }
        }
        Shape::Text {
            at,
            text,
            anchor,
            size,
            ink,
        } => paint_text(map, *at, text, *anchor, *size, *ink),
    }
}

fn paint_marker(map: &mut Pixmap, at: (f32, f32), marker: Marker, radius: f32, ink: &Paint) {
    let (lines, is_filled) = outline(marker, at, radius);
    if lines.is_empty()
        && let Some(circle) = PathBuilder::from_circle(at.0, at.1, radius)
    {
        map.fill_path(&circle, ink, FillRule::Winding, fine(), None);
    }
    for line in lines {
        if is_filled {
            fill_polygon(map, &line, ink);
        } else {
            paint_line(map, &line, ink, 2.0, false);
        }
    }
}

fn fine() -> Transform {
    Transform::from_scale(FINENESS, FINENESS)
}

fn builder(points: &[(f32, f32)]) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        if index == 0 {
            path.move_to(x, y);
        } else {
            path.line_to(x, y);
        }
    }
    path
}

fn paint_line(map: &mut Pixmap, points: &[(f32, f32)], ink: &Paint, width: f32, is_dashed: bool) {
    let stroke = Stroke {
        width,
        dash: is_dashed
            .then(|| StrokeDash::new(vec![4.0, 3.0], 0.0))
            .flatten(),
        ..Stroke::default()
    };
    if let Some(path) = builder(points).finish() {
        map.stroke_path(&path, ink, &stroke, fine(), None);
    }
}

fn fill_polygon(map: &mut Pixmap, points: &[(f32, f32)], ink: &Paint) {
    let mut path = builder(points);
    path.close();
    if let Some(path) = path.finish() {
        map.fill_path(&path, ink, FillRule::Winding, fine(), None);
    }
}

/// Glyph by glyph, each pixel as far as the glyph covers it.
fn paint_text(map: &mut Pixmap, at: (f32, f32), text: &str, anchor: Anchor, size: f32, ink: Ink) {
    let scale = scale(size * FINENESS);
    let scaled = font().as_scaled(scale);
    let length = width(text, size) * FINENESS;
    let mut x = at.0 * FINENESS
        - match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => length / 2.0,
            Anchor::End => length,
        };
    let colour = rgb(colour(ink));
    for c in text.chars() {
        let id = font().glyph_id(c);
        let place = ab_glyph::point(x, at.1 * FINENESS);
        x += scaled.h_advance(id);
        if let Some(glyph) = font().outline_glyph(id.with_scale_and_position(scale, place)) {
            let corner = glyph.px_bounds().min;
            glyph.draw(|across, down, coverage| {
                let pixel = (corner.x + across as f32, corner.y + down as f32);
                blend(map, pixel, colour, coverage.clamp(0.0, 1.0));
            });
        }
    }
}

/// Lays a colour over a pixel; the paper below is opaque.
fn blend(map: &mut Pixmap, (x, y): (f32, f32), colour: Color, coverage: f32) {
    if x < 0.0 || y < 0.0 || x >= map.width() as f32 || y >= map.height() as f32 {
        return;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the picture, checked above"
    )]
    let index = y as usize * map.width() as usize + x as usize;
    let below = map.pixels()[index];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of two bytes is a byte"
    )]
    let mixed = |over: f32, under: u8| {
        (over * 255.0 * coverage + f32::from(under) * (1.0 - coverage)).round() as u8
    };
    let pixel = PremultipliedColorU8::from_rgba(
        mixed(colour.red(), below.red()),
        mixed(colour.green(), below.green()),
        mixed(colour.blue(), below.blue()),
        255,
    );
    map.pixels_mut()[index] = pixel.unwrap_or(below);
}

fn ink_of(ink: Ink, opacity: f32) -> Paint<'static> {
    let mut colour = rgb(colour(ink));
    colour.set_alpha(opacity);
    let mut paint = Paint::default();
    paint.set_color(colour);
    paint.anti_alias = true;
    paint
}

/// `#rrggbb` as the palette has it.
fn rgb(hex: &str) -> Color {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("our own palette");
    Color::from_rgba8(byte(1), byte(3), byte(5), 255)
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn a_picture_has_the_colours_of_its_series_and_words() {
        let bytes = file(&example()).unwrap();
        let map = Pixmap::decode_png(&bytes).unwrap();
        let count = |hex: &str| {
            let wanted = rgb(hex).premultiply().to_color_u8();
            map.pixels()
                .iter()
                .filter(|&&pixel| pixel == wanted)
                .count()
        };
        assert!(count(palette::COLOURS[0]) > 50 && count(palette::COLOURS[1]) > 50);
        assert!(count(palette::TEXT) > 20, "words");
        assert!(count(palette::PAPER) > map.pixels().len() / 2);
    }
}
