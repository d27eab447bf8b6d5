//! One page that needs nothing else: it can be kept, mailed, printed and opened offline.
//!
//! Every chart is in it twice: drawn as SVG, for paper and for readers without JavaScript, and as data
//! that plotly.js makes a live chart of. The page's own policy forbids it to load anything. Text of
//! records is escaped by the templates (askama), data by `in_script`.

mod compared;
mod data;
mod of_record;
mod of_simulated;
mod table;

use askama::Template;
use serde::Serialize;

use super::chart::{Chart, plotly, svg};

pub use compared::records;
pub use of_record::record;
pub use of_simulated::{conformances, simulated, traffic};

use data::Download;
use table::HtmlTable;

/// What a page says, from top to bottom.
#[derive(Debug, Default)]
struct Page {
    title: String,
    subtitle: String,
    /// The answer in one line.
    headline: String,
    /// And what belongs to it.
    sentences: Vec<String>,
    sections: Vec<Section>,
    /// Environment and method, folded in.
    folded: Vec<Fold>,
    downloads: Vec<Download>,
    data_notes: Vec<String>,
}

/// A part of the page with tables, sentences and charts.
#[derive(Debug, Default)]
struct Section {
    id: String,
    title: String,
    tables: Vec<String>,
    sentences: Vec<String>,
    sets: Vec<FigureSet>,
    folds: Vec<Fold>,
}

/// Charts that stand side by side.
#[derive(Debug, Default)]
struct FigureSet {
    /// What holds for all of them, said once; empty where each says it itself.
    caption: String,
    /// Many of one kind, which need less room each.
    is_small: bool,
    figures: Vec<Figure>,
}

/// Charts of one kind in a section, from which on they are small.
const MANY: usize = 5;

impl FigureSet {
    /// The charts of a section, those of one kind in a set of
    /// their own where they are many.
    fn of(charts: &[Chart], room: Room) -> Vec<FigureSet> {
        let kind = |chart: &&Chart| charts.iter().filter(|c| c.caption == chart.caption).count();
        let (many, few): (Vec<&Chart>, Vec<&Chart>) =
            charts.iter().partition(|chart| kind(chart) >= MANY);
        let mut sets: Vec<FigureSet> = Vec::new();
        for chart in many {
            let figure = Figure::of(chart, room);
            match sets.iter_mut().find(|set| set.caption == chart.caption) {
                Some(set) => set.figures.push(figure),
                None => sets.push(FigureSet {
                    caption: chart.caption.clone(),
                    is_small: true,
                    figures: vec![figure],
                }),
            }
        }
        if !few.is_empty() {
            sets.push(FigureSet {
                figures: few.iter().map(|chart| Figure::of(chart, room)).collect(),
                ..FigureSet::default()
            });
        }
        sets
    }
}

/// Something that is shown when it is asked for.
#[derive(Debug, Default)]
struct Fold {
    title: String,
    sentences: Vec<String>,
    code: String,
    tables: Vec<String>,
}

/// A chart on the page.
#[derive(Debug)]
struct Figure {
    id: String,
    title: String,
    caption: String,
    alternative: String,
    source: String,
    /// The legend of the live chart, where it needs one.
    keys: Vec<Key>,
    /// The drawing.
    svg: String,
    /// The data of the live chart.
    spec: String,
}

/// A name of the legend, by which its series are hidden and shown.
#[derive(Debug)]
struct Key {
    name: String,
    /// The numbers of the series in the live chart.
    traces: String,
    /// The marker or line before the name.
    swatch: String,
}

/// Points that a series may have.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// In the live chart.
    live: usize,
    /// In the drawing.
    drawn: usize,
}

impl Room {
    /// Points that the live charts of a record may have together, and the drawings: the page has to
    /// stay below 6 MB, of which the library takes 4.7 and the data up to 0.4. A point takes some 60 bytes
    /// in the one and up to 120 in the other.
    const LIVE: usize = 9000;
    const DRAWN: usize = 2500;

    /// As much as there is: for pages of few charts, which bound their points themselves.
    const AMPLE: Room = Room {
        live: usize::MAX,
        drawn: usize::MAX,
    };

