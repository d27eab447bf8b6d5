//! The text of our udev rules, from what they are to do. Pure.
//!
//! One file, `99-iosched.rules`: after `60-persistent-storage.rules`, which finds out the serial
//! number, and after the distributions' own files, because of several assignments the last one stays.
//! In it the first rule that matches a disk counts, as in a policy: the others are jumped over.
//!
//! What a udev rule can do wrong here, and what is done about it:
//!
//! | pitfall | here |
//! |---|---|
//! | partitions match, too | `DEVTYPE` must be `disk` |
//! | a device-mapper device has no table at `add` | only at `change` |
//! | a path of a multipath disk is switched | left alone (`DM_MULTIPATH_DEVICE_PATH`) |
//! | a switch resets `nr_requests` and tunables | written after it, each in a line of its own |
//! | a tunable is missing on another kernel | `TEST` before each write |
//! | a disk on the single-queue path has schedulers by other names | asked for, where the machine has such disks |
//! | a serial number with `*`, `?`, `[` or `\` | each as a set of its own (`[*]`), which matches nothing else |
//! | quotes and `\|` in a serial number | a `?` in their place matches them |

use std::fmt::Write;

use iosched_switch::Arm;

use crate::system_config::identity::Identity;
use crate::system_config::pattern;

pub(crate) const PATH: &str = "/etc/udev/rules.d/99-iosched.rules";

/// The property that our rules leave in udev's database: which of them was applied last.
pub(crate) const MARK: &str = "IOSCHED_RULE";

/// One rule: what a disk must be, and what it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The name of the rule of the policy that it comes from.
    pub name: String,
    /// A remark for people.
    pub remark: String,
    /// All of these must hold.
    pub conditions: Vec<Condition>,
    /// What is set.
    pub arm: Arm,
    /// What the scheduler is called on disks of the single-queue path, where the machine has such.
    pub old_name: Option<String>,
}

/// One of several keys must have its value: `KERNEL` like `nvme*`, or `ENV{ID_BUS}` like `ata`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition(pub(crate) Vec<(String, String)>);

impl Condition {
    /// A key like a pattern of udev (`*`, `?`, `[a-z]`).
    pub(crate) fn like(key: &str, pattern: &str) -> Condition {
        Condition::any_like(&[key], pattern)
    }

    /// One of several keys like a pattern.
    pub(crate) fn any_like(keys: &[&str], pattern: &str) -> Condition {
        let pattern = without_quotes(pattern);
        Condition(
            keys.iter()
                .map(|&key| (key.to_owned(), pattern.clone()))
                .collect(),
        )
    }

    /// A disk of exactly this identity.
    pub(crate) fn is(identity: &Identity) -> Condition {
        let (property, value) = identity.property();
        Condition(vec![(
            format!("ENV{{{property}}}"),
            pattern::literal(value),
        )])
    }
}

/// The whole file.
pub(crate) fn text(rules: &[Rule]) -> String {
    let mut text = String::from(
        "# Made by iosched from /etc/iosched/policy.toml; do not edit: `iosched apply` makes it anew.\n\
         # `iosched check` says whether it is in force, `iosched persist --remove RULE` takes one away.\n\
         \n\
         ACTION!=\"add|change\", GOTO=\"iosched_end\"\n\
         SUBSYSTEM!=\"block\", GOTO=\"iosched_end\"\n\
         ENV{DEVTYPE}!=\"disk\", GOTO=\"iosched_end\"\n\
         KERNEL==\"dm-*\", ACTION!=\"change\", GOTO=\"iosched_end\"\n\
         ENV{DM_MULTIPATH_DEVICE_PATH}==\"1\", GOTO=\"iosched_end\"\n\
         TEST!=\"queue/scheduler\", GOTO=\"iosched_end\"\n\
         ATTR{queue/scheduler}==\"none\", GOTO=\"iosched_end\"\n",
    );
    for (index, rule) in rules.iter().enumerate() {
        text.push('\n');
        push_rule(&mut text, rule, &format!("iosched_{}", index + 1));
    }
    text.push_str("\nLABEL=\"iosched_end\"\n");
    text
}

