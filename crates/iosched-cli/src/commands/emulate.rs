//! `iosched emulate`: disk models as block devices: make, list, compare with the model, remove.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use iosched_emulate::disk_file;
use iosched_emulate::over::{MOST_COMMANDS, Over, Wish};
use iosched_emulate::spec::{STATE_DIR, Spec, order_name, parse_order, parse_size};
use iosched_emulate::{
    self as emulate, Attributed, Check, Condition, EmulatedDisk, Removal, Spread, Status, User,
};
use iosched_machine::device::Consent;
use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_report::table::{Align, Table};
use iosched_sim::disk::{DriveQueue, Model, models};
use iosched_sim::units::{Bytes, Nanos};
use serde_json::json;

use super::Outcome;
use crate::output::Output;
use crate::values::parse_count;

/// Arguments of `iosched emulate`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched emulate models                what there is, and what each leaves out
  iosched emulate models --toml hdd-10k > mine.toml; $EDITOR mine.toml
  iosched emulate create mine.toml      a disk of your own
  iosched emulate create hdd-7200       prints its device, as /dev/loop8
  iosched emulate create ssd-sata --size 32G --queue-depth 8
  mkfs.ext4 /dev/loop8                  it is a disk like any other
  iosched emulate create hdd-7200 --scheduler cfq
                                        cfq inside it, on today's kernel
  iosched emulate create --over sdb --scheduler cfq --destroy-data
                                        the same over a real disk
  iosched emulate list
  iosched emulate check loop8           does it take the times of its model?
  iosched emulate remove loop8

Data are really stored, in memory unless --backing-dir says where; time is the
model's: a disk of 8 ms answers in 8 ms, whatever this machine's disk does.")]
pub(crate) struct EmulateArgs {
    #[command(subcommand)]
    command: EmulateCommand,

    /// Where running disks have their directories
    #[arg(long, global = true, hide = true, default_value = STATE_DIR)]
    state_dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum EmulateCommand {
    /// Make a disk and print its device
    Create(Box<CreateArgs>),
    /// Show emulated disks, and what killed servers have left
    #[command(after_help = "\
Examples:
  iosched emulate list
  iosched emulate list --json | jq -r .[].device")]
    List,
    /// Show the disk models that there are, or one as a file to change
    Models(ModelsArgs),
    /// Take a disk away; refused while it is used
    Remove(RemoveArgs),
    /// Compare the time of single random reads with what the model says
    Check(CheckArgs),
    /// Put another scheduler inside a disk that has one, while it runs
    Set(SetArgs),
    /// Be the disk whose directory this is
    #[command(hide = true)]
    Serve { dir: PathBuf },
}

/// Arguments of `iosched emulate models`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iosched emulate models
  iosched emulate models --toml hdd-10k > mine.toml")]
struct ModelsArgs {
    /// Print this model (a name, or a .toml file) as a complete .toml file
    #[arg(long, value_name = "MODEL|FILE")]
    toml: Option<String>,
}

/// Arguments of `iosched emulate create`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  disk=$(iosched emulate create hdd-7200)
  iosched emulate create ssd-sata --size 32G --queue-depth 8
  iosched emulate create hdd-7200 --scheduler cfq:slice_idle=0
  iosched emulate create mine.toml --backing-dir /var/tmp --owner-pid $$
  iosched emulate create --over /srv/disk.img --size 8G --scheduler deadline
  iosched emulate create --over sdb --depth 4 --scheduler cfq --destroy-data
  iosched emulate create --over sdb --read-only --scheduler cfq

Over a disk or file, its bytes are those of the new device. What holds something
is written only if --destroy-data names it. More options: --help")]
struct CreateArgs {
    /// Disk model (`iosched emulate models`), or a .toml file
    #[arg(value_name = "MODEL", required_unless_present = "over")]
    model: Option<String>,

