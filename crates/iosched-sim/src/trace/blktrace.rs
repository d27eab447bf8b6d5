//! What `blktrace` writes: binary records of versions 7 (all kernels) and 8 (Linux 6.19 and later).
//!
//! A record is a header and a payload: magic and version, sequence, time in nanoseconds, sector, bytes, action, pid,
//! device, cpu, error, length of the payload. Version and byte order are told by each record's magic. A recording has one
//! file per CPU; they are merged by time outside of this reader.

use super::error::{Cause, ReadError, TracePosition};
use super::record::{DeviceId, Record, Sink, Skip, Stage};
use super::text::extent;
use crate::request::{Op, ProcessId};
use crate::units::{SECTOR_BYTES, Time};

/// The upper 24 bits of the first word; the lower 8 are the version.
const MAGIC: u32 = 0x6561_7400;
/// What happened, in the action's lowest byte.
const KIND: u64 = 0xff;
/// The payload begins with the number of a cgroup.
const WITH_CGROUP: u64 = 0x100;
/// Categories of both versions.
const WRITE: u64 = 1 << 17;
const FLUSH: u64 = 1 << 18;
const SYNC: u64 = 1 << 19;
const PASSTHROUGH: u64 = 1 << 25;
const NOTIFY: u64 = 1 << 26;
const DISCARD: u64 = 1 << 29;
const FUA: u64 = 1 << 31;
/// Categories of version 8: zones are reset, finished, opened and closed; sectors are zeroed. Zone append has data.
const ZONE_APPEND: u64 = 1 << 32;
const ZONE: u64 = 0b1_1111 << 33;
const ZEROES: u64 = 1 << 38;

/// True if bytes begin like a recording, of either byte order.
pub(crate) fn begins_like(head: &[u8]) -> bool {
    let Some(word) = head.first_chunk::<4>() else {
        return false;
    };
    let upper = |word: u32| word & 0xffff_ff00 == MAGIC;
    upper(u32::from_le_bytes(*word)) || upper(u32::from_be_bytes(*word))
}

/// Reads one record after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Blktrace {
    /// The device of the last access.
    device: Option<(u32, DeviceId)>,
}

/// Where the fields of a record are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    is_wide: bool,
    is_big_endian: bool,
}

impl Layout {
    /// By the first word of a record.
    fn of(word: [u8; 4]) -> Result<Layout, Cause> {
        let is_big_endian = u32::from_be_bytes(word) & 0xffff_ff00 == MAGIC;
        let read = if is_big_endian {
            u32::from_be_bytes(word)
        } else {
            u32::from_le_bytes(word)
        };
        if read & 0xffff_ff00 != MAGIC {
            return Err(Cause::new(format!(
                "a record begins with {read:#010x} where 0x65617407 or 0x65617408 is expected"
            )));
        }
        let is_wide = match read & 0xff {
            7 => false,
            8 => true,
            found => return Err(Cause::version("blktrace", found.into(), "7 or 8")),
        };
        Ok(Layout {
            is_wide,
            is_big_endian,
        })
    }

    /// Bytes of a record without its payload.
    fn header(self) -> usize {
        if self.is_wide { 64 } else { 48 }
    }
}

/// A record's header.
struct Header<'block> {
    bytes: &'block [u8],
    layout: Layout,
}

impl Header<'_> {
    fn number(&self, at: usize, bytes: usize) -> u64 {
        let field = self.bytes[at..at + bytes].iter();
        let shifted = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        if self.layout.is_big_endian {
            field.fold(0, shifted)
        } else {
            field.rev().fold(0, shifted)
        }
    }

    fn u32(&self, at: usize) -> u32 {
        u32::try_from(self.number(at, 4)).expect("four bytes")
    }

    /// The field of the first version at `narrow`, or of the second at `wide`.
    fn either(&self, narrow: usize, wide: usize) -> usize {
        if self.layout.is_wide { wide } else { narrow }
    }

    fn action(&self) -> u64 {
        if self.layout.is_wide {
            self.number(32, 8)
        } else {
            self.number(28, 4)
        }
    }

    fn process(&self) -> ProcessId {
        ProcessId(self.u32(self.either(32, 28)))
    }

    fn device(&self) -> u32 {
        self.u32(self.either(36, 40))
    }

    fn payload(&self) -> usize {
        usize::try_from(self.number(self.either(46, 50), 2)).expect("two bytes")
    }
}

