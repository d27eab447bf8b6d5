//! What a record says, in sentences: the verdict, what to do, what it costs, what looks odd. The same
//! words stand on the terminal, on the page and in a ticket.

use std::path::Path;
use std::time::Duration;

use iosched_experiment::analysis::{
    Action, Analysis, Caveat, Confound, Control, Disturbed, LoadAnalysis, Rank, SideEffect,
    undecided_yet,
};
use iosched_experiment::plan::{MOST_ROUNDS, Plan, Requirement, Target};
use iosched_experiment::record::{Entry, Record, StopReason};
use iosched_experiment::schedule::RunProgress;
use iosched_machine::command_line;
use iosched_stats::Interval;
use iosched_stats::race::{ArmStanding, ArmState, Contest, Scale, Verdict};
use iosched_stats::remarks::Remark;

use super::words::{
    bound, clipped, count, enumerate, enumerate_plain, number, percent, percent_up, run_time,
    signed, significant, span, stop_reason,
};

/// The verdict of one contest, and whom requirements keep from winning it: such an arm can have the best ratio in the table.
pub(super) fn verdict(
    analysis: &Analysis,
    loads: &[LoadAnalysis],
    contest: &Contest,
    plan: &Plan,
) -> String {
    let verdict = of_verdict(analysis, loads, contest, plan);
    let qualified = failed(analysis, loads, contest)
        .into_iter()
        .chain(missed(analysis, contest, plan))
        .chain(left_by_what_is_wider_now(analysis, contest, plan));
    let parts: Vec<String> = std::iter::once(verdict).chain(qualified).collect();
    parts.join("; ")
}

/// "2 of 14 trials of bfq failed": of those that may be used, which lost trials that others did not lose.
fn failed(analysis: &Analysis, loads: &[LoadAnalysis], contest: &Contest) -> Vec<String> {
    let arms = (0..analysis.arms.len()).filter(|&arm| {
        let rank = Rank::of(contest, arm, analysis.baseline);
        !matches!(rank, Rank::Eliminated | Rank::Failed)
    });
    let failed = arms.filter_map(|arm| {
        let (failed, of) = analysis.failed_more(loads, arm)?;
        let name = &analysis.arms[arm];
        Some(format!("{failed} of {of} trials of {name} failed"))
    });
    failed.collect()
}

/// Of arms that were surely worse when they left, and ran on for other loads, in which no interval shows it any more: by what they
/// left. What was proven once is proven.
fn left_by_what_is_wider_now(analysis: &Analysis, contest: &Contest, plan: &Plan) -> Vec<String> {
    let is_shown = |arm: usize| {
        let mut others = 0..contest.arms.len();
        others.any(|other| other != arm && contest.is_surely_better(other, arm))
    };
    let left = contest.arms.iter().enumerate();
    let is_out = |arm: usize| Rank::of(contest, arm, analysis.baseline) == Rank::Eliminated;
    let left = left.filter(|(arm, _)| is_out(*arm));
    left.filter_map(|(arm, standing)| match standing.place {
        ArmState::Worse { after, than, ratio } if !is_shown(arm) => Some(format!(
            "{} is out since round {after}, at {}",
            analysis.arms[arm],
            times(contest.scale, ratio, &analysis.arms[than], plan)
        )),
        _ => None,
    })
    .collect()
}

/// Why others keep a record from having an answer.
fn disturbed_sentence(analysis: &Analysis, disturbed: &Disturbed) -> String {
    match disturbed {
        Disturbed::Trials { void, last } => format!(
            "{} did not count; in the last {last}",
            count(*void, "trial")
        ),
        Disturbed::Arms {
            load,
            what,
            more,
            less,
            difference,
            by,
        } => {
            let who = match by.as_slice() {
                [] if *what == "kernel" => {
                    "the kernel's threads (for whom is not known)".to_owned()
                }
                [] => "other programs".to_owned(),
                names => enumerate(names.iter().map(String::as_str)),
            };
            let did = match *what {
                "io" | "kernel" => "I/O on this disk",
                _ => "use of the processors",
            };
            let of = match *what {
                "io" => "the disk's own",
                "kernel" => "the disk's time",
                _ => "the machine's",
            };
            format!(
                "the {did} by {who} was more under {} than under {} in {}, by {} of {of}",
                analysis.arms[*more],
                analysis.arms[*less],
                analysis.loads[*load].name,
                percent(*difference)
            )
        }
        Disturbed::CarryOver { load, arm, ratio } => {
            let LoadAnalysis {
                name, objective, ..
            } = &analysis.loads[*load];
            format!(
                "trials of {name} depend on the arm before them: after {} the {} is {} times what it is after others ({}-{})",
                analysis.arms[*arm],
                objective.words(),
                number(ratio.estimate),
                bound(ratio.lower),
                bound(ratio.upper)
            )
        }
    }
}

fn nobody_meets_the_requirements(contest: &Contest) -> bool {
    let misses_one = |arm: &ArmStanding| matches!(arm.place, ArmState::Disqualified { .. });
    contest.verdict == Verdict::Nobody && contest.arms.iter().any(misses_one)
}

/// "bfq misses the requirement `p99 latency <= 1.1` and cannot win", for each requirement that arms surely miss.
fn missed(analysis: &Analysis, contest: &Contest, plan: &Plan) -> Vec<String> {
    let requirements = plan.rules.requirements.iter().enumerate();
    let sentences = requirements.filter_map(|(index, required)| {
        let misses_it = |&arm: &usize| match contest.arms[arm].place {
            // Over all loads they are counted through, load by load.
            ArmState::Disqualified { requirement, .. } => {
                requirement % plan.rules.requirements.len() == index
            }
            _ => false,
        };
        let arms: Vec<usize> = (0..contest.arms.len()).filter(misses_it).collect();
        if arms.is_empty() {
            return None;
        }
        let names = enumerate(arms.iter().map(|&arm| analysis.arms[arm].as_str()));
        let misses = if arms.len() == 1 { "misses" } else { "miss" };
        Some(format!(
            "{names} {misses} the requirement `{}` and cannot win",
            requirement(required)
        ))
    });
    sentences.collect()
}

/// `throughput >= 0.95`, `p99 latency <= 1.1`: of the baseline's.
pub(super) fn requirement(required: &Requirement) -> String {
    let Requirement {
        objective,
        at_least,
    } = required;
    if objective.higher_is_better() {
        return format!("{} >= {at_least}", objective.words());
    }
    let at_most = (1e4 / at_least).round() / 1e4;
    format!("{} <= {at_most}", objective.words())
}

