//! `iosched simulate`: a load under several schedulers on a disk model, in virtual time.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use iosched_emulate::disk_file;
use iosched_emulate::spec::{parse_order, parse_size};
use iosched_experiment::load::builtin::BUILT_IN;
use iosched_experiment::objective::Objective;
use iosched_experiment::simulate::replay::{Loop, Meter, TraceReport};
use iosched_experiment::simulate::run::{
    self, Load, Plan, RunResult, START, Share, Simulated, SimulationRequest,
};
use iosched_facts::scheduler;
use iosched_machine::failure::{Failure, exit};
use iosched_report::table::{Align, Table};
use iosched_report::text::fold;
use iosched_report::words::{self, enumerate};
use iosched_sim::disk::{DriveQueue, ModelOptions};
use iosched_sim::simulate::{Attachment, Writeback};
use iosched_sim::units::{Bytes, Nanos};

use super::trace_args::{TraceArgs, describe};
use super::{Outcome, boxed, loads};
use crate::meter::watched;
use crate::output::Output;
use crate::values::{
    MORE, Span, is_multi_queue, parse_count, parse_micros, schedulers_in_words, split_arms,
    usual_hz_in_words,
};

/// Arguments of `iosched simulate`.
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = "\
Examples:
  iosched simulate --load examples/two-sequential-readers.fio
      every scheduler on a 7200 rpm drive
  iosched simulate --disk ssd-sata --scheduler deadline:fifo_batch=1 --json
      one scheduler with a tunable, as JSON
  iosched simulate --load examples/database-beside-copy.fio --memory 256M
      a database that syncs beside a copy through a page cache of 256 MiB
  iosched simulate --load examples/control-groups.fio --scheduler cfq
      control groups with weights
  iosched simulate --trace sda.blktrace.0 --size 4T
      a blktrace recording of all CPUs, each access at its recorded time
  iosched simulate --trace hm_0.csv.gz --speed 4 --wrap
      a published trace, four times as fast, folded onto the disk
  iosched simulate --trace sda.blkparse.txt --closed --scheduler cfq
      a closed loop: the recorded waits and think times, not the recorded times
