//! What the winner of a load does there, in plain words: where requests wait, how the disk gets them, how many there
//! are to choose from. Every sentence is one that the record's numbers make; what they do not show is not said, and of a
//! load without a winner nothing is.

use iosched_experiment::analysis::{Analysis, ArmSummary, LoadAnalysis, SplitSummary};
use iosched_stats::race::Verdict;
use iosched_switch::Layer;

use super::sentences::next_best;
use super::words::{enumerate, milliseconds, percent, significant, size};

/// A part of the times of fewer requests says nothing of an arm.
const ENOUGH_REQUESTS: u64 = 100;

/// The kernel lost so small a part of the events that the rest stands for all.
const FEW_LOST: f64 = 0.01;

/// Times and ways that differ by less are called alike.
const ALIKE: f64 = 1.1;

/// Shares that differ by less are called alike.
const SHARE_ALIKE: f64 = 0.05;

/// Why the winner of a load wins; empty where there is none, or where the record does not show it.
pub(super) fn why(analysis: &Analysis, load: &LoadAnalysis) -> String {
    let sentences = sentences(analysis, load);
    if sentences.is_empty() {
        return String::new();
    }
    format!("Why, in {}: {}", load.name, sentences.join(" "))
}

/// The most telling of these sentences: what the scheduler does before how long requests wait.
pub(super) fn most_telling(analysis: &Analysis, load: &LoadAnalysis) -> Option<String> {
    let sentences = sentences(analysis, load);
    let does = |sentence: &&String| sentence.starts_with("Under ");
    let telling = sentences.iter().find(does).or(sentences.first())?;
    Some(telling.clone())
}

fn sentences(analysis: &Analysis, load: &LoadAnalysis) -> Vec<String> {
    let Verdict::Winner { arm } = load.contest.verdict else {
        return Vec::new();
    };
    let other = if arm == analysis.baseline {
        next_best(&load.contest, arm)
    } else {
        Some(analysis.baseline)
    };
    let Some(other) = other.filter(|_| load.control.is_none()) else {
        return Vec::new();
    };
    let pair = Pair {
        winner: (&analysis.arms[arm], &load.arms[arm]),
        other: (&analysis.arms[other], &load.arms[other]),
        is_rotational: analysis.rotational == Some(true),
    };
    let is_served = |arm: usize| analysis.arms[arm].starts_with(Layer::Served.prefix());
    if is_served(arm) || is_served(other) {
        return pair.inside();
    }
    let sentences = [
        pair.waits(Kind::Read),
        pair.waits(Kind::Write),
        pair.who_waits(),
        pair.way(),
        pair.merges(),
        pair.choice(),
    ];
    sentences.into_iter().flatten().collect()
}

/// The winner and whom it is held against, each with its name.
struct Pair<'a> {
    winner: (&'a str, &'a ArmSummary),
    other: (&'a str, &'a ArmSummary),
    /// The disk travels from one request to the next.
    is_rotational: bool,
}

