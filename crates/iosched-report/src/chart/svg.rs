//! A chart as SVG, without a browser: a file of its own, or a part of the page.
//!
//! Colours stand in attributes, for programs that know no style sheets, and in classes, by which the
//! page gives them its theme. What a mark means is its `title`, which browsers show when it is pointed
//! at. In the page a script (`templates/page.js`) shows more: for it, each series is a group with its
//! number, points of lines have their words in `data-words`, one in each line, and the axes say
//! which values they have at their ends.

use std::fmt::Write as _;

use iosched_machine::visible::visible;

use super::palette::{self, Marker};
use super::scene::{Anchor, AxisPlace, Format, Ink, Shape, Spot, lay_out, outline};
use super::{Axis, Chart, Form, Series};

/// Markers beyond this number have no titles in a file: they would be most of it.
const MOST_TITLES: usize = 400;

/// Words beyond this number of letters are cut: a hostile name may be a megabyte.
const MOST_WORDS: usize = 300;

/// A file of its own, on white paper, with its title in the picture.
pub fn file(chart: &Chart) -> String {
    let scene = lay_out(chart, Format::FILE);
    let (width, height) = (scene.width, scene.height);
    let (id, title) = (&chart.id, escaped(&chart.title));
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-labelledby=\"{id}-t {id}-d\" {FONT}>\n\
         <title id=\"{id}-t\">{title}</title>\n<desc id=\"{id}-d\">{}</desc>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
        escaped(&chart.alternative),
        palette::PAPER
    );
    let shapes = || scene.ground.iter().chain(scene.series.iter().flatten());
    let markers = shapes().map(|shape| match shape {
        Shape::Markers { spots, .. } => spots.len(),
        _ => 0,
    });
    let told = if markers.sum::<usize>() <= MOST_TITLES {
        Tooltips::Titles
    } else {
        Tooltips::Nothing
    };
    for shape in shapes() {
        write_shape(&mut text, shape, told);
    }
    text + "</svg>\n"
}

/// How wide the drawing of a chart in the page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// Half of the page on a desk.
    Wide,
    /// A phone, or one of three columns.
    Narrow,
}

/// A part of a page, which has the title, the legend and the paper.
pub(crate) fn inline(chart: &Chart, width: Width) -> String {
    let (format, class) = match width {
        Width::Wide => (Format::WIDE, "wide"),
        Width::Narrow => (Format::NARROW, "narrow"),
    };
    let scene = lay_out(chart, format);
    let mut text = format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" {FONT}{}{}>\n",
        scene.width,
        scene.height,
        escaped(&clipped(&chart.title)),
        axis_place("x", &chart.x, scene.x),
        axis_place("y", &chart.y, scene.y)
    );
    for shape in &scene.ground {
        write_shape(&mut text, shape, Tooltips::All);
    }
    for (number, (series, shapes)) in chart.series.iter().zip(&scene.series).enumerate() {
        let name = escaped(&clipped(&series.name));
        let _ = writeln!(text, "<g data-series=\"{number}\" data-name=\"{name}\">");
        for shape in shapes {
            write_shape(&mut text, shape, Tooltips::All);
        }
        text += "</g>\n";
    }
    text + "</svg>\n"
}

/// What stands before a series' name in a legend.
pub(crate) fn swatch(series: &Series) -> String {
    let ink = Ink::Slot(series.slot);
    let (is_line, marker) = match series.form {
        Form::Bars(_) => (false, None),
        Form::Line => (true, None),
        Form::Trail => (true, Some(3.5)),
        Form::Dots => (false, Some(4.5)),
    };
    let mut text =
        "<svg viewBox=\"0 0 20 12\" width=\"20\" height=\"12\" aria-hidden=\"true\">".to_owned();
    if is_line {
        let points = list([(1.0, 6.0), (19.0, 6.0)]);
        let _ = write!(
            text,
            "<polyline points=\"{points}\" {} stroke-width=\"2\"/>",
            stroke(ink)
        );
    }
    if let Some(radius) = marker {
        let at = (10.0, 6.0);
        write_marker(&mut text, at, Marker::of(series.slot), radius, ink);
    } else if !is_line {
        let _ = write!(
            text,
            "<rect x=\"4\" width=\"12\" height=\"12\" {}/>",
            fill(ink)
        );
    }
    text + "</svg>"
}

