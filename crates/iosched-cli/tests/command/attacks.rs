//! A load that runs as another user, and the owner of a directory in which root measures, try whatever they can think
//! of to reach what is root's: its files, its disks, its processes, its terminal, its words. None gets anywhere; the
//! run ends, and nothing of it is left.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use iosched_testing::lacks;
use iosched_testing::mounts::own_mounts;

use crate::common::bench::{Bench, nobody};
use crate::common::tuning::MIB;
use crate::common::{
    LoopDevice, Mounted, assert_plain, can_use_loop_devices, has_fio, in_one_line, iosched,
    iosched_process, lossy, processes_with, quoted, run,
};

/// What a load tries that only root may do: its name, and a command of the shell that ends with 0 if it was done.
/// `$US` is the pid of `iosched`, `$DISK` the disk's node, `$QUEUE` its queue, `$OUT` the record's directory,
/// `$PRIVATE` a directory of root's, `$TARGET` the target, `$TOOLS` programs with rights of root's.
const ONLY_ROOT: &[(&str, &str)] = &[
    ("writes to the disk", "echo x > $DISK"),
    ("reads the disk", "head -c1 $DISK > it"),
    ("locks the disk against writing", "blockdev --setro $DISK"),
    ("detaches the disk", "losetup -d $DISK"),
    (
        "sets the scheduler",
        "{ echo none || echo mq-deadline; } > $QUEUE/scheduler",
    ),
    (
        "sets the queue's length",
        "n=$(cat $QUEUE/nr_requests) && echo $n > $QUEUE/nr_requests",
    ),
    ("reads root's file", "cat $PRIVATE/secret"),
    ("lists root's directory", "ls $PRIVATE"),
    ("links to root's file", "ln $PRIVATE/secret hard"),
    (
        "makes a file beside root's",
        "mkdir $TARGET/made || touch $TARGET/made",
    ),
    ("renames root's directory", "mv $PRIVATE $TARGET/moved"),
    ("adds to the record", "echo '{}' >> $OUT/record.jsonl"),
    (
        "takes the record away",
        "mv $OUT/record.jsonl $OUT/r || rm $OUT/record.jsonl",
    ),
    (
        "puts a link beside the record",
        "ln -s $PRIVATE/secret $OUT/report.html",
    ),
    (
        "forges a journal entry",
        "echo '{}' > /var/lib/iosched/journal/1.json",
    ),
    ("takes the journal away", "rm -r /var/lib/iosched/journal"),
    (
        "forges a change",
        "mkdir -p /var/lib/iosched/history && echo '{}' > /var/lib/iosched/history/1.json",
    ),
    ("holds the lock", "exec 9< /var/lib/iosched/lock"),
    ("removes the lock", "rm /var/lib/iosched/lock"),
    (
        "makes an emulated disk's directory",
        "mkdir -p /run/iosched/emulated/x",
    ),
    (
        "keeps a policy",
        "touch /etc/iosched/policy.toml || mkdir /etc/iosched",
    ),
    ("stops us", "kill -STOP $US"),
    ("kills us", "kill -KILL $US"),
    ("reads our environment", "cat /proc/$US/environ | grep -q ."),
    (
        "reads our memory",
        "head -c1 /proc/$US/mem || cat /proc/$US/maps | grep -q .",
    ),
    ("lists our descriptors", "ls /proc/$US/fd"),
    ("uses our root", "ls /proc/$US/root/ || ls /proc/$US/cwd/"),
    (
        "traces us",
        "perl -e 'exit(syscall(101, 16, $ARGV[0], 0, 0) == 0 ? 0 : 1)' $US",
    ),
    ("slows us down", "renice -n 19 -p $US"),
    ("takes our processors away", "taskset -pc 0 $US"),
    ("bounds our files", "prlimit --pid $US --nofile=1:1"),
    ("makes us idle at the disk", "ionice -c3 -p $US"),
    (
        "has us killed for memory",
        "echo 1000 > /proc/$US/oom_score_adj",
    ),
    (
        "runs a program that is set to root",
        "test \"$($TOOLS/set-user-id -u)\" = 0",
    ),
    (
        "runs a program that is set to root's group",
        "test \"$($TOOLS/set-group-id -g)\" = 0",
    ),
    (
        "runs a program with capabilities",
        "$TOOLS/capable $PRIVATE/secret",
    ),
    ("becomes root", "su -c true root || sudo -n true"),
    ("opens our terminal", "exec 9<> /dev/tty"),
    ("reads what is typed for us", "test -n \"$(head -c1)\""),
    (
        "uses a descriptor of ours",
        "ls -l /proc/$$/fd | grep -q /etc/shadow || cat <&7",
    ),
    ("reads our variables", "env | grep -q s3cr3t"),
    (
        "leaves its cgroup",
        "for g in /sys/fs/cgroup /sys/fs/cgroup/unified; do echo 0 > $g/cgroup.procs && exit 0; done; exit 1",
    ),
    (
        "ends the cgroup above it",
        "echo 1 > /sys/fs/cgroup/$(sed -n 's,^0::/,,p' /proc/self/cgroup)/../cgroup.kill",
    ),
    (
        "mounts over root's directory",
        "mount -t tmpfs none $PRIVATE",
    ),
    ("unmounts the target", "umount -l $TARGET"),
    (
        "reads root's file as root of its own namespace",
        "unshare -rm cat $PRIVATE/secret",
    ),
    (
        "makes a node of the disk",
        "mknod node b $(stat -c '0x%t 0x%T' $DISK) && head -c1 node > it",
    ),
    (
        "gives root a program that is set to root",
        "cp $(command -v id) own && chown 0 own && chmod 4755 own",
    ),
    (
        "traces the kernel",
        "ls /sys/kernel/tracing/instances || echo 1 > /sys/kernel/tracing/tracing_on",
    ),
    ("crashes the machine", "echo h > /proc/sysrq-trigger"),
    (
        "loads a module",
        "modprobe --first-time brd || insmod /dev/null",
    ),
];

