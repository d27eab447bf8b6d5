//! Programs known to set schedulers, by their configuration: TuneD, TLP, saptune, sapconf, the guest agent of
//! Google's cloud; and the kernel's own command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iosched_machine::host::Host;
use iosched_switch as switch;

use super::inits::is_started;
use super::services::{of_kind, target_of};
use super::shell::{self, Environment, FollowedDisk};
use super::systemd::Units;
use super::{Writer, WriterKind, files_of, text_of};
use crate::policy::matching::KnownDisk;
use crate::system_config::pattern::is_like;
use crate::system_config::{cmdline, tuned};

const SCHEDULER: &str = "queue/scheduler";

/// All of them but the command line.
pub(super) fn writers(host: &Host, units: &Units<'_>, disk: &KnownDisk) -> Vec<Writer> {
    let is_started = |name| is_started(host, units, name);
    let mut found = Vec::new();
    if is_started("tlp") || is_started("tlp-init") {
        found.extend(tlp(host, disk));
    }
    if is_started("saptune") {
        found.extend(saptune(host, disk));
    }
    if is_started("sapconf") {
        found.extend(sapconf(host, disk));
    }
    if is_started("google-guest-agent") {
        found.extend(guest_agent(host));
    }
    if is_started("tuned") || runs_tuned(host) {
        found.extend(tuned(host, disk));
    }
    found
}

fn sets_scheduler(kind: WriterKind, file: &Path, line: usize, value: &str) -> Writer {
    Writer {
        kind,
        file: file.into(),
        line,
        target: SCHEDULER.into(),
        value: Some(value.into()),
        certain: true,
        depends_on_shell: false,
        is_refused: false,
    }
}

/// `elevator=` where the disk listens to it: one on the single-queue path that has a scheduler of this name. Of
/// another name the kernel says that it is not found, and keeps its default.
pub(super) fn command_line(host: &Host, disk: &KnownDisk) -> Vec<Writer> {
    let offered = disk.device.schedulers.offered();
    let value = cmdline::given_at_boot(host)
        .filter(|value| switch::is_single_queue(offered) && offered.contains(value));
    let place = Path::new("/proc/cmdline");
    value
        .map(|value| sets_scheduler(WriterKind::CommandLine, place, 0, &value))
        .into_iter()
        .collect()
}

/// Lines `NAME="value"` or `NAME=value`, with the number of each, from 1.
fn assignments(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let line = line.split(" #").next().unwrap_or(line).trim();
        let (name, value) = line.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        (!line.starts_with(['#', ';'])).then_some((index + 1, name.trim(), value))
    })
}

/// `DISK_DEVICES` and `DISK_IOSCHED`, word by word; `keep` leaves a disk alone. Before 1.3 all was in `/etc/default/tlp`,
/// which later ones read where there is no `/etc/tlp.conf`.
fn tlp(host: &Host, disk: &KnownDisk) -> Vec<Writer> {
    let own = ["/etc/tlp.conf", "/etc/default/tlp"];
    let own = own
        .into_iter()
        .find(|file| host.path(Path::new(file)).exists());
    let mut files = files_of(host, &["/etc/tlp.d"], ".conf");
    files.extend(own.map(PathBuf::from)); // read last: it wins
    let mut devices = vec!["nvme0n1".to_owned(), "sda".to_owned()]; // TLP's own default
    let mut schedulers: Option<(PathBuf, usize, Vec<String>)> = None;
    let mut is_on = true;
    for file in files {
        let text = text_of(host, &file).unwrap_or_default();
        for (line, name, value) in assignments(&text) {
            let words = || value.split_whitespace().map(str::to_owned);
            let before = schedulers.take();
            schedulers = match (name, before) {
                ("DISK_IOSCHED", _) => Some((file.clone(), line, words().collect())),
                ("DISK_IOSCHED+", before) => {
                    let before = before.map_or_else(Vec::new, |(_, _, words)| words);
                    Some((
                        file.clone(),
                        line,
                        before.into_iter().chain(words()).collect(),
                    ))
                }
                (_, before) => before,
            };
            match name {
                "DISK_DEVICES" => devices = words().collect(),
                "DISK_DEVICES+" => devices.extend(words()),
                "TLP_ENABLE" => is_on = value != "0",
                _ => {}
            }
        }
    }
    if !is_on {
        return Vec::new();
    }
    let Some((file, line, values)) = schedulers else {
        return Vec::new();
    };
    let is_meant = |name: &str| {
        let id = name.split_once('-').map_or(name, |(_, id)| id); // `ata-MODEL_SERIAL`
        name == disk.device.name || disk.properties.get("ID_SERIAL") == Some(id)
    };
    let value = devices
        .iter()
        .position(|name| is_meant(name))
        .and_then(|index| values.get(index))
        .filter(|value| *value != "keep");
    value
        .map(|value| sets_scheduler(WriterKind::Tlp, &file, line, value))
        .into_iter()
        .collect()
}

