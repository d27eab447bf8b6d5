//! From a record to rows: each two arms of each load, round by round.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use iosched_experiment::analysis::RESOLUTION;
use iosched_experiment::load::Spec;
use iosched_experiment::metrics::JobResult;
use iosched_experiment::objective::Objective;
use iosched_experiment::plan::{Plan, PlannedLoad, Target};
use iosched_experiment::record::{Header, Record};
use iosched_experiment::schedule;
use iosched_experiment::trial::Trial;
use iosched_machine::facts::DiskFacts;
use iosched_machine::failure::{Failure, exit};
use iosched_machine::visible;
use iosched_sim::disk::{Model, models};

use crate::digest::sha256;
use crate::drive::tidy;
use crate::load_class::LoadClass;
use crate::row::{LONGEST_TEXT, OWN, P99Counted, Row, Source, Text, numbers_of_release};

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

/// Why a record gives no rows.
#[derive(Debug, thiserror::Error)]
pub enum ReduceError {
    /// No two arms have enough rounds.
    #[error("the record {} has no two arms with {LEAST_ROUNDS} rounds each under one load", path.display())]
    TooShort {
        /// Its directory.
        path: PathBuf,
    },
    /// Its disks are of several models.
    #[error("the record {} is of drives of several models: {}", path.display(), models.join(", "))]
    SeveralModels {
        /// Its directory.
        path: PathBuf,
        /// Which.
        models: Vec<String>,
    },
    /// The kernel's version has no numbers.
    #[error("the record {} names no version of Linux, but {kernel:?}", path.display())]
    Kernel {
        /// Its directory.
        path: PathBuf,
        /// What it names.
        kernel: String,
    },
    /// A number that cannot be.
    #[error("the record {} cannot be of a real run: {cause}", path.display())]
    Impossible {
        /// Its directory.
        path: PathBuf,
        /// Which, and its value.
        cause: String,
    },
    /// One clock was wrong: that of the machine that measured, or this one's.
    #[error("the record {} was begun in the future: {} by the clock here", path.display(), days_from_now(*days))]
    Future {
        /// Its directory.
        path: PathBuf,
        /// From now.
        days: f64,
    },
}

fn days_from_now(days: f64) -> String {
    format!("{days:.0} days from now")
}

impl Failure for ReduceError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            ReduceError::TooShort { .. } => {
                "go on with it: `iosched tune --resume` with a larger --rounds or --budget".into()
            }
            ReduceError::SeveralModels { .. } => {
                "what was found of a mixed array says nothing of one of its models: leave it out"
                    .into()
            }
            ReduceError::Kernel { .. } | ReduceError::Impossible { .. } => {
                "it was damaged or edited: leave it out".into()
            }
            ReduceError::Future { .. } => "if the clock here is wrong, set it right; else that of the machine that measured was: measure again there, or leave it out".into(),
        })
    }

    fn exit_code(&self) -> u8 {
        exit::BAD_RECORD
    }
}

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
) -> Result<Vec<Row>, ReduceError> {
    let header = &record.header;
    let days = (header.created_unix_s - now) / DAY;
    if days > CLOCKS_APART {
        return Err(ReduceError::Future {
            path: path.into(),
            days,
        });
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
        return Err(ReduceError::TooShort { path: path.into() });
    }
    if !matches!(plan.target, Target::Simulated(_)) {
        let mut trials = record.trials();
        if let Some(cause) = trials.find_map(Trial::contradiction) {
            return Err(ReduceError::Impossible {
                path: path.into(),
                cause,
            });
        }
    }
    for row in &rows {
        row.check().map_err(|cause| ReduceError::Impossible {
            path: path.into(),
            cause,
        })?;
    }
    Ok(rows)
}

