//! Lines that may set a disk's queue, wherever a system starts something: searched, never run.
//!
//! Each place of [`PLACES`] is read once. A line counts if it names a file of a queue (`queue/scheduler`, or
//! `$q/scheduler` in a file about queues), or one of the keys by which a program is told a scheduler. Scripts that a
//! line names are searched, too. A line that names other disks alone is left out; everything else *may* set the disk.
//! A file that is not executable, or of a service that is not enabled, is reported as such.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use iosched_machine::host::Host;
use iosched_machine::regular_file;
use iosched_machine::sysfs::sysfs_name;

use super::{Effect, SCHEDULER, Writer, WriterKind};
use crate::policy::matching::KnownDisk;
use crate::system_config::cmdline::value_of;
use crate::system_config::files::{self, LONGEST, files_of, text_of};
use crate::system_config::{pattern, tuned};

/// The target of a line that names the directory of a queue, and not which of its files.
pub(super) const ANY: &str = "queue";

/// A longer line is cut off where it is shown.
const SHOWN: usize = 200;

/// Scripts that start scripts are followed so far.
const DEEPEST: u32 = 2;

/// Files of a queue that anybody sets, `iosched/` with those of its scheduler.
const FILES: [&str; 14] = [
    "scheduler",
    "iosched",
    "nr_requests",
    "read_ahead_kb",
    "nomerges",
    "rq_affinity",
    "max_sectors_kb",
    "add_random",
    "iostats",
    "wbt_lat_usec",
    "async_depth",
    "io_poll",
    "io_poll_delay",
    "write_cache",
];

/// A line that may set a disk's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundLine {
    pub(super) kind: WriterKind,
    pub(super) file: PathBuf,
    /// From 1.
    pub(super) line: usize,
    pub(super) text: String,
    /// Below `/sys/block/<device>/`; [`ANY`] if it does not say.
    pub(super) target: String,
    /// A pattern of kernel names; none if the line does not say for which disks it is.
    disks: Option<String>,
    /// Why it does nothing as the system is now.
    pub(super) inactive: Option<&'static str>,
}

impl FoundLine {
    /// What it may do to a disk; nothing if it is for others.
    pub(super) fn on(&self, disk: &KnownDisk) -> Option<Writer> {
        let name = sysfs_name(&disk.device.name);
        let is_for = |disks: &String| pattern::is_like(disks, &name);
        self.disks.as_ref().is_none_or(is_for).then(|| Writer {
            kind: self.kind,
            file: self.file.clone(),
            line: self.line,
            target: self.target.clone(),
            value: None,
            certain: false,
            effect: Effect::MaySet,
            why: self.inactive.map(str::to_owned),
            text: Some(self.text.clone()),
        })
    }
}

/// When a file counts.
#[derive(Clone, Copy)]
enum Counts {
    Always,
    /// If it is executable.
    Executable,
    /// If the service of the file's own name is enabled.
    OwnService,
    /// If one of these services is enabled.
    Service(&'static [&'static str]),
}

