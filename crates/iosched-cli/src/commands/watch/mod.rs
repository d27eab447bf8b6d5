//! `iosched watch`: what each device does now, on a live screen or line by line.
//!
//! [`screen`] draws what [`state`] holds; this file reads counters and keys, and does what the user
//! asks for.

mod lines;
mod screen;
mod state;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use clap::Args;
use iosched_machine::device;
use iosched_machine::failure::{Failure, NO_PROC, Problem, exit};
use iosched_machine::host::Host;
use iosched_machine::process::Stop;
use iosched_machine::watch::latency::{LatencySample, LatencyWatch};
use iosched_machine::watch::{Sample, Watcher};
use iosched_policy::history;
use iosched_policy::set::Change;
use iosched_switch::Arm;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Serialize;

use self::state::{Action, State};
use super::{Outcome, boxed, stop_on_signals};
use crate::output::Output;
use crate::values::Span;

/// How long a key may wait for its answer.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  iosched watch                         all disks, live; ? shows the keys
  iosched watch sda nvme0n1             these only
  iosched watch --once                  one line per disk over one second
  iosched watch --interval 5s | tee log a table every 5 seconds
  iosched watch --json --count 10       ten samples, one JSON object a line
  iosched watch --once --split sda      and how await is split

Columns are those of `iostat -x`: requests and megabytes (10^6) per second,
await in ms from queueing to completion, the mean number of requests queued or
in service, and the share of time in which the device had something to do.
On the screen `s` switches the scheduler of the chosen device, after asking, and
marks the moment on its history. Reading counters needs no rights; switching and
recording the events that tell the split do.")]
pub(crate) struct WatchArgs {
    /// Devices to watch [default: every disk that has a size]
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,

    /// Time between two looks
    #[arg(long, short, value_name = "TIME", default_value = "1s")]
    interval: Span,

    /// Look once over one interval, print, and end
    #[arg(long, conflicts_with = "count")]
    once: bool,

    /// End after so many looks
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// Split await into queue and service time, by the block layer's events (prints lines)
    #[arg(long, requires = "devices")]
    split: bool,

    /// Print lines even on a terminal
    #[arg(long)]
    plain: bool,
}

/// The counters cannot be read.
fn no_counters(cause: &io::Error) -> Problem {
    let hint = (cause.kind() == io::ErrorKind::NotFound).then_some(NO_PROC);
    let message = format!("cannot read /proc/diskstats: {cause}");
    Problem::new(exit::FAILURE, message).maybe_hint(hint)
}

fn no_terminal(cause: &io::Error) -> Problem {
    let message = format!("cannot use this terminal: {cause}");
    Problem::new(exit::FAILURE, message).hint("print lines with --plain")
}

/// Runs `iosched watch`.
pub(crate) fn run(args: &WatchArgs, output: &Output) -> Outcome {
    let host = Host::live();
    let mut names = Vec::new();
    for device in &args.devices {
        let found = device::find(&host, device).map_err(boxed)?;
        if !names.contains(&found.name) {
            names.push(found.name);
        }
    }
    let watcher = Watcher::new(&host, names)
        .map_err(|cause| no_counters(&cause))
        .map_err(boxed)?;
    let stop = Stop::new();
    stop_on_signals(&stop);
    let is_live =
        !(args.plain || args.split || args.once || args.count.is_some() || output.is_json())
            && io::stdout().is_terminal()
            && io::stdin().is_terminal();
    if is_live {
        live(&host, watcher, args.interval.0, &stop).map_err(boxed)?;
    } else {
        print_lines(args, watcher, output, &stop).map_err(boxed)?;
    }
    Ok(exit::OK)
}

/// One table, or one JSON object, per interval.
fn print_lines(
    args: &WatchArgs,
    mut watcher: Watcher,
    output: &Output,
    stop: &Stop,
) -> Result<(), Problem> {
    let count = if args.once { Some(1) } else { args.count };
    let mut splits = if args.split {
        Splits::start(&Host::live(), watcher.wanted(), output)
    } else {
        Splits::default()
    };
    let mut next = Instant::now();
    let mut done = 0;
    while count.is_none_or(|count| done < count) {
        next += args.interval.0;
        while Instant::now() < next {
            if stop.is_wanted() || output.lost().is_some() || output.is_unread() {
                return Ok(());
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()).min(TICK));
            splits.drain(output);
        }
        let sample = watcher.look().map_err(|cause| no_counters(&cause))?;
        let latency = splits.look(output);
        if output.is_json() {
            output.json(&WithSplit { sample, latency });
        } else {
            output.text(&lines::table(&sample));
            for (device, latency) in &latency {
                let split = lines::split_lines(latency);
                output.text(&format!("{device:<8} {}\n{:<8} {}", split[0], "", split[1]));
            }
            if count.is_none_or(|count| done + 1 < count) {
                output.text("");
            }
        }
        done += 1;
    }
    Ok(())
}

