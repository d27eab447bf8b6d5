//! `iosched tune`: the main job. Measure every scheduler under a load, in rounds of random order,
//! until the answer is known; print it with intervals; leave the machine as it was.

mod answer;
mod args;
pub(super) use args::parse_define;
mod error;
mod place;
mod request;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use iosched_emulate::{Condition, EmulatedDisk};
use iosched_experiment::analysis::Analysis;
use iosched_experiment::event::{Observer, Silent};
use iosched_experiment::load::{Spec, fio};
use iosched_experiment::plan::{self, OwnDisk, Plan, PlanRequest, PlannedLoad, Target};
use iosched_experiment::record::{self, Entry, Header, Record, Recorder, StopReason};
use iosched_experiment::run::{self, RunError, RunOptions};
use iosched_experiment::schedule::{Next, RunProgress};
use iosched_machine::clock::unix_time;
use iosched_machine::device::GivenUp;
use iosched_machine::facts::{self, MachineFacts};
use iosched_machine::failure::{Failure, Problem, exit};
use iosched_machine::host::Host;
use iosched_machine::process::{Stop, User};
use iosched_policy::set::{self, Settled};
use iosched_report::{self as report, named::Names};
use iosched_switch::lock;
use iosched_switch::{Arm, Layer, modern_name, renamed};
use serde::Serialize;
use serde_json::{Value, json};

use self::args::consent;
pub(crate) use self::args::{TuneArgs, parse_better, parse_objective};
use self::error::{complete, fixed_by_record};
use self::place::{RunPlace, check_can_emulate, end_disk, make, named_disk, say_emulated};
use self::request::wanted;
use super::{Outcome, answer_code, boxed, loads, persist, stop_on_signals, take_turn, undo};
use crate::io_priority;
use crate::output::Output;
use crate::progress::{JsonLines, Progress};
use crate::values::Span;

/// What every step of the command needs.
struct Session<'a> {
    args: &'a TuneArgs,
    host: Host,
    stop: Stop,
    user: Option<User>,
    output: &'a Output,
    begun: Instant,
}

/// Runs `iosched tune`.
pub(crate) fn run(args: &TuneArgs, output: &Output) -> Outcome {
    if args.loads.iter().any(|load| load == "help") {
        return loads::run(output);
    }
    io_priority::forget_niceness();
    if let Some(program) = &args.fio {
        fio::use_program(program);
    }
    let session = Session {
        args,
        host: Host::live(),
        stop: Stop::new(),
        user: args.user.as_deref().map(find_user).transpose()?,
        output,
        begun: Instant::now(),
    };
    stop_on_signals(&session.stop);
    if let Some(directory) = &args.resume {
        return session.resume(directory);
    }
    // Without a target the disk is made for the run, or simulated.
    check_outlasts_run(args, args.target.is_some())?;
    if let Some(out) = &args.out {
        record::check_new(out).map_err(boxed)?;
    }
    let place = RunPlace::choose(args, &session.host, output)?;
    let outcome = session.start(&place);
    place.leave(output);
    outcome
}

/// What is to be left on a disk needs one that is there after the run.
fn check_outlasts_run(args: &TuneArgs, outlasts: bool) -> Result<(), Box<dyn Failure>> {
    let given = [("--apply", args.apply), ("--persist", args.persist)];
    match given.into_iter().find(|&(_, is_given)| is_given) {
        Some((option, _)) if !outlasts => {
            let message =
                format!("{option} is for a disk that is there after the run, and this one is not");
            let hint = format!("name the disk to measure, or leave {option} out");
            Err(Problem::usage(message).hint(hint).into())
        }
        _ => Ok(()),
    }
}

