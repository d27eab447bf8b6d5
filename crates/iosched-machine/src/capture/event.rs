//! From a record of the ring buffer to what happened in the block layer, as the readers of
//! recordings give it ([`Line`]).

use iosched_facts::event::{
    Action, IoPriority, KyberEvent, Line, PriorityClass, ProcessId, Remark, Rwbs, TraceEvent,
};
use iosched_facts::units::{Sector, Sectors, Time};

use super::format::{EventFormat, Field};
use super::page::Raw;

/// The events of the block layer, by their kernel names; the first ones are in every kernel.
pub(super) const BLOCK_EVENTS: [(&str, Action); 8] = [
    ("block_rq_insert", Action::Inserted),
    ("block_rq_issue", Action::Issued),
    ("block_rq_complete", Action::Completed),
    ("block_bio_queue", Action::Queued),
    ("block_bio_backmerge", Action::BackMerged),
    ("block_bio_frontmerge", Action::FrontMerged),
    ("block_getrq", Action::Allocated),
    ("block_rq_merge", Action::RequestsMerged), // from 5.9
];

/// How many of [`BLOCK_EVENTS`] must be there.
pub(super) const INDISPENSABLE: usize = 3;

/// What kyber says when its timer goes off.
pub(super) const KYBER_EVENTS: [&str; 2] = ["kyber_latency", "kyber_adjust"];

/// The event of a process that ends.
pub(super) const EXIT_EVENT: &str = "sched_process_exit";

/// The event of a page of a file that becomes dirty: from 5.18, and before.
pub(super) const DIRTY_EVENTS: [&str; 2] = ["writeback_dirty_folio", "writeback_dirty_page"];

/// Reads the records of one tracing instance.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decoder {
    kinds: Vec<EventLayout>,
    is_nameless: bool,
}

/// A kind of event: its number, and where its fields are.
#[derive(Debug, Clone)]
struct EventLayout {
    id: u16,
    pid: Field,
    fields: Fields,
}

#[derive(Debug, Clone)]
enum Fields {
    Block {
        action: Action,
        sector: Field,
        length: Field,
        rwbs: Field,
        comm: Option<Field>,
        priority: Option<Field>,
    },
    Depth {
        domain: Field,
        depth: Field,
    },
    Latency {
        domain: Field,
        kind: Field,
        numerator: Field,
    },
    Exit,
    Dirtied,
}

impl Decoder {
    /// One that leaves out what processes are called: most of the work of a fast disk's events.
    pub(crate) fn nameless() -> Decoder {
        Decoder {
            is_nameless: true,
            ..Decoder::default()
        }
    }

    /// Learns a kind of event from its `format` file; one that is not known here is passed over.
    pub(crate) fn learn(&mut self, name: &str, format: &str) -> Result<(), String> {
        let format = EventFormat::parse(format)?;
        let block = BLOCK_EVENTS.iter().find(|(known, _)| *known == name);
        let fields = match (block, name) {
            (Some(&(_, action)), _) => Fields::Block {
                action,
                sector: format.field("sector")?,
                length: format.field("nr_sector")?,
                rwbs: format.field("rwbs")?,
                comm: format.optional("comm").filter(|_| !self.is_nameless),
                priority: format.optional("ioprio"), // of requests, from 6.2
            },
            (None, "kyber_adjust") => Fields::Depth {
                domain: format.field("domain")?,
                depth: format.field("depth")?,
            },
            (None, "kyber_latency") => Fields::Latency {
                domain: format.field("domain")?,
                kind: format.field("type")?,
                numerator: format.field("numerator")?,
            },
            (None, EXIT_EVENT) => Fields::Exit,
            (None, name) if DIRTY_EVENTS.contains(&name) => Fields::Dirtied,
            _ => return Ok(()),
        };
        let pid = format.field("common_pid")?;
        let id = format.id;
        self.kinds.push(EventLayout { id, pid, fields });
        Ok(())
    }

