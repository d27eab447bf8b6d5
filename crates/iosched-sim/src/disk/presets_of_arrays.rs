//! Arrays, and what looks like one: drives of [`presets`](super::presets) behind a controller.

use super::array::{ArrayParameters, ControllerCache, Level};
use super::{Model, Parameters};
use crate::units::{Bytes, Nanos, Sectors};

const LEAVES_OUT: &[&str] = &[
    "failed members and rebuilding",
    "that two small writes to one row of parity wait for one another",
    "parity that several small writes of one row could share in the controller, but for what the cache puts together",
    "the speed of the controller's memory",
];

const STRUCTURE: &str = "structure: writes acknowledged from battery-backed memory in microseconds, emptied between two water marks \
                         in one direction (HP Smart Array technology brief); drives' own caches off (MegaRAID's default)";
const CHOICE: &str = "100 µs from the cache, 80 and 20 %, eight writes at a time to the members, 4 s, read-ahead: our choice, no table of \
                      a controller was at hand";

const LINK: &str = "the controller's link: 4 GB/s in each direction, PCI Express 2.0 (5 Gb/s and 8b/10b in each of eight lanes), as of the \
                    HP Smart Array P410";

/// The arrays that come with the program, of drives that do.
pub(super) fn arrays(drives: &[Model]) -> Vec<Model> {
    let parameters = |level, members: &[&str], cache| parameters(drives, level, members, cache);
    vec![
        array(
            "raid10-15k",
            "eight 15 000 rpm drives as RAID 10 behind a controller with 512 MiB of battery-backed cache",
            &["members: hdd-15k", STRUCTURE, LINK, CHOICE],
            parameters(Level::Raid10, &["hdd-15k"; 8], Some(cache(512 << 20))),
        ),
        array(
            "raid5-7200",
            "five 7200 rpm drives as RAID 5, written through: no battery",
            &[
                "members: hdd-7200",
                LINK,
                "parity as Linux's md: left-symmetric",
            ],
            parameters(Level::Raid5, &["hdd-7200"; 5], None),
        ),
        array(
            "san-volume",
            "a volume of sixteen 15 000 rpm drives as RAID 10 behind 4 GiB of battery-backed cache, 200 µs away",
            &[
                "members: hdd-15k",
                STRUCTURE,
                CHOICE,
                "200 µs for the way there and back: our choice",
                "850 MB/s in each direction: Fibre Channel of 8.5 Gb/s with 8b/10b (8GFC)",
            ],
            ArrayParameters {
                link: Some(850_000_000),
                command: Nanos::from_micros(200),
                queue_depth: 64,
                ..parameters(Level::Raid10, &["hdd-15k"; 16], Some(cache(4 << 30)))
            },
        ),
        array(
            "virtual-disk",
            "what a host makes of a SATA solid-state drive for a guest: said to be rotational, without seeks",
            &[
                "member: ssd-sata",
                "said to be rotational: what virtio and many hypervisors report",
                "50 µs of the host's for each command: our choice",
            ],
            ArrayParameters {
                link: None,
                command: Nanos::from_micros(50),
                ..parameters(Level::Raid0, &["ssd-sata"], None)
            },
        ),
    ]
}

fn array(name: &str, summary: &str, sources: &[&str], parameters: ArrayParameters) -> Model {
    let owned = |texts: &[&str]| texts.iter().copied().map(str::to_owned).collect();
    Model {
        name: name.to_owned(),
        summary: summary.to_owned(),
        sources: owned(sources),
        leaves_out: owned(LEAVES_OUT),
        parameters: Parameters::Array(parameters),
    }
}

fn parameters(
    drives: &[Model],
    level: Level,
    members: &[&str],
    cache: Option<ControllerCache>,
) -> ArrayParameters {
    let member = |name: &&str| {
        let found = drives.iter().find(|drive| drive.name == *name);
        found.expect("a drive of ours").clone()
    };
    let mut parameters = ArrayParameters {
        level,
        members: members.iter().map(member).collect(),
        chunk: Bytes::from_kib(64).to_sectors(),
        capacity: Sectors::ZERO,
        queue_depth: 32,
        rotational: true,
        command: Nanos::from_micros(20),
        link: Some(4_000_000_000),
        cache,
    };
    parameters.capacity = parameters.room();
    parameters
}

fn cache(bytes: u64) -> ControllerCache {
    ControllerCache {
        size: Bytes::new(bytes),
        battery: true,
        hit: Nanos::from_micros(100),
        high_permille: 800,
        low_permille: 200,
        destage_depth: 8,
        destage_age: Nanos::from_secs(4),
        read_ahead: Bytes::from_kib(256),
    }
}