fn of_verdict(
    analysis: &Analysis,
    loads: &[LoadAnalysis],
    contest: &Contest,
    plan: &Plan,
) -> String {
    let names = |arms: &[usize]| enumerate(arms.iter().map(|&arm| analysis.arms[arm].as_str()));
    let margin = percent(plan.rules.margin - 1.0);
    match &contest.verdict {
        Verdict::Winner { arm } => winner(analysis, loads, contest, *arm, plan),
        Verdict::Equal { arms, within } => {
            let margin = match contest.scale {
                Scale::Ratio => margin,
                scale @ Scale::Difference { .. } => amount(scale, *within),
            };
            let others = contest.arms.len() - arms.len();
            let rest = if others > 0 {
                "; the others are out"
            } else {
                ""
            };
            format!(
                "{} are equal: no difference larger than {margin}{rest}",
                names(arms)
            )
        }
        Verdict::NearBest {
            arms,
            among,
            within,
        } => {
            let bound = amount(contest.scale, *within);
            let open = among.iter().copied();
            let open: Vec<usize> = open.filter(|arm| !arms.contains(arm)).collect();
            let open = match open.as_slice() {
                [] => String::new(),
                open => format!("; undecided: {}", names(open)),
            };
            let (arms, are) = (names(arms), is_or_are(arms));
            format!("{arms} {are} near the best: at most {bound} worse{open}")
        }
        Verdict::Undecided { arms, .. } => {
            // What a requirement or another load keeps open is not told by rounds of this contest.
            let needed = rounds_said(contest)
                .filter(|&needed| needed > contest.rounds)
                .map_or(String::new(), |rounds| forecast(rounds, plan));
            let open = open_requirements(analysis, contest, arms, plan);
            let stake = at_stake(analysis, contest, plan);
            let are = is_or_are(arms);
            format!("{} {are} undecided: {stake}{needed}{open}", names(arms))
        }
        Verdict::Open if analysis.trials == 0 => "no trial counts".to_owned(),
        Verdict::Open => {
            let arms = undecided_yet(contest, analysis.baseline);
            let needs = match contest.rounds {
                0 | 1 => ": a comparison needs 2 rounds",
                _ => "",
            };
            format!("{} {} undecided yet{needs}", names(&arms), is_or_are(&arms))
        }
        Verdict::Alone { arm } => {
            let only = &analysis.arms[*arm];
            format!("{only} is the only arm that could be measured")
        }
        Verdict::Nobody if nobody_meets_the_requirements(contest) => {
            "no arm meets the requirements".to_owned()
        }
        Verdict::Nobody => "no arm could be measured".to_owned(),
    }
}

/// What the arm to use or keep can cost at most: against the best so far, and against any.
fn at_stake(analysis: &Analysis, contest: &Contest, plan: &Plan) -> String {
    let kept = analysis
        .action
        .map_or(analysis.baseline, |action| action.arm);
    let name = |arm: usize| analysis.arms[arm].as_str();
    let of = |most: f64| match contest.scale {
        Scale::Ratio if most >= 2.0 => "may cost more than half".to_owned(),
        scale => format!("costs at most {}", amount(scale, most)),
    };
    let confidence = percent(plan.rules.confidence);
    let most = |other: usize| Some((other, contest.cost_against(kept, other)?));
    let rivals = contest.remaining().filter(|&other| other != kept);
    let baseline = analysis.baseline;
    let keeping = if is_proven(contest, kept, baseline) {
        format!(
            "using {}, proven better than {},",
            name(kept),
            name(baseline)
        )
    } else {
        format!("keeping {}", name(kept))
    };
    let Some(all) = rivals.map(most).collect::<Option<Vec<_>>>() else {
        return format!("what {keeping} costs is not known: that needs more rounds");
    };
    let Some(&(widest, cost)) = all.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return format!("nothing is better than {}", name(kept));
    };
    let most_of_all = format!("{}, if {} is the best", of(cost), name(widest));
    let Some(leader) = contest.leader.filter(|&leader| leader != kept) else {
        return format!("{keeping} {most_of_all} ({confidence})");
    };
    let against = contest.cost_against(kept, leader).map_or(String::new(), of);
    let rest = if against == of(cost) {
        String::new()
    } else {
        format!("; {most_of_all}")
    };
    let leader = name(leader);
    format!("{keeping} {against} against {leader}, the best so far ({confidence}){rest}")
}

/// That only a requirement is in the way of an arm which is surely better than the others.
fn open_requirements(
    analysis: &Analysis,
    contest: &Contest,
    undecided: &[usize],
    plan: &Plan,
) -> String {
    let all: Vec<String> = plan.rules.requirements.iter().map(requirement).collect();
    let leader = contest.leader.filter(|leader| undecided.contains(leader));
    let is_ahead = |leader: usize| {
        let mut others = undecided.iter().filter(|&&other| other != leader);
        others.all(|&other| contest.is_surely_better(leader, other))
    };
    match leader.filter(|&leader| !all.is_empty() && is_ahead(leader)) {
        Some(leader) => format!(
            "; {} is surely better than the others, but may miss `{}`",
            analysis.arms[leader],
            all.join("`, `")
        ),
        None => String::new(),
    }
}

/// Who wins, and by how much: against the baseline, and against the next, because the table does not show how close that was.
fn winner(
    analysis: &Analysis,
    loads: &[LoadAnalysis],
    contest: &Contest,
    arm: usize,
    plan: &Plan,
) -> String {
    let baseline = analysis.baseline;
    let whose = |other: usize| match loads {
        [load] => format!("the {} under {}", load.measure, analysis.arms[other]),
        _ => analysis.arms[other].clone(),
    };
    let against = |other: usize, of: &str| pair(contest, arm, other, of, plan);
    let next = next_best(contest, arm);
    let name = &analysis.arms[arm];
    if arm == baseline {
        let ratio = next.and_then(|next| against(next, &format!("{}, the next", whose(next))));
        return format!(
            "{name} is best{}",
            ratio.map_or(String::new(), |it| format!(", {it}"))
        );
    }
    let among = match contest.arms[baseline].place {
        ArmState::Disqualified { .. } => " of those that meet the requirements",
        _ => "",
    };
    let next = next.filter(|&next| next != baseline);
    let ratios = [
        against(baseline, &whose(baseline)),
        next.and_then(|next| against(next, &format!("{}, the next", analysis.arms[next]))),
    ];
    let ratios: Vec<String> = ratios.into_iter().flatten().collect();
    match ratios.as_slice() {
        [] => format!("{name} is best{among}"),
        ratios => format!("{name} is best{among}, {}", ratios.join("; ")),
    }
}

fn is_or_are(arms: &[usize]) -> &'static str {
    if arms.len() == 1 { "is" } else { "are" }
}

/// How many rounds would tell, where so many can be run.
fn forecast(rounds: usize, plan: &Plan) -> String {
    if is_too_many(rounds, plan) {
        let most = TOO_MANY * plan.rounds_at_most() as usize;
        return format!("; a decision takes more than {most} rounds");
    }
    format!("; a decision takes about {rounds} rounds, if the arms are as they look now")
}

fn is_too_many(rounds: usize, plan: &Plan) -> bool {
    rounds > TOO_MANY * plan.rounds_at_most() as usize
}

/// A run of so many times its rounds is not what anybody wants to hear of.
const TOO_MANY: usize = 5;

/// `1.62 × none (95 % 1.55-1.70)`, with the rounds that both ran where others ran more.
fn pair(contest: &Contest, arm: usize, other: usize, of: &str, plan: &Plan) -> Option<String> {
    let ratio = contest.ratio(arm, other)?;
    let rounds = contest.arms[arm].rounds.min(contest.arms[other].rounds);
    let said = times(contest.scale, ratio, of, plan);
    Some(if rounds < contest.rounds {
        format!("{} in {rounds} rounds)", said.trim_end_matches(')'))
    } else {
        said
    })
}

/// `1.62 × none (95 % CI 1.55-1.70)`, `-80.0 against none (95 % CI -82.1 to -77.9)`.
fn times(scale: Scale, ratio: Interval, of: &str, plan: &Plan) -> String {
    let by = if scale.is_ratio() { "×" } else { "against" };
    let confidence = percent(plan.rules.confidence);
    let interval = match bounds(scale, ratio) {
        Some(bounds) => format!("{confidence} CI {bounds}"),
        None => NEEDS_MORE.to_owned(),
    };
    format!("{} {by} {of} ({interval})", estimate(scale, ratio))
}

