//! Units of systemd that are started at boot, with their drop-ins, and the programs that they start.
//!
//! Started: what a target wants that comes at boot, what such units want themselves, and what a udev rule asks for with
//! `SYSTEMD_WANTS`. What only comes with something else (sleep, a rescue system, a timer without `OnBootSec=`, a path or a
//! socket) is started perhaps, and so is what the graphical system alone wants where the machine boots to another target.
//! What the kernel's command line masks is not started. A unit is its file of the first directory that has it, or its template's, and after that its
//! drop-ins by their names; an empty `ExecStart=` forgets those before it.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use iosched_machine::host::Host;

use super::shell::{self, Environment, FollowedDisk, Rights, UNKNOWN, Write};
use super::{files_of, is_executable, text_of};
use crate::system_config::cmdline;

/// Where units are, the first wins (systemd.unit(5)). What generators make is there once the machine has booted: its next
/// boot makes the same.
const DIRECTORIES: [&str; 13] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
];

/// Targets that no common boot comes to.
const NOT_AT_BOOT: [&str; 16] = [
    "emergency",
    "exit",
    "final",
    "halt",
    "hibernate",
    "hybrid-sleep",
    "initrd",
    "kexec",
    "poweroff",
    "reboot",
    "rescue",
    "shutdown",
    "sleep",
    "suspend",
    "suspend-then-hibernate",
    "umount",
];

/// Targets of which nobody need say that they are started; the graphical one only where the machine boots to it.
const AT_BOOT: [&str; 5] = [
    "default.target",
    "multi-user.target",
    "basic.target",
    "sysinit.target",
    "local-fs.target",
];

const GRAPHICAL: &str = "graphical.target";

/// Programs that [`super::programs`] knows by what they are set to.
pub(super) const KNOWN: [&str; 8] = [
    "google-guest-agent",
    "saptune",
    "sapconf",
    "sysfsutils",
    "sysfsconf",
    "tlp",
    "tuned",
    "iosched-check",
];

/// Whether something is started at boot for sure.
pub(super) type Sure = bool;

/// The units of a machine.
pub(super) struct Units<'a> {
    host: &'a Host,
    /// What stands in each directory that is there.
    listed: Vec<(PathBuf, BTreeSet<String>)>,
    /// What the kernel was told.
    command_line: String,
    started: OnceCell<BTreeMap<String, Sure>>,
}

/// A setting of a unit, and where it stands.
struct Setting {
    section: String,
    key: String,
    value: String,
    file: PathBuf,
    line: usize,
}

