//! `iosched check` names who set a scheduler, on the systems of `tests/systems`, and its exit codes.
use std::collections::BTreeSet;
use std::fs;

use crate::common::iosched;
use crate::common::machine::Machine;

const POLICY: &str = "[[rule]]\nname = 'ours'\nmatch = { serial = 'S1' }\nscheduler = 'bfq'\n";

/// A machine with the disk sda, over which one of `tests/systems` is laid.
fn with_disk(system: Option<&str>, active: &str) -> Machine {
    let machine = Machine::empty();
    let of_block_layer: &[&str] = match active {
        "noop" => &["noop", "deadline", "cfq"],
        _ => &["none", "mq-deadline", "kyber", "bfq"],
    };
    let offered = of_block_layer
        .iter()
        .map(|name| {
            if *name == active {
                format!("[{name}]")
            } else {
                (*name).to_owned()
            }
        })
        .collect::<Vec<_>>()
        .join(" ");
    for (file, text) in [
        ("proc/sys/kernel/osrelease", "6.12.0\n"),
        ("proc/cmdline", "root=/dev/sda1 ro quiet\n"),
        ("sys/block/sda/dev", "8:0\n"),
        ("sys/block/sda/size", "2097152\n"),
        ("sys/block/sda/queue/rotational", "1\n"),
        ("sys/block/sda/queue/nr_requests", "64\n"),
        ("sys/block/sda/queue/scheduler", &format!("{offered}\n")),
        ("run/udev/data/b8:0", "E:ID_SERIAL=S1\n"),
        ("etc/iosched/policy.toml", POLICY),
    ] {
        machine.write(file, text);
    }
    if let Some(system) = system {
        machine.lay_over(&format!("systems/{system}"));
    }
    machine
}

/// What `check --json` prints.
fn json(machine: &Machine) -> serde_json::Value {
    serde_json::from_str(&machine.run("check", &["--json"]).1).unwrap()
}

#[test]
fn who_set_it_is_named_with_file_and_line_on_every_system() {
    for (system, found, who) in [
        (
            "debian",
            "none",
            "udev rule, /etc/udev/rules.d/99-zz-local.rules:2",
        ),
        (
            "rhel-9",
            "none",
            "udev rule, /usr/lib/udev/rules.d/40-elevator.rules:10",
        ),
        (
            "suse",
            "none",
            "udev rule, /usr/lib/udev/rules.d/60-io-scheduler.rules:10",
        ),
        (
            "cachyos",
            "none",
            "udev rule, /usr/lib/udev/rules.d/60-ioschedulers.rules:2",
        ),
        (
            "pop-os",
            "none",
            "perhaps program of a udev rule, /usr/lib/udev/rules.d/60-block-scheduler.rules:1",
        ),
        (
            "tuned",
            "none",
            "perhaps TuneD, /usr/lib/tuned/old-throughput/tuned.conf:9",
        ),
        (
            "nixos",
            "none",
            "udev rule, /etc/udev/rules.d/99-nixos-local.rules:1",
        ),
        (
            "azurelinux",
            "none",
            "udev rule, /usr/lib/udev/rules.d/60-bfq.rules:2",
        ),
        (
            "tmpfiles",
            "none",
            "perhaps systemd-tmpfiles, /etc/tmpfiles.d/disk.conf:2",
        ),
        (
            "unit",
            "none",
            "perhaps systemd unit, /usr/local/sbin/tune-disks:4",
        ),
        // Of several the one that would write what is found.
        (
            "several",
            "none",
            "udev rule, /usr/lib/udev/rules.d/60-ioschedulers.rules:1",
        ),
        ("several", "kyber", "perhaps boot script, /etc/rc.local:2"),
    ] {
        let machine = with_disk(Some(system), found);
        let (code, stdout, stderr) = machine.run("check", &[]);
        assert_eq!(code, 2, "{system}: {stderr}");
        let line = stdout
            .lines()
            .find(|line| line.contains("who: "))
            .unwrap_or_default();
        assert_eq!(line.trim(), format!("who: {who}"), "{system}\n{stdout}");
    }
}

#[test]
fn nobody_is_accused_who_is_switched_off_or_writes_something_else() {
    let machine = with_disk(Some("disabled"), "none");
    let (code, stdout, _) = machine.run("check", &[]);
    assert_eq!(code, 2);
    assert!(stdout.contains("the kernel's own default"), "{stdout}");
    assert!(stdout.contains("run `iosched apply`"), "{stdout}");
    // What cannot be brought into force is not recommended.
    for (scheduler, word) in [("bfq", "iosched apply"), ("nosuch", "cannot be brought")] {
        let candidate = machine.path("candidate.toml");
        fs::write(&candidate, POLICY.replace("bfq", scheduler)).unwrap();
        let (_, stdout, _) = machine.run("check", &[candidate.to_str().unwrap()]);
        let is_advised = stdout.contains("cp ");
        assert_eq!(is_advised, scheduler == "bfq", "{stdout}");
        assert!(stdout.contains(word), "{stdout}");
    }

    let machine = with_disk(Some("cachyos"), "kyber");
    assert_eq!(machine.run("apply", &["--yes"]).0, 0);
    let (_, stdout, _) = machine.run("check", &[]);
    assert!(
        stdout.contains("by hand, or by a program that is not known"),
        "{stdout}"
    );
}

