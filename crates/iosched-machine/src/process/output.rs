//! What a child prints: taken in while it runs, up to a limit.

use std::io::{self, PipeReader, PipeWriter, Read};

use rustix::fs::{Mode, fchmod};
use rustix::io::ioctl_fionbio;

/// The most that a child may print to standard output, and as much to standard error, bytes: fio's results of a thousand
/// workers.
pub(crate) const MOST_OUTPUT: usize = 64 << 20;

/// Standard output and standard error of a child, in this order.
pub(super) struct Outputs([Output; 2]);

struct Output {
    /// Until it ends.
    pipe: Option<PipeReader>,
    text: Vec<u8>,
    is_too_much: bool,
}

impl Outputs {
    /// With the ends that the child writes to.
    pub(super) fn new() -> io::Result<(Outputs, PipeWriter, PipeWriter)> {
        let (stdout, stdout_of_child) = Output::new()?;
        let (stderr, stderr_of_child) = Output::new()?;
        Ok((Outputs([stdout, stderr]), stdout_of_child, stderr_of_child))
    }

    /// The pipes that may have more.
    pub(super) fn open(&self) -> impl Iterator<Item = &PipeReader> {
        self.0.iter().filter_map(|output| output.pipe.as_ref())
    }

    /// Reads all that there is now.
    pub(super) fn take_in(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(Output::take_in)
    }

    /// True if the child printed more than is kept.
    pub(super) fn is_too_much(&self) -> bool {
        self.0.iter().any(|output| output.is_too_much)
    }

    /// What was printed. Who still has a pipe (a server that prepares trials and goes on) may write to it, and nobody
    /// reads it.
    pub(super) fn end(self) -> [String; 2] {
        self.0.map(Output::end)
    }
}

impl Output {
    fn new() -> io::Result<(Output, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        ioctl_fionbio(&reader, true)?;
        // A load with the rights of another user opens it as /dev/stderr; a kernel that refuses it has it as it is.
        let _ = fchmod(&writer, Mode::RUSR | Mode::WUSR | Mode::WGRP | Mode::WOTH);
        let output = Output {
            pipe: Some(reader),
            text: Vec::new(),
            is_too_much: false,
        };
        Ok((output, writer))
    }

    fn take_in(&mut self) -> io::Result<()> {
        let mut part = [0; 1 << 14];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut part) {
                Ok(0) => self.pipe = None,
                Ok(read) => self.keep(&part[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What is too much ends the reading: the child is told by the pipe, and killed.
    fn keep(&mut self, part: &[u8]) {
        if self.text.len() + part.len() > MOST_OUTPUT {
            self.is_too_much = true;
            self.pipe = None;
            self.text = Vec::new();
        } else {
            self.text.extend_from_slice(part);
        }
    }

    fn end(self) -> String {
        if let Some(mut pipe) = self.pipe {
            // Nobody waits for it: it ends with the last process that has the pipe.
            let drain = move || {
                let is_blocking = ioctl_fionbio(&pipe, false);
                is_blocking.is_ok_and(|()| io::copy(&mut pipe, &mut io::sink()).is_ok())
            };
            let _ = std::thread::Builder::new().spawn(drain);
        }
        String::from_utf8(self.text)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}
