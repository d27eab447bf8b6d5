use super::*;
use crate::policy::matching::disks;
use crate::system_config::testing::{Disk, machine, write};

/// What a script of bash writes into sda, which is rotational, line by line.
fn written(script: &str) -> Vec<String> {
    written_with(script, &["start"], &[])
}

fn written_with(script: &str, arguments: &[&str], files: &[(&str, &str)]) -> Vec<String> {
    let disk = Disk::new("sda").file("queue/rotational", "1");
    let (dir, host) = machine(&[disk]);
    write(dir.path(), "bin/x", "");
    std::os::unix::fs::symlink("bash", dir.path().join("bin/sh")).unwrap();
    write(dir.path(), "usr/local/sbin/x", script);
    for (name, text) in files {
        write(dir.path(), name, text);
    }
    let disks = disks(&host).unwrap();
    let place = FollowedDisk::of(&host, &disks[0]);
    let writes = writes_of_script(&place, Path::new("/usr/local/sbin/x"), arguments, &[]);
    writes.iter().map(told).collect()
}

fn told(write: &Write) -> String {
    let doubt = match write {
        write if write.certain => "",
        write if write.depends_on_shell => " by shell",
        _ => "?",
    };
    let value = write.value.as_deref().unwrap_or("…");
    let target = write.target.strip_prefix("queue/").unwrap_or(&write.target);
    let target = if target == "scheduler" {
        String::new()
    } else {
        format!("{target}=")
    };
    format!("{}:{target}{value}{doubt}", write.line)
}

