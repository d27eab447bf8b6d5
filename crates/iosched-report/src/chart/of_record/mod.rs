//! The charts of a record: the answer first, then what it rests on, then what it costs.

mod bars;
mod latency;
mod progress;
mod ratio;
mod tradeoff;
mod waiting;

use iosched_experiment::analysis::Analysis;
use iosched_experiment::record::Record;
use iosched_experiment::trial::Trial;

use super::{Axis, Chart};
use crate::words::clipped;

pub use ratio::compared;

/// Charts that answer one question, or are of one load.
#[derive(Debug)]
pub(crate) struct Group {
    /// Anchor on the page.
    pub id: String,
    /// The question, or the load.
    pub title: String,
    /// In the order of the page.
    pub charts: Vec<Chart>,
}

/// Loads from which on a load's charts are no longer together: of many, those of one kind are compared.
pub(crate) const MANY_LOADS: usize = 5;

/// Every chart that the record has data for, group by group.
pub(crate) fn groups(record: &Record, analysis: &Analysis) -> Vec<Group> {
    let of = Source { record, analysis };
    let groups = match analysis.loads.len() {
        2..MANY_LOADS => by_load(&of),
        _ => by_question(&of),
    };
    let groups = groups.into_iter().map(|(id, title, mut charts)| {
        charts.retain(Chart::has_points);
        Group { id, title, charts }
    });
    groups.filter(|group| !group.charts.is_empty()).collect()
}

/// What compares loads first and last, between them each load by itself.
fn by_load(of: &Source) -> Vec<(String, String, Vec<Chart>)> {
    let mut cost = bars::throughput(of);
    cost.push(bars::cpu(of));
    let each = (0..of.analysis.loads.len()).map(|load| {
        let mut charts = vec![progress::chart(of, load)];
        charts.extend(latency::charts(of, load));
        charts
            .extend([tradeoff::chart, waiting::chart, bars::fairness].map(|chart| chart(of, load)));
        (format!("load-{}", load + 1), of.name(load), charts)
    });
    let first = (
        "comparison".into(),
        "The comparison".into(),
        ratio::charts(of),
    );
    let last = (
        "cost".into(),
        "Throughput and cost of all loads".into(),
        cost,
    );
    std::iter::once(first)
        .chain(each)
        .chain(std::iter::once(last))
        .collect()
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
    cost.extend(each(bars::fairness));
    let latencies = (0..analysis.loads.len()).flat_map(|load| latency::charts(of, load));
    let groups = [
        ("comparison", "The comparison", ratio::charts(of)),
        ("progress", "Trial after trial", each(progress::chart)),
        (
            "latency",
            "Latency",
            latencies.chain(each(tradeoff::chart)).collect(),
        ),
        ("cost", "Throughput, waiting, cost, shares", cost),
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

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_experiment::fixture;
    use iosched_experiment::trial::Slot;

    /// The groups of a record of so many loads.
    fn groups_of(loads: usize) -> Vec<Group> {
        let mut plan = fixture::plan(2);
        for load in 1..loads {
            let mut other = plan.loads[0].clone();
            other.name = format!("load {load}");
            plan.loads.push(other);
        }
        let mut record = fixture::record(&plan);
        for round in 0..2 {
            for load in 0..loads {
                for arm in 0..2 {
                    let slot = Slot { load, round, arm };
                    record.entries.push(fixture::trial(slot, 1e6));
                }
            }
        }
        groups(&record, &Analysis::of(&record))
    }

    #[test]
    fn charts_of_a_load_stand_together_as_long_as_the_loads_are_few() {
        let titles = |loads: usize| -> Vec<String> {
            groups_of(loads)
                .into_iter()
                .map(|group| group.title)
                .collect()
        };
        let few = [
            "The comparison",
            "random-read",
            "load 1",
            "Throughput and cost of all loads",
        ];
        assert_eq!(titles(2), few);
        assert!(titles(1).contains(&"Latency".to_owned()));
        assert!(titles(MANY_LOADS).contains(&"Latency".to_owned()));
        let names = |loads| {
            let charts = groups_of(loads).into_iter().flat_map(|group| group.charts);
            let mut names: Vec<String> = charts.map(|chart| chart.id).collect();
            names.sort();
            names
        };
        let of_each = ["trials-", "latency-", "tradeoff-"];
        for loads in [MANY_LOADS - 1, MANY_LOADS] {
            let names = names(loads);
            for kind in of_each {
                let found = names.iter().filter(|name| name.starts_with(kind)).count();
                assert_eq!(found, loads, "{kind}: {names:?}");
            }
        }
    }
}
