//! Files that a user names, of every option that takes one: what is no regular file is neither read nor replaced, and
//! never waited for.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use iosched_evidence::dataset;
use iosched_evidence::fixture::{Fleet, Size};
use rustix::fs::{FileType, Mode};

use crate::common::options::{FILES, Takes};
use crate::common::{LoopDevice, can_use_loop_devices, iosched, iosched_process, lossy, run};

/// The words, with what we have for those that stand for it. Each `FIFO…` that they name is made.
fn with_files((dir, evidence): (&Path, &Path), words: &str, make: impl Fn(&Path)) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recording = root.join("crates/iosched-conform/tests/golden/bfq-hdd1-a_rand4.txt.gz");
    let words = words.split(' ').map(|word| match word {
        "EXAMPLE" => root
            .join("docs/example-record")
            .to_str()
            .unwrap()
            .to_owned(),
        "EVIDENCE" => {
            let at = evidence.to_owned();
            if !at.exists() {
                let size = Size {
                    machines: 30,
                    models: 1,
                    loads: 1,
                };
                let secret = dataset::Secret::of(&at).unwrap();
                dataset::add(&at, &secret, &Fleet::new(1, size).rows).unwrap();
            }
            at.to_str().unwrap().to_owned()
        }
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
    let of_evidence = tempfile::tempdir().unwrap();
    let evidence = of_evidence.path().join("of-a-fleet");
    for (option, _, words) in FILES {
        let words = with_files((dir.path(), &evidence), words, mkfifo);
        let output = answer(dir.path(), &words);
        let stderr = lossy(&output.stderr);
        let code = output.status.code();
        assert!(
            code.is_some_and(|code| code > 0),
            "{option}: {words:?}: {code:?} {stderr}"
        );
        assert!(stderr.contains("FIFO"), "{option}: {words:?}: {stderr}");
    }
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.file_type().unwrap().is_fifo(), "{entry:?}");
    }
}

/// A place at which something stands that no option may write to, follow or replace.
struct Place {
    path: PathBuf,
    /// One that names a directory takes it: a link of one's own leads to it.
    is_for_directories: bool,
}

/// What may stand where a file is to be written, below `dir` and, for root, in a `/dev` of our own.
fn places(dir: &Path, disk: Option<&LoopDevice>) -> Vec<Place> {
    let at = |name: &str| dir.join(name);
    mkfifo(&at("fifo"));
    fs::write(at("precious"), "precious").unwrap();
    fs::create_dir(at("directory")).unwrap();
    for (link, leads_to) in [
        ("link", "precious"),
        ("link-to-nothing", "nothing"),
        ("link-to-fifo", "fifo"),
        ("link-to-null", "/dev/null"),
    ] {
        std::os::unix::fs::symlink(leads_to, at(link)).unwrap();
    }
    // The socket stays when who made it has gone.
    std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("precious"))
        .collect();
    paths.extend(["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].map(PathBuf::from));
    if let Some(disk) = disk {
        let node = |path: PathBuf, kind, number| {
            let mode = Mode::from_raw_mode(0o666);
            rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, number).unwrap();
            path
        };
        let number = fs::metadata(disk.path()).unwrap().rdev();
        let null = rustix::fs::makedev(1, 3);
        paths.push(disk.path());
        paths.push(node(at("disk"), FileType::BlockDevice, number));
        paths.push(node(at("null"), FileType::CharacterDevice, null));
        paths.push("/dev/null".into());
        paths.push("/dev/sda".into());
    }
    let place = |path: PathBuf| Place {
        is_for_directories: path.ends_with("directory") || path.ends_with("link-to-nothing"),
        path,
    };
    paths.into_iter().map(place).collect()
}

/// What stands somewhere, but for the times: kind, number, content.
fn there(path: &Path) -> (u32, u64, u64, Option<PathBuf>) {
    let is = fs::symlink_metadata(path).unwrap();
    (is.mode(), is.ino(), is.rdev(), fs::read_link(path).ok())
}

#[test]
fn what_is_no_file_stays_as_it_is_whatever_option_is_to_write_there() {
    let dir = tempfile::tempdir().unwrap();
    let of_evidence = tempfile::tempdir().unwrap();
    let evidence = of_evidence.path().join("of-a-fleet");
    let disk = can_use_loop_devices().then(|| LoopDevice::new(1 << 20));
    // Should a device be replaced in spite of all, it is none of the machine's.
    let own_devices = "mount -t tmpfs none /dev && mknod /dev/null c 1 3 && ln -s /proc/self/fd /dev/fd && \
         ln -s /proc/self/fd/1 /dev/stdout && for node in $NODES; do \
         mknod $node b $NUMBER || exit 98; done && before=$(ls -l --full-time /dev) && \"$@\"; code=$?; \
         test \"$(ls -l --full-time /dev)\" = \"$before\" || exit 99; exit $code";
    let mut tried = 0;
    for place in places(dir.path(), disk.as_ref()) {
        let path = place.path.to_str().unwrap();
        let before = place
            .path
            .starts_with(dir.path())
            .then(|| there(&place.path));
        for (option, takes, words) in FILES {
            match takes {
                Takes::Written => {}
                Takes::Made if !place.is_for_directories => {}
                _ => continue,
            }
            let words = words.replace("FIFO", path);
            let words = with_files((dir.path(), &evidence), &words, |_| {});
            let process = iosched_process();
            let mut shell = match &disk {
                Some(disk) => {
                    let mut shell = Command::new("unshare");
                    shell.args(["--mount", "sh", "-c", own_devices, "sh"]);
                    let number = fs::metadata(disk.path()).unwrap().rdev();
                    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
                    shell.env("NUMBER", format!("{major} {minor}"));
                    shell.env("NODES", format!("{} /dev/sda", disk.path().display()));
                    shell.arg(process.get_program());
                    shell
                }
                None => process,
            };
            let output = shell.args(&words).current_dir(dir.path()).output().unwrap();
            let (code, stderr) = (output.status.code(), lossy(&output.stderr));
            assert!(
                code.is_some_and(|code| code > 0 && code < 20),
                "{option} {path}: {code:?} {stderr}"
            );
            assert!(stderr.contains(path), "{option} {path}: {stderr}");
            assert!(!stderr.contains("panicked"), "{option} {path}: {stderr}");
            if let Some(before) = &before {
                assert_eq!(there(&place.path), *before, "{option} {path}");
            }
            tried += 1;
        }
    }
    let precious = fs::read_to_string(dir.path().join("precious")).unwrap();
    assert_eq!(precious, "precious");
    assert_eq!(
        fs::read_dir(dir.path().join("directory")).unwrap().count(),
        0
    );
    assert!(!dir.path().join("nothing").exists());
    if let Some(disk) = &disk {
        let content = fs::read(disk.path()).unwrap();
        assert!(
            content.iter().all(|&byte| byte == 0),
            "the disk was written"
        );
    }
    eprintln!("{tried} options and places");
}
