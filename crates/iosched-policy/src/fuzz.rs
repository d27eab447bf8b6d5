//! Readers of histories, policies, and what other programs are set to, as functions of bytes: for fuzzing.
//!
//! See [`iosched_testing::fuzz`]: what a reader promises, and who runs this list.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use iosched_machine::fuzz::entry_is_read_again;
use iosched_machine::host::Host;
use iosched_switch::Arm;
use iosched_testing::fuzz::{KIB, MIB, NOWHERE, Target, files, target, utf8, write_anew};
use tempfile::TempDir;

use crate::history;
use crate::policy::edit::{self, NewRule};
use crate::policy::file::Policy;
use crate::policy::matching::{self, KnownDisk, Match};
use crate::policy::writers::{Writers, rule_text};
use crate::system_config::cmdline;
use crate::system_config::grub;
use crate::system_config::identity::Properties;
use crate::system_config::rules;

/// The readers of this crate.
pub const TARGETS: &[Target] = &[
    target("history", history, 64 * KIB, 100),
    target("policy", policy, 256 * KIB, 300),
    target("properties", properties, 64 * KIB, 100),
    target("writers", writers, MIB, 200),
];

fn history(bytes: &[u8]) {
    entry_is_read_again::<history::Entry>(bytes, history::SCHEMA);
}

fn policy(bytes: &[u8]) {
    let parse = |text: &str| Policy::parse(text, Path::new(NOWHERE));
    let Some((given, Ok(policy))) = utf8(bytes).map(|text| (text, parse(text))) else {
        return;
    };
    let mut longer = policy.clone();
    let new = NewRule {
        name: "disk".into(),
        matching: Match {
            serial: Some("fuzz-1".into()),
            ..Match::default()
        },
        arm: Arm::parse("bfq:slice_idle=0").expect("it is an arm"),
        why: None,
        record: None,
        evidence: None,
    };
    let edited = edit::with_rule(given, &mut longer, &new);
    let longer = parse(&edited).unwrap_or_else(|error| panic!("{error}\n{edited}"));
    let ours = longer
        .rules
        .iter()
        .position(|rule| rule.matching == new.matching);
    let ours = ours.expect("the rule was put in");
    let shorter = edit::without_rules(&edited, &[ours]);
    let shorter = parse(&shorter).unwrap_or_else(|error| panic!("{error}\n{shorter}"));
    assert_eq!(shorter.rules.len() + 1, longer.rules.len());
    rules_say_no_more(&policy);
}

/// Whatever a policy's patterns and names hold, the rules made of it set schedulers and nothing else.
fn rules_say_no_more(policy: &Policy) {
    let rules = policy.rules.iter().filter_map(|rule| {
        Some(rules::Rule {
            name: rule.name.clone(),
            remark: rule.why.clone().unwrap_or_default(),
            conditions: rule.matching.conditions()?,
            arm: rule.arm.clone(),
            old_name: None,
        })
    });
    let text = rules::text(&rules.collect::<Vec<_>>());
    let wanted = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines = rule_text::lines(&text);
    assert_eq!(lines.len(), wanted.count(), "a line is no rule: {text}");
    for token in lines.iter().flat_map(|line| &line.tokens) {
        let is_assigned = token.operator.assigns();
        let attribute = token.attribute.as_deref().unwrap_or_default();
        let may_be = match token.key.as_str() {
            "ATTR" => attribute.starts_with("queue/") || attribute.starts_with("device/"),
            "ENV" => attribute == rules::MARK,
            key => matches!(key, "GOTO" | "LABEL"),
        };
        assert!(!is_assigned || may_be, "{token:?} in {text}");
    }
}

/// What udev's database says of a disk.
fn properties(bytes: &[u8]) {
    let properties = Properties::parse(&String::from_utf8_lossy(bytes));
    let _ = properties.get("ID_SERIAL");
}

/// Where other programs keep what they set.
const PLACES: [&str; 11] = [
    "etc/udev/rules.d/60-x.rules",
    "etc/rc.local",
    "etc/default/grub",
    "etc/tlp.conf",
    "etc/tuned/x/tuned.conf",
    "etc/tmpfiles.d/x.conf",
    "etc/systemd/system/x.service",
    "etc/systemd/system/x.service.d/x.conf",
    "etc/sysfs.conf",
    "etc/local.d/x.start",
    "etc/cron.d/x",
];

/// Settings of other programs, on a machine with one disk: all in the same text, or each after its `#file PLACE`.
fn writers(bytes: &[u8]) {
    thread_local! {
        static MACHINE: (TempDir, Host, KnownDisk) = machine();
    }
    MACHINE.with(|machine| {
        let (directory, host, disk) = machine;
        for place in PLACES {
            let named = files(bytes).find(|(name, _)| *name == place);
            let body = named.map_or(bytes, |(_, body)| body);
            let path = directory.path().join(place);
            write_anew(&path, body);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
        let writers = Writers::of(host);
        let _ = writers.at_boot(disk);
        let _ = writers.on_change(disk);
        let _ = writers.reads_elevator();
        let _ = cmdline::places_of_elevator(host);
        for value in [Some("noop"), None] {
            let _ = grub::files(host, value);
        }
    });
}

fn machine() -> (TempDir, Host, KnownDisk) {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let write = |file: &str, text: &str| {
        let path = directory.path().join(file);
        let parent = path.parent().expect("it is below the directory");
        fs::create_dir_all(parent).expect("there is room for a directory");
        fs::write(path, text).expect("there is room for a file");
    };
    write("proc/sys/kernel/osrelease", "4.18.0-test\n");
    write("proc/cmdline", "root=/dev/sda1 elevator=deadline quiet\n");
    write("sys/block/sda/dev", "8:0\n");
    write("sys/block/sda/size", "2097152\n");
    write("sys/block/sda/queue/scheduler", "none [mq-deadline] bfq\n");
    write("sys/block/sda/queue/rotational", "1\n");
    write("run/udev/data/b8:0", "E:ID_SERIAL=A-1\nE:ID_BUS=ata\n");
    write("etc/tuned/active_profile", "x\n");
    for unit in ["x", "tlp", "tuned"] {
        write(&format!("usr/lib/systemd/system/{unit}.service"), "");
        write(
            &format!("etc/systemd/system/multi-user.target.wants/{unit}.service"),
            "",
        );
    }
    for name in ["etc/runlevels/default/local", "etc/rc2.d/S01sysfsutils"] {
        write(name, "");
    }
    for place in PLACES {
        write(place, "");
    }
    let host = Host::at(directory.path());
    let mut disks = matching::disks(&host).expect("it has a disk");
    (directory, host, disks.remove(0))
}

iosched_testing::replay!(TARGETS);
