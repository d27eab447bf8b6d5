//! What schedulers are called, before Linux 5.0 and since.

/// The name that today's kernels have for an old scheduler: noop, deadline, cfq.
pub fn modern_name(old: &str) -> Option<&'static str> {
    match old {
        "noop" => Some("none"),
        "deadline" => Some("mq-deadline"),
        "cfq" => Some("bfq"),
        _ => None,
    }
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
