//! `iosched list`: every block device, its stack, and the schedulers it offers.
//!
//! The tree grows as data do: a disk, then what stands on it. What stands on several devices (md, a
//! volume group) is shown in full below the first of them and named below the others.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use iosched_emulate as emulate;
use iosched_experiment::load::simulated;
use iosched_machine::device::{
    Attribute, Device, DeviceKind, Inventory, NoChoice, Role, Schedulers, Target, Transport,
    Tunable, User, attributes, tunable_schedulers, tunables,
};
use iosched_machine::failure::{Failure, NO_SYSFS, Problem, exit};
use iosched_machine::host::Host;
use iosched_machine::visible;
use iosched_policy::advise::{self, Differing};
use iosched_report as report;
use iosched_switch::journal::{self, Leftover};
use serde::Serialize;

use super::{Outcome, boxed};
use crate::output::Output;

/// Arguments of `iosched list`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched list                          every device in use, as a tree
  iosched list sda                      what it stands on and what stands on it
  iosched list /var/lib/postgresql      the disks below a directory
  iosched list -v nvme0n1               every queue and scheduler setting
  iosched list --help-tunables          what they mean, and what they may be
  iosched list --json | jq .            for scripts

The scheduler in [brackets] is the active one, as the kernel writes it. What is
served stands inside an emulated disk, and is none of the kernel's. ADVICE is
what `iosched advise` says, where it says something else: it tells why.")]
pub(crate) struct ListArgs {
    /// Devices to show, with their stacks: a kernel name, a node or a link to one, a directory or file [default: all]
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<String>,

    /// Show every queue and scheduler setting with its unit, and the kernel's default where it differs
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Explain each tunable of each scheduler and of the queue: unit, range, default, what it does
    #[arg(long)]
    pub(crate) help_tunables: bool,

    /// Show unused devices without size, too (loop0 … loop7)
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Read a copied tree (DIR/sys, DIR/proc, DIR/dev, DIR/run) instead of this machine
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

/// Runs `iosched list`.
pub(crate) fn run(args: &ListArgs, output: &Output) -> Outcome {
    if args.help_tunables {
        explain_tunables(output);
        return Ok(exit::OK);
    }
    let host = args.root.as_ref().map_or_else(Host::live, Host::at);
    let inventory = inventory(&host, args.root.as_deref())?;
    let shown = choose(args, &host, &inventory)?;
    if output.is_json() {
        output.json(&listing(args, &host, &inventory, &shown));
        return Ok(exit::OK);
    }
    output.text(&table(
        args,
        &host,
        &inventory,
        &shown,
        output.table_width(),
    ));
    if shown.hidden > 0 {
        let s = if shown.hidden == 1 { "" } else { "s" };
        output.note(&format!(
            "{} unused device{s} without size not shown (--all shows them)",
            shown.hidden
        ));
    }
    let is_dead =
        |leftover: &Leftover| !leftover.run.is_alive() && !leftover.entry.disks.is_empty();
    let (leftovers, not_understood) = journal::read_all(&host);
    // Files that only root may read are those of runs that live as well.
    let is_damaged = |left: &journal::NotUnderstood| fs::File::open(&left.path).is_ok();
    let is_left = leftovers.iter().any(is_dead) || not_understood.iter().any(is_damaged);
    if host.is_live() && is_left {
        output.warn("an interrupted run has left its settings on a disk: run `iosched restore`");
    }
    Ok(exit::OK)
}

/// All devices of this machine, or of a copied tree.
pub(super) fn inventory(host: &Host, root: Option<&Path>) -> Result<Inventory, Box<dyn Failure>> {
    Inventory::read(host).map_err(|cause| {
        let (code, hint) = match root {
            Some(_) => (
                exit::USAGE,
                "--root takes a directory with a copy of /sys, /proc, /dev and /run",
            ),
            None => (exit::FAILURE, NO_SYSFS),
        };
        let root = root.unwrap_or(Path::new("")).display();
        let message = format!("cannot list the block devices in {root}/sys: {cause}");
        boxed(Problem::new(code, message).hint(hint))
    })
}

/// What each tunable is for.
fn explain_tunables(output: &Output) {
    let all = tunables();
    if output.is_json() {
        return output.json(&all);
    }
    let explain_those_of = |scheduler: Option<&str>| {
        let those = all.iter().filter(|tunable| tunable.scheduler == scheduler);
        those.for_each(|tunable| explain(tunable, output));
    };
    for scheduler in tunable_schedulers() {
        output.text(&format!("{scheduler} (queue/iosched/)"));
        explain_those_of(Some(scheduler));
        output.text("");
    }
    output.text("the queue (queue/), with any scheduler; none and noop have only these");
    explain_those_of(None);
}

fn explain(tunable: &Tunable, output: &Output) {
    let Tunable {
        name, range, what, ..
    } = tunable;
    let unit = tunable
        .unit
        .map_or(String::new(), |unit| format!("{unit}, "));
    let default = tunable.default.as_deref().unwrap_or("as the kernel");
    output.text(&format!("  {name:<18} {unit}{range}; default {default}"));
    let folded = report::text::fold(what, output.width().saturating_sub(21).max(20));
    for line in folded.lines() {
        output.text(&format!("  {:<18} {line}", ""));
    }
}

/// Which devices to show.
struct Shown<'a> {
    /// Those from which trees grow.
    roots: Vec<&'a Device>,
    /// All that may appear; `None` is every device.
    names: Option<HashSet<&'a str>>,
    /// How many were left out because nobody uses them.
    hidden: usize,
    /// What `advise` says of those that have something else.
    differing: HashMap<String, Differing>,
}