impl<'a> Units<'a> {
    pub(super) fn of(host: &'a Host) -> Units<'a> {
        let list = |directory: &&str| {
            let path = Path::new(directory);
            let entries = std::fs::read_dir(host.path(path)).ok()?.flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            Some((path.to_owned(), names.collect()))
        };
        Units {
            host,
            listed: DIRECTORIES.iter().filter_map(list).collect(),
            command_line: cmdline::of_this_boot(host),
            started: OnceCell::new(),
        }
    }

    /// True if a target that comes at boot wants this unit, or something else that is started does.
    pub(super) fn are_started(&self, name: &str) -> bool {
        self.started().get(name).copied().unwrap_or_default()
    }

    /// True if there is such a unit.
    pub(super) fn has(&self, name: &str) -> bool {
        self.listed.iter().any(|(_, names)| names.contains(name))
    }

    /// What the services write that are started at boot, and those that rules of udev ask for.
    pub(super) fn writes(
        &self,
        place: &FollowedDisk<'_>,
        asked_for: &[(String, Sure)],
    ) -> Vec<Write> {
        let mut names = self.started().clone();
        for (name, sure) in asked_for {
            self.add(&mut names, name.clone(), *sure);
        }
        let mut found = Vec::new();
        for (name, sure) in &names {
            let is_known = KNOWN
                .iter()
                .any(|known| name.strip_suffix(".service") == Some(known));
            if name.ends_with(".service") && !is_known {
                let writes = self.writes_of(place, name).into_iter();
                found.extend(writes.map(|write| Write {
                    certain: write.certain && *sure,
                    ..write
                }));
            }
        }
        found
    }

    fn started(&self) -> &BTreeMap<String, Sure> {
        self.started.get_or_init(|| {
            let mut found = BTreeMap::new();
            for name in AT_BOOT {
                self.add(&mut found, name.to_owned(), true);
            }
            let is_graphical = self.boots_to(GRAPHICAL);
            self.add(&mut found, GRAPHICAL.to_owned(), is_graphical);
            for (directory, names) in &self.listed {
                for name in names {
                    let Some((by, "wants" | "requires" | "upholds")) = name.rsplit_once('.') else {
                        continue;
                    };
                    let sure = !by
                        .strip_suffix(".target")
                        .is_some_and(|target| NOT_AT_BOOT.contains(&target))
                        && (is_graphical || by != GRAPHICAL);
                    let entries = std::fs::read_dir(self.host.path(&directory.join(name)));
                    for entry in entries.into_iter().flatten().flatten() {
                        let wanted = entry.file_name().to_string_lossy().into_owned();
                        self.add(&mut found, wanted, sure);
                    }
                }
            }
            found
        })
    }

    /// True if the target to which the machine boots is this one or wants it; false if neither is known.
    fn boots_to(&self, target: &str) -> bool {
        let by_kernel = self.parameters("systemd.unit").last();
        let by_level = self.command_line.split_whitespace().rev();
        let by_level = by_level
            .take_while(|_| by_kernel.is_none())
            .find_map(|word| match word {
                "2" | "3" | "4" => Some("multi-user.target"),
                "5" => Some(GRAPHICAL),
                _ => None,
            });
        let name = by_kernel.or(by_level).unwrap_or("default.target");
        let mut name = name.to_owned();
        for _ in 0..8 {
            let path = self.listed.iter().find_map(|(directory, names)| {
                names.contains(&name).then(|| directory.join(&name))
            });
            let link = path.and_then(|path| std::fs::read_link(self.host.path(&path)).ok());
            match link.as_deref().and_then(Path::file_name) {
                Some(next) => name = next.to_string_lossy().into_owned(),
                None => break,
            }
        }
        if name == "default.target" && !self.has(&name) {
            return true; // nothing is known of it: that most machines come with
        }
        let mut found = BTreeMap::new();
        self.add(&mut found, name, true);
        found.get(target).copied().unwrap_or_default()
    }

    /// The values of a parameter on the kernel's command line.
    fn parameters<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        let words = self.command_line.split_whitespace();
        words.filter_map(move |word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// True of a unit that the kernel's command line masks, or an empty file of its name.
    pub(super) fn is_masked(&self, name: &str) -> bool {
        let is_empty = |(_, text): (PathBuf, String)| text.trim().is_empty();
        self.is_masked_by_kernel(name) || self.file_of(&[name]).is_some_and(is_empty)
    }

    fn is_masked_by_kernel(&self, name: &str) -> bool {
        let mut masked = self.parameters("systemd.mask");
        masked.any(|mask| mask == name || name.strip_suffix(".service") == Some(mask))
    }

    /// The file that counts of those of these names, and its text.
    fn file_of(&self, names: &[&str]) -> Option<(PathBuf, String)> {
        let file = names.iter().find_map(|name| {
            let mut listed = self.listed.iter();
            listed
                .find(|(_, names)| names.contains(*name))
                .map(|(directory, _)| directory.join(name))
        })?;
        let text = text_of(self.host, &file).unwrap_or_default();
        Some((file, text))
    }

    /// Adds a unit, with all that it wants itself.
    fn add(&self, found: &mut BTreeMap<String, Sure>, name: String, sure: Sure) {
        let mut waiting = vec![(name, sure)];
        while let Some((name, sure)) = waiting.pop() {
            match found.get_mut(&name) {
                Some(known) if *known || !sure => continue,
                Some(known) => *known = true,
                None => _ = found.insert(name.clone(), sure),
            }
            let settings = self.load(&name);
            let starts = name.rsplit_once('.').and_then(|(base, kind)| {
                let kinds = ["timer", "path", "socket"];
                kinds.contains(&kind).then(|| format!("{base}.service"))
            });
            if let Some(service) = starts {
                let own = settings.iter().rfind(|of| {
                    of.section != "Unit" && matches!(of.key.as_str(), "Unit" | "Service")
                });
                let service = own.map_or(service, |setting| setting.value.clone());
                let after_boot = ["OnBootSec", "OnStartupSec", "OnActiveSec"];
                let is_at_boot = settings
                    .iter()
                    .any(|of| after_boot.contains(&of.key.as_str()));
                waiting.push((service, sure && is_at_boot));
            }
            for setting in &settings {
                let wants = ["Wants", "Requires", "BindsTo", "Upholds"];
                if setting.section == "Unit" && wants.contains(&setting.key.as_str()) {
                    let names = setting.value.split_whitespace();
                    waiting.extend(names.map(|wanted| (with_specifiers(wanted, &name), sure)));
                }
            }
        }
    }

    /// The settings of a unit and its drop-ins in the order in which they count; none of one that is not there or masked.
    fn load(&self, name: &str) -> Vec<Setting> {
        let template = template_of(name);
        let names: Vec<&str> = std::iter::once(name).chain(template.as_deref()).collect();
        let mut settings = Vec::new();
        if names.iter().any(|name| self.is_masked_by_kernel(name)) {
            return settings;
        }
        if let Some((file, text)) = self.file_of(&names) {
            if text.trim().is_empty() {
                return settings; // masked
            }
            read(&file, &text, &mut settings);
        } else if !name.ends_with(".target") {
            return settings;
        }
        let mut by_name: BTreeMap<OsString, PathBuf> = BTreeMap::new();
        for directory in drop_ins_of(&names) {
            for (parent, listed) in &self.listed {
                if !listed.contains(&directory) {
                    continue;
                }
                let path = parent.join(&directory);
                for file in files_of(self.host, &[&path.to_string_lossy()], ".conf") {
                    let name = file.file_name().unwrap_or_default().to_owned();
                    by_name.entry(name).or_insert(file);
                }
            }
        }
        for file in by_name.values() {
            let text = text_of(self.host, file).unwrap_or_default();
            read(file, &text, &mut settings);
        }
        settings
    }

    /// What the commands of a service write.
    fn writes_of(&self, place: &FollowedDisk<'_>, name: &str) -> Vec<Write> {
        let settings = self.load(name);
        let is_certain = !settings.iter().any(|of| {
            of.section == "Unit"
                && (of.key.starts_with("Condition") || of.key.starts_with("Assert"))
                && !self.surely_holds(&of.key, &of.value)
        });
        let environment = self.environment(&settings, name);
        let mut commands: Vec<&Setting> = Vec::new();
        for setting in settings.iter().filter(|of| of.section == "Service") {
            let is_start = [
                "ExecCondition",
                "ExecStartPre",
                "ExecStart",
                "ExecStartPost",
            ];
            if is_start.contains(&setting.key.as_str()) {
                if setting.value.is_empty() {
                    commands.retain(|of| of.key != setting.key);
                } else {
                    commands.push(setting);
                }
            }
        }
        let search = search_path(&settings);
        let mut found = Vec::new();
        for command in commands {
            let (rights, are_sure) = rights(&settings, command);
            let environment = Environment {
                rights,
                ..environment.clone()
            };
            for mut words in programs(&with_specifiers(&command.value, name), &environment) {
                if let Some(program) = words.first_mut().filter(|word| !word.contains('/'))
                    && let Some(path) = self.looked_up(program, &search)
                {
                    *program = path;
                }
                let at = (command.file.as_path(), command.line);
                let writes = shell::writes_of_program(place, &words, &environment, at);
                found.extend(writes.into_iter().map(|write| Write {
                    certain: write.certain && is_certain && are_sure,
                    ..write
                }));
            }
        }
        found
    }

    /// The first program of this name in these directories that may be run.
    fn looked_up(&self, program: &str, directories: &[&str]) -> Option<String> {
        let mut paths = directories
            .iter()
            .map(|directory| Path::new(directory).join(program));
        let path =
            paths.find(|path| self.host.path(path).is_file() && is_executable(self.host, path));
        path.map(|path| path.display().to_string())
    }

    /// True of a condition of which the machine's files say that it holds.
    fn surely_holds(&self, key: &str, value: &str) -> bool {
        let is_of_path = matches!(key, "ConditionPathExists" | "AssertPathExists");
        value.is_empty()
            || is_of_path && value.starts_with('/') && self.host.path(Path::new(value)).exists()
    }

    /// What a service's programs find in their environment.
    fn environment(&self, settings: &[Setting], name: &str) -> Environment {
        let mut environment = Environment::default();
        for setting in settings.iter().filter(|of| of.section == "Service") {
            let value = with_specifiers(&setting.value, name);
            match setting.key.as_str() {
                "Environment" if value.is_empty() => environment.variables.clear(),
                "Environment" => {
                    for word in split(&value) {
                        environment.set(&word);
                    }
                }
                "EnvironmentFile" if !value.is_empty() => {
                    let path = Path::new(value.trim_start_matches('-'));
                    match text_of(self.host, path) {
                        Some(text) => {
                            let lines = text.lines().map(str::trim);
                            for line in lines.filter(|line| !line.starts_with(['#', ';'])) {
                                environment.set(&split(line).join(" "));
                            }
                        }
                        None => environment.has_more = true,
                    }
                }
                "PassEnvironment" => environment.has_more = true,
                _ => {}
            }
        }
        environment
    }
}

/// The rights with which a command is started, and whether that is sure.
fn rights(settings: &[Setting], command: &Setting) -> (Rights, Sure) {
    let path = command
        .value
        .trim_start_matches(['-', '@', ':', '+', '!', '|']);
    let prefix = &command.value[..command.value.len() - path.len()];
    if prefix.contains('+') {
        return (Rights::Root, true);
    }
    let of_service = || settings.iter().filter(|of| of.section == "Service");
    let last = |key: &str| {
        let last = of_service().rfind(|of| of.key == key);
        last.map_or("", |setting| setting.value.as_str())
    };
    let is_on = |key: &str| matches!(last(key), "1" | "yes" | "y" | "true" | "t" | "on");
    // The paths of a list; an empty line forgets those before it.
    let paths = |keys: &[&str]| {
        let mut found: Vec<&str> = Vec::new();
        for setting in of_service().filter(|of| keys.contains(&of.key.as_str())) {
            if setting.value.is_empty() {
                found.clear();
            }
            let words = setting.value.split_whitespace();
            found.extend(words.map(|word| word.trim_start_matches(['-', '+'])));
        }
        found
    };
    let is_of_sysfs = |path: &str| {
        let path = path
            .split(':')
            .next()
            .unwrap_or_default()
            .trim_end_matches('/');
        matches!(path, "" | "/sys" | "/sys/devices")
    };
    let closed = paths(&[
        "ReadOnlyPaths",
        "ReadOnlyDirectories",
        "InaccessiblePaths",
        "InaccessibleDirectories",
        "TemporaryFileSystem",
    ]);
    let is_closed = is_on("ProtectKernelTunables") || closed.into_iter().any(is_of_sysfs);
    if is_closed {
        let opened = paths(&["ReadWritePaths", "ReadWriteDirectories", "BindPaths"]);
        let may_be_open = opened.iter().any(|path| path.starts_with("/sys"));
        return if may_be_open {
            (Rights::Root, false)
        } else {
            (Rights::ReadOnly, true)
        };
    }
    let user = last("User");
    let is_root = matches!(user, "" | "root" | "0") && !is_on("DynamicUser");
    let keeps_root = prefix.matches('!').count() == 1
        || is_on("PermissionsStartOnly") && command.key != "ExecStart";
    let has_capability = paths(&["AmbientCapabilities"])
        .iter()
        .any(|name| *name == "CAP_DAC_OVERRIDE" || name.starts_with('~'));
    if is_root || keeps_root || has_capability {
        return (Rights::Root, true);
    }
    if user.contains('%') {
        return (Rights::Root, false);
    }
    (Rights::OfUser, true)
}

impl Environment {
    fn set(&mut self, assignment: &str) {
        if let Some((name, value)) = assignment.split_once('=') {
            self.variables.insert(name.to_owned(), value.to_owned());
        }
    }
}

/// Where systemd looks for a program without a directory (since 239, and since 250 where `ExecSearchPath=` says).
fn search_path(settings: &[Setting]) -> Vec<&str> {
    const ALWAYS: [&str; 6] = [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
    ];
    let mut own = Vec::new();
    for setting in settings {
        if (setting.section.as_str(), setting.key.as_str()) == ("Service", "ExecSearchPath") {
            if setting.value.is_empty() {
                own.clear();
            }
            own.extend(setting.value.split(':').filter(|path| !path.is_empty()));
        }
    }
    if own.is_empty() { ALWAYS.into() } else { own }
}

/// The unit that a rule of udev asks for: an instance of a template is made for the device's path.
pub(super) fn instance_for(name: &str, devpath: &str) -> String {
    match name.split_once("@.") {
        Some((base, kind)) => {
            let path = format!("sys{devpath}");
            let escaped = path.replace('-', "\\x2d").replace('/', "-");
            format!("{base}@{escaped}.{kind}")
        }
        None => name.to_owned(),
    }
}

/// `foo@.service` of `foo@sda.service`.
fn template_of(name: &str) -> Option<String> {
    let (base, rest) = name.split_once('@')?;
    let (_, kind) = rest.rsplit_once('.')?;
    Some(format!("{base}@.{kind}"))
}

/// The directories of a unit's drop-ins, the nearest first: `a-b.service.d`, `a-.service.d`, `service.d`.
fn drop_ins_of(names: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = names.iter().map(|name| format!("{name}.d")).collect();
    for name in names {
        let Some((base, kind)) = name.rsplit_once('.') else {
            continue;
        };
        let dashes = base
            .match_indices('-')
            .map(|(at, _)| at)
            .filter(|at| at + 1 < base.len());
        let mut prefixes: Vec<String> = dashes
            .map(|at| format!("{}.{kind}.d", &base[..=at]))
            .collect();
        prefixes.reverse();
        found.extend(prefixes);
    }
    let kind = names.first().and_then(|name| name.rsplit_once('.'));
    found.extend(kind.map(|(_, kind)| format!("{kind}.d")));
    found
}

/// Adds the settings of a file.
fn read(file: &Path, text: &str, settings: &mut Vec<Setting>) {
    let mut section = String::new();
    let mut continued: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with(['#', ';']) {
            continue; // within a line that is continued, too
        }
        let (number, mut whole) = continued.take().unwrap_or((index + 1, String::new()));
        if let Some(more) = line.strip_suffix('\\') {
            whole.push_str(more);
            whole.push(' ');
            continued = Some((number, whole));
            continue;
        }
        whole.push_str(line);
        let whole = whole.trim();
        if let Some(name) = whole
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            name.clone_into(&mut section);
        } else if let Some((key, value)) = whole.split_once('=') {
            settings.push(Setting {
                section: section.clone(),
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
                file: file.to_owned(),
                line: number,
            });
        }
    }
}

