//! `iosched watch`: what each device does now, on a live screen or line by line.
//!
//! [`screen`] draws what [`state`] holds; this file reads counters and keys, and does what the user
//! asks for.

mod lines;
mod screen;
mod state;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use clap::Args;
use iosched::device;
use iosched::failure::{Failure, exit};
use iosched::host::Host;
use iosched::process::Stop;
use iosched::set::Change;
use iosched::switch::Arm;
use iosched::watch::Watcher;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec};

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

Columns are those of `iostat -x`: requests and megabytes (10^6) per second,
await in ms from queueing to completion, the mean number of requests queued or
in service, and the share of time in which the device had something to do.
On the screen `s` switches the scheduler of the chosen device, after asking, and
marks the moment on its history. Reading needs no rights, switching does.")]
pub(crate) struct WatchArgs {
    /// Devices to watch (default: every disk that has a size)
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

    /// Print lines even on a terminal
    #[arg(long)]
    plain: bool,
}

/// The counters cannot be read, or the terminal cannot be used.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("cannot read /proc/diskstats: {0}")]
    Counters(#[source] io::Error),
    #[error("cannot use this terminal: {0}")]
    Terminal(#[source] io::Error),
}

impl Failure for WatchError {
    fn hint(&self) -> Option<String> {
        match self {
            WatchError::Counters(_) => None,
            WatchError::Terminal(_) => Some("print lines with --plain".to_owned()),
        }
    }
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
    let watcher = Watcher::new(&host, names).map_err(|error| boxed(WatchError::Counters(error)))?;
    let stop = Stop::new();
    stop_on_signals(&stop);
    let is_live = !(args.plain || args.once || args.count.is_some() || output.is_json())
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
) -> Result<(), WatchError> {
    let count = if args.once { Some(1) } else { args.count };
    let mut next = Instant::now();
    let mut done = 0;
    while count.is_none_or(|count| done < count) {
        next += args.interval.0;
        while Instant::now() < next {
            if stop.is_wanted() || output.lost().is_some() {
                return Ok(());
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()).min(TICK));
        }
        let sample = watcher.look().map_err(WatchError::Counters)?;
        if output.is_json() {
            output.json(&sample);
        } else {
            output.text(&lines::table(&sample));
            if count.is_none_or(|count| done + 1 < count) {
                output.text("");
            }
        }
        done += 1;
    }
    Ok(())
}

/// The screen, until the user has seen enough.
fn live(host: &Host, watcher: Watcher, interval: Duration, stop: &Stop) -> Result<(), WatchError> {
    let mut terminal = ratatui::try_init().map_err(WatchError::Terminal)?;
    let ended = follow(host, watcher, interval, stop, &mut terminal);
    ratatui::restore();
    ended
}

fn follow(
    host: &Host,
    mut watcher: Watcher,
    interval: Duration,
    stop: &Stop,
    terminal: &mut ratatui::DefaultTerminal,
) -> Result<(), WatchError> {
    let mut state = State::new(host_name(), interval);
    let mut next = Instant::now() + interval;
    while !stop.is_wanted() {
        terminal
            .draw(|frame| screen::draw(&state, frame))
            .map_err(WatchError::Terminal)?;
        let wait = next.saturating_duration_since(Instant::now()).min(TICK);
        if is_hung_up(wait).map_err(WatchError::Terminal)? {
            return Ok(());
        }
        if event::poll(Duration::ZERO).map_err(WatchError::Terminal)?
            && let Event::Key(key) = event::read().map_err(WatchError::Terminal)?
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
            next = Instant::now() + interval;
            let sample = watcher.look().map_err(WatchError::Counters)?;
            state.add(sample);
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

/// As `iosched set` does it; the error in one line.
fn switch(host: &Host, device: &str, scheduler: &str) -> Result<(), String> {
    let in_a_line = |failure: &dyn Failure| match failure.hint() {
        Some(hint) => format!("{failure} ({hint})"),
        None => failure.to_string(),
    };
    let arm = Arm::new(scheduler, std::iter::empty()).map_err(|error| in_a_line(&error))?;
    let change = Change::plan(host, device, &arm).map_err(|error| in_a_line(&error))?;
    let made = change.make(host).map_err(|error| in_a_line(&error))?;
    made.keep(host, None).map_err(|error| in_a_line(&error))
}

fn host_name() -> String {
    let uname = rustix::system::uname();
    format!(
        "{}, Linux {}",
        uname.nodename().to_string_lossy(),
        uname.release().to_string_lossy()
    )
}
