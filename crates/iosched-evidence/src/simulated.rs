//! The small set of evidence that ships with the program: what simulated machines found of schedulers on disk models. It is
//! a text in the program, so that it is there however that was installed, and costs no file to be read.
//!
//! It is never mixed with what was measured: its rows are of [`Source::Simulated`], of disk models, and of no kernel.

use std::sync::LazyLock;

use iosched_sim::disk::{Model, models};

use crate::digest::sha256;
use crate::row::{Row, Source, Text};

/// Written by `lab/simulated-evidence`, and described at its head.
const MADE: &str = include_str!("simulated.txt");

/// When that was: days since 1970.
const MADE_ON: i32 = 20_783;

/// What every scheduler is compared with.
const AGAINST: &str = "none";

/// Its rows.
pub fn rows() -> &'static [Row] {
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
        let lines = MADE.lines().filter(|line| !line.starts_with('#'));
        let rows =
            lines.map(|line| rows_of(line).unwrap_or_else(|| panic!("a line of it: {line}")));
        rows.flatten().collect()
    });
    &ROWS
}

/// A load on a disk model with a seed: a row for each scheduler.
fn rows_of(line: &str) -> Option<Vec<Row>> {
    let words: Vec<&str> = line.split(' ').collect();
    let (of_load, of_arms) = words.split_at_checked(7)?;
    let &[
        model,
        load_class,
        load,
        fingerprint,
        objective,
        seed,
        rounds,
    ] = of_load
    else {
        return None;
    };
    let disk = models().into_iter().find(|known| known.name == model)?;
    let common = Row {
        record: Text::from(&sha256(of_load.join(" ").as_bytes())[..32]),
        machine: format!("seed-{seed}").into(),
        source: Source::Simulated,
        day: MADE_ON,
        program: env!("CARGO_PKG_VERSION").into(),
        model: model.into(),
        transport: Source::Simulated.name().into(),
        rotational: Some(Model::rotational(&disk)),
        queue_depth: i32::try_from(disk.queue_depth()).ok(),
        load_class: load_class.into(),
        load: load.into(),
        fingerprint: fingerprint.into(),
        objective: objective.into(),
        against: AGAINST.into(),
        is_baseline: true,
        rounds: rounds.parse().ok()?,
        ..Row::default()
    };
    let arms = of_arms.chunks(4).map(|words| {
        let &[arm, log_ratio, standard_error, p99_ratio] = words else {
            return None;
        };
        Some(Row {
            arm: arm.into(),
            log_ratio: log_ratio.parse().ok()?,
            standard_error: standard_error.parse().ok()?,
            p99_ratio: match p99_ratio {
                "-" => None,
                number => Some(number.parse().ok()?),
            },
            ..common.clone()
        })
    });
    arms.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_one_and_is_called_simulated() {
        assert!(!rows().is_empty());
        for row in rows() {
            assert_eq!(row.check(), Ok(()));
            assert_eq!(row.source, Source::Simulated);
            assert!(row.class().starts_with("simulated-") && row.kernel.is_empty());
        }
    }
}