/// What a load of another user does to its own directory, its output and its processes: `$IOSCHED_SCRATCH` is the
/// working directory, `$NAME` is in the command line of what it leaves.
const MISCHIEF: &[(&str, &str)] = &[
    (
        "puts a link in place of its directory",
        "cd ..; rm -rf scratch; ln -s $PRIVATE scratch",
    ),
    (
        "puts a link above its directory",
        "cd ../..; d=$(basename $(dirname $IOSCHED_SCRATCH)); mv $d $d.old || true; ln -s $PRIVATE $d || true",
    ),
    ("takes its directory away", "cd ..; rm -rf scratch"),
    (
        "puts a FIFO in place of its directory",
        "cd ..; rm -rf scratch; mkfifo scratch",
    ),
    (
        "leaves FIFOs and sockets",
        "mkfifo fifo; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => \"socket\", Listen => 1)'",
    ),
    (
        "closes its directories",
        "mkdir -p a/b/c; touch a/b/c/d; chmod 0 a/b a .",
    ),
    (
        "links to root's files",
        "ln -s $PRIVATE/secret l; ln -s /etc/shadow s; ln -s .. up; ln -s . self",
    ),
    (
        "links to a file of root's that it may read",
        "ln $READABLE hard || true; chmod 0 hard || true",
    ),
    (
        "nests directories deeply",
        "perl -e 'for (1..2000) { mkdir \"d\"; chdir \"d\" or exit }'",
    ),
    (
        "makes many files",
        "i=0; while [ $i -lt 1500 ]; do : > f$i; i=$((i+1)); done",
    ),
    (
        "makes files with odd names",
        "touch -- -rf '*' ' ' '\\' \"$(printf 'a\\nb')\" \"$(printf 'e\\033]0;owned\\007')\" \"$(printf 'bad\\377')\" \
         \"$(printf '%0255d' 0)\"; mkdir -p -- \"$(printf '..\\n')/-x\"",
    ),
    ("leaves a hole of a terabyte", "truncate -s 1T hole"),
    (
        "leaves a process that goes on writing",
        "(setsid sh -c 'while :; do echo x >> again; mkdir -p again.d; done' $NAME >/dev/null 2>&1 &)",
    ),
    (
        "leaves a process that cannot be asked to end",
        "(setsid sh -c 'trap \"\" TERM HUP INT QUIT; while :; do sleep 1; done' $NAME >/dev/null 2>&1 &)",
    ),
    (
        "leaves a process that has stopped",
        "(setsid sh -c 'kill -STOP $$' $NAME >/dev/null 2>&1 &)",
    ),
    (
        "leaves a process that forgets whose it is",
        "(env -i setsid setsid sh -c 'cd /; while :; do sleep 1; done' $NAME >/dev/null 2>&1 &)",
    ),
    (
        "leaves a process that holds its output open",
        "(setsid sh -c 'while :; do sleep 1; done' $NAME &)",
    ),
    (
        "prints commands for the terminal",
        "printf '\\033]52;c;b3duZWQ=\\007\\033[2J\\233A\\302\\233B\\r'; printf '\\033]0;owned\\007\\342\\200\\256' >&2",
    ),
    (
        "fails with commands for the terminal",
        "printf '\\033]0;owned\\007\\033[31m\\r\\342\\200\\256' >&2; exit 3",
    ),
    ("prints what is no text", "head -c 300000 /dev/urandom"),
    (
        "prints a line without end",
        "head -c 3000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/zero | tr '\\0' y >&2",
    ),
    (
        "traces its first process and keeps its end to itself",
        "command -v perl >/dev/null || exit 0; perl -e 'fork || do { syscall(101, 0x4206, $ARGV[0], 0, 0); mkdir \"traces\"; sleep 1000000 }' $$ $NAME; \
         until [ -e traces ]; do :; done",
    ),
    (
        "waits for a file system that it serves itself and answers nothing",
        OWN_FUSE,
    ),
    ("ends by a signal", "kill -SEGV $$"),
    ("closes its output", "exec 1>&- 2>&-"),
];