")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct SimulateArgs {
    #[arg(
        long,
        value_name = "SCHEDULER",
        help = "Scheduler to simulate; several, with commas [default: all]",
        long_help = format!(
            "Scheduler, as NAME or NAME:TUNABLE=VALUE,…; repeatable, or with commas [default: {}]",
            schedulers_in_words(|_| true)
        )
    )]
    scheduler: Vec<String>,

    /// Load (`iosched help loads`), or a fio job file
    #[arg(
        long,
        value_name = "LOAD",
        default_value = "random-read",
        conflicts_with = "trace"
    )]
    load: String,

    /// A variable of the job file, as fio's ${NAME}; repeatable
    #[arg(long = "define", value_name = "NAME=VALUE", value_parser = super::tune::parse_define, hide_short_help = true)]
    defines: Vec<(String, String)>,

    /// Simulated time to stop after
    #[arg(
        long,
        value_name = "TIME",
        long_help = "Simulated time to stop after, if the load has not ended before [default: the jobs' `runtime`, at \
                     least 10s; a trace's end]"
    )]
    until: Option<Span>,

    /// Seed of all random choices: the same seed gives the same run
    #[arg(long, default_value_t = 0, hide_short_help = true)]
    seed: u64,

    /// Initial state of the scheduler (cfq: average, last-position; bfq: see results/bfq.md)
    #[arg(long, value_name = "NAME=VALUE,…", hide_short_help = true)]
    initial: Option<String>,

    /// Print a table of all processes under each scheduler
    #[arg(long, conflicts_with = "csv")]
    details: bool,

    /// Print lines of comma-separated values
    #[arg(long, conflicts_with = "events")]
    csv: bool,

    /// Write every event into this new file, in the form that `iosched conform` reads
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    events: Option<PathBuf>,

    /// Disk model (`iosched emulate models`), or a .toml file
    #[arg(long, default_value = "hdd-7200", value_name = "MODEL", help_heading = DISK)]
    disk: String,

    /// Size of the disk: 512M, 32G, 4T [default: the model's]
    #[arg(long, value_parser = parse_size, help_heading = DISK)]
    size: Option<Bytes>,

    /// Queue depth of the disk [default: the model's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65536), help_heading = DISK)]
    queue_depth: Option<u64>,

    /// Order inside the drive (NCQ): fifo or shortest-access-first [default: the model's]
    #[arg(long, value_parser = parse_order, help_heading = DISK, hide_short_help = true)]
    order: Option<DriveQueue>,

    /// The drive's write cache [default: the model's]
    #[arg(long, value_name = "on|off", value_parser = ["on", "off"], help_heading = DISK, hide_short_help = true)]
    write_cache: Option<String>,

    /// Make the disk N times slower
    #[arg(
        long,
        value_name = "N",
        value_parser = parse_count::<NonZeroU32>,
        help_heading = DISK,
        hide_short_help = true
    )]
    slow_down: Option<NonZeroU32>,

    /// Commands that the disk accepts at a time, like a SCSI disk whose task set is full beyond that [default: no limit]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=4096),
        help_heading = DISK,
        hide_short_help = true
    )]
    device_limit: Option<u64>,

    #[arg(long, help_heading = HOST, hide_short_help = true, help = format!(
        "Attach the disk as SCSI or SATA: {} dispatch only into a free slot [default: as loop, virtio and NVMe]",
        schedulers_in_words(is_multi_queue)
    ))]
    scsi: bool,

    /// Simulate the host of an emulated disk (`iosched emulate`), with its loop driver and server
    #[arg(long, conflicts_with = "cpus", help_heading = HOST, hide_short_help = true)]
    emulated: bool,

    #[arg(
        long,
        value_name = "N",
        value_parser = parse_count::<NonZeroUsize>,
        help_heading = HOST,
        hide_short_help = true,
        help = format!(
            "Requests of each kind that may be queued [default: 128; {}: twice the queue depth, 64 to 256]",
            schedulers_in_words(|info| is_multi_queue(info) && !info.direct)
        )
    )]
    nr_requests: Option<NonZeroUsize>,

    /// Longest request in KiB (`queue/max_sectors_kb`) [default: 1280; 4096 with kernel=6.18 and later]
    #[arg(
        long,
        value_name = "KIB",
        value_parser = clap::value_parser!(u64).range(4..=1 << 20),
        help_heading = HOST,
        hide_short_help = true
    )]
    max_sectors_kb: Option<u64>,

    #[arg(long, value_name = "N", help_heading = HOST, hide_short_help = true, help = format!(
        "Ticks per second of the simulated kernel: 100, 250, 300 or 1000 [default: {}]",
        usual_hz_in_words()
    ))]
    hz: Option<u32>,

    /// Time since the last timer tick when the run begins, in µs if it has no unit
    #[arg(
        long,
        value_name = "TIME",
        default_value = "0",
        value_parser = parse_micros,
        help_heading = HOST,
        hide_short_help = true
    )]
    tick_phase: f64,

    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=1024),
        help_heading = HOST,
        hide_short_help = true,
        help = format!(
            "Number of processors, on which each request of {} costs time [default: they cost none]",
            schedulers_in_words(is_multi_queue)
        )
    )]
    cpus: Option<u64>,

    /// Hardware queues of the disk, each with the queue depth [default: one for each of --cpus, or one]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=1024),
        help_heading = HOST,
        hide_short_help = true
    )]
    hardware_queues: Option<u64>,

    #[arg(long, value_name = "TIME", help_heading = HOST, hide_short_help = true, help = format!(
        "Write-back throttling: target latency of reads, as in `queue/wbt_lat_usec` (not with {}) [default: off]",
        schedulers_in_words(|info| !is_multi_queue(info))
    ))]
    wbt_lat: Option<Span>,

    /// Memory of the simulated machine, which limits dirty pages of jobs that write with direct=0
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1G",
        value_parser = parse_memory,
        help_heading = HOST,
        hide_short_help = true
    )]
    memory: Bytes,

    /// Percentage of --memory that may be dirty (`vm.dirty_ratio`)
    #[arg(
        long,
        default_value_t = 20,
        value_name = "PERCENT",
        value_parser = clap::value_parser!(u8).range(0..=100),
        help_heading = HOST,
        hide_short_help = true
    )]
    dirty_ratio: u8,

    /// Percentage of --memory above which dirty pages are written back (`vm.dirty_background_ratio`)
    #[arg(
        long,
        default_value_t = 10,
        value_name = "PERCENT",
        value_parser = clap::value_parser!(u8).range(0..=100),
        help_heading = HOST,
        hide_short_help = true
    )]
    dirty_background_ratio: u8,

    #[command(flatten)]
    trace: TraceArgs,
}

/// Headings of the options.
const DISK: &str = "The disk";
const HOST: &str = "The machine";