impl Session<'_> {
    /// A new run: plan, then measure unless the plan alone was asked for.
    fn start(&self, place: &RunPlace) -> Outcome {
        let Session {
            args, host, output, ..
        } = self;
        if let RunPlace::Target(target) = place
            && !args.dry_run
        {
            // What stands inside is the baseline: not what an interrupted run left there.
            put_back(host, &plan::served_disks(host, target), output)?;
        }
        let wanted = wanted(args, place);
        let mut plan = Plan::new(&wanted, host).map_err(boxed)?;
        if let Some(path) = path_of(args, &plan) {
            run::check_links(path, self.user.as_ref()).map_err(boxed)?;
        }
        place.say_simulated(output);
        say_renamed(&wanted, &plan, output);
        plan.emulated = place.own_disk().map(OwnDisk::described);
        plan.own_disk = place.own_disk().filter(|_| args.emulate.is_some()).cloned();
        let programs = plan.programs().map_err(boxed)?;
        self.check_can_leave(&plan)?;
        self.check_timeout(&plan)?;
        if args.out.is_none() {
            let directory = new_directory(place.name(), unix_time());
            record::check_can_make(&directory).map_err(boxed)?;
        }
        if args.dry_run {
            plan.foresee(host).map_err(boxed)?;
            for disk in &plan.disks {
                lock::check_may_lock(host, disk).map_err(boxed)?;
            }
            run::check_way(&plan.target, self.user.as_ref()).map_err(boxed)?;
            if !matches!(place, RunPlace::LikeEmulated { .. }) {
                self.note_leftovers(&plan.disks)?;
            }
            place.leave_out_of(&mut plan, output);
            if output.is_json() {
                let mut value = Names::of(&plan).plan(&plan);
                value["prospect"] = json!(plan.prospect());
                output.json(&value);
            } else {
                output.text(&report::text::plan(&plan));
            }
            return Ok(exit::OK);
        }
        settle(host, &plan, &self.stop, output)?;
        let now = unix_time();
        let machine = MachineFacts {
            file_system: plan.target.file_system(host),
            ..MachineFacts::read(host, &plan.disks, programs)
        };
        let directory = args.out.clone();
        let directory = directory.unwrap_or_else(|| new_directory(place.name(), now));
        let command = facts::command_line();
        let header = Header::new(command, now, machine, plan);
        let recorder = Recorder::create(&directory, header).map_err(boxed)?;
        self.measure(recorder, place.emulated())
    }

    /// What is to be done with the answer can be done, whichever it is.
    fn check_can_leave(&self, plan: &Plan) -> Result<(), Box<dyn Failure>> {
        let outlasts = plan.emulated.is_none() && !plan.disks.is_empty();
        check_outlasts_run(self.args, outlasts)?;
        if !self.args.persist {
            return Ok(());
        }
        if plan.is_served() {
            let message = "--persist keeps the answer of a disk for later boots, and an emulated disk is gone by then";
            let hint = "leave --persist out; --apply leaves the answer inside as long as the disk is there";
            return Err(Problem::usage(message).hint(hint).into());
        }
        persist::check_can_keep(plan, &self.host)
    }

    /// Only what hangs is ended by `--timeout`.
    fn check_timeout(&self, plan: &Plan) -> Result<(), Box<dyn Failure>> {
        let Some(Span(timeout)) = self.args.timeout else {
            return Ok(());
        };
        for (at, load) in plan.loads.iter().enumerate() {
            if let Some(takes) = plan.trial_duration(at).filter(|&takes| timeout <= takes) {
                let (timeout, takes) = (report::words::span(timeout), report::words::span(takes));
                let message = format!(
                    "--timeout {timeout} ends every trial of {}, which takes {takes}",
                    load.name
                );
                let hint = "--timeout is for a load that hangs: give it more, give trials less (--runtime), or leave it out";
                return Err(Problem::usage(message).hint(hint).into());
            }
        }
        Ok(())
    }

    /// Goes on with a record, or says what that would be.
    fn resume(&self, directory: &Path) -> Outcome {
        let options = self.args.of_the_plan();
        if !options.is_empty() {
            let is_over =
                Record::load(directory).is_ok_and(|record| record.stop_reason().is_some());
            let goes_on_without = self.has_more() || !is_over;
            return Err(boxed(fixed_by_record(options, directory, goes_on_without)));
        }
        if self.args.dry_run {
            return self.say_rest(directory);
        }
        let mut recorder = Recorder::resume(directory, self.user.as_ref()).map_err(boxed)?;
        self.check_may_go_on(recorder.record(), directory)?;
        let disk = self.make_again(recorder.record())?;
        if let Some(disk) = &disk {
            recorder.move_to_disk(disk.device());
        }
        let outcome = self.go_on(recorder, disk.as_ref());
        if let Some(disk) = disk {
            end_disk(disk, self.output);
        }
        outcome
    }

    /// The emulated disk that a record's run made for itself, as it was and empty again.
    fn make_again(&self, record: &Record) -> Result<Option<EmulatedDisk>, Box<dyn Failure>> {
        let plan = &record.header.plan;
        let own = match (&plan.own_disk, &plan.emulated) {
            (Some(own), _) => own.clone(),
            (None, Some(model)) => {
                check_can_emulate(&self.host)?;
                named_disk(model)?
            }
            (None, None) => return Ok(None),
        };
        let disk = make(&own)?;
        say_emulated("Going on with", &disk, &own, self.output);
        Ok(Some(disk))
    }

    /// Prints what is left of a record's run: nothing is written, no disk is made.
    fn say_rest(&self, directory: &Path) -> Outcome {
        let Session { host, output, .. } = self;
        let mut record = Record::load(directory).map_err(boxed)?;
        record::check_writers(directory, self.user.as_ref()).map_err(boxed)?;
        self.check_may_go_on(&record, directory)?;
        if record.header.plan.emulated.is_some() {
            check_can_emulate(host)?;
        } else {
            self.check_same_machine(&record, directory)?;
            record.header.plan.check_target(host).map_err(boxed)?;
            self.foresee_permission(&record)?;
        }
        record.push(self.resumed(None));
        if output.is_json() {
            output.json(&Rest::of(&record));
        } else {
            output.text(report::text::rest(&record, output.width()).trim_end());
        }
        Ok(exit::OK)
    }

    /// Whether a larger budget is given.
    fn has_more(&self) -> bool {
        self.args.rounds.is_some() || self.args.budget.is_some()
    }

    /// A run that has come to its end goes on only with a larger budget, and never once it is decided.
    fn check_may_go_on(&self, record: &Record, directory: &Path) -> Result<(), Box<dyn Failure>> {
        record.header.plan.check_can_go_on()?;
        let may_go_on = |stop| self.has_more() && stop != StopReason::Decided;
        if let Some(why) = record.stop_reason().filter(|&stop| !may_go_on(stop)) {
            let going_on = report::text::going_on(record, &Analysis::of(record), directory);
            return Err(complete(directory, report::words::stop_reason(why), going_on).into());
        }
        self.check_goes_on(record, directory)?;
        self.check_can_leave(&record.header.plan)?;
        self.check_timeout(&record.header.plan)
    }

    /// What is given now leaves something to do. A budget counts from the beginning of the run, not from now.
    fn check_goes_on(&self, record: &Record, directory: &Path) -> Result<(), Box<dyn Failure>> {
        let budget = self.args.budget.map(|Span(budget)| budget);
        let given = [
            self.args.rounds.map(|rounds| format!("--rounds {rounds}")),
            budget.map(|budget| format!("--budget {}", report::words::span(budget))),
        ];
        let given: Vec<String> = given.into_iter().flatten().collect();
        if given.is_empty() {
            return Ok(());
        }
        let mut going_on = record.clone();
        going_on.push(self.resumed(None));
        let plan = &going_on.header.plan;
        plan.check().map_err(boxed)?;
        let progress = RunProgress::of(plan, &going_on);
        let Next::Done(stop) = progress.next() else {
            return Ok(());
        };
        let so_far = match stop {
            StopReason::TimeSpent => {
                format!("time so far: {}", report::words::span(progress.spent()))
            }
            _ => format!("complete rounds so far: {}", progress.rounds()),
        };
        let (given, why) = (given.join(" and "), report::words::stop_reason(stop));
        let message = format!("with {given} the run would not go on: {why} ({so_far})");
        let going_on = report::text::going_on(record, &Analysis::of(record), directory);
        let example = going_on.map_or(String::new(), |command| format!(", as in: {command}"));
        let hint = format!("what was measured before counts: give more{example}");
        Err(Problem::usage(message).hint(hint).into())
    }

    /// Trials of another disk or kernel are not to be mixed with those of the record.
    fn check_same_machine(
        &self,
        record: &Record,
        directory: &Path,
    ) -> Result<(), Box<dyn Failure>> {
        let header = &record.header;
        let here = MachineFacts::read(&self.host, &header.plan.disks, Vec::new());
        match here.difference_that_matters(&header.machine) {
            None => Ok(()),
            Some(difference) => {
                let directory = directory.display();
                let message = format!(
                    "the record in {directory} is of another machine or kernel: {difference}"
                );
                let hint = "its trials cannot be continued here: start a new run";
                Err(Problem::new(exit::BAD_RECORD, message).hint(hint).into())
            }
        }
    }

    /// Whether a run may go on to write, for a dry run. What an interrupted run left is put back before the
    /// real one asks; here it is only named.
    fn foresee_permission(&self, record: &Record) -> Result<(), Box<dyn Failure>> {
        let disks = &record.header.plan.disks;
        if self.note_leftovers(disks)? {
            return Ok(());
        }
        self.permission(record).map(drop)
    }

    /// What the user gives up, where the run writes to a raw device.
    fn permission(&self, record: &Record) -> Result<Option<GivenUp>, Box<dyn Failure>> {
        run::may_go_on(&self.host, record, &consent(self.args)).map_err(boxed)
    }

    /// Says what an interrupted run left on these disks; true if it left anything. What a living command will put
    /// back is an error, as in a real run.
    fn note_leftovers(&self, disks: &[String]) -> Result<bool, Box<dyn Failure>> {
        let leftovers = set::left_by_dead(&self.host, disks).map_err(boxed)?;
        for leftover in &leftovers {
            self.output.warn(&format!(
                "note: what an interrupted run left will be put back first, so the baseline may be \
                 another one: {}",
                leftover.entry.command
            ));
        }
        Ok(!leftovers.is_empty())
    }

    /// What a record says of its being gone on with.
    fn resumed(&self, given_up: Option<GivenUp>) -> Entry {
        Entry::Resumed {
            given_up: given_up.map(Box::new),
            at_unix_s: unix_time(),
            max_rounds: self.args.rounds,
            time_budget_s: self.args.budget.map(|span| span.0.as_secs_f64()),
        }
    }

    /// Goes on with a record whose disk is there, if it is the same disk and kernel.
    fn go_on(&self, mut recorder: Recorder, disk: Option<&EmulatedDisk>) -> Outcome {
        self.check_same_machine(recorder.record(), recorder.directory())?;
        let plan = &recorder.record().header.plan;
        settle(&self.host, plan, &self.stop, self.output)?;
        plan.check_target(&self.host).map_err(boxed)?;
        let given_up = self.permission(recorder.record())?;
        recorder.append(self.resumed(given_up)).map_err(boxed)?;
        self.measure(recorder, disk)
    }

    /// Whether the page is not wanted: now, or when the run began.
    fn leaves_out_page(&self, record: &Record) -> bool {
        let began_without = |word: &String| word == "--no-html";
        self.args.no_html || record.header.command.iter().any(began_without)
    }

    /// Prints the answer, below the notes on the run.
    fn say(&self, recorder: &Recorder, analysis: &Analysis) {
        let (record, directory) = (recorder.record(), recorder.directory());
        let answer = report::text::record(record, analysis, directory, self.output.widths());
        self.output.text(&format!("\n{answer}"));
    }

    /// Runs the plan, prints the answer, applies it if asked.
    fn measure(&self, mut recorder: Recorder, disk: Option<&EmulatedDisk>) -> Outcome {
        let output = self.output;
        let health = || {
            let is_there = |disk: &EmulatedDisk| {
                let condition = disk.status().condition;
                matches!(condition, Condition::Running | Condition::NotAnswering)
            };
            let is_running = disk.is_none_or(is_there);
            (!is_running).then(|| "the emulated disk's server has ended".to_owned())
        };
        let options = RunOptions {
            begun: self.begun,
            trial_limit: self.args.timeout.map(|span| span.0),
            user: self.user.clone(),
            health: &health,
        };
        let mut progress = Progress::new(&recorder.record().header.plan);
        let mut lines = JsonLines::new(&recorder.record().header.plan);
        let observer: &mut dyn Observer = match (output.is_json(), output.is_quiet()) {
            (true, _) => &mut lines,
            (_, true) => &mut Silent,
            _ => &mut progress,
        };
        let ended = run::run(&self.host, &mut recorder, &options, &self.stop, observer);
        progress.finish();
        let record = recorder.record();
        if let Err(error) = ended {
            if !output.is_json() && record.trials().count() > 0 {
                let analysis = Analysis::of(record);
                self.say(&recorder, &analysis);
            }
            match error {
                // The remedy is the same command with more time, which needs the directory's name.
                RunError::NoTimeLeft { .. } if self.args.resume.is_none() => {
                    recorder.remove_if_only_prepared();
                }
                _ if error.exit_code() == exit::INTERRUPTED => {}
                _ => recorder.remove_if_empty(),
            }
            return Err(boxed(error));
        }
        let analysis = Analysis::of(record);
        if !output.is_json() {
            self.say(&recorder, &analysis);
        }
        if !self.leaves_out_page(record) {
            answer::write_page(&recorder, &analysis, output);
        }
        if self.args.persist {
            let directory = recorder.directory();
            persist::keep_answer(record, &analysis, directory, &self.host, &self.stop, output)?;
        }
        if self.args.apply {
            let directory = recorder.directory();
            answer::apply(
                &record.header.plan,
                &analysis,
                directory,
                &self.host,
                &self.stop,
                output,
            )?;
        }
        Ok(if self.args.exit_code {
            answer_code(&analysis)
        } else {
            exit::OK
        })
    }
}

