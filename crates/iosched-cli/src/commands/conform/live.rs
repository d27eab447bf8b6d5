//! `iosched conform --live`: the kernel's own scheduler on an emulated disk, beside ours.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use iosched_conform::Report;
use iosched_emulate::disk_file;
use iosched_experiment::run::random_seed;
use iosched_experiment::simulate::live::{
    Comparison, Figures, LiveEvent, LiveReport, LiveRequest, Plan, Speed,
};
use iosched_machine::failure::exit;
use iosched_machine::process::Stop;
use iosched_machine::visible::visible;
use iosched_report::words;

use super::super::{Outcome, boxed, stop_on_signals};
use super::{ConformArgs, EAGER, OUT_OF_ORDER, UNEXPLAINED, agreement, told};
use crate::output::Output;
use crate::values::{Span, parse_count, split_arms};

/// Arguments that only `--live` has.
#[derive(Debug, Args)]
pub(super) struct LiveArgs {
    /// Record this kernel's schedulers, and compare
    #[arg(
        long,
        help_heading = LIVE,
        long_help = "Run a load under this kernel's own schedulers on an emulated disk, record and compare them with ours \
                     (needs root, fio, FUSE, loop)"
    )]
    pub(super) live: bool,

    /// Disk model (`iosched emulate models`)
    #[arg(
        long,
        value_name = "MODEL",
        default_value = "hdd-7200-fifo",
        help_heading = LIVE,
        long_help = "Disk model: a name of `iosched emulate models`, or a .toml file"
    )]
    disk: String,

    /// Load, or a fio job file; repeatable [default: random-read]
    #[arg(long, value_name = "LOAD", requires = "live", help_heading = LIVE)]
    load: Vec<String>,

    /// Time that each load runs under each scheduler
    #[arg(long, value_name = "TIME", default_value = "5s", help_heading = LIVE)]
    runtime: Span,

    /// Make the disk N times slower; 1 is the model's own speed [default: as this machine needs it]
    #[arg(
        long,
        value_name = "N",
        requires = "live",
        value_parser = parse_count::<NonZeroU32>,
        help_heading = LIVE,
        hide_short_help = true
    )]
    slow_down: Option<NonZeroU32>,

    /// Seed of the places that loads visit [default: random]
    #[arg(long, value_name = "N", requires = "live", help_heading = LIVE, hide_short_help = true)]
    seed: Option<u64>,

    /// Directory in which to keep the recordings, for `iosched conform`
    #[arg(long, value_name = "DIR", requires = "live", help_heading = LIVE, hide_short_help = true)]
    recordings: Option<PathBuf>,
}

/// Heading of the options that only `--live` has.
const LIVE: &str = "Live, on an emulated disk";

/// Runs `iosched conform --live`.
pub(super) fn run(args: &ConformArgs, output: &Output) -> Outcome {
    let live = &args.live;
    let wanted = LiveRequest {
        model: disk_file::find(&live.disk).map_err(boxed)?,
        queue_depth: args.queue_depth,
        slow_down: live.slow_down,
        schedulers: split_arms(&args.scheduler),
        loads: live.load.clone(),
        runtime: live.runtime.0,
        hz: args.hz,
        seed: live.seed.unwrap_or_else(random_seed),
        server: std::env::current_exe().unwrap_or_else(|_| "iosched".into()),
        recordings: live.recordings.clone(),
    };
    let plan = Plan::new(wanted).map_err(boxed)?;
    let stop = Stop::new();
    stop_on_signals(&stop);
    let progress = Progress::new(output);
    let report = plan.run(&stop, &mut |event| progress.event(event));
    progress.bar.finish_and_clear();
    let report = report.map_err(boxed)?;
    if output.is_json() {
        output.json(&report);
    } else {
        output.text(&summary(&report));
    }
    let followed = report.results.iter().map(|one| &one.followed);
    let told = args.answer_code(followed);
    let is_whole = report.results.iter().all(|one| one.lost_events == 0);
    let told = told.map(|code| if is_whole { code } else { exit::DISAGREES });
    Ok(told.unwrap_or(if report.agrees() {
        exit::OK
    } else {
        exit::FAILURE
    }))
}

/// How far it is, on standard error; each comparison as soon as it is there, on standard output.
struct Progress<'a> {
    bar: ProgressBar,
    output: &'a Output,
}

