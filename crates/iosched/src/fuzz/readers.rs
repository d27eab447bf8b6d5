//! The readers, each with what holds of all that it accepts.

use std::fmt::Debug;
use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use iosched_sim::disk::{Command, DiskModel, DiskOp, Model, ModelOptions};
use iosched_sim::trace::kernel::{Line, Reader};
use iosched_sim::trace::write_event;
use iosched_sim::trace::{Format, Merge, Records, Survey};
use iosched_sim::units::{Nanos, Sector, Sectors, Time};
use iosched_sim::workload::fio_job;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::analysis::Analysis;
use crate::capture::event::Decoder;
use crate::capture::format::{HeaderFormat, PageFormat};
use crate::capture::page::Page;
use crate::device::mounts::MountTable;
use crate::disk_file::{self, disksim};
use crate::history;
use crate::host::Host;
use crate::journal;
use crate::load::fio_job::{JobFile, Place, TrialSettings};
use crate::load::pgbench::output;
use crate::load::{Outcome, command, fio, iozone};
use crate::measure::Measured;
use crate::policy::edit::{self, NewRule};
use crate::policy::file::Policy;
use crate::policy::matching::{self, KnownDisk, Match};
use crate::policy::writers::{self as other_writers, rule_text};
use crate::process::{Finished, cgroup};
use crate::record::Record;
use crate::report::input::Input;
use crate::report::traffic::Traffic;
use crate::report::{html, input, markdown, text};
use crate::schedule::RunProgress;
use crate::simulate::file::decompressed;
use crate::simulate::settings::{Checked, Wanted};
use crate::simulate::{conform as following, recordings, response as recorded};
use crate::switch::Arm;
use crate::system_config::boot;
use crate::system_config::cmdline::{self, Format as BootFormat};
use crate::system_config::identity::Properties;
use crate::system_config::rules;
use crate::trial::{JobResult, Metrics};
use crate::{diskstats, durable, foreign, pressure};

/// What errors call a file that is not there.
const NOWHERE: &str = "fuzzed";

