//! The models that come with the program, by name: files as users write them, each with its sources and what it leaves
//! out.
//!
//! "Our choice" marks a number for which no source was at hand. None of these is "the disk": two
//! drives of a class differ more than two schedulers do.

use iosched_facts::Problem;
use iosched_facts::near::did_you_mean;

use super::{DiskModel, Model, ModelOptions};

/// Name and file. No drive is made of others; arrays are.
const FILES: [(&str, &str); 19] = [
    ("hdd-7200", include_str!("models/hdd-7200.toml")),
    ("hdd-7200-fifo", include_str!("models/hdd-7200-fifo.toml")),
    (
        "hdd-7200-desktop",
        include_str!("models/hdd-7200-desktop.toml"),
    ),
    ("hdd-8tb", include_str!("models/hdd-8tb.toml")),
    ("hdd-16tb", include_str!("models/hdd-16tb.toml")),
    ("hdd-22tb", include_str!("models/hdd-22tb.toml")),
    ("hdd-5400", include_str!("models/hdd-5400.toml")),
    ("hdd-15k", include_str!("models/hdd-15k.toml")),
    ("hdd-10k", include_str!("models/hdd-10k.toml")),
    ("ssd-sata", include_str!("models/ssd-sata.toml")),
    ("ssd-sas-slc", include_str!("models/ssd-sas-slc.toml")),
    ("ssd-nvme", include_str!("models/ssd-nvme.toml")),
    ("null", include_str!("models/null.toml")),
    ("fixed", include_str!("models/fixed.toml")),
    ("formula", include_str!("models/formula.toml")),
    ("raid10-15k", include_str!("models/raid10-15k.toml")),
    ("raid5-7200", include_str!("models/raid5-7200.toml")),
    ("san-volume", include_str!("models/san-volume.toml")),
    ("virtual-disk", include_str!("models/virtual-disk.toml")),
];

/// Makes the model that comes with the program under this name, with departures.
pub fn build(name: &str, options: &ModelOptions) -> Result<Box<dyn DiskModel>, Problem> {
    Model::named(name)?.build(options)
}

/// The models that come with the program.
pub fn models() -> Vec<Model> {
    FILES.iter().map(|(_, text)| ours(text)).collect()
}

fn ours(text: &str) -> Model {
    Model::parse(text).unwrap_or_else(|wrong| panic!("a model of ours: {wrong}"))
}

impl Model {
    /// The model that comes with the program under this name.
    pub fn named(name: &str) -> Result<Model, Problem> {
        let known = || {
            let names = FILES.map(|(name, _)| name).join(", ");
            let near = did_you_mean(name, FILES.map(|(known, _)| known));
            Problem::usage(format!("no disk model is called `{name}`; there are: {names}")).hint(near.unwrap_or_else(|| {
                "`iosched emulate models` describes them; a model of your own is a file whose name ends in .toml".into()
            }))
        };
        let found = FILES.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| ours(text)).ok_or_else(known)
    }
}

/// The hard disk that comes with the program under this name.
#[cfg(test)]
pub(super) fn hdd(name: &str) -> super::hdd::HddParameters {
    match Model::named(name).map(|model| model.parameters) {
        Ok(super::Parameters::Hdd(hdd)) => hdd,
        other => panic!("{name} is no hard disk: {other:?}"),
    }
}
