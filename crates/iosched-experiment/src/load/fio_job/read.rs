//! Sections and options, each of them checked.

use std::path::Path;

use iosched_facts::fio::{FioOption, Handling};
use iosched_machine::failure::Problem;
use iosched_sim::workload::fio_job::lines::{BadLine, Item, Line, lines};

use super::{Assignment, Job, JobFile, allowed};

/// Options of all sections, with those that each has from `[global]`: a file of a few MiB could ask for all memory.
const MOST_OPTIONS: usize = 100_000;

impl JobFile {
    /// Reads and checks a job file. `file` is what errors call it.
    pub(crate) fn parse(file: &str, text: &str) -> Result<JobFile, Problem> {
        let (parsed, refused) = JobFile::read(text);
        match refused.is_empty() {
            _ if parsed.jobs.is_empty() && refused.is_empty() => {
                let message =
                    format!("{file}: no job in it: only a [global] section or nothing at all");
                let hint = "add a section such as [job] with rw=randread";
                Err(Problem::usage(message).hint(hint))
            }
            true => Ok(parsed),
            false => Err(refusal(file, refused)),
        }
    }

    /// What of a job file can be run, and why the rest cannot, by line.
    pub(crate) fn read(text: &str) -> (JobFile, Refused) {
        let mut reading = Reading::default();
        for line in lines(text) {
            if reading.options > MOST_OPTIONS {
                let cause = "more than 100 000 options, with those of [global] in each section";
                reading.refused.push((reading.last_line, cause.into()));
                break;
            }
            match line {
                Ok(line) => reading.take(line),
                Err(bad) => reading.refused.push((bad.number, syntax(&bad))),
            }
        }
        reading.finish()
    }
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    globals: Vec<Assignment>,
    jobs: Vec<Job>,
    in_global: bool,
    options: usize,
    last_line: usize,
    replaced: Vec<(String, &'static str)>,
    /// Why the file is refused, by line.
    refused: Refused,
}

impl Reading {
    fn take(&mut self, line: Line<'_>) {
        self.last_line = line.number;
        self.options += match line.item {
            Item::Section(_) => 1 + self.globals.len(),
            Item::Global | Item::Option { .. } => 1,
        };
        match line.item {
            Item::Global => self.in_global = true,
            Item::Section(name) => {
                self.in_global = false;
                // What a [global] section says holds for the jobs after it.
                self.jobs.push(Job {
                    name: job_name(name),
                    assignments: self.globals.clone(),
                });
            }
            Item::Option { key, value } => self.option(Assignment {
                line: line.number,
                key,
                value: value.map(str::to_owned),
            }),
        }
    }

    fn option(&mut self, mut assignment: Assignment) {
        let line = assignment.line;
        let of_section = match self.jobs.last_mut() {
            _ if self.in_global => &mut self.globals,
            Some(job) => &mut job.assignments,
            None => {
                let cause = format!("option {} stands before any [section]", assignment.key);
                return self.refused.push((line, cause));
            }
        };
        match allowed::check(&assignment) {
            Err(cause) => self.refused.push((line, cause)),
            Ok(Handling::Replaced(by)) => {
                if !self.replaced.iter().any(|(key, _)| *key == assignment.key) {
                    self.replaced.push((assignment.key, by));
                }
            }
            Ok(_) => {
                if let Some(option) = FioOption::find(&assignment.key) {
                    assignment.key = option.name.into();
                }
                of_section.push(assignment);
            }
        }
    }

    fn finish(mut self) -> (JobFile, Refused) {
        let of_jobs = self.jobs.iter().filter_map(allowed::check_job);
        self.refused.extend(of_jobs);
        let file = JobFile {
            jobs: self.jobs,
            replaced: self.replaced,
        };
        (file, self.refused)
    }
}

/// Why a file is refused, by line; 0 of what has none.
pub(crate) type Refused = Vec<(usize, String)>;

/// All that a file is refused for, as one problem.
pub(crate) fn refusal(file: &str, mut refused: Refused) -> Problem {
    refused.sort();
    refused.dedup();
    let lines = refused.iter().map(|(line, cause)| match line {
        0 => format!("{file}: {cause}"),
        line => format!("{file}:{line}: {cause}"),
    });
    let hint = "change or remove what is named; `fio --cmdhelp=OPTION` says what an option takes";
    let first = format!("{file} cannot be run as a load:");
    Problem::of_all(first, lines.collect()).hint(hint)
}

/// A name by which fio takes a job for nothing else: not for a path, nor for an entry of the directory where it runs, /proc.
fn job_name(name: &str) -> String {
    let plain = name.replace(['/', '$'], "-");
    let is_number = plain
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number || Path::new("/proc").join(&plain).is_dir() {
        return format!("job-{plain}");
    }
    plain
}

fn syntax(bad: &BadLine<'_>) -> String {
    // Without the line: who may run us as root is not to be shown a file that only root may read.
    format!("cannot read this line: {}", bad.cause)
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
    fn a_section_that_fio_would_take_for_another_thing_gets_another_name() {
        let text = "[1]\n[self]\n[..]\n[a/b]\n[my-global]\n";
        let file = JobFile::parse("j", text).unwrap();
        let names: Vec<&str> = file.jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["job-1", "job-self", "job-..", "a-b", "my-global"]);
    }

    #[test]
    fn each_job_gets_the_globals_that_stand_before_it_and_not_those_after() {
        let text = "[global]\nbs=4k\n[a]\nrw=read\n[global]\nbs=8k\n[b]\nrw=read\n";
        let file = JobFile::parse("j", text).unwrap();
        assert_eq!(file.jobs[0].last("bs"), Some("4k"));
        assert_eq!(file.jobs[1].last("bs"), Some("8k"));
    }

    #[test]
    fn comments_after_a_value_and_a_byte_order_mark_are_passed_over() {
        let text = "\u{feff}[a] # first\nrw=randwrite ; of all\nbs=4k\t# small\n;rw=read\n";
        let file = JobFile::parse("j", text).unwrap();
        assert!(file.writes() && !file.reads());
        assert_eq!(file.jobs[0].last("bs"), Some("4k"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,200}(\\n\\PC{0,80}){0,8}") {
            let _ = JobFile::parse("fuzz", &text);
        }
    }
}