/// Says which schedulers have taken the place of those that were asked for by their old names.
fn say_renamed(wanted: &PlanRequest, plan: &Plan, output: &Output) {
    let asked = wanted.arms.iter().chain(&wanted.baseline);
    let asked = asked.filter_map(|arm| Arm::parse(arm).ok());
    // One that is served keeps its name, and may stand beside the kernel's.
    let is_in_plan = |asked: &Arm| {
        let kernels = asked.layer == Some(Layer::Kernel);
        let mut arms = plan.arms.iter().filter(|arm| !(kernels && arm.is_served()));
        arms.any(|arm| arm.scheduler == asked.scheduler)
    };
    let renamed: BTreeSet<String> = asked
        .filter(|asked| !is_in_plan(asked))
        .filter_map(|asked| renamed(&asked.scheduler, modern_name(&asked.scheduler)?))
        .collect();
    for note in renamed {
        output.warn(&format!("note: {note}"));
    }
}

/// The path by which the user named the target, unless it was a kernel name.
fn path_of<'a>(args: &'a TuneArgs, plan: &Plan) -> Option<&'a Path> {
    let target = args.target.as_deref()?;
    let is_path = target.contains('/') || !matches!(plan.target, Target::Device { .. });
    is_path.then(|| Path::new(target))
}

