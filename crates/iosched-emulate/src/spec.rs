//! What an emulated disk is to be: the wish of the user, and how it reaches the server.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use iosched_machine::failure::Problem;
use iosched_sim::disk::{DiskModel, DriveQueue, Model, ModelOptions};
use iosched_sim::quantity;
use iosched_sim::units::Bytes;
use serde::{Deserialize, Serialize};

use super::over::Over;

/// Where running emulated disks have their directories unless told otherwise.
pub const STATE_DIR: &str = "/run/iosched/emulated";

/// An emulated disk to be made.
///
/// The server is a process of its own: `server` is an executable that answers to
/// `emulate serve` as `iosched` does, usually the one that is running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// What takes the commands.
    #[serde(flatten)]
    pub base: Base,
    /// Another size than the model's.
    #[serde(rename = "size")]
    pub size_bytes: Option<u64>,
    /// Another queue depth than the model's.
    pub queue_depth: Option<usize>,
    /// Another order inside the drive than the model's.
    pub order: Option<DriveQueue>,
    /// Write cache on or off.
    pub write_cache: Option<bool>,
    /// All that the disk does takes this many times as long as the model says.
    #[serde(default)] // a disk that an older server made says nothing of it
    pub slow_down: Option<NonZeroU32>,
    /// The scheduler of ours that stands inside, over the model, with tunables: `cfq:slice_idle=0`.
    #[serde(default)] // a disk that an older server made says nothing of it
    pub scheduler: Option<String>,
    /// What `queue/rotational` is to say, if not what the model is.
    pub rotational: Option<bool>,
    /// Where the model's chance comes from.
    pub seed: u64,
    /// Directory for the data; default: memory if there is enough of it.
    pub backing_dir: Option<PathBuf>,
    /// The disk goes when this process ends.
    pub owner_pid: Option<i32>,
    /// The executable that becomes the server.
    pub server: PathBuf,
    /// Where the disk's own directory is made.
    pub state_dir: PathBuf,
    /// Name of the file that the disk is served as. No two disks have the same, so that the loop device over it
    /// is recognised whatever became of its mount, and in whatever mount namespace that is.
    #[serde(default)] // the server of a disk of before takes it down itself
    pub disk_file: String,
}

/// What takes the commands of a disk.
#[expect(clippy::large_enum_variant, reason = "a disk has one")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// A disk model; the data are in a file of ours.
    Model(Model),
    /// A real disk or a file of the user's.
    Over(Over),
}

/// A name that no other disk of this machine has.
fn new_disk_file() -> String {
    format!("disk-{:016x}", rand::random::<u64>())
}

impl Spec {
    /// A disk as the model describes it, served by `server`.
    pub fn new(model: Model, server: impl Into<PathBuf>) -> Spec {
        Spec::on(Base::Model(model), server)
    }

    /// A disk that stands over another or a file, with a scheduler inside.
    pub fn over(over: Over, scheduler: String, server: impl Into<PathBuf>) -> Spec {
        Spec {
            scheduler: Some(scheduler),
            ..Spec::on(Base::Over(over), server)
        }
    }

    fn on(base: Base, server: impl Into<PathBuf>) -> Spec {
        Spec {
            base,
            size_bytes: None,
            queue_depth: None,
            order: None,
            write_cache: None,
            slow_down: None,
            scheduler: None,
            rotational: None,
            seed: 0,
            backing_dir: None,
            owner_pid: None,
            server: server.into(),
            state_dir: Path::new(STATE_DIR).to_owned(),
            disk_file: new_disk_file(),
        }
    }

    /// Its model, if it has one.
    pub(crate) fn model(&self) -> Option<&Model> {
        match &self.base {
            Base::Model(model) => Some(model),
            Base::Over(_) => None,
        }
    }

    /// What it stands over, if it has no model.
    pub(super) fn stands_over(&self) -> Option<&Over> {
        match &self.base {
            Base::Model(_) => None,
            Base::Over(over) => Some(over),
        }
    }

    /// What it is called among emulated disks, before its number.
    pub(super) fn id(&self) -> String {
        match &self.base {
            Base::Model(model) => model.name.clone(),
            Base::Over(over) => over.id(),
        }
    }

    /// The machine that is wanted. Block devices are made of blocks of 4096 bytes: what a model has
    /// beyond the last whole one is left out.
    pub(super) fn build(&self, model: &Model) -> Result<Box<dyn DiskModel>, Problem> {
        let whole = Bytes::new(model.capacity().as_u64() / 4096 * 4096);
        model.build(&ModelOptions {
            size: Some(self.size_bytes.map_or(whole, Bytes::new)),
            queue_depth: self.queue_depth,
            order: self.order,
            write_cache: self.write_cache,
            slow_down: self.slow_down,
            seed: self.seed,
        })
    }
}

/// Reads a size as people write it: `512M`, `32G`, `1.5T`, `1536k`, or bytes. Powers of 1024.
pub fn parse_size(text: &str) -> Result<Bytes, String> {
    let bytes = quantity::bytes(text.trim()).filter(|&bytes| bytes > 0);
    bytes.map(Bytes::new).ok_or_else(|| {
        format!("`{text}` is no size: write a number with K, M, G or T, for example 32G")
    })
}

/// The name of an order inside the drive.
pub fn order_name(order: DriveQueue) -> &'static str {
    match order {
        DriveQueue::Fifo => "fifo",
        DriveQueue::ShortestAccessFirst => "shortest-access-first",
    }
}

/// The order inside the drive that has this name.
pub fn parse_order(name: &str) -> Result<DriveQueue, String> {
    let known = [DriveQueue::Fifo, DriveQueue::ShortestAccessFirst];
    let found = known.into_iter().find(|&order| order_name(order) == name);
    found.ok_or_else(|| format!("`{name}` is no order: there are fifo and shortest-access-first"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(parse_size("32G"), Ok(Bytes::from_gib(32)));
        assert_eq!(parse_size("512M"), Ok(Bytes::from_mib(512)));
        assert_eq!(parse_size("4T"), Ok(Bytes::from_gib(4096)));
        assert_eq!(parse_size("64KiB"), Ok(Bytes::from_kib(64)));
        assert_eq!(parse_size("4096"), Ok(Bytes::from_kib(4)));
        assert_eq!(parse_size("1.5G"), Ok(Bytes::from_mib(1536)));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for bad in ["", "G", "-1G", "0", "32X", "99999999999T", "1 G", "٣G"] {
            assert!(parse_size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_spec_over_a_file_reaches_the_server_as_it_was() {
        let over = Over {
            path: "/srv/disk".into(),
            kind: super::super::over::OverKind::NewFile {
                size_bytes: 8 << 20,
            },
            depth: 3,
            read_only: false,
            rotational: Some(true),
        };
        let spec = Spec::over(over, "cfq".to_owned(), "/usr/bin/iosched");
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
    }

    #[test]
    fn a_spec_reaches_the_server_as_it_was() {
        let mut spec = Spec::new(Model::named("hdd-7200-fifo").unwrap(), "/usr/bin/iosched");
        spec.size_bytes = Some(1 << 30);
        spec.order = Some(DriveQueue::Fifo);
        spec.write_cache = Some(false);
        spec.slow_down = NonZeroU32::new(8);
        spec.owner_pid = Some(17);
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
    }
}
