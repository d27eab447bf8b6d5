//! Emulated disks from outside: made, listed, changed and removed by other processes than their server.

use std::cmp::Reverse;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write as _};
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use iosched_machine::device::{loop_number, open_exclusively};
use iosched_machine::failure::{Problem, exit, room_hint};
use iosched_machine::host::Host;
use iosched_machine::process::{
    ProcessFd, Stop, ask_patiently, close_inherited, signal_until_ended,
};
use iosched_sim::disk::Model;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};
use serde::Serialize;

use crate::disk_directory::{DiskDirectory, State, start_ticks};
use crate::error::{cannot, cannot_with, missing as lacks};
use crate::requests::check_requests_above;
use crate::server::FirstWord;
use crate::{
    Attributed, Check, Spec, User, disk_directory, filesystem, inside, loop_device, server, spec,
    take_down, usage,
};

/// How long a server may take to set its disk up.
const SETUP_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a server may take to end: its file systems are unmounted and written back meanwhile.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// What this machine lacks for emulated disks; empty if nothing.
pub fn missing(host: &Host) -> Vec<Problem> {
    if !rustix::process::geteuid().is_root() {
        // The devices cannot be tried then.
        let message = "emulated disks need root, and this is not root";
        let root = Problem::new(exit::NOT_PERMITTED, message);
        return vec![root.hint("run it as root, for example with `sudo`")];
    }
    let mut missing = Vec::new();
    for (node, module) in [("fuse", "fuse"), ("loop-control", "loop")] {
        if let Some(why) = unusable(&host.dev(node)) {
            let hint = format!(
                "run `modprobe {module}`; in a container, start it with `--device /dev/{node} --privileged`"
            );
            missing.push(lacks(
                format!("emulated disks need /dev/{node}: {why}"),
                &hint,
            ));
        }
    }
    missing
}

/// Why a device node cannot be opened; opening one also loads its module.
fn unusable(path: &Path) -> Option<String> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.err().map(|error| error.to_string())
}

/// A running emulated disk.
///
/// It lives in a process of its own and goes on when this value is dropped.
#[derive(Debug)]
pub struct EmulatedDisk {
    place: DiskDirectory,
    device: String,
    server: Child,
}

impl EmulatedDisk {
    /// Why such a disk cannot be made on this machine, before anything is made.
    pub fn check(spec: &Spec, host: &Host) -> Result<(), Problem> {
        if let Some(missing) = missing(host).into_iter().next() {
            return Err(missing);
        }
        if let Some(model) = spec.model() {
            spec.build(model)?;
        }
        if let Some(scheduler) = &spec.scheduler {
            inside::check(scheduler)?;
        }
        Ok(())
    }

    /// Starts a server and waits until the disk is there.
    pub fn create(spec: &Spec) -> Result<EmulatedDisk, Problem> {
        let host = Host::live();
        EmulatedDisk::check(spec, &host)?;
        let (place, lock) = DiskDirectory::claim(spec)?;
        match start(spec, &place, lock) {
            Ok((state, server)) => Ok(EmulatedDisk {
                device: loop_device::name(state.loop_number),
                place,
                server,
            }),
            Err(failure) => {
                // The server is gone: clear what it may have left.
                let _ = take_down::take_down(&host, &place, || Ok(()));
                Err(failure)
            }
        }
    }

    /// Its kernel name, for example `loop3`.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// What it is now.
    pub fn status(&self) -> Status {
        Status::of(&Host::live(), &self.place)
    }

    /// Takes the disk away. Refused while somebody uses it, unless by `force`; then those who still
    /// have it open, and get errors from now on, are returned.
    pub fn remove(mut self, force: bool) -> Result<Vec<User>, Problem> {
        let host = Host::live();
        let left = remove_place(&host, &self.place, force)?;
        let _ = self.server.wait();
        Ok(left)
    }
}