/// Leaves a process that no signal ends: it waits in the kernel for a FUSE server that it keeps alive itself.
const OWN_FUSE: &str = r#"python3 - $NAME <<'END' >/dev/null 2>&1 &
import ctypes, os, struct
libc = ctypes.CDLL(None)
uid, gid = os.getuid(), os.getgid()
assert libc.unshare(0x10000000 | 0x20000) == 0  # CLONE_NEWUSER, CLONE_NEWNS
for path, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    with open(f"/proc/self/{path}", "w") as out:
        out.write(text)
fuse = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
os.mkdir("served")
assert libc.mount(b"x", b"served", b"fuse", 0, options) == 0
if os.fork() == 0:
    _, opcode, unique = struct.unpack("=IIQ", os.read(fuse, 1 << 17)[:16])
    init = struct.pack("=IIIIHHIIHH8I", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, *[0] * 8)
    os.write(fuse, struct.pack("=IiQ", 16 + len(init), 0, unique) + init)
    while True:
        os.read(fuse, 1 << 17)
open("waits", "w").close()
os.stat("served/x")
END
i=0; until [ -e waits ] || [ $i = 50 ]; do sleep 0.1; i=$((i+1)); done; sleep 0.3"#;

/// All that nobody may change.
struct Victims {
    files: BTreeMap<PathBuf, (u32, u32, u32, u64, Vec<u8>)>,
    mounts: String,
    queue: BTreeMap<String, String>,
}

impl Victims {
    /// Fails with what is not as it was.
    #[track_caller]
    fn assert_untouched(&self, bench: &Bench, what: &str) {
        let now = Victims::look(bench);
        let names = |victims: &Victims| victims.files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&now), names(self), "{what}");
        for (path, was) in &self.files {
            assert!(
                now.files[path] == *was,
                "{} was touched: {what}",
                path.display()
            );
        }
        assert_eq!(now.mounts, self.mounts, "{what}");
        assert_eq!(now.queue, self.queue, "{what}");
    }

    fn look(bench: &Bench) -> Victims {
        let mut files = BTreeMap::new();
        let mut open = vec![
            bench.mounted.at.join("private"),
            bench.mounted.at.join("tools"),
        ];
        open.extend(["readable", "attack"].map(|name| bench.mounted.at.join(name)));
        open.extend(["/etc/passwd", "/etc/shadow"].map(PathBuf::from));
        while let Some(path) = open.pop() {
            let Ok(data) = fs::symlink_metadata(&path) else {
                continue;
            };
            if data.is_dir() {
                let entries = fs::read_dir(&path).unwrap().flatten();
                open.extend(entries.map(|entry| entry.path()));
            }
            let content = if data.is_file() {
                fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            files.insert(
                path,
                (data.mode(), data.uid(), data.gid(), data.nlink(), content),
            );
        }
        Victims {
            files,
            mounts: own_mounts(),
            queue: bench.mounted.disk.whole_queue(),
        }
    }
}

/// A bench with programs that root gave rights to, and a file of root's that everybody may read.
fn bench_with_tools() -> Option<Bench> {
    if Command::new("perl").arg("--version").output().is_err() {
        lacks("perl");
        return None;
    }
    let bench = Bench::new()?;
    let tools = bench.mounted.at.join("tools");
    fs::create_dir(&tools).unwrap();
    for (name, program, mode) in [
        ("set-user-id", "id", 0o4755),
        ("set-group-id", "id", 0o2755),
        ("capable", "cat", 0o755),
    ] {
        let path = tools.join(name);
        fs::copy(which(program), &path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    may_read_all(&tools.join("capable"));
    fs::write(bench.mounted.at.join("readable"), "readable").unwrap();
    // There is a lock, as on each machine on which something was changed.
    iosched().arg("undo").assert().code(1);
    Some(bench)
}

fn which(program: &str) -> PathBuf {
    let directories = ["/usr/bin", "/bin"].into_iter().map(Path::new);
    let mut paths = directories.map(|directory| directory.join(program));
    paths.find(|path| path.exists()).unwrap()
}

/// Gives a program `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH`, in force when it starts: `struct vfs_cap_data` of
/// `include/uapi/linux/capability.h`.
fn may_read_all(program: &Path) {
    const REVISION_2_EFFECTIVE: u32 = 0x0200_0001;
    const PERMITTED: u32 = 1 << 1 | 1 << 2;
    let words = [REVISION_2_EFFECTIVE, PERMITTED, 0, 0, 0];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(program, "security.capability", &value, flags).unwrap();
}

/// Writes a script of the shell that knows where everything is.
fn script(bench: &Bench, name: &str, lines: &str) -> String {
    let path = bench.path("attack");
    let disk = bench.mounted.disk.path();
    let words = format!(
        "TARGET={}; PRIVATE=$TARGET/private; READABLE=$TARGET/readable; TOOLS=$TARGET/tools; DISK={}; \
         QUEUE=/sys/block/{}/queue; OUT={}; NAME={name}; REPORT=$TARGET/report\n\
         US=$PPID; until [ \"$(cat /proc/$US/comm)\" = iosched ]; do\n\
         US=$(sed -n 's/^PPid:\\t//p' /proc/$US/status); [ $US -gt 1 ] || exit 99; done\n\
         export TARGET PRIVATE READABLE TOOLS DISK QUEUE OUT NAME REPORT US\n\
         cd $IOSCHED_SCRATCH\n{lines}\n",
        bench.mounted.path(),
        disk.display(),
        bench.mounted.disk.name,
        bench.records.path().join("r").display(),
    );
    fs::write(&path, words).unwrap();
    path
}

#[test]
fn a_load_of_another_user_does_nothing_that_only_root_may_do() {
    let Some(bench) = bench_with_tools() else {
        return;
    };
    let report = bench.report();
    fs::set_permissions(bench.records.path(), Permissions::from_mode(0o755)).unwrap();
    let tries = ONLY_ROOT.iter().map(|(name, attack)| {
        format!(
            "if sh -c {} > /dev/null 2>&1; then echo \"DONE {name}\"; else echo \"refused {name}\"; fi >> $REPORT\n",
            quoted(attack)
        )
    });
    // The script's own input is what the load got as its input.
    let attack = script(&bench, "only-root", &tries.collect::<String>());
    let before = Victims::look(&bench);
    let load = format!("command: sh {attack}");
    let arguments = bench.arguments(bench.mounted.path(), &["--load", &load, "--user", "nobody"]);
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec 7< /etc/shadow; exec \"$@\"", "sh"])
        .arg(iosched_process().get_program())
        .args(arguments)
        .env("SECRET_TOKEN", "s3cr3t")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let _ = input.write_all(b"typed\n");
    let output = child.wait_with_output().unwrap();
    drop(input);
    let said = fs::read_to_string(&report).unwrap();
    assert!(output.status.success(), "{}\n{said}", lossy(&output.stderr));
    for (name, _) in ONLY_ROOT {
        let refused = said
            .lines()
            .filter(|line| *line == format!("refused {name}"));
        assert_eq!(refused.count(), 4, "{name}: in each of four trials\n{said}");
    }
    before.assert_untouched(&bench, "after all of it");
    assert_eq!(
        bench.mounted.names().len(),
        5,
        "{:?}",
        bench.mounted.names()
    );
    assert!(fs::read_dir("/var/lib/iosched/journal").is_ok_and(|names| names.count() == 0));
}