#[test]
fn the_ways_in_which_people_write_it_are_followed() {
    for (script, expected) in [
        ("echo bfq > /sys/block/sda/queue/scheduler", "1:bfq"),
        ("  echo \"bfq\" >/sys/block/sda/queue/scheduler;", "1:bfq"),
        (
            "echo -n kyber | tee /sys/block/sd?/queue/scheduler",
            "1:kyber",
        ),
        (
            "echo -n kyber | sudo -n tee -a /sys/block/sd{b,a}/queue/scheduler >/dev/null",
            "1:kyber",
        ),
        ("tee /sys/block/sda/queue/scheduler <<< none", "1:none"),
        (
            "/bin/sh -c 'echo none > /sys/block/sda/queue/scheduler'",
            "1:none",
        ),
        (
            "for d in sda sdb; do echo noop > /sys/block/$d/queue/scheduler; done",
            "1:noop",
        ),
        (
            "printf 'bfq\\n' > /sys/class/block/sda/queue/scheduler",
            "1:bfq",
        ),
        (
            "printf '%s' bfq > /sys/dev/block/8:0/queue/scheduler",
            "1:bfq",
        ),
        ("echo bfq | dd of=/sys/block/sda/queue/scheduler", "1:bfq"),
        ("cp /etc/wanted /sys/block/sda/queue/scheduler", "1:…"),
        (
            "for d in /sys/block/sd*; do\n  echo bfq > $d/queue/scheduler\ndone",
            "2:bfq",
        ),
        (
            "for f in /sys/block/*/queue/scheduler\ndo\n  echo noop > \"$f\"\ndone",
            "3:noop",
        ),
        (
            "cd /sys/block\nfor d in sd*; do echo bfq > $d/queue/scheduler; done",
            "2:bfq",
        ),
        ("cd /sys/block/sda/queue && echo bfq > scheduler", "1:bfq"),
        (
            "cd /sys/block/sda\necho 1 > queue/iosched/low_latency",
            "2:iosched/low_latency=1",
        ),
        (
            "Q=/sys/block/sda/queue\nS=bfq\necho ${S} > \"$Q\"/scheduler",
            "3:bfq",
        ),
        ("echo ${S:-bfq} > /sys/block/sda/queue/scheduler", "1:bfq"),
        (
            ": \"${S:=bfq}\"\necho $S > /sys/block/sda/queue/scheduler",
            "2:bfq",
        ),
        (
            "A=1 B=\necho ${C+x}${A:+bf}${B:+x}${B+q} > /sys/block/sda/queue/scheduler",
            "2:bfq",
        ),
        (
            "echo \"$(case $1 in start) echo bfq;; esac # it's so\n)\" > /sys/block/sda/queue/scheduler",
            "1:bfq",
        ),
        (
            "set_it() {\n  echo $2 > /sys/block/$1/queue/scheduler\n}\nset_it sda noop\nset_it sdb none",
            "2:noop",
        ),
        (
            "for p in /sys/block/*; do d=${p##*/}; case $d in sd*) echo bfq > $p/queue/scheduler;; nvme*) echo none > $p/queue/scheduler;; esac; done",
            "1:bfq",
        ),
        (
            "for p in /sys/block/*; do\n if [ \"$(cat $p/queue/rotational)\" = 1 ]; then\n  echo bfq > $p/queue/scheduler\n else\n  echo none > $p/queue/scheduler\n fi\ndone",
            "3:bfq",
        ),
        (
            "for p in /sys/block/*; do [ `cat $p/queue/rotational` -eq 0 ] && continue; echo bfq > $p/queue/scheduler; done",
            "1:bfq",
        ),
        (
            "grep -q bfq /sys/block/sda/queue/scheduler && echo bfq > /sys/block/sda/queue/scheduler",
            "1:bfq",
        ),
        (
            "[ -e /sys/block/sda/queue/scheduler ] || exit 0\necho bfq > /sys/block/sda/queue/scheduler",
            "2:bfq",
        ),
        (
            "case \"$1\" in\n start)\n  echo bfq > /sys/block/sda/queue/scheduler\n  ;;\n stop)\n  echo cfq > /sys/block/sda/queue/scheduler;;\nesac",
            "3:bfq",
        ),
        ("{ echo bfq; } > /sys/block/sda/queue/scheduler", "1:bfq"),
        (
            "D=$(basename /dev/sda)\necho bfq > /sys/block/$D/queue/scheduler",
            "2:bfq",
        ),
        // Perhaps.
        ("echo $(choose) > \"/sys/block/sda/queue/scheduler\"", "1:…"),
        (
            "if something; then echo bfq > /sys/block/sda/queue/scheduler; fi",
            "1:bfq?",
        ),
        (
            "something && exit\necho bfq > /sys/block/sda/queue/scheduler",
            "2:bfq?",
        ),
        (
            "f() { echo bfq > /sys/block/sda/queue/scheduler; }\nsomething && exit\nf",
            "1:bfq?",
        ),
        (
            "for d in $(lsblk -dno NAME); do echo bfq > /sys/block/$d/queue/scheduler; done",
            "1:bfq?",
        ),
        (
            "lsblk -dno NAME | while read d; do echo bfq > /sys/block/$d/queue/scheduler; done",
            "1:bfq?",
        ),
        (
            "find /sys/block -name 'sd*' -exec sh -c 'echo noop > $1/queue/scheduler' _ {} \\;",
            "1:noop?",
        ),
        (
            "ls /sys/block/*/queue/scheduler | xargs -n1 sh -c 'echo noop > $0'",
            "1:noop?",
        ),
        (
            "ls /sys/block | xargs -I% sh -c 'echo noop > /sys/block/%/queue/scheduler'",
            "1:noop?",
        ),
        (
            "python3 -c \"open('/sys/block/sda/queue/scheduler','w').write('bfq')\"",
            "1:…?",
        ),
        ("set-scheduler /sys/block/sda/queue/scheduler bfq", "1:…?"),
        (
            "for ((i=0;i<3;i++)); do\n echo bfq > /sys/block/sda/queue/scheduler\ndone",
            "2:bfq?",
        ),
        (
            "#!/usr/bin/python3\nfor d in x:\n  f = '/sys/block/%s/queue/scheduler' % d\n",
            "3:…?",
        ),
    ] {
        assert_eq!(written(script), [expected], "{script}");
    }
}