fn utf8(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

pub(super) fn record(bytes: &[u8]) {
    let path = Path::new(NOWHERE);
    let Ok(record) = Record::parse(path, bytes) else {
        return;
    };
    let mut written = json(&record.header);
    for entry in &record.entries {
        written += "\n";
        written += &json(entry);
    }
    written += "\n";
    let again = Record::parse(path, written.as_bytes());
    let again = again.unwrap_or_else(|error| panic!("what was read is not read again: {error}"));
    assert_eq!(again.entries.len(), record.entries.len());

    let analysis = Analysis::of(&record);
    let _ = text::record(&record, &analysis, 80);
    let _ = text::rest(&record, 80);
    let _ = markdown::record(&record, &analysis);
    let course = RunProgress::of(&record.header.plan, &record);
    let _ = (course.at_most(), course.trials_at_most(), course.next());
}

pub(super) fn results(bytes: &[u8]) {
    let Some(Ok(input)) = utf8(bytes).map(input::results) else {
        return;
    };
    match input {
        Input::Simulated(simulated) => _ = html::simulated(&simulated),
        Input::Conformances(all) => _ = html::conformances(&all),
        Input::Record(_) | Input::Traffic(_) => unreachable!("only JSON was read"),
    }
}

pub(super) fn journal(bytes: &[u8]) {
    entry::<journal::Entry>(bytes, journal::SCHEMA);
}

pub(super) fn history(bytes: &[u8]) {
    entry::<history::Entry>(bytes, history::SCHEMA);
}

fn entry<T: DeserializeOwned + Serialize + Debug>(bytes: &[u8], newest: u32) {
    if let Ok(entry) = durable::entry_of::<T>(bytes, newest) {
        let again = durable::entry_of::<T>(json(&entry).as_bytes(), newest);
        // As text: the last bit of a number with decimals may be another one.
        let lengths = [&entry, &again.expect("it is read again")].map(|entry| json(entry).len());
        assert!(lengths[0].abs_diff(lengths[1]) < 32, "{entry:?}");
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our own types serialise")
}

pub(super) fn policy(bytes: &[u8]) {
    let parse = |text: &str| Policy::parse(text, Path::new(NOWHERE));
    let Some((given, Ok(policy))) = utf8(bytes).map(|text| (text, parse(text))) else {
        return;
    };
    let new = NewRule {
        name: "disk".into(),
        matching: Match {
            serial: Some("fuzz-1".into()),
            ..Match::default()
        },
        arm: Some(Arm::parse("bfq:slice_idle=0").expect("it is an arm")),
        ..NewRule::default()
    };
    let edited = edit::with_rule(Some(given), &policy, &new);
    let longer = parse(&edited).unwrap_or_else(|error| panic!("{error}\n{edited}"));
    let ours = longer
        .rules
        .iter()
        .position(|rule| rule.matching == new.matching);
    let ours = ours.expect("the rule was put in");
    let shorter = edit::without_rules(&edited, &[ours]);
    let shorter = parse(&shorter).unwrap_or_else(|error| panic!("{error}\n{shorter}"));
    assert_eq!(shorter.rules.len() + 1, longer.rules.len());
    rules_say_no_more(&policy);
}

/// Whatever a policy's patterns and names hold, the rules made of it set schedulers and nothing else.
fn rules_say_no_more(policy: &Policy) {
    let rules = policy.rules.iter().filter_map(|rule| {
        Some(rules::Rule {
            name: rule.name.clone(),
            remark: rule.why.clone().unwrap_or_default(),
            conditions: rule.matching.conditions()?,
            arm: rule.arm.clone(),
            old_name: None,
        })
    });
    let text = rules::text(&rules.collect::<Vec<_>>());
    let wanted = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines = rule_text::lines(&text);
    assert_eq!(lines.len(), wanted.count(), "a line is no rule: {text}");
    for token in lines.iter().flat_map(|line| &line.tokens) {
        let is_assigned = matches!(
            token.operator,
            rule_text::Operator::Assign | rule_text::Operator::Add
        );
        let attribute = token.attribute.as_deref().unwrap_or_default();
        let may_be = match token.key.as_str() {
            "ATTR" => attribute.starts_with("queue/") || attribute.starts_with("device/"),
            "ENV" => attribute == rules::MARK,
            key => matches!(key, "GOTO" | "LABEL"),
        };
        assert!(!is_assigned || may_be, "{token:?} in {text}");
    }
}

pub(super) fn disk(bytes: &[u8]) {
    let parse = |text: &str| disk_file::parse(text, Path::new(NOWHERE));
    let Some(Ok(model)) = utf8(bytes).map(parse) else {
        return;
    };
    let written = disk_file::to_toml(&model);
    let again = parse(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(again, model);
    if let Ok(mut disk) = model.build(&ModelOptions::default()) {
        use_a_little(disk.as_mut());
    }
}

/// Some commands, each of which completes.
fn use_a_little(disk: &mut dyn DiskModel) {
    let end = disk.capacity().as_u64();
    let (mut now, mut completed) = (Time::ZERO, Vec::new());
    let places = [0, end / 2, end.saturating_sub(8), end / 3, end / 3 + 8];
    for (tag, start) in (0..).zip(places) {
        let op = if tag % 2 == 0 {
            DiskOp::Read
        } else {
            DiskOp::Write
        };
        let length = Sectors::new(8.min(end - start));
        let start = Sector::new(start);
        let fua = tag == 3;
        disk.submit(
            now,
            Command {
                tag,
                op,
                start,
                length,
                fua,
            },
        );
        while completed.is_empty() {
            let event = disk.next_event().expect("a command is in the drive");
            now = event.max(now);
            disk.advance(now, &mut completed);
        }
        completed.clear();
    }
}

/// The files that follow one another in the bytes, each after a line `#file NAME`.
fn files(bytes: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    const HEADING: &[u8] = b"#file ";
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let at = find(rest, HEADING)?;
        let after = &rest[at + HEADING.len()..];
        let end = after.iter().position(|&byte| byte == b'\n')?;
        let body = &after[end + 1..];
        let length = find(body, HEADING).unwrap_or(body.len());
        rest = &body[length..];
        Some((utf8(&after[..end])?, &body[..length]))
    })
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

thread_local! {
    /// A directory for files that are read by path.
    static PLACE: TempDir = tempfile::tempdir().expect("there is room for a directory");
}

/// Writes a file to be read by path.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PLACE.with(|place| place.path().join(name));
    write_anew(&path, bytes);
    path
}

/// A file that is cut to nothing and written again is brought to disk when it is closed (ext4); a new one is not.
fn write_anew(path: &Path, bytes: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, bytes).expect("there is room for a file");
}