/// The same as root: what the list tries can be done, and is seen to have been done.
#[test]
fn what_a_load_is_refused_it_could_do_as_root() {
    /// Those that leave the machine as it was.
    const HARMLESS: &[&str] = &[
        "reads the disk",
        "sets the queue's length",
        "reads root's file",
        "lists root's directory",
        "links to root's file",
        "reads our environment",
        "reads our memory",
        "lists our descriptors",
        "uses our root",
        "slows us down",
        "makes a node of the disk",
        "runs a program with capabilities",
        "runs a program that is set to root",
        "holds the lock",
    ];
    let Some(bench) = bench_with_tools() else {
        return;
    };
    let report = bench.report();
    let harmless = ONLY_ROOT.iter().filter(|(name, _)| HARMLESS.contains(name));
    let tries = harmless.map(|(name, attack)| {
        format!(
            "sh -c {} > /dev/null && echo \"DONE {name}\" >> $REPORT\n",
            quoted(attack)
        )
    });
    let attack = script(&bench, "as-root", &(tries.collect::<String>() + "true"));
    let load = format!("command: sh {attack}");
    let output = bench.tune(bench.mounted.path(), &["--load", &load]);
    let said = fs::read_to_string(&report).unwrap();
    assert!(output.status.success(), "{}\n{said}", lossy(&output.stderr));
    for name in HARMLESS {
        assert!(
            said.contains(&format!("DONE {name}\n")),
            "{name}: {said}{}",
            lossy(&output.stderr)
        );
    }
}

#[test]
fn whatever_a_load_does_to_its_own_the_run_ends_and_removes_it() {
    let Some(bench) = bench_with_tools() else {
        return;
    };
    bench.report();
    script(&bench, "none", "");
    let expected = bench.mounted.names();
    for (at, (name, lines)) in MISCHIEF.iter().enumerate() {
        let mark = format!("{}-mischief-{at}", bench.mounted.path());
        let attack = script(
            &bench,
            &mark,
            &format!("touch $IOSCHED_SCRATCH/begun\n{lines}"),
        );
        let before = Victims::look(&bench);
        let more = [
            "--load",
            &format!("command: sh {attack}"),
            "--user",
            "nobody",
        ];
        let output = bench.tune(bench.mounted.path(), &more);
        let said = lossy(&output.stdout) + &lossy(&output.stderr);
        assert!(output.status.code().is_some(), "{name}: {said}");
        assert_is_plain(name, &output);
        before.assert_untouched(&bench, name);
        assert_eq!(processes_with(&mark), Vec::<u32>::new(), "{name}: {said}");
        assert_eq!(bench.mounted.names(), expected, "{name}: {said}");
        let restored = iosched().arg("restore").output().unwrap();
        assert!(
            restored.status.success(),
            "{name}: {}",
            lossy(&restored.stdout)
        );
        for form in [&["--csv"][..], &["--md"], &[]] {
            let record = bench.records.path().join("r");
            let report = iosched()
                .arg("report")
                .arg(&record)
                .args(form)
                .output()
                .unwrap();
            assert_is_plain(name, &report);
        }
        let _ = fs::remove_dir_all(bench.records.path().join("r"));
    }
}