/// What a redirection leads to, as the shells themselves say: sda's file, or nothing.
#[test]
fn a_pattern_is_a_target_of_bash_alone_and_only_if_it_is_one_file() {
    for (word, disks) in [
        ("/sys/block/sd*/queue/scheduler", 1),
        ("/sys/block/sd*/queue/scheduler", 2),
        ("/sys/block/sda/queue/sched*", 2),
        ("/sys/block/[s]da/queue/scheduler", 2),
        ("\"/sys/block/sd*/queue/scheduler\"", 1),
        ("/sys/block/sd{a,b}/queue/scheduler", 2),
        ("$D/queue/scheduler", 1),
        ("$D/queue/scheduler", 2),
        ("$E/queue/scheduler", 2),
        ("\"$E\"/queue/scheduler", 2),
        ("$T", 2),
        ("\"$T\"", 2),
    ] {
        let script = format!(
            "D=/sys/block/sd*\nE=/sys/block/sda\nT='x /sys/block/sda/queue/scheduler'\necho bfq > {word}\n"
        );
        for shell in ["dash", "bash", "bash --posix"] {
            let machine_disks =
                ["sda", "sdb"].map(|name| Disk::new(name).file("queue/rotational", "1"));
            let (dir, host) = machine(&machine_disks[..disks]);
            let all = crate::policy::matching::disks(&host).unwrap();
            let place = FollowedDisk::of(&host, &all[0]);
            write(dir.path(), "x", &format!("#!/bin/{shell}\n{script}"));
            let found = writes_of_script(&place, Path::new("/x"), &[], &[]);
            let found: Vec<bool> = found.iter().map(|write| write.certain).collect();

            let file = dir.path().join("sys/block/sda/queue/scheduler");
            let sys = format!("{}/", dir.path().join("sys").display());
            let mut words = shell.split_whitespace();
            let mut command = std::process::Command::new(words.next().unwrap());
            command
                .args(words)
                .arg("-c")
                .arg(script.replace("/sys/", &sys));
            command.current_dir(dir.path()).output().unwrap();
            let is_written = std::fs::read_to_string(file).unwrap().trim() == "bfq";
            let said = format!("{shell}, {disks} disks: {word}");
            if is_written {
                assert_eq!(found, [true], "{said}");
            } else {
                assert!(!found.contains(&true), "{said}");
            }
            let is_in_doubt = word.contains("sd*") || word.starts_with("$D");
            let may_be = shell == "bash" && disks == 2 && is_in_doubt;
            assert_eq!(found.is_empty(), !is_written && !may_be, "{said}");
        }
    }
}

/// What only some shells know: F is the file of sda. Each has one that writes, and most one that does not.
const OF_SOME_SHELLS: [&str; 71] = [
    "[ a == a ] && echo bfq > F",
    "test a == a && echo bfq > F",
    "[ ! a == b ] && echo bfq > F",
    "! [ a == a ] && echo bfq > F",
    "if [ a == b ]; then :; else echo bfq > F; fi",
    "/usr/bin/test a == a && echo bfq > F",
    "[ \"$NOTHING\" == \"\" ] && echo bfq > F",
    "[[ a == a ]] && echo bfq > F",
    "[[ a == b ]] || echo bfq > F",
    "[[ abc == a* ]] && echo bfq > F",
    "if [[ -e / ]]; then echo bfq > F; fi",
    "echo bfq &> F",
    "{ echo bfq; } &> F",
    "echo bfq &>> F",
    "echo bfq >& F",
    "echo bfq 1> F 2>&1",
    "cat <<< bfq > F",
    "tee F <<< bfq",
    "echo bfq > F\ncat <<< x",
    "echo bfq > F; cat <<< x",
    "if true; then\n echo bfq > F\n cat <<< x\nfi",
    "x=(a b)\necho bfq > F",
    "echo bfq > F\nx=(a b)",
    "x[1]=a; echo bfq > F",
    "x+=bfq\necho $x > F",
    "x+=y; echo bfq > F",
    "export x=(a b); echo bfq > F",
    "echo -e bfq > F",
    "echo -ne 'bfq\\n' > F",
    "echo -E bfq > F",
    "echo -n bfq > F",
    "/bin/echo -e bfq > F",
    "env echo -e bfq > F",
    "echo 'bfq\\n' > F",
    "echo 'bfq\\c' > F",
    "function g { echo bfq > F; }; g",
    "function g() { echo bfq > F; }\ng",
    "function g {\n echo bfq > F\n}",
    "function g {\n echo none > F\n}\necho bfq > F",
    "g-h() { echo bfq > F; }; g-h",
    "for d in {x,F}; do echo bfq > $d; done",
    "echo bfq | tee {F,/dev/null}",
    "echo $'bfq' > F",
    "echo $\"bfq\" > F",
    "echo 'S=bfq' > i; source ./nothing; echo bfq > F",
    ". ./nothing; echo bfq > F",
    "source /dev/null && echo bfq > F",
    "for ((i=0;i<1;i++)); do echo none > F; done\necho bfq > F",
    "let x=1 && echo bfq > F",
    "x=bfq; echo ${x:0:3} > F",
    "x=q; echo bf${x/a/b} > F",
    "echo ${x^^}; echo bfq > F",
    "echo bfq > F; echo ${!x}",
    "(echo ${x^^}); echo bfq > F",
    "echo $(echo ${x^^}); echo bfq > F",
    "x=$(cat <<< x); echo bfq > F",
    "echo bfq |& tee F",
    "echo bfq > F\necho bfq |& cat",
    "cat <(echo x) > /dev/null; echo bfq > F",
    "declare x=bfq; echo $x > F",
    "typeset x=bfq; echo $x > F",
    "pushd /sys/block/sda/queue && echo bfq > scheduler",
    "eval 'x=(a)'; echo bfq > F",
    "eval 'x=(a)'\necho bfq > F",
    "case a in a) echo bfq > F;& b) :;; esac",
    "builtin echo bfq > F",
    "shopt -s nullglob && echo bfq > F",
    "shopt -s nullglob; echo bfq > F",
    "select x in a; do :; done < /dev/null\necho bfq > F",
    "> F; echo bfq > F",
    "bash -c 'cat <<< bfq > F'; dash -c '[ a == a ] && echo none > F'",
];

