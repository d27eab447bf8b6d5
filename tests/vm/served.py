"""A disk with a scheduler of ours inside, over a real one: power failures while files are written and synced through it, and
dirty pages that are written through it while a process holds all memory but 200 MB.

The machine boots once and is saved with the disk served and mounted; each cut goes on from there and is ended by SIGKILL. What
a process was told is safe it has noted on a second disk, one sector a file, before it went on. Then the disk below is
mounted here, which replays its journal: every file that was noted must be whole, and the file system without a fault.
"""

import hashlib
import os
import random
import shutil
import subprocess

from cuts import attached, go_on, mounted_at
from machine import Failed
from progress import say
from report import expect, install, new_machine

DATA, NOTES = "virt", "sata"
SCHEDULERS = ("cfq", "deadline", "noop", "bfq", "mq-deadline", "kyber", "none")
FILE_BYTES = 32 << 10
FILES = 1000  # more than there is time for

# Each file is noted after `dd` has synced it: its number and what is in it.
WRITER = f"""
for n in $(seq {FILES}); do
    head -c {FILE_BYTES} /dev/urandom >/run/file
    dd if=/run/file of=/mnt/$n bs={FILE_BYTES} conv=fsync status=none || exit
    echo "$n $(sha256sum </run/file)" | dd of=NOTES bs=512 seek=$n conv=sync,notrunc oflag=direct status=none
done"""

HOLD = """
import mmap, signal
free = next(int(line.split()[1]) for line in open('/proc/meminfo') if line.startswith('MemAvailable')) << 10
held = mmap.mmap(-1, free - (200 << 20))
for at in range(0, len(held), mmap.PAGESIZE):
    held[at] = 1
open('/run/held', 'w').close()
signal.pause()
"""


def run(directory, image, deb, count):
    chance = random.Random(int(os.environ.get("IOSCHED_TEST_SEED", "1")))
    directory = os.path.join(directory, "served")
    machine = new_machine(directory, image, deb, [DATA, NOTES])
    with open(path_of(machine, DATA), "r+b") as file:
        file.truncate(512 << 20)
    state = os.path.join(directory, "state")
    frozen = machine.root
    try:
        say(f"ok    boot by grub in {machine.start():.0f} s")
        install(machine)
        serve(machine)
        under_pressure(machine)
        machine.run("rm -f /mnt/*; sync")
        machine.save(state)
        for disk in (DATA, NOTES):
            shutil.copy(path_of(machine, disk), path_of(machine, disk) + ".frozen")
        safe = 0
        for cut in range(1, count + 1):
            scheduler = SCHEDULERS[cut % len(SCHEDULERS)]
            moment = cut_short(machine, state, frozen, scheduler, chance)
            noted = what_is_there(machine)
            say(f"ok    cut {cut}, {moment:.2f} s after the first file under {scheduler}: all {noted} that were safe are whole")
            safe += noted
        expect(safe > count, True, f"{count} power failures, {safe} files that had to be there")
    finally:
        machine.cut_power()


def path_of(machine, disk):
    return os.path.join(machine.directory, f"{disk}.raw")


def serve(machine):
    """A disk over the real one, with a file system, mounted."""
    made = machine.run(f"iosched emulate create --quiet --over {machine.node(DATA)} --scheduler cfq --destroy-data")
    machine.run(f"mke2fs -q -t ext4 {made} && mount {made} /mnt && echo {made} >/run/served")
    expect("cfq inside" in machine.run("COLUMNS=200 iosched emulate list"), True, f"{made} is served over a real disk, cfq inside")


def under_pressure(machine):
    """Ten times 128 MiB of dirty pages through the disk, with 200 MB of memory left for all."""
    machine.run(f"cat >/run/hold.py <<'END'\n{HOLD}END\nrm -f /run/held; (python3 /run/hold.py >/run/hold.log 2>&1 & echo $! >/run/holder)\n"
                "while [ ! -e /run/held ] && kill -0 $(cat /run/holder); do sleep 1; done; test -e /run/held")
    for turn in range(1, 11):
        scheduler = SCHEDULERS[turn % len(SCHEDULERS)]
        machine.run(f"iosched emulate set --quiet $(cat /run/served) {scheduler}"
                    f" && dd if=/dev/zero of=/mnt/{turn % 2} bs=1M count=128 conv=fsync status=none")
        left = machine.run("grep MemAvailable /proc/meminfo")
        say(f"ok    128 MiB of dirty pages under {scheduler}, {left}")
    expect(machine.try_run("kill $(cat /run/holder)")[0], 0, "ten times no deadlock, and nobody was killed for memory")
    machine.run("while kill -0 $(cat /run/holder) 2>/dev/null; do sleep 0.1; done")


def cut_short(machine, state, frozen, scheduler, chance):
    """Cuts the power while files are written; returns when, in seconds."""
    for disk in (DATA, NOTES):
        shutil.copy(path_of(machine, disk) + ".frozen", path_of(machine, disk))
    go_on(machine, state, frozen)
    machine.run(f"iosched emulate set --quiet $(cat /run/served) {scheduler}")
    machine.run(f"({WRITER.replace('NOTES', machine.node(NOTES))}\n) >/run/writer.log 2>&1 &\n"
                "while [ ! -e /mnt/1 ]; do sleep 0.05; done")
    moment = chance.uniform(0, 6)
    try:
        machine.process.wait(moment)
        raise Failed("the machine ended by itself")
    except subprocess.TimeoutExpired:
        machine.cut_power()
    return moment


def notes(machine):
    """Number and sum of each file that was safe."""
    with open(path_of(machine, NOTES), "rb") as file:
        for number in range(1, FILES + 1):
            file.seek(number * 512)
            words = file.read(512).rstrip(b"\0").decode().split()
            if words:
                yield int(words[0]), words[1]


def what_is_there(machine):
    """How many files were safe; each must be whole below, after the journal is replayed."""
    found = dict(notes(machine))
    root = os.path.join(machine.directory, "look")
    os.makedirs(root, exist_ok=True)
    with attached(path_of(machine, DATA)) as loop:
        with mounted_at(loop, root):
            for number, wanted in found.items():
                with open(os.path.join(root, str(number)), "rb") as file:
                    if hashlib.sha256(file.read()).hexdigest() != wanted:
                        raise Failed(f"file {number} was synced, and is not what was written")
        checked = subprocess.run(["e2fsck", "-fn", loop], capture_output=True, text=True)
        if checked.returncode != 0:
            raise Failed(f"the file system has faults after its journal was replayed:\n{checked.stdout}")
    return len(found)
