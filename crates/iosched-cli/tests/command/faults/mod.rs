//! Commands whose n-th system call fails, or that are killed before it or at any moment: whatever they were doing, the
//! machine is then as before or as committed, the next command finishes what is left, and what is said is one error.
//!
//! Which calls and moments: some, drawn by `IOSCHED_TEST_SEED`. `IOSCHED_TEST_FAULTS` says how many calls, or `all`, as
//! `make test-full` does, or which one: `Fail Open 17`, as a failure names it; `IOSCHED_TEST_KILLS` how many moments.

mod changes;
mod others;
mod runs;

use std::collections::BTreeMap;
use std::fmt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::chance::{Chance, number, seed};
use crate::common::traced::{self, End, Kind, Traced, Way};

/// So many faults of a command are tried where nothing else is said, and so many of one that measures, which is killed at
/// so many moments.
const DRAWN: usize = 16;
const DRAWN_OF_RUNS: usize = 4;
const KILLS: u64 = 3;

/// A command in surroundings that can be brought about again and again.
trait Situation {
    /// Brings them about.
    fn prepare(&mut self);

    fn command(&self) -> Command;

    /// What must hold after it, however it ended; `Err` says what does not.
    fn holds(&mut self, run: &Traced) -> Result<(), String>;
}

/// What happens at which call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    way: Way,
    /// Counted are its calls; those before which it matters to be killed if it is `None`.
    kind: Option<Kind>,
    n: usize,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self
            .kind
            .map_or("Any".to_owned(), |kind| format!("{kind:?}"));
        write!(f, "{:?} {kind} {}", self.way, self.n)
    }
}

impl Fault {
    fn is_wanted(self, kind: Kind) -> bool {
        self.kind
            .map_or_else(|| matters(kind), |wanted| wanted == kind)
    }

    /// All that can happen to a command that makes these calls.
    fn all(calls: &BTreeMap<Kind, usize>) -> Vec<Fault> {
        let kills: usize = calls
            .iter()
            .filter(|(kind, _)| matters(**kind))
            .map(|(_, n)| n)
            .sum();
        let kind = None;
        let mut all: Vec<Fault> = (1..=kills)
            .map(|n| Fault {
                way: Way::Kill,
                kind,
                n,
            })
            .collect();
        for (&kind, &count) in calls {
            let kind = Some(kind);
            for n in 1..=count {
                all.push(Fault {
                    way: Way::Fail,
                    kind,
                    n,
                });
                all.push(Fault {
                    way: Way::FailEver,
                    kind,
                    n,
                });
            }
        }
        all.retain(|fault| fault.way.is_possible());
        all
    }

    /// Those that are tried.
    fn chosen(calls: &BTreeMap<Kind, usize>, drawn: usize) -> Vec<Fault> {
        let mut all = Fault::all(calls);
        let wanted = std::env::var("IOSCHED_TEST_FAULTS").unwrap_or(drawn.to_string());
        if let Ok(count) = wanted.parse::<usize>() {
            let mut chance = Chance::new(seed());
            let drawn = (0..count.min(all.len())).map(|_| all.swap_remove(chance.below(all.len())));
            return drawn.collect();
        }
        all.retain(|fault| wanted == "all" || fault.to_string() == wanted);
        all
    }
}

/// What is changed stays after a kill; between two calls that change nothing, nothing is to be seen.
fn matters(kind: Kind) -> bool {
    kind.is_change() || matches!(kind, Kind::Ioctl | Kind::Mount | Kind::Fork | Kind::Lock)
}

/// Tries faults, and fails with all that does not hold.
fn at_calls(name: &str, drawn: usize, situation: &mut dyn Situation) {
    at_calls_of(name, drawn, situation, &[0]);
}

