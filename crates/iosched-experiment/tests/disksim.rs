//! Disks made from DiskSim's parameters (`lab/disksim-to-toml`), against the drives that they stand for.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where something is not as it should be"
)]

use std::path::{Path, PathBuf};

use iosched_emulate::disk_file::find;
use iosched_experiment::simulate::response::check;
use iosched_sim::disk::ModelOptions;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> String {
    let path = workspace().join("examples/disks").join(name);
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_example_disks_are_all_read() {
    let dir = workspace().join("examples/disks");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let model = find(path.to_str().unwrap()).unwrap_or_else(|error| panic!("{error}"));
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
