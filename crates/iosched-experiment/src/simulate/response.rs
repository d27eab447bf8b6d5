//! A drive's measured response times, beside those of a model that is given the same commands.
//!
//! The recordings are those of DiskSim's validation set, a command per line: `R|W Hit|Miss first-block
//! blocks response-µs pause-µs`. One command at a time was in the drive; the pause is from the end of
//! a command to the arrival of the next (arrivals closer than the response before them show it). So
//! the model is given each command the pause after its own answer to the one before, without a
//! scheduler between.
//!
//! The distance is that of Ruemmler and Wilkes (1994): the root of the mean squared horizontal
//! distance between the two cumulative distributions, at every ten-thousandth of the commands, as
//! DiskSim's own comparison takes it.

use std::path::{Path, PathBuf};

use iosched_machine::failure::{Failure, Problem, exit};
use iosched_sim::disk::{Command, DiskOp, Model, ModelOptions};
use iosched_sim::units::{Bytes, Nanos, Sector, Sectors, Time};
use serde::Serialize;

use super::file::{FileError, Lines};

/// Longest response or pause that a recording may have, in microseconds.
const LONGEST_US: f64 = 1e9;

/// Steps in which the distributions are compared.
const STEPS: u32 = 10_000;

/// Why a recording cannot be compared.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ResponseError {
    #[error(transparent)]
    Disk(#[from] Problem),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        path: PathBuf,
        line: u64,
        what: String,
    },
    #[error("{} holds no command", path.display())]
    Empty { path: PathBuf },
}

impl Failure for ResponseError {
    iosched_machine::passes_on!(ResponseError: File);

    fn hint(&self) -> Option<String> {
        match self {
            ResponseError::Line { .. } => {
                let form =
                    "a line is: R or W, Hit or Miss, first block, blocks, response and pause in µs";
                Some(form.to_owned())
            }
            _ => self.passes_on()?.hint(),
        }
    }

    fn exit_code(&self) -> u8 {
        self.passes_on().map_or(exit::USAGE, Failure::exit_code)
    }
}

/// Response times of some commands, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Responses {
    /// Mean.
    pub mean_ms: f64,
    /// Half are shorter.
    pub p50_ms: f64,
    /// 95 of 100 are shorter.
    pub p95_ms: f64,
    /// 99 of 100 are shorter.
    pub p99_ms: f64,
}

/// Measured and simulated response times of the same commands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// How many commands.
    pub commands: usize,
    /// Distance of the two distributions.
    pub rms_ms: f64,
    /// The distance as a share of the measured mean.
    pub rms_per_mean: f64,
    /// What the drive took.
    pub measured: Responses,
    /// What the model took.
    pub simulated: Responses,
}

