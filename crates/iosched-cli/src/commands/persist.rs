//! `iosched persist`: a scheduler that stays over reboots.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use iosched_experiment::analysis::Analysis;
use iosched_experiment::plan::Plan;
use iosched_experiment::record::Record;
use iosched_machine::command_line::Remedy;
use iosched_machine::device::{Device, DeviceKind, Inventory};
use iosched_machine::failure::{Failure, Problem, Remediable, exit};
use iosched_machine::foreign;
use iosched_machine::host::Host;
use iosched_machine::process::Stop;
use iosched_policy::persist::choice::Grounds;
use iosched_policy::persist::deploy::{DeployOptions, Deployed, Deployment, Request, When};
use iosched_policy::policy::matching::{self, not_listed};
use iosched_policy::policy::{file, wanted};
use iosched_switch::Arm;
use serde::Serialize;

use super::{Outcome, boxed, stop_on_signals, take_turn, undo};
use crate::output::Output;

/// Arguments of `iosched persist`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched persist sda bfq low_latency=0   now, and at every boot
  iosched persist /dev/md0 mq-deadline    on every member disk of the array
  iosched persist sda none --dry-run      only show what would be written
  iosched persist --policy ours.toml      take over a whole policy
  iosched persist --list
  iosched persist --remove sda            `iosched undo` takes it back, too
  iosched persist --remove elevator       a dead elevator= out of GRUB's files

The disk is recognised by its world-wide name, its serial number or, if it has
neither, its place. A rule is put into /etc/iosched/policy.toml, and from that
/etc/udev/rules.d/99-iosched.rules is made. The kernel is asked first whether it
takes the scheduler and every tunable; then udev applies the rule, and what it
did is read back. If that is not what was asked, nothing stays changed.")]
pub(crate) struct PersistArgs {
    /// Device, partition, array or volume: sda, /dev/disk/by-id/..., md0
    #[arg(required_unless_present_any = ["policy", "list", "remove"])]
    device: Option<String>,

    /// Scheduler: one of those that `iosched list` shows, or noop, deadline, cfq
    #[arg(required_unless_present_any = ["policy", "list", "remove"])]
    scheduler: Option<String>,

    /// Tunables of the scheduler or of the queue
    #[arg(value_name = "TUNABLE=VALUE")]
    tunables: Vec<String>,

    /// Why, in words; kept in the policy and in the history
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,

    /// Make this file the machine's policy
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "list", "remove"])]
    policy: Option<PathBuf>,

    /// Show what is kept
    #[arg(long, conflicts_with_all = ["device", "remove"])]
    list: bool,

    /// Take the rules for a device away, or the rule of this name
    #[arg(long, value_name = "DEVICE|RULE", conflicts_with = "device")]
    remove: Option<String>,

    /// auto: udev rule, with a TuneD profile if TuneD is in use; cmdline: elevator=, all disks, kernels before 5.0
    #[arg(long, value_enum, default_value_t = MethodArg::Auto)]
    method: MethodArg,

    #[command(flatten)]
    how: HowArgs,
}

/// The ways to keep a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum MethodArg {
    Auto,
    Udev,
    Cmdline,
}

/// How a policy is brought into force: for `persist` and `apply`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct HowArgs {
    /// Show what would be written, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Write only: the disks stay as they are until the next boot or event
    #[arg(long)]
    pub(crate) later: bool,

    /// Rebuild the initramfs with the module of the root disk's scheduler (initramfs-tools, dracut, mkinitcpio)
    #[arg(long)]
    pub(crate) initramfs: bool,

    /// Work on a copied tree instead of this machine (nothing is switched)
    #[arg(long, value_name = "DIR", hide = true, value_parser = crate::values::tree())]
    pub(crate) root: Option<PathBuf>,
}

impl HowArgs {
    /// The machine that is meant.
    pub(crate) fn host(&self) -> Host {
        self.root.as_ref().map_or_else(Host::live, Host::at)
    }
}

/// Nobody was there to be asked.
fn not_asked() -> Remediable {
    Remediable {
        problem: Problem::usage("nothing was written: there is no terminal to ask on")
            .hint("add --yes to write it, or --dry-run to see it"),
        remedy: Some(Remedy::With("--yes".into())),
    }
}

/// `persist sda sdb deadline`.
fn second_device(first: &str, second: &str, rest: &str) -> Problem {
    Problem::usage(format!(
        "persist is for one device at a time: {second:?} stands where the scheduler belongs"
    ))
    .hint(format!(
        "run it for each: iosched persist {first} {rest}; iosched persist {second} {rest}"
    ))
}