/// What each shell makes of them, as it does itself; and where it is not known which one reads them.
#[test]
fn scripts_are_followed_as_the_shell_does_that_reads_them() {
    let shells = [
        ("dash", "dash", "dash"),
        ("bash", "bash --posix", "bash"), // as `sh`
        ("busybox", "busybox sh", "busybox"),
    ];
    let is_there = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(name).exists())
    };
    let mut asked = 0;
    for script in OF_SOME_SHELLS {
        let script = script.replace('F', "/sys/block/sda/queue/scheduler");
        let mut all = Vec::new();
        for (sh, command, program) in shells {
            let found = found_by(&format!("#!/bin/sh\n{script}\n"), Some(sh));
            all.push(found.clone());
            if !is_there(program) {
                continue;
            }
            asked += 1;
            assert_as_it_is(&found, command, &script);
        }
        let found = found_by(&format!("#!/bin/bash\n{script}\n"), Some("dash"));
        assert_as_it_is(&found, "bash", &script);
        all.push(found);
        let of_unknown = found_by(&format!("#!/bin/sh\n{script}\n"), None);
        let is_one = all.iter().all(|found| *found == all[0]);
        if is_one {
            assert_eq!(of_unknown, all[0], "{script}");
        } else {
            assert!(
                of_unknown.iter().any(|write| write.depends_on_shell),
                "{script}"
            );
            let mut kept = of_unknown.iter().filter(|write| write.certain);
            assert!(
                kept.all(|write| all.iter().all(|found| found.contains(write))),
                "{script}"
            );
        }
    }
    assert!(asked >= 2 * OF_SOME_SHELLS.len());
}

/// What a script writes into sda where `/bin/sh` is a link to this.
fn found_by(script: &str, sh: Option<&str>) -> Vec<Write> {
    let (dir, host) = machine(&[Disk::new("sda")]);
    write(dir.path(), "dev/null", "");
    write(dir.path(), "usr/bin/x", "");
    if let Some(sh) = sh {
        std::os::unix::fs::symlink("usr/bin", dir.path().join("bin")).unwrap();
        std::os::unix::fs::symlink(sh, dir.path().join("bin/sh")).unwrap();
    }
    write(dir.path(), "x", script);
    let all = disks(&host).unwrap();
    writes_of_script(&FollowedDisk::of(&host, &all[0]), Path::new("/x"), &[], &[])
}

