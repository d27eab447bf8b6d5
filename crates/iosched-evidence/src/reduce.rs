//! From a record to rows: each two arms of each load, round by round.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::Path;

use iosched_experiment::analysis::RESOLUTION;
use iosched_experiment::load::Spec;
use iosched_experiment::objective::Objective;
use iosched_experiment::plan::{Plan, PlannedLoad, Target};
use iosched_experiment::record::{Header, Record};
use iosched_experiment::schedule;
use iosched_machine::facts::DiskFacts;
use iosched_machine::failure::{Problem, exit};
use iosched_machine::visible;
use iosched_sim::disk::{Model, models};

use crate::digest::sha256;
use crate::drive::tidy;
use crate::load_class::LoadClass;
use crate::row::{LONGEST_TEXT, OWN, Row, Source, Text, numbers_of_release};

/// Fewer rounds say too little of their own spread.
pub(crate) const LEAST_ROUNDS: usize = 3;

/// How many rounds the spread of all pairs of a load counts beside a pair's own.
const PRIOR_ROUNDS: f64 = 4.0;

/// What turns a name into one that tells nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pseudonyms {
    key: String,
}

impl Pseudonyms {
    /// With this secret.
    pub(crate) fn new(key: &str) -> Pseudonyms {
        Pseudonyms {
            key: key.to_owned(),
        }
    }

    /// What a machine is called in the dataset.
    fn of(&self, name: &str) -> Text {
        // The secret has one length, so no two pairs give one text.
        let digest = sha256(format!("{}\n{name}", self.key).as_bytes());
        Text::from(&digest[..16])
    }
}

/// Why a record gives no rows: what it is or has, and the way out.
fn unusable(path: &Path, is: impl Display, hint: &str) -> Problem {
    let message = format!("the record {} {is}", path.display());
    Problem::new(exit::BAD_RECORD, message).hint(hint)
}

/// A number that cannot be.
fn impossible(path: &Path, cause: impl Display) -> Problem {
    unusable(path, format!("cannot be of a real run: {cause}"), EDITED)
}

const EDITED: &str = "it was damaged or edited: leave it out";

/// In seconds.
const DAY: f64 = 86_400.0;

/// How far the clocks of two machines may be apart, in days.
const CLOCKS_APART: f64 = 1.0;

/// The rows of a record, `now` in seconds since 1970; `path` is for errors.
///
/// # Errors
/// It has none, says of itself what cannot be, or is of the future.
pub fn rows(
    path: &Path,
    record: &Record,
    names: &Pseudonyms,
    now: f64,
) -> Result<Vec<Row>, Problem> {
    let header = &record.header;
    let days = (header.created_unix_s - now) / DAY;
    if days > CLOCKS_APART {
        let is = format!("was begun in the future: {days:.0} days from now by the clock here");
        let hint = "if the clock here is wrong, set it right; else that of the machine that measured was: measure again \
                    there, or leave it out";
        return Err(unusable(path, is, hint));
    }
    let plan = &header.plan;
    let of_record = of_record(path, header, names)?;
    let mut rows = Vec::new();
    for (index, load) in plan.loads.iter().enumerate() {
        if !load.is_control {
            rows.extend(of_load(record, index, &of_load_of(&of_record, plan, load)));
        }
    }
    if rows.is_empty() {
        let is = format!("has no two arms with {LEAST_ROUNDS} rounds each under one load");
        let hint = "go on with it: `iosched tune --resume DIR` with a larger --rounds or --budget";
        return Err(unusable(path, is, hint));
    }
    for row in &rows {
        row.check().map_err(|cause| impossible(path, cause))?;
    }
    Ok(rows)
}

/// What all rows of a record have in common.
fn of_record(path: &Path, header: &Header, names: &Pseudonyms) -> Result<Row, Problem> {
    let plan = &header.plan;
    let of_drive = of_drive(path, header)?;
    let kernel = match of_drive.source {
        Source::Simulated => String::new(),
        Source::Measured | Source::Emulated => {
            let version = numbers_of_release(&header.machine.kernel);
            let is = || format!("names no version of Linux, but {:?}", header.machine.kernel);
            version.ok_or_else(|| unusable(path, is(), EDITED))?
        }
    };
    let day = (header.created_unix_s / DAY).floor();
    if !(7305.0..84_006.0).contains(&day) {
        let cause = format!("it was begun at {} s since 1970", header.created_unix_s);
        return Err(impossible(path, cause));
    }
    #[expect(clippy::cast_possible_truncation, reason = "within the range above")]
    let day = day as i32;
    Ok(Row {
        record: Text::from(&identity(header)[..32]),
        machine: names.of(&machine(header)),
        day,
        program: tidy(&header.program).into(),
        kernel: kernel.into(),
        file_system: file_system(plan, header.machine.file_system.as_deref()).into(),
        ..of_drive
    })
}