/// `IO_SCHEDULER` of the applied notes: the first in the list that the disk offers.
fn saptune(host: &Host, disk: &KnownDisk) -> Vec<Writer> {
    let settings = text_of(host, Path::new("/etc/sysconfig/saptune")).unwrap_or_default();
    let notes = assignments(&settings)
        .filter(|(_, name, _)| *name == "NOTE_APPLY_ORDER")
        .flat_map(|(_, _, value)| value.split_whitespace());
    let mut found = Vec::new();
    for note in notes {
        // What an override sets, the note itself does not.
        let file = [
            "/etc/saptune/override",
            "/var/lib/saptune/working/notes",
            "/usr/share/saptune/notes",
        ]
        .iter()
        .map(|directory| Path::new(directory).join(note))
        .find(|file| {
            text_of(host, file)
                .is_some_and(|text| assignments(&text).any(|(_, name, _)| name == "IO_SCHEDULER"))
        });
        let Some(file) = file else { continue };
        found.extend(first_offered(host, disk, WriterKind::Saptune, &file));
    }
    found
}

/// `IO_SCHEDULER` of sapconf 5, which takes the first in the list that the disk offers; sapconf 4 is a profile of TuneD.
fn sapconf(host: &Host, disk: &KnownDisk) -> Vec<Writer> {
    let file = Path::new("/etc/sysconfig/sapconf");
    let mut found = first_offered(host, disk, WriterKind::Sapconf, file);
    found.drain(..found.len().saturating_sub(1)); // a shell reads it: the last line counts
    found
}

/// Of each `IO_SCHEDULER` in a file the first scheduler that the disk offers.
fn first_offered(host: &Host, disk: &KnownDisk, kind: WriterKind, file: &Path) -> Vec<Writer> {
    let text = text_of(host, file).unwrap_or_default();
    let offered = disk.device.schedulers.offered();
    let lines = assignments(&text).filter(|(_, name, _)| *name == "IO_SCHEDULER");
    let chosen = lines.filter_map(|(line, _, value)| {
        let name = names_in(value).find(|name| offered.iter().any(|offer| offer == name))?;
        Some(sets_scheduler(kind, file, line, name))
    });
    chosen.collect()
}

/// Google's agent sets `none` on every disk when it starts.
fn guest_agent(host: &Host) -> Vec<Writer> {
    let unit = Path::new("google-guest-agent.service");
    let file = [
        "/usr/lib/systemd/system",
        "/lib/systemd/system",
        "/etc/systemd/system",
    ]
    .iter()
    .map(|directory| Path::new(directory).join(unit))
    .find(|file| host.path(file).exists());
    file.map(|file| sets_scheduler(WriterKind::GuestAgent, &file, 0, "none"))
        .into_iter()
        .collect()
}

