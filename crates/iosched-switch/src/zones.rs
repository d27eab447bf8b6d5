//! Zoned disks, whose zones take writes in their order only.

use iosched_facts::kernel::KernelVersion;
use iosched_facts::kernel::rules::Rule;
use iosched_facts::scheduler;
use iosched_machine::host::Host;

use super::error;
use iosched_machine::failure::Problem;

/// The one scheduler that keeps the order of writes to a zoned disk (`queue/zoned`) on this kernel; none where any does.
/// From Linux 4.16 to 6.9 that is mq-deadline, which locks zones; since 6.10 the block layer keeps the order itself
/// (`block/blk-zoned.c`).
pub fn only_in_order(zoned: Option<&str>, kernel: Option<KernelVersion>) -> Option<&'static str> {
    let kernel = kernel.filter(|_| zoned.is_some_and(|model| model.starts_with("host-")))?;
    let left_to_scheduler =
        Rule::ZonesAreLocked.holds(kernel) && !Rule::ZonesOrderedBelow.holds(kernel);
    let mut schedulers = scheduler::schedulers().filter(|_| left_to_scheduler);
    Some(schedulers.find(|info| info.locks_zones)?.name)
}

/// Refuses a scheduler under which writes to a zoned disk would lose their order.
///
/// # Errors
/// That is so here.
pub fn check_order(host: &Host, device: &str, scheduler: &str) -> Result<(), Problem> {
    let model = host.sysfs().read_if_present(device, "queue/zoned");
    let kernel = host.kernel_version();
    match (only_in_order(model.as_deref(), kernel), model, kernel) {
        (Some(only), Some(model), Some(kernel)) if scheduler != only => {
            Err(error::zoned(device, &model, &kernel.to_string()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_zones_stay_with_mq_deadline_from_4_16_to_6_9() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("sys/block/sda/queue")).unwrap();
        std::fs::write(
            dir.path().join("sys/block/sda/queue/zoned"),
            "host-managed\n",
        )
        .unwrap();
        std::fs::create_dir_all(dir.path().join("proc/sys/kernel")).unwrap();
        let host = Host::at(dir.path());
        for (kernel, scheduler, is_refused) in [
            ("4.15.0", "none", false),
            ("4.16.0", "none", true),
            ("6.9.12", "bfq", true),
            ("6.9.12", "mq-deadline", false),
            ("6.10.0", "bfq", false),
        ] {
            std::fs::write(host.proc("sys/kernel/osrelease"), format!("{kernel}\n")).unwrap();
            let result = check_order(&host, "sda", scheduler);
            assert_eq!(result.is_err(), is_refused, "{kernel} {scheduler}");
        }
    }
}