/// What all rows of a record have in common.
fn of_record(path: &Path, header: &Header, names: &Pseudonyms) -> Result<Row, ReduceError> {
    let plan = &header.plan;
    let drive = Drive::of(path, header)?;
    let kernel = match drive.source {
        Source::Simulated => String::new(),
        Source::Measured | Source::Emulated => {
            let version = numbers_of_release(&header.machine.kernel);
            version.ok_or_else(|| ReduceError::Kernel {
                path: path.into(),
                kernel: header.machine.kernel.clone(),
            })?
        }
    };
    let day = (header.created_unix_s / DAY).floor();
    if !(7305.0..84_006.0).contains(&day) {
        return Err(ReduceError::Impossible {
            path: path.into(),
            cause: format!("it was begun at {} s since 1970", header.created_unix_s),
        });
    }
    #[expect(clippy::cast_possible_truncation, reason = "within the range above")]
    let day = day as i32;
    Ok(Row {
        record: Text::from(&identity(header)[..32]),
        machine: names.of(&machine(header)),
        source: drive.source,
        day,
        program: tidy(&header.program).into(),
        model: drive.model.into(),
        firmware: drive.firmware.into(),
        transport: drive.transport.into(),
        rotational: drive.rotational,
        is_virtual: drive.is_virtual,
        queue_depth: drive.queue_depth,
        kernel: kernel.into(),
        file_system: file_system(plan, header.machine.file_system.as_deref()).into(),
        load_class: "".into(),
        load: "".into(),
        fingerprint: "".into(),
        objective: "".into(),
        arm: "".into(),
        against: "".into(),
        is_baseline: false,
        log_ratio: 0.0,
        standard_error: 0.0,
        rounds: 0,
        p99_ratio: None,
        cpu_ratio: None,
        p99_counted: None,
        p99_count: None,
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
struct Drive {
    source: Source,
    model: String,
    firmware: String,
    transport: String,
    rotational: Option<bool>,
    is_virtual: bool,
    queue_depth: Option<i32>,
}

impl Drive {
    fn of(path: &Path, header: &Header) -> Result<Drive, ReduceError> {
        let plan = &header.plan;
        if let Target::Simulated(disk) = &plan.target {
            return Ok(Drive::of_model(Source::Simulated, Some(&disk.model)));
        }
        if let Some(described) = &plan.emulated {
            // With its name alone it is as it comes; what a user changed stands behind that.
            let known = models().into_iter().find(|model| model.name == *described);
            let made = plan.own_disk.as_ref().map(|own| &own.model);
            let known = known.filter(|known| made.is_none_or(|made| made == known));
            return Ok(Drive::of_model(Source::Emulated, known.as_ref().or(made)));
        }
        let disks = &header.machine.disks;
        let model_of = |disk: &DiskFacts| tidy(disk.model.as_deref().unwrap_or_default());
        let mut models: Vec<String> = disks.iter().map(model_of).collect();
        models.dedup();
        if models.len() > 1 {
            return Err(ReduceError::SeveralModels {
                path: path.into(),
                models,
            });
        }
        let nobody = DiskFacts::default();
        let first = disks.first().unwrap_or(&nobody);
        let model = models.pop().unwrap_or_default();
        let of_several = |text: String| match disks.len() {
            0 | 1 => text,
            _ if text.is_empty() => text,
            several => format!("{several} x {text}"),
        };
        let transport = first
            .transport
            .clone()
            .unwrap_or_else(|| transport_of(&first.device).into());
        Ok(Drive {
            source: Source::Measured,
            model: of_several(model),
            firmware: tidy(first.firmware.as_deref().unwrap_or_default()),
            transport: match disks.len() {
                0 | 1 => transport,
                _ => format!("{transport}-array"),
            },
            rotational: first
                .queue
                .get("rotational")
                .and_then(|value| match value.trim() {
                    "0" => Some(false),
                    "1" => Some(true),
                    // Of what says neither nothing is known.
                    _ => None,
                }),
            is_virtual: first.is_virtual.unwrap_or_else(|| {
                ["vd", "xvd"]
                    .iter()
                    .any(|name| first.device.starts_with(name))
            }),
            queue_depth: first
                .queue_depth
                .and_then(|depth| i32::try_from(depth).ok()),
        })
    }

    /// A disk model; what a user changed or made himself has no name.
    fn of_model(source: Source, model: Option<&Model>) -> Drive {
        let known = model.filter(|model| models().iter().any(|known| known == *model));
        Drive {
            source,
            model: known.map_or(String::new(), |model| model.name.clone()),
            firmware: String::new(),
            transport: source.name().into(),
            rotational: model.map(Model::rotational),
            is_virtual: false,
            queue_depth: model.and_then(|model| i32::try_from(model.queue_depth()).ok()),
        }
    }
}

/// How a drive is attached, by the name that the kernel gave it: for records that do not say.
fn transport_of(device: &str) -> &'static str {
    let known = [
        ("nvme", "nvme"),
        ("vd", "virtio"),
        ("xvd", "xen"),
        ("mmcblk", "mmc"),
    ];
    let known = known.iter().find(|(prefix, _)| device.starts_with(prefix));
    known.map_or("-", |(_, transport)| transport)
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
    let pairs = compare(
        &table(objective),
        objective.higher_is_better(),
        plan.baseline,
    );
    let latencies = table(Objective::P99);
    let processors = table(Objective::Cpu);
    let counted = p99_counted(record, load);
    let counts: Vec<Option<u64>> = (0..plan.arms.len())
        .map(|arm| trials_of(record, load).filter(move |trial| trial.slot.arm == arm))
        .map(|trials| trials.map(latencies_counted).min())
        .collect();
    let fewest = |pair: &Pair| {
        let fewest = counts[pair.arm]?.min(counts[pair.against]?);
        i32::try_from(fewest).ok().filter(|&count| count > 0)
    };
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
            p99_counted: counted,
            p99_count: fewest(&pair),
            ..common.clone()
        })
        .collect()
}

