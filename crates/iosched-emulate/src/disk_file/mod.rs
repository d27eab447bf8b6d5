//! Disk models as TOML files: whoever knows a drive describes it, and uses it wherever a model's
//! name is taken.
//!
//! [`find`] takes a name or a file, `parse` and [`to_toml`] are each other's inverse. Units are part
//! of the keys' names; `docs/disk-models.md` lists all keys. What cannot be is refused with its line
//! and column.

pub mod disksim;
mod hdd;
mod keys;
mod layout;
mod values;

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use iosched_machine::failure::{Failure, exit};
use iosched_machine::foreign;
use iosched_machine::user_files;
use iosched_sim::disk::{Model, ModelError};
use toml::de::{DeTable, DeValue};

/// Files larger than this are no disk models.
const LARGEST_FILE: u64 = 4 << 20;

/// Why there is no such disk model.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum DiskFileError {
    /// Not one of those that come with the program.
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("cannot read {}: {why}", path.display())]
    Read { path: PathBuf, why: String },
    #[error("{}, line {line}, column {column}: {message}", path.display())]
    Content {
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        message: String,
    },
}

impl Failure for DiskFileError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            DiskFileError::Model(ModelError::Unknown { .. }) => {
                "`iosched emulate models` describes them; a model of your own is a file whose name ends in .toml"
            }
            DiskFileError::Content { .. } => {
                "`iosched emulate models --toml hdd-7200` prints a complete file, `--toml raid10-15k` that of an \
                 array; docs/disk-models.md explains every key. Units are part of the names: _ms, _bytes"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }

    fn exit_code(&self) -> u8 {
        match self {
            DiskFileError::Model(_) | DiskFileError::Content { .. } => exit::USAGE,
            DiskFileError::Read { .. } => exit::NO_SUCH_DEVICE,
        }
    }
}

/// A model in a record or a message: as the text of its file, so that its reader needs no file.
pub mod as_text {
    use std::path::Path;

    use iosched_sim::disk::Model;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes [`super::to_toml`].
    pub fn serialize<S: Serializer>(model: &Model, serializer: S) -> Result<S::Ok, S::Error> {
        super::to_toml(model).serialize(serializer)
    }

    /// Reads it back.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Model, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::parse(&text, Path::new("model")).map_err(serde::de::Error::custom)
    }
}

/// The model that is meant: one that comes with the program, or the one in a file (which has `.toml`
/// or a directory in its name).
pub fn find(name_or_file: &str) -> Result<Model, DiskFileError> {
    let path = Path::new(name_or_file);
    let is_file = path.extension().is_some_and(|end| end == "toml") || name_or_file.contains('/');
    if is_file {
        load(path)
    } else {
        Ok(Model::named(name_or_file)?)
    }
}

fn load(path: &Path) -> Result<Model, DiskFileError> {
    let unreadable = |why: String| DiskFileError::Read {
        path: path.to_owned(),
        why,
    };
    let file = user_files::open_to_read(path).map_err(|error| unreadable(error.to_string()))?;
    let text = foreign::read_all(file, LARGEST_FILE).map_err(|error| {
        unreadable(match error.kind() {
            ErrorKind::FileTooLarge => "too large for a disk model".into(),
            ErrorKind::InvalidData => "this is no UTF-8 text".into(),
            _ => error.to_string(),
        })
    })?;
    parse(&text, path)
}

/// The model that a text describes; `path` is what errors call it.
pub(crate) fn parse(text: &str, path: &Path) -> Result<Model, DiskFileError> {
    let failed = |at: Option<Range<usize>>, message: &str| {
        let (line, column) = line_and_column(text, at.map_or(0, |at| at.start));
        DiskFileError::Content {
            path: path.to_owned(),
            line,
            column,
            message: message.trim_end().replace('\n', ", "),
        }
    };
    let file: keys::File =
        toml::from_str(text).map_err(|error| failed(error.span(), error.message()))?;
    file.model()
        .map_err(|wrong| failed(place_of(text, &wrong.key), &wrong.to_string()))
}