/// Reads the policy file that the user named.
pub(crate) fn read_policy(path: &Path) -> Result<String, Problem> {
    foreign::read_text(path).map_err(|source| {
        let message = format!("cannot read {}: {source}", path.display());
        match source.kind() {
            // As any other that is malformed.
            ErrorKind::InvalidData => {
                Problem::usage(message).hint("make it UTF-8 (`iconv -f ISO-8859-1 -t UTF-8`)")
            }
            _ => Problem::new(exit::NO_SUCH_DEVICE, message),
        }
    })
}

#[derive(Serialize)]
struct Report<'a> {
    written: bool,
    id: Option<u64>,
    files: Vec<FileReport>,
    disks: Vec<DiskReport<'a>>,
    adjusted: &'a [iosched_switch::Adjusted],
    notes: &'a [String],
}

#[derive(Serialize)]
struct FileReport {
    path: String,
    diff: String,
    removed: bool,
}

#[derive(Serialize)]
struct DiskReport<'a> {
    device: &'a str,
    rule: &'a str,
    wanted: String,
    deviations: &'a [wanted::Deviation],
}

/// Runs `iosched persist`.
pub(crate) fn run(args: &PersistArgs, output: &Output) -> Outcome {
    let host = args.how.host();
    if args.list {
        return list(&host, output);
    }
    finish_undo(&host, &args.how, output)?;
    let is_of_command_line = args.method == MethodArg::Cmdline;
    if is_of_command_line || args.remove.as_deref() == Some("elevator") {
        let policy = file::read(&host).unwrap_or_default(); // one that is damaged gives no names
        let mut rules = policy.iter().flat_map(|(policy, _)| &policy.rules);
        if !is_of_command_line && rules.any(|rule| rule.name == "elevator") {
            return Err(Problem::usage(
                "the policy has a rule that is called elevator, and the kernel has a parameter of that name",
            )
            .hint(format!(
                "`iosched persist --remove elevator --method cmdline` takes the parameter out; to remove the rule, give it \
                 another name in {} first, or name its disk",
                file::PATH
            ))
            .into());
        }
        return command_line(args, &host, output);
    }
    let options = DeployOptions {
        udev_alone: args.method == MethodArg::Udev,
        initramfs: args.how.initramfs,
    };
    let plan = |request| Deployment::plan(&host, request, options);
    let deploy = |plan: Planned<'_>| deploy(&host, plan, args.why.clone(), &args.how, output);
    if let Some(what) = &args.remove {
        return deploy(&|| plan(Request::Without(what)));
    }
    if let Some(path) = &args.policy {
        let text = read_policy(path)?;
        // Errors are to name the user's file, not the machine's.
        file::Policy::parse(&text, path)?;
        return deploy(&|| plan(Request::Text(&text)));
    }
    check_one_device(args, &host)?;
    let words = args.tunables.iter().map(String::as_str);
    let arm = Arm::new(args.scheduler.as_deref().unwrap_or_default(), words).map_err(boxed)?;
    let grounds = Grounds {
        why: args.why.clone(),
        ..Grounds::default()
    };
    let targets = [args.device.as_deref().unwrap_or_default()];
    deploy(&|| {
        plan(Request::Choice {
            targets: &targets,
            arm: &arm,
            grounds: &grounds,
        })
    })
}

/// What an undo that was cut short has yet to write comes before anything new.
pub(crate) fn finish_undo(
    host: &Host,
    how: &HowArgs,
    output: &Output,
) -> Result<(), Box<dyn Failure>> {
    if how.dry_run {
        return Ok(());
    }
    if let Some(taken) = undo::finish(host, &Stop::new(), output)? {
        output.warn(&format!("note: {}", undo::in_a_line(&taken)));
    }
    Ok(())
}

/// `elevator=` put in or taken out. It has no tunables.
fn command_line(args: &PersistArgs, host: &Host, output: &Output) -> Outcome {
    let useless = match args.method {
        _ if args.how.initramfs => Some("--initramfs"),
        MethodArg::Udev => Some("--method udev"),
        MethodArg::Auto | MethodArg::Cmdline => None,
    };
    if let Some(option) = useless {
        return Err(Problem::usage(format!(
            "{option} has no effect on elevator=, which is on the kernel's command line"
        ))
        .hint(format!("leave out {option}"))
        .into());
    }
    check_one_device(args, host)?;
    let scheduler = args.scheduler.as_deref().filter(|_| args.remove.is_none());
    if let Some(tunable) = args.tunables.first() {
        let place = "the kernel's command line";
        let none = iosched_switch::unknown_tunable(place, "elevator=", tunable, &[]);
        return Err(none.into());
    }
    if let Some(scheduler) = scheduler {
        Arm::new(scheduler, []).map_err(boxed)?;
    }
    let device = args.device.as_deref().unwrap_or_default();
    let wanted = scheduler.map(|scheduler| (device, scheduler));
    let plan = || Deployment::plan_command_line(host, wanted);
    deploy(host, &plan, args.why.clone(), &args.how, output)
}

