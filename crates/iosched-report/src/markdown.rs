//! A record for a ticket: headings, tables and lists that GitHub, GitLab and Jira's editor take.

use iosched_experiment::analysis::Analysis;
use iosched_experiment::record::Record;

use super::columns::{arm_table, details_table};
use super::table::{Align, Table};
use super::why::why;
use super::{sentences, words};

/// The answer, the tables, what to know, how it was measured.
pub fn record(record: &Record, analysis: &Analysis) -> String {
    let plan = &record.header.plan;
    let mut lines = Vec::new();
    let answer = sentences::answer(analysis, plan);
    lines.push(format!("**Answer: {}.**", escaped(&answer.what)));
    lines.push(escaped(&answer.grounds.join(" ")));
    let costs = answer.costs.iter().map(|cost| format!("Cost: {cost}"));
    let gains = answer.gains.iter().map(|gain| format!("Also: {gain}"));
    lines.extend(costs.chain(gains).map(|line| escaped(&line)));
    for (index, load) in analysis.loads.iter().enumerate() {
        lines.push(format!(
            "### {}",
            escaped(&sentences::load_head(plan, analysis, index))
        ));
        lines.push(table(&arm_table(plan, analysis, load, true)));
        lines.extend(details_table(analysis, load).as_ref().map(table));
        if analysis.loads.len() > 1 || load.control.is_some() {
            lines.push(escaped(&sentences::of_load(analysis, load, plan)));
        }
        let why = why(analysis, load);
        lines.extend((!why.is_empty()).then(|| escaped(&why)));
    }
    let warnings = sentences::warnings(record, analysis).into_iter();
    let warnings = warnings.flat_map(|note| std::iter::once(note.text).chain(note.command));
    let notes: Vec<String> = warnings
        .chain(sentences::notes(record, analysis))
        .chain(sentences::ending(record, analysis))
        .map(|note| format!("- {}", escaped(&note)))
        .collect();
    if !notes.is_empty() {
        lines.push(notes.join("\n"));
    }
    lines.push(method(record));
    lines.join("\n\n") + "\n"
}

fn method(record: &Record) -> String {
    let header = &record.header;
    let rules = &header.plan.rules;
    let models = header
        .machine
        .disks
        .iter()
        .filter_map(|disk| disk.model.as_deref());
    let mut disks: Vec<&str> = models.collect();
    disks.insert(0, "");
    format!(
        "Measured by iosched {} on {}, Linux {}{}; margin {}, confidence {}, seed {}: {}",
        escaped(&header.program),
        escaped(&header.machine.hostname),
        escaped(&header.machine.kernel),
        escaped(&disks.join(", ")),
        words::percent(rules.margin - 1.0),
        words::percent(rules.confidence),
        header.plan.seed,
        code(&header.command.join(" "))
    )
}

fn table(table: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let heads = table.heads();
    let lean = |align: Align| match align {
        Align::Left => "---".to_owned(),
        Align::Right => "---:".to_owned(),
    };
    let mut lines = vec![
        row(heads.iter().map(|(head, _)| escaped(head)).collect()),
        row(heads.iter().map(|(_, align)| lean(*align)).collect()),
    ];
    lines.extend(
        table
            .rows()
            .map(|cells| row(cells.into_iter().map(escaped).collect())),
    );
    lines.join("\n")
}

/// Text that stays text: no mark-up, no HTML, no further column, no mention of anybody.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '@' => safe += "&#64;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => {
                safe.push('\\');
                safe.push(c);
            }
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// Code in a line, whatever stands in it.
fn code(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let room = if longest > 0 { " " } else { "" };
    format!("{fence}{room}{text}{room}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_experiment::fixture;
    use iosched_experiment::trial::Slot;

    #[test]
    fn a_ticket_has_the_answer_the_table_and_the_command() {
        let plan = fixture::plan(2);
        let mut record = fixture::record(&plan);
        for round in 0..4 {
            for arm in 0..2 {
                let slot = Slot {
                    load: 0,
                    round,
                    arm,
                };
                let throughput = 4.096e6 * (1.0 + arm as f64 * 0.5);
                record.entries.push(fixture::trial(slot, throughput));
            }
        }
        insta::assert_snapshot!(super::record(&record, &Analysis::of(&record)));
    }

    #[test]
    fn hostile_names_stay_text() {
        assert_eq!(
            escaped("<img src=x> | [a](b) @all\n# x"),
            "&lt;img src=x&gt; \\| \\[a\\](b) &#64;all \\# x"
        );
        assert_eq!(code("a `b` ``c``"), "``` a `b` ``c`` ```");
    }
}
