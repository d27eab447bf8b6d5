//! Starts of a program beside streams.

use iosched_sim::simulate::Outcome as Simulated;
use iosched_sim::units::Sectors;
use iosched_sim::workload::{Job, Mix, Pattern, Sizes};

use super::super::Outcome;
use super::super::responsiveness::ResponsivenessSettings;
use super::files::Files;
use super::{simulated, starts};

/// The starts, then the streams.
pub(super) fn jobs(settings: &ResponsivenessSettings, files: &mut Files, seed: u64) -> Vec<Job> {
    let settled = simulated::nanos(settings.settling());
    let mut jobs = starts::jobs(settings.starts, &|_| settled, files, seed);
    let in_sequence = Pattern::Sequential {
        skip: Sectors::ZERO,
    };
    let kinds = [
        ("readers", in_sequence, 100, 256, settings.readers),
        (
            "random-readers",
            Pattern::EVEN,
            100,
            8,
            settings.random_readers,
        ),
        ("writers", in_sequence, 0, 256, settings.writers),
        (
            "random-writers",
            Pattern::EVEN,
            0,
            8,
            settings.random_writers,
        ),
    ];
    for (name, pattern, read_percent, length, streams) in kinds {
        for stream in 0..streams {
            let file = files.make(settings.size);
            let sizes = Sizes::one(Sectors::new(length));
            jobs.push(Job {
                name: format!("{name}.{stream}"),
                mix: Mix { read_percent },
                pattern,
                read_sizes: sizes.clone(),
                write_sizes: sizes,
                start: file.start,
                span: file.length,
                background: true,
                ..Job::default()
            });
        }
    }
    jobs
}

/// As the load itself says it.
pub(super) fn outcome(settings: &ResponsivenessSettings, simulated: &Simulated) -> Outcome {
    let took = starts::took(settings.starts, simulated);
    let (mean, slowest) = starts::mean_and_slowest(&took);
    Outcome {
        elapsed_s: Some(mean),
        numbers: [("slowest start s".to_owned(), slowest)].into(),
        ..Outcome::default()
    }
}
