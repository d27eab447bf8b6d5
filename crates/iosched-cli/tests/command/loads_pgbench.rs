//! `iosched tune --load pgbench` with a real PostgreSQL: the answer, and what happens when things go
//! wrong. Nothing may be left over: no server, no directory, no database, and the scheduler as before.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::tuning::MIB;
use crate::common::{
    Mounted, can_use_loop_devices, has_postgres, iosched, iosched_process, postgres_user,
    processes_with, server_programs, wait_until,
};

/// Two rounds of two arms on a small database.
const SHORT: &[&str] = &[
    "--arms",
    "none,mq-deadline",
    "--fixed-rounds",
    "2",
    "--seed",
    "1",
];

/// The load of these tests: a few transactions.
const SMALL: &str = "pgbench:scale=1,clients=4,transactions=25";

/// How a run ended.
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

fn tune(mounted: &Mounted, load: &str, more: &[&str]) -> (Ended, tempfile::TempDir) {
    let records = tempfile::tempdir().unwrap();
    let before = mounted.disk.whole_queue();
    let output = iosched()
        .args(["tune", mounted.path(), "--load", load])
        .args(SHORT)
        .arg("--out")
        .arg(records.path().join("r"))
        .args(more)
        .output()
        .unwrap();
    assert_nothing_is_left(mounted);
    assert_eq!(mounted.disk.whole_queue(), before);
    let ended = Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    (ended, records)
}

fn assert_nothing_is_left(mounted: &Mounted) {
    let hidden: Vec<String> = mounted.names();
    assert!(
        !hidden.iter().any(|name| name.starts_with(".iosched-")),
        "{hidden:?}"
    );
    let servers = || processes_with(mounted.path());
    assert!(wait_until(|| servers().is_empty()), "{:?} go on", servers());
}

/// True in the middle of a trial.
fn is_measuring(mounted: &Mounted) -> bool {
    !processes_with(&format!("--log-prefix={}", mounted.path())).is_empty()
}

fn record(records: &tempfile::TempDir) -> String {
    fs::read_to_string(records.path().join("r/record.jsonl")).unwrap()
}

#[test]
fn a_cluster_of_our_own_is_made_measured_and_removed() {
    if !has_postgres() {
        return;
    }
    let mounted = Mounted::new(512 * MIB);
    let (ended, records) = tune(&mounted, SMALL, &[]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("  tps  "), "{}", ended.stdout);
    assert!(ended.stdout.contains("p99"), "{}", ended.stdout);
    let record = record(&records);
    assert_eq!(record.matches("\"type\":\"trial\"").count(), 4);
    let mut lines = record.lines();
    let trial = lines
        .find(|line| line.contains("\"type\":\"trial\""))
        .unwrap();
    let trial: serde_json::Value = serde_json::from_str(trial).unwrap();
    assert_eq!(trial["jobs"][0]["transactions"]["ios"], 100);
    assert!(trial["metrics"]["transactions_per_s"].as_f64().unwrap() > 0.0);
    assert!(trial["measured"]["write_await_ns"].as_f64().is_some());
    // Cold: the pages that transactions touch are read from the disk.
    assert!(trial["measured"]["read_bytes"].as_u64().unwrap() > MIB);
}

