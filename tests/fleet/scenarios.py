"""A fleet's life under the playbooks of fleet/ansible/example, step by step. Started by run.py in namespaces of its own.

Of eight machines five are good. fay's policy names a scheduler that its kernel does not have, gus is switched off, hal loses
power while the policy is put in force: files are written then, and its disk is not yet set. Each step builds on those before.
"""

import contextlib
import functools
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from hosts import NETWORK, Failed, Fleet, run, wait_until

MACHINES = ["ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal"]
CANARIES = ["ada", "bob"]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "fleet/ansible/example"
COLLECTION = ROOT / "fleet/ansible/ansible_collections"
POLICY = "/etc/iosched/policy.toml"
RULES = "/etc/udev/rules.d/99-iosched.rules"
RECAP = re.compile(r"^(\w+) +: ok=\d+ +changed=(\d+) +unreachable=(\d+) +failed=(\d+) ", re.MULTILINE)
# What `udevadm` does at one of its verbs: `verify` comes before anything is written; at `control` all files are written, and
# no disk is set yet.
HANGS = "touch /run/in-the-middle; exec sleep infinity"
FAILS_ONCE = "[ -e /run/in-the-middle ] && exit 0; touch /run/in-the-middle; echo no udev today >&2; exit 1"
UDEVADM = """#!/bin/sh
if [ "$1" = {verb} ]; then
    {what}
fi
exec /usr/bin/udevadm.real "$@"
"""
# Once the record has its header and a trial.
FIO_THAT_HANGS = """#!/bin/sh
if [ "$(wc -l </var/lib/iosched/records/first/record.jsonl)" -ge 2 ]; then
    touch /run/in-the-middle
    exec sleep infinity
fi
exec /usr/bin/fio.real "$@"
"""
# A Python whose modules answer with another directory.
LIAR = """#!/bin/sh
/usr/bin/python3 "$@" | sed 's#records/first/record#records/{name}/record#g'
"""
FACTS = """
- name: Ask what stands below a directory
  hosts: ada:cyd
  gather_facts: false
  tasks:
    - name: Ask iosched
      iosched.linux.iosched_facts:
        devices: [/srv/data]
        executable: "{{ command | default('iosched') }}"
    - name: Compare
      ansible.builtin.assert:
        that:
          - ansible_facts.iosched.devices | map(attribute='name') == ['sda']
          - ansible_facts.iosched.devices[0].model == 'FLEET 4000'
          - ansible_facts.iosched.devices[0].schedulers.choice.active == 'none'
          - ansible_facts.iosched.version is version('0.1.0', '>=')
          - "'advice' not in ansible_facts.iosched"
"""


def expect(found, wanted, what: str) -> None:
    if found != wanted:
        raise Failed(f"{what}: {found!r}, not {wanted!r}")


class Play:
    """What a playbook did, by its own account."""

    def __init__(self, output: str):
        self.output = output
        self.changed, self.failed, self.unreachable, self.good = {}, set(), set(), set()
        for machine, changed, unreachable, failed in RECAP.findall(output):
            self.changed[machine] = int(changed)
            if int(unreachable):
                self.unreachable.add(machine)
            elif int(failed):
                self.failed.add(machine)
            else:
                self.good.add(machine)

    def expect(self, good, failed=(), unreachable=()) -> "Play":
        """Exactly these machines were reached, with these ends."""
        found = (sorted(self.good), sorted(self.failed), sorted(self.unreachable))
        if found != (sorted(good), sorted(failed), sorted(unreachable)):
            raise Failed(f"good, failed and unreachable were {found}:\n{self.output[-6000:]}")
        return self

    def expect_changed(self, machines) -> "Play":
        """Exactly these machines were changed."""
        found = sorted(machine for machine, changes in self.changed.items() if changes)
        if found != sorted(machines):
            raise Failed(f"changed were {found}, not {sorted(machines)}:\n{self.output[-6000:]}")
        return self

    def says(self, text: str) -> "Play":
        if text not in self.output:
            raise Failed(f"it does not say {text!r}:\n{self.output[-6000:]}")
        return self