/// The profiles in force. Ours gives a disk a section that comes before all others.
fn tuned(host: &Host, disk: &KnownDisk) -> Vec<Writer> {
    let Some(active) = text_of(host, Path::new("/etc/tuned/active_profile")) else {
        return Vec::new();
    };
    let is_ours = active.split_whitespace().any(|name| name == tuned::PROFILE);
    let own = is_ours.then(|| own_section(host, disk)).flatten();
    by_sections(host, &active, disk, own)
}

/// True if TuneD is started at boot, or runs.
pub(super) fn tuned_runs(host: &Host) -> bool {
    runs_tuned(host) || is_started(host, &Units::of(host), "tuned")
}

fn runs_tuned(host: &Host) -> bool {
    host.run("tuned/tuned.pid").exists()
}

/// What profiles write, with all that they include: sections of one name are one, whose later settings win but for
/// whom they are for, which the last one says alone (TuneD's merger and manager).
pub(super) fn tuned_writers(host: &Host, profiles: &str, disk: &KnownDisk) -> Vec<Writer> {
    by_sections(host, profiles, disk, None)
}

/// The same, where a section may have taken the disk before all others.
fn by_sections(host: &Host, profiles: &str, disk: &KnownDisk, own: Option<Writer>) -> Vec<Writer> {
    let mut sections = Vec::new();
    for profile in names_in(profiles) {
        read_profile(host, profile, 0, &mut sections);
    }
    let variables = sections.iter().find(|section| section.name == "variables");
    let mut by_priority: Vec<&Section> = sections.iter().collect();
    by_priority.sort_by_key(|section| section.priority());
    // The first section of disks takes a disk, and no other one of them gets it.
    let mut is_taken = own.is_some();
    let mut found = Vec::from_iter(own);
    for section in by_priority
        .into_iter()
        .filter(|section| section.is_enabled())
    {
        match section.plugin() {
            "disk" if !is_taken && section.is_for(&disk.device.name) => {
                found.extend(section.writers(variables));
                is_taken = !section.is_by_regex();
            }
            "sysfs" => found.extend(section.writers_of_paths(variables, disk)),
            "script" => found.extend(section.writers_of_scripts(host, disk)),
            _ => {}
        }
    }
    found
}

fn names_in(list: &str) -> impl Iterator<Item = &str> {
    list.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|name| !name.is_empty())
}

/// The section of our own profile for a disk.
fn own_section(host: &Host, disk: &KnownDisk) -> Option<Writer> {
    let (file, text) = tuned_file(host, tuned::PROFILE)?;
    let regex = tuned::regex(disk.identities.first()?);
    let mut lines = assignments(&text);
    lines.find(|(_, name, value)| *name == "devices_udev_regex" && *value == regex)?;
    let (line, _, value) = lines.find(|(_, name, _)| *name == "elevator")?;
    Some(sets_scheduler(WriterKind::Tuned, &file, line, value))
}

/// Adds a profile's sections to those of the profiles that it includes.
fn read_profile(host: &Host, profile: &str, depth: usize, sections: &mut Vec<Section>) {
    const DEEPEST: usize = 8; // profiles that include each other
    let Some((file, text)) = tuned_file(host, profile).filter(|_| depth < DEEPEST) else {
        return;
    };
    for (_, name, value) in assignments(&text) {
        if name == "include" {
            for included in names_in(value) {
                read_profile(host, included, depth + 1, sections);
            }
        }
    }
    let mut own: Vec<Section> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[') {
            own.push(Section::named(name.trim_end_matches(']')));
        } else if let Some((_, option, value)) = assignments(line).next()
            && let Some(section) = own.last_mut()
        {
            let directory = file.parent().unwrap_or(Path::new("/"));
            let value = value.replace("${i:PROFILE_DIR}", &directory.to_string_lossy());
            let setting = Setting {
                file: file.clone(),
                line: index + 1,
                value,
            };
            if option == "script" {
                let path = directory.join(&setting.value).display().to_string();
                section.scripts = vec![Setting {
                    value: path,
                    ..setting
                }];
            } else {
                section.options.insert(option.to_owned(), setting);
            }
        }
    }
    for section in own {
        let known = sections.iter_mut().find(|known| known.name == section.name);
        match known {
            Some(known) => known.merge(section),
            None => sections.push(section),
        }
    }
}