/// Named devices with all below and above them; or all devices except those that nobody uses.
fn choose<'a>(
    args: &ListArgs,
    host: &Host,
    inventory: &'a Inventory,
) -> Result<Shown<'a>, Box<dyn Failure>> {
    if args.devices.is_empty() {
        let mut hidden = 0;
        let roots = inventory
            .devices
            .iter()
            .filter(|device| is_root(inventory, device))
            .filter(|device| {
                let hide = !args.all && is_unused(device);
                hidden += usize::from(hide);
                !hide
            })
            .collect();
        return Ok(Shown {
            roots,
            names: None,
            hidden,
            differing: advise::differing(host, inventory),
        });
    }
    let mut names = HashSet::new();
    for target in &args.devices {
        let target =
            Target::find(host, target).map_err(|error| -> Box<dyn Failure> { Box::new(error) })?;
        for device in target.devices() {
            // It vanished since: nothing to show of it.
            let Some(device) = inventory.get(&device.name) else {
                continue;
            };
            names.extend(
                inventory
                    .stack(device)
                    .into_iter()
                    .map(|(device, _)| device.name.as_str()),
            );
            names.extend(
                inventory
                    .above(device)
                    .into_iter()
                    .map(|device| device.name.as_str()),
            );
        }
    }
    let roots = inventory
        .devices
        .iter()
        .filter(|device| is_root(inventory, device) && names.contains(device.name.as_str()))
        .collect();
    Ok(Shown {
        roots,
        names: Some(names),
        hidden: 0,
        differing: advise::differing(host, inventory),
    })
}

/// A device that stands on no other that is there.
fn is_root(inventory: &Inventory, device: &Device) -> bool {
    !device
        .disk
        .iter()
        .chain(&device.slaves)
        .any(|below| inventory.get(below).is_some())
}

/// A device that the kernel made ahead of its use.
fn is_unused(device: &Device) -> bool {
    device.size_bytes == 0
        && device.backing_file.is_none()
        && device.holders.is_empty()
        && matches!(
            device.kind,
            DeviceKind::Loop | DeviceKind::Network | DeviceKind::Zram
        )
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listing<'a> {
    /// Of this format; a new number only when a field changes its meaning or goes.
    schema: u32,
    devices: Vec<Listed<'a>>,
}

