//! Writers that the boot starts: `tmpfiles.d`, units of systemd, `sysfs.conf`, the boot scripts of old, of OpenRC and cron, mdev
//! and cloud-init.

use std::path::{Path, PathBuf};

use iosched_machine::host::Host;
use iosched_machine::sysfs::sysfs_name;

use super::inits::{is_started, links_of_init, services_of_openrc};
use super::shell::{self, FollowedDisk, Write};
use super::systemd::{KNOWN, Sure, Units};
use super::{Writer, WriterKind, cloud, cron, files_of, is_executable, mdev, text_of};
use crate::policy::matching::KnownDisk;
use crate::system_config::pattern::is_like;

/// Scripts that the boot runs at its end.
const BOOT_SCRIPTS: [&str; 4] = [
    "/etc/rc.local",
    "/etc/rc.d/rc.local",
    "/etc/init.d/boot.local",
    "/etc/init.d/after.local",
];

/// All of them, in the order in which they come; rules of udev ask for some units.
pub(super) fn writers(
    host: &Host,
    units: &Units<'_>,
    disk: &KnownDisk,
    asked_for: &[(String, Sure)],
) -> Vec<Writer> {
    let place = FollowedDisk::of(host, disk);
    let mut of_units = units.writes(&place, asked_for);
    let of_scripts = boot_scripts(host, units, &place);
    // systemd starts rc.local by a unit.
    of_units.retain(|unit| {
        let is_same = |script: &Write| {
            let of = |write: &Write| (write.file.clone(), write.line, write.target.clone());
            of(script) == of(unit) && (script.certain || !unit.certain)
        };
        !of_scripts.iter().any(is_same)
    });
    let mut found = tmpfiles(host, &disk.device.name);
    found.extend(of_kind(WriterKind::Unit, of_units));
    if ["sysfsutils", "sysfsconf"]
        .iter()
        .any(|name| is_started(host, units, name))
    {
        found.extend(sysfs_conf(host, &disk.device.name));
    }
    found.extend(of_kind(WriterKind::BootScript, of_scripts));
    let by_mdev = mdev::writes(host, units, &place, disk);
    found.extend(of_kind(WriterKind::Mdev, by_mdev));
    found.extend(of_kind(
        WriterKind::CloudInit,
        cloud::writes(host, units, &place),
    ));
    found
}

/// What the scripts of all inits write, in their order.
fn boot_scripts(host: &Host, units: &Units<'_>, place: &FollowedDisk<'_>) -> Vec<Write> {
    let mut of_scripts = init_scripts(host, units, place);
    of_scripts.extend(openrc_scripts(host, place));
    for script in BOOT_SCRIPTS {
        let path = Path::new(script);
        // Some distributions link one to the other.
        if !host.path(path).is_symlink() {
            let writes = shell::writes_of_script(place, path, &["start"], &[]);
            let is_of_suse = script.starts_with("/etc/init.d/"); // read, whether it may be run or not
            let runs =
                is_of_suse || is_executable(host, path) && !is_left_by_systemd(host, units, path);
            of_scripts.extend(writes.into_iter().filter(|_| runs));
        }
    }
    of_scripts.extend(cron::writes(host, place));
    of_scripts
}

/// True of an `rc.local` that systemd starts by a unit, where that is masked or the kernel does not know how to run it.
fn is_left_by_systemd(host: &Host, units: &Units<'_>, path: &Path) -> bool {
    let mut names = ["rc-local.service", "rc.local.service"].into_iter();
    let has_interpreter = || text_of(host, path).is_some_and(|text| text.starts_with("#!"));
    names.any(|name| units.has(name) && (units.is_masked(name) || !has_interpreter()))
}

pub(super) fn of_kind(kind: WriterKind, writes: Vec<Write>) -> impl Iterator<Item = Writer> {
    writes.into_iter().map(move |write| Writer {
        kind,
        file: write.file,
        line: write.line,
        target: write.target,
        value: write.value,
        certain: write.certain,
        depends_on_shell: write.depends_on_shell,
        is_refused: false,
    })
}

