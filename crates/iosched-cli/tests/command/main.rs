//! The real command, run as a user runs it: one test program, so that it is linked once.
//!
//! It runs in a mount namespace of its own (`iosched_testing::world`) in which nothing is remembered of other
//! runs. Tests make the devices that they use, and remove them. `scripts/run-tests` runs each in a process of
//! its own, several side by side.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it lacks"
)]

iosched_testing::world!();

mod advise;
mod attacks;
mod block_layers;
mod browser;
mod calibrate;
mod capture;
mod check;
mod common;
mod conform_live;
mod crash;
mod disk_file;
mod emulate;
mod emulate_end;
mod emulate_inside;
mod emulate_over;
mod evidence;
mod faults;
mod foreign;
mod help;
mod history;
mod hung;
mod judge;
mod list;
mod lives;
mod loads_command;
mod loads_desktop;
mod loads_families;
mod loads_pgbench;
mod loads_rights;
mod mixes;
mod old_kernel;
mod package;
mod persist;
mod persist_boot;
mod persist_cut_short;
mod power;
mod report;
mod report_page;
mod set;
mod simulate;
mod slow_down;
mod traces;
mod tune;
mod tune_disturbed;
mod tune_file_target;
mod tune_matrix;
mod tune_may_write;
mod tune_mkfs;
mod tune_refused;
mod tune_served;
mod tune_simulated;
mod tune_split;
mod units;
mod user_files;
mod watch;
mod write_up;