/// Where something is configured or started, but for udev's rules, systemd's units and TuneD's profiles. A `*` is any
/// directory, or any name that ends in what is behind it; of one name only the file in the first directory counts.
const PLACES: &[(WriterKind, Counts, &[&str])] = &[
    (
        WriterKind::Initramfs,
        Counts::Always,
        &[
            "/etc/initramfs-tools/scripts/*/*",
            "/usr/share/initramfs-tools/scripts/*/*",
            "/usr/lib/dracut/modules.d/*/*",
            "/etc/initcpio/hooks/*",
            "/usr/lib/initcpio/hooks/*",
        ],
    ),
    (
        WriterKind::Modprobe,
        Counts::Always,
        &[
            "/etc/modprobe.d/*.conf",
            "/usr/lib/modprobe.d/*.conf",
            "/lib/modprobe.d/*.conf",
        ],
    ),
    (WriterKind::Mdev, Counts::Always, &["/etc/mdev.conf"]),
    (
        WriterKind::Tmpfiles,
        Counts::Always,
        &[
            "/etc/tmpfiles.d/*.conf",
            "/run/tmpfiles.d/*.conf",
            "/usr/lib/tmpfiles.d/*.conf",
        ],
    ),
    (
        WriterKind::Sysfsutils,
        Counts::Service(&["sysfsutils"]),
        &["/etc/sysfs.conf", "/etc/sysfs.d/*.conf"],
    ),
    (
        WriterKind::BootScript,
        Counts::Executable,
        &[
            "/etc/rc.local",
            "/etc/rc.d/rc.local",
            "/etc/init.d/boot.local",
            "/etc/init.d/after.local",
            "/etc/local.d/*.start",
        ],
    ),
    (
        WriterKind::BootScript,
        Counts::OwnService,
        &["/etc/init.d/*", "/etc/rc.d/init.d/*"],
    ),
    (
        WriterKind::Cron,
        Counts::Always,
        &[
            "/etc/crontab",
            "/etc/cron.d/*",
            "/var/spool/cron/*",
            "/var/spool/cron/crontabs/*",
        ],
    ),
    (
        WriterKind::SleepHook,
        Counts::Executable,
        &[
            "/etc/systemd/system-sleep/*",
            "/usr/lib/systemd/system-sleep/*",
            "/lib/systemd/system-sleep/*",
        ],
    ),
    (
        WriterKind::CloudInit,
        Counts::Always,
        &[
            "/etc/cloud/cloud.cfg",
            "/etc/cloud/cloud.cfg.d/*.cfg",
            "/var/lib/cloud/instance/cloud-config.txt",
            "/var/lib/cloud/scripts/per-boot/*",
        ],
    ),
    (
        WriterKind::Tlp,
        Counts::Service(&["tlp", "tlp-init"]),
        &["/etc/tlp.conf", "/etc/tlp.d/*.conf", "/etc/default/tlp"],
    ),
];

/// The keys by which programs are told a scheduler.
const KEYS: [(WriterKind, &str); 4] = [
    (WriterKind::KernelConfig, "CONFIG_DEFAULT_IOSCHED"),
    (WriterKind::Tlp, "DISK_IOSCHED"),
    (WriterKind::Tlp, "DISK_IOSCHED+"),
    (WriterKind::Tuned, "elevator"),
];

/// Where units of systemd are; of one name that in the first directory counts.
const UNITS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Where links say what the boot starts, besides `*.wants` and `*.requires` of [`UNITS`]: of an init of old and OpenRC.
const RUN_LEVELS: [&str; 3] = ["/etc", "/etc/rc.d", "/etc/runlevels"];

/// What the boot starts, by the names of its links.
pub(crate) struct Started(BTreeSet<String>);

impl Started {
    pub(crate) fn of(host: &Host) -> Started {
        let mut names = BTreeSet::new();
        for (directory, ends) in UNITS.map(|at| (at, [".wants", ".requires"])) {
            let links = directories_in(host, directory, |name| {
                ends.iter().any(|end| name.ends_with(end))
            });
            names.extend(links.iter().flat_map(|path| names_in(host, path)));
        }
        for directory in RUN_LEVELS {
            let is_of_openrc = directory.ends_with("runlevels");
            let levels = directories_in(host, directory, |name| {
                is_of_openrc || name.starts_with("rc")
            });
            for name in levels.iter().flat_map(|path| names_in(host, path)) {
                let of_init = name.trim_start_matches('S');
                let of_init = of_init.trim_start_matches(|c: char| c.is_ascii_digit());
                let is_link = of_init.len() < name.len() && name.starts_with('S');
                names.insert(if is_link { of_init.to_owned() } else { name });
            }
        }
        Started(names)
    }

    /// True of a service, as a unit or by its name alone.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains(name) || self.0.contains(&format!("{name}.service"))
    }

    /// The same of a unit, of which an instance may be enabled.
    fn has_unit(&self, unit: &str) -> bool {
        let of_template = |prefix: &str| self.0.iter().any(|name| name.starts_with(prefix));
        let template = unit.find('@').map(|at| &unit[..=at]);
        self.0.contains(unit) || template.is_some_and(of_template)
    }
}