    /// What the record tells; nothing if it is of an event that was not learnt, or too short.
    pub(crate) fn decode(&self, raw: &Raw<'_>, cpu: u16) -> Option<Line> {
        let id = u16::from_le_bytes(*raw.data.first_chunk()?);
        let kind = self.kinds.iter().find(|kind| kind.id == id)?;
        let (data, time) = (raw.data, Time::from_nanos(raw.time_ns));
        let name = |field: &Field| Some(String::from_utf8_lossy(field.text(data)?).into_owned());
        match &kind.fields {
            Fields::Block {
                action,
                sector,
                length,
                rwbs,
                comm,
                priority,
            } => {
                let letters = rwbs.text(data)?;
                let what = Rwbs::parse(letters)?;
                let process = kind.pid.number(data)?;
                let start = sector.number(data)?;
                let priority = priority.as_ref().and_then(|field| field.number(data));
                Some(Line::Event(TraceEvent {
                    time,
                    action: *action,
                    op: what.op,
                    sync: what.sync,
                    sync_flag: what.sync_flag,
                    meta: letters.get(1..)?.contains(&b'M'),
                    // A command without data has no place: the kernel says -1.
                    start: Sector::new(if start > u64::MAX >> 10 { 0 } else { start }),
                    length: Sectors::new(length.number(data)?),
                    process: ProcessId(u32::try_from(process & 0xffff_ffff).ok()?),
                    comm: comm.as_ref().and_then(name).unwrap_or_default(),
                    priority: priority.map(io_priority),
                    cpu: Some(cpu),
                }))
            }
            Fields::Depth { domain, depth } => {
                let depth = u32::try_from(depth.number(data)?).ok()?;
                let domain = name(domain)?;
                Some(said(time, KyberEvent::Depth { domain, depth }))
            }
            Fields::Latency {
                domain,
                kind,
                numerator,
            } => {
                let numerator = usize::try_from(numerator.number(data)?).ok()?;
                let bucket = numerator.checked_sub(1).filter(|&bucket| bucket < 8);
                let statement = |bucket| {
                    Some(KyberEvent::Percentile {
                        domain: name(domain)?,
                        total: kind.text(data)? == b"total",
                        bucket,
                    })
                };
                bucket
                    .and_then(statement)
                    .map(|statement| said(time, statement))
            }
            Fields::Exit | Fields::Dirtied => {
                let process = u32::try_from(kind.pid.number(data)? & 0xffff_ffff).ok()?;
                let process = ProcessId(process);
                Some(Line::Remark(match kind.fields {
                    Fields::Exit => Remark::Exit { process, time },
                    _ => Remark::Dirtied { process, time },
                }))
            }
        }
    }
}

fn said(time: Time, said: KyberEvent) -> Line {
    Line::Remark(Remark::Kyber { time, said })
}