/// The longest comment. Older versions of udev read 16 383 characters of a line (`UTIL_LINE_SIZE`), and take the rest for
/// a rule of its own.
const LONGEST_COMMENT: usize = 1000;

fn push_rule(text: &mut String, rule: &Rule, label: &str) {
    let line = |words: &str| {
        let words: String = words.chars().take(LONGEST_COMMENT).collect();
        words.replace(char::is_control, " ")
    };
    let _ = writeln!(text, "# {}", line(&rule.name));
    if !rule.remark.is_empty() {
        let _ = writeln!(text, "# {}", line(&rule.remark));
    }
    for keys in alternatives(&rule.conditions) {
        for (key, pattern) in keys {
            let _ = write!(text, "{key}==\"{pattern}\", ");
        }
        let _ = writeln!(text, "GOTO=\"{label}\"");
    }
    let _ = writeln!(text, "GOTO=\"{label}_end\"\nLABEL=\"{label}\"");
    push_scheduler(text, rule);
    for (places, value) in rule.arm.files_in_order() {
        for file in places {
            let _ = writeln!(text, "TEST==\"{file}\", ATTR{{{file}}}=\"{value}\"");
        }
    }
    let _ = writeln!(text, "ENV{{{MARK}}}=\"{}\"", mark(&rule.name));
    let _ = writeln!(text, "GOTO=\"iosched_end\"");
    let _ = writeln!(text, "LABEL=\"{label}_end\"");
}

/// Which path a disk is on is asked before anything is written: udev has what it wrote for what stands there.
fn push_scheduler(text: &mut String, rule: &Rule) {
    let set = |name: &str| format!("ATTR{{queue/scheduler}}=\"{name}\"");
    let modern = set(&rule.arm.scheduler);
    let _ = match &rule.old_name {
        None => writeln!(text, "{modern}"),
        Some(old) => writeln!(
            text,
            "ATTR{{queue/scheduler}}!=\"*noop*\", {modern}\n\
             ATTR{{queue/scheduler}}==\"*noop*\", {}",
            set(old)
        ),
    };
}

/// Every way in which all conditions can hold: lines of keys that must hold together. Asked for what
/// is so, never for what is not: udev takes neither `==` nor `!=` for true of an attribute that a
/// device lacks.
fn alternatives(conditions: &[Condition]) -> Vec<Vec<&(String, String)>> {
    conditions
        .iter()
        .fold(vec![Vec::new()], |lines, Condition(any_of)| {
            lines
                .iter()
                .flat_map(|line| {
                    any_of.iter().map(|key| {
                        let mut longer = line.clone();
                        longer.push(key);
                        longer
                    })
                })
                .collect()
        })
}

/// A rule's name as a property's value: without what udev would substitute or quote.
pub(crate) fn mark(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "_.:-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect()
}

