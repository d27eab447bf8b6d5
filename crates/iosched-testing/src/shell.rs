//! A shell that does something for a test, and undoes it in the end.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

/// A shell that has done something, and undoes it when dropped.
#[derive(Debug)]
pub struct Shell(Child);

impl Shell {
    /// Runs a script until it has said `done`; it goes on once it can read a line. `program` is what runs it: `sh`, or
    /// a command before that.
    pub fn new(program: &[&str], script: &str, arguments: &[impl AsRef<OsStr>]) -> Shell {
        let mut child = Command::new(program[0])
            .args(&program[1..])
            .args(["-c", script, "sh"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program:?}: {error}"));
        let mut said = String::new();
        let stdout = child.stdout.take().expect("it is a pipe");
        let read = BufReader::new(stdout).read_line(&mut said);
        read.expect("what it said");
        assert_eq!(said, "done\n", "{script}");
        Shell(child)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.stdin.take().map(|mut stdin| stdin.write_all(b"\n"));
        let _ = self.0.wait();
    }
}
