//! Who does the I/O: what each process had read from and written to disks between two looks.
//!
//! What counts, and of whom it is told: `process/io_account.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Instant;

use serde::Serialize;

use crate::host::Host;
use crate::lossy;
use crate::process::{self, IoBytes};

/// What a process did between two looks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessIo {
    /// Its number.
    pub pid: i32,
    /// The name of its command.
    pub command: String,
    /// Fetched from disks per second.
    pub read_bytes_per_s: f64,
    /// Given to disks, or made dirty, per second.
    pub write_bytes_per_s: f64,
}

/// What was seen of all processes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Processes {
    /// Those that did any I/O, who did most first.
    pub busy: Vec<ProcessIo>,
    /// How many may not be looked at.
    pub hidden: usize,
}

/// Looks at processes again and again.
#[derive(Debug)]
pub struct ProcessWatch {
    host: Host,
    at: Instant,
    before: BTreeMap<i32, IoBytes>,
}

impl ProcessWatch {
    /// Looks for the first time.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn start(host: &Host) -> io::Result<ProcessWatch> {
        Ok(ProcessWatch {
            host: host.clone(),
            at: Instant::now(),
            before: all(host)?.0,
        })
    }

    /// What they did since the last look. A process that is new is taken to have begun then.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn look(&mut self) -> io::Result<Processes> {
        let (now, hidden) = all(&self.host)?;
        let elapsed_s = self.at.elapsed().as_secs_f64().max(1e-3);
        let mut busy: Vec<ProcessIo> = now
            .iter()
            .filter_map(|(&pid, bytes)| {
                let none = IoBytes {
                    read: 0,
                    written: 0,
                };
                let before = self.before.get(&pid).unwrap_or(&none);
                let read = bytes.read.saturating_sub(before.read);
                let written = bytes.written.saturating_sub(before.written);
                (read + written > 0).then(|| ProcessIo {
                    pid,
                    command: command(&self.host, pid),
                    read_bytes_per_s: read as f64 / elapsed_s,
                    write_bytes_per_s: written as f64 / elapsed_s,
                })
            })
            .collect();
        let sum = |io: &ProcessIo| io.read_bytes_per_s + io.write_bytes_per_s;
        busy.sort_by(|a, b| sum(b).total_cmp(&sum(a)));
        self.at = Instant::now();
        self.before = now;
        Ok(Processes { busy, hidden })
    }
}

/// The counts of all processes, and how many of them may not be read. Who ends meanwhile is left out.
fn all(host: &Host) -> io::Result<(BTreeMap<i32, IoBytes>, usize)> {
    let (mut counts, mut hidden) = (BTreeMap::new(), 0);
    for pid in process::numbers(host)? {
        match fs::read_to_string(host.proc(&format!("{pid}/io"))) {
            Ok(text) => counts.extend(IoBytes::parse(&text).map(|bytes| (pid, bytes))),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => hidden += 1,
            Err(_) => {}
        }
    }
    Ok((counts, hidden))
}

fn command(host: &Host, pid: i32) -> String {
    let name = lossy::read(host.proc(&format!("{pid}/comm")));
    name.map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `/proc` with a process that has read and written so much, of which some was never written.
    fn write(host: &Host, pid: i32, read: u64, written: u64, cancelled: u64) {
        let text = format!(
            "rchar: 9\nwchar: 9\nread_bytes: {read}\nwrite_bytes: {written}\ncancelled_write_bytes: {cancelled}\n"
        );
        fs::create_dir_all(host.proc(&pid.to_string())).unwrap();
        fs::write(host.proc(&format!("{pid}/io")), text).unwrap();
        fs::write(
            host.proc(&format!("{pid}/comm")),
            format!("program-{pid}\n"),
        )
        .unwrap();
    }

    #[test]
    fn who_did_most_comes_first_and_who_did_nothing_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let host = Host::at(directory.path());
        write(&host, 7, 1000, 0, 0);
        write(&host, 8, 500, 500, 0);
        write(&host, 9, 1, 1, 0);
        fs::create_dir_all(host.proc("self")).unwrap();
        let mut watch = ProcessWatch::start(&host).unwrap();
        write(&host, 7, 1000, 0, 0);
        write(&host, 8, 600, 700, 0);
        write(&host, 9, 1, 90_001, 40_000);
        let seen = watch.look().unwrap();
        let names: Vec<&str> = seen.busy.iter().map(|io| io.command.as_str()).collect();
        assert_eq!(names, ["program-9", "program-8"]);
        let [ref first, ref second] = seen.busy[..] else {
            panic!("two did something")
        };
        assert!(first.read_bytes_per_s == 0.0 && first.write_bytes_per_s > 0.0);
        let ratio = second.write_bytes_per_s / second.read_bytes_per_s;
        assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
        assert_eq!(watch.look().unwrap().busy, []);
    }

    #[test]
    fn this_process_can_be_looked_at() {
        let mut watch = ProcessWatch::start(&Host::live()).unwrap();
        assert!(
            watch
                .before
                .contains_key(&i32::try_from(std::process::id()).unwrap())
        );
        watch.look().unwrap();
    }
}
