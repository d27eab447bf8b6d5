//! What udev's rules do to a disk's queue: the rules of all directories, read and followed for one
//! disk and one event as udev follows them.
//!
//! Followed: `==`, `!=` of the keys of an event, of the device and of its parents, `ENV`, `ATTR`,
//! `ATTRS`, `TEST`, `IMPORT{cmdline}`, assignments of `ENV` and `ATTR`, `RUN`, `GOTO`, `LABEL`. What
//! can only be known by running it (`PROGRAM`, other imports, tags) is taken for true, and what
//! follows for uncertain. Properties are those of udev's database, as at the end of the last event:
//! what udev's own rules make of a disk's serial number, escapes included, need not be made again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use iosched_machine::host::Host;
use iosched_machine::lossy;
use iosched_machine::sysfs::sysfs_name;

use super::queue::Assignment;
use super::rule_text::{Line, Operator, Token, lines};
use super::scan::{self, FoundLine};
use super::substitute::{Substituted, substituted};
use super::{SCHEDULER, WriterKind};
use crate::policy::matching::KnownDisk;
use crate::system_config::cmdline;
use crate::system_config::files::{files_of, text_of};
use crate::system_config::identity::Properties;
use crate::system_config::pattern::is_like_any;

/// What can be said from here of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    Yes,
    No,
    Unknown,
}

impl Truth {
    fn of(is: bool) -> Truth {
        if is { Truth::Yes } else { Truth::No }
    }
}

/// Where rules are; of one name that in the first directory counts.
const DIRECTORIES: [&str; 5] = [
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
    "/lib/udev/rules.d",
];

/// A file of rules.
#[derive(Debug)]
pub(super) struct RuleFile {
    path: PathBuf,
    lines: Vec<Line>,
}

/// The rules of a machine, in udev's order.
pub(super) fn rule_files(host: &Host) -> Vec<RuleFile> {
    let read = |path: PathBuf| {
        let text = text_of(host, &path).unwrap_or_default();
        RuleFile {
            path,
            lines: lines(&text),
        }
    };
    let files = files_of(host, &DIRECTORIES, ".rules");
    files.into_iter().map(read).collect()
}

/// What rules do at an event.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// What they write into the queue of the disk.
    pub(super) assignments: Vec<Assignment>,
    /// Lines of the programs that they start.
    pub(super) programs: Vec<FoundLine>,
}

/// What the rules do to a disk at an event (`add` or `change`).
pub(super) fn followed(
    host: &Host,
    rules: &[RuleFile],
    disk: &KnownDisk,
    action: &str,
) -> Followed {
    let mut event = Uevent::new(host, disk, action);
    for file in rules {
        event.follow(&file.path, &file.lines);
    }
    event.followed
}

/// True if a rule takes this parameter of the kernel's command line and assigns it to a scheduler.
pub(super) fn imports_from_command_line(rules: &[RuleFile], parameter: &str) -> bool {
    let lines = rules.iter().flat_map(|file| &file.lines);
    let mut tokens = lines.flat_map(|line| &line.tokens);
    tokens.any(|token| {
        token.attribute.as_deref() == Some(SCHEDULER)
            && token.value.contains(&format!("{{{parameter}}}"))
    })
}

/// An event that is followed through the rules.
struct Uevent<'a> {
    host: &'a Host,
    disk: &'a KnownDisk,
    action: &'a str,
    properties: Properties,
    /// The properties that a rule may have assigned, or of a value that is not known from here.
    in_doubt: BTreeSet<String>,
    /// The device of the chain that met the conditions of parents in the rule that is followed.
    parent: Option<PathBuf>,
    /// The directories of the device and its parents in sysfs, the device first.
    chain: Vec<PathBuf>,
    /// The device's path below `/sys`; empty where the tree does not tell.
    devpath: String,
    followed: Followed,
}

