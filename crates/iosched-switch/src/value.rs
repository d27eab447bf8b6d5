//! What a tunable may be given, decided before it is written. A kernel may take a word for 0 and keep the lower bits of
//! a large number (`simple_strtol`, up to 4.x), and says that all went well.
//!
//! Only what a kernel would misread is refused here. A number that it makes smaller or larger is written, read back and
//! told of. Numbers are decimal: mq-deadline alone reads other bases, and only since it uses `kstrtoint` (0x20 was 0
//! before, and 010 is 10 or 8), while what it shows is decimal on all kernels. A scheduler that nobody knows may show
//! them otherwise: [`means`] says whether what a file shows is what was asked for.

use iosched_facts::scheduler::{self, TunableInfo};
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

/// `wbt_lat_usec`: -1 is the default, and the kernel keeps what it is given as ns in an `s64`, without asking whether
/// they have room there.
const FROM_DEFAULT: Numbers = Numbers {
    least: -1,
    most: i64::MAX as i128 / 1000,
};

/// `max_sectors_kb`: since 6.9 doubled in an `unsigned int` before it is compared with what the disk can do.
const HALF_UNSIGNED: Numbers = Numbers {
    least: 0,
    most: u32::MAX as i128 / 2,
};

/// True if a file that was given `asked` may show `found` for it: the same text, the same number in another base, the
/// same of on and off, or a list of words with the one in brackets that is chosen.
pub fn means(asked: &str, found: &str) -> bool {
    let (asked, found) = (asked.trim(), chosen(found));
    let is_same_number = || {
        let found = readings(found);
        readings(asked).iter().any(|number| found.contains(number))
    };
    let is_same_switch = || is_on(asked).is_some_and(|on| is_on(found) == Some(on));
    asked == found || is_same_number() || is_same_switch()
}

/// What is written to have a file show this again: of `slow [fast]` the word in brackets.
pub(super) fn chosen(shown: &str) -> &str {
    let in_brackets = |word: &'_ str| word.strip_prefix('[')?.strip_suffix(']').map(str::len);
    let mut chosen = shown
        .split_whitespace()
        .filter(|word| in_brackets(word).is_some());
    match (chosen.next(), chosen.next()) {
        (Some(word), None) => &word[1..word.len() - 1],
        _ => shown.trim(),
    }
}

/// The numbers that kernels may read in a text: some take a leading 0 for octal.
fn readings(text: &str) -> Vec<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Vec::new();
    }
    let hexadecimal = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    let found = match hexadecimal {
        Some(digits) => vec![i128::from_str_radix(digits, 16)],
        None if digits.starts_with('0') => vec![digits.parse(), i128::from_str_radix(digits, 8)],
        None => vec![digits.parse()],
    };
    found
        .into_iter()
        .flatten()
        .map(|number| sign * number)
        .collect()
}

/// What `kstrtobool` takes a word for, and files show for it.
fn is_on(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "y" | "yes" | "t" | "true" | "on" | "enable" | "enabled" => Some(true),
        "0" | "n" | "no" | "f" | "false" | "off" | "disable" | "disabled" => Some(false),
        _ => None,
    }
}

/// Why a value cannot be given to a tunable that is known here; nothing of one that is not.
pub(super) fn check(scheduler: &str, tunable: &str, value: &str) -> Result<(), String> {
    let numbers = match tunable {
        "wbt_lat_usec" => FROM_DEFAULT,
        "max_sectors_kb" => HALF_UNSIGNED,
        _ if tunable == "nr_requests" || SETTINGS.contains(&tunable) => UNSIGNED,
        _ => match info(scheduler, tunable) {
            Some(known) if known.max > i64::from(u32::MAX) => U64,
            Some(_) => INT,
            None => return Ok(()),
        },
    };
    match decimal(value)? {
        Some(number) if (numbers.least..=numbers.most).contains(&number) => Ok(()),
        _ => Err(format!(
            "it takes a whole number from {} to {}",
            numbers.least, numbers.most
        )),
    }
}

