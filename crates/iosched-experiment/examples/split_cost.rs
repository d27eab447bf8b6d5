//! What recording the split of await costs a load: while fio reads from a disk without a pause, the
//! recorder is on and off by turns, and the requests that the disk completes are counted.
//!
//! `cargo run --release --example split_cost -- DEVICE [PAIRS]` prints, with and without, the ratio of
//! completed requests and of the machine's CPU time per request: the geometric mean of the pairs with its
//! standard error. Neighbours in time are compared, so that what else the machine does cancels.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use iosched_experiment::measure::Counters;
use iosched_experiment::split::SplitWatch;
use iosched_machine::host::Host;

const TURN: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(100);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().unwrap();
    let name = device.trim_start_matches("/dev/").to_owned();
    let pairs: u32 = arguments
        .next()
        .map_or(60, |number| number.parse().unwrap());
    let mut fio = Command::new("fio")
        .args([
            "--name=x",
            "--rw=randread",
            "--bs=4k",
            "--iodepth=32",
            "--direct=1",
        ])
        .args([
            "--ioengine=libaio",
            "--readonly",
            "--norandommap",
            "--time_based",
        ])
        .args(["--runtime=1d", &format!("--filename=/dev/{name}")])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let disks = [name];
    let mut watch = SplitWatch::new(&Host::live(), &disks).unwrap();
    turn(&disks, Some(&mut watch)); // finds how many requests it follows
    let mut logs: [Vec<f64>; 2] = Default::default();
    let mut rate = 0.0;
    for pair in 0..pairs {
        let (with, without);
        if pair % 2 == 0 {
            with = turn(&disks, Some(&mut watch));
            without = turn(&disks, None);
        } else {
            without = turn(&disks, None);
            with = turn(&disks, Some(&mut watch));
        }
        for (logs, (with, without)) in logs.iter_mut().zip(with.into_iter().zip(without)) {
            logs.push((with / without).ln());
        }
        rate += without[0] / f64::from(pairs);
    }
    // Its workers end with it only if it is asked to.
    let pid = rustix::process::Pid::from_child(&fio);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    fio.wait().unwrap();
    println!("{rate:.0} requests/s without");
    for (what, logs) in ["requests/s", "CPU/request"].iter().zip(logs) {
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        println!("{what:12} with / without: {:.4} ± {error:.4}", mean.exp());
    }
}

/// Requests per second and CPU time per request, over a turn.
fn turn(disks: &[String], mut watch: Option<&mut SplitWatch>) -> [f64; 2] {
    let host = Host::live();
    if let Some(watch) = &mut watch {
        watch.begin(0).unwrap();
    }
    let before = Counters::read(&host, disks).unwrap();
    let started = Instant::now();
    while started.elapsed() < TURN {
        std::thread::sleep(TICK);
        if let Some(watch) = &mut watch {
            watch.drain().unwrap();
        }
    }
    let elapsed = started.elapsed();
    let counted = Counters::read(&host, disks).unwrap();
    let counted = counted.since(&before, u64::try_from(elapsed.as_nanos()).unwrap());
    if let Some(watch) = watch {
        let split = watch.end().unwrap();
        assert!(split.read.is_some(), "{split:?}");
    }
    let requests = (counted.reads + counted.writes) as f64;
    [
        requests / elapsed.as_secs_f64(),
        counted.cpu_busy_ns as f64 / requests,
    ]
}
