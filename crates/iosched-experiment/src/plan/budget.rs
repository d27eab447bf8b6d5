//! How long trials are: what the user says, else what the load says, and less where the budget of time is too
//! short for that. A budget that holds too few rounds to decide anything is refused before anything runs.

use std::time::Duration;

use iosched_machine::command_line::Remedy;
use iosched_machine::failure::Problem;
use iosched_stats::race::{Better, Bound, Judge, Load, Race, Requirement, Rules, Verdict};
use serde::Serialize;

use super::{Plan, PlanError, error};
use crate::load::fio_job::JobTarget;

/// What a trial takes besides its load: a switch, dropped caches, fio's start and end.
pub(crate) const TRIAL_OVERHEAD: Duration = Duration::from_millis(800);

/// So many rounds are to fit into a budget of time before trials are made shorter: the intervals of four arms
/// are finite from the fourth round on.
const WISHED_ROUNDS: u32 = 5;

/// No trial is made shorter than this for a budget's sake, tenths of a second.
const SHORTEST_TENTHS: u32 = 10;

/// How much of the budget of time the runs until steady may take: the rest is for the answer.
pub(crate) const STEADY_SHARE: f64 = 0.5;

/// Fills in the run times that nobody has chosen, and how much of them counts.
///
/// # Errors
/// The fewest rounds that decide anything do not fit into the budget.
pub(super) fn choose_run_times(plan: &mut Plan) -> Result<(), PlanError> {
    fit_into_budget(plan)?;
    for load in 0..plan.loads.len() {
        let settings = plan.trial_settings(load, 0, JobTarget::Path(String::new()));
        let counted = plan.loads[load].open().counted(&settings);
        plan.loads[load].counted_s = counted.map(|counted| counted.as_secs_f64());
    }
    Ok(())
}

fn fit_into_budget(plan: &mut Plan) -> Result<(), PlanError> {
    let free = take_defaults(plan);
    let (Some(budget), Some(_)) = (plan.rules.time_budget(), time_of(plan, 1)) else {
        return Ok(());
    };
    let share = share_of_trials(plan);
    let room = budget.mul_f64(share);
    let wished = rounds(plan, WISHED_ROUNDS);
    let fits = |plan: &Plan| time_of(plan, wished).is_none_or(|time| time <= room);
    if !fits(plan) {
        shorten(plan, &free, fits);
    }
    let fewest = rounds(plan, fewest_to_decide(plan));
    match time_of(plan, fewest) {
        Some(needed) if needed > room => {
            let (budget, needed) = (
                budget.as_secs_f64(),
                needed.div_f64(share).as_secs_f64().ceil(),
            );
            let problem = Problem::usage(format!(
                "the budget of {budget} s is too short: {fewest} rounds take {needed} s"
            ))
            .hint(format!(
                "give more time (--budget {needed}s), shorter trials (--runtime), fewer loads or fewer --arms"
            ));
            let remedy = Remedy::With(format!("--budget={needed}s"));
            Err(error::with(problem, remedy))
        }
        _ => Ok(()),
    }
}

/// How much of the budget of time the trials have.
fn share_of_trials(plan: &Plan) -> f64 {
    let must_steady = plan.loads.iter().any(|load| load.wait_until_steady);
    if must_steady { 1.0 - STEADY_SHARE } else { 1.0 }
}

/// What a run can come to within its budget, as far as that is known before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prospect {
    /// False if a winner is known to be out of reach.
    pub can_decide: bool,
    /// Rounds without which no arm wins, however clear the difference.
    pub rounds_to_decide: u32,
    /// Rounds that fit into the budget; none if only trials can tell.
    pub rounds: Option<u32>,
    /// How long a trial may take on average so that a decision fits into the budget of time, s.
    pub longest_trial_s: Option<f64>,
}

