//! What a tunable may be given, decided before it is written. A kernel may take a word for 0 and keep the lower bits of
//! a large number (`simple_strtol`, up to 4.x), and says that all went well.
//!
//! Only what a kernel would misread is refused here. A number that it makes smaller or larger is written, read back and
//! told of.

use iosched_machine::device;

use super::SETTINGS;

/// The numbers that the kernel's variable can hold.
struct Numbers {
    least: i128,
    most: i128,
}

/// `int`, which all tunables of schedulers are but kyber's.
const INT: Numbers = Numbers {
    least: i32::MIN as i128,
    most: i32::MAX as i128,
};

/// `u64`: kyber's times, ns.
const U64: Numbers = Numbers {
    least: 0,
    most: u64::MAX as i128,
};

/// `unsigned int`: settings of the queue.
const UNSIGNED: Numbers = Numbers {
    least: 0,
    most: u32::MAX as i128,
};

/// `s64`, of which -1 is the default: `wbt_lat_usec`.
const FROM_DEFAULT: Numbers = Numbers {
    least: -1,
    most: i64::MAX as i128,
};

/// Why a value cannot be given to a tunable that is known here; nothing of one that is not.
pub(super) fn check(scheduler: &str, tunable: &str, value: &str) -> Result<(), String> {
    let base = tunable.trim_end_matches("_us"); // the same variable, finer
    let numbers = match tunable {
        "wbt_lat_usec" => FROM_DEFAULT,
        _ if tunable == "nr_requests" || SETTINGS.contains(&tunable) => UNSIGNED,
        _ if !device::tunable_names(scheduler).contains(&base) => return Ok(()),
        _ if scheduler == "kyber" => U64,
        _ => INT,
    };
    // Of schedulers mq-deadline alone reads other bases than ten.
    let is_hexadecimal = value.starts_with("0x") && scheduler == "mq-deadline";
    let number = if is_hexadecimal {
        i128::from_str_radix(&value[2..], 16).ok()
    } else {
        value.parse::<i128>().ok()
    };
    match number {
        Some(number) if (numbers.least..=numbers.most).contains(&number) => Ok(()),
        _ => Err(format!(
            "it takes a whole number from {} to {}",
            numbers.least, numbers.most
        )),
    }
}

/// The same of any tunable, by what its file holds now: who shows a number takes one.
pub(super) fn check_like(shown: &str, value: &str) -> Result<(), String> {
    let is_number = |text: &str| text.parse::<i128>().is_ok();
    if is_number(shown) && !is_number(value) && !value.starts_with("0x") {
        return Err(format!("it takes a number, as {shown}, which it has now"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_old_kernel_would_misread_is_refused_before_it_is_written() {
        for (scheduler, tunable, value) in [
            ("cfq", "slice_idle", "abc"),
            ("cfq", "slice_idle", "8ms"),
            ("cfq", "slice_idle", "0x8"),
            ("deadline", "fifo_batch", "99999999999"),
            ("mq-deadline", "fifo_batch", "2147483648"),
            ("bfq", "low_latency", "on"),
            ("kyber", "read_lat_nsec", "18446744073709551616"),
            ("none", "nr_requests", "-1"),
            ("noop", "nomerges", "4294967296"),
            ("newcomer", "read_ahead_kb", "many"),
        ] {
            let refused = check(scheduler, tunable, value);
            assert!(refused.is_err(), "{scheduler}: {tunable}={value}");
        }
    }

    #[test]
    fn what_a_kernel_understands_or_only_it_knows_is_written() {
        for (scheduler, tunable, value) in [
            ("cfq", "slice_idle", "0"),
            ("mq-deadline", "fifo_batch", "0x10"),
            ("mq-deadline", "writes_starved", "-1"),
            ("kyber", "read_lat_nsec", "9000000000"),
            ("bfq", "wbt_lat_usec", "-1"),
            ("none", "nr_requests", "1"),
            ("newcomer", "mode", "fast"),
            ("bfq", "of_a_newer_kernel", "fast"),
        ] {
            assert_eq!(
                check(scheduler, tunable, value),
                Ok(()),
                "{tunable}={value}"
            );
        }
    }

    #[test]
    fn a_tunable_that_nobody_knows_takes_a_number_where_it_shows_one() {
        assert!(check_like("16", "many").is_err());
        assert_eq!(check_like("16", "32"), Ok(()));
        assert_eq!(check_like("fast", "slow"), Ok(()));
    }
}