/// What sda has been given last when a shell has carried out a script. The file is a pipe: as in sysfs, opening it
/// changes nothing.
fn held_after(shell: &str, script: &str) -> String {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "sys/block/sda/queue/x", "");
    let file = dir.path().join("sys/block/sda/queue/scheduler");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &file,
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut options = std::fs::OpenOptions::new();
    let options = options.read(true).write(true).custom_flags(nonblock);
    let mut pipe = options.open(&file).unwrap();
    let sys = format!("{}/", dir.path().join("sys").display());
    let text = script.replace("/sys/", &sys);
    write(dir.path(), "script", &format!("#!\n{text}\n"));
    let mut words = shell.split_whitespace();
    let mut command = std::process::Command::new(words.next().unwrap());
    command.args(words).arg("script").current_dir(dir.path());
    command.stdin(std::process::Stdio::null()).output().unwrap();
    let mut given = Vec::new();
    _ = pipe.read_to_end(&mut given); // ends with EAGAIN
    let given = String::from_utf8(given).unwrap();
    let mut lines = given.lines().map(str::trim);
    lines
        .rfind(|line| !line.is_empty())
        .unwrap_or_default()
        .to_owned()
}

/// Has a shell carry out a script, and compares what is in the file then with what was said.
fn assert_as_it_is(found: &[Write], shell: &str, script: &str) {
    let held = held_after(shell, script);
    let is_written = !held.is_empty();
    let said = found.iter().map(told).collect::<Vec<_>>().join(", ");
    let last = found.iter().rfind(|write| write.certain);
    let said = format!("{shell} holds {held:?}, we say {said}\n{script}");
    match last {
        Some(last) if is_written => {
            assert!(
                last.value.as_ref().is_none_or(|value| *value == held),
                "{said}"
            );
        }
        Some(_) => panic!("{said}"),
        None => assert!(!is_written || !found.is_empty(), "{said}"),
    }
    let is_doubtful = found.iter().any(|write| !write.certain);
    assert!(
        is_written || !is_doubtful || said.contains("for (("),
        "{said}"
    );
}

#[test]
fn what_reads_or_is_for_others_or_is_not_reached_writes_nothing() {
    for script in [
        "echo bfq > /sys/block/sdb/queue/scheduler",
        "# echo bfq > /sys/block/sda/queue/scheduler",
        "cat /sys/block/sda/queue/scheduler",
        "grep . /sys/block/*/queue/scheduler",
        "S=$(cat /sys/block/sda/queue/scheduler | sed 's/x/y/'); echo \"$S\"",
        "awk '{print $1}' /sys/block/sda/queue/scheduler",
        "echo done with /sys/block/sda/queue/scheduler >> /var/log/x",
        "cat /sys/block/sda/queue/scheduler 2> /dev/null",
        "exit 0\necho bfq > /sys/block/sda/queue/scheduler",
        "f() { echo bfq > /sys/block/sda/queue/scheduler; }",
        "if false; then echo bfq > /sys/block/sda/queue/scheduler; fi",
        "for t in /sys/class/leds/*/trigger; do echo none > $t; done",
        "for d in /sys/block/nvme*; do echo none > $d/queue/scheduler; done",
        "cat <<EOF\necho bfq > /sys/block/sda/queue/scheduler\nEOF",
        "[ -e /sys/block/sda/nothing ] && echo bfq > /sys/block/sda/queue/scheduler",
        "case $1 in stop) echo bfq > /sys/block/sda/queue/scheduler; esac",
        "#!/usr/bin/python3\n# writes /sys/block/sda/queue/scheduler\n",
    ] {
        assert_eq!(written(script), [""; 0], "{script}");
    }
}