impl Pair<'_> {
    /// Where a request of one kind spends its time, and whether the disk itself is quicker; nothing of what is alike.
    fn waits(&self, kind: Kind) -> Option<String> {
        let (winner, other) = self.splits(kind)?;
        let disk = compared(winner.service_mean_ns, other.service_mean_ns);
        if !self.waits_are_known(winner, other) {
            disk?;
            return Some(format!(
                "At the disk a {} takes {} ms under {}, {} ms under {}.",
                kind.name(),
                milliseconds(winner.service_mean_ns),
                self.winner.0,
                milliseconds(other.service_mean_ns),
                self.other.0,
            ));
        }
        let is_whole = is_whole(winner, other);
        let parts = |split: SplitSummary| {
            let before = split.before_mean_ns.filter(|_| is_whole);
            let named = [
                before.map(|ns| (ns, "before the queue")),
                Some((split.queue_mean_ns, "in it")),
                Some((split.service_mean_ns, "at the disk")),
            ];
            let named: Vec<(f64, &str)> = named.into_iter().flatten().collect();
            let sum: f64 = named.iter().map(|(ns, _)| ns).sum();
            let words = named.iter().map(|&(ns, place)| match (place, is_whole) {
                ("in it", false) => format!("{} in the queue", milliseconds(ns)),
                _ => format!("{} {place}", milliseconds(ns)),
            });
            let words: Vec<String> = words.collect();
            (sum, enumerate(words.iter().map(String::as_str)))
        };
        let ((took, parts_of_winner), (took_other, parts_of_other)) = (parts(winner), parts(other));
        if compared(took, took_other).is_none() && disk.is_none() {
            return None;
        }
        let what = if is_whole {
            "takes"
        } else {
            "is in queue and disk for"
        };
        let kind = kind.name();
        let disk = disk.map_or(format!(" The disk takes as long for a {kind}."), |word| {
            format!(" The disk itself takes {word} for a {kind}.")
        });
        Some(format!(
            "A {kind} {what} {} ms under {} ({parts_of_winner}), {} ms under {} ({parts_of_other}).{disk}",
            milliseconds(took),
            self.winner.0,
            milliseconds(took_other),
            self.other.0,
        ))
    }

    /// True if what was measured of the waiting can be compared: all of it, or all but what requests wait for a free one
    /// where there are as many of them.
    fn waits_are_known(&self, winner: SplitSummary, other: SplitSummary) -> bool {
        let (of_winner, of_other) = (&self.winner.1.nr_requests, &self.other.1.nr_requests);
        is_whole(winner, other) || !of_winner.is_empty() && of_winner == of_other
    }

    /// What there is to say of a scheduler inside a disk: the kernel's events end where the disk begins, so that they
    /// show neither its queue nor the order in which it dispatches.
    fn inside(&self) -> Vec<String> {
        let said = [Kind::Read, Kind::Write].into_iter().filter_map(|kind| {
            let (winner, other) = self.splits(kind)?;
            let is_whole = is_whole(winner, other);
            let took = |split: SplitSummary| {
                let before = split.before_mean_ns.filter(|_| is_whole);
                before.unwrap_or(0.0) + split.queue_mean_ns + split.service_mean_ns
            };
            let is_known = self.waits_are_known(winner, other);
            compared(took(winner), took(other)).filter(|_| is_known)?;
            Some(format!(
                "A {} takes {} ms under {} ({} of them inside the disk, with its scheduler), {} ms under {} ({}).",
                kind.name(),
                milliseconds(took(winner)),
                self.winner.0,
                milliseconds(winner.service_mean_ns),
                milliseconds(took(other)),
                self.other.0,
                milliseconds(other.service_mean_ns),
            ))
        });
        said.collect()
    }

    /// Whether one direction is let pass by the other.
    fn who_waits(&self) -> Option<String> {
        let change = |kind: Kind| {
            let (winner, other) = self.splits(kind)?;
            let is_whole = is_whole(winner, other);
            let waits = |split: SplitSummary| {
                let before = split.before_mean_ns.filter(|_| is_whole);
                before.unwrap_or(0.0) + split.queue_mean_ns
            };
            compared(waits(winner), waits(other)).filter(|_| self.waits_are_known(winner, other))
        };
        let (reads, writes) = (change(Kind::Read)?, change(Kind::Write)?);
        let winner = self.winner.0;
        match (reads, writes) {
            ("less time", "longer") => Some(format!("Under {winner} writes wait for reads.")),
            ("longer", "less time") => Some(format!("Under {winner} reads wait for writes.")),
            _ => None,
        }
    }

    /// How requests follow one another to the disk.
    fn way(&self) -> Option<String> {
        let (winner, other) = (self.winner.1.order?, self.other.1.order?);
        let mut facts = Vec::new();
        if (winner.sequential_share - other.sequential_share).abs() > SHARE_ALIKE {
            facts.push(format!(
                "{} of the requests begin where the one before ended ({}: {})",
                percent(rounded(winner.sequential_share)),
                self.other.0,
                percent(rounded(other.sequential_share))
            ));
        }
        let has_arm_to_move = self.is_rotational;
        if has_arm_to_move && compared(winner.way_mean_bytes, other.way_mean_bytes).is_some() {
            facts.push(format!(
                "the disk's head travels {} from one request to the next on average ({}: {})",
                size(winner.way_mean_bytes),
                self.other.0,
                size(other.way_mean_bytes)
            ));
        }
        let facts = facts.join(", and ");
        (!facts.is_empty()).then(|| format!("Under {} {facts}.", self.winner.0))
    }

    /// How many accesses go to the disk within the request of another.
    fn merges(&self) -> Option<String> {
        let (winner, other) = (self.winner.1.merged_share?, self.other.1.merged_share?);
        ((winner - other).abs() > SHARE_ALIKE).then(|| {
            format!(
                "{} of the requests are merged into others ({}: {}).",
                percent(rounded(winner)),
                self.other.0,
                percent(rounded(other))
            )
        })
    }

    /// How many requests there are in the queue to choose from: by Little's law, of those that are queued or at the
    /// disk the part of their time that they are queued.
    fn choice(&self) -> Option<String> {
        let queued = |arm: &ArmSummary| {
            let splits = [arm.read_split, arm.write_split];
            let (mut queue, mut all) = (0.0, 0.0);
            for split in splits.into_iter().flatten().filter(is_enough) {
                queue += split.queue_mean_ns * split.requests as f64;
                all += (split.queue_mean_ns + split.service_mean_ns) * split.requests as f64;
            }
            (all > 0.0).then(|| arm.average_queue_length.unwrap_or(0.0) * queue / all)
        };
        let (winner, other) = (queued(self.winner.1)?, queued(self.other.1)?);
        let (fewer, more) = (winner.min(other), winner.max(other));
        (more >= 2.0 && more > 1.5 * fewer).then(|| {
            format!(
                "On average its queue holds {} requests to choose from ({}: {}).",
                requests(winner),
                self.other.0,
                requests(other)
            )
        })
    }

    /// Those of both arms; none of what the load itself does not do.
    fn splits(&self, kind: Kind) -> Option<(SplitSummary, SplitSummary)> {
        let of = |arm: &ArmSummary| {
            let (split, is_of_others) = match kind {
                Kind::Read => (arm.read_split, arm.reads_are_of_others),
                Kind::Write => (arm.write_split, arm.writes_are_of_others),
            };
            split.filter(is_enough).filter(|_| !is_of_others)
        };
        Some((of(self.winner.1)?, of(self.other.1)?))
    }
}