/// A pattern with nothing in it that would end it or begin another.
fn without_quotes(pattern: &str) -> String {
    let mut found = pattern.replace(|c: char| c.is_control() || "\"|".contains(c), "?");
    if found.ends_with('\\') {
        found.pop();
        found.push('?');
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, identity: &Identity, arm: &str) -> Rule {
        Rule {
            name: name.into(),
            remark: String::new(),
            conditions: vec![Condition::is(identity)],
            arm: Arm::parse(arm).unwrap(),
            old_name: None,
        }
    }

    #[test]
    fn nothing_that_somebody_wrote_makes_a_line_longer_than_udev_reads() {
        let long = "x".repeat(16_381) + "RUN+=\"/bin/x\"";
        let rule = Rule {
            name: long.clone(),
            remark: long,
            conditions: Vec::new(),
            arm: Arm::parse("bfq").unwrap(),
            old_name: None,
        };
        let text = text(&[rule]);
        assert!(text.contains("# xxx"));
        assert!(!text.contains("RUN+="), "{}", &text[..200]);
    }

    #[test]
    fn a_file_of_rules_reads_as_follows() {
        let mut by_serial = rule(
            "archive",
            &Identity::Serial("ACME_\"S1\"".into()),
            "bfq:slice_idle=0,strict_guarantees=1,wbt_lat_usec=0,nr_requests=32,async_depth=8",
        );
        by_serial.remark = "sdb, measured\nin November".into();
        let class = Rule {
            name: "any NVMe".into(),
            remark: String::new(),
            conditions: vec![
                Condition::like("KERNEL", "nvme*"),
                Condition::like("ATTR{device/model}", "Samsung*"),
            ],
            arm: Arm::plain("none"),
            old_name: None,
        };
        let wwn = Identity::Wwn("0x5000c500a1b2c3d4".into());
        insta::assert_snapshot!(text(&[rule("db", &wwn, "mq-deadline"), by_serial, class]), @r#"
        # Made by iosched from /etc/iosched/policy.toml; do not edit: `iosched apply` makes it anew.
        # `iosched check` says whether it is in force, `iosched persist --remove RULE` takes one away.

        ACTION!="add|change", GOTO="iosched_end"
        SUBSYSTEM!="block", GOTO="iosched_end"
        ENV{DEVTYPE}!="disk", GOTO="iosched_end"
        KERNEL=="dm-*", ACTION!="change", GOTO="iosched_end"
        ENV{DM_MULTIPATH_DEVICE_PATH}=="1", GOTO="iosched_end"
        TEST!="queue/scheduler", GOTO="iosched_end"
        ATTR{queue/scheduler}=="none", GOTO="iosched_end"

        # db
        ENV{ID_WWN}=="0x5000c500a1b2c3d4", GOTO="iosched_1"
        GOTO="iosched_1_end"
        LABEL="iosched_1"
        ATTR{queue/scheduler}="mq-deadline"
        ENV{IOSCHED_RULE}="db"
        GOTO="iosched_end"
        LABEL="iosched_1_end"

        # archive
        # sdb, measured in November
        ENV{ID_SERIAL}=="ACME_?S1?", GOTO="iosched_2"
        GOTO="iosched_2_end"
        LABEL="iosched_2"
        ATTR{queue/scheduler}="bfq"
        TEST=="queue/nr_requests", ATTR{queue/nr_requests}="32"
        TEST=="queue/iosched/strict_guarantees", ATTR{queue/iosched/strict_guarantees}="1"
        TEST=="queue/iosched/async_depth", ATTR{queue/iosched/async_depth}="8"
        TEST=="queue/async_depth", ATTR{queue/async_depth}="8"
        TEST=="queue/iosched/slice_idle", ATTR{queue/iosched/slice_idle}="0"
        TEST=="queue/wbt_lat_usec", ATTR{queue/wbt_lat_usec}="0"
        ENV{IOSCHED_RULE}="archive"
        GOTO="iosched_end"
        LABEL="iosched_2_end"

        # any NVMe
        KERNEL=="nvme*", ATTR{device/model}=="Samsung*", GOTO="iosched_3"
        GOTO="iosched_3_end"
        LABEL="iosched_3"
        ATTR{queue/scheduler}="none"
        ENV{IOSCHED_RULE}="any_NVMe"
        GOTO="iosched_end"
        LABEL="iosched_3_end"

        LABEL="iosched_end"
        "#);
    }

    proptest::proptest! {
        #[test]
        fn no_serial_number_or_name_can_end_its_string_or_line(
            serial in "[ -~\\n\\x00\"\\\\]{1,20}",
            name in "[ -~\\n\\x00\\x1b\"\\\\]{1,20}",
        ) {
            let text = text(&[rule(&name, &Identity::Serial(serial), "none")]);
            proptest::prop_assert!(text.lines().all(|line| !line.contains(char::is_control)));
            let commands: Vec<&str> = text
                .lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty())
                .collect();
            proptest::prop_assert_eq!(commands.len(), 7 + 7 + 1);
            for line in commands {
                proptest::prop_assert!(line.matches('"').count() % 2 == 0, "{}", line);
            }
        }
    }
}
