//! What may be written: the answer for each occasion, state and kind of device. The one source of the tables
//! in `results/refusals.md` and of the tests that build each case.
//!
//! Written down by hand, and not worked out from the rule in `iosched_machine::device::may_write`: the rule has to
//! agree with it. After a change of the tables, `INSTA_UPDATE=always cargo test -p iosched-testing` writes the
//! document again.

use std::fmt::Write;

use self::Answer::{Allowed as A, AnotherDisk as X, Impossible, Refused as R, UntilNamed as N};

/// When it is asked, and what the user has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// A new run, `--destroy-data`.
    New,
    /// A run goes on that ended in order or was interrupted, `--destroy-data`.
    Resume,
    /// A run goes on that was killed.
    ResumeKilled,
    /// The device is open exclusively, mkfs or the first write is next.
    Mkfs,
    /// A new run, and the device is named: `--destroy-data=sdb`.
    Over,
    /// A run goes on, and the device is named.
    ResumeOver,
}

/// What happened to the device: before a new run; otherwise after the device was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A file system on it, or on what stands on it, is mounted.
    MountedHere,
    /// The same in a mount namespace that we do not see.
    MountedElsewhere,
    /// A process can write to it.
    OpenForWriting,
    /// Somebody has it open exclusively: an array, swap, a pool, another program.
    Held,
    /// It carries a signature.
    Signature,
    /// It carries none, and is not empty.
    Data,
    /// It has another name, and is asked about under that one.
    Renamed,
    /// Another disk has its name.
    Replaced,
    /// It was attached again, and has nothing by which it is known again.
    Nameless,
}

/// What sort of device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole disk, known by serial number and world-wide name.
    Disk,
    /// A partition.
    Partition,
    /// A loop device, known by its file.
    Loop,
    /// Part of an md array, of a device-mapper device, of bcache; assembled or not.
    Member,
    /// A swap area, on or off.
    Swap,
    /// One of the devices of a btrfs or a ZFS pool, mounted or not.
    Several,
}

/// May it be written?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// No, whatever is said.
    Refused,
    /// No; yes once the user names the device.
    UntilNamed,
    /// Yes.
    Allowed,
    /// No, whatever is said: it is not the disk that was given up or named.
    AnotherDisk,
    /// There is no such case, because of this.
    Impossible(&'static str),
}

impl Occasion {
    /// In the order of the document.
    pub const ALL: [Occasion; 6] = [
        Occasion::New,
        Occasion::Over,
        Occasion::Resume,
        Occasion::ResumeKilled,
        Occasion::ResumeOver,
        Occasion::Mkfs,
    ];

    fn title(self) -> &'static str {
        match self {
            Occasion::New => "A new run, `--destroy-data`",
            Occasion::Over => "A new run, the disk is named: `--destroy-data=sdb`",
            Occasion::Resume => "`--resume`, `--destroy-data`",
            Occasion::ResumeKilled => "`--resume` after `kill -9`, `--destroy-data`",
            Occasion::ResumeOver => "`--resume`, the disk is named: `--destroy-data=sdb`",
            Occasion::Mkfs => "Right before mkfs or the first write",
        }
    }
}

impl State {
    /// In the order of the tables.
    pub const ALL: [State; 9] = [
        State::MountedHere,
        State::MountedElsewhere,
        State::OpenForWriting,
        State::Held,
        State::Signature,
        State::Data,
        State::Renamed,
        State::Replaced,
        State::Nameless,
    ];

    fn title(self) -> &'static str {
        match self {
            State::MountedHere => "mounted",
            State::MountedElsewhere => "mounted in another namespace",
            State::OpenForWriting => "open for writing",
            State::Held => "held",
            State::Signature => "signature",
            State::Data => "no signature, not zero",
            State::Renamed => "renamed",
            State::Replaced => "replaced",
            State::Nameless => "attached again, unnamed",
        }
    }
}

impl Kind {
    /// In the order of the tables.
    pub const ALL: [Kind; 6] = [
        Kind::Disk,
        Kind::Partition,
        Kind::Loop,
        Kind::Member,
        Kind::Swap,
        Kind::Several,
    ];

