//! `iosched check`: checks disks against the policy and names what overrides it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use iosched_machine::command_line::quoted_path;
use iosched_machine::device;
use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_policy::check::{self, DiskReport, Memory, Overridden, Report, Verdict};
use iosched_policy::persist::deploy::{DeployOptions, Deployment, Request};
use iosched_policy::policy::file::{self, Policy};
use iosched_policy::policy::matching;
use iosched_policy::policy::writers::{Effect, Writer, Writers};
use iosched_policy::set;
use iosched_switch::journal::{self, RunState};

use super::log::date;
use super::persist::read_policy;
use super::{Outcome, boxed};
use crate::files;
use crate::output::Output;

/// Arguments of `iosched check`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched check                      against /etc/iosched/policy.toml
  iosched check --who sda            what sets sda's queue, in order
  iosched check --textfile /var/lib/node_exporter/iosched.prom

Exit codes of this command, as monitoring wants them:
  0  every disk is as the policy says, and will stay so
  1  as it says now, but: another rule comes after ours, a line elsewhere may
     change it, evidence is stale, the files are not those of the policy,
     elevator= has no effect, a scheduler's module is kept from being loaded,
     or an interrupted run's changes are not put back yet
  2  a disk is not as the policy says, or the policy cannot be read
Other failures have the codes of `iosched --help`.")]
pub(crate) struct CheckArgs {
    /// The policy to check against
    #[arg(value_name = "POLICY")]
    policy: Option<PathBuf>,

    /// Name everything that sets this device's queue, and what may: each with file and line
    #[arg(long, value_name = "DEVICE", conflicts_with = "policy")]
    who: Option<String>,

    /// Print metrics in Prometheus' text format
    #[arg(long, conflicts_with = "who")]
    prometheus: bool,

    /// Write those metrics to a file, as a whole or not at all
    #[arg(long, value_name = "FILE", conflicts_with = "who")]
    textfile: Option<PathBuf>,

    /// Check a copied tree instead of this machine
    #[arg(long, value_name = "DIR", hide = true, value_parser = crate::values::tree())]
    root: Option<PathBuf>,
}

/// The exit code where a disk is not as the policy says, or there is no knowing.
const NOT_AS_WANTED: u8 = 2;

/// Runs `iosched check`.
pub(crate) fn run(args: &CheckArgs, output: &Output) -> Outcome {
    let host = args.root.as_ref().map_or_else(Host::live, Host::at);
    if let Some(device) = &args.who {
        return who(&host, device, output);
    }
    let policy = policy(args, &host)?;
    let mut report = check::check(&host, &policy)?;
    if args.policy.is_none() {
        remember(&host, &mut report);
    }
    if let Some(path) = &args.textfile {
        // Readers see the old file or the new one.
        files::write(path, metrics(&report).as_bytes()).map_err(boxed)?;
    }
    let has_leftovers = args.root.is_none() && note_leftovers(&host, output);
    if output.is_json() {
        output.json(&report);
    } else if args.prometheus {
        output.text(&metrics(&report));
    } else if args.textfile.is_none() {
        tell(&report, &policy, args.policy.as_deref(), output);
        if let Some(file) = args.policy.as_deref()
            && !report.not_in_force.is_empty()
        {
            tell_how_to_enforce(&host, file, output);
        }
    }
    Ok(match report.verdict {
        Verdict::Good if !has_leftovers => 0,
        Verdict::Good | Verdict::Warning => 1,
        Verdict::Bad => NOT_AS_WANTED,
    })
}

/// What a run that is dead changed is no deviation from any rule, and still not as it was. True if there is any.
fn note_leftovers(host: &Host, output: &Output) -> bool {
    let mut has_any = false;
    let dead = journal::leftovers(host).into_iter();
    for left in dead.filter(|left| left.run == RunState::Dead && !left.entry.disks.is_empty()) {
        let disks: Vec<&str> = left
            .entry
            .disks
            .iter()
            .map(|disk| disk.device.as_str())
            .collect();
        output.warn(&format!(
            "warning: what an interrupted run changed on {} is not put back yet: run `iosched restore`",
            disks.join(", ")
        ));
        has_any = true;
    }
    has_any
}