/// A tunable as it is simulated, if this scheduler has it there.
fn info(scheduler: &str, tunable: &str) -> Option<&'static TunableInfo> {
    let tunables = device::tunables_of(scheduler)?;
    tunables.iter().find(|known| known.name == tunable)
}

/// The same of any tunable, by what its file holds now: who shows a number takes one, and a decimal one if so shown.
pub(super) fn check_like(shown: &str, value: &str) -> Result<(), String> {
    let is_number = if shown.parse::<i128>().is_ok() {
        decimal(value)?.is_some()
    } else {
        readings(shown).is_empty() || !readings(value).is_empty()
    };
    if !is_number {
        return Err(format!("it takes a number, as {shown}, which it has now"));
    }
    Ok(())
}

/// Whether any kernel keeps a number that nobody tries out: all raise `nr_requests` to four (`BLKDEV_MIN_RQ`) and
/// tunables to the least that they take, which the `writes_starved` of deadline and mq-deadline have none of; what is on or off
/// they show as 1 or 0, `nomerges` and `rq_affinity` as 2 at the most, and -1 of `wbt_lat_usec` as the default that it
/// is for this disk. `async_depth` is the scheduler's affair: without one it is `nr_requests`.
pub(super) fn check_is_kept(scheduler: &str, tunable: &str, value: &str) -> Result<(), String> {
    let is_direct = || scheduler::find(scheduler).is_some_and(|info| info.direct);
    if tunable == "async_depth" && is_direct() {
        return Err("without a scheduler kernels keep it at nr_requests".into());
    }
    let known = info(scheduler, tunable);
    let is_switch = known.map_or_else(
        || SETTINGS.contains(&tunable) && device::is_switch(tunable),
        TunableInfo::is_switch,
    );
    let kept = match tunable {
        "nr_requests" => 4..=i128::MAX,
        "async_depth" => 1..=i128::MAX,
        _ if is_switch => 0..=1,
        "nomerges" | "rq_affinity" => 0..=2,
        "wbt_lat_usec" => 0..=i128::MAX,
        _ => match known {
            Some(known) if known.min >= 0 => i128::from(known.min)..=i128::MAX,
            _ => return Ok(()),
        },
    };
    let (least, most) = (*kept.start(), *kept.end());
    match decimal(value)? {
        Some(number) if number < least => Err(format!("kernels make it {least} or more")),
        Some(number) if number > most => Err(format!("kernels make it {most} or less")),
        _ => Ok(()),
    }
}

