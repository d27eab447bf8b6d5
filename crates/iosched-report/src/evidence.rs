//! Evidence of many machines, for a terminal.

use std::fmt::Write as _;

use iosched_evidence::pool::{Answer, ArmFinding, Finding, LEAST_MACHINES, Level};
use iosched_evidence::row::{Row, Source, Text};
use iosched_stats::Interval;

use crate::table::{Align, Table};
use crate::text::fold;
use crate::words::enumerate;

/// `2026-11-25`, of days since 1970.
pub fn date(days: i32) -> String {
    let begin = jiff::civil::date(1970, 1, 1);
    let date = begin.checked_add(jiff::Span::new().days(days));
    date.map_or_else(|_| format!("day {days}"), |date| date.to_string())
}

/// What is to be written of records: for each the drive and the machine, for each load its comparisons.
pub fn rows(rows: &[Row], width: usize) -> String {
    let mut text = String::new();
    for of_record in rows.chunk_by(|a, b| a.record == b.record) {
        let first = &of_record[0];
        let or = |text: &str, other: &str| {
            if text.is_empty() {
                other.to_owned()
            } else {
                text.to_owned()
            }
        };
        let mut parts = vec![format!("record {}", first.record)];
        parts.push(or(&first.model, "a drive without a model"));
        if !first.firmware.is_empty() {
            parts.push(format!("firmware {}", first.firmware));
        }
        parts.push(format!("class {}", first.class()));
        parts.extend(first.queue_depth.map(|depth| format!("depth {depth}")));
        parts.push(match first.source {
            Source::Simulated => "simulated".to_owned(),
            Source::Emulated => format!("emulated under Linux {}", first.kernel),
            Source::Measured => format!("Linux {}", first.kernel),
        });
        if !first.file_system.is_empty() {
            parts.push(first.file_system.to_string());
        }
        parts.push(date(first.day));
        parts.push(format!("iosched {}", first.program));
        parts.push(format!("machine {}", first.machine));
        text += &fold(&parts.join(", "), width);
        for of_load in
            of_record.chunk_by(|a, b| (&a.load, &a.fingerprint) == (&b.load, &b.fingerprint))
        {
            let first = &of_load[0];
            let load = format!(
                "  load {} ({}), fingerprint {}, by {}",
                first.load, first.load_class, first.fingerprint, first.objective
            );
            let _ = writeln!(text, "{load}");
            let mut table = Table::new([
                ("    arm", Align::Left),
                ("against", Align::Left),
                ("ratio", Align::Right),
                ("log-ratio", Align::Right),
                ("error", Align::Right),
                ("rounds", Align::Right),
                ("p99", Align::Right),
                ("CPU", Align::Right),
            ]);
            for row in of_load {
                let is_baseline = if row.is_baseline { " (baseline)" } else { "" };
                let ratio =
                    |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"));
                table.row([
                    format!("    {}", row.arm),
                    format!("{}{is_baseline}", row.against),
                    ratio(Some(row.log_ratio.exp())),
                    format!("{:.4}", row.log_ratio),
                    format!("{:.4}", row.standard_error),
                    row.rounds.to_string(),
                    ratio(row.p99_ratio),
                    ratio(row.cpu_ratio),
                ]);
            }
            let whole = table.render_first(8);
            if whole.lines().all(|line| line.chars().count() <= width) {
                text += &whole;
            } else {
                // Arms with many tunables leave no room for columns.
                let rows = of_load.iter().map(|row| row_in_words(row, width));
                text += &rows.collect::<String>();
            }
        }
    }
    text
}

/// A comparison in lines, for arms that are too long for a table.
fn row_in_words(row: &Row, width: usize) -> String {
    let indent = "    ";
    let room = width.saturating_sub(indent.len());
    // An arm has no blanks: where it is longer than a line it is broken between its tunables.
    let arm = |arm: &str| {
        if arm.chars().count() + 2 > room {
            arm.replace(',', ", ")
        } else {
            arm.to_owned()
        }
    };
    let is_baseline = if row.is_baseline { " (baseline)" } else { "" };
    let mut words = format!(
        "{} against {}{is_baseline}: ratio {:.3}, log-ratio {:.4}, error {:.4}, rounds {}",
        arm(&row.arm),
        arm(&row.against),
        row.log_ratio.exp(),
        row.log_ratio,
        row.standard_error,
        row.rounds
    );
    for (name, ratio) in [("p99", row.p99_ratio), ("CPU", row.cpu_ratio)] {
        if let Some(ratio) = ratio {
            let _ = write!(words, ", {name} {ratio:.3}");
        }
    }
    let folded = fold(&words, room);
    let lines = folded.lines().map(|line| format!("{indent}{line}\n"));
    lines.collect()
}

