//! What `--help` says, of every command: within the terminal, and with examples.
use std::process::{Command, Stdio};

use crate::common::iosched_process;

fn help(command: &[&str], option: &str, columns: usize) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_iosched"))
        .args(command)
        .arg(option)
        .env("COLUMNS", columns.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that a help text lists: those of `iosched` itself stand in groups.
fn commands_in(command: &[&str], help: &str) -> Vec<String> {
    let first = match command {
        [] => "Look:",
        _ => "Commands:",
    };
    let listed = help.lines().skip_while(|line| *line != first);
    let listed = listed.take_while(|line| *line != "Options:");
    // A line that goes on from the one before begins further right.
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    names.map(str::to_owned).collect()
}

/// `-h` is one screen.
const SCREEN: usize = 40;

fn check_short(command: &[&str]) {
    let text = help(command, "-h", 80);
    let lines = text.lines().count();
    assert!(lines <= SCREEN, "{command:?}: {lines} lines\n{text}");
    for line in text.lines() {
        let width = line.chars().count();
        assert!(width <= 80, "{command:?}: {width} columns: {line}");
    }
}

/// `--help` describes each option in two lines at most.
fn check_options(command: &[&str], text: &str) {
    let mut described = 0;
    for line in text.lines() {
        let is_value = line.trim_start().starts_with("- ");
        let is_text = line.contains(char::is_alphabetic) && !is_value;
        let is_description = line.starts_with("          ") && is_text;
        described = if is_description { described + 1 } else { 0 };
        assert!(described <= 2, "{command:?}: three lines: {line}");
    }
}

/// What a help text has from its examples on.
fn examples_in(help: &str) -> &str {
    help.find("\nExamples:\n").map_or("", |at| &help[at..])
}

fn check(command: &[&str], seen: &mut Vec<String>) {
    check_short(command);
    let text = help(command, "--help", 80);
    check_options(
        command,
        text.split("\nExamples:\n").next().unwrap_or_default(),
    );
    for columns in [80, 100, 200] {
        let text = help(command, "--help", columns);
        let widest = columns.min(100);
        for line in text.lines() {
            let width = line.chars().count();
            assert!(width <= widest, "{command:?}: {width} columns: {line}");
        }
        let has_examples = text.contains("\nExamples:\n  iosched ") || command.is_empty();
        assert!(
            has_examples || text.contains("\nExamples:\n  disk=$(iosched "),
            "{command:?}"
        );
        assert!(!text.contains('\u{1b}'), "{command:?}: colours in a pipe");
    }
    assert_eq!(
        examples_in(&help(command, "--help", 80)),
        examples_in(&help(command, "--help", 100)),
        "{command:?}: what stands beside an example is broken at 80 columns"
    );
    seen.push(command.join(" "));
    for name in commands_in(command, &text) {
        check(&[command, &[&name]].concat(), seen);
    }
}

#[test]
fn every_command_has_examples_and_keeps_within_the_terminal() {
    let mut seen = Vec::new();
    check(&[], &mut seen);
    for known in ["tune", "emulate create", "conform", "undo"] {
        assert!(seen.iter().any(|name| name == known), "{known}: {seen:?}");
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    for arguments in [&["--help"][..], &["--version"], &["tune", "--help"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = iosched_process();
        command.args(arguments).stdout(full.unwrap());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(
            said.contains("error: the result could not be written"),
            "{said}"
        );
        let mut command = iosched_process();
        command.args(arguments).stdout(Stdio::null());
        assert!(command.status().unwrap().success(), "{arguments:?}");
    }
}
