//! Who, other than a load and what serves its disks, submits I/O to them.
//!
//! The kernel itself leaves out what the load does (`set_event_notrace_pid`, Linux 5.7, with `event-fork`: what it starts is
//! left out, too), so that a load costs nothing however much it does, and every event is somebody else's. A thread of the
//! kernel works for whoever asked it to, which no event tells; but who makes a page dirty is told, and what is written of
//! it later is that one's.

use std::collections::BTreeMap;
use std::fs;

use iosched_facts::event::{Line, Op, ProcessId, Remark};

use super::{DeviceNumber, Recorder, device_number};
use crate::device::Device;
use crate::failure::{Problem, exit};
use crate::host::Host;
use crate::lossy;
use crate::process::ProcessStat;
use crate::process::processors::KERNEL_THREAD;

/// What `/proc/self/ns/pid` is where process numbers are the kernel's own (`PROC_PID_INIT_INO`).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// A process that had ended before it could be asked, and submitted nothing itself.
const UNKNOWN: &str = "?";

const PAGE_BYTES: u64 = 4096;

/// A process, and what it asked of the disks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Submitter {
    /// Its number.
    pub pid: u32,
    /// What it is called, in up to 15 bytes.
    pub command: String,
    /// It is a thread of the kernel, which works for somebody.
    pub is_kernel: bool,
    /// Bios that it submitted.
    pub ios: u64,
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Bytes that it wrote, or made dirty: whichever is more.
    pub write_bytes: u64,
}

/// A thread of one, and what it did.
#[derive(Debug, Default)]
struct Task {
    whose: Submitter,
    written_bytes: u64,
    dirtied_bytes: u64,
}

/// Records who else uses some disks. It begins paused.
#[derive(Debug)]
pub struct ForeignIo {
    recorder: Recorder,
    host: Host,
    /// The processes whose descendants are ours.
    own: Vec<i32>,
    lines: Vec<Line>,
    /// By the number of the task in the events; `None` of one that is ours.
    tasks: BTreeMap<u32, Option<Task>>,
}

impl ForeignIo {
    /// Gets ready for these disks (kernel names); ours are this process, these (servers of emulated disks), and what they
    /// start from now on.
    ///
    /// # Errors
    /// This kernel does not tell, or not us.
    pub fn open(host: &Host, disks: &[String], servers: &[i32]) -> Result<ForeignIo, Problem> {
        let namespace = fs::read_link(host.proc("self/ns/pid"));
        if !namespace.is_ok_and(|name| name.as_os_str() == INITIAL_PID_NAMESPACE) {
            let message =
                "the kernel's events name processes by other numbers than this container does";
            return Err(Problem::new(exit::MISSING, message));
        }
        let us = i32::try_from(std::process::id()).expect("it is a pid_t");
        let own: Vec<i32> = servers.iter().copied().chain([us]).collect();
        let tasks: Vec<i32> = own.iter().flat_map(|&pid| threads(host, pid)).collect();
        Ok(ForeignIo {
            recorder: Recorder::of_others(with_partitions(host, disks)?, &tasks)?,
            host: host.clone(),
            own,
            lines: Vec::new(),
            tasks: BTreeMap::new(),
        })
    }

    /// Records from now on.
    ///
    /// # Errors
    /// The tracing files cannot be used any more.
    pub fn begin(&mut self) -> Result<(), Problem> {
        self.tasks.clear();
        self.recorder.resume()
    }

    /// Takes in what has happened; to be called some ten times a second, while processes can be asked who they are.
    ///
    /// # Errors
    /// The tracing files cannot be used any more.
    pub fn drain(&mut self) -> Result<(), Problem> {
        self.recorder.drain(&mut self.lines)?;
        self.take();
        Ok(())
    }

    /// Pauses, and says who submitted what since [`ForeignIo::begin`], the most first.
    ///
    /// # Errors
    /// The tracing files cannot be used any more.
    pub fn end(&mut self) -> Result<Vec<Submitter>, Problem> {
        self.recorder.pause(&mut self.lines)?;
        self.take();
        let mut by_process: BTreeMap<(u32, String), Submitter> = BTreeMap::new();
        for task in std::mem::take(&mut self.tasks).into_values().flatten() {
            let key = (task.whose.pid, task.whose.command.clone());
            let sum = by_process.entry(key).or_insert_with(|| Submitter {
                ios: 0,
                read_bytes: 0,
                ..task.whose.clone()
            });
            sum.ios += task.whose.ios;
            sum.read_bytes += task.whose.read_bytes;
            sum.write_bytes += task.written_bytes.max(task.dirtied_bytes);
        }
        let mut all: Vec<Submitter> = by_process.into_values().collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.read_bytes + one.write_bytes));
        Ok(all)
    }

    fn take(&mut self) {
        for line in std::mem::take(&mut self.lines) {
            match line {
                Line::Event(event) => {
                    let bytes = event.length.to_bytes().as_u64();
                    let Some(task) = self.task(event.process, &event.comm) else {
                        continue;
                    };
                    if task.whose.command == UNKNOWN {
                        task.whose.command = event.comm;
                    }
                    task.whose.ios += 1;
                    match event.op {
                        Some(Op::Read) => task.whose.read_bytes += bytes,
                        Some(_) => task.written_bytes += bytes,
                        None => {}
                    }
                }
                Line::Remark(Remark::Dirtied { process, .. }) => {
                    if let Some(task) = self.task(process, "") {
                        task.dirtied_bytes += PAGE_BYTES;
                    }
                }
                Line::Remark(_) => {}
            }
        }
    }

    /// The task of this number and name; `None` if it is ours.
    fn task(&mut self, ProcessId(number): ProcessId, name: &str) -> Option<&mut Task> {
        let (host, own) = (&self.host, &self.own);
        let known = self.tasks.entry(number);
        let task = known.or_insert_with(|| {
            let whose = who(host, own, number, name)?;
            Some(Task {
                whose,
                ..Task::default()
            })
        });
        task.as_mut()
    }
}

