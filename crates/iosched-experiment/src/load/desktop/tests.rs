use iosched_stats::race::{self, Better, Judge, Race, Verdict};
use iosched_switch::Arm;

use super::simulated::Script;
use super::*;
use crate::load::fio_job::{JobTarget, TrialSettings};
use crate::load::simulated::SimulatedDisk;
use crate::load::{Spec, TrialInfo};
use iosched_sim::units::{Bytes, Sectors};

fn settings(text: &str) -> DesktopSettings {
    DesktopSettings::parse(text).unwrap()
}

fn capacity(bytes: u64) -> Sectors {
    Bytes::new(bytes).to_sectors()
}

#[test]
fn what_it_does_not_have_is_refused_by_name() {
    assert_eq!(settings(""), DesktopSettings::default());
    let short = settings("starts=1,seconds=2,size=4m,readers=3");
    assert_eq!((short.starts, short.size, short.readers), (1, 4 << 20, 3));
    for (text, named) in [
        ("start=1", "start"),
        ("starts=0", "starts"),
        ("seconds=0", "seconds"),
        ("readers=101", "readers"),
        ("size=1k", "size"),
    ] {
        let error = DesktopSettings::parse(text).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn small_reads_are_counted_each_by_how_long_it_took() {
    let took = [3, 1, 3].map(Duration::from_millis);
    let flow = flow_of(&took, Duration::from_secs(1)).unwrap();
    assert_eq!(flow.latency_bins, [(1_000_000, 1), (3_000_000, 2)]);
    assert_eq!(
        (flow.ios, flow.bytes, flow.latency_max_ns),
        (3, 3 * 4096, 3_000_000)
    );
}

#[test]
fn what_has_begun_ends_where_the_next_cannot_begin() {
    let end = Stop::new();
    let begun: Result<(), LoadError> = std::thread::scope(|threads| {
        let _ends = end.ask_at_end();
        let all = Threads::new(threads, None);
        all.begin(|| {
            while !end.is_wanted() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        })?;
        Err(LoadError::files(io::ErrorKind::WouldBlock.into()))
    });
    assert!(begun.is_err());
}

#[test]
fn what_goes_on_beside_the_starts_has_the_users_file_rights() {
    if !iosched_testing::is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let nobody = User::find("nobody").unwrap().unwrap();
    let made = std::thread::scope(|threads| {
        let all = Threads::new(threads, Some(&nobody));
        joined(all.begin(|| File::create(dir.path().join("x"))).unwrap())
    });
    assert_eq!(made.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_file_that_somebody_made_larger_is_not_copied() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    assert!(of_size(file.try_clone().unwrap(), 4096).is_ok());
    file.set_len(1 << 40).unwrap();
    assert!(of_size(file, 4096).is_err());
}

/// One trial on a disk model.
fn trial(text: &str, model: &str, arm: &str, seed: u64) -> Outcome {
    let spec = Spec::SimulatedDesktop {
        desktop: settings(text),
        disk: Box::new(SimulatedDisk {
            model: iosched_sim::disk::Model::named(model).unwrap(),
        }),
    };
    let mut load = spec.open(text).unwrap();
    let trial = TrialInfo {
        arm: Arm::parse(arm).unwrap(),
        label: "arm".into(),
        round: 0,
        settings: TrialSettings {
            place: JobTarget::Path(String::new()),
            runtime: None,
            ramp: None,
            counted: None,
            seed,
            shift: 0,
        },
    };
    let at = Workplace {
        place: &trial.settings.place,
        scope: &iosched_machine::process::Scope::default(),
        trial_limit: None,
        stop: &Stop::new(),
    };
    load.run(&at, &trial, &mut |_| ()).unwrap()
}

#[test]
fn each_simulated_process_has_files_of_its_own() {
    for text in ["readers=2,writers=1,size=4m", "size=4m"] {
        let script = Script::new(&settings(text), (capacity(1 << 30), false), 1).unwrap();
        let beside = script
            .jobs
            .iter()
            .filter(|job| !job.name.starts_with("start-"));
        let mut parts: Vec<(u64, u64)> = beside
            .map(|job| (job.start.as_u64(), (job.start + job.span).as_u64()))
            .collect();
        parts.sort_unstable();
        let overlap = parts.windows(2).find(|pair| pair[0].1 > pair[1].0);
        assert_eq!(overlap, None, "{text}");
    }
}

#[test]
fn a_simulated_start_reads_its_pages_one_after_the_other_in_a_process_of_its_own() {
    for (rotational, reads) in [(false, 52), (true, 10)] {
        let script = Script::new(&settings("starts=2"), (capacity(1 << 30), rotational), 1);
        let script = script.unwrap();
        let [first, second, ..] = &script.jobs[..] else {
            panic!("{} processes", script.jobs.len());
        };
        assert_eq!((first.after, second.after), (None, Some(0)));
        let steps = first.steps.as_ref().unwrap();
        assert_eq!(steps.len(), reads);
        assert!(steps.iter().all(|step| step.beside == 0));
    }
}

#[test]
fn a_simulated_copy_writes_what_it_has_asked_for_and_reads_ahead_on_a_rotational_disk() {
    for (rotational, reads) in [(false, 5), (true, 3)] {
        let script = Script::new(&settings("size=5m"), (capacity(1 << 30), rotational), 1);
        let script = script.unwrap();
        let steps = script.jobs.last().unwrap().steps.as_ref().unwrap();
        let (mut asked, mut written, mut count) = (0, 0, 0);
        for step in steps.iter() {
            let bytes = step.access.length.to_bytes().as_u64();
            if step.access.op.is_write() {
                written += bytes;
            } else {
                asked += bytes;
                count += 1;
            }
            assert!(written <= asked, "{step:?}");
        }
        assert_eq!((written, asked, count), (5 << 20, 5 << 20, reads));
    }
}

#[test]
fn a_program_starts_later_beside_more_readers() {
    let time = |text| trial(text, "hdd-7200-fifo", "noop", 1).elapsed_s.unwrap();
    let (one, four) = (time("readers=1,size=16m"), time("readers=4,size=16m"));
    assert!(one > 0.0 && four > 1.5 * one, "{one} and {four}");
}

#[test]
fn a_simulated_trial_has_the_numbers_of_a_real_one_and_depends_on_its_seed_alone() {
    let run = |seed| trial("seconds=2,starts=2,size=16m", "ssd-sata", "none", seed);
    let outcome = run(1);
    let names: Vec<&str> = outcome.numbers.keys().map(String::as_str).collect();
    assert_eq!(names, ["copied MB/s", "slowest start s"]);
    assert!(outcome.numbers["copied MB/s"] > 10.0);
    // 20 ms between them, and they last as long as the trial.
    let reads = outcome.jobs[0].read.as_ref().unwrap().ios;
    assert!((50..=100).contains(&reads), "{reads}");
    assert_eq!(outcome, run(1));
    assert_ne!(outcome, run(2));
}

#[test]
fn files_that_do_not_fit_on_the_simulated_disk_are_refused() {
    let error = Script::new(&settings(""), (capacity(8 << 20), false), 1).unwrap_err();
    assert!(error.message.contains("8 MiB"), "{error}");
}

/// A tune of the same arm twice, with chance of its own for each trial: in `tune --simulate` the arms of a round share
/// their seed, so that the same arm twice differs in nothing.
fn verdict_on_the_same_arm_twice(model: &str, arm: &str, run: u64) -> Verdict {
    let mut race = Race {
        arms: 2,
        baseline: 0,
        loads: vec![race::Load::new(Better::Lower, Vec::new())],
        withdrawn: Vec::new(),
        rules: race::Rules::default(),
    };
    let mut judge = Judge::new(&race);
    let mut seeds = 1000 * run..;
    while judge.standing().next.is_some() {
        let mut value = || trial("", model, arm, seeds.next().unwrap()).elapsed_s;
        let round = vec![value(), value()];
        race.loads[0].rounds.push(round);
        judge.follow(&race);
    }
    judge.standing().loads.remove(0).verdict
}

/// `IOSCHED_TEST_TWINS` says how many runs of each model and scheduler. One in twenty may name a winner.
#[test]
fn the_same_arm_twice_has_no_winner_whatever_the_chance_of_its_trials() {
    let runs: usize =
        std::env::var("IOSCHED_TEST_TWINS").map_or(1, |runs| runs.parse().expect("a number"));
    for model in ["hdd-7200-fifo", "ssd-sata"] {
        for arm in ["mq-deadline", "bfq"] {
            let verdicts =
                (1..=runs as u64).map(|run| verdict_on_the_same_arm_twice(model, arm, run));
            let winners = verdicts
                .filter(|one| matches!(one, Verdict::Winner { .. }))
                .count();
            println!("{model} {arm}: {winners} winners");
            assert!(20 * winners <= runs, "{model} {arm}: {winners}");
        }
    }
}