/// The file of a profile, and its text.
fn tuned_file(host: &Host, profile: &str) -> Option<(PathBuf, String)> {
    [
        "/etc/tuned/profiles",
        "/etc/tuned",
        "/usr/lib/tuned/profiles",
        "/usr/lib/tuned",
    ]
    .iter()
    .map(|directory| Path::new(directory).join(profile).join("tuned.conf"))
    .find_map(|file| {
        let text = text_of(host, &file)?;
        Some((file, text))
    })
}

/// A section of a profile.
struct Section {
    name: String,
    options: BTreeMap<String, Setting>,
    /// Those of all profiles, one after the other, in the section `script`; the last one in another.
    scripts: Vec<Setting>,
}

/// Where a profile sets an option, and to what.
struct Setting {
    file: PathBuf,
    line: usize,
    value: String,
}

impl Section {
    fn named(name: &str) -> Section {
        Section {
            name: name.to_owned(),
            options: BTreeMap::new(),
            scripts: Vec::new(),
        }
    }

    fn value(&self, option: &str) -> Option<&str> {
        self.options
            .get(option)
            .map(|setting| setting.value.as_str())
    }

    /// Takes over what a later section of this name says.
    fn merge(&mut self, later: Section) {
        const OF_LATER_ALONE: [&str; 4] = ["type", "enabled", "devices", "devices_udev_regex"];
        if later.value("replace").is_some_and(is_on) {
            self.options.clear();
            self.scripts.clear();
        }
        let dropped: Vec<&str> = later
            .value("drop")
            .map_or_else(Vec::new, |list| names_in(list).collect());
        self.options.retain(|name, _| {
            !OF_LATER_ALONE.contains(&name.as_str()) && !dropped.contains(&name.as_str())
        });
        self.options.extend(later.options);
        if self.name != "script" && !later.scripts.is_empty() {
            self.scripts.clear();
        }
        self.scripts.extend(later.scripts);
    }

    fn is_by_regex(&self) -> bool {
        self.options.contains_key("devices_udev_regex")
    }

    fn priority(&self) -> i64 {
        let priority = self.value("priority").and_then(|value| value.parse().ok());
        priority.unwrap_or(0)
    }

    fn is_for(&self, device: &str) -> bool {
        self.value("devices").is_none_or(|devices| {
            let is_taken = names_in(devices).any(|name| is_like(name, device));
            let is_left_out = names_in(devices)
                .filter_map(|name| name.strip_prefix('!'))
                .any(|name| is_like(name, device));
            is_taken && !is_left_out
        })
    }

    fn is_enabled(&self) -> bool {
        self.value("enabled").is_none_or(is_on)
    }

    /// Which of TuneD's plugins it is for.
    fn plugin(&self) -> &str {
        self.value("type").unwrap_or(&self.name)
    }

    /// What it writes into a disk's queue.
    fn writers(&self, variables: Option<&Section>) -> Vec<Writer> {
        let writer = |option: &str, target: &str, value: fn(&str) -> Option<String>| {
            let setting = self.options.get(option)?;
            Some(Writer {
                target: target.into(),
                value: with_variables(&setting.value, variables).and_then(|text| value(&text)),
                certain: !self.is_by_regex(),
                ..sets_scheduler(WriterKind::Tuned, &setting.file, setting.line, "")
            })
        };
        let scheduler = writer("elevator", SCHEDULER, |name| Some(name.to_owned()));
        let read_ahead = writer("readahead", "queue/read_ahead_kb", read_ahead_kb);
        scheduler.into_iter().chain(read_ahead).collect()
    }