impl Uevent<'_> {
    fn new<'a>(host: &'a Host, disk: &'a KnownDisk, action: &'a str) -> Uevent<'a> {
        let mut properties = disk.properties.clone();
        properties.set("DEVTYPE", "disk");
        properties.set("DEVNAME", &format!("/dev/{}", disk.device.name));
        properties.set("SUBSYSTEM", "block");
        properties.set("ACTION", action);
        properties.set("MAJOR", &disk.device.number.major.to_string());
        properties.set("MINOR", &disk.device.number.minor.to_string());
        let sysfs = host.sysfs();
        let directory = sysfs.device_dir(&disk.device.name);
        let real = std::fs::canonicalize(&directory).unwrap_or(directory);
        let root = std::fs::canonicalize(sysfs.root()).unwrap_or_default();
        let devpath = real
            .strip_prefix(&root)
            .map(|below| format!("/{}", below.display()))
            .unwrap_or_default();
        let chain = real
            .ancestors()
            .take_while(|directory| *directory != root)
            .map(Path::to_owned)
            .collect();
        Uevent {
            host,
            disk,
            action,
            properties,
            in_doubt: BTreeSet::new(),
            parent: None,
            chain,
            devpath,
            followed: Followed::default(),
        }
    }

    fn follow(&mut self, file: &Path, lines: &[Line]) {
        let mut index = 0;
        let mut labels: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, line) in lines.iter().enumerate() {
            if let Some(label) = line.value_of("LABEL") {
                labels.entry(label).or_default().push(at);
            }
        }
        // Between a jump that only may be taken and its label, nothing is certain.
        let mut doubtful_until: Option<String> = None;
        while let Some(line) = lines.get(index) {
            index += 1;
            let label = line.value_of("LABEL");
            if label.is_some() && label == doubtful_until.as_deref() {
                doubtful_until = None;
            }
            let holds = self.holds(line);
            if holds == Truth::No {
                continue;
            }
            let certain = holds == Truth::Yes && doubtful_until.is_none();
            self.carry_out(file, line, certain);
            let Some(target) = line.value_of("GOTO") else {
                continue;
            };
            let labelled = labels.get(target).map_or(&[][..], Vec::as_slice);
            match labelled.get(labelled.partition_point(|at| *at < index)) {
                Some(at) if holds == Truth::Yes => index = *at,
                Some(_) => {
                    doubtful_until.get_or_insert(target.to_owned());
                }
                None => {} // udev ignores a jump to nowhere
            }
        }
    }

    /// Whether all conditions of a rule hold.
    fn holds(&mut self, line: &Line) -> Truth {
        let mut worst = Truth::Yes;
        for token in &line.tokens {
            match self.condition(token) {
                Truth::No => return Truth::No,
                Truth::Unknown => worst = Truth::Unknown,
                Truth::Yes => {}
            }
        }
        match self.parents(line) {
            Truth::Yes => worst,
            other => other,
        }
    }

    /// One condition, but for those of parents; what is no condition holds.
    fn condition(&mut self, token: &Token) -> Truth {
        let is_condition = matches!(token.operator, Operator::Is | Operator::IsNot);
        let attribute = token.attribute.as_deref().unwrap_or_default();
        if token.key == "IMPORT" && attribute == "cmdline" {
            let is_given = self.import_from_command_line(&token.value);
            return Truth::of(is_given != (token.operator == Operator::IsNot));
        }
        if matches!(token.key.as_str(), "IMPORT" | "PROGRAM") {
            return Truth::Unknown;
        }
        if !is_condition {
            return Truth::Yes;
        }
        match token.key.as_str() {
            "ACTION" => compare(token, self.action),
            "KERNEL" => compare(token, &sysfs_name(&self.disk.device.name)),
            "SUBSYSTEM" => compare(token, "block"),
            "DEVPATH" if self.devpath.starts_with("/devices/") => compare(token, &self.devpath),
            "ENV" if self.in_doubt.contains(attribute) => Truth::Unknown,
            "ENV" => compare(token, self.properties.get(attribute).unwrap_or_default()),
            "ATTR" if attribute.starts_with('[') => Truth::Unknown, // of another device
            "ATTR" => match read(&self.chain[0].join(attribute)) {
                Some(value) => compare(token, &value),
                None => Truth::No, // for `!=`, too
            },
            "TEST" => {
                let path = self.substituted(&token.value);
                if !path.is_known {
                    return Truth::Unknown;
                }
                let path = path.text;
                let path = match path.strip_prefix("/sys/") {
                    Some(below) => self.host.sysfs().root().join(below),
                    None if path.starts_with('/') => self.host.path(Path::new(&path)),
                    None => self.chain[0].join(&path),
                };
                let exists = path.exists();
                Truth::of(exists == (token.operator == Operator::Is))
            }
            "KERNELS" | "SUBSYSTEMS" | "DRIVERS" | "ATTRS" => Truth::Yes, // see `parents`
            _ => Truth::Unknown,
        }
    }

    /// Whether one device of the chain meets all conditions of parents together.
    fn parents(&mut self, line: &Line) -> Truth {
        self.parent = None;
        let conditions: Vec<&Token> = line
            .tokens
            .iter()
            .filter(|token| {
                matches!(
                    token.key.as_str(),
                    "KERNELS" | "SUBSYSTEMS" | "DRIVERS" | "ATTRS"
                )
            })
            .collect();
        if conditions.is_empty() {
            return Truth::Yes;
        }
        let meets = |directory: &Path| {
            conditions.iter().all(|token| {
                let value = match token.key.as_str() {
                    "KERNELS" => directory
                        .file_name()
                        .map(|name| name.to_string_lossy().into_owned()),
                    "SUBSYSTEMS" => link_name(&directory.join("subsystem")),
                    "DRIVERS" => link_name(&directory.join("driver")),
                    _ => read(&directory.join(token.attribute.as_deref().unwrap_or_default())),
                };
                value.is_some_and(|value| compare(token, &value) == Truth::Yes)
            })
        };
        if let Some(directory) = self.chain.iter().find(|directory| meets(directory)) {
            self.parent = Some(directory.clone());
            return Truth::Yes;
        }
        // A reduced copy does not have the parents.
        if self.devpath.starts_with("/devices/") {
            Truth::No
        } else {
            Truth::Unknown
        }
    }

    /// True if the kernel was given the key of `IMPORT{cmdline}="key"`, which becomes a property then.
    fn import_from_command_line(&mut self, key: &str) -> bool {
        let line = cmdline::of_this_boot(self.host);
        let value = line
            .split_whitespace()
            .filter_map(|word| match word.split_once('=') {
                Some((name, value)) if name == key => Some(value.to_owned()),
                None if word == key => Some("1".to_owned()),
                _ => None,
            })
            .next_back();
        if let Some(value) = &value {
            self.properties.set(key, value);
        }
        value.is_some()
    }

    /// What a rule assigns.
    fn carry_out(&mut self, file: &Path, line: &Line, certain: bool) {
        for token in &line.tokens {
            if !token.operator.assigns() {
                continue;
            }
            let attribute = token.attribute.as_deref().unwrap_or_default();
            let value = self.substituted(&token.value);
            match token.key.as_str() {
                "ENV" => {
                    let is_plain = value.is_literal && token.operator != Operator::Add;
                    self.assign(attribute, &value, certain, is_plain);
                }
                "ATTR" if attribute.starts_with("queue/") => {
                    self.followed.assignments.push(Assignment {
                        kind: WriterKind::UdevRule,
                        file: file.into(),
                        line: line.number,
                        target: attribute.to_owned(),
                        value: value.is_known.then_some(value.text),
                        certain,
                    });
                }
                "RUN" if attribute != "builtin" => {
                    let at = (file, line.number);
                    let lines = scan::udev_program(self.host, &token.value, at);
                    self.followed.programs.extend(lines);
                }
                _ => {}
            }
        }
    }

    /// A property that a rule assigns. Of what comes from elsewhere, or only may be assigned, udev's
    /// database says how it ended.
    fn assign(&mut self, name: &str, value: &Substituted, certain: bool, is_plain: bool) {
        self.in_doubt.remove(name);
        match self.disk.properties.get(name) {
            _ if certain && is_plain => self.properties.set(name, &value.text),
            Some(at_the_end) => self.properties.set(name, at_the_end),
            None if certain && value.is_known => self.properties.set(name, &value.text),
            None => {
                self.in_doubt.insert(name.to_owned());
            }
        }
    }

    /// A value with udev's substitutions made.
    fn substituted(&self, value: &str) -> Substituted {
        let device = &self.disk.device;
        substituted(value, &|letter, argument| match letter {
            'k' | 'D' => Some(sysfs_name(&device.name)),
            'N' => Some(format!("/dev/{}", device.name)),
            'p' => Some(self.devpath.clone()),
            'S' => Some("/sys".into()),
            'r' => Some("/dev".into()),
            'M' => Some(device.number.major.to_string()),
            'm' => Some(device.number.minor.to_string()),
            'E' if self.in_doubt.contains(argument) => None,
            'E' => Some(self.properties.get(argument).unwrap_or_default().to_owned()),
            's' => std::iter::once(&self.chain[0])
                .chain(&self.parent)
                .find_map(|directory| read(&directory.join(argument))),
            _ => None,
        })
    }
}