#[test]
fn a_server_that_dies_makes_a_void_trial_and_the_run_goes_on() {
    if !has_postgres() {
        return;
    }
    let mounted = Mounted::new(512 * MIB);
    // A transaction that kills its server the first time that it is run by anybody.
    let scripts = tempfile::tempdir().unwrap();
    let everybody = fs::Permissions::from_mode(0o777);
    fs::set_permissions(scripts.path(), everybody).unwrap();
    let (script, killed) = (
        scripts.path().join("kill.sql"),
        scripts.path().join("killed"),
    );
    let kill = format!(
        "COPY (SELECT 1) TO PROGRAM 'mkdir {} 2>&- || exit 0; kill -9 $(head -1 postmaster.pid); exit 1';\n",
        killed.display()
    );
    fs::write(&script, kill).unwrap();
    let load = format!(
        "pgbench:scale=1,clients=1,transactions=2,mode={}",
        script.display()
    );
    let (ended, records) = tune(&mounted, &load, &[]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(killed.exists());
    assert!(
        ended
            .stderr
            .contains("the PostgreSQL server died during the trial"),
        "{}",
        ended.stderr
    );
    let record = record(&records);
    assert!(record.contains("\"type\":\"void\""), "{record}");
    assert_eq!(record.matches("\"type\":\"trial\"").count(), 4);
}

#[test]
fn a_link_in_place_of_the_servers_log_does_not_lead_root_to_another_file() {
    if !has_postgres() {
        return;
    }
    let mounted = Mounted::new(512 * MIB);
    let secret = mounted.at.join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let records = tempfile::tempdir().unwrap();
    let script = records.path().join("link.sql");
    // What runs in the server may do all that its user may.
    let link = format!(
        "COPY (SELECT 1) TO PROGRAM 'ln -sf {} ../log';\n",
        secret.display()
    );
    fs::write(&script, link).unwrap();
    let load = format!(
        "pgbench:scale=1,clients=1,transactions=1,mode={}",
        script.display()
    );
    let (ended, _records) = tune(&mounted, &load, &[]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
}

#[test]
fn a_killed_run_leaves_no_server_and_restore_removes_its_files() {
    if !has_postgres() {
        return;
    }
    let mounted = Mounted::new(512 * MIB);
    let records = tempfile::tempdir().unwrap();
    let mut child = iosched_process()
        .args([
            "tune",
            mounted.path(),
            "--load",
            "pgbench:scale=1,clients=2,time=60",
        ])
        .args(SHORT)
        .arg("--out")
        .arg(records.path().join("r"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(wait_until(|| is_measuring(&mounted)));
    child.kill().unwrap();
    child.wait().unwrap();
    let servers = || processes_with(mounted.path());
    assert!(wait_until(|| servers().is_empty()), "{:?}", servers());
    iosched().arg("restore").assert().success();
    assert_nothing_is_left(&mounted);
    assert_eq!(mounted.disk.scheduler(), "none");
}

#[test]
fn a_server_that_is_not_installed_is_named_with_its_package() {
    if !can_use_loop_devices() {
        return;
    }
    let mounted = Mounted::new(512 * MIB);
    // In a mount namespace of its own, nothing is where the packages put it.
    let hide =
        "[ ! -d /usr/lib/postgresql ] || mount -t tmpfs none /usr/lib/postgresql; exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", hide, "sh"])
        .arg(iosched_process().get_program())
        .args(["tune", mounted.path(), "--load", SMALL])
        .args(SHORT)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("initdb is not installed"), "{stderr}");
    assert!(stderr.contains("apt install postgresql"), "{stderr}");
    assert_eq!(output.status.code(), Some(10));
}

/// A server that is not ours, on a target, for `--pg`.
struct Server {
    child: Child,
    directory: PathBuf,
}

impl Server {
    /// Makes one whose users need the password `right`.
    fn start(directory: &Path) -> Server {
        let (programs, uid) = (server_programs().unwrap(), postgres_user().unwrap());
        let directory = directory.join("theirs");
        fs::create_dir(&directory).unwrap();
        std::os::unix::fs::chown(&directory, Some(uid), None).unwrap();
        let data = directory.join("data");
        let password = directory.join("password");
        fs::write(&password, "right\n").unwrap();
        std::os::unix::fs::chown(&password, Some(uid), None).unwrap();
        let as_postgres = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command
                .uid(uid)
                .current_dir("/")
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command
        };
        let made = as_postgres("initdb")
            .args([
                "-U",
                "boss",
                "--auth=scram-sha-256",
                "--no-sync",
                "--locale=C",
                "-D",
            ])
            .arg(&data)
            .arg("--pwfile")
            .arg(&password)
            .status();
        assert!(made.unwrap().success());
        let child = as_postgres("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .arg("-c")
            .arg(format!("unix_socket_directories={}", directory.display()))
            .spawn()
            .unwrap();
        let pid_file = data.join("postmaster.pid");
        let is_ready = || {
            fs::read_to_string(&pid_file)
                .unwrap_or_default()
                .contains("ready")
        };
        assert!(wait_until(is_ready));
        Server { child, directory }
    }

    fn connection(&self) -> String {
        format!("host={} user=boss", self.directory.display())
    }

    fn ask(&self, statement: &str) -> String {
        let output = Command::new("psql")
            .args(["-XAtc", statement])
            .arg(format!("{} dbname=postgres", self.connection()))
            .env("PGPASSWORD", "right")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-QUIT", &pid]).status();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_of_the_users_is_measured_and_keeps_none_of_our_databases() {
    if !has_postgres() {
        return;
    }
    let mounted = Mounted::new(768 * MIB);
    let server = Server::start(&mounted.at);
    let tune = |password: &str, connection: &str| {
        let records = tempfile::tempdir().unwrap();
        let output = iosched()
            .args(["tune", mounted.path(), "--load", SMALL, "--pg", connection])
            .args(SHORT)
            .arg("--out")
            .arg(records.path().join("r"))
            .env("PGPASSWORD", password)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, stderr) = tune("right", &server.connection());
    assert_eq!(code, Some(0), "{stderr}");
    // One clear error each.
    server.ask("CREATE ROLE weak LOGIN PASSWORD 'right'");
    let host = format!("host={}", server.directory.display());
    let cases = [
        (
            "wrong",
            server.connection(),
            "password authentication failed",
            "PGPASSWORD",
        ),
        (
            "right",
            format!("{host} user=weak"),
            "permission denied to create database",
            "CREATEDB",
        ),
        (
            "right",
            format!("{host} user=nobody"),
            "authentication failed",
            "PGPASSWORD",
        ),
        (
            "right",
            format!("{host} port=1 user=boss"),
            "No such file or directory",
            "running",
        ),
        (
            "right",
            "host=127.0.0.1 port=1 user=boss".into(),
            "Connection refused",
            "running",
        ),
    ];
    for (password, connection, words, hint) in cases {
        let (code, stderr) = tune(password, &connection);
        assert_eq!(code, Some(13), "{connection}: {stderr}");
        let error = stderr
            .lines()
            .position(|line| line.starts_with("error: "))
            .unwrap();
        let rest: String = stderr.lines().skip(error).collect();
        assert!(rest.contains(words), "{connection}: {stderr}");
        assert!(
            rest.split("hint: ").nth(1).unwrap().contains(hint),
            "{connection}: {stderr}"
        );
    }
    assert_eq!(
        server.ask("SELECT datname FROM pg_database WHERE datname LIKE 'iosched%'"),
        ""
    );
    assert!(mounted.names() == ["theirs"], "{:?}", mounted.names());
    assert_eq!(mounted.disk.scheduler(), "none");
}

#[test]
fn the_databases_of_a_killed_run_go_with_restore_and_with_the_next_run() {
    if !has_postgres() {
        return;
    }
    let mounted = Mounted::new(1024 * MIB);
    let server = Server::start(&mounted.at);
    // Somebody's own, whose name begins as ours do.
    server.ask("CREATE DATABASE iosched_1_notours_trial");
    let connection = server.connection();
    let measure = |load: &str, records: &tempfile::TempDir| {
        let mut command = iosched_process();
        command
            .args(["tune", mounted.path(), "--load", load, "--pg", &connection])
            .args(SHORT)
            .arg("--out")
            .arg(records.path().join("r"))
            .env("PGPASSWORD", "right")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    };
    let databases = || server.ask("SELECT datname FROM pg_database WHERE datname LIKE 'iosched%'");
    // Killed while the trial runs, and while pgbench fills the template.
    let long = "pgbench:scale=1,clients=2,time=60";
    for (load, reached) in [(long, "_trial"), ("pgbench:scale=5", "_template")] {
        let records = tempfile::tempdir().unwrap();
        let mut child = measure(load, &records).spawn().unwrap();
        let prefix = format!("iosched_{}_", child.id());
        let is_made = || {
            let names = databases();
            names
                .lines()
                .any(|name| name.starts_with(&prefix) && name.ends_with(reached))
        };
        let was_made = wait_until(is_made);
        child.kill().unwrap();
        let said = child.wait_with_output().unwrap().stderr;
        assert!(was_made, "{load}: {}", String::from_utf8_lossy(&said));
        assert_ne!(
            databases(),
            "iosched_1_notours_trial\n",
            "what is there to drop"
        );

        if load == long {
            // Without the password nothing is dropped, and it is said; then with it.
            let failed = iosched().arg("restore").output().unwrap();
            assert_eq!(failed.status.code(), Some(1));
            let said = String::from_utf8(failed.stdout).unwrap();
            assert!(said.contains("PGPASSWORD"), "{said}");
            let restored = iosched().arg("restore").env("PGPASSWORD", "right").output();
            let said = String::from_utf8(restored.unwrap().stdout).unwrap();
            assert!(said.contains(&format!("dropped {prefix}")), "{said}");
        } else {
            let records = tempfile::tempdir().unwrap();
            let next = measure(SMALL, &records).output().unwrap();
            let said = String::from_utf8(next.stderr).unwrap();
            assert!(next.status.success(), "{said}");
            assert!(
                said.contains("put back what an interrupted run left"),
                "{said}"
            );
        }
        assert_eq!(databases(), "iosched_1_notours_trial\n");
    }
    let nothing = iosched().arg("restore").output().unwrap();
    let said = String::from_utf8(nothing.stdout).unwrap();
    assert!(!said.contains("dropped"), "{said}");
    assert!(mounted.names() == ["theirs"], "{:?}", mounted.names());
    assert_eq!(mounted.disk.scheduler(), "none");
}
