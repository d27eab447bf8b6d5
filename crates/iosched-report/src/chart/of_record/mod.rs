//! The charts of a record: the answer first, then what it rests on, then what it costs.

mod bars;
mod latency;
mod progress;
mod ratio;
mod waiting;

use iosched_experiment::analysis::Analysis;
use iosched_experiment::record::Record;
use iosched_experiment::trial::Trial;

use super::{Axis, Chart};
use crate::words::clipped;

/// Charts that answer one question.
#[derive(Debug)]
pub(crate) struct Group {
    /// Anchor on the page.
    pub id: String,
    /// The question.
    pub title: String,
    /// In the order of the page.
    pub charts: Vec<Chart>,
}

/// Every chart that the record has data for, group by group.
pub(crate) fn groups(record: &Record, analysis: &Analysis) -> Vec<Group> {
    let of = Source { record, analysis };
    let groups = by_question(&of).into_iter().map(|(id, title, mut charts)| {
        charts.retain(Chart::has_points);
        Group { id, title, charts }
    });
    groups.filter(|group| !group.charts.is_empty()).collect()
}

fn by_question(of: &Source) -> Vec<(String, String, Vec<Chart>)> {
    let analysis = of.analysis;
    let each = |chart: fn(&Source, usize) -> Chart| -> Vec<Chart> {
        (0..analysis.loads.len())
            .map(|load| chart(of, load))
            .collect()
    };
    let mut cost = bars::throughput(of);
    cost.extend(each(waiting::chart));
    cost.push(bars::cpu(of));
    let latencies = (0..analysis.loads.len()).flat_map(|load| latency::charts(of, load));
    let groups = [
        ("comparison", "The comparison", ratio::charts(of)),
        ("progress", "Trial after trial", each(progress::chart)),
        ("latency", "Latency", latencies.collect()),
        ("cost", "Throughput, waiting, cost", cost),
    ];
    let groups = groups.into_iter();
    groups
        .map(|(id, title, charts)| (id.to_owned(), title.to_owned(), charts))
        .collect()
}

/// Every chart that the record has data for.
pub fn charts(record: &Record, analysis: &Analysis) -> Vec<Chart> {
    let groups = groups(record, analysis).into_iter();
    groups.flat_map(|group| group.charts).collect()
}

/// What the charts are made of.
struct Source<'a> {
    record: &'a Record,
    analysis: &'a Analysis,
}

impl<'a> Source<'a> {
    /// The trials of an arm under a load that count.
    fn trials(&self, load: usize, arm: usize) -> impl Iterator<Item = &'a Trial> {
        let is_wanted = move |trial: &&Trial| trial.slot.load == load && trial.slot.arm == arm;
        self.record.trials().filter(is_wanted)
    }

    /// The numbers (from 1) of the trials of a load, or of all.
    fn numbers(&self, load: Option<usize>) -> Vec<u32> {
        let is_wanted = |trial: &&Trial| load.is_none_or(|load| trial.slot.load == load);
        let trials = self.record.trials().filter(is_wanted);
        trials.map(|trial| trial.sequence + 1).collect()
    }

    /// The tests of a sweep with their loads, in the order of the plan; none where there is another
    /// load, too.
    fn tests(&self) -> Vec<(String, Vec<usize>)> {
        let mut tests: Vec<(String, Vec<usize>)> = Vec::new();
        for (load, planned) in self.record.header.plan.loads.iter().enumerate() {
            let Some(test) = &planned.test else {
                return Vec::new();
            };
            match tests.iter_mut().find(|(known, _)| known == test) {
                Some((_, loads)) => loads.push(load),
                None => tests.push((test.clone(), vec![load])),
            }
        }
        tests
    }

    fn baseline(&self) -> &'a str {
        &self.analysis.arms[self.analysis.baseline]
    }

    /// ` in random-read`, where there are several loads.
    fn place(&self, load: usize) -> String {
        match self.analysis.loads.len() {
            1 => String::new(),
            _ => format!(" in {}", self.name(load)),
        }
    }

    /// What a load is called on a chart.
    fn name(&self, load: usize) -> String {
        clipped(&self.analysis.loads[load].name)
    }
}

/// Where the arms of the loads stand in a chart with named rows: each arm in a row of its own where
/// there is one load, side by side in the row of their load where there are several.
#[derive(Debug, Clone, Copy)]
struct Rows {
    arms: usize,
    loads: usize,
}

impl Rows {
    /// Height of an arm's place, in rows.
    fn thickness(self) -> f64 {
        if self.loads == 1 {
            0.62
        } else {
            0.8 / self.arms as f64
        }
    }

    fn place(self, row: usize, arm: usize) -> f64 {
        if self.loads == 1 {
            return -(arm as f64);
        }
        let middle = (self.arms - 1) as f64 / 2.0;
        (middle - arm as f64) * self.thickness() - row as f64
    }

    fn axis(self, of: &Source, loads: &[usize]) -> Axis {
        if self.loads == 1 {
            Axis::names(of.analysis.arms.iter().map(String::as_str))
        } else {
            let names: Vec<String> = loads.iter().map(|load| of.name(*load)).collect();
            Axis::names(names.iter().map(String::as_str))
        }
    }
}
