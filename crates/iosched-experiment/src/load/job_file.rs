//! A fio job file as a load.

use std::time::Duration;

use iosched_machine::failure::Problem;

use super::fio::{self, Running};
use super::fio_job::{JobFile, JobTarget, TrialSettings, refusal};
use super::{Kept, Load, LoadError, Outcome, TrialInfo, Workplace};
use crate::objective::Objective;

/// Run time of a trial where neither the user nor the job file says.
const DEFAULT_RUNTIME: Duration = Duration::from_secs(10);

/// A job file, and fio to run it.
#[derive(Debug)]
pub(super) struct FioLoad {
    name: String,
    file: JobFile,
}

impl FioLoad {
    /// Reads and checks the job file. `name` is what errors call it.
    pub(super) fn new(name: &str, text: &str) -> Result<FioLoad, Problem> {
        Ok(FioLoad {
            name: name.into(),
            file: JobFile::parse(name, text)?,
        })
    }
}

/// What the user is told of a job file of their own that fio is to run: which options are replaced.
///
/// # Errors
/// fio would not take it: with all that it names. It stops at the first job that it does not take, and is asked again
/// without what it named.
pub(crate) fn ask_fio(name: &str, text: &str) -> Result<Option<String>, Problem> {
    let (mut file, mut refused) = JobFile::read(text);
    let remark = file.remark();
    let anywhere = TrialSettings {
        place: JobTarget::Path("/dev/null".into()),
        runtime: Some(DEFAULT_RUNTIME),
        ramp: None,
        counted: None,
        seed: 1,
        shift: 0,
    };
    loop {
        let said = fio::refusals(&file.compose(&anywhere));
        let lines = said.iter().map(|said| file.remove_refused(said));
        let lines: Vec<usize> = lines.map(Option::unwrap_or_default).collect();
        let goes_on = lines.iter().any(|line| *line > 0);
        let said = said.iter().map(|said| format!("fio says: {said}"));
        refused.extend(lines.into_iter().zip(said));
        if !goes_on {
            break;
        }
    }
    if refused.is_empty() {
        return Ok(remark.map(|remark| format!("{name}: {remark}")));
    }
    Err(refusal(name, refused))
}

impl Load for FioLoad {
    fn writes(&self) -> bool {
        self.file.writes()
    }

    fn is_cold(&self) -> bool {
        self.file.is_cached()
    }

    fn takes_ramp(&self) -> bool {
        true
    }

    fn drifts(&self) -> bool {
        self.file.writes()
    }

    fn programs(&self) -> Result<Vec<String>, LoadError> {
        Ok(vec![fio::version()?])
    }

    fn duration(&self, settings: &TrialSettings) -> Option<Duration> {
        Some(self.file.duration(settings))
    }

    fn counted(&self, settings: &TrialSettings) -> Option<Duration> {
        self.file.counted(settings)
    }

    fn default_runtime(&self) -> Option<Duration> {
        (!self.file.has_runtime()).then_some(DEFAULT_RUNTIME)
    }

    fn kept(&self, file_size: u64) -> Vec<Kept> {
        let files = self.file.files(file_size).into_iter();
        let kept = files.map(|(name, bytes)| Kept {
            name: Some(name),
            bytes,
        });
        kept.collect()
    }

    fn fills_directory(&self) -> Option<String> {
        self.file.fills()
    }

    fn trims(&self) -> bool {
        self.file.trims()
    }

