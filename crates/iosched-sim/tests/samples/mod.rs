//! A short trace of each format, as its own tools write them: for tests and benchmarks.
#![allow(dead_code, reason = "each program uses a part of it")]

use iosched_sim::trace::Format;

const EVENTS: &str = "\
# Debian 6.1.176 blk-mq, scheduler=bfq device=hdd1 workload=b_seq_rand
# worker name=rr pid=333 op=r pat=rand bs=4096 depth=1 think_us=0 ioprio=1/3 buf=0
-12.5 G N - 0 20 kworker/0:1 -
0 Q RS 5374256 8 333 rr rr none/0
5 G RS 5374256 8 333 rr rr none/0
16 I RS 5374256 8 333 rr rr none/0
55 X - 5374256 8 37 kworker/0:1H rr -
56.25 D RS 5374256 8 37 kworker/0:1H rr -
1056 C RS 5374256 8 0 swapper rr -
";

const BLKPARSE: &str = "\
Input file f1.blktrace.0 added
  8,0    0        1     0.000000000    20  G   N [kworker/0:1]
  8,0    0        2     0.000000370    20  I   N 0 [kworker/0:1]
  8,0    0        3     0.000000664    20  D   N 0 [kworker/0:1]
  8,0    0        5     0.050277893   230  Q   R 5374256 + 8 [my reader]
  8,0    0        0     0.050281089     0  m   N cfq230S  alloced
  8,0    0        6     0.050281374   230  G   R 5374256 + 8 [my reader]
  8,0    0        8     0.050292006   230  D   R 5374256 + 8 [my reader]
  8,0    1        9     0.050304285   229  A  WS 2097152 + 128 <- (8,1) 2095104
  8,0    1       10     0.050304285   229  Q  WS 2097152 + 128 [sw]
  8,0    1       11     0.050304300   229  Q   W 99 + 1 [sw]
  8,0    1       12     0.050304310   229  Q FWS [sw]
  8,0    1       13     0.050304320   229  P   N [sw]
  8,0    1       14     0.050304330   229  U   N [sw] 1
  8,0    1       15     0.050304340   229  D   R 36 (12 00 00 00 24 00 ..) [smartd]
  8,0    0       17     0.051295600     0  C   R 5374256 + 8 [0]
CPU0 (8,0):
 Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB
 Read depth:             1        \t Write depth:             1
 IO unplugs:             1        \t Timer unplugs:           0

Total (8,0):
 Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB

Throughput (R/W): 3KiB/s / 0KiB/s
Events (8,0): 15 entries
Skips: 0 forward (0 -   0.0%)
Input file f1.blktrace.1 added
";

const FIO_V2: &str = "\
fio version 2 iolog
/dev/sda add
/dev/sda open
/dev/sda read 61440 4096
/dev/sda wait 1500 0
/dev/sda write 491520 4096
/dev/sda datasync 0 0
/dev/sda trim 1048576 65536
/dev/sda close
";

const FIO_V3: &str = "\
fio version 3 iolog
17 /tmp/f add
110 /tmp/f open
115 /tmp/f read 61440 4096
1548 /tmp/f read 774144 4096
4378 /tmp/f write 491520 4096
15581 /tmp/f close
";

const MSR: &str = "\
128166372003061629,hm,1,Read,383496192,32768,413
128166372016382155,hm,1,Write,2822144000,4096,1321
128166372016382156,hm,0,Read,1000,100,22
";

const SYSTOR: &str = "\
Timestamp,Response,IOType,LUN,Offset,Size
1455592511.030744000,0.004711000,Read,3,1000,4096
1455592511.030745000,,,3,0,0
1455592511.030845000,,W,0,4096,512
";

const FTRACE: &str = "\
# tracer: nop
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
CPU:0 [LOST 12 EVENTS]
             fio-230     [000] d..1.    32.415490: sched_switch: prev_comm=fio prev_pid=230
             fio-230     [000] .....    32.415492: block_bio_queue: 8,0 RS 5374256 + 8 [my fio]
             fio-230     [000] .....    32.415500: block_rq_insert: 8,0 RS 4096 () 5374256 + 8 none,0,0 [fio]
    kworker/0:1H-37      [000] ...1.    32.415510: block_rq_issue: 8,0 RS 4096 () 5374256 + 8 none,0,0 [kworker/0:1H]
             fio-230     [001] .....    32.415600: block_bio_queue: 8,0 FWS 0 + 0 [fio]
             fio-230     [001] .....    32.415700: block_bio_queue: 8,0 D 8192 + 2097152 [fio]
          smartd-9       [001] .....    32.415800: block_rq_issue: 8,0 N 36 (12 00 00 00 24 00) 0 + 0 none,0,0 [smartd]
          <idle>-0       [001] d.h1.    32.415910: block_rq_complete: 8,0 RS () 5374256 + 8 none,0,0 [0]
";

const PERF: &str = "\
fio   230 [000]    32.415492:      block:block_bio_queue: 8,0 RS 5374256 + 8 [my fio]
        ffffffff8f5a1c2d submit_bio_noacct+0x12d ([kernel.kallsyms])

kworker/0:1H    37 [000]    32.415510:       block:block_rq_issue: 8,0 RS 4096 () 5374256 + 8 none,0,0 [kworker/0:1H]
swapper     0 [001]    32.415910:    block:block_rq_complete: 8,0 RS () 5374256 + 8 none,0,0 [0]
";

