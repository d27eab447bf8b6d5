//! A chart as SVG, without a browser.
//!
//! Colours stand in attributes, for programs that know no style sheets, and in classes, by which the
//! page gives them its theme. What a marker means is its `title`, shown when it is pointed at.

use std::fmt::Write as _;

use super::palette::{self, Marker};
use super::scene::{Anchor, Ink, Scene, Shape, lay_out, outline};
use super::{Chart, Form, Series};

/// Markers beyond this number have no titles: they would be most of the picture.
const MOST_TITLES: usize = 400;

/// A file of its own, on white paper, with its title in the picture.
pub fn file(chart: &Chart) -> String {
    let scene = lay_out(chart, true);
    let paper = format!(
        "<rect width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
        scene.width,
        scene.height,
        palette::PAPER
    );
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}",
        element(chart, &scene, &paper)
    )
}

/// A part of a page, which has the title and the paper. What is printed needs fewer points than what
/// can be zoomed.
pub fn inline(chart: &Chart) -> String {
    let chart = chart.thinned(MOST_TITLES);
    element(&chart, &lay_out(&chart, false), "")
}

/// What stands before a series' name in a legend.
pub fn swatch(series: &Series) -> String {
    let ink = Ink::of(series);
    let (is_line, marker) = match series.form {
        Form::Bars(_) => (false, None),
        Form::Line | Form::Steps | Form::Haze => (true, None),
        Form::Trail => (true, Some(3.5)),
        Form::Dots | Form::Specks => (false, Some(4.5)),
    };
    let mut text =
        "<svg viewBox=\"0 0 20 12\" width=\"20\" height=\"12\" aria-hidden=\"true\">".to_owned();
    if is_line {
        let points = list(&[(1.0, 6.0), (19.0, 6.0)]);
        let _ = write!(
            text,
            "<polyline points=\"{points}\" {} stroke-width=\"2\"/>",
            stroke(ink)
        );
    }
    if let Some(radius) = marker {
        let at = (10.0, 6.0);
        write_marker(
            &mut text,
            (at, Marker::of(series.slot), radius),
            ink,
            1.0,
            "",
        );
    } else if !is_line {
        let _ = write!(
            text,
            "<rect x=\"4\" width=\"12\" height=\"12\" {}/>",
            fill(ink)
        );
    }
    text + "</svg>"
}

fn element(chart: &Chart, scene: &Scene, paper: &str) -> String {
    let (id, alternative) = (&chart.id, escaped(&chart.alternative));
    let (title, width, height) = (escaped(&chart.title), scene.width, scene.height);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-labelledby=\"{id}-t {id}-d\" font-family=\"Noto Sans, system-ui, sans-serif\">\n\
         <title id=\"{id}-t\">{title}</title>\n<desc id=\"{id}-d\">{alternative}</desc>\n{paper}"
    );
    let markers = scene
        .shapes
        .iter()
        .filter(|shape| matches!(shape, Shape::Marker { .. }));
    let has_titles = markers.count() <= MOST_TITLES;
    for shape in &scene.shapes {
        write_shape(&mut text, shape, has_titles);
    }
    text += "</svg>\n";
    text
}

fn write_shape(text: &mut String, shape: &Shape, has_titles: bool) {
    match shape {
        Shape::Rectangle {
            from,
            size,
            ink,
            opacity,
            words,
        } => {
            let _ = writeln!(
                text,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" {} \
                 fill-opacity=\"{opacity}\">{}</rect>",
                from.0,
                from.1,
                size.0,
                size.1,
                fill(*ink),
                title(words, true)
            );
        }
        Shape::Path {
            points,
            ink,
            width,
            is_dashed,
        } => {
            let dash = if *is_dashed {
                " stroke-dasharray=\"4 3\""
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "<polyline points=\"{}\" {} stroke-width=\"{width}\"{dash}/>",
                list(points),
                stroke(*ink)
            );
        }
        Shape::Marker {
            at,
            marker,
            radius,
            ink,
            opacity,
            words,
        } => write_marker(
            text,
            (*at, *marker, *radius),
            *ink,
            *opacity,
            &title(words, has_titles),
        ),
        Shape::Text {
            at,
            text: words,
            anchor,
            size,
            ink,
        } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let _ = writeln!(
                text,
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" {}>{}</text>",
                at.0,
                at.1,
                fill(*ink),
                escaped(words)
            );
        }
    }
}

fn write_marker(
    text: &mut String,
    (at, marker, radius): ((f32, f32), Marker, f32),
    ink: Ink,
    opacity: f32,
    title: &str,
) {
    let (lines, is_filled) = outline(marker, at, radius);
    if lines.is_empty() {
        let _ = writeln!(
            text,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\" {} fill-opacity=\"{opacity}\">{title}</circle>",
            at.0,
            at.1,
            fill(ink)
        );
    }
    for line in lines {
        let points = list(&line);
        let _ = if is_filled {
            writeln!(
                text,
                "<polygon points=\"{points}\" {} fill-opacity=\"{opacity}\">{title}</polygon>",
                fill(ink)
            )
        } else {
            writeln!(
                text,
                "<polyline points=\"{points}\" {} stroke-width=\"2\" stroke-opacity=\"{opacity}\">{title}</polyline>",
                stroke(ink)
            )
        };
    }
}

fn list(points: &[(f32, f32)]) -> String {
    let words: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    words.join(" ")
}

fn title(words: &str, is_wanted: bool) -> String {
    if words.is_empty() || !is_wanted {
        return String::new();
    }
    format!("<title>{}</title>", escaped(words))
}

fn fill(ink: Ink) -> String {
    format!("class=\"f-{}\" fill=\"{}\"", name(ink), colour(ink))
}

fn stroke(ink: Ink) -> String {
    format!(
        "class=\"s-{}\" stroke=\"{}\" fill=\"none\"",
        name(ink),
        colour(ink)
    )
}

/// The name of an ink in the page's style sheet.
fn name(ink: Ink) -> String {
    match ink {
        Ink::Slot(slot) => palette::colour(slot).to_string(),
        Ink::Text => "text".into(),
        Ink::Muted => "muted".into(),
        Ink::Grid => "grid".into(),
        Ink::Band => "band".into(),
        Ink::Alarm => "alarm".into(),
    }
}

/// The colour of an ink on white paper.
pub(super) fn colour(ink: Ink) -> &'static str {
    match ink {
        Ink::Slot(slot) => palette::COLOURS[palette::colour(slot)],
        Ink::Text => palette::TEXT,
        Ink::Muted => palette::MUTED,
        Ink::Grid => palette::GRID,
        Ink::Band => palette::BAND,
        Ink::Alarm => palette::ALARM,
    }
}

/// Text as XML takes it: no mark-up, and none of the control characters that XML has no way to write.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c if c.is_control() && c != '\n' && c != '\t' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn a_chart_is_drawn_with_its_interval_its_band_and_its_words() {
        insta::assert_snapshot!(file(&example()));
    }

    #[test]
    fn names_are_text_and_never_mark_up() {
        let mut chart = example();
        chart.title = "</title><script>alert(1)</script>\u{0}\u{1b}[31m".into();
        chart.series[0].points[0].words = "\"'><img src=x onerror=alert(1)>".into();
        let svg = file(&chart);
        assert!(!svg.contains("<script") && !svg.contains("<img"), "{svg}");
        assert!(!svg.contains('\u{0}') && !svg.contains('\u{1b}'));
    }
}
