//! The pages of a simulation, of recorded decisions that ours was held against, and of a recording.

use iosched_experiment::simulate::conform::Conformance;
use iosched_experiment::simulate::run::{self, Simulated};

use super::data::download;
use super::{FigureSet, Fold, HtmlTable, Page, Room, Section, render};
use crate::chart::{Chart, of_events, of_simulated};
use crate::table::{Align, Table};
use crate::traffic::Traffic;
use crate::words::{clipped, count, megabytes, milliseconds, percent, significant};

/// The page of what `simulate --json` printed, as HTML.
pub fn simulated(simulated: &Simulated) -> String {
    let sections = simulated.runs.iter().enumerate().map(|(index, run)| {
        let mut table = Table::new([("process", Align::Left)]);
        for head in ["MB/s", "IOPS", "mean ms", "before ms", "queue ms", "disk ms", "p50 ms", "p99 ms", "p99.9 ms", "max ms"] {
            table.column(head, Align::Right);
        }
        let several = run.processes.len() > 1;
        for share in run.processes.iter().chain(several.then_some(&run.total)) {
            let (latency, ms) = (share.latency, |ns: u64| milliseconds(ns as f64));
            table.push(vec![
                share.name.clone(),
                megabytes(share.bytes_per_second),
                significant(share.iops),
                ms(latency.mean_ns),
                ms(share.before_queue_time.mean_ns),
                ms(share.queue_time.mean_ns),
                ms(share.service_time.mean_ns),
                ms(latency.p50_ns),
                ms(latency.p99_ns),
                ms(latency.p999_ns),
                ms(latency.max_ns),
            ]);
        }
        Section {
            id: format!("run-{}", index + 1),
            title: run.scheduler.clone(),
            tables: vec![HtmlTable::of("Each process", &table, None).html()],
            sentences: vec![format!(
                "{} commands, mean seek {} GB, {} sequential; disk idle {} of {:.1} s; fairness {:.2}.",
                run.commands,
                significant(run.mean_seek_sectors * 512.0 / 1e9),
                percent(run.sequential_share),
                percent(run.disk_idle_ns as f64 / run.elapsed_ns.max(1) as f64),
                run.elapsed_ns as f64 / 1e9,
                run.fairness
            )],
            ..Section::default()
        }
    });
    let json = serde_json::to_string_pretty(simulated).expect("our own types serialise");
    let files = [
        download("simulated.csv", "text/csv", &run::csv(simulated)),
        download("simulated.json", "application/json", &json),
    ];
    let load = simulated.load.rsplit('/').next().unwrap_or_default();
    render(&Page {
        title: format!("{} on a simulated {}", clipped(load), simulated.disk),
        subtitle: format!(
            "queue depth {}, seed {}, in virtual time",
            simulated.queue_depth, simulated.seed
        ),
        headline: most_throughput(simulated),
        sentences: vec![
            "A simulation is as good as its disk model and its schedulers; docs/validation.md says how good \
             they are."
                .into(),
        ],
        sections: std::iter::once(figures("comparison", "The comparison", &of_simulated::charts(simulated)))
            .chain(sections)
            .collect(),
        downloads: files.into_iter().flatten().collect(),
        ..Page::default()
    })
}

fn most_throughput(simulated: &Simulated) -> String {
    let rate = |run: &&run::RunResult| run.total.bytes_per_second;
    let best = simulated
        .runs
        .iter()
        .max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let Some(best) = best else {
        return "Nothing was simulated.".into();
    };
    let others = simulated
        .runs
        .iter()
        .filter(|run| run.scheduler != best.scheduler);
    let others = others.map(|run| format!("{} {}", run.scheduler, megabytes(rate(&run))));
    let others: Vec<String> = others.collect();
    let rest = if others.is_empty() {
        String::new()
    } else {
        format!("; {}", others.join(", "))
    };
    format!("{}: {} MB/s{rest}.", best.scheduler, megabytes(rate(&best)))
}

fn figures(id: &str, title: &str, charts: &[Chart]) -> Section {
    let shown: Vec<Chart> = charts
        .iter()
        .filter(|chart| chart.has_points())
        .cloned()
        .collect();
    Section {
        id: id.to_owned(),
        title: title.to_owned(),
        sets: FigureSet::of(&shown, Room::AMPLE),
        ..Section::default()
    }
}

