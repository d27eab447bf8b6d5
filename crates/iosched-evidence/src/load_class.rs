//! What a disk is used for, and which loads stand for it.

use serde::Serialize;

/// What a disk is used for ([`LoadClass::what`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "what() says it, for --help too")]
pub enum LoadClass {
    #[default]
    General,
    Database,
    Desktop,
    Files,
    Backup,
    Vm,
}

impl LoadClass {
    /// All, in the order of the table.
    pub const ALL: [LoadClass; 6] = [
        LoadClass::General,
        LoadClass::Database,
        LoadClass::Desktop,
        LoadClass::Files,
        LoadClass::Backup,
        LoadClass::Vm,
    ];

    /// As `--load-class` has it.
    pub fn name(self) -> &'static str {
        match self {
            LoadClass::General => "general",
            LoadClass::Database => "database",
            LoadClass::Desktop => "desktop",
            LoadClass::Files => "files",
            LoadClass::Backup => "backup",
            LoadClass::Vm => "vm",
        }
    }

    /// What that is.
    pub fn what(self) -> &'static str {
        match self {
            LoadClass::General => "Nothing is known of it",
            LoadClass::Database => {
                "A database server: small reads and writes that wait for one another, flushes"
            }
            LoadClass::Desktop => "Programs start and open files while something copies",
            LoadClass::Files => "A file server: many clients at once",
            LoadClass::Backup => "Long streams",
            LoadClass::Vm => "The host of virtual machines, whose images lie on it",
        }
    }

    /// The class that a load of ours stands for, by its name in a record.
    pub(crate) fn of_load(name: &str) -> Option<LoadClass> {
        let family = name.split(':').next().unwrap_or(name);
        Some(match family {
            "random-read" | "random-write" => LoadClass::General,
            "pgbench" | "database" => LoadClass::Database,
            "desktop" | "responsiveness" => LoadClass::Desktop,
            "mixed" | "build" | "documents-read" | "documents-create" => LoadClass::Files,
            "readers-vs-writer" | "sequential-read" => LoadClass::Backup,
            "fairness" => LoadClass::Vm,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_has_a_class() {
        for load in iosched_experiment::load::builtin::BUILT_IN {
            assert!(LoadClass::of_load(load.name).is_some(), "{}", load.name);
        }
        assert_eq!(LoadClass::of_load("database:3"), Some(LoadClass::Database));
        assert_eq!(LoadClass::of_load("my-load"), None);
    }
}
