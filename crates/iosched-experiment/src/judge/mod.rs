//! Results that somebody else made, as a record: the same analysis says what they show. What their design cannot show is
//! said first ([`Doubt`]).
//!
//! - `results`: what the files of other programs say
//! - `doubt`: too few runs, their order, stalls, and what differs besides the arms

mod doubt;
mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use iosched_machine::facts::MachineFacts;
use iosched_machine::failure::{Problem, exit};
use iosched_switch::Arm;

pub use doubt::{Doubt, DoubtKind};
use results::Run;

use crate::analysis::{Analysis, Conclusion};
use crate::load::Spec;
use crate::measure::Measured;
use crate::objective::Objective;
use crate::plan::{Plan, PlannedLoad, Rules, Target};
use crate::record::{Entry, Header, Record, StopReason};
use crate::trial::{Phases, Slot, Trial};

/// What is to be judged, and how.
#[derive(Debug, Clone)]
pub struct JudgeRequest {
    /// Arms and their files or folders; files without an arm name theirs.
    pub results: Vec<(Option<String>, PathBuf)>,
    /// The arm that the others are compared with, if it is not the first.
    pub baseline: Option<String>,
    /// The n-th runs of all arms are a round.
    pub pairs: bool,
    /// What decides, if not what each file says.
    pub objective: Option<Objective>,
    /// More of a value in CSV is better.
    pub higher_is_better: bool,
    /// The ratio of differences that do not matter.
    pub margin: f64,
}

/// What results show.
#[derive(Debug)]
pub struct Judgement {
    /// Load by load what their design cannot show.
    pub doubts: Vec<(String, Vec<Doubt>)>,
    /// The results as a record.
    pub record: Record,
    /// What it says; without a conclusion where a doubt is fatal.
    pub analysis: Analysis,
    /// The n-th runs of all arms were compared with one another.
    pub is_paired: bool,
    /// Loads that one arm alone has, and files of folders that hold no results.
    pub left_out: Vec<String>,
}

/// Reads the files and judges them.
pub fn judge(request: &JudgeRequest) -> Result<Judgement, Problem> {
    let mut left_out = Vec::new();
    let (arms, mut runs) = read(request, &mut left_out)?;
    let loads = common_loads(&arms, &mut runs, &mut left_out);
    let has_rounds = runs.iter().all(|(_, run)| run.round.is_some());
    let is_paired = request.pairs || has_rounds;
    let plan = plan(request, &arms, &loads, &runs, is_paired)?;
    let record = record(plan, &loads, &runs, has_rounds)?;
    let of_load = |load: &String| {
        let of_load = runs.iter().filter(|(_, run)| run.load == *load);
        let of_load: Vec<(usize, &Run)> = of_load.map(|(arm, run)| (*arm, run)).collect();
        (load.clone(), doubt::doubts(&arms, &of_load))
    };
    let doubts: Vec<(String, Vec<Doubt>)> = loads.iter().map(of_load).collect();
    let mut analysis = Analysis::of(&record);
    let is_fatal = doubts
        .iter()
        .flat_map(|(_, doubts)| doubts)
        .any(|doubt| doubt.is_fatal);
    if is_fatal && matches!(analysis.conclusion, Conclusion::Winner | Conclusion::Equal) {
        analysis.conclusion = Conclusion::Disturbed;
        (analysis.choice, analysis.action) = (None, None);
    }
    Ok(Judgement {
        doubts,
        record,
        analysis,
        is_paired,
        left_out,
    })
}

/// The names of the arms, and all runs, each with its arm.
type ArmsAndRuns = (Vec<String>, Vec<(usize, Run)>);

