//! The copied machines of `tests/machines`: one text for each, made into a tree of files and links.
//!
//! A text has sections. `[DIRECTORY]` begins one; each of its lines is an entry of that directory:
//!
//! ```text
//! name = value          a file of one line
//! name = "a\x00\n"      a file of exactly these bytes
//! name -> target        a link
//! name:                 a file of the lines below, without their indent of four blanks
//! ```

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter::Peekable;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::str::Lines;

/// `tests/machines`, with a directory for each machine.
pub fn texts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines")
}

/// The names of all machines, sorted.
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(texts()).expect("tests/machines").flatten();
    let machines = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<_> = machines
        .map(|entry| entry.file_name().into_string().expect("plain names"))
        .collect();
    names.sort();
    names
}

/// The text of a machine.
pub fn text(name: &str) -> String {
    let path = texts().join(name).join("machine.txt");
    fs::read_to_string(path).unwrap_or_else(|error| panic!("machine {name}: {error}"))
}

/// The tree of a machine, to be read only: every test has the same. It is made once, below `target`.
pub fn tree(name: &str) -> PathBuf {
    let text = text(name);
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/machines");
    let tree = all.join(format!("{name}-{:016x}", hash.finish()));
    if !tree.exists() {
        fs::create_dir_all(&all).expect("a directory below target");
        let unfinished = tempfile::tempdir_in(&all).expect("a directory below target");
        let root = unfinished.path().join(name);
        unpack(&text, &root);
        // Another test may be first: its tree is the same.
        let renamed = fs::rename(&root, &tree);
        assert!(renamed.is_ok() || tree.exists(), "{renamed:?}");
    }
    tree
}

/// Makes the tree of a text in a directory.
///
/// # Panics
///
/// At a line that is none of those above, and where a file cannot be written.
pub fn unpack(text: &str, root: &Path) {
    let mut directory = root.to_owned();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        if let Some(section) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            directory = root.join(section);
            fs::create_dir_all(&directory).expect("a directory");
        } else if let Some((name, target)) = line.split_once(" -> ") {
            let link = directory.join(name);
            if !link.is_symlink() {
                symlink(target, link).expect("a link");
            }
        } else {
            let (name, bytes) = if let Some((name, value)) = line.split_once(" = ") {
                (name, value_bytes(value))
            } else if let Some(name) = line.strip_suffix(':') {
                (name, indented(&mut lines))
            } else {
                panic!("not a line of a machine: {line}");
            };
            fs::write(directory.join(name), bytes).expect("a file");
        }
    }
}

/// The lines that are indented.
fn indented(lines: &mut Peekable<Lines>) -> Vec<u8> {
    let mut text = String::new();
    while let Some(line) = lines.next_if(|line| line.starts_with("    ")) {
        text += &line[4..];
        text.push('\n');
    }
    text.into_bytes()
}

/// A line, or the bytes of a quoted value.
fn value_bytes(value: &str) -> Vec<u8> {
    let Some(quoted) = value.strip_prefix('"') else {
        return format!("{value}\n").into_bytes();
    };
    let quoted = quoted.strip_suffix('"').expect("a closing quote");
    let mut bytes = Vec::new();
    let mut rest = quoted.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next().expect("an escape") {
                b'n' => b'\n',
                b'x' => {
                    let mut digit = || char::from(rest.next().unwrap_or(b'?')).to_digit(16);
                    let (high, low) = (digit(), digit());
                    let number = high.zip(low).map(|(high, low)| 16 * high + low);
                    u8::try_from(number.expect("two digits")).expect("a byte")
                }
                other => other,
            },
            other => other,
        });
    }
    bytes
}