/// Fails if there is something in it that a terminal obeys.
#[track_caller]
fn assert_is_plain(name: &str, output: &Output) {
    assert_plain(name, &lossy(&output.stdout));
    assert_plain(name, &lossy(&output.stderr));
}

/// The owner of the target changes it for a link again and again while root measures in it.
#[test]
fn a_target_that_its_owner_changes_for_a_link_leads_root_nowhere() {
    let Some(bench) = Bench::new() else { return };
    if !has_fio() {
        return;
    }
    let (uid, gid) = nobody();
    let yard = bench.mounted.at.join("yard");
    fs::create_dir_all(yard.join("target")).unwrap();
    for path in [yard.clone(), yard.join("target")] {
        chown(path, Some(uid), Some(gid)).unwrap();
    }
    let before = Victims::look(&bench);
    let swapping = format!(
        "cd {}; while :; do mv target real && ln -s ../private target; rm target; mv real target; done",
        yard.display()
    );
    let mut owner = Command::new("sh")
        .args(["-c", &swapping])
        .uid(uid)
        .gid(gid)
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let target = yard.join("target").display().to_string();
    for more in [&["--user", "nobody"][..], &[]] {
        for load in [
            "random-read",
            "documents-read:threads=1,documents=9,stored=9,size=4k",
            "command: sh: cp /proc/self/status $IOSCHED_SCRATCH",
        ] {
            let arguments = ["--load", load, "--file-size", "1M", "--runtime", "50ms"];
            let output = bench.tune(&target, &[&arguments[..], more].concat());
            let stderr = lossy(&output.stderr);
            assert_ne!(output.status.code(), None, "{stderr}");
            before.assert_untouched(
                &bench,
                &format!("{load} {more:?} {:?}: {stderr}", output.status),
            );
            let _ = fs::remove_dir_all(bench.records.path().join("r"));
        }
    }
    run("kill", &["-KILL", "--", &format!("-{}", owner.id())]);
    owner.wait().unwrap();
    iosched().arg("restore").output().unwrap();
    before.assert_untouched(&bench, "after all of it");
}

#[test]
fn a_link_of_another_user_and_a_directory_closed_to_the_user_are_refused_before_anything_is_made() {
    let Some(bench) = Bench::new() else { return };
    if !has_fio() {
        return;
    }
    let (uid, gid) = nobody();
    let at = |name: &str| bench.mounted.at.join(name);
    fs::create_dir(at("yard")).unwrap();
    fs::create_dir(at("public")).unwrap();
    symlink("../public", at("yard/link")).unwrap();
    symlink("yard/link", at("link")).unwrap();
    symlink(bench.mounted.disk.path(), at("yard/disk")).unwrap();
    for name in ["yard", "yard/link", "yard/disk"] {
        std::os::unix::fs::lchown(at(name), Some(uid), Some(gid)).unwrap();
    }
    let before = Victims::look(&bench);
    let disk = bench.path("yard/disk");
    for command in [
        &["set", &disk, "none"][..],
        &["emulate", "create", "--over", &disk, "--scheduler", "noop"],
    ] {
        let named = format!("--destroy-data={disk}");
        let more = (command[0] == "emulate").then_some(named.as_str());
        let output = iosched().args(command).args(more).output().unwrap();
        let stderr = lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(11), "{command:?}: {stderr}");
        let name = format!("name {}", bench.mounted.disk.name);
        assert!(
            stderr.contains("nobody may change") && stderr.contains(&name),
            "{command:?}: {stderr}"
        );
        before.assert_untouched(&bench, command[0]);
    }
    for dry_run in [&["--dry-run"][..], &[]] {
        for (target, more, code, says) in [
            ("yard/link", &[][..], 11, "nobody may change"),
            ("link", &[], 11, "nobody may change"),
            ("yard/disk", &[], 11, "nobody may change"),
            // A disk is written by root, whoever the load runs as.
            ("yard/disk", &["--user", "nobody"], 11, "nobody may change"),
            ("private", &["--user", "nobody"], 8, "nobody may not enter"),
        ] {
            let load = if target == "yard/disk" {
                "random-read"
            } else {
                "command: true"
            };
            let more = [&["--load", load], more, dry_run].concat();
            let output = bench.tune(&bench.path(target), &more);
            let stderr = lossy(&output.stderr);
            assert_eq!(
                output.status.code(),
                Some(code),
                "{target} {dry_run:?}: {stderr}"
            );
            assert!(
                stderr.contains(says) && stderr.contains("hint: "),
                "{target}: {stderr}"
            );
            before.assert_untouched(&bench, target);
            assert_eq!(fs::read_dir(at("public")).unwrap().count(), 0);
            let _ = fs::remove_dir_all(bench.records.path().join("r"));
        }
    }
    let more = ["--load", "command: true", "--user", "nobody"];
    let output = bench.tune(&bench.path("link"), &more);
    assert!(output.status.success(), "{}", lossy(&output.stderr));
}

