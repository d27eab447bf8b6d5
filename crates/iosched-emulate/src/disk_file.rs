//! Disk models by name or by file: whoever knows a drive describes it, and uses it wherever a model's name is taken.

use std::io::ErrorKind;
use std::path::Path;

use iosched_machine::failure::{Problem, exit};
use iosched_machine::{foreign, user_files};
use iosched_sim::disk::Model;

/// Files larger than this are no disk models.
const LARGEST_FILE: u64 = 256 << 10;

/// The model that is meant: one that comes with the program, or the one in a file (which has `.toml`
/// or a directory in its name).
///
/// # Errors
/// There is no such model, or the file cannot be read, or does not describe one.
pub fn find(name_or_file: &str) -> Result<Model, Problem> {
    let path = Path::new(name_or_file);
    let is_file = path.extension().is_some_and(|end| end == "toml") || name_or_file.contains('/');
    if !is_file {
        return Model::named(name_or_file);
    }
    let file = user_files::open_to_read(path);
    let text = file.and_then(|file| foreign::read_all(file, LARGEST_FILE));
    let text = text.map_err(|error| {
        let why = match error.kind() {
            ErrorKind::FileTooLarge => "too large for a disk model".to_owned(),
            ErrorKind::InvalidData => "this is no UTF-8 text".to_owned(),
            _ => error.to_string(),
        };
        let message = format!("cannot read {}: {why}", path.display());
        Problem::new(exit::NO_SUCH_DEVICE, message)
    })?;
    Model::parse(&text).map_err(|wrong| {
        Problem::usage(format!("{}, {wrong}", path.display())).hint(
            "`iosched emulate models --toml hdd-7200` prints a complete file; examples/disk-models.md \
             explains every key",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_from_a_name() {
        assert_eq!(find("hdd-15k").unwrap().name, "hdd-15k");
        let message = find("floppy").unwrap_err();
        assert!(message.hint.unwrap().contains(".toml"));
        for absent in ["./none", "none.toml"] {
            assert_eq!(find(absent).unwrap_err().code, exit::NO_SUCH_DEVICE);
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, Model::named("ssd-nvme").unwrap().text()).unwrap();
        assert_eq!(find(path.to_str().unwrap()).unwrap().name, "ssd-nvme");
        std::fs::write(&path, b"\xff\xfe").unwrap();
        let message = find(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(message.ends_with("this is no UTF-8 text"), "{message}");
    }
}