/// All lines of a machine but those of udev's rules, by kind.
pub(super) fn machine(host: &Host) -> Vec<FoundLine> {
    let started = Started::of(host);
    let mut found = kernel_config(host);
    for &(kind, counts, paths) in PLACES {
        let files = files_at(host, paths).into_iter();
        found.extend(files.flat_map(|path| lines_at(host, &started, kind, counts, &path)));
    }
    found.extend(units(host, &started));
    found.extend(tuned(host, &started));
    found.sort_by_key(|line| line.kind); // stable: within a kind in their own order
    let mut seen = BTreeSet::new();
    found.retain(|line| {
        let is_for = (line.target.clone(), line.disks.clone());
        seen.insert((line.file.clone(), line.line, is_for))
    });
    found
}

fn files_at(host: &Host, paths: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories: Vec<&str> = Vec::new();
    let mut suffix = "";
    for path in paths {
        match path.rsplit_once("/*") {
            None => found.push(PathBuf::from(path)),
            Some((above, end)) => {
                suffix = end;
                match above.strip_suffix("/*") {
                    None => directories.push(above),
                    Some(above) => {
                        for directory in directories_in(host, above, |_| true) {
                            let directory = directory.to_string_lossy();
                            found.extend(files_of(host, &[&directory], end));
                        }
                    }
                }
            }
        }
    }
    found.extend(files_of(host, &directories, suffix));
    found
}

fn lines_at(
    host: &Host,
    started: &Started,
    kind: WriterKind,
    counts: Counts,
    path: &Path,
) -> Vec<FoundLine> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_enabled = match counts {
        Counts::Always | Counts::Executable => true,
        Counts::OwnService => started.has(&name),
        Counts::Service(names) => names.iter().any(|name| started.has(name)),
    };
    let may_run = !matches!(counts, Counts::Executable) || is_executable(host, path);
    let inactive = match (is_enabled, may_run) {
        (false, _) => Some("not enabled"),
        (true, false) => Some("not executable"),
        (true, true) => None,
    };
    Source { kind, inactive }.file(host, path, 0)
}

/// The default of the running kernel, if it has one: those before 5.0 do.
fn kernel_config(host: &Host) -> Vec<FoundLine> {
    let source = Source {
        kind: WriterKind::KernelConfig,
        inactive: None,
    };
    let release = host.kernel_release().unwrap_or_default();
    source.file(
        host,
        &Path::new("/boot").join(format!("config-{release}")),
        0,
    )
}

/// Services of systemd, with their drop-ins and the scripts that they start.
fn units(host: &Host, started: &Started) -> Vec<FoundLine> {
    let mut found = Vec::new();
    let services = files_of(host, &UNITS, ".service");
    let of_drop_in = files_of(host, &UNITS, ".service.d")
        .into_iter()
        .filter_map(|directory| {
            let files = files_of(host, &[directory.to_str()?], ".conf");
            Some(files.into_iter().map(move |file| (directory.clone(), file)))
        });
    let own = services.iter().map(|path| (path.clone(), path.clone()));
    for (unit, file) in own.chain(of_drop_in.flatten()) {
        let name = unit
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let name = name.trim_end_matches(".d");
        let main = services.iter().find(|path| path.ends_with(name));
        let main = main
            .and_then(|path| text_of(host, path))
            .unwrap_or_default();
        // A unit without [Install] is started by others, if at all.
        let is_enabled = started.has_unit(name) || !main.contains("[Install]");
        let source = Source {
            kind: WriterKind::Unit,
            inactive: (!is_enabled).then_some("not enabled"),
        };
        found.extend(source.file(host, &file, 0));
    }
    found
}

/// The active profiles of TuneD, with those that they include and the scripts that they start.
fn tuned(host: &Host, started: &Started) -> Vec<FoundLine> {
    let active = text_of(host, Path::new(tuned::ACTIVE)).unwrap_or_default();
    let is_ours = active.split_whitespace().any(|name| name == tuned::PROFILE);
    let inactive = if tuned_runs(host, started) {
        is_ours.then_some("iosched's own profile comes before it")
    } else {
        Some("not enabled")
    };
    let mut found = Vec::new();
    for (file, text) in tuned_profiles(host, &active) {
        let source = Source {
            kind: WriterKind::Tuned,
            inactive: inactive
                .filter(|_| !file.parent().is_some_and(|at| at.ends_with(tuned::PROFILE))),
        };
        found.extend(source.text(host, &file, &text, 0));
        // A script that is not absolute is beside the profile.
        let scripts = text.lines().filter_map(|line| value_of(line, "script"));
        found.extend(scripts.flat_map(|name| source.file(host, &file.with_file_name(name), 1)));
    }
    found
}