/// The number that a value is; nothing of what is none.
///
/// # Errors
/// It is a number that is not written as kernels show it: how it is to be written.
fn decimal(value: &str) -> Result<Option<i128>, String> {
    let digits = value.trim_start_matches(['+', '-']);
    let hexadecimal = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    if let Some(number) = hexadecimal.and_then(|digits| i128::from_str_radix(digits, 16).ok()) {
        let sign = if value.starts_with('-') { "-" } else { "" };
        return Err(format!("it takes a decimal number: write {sign}{number}"));
    }
    let Ok(number) = value.parse::<i128>() else {
        return Ok(None);
    };
    if number.to_string() == value {
        return Ok(Some(number));
    }
    let octal = i128::from_str_radix(value, 8).ok();
    let octal = octal.filter(|&octal| octal != number);
    Err(match octal {
        Some(octal) => format!(
            "it is {number} to some kernels and {octal} (octal) to others: write the one that is meant"
        ),
        None => format!("it takes a decimal number: write {number}"),
    })
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
            ("mq-deadline", "fifo_batch", "0x10"),
            ("mq-deadline", "fifo_batch", "010"),
            ("none", "nr_requests", "+64"),
            ("none", "wbt_lat_usec", "9223372036854776"),
            ("none", "wbt_lat_usec", "-2"),
            ("none", "max_sectors_kb", "2147483648"),
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
            ("mq-deadline", "fifo_batch", "16"),
            ("none", "wbt_lat_usec", "9223372036854775"),
            ("none", "max_sectors_kb", "2147483647"),
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
    fn a_number_of_another_base_is_refused_with_how_it_is_to_be_written() {
        for (value, words) in [
            ("0x20", "write 32"),
            ("0X20", "write 32"),
            ("-0x20", "write -32"),
            ("010", "it is 10 to some kernels and 8 (octal) to others"),
            ("007", "write 7"),
            ("08", "write 8"),
            ("+8", "write 8"),
            ("-0", "write 0"),
        ] {
            for refused in [
                check("mq-deadline", "fifo_batch", value),
                check("none", "nr_requests", value),
                check_like("16", value),
            ] {
                let refused = refused.unwrap_err();
                assert!(refused.contains(words), "{value}: {refused}");
            }
        }
        assert_eq!(check("newcomer", "mode", "0x20"), Ok(()));
        assert_eq!(check_like("fast", "0x20"), Ok(()));
    }

    #[test]
    fn a_number_that_kernels_show_as_another_one_is_not_kept() {
        for (scheduler, tunable, kept, other) in [
            ("none", "nr_requests", "4", "3"),
            ("bfq", "async_depth", "1", "0"),
            ("none", "nomerges", "2", "5"),
            ("none", "rq_affinity", "2", "3"),
            ("none", "iostats", "1", "2"),
            ("none", "wbt_lat_usec", "0", "-1"),
            ("bfq", "low_latency", "1", "2"),
            ("bfq", "slice_idle", "0", "-1"),
            ("cfq", "quantum", "1", "0"),
            ("cfq", "slice_sync_us", "1", "-1"),
            ("mq-deadline", "front_merges", "0", "2"),
        ] {
            assert_eq!(check_is_kept(scheduler, tunable, kept), Ok(()), "{tunable}");
            let refused = check_is_kept(scheduler, tunable, other);
            assert!(refused.is_err(), "{scheduler}: {tunable}={other}");
        }
        for (scheduler, tunable) in [("mq-deadline", "writes_starved"), ("newcomer", "mode")] {
            assert_eq!(check_is_kept(scheduler, tunable, "-1"), Ok(()));
        }
    }

    #[test]
    fn one_value_has_several_spellings() {
        for (asked, found) in [
            ("16", "16"),
            ("1", "0x1"),
            ("0x1", "1"),
            ("0x10", "0x010"),
            ("0X1F", "31"),
            ("-0x10", "-16"),
            ("+8", "8"),
            // As kernels read it: 8 by kstrtoint with any base, 10 by others.
            ("010", "8"),
            ("010", "10"),
            ("fast", "slow [fast]"),
            ("2", "0 1 [2]"),
            ("on", "1"),
            ("Y", "1"),
            ("1", "Y"),
            ("0", "off"),
            (" bfq", "bfq"),
        ] {
            assert!(means(asked, found), "{asked} {found}");
        }
        for (asked, found) in [
            ("1", "0x10"),
            ("0x10", "10"),
            ("1", "-1"),
            ("10", "8"),
            ("slow", "slow [fast]"),
            ("on", "0"),
            ("on", "2"),
            ("2", "Y"),
            ("", "0"),
            ("0x", "0"),
            ("fast", "faster"),
            ("[slow]", "slow [fast]"),
            ("99999999999999999999999999999999999999999", "0"),
        ] {
            assert!(!means(asked, found), "{asked} {found}");
        }
    }

    #[test]
    fn a_number_that_is_shown_in_another_base_takes_one_of_any_base() {
        for value in ["1", "0x1"] {
            assert_eq!(check_like("0x0", value), Ok(()));
        }
        assert!(check_like("0x0", "fast").is_err());
        assert!(check_like("0", "0x1").is_err(), "a decimal one is shown");
    }

    #[test]
    fn a_tunable_that_nobody_knows_takes_a_number_where_it_shows_one() {
        assert!(check_like("16", "many").is_err());
        assert_eq!(check_like("16", "32"), Ok(()));
        assert_eq!(check_like("fast", "slow"), Ok(()));
    }
}