/// Puts something at a path to lead whoever writes there to a file.
type Trap = fn(&Path, &Path);

/// What somebody else put where the record is to go.
#[test]
fn a_record_is_not_written_through_what_another_user_put_there() {
    let Some(bench) = Bench::new() else { return };
    let (uid, gid) = nobody();
    let secret = bench.mounted.at.join("private/secret");
    let place = bench.mounted.at.join("place");
    let traps: &[(&str, Trap)] = &[
        ("a link in place of its file", |out, secret| {
            fs::create_dir(out).unwrap();
            symlink(secret, out.join("record.jsonl")).unwrap();
        }),
        ("a hard link in place of its file", |out, secret| {
            fs::create_dir(out).unwrap();
            fs::hard_link(secret, out.join("record.jsonl")).unwrap();
        }),
        ("a link in place of its page", |out, secret| {
            fs::create_dir(out).unwrap();
            symlink(secret, out.join("report.html")).unwrap();
        }),
        ("a FIFO in place of its file", |out, _| {
            fs::create_dir(out).unwrap();
            run("mkfifo", &[out.join("record.jsonl").to_str().unwrap()]);
        }),
        ("a link in place of its directory", |out, secret| {
            symlink(secret.parent().unwrap(), out).unwrap();
        }),
        ("a link to a file that is not there", |out, secret| {
            fs::create_dir(out).unwrap();
            symlink(secret.with_file_name("made"), out.join("record.jsonl")).unwrap();
        }),
    ];
    for (name, trap) in traps {
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place).unwrap();
        let out = place.join("r");
        trap(&out, &secret);
        for path in [&place, &out] {
            let _ = std::os::unix::fs::lchown(path, Some(uid), Some(gid));
        }
        let before = Victims::look(&bench);
        let output = iosched()
            .args(["tune", &bench.mounted.disk.name, "--load", "command: true"])
            .args(["--arms", "none,mq-deadline", "--fixed-rounds", "2", "--out"])
            .arg(&out)
            .output()
            .unwrap();
        let stderr = lossy(&output.stderr);
        assert_ne!(output.status.code(), None, "{name}: {stderr}");
        before.assert_untouched(&bench, &format!("{name}: {stderr}"));
    }
    let _ = fs::remove_dir_all(&place);
}

/// Whoever may write a record says what is run: root reads such a one, and goes on with none.
#[test]
fn a_record_that_another_user_may_have_written_is_read_and_not_run() {
    let Some(bench) = Bench::new() else { return };
    let (uid, gid) = nobody();
    let report = bench.report();
    let load = format!("command: sh: echo run >> {report}");
    let output = bench.tune(bench.mounted.path(), &["--load", &load, "--no-html"]);
    assert!(output.status.success(), "{}", lossy(&output.stderr));
    let record = fs::read_to_string(bench.records.path().join("r/record.jsonl")).unwrap();
    let (header, _) = record.split_once('\n').unwrap();
    let header = format!("{header}\n"); // without a trial

    let dir = tempfile::tempdir().unwrap();
    let [above, link] = ["above", "link"].map(|name| dir.path().join(name));
    let out = above.join("r");
    let file = out.join("record.jsonl");
    let resume = |named: &Path, more: &[&str], sudo: Option<u32>| {
        fs::write(&report, "").unwrap();
        let mut command = iosched();
        command.env_remove("SUDO_UID");
        if let Some(uid) = sudo {
            command.env("SUDO_UID", uid.to_string());
        }
        command.args(["tune", "--no-html", "--resume"]).arg(named);
        let output = command.args(more).output().unwrap();
        let has_run = fs::read_to_string(&report).unwrap().contains("run");
        (output.status.code(), has_run, lossy(&output.stderr))
    };
    let begin = || {
        let _ = fs::remove_dir_all(&above);
        fs::create_dir_all(&out).unwrap();
        fs::write(&file, &header).unwrap();
        for (path, mode) in [(&above, 0o755), (&out, 0o755), (&file, 0o644)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    };
    let whose = |path: &Path| chown(path, Some(uid), Some(gid)).unwrap();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let ways: &[(&str, &Path, &dyn Fn())] = &[
        ("nobody", &out, &|| whose(&out)),
        ("nobody", &above, &|| whose(&above)),
        ("nobody", &file, &|| whose(&file)),
        ("everybody", &file, &|| mode(&file, 0o646)),
        ("everybody", &out, &|| mode(&out, 0o757)),
        ("group", &out, &|| mode(&out, 0o775)),
        ("group", &file, &|| mode(&file, 0o664)),
        ("everybody", &above, &|| mode(&above, 0o757)),
        ("nobody", &above, &|| {
            whose(&above);
            mode(&above, 0o1777);
        }),
    ];
    for (who, at, lay) in ways {
        for more in [&[][..], &["--dry-run"]] {
            begin();
            lay();
            let (code, has_run, stderr) = resume(&out, more, None);
            let said = format!("{who} {}: {stderr}", at.display());
            assert_eq!((code, has_run), (Some(11), false), "{said}");
            let told = in_one_line(&stderr);
            assert!(told.contains(who), "{said}");
            assert!(
                told.contains(&format!("may change {}", at.display())),
                "{said}"
            );
            assert_eq!(fs::read_to_string(&file).unwrap(), header, "{said}");
            assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "{said}");
        }
        let output = iosched().arg("report").arg(&out).output().unwrap();
        assert!(output.status.success(), "{}", lossy(&output.stderr));
    }
    // The name of a record of root's, by a link that another user lays.
    begin();
    symlink(&out, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(uid), Some(gid)).unwrap();
    let (code, has_run, stderr) = resume(&link, &[], None);
    assert_eq!((code, has_run), (Some(11), false), "{stderr}");

    // What only root can write is gone on with; so is what belongs to who called sudo, and to whose rights the loads have.
    let (code, has_run, stderr) = resume(&out, &[], None);
    assert_eq!((code, has_run), (Some(0), true), "{stderr}");
    begin();
    whose(&above);
    let (code, has_run, stderr) = resume(&out, &[], Some(uid));
    assert_eq!((code, has_run), (Some(0), true), "{stderr}");
    begin();
    whose(&out);
    let (code, has_run, stderr) = resume(&out, &["--user", "nobody"], None);
    assert_eq!((code, has_run), (Some(0), true), "{stderr}");
}

