//! Every reader of what others wrote, or what a power failure damaged, as a function of bytes: for fuzzing.
//!
//! One list for both that run it. The program in `fuzz/` (`scripts/fuzz`) is guided by coverage; the test `replay` reads
//! the corpus that is kept in `fuzz/corpus` and some hundreds of mutants of each of its files, on any toolchain, in
//! `make test`. The list is here because most readers are private, and a library that made them public for its tests
//! would promise them to everybody. It is compiled for tests and with the feature `fuzz`: no program that is installed
//! has it.
//!
//! What a reader promises for any bytes: it returns (no panic, no endless loop), in memory that is bounded by
//! [`Target::most_memory`], and what it has accepted is written and read back as the same.

mod readers;
#[cfg(test)]
mod replay;

/// A reader.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// What it is called; the name of its directory in the corpus.
    pub name: &'static str,
    /// Reads, and panics if a promise is broken.
    pub read: fn(&[u8]),
    /// Memory for nothing at all, bytes.
    fixed: usize,
    /// Memory for each byte that is read, bytes.
    per_byte: usize,
}

impl Target {
    /// The most memory that reading so many bytes may take.
    pub fn most_memory(&self, length: usize) -> usize {
        self.fixed + self.per_byte * length
    }
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// What is compressed may refer far back, see [`crate::simulate::file`].
const WINDOW: usize = 400 * MIB;

/// All readers.
pub const TARGETS: &[Target] = &[
    // What `tune` wrote down, and what is worked out of it.
    target("record", readers::record, MIB, 200),
    target("results", readers::results, 4 * MIB, 200),
    target("journal", readers::journal, 64 * KIB, 100),
    target("history", readers::history, 64 * KIB, 100),
    target("policy", readers::policy, 256 * KIB, 300),
    // Disks and loads that users describe.
    target("disk", readers::disk, 64 * MIB, 300),
    target("disksim", readers::disksim, 64 * MIB, 300),
    target("fio-job", readers::fio_job, 32 * MIB, 200),
    // What programs print.
    target("fio-output", readers::fio_output, 64 * KIB, 100),
    target("pgbench-output", readers::pgbench_output, 64 * KIB, 50),
    target("command-output", readers::command_output, 256 * KIB, 100),
    // Traces and recordings.
    target("trace", readers::trace, 8 * MIB, 100),
    target("trace-of-format", readers::trace_of_format, 8 * MIB, 100),
    target("events", readers::events, 64 * KIB, 50),
    target("conform", readers::conform, WINDOW, 400),
    target("tunables", readers::tunables, WINDOW, 50),
    target("response", readers::response, WINDOW, 50),
    target("compressed", readers::compressed, WINDOW, 0),
    // What the kernel says.
    target("trace-page", readers::trace_page, 64 * KIB, 100),
    target("trace-format", readers::trace_format, 256 * KIB, 50),
    target("proc", readers::proc, 64 * KIB, 100),
    // What other programs are set to.
    target("command-line", readers::command_line, 64 * KIB, 50),
    target("writers", readers::writers, MIB, 200),
];

const fn target(name: &'static str, read: fn(&[u8]), fixed: usize, per_byte: usize) -> Target {
    Target {
        name,
        read,
        fixed,
        per_byte,
    }
}
