//! A command line of fio as a job file.
//!
//! Follows fio 3.33 (`parse_cmd_line`): each `--name` begins a job, what stands before the first one is global, an option
//! takes its value after `=` or as the next word, and a word without dashes is a job file.

use std::fmt::Write as _;

use iosched_facts::fio::{FioOption, Value};
use iosched_machine::failure::Problem;

use crate::load::words;

/// What fio prints, and how, is ours: these are left out, each with whether it takes a value.
const OF_OUTPUT: [(&str, bool); 13] = [
    ("output", true),
    ("output-format", true),
    ("status-interval", true),
    ("eta", true),
    ("eta-interval", true),
    ("eta-newline", true),
    ("max-jobs", true),
    ("terse-version", true),
    ("aux-path", true),
    ("bandwidth-log", false),
    ("append-terse", false),
    ("minimal", false),
    ("readonly", false),
];

/// A command line, read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// The first job's name.
    pub name: String,
    /// As a job file.
    pub text: String,
}

/// Whether a text is a command line of fio, and which: `fio: --name=…` or `fio --name=…`.
pub(crate) fn of(load: &str) -> Option<&str> {
    let rest = load.strip_prefix("fio")?;
    let line = rest.strip_prefix(':').unwrap_or(rest);
    let line = line.trim_start();
    (rest.starts_with([':', ' ']) && !line.is_empty())
        .then(|| line.strip_prefix("fio ").unwrap_or(line))
}

/// Reads a command line without the program's name; `file` reads a job file that it names.
pub(crate) fn read(
    line: &str,
    file: &dyn Fn(&str) -> Result<String, Problem>,
) -> Result<CommandLine, Problem> {
    let wrong =
        |cause: String| Problem::usage(format!("cannot read the command line of fio: {cause}"));
    let words = words::split(line).map_err(|cause| wrong(cause.into()))?;
    let mut words = words.into_iter();
    let (mut name, mut text) = (None, String::new());
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            text.push_str(&file(&word)?);
            continue;
        };
        let (key, mut value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (option, None),
        };
        let of_output = OF_OUTPUT.iter().find(|(name, _)| *name == key);
        let takes_value = of_output.map_or_else(|| takes_value(key), |(_, takes)| *takes);
        if value.is_none() && takes_value {
            value = words.next();
        }
        if of_output.is_some() {
            continue;
        }
        if value
            .as_ref()
            .is_some_and(|value| value.contains(['#', ';', '\n']))
        {
            return Err(wrong(format!(
                "--{key} has a character that ends a line of a job file"
            )));
        }
        if key != "name" && text.is_empty() {
            text.push_str("[global]\n");
        }
        let _ = match (key, value) {
            ("name", Some(value)) => {
                let begun = writeln!(text, "[{value}]");
                name.get_or_insert(value);
                begun
            }
            (key, Some(value)) => writeln!(text, "{key}={value}"),
            (key, None) => writeln!(text, "{key}"),
        };
    }
    let name = name.unwrap_or_else(|| "fio".into());
    Ok(CommandLine { name, text })
}

/// Whether the next word is an option's value if it has none of its own.
fn takes_value(key: &str) -> bool {
    FioOption::find(key).is_none_or(|option| option.value != Value::Switch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_the_job_file_that_fio_would_make_of_it() {
        let read = |line: &str| read(line, &|path| Ok(format!("# {path}\n")));
        let line = "--ioengine=libaio -direct 1 --name=a --rw randread --time_based --output-format=json --output x --name b \
                    --bssplit='4k/50:8k/50' more.fio";
        let expected = "[global]\nioengine=libaio\ndirect=1\n[a]\nrw=randread\ntime_based\n[b]\nbssplit=4k/50:8k/50\n\
                        # more.fio\n";
        let found = read(line).unwrap();
        assert_eq!((found.name.as_str(), found.text.as_str()), ("a", expected));
        assert!(read("--name='a").is_err() && read("--description='a # b'").is_err());
        for (load, line) in [
            ("fio: --name=x", Some("--name=x")),
            ("fio --name=x", Some("--name=x")),
            ("fio: fio --name=x", Some("--name=x")),
            ("fio", None),
            ("fio-load.fio", None),
        ] {
            assert_eq!(of(load), line, "{load}");
        }
    }
}