/// Lines `w /sys/block/sda/queue/scheduler - - - - bfq`.
fn tmpfiles(host: &Host, device: &str) -> Vec<Writer> {
    let directories = [
        "/etc/tmpfiles.d",
        "/run/tmpfiles.d",
        "/usr/local/lib/tmpfiles.d",
        "/usr/lib/tmpfiles.d",
    ];
    let mut found = Vec::new();
    for file in files_of(host, &directories, ".conf") {
        let text = text_of(host, &file).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [kind, path, _, _, _, _, value] = words[..] else {
                continue;
            };
            let below = ["/sys/block/", "/sys/class/block/"]
                .iter()
                .find_map(|prefix| path.strip_prefix(prefix));
            let of_disk = below.and_then(|below| target_of(below, device));
            if let Some(target) = of_disk.filter(|_| kind.starts_with('w')) {
                found.push(writer(WriterKind::Tmpfiles, &file, index, target, value));
            }
        }
    }
    found
}

/// Lines `block/sda/queue/scheduler = bfq` of `/etc/sysfs.conf` and `/etc/sysfs.d`.
fn sysfs_conf(host: &Host, device: &str) -> Vec<Writer> {
    let mut files = vec![PathBuf::from("/etc/sysfs.conf")];
    files.extend(files_of(host, &["/etc/sysfs.d"], ".conf"));
    let mut found = Vec::new();
    for file in files {
        let text = text_of(host, &file).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((attribute, value)) = line.split_once('=') else {
                continue;
            };
            // `mode` and `owner` have a word before the attribute.
            let attribute = attribute.trim().trim_start_matches('/');
            let below = attribute
                .strip_prefix("block/")
                .or_else(|| attribute.strip_prefix("class/block/"));
            if let Some(target) = below.and_then(|below| target_of(below, device)) {
                let value = value.trim();
                found.push(writer(WriterKind::Sysfsutils, &file, index, target, value));
            }
        }
    }
    found
}

/// What `sd*/queue/scheduler` names of this device; nothing if it is for others.
pub(super) fn target_of<'a>(path: &'a str, device: &str) -> Option<&'a str> {
    let (name, target) = path.split_once('/')?;
    is_like(name, &sysfs_name(device)).then_some(target)
}

fn writer(kind: WriterKind, file: &Path, index: usize, target: &str, value: &str) -> Writer {
    Writer {
        kind,
        file: file.to_owned(),
        line: index + 1,
        target: target.to_owned(),
        value: Some(value.to_owned()),
        certain: true,
        depends_on_shell: false,
        is_refused: false,
    }
}

/// The scripts of `/etc/init.d` that are started and have no unit of systemd in their place.
fn init_scripts(host: &Host, units: &Units<'_>, place: &FollowedDisk<'_>) -> Vec<Write> {
    let mut seen = std::collections::BTreeSet::new();
    let mut found = Vec::new();
    for (name, link) in links_of_init(host) {
        let is_known = KNOWN.contains(&name.as_str()) || units.has(&format!("{name}.service"));
        if is_known || !seen.insert(name.clone()) {
            continue;
        }
        let directories = ["/etc/init.d", "/etc/rc.d/init.d"];
        let scripts = directories
            .iter()
            .map(|directory| Path::new(directory).join(&name));
        let script = scripts
            .into_iter()
            .find(|script| host.path(script).exists());
        let script = script.unwrap_or(link);
        if is_executable(host, &script) && !units.is_masked(&format!("{name}.service")) {
            found.extend(shell::writes_of_script(place, &script, &["start"], &[]));
        }
    }
    found
}