/// What a run that goes on would do, for programs.
#[derive(Serialize)]
struct Rest {
    /// With the budget that it would have now.
    plan: Value,
    rounds_done: u32,
    trials_done: usize,
    /// Trials that the round still needs, in their order.
    next: Value,
    trials_at_most: u32,
    time_at_most_s: f64,
}

impl Rest {
    fn of(record: &Record) -> Rest {
        let plan = &record.header.plan;
        let progress = RunProgress::of(plan, record);
        let names = Names::of(plan);
        Rest {
            plan: names.plan(plan),
            rounds_done: progress.rounds(),
            trials_done: record.trials().count(),
            next: names.slots(&progress.left_in_round()),
            trials_at_most: progress.trials_at_most(),
            time_at_most_s: progress.at_most().as_secs_f64(),
        }
    }
}

/// A directory below `iosched-results` that is not there yet.
fn new_directory(target: &str, now: f64) -> PathBuf {
    let name = run::record_name(Path::new(target), now);
    let results = Path::new("iosched-results");
    let numbered = (2..).map(|number| results.join(format!("{name}-{number}")));
    std::iter::once(results.join(&name))
        .chain(numbered)
        .find(|directory| !directory.exists())
        .expect("some number is free")
}

fn find_user(name: &str) -> Result<User, Box<dyn Failure>> {
    let unknown = |error| {
        let message = format!("cannot find out who {name:?} is: {error}");
        Problem::new(exit::FAILURE, message).hint(format!("`id {name}` should say it"))
    };
    let nobody = || {
        Problem::usage(format!("there is no user {name:?}"))
            .hint("`getent passwd` lists the users of this machine")
    };
    Ok(User::find(name).map_err(unknown)?.ok_or_else(nobody)?)
}

