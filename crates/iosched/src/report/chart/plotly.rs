//! A chart as plotly.js takes it: data and layout in its own JSON, <https://plotly.com/javascript/reference/>.
//!
//! The page has a legend of its own: that of plotly.js takes the plot's room on a narrow screen and
//! cannot be reached by keyboard. Colours are written as `@0`, `@text`, …: the page puts its theme's in. Names are escaped, because
//! plotly.js reads a part of HTML in labels.

use serde_json::{Value, json};

use super::palette::{self, Marker};
use super::scene;
use super::{Axis, Chart, Form, Mark, Scale, Series};

/// Room for the numbers and the title below a plot, px.
const BELOW: f32 = 46.0;

/// Data and layout.
pub fn spec(chart: &Chart) -> Value {
    let traces: Vec<Value> = chart
        .series
        .iter()
        .map(|series| trace(chart, series))
        .collect();
    json!({ "data": traces, "layout": layout(chart) })
}

/// The library itself, as the `plotly` crate carries it; its `MathJax` is left out, nothing here has
/// formulas.
pub fn library() -> String {
    let scripts = plotly::Plot::offline_js_sources();
    let first = scripts.split("</script>").next().unwrap_or_default();
    let begin = first.find('>').map_or(0, |end| end + 1);
    first[begin..].to_owned()
}

fn trace(chart: &Chart, series: &Series) -> Value {
    let points = &series.points;
    let xs: Vec<f64> = points.iter().map(|point| short(point.x)).collect();
    let ys: Vec<f64> = points.iter().map(|point| short(point.y)).collect();
    let words: Vec<String> = points.iter().map(|point| label(&point.words)).collect();
    let has_words = words.iter().any(|words| !words.is_empty());
    let mut trace = json!({
        "name": name(&series.name),
        "x": xs,
        "y": ys,
        "hoverinfo": if has_words { "text" } else { "x+y+name" },
    });
    if has_words {
        merge(&mut trace, json!({ "hovertext": words }));
    }
    let colour = colour(series.slot);
    let form = match series.form {
        Form::Bars(thickness) => bars(chart, series, thickness, &colour),
        Form::Dots => json!({ "mode": "markers", "marker": marker(series.slot, 10, 1.0) }),
        Form::Specks => json!({ "mode": "markers", "marker": marker(series.slot, 5, 0.45) }),
        Form::Trail => json!({
            "mode": "lines+markers",
            "marker": marker(series.slot, 7, 1.0),
            "line": { "color": colour, "width": 1 },
        }),
        Form::Line => json!({ "mode": "lines", "line": { "color": colour, "width": 2 } }),
        Form::Haze => json!({
            "mode": "lines",
            "line": { "color": "@band", "width": 1, "shape": "hv" },
            "opacity": 0.6,
        }),
        Form::Steps => json!({
            "mode": "lines",
            "line": { "color": colour, "width": 2, "shape": "hv" },
        }),
    };
    merge(&mut trace, form);
    if points.iter().any(|point| point.interval.is_some()) {
        let is_bar = matches!(series.form, Form::Bars(_));
        let ink = if is_bar { "@text".to_owned() } else { colour };
        let along = if chart.is_sideways() {
            "error_x"
        } else {
            "error_y"
        };
        merge(&mut trace, json!({ along: whiskers(chart, series, &ink) }));
    }
    trace
}

fn bars(chart: &Chart, series: &Series, thickness: f64, colour: &str) -> Value {
    let starts: Vec<f64> = series
        .points
        .iter()
        .map(|point| short(point.from))
        .collect();
    let mut bars = json!({
        "type": "bar",
        "orientation": if chart.is_sideways() { "h" } else { "v" },
        "width": thickness * 0.94,
        "marker": { "color": colour, "opacity": 0.9 },
    });
    if starts.iter().any(|start| *start != 0.0) {
        // plotly.js wants lengths, and where they begin.
        let lengths = series
            .points
            .iter()
            .map(|point| short(point.x - point.from));
        merge(
            &mut bars,
            json!({ "base": starts, "x": lengths.collect::<Vec<f64>>() }),
        );
    }
    bars
}

fn whiskers(chart: &Chart, series: &Series, ink: &str) -> Value {
    let side = |pick: fn(f64, (f64, f64)) -> f64| -> Vec<Option<f64>> {
        let points = series.points.iter().map(|point| {
            let value = if chart.is_sideways() {
                point.x
            } else {
                point.y
            };
            point.interval.map(|ends| short(pick(value, ends)))
        });
        points.collect()
    };
    json!({
        "type": "data",
        "symmetric": false,
        "array": side(|value, (_, high)| high - value),
        "arrayminus": side(|value, (low, _)| value - low),
        "color": ink,
        "thickness": 2,
        "width": 5,
    })
}