/// The kernel's `ioprio`: the class above bit 13, the level in the lowest three. Class 0 stands for
/// what the nice value gives, which is best-effort 4 for nice 0.
fn io_priority(value: u64) -> IoPriority {
    let level = u8::try_from(value & 7).expect("three bits");
    match (value >> 13) & 7 {
        1 => IoPriority {
            class: PriorityClass::RealTime,
            level,
        },
        2 => IoPriority {
            class: PriorityClass::BestEffort,
            level,
        },
        3 => IoPriority {
            class: PriorityClass::Idle,
            level: 7,
        },
        _ => IoPriority::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{HeaderFormat, PageFormat};
    use super::super::page::Page;
    use super::*;
    use iosched_facts::event::Op;

    /// Recorded by hand on Linux 6.18: the kernel's own text of the same events is beside it.
    macro_rules! golden {
        ($name:literal) => {
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/capture/", $name)
        };
    }

    fn decoder() -> Decoder {
        let mut decoder = Decoder::default();
        for format in include_str!(golden!("formats.txt")).split("name: ").skip(1) {
            let name = format.lines().next().unwrap();
            decoder.learn(name, &format!("name: {format}")).unwrap();
        }
        decoder
    }

    fn events(pages: &[u8], cpu: u16) -> Vec<TraceEvent> {
        let format = PageFormat::parse(include_str!(golden!("header_page"))).unwrap();
        let header = HeaderFormat::parse(include_str!(golden!("header_event"))).unwrap();
        let decoder = decoder();
        let mut found = Vec::new();
        for page in pages.chunks(format.size()) {
            let mut page = Page::new(page, &format, header).unwrap();
            assert_eq!(page.lost(), 0);
            while let Some(raw) = page.next_record().unwrap() {
                let Some(Line::Event(event)) = decoder.decode(&raw, cpu) else {
                    panic!("{raw:?}")
                };
                found.push(event);
            }
        }
        found
    }

    /// `seconds.micros cpu pid name: device letters [bytes ()] sector + length [priority] [comm]`
    fn described(event: &TraceEvent) -> (String, Action, u64, u64) {
        let (nanos, cpu) = (event.time.as_nanos(), event.cpu.unwrap());
        let micros = (nanos + 500) / 1000; // the kernel rounds
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        let head = format!("{seconds}.{micros:06} {cpu:03} {}", event.process.0);
        (
            head,
            event.action,
            event.start.as_u64(),
            event.length.as_u64(),
        )
    }

    #[test]
    fn pages_say_what_the_kernel_says_in_words() {
        let mut found = events(include_bytes!(golden!("cpu0.pages")), 0);
        found.extend(events(include_bytes!(golden!("cpu1.pages")), 1));
        found.sort_by_key(|event| event.time);
        let text = include_str!(golden!("trace.txt"));
        assert_eq!(found.len(), text.lines().count());
        for (line, event) in text.lines().zip(&found) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let (name, letters) = (words[3].trim_end_matches(':'), words[5]);
            let action = BLOCK_EVENTS
                .iter()
                .find(|(known, _)| *known == name)
                .unwrap()
                .1;
            let plus = words.iter().position(|&word| word == "+").unwrap();
            let number = |at: usize| words[at].parse().ok().filter(|&place| place < u64::MAX);
            let expected = (
                words[..3].join(" "),
                action,
                number(plus - 1).unwrap_or(0),
                number(plus + 1).unwrap(),
            );
            assert_eq!(described(event), expected, "{line}");
            assert_eq!(
                event.sync,
                Rwbs::parse(letters.as_bytes()).unwrap().sync,
                "{line}"
            );
            let comm = line.rsplit_once('[').unwrap().1.trim_end_matches(']');
            let has_comm = action != Action::Completed;
            assert_eq!(event.comm, if has_comm { comm } else { "" }, "{line}");
            let class = event.priority.map(|priority| priority.class);
            let said = words.get(plus + 2).unwrap().split(',').next();
            let expected = match said {
                Some("rt") => Some(PriorityClass::RealTime),
                Some("idle") => Some(PriorityClass::Idle),
                Some("be" | "none") => Some(PriorityClass::BestEffort),
                _ => None,
            };
            assert_eq!(class, expected, "{line}");
        }
    }

    #[test]
    fn letters_of_7_1_are_understood() {
        let decoder = decoder();
        let mut data = [0_u8; 56];
        data[..2].copy_from_slice(&2097_u16.to_le_bytes()); // block_bio_queue, with ten letters
        data[24] = 8;
        let mut op_of = |letters: &[u8]| {
            data[28..38].fill(0);
            data[28..28 + letters.len()].copy_from_slice(letters);
            let line = decoder.decode(
                &Raw {
                    time_ns: 5,
                    data: &data,
                },
                0,
            );
            let Some(Line::Event(event)) = line else {
                panic!("{line:?}")
            };
            (event.op, event.sync)
        };
        assert_eq!(op_of(b"FWFSMU"), (Some(Op::Write), true));
        assert_eq!(op_of(b"WZS"), (Some(Op::Write), true), "it writes zeroes");
        assert_eq!(op_of(b"ZRA"), (None, false), "a command of zones");
    }

    #[test]
    fn what_kyber_says_is_heard() {
        let mut decoder = Decoder::default();
        let common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                      \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
                      \tfield:char domain[16];\toffset:12;\tsize:16;\tsigned:0;\n";
        let latency = "\tfield:char type[8];\toffset:28;\tsize:8;\tsigned:0;\n\
                       \tfield:u8 numerator;\toffset:37;\tsize:1;\tsigned:0;\n";
        let depth = "\tfield:unsigned int depth;\toffset:28;\tsize:4;\tsigned:0;\n";
        for (name, id, own) in [("kyber_latency", 9, latency), ("kyber_adjust", 10, depth)] {
            let format = format!("name: {name}\nID: {id}\nformat:\n{common}{own}");
            decoder.learn(name, &format).unwrap();
        }
        let mut data = [0_u8; 44];
        data[0] = 9;
        data[12..17].copy_from_slice(b"WRITE");
        data[28..33].copy_from_slice(b"total");
        data[37] = 3;
        let heard = |data: &[u8]| decoder.decode(&Raw { time_ns: 5, data }, 0);
        let domain = "WRITE".to_owned();
        let statement = KyberEvent::Percentile {
            domain: domain.clone(),
            total: true,
            bucket: 2,
        };
        assert_eq!(heard(&data), Some(said(Time::from_nanos(5), statement)));
        data[0] = 10;
        data[28..32].copy_from_slice(&72_u32.to_le_bytes());
        let statement = KyberEvent::Depth { domain, depth: 72 };
        assert_eq!(heard(&data), Some(said(Time::from_nanos(5), statement)));
        assert_eq!(heard(&data[..20]), None, "it is cut off");
        data[0] = 11;
        assert_eq!(heard(&data), None, "nobody asked for that");
    }
}
