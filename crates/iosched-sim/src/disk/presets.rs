//! The models by name: parameter sets, each with its source and with what it leaves out.
//!
//! "Our choice" marks a number for which no source was at hand. None of these is "the disk": two
//! drives of a class differ more than two schedulers do.

use super::hdd::seek::SeekCurve;
use super::hdd::{
    After, HddParameters, Layout, LinkRates, Overheads, ReadAhead, Reading, SettleAfter,
    WriteSettle, Writing, ZoneSpec, Zones,
};
use super::simple::{FIX1, HDD1, ServiceTime, SimpleParameters};
use super::ssd::{Link, LongReads, Paths, SsdParameters};
use super::{DiskModel, DriveQueue, Model, ModelError, ModelOptions, Parameters};
use crate::units::{Bytes, Nanos, Sectors};

const HDD_LEAVES_OUT: &[&str] = &[
    "retries, reallocated sectors and recalibration (the tail of a worn drive)",
    "commands that partly lie in the buffer, except those that continue the stream being read",
];

const SSD_LEAVES_OUT: &[&str] = &[
    "the flash translation layer and garbage collection: writes never become slower with age",
    "suspension of programs, single-level-cell caches",
    "reads answered from the write buffer",
];

const ABSTRACT_LEAVES_OUT: &[&str] = &["everything but the rule for the service time"];

const HDD_7200_SOURCES: &[&str] = &[
    "seek fit, surfaces, cylinders, zones, segments, overheads: WD 4 TB model (G4) published with DiskSim",
    "write settle 0.8 ms: Ultrastar DC HC310 data sheet, average write less average read seek",
    "one cylinder, head and track switch 0.6 ms: our choice, so that reading in sequence gives the \
     174 MB/s of the Linux kernel's built-in cost model for hard disks",
    "write cache 64 MB: assumed for such drives by ublk-disksim; write-back rules: our choice",
];

/// Makes the model that comes with the program under this name, with departures.
pub fn build(name: &str, options: &ModelOptions) -> Result<Box<dyn DiskModel>, ModelError> {
    Model::named(name)?.build(options)
}

impl Model {
    /// The model that comes with the program under this name.
    pub fn named(name: &str) -> Result<Model, ModelError> {
        let mut all = models();
        let found = all.iter().position(|model| model.name == name);
        found
            .map(|index| all.swap_remove(index))
            .ok_or_else(|| ModelError::Unknown {
                name: name.to_owned(),
                known: models().into_iter().map(|model| model.name).collect(),
            })
    }
}

/// The models that come with the program.
pub fn models() -> Vec<Model> {
    let mut models = drives();
    models.extend(super::presets_of_arrays::arrays(&models));
    models
}