/// True if TuneD runs, or will after the next boot.
pub(crate) fn tuned_runs(host: &Host, started: &Started) -> bool {
    host.run("tuned/tuned.pid").exists() || started.has("tuned")
}

/// These profiles of TuneD (separated by commas or blanks) and those that they include: file and text.
pub(crate) fn tuned_profiles(host: &Host, names: &str) -> Vec<(PathBuf, String)> {
    const MOST: usize = 64; // profiles that include each other
    let names_in = |list: &str| -> Vec<String> {
        let names = list.split(|c: char| c == ',' || c.is_whitespace());
        names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let mut waiting = names_in(names);
    let mut found: Vec<(PathBuf, String)> = Vec::new();
    while let Some(name) = waiting.pop().filter(|_| found.len() < MOST) {
        let mut files = tuned::DIRECTORIES
            .iter()
            .map(|directory| Path::new(directory).join(&name).join("tuned.conf"));
        let read = files.find_map(|file| Some((file.clone(), text_of(host, &file)?)));
        let Some((file, text)) =
            read.filter(|(file, _)| found.iter().all(|(known, _)| known != file))
        else {
            continue;
        };
        let directory = file
            .parent()
            .unwrap_or(Path::new("/"))
            .display()
            .to_string();
        let text = text.replace("${i:PROFILE_DIR}", &directory);
        let included = text.lines().filter_map(|line| value_of(line, "include"));
        waiting.extend(included.flat_map(names_in));
        found.push((file, text));
    }
    found
}

/// Lines of a program that a rule of udev starts, and of the rule itself. One that is not absolute is udev's own.
pub(super) fn udev_program(host: &Host, command: &str, at: (&Path, usize)) -> Vec<FoundLine> {
    let source = Source {
        kind: WriterKind::UdevProgram,
        inactive: None,
    };
    let mut found = source.line(command, true, at);
    let first = command.split_whitespace().next().unwrap_or_default();
    let own = ["/usr/lib/udev", "/lib/udev"].map(|directory| Path::new(directory).join(first));
    found.extend(source.scripts(host, command, 0));
    if !first.starts_with('/') {
        let own = own.iter().filter(|path| is_script(host, path));
        found.extend(own.take(1).flat_map(|path| source.file(host, path, 1)));
    }
    found
}

/// What is the same for all lines of a file.
struct Source {
    kind: WriterKind,
    inactive: Option<&'static str>,
}

impl Source {
    fn file(&self, host: &Host, path: &Path, depth: u32) -> Vec<FoundLine> {
        let text = text_of(host, path).unwrap_or_default();
        self.text(host, path, &text, depth)
    }

    fn text(&self, host: &Host, path: &Path, text: &str, depth: u32) -> Vec<FoundLine> {
        let is_about_queues = ["/queue", "/sys/block", "/sys/class/block"]
            .iter()
            .any(|word| text.contains(word));
        let mut found = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with(['#', ';']) {
                continue;
            }
            found.extend(self.line(line, is_about_queues, (path, index + 1)));
            if depth < DEEPEST {
                found.extend(self.scripts(host, line, depth));
            }
        }
        found
    }

    /// Lines of the scripts that a line names.
    fn scripts(&self, host: &Host, line: &str, depth: u32) -> Vec<FoundLine> {
        let ends = |c: char| c.is_whitespace() || "\"'`;|&()<>=,[]@+-".contains(c);
        let words = line.split(|c: char| c.is_whitespace() || "\"'`;|&()<>=,[]".contains(c));
        let words = words.map(|word| word.trim_start_matches(ends));
        let paths = words
            .filter(|word| word.starts_with('/') && word.len() > 1)
            .map(Path::new);
        let scripts = paths.filter(|path| is_script(host, path));
        scripts
            .flat_map(|path| self.file(host, path, depth + 1))
            .collect()
    }

    /// The files of a queue that a line names: each once.
    fn line(&self, line: &str, is_about_queues: bool, at: (&Path, usize)) -> Vec<FoundLine> {
        let has_key = |key: &str| {
            let line = line.trim_start().trim_start_matches("export ");
            value_of(line, key).is_some()
        };
        let mut named: Vec<(String, Option<String>)> = Vec::new();
        let mut keys = KEYS.iter().filter(|(kind, _)| *kind == self.kind);
        if keys.any(|(_, key)| has_key(key)) {
            named.push((SCHEDULER.into(), None));
        }
        if is_about_queues {
            named.extend(files_named(line));
        }
        if let Some((_, words)) = line.split_once("iosched set ") {
            let device = words
                .split_whitespace()
                .next()
                .filter(|word| is_pattern(word));
            named.push((SCHEDULER.into(), device.map(str::to_owned)));
        }
        named.dedup();
        let shown: String = line.trim().chars().take(SHOWN).collect();
        let found = named.into_iter().map(|(target, disks)| FoundLine {
            kind: self.kind,
            file: at.0.to_owned(),
            line: at.1,
            text: shown.clone(),
            target,
            disks,
            inactive: self.inactive,
        });
        found.collect()
    }
}

