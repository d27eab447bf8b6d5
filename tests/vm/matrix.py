"""The matrix: every kind of disk, every event, a distribution's rules, TuneD; four boots. Two boots are CI's part of it."""

import os

from progress import say
from report import expect, install, new_machine

POLICY = "/etc/iosched/policy.toml"
RULES = "/etc/udev/rules.d/99-iosched.rules"
MODULES = "/etc/modules-load.d/iosched.conf"
INITRAMFS = "/usr/share/initramfs-tools/modules.d/iosched"
FILES = f"/etc/iosched {RULES} {MODULES} {INITRAMFS} /etc/tuned/iosched"
SETTLED = "udevadm trigger --subsystem-match=block --action=change; udevadm settle"

KEPT = {"sata": "bfq", "virt": "kyber", "nvme": "mq-deadline", "scsi": "bfq", "raid1": "mq-deadline",
        "raid2": "mq-deadline", "nameless": "mq-deadline", "ROOT": "bfq"}


def run(directory, image, deb):
    machine = new_machine(os.path.join(directory, "matrix"), image, deb)
    try:
        say(f"ok    boot by grub in {machine.start():.0f} s")
        before = files_of_the_system(machine)
        at_first = machine.schedulers()
        first_names = keep(machine, at_first)
        without_libraries(machine)
        tune(machine)
        events(machine)
        rules_of_others(machine)
        reboot(machine)
        after_the_reboot(machine, first_names)
        with_tuned(machine)
        leave_something(machine)
        reboot(machine)
        after_the_reboot_with_tuned(machine)
        put_back_at_boot(machine)
        remove(machine)
        reboot(machine)
        expect(machine.schedulers(), at_first, "after remove and reboot every disk is as at first")
        purge(machine, before)
        machine.stop()
    finally:
        machine.cut_power()


def run_short(directory, image, deb):
    """What only a boot shows: the package, a rule for each disk, TuneD and a killed switch, then one reboot."""
    machine = new_machine(os.path.join(directory, "matrix"), image, deb)
    try:
        say(f"ok    boot by grub in {machine.start():.0f} s")
        first_names = keep(machine, machine.schedulers())
        events(machine)
        with_tuned(machine)
        leave_something(machine)
        reboot(machine)
        after_the_reboot(machine, first_names)
        after_the_reboot_with_tuned(machine)
        put_back_at_boot(machine)
        machine.stop()
    finally:
        machine.cut_power()


def reboot(machine):
    machine.stop()
    say("      it has shut down")
    say(f"ok    reboot by grub in {machine.start():.0f} s")


def files_of_the_system(machine):
    """Everything that a package could leave behind, but for the package manager's own and logs."""
    return machine.run("find /etc /usr /lib /var/lib /boot -xdev -not -type d -not -path '/var/lib/dpkg/*'"
                       " -not -path '/var/lib/systemd/*' -not -path '/var/lib/tuned/*' -not -name '*.pyc'"
                       " -printf '%p %s\\n' | sort")


def keep(machine, at_first):
    """The first boot: the package, stacks of disks, a rule for each."""
    install(machine)
    expect(machine.schedulers(), at_first, "installing the package changes no disk")
    expect(machine.try_run(f"ls -d {FILES} 2>/dev/null")[1], "", "and writes no rule")
    make_stacks(machine)
    names = machine.disks()
    for target, what in [
        (names["sata"], "bfq low_latency=0 nr_requests=32"), (names["virt"], "kyber"),
        (names["nvme"], "mq-deadline fifo_batch=4"), ("/dev/md0", "mq-deadline"), ("/dev/vg/data", "bfq"),
    ]:
        machine.run(f"iosched persist --yes {target} {what}")
    text = machine.run(f"iosched persist --yes {names['nameless']} mq-deadline 2>&1")
    expect("recognised by its place" in text, True, "a disk without serial number is kept by its place, and that is said")
    keep_root(machine)
    expect(machine.schedulers(), KEPT, "persist: udev applied it and it was read back")
    expect(check(machine)[0], 0, "check: 0")
    machine.run(f"iosched persist --yes {names['sata']} none")
    expect(machine.schedulers()["sata"], "none", "a rule is replaced")
    machine.run("iosched undo")
    expect(machine.schedulers(), KEPT, "and undo takes that back")
    return names


