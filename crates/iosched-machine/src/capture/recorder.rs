//! Sets an instance up for one disk, reads the pages of its processors, and puts the events in order.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use iosched_facts::event::{Line, Remark};
use iosched_facts::units::{Nanos, Time};
use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};

use super::event::{BLOCK_EVENTS, DIRTY_EVENTS, Decoder, EXIT_EVENT, INDISPENSABLE, KYBER_EVENTS};
use super::format::{HeaderFormat, PageFormat};
use super::page::Page;
use super::tracefs::{Instance, Tracefs};
use super::{DeviceNumber, Events, not_understood, unusable};
use crate::failure::{Problem, exit};
use crate::host::Host;

/// Memory for the buffers of all processors together.
const BUFFERS_KIB: usize = 64 << 10;
/// For one processor: a second of 30 000 requests, with all their events, fits into the larger.
const BUFFER_KIB: std::ops::RangeInclusive<usize> = 1 << 10..=16 << 10;

/// An event is in the buffer at most this long after its time.
const SETTLED: Nanos = Nanos::from_millis(2);

/// What the kernel could not keep, and what was not understood.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events that were overwritten before they were read, or found no room.
    pub events: u64,
    /// Records that are no event that was asked for.
    pub unknown: u64,
    /// Events read.
    pub read: u64,
}

/// A recording under way. When dropped, its instance is removed; after a SIGKILL the next recorder
/// or `iosched restore` does that.
#[derive(Debug)]
pub struct Recorder {
    /// Before the instance, which cannot go while they are open.
    processors: Vec<Processor>,
    instance: Instance,
    /// The one that is followed; several with [`Recorder::of_others`].
    devices: Vec<DeviceNumber>,
    /// Of the events, as folders below `events`.
    names: Vec<String>,
    decoder: Decoder,
    page_format: PageFormat,
    header_format: HeaderFormat,
    page: Vec<u8>,
    /// Read, and perhaps to be preceded by what another processor still has.
    pending: Vec<(Time, Line)>,
    read: u64,
    unknown: u64,
    /// Lost, as pages say: less than there were if the last of a processor's events were lost.
    lost_in_pages: u64,
}

#[derive(Debug)]
struct Processor {
    number: u16,
    pages: File,
}

impl Recorder {
    /// Records what happens on the disk of this [number](super::device_number).
    pub fn start(device: DeviceNumber, events: &[Events]) -> Result<Recorder, Problem> {
        Recorder::open(vec![device], events, None)
    }

    /// Records, from [`Recorder::resume`] on, what all tasks but these, and what these start from now on, submit to the
    /// devices. The number of each is the one that it has where the kernel's own are.
    pub(super) fn of_others(devices: Vec<DeviceNumber>, own: &[i32]) -> Result<Recorder, Problem> {
        let mut recorder = Recorder::open(devices, &[Events::Submitted], Some(own))?;
        recorder.pause(&mut Vec::new())?;
        Ok(recorder)
    }

    fn open(
        devices: Vec<DeviceNumber>,
        events: &[Events],
        own: Option<&[i32]>,
    ) -> Result<Recorder, Problem> {
        let host = Host::live();
        let tracefs = Tracefs::open()?;
        tracefs.sweep(&host);
        let instance = tracefs.make_instance(&host)?;
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", clock(&instance.read("trace_clock")?))?;
        if let Some(own) = own {
            let own: Vec<String> = own.iter().map(ToString::to_string).collect();
            instance.write("options/event-fork", "1")?;
            instance.write("set_event_notrace_pid", &own.join(" "))?;
        }
        let mut decoder = match events {
            [Events::Requests] => Decoder::nameless(),
            _ => Decoder::default(),
        };
        let names = wanted(&tracefs, events);
        for event in &names {
            let format = tracefs.read(&format!("events/{event}/format"))?;
            let name = event.rsplit('/').next().unwrap_or(event);
            decoder.learn(name, &format).map_err(not_understood)?;
            let filter = match name {
                name if DIRTY_EVENTS.contains(&name) => filter_of_dirty(&devices),
                _ if is_of_disk(event) => filter(&devices, 0),
                _ => String::new(),
            };
            if !filter.is_empty() {
                instance.write(&format!("events/{event}/filter"), &filter)?;
            }
            instance.write(&format!("events/{event}/enable"), "1")?;
        }
        let numbers = processors(&instance)?;
        let each = match events {
            [Events::Asked | Events::Submitted, ..] => *BUFFER_KIB.start(), // read with each request
            _ => BUFFERS_KIB / numbers.len().max(1),
        };
        let each = each.clamp(*BUFFER_KIB.start(), *BUFFER_KIB.end());
        instance.write("buffer_size_kb", &each.to_string())?;
        let processors = numbers
            .into_iter()
            .map(|number| Processor::open(&instance, number))
            .collect::<Result<Vec<_>, _>>()?;
        let page_format =
            PageFormat::parse(&tracefs.read("events/header_page")?).map_err(not_understood)?;
        let header_format =
            HeaderFormat::parse(&tracefs.read("events/header_event")?).map_err(not_understood)?;
        instance.write("tracing_on", "1")?;
        Ok(Recorder {
            processors,
            instance,
            devices,
            names,
            decoder,
            page_format,
            header_format,
            page: vec![0; page_format.size()],
            pending: Vec::new(),
            read: 0,
            unknown: 0,
            lost_in_pages: 0,
        })
    }

