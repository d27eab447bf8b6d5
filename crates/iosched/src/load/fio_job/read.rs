//! Lines to sections and options, each of them checked.

use super::{Assignment, Job, JobFile, JobFileError, allowed};

/// Options of all sections, with those that each has from `[global]`: a file of a few MiB could ask for all memory.
const MOST_OPTIONS: usize = 100_000;

impl JobFile {
    /// Reads and checks a job file. `file` is what errors call it.
    pub fn parse(file: &str, text: &str) -> Result<JobFile, JobFileError> {
        let mut globals = Vec::new();
        let mut jobs: Vec<Job> = Vec::new();
        let mut in_global = false;
        let mut options = 0;
        for (index, raw) in text.lines().enumerate() {
            let line = index + 1;
            let syntax = |cause| JobFileError::Syntax {
                file: file.into(),
                line,
                text: raw.trim().into(),
                cause,
            };
            let content = without_comment(raw.trim_start_matches('\u{feff}')).trim();
            if content.is_empty() || content.starts_with(['#', ';']) {
                continue;
            }
            options += if content.starts_with('[') {
                1 + globals.len()
            } else {
                1
            };
            if options > MOST_OPTIONS {
                return Err(syntax(
                    "more than 100 000 options, with those of [global] in each section",
                ));
            }
            if let Some(rest) = content.strip_prefix('[') {
                let name = rest
                    .split_once(']')
                    .map(|(name, _)| name.trim())
                    .ok_or_else(|| syntax("the section's ] is missing"))?;
                in_global = name == "global";
                if !in_global {
                    check_section_name(name).map_err(syntax)?;
                    // What a [global] section says holds for the jobs after it.
                    jobs.push(Job {
                        name: name.into(),
                        assignments: globals.clone(),
                    });
                }
                continue;
            }
            let assignment = read_assignment(line, content).map_err(syntax)?;
            allowed::check(file, &assignment)?;
            match jobs.last_mut() {
                _ if in_global => globals.push(assignment),
                Some(job) => job.assignments.push(assignment),
                None => return Err(syntax("an option before any [section]")),
            }
        }
        if jobs.is_empty() {
            return Err(JobFileError::NoJobs { file: file.into() });
        }
        Ok(JobFile { jobs })
    }
}

/// The line up to a comment: `#` or `;` at its beginning or after a blank.
fn without_comment(line: &str) -> &str {
    let starts = |(at, c): &(usize, char)| {
        matches!(c, '#' | ';') && line[..*at].chars().last().is_none_or(char::is_whitespace)
    };
    line.char_indices()
        .find(starts)
        .map_or(line, |(at, _)| &line[..at])
}

fn check_section_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("the section has no name");
    }
    if name.len() > 64 || name.chars().any(|c| c.is_control() || c == '/' || c == '$') {
        return Err("a section's name is at most 64 characters, without / and $");
    }
    Ok(())
}

fn read_assignment(line: usize, content: &str) -> Result<Assignment, &'static str> {
    // fio starts a comment at # or ; only where a line begins, but a value with one is an accident.
    let (key, value) = match content.split_once('=') {
        Some((key, value)) => (key.trim(), Some(value.trim().to_owned())),
        None => (content, None),
    };
    if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err("this is not option=value");
    }
    if value
        .as_deref()
        .is_some_and(|value| value.contains(['$', '`']))
    {
        return Err("variables and commands in values are not supported");
    }
    Ok(Assignment {
        line,
        key: key.to_ascii_lowercase(),
        value,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn globals_are_not_multiplied_without_end() {
        let text = "[global]\n".to_owned() + &"bs=4k\n".repeat(1000) + &"[a]\n".repeat(1000);
        let error = JobFile::parse("j", &text).unwrap_err().to_string();
        assert!(error.contains("more than 100 000 options"), "{error}");
    }

    #[test]
    fn each_job_gets_the_globals_that_stand_before_it_and_not_those_after() {
        let text = "[global]\nbs=4k\n[a]\nrw=read\n[global]\nbs=8k\n[b]\nrw=read\n";
        let file = JobFile::parse("j", text).unwrap();
        assert_eq!(file.jobs[0].last("bs", "blocksize"), Some("4k"));
        assert_eq!(file.jobs[1].last("bs", "blocksize"), Some("8k"));
    }

    #[test]
    fn comments_after_a_value_and_a_byte_order_mark_are_passed_over() {
        let text = "\u{feff}[a] # first\nrw=randwrite ; of all\nbs=4k\t# small\n;rw=read\n";
        let file = JobFile::parse("j", text).unwrap();
        assert!(file.writes() && !file.reads());
        assert_eq!(file.jobs[0].last("bs", "blocksize"), Some("4k"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,200}(\\n\\PC{0,80}){0,8}") {
            let _ = JobFile::parse("fuzz", &text);
        }
    }
}