/// Of two devices the second would be taken for a scheduler.
fn check_one_device(args: &PersistArgs, host: &Host) -> Result<(), Box<dyn Failure>> {
    let (Some(first), Some(second)) = (&args.device, &args.scheduler) else {
        return Ok(());
    };
    let has_scheduler = args.tunables.iter().any(|word| !word.contains('='));
    if !has_scheduler || iosched_machine::device::find(host, second).is_err() {
        return Ok(());
    }
    Err(second_device(first, second, &args.tunables.join(" ")).into())
}

/// How a deployment is planned from what is on the machine at that moment.
pub(crate) type Planned<'a> = &'a dyn Fn() -> Result<Deployment, Problem>;

/// Shows, asks, does: for `persist` and `apply`. What nobody was asked about is planned again once it is our turn:
/// another command may have changed the machine while this one waited.
pub(crate) fn deploy(
    host: &Host,
    plan: Planned<'_>,
    why: Option<String>,
    how: &HowArgs,
    output: &Output,
) -> Outcome {
    let mut deployment = plan()?;
    if how.dry_run {
        deployment.foresee(host)?;
    }
    if !output.is_json() {
        show(&deployment, &deployment.notes, output);
    }
    if how.dry_run || deployment.is_in_force() {
        if output.is_json() {
            output.json(&report(&deployment, None, &deployment.notes));
        } else if how.dry_run {
            output.line("nothing was written (--dry-run)");
        }
        return Ok(exit::OK);
    }
    if !how.yes && !asked(output)? {
        output.note("nothing was written");
        return Ok(exit::OK);
    }
    let when = if how.later { When::Later } else { When::Now };
    let stop = Stop::new();
    let turn = take_turn(host, &stop, output)?;
    stop_on_signals(&stop);
    if how.yes {
        deployment = plan()?;
    }
    let deployed = deployment.make(&turn, when, why)?;
    let mut notes = deployment.notes.clone();
    notes.extend(deployed.notes.iter().cloned());
    if output.is_json() {
        output.json(&report(&deployment, Some(&deployed), &notes));
    } else {
        tell(&deployed, output);
    }
    Ok(exit::OK)
}

/// Whether the answer of a tune could be kept, whichever arm it names: asked before anything is measured.
pub(crate) fn check_can_keep(plan: &Plan, host: &Host) -> Result<(), Box<dyn Failure>> {
    let disks: Vec<&str> = plan.disks.iter().map(String::as_str).collect();
    let inventory = Inventory::read(host).map_err(|error| boxed(not_listed(&error)))?;
    let mut devices = inventory.devices.iter();
    let is_loop =
        |device: &&Device| device.kind == DeviceKind::Loop && disks.contains(&&*device.name);
    if let Some(device) = devices.find(is_loop) {
        // Which arm the answer will be is not known yet.
        let device = device.name.clone();
        return Err(boxed(not_kept(&device)));
    }
    for arm in &plan.arms {
        let request = Request::Choice {
            targets: &disks,
            arm,
            grounds: &Grounds::default(),
        };
        Deployment::plan(host, request, DeployOptions::default())?;
    }
    Ok(())
}

/// The answer of a tune cannot be kept for a disk that is not recognised at the next boot.
fn not_kept(device: &str) -> Remediable {
    let message =
        format!("--persist keeps nothing for {device}: a loop device is another disk each time");
    Remediable {
        problem: Problem::new(exit::NO_SUCH_DEVICE, message).hint(format!(
            "leave --persist out; --apply sets the answer for as long as {device} is there"
        )),
        remedy: Some(Remedy::Without(vec![("--persist", false)])),
    }
}

