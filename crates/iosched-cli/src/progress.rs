//! What a run says while it works: one line with the trial and the time left on a terminal, a line per round in a log,
//! JSON lines for a program.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use iosched_experiment::event::{Observer, RunEvent};
use iosched_experiment::plan::Plan;
use iosched_machine::visible::{self, visible_json};
use iosched_report::named::{self, Names};
use iosched_report::{text, words};
use serde_json::Value;

use crate::streams;
use crate::undone::describe;

/// For people, on standard error.
pub(crate) struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
    plan: Plan,
    /// Trials that were started, before this sitting too.
    trials: usize,
    trial: String,
    /// Who is ahead, after the last round.
    ahead: String,
    expected_s: f64,
    at_most_s: Option<f64>,
    /// A decision is out of reach if a trial takes longer, s: until that was said, and where only trials can tell.
    longest_s: Option<f64>,
}

impl Progress {
    /// Nothing is drawn before the run starts.
    pub(crate) fn new(plan: &Plan) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(100), ProgressDrawTarget::hidden());
        let style =
            ProgressStyle::with_template("{bar:6} {wide_msg}").expect("the template is right");
        bar.set_style(style.progress_chars("=> "));
        Progress {
            bar,
            is_terminal: std::io::stderr().is_terminal(),
            plan: plan.clone(),
            trials: 0,
            trial: String::new(),
            ahead: String::new(),
            expected_s: 0.0,
            at_most_s: None,
            longest_s: longest_trial(plan),
        }
    }

    /// Says once that trials are too long for a decision within the budget.
    fn say_too_long(&mut self, load: &str) {
        if self
            .longest_s
            .is_none_or(|longest| self.expected_s <= longest)
        {
            return;
        }
        self.longest_s = None;
        let rounds = self.plan.prospect().rounds_to_decide;
        let needed = self.expected_s * self.plan.arms.len() as f64 * f64::from(rounds);
        let span = |seconds| words::span(Duration::from_secs_f64(seconds));
        self.say(&format!(
            "the budget cannot hold a decision: a trial of {load} takes {}, {rounds} rounds {}; give it more \
             --budget (with --resume), a smaller load or fewer --arms",
            span(self.expected_s),
            span(needed)
        ));
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if self.is_terminal && !streams::stderr().wait_for_room() {
            // It would be drawn once more when it goes.
            self.bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        self.bar.finish_and_clear();
    }

    /// How long the run goes on, so long after the trial began: a bound only where there is a budget of time.
    fn left(&self, elapsed_s: f64) -> String {
        let Some(at_most_s) = self.at_most_s else {
            return String::new();
        };
        let left = words::span(Duration::from_secs_f64((at_most_s - elapsed_s).max(0.0)));
        match self.plan.rules.time_budget_s {
            Some(_) => format!("; at most {left} left"),
            None => format!("; up to about {left} left"),
        }
    }

    fn say(&self, line: &str) {
        let mut stderr = streams::stderr();
        if !stderr.wait_for_room() {
            return; // a bar has no room to be taken away in either
        }
        self.bar.suspend(|| {
            // A closed standard error is no reason to stop measuring.
            let _ = stderr.write_all(format!("{}\n", visible::line(line)).as_bytes());
        });
    }
}

/// How long a trial may take for a decision within the budget of time, s, where only trials can tell.
fn longest_trial(plan: &Plan) -> Option<f64> {
    let prospect = plan.prospect();
    let longest = prospect
        .longest_trial_s
        .filter(|_| prospect.rounds.is_none())?;
    let turns: u32 = plan.loads.iter().map(|load| load.turns).sum();
    // Before the first trial what it takes besides its load is all that is expected.
    Some((longest * f64::from(turns)).max(1.0))
}

impl Observer for Progress {
    fn event(&mut self, event: &RunEvent<'_>) {
        match event {
            RunEvent::Started {
                plan,
                directory,
                trials_done,
            } => {
                self.say(&text::plan_in_short(plan));
                self.trials = *trials_done;
                if *trials_done > 0 {
                    self.say(&format!(
                        "going on after {trials_done} trials in {}",
                        directory.display()
                    ));
                }
                if self.is_terminal {
                    self.bar.set_draw_target(ProgressDrawTarget::stderr());
                }
            }
            RunEvent::TrialStarted {
                arm,
                load,
                expected_s,
                at_most_s,
                ..
            } => {
                self.trials += 1;
                let trial = format!("trial {}: {load} with {arm}", self.trials);
                self.trial = visible::line(&trial).into_owned();
                self.expected_s = expected_s.max(0.1);
                self.at_most_s = *at_most_s;
                self.say_too_long(load);
            }
            // The bar may wait, the run may not.
            RunEvent::Tick { .. } if self.is_terminal && !streams::stderr().has_room() => {}
            RunEvent::Tick { elapsed_s } => {
                let share = (elapsed_s / self.expected_s).min(1.0) * 100.0;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a percentage"
                )]
                self.bar.set_position(share as u64);
                self.bar.set_message(format!(
                    "{}{}{}",
                    self.trial,
                    self.left(*elapsed_s),
                    self.ahead
                ));
            }
            RunEvent::Estimate { standing, .. } if self.is_terminal => {
                let leader = standing
                    .decisive()
                    .leader
                    .map(|arm| self.plan.arm_label(arm));
                self.ahead = leader.map_or(String::new(), |arm| format!("; best so far: {arm}"));
            }
            RunEvent::Estimate { rounds, standing } => {
                self.say(&text::estimate(&self.plan, *rounds, standing));
            }
            RunEvent::Restored { undone } => {
                self.finish();
                for one in *undone {
                    self.say(&describe(one));
                }
            }
            other => {
                if let Some(line) = line_of(other) {
                    self.say(&line);
                }
            }
        }
    }
}