/// The text from which `parse` makes this model.
pub fn to_toml(model: &Model) -> String {
    let text = toml::to_string(&keys::File::of(model)).expect("tables come after values");
    let mut folded = String::with_capacity(text.len());
    let mut tables = false;
    for line in text.lines() {
        tables |= line.starts_with('[');
        match line.split_once(" = [") {
            Some(("source" | "leaves_out", _)) if tables => {
                folded.push_str(line); // a member's
                folded.push('\n');
            }
            Some(("source", _)) => fold_texts(&mut folded, "source", &model.sources),
            Some(("leaves_out", _)) => fold_texts(&mut folded, "leaves_out", &model.leaves_out),
            Some((key, pairs)) if pairs.starts_with('[') => fold_pairs(&mut folded, key, pairs),
            _ => {
                folded.push_str(line);
                folded.push('\n');
            }
        }
    }
    folded
}

/// One text per line.
fn fold_texts(into: &mut String, key: &str, texts: &[String]) {
    into.push_str(key);
    into.push_str(" = [\n");
    for text in texts {
        into.push_str("  ");
        into.push_str(&toml::Value::String(text.clone()).to_string());
        into.push_str(",\n");
    }
    into.push_str("]\n");
}

/// `[a, b], [c, d]]`, some pairs per line.
fn fold_pairs(into: &mut String, key: &str, pairs: &str) {
    const WIDTH: usize = 80;
    into.push_str(key);
    into.push_str(" = [");
    let mut column = WIDTH;
    for pair in pairs.trim_end_matches(']').split("], ") {
        if column + pair.len() > WIDTH {
            into.push_str("\n ");
            column = 1;
        }
        into.push(' ');
        into.push_str(pair);
        into.push_str("],");
        column += pair.len() + 3;
    }
    into.push_str("\n]\n");
}

/// Where the value of a key stands, for example of `hdd.zone.3.cylinders`; of the nearest table
/// around it if it is not there.
fn place_of(text: &str, key: &str) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?;
    let mut place = None;
    let mut table = Some(document.get_ref());
    let mut array = None;
    for part in key.split('.') {
        let value = match (table, array) {
            (Some(table), _) => table.get(part),
            (None, Some(values)) => {
                let values: &toml::de::DeArray = values;
                part.parse().ok().and_then(|index: usize| values.get(index))
            }
            (None, None) => None,
        };
        let Some(value) = value else { break };
        place = Some(value.span());
        (table, array) = match value.get_ref() {
            DeValue::Table(table) => (Some(table), None),
            DeValue::Array(values) => (None, Some(values)),
            _ => (None, None),
        };
    }
    place
}

