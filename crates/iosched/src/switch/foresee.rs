//! Whether an arm can be set, as far as that is known without setting it: for dry runs.
//!
//! The kernel shows a scheduler's tunables only while it is active somewhere. Where it is not, its names are
//! those of our tables ([`crate::device`]), which a newer kernel may exceed; so a real run asks the kernel
//! instead.

use std::io;

use super::{Arm, SETTINGS, SwitchError, active};
use crate::device;
use crate::sysfs::Sysfs;

/// Checks the tunables of an arm, by name and by whether the value is a number.
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
            return Err(SwitchError::UnknownTunable {
                device: device.to_owned(),
                scheduler: arm.scheduler.clone(),
                tunable: tunable.clone(),
                known: own.unwrap_or_default(),
            });
        }
        if !is_number(value) {
            return Err(SwitchError::BadValue {
                device: device.to_owned(),
                tunable: tunable.clone(),
                value: value.clone(),
                source: io::Error::new(io::ErrorKind::InvalidInput, "it takes a number"),
            });
        }
    }
    Ok(())
}

/// The tunables of a scheduler: as a disk shows them on which it is active, otherwise by our tables; `None`
/// if neither knows it.
fn own_tunables(sysfs: &Sysfs, scheduler: &str) -> Option<Vec<String>> {
    let devices = sysfs.block_devices().unwrap_or_default();
    let shown = devices
        .iter()
        .find(|device| active(sysfs, device).is_ok_and(|active| active == scheduler))
        .map(|device| sysfs.list(device, "queue/iosched"));
    let in_tables = || {
        let names = device::tunable_names(scheduler).into_iter();
        let names: Vec<String> = names.map(str::to_owned).collect();
        (!names.is_empty()).then_some(names)
    };
    let none = || (scheduler == "none").then(Vec::new);
    shown.or_else(in_tables).or_else(none)
}

/// As the kernel reads one: decimal, or hexadecimal after 0x.
fn is_number(value: &str) -> bool {
    let digits = value.strip_prefix("0x");
    digits.map_or_else(
        || value.parse::<i64>().is_ok(),
        |digits| i64::from_str_radix(digits, 16).is_ok(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::testing::machine;

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
        assert!(foreseen("none:fifo_batch=1").is_err());
        assert!(foreseen("newcomer:anything=1").is_ok());
    }

    #[test]
    fn a_value_that_is_no_number_is_found() {
        for text in ["mq-deadline:fifo_batch=many", "mq-deadline:nr_requests=x"] {
            let error = foreseen(text).unwrap_err();
            assert!(matches!(error, SwitchError::BadValue { .. }), "{error}");
        }
        assert!(foreseen("mq-deadline:fifo_batch=0x10").is_ok());
    }
}