/// Starts the server and waits for its first word. On an error the server has ended.
fn start(spec: &Spec, place: &DiskDirectory, lock: File) -> Result<(State, Child), Problem> {
    let log = place
        .create_log()
        .map_err(cannot_with("make a log in", place.dir()))?;
    let mut server = Command::new(&spec.server);
    server
        .args(["emulate", "serve"])
        .arg(place.dir())
        .stdin(Stdio::from(lock)) // the lock goes over to the server with it
        .stdout(Stdio::piped())
        .stderr(Stdio::from(log));
    close_inherited(&mut server);
    let mut server = server.spawn().map_err(cannot_with(
        "start the server of the emulated disk,",
        &spec.server,
    ))?;
    let word = first_word(&mut server);
    let is_stuck = word.is_err();
    let failure = match word {
        Ok(Some(FirstWord::Ready)) => match place.try_state() {
            Ok(Some(state)) => return Ok((state, server)),
            Ok(None) => ended(place),
            Err(failure) => failure,
        },
        Ok(Some(FirstWord::Failed {
            message,
            hint,
            exit_code,
        })) => Problem::new(exit_code, message).maybe_hint(hint),
        Ok(None) => ended(place),
        Err(TimedOut) => not_ready(place, SETUP_TIMEOUT),
    };
    // It may well be ready, and not know that we could not hear of it; one that is stuck is not asked.
    let signals = [Signal::TERM, Signal::KILL].map(|signal| (signal, SETUP_TIMEOUT));
    signal_until_ended(&mut server, &signals[usize::from(is_stuck)..], &Stop::new());
    Err(failure)
}

fn ended(place: &DiskDirectory) -> Problem {
    let message = format!(
        "the server of the emulated disk {} ended while it set the disk up",
        place.id()
    );
    let log = Some(place.log_tail()).filter(|log| !log.is_empty());
    Problem::new(exit::FAILURE, message).maybe_hint(log.map(|log| format!("its log ends:\n{log}")))
}

fn not_ready(place: &DiskDirectory, after: Duration) -> Problem {
    let (id, after) = (place.id(), after.as_secs());
    let message = format!("the emulated disk {id} was not ready after {after} s");
    Problem::new(exit::FAILURE, message).hint(format!(
        "`iosched emulate remove --force {id}` ends it; where --slow-down makes single reads take seconds, less of it helps",
    ))
}

fn gone(place: &DiskDirectory) -> Problem {
    let message = format!("the server of {} is gone", place.id());
    Problem::new(exit::FAILURE, message).hint("`iosched emulate remove --all` clears what it left")
}

fn stuck(place: &DiskDirectory, pid: i32) -> Problem {
    let message = format!("the server of {} (pid {pid}) does not end", place.id());
    Problem::new(exit::FAILURE, message).hint("`--force` kills it")
}

struct TimedOut;

/// The server's line; `None` if it ended without one, or with one that is not understood.
fn first_word(server: &mut Child) -> Result<Option<FirstWord>, TimedOut> {
    let Some(mut stdout) = server.stdout.take() else {
        return Ok(None);
    };
    let deadline = Instant::now() + SETUP_TIMEOUT;
    let mut text = Vec::new();
    loop {
        if !wait_readable(&stdout, deadline) {
            return Err(TimedOut);
        }
        let mut buffer = [0; 4096];
        let length = stdout.read(&mut buffer).unwrap_or(0);
        text.extend_from_slice(&buffer[..length]);
        if length == 0 || text.ends_with(b"\n") {
            return Ok(serde_json::from_slice(&text).ok());
        }
    }
}