impl Progress<'_> {
    fn new(output: &Output) -> Progress<'_> {
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{bar:20} {msg}").expect("the template is right");
        bar.set_style(style.progress_chars("=> "));
        if std::io::stderr().is_terminal() && !output.is_quiet() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Progress { bar, output }
    }

    fn event(&self, event: &LiveEvent<'_>) {
        match event {
            LiveEvent::Disk {
                speed,
                device,
                depth,
            } if !self.output.is_json() => {
                let note = format!(
                    "Measuring on an emulated disk, which is removed afterwards: /dev/{device}, \
                     depth {depth}.{}",
                    slowed(speed)
                );
                self.bar.suspend(|| self.output.note(&note));
            }
            LiveEvent::Running {
                scheduler,
                load,
                done,
                of,
                left,
                ..
            } => {
                self.bar.set_length(*of as u64);
                self.bar.set_position(*done as u64);
                let left = words::span(*left);
                let said = format!("{load}, {scheduler}; about {left} left");
                self.bar.set_message(visible(&said).into_owned());
            }
            LiveEvent::Compared(comparison) if !self.output.is_json() => {
                self.bar.suspend(|| self.output.text(&text(comparison)));
            }
            LiveEvent::Disk { .. } | LiveEvent::Compared(_) => {}
        }
    }
}

/// A load under a scheduler: the decisions, then the figures in columns.
fn text(comparison: &Comparison) -> String {
    let Comparison {
        scheduler,
        load,
        followed,
        lost_events,
        events,
        measured,
        predicted,
        error,
        processes,
    } = comparison;
    let mut text = format!(
        "\n{load} under {scheduler}: as ours\n  {}",
        agreement(&followed.report)
    );
    if *lost_events > 0 {
        let _ = writeln!(text, "  {lost_events} events lost, {events} recorded");
    }
    text.push_str(&told(&[
        (followed.report.issued_out_of_order, OUT_OF_ORDER),
        (followed.report.eager, EAGER),
        (followed.report.unexplained, UNEXPLAINED),
    ]));
    for one in followed.report.first_disagreements.iter().take(3) {
        let _ = writeln!(text, "  recorded {}, ours {}", one.recorded, one.ours);
    }
    text.push_str("                IOPS      MB/s   mean ms    p50 ms    p99 ms  fairness\n");
    let row = |name: &str, figures: &Figures| {
        format!(
            "  {name:<9} {:>8.1} {:>9.2} {:>9.3} {:>9.3} {:>9.3} {:>9.3}\n",
            figures.iops,
            figures.bytes_per_s / 1e6,
            figures.latency_mean_ns / 1e6,
            figures.latency_p50_ns / 1e6,
            figures.latency_p99_ns / 1e6,
            figures.fairness
        )
    };
    text.push_str(&row("measured", &measured.figures));
    text.push_str(&row("predicted", &predicted.figures));
    let _ = writeln!(
        text,
        "  error     {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}",
        signed(error.iops),
        signed(error.bytes_per_s),
        signed(error.latency_mean_ns),
        signed(error.latency_p50_ns),
        signed(error.latency_p99_ns),
        signed(error.fairness)
    );
    if processes.len() > 1 {
        for process in processes {
            let name: String = process.name.chars().take(20).collect();
            let _ = writeln!(
                text,
                "    {name:<20} {:>9.3} MB/s measured, {:>9.3} predicted ({})",
                process.measured_bytes_per_s / 1e6,
                process.predicted_bytes_per_s / 1e6,
                signed(process.error)
            );
        }
    }
    text
}