/// In the place of an interval that says nothing yet.
const NEEDS_MORE: &str = "needs more rounds";

/// `1.62`, `-80.0`.
pub(super) fn estimate(scale: Scale, ratio: Interval) -> String {
    match scale {
        Scale::Ratio => number(ratio.estimate),
        Scale::Difference { .. } => signed(ratio.estimate),
    }
}

/// `1.55-1.70`, `-82.1 to -77.9`; none of one that is too wide to say anything.
fn bounds(scale: Scale, ratio: Interval) -> Option<String> {
    let is_known = !scale.is_ratio() || ratio.lower > 0.01 && ratio.upper < 100.0;
    let shown = match scale {
        Scale::Ratio => format!("{}-{}", bound(ratio.lower), bound(ratio.upper)),
        Scale::Difference { .. } => format!("{} to {}", signed(ratio.lower), signed(ratio.upper)),
    };
    (ratio.is_bounded() && is_known).then_some(shown)
}

/// By how much one may be better than another: `3.4 %`, `2.10`.
fn amount(scale: Scale, within: f64) -> String {
    match scale {
        Scale::Ratio => percent_up(within - 1.0),
        Scale::Difference { .. } => significant(within),
    }
}

/// Of those that miss no requirement the one that comes nearest to the winner by estimate, if the winner itself surely beats it: it may be
/// that only another one does.
pub(super) fn next_best(contest: &Contest, winner: usize) -> Option<usize> {
    let others = (0..contest.arms.len()).filter(|&arm| {
        arm != winner && !matches!(contest.arms[arm].place, ArmState::Disqualified { .. })
    });
    contest
        .nearest(winner, others)
        .filter(|&next| contest.is_surely_better(winner, next))
}

/// What to do, what shows it, and what it costs.
#[derive(Debug)]
pub(super) struct Answer {
    /// `use bfq for random-read on sda`.
    pub(super) what: String,
    /// Its ratios with their intervals, or what keeps it from being known.
    pub(super) grounds: Vec<String>,
    /// What is worse under it: surely, or as it looks.
    pub(super) costs: Vec<String>,
    /// What is surely better under it, besides what decides.
    pub(super) gains: Vec<String>,
}

/// The answer, which names the loads and the disk: it is quoted alone.
pub(super) fn answer(analysis: &Analysis, plan: &Plan) -> Answer {
    let although = |arm: usize| match analysis.failed_more(&analysis.loads, arm) {
        Some((failed, of)) => format!(", although {failed} of its {of} trials failed"),
        None => String::new(),
    };
    let scope = format!("{} on {}", loads_named(analysis), target_name(plan));
    let act = |arm: usize| {
        let (name, although) = (&analysis.arms[arm], although(arm));
        if Some(arm) == plan.active {
            format!("keep {name} (it was active) for {scope}{although}")
        } else {
            format!("use {name} for {scope}{although}")
        }
    };
    let stays = plan
        .active
        .map_or(format!("change nothing for {scope}"), act);
    let contest = analysis.decisive();
    let found = verdict(analysis, &analysis.loads, contest, plan);
    let (what, grounds) = if let Some(disturbed) = &analysis.disturbed {
        let why = disturbed_sentence(analysis, disturbed);
        (format!("disturbed: {stays}"), vec![why])
    } else if analysis.trials == 0 {
        let yet = if analysis.is_running { " yet" } else { "" };
        (format!("nothing was measured{yet}: {stays}"), Vec::new())
    } else if let Some(choice) = analysis.choice {
        let why = why(analysis, choice, plan);
        let named = format!("{} is best, ", analysis.arms[choice]);
        let found = found.strip_prefix(&named).unwrap_or(&found).to_owned();
        (act(choice), std::iter::once(found).chain(why).collect())
    } else if let Some(what) = undecided(analysis, plan, &stays, act) {
        (what, vec![found])
    } else if nobody_meets_the_requirements(contest) {
        (
            format!("no arm meets the requirements: {stays}"),
            vec![found],
        )
    } else {
        (format!("no arm is proven better: {stays}"), vec![found])
    };
    let grounds = grounds.into_iter().map(sentence).collect();
    let (gains, costs) = analysis
        .side_effects
        .iter()
        .partition::<Vec<_>, _>(|effect| effect.is_good());
    let said = |effects: Vec<&SideEffect>| {
        let said = effects.into_iter();
        said.map(|effect| side_effect(analysis, effect, plan))
            .collect()
    };
    Answer {
        what,
        grounds,
        costs: said(costs),
        gains: said(gains),
    }
}

/// Loads that a line names; of more it says how many there are.
pub(super) const MOST_NAMED: usize = 4;

/// The loads that decide, as a line has room for them.
pub(super) fn loads_named(analysis: &Analysis) -> String {
    let loads = analysis.loads.iter();
    let mut names: Vec<String> = loads.map(|load| clipped(&load.name)).collect();
    if names.len() > MOST_NAMED {
        let others = names.split_off(2).len();
        names.push(format!("{others} other loads"));
    }
    enumerate(names.iter().map(String::as_str))
}

/// With a full stop.
fn sentence(words: String) -> String {
    if words.ends_with('.') {
        words
    } else {
        words + "."
    }
}

/// What to do where several arms may be the best; none where there is nothing to decide between. It is an answer also without a
/// winner, where keeping what there is can cost little.
fn undecided(
    analysis: &Analysis,
    plan: &Plan,
    stays: &str,
    act: impl Fn(usize) -> String,
) -> Option<String> {
    let contest = analysis.decisive();
    if !matches!(contest.verdict, Verdict::Undecided { .. } | Verdict::Open) {
        return None;
    }
    let is_over = analysis.stop.is_some();
    let action = analysis.action;
    let is_simulated = matches!(plan.target, Target::Simulated(_));
    let (what, is_kept) = match action.map(|action| action.arm) {
        Some(arm) if is_proven(contest, arm, analysis.baseline) => (act(arm), false),
        Some(arm) if is_simulated => (act(arm).replacen("use ", "keep ", 1), true),
        arm => (stays.to_owned(), arm.is_some() && arm == plan.active),
    };
    let is_little = |it: Action| {
        let cost = it.costs_at_most.map(|cost| contest.scale.relative(cost));
        cost.is_some_and(|cost| cost <= LITTLE)
    };
    if is_over && is_kept && action.is_some_and(is_little) {
        return Some(what);
    }
    let so_far = if is_over { "" } else { " so far" };
    Some(format!("undecided{so_far}: {what}"))
}

/// True of an arm that is surely better than a baseline which may not be the best.
fn is_proven(contest: &Contest, arm: usize, baseline: usize) -> bool {
    arm != baseline && contest.is_surely_better(arm, baseline)
}

/// Who keeps what costs at most this factor needs no winner.
const LITTLE: f64 = 1.1;

