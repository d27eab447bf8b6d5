use iosched_sim::request::Op;
use iosched_stats::race::{self, Better, Judge, Race, Verdict};
use iosched_switch::Arm;

use super::*;
use crate::load::simulated::SimulatedDisk;
use crate::load::{Spec, Turn};
use crate::metrics::Metrics;

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text).unwrap().unwrap()
}

fn capacity(bytes: u64) -> Sectors {
    Bytes::new(bytes).to_sectors()
}

/// One trial on a disk model.
fn trial(text: &str, model: &str, arm: &str, seed: u64) -> Outcome {
    let spec = Spec::SimulatedScenario {
        scenario: scenario(text),
        disk: Box::new(SimulatedDisk {
            model: iosched_sim::disk::Model::named(model).unwrap(),
        }),
    };
    let mut load = spec.open(text).unwrap();
    let arm = Arm::parse(arm).unwrap();
    let settings = crate::load::fio_job::TrialSettings {
        place: crate::load::fio_job::JobTarget::Path(String::new()),
        runtime: None,
        ramp: None,
        counted: None,
        seed,
    };
    let stop = iosched_machine::process::Stop::new();
    let scope = iosched_machine::process::Scope::default();
    let at = crate::load::Workplace {
        place: &settings.place,
        scope: &scope,
        trial_limit: None,
        stop: &stop,
    };
    let turn = Turn {
        arm: &arm,
        label: "arm",
        round: 0,
        settings: &settings,
    };
    load.run(&at, &turn, &mut |_| ()).unwrap()
}

#[test]
fn each_process_stays_within_its_files_and_no_file_overlaps_another() {
    for text in [
        "responsiveness:readers=2,random-readers=1,writers=1,random-writers=1,size=4m",
        "desktop:size=4m",
        "build:files=30,jobs=3",
    ] {
        let script = scenario(text).script(capacity(1 << 30), 1).unwrap();
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for job in script
            .jobs
            .iter()
            .filter(|job| !job.name.starts_with("start-"))
        {
            let part = (job.start.as_u64(), (job.start + job.span).as_u64());
            let written = job.steps.iter().flat_map(|steps| steps.iter());
            for step in written.filter(|step| step.access.op == Op::Write) {
                let end = step.access.start + step.access.length;
                let is_inside = step.access.start >= job.start && end <= job.start + job.span;
                assert!(is_inside || text.starts_with("build"), "{}", job.name);
            }
            if !job.name.starts_with("job-") {
                parts.push(part);
            }
        }
        parts.sort_unstable();
        let overlap = parts.windows(2).find(|pair| pair[0].1 > pair[1].0);
        assert_eq!(overlap, None, "{text}");
    }
}

#[test]
fn the_streams_run_for_as_long_as_was_asked_before_the_first_start() {
    let begins = |text: &str| {
        let script = scenario(text).script(capacity(1 << 40), 1).unwrap();
        script.jobs[0].delay
    };
    let later = begins("responsiveness:settle=20s") - begins("responsiveness");
    assert_eq!(later, Nanos::from_secs(18));
}

#[test]
fn a_start_reads_its_pages_one_after_the_other_and_each_start_is_another_process() {
    let script = scenario("responsiveness:starts=2,readers=0");
    let script = script.script(capacity(1 << 30), 1).unwrap();
    let [first, second] = &script.jobs[..] else {
        panic!("{} processes", script.jobs.len());
    };
    assert_eq!((first.after, second.after), (None, Some(0)));
    let steps = first.steps.as_ref().unwrap();
    assert_eq!(steps.len(), 52);
    assert!(steps.iter().all(|step| step.beside == 0));
    let end = steps
        .iter()
        .map(|step| step.access.start + step.access.length);
    assert!(end.max().unwrap() <= first.start + first.span);
}

#[test]
fn a_program_starts_sooner_on_an_idle_disk_than_beside_readers() {
    let time = |text| trial(text, "hdd-7200", "noop", 1).elapsed_s.unwrap();
    let idle = time("responsiveness:readers=0");
    let beside = time("responsiveness:readers=4,size=16m");
    assert!(idle > 0.0 && beside > 2.0 * idle, "{idle} and {beside}");
}

#[test]
fn a_trial_depends_on_its_seed_and_nothing_else() {
    for text in [
        "responsiveness:readers=2,size=16m,starts=1",
        "desktop:seconds=1,starts=1,size=16m",
    ] {
        let run = |seed| trial(text, "ssd-sata", "bfq", seed);
        assert_eq!(run(1), run(1), "{text}");
        assert_ne!(run(1), run(2), "{text}");
    }
}

