//! What a load of another user can reach: no terminal, no secret of our environment, no file but its user's own.
//! And what outlives a run that is killed: nothing, once `restore` says that all is as before.
use iosched_testing::lacks;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::bench::{Bench, nobody};
use crate::common::{
    can_use_loop_devices, has_fio, iosched, iosched_process, lossy, processes_with, quoted, run,
    wait_until,
};

#[test]
fn a_load_of_another_user_cannot_type_into_our_terminal() {
    let Some(bench) = Bench::new() else { return };
    for program in ["script", "perl"] {
        if Command::new(program).arg("--version").output().is_err() {
            lacks(program);
            return;
        }
    }
    let report = bench.report();
    // TIOCSTI puts a character into the terminal as if it had been typed.
    let attack = format!(
        "command: perl -e 'open(R, \">>\", \"{report}\"); if (open(T, \"+<\", \"/dev/tty\")) \
         {{ my $c = \"x\"; print R ioctl(T, 0x5412, $c) ? \"typed\\n\" : \"refused\\n\" }} \
         else {{ print R \"no terminal\\n\" }}'"
    );
    let mut words = vec![iosched_process().get_program().to_str().unwrap().to_owned()];
    words.extend(bench.arguments(
        bench.mounted.path(),
        &["--load", &attack, "--user", "nobody"],
    ));
    let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let output = Command::new("script")
        .args(["-qec", &line.join(" "), "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = fs::read_to_string(&report).unwrap();
    assert_eq!(said, "no terminal\n".repeat(4), "{}", lossy(&output.stdout));
}

#[test]
fn a_load_of_another_user_gets_that_users_environment_and_no_descriptor_of_ours() {
    let Some(bench) = Bench::new() else { return };
    let report = bench.report();
    let look = format!(
        "command: sh: (env; grep -E '^(NoNewPrivs|Groups):' /proc/self/status; \
         test ! -e /proc/self/fd/9 || echo open=9) > {report}"
    );
    let arguments = bench.arguments(bench.mounted.path(), &["--load", &look, "--user", "nobody"]);
    let output = Command::new("sh")
        .args(["-c", "exec 9< /etc/shadow; exec \"$@\"", "sh"])
        .arg(iosched_process().get_program())
        .args(arguments)
        .env("SECRET_TOKEN", "s3cr3t")
        .env("PGPASSWORD", "s3cr3t")
        .env("LD_LIBRARY_PATH", "/root")
        .env("LC_TIME", "C")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", lossy(&output.stderr));
    let said = fs::read_to_string(&report).unwrap();
    let has = |line: &str| said.lines().any(|said| said == line);
    for line in [
        "USER=nobody",
        "LOGNAME=nobody",
        "LC_TIME=C",
        "NoNewPrivs:\t1",
    ] {
        assert!(has(line), "{line} in {said}");
    }
    assert!(said.contains("\nIOSCHED_TARGET=") || said.starts_with("IOSCHED_TARGET="));
    for lacking in ["s3cr3t", "LD_LIBRARY_PATH", "HOME=/root", "open=9"] {
        assert!(!said.contains(lacking), "{lacking} in {said}");
    }
    let groups = said
        .lines()
        .find_map(|line| line.strip_prefix("Groups:"))
        .unwrap();
    assert_eq!(groups.trim(), nobody().1.to_string());
}

/// A key of our session is possessed by whoever has our session keyring, whatever user that is.
#[test]
fn a_load_of_another_user_has_no_session_keyring_of_ours() {
    const SESSION: libc::c_long = -3; // KEY_SPEC_SESSION_KEYRING
    const JOIN: libc::c_long = 1; // KEYCTL_JOIN_SESSION_KEYRING
    let Some(bench) = Bench::new() else { return };
    if Command::new("perl").arg("--version").output().is_err() {
        return lacks("perl");
    }
    let report = bench.report();
    // KEYCTL_SEARCH for it, in the session keyring.
    let search = format!(
        "command: sh: perl -e 'my ($kind, $name) = (\"user\", \"iosched-test\"); \
         exit(syscall({}, 10, {SESSION}, $kind, $name, 0) >= 0 ? 0 : 1)' \
         && echo found >> {report} || echo none >> {report}",
        libc::SYS_keyctl
    );
    for (more, expected) in [(&[][..], "found\n"), (&["--user", "nobody"], "none\n")] {
        fs::write(&report, "").unwrap();
        let more = [&["--load", &search], more].concat();
        let mut tune = iosched_process();
        tune.args(bench.arguments(bench.mounted.path(), &more));
        // SAFETY: two system calls, on constants.
        unsafe {
            tune.pre_exec(|| {
                let joined = libc::syscall(libc::SYS_keyctl, JOIN, std::ptr::null::<u8>());
                let (kind, name) = (c"user".as_ptr(), c"iosched-test".as_ptr());
                let key = libc::syscall(libc::SYS_add_key, kind, name, name, 4_usize, SESSION);
                if joined < 0 || key < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let Ok(output) = tune.output() else {
            return lacks("a kernel with keyrings, and the right to use them");
        };
        assert!(output.status.success(), "{}", lossy(&output.stderr));
        let said = fs::read_to_string(&report).unwrap();
        assert_eq!(said, expected.repeat(4), "{more:?}");
        fs::remove_dir_all(bench.records.path().join("r")).unwrap();
    }
}

/// Runs this load as nobody, after another load of nobody did something to each directory (`$d`) of the
/// first one's files.
fn tune_after(bench: &Bench, load: &str, attack: &str) -> Output {
    let setup = "sh: cd $IOSCHED_SCRATCH/.. && for d in */; do d=${d%/}; \
                 [ $d = scratch ] || { ATTACK; }; done";
    let setup = setup.replace("ATTACK", attack);
    let loads = ["--load", load, "--load", "command: true"];
    let more = [&loads[..], &["--setup", &setup, "--user", "nobody"]].concat();
    bench.tune(bench.mounted.path(), &more)
}

#[test]
fn links_in_the_directory_of_a_load_do_not_lead_root_to_other_files() {
    let Some(bench) = Bench::new() else { return };
    if !has_fio() {
        return;
    }
    let attack = format!("rm -rf $d && ln -s {} $d", bench.path("private"));
    let output = tune_after(
        &bench,
        "documents-create:threads=1,documents=4,size=4k",
        &attack,
    );
    let stderr = lossy(&output.stderr);
    bench.assert_private_is_untouched();
    assert_eq!(output.status.code(), Some(13), "{stderr}");
    assert!(
        stderr.contains("cannot use the files of the load"),
        "{stderr}"
    );
    assert_eq!(bench.mounted.names(), ["private"], "{stderr}");
}

#[test]
fn what_is_removed_at_the_end_is_what_the_loads_user_may_remove() {
    let Some(bench) = Bench::new() else { return };
    let private = bench.path("private");
    // Links of both kinds, and a directory without rights for its owner.
    let attack = format!(
        "command: sh: cd $IOSCHED_SCRATCH && mkdir -p closed/inner && touch closed/inner/file && \
         ln -sf {private} link; ln -f {private}/secret hard; chmod 0 closed; true"
    );
    let more = ["--load", &attack, "--user", "nobody"];
    let output = bench.tune(bench.mounted.path(), &more);
    assert!(output.status.success(), "{}", lossy(&output.stderr));
    bench.assert_private_is_untouched();
    assert_eq!(
        bench.mounted.names(),
        ["private"],
        "{}",
        lossy(&output.stderr)
    );
}

#[test]
fn root_runs_no_load_where_another_user_could_put_a_link() {
    let Some(bench) = Bench::new() else { return };
    if !has_fio() {
        return;
    }
    let (uid, gid) = nobody();
    let theirs = bench.mounted.at.join("theirs");
    fs::create_dir_all(theirs.join("deep")).unwrap();
    chown(&theirs, Some(uid), Some(gid)).unwrap();
    let load = [
        "--load",
        "random-read",
        "--file-size",
        "1M",
        "--runtime",
        "100ms",
    ];
    for target in [theirs.clone(), theirs.join("deep")] {
        let output = bench.tune(target.to_str().unwrap(), &load);
        let stderr = lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(11), "{stderr}");
        assert!(
            stderr.contains("refusing to run loads as root in"),
            "{stderr}"
        );
        assert!(
            stderr.contains("hint: run them as that user: --user nobody"),
            "{stderr}"
        );
        let _ = fs::remove_dir_all(bench.records.path().join("r"));
    }
    let as_owner = [&load[..], &["--user", "nobody"]].concat();
    let output = bench.tune(theirs.to_str().unwrap(), &as_owner);
    assert!(output.status.success(), "{}", lossy(&output.stderr));
    assert_eq!(
        fs::read_dir(&theirs).unwrap().count(),
        1,
        "only `deep` is left"
    );
    // The group of a directory may be as large as one likes.
    let shared = bench.mounted.at.join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o775)).unwrap();
    fs::remove_dir_all(bench.records.path().join("r")).unwrap();
    let output = bench.tune(shared.to_str().unwrap(), &load);
    let stderr = lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(11), "{stderr}");
    assert!(
        stderr.contains("group root may change") && stderr.contains("chmod go-w"),
        "{stderr}"
    );
}

/// Where cgroup v2 was mounted in this test's world; mounted again when dropped.
struct HiddenCgroups {
    mount_points: Vec<String>,
}

impl HiddenCgroups {
    fn new() -> HiddenCgroups {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let lines = mounts.lines().filter(|line| line.contains(" - cgroup2 "));
        let mount_points = lines.map(|line| line.split(' ').nth(4).unwrap().to_owned());
        let mount_points: Vec<String> = mount_points.collect();
        for at in &mount_points {
            run("umount", &["--lazy", at]);
        }
        HiddenCgroups { mount_points }
    }
}

impl Drop for HiddenCgroups {
    fn drop(&mut self) {
        for at in &self.mount_points {
            run("mount", &["-t", "cgroup2", "cgroup2", at]);
        }
    }
}

/// A run is killed while something that left its load's process group and session writes a file; then
/// `restore`.
fn grandchild_and_restore(more: &[&str]) {
    let Some(bench) = Bench::new() else { return };
    let report = bench.report();
    let load = format!(
        "command: sh: (setsid sh -c 'while :; do echo x >> {report}; sleep 0.01; done' &) ; sleep 1000"
    );
    let before = bench.mounted.disk.whole_queue();
    let arguments = bench.arguments(bench.mounted.path(), &[&["--load", &load], more].concat());
    let mut child = iosched_process()
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = start_ticks(child.id());
    let length = || fs::metadata(&report).unwrap().len();
    assert!(wait_until(|| length() > 0), "the load never wrote");
    child.kill().unwrap();
    child.wait().unwrap();
    let reached = length();
    assert!(
        wait_until(|| length() > reached),
        "it goes on after SIGKILL"
    );
    let output = iosched().arg("restore").output().unwrap();
    let stdout = lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", lossy(&output.stderr));
    assert_eq!(processes_with(&report), Vec::<u32>::new(), "{stdout}");
    assert!(
        stdout.contains("ended what its load had left running: "),
        "{stdout}"
    );
    assert!(stdout.contains("as before"), "{stdout}");
    assert_eq!(bench.mounted.disk.whole_queue(), before);
    assert_eq!(cgroups_of(child.id(), started), Vec::<PathBuf>::new());
}

/// When a process began, in clock ticks since the machine did (proc(5), the 22nd field of its `stat`).
fn start_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    after_name
        .split_whitespace()
        .nth(19)
        .unwrap()
        .parse()
        .unwrap()
}

