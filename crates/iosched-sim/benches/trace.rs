//! How fast traces are read: bytes and records per second of each format, from memory.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark may panic, and criterion's macro makes a function without a comment"
)]

#[path = "../tests/samples/mod.rs"]
mod samples;

use std::fmt::Write;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use iosched_sim::trace::{Format, Merge, Records};

/// Accesses of each trace.
const ACCESSES: u64 = 100_000;

/// A trace of this format: random 4 KiB accesses, ten microseconds apart.
fn trace(format: Format) -> Vec<u8> {
    let mut text = match format {
        Format::FioIologV2 => "fio version 2 iolog\n".to_owned(),
        Format::FioIologV3 => "fio version 3 iolog\n".to_owned(),
        _ => String::new(),
    };
    let mut bytes = Vec::new();
    for index in 0..ACCESSES {
        let (micros, sector) = (index * 10, index * 7919 % 1_000_000 * 8);
        let (seconds, rest, offset) = (micros / 1_000_000, micros % 1_000_000, sector * 512);
        let pid = 1000 + index % 4;
        match format {
            Format::Events => writeln!(text, "{micros}.123 Q RS {sector} 8 {pid} fio fio"),
            Format::Blkparse => writeln!(
                text,
                "  8,0    0 {index:8} {seconds:5}.{rest:06}000 {pid:5}  Q  RS {sector} + 8 [fio]"
            ),
            Format::Blktrace => {
                binary(index, micros * 1000, sector).write(&mut bytes);
                Ok(())
            }
            Format::FioIologV2 => writeln!(text, "/dev/sda read {offset} 4096"),
            Format::FioIologV3 => writeln!(text, "{micros} /dev/sda read {offset} 4096"),
            Format::Msr => {
                let time = 128_166_372_000_000_000 + micros * 10;
                writeln!(text, "{time},hm,1,Read,{offset},4096,413")
            }
        }
        .unwrap();
    }
    if bytes.is_empty() {
        text.into_bytes()
    } else {
        bytes
    }
}

fn binary(index: u64, time: u64, sector: u64) -> samples::Binary {
    samples::Binary {
        sequence: u32::try_from(index).unwrap(),
        time,
        sector,
        bytes: 4096,
        action: samples::STAGES[0] | samples::READ | samples::SYNC,
        pid: 1000 + u32::try_from(index % 4).unwrap(),
        cpu: 0,
        payload: Vec::new(),
    }
}

/// Reads all of it in order; how many records there were.
fn read(bytes: &[u8]) -> usize {
    let records = Records::new(bytes, None).unwrap();
    Merge::new(vec![records]).map(Result::unwrap).count()
}

fn readers(criterion: &mut Criterion) {
    for format in Format::ALL {
        let bytes = trace(format);
        assert_eq!(read(&bytes) as u64, ACCESSES, "{}", format.name());
        let mut group = criterion.benchmark_group(format.name());
        group.sample_size(20);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function("bytes", |bencher| bencher.iter(|| read(&bytes)));
        group.finish();
    }
}

criterion_group!(benches, readers);
criterion_main!(benches);