    fn title(self) -> &'static str {
        match self {
            Kind::Disk => "disk",
            Kind::Partition => "partition",
            Kind::Loop => "loop",
            Kind::Member => "md, dm, bcache",
            Kind::Swap => "swap",
            Kind::Several => "btrfs, ZFS over several",
        }
    }
}

/// Swap is not mounted.
const S: Answer = Impossible("swap is not mounted; a swap area in use is *held*");

/// Nothing without a signature.
const U: Answer =
    Impossible("without its signature it is no swap area, and no part of a file system");

/// A new run.
const F: Answer = Impossible("a new run has no earlier disk to compare with");

/// A row for each state, a column for each kind.
type Table = [[Answer; Kind::ALL.len()]; State::ALL.len()];

const NEW: Table = [
    [R, R, R, R, S, R], // mounted
    [R, R, R, R, S, R], // mounted in another namespace
    [R, R, R, R, R, R], // open for writing
    [R, R, R, R, R, R], // held
    [N, N, N, N, N, N], // signature
    [N, N, N, N, U, U], // no signature, not zero
    [F, F, F, F, F, F], // renamed
    [F, F, F, F, F, F], // replaced
    [F, F, F, F, F, F], // attached again, unnamed
];

/// Renamed and replaced: what the second name leads to.
const OVER: Table = [
    [R, R, R, R, S, R], // mounted
    [R, R, R, R, S, R], // mounted in another namespace
    [R, R, R, R, R, R], // open for writing
    [R, R, R, R, R, R], // held
    [A, A, A, A, A, A], // signature
    [A, A, A, A, U, U], // no signature, not zero
    [A, A, A, A, A, A], // renamed
    [X, X, X, X, X, X], // replaced
    [F, F, F, F, F, F], // attached again, unnamed
];

const RESUME: Table = [
    [R, R, R, R, S, R], // mounted
    [R, R, R, R, S, R], // mounted in another namespace
    [R, R, R, R, R, R], // open for writing
    [R, R, R, R, R, R], // held
    [N, N, N, N, N, N], // signature
    [N, N, N, N, U, U], // no signature, not zero
    [A, A, A, A, A, A], // renamed
    [X, X, X, X, X, X], // replaced
    [N, N, N, N, N, N], // attached again, unnamed
];

/// No note says what the run left: data may be its own.
const RESUME_KILLED: Table = [
    [R, R, R, R, S, R], // mounted
    [R, R, R, R, S, R], // mounted in another namespace
    [R, R, R, R, R, R], // open for writing
    [R, R, R, R, R, R], // held
    [N, N, N, N, N, N], // signature
    [A, A, A, A, U, U], // no signature, not zero
    [A, A, A, A, A, A], // renamed
    [X, X, X, X, X, X], // replaced
    [N, N, N, N, N, N], // attached again, unnamed
];

const RESUME_OVER: Table = [
    [R, R, R, R, S, R], // mounted
    [R, R, R, R, S, R], // mounted in another namespace
    [R, R, R, R, R, R], // open for writing
    [R, R, R, R, R, R], // held
    [A, A, A, A, A, A], // signature
    [A, A, A, A, U, U], // no signature, not zero
    [A, A, A, A, A, A], // renamed
    [X, X, X, X, X, X], // replaced
    [A, A, A, A, A, A], // attached again, unnamed
];

/// What was named before covers what was there then. What came since is covered by a new run.
const MKFS: Table = RESUME;

/// May it be written?
pub fn answer(occasion: Occasion, state: State, kind: Kind) -> Answer {
    let table = match occasion {
        Occasion::New => NEW,
        Occasion::Over => OVER,
        Occasion::Resume => RESUME,
        Occasion::ResumeKilled => RESUME_KILLED,
        Occasion::ResumeOver => RESUME_OVER,
        Occasion::Mkfs => MKFS,
    };
    table[state as usize][kind as usize]
}

/// An answer as it stands in a table; why there is no such case stands in `notes`.
fn word(answer: Answer, notes: &mut Vec<&'static str>) -> String {
    match answer {
        Answer::Refused => "refused".to_owned(),
        Answer::UntilNamed => "until named".to_owned(),
        Answer::Allowed => "allowed".to_owned(),
        Answer::AnotherDisk => "another disk".to_owned(),
        Answer::Impossible(why) => {
            let at = notes.iter().position(|note| *note == why);
            let at = at.unwrap_or_else(|| {
                notes.push(why);
                notes.len() - 1
            });
            format!("– ({})", at + 1)
        }
    }
}