/// Why an arm is to be used that is not simply the winner.
fn why(analysis: &Analysis, choice: usize, plan: &Plan) -> Option<String> {
    let contest = analysis.decisive();
    let among = match contest.verdict {
        Verdict::Equal { .. } if choice == analysis.baseline => {
            return Some("Among equals the baseline stays".into());
        }
        Verdict::Equal { .. } if analysis.has_cpu_time() => {
            "of the proven equals with the fewest drawbacks, it takes the least CPU time per I/O"
        }
        Verdict::Equal { .. } => {
            "of the proven equals with the fewest drawbacks, it has the best ratio"
        }
        Verdict::NearBest { within, .. } if choice == analysis.baseline => {
            let margin = match contest.scale {
                Scale::Ratio => percent(plan.rules.margin - 1.0),
                scale @ Scale::Difference { .. } => amount(scale, within),
            };
            return Some(format!("No other is better by more than {margin}"));
        }
        Verdict::NearBest { ref arms, .. } if arms.len() > 1 && analysis.has_cpu_time() => {
            "no other is better by more than the margin, and of those near the best with the fewest drawbacks it takes the \
             least CPU time per I/O"
        }
        Verdict::NearBest { .. } => "no other is better by more than the margin",
        _ => return None,
    };
    let baseline = analysis.baseline;
    let ratio = contest.ratio(choice, baseline)?;
    let ratio = times(contest.scale, ratio, &analysis.arms[baseline], plan);
    Some(format!("{} is {ratio}: {among}", analysis.arms[choice]))
}

/// `1.44 × the p99 latency of none (95 % CI 1.10-1.90: not proven)`.
fn side_effect(analysis: &Analysis, effect: &SideEffect, plan: &Plan) -> String {
    let of = format!(
        "the {} under {}",
        effect.objective.words(),
        analysis.arms[effect.than]
    );
    let ratio = times(effect.scale, effect.ratio, &of, plan);
    let load = match analysis.loads.as_slice() {
        [_] => String::new(),
        loads => format!(" in {}", loads[effect.load].name),
    };
    let proven = if effect.is_proven { "" } else { ", not proven" };
    format!("{ratio}{load}{proven}.")
}

/// What was found under one load.
pub(super) fn of_load(analysis: &Analysis, load: &LoadAnalysis, plan: &Plan) -> String {
    let found = match load.control {
        Some(finding) => control(load, finding),
        None => verdict(analysis, std::slice::from_ref(load), &load.contest, plan),
    };
    sentence(found)
}

/// What else a reader may want to know.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) text: String,
    /// The command that is its remedy, in one line.
    pub(super) command: Option<String>,
}

/// What lets the answer say less than it seems to; the weightiest first.
pub(super) fn warnings(record: &Record, analysis: &Analysis) -> Vec<Note> {
    let note = |text: String| Note {
        text,
        command: None,
    };
    let mut notes: Vec<Note> = alarms(analysis).map(note).collect();
    let loads = || analysis.loads.iter().filter(|load| load.control.is_none());
    for load in loads() {
        let weakening = load.remarks.iter().filter(|remark| remark.weakens());
        notes.extend(weakening.map(|remark| note(remark_sentence(analysis, load, remark))));
    }
    notes.extend(loads().filter_map(|load| Some(note(heavy_tail(analysis, load)?))));
    if analysis.void_trials > 0 {
        let trials = count(analysis.void_trials, "trial");
        let last = record.void_trials().last().map_or(String::new(), |void| {
            let (load, arm) = (void.slot.load, void.slot.arm);
            let (load, arm) = (&analysis.loads[load].name, &analysis.arms[arm]);
            format!(", the last of {load} with {arm}: {}", void.reason)
        });
        notes.push(note(format!("{trials} did not count{last}.")));
    }
    notes.extend(analysis.caveats.iter().map(|caveat| Note {
        text: caveat_sentence(analysis, caveat),
        command: longer_trials(record, caveat),
    }));
    notes
}

/// How it was measured.
pub(super) fn notes(record: &Record, analysis: &Analysis) -> Vec<String> {
    let plan = &record.header.plan;
    let confounds = analysis.confounds.iter();
    let confounds = confounds.map(|confound| confound_sentence(analysis, confound));
    let mut notes: Vec<String> = confounds.chain(preparation(record)).collect();
    if plan.emulated.is_some() || plan.is_served() {
        notes.push("CPU time includes that of the emulated disk's server.".into());
    }
    if plan.is_served() {
        notes.push(
            "Arms called served/… are schedulers of iosched's inside the disk, not this kernel's; time in their \
             queues counts as the disk's."
                .into(),
        );
    }
    notes
}

/// That a few trials weigh much in a load, in one sentence.
fn heavy_tail(analysis: &Analysis, load: &LoadAnalysis) -> Option<String> {
    let outlier = |remark: &&Remark| matches!(remark, Remark::Outlier { .. });
    far_medians(analysis, load).or_else(|| {
        let farthest = load.remarks.iter().find(outlier)?;
        Some(remark_sentence(analysis, load, farthest))
    })
}

/// Why a run ended, unless it had what it needed.
pub(super) fn ending(record: &Record, analysis: &Analysis) -> Vec<String> {
    let plan = &record.header.plan;
    let mut lines = Vec::new();
    let is_as_planned = |stop| match stop {
        StopReason::Decided => true,
        StopReason::TimeSpent | StopReason::Disturbed => false,
        StopReason::RoundsSpent | StopReason::Hopeless => plan.rules.fixed_rounds.is_some(),
    };
    if let Some(stop) = analysis.stop.filter(|&stop| !is_as_planned(stop)) {
        lines.push(format!("It stopped because {}.", stop_reason(stop)));
        if stop == StopReason::TimeSpent && analysis.rounds == 0 {
            lines.extend(longest_trial(plan));
        }
    }
    if analysis.is_running {
        lines.push("The run goes on: this is what is known so far.".into());
    } else if analysis.stop.is_none() {
        lines.push("The run was interrupted: this is what is known so far.".into());
    }
    lines
}

/// What made a first round longer than the budget, where trials have a run time.
fn longest_trial(plan: &Plan) -> Option<String> {
    let run_times = plan.loads.iter().filter_map(|load| load.runtime_s);
    let longest = run_times.reduce(f64::max)?;
    let virtual_time = match plan.target {
        Target::Simulated(_) => " of virtual time",
        _ => "",
    };
    let longest = span(Duration::from_secs_f64(longest));
    Some(format!(
        "A trial runs for {longest}{virtual_time}; with shorter ones (--runtime) a round takes less."
    ))
}

/// A fixed design that had its rounds has had its one look: more would make it something else. And nobody is told to go on
/// with what no budget would settle.
fn may_go_on(plan: &Plan, analysis: &Analysis, stop: StopReason) -> bool {
    if rounds_said(analysis.decisive()).is_some_and(|rounds| is_too_many(rounds, plan)) {
        return false;
    }
    match stop {
        StopReason::Decided => false,
        StopReason::TimeSpent | StopReason::Disturbed => true,
        StopReason::RoundsSpent | StopReason::Hopeless => plan.rules.fixed_rounds.is_none(),
    }
}

