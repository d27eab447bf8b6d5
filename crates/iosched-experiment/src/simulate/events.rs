//! The events of a run in a file, as `iosched conform` and the readers of traces take them.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use iosched_sim::request::ProcessId;
use iosched_sim::simulate::{BlockEvent, Setup, Tracer, write_head, write_line};
use iosched_sim::units::Time;

/// A new file of events. It remembers the first failure.
pub(super) struct EventFile {
    out: BufWriter<File>,
    line: String,
    failure: Option<io::Error>,
}

impl EventFile {
    /// Begins a file, which is new, with what is simulated, by the names of its scheduler and disk.
    pub(super) fn begin(file: File, setup: &Setup, names: (&str, &str)) -> EventFile {
        let mut events = EventFile {
            out: BufWriter::new(file),
            line: String::new(),
            failure: None,
        };
        let mut head = String::new();
        write_head(&mut head, setup, names).expect("strings take all text");
        events.write(&head);
        events
    }

    fn write(&mut self, text: &str) {
        if self.failure.is_none() {
            self.failure = self.out.write_all(text.as_bytes()).err();
        }
    }

    /// All is in the file, or an error says why not.
    pub(super) fn finish(mut self) -> io::Result<()> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.out.flush(),
        }
    }
}

impl Tracer for EventFile {
    fn happened(&mut self, block_event: &BlockEvent) {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        write_line(&mut line, Time::ZERO, block_event).expect("strings take all text");
        self.write(&line);
        self.line = line;
    }

    fn exited(&mut self, time: Time, process: ProcessId, _name: &str) {
        let (micros, rest) = (time.as_nanos() / 1000, time.as_nanos() % 1000);
        self.write(&format!(
            "# exit pid={} time_us={micros}.{rest:03}\n",
            process.0
        ));
    }
}
