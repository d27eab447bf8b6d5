//! Files that a user names, of every option that takes one: what is no regular file is neither read nor replaced, and
//! never waited for.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Output};

use iosched_testing::lacks;

use crate::common::checks::names;
use crate::common::options::{OPTIONS, Takes};
use crate::common::tuning::SHORTEST;
use crate::common::{
    Mounted, can_use_loop_devices, has_fio, in_one_line, iosched, iosched_process, lossy, run,
};

/// The words, with what we have for those that stand for it. Each `FIFO…` that they name is made.
fn with_files(dir: &Path, words: &[&str], make: impl Fn(&Path)) -> Vec<String> {
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
                let file = dir.join(word[at..].split(':').next().unwrap());
                if !file.exists() {
                    make(&file);
                }
            }
            word.to_owned()
        }
    });
    words.collect()
}

fn mkfifo(path: &Path) {
    run("mkfifo", &[path.to_str().unwrap()]);
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
        let words = with_files(dir.path(), words, mkfifo);
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

/// A file larger than memory: who reads it as a whole fails at the limit of the address space.
#[test]
fn a_file_larger_than_memory_is_refused_whatever_option_names_it() {
    const LARGE: u64 = 64 << 30;
    const MEMORY: u64 = 4 << 30;
    let dir = tempfile::tempdir().unwrap();
    let sparse = |path: &Path| fs::File::create(path).unwrap().set_len(LARGE).unwrap();
    for (command, option, takes) in OPTIONS {
        // A target and what a disk stands over are not read into memory.
        let Takes::Read(words) = takes else { continue };
        if ["target", "over"].contains(option) {
            continue;
        }
        let words = with_files(dir.path(), words, sparse);
        let mut limited = iosched_process();
        limited.args(&words).current_dir(dir.path());
        let limit = rustix::process::Rlimit {
            current: Some(MEMORY),
            maximum: Some(MEMORY),
        };
        // SAFETY: sets a limit of the child, which is a system call alone.
        unsafe {
            use std::os::unix::process::CommandExt;
            limited.pre_exec(move || {
                let limited = rustix::process::setrlimit(rustix::process::Resource::As, limit);
                Ok(limited?)
            });
        }
        let output = limited.output().unwrap();
        let stderr = lossy(&output.stderr);
        let code = output.status.code();
        // 101 and signals are ours to mend.
        let is_refused = code.is_some_and(|code| code > 0 && code < 20);
        assert!(
            is_refused,
            "{command} {option}: {words:?}: {code:?} {stderr}"
        );
    }
}

/// A limit for files (`ulimit -f`) is an error like a full disk, and no end in the middle.
#[test]
fn a_limit_of_the_size_of_files_is_an_error_that_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/example-record");
    let binary = assert_cmd::cargo::cargo_bin!("iosched");
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 0; exec \"$@\"", "sh"])
        .args([
            binary,
            Path::new("report"),
            &example,
            Path::new("--html"),
            &page,
        ])
        .output()
        .unwrap();
    let stderr = lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("File too large"), "{stderr}");
    assert!(stderr.contains("hint: let files become larger"), "{stderr}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{stderr}");
}

/// The same of what changes a disk, which is then as before.
#[test]
fn a_limit_of_the_size_of_files_leaves_a_disk_as_it_was() {
    if !can_use_loop_devices() || !has_fio() {
        return;
    }
    let mounted = Mounted::new(64 << 20);
    let before = mounted.disk.whole_queue();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let out = out.to_str().unwrap();
    let tune = ["tune", mounted.path(), "--out", out, "--file-size", "4M"];
    let tune = [&tune[..], SHORTEST].concat();
    let set = ["set", &mounted.disk.name, "bfq"];
    let set_for = ["set", &mounted.disk.name, "bfq", "--for", "1h"];
    // In blocks of 512 bytes: nothing; less than fio's files.
    for (blocks, arguments, code, cause) in [
        ("0", &set[..], 1, "File too large"),
        ("0", &set_for, 1, "File too large"),
        ("0", &tune, 12, "File too large"),
        ("1024", &tune, 13, "than `ulimit -f` allows"),
    ] {
        let limit = format!("ulimit -f {blocks}; exec \"$@\"");
        let process = iosched_process();
        let output = Command::new("sh")
            .args(["-c", &limit, "sh"])
            .arg(process.get_program())
            .args(arguments)
            .output()
            .unwrap();
        let stderr = lossy(&output.stderr);
        let said = format!("{blocks} {arguments:?}: {stderr}");
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(in_one_line(&stderr).contains(cause), "{said}");
        assert_eq!(stderr.matches("error: ").count(), 1, "{said}");
        assert_eq!(mounted.disk.whole_queue(), before, "{said}");
        assert!(mounted.names().is_empty(), "{said}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{said}");
        for directory in ["journal", "history"] {
            let left = names(&Path::new("/var/lib/iosched").join(directory));
            assert!(left.is_empty(), "{left:?}: {said}");
        }
    }
}

/// What was measured is kept where the record reaches a limit, and the way to go on is said.
#[test]
fn a_record_that_may_not_become_larger_says_how_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let tune = |limit: &str, arguments: &[&str]| {
        let limit = format!("ulimit -f {limit}; exec \"$@\"");
        let process = iosched_process();
        Command::new("sh")
            .args(["-c", &limit, "sh"])
            .arg(process.get_program())
            .args(arguments)
            .output()
            .unwrap()
    };
    let rounds = ["--fixed-rounds", "20", "--runtime", "50ms", "--no-html"];
    let path = out.to_str().unwrap();
    let arguments = [
        "tune",
        "--simulate",
        "fixed",
        "--arms",
        "none,noop",
        "--out",
        path,
    ];
    let output = tune("24", &[&arguments[..], &rounds].concat());
    let stderr = lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(12), "{stderr}");
    let said = in_one_line(&stderr);
    assert!(said.contains("may not become larger here"), "{stderr}");
    assert!(
        said.contains("go on with: iosched tune --resume"),
        "{stderr}"
    );
    let resume = ["tune", "--resume", path, "--no-html"];
    let output = tune("unlimited", &resume);
    assert!(output.status.success(), "{}", lossy(&output.stderr));
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