/// Those of one drive.
#[expect(clippy::too_many_lines, reason = "a table")]
fn drives() -> Vec<Model> {
    vec![
        preset(
            "hdd-7200",
            "7200 rpm, 4 TB, serves what it holds (4 commands) in order of arrival",
            HDD_7200_SOURCES,
            HDD_LEAVES_OUT,
            Parameters::Hdd(hdd_7200()),
        ),
        preset(
            "hdd-7200-ncq",
            "the same drive, sorting 32 commands itself by the shortest access",
            HDD_7200_SOURCES,
            HDD_LEAVES_OUT,
            Parameters::Hdd(hdd_7200_ncq()),
        ),
        preset(
            "hdd-7200-desktop",
            "7200 rpm desktop drive with slow seeks and a small cache, 2 TB",
            &[
                "mean seek 13 ms, queue of 4, cache of 1 MB: ublk-disksim's fit to a measured Seagate \
             ST2000DM006 (QD1 17.5 ms per random read, 143 MB/s in sequence)",
                "form of the seek curve, zones, overheads: our choice, to meet these figures",
            ],
            HDD_LEAVES_OUT,
            Parameters::Hdd(hdd_7200_desktop()),
        ),
        preset(
            "hdd-5400",
            "5400 rpm, 2.5 inch, 320 GB",
            &[
                "seeks 1.0 ms track to track, 12 ms average (13 ms writing), 20 ms full: Travelstar 5K320 data sheet",
                "zones (80 to 40 MB/s), surfaces, overheads, cache of 8 MB: our choice",
            ],
            HDD_LEAVES_OUT,
            Parameters::Hdd(hdd_5400()),
        ),
        preset(
            "hdd-15k",
            "15 000 rpm server drive, 146 GB",
            &[
                "zones, tracks, cylinders: Cheetah 15K.5 (published zone table)",
                "average seek 3.5 ms (4.0 ms writing): between the 4 ms quoted for this drive and the 3.3 / 3.8 ms of \
             the Ultrastar 15K450 data sheet; full stroke 5.8 ms follows from the form of the curve",
                "one cylinder and head switch 0.3 ms, overheads, queue: our choice",
            ],
            HDD_LEAVES_OUT,
            Parameters::Hdd(hdd_15k()),
        ),
        preset(
            "hdd-10k",
            "10 000 rpm SCSI drive of 1998, 9 GB, one command at a time",
            &[
                "seek fit, zones (evenly spaced here), surfaces, overheads, buffer: Cheetah 9LP as extracted for DiskSim",
                "one-cylinder seek 0.83 ms, head switch 0.03 ms: the same",
            ],
            HDD_LEAVES_OUT,
            Parameters::Hdd(hdd_10k()),
        ),
        preset(
            "ssd-sata",
            "SATA solid-state drive, 1 TB",
            &[
                "link: 98 441 random reads/s, 571.7 MB/s, 90 935 random writes/s, 539.7 MB/s, measured on a Samsung 870 \
             1TB (iocost-benchmarks)",
                "16 dies, page read 46 µs, program 390 µs, flush 3.2 ms: ublk-disksim's parameters of the 870 EVO",
                "reads and writes pass one link in turn: SATA is half duplex",
                "pipeline 40 µs, slow pages 60 µs (share 30 %), buffer 64 MiB: our choice",
            ],
            SSD_LEAVES_OUT,
            Parameters::Ssd(ssd_sata()),
        ),
        preset(
            "ssd-sas-slc",
            "SAS solid-state drive of single-level cells, 73 GB, without a volatile write cache",
            &[
                "73 GB, SAS: the write-up with 52 of them, which does not say whose they were",
                "105 000 random reads/s, 30 000 random writes/s, 350 MB/s, no volatile write cache: the least that SanDisk \
             claimed in 2011 for the Lightning drives of single-level cells (clubic.com, 429754)",
                "page read 25 µs, program 300 µs: single-level cells as in FlashSim's configuration",
                "reads and writes each with a link to themselves: SAS is full duplex",
                "pages of 4 KiB, 16 dies, writing as fast as reading in sequence, pipelines 20 µs, queue of 32: our choice",
            ],
            SSD_LEAVES_OUT,
            Parameters::Ssd(ssd_sas_slc()),
        ),
        preset(
            "ssd-nvme",
            "fast NVMe drive, 1 TB; true for random reads",
            &[
                "34 servers, 20 µs pipeline, pages 36 µs (70 %) and 49 µs: our fit to the 4 KiB random reads of a Samsung \
             980 PRO 1TB (ICPE 2024 artifact of Ren and others), within 3 % in IOPS at depths 1 to 128",
                "reads longer than a page: 50 µs more and 2.15 GB/s, our fit to the random reads of 8 to 64 KiB of the same \
             artifact, 36 points; iocost-benchmarks has 2.55 GB/s for large reads of that drive in another machine",
                "writes 84 113/s, 2 315 MB/s: iocost-benchmarks, Samsung 980 PRO 1TB",
                "that the dies bound the former (a program of 400 µs for each write, 85 000/s) and the link the latter: our \
             choice, since the artifact's reads wait for writes where no link is shared",
                "reads and writes each with a link and command slots to themselves: PCIe is full duplex, NVMe puts no order \
             between commands",
                "flush 0.38 ms: Kingston KC3000; program (400 µs for 64 KiB, not suspended for reads), buffer, link of 6.9 GB/s: our \
             choice",
            ],
            &[
                "why reads longer than a page take another way: two figures stand for it, whatever their length",
                "the flash translation layer and garbage collection: writes never become slower with age",
                "suspension of programs, erases, single-level-cell caches",
                "reads answered from the write buffer",
            ],
            Parameters::Ssd(ssd_nvme()),
        ),
        preset(
            "null",
            "answers at once",
            &["a definition"],
            ABSTRACT_LEAVES_OUT,
            simple(ServiceTime::Zero, 256, false),
        ),
        preset(
            "fixed",
            "1 ms for each command (fix1 of the recorded traces)",
            &["the simulated disk on which the traces of Linux 4.19 were recorded"],
            ABSTRACT_LEAVES_OUT,
            simple(FIX1, 1, true),
        ),
        preset(
            "formula",
            "0.1 ms + 5 µs per sector + 4.67 ms + 7 ms * sqrt(distance / capacity) (hdd1 of the recorded traces)",
            &["the simulated disk on which the traces of Linux 4.19 were recorded"],
            ABSTRACT_LEAVES_OUT,
            simple(HDD1, 1, true),
        ),
    ]
}

