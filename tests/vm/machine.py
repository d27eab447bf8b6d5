"""A machine of QEMU with several disks, driven through its agent (tests/vm/agent).

Emulated by TCG: no access to /dev/kvm is needed. `Machine.run` runs a shell command in it as root;
`Machine.cut_power` ends QEMU with SIGKILL, as a power failure ends a machine: what the guest had not
sent to the disk is lost, and so is what QEMU had not yet written into the tables of the root's layer
because the guest had not asked for a flush.
"""

import base64
import os
import signal
import socket
import subprocess
import time

from progress import say


# How long anything in the machine may take: seconds on an idle processor, many times that on a busy one.
PATIENCE_S = 900

# How long a boot may take: seconds of the emulator's processor time, and of the clock where it uses none. Now and then
# the two emulated processors wait for each other for ever, in the first second of the kernel (seen once in a hundred
# boots): then the same boot is made again.
BOOT_PROCESSOR_S = 600
BOOT_PATIENCE_S = 2 * PATIENCE_S
BOOT_ATTEMPTS = 3

# Name, QEMU options, and where it is plugged in at odd and at even boots: all but the one that is
# recognised by its place move, so that the kernel gives them other names.
DISKS = {
    "sata": ("ide-hd,serial=SATA-1,wwn=0x5000c500aabb0001", "bus=ide.0", "bus=ide.2"),
    "virt": ("virtio-blk-pci,serial=VIRT-1", "addr=0x10", "addr=0x13"),
    "nvme": ("nvme,serial=NVME-1", "addr=0x18", "addr=0x19"),
    "scsi": ("scsi-hd,serial=SCSI-1,wwn=0x5000c500aabb0002", "bus=scsi.0,scsi-id=1", "bus=scsi.0,scsi-id=5"),
    "raid1": ("scsi-hd,serial=RAID-1", "bus=scsi.0,scsi-id=2", "bus=scsi.0,scsi-id=4"),
    "raid2": ("scsi-hd,serial=RAID-2", "bus=scsi.0,scsi-id=3", "bus=scsi.0,scsi-id=2"),
    "nameless": ("virtio-blk-pci", "addr=0x11", "addr=0x11"),
}

# What lsblk says is the serial number of each.
SERIALS = {"SATA-1": "sata", "VIRT-1": "virt", "NVME-1": "nvme", "SCSI-1": "scsi", "RAID-1": "raid1", "RAID-2": "raid2"}


class Failed(Exception):
    """A command in the machine ended with an error, or the machine did not answer."""


class Silent(Failed):
    """The machine runs and says nothing."""