#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    device: &'a Device,
    /// What it has to do with scheduling itself.
    role: Role,
    /// The devices whose scheduler matters for it.
    scheduled_by: Vec<&'a str>,
    /// Mounts and swap on the device itself; those above it are with the devices above it.
    users: &'a [User],
    /// What `advise` says that it should have, where it has something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    advised: Option<&'a [String]>,
    /// The schedulers of ours inside, where it is an emulated disk that is served with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<ServedInside>,
    /// Every queue and scheduler setting, with `--verbose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<Vec<Attribute>>,
}

/// What stands inside an emulated disk, below the kernel's scheduler.
#[derive(Serialize)]
struct ServedInside {
    /// With its tunables.
    active: String,
    offered: Vec<&'static str>,
}

impl ServedInside {
    fn of(host: &Host, device: &Device) -> Option<ServedInside> {
        Some(ServedInside {
            active: emulate::served_by(host, &device.name)?.scheduler?,
            offered: simulated::schedulers(),
        })
    }

    /// `served: [cfq] noop deadline …`: the active one first, for lines that are cut.
    fn words(&self) -> String {
        let active = self.active.split(':').next().unwrap_or_default();
        let others = self.offered.iter().filter(|name| **name != active);
        others.fold(format!("served: [{}]", self.active), |words, name| {
            format!("{words} {name}")
        })
    }
}

fn listing<'a>(
    args: &ListArgs,
    host: &Host,
    inventory: &'a Inventory,
    shown: &'a Shown<'a>,
) -> Listing<'a> {
    let devices = inventory
        .devices
        .iter()
        .filter(|device| match &shown.names {
            Some(names) => names.contains(device.name.as_str()),
            None => args.all || !is_unused(device),
        })
        .map(|device| Listed {
            device,
            role: inventory.role(device),
            scheduled_by: scheduled_by(inventory, device),
            users: inventory.usage.direct(&device.name),
            advised: shown
                .differing
                .get(&device.name)
                .map(|it| it.should.as_slice()),
            served: ServedInside::of(host, device),
            attributes: args.verbose.then(|| attributes(host, device)),
        })
        .collect();
    Listing { schema: 1, devices }
}

fn scheduled_by<'a>(inventory: &'a Inventory, device: &'a Device) -> Vec<&'a str> {
    inventory
        .stack(device)
        .into_iter()
        .filter(|(_, role)| *role == Role::Schedules)
        .map(|(device, _)| device.name.as_str())
        .collect()
}

/// A line of the table.
struct DeviceRow<'a> {
    device: &'a Device,
    /// Lines of the tree and the name.
    name: String,
    /// Lines of the tree below the name.
    below: String,
    /// Something stands on it, and is shown below it.
    carries: bool,
    /// Shown in full elsewhere.
    again: bool,
}

impl DeviceRow<'_> {
    /// What stands before what goes below the line.
    fn indent(&self) -> String {
        let trunk = if self.carries { "│ " } else { "  " };
        format!("{}{trunk}  ", self.below)
    }
}

/// What goes below a line is never folded to less than this.
const LEAST_ROOM: usize = 24;

/// The longest name of a setting: `queue/write_zeroes_unmap_max_hw_bytes`.
const DETAIL_WIDTH: usize = 37;

/// The devices in the order of the tree, each in full once.
fn rows<'a>(inventory: &'a Inventory, shown: &Shown<'a>) -> Vec<DeviceRow<'a>> {
    let is_shown = |device: &Device| match &shown.names {
        Some(names) => names.contains(device.name.as_str()),
        None => true,
    };
    let mut rows = Vec::new();
    let mut seen = HashSet::new();
    // Still to be shown, the next one last: the device, the lines before its name, and those before
    // what stands on it.
    let mut waiting: Vec<(&Device, String, String)> = shown
        .roots
        .iter()
        .rev()
        .map(|&root| (root, String::new(), String::new()))
        .collect();
    while let Some((device, before, below)) = waiting.pop() {
        let again = !seen.insert(device.name.as_str());
        let mut carries = false;
        if !again {
            let above: Vec<&Device> = inventory
                .directly_above(device)
                .into_iter()
                .filter(|device| is_shown(device))
                .collect();
            carries = !above.is_empty();
            for (at, child) in above.iter().enumerate().rev() {
                let (branch, trunk) = if at + 1 == above.len() {
                    ("└─", "  ")
                } else {
                    ("├─", "│ ")
                };
                waiting.push((child, format!("{below}{branch}"), format!("{below}{trunk}")));
            }
        }
        rows.push(DeviceRow {
            device,
            name: format!("{before}{}", device.name),
            below,
            carries,
            again,
        });
    }
    rows
}

