//! The charts of a simulation, and of how well ours agrees with recorded decisions.

use iosched_experiment::simulate::conform::Conformance;
use iosched_experiment::simulate::run::{Share, Simulated};

use super::split::Waited;
use super::{Axis, Chart, Form, Point, Scale, Series, in_words};
use crate::units::{MEGABYTES, MILLISECONDS};
use crate::words::{milliseconds, percent, significant};

/// Shares beyond this number are left to the table.
const MOST_ROWS: usize = 16;

/// Every chart of a simulation.
pub fn charts(simulated: &Simulated) -> Vec<Chart> {
    vec![throughput(simulated), split(simulated), latency(simulated)]
}

/// The processes by name, all together first; of many processes only all together.
fn rows(simulated: &Simulated) -> Vec<String> {
    let processes = &simulated.runs[0].processes;
    let several = (2..MOST_ROWS).contains(&processes.len());
    let each = processes
        .iter()
        .filter(|_| several)
        .map(|share| share.name.clone());
    std::iter::once("all".to_owned()).chain(each).collect()
}

fn share(simulated: &Simulated, run: usize, row: usize) -> Option<&Share> {
    let run = simulated.runs.get(run)?;
    match row {
        0 => Some(&run.total),
        row => run.processes.get(row - 1),
    }
}

fn place(simulated: &Simulated, run: usize, row: usize) -> (f64, f64) {
    let thickness = 0.8 / simulated.runs.len() as f64;
    let middle = (simulated.runs.len() - 1) as f64 / 2.0;
    ((middle - run as f64) * thickness - row as f64, thickness)
}

fn throughput(simulated: &Simulated) -> Chart {
    let rows = rows(simulated);
    let series = simulated.runs.iter().enumerate().map(|(index, run)| {
        let points = rows.iter().enumerate().filter_map(|(row, name)| {
            let rate = share(simulated, index, row)?.bytes_per_second / MEGABYTES.size;
            let words = format!("{}, {name}: {} MB/s", run.scheduler, significant(rate));
            Some(Point::new(rate, place(simulated, index, row).0, words))
        });
        Series {
            name: run.scheduler.clone(),
            slot: index,
            form: Form::Bars(place(simulated, index, 0).1),
            points: points.collect(),
        }
    });
    let series: Vec<Series> = series.collect();
    Chart {
        id: "throughput".into(),
        title: "Throughput".into(),
        caption: "All processes together, and each of them. A simulation has no noise: the same seed gives \
                  the same numbers."
            .into(),
        alternative: in_words(&series),
        x: Axis::new("throughput, MB/s", Scale::FromZero),
        y: Axis::names(rows.iter().map(String::as_str)),
        series,
        marks: Vec::new(),
        trials: Vec::new(),
    }
}

/// Mean latency, split into the times before the queue, in it, and at the disk.
fn split(simulated: &Simulated) -> Chart {
    let mut bars = Vec::new();
    for (row, name) in rows(simulated).iter().enumerate() {
        for (index, run) in simulated.runs.iter().enumerate() {
            let Some(share) = share(simulated, index, row) else {
                continue;
            };
            bars.push(Waited {
                row: format!("{name}, {}", run.scheduler),
                of: format!("{name}, {}", run.scheduler),
                before_ns: Some(share.before_queue_time.mean_ns as f64),
                queue_ns: share.queue_time.mean_ns as f64,
                service_ns: share.service_time.mean_ns as f64,
                tails_ns: None,
            });
        }
    }
    let series = super::split::series(&bars);
    Chart {
        id: "split".into(),
        title: "Where an access waits".into(),
        caption: "Mean latency from the submission until the program has the answer: before the queue, as no \
                  request or tag was free; in the queue, until the driver took the request; and at the disk."
            .into(),
        alternative: in_words(&series),
        x: Axis::new("mean latency, ms", Scale::FromZero),
        y: super::split::rows(&bars),
        series,
        marks: Vec::new(),
        trials: Vec::new(),
    }
}

/// A percentile, ns.
type OfShare = fn(&Share) -> u64;