/// What is no place to measure is refused by name, whatever a link says.
#[test]
fn a_target_that_is_neither_disk_nor_place_for_files_is_refused() {
    let Some(bench) = Bench::new() else { return };
    let at = |name: &str| bench.mounted.at.join(name);
    run("mkfifo", &[&bench.path("fifo")]);
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    symlink("/dev/null", at("null")).unwrap();
    symlink("loop", at("loop")).unwrap();
    symlink("/proc/self/mem", at("memory")).unwrap();
    assert!(fs::metadata(at("fifo")).unwrap().file_type().is_fifo());
    for name in ["fifo", "socket", "null", "loop", "memory", "nothing"] {
        let output = bench.tune(&bench.path(name), &["--load", "random-read"]);
        let stderr = lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(1..=16)),
            "{name}: {stderr}"
        );
        let errors = stderr.lines().filter(|line| line.starts_with("error: "));
        assert_eq!(errors.count(), 1, "{name}: {stderr}");
    }
    // A link to the disk is the disk: not written to without being told to.
    let disk = LoopDevice::new(8 * MIB);
    fs::write(disk.file(), vec![7; 8 << 20]).unwrap();
    symlink(disk.path(), at("disk")).unwrap();
    let output = bench.tune(&bench.path("disk"), &["--load", "random-write"]);
    let stderr = lossy(&output.stderr);
    assert!(!output.status.success(), "{stderr}");
    assert!(fs::read(disk.file()).unwrap().iter().all(|byte| *byte == 7));
}

/// Options of a job file that make fio, which runs as root, do something else than to read its target.
#[test]
fn a_job_file_makes_root_do_nothing_but_what_the_run_is_for() {
    let Some(bench) = Bench::new() else { return };
    if !has_fio() {
        return;
    }
    let made = bench.path("made");
    let secret = bench.path("private/secret");
    let disk = bench.mounted.disk.path().display().to_string();
    let options = [
        format!("exec_prerun=touch {made}"),
        format!("exec_postrun=touch {made}"),
        format!("filename={secret}"),
        format!("filename={disk}"),
        format!("filename_format={made}"),
        format!("directory={}", bench.path("private")),
        format!("opendir={}", bench.path("private")),
        format!("write_bw_log={made}"),
        format!("write_iolog={made}"),
        format!("read_iolog={secret}"),
        format!("write_hist_log={made}"),
        format!("ioengine=external:{secret}"),
        format!("include {secret}"),
        format!("aux-path={}", bench.path("private")),
        format!("verify_state_save=1\nverify=crc32c\nfilename={made}"),
        format!("cgroup=/{made}"),
        "unlink=1".into(),
        "unlink_each_loop=1".into(),
        format!("buffer_pattern='{secret}'"),
        format!("ioscheduler=none\ntrigger_command=touch {made}"),
        "uid=0\ngid=0\nprioclass=1".into(),
        "rw=randtrim".into(),
        "ioengine=sg".into(),
        "ioengine=exec\nprogram=touch".into(),
        format!("filename=${{HOME}}/{made}"),
        format!("bandwidth-log={made}"),
        // fio reads so many characters of a line, and the rest as another one.
        format!(
            "thinktime={}exec_prerun=touch {made}&&true",
            "0".repeat(4095 - 10)
        ),
        format!(
            "thinktime={}exec_prerun=touch {made}&&true",
            "0".repeat(8191 - 10)
        ),
    ];
    let file = bench.records.path().join("job.fio");
    let before = Victims::look(&bench);
    let names = bench.mounted.names();
    for option in &options {
        fs::write(&file, format!("[job]\nrw=randread\nsize=1m\n{option}\n")).unwrap();
        let load = file.display().to_string();
        let output = bench.tune(
            bench.mounted.path(),
            &["--load", &load, "--runtime", "50ms"],
        );
        let stderr = lossy(&output.stderr);
        assert_ne!(output.status.code(), None, "{option}: {stderr}");
        assert_ne!(output.status.code(), Some(101), "{option}: {stderr}");
        before.assert_untouched(&bench, &format!("{option}: {stderr}"));
        assert_eq!(bench.mounted.names(), names, "{option}: {stderr}");
        let _ = fs::remove_dir_all(bench.records.path().join("r"));
    }
}

