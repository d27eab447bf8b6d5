//! Readers of records and traces, as functions of bytes: for fuzzing.
//!
//! See [`iosched_testing::fuzz`]: what a reader promises, and who runs this list.

use std::path::Path;

use iosched_experiment::analysis::Analysis;
use iosched_experiment::record::Record;
use iosched_experiment::schedule::RunProgress;
use iosched_sim::trace::{Format, Merge, Records, Survey};
use iosched_sim::units::{Sectors, Time};
use iosched_testing::fuzz::{MIB, NOWHERE, Target, json, target};

use crate::chart::{of_record, svg};
use crate::{csv, html, markdown, named, text};

/// The readers of this crate.
pub const TARGETS: &[Target] = &[
    target("record", record, MIB, 200),
    target("trace", trace, 8 * MIB, 100),
    target("trace-of-format", trace_of_format, 8 * MIB, 100),
];

fn record(bytes: &[u8]) {
    let path = Path::new(NOWHERE);
    let Ok(record) = Record::parse(path, bytes) else {
        return;
    };
    let mut written = json(&record.header);
    for entry in &record.entries {
        written += "\n";
        written += &json(entry);
    }
    written += "\n";
    let again = Record::parse(path, written.as_bytes());
    let again = again.unwrap_or_else(|error| panic!("what was read is not read again: {error}"));
    assert_eq!(again.entries.len(), record.entries.len());

    let analysis = Analysis::of(&record);
    let _ = (
        text::record(&record, &analysis, path, 80),
        text::in_detail(&record, &analysis, 80),
    );
    let _ = text::rest(&record, 80);
    let _ = markdown::record(&record, &analysis);
    let _ = (named::analysis(&analysis), csv::trials([("", &record)]));
    let _ = html::record(&record, &analysis);
    for chart in of_record::charts(&record, &analysis) {
        let _ = svg::file(&chart);
    }
    let progress = RunProgress::of(&record.header.plan, &record);
    let _ = (
        progress.at_most(),
        progress.trials_at_most(),
        progress.next(),
    );
}

fn trace(bytes: &[u8]) {
    read_trace(bytes, None);
}

/// The first byte says in which format the others are read.
fn trace_of_format(bytes: &[u8]) {
    if let Some((first, rest)) = bytes.split_first() {
        let format = Format::ALL[usize::from(*first) % Format::ALL.len()];
        read_trace(rest, Some(format));
    }
}

fn read_trace(bytes: &[u8], format: Option<Format>) {
    let Ok(records) = Records::new(bytes, format) else {
        return;
    };
    let merged = Merge::new(vec![records]);
    let mut survey = Survey::default();
    let mut last = Time::ZERO;
    for record in merged {
        let Ok(record) = record else { return };
        assert!(record.time >= last, "{record:?} after {last}");
        assert!(record.length > Sectors::ZERO, "{record:?}");
        last = record.time;
        survey.add(&record);
    }
}

iosched_testing::replay!(TARGETS);