/// What no other record has: it stays when the record goes on. A simulation is its plan, whoever runs it and when.
fn identity(header: &Header) -> String {
    if let Target::Simulated(_) = header.plan.target {
        let plan = serde_json::to_string(&header.plan).expect("our own types serialise");
        return sha256(format!("{}\n{plan}", header.program).as_bytes());
    }
    let machine = &header.machine;
    let disks: Vec<&str> = machine
        .disks
        .iter()
        .filter_map(|disk| disk.serial.as_deref())
        .collect();
    let text = format!(
        "{:?}\n{}\n{}\n{}\n{}\n{:?}\n{:?}",
        header.created_unix_s,
        machine.hostname,
        machine.kernel,
        machine.memory_bytes,
        header.plan.seed,
        disks,
        header.command,
    );
    sha256(text.as_bytes())
}

/// What tells machines apart: the host's name, unless it is one that many have; then the drive's. A simulated one is drawn from
/// its seed, wherever that is done. A name with its domain and without is of one machine.
fn machine(header: &Header) -> String {
    const SHARED: [&str; 7] = [
        "",
        "(none)",
        "localhost",
        "debian",
        "ubuntu",
        "fedora",
        "raspberrypi",
    ];
    if let Target::Simulated(_) = header.plan.target {
        return format!("simulated\n{}", header.plan.seed);
    }
    let machine = &header.machine;
    let host = machine.hostname.trim().to_ascii_lowercase();
    // An address is a name as a whole.
    let host = if host.parse::<IpAddr>().is_ok() {
        host
    } else {
        host.split('.').next().unwrap_or_default().to_owned()
    };
    if !SHARED.contains(&host.as_str()) {
        return host;
    }
    let mut disks = machine.disks.iter();
    let own = disks.find_map(|disk| disk.wwn.as_ref().or(disk.serial.as_ref()));
    format!("{host}\n{}", own.map_or("", String::as_str))
}

/// What was measured on.
fn of_drive(path: &Path, header: &Header) -> Result<Row, Problem> {
    let plan = &header.plan;
    if let Target::Simulated(disk) = &plan.target {
        return Ok(of_model(Source::Simulated, Some(&disk.model)));
    }
    if let Some(described) = &plan.emulated {
        // With its name alone it is as it comes; what a user changed stands behind that.
        let known = models().into_iter().find(|model| model.name == *described);
        let made = plan.own_disk.as_ref().map(|own| &own.model);
        let known = known.filter(|known| made.is_none_or(|made| made == known));
        return Ok(of_model(Source::Emulated, known.as_ref().or(made)));
    }
    let disks = &header.machine.disks;
    let model_of = |disk: &DiskFacts| tidy(disk.model.as_deref().unwrap_or_default());
    let mut models: Vec<String> = disks.iter().map(model_of).collect();
    models.dedup();
    if models.len() > 1 {
        let is = format!("is of drives of several models: {}", models.join(", "));
        let hint =
            "what was found of a mixed array says nothing of one of its models: leave it out";
        return Err(unusable(path, is, hint));
    }
    let nobody = DiskFacts::default();
    let first = disks.first().unwrap_or(&nobody);
    let model = models.pop().unwrap_or_default();
    let transport = first.transport.as_deref().unwrap_or("-");
    let are_several = disks.len() > 1;
    let rotational = first.queue.get("rotational").map(|value| value.trim());
    Ok(Row {
        source: Source::Measured,
        model: if are_several && !model.is_empty() {
            format!("{} x {model}", disks.len()).into()
        } else {
            model.into()
        },
        firmware: tidy(first.firmware.as_deref().unwrap_or_default()).into(),
        transport: if are_several {
            format!("{transport}-array").into()
        } else {
            transport.into()
        },
        // Of what says neither nothing is known.
        rotational: match rotational {
            Some("0") => Some(false),
            Some("1") => Some(true),
            _ => None,
        },
        is_virtual: first.is_virtual.unwrap_or_default(),
        queue_depth: first
            .queue_depth
            .and_then(|depth| i32::try_from(depth).ok()),
        ..Row::default()
    })
}