/// One kind of request.
#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
        }
    }
}

/// True if it is known of both how long requests wait before the queue.
fn is_whole(one: SplitSummary, other: SplitSummary) -> bool {
    one.before_mean_ns.is_some() && other.before_mean_ns.is_some()
}

fn is_enough(split: &SplitSummary) -> bool {
    split.requests >= ENOUGH_REQUESTS
        && split.lost_events as f64 <= FEW_LOST * split.requests as f64
}

/// How a length of time or a way differs from another; none if they are alike.
fn compared(one: f64, other: f64) -> Option<&'static str> {
    match one / other {
        ratio if ratio > ALIKE => Some("longer"),
        ratio if ratio < 1.0 / ALIKE => Some("less time"),
        _ => None,
    }
}

fn requests(mean: f64) -> String {
    if mean < 0.05 {
        return "0".into();
    }
    significant(mean)
}

/// A share as far as it is worth telling.
fn rounded(share: f64) -> f64 {
    (share * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use iosched_experiment::fixture;
    use iosched_experiment::plan::Plan;
    use iosched_experiment::record::{Entry, Record};
    use iosched_experiment::schedule::{Next, next};
    use iosched_experiment::split::{Order, Parts, Split};
    use iosched_experiment::trial::Trial;
    use iosched_switch::QueueState;

    /// What is said of a run whose arms are this much faster than the first, and whose trials were changed like
    /// this.
    fn said_of(factors: &[f64], edit: impl Fn(&mut Trial)) -> String {
        said_of_plan(&fixture::plan(factors.len()), factors, edit)
    }

    fn said_of_plan(plan: &Plan, factors: &[f64], edit: impl Fn(&mut Trial)) -> String {
        let mut record: Record = fixture::record(plan);
        while let Next::Trial(slot) = next(plan, &record) {
            let noise = ((slot.round as usize * 7 + slot.arm * 3) % 5) as f64 * 0.002;
            let mut entry = fixture::trial(slot, 1e6 * factors[slot.arm] * (1.0 + noise));
            let Entry::Trial(trial) = &mut entry else {
                unreachable!("a trial was made")
            };
            edit(trial);
            record.entries.push(entry);
        }
        let mut analysis = Analysis::of(&record);
        analysis.rotational = Some(true);
        why(&analysis, &analysis.loads[0])
    }

    /// A split in which each read was so long in the queue and at the disk, ms, and what their order was.
    fn split(queue_ms: u64, service_ms: u64, way_sectors: u64) -> Split {
        let requests = 1000;
        let spent = |ms: u64| {
            (
                ms * 1_000_000 * requests,
                [(ms * 1_000_000, requests)].into_iter(),
            )
        };
        Split {
            read: Some(Parts::counted(requests, spent(queue_ms), spent(service_ms))),
            order: Some(Order {
                requests,
                sequential: 0,
                distance_sectors: way_sectors * requests,
                reach: None,
            }),
            one_in: 1,
            ..Split::default()
        }
    }

    #[test]
    fn a_winner_that_reorders_is_told_by_its_ways_and_its_queue() {
        let said = said_of(&[1.0, 1.6], |trial| {
            let is_winner = trial.slot.arm == 1;
            trial.measured.split = Some(if is_winner {
                split(9, 1, 2_000_000)
            } else {
                split(0, 4, 80_000_000)
            });
            trial.measured.average_queue_length = if is_winner { 20.0 } else { 4.0 };
        });
        let expected = "Why, in random-read: A read takes 81.6 ms under mq-deadline (71.6 before the queue, \
                        9.00 in it and 1.00 at the disk), 131 ms under none (127 before the queue, 0 in it \
                        and 4.00 at the disk). The disk itself takes less time for a read. Under \
                        mq-deadline the disk's head travels 1.02 GB from one request to the next on average \
                        (none: 41.0 GB). On \
                        average its queue holds 18.0 requests to choose from (none: 0).";
        assert_eq!(said, expected);
    }

    #[test]
    fn nothing_is_said_where_nothing_is_proven_or_nothing_was_recorded() {
        let recorded = |trial: &mut Trial| trial.measured.split = Some(split(1, 1, 1000));
        assert_eq!(said_of(&[1.0, 1.001], recorded), "");
        assert_eq!(said_of(&[1.0, 1.6], |_| {}), "");
    }

    /// Makes the load one that writes, too.
    fn add_writes(trial: &mut Trial) {
        trial.jobs[0].write = trial.jobs[0].read.clone();
    }

    #[test]
    fn writes_that_wait_for_reads_are_told() {
        let said = said_of(&[1.0, 1.6], |trial| {
            let is_winner = trial.slot.arm == 1;
            let [reads, writes] = if is_winner { [1, 90] } else { [50, 20] };
            add_writes(trial);
            trial.states = vec![state(64)];
            trial.measured.split = Some(Split {
                write: split(writes, 2, 0).read,
                order: None,
                ..split(reads, 2, 0)
            });
        });
        assert!(
            said.contains("Under mq-deadline writes wait for reads."),
            "{said}"
        );
    }

    fn state(nr_requests: usize) -> QueueState {
        QueueState {
            scheduler: "none".into(),
            served: None,
            nr_requests: Some(nr_requests.to_string()),
            tunables: BTreeMap::new(),
            settings: BTreeMap::new(),
        }
    }

    #[test]
    fn of_schedulers_inside_a_disk_no_queue_and_no_order_is_told() {
        let mut plan = fixture::plan(2);
        plan.arms = plan
            .arms
            .into_iter()
            .map(|arm| arm.of(Layer::Served))
            .collect();
        let said = said_of_plan(&plan, &[1.0, 1.6], |trial| {
            let is_winner = trial.slot.arm == 1;
            trial.measured.split = Some(split(0, if is_winner { 3 } else { 5 }, 80_000_000));
            trial.measured.average_queue_length = 20.0;
            trial.measured.reads_merged = [0, 3000][trial.slot.arm];
        });
        let expected = "Why, in random-read: A read takes 81.6 ms under served/mq-deadline (3.00 of them inside \
                        the disk, with its scheduler), 131 ms under served/none (5.00).";
        assert_eq!(said, expected);
    }

    #[test]
    fn merges_are_told_where_they_differ() {
        let said = said_of(&[1.0, 1.6], |trial| {
            trial.measured.reads_merged = [0, 3000][trial.slot.arm];
        });
        let expected =
            "Why, in random-read: 75 % of the requests are merged into others (none: 0 %).";
        assert_eq!(said, expected);
    }
}
