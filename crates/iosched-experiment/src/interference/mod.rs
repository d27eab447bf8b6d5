//! What else happened on the machine while a load ran, and whether its trial still counts.
//!
//! - `watch`: looks on while a load runs; `state`: at what decides how fast a disk is
//! - here: what was seen, as the record keeps it; [`Tolerance`], and the judgement, which is pure
//!
//! What is not seen here is in docs/statistics.md: who shares a disk from another machine, or from another guest of the
//! same host.

mod state;
mod watch;

use serde::{Deserialize, Serialize};

use crate::measure::Measured;

pub(crate) use state::Change;
pub(crate) use watch::Watch;

/// What others did during a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Interference {
    /// I/O of other programs on the disks of the target; none where the kernel does not tell whose it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<ForeignIo>,
    /// Who used the processors most, beside the load: shares of one processor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<Other>,
    /// A process of the load, or a server of an emulated disk, that somebody stopped (`SIGSTOP`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Other>,
    /// Processor time that the hypervisor gave to others, ns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steal_ns: u64,
    /// Time in which at least one task waited for memory (PSI `some`), ns; none where it is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_pressure_ns: Option<u64>,
    /// Pages that were swapped in or out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub swapped_pages: u64,
    /// Times that a processor was slowed because it was hot.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled: u64,
}

/// I/O of others on the disks of the target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ForeignIo {
    /// Share of the disk's time that other programs had: its utilisation, times their share of I/Os or of bytes, whichever
    /// is larger.
    pub share: f64,
    /// Bios that they submitted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ios: u64,
    /// Bytes that they read or wrote.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// The same of the kernel's threads, which write back and keep journals: for whom is not known.
    #[serde(default, skip_serializing_if = "is_none_of")]
    pub kernel_share: f64,
    /// Which programs, the most first; at most three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<Other>,
}

/// A program that is not the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Other {
    /// Its process.
    pub pid: u32,
    /// What it is called.
    pub command: String,
    /// How many processes of that name there were, where there were more than that one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub processes: u32,
    /// What it had of the disk's time, or of a processor.
    pub share: f64,
}

impl Other {
    fn of(pid: u32, command: &str) -> Other {
        Other {
            pid,
            command: command.to_owned(),
            processes: 1,
            share: 0.0,
        }
    }

    /// `dd (pid 7)`, `dd (pid 7 and 2 more)`.
    fn named(&self) -> String {
        let Other { command, pid, .. } = self;
        match self.processes {
            0 | 1 => format!("{command} (pid {pid})"),
            many => format!("{command} (pid {pid} and {} more)", many - 1),
        }
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_none_of(share: &f64) -> bool {
    *share == 0.0
}

/// Up to what a trial counts: shares, 0 to 1. By default only what others do on the disk voids a trial: processors, the
/// hypervisor and memory are told of, and void none unless the user says up to what he tolerates them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// Of the disk's time, for the I/O of other programs.
    pub io: f64,
    /// Of the machine's processors, for other programs.
    pub cpu: f64,
    /// Of the machine's processors, for what the hypervisor gives to others.
    pub steal: f64,
    /// Of the trial's time, in which something waited for memory.
    pub memory: f64,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance {
            io: 0.02,
            cpu: 1.0,
            steal: 1.0,
            memory: 1.0,
        }
    }
}

impl Tolerance {
    /// The same with what `text` says of one of them: `io=5%`, `cpu=0.2`, `steal=off`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn with(self, text: &str) -> Result<Tolerance, String> {
        let syntax = || {
            format!(
                "`{text}` is not of the form io=5%: one of io, cpu, steal, memory, and 0% to 100%, or off"
            )
        };
        let (what, share) = text.split_once('=').ok_or_else(syntax)?;
        let share = match share.strip_suffix('%') {
            _ if share == "off" => 1.0,
            Some(percent) => percent.parse::<f64>().map_err(|_| syntax())? / 100.0,
            None => share.parse().map_err(|_| syntax())?,
        };
        if !(0.0..=1.0).contains(&share) {
            return Err(syntax());
        }
        let mut tolerance = self;
        match what {
            "io" => tolerance.io = share,
            "cpu" => tolerance.cpu = share,
            "steal" => tolerance.steal = share,
            "memory" => tolerance.memory = share,
            _ => return Err(syntax()),
        }
        Ok(tolerance)
    }
}

