//! A chart laid out as plain shapes: where every line, marker and word stands. What draws them need
//! not know what a chart is.

use super::font::{fitted, width};
use super::palette::Marker;
use super::{Axis, Chart, Form, Mark, Point, Scale, Series, Tick, ticks};

/// Size of labels, px.
const LABEL: f32 = 12.0;
/// Size of the title, px.
const TITLE: f32 = 16.0;
/// Height of a line of labels, px.
const LINE: f32 = 18.0;
/// The widest that a name of the legend may be, px.
const WIDEST_KEY: f32 = 220.0;

/// The room that a chart is laid out for, px.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    /// Of the whole drawing.
    width: f32,
    /// Of the plot where values run upwards.
    plot_height: f32,
    /// The widest that row names may be.
    widest_name: f32,
    /// Free at either side.
    margin: f32,
    /// How much wider than the program's own font the reader's may be.
    stretch: f32,
    /// Numbers along the horizontal axis, about.
    ticks: usize,
    /// Title and legend stand in the picture, because nothing else has them.
    is_alone: bool,
}

impl Format {
    /// A file of its own.
    pub(super) const FILE: Format = Format {
        width: 720.0,
        plot_height: 280.0,
        widest_name: 220.0,
        margin: 16.0,
        stretch: 1.0,
        ticks: 7,
        is_alone: true,
    };
    /// Half of the page on a desk.
    pub(super) const WIDE: Format = Format {
        width: 560.0,
        plot_height: 250.0,
        widest_name: 180.0,
        margin: 4.0,
        stretch: 1.2,
        ticks: 6,
        is_alone: false,
    };
    /// A phone, or one of three columns.
    pub(super) const NARROW: Format = Format {
        width: 340.0,
        plot_height: 190.0,
        widest_name: 134.0,
        margin: 4.0,
        stretch: 1.2,
        ticks: 4,
        is_alone: false,
    };
}

/// Shapes on paper, from back to front.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) width: f32,
    pub(super) height: f32,
    /// Axes, marks, title and legend.
    pub(super) ground: Vec<Shape>,
    /// Each series of the chart, in its order.
    pub(super) series: Vec<Vec<Shape>>,
    /// Where values lie along the axes; none for an axis of names.
    pub(super) x: Option<AxisPlace>,
    pub(super) y: Option<AxisPlace>,
}

/// Where an axis lies in the drawing.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxisPlace {
    /// The values at its ends.
    pub(super) values: (f64, f64),
    pub(super) is_log: bool,
    /// The places of these, px.
    pub(super) ends: (f32, f32),
}

/// What something is drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Slot(usize),
    Text,
    Muted,
    Grid,
    Band,
    Alarm,
}

/// Where a text stands against its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// One shape, in px from the upper left corner.
#[derive(Debug)]
pub(super) enum Shape {
    /// A filled rectangle.
    Rectangle {
        from: (f32, f32),
        size: (f32, f32),
        ink: Ink,
        opacity: f32,
        words: String,
    },
    /// A line through points.
    Path {
        points: Vec<(f32, f32)>,
        ink: Ink,
        width: f32,
        is_dashed: bool,
    },
    /// A line through points that mean something.
    Curve {
        spots: Vec<Spot>,
        ink: Ink,
        width: f32,
    },
    /// A marker around each of some points.
    Markers {
        spots: Vec<Spot>,
        marker: Marker,
        radius: f32,
        ink: Ink,
        opacity: f32,
    },
    /// Words.
    Text {
        at: (f32, f32),
        text: String,
        anchor: Anchor,
        size: f32,
        ink: Ink,
    },
}

/// A point, px, with its words, if it has any.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) at: (f32, f32),
    pub(super) words: String,
}