pub(super) fn disksim(bytes: &[u8]) {
    for name in ["drive.diskspecs", "drive.model", "drive.seek"] {
        file(name, b"");
    }
    let mut drive = file("drive.diskspecs", b"");
    for (name, body) in files(bytes).take(3) {
        let is_harmless = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
        if is_harmless && name.starts_with("drive.") {
            let path = file(name, body);
            if name.ends_with("diskspecs") {
                drive = path;
            }
        }
    }
    // Where it is not in the file, DiskSim has the bus's time in another one.
    let bus = disksim::BusTimes {
        read_ms: 0.01,
        write_ms: 0.02,
    };
    for bus in [None, Some(bus)] {
        if let Ok(model) = disksim::convert(&drive, bus) {
            disk(disk_file::to_toml(&model).as_bytes());
        }
    }
}

pub(super) fn fio_job(bytes: &[u8]) {
    let Some(text) = utf8(bytes) else {
        return;
    };
    if let Ok(file) = JobFile::parse(NOWHERE, text) {
        let settings = TrialSettings {
            place: Place::Path("/dev/loop9".into()),
            runtime: None,
            ramp: None,
            seed: 7,
        };
        let _ = (file.writes(), file.reads(), file.workers());
        let _ = (file.duration(&settings), file.has_runtime(), file.fills());
        let _ = file.files(1 << 30);
        let composed = file.compose(&settings);
        // The target is named last in every section, where it wins.
        let sections = composed.lines().filter(|line| line.starts_with('['));
        let targets = composed
            .lines()
            .filter(|line| line.starts_with("filename=/dev/loop9"));
        assert_eq!(sections.count(), targets.count(), "{composed}");
    }
    let _ = fio_job::parse(text, Sectors::new(1 << 30));
}

pub(super) fn fio_output(bytes: &[u8]) {
    if let Some(Ok(measured)) = utf8(bytes).map(fio::read_result) {
        is_kept(measured.jobs, None);
    }
}

/// What a load gave is refused, or can be recorded with all that is worked out of it.
fn is_kept(jobs: Vec<JobResult>, number: Option<f64>) {
    let outcome = Outcome {
        jobs,
        number,
        ..Outcome::default()
    };
    let measured = Measured {
        cpu_busy_ns: 1,
        ..Measured::default()
    };
    let metrics = Metrics::of(&outcome, &measured, Duration::from_secs(1));
    if outcome.check(&metrics).is_ok() {
        // What a run writes of it beside the trial itself.
        let rate = metrics.throughput_bytes_per_s;
        assert_eq!(foreign::check_kept(&rate), Ok(()), "{outcome:?}");
    }
}

pub(super) fn pgbench_output(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let report = output::Report::read(&text);
    let tps = report.map_or(1.0, |report| report.tps);
    let slowest = output::slowest_second(&text);
    if let Some(flow) = output::transactions(&[text], tps) {
        let job = JobResult {
            name: "pgbench".into(),
            read: None,
            write: None,
            trim: None,
            transactions: Some(flow),
        };
        is_kept(vec![job], slowest);
    }
}