/// The files of queues that a line names, each with the pattern of its disks if the line has one.
fn files_named(line: &str) -> Vec<(String, Option<String>)> {
    let quiet = line
        .replace("2>/dev/null", "")
        .replace(">/dev/null", "")
        .replace("2>&1", "");
    let writes = [">", "tee ", "of=", "write", "sed -i"]
        .iter()
        .any(|sign| quiet.contains(sign));
    let first = line
        .trim_start()
        .trim_start_matches("if ")
        .trim_start_matches("! ");
    let reads = ["[", "test ", "cat ", "grep ", "read "]
        .iter()
        .any(|word| first.starts_with(word));
    let mut found = Vec::new();
    for name in FILES {
        for (at, _) in line.match_indices(name) {
            let (before, after) = (&line[..at], &line[at + name.len()..]);
            let below = after.strip_prefix('/').filter(|_| name == "iosched");
            let below = below.map(|rest| &rest[..name_length(rest)]);
            let is_word = !after
                .starts_with(|c: char| c.is_ascii_alphanumeric() || "_-.=:".contains(c))
                && !before.ends_with(|c: char| c.is_ascii_alphanumeric() || "_-.".contains(c));
            let is_below_queue = before.ends_with("queue/") || before.ends_with("queue}/");
            let lead = before.trim_end_matches([' ', '"', '\'']);
            let is_written = before.ends_with('/') || lead.ends_with('>') || lead.ends_with("tee");
            let is_named = is_below_queue && (writes || !reads) || writes && is_written;
            // A line of sysfs.conf has a blank or nothing before its `=`.
            let is_word = is_word || is_below_queue && after.trim_start().starts_with('=');
            if !is_word || !is_named {
                continue;
            }
            let target = match below {
                Some("") => ANY.to_owned(),
                Some(tunable) => format!("queue/iosched/{tunable}"),
                None if name == "iosched" => ANY.to_owned(),
                None => format!("queue/{name}"),
            };
            found.push((target, disks_named(before)));
        }
    }
    found
}

fn name_length(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len())
}

/// The disks of `… /sys/block/sd*/queue/`, as a pattern; none if they are not known without running it.
fn disks_named(before: &str) -> Option<String> {
    let (above, disks) = before.strip_suffix("/queue/")?.rsplit_once('/')?;
    (above.ends_with("block") && is_pattern(disks)).then(|| disks.to_owned())
}

/// True of a text that can only be a kernel name, or a pattern of them.
fn is_pattern(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "!_-*?[]".contains(c);
    text.chars().all(is_plain)
}

/// True of a script that somebody may have written.
fn is_script(host: &Host, path: &Path) -> bool {
    let end = files::followed(host, path).map(|path| host.path(&path));
    let opened = end.and_then(|path| regular_file::open_to_read(&path).ok());
    let is_short = |file: &File| {
        file.metadata()
            .is_ok_and(|metadata| metadata.len() <= LONGEST)
    };
    let mut head = [0; 2];
    let read = opened
        .filter(is_short)
        .map(|mut file| file.read_exact(&mut head));
    read.is_some_and(|read| read.is_ok()) && head == *b"#!"
}