/// A sample, and the latencies of those devices whose events are recorded.
#[derive(Serialize)]
struct WithSplit {
    #[serde(flatten)]
    sample: Sample,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    latency: BTreeMap<String, LatencySample>,
}

/// The recordings that tell how await is split, by device. Where one cannot be made or goes on no
/// more, that is said once, and counters remain.
#[derive(Default)]
struct Splits(BTreeMap<String, LatencyWatch>);

impl Splits {
    fn start(host: &Host, devices: &[String], output: &Output) -> Splits {
        let start = |device: &String| match LatencyWatch::start(host, device) {
            Ok(watch) => Some((device.clone(), watch)),
            Err(error) => {
                not_split(device, &error, output);
                None
            }
        };
        Splits(devices.iter().filter_map(start).collect())
    }

    fn drain(&mut self, output: &Output) {
        self.0.retain(|device, watch| match watch.drain() {
            Ok(()) => true,
            Err(error) => {
                not_split(device, &error, output);
                false
            }
        });
    }

    fn look(&mut self, output: &Output) -> BTreeMap<String, LatencySample> {
        self.drain(output);
        let looks = self.0.iter_mut();
        looks
            .filter_map(|(device, watch)| Some((device.clone(), watch.look().ok()?)))
            .collect()
    }
}

fn not_split(device: &str, error: &Problem, output: &Output) {
    output.note(&format!(
        "{device}: await is not split: {}",
        in_a_line(error)
    ));
}

/// The screen, until the user has seen enough.
fn live(host: &Host, watcher: Watcher, interval: Duration, stop: &Stop) -> Result<(), Problem> {
    ignore_resizes();
    let mut terminal = ratatui::try_init().map_err(|cause| no_terminal(&cause))?;
    let ended = follow(host, watcher, interval, stop, &mut terminal);
    ratatui::restore();
    ended
}

/// Keeps SIGWINCH from us: the size is asked for at each drawing. Where a key and the signal come at once, crossterm
/// 0.29 sees the one and does not look for the other until another key comes.
fn ignore_resizes() {
    let mut resized = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is ours, and made empty before it is read; the call changes this thread's mask alone.
    unsafe {
        libc::sigemptyset(resized.as_mut_ptr());
        libc::sigaddset(resized.as_mut_ptr(), libc::SIGWINCH);
        libc::pthread_sigmask(libc::SIG_BLOCK, resized.as_ptr(), null_mut());
    }
}

fn follow(
    host: &Host,
    mut watcher: Watcher,
    interval: Duration,
    stop: &Stop,
    terminal: &mut ratatui::DefaultTerminal,
) -> Result<(), Problem> {
    let mut state = State::new(host_name(), interval);
    let mut next = Instant::now() + interval;
    while !stop.is_wanted() {
        terminal
            .draw(|frame| screen::draw(&state, frame))
            .map_err(|cause| no_terminal(&cause))?;
        let wait = next.saturating_duration_since(Instant::now()).min(TICK);
        if is_hung_up(wait).map_err(|cause| no_terminal(&cause))? {
            return Ok(());
        }
        if event::poll(Duration::ZERO).map_err(|cause| no_terminal(&cause))?
            && let Event::Key(key) = event::read().map_err(|cause| no_terminal(&cause))?
            && key.kind == KeyEventKind::Press
        {
            match state.press(key) {
                Action::None => {}
                Action::Quit => return Ok(()),
                Action::Switch { device, scheduler } => {
                    let said = switch(host, &device, &scheduler);
                    state.switched(&device, &scheduler, said);
                }
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + state.interval;
            state.add(watcher.look().map_err(|cause| no_counters(&cause))?);
        }
    }
    Ok(())
}

/// Waits for a key, at the most this long; true if nobody will ever press one, because the terminal
/// was closed. crossterm 0.29 would read its end again and again, and never come back.
fn is_hung_up(wait: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut keyboard = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
    match rustix::event::poll(&mut keyboard, Some(&wait)) {
        Ok(_) => Ok(keyboard[0]
            .revents()
            .intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// As `iosched set` does it; the error in one line. Waiting for long would freeze the screen.
fn switch(host: &Host, device: &str, scheduler: &str) -> Result<(), String> {
    let arm = Arm::new(scheduler, std::iter::empty()).map_err(|error| in_a_line(&error))?;
    let change = Change::plan(host, device, &arm).map_err(|error| in_a_line(&error))?;
    let stop = Stop::new();
    let turn = history::take_turn(host, &stop, &mut |_| stop.ask());
    let turn = turn.map_err(|error| in_a_line(&error))?;
    let made = change.make(host).map_err(|error| in_a_line(&error))?;
    made.keep(&turn, None).map_err(|error| in_a_line(&error))
}

fn in_a_line(failure: &dyn Failure) -> String {
    match failure.hint() {
        Some(hint) => format!("{failure} ({hint})"),
        None => failure.to_string(),
    }
}

fn host_name() -> String {
    let uname = rustix::system::uname();
    format!(
        "{}, Linux {}",
        uname.nodename().to_string_lossy(),
        uname.release().to_string_lossy()
    )
}
