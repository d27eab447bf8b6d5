//! Disks made from DiskSim's parameters, against the drives that they stand for, and the way from those
//! parameters to our files.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where something is not as it should be"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use iosched_emulate::disk_file::disksim::{BusTimes, convert};
use iosched_emulate::disk_file::{find, to_toml};
use iosched_experiment::simulate::response::check;
use iosched_sim::disk::hdd::seek::SeekCurve;
use iosched_sim::disk::hdd::{Layout, ReadAhead, Spares};
use iosched_sim::disk::{ModelOptions, Parameters};
use iosched_sim::units::{Nanos, Sectors};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> String {
    let path = workspace().join("examples/disks").join(name);
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_example_disks_are_all_read_and_printed_as_they_are() {
    let dir = workspace().join("examples/disks");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let model = find(path.to_str().unwrap()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), to_toml(&model));
        let built = model.build(&ModelOptions::default()).unwrap();
        assert_eq!(built.capacity().to_bytes(), model.capacity());
        seen += 1;
    }
    assert_eq!(seen, 10);
}

#[test]
fn a_cheetah_9lp_answers_as_the_real_one_did() {
    let trace =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disksim/cheetah9LP-2500.trace.gz");
    let model = find(&example("cheetah9LP.toml")).unwrap();
    for seed in 0..5 {
        let options = ModelOptions {
            seed,
            ..ModelOptions::default()
        };
        let checked = check(&model, &options, &trace).unwrap();
        assert_eq!(checked.all.commands, 2500);
        // 0.12 over all 10 000 requests; a quarter of them varies more.
        assert!(checked.all.rms_ms < 0.3, "seed {seed}: {checked:?}");
        assert!(
            checked.reads.unwrap().rms_ms < 0.4,
            "seed {seed}: {checked:?}"
        );
        assert!(
            checked.writes.unwrap().rms_ms < 0.4,
            "seed {seed}: {checked:?}"
        );
    }
    // Another drive is far off: the figure tells drives apart.
    let other = find(&example("atlas_III.toml")).unwrap();
    let checked = check(&other, &ModelOptions::default(), &trace);
    assert!(checked.unwrap().all.rms_ms > 1.0);
}

/// A `.diskspecs` file with every parameter that is looked at; `changed` replaces some.
fn diskspecs(changed: &[(&str, &str)]) -> String {
    const NOTHING: &[&str] = &[
        "Per-request overhead time",
        "Bulk sector transfer time",
        "Never disconnect",
        "Allow almost read hits",
        "Allow sneaky full read hits",
        "Allow sneaky partial read hits",
        "Allow sneaky intermediate read hits",
        "Allow write prebuffering",
        "Preseeking level",
        "Minimum read-ahead (blks)",
        "Low (write) water mark",
        "Read any free blocks",
        "Immediate buffer read",
        "Immediate buffer write",
        "Extra write disconnect",
        "Use separate write segment",
        "Fast write level",
        "Data preparation overhead",
        "First reselect overhead",
        "Read completion overhead",
        "Write completion overhead",
        "Read hit over. after read",
        "Read hit over. after write",
        "Read miss over. after read",
        "Write hit over. after read",
        "Write hit over. after write",
        "Write miss over. after read",
        "Write miss over. after write",
    ];
    const GIVEN: &[(&str, &str)] = &[
        ("Model", "source small.model"),
        ("Time scale for overheads", "1.000000"),
        ("Allow read hits on write data", "1"),
        ("Max queue length", "1"),
        ("Scheduler", "disksim_ioqueue {\n Scheduling policy = 1\n }"),
        ("Number of buffer segments", "3"),
        ("Maximum number of write segments", "1"),
        ("Segment size (in blks)", "64"),
        ("High (read) water mark", "0.750000"),
        ("Set watermark by reqsize", "1"),
        ("Enable caching in buffer", "1"),
        ("Buffer continuous read", "4"),
        ("Maximum read-ahead (blks)", "64"),
        ("Read miss over. after write", "0.5"),
    ];
    let mut text = "disksim_disk SMALL { # a drive\n".to_owned();
    let nothing = NOTHING.iter().map(|&name| (name, "0.000000"));
    for (name, value) in nothing.chain(GIVEN.iter().copied()) {
        let replaced = changed.iter().find(|(other, _)| *other == name);
        let value = replaced.map_or(value, |(_, value)| value);
        writeln!(text, "   {name} = {value},").unwrap();
    }
    text + "} # end\n"
}