/// Something that a trial does not count for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbance {
    /// What was disturbed, as in [`Tolerance`], or `stopped`.
    pub what: String,
    /// How much others had, in millionths of what [`Tolerance`] is a share of.
    pub share_ppm: u64,
    /// Who it was: commands with their processes, where that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
}

impl std::fmt::Display for Disturbance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = self.share_ppm as f64 / 1e4;
        let by = if self.by.is_empty() {
            "others".to_owned()
        } else {
            self.by.join(", ")
        };
        match self.what.as_str() {
            "stopped" => write!(f, "somebody stopped {by}"),
            "io" => write!(f, "{by} had {percent:.1} % of the disk's time"),
            "cpu" => write!(f, "{by} used {percent:.0} % of the processors"),
            "steal" => write!(
                f,
                "the hypervisor gave {percent:.0} % of the processors to others"
            ),
            _ => write!(f, "memory was short for {percent:.0} % of the time"),
        }
    }
}

impl Interference {
    /// What a trial of so many ns, on so many processors, does not count for, if anything.
    pub(crate) fn beyond(
        &self,
        tolerance: &Tolerance,
        others_cpu_ns: Option<u64>,
        elapsed_ns: u64,
        processors: usize,
    ) -> Option<Disturbance> {
        if let Some(stopped) = &self.stopped {
            return Some(Disturbance {
                what: "stopped".into(),
                share_ppm: 1_000_000,
                by: vec![stopped.named()],
            });
        }
        let elapsed = elapsed_ns.max(1) as f64;
        let of_processors = |ns: u64| ns as f64 / elapsed / processors.max(1) as f64;
        let names = |others: &[Other]| others.iter().map(Other::named).collect::<Vec<_>>();
        let io = self.io.as_ref();
        let found = [
            (
                "io",
                io.map_or(0.0, |io| io.share),
                tolerance.io,
                io.map_or_else(Vec::new, |io| names(&io.by)),
            ),
            (
                "cpu",
                of_processors(others_cpu_ns.unwrap_or(0)),
                tolerance.cpu,
                names(&self.processors),
            ),
            (
                "steal",
                of_processors(self.steal_ns),
                tolerance.steal,
                Vec::new(),
            ),
            (
                "memory",
                self.memory_pressure_ns.unwrap_or(0) as f64 / elapsed,
                tolerance.memory,
                Vec::new(),
            ),
        ];
        let mut beyond = found
            .into_iter()
            .filter(|(_, share, most, _)| *most < 1.0 && share > most);
        let (what, share, _, by) = beyond.next()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share, in millionths"
        )]
        let share_ppm = (share * 1e6) as u64;
        Some(Disturbance {
            what: what.to_owned(),
            share_ppm,
            by,
        })
    }
}

