//! One page that needs nothing else: it can be kept, mailed, printed and opened offline.
//!
//! Every chart is in it as SVG, once for a desk and once for a phone; a script of the page's own shows what
//! a mark means, and hides and shows series. Its own policy forbids it to load anything. Text of records
//! is escaped by the templates (askama) and by `svg`.

mod of_record;
mod table;

use askama::Template;
use iosched_machine::visible::visible;

use super::chart::Chart;
use super::chart::svg::{self, Width};
use super::sentences;

pub use of_record::record;

use table::HtmlTable;

/// What a page says, from top to bottom.
#[derive(Debug, Default)]
struct Page {
    title: String,
    subtitle: String,
    /// The answer in one line.
    headline: String,
    /// How sure it is.
    tone: Tone,
    /// And what belongs to it.
    sentences: Vec<String>,
    sections: Vec<Section>,
    /// Environment and method, folded in.
    folded: Vec<Fold>,
}

/// How sure the answer of a page is: what is not proven must not look as if it were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Tone {
    /// It is no answer to which scheduler is to be used.
    #[default]
    Plain,
    /// It is proven.
    Proven,
    /// Nothing is.
    Undecided,
}

impl Tone {
    /// The class of the style sheet.
    fn class(self) -> &'static str {
        match self {
            Tone::Plain => "plain",
            Tone::Proven => "proven",
            Tone::Undecided => "undecided",
        }
    }
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

/// A sentence, and the command that it ends with, in words: a line is broken between words only.
struct Note<'a> {
    text: &'a str,
    command: Vec<&'a str>,
}

impl Section {
    fn notes(&self) -> Vec<Note<'_>> {
        let marker = format!(" {}", sentences::COMMAND);
        let notes = self.sentences.iter().map(|sentence| {
            let command = sentence.split_once(&marker).map(|(_, command)| command);
            let end = sentence.len() - command.map_or(0, |command| command.len() + 1);
            Note {
                text: &sentence[..end],
                command: command.map_or_else(Vec::new, |command| command.split(' ').collect()),
            }
        });
        notes.collect()
    }
}

/// Charts that stand side by side.
#[derive(Debug, Default)]
struct FigureSet {
    /// What holds for all of them, said once; empty where each says it itself.
    caption: String,
    /// Many of one kind, which need less room each: they have only their narrow drawings.
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
            let figure = Figure::of(chart, room, true);
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
                figures: few
                    .iter()
                    .map(|chart| Figure::of(chart, room, false))
                    .collect(),
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
    /// The legend, where it needs one.
    keys: Vec<Key>,
    /// The drawings, of which the style sheet shows the one that fits.
    drawings: Vec<String>,
}

/// A name of the legend, by which its series are hidden and shown.
#[derive(Debug)]
struct Key {
    name: String,
    /// The numbers of the series in the chart.
    series: String,
    /// The marker or line before the name.
    swatch: String,
}

/// Points that a series may have.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// In the wide drawing.
    wide: usize,
    /// In the narrow one.
    narrow: usize,
}

impl Room {
    /// Points that the wide drawings of a record may have together, and the narrow ones: the page is to
    /// stay below 1 MB, of which the data take up to 0.4. A point takes up to 120 bytes.
    const WIDE: usize = 4000;
    const NARROW: usize = 1500;

    /// For a page of these charts.
    fn of<'a>(charts: impl Iterator<Item = &'a Chart>) -> Room {
        let series = charts.flat_map(|chart| &chart.series);
        let lengths: Vec<usize> = series.map(|series| series.points.len()).collect();
        Room {
            wide: shared_out(Room::WIDE, lengths.clone()),
            narrow: shared_out(Room::NARROW, lengths),
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
    fn of(chart: &Chart, room: Room, is_small: bool) -> Figure {
        let narrow = || svg::inline(&chart.thinned(room.narrow), Width::Narrow);
        let wide = || svg::inline(&chart.thinned(room.wide), Width::Wide);
        Figure {
            id: format!("chart-{}", chart.id),
            title: chart.title.clone(),
            caption: chart.caption.clone(),
            alternative: chart.alternative.clone(),
            source: chart.source(),
            keys: keys(chart),
            drawings: if is_small {
                vec![narrow()]
            } else {
                vec![wide(), narrow()]
            },
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
            series: numbers_of(&series.name).join(" "),
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
    script: &'static str,
}

fn render(page: &Page) -> String {
    let template = PageTemplate {
        page,
        version: env!("CARGO_PKG_VERSION"),
        style: include_str!("../../templates/style.css"),
        script: include_str!("../../templates/page.js"),
    };
    let text = template.render().expect("strings take all text");
    visible(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Form, Point, Scale, Series};

    #[test]
    fn a_command_in_a_remark_is_broken_between_words_only() {
        let section = Section {
            sentences: vec![
                "Too few. try: iosched tune --runtime=60s".into(),
                "try this".into(),
            ],
            ..Section::default()
        };
        let notes = section.notes();
        let commands = notes.iter().map(|note| (note.text, note.command.join(" ")));
        let expected = [
            ("Too few. try:", "iosched tune --runtime=60s"),
            ("try this", ""),
        ];
        let expected = expected.map(|(text, command)| (text, command.to_owned()));
        assert_eq!(commands.collect::<Vec<_>>(), expected);
        let page = Page {
            sections: vec![section],
            ..Page::default()
        };
        let shown = "Too few. try: <code><span>iosched</span> <span>tune</span> <span>--runtime=60s</span></code></li>";
        assert!(render(&page).contains(shown));
    }

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
        let room = Room::of(charts.iter());
        let sets = FigureSet::of(&charts, room);
        let seen: Vec<_> = sets
            .iter()
            .map(|set| (set.caption.as_str(), set.is_small, set.figures.len()))
            .collect();
        assert_eq!(seen, [("Of each load.", true, MANY), ("", false, 1)]);
        charts.remove(0);
        let sets = FigureSet::of(&charts, room);
        assert_eq!(sets.len(), 1);
        assert_eq!((sets[0].is_small, sets[0].figures.len()), (false, MANY));
    }
}
