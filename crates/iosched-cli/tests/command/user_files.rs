//! Files that a user names, of every option that takes one: what is no regular file is neither read nor replaced, and
//! never waited for.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Output};

use iosched_testing::lacks;

use crate::common::options::{OPTIONS, Takes};
use crate::common::{iosched, iosched_process, lossy, run};

/// The words, with what we have for those that stand for it. Each FIFO that they name is made.
fn with_fifos(dir: &Path, words: &[&str]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recording = root.join("crates/iosched-sim/tests/golden/bfq-hdd1-a_rand4.txt.gz");
    let words = words.iter().map(|&word| match word {
        "EXAMPLE" => root
            .join("docs/example-record")
            .to_str()
            .unwrap()
            .to_owned(),
        "RECORDING" => recording.to_str().unwrap().to_owned(),
        word => {
            if let Some(at) = word.find("FIFO") {
                let name = word[at..].split(':').next().unwrap();
                let fifo = dir.join(name);
                if !fifo.exists() {
                    run("mkfifo", &[fifo.to_str().unwrap()]);
                }
            }
            word.to_owned()
        }
    });
    words.collect()
}

/// Nobody writes into the FIFO: a reader that waits, waits for ever. The limit is for a test that fails.
fn answer(dir: &Path, words: &[String]) -> Output {
    let output = iosched()
        .current_dir(dir)
        .args(words)
        .timeout(std::time::Duration::from_secs(120))
        .output();
    output.unwrap()
}

#[test]
fn a_fifo_in_place_of_a_file_is_refused_by_its_name_whatever_option_names_it() {
    let dir = tempfile::tempdir().unwrap();
    for (command, option, takes) in OPTIONS {
        let (Takes::Read(words) | Takes::Written(words)) = takes else {
            continue;
        };
        let words = with_fifos(dir.path(), words);
        let output = answer(dir.path(), &words);
        let stderr = lossy(&output.stderr);
        let code = output.status.code();
        assert!(
            code.is_some_and(|code| code > 0),
            "{command} {option}: {words:?}: {code:?} {stderr}"
        );
        assert!(
            stderr.contains("FIFO"),
            "{command} {option}: {words:?}: {stderr}"
        );
    }
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.file_type().unwrap().is_fifo(), "{entry:?}");
    }
}

/// What is said to go on with works when it is typed, whatever a directory is called.
#[test]
fn a_hint_with_a_path_can_be_typed() {
    let can = Command::new("bash").arg("--version").output();
    if can.is_err() {
        return lacks("bash");
    }
    let dir = tempfile::tempdir().unwrap();
    let places: &[&[u8]] = &[
        b"-dash",
        b"--budget=1",
        b"new\nline",
        b"\x1b[31mred",
        b"it's \xff$(touch x)",
    ];
    for place in places {
        use std::os::unix::ffi::OsStrExt;
        let place = std::ffi::OsStr::from_bytes(place);
        let option = |name: &str| {
            let mut option = std::ffi::OsString::from(name);
            option.push(place);
            option
        };
        let mut tune = iosched_process();
        tune.args([
            "tune",
            "--simulate",
            "ssd-sata",
            "--arms",
            "noop,deadline",
            "--no-html",
        ]);
        tune.args(["--fixed-rounds", "2", "--runtime", "50ms"])
            .arg(option("--out="));
        let output = tune.current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", lossy(&output.stderr));
        // It is complete: it can be seen.
        let mut again = iosched_process();
        again
            .arg("tune")
            .arg(option("--resume="))
            .current_dir(dir.path());
        let stderr = lossy(&again.output().unwrap().stderr);
        let (_, hint) = stderr.split_once("hint: see it with: ").expect(&stderr);
        let binary = assert_cmd::cargo::cargo_bin!("iosched");
        let typed = hint
            .trim_end()
            .replacen("iosched", binary.to_str().unwrap(), 1);
        let seen = Command::new("bash")
            .args(["-c", &typed])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(seen.status.success(), "{typed}: {}", lossy(&seen.stderr));
        assert!(lossy(&seen.stdout).contains("deadline"), "{typed}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), places.len());
}