impl ForeignIo {
    /// What these had of the disks, while these did all that was counted.
    fn of(submitters: &[iosched_machine::capture::Submitter], measured: &Measured) -> ForeignIo {
        let all_bytes = (measured.read_bytes + measured.write_bytes).max(1) as f64;
        let all_ios =
            (measured.reads + measured.writes + measured.reads_merged + measured.writes_merged)
                .max(1) as f64;
        let share = |ios: u64, bytes: u64| {
            let part = (ios as f64 / all_ios)
                .max(bytes as f64 / all_bytes)
                .min(1.0);
            part * measured.utilisation
        };
        let sum = |is_kernel: bool| -> (u64, u64) {
            let all = submitters.iter().filter(|one| one.is_kernel == is_kernel);
            all.fold((0, 0), |(ios, bytes), one| {
                (ios + one.ios, bytes + one.read_bytes + one.write_bytes)
            })
        };
        let (ios, bytes) = sum(false);
        let (of_kernel, bytes_of_kernel) = sum(true);
        // A program that is started again and again is one.
        let mut programs: Vec<(Other, u64, u64)> = Vec::new();
        for one in submitters.iter().filter(|one| !one.is_kernel) {
            let bytes = one.read_bytes + one.write_bytes;
            match programs
                .iter_mut()
                .find(|(known, _, _)| known.command == one.command)
            {
                Some((known, ios_of, bytes_of)) => {
                    known.processes += 1;
                    *ios_of += one.ios;
                    *bytes_of += bytes;
                }
                None => programs.push((Other::of(one.pid, &one.command), one.ios, bytes)),
            }
        }
        for (other, ios, bytes) in &mut programs {
            other.share = share(*ios, *bytes);
        }
        programs.sort_by(|a, b| b.0.share.total_cmp(&a.0.share));
        ForeignIo {
            share: share(ios, bytes),
            ios,
            bytes,
            kernel_share: share(of_kernel, bytes_of_kernel),
            by: programs
                .into_iter()
                .take(3)
                .map(|(other, _, _)| other)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_machine::capture::Submitter;

    #[test]
    fn the_share_of_others_is_of_the_time_in_which_the_disk_was_busy() {
        let measured = Measured {
            reads: 80,
            reads_merged: 20,
            read_bytes: 1_000_000,
            utilisation: 0.5,
            ..Measured::default()
        };
        let submitter = |command: &str, is_kernel: bool, ios: u64, read_bytes: u64| Submitter {
            command: command.into(),
            is_kernel,
            ios,
            read_bytes,
            ..Submitter::default()
        };
        let all = [
            submitter("dd", false, 10, 400_000),
            submitter("kworker/0:1", true, 20, 0),
            submitter("updatedb", false, 20, 0),
        ];
        let foreign = ForeignIo::of(&all, &measured);
        assert!((foreign.share - 0.5 * 0.4).abs() < 1e-9, "{foreign:?}");
        assert!(
            (foreign.kernel_share - 0.5 * 0.2).abs() < 1e-9,
            "{foreign:?}"
        );
        assert_eq!(foreign.by.len(), 2);
        assert!(
            (foreign.by[1].share - 0.5 * 0.2).abs() < 1e-9,
            "{foreign:?}"
        );
        let seen = Interference {
            io: Some(foreign),
            ..Interference::default()
        };
        let beyond = |tolerance: Tolerance| seen.beyond(&tolerance, None, 1_000_000_000, 2);
        let found = beyond(Tolerance::default()).unwrap();
        assert_eq!(
            found.to_string(),
            "dd (pid 0), updatedb (pid 0) had 20.0 % of the disk's time"
        );
        assert_eq!(beyond(Tolerance::default().with("io=21%").unwrap()), None);
        assert_eq!(beyond(Tolerance::default().with("io=off").unwrap()), None);
    }

    #[test]
    fn processors_are_told_and_tolerated_unless_the_user_says_how_many() {
        let seen = Interference {
            steal_ns: 100_000_000,
            ..Interference::default()
        };
        let beyond =
            |tolerance: Tolerance| seen.beyond(&tolerance, Some(1_800_000_000), 1_000_000_000, 2);
        assert_eq!(beyond(Tolerance::default()), None);
        let found = beyond(Tolerance::default().with("cpu=50%").unwrap()).unwrap();
        assert_eq!(found.to_string(), "others used 90 % of the processors");
        let found = beyond(Tolerance::default().with("steal=0.04").unwrap()).unwrap();
        assert_eq!(
            found.to_string(),
            "the hypervisor gave 5 % of the processors to others"
        );
        for wrong in ["io", "io=", "disk=2%", "io=200%", "io=-1"] {
            assert!(Tolerance::default().with(wrong).is_err(), "{wrong}");
        }
    }
}
