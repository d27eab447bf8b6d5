//! Readers of what the kernel says, as functions of bytes: for fuzzing.
//!
//! See [`iosched_testing::fuzz`]: what a reader promises, and who runs this list.

use std::fmt::Debug;

use iosched_testing::fuzz::{KIB, Target, files, json, target, utf8};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::capture::event::Decoder;
use crate::capture::format::{HeaderFormat, PageFormat};
use crate::capture::page::Page;
use crate::device::mounts::MountTable;
use crate::process::cgroup;
use crate::{diskstats, durable, pressure};

/// The readers of this crate.
pub const TARGETS: &[Target] = &[
    target("trace-page", trace_page, 64 * KIB, 100),
    target("trace-format", trace_format, 256 * KIB, 50),
    target("proc", proc, 64 * KIB, 100),
];

/// Recorded by hand on Linux 6.18.
macro_rules! golden {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/golden/capture/",
            $name
        ))
    };
}

/// Pages in the layout of a kernel.
fn trace_page(bytes: &[u8]) {
    thread_local! {
        static LEARNT: (PageFormat, HeaderFormat, Decoder) = learnt();
    }
    LEARNT.with(|learnt| {
        let (format, header, decoder) = learnt;
        for page in bytes.chunks(format.size()) {
            decode(page, format, *header, decoder);
        }
    });
}

/// What a kernel says of its pages and events.
fn learnt() -> (PageFormat, HeaderFormat, Decoder) {
    let mut decoder = Decoder::default();
    for format in golden!("formats.txt").split("name: ").skip(1) {
        let name = format.lines().next().expect("it has a name");
        let learnt = decoder.learn(name, &format!("name: {format}"));
        learnt.expect("a kernel's");
    }
    (page_format(), header_format(), decoder)
}

fn page_format() -> PageFormat {
    PageFormat::parse(golden!("header_page")).expect("a kernel's")
}

fn header_format() -> HeaderFormat {
    HeaderFormat::parse(golden!("header_event")).expect("a kernel's")
}

fn decode(page: &[u8], format: &PageFormat, header: HeaderFormat, decoder: &Decoder) {
    let Ok(mut page) = Page::new(page, format, header) else {
        return;
    };
    while let Ok(Some(raw)) = page.next_record() {
        let _ = decoder.decode(&raw, 3);
    }
}

/// Layouts, and pages of a kernel that are read as they say.
fn trace_format(bytes: &[u8]) {
    const PAGES: &[u8] = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/capture/cpu0.pages"
    ));
    let Some(text) = utf8(bytes) else {
        return;
    };
    let (mut format, mut header) = (page_format(), header_format());
    let mut decoder = Decoder::default();
    for (name, body) in files(text.as_bytes()) {
        let Some(body) = utf8(body) else { return };
        match name {
            "header_page" => format = PageFormat::parse(body).unwrap_or(format),
            "header_event" => header = HeaderFormat::parse(body).unwrap_or(header),
            name => _ = decoder.learn(name, body),
        }
    }
    for page in PAGES.chunks(format.size().max(1)).take(8) {
        decode(page, &format, header, &decoder);
    }
}

fn proc(bytes: &[u8]) {
    let table = MountTable::of(bytes);
    for mount in &table.mounts {
        let below = mount.mount_point.join("a/b");
        assert!(table.with_number(mount.number).is_some());
        // A relative one is none of the kernel's.
        assert!(table.containing(&below).is_some() || !below.is_absolute());
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = text.lines().filter_map(cgroup::parse_mount).count();
    let _ = pressure::parse(&text);
    let all = diskstats::all(&text);
    for (one, other) in all.values().zip(all.values().skip(1)) {
        let _ = one.since(other).plus(other);
    }
}

/// What was accepted of an entry of the journal or the history, as `newest` or older, is written and read again.
pub fn entry_is_read_again<T: DeserializeOwned + Serialize + Debug>(bytes: &[u8], newest: u32) {
    if let Ok(entry) = durable::entry_of::<T>(bytes, newest) {
        let again = durable::entry_of::<T>(json(&entry).as_bytes(), newest);
        // As text: the last bit of a number with decimals may be another one.
        let lengths = [&entry, &again.expect("it is read again")].map(|entry| json(entry).len());
        assert!(lengths[0].abs_diff(lengths[1]) < 32, "{entry:?}");
    }
}

iosched_testing::replay!(TARGETS);
