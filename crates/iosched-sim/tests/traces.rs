//! The readers of traces: every format, every damage, and what our own writer writes.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it should be"
)]

mod samples;

use std::fmt::Write as _;
use std::io::Read;

use iosched_sim::request::{IoPriority, Op, PriorityClass, ProcessId};
use iosched_sim::simulate::{BlockEvent, write_line};
use iosched_sim::trace::kernel::Action;
use iosched_sim::trace::{
    Format, Labels, Merge, ReadError, Record, Records, Skip, Stage, TracePosition, WINDOW,
};
use iosched_sim::units::{Nanos, Sector, Sectors, Time};
use proptest::prelude::*;

/// All records, with the names that came up.
fn read(bytes: &[u8], format: Option<Format>) -> Result<(Vec<Record>, Labels), ReadError> {
    let mut labels = Labels::default();
    let mut records = Records::new(bytes, format)?;
    let mut all = Vec::new();
    while let Some(record) = records.read(&mut labels)? {
        all.push(record);
    }
    Ok((all, labels))
}

/// As one line each: seconds, stage, what, where, who, device.
fn told(bytes: &[u8]) -> Vec<String> {
    let (records, labels) = read(bytes, None).unwrap();
    let tell = |record: &Record| {
        let name = labels
            .process(record.process)
            .map_or("", |label| &label.name);
        let (start, length) = (record.start.as_u64(), record.length.as_u64());
        format!(
            "{} {:?} {:?}{} {start}+{length} {}{} {}{}",
            record.time,
            record.stage,
            record.op,
            if record.sync { "" } else { " later" },
            record.process.0,
            name,
            labels.device_name(record.device),
            record
                .response
                .map_or(String::new(), |response| format!(" took {response}")),
        )
    };
    records.iter().map(tell).collect()
}

fn sample(format: Format) -> Vec<u8> {
    let found = samples::all()
        .into_iter()
        .find(|(other, _)| *other == format);
    found.unwrap().1
}

#[test]
fn every_format_is_recognised_by_its_content_and_by_no_other_reader() {
    for (format, bytes) in samples::all() {
        let records = Records::new(&bytes[..], None).unwrap();
        assert_eq!(records.format(), format);
        for other in Format::ALL {
            let says_what_it_is = [Format::Blktrace, Format::FioIologV2, Format::FioIologV3];
            let told_apart = other == format || says_what_it_is.contains(&format);
            let taken = read(&bytes, Some(other)).is_ok_and(|(all, _)| !all.is_empty());
            let names = (format.name(), other.name());
            assert!(
                told_apart || !taken,
                "{names:?}: a trace of one is read as the other"
            );
        }
    }
}

#[test]
fn recordings_of_kernels_are_traces() {
    let bytes = sample(Format::Events);
    assert_eq!(
        told(&bytes),
        [
            "1000.000000000 s Submitted Read 5374256+8 333rr disk",
            "1000.000056250 s Issued Read 5374256+8 37 disk",
            "1000.001056000 s Completed Read 5374256+8 0 disk",
        ]
    );
    let (_, labels) = read(&bytes, None).unwrap();
    let expected = IoPriority {
        class: PriorityClass::RealTime,
        level: 3,
    };
    let label = labels.process(ProcessId(333)).unwrap();
    assert_eq!(label.priority, Some(expected));
}

#[test]
fn blkparse_text_is_read_up_to_its_totals() {
    assert_eq!(
        told(&sample(Format::Blkparse)),
        [
            "0.050277893 s Submitted Read 5374256+8 230my reader 8,0",
            "0.050292006 s Issued Read 5374256+8 230my reader 8,0",
            "0.050304285 s Submitted Write 2097152+128 229sw 8,0",
            "0.050304300 s Submitted Write later 99+1 229sw 8,0",
            "0.051295600 s Completed Read 5374256+8 0 8,0",
        ]
    );
    let bytes = sample(Format::Blkparse);
    let mut records = Records::new(&bytes[..], None).unwrap();
    while records.read(&mut Labels::default()).unwrap().is_some() {}
    let skipped: Vec<_> = records.skipped().iter().collect();
    assert_eq!(
        skipped,
        [
            (Skip::OtherEvent, 6),
            (Skip::Flush, 1),
            (Skip::NoData, 1),
            (Skip::Passthrough, 1),
            (Skip::Message, 1),
            (Skip::Summary, 13),
        ]
    );
}

