//! From the arguments, and the place that they chose, to what a plan is made of.

use std::time::Duration;

use iosched_experiment::plan::{CommandOptions, DEFAULT_MAX_ROUNDS, PlanRequest, Rules, Steady};
use iosched_experiment::run;
use iosched_sim::units::Bytes;

use super::args::{TuneArgs, consent};
use super::place::RunPlace;
use crate::values::split_arms;

/// Run time of a trial on an emulated disk, which has no cache to warm and no garbage to collect: hundreds of reads
/// of the slowest one. A trial takes most of a second besides, to begin and to let the last reads end.
const EMULATED_RUNTIME: Duration = Duration::from_secs(2);

/// Time after which a run on an emulated disk of our own begins no further round.
const EMULATED_BUDGET: Duration = Duration::from_secs(180);

/// Size of each worker's test file in a directory.
const FILE_SIZE: u64 = 1 << 30;

/// What the plan is made of.
pub(super) fn wanted(args: &TuneArgs, place: &RunPlace) -> PlanRequest {
    let is_emulated = place.is_emulated();
    let default = Rules::default();
    let loads = if args.loads.is_empty() {
        vec!["random-read".into()]
    } else {
        args.loads.clone()
    };
    PlanRequest {
        target: place.target(),
        simulate: match place {
            RunPlace::Simulated { disk, .. } => Some(disk.as_ref().clone()),
            _ => None,
        },
        is_our_own: is_emulated,
        own_disk: place.own_disk().cloned(),
        loads,
        command: CommandOptions {
            setup: args.setup.clone(),
            prepare: args.prepare.clone(),
            metric: args.metric.clone(),
            is_higher_better: args.better,
        },
        connection: args.pg.clone(),
        defines: args.defines.clone(),
        arms: split_arms(&args.arms),
        baseline: args.baseline.clone().or_else(|| {
            // A disk that is yet to be made begins with none.
            let begins_with_none = matches!(
                place,
                RunPlace::LikeEmulated { own, .. } if own.scheduler.is_none()
            );
            begins_with_none.then(|| "none".to_owned())
        }),
        objective: args.objective,
        runtime: args
            .runtime
            .map(|span| span.0)
            .or(is_emulated.then_some(EMULATED_RUNTIME)),
        ramp: args.ramp.map_or(Duration::ZERO, |span| span.0),
        rules: Rules {
            margin: args.margin.map_or(default.margin, |margin| margin.0),
            confidence: args.confidence.unwrap_or(default.confidence),
            fixed_rounds: args.fixed_rounds,
            is_unpaired: false,
            max_rounds: args.rounds.unwrap_or(DEFAULT_MAX_ROUNDS),
            time_budget_s: args
                .budget
                .map(|span| span.0)
                .or(is_emulated.then_some(EMULATED_BUDGET))
                .map(|budget| budget.as_secs_f64()),
            requirements: args.requirements.clone(),
            tolerance: args.tolerance(),
        },
        seed: args.seed.unwrap_or_else(run::random_seed),
        file_size: args.file_size.map_or(FILE_SIZE, Bytes::as_u64),
        steady: args.steady.unwrap_or(Steady::Auto),
        precondition: args.precondition,
        split: !args.no_split,
        mkfs: args.mkfs,
        destroy_data: consent(args),
    }
}
