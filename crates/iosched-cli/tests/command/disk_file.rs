//! Disk models as files, as a user has them: printed, changed, used, and wrong.
use crate::common::{answer, text};

/// What a model does, without the speed of this machine.
fn simulated(disk: &str) -> String {
    let output = answer(&[
        "simulate",
        "--scheduler",
        "noop",
        "--until",
        "1",
        "--csv",
        "--disk",
        disk,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_model_printed_as_a_file_is_the_model() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["hdd-7200", "ssd-sata", "formula"] {
        let output = answer(&["emulate", "models", "--toml", name]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, &output.stdout).unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(simulated(path), simulated(name));
        let again = answer(&["emulate", "models", "--toml", path]);
        assert_eq!(text(&again.stdout), text(&output.stdout));
    }
}

#[test]
fn a_mistake_in_a_file_is_one_error_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.toml");
    let good = text(&answer(&["emulate", "models", "--toml", "hdd-10k"]).stdout);
    std::fs::write(&path, good.replace("surfaces = 12", "surfaces = 0")).unwrap();
    let output = answer(&["simulate", "--disk", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    let line = 1 + good
        .lines()
        .position(|line| line == "surfaces = 12")
        .unwrap();
    let expected = format!("mine.toml, line {line}, `surfaces = 0`: 0 is not between 1 and 64");
    assert!(message.contains(&expected), "{message}");
    assert_eq!(message.matches("error: ").count(), 1, "{message}");
    let missing = answer(&["simulate", "--disk", "no/such.toml"]);
    assert_eq!(missing.status.code(), Some(3));
}