#[test]
fn a_desktop_has_the_numbers_of_the_load_itself() {
    let outcome = trial("desktop:seconds=2,starts=2,size=16m", "ssd-sata", "none", 1);
    let names: Vec<&str> = outcome.numbers.keys().map(String::as_str).collect();
    let expected = [
        "browser's commit ms",
        "copied MB/s",
        "dropped frames %",
        "files unpacked/s",
        "frames in time %",
        "slowest start s",
    ];
    assert_eq!(names, expected);
    assert!(outcome.numbers.values().all(|number| number.is_finite()));
    assert!(outcome.numbers["copied MB/s"] > 10.0);
    assert!(outcome.numbers["files unpacked/s"] > 1.0);
    assert!(
        outcome.numbers["browser's commit ms"] > 1.0,
        "a flush takes 3.2 ms"
    );
    assert!((outcome.numbers["frames in time %"] - 100.0).abs() < 1e-9);
    // 20 ms between them, and they last as long as the trial.
    let reads = outcome.jobs[0].read.as_ref().unwrap().ios;
    assert!((50..=100).contains(&reads), "{reads}");
}

#[test]
fn a_video_drops_frames_where_the_disk_serves_others() {
    // A reader of its own leaves a slow disk with less than the video needs: 25 frames of 128 KiB a second.
    let outcome = trial("desktop:seconds=10,starts=1,size=64m", "hdd-10k", "noop", 1);
    assert!(
        outcome.numbers["dropped frames %"] > 1.0,
        "{:?}",
        outcome.numbers
    );
}

#[test]
fn a_build_reads_what_it_needs_once_and_writes_all_of_it() {
    let outcome = trial("build:files=40,jobs=3", "hdd-7200", "mq-deadline", 1);
    let measured = outcome.measured.clone().unwrap();
    let of_sources: u64 = (0..40)
        .map(|n| u64::from(real_build::units_of_source(n)))
        .sum();
    let of_headers = u64::from(real_build::HEADER_GROUPS * real_build::HEADERS);
    let unit = real_build::UNIT as u64;
    assert_eq!(measured.read_bytes, (of_sources + of_headers) * unit);
    assert_eq!(measured.write_bytes, 4 * of_sources * unit);
    let metrics = Metrics::of(&outcome, &measured, Duration::from_secs(1000));
    let rate = (measured.read_bytes + measured.write_bytes) as f64 / outcome.elapsed_s.unwrap();
    assert!((metrics.throughput_bytes_per_s / rate - 1.0).abs() < 1e-6);
    let parts: f64 = outcome.numbers.values().sum();
    assert!((parts - outcome.elapsed_s.unwrap()).abs() < 1e-6);
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let error = |text: &str, bytes| {
        let script = scenario(text).script(capacity(bytes), 1);
        script.err().unwrap().to_string()
    };
    let command = error("responsiveness:command=true", 1 << 40);
    assert!(command.contains("cannot be simulated"), "{command}");
    for text in ["responsiveness", "desktop", "build"] {
        let room = error(text, 8 << 20);
        assert!(room.contains("8 MiB"), "{room}");
    }
    assert!(Scenario::parse("responsive").is_none());
    assert!(Scenario::parse("desktop:startz=1").unwrap().is_err());
}

/// A tune of the same arm twice, with chance of its own for each trial: in `tune --simulate` the arms of a round share
/// their seed, so that the same arm twice differs in nothing.
fn verdict_on_the_same_arm_twice(text: &str, model: &str, arm: &str, run: u64) -> Verdict {
    let mut race = Race {
        arms: 2,
        baseline: 0,
        loads: vec![race::Load::new(Better::Lower, Vec::new())],
        withdrawn: Vec::new(),
        rules: race::Rules::default(),
    };
    let mut judge = Judge::new(&race).unwrap();
    let mut seeds = 1000 * run..;
    while judge.standing().next.is_some() {
        let mut value = || trial(text, model, arm, seeds.next().unwrap()).elapsed_s;
        let round = vec![value(), value()];
        race.loads[0].rounds.push(round);
        judge.follow(&race).unwrap();
    }
    let contest = judge.standing().loads.remove(0);
    contest.verdict
}

/// `IOSCHED_TEST_TWINS` says how many runs of each load, model and scheduler, one if it is not set; the table of
/// docs/loads.md is what 40 print. One in twenty may name a winner.
#[test]
fn the_same_arm_twice_has_no_winner_whatever_the_chance_of_its_trials() {
    let runs =
        std::env::var("IOSCHED_TEST_TWINS").map_or(1, |runs| runs.parse().expect("a number"));
    for text in ["responsiveness", "desktop:seconds=5", "build"] {
        for model in ["hdd-7200", "ssd-sata"] {
            for arm in ["mq-deadline", "bfq"] {
                let verdicts: Vec<Verdict> = (1..=runs)
                    .map(|run| verdict_on_the_same_arm_twice(text, model, arm, run))
                    .collect();
                let count =
                    |is: fn(&Verdict) -> bool| verdicts.iter().filter(|one| is(one)).count();
                let winners = count(|one| matches!(one, Verdict::Winner { .. }));
                let equal = count(|one| matches!(one, Verdict::Equal { .. }));
                let near = count(|one| matches!(one, Verdict::NearBest { .. }));
                let undecided = verdicts.len() - winners - equal - near;
                println!(
                    "{text} {model} {arm}: {winners} winners, {equal} equal, {near} near the best, {undecided} undecided"
                );
                assert!(
                    20 * winners <= verdicts.len(),
                    "{text} {model} {arm}: {verdicts:?}"
                );
            }
        }
    }
}