    /// The instance's name among the kernel's.
    pub fn instance(&self) -> &str {
        self.instance.name()
    }

    /// Takes what happened up to a moment ago, in the order of time (of the clock
    /// `CLOCK_MONOTONIC`). To be called often enough that the buffers do not fill up: ten times a
    /// second is enough for any disk.
    pub fn drain(&mut self, into: &mut Vec<Line>) -> Result<(), Problem> {
        let settled = monotonic() - SETTLED;
        self.read_all()?;
        self.drain_pending(settled, into);
        Ok(())
    }

    /// Takes all that is in the buffers now, however late another processor tells of what was before.
    pub fn take(&mut self, into: &mut Vec<Line>) -> Result<(), Problem> {
        self.read_all()?;
        self.drain_pending(Time::from_nanos(u64::MAX), into);
        Ok(())
    }

    /// Records nothing from now on, and takes what is left.
    pub fn pause(&mut self, into: &mut Vec<Line>) -> Result<(), Problem> {
        self.instance.write("tracing_on", "0")?;
        self.take(into)
    }

    /// Records again.
    pub fn resume(&mut self) -> Result<(), Problem> {
        self.instance.write("tracing_on", "1")
    }

    /// From now on follows only the requests that begin in every 2^`halvings`-th stretch of the disk:
    /// the rest costs the kernel a look, and us nothing.
    pub fn sample(&mut self, halvings: u32) -> Result<(), Problem> {
        for event in self.names.iter().filter(|event| is_of_disk(event)) {
            let file = format!("events/{event}/filter");
            self.instance
                .write(&file, &filter(&self.devices, halvings))?;
        }
        Ok(())
    }

    /// Events read so far.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Ends the recording, takes what is left of it, and says what was lost.
    pub fn finish(mut self, into: &mut Vec<Line>) -> Result<Losses, Problem> {
        self.pause(into)?;
        Ok(Losses {
            events: self.lost()?,
            unknown: self.unknown,
            read: self.read,
        })
    }

    /// Events that were lost so far, by the kernel's own count.
    pub fn lost(&self) -> Result<u64, Problem> {
        let mut lost = 0;
        for processor in &self.processors {
            let text = self
                .instance
                .read(&format!("per_cpu/cpu{}/stats", processor.number))?;
            lost += lost_by(&text);
        }
        Ok(lost.max(self.lost_in_pages))
    }

    fn drain_pending(&mut self, until: Time, into: &mut Vec<Line>) {
        self.pending.sort_by_key(|&(time, _)| time); // stable: a processor's own order is kept
        let settled = self.pending.partition_point(|&(time, _)| time < until);
        into.extend(self.pending.drain(..settled).map(|(_, line)| line));
    }

    fn read_all(&mut self) -> Result<(), Problem> {
        for index in 0..self.processors.len() {
            while self.read_page(index)? {}
        }
        Ok(())
    }

    /// Reads a page of this processor; false if it has none.
    fn read_page(&mut self, index: usize) -> Result<bool, Problem> {
        let Processor { number, pages } = &mut self.processors[index];
        let cpu = *number;
        let length = match pages.read(&mut self.page) {
            Ok(0) => return Ok(false),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(source) => {
                return Err(unusable(
                    "read",
                    &self.instance.path(&raw_path(cpu)),
                    &source,
                ));
            }
        };
        let failed = |cause| {
            let message = format!("what processor {cpu} recorded cannot be read: {cause}");
            Problem::new(exit::FAILURE, message)
        };
        let bytes = &self.page[..length];
        let mut page = Page::new(bytes, &self.page_format, self.header_format).map_err(failed)?;
        self.lost_in_pages += page.lost();
        while let Some(raw) = page.next_record().map_err(failed)? {
            match self.decoder.decode(&raw, cpu) {
                Some(line) => {
                    self.read += 1;
                    self.pending.push((time_of(&line), line));
                }
                None => self.unknown += 1,
            }
        }
        Ok(true)
    }
}

/// Length of a stretch of the disk, as a power of two in sectors: 64 KiB, so that requests of up to this
/// size, wherever they are aligned, fall evenly into stretches.
const STRETCH: u32 = 7;

/// What the kernel asks of an event before it keeps it.
fn filter(devices: &[DeviceNumber], halvings: u32) -> String {
    let devices = devices.iter().map(|device| format!("dev == {}", device.0));
    let device = devices.collect::<Vec<_>>().join(" || ");
    match halvings {
        0 => device,
        _ => format!(
            "{device} && !(sector & {})",
            ((1_u64 << halvings) - 1) << STRETCH
        ),
    }
}