    /// Stand over this disk or file, not a model
    #[arg(
        long,
        value_name = "DEVICE",
        long_help = "Stand over this disk or file instead of a model: commands go there with direct I/O",
        requires = "scheduler",
        conflicts_with_all = ["model", "queue_depth", "order", "write_cache", "slow_down", "backing_dir", "seed"]
    )]
    over: Option<String>,

    /// Commands under way below at a time, 1 to 32; default: what the disk takes, 32 at most
    #[arg(long, value_name = "N", requires = "over", conflicts_with = "model", hide_short_help = true, value_parser = clap::value_parser!(u8).range(1..=MOST_COMMANDS as i64))]
    depth: Option<u8>,

    /// Take no writes
    #[arg(long, requires = "over", conflicts_with_all = ["model", "destroy_data", "size"])]
    read_only: bool,

    /// Allow writes below
    #[arg(
        long,
        value_name = "DEVICE",
        long_help = "Allow what is below to be written; name it again if it holds something. A file of zeros needs neither",
        requires = "over",
        conflicts_with = "model", // clap asks for nothing that conflicts with what is there
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    destroy_data: Option<String>,

    /// Size: 32G, 4T [default: the model's]
    #[arg(
        long,
        value_parser = parse_size,
        long_help = "Size: 32G, 4T [default: the model's]. Only what is written takes space. With --over: make a new file of \
                     this size"
    )]
    size: Option<Bytes>,

    /// Queue depth [default: the model's]
    #[arg(long, value_name = "N")]
    queue_depth: Option<usize>,

    /// Order inside the drive (NCQ): fifo or shortest-access-first
    #[arg(long, value_parser = parse_order, hide_short_help = true)]
    order: Option<DriveQueue>,

    /// Volatile write cache [default: the model's]
    #[arg(long, value_name = "on|off", value_parser = ["on", "off"], hide_short_help = true)]
    write_cache: Option<String>,

    /// Make the disk N times slower, if this machine cannot keep up with the model
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = parse_count::<NonZeroU32>)]
    slow_down: Option<NonZeroU32>,

    /// Scheduler inside the disk, also cfq
    #[arg(
        long,
        value_name = "SCHEDULER",
        long_help = "Scheduler inside the disk, as NAME or NAME:TUNABLE=VALUE,…: any of `iosched simulate`. The kernel's own \
                     above it is none"
    )]
    scheduler: Option<String>,

    /// Directory for the data [default: memory]
    #[arg(
        long,
        value_name = "DIR",
        long_help = "Directory for the data [default: /dev/shm if there is memory to spare, else /var/tmp]"
    )]
    backing_dir: Option<PathBuf>,

    /// Tell the kernel that the disk rotates [default: as the model]
    #[arg(long, overrides_with = "no_rotational", hide_short_help = true)]
    rotational: bool,

    /// Tell the kernel that the disk does not rotate
    #[arg(long, hide_short_help = true)]
    no_rotational: bool,

    /// Seed of the model's random choices
    #[arg(long, default_value_t = 0, hide_short_help = true)]
    seed: u64,

    /// Remove the disk when this process ends
    #[arg(long, value_name = "PID")]
    owner_pid: Option<i32>,
}

/// Arguments of `iosched emulate remove`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iosched emulate remove loop8
  iosched emulate remove --all --force")]
struct RemoveArgs {
    /// Disks to remove, by device or id
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    disks: Vec<String>,

    /// Remove all emulated disks, and what killed servers have left
    #[arg(long)]
    all: bool,

    /// Also from under those who use it: file systems are unmounted, others get I/O errors
    #[arg(long)]
    force: bool,
}

/// Arguments of `iosched emulate check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iosched emulate check loop8
  iosched emulate check loop8 --reads 500 --json")]
struct CheckArgs {
    /// Disk to check, by device or id
    disk: String,

    /// How many reads
    #[arg(long, default_value_t = 2000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    reads: u64,

    /// Where the positions come from
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Arguments of `iosched emulate set`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iosched emulate set loop8 deadline
  iosched emulate set hdd-7200-1 cfq:slice_idle=0,low_latency=0

What the old scheduler holds is done first, as in the kernel.")]
struct SetArgs {
    /// Disk, by device or id
    disk: String,