#[test]
fn exit_codes_are_0_as_wanted_1_for_warnings_2_when_a_disk_differs() {
    let machine = with_disk(None, "bfq");
    // As udev's own rules find out what a disk is recognised by: the value is not in the rule.
    machine.write("sys/block/sda/serial", "S1\n");
    machine.write(
        "usr/lib/udev/rules.d/60-persistent-storage.rules",
        "KERNEL==\"sd*\", ATTRS{serial}==\"?*\", ENV{ID_SERIAL}=\"$attr{serial}\"\n",
    );
    assert_eq!(machine.run("apply", &["--yes"]).0, 0);
    let (code, stdout, _) = machine.run("check", &[]);
    assert_eq!(code, 0, "{stdout}");

    // Right now, but another rule comes after ours.
    let late = "etc/udev/rules.d/99-zz.rules";
    machine.write(late, "KERNEL==\"sda\", ATTR{queue/scheduler}=\"none\"\n");
    let (code, stdout, _) = machine.run("check", &[]);
    assert_eq!(code, 1, "{stdout}");
    for when in ["the next boot", "the next event of udev"] {
        let words = format!("at {when} it becomes none: udev rule, /{late}:1");
        assert!(stdout.contains(&words), "{stdout}");
    }
    // A line that may set it counts, too, if it does not have the value that is wanted.
    let tmpfiles = "etc/tmpfiles.d/disk.conf";
    for (value, warns) in [("none", true), ("bfq", false)] {
        fs::remove_file(machine.path(late)).ok();
        machine.write(
            tmpfiles,
            &format!("w /sys/block/sda/queue/scheduler - - - - {value}\n"),
        );
        let (code, stdout, _) = machine.run("check", &[]);
        let words =
            format!("at the next boot this may change it: systemd-tmpfiles, /{tmpfiles}:1: w /sys");
        assert_eq!(
            (code, stdout.contains(&words)),
            (i32::from(warns), warns),
            "{stdout}"
        );
    }
    fs::remove_file(machine.path(tmpfiles)).unwrap();
    machine.write(late, "KERNEL==\"sda\", ATTR{queue/scheduler}=\"none\"\n");
    // One that comes before ours is no reason to worry.
    fs::rename(
        machine.path(late),
        machine.path("etc/udev/rules.d/60-ours-ioschedulers.rules"),
    )
    .unwrap();
    let (code, stdout, _) = machine.run("check", &["--json"]);
    assert_eq!(code, 0, "{stdout}");

    machine.write("sys/block/sda/queue/scheduler", "[none] bfq\n");
    assert_eq!(machine.run("check", &[]).0, 2);
    machine.write("etc/iosched/policy.toml", "[[rule]]\nname = 1\n");
    let (code, _, stderr) = machine.run("check", &[]);
    assert_eq!(code, 2);
    assert!(stderr.contains("policy.toml:2:8: "), "{stderr}");
}

#[test]
fn what_monitoring_reads_says_the_same() {
    let machine = with_disk(Some("tuned"), "none");
    let json = json(&machine);
    assert_eq!(json["verdict"], "bad");
    let deviation = &json["disks"][0]["deviations"][0];
    assert_eq!(deviation["found"], "none");
    assert_eq!(deviation["by"]["kind"], "tuned");
    assert_eq!(deviation["by"]["line"], 9);
    assert!(json["disks"][0]["since"]["first_seen_unix_s"].is_number());

    let (code, stdout, _) = machine.run("check", &["--prometheus"]);
    assert_eq!(code, 2);
    let metric = "iosched_disk_as_wanted{device=\"sda\",rule=\"ours\",wanted=\"bfq\"} 0";
    assert!(stdout.contains(metric), "{stdout}");
    let file = machine.path("iosched.prom");
    let (code, ..) = machine.run("check", &["--textfile", file.to_str().unwrap()]);
    assert_eq!(code, 2);
    assert_eq!(fs::read_to_string(&file).unwrap(), stdout);
}

/// Alerts and dashboard ask for what `check` writes, and for all of it.
#[test]
fn the_metrics_of_alerts_and_dashboard_are_those_that_check_writes() {
    const MONITORING: [&str; 2] = [
        include_str!("../../../../fleet/monitoring/iosched-alerts.yml"),
        include_str!("../../../../fleet/monitoring/iosched-dashboard.json"),
    ];
    let (_, stdout, _) = with_disk(None, "bfq").run("check", &["--prometheus"]);
    let types = stdout.lines().filter_map(|line| {
        let name = line.strip_prefix("# TYPE ")?.strip_suffix(" gauge")?;
        Some(name.to_owned())
    });
    let written: BTreeSet<String> = types.collect();
    for text in MONITORING {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let asked = words.filter(|word| word.starts_with("iosched_"));
        let asked: BTreeSet<String> = asked.map(str::to_owned).collect();
        assert_eq!(asked, written);
    }
}

