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


def new_machine(directory, image, deb=None, disks=tuple(DISKS), with_fio=False):
    """A machine whose root is a layer over the image, with the package on a disk of its own; beside it what `make static`
    has made, if it has, and this machine's fio."""
    subprocess.run(["rm", "-rf", directory], check=True)
    os.makedirs(directory)
    root = os.path.join(directory, "root.qcow2")
    layer(root, image, "raw")
    payload = os.path.join(directory, "payload.tar")
    files = os.path.join(directory, "payload")
    os.makedirs(files)
    if deb:
        shutil.copy(deb, files)
    if with_fio:
        copy_fio(os.path.join(files, "fio"))
    shutil.copy(os.path.join(ROOT, "fleet/monitoring/iosched-check-textfile.conf"), files)
    for binary in glob.glob(os.path.join(ROOT, "target/static/iosched-*-linux-x86_64/iosched")):
        shutil.copy(binary, os.path.join(files, "iosched-static"))
        shutil.copy(os.path.join(ROOT, "tests/static"), files)
    subprocess.run(["tar", "-C", files, "-cf", payload, *sorted(os.listdir(files))], check=True)
    return Machine(directory, root, disks, payload)


def copy_fio(directory):
    """fio with its libraries and their loader: the image has none of them, or others."""
    os.makedirs(directory)
    program = shutil.which("fio")
    if program is None:
        raise Failed("needs fio, for the machine")
    shutil.copy(program, os.path.join(directory, "fio.program"))
    listed = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    libraries = {word for word in listed.split() if word.startswith("/")}
    for library in libraries:
        shutil.copy(os.path.realpath(library), os.path.join(directory, os.path.basename(library)))
    loader = next(os.path.basename(library) for library in libraries if "/ld-" in library)
    wrapper = os.path.join(directory, "fio")
    with open(wrapper, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\nhere=${0%/*}\n'
                   f'exec "$here/{loader}" --library-path "$here" "$here/fio.program" "$@"\n')
    os.chmod(wrapper, 0o755)


def install(machine):
    machine.run("cd /tmp && tar xf /dev/disk/by-id/virtio-PAYLOAD && dpkg -i *.deb && rm *.deb")