const MODEL: &str = "dm_disk SMALL_model {
   Number of data surfaces = 2,
   Number of cylinders = 40,
   Block count = 4000,
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 1, Sparing scheme used = 9, Rangesize for sparing = 1,
      Zones = [
         dm_layout_g1_zone {
            First cylinder number = 0, Last cylinder number = 19, Blocks per track = 60,
            Offset of first block = 0, Empty space at zone front = 10,
            Skew for track switch = 7.000000, Skew for cylinder switch = 9,
            Number of spares = 5, slips = [ 3, 70 ], defects = []
         },
         dm_layout_g1_zone {
            First cylinder number = 20, Last cylinder number = 39, Blocks per track = 40,
            Offset of first block = 2, Empty space at zone front = 0,
            Skew for track switch = 5, Skew for cylinder switch = 6,
            Number of spares = 0, slips = [], defects = []
         }
      ]
   },
   Mechanical Model = dm_mech_g1 {
      Seek type = extracted, Full seek curve = small.seek,
      Add. write settling delay = -0.25, Head switch time = 0.5,
      Rotation speed (in rpms) = 5400, Percent error in rpms = 0.0
   }
}
";

fn converted(
    changed: &[(&str, &str)],
    bus: Option<BusTimes>,
) -> Result<iosched_sim::disk::Model, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("small.diskspecs");
    std::fs::write(&path, diskspecs(changed)).unwrap();
    std::fs::write(dir.path().join("small.model"), MODEL).unwrap();
    std::fs::write(
        dir.path().join("small.seek"),
        "Seek distances measured: 2\n1, 1.5\n39, 8.0\n",
    )
    .unwrap();
    let prefix = format!("{}/", dir.path().display());
    convert(&path, bus).map_err(|error| error.to_string().replace(&prefix, ""))
}

const BUS: BusTimes = BusTimes {
    read_ms: 0.1,
    write_ms: 0.2,
};

#[test]
fn disksims_parameters_become_ours() {
    let model = converted(&[], Some(BUS)).unwrap();
    assert_eq!(model.name, "small");
    let Parameters::Hdd(hdd) = model.parameters else {
        panic!("a hard disk")
    };
    // Two zones of 20 cylinders and 2 surfaces, less 10 unused and 5 spare.
    assert_eq!(hdd.capacity, Sectors::new(20 * 2 * 60 - 15 + 20 * 2 * 40));
    assert_eq!((hdd.rpm, hdd.surfaces), (5400, 2));
    assert_eq!((hdd.link.read, hdd.link.write), (5_120_000, 2_560_000));
    assert_eq!(hdd.write_settle.nanos, -250_000);
    assert_eq!(hdd.reading.ahead, ReadAhead::TrackByTrack);
    assert_eq!(hdd.reading.threshold_permille, 750);
    assert_eq!(hdd.overheads.read_miss.write, Nanos::from_micros(500));
    let table = vec![(1, Nanos::from_micros(1_500)), (39, Nanos::from_millis(8))];
    assert_eq!(hdd.seek, SeekCurve::Table(table));
    let Layout::Exact { zones, spares, .. } = hdd.layout else {
        panic!("a layout as measured")
    };
    assert_eq!((zones.len(), spares), (2, Spares::SectorsPerZone));
}

#[test]
fn what_disksim_has_and_we_have_not_is_refused_by_name() {
    let failed = |name: &str, value: &str| converted(&[(name, value)], Some(BUS)).unwrap_err();
    let message = failed("Preseeking level", "2");
    assert!(message.starts_with("small.diskspecs, line "), "{message}");
    assert!(
        message.ends_with("`Preseeking level` is 2; only 0 is simulated"),
        "{message}"
    );
    let message = failed("Buffer continuous read", "2");
    assert!(
        message.contains("only 0, 1, 3 and 4 are simulated"),
        "{message}"
    );
    let message = failed("Segment size (in blks)", "many");
    assert!(
        message.ends_with("`Segment size (in blks)` is no number"),
        "{message}"
    );
    assert!(failed("Model", "source none.model").contains("cannot read none.model"));
    let message = converted(&[], None).unwrap_err();
    assert!(message.contains("give it with --bus-ms"), "{message}");
}
