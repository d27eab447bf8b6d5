//! What schedulers are called, before Linux 5.0 and since, and on which path of the kernel they are. Which there are, and
//! what took their place, each says of itself ([`scheduler::SchedulerFacts`]).

use iosched_facts::kernel::BlockLayer;
use iosched_facts::scheduler::{self, SchedulerFacts};

/// A scheduler of the single-queue path that is not simulated: Linux had it until 2.6.33.
const ANTICIPATORY: &str = "anticipatory";

/// The name that today's kernels have for an old scheduler: noop, deadline, cfq.
pub fn modern_name(old: &str) -> Option<&'static str> {
    scheduler::find(old)?.successor
}

/// True if this kernel takes the one name for the scheduler that it then calls by the other.
pub fn is_alias(name: &str, of: &str) -> bool {
    scheduler::find(of).is_some_and(|info| info.alias == Some(name))
}

/// What a scheduler was on the single-queue path, if it was there.
pub(crate) fn predecessor(modern: &str) -> Option<&'static SchedulerFacts> {
    scheduler::schedulers().find(|info| info.successor == Some(modern))
}

/// The name that a scheduler's predecessor had on the single-queue path, if it had one.
pub fn old_name(modern: &str) -> Option<&'static str> {
    Some(predecessor(modern)?.name)
}

/// True of a scheduler of the single-queue path.
pub fn is_old_name(name: &str) -> bool {
    name == ANTICIPATORY || block_layer(name) == Some(BlockLayer::SingleQueue)
}

/// True of a scheduler that a disk which offers these never takes: noop and cfq are of the single-queue block layer,
/// kyber and others of blk-mq. One that is only not loaded is asked for.
pub fn is_of_other_layer(name: &str, offered: &[String]) -> bool {
    if offered.is_empty() || offered.iter().any(|offered| offered == name) {
        return false;
    }
    if is_single_queue(offered) {
        block_layer(name) == Some(BlockLayer::MultiQueue)
    } else {
        is_old_name(name) && !scheduler::schedulers().any(|info| info.alias == Some(name))
    }
}

fn block_layer(name: &str) -> Option<BlockLayer> {
    scheduler::find(name).map(|info| info.block_layer)
}

/// True of what a disk offers that is on the single-queue path of Linux before 5.0. A machine of 4.x may have disks on
/// it and disks on blk-mq.
pub fn is_single_queue(offered: &[String]) -> bool {
    offered.iter().any(|name| modern_name(name).is_some())
}

/// What a scheduler is called on a disk that offers these: an old name stays on the single-queue path.
pub fn name_on<'a>(offered: &[String], wanted: &'a str) -> &'a str {
    modern_name(wanted)
        .filter(|_| !is_single_queue(offered))
        .unwrap_or(wanted)
}

/// What is to be said where a scheduler was asked for by its old name, and another has taken its place.
pub fn renamed(asked: &str, given: &str) -> Option<String> {
    (asked != given).then(|| format!("{asked} is an old name: {given} has taken its place"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_succeeds_a_scheduler_is_one_of_the_other_path() {
        for info in scheduler::schedulers() {
            let Some(successor) = info.successor else {
                continue;
            };
            assert_eq!(info.block_layer, BlockLayer::SingleQueue, "{}", info.name);
            assert_eq!(block_layer(successor), Some(BlockLayer::MultiQueue));
            assert_eq!(old_name(successor), Some(info.name));
        }
        assert_eq!(old_name("kyber"), None);
    }

    #[test]
    fn a_disk_never_takes_what_is_of_the_other_path() {
        let refused = |name: &str, offered: &[&str]| {
            let offered: Vec<_> = offered.iter().map(|&name| name.to_owned()).collect();
            is_of_other_layer(name, &offered)
        };
        for name in ["none", "mq-deadline", "kyber", "bfq"] {
            assert!(refused(name, &["noop", "deadline", "cfq"]), "{name}");
            assert!(!refused(name, &["none"]), "{name}");
        }
        for name in ["noop", "cfq", ANTICIPATORY] {
            assert!(refused(name, &["none", "mq-deadline"]), "{name}");
            assert!(!refused(name, &["noop", "deadline"]), "{name}");
        }
        for offered in [&["none"][..], &["noop"], &[]] {
            assert!(!refused("deadline", offered), "an alias there");
            assert!(!refused("newcomer", offered));
        }
    }
}