    /// Scheduler with tunables: one of those that `iosched simulate` has
    #[arg(value_name = "SCHEDULER[:NAME=VALUE,…]")]
    scheduler: String,
}

/// Runs `iosched emulate`.
pub(crate) fn run(args: &EmulateArgs, output: &Output) -> Outcome {
    let state_dir = &args.state_dir;
    let needs_root = !matches!(
        args.command,
        EmulateCommand::Models(_) | EmulateCommand::Serve { .. }
    );
    let mut missing = emulate::missing(&Host::live()).into_iter();
    let lacks_root = missing.find(|missing| missing.code == exit::NOT_PERMITTED);
    if let Some(root) = lacks_root.filter(|_| needs_root) {
        return Err(root.into());
    }
    let done = match &args.command {
        EmulateCommand::Create(create) => make(create, state_dir, output),
        EmulateCommand::List => emulate::list_in(state_dir).map(|disks| show(&disks, output)),
        EmulateCommand::Models(models) => show_models(models, output),
        EmulateCommand::Remove(remove) => take_away(remove, state_dir, output),
        EmulateCommand::Check(check) => compare(check, state_dir, output),
        EmulateCommand::Set(set) => switch(set, state_dir, output),
        EmulateCommand::Serve { dir } => return Ok(emulate::serve(dir)),
    };
    done.map(|()| exit::OK)
        .map_err(|failure| Box::new(failure) as _)
}

fn make(args: &CreateArgs, state_dir: &Path, output: &Output) -> Result<(), Problem> {
    let server = std::env::current_exe().map_err(|error| {
        let message = format!("cannot find the program of the server, iosched: {error}");
        Problem::new(exit::FAILURE, message)
    })?;
    let mut below = Vec::new();
    let mut spec = match (&args.over, &args.scheduler, &args.model) {
        (Some(target), Some(scheduler), _) => {
            emulate::check_scheduler(scheduler)?;
            let over = Over::choose(&Host::live(), &wish(args, target, &consent(args)))?;
            below = over.schedulers_below(&Host::live());
            Spec::over(over, scheduler.clone(), server)
        }
        (_, _, Some(model)) => with_model(args, disk_file::find(model)?, server),
        _ => unreachable!("clap asks for a model, or a target and a scheduler"),
    };
    spec.rotational = match (args.rotational, args.no_rotational) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    spec.owner_pid = args.owner_pid;
    state_dir.clone_into(&mut spec.state_dir);
    let disk = EmulatedDisk::create(&spec)?;
    let status = disk.status();
    if output.is_json() {
        output.json(&status);
    } else {
        output.text(&format!("/dev/{}", disk.device()));
        output.note(&describe(&status));
        for (disk, scheduler) in below {
            output.note(&format!(
                "{scheduler} on {disk} decides after it; `iosched set {disk} none` lets all pass"
            ));
        }
    }
    Ok(())
}

fn with_model(args: &CreateArgs, model: Model, server: PathBuf) -> Spec {
    let mut spec = Spec::new(model, server);
    spec.size_bytes = args.size.map(Bytes::as_u64);
    spec.queue_depth = args.queue_depth;
    spec.order = args.order;
    spec.write_cache = args.write_cache.as_deref().map(|cache| cache == "on");
    spec.slow_down = args.slow_down;
    spec.scheduler.clone_from(&args.scheduler);
    // The server has another working directory.
    let absolute = |dir: &PathBuf| std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
    spec.backing_dir = args.backing_dir.as_ref().map(absolute);
    spec.seed = args.seed;
    spec
}

fn wish<'a>(args: &CreateArgs, target: &'a str, consent: &'a Consent) -> Wish<'a> {
    Wish {
        target,
        size: args.size,
        depth: args.depth.map(usize::from),
        read_only: args.read_only,
        consent,
    }
}

/// What the user said about the data below.
fn consent(args: &CreateArgs) -> Consent {
    match args.destroy_data.as_deref() {
        None => Consent::No,
        Some("") => Consent::ToWrite,
        Some(target) => Consent::Named(target.to_owned()),
    }
}

/// One line about a new disk, for people.
fn describe(status: &Status) -> String {
    let where_to = match (&status.backing_dir, status.backing_in_memory) {
        _ if status.over.is_some() => over(status).unwrap_or_default(),
        (Some(dir), Some(true)) => format!("data in memory ({})", dir.display()),
        (Some(dir), _) => format!("data in {}", dir.display()),
        (None, _) => "no data".to_owned(),
    };
    let depth = status.queue_depth.unwrap_or(0);
    let inside = status.scheduler.as_ref();
    let inside = inside.map_or(String::new(), |scheduler| format!("{scheduler} inside, "));
    let driver_depth = status.driver_depth.map_or(depth, |depth| depth as usize);
    // The kernel takes neither fewer than 4 nor more than the loop driver's own depth.
    let differs = if driver_depth == depth || status.scheduler.is_some() {
        String::new()
    } else {
        format!(" (the kernel hands it {driver_depth} at once)")
    };
    let slowed = status.slow_down.filter(|&factor| factor > 1);
    let slowed = slowed.map_or(String::new(), |factor| format!("{factor} times as slow, "));
    format!(
        "{}: {}, {inside}queue depth {depth}{differs}, {slowed}{where_to}; remove it with `iosched emulate remove {}`",
        status.id,
        size_of(status),
        status.id
    )
}

/// What it stands over.
fn over(status: &Status) -> Option<String> {
    let read_only = if status.read_only { ", read-only" } else { "" };
    let over = status.over.as_ref()?;
    Some(format!("over {}{read_only}", over.display()))
}

fn size_of(status: &Status) -> String {
    status
        .size_bytes
        .map_or("?".to_owned(), |size| Bytes::new(size).to_string())
}

fn show(disks: &[Status], output: &Output) {
    if output.is_json() {
        return output.json(&disks);
    }
    if disks.is_empty() {
        return output.note("no emulated disks; `iosched emulate create MODEL` makes one");
    }
    let heads = ["ID", "DEVICE", "SIZE", "STORED", "DEPTH", "STATE"];
    let mut table = Table::new(heads.map(|head| (head, Align::Left)));
    for disk in disks {
        let device = disk
            .device
            .as_ref()
            .map_or("-".to_owned(), |name| format!("/dev/{name}"));
        let stored = disk
            .stored_bytes
            .map_or("-".to_owned(), |stored| Bytes::new(stored).to_string());
        let depth = disk
            .queue_depth
            .map_or("-".to_owned(), |depth| depth.to_string());
        let state = match disk.condition {
            Condition::Running => running(disk),
            Condition::NotAnswering => not_answering(disk),
            Condition::Starting => "starting".to_owned(),
            Condition::Remains => format!("remains: {}", disk.remains.join(", ")),
        };
        table.row([disk.id.clone(), device, size_of(disk), stored, depth, state]);
    }
    output.text(&table.render_folded(output.width()));
    if disks
        .iter()
        .any(|disk| disk.condition == Condition::Remains)
    {
        output.note(
            "remains are of disks whose server is gone; `iosched emulate remove --all` clears them",
        );
    }
}

/// A disk whose server is stopped, or waits for something itself.
fn not_answering(disk: &Status) -> String {
    match disk.server_pid {
        Some(pid) => format!("its server (pid {pid}) does not answer"),
        None => "its server does not answer".to_owned(),
    }
}

/// A running disk, by what sets it apart and who uses it.
fn running(disk: &Status) -> String {
    let mut words = vec!["running".to_owned()];
    words.extend(over(disk));
    let slowed = disk.slow_down.filter(|&factor| factor > 1);
    words.extend(slowed.map(|factor| format!("{factor} times as slow")));
    let inside = disk.scheduler.as_ref();
    words.extend(inside.map(|scheduler| format!("{scheduler} inside")));
    words.extend(disk.attributed.as_ref().and_then(unattributed));
    if !disk.users.is_empty() {
        words.push(User::list(&disk.users));
    }
    words.join(", ")
}

/// What the scheduler inside does not know of who asked.
fn unattributed(counts: &Attributed) -> Option<String> {
    let Attributed {
        known,
        unknown,
        why_not,
    } = counts;
    match why_not {
        Some(why) => Some(format!("all accesses count as one process's ({why})")),
        None if *unknown > 0 => {
            let all = known + unknown;
            Some(format!(
                "of {unknown} of {all} accesses the process is not known"
            ))
        }
        None => None,
    }
}

fn show_models(args: &ModelsArgs, output: &Output) -> Result<(), Problem> {
    if let Some(name) = &args.toml {
        output.text(disk_file::find(name)?.text());
        return Ok(());
    }
    if output.is_json() {
        let models: Vec<_> = models()
            .iter()
            .map(|model| {
                json!({
                    "name": model.name,
                    "summary": model.summary,
                    "rotational": model.rotational(),
                    "size_bytes": model.capacity().as_u64(),
                    "queue_depth": model.queue_depth(),
                    "order": model.order().map(order_name),
                    "write_cache": model.write_cache(),
                    "sources": model.sources,
                    "leaves_out": model.leaves_out,
                })
            })
            .collect();
        output.json(&models);
        return Ok(());
    }
    let heads = ["MODEL", "SIZE", "DEPTH", "WRITE CACHE", "WHAT"];
    let mut table = Table::new(heads.map(|head| (head, Align::Left)));
    for model in models() {
        table.row([
            model.name.clone(),
            model.capacity().to_string(),
            model.queue_depth().to_string(),
            if model.write_cache() { "on" } else { "none" }.to_owned(),
            model.summary.clone(),
        ]);
    }
    output.text(&table.render_folded(output.width()));
    Ok(())
}

fn take_away(args: &RemoveArgs, state_dir: &Path, output: &Output) -> Result<(), Problem> {
    let Removal {
        removed,
        left,
        failures,
    } = if args.all {
        emulate::remove_all(state_dir, args.force)?
    } else {
        emulate::remove_each(state_dir, &args.disks, args.force)
    };
    if output.is_json() {
        let not_removed: Vec<_> = failures
            .iter()
            .map(|(id, why)| json!({ "disk": id, "error": why.message, "exit_code": why.code }))
            .collect();
        output.json(&json!({ "removed": removed, "still_open": left, "not_removed": not_removed }));
    } else {
        if removed.is_empty() && failures.is_empty() {
            output.note("no emulated disks: nothing to remove");
        }
        for id in &removed {
            output.note(&format!("{id} removed"));
        }
    }
    if !left.is_empty() {
        output.note(&format!(
            "{}: it gets errors from now on, and the loop device goes when it is closed and \
             `iosched emulate remove --all` is run again",
            User::list(&left)
        ));
    }
    why_not_all(failures)
}

/// The one reason, or all of them.
fn why_not_all(mut failures: Vec<(String, Problem)>) -> Result<(), Problem> {
    match failures.len() {
        0 => Ok(()),
        1 => Err(failures.remove(0).1),
        _ => {
            let each = failures.iter().map(|(id, why)| format!("{id}: {why}"));
            let message = format!("not removed: {}", each.collect::<Vec<_>>().join("; "));
            let hint = failures.iter().find_map(|(_, why)| why.hint.clone());
            Err(Problem::new(failures[0].1.code, message).maybe_hint(hint))
        }
    }
}

fn switch(args: &SetArgs, state_dir: &Path, output: &Output) -> Result<(), Problem> {
    let status = emulate::set(state_dir, &args.disk, &args.scheduler)?;
    if output.is_json() {
        output.json(&status);
    } else {
        output.note(&format!("{}: {} inside", status.id, args.scheduler));
    }
    Ok(())
}

fn compare(args: &CheckArgs, state_dir: &Path, output: &Output) -> Result<(), Problem> {
    let reads = usize::try_from(args.reads).expect("there are less");
    let check = emulate::check(state_dir, &args.disk, reads, args.seed)?;
    if output.is_json() {
        output.json(&check);
    } else {
        output.text(&report(&check));
    }
    Ok(())
}

fn report(check: &Check) -> String {
    let inside = check.inside.as_ref();
    let mut text = format!(
        "{} (/dev/{}): {} random reads of 4 KiB at depth 1, scheduler {}{}\n",
        check.id,
        check.device,
        check.reads,
        check.scheduler,
        inside.map_or(String::new(), |scheduler| format!(
            " above {scheduler} inside"
        ))
    );
    let micros = |ns: i64| format!("{:.1}", ns as f64 / 1e3);
    let row = |name: &str, spread: &Spread| {
        let numbers = [spread.min, spread.p50, spread.p99, spread.max].map(micros);
        let [min, p50, p99, max] = numbers;
        [name.to_owned(), min, p50, p99, max]
    };
    let mut table = Table::new([("µs", Align::Left)]);
    for head in ["min", "median", "p99", "max"] {
        table.column(head, Align::Right);
    }
    table.row(row("modelled", &check.modelled_ns));
    table.row(row("measured", &check.measured_ns));
    table.row(row("measured - modelled", &check.difference_ns));
    table.row(row("answered late by", &check.late_ns));
    text.push_str(&table.render(80));
    let path = Nanos::new(check.path_ns);
    let _ = writeln!(text, "taken off for the way to the model and back: {path}");
    text
}
