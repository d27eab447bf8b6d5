//! `scripts/validate-live` and `scripts/validate-served`, narrowed down to one load and a second: their commands are accepted,
//! and their tables have a row for each cell.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{can_emulate, can_trace, has_fio, text};

/// The script over one load on a hard disk at depth 4, with the command of this build.
fn validate(script: &str) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(root.join("scripts").join(script))
        .env("IOSCHED", assert_cmd::cargo::cargo_bin!("iosched"))
        .env("DISKS", "hdd-7200")
        .env("DEPTHS", "4")
        .env("LOADS", "examples/live/random-read.fio")
        .env("RUNTIME", "1")
        .output()
        .unwrap()
}

/// The rows of `table`'s body with that many cells, for `scheduler`.
fn rows(table: &str, scheduler: &str, cells: usize) -> usize {
    table
        .lines()
        .filter(|line| line.split('|').any(|cell| cell.trim() == scheduler))
        .filter(|line| line.matches('|').count() == cells + 1)
        .count()
}

fn can_run() -> bool {
    can_emulate() && has_fio() && can_trace()
}

#[test]
fn served_schedulers_get_a_row_beside_the_kernels_and_beside_virtual_time() {
    if !can_run() {
        return;
    }
    let output = validate("validate-served");
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for scheduler in ["mq-deadline", "none", "cfq", "deadline", "noop"] {
        assert_eq!(rows(&table, scheduler, 9), 1, "{scheduler}: {table}");
    }
    assert_eq!(table.matches("IOPS within 10 % in ").count(), 2, "{table}");
}

#[test]
fn kernel_schedulers_get_a_row_beside_their_predictions() {
    if !can_run() {
        return;
    }
    let output = validate("validate-live");
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for scheduler in ["mq-deadline", "none"] {
        assert_eq!(rows(&table, scheduler, 12), 1, "{scheduler}: {table}");
    }
}
