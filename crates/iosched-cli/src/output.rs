//! The one place that writes to the terminal: text or JSON, colour only where it is wanted.
//!
//! Results go to standard output, everything else (progress, notes, errors) to standard error. What is printed may carry
//! names that others chose: no control character of theirs passes here, and none makes a line of its own
//! ([`iosched_machine::visible`]).

use std::cell::{Cell, RefCell};
use std::io::{self, BufWriter, IsTerminal, Write};

use iosched_machine::command_line::Remedy;
use iosched_machine::failure::{Failure, causes, exit};
use iosched_machine::visible::{line, message, visible, visible_json};
use iosched_report::text::Widths;
use serde::Serialize;

use crate::streams;

/// How this run prints.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    width: usize,
    /// Tables may take so many: in a pipe or a file all that they need.
    table_width: usize,
    /// What went wrong when a result was written.
    lost: RefCell<Option<String>>,
    /// Who read the results closed the pipe.
    unread: Cell<bool>,
}

impl Output {
    /// Looks at the terminal and `NO_COLOR`.
    pub(crate) fn new(json: bool, quiet: bool) -> Output {
        let width = std::env::var("COLUMNS")
            .ok()
            .and_then(|columns| columns.parse().ok())
            .or_else(terminal_width)
            .filter(|&columns: &usize| columns >= 40);
        Output {
            json,
            quiet,
            width: width.unwrap_or(80),
            table_width: match width {
                Some(width) => width,
                None if io::stdout().is_terminal() => 80,
                None => usize::MAX,
            },
            lost: RefCell::default(),
            unread: Cell::new(false),
        }
    }

    /// True if `--json` was given: standard output is for machines.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// True if only results, warnings and errors are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Columns that a line may take.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Columns that a line of a table may take: nothing is left out of it in a pipe.
    pub(crate) fn table_width(&self) -> usize {
        self.table_width
    }

    /// Both.
    pub(crate) fn widths(&self) -> Widths {
        Widths {
            text: self.width,
            table: self.table_width,
        }
    }

    /// A result of one line, whatever is in it.
    pub(crate) fn line(&self, text: &str) {
        self.text(&line(text));
    }

    /// A result of several lines, in which names are visible already.
    pub(crate) fn text(&self, text: &str) {
        let color = may_color(&std::io::stdout());
        for line in visible(text).trim_end_matches('\n').split('\n') {
            let code = stands_out(line);
            let line = paint(line, code, color && !code.is_empty());
            self.result(&format!("{line}\n"));
        }
    }

    fn result(&self, text: &str) {
        if let Err(error) = self.pipe().write_all(text.as_bytes()) {
            self.lost.borrow_mut().get_or_insert(error.to_string());
        }
    }