/// A value with systemd's specifiers for this unit.
fn with_specifiers(value: &str, unit: &str) -> String {
    let (base, _) = unit.rsplit_once('.').unwrap_or((unit, ""));
    let (prefix, instance) = base.split_once('@').unwrap_or((base, ""));
    let mut text = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some('%') => text.push('%'),
            Some('i') => text.push_str(instance),
            Some('I') => text.push_str(&unescaped(instance)),
            Some('f') => {
                text.push('/');
                text.push_str(&unescaped(if instance.is_empty() {
                    prefix
                } else {
                    instance
                }));
            }
            Some('j') => text.push_str(prefix.rsplit('-').next().unwrap_or_default()),
            Some('J') => text.push_str(&unescaped(prefix.rsplit('-').next().unwrap_or_default())),
            Some('n') => text.push_str(unit),
            Some('N') => text.push_str(base),
            Some('p') => text.push_str(prefix),
            Some('P') => text.push_str(&unescaped(prefix)),
            _ => text.push(UNKNOWN),
        }
    }
    text
}

/// `dev/my-disk` of `dev-my\x2ddisk`.
fn unescaped(text: &str) -> String {
    let mut found = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let code = rest.strip_prefix("\\x").and_then(|rest| rest.get(..2));
        if let Some(code) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            found.push(char::from(code));
            rest = &rest[4..];
            continue;
        }
        found.push(if c == '-' { '/' } else { c });
        rest = &rest[c.len_utf8()..];
    }
    found
}