#[test]
fn other_scripts_and_what_they_are_given_are_followed() {
    let files = [
        ("etc/default/disks", "SCHED=kyber\n"),
        (
            "usr/local/lib/set",
            "#!/bin/sh\n\necho $2 > /sys/block/$1/queue/scheduler\n",
        ),
    ];
    let writes = written_with(
        ". /etc/default/disks\n/usr/local/lib/set $1 $SCHED\n",
        &["sda"],
        &files,
    );
    assert_eq!(writes, ["3:kyber"]);
    let writes = written_with(
        ". /opt/nothing\necho $SCHED > /sys/block/sda/queue/scheduler\n",
        &[],
        &files,
    );
    assert_eq!(writes, ["2:…"]);
    let writes = written_with(
        ". /etc/nothing\necho bfq > /sys/block/sda/queue/scheduler\n",
        &[],
        &files,
    );
    assert_eq!(writes, [""; 0], "a shell that is called sh goes no further");
    let itself = "#!/bin/sh\necho bfq > /sys/block/sda/queue/scheduler\n/usr/local/sbin/x\n";
    assert_eq!(written(itself).len(), DEEPEST);
    // A shell that is given a script does not ask for its first line.
    let file = [(
        "x",
        "#!/bin/bash\n[[ a ]] && echo bfq > /sys/block/sda/queue/scheduler\n",
    )];
    assert_eq!(written_with("bash /x", &[], &file), ["2:bfq"]);
    assert_eq!(written_with("dash /x", &[], &file), [""; 0]);
    assert_eq!(written_with("busybox sh /x", &[], &file), ["2:bfq"]);
    assert_eq!(written_with("ksh /x", &[], &file), ["2:bfq by shell"]);
}

#[test]
fn a_program_gets_what_is_exported_and_gives_nothing_back() {
    for (before, expected) in [
        ("S=bfq", vec![]),
        ("export S=bfq", vec!["2:bfq"]),
        ("S=bfq; export S", vec!["2:bfq"]),
        ("declare -x S=bfq", vec!["2:bfq"]),
        ("set -a; S=bfq; set +a", vec!["2:bfq"]),
        ("set -a; set +a; S=bfq", vec![]),
        ("set -a; S=bfq", vec!["2:bfq"]),
        ("set -ea; S=bfq", vec!["2:bfq"]),
        ("set -o allexport; S=bfq", vec!["2:bfq"]),
        ("S=bfq true", vec![]),
        ("sh -c 'export S=bfq'", vec![]),
        ("g() { S=bfq; }; g", vec![]),
    ] {
        let script = format!("{before}\nsh -c 'echo $S > /sys/block/sda/queue/scheduler'\n");
        assert_eq!(written(&script), expected, "{before}");
    }
    let prefixed = "S=bfq sh -c 'echo $S > /sys/block/sda/queue/scheduler'\n";
    assert_eq!(written(prefixed), ["1:bfq"]);
    let called = "f() { echo bfq > /sys/block/sda/queue/scheduler; }\nsh -c f\n";
    assert_eq!(written(called), [""; 0]);
}

#[test]
fn a_script_without_end_is_left() {
    let nested = "for a in 1 2 3 4 5 6 7 8 9 0; do ";
    let script = format!("{}echo x; {}", nested.repeat(9), "done; ".repeat(9));
    assert_eq!(written(&script), [""; 0]);
    let twice = format!("A=x\n{}", "A=$A$A\n".repeat(60));
    assert_eq!(written(&twice), [""; 0]);
}

#[test]
fn what_a_script_copies_and_puts_together_is_bounded() {
    let target = "echo bfq > /sys/block/sda/queue/scheduler\n";
    // Each of these shells has a copy of all variables.
    let chained = |count: usize| {
        let lines = (1..count).map(|at| format!("x{at}=$(echo $x{})\n", at - 1));
        lines.collect::<Vec<_>>().concat() + target
    };
    assert_eq!(written(&chained(300)), ["300:bfq"]);
    assert_eq!(written(&chained(6000)), [""; 0]);
    let long = format!("x={}\n", "a".repeat(60_000));
    let kept: Vec<String> = (0..3000).map(|at| format!("y{at}=$x\n")).collect();
    let kept = kept.concat();
    assert_eq!(written(&format!("{long}{target}")), ["2:bfq"]);
    assert_eq!(written(&format!("{long}{kept}{target}")), [""; 0]);
    let words = " $x".repeat(10_000);
    assert_eq!(written(&format!("{long}: {words}\n{target}")), [""; 0]);
}