    fn lacks(&self, objective: Objective) -> Option<&'static str> {
        self.file.lacks(objective)
    }

    /// Writes the test files of a directory, so that no trial pays for it.
    fn prepare(&mut self, at: &Workplace<'_>, say: &mut dyn FnMut(&str)) -> Result<(), LoadError> {
        let JobTarget::Directory { .. } = at.place else {
            return Ok(());
        };
        say(&format!("writing test files for {}", self.name));
        let settings = TrialSettings {
            place: at.place.clone(),
            runtime: None,
            ramp: None,
            counted: None,
            seed: 1,
            shift: 0,
        };
        fio::run_long(
            &self.file.compose_layout(&settings),
            at.place,
            at.scope,
            at.stop,
        )?;
        Ok(())
    }

    fn run(
        &mut self,
        at: &Workplace<'_>,
        trial: &TrialInfo,
        tick: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LoadError> {
        let running = Running {
            duration: self.file.duration(&trial.settings),
            read_only: !self.file.writes(),
            limit: at.trial_limit,
            counted: self.file.counted_window(&trial.settings),
            place: &trial.settings.place,
            scope: at.scope,
            stop: at.stop,
        };
        let measured = fio::run_timed(&self.file.compose(&trial.settings), &running, tick)?;
        Ok(Outcome {
            stages: self.file.stages(&trial.settings, &measured.runtimes),
            jobs: measured.jobs,
            counted: measured.counted,
            ..Outcome::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use iosched_facts::fio::{FioOption, Handling, OPTIONS, Value};
    use iosched_machine::process::{Scope, Stop};
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::measure::Measured;
    use crate::metrics::Metrics;

    /// Values that an option of this kind can be set to.
    fn values(option: &FioOption) -> &'static [&'static str] {
        match (option.name, option.value) {
            ("rw", _) => &["read", "randwrite", "randrw:4", "write:8k"],
            ("bssplit", _) => &["4k/60:8k/40"],
            ("bsrange", _) => &["4k-16k", "1k-4k,4k-8k"],
            ("random_distribution", _) => {
                &["zipf:1.2", "pareto:0.3", "normal:40", "zoned:50/10:50/90"]
            }
            ("rate" | "rate_min", _) => &["10m", "1m,2m"],
            ("rate_iops" | "rate_iops_min", _) => &["500", "100,200"],
            ("ioengine", _) => &["psync", "libaio", "io_uring", "mmap", "posixaio"],
            ("numjobs", _) => &["1", "3"],
            (_, Value::Word(words)) => words,
            (_, Value::Flag | Value::Switch) => &["0", "1"],
            (_, Value::Number) => &["0", "1", "4"],
            (_, Value::Size) => &["4k", "64Ki", "4096"],
            (_, Value::SizeOrShare) => &["256k", "50%"],
            (_, Value::Time(_)) => &["1ms", "20ms"],
            (_, Value::Text) => &["1", "none"],
        }
    }

    /// Whether it ran: what it measured is finite. `Err` if it is refused neither before the run nor run.
    fn try_out(options: &str, directory: &std::path::Path) -> Result<bool, String> {
        let text = format!("[a]\nrw=randrw\nbs=4k\nsize=1m\niodepth=4\n{options}");
        if ask_fio("j", &text).is_err() {
            return Ok(false);
        }
        let file = JobFile::parse("j", &text).map_err(|error| error.to_string())?;
        let (scope, stop) = (Scope::default(), Stop::new());
        let place = JobTarget::Directory {
            directory: directory.display().to_string(),
            file_size: 1 << 20,
        };
        let settings = TrialSettings {
            place: place.clone(),
            runtime: Some(Duration::from_millis(100)),
            ramp: None,
            counted: None,
            seed: 1,
            shift: 0,
        };
        let said = |error: LoadError| format!("{options}: {error}");
        fio::run_long(&file.compose_layout(&settings), &place, &scope, &stop).map_err(said)?;
        let running = Running {
            duration: Duration::from_secs(1),
            read_only: !file.writes(),
            limit: Some(Duration::from_secs(10)),
            counted: None,
            place: &place,
            scope: &scope,
            stop: &stop,
        };
        let measured =
            fio::run_timed(&file.compose(&settings), &running, &mut |_| {}).map_err(said)?;
        let stages = file.stages(&settings, &measured.runtimes);
        let outcome = Outcome {
            stages,
            jobs: measured.jobs,
            ..Outcome::default()
        };
        let metrics = Metrics::of(&outcome, &Measured::default(), Duration::from_secs(1));
        outcome.check(&metrics).map_err(said)?;
        let latency = metrics.all.map_or(0.0, |all| all.mean_ns + all.p99_ns);
        if metrics.throughput_bytes_per_s.is_finite() && latency < 1e12 {
            Ok(true)
        } else {
            Err(format!("{options}: {metrics:?}"))
        }
    }

    fn try_pairs(count: usize, alone: bool) {
        if fio::version().is_err() {
            return iosched_testing::lacks("fio");
        }
        let directory = tempfile::tempdir().unwrap();
        let mut chance = ChaCha8Rng::seed_from_u64(54);
        let of_table = OPTIONS
            .iter()
            .filter(|option| !matches!(option.handling, Handling::Refused(_)));
        let of_table: Vec<&FioOption> = of_table.collect();
        let mut line = |option: &FioOption| {
            let values = values(option);
            format!(
                "{}={}\n",
                option.name,
                values[chance.random_range(0..values.len())]
            )
        };
        let mut drawn: Vec<String> = Vec::new();
        if alone {
            drawn.extend(of_table.iter().map(|option| line(option)));
        }
        for at in 0..count {
            let [a, b] = [at * 7, at * 31 + 5].map(|at| line(of_table[at % of_table.len()]));
            drawn.push(a + &b);
        }
        let mut wrong = Vec::new();
        let mut ran = 0;
        for options in &drawn {
            eprintln!("{options:?}");
            match try_out(options, directory.path()) {
                Ok(has_run) => ran += usize::from(has_run),
                Err(error) => wrong.push(error),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(ran * 2 > drawn.len(), "{ran} of {}", drawn.len());
    }

    #[test]
    fn options_of_the_table_in_pairs_give_finite_metrics_or_a_refusal_before_the_run() {
        let drawn = std::env::var("IOSCHED_TEST_OPTIONS").ok();
        let drawn = drawn.and_then(|drawn| drawn.parse().ok());
        // With a number all options of the table as well.
        try_pairs(drawn.unwrap_or(6), drawn.is_some());
    }

    /// Of what the table keeps: the rest fio never sees.
    #[test]
    fn what_is_taken_here_fio_takes_as_it_is_written_and_what_fio_refuses_is_refused() {
        if fio::version().is_err() {
            return iosched_testing::lacks("fio");
        }
        let kept = OPTIONS
            .iter()
            .filter(|option| option.handling == Handling::Kept);
        for (at, option) in kept.enumerate().filter(|(at, _)| at % 12 == 0) {
            let values = values(option);
            let value = values[at % values.len()];
            for line in [format!("{}={value}", option.name), option.name.to_owned()] {
                let text = format!("[a]\nioengine=libaio\nsize=1m\nruntime=1\n{line}\n");
                let ours = ask_fio("j", &text);
                let theirs = fio::refusals(&text);
                assert_eq!(
                    ours.is_ok(),
                    theirs.is_empty(),
                    "{line}: {ours:?} {theirs:?}"
                );
            }
        }
    }
}
