//! The process that is the emulated disk.
//!
//! Started by [`EmulatedDisk::create`](super::EmulatedDisk::create) as `iosched emulate serve DIR`.
//! It gets its specification, which is locked for as long as it lives, as standard input, and says
//! one line on standard output: that it is ready, or why it is not. Then it serves until it is told
//! to end (SIGTERM, SIGINT), its owner ends, or the mount is taken away; and takes everything down
//! that it set up.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iosched_machine::capture;
use iosched_machine::failure::{Problem, exit};
use iosched_machine::host::Host;
use iosched_machine::process::ProcessFd;
use iosched_sim::disk::Model;
use iosched_sim::units::{Bytes, Nanos};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, setsid};
use serde::{Deserialize, Serialize};

use super::attribution::Attribution;
use super::backing::{self, Backing};
use super::below::{Below, NewFile};
use super::check::{self, DirectReader, Pair};
use super::connection;
use super::disk::Disk;
use super::disk_directory::{DiskDirectory, PreparedState, State, driver_takes, start_ticks};
use super::engine::Engine;
use super::error::{cannot, cannot_with, missing};
use super::filesystem;
use super::inside::{self, Inside};
use super::log::{log, monotonic};
use super::loop_device::{self, LoopDevice, Shape};
use super::over::Over;
use super::priority;
use super::requests::set_requests_above;
use super::spec::{Base, Spec};
use super::take_down::take_down;

/// A thread that does nothing but I/O needs no more; all its memory is locked.
const SMALL_STACK: usize = 256 << 10;

/// More than this is not the way to the model, but a machine that is busy with other things.
const LONGEST_PATH: Nanos = Nanos::from_micros(250);

/// What the server says to its maker, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FirstWord {
    /// The disk is there.
    Ready,
    /// It is not.
    Failed {
        message: String,
        hint: Option<String>,
        exit_code: u8,
    },
}

/// Serves the disk whose directory is `dir`; returns when it has ended. For `iosched emulate serve`
/// alone: it takes over the whole process, its standard streams and its signals.
pub fn serve(dir: &Path) -> u8 {
    let host = Host::live();
    let Some(place) = DiskDirectory::at(dir) else {
        log(format_args!("{} is no place for a disk", dir.display()));
        return exit::USAGE;
    };
    // Nothing that goes wrong in one thread may leave requests without an answer: the process ends,
    // and with it the FUSE connection, so that the kernel fails them.
    std::panic::set_hook(Box::new(|panic| {
        log(format_args!("{panic}"));
        std::process::abort();
    }));
    let outcome = set_up(&host, &place);
    let (code, disk) = match outcome {
        Ok((until, disk)) => {
            let why = match tell(&FirstWord::Ready) {
                Ok(()) => until.wait(),
                Err(_) => "whoever made it is gone",
            };
            log(format_args!("ending: {why}"));
            disk.end();
            (exit::OK, Some(disk))
        }
        Err(failure) => {
            log(format_args!("{failure}"));
            let code = failure.code;
            let _ = tell(&FirstWord::Failed {
                message: failure.message,
                hint: failure.hint,
                exit_code: code,
            });
            (code, None)
        }
    };
    let flush = || disk.map_or(Ok(()), |disk| disk.flush_below());
    let taken_down = connection::without(|| take_down(&host, &place, flush));
    match taken_down.unwrap_or_else(|error| Err(cannot("take it down")(error))) {
        Ok(left) => {
            for user in left {
                log(format_args!("left behind: {user}"));
            }
            code
        }
        Err(failure) => {
            log(format_args!("cannot take everything down: {failure}"));
            exit::FAILURE
        }
    }
}

/// Says the first word, then lets go of the terminal's end of the pipe.
fn tell(word: &FirstWord) -> io::Result<()> {
    let mut line = serde_json::to_vec(word).expect("our own types serialise");
    line.push(b'\n');
    let mut stdout = io::stdout();
    let told = stdout.write_all(&line).and_then(|()| stdout.flush());
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
    told
}