const FONT: &str = "font-family=\"Noto Sans, system-ui, sans-serif\"";

/// Which words stand in a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tooltips {
    /// Those of marks and of the points of lines.
    All,
    /// Those of marks.
    Titles,
    Nothing,
}

/// An axis as an attribute of the drawing, a list of JSON: title, whether it is logarithmic, the values
/// at its ends and their places; nothing for an axis of names.
fn axis_place(name: &str, axis: &Axis, place: Option<AxisPlace>) -> String {
    let Some(place) = place else {
        return String::new();
    };
    let ((from, to), (first, last)) = (place.values, place.ends);
    let title = clipped(&axis.title);
    let parts = serde_json::json!([title, place.is_log, from, to, first, last]);
    format!(" data-{name}=\"{}\"", escaped(&parts.to_string()))
}

fn write_shape(text: &mut String, shape: &Shape, told: Tooltips) {
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
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {} fill-opacity=\"{opacity}\">{}</rect>",
                tenths(from.0),
                tenths(from.1),
                tenths(size.0),
                tenths(size.1),
                fill(*ink),
                title(words)
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
                list(points.iter().copied()),
                stroke(*ink)
            );
        }
        Shape::Curve { spots, ink, width } => {
            let _ = writeln!(
                text,
                "<polyline points=\"{}\" {} stroke-width=\"{width}\"{}/>",
                list(spots.iter().map(|spot| spot.at)),
                stroke(*ink),
                words_of(spots, told)
            );
        }
        Shape::Markers {
            spots,
            marker,
            radius,
            ink,
            opacity,
        } => write_markers(text, spots, (*marker, *radius), (*ink, *opacity), told),
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
                "<text x=\"{}\" y=\"{}\" font-size=\"{size}\" text-anchor=\"{anchor}\" {}>{}</text>",
                tenths(at.0),
                tenths(at.1),
                fill(*ink),
                escaped(words)
            );
        }
    }
}

/// The words of a line's points, for the page; empty where none has any.
fn words_of(spots: &[Spot], told: Tooltips) -> String {
    if told != Tooltips::All {
        return String::new();
    }
    let words = |spot: &Spot| escaped(&clipped(&spot.words)).replace('\n', " ");
    let words: Vec<String> = if spots.iter().all(|spot| spot.words.is_empty()) {
        Vec::new()
    } else {
        spots.iter().map(words).collect()
    };
    format!(" data-words=\"{}\"", words.join("\n"))
}

/// Markers of one kind in a group that has what they share: thousands of them are most of a page.
fn write_markers(
    text: &mut String,
    spots: &[Spot],
    (marker, radius): (Marker, f32),
    (ink, opacity): (Ink, f32),
    told: Tooltips,
) {
    let (kind, ink) = if is_filled(marker) {
        ("fill", fill(ink))
    } else {
        ("stroke", stroke(ink) + " stroke-width=\"2\"")
    };
    let _ = writeln!(text, "<g {ink} {kind}-opacity=\"{opacity}\">");
    for spot in spots {
        let words = match told {
            Tooltips::Nothing => String::new(),
            Tooltips::All | Tooltips::Titles => title(&spot.words),
        };
        let _ = writeln!(text, "{}", shape_of(marker, spot.at, radius, &words));
    }
    *text += "</g>\n";
}
/// True if a marker is a filled form, false if it is made of lines.
fn is_filled(marker: Marker) -> bool {
    outline(marker, (0.0, 0.0), 1.0).1
}

/// One marker alone.
fn write_marker(text: &mut String, at: (f32, f32), marker: Marker, radius: f32, ink: Ink) {
    let words = String::new();
    write_markers(
        text,
        &[Spot { at, words }],
        (marker, radius),
        (ink, 1.0),
        Tooltips::Nothing,
    );
}