/// The percentiles that a simulation keeps.
fn latency(simulated: &Simulated) -> Chart {
    let places: [(&str, OfShare); 4] = [
        ("50 %", |share| share.latency.p50_ns),
        ("99 %", |share| share.latency.p99_ns),
        ("99.9 %", |share| share.latency.p999_ns),
        ("slowest", |share| share.latency.max_ns),
    ];
    let series = simulated.runs.iter().enumerate().map(|(index, run)| {
        let points = places.iter().enumerate().map(|(place, (name, value))| {
            let ns = value(&run.total) as f64;
            let words = format!("{}: {name} within {} ms", run.scheduler, milliseconds(ns));
            Point::new(place as f64, ns / MILLISECONDS.size, words)
        });
        Series {
            name: run.scheduler.clone(),
            slot: index,
            form: Form::Trail,
            points: points.filter(|point| point.y > 0.0).collect(),
        }
    });
    let series: Vec<Series> = series.collect();
    let named = places
        .iter()
        .enumerate()
        .map(|(place, (name, _))| (place as f64, (*name).to_owned()));
    Chart {
        id: "latency".into(),
        title: "Latency of all accesses".into(),
        caption: "So many took no longer than this. Lower is better.".into(),
        alternative: in_words(&series),
        x: Axis::new("share of accesses", Scale::Named(named.collect())),
        y: Axis::new("latency, ms", Scale::Log),
        series,
        marks: Vec::new(),
        trials: Vec::new(),
    }
}

/// The recordings by their paths, without the folders that all of them are in.
pub(crate) fn names(conformances: &[Conformance]) -> Vec<String> {
    let traces = conformances.iter().map(|one| one.trace.as_str());
    without_common_folders(&traces.collect::<Vec<_>>())
}

fn without_common_folders(paths: &[&str]) -> Vec<String> {
    fn folders(path: &str) -> impl Iterator<Item = &str> {
        let folders = path.rsplit_once('/').map(|(folders, _)| folders);
        folders.into_iter().flat_map(|folders| folders.split('/'))
    }
    let mut common: Vec<&str> = paths
        .iter()
        .take(1)
        .flat_map(|path| folders(path))
        .collect();
    for path in paths {
        let same = common.iter().zip(folders(path));
        let same = same.take_while(|(a, b)| *a == b).count();
        common.truncate(same);
    }
    let name = |path: &&str| {
        let parts: Vec<&str> = path.split('/').skip(common.len()).collect();
        parts.join("/")
    };
    paths.iter().map(name).collect()
}

/// How many recorded decisions ours made too, recording by recording.
pub fn agreement(conformances: &[Conformance]) -> Chart {
    let points = conformances.iter().enumerate().map(|(row, one)| {
        let words = format!(
            "{}, {}: {} of {} decisions, {}",
            one.trace,
            one.scheduler,
            one.agreed,
            one.decisions,
            percent(one.agreement)
        );
        Point::new(one.agreement * 100.0, -(row as f64), words)
    });
    let series = vec![Series {
        name: "agreement".into(),
        slot: 0,
        form: Form::Bars(0.62),
        points: points.collect(),
    }];
    let names = names(conformances).into_iter().zip(conformances);
    let names: Vec<String> = names
        .map(|(name, one)| format!("{name} ({})", one.scheduler))
        .collect();
    Chart {
        id: "agreement".into(),
        title: "Decisions on which ours agrees".into(),
        caption: "Of the requests that the recorded scheduler dispatched, the share that ours would have dispatched \
                  at that moment, too."
            .into(),
        alternative: in_words(&series),
        x: Axis::new("decisions agreed on, %", Scale::FromZero),
        y: Axis::names(names.iter().map(String::as_str)),
        series,
        marks: Vec::new(),
        trials: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_named_without_the_folders_that_all_are_in() {
        assert_eq!(
            without_common_folders(&["/a/b/x", "/a/b/c/x"]),
            ["x", "c/x"]
        );
        assert_eq!(without_common_folders(&["x"]), ["x"]);
        assert_eq!(without_common_folders(&["/a/b/x"]), ["x"]);
        assert_eq!(without_common_folders(&["a/x", "b/x"]), ["a/x", "b/x"]);
    }
}