/// Who a task is, that has this name by its event; `None` of one that works for us: the workers of an `io_uring` are
/// started without the event that tells whose they are.
fn who(host: &Host, own: &[i32], task: u32, command: &str) -> Option<Submitter> {
    let status = lossy::read(host.proc(&format!("{task}/status"))).unwrap_or_default();
    let field = |name: &str| {
        let mut lines = status.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(|value| value.trim().to_owned())
    };
    let process = field("Tgid").and_then(|pid| pid.parse().ok());
    let process: u32 = process.unwrap_or(task);
    if command.starts_with("iou-") && descends_from(host, own, process) {
        return None;
    }
    let flags = ProcessStat::read(host, task).map(|stat| stat.flags);
    let is_kernel = match flags {
        Some(flags) => flags & KERNEL_THREAD != 0,
        None => command.starts_with("kworker/"),
    };
    let named = match command {
        "" => field("Name").unwrap_or_else(|| UNKNOWN.to_owned()),
        _ => command.to_owned(),
    };
    Some(Submitter {
        pid: process,
        command: named,
        is_kernel,
        ..Submitter::default()
    })
}

fn descends_from(host: &Host, own: &[i32], process: u32) -> bool {
    let mut at = i32::try_from(process).unwrap_or(0);
    while at > 1 {
        if own.contains(&at) {
            return true;
        }
        at = ProcessStat::read(host, at).map_or(0, |stat| stat.parent);
    }
    false
}

/// The threads of a process.
fn threads(host: &Host, pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(host.proc(&format!("{pid}/task")));
    let names = entries.into_iter().flatten().flatten();
    let threads = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    threads.chain([pid]).collect()
}

/// The numbers of the disks and of their partitions: a bio is queued for the one that it was submitted to.
fn with_partitions(host: &Host, disks: &[String]) -> Result<Vec<DeviceNumber>, Problem> {
    let mut numbers = Vec::new();
    for disk in disks {
        numbers.push(device_number(host, disk)?);
        let partitions = Device::read(host, disk).map(|device| device.partitions);
        let partitions = partitions.unwrap_or_default();
        numbers.extend(
            partitions
                .iter()
                .filter_map(|name| device_number(host, name).ok()),
        );
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::device::fixture::LoopDevice;

    #[test]
    fn what_others_do_is_theirs_and_what_we_start_is_ours() {
        let Some(disk) = LoopDevice::new(8) else {
            return;
        };
        let node = format!("/dev/{}", disk.name);
        let reads = format!("dd if={node} of=/dev/null bs=64k count=3 iflag=direct 2>&1");
        let writes = format!("dd if=/dev/zero of={node} bs=64k count=2 conv=notrunc 2>&1");
        // Started before we watch, it is no descendant of what we leave out.
        let started = Command::new("sh")
            .args(["-c", &format!("read line; {reads}; {writes}; read line")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut other = started.unwrap();
        let watched = ForeignIo::open(&Host::live(), std::slice::from_ref(&disk.name), &[]);
        let Ok(mut watched) = watched else {
            // An older kernel, or a container.
            other.kill().unwrap();
            other.wait().unwrap();
            return;
        };
        watched.begin().unwrap();
        let ours = Command::new("sh")
            .args(["-c", &format!("{reads}; {writes}")])
            .output();
        assert!(ours.unwrap().status.success());
        let mut others = watched.end().unwrap();
        others.retain(|one| !one.is_kernel);
        assert_eq!(others, []);

        watched.begin().unwrap();
        let mut input = other.stdin.take().unwrap();
        input.write_all(b"\n").unwrap();
        let mut said = std::io::BufReader::new(other.stdout.take().unwrap());
        let mut seen = Vec::new();
        let is_done = iosched_testing::wait_until(|| {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut said, &mut line).unwrap();
            watched.drain().unwrap();
            seen.push(line.clone());
            seen.iter().filter(|line| line.contains("copied")).count() == 2
        });
        assert!(is_done, "{seen:?}");
        let mut others = watched.end().unwrap();
        input.write_all(b"\n").unwrap();
        other.wait().unwrap();
        others.retain(|one| one.command == "dd");
        let read: u64 = others.iter().map(|one| one.read_bytes).sum();
        let written: u64 = others.iter().map(|one| one.write_bytes).sum();
        assert_eq!((read, written), (3 << 16, 2 << 16), "{others:?}");
        assert!(others.iter().all(|one| !one.is_kernel), "{others:?}");
    }
}