/// Every format with a text or binary of it.
pub(crate) fn all() -> Vec<(Format, Vec<u8>)> {
    let texts = [
        (Format::Events, EVENTS),
        (Format::Blkparse, BLKPARSE),
        (Format::FioIologV2, FIO_V2),
        (Format::FioIologV3, FIO_V3),
        (Format::Msr, MSR),
        (Format::Systor, SYSTOR),
        (Format::Ftrace, FTRACE),
        (Format::Ftrace, PERF),
    ];
    let mut all: Vec<(Format, Vec<u8>)> = texts
        .into_iter()
        .map(|(format, text)| (format, text.as_bytes().to_vec()))
        .collect();
    all.push((Format::Blktrace, blktrace()));
    all.push((Format::Blktrace, blktrace_of_today()));
    all
}

/// One record of `blktrace`.
pub(crate) struct Binary {
    /// Number within its CPU.
    pub(crate) sequence: u32,
    /// In nanoseconds.
    pub(crate) time: u64,
    /// First sector.
    pub(crate) sector: u64,
    /// How long.
    pub(crate) bytes: u32,
    /// Action and category.
    pub(crate) action: u64,
    /// Process.
    pub(crate) pid: u32,
    /// Which CPU.
    pub(crate) cpu: u32,
    /// What comes behind the header.
    pub(crate) payload: Vec<u8>,
}

impl Binary {
    /// As bytes, of device 8,0: version 7 of a little-endian machine.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let words = [
            u32::try_from(self.action).unwrap(),
            self.pid,
            8 << 20,
            self.cpu,
            u32::try_from(self.payload.len()).unwrap() << 16,
        ];
        self.write_parts(
            0x6561_7407,
            out,
            |out| {
                let bytes = words.into_iter().flat_map(u32::to_le_bytes);
                out.extend(bytes);
            },
            u32::to_le_bytes,
            u64::to_le_bytes,
        );
    }

    /// As bytes, of device 8,0: version 8 of a big-endian machine.
    pub(crate) fn write_wide(&self, out: &mut Vec<u8>) {
        self.write_parts(
            0x6561_7408,
            out,
            |out| {
                out.extend(self.pid.to_be_bytes());
                out.extend(self.action.to_be_bytes());
                for word in [
                    8 << 20,
                    self.cpu,
                    u32::try_from(self.payload.len()).unwrap(),
                    0,
                    0,
                    0,
                ] {
                    out.extend(word.to_be_bytes());
                }
            },
            u32::to_be_bytes,
            u64::to_be_bytes,
        );
    }

    fn write_parts(
        &self,
        magic: u32,
        out: &mut Vec<u8>,
        rest: impl Fn(&mut Vec<u8>),
        word: fn(u32) -> [u8; 4],
        long: fn(u64) -> [u8; 8],
    ) {
        out.extend(word(magic));
        out.extend(word(self.sequence));
        out.extend(long(self.time));
        out.extend(long(self.sector));
        out.extend(word(self.bytes));
        rest(out);
        out.extend_from_slice(&self.payload);
    }
}

/// Categories of blktrace.
pub(crate) const READ: u64 = 1 << 16;
/// See [`READ`].
pub(crate) const WRITE: u64 = 1 << 17;
/// See [`READ`].
pub(crate) const SYNC: u64 = 1 << 19;
const QUEUE: u64 = 1 << 20;
const ISSUE: u64 = 1 << 22;
const COMPLETE: u64 = 1 << 23;
const NOTIFY: u64 = 1 << 26;

/// Q, D and C with their categories.
pub(crate) const STAGES: [u64; 3] = [1 | QUEUE, 7 | ISSUE, 8 | COMPLETE];

/// A read and a synchronous write from submission to completion, the last record cut off.
pub(crate) fn blktrace() -> Vec<u8> {
    let mut out = Vec::new();
    for record in records() {
        record.write(&mut out);
    }
    out.extend_from_slice(&0x6561_7407_u32.to_le_bytes());
    out
}

/// The same in version 8, of a big-endian machine, with requests that have no data; the first record is of version 7.
pub(crate) fn blktrace_of_today() -> Vec<u8> {
    let mut out = Vec::new();
    let [first, others @ ..] = &records()[..] else {
        unreachable!("there are several")
    };
    first.write(&mut out);
    for record in others {
        record.write_wide(&mut out);
    }
    // Zone append, zone reset, write of zeroes, flush.
    for (category, bytes) in [
        (1 << 32, 4096),
        (1 << 33, 0),
        (WRITE | 1 << 38, 1 << 30),
        (1 << 18, 0),
    ] {
        let action = STAGES[0] | category;
        Binary {
            sequence: 9,
            time: 6_000,
            sector: 64,
            bytes,
            action,
            pid: 77,
            cpu: 0,
            payload: Vec::new(),
        }
        .write_wide(&mut out);
    }
    out.extend_from_slice(&0x6561_7408_u32.to_be_bytes());
    out
}

fn records() -> Vec<Binary> {
    let mut out = Vec::new();
    let mut comm = b"fio".to_vec();
    comm.resize(16, 0);
    let mut write = |time, sector, action, pid, payload: &[u8]| {
        out.push(Binary {
            sequence: 1 + u32::try_from(time / 1000).unwrap(),
            time,
            sector,
            bytes: if action & NOTIFY == 0 { 4096 } else { 0 },
            action,
            pid,
            cpu: 0,
            payload: payload.to_vec(),
        });
    };
    write(0, 0, NOTIFY, 77, &comm);
    write(1_000, 4096, STAGES[0] | READ | SYNC, 77, &[]);
    write(2_000, 4096, 4 | READ | SYNC, 77, &[]);
    write(3_000, 4096, STAGES[1] | READ | SYNC, 77, &[]);
    write(4_000, 8192, STAGES[0] | 0x100 | WRITE | SYNC, 77, &[1; 8]);
    write(5_000, 4096, STAGES[2] | READ | SYNC, 0, &[]);
    out
}
