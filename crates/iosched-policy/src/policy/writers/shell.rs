//! What a line of a script writes into a disk's queue: `echo VALUE > /sys/block/DEV/queue/FILE` and
//! the other ways in which people do that.

use iosched_machine::sysfs::sysfs_name;

use crate::system_config::pattern::is_like;

/// A write that a line of shell would do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Write {
    /// Below `/sys/block/<device>/`.
    pub(super) target: String,
    /// Absent where it is a variable.
    pub(super) value: Option<String>,
    /// False where the device is a variable.
    pub(super) certain: bool,
}

/// What a line writes into the queue of this device (kernel name); none if it writes nothing there.
pub(super) fn write_of(line: &str, device: &str) -> Option<Write> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let at = line.find("/queue/")?;
    let file: String = line[at + 1..]
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_'))
        .collect();
    // The word that the path is: back to the blank, quote or `>` before it.
    let before = &line[..at];
    let path = before
        .rsplit(|c: char| c.is_whitespace() || matches!(c, '>' | '"' | '\''))
        .next()?;
    let name = path.rsplit('/').next()?;
    let is_variable = name.contains(['$', '%']) || name.is_empty();
    if !is_variable && !is_like(name, &sysfs_name(device)) {
        return None;
    }
    let value = value_of(line, at)?;
    Some(Write {
        target: file,
        value: (!value.contains(['$', '`', '%'])).then_some(value),
        // udev's %k and $kernel are the very device.
        certain: !is_variable || matches!(name, "%k" | "$kernel"),
    })
}

/// The word after `echo` (or `printf`), the last one before the path.
fn value_of(line: &str, before: usize) -> Option<String> {
    let line = &line[..before];
    let words = line.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '>'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let echo = words.iter().rposition(|word| {
        word.rsplit('/')
            .next()
            .is_some_and(|w| w == "echo" || w == "printf")
    })?;
    let value = words[echo + 1..]
        .iter()
        .find(|word| !word.starts_with('-'))?;
    Some(value.trim_end_matches("\\n").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_in_which_people_write_it_are_understood() {
        let surely = |value: &str| Some((Some(value.to_owned()), true));
        let maybe = |value: Option<&str>| Some((value.map(str::to_owned), false));
        for (line, expected) in [
            ("echo bfq > /sys/block/sda/queue/scheduler", surely("bfq")),
            (
                "  echo \"bfq\" >/sys/block/sda/queue/scheduler;",
                surely("bfq"),
            ),
            (
                "echo -n kyber | tee /sys/block/sd?/queue/scheduler",
                surely("kyber"),
            ),
            (
                "/bin/sh -c 'echo none > /sys/block/%k/queue/scheduler'",
                surely("none"),
            ),
            (
                "for d in sda sdb; do echo noop > /sys/block/$d/queue/scheduler; done",
                maybe(Some("noop")),
            ),
            ("echo $S > \"/sys/block/$d/queue/scheduler\"", maybe(None)),
            (
                "printf 'bfq\\n' > /sys/class/block/sda/queue/scheduler",
                surely("bfq"),
            ),
            ("echo bfq > /sys/block/sdb/queue/scheduler", None),
            ("# echo bfq > /sys/block/sda/queue/scheduler", None),
            ("cat /sys/block/sda/queue/scheduler", None),
            ("echo done", None),
        ] {
            let found = write_of(line, "sda");
            assert!(found.as_ref().is_none_or(|w| w.target == "queue/scheduler"));
            let found = found.map(|write| (write.value, write.certain));
            assert_eq!(found, expected, "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in "[a-z /$%'\"|;>é-]{0,30}(/queue/scheduler)?[a-z /]{0,10}") {
            let _ = write_of(&line, "sda");
        }
    }
}