impl Plan {
    /// What a run of it can come to.
    pub fn prospect(&self) -> Prospect {
        let needed = fewest_to_decide(self);
        let most = self.rounds_at_most();
        let room = self
            .rules
            .time_budget()
            .map(|budget| budget.mul_f64(share_of_trials(self)));
        let by_time = room.zip(time_of(self, 1)).map(|(room, round)| {
            let rounds = room.as_nanos() / round.as_nanos().max(1);
            most.min(u32::try_from(rounds).unwrap_or(u32::MAX))
        });
        let trials: u32 = self.loads.iter().map(|load| load.turns).sum();
        let trials = f64::from(trials) * self.arms.len() as f64 * f64::from(needed);
        let of_trial = |room: Duration| room.as_secs_f64() / trials - TRIAL_OVERHEAD.as_secs_f64();
        let rounds = by_time.or((most < needed || room.is_none()).then_some(most));
        Prospect {
            can_decide: rounds.is_none_or(|rounds| rounds >= needed),
            rounds_to_decide: needed,
            rounds,
            longest_trial_s: room.map(of_trial).map(|longest| longest.max(0.0)),
        }
    }
}

/// The fewest rounds after which a race of this plan can have a winner: one that is ten times as good as all others, in
/// each round.
fn fewest_to_decide(plan: &Plan) -> u32 {
    if let Some(rounds) = plan.rules.fixed_rounds {
        return rounds;
    }
    let mut round = vec![Some(10.0); plan.arms.len()];
    round[plan.baseline] = Some(1.0);
    let rules = Rules {
        margin: plan.rules.margin,
        confidence: plan.rules.confidence,
        ..Rules::default()
    };
    let mut race = Race {
        arms: plan.arms.len(),
        baseline: plan.baseline,
        loads: vec![Load::new(Better::Lower, Vec::new()); plan.loads.len()],
        withdrawn: Vec::new(),
        rules,
    };
    for load in &mut race.loads {
        let kept = |_| Requirement {
            bound: Bound::AtMost(2.0),
            rounds: Vec::new(),
        };
        load.requirements = plan.rules.requirements.iter().map(kept).collect();
    }
    let mut judge = Judge::new(&race);
    for rounds in 1..=u32::try_from(rules.budget_rounds).unwrap_or(u32::MAX) {
        for load in &mut race.loads {
            load.rounds.push(round.clone());
            for requirement in &mut load.requirements {
                requirement.rounds.push(vec![Some(1.0); plan.arms.len()]);
            }
        }
        judge.follow(&race);
        if matches!(judge.standing().decisive().verdict, Verdict::Winner { .. }) {
            return rounds;
        }
    }
    u32::MAX
}

/// A load whose run time nobody has chosen.
struct Free {
    load: usize,
    default: Duration,
}

/// Gives loads without a run time that of their own.
fn take_defaults(plan: &mut Plan) -> Vec<Free> {
    let mut free = Vec::new();
    for (index, load) in plan.loads.iter_mut().enumerate() {
        if load.runtime_s.is_none()
            && let Some(default) = load.open().default_runtime()
        {
            load.runtime_s = Some(default.as_secs_f64());
            free.push(Free {
                load: index,
                default,
            });
        }
    }
    free
}

/// Makes free run times as long as fits, by tenths of a second.
fn shorten(plan: &mut Plan, free: &[Free], fits: impl Fn(&Plan) -> bool) {
    let Some(longest) = free.iter().map(|free| free.default).max() else {
        return;
    };
    let (mut short, mut long) = (SHORTEST_TENTHS, tenths(longest));
    while short + 1 < long {
        let middle = u32::midpoint(short, long);
        set(plan, free, middle);
        if fits(plan) {
            short = middle;
        } else {
            long = middle;
        }
    }
    set(plan, free, short);
    for Free { load, default } in free {
        let load = &mut plan.loads[*load];
        let runtime = Duration::from_secs_f64(load.runtime_s.unwrap_or_default());
        if runtime < *default {
            let note = format!(
                "trials of {} s instead of {} s: the budget of time is short",
                runtime.as_secs_f64(),
                default.as_secs_f64()
            );
            load.note = Some(match load.note.take() {
                Some(before) => format!("{before}; {note}"),
                None => note,
            });
        }
    }
}