pub(super) fn command_output(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    is_kept(Vec::new(), command::json_number(&text, "/a/0"));
    let pattern = regex_lite::Regex::new("rate ([^ ]+)").expect("it is a pattern");
    is_kept(Vec::new(), command::last_match(&pattern, &text));
    let finished = Finished {
        status: std::process::ExitStatus::default(),
        stdout: text,
        stderr: String::new(),
        elapsed: Duration::from_secs(1),
    };
    if let Ok(jobs) = iozone::results(&finished, iozone::Test::Mixed, 4096) {
        is_kept(jobs, None);
    }
}

pub(super) fn trace(bytes: &[u8]) {
    read_trace(bytes, None);
}

/// The first byte says in which format the others are read.
pub(super) fn trace_of_format(bytes: &[u8]) {
    if let Some((first, rest)) = bytes.split_first() {
        let format = Format::ALL[usize::from(*first) % Format::ALL.len()];
        read_trace(rest, Some(format));
    }
}

fn read_trace(bytes: &[u8], format: Option<Format>) {
    let Ok(records) = Records::new(bytes, format) else {
        return;
    };
    let merged = Merge::new(vec![records]);
    let mut survey = Survey::default();
    let mut traffic = Traffic::new(NOWHERE.into(), merged.format().name().into());
    let mut last = Time::ZERO;
    for record in merged {
        let Ok(record) = record else { return };
        assert!(record.time >= last, "{record:?} after {last}");
        assert!(record.length > Sectors::ZERO, "{record:?}");
        last = record.time;
        survey.add(&record);
        traffic.take(&record);
    }
    if traffic.records > 0 {
        html::traffic(&traffic);
    }
}

pub(super) fn events(bytes: &[u8]) {
    let Some(text) = utf8(bytes) else {
        return;
    };
    let zero = Nanos::from_secs(1000);
    let mut reader = Reader::new(zero);
    for line in text.lines() {
        let Ok(Some(Line::Event(event))) = reader.read(line) else {
            continue;
        };
        let mut written = String::new();
        write_event(&mut written, Time::ZERO + zero, &event).expect("text takes what is written");
        let again = Reader::new(zero).read(written.trim_end());
        let Ok(Some(Line::Event(again))) = again else {
            panic!("{again:?}: {written} of {line}");
        };
        let told = |event: &iosched_sim::trace::kernel::Event| {
            (
                event.op,
                event.start,
                event.length,
                event.process,
                event.priority,
                event.cpu,
            )
        };
        assert_eq!(told(&again), told(&event), "{written} of {line}");
    }
}

pub(super) fn conform(bytes: &[u8]) {
    let recording = file("recording.txt", bytes);
    let scheduler = recordings::named_scheduler(&recording);
    let wanted = Wanted {
        scheduler: scheduler.unwrap_or_else(|| "mq-deadline".into()),
        ..Wanted::default()
    };
    let _ = following::follow_all(&[recording], &wanted, None, |_| {});
}

pub(super) fn tunables(bytes: &[u8]) {
    let tunables = file("tunables.txt", bytes);
    for scheduler in [
        "none",
        "mq-deadline",
        "kyber",
        "bfq",
        "noop",
        "deadline",
        "cfq",
    ] {
        let wanted = Wanted {
            scheduler: scheduler.into(),
            tunables: Some(tunables.clone()),
            ..Wanted::default()
        };
        if let Ok(checked) = Checked::new(&wanted) {
            let _ = checked.build();
        }
    }
}

pub(super) fn response(bytes: &[u8]) {
    let recording = file("response.txt", bytes);
    let model = Model::named("hdd-7200").expect("it comes with the program");
    let _ = recorded::check(&model, &ModelOptions::default(), &recording);
}