/// True if the file may be run.
fn is_executable(host: &Host, path: &Path) -> bool {
    let metadata = fs::metadata(host.path(path));
    metadata.is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

/// The directories in a directory whose names are chosen.
fn directories_in(host: &Host, at: &str, is_chosen: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let names = names_in(host, Path::new(at)).into_iter();
    let chosen = names
        .filter(|name| is_chosen(name))
        .map(|name| Path::new(at).join(name));
    chosen.filter(|path| host.path(path).is_dir()).collect()
}

/// The names in a directory, sorted.
fn names_in(host: &Host, directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(host.path(directory)).into_iter();
    let names = entries.flatten().flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::matching::disks;
    use crate::policy::writers::Writers;
    use crate::system_config::testing::{Disk, machine, write};

    /// What may set sda, or does by udev's rules, as `FILE:LINE TARGET [why not]`.
    fn told(files: &[(&str, &str)]) -> Vec<String> {
        let (dir, host) = machine(&[Disk::new("sda")]);
        for (path, text) in files {
            let path = path.strip_suffix('!').unwrap_or(path);
            write(dir.path(), path, text);
            let mode =
                PermissionsExt::from_mode(if text.starts_with("#!") { 0o755 } else { 0o644 });
            fs::set_permissions(dir.path().join(path), mode).unwrap();
        }
        let found = Writers::of(&host).at_boot(&disks(&host).unwrap()[0]);
        let told = found.iter().map(|writer| {
            let (file, line) = (writer.file.display(), writer.line);
            let target = writer.target.trim_start_matches("queue/");
            let why = writer
                .why
                .as_ref()
                .map(|why| format!(" [{why}]"))
                .unwrap_or_default();
            format!(
                "{}:{line} {target}{why}",
                file.to_string().trim_start_matches('/')
            )
        });
        told.collect()
    }

    const X: &str = "etc/systemd/system/multi-user.target.wants/x.service";

    /// Its name, its files, and what is told of it.
    type Form = (
        &'static str,
        &'static [(&'static str, &'static str)],
        &'static str,
    );

    /// As wikis, vendors' guides, distributions and answers to questions publish them.
    const PUBLISHED: &[Form] = &[
        (
            "a rule of udev",
            &[(
                "etc/udev/rules.d/60-scheduler.rules",
                "# spinning\nACTION==\"add|change\", KERNEL==\"sd[a-z]\", ATTR{queue/scheduler}=\"bfq\"\n",
            )],
            "etc/udev/rules.d/60-scheduler.rules:2 scheduler",
        ),
        (
            "a shell that a rule starts",
            &[(
                "etc/udev/rules.d/60-x.rules",
                "KERNEL==\"sda\", RUN+=\"/bin/sh -c 'echo bfq > /sys/block/%k/queue/scheduler'\"\n",
            )],
            "etc/udev/rules.d/60-x.rules:1 scheduler",
        ),
        (
            "a script that a rule starts",
            &[
                (
                    "etc/udev/rules.d/60-x.rules",
                    "KERNEL==\"sda\", RUN+=\"/usr/local/bin/io.sh %k\"\n",
                ),
                (
                    "usr/local/bin/io.sh",
                    "#!/bin/bash\necho bfq > \"/sys/block/$1/queue/scheduler\"\n",
                ),
            ],
            "usr/local/bin/io.sh:2 scheduler",
        ),
        (
            "tmpfiles.d",
            &[(
                "etc/tmpfiles.d/io.conf",
                "#Type Path\nw /sys/block/sda/queue/scheduler - - - - bfq\n",
            )],
            "etc/tmpfiles.d/io.conf:2 scheduler",
        ),
        (
            "a unit with a shell",
            &[
                (X, ""),
                (
                    "etc/systemd/system/x.service",
                    "[Service]\nExecStart=/bin/bash -c 'for d in /sys/block/sd?/queue/scheduler; do echo noop > $d; done'\n[Install]\n",
                ),
            ],
            "etc/systemd/system/x.service:2 scheduler",
        ),
        (
            "a unit that is not enabled",
            &[(
                "etc/systemd/system/x.service",
                "[Service]\nExecStart=/bin/sh -c 'echo bfq | tee /sys/block/sda/queue/scheduler'\n[Install]\n",
            )],
            "etc/systemd/system/x.service:2 scheduler [not enabled]",
        ),
        (
            "a script of a unit",
            &[
                (X, ""),
                (
                    "etc/systemd/system/x.service",
                    "[Service]\nExecStart=-/usr/local/sbin/tune --all\n[Install]\n",
                ),
                (
                    "usr/local/sbin/tune",
                    "#!/bin/sh\nfor disk in sda sdb; do\n  q=/sys/block/$disk/queue\n  echo bfq > $q/scheduler\n  echo 64 > $q/nr_requests\ndone\n",
                ),
            ],
            "usr/local/sbin/tune:4 scheduler, usr/local/sbin/tune:5 nr_requests",
        ),
        (
            "a script in Python",
            &[
                (X, ""),
                (
                    "etc/systemd/system/x.service",
                    "[Service]\nExecStart=/opt/tune.py\n[Install]\n",
                ),
                (
                    "opt/tune.py",
                    "#!/usr/bin/python3\nfor d in disks:\n    open(f'/sys/block/{d}/queue/scheduler', 'w').write('bfq')\n",
                ),
            ],
            "opt/tune.py:3 scheduler",
        ),
        (
            "rc.local",
            &[(
                "etc/rc.local",
                "#!/bin/sh -e\n#echo cfq > /sys/block/sda/queue/scheduler\necho deadline > /sys/block/sda/queue/scheduler\necho 512 > /sys/block/sda/queue/nr_requests\nexit 0\n",
            )],
            "etc/rc.local:3 scheduler, etc/rc.local:4 nr_requests",
        ),
        (
            "rc.local that is not executable",
            &[(
                "etc/rc.d/rc.local",
                "echo deadline > /sys/block/sda/queue/scheduler\n",
            )],
            "etc/rc.d/rc.local:1 scheduler [not executable]",
        ),
        (
            "a directory that is gone into",
            &[(
                "etc/rc.local",
                "#!/bin/sh\ncd /sys/block/sda/queue\necho bfq > scheduler\n[ -e iosched ] && echo 0 > iosched/slice_idle\n",
            )],
            "etc/rc.local:3 scheduler, etc/rc.local:4 iosched/slice_idle",
        ),
        (
            "OpenRC's local",
            &[(
                "etc/local.d/io.start",
                "#!/bin/sh\nfor f in /sys/block/sd*/queue/scheduler; do echo bfq > \"$f\"; done\n",
            )],
            "etc/local.d/io.start:2 scheduler",
        ),
        (
            "a script of init",
            &[
                ("etc/rc2.d/S01io", ""),
                (
                    "etc/init.d/io",
                    "#!/bin/sh\ncase $1 in start) echo bfq > /sys/block/sda/queue/scheduler;; esac\n",
                ),
            ],
            "etc/init.d/io:2 scheduler",
        ),
        (
            "cron",
            &[(
                "etc/cron.d/io",
                "@reboot root echo bfq > /sys/block/sda/queue/scheduler\n",
            )],
            "etc/cron.d/io:1 scheduler",
        ),
        (
            "cloud-init",
            &[(
                "etc/cloud/cloud.cfg.d/99.cfg",
                "#cloud-config\nbootcmd:\n - echo none > /sys/block/sda/queue/scheduler\n",
            )],
            "etc/cloud/cloud.cfg.d/99.cfg:3 scheduler",
        ),
        (
            "TuneD",
            &[
                (
                    "etc/systemd/system/multi-user.target.wants/tuned.service",
                    "",
                ),
                ("etc/tuned/active_profile", "mine\n"),
                (
                    "etc/tuned/mine/tuned.conf",
                    "[main]\ninclude=parent\n[sysfs]\n/sys/block/sd*/queue/nr_requests=64\n",
                ),
                (
                    "usr/lib/tuned/parent/tuned.conf",
                    "[disk]\nelevator=deadline\n",
                ),
            ],
            "etc/tuned/mine/tuned.conf:4 nr_requests, usr/lib/tuned/parent/tuned.conf:2 scheduler",
        ),
        (
            "a script of a profile",
            &[
                ("run/tuned/tuned.pid", "1"),
                ("etc/tuned/active_profile", "mine\n"),
                ("etc/tuned/mine/tuned.conf", "[script]\nscript=s.sh\n"),
                (
                    "etc/tuned/mine/s.sh",
                    "#!/bin/sh\n[ $1 = start ] && echo bfq > /sys/block/sda/queue/scheduler\n",
                ),
            ],
            "etc/tuned/mine/s.sh:2 scheduler",
        ),
        (
            "iosched itself",
            &[(
                "etc/local.d/io.start",
                "#!/bin/sh\niosched set sdb bfq\niosched set sda bfq\n",
            )],
            "etc/local.d/io.start:3 scheduler",
        ),
        (
            "a profile of TuneD that is not active",
            &[
                ("etc/tuned/active_profile", "balanced\n"),
                (
                    "usr/lib/tuned/parent/tuned.conf",
                    "[disk]\nelevator=deadline\n",
                ),
            ],
            "",
        ),
        (
            "TLP",
            &[
                ("etc/systemd/system/multi-user.target.wants/tlp.service", ""),
                (
                    "etc/tlp.conf",
                    "DISK_DEVICES=\"sda\"\nDISK_IOSCHED=\"bfq\"\n",
                ),
            ],
            "etc/tlp.conf:2 scheduler",
        ),
        (
            "modprobe.d",
            &[(
                "etc/modprobe.d/io.conf",
                "install sd_mod /sbin/modprobe -i sd_mod && echo bfq > /sys/block/sda/queue/scheduler\n",
            )],
            "etc/modprobe.d/io.conf:1 scheduler",
        ),
        (
            "sysfs.conf",
            &[
                (
                    "etc/systemd/system/multi-user.target.wants/sysfsutils.service",
                    "",
                ),
                (
                    "etc/sysfs.conf",
                    "block/sdb/queue/scheduler = noop\nblock/sda/queue/scheduler = deadline\n",
                ),
            ],
            "etc/sysfs.conf:2 scheduler",
        ),
        (
            "a hook of sleep",
            &[(
                "usr/lib/systemd/system-sleep/io",
                "#!/bin/sh\n[ \"$1\" = post ] && echo bfq > /sys/class/block/sda/queue/scheduler\n",
            )],
            "usr/lib/systemd/system-sleep/io:2 scheduler",
        ),
        (
            "a script of the initramfs",
            &[(
                "etc/initramfs-tools/scripts/init-bottom/io",
                "#!/bin/sh\necho bfq >/sys/block/sda/queue/scheduler\n",
            )],
            "etc/initramfs-tools/scripts/init-bottom/io:2 scheduler",
        ),
        (
            "a kernel before 5.0",
            &[(
                "boot/config-6.12.0-test",
                "CONFIG_IOSCHED_CFQ=y\nCONFIG_DEFAULT_IOSCHED=\"cfq\"\n",
            )],
            "boot/config-6.12.0-test:2 scheduler",
        ),
    ];

    #[test]
    fn published_forms_are_named_with_file_and_line() {
        for (name, files, expected) in PUBLISHED {
            assert_eq!(told(files).join(", "), *expected, "{name}");
        }
    }

    #[test]
    fn lines_that_only_read_or_are_for_other_disks_are_left_out() {
        for line in [
            "cat /sys/block/sda/queue/scheduler",
            "[ -e /sys/block/sda/queue/scheduler ] || exit 0",
            "if [ \"$(cat /sys/block/sda/queue/scheduler 2>/dev/null)\" ]; then",
            "# echo bfq > /sys/block/sda/queue/scheduler",
            "echo bfq > /sys/block/sdb/queue/scheduler",
            "echo bfq > /sys/block/nvme*/queue/scheduler",
            "echo the scheduler > /run/x # of /sys/block",
            "rm /var/spool/mqueue/scheduler.log",
        ] {
            let script = format!("#!/bin/sh\n{line}\n");
            assert_eq!(told(&[("etc/rc.local", &script)]), [""; 0], "{line}");
        }
    }

    #[test]
    fn scripts_that_name_one_another_come_to_an_end() {
        let script = |other: &str| {
            format!(
                "#!/bin/sh\n/opt/{other}\n/opt/{other}\necho bfq > /sys/block/sda/queue/scheduler\n"
            )
        };
        let (a, b) = (script("b"), script("a"));
        let mut found = told(&[("etc/rc.local", &a), ("opt/a", &a), ("opt/b", &b)]);
        found.sort();
        assert_eq!(
            found,
            [
                "etc/rc.local:4 scheduler",
                "opt/a:4 scheduler",
                "opt/b:4 scheduler"
            ]
        );
    }
}