pub(super) fn lay_out(chart: &Chart, format: Format) -> Scene {
    let mut layout = Layout::new(chart, format);
    if format.is_alone {
        layout.title();
        layout.legend();
    }
    layout.place_plot();
    layout.marks();
    layout.axis_x();
    layout.axis_y();
    let ground = std::mem::take(&mut layout.shapes);
    let series = chart.series.iter().map(|series| {
        layout.series(series);
        std::mem::take(&mut layout.shapes)
    });
    let series = series.collect();
    Scene {
        width: format.width,
        height: layout.height,
        ground,
        series,
        x: layout.x.at(&chart.x, (layout.left, layout.right)),
        y: layout.y.at(&chart.y, (layout.bottom, layout.top)),
    }
}

/// The values that an axis shows.
#[derive(Debug, Clone, Copy)]
struct Range {
    from: f64,
    to: f64,
    is_log: bool,
}

impl Range {
    /// All values on an axis, with a little room around them. Ends of intervals widen it only as far as
    /// the values can still be told apart: by the span of the values on either side, or a factor of two.
    fn of(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        ends: impl Iterator<Item = f64>,
        is_rows: bool,
    ) -> Range {
        let is_log = axis.scale == Scale::Log;
        let usable = values.filter(|v| v.is_finite() && (!is_log || *v > 0.0));
        let (mut from, mut to) = extent(usable);
        match &axis.scale {
            Scale::Named(places) if is_rows => {
                return Range {
                    from: 0.5 - places.len() as f64,
                    to: 0.5,
                    is_log,
                };
            }
            Scale::FromZero => (from, to) = (from.min(0.0), to.max(0.0)),
            _ => {}
        }
        if from > to {
            (from, to) = (1.0, 2.0);
        }
        let scaled = |value: f64| if is_log { value.max(0.0).ln() } else { value };
        let (mut low, mut high) = (scaled(from), scaled(to));
        let most = (high - low).max(if is_log {
            std::f64::consts::LN_2
        } else {
            to.abs().max(from.abs()) / 2.0
        });
        let (first, last) = extent(ends.filter(|end| !end.is_nan()).map(scaled));
        (low, high) = (
            low.min(first.max(low - most)),
            high.max(last.min(high + most)),
        );
        let room = if high > low {
            (high - low) * 0.04
        } else {
            low.abs().max(1.0) * 0.1
        };
        if !(axis.scale == Scale::FromZero && from == 0.0) {
            low -= room;
        }
        high += room;
        let back = |value: f64| if is_log { value.exp() } else { value };
        Range {
            from: back(low),
            to: back(high),
            is_log,
        }
    }

    /// Where the range lies in the drawing, if it has numbers.
    fn at(self, axis: &Axis, ends: (f32, f32)) -> Option<AxisPlace> {
        (!matches!(axis.scale, Scale::Named(_))).then_some(AxisPlace {
            values: (self.from, self.to),
            is_log: self.is_log,
            ends,
        })
    }

    /// True if a value lies on the axis, but for rounding.
    fn has(self, value: f64) -> bool {
        (-1e-9..=1.0 + 1e-9).contains(&self.share(value))
    }

    /// Where a value lies, from 0 to 1 (and beyond, outside).
    fn share(self, value: f64) -> f64 {
        if self.is_log {
            (value.max(f64::MIN_POSITIVE) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        }
    }

    fn ticks(self, axis: &Axis, wanted: usize) -> Vec<Tick> {
        let places = match &axis.scale {
            Scale::Named(places) => {
                let inside = |(at, _): &&Tick| *at >= self.from && *at <= self.to;
                return places.iter().filter(inside).cloned().collect();
            }
            Scale::Log => ticks::log(self.from, self.to, wanted),
            Scale::Linear | Scale::FromZero => ticks::linear(self.from, self.to, wanted),
        };
        places
            .into_iter()
            .map(|place| (place, ticks::label(place)))
            .collect()
    }
}

/// The lowest and the highest; the wrong way round if there is none.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// A chart on its way to shapes.
struct Layout<'a> {
    chart: &'a Chart,
    format: Format,
    shapes: Vec<Shape>,
    x: Range,
    y: Range,
    ticks_y: Vec<Tick>,
    /// Sides of the plot, px.
    left: f32,
    right: f32,
    top: f32,
    bottom: f32,
    height: f32,
}

