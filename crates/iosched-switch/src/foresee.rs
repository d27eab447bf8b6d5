//! Whether an arm can be set, as far as that is known without setting it: for dry runs.
//!
//! The kernel shows a scheduler's tunables only while it is active somewhere. Where it is not, its names are
//! those that it is simulated with, which a newer kernel may exceed; so a real run asks the kernel instead.

use iosched_machine::device;
use iosched_machine::sysfs::Sysfs;

use super::{Arm, SETTINGS, SwitchError, active, error, value};

/// Checks the tunables of an arm, by name and by whether the value is a number where one is shown.
///
/// # Errors
/// The first tunable that the scheduler does not have, or that cannot have its value.
pub fn foresee(sysfs: &Sysfs, device: &str, arm: &Arm) -> Result<(), SwitchError> {
    let own = own_tunables(sysfs, &arm.scheduler);
    for (tunable, value) in &arm.tunables {
        let queue_file = format!("queue/{tunable}");
        let is_of_queue = tunable == "nr_requests" || SETTINGS.contains(&tunable.as_str());
        let is_there = is_of_queue && sysfs.read_if_present(device, &queue_file).is_some();
        let is_own = own
            .as_ref()
            .is_none_or(|own| own.iter().any(|name| name == tunable));
        if !is_there && !is_own {
            return Err(super::unknown(
                sysfs,
                device,
                &arm.scheduler,
                tunable,
                own.unwrap_or_default(),
            ));
        }
        let place = if is_there {
            queue_file
        } else {
            format!("queue/iosched/{tunable}")
        };
        let shown = shown_by(sysfs, device, &arm.scheduler, &place);
        let like = value::check_like(&shown.unwrap_or_default(), value);
        like.and_then(|()| value::check_is_kept(&arm.scheduler, tunable, value))
            .and_then(|()| check_requests(sysfs, device, arm, tunable, value))
            .map_err(|cause| error::wrong_value(Some(device), tunable, value, &cause))?;
    }
    Ok(())
}

/// The most requests that a scheduler's own tags may be (`MAX_SCHED_RQ`).
const MOST_REQUESTS: u64 = 2048;

/// Why a blk-mq queue cannot have so many requests (`blk_mq_update_nr_requests()`): no scheduler has more than 2048, and
/// without one there are as many as the device has tags.
fn check_requests(
    sysfs: &Sysfs,
    device: &str,
    arm: &Arm,
    tunable: &str,
    value: &str,
) -> Result<(), String> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let tags = sysfs.read_if_present(device, "mq/0/nr_tags");
    let tags = tags.as_deref().and_then(number);
    let (Some(tags), Some(asked), "nr_requests") = (tags, number(value), tunable) else {
        return Ok(());
    };
    match arm.scheduler.as_str() {
        "none" | "noop" if asked > tags => Err(format!(
            "without a scheduler a queue has no more requests than the device has tags, {tags}"
        )),
        "none" | "noop" => Ok(()),
        _ if asked > MOST_REQUESTS => Err(format!(
            "a scheduler has no more than {MOST_REQUESTS} requests"
        )),
        _ => Ok(()),
    }
}

/// Checks the tunables of an arm that is to be kept: by a number that every kernel raises, the disk would never be as
/// wanted.
///
/// # Errors
/// The first such number.
pub fn check_can_be_kept(arm: &Arm) -> Result<(), SwitchError> {
    for (tunable, value) in &arm.tunables {
        value::check_is_kept(&arm.scheduler, tunable, value)
            .map_err(|cause| error::wrong_value(None, tunable, value, &cause))?;
    }
    Ok(())
}

/// What a file holds on this disk, or else on another one that has the scheduler.
fn shown_by(sysfs: &Sysfs, device: &str, scheduler: &str, file: &str) -> Option<String> {
    let others = sysfs.block_devices().unwrap_or_default();
    let has_scheduler = |device: &&str| active(sysfs, device).is_ok_and(|name| name == scheduler);
    let mut disks = std::iter::once(device).chain(others.iter().map(String::as_str));
    let disk = disks.find(has_scheduler)?;
    sysfs.read_if_present(disk, file)
}

