//! What a chart shows, and nothing of how: axes with units, series with intervals, marks, and the
//! same in words. `scene` lays it out as plain shapes, [`svg`] writes them.
//!
//! [`of_record`] makes the charts of a record; `thin` keeps long series small without losing extremes.

mod font;
pub mod of_record;
mod palette;
mod scene;
mod split;
pub mod svg;
mod thin;
mod ticks;

/// One chart, as plain data.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Anchor on the page and name of the file: letters, digits and hyphens.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// What it shows, in words and numbers, for those who cannot see it.
    pub alternative: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// Drawn in this order.
    pub series: Vec<Series>,
    /// Lines and bands behind the series.
    pub marks: Vec<Mark>,
    /// The trials that it was made of, by their number in the record (from 1); none where it was not
    /// made of trials.
    pub trials: Vec<u32>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What runs along it, with the unit.
    pub title: String,
    /// How.
    pub scale: Scale,
}

/// A place of an axis with its name.
pub(crate) type Tick = (f64, String);

/// How values lie along an axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Scale {
    /// Evenly, as far as there are values.
    Linear,
    /// Evenly, and zero is always there: for bars, whose length is the value.
    FromZero,
    /// By ratio; all values are above zero.
    Log,
    /// Evenly, with these places named instead of numbered.
    Named(Vec<Tick>),
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Colour and marker: the same number is the same arm in every chart.
    pub slot: usize,
    /// How it is drawn.
    pub form: Form,
    /// In the order of the horizontal axis.
    pub points: Vec<Point>,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// A marker for each point.
    Dots,
    /// A line through the points.
    Line,
    /// Markers, joined by a thin line.
    Trail,
    /// A bar from zero, or from the point's `from`, of this thickness in units of the named axis.
    Bars(f64),
}

/// A point of a series, in the units of the axes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis.
    pub y: f64,
    /// Where its bar begins.
    pub from: f64,
    /// The interval of the value: along the vertical axis, unless that one is named.
    pub interval: Option<(f64, f64)>,
    /// Its numbers in words, shown when it is pointed at.
    pub words: String,
}

/// Something behind the series.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// A line across, at a value of the horizontal axis.
    At {
        /// Where.
        x: f64,
        /// What it means.
        words: String,
        /// It says that something is wrong there.
        is_alarm: bool,
    },
    /// A band between two values of the horizontal axis.
    Between {
        /// Where it begins.
        from: f64,
        /// Where it ends.
        to: f64,
        /// What it means.
        words: String,
    },
}

impl Axis {
    /// An axis with this title and scale.
    pub(crate) fn new(title: impl Into<String>, scale: Scale) -> Axis {
        Axis {
            title: title.into(),
            scale,
        }
    }

    /// Names from top to bottom, at 0, -1, -2, …
    pub(crate) fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Axis {
        let places = names.into_iter().enumerate();
        let places = places.map(|(index, name)| (-(index as f64), name.to_owned()));
        Axis::new("", Scale::Named(places.collect()))
    }
}

impl Point {
    /// A point without an interval.
    pub(crate) fn new(x: f64, y: f64, words: impl Into<String>) -> Point {
        Point {
            x,
            y,
            words: words.into(),
            ..Point::default()
        }
    }
}

impl Chart {
    /// True if values run from left to right, one row for each name.
    pub(crate) fn is_sideways(&self) -> bool {
        matches!(self.y.scale, Scale::Named(_))
    }

    /// True if there is anything to see.
    pub(crate) fn has_points(&self) -> bool {
        self.series.iter().any(|series| !series.points.is_empty())
    }

    /// True if the colours need a legend: not where the rows are named like the series.
    pub(crate) fn needs_legend(&self) -> bool {
        let rows: Vec<&str> = match &self.y.scale {
            Scale::Named(places) => places.iter().map(|(_, name)| name.as_str()).collect(),
            _ => Vec::new(),
        };
        let legend = self.legend();
        let is_named = |series: &Series| rows.contains(&series.name.as_str());
        legend.len() > 1 && !legend.into_iter().all(is_named)
    }

    /// The series of the legend: the first of each name.
    pub(crate) fn legend(&self) -> Vec<&Series> {
        let mut shown: Vec<&Series> = Vec::new();
        for series in &self.series {
            if !shown.iter().any(|other| other.name == series.name) {
                shown.push(series);
            }
        }
        shown
    }

    /// The same with at most about so many points in each series, which keep their extremes.
    #[must_use]
    pub(crate) fn thinned(&self, most: usize) -> Chart {
        let mut chart = self.clone();
        for series in &mut chart.series {
            series.points = thin::thin_to(std::mem::take(&mut series.points), most);
        }
        chart
    }

    /// `trials 1-13, 15`, or nothing.
    pub(crate) fn source(&self) -> String {
        let mut numbers = self.trials.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        let words: Vec<String> = ranges
            .iter()
            .map(|&(first, last)| match last - first {
                0 => first.to_string(),
                _ => format!("{first}-{last}"),
            })
            .collect();
        match words.len() {
            0 => String::new(),
            1..=12 => format!("trials {}", words.join(", ")),
            _ => format!(
                "{} trials of {}-{}",
                self.trials.len(),
                ranges[0].0,
                ranges[ranges.len() - 1].1
            ),
        }
    }
}

/// The words of all points, one after the other.
pub(super) fn in_words(series: &[Series]) -> String {
    let points = series.iter().flat_map(|series| &series.points);
    let words: Vec<&str> = points.map(|point| point.words.as_str()).collect();
    words.join("; ")
}

/// An id of letters, digits and hyphens, whatever a load is called; not empty, not long.
pub(super) fn id_of(parts: &[&str]) -> String {
    let text = parts.join("-").to_lowercase();
    let mut id = String::new();
    for c in text.chars().take(60) {
        if c.is_ascii_alphanumeric() {
            id.push(c);
        } else if !id.ends_with('-') {
            id.push('-');
        }
    }
    id.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trials_behind_a_chart_are_told_as_ranges() {
        let chart = Chart {
            trials: vec![3, 1, 2, 7, 7, 9, 10],
            ..example()
        };
        assert_eq!(chart.source(), "trials 1-3, 7, 9-10");
    }

    #[test]
    fn an_id_has_nothing_that_a_file_name_or_an_anchor_could_choke_on() {
        assert_eq!(id_of(&["ratio", "a/../b <script>"]), "ratio-a-b-script");
        assert_eq!(id_of(&["trials", "Ünï"]), "trials-n");
    }

    /// Two arms, one with an interval.
    pub(super) fn example() -> Chart {
        let point = |x: f64, y: f64| Point::new(x, y, format!("{x} at {y}"));
        Chart {
            id: "example".into(),
            title: "Example".into(),
            caption: "Ratios.".into(),
            alternative: "none 1, bfq 1.5".into(),
            x: Axis::new("ratio", Scale::Log),
            y: Axis::names(["none", "bfq"]),
            series: vec![
                Series {
                    name: "none".into(),
                    slot: 0,
                    form: Form::Dots,
                    points: vec![point(1.0, 0.0)],
                },
                Series {
                    name: "bfq".into(),
                    slot: 1,
                    form: Form::Dots,
                    points: vec![Point {
                        interval: Some((1.4, 1.6)),
                        ..point(1.5, -1.0)
                    }],
                },
            ],
            marks: vec![Mark::Between {
                from: 0.98,
                to: 1.02,
                words: "margin".into(),
            }],
            trials: Vec::new(),
        }
    }
}