impl<'a> Layout<'a> {
    fn new(chart: &'a Chart, format: Format) -> Layout<'a> {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let ends = |point: &Point| point.interval.map_or([f64::NAN; 2], |(a, b)| [a, b]);
        let sideways = chart.is_sideways();
        let has_bars = |series: &&Series| matches!(series.form, Form::Bars(_));
        let starts: Vec<f64> = chart
            .series
            .iter()
            .filter(has_bars)
            .flat_map(|series| series.points.iter().map(|point| point.from))
            .collect();
        let marked = chart.marks.iter().flat_map(|mark| match mark {
            Mark::At { x, .. } => [*x, *x],
            Mark::Between { from, to, .. } => [*from, *to],
        });
        let (starts_x, starts_y) = if sideways {
            (starts, Vec::new())
        } else {
            (Vec::new(), starts)
        };
        let ends_along = |is_wanted: bool| points().filter(move |_| is_wanted).flat_map(ends);
        let values_x = points().map(|point| point.x);
        let values_y = points().map(|point| point.y);
        let x = Range::of(
            &chart.x,
            values_x.chain(starts_x).chain(marked),
            ends_along(sideways),
            false,
        );
        let y = Range::of(
            &chart.y,
            values_y.chain(starts_y),
            ends_along(!sideways),
            true,
        );
        Layout {
            chart,
            format,
            shapes: Vec::new(),
            x,
            y,
            ticks_y: y.ticks(&chart.y, 6),
            left: 0.0,
            right: format.width - 16.0,
            top: if format.is_alone { 12.0 } else { 4.0 },
            bottom: 0.0,
            height: 0.0,
        }
    }

    /// How far a text may reach in the reader's font, px.
    fn width(&self, text: &str, size: f32) -> f32 {
        width(text, size) * self.format.stretch
    }

    /// The text, or its beginning with an ellipsis, within `most` px of the reader's font.
    fn fitted(&self, text: &str, size: f32, most: f32) -> String {
        fitted(text, size, most / self.format.stretch)
    }

    fn title(&mut self) {
        self.top += TITLE;
        let title = self.fitted(&self.chart.title, TITLE, self.format.width - 32.0);
        self.text((16.0, self.top), title, Anchor::Start, TITLE, Ink::Text);
        self.top += 10.0;
    }

    /// The names of the series, one after the other, in as many lines as they need.
    fn legend(&mut self) {
        if !self.chart.needs_legend() {
            return;
        }
        let mut x = 16.0;
        self.top += LINE;
        for series in self.chart.legend() {
            let name = self.fitted(&series.name, LABEL, WIDEST_KEY);
            let length = self.width(&name, LABEL) + 34.0;
            if x + length > self.right && x > 16.0 {
                x = 16.0;
                self.top += LINE;
            }
            let at = (x + 6.0, self.top - 4.0);
            let words = String::new();
            self.markers(vec![Spot { at, words }], series.slot, 4.5, 1.0);
            self.text((x + 16.0, self.top), name, Anchor::Start, LABEL, Ink::Text);
            x += length;
        }
        self.top += 6.0;
    }

    /// Where the plot lies, once it is known what stands above it and left of it.
    fn place_plot(&mut self) {
        if !self.chart.y.title.is_empty() {
            self.top += LINE;
            let margin = self.format.margin;
            let title = self.fitted(&self.chart.y.title, LABEL, self.format.width - 2.0 * margin);
            self.text(
                (margin, self.top - 4.0),
                title,
                Anchor::Start,
                LABEL,
                Ink::Muted,
            );
        }
        self.top += 8.0;
        let widest = self.format.widest_name;
        let ticks = std::mem::take(&mut self.ticks_y).into_iter();
        self.ticks_y = ticks
            .map(|(at, name)| (at, self.fitted(&name, LABEL, widest)))
            .collect();
        let names = self.ticks_y.iter().map(|(_, name)| self.width(name, LABEL));
        self.left = self.format.margin + 8.0 + names.fold(0.0, f32::max);
        let plot = if self.chart.is_sideways() {
            self.row_height() * self.ticks_y.len() as f32
        } else {
            self.format.plot_height
        };
        self.bottom = self.top + plot;
        self.height = self.bottom
            + LINE
            + if self.chart.x.title.is_empty() {
                8.0
            } else {
                LINE + 8.0
            };
    }

    /// Height of a named row: enough for all that stands in it side by side.
    #[expect(clippy::cast_possible_truncation, reason = "a few pixels")]
    fn row_height(&self) -> f32 {
        let mut places: Vec<f64> = self
            .chart
            .series
            .iter()
            .flat_map(|series| series.points.iter().map(|point| point.y))
            .collect();
        places.sort_by(f64::total_cmp);
        let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
        let gap = gaps.filter(|gap| *gap > 1e-6).fold(1.0, f64::min);
        (15.0 / gap).clamp(30.0, 150.0) as f32
    }

    /// A point of the chart in px.
    #[expect(clippy::cast_possible_truncation, reason = "pixels")]
    fn place(&self, x: f64, y: f64) -> (f32, f32) {
        // What lies outside the range lies on its edge: a picture has no place for it.
        let along =
            |share: f64, from: f32, to: f32| from + (to - from) * share.clamp(0.0, 1.0) as f32;
        (
            along(self.x.share(x), self.left, self.right),
            along(self.y.share(y), self.bottom, self.top),
        )
    }

    fn marks(&mut self) {
        for mark in &self.chart.marks {
            match mark {
                Mark::At { x, words, is_alarm } => {
                    let ink = if *is_alarm { Ink::Alarm } else { Ink::Muted };
                    let x = self.place(*x, 0.0).0;
                    let points = vec![(x, self.top), (x, self.bottom)];
                    self.path(points, ink, 1.2, *is_alarm);
                    if *is_alarm {
                        let at = (x, self.top + 7.0);
                        let words = words.clone();
                        self.shapes.push(Shape::Markers {
                            spots: vec![Spot { at, words }],
                            marker: Marker::Cross,
                            radius: 4.0,
                            ink,
                            opacity: 1.0,
                        });
                    }
                }
                Mark::Between { from, to, words } => {
                    let (from, to) = (self.place(*from, 0.0).0, self.place(*to, 0.0).0);
                    self.shapes.push(Shape::Rectangle {
                        from: (from, self.top),
                        size: ((to - from).max(1.0), self.bottom - self.top),
                        ink: Ink::Band,
                        opacity: 0.25,
                        words: words.clone(),
                    });
                }
            }
        }
    }

    fn axis_x(&mut self) {
        let mut free_from = 0.0;
        for (at, name) in self.x.ticks(&self.chart.x, self.format.ticks) {
            let x = self.place(at, 0.0).0;
            self.path(vec![(x, self.top), (x, self.bottom)], Ink::Grid, 1.0, false);
            let half = self.width(&name, LABEL) / 2.0;
            if x - half >= free_from && x + half <= self.format.width {
                self.text(
                    (x, self.bottom + 16.0),
                    name,
                    Anchor::Middle,
                    LABEL,
                    Ink::Muted,
                );
                free_from = x + half + 6.0;
            }
        }
        if !self.chart.x.title.is_empty() {
            let title = self.fitted(&self.chart.x.title, LABEL, self.format.width - 8.0);
            let half = self.width(&title, LABEL) / 2.0;
            let middle = f32::midpoint(self.left, self.right).min(self.format.width - 4.0 - half);
            let at = (middle, self.bottom + 16.0 + LINE);
            self.text(at, title, Anchor::Middle, LABEL, Ink::Muted);
        }
    }

    fn axis_y(&mut self) {
        let ink = if self.chart.is_sideways() {
            Ink::Text
        } else {
            Ink::Muted
        };
        for (at, name) in self.ticks_y.clone() {
            let y = self.place(self.x.from, at).1;
            self.path(vec![(self.left, y), (self.right, y)], Ink::Grid, 1.0, false);
            self.text((self.left - 8.0, y + 4.0), name, Anchor::End, LABEL, ink);
        }
    }

    fn series(&mut self, series: &Series) {
        let ink = Ink::Slot(series.slot);
        match series.form {
            Form::Bars(thickness) => {
                for point in &series.points {
                    self.bar(point, thickness, ink);
                }
            }
            Form::Line | Form::Trail => self.line(series),
            Form::Dots => {}
        }
        for point in &series.points {
            self.whisker(point, series, ink);
        }
        let (radius, opacity) = match series.form {
            Form::Dots => (5.0, 1.0),
            Form::Trail => (3.5, 1.0),
            Form::Line | Form::Bars(_) => return,
        };
        let spots = series.points.iter().map(|point| self.spot(point));
        self.markers(spots.collect(), series.slot, radius, opacity);
    }

    fn spot(&self, point: &Point) -> Spot {
        Spot {
            at: self.place(point.x, point.y),
            words: point.words.clone(),
        }
    }

    fn line(&mut self, series: &Series) {
        let ink = Ink::Slot(series.slot);
        if series.form == Form::Trail {
            let points = series.points.iter();
            let points = points.map(|point| self.place(point.x, point.y)).collect();
            self.path(points, ink, 1.0, false);
            return;
        }
        let spots: Vec<Spot> = series.points.iter().map(|point| self.spot(point)).collect();
        if spots.len() > 1 {
            self.shapes.push(Shape::Curve {
                spots,
                ink,
                width: 1.8,
            });
        }
    }

    fn bar(&mut self, point: &Point, thickness: f64, ink: Ink) {
        let half = thickness / 2.0;
        let (from, to) = if self.chart.is_sideways() {
            let from = self.place(point.from, point.y + half);
            (from, self.place(point.x, point.y - half))
        } else {
            let from = self.place(point.x - half, point.y);
            (from, self.place(point.x + half, point.from))
        };
        self.shapes.push(Shape::Rectangle {
            from: (from.0.min(to.0), from.1),
            size: (
                (to.0 - from.0).abs().max(1.0),
                (to.1 - from.1 - 1.0).max(1.0),
            ),
            ink,
            opacity: 0.9,
            words: point.words.clone(),
        });
    }

    /// The interval of a point: a line with an end across it, or with an arrow where the interval goes on
    /// beyond the plot. On a bar it is drawn in the colour of text.
    fn whisker(&mut self, point: &Point, series: &Series, ink: Ink) {
        let Some((low, high)) = point.interval else {
            return;
        };
        let ink = if matches!(series.form, Form::Bars(_)) {
            Ink::Text
        } else {
            ink
        };
        let sideways = self.chart.is_sideways();
        let range = if sideways { self.x } else { self.y };
        let place = |value: f64| {
            if sideways {
                self.place(value, point.y)
            } else {
                self.place(point.x, value)
            }
        };
        // Outwards along the axis, and across it.
        let (along, across) = if sideways {
            ((1.0, 0.0), (0.0, 5.0))
        } else {
            ((0.0, -1.0), (5.0, 0.0))
        };
        let [from, to] = [low, high].map(place);
        self.path(vec![from, to], ink, 2.0, false);
        for (end, value, outwards) in [(from, low, -1.0), (to, high, 1.0)] {
            let back = if range.has(value) {
                (0.0, 0.0)
            } else {
                let length = 6.0 * outwards;
                (along.0 * length, along.1 * length)
            };
            let (x, y) = (end.0 - back.0, end.1 - back.1);
            let mut points = vec![(x - across.0, y - across.1), (x + across.0, y + across.1)];
            points.insert(1, end);
            self.path(points, ink, 2.0, false);
        }
    }

    fn markers(&mut self, spots: Vec<Spot>, slot: usize, radius: f32, opacity: f32) {
        if !spots.is_empty() {
            self.shapes.push(Shape::Markers {
                spots,
                marker: Marker::of(slot),
                radius,
                ink: Ink::Slot(slot),
                opacity,
            });
        }
    }

    fn path(&mut self, points: Vec<(f32, f32)>, ink: Ink, width: f32, is_dashed: bool) {
        if points.len() > 1 {
            self.shapes.push(Shape::Path {
                points,
                ink,
                width,
                is_dashed,
            });
        }
    }

    fn text(&mut self, at: (f32, f32), text: String, anchor: Anchor, size: f32, ink: Ink) {
        self.shapes.push(Shape::Text {
            at,
            text,
            anchor,
            size,
            ink,
        });
    }
}

/// The outline of a marker around a point; empty for a circle. The second is true if it is filled.
pub(super) fn outline(marker: Marker, at: (f32, f32), radius: f32) -> (Vec<Vec<(f32, f32)>>, bool) {
    let around = |corners: &[(f32, f32)]| -> Vec<(f32, f32)> {
        let place = |&(x, y): &(f32, f32)| (at.0 + x * radius, at.1 + y * radius);
        corners.iter().map(place).collect()
    };
    match marker {
        Marker::Circle => (Vec::new(), true),
        Marker::Square => {
            let s = 0.88;
            (vec![around(&[(-s, -s), (s, -s), (s, s), (-s, s)])], true)
        }
        Marker::Diamond => {
            let s = 1.25;
            (
                vec![around(&[(0.0, -s), (s, 0.0), (0.0, s), (-s, 0.0)])],
                true,
            )
        }
        Marker::Triangle => (vec![around(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)])], true),
        Marker::UpsideDown => (vec![around(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)])], true),
        Marker::Cross => (
            vec![
                around(&[(-0.9, -0.9), (0.9, 0.9)]),
                around(&[(-0.9, 0.9), (0.9, -0.9)]),
            ],
            false,
        ),
        Marker::Plus => (
            vec![
                around(&[(0.0, -1.1), (0.0, 1.1)]),
                around(&[(-1.1, 0.0), (1.1, 0.0)]),
            ],
            false,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    /// The lines of an interval: from its low to its high end, and what stands at either.
    fn whisker(interval: (f64, f64)) -> [Vec<(f32, f32)>; 3] {
        let mut chart = example();
        chart.series[1].points[0].interval = Some(interval);
        let mut scene = lay_out(&chart, Format::WIDE);
        let of_series = scene.series.remove(1).into_iter();
        let of_series = of_series.filter_map(|shape| match shape {
            Shape::Path { points, .. } => Some(points),
            _ => None,
        });
        of_series.collect::<Vec<_>>().try_into().unwrap()
    }

    #[test]
    fn an_interval_ends_with_a_line_across() {
        let [line, low, high] = whisker((1.4, 1.6));
        for (end, at) in [(low, line[0]), (high, line[1])] {
            assert!(end.iter().all(|(x, _)| (x - at.0).abs() < 0.01), "{end:?}");
        }
    }

    #[test]
    fn an_interval_without_bounds_is_drawn_to_the_edges_and_ends_in_arrows() {
        for interval in [(0.0, f64::INFINITY), (1e-9, 1e9)] {
            let [line, low, high] = whisker(interval);
            assert!(line[0].0 < line[1].0, "{line:?}");
            assert!(low[1] == line[0] && low[0].0 > low[1].0, "{low:?}");
            assert!(high[1] == line[1] && high[0].0 < high[1].0, "{high:?}");
        }
    }

    #[test]
    fn a_wide_interval_leaves_room_to_tell_the_values_apart() {
        let places = |interval| {
            let mut chart = example();
            chart.series[1].points[0].interval = Some(interval);
            let layout = Layout::new(&chart, Format::WIDE);
            (layout.x.share(1.0), layout.x.share(1.5))
        };
        let (one, other) = places((1e-6, 1e6));
        assert!(other - one > 0.15, "{one} {other}");
        assert_eq!(places((0.0, f64::INFINITY)), places((1e-6, 1e6)));
    }
}