/// Keeps the answer of a tune on every disk that it measured, with a link to the record.
pub(crate) fn keep_answer(
    record: &Record,
    analysis: &Analysis,
    directory: &Path,
    host: &Host,
    stop: &Stop,
    output: &Output,
) -> Result<(), Box<dyn Failure>> {
    let plan = &record.header.plan;
    let Some(arm) = analysis.choice else {
        output.warn("not kept: the run did not decide, so nothing is changed");
        return Ok(());
    };
    let grounds = Grounds::of(record, arm, directory);
    let disks: Vec<&str> = plan.disks.iter().map(String::as_str).collect();
    let turn = take_turn(host, stop, output)?;
    let request = Request::Choice {
        targets: &disks,
        arm: &plan.arms[arm],
        grounds: &grounds,
    };
    let deployment = Deployment::plan(host, request, DeployOptions::default())?;
    for note in &deployment.notes {
        output.warn(&format!("note: {note}"));
    }
    let deployed = deployment.make(&turn, When::Now, grounds.why.clone())?;
    let way_back = deployed.id.map_or(String::new(), |id| {
        format!(" (change {id}; `iosched undo` takes it back)")
    });
    output.note(&format!(
        "{}: {} is kept over reboots{way_back}",
        disks.join(", "),
        plan.arm_label(arm)
    ));
    Ok(())
}

/// Asks on the terminal; an error where there is none.
pub(crate) fn asked(output: &Output) -> Result<bool, Box<dyn Failure>> {
    if output.is_json() || !std::io::stdin().is_terminal() {
        return Err(boxed(not_asked()));
    }
    let mut terminal = std::io::stderr();
    let _ = write!(terminal, "Write this? [y/N] ").and_then(|()| terminal.flush());
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn show(deployment: &Deployment, notes: &[String], output: &Output) {
    for note in notes {
        output.warn(&format!("note: {note}"));
    }
    for file in &deployment.files {
        output.text(&file.diff());
    }
    for (wanted, deviations) in &deployment.disks {
        let device = &wanted.disk.device.name;
        for deviation in deviations {
            output.line(&format!(
                "{device}: {} {} -> {}",
                deviation.file.trim_start_matches("queue/"),
                deviation.found,
                deviation.wanted
            ));
        }
    }
    if deployment.is_in_force() {
        output.line("nothing to do: everything is as the policy says");
    }
}

fn tell(deployed: &Deployed, output: &Output) {
    for note in &deployed.notes {
        output.warn(&format!("note: {note}"));
    }
    for adjusted in &deployed.adjusted {
        output.warn(&format!("note: {adjusted}"));
    }
    for (device, state) in &deployed.disks {
        output.line(&format!("{device}: {} (read back)", state.scheduler));
    }
    if let Some(id) = deployed.id {
        output.line(&format!(
            "written as change {id}; `iosched undo` takes it back"
        ));
    }
}

fn report<'a>(
    deployment: &'a Deployment,
    deployed: Option<&'a Deployed>,
    notes: &'a [String],
) -> Report<'a> {
    Report {
        written: deployed.is_some(),
        id: deployed.and_then(|deployed| deployed.id),
        files: deployment
            .files
            .iter()
            .map(|change| FileReport {
                path: change.path.display().to_string(),
                diff: change.diff(),
                removed: change.after.is_none(),
            })
            .collect(),
        disks: deployment
            .disks
            .iter()
            .map(|(wanted, deviations)| DiskReport {
                device: &wanted.disk.device.name,
                rule: &deployment.policy.rules[wanted.rule].name,
                wanted: wanted.arm.to_string(),
                deviations,
            })
            .collect(),
        adjusted: deployed.map_or(&[], |deployed| &deployed.adjusted),
        notes,
    }
}

/// Shows the rules of the policy and the disks that each is for.
fn list(host: &Host, output: &Output) -> Outcome {
    let (policy, _) = file::read(host)?.unwrap_or_default();
    let wanted = wanted::wanted(&policy, &matching::disks(host)?);
    let devices = |index: usize| -> Vec<&str> {
        wanted
            .iter()
            .filter(|wanted| wanted.rule == index)
            .map(|wanted| wanted.disk.device.name.as_str())
            .collect()
    };
    if output.is_json() {
        let rules: Vec<_> = policy
            .rules
            .iter()
            .enumerate()
            .map(|(index, rule)| serde_json::json!({ "rule": rule, "devices": devices(index) }))
            .collect();
        output.json(&rules);
        return Ok(exit::OK);
    }
    if policy.rules.is_empty() {
        output.line("nothing is kept: there is no rule");
    }
    for (index, rule) in policy.rules.iter().enumerate() {
        let devices = devices(index);
        let devices = if devices.is_empty() {
            "no disk that is there".to_owned()
        } else {
            devices.join(", ")
        };
        output.line(&format!("{}: {} on {devices}", rule.name, rule.arm));
        if let Some(why) = &rule.why {
            output.line(&format!("  {why}"));
        }
        if let Some(record) = &rule.record {
            output.line(&format!("  record: {}", record.display()));
        }
    }
    Ok(exit::OK)
}
