//! Sections and options, each of them checked.

use std::path::Path;

use iosched_machine::failure::Problem;
use iosched_sim::workload::fio_job::lines::{BadLine, Item, Line, lines};

use super::{Assignment, Job, JobFile, allowed};

/// Options of all sections, with those that each has from `[global]`: a file of a few MiB could ask for all memory.
const MOST_OPTIONS: usize = 100_000;

impl JobFile {
    /// Reads and checks a job file. `file` is what errors call it.
    pub(crate) fn parse(file: &str, text: &str) -> Result<JobFile, Problem> {
        let mut globals = Vec::new();
        let mut jobs: Vec<Job> = Vec::new();
        let mut in_global = false;
        let mut options = 0;
        for line in lines(text) {
            let Line { number, item } = line.map_err(|bad| syntax(file, &bad))?;
            options += match item {
                Item::Section(_) => 1 + globals.len(),
                Item::Global | Item::Option { .. } => 1,
            };
            if options > MOST_OPTIONS {
                return Err(Problem::usage(format!(
                    "{file}:{number}: more than 100 000 options, with those of [global] in each section"
                )));
            }
            match item {
                Item::Global => in_global = true,
                Item::Section(name) => {
                    if is_of_proc(name) {
                        return Err(syntax(
                            file,
                            &BadLine {
                                number,
                                text: &format!("[{name}]"),
                                cause: "fio would take a job of this name for an entry of its working directory, /proc",
                            },
                        ));
                    }
                    in_global = false;
                    // What a [global] section says holds for the jobs after it.
                    jobs.push(Job {
                        name: name.into(),
                        assignments: globals.clone(),
                    });
                }
                Item::Option { key, value } => {
                    let assignment = Assignment {
                        line: number,
                        key,
                        value: value.map(str::to_owned),
                    };
                    allowed::check(file, &assignment)?;
                    match jobs.last_mut() {
                        _ if in_global => globals.push(assignment),
                        Some(job) => job.assignments.push(assignment),
                        None => return Err(syntax(file, &outside(number, &assignment.key))),
                    }
                }
            }
        }
        if jobs.is_empty() {
            let message =
                format!("{file}: no job in it: only a [global] section or nothing at all");
            let hint = "add a section such as [job] with rw=randread";
            return Err(Problem::usage(message).hint(hint));
        }
        Ok(JobFile { jobs })
    }
}

/// True for a name that stands in the directory where fio runs, or may at any time: the numbers of processes. fio works
/// on something that has the name of a job and is no regular file.
fn is_of_proc(name: &str) -> bool {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    is_number || Path::new("/proc").join(name).is_dir()
}

fn syntax(file: &str, bad: &BadLine<'_>) -> Problem {
    let BadLine {
        number,
        text,
        cause,
    } = bad;
    Problem::usage(format!("{file}:{number}: cannot read {text:?}: {cause}"))
        .hint("a job file has [section] lines, option=value lines, and comments after # or ;")
}

/// An option that no job has.
fn outside(number: usize, text: &str) -> BadLine<'_> {
    BadLine {
        number,
        text,
        cause: "an option before any [section]",
    }
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
    fn a_section_that_fio_would_take_for_another_thing_is_refused() {
        for name in ["globals", "global2", "1", "4711", "self", "net", "..", "."] {
            let error = JobFile::parse("j", &format!("[a]\nrw=read\n[{name}]\nrw=read\n"));
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with("j:3: "), "{name}: {error}");
            assert!(error.contains("fio "), "{name}: {error}");
        }
        JobFile::parse("j", "[a1]\nrw=read\n[my-global]\nrw=read\n").unwrap();
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