fn compare(token: &Token, value: &str) -> Truth {
    let is_like = if token.ignores_case {
        is_like_any(&token.value.to_lowercase(), &value.to_lowercase())
    } else {
        is_like_any(&token.value, value)
    };
    Truth::of(is_like == (token.operator == Operator::Is))
}

/// An attribute's text without the blanks at its end, as udev compares it.
fn read(path: &Path) -> Option<String> {
    let text = lossy::read(path).ok()?;
    Some(text.trim_end().to_owned())
}

/// The last part of what a link in sysfs points to.
fn link_name(link: &Path) -> Option<String> {
    let target = std::fs::read_link(link).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::matching::disks;
    use crate::system_config::testing::{Disk, machine, write};

    /// What these rules, in a file of their own each, write into sda at an event.
    fn writers(host: &Host, disk: &KnownDisk, action: &str) -> Vec<Assignment> {
        super::followed(host, &rule_files(host), disk, action).assignments
    }

    fn follow(action: &str, files: &[(&str, &str)]) -> Vec<String> {
        let disk = Disk::new("sda")
            .file("queue/rotational", "1")
            .file("device/model", "ACME 4000    ")
            .property("ID_BUS", "ata");
        let (dir, host) = machine(&[disk]);
        for (name, text) in files {
            write(dir.path(), &format!("usr/lib/udev/rules.d/{name}"), text);
        }
        let disks = disks(&host).unwrap();
        writers(&host, &disks[0], action)
            .iter()
            .map(|writer| {
                let doubt = if writer.certain { "" } else { "?" };
                let value = writer.value.as_deref().unwrap_or("…");
                let file = writer.file.file_name().unwrap().to_string_lossy();
                format!("{file}:{} {value}{doubt}", writer.line)
            })
            .collect()
    }

    fn one(text: &str) -> Vec<String> {
        follow("add", &[("60-x.rules", text)])
    }

    #[test]
    fn conditions_are_judged_as_udev_does() {
        for (condition, is_met) in [
            (r#"ACTION=="add|change""#, true),
            (r#"ACTION!="add""#, false),
            (r#"KERNEL=="sd*[!0-9]""#, true),
            (r#"KERNEL=="nvme*""#, false),
            (r#"ENV{DEVTYPE}=="disk", ENV{ID_BUS}=="ata""#, true),
            (r#"ENV{NOTHING}!="x""#, true),
            (r#"ENV{NOTHING}=="?*""#, false),
            (r#"ATTR{device/model}=="ACME 4000""#, true),
            (r#"ATTR{nothing}!="x""#, false), // neither way
            (r#"TEST=="queue/scheduler""#, true),
            (r#"TEST!="queue/scheduler""#, false),
            (r#"TEST=="%S/block/%k/size""#, true),
            (r#"ATTR{queue/scheduler}=="*bfq*""#, true),
            (r#"IMPORT{cmdline}="quiet""#, true),
            (r#"IMPORT{cmdline}="elevator""#, false),
            (r#"IMPORT{cmdline}=="quiet""#, true),
            (r#"IMPORT{cmdline}!="quiet""#, false),
            (r#"IMPORT{cmdline}!="elevator""#, true),
            (r#"ATTR{device/model}==i"acme *""#, true),
            (r#"ATTR{device/model}=="acme *""#, false),
            (r#"ATTR{device/model}!=i"acme *""#, false),
        ] {
            let found = one(&format!("{condition}, ATTR{{queue/scheduler}}=\"none\""));
            assert_eq!(found.len(), usize::from(is_met), "{condition}");
        }
    }

    #[test]
    fn jumps_are_taken_and_doubtful_ones_make_doubtful() {
        let text = "KERNEL==\"sda\", GOTO=\"end\"\nATTR{queue/scheduler}=\"bfq\"\nLABEL=\"end\"\nATTR{queue/scheduler}=\"none\"\n";
        assert_eq!(one(text), ["60-x.rules:4 none"]);
        let text = "PROGRAM==\"/bin/x\", GOTO=\"end\"\nATTR{queue/scheduler}=\"bfq\"\nLABEL=\"end\"\nATTR{queue/scheduler}=\"none\"\n";
        assert_eq!(one(text), ["60-x.rules:2 bfq?", "60-x.rules:4 none"]);
    }

    #[test]
    fn files_are_followed_by_name_whatever_their_directory_and_a_masked_one_is_not() {
        let rule = |value: &str| format!("ATTR{{queue/scheduler}}=\"{value}\"\n");
        let (dir, host) = machine(&[Disk::new("sda")]);
        write(dir.path(), "etc/udev/rules.d/10-a.rules", &rule("one"));
        write(dir.path(), "usr/lib/udev/rules.d/05-b.rules", &rule("two"));
        write(
            dir.path(),
            "usr/lib/udev/rules.d/10-a.rules",
            &rule("never"),
        );
        write(
            dir.path(),
            "usr/lib/udev/rules.d/90-c.rules",
            &rule("masked"),
        );
        std::os::unix::fs::symlink("/dev/null", dir.path().join("etc/udev/rules.d/90-c.rules"))
            .unwrap();
        let disks = disks(&host).unwrap();
        let values: Vec<_> = writers(&host, &disks[0], "add")
            .into_iter()
            .filter_map(|writer| writer.value)
            .collect();
        assert_eq!(values, ["two", "one"]);
    }

    #[test]
    fn properties_that_rules_set_are_known_to_those_behind_and_programs_of_rules_that_hold_are_searched()
     {
        let text = "ENV{.MQ}=\"1\"\nENV{.MQ}==\"1\", RUN+=\"/bin/sh -c 'echo kyber > /sys/block/%k/queue/scheduler'\"\n\
                    ENV{.MQ}==\"2\", RUN+=\"/bin/sh -c 'echo none > /sys/block/%k/queue/scheduler'\"\n\
                    RUN+=\"ioset.sh kyber %k\"\n";
        let (dir, host) = machine(&[Disk::new("sda")]);
        write(dir.path(), "etc/udev/rules.d/60-x.rules", text);
        let script = "#!/bin/sh\n\necho $1 > /sys/block/$2/queue/scheduler\n";
        write(dir.path(), "usr/lib/udev/ioset.sh", script);
        let disk = &disks(&host).unwrap()[0];
        let found = followed(&host, &rule_files(&host), disk, "add").programs;
        let told: Vec<_> = found
            .iter()
            .map(|line| format!("{}:{}", line.file.display(), line.line))
            .collect();
        let expected = ["/etc/udev/rules.d/60-x.rules:2", "/usr/lib/udev/ioset.sh:3"];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_udevs_own_rules_make_of_a_serial_number_is_taken_from_its_database() {
        let disk = Disk::new("vda")
            .file("serial", "S 1")
            .file("device/model", "ACME 4000   ")
            .property("ID_SERIAL", "ACME_4000_S_1")
            .property("ID_SHORT", "S_1");
        let (dir, host) = machine(&[disk]);
        let value = |rules: &str| {
            write(dir.path(), "usr/lib/udev/rules.d/60-x.rules", rules);
            let writers = writers(&host, &disks(&host).unwrap()[0], "change");
            let of =
                |writer: &Assignment| (writer.value.clone().unwrap_or_default(), writer.certain);
            writers.iter().map(of).collect::<Vec<_>>()
        };
        let ours = "ENV{ID_SERIAL}==\"ACME_4000_S_1\", ATTR{queue/scheduler}=\"bfq\"\n";
        let bfq = [("bfq".to_owned(), true)];
        for made in [
            "ATTRS{serial}==\"?*\", ENV{ID_SERIAL}=\"$attr{serial}\"",
            "ENV{ID_MODEL}=\"%s{device/model}\", ENV{ID_SERIAL}=\"$env{ID_MODEL}_$attr{serial}\"",
            "PROGRAM==\"/bin/serial\", ENV{ID_SERIAL}=\"%c{2}\"",
            "PROGRAM==\"/bin/serial\", ENV{ID_SERIAL}=\"S2\"",
        ] {
            assert_eq!(value(&format!("{made}\n{ours}")), bfq, "{made}");
        }
        // What the database does not hold and only a program tells leaves a doubt.
        let doubtful = "PROGRAM==\"/bin/x\", ENV{.X}=\"$result\"\nENV{.X}==\"1\", ATTR{queue/scheduler}=\"none\"\n";
        assert_eq!(value(doubtful), [("none".to_owned(), false)]);
        // A text of the rule itself holds from now on, whatever the last event left.
        let plain =
            "ENV{ID_SHORT}=\"S2\"\nENV{ID_SHORT}==\"S_1\", ATTR{queue/scheduler}=\"none\"\n";
        assert_eq!(value(plain), []);
    }

    #[test]
    fn our_own_rules_are_followed_to_what_they_are_meant_to_do() {
        use crate::system_config::identity::Identity;
        use crate::system_config::rules::{Condition, Rule, text};
        let rule = |name: &str, serial: &str, arm: &str| Rule {
            name: name.into(),
            remark: String::new(),
            conditions: vec![Condition::is(&Identity::Serial(serial.into()))],
            arm: iosched_switch::Arm::parse(arm).unwrap(),
            old_name: None,
        };
        let rules = text(&[
            rule("a", "S2", "none"),
            rule("b", "S1", "bfq:nr_requests=8"),
            rule("c", "S1", "kyber"),
        ]);
        let (dir, host) = machine(&[Disk::new("sda").property("ID_SERIAL", "S1")]);
        write(dir.path(), "etc/udev/rules.d/99-iosched.rules", &rules);
        let disks = disks(&host).unwrap();
        for action in ["add", "change"] {
            let values: Vec<_> = writers(&host, &disks[0], action)
                .into_iter()
                .filter_map(|writer| writer.value)
                .collect();
            assert_eq!(values, ["bfq", "8"]);
        }
        assert!(writers(&host, &disks[0], "remove").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn a_rule_is_for_the_disks_that_we_say_and_no_other(
            pattern in "[*?S1]{1,3}",
            key in proptest::sample::select(vec!["serial", "wwn", "path", "model"]),
            values in proptest::collection::vec(proptest::option::of("[S1]{1,3}"), 4),
        ) {
            use crate::policy::file::Policy;
            use crate::policy::wanted;
            let mut disk = Disk::new("sda");
            for (name, value) in ["ID_SERIAL", "ID_WWN", "ID_PATH"].iter().zip(&values) {
                disk = match value {
                    Some(value) => disk.property(name, value),
                    None => disk,
                };
            }
            if let Some(model) = &values[3] {
                disk = disk.file("device/model", model);
            }
            let (dir, host) = machine(&[disk]);
            let policy = format!("[[rule]]\nname = 'a'\nmatch = {{ {key} = '{pattern}' }}\nscheduler = 'bfq'\n");
            let policy = Policy::parse(&policy, Path::new("p")).unwrap();
            let disks = disks(&host).unwrap();
            let wanted = wanted::wanted(&policy, &disks);
            let text = crate::system_config::rules::text(&wanted::udev_rules(&host, &policy, &wanted));
            write(dir.path(), "etc/udev/rules.d/99-iosched.rules", &text);
            let by_udev = !writers(&host, &disks[0], "add").is_empty();
            proptest::prop_assert_eq!(by_udev, !wanted.is_empty(), "{}", text);
        }
    }
}