/// The programs that a command line of a service starts, each with its arguments.
fn programs(line: &str, environment: &Environment) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut words = split(line).into_iter().peekable();
    while words.peek().is_some() {
        let mut program: Vec<String> = words.by_ref().take_while(|word| word != ";").collect();
        let Some(first) = program.first_mut() else {
            continue;
        };
        let path = first.trim_start_matches(['-', '@', ':', '+', '!', '|']);
        let prefix = &first[..first.len() - path.len()];
        let (is_literal, has_name) = (prefix.contains(':'), prefix.contains('@'));
        *first = path.to_owned();
        if has_name && program.len() > 1 {
            program.remove(1);
        }
        if !is_literal {
            program = program
                .iter()
                .flat_map(|word| expanded(word, environment))
                .collect();
        }
        found.push(program);
    }
    found
}

/// A word with what systemd puts for `${NAME}` anywhere, and for `$NAME` as a word of its own.
fn expanded(word: &str, environment: &Environment) -> Vec<String> {
    let value = |name: &str| match environment.variables.get(name) {
        Some(value) => value.clone(),
        None if environment.has_more => UNKNOWN.to_string(),
        None => String::new(),
    };
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if let Some(name) = word.strip_prefix('$').filter(|name| is_name(name)) {
        return value(name).split_whitespace().map(str::to_owned).collect();
    }
    let mut text = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            text.push('$');
            rest = after;
        } else if let Some((name, after)) = rest
            .strip_prefix('{')
            .and_then(|inner| inner.split_once('}'))
            && is_name(name)
        {
            text.push_str(&value(name));
            rest = after;
        } else {
            text.push('$');
        }
    }
    text.push_str(rest);
    vec![text]
}

