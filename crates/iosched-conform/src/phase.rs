//! Where the recorded kernel's ticks began.

use std::cmp::Reverse;

use iosched_facts::units::Nanos;
use iosched_sim::scheduler::PhaseSearch;

use super::multi_queue::Until;
use super::{Report, Settings};

/// Follows with the settings at one phase of the ticks after the other.
///
/// Where ticks began in a recording is not recorded. A scheduler whose decisions depend on it is
/// given the one phase, the same for the whole recording, with which it agrees best: each expiry (and
/// each ask that the kernel repeats some ticks later) that lies near the edge of a tick rules out some phases, so that the count falls on both sides of the
/// true one, and narrowing in on it finds it.
pub fn best_phase<T, E>(
    settings: &Settings,
    mut follow_at: impl FnMut(&Settings, Until) -> Result<(Report, T), E>,
) -> Result<(Report, T, Nanos), E> {
    if settings.info.phase_search == PhaseSearch::LongestAgreed {
        return phase_before_errors(settings, follow_at);
    }
    let mut settings = settings.clone();
    let mut best_phase = settings.kernel.tick_phase;
    let (mut best, mut state) = follow_at(&settings, Until::End)?;
    let search = settings.info.phase_search != PhaseSearch::Unneeded && !settings.tick_phase_given;
    let tick = settings.kernel.tick_nanos();
    let mut step = tick / STEPS;
    while search && score(&best) < (best.decisions, Reverse(0)) && step > FINEST {
        let from = best_phase.as_nanos() + tick - step * (STEPS / 2);
        for phase in (0..=STEPS).map(|index| (from + index * step) % tick) {
            settings.kernel.tick_phase = Nanos::new(phase);
            let (tried, left) = follow_at(&settings, Until::End)?;
            if score(&tried) > score(&best) {
                (best, state) = (tried, left);
                best_phase = settings.kernel.tick_phase;
            }
        }
        step /= STEPS / 4;
    }
    Ok((best, state, best_phase))
}

/// Where a tick began in a recording of bfq, before anything is tried: in those of Linux 6.1 that say
/// so (in messages), mostly some 2 ms before the first bio.
const USUAL_PHASE: Nanos = Nanos::from_millis(2);

/// Steps of the search for the phase of bfq's ticks, and how far each reaches to either side.
const BFQ_STEPS: [(u64, u64); 3] = [(100_000, u64::MAX), (20_000, 100_000), (3_000, 20_000)];

/// Where less agrees, it is no error of a few microseconds.
const ENOUGH: f64 = 0.99;

/// The same for bfq, whose soft real-time raises depend on the phase to 3 µs: after the first
/// disagreement its state is another one, so that the phase with the latest first one is taken. A
/// disagreement that no phase mends hides later ones from that search: where much is wrong all the
/// same, the phase is taken with which most of the recording agrees.
fn phase_before_errors<T, E>(
    settings: &Settings,
    mut follow_at: impl FnMut(&Settings, Until) -> Result<(Report, T), E>,
) -> Result<(Report, T, Nanos), E> {
    let mut settings = settings.clone();
    let tick = settings.kernel.tick_nanos();
    if settings.kernel.tick_phase == Nanos::ZERO && !settings.tick_phase_given {
        settings.kernel.tick_phase = Nanos::new(USUAL_PHASE.as_nanos() % tick);
    }
    let mut best_phase = settings.kernel.tick_phase;
    let (mut best, mut state) = follow_at(&settings, Until::End)?;
    if settings.tick_phase_given {
        return Ok((best, state, best_phase));
    }
    let mut right = until_wrong(&best);
    let usual_phase = best_phase;
    for (step, reach) in BFQ_STEPS {
        let reach = reach.min(tick / 2);
        let from = best_phase.as_nanos() + tick - reach;
        for index in 0..=2 * reach / step {
            if right == best.decisions {
                break;
            }
            settings.kernel.tick_phase = Nanos::new((from + index * step) % tick);
            let (tried, _) = follow_at(&settings, Until::Disagreement)?;
            if until_wrong(&tried) > right {
                right = until_wrong(&tried);
                best_phase = settings.kernel.tick_phase;
            }
        }
    }
    if best_phase != usual_phase {
        settings.kernel.tick_phase = best_phase;
        (best, state) = follow_at(&settings, Until::End)?;
    }
    let (coarse, _) = BFQ_STEPS[0];
    for phase in (0..tick).step_by(usize::try_from(coarse).unwrap_or(usize::MAX)) {
        if best.agreement().is_none_or(|share| share >= ENOUGH) {
            break;
        }
        settings.kernel.tick_phase = Nanos::new(phase);
        let (tried, left) = follow_at(&settings, Until::End)?;
        if score(&tried) > score(&best) {
            (best, state) = (tried, left);
            best_phase = settings.kernel.tick_phase;
        }
    }
    Ok((best, state, best_phase))
}

/// Decisions that are right before the first that is not.
fn until_wrong(report: &Report) -> u64 {
    if report.first_disagreements.is_empty() {
        report.agreed
    } else {
        report.agreed_at_first
    }
}

/// Phases tried at once.
const STEPS: u64 = 32;

/// Recordings have times to this many nanoseconds.
const FINEST: u64 = 1000;

/// How well a phase fits: decisions first, then moments at which the kernel held back.
pub(crate) fn score(report: &Report) -> (u64, Reverse<u64>) {
    (report.agreed, Reverse(report.eager))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Disagreement;
    use crate::follow::tests::settings;

    #[test]
    fn what_no_phase_mends_does_not_hide_the_phase_of_bfq() {
        let settings = settings("bfq", 250);
        let (report, (), phase) = best_phase(&settings, |settings, _| {
            let is_near = settings.kernel.tick_phase.as_nanos().abs_diff(1_300_000) < 100_000;
            let nothing = Disagreement {
                time_us: 0.0,
                recorded: String::new(),
                ours: String::new(),
            };
            Ok::<_, ()>((
                Report {
                    decisions: 1000,
                    agreed: if is_near { 995 } else { 700 },
                    agreed_at_first: 10,
                    first_disagreements: vec![nothing],
                    ..Report::default()
                },
                (),
            ))
        })
        .unwrap();
        assert_eq!(report.agreed, 995, "at {phase:?}");
    }
}