/// Makes the disk, from its model up to the queue of its loop device.
fn set_up(host: &Host, place: &DiskDirectory) -> Result<(Until, Arc<Disk>), Problem> {
    // Signals first: from here on we take down what we set up.
    let mut until = Until::new().map_err(cannot("listen to signals"))?;
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .map_err(cannot("read the specification"))?;
    let spec: Spec = serde_json::from_str(&text)
        .map_err(io::Error::from)
        .map_err(cannot("understand the specification"))?;
    if let Some(owner) = spec.owner_pid {
        let watched = until.watch_owner(owner);
        watched.map_err(|error| {
            Problem::usage(format!(
                "cannot watch process {owner}, which the disk is to end with: {error}"
            ))
            .hint("name a process that runs: `--owner-pid $$` is the shell itself")
        })?;
    }
    detach_from_terminal();
    protect_from_memory_pressure();

    let prepared = prepare(host, &spec)?;
    let mount_point = place.mount_point();
    let ended = until.session_end().map_err(cannot("make a pipe"))?;
    let max_request = filesystem::serve(
        prepared.disk.clone(),
        place.id(),
        spec.stands_over().is_some(),
        &spec.disk_file,
        &mount_point,
        ended,
    )
    .map_err(cannot(format!("mount FUSE on {}", mount_point.display())))?;
    let file = mount_point.join(&spec.disk_file);
    let above = connection::without(|| set_up_above(host, &spec, &prepared, &file, max_request))
        .map_err(cannot("set up its loop device"))??;
    let disk = prepared.disk;
    let name = loop_device::name(above.loop_number);
    if let Base::Model(model) = &spec.base {
        // Here, where the connection is: those who read meanwhile get their answers.
        disk.replace(engine(&spec, model, above.inside)?, above.path);
    }

    let server_pid = i32::try_from(std::process::id()).expect("process numbers are small");
    let state = State {
        version: State::VERSION,
        loop_number: above.loop_number,
        size_bytes: disk.size().as_u64(),
        queue_depth: prepared.queue_depth,
        driver_depth: above.driver_depth,
        most_requests: above.most_requests,
        max_request_bytes: max_request.as_u64(),
        rotational: above.rotational,
        backing_in_memory: backing::is_tmpfs(&prepared.backing_dir),
        backing_dir: prepared.backing_dir,
        backing_fd: prepared.backing_fd,
        path_ns: above.path.as_nanos(),
        server_pid,
        scheduler: spec.scheduler.clone(),
        server_started: start_ticks(server_pid).unwrap_or(0),
    };
    if spec.scheduler.is_some() {
        let attribution = Attribution::of(capture::device_number(host, &name));
        let state_with = state_with(place, &state);
        let set_above = set_above(host, &state);
        disk.may_switch(above.inside, attribution, state_with, set_above)
            .map_err(cannot("start a thread"))?;
    }
    let written = place.write_state(&state);
    written.map_err(cannot_with("write the state in", place.dir()))?;
    log(format_args!("ready: {} as {name}, {state:?}", spec.id()));
    prepared.made.keep();
    Ok((until, disk))
}

/// The loop device above the disk's file, as it was set.
struct Above {
    loop_number: u32,
    driver_depth: u32,
    most_requests: u32,
    rotational: bool,
    inside: Inside,
    path: Nanos,
}

/// Attaches a loop device, sets its queue, and measures the way to it.
fn set_up_above(
    host: &Host,
    spec: &Spec,
    prepared: &Prepared,
    file: &Path,
    max_request: Bytes,
) -> Result<Above, Problem> {
    let file = open_directly(file, prepared.shape.read_only)
        .map_err(cannot("open the disk's file for direct I/O"))?;
    let device =
        LoopDevice::attach(host, &file, prepared.shape).map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => missing(
                "emulated disks need Linux 5.8 or later (LOOP_CONFIGURE): this kernel has no such request",
                "measure a real disk instead: `iosched list` shows them, and `iosched tune DEVICE` reads one without \
                 writing to it",
            ),
            _ => cannot("attach a loop device")(error),
        })?;
    drop(file); // the loop device has it now
    let (name, loop_number) = (device.name(), device.number());
    let udev_waits = device
        .hold_off_udev()
        .map_err(cannot(format!("lock {name}")))?;
    let queue_depth = prepared.queue_depth;
    let wanted = match &spec.scheduler {
        Some(scheduler) => inside::driver_depth(scheduler, queue_depth),
        None => queue_depth,
    };
    let (driver_depth, most_requests) = set_driver_depth(host, &name, wanted)?;
    set_max_request(host, &name, max_request)?;
    let rotational = set_rotational(host, &name, spec);
    if !prepared.takes_discards {
        // The loop driver offers discards of every file.
        set(host, &name, "queue/discard_max_bytes", "0")?;
    }
    let (inside, path) = match &spec.base {
        Base::Model(_) => {
            let path = measure_path(host, &name, &prepared.disk, spec)?;
            let inside = Inside {
                queue_depth,
                rotational,
                max_request,
            };
            (inside, path)
        }
        Base::Over(over) => (inside_over(spec, over), Nanos::ZERO),
    };
    drop(udev_waits);
    Ok(Above {
        loop_number,
        driver_depth,
        most_requests,
        rotational,
        inside,
        path,
    })
}