/// The services of OpenRC's run levels; that called `local` runs `/etc/local.d/*.start`.
fn openrc_scripts(host: &Host, place: &FollowedDisk<'_>) -> Vec<Write> {
    let mut found = Vec::new();
    for name in services_of_openrc(host) {
        if name == "local" {
            for script in files_of(host, &["/etc/local.d"], ".start") {
                if is_executable(host, &script) {
                    found.extend(shell::writes_of_script(place, &script, &[], &[]));
                }
            }
        } else if !KNOWN.contains(&name.as_str()) {
            let script = Path::new("/etc/init.d").join(&name);
            if !is_executable(host, &script) {
                continue;
            }
            let functions = ["start_pre", "start", "start_post"];
            found.extend(shell::writes_of_script(
                place,
                &script,
                &["start"],
                &functions,
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::matching::disks;
    use crate::system_config::testing::{Disk, machine, write};

    const BFQ: &str = "#!/bin/sh\necho bfq > /sys/block/sda/queue/scheduler\n";

    /// What services write into sda, on a machine with these files; those whose text begins with `#!` may be run.
    fn written(files: &[(&str, &str)]) -> Vec<String> {
        let (dir, host) = machine(&[Disk::new("sda")]);
        for (name, text) in files {
            write(dir.path(), name, text);
        }
        let disks = disks(&host).unwrap();
        let found = writers(&host, &Units::of(&host), &disks[0], &[]);
        let told = |writer: &Writer| {
            let doubt = if writer.certain { "" } else { "?" };
            format!("{writer} {}{doubt}", writer.value.as_deref().unwrap_or("…"))
        };
        found.iter().map(told).collect()
    }

    #[test]
    fn sysfs_conf_counts_where_sysfsutils_is_started() {
        let conf = "# x\n  block/sd*/queue/scheduler = bfq # y\nmode block/sda/queue/scheduler = 0600\nblock/sdb/queue/scheduler=none\n";
        let later = "class/block/sda/queue/scheduler=none\n";
        let files = [
            ("etc/sysfs.conf", conf),
            ("etc/sysfs.d/x.conf", later),
            ("etc/sysfs.d/x.bak", later),
        ];
        assert_eq!(written(&files), [""; 0]);
        for by in [
            "etc/rc2.d/S01sysfsutils",
            "etc/runlevels/boot/sysfsconf",
            "etc/systemd/system/multi-user.target.wants/sysfsutils.service",
        ] {
            let found = written(&[&files[..], &[(by, "")]].concat());
            assert_eq!(
                found,
                [
                    "sysfsutils, /etc/sysfs.conf:2 bfq",
                    "sysfsutils, /etc/sysfs.d/x.conf:1 none"
                ],
                "{by}"
            );
        }
    }

    #[test]
    fn rc_local_is_named_once_though_a_generator_has_its_unit_started() {
        let unit = "[Unit]\nConditionFileIsExecutable=/etc/rc.local\n[Service]\nExecStart=/etc/rc.local start\n";
        let files = [
            ("etc/rc.local", BFQ),
            ("usr/lib/systemd/system/rc-local.service", unit),
            (
                "run/systemd/generator/multi-user.target.wants/rc-local.service",
                "",
            ),
        ];
        assert_eq!(written(&files), ["boot script, /etc/rc.local:2 bfq"]);
        // One that may not be run, and is read by a shell all the same.
        let unit = "[Service]\nExecStart=/bin/sh /etc/rc.local\n";
        let files = [
            ("etc/rc.local", &BFQ["#!/bin/sh\n".len()..]),
            ("usr/lib/systemd/system/mine.service", unit),
            (
                "etc/systemd/system/multi-user.target.wants/mine.service",
                "",
            ),
        ];
        assert_eq!(written(&files), ["systemd unit, /etc/rc.local:1 bfq"]);
        assert_eq!(written(&files[..1]), [""; 0], "nobody runs it");
        // Where a unit starts it, the kernel must know how to.
        let own = (
            "usr/lib/systemd/system/rc-local.service",
            "[Service]\nExecStart=/etc/rc.local start\n",
        );
        let script = ("etc/rc.local", BFQ);
        let masked = ("etc/systemd/system/rc-local.service", "");
        assert_eq!(written(&[script, own]).len(), 1);
        assert_eq!(written(&[script, own, masked]), [""; 0]);
        let bare = |files: &[(&str, &str)]| {
            let line = BFQ.strip_prefix("#!/bin/sh\n").unwrap();
            let (dir, host) = machine(&[Disk::new("sda")]);
            for (name, text) in files {
                write(dir.path(), name, text);
            }
            write(dir.path(), "etc/rc.local", line);
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(dir.path().join("etc/rc.local"), mode).unwrap();
            let disks = disks(&host).unwrap();
            writers(&host, &Units::of(&host), &disks[0], &[]).len()
        };
        assert_eq!(bare(&[own]), 0);
        assert_eq!(
            bare(&[]),
            1,
            "a shell starts it, and reads what the kernel does not know"
        );
        // One of an init of old, for which a generator makes a unit.
        let unit =
            "[Unit]\nSourcePath=/etc/init.d/disks\n[Service]\nExecStart=/etc/init.d/disks start\n";
        let files = [
            ("etc/init.d/disks", BFQ),
            ("etc/rc3.d/S20disks", ""),
            ("run/systemd/generator.late/disks.service", unit),
            (
                "run/systemd/generator.late/multi-user.target.wants/disks.service",
                "",
            ),
        ];
        assert_eq!(written(&files), ["systemd unit, /etc/init.d/disks:2 bfq"]);
    }

    #[test]
    fn scripts_of_openrc_an_init_of_old_and_cron_are_followed() {
        let local = ("etc/local.d/disk.start", BFQ);
        let said = ["boot script, /etc/local.d/disk.start:2 bfq"];
        assert_eq!(written(&[local]), [""; 0], "nothing runs them");
        assert_eq!(written(&[local, ("etc/runlevels/default/local", "")]), said);
        let not_executable = (
            "etc/local.d/disk.start",
            "echo bfq > /sys/block/sda/queue/scheduler\n",
        );
        assert_eq!(
            written(&[not_executable, ("etc/runlevels/default/local", "")]),
            [""; 0]
        );

        let service = "#!/sbin/openrc-run\nstart() {\n echo bfq > /sys/block/sda/queue/scheduler\n}\nstop() {\n echo none > /sys/block/sda/queue/scheduler\n}\n";
        let files = [
            ("etc/init.d/disks", service),
            ("etc/runlevels/boot/disks", ""),
        ];
        assert_eq!(written(&files), ["boot script, /etc/init.d/disks:3 bfq"]);

        let of_init =
            "#!/bin/sh\ncase $1 in\nstart) echo bfq > /sys/block/sda/queue/scheduler ;;\nesac\n";
        for link in [
            "etc/rc2.d/S20disks",
            "etc/rcS.d/S01disks",
            "etc/rc.d/rc3.d/S99disks",
        ] {
            let files = [("etc/init.d/disks", of_init), (link, "")];
            assert_eq!(
                written(&files),
                ["boot script, /etc/init.d/disks:3 bfq"],
                "{link}"
            );
        }
        assert_eq!(
            written(&[("etc/init.d/disks", of_init), ("etc/rc2.d/K20disks", "")]),
            [""; 0]
        );
        let may_not_run = of_init.strip_prefix("#!/bin/sh\n").unwrap();
        for link in ["etc/rc2.d/S20disks", "etc/runlevels/boot/disks"] {
            let files = [("etc/init.d/disks", may_not_run), (link, "")];
            assert_eq!(written(&files), [""; 0], "{link}");
        }

        let table = "MAILTO=x\n@reboot root echo bfq > /sys/block/sda/queue/scheduler\n@daily root echo none > /sys/block/sda/queue/scheduler\n";
        assert_eq!(
            written(&[("etc/cron.d/disks", table)]),
            ["boot script, /etc/cron.d/disks:2 bfq"]
        );
        let own = "@reboot /usr/local/bin/set\n";
        for table in [
            "var/spool/cron/crontabs/root",
            "var/spool/cron/tabs/root",
            "etc/crontabs/root",
        ] {
            let files = [(table, own), ("usr/local/bin/set", BFQ)];
            assert_eq!(
                written(&files),
                ["boot script, /usr/local/bin/set:2 bfq"],
                "{table}"
            );
        }
    }
}