/// Tells what is known of each question, one after the other.
pub fn findings(findings: impl Iterator<Item = Finding>, width: usize, mut tell: impl FnMut(&str)) {
    let mut drive = None;
    for finding in findings {
        let mut text = String::new();
        let question = &finding.question;
        let drives = (question.drive.clone(), question.class.clone());
        let of = (question.source, question.level, drives);
        if drive.as_ref() != Some(&of) {
            if drive.is_some() {
                text.push('\n');
            }
            let _ = writeln!(text, "{}", drive_words(&finding));
            drive = Some(of);
        }
        for line in fold(&sentence(&finding), width.saturating_sub(2)).lines() {
            let _ = writeln!(text, "  {line}");
        }
        let table = table(&finding, "    ");
        if table.rows().next().is_some() {
            text += &table.render(width);
        }
        tell(&text);
    }
}

/// `ST4000DM004-2CV104 (model, sata-hdd)`.
pub(crate) fn drive_words(finding: &Finding) -> String {
    let question = &finding.question;
    let level = question.level.name();
    let source = match (question.source, question.level) {
        (Source::Measured, Level::Model) => format!(", {}", question.class),
        (Source::Measured, _) => String::new(),
        (other, _) => format!(", {}", other.name()),
    };
    format!("{} ({level}{source})", question.drive)
}

/// What was asked, by whom it was answered, and the answer.
pub(crate) fn sentence(finding: &Finding) -> String {
    format!("{}: {}", question_words(finding), answer(finding))
}

/// `database by tps, Linux 6.12, 12 machines, 2026-01-03 to 2026-11-25`.
pub(crate) fn question_words(finding: &Finding) -> String {
    let question = &finding.question;
    let mut words = format!("{} by {}", question.load_class, question.objective);
    if !question.own_load.is_empty() {
        words = format!("load {} by {}", question.own_load, question.objective);
    }
    if !question.kernel.is_empty() {
        let _ = write!(words, ", Linux {}", question.kernel);
    }
    let _ = write!(words, ", {}", machines(finding.machines));
    let (first, last) = finding.days;
    let _ = write!(words, ", {}", date(first));
    if last > first {
        let _ = write!(words, " to {}", date(last));
    }
    words
}

fn machines(count: usize) -> String {
    match count {
        1 => "1 machine".to_owned(),
        several => format!("{several} machines"),
    }
}

/// `take kyber`, which arms are not told apart, or why nothing is known.
pub(crate) fn answer(finding: &Finding) -> String {
    let names = |arms: &[Text]| enumerate(arms.iter().map(|arm| &**arm));
    match finding.answer {
        Answer::Unknown => {
            format!("unknown (at least {LEAST_MACHINES} machines must have measured two arms)")
        }
        Answer::NotToldApart => format!("not told apart: {}", names(&finding.not_told_apart)),
        Answer::Take => match finding.take.split_first() {
            Some((best, near)) if !near.is_empty() => {
                format!("take {best}; within 5 % of it: {}", names(near))
            }
            best => format!("take {}", best.map_or("", |(best, _)| best)),
        },
    }
}

/// `1.30 (1.24 to 1.36)`.
pub fn ratio(interval: &Interval) -> String {
    let Interval {
        estimate,
        lower,
        upper,
    } = interval;
    format!("{estimate:.2} ({lower:.2} to {upper:.2})")
}

/// The arms of a finding, against its reference.
pub(crate) fn table(finding: &Finding, indent: &str) -> Table {
    let mut table = Table::new([
        (format!("{indent}arm").as_str(), Align::Left),
        (
            format!("ratio to {}", finding.reference).as_str(),
            Align::Right,
        ),
        ("next machine", Align::Right),
        ("machines", Align::Right),
        ("I²", Align::Right),
        ("p99", Align::Right),
        ("CPU", Align::Right),
    ]);
    for arm in &finding.arms {
        table.row(cells(arm, indent));
    }
    table
}

fn cells(arm: &ArmFinding, indent: &str) -> [String; 7] {
    let interval = |interval: &Option<Interval>| interval.as_ref().map(ratio);
    let number =
        |number: Option<f64>| number.map_or(String::new(), |number| format!("{number:.2}"));
    [
        format!("{indent}{}", arm.arm),
        interval(&arm.ratio).unwrap_or_else(|| "unknown".into()),
        interval(&arm.next_machine).unwrap_or_else(|| "unknown".into()),
        arm.machines.to_string(),
        arm.i_squared
            .map_or(String::new(), |part| format!("{:.0} %", part * 100.0)),
        number(arm.p99_ratio),
        number(arm.cpu_ratio),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_a_date() {
        assert_eq!(date(20_782), "2026-11-25");
        assert_eq!(date(0), "1970-01-01");
    }
}
