#!/usr/bin/python3
"""Runs the fleet's scenarios in namespaces of their own, and leaves nothing behind, however they end.

    tests/fleet/run.py [units|fleet|lint|sanity...]    IOSCHED=FILE: the command, if not target/release/iosched

The loop devices are attached here and detached at the end; everything else lives in the
namespaces, and ends with them. A run that was killed is cleaned up after by the next one.
"""

import argparse
import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

import hosts
from scenarios import MACHINES

HERE = Path(__file__).resolve().parent
PREFIX = "iosched-fleet-"
ROOT = HERE.parents[1]
ANSIBLE = ROOT / "fleet/ansible"
COLLECTION = ANSIBLE / "ansible_collections/iosched/linux"
PLACE = Path("/var/tmp")
PR_SET_PDEATHSIG = 1
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    iosched = Path(os.environ.get("IOSCHED") or ROOT / "target/release/iosched")
    parser.add_argument("--iosched", type=Path, default=iosched, help="the command to be rolled out")
    logs = ROOT / "target/fleet-logs"
    parser.add_argument("--logs", type=Path, default=logs, help="where the output of each playbook goes")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all without")
    args = parser.parse_args()
    parts = args.parts or list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        sys.exit(f"test-ansible: there is no part {unknown[0]}: there are {', '.join(PARTS)}")
    if os.geteuid() != 0:
        sys.exit("test-ansible: needs root, for namespaces and loop devices: sudo tests/fleet/run.py")
    if missing := hosts.needs():
        sys.exit(f"test-ansible: needs {', '.join(missing)}: run `scripts/setup fleet`")
    if not os.access(args.iosched, os.X_OK):
        sys.exit(f"test-ansible: there is no {args.iosched}: run `make build`, or name another with IOSCHED=")
    # The command at the end, not a traceback in the middle.
    for number in SIGNALS:
        signal.signal(number, interrupted)
    shutil.rmtree(args.logs, ignore_errors=True)
    args.logs.mkdir(parents=True)
    results: list[str] = []
    try:
        for part in parts:
            PARTS[part](args, results)
    except KeyboardInterrupt:
        print("\ntest-ansible: interrupted; everything is removed", flush=True)
        return 130
    failed = [line for line in results if line.startswith("FAILED")]
    skipped = [line for line in results if line.startswith("SKIPPED")]
    print(f"\nlogs: {args.logs}")
    for line in failed + skipped:
        print(line)
    print(f"{len(results) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return min(len(failed), 1)


def say(results: list[str], line: str) -> None:
    """A result: ok, FAILED or SKIPPED, with what was said of it in further lines."""
    print(line, flush=True)
    results.append(line.splitlines()[0])


def fleet(args, results: list[str]) -> None:
    """The life of a fleet (scenarios.py)."""
    directory, lock = new_directory()
    inner = None
    try:
        loops = [attach(directory / f"{name}.disk") for name in MACHINES]
        command = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        command += [sys.executable, "-B", str(HERE / "scenarios.py"), str(directory), str(args.iosched.resolve())]
        command += [str(args.logs.resolve()), ",".join(loops)]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=die_with_parent
        ) as inner:
            text = ""
            for line in inner.stdout:
                if line.startswith(("ok      ", "FAILED  ")) and text:
                    say(results, text.rstrip())
                    text = ""
                text += line
            if text:
                say(results, text.rstrip())
        if inner.returncode != 0 and not any(line.startswith("FAILED") for line in results):
            say(results, f"FAILED  the fleet's steps ended with {inner.returncode}: see above")
    finally:
        previous = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
        if inner is not None and inner.poll() is None:
            inner.kill()
            inner.wait()
        remove(directory)
        os.close(lock)
        for number, handler in previous.items():
            signal.signal(number, handler)


def interrupted(_number, _frame):
    raise KeyboardInterrupt


def die_with_parent() -> None:
    """So that a run that is killed takes its namespaces along."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def attach(file: Path) -> str:
    """A disk of a machine; the kernel's name of the loop device."""
    with open(file, "wb") as disk:
        disk.truncate(256 << 20)
    return hosts.run("losetup", "--find", "--show", str(file)).strip().removeprefix("/dev/")


def remove(directory: Path) -> None:
    """Detaches the disks whose files are here, with their scheduler as the kernel begins, and removes it all."""
    for line in hosts.run("losetup", "--list", "--noheadings", "--raw", "--output", "NAME,BACK-FILE").splitlines():
        device, _, file = line.partition(" ")
        if file.removesuffix(" (deleted)").startswith(f"{directory}/"):
            # The last process of the namespaces may still be going.
            hosts.wait_until(f"nothing uses {device}", lambda: not is_mounted(device))
            Path(f"/sys/block/{device.removeprefix('/dev/')}/queue/scheduler").write_text("none")
            hosts.run("losetup", "--detach", device)
    shutil.rmtree(directory)