/// A recording and a model.
#[derive(Debug, Clone, Serialize)]
pub struct ResponseCheck {
    /// The recording.
    pub trace: String,
    /// The model.
    pub disk: String,
    /// Its size.
    pub disk_bytes: u64,
    /// All commands.
    pub all: Comparison,
    /// The reads, if there are any.
    pub reads: Option<Comparison>,
    /// The writes, if there are any.
    pub writes: Option<Comparison>,
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Recorded {
    op: DiskOp,
    start: Sector,
    length: Sectors,
    response: Nanos,
    pause: Nanos,
}

/// Gives a model the recorded commands and compares its times with the recorded ones.
pub fn check(
    model: &Model,
    options: &ModelOptions,
    trace: &Path,
) -> Result<ResponseCheck, ResponseError> {
    let mut disk = model.build(options)?;
    let recorded = read(trace, disk.capacity())?;
    let simulated = replay(disk.as_mut(), &recorded);
    let pairs = |wanted: fn(DiskOp) -> bool| {
        let pairs = recorded.iter().zip(&simulated);
        let chosen = pairs.filter(|(recorded, _)| wanted(recorded.op));
        chosen
            .map(|(recorded, time)| (recorded.response, *time))
            .collect::<Vec<_>>()
    };
    let all = Comparison::of(&pairs(|_| true)).ok_or_else(|| ResponseError::Empty {
        path: trace.to_owned(),
    })?;
    Ok(ResponseCheck {
        trace: trace.display().to_string(),
        disk: model.name.clone(),
        disk_bytes: disk.capacity().to_bytes().as_u64(),
        all,
        reads: Comparison::of(&pairs(|op| op == DiskOp::Read)),
        writes: Comparison::of(&pairs(|op| op == DiskOp::Write)),
    })
}

fn read(path: &Path, capacity: Sectors) -> Result<Vec<Recorded>, ResponseError> {
    let mut lines = Lines::open(path)?;
    let mut recorded = Vec::new();
    let mut number = 0;
    while let Some(line) = lines.next_line()? {
        number += 1;
        if line.trim().is_empty() {
            continue;
        }
        let parsed = parse(line).and_then(|command| {
            let end = command.start + command.length;
            let disk_end = Sector::ZERO + capacity;
            let fits = end <= disk_end;
            fits.then_some(command).ok_or_else(|| {
                let (end, disk) = (end.as_u64(), disk_end.as_u64());
                format!("the command ends at block {end}, the disk at {disk}")
            })
        });
        recorded.push(parsed.map_err(|what| ResponseError::Line {
            path: path.to_owned(),
            line: number,
            what,
        })?);
    }
    Ok(recorded)
}

fn parse(line: &str) -> Result<Recorded, String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [op, _hit, start, length, response, pause] = fields.as_slice() else {
        return Err(format!("{} fields where there are six", fields.len()));
    };
    let op = match *op {
        "R" => DiskOp::Read,
        "W" => DiskOp::Write,
        other => return Err(format!("`{other}` is neither R nor W")),
    };
    let block = |text: &str| {
        let number = text.parse::<u32>().ok();
        number.ok_or_else(|| format!("`{text}` is no number of blocks"))
    };
    let time = |text: &str| {
        let micros = text.parse::<f64>().ok();
        let micros = micros.filter(|micros| (0.0..=LONGEST_US).contains(micros));
        micros
            .map(|micros| Nanos::from_millis_f64(micros / 1e3))
            .ok_or_else(|| format!("`{text}` is no time in microseconds"))
    };
    let length = block(length)?;
    if length == 0 {
        return Err("a command of no blocks".to_owned());
    }
    Ok(Recorded {
        op,
        start: Sector::new(u64::from(block(start)?)),
        length: Sectors::new(u64::from(length)),
        response: time(response)?,
        pause: time(pause)?,
    })
}

/// The model's response times.
fn replay(disk: &mut dyn iosched_sim::disk::DiskModel, recorded: &[Recorded]) -> Vec<Nanos> {
    let mut arrives = Time::ZERO;
    let mut completed = Vec::new();
    let mut times = Vec::with_capacity(recorded.len());
    for (tag, command) in (0_u64..).zip(recorded) {
        while let Some(event) = disk.next_event().filter(|&event| event < arrives) {
            disk.advance(event, &mut completed);
        }
        disk.submit(
            arrives,
            Command {
                tag,
                op: command.op,
                start: command.start,
                length: command.length,
                fua: false,
            },
        );
        while completed.is_empty() {
            let event = disk.next_event().expect("a command is in the drive");
            disk.advance(event.max(arrives), &mut completed);
        }
        let done = completed.pop().expect("just seen").time;
        times.push(done - arrives);
        arrives = done + command.pause;
    }
    times
}

impl Comparison {
    /// Of (measured, simulated) pairs; `None` if there are none.
    fn of(pairs: &[(Nanos, Nanos)]) -> Option<Comparison> {
        if pairs.is_empty() {
            return None;
        }
        let sorted = |times: &mut dyn Iterator<Item = Nanos>| {
            let mut times: Vec<f64> = times.map(Nanos::as_millis_f64).collect();
            times.sort_unstable_by(f64::total_cmp);
            times
        };
        let measured = sorted(&mut pairs.iter().map(|pair| pair.0));
        let simulated = sorted(&mut pairs.iter().map(|pair| pair.1));
        let squares: f64 = (1..=STEPS)
            .map(|step| {
                let share = f64::from(step) / f64::from(STEPS);
                (quantile(&measured, share) - quantile(&simulated, share)).powi(2)
            })
            .sum();
        let rms_ms = (squares / f64::from(STEPS)).sqrt();
        let measured = Responses::of(&measured);
        Some(Comparison {
            commands: pairs.len(),
            rms_ms,
            rms_per_mean: rms_ms / measured.mean_ms.max(1e-6),
            measured,
            simulated: Responses::of(&simulated),
        })
    }
}

impl Responses {
    fn of(sorted: &[f64]) -> Responses {
        Responses {
            mean_ms: sorted.iter().sum::<f64>() / sorted.len() as f64,
            p50_ms: quantile(sorted, 0.5),
            p95_ms: quantile(sorted, 0.95),
            p99_ms: quantile(sorted, 0.99),
        }
    }
}

/// Linear between neighbours.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index"
)]
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let below = position as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * position.fract()
}

