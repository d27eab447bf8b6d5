"""A machine of QEMU with several disks, driven through its agent (tests/vm/agent).

Emulated by TCG: no access to /dev/kvm is needed. `Machine.run` runs a shell command in it as root;
`Machine.cut_power` ends QEMU with SIGKILL, as a power failure ends a machine (what the guest had not
flushed may or may not have reached the image: QEMU keeps its writes in the host's page cache, so the
guest loses what it had not sent to the disk).
"""

import base64
import os
import signal
import socket
import subprocess
import time


# How long a boot may take. Some 40 s on an idle processor; emulated on a busy one, many times that.
BOOT_S = 600


class Failed(Exception):
    """A command in the machine ended with an error, or the machine did not answer."""


# Name, QEMU options. `{name}` is the id of the drive.
DISKS = {
    "sata": "ide-hd,drive=sata,bus=ide.0,serial=SATA-1,wwn=0x5000c500aabb0001",
    "virt": "virtio-blk-pci,drive=virt,serial=VIRT-1",
    "nvme": "nvme,drive=nvme,serial=NVME-1",
    "scsi": "scsi-hd,drive=scsi,bus=scsi.0,serial=SCSI-1,wwn=0x5000c500aabb0002",
    "raid1": "scsi-hd,drive=raid1,bus=scsi.0,serial=RAID-1",
    "raid2": "scsi-hd,drive=raid2,bus=scsi.0,serial=RAID-2",
    "nameless": "virtio-blk-pci,drive=nameless",
}


# What lsblk says is the serial number of each.
SERIALS = {"SATA-1": "sata", "VIRT-1": "virt", "NVME-1": "nvme", "SCSI-1": "scsi", "RAID-1": "raid1", "RAID-2": "raid2"}


class Machine:
    def __init__(self, directory, root_image, payload=None, root_format="qcow2"):
        self.directory = directory
        self.root = root_image
        self.root_format = root_format
        self.payload = payload
        self.process = None
        self.socket = None
        for name in DISKS:
            path = os.path.join(directory, f"{name}.raw")
            if not os.path.exists(path):
                with open(path, "wb") as file:
                    file.truncate(64 << 20)

    def start(self, kernel=None, parameters=""):
        """Boots, by grub or with a kernel and initrd; returns the seconds until the agent answers."""
        agent = os.path.join(self.directory, "agent")
        monitor = os.path.join(self.directory, "monitor")
        for path in (agent, monitor):
            if os.path.exists(path):
                os.remove(path)
        command = [
            "nice", "-n", "10", "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg",
            # The guest's time goes with its instructions: on a busy host nothing in it times out.
            "-icount", "shift=2,sleep=off", "-cpu", "max", "-smp", "1", "-m", "640", "-display", "none", "-no-reboot", "-nodefaults",
            "-serial", f"file:{self.directory}/console",
            "-chardev", f"socket,path={monitor},server=on,wait=off,id=monitor", "-mon", "chardev=monitor",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,path={agent},server=on,wait=off,id=agent",
            "-device", "virtserialport,chardev=agent,name=agent",
            "-device", "virtio-scsi-pci,id=scsi",
            "-drive", f"file={self.root},format={self.root_format},if=none,id=root",
            "-device", "virtio-blk-pci,drive=root,serial=ROOT" + ("" if kernel else ",bootindex=0"),
        ]
        for name, device in DISKS.items():
            command += ["-drive", f"file={self.directory}/{name}.raw,format=raw,if=none,id={name}", "-device", device]
        if self.payload:
            command += ["-drive", f"file={self.payload},format=raw,if=none,id=payload,read-only=on",
                        "-device", "virtio-blk-pci,drive=payload,serial=PAYLOAD"]
        if kernel:
            command += ["-kernel", kernel[0], "-initrd", kernel[1], "-append",
                        f"root=LABEL=root console=ttyS0 quiet no_timer_check systemd.show_status=no {parameters}"]
        started = time.monotonic()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self._connect(agent)
        while self._line(BOOT_S) != "ready":
            pass
        return time.monotonic() - started

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
                time.sleep(0.1)

    def _line(self, seconds):
        self.socket.settimeout(seconds)
        while b"\n" not in self.buffer:
            try:
                part = self.socket.recv(65536)
            except TimeoutError:
                raise Failed(f"no answer within {seconds} s; console:\n{self.console()}")
            if not part:
                raise Failed(f"the machine is gone; console:\n{self.console()}")
            self.buffer += part
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def console(self):
        try:
            with open(f"{self.directory}/console", errors="replace") as file:
                return "".join(file.readlines()[-40:])
        except OSError:
            return ""

    def send(self, script):
        """Starts a command without waiting for its end."""
        self.socket.sendall(base64.b64encode(script.encode()) + b"\n")

    def try_run(self, script, seconds=180):
        """Runs a command: exit code and output."""
        self.send(script)
        code, _, text = self._line(seconds).partition(" ")
        return int(code), base64.b64decode(text).decode(errors="replace")

    def run(self, script, seconds=180):
        """Runs a command that must succeed; its output."""
        code, text = self.try_run(script, seconds)
        if code != 0:
            raise Failed(f"{script}\nended with {code}:\n{text}")
        return text.strip()

    def monitor(self, command):
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(os.path.join(self.directory, "monitor"))
            monitor.sendall(command.encode() + b"\n")
            time.sleep(0.5)

    def stop(self):
        """Shuts down in good order."""
        self.send("systemctl poweroff")
        try:
            self.process.wait(180)
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

    def name(self, disk):
        """The kernel's name of a disk now."""
        return self.disks()[disk]

    def node(self, disk):
        """The path of a disk's node now."""
        return "/dev/" + self.name(disk)

    def schedulers(self):
        """The active scheduler of every disk of the test."""
        names = {disk: name for disk, name in self.disks().items() if disk not in ("ROOT", "PAYLOAD")}
        text = self.run("; ".join(f"cat /sys/block/{name}/queue/scheduler" for name in names.values()))
        return {disk: line.split("[")[1].split("]")[0] for disk, line in zip(names, text.splitlines())}
