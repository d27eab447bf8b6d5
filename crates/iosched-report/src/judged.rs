//! What results of others show: first what their design cannot show, then the answer and the tables.

use iosched_experiment::analysis::Conclusion;
use iosched_experiment::judge::{Doubt, Judgement};
use iosched_machine::visible;
use serde_json::{Value, json};

use super::named;
use super::sentences::verdict;
use super::text::{Widths, fold, tables};
use super::words::{count, enumerate_plain};

/// For a terminal.
pub fn text(judgement: &Judgement, widths: impl Into<Widths>, in_detail: bool) -> String {
    let widths = widths.into();
    let (record, analysis) = (&judgement.record, &judgement.analysis);
    let plan = &record.header.plan;
    let mut text = String::new();
    for (is_fatal, head) in [
        (true, "The design of these runs cannot show a difference:"),
        (false, "Note:"),
    ] {
        let said = said(&judgement.doubts, is_fatal);
        if !said.is_empty() {
            text += head;
            text.push('\n');
        }
        for line in said {
            text += &fold(&format!("- {}.", visible::line(&line)), widths.text);
        }
    }
    let found = verdict(analysis, &analysis.loads, analysis.decisive(), plan);
    text += &fold(
        &match analysis.conclusion {
            Conclusion::Disturbed => {
                format!("Answer: not shown. The numbers alone would say: {found}.")
            }
            _ => format!("Answer: {found}."),
        },
        widths.text,
    );
    let runs = (0..analysis.arms.len()).map(|arm| {
        let runs = record.trials().filter(|trial| trial.slot.arm == arm);
        format!("{} of {}", count(runs.count(), "run"), analysis.arms[arm])
    });
    let how = if judgement.is_paired {
        "compared round by round"
    } else {
        "compared without pairs, by Welch's interval"
    };
    text += &fold(
        &format!("\u{a0} {}, {how}.", enumerate_plain(runs)),
        widths.text,
    );
    text += &tables(record, analysis, widths, in_detail);
    for left_out in &judgement.left_out {
        text += &fold(
            &format!("Left out: {}.", visible::line(left_out)),
            widths.text,
        );
    }
    text
}

/// The doubts of this weight; the load is named where it is not true of all.
fn said(loads: &[(String, Vec<Doubt>)], is_fatal: bool) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for (load, doubts) in loads {
        for doubt in doubts.iter().filter(|doubt| doubt.is_fatal == is_fatal) {
            let is_of_all = loads.iter().all(|(_, doubts)| doubts.contains(doubt));
            let line = if is_of_all {
                doubt.sentence.clone()
            } else {
                format!("{load}: {}", doubt.sentence)
            };
            if !said.contains(&line) {
                said.push(line);
            }
        }
    }
    said
}

/// For programs.
pub fn json(judgement: &Judgement) -> Value {
    let of_load = |(load, doubts): &(String, Vec<Doubt>)| json!({"load": load, "doubts": doubts});
    json!({
        "schema": 1,
        "doubts": judgement.doubts.iter().map(of_load).collect::<Vec<_>>(),
        "is_paired": judgement.is_paired,
        "left_out": judgement.left_out,
        "analysis": named::analysis(&judgement.analysis),
    })
}