class Controller:
    """The machine from which playbooks are run: this one, with a copy of the example."""

    def __init__(self, directory: Path, iosched: Path, logs: Path, fleet: Fleet):
        self.fleet, self.logs, self.iosched = fleet, logs, iosched
        self.directory = directory / "controller"
        shutil.copytree(EXAMPLE, self.directory)
        shutil.copytree(COLLECTION, self.directory / "collections/ansible_collections", dirs_exist_ok=True)
        self.records, self.evidence = self.directory / "records", self.directory / "evidence"
        (self.directory / "known_hosts").write_text(fleet.known_hosts())
        self.plays = 0
        self.variables: dict[str, dict] = {name: {} for name in MACHINES}
        home = directory / "home"
        home.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE", "SSH", "IOSCHED"))}
        self.environment = kept | {
            "HOME": str(home),
            "PATH": f"{directory}/bin:{os.environ['PATH']}",
            "ANSIBLE_COLLECTIONS_PATH": str(self.directory / "collections"),
            "ANSIBLE_NOCOLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LC_ALL": "C.UTF-8",
        }
        (directory / "bin").mkdir()
        (directory / "bin/iosched").symlink_to(iosched)

    def inventory(self) -> Path:
        """How the machines of the example's inventory are reached here."""
        hosts = {}
        for name, machine in self.fleet.machines.items():
            hosts[name] = {"ansible_host": machine.address} | self.variables[name]
        common = {
            "ansible_user": "root",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(self.fleet.keys / "controller"),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.directory}/known_hosts -o IdentitiesOnly=yes",
        }
        file = self.directory / "here.json"
        file.write_text(json.dumps({"all": {"hosts": hosts, "vars": common}}))
        return file

    def command(self, playbook: str, *options: str) -> list[str]:
        return ["ansible-playbook", "-i", "inventory.yml", "-i", str(self.inventory()), playbook, *options]

    def play(self, playbook: str, *options: str, meanwhile=None) -> Play:
        """Runs a playbook, and something beside it."""
        self.plays += 1
        log = self.logs / f"{self.plays:02}-{playbook.removesuffix('.yml')}.log"
        with open(log, "w+", encoding="utf-8") as file:
            process = subprocess.Popen(
                self.command(playbook, *options),
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            if meanwhile:
                meanwhile(process)
            process.wait()
        return Play(log.read_text())


class Story:
    """The steps, in order. Each is a method that raises `Failed`."""

    def __init__(self, directory: Path, iosched: Path, logs: Path, loops: list[str]):
        self.directory = directory
        self.fleet = Fleet(directory, MACHINES, loops)
        self.controller = Controller(directory, iosched, logs, self.fleet)
        self.play = self.controller.play
        self.on = [name for name in MACHINES if name != "gus"]
        self.quick = ["-e", json.dumps({"iosched_tune_arms": ["none,mq-deadline"], "iosched_tune_options": QUICK})]
        for name in self.on:
            self.fleet[name].boot()
        self.set_up_sources(iosched)

    def set_up_sources(self, iosched: Path) -> None:
        """A package for ada and bob, a URL for cyd, a binary for the others."""
        served = self.directory / "served"
        served.mkdir()
        binary = served / "iosched"
        shutil.copy(iosched, binary)
        tree = self.directory / "deb"
        (tree / "usr/bin").mkdir(parents=True)
        (tree / "DEBIAN").mkdir()
        shutil.copy(iosched, tree / "usr/bin/iosched")
        control = "Package: iosched\nVersion: 0.1.0-1\nArchitecture: all\nMaintainer: a test <iosched@localhost>\nDescription: as the test made it\n"
        (tree / "DEBIAN/control").write_text(control)
        package = self.directory / "iosched_0.1.0-1.deb"
        run("dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(package))

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_words):
                pass

        handler = functools.partial(Quiet, directory=str(served))
        server = http.server.ThreadingHTTPServer((f"{NETWORK}.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://{NETWORK}.1:{server.server_port}/iosched"
        for name in MACHINES:
            source = package if name in ("ada", "bob") else url if name == "cyd" else binary
            file = package if source == package else binary
            self.controller.variables[name] |= {
                "iosched_install_source": str(source),
                "iosched_install_checksum": f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}",
            }

    def states(self, names=None) -> dict[str, dict]:
        return {name: self.fleet[name].state() for name in names or self.on}

    def check_mode_of_an_installation_changes_nothing(self):
        before = self.states()
        self.play("install.yml", "--check", "--diff").expect(self.on, unreachable=["gus"]).expect_changed(self.on)
        expect(self.states(), before, "the machines")

    def installed_everywhere_but_on_the_machine_that_is_off(self):
        """By package, by URL and as a binary; gus is switched off."""
        play = self.play("install.yml").expect(self.on, unreachable=["gus"]).expect_changed(self.on)
        play.says("sda has none; advice: mq-deadline or bfq")
        for name in self.on:
            place = "/usr/bin/iosched" if name in CANARIES else "/usr/local/bin/iosched"
            expect(self.fleet[name].run(place, "--version").returncode, 0, f"{name}: {place} --version")
        self.play("install.yml").expect(self.on, unreachable=["gus"]).expect_changed([])

    def devices_are_told_as_facts(self):
        (self.controller.directory / "facts.yml").write_text(FACTS)
        self.play("facts.yml").expect(["ada", "cyd"]).expect_changed([])
        play = self.play("facts.yml", "-e", "command=nowhere").expect([], failed=["ada", "cyd"])
        play.says("there is no nowhere on this machine: install it with the role iosched.linux.install")

    def a_binary_that_is_broken_or_not_the_one_meant_replaces_nothing(self):
        before = self.states(["eve"])
        broken = self.directory / "broken"
        broken.write_text("#!/bin/sh\nexit 1\n")
        checksum = hashlib.sha256(broken.read_bytes()).hexdigest()
        source = ["-e", f"iosched_install_source={broken}", "--limit", "eve"]
        play = self.play("install.yml", *source, "-e", f"iosched_install_checksum=sha256:{checksum}")
        play.expect([], failed=["eve"]).says("failed to validate")
        other = checksum[::-1]
        play = self.play("install.yml", *source, "-e", f"iosched_install_checksum=sha256:{other}")
        play.expect([], failed=["eve"]).says("is not the file with")
        play = self.play("install.yml", *source, "-e", "iosched_install_checksum=sha256:abc")
        play.expect([], failed=["eve"]).says("what sha256sum prints")
        expect(self.states(["eve"]), before, "eve")

    def canaries_are_measured_and_their_records_collected(self):
        """Check mode first, then a run in which bob loses power while it measures, then the rest, then once more."""
        quick = self.quick
        before = self.states(CANARIES)
        self.play("measure.yml", "--check", *quick).expect(CANARIES)
        expect(self.states(CANARIES), before, "the canaries")

        bob = self.fleet["bob"]
        self.replace(bob, "fio", FIO_THAT_HANGS)
        play = self.play("measure.yml", *quick, meanwhile=functools.partial(self.cut_in_the_middle, bob, "fio"))
        play.expect(["ada"], unreachable=["bob"])
        bob.boot()
        for name in CANARIES:
            expect(self.fleet[name].scheduler(), "none", f"{name}'s scheduler after")
            expect([file.name for file in self.fleet[name].path("/srv/data").iterdir() if file.name != "lost+found"], [], f"{name}'s files after")
        before = self.states(CANARIES)
        self.play("measure.yml", "--check", *quick).expect(CANARIES).expect_changed(["bob"])
        expect(self.states(CANARIES), before, "the canaries, of which one is to be gone on with")
        play = self.play("measure.yml", *quick).expect(CANARIES).expect_changed(["bob"])
        for name in CANARIES:
            lines = (self.controller.records / name / "first/record.jsonl").read_text().splitlines()
            expect('"resumed"' in "".join(lines), name == "bob", f"whether {name}'s record was gone on with")
        self.play("measure.yml", *quick).expect(CANARIES).expect_changed([])

        damaged = bob.path("/var/lib/iosched/records/damaged")
        damaged.mkdir()
        (damaged / "record.jsonl").write_text("{}\n")
        play = self.play("measure.yml", *quick).expect(["ada"], failed=["bob"])
        play.says("damaged/record.jsonl holds no record").says("item=/var/lib/iosched/records/first/record.jsonl")
        with open(damaged / "record.jsonl", "r+b") as endless:
            endless.truncate((512 << 20) + 1)
        play = self.play("measure.yml", *quick).expect(["ada"], failed=["bob"])
        play.says("more than the 536870912 of a record that are read")
        expect((self.controller.records / "bob/damaged/record.jsonl").stat().st_size < 100, True, "whether it was not fetched")
        shutil.rmtree(damaged)

        shown = json.loads(run(str(self.controller.iosched), "--json", "evidence", "show", str(self.controller.evidence)))
        counts = [finding["machines"] for finding in shown["findings"] if (finding["level"], finding["drive"]) == ("model", "FLEET 4000")]
        expect(counts, [2], "machines with evidence of the model")
        self.nothing_of_the_machines_is_in(self.controller.evidence)

    def nothing_of_the_machines_is_in(self, evidence: Path) -> None:
        """Neither their names and addresses nor paths: in the rows of their records, and in the names of the dataset's files."""
        records = [str(self.controller.records / name / "first") for name in CANARIES]
        anew = self.directory / "anew"
        added = run(str(self.controller.iosched), "--json", "evidence", "add", *records, "--to", str(anew), "--dry-run")
        rows = json.dumps(json.loads(added)["rows"])
        names = " ".join(str(file.relative_to(evidence)) for file in evidence.rglob("*"))
        expect("FLEET 4000" in rows, True, "whether the model is in the evidence")
        for private in [*MACHINES, NETWORK, "srv", "first"]:
            found = re.search(rf"\b{re.escape(private)}\b", f"{rows} {names}", re.IGNORECASE)
            expect(found, None, f"{private} in the evidence")

    def a_machine_that_lies_writes_nothing_elsewhere_on_the_controller(self):
        """bob says that its record is in a directory called `..`, then `.`: its own directory on the controller is left at the first."""
        bob = self.fleet["bob"]
        before = self.files_of_controller()
        for name in ("..", "."):
            record = bob.path(os.path.normpath(f"/var/lib/iosched/records/{name}/record.jsonl"))
            shutil.copy(bob.path("/var/lib/iosched/records/first/record.jsonl"), record)
            bob.write("/usr/local/bin/liar", LIAR.format(name=name), 0o755)
            self.controller.variables["bob"]["ansible_python_interpreter"] = "/usr/local/bin/liar"
            play = self.play("measure.yml", *self.quick).expect(["ada"], failed=["bob"]).expect_changed([])
            play.says("would lead elsewhere on the controller")
            del self.controller.variables["bob"]["ansible_python_interpreter"]
            for file in (record, bob.path("/usr/local/bin/liar")):
                file.unlink()
            expect(self.files_of_controller(), before, "the controller's files")

    def files_of_controller(self) -> list[str]:
        return sorted(str(file) for file in self.controller.directory.rglob("*"))

    def check_mode_of_a_policy_shows_the_difference_and_changes_nothing(self):
        names = [name for name in self.on if name != "fay"]
        before = self.states(names)
        play = self.play("policy.yml", "--check", "--diff", "--limit", ",".join(names)).expect(names).expect_changed(names)
        for text in ("+++ /etc/iosched/policy.toml", "+tunables = { fifo_batch = 4 }", f"+++ {RULES}", "sda: scheduler none -> mq-deadline"):
            play.says(text)
        expect(self.states(names), before, "the machines")

    def a_policy_that_the_first_machine_refuses_reaches_no_other(self):
        before = self.states()
        self.write_policy("impossible.toml", scheduler="adios")
        play = self.play("policy.yml", "-e", "iosched_policy_src=impossible.toml")
        play.expect([], failed=["ada"]).says("cannot switch sda to adios").says("choose one of those it offers")
        (self.controller.directory / "malformed.toml").write_text("version = 1\n[[rule]]\nname = ")
        play = self.play("policy.yml", "-e", "iosched_policy_src=malformed.toml")
        play.expect([], failed=["ada"]).says("the policy:3:")
        expect(self.states(), before, "the machines")

    def a_change_that_fails_after_its_files_are_written_is_put_back(self):
        dan = self.fleet["dan"]
        before = without_memory(self.states(["dan"]))
        self.have_udevadm(dan, "control", FAILS_ONCE)
        play = self.play("policy.yml", "--limit", "dan").expect([], failed=["dan"]).says("no udev today")
        if not dan.path("/run/in-the-middle").exists():
            raise Failed(f"dan was never in the middle:\n{play.output}")
        expect(without_memory(self.states(["dan"])), before, "dan")
        expect([dan.read(file) for file in (POLICY, RULES)], [None, None], "dan's policy and rules")
        self.have_no_udev(dan)

    def one_fails_one_is_off_one_loses_power_and_the_rest_goes_on(self):
        self.write_policy("of-fay.toml", scheduler="adios")
        self.controller.variables["fay"]["iosched_policy_src"] = "of-fay.toml"
        before = self.states(["fay"])
        hal = self.fleet["hal"]
        self.have_udevadm(hal, "control", HANGS)
        good = [name for name in self.on if name not in ("fay", "hal")]
        play = self.play("policy.yml", meanwhile=functools.partial(self.cut_in_the_middle, hal, "udevadm"))
        play.expect(good, failed=["fay"], unreachable=["gus", "hal"]).expect_changed(good)
        self.expect_in_force(good, "mq-deadline")
        expect(self.states(["fay"]), before, "fay")
        hal.boot()
        # Whole files, and a disk that is as the kernel begins.
        for file in (POLICY, RULES):
            expect(hal.read(file), self.fleet["ada"].read(file), f"hal's {file} after the power failure")
        expect(hal.scheduler(), "none", "hal's scheduler after the power failure")
        expect(hal.run("iosched", "check").returncode, 2, "iosched check on hal")

    def all_is_converged_once_they_are_back(self):
        del self.controller.variables["fay"]["iosched_policy_src"]
        self.fleet["gus"].boot()
        self.on = MACHINES
        self.play("install.yml", "--limit", "gus").expect(["gus"]).expect_changed(["gus"])
        self.play("policy.yml").expect(MACHINES).expect_changed(["fay", "gus", "hal"])
        self.expect_in_force(MACHINES, "mq-deadline")
        states = self.states()
        for playbook in ("install.yml", "policy.yml"):
            self.play(playbook).expect(MACHINES).expect_changed([])
        self.play("policy.yml", "--check", "--diff").expect(MACHINES).expect_changed([])
        self.play("check.yml").expect(MACHINES).expect_changed([])
        expect(without_memory(self.states()), without_memory(states), "the machines")

    def what_somebody_switched_by_hand_is_told_and_put_right(self):
        cyd = self.fleet["cyd"]
        expect(cyd.run("iosched", "set", "sda", "bfq").returncode, 0, "iosched set on cyd")
        play = self.play("check.yml").expect([name for name in MACHINES if name != "cyd"], failed=["cyd"])
        play.says("scheduler is bfq, not mq-deadline")
        play = self.play("policy.yml", "--diff").expect(MACHINES).expect_changed(["cyd"])
        play.says("sda: scheduler bfq -> mq-deadline")
        self.expect_in_force(MACHINES, "mq-deadline")

    def power_that_goes_before_anything_is_written_leaves_the_old_policy(self):
        """A second policy, in whose roll-out hal's power goes while udev is asked what it thinks of the rules."""
        hal = self.fleet["hal"]
        self.write_policy("second.toml", scheduler="bfq")
        second = ["-e", "iosched_policy_src=second.toml"]
        old = {file: hal.read(file) for file in (POLICY, RULES)}
        self.have_udevadm(hal, "verify", HANGS)
        others = [name for name in MACHINES if name != "hal"]
        self.play("policy.yml", *second, meanwhile=functools.partial(self.cut_in_the_middle, hal, "udevadm")).expect(others, unreachable=["hal"])
        self.expect_in_force(others, "bfq")
        hal.boot()
        expect({file: hal.read(file) for file in (POLICY, RULES)}, old, "hal's files after the power failure")
        self.play("policy.yml", *second).expect(MACHINES).expect_changed(["hal"])
        self.expect_in_force(MACHINES, "bfq")
        self.play("policy.yml", *second).expect(MACHINES).expect_changed([])

    def a_policy_is_removed_everywhere(self):
        absent = ["-e", "iosched_policy_state=absent"]
        self.play("policy.yml", *absent, "--check", "--diff").expect(MACHINES).expect_changed(MACHINES).says("--- /etc/iosched/policy.toml")
        self.expect_in_force(MACHINES, "bfq")
        self.play("policy.yml", *absent).expect(MACHINES).expect_changed(MACHINES)
        for name in MACHINES:
            expect([self.fleet[name].read(file) for file in (POLICY, RULES)], [None, None], f"{name}'s policy and rules")
        self.play("policy.yml", *absent).expect(MACHINES).expect_changed([])

    def write_policy(self, name: str, scheduler: str) -> None:
        text = (EXAMPLE / "policy.toml").read_text().replace('"mq-deadline"', f'"{scheduler}"')
        (self.controller.directory / name).write_text(text.replace("tunables = { fifo_batch = 4 }\n", ""))

    def have_udevadm(self, machine, verb: str, what: str) -> None:
        """Has a udev run on the machine, as far as `iosched` can tell, whose program does this."""
        self.replace(machine, "udevadm", UDEVADM.format(verb=verb, what=what))
        machine.write("/run/udev/control", "")

    def have_no_udev(self, machine) -> None:
        self.put_back(machine, "udevadm")
        for file in ("/run/udev/control", "/run/in-the-middle"):
            machine.path(file).unlink()

    def replace(self, machine, program: str, script: str) -> None:
        """Has a script stand in for a program, which is kept as `PROGRAM.real`."""
        file = machine.path(f"/usr/bin/{program}")
        shutil.copy(file, machine.path(f"/usr/bin/{program}.real"))
        file.unlink()
        machine.write(f"/usr/bin/{program}", script, 0o755)

    def put_back(self, machine, program: str) -> None:
        machine.path(f"/usr/bin/{program}.real").rename(machine.path(f"/usr/bin/{program}"))

    def cut_in_the_middle(self, machine, program: str, process) -> None:
        """Cuts the power once the script that stands in for the program says that it hangs; the program itself is back then."""
        marker = machine.path("/run/in-the-middle")
        wait_until(f"{machine.name} is in the middle", lambda: process.poll() is not None or marker.exists())
        if process.poll() is not None:
            raise Failed(f"the playbook ended before {machine.name} was in the middle of it")
        self.put_back(machine, program)
        machine.cut_power()

    def expect_in_force(self, names, scheduler: str) -> None:
        for name in names:
            machine = self.fleet[name]
            expect(machine.scheduler(), scheduler, f"{name}'s scheduler")
            checked = machine.run("iosched", "check")
            expect(checked.returncode, 0, f"iosched check on {name}: {checked.stdout}{checked.stderr}")


# The least that gives rows of evidence.
QUICK = ["--fixed-rounds", "3", "--runtime", "1s", "--file-size", "16M", "--no-split", "--no-html"]


def without_memory(states: dict) -> dict:
    """Without what `iosched` remembers of its own commands."""
    return {name: {file: what for file, what in state.items() if not file.startswith(MEMORY)} for name, state in states.items()}


MEMORY = ("/var/lib/iosched/check.json", "/var/lib/iosched/lock", "/var/lib/iosched/history", "/var/lib/iosched/journal")

STEPS = [
    Story.check_mode_of_an_installation_changes_nothing,
    Story.installed_everywhere_but_on_the_machine_that_is_off,
    Story.devices_are_told_as_facts,
    Story.a_binary_that_is_broken_or_not_the_one_meant_replaces_nothing,
    Story.canaries_are_measured_and_their_records_collected,
    Story.a_machine_that_lies_writes_nothing_elsewhere_on_the_controller,
    Story.check_mode_of_a_policy_shows_the_difference_and_changes_nothing,
    Story.a_policy_that_the_first_machine_refuses_reaches_no_other,
    Story.a_change_that_fails_after_its_files_are_written_is_put_back,
    Story.one_fails_one_is_off_one_loses_power_and_the_rest_goes_on,
    Story.all_is_converged_once_they_are_back,
    Story.what_somebody_switched_by_hand_is_told_and_put_right,
    Story.power_that_goes_before_anything_is_written_leaves_the_old_policy,
    Story.a_policy_is_removed_everywhere,
]


def main(directory: str, iosched: str, logs: str, loops: str) -> int:
    # Files of this boot, and the machines' own layers, are in memory.
    world = Path(directory) / "world"
    world.mkdir()
    run("mount", "-t", "tmpfs", "-o", "mode=755", "fleet", str(world))
    failed = 0
    with contextlib.ExitStack() as stack:
        story = Story(world, Path(iosched), Path(logs), loops.split(","))
        for machine in story.fleet.machines.values():
            stack.callback(machine.cut_power)
        for step in STEPS:
            name = step.__name__.replace("_", " ")
            try:
                step(story)
                print(f"ok      {name}", flush=True)
            except Failed as error:
                failed += 1
                print(f"FAILED  {name}: {error}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