#[test]
fn binary_records_are_read_and_one_cut_off_is_counted() {
    let bytes = sample(Format::Blktrace);
    assert_eq!(
        told(&bytes),
        [
            "0.000001000 s Submitted Read 4096+8 77fio 8,0",
            "0.000003000 s Issued Read 4096+8 77fio 8,0",
            "0.000004000 s Submitted Write 8192+8 77fio 8,0",
            "0.000005000 s Completed Read 4096+8 0 8,0",
        ]
    );
    let mut records = Records::new(&bytes[..], None).unwrap();
    while records.read(&mut Labels::default()).unwrap().is_some() {}
    assert!(
        records
            .skipped()
            .iter()
            .any(|(skip, _)| skip == Skip::CutOff)
    );
}

#[test]
fn records_of_both_versions_and_byte_orders_are_told_by_their_first_word() {
    let bytes = samples::blktrace_of_today();
    let mut of_today = told(&sample(Format::Blktrace));
    of_today.push("0.000006000 s Submitted Write later 64+8 77fio 8,0".to_owned());
    assert_eq!(told(&bytes), of_today);
    let mut records = Records::new(&bytes[..], None).unwrap();
    let mut labels = Labels::default();
    while records.read(&mut labels).unwrap().is_some() {}
    let skipped: Vec<_> = records.skipped().iter().collect();
    let expected = [
        (Skip::OtherEvent, 1),
        (Skip::Discard, 1),
        (Skip::Zone, 1),
        (Skip::Flush, 1),
        (Skip::Message, 1),
        (Skip::CutOff, 1),
    ];
    assert_eq!(skipped, expected);
    assert!(!labels.may_lack_fua());
    let (_, labels) = read(&sample(Format::Blktrace), None).unwrap();
    assert!(
        labels.may_lack_fua(),
        "a write of version 7, and none with FUA"
    );
}

#[test]
fn iologs_have_their_times_or_their_pauses() {
    assert_eq!(
        told(&sample(Format::FioIologV2)),
        [
            "0.000000000 s Submitted Read 120+8 0 /dev/sda",
            "0.001500000 s Submitted Write 960+8 0 /dev/sda",
        ]
    );
    assert_eq!(
        told(&sample(Format::FioIologV3)),
        [
            "0.000115000 s Submitted Read 120+8 0 /tmp/f",
            "0.001548000 s Submitted Read 1512+8 0 /tmp/f",
            "0.004378000 s Submitted Write 960+8 0 /tmp/f",
        ]
    );
}

#[test]
fn msr_keeps_its_units() {
    let told = told(&sample(Format::Msr));
    assert_eq!(
        (told[0].as_str(), told[2].as_str()),
        (
            "12816637200.306162900 s Submitted Read 749016+64 0 hm.1 took 41.3 µs",
            "12816637201.638215600 s Submitted Read 1+2 0 hm.0 took 2.2 µs"
        )
    );
}

#[test]
fn systor_may_leave_out_the_type_and_the_response() {
    let bytes = sample(Format::Systor);
    assert_eq!(
        told(&bytes),
        [
            "1455592511.030744000 s Submitted Read 1+9 0 3 took 4.71 ms",
            "1455592511.030845000 s Submitted Write 8+1 0 0",
        ]
    );
}