/// The disk before it has a device.
struct Prepared {
    disk: Arc<Disk>,
    queue_depth: usize,
    shape: Shape,
    takes_discards: bool,
    backing_dir: PathBuf,
    backing_fd: i32,
    made: NewFile,
}

fn prepare(host: &Host, spec: &Spec) -> Result<Prepared, Problem> {
    match &spec.base {
        Base::Model(model) => prepare_model(host, spec, model),
        Base::Over(over) => prepare_over(host, spec, over),
    }
}

/// The bare model, which the way to it is measured with, and the data beside it.
fn prepare_model(host: &Host, spec: &Spec, model: &Model) -> Result<Prepared, Problem> {
    backing::check_memory(host, model)?;
    let model = spec.build(model)?;
    let size = model.capacity().to_bytes();
    let queue_depth = model.queue_depth();
    let backing_dir = spec
        .backing_dir
        .clone()
        .unwrap_or_else(|| backing::default_dir(host, size));
    let backing = Backing::create(&backing_dir, size).map_err(|error| {
        cannot_with("make a data file in", &backing_dir)(error).hint(
            "`--backing-dir` names another directory: on ext4, xfs, btrfs or tmpfs, with room for what will be written",
        )
    })?;
    let backing_fd = backing.raw_fd();
    let disk = Disk::new(model, backing).map_err(cannot("make a timer"))?;
    Ok(Prepared {
        disk: Arc::new(disk),
        queue_depth,
        shape: Shape::USUAL,
        takes_discards: true,
        backing_dir,
        backing_fd,
        made: NewFile::nothing(),
    })
}

/// The scheduler over what is below, and the threads that carry its commands out.
fn prepare_over(host: &Host, spec: &Spec, over: &Over) -> Result<Prepared, Problem> {
    let (below, made) = Below::open(host, over)?;
    let shape = Shape {
        block: u32::try_from(below.block()).expect("a loop device's block is small"),
        read_only: over.read_only,
    };
    let (takes_discards, backing_fd) = (below.can_discard(), below.raw_fd());
    let inside = inside_over(spec, over);
    let scheduler = spec.scheduler.as_deref().unwrap_or("none");
    let (scheduler, kernel) = inside.build(scheduler)?;
    let settings = inside.settings(kernel);
    let disk = Disk::over(Engine::outside(scheduler, &settings), below);
    let disk = Arc::new(disk.map_err(cannot("make a timer"))?);
    for _ in 0..over.depth {
        let disk = disk.clone();
        let threads = std::thread::Builder::new();
        let threads = threads.name("below".to_owned()).stack_size(SMALL_STACK);
        let started = threads.spawn(move || {
            priority::prefer_this_thread();
            disk.carry_out();
        });
        started.map_err(cannot("start a thread"))?;
    }
    Ok(Prepared {
        disk,
        queue_depth: over.depth,
        shape,
        takes_discards,
        backing_dir: over.path.clone(),
        backing_fd,
        made,
    })
}

/// What a scheduler over a real disk is told. One request of FUSE is never split.
fn inside_over(spec: &Spec, over: &Over) -> Inside {
    Inside {
        queue_depth: over.depth,
        rotational: spec.rotational.or(over.rotational).unwrap_or(false),
        max_request: filesystem::MAX_REQUEST,
    }
}

/// What serves: the model, or the scheduler that is wanted over it.
fn engine<T>(spec: &Spec, model: &Model, inside: Inside) -> Result<Engine<T>, Problem> {
    let model = spec.build(model)?;
    let Some(scheduler) = &spec.scheduler else {
        return Ok(Engine::new(model));
    };
    let (scheduler, kernel) = inside.build(scheduler)?;
    let settings = inside.settings(kernel);
    Ok(Engine::scheduled(scheduler, model, &settings))
}