/// The tunables of a scheduler: as a disk shows them on which it is active, otherwise those that it is simulated with;
/// `None` if it is neither.
fn own_tunables(sysfs: &Sysfs, scheduler: &str) -> Option<Vec<String>> {
    let devices = sysfs.block_devices().unwrap_or_default();
    let shown = devices
        .iter()
        .find(|device| active(sysfs, device).is_ok_and(|active| active == scheduler))
        .map(|device| super::own_tunables(sysfs, device));
    let simulated = || {
        let tunables = device::tunables_of(scheduler)?.iter();
        Some(tunables.map(|tunable| tunable.name.to_owned()).collect())
    };
    shown.or_else(simulated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_machine::device::fixture::machine;

    fn foreseen(text: &str) -> Result<(), SwitchError> {
        let host = machine("workstation");
        foresee(&host.sysfs(), "sda", &Arm::parse(text).unwrap())
    }

    #[test]
    fn a_misspelt_tunable_of_a_scheduler_that_is_not_active_is_found() {
        let error = foreseen("kyber:read_lat=1").unwrap_err();
        let words = error.to_string();
        assert!(words.contains("has no tunable read_lat"), "{words}");
        assert!(words.contains("read_lat_nsec"), "{words}");
        assert!(foreseen("kyber:read_lat_nsec=1000,nr_requests=32").is_ok());
        for of_cfq in ["slice_sync_us", "slice_async_us", "group_idle_us"] {
            assert!(foreseen(&format!("cfq:{of_cfq}=1000")).is_ok(), "{of_cfq}");
        }
        for scheduler in ["none", "noop"] {
            let error = foreseen(&format!("{scheduler}:fifo_batch=1")).unwrap_err();
            let words = error.to_string();
            assert!(words.contains("it has: nr_requests, "), "{words}");
        }
        assert!(foreseen("newcomer:anything=1").is_ok());
    }

    #[test]
    fn more_requests_than_the_kernel_takes_are_found_with_the_limit() {
        for (text, says) in [
            ("none:nr_requests=33", "has tags, 32"),
            ("mq-deadline:nr_requests=2049", "no more than 2048 requests"),
        ] {
            let error = foreseen(text).unwrap_err();
            assert!(error.to_string().ends_with(says), "{error}");
        }
        assert!(foreseen("none:nr_requests=32").is_ok());
        assert!(foreseen("bfq:nr_requests=2048").is_ok());
    }

    #[test]
    fn a_number_that_no_kernel_keeps_is_found() {
        for text in [
            "mq-deadline:fifo_batch=-1",
            "none:nr_requests=0",
            "none:nr_requests=3",
        ] {
            let arm = Arm::parse(text).unwrap();
            for result in [foreseen(text), check_can_be_kept(&arm)] {
                let error = result.unwrap_err();
                assert!(error.to_string().contains(" cannot be "), "{error}");
            }
        }
        for text in [
            "mq-deadline:writes_starved=-1",
            "none:nr_requests=4",
            "mq-deadline:fifo_batch=0",
        ] {
            assert!(foreseen(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn asynchronous_requests_that_a_queue_cannot_have_are_found() {
        let host = machine("newest-7.0");
        let of = |text: &str| foresee(&host.sysfs(), "vdb", &Arm::parse(text).unwrap());
        for text in [
            "mq-deadline:async_depth=48",
            "adios:async_depth=64,nr_requests=64",
        ] {
            assert!(of(text).is_ok(), "{text}");
        }
        for text in ["none:async_depth=48", "bfq:async_depth=0"] {
            let error = of(text).unwrap_err();
            assert!(error.to_string().contains(" cannot be "), "{error}");
        }
        let kept = check_can_be_kept(&Arm::parse("none:async_depth=48").unwrap());
        assert!(kept.is_err());
    }

    #[test]
    fn a_value_that_is_no_number_is_found_where_one_is_shown() {
        // sda has mq-deadline, whose tunables this kernel may have more of than our tables.
        assert!(foreseen("mq-deadline:fifo_batch=32").is_ok());
        let host = machine("workstation");
        let sysfs = host.sysfs();
        let file = sysfs.device_dir("sda").join("queue/iosched");
        let tunable = sysfs.list("sda", "queue/iosched").into_iter().next();
        let tunable = tunable.expect("sda has tunables");
        assert!(file.join(&tunable).exists());
        let mut arm = Arm::plain("mq-deadline");
        arm.tunables = vec![(tunable, "many".into())];
        let error = foresee(&sysfs, "sda", &arm).unwrap_err();
        assert!(error.to_string().contains(" cannot be "), "{error}");
        let hint = iosched_machine::failure::Failure::hint(&error).unwrap();
        assert!(hint.contains("`iosched list -v sda`"), "{hint}");
    }
}