#[test]
fn block_events_are_the_same_in_the_text_of_each_tool() {
    let texts = samples::all().into_iter();
    let texts = texts.filter(|(format, _)| *format == Format::Ftrace);
    for (_, bytes) in texts {
        assert_eq!(
            told(&bytes),
            [
                "32.415492000 s Submitted Read 5374256+8 230my fio 8,0",
                "32.415510000 s Issued Read 5374256+8 37 8,0",
                "32.415910000 s Completed Read 5374256+8 0 8,0",
            ]
        );
    }
    let bytes = sample(Format::Ftrace);
    let mut records = Records::new(&bytes[..], None).unwrap();
    while records.read(&mut Labels::default()).unwrap().is_some() {}
    let skipped: Vec<_> = records.skipped().iter().collect();
    let expected = [
        (Skip::OtherEvent, 2),
        (Skip::Discard, 1),
        (Skip::Flush, 1),
        (Skip::NoData, 1),
        (Skip::Message, 3),
        (Skip::Lost, 1),
    ];
    assert_eq!(skipped, expected);
}

#[test]
fn what_cannot_be_read_is_named_with_its_place() {
    let error = |text: &[u8]| read(text, None).unwrap_err().to_string();
    assert_eq!(error(b""), "line 1: it is empty");
    assert_eq!(
        error(b"PK\x03\x04 something else"),
        "line 1: this is no trace that is known here: it begins with `PK·· something else`"
    );
    let after = |format, line: &str| error(&[sample(format), line.as_bytes().to_vec()].concat());
    assert_eq!(
        after(
            Format::Msr,
            "128166372016382155,hm,1,Flush,2822144000,4096,1321\n"
        ),
        "line 4: operation `Flush` is no read (R) or write (W)"
    );
    assert_eq!(
        after(Format::Msr, "0,1,512,r\n"),
        "line 4: 4 columns where `time,host,disk,Read|Write,offset,size,response` is expected"
    );
    assert_eq!(
        after(Format::Msr, "9,hm,1,Read,18446744073709551615,1,0"),
        "line 4: an access at sector 36028797018963967 of 0 sectors ends beyond the largest disk"
    );
    assert_eq!(
        after(Format::Events, "x Q R 8 8 1\n"),
        "line 10: time `x` is no number of microseconds"
    );
    let text = BLKPARSE_OF_ANOTHER_LAYOUT;
    assert_eq!(
        read(text.as_bytes(), Some(Format::Blkparse))
            .unwrap_err()
            .to_string(),
        "line 1: device `Q` is no pair `major,minor`"
    );
    assert_eq!(
        error(b"fio version 1 iolog\n"),
        "line 1: version 1 of fio iolog, and only 2 or 3 is read"
    );
    let mut older = sample(Format::Blktrace);
    older[0] = 5;
    assert_eq!(
        error(&older),
        "byte 0: version 5 of blktrace, and only 7 or 8 is read"
    );
    let mut damaged = sample(Format::Blktrace);
    damaged[64 + 3] = 0;
    assert_eq!(
        error(&damaged),
        "byte 64: a record begins with 0x00617407 where 0x65617407 or 0x65617408 is expected"
    );
}

const BLKPARSE_OF_ANOTHER_LAYOUT: &str = "Q 8,0 0 1 0.5 230 R 8 + 8 [x]\n";

/// Bytes without end; counts how many were taken.
struct Endless(u64);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        buffer.fill(b'7');
        self.0 += buffer.len() as u64;
        Ok(buffer.len())
    }
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_memory() {
    for format in Format::ALL {
        let mut endless = Endless(0);
        let mut records = Records::new(&mut endless, Some(format)).unwrap();
        let error = records.read(&mut Labels::default()).unwrap_err();
        assert!(
            matches!(error.place, TracePosition::Line(1) | TracePosition::Byte(0)),
            "{error}"
        );
        drop(records);
        assert!(endless.0 <= 1 << 20, "{} bytes were taken", endless.0);
    }
}

/// Gives a few bytes at a time.
struct Dribble<'bytes> {
    bytes: &'bytes [u8],
    step: usize,
}

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.step.min(buffer.len()).min(self.bytes.len());
        buffer[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        Ok(count)
    }
}