fn layout(chart: &Chart) -> Value {
    let (ticks_x, ticks_y) = scene::axis_ticks(chart);
    let mut x = axis(&chart.x, &ticks_x);
    let mut y = axis(&chart.y, &ticks_y);
    if let Scale::Named(rows) = &chart.y.scale {
        let range = [0.5 - rows.len() as f64, 0.5];
        merge(
            &mut y,
            json!({ "range": range, "fixedrange": true, "tickfont": { "color": "@text" } }),
        );
    }
    // Numbers below the plot have one line of a known height. Were plotly.js to make room for them, it
    // could go on doing so: the room changes the numbers, and the numbers the room.
    merge(&mut x, json!({ "automargin": false, "tickangle": 0 }));
    if let Scale::Named(_) = chart.x.scale {
        merge(&mut x, json!({ "fixedrange": false }));
    }
    json!({
        "height": scene::height(chart) + BELOW - 2.0 * scene::LINE,
        "barmode": "overlay",
        "showlegend": false,
        "hovermode": "closest",
        "margin": { "l": 10, "r": 24, "t": 12, "b": BELOW },
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": { "color": "@muted", "size": 12 },
        "xaxis": x,
        "yaxis": y,
        "shapes": chart.marks.iter().map(shape).collect::<Vec<Value>>(),
    })
}

fn axis(axis: &Axis, ticks: &[(f64, String)]) -> Value {
    let mut spec = json!({
        "title": { "text": label(&axis.title), "standoff": 8 },
        "automargin": true,
        "gridcolor": "@grid",
        "linecolor": "@grid",
        "zeroline": false,
    });
    let is_named = matches!(axis.scale, Scale::Named(_));
    if is_named || axis.scale == Scale::Log {
        let places: Vec<f64> = ticks.iter().map(|(place, _)| *place).collect();
        let names: Vec<String> = ticks.iter().map(|(_, text)| name(text)).collect();
        merge(
            &mut spec,
            json!({ "tickmode": "array", "tickvals": places, "ticktext": names }),
        );
    }
    match axis.scale {
        Scale::Log => merge(&mut spec, json!({ "type": "log" })),
        Scale::FromZero => merge(&mut spec, json!({ "rangemode": "tozero" })),
        Scale::Linear | Scale::Named(_) => {}
    }
    spec
}

fn shape(mark: &Mark) -> Value {
    match mark {
        Mark::At { x, is_alarm, .. } => {
            let (ink, dash) = if *is_alarm {
                ("@alarm", "dash")
            } else {
                ("@muted", "solid")
            };
            json!({
                "type": "line", "layer": "below", "yref": "paper",
                "x0": x, "x1": x, "y0": 0, "y1": 1,
                "line": { "color": ink, "width": 1.2, "dash": dash },
            })
        }
        Mark::Between { from, to, .. } => json!({
            "type": "rect", "layer": "below", "yref": "paper",
            "x0": from, "x1": to, "y0": 0, "y1": 1,
            "fillcolor": "@band", "opacity": 0.25, "line": { "width": 0 },
        }),
    }
}

fn marker(slot: usize, size: u32, opacity: f64) -> Value {
    let symbol = match Marker::of(slot) {
        Marker::Circle => "circle",
        Marker::Square => "square",
        Marker::Diamond => "diamond",
        Marker::Triangle => "triangle-up",
        Marker::Cross => "x",
        Marker::UpsideDown => "triangle-down",
        Marker::Plus => "cross",
    };
    json!({ "color": colour(slot), "symbol": symbol, "size": size, "opacity": opacity })
}

fn colour(slot: usize) -> String {
    format!("@{}", palette::colour(slot))
}

/// Without the digits that no screen shows.
fn short(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

/// A name at a point or at an axis: where long ones leave no room for the plot, plotly.js lays out
/// for ever.
fn name(text: &str) -> String {
    if text.chars().count() <= 44 {
        return label(text);
    }
    label(&text.chars().take(43).chain(['…']).collect::<String>())
}

/// Text that plotly.js takes as text.
fn label(text: &str) -> String {
    // Entities it decodes, tags it would interpret; a hostile name may be a megabyte.
    let text: String = text.chars().take(300).collect();
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Puts the fields of one object into another.
fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn values_and_intervals_are_those_of_the_chart() {
        let spec = spec(&example());
        assert_eq!(spec["data"][1]["x"], json!([1.5]));
        let error = &spec["data"][1]["error_x"];
        assert!((error["array"][0].as_f64().unwrap() - 0.1).abs() < 1e-6);
        assert!((error["arrayminus"][0].as_f64().unwrap() - 0.1).abs() < 1e-6);
        assert_eq!(spec["layout"]["xaxis"]["type"], "log");
        assert_eq!(spec["layout"]["yaxis"]["ticktext"], json!(["none", "bfq"]));
    }

    #[test]
    fn the_library_is_plotly_alone() {
        let library = library();
        assert!(library.contains("plotly.js v"), "{}", &library[..200]);
        assert!(!library.contains("</script") && library.len() < 5_000_000);
        assert!(!library.contains("tex-svg"));
    }
}
