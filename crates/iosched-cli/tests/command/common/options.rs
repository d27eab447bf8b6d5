//! What each option and argument takes whose value can be any text. A test in `src/args.rs` compares the list with the
//! command line's own definition; `user_files.rs` puts what is no file in the place of each.

/// What a value names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Takes {
    /// A file that is read: with these words it is one whose name begins with `FIFO`.
    Read(&'static [&'static str]),
    /// A file that is written: the same.
    Written(&'static [&'static str]),
    /// A directory in which files are written, and which is made: the same.
    Made(&'static [&'static str]),
    /// Any other directory, or a name in one of ours.
    Directory,
    /// No file.
    Words,
}

use Takes::{Directory, Made, Read, Words, Written};

/// Command, option or argument, what it takes; in several ways in several lines.
pub(crate) const OPTIONS: &[(&str, &str, Takes)] = &[
    ("advise", "devices", Words),
    ("advise", "evidence", Directory),
    ("advise", "root", Directory),
    ("apply", "root", Directory),
    ("check", "policy", Read(&["check", "FIFO"])),
    ("check", "root", Directory),
    (
        "check",
        "textfile",
        Written(&["check", "--textfile", "FIFO"]),
    ),
    ("check", "who", Words),
    (
        "conform",
        "disk",
        Read(&["conform", "--live", "--disk", "FIFO.toml"]),
    ),
    (
        "conform",
        "initial",
        Read(&[
            "conform",
            "RECORDING",
            "--scheduler",
            "bfq",
            "--initial",
            "FIFO",
        ]),
    ),
    (
        "conform",
        "load",
        Read(&["conform", "--live", "--load", "FIFO.fio"]),
    ),
    ("conform", "recordings", Directory),
    ("conform", "scheduler", Words),
    (
        "conform",
        "traces",
        Read(&["conform", "FIFO", "--scheduler", "bfq"]),
    ),
    ("conform", "traces", Read(&["conform", "FIFO"])),
    (
        "conform",
        "tunables",
        Read(&[
            "conform",
            "RECORDING",
            "--scheduler",
            "bfq",
            "--tunables",
            "FIFO",
        ]),
    ),
    ("emulate", "state_dir", Directory),
    ("emulate check", "disk", Words),
    ("emulate create", "backing_dir", Directory),
    ("emulate create", "destroy_data", Words),
    (
        "emulate create",
        "model",
        Read(&["emulate", "create", "FIFO.toml"]),
    ),
    (
        "emulate create",
        "over",
        Read(&["emulate", "create", "--over", "FIFO", "--scheduler", "noop"]),
    ),
    ("emulate create", "scheduler", Words),
    (
        "emulate models",
        "toml",
        Read(&["emulate", "models", "--toml", "FIFO.toml"]),
    ),
    ("emulate remove", "disks", Words),
    ("emulate serve", "dir", Directory),
    ("emulate set", "disk", Words),
    ("emulate set", "scheduler", Words),
    ("evidence add", "records", Directory),
    (
        "evidence add",
        "to",
        Made(&["evidence", "add", "--yes", "EXAMPLE", "--to", "FIFO"]),
    ),
    ("evidence merge", "datasets", Directory),
    ("evidence merge", "to", Directory),
    ("evidence show", "dataset", Directory),
    (
        "evidence show",
        "html",
        Written(&["evidence", "show", "EVIDENCE", "--html", "FIFO"]),
    ),
    ("evidence show", "kernel", Words),
    ("evidence show", "model", Words),
    ("list", "devices", Words),
    ("list", "root", Directory),
    ("log", "root", Directory),
    ("manual", "directory", Made(&["manual", "FIFO"])),
    ("persist", "device", Words),
    (
        "persist",
        "policy",
        Read(&["persist", "--yes", "--policy", "FIFO"]),
    ),
    ("persist", "remove", Words),
    ("persist", "root", Directory),
    ("persist", "scheduler", Words),
    ("persist", "tunables", Words),
    ("persist", "why", Words),
    (
        "report",
        "html",
        Written(&["report", "EXAMPLE", "--html", "FIFO"]),
    ),
    ("report", "paths", Directory),
    (
        "report",
        "svg",
        Made(&["report", "EXAMPLE", "--svg", "FIFO"]),
    ),
    ("revert-after", "journal", Directory),
    ("set", "device", Words),
    ("set", "scheduler", Words),
    ("set", "tunables", Words),
    (
        "simulate",
        "check_response",
        Read(&["simulate", "--check-response", "FIFO"]),
    ),
    (
        "simulate",
        "disk",
        Read(&["simulate", "--disk", "FIFO.toml"]),
    ),
    (
        "simulate",
        "events",
        Written(&[
            "simulate",
            "--until",
            "1ms",
            "--scheduler",
            "none",
            "--events",
            "FIFO",
        ]),
    ),
    ("simulate", "initial", Words),
    ("simulate", "load", Read(&["simulate", "--load", "FIFO"])),
    (
        "simulate",
        "load",
        Read(&["simulate", "--load", "FIFO.fio"]),
    ),
    ("simulate", "scheduler", Words),
    ("simulate", "trace", Read(&["simulate", "--trace", "FIFO"])),
    (
        "simulate",
        "trace",
        Read(&["simulate", "--trace", "FIFO.blktrace.0"]),
    ),
    ("simulate", "trace_device", Words),
    ("tune", "arms", Words),
    ("tune", "baseline", Words),
    ("tune", "destroy_data", Words),
    (
        "tune",
        "emulate",
        Read(&["tune", "--dry-run", "--emulate", "FIFO.toml"]),
    ),
    (
        "tune",
        "loads",
        Read(&["tune", "--dry-run", ".", "--load", "FIFO.fio"]),
    ),
    (
        "tune",
        "loads",
        Read(&["tune", "--dry-run", ".", "--load", "FIFO.fio:2"]),
    ),
    (
        "tune",
        "loads",
        Read(&["tune", "--dry-run", ".", "--load", "pgbench:mode=FIFO"]),
    ),
    (
        "tune",
        "loads",
        Read(&["tune", "--simulate", "ssd-sata", "--load", "FIFO.fio"]),
    ),
    ("tune", "fio", Words),
    ("tune", "metric", Words),
    (
        "tune",
        "out",
        Made(&[
            "tune",
            "--simulate",
            "fixed",
            "--arms",
            "none,noop",
            "--fixed-rounds",
            "2",
            "--out",
            "FIFO",
        ]),
    ),
    ("tune", "pg", Words),
    ("tune", "prepare", Words),
    ("tune", "resume", Directory),
    ("tune", "setup", Words),
    (
        "tune",
        "simulate",
        Read(&["tune", "--simulate", "FIFO.toml"]),
    ),
    ("tune", "target", Read(&["tune", "--dry-run", "FIFO"])),
    ("tune", "user", Words),
    ("undo", "root", Directory),
    ("watch", "devices", Words),
];