/// What to type next, each with its name: only what runs for this target.
pub(super) fn commands(
    record: &Record,
    analysis: &Analysis,
    directory: &Path,
) -> Vec<(&'static str, String)> {
    let plan = &record.header.plan;
    let choice = analysis.choice.filter(|&arm| Some(arm) != plan.active);
    let is_gone = plan.emulated.is_some() || plan.is_served();
    let choice = choice.filter(|_| !is_gone);
    let was_given = |option: &str| record.header.command.iter().any(|word| word == option);
    let is_kept = was_given("--persist");
    let is_set = is_kept || was_given("--apply");
    let is_loop = plan.disks.iter().any(|disk| disk.starts_with("loop"));
    let to_all = |verb: &str| {
        let arm = &plan.arms[choice?];
        let tunables = (arm.tunables.iter()).map(|(tunable, value)| format!("{tunable}={value}"));
        let tunables: Vec<String> = tunables.collect();
        let lines = plan.disks.iter().map(|disk| {
            let words = ["iosched", verb, disk.as_str(), arm.scheduler.as_str()];
            let words = words.map(str::to_owned).into_iter();
            command_line::joined(&words.chain(tunables.clone()).collect::<Vec<_>>())
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| lines.join(" && "))
    };
    let going_on = going_on(record, analysis, directory).filter(|_| !analysis.is_running);
    let details = format!(
        "iosched report {} --details",
        command_line::quoted_path(directory)
    );
    let all = [
        ("Use it now:", to_all("set").filter(|_| !is_set)),
        // A loop device is another disk each time.
        (
            "Keep it:",
            to_all("persist").filter(|_| !is_loop && !is_kept),
        ),
        ("Go on:", going_on),
        ("Details:", Some(details)),
    ];
    all.into_iter()
        .filter_map(|(name, command)| Some((name, command?)))
        .collect()
}

/// The command that goes on with a run that has not decided: with twice what ended it, and more of what would end it next.
pub fn going_on(record: &Record, analysis: &Analysis, directory: &Path) -> Option<String> {
    let plan = &record.header.plan;
    let more = match record.stop_reason() {
        Some(stop) if !may_go_on(plan, analysis, stop) => return None,
        Some(stop) => more_of(record, analysis, stop),
        None => Vec::new(),
    };
    let allowed = plan.destroys().map(|_| "--destroy-data".to_owned());
    let resume = "iosched tune --resume".to_owned();
    let words = [resume, command_line::quoted_path(directory)].into_iter();
    let words: Vec<String> = words.chain(more).chain(allowed).collect();
    Some(words.join(" "))
}

/// The options that give a run more of what ended it, and time for that where its time is bounded.
fn more_of(record: &Record, analysis: &Analysis, stop: StopReason) -> Vec<String> {
    let plan = &record.header.plan;
    let progress = RunProgress::of(plan, record);
    let spent = progress.spent().as_secs_f64();
    let rounds = more_rounds(plan, analysis, &progress);
    let each = spent / f64::from(progress.rounds().max(1));
    let a_few_rounds = spent + 3.0 * progress.round_time().as_secs_f64();
    let budget = plan.rules.time_budget_s;
    let seconds = |seconds: f64| format!("--budget={}s", seconds.ceil());
    if stop == StopReason::TimeSpent {
        let twice = 2.0 * budget.unwrap_or_default().max(spent);
        let said = rounds_said(analysis.decisive()).unwrap_or_default();
        let more = (said > plan.rules.max_rounds as usize).then(|| format!("--rounds={rounds}"));
        let enough = twice.max(a_few_rounds).max(each * said as f64);
        return more.into_iter().chain([seconds(enough)]).collect();
    }
    let needed = (each * rounds as f64).max(a_few_rounds);
    let time = budget.filter(|&budget| budget < needed);
    let rounds = format!("--rounds={rounds}");
    std::iter::once(rounds)
        .chain(time.map(|_| seconds(needed)))
        .collect()
}

/// Twice as many as there may be or have been, or as many as are said to be needed.
fn more_rounds(plan: &Plan, analysis: &Analysis, progress: &RunProgress) -> usize {
    let twice = 2 * plan.rules.max_rounds.max(progress.rounds()) as usize;
    let said = rounds_said(analysis.decisive()).map_or(0, |rounds| rounds.next_multiple_of(10));
    twice.max(said).min(MOST_ROUNDS as usize)
}

/// How many rounds are said to settle what is undecided: of what a million would not settle, as many as there are.
fn rounds_said(contest: &Contest) -> Option<usize> {
    match &contest.verdict {
        Verdict::Undecided {
            arms,
            rounds_needed,
            ..
        } if contest.rounds > 1 && arms.len() > 1 => Some(rounds_needed.unwrap_or(usize::MAX)),
        _ => None,
    }
}

/// Controls that show a difference: what they say holds for the whole answer.
fn alarms(analysis: &Analysis) -> impl Iterator<Item = String> {
    let controls = analysis.loads.iter();
    controls.filter_map(|load| match load.control? {
        finding @ Control::Differs => Some(control(load, finding) + "."),
        Control::Equal { .. } | Control::NotProven { .. } => None,
    })
}

/// What a load says that no scheduler can change.
fn control(load: &LoadAnalysis, finding: Control) -> String {
    let found = match finding {
        Control::Equal { within } => format!(
            "is equal under all arms: no difference larger than {}",
            percent_up(within - 1.0)
        ),
        Control::Differs => {
            "shows a difference: something else than the scheduler was measured".into()
        }
        Control::NotProven { within } if within < 2.0 => format!(
            "shows no difference; up to {} is not excluded: more rounds, or a machine that does \
             nothing else, would exclude it",
            percent_up(within - 1.0)
        ),
        Control::NotProven { .. } => {
            "shows no difference, after too few rounds to exclude one".into()
        }
    };
    let name = &load.name;
    let left_out = match load.turns_left_out {
        0 => String::new(),
        turns => format!(
            "; left out: {}, in which somebody else emptied the page cache",
            count(turns, "turn")
        ),
    };
    format!("The control {name}, which no scheduler can change, {found}{left_out}")
}

/// What was measured under a load, and how often.
pub(super) fn load_head(plan: &Plan, analysis: &Analysis, index: usize) -> String {
    let load = &analysis.loads[index];
    let known = plan
        .trial_duration(index)
        .filter(|_| !plan.loads[index].is_runtime_auto);
    let each = known.map_or(String::new(), |trial| {
        format!(" of {} each", run_time(trial.as_secs_f64()))
    });
    let direction = if load.objective.higher_is_better() {
        ""
    } else {
        " (less is better)"
    };
    format!(
        "{}: {}{direction}, {}{each}",
        load.name,
        load.measure,
        count(
            analysis.rounds,
            if plan.rules.is_unpaired {
                "run"
            } else {
                "round"
            }
        ),
    )
}

pub(super) fn ratio_cell(arm: usize, baseline: usize, contest: &Contest) -> String {
    let scale = contest.scale;
    if arm == baseline {
        return format!("{} (baseline)", scale.equal());
    }
    let Some(ratio) = contest.arms[arm].to_baseline else {
        return match contest.arms[arm].rounds {
            0 | 1 => "needs 2 rounds".into(),
            _ => "-".into(),
        };
    };
    let interval = bounds(scale, ratio).unwrap_or_else(|| NEEDS_MORE.to_owned());
    format!("{} ({interval})", estimate(scale, ratio))
}

/// The medians of the rounds' ratios that lie outside of the interval: one figure is printed for each comparison, and
/// where it depends on a few rounds that is said.
fn far_medians(analysis: &Analysis, load: &LoadAnalysis) -> Option<String> {
    if !load.contest.scale.is_ratio() {
        return None;
    }
    let arms = load.arms.iter().zip(&load.contest.arms).zip(&analysis.arms);
    let far = arms.filter_map(|((summary, standing), name)| {
        let (median, ratio) = (summary.robust?.median, standing.to_baseline?);
        (!ratio.contains(median)).then(|| format!("{name} {}", number(median)))
    });
    let far = enumerate_plain(far);
    let name = &load.name;
    (!far.is_empty()).then(|| {
        format!(
            "In {name} a few rounds weigh much: the median of the rounds' ratios is outside of the interval: {far}."
        )
    })
}

/// What looks odd, and whether it matters.
fn remark_sentence(analysis: &Analysis, load: &LoadAnalysis, remark: &Remark) -> String {
    let name = |arm: usize| analysis.arms[arm].as_str();
    let per_round = |ratio: f64| {
        let word = if ratio > 1.0 { "more" } else { "less" };
        format!("{} {word} per round", percent((ratio - 1.0).abs()))
    };
    let what = match *remark {
        Remark::Outlier { arm, round, ratio } => format!(
            "the trial of {} in round {} is {} of what is expected",
            name(arm),
            round + 1,
            percent(ratio)
        ),
        Remark::OwnTrend {
            arm,
            per_round: ratio,
        } => {
            format!("{} drifts by itself, {}", name(arm), per_round(ratio))
        }
        Remark::Autocorrelated { arm, coefficient } => format!(
            "the trials of {} remember the one before (correlation {})",
            name(arm),
            number(coefficient)
        ),
        Remark::TwoGroups {
            arm,
            low,
            high,
            high_share,
        } => format!(
            "the trials of {} fall into two groups, at {} and {} of its median ({} in the higher)",
            name(arm),
            percent(low),
            percent(high),
            percent(high_share)
        ),
    };
    let weight = if remark.weakens() {
        "; the interval may be too narrow"
    } else {
        ""
    };
    format!("In {}, {what}{weight}.", load.name)
}

/// `loop0 (emulated hdd-7200)`, `/srv/data (sda)`.
pub(super) fn target_name(plan: &Plan) -> String {
    let disks = plan.disks.join(", ");
    match (&plan.target, &plan.emulated) {
        (_, Some(model)) if plan.is_served() => {
            format!("{disks} (emulated {model}, schedulers served inside)")
        }
        (_, Some(model)) => format!("{disks} (emulated {model})"),
        (Target::Simulated(disk), None) => format!("a simulated {}", disk.model.name),
        (
            Target::FileSystem {
                device,
                file_system,
                ..
            },
            None,
        ) => format!("{device} ({} of our own)", file_system.name()),
        (Target::Device { device, .. }, None) if plan.is_served() => {
            format!("{device} (schedulers served inside)")
        }
        (Target::Device { device, .. }, None) if *device == disks => disks,
        (Target::Device { device, .. }, None) => format!("{device} ({disks})"),
        (Target::Directory { path, .. } | Target::File { path, .. }, None) => {
            format!("{} ({disks})", path.display())
        }
    }
}

/// What was done before the first trial, and what that says.
fn preparation(record: &Record) -> Vec<String> {
    let plan = &record.header.plan;
    let mut lines = Vec::new();
    if plan.ramp_s > 0.0 {
        lines.push(format!(
            "The first {} s of each trial were cut.",
            plan.ramp_s
        ));
    }
    lines.extend(plan.notes().into_iter().map(|note| format!("{note}.")));
    for entry in &record.entries {
        match entry {
            Entry::Preconditioned { bytes, elapsed_s } => lines.push(format!(
                "The device was filled first: {:.0} MB in {}.",
                *bytes as f64 / 1e6,
                span(Duration::from_secs_f64(*elapsed_s))
            )),
            Entry::Steady {
                load,
                throughput_bytes_per_s,
                window,
                ..
            } => {
                let name = &plan.loads[*load].name;
                let runs = count(throughput_bytes_per_s.len(), "run");
                lines.push(match window {
                    Some(window) => format!(
                        "{name} was steady after {runs}: excursion {}, slope {}.",
                        percent(window.excursion),
                        percent(window.slope)
                    ),
                    None if throughput_bytes_per_s.is_empty() => {
                        format!("The budget is too short to run {name} until it is steady.")
                    }
                    None => format!("{name} was not steady after {runs}: the disk may drift."),
                });
            }
            Entry::LeadIn {
                load,
                arm,
                ratio,
                runs,
                ..
            } => lines.push(format!(
                "Trials of {} depended on the arm before: after {}, {} times what it was after others ({}-{}). \
             The run began anew, with {} before each trial under its own arm.",
                plan.loads[*load].name,
                plan.arm_label(*arm),
                number(ratio.estimate),
                bound(ratio.lower),
                bound(ratio.upper),
                count(*runs as usize, "run"),
            )),
            _ => {}
        }
    }
    lines
}

/// The command whose trials have accesses enough, in a line of its own, where such a time is known.
fn longer_trials(record: &Record, caveat: &Caveat) -> Option<String> {
    let (Caveat::FewAccesses { runtime_s, .. } | Caveat::UnderWayAtTheEnd { runtime_s, .. }) =
        caveat
    else {
        return None;
    };
    let runtime = (*runtime_s)?;
    let command = command_line::ours(&record.header.command);
    let command = command_line::without(&command, "--out", true);
    let command = command_line::with(&command, &format!("--runtime={runtime}s"));
    Some(format!("{COMMAND}{}", command_line::joined(&command)))
}

/// How a line begins that is a command to be copied: it is never broken.
pub(super) const COMMAND: &str = "try: ";

/// What lets the numbers say less than they seem to.
fn caveat_sentence(analysis: &Analysis, caveat: &Caveat) -> String {
    let name = |load: usize| &analysis.loads[load].name;
    match caveat {
        Caveat::FewAccesses {
            load,
            arm,
            accesses,
            runtime_s: _,
        } => format!(
            "In {}, a trial of {} has only {}, too few for percentiles.",
            name(*load),
            analysis.arms[*arm],
            accesses_counted(*accesses),
        ),
        Caveat::UnderWayAtTheEnd {
            load,
            arm,
            under_way,
            accesses,
            runtime_s: _,
        } => format!(
            "In {}, up to {under_way} of the {accesses} accesses of a trial of {} were under way when it \
             ended. fio counts them late: the p99 shown is too long.",
            name(*load),
            analysis.arms[*arm],
        ),
        Caveat::OneBlock { load } => format!(
            "In {}, all accesses are for one block: no scheduler has anything to put in \
             order, and the disk can answer from its buffer.",
            name(*load)
        ),
        Caveat::ReadsBesideWritesOnFlash { load } => format!(
            "{} reads beside writes on simulated flash, which has no garbage collection: beside writes \
             that go on for long a drive's reads can take many times as long.",
            name(*load)
        ),
        Caveat::LoadAverage { one_minute, cpus } => format!(
            "The machine was busy when the run began (load {} on {}): intervals may be wider than needed.",
            significant(*one_minute),
            count(*cpus, "CPU")
        ),
        Caveat::OtherPrograms {
            trials,
            of,
            processors,
        } => format!(
            "Other programs used up to {} processors during {trials} of {of} trials. Stop them while a disk \
             is measured.",
            significant(*processors)
        ),
        Caveat::OtherWrites {
            trials,
            of,
            writes,
            reads,
        } => format!(
            "Something wrote to the disk during {trials} of {of} trials of loads that only read (in one, \
             {writes} writes beside {reads} reads). The numbers include that."
        ),
        Caveat::OtherRuns { trials, commands } => other_runs(*trials, commands),
    }
}

/// Some of the commands stand for all.
fn other_runs(trials: usize, commands: &[String]) -> String {
    const NAMED: usize = 2;
    let (named, others) = commands.split_at(commands.len().min(NAMED));
    let mut said = named.join("; ");
    if !others.is_empty() {
        let others = count(others.len(), "other");
        said = format!("{said}; and {others} (--json names all)");
    }
    let trials = count(trials, "trial");
    format!("Another iosched was at work during {trials}: {said}.")
}

fn accesses_counted(accesses: u64) -> String {
    match accesses {
        1 => "1 access".into(),
        _ => format!("{accesses} accesses"),
    }
}

/// `nr_requests differs between arms: 32 with none; 256 with mq-deadline and bfq.`
fn confound_sentence(analysis: &Analysis, confound: &Confound) -> String {
    let mut values: Vec<&str> = confound
        .values
        .iter()
        .map(|(_, value)| value.as_str())
        .collect();
    values.sort_unstable();
    values.dedup();
    let parts: Vec<String> = values
        .into_iter()
        .map(|value| {
            let with = confound.values.iter().filter(|(_, other)| other == value);
            let arms = with.map(|&(arm, _)| analysis.arms[arm].as_str());
            format!("{value} with {}", enumerate(arms))
        })
        .collect();
    format!(
        "{} differs between arms: {}.",
        confound.setting,
        parts.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::deciding_number;
    use iosched_experiment::fixture;
    use iosched_experiment::objective::Objective;
    use iosched_experiment::schedule::{Next, next};
    use iosched_experiment::trial::{Slot, Trial, VoidReason, VoidTrial};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever ended a run, and however little it was given when it was gone on with: the command that is printed does not end at once.
        #[test]
        fn the_command_to_go_on_leads_to_a_trial(
            factor in 0.95f64..1.05,
            max_rounds in 2u32..12,
            first_budget in prop::option::of(20.0f64..600.0),
            later_budget in prop::option::of(1.0f64..300.0),
            later_rounds in prop::option::of(2u32..5),
        ) {
            let mut plan = fixture::plan(2);
            plan.rules.max_rounds = max_rounds;
            plan.rules.time_budget_s = first_budget;
            let mut record = fixture::record(&plan);
            measure(&mut record, &[1.0, factor], loud, |_, _, _| {});
            let resumed = |max_rounds, time_budget_s| Entry::Resumed {
                given_up: None,
                at_unix_s: 0.0,
                max_rounds,
                time_budget_s,
            };
            for (rounds, budget) in [(None, None), (later_rounds, later_budget)] {
                if (rounds, budget) != (None, None) {
                    record.push(resumed(rounds, budget));
                    measure(&mut record, &[1.0, factor], loud, |_, _, _| {});
                }
                let Some(command) = going_on(&record, &Analysis::of(&record), Path::new("r")) else {
                    break;
                };
                let value = |option: &str| {
                    let words = command.split(' ').find_map(|word| word.strip_prefix(option));
                    words.map(|value| value.trim_end_matches('s').parse::<u32>().unwrap())
                };
                let mut went_on = record.clone();
                went_on.push(resumed(value("--rounds="), value("--budget=").map(f64::from)));
                let comes = next(&went_on.header.plan, &went_on);
                prop_assert!(matches!(comes, Next::Trial(_)), "{command}: {comes:?}");
            }
        }
    }

    /// What is said of a control whose second arm is this much faster: beside the load, and of all.
    fn said_of_a_control(factor: f64) -> (String, String) {
        let mut plan = fixture::plan(2);
        plan.loads[0].is_control = true;
        let mut record = fixture::record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = ((slot.round as usize * 7 + slot.arm * 3) % 5) as f64 * 0.001;
            let value = if slot.arm == 1 { factor } else { 1.0 } * 1e6 * (1.0 + noise);
            let mut entry = fixture::trial(slot, value);
            if let Entry::Trial(trial) = &mut entry {
                trial.measured.read_bytes = 0;
            }
            record.entries.push(entry);
        }
        let analysis = Analysis::of(&record);
        let of_all = format!("{:?}", warnings(&record, &analysis));
        (of_load(&analysis, &analysis.loads[0], &plan), of_all)
    }

    #[test]
    fn a_control_that_shows_a_difference_is_an_alarm() {
        let (beside, of_all) = said_of_a_control(1.0);
        assert!(beside.contains("is equal under all arms"));
        assert!(!of_all.contains("control"));
        let (beside, of_all) = said_of_a_control(1.5);
        assert!(beside.contains("shows a difference: something else"));
        assert!(of_all.contains("shows a difference: something else"));
    }

    #[test]
    fn an_open_run_is_gone_on_with_by_a_whole_command_line() {
        let plan = fixture::plan(2);
        let mut record = fixture::record(&plan);
        let directory = Path::new("results/of sda");
        let ended = |record: &mut Record, stop| {
            record.entries = vec![Entry::Finished {
                is_cut: false,
                at_unix_s: 0.0,
                stop,
            }];
        };
        let expected = Some("iosched tune --resume 'results/of sda'".to_owned());
        assert_eq!(
            going_on(&record, &Analysis::of(&record), directory),
            expected
        );
        ended(&mut record, StopReason::RoundsSpent);
        let expected = Some("iosched tune --resume 'results/of sda' --rounds=60".to_owned());
        assert_eq!(
            going_on(&record, &Analysis::of(&record), directory),
            expected
        );
        ended(&mut record, StopReason::Decided);
        assert_eq!(going_on(&record, &Analysis::of(&record), directory), None);
    }

    /// A run to its end, in which arms are so many times as fast as the first, with this noise for a round and arm; and what else of
    /// a trial is another.
    fn run_to_the_end(
        plan: &Plan,
        factors: &[f64],
        noise: fn(usize, usize) -> f64,
        change: impl Fn(&mut Trial, usize, f64),
    ) -> Record {
        let mut record = fixture::record(plan);
        measure(&mut record, factors, noise, change);
        record
    }

    /// Goes on with a record until its plan has enough.
    fn measure(
        record: &mut Record,
        factors: &[f64],
        noise: fn(usize, usize) -> f64,
        change: impl Fn(&mut Trial, usize, f64),
    ) {
        let stop = loop {
            let slot = match next(&record.header.plan, record) {
                Next::Trial(slot) => slot,
                Next::Done(stop) => break stop,
            };
            let noise = noise(slot.round as usize, slot.arm);
            let mut entry = fixture::trial(slot, 1e6 * factors[slot.arm] * (1.0 + noise));
            if let Entry::Trial(trial) = &mut entry {
                change(trial, slot.arm, noise);
            }
            record.push(entry);
        };
        record.push(Entry::Finished {
            is_cut: false,
            at_unix_s: 0.0,
            stop,
        });
    }

    #[test]
    fn nobody_is_told_to_go_on_with_what_no_budget_would_settle() {
        let so_near = (0..120).map(|step| 1.0 + 0.0005 * f64::from(step));
        let cases = so_near.flat_map(|factor| (2..=6).map(move |rounds| (factor, rounds)));
        let mut hopeless = 0;
        for (factor, max_rounds) in cases {
            let mut plan = fixture::plan(2);
            plan.rules.max_rounds = max_rounds;
            let record = run_to_the_end(&plan, &[1.0, factor], loud, |_, _, _| {});
            let analysis = Analysis::of(&record);
            if analysis.stop == Some(StopReason::Decided) {
                continue;
            }
            let said = of_load(&analysis, &analysis.loads[0], &plan);
            let is_hopeless = said.contains("a decision takes more than");
            hopeless += usize::from(is_hopeless);
            let stopped = ending(&record, &analysis).join(" ");
            assert!(stopped.contains("It stopped because "), "{stopped}");
            let command = going_on(&record, &Analysis::of(&record), Path::new("results"));
            assert_eq!(!is_hopeless, command.is_some(), "{said}{command:?}");
        }
        assert!(hopeless > 0, "of none it was said");
    }

    /// So much that a few rounds do not tell small differences.
    fn loud(round: usize, arm: usize) -> f64 {
        [0.0, 0.06, 0.02, 0.05, 0.01][(round + arm * 2) % 5]
    }

    /// The same for all arms of a round.
    fn low(round: usize, _arm: usize) -> f64 {
        [0.0, 0.01, 0.004][round % 3]
    }

    /// The answer of a run of so many rounds whose arms are so many times as fast as the first, with noise.
    fn answer_of(factors: &[f64], max_rounds: u32) -> String {
        let mut plan = fixture::plan(factors.len());
        plan.rules.max_rounds = max_rounds;
        let record = run_to_the_end(&plan, factors, loud, |trial, arm, _| {
            trial.metrics.cpu_ns_per_io = Some([9e4, 4e4, 5e4][arm]);
        });
        said(&record)
    }

    /// The answer, its grounds and its costs.
    fn said(record: &Record) -> String {
        let answer = answer(&Analysis::of(record), &record.header.plan);
        let lines = [vec![answer.what], answer.grounds, answer.costs];
        lines.concat().join("\n")
    }

    /// A plan of two arms with a requirement.
    fn demanding(objective: Objective, at_least: f64) -> Plan {
        let mut plan = fixture::plan(2);
        plan.rules.requirements.push(Requirement {
            objective,
            at_least,
        });
        plan
    }

    #[test]
    fn a_run_without_a_winner_says_what_to_do_and_what_that_can_cost() {
        let runs = [&[1.0, 1.01][..], &[1.0, 1.07, 1.11], &[1.0, 1.03, 1.04]];
        let answers = runs.map(|factors| answer_of(factors, 8));
        insta::assert_snapshot!(answers.join("\n\n"), @r"
        keep none (it was active) for random-read on sda
        none and mq-deadline are undecided: keeping none costs at most 5.5 % against mq-deadline, the best so far (95 %); a decision takes more than 40 rounds.

        undecided: use kyber for random-read on sda
        mq-deadline and kyber are undecided: using kyber, proven better than none, costs at most 2.1 %, if mq-deadline is the best (95 %); a decision takes about 17 rounds, if the arms are as they look now.

        undecided: keep none (it was active) for random-read on sda
        none, mq-deadline and kyber are undecided: keeping none costs at most 10.6 % against kyber, the best so far (95 %); a decision takes more than 40 rounds.
        ");
    }

    #[test]
    fn who_has_the_best_ratio_and_misses_a_requirement_is_named_with_it() {
        let plan = demanding(Objective::P99, 0.8);
        let record = run_to_the_end(&plan, &[1.0, 2.0], low, |trial, arm, noise| {
            if arm == 1 {
                trial.metrics.all.as_mut().unwrap().p99_ns *= 2.0 + noise;
            }
        });
        let analysis = Analysis::of(&record);
        let said = of_load(&analysis, &analysis.loads[0], &plan);
        let expected = "; mq-deadline misses the requirement `p99 latency <= 1.25` and cannot win.";
        assert!(
            said.starts_with("none is best") && said.ends_with(expected),
            "{said}"
        );
    }

    #[test]
    fn a_requirement_that_alone_is_in_the_way_of_an_answer_is_named() {
        let mut plan = demanding(Objective::P99, 0.8);
        plan.rules.max_rounds = 6;
        let record = run_to_the_end(&plan, &[1.0, 2.0], low, |trial, arm, noise| {
            if arm == 1 {
                trial.metrics.all.as_mut().unwrap().p99_ns *= 1.25 * (1.0 + 4.0 * noise);
            }
        });
        let analysis = Analysis::of(&record);
        let said = of_load(&analysis, &analysis.loads[0], &plan);
        let expected =
            "; mq-deadline is surely better than the others, but may miss `p99 latency <= 1.25`.";
        assert!(said.ends_with(expected), "{said}");
    }

    #[test]
    fn who_wins_and_lost_trials_that_others_did_not_lose_is_named_with_them() {
        let plan = fixture::plan(2);
        let mut record = run_to_the_end(&plan, &[1.0, 2.0], low, |_, _, _| {});
        for round in 0..2 {
            record.push(Entry::Void(VoidTrial {
                slot: Slot {
                    load: 0,
                    round,
                    arm: 1,
                },
                sequence: round,
                reason: VoidReason::LoadFailed {
                    message: "it crashed".into(),
                },
                elapsed_s: 1.0,
            }));
        }
        let analysis = Analysis::of(&record);
        let said = of_load(&analysis, &analysis.loads[0], &plan);
        assert!(
            said.ends_with("; 2 of 6 trials of mq-deadline failed."),
            "{said}"
        );
        let expected = "use mq-deadline for random-read on sda, although 2 of its 6 trials failed";
        assert_eq!(answer(&analysis, &plan).what, expected);
    }

    #[test]
    fn an_arm_whose_number_is_best_at_zero_wins_by_the_difference() {
        let mut plan = fixture::plan(2);
        plan.loads[0].objective = Objective::NumberLower;
        let record = run_to_the_end(&plan, &[1.0, 1.0], low, |trial, arm, noise| {
            trial.metrics.number = Some([80.0 + (100.0 * noise).round(), 0.0][arm]);
            trial.metrics.number_unit = Some(1.0);
        });
        let analysis = Analysis::of(&record);
        let said = of_load(&analysis, &analysis.loads[0], &plan);
        let expected = "mq-deadline is best, -80.2 against the printed number under none (95 % CI ";
        assert!(said.starts_with(expected), "{said}");
        let cell = ratio_cell(1, 0, &analysis.loads[0].contest);
        assert!(cell.starts_with("-80.2 (-8"), "{cell}");
        let numbers = [0, 1].map(|arm| deciding_number(&analysis.loads[0], arm).1);
        assert_eq!(numbers, ["80.2", "0"]);
    }

    #[test]
    fn requirements_that_nobody_meets_are_no_want_of_measurements() {
        let plan = demanding(Objective::Throughput, 1.9);
        let record = run_to_the_end(&plan, &[1.0, 1.5], low, |_, _, _| {});
        let analysis = Analysis::of(&record);
        let said = of_load(&analysis, &analysis.loads[0], &plan);
        assert!(
            said.starts_with("no arm meets the requirements; "),
            "{said}"
        );
        assert!(
            said.ends_with("miss the requirement `throughput >= 1.9` and cannot win."),
            "{said}"
        );
        let answer = answer(&analysis, &plan).what;
        assert!(
            answer.starts_with("no arm meets the requirements: keep none"),
            "{answer}"
        );
    }

    #[test]
    fn a_price_that_is_not_proven_is_told_with_its_interval() {
        let plan = fixture::plan(2);
        let mut record = fixture::record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = [0.0, 0.01, 0.004][slot.round as usize % 3];
            let mut entry = fixture::trial(slot, [1e6, 2e6][slot.arm] * (1.0 + noise));
            if let (Entry::Trial(trial), 1) = (&mut entry, slot.arm) {
                let p99_ns = &mut trial.metrics.all.as_mut().unwrap().p99_ns;
                *p99_ns *= [1.2, 3.0, 0.9][slot.round as usize % 3];
            }
            record.entries.push(entry);
        }
        let costs = answer(&Analysis::of(&record), &plan).costs;
        let expected = "1.40 × the p99 latency under none (95 % CI 0.028-69.7), not proven.";
        assert_eq!(costs, [expected]);
    }
}