def make_stacks(machine):
    """md raid1 over two disks, and LVM on crypt on a third."""
    machine.run(f"mdadm --create /dev/md0 --run --level=1 --raid-devices=2 --metadata=1.2 "
                f"{machine.node('raid1')} {machine.node('raid2')}")
    scsi = machine.node("scsi")
    machine.run(f"""modprobe dm-crypt; echo secret > /root/key
cryptsetup -q luksFormat --type luks1 --pbkdf-force-iterations 1000 {scsi} /root/key
cryptsetup open --key-file /root/key {scsi} locked
pvcreate -q /dev/mapper/locked; vgcreate -q vg /dev/mapper/locked; lvcreate -q -n data -L 16M vg; udevadm settle""")
    say("ok    md raid1 over two disks, LVM on crypt on a third")


def keep_root(machine):
    """The root disk, whose scheduler's module goes into the initramfs; not if that cannot be made."""
    root = machine.node("ROOT")
    tool = "/usr/sbin/update-initramfs"
    before = machine.run(f"cat {RULES}; cksum /initrd.img")
    machine.run(f"mv {tool} {tool}.real; printf '#!/bin/sh\\necho no room >&2; exit 1\\n' > {tool}; chmod +x {tool}")
    code, text = machine.try_run(f"iosched persist --yes --initramfs {root} bfq 2>&1")
    machine.run(f"mv {tool}.real {tool}")
    expect((code != 0, "no room" in text), (True, True), "an initramfs that cannot be made is an error")
    expect(machine.run(f"cat {RULES}; cksum /initrd.img"), before, "after which nothing is changed")
    machine.run(f"iosched persist --yes --initramfs {root} bfq")
    expect(machine.run("lsinitramfs /initrd.img | grep -c '/bfq.ko'"), "1", "the root disk's module is in the initramfs")


def without_libraries(machine):
    """The binary of `make static` in a root file system that has nothing else."""
    if machine.try_run("ls /tmp/iosched-static")[0] != 0:
        say("      not tried without libraries: `make static` has made no binary for x86_64")
        return
    code, said = machine.try_run("/tmp/test-static /tmp/iosched-static 2>&1")
    expect((code, said.strip().endswith("runs without any library")), (0, True),
           "the static binary lists, sets, measures and takes back where there is no library")
    machine.run("rm /tmp/test-static /tmp/iosched-static")


def tune(machine):
    """A tune whose answer is sure, kept, stale one day, and taken back."""
    name = machine.disks()["virt"]
    machine.run(f"mke2fs -q -t ext4 /dev/{name} && mkdir -p /srv/virt && mount /dev/{name} /srv/virt")
    load = f"command: sh: grep -q '.none.' /sys/block/{name}/queue/scheduler || sleep 1"
    text = machine.run(f"cd /root && iosched tune /srv/virt --load \"{load}\" --arms none --persist --no-html --out record 2>&1")
    expect("none is kept over reboots" in text, True, "tune --persist keeps its answer")
    expect(machine.schedulers()["virt"], "none", "udev has applied it")
    expect(machine.run(f"grep -c 'record = \"/root/record\"' {POLICY}"), "1", "the policy has a link to the record")
    expect(check(machine)[0], 0, "check: 0")
    machine.run(f"cp {POLICY} /root/policy; sed -i 's/kernel = \"6/kernel = \"5/' {POLICY}")
    code, text = machine.try_run("iosched check 2>&1")
    expect((code, "kernel" in text), (1, True), "of evidence from another kernel check warns")
    machine.run(f"cp /root/policy {POLICY}; iosched undo; umount /srv/virt; wipefs -qa /dev/{name}; udevadm settle")
    expect(machine.schedulers(), KEPT, "undo takes the answer back")


def check(machine):
    """What check says, and its exit code."""
    code, text = machine.try_run("iosched check 2>&1")
    if code == 1:
        say(text)
    return code, text


