//! The library behind `iosched`: this machine, and the way from plan to report.
//!
//! Modules in the order data passes:
//!
//! - [`host`], `sysfs`: where the machine is read (its root can be a copied tree)
//! - [`failure`]: what every error of this library can say of itself (hint, exit code); [`command_line`]: the command that
//!   would do
//! - [`device`]: what is there, what it stands on, who uses it, what is written on it
//! - [`disk_file`]: disk models as TOML files
//! - [`emulate`]: disk models as block devices
//! - [`capture`]: what the kernel's block layer does with a disk, event by event
//! - [`simulate`]: schedulers and disks in virtual time, with files and threads around them
//! - [`plan`]: arms × loads × rounds on a target, checked, nothing touched
//! - [`objective`], [`load`]: what decides, and what a trial runs
//! - [`switch`], [`file_system`], [`journal`], `lock`, [`process`]: changing the machine so that it
//!   can be put back; `beneath`: files in directories that others may change; `durable`: files of our own that
//!   a power failure leaves whole
//! - [`set`]: an arm on every disk below a device, all or none
//! - `system_config`: the files below `/etc` that set schedulers, and the programs that read them
//! - [`policy`], [`history`], [`persist`], [`check`]: what each disk is to have, taken back, kept over reboots, compared with
//!   what is
//! - [`advise`]: what each disk should have, without measuring
//! - [`schedule`], [`run`], [`event`]: which trial is next, the trial loop, what it says meanwhile
//! - [`diskstats`], `pressure`: the kernel's counters
//! - [`measure`], `metrics`, `trial`, [`facts`], [`record`]: what was measured, kept on disk; `foreign`: JSON that others
//!   may have written
//! - [`analysis`], [`report`]: from the record to the answer, and to text; [`visible`]: text without control characters
//! - [`watch`]: what each device does now
//! - `fuzz`: every reader of what others wrote, for tests
//! - [`calibrate`]: do the answers keep what they promise? Whole tunes over simulated trials

pub mod advise;
pub mod analysis;
mod beneath;
pub mod calibrate;
pub mod capture;
pub mod check;
pub mod command_line;
pub mod device;
pub mod disk_file;
pub mod diskstats;
mod durable;
pub mod emulate;
pub mod event;
pub mod facts;
pub mod failure;
pub mod file_system;
#[cfg(test)]
mod fixture;
mod foreign;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod history;
pub mod host;
pub mod journal;
pub mod load;
mod lock;
pub mod measure;
mod metrics;
pub mod objective;
pub mod persist;
pub mod plan;
pub mod policy;
mod pressure;
pub mod process;
pub mod record;
pub mod report;
pub mod run;
pub mod schedule;
pub mod set;
pub mod simulate;
pub mod split;
pub mod switch;
mod sysfs;
mod system_config;
mod trial;
pub mod visible;
pub mod watch;

#[cfg(test)]
iosched_testing::world!();
