//! Whole simulated tunes over many seeds: the arm that an answer names is proven by the interval that is
//! printed beside it.
//!
//! A few seeds are run always; `IOSCHED_ANSWER_SEEDS=200` runs 1 to 200.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how much it saw"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use iosched_emulate::disk_file;
use iosched_experiment::analysis::Analysis;
use iosched_experiment::event::{Observer, RunEvent};
use iosched_experiment::load::simulated::SimulatedDisk;
use iosched_experiment::objective::Objective;
use iosched_experiment::plan::{CommandOptions, Plan, PlanRequest, Rules, Steady};
use iosched_experiment::record::{Header, Record, Recorder};
use iosched_experiment::run::{self, RunOptions};
use iosched_machine::device::Consent;
use iosched_machine::facts::MachineFacts;
use iosched_machine::host::Host;
use iosched_machine::process::Stop;
use iosched_report as report;

/// Seeds of each model where the environment does not say.
const FEW_SEEDS: u64 = 12;

#[test]
fn an_answer_names_no_arm_on_a_hard_disk_that_its_own_interval_does_not_prove() {
    let named = check(
        "hdd-7200-fifo",
        "random-read",
        Duration::from_secs(10),
        None,
    );
    assert!(named > 0, "no interval was asked for a proof");
    check("hdd-7200-fifo", "mixed", Duration::from_secs(3), None);
}

#[test]
fn nor_where_less_is_better() {
    let p99 = Some(Objective::P99);
    check("hdd-7200-fifo", "random-read", Duration::from_secs(3), p99);
}

#[test]
fn nor_on_flash_nor_on_a_disk_without_latency() {
    check("ssd-sata", "mixed", Duration::from_millis(20), None);
    check("null", "random-read", Duration::from_millis(2), None);
}

/// Fails if an answer is not proven; how many leave the baseline.
fn check(model: &str, load: &str, runtime: Duration, objective: Option<Objective>) -> usize {
    let seeds = std::env::var("IOSCHED_ANSWER_SEEDS").ok();
    let seeds = seeds.map_or(FEW_SEEDS, |seeds| seeds.parse().expect("a number of seeds"));
    let (mut named, mut trials) = (0, 0);
    let unproven: Vec<String> = (1..=seeds)
        .filter_map(|seed| {
            let record = tune(model, load, runtime, objective, seed);
            let analysis = Analysis::of(&record);
            let text = report::text::record(&record, &analysis, Path::new("r"), 1000);
            named += usize::from(analysis.choice.is_some_and(|arm| arm != analysis.baseline));
            trials += analysis.trials;
            (!is_proven(&text)).then(|| format!("seed {seed}:\n{text}"))
        })
        .collect();
    println!("{model}, {load}: {named} of {seeds} answers leave the baseline; {trials} trials");
    assert!(
        unproven.is_empty(),
        "{} of {seeds} answers are not proven:\n{}",
        unproven.len(),
        unproven[0]
    );
    named
}

fn tune(
    model: &str,
    load: &str,
    runtime: Duration,
    objective: Option<Objective>,
    seed: u64,
) -> Record {
    let disk = SimulatedDisk {
        model: disk_file::find(model).unwrap(),
    };
    let wanted = PlanRequest {
        target: model.into(),
        simulate: Some(disk),
        is_our_own: false,
        own_disk: None,
        loads: vec![load.into()],
        command: CommandOptions::default(),
        connection: None,
        defines: Vec::new(),
        arms: Vec::new(),
        baseline: None,
        objective,
        runtime: Some(runtime),
        ramp: Duration::ZERO,
        rules: Rules::default(),
        seed,
        file_size: 0,
        steady: Steady::Off,
        precondition: false,
        split: false,
        mkfs: None,
        destroy_data: Consent::No,
    };
    let host = Host::live();
    let plan = Plan::new(&wanted, &host).unwrap();
    let header = Header::new(Vec::new(), 0.0, MachineFacts::default(), plan);
    let directory = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(directory.path(), header).unwrap();
    let options = RunOptions {
        begun: Instant::now(),
        trial_limit: None,
        user: None,
        health: &|| None,
    };
    run::run(&host, &mut recorder, &options, &Stop::new(), &mut Nobody).unwrap();
    recorder.record().clone()
}

struct Nobody;

impl Observer for Nobody {
    fn event(&mut self, _event: &RunEvent<'_>) {}
}

/// The arm of `Answer: use deadline for random-read on …`, as somebody reads it.
fn named_arm(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    let arm = lines.find_map(|line| line.strip_prefix("Answer: use "))?;
    let end = arm.find([' ', ',', ':']).unwrap_or(arm.len());
    Some(arm[..end].trim_end_matches('.'))
}

/// True if nothing is named, or it is the baseline, or the row of what is named has an interval on the
/// good side of 1.
fn is_proven(text: &str) -> bool {
    let Some(arm) = named_arm(text) else {
        let none = ["undecided", "keep ", "no arm ", "change nothing"];
        return none
            .iter()
            .any(|none| text.contains(&format!("Answer: {none}")));
    };
    let is_row = |line: &&str| line.split(' ').next() == Some(arm);
    let row = text.lines().find(is_row).expect("each arm has a row");
    if row.contains(" (baseline) ") {
        return true;
    }
    let cell = row.split(['(', ')']).nth(1).unwrap_or_default();
    let bounds = cell.split('-').map(str::parse::<f64>);
    let bounds: Vec<f64> = bounds.map_while(Result::ok).collect();
    let is_lower_better = text.contains("less is better");
    let is_better = |bound: f64| {
        if is_lower_better {
            bound < 1.0
        } else {
            bound > 1.0
        }
    };
    !row.contains(" out ") && bounds.len() == 2 && bounds.iter().all(|&bound| is_better(bound))
}
