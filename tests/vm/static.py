"""What `make static` has made, alone: in a root file system without libraries, and with the job of `make run`."""

import os

from matrix import without_libraries
from progress import say
from report import expect, new_machine


def run(directory, image):
    machine = new_machine(os.path.join(directory, "static"), image, disks=("virt",), with_fio=True)
    try:
        say(f"ok    boot by grub in {machine.start():.0f} s")
        machine.run("cd /tmp && tar xf /dev/disk/by-id/virtio-PAYLOAD")
        expect(machine.try_run("ls /tmp/iosched-static")[0], 0, "there is a binary of `make static` for x86_64")
        say(f"      {machine.run('uname -r')}, {machine.run('/tmp/iosched-static --version')},"
            f" {machine.run('stat -c %s /tmp/iosched-static')} bytes")
        measure(machine)
        without_libraries(machine)
        machine.stop()
    finally:
        machine.cut_power()


def measure(machine):
    """What `make run` does, with fio and its libraries from here."""
    before = machine.schedulers()
    seconds = 7200  # an emulated processor
    code, said = machine.try_run("cd /root && PATH=/tmp/fio:$PATH /tmp/iosched-static tune --budget 90s --out record 2>&1", seconds)
    say("".join(f"\n      {line}" for line in said.splitlines()[-12:]).lstrip("\n"))
    expect((code, "Answer: " in said), (0, True), "tune makes a disk, measures this kernel's schedulers on it, and answers")
    expect(machine.run("cat /root/record/record.jsonl | wc -l") != "0", True, "and leaves its record")
    expect(machine.run("losetup --list --noheadings"), "", "the disk is gone")
    expect(machine.schedulers(), before, "every other disk is as before")
