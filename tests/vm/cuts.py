"""Power failures at random moments of `iosched persist`: every file is whole after, the old or the new one.

The machine boots once and is saved; each cut goes on from there, is ended by SIGKILL, and its root file
system is mounted here, which replays its journal as a boot would. The first cut of each outcome (only old
files, only new ones, some of each) and the last cut are booted besides.
"""

import contextlib
import hashlib
import json
import os
import random
import subprocess
import time

from machine import Failed
from matrix import MODULES, POLICY, RULES
from progress import say
from report import expect, install, layer, new_machine

FILES = (POLICY, RULES, MODULES)
HISTORY = "/var/lib/iosched/history"
DISK = "/dev/disk/by-id/virtio-VIRT-1"


def run(directory, image, deb, count):
    chance = random.Random(int(os.environ.get("IOSCHED_TEST_SEED", "1")))
    directory = os.path.join(directory, "cuts")
    machine = new_machine(directory, image, deb, ["virt"])
    state = os.path.join(directory, "state")
    frozen = machine.root
    try:
        say(f"ok    boot by grub in {machine.start():.0f} s")
        install(machine)
        machine.run(f"iosched persist --yes {DISK} bfq")
        new = sums_of(machine)
        machine.run(f"iosched persist --yes {DISK} kyber; sync")
        old = sums_of(machine)
        changes = int(machine.run(f"ls {HISTORY}/*.json | wc -l"))
        machine.save(state)
        takes = whole(machine, state, frozen)
        say(f"ok    a persist takes {takes:.1f} s here")
        seen = {}
        for cut in range(1, count + 1):
            moment = cut_short(machine, state, frozen, takes, cut % 2 == 0, chance)
            with mounted(machine.root, directory) as root:
                found = {path: sum_of(root + path) for path in FILES}
                entries = history(root + HISTORY)
            outcome = judge(found, old, new, entries, changes)
            say(f"ok    cut {cut}, {moment}: every file is whole, {outcome}")
            if outcome not in seen or cut == count:
                boot(machine, found, {"kyber": old, "bfq": new})
            seen[outcome] = seen.get(outcome, 0) + 1
        say(f"{count} power failures: " + ", ".join(f"{times} times {outcome}" for outcome, times in seen.items()))
    finally:
        machine.cut_power()


def go_on(machine, state, frozen):
    """From the saved state, over a layer of its own."""
    machine.root = os.path.join(machine.directory, "cut.qcow2")
    layer(machine.root, frozen, "qcow2")
    machine.start(state)
    machine.run("true")


def whole(machine, state, frozen):
    """How long the command takes that will be cut short."""
    go_on(machine, state, frozen)
    started = time.monotonic()
    machine.run(f"iosched persist --yes {DISK} bfq")
    takes = time.monotonic() - started
    machine.cut_power()
    return takes


def cut_short(machine, state, frozen, takes, while_writing, chance):
    """Cuts the power at any moment of the command; or, since most of it is spent before and after, at one
    soon after its first write to the disk. Returns which moment it was."""
    go_on(machine, state, frozen)
    written = os.stat(machine.root).st_mtime_ns
    machine.send(f"iosched persist --yes {DISK} bfq")
    started = time.monotonic()
    if while_writing:
        while os.stat(machine.root).st_mtime_ns == written and time.monotonic() < started + takes:
            time.sleep(0.001)
        wait = chance.uniform(0, takes / 2)
    else:
        wait = chance.uniform(0, takes * 1.1)
    first = time.monotonic() - started
    time.sleep(wait)
    machine.cut_power()
    return f"{wait:.3f} s after its first write (at {first:.2f} s)" if while_writing else f"{wait:.2f} s after its start"


def judge(found, old, new, entries, changes):
    """Which files there are; what is none of them, or a change that the history does not know, is a failure."""
    for path in FILES:
        if found[path] not in (old[path], new[path]):
            raise Failed(f"{path} is neither the old nor the new one")
    if found != old and entries != changes + 1:
        raise Failed(f"files were changed, and the history has {entries} changes, not {changes + 1}")
    return "old" if found == old else "new" if found == new else "some of each"


def boot(machine, found, known):
    """What is there after a real boot, and that the policy can be brought into force."""
    seconds = machine.start()
    expect(sums_of(machine), found, f"a boot ({seconds:.0f} s) finds the same")
    machine.run("iosched log > /dev/null && iosched apply --yes")
    scheduler = machine.run(f"sed -n 's/^scheduler = \"\\(.*\\)\"/\\1/p' {POLICY}")
    expect(sums_of(machine), known[scheduler], f"and apply brings {scheduler} into force")
    expect(machine.schedulers()["virt"], scheduler, "on the disk, too")
    machine.cut_power()


def sums_of(machine):
    lines = machine.run(f"for f in {' '.join(FILES)}; do echo $f $(sha256sum < $f); done")
    return {line.split()[0]: line.split()[1] for line in lines.splitlines()}


def sum_of(path):
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return None


def history(directory):
    """The number of changes in the history; each must be whole."""
    names = [name for name in os.listdir(directory) if name.endswith(".json")]
    for name in names:
        with open(os.path.join(directory, name)) as file:
            json.load(file)
    return len(names)


@contextlib.contextmanager
def mounted(image, directory):
    """The root file system of an image, mounted over a layer that is thrown away: the image stays as it is."""
    top = os.path.join(directory, "look.qcow2")
    layer(top, image, "qcow2")
    export, root = os.path.join(directory, "look.raw"), os.path.join(directory, "look")
    open(export, "w").close()
    os.makedirs(root, exist_ok=True)
    with contextlib.ExitStack() as stack:
        daemon = subprocess.Popen([
            "qemu-storage-daemon", "--blockdev", f"driver=file,node-name=file,filename={top}",
            "--blockdev", "driver=qcow2,node-name=disk,file=file",
            "--export", f"type=fuse,id=export,node-name=disk,mountpoint={export},writable=on",
        ])
        stack.callback(daemon.wait)
        stack.callback(daemon.terminate)
        while os.path.getsize(export) == 0:
            if daemon.poll() is not None:
                raise Failed("qemu-storage-daemon did not start")
            time.sleep(0.05)
        loop = stack.enter_context(attached(export, 2048 * 512))
        stack.enter_context(mounted_at(loop, root))
        yield root


@contextlib.contextmanager
def attached(path, offset=0):
    """A loop device over a file, from a byte on."""
    loop = subprocess.run(["losetup", "--find", "--show", "--offset", str(offset), path],
                          check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield loop
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)


@contextlib.contextmanager
def mounted_at(device, root):
    """The file system of a device, whose journal is replayed."""
    subprocess.run(["mount", "-t", "ext4", device, root], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", root], check=True)
