//! What the Debian package's scripts do, above all when the package is purged, in each state that a machine can be in: in
//! a mount namespace where `/etc`, `/usr/share` and `/var/lib` are empty, with stand-ins for the programs that they call.

use std::path::Path;
use std::process::Command;

use iosched_testing::{is_root, lacks};

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");

/// Files with what is in them.
type Files<'a> = &'a [(&'a str, &'a str)];

/// What a purge called, said and left.
struct Purged {
    called: String,
    said: String,
    /// Files, each with its text in one line.
    left: Vec<String>,
}

/// Purges a machine with these files, once and again: the second time does nothing more.
fn purge(files: Files) -> Purged {
    after(files, &["postrm purge"])
}

/// Calls these scripts on a machine with these files, as dpkg would, and the last one again.
fn after(files: Files, steps: &[&str]) -> Purged {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (path, text) in files {
        let path = at("files").join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    std::fs::create_dir_all(at("files/etc")).unwrap();
    let script = r#"
        set -e
        for at in /etc /usr/share /var/lib; do mount -t tmpfs none $at; done
        cp -a "$1/files/." /
        mkdir "$1/bin"
        for name in udevadm update-initramfs dracut systemctl tuned-adm; do
            printf '#!/bin/sh\necho "%s $*" >>"%s/called"\n' $name "$1" >"$1/bin/$name"
        done
        echo 'test "$1" != recommend || echo balanced' >>"$1/bin/tuned-adm"
        # What deb-systemd-helper asks it, it does.
        sed -i '1a case "$*" in *preset*|*enable*|*disable*) exec /bin/systemctl "$@" ;; esac' "$1/bin/systemctl"
        chmod +x "$1"/bin/*
        touch "$1/called"
        # The unit is where the package has it, for deb-systemd-helper.
        mount -t tmpfs none /usr/lib/systemd/system
        cp "$2/iosched-restore.service" /usr/lib/systemd/system/
        export DPKG_MAINTSCRIPT_PACKAGE=iosched PATH=$1/bin:$PATH
        top=$1 packaging=$2
        shift 2
        for step in "$@"; do
            sh "$packaging/debian/${step%% *}" ${step#* } 2>>"$top/said"
        done
        cp "$top/called" "$top/called-once"
        sh "$packaging/debian/${step%% *}" ${step#* } 2>/dev/null
        cmp "$top/called" "$top/called-once"
        find /etc /usr/share /var/lib -type f | sort | while read -r file; do
            echo "$file: $(tr '\n' ' ' <"$file")"
        done
        find /etc -type l | sort
    "#;
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "purge",
        ])
        .args([dir.path(), Path::new(PACKAGING)])
        .args(steps)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = |name: &str| std::fs::read_to_string(at(name)).unwrap();
    Purged {
        called: text("called-once"),
        said: text("said"),
        left: String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect(),
    }
}

/// What stands in the first line of a file of ours.
const MADE: &str = "# Made by iosched";
const PROFILE: &str = "/etc/tuned/profiles/iosched/tuned.conf";
const ACTIVE: &str = "/etc/tuned/active_profile";
const GRUB: (&str, &str) = (
    "/etc/default/grub",
    "GRUB_CMDLINE_LINUX=\"elevator=noop\"\n",
);

#[test]
fn purge_takes_away_what_was_written_and_nothing_else() {
    if !is_root() {
        return;
    }
    let purged = purge(&[]);
    assert_eq!((purged.called.as_str(), purged.said.as_str()), ("", ""));
    assert!(purged.left.is_empty(), "{:?}", purged.left);
    let purged = purge(&[
        ("/etc/udev/rules.d/99-iosched.rules", MADE),
        ("/etc/udev/rules.d/99-mine.rules", "theirs"),
        ("/etc/modules-load.d/iosched.conf", MADE),
        ("/usr/share/initramfs-tools/modules.d/iosched", MADE),
        ("/etc/dracut.conf.d/iosched.conf", MADE),
        ("/etc/iosched/policy.toml", "version = 1"),
        ("/var/lib/iosched/history/1", "{}"),
    ]);
    assert_eq!(purged.left, ["/etc/udev/rules.d/99-mine.rules: theirs"]);
    for call in [
        "update-initramfs -u -k all\n",
        "dracut --force --regenerate-all\n",
    ] {
        assert!(purged.called.contains(call), "{}", purged.called);
    }
}

#[test]
fn purge_leaves_what_somebody_else_put_where_ours_would_be() {
    if !is_root() {
        return;
    }
    let theirs = [
        ("/etc/dracut.conf.d/iosched.conf", "theirs"),
        ("/etc/modules-load.d/iosched.conf", "theirs"),
        (ACTIVE, "iosched"),
        ("/etc/tuned/profiles/iosched/script.sh", "theirs"),
        (PROFILE, "theirs"),
        ("/etc/udev/rules.d/99-iosched.rules", "theirs"),
        ("/usr/share/initramfs-tools/modules.d/iosched", "theirs"),
    ];
    let purged = purge(&theirs);
    let all = theirs.map(|(path, text)| format!("{path}: {text}"));
    assert_eq!((purged.called.as_str(), purged.left), ("", all.to_vec()));
    // Beside a file of ours, too.
    let script = ("/etc/tuned/profiles/iosched/script.sh", "theirs");
    let purged = purge(&[(PROFILE, MADE), script]);
    assert_eq!(purged.left, [format!("{}: {}", script.0, script.1)]);
}

/// Whatever dpkg calls the script with but `purge`: removed, replaced by a newer one, or not installed after all, in the
/// middle of a machine's use.
#[test]
fn nothing_but_purge_takes_anything_away() {
    if !is_root() {
        return;
    }
    let files = [
        ("/etc/udev/rules.d/99-iosched.rules", MADE),
        ("/usr/share/initramfs-tools/modules.d/iosched", MADE),
        ("/etc/iosched/policy.toml", "version = 1"),
        ("/var/lib/iosched/history/1", "{}"),
        (PROFILE, MADE),
        (ACTIVE, "iosched"),
        GRUB,
    ];
    for called in [
        "remove",
        "upgrade 9.9",
        "failed-upgrade 0.1",
        "abort-install",
        "abort-install 0.1",
        "abort-upgrade 0.1",
        "disappear other 9.9",
    ] {
        let step = format!("postrm {called}");
        let kept = after(&files, &[&step]);
        assert_eq!(
            (kept.called.as_str(), kept.said.as_str()),
            ("", ""),
            "{called}"
        );
        assert_eq!(kept.left.len(), files.len(), "{called}: {:?}", kept.left);
    }
}

/// Unpacked and not configured, configured, removed: in the end nothing is left, and in between the unit stays enabled.
#[test]
fn purge_leaves_nothing_of_the_unit_whatever_came_before() {
    if !is_root() {
        return;
    }
    for steps in [
        &["postrm purge"][..],
        &["postrm remove", "postrm purge"],
        &["postinst abort-remove", "postrm purge"],
        &["postinst configure", "postrm purge"],
        &["postinst configure", "postrm remove", "postrm purge"],
        &[
            "postinst configure",
            "postinst configure 0.1",
            "postrm purge",
        ],
    ] {
        let purged = after(&[], steps);
        assert!(purged.left.is_empty(), "{steps:?}: {:?}", purged.left);
    }
    if !Path::new("/usr/bin/deb-systemd-helper").exists() {
        return lacks("deb-systemd-helper (package init-system-helpers)");
    }
    let wanted = "/etc/systemd/system/multi-user.target.wants/iosched-restore.service".to_owned();
    let configured = after(&[], &["postinst configure"]);
    assert!(configured.left.contains(&wanted), "{:?}", configured.left);
    let refused = after(&[], &["postinst abort-upgrade"]);
    assert!(refused.left.is_empty(), "{:?}", refused.left);
}