/// The page of what `conform --json` printed, as HTML.
pub fn conformances(all: &[Conformance]) -> String {
    let mut table = Table::new([("recording", Align::Left), ("scheduler", Align::Left)]);
    for head in [
        "decisions",
        "agreed",
        "agreement %",
        "eager",
        "merges",
        "unexplained",
    ] {
        table.column(head, Align::Right);
    }
    for (name, one) in of_simulated::names(all).into_iter().zip(all) {
        table.push(vec![
            name,
            one.scheduler.clone(),
            one.decisions.to_string(),
            one.agreed.to_string(),
            format!("{:.3}", one.agreement * 100.0),
            one.eager.to_string(),
            one.merge_mismatches.to_string(),
            one.unexplained.to_string(),
        ]);
    }
    let (decisions, agreed): (u64, u64) = all.iter().fold((0, 0), |sum, one| {
        (sum.0 + one.decisions, sum.1 + one.agreed)
    });
    let mut comparison = figures(
        "comparison",
        "Recording by recording",
        &[of_simulated::agreement(all)],
    );
    comparison.tables = vec![HtmlTable::of("Recordings", &table, None).html()];
    let json = serde_json::to_string_pretty(all).expect("our own types serialise");
    render(&Page {
        title: "Our schedulers against recorded decisions".into(),
        subtitle: count(all.len(), "recording"),
        headline: format!(
            "Ours agrees on {agreed} of {decisions} decisions ({:.3} %).",
            agreed as f64 / decisions.max(1) as f64 * 100.0
        ),
        sections: [comparison, disagreements(all)]
            .into_iter()
            .filter(|section| !section.tables.is_empty() || !section.folds.is_empty())
            .collect(),
        downloads: download("conform.json", "application/json", &json)
            .into_iter()
            .collect(),
        ..Page::default()
    })
}

/// The first decisions of each recording where ours differs, folded in.
fn disagreements(all: &[Conformance]) -> Section {
    let of = |(name, one): (String, &Conformance)| {
        let mut table = Table::new([("time µs", Align::Right)]);
        for head in ["recorded", "ours", "why"] {
            table.column(head, Align::Left);
        }
        for disagreement in &one.first_disagreements {
            table.push(vec![
                format!("{:.3}", disagreement.time_us),
                disagreement.recorded.clone(),
                disagreement.ours.clone(),
                disagreement.why.clone(),
            ]);
        }
        Fold {
            title: format!("{name} ({})", one.scheduler),
            tables: vec![
                HtmlTable::of("The first decisions where ours differs", &table, None).html(),
            ],
            ..Fold::default()
        }
    };
    let differ = of_simulated::names(all).into_iter().zip(all);
    Section {
        id: "disagreements".into(),
        title: "Disagreements".into(),
        folds: differ
            .filter(|(_, one)| !one.first_disagreements.is_empty())
            .map(of)
            .collect(),
        ..Section::default()
    }
}

/// The page of a recording, as HTML.
pub fn traffic(traffic: &Traffic) -> String {
    let bytes = traffic
        .bytes
        .iter()
        .map(|(kind, bytes)| format!("{} {}", megabytes(*bytes as f64), kind.words()));
    let bytes: Vec<String> = bytes.collect();
    let mut sentences = Vec::new();
    if !bytes.is_empty() {
        sentences.push(format!("Megabytes: {}.", bytes.join(", ")));
    }
    if !traffic.has_issues() {
        sentences.push(
            "The recording does not tell when the disk got a request, so there is no queue to show.".into(),
        );
    }
    render(&Page {
        title: traffic.name.clone(),
        subtitle: format!("recording of block traffic, format {}", traffic.format),
        headline: format!(
            "{} requests in {:.3} s.",
            traffic.requests(),
            traffic.length_ns as f64 / 1e9
        ),
        sentences,
        sections: vec![figures(
            "traffic",
            "The traffic",
            &of_events::charts(traffic),
        )],
        data_notes: vec![
            "The recording itself is the data; the page has what its charts show.".into(),
        ],
        ..Page::default()
    })
}