/// Reads all files.
fn read(request: &JudgeRequest, left_out: &mut Vec<String>) -> Result<ArmsAndRuns, Problem> {
    let mut arms: Vec<String> = Vec::new();
    let mut all: Vec<(usize, Run)> = Vec::new();
    for (name, path) in &request.results {
        let is_folder = path.is_dir();
        for file in files(path)? {
            let Some(runs) = results::read(&file, request.higher_is_better)? else {
                let what = format!(
                    "{} holds no results of fio, pgbench or hyperfine, and no values",
                    file.display()
                );
                if !is_folder {
                    return Err(Problem::usage(what).hint("results are fio's JSON or JSON+, pgbench's report, hyperfine's JSON, or lines `arm,round,value`"));
                }
                left_out.push(what);
                continue;
            };
            for run in runs {
                let is_same = |(_, other): &&(usize, Run)| {
                    let is_told = !run.jobs.is_empty() && other.began == run.began;
                    is_told && other.jobs == run.jobs
                };
                if let Some((_, other)) = all.iter().find(is_same) {
                    let what = format!(
                        "{} and {} are the same run",
                        other.file.display(),
                        file.display()
                    );
                    return Err(Problem::usage(what).hint("name each file once"));
                }
                let own = name.clone().or(run.arm.clone());
                let arm = own.ok_or_else(|| {
                    let what = format!("{} does not say of which arm it is", file.display());
                    Problem::usage(what).hint(format!(
                        "write `ARM={}`, for example `none={0}`",
                        file.display()
                    ))
                })?;
                let place = arms.iter().position(|known| *known == arm);
                let place = place.unwrap_or_else(|| {
                    arms.push(arm);
                    arms.len() - 1
                });
                all.push((place, run));
            }
        }
    }
    // A place in a file says nothing of other files.
    let is_of_several = all.iter().any(|(_, run)| run.file != all[0].1.file);
    for (_, run) in &mut all {
        run.began = run
            .began
            .filter(|began| !is_of_several || *began > MOST_PLACES);
    }
    if arms.len() < 2 {
        let what = format!(
            "there is nothing to compare {} with",
            arms.first().map_or("", |arm| arm)
        );
        return Err(
            Problem::usage(what).hint("give results of two arms or more: `none=a.json bfq=b.json`")
        );
    }
    Ok((arms, all))
}

/// A time when a run began is later than that, in seconds since 1970; a place in a file is not.
const MOST_PLACES: f64 = 1e6;

/// A file, or those of a folder, by the numbers in their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, Problem> {
    let failed = |cause: std::io::Error| {
        Problem::new(
            exit::NO_SUCH_DEVICE,
            format!("cannot open {}: {cause}", path.display()),
        )
    };
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.retain(|path| path.is_file());
    paths.sort_by_cached_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut parts: Vec<(String, u64)> = Vec::new();
        let mut rest = &*name;
        while !rest.is_empty() {
            let words = rest
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(rest.len());
            let (word, after) = rest.split_at(words);
            let digits = after
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(after.len());
            parts.push((word.to_owned(), after[..digits].parse().unwrap_or(0)));
            rest = &after[digits..];
        }
        parts
    });
    Ok(paths)
}

/// The loads that two arms or more ran. If there is none, what ran is taken for one, and the doubts say that it differs.
fn common_loads(
    arms: &[String],
    runs: &mut Vec<(usize, Run)>,
    left_out: &mut Vec<String>,
) -> Vec<String> {
    let mut loads: Vec<(String, BTreeSet<usize>)> = Vec::new();
    for (arm, run) in &*runs {
        match loads.iter_mut().find(|(load, _)| *load == run.load) {
            Some((_, of)) => drop(of.insert(*arm)),
            None => loads.push((run.load.clone(), BTreeSet::from([*arm]))),
        }
    }
    if loads.iter().all(|(_, of)| of.len() < 2) {
        for (_, run) in runs {
            let own = std::mem::replace(&mut run.load, "load".to_owned());
            run.settings
                .insert("load".to_owned(), own.replace(' ', ","));
        }
        return vec!["load".to_owned()];
    }
    loads.retain(|(load, of)| {
        if let (1, Some(arm)) = (of.len(), of.first()) {
            left_out.push(format!("{load} was run with {} alone", arms[*arm]));
        }
        of.len() > 1
    });
    runs.retain(|(_, run)| loads.iter().any(|(load, _)| *load == run.load));
    loads.into_iter().map(|(load, _)| load).collect()
}