/// The tables as the document has them.
pub fn markdown() -> String {
    let mut notes: Vec<&'static str> = Vec::new();
    let mut text = String::new();
    for occasion in Occasion::ALL {
        let _ = write!(text, "{}:\n\n| |", occasion.title());
        for kind in Kind::ALL {
            let _ = write!(text, " {} |", kind.title());
        }
        let _ = writeln!(text, "\n|---|{}", "---|".repeat(Kind::ALL.len()));
        for state in State::ALL {
            let _ = write!(text, "| {} |", state.title());
            for kind in Kind::ALL {
                let word = word(answer(occasion, state, kind), &mut notes);
                let _ = write!(text, " {word} |");
            }
            text.push('\n');
        }
        text.push('\n');
    }
    for (at, note) in notes.iter().enumerate() {
        let _ = writeln!(text, "{}. not possible: {note}", at + 1);
    }
    text
}

/// What a served disk is to stand over ([`served`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A device that holds nothing.
    Device,
    /// One that carries a signature.
    DeviceSignature,
    /// One that carries none, and is not empty.
    DeviceData,
    /// One with a file system that is mounted.
    DeviceMounted,
    /// One that a process can write to.
    DeviceOpen,
    /// One that somebody has open exclusively.
    DeviceHeld,
    /// One that is served already.
    DeviceServed,
    /// One that takes no writes.
    DeviceReadOnly,
    /// A file that is made (`--size`).
    FileNew,
    /// A file of zeros.
    File,
    /// A file that carries a signature.
    FileSignature,
    /// A file that carries none, and has a byte that is not zero.
    FileData,
    /// A file that a loop device stands on.
    FileLoop,
    /// A file that a process can write to.
    FileOpen,
    /// A file that is served already.
    FileServed,
    /// The file of an emulated disk in its own mount.
    FileOfEmulated,
    /// A file of zeros that has another name besides.
    FileOfTwoNames,
    /// A link to a file.
    Link,
}

/// What the user says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Nothing.
    Nothing,
    /// `--destroy-data`.
    Destroy,
    /// `--destroy-data=TARGET`.
    DestroyNamed,
    /// `--read-only`.
    ReadOnly,
}

impl Target {
    /// In the order of the table.
    pub const ALL: [Target; 18] = [
        Target::Device,
        Target::DeviceSignature,
        Target::DeviceData,
        Target::DeviceMounted,
        Target::DeviceOpen,
        Target::DeviceHeld,
        Target::DeviceServed,
        Target::DeviceReadOnly,
        Target::FileNew,
        Target::File,
        Target::FileSignature,
        Target::FileData,
        Target::FileLoop,
        Target::FileOpen,
        Target::FileServed,
        Target::FileOfEmulated,
        Target::FileOfTwoNames,
        Target::Link,
    ];

    fn title(self) -> &'static str {
        match self {
            Target::Device => "device that holds nothing",
            Target::DeviceSignature => "device, signature",
            Target::DeviceData => "device, no signature, not zero",
            Target::DeviceMounted => "device, mounted",
            Target::DeviceOpen => "device, open for writing",
            Target::DeviceHeld => "device, held",
            Target::DeviceServed => "device, served already",
            Target::DeviceReadOnly => "device, read-only",
            Target::FileNew => "new file (`--size`)",
            Target::File => "file of zeros",
            Target::FileSignature => "file, signature",
            Target::FileData => "file, no signature, not zero",
            Target::FileLoop => "file below a loop device",
            Target::FileOpen => "file, open for writing",
            Target::FileServed => "file, served already",
            Target::FileOfEmulated => "file of an emulated disk",
            Target::FileOfTwoNames => "file of zeros with a second name (hard link)",
            Target::Link => "link to a file",
        }
    }
}

impl Said {
    /// In the order of the table.
    pub const ALL: [Said; 4] = [
        Said::Nothing,
        Said::Destroy,
        Said::DestroyNamed,
        Said::ReadOnly,
    ];