def events(machine):
    machine.run(SETTLED)
    expect(machine.schedulers(), KEPT, "udevadm trigger keeps them")
    sata = machine.disks()["sata"]
    machine.run(f"echo none > /sys/block/{sata}/queue/scheduler; udevadm trigger --action=change /sys/block/{sata}; udevadm settle")
    expect(machine.schedulers()["sata"], "bfq", "what somebody set by hand goes with the next event")
    machine.run(f"echo none > /sys/block/{sata}/queue/scheduler; echo change > /sys/block/{sata}/uevent; udevadm settle")
    expect(machine.schedulers()["sata"], "bfq", "or with one of the kernel's own")
    # udev watches the nodes of disks: who closes one that was open for writing makes an event.
    machine.run(f"echo none > /sys/block/{sata}/queue/scheduler; : <>/dev/{sata}; "
                f"for _ in $(seq 100); do grep -qF '[bfq]' /sys/block/{sata}/queue/scheduler && break; sleep 0.1; done")
    expect(machine.schedulers()["sata"], "bfq", "or when a program that could write the disk closes it")
    machine.run(f"parted -s /dev/{sata} mklabel gpt mkpart p 1MiB 8MiB; partprobe /dev/{sata}; udevadm settle")
    expect(machine.schedulers(), KEPT, "partprobe keeps them")
    machine.run(f"""cat >> {POLICY} <<'X'

[[rule]]
name = "hot"
match = {{ serial = "*HOT-1" }}
scheduler = "bfq"
X
iosched apply --yes""")
    path = os.path.join(machine.directory, "hot.raw")
    with open(path, "wb") as file:
        file.truncate(64 << 20)
    machine.monitor(f"drive_add 0 if=none,format=raw,id=hot,file={path}")
    machine.monitor("device_add scsi-hd,drive=hot,bus=scsi.0,scsi-id=9,serial=HOT-1,id=hot")
    machine.run("until lsblk -dno SERIAL | grep -q HOT-1; do sleep 0.2; done; udevadm settle")
    expect(machine.schedulers()["HOT-1"], "bfq", "a disk that is plugged in gets what the policy says")
    machine.monitor("device_del hot")
    machine.run("while lsblk -dno SERIAL | grep -q HOT-1; do sleep 0.2; done; udevadm settle")


def rules_of_others(machine):
    """A distribution's rule before ours does nothing, one after ours is named; the first one stays."""
    machine.run(f"""cat > /etc/udev/rules.d/60-ours-ioschedulers.rules <<'X'
ACTION=="add|change", KERNEL=="sd[a-z]*|vd*|nvme*", ENV{{DEVTYPE}}=="disk", ATTR{{queue/scheduler}}="none"
X
udevadm control --reload; {SETTLED}""")
    expect(machine.schedulers(), KEPT, "a distribution's rule that comes before ours does not win")
    expect(check(machine)[0], 0, "and check knows it")
    machine.run(f"""mv /etc/udev/rules.d/60-ours-ioschedulers.rules /etc/udev/rules.d/99-zz.rules
udevadm control --reload; {SETTLED}""")
    code, text = check(machine)
    expect((code, "udev rule, /etc/udev/rules.d/99-zz.rules:1" in text), (2, True), "one that comes after ours is named by check")
    code, text = machine.try_run(f"iosched persist --yes {machine.node('sata')} mq-deadline 2>&1")
    expect((code, "another rule or program comes after ours" in text), (7, True), "and persist says so and takes everything back")
    machine.run(f"""mv /etc/udev/rules.d/99-zz.rules /etc/udev/rules.d/60-ours-ioschedulers.rules
udevadm control --reload; {SETTLED}""")
    expect(machine.schedulers(), KEPT, "without it ours is in force again")


def after_the_reboot(machine, first_names):
    names = machine.disks()
    moved = [disk for disk in KEPT if names[disk] != first_names[disk]]
    expect(machine.schedulers(), KEPT, "after the reboot every disk has its scheduler")
    expect(len(moved) > 3, True, f"although the kernel gave other names to {', '.join(moved)}")
    queue = f"/sys/block/{names['sata']}/queue"
    expect(machine.run(f"cat {queue}/nr_requests {queue}/iosched/low_latency").split(), ["32", "0"], "and its tunables")
    order = machine.run("dmesg | grep -oE 'io scheduler bfq registered|EXT4-fs \\(vd.1\\): mounted' | head -2").splitlines()
    expect([line[:4] for line in order], ["io s", "EXT4"], "bfq was there before the root was mounted")
    expect(check(machine)[0], 0, "check: 0")


