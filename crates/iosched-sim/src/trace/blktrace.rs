//! What `blktrace` writes: binary records of version 7, little-endian.
//!
//! Each record is 48 bytes and a payload: magic and version, sequence, time in nanoseconds, sector, bytes,
//! action, pid, device, cpu, error, length of the payload. A recording has one file per CPU; they are merged
//! by time outside of this reader. Recordings of machines with the other byte order are refused by name.

use super::error::{Cause, ReadError, TracePosition};
use super::record::{DeviceId, Record, Sink, Skip, Stage};
use super::text::extent;
use crate::request::{Op, ProcessId};
use crate::units::{SECTOR_BYTES, Time};

/// Bytes of a record without its payload.
const HEADER: usize = 48;
/// The upper 24 bits of the first word.
const MAGIC: u32 = 0x6561_7400;
/// The lower 8 bits.
const VERSION: u32 = 7;
/// What happened, in the action's lower half.
const KIND: u32 = 0xff;
/// Bits of its upper half.
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const SYNC: u32 = 1 << 19;
const PASSTHROUGH: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;
/// The payload begins with the number of a cgroup.
const WITH_CGROUP: u32 = 0x100;

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

/// A record's header.
struct Header<'block>(&'block [u8; HEADER]);

impl Header<'_> {
    fn u32(&self, at: usize) -> u32 {
        let bytes = self.0[at..at + 4].try_into().expect("four bytes");
        u32::from_le_bytes(bytes)
    }

    fn action(&self) -> u32 {
        self.u32(28)
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) | u64::from(self.u32(at + 4)) << 32
    }

    fn payload(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[46], self.0[47]]))
    }

    /// It is a record of a version that is read.
    fn check(&self) -> Result<(), Cause> {
        let word = self.u32(0);
        if word & 0xffff_ff00 != MAGIC {
            let is_swapped = word.swap_bytes() & 0xffff_ff00 == MAGIC;
            return Err(if is_swapped {
                Cause::new("a blktrace recording of a big-endian machine, which is not read")
                    .with_hint("turn it into text with `blkparse -i FILE > FILE.txt` where it was recorded")
            } else {
                Cause::new(format!(
                    "a record begins with {word:#010x} where 0x65617407 is expected"
                ))
            });
        }
        match word & 0xff {
            VERSION => Ok(()),
            found => Err(Cause::version("blktrace", found.into(), "7")),
        }
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
        while let Some(bytes) = block[used..].first_chunk::<HEADER>() {
            let header = Header(bytes);
            let at = |cause| ReadError {
                place: TracePosition::Byte(offset + used as u64),
                cause,
            };
            header.check().map_err(at)?;
            let end = used + HEADER + header.payload();
            let Some(payload) = block.get(used + HEADER..end) else {
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
        let (action, process) = (header.action(), ProcessId(header.u32(32)));
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
        if action & PASSTHROUGH != 0 || bytes == 0 {
            sink.skip(if bytes == 0 {
                Skip::NoData
            } else {
                Skip::Passthrough
            });
            return Ok(());
        }
        let op = match action {
            action if action & DISCARD != 0 => Op::Discard,
            action if action & WRITE != 0 => Op::Write,
            _ => Op::Read,
        };
        let (start, length) = extent(header.u64(16), bytes.div_ceil(SECTOR_BYTES))?;
        let device = self.device(header.u32(36), sink)?;
        sink.records.push(Record {
            time: Time::from_nanos(header.u64(8)),
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
fn notice(action: u32, process: ProcessId, payload: &[u8], sink: &mut Sink) {
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