/// The words of a line, in quotes or not, as systemd and udev part them.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            _ if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            '\\' => {
                let next = match chars.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('s') => ' ',
                    Some(c @ ('\\' | '"' | '\'' | ';')) => c,
                    Some(c) => {
                        word.get_or_insert_default().push('\\');
                        c
                    }
                    None => '\\',
                };
                word.get_or_insert_default().push(next);
            }
            c if c.is_whitespace() && quote.is_none() => found.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    use crate::policy::matching::disks;
    use crate::system_config::testing::{Disk, machine, write};

    /// What units write into sda: the files of a machine, `NAME -> TARGET` of links, and what rules of udev ask for.
    fn written(files: &[(&str, &str)], asked_for: &[(&str, bool)]) -> Vec<String> {
        written_by(files, asked_for, &|_| {})
    }

    /// The same, with something done to the machine's files before.
    fn written_by(
        files: &[(&str, &str)],
        asked_for: &[(&str, bool)],
        prepare: &dyn Fn(&Path),
    ) -> Vec<String> {
        let (dir, host) = machine(&[Disk::new("sda")]);
        for (name, text) in files {
            match text.strip_prefix("-> ") {
                Some(target) => {
                    let path = dir.path().join(name);
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::os::unix::fs::symlink(target, path).unwrap();
                }
                None => write(dir.path(), name, text),
            }
        }
        prepare(dir.path());
        let disks = disks(&host).unwrap();
        let asked_for: Vec<_> = asked_for
            .iter()
            .map(|(name, sure)| ((*name).to_owned(), *sure))
            .collect();
        let writes = Units::of(&host).writes(&FollowedDisk::of(&host, &disks[0]), &asked_for);
        let told = |write: &Write| {
            let doubt = if write.certain { "" } else { "?" };
            let value = write.value.as_deref().unwrap_or("…");
            format!("{}:{} {value}{doubt}", write.file.display(), write.line)
        };
        writes.iter().map(told).collect()
    }

    const UNIT: &str = "etc/systemd/system/x.service";
    const WANTED: (&str, &str) = (
        "etc/systemd/system/multi-user.target.wants/x.service",
        "-> ../x.service",
    );
    const WRITES: &str =
        "[Service]\nExecStart=/bin/sh -c 'echo bfq > /sys/block/sda/queue/scheduler'\n";

    #[test]
    fn programs_are_started_as_systemd_does() {
        for (service, expected) in [
            (WRITES, vec!["/etc/systemd/system/x.service:2 bfq"]),
            // No shell: it only prints.
            (
                "[Service]\nExecStart=/bin/echo bfq > /sys/block/sda/queue/scheduler\n",
                vec![],
            ),
            (
                "[Service]\nExecStart=-/bin/sh -c \"for d in /sys/block/sd*; do echo bfq > $d/queue/scheduler; \\\n  done\"\n",
                vec!["/etc/systemd/system/x.service:2 bfq"],
            ),
            (
                "[Service]\nEnvironment=S=bfq \"D=sda\"\nExecStart=/bin/sh -c 'echo ${S} > /sys/block/$D/queue/scheduler'\n",
                vec!["/etc/systemd/system/x.service:3 bfq"],
            ),
            (
                "[Service]\nEnvironmentFile=-/etc/nothing\nExecStart=/bin/sh -c 'echo ${S} > /sys/block/sda/queue/scheduler'\n",
                vec!["/etc/systemd/system/x.service:3 …"],
            ),
            (
                "[Unit]\nConditionVirtualization=no\n[Service]\nExecStart=/bin/sh -c 'echo bfq > /sys/block/sda/queue/scheduler'\n",
                vec!["/etc/systemd/system/x.service:4 bfq?"],
            ),
            (
                "[Unit]\nConditionPathExists=/etc\n[Service]\nExecStartPre=/bin/sh -c 'echo bfq > /sys/block/sda/queue/scheduler'\n",
                vec!["/etc/systemd/system/x.service:4 bfq"],
            ),
            (
                "[Service]\nExecStop=/bin/sh -c 'echo bfq > /sys/block/sda/queue/scheduler'\n",
                vec![],
            ),
            (
                "[Service]\nExecStart=/opt/set/it sda 'bfq'\n",
                vec!["/opt/set/it:2 bfq"],
            ),
        ] {
            let script = "#!/bin/sh\necho $2 > /sys/block/$1/queue/scheduler\n";
            let files = [(UNIT, service), WANTED, ("opt/set/it", script)];
            assert_eq!(written(&files, &[]), expected, "{service}");
        }
    }

    #[test]
    fn a_service_writes_what_its_rights_let_it() {
        let command = "/bin/sh -c 'echo bfq > /sys/block/sda/queue/scheduler'";
        let by_sudo = "/usr/bin/sudo /bin/sh -c 'echo bfq > /sys/block/sda/queue/scheduler'";
        for (settings, prefix, command, expected) in [
            ("User=root", "", command, "bfq"),
            ("User=nobody", "", command, ""),
            ("User=nobody\nUser=", "", command, "bfq"),
            ("User=nobody", "+", command, "bfq"),
            ("User=nobody", "-!", command, "bfq"),
            ("User=nobody", "!!", command, ""),
            ("User=nobody", "", by_sudo, "bfq?"),
            ("User=%i", "", command, "bfq?"),
            ("DynamicUser=yes", "", command, ""),
            (
                "User=x\nAmbientCapabilities=CAP_DAC_OVERRIDE",
                "",
                command,
                "bfq",
            ),
            ("ProtectKernelTunables=yes", "", command, ""),
            ("ProtectKernelTunables=yes", "", by_sudo, ""),
            ("ProtectKernelTunables=yes", "+", command, "bfq"),
            (
                "ProtectKernelTunables=yes\nProtectKernelTunables=no",
                "",
                command,
                "bfq",
            ),
            (
                "ProtectKernelTunables=on\nReadWritePaths=/sys/devices",
                "",
                command,
                "bfq?",
            ),
            ("ReadOnlyPaths=/etc -/sys", "", command, ""),
            ("ReadOnlyPaths=/sys\nReadOnlyPaths=", "", command, "bfq"),
            ("ReadOnlyPaths=/etc", "", command, "bfq"),
            ("InaccessiblePaths=/", "", command, ""),
            ("ProtectSystem=strict", "", command, "bfq"),
        ] {
            let service = format!("[Service]\n{settings}\nExecStart={prefix}{command}\n");
            let line = service.lines().count();
            let found = written(&[(UNIT, &service), WANTED], &[]);
            let expected = Some(expected).filter(|value| !value.is_empty());
            let expected = expected.map(|value| format!("/{UNIT}:{line} {value}"));
            assert_eq!(found, Vec::from_iter(expected), "{service}");
        }
    }

    #[test]
    fn what_cannot_be_run_writes_nothing() {
        let unit = "[Service]\nExecStart=/opt/set\n";
        let naming = "[Service]\nExecStart=/opt/set /sys/block/sda/queue/scheduler bfq\n";
        let line = "echo bfq > /sys/block/sda/queue/scheduler\n";
        let script = format!("#!/bin/sh\n{line}");
        let by_shell = "[Service]\nExecStart=/bin/sh /opt/set\n";
        let from_shell = "[Service]\nExecStart=/bin/sh -c /opt/set\n";
        for (unit, text, mode, is_run) in [
            (unit, script.as_str(), 0o755, true),
            (unit, script.as_str(), 0o644, false),
            (unit, line, 0o755, false), // no format that the kernel knows
            (by_shell, line, 0o644, true),
            (from_shell, line, 0o755, true), // a shell reads what the kernel does not know
            (from_shell, line, 0o644, false),
        ] {
            let found = written_by(&[(UNIT, unit), WANTED, ("opt/set", text)], &[], &|root| {
                let mode = std::fs::Permissions::from_mode(mode);
                std::fs::set_permissions(root.join("opt/set"), mode).unwrap();
            });
            assert_eq!(found.len(), usize::from(is_run), "{unit} {mode:o} {text}");
        }
        assert_eq!(
            written(&[(UNIT, naming), WANTED, ("opt/x", "")], &[]),
            [""; 0]
        );
        let elsewhere = written(&[(UNIT, naming), WANTED], &[]);
        assert_eq!(elsewhere.len(), 1, "the tree does not have the directory");
    }

    #[test]
    fn what_the_graphical_system_wants_is_started_where_the_machine_boots_to_it() {
        let wanted = (
            "etc/systemd/system/graphical.target.wants/x.service",
            "-> ../x.service",
        );
        let graphical = "[Unit]\nRequires=multi-user.target\n";
        let targets = [
            ("usr/lib/systemd/system/graphical.target", graphical),
            ("usr/lib/systemd/system/multi-user.target", "[Unit]\n"),
            (
                "usr/lib/systemd/system/mine.target",
                "[Unit]\nWants=graphical.target\n",
            ),
        ];
        let default = "etc/systemd/system/default.target";
        let base = [&targets[..], &[(UNIT, WRITES), wanted]].concat();
        let found = |files: &[(&str, &str)], command_line: &str| {
            written_by(files, &[], &|root| {
                write(root, "proc/cmdline", command_line);
            })
        };
        let (sure, perhaps) = (
            ["/etc/systemd/system/x.service:2 bfq"],
            ["/etc/systemd/system/x.service:2 bfq?"],
        );
        assert_eq!(found(&base, ""), sure);
        for (target, expected) in [
            ("-> /usr/lib/systemd/system/graphical.target", &sure),
            ("-> /usr/lib/systemd/system/multi-user.target", &perhaps),
            ("-> /usr/lib/systemd/system/mine.target", &sure),
        ] {
            let files = [&base[..], &[(default, target)]].concat();
            assert_eq!(found(&files, "quiet"), expected, "{target}");
        }
        let files = [
            &base[..],
            &[(default, "-> /usr/lib/systemd/system/graphical.target")],
        ]
        .concat();
        for (command_line, expected) in [
            ("systemd.unit=multi-user.target quiet", &perhaps[..]),
            ("quiet 3", &perhaps),
            ("quiet 5", &sure),
            ("systemd.mask=x.service", &[]),
            ("systemd.mask=x", &[]),
            ("systemd.mask=y.service", &sure),
            ("rd.systemd.mask=x.service", &sure),
        ] {
            assert_eq!(found(&files, command_line), expected, "{command_line}");
        }
    }

    #[test]
    fn a_bare_name_is_a_program_of_the_search_path() {
        let bare = "[Service]\nExecStart=-set-it sda\n";
        let elsewhere = "[Service]\nExecSearchPath=/opt/a:/opt/b\nExecStart=set-it sda\n";
        let script = "#!/bin/sh\necho bfq > /sys/block/$1/queue/scheduler\n";
        let (local, own) = ("usr/local/bin/set-it", "opt/b/set-it");
        let found = |service, path, is_executable| {
            written_by(&[(UNIT, service), WANTED, (path, script)], &[], &|root| {
                let mode = if is_executable { 0o755 } else { 0o644 };
                let mode = std::fs::Permissions::from_mode(mode);
                std::fs::set_permissions(root.join(path), mode).unwrap();
            })
        };
        assert_eq!(found(bare, local, true), ["/usr/local/bin/set-it:2 bfq"]);
        assert_eq!(found(bare, "sbin/set-it", true), ["/sbin/set-it:2 bfq"]);
        assert_eq!(found(bare, local, false), [""; 0]);
        assert_eq!(found(bare, own, true), [""; 0]);
        assert_eq!(found(elsewhere, own, true), ["/opt/b/set-it:2 bfq"]);
        assert_eq!(found(elsewhere, local, true), [""; 0]);
    }

    #[test]
    fn drop_ins_add_commands_and_forget_those_before() {
        let none = "[Service]\nExecStart=/bin/sh -c 'echo none > /sys/block/sda/queue/scheduler'\n";
        let anew = "[Service]\nExecStart=\nExecStart=/bin/sh -c 'echo kyber > /sys/block/sda/queue/scheduler'\n";
        let base = [(UNIT, WRITES), WANTED];
        let with = |more: &[(&str, &str)]| written(&[&base, more].concat(), &[]);
        let unit = "/etc/systemd/system/x.service:2 bfq";
        let added = "/usr/lib/systemd/system/x.service.d/a.conf:2 none";
        assert_eq!(
            with(&[("usr/lib/systemd/system/x.service.d/a.conf", none)]),
            [unit, added]
        );
        let forgotten = "/etc/systemd/system/service.d/b.conf:3 kyber";
        assert_eq!(
            with(&[("etc/systemd/system/service.d/b.conf", anew)]),
            [forgotten]
        );
        // Of one name that of the first directory counts, and a link to /dev/null masks it.
        let masked = [
            ("usr/lib/systemd/system/x.service.d/a.conf", none),
            ("etc/systemd/system/x.service.d/a.conf", "-> /dev/null"),
        ];
        assert_eq!(with(&masked), [unit]);
        let mask = [
            ("etc/systemd/system/x.service", "-> /dev/null"),
            ("usr/lib/systemd/system/x.service", WRITES),
            WANTED,
        ];
        assert_eq!(written(&mask, &[]), [""; 0]);
    }

    #[test]
    fn what_generators_make_is_started_and_has_its_rank() {
        let link = |by: &'static str| (by, "-> /etc/systemd/system/x.service");
        let sure = ["/etc/systemd/system/x.service:2 bfq"];
        for by in [
            "run/systemd/generator/multi-user.target.wants/x.service",
            "run/systemd/generator.early/multi-user.target.wants/x.service",
            "run/systemd/generator.late/graphical.target.wants/x.service",
        ] {
            assert_eq!(written(&[(UNIT, WRITES), link(by)], &[]), sure, "{by}");
        }
        let places = [
            "etc/systemd/system.control",
            "run/systemd/system.control",
            "run/systemd/transient",
            "run/systemd/generator.early",
            "etc/systemd/system",
            "etc/systemd/system.attached",
            "run/systemd/system",
            "run/systemd/system.attached",
            "run/systemd/generator",
            "usr/local/lib/systemd/system",
            "usr/lib/systemd/system",
            "run/systemd/generator.late",
        ];
        for (rank, first) in places.iter().enumerate() {
            let names: Vec<String> = places[rank..]
                .iter()
                .map(|place| format!("{place}/x.service"))
                .collect();
            let mut files: Vec<(&str, &str)> =
                names.iter().map(|name| (name.as_str(), WRITES)).collect();
            files.push(WANTED);
            assert_eq!(written(&files, &[]), [format!("/{first}/x.service:2 bfq")]);
        }
    }

    #[test]
    fn templates_are_started_for_their_instances() {
        let template =
            "[Service]\nExecStart=/bin/sh -c 'echo bfq > /sys/block/%i/queue/scheduler'\n";
        let file = ("usr/lib/systemd/system/set@.service", template);
        let bfq = ["/usr/lib/systemd/system/set@.service:2 bfq"];
        let wants = |name: &'static str| (name, "-> /usr/lib/systemd/system/set@.service");
        let of = |name| written(&[file, wants(name)], &[]);
        assert_eq!(
            of("etc/systemd/system/multi-user.target.wants/set@sda.service"),
            bfq
        );
        assert_eq!(
            of("etc/systemd/system/dev-sda.device.wants/set@sda.service"),
            bfq
        );
        assert_eq!(
            of("etc/systemd/system/multi-user.target.wants/set@sdb.service"),
            [""; 0]
        );
        let drop_in = (
            "etc/systemd/system/set@.service.d/x.conf",
            "[Service]\nExecStart=\nExecStart=/bin/sh -c 'echo none > /sys/block/%I/queue/scheduler'\n",
        );
        let files = [
            file,
            drop_in,
            wants("etc/systemd/system/multi-user.target.wants/set@sda.service"),
        ];
        assert_eq!(
            written(&files, &[]),
            ["/etc/systemd/system/set@.service.d/x.conf:3 none"]
        );
        // As rules of udev ask for them.
        assert_eq!(written(&[file], &[("set@sda.service", true)]), bfq);
        let by_path = "[Service]\nExecStart=/bin/sh -c 'echo bfq > %f/queue/scheduler'\n";
        let file = ("usr/lib/systemd/system/set@.service", by_path);
        let name = instance_for("set@.service", "/block/sda");
        assert_eq!(name, "set@sys-block-sda.service");
        assert_eq!(
            written(&[file], &[(&name, false)]),
            ["/usr/lib/systemd/system/set@.service:2 bfq?"]
        );
    }

    #[test]
    fn what_is_started_by_others_is_found_and_what_comes_with_sleep_is_in_doubt() {
        let sure = ["/etc/systemd/system/x.service:2 bfq"];
        let perhaps = ["/etc/systemd/system/x.service:2 bfq?"];
        let with = |name, text| written(&[(UNIT, WRITES), (name, text)], &[]);
        assert_eq!(with("etc/x", ""), [""; 0]);
        assert_eq!(
            with(
                "etc/systemd/system/multi-user.target.d/x.conf",
                "[Unit]\nWants=x.service\n"
            ),
            sure
        );
        assert_eq!(
            with(
                "etc/systemd/system/suspend.target.wants/x.service",
                "-> ../x.service"
            ),
            perhaps
        );
        let timer = |text| {
            let wanted = (
                "etc/systemd/system/timers.target.wants/x.timer",
                "-> ../x.timer",
            );
            written(
                &[(UNIT, WRITES), wanted, ("etc/systemd/system/x.timer", text)],
                &[],
            )
        };
        assert_eq!(timer("[Timer]\nOnBootSec=1min\n"), sure);
        assert_eq!(timer("[Timer]\nOnCalendar=daily\n"), perhaps);
        assert_eq!(timer("[Timer]\nOnBootSec=1\nUnit=y.service\n"), [""; 0]);
        let other = (
            "etc/systemd/system/y.service",
            "[Unit]\nRequires=x.service\n[Service]\nExecStart=/bin/true\n",
        );
        let wanted = (
            "etc/systemd/system/basic.target.requires/y.service",
            "-> ../y.service",
        );
        assert_eq!(written(&[(UNIT, WRITES), other, wanted], &[]), sure);
    }
}
