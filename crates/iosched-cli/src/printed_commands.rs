//! Every command that documentation, help, hints and messages print can be typed: it parses.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use crate::args;

/// The files below a directory whose name ends so.
fn files(directory: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, end, found);
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
}

/// Commands in code blocks, help and hints; of Markdown also those in a sentence, which may be named without what follows.
fn commands_in(text: &str, is_markdown: bool) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    let mut joined = String::new();
    for line in text.lines() {
        let line = line.trim_end();
        if let Some(begun) = line.strip_suffix('\\') {
            joined += begun;
            continue;
        }
        let line = std::mem::take(&mut joined) + line;
        is_fenced ^= line.trim_start().starts_with("```");
        if !is_markdown && line.trim_start().starts_with("//") {
            continue;
        }
        let typed = line.trim_start_matches(['$', '#', ' ']);
        if !is_markdown || is_fenced || line.starts_with("    ") {
            found.push((typed.to_owned(), false));
        }
        let quoted = line.split('`').skip(1).step_by(2);
        found.extend(quoted.map(|command| (command.to_owned(), is_markdown)));
    }
    let found = found.into_iter().map(|(command, is_named)| {
        let command = command
            .strip_prefix("sudo ")
            .map(str::to_owned)
            .unwrap_or(command);
        (command, is_named)
    });
    found
        .filter(|(command, _)| command.starts_with("iosched ") && !command.ends_with('.'))
        .collect()
}

/// The words up to a comment, a description or another command.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut last = ' ';
    for (at, c) in command.char_indices() {
        match (quote, c) {
            (None, '"') if !command[at + 1..].contains('"') => break,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, ' ') if last == ' ' => break,
            (None, ' ') => words.push(String::new()),
            (None, ';' | '|' | '&' | '>' | '#' | '<' | '`' | '\\') => break,
            _ => words.last_mut().unwrap().push(c),
        }
        last = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Why it cannot be typed. What stands for something else, as `FILE` and `{name}`, may be no value.
fn fault(command: &str, is_named: bool) -> Option<String> {
    let words = words(command);
    if words.len() == 1 {
        return None;
    }
    let is_part = is_named || words.iter().any(|word| word.contains('…'));
    let stands_for = |word: &String| {
        let named = word.trim_start_matches(|c: char| !c.is_ascii_uppercase());
        word.contains(['{', '$'])
            || !named.is_empty() && !named.contains(|c: char| c.is_ascii_lowercase())
    };
    let typed = words.iter().filter(|word| !word.contains('…'));
    let error = args::command().try_get_matches_from(typed).err()?;
    let is_known = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            is_part || words.iter().any(stands_for)
        }
        ErrorKind::MissingRequiredArgument
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => is_part || words.len() == 2,
        _ => false,
    };
    (!is_known).then(|| {
        format!(
            "{command}: {}",
            error.to_string().lines().next().unwrap_or("")
        )
    })
}

#[test]
fn every_command_that_is_printed_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![root.join("README.md"), root.join("SECURITY.md")];
    for place in ["docs", "results", "lab", "fleet", "examples"] {
        files(&root.join(place), ".md", &mut found);
    }
    for krate in fs::read_dir(root.join("crates")).unwrap() {
        files(&krate.unwrap().path().join("src"), ".rs", &mut found);
    }
    let mut seen = 0;
    let mut faults = Vec::new();
    for file in found {
        let is_markdown = file.extension().is_some_and(|end| end == "md");
        for (command, is_named) in commands_in(&fs::read_to_string(&file).unwrap(), is_markdown) {
            seen += 1;
            let name = file.strip_prefix(&root).unwrap().display();
            faults.extend(fault(&command, is_named).map(|fault| format!("{name}: {fault}")));
        }
    }
    assert!(seen > 300, "{seen}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
