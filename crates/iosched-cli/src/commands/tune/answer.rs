//! What becomes of an answer: a page beside the record, and the winner active.

use std::path::Path;

use iosched_emulate as emulate;
use iosched_emulate::spec::STATE_DIR;
use iosched_experiment::analysis::Analysis;
use iosched_experiment::plan::Plan;
use iosched_experiment::record::Recorder;
use iosched_machine::command_line::quoted_path;
use iosched_machine::failure::Failure;
use iosched_machine::host::Host;
use iosched_machine::process::Stop;
use iosched_policy::set::Change;
use iosched_report as report;

use super::{boxed, take_turn};
use crate::output::Output;

/// Writes the page beside the record. What was measured is safe without it: that it cannot be written
/// is worth a note, and no failure.
pub(super) fn write_page(recorder: &Recorder, analysis: &Analysis, output: &Output) {
    const NAME: &str = "report.html";
    let directory = recorder.directory();
    let page = report::html::record(recorder.record(), analysis);
    match recorder.write_beside(NAME, page.as_bytes()) {
        Ok(()) if output.is_json() => {}
        Ok(()) => output.line(&format!("page: {}", directory.join(NAME).display())),
        Err(error) => output.warn(&format!(
            "note: no page: {error}; the record is whole: iosched report {} --html {NAME}",
            quoted_path(directory)
        )),
    }
}

/// Switches every disk to the winner.
pub(super) fn apply(
    plan: &Plan,
    analysis: &Analysis,
    record: &Path,
    host: &Host,
    stop: &Stop,
    output: &Output,
) -> Result<(), Box<dyn Failure>> {
    let Some(arm) = analysis.choice else {
        output.warn("not applied: the run did not decide, so nothing is changed");
        return Ok(());
    };
    if Some(arm) == plan.active {
        output.note(&format!("{} stays: it was active", plan.arm_label(arm)));
        return Ok(());
    }
    if plan.is_served() {
        return apply_inside(plan, arm, output);
    }
    let record = std::path::absolute(record).unwrap_or_else(|_| record.to_owned());
    let why = format!("the answer of a tune: {}", record.display());
    let turn = take_turn(host, stop, output)?;
    for disk in &plan.disks {
        let change = Change::plan(host, disk, &plan.arms[arm]).map_err(boxed)?;
        let made = change.make(host).map_err(boxed)?;
        made.keep(&turn, Some(why.clone())).map_err(boxed)?;
        output.note(&format!(
            "{disk}: {} is active, and not kept over reboots",
            plan.arm_label(arm)
        ));
    }
    Ok(())
}

/// Puts the winner inside every disk, where it is one that is served: that lasts as long as the disk.
fn apply_inside(plan: &Plan, arm: usize, output: &Output) -> Result<(), Box<dyn Failure>> {
    let label = plan.arm_label(arm);
    if !plan.arms[arm].is_served() {
        output.warn(&format!(
            "not applied: {label} is the kernel's above a disk that has a scheduler inside; make one without"
        ));
        return Ok(());
    }
    let state_dir = Path::new(STATE_DIR);
    for disk in &plan.disks {
        emulate::set(state_dir, disk, &plan.arms[arm].without_layer()).map_err(boxed)?;
        output.note(&format!(
            "{disk}: {label} stands inside as long as the disk is there"
        ));
    }
    Ok(())
}