fn parse_memory(text: &str) -> Result<Bytes, String> {
    let memory = parse_size(text)?;
    let can_be = Bytes::from_mib(1)..=Bytes::from_mib(1 << 30);
    if can_be.contains(&memory) {
        Ok(memory)
    } else {
        Err("a machine has between 1M and 1024T".into())
    }
}

/// Runs `iosched simulate`.
pub(crate) fn run(args: &SimulateArgs, output: &Output) -> Outcome {
    if args.load == "help" {
        return loads::run(output);
    }
    let wanted = wanted(args)?;
    let meter = Arc::new(Meter::default());
    let plan = watched("reading the trace", &meter, output, || {
        Plan::watched(wanted, Arc::clone(&meter))
    });
    let plan = plan.map_err(boxed)?;
    let simulated = watched("simulating", &meter, output, || plan.run()).map_err(boxed)?;
    if output.is_json() {
        output.json(&simulated);
    } else if args.csv {
        output.text(&run::csv(&simulated));
    } else {
        let width = output.table_width();
        let several = simulated.runs.len() > 1;
        let mut text = head(&simulated);
        if several {
            text = comparison(&simulated, &text, output.width());
        }
        if several && !args.details {
            text += "\nDetails:     --details, for every process\n";
        } else {
            text += &tables(&simulated, width);
        }
        output.text(&text);
        if let Some(at) = simulated.cut_at_ns {
            output.warn(&format!(
                "The runs were ended after {} s, before their jobs had ended: --until TIME lets them go on.",
                at as f64 / 1e9
            ));
        }
        if let Some(accuracy) = &simulated.accuracy {
            output.note(accuracy);
        }
    }
    Ok(exit::OK)
}

fn wanted(args: &SimulateArgs) -> Result<SimulationRequest, Box<dyn Failure>> {
    let usual = || {
        scheduler::usual()
            .map(|info| info.name.to_owned())
            .collect()
    };
    let schedulers = if args.scheduler.is_empty() {
        usual()
    } else {
        split_arms(&args.scheduler)
    };
    let load = match args.trace.options() {
        Some(trace) => Load::Trace(trace),
        None => Load::named(&args.load, args.defines.clone()).map_err(boxed)?,
    };
    Ok(SimulationRequest {
        until: args.until.map(|Span(time)| nanos(time)),
        disk: disk_file::find(&args.disk).map_err(boxed)?,
        options: ModelOptions {
            size: args.size,
            queue_depth: None,
            order: args.order,
            write_cache: args.write_cache.as_deref().map(|cache| cache == "on"),
            slow_down: args.slow_down,
            seed: args.seed,
        },
        schedulers,
        leaves_refused_out: args.scheduler.is_empty(),
        load,
        initial: args.initial.clone(),
        queue_depth: args
            .queue_depth
            .and_then(|depth| usize::try_from(depth).ok()),
        device_limit: args
            .device_limit
            .and_then(|most| usize::try_from(most).ok()),
        nr_requests: args.nr_requests.map(NonZeroUsize::get),
        max_sectors: args.max_sectors_kb.map(Bytes::from_kib),
        hz: args.hz,
        tick_phase_us: args.tick_phase,
        attachment: if args.scsi {
            Attachment::Budget
        } else {
            Attachment::TagOnly
        },
        emulated: args.emulated,
        hardware_queues: args
            .hardware_queues
            .and_then(|queues| usize::try_from(queues).ok()),
        wbt_lat: args.wbt_lat.map(|Span(time)| nanos(time)),
        processors: args.cpus.and_then(|cpus| usize::try_from(cpus).ok()),
        seed: args.seed,
        writeback: Writeback {
            memory: args.memory,
            dirty_ratio: args.dirty_ratio,
            background_ratio: args.dirty_background_ratio,
            ..Writeback::default()
        },
        events: args.events.clone(),
    })
}

