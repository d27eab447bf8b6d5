"""What the tests in a machine of QEMU say, and the files they begin with."""

import glob
import os
import shutil
import subprocess

from machine import DISKS, Failed, Machine
from progress import say


ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def expect(found, wanted, what):
    if found != wanted:
        raise Failed(f"{what}: found {found!r}, not {wanted!r}")
    say(f"ok    {what}")


def layer(path, base, base_format):
    """An image that holds what is written from now on, over one that stays as it is."""
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", base_format, "-b", base, path], check=True)


def new_machine(directory, image, deb, disks=tuple(DISKS)):
    """A machine whose root is a layer over the image, with the package on a disk of its own; beside it what `make static`
    has made, if it has."""
    subprocess.run(["rm", "-rf", directory], check=True)
    os.makedirs(directory)
    root = os.path.join(directory, "root.qcow2")
    layer(root, image, "raw")
    payload = os.path.join(directory, "payload.tar")
    files = os.path.join(directory, "payload")
    os.makedirs(files)
    shutil.copy(deb, files)
    shutil.copy(os.path.join(ROOT, "fleet/monitoring/iosched-check-textfile.conf"), files)
    for binary in glob.glob(os.path.join(ROOT, "target/static/iosched-*-linux-x86_64/iosched")):
        shutil.copy(binary, os.path.join(files, "iosched-static"))
        shutil.copy(os.path.join(ROOT, "scripts/test-static"), files)
    subprocess.run(["tar", "-C", files, "-cf", payload, *sorted(os.listdir(files))], check=True)
    return Machine(directory, root, disks, payload)


def install(machine):
    machine.run("cd /tmp && tar xf /dev/disk/by-id/virtio-PAYLOAD && dpkg -i *.deb && rm *.deb")