/// `+1.2 %`
fn signed(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// Says by how much the disk is slowed down, and why, if it is.
fn slowed(speed: &Speed) -> String {
    let factor = speed.slow_down.get();
    if factor == 1 {
        return String::new();
    }
    let why = speed.disk.zip(speed.machine);
    let why = why.map_or(String::new(), |(disk, machine)| {
        format!(
            " (at its own speed it would answer {:.0} requests per second, in {:.0} µs each; this \
             machine can pass on {:.0}, one in {:.0} µs)",
            disk.iops,
            disk.latency_ns / 1e3,
            machine.iops,
            machine.latency_ns / 1e3
        )
    });
    format!(
        " All that the disk does takes {factor} times as long as its model says{why}: all figures, \
         measured and predicted, are those of the slowed disk; schedulers keep their own times."
    )
}

/// Whether the kernel's schedulers are ours.
fn summary(report: &LiveReport) -> String {
    let sum = |count: fn(&Report) -> u64| -> u64 {
        let results = report.results.iter();
        results.map(|one| count(&one.followed.report)).sum()
    };
    let all = agreement(&Report {
        decisions: sum(|report| report.decisions),
        agreed: sum(|report| report.agreed),
        with_choice: sum(|report| report.with_choice),
        agreed_with_choice: sum(|report| report.agreed_with_choice),
        ..Report::default()
    });
    let lost: u64 = report.results.iter().map(|one| one.lost_events).sum();
    let limit = report.speed.machine.map_or(String::new(), |machine| {
        let iops = machine.iops;
        format!("through an emulated disk that answers at once: {iops:.0} IOPS, the limit here\n")
    });
    let slowed = match report.speed.slow_down.get() {
        1 => String::new(),
        factor => format!("measured and predicted on a disk {factor} times as slow as its model\n"),
    };
    format!(
        "\n{limit}{slowed}{} at depth {}, Linux {}, {} Hz: as ours\n  {all}  \
         {lost} events lost; seed {}\npredictions are means of twenty simulated runs with other places",
        report.disk, report.driver_depth, report.kernel, report.hz, report.seed
    )
}

/// What `--help` teaches.
pub(super) const HELP: &str = "\
Examples:
  iosched conform linux-6.1/mq-deadline/sd4 --scheduler mq-deadline
      follows recordings of a kernel with our scheduler, decision by decision
  iosched conform --live
      makes an emulated disk, runs deep random reads under none, mq-deadline,
      kyber and bfq of this kernel, and prints for each: how many of its
      decisions ours would have taken, and what was measured beside what the
      simulator predicts
  iosched conform --live --disk ssd-sata --queue-depth 4 --load mixed \\
      --scheduler mq-deadline:fifo_batch=4 --scheduler kyber --json

The recordings of one directory are taken in the order in which they were made,
each beginning with the state that the one before left. --initial gives the
state of the first (NAME=VALUE,…) or of others (RECORDING:NAME=VALUE,…;…). cfq
has average, last-position and noidle-think; results/bfq.md has bfq's.
Without any =, --initial names a file of states by DIRECTORY/NAME; '' is none.

Exit code of --live: 0 if ours agrees on 99 % of the decisions of every run and
no event was lost, 1 if not; with --exit-code 0 or 23. What was predicted does
not count: on a busy machine the measured figures are the machine's, too.";

#[cfg(test)]
mod tests {
    use iosched_conform::{Conformance, StartState};
    use iosched_experiment::simulate::live::{Measurement, ProcessComparison};

    use super::*;

    fn figures(scale: f64) -> Figures {
        Figures {
            iops: 123_456.7 * scale,
            bytes_per_s: 1e8 * scale,
            latency_mean_ns: 1e9 * scale,
            latency_p50_ns: 2e5 * scale,
            latency_p99_ns: 9e9 * scale,
            fairness: scale,
        }
    }

    #[test]
    fn every_line_fits_into_eighty_columns() {
        let followed = Conformance {
            trace: "kyber".into(),
            scheduler: "kyber".into(),
            start_state: StartState::Cold,
            start_values: String::new(),
            agreement: Some(0.999_999),
            agreement_with_choice: None,
            tick_phase_us: 0.0,
            report: Report {
                decisions: 1_000_000,
                agreed: 999_999,
                issued_out_of_order: 12,
                eager: 3,
                ..Report::default()
            },
        };
        let process = ProcessComparison {
            name: "a-very-long-name-of-a-process".into(),
            measured_bytes_per_s: 5e8,
            predicted_bytes_per_s: 6e8,
            error: 0.2,
        };
        let measurement = |scale| Measurement {
            figures: figures(scale),
            iops_half_width: None,
            latency_p99_interval_ns: None,
        };
        let comparison = Comparison {
            scheduler: "mq-deadline:fifo_batch=4".into(),
            load: "readers-vs-writer".into(),
            events: 5,
            lost_events: 0,
            followed,
            measured: measurement(1.0),
            predicted: measurement(0.8),
            error: Figures {
                iops: 27.848,
                bytes_per_s: -0.2,
                latency_mean_ns: -0.2,
                latency_p50_ns: 9.1,
                latency_p99_ns: -0.99,
                fairness: 0.0,
            },
            processes: vec![process.clone(), process],
        };
        let text = text(&comparison);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(
            text.contains("999999 of 1000000 decisions (100.000 %)"),
            "{text}"
        );
    }
}