/// An emulated disk as `iosched emulate list` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Its name, for example `hdd-7200-1`.
    pub id: String,
    /// Running, starting, or what a killed server left.
    pub condition: Condition,
    /// Its model.
    pub model: Option<String>,
    /// Kernel name of its loop device.
    pub device: Option<String>,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// The device or file that it stands over, if it has no model.
    pub over: Option<PathBuf>,
    /// It takes no writes.
    pub read_only: bool,
    /// The model's queue depth, or the most commands that are under way below.
    pub queue_depth: Option<usize>,
    /// Requests that the loop driver gives to the model at once.
    pub driver_depth: Option<u32>,
    /// How many times as long as its model says all that it does takes.
    pub slow_down: Option<u32>,
    /// The scheduler of ours that stands inside.
    pub scheduler: Option<String>,
    /// How many accesses that scheduler knows the processes of.
    pub attributed: Option<Attributed>,
    /// What the kernel believes it to be.
    pub rotational: Option<bool>,
    /// The directory that its data are in.
    pub backing_dir: Option<PathBuf>,
    /// True if that is memory.
    pub backing_in_memory: Option<bool>,
    /// Space that its data take.
    pub stored_bytes: Option<u64>,
    /// Time that a request is under way to the model and back; taken off.
    pub path_ns: Option<u64>,
    /// The process that serves it.
    pub server_pid: Option<i32>,
    /// The process that it ends with.
    pub owner_pid: Option<i32>,
    /// Who uses it.
    pub users: Vec<User>,
    /// What is there of a disk whose server is gone.
    pub remains: Vec<String>,
}

/// Whether an emulated disk works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// It does.
    Running,
    /// Its server lives, and does not answer.
    NotAnswering,
    /// It is being set up (or taken down).
    Starting,
    /// Its server is gone, parts of it are still there.
    Remains,
}

impl Status {
    fn of(host: &Host, place: &DiskDirectory) -> Status {
        let spec = place.spec();
        let state = place.state();
        let is_alive = place.is_alive();
        let device = state
            .as_ref()
            .map(|state| loop_device::name(state.loop_number));
        let counts = state.as_ref().filter(|_| is_alive);
        let counts = counts.and_then(|_| ask_for_counts(place));
        let condition = match (is_alive, &state) {
            (true, Some(_)) if counts.is_some() => Condition::Running,
            (true, Some(_)) => Condition::NotAnswering,
            (true, None) => Condition::Starting,
            (false, _) => Condition::Remains,
        };
        let running = state.as_ref().filter(|_| is_alive);
        let over = spec.as_ref().and_then(|spec| spec.stands_over()).cloned();
        let stored = running.filter(|_| over.is_none()).and_then(|state| {
            use std::os::unix::fs::MetadataExt;
            let metadata = fs::metadata(server::backing_path(state)).ok()?;
            Some(metadata.blocks() * 512)
        });
        let users = running
            .zip(device.as_deref())
            .map(|(state, device)| usage::users(host, device, &[own_pid(), state.server_pid]));
        let inside = running.filter(|state| state.scheduler.is_some());
        let attributed = inside
            .and(counts)
            .and_then(|counts| serde_json::from_slice(&counts.ok()?).ok());
        let remains = match condition {
            Condition::Remains => take_down::remains(host, place),
            _ => Vec::new(),
        };
        let own_data = state.as_ref().filter(|_| over.is_none());
        Status {
            id: place.id().to_owned(),
            condition,
            model: spec
                .as_ref()
                .and_then(|spec| Some(spec.model()?.name.clone())),
            read_only: over.as_ref().is_some_and(|over| over.read_only),
            slow_down: spec
                .as_ref()
                .map(|spec| spec.slow_down.map_or(1, NonZeroU32::get)),
            owner_pid: spec.as_ref().and_then(|spec| spec.owner_pid),
            device,
            size_bytes: state.as_ref().map(|state| state.size_bytes),
            queue_depth: state.as_ref().map(|state| state.queue_depth),
            driver_depth: state.as_ref().map(|state| state.driver_depth),
            scheduler: state.as_ref().and_then(|state| state.scheduler.clone()),
            attributed,
            rotational: state.as_ref().map(|state| state.rotational),
            backing_in_memory: own_data.map(|state| state.backing_in_memory),
            path_ns: state.as_ref().map(|state| state.path_ns),
            server_pid: running.map(|state| state.server_pid),
            backing_dir: own_data.map(|state| state.backing_dir.clone()),
            over: over.map(|over| over.path),
            stored_bytes: stored,
            users: users.unwrap_or_default(),
            remains,
        }
    }
}