impl Blktrace {
    /// Reads the whole records of a block, which begins `offset` bytes into the recording. Returns how
    /// many bytes were used.
    pub(crate) fn parse(
        &mut self,
        block: &[u8],
        is_last: bool,
        offset: u64,
        sink: &mut Sink,
    ) -> Result<usize, ReadError> {
        let mut used = 0;
        while let Some(word) = block[used..].first_chunk::<4>() {
            let at = |cause| ReadError {
                place: TracePosition::Byte(offset + used as u64),
                cause,
            };
            let layout = Layout::of(*word).map_err(at)?;
            let begin = used + layout.header();
            let Some(bytes) = block.get(used..begin) else {
                break;
            };
            let header = Header { bytes, layout };
            let end = begin + header.payload();
            let Some(payload) = block.get(begin..end) else {
                break;
            };
            self.record(&header, payload, sink).map_err(at)?;
            used = end;
        }
        if is_last && used < block.len() {
            sink.skip(Skip::CutOff); // the disk was full, or blktrace was killed
            used = block.len();
        }
        Ok(used)
    }

    fn record(&mut self, header: &Header, payload: &[u8], sink: &mut Sink) -> Result<(), Cause> {
        let (action, process) = (header.action(), header.process());
        if action & NOTIFY != 0 {
            notice(action, process, payload, sink);
            return Ok(());
        }
        let stage = match action & KIND {
            1 => Stage::Submitted,
            7 => Stage::Issued,
            8 => Stage::Completed,
            _ => {
                sink.skip(Skip::OtherEvent);
                return Ok(());
            }
        };
        let bytes = u64::from(header.u32(24));
        let skip = match action {
            action if action & (DISCARD | ZEROES) != 0 => Some(Skip::Discard),
            action if action & ZONE != 0 => Some(Skip::Zone),
            action if bytes == 0 && action & FLUSH != 0 => Some(Skip::Flush),
            _ if bytes == 0 => Some(Skip::NoData),
            action if action & PASSTHROUGH != 0 => Some(Skip::Passthrough),
            _ => None,
        };
        if let Some(skip) = skip {
            sink.skip(skip);
            return Ok(());
        }
        let op = match action & (WRITE | ZONE_APPEND) {
            0 => Op::Read,
            _ => Op::Write,
        };
        if op == Op::Write && !header.layout.is_wide {
            sink.labels.see_write(action & FUA != 0);
        }
        let (start, length) = extent(header.number(16, 8), bytes.div_ceil(SECTOR_BYTES))?;
        let device = self.device(header.device(), sink)?;
        sink.push(Record {
            time: Time::from_nanos(header.number(8, 8)),
            stage,
            op,
            sync: op == Op::Read || action & (SYNC | FLUSH | FUA) != 0,
            start,
            length,
            process,
            device,
            response: None,
        });
        Ok(())
    }

    fn device(&mut self, number: u32, sink: &mut Sink) -> Result<DeviceId, Cause> {
        if let Some((last, id)) = self.device
            && last == number
        {
            return Ok(id);
        }
        let name = format!("{},{}", number >> 20, number & 0xf_ffff);
        let id = sink.device(name.as_bytes())?;
        self.device = Some((number, id));
        Ok(id)
    }
}

/// The name of a process, the time of day, or a message.
fn notice(action: u64, process: ProcessId, payload: &[u8], sink: &mut Sink) {
    sink.skip(Skip::Message);
    let payload = match action & WITH_CGROUP {
        0 => payload,
        _ => payload.get(8..).unwrap_or_default(),
    };
    if action & KIND == 0 {
        let end = payload.iter().position(|&byte| byte == 0);
        let name = &payload[..end.unwrap_or(payload.len())];
        sink.labels.name_process(process, name);
    }
}
