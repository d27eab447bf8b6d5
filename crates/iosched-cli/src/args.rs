//! What can be asked on the command line: the commands. Each one's own arguments stand in its file
//! below `commands/`, the types of their values in [`crate::values`].

use std::fmt::Write as _;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    advise, apply, calibrate, check, completions, conform, emulate, evidence, judge, list, loads,
    log, manual, persist, report, restore, set, simulate, tune, undo, watch,
};

/// Which I/O scheduler should each disk of this machine use? Measure, decide, apply, undo.
#[derive(Debug, Parser)]
#[command(
    name = "iosched",
    version,
    about,
    propagate_version = true,
    max_term_width = 100,
    after_help = "The options of a command: iosched COMMAND -h",
    after_long_help = EXIT_CODES
)]
pub(crate) struct Cli {
    /// Print JSON instead of text
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,

    /// Print results, warnings and errors only
    #[arg(short, long, global = true, display_order = 901)]
    pub(crate) quiet: bool,

    /// Switch disks also if /dev is this container's own, and the host sees neither lock nor journal
    #[arg(long, global = true, hide_short_help = true, display_order = 902)]
    pub(crate) in_container: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands, in the order of a decision's life.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show every block device, its stack, and the schedulers it offers
    List(list::ListArgs),
    /// Recommend schedulers without measuring, with sources and caveats
    Advise(advise::AdviseArgs),
    /// Switch a disk's scheduler now, with read-back
    Set(set::SetArgs),
    /// Measure every scheduler under a load until the answer is known
    Tune(Box<tune::TuneArgs>),
    /// List the loads that can be measured, with their options
    #[command(help_template = "{about}{after-help}")]
    Loads(loads::LoadsArgs),
    /// Print the results of a run again, as text, HTML, JSON or CSV
    Report(report::ReportArgs),
    /// Judge results that exist already: fio, pgbench, hyperfine, CSV
    Judge(judge::JudgeArgs),
    /// Collect results of many machines, and show them for a drive
    Evidence(evidence::EvidenceArgs),
    /// Show live statistics of each device, and switch schedulers
    Watch(watch::WatchArgs),
    /// Keep a scheduler across reboots: policy file and udev rules
    Persist(persist::PersistArgs),
    /// Set every disk as the policy file says
    Apply(apply::ApplyArgs),
    /// Check disks against the policy, and name what overrides it
    Check(check::CheckArgs),
    /// Undo the last change
    Undo(undo::UndoArgs),
    /// Show past changes: when, by which command, and why
    Log(log::LogArgs),
    /// Restore disks that an interrupted run left changed
    Restore(restore::RestoreArgs),
    /// Create, list and remove disks that behave like a model
    Emulate(emulate::EmulateArgs),
    /// Run a load under schedulers on a disk model, in virtual time
    Simulate(Box<simulate::SimulateArgs>),
    /// Compare our schedulers with a kernel's, decision by decision
    Conform(conform::ConformArgs),
    /// Check by simulation how often the answers of tune are right
    Calibrate(calibrate::CalibrateArgs),
    /// Print a completion script for your shell
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Manual(manual::ManualArgs),
    #[command(hide = true)]
    RevertAfter(set::RevertArgs),
}

/// The commands by what a user wants to do.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Look", &["list", "watch", "advise", "check", "log"]),
    (
        "Measure",
        &["tune", "loads", "report", "judge", "evidence", "simulate"],
    ),
    ("Change", &["set", "persist", "apply", "undo", "restore"]),
    (
        "Lab and shell",
        &["emulate", "conform", "calibrate", "completions"],
    ),
];

/// The command line, with its commands in groups.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(groups, "{header}{title}:{header:#}");
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(|sub| sub.get_about());
            let about = about.cloned().unwrap_or_default();
            let _ = writeln!(groups, "  {literal}{name:<11}{literal:#}  {about}");
        }
        groups.push('\n');
    }
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}{header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

/// The exit codes of [`iosched_machine::failure::exit`], for `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0  done                              8  not permitted (run it as root)
  1  any other failure                 9  device busy, or in another run
  2  bad arguments or job file        10  a program or kernel feature is missing
  3  no such device, directory, file  11  refused: it could destroy data
  4  no scheduler to choose           12  record or results directory unusable
  5  scheduler not offered            13  the load failed under every arm
  6  bad tunable or value             14  the device vanished
  7  the kernel rejected a setting    15  the device does not support the switch
                                     16  a file of the system is unusable
                                     130  interrupted (everything was put back)
tune, report and judge, with --exit-code: 0 a winner, 20 equal, 21 undecided,
22 disturbed; conform: 0 agrees, 23 does not";

#[cfg(test)]
#[path = "../tests/command/common/options.rs"]
mod options;

#[cfg(test)]
mod tests {
    use std::any::TypeId;
    use std::path::PathBuf;

    use clap::Arg;

    use super::options::FILES;
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_stands_in_a_group() {
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let mut names: Vec<&str> = visible.map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.1).copied().collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(names, grouped);
    }

    /// The options and arguments of a command, and of those below it, that take any text.
    fn free_text(path: &str, command: &clap::Command, found: &mut Vec<String>) {
        let takes_any_text = |arg: &&Arg| {
            let value = arg.get_value_parser();
            let is_text = [TypeId::of::<PathBuf>(), TypeId::of::<String>()]
                .iter()
                .any(|of| value.type_id() == *of);
            arg.get_action().takes_values() && is_text && value.possible_values().is_none()
        };
        for arg in command.get_arguments().filter(takes_any_text) {
            found.push(format!("{path} {}", arg.get_id()));
        }
        for below in command.get_subcommands() {
            free_text(format!("{path} {}", below.get_name()).trim(), below, found);
        }
    }

    /// What takes any text and names no file: words, or another directory.
    const NO_FILES: &str = "
        advise: devices evidence root
        apply: root
        check: root who
        conform: recordings scheduler
        emulate: state_dir
        emulate check: disk
        emulate create: backing_dir destroy_data scheduler
        emulate remove: disks
        emulate serve: dir
        emulate set: disk scheduler
        evidence add: records
        evidence merge: datasets to
        evidence show: dataset kernel model
        judge: baseline
        list: devices root
        log: root
        persist: device remove root scheduler tunables why
        revert-after: journal
        set: device scheduler tunables
        simulate: initial scheduler trace_device
        tune: arms baseline destroy_data fio metric pg prepare resume setup user
        undo: root
        watch: devices";

    /// So that no file is read or written unless `user_files.rs` tries it with what is no file.
    #[test]
    fn of_each_option_that_takes_any_text_is_known_whether_it_names_a_file() {
        let mut found = Vec::new();
        free_text("", &Cli::command(), &mut found);
        let mut listed: Vec<String> = FILES.iter().map(|file| file.0.to_owned()).collect();
        for line in NO_FILES.trim().lines() {
            let (command, options) = line.trim().split_once(": ").unwrap();
            listed.extend(
                options
                    .split(' ')
                    .map(|option| format!("{command} {option}")),
            );
        }
        found.sort();
        listed.sort();
        listed.dedup();
        assert_eq!(found, listed);
    }
}
