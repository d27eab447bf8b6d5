//! `iosched tune --load build`: many small files that become others.
use std::os::unix::fs::chown;

use crate::common::bench::{Bench, nobody};
use crate::common::tuning::{MIB, record};
use crate::common::{Mounted, can_use_loop_devices, in_one_line, iosched, lossy, processes_with};

/// As few as two directories have, by fewer processes than there are directories, and by more.
const SHORT: [&str; 2] = ["build:files=30,jobs=1", "build:files=30,jobs=3"];

fn bench() -> Option<Bench> {
    can_use_loop_devices().then(|| Bench::on(Mounted::new(64 * MIB)))
}

#[test]
fn all_is_read_cold_and_written_anew_in_each_trial_and_nothing_of_it_stays() {
    for load in SHORT {
        let Some(bench) = bench() else { return };
        let before = (bench.mounted.disk.whole_queue(), bench.mounted.names());
        let output = bench.tune(bench.mounted.path(), &["--load", load, "--no-html"]);
        let said = lossy(&output.stdout) + &lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let after = (bench.mounted.disk.whole_queue(), bench.mounted.names());
        assert_eq!(after, before);
        assert!(processes_with(bench.mounted.path()).is_empty());
        assert!(in_one_line(&said).contains("elapsed time (less is better)"));
        let lines = record(&bench.records.path().join("r"));
        let trials: Vec<_> = lines
            .iter()
            .filter(|line| line["type"] == "trial")
            .collect();
        assert_eq!(trials.len(), 4, "{said}");
        // Sizes of one to eight pages go round among the sources.
        let sources: u64 = (0..30).map(|source| 4096 * (1 + source % 8)).sum();
        let headers = 10 * 20 * 4096;
        for trial in trials {
            let moved = |name: &str| trial["measured"][name].as_u64().unwrap();
            // The kernel drops no page that is in use just then (`invalidate_mapping_pages`): seen was one of 329.
            let in_use = 32 * 4096;
            let read = moved("read_bytes") + in_use;
            assert!(read >= sources + headers, "{trial}");
            assert!(
                moved("write_bytes") >= 4 * sources,
                "objects and program: {trial}"
            );
            let metrics = &trial["metrics"];
            let parts = ["compiling s", "linking s", "writing back s"];
            let sum: f64 = parts
                .map(|part| metrics["numbers"][part].as_f64().unwrap())
                .iter()
                .sum();
            let whole = metrics["elapsed_s"].as_f64().unwrap();
            assert!((sum - whole).abs() < 1e-6, "{metrics}");
        }
    }
}

#[test]
fn it_runs_with_the_rights_of_another_user() {
    let Some(bench) = bench() else { return };
    let (uid, gid) = nobody();
    chown(&bench.mounted.at, Some(uid), Some(gid)).unwrap();
    let more = ["--load", SHORT[1], "--user", "nobody", "--no-html"];
    let output = bench.tune(bench.mounted.path(), &more);
    assert_eq!(output.status.code(), Some(0), "{}", lossy(&output.stderr));
    bench.assert_private_is_untouched();
}

#[test]
fn where_it_cannot_run_it_is_refused_by_name_before_anything_is_touched() {
    let Some(bench) = bench() else { return };
    let dry = |arguments: &[&str]| {
        let mut command = iosched();
        command.args(["tune", "--dry-run"]).args(arguments);
        let output = command.output().unwrap();
        (
            output.status.code(),
            lossy(&output.stdout) + &lossy(&output.stderr),
        )
    };
    let at = bench.mounted.path();
    let (code, said) = dry(&[at, "--load", SHORT[0]]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("load build: decided by elapsed time"),
        "{said}"
    );
    let disk = bench.mounted.disk.name.as_str();
    for (arguments, expected, words) in [
        (
            vec![disk, "--load", SHORT[0]],
            3,
            "load build needs a directory",
        ),
        (vec![at, "--load", "build:files=100000"], 1, "no room in "),
        (
            vec![at, "--load", "build:job=1"],
            2,
            "build has no setting \"job\"",
        ),
    ] {
        let (code, said) = dry(&arguments);
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert_eq!(code, Some(expected), "{arguments:?}: {said}");
    }
}