    /// For a page of these charts.
    fn of<'a>(charts: impl Iterator<Item = &'a Chart>) -> Room {
        let series = charts.flat_map(|chart| &chart.series);
        let lengths: Vec<usize> = series.map(|series| series.points.len()).collect();
        Room {
            live: shared_out(Room::LIVE, lengths.clone()),
            drawn: shared_out(Room::DRAWN, lengths),
        }
    }
}

/// No series is thinned further than to this.
const FEWEST: usize = 60;

/// How many points a series may have where all of them together have so many: what short ones leave, the
/// long ones get.
fn shared_out(all: usize, mut lengths: Vec<usize>) -> usize {
    lengths.sort_unstable();
    let mut left = all;
    let count = lengths.len();
    for (before, length) in lengths.into_iter().enumerate() {
        let each = left / (count - before);
        if length > each {
            return each.max(FEWEST);
        }
        left -= length;
    }
    usize::MAX
}

impl Figure {
    /// A chart with at most about so many points in a series.
    fn of(chart: &Chart, room: Room) -> Figure {
        let drawn = chart.thinned(room.drawn);
        let chart = &chart.thinned(room.live);
        Figure {
            id: format!("chart-{}", chart.id),
            title: chart.title.clone(),
            caption: chart.caption.clone(),
            alternative: chart.alternative.clone(),
            source: chart.source(),
            keys: keys(chart),
            svg: svg::inline(&drawn),
            spec: in_script(&plotly::spec(chart)),
        }
    }
}

fn keys(chart: &Chart) -> Vec<Key> {
    if !chart.needs_legend() {
        return Vec::new();
    }
    let numbers_of = |name: &str| -> Vec<String> {
        let series = chart.series.iter().enumerate();
        let named = series.filter(|(_, series)| series.name == name);
        named.map(|(number, _)| number.to_string()).collect()
    };
    let legend = chart.legend().into_iter();
    legend
        .map(|series| Key {
            // A hostile name may be a megabyte.
            name: series.name.chars().take(300).collect(),
            traces: numbers_of(&series.name).join(" "),
            swatch: svg::swatch(series),
        })
        .collect()
}

#[derive(Template)]
#[template(path = "page.html")]
struct PageTemplate<'a> {
    page: &'a Page,
    version: &'static str,
    style: &'static str,
    library: &'a str,
    script: &'static str,
}

fn render(page: &Page) -> String {
    let template = PageTemplate {
        page,
        version: env!("CARGO_PKG_VERSION"),
        style: include_str!("../../../templates/style.css"),
        library: &plotly::library(),
        script: include_str!("../../../templates/page.js"),
    };
    template.render().expect("strings take all text")
}

/// JSON that cannot end the script element it stands in.
fn in_script<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_string(value).expect("our own types serialise");
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::{Axis, Form, Point, Scale, Series};

    fn chart(id: usize, caption: &str) -> Chart {
        let axis = || Axis::new("x", Scale::Linear);
        Chart {
            id: format!("c{id}"),
            title: "Title".into(),
            caption: caption.into(),
            alternative: "one".into(),
            x: axis(),
            y: axis(),
            series: vec![Series {
                name: "none".into(),
                slot: 0,
                form: Form::Dots,
                points: vec![Point::new(1.0, 2.0, "one")],
            }],
            marks: Vec::new(),
            trials: Vec::new(),
        }
    }

    #[test]
    fn what_short_series_leave_the_long_ones_get() {
        assert_eq!(shared_out(1000, vec![500, 4, 496]), usize::MAX);
        assert_eq!(shared_out(1000, vec![5000, 100, 5000]), 450);
        assert_eq!(shared_out(10, vec![5000, 100]), FEWEST);
    }

    #[test]
    fn what_holds_for_many_charts_is_said_once_and_they_are_small() {
        let mut charts: Vec<Chart> = (0..MANY).map(|id| chart(id, "Of each load.")).collect();
        charts.insert(1, chart(99, "Of all loads."));
        let sets = FigureSet::of(&charts, Room::AMPLE);
        let seen: Vec<_> = sets
            .iter()
            .map(|set| (set.caption.as_str(), set.is_small, set.figures.len()))
            .collect();
        assert_eq!(seen, [("Of each load.", true, MANY), ("", false, 1)]);
        charts.remove(0);
        let sets = FigureSet::of(&charts, Room::AMPLE);
        assert_eq!(sets.len(), 1);
        assert_eq!((sets[0].is_small, sets[0].figures.len()), (false, MANY));
    }
}