/// When the run behind a rule began, and its interval: what the record of docs/example-record says of bfq.
#[test]
fn monitoring_is_told_what_the_rule_rests_on_as_far_as_it_can_be_read() {
    let machine = with_disk(None, "bfq");
    let policy = format!("{POLICY}record = '/root/run'\n");
    machine.write("etc/iosched/policy.toml", &policy);
    let metrics = |machine: &Machine| machine.run("check", &["--prometheus"]).1;
    let none = metrics(&machine);
    assert!(!none.contains("iosched_measured_ratio{"), "{none}");
    let record = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/example-record/record.jsonl"
    );
    machine.write(
        "root/run/record.jsonl",
        &fs::read_to_string(record).unwrap(),
    );
    let report = json(&machine);
    let measured = &report["disks"][0]["measured"];
    let ratios = measured["ratios"].as_object().unwrap();
    assert!(!ratios.is_empty(), "{measured}");
    let told = metrics(&machine);
    for (load, ratio) in ratios {
        for bound in ["lower", "estimate", "upper"] {
            let labels = format!("device=\"sda\",rule=\"ours\",load=\"{load}\",bound=\"{bound}\"");
            let line = format!("iosched_measured_ratio{{{labels}}} {}", ratio[bound]);
            assert!(told.lines().any(|told| told == line), "{line}: {told}");
        }
        assert!(ratio["lower"].as_f64() <= ratio["upper"].as_f64());
    }
    let began = measured["created_unix_s"].as_f64().unwrap();
    let line =
        format!("iosched_measured_timestamp_seconds{{device=\"sda\",rule=\"ours\"}} {began:.0}");
    assert!(told.contains(&line), "{line}: {told}");
    // Of another arm it says nothing.
    machine.write(
        "etc/iosched/policy.toml",
        &policy.replace("'bfq'", "'adios'"),
    );
    assert!(!metrics(&machine).contains("iosched_measured_ratio{"));
}

#[test]
fn advice_counts_for_no_exit_code_and_is_told_of_each_disk() {
    let machine = with_disk(None, "bfq");
    machine.write("sys/block/sda/removable", "0\n");
    machine.write("proc/sys/kernel/osrelease", "6.9.0\n");
    assert_eq!(machine.run("apply", &["--yes"]).0, 0);
    let (code, before, _) = machine.run("check", &["--prometheus"]);
    assert!(
        !before.contains("iosched_disk_differs_from_advice{"),
        "{before}"
    );
    machine.write("sys/block/sda/queue/zoned", "host-managed\n");
    let (after_code, after, _) = machine.run("check", &["--prometheus"]);
    let metric = "iosched_disk_differs_from_advice{device=\"sda\",advised=\"mq-deadline\"} 1";
    assert!(after.contains(metric), "{after}");
    assert_eq!(after_code, code);
}

#[test]
fn a_tree_that_is_not_there_is_refused_and_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("nowhere");
    for arguments in [
        &["check"][..],
        &["check", "--json"],
        &["log"],
        &["undo"],
        &["advise"],
        &["persist", "sda", "bfq", "--yes"],
    ] {
        let mut command = iosched();
        command.arg(arguments[0]).arg("--root").arg(&tree);
        let output = command.args(&arguments[1..]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("there is no such directory"), "{said}");
        assert!(!tree.exists(), "{arguments:?}");
    }
}

#[test]
fn without_a_policy_what_sets_a_disk_is_named_with_what_becomes_of_it() {
    let machine = with_disk(Some("several"), "none");
    fs::remove_file(machine.path("etc/iosched/policy.toml")).unwrap();
    assert_eq!(machine.run("check", &[]).0, 0);
    let (code, stdout, _) = machine.run("check", &["--who", "sda"]);
    assert_eq!(code, 0);
    assert_eq!(
        stdout,
        "sda: none now\n  \
         scheduler = none: udev rule, /usr/lib/udev/rules.d/60-ioschedulers.rules:1 [in effect] (at events, too)\n  \
         may set scheduler: boot script, /etc/rc.local:2: echo kyber > /sys/block/sda/queue/scheduler\n  \
         may set scheduler: TuneD, /usr/lib/tuned/latency/tuned.conf:5: elevator=none\n"
    );
}

#[test]
fn a_policy_that_cannot_be_read_has_the_exit_code_that_the_help_says() {
    let machine = with_disk(None, "bfq");
    let (code, _, said) = machine.run("check", &["/no/such/policy.toml"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("cannot read /no/such/policy.toml"), "{said}");
    assert!(!said.contains("--who"), "{said}");
    // Who names a disk there hears how that is asked.
    let (code, _, said) = machine.run("check", &["sda"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("`iosched check --who sda`"), "{said}");
    machine.write("etc/iosched/policy.toml", "[[rule]\n");
    assert_eq!(machine.run("check", &[]).0, 2);
    fs::remove_file(machine.path("etc/iosched/policy.toml")).unwrap();
    let (code, _, said) = machine.run("apply", &["--dry-run"]);
    assert_eq!(code, 3, "{said}");
}