/// The cgroups that a run made. One of before may have had the same number, and been killed.
fn cgroups_of(pid: u32, started: u64) -> Vec<PathBuf> {
    let name = format!("iosched-{pid}-{started}");
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().starts_with(&name) {
                found.push(entry.path());
            }
            open.push(entry.path());
        }
    }
    found
}

#[test]
fn restore_ends_what_a_killed_runs_load_left_writing() {
    grandchild_and_restore(&[]);
}

#[test]
fn restore_ends_what_another_users_load_left_writing() {
    grandchild_and_restore(&["--user", "nobody"]);
}

#[test]
fn restore_finds_what_was_left_without_cgroups_too() {
    if !can_use_loop_devices() {
        return;
    }
    let _hidden = HiddenCgroups::new();
    grandchild_and_restore(&[]);
}

#[test]
fn what_a_trial_leaves_ends_with_it_and_what_setup_leaves_with_the_run() {
    for with_cgroups in [true, false] {
        let Some(bench) = Bench::new() else { return };
        let _hidden = (!with_cgroups).then(HiddenCgroups::new);
        // `$0` tells the processes of this test from others.
        let name = format!("{}-{with_cgroups}", bench.mounted.path());
        let server = "(exec 1>&- 2>&-; setsid sh -c \"while :; do sleep 1; done\" ";
        let setup = format!(
            "sh: (exec 1>&- 2>&-; sh -c \"while :; do sleep 1; done\" {name}-server & echo $! > pid)"
        );
        let load = format!(
            "command: sh: x=trial; kill -0 $(cat pid) && ! grep -sqa {name}-$x /proc/[0-9]*/cmdline && \
             {server} {name}-$x &)"
        );
        let output = bench.tune(bench.mounted.path(), &["--load", &load, "--setup", &setup]);
        assert!(output.status.success(), "{}", lossy(&output.stderr));
        let record = fs::read_to_string(bench.records.path().join("r/record.jsonl")).unwrap();
        assert_eq!(record.matches("\"type\":\"void\"").count(), 0, "{record}");
        assert_eq!(processes_with(&name), Vec::<u32>::new());
        assert!(Path::new(&bench.path("pid")).exists());
    }
}