/// For people: a line per kind of command and origin.
pub fn text(check: &ResponseCheck) -> String {
    use std::fmt::Write as _;

    let mut text = format!(
        "{} on {} of {}\n\n{:<17}{:>9}{:>9}{:>8}{:>9}{:>9}{:>9}{:>9}\n",
        check.trace,
        check.disk,
        Bytes::new(check.disk_bytes),
        "ms",
        "commands",
        "rms",
        "of mean",
        "mean",
        "p50",
        "p95",
        "p99"
    );
    let kinds = [
        ("all", Some(&check.all)),
        ("reads", check.reads.as_ref()),
        ("writes", check.writes.as_ref()),
    ];
    let numbers = |of: &Responses| {
        let columns = [of.mean_ms, of.p50_ms, of.p95_ms, of.p99_ms];
        columns.map(|ms| format!("{ms:9.3}")).concat()
    };
    for (kind, compared) in kinds {
        let Some(compared) = compared else {
            continue;
        };
        let measured = numbers(&compared.measured);
        let _ = writeln!(
            text,
            "{kind:<7}{:<10}{:>9}{:17}{measured}",
            "measured", compared.commands, ""
        );
        let (rms, share) = (compared.rms_ms, compared.rms_per_mean * 100.0);
        let simulated = numbers(&compared.simulated);
        let _ = writeln!(
            text,
            "{:<7}{:<19}{rms:9.3}{share:6.1} %{simulated}",
            "", "simulated"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_with_its_time_and_the_pause_after_it() {
        let line = parse("R Hit    3962268  12   6657.00000  64047.00000").unwrap();
        let expected = Recorded {
            op: DiskOp::Read,
            start: Sector::new(3_962_268),
            length: Sectors::new(12),
            response: Nanos::from_micros(6_657),
            pause: Nanos::from_micros(64_047),
        };
        assert_eq!(line, expected);
    }

    #[test]
    fn what_is_no_command_is_refused_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let model = Model::named("hdd-10k").unwrap();
        let message = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let failed = check(&model, &ModelOptions::default(), &path).unwrap_err();
            failed.to_string().replace(path.to_str().unwrap(), "t")
        };
        assert_eq!(
            message("R Hit 0 8 1 1\nR Hit 8 8\n"),
            "t, line 2: 4 fields where there are six"
        );
        assert_eq!(
            message("X Hit 0 8 1 1\n"),
            "t, line 1: `X` is neither R nor W"
        );
        assert_eq!(
            message("R Hit 0 0 1 1\n"),
            "t, line 1: a command of no blocks"
        );
        assert_eq!(
            message("R Hit 0 8 nan 1\n"),
            "t, line 1: `nan` is no time in microseconds"
        );
        assert_eq!(message("\n"), "t holds no command");
        let beyond = "t, line 1: the command ends at block 17783241, the disk at 17783240";
        assert_eq!(message("R Hit 17783240 1 1 1\n"), beyond);
    }

    #[test]
    fn the_distance_of_two_distributions_is_their_shift() {
        let times = |shift: u64| (0..100).map(move |index| Nanos::from_micros(index * 100 + shift));
        let pairs: Vec<_> = times(0).zip(times(250).rev()).collect();
        let compared = Comparison::of(&pairs).unwrap();
        assert!((compared.rms_ms - 0.25).abs() < 1e-9, "{compared:?}");
        assert!(
            (compared.measured.p50_ms - 4.95).abs() < 1e-9,
            "{compared:?}"
        );
        assert!(
            (compared.simulated.mean_ms - 5.2).abs() < 1e-9,
            "{compared:?}"
        );
    }

    #[test]
    fn a_fixed_disk_takes_its_time_whatever_the_pauses() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(
            &path,
            "R Hit 0 8 1000 0\nW Miss 80 8 3000 7\nR Hit 8 8 1000 1\n",
        )
        .unwrap();
        let model = Model::named("fixed").unwrap();
        let checked = check(&model, &ModelOptions::default(), &path).unwrap();
        assert!((checked.all.simulated.p99_ms - 1.0).abs() < 1e-9);
        assert!(checked.reads.unwrap().rms_ms.abs() < 1e-9);
        assert!((checked.writes.unwrap().rms_ms - 2.0).abs() < 1e-9);
        assert!(
            text(&checked).contains("writes measured          1"),
            "{}",
            text(&checked)
        );
        assert!(
            text(&checked)
                .replace(path.to_str().unwrap(), "t")
                .lines()
                .all(|line| line.chars().count() <= 80)
        );
    }
}