/// What an event says that is nothing but a line, or has nothing to say.
fn line_of(event: &RunEvent<'_>) -> Option<String> {
    Some(match event {
        RunEvent::Preparing { what } => (*what).to_owned(),
        RunEvent::SteadyRun {
            load,
            throughput_bytes_per_s,
            is_steady,
        } => {
            let runs = throughput_bytes_per_s.len();
            let last = throughput_bytes_per_s.last().copied().unwrap_or(0.0) / 1e6;
            let so = if *is_steady {
                "steady"
            } else {
                "not steady yet"
            };
            format!("{load}: run {runs} before measuring, {last:.3} MB/s: {so}")
        }
        RunEvent::Adjusted { arm, adjusted } => format!("note: {arm}: {adjusted}"),
        RunEvent::NotCounted { disk } => format!(
            "note: the kernel counts nothing for {disk} (queue/iostats is 0): mean times are missing; \
             utilisation, reads and writes show 0"
        ),
        RunEvent::Moved { directory, now } => {
            format!(
                "note: a load moved {directory}, in which it worked, to {now}: it is not removed"
            )
        }
        RunEvent::NotWatched { reason } => {
            format!("note: whose I/O reaches the disk is not told apart: {reason}")
        }
        RunEvent::NoSplit { reason } => {
            format!("note: time in the queue and at the disk is not recorded apart: {reason}")
        }
        RunEvent::LeadIn {
            arm,
            load,
            ratio,
            runs,
        } => format!(
            "{load} depends on the arm before: after {arm}, {:.2} times what it is after others; the run \
             begins anew, with {} runs of the load in each trial, of which the last counts",
            ratio.estimate,
            runs + 1
        ),
        RunEvent::TrialVoid {
            arm,
            load,
            trial,
            is_repeated,
        } => {
            let then = if *is_repeated { "; it is repeated" } else { "" };
            format!("void trial ({load}, {arm}): {}{then}", trial.reason)
        }
        RunEvent::ArmLeft { arm, load, reason } => format!("{arm} leaves {load}: {reason}"),
        RunEvent::Started { .. }
        | RunEvent::TrialStarted { .. }
        | RunEvent::Tick { .. }
        | RunEvent::TrialEnded { .. }
        | RunEvent::Estimate { .. }
        | RunEvent::Restored { .. }
        | RunEvent::Finished { .. } => return None,
    })
}

/// For programs: one JSON object per event on standard output.
pub(crate) struct JsonLines {
    broken: bool,
    names: Names,
}

impl JsonLines {
    /// Writes nothing yet.
    pub(crate) fn new(plan: &Plan) -> JsonLines {
        JsonLines {
            broken: false,
            names: Names::of(plan),
        }
    }

    /// An event as programs read it: with names where there are indices in memory.
    fn named(&self, event: &RunEvent<'_>) -> serde_json::Result<Value> {
        let mut value = serde_json::to_value(event)?;
        match event {
            RunEvent::Started { plan, .. } => value["plan"] = self.names.plan(plan),
            RunEvent::TrialEnded { arm, load, .. } | RunEvent::TrialVoid { arm, load, .. } => {
                value["trial"]["arm"] = (*arm).into();
                value["trial"]["load"] = (*load).into();
            }
            RunEvent::Estimate { standing, .. } => {
                value["standing"] = self.names.standing(standing);
            }
            RunEvent::Finished { analysis, .. } => value["analysis"] = named::analysis(analysis),
            _ => {}
        }
        Ok(value)
    }
}

impl Observer for JsonLines {
    fn event(&mut self, event: &RunEvent<'_>) {
        if self.broken || matches!(event, RunEvent::Tick { .. }) {
            return;
        }
        let written = self
            .named(event)
            .map(|json| format!("{}\n", visible_json(&json.to_string())))
            .map_err(std::io::Error::from)
            .and_then(|line| streams::stdout().write_all(line.as_bytes()));
        // Who closed the pipe does not want to know more; the record is kept all the same.
        self.broken = written.is_err();
    }
}
