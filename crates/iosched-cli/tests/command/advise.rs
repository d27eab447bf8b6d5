//! `iosched advise` on copied machines: what it prints is kept beside each text in `tests/machines/`.

use std::fs;
use std::path::Path;
use std::process::Command;

use iosched_evidence::dataset;
use iosched_evidence::fixture::{Fleet, Size};
use iosched_evidence::row::Row;
use iosched_testing::machine_tree;

use crate::common::machines::on_each_machine;
use crate::evidence;

/// What it prints, at 80 columns.
fn advise(root: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iosched"));
    command.env("COLUMNS", "80").arg("advise").arg("--root");
    let output = command.arg(root).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    let notes = ["", "--json has what each source says, and where\n"];
    assert!(notes.contains(&said.as_str()), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(root: &Path, args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&advise(root, &[&["--json"], args].concat())).unwrap()
}

#[test]
fn every_machine_is_advised_as_kept_beside_its_tree() {
    on_each_machine(|root| {
        let text = advise(root, &[]);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "too wide: {line}");
        }
        insta::assert_snapshot!("advise", text);
        insta::assert_snapshot!("advise-desktop", advise(root, &["--load-class", "desktop"]));
        insta::assert_json_snapshot!("advise-json", json(root, &[]));
    });
}

#[test]
fn a_directory_is_spoken_of_and_measured_in() {
    let root = with_files("workstation", &[]);
    let database = ["/boot/efi", "--load-class", "database"];
    let text = advise(root.path(), &database);
    assert!(text.starts_with("/boot/efi is on nvme0n1:\n"), "{text}");
    let command = "\n    iosched tune /boot/efi --load pgbench\n";
    assert!(text.ends_with(command), "{text}");
}