class Machine:
    def __init__(self, directory, root_image, disks=tuple(DISKS), payload=None):
        self.directory = directory
        self.root = root_image
        self.wanted_disks = disks
        self.payload = payload
        self.boots = 0
        self.process = None
        self.socket = None
        for name in disks:
            path = os.path.join(directory, f"{name}.raw")
            if not os.path.exists(path):
                with open(path, "wb") as file:
                    file.truncate(64 << 20)

    def start(self, state=None):
        """Boots by grub, or goes on from a saved state; returns the seconds until the agent answers."""
        self.boots += 1
        agent = os.path.join(self.directory, "agent")
        monitor = os.path.join(self.directory, "monitor")
        command = [
            "qemu-system-x86_64", "-machine", "q35,hpet=off", "-accel", "tcg,thread=multi,tb-size=512",
            "-cpu", "max", "-smp", "2", "-m", "640", "-display", "none", "-no-reboot", "-nodefaults",
            "-serial", f"file:{self.directory}/console-{self.boots}",
            "-chardev", f"socket,path={monitor},server=on,wait=off,id=monitor", "-mon", "chardev=monitor",
            "-device", "virtio-serial-pci,addr=0x0a",
            "-chardev", f"socket,path={agent},server=on,wait=off,id=agent",
            "-device", "virtserialport,chardev=agent,name=agent",
            "-device", "virtio-scsi-pci,id=scsi,addr=0x0b",
            "-drive", f"file={self.root},format=qcow2,if=none,id=root",
            "-device", "virtio-blk-pci,drive=root,serial=ROOT,addr=0x12,bootindex=0",
        ]
        for name in self.wanted_disks:
            device, odd, even = DISKS[name]
            place = odd if self.boots % 2 or state else even
            command += ["-drive", f"file={self.directory}/{name}.raw,format=raw,if=none,id={name}",
                        "-device", f"{device},drive={name},{place}"]
        if self.payload:
            command += ["-drive", f"file={self.payload},format=raw,if=none,id=payload,read-only=on",
                        "-device", "virtio-blk-pci,drive=payload,serial=PAYLOAD,addr=0x14"]
        if state:
            command += ["-incoming", f"exec:cat '{state}'"]
        started = time.monotonic()
        for attempt in range(1, BOOT_ATTEMPTS + 1):
            for path in (agent, monitor):
                if os.path.exists(path):
                    os.remove(path)
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
            self._connect(agent)
            if state or self._is_ready():
                return time.monotonic() - started
            say(f"      no answer to boot {self.boots} after {self._processor_seconds():.0f} s of processor time,"
                f" attempt {attempt} of {BOOT_ATTEMPTS}")
            self.cut_power()
        raise Failed(f"the machine does not boot; console:\n{self.console()}")

    def _is_ready(self):
        """Waits for the agent; false if it does not answer in time."""
        deadline = time.monotonic() + BOOT_PATIENCE_S
        while time.monotonic() < deadline and self._processor_seconds() < BOOT_PROCESSOR_S:
            try:
                if self._line(5) == "ready":
                    return True
            except Silent:
                pass
        return False

    def _processor_seconds(self):
        """What the emulator has used of the processors: a machine that is busy with other things counts for nothing."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _connect(self, path):
        deadline = time.monotonic() + 60
        while True:
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(path)
                self.buffer = b""
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise Failed("qemu did not start")
                time.sleep(0.05)

    def _line(self, seconds):
        self.socket.settimeout(seconds)
        while b"\n" not in self.buffer:
            try:
                part = self.socket.recv(65536)
            except TimeoutError:
                raise Silent(f"no answer within {seconds:.0f} s; console:\n{self.console()}")
            if not part:
                raise Failed(f"the machine is gone; console:\n{self.console()}")
            self.buffer += part
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def console(self):
        try:
            with open(f"{self.directory}/console-{self.boots}", errors="replace") as file:
                return "".join(file.readlines()[-40:])
        except OSError:
            return ""

    def send(self, script):
        """Starts a command without waiting for its end."""
        self.socket.sendall(base64.b64encode(script.encode()) + b"\n")

    def try_run(self, script, seconds=PATIENCE_S):
        """Runs a command: exit code and output."""
        self.send(script)
        code, _, text = self._line(seconds).partition(" ")
        return int(code), base64.b64decode(text).decode(errors="replace")

    def run(self, script, seconds=PATIENCE_S):
        """Runs a command that must succeed; its output."""
        code, text = self.try_run(script, seconds)
        if code != 0:
            raise Failed(f"{script}\nended with {code}:\n{text}")
        return text.strip()

    def monitor(self, command):
        """Gives QEMU's monitor a command and returns what it says, up to its next prompt."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(PATIENCE_S)
            monitor.connect(os.path.join(self.directory, "monitor"))
            said = b""
            for text in (None, command):
                if text:
                    said = b""
                    monitor.sendall(text.encode() + b"\n")
                while not said.endswith(b"(qemu) "):
                    part = monitor.recv(65536)
                    if not part:
                        break
                    said += part
            return said.decode(errors="replace")

    def save(self, state):
        """Writes the machine's state to a file and ends it: `start` goes on from there."""
        said = self.monitor(f"migrate \"exec:cat > '{state}'\"")
        if "completed" not in self.monitor("info migrate"):
            raise Failed(f"cannot save the machine's state: {said}")
        self.cut_power()

    def stop(self):
        """Shuts down in good order."""
        self.send("systemctl poweroff")
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.cut_power()
            raise Failed("the machine did not shut down")
        self.socket.close()

    def cut_power(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        if self.socket:
            self.socket.close()

    def disks(self):
        """The disks by the names of DISKS (others by their serial number), with the kernel's names now."""
        found = {}
        for line in self.run("lsblk -dnro NAME,SERIAL,TYPE -e 7").splitlines():
            words = line.split(" ")
            if len(words) == 3 and words[2] == "disk":
                found[SERIALS.get(words[1], words[1] or "nameless")] = words[0]
        return found

    def node(self, disk):
        """The path of a disk's node now."""
        return "/dev/" + self.disks()[disk]

    def schedulers(self):
        """The active scheduler of every disk of the test."""
        names = {disk: name for disk, name in self.disks().items() if disk != "PAYLOAD"}
        text = self.run("; ".join(f"cat /sys/block/{name}/queue/scheduler" for name in names.values()))
        return {disk: line.split("[")[1].split("]")[0] for disk, line in zip(names, text.splitlines())}