fn plan(
    request: &JudgeRequest,
    arms: &[String],
    loads: &[String],
    runs: &[(usize, Run)],
    is_paired: bool,
) -> Result<Plan, Problem> {
    let baseline = match &request.baseline {
        None => 0,
        Some(name) => arms.iter().position(|arm| arm == name).ok_or_else(|| {
            Problem::usage(format!(
                "--baseline {name} is no arm: there are {}",
                arms.join(", ")
            ))
        })?,
    };
    let objective = |load: &String| {
        let own = runs.iter().find(|(_, run)| run.load == *load);
        request
            .objective
            .or(own.map(|(_, run)| run.objective))
            .unwrap_or(Objective::Throughput)
    };
    let load = |load: &String| PlannedLoad {
        name: load.clone(),
        weight: 1.0,
        objective: objective(load),
        // It is never run: what was run is in the results.
        spec: Spec::JobFile("[results]\nrw=randread\nruntime=1\n".to_owned()),
        test: None,
        note: None,
        is_control: false,
        turns: 1,
        runtime_s: None,
        counted_s: None,
        is_runtime_auto: true,
        wait_until_steady: false,
    };
    let most = |load: &String, arm: usize| {
        runs.iter()
            .filter(|(of, run)| *of == arm && run.load == *load)
            .count()
    };
    let all = loads
        .iter()
        .flat_map(|load| (0..arms.len()).map(move |arm| most(load, arm)));
    let rounds = all
        .max()
        .and_then(|rounds| u32::try_from(rounds).ok())
        .unwrap_or(u32::MAX)
        .max(2);
    Ok(Plan {
        target: Target::File {
            path: PathBuf::new(),
            device: String::new(),
        },
        given_up: None,
        emulated: None,
        own_disk: None,
        disks: Vec::new(),
        arms: arms.iter().map(Arm::plain).collect(),
        baseline,
        active: None,
        loads: loads.iter().map(load).collect(),
        rules: Rules {
            margin: request.margin,
            fixed_rounds: Some(rounds),
            is_unpaired: !is_paired,
            max_rounds: rounds,
            ..Rules::default()
        },
        seed: 0,
        ramp_s: 0.0,
        precondition: false,
        split: false,
    })
}

fn record(
    plan: Plan,
    loads: &[String],
    runs: &[(usize, Run)],
    has_rounds: bool,
) -> Result<Record, Problem> {
    let mut rounds: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let told: BTreeSet<u32> = runs.iter().filter_map(|(_, run)| run.round).collect();
    let mut entries = Vec::new();
    for (arm, run) in runs {
        let load = loads.iter().position(|load| *load == run.load).unwrap_or(0);
        let objective = plan.loads[load].objective;
        let value = objective.of(&run.metrics);
        let may_be = |value: f64| value.is_finite() && (value > 0.0 || objective.may_be_zero());
        if !value.is_some_and(may_be) {
            let (file, words) = (run.file.display(), objective.words());
            let found = value.map_or("none".to_owned(), |value| value.to_string());
            return Err(Problem::usage(format!("{file}: its {words} is {found}"))
                .hint("--metric names another number"));
        }
        let next = rounds.entry((load, *arm)).or_default();
        let round = match run.round {
            Some(round) if has_rounds => {
                u32::try_from(told.range(..round).count()).unwrap_or(u32::MAX)
            }
            _ => *next,
        };
        *next += 1;
        if !seen.insert((load, round, *arm)) {
            let (file, arm) = (run.file.display(), &plan.arms[*arm].scheduler);
            let what = format!("{file}: {arm} has two values of one round");
            return Err(Problem::usage(what)
                .hint("give each run a round of its own, or leave the rounds out"));
        }
        entries.push(Entry::Trial(Box::new(Trial {
            slot: Slot {
                load,
                round,
                arm: *arm,
            },
            sequence: 0,
            started_unix_s: run.began.unwrap_or(0.0),
            phases: Phases::default(),
            states: Vec::new(),
            measured: Measured::default(),
            jobs: run.jobs.clone(),
            metrics: run.metrics.clone(),
            counted_s: None,
            runtime_s: None,
            interference: None,
            beside: Vec::new(),
        })));
    }
    entries.push(Entry::Finished {
        at_unix_s: 0.0,
        stop: StopReason::RoundsSpent,
        is_cut: false,
    });
    let header = Header::new(Vec::new(), 0.0, MachineFacts::default(), plan);
    Ok(Record { header, entries })
}