/// With every line break and indent one blank.
fn unfolded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A copy of a machine, with files of `/etc` besides.
fn with_files(machine: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    machine_tree::unpack(&machine_tree::text(machine), dir.path());
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

const MEASURED: &str = r#"
version = 1
[[rule]]
name = "home"
match = { model = "ST4000DM004*" }
scheduler = "bfq"
why = "p99 of reads 0.71 x that of mq-deadline"
record = "/root/iosched-2026-11-21"
evidence = { kernel = "KERNEL" }
"#;

#[test]
fn what_was_measured_here_goes_before_the_rule_until_the_kernel_is_another() {
    for (kernel, differs) in [("6.12.1", true), ("5.10.0", false)] {
        let policy = MEASURED.replace("KERNEL", kernel);
        let root = with_files("workstation", &[("etc/iosched/policy.toml", &policy)]);
        // The rule of thumb for databases is mq-deadline, which sda has.
        let answer = json(root.path(), &["sda", "--load-class", "database"]);
        let disk = &answer["disks"][0];
        assert_eq!(disk["measured_here"]["arm"], "bfq", "{disk}");
        assert_eq!(
            disk["measured_here"]["stale"]
                .as_array()
                .unwrap()
                .is_empty(),
            differs
        );
        assert_eq!(disk["rule_of_thumb"]["take"][0]["scheduler"], "mq-deadline");
        assert_eq!(
            disk["differs"] == serde_json::json!({"should": ["bfq"], "by": "measured-here"}),
            differs,
            "{disk}"
        );
        let text = unfolded(&advise(root.path(), &["sda"]));
        assert_eq!(
            text.contains("does not hold any more: kernel was 5.10.0"),
            !differs,
            "{text}"
        );
    }
}

#[test]
fn no_measurement_goes_before_what_keeps_the_data_whole_or_what_the_disk_offers() {
    let policy = MEASURED
        .replace("KERNEL", "5.15.0")
        .replace("ST4000DM004*", "*");
    let root = with_files("zoned", &[("etc/iosched/policy.toml", &policy)]);
    let answer = json(root.path(), &["sdb", "sdc", "sda"]);
    let differs = |at: usize| answer["disks"][at]["differs"].clone();
    assert!(
        differs(0).is_null(),
        "it has mq-deadline, and must: {answer}"
    );
    let should = serde_json::json!({"should": ["mq-deadline"], "by": "rule-of-thumb"});
    assert_eq!(differs(1), should);
    assert!(answer["disks"][1]["to_settle"].is_null());
    assert!(differs(2).is_null(), "bfq is not offered: {answer}");
    assert_eq!(
        answer["disks"][2]["measured_here"]["is_of_this_disk"],
        false
    );
}

#[test]
fn who_sets_a_scheduler_at_boot_is_named() {
    let rule = "ACTION==\"add|change\", KERNEL==\"sd[a-z]\", ATTR{queue/scheduler}=\"bfq\"\n";
    let root = with_files(
        "workstation",
        &[("usr/lib/udev/rules.d/60-ioschedulers.rules", rule)],
    );
    let text = advise(root.path(), &["sda"]);
    assert!(text.contains("set to bfq at boot by: udev rule"), "{text}");
    let answer = json(root.path(), &["sda"]);
    let set_by = &answer["disks"][0]["set_by"];
    assert_eq!(
        set_by["file"],
        "/usr/lib/udev/rules.d/60-ioschedulers.rules"
    );
    assert_eq!(set_by["line"], 1);
}

#[test]
fn a_directory_or_partition_stands_for_its_disks_and_a_loop_device_is_advised_by_name() {
    let named = |machine: &str, target: &str| {
        let answer = json(&machine_tree::tree(machine), &[target]);
        let disks = answer["disks"].as_array().unwrap();
        let names = disks
            .iter()
            .map(|disk| disk["device"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(named("workstation", "/home"), ["sda", "sdb"]);
    assert_eq!(named("md-raid", "md0"), ["sda", "sdb"]);
    assert_eq!(named("virtual-machine", "loop0"), ["loop0"]);
}

/// A copy of the workstation, whose sda is a drive that these records are about, with their evidence in its place.
fn with_evidence(machines: u32, kernel: &str, scheduler: &str) -> tempfile::TempDir {
    let root = with_files("workstation", &[]);
    let queue = root.path().join("sys/block/sda/queue/scheduler");
    let offered = ["none", "mq-deadline", "kyber", "bfq"].map(|name| {
        if name == scheduler {
            format!("[{name}]")
        } else {
            name.to_owned()
        }
    });
    fs::write(queue, offered.join(" ") + "\n").unwrap();
    let model = fs::read_to_string(root.path().join("sys/block/sda/device/model")).unwrap();
    let records = tempfile::tempdir().unwrap();
    let at = root.path().join("var/lib/iosched/evidence");
    evidence::dataset_of(records.path(), &at, 0..machines, |header| {
        header["machine"]["kernel"] = kernel.into();
        header["machine"]["disks"][0]["model"] = model.trim().into();
    });
    root
}

#[test]
fn what_many_machines_measured_goes_before_the_rule() {
    let root = with_evidence(6, "6.12.3", "kyber");
    let answer = json(root.path(), &["sda"]);
    let disk = &answer["disks"][0];
    let elsewhere = &disk["measured_elsewhere"];
    let known = &elsewhere["known"];
    assert_eq!(known["level"], "model", "{answer}");
    assert_eq!(
        (&known["machines"], &known["kernel"]),
        (&6.into(), &"6.12".into())
    );
    let best = known["proposed"][0]["scheduler"].as_str().unwrap();
    assert!(
        known["against_active"]["lower"].as_f64().unwrap() > 1.0,
        "{answer}"
    );
    assert_eq!(disk["differs"]["by"], "measured-elsewhere");
    assert_eq!(disk["differs"]["should"][0], best);
    let text = unfolded(&advise(root.path(), &["sda"]));
    assert!(
        text.contains(&format!("measured elsewhere {best}")),
        "{text}"
    );
    assert!(
        text.contains("on 6 machines with this model (") && text.contains("Linux 6.12; "),
        "{text}"
    );
    assert!(text.contains("as measured elsewhere"), "{text}");
    // Monitoring is told how far.
    let output = Command::new(env!("CARGO_BIN_EXE_iosched"))
        .args(["check", "--prometheus", "--root"])
        .arg(root.path())
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    for bound in ["lower", "estimate", "upper"] {
        let ratio = &known["proposed"][0]["against_active"][bound];
        let labels = format!("device=\"sda\",advised=\"{best}\",bound=\"{bound}\"");
        let line = format!("iosched_advised_ratio{{{labels}}} {ratio}");
        assert!(told.lines().any(|told| told == line), "{line}: {told}");
    }
    // What has the best of them differs from nothing, whatever the rule of thumb says.
    let root = with_evidence(6, "6.12.3", best);
    let answer = json(root.path(), &["sda"]);
    assert!(answer["disks"][0]["differs"].is_null(), "{answer}");
    // Of another class of loads nothing is known.
    let answer = json(root.path(), &["sda", "--load-class", "database"]);
    assert!(
        answer["disks"][0]["measured_elsewhere"].is_null(),
        "{answer}"
    );
}

/// The workstation beside rows of six machines with drives as its sda: bfq, at this many times the p99 and processor time of mq-deadline.
fn with_prices(p99: [Option<f64>; 6], cpu: f64) -> tempfile::TempDir {
    let root = with_files("workstation", &[]);
    let model = fs::read_to_string(root.path().join("sys/block/sda/device/model")).unwrap();
    let size = Size {
        machines: 1,
        models: 1,
        loads: 1,
    };
    let example = Fleet::new(1, size).rows.remove(0);
    let rows = p99.iter().enumerate().map(|(number, p99)| Row {
        record: format!("{number:032x}").into(),
        machine: format!("{number:016x}").into(),
        model: model.trim().into(),
        transport: "sata".into(),
        rotational: Some(true),
        is_virtual: false,
        kernel: "6.12.4".into(),
        load_class: "general".into(),
        objective: "throughput".into(),
        arm: "bfq".into(),
        against: "mq-deadline".into(),
        log_ratio: 1.4_f64.ln(),
        standard_error: 0.02,
        p99_ratio: *p99,
        cpu_ratio: Some(cpu),
        ..example.clone()
    });
    let at = root.path().join("var/lib/iosched/evidence");
    let secret = dataset::Secret::of(&at).unwrap();
    dataset::add(&at, &secret, &rows.collect::<Vec<_>>()).unwrap();
    root
}

/// What stands in the lines of one disk from `measured elsewhere` to the rule.
fn elsewhere(root: &Path) -> String {
    let text = advise(root, &["sda"]);
    let lines = text.lines();
    let lines = lines.skip_while(|line| !line.contains("measured elsewhere"));
    let lines = lines.take_while(|line| !line.contains("rule of thumb"));
    let lines = lines.map(|line| line.strip_prefix("  ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_a_gain_costs_is_told_with_it() {
    let twelve = with_prices([11.0, 12.0, 13.0, 12.0, 12.5, 11.5].map(Some), 1.3);
    insta::assert_snapshot!(elsewhere(twelve.path()), @r"
      measured elsewhere  bfq, by throughput on 6 machines with this model
                            (ST4000DM004-2CV1), Linux 6.12; mq-deadline 0.71 times
                            bfq, here 0.70 to 0.73 (6 machines); against what is
                            active 1.40, here 1.37 to 1.43
      at the price of     p99 of bfq 11.98 (11.26 to 12.75) times that of
                            mq-deadline (6 machines); processor time per I/O of bfq
                            1.30 (1.30 to 1.30) times that of mq-deadline (6
                            machines)
    ");
    let answer = json(twelve.path(), &["sda"]);
    let disk = &answer["disks"][0];
    let prices = &disk["measured_elsewhere"]["known"]["proposed"][0]["prices"];
    let said = |price: &serde_json::Value| {
        let interval = &price["interval"];
        let of = |number: &serde_json::Value| format!("{:.2}", number.as_f64().unwrap());
        let numbers = [&price["ratio"], &interval["lower"], &interval["upper"]].map(of);
        let words = ["number", "arm", "against", "machines", "is_proven"];
        let words = words.map(|field| price[field].to_string());
        [&words[..], &numbers].concat().join(" ")
    };
    let prices: Vec<String> = prices.as_array().unwrap().iter().map(said).collect();
    let expected = [
        r#""p99" "bfq" "mq-deadline" 6 true 11.98 11.26 12.75"#,
        r#""cpu" "bfq" "mq-deadline" 6 true 1.30 1.30 1.30"#,
    ];
    assert_eq!(prices, expected);
    assert!(disk["differs"].is_null(), "{disk}");
}
