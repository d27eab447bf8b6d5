"""What the tests in a machine of QEMU say, and the files they begin with."""

import os
import subprocess

from machine import DISKS, Failed, Machine
from progress import say


def expect(found, wanted, what):
    if found != wanted:
        raise Failed(f"{what}: found {found!r}, not {wanted!r}")
    say(f"ok    {what}")


def layer(path, base, base_format):
    """An image that holds what is written from now on, over one that stays as it is."""
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", base_format, "-b", base, path], check=True)


def new_machine(directory, image, deb, disks=tuple(DISKS)):
    """A machine whose root is a layer over the image, with the package on a disk of its own."""
    subprocess.run(["rm", "-rf", directory], check=True)
    os.makedirs(directory)
    root = os.path.join(directory, "root.qcow2")
    layer(root, image, "raw")
    payload = os.path.join(directory, "payload.tar")
    subprocess.run(["tar", "-C", os.path.dirname(deb), "-cf", payload, os.path.basename(deb)], check=True)
    return Machine(directory, root, disks, payload)


def install(machine):
    machine.run("cd /tmp && tar xf /dev/disk/by-id/virtio-PAYLOAD && dpkg -i *.deb && rm *.deb")