/// A disk model; what a user changed or made himself has no name.
fn of_model(source: Source, model: Option<&Model>) -> Row {
    let known = model.filter(|model| models().iter().any(|known| known == *model));
    Row {
        source,
        model: known.map_or(Text::default(), |model| Text::from(&*model.name)),
        transport: source.name().into(),
        rotational: model.map(Model::rotational),
        queue_depth: model.and_then(|model| i32::try_from(model.queue_depth()).ok()),
        ..Row::default()
    }
}

/// The type alone, if it is a word; a raw device has none.
fn file_system(plan: &Plan, found: Option<&str>) -> String {
    let own = match &plan.target {
        Target::FileSystem { file_system, .. } => Some(file_system.name()),
        _ => None,
    };
    let name = own.or(found).unwrap_or_default();
    let is_word = name.len() <= 32
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
    if is_word {
        name.to_owned()
    } else {
        String::new()
    }
}

/// What all rows of a load have in common.
fn of_load_of(of_record: &Row, plan: &Plan, load: &PlannedLoad) -> Row {
    let (class, name) = match LoadClass::of_load(&load.name).filter(|_| load.spec.is_ours()) {
        Some(class) => (class.name(), load.name.as_str()),
        None => (OWN, OWN),
    };
    Row {
        load_class: class.into(),
        load: name.into(),
        fingerprint: fingerprint(plan, load).into(),
        objective: objective_name(load.objective).into(),
        ..of_record.clone()
    }
}

/// What a load does and for how long, as a number: two that are the same have the same. It has no way back, but who has
/// a job file can tell that it is the one.
fn fingerprint(plan: &Plan, load: &PlannedLoad) -> String {
    let work = match &load.spec {
        Spec::JobFile(text) | Spec::Simulated { job_file: text, .. } => text.clone(),
        Spec::SimulatedDesktop { desktop, .. } => {
            serde_json::to_string(desktop).expect("our own types serialise")
        }
        Spec::SimulatedScenario { scenario, .. } => {
            serde_json::to_string(scenario).expect("our own types serialise")
        }
        spec => serde_json::to_string(spec).expect("our own types serialise"),
    };
    let on_files = matches!(
        plan.target,
        Target::Directory { .. } | Target::FileSystem { .. }
    );
    let auto = if load.is_runtime_auto { "\nauto" } else { "" };
    let text = format!(
        "{work}\n{:?}\n{:?}\n{on_files}{auto}",
        load.runtime_s, load.wait_until_steady
    );
    sha256(text.as_bytes())[..16].to_owned()
}

/// As it is typed; those that are not typed have names of their own.
fn objective_name(objective: Objective) -> &'static str {
    match objective {
        Objective::NumberHigher => "number-higher",
        Objective::NumberLower => "number-lower",
        other => other.name(),
    }
}

/// Each two arms of a load.
fn of_load(record: &Record, load: usize, common: &Row) -> Vec<Row> {
    let plan = &record.header.plan;
    let objective = plan.loads[load].objective;
    let rounds = record
        .trials()
        .map(|trial| trial.slot.round + 1)
        .max()
        .unwrap_or(0);
    let table = |objective| schedule::table(record, load, rounds, objective);
    let values = table(objective);
    // Numbers without ratios are pooled with nothing.
    if values.iter().flatten().flatten().any(|value| *value <= 0.0) {
        return Vec::new();
    }
    let pairs = compare(&values, objective.higher_is_better(), plan.baseline);
    let latencies = table(Objective::P99);
    let processors = table(Objective::Cpu);
    let label = |arm: usize| arm_text(&visible::line(&plan.arm_label(arm)));
    let labels: BTreeMap<usize, Text> = (0..plan.arms.len()).map(|arm| (arm, label(arm))).collect();
    // Two arms that are the same (A/A) say nothing of schedulers.
    let pairs = pairs.into_iter().filter(|pair| {
        plan.arms[pair.arm] != plan.arms[pair.against] && labels[&pair.arm] != labels[&pair.against]
    });
    pairs
        .map(|pair| Row {
            arm: labels[&pair.arm].clone(),
            against: labels[&pair.against].clone(),
            is_baseline: pair.against == plan.baseline,
            log_ratio: pair.log_ratio,
            standard_error: pair.standard_error,
            rounds: i32::try_from(pair.rounds).unwrap_or(i32::MAX),
            p99_ratio: ratio(&latencies, pair.arm, pair.against),
            cpu_ratio: ratio(&processors, pair.arm, pair.against),
            ..common.clone()
        })
        .collect()
}