/// Prepares the state in which another scheduler stands inside.
fn state_with(
    place: &DiskDirectory,
    state: &State,
) -> impl Fn(&str) -> io::Result<PreparedState> + Send + Sync + 'static {
    let (place, state) = (place.clone(), state.clone());
    move |scheduler| {
        place.prepare_state(&State {
            scheduler: Some(scheduler.to_owned()),
            ..state.clone()
        })
    }
}

/// Gives the queue above the requests that a scheduler inside wants.
fn set_above(
    host: &Host,
    state: &State,
) -> impl Fn(&str) -> io::Result<()> + Send + Sync + 'static {
    let (host, state) = (host.clone(), state.clone());
    move |scheduler| {
        let depth = inside::driver_depth(scheduler, state.queue_depth);
        set_requests_above(&host, &state, depth)
    }
}

/// Gives the loop driver as many tags as the model has: set while `none` is active, it stays when a
/// scheduler comes (which gets a deeper queue of its own). Returns what the kernel made of it, and the most there is.
fn set_driver_depth(host: &Host, device: &str, queue_depth: usize) -> Result<(u32, u32), Problem> {
    const REQUESTS: &str = "queue/nr_requests";
    let failed = || cannot(format!("set {REQUESTS} of {device}"));
    set(host, device, "queue/scheduler", "none")?;
    let read = || host.sysfs().read(device, REQUESTS);
    let most = read().and_then(|text| text.parse().map_err(io::Error::other));
    let most = most.map_err(failed())?;
    let depth = driver_takes(queue_depth, most);
    set(host, device, REQUESTS, &depth.to_string())?;
    let taken = read().map_err(failed())?;
    if taken != depth.to_string() {
        let why = format!("wrote {depth}, read back {taken}");
        return Err(failed()(io::Error::other(why)));
    }
    if depth as usize != queue_depth && queue_depth < usize::MAX {
        log(format_args!(
            "the model has a queue depth of {queue_depth}, the loop driver takes {depth}"
        ));
    }
    Ok((depth, most))
}

fn set(host: &Host, device: &str, file: &str, value: &str) -> Result<(), Problem> {
    let written = host.sysfs().write(device, file, value);
    written.map_err(cannot(format!("set {file} of {device} to {value}")))
}

/// One block request is to be one FUSE request.
fn set_max_request(host: &Host, device: &str, max: Bytes) -> Result<(), Problem> {
    let kib = max.as_u64() / 1024;
    let most = host
        .sysfs()
        .read_if_present(device, "queue/max_hw_sectors_kb");
    let most = most.and_then(|text| text.parse().ok()).unwrap_or(kib);
    set(
        host,
        device,
        "queue/max_sectors_kb",
        &kib.min(most).to_string(),
    )
}

/// Tells the kernel what the model is, as a real drive does; returns what the kernel says then.
fn set_rotational(host: &Host, device: &str, spec: &Spec) -> bool {
    let known = match &spec.base {
        Base::Model(model) => Some(model.rotational()),
        Base::Over(over) => over.rotational,
    };
    let wanted = spec.rotational.or(known).unwrap_or(false);
    let file = "queue/rotational";
    if let Err(error) = set(host, device, file, if wanted { "1" } else { "0" }) {
        log(format_args!("{error}"));
    }
    host.sysfs().read_if_present(device, file).as_deref() == Some("1")
}

/// How long a request is under way to the model and back; nothing where others keep reading the disk.
fn measure_path(host: &Host, device: &str, disk: &Disk, spec: &Spec) -> Result<Nanos, Problem> {
    const ATTEMPTS: usize = 3;
    for _ in 0..ATTEMPTS {
        let path = measure_path_once(host, device, disk, spec)
            .map_err(cannot(format!("measure the path to {device}")))?;
        if let Some(path) = path {
            return Ok(path);
        }
        log(format_args!("others read {device} meanwhile"));
    }
    log(format_args!("the path to {device} is not measured"));
    Ok(Nanos::ZERO)
}

