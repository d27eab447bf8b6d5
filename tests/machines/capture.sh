#!/bin/sh
# Prints what `iosched list` reads of this machine as one text:
#
#   sh capture.sh > machine.txt
#
# Nothing is copied from the disks themselves. Serial numbers and mount points are: look through the text
# before you give it away. Runs without root; what cannot be read is left out.
set -eu
export LC_ALL=C

content=$(mktemp)
trap 'rm -f "$content"' EXIT
section=

# Starts the section of a file's directory.
enter() {
    directory=$(dirname "$1")
    if [ "$directory" != "$section" ]; then
        section=$directory
        printf '\n[%s]\n' "${section#/}"
    fi
}

# Prints one attribute, if it can be read.
file() {
    [ -f "$1" ] && cat "$1" >"$content" 2>/dev/null || return 0
    enter "$1"
    name=$(basename "$1")
    controls=$(tr -d '\011\012\040-\176\200-\377' <"$content" | wc -c)
    if [ "$controls" != 0 ] || [ -n "$(tail -c 1 "$content" | tr -d '\n')" ] || [ ! -s "$content" ]; then
        printf '%s = "%s"\n' "$name" "$(od -An -v -tx1 "$content" | tr -d '\n' | sed 's/ /\\x/g')"
    elif [ "$(wc -l <"$content")" != 1 ]; then
        printf '%s:\n' "$name"
        sed 's/^/    /' "$content"
    elif grep -q '^["[:blank:]]\|[[:blank:]]$\|^$' "$content"; then
        printf '%s = "%s\\n"\n' "$name" "$(sed 's/[\\"]/\\&/g' "$content")"
    else
        printf '%s = %s\n' "$name" "$(cat "$content")"
    fi
}

# Prints a link as it is.
link() {
    if [ -L "$1" ]; then
        enter "$1"
        printf '%s -> %s\n' "$(basename "$1")" "$(readlink "$1")"
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
