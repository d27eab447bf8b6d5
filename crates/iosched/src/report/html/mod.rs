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
    figures: Vec<Figure>,
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

/// Points that all charts of a page may have together: the page has to stay below 6 MB.
const MOST_POINTS: usize = 40_000;

/// Points that each series may have on a page of these charts.
fn points_per_series<'a>(charts: impl Iterator<Item = &'a Chart>) -> usize {
    let series: usize = charts.map(|chart| chart.series.len()).sum();
    MOST_POINTS / series.max(1)
}

impl Figure {
    /// A chart with at most about so many points in a series.
    fn of(chart: &Chart, most: usize) -> Figure {
        let chart = &chart.thinned(most.max(60));
        Figure {
            id: format!("chart-{}", chart.id),
            title: chart.title.clone(),
            caption: chart.caption.clone(),
            alternative: chart.alternative.clone(),
            source: chart.source(),
            keys: keys(chart),
            svg: svg::inline(chart),
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