    fn pipe(&self) -> Pipe<'_> {
        Pipe {
            is_closed: &self.unread,
        }
    }

    /// True if nobody reads the results any more: what would print for ever ends.
    pub(crate) fn is_unread(&self) -> bool {
        self.unread.get()
    }

    /// Why results were lost (a full disk behind `> file`), if they were. Who closed the pipe
    /// (`| head`) does not want to know more: that is no loss.
    pub(crate) fn lost(&self) -> Option<String> {
        self.lost.borrow().clone()
    }

    /// A result as JSON, pretty on a terminal and in one line in a pipe.
    pub(crate) fn json<T: Serialize>(&self, value: &T) {
        let is_pretty = std::io::stdout().is_terminal();
        let written = self.stream(|out| {
            let visible = VisibleJson { out: &mut *out };
            if is_pretty {
                serde_json::to_writer_pretty(visible, value)?;
            } else {
                serde_json::to_writer(visible, value)?;
            }
            out.write_all(b"\n").map_err(serde_json::Error::io)
        });
        if let Err(error) = written {
            assert!(error.is_io(), "our own types serialise: {error}");
            self.lost.borrow_mut().get_or_insert(error.to_string());
        }
    }

    /// A result that is too long to be held: who makes it writes it without control characters, and says what went
    /// wrong.
    pub(crate) fn stream<E>(
        &self,
        make: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut out = BufWriter::with_capacity(1 << 18, self.pipe());
        make(&mut out)?;
        if let Err(error) = out.flush() {
            self.lost.borrow_mut().get_or_insert(error.to_string());
        }
        Ok(())
    }

    /// A remark of one line beside the result, on standard error.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.warn(text);
        }
    }

    /// A remark that those who want quiet get, too: something is not as they may think.
    #[expect(clippy::unused_self, reason = "all that is printed goes through it")]
    pub(crate) fn warn(&self, text: &str) {
        Self::remark(&line(text));
    }

    fn remark(text: &str) {
        // There is nobody to tell if this fails.
        let _ = write(&mut streams::stderr(), &format!("{text}\n"));
    }

    /// An error with its hint, on standard error; with `--json` as a JSON object there.
    pub(crate) fn failure(&self, failure: &dyn Failure) {
        if self.json {
            let value = serde_json::json!({
                "error": failure.to_string(),
                "because": causes(failure),
                "hint": failure.hint(),
                "remedy": remedy(failure),
                "exit_code": failure.exit_code(),
            });
            Self::remark(&visible_json(&value.to_string()));
            return;
        }
        let color = may_color(&std::io::stderr());
        let message = message(failure);
        let mut lines = vec![format!("{} {message}", paint("error:", "1;31", color))];
        let because = causes(failure).into_iter();
        lines.extend(because.map(|because| format!("  because: {because}")));
        if let Some(hint) = failure.hint() {
            lines.push(format!(
                "{} {}",
                paint("hint:", "1;36", color),
                visible(&hint)
            ));
        }
        if let Some(command) = remedy(failure) {
            lines.push(format!(
                "{} {}",
                paint("try:", "1;36", color),
                line(&command)
            ));
        }
        Self::remark(&lines.join("\n"));
    }
}

/// The whole command line that does what was meant, where it is known.
fn remedy(failure: &dyn Failure) -> Option<String> {
    let is_root = rustix::process::geteuid().is_root();
    let needs_root = failure.exit_code() == exit::NOT_PERMITTED && !is_root;
    let remedy = failure.remedy().or(needs_root.then_some(Remedy::AsRoot))?;
    // What is not text cannot be said here: its words would name something else.
    let given: Option<Vec<String>> = std::env::args_os()
        .map(|word| word.into_string().ok())
        .collect();
    Some(remedy.command_line(&given?))
}

/// JSON on its way out, with escapes for what is not to be seen. It comes in pieces that are whole characters.
struct VisibleJson<'a> {
    out: &'a mut dyn Write,
}

impl Write for VisibleJson<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        self.out.write_all(visible_json(text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Standard output, until its reader closes it: what is written then goes nowhere.
struct Pipe<'a> {
    is_closed: &'a Cell<bool>,
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed.get() {
            return Ok(bytes.len());
        }
        match streams::stdout().write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed.set(true);
                Ok(bytes.len())
            }
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // nothing is held
    }
}

/// Colour is for terminals, and not for those who set `NO_COLOR` (no-color.org).
fn may_color(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How a line of a result stands out (an SGR code): the answer, green if it is to change something, yellow if it
/// is none.
fn stands_out(line: &str) -> &'static str {
    match line.strip_prefix("Answer: ") {
        Some(answer) if answer.starts_with("use ") => "1;32",
        Some(answer)
            if ["no arm ", "undecided", "disturbed"]
                .iter()
                .any(|word| answer.starts_with(word)) =>
        {
            "1;33"
        }
        Some(_) => "1",
        None => "",
    }
}

/// Text in a colour (an SGR code), if wanted.
fn paint(text: &str, code: &str, wanted: bool) -> String {
    if wanted {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// Writes all of it; a closed pipe is no error.
fn write(stream: &mut dyn Write, text: &str) -> io::Result<()> {
    match stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Columns of the terminal on standard output, if it is one.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stands_out_and_nothing_else_does() {
        let lines = [
            ("Answer: undecided: keep none for", "1;33"),
            ("  random-read on sda.", ""),
            ("Answer: use bfq for sda.", "1;32"),
            ("Answer: keep none for sda.", "1"),
        ];
        for (line, expected) in lines {
            assert_eq!(stands_out(line), expected, "{line}");
        }
    }
}
