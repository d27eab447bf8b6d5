//! Attaching a file to a free loop device while other tests do the same.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How often a free device is looked for: another test may take it between finding and attaching it.
const ATTEMPTS: u32 = 50;

/// How the names of files of tests in memory begin, by which `scripts/run-tests` knows what one of its runs left.
pub fn prefix() -> String {
    let run = std::env::var("IOSCHED_TEST_RUN").unwrap_or_default();
    format!("iosched-test-{run}-")
}

/// Attaches a file to a free loop device and returns the device's name (`loop3`). `options` are more options
/// of `losetup`.
pub fn attach(file: &Path, options: &[&str]) -> String {
    let mut said = String::new();
    for _ in 0..ATTEMPTS {
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .args(options)
            .arg(file)
            .output()
            .unwrap_or_else(|error| panic!("losetup (package mount): {error}"));
        if output.status.success() {
            let node = String::from_utf8(output.stdout).expect("a device's path is text");
            return node.trim().trim_start_matches("/dev/").to_owned();
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!(
        "no loop device for {} after {ATTEMPTS} attempts: {said}",
        file.display()
    );
}

/// True if loop devices can be made; says what is lacking otherwise.
pub fn can_attach() -> bool {
    if !super::is_root() {
        return false;
    }
    let can = Path::new("/dev/loop-control").exists();
    if !can {
        super::lacks("loop devices (/dev/loop-control)");
    }
    can
}