fn nanos(time: Duration) -> Nanos {
    Nanos::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// What decides between schedulers: the load's own number; of accesses that come at their recorded times, the latency.
fn objective(simulated: &Simulated) -> Objective {
    let is_open = |trace: &TraceReport| trace.mode == Loop::Open;
    let mut built_in = BUILT_IN.iter();
    if simulated
        .runs
        .iter()
        .all(|run| run.numbers.contains_key(START))
    {
        Objective::Time
    } else if simulated.trace.as_ref().is_some_and(is_open) {
        Objective::Mean
    } else {
        let found = built_in.find(|load| load.name == simulated.load);
        found.map_or(Objective::Throughput, |load| load.objective)
    }
}

/// What a run gives of it, and how that is written.
fn decides(objective: Objective, run: &RunResult) -> (f64, String) {
    let total = &run.total;
    let read = total
        .read
        .as_ref()
        .map_or(total.latency, |read| read.latency);
    let time = |ns: f64| (ns, words::time(ns));
    match objective {
        Objective::Time => time(run.numbers[START] * 1e9),
        Objective::Mean => time(total.latency.mean_ns as f64),
        Objective::ReadP99 => time(read.p99_ns as f64),
        Objective::Fairness => (run.fairness, words::number(run.fairness)),
        _ => (total.bytes_per_second, words::rate(total.bytes_per_second)),
    }
}

/// Nearer than this, one run does not tell schedulers apart.
const EQUAL: f64 = 1.01;

/// Which schedulers are best and by how much, then a line for each.
fn comparison(simulated: &Simulated, head: &str, width: usize) -> String {
    let objective = objective(simulated);
    let name = match objective {
        Objective::Time => "time to start a program",
        objective => objective.words(),
    };
    let runs = &simulated.runs;
    let ratio =
        |run: &RunResult, to: &RunResult| decides(objective, run).0 / decides(objective, to).0;
    let is_better = |run: &RunResult, than: &RunResult| {
        let ratio = ratio(run, than);
        let times_as_good = if objective.higher_is_better() {
            ratio
        } else {
            1.0 / ratio
        };
        times_as_good > EQUAL
    };
    let (best, worse): (Vec<_>, Vec<_>) = runs
        .iter()
        .partition(|run| !runs.iter().any(|other| is_better(other, run)));
    let next = worse
        .iter()
        .find(|run| !worse.iter().any(|other| is_better(other, run)));
    let place = format!("for {} on a simulated {}", simulated.load, simulated.disk);
    let (what, grounds) = match next {
        None => (
            format!("no difference {place}"),
            format!(
                "The {name} is the same within {}.",
                words::percent(EQUAL - 1.0)
            ),
        ),
        Some(next) => (
            format!(
                "{} {} best {place}",
                enumerate(best.iter().map(|run| run.scheduler.as_str())),
                if best.len() == 1 { "is" } else { "are" }
            ),
            format!(
                "{} × the {name} under {}, the next.",
                words::number(ratio(best[0], next)),
                next.scheduler
            ),
        ),
    };
    let idlest = runs.iter().map(idle).fold(1.0, f64::min);
    let grounds = if idlest > MOSTLY {
        let idlest = words::percent(idlest);
        format!(
            "{grounds} The disk was idle for {idlest} of the time: this is the page cache, not the disk."
        )
    } else {
        grounds
    };
    let column = match objective {
        Objective::Time => "time",
        _ => name,
    };
    let mut table = Table::new([("scheduler", Align::Left), (column, Align::Right)]);
    let to_first = format!("ratio to {}", runs[0].scheduler);
    for head in [&to_first, "p99", "mean seek", "disk idle"] {
        table.column(head, Align::Right);
    }
    for run in runs {
        table.row([
            run.scheduler.clone(),
            decides(objective, run).1,
            words::number(ratio(run, &runs[0])),
            words::time(run.total.latency.p99_ns as f64),
            words::size(run.mean_seek_sectors * 512.0),
            words::percent(idle(run)),
        ]);
    }
    let once = "One run each, with one seed: no interval.";
    fold(&format!("Answer: {what}."), width)
        + &fold(&format!("\u{a0} {grounds} {once}"), width)
        + "\n"
        + head
        + "\n"
        + &table.render(width)
}

/// The disk, the load, and what was found in a trace.
fn head(simulated: &Simulated) -> String {
    let slowed = simulated
        .slow_down
        .map_or(String::new(), |factor| format!(" ({factor} times as slow)"));
    let mut text = format!(
        "{}{slowed} of {}, queue depth {}, load {}\nnr_requests {}\n",
        simulated.disk,
        Bytes::new(simulated.disk_bytes),
        simulated.queue_depth,
        simulated.load,
        requests(&simulated.runs)
    );
    if let Some(trace) = &simulated.trace {
        text += &(describe(trace).join("\n") + "\n");
    }
    text
}

/// `64`, or `64 (mq-deadline and bfq), 32 (none)`.
fn requests(runs: &[RunResult]) -> String {
    let mut numbers: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for run in runs {
        numbers
            .entry(run.nr_requests)
            .or_default()
            .push(&run.scheduler);
    }
    let is_one = numbers.len() == 1;
    let numbers = numbers.into_iter().rev().map(|(number, of)| {
        if is_one {
            return number.to_string();
        }
        format!("{number} ({})", enumerate(of.into_iter()))
    });
    numbers.collect::<Vec<_>>().join(", ")
}

/// One block per scheduler, one line per process.
fn tables(simulated: &Simulated, width: usize) -> String {
    let mut text = String::new();
    let tables: Vec<(Table, usize)> = simulated.runs.iter().map(shares).collect();
    // On a narrow terminal the numbers from the right are left out, the same in all tables.
    let columns = tables.iter().map(|(table, _)| table.fitting(width)).min();
    for (run, (table, hidden)) in simulated.runs.iter().zip(&tables) {
        text.push('\n');
        text += &table.render_first(columns.unwrap_or(0));
        text += &notes(run, *hidden);
        text += &of_disk(run);
    }
    text
}

/// The processes of a run, and how many are left out.
fn shares(run: &RunResult) -> (Table, usize) {
    let mut table = Table::new([(run.scheduler.as_str(), Align::Left)]);
    for head in [
        "MB/s", "IOPS", "mean ms", "p99 ms", "queue ms", "p50 ms", "p99.9 ms", "max ms",
    ] {
        table.column(head, Align::Right);
    }
    let several = run.processes.len() > 1;
    let (shown, hidden) = busiest(&run.processes);
    for share in shown.into_iter().chain(several.then_some(&run.total)) {
        table.push(row(share));
    }
    (table, hidden)
}

fn of_disk(run: &RunResult) -> String {
    let elapsed = run.elapsed_ns as f64 / 1e9;
    let speed = elapsed / (run.wall_ns as f64 / 1e9).max(1e-9);
    format!(
        "  {} commands, mean seek {:.3} GB, {:.1} % sequential\n  \
         disk idle {:.1} %, fairness {:.2}; {elapsed:.1} s simulated, {speed:.0} times as fast as real\n",
        run.commands,
        run.mean_seek_sectors * 512.0 / 1e9,
        run.sequential_share * 100.0,
        idle(run) * 100.0,
        run.fairness,
    )
}

/// A disk that is idle for a larger share of the time decides nothing.
const MOSTLY: f64 = 0.9;

fn idle(run: &RunResult) -> f64 {
    run.disk_idle_ns as f64 / run.elapsed_ns.max(1) as f64
}

/// What the table has no columns for.
fn notes(run: &RunResult, hidden: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    if hidden > 0 {
        lines.push(format!(
            "  {hidden} processes more, with fewer accesses (--json has all)\n"
        ));
    }
    let syncs = run.processes.iter().filter(|share| share.syncs > 0);
    lines.extend(syncs.map(sync_line));
    let numbers = run.numbers.iter();
    lines.extend(numbers.map(|(name, number)| format!("  {name} {number:.3}\n")));
    if run.held_back_ns > 0 {
        lines.push(format!(
            "  the disk could not keep up: the trace was held back by {:.1} s in all\n",
            run.held_back_ns as f64 / 1e9
        ));
    }
    lines.concat()
}

/// What a process that syncs waited for that.
fn sync_line(share: &Share) -> String {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    format!(
        "  {} synced {} times: mean {:.3} ms, p99 {:.3} ms\n",
        share.name,
        share.syncs,
        ms(share.sync_latency.mean_ns),
        ms(share.sync_latency.p99_ns),
    )
}

/// The processes with most accesses, in their order, and how many others there are.
fn busiest(processes: &[Share]) -> (Vec<&Share>, usize) {
    let mut accesses: Vec<u64> = processes.iter().map(|share| share.accesses).collect();
    accesses.sort_unstable_by(|a, b| b.cmp(a));
    let least = accesses.get(MOST_ROWS - 1).copied().unwrap_or(0);
    let shown = processes.iter().filter(|share| share.accesses >= least);
    let shown: Vec<&Share> = shown.take(MOST_ROWS).collect();
    let hidden = processes.len() - shown.len();
    (shown, hidden)
}

/// Processes in a table.
const MOST_ROWS: usize = 20;

fn row(share: &Share) -> Vec<String> {
    let ms = |nanos: u64| format!("{:.3}", nanos as f64 / 1e6);
    let latency = share.latency;
    vec![
        format!("  {}", share.name),
        format!("{:.2}", share.bytes_per_second / 1e6),
        format!("{:.0}", share.iops),
        ms(latency.mean_ns),
        ms(latency.p99_ns),
        ms(share.queue_time.mean_ns),
        ms(latency.p50_ns),
        ms(latency.p999_ns),
        ms(latency.max_ns),
    ]
}