def is_mounted(device: str) -> bool:
    """Whether a file system of it is mounted anywhere: then it cannot be opened for itself."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError:
        return True
    return False


def new_directory() -> tuple[Path, int]:
    """A directory that is locked as long as we live; what killed runs have left is removed first."""
    place = os.open(PLACE, os.O_RDONLY)
    fcntl.flock(place, fcntl.LOCK_EX)
    try:
        for left in PLACE.glob(f"{PREFIX}*"):
            if is_unlocked(left):
                print(f"test-ansible: removing what a killed run left in {left}", flush=True)
                remove(left)
        directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE))
        lock = os.open(directory, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return directory, lock
    finally:
        os.close(place)


def is_unlocked(directory: Path) -> bool:
    lock = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def lint(args, results: list[str]) -> None:
    """The collection and the example, by ansible-lint's strictest profile."""
    environment = os.environ | {"ANSIBLE_COLLECTIONS_PATH": str(ANSIBLE), "HOME": str(home())}
    for name, directory in (("the collection", COLLECTION), ("the example", ANSIBLE / "example")):
        command = ["ansible-lint", "--offline", "--nocolor", "--profile", "production"]
        done = subprocess.run(command, cwd=directory, env=environment, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        (args.logs / f"lint-{directory.name}.log").write_text(done.stdout)
        passed = done.returncode == 0 and "Passed with production profile" in done.stdout
        say(results, f"ok      ansible-lint passes {name}" if passed else f"FAILED  ansible-lint of {name}\n{done.stdout}")


def units(_args, results: list[str]) -> None:
    """What the modules make of answers that iosched does not give."""
    ran = subprocess.run([sys.executable, "-B", str(ROOT / "tests/fleet/test_command.py")], capture_output=True, text=True)
    say(results, "ok      tests of the modules' command" if ran.returncode == 0 else f"FAILED  tests of the modules' command\n{ran.stderr[-4000:]}")


def sanity(args, results: list[str]) -> None:
    """ansible-test's checks of a copy of the collection. Most of its tools come from PyPI, in versions that it wants."""
    cache = home() / ".ansible/test/cache"
    cache.mkdir(parents=True, exist_ok=True)
    # It would fetch pip's own installer; Debian's pip installs the same.
    (cache / "get_pip_21_3_1.py").write_text(GET_PIP)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "ansible_collections/iosched/linux"
        shutil.copytree(COLLECTION, copy)

        def test(*options: str) -> tuple[bool, str]:
            command = ["ansible-test", "sanity", "--color", "no", "--python", "3.11", *options]
            environment = os.environ | {"HOME": str(home()), "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run(command, cwd=copy, env=environment, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            with open(args.logs / "sanity.log", "a", encoding="utf-8") as log:
                log.write(done.stdout)
            return done.returncode == 0, done.stdout

        passed, output = test()
        if not passed and ("Retrying" in output or "No matching distribution" in output or "does not have pip" in output):
            say(results, f"SKIPPED needs packages of PyPI: ansible-test sanity's {', '.join(WITH_REQUIREMENTS)}")
            passed, output = test(*[word for name in WITH_REQUIREMENTS for word in ("--skip-test", name)])
        for line in output.splitlines():
            if line.startswith("WARNING: Skipping"):
                say(results, f"SKIPPED ansible-test: {line.removeprefix('WARNING: ')}")
        ran = len({line for line in output.splitlines() if line.startswith("Running sanity test")})
        say(results, f"ok      ansible-test sanity passes {ran} tests" if passed and ran else f"FAILED  ansible-test sanity\n{output[-4000:]}")


def home() -> Path:
    """Where the tools keep what they have fetched, for the next time."""
    path = ROOT / "target/fleet-home"
    path.mkdir(parents=True, exist_ok=True)
    return path


WITH_REQUIREMENTS = ("ansible-doc", "changelog", "import", "pep8", "pylint", "runtime-metadata", "validate-modules", "yamllint")
GET_PIP = """
import glob
import sys

sys.path.insert(0, glob.glob("/usr/share/python-wheels/pip-*.whl")[0])
from pip._internal.cli.main import main

sys.exit(main(["install", "--upgrade", "--force-reinstall", *sys.argv[1:]]))
"""
PARTS = {"units": units, "fleet": fleet, "lint": lint, "sanity": sanity}

if __name__ == "__main__":
    sys.exit(main())