/// The way of a record is one that nobody else lays.
#[test]
fn a_record_is_not_made_where_a_link_of_another_user_leads() {
    if !iosched_testing::is_root() {
        return;
    }
    let (uid, gid) = nobody();
    let dir = tempfile::tempdir().unwrap();
    let [theirs, root] = ["theirs", "root"].map(|name| dir.path().join(name));
    for path in [&theirs, &root] {
        fs::create_dir(path).unwrap();
    }
    let link = theirs.join("iosched-results");
    symlink(&root, &link).unwrap();
    chown(&theirs, Some(uid), Some(gid)).unwrap();
    std::os::unix::fs::lchown(&link, Some(uid), Some(gid)).unwrap();
    let tune = |out: Option<&Path>| {
        let mut command = iosched();
        command.args(["tune", "--simulate", "ssd-sata", "--arms", "noop,deadline"]);
        command.args(["--fixed-rounds", "2", "--runtime", "50ms", "--no-html"]);
        if let Some(out) = out {
            command.arg("--out").arg(out);
        }
        command.current_dir(&theirs).output().unwrap()
    };
    for out in [None, Some(link.join("x").as_path())] {
        let output = tune(out);
        let stderr = lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(11), "{stderr}");
        assert!(stderr.contains("could lead the record"), "{stderr}");
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    }
    // A place of one's own, and one of root's, are fine.
    assert!(tune(Some(&theirs.join("x/y"))).status.success());
}

/// A page stays with its record: here the load itself, as whoever owns the directory above can, moves the results
/// directory away and lays a link in its place.
#[test]
fn a_page_is_not_written_through_a_link_that_took_the_name_of_its_directory() {
    if !can_use_loop_devices() {
        return;
    }
    let (uid, gid) = nobody();
    let mounted = Mounted::new(64 * MIB);
    let dir = tempfile::tempdir().unwrap();
    let [theirs, root] = ["theirs", "root"].map(|name| dir.path().join(name));
    for path in [&theirs, &root] {
        fs::create_dir(path).unwrap();
    }
    let secret = root.join("report.html");
    fs::write(&secret, "root's").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    chown(&theirs, Some(uid), Some(gid)).unwrap();
    let [out, away] = ["r", "away"].map(|name| theirs.join(name));
    let (from, to, root) = (out.display(), away.display(), root.display());
    let load = format!(
        "command: sh: test -L {from} || {{ mv {from} {to} && ln -s {root} {from} && chown -h {uid} {from}; }}"
    );
    let output = iosched()
        .args(["tune", mounted.path(), "--load", &load])
        .args(["--arms", "none,mq-deadline", "--fixed-rounds", "2", "--out"])
        .arg(&out)
        .output()
        .unwrap();
    let stderr = lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "root's");
    assert!(stderr.contains("moved away"), "{stderr}");
    let metadata = fs::metadata(&secret).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(dir.path().join("root")).unwrap().count(), 1);
    let record = fs::read_to_string(away.join("record.jsonl")).unwrap();
    assert!(record.contains("\"type\":\"finished\""), "{record}");
}

/// Whatever root was started with, a load of another user has no capability.
#[test]
fn a_load_of_another_user_keeps_no_capability_that_root_was_told_to_keep() {
    let Some(bench) = Bench::new() else { return };
    let (uid, gid) = nobody();
    let keep = ["--securebits=+no_setuid_fixup", "--inh-caps=+dac_override"];
    let ambient = "--ambient-caps=+dac_override";
    let can = Command::new("setpriv")
        .args(keep)
        .arg(ambient)
        .arg("true")
        .status();
    if !can.is_ok_and(|status| status.success()) {
        return lacks("setpriv with ambient capabilities");
    }
    chown(&bench.mounted.at, Some(uid), Some(gid)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, "root's").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let load = format!(
        "command: sh: grep ^Cap /proc/self/status >$IOSCHED_TARGET/caps; echo x >>{}; true",
        secret.display()
    );
    let output = Command::new("setpriv")
        .args(keep)
        .arg(ambient)
        .arg(assert_cmd::cargo::cargo_bin!("iosched"))
        .args(["tune", &bench.path(""), "--user", "nobody", "--load", &load])
        .args([
            "--arms",
            "none,mq-deadline",
            "--fixed-rounds",
            "2",
            "--no-html",
            "--out",
        ])
        .arg(dir.path().join("r"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", lossy(&output.stderr));
    assert_eq!(fs::read_to_string(&secret).unwrap(), "root's");
    let caps = fs::read_to_string(bench.mounted.at.join("caps")).unwrap();
    let sets = caps.lines().filter(|line| !line.starts_with("CapBnd"));
    for set in sets {
        assert!(set.ends_with("\t0000000000000000"), "{caps}");
    }
}
