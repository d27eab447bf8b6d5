"""Machines for the fleet's tests: namespaces with a root file system, a network interface, a disk and an sshd each.

Everything is made within the namespaces of the process that imports this (its own network, mounts and process ids:
`run.py` starts it so), and is gone with it. A machine's root file system is this machine's, with an own layer over it that
outlives its power failures; its disk is a loop device, whose queue is the kernel's, and which is described to the
machine as a SATA disk: `sda`.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
NETWORK = "10.211.0"


class Failed(Exception):
    """Something is not as it must be."""


def run(*command: str, **options) -> str:
    """Runs a program that must succeed; its standard output, without what it remarks beside that."""
    done = subprocess.run(command, check=False, text=True, capture_output=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr).strip()}")
    return done.stdout


def wait_until(what: str, is_so) -> None:
    """Waits. The limit is against hanging only."""
    end = time.monotonic() + 1200
    while not is_so():
        if time.monotonic() > end:
            raise Failed(f"waited in vain until {what}")
        time.sleep(0.05)


class Machine:
    """One machine: off until `boot`."""

    def __init__(self, directory: Path, name: str, number: int, loop: str):
        self.name = name
        self.address = f"{NETWORK}.{number}"
        # The same after a reboot: neighbours remember it.
        self.hardware_address = f"02:00:00:00:00:{number:02x}"
        self.loop = loop
        self.own = directory / name
        self.link = f"to-{name}"
        self.starter: subprocess.Popen | None = None
        self.init = 0

    def boot(self) -> None:
        """Powers it on, and waits until its sshd answers."""
        log = open(self.own.with_suffix(".log"), "ab")
        command = ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
        command += ["--propagation", "private", str(HERE / "boot"), self.name, str(self.own), self.loop]
        self.starter = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        children = Path(f"/proc/{self.starter.pid}/task/{self.starter.pid}/children")
        self.wait_for("its first process is there", lambda: children.read_text().split())
        self.init = int(children.read_text().split()[0])
        run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "address", self.hardware_address, "netns", str(self.init))
        run("ip", "link", "set", self.link, "master", "fleet", "up")
        within = ["nsenter", "--target", str(self.init), "--net"]
        for words in (["link", "set", "lo", "up"], ["addr", "add", f"{self.address}/24", "dev", "eth0"], ["link", "set", "eth0", "up"]):
            run(*within, "ip", *words)
        self.wait_for("its sshd answers", self.is_listening)

    def is_listening(self) -> bool:
        """Whether its sshd answers us."""
        try:
            with socket.create_connection((self.address, 22), timeout=30) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def wait_for(self, what: str, is_so) -> None:
        def is_so_or_dead():
            if self.starter.poll() is not None:
                raise Failed(f"{self.name} did not boot:\n{self.own.with_suffix('.log').read_text()}")
            return is_so()

        wait_until(f"{self.name}: {what}", is_so_or_dead)

    def cut_power(self) -> None:
        """Ends every process of the machine at once; its layer and its disk stay as they are."""
        if self.starter is None:
            return
        os.kill(self.init, signal.SIGKILL)
        self.starter.wait()
        self.starter = None
        # The pair goes with the other end's namespace, a little later.
        subprocess.run(["ip", "link", "delete", self.link], check=False, stderr=subprocess.DEVNULL)

    def path(self, path: str) -> Path:
        """A file of the running machine."""
        return Path(f"/proc/{self.init}/root{path}")

    def read(self, path: str) -> str | None:
        file = self.path(path)
        return file.read_text() if file.exists() else None

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        file = self.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def run(self, *command: str) -> subprocess.CompletedProcess:
        """Runs a program there."""
        within = ["nsenter", "--target", str(self.init), "--mount", "--net", "--pid", "--uts", "--ipc", "--root", "--wd"]
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return subprocess.run(
            within + ["--", *command], check=False, text=True, capture_output=True, stdin=subprocess.DEVNULL, env={"PATH": path, "HOME": "/root"}
        )

    def scheduler(self) -> str:
        """The active one of its disk."""
        text = self.read("/sys/block/sda/queue/scheduler") or ""
        return text.split("[")[1].split("]")[0]

    def state(self) -> dict[str, str]:
        """Every file that a policy is made of, and the scheduler."""
        found = {"scheduler": self.scheduler()}
        directories = ("/etc/iosched", "/etc/udev/rules.d", "/etc/modules-load.d", "/usr/local/bin", "/var/cache/iosched", "/var/lib/iosched")
        for directory in directories:
            for file in sorted(self.path(directory).rglob("*")) if self.path(directory).exists() else []:
                if file.is_file():
                    found[str(file).removeprefix(f"/proc/{self.init}/root")] = f"{file.stat().st_mode:o} {hash(file.read_bytes())}"
        return found


class Fleet:
    """The machines, on one bridge."""

    def __init__(self, directory: Path, names: list[str], loops: list[str]):
        self.keys = directory / "keys"
        self.keys.mkdir()
        for key in ("controller", "machine"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "fleet", "-f", str(self.keys / key))
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "fleet", "type", "bridge")
        run("ip", "addr", "add", f"{NETWORK}.1/24", "dev", "fleet")
        run("ip", "link", "set", "fleet", "up")
        self.machines = {
            name: Machine(directory, name, number, loop) for number, (name, loop) in enumerate(zip(names, loops), 11)
        }

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]

    def known_hosts(self) -> str:
        key = " ".join((self.keys / "machine.pub").read_text().split()[:2])
        return "".join(f"{machine.address} {key}\n" for machine in self.machines.values())


def needs() -> list[str]:
    """The programs that are missing here."""
    programs = ("ansible-playbook", "sshd", "ssh", "ssh-keygen", "ip", "unshare", "nsenter", "mkfs.ext4", "losetup", "fio", "dpkg-deb")
    return [program for program in programs if not shutil.which(program)]