/// What single random reads take longer than the model says, unless somebody reads beside us. Measured
/// with the model itself, because a processor that slept for milliseconds wakes up more slowly than one
/// that slept for microseconds. The lower quartile, and no more than [`LONGEST_PATH`]: what other
/// programs do meanwhile only ever makes it longer, and a disk that is credited with too much would
/// beat its model.
fn measure_path_once(
    host: &Host,
    device: &str,
    disk: &Disk,
    spec: &Spec,
) -> io::Result<Option<Nanos>> {
    const MOST_READS: usize = 256;
    const FEWEST_READS: usize = 24;
    const LONG_ENOUGH: Nanos = Nanos::from_millis(300);
    // The way is nothing beside a read that takes so long that few fit in.
    const TOO_LONG: Nanos = Nanos::from_millis(5000);
    let reader = DirectReader::open(&host.dev(device))?;
    let blocks = disk.size().as_u64() / check::READ_SIZE.as_u64();
    let begin = monotonic();
    let mut reads = Vec::new();
    for position in check::random_blocks(blocks, spec.seed).take(MOST_READS) {
        reads.push(reader.timed_read(position)?);
        let taken = monotonic().saturating_sub(begin);
        let is_enough = reads.len() >= FEWEST_READS && taken > LONG_ENOUGH;
        if is_enough || taken > TOO_LONG {
            break;
        }
    }
    let extra = check::pair(&reads, &disk.served()).map(|pairs| {
        let extra = |pair: &Pair| pair.measured.saturating_sub(pair.served.modelled());
        let mut extra: Vec<Nanos> = pairs.iter().map(extra).collect();
        extra.sort_unstable();
        extra[extra.len() / 4].min(LONGEST_PATH)
    });
    Ok(extra)
}

fn open_directly(path: &Path, read_only: bool) -> io::Result<File> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).expect("flags are small");
    OpenOptions::new()
        .read(true)
        .write(!read_only)
        .custom_flags(direct)
        .open(path)
}

/// A session of our own, so that no hang-up and no Ctrl-C meant for others reaches us.
fn detach_from_terminal() {
    if let Err(error) = setsid() {
        log(format_args!("no session of our own: {error}"));
    }
    let _ = std::env::set_current_dir("/");
}

/// A disk that waits for memory while the kernel waits for the disk to free memory is a deadlock:
/// allocations of ours must not start I/O, and our own memory must not be swapped to ourselves.
fn protect_from_memory_pressure() {
    use rustix::mm::{MlockAllFlags, mlockall};
    // All threads are made after this and inherit it.
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        log(format_args!("cannot become an I/O flusher: {error}"));
    }
    if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
        log(format_args!("cannot lock memory: {error}"));
    }
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", "-1000") {
        log(format_args!("cannot keep the OOM killer away: {error}"));
    }
}

/// What the server waits for while its threads serve.
struct Until {
    signals: UnixStream,
    session: Option<UnixStream>,
    owner: Option<ProcessFd>,
}

impl Until {
    fn new() -> io::Result<Until> {
        let (signals, writer) = UnixStream::pair()?;
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Until {
            signals,
            session: None,
            owner: None,
        })
    }

    /// End with this process. One that has ended already is noticed at once.
    fn watch_owner(&mut self, pid: i32) -> io::Result<()> {
        let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("0 is no process"))?;
        self.owner = Some(ProcessFd::open(pid)?);
        Ok(())
    }

    /// What the FUSE session is to call when it ends.
    fn session_end(&mut self) -> io::Result<impl FnOnce(io::Result<()>) + Send + 'static> {
        let (reader, writer) = UnixStream::pair()?;
        self.session = Some(reader);
        Ok(move |result: io::Result<()>| {
            if let Err(error) = result {
                log(format_args!("FUSE: {error}"));
            }
            drop(writer);
        })
    }

    /// Sleeps until it is time to end, and says why.
    fn wait(&self) -> &'static str {
        let mut causes = vec![(PollFd::new(&self.signals, PollFlags::IN), "told to")];
        if let Some(session) = &self.session {
            causes.push((PollFd::new(session, PollFlags::IN), "the mount is gone"));
        }
        if let Some(owner) = &self.owner {
            causes.push((PollFd::new(owner, PollFlags::IN), "the owner has ended"));
        }
        let (mut descriptors, words): (Vec<_>, Vec<_>) = causes.into_iter().unzip();
        loop {
            match poll(&mut descriptors, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => panic!("cannot wait: {error}"),
            }
            let happened = descriptors.iter().position(|fd| !fd.revents().is_empty());
            if let Some(word) = happened.and_then(|position| words.get(position)) {
                return word;
            }
        }
    }
}

/// The data file of a running disk, seen from outside: it has no name of its own.
pub(super) fn backing_path(state: &State) -> PathBuf {
    PathBuf::from(format!(
        "/proc/{}/fd/{}",
        state.server_pid, state.backing_fd
    ))
}