/// The same of pages that become dirty: the event names the disk by its number, as text.
fn filter_of_dirty(devices: &[DeviceNumber]) -> String {
    let names = devices
        .iter()
        .map(|DeviceNumber(number)| format!("name == \"{}:{}\"", number >> 20, number & 0xf_ffff));
    names.collect::<Vec<_>>().join(" || ")
}

/// The events to be switched on, as folders below `events`. Those that every kernel has are named
/// even if they are not there: the error tells then.
fn wanted(tracefs: &Tracefs, events: &[Events]) -> Vec<String> {
    let mut names = Vec::new();
    for kind in events {
        match kind {
            Events::Block | Events::Requests => {
                let count = match kind {
                    Events::Requests => INDISPENSABLE,
                    _ => BLOCK_EVENTS.len(),
                };
                let block = BLOCK_EVENTS.iter().take(count).enumerate();
                names.extend(
                    block
                        .map(|(index, (name, _))| (index, format!("block/{name}")))
                        .filter(|(index, name)| *index < INDISPENSABLE || tracefs.has_event(name))
                        .map(|(_, name)| name),
                );
            }
            Events::Asked => {
                names.extend(["block/block_bio_queue", "block/block_rq_issue"].map(str::to_owned));
            }
            Events::Submitted => {
                let dirty = DIRTY_EVENTS.iter().map(|name| format!("writeback/{name}"));
                names.push("block/block_bio_queue".to_owned());
                names.extend(dirty.filter(|name| tracefs.has_event(name)));
            }
            Events::Exits => {
                let exit = format!("sched/{EXIT_EVENT}");
                names.extend(Some(exit).filter(|name| tracefs.has_event(name)));
            }
            Events::Kyber => {
                let kyber = KYBER_EVENTS.iter().map(|name| format!("kyber/{name}"));
                names.extend(kyber.filter(|name| tracefs.has_event(name)));
            }
        }
    }
    names
}

/// The clock to stamp events with, of those that `trace_clock` offers: before Linux 3.17 there is none that the rest of
/// the system has, too, and the one that is the same on all processors has to do.
fn clock(offered: &str) -> &'static str {
    let has_mono = offered
        .split_whitespace()
        .any(|name| name.trim_matches(['[', ']']) == "mono");
    if has_mono { "mono" } else { "global" }
}

/// The event is one of a disk's, and says of which.
fn is_of_disk(event: &str) -> bool {
    !event.starts_with("sched/")
}

/// The processors that have a buffer.
fn processors(instance: &Instance) -> Result<Vec<u16>, Problem> {
    let path = instance.path("per_cpu");
    let entries = fs::read_dir(&path).map_err(|error| unusable("read", &path, &error))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let numbers = names.filter_map(|name| name.strip_prefix("cpu")?.parse().ok());
    let mut numbers: Vec<u16> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn raw_path(cpu: u16) -> String {
    format!("per_cpu/cpu{cpu}/trace_pipe_raw")
}

impl Processor {
    fn open(instance: &Instance, number: u16) -> Result<Processor, Problem> {
        let path = instance.path(&raw_path(number));
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag of open");
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(nonblocking)
            .open(&path);
        let pages = opened.map_err(|error| unusable("open", &path, &error))?;
        Ok(Processor { number, pages })
    }
}

/// Events that `per_cpu/cpuN/stats` says were lost.
fn lost_by(stats: &str) -> u64 {
    let lines = stats.lines().filter_map(|line| line.split_once(':'));
    let lost = lines
        .filter(|(name, _)| matches!(name.trim(), "overrun" | "commit overrun" | "dropped events"));
    lost.filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .sum()
}

fn time_of(line: &Line) -> Time {
    match line {
        Line::Event(event) => event.time,
        Line::Remark(
            Remark::Kyber { time, .. } | Remark::Exit { time, .. } | Remark::Dirtied { time, .. },
        ) => *time,
        Line::Remark(_) => Time::ZERO,
    }
}

fn monotonic() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    Time::from_nanos(part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_stamped_by_a_clock_that_the_kernel_has() {
        let since_3_17 = "[local] global counter uptime perf mono mono_raw boot x86-tsc\n";
        assert_eq!(clock(since_3_17), "mono");
        assert_eq!(clock("local global counter uptime perf [mono]\n"), "mono");
        assert_eq!(
            clock("[local] global counter uptime perf x86-tsc\n"),
            "global"
        );
        assert_eq!(clock("[local] global mono_raw\n"), "global");
    }

    #[test]
    fn what_the_kernel_lost_is_all_that_it_says() {
        let stats = "entries: 0\noverrun: 12\ncommit overrun: 1\nbytes: 52\n\
                     oldest event ts:  2.1\nnow ts:  3.2\ndropped events: 30\nread events: 9\n";
        assert_eq!(lost_by(stats), 43);
    }
}