/// All emulated disks of this machine, and what is left of some.
///
/// # Errors
/// Their directory cannot be read.
pub fn list() -> Result<Vec<Status>, Problem> {
    list_in(Path::new(spec::STATE_DIR))
}

/// The model of the emulated disk that is this device, if it is one.
pub fn model_of(host: &Host, device: &str) -> Option<Model> {
    place_of(host, device)?.spec()?.model().cloned()
}

/// The process that serves the emulated disk that is this device, if it is one.
pub fn server_of(host: &Host, device: &str) -> Option<i32> {
    place_of(host, device)?
        .state()
        .map(|state| state.server_pid)
}

/// A disk that is emulated here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedDisk {
    /// The scheduler of ours inside, with its tunables; none if there is none.
    pub scheduler: Option<String>,
    /// Requests that the loop driver has to take at a time so that it takes no more than the disk.
    pub driver_depth: u32,
}

/// The emulated disk that is this device, if it is one.
pub fn served_by(host: &Host, device: &str) -> Option<ServedDisk> {
    loop_number(device)?;
    let state = place_of(host, device)?.state()?;
    let driver_depth = state.driver_takes(state.queue_depth);
    Some(ServedDisk {
        scheduler: state.scheduler,
        driver_depth,
    })
}

/// Puts another scheduler inside this device; returns what is read back then, `None` if it is no emulated disk any more.
pub fn set_inside(host: &Host, device: &str, scheduler: &str) -> Result<Option<String>, Problem> {
    let state_dir = host.path(Path::new(spec::STATE_DIR));
    inside::check(scheduler)?;
    let Ok(place) = find(&state_dir, device) else {
        return Ok(None);
    };
    match put(&place, scheduler) {
        Ok(status) => Ok(status.scheduler),
        Err(_) if !place.is_alive() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Whether a text names a scheduler of ours, with tunables that it has.
pub fn check_scheduler(text: &str) -> Result<(), Problem> {
    inside::check(text)
}

fn place_of(host: &Host, device: &str) -> Option<DiskDirectory> {
    let places = DiskDirectory::all(&host.path(Path::new(spec::STATE_DIR))).ok()?;
    let is_it = |place: &DiskDirectory| {
        let state = place.state().filter(|_| place.is_alive());
        state.is_some_and(|state| loop_device::name(state.loop_number) == device)
    };
    places.into_iter().find(is_it)
}

/// [`list`] for another directory than the usual one.
///
/// # Errors
/// It cannot be read.
pub fn list_in(state_dir: &Path) -> Result<Vec<Status>, Problem> {
    let host = Host::live();
    let places = DiskDirectory::all(state_dir)?;
    let each = places.iter().map(|place| Status::of(&host, place));
    Ok(each.collect())
}

/// What became of several emulated disks.
#[derive(Debug, Default)]
pub struct Removal {
    /// Ids of those that are gone.
    pub removed: Vec<String>,
    /// Who still has a device of theirs open.
    pub left: Vec<User>,
    /// Those that are not gone, each with the reason.
    pub failures: Vec<(String, Problem)>,
}

impl Removal {
    fn add(&mut self, id: &str, outcome: Result<Vec<User>, Problem>) {
        match outcome {
            Ok(users) => {
                self.removed.push(id.to_owned());
                self.left.extend(users);
            }
            Err(failure) => self.failures.push((id.to_owned(), failure)),
        }
    }
}

/// Takes away the disks with these names, each a device (`/dev/loop3`, `loop3`) or an id: one that cannot be removed
/// keeps no other.
pub fn remove_each(state_dir: &Path, names: &[String], force: bool) -> Removal {
    let host = Host::live();
    let mut removal = Removal::default();
    for name in names {
        match find(state_dir, name) {
            Ok(place) => removal.add(place.id(), remove_place(&host, &place, force)),
            Err(failure) => removal.add(name, Err(failure)),
        }
    }
    removal
}

/// Takes away all emulated disks and what killed servers have left: one that cannot be removed keeps no other. The
/// newest goes first, since a disk that stands over another was made after it.
///
/// # Errors
/// Their directory cannot be read.
pub fn remove_all(state_dir: &Path, force: bool) -> Result<Removal, Problem> {
    remove_those(state_dir, force, |_| true)
}

/// Clears what servers that were killed have left; running disks stay.
///
/// # Errors
/// The directory of emulated disks cannot be read.
pub fn remove_remains() -> Result<Removal, Problem> {
    remove_those(Path::new(spec::STATE_DIR), false, |place| !place.is_alive())
}

fn remove_those(
    state_dir: &Path,
    force: bool,
    wanted: impl Fn(&DiskDirectory) -> bool,
) -> Result<Removal, Problem> {
    let host = Host::live();
    let mut removal = Removal::default();
    let mut places = DiskDirectory::all(state_dir)?;
    places.sort_by_cached_key(|place| Reverse(place.made()));
    for place in places.iter().filter(|place| wanted(place)) {
        removal.add(place.id(), remove_place(&host, place, force));
    }
    if let Err(error) = disk_directory::delete_unfinished(state_dir) {
        let failure = cannot_with("tidy up", state_dir)(error);
        let what = "what was never finished".to_owned();
        removal.failures.push((what, failure));
    }
    Ok(removal)
}

/// Compares single random reads of a running disk with what its model says.
pub fn check(state_dir: &Path, name: &str, reads: usize, seed: u64) -> Result<Check, Problem> {
    let host = Host::live();
    let place = find(state_dir, name)?;
    let state = place.state().filter(|_| place.is_alive());
    let state = state.ok_or_else(|| gone(&place))?;
    let device = loop_device::name(state.loop_number);
    if let Some(over) = place.spec().as_ref().and_then(|spec| spec.stands_over()) {
        let over = over.path.display();
        let message = format!("cannot check {device}: it stands over {over} and has no model");
        return Err(Problem::new(exit::FAILURE, message));
    }
    crate::check::check(&host, &place, &device, state.path_ns, reads, seed)
}

/// Puts another scheduler into a running disk that has one: what the old one holds is done first. A server that does not
/// answer is not waited for; who puts back what a run changed ([`set_inside`]) has more patience.
pub fn set(state_dir: &Path, name: &str, scheduler: &str) -> Result<Status, Problem> {
    inside::check(scheduler)?;
    let place = find(state_dir, name)?;
    if let Some(state) = place.state().filter(|_| place.is_alive())
        && ask_for_counts(&place).is_none()
    {
        let (id, pid) = (place.id(), state.server_pid);
        let message = format!("the server of {id} (pid {pid}) does not answer");
        return Err(Problem::new(exit::FAILURE, message).hint(format!(
            "`kill -CONT {pid}` if it is stopped; `iosched emulate remove --force {id}` ends it"
        )));
    }
    put(&place, scheduler)
}

/// [`set`] in a place, however long the server takes.
fn put(place: &DiskDirectory, scheduler: &str) -> Result<Status, Problem> {
    let state = if place.is_alive() {
        wait_for_state(place)?
    } else {
        None
    };
    let state = state.ok_or_else(|| gone(place))?;
    let Some(before) = &state.scheduler else {
        let model = place.spec().map_or("MODEL".into(), |spec| spec.id());
        let message = format!("{} is served without a scheduler inside", place.id());
        return Err(Problem::usage(message).hint(format!(
            "make one with it: `iosched emulate create {model} --scheduler cfq`; the kernel's are set with `iosched set`"
        )));
    };
    let path = place.mount_point().join(filesystem::SCHEDULER_FILE);
    let written = write_scheduler(&path, scheduler);
    if written.is_err() && !place.is_alive() {
        return Err(gone(place));
    }
    written.map_err(|error| not_set(place, before, error))?;
    let host = Host::live();
    let depth = inside::driver_depth(scheduler, state.queue_depth);
    if let Err(error) = check_requests_above(&host, &state, depth) {
        let is_back = write_scheduler(&path, before).is_ok();
        let now = if is_back { before } else { scheduler };
        let device = loop_device::name(state.loop_number);
        let message =
            format!("cannot set queue/nr_requests of {device} as {scheduler} needs it: {error}");
        return Err(Problem::new(exit::FAILURE, message).hint(format!("{now} stands inside")));
    }
    Ok(Status::of(&host, place))
}

/// The server's counts of accesses; `None` if it does not answer.
fn ask_for_counts(place: &DiskDirectory) -> Option<std::io::Result<Vec<u8>>> {
    let path = place.mount_point().join(filesystem::ASKERS_FILE);
    ask_patiently(move || fs::read(path))
}

/// Why the server took no other scheduler: the only file that it writes for that is the state.
fn not_set(place: &DiskDirectory, before: &str, error: std::io::Error) -> Problem {
    use std::io::ErrorKind::{InvalidInput, ResourceBusy, Unsupported};
    if let InvalidInput | ResourceBusy | Unsupported = error.kind() {
        let path = place.mount_point().join(filesystem::SCHEDULER_FILE);
        return cannot_with("write the scheduler to", &path)(error);
    }
    let way = room_hint(&error).unwrap_or("make room or rights there");
    let dir = place.dir().display();
    let message = format!("nothing was changed: cannot write the state in {dir}: {error}");
    Problem::new(exit::FAILURE, message).hint(format!("{before} stands inside still: {way}"))
}

/// Tells the server; while another scheduler is just coming, it is told again.
fn write_scheduler(path: &Path, scheduler: &str) -> std::io::Result<()> {
    let deadline = Instant::now() + SETUP_TIMEOUT;
    loop {
        let mut file = OpenOptions::new().write(true).open(path)?;
        match file.write_all(scheduler.as_bytes()) {
            Err(error)
                if error.kind() == std::io::ErrorKind::ResourceBusy
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            done => return done,
        }
    }
}

fn find(state_dir: &Path, name: &str) -> Result<DiskDirectory, Problem> {
    let places = DiskDirectory::all(state_dir)?;
    let device_of = |place: &DiskDirectory| Some(loop_device::name(place.state()?.loop_number));
    let wanted = name.strip_prefix("/dev/").unwrap_or(name);
    let is_it =
        |place: &&DiskDirectory| place.id() == name || device_of(place).as_deref() == Some(wanted);
    // A running disk goes before the remains of one that had the same device.
    let alive = places.iter().filter(|place| place.is_alive()).find(is_it);
    let found = alive.or_else(|| places.iter().find(is_it)).cloned();
    found.ok_or_else(|| {
        let known = places.iter().map(|place| match device_of(place) {
            Some(device) => format!("{} (/dev/{device})", place.id()),
            None => place.id().to_owned(),
        });
        let known: Vec<String> = known.collect();
        let hint = if known.is_empty() {
            "there are none; `iosched emulate create MODEL` makes one".to_owned()
        } else {
            format!("there are: {}", known.join(", "))
        };
        let message = format!("there is no emulated disk {name}");
        Problem::new(exit::NO_SUCH_DEVICE, message).hint(hint)
    })
}

/// The rule of removing: what is used stays unless by force; a running disk's server is told to end,
/// and killed only by force; what it leaves is cleared. By force, one that is just starting is not waited for.
fn remove_place(host: &Host, place: &DiskDirectory, force: bool) -> Result<Vec<User>, Problem> {
    if force && place.is_alive() && place.state().is_none() {
        kill_starting(host, place)?;
    }
    if place.is_alive()
        && let Some(state) = wait_for_state(place)?
    {
        if force {
            take_down::check_nothing_below(host, place)?;
        } else {
            refuse_if_used(host, &state)?;
        }
        let has_ended = end_server(host, place, &state, Signal::TERM)
            || (force && end_server(host, place, &state, Signal::KILL));
        if !has_ended {
            return Err(stuck(place, state.server_pid));
        }
    } else {
        take_down::check_nothing_below(host, place)?;
    }
    take_down::take_down(host, place, || Ok(()))
}

/// Kills the server of a disk that is starting, unless the disk gets ready or the server ends first.
fn kill_starting(host: &Host, place: &DiskDirectory) -> Result<(), Problem> {
    let deadline = Instant::now() + END_TIMEOUT;
    while place.is_alive() && place.state().is_none() {
        let server = place.lock_holder(host);
        if let Some(handle) = lock_holder(host, place) {
            let _ = handle.signal(Signal::KILL); // it may just have ended by itself
        }
        if Instant::now() > deadline {
            return Err(match server {
                Some(pid) => stuck(place, pid),
                None => not_ready(place, END_TIMEOUT),
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The state of a disk that may just be starting; `None` if its server has ended.
fn wait_for_state(place: &DiskDirectory) -> Result<Option<State>, Problem> {
    let deadline = Instant::now() + SETUP_TIMEOUT;
    loop {
        if let Some(state) = place.state() {
            return Ok(Some(state));
        }
        if !place.is_alive() {
            return Ok(None);
        }
        if Instant::now() > deadline {
            return Err(not_ready(place, SETUP_TIMEOUT));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Refuses while somebody uses the disk. If nobody does, it is detached under an exclusive hold, so
/// that nobody can begin to in between.
fn refuse_if_used(host: &Host, state: &State) -> Result<(), Problem> {
    const PASSING: Duration = Duration::from_secs(2);
    let device = loop_device::name(state.loop_number);
    let deadline = Instant::now() + PASSING;
    let in_use = |users: &[User]| {
        let message = format!("cannot remove /dev/{device}: {}", User::list(users));
        Problem::new(exit::BUSY, message)
            .hint("end that first, or take the disk away from under it with `--force`")
    };
    loop {
        let users = usage::users(host, &device, &[own_pid(), state.server_pid]);
        if users.is_empty() {
            break;
        }
        if !users.iter().all(|user| user.is_passing(host)) || Instant::now() > deadline {
            return Err(in_use(&users));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    match open_exclusively(&host.dev(&device)) {
        Ok(file) => loop_device::detach_open(&file).map_err(cannot(format!("detach {device}"))),
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
            Err(in_use(&[User::Exclusive {
                device: device.clone(),
            }]))
        }
        Err(_) => Ok(()), // not there, or nothing attached: nothing to refuse
    }
}

/// The process that has the lock of a disk.
fn lock_holder(host: &Host, place: &DiskDirectory) -> Option<ProcessFd> {
    let pid = place.lock_holder(host)?;
    let handle = ProcessFd::open(Pid::from_raw(pid)?).ok()?;
    (place.lock_holder(host) == Some(pid)).then_some(handle)
}

/// The server of a disk by its number and when it started, or, where these are of another pid or time namespace, by its
/// lock.
fn server(host: &Host, place: &DiskDirectory, state: &State) -> Option<ProcessFd> {
    let pid = Pid::from_raw(state.server_pid);
    let handle = pid.and_then(|pid| ProcessFd::open(pid).ok());
    let is_it = |_: &ProcessFd| start_ticks(state.server_pid) == Some(state.server_started);
    handle.filter(is_it).or_else(|| lock_holder(host, place))
}

/// Sends the server a signal and waits for its end. False if it lives on.
fn end_server(host: &Host, place: &DiskDirectory, state: &State, signal: Signal) -> bool {
    let deadline = Instant::now() + END_TIMEOUT;
    if let Some(handle) = server(host, place, state) {
        let _ = handle.signal(signal); // it may just have ended by itself
        return wait_readable(&handle, deadline);
    }
    while place.is_alive() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Waits until a descriptor has something to say (a process: that it has ended). False if it has not
/// until `deadline`.
fn wait_readable(descriptor: impl AsFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).expect("less than a minute is a time");
        let mut waiting = [PollFd::new(&descriptor, PollFlags::IN)];
        match poll(&mut waiting, Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(_) => {} // interrupted
        }
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).expect("process numbers are small")
}