/// What is left of a trace after the given share of it was replaced at these places.
fn mutated(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    for (place, byte, what) in changes {
        if bytes.is_empty() {
            break;
        }
        let place = place.index(bytes.len());
        match what % 4 {
            0 => bytes[place] = *byte,
            1 => drop(bytes.remove(place)),
            2 => bytes.insert(place, *byte),
            _ => bytes.truncate(place.max(8)),
        }
    }
    bytes
}

/// It is read to its end, or the error says where; a second time it is the same, in small pieces too.
fn check(bytes: &[u8], format: Option<Format>, step: usize) -> Result<(), TestCaseError> {
    let whole = read(bytes, format).map(|(records, _)| records);
    if let Err(error) = &whole {
        let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
        match error.place {
            TracePosition::Line(line) => prop_assert!((1..=lines).contains(&line), "{error}"),
            TracePosition::Byte(offset) => prop_assert!(offset <= bytes.len() as u64, "{error}"),
        }
        prop_assert!(error.to_string().len() < 300, "{error}");
    }
    let dribble = Dribble { bytes, step };
    let again = Records::new(dribble, format).and_then(|mut records| {
        let mut all = Vec::new();
        while let Some(record) = records.read(&mut Labels::default())? {
            all.push(record);
        }
        Ok(all)
    });
    prop_assert_eq!(again, whole);
    Ok(())
}

proptest! {

    #[test]
    fn fuzz_damaged_traces_are_read_or_refused(
        index in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 0..6),
        recognise in any::<bool>(),
        step in 1_usize..50,
    ) {
        let samples = samples::all();
        let (format, bytes) = &samples[index.index(samples.len())];
        let bytes = mutated(bytes.clone(), &changes);
        check(&bytes, (!recognise).then_some(*format), step)?;
    }

    #[test]
    fn fuzz_columns_of_numbers_and_words_are_read_or_refused(
        format in prop::sample::select(Format::ALL.to_vec()),
        columns in prop::collection::vec("[-0-9.,QGIDCRWSNMFUX#=/+\\[\\] a-z]{0,25}", 0..12),
        separator in prop::sample::select(vec![" ", ",", "\n"]),
    ) {
        check(columns.join(separator).as_bytes(), Some(format), 7)?;
    }

    #[test]
    fn what_the_simulation_writes_is_read_back(
        events in prop::collection::vec(
            (0_u64..1 << 40, 0_usize..3, (0_usize..3, any::<bool>()), 0_u64..1 << 40, 1_u64..1 << 20, 0_u32..50),
            1..60,
        ),
    ) {
        let mut events = events;
        events.sort_by_key(|event| event.0);
        let mut text = String::new();
        let mut written = Vec::new();
        for (nanos, stage, op, start, length, process) in events {
            let (op, sync) = op;
            let op = [Op::Read, Op::Write, Op::Discard][op];
            let sync = sync || op == Op::Read;
            let block_event = BlockEvent {
                time: Time::from_nanos(nanos),
                action: [Action::Queued, Action::Issued, Action::Completed][stage],
                op: Some(op),
                flush: false,
                sync,
                start: Sector::new(start),
                length: Sectors::new(length),
                process: ProcessId(process),
                owner: "a name",
                cpu: (process % 2 == 1).then_some(3),
            };
            write_line(&mut text, Time::ZERO, &block_event).unwrap();
            let stage = [Stage::Submitted, Stage::Issued, Stage::Completed][stage];
            if op != Op::Discard {
                written.push((nanos, stage, (op, sync), start, length, process));
            }
        }
        let (records, _) = read(text.as_bytes(), None).unwrap();
        let zero = Time::ZERO + Nanos::from_secs(1000);
        let read: Vec<_> = records
            .iter()
            .map(|record| {
                let nanos = (record.time - zero).as_nanos();
                let place = (record.start.as_u64(), record.length.as_u64());
                (nanos, record.stage, (record.op, record.sync), place.0, place.1, record.process.0)
            })
            .collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn the_files_of_a_recording_become_one_in_order(
        times in prop::collection::vec((0_u64..1_000_000, 0_usize..4), 1..200),
    ) {
        let mut times = times;
        times.sort_unstable();
        let mut files = vec![Vec::new(); 4];
        for (sequence, (time, cpu)) in (1..).zip(&times) {
            let record = samples::Binary {
                sequence,
                time: *time,
                sector: u64::from(sequence),
                bytes: 512,
                action: samples::STAGES[0] | samples::READ,
                pid: 1,
                cpu: 0,
                payload: Vec::new(),
            };
            record.write(&mut files[*cpu]);
        }
        let files = files.iter().filter(|file| !file.is_empty());
        let readers = files.map(|file| Records::new(&file[..], None).unwrap()).collect();
        let mut merge = Merge::new(readers);
        let mut merged = Vec::new();
        for record in &mut merge {
            let record = record.unwrap();
            merged.push(record.time.as_nanos());
        }
        let expected: Vec<_> = times.iter().map(|(time, _)| *time).collect();
        prop_assert_eq!(merged, expected);
        prop_assert_eq!(merge.late(), 0);
    }
}