/// What an earlier run left of these disks is put back before the baseline is read.
fn settle(host: &Host, plan: &Plan, stop: &Stop, output: &Output) -> Result<(), Box<dyn Failure>> {
    if !plan.disks.is_empty() {
        undo::finish_or_note(host, stop, output);
    }
    put_back(host, &plan.disks, output)?;
    if output.is_json() {
        return Ok(());
    }
    for note in plan.notes() {
        output.note(note);
    }
    match &plan.target {
        Target::Directory { device, .. } => {
            let is_command = |load: &PlannedLoad| matches!(load.spec, Spec::Command(_));
            let stays = if plan.loads.iter().any(is_command) {
                " What a command writes where it runs stays."
            } else {
                ""
            };
            output.note(&format!(
                "Measuring on {device}; test files are removed afterwards.{stays}"
            ));
        }
        Target::FileSystem {
            device,
            file_system,
            ..
        } => output.note(&format!(
            "Measuring on {device}, on a file system of its own ({}) that is removed afterwards.",
            file_system.name()
        )),
        Target::Device { .. } | Target::File { .. } | Target::Simulated(_) => {}
    }
    Ok(())
}

/// Puts back what earlier runs left of these disks.
fn put_back(host: &Host, disks: &[String], output: &Output) -> Result<(), Box<dyn Failure>> {
    let settled = set::settle(host, disks).map_err(boxed)?;
    for note in settled.iter().flat_map(Settled::notes) {
        output.warn(&format!("note: {note}"));
    }
    Ok(())
}
