"""What the modules make of a command that prints something else than it should. The machine's own Python runs it, without
Ansible: `python3 -m unittest tests/fleet/test_command.py`."""

import importlib.util
import json
import sys
import types
import unittest
from pathlib import Path

COLLECTION = Path(__file__).parents[2] / "fleet/ansible/ansible_collections/iosched/linux"
specification = importlib.util.spec_from_file_location("command", COLLECTION / "plugins/module_utils/command.py")
command = importlib.util.module_from_spec(specification)
specification.loader.exec_module(command)


def policy_module(asked):
    """The module `policy` beside a stand-in for Ansible's own."""
    basic = types.ModuleType("ansible.module_utils.basic")
    basic.AnsibleModule = lambda **_: asked
    utilities = "ansible_collections.iosched.linux.plugins.module_utils"
    stand_ins = {"ansible": None, "ansible.module_utils": None, basic.__name__: basic, utilities + ".command": command}
    names = utilities.split(".")
    stand_ins.update({".".join(names[:count]): None for count in range(1, len(names) + 1)})
    before = dict(sys.modules)
    sys.modules.update({name: module or types.ModuleType(name) for name, module in stand_ins.items()})
    try:
        specification = importlib.util.spec_from_file_location("policy", COLLECTION / "plugins/modules/policy.py")
        policy = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(policy)
        return policy
    finally:
        sys.modules.clear()
        sys.modules.update(before)


class Failed(Exception):
    """The module said so in one message."""


class Module:
    """Ansible's module, over a command that prints this."""

    params = {"executable": "iosched"}

    def __init__(self, output, code=0, errors=""):
        self.answer = (code, output, errors)

    def get_bin_path(self, name, opt_dirs):
        return f"{opt_dirs[0]}/{name}"

    def run_command(self, _words, check_rc=False):
        return self.answer

    def fail_json(self, msg, rc=None):
        raise Failed(msg)


class OtherAnswers(unittest.TestCase):
    def test_json_of_another_shape_is_one_clear_failure(self):
        for output in ("", "[]", "null", "3", "{}", '{"devices": {}}', '{"devices": null}', '{"devices": [1, null]}', "<html>"):
            with self.subTest(output), self.assertRaisesRegex(Failed, "--json list` of /usr/local/bin/iosched printed no "):
                command.Iosched(Module(output)).json("list", lists=["devices"])
        self.assertEqual(command.Iosched(Module('{"devices": []}')).json("list", lists=["devices"]), {"devices": []})

    def test_another_program_is_not_taken_for_iosched(self):
        for output in ("", "\n", "busybox", "GNU bash, version 5.2"):
            with self.subTest(output), self.assertRaisesRegex(Failed, "is not iosched"):
                command.Iosched(Module(output)).version()
        self.assertEqual(command.Iosched(Module("iosched 0.1.0\n")).version(), "0.1.0")

    def test_an_error_of_another_shape_is_told_as_it_is(self):
        for errors in ('{"error": 3, "hint": ["a"]}', "[]", "", "killed", '{"error": "a"}'):
            with self.subTest(errors), self.assertRaises(Failed):
                command.Iosched(Module("", 1, errors)).json("list", known_as=[("a", "b")])

    def policy(self, report, why=None):
        """What the module `policy` makes of a report: what it returns, and the words of the command."""
        words, returned = [], []
        asked = Module(json.dumps(report))
        asked.params = {"executable": "iosched", "content": "x", "state": "present", "why": why, "later": False, "initramfs": False}
        asked.check_mode, asked.tmpdir = False, None
        asked.run_command = lambda given, check_rc=False: words.extend(given) or asked.answer
        asked.warn = lambda note: None
        asked.exit_json = lambda **result: returned.append(result)
        policy_module(asked).main()
        return returned, words

    def test_a_report_of_another_version_is_one_clear_failure_that_says_what_may_be_done(self):
        whole = {"id": 1, "notes": [], "files": [], "disks": [], "adjusted": []}
        self.assertEqual(self.policy(whole)[0][0]["changed"], False)
        others = [{name: value for name, value in whole.items() if name != gone} for gone in whole]
        others += [{**whole, **other} for other in (
            {"notes": [5]}, {"files": [{"diff": None}]}, {"files": [{}]}, {"files": [5]},
            {"disks": [{"device": "sda"}]}, {"disks": [{"device": "sda", "deviations": [{}]}]},
        )]  # fmt: skip
        for report in others:
            with self.subTest(report), self.assertRaisesRegex(Failed, "another version of iosched"):
                self.policy(report)

    def test_a_reason_that_begins_with_a_dash_is_no_option(self):
        _, words = self.policy({"id": 1, "notes": [], "files": [], "disks": [], "adjusted": []}, why="--no, because")
        self.assertIn("--why=--no, because", words)


if __name__ == "__main__":
    unittest.main()