/// Lines of an iolog with these times, in microseconds.
fn iolog(times: impl Iterator<Item = u64>) -> String {
    let mut text = "fio version 3 iolog\n".to_owned();
    for time in times {
        writeln!(text, "{time} f read 0 512").unwrap();
    }
    text
}

#[test]
fn late_lines_find_their_place_within_the_window_and_are_counted_beyond_it() {
    let in_order = |text: &str| {
        let mut merge = Merge::new(vec![Records::new(text.as_bytes(), None).unwrap()]);
        let mut times = Vec::new();
        for record in &mut merge {
            times.push(record.unwrap().time);
        }
        assert!(times.is_sorted());
        (times.len(), merge.late())
    };
    let count = 3 * WINDOW as u64;
    // Pieces of 100 lines, each backwards.
    let pieces = (0..count).map(|index| index / 100 * 100 + (99 - index % 100));
    assert_eq!(in_order(&iolog(pieces)), (3 * WINDOW, 0));
    let one_too_late = (10..count).chain([5]);
    assert_eq!(in_order(&iolog(one_too_late)), (3 * WINDOW - 9, 1));
}

/// What a kernel wrote (the `blk` tracer of Linux 6.18 in its binary form, a loop device), as we read
/// it and as `blkparse` does.
#[test]
fn a_real_binary_recording_is_read_as_blkparse_reads_it() {
    let unpacked = |packed: &[u8]| {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed)
            .read_to_end(&mut bytes)
            .unwrap();
        bytes
    };
    let binary = unpacked(include_bytes!("golden/blktrace-6.18-loop.bin.gz"));
    let text = unpacked(include_bytes!("golden/blktrace-6.18-loop.blkparse.txt.gz"));
    let records = |bytes: &[u8]| {
        assert!(!bytes.is_empty());
        let (records, _) = read(bytes, None).unwrap();
        let zero = records[0].time;
        let tell = |record: &Record| {
            (
                record.time - zero,
                record.stage,
                (record.op, record.sync),
                (record.start, record.length),
                record.process,
            )
        };
        records.iter().map(tell).collect::<Vec<_>>()
    };
    assert_eq!(
        Records::new(&binary[..], None).unwrap().format(),
        Format::Blktrace
    );
    let read = records(&binary);
    assert_eq!(read, records(&text));
    let count = |wanted| {
        read.iter()
            .filter(|(_, stage, ..)| *stage == wanted)
            .count()
    };
    let stages = [Stage::Submitted, Stage::Issued, Stage::Completed];
    assert_eq!(stages.map(count), [98, 97, 93], "flushes have no sectors");
}