proptest::proptest! {
    #[test]
    fn no_script_panics(text in "(if |then |fi|do |done|for x in |echo bfq|cd /sys/block|[a-z $(){}\"'`;&|<>=#\\n\\\\é*-]|/sys/block/sda|/queue/scheduler){0,16}") {
        let _ = written(&text);
    }
}

/// A piece of a script that writes V into F, or does something else.
fn piece() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let simple = proptest::sample::select(vec![
        "echo V > F",
        "echo -e V > F",
        "echo V &> F",
        "echo V >& F",
        "tee F <<< V",
        "echo V | tee {F,/dev/null}",
        "x=V; echo $x > F",
        "x+=V; echo $x > F",
        "x=(V); echo $x > F",
        "echo $'V' > F",
        "echo $x > F",
        "[ a == a ]",
        "[[ a == a ]]",
        "[[ a == b ]]",
        "[ a = b ]",
        "false",
        "true",
        ". ./nothing",
        "source ./nothing",
        "source /dev/null",
        "echo ${x^^}",
        "echo ${x:0:1}",
        "x=$(cat <<< V); echo $x > F",
        "x=$(echo V); echo $x > F",
        "let y=1",
        "declare x=V",
        "set -- V; echo $1 > F",
        "eval 'echo V > F'",
        "eval 'tee F <<< V'",
        "cd /sys/block/sda; echo V > queue/scheduler",
        "for d in V; do echo $d > F; done",
        "case V in V) echo V > F;; esac",
        "return",
        "exit",
        "break",
        "function g { echo V > F; }; g",
        "g() { echo V > F; }",
        "g",
        "> F",
        "cat <<E > F\nV\nE",
    ]);
    let simple = simple.prop_map(str::to_owned);
    simple.prop_recursive(3, 12, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            two.clone().prop_map(|(a, b)| format!("{a}\n{b}")),
            two.clone().prop_map(|(a, b)| format!("{a}; {b}")),
            two.clone().prop_map(|(a, b)| format!("{a} && {b}")),
            two.clone().prop_map(|(a, b)| format!("{a} || {b}")),
            two.clone()
                .prop_map(|(a, b)| format!("if {a}\nthen {b}\nelse\n{a}\nfi")),
            two.prop_map(|(a, b)| format!("h() {{\n{a}\n}}\n{b}\nh")),
            inner.clone().prop_map(|a| format!("({a}\n)")),
            inner.clone().prop_map(|a| format!("{{ {a}\n}}")),
            inner
                .clone()
                .prop_map(|a| format!("for i in 1 2; do\n{a}\ndone")),
            inner.clone().prop_map(|a| format!("! {a}")),
            inner.prop_map(|a| format!("bash -c '{}'", a.replace('\'', ""))),
        ]
    })
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn drawn_scripts_are_followed_as_shells_carry_them_out(pieces in proptest::collection::vec(piece(), 1..4)) {
        let mut script = pieces.join("\n");
        let mut number = 0;
        while script.contains('V') {
            number += 1;
            script = script.replacen('V', &format!("v{number}"), 1);
        }
        let script = script.replace('F', "/sys/block/sda/queue/scheduler");
        for (sh, command) in [("dash", "dash"), ("bash", "bash --posix")] {
            let found = found_by(&format!("#!/bin/sh\n{script}\n"), Some(sh));
            let held = held_after(command, &script);
            let said = found.iter().map(told).collect::<Vec<_>>().join(", ");
            let said = format!("{sh} holds {held:?}, we say {said}\n{script}");
            let last_sure = found.iter().rposition(|write| write.certain);
            // To dash `&>` begins with the end of a command that runs beside the others.
            let is_in_order = sh != "dash" || !script.contains("&>");
            let may_be = &found[last_sure.filter(|_| is_in_order).unwrap_or(0)..];
            let is_it = |write: &Write| write.value.as_deref().is_none_or(|value| value == held);
            let is_none = held.is_empty() && last_sure.is_none();
            proptest::prop_assert!(is_none || may_be.iter().any(is_it), "{}", said);
        }
    }
}