    fn title(self) -> &'static str {
        match self {
            Said::Nothing => "nothing said",
            Said::Destroy => "`--destroy-data`",
            Said::DestroyNamed => "named",
            Said::ReadOnly => "`--read-only`",
        }
    }
}

/// A new file.
const W: Answer = Impossible("a new file is made to be written, and holds nothing to be given up");

/// May a served disk stand over it? A row for each target, a column for what is said.
const SERVED: [[Answer; Said::ALL.len()]; Target::ALL.len()] = [
    [R, A, A, A], // device that holds nothing
    [R, N, A, A], // device, signature
    [R, N, A, A], // device, data
    [R, R, R, R], // device, mounted
    [R, R, R, R], // device, open for writing
    [R, R, R, R], // device, held
    [R, R, R, R], // device, served already
    [R, R, R, A], // device, read-only
    [A, A, W, W], // new file
    [A, A, A, A], // file of zeros
    [N, N, A, A], // file, signature
    [N, N, A, A], // file, data
    [R, R, R, R], // file below a loop device
    [R, R, R, R], // file, open for writing
    [R, R, R, R], // file, served already
    [R, R, R, R], // file of an emulated disk
    [R, R, R, A], // file with a second name
    [R, R, R, R], // link to a file
];

/// May a served disk (`emulate create --over`) stand over it?
pub fn served(target: Target, said: Said) -> Answer {
    SERVED[target as usize][said as usize]
}

/// The table of [`served`] as the document has it.
pub fn served_markdown() -> String {
    let mut text = String::from("| |");
    for said in Said::ALL {
        let _ = write!(text, " {} |", said.title());
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(Said::ALL.len()));
    let mut notes = Vec::new();
    for target in Target::ALL {
        let _ = write!(text, "| {} |", target.title());
        for said in Said::ALL {
            let _ = write!(text, " {} |", word(served(target, said), &mut notes));
        }
        text.push('\n');
    }
    text.push('\n');
    for (at, note) in notes.iter().enumerate() {
        let _ = writeln!(text, "{}. not possible: {note}", at + 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_document_has_these_tables() {
        const BEGIN: &str = "<!-- iosched-testing/src/refusal_matrix.rs: begin -->\n\n";
        const BEGIN_SERVED: &str =
            "<!-- iosched-testing/src/refusal_matrix.rs, served: begin -->\n\n";
        assert_stands_in_document(BEGIN, &markdown());
        assert_stands_in_document(BEGIN_SERVED, &served_markdown());
    }

    fn assert_stands_in_document(begin: &str, markdown: &str) {
        const END: &str = "\n<!-- end -->\n";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/refusals.md");
        let document = std::fs::read_to_string(&path).expect("the document");
        let (before, rest) = document.split_once(begin).expect("where they begin");
        let (tables, after) = rest.split_once(END).expect("where they end");
        if tables == markdown {
            return;
        }
        assert!(
            std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always"),
            "results/refusals.md has other tables: INSTA_UPDATE=always cargo test -p iosched-testing"
        );
        let document = [before, begin, markdown, END, after].concat();
        std::fs::write(&path, document).expect("the document");
    }

    #[test]
    fn naming_a_device_allows_what_is_refused_until_then_and_nothing_else() {
        for (plain, named) in [
            (Occasion::New, Occasion::Over),
            (Occasion::Resume, Occasion::ResumeOver),
            (Occasion::ResumeKilled, Occasion::ResumeOver),
        ] {
            for state in State::ALL {
                for kind in Kind::ALL {
                    let without = answer(plain, state, kind);
                    let with = match without {
                        Answer::UntilNamed => Answer::Allowed,
                        // What the second name leads to is another question.
                        Answer::Impossible(_) if plain == Occasion::New => continue,
                        other => other,
                    };
                    assert_eq!(answer(named, state, kind), with, "{state:?} {kind:?}");
                }
            }
        }
    }

    #[test]
    fn the_rows_and_columns_stand_in_the_order_of_their_types() {
        for (at, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, at);
        }
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
        for (at, target) in Target::ALL.into_iter().enumerate() {
            assert_eq!(target as usize, at);
        }
        for (at, said) in Said::ALL.into_iter().enumerate() {
            assert_eq!(said as usize, at);
        }
    }
}