/// The same of a command that ends with one of these codes where nothing fails.
fn at_calls_of(name: &str, drawn: usize, situation: &mut dyn Situation, codes: &[i32]) {
    situation.prepare();
    let whole = traced::count(&mut situation.command());
    let is_sound = matches!(whole.end, End::Exited(code) if codes.contains(&code));
    assert!(is_sound, "{whole:?}");
    situation.holds(&whole).unwrap();

    let faults = Fault::chosen(&whole.calls, drawn);
    let calls: usize = whole.calls.values().sum();
    assert!(!faults.is_empty());
    let (mut ends, mut wrong) = (BTreeMap::new(), Vec::new());
    for &fault in &faults {
        eprintln!("{name}: {fault}"); // should it never end
        situation.prepare();
        let mut command = situation.command();
        let run = traced::run(
            &mut command,
            |kind| fault.is_wanted(kind),
            fault.n,
            fault.way,
        );
        // Threads take turns: it may have made fewer such calls this time.
        if run.hit.is_some() {
            let end = format!("{:?} {:?}", fault.way, run.end);
            *ends.entry(end).or_insert(0) += 1;
        }
        let verdict = is_well_said(fault, &run, codes).and_then(|()| situation.holds(&run));
        if let Err(what) = verdict {
            let hit = run.hit.as_deref().unwrap_or_default();
            let end = &run.end;
            wrong.push(format!(
                "{fault} ({hit}), {end:?}: {what}\n{}{}",
                run.stdout, run.stderr
            ));
        }
    }
    eprintln!(
        "{name}: {calls} calls, {} faults, {} wrong; {ends:?}",
        faults.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n---\n"));
    assert!(!ends.is_empty(), "not one of {faults:?} was reached");
}

/// Kills a command with SIGKILL at moments drawn from the time that it takes, and fails with all that does not hold.
fn at_moments(name: &str, situation: &mut dyn Situation) {
    situation.prepare();
    let begun = Instant::now();
    let whole = killed_after(&mut situation.command(), None);
    let takes = begun.elapsed();
    assert_eq!(whole.end, End::Exited(0), "{}", whole.stderr);
    situation.holds(&whole).unwrap();

    let mut chance = Chance::new(seed());
    let (mut ends, mut wrong) = (BTreeMap::new(), Vec::new());
    for _ in 0..number("IOSCHED_TEST_KILLS", KILLS) {
        situation.prepare();
        let moment = takes * u32::try_from(chance.below(1000)).expect("below 1000") / 1000;
        let run = killed_after(&mut situation.command(), Some(moment));
        *ends.entry(format!("{:?}", run.end)).or_insert(0) += 1;
        if let Err(what) = situation.holds(&run) {
            wrong.push(format!(
                "killed after {moment:?} of {takes:?}: {what}\n{}",
                run.stderr
            ));
        }
    }
    eprintln!("{name}: killed at random, {} wrong; {ends:?}", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n---\n"));
}

/// Runs a command, to its end or until it is killed.
fn killed_after(command: &mut Command, moment: Option<Duration>) -> Traced {
    // Not a pipe: what the command leaves would hold it open.
    let mut said = tempfile::tempfile().expect("a file");
    let stderr = said.try_clone().expect("a descriptor");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command
        .stderr(stderr)
        .spawn()
        .expect("the command under test");
    let pid = child.id();
    if let Some(moment) = moment {
        std::thread::sleep(moment);
        child.kill().expect("it is ours");
    }
    let status = child.wait().expect("it ends");
    Traced {
        end: status.code().map_or(End::Killed, End::Exited),
        calls: BTreeMap::new(),
        way: Way::Kill,
        hit: None,
        pid,
        stdout: String::new(),
        stderr: traced::all_of(&mut said),
    }
}

/// A command does not panic, and an error is one.
fn is_well_said(fault: Fault, run: &Traced, codes: &[i32]) -> Result<(), String> {
    /// The exit code of a Rust program that panics, and that of a dynamic loader that gives up.
    const PANIC: i32 = 101;
    const LOADER: i32 = 127;
    // Before `main` there is nobody to say it better.
    let is_of_rust = run.stderr.contains("/stack_overflow.rs:");
    if (run.stderr.contains("panicked at") && !is_of_rust) || run.end == End::Exited(PANIC) {
        return Err("it panics".into());
    }
    let is_sound = |code| codes.contains(&code) || code == LOADER;
    let is_failure = matches!(run.end, End::Exited(code) if !is_sound(code));
    let can_say = fault.kind != Some(Kind::Write) && is_failure;
    let errors = run
        .stderr
        .lines()
        .filter(|line| {
            let is_json = line.starts_with('{') && line.contains("\"error\":");
            line.starts_with("error: ") || is_json
        })
        .count();
    // A report of what is left says which, and of each why.
    let reports = [": not put back: ", ": not understood, kept: "];
    let is_reported = reports.iter().any(|report| run.stdout.contains(report));
    if can_say && errors != 1 && !is_reported {
        return Err(format!("it says {errors} errors"));
    }
    Ok(())
}
