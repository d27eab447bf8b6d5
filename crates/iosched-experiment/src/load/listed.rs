//! The loads that `--load` takes: one table for help, manual page and hints.

use serde::Serialize;

use super::builtin::BUILT_IN;

/// A load by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ListedLoad {
    /// What the user types.
    pub name: &'static str,
    /// What the load does, in one line.
    pub summary: &'static str,
    /// What may follow the name and a colon, with the defaults; empty if nothing may.
    pub options: &'static str,
}

/// The loads that are no fio job file of ours.
const OTHERS: &[ListedLoad] = &[
    ListedLoad {
        name: "database",
        summary: "small (1, 2) and large (3, 4) database, read-mostly or mixed",
        options: "1..4",
    },
    ListedLoad {
        name: "pgbench",
        summary: "PostgreSQL; mode: tpcb, select, simple-update or FILE",
        options: "scale=50,clients=100,threads=2,mode=tpcb,protocol=simple",
    },
    ListedLoad {
        name: "desktop",
        summary: "start of a program beside a copy, or beside streams",
        options: "starts=2,seconds=1,size=64m,readers=0,writers=0",
    },
    ListedLoad {
        name: "five-tests",
        summary: "sweep of five tests, as iozone does it",
        options: "size=1g,record=16m,threads=1..3",
    },
    ListedLoad {
        name: "documents-read",
        summary: "document server, from a disk that holds stored=N documents",
        options: "threads=80,documents=32000,size=4k,order=random,control=on",
    },
    ListedLoad {
        name: "documents-create",
        summary: "document server that makes documents",
        options: "threads=80,documents=2000,size=4k",
    },
];

/// All loads that have a name, the default first.
pub fn loads() -> impl Iterator<Item = ListedLoad> {
    let built_in = BUILT_IN.iter().map(|load| ListedLoad {
        name: load.name,
        summary: load.summary,
        options: "",
    });
    built_in.chain(OTHERS.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::desktop::DesktopSettings;
    use crate::load::families;
    use crate::load::pgbench::PgbenchSettings;

    #[test]
    fn the_options_of_each_load_are_its_defaults() {
        for load in OTHERS {
            let with_options = format!("{}:{}", load.name, load.options);
            match load.name {
                "pgbench" => {
                    let parse = |text| PgbenchSettings::parse(text, None).unwrap();
                    assert_eq!(parse(load.options).settings, parse("").settings);
                }
                "desktop" => {
                    let parse = |text| DesktopSettings::parse(text).unwrap();
                    assert_eq!(parse(load.options), parse(""));
                }
                family => {
                    let parse = |text| families::read(text).unwrap().unwrap();
                    assert_eq!(parse(&with_options), parse(family));
                }
            }
        }
    }
}