/// Says since when each disk is as it is. What is known of checks of the machine's own policy says nothing of
/// another one.
fn remember(host: &Host, report: &mut Report) {
    let mut memory = Memory::read(host);
    let now = std::time::UNIX_EPOCH
        .elapsed()
        .map_or(0.0, |since| since.as_secs_f64());
    memory.enter(host, report, now);
    memory.save(host);
}

/// The policy to check against. One that cannot be read or understood is for whoever monitors the machine as bad as a disk
/// that is not as wanted.
fn policy(args: &CheckArgs, host: &Host) -> Result<Policy, Problem> {
    let read = match &args.policy {
        None => file::read(host).map(|found| found.unwrap_or_default().0),
        Some(path) => match read_policy(path) {
            Ok(text) => Policy::parse(&text, path),
            Err(problem) => {
                let name = path
                    .to_str()
                    .filter(|name| device::find(host, name).is_ok());
                let who = name.map_or(String::new(), |device| {
                    format!("; who sets {device}, `iosched check --who {device}` says")
                });
                let all =
                    "`iosched check` without a file checks all disks against the machine's policy";
                let hint = problem
                    .hint
                    .clone()
                    .unwrap_or_else(|| format!("{all}{who}"));
                Err(problem.hint(hint))
            }
        },
    };
    read.map_err(|problem| Problem {
        code: NOT_AS_WANTED,
        ..problem
    })
}

/// Says what was found; against `candidate`, if that is not the machine's policy.
fn tell(report: &Report, policy: &Policy, candidate: Option<&Path>, output: &Output) {
    if policy.rules.is_empty() {
        output.line(&match candidate {
            Some(path) => format!("{} has no rule to check against", path.display()),
            None => "there is no rule to check against: `iosched persist` makes one".to_owned(),
        });
    } else if report.disks.is_empty() {
        output.line("no disk that is there matches a rule of the policy");
    }
    for disk in &report.disks {
        tell_disk(disk, output);
    }
    for path in &report.not_in_force {
        let path = path.display();
        output.line(&match candidate {
            Some(file) => format!(
                "warning: {path} is not what {} would make of it",
                file.display()
            ),
            None => {
                format!("warning: {path} is not what the policy makes of it: run `iosched apply`")
            }
        });
    }
    for place in &report.dead_elevator {
        let line = if place.line > 0 {
            format!(":{}", place.line)
        } else {
            String::new()
        };
        output.line(&format!(
            "warning: {}{line} gives elevator= a value that no disk here listens to: blk-mq, which is all that \
             Linux has since 5.0, ignores it",
            place.file.display()
        ));
    }
}

/// Says what would bring a policy file into force, or what is in the way.
fn tell_how_to_enforce(host: &Host, path: &Path, output: &Output) {
    let planned = read_policy(path).and_then(|text| {
        let plan = Deployment::plan(host, Request::Text(&text), DeployOptions::default())?;
        plan.foresee(host)
    });
    let name = quoted_path(path);
    match planned {
        // Who may not look can still be told.
        Err(problem) if problem.code != exit::NOT_PERMITTED => {
            output.line(&format!("{name} cannot be brought into force: {problem}"));
            if let Some(hint) = problem.hint {
                output.line(&format!("hint: {hint}"));
            }
        }
        _ => output.line(&format!(
            "to bring it into force: cp {name} {} && iosched apply",
            file::PATH
        )),
    }
}