fn set(plan: &mut Plan, free: &[Free], tenths: u32) {
    let runtime = Duration::from_millis(u64::from(tenths) * 100);
    for Free { load, default } in free {
        plan.loads[*load].runtime_s = Some(runtime.min(*default).as_secs_f64());
    }
}

fn tenths(time: Duration) -> u32 {
    u32::try_from(time.as_millis() / 100).unwrap_or(u32::MAX)
}

/// So many rounds, or as many as the run has.
fn rounds(plan: &Plan, wanted: u32) -> u32 {
    match plan.rules.fixed_rounds {
        Some(fixed) => fixed,
        None => wanted.min(plan.rules.max_rounds),
    }
}

/// How long so many rounds of all arms take; `None` if only trials can tell.
fn time_of(plan: &Plan, rounds: u32) -> Option<Duration> {
    let arms = u32::try_from(plan.arms.len()).unwrap_or(u32::MAX);
    let turns: u32 = plan.loads.iter().map(|load| load.turns).sum();
    let overhead = TRIAL_OVERHEAD * turns.saturating_mul(arms);
    let round = plan.round_duration(plan.arms.len())? + overhead;
    Some(round * rounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn with_budget(seconds: f64, runtime_s: Option<f64>) -> Plan {
        let mut plan = fixture::plan(4);
        plan.rules.time_budget_s = Some(seconds);
        plan.loads[0].runtime_s = runtime_s;
        plan
    }

    #[test]
    fn a_run_time_that_nobody_chose_is_as_long_as_five_rounds_allow() {
        for (budget, runtime) in [
            (1000.0, 10.0),
            (216.0, 10.0),
            (120.0, 5.2),
            (40.0, 1.2),
            (30.0, 1.0),
        ] {
            let mut plan = with_budget(budget, None);
            choose_run_times(&mut plan).expect("fits");
            assert_eq!(plan.loads[0].runtime_s, Some(runtime), "{budget}");
            assert_eq!(plan.loads[0].note.is_some(), runtime < 10.0, "{budget}");
        }
    }

    #[test]
    fn a_run_time_that_was_chosen_stays_and_a_budget_without_three_rounds_of_it_is_refused() {
        let mut plan = with_budget(130.0, Some(10.0));
        choose_run_times(&mut plan).expect("three rounds fit");
        assert_eq!(plan.loads[0].runtime_s, Some(10.0));
        let mut plan = with_budget(129.0, Some(10.0));
        let error = choose_run_times(&mut plan).expect_err("they do not");
        assert_eq!(
            error.to_string(),
            "the budget of 129 s is too short: 3 rounds take 130 s"
        );
    }

    #[test]
    fn what_has_to_become_steady_has_half_of_the_budget_for_its_trials() {
        let mut plan = with_budget(2.0 * 120.0, None);
        plan.loads[0].wait_until_steady = true;
        choose_run_times(&mut plan).expect("fits");
        assert_eq!(plan.loads[0].runtime_s, Some(5.2));
    }

    #[test]
    fn a_plan_says_whether_it_can_decide() {
        let mut plan = with_budget(130.0, Some(10.0));
        let known = plan.prospect();
        assert_eq!((known.rounds_to_decide, known.rounds), (3, Some(3)));
        assert!(known.can_decide);
        plan.rules.max_rounds = 2;
        assert!(!plan.prospect().can_decide);
        // Two arms need a round more.
        let mut plan = fixture::plan(2);
        plan.loads[0].runtime_s = Some(10.0);
        plan.rules.time_budget_s = Some(65.0);
        let error = choose_run_times(&mut plan).expect_err("three rounds fit");
        assert!(error.to_string().contains("4 rounds take 87 s"), "{error}");
    }

    #[test]
    fn exactly_so_many_rounds_have_to_fit() {
        let mut plan = with_budget(60.0, Some(1.0));
        plan.rules.fixed_rounds = Some(9);
        assert!(choose_run_times(&mut plan).is_err());
        plan.rules.fixed_rounds = Some(8);
        assert!(choose_run_times(&mut plan).is_ok());
    }
}