fn preset(
    name: &str,
    summary: &str,
    sources: &[&str],
    leaves_out: &[&str],
    parameters: Parameters,
) -> Model {
    let owned = |texts: &[&str]| texts.iter().copied().map(str::to_owned).collect();
    Model {
        name: name.to_owned(),
        summary: summary.to_owned(),
        sources: owned(sources),
        leaves_out: owned(leaves_out),
        parameters,
    }
}

fn simple(rule: ServiceTime, queue_depth: usize, rotational: bool) -> Parameters {
    Parameters::Simple(SimpleParameters {
        capacity: Bytes::from_gib(16).to_sectors(),
        queue_depth,
        rotational,
        rule,
    })
}

/// The largest size in whole blocks of 4096 bytes that is not above this one.
const fn whole_blocks(bytes: u64) -> Sectors {
    Bytes::new(bytes / 4096 * 4096).to_sectors()
}

const fn micros(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

/// Longer for writing after moves over more than one cylinder.
fn settle(micros: i64) -> WriteSettle {
    WriteSettle {
        nanos: micros * 1_000,
        after: SettleAfter::LongMoves,
    }
}

/// In microseconds, whatever the command before was.
fn overheads([read_hit, read_miss, write_hit, write_miss]: [u64; 4]) -> Overheads {
    let both = |time| After::both(micros(time));
    Overheads {
        read_hit: both(read_hit),
        read_miss: both(read_miss),
        write_hit: both(write_hit),
        write_miss: both(write_miss),
        scattered_write: None,
        reselect: Nanos::ZERO,
        data_preparation: Nanos::ZERO,
        read_completion: Nanos::ZERO,
        write_completion: Nanos::ZERO,
    }
}

fn reading(segments: usize, segment: Bytes, ahead: Bytes) -> Reading {
    Reading {
        segments,
        segment,
        ahead: ReadAhead::Distance(ahead),
        threshold_permille: 0,
        keeps_passing: false,
        zero_latency: false,
    }
}

fn writing(cache: Bytes, cache_stretches: usize) -> Writing {
    Writing {
        threshold: Sectors::ZERO,
        keeps_written: false,
        zero_latency: false,
        cache,
        cache_stretches,
        destage_delay: Nanos::from_millis(10),
        destage_age: Nanos::from_secs(2),
    }
}

/// WD 4 TB, as a drive that leaves the order to the host.
///
/// A drive that sorts 32 commands by itself hides what the host's scheduler does; one that sorts
/// little leaves it visible, and such drives are common (a measured desktop drive gains 1.7 times
/// from depth 32 where a good one gains 2.5 times).
pub(super) fn hdd_7200() -> HddParameters {
    HddParameters {
        capacity: whole_blocks(4_000_000_000_000),
        rpm: 7_200,
        surfaces: 10,
        layout: Layout::Proportional {
            cylinders: 310_194,
            band: 128,
            track_switch: micros(600),
            zones: Zones::Even {
                count: 60,
                outer: 3072,
                inner: 1536,
            },
        },
        seek: SeekCurve::Fit {
            first: vec![0.6],
            a: 1.498,
            b: 0.0192,
            knee: 67_809,
            c: 4.508,
            e: 0.000_031,
        },
        write_settle: settle(800),
        head_switch: micros(600),
        overheads: overheads([160, 160, 280, 630]),
        link: LinkRates {
            read: 550_000_000,
            write: 550_000_000,
        },
        queue_depth: 4,
        order: DriveQueue::Fifo,
        age_limit: Nanos::from_millis(500),
        reading: reading(32, Sectors::new(3072).to_bytes(), Bytes::from_mib(1)),
        writing: writing(Bytes::from_mib(64), 256),
        write_cache: true,
    }
}

/// One cylinder in `first` ms, `d` of them in `a + b * sqrt(d)` ms, however many they are.
fn square_root(first: f64, a: f64, b: f64) -> SeekCurve {
    SeekCurve::Fit {
        first: vec![first],
        a,
        b,
        knee: u32::MAX,
        c: 0.0,
        e: 0.0,
    }
}

fn hdd_7200_ncq() -> HddParameters {
    HddParameters {
        queue_depth: 32,
        order: DriveQueue::ShortestAccessFirst,
        ..hdd_7200()
    }
}

fn hdd_7200_desktop() -> HddParameters {
    HddParameters {
        capacity: whole_blocks(2_000_000_000_000),
        order: DriveQueue::ShortestAccessFirst,
        surfaces: 4,
        layout: Layout::Proportional {
            cylinders: 380_000,
            band: 128,
            track_switch: micros(800),
            zones: Zones::Even {
                count: 40,
                outer: 2520,
                inner: 1260,
            },
        },
        // a + b * 8/15 = 13 ms: the mean over random moves.
        seek: square_root(0.8, 3.0, 18.75 / 616.44), // sqrt(380 000)
        head_switch: micros(800),
        reading: reading(16, Sectors::new(3072).to_bytes(), Bytes::from_mib(1)),
        writing: writing(Bytes::from_mib(1), 64),
        ..hdd_7200()
    }
}

fn hdd_5400() -> HddParameters {
    HddParameters {
        capacity: whole_blocks(320_000_000_000),
        rpm: 5_400,
        surfaces: 4,
        layout: Layout::Proportional {
            cylinders: 120_000,
            band: 128,
            track_switch: micros(1_000),
            zones: Zones::Even {
                count: 24,
                outer: 1736,
                inner: 868,
            },
        },
        // a + b * 8/15 = 12 ms on average, a + b = 20 ms over the whole way.
        seek: square_root(1.0, 2.86, 17.14 / 346.41), // sqrt(120 000)
        write_settle: settle(1_000),
        head_switch: micros(1_000),
        reading: reading(16, Bytes::from_kib(512), Bytes::from_kib(256)),
        writing: writing(Bytes::from_mib(8), 128),
        link: LinkRates {
            read: 270_000_000,
            write: 270_000_000,
        },
        ..hdd_7200()
    }
}

fn hdd_15k() -> HddParameters {
    const ZONES: [(u32, u32); 14] = [
        (7801, 1200),
        (6400, 1160),
        (6000, 1120),
        (5700, 1104),
        (5400, 1080),
        (5100, 1020),
        (4900, 994),
        (4700, 960),
        (4500, 920),
        (4400, 880),
        (4200, 840),
        (4100, 816),
        (4000, 780),
        (4970, 720),
    ];
    let zone = |(cylinders, sectors_per_track)| ZoneSpec {
        cylinders,
        sectors_per_track,
    };
    HddParameters {
        capacity: whole_blocks(287_194_400 * 512),
        queue_depth: 16,
        order: DriveQueue::ShortestAccessFirst,
        write_cache: false,
        rpm: 15_000,
        surfaces: 4,
        layout: Layout::Proportional {
            cylinders: 72_171,
            band: 1,
            track_switch: micros(300),
            zones: Zones::Table(ZONES.into_iter().map(zone).collect()),
        },
        // a + b * 8/15 = 3.5 ms.
        seek: square_root(0.3, 0.9, 4.875 / 268.65), // sqrt(72 171)
        write_settle: settle(500),
        head_switch: micros(300),
        overheads: overheads([80, 100, 80, 100]),
        link: LinkRates {
            read: 300_000_000,
            write: 300_000_000,
        },
        reading: reading(32, Bytes::from_kib(512), Bytes::from_kib(256)),
        writing: writing(Bytes::from_mib(8), 128),
        ..hdd_7200()
    }
}

/// Cheetah 9LP.
pub(super) fn hdd_10k() -> HddParameters {
    HddParameters {
        capacity: whole_blocks(17_783_240 * 512),
        queue_depth: 1,
        write_cache: false,
        rpm: 10_045,
        surfaces: 12,
        layout: Layout::Proportional {
            cylinders: 6_962,
            band: 1,
            track_switch: micros(900),
            zones: Zones::Even {
                count: 11,
                outer: 254,
                inner: 167,
            },
        },
        seek: SeekCurve::Fit {
            first: vec![0.831],
            a: 1.063,
            b: 0.0978,
            knee: 1_100,
            c: 3.108,
            e: 0.001_080,
        },
        write_settle: settle(500),
        head_switch: micros(600), // the skew of the drive; the switch itself is 0.03 ms
        overheads: overheads([70, 280, 750, 910]),
        link: LinkRates {
            read: 40_000_000,
            write: 40_000_000,
        },
        reading: reading(3, Sectors::new(561).to_bytes(), Bytes::from_kib(128)),
        writing: writing(Bytes::from_kib(256), 16),
        ..hdd_7200()
    }
}

pub(super) fn ssd_sata() -> SsdParameters {
    SsdParameters {
        capacity: whole_blocks(1_000_204_886_016),
        queue_depth: 32,
        dies: 16,
        read_pipeline: micros(40),
        page: Bytes::from_kib(16),
        read_fast: micros(46),
        read_slow: micros(60),
        read_fast_permille: 700,
        // 1 / 98 441 s less 4 KiB at 571.7 MB/s.
        read_link: Link {
            per_command: Nanos::new(2_994),
            bytes_per_second: 571_729_370,
        },
        long_reads: None,
        write_pipeline: micros(25),
        // 1 / 90 935 s less 4 KiB at 539.7 MB/s.
        write_link: Link {
            per_command: Nanos::new(3_407),
            bytes_per_second: 539_657_135,
        },
        paths: Paths::Shared,
        program: Bytes::from_kib(32),
        program_time: micros(390),
        packs_writes: true,
        program_suspend: None,
        buffer: Bytes::from_mib(64),
        write_cache: true,
        flush: micros(3_200),
    }
}

fn ssd_sas_slc() -> SsdParameters {
    SsdParameters {
        capacity: whole_blocks(73_000_000_000),
        queue_depth: 32,
        dies: 16,
        read_pipeline: micros(20),
        page: Bytes::from_kib(4),
        read_fast: micros(25),
        read_slow: micros(25),
        read_fast_permille: 1000,
        // 105 000 pages a second; what is longer passes at 350 MB/s.
        read_link: Link {
            per_command: Nanos::ZERO,
            bytes_per_second: 430_080_000,
        },
        long_reads: Some(LongReads {
            pipeline: Nanos::ZERO,
            bytes_per_second: 350_000_000,
        }),
        write_pipeline: micros(20),
        // 1 / 30 000 s less 4 KiB at 350 MB/s.
        write_link: Link {
            per_command: Nanos::new(21_631),
            bytes_per_second: 350_000_000,
        },
        paths: Paths::Separate,
        program: Bytes::from_kib(4),
        program_time: micros(300),
        packs_writes: true,
        program_suspend: None,
        buffer: Bytes::from_mib(1),
        write_cache: false,
        flush: Nanos::ZERO,
    }
}

fn ssd_nvme() -> SsdParameters {
    SsdParameters {
        capacity: whole_blocks(1_000_204_886_016),
        queue_depth: 256,
        dies: 34,
        // 20 µs less 4 KiB on the link.
        read_pipeline: Nanos::new(19_400),
        page: Bytes::from_kib(4),
        read_fast: micros(36),
        read_slow: micros(49),
        read_fast_permille: 700,
        read_link: Link {
            per_command: Nanos::ZERO,
            bytes_per_second: 6_900_000_000,
        },
        long_reads: Some(LongReads {
            pipeline: micros(50),
            bytes_per_second: 2_150_000_000,
        }),
        write_pipeline: micros(8),
        write_link: Link {
            per_command: Nanos::ZERO,
            bytes_per_second: 2_314_893_629,
        },
        paths: Paths::Separate,
        program: Bytes::from_kib(64),
        program_time: micros(400),
        packs_writes: false, // 34 programs in 400 µs: 85 000 small writes a second
        program_suspend: None,
        buffer: Bytes::from_mib(64),
        write_cache: true,
        flush: micros(380),
    }
}