fn tell_disk(disk: &DiskReport, output: &Output) {
    let DiskReport {
        device,
        rule,
        wanted,
        ..
    } = disk;
    if disk.deviations.is_empty() {
        output.line(&format!("{device}: as wanted by {rule:?}: {wanted}"));
    } else {
        output.line(&format!("{device}: NOT as wanted by {rule:?}: {wanted}"));
    }
    for explained in &disk.deviations {
        let deviation = &explained.deviation;
        output.line(&format!(
            "  {} is {}, not {}",
            deviation.file.trim_start_matches("queue/"),
            deviation.found,
            deviation.wanted
        ));
        output.line(&format!("    who: {}", explained.cause));
    }
    if let Some(since) = &disk.since {
        let good = since.last_good_unix_s.map_or_else(
            || "no check found it right before".to_owned(),
            |at| format!("it was right at {}", date(at)),
        );
        output.line(&format!(
            "  since {} at the latest; {good}",
            date(since.first_seen_unix_s)
        ));
    }
    for overridden in &disk.overridden {
        let Overridden { when, by } = overridden;
        output.line(&if by.effect == Effect::MaySet {
            let text = by.text.as_deref().unwrap_or_default();
            format!("  warning: at {when} this may change it: {by}: {text}")
        } else {
            let value = by.value.as_deref().unwrap_or("something");
            format!("  warning: at {when} it becomes {value}: {by}")
        });
    }
    for stale in &disk.stale {
        output.line(&format!(
            "  warning: measured with {} {}, now {}: measure again: iosched tune {device}",
            stale.what, stale.measured, stale.now
        ));
    }
}

/// Metrics for `node_exporter`'s textfile collector.
fn metrics(report: &Report) -> String {
    let mut text = String::new();
    gauges_of_policy(&mut text, &report.disks);
    gauges_of_measurements(&mut text, &report.disks);
    gauges_of_advice(&mut text, report);
    gauge(
        &mut text,
        "policy_in_force",
        "1 if the installed files are those of the policy.",
        [sample(&[], u8::from(report.not_in_force.is_empty()))],
    );
    text
}

fn gauges_of_policy(text: &mut String, disks: &[DiskReport]) {
    let as_wanted = disks.iter().map(|disk| {
        let labels = [
            ("device", &*disk.device),
            ("rule", &disk.rule),
            ("wanted", &disk.wanted),
        ];
        sample(&labels, u8::from(disk.deviations.is_empty()))
    });
    gauge(
        text,
        "disk_as_wanted",
        "1 if the disk is as the policy says.",
        as_wanted,
    );
    gauge(
        text,
        "disk_warnings",
        "What would undo the disk's setting, or is stale.",
        disks.iter().map(|disk| {
            let warnings = disk.overridden.len() + disk.stale.len();
            sample(&[("device", &disk.device)], warnings)
        }),
    );
}

fn gauges_of_measurements(text: &mut String, disks: &[DiskReport]) {
    let measured = || {
        let disks = disks.iter();
        disks.filter_map(|disk| Some((disk, disk.measured.as_ref()?)))
    };
    gauge(
        text,
        "measured_timestamp_seconds",
        "When the run that the rule rests on began, since 1970.",
        measured().map(|(disk, measured)| {
            let began = format!("{:.0}", measured.created_unix_s);
            sample(&[("device", &disk.device), ("rule", &disk.rule)], began)
        }),
    );
    let ratios = measured().flat_map(|(disk, measured)| {
        measured.ratios.iter().flat_map(move |(load, ratio)| {
            bounds(ratio.lower, ratio.estimate, ratio.upper).map(|(bound, value)| {
                let labels = [
                    ("device", &*disk.device),
                    ("rule", &disk.rule),
                    ("load", load),
                    ("bound", bound),
                ];
                sample(&labels, value)
            })
        })
    });
    gauge(
        text,
        "measured_ratio",
        "The arm's metric divided by the baseline's, with its interval.",
        ratios,
    );
}