def with_tuned(machine):
    machine.run("""mkdir -p /etc/tuned/disky; printf '[main]\\nsummary=x\\n[disk]\\nelevator=none\\n' > /etc/tuned/disky/tuned.conf
systemctl enable --now tuned; tuned-adm profile disky""")
    code, text = check(machine)
    expect((code, "TuneD, /etc/tuned/disky/tuned.conf:4" in text), (2, True), "TuneD is named by check")
    machine.run("iosched apply --yes")
    expect(machine.run("cat /etc/tuned/active_profile"), "iosched", "apply makes a profile that includes the active one")


def after_the_reboot_with_tuned(machine):
    machine.run("until tuned-adm active 2>/dev/null | grep -q iosched; do sleep 1; done")
    expect(machine.schedulers(), KEPT, "TuneD and our rules agree after a reboot")
    expect(check(machine)[0], 0, "check: 0 with TuneD")


def leave_something(machine):
    """A switch for a while that is killed: its entry stays in the journal."""
    machine.run(f"setsid iosched set --for 1h {machine.node('nvme')} none >/dev/null 2>&1 & sleep 0.1;"
                " until ls /var/lib/iosched/journal/*.json >/dev/null 2>&1; do sleep 0.2; done; pkill -KILL -x iosched")
    expect(machine.run("ls /var/lib/iosched/journal | wc -l").strip(), "1", "a killed switch stays in the journal")


def put_back_at_boot(machine):
    machine.run("until systemctl is-active --quiet multi-user.target; do sleep 0.5; done")
    shown = machine.run("systemctl show -P Result -P ConditionResult iosched-restore.service").split()
    expect(shown, ["success", "yes"], "the unit of the package restores after a boot")
    expect(machine.run("ls /var/lib/iosched/journal | wc -l").strip(), "0", "and nothing is left in the journal")
    code, text = machine.try_run("systemctl start iosched-check.service && journalctl -b -o cat -u iosched-check.service")
    expect((code, ": as wanted by " in text), (0, True), "the check of the package works with the few rights that it has")
    metrics = "/var/lib/prometheus/node-exporter"
    unit = "/etc/systemd/system/iosched-check.service.d"
    machine.run(f"mkdir -p {metrics} {unit}; tar -xOf /dev/disk/by-id/virtio-PAYLOAD iosched-check-textfile.conf"
                f" >{unit}/textfile.conf && systemctl daemon-reload")
    machine.run("systemctl start iosched-check.service")
    shown = machine.run(f"stat -c '%a %n' {metrics}/*; grep -c ^iosched_disk_as_wanted {metrics}/iosched.prom").split()
    expect((shown[:2], int(shown[2]) > 0), (["644", f"{metrics}/iosched.prom"], True), "and writes metrics that others can read")
    machine.run(f"rm -r /var/lib/prometheus {unit} && systemctl daemon-reload")


def remove(machine):
    machine.run("systemctl disable --now tuned")
    for rule in machine.run(f"sed -n 's/^name = \"\\(.*\\)\"/\\1/p' {POLICY}").splitlines():
        machine.run(f"iosched persist --yes --remove '{rule}'")
    expect(machine.try_run(f"ls -d {FILES} 2>/dev/null")[1], "", "--remove leaves no file")
    expect(machine.try_run("lsinitramfs /initrd.img | grep -c '/bfq.ko'")[1].strip(), "0", "nor the module in the initramfs")
    machine.run("rm /etc/udev/rules.d/60-ours-ioschedulers.rules")


def purge(machine, before):
    machine.run(f"iosched persist --yes {machine.node('sata')} bfq; dpkg --purge iosched")
    left = set(files_of_the_system(machine).splitlines()) - set(before.splitlines())
    # What the test itself made: arrays, volumes, TuneD's own files.
    own = ("/etc/lvm", "/etc/tuned/disky", "/etc/tuned/active_profile", "/etc/tuned/profile_mode", "/etc/mdadm",
           "/var/lib/private", "/etc/machine-id", "/etc/systemd/system", "/boot/", "/etc/ld.so.cache")
    expect(sorted(line for line in left if not line.startswith(own)), [], "purge leaves nothing")