pub(super) fn compressed(bytes: &[u8]) {
    /// As much as is taken of each: some bytes hold terabytes.
    const MOST: u64 = 4 << 20;
    if let Ok(reader) = decompressed(Cursor::new(bytes.to_vec())) {
        let mut block = [0; 4096];
        let mut reader = reader.take(MOST);
        while reader.read(&mut block).is_ok_and(|read| read > 0) {}
    }
}

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
pub(super) fn trace_page(bytes: &[u8]) {
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
pub(super) fn trace_format(bytes: &[u8]) {
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

pub(super) fn proc(bytes: &[u8]) {
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
    let properties = Properties::parse(&text);
    let _ = properties.get("ID_SERIAL");
}

pub(super) fn command_line(bytes: &[u8]) {
    let Some(text) = utf8(bytes) else {
        return;
    };
    let _ = cmdline::elevator_in(text);
    for format in [
        BootFormat::GrubDefault,
        BootFormat::GrubDropIn,
        BootFormat::MenuLst,
        BootFormat::KernelInstall,
        BootFormat::Extlinux,
        BootFormat::LoaderEntry,
        BootFormat::GrubEnvironment,
    ] {
        let Ok(with) = cmdline::with_elevator(text, format, Some("noop")) else {
            continue;
        };
        let again = cmdline::with_elevator(&with, format, Some("noop"));
        assert_eq!(
            again.as_deref(),
            Ok(with.as_str()),
            "{format:?} of {text:?}"
        );
        let without = cmdline::with_elevator(&with, format, None);
        let without = without.unwrap_or_else(|error| panic!("{error:?} of {with:?}"));
        let again = cmdline::with_elevator(&without, format, None);
        assert_eq!(
            again.as_deref(),
            Ok(without.as_str()),
            "{format:?} of {text:?}"
        );
    }
}

/// Where other programs keep what they set.
const PLACES: [&str; 8] = [
    "etc/udev/rules.d/60-x.rules",
    "etc/rc.local",
    "etc/default/grub",
    "etc/tlp.conf",
    "etc/tuned/x/tuned.conf",
    "etc/saptune/override/1",
    "etc/tmpfiles.d/x.conf",
    "etc/systemd/system/x.service",
];

/// Settings of other programs, on a machine with one disk: all in the same text, or each after its `#file PLACE`.
pub(super) fn writers(bytes: &[u8]) {
    thread_local! {
        static MACHINE: (TempDir, Host, KnownDisk) = machine();
    }
    MACHINE.with(|machine| {
        let (directory, host, disk) = machine;
        for place in PLACES {
            let named = files(bytes).find(|(name, _)| *name == place);
            let body = named.map_or(bytes, |(_, body)| body);
            write_anew(&directory.path().join(place), body);
        }
        let _ = other_writers::find(host, disk);
        let _ = other_writers::find_on_change(host, disk);
        let _ = other_writers::reads_elevator(host);
        let _ = boot::places_of_elevator(host);
    });
}

fn machine() -> (TempDir, Host, KnownDisk) {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let write = |file: &str, text: &str| {
        let path = directory.path().join(file);
        let parent = path.parent().expect("it is below the directory");
        fs::create_dir_all(parent).expect("there is room for a directory");
        fs::write(path, text).expect("there is room for a file");
    };
    write("proc/sys/kernel/osrelease", "4.18.0-test\n");
    write("proc/cmdline", "root=/dev/sda1 elevator=deadline quiet\n");
    write("sys/block/sda/dev", "8:0\n");
    write("sys/block/sda/size", "2097152\n");
    write("sys/block/sda/queue/scheduler", "none [mq-deadline] bfq\n");
    write("sys/block/sda/queue/rotational", "1\n");
    write("run/udev/data/b8:0", "E:ID_SERIAL=A-1\nE:ID_BUS=ata\n");
    write("etc/tuned/active_profile", "x\n");
    write("etc/sysconfig/saptune", "NOTE_APPLY_ORDER=\"1\"\n");
    for unit in ["x", "tlp", "saptune", "tuned"] {
        write(&format!("usr/lib/systemd/system/{unit}.service"), "");
        write(
            &format!("etc/systemd/system/multi-user.target.wants/{unit}.service"),
            "",
        );
    }
    for place in PLACES {
        write(place, "");
    }
    let host = Host::at(directory.path());
    let mut disks = matching::disks(&host).expect("it has a disk");
    (directory, host, disks.remove(0))
}
