//! Options and arguments that name a file. A test in `src/args.rs` compares the list with the command line's own
//! definition; `user_files.rs` puts what is no file in the place of each.

/// What is done with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Read,
    Written,
    /// A directory in which files are written, and which is made.
    Made,
}

use Takes::{Made, Read, Written};

/// Command and option or argument; a command line in which that file is called `FIFO…`.
pub(crate) const FILES: &[(&str, Takes, &str)] = &[
    ("check policy", Read, "check FIFO"),
    ("check textfile", Written, "check --textfile FIFO"),
    ("conform disk", Read, "conform --live --disk FIFO.toml"),
    (
        "conform initial",
        Read,
        "conform RECORDING --scheduler bfq --initial FIFO",
    ),
    ("conform load", Read, "conform --live --load FIFO.fio"),
    ("conform traces", Read, "conform FIFO --scheduler bfq"),
    ("conform traces", Read, "conform FIFO"),
    (
        "conform tunables",
        Read,
        "conform RECORDING --scheduler bfq --tunables FIFO",
    ),
    ("emulate create model", Read, "emulate create FIFO.toml"),
    (
        "emulate create over",
        Read,
        "emulate create --over FIFO --scheduler noop",
    ),
    (
        "emulate models toml",
        Read,
        "emulate models --toml FIFO.toml",
    ),
    (
        "evidence add to",
        Made,
        "evidence add --yes EXAMPLE --to FIFO",
    ),
    ("judge results", Read, "judge none=FIFO"),
    ("manual directory", Made, "manual FIFO"),
    ("persist policy", Read, "persist --yes --policy FIFO"),
    ("report html", Written, "report EXAMPLE --html FIFO"),
    ("report paths", Read, "report FIFO"),
    ("report svg", Made, "report EXAMPLE --svg FIFO"),
    ("simulate disk", Read, "simulate --disk FIFO.toml"),
    (
        "simulate events",
        Written,
        "simulate --until 1ms --scheduler none --events FIFO",
    ),
    ("simulate load", Read, "simulate --load FIFO"),
    ("simulate load", Read, "simulate --load FIFO.fio"),
    ("simulate trace", Read, "simulate --trace FIFO"),
    ("simulate trace", Read, "simulate --trace FIFO.blktrace.0"),
    ("tune emulate", Read, "tune --dry-run --emulate FIFO.toml"),
    ("tune loads", Read, "tune --dry-run . --load FIFO.fio"),
    ("tune loads", Read, "tune --dry-run . --load FIFO.fio:2"),
    (
        "tune loads",
        Read,
        "tune --dry-run . --load pgbench:mode=FIFO",
    ),
    (
        "tune loads",
        Read,
        "tune --simulate ssd-sata --load FIFO.fio",
    ),
    (
        "tune out",
        Made,
        "tune --simulate fixed --arms none,noop --fixed-rounds 2 --out FIFO",
    ),
    ("tune simulate", Read, "tune --simulate FIFO.toml"),
    ("tune target", Read, "tune --dry-run FIFO"),
];