fn gauges_of_advice(text: &mut String, report: &Report) {
    gauge(
        text,
        "disk_differs_from_advice",
        "1 for each disk of which `iosched advise` says something else.",
        report.advised.iter().map(|(device, advised)| {
            let advised = advised.join(" or ");
            sample(&[("device", device), ("advised", &advised)], 1)
        }),
    );
    let expected = report.advised_ratios.iter().flat_map(|(device, arms)| {
        arms.iter().flat_map(move |(arm, ratio)| {
            bounds(ratio.lower, ratio.estimate, ratio.upper).map(|(bound, value)| {
                let labels = [("device", &**device), ("advised", arm), ("bound", bound)];
                sample(&labels, value)
            })
        })
    });
    gauge(
        text,
        "advised_ratio",
        "How many times as good as the active scheduler this machine may expect the advised one, by what others measured.",
        expected,
    );
}

/// An interval's numbers by the label of each.
fn bounds(lower: f64, estimate: f64, upper: f64) -> [(&'static str, f64); 3] {
    [("lower", lower), ("estimate", estimate), ("upper", upper)]
}

fn gauge(text: &mut String, name: &str, help: &str, samples: impl IntoIterator<Item = String>) {
    let _ = writeln!(text, "# HELP iosched_{name} {help}");
    let _ = writeln!(text, "# TYPE iosched_{name} gauge");
    for sample in samples {
        let _ = writeln!(text, "iosched_{name}{sample}");
    }
}

/// `{label="value",…} value`
fn sample(labels: &[(&str, &str)], value: impl std::fmt::Display) -> String {
    let escaped = |value: &str| {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let labels = labels.iter();
    let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let labels = labels.collect::<Vec<_>>().join(",");
    if labels.is_empty() {
        return format!(" {value}");
    }
    format!("{{{labels}}} {value}")
}

/// Everybody who sets a device's queue.
fn who(host: &Host, target: &str, output: &Output) -> Outcome {
    let device = device::find(host, target).map_err(boxed)?;
    let all = Writers::of(host);
    let mut found = Vec::new();
    for name in set::disks_of(host, &device)? {
        let disk = matching::known(host, &name)?;
        let (at_boot, at_events) = (all.at_boot(&disk), all.on_change(&disk));
        if !output.is_json() {
            tell_who(&name, disk.device.schedulers.active(), &at_boot, output);
            // Those that act at events of udev alone.
            let places: Vec<_> = at_boot
                .iter()
                .map(|writer| (&writer.file, writer.line))
                .collect();
            let is_new = |writer: &&Writer| !places.contains(&(&writer.file, writer.line));
            for writer in at_events.iter().filter(is_new) {
                output.line(&format!("{} (at events alone)", told(writer)));
            }
        }
        found.push(serde_json::json!({
            "device": name,
            "at_boot": at_boot,
            "at_events": at_events,
        }));
    }
    if output.is_json() {
        output.json(&found);
    }
    Ok(exit::OK)
}

fn tell_who(device: &str, active: Option<&str>, at_boot: &[Writer], output: &Output) {
    output.line(&format!("{device}: {} now", active.unwrap_or("?")));
    if at_boot.is_empty() {
        output.line("  nothing that is known here sets it at boot: the kernel's own default");
    }
    for writer in at_boot {
        let mut line = told(writer);
        if writer.kind.acts_on_events() {
            line.push_str(" (at events, too)");
        }
        output.line(&line);
    }
}

/// What a writer writes, and what becomes of it.
fn told(writer: &Writer) -> String {
    let target = writer.target.trim_start_matches("queue/");
    let why = writer.why.as_deref().unwrap_or_default();
    let perhaps = if writer.certain { "" } else { "perhaps " };
    if writer.effect == Effect::MaySet {
        let text = writer.text.as_deref().unwrap_or_default();
        let inactive = writer
            .why
            .as_ref()
            .map_or(String::new(), |why| format!(" [{why}]"));
        return format!("  may set {target}: {writer}: {text}{inactive}");
    }
    let effect = match writer.effect {
        Effect::InEffect => format!("{perhaps}in effect"),
        Effect::Lost => format!("{perhaps}lost: {why}"),
        Effect::Fails | Effect::MaySet => format!("fails: {why}"),
    };
    let value = writer.value.as_deref().unwrap_or("?");
    format!("  {target} = {value}: {writer} [{effect}]")
}
