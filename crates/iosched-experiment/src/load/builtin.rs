//! The built-in loads: job files with a name, each with the metric that decides it.

use crate::objective::Objective;

/// A load that comes with the program.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// What the user types.
    pub name: &'static str,
    /// One line for `--help` and the report.
    pub summary: &'static str,
    /// The fio job file.
    pub text: &'static str,
    /// What decides where the user does not say: the number that this load is about.
    pub objective: Objective,
}

impl BuiltIn {
    /// True of its job file, also in records from before it named engine and direct access: those were our defaults.
    pub(super) fn is_text(&self, text: &str) -> bool {
        const ENGINE: &str = "ioengine=libaio\ndirect=1\n";
        let older = self.text.replace(&format!("[global]\n{ENGINE}\n"), "");
        self.text == text || older.replace(ENGINE, "") == text
    }
}

/// All of them, the default first.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "random-read",
        summary: "random 4 KiB reads, 32 in flight",
        text: include_str!("../../loads/random-read.fio"),
        objective: Objective::Throughput,
    },
    BuiltIn {
        name: "random-write",
        summary: "random 4 KiB writes past the page cache, 32 in flight",
        text: include_str!("../../loads/random-write.fio"),
        objective: Objective::Throughput,
    },
    BuiltIn {
        name: "mixed",
        summary: "random 4 KiB reads and writes, 70 : 30, 32 in flight",
        text: include_str!("../../loads/mixed.fio"),
        objective: Objective::Throughput,
    },
    BuiltIn {
        name: "sequential-read",
        summary: "two sequential 128 KiB readers far apart",
        text: include_str!("../../loads/sequential-read.fio"),
        objective: Objective::Throughput,
    },
    BuiltIn {
        name: "readers-vs-writer",
        summary: "a stream writer against four readers; their p99 decides",
        text: include_str!("../../loads/readers-vs-writer.fio"),
        objective: Objective::ReadP99,
    },
    BuiltIn {
        name: "fairness",
        summary: "five kinds of readers and writers; Jain's index decides",
        text: include_str!("../../loads/fairness.fio"),
        objective: Objective::Fairness,
    },
];

/// The built-in load of this name.
pub(crate) fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|load| load.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::fio_job::JobFile;

    #[test]
    fn the_loads_of_the_example_record_are_ours_as_they_were_then() {
        let record = include_str!("../../../../docs/example-record/record.jsonl");
        let header: serde_json::Value =
            serde_json::from_str(record.lines().next().unwrap()).unwrap();
        for load in header["plan"]["loads"].as_array().unwrap() {
            let (name, text) = (&load["name"], load["job_file"].as_str().unwrap());
            assert!(BUILT_IN.iter().any(|load| load.is_text(text)), "{name}");
        }
    }

    #[test]
    fn every_built_in_load_passes_our_own_check() {
        for load in BUILT_IN {
            let file = JobFile::parse(load.name, load.text).unwrap();
            let reads_only = ["random-read", "sequential-read"].contains(&load.name);
            assert_eq!(!file.writes(), reads_only, "{}", load.name);
        }
    }
}