/// Line and column, from 1, of a place in a text.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before: Vec<char> = text
        .char_indices()
        .take_while(|&(index, _)| index < at)
        .map(|(_, c)| c)
        .collect();
    let line = before.iter().filter(|&&c| c == '\n').count() + 1;
    let column = before.iter().rev().take_while(|&&c| c != '\n').count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use iosched_sim::disk::{ModelOptions, Parameters, models};
    use iosched_sim::units::Bytes;

    use super::*;

    #[test]
    fn every_model_that_comes_with_the_program_is_itself_again_after_a_file() {
        for model in models() {
            let text = to_toml(&model);
            let read = parse(&text, Path::new("x.toml")).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(read, model, "{text}");
            assert!(text.lines().all(|line| line.len() < 240), "{text}");
        }
    }

    /// An array of three that the program does not know by name.
    fn own_array() -> Model {
        let mut model = Model::named("raid5-7200").unwrap();
        if let iosched_sim::disk::Parameters::Array(array) = &mut model.parameters {
            for member in &mut array.members {
                member.name = "mine".to_owned();
            }
            array.members.truncate(3);
            array.capacity = array.room();
        }
        model
    }

    #[test]
    fn members_that_no_name_tells_stand_in_the_arrays_file() {
        let model = own_array();
        let text = to_toml(&model);
        let read = parse(&text, Path::new("x.toml")).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(read, model);
    }

    #[test]
    fn an_array_that_cannot_be_is_refused_with_the_reason() {
        let text = to_toml(&Model::named("raid10-15k").unwrap());
        let with = |from: &str, to: &str| {
            assert!(text.contains(from), "{from} is not in\n{text}");
            error(&text.replacen(from, to, 1))
        };
        let one = "[[array.member]]\ncount = 8\nmodel = \"hdd-15k\"\n";
        let many = "[[array.member]]\ncount = 200\nmodel = \"hdd-15k\"\n".repeat(3);
        let many = many.as_str();
        for (from, to, expected) in [
            (one, "", "array.member is missing: an array has members"),
            ("count = 8", "count = 7", "an even number"),
            ("count = 8", "count = 2", "takes 4 or more"),
            (
                "chunk_bytes = 65536",
                "chunk_bytes = 0",
                "array.chunk_bytes is 0",
            ),
            (
                "chunk_bytes = 65536",
                "chunk_bytes = 5000",
                "no whole number of 4096-byte blocks",
            ),
            (
                "size_bytes = 536870912",
                "size_bytes = 1000000000000",
                "more than the",
            ),
            (
                "low_permille = 200",
                "low_permille = 900",
                "array.cache.low_permille is 900",
            ),
            (
                "model = \"hdd-15k\"",
                "model = \"hdd-16k\"",
                "array.member.0.model is `hdd-16k`",
            ),
            (
                "model = \"hdd-15k\"",
                "model = \"mine.toml\"",
                "a drive of your own is written out as [array.member.drive]",
            ),
            // Before the drives are made: a file of 4 MiB could ask for millions.
            (
                one,
                many,
                "array.member.1.count has 400 drives up to this one",
            ),
            (
                "model = \"hdd-15k\"",
                "model = \"raid10-15k\"",
                "is an array itself",
            ),
            ("capacity_bytes = ", "capacity_bytes = 9", "hold "),
            (
                "write_cache = false",
                "write_cache = true",
                "write_cache is the drives' own",
            ),
        ] {
            let said = with(from, to);
            assert!(said.contains(expected), "{to}: {said}");
        }
        let unequal = format!("{one}[[array.member]]\ncount = 2\nmodel = \"hdd-7200\"\n");
        let said = with(one, &unequal);
        assert!(
            said.contains("`unequal_members = true` says that this is meant"),
            "{said}"
        );
        let meant = text.replacen("[array.cache]", "unequal_members = true\n[array.cache]", 1);
        assert!(parse(&meant.replacen(one, &unequal, 1), Path::new("x")).is_ok());
        let mut long = own_array();
        if let iosched_sim::disk::Parameters::Array(array) = &mut long.parameters {
            array.members[0].sources = vec!["x".repeat(1 << 20)];
            array.members = vec![array.members[0].clone(); 100];
        }
        let said = error(&to_toml(&long));
        assert!(
            said.contains("count is 100, each with 1.0 MiB of text"),
            "{said}"
        );
        let small = to_toml(&own_array())
            .replace("capacity_bytes = 4000000000000", "capacity_bytes = 8388608");
        assert!(
            error(&small).contains("members hold 16 MiB or more"),
            "{}",
            error(&small)
        );
    }

    /// An array of 256 flash drives of this size and so many dies each.
    fn flash_array(bytes: u64, dies: usize) -> String {
        let mut drive = Model::named("ssd-sata").unwrap();
        drive.name = "mine".into();
        if let Parameters::Ssd(ssd) = &mut drive.parameters {
            ssd.capacity = Bytes::new(bytes).to_sectors();
            ssd.dies = dies;
        }
        let mut model = Model::named("raid10-15k").unwrap();
        if let Parameters::Array(array) = &mut model.parameters {
            array.rotational = false;
            array.members = vec![drive; 256];
            array.capacity = array.room();
        }
        to_toml(&model)
    }

    #[test]
    fn an_array_of_the_largest_members_can_be_built_and_one_of_larger_ones_is_refused() {
        const MOST: u64 = 64 << 40;
        let largest = parse(&flash_array(MOST, 1024), Path::new("my.toml")).unwrap();
        assert_eq!(largest.capacity().as_u64(), 128 * MOST);
        assert!(largest.build(&ModelOptions::default()).is_ok());
        for (text, expected) in [
            (
                flash_array(2 * MOST, 16),
                "is of drives of 128 TiB: members hold 64 TiB or less",
            ),
            (
                flash_array(MOST, 65_536),
                "count has 16777216 dies up to this one, and all can have 262144 together",
            ),
        ] {
            let said = error(&text);
            assert!(said.contains(expected), "{said}");
        }
    }

    fn error(text: &str) -> String {
        parse(text, Path::new("my.toml")).unwrap_err().to_string()
    }

    /// `hdd-10k` with one thing replaced.
    fn changed(from: &str, to: &str) -> String {
        let text = to_toml(&Model::named("hdd-10k").unwrap());
        assert!(text.contains(from), "{from} is not in\n{text}");
        text.replacen(from, to, 1)
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_column() {
        let message = error(&changed("rpm = ", "rpn = "));
        assert!(message.starts_with("my.toml, line "), "{message}");
        assert!(
            message.contains("column 1: unknown field `rpn`"),
            "{message}"
        );
        let message = error(&changed("head_switch_ms = 0.6", "head_switch_us = 600"));
        assert!(
            message.contains("unknown field `head_switch_us`"),
            "{message}"
        );
        let message = error(&changed(
            "head_switch_ms = 0.6",
            "head_switch_ms = \"600 us\"",
        ));
        assert!(
            message.contains("column 18: invalid type: string"),
            "{message}"
        );
        let message = error(&changed("head_switch_ms = 0.6", "head_switch_ms = -0.6"));
        let said = "column 18: hdd.head_switch_ms is -0.6, and cannot be below 0";
        assert!(message.contains(said), "{message}");
        let message = error(&changed("surfaces = 12", "surfaces = 0"));
        assert!(
            message.contains("hdd.surfaces is 0, and cannot be below 1"),
            "{message}"
        );
        let message = error(&changed("name = \"hdd-10k\"", "name = \"a b\""));
        assert!(
            message.contains("line 1, column 8: name is `a b`"),
            "{message}"
        );
        let message = error("name = \"x\"\n=");
        assert!(message.contains("my.toml, line 2, column 1: "), "{message}");
        let message = error("");
        assert!(
            message.contains("line 1, column 1: missing field `name`"),
            "{message}"
        );
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let message = error(&changed("track_switch_ms = 0.9", "track_switch_ms = 0.1"));
        assert!(
            message.contains("shorter than the seek over one cylinder"),
            "{message}"
        );
        let message = error(&changed(
            "[hdd]",
            "[simple]\nrotational = true\nservice_ms = 1.0\n\n[hdd]",
        ));
        assert!(
            message.contains("one of [hdd], [ssd], [simple] and [array]"),
            "{message}"
        );
    }

    #[test]
    fn a_file_is_told_from_a_name() {
        assert_eq!(find("hdd-15k").unwrap().name, "hdd-15k");
        let message = find("hdd").unwrap_err();
        assert!(message.hint().unwrap().contains(".toml"));
        assert!(matches!(find("./none"), Err(DiskFileError::Read { .. })));
        assert!(matches!(find("none.toml"), Err(DiskFileError::Read { .. })));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, to_toml(&Model::named("ssd-nvme").unwrap())).unwrap();
        assert_eq!(find(path.to_str().unwrap()).unwrap().name, "ssd-nvme");
        std::fs::write(&path, b"\xff\xfe").unwrap();
        let message = find(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(message.ends_with("this is no UTF-8 text"), "{message}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,400}", cut in 0..4000_usize, insert in "[-=\\[\\]0-9a-z.\"\n]{0,8}") {
            let _ = parse(&text, Path::new("x"));
            let mut text = to_toml(&Model::named("hdd-10k").unwrap());
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let at = places[cut % places.len()];
            text.insert_str(at, &insert);
            let _ = parse(&text, Path::new("x"));
        }
    }
}