fn trials_of(record: &Record, load: usize) -> impl Iterator<Item = &Trial> {
    record.trials().filter(move |trial| trial.slot.load == load)
}

/// Which latencies the p99 of a load's trials is of; none where they have none.
fn p99_counted(record: &Record, load: usize) -> Option<P99Counted> {
    let is_simulated = matches!(record.header.plan.target, Target::Simulated(_));
    let of_trial = |trial: &Trial| {
        let mut jobs = trial.jobs.iter();
        if jobs.any(|job| job.transactions.is_some()) {
            P99Counted::Transactions
        } else if is_simulated || trial.counted_s.is_some() {
            P99Counted::Completed
        } else {
            P99Counted::All
        }
    };
    let trials = trials_of(record, load).filter(|trial| latencies_counted(trial) > 0);
    let mut found = trials.map(of_trial);
    let first = found.next()?;
    let is_one = found.all(|it| it == first);
    Some(if is_one { first } else { P99Counted::Mixed })
}

/// How many latencies the percentiles of a trial are of.
fn latencies_counted(trial: &Trial) -> u64 {
    let flows = trial.jobs.iter().flat_map(JobResult::flows);
    let bins = flows.flat_map(|flow| &flow.latency_bins);
    bins.map(|(_, count)| count).sum()
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
    use iosched_experiment::record::Entry;
    use iosched_experiment::trial::{Flow, JobResult, Latency, Slot};
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
        let of = |arm: &str, against: &str| {
            let row = rows
                .iter()
                .find(|row| &*row.arm == arm && &*row.against == against);
            row.unwrap_or_else(|| panic!("{arm} {against}: {rows:?}"))
        };
        assert_eq!(rows.len(), 3);
        for (arm, against, ratio) in [
            ("mq-deadline", "none", 2.0_f64),
            ("kyber", "none", 0.5),
            ("mq-deadline", "kyber", 4.0),
        ] {
            let row = of(arm, against);
            assert!((row.log_ratio - ratio.ln()).abs() < 0.02, "{row:?}");
            assert!(
                row.standard_error > 0.002 && row.standard_error < 0.02,
                "{row:?}"
            );
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
        let private = [
            "db1", "example", "ZFN0", "5000c5", "alice", "secret", "acme", "sda",
        ];
        record.header.plan.loads[0].name = "alice-secret".into();
        let text = serde_json::to_string(&reduced(&record)).unwrap();
        for word in private {
            assert!(
                !text.to_lowercase().contains(&word.to_lowercase()),
                "{word}: {text}"
            );
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
        assert_ne!(machine_of("db1", "1"), machine_of("db2.example.org", "1"));
        assert_ne!(machine_of("10.0.0.1", "1"), machine_of("10.0.0.2", "1"));
        let shared = machine_of("localhost.localdomain", "1");
        assert_ne!(shared, machine_of("localhost.localdomain", "2"));
        assert_eq!(shared, machine_of("LOCALHOST", "1"));
    }

    #[test]
    fn a_row_says_which_latencies_its_p99_is_of_and_of_how_many() {
        type Change = fn(&mut Trial);
        let flow = |count: u64| Flow {
            ios: count,
            bytes: 4096 * count,
            bytes_per_s: 4e6,
            iops: 1000.0,
            latency_mean_ns: 1e6,
            latency_max_ns: 2_000_000,
            latency_bins: vec![(1_000_000, count - 1), (2_000_000, 1)],
        };
        let counted = |change: Change| {
            let mut record = record(4);
            for entry in &mut record.entries {
                let Entry::Trial(trial) = entry else { continue };
                let count = 500 + 100 * trial.slot.arm as u64 + u64::from(trial.slot.round);
                trial.jobs = vec![JobResult {
                    name: "a".into(),
                    read: Some(flow(count)),
                    write: Some(flow(count)),
                    trim: None,
                    transactions: None,
                }];
                change(trial);
            }
            let common = of_record(Path::new("r"), &record.header, &Pseudonyms::new("key"));
            let rows = of_load(&record, 0, &common.unwrap());
            let of = |row: &Row| (row.p99_counted, row.p99_count);
            (of(&rows[0]), of(&rows[2]))
        };
        let all = Some(P99Counted::All);
        assert_eq!(counted(|_| ()), ((all, Some(1000)), (all, Some(1200))));
        let ways: [(Change, P99Counted); 3] = [
            (|trial| trial.counted_s = Some(9.0), P99Counted::Completed),
            (
                |trial| trial.counted_s = (trial.slot.round > 0).then_some(9.0),
                P99Counted::Mixed,
            ),
            (
                |trial| trial.jobs[0].transactions = trial.jobs[0].read.take(),
                P99Counted::Transactions,
            ),
        ];
        for (change, expected) in ways {
            assert_eq!(counted(change).0.0, Some(expected));
        }
        assert_eq!(counted(|trial| trial.jobs.clear()).0, (None, None));
    }

    #[test]
    fn a_drive_that_does_not_say_whether_it_rotates_is_neither() {
        let rotational_of = |value: &str| {
            let mut record = record(3);
            let queue = &mut record.header.machine.disks[0].queue;
            queue.insert("rotational".into(), value.into());
            reduced(&record)[0].rotational
        };
        let found = ["0", "1\n", "", "banana", "2"].map(rotational_of);
        assert_eq!(found, [Some(false), Some(true), None, None, None]);
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
            assert!(error.hint().is_some());
        }
        let mut record = record(4);
        record.header.created_unix_s = NOW + 0.9 * DAY;
        assert!(!reduced(&record).is_empty(), "clocks differ a little");
    }

    #[test]
    fn settings_that_differ_are_different_arms_however_long_they_are() {
        for tunables in [4, 30] {
            let mut record = record(4);
            for (number, last) in ["1", "2"].into_iter().enumerate() {
                let all = (0..tunables).map(|tunable| format!("long_tunable_{tunable}"));
                let all = all.chain(["slice_idle".to_owned()]);
                record.header.plan.arms[number].tunables =
                    all.map(|name| (name, last.to_owned())).collect();
            }
            let rows = reduced(&record);
            let arms: std::collections::BTreeSet<&str> = rows
                .iter()
                .flat_map(|row| [&*row.arm, &*row.against])
                .collect();
            assert_eq!((rows.len(), arms.len()), (3, 3), "{arms:?}");
            let is_whole = |arm: &&&str| arm.contains("slice_idle=");
            assert_eq!(
                arms.iter().filter(is_whole).count() == 2,
                tunables == 4,
                "{arms:?}"
            );
        }
        // No more than the column takes, between characters.
        let long = "é".repeat(300);
        assert!(
            arm_text(&long).len() <= LONGEST_TEXT
                && arm_text(&long) != arm_text(&(long.clone() + "x"))
        );
    }

    #[test]
    fn a_host_whose_numbers_are_not_those_of_its_load_is_refused() {
        type Spoil = fn(&mut Trial);
        let flow = |bytes_per_s: f64| Flow {
            ios: 100,
            bytes: 400_000,
            bytes_per_s,
            iops: 100.0,
            latency_mean_ns: 1e6,
            latency_max_ns: 2_000_000,
            latency_bins: vec![(1_000_000, 100)],
        };
        let cases: [(Option<&str>, Spoil); 4] = [
            (None, |_| ()),
            (Some("throughput is 1.0e-6 times"), |trial| {
                trial.metrics.throughput_bytes_per_s /= 1e6;
            }),
            (Some("iops is"), |trial| trial.metrics.iops = 1e5),
            (Some("p99 is"), |trial| {
                trial.metrics.all.as_mut().unwrap().p99_ns *= 1e3;
            }),
        ];
        for (expected, spoil) in cases {
            let mut record = record(4);
            for entry in &mut record.entries {
                let Entry::Trial(trial) = entry else { continue };
                let throughput = trial.metrics.throughput_bytes_per_s;
                trial.jobs = vec![JobResult {
                    name: "a".into(),
                    read: Some(flow(throughput)),
                    write: None,
                    trim: None,
                    transactions: None,
                }];
                trial.metrics.iops = 100.0;
                trial.metrics.all = Some(Latency {
                    mean_ns: 1e6,
                    p50_ns: 1e6,
                    p99_ns: 1e6,
                    p999_ns: 1e6,
                    max_ns: 2e6,
                });
                spoil(trial);
            }
            let found = rows(Path::new("r"), &record, &Pseudonyms::new("key"), NOW);
            match expected {
                None => assert!(found.is_ok(), "{found:?}"),
                Some(expected) => {
                    let error = found.unwrap_err().to_string();
                    assert!(error.contains(expected), "{error}");
                }
            }
        }
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

    #[test]
    fn a_trial_of_the_fixture_counts() {
        assert!(matches!(record(1).entries[0], Entry::Trial(_)));
    }
}
