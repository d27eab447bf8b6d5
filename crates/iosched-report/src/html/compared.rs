//! The page of several records: two hosts, before and after an update, two disks.

use iosched_experiment::analysis::Analysis;
use iosched_experiment::record::Record;

use super::of_record::{arm_tables, subtitle, verdicts};
use super::{FigureSet, HtmlTable, Page, Room, Section, of_record, render};
use crate::chart::of_record::compared;
use crate::comparable::{self, Difference};
use crate::sentences;
use crate::table::{Align, Table};
use crate::words::{enumerate, megabytes, milliseconds};

/// The page of several records side by side, as HTML; with each its name.
pub fn records(records: &[(String, &Record, &Analysis)]) -> String {
    if let [(_, record, analysis)] = records {
        return of_record::record(record, analysis);
    }
    let chart = compared(records);
    let all: Vec<&Record> = records.iter().map(|(_, record, _)| *record).collect();
    let differ = comparable::differences(&all);
    let mut sections = vec![Section {
        id: "comparison".into(),
        title: "Side by side".into(),
        tables: vec![differences(records), figures_table(records)],
        sentences: vec![comparable::sentence(&differ), comparable::NOT_PAIRED.into()],
        sets: FigureSet::of(chart.has_points().then_some(chart).as_slice(), Room::AMPLE),
        ..Section::default()
    }];
    sections.extend(
        records
            .iter()
            .enumerate()
            .map(|(index, one)| section(index, one)),
    );
    let headlines = records.iter().map(|(name, record, analysis)| {
        let choice = sentences::choice(analysis, &record.header.plan);
        let answer = choice.lines().next().unwrap_or_default();
        format!("{name}: {}", answer.replacen("Answer: ", "", 1))
    });
    render(&Page {
        title: format!("{} records compared", records.len()),
        subtitle: records
            .iter()
            .map(|(name, ..)| name.as_str())
            .collect::<Vec<_>>()
            .join(" · "),
        headline: agreement(records, &differ),
        sentences: headlines.collect(),
        sections,
        ..Page::default()
    })
}

/// Do they come to the same answer, and to the same question?
fn agreement(records: &[(String, &Record, &Analysis)], differ: &[Difference]) -> String {
    if !differ.is_empty() {
        let what = enumerate(differ.iter().map(|difference| difference.what.as_str()));
        return format!("The records differ in {what}: each answers for itself.");
    }
    comparable::agreement(records)
}

/// Every arm of every load: throughput, p99 and ratio in each record.
fn figures_table(records: &[(String, &Record, &Analysis)]) -> String {
    let mut table = Table::new([("load", Align::Left), ("arm", Align::Left)]);
    table.column("record", Align::Left);
    table.column("ratio to its baseline", Align::Right);
    for head in ["MB/s", "p99 ms", "rounds"] {
        table.column(head, Align::Right);
    }
    for (name, _, analysis) in records {
        for load in &analysis.loads {
            for (arm, label) in analysis.arms.iter().enumerate() {
                let (summary, standing) = (&load.arms[arm], &load.contest.arms[arm]);
                let shown =
                    |value: Option<f64>, show: fn(f64) -> String| value.map_or(String::new(), show);
                table.push(vec![
                    load.name.clone(),
                    label.clone(),
                    name.clone(),
                    sentences::ratio_cell(arm, analysis.baseline, standing),
                    shown(summary.throughput_bytes_per_s, megabytes),
                    shown(summary.latency_p99_ns, milliseconds),
                    standing.rounds.to_string(),
                ]);
            }
        }
    }
    HtmlTable::of("Every arm in every record", &table, None).html()
}

/// A fact of a record, in words.
type Fact = fn(&Record) -> String;

/// What is not the same: what makes their questions different, and what else is to be known.
fn differences(records: &[(String, &Record, &Analysis)]) -> String {
    let facts: [(&str, Fact); 8] = [
        ("host", |r| r.header.machine.hostname.clone()),
        ("processors", |r| r.header.machine.cpus.to_string()),
        ("disk", |r| sentences::target_name(&r.header.plan)),
        ("model", |r| {
            let models = r
                .header
                .machine
                .disks
                .iter()
                .filter_map(|disk| disk.model.clone());
            models.collect::<Vec<_>>().join(", ")
        }),
        ("baseline", |r| {
            r.header.plan.arm_label(r.header.plan.baseline)
        }),
        ("programs", of_record::programs),
        ("iosched", |r| r.header.program.clone()),
        ("begun", |r| of_record::date(r.header.created_unix_s)),
    ];
    let names: Vec<String> = records.iter().map(|(name, ..)| name.clone()).collect();
    let all: Vec<&Record> = records.iter().map(|(_, record, _)| *record).collect();
    let mut table = comparable::table(&comparable::differences(&all), &names);
    for (name, fact) in facts {
        let values: Vec<String> = records.iter().map(|(_, record, _)| fact(record)).collect();
        if values.iter().any(|value| *value != values[0]) {
            table.push(std::iter::once(name.to_owned()).chain(values).collect());
        }
    }
    HtmlTable::of("What differs between the records", &table, None).html()
}

/// A record by itself, in short.
fn section(index: usize, (name, record, analysis): &(String, &Record, &Analysis)) -> Section {
    let mut sentences = vec![subtitle(record)];
    sentences.extend(verdicts(analysis, &record.header.plan));
    Section {
        id: format!("record-{}", index + 1),
        title: name.clone(),
        tables: arm_tables(record, analysis),
        sentences,
        ..Section::default()
    }
}