/// An arm as a row has it: whole if there is room, and otherwise with a digest for what is cut, so that no two settings are
/// taken for one.
fn arm_text(label: &str) -> Text {
    const DIGITS: usize = 16;
    if label.len() <= LONGEST_TEXT {
        return label.into();
    }
    let mut ends = (0..LONGEST_TEXT - DIGITS).rev();
    let cut = ends.find(|at| label.is_char_boundary(*at)).unwrap_or(0);
    let digest = &sha256(label.as_bytes())[..DIGITS];
    format!("{}~{digest}", &label[..cut]).into()
}

/// Two arms of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pair {
    /// Index of the arm.
    pub arm: usize,
    /// Index of what it is compared with: the baseline, if it is one of the two.
    pub against: usize,
    /// ln of how many times as good it is.
    pub log_ratio: f64,
    /// Of it.
    pub standard_error: f64,
    /// In which both ran.
    pub rounds: usize,
}

/// Compares each two arms over the rounds in which both ran, if there are `LEAST_ROUNDS`.
///
/// A handful of rounds says little of its own spread, and a pair that is quiet by chance would weigh most of all when
/// machines are pooled. So the variance of each pair is drawn towards that of all pairs of the load, which counts as
/// `PRIOR_ROUNDS` rounds (G. K. Smyth, *Linear models and empirical Bayes methods*, 2004, with a fixed weight).
pub(crate) fn compare(
    table: &[Vec<Option<f64>>],
    higher_is_better: bool,
    baseline: usize,
) -> Vec<Pair> {
    let arms = table.first().map_or(0, Vec::len);
    let sign = if higher_is_better { 1.0 } else { -1.0 };
    let mut found = Vec::new();
    for first in 0..arms {
        for second in first + 1..arms {
            let (arm, against) = if first == baseline {
                (second, first)
            } else {
                (first, second)
            };
            let logs = log_ratios(table, arm, against);
            if logs.len() < LEAST_ROUNDS {
                continue;
            }
            let count = logs.len() as f64;
            let mean = logs.iter().sum::<f64>() / count;
            let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
            found.push((arm, against, sign * mean, squares, logs.len()));
        }
    }
    let degrees = |rounds: usize| (rounds - 1) as f64;
    let all: f64 = found.iter().map(|(.., rounds)| degrees(*rounds)).sum();
    let of_all = found.iter().map(|(.., squares, _)| squares).sum::<f64>() / all;
    let pairs = found
        .into_iter()
        .map(|(arm, against, log_ratio, squares, rounds)| {
            let variance = (squares + PRIOR_ROUNDS * of_all) / (degrees(rounds) + PRIOR_ROUNDS);
            let deviation = variance.sqrt().max(RESOLUTION);
            Pair {
                arm,
                against,
                log_ratio,
                standard_error: deviation / (rounds as f64).sqrt(),
                rounds,
            }
        });
    pairs.collect()
}

fn log_ratios(table: &[Vec<Option<f64>>], arm: usize, against: usize) -> Vec<f64> {
    let logs = table
        .iter()
        .filter_map(|row| Some((row[arm]? / row[against]?).ln()));
    logs.filter(|log| log.is_finite()).collect()
}