    /// What a section of files of sysfs, `/sys/block/sd*/queue/scheduler=bfq`, writes into those of a disk.
    fn writers_of_paths(&self, variables: Option<&Section>, disk: &KnownDisk) -> Vec<Writer> {
        let of_disk = |(path, setting): (&String, &Setting)| {
            let (_, below) = path
                .strip_prefix("/sys")
                .and_then(|path| path.rsplit_once("/block/"))?;
            Some(Writer {
                target: target_of(below, &disk.device.name)?.to_owned(),
                value: with_variables(&setting.value, variables),
                ..sets_scheduler(WriterKind::Tuned, &setting.file, setting.line, "")
            })
        };
        self.options.iter().filter_map(of_disk).collect()
    }

    /// What the scripts of a section write as the profile comes into force.
    fn writers_of_scripts(&self, host: &Host, disk: &KnownDisk) -> Vec<Writer> {
        let place = FollowedDisk::of(host, disk);
        let environment = Environment {
            has_more: true, // the profile's variables, and those of the daemon
            ..Environment::default()
        };
        let mut found = Vec::new();
        for script in &self.scripts {
            let words = [script.value.clone(), "start".to_owned()];
            let at = (script.file.as_path(), script.line);
            let writes = shell::writes_of_program(&place, &words, &environment, at);
            found.extend(of_kind(WriterKind::Tuned, writes));
        }
        found
    }
}

/// False of what TuneD takes for off.
fn is_on(value: &str) -> bool {
    let value = value.to_lowercase();
    !["0", "f", "false", "n", "no"].contains(&value.as_str())
}

/// The value with what its variables hold; nothing if that is not known.
fn with_variables(value: &str, variables: Option<&Section>) -> Option<String> {
    const DEEPEST: usize = 8; // variables that name each other
    let mut value = value.to_owned();
    for _ in 0..DEEPEST {
        let Some(start) = value.find("${") else {
            return Some(value);
        };
        let length = value[start..].find('}')?;
        let name = &value[start + 2..start + length];
        let held = variables?.value(name)?.to_owned();
        value.replace_range(start..=start + length, &held);
    }
    None
}

