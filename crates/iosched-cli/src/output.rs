//! The one place that writes to the terminal: text or JSON, colour only where it is wanted.
//!
//! Results go to standard output, everything else (progress, notes, errors) to standard error.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this module is where the command prints"
)]

use std::io::IsTerminal;

use iosched::failure::Failure;
use serde::Serialize;

/// How this run prints.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    json: bool,
    color: bool,
    width: usize,
}

impl Output {
    /// Looks at the terminal and `NO_COLOR`.
    pub(crate) fn new(json: bool) -> Output {
        let color = std::io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let width = std::env::var("COLUMNS")
            .ok()
            .and_then(|columns| columns.parse().ok())
            .filter(|&columns: &usize| columns >= 40)
            .unwrap_or(80);
        Output { json, color, width }
    }

    /// True if `--json` was given: standard output is for machines.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Columns that a line may take.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// A result in text.
    pub(crate) fn text(&self, text: &str) {
        if text.ends_with('\n') {
            print!("{text}");
        } else {
            println!("{text}");
        }
    }

    /// A result as JSON, pretty on a terminal and in one line in a pipe.
    pub(crate) fn json<T: Serialize>(&self, value: &T) {
        let text = if self.color {
            serde_json::to_string_pretty(value)
        } else {
            serde_json::to_string(value)
        };
        println!("{}", text.expect("our own types serialise"));
    }

    /// A remark beside the result, on standard error.
    pub(crate) fn note(&self, text: &str) {
        eprintln!("{text}");
    }

    /// An error with its hint, on standard error; with `--json` as a JSON object there.
    pub(crate) fn failure(&self, failure: &dyn Failure) {
        if self.json {
            let value = serde_json::json!({
                "error": failure.to_string(),
                "hint": failure.hint(),
                "exit_code": failure.exit_code(),
            });
            eprintln!("{value}");
            return;
        }
        eprintln!("error: {failure}");
        let mut cause = failure.source();
        while let Some(inner) = cause {
            eprintln!("  because: {inner}");
            cause = inner.source();
        }
        if let Some(hint) = failure.hint() {
            eprintln!("hint: {hint}");
        }
    }
}