/// The mean ratio of a metric, over the rounds in which both have it.
fn ratio(table: &[Vec<Option<f64>>], arm: usize, against: usize) -> Option<f64> {
    let logs = log_ratios(table, arm, against);
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_experiment::fixture;
    use iosched_experiment::load::builtin::BUILT_IN;
    use iosched_experiment::load::simulated::SimulatedDisk;
    use iosched_experiment::trial::Slot;
    use iosched_machine::facts::MachineFacts;

    /// A run of three arms on a machine that has everything a row may not have.
    fn record(rounds: u32) -> Record {
        let plan = fixture::plan(3);
        let mut record = fixture::record(&plan);
        record.header.created_unix_s = 1_795_254_024.153;
        record.header.command = vec!["iosched".into(), "tune".into(), "/home/alice/secret".into()];
        record.header.machine = MachineFacts {
            kernel: "6.12.48-acme-corp1".into(),
            hostname: "oracle7.example.org".into(),
            disks: vec![DiskFacts {
                device: "sda".into(),
                model: Some("ST4000DM004-2CV104  ".into()),
                serial: Some("ZFN0ABCD".into()),
                wwn: Some("naa.5000c500a1b2c3d4".into()),
                firmware: Some("0001".into()),
                transport: Some("sata".into()),
                is_virtual: Some(false),
                queue_depth: Some(32),
                queue: [("rotational".to_owned(), "1".to_owned())].into(),
                ..DiskFacts::default()
            }],
            ..MachineFacts::default()
        };
        for round in 0..rounds {
            for arm in 0..3 {
                let slot = Slot {
                    load: 0,
                    round,
                    arm,
                };
                let noise = [1.0, 1.01, 0.99][(round as usize + arm) % 3];
                record
                    .entries
                    .push(fixture::trial(slot, 1e6 * [1.0, 2.0, 0.5][arm] * noise));
            }
        }
        record
    }

    /// Some days after the records here.
    const NOW: f64 = 1_796_000_000.0;

    fn reduced(record: &Record) -> Vec<Row> {
        rows(Path::new("r"), record, &Pseudonyms::new("key"), NOW).unwrap()
    }

    #[test]
    fn each_two_arms_have_a_row_with_the_ratio_that_better_means() {
        let rows = reduced(&record(4));
        let is_of =
            |row: &&Row, arm: &str, against: &str| (&*row.arm, &*row.against) == (arm, against);
        let of =
            |arm: &str, against: &str| rows.iter().find(|row| is_of(row, arm, against)).unwrap();
        assert_eq!(rows.len(), 3);
        for (arm, against, ratio) in [
            ("mq-deadline", "none", 2.0_f64),
            ("kyber", "none", 0.5),
            ("mq-deadline", "kyber", 4.0),
        ] {
            let row = of(arm, against);
            assert!((row.log_ratio - ratio.ln()).abs() < 0.02, "{row:?}");
            assert!((0.002..0.02).contains(&row.standard_error), "{row:?}");
            assert_eq!((row.rounds, row.is_baseline), (4, against == "none"));
            assert!(row.p99_ratio.is_some());
        }
        let row = of("kyber", "none");
        assert_eq!(
            (&*row.model, &*row.kernel, &*row.load),
            ("ST4000DM004-2CV104", "6.12.48", "own")
        );
        assert_eq!((row.class().as_str(), row.day), ("sata-hdd", 20_778));
    }

    #[test]
    fn where_less_is_better_the_faster_arm_is_better() {
        let table: Vec<Vec<Option<f64>>> = (0..3).map(|_| vec![Some(10.0), Some(5.0)]).collect();
        let pair = compare(&table, false, 0)[0];
        assert!((pair.log_ratio - 2.0_f64.ln()).abs() < 1e-12);
        assert!(
            (pair.standard_error - RESOLUTION / 3.0_f64.sqrt()).abs() < 1e-12,
            "{pair:?}"
        );
    }

    #[test]
    fn nothing_of_the_machine_its_people_or_its_files_is_in_a_row() {
        let mut record = record(4);
        record.header.plan.loads[0].name = "alice-secret".into();
        let text = serde_json::to_string(&reduced(&record))
            .unwrap()
            .to_lowercase();
        for word in "oracle7 example zfn0 5000c5 alice secret acme sda".split(' ') {
            assert!(!text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn a_record_keeps_its_name_as_it_grows_and_another_has_another() {
        let (short, long) = (reduced(&record(3)), reduced(&record(6)));
        assert_eq!(short[0].record, long[0].record);
        assert_eq!(short[0].key(), long[0].key());
        let mut other = record(3);
        other.header.created_unix_s += 0.001;
        let other = reduced(&other);
        assert_ne!(other[0].record, short[0].record);
        assert_eq!(other[0].machine, short[0].machine);
        let elsewhere = rows(Path::new("r"), &record(3), &Pseudonyms::new("other"), NOW).unwrap();
        assert_ne!(elsewhere[0].machine, short[0].machine);
        assert_eq!(elsewhere[0].record, short[0].record);
    }

    #[test]
    fn hosts_of_a_name_that_many_have_are_told_apart_by_their_drives() {
        let machine_of = |host: &str, serial: &str| {
            let mut record = record(3);
            record.header.machine.hostname = host.into();
            record.header.machine.disks[0].wwn = None;
            record.header.machine.disks[0].serial = Some(serial.into());
            reduced(&record)[0].machine.clone()
        };
        assert_ne!(machine_of("localhost", "1"), machine_of("localhost", "2"));
        assert_eq!(machine_of("db1", "1"), machine_of("db1", "2"));
        // As many write it, and as a network gives it.
        for same in ["DB1", "db1.example.org", "Db1.Example.ORG.", "db1\n"] {
            assert_eq!(machine_of("db1", "1"), machine_of(same, "2"), "{same}");
        }
        assert_ne!(machine_of("db1", "1"), machine_of("db2", "1"));
        assert_ne!(machine_of("10.0.0.1", "1"), machine_of("10.0.0.2", "1"));
    }

    #[test]
    fn a_simulated_machine_is_its_seed_on_whatever_host_and_day() {
        let simulated = |seed: u64, host: &str| {
            let mut record = record(3);
            let disk = SimulatedDisk {
                model: models().remove(0),
            };
            record.header.plan.target = Target::Simulated(Box::new(disk));
            record.header.plan.seed = seed;
            record.header.machine.hostname = host.into();
            record.header.created_unix_s += host.len() as f64;
            reduced(&record)[0].clone()
        };
        let first = simulated(1, "a");
        let again = simulated(1, "another");
        let other = simulated(2, "a");
        assert_eq!(
            (&first.machine, &first.record),
            (&again.machine, &again.record)
        );
        assert_ne!(first.machine, other.machine);
        assert_ne!(first.record, other.record);
    }

    #[test]
    fn only_a_load_of_ours_is_named() {
        let mut record = record(3);
        let built_in = &BUILT_IN[0];
        record.header.plan.loads[0].spec = Spec::JobFile(built_in.text.into());
        let row = &reduced(&record)[0];
        assert_eq!((&*row.load_class, &*row.load), ("general", "random-read"));
        // The name alone does not make it one.
        record.header.plan.loads[0].spec = Spec::JobFile("[a]\nrw=write\n".into());
        let other = &reduced(&record)[0];
        assert_eq!((&*other.load_class, &*other.load), ("own", "own"));
        assert_ne!(other.fingerprint, row.fingerprint);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        type Spoil = fn(&mut Record);
        let cases: [(&str, Spoil); 5] = [
            ("in the future: 8 days from now", |record| {
                record.header.created_unix_s = NOW + 8.0 * DAY;
            }),
            ("no two arms with 3 rounds", |record| {
                record.entries.truncate(6);
            }),
            ("names no version of Linux, but \"plan9\"", |record| {
                record.header.machine.kernel = "plan9".into();
            }),
            ("it was begun at -5 s since 1970", |record| {
                record.header.created_unix_s = -5.0;
            }),
            ("drives of several models: A, B", |record| {
                let disk = |model: &str| DiskFacts {
                    model: Some(model.into()),
                    ..DiskFacts::default()
                };
                record.header.machine.disks = vec![disk("A"), disk("B")];
            }),
        ];
        for (expected, spoil) in cases {
            let mut record = record(4);
            spoil(&mut record);
            let error = rows(Path::new("r"), &record, &Pseudonyms::new(""), NOW).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(error.hint.is_some());
        }
        let mut record = record(4);
        record.header.created_unix_s = NOW + 0.9 * DAY;
        assert!(!reduced(&record).is_empty(), "clocks differ a little");
    }

    #[test]
    fn settings_that_differ_are_different_arms_however_long_they_are() {
        let long = "é".repeat(300);
        let (one, other) = (arm_text(&long), arm_text(&(long.clone() + "x")));
        assert!(one.len() <= LONGEST_TEXT && one != other, "{one} {other}");
        assert_eq!(&*arm_text("bfq:slice_idle=0"), "bfq:slice_idle=0");
    }

    #[test]
    fn two_arms_that_are_the_same_say_nothing() {
        let mut record = record(4);
        record.header.plan.arms[1] = record.header.plan.arms[0].clone();
        let rows = reduced(&record);
        assert_eq!(rows.len(), 2, "{rows:?}");
    }

    #[test]
    fn a_version_is_its_numbers() {
        for (release, expected) in [
            ("6.12.48-acme1", Some("6.12.48")),
            ("5.10.0-35-amd64", Some("5.10.0")),
            ("3.10.0-1160.el7.x86_64", Some("3.10.0")),
            ("6.18-rc3", Some("6.18")),
            ("6", None),
            ("plan9", None),
            ("", None),
        ] {
            assert_eq!(
                numbers_of_release(release).as_deref(),
                expected,
                "{release}"
            );
        }
    }
}