/// The widths of the columns.
struct Columns {
    name: usize,
    /// False where there is no room for all: what the list is asked for is the scheduler.
    has_sizes: bool,
    scheduler: usize,
    /// 0 where there is none: the column is left out.
    advice: usize,
    queues: usize,
}

impl Columns {
    fn of(
        rows: &[DeviceRow<'_>],
        advised: impl Fn(&Device) -> Option<String>,
        width: usize,
    ) -> Columns {
        let column = |cell: &dyn Fn(&DeviceRow) -> usize, least: usize, most: usize| {
            rows.iter().map(cell).max().unwrap_or(0).clamp(least, most)
        };
        let name = column(&|row| row.name.chars().count(), 6, 32);
        let scheduler = column(&|row| chosen(row.device).len(), 9, 36);
        let advice = rows
            .iter()
            .filter_map(|row| Some(advised(row.device)?.len()));
        Columns {
            name,
            has_sizes: name + 2 + SIZE_WIDTH + 2 + scheduler <= width,
            scheduler,
            advice: advice.max().map_or(0, |widest| widest.max("ADVICE".len())),
            queues: column(&|row| queues(row.device).len(), 6, 10),
        }
    }

    fn begin(&self, name: &str, size: &str) -> String {
        let width = self.name;
        if self.has_sizes {
            format!("{name:width$}  {size:>SIZE_WIDTH$}  ")
        } else {
            format!("{name:width$}  ")
        }
    }

    /// What stands between the beginning of a line and what the device is.
    fn middle(&self, [scheduler, advice, rotational, queues]: [&str; 4]) -> String {
        let (of_scheduler, of_queues) = (self.scheduler, self.queues);
        let advice = match self.advice {
            0 => String::new(),
            width => format!("  {advice:width$}"),
        };
        format!("{scheduler:of_scheduler$}{advice}  {rotational:3}  {queues:of_queues$}  ")
    }
}

fn table(
    args: &ListArgs,
    host: &Host,
    inventory: &Inventory,
    shown: &Shown<'_>,
    width: usize,
) -> String {
    let rows = rows(inventory, shown);
    let advised = |device: &Device| Some(shown.differing.get(&device.name)?.should.join("/"));
    let columns = Columns::of(&rows, advised, width);
    let heads = columns.middle(["SCHEDULER", "ADVICE", "ROT", "QUEUES"]);
    let mut lines = vec![cut(
        &format!("{}{heads}WHAT", columns.begin("DEVICE", "SIZE")),
        width,
    )];
    for row in &rows {
        let device = row.device;
        let start = columns.begin(&row.name, &size(device.size_bytes));
        if row.again {
            lines.push(cut(&format!("{start}(shown above)"), width));
            continue;
        }
        let rotational = match device.rotational {
            Some(true) => "yes",
            Some(false) => "no",
            None => "?",
        };
        let advice = advised(device).unwrap_or_default();
        let middle = device
            .schedulers
            .choice()
            .map(|_| columns.middle([&chosen(device), &advice, rotational, &queues(device)]));
        let what = what(host, inventory, device);
        lines.extend(told(
            row,
            &(start + &middle.unwrap_or_default()),
            &what,
            width,
        ));
        if args.verbose {
            // Details are there to be read to the end: they are not cut.
            let before = row.indent();
            for (name, value) in details(host, inventory, device) {
                lines.push(format!("{before}{name:DETAIL_WIDTH$}  {value}"));
            }
        }
    }
    let lines = lines.iter().map(|line| visible::line(line).into_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// The lines of a device. Who uses it is never cut: what does not fit goes below it.
fn told(row: &DeviceRow<'_>, line: &str, what: &What, width: usize) -> Vec<String> {
    let What { is, uses, product } = what;
    let in_a_line = |parts: &[&[String]]| format!("{line}{}", parts.concat().join("; "));
    let room = width - usize::from(!product.is_empty());
    if uses.is_empty() || in_a_line(&[is, uses]).chars().count() <= room {
        return vec![cut(&in_a_line(&[is, uses, product]), width)];
    }
    let mut lines = vec![cut(&in_a_line(&[is, product]), width)];
    let before = row.indent();
    let room = width.saturating_sub(before.chars().count()).max(LEAST_ROOM);
    let folded = report::text::fold(&visible::line(&uses.join("; ")), room);
    lines.extend(folded.lines().map(|line| format!("{before}{line}")));
    lines
}

/// Offered schedulers with the active one in brackets; empty where there is nothing to choose.
fn chosen(device: &Device) -> String {
    device
        .schedulers
        .choice()
        .map_or(String::new(), ToString::to_string)
}

/// Hardware queues and the requests that each takes: `8x1023`.
fn queues(device: &Device) -> String {
    match (device.hardware_queues, device.queue_depth) {
        (Some(queues), Some(depth)) => format!("{queues}x{depth}"),
        (Some(queues), None) => format!("{queues}"),
        (None, Some(depth)) => format!("?x{depth}"),
        (None, None) => String::new(),
    }
}

/// What a line says of a device behind its columns, the most important first.
struct What {
    /// What it is to the scheduling, or why it has no scheduler.
    is: Vec<String>,
    uses: Vec<String>,
    /// Transport, maker and model of what has a scheduler.
    product: Vec<String>,
}

fn what(host: &Host, inventory: &Inventory, device: &Device) -> What {
    let mut parts = Vec::new();
    parts.extend(ServedInside::of(host, device).map(|served| served.words()));
    let role = inventory.role(device);
    if role == Role::PathOfMultipath {
        let above: Vec<&str> = device
            .holders
            .iter()
            .filter_map(|holder| inventory.get(holder))
            .map(|holder| holder.alias.as_deref().unwrap_or(&holder.name))
            .collect();
        parts.push(format!("path of {}: leave at none", above.join(", ")));
    }
    if let Schedulers::Nothing(reason) = &device.schedulers {
        parts.extend(why_nothing(device, reason, role));
    }
    let has_scheduler = device.schedulers.choice().is_some();
    What {
        is: parts,
        uses: uses(inventory, device),
        product: has_scheduler.then(|| product(device)).into_iter().collect(),
    }
}

/// What a device without a choice is, and why it has none. A partition needs no words: it stands
/// below its disk.
fn why_nothing(device: &Device, reason: &NoChoice, role: Role) -> Option<String> {
    let is = match &device.alias {
        Some(alias) => format!("{} {alias}", device.kind),
        None if device.kind == DeviceKind::Disk => product(device),
        None => device.kind.to_string(),
    };
    let why = match reason {
        NoChoice::Partition { .. } => return None,
        _ if role == Role::PassesOn => "scheduled below".to_owned(),
        NoChoice::NoFile => "no request queue to schedule".to_owned(),
        NoChoice::NotConfigurable => "no scheduler can be configured".to_owned(),
        other => other.to_string(),
    };
    Some(format!("{is}: {why}"))
}

/// Transport, then maker and model.
fn product(device: &Device) -> String {
    let mut words = Vec::new();
    if device.transport != Transport::Virtual {
        words.push(device.transport.to_string());
    }
    if let Some(zoned) = &device.zoned {
        words.push(format!("zoned {zoned}"));
    }
    match (&device.backing_file, &device.kind, &device.alias) {
        (Some(file), ..) => words.push(format!("loop {}", file.display())),
        (None, DeviceKind::Disk, _) => {}
        (None, kind, Some(alias)) => words.push(format!("{kind} {alias}")),
        (None, kind, None) => words.push(kind.to_string()),
    }
    // ATA is the maker of every SATA disk: the library that speaks to it fills that in.
    words.extend(device.vendor.clone().filter(|vendor| vendor != "ATA"));
    words.extend(device.model.clone());
    words.join(" ")
}

/// Mounts and swap on the device itself, and loop devices that it has the file of.
fn uses(inventory: &Inventory, device: &Device) -> Vec<String> {
    let mut uses: Vec<String> = inventory
        .usage
        .direct(&device.name)
        .iter()
        .map(|user| match user {
            User::Mount {
                mount_point,
                fs_type,
                ..
            } => format!("{} ({fs_type})", mount_point.display()),
            User::Swap { file: None, .. } => "swap".to_owned(),
            User::Swap {
                file: Some(file), ..
            } => format!("swap file {}", file.display()),
        })
        .collect();
    let loops = inventory.usage.loops(&device.name);
    if !loops.is_empty() {
        uses.push(format!("under {}", loops.join(", ")));
    }
    if let Some(member) = device.member.as_ref().filter(|_| uses.is_empty()) {
        uses.push(format!("part of {member}"));
    }
    uses
}

/// What `--verbose` says below a device: names and values.
fn details(host: &Host, inventory: &Inventory, device: &Device) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut named = |name: &str, value: &Option<String>| {
        if let Some(value) = value {
            lines.push((name.to_owned(), value.clone()));
        }
    };
    named("model", &device.model);
    named("vendor", &device.vendor);
    named("serial", &device.serial);
    named("wwn", &device.wwn);
    let file = device.backing_file.as_ref();
    named("backing file", &file.map(|file| file.display().to_string()));
    let stack = inventory.stack(device);
    if stack.len() > 1 {
        let below: Vec<&str> = stack[1..]
            .iter()
            .map(|(device, _)| device.name.as_str())
            .collect();
        named("stands on", &Some(below.join(", ")));
        let scheduled_by = scheduled_by(inventory, device);
        named(
            "scheduled by",
            &(!scheduled_by.is_empty()).then(|| scheduled_by.join(", ")),
        );
    }
    let served = ServedInside::of(host, device);
    named("schedulers inside", &served.map(|served| served.words()));
    for using in uses(inventory, device) {
        named("used as", &Some(using));
    }
    for attribute in attributes(host, device) {
        let text = match (&attribute.value, &attribute.error) {
            (Some(value), _) => {
                let unit = attribute.unit.unwrap_or("");
                let default = match attribute.default.filter(|_| attribute.differs) {
                    Some(default) => format!("(default {default})"),
                    None => String::new(),
                };
                // Statistics of schedulers have lines and columns.
                let value = value.replace('\n', "; ").replace('\t', " ");
                let words = [value.as_str(), unit, &default];
                words
                    .into_iter()
                    .filter(|word| !word.is_empty())
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            (None, Some(error)) => format!("cannot be read: {error}"),
            (None, None) => continue,
        };
        lines.push((attribute.path, text));
    }
    lines
}

/// `931.5G`: powers of 1024, at most six characters below 10 EiB.
pub(super) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "K", "M", "G", "T", "P", "E"] {
        // What would round up to 1024.0 belongs to the next unit.
        if value < 1023.95 || unit == "E" {
            let text = format!("{value:.1}");
            return format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text));
        }
        value /= 1024.0;
    }
    unreachable!("the last unit takes all")
}

/// The longest size.
const SIZE_WIDTH: usize = 6;

/// Cuts a line to a width, with a mark that something is missing.
fn cut(line: &str, width: usize) -> String {
    let line = line.trim_end();
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_powers_of_1024_with_one_digit_after_the_point() {
        assert_eq!(size(0), "0B");
        assert_eq!(size(512), "512B");
        assert_eq!(size(1 << 20), "1M");
        assert_eq!(size(1_000_204_886_016), "931.5G");
        assert_eq!(size((1 << 40) - 1), "1T");
        assert_eq!(size(u64::MAX), "16E");
    }

    #[test]
    fn a_line_that_was_cut_says_so() {
        assert_eq!(cut("12345   ", 5), "12345");
        assert_eq!(cut("123456", 5), "1234…");
        assert_eq!(cut("123 56", 5), "123…");
    }
}
