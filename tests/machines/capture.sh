#!/bin/sh
# Copies what `iosched list` reads of this machine to a directory, to look at elsewhere:
#
#   sh capture.sh DIR && iosched list --root DIR
#
# Nothing is copied from the disks themselves. Serial numbers and mount points are: look through DIR
# before you give it away. Runs without root; what cannot be read is left out.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: capture.sh DIR" >&2
    exit 2
fi
root=$1
mkdir -p "$root"

# Copies one attribute, if it can be read.
file() {
    if [ -f "$1" ] && text=$(cat "$1" 2>/dev/null; echo .); then
        mkdir -p "$root$(dirname "$1")"
        cat "$1" >"$root$1" 2>/dev/null || rm -f "$root$1"
    fi
}

# Copies a link as it is.
link() {
    if [ -L "$1" ]; then
        mkdir -p "$root$(dirname "$1")"
        cp -P "$1" "$root$1" 2>/dev/null || true
    fi
}

# True if a device is still there: some come and go while others are copied.
is_there() {
    [ -f "$1/dev" ] && [ -f "$1/size" ]
}

for link in /sys/class/block/* /sys/block/* /sys/dev/block/*; do
    if is_there "$link"; then link "$link"; fi
done

for link in /sys/class/block/*; do
    is_there "$link" || continue
    device=$(readlink -f "$link")
    mkdir -p "$root$device"
    for attribute in "$device"/* "$device"/queue/* "$device"/queue/iosched/* "$device"/dm/* \
        "$device"/md/level "$device"/md/array_state "$device"/loop/* "$device"/mq/*/nr_tags; do
        file "$attribute"
    done
    for stacked in "$device"/holders/* "$device"/slaves/*; do
        link "$stacked"
    done
    if [ -L "$device/device" ]; then
        link "$device/device"
        parent=$(readlink -f "$device/device")
        for attribute in model vendor serial name wwid vpd_pg80 queue_depth scsi_level transport; do
            file "$parent/$attribute"
        done
        for controller in "$parent"/nvme[0-9]*; do
            link "$controller"
        done
    fi
    file "/run/udev/data/b$(cat "$device/dev" 2>/dev/null || true)"
done

for members in /sys/fs/btrfs/*/devices/*; do
    link "$members"
done
for link in /dev/mapper/* /dev/disk/*/* /dev/md/*; do
    link "$link"
done
for table in /proc/self/mountinfo /proc/swaps /proc/sys/kernel/osrelease; do
    file "$table"
done