/// The form of a marker without its colour; `title` is what it contains.
fn shape_of(marker: Marker, at: (f32, f32), radius: f32, title: &str) -> String {
    let (lines, is_filled) = outline(marker, at, radius);
    let (name, form) = if lines.is_empty() {
        let (x, y) = (tenths(at.0), tenths(at.1));
        ("circle", format!("cx=\"{x}\" cy=\"{y}\" r=\"{radius}\""))
    } else {
        let lines = lines.iter().map(|line| path(line, is_filled));
        ("path", format!("d=\"{}\"", lines.collect::<String>()))
    };
    if title.is_empty() {
        return format!("<{name} {form}/>");
    }
    format!("<{name} {form}>{title}</{name}>")
}

/// A line as a path: from its first point by small steps, which are shorter than places.
fn path(line: &[(f32, f32)], is_closed: bool) -> String {
    let (x, y) = line[0];
    let steps = line.windows(2).map(|pair| {
        let ((x, y), (next_x, next_y)) = (pair[0], pair[1]);
        (next_x - x, next_y - y)
    });
    let end = if is_closed { "z" } else { "" };
    format!("M{},{}l{}{end}", tenths(x), tenths(y), list(steps))
}

fn list(points: impl IntoIterator<Item = (f32, f32)>) -> String {
    let words = points
        .into_iter()
        .map(|(x, y)| format!("{},{}", tenths(x), tenths(y)));
    words.collect::<Vec<_>>().join(" ")
}

/// Tenths of a px, which no screen tells apart; never -0.
fn tenths(px: f32) -> f32 {
    (px * 10.0).round() / 10.0 + 0.0
}

fn title(words: &str) -> String {
    if words.is_empty() {
        return String::new();
    }
    format!("<title>{}</title>", escaped(&clipped(words)))
}

fn clipped(words: &str) -> String {
    words.chars().take(MOST_WORDS).collect()
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

/// Text as XML takes it: no mark-up, and pictures of the control characters, which XML has no way to write.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
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
    fn in_a_page_series_are_groups_and_axes_say_their_values() {
        let mut chart = example();
        chart.x.scale = crate::chart::Scale::Linear;
        let svg = inline(&chart, Width::Wide);
        assert!(
            svg.contains("<g data-series=\"1\" data-name=\"bfq\">"),
            "{svg}"
        );
        assert!(
            svg.contains(" data-x=\"[&quot;ratio&quot;,false,0.9"),
            "{svg}"
        );
        assert!(!svg.contains("data-y="), "an axis of names: {svg}");
        assert!(svg.contains("<title>1.5 at -1</title>"), "{svg}");
        assert!(!svg.contains("Example</text>"), "the page has the title");
    }

    #[test]
    fn points_of_lines_have_their_words_in_a_page() {
        let mut chart = example();
        chart.y = Axis::new("y", crate::chart::Scale::Linear);
        let point = |x: f64, words: &str| super::super::Point::new(x, x, words);
        chart.series[0].form = Form::Line;
        chart.series[0].points = vec![point(1.0, "one\nline"), point(2.0, "<two>")];
        chart.series[1].form = Form::Line;
        chart.series[1].points = vec![point(1.0, ""), point(2.0, "")];
        let svg = inline(&chart, Width::Narrow);
        assert!(
            svg.contains(" data-words=\"one line\n&lt;two&gt;\""),
            "{svg}"
        );
        assert!(svg.contains(" data-words=\"\""), "{svg}");
        assert!(!file(&chart).contains("data-words"));
    }

    #[test]
    fn names_are_text_and_never_mark_up() {
        let mut chart = example();
        chart.title = "</title><script>alert(1)</script>\u{0}\u{1b}[31m".into();
        chart.series[0].points[0].words = "\"'><img src=x onerror=alert(1)>".into();
        chart.series[0].name.clone_from(&chart.title);
        for svg in [file(&chart), inline(&chart, Width::Wide)] {
            assert!(!svg.contains("<script") && !svg.contains("<img"), "{svg}");
            assert!(!svg.contains('\u{0}') && !svg.contains('\u{1b}'));
        }
    }
}