/// KiB of a read-ahead as TuneD takes it: a number of them, or of sectors (`4096 s`), also as the least that it is to
/// be (`>4096`). Nothing of what is none of these.
fn read_ahead_kb(value: &str) -> Option<String> {
    let (least, number) = match value.strip_prefix('>') {
        Some(number) => (">", number),
        None => ("", value),
    };
    let kib = match number.split_once(char::is_whitespace) {
        Some((sectors, "s")) => sectors.parse::<u64>().ok()? / 2,
        _ => number.parse().ok()?,
    };
    Some(format!("{least}{kib}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::matching::disks;
    use crate::system_config::testing::{Disk, machine, write};

    const SDA: &str = "/sys/block/sda/queue/scheduler";

    /// What the profile `child`, which includes `parent`, writes into a disk.
    fn written(parent: &str, child: &str, device: &str) -> Vec<String> {
        let (dir, host) = machine(&[Disk::new(device)]);
        for (name, value) in [("usr/lib/tuned/parent", "bfq"), ("etc/tuned/child", "none")] {
            let script = format!("#!/bin/sh\n[ $1 = start ] && echo {value} > {SDA}\n");
            write(dir.path(), &format!("{name}/s.sh"), &script);
        }
        write(dir.path(), "usr/lib/tuned/parent/tuned.conf", parent);
        let child = format!("[main]\ninclude=parent\n{child}");
        write(dir.path(), "etc/tuned/child/tuned.conf", &child);
        let disk = &disks(&host).unwrap()[0];
        let writers = tuned_writers(&host, "child", disk).into_iter();
        writers
            .map(|writer| {
                let value = writer.value.as_deref().unwrap_or("?");
                let target = writer.target.trim_start_matches("queue/");
                format!("{target}={value}")
            })
            .collect()
    }

    #[test]
    fn sections_of_one_name_are_one_over_all_profiles() {
        let parent = "[disk]\nelevator=kyber\nreadahead=>4096\n";
        for (child, device, expected) in [
            ("", "sda", vec!["scheduler=kyber", "read_ahead_kb=>4096"]),
            ("[disk]\ndevices=sdb\n", "sda", vec![]),
            ("[disk]\nenabled=0\n", "sda", vec![]),
            (
                "[disk]\nelevator=bfq\nreadahead=512\n",
                "sda",
                vec!["scheduler=bfq", "read_ahead_kb=512"],
            ),
            (
                "[mine]\ntype=disk\nelevator=none\nreadahead=4096 s\n",
                "sda",
                vec!["scheduler=kyber", "read_ahead_kb=>4096"],
            ),
            (
                "[mine]\ntype=disk\npriority=-1\nelevator=none\nreadahead=4096 s\n",
                "sda",
                vec!["scheduler=none", "read_ahead_kb=2048"],
            ),
            (
                "[disk]\nreplace=1\nreadahead=8\n",
                "sda",
                vec!["read_ahead_kb=8"],
            ),
            ("[disk]\ndrop=readahead\n", "sda", vec!["scheduler=kyber"]),
        ] {
            assert_eq!(written(parent, child, device), expected, "{child:?}");
        }
    }

    /// Whom a section is for, TuneD takes from the last one alone.
    #[test]
    fn a_later_section_without_devices_is_for_all() {
        let parent = "[disk]\ndevices=sdb\nelevator=kyber\n";
        assert!(written(parent, "", "sda").is_empty());
        let child = "[disk]\nreadahead=512\n";
        let all = ["scheduler=kyber", "read_ahead_kb=512"];
        assert_eq!(written(parent, child, "sda"), all);
    }

    #[test]
    fn variables_are_followed_as_far_as_they_are_known() {
        let parent = "[variables]\nelv=kyber\n[disk]\nelevator=${elv}\n";
        assert_eq!(written(parent, "", "sda"), ["scheduler=kyber"]);
        let child = "[variables]\nname=bfq\nelv=${name}\n";
        assert_eq!(written(parent, child, "sda"), ["scheduler=bfq"]);
        for unknown in [
            "[variables]\nelv=${f:exec:x}\n",
            "[variables]\nelv=${elv}\n",
        ] {
            assert_eq!(written(parent, unknown, "sda"), ["scheduler=?"]);
        }
    }

    #[test]
    fn files_of_sysfs_and_scripts_are_followed() {
        for (parent, child, expected) in [
            (format!("[sysfs]\n{SDA}=bfq\n"), "", vec!["scheduler=bfq"]),
            (
                "[x]\ntype=sysfs\n/sys/class/block/sd*/queue/nr_requests=${n}\n".to_owned(),
                "[variables]\nn=64\n",
                vec!["nr_requests=64"],
            ),
            (
                format!("[sysfs]\n{SDA}=bfq\n"),
                "[sysfs]\nenabled=false\n",
                vec![],
            ),
            (
                format!("[sysfs]\n{}=bfq\n", SDA.replace("sda", "sdb")),
                "",
                vec![],
            ),
            (
                "[script]\nscript=s.sh\n".to_owned(),
                "",
                vec!["scheduler=bfq"],
            ),
            // Those of all profiles run.
            (
                "[script]\nscript=${i:PROFILE_DIR}/s.sh\n".to_owned(),
                "[script]\nscript=${i:PROFILE_DIR}/s.sh\n",
                vec!["scheduler=bfq", "scheduler=none"],
            ),
            (
                "[script]\nscript=s.sh\n".to_owned(),
                "[script]\nreplace=1\nscript=s.sh\n",
                vec!["scheduler=none"],
            ),
            (
                format!("[disk]\nelevator=kyber\n[sysfs]\n{SDA}=bfq\n"),
                "",
                vec!["scheduler=kyber", "scheduler=bfq"],
            ),
        ] {
            assert_eq!(written(&parent, child, "sda"), expected, "{parent}{child}");
        }
    }
}
