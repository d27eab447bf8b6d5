"""What the modules make of a command that prints something else than it should. The machine's own Python runs it, without
Ansible: `python3 -m unittest tests/fleet/test_command.py`."""

import importlib.util
import unittest
from pathlib import Path

COLLECTION = Path(__file__).parents[2] / "fleet/ansible/ansible_collections/iosched/linux"
specification = importlib.util.spec_from_file_location("command", COLLECTION / "plugins/module_utils/command.py")
command = importlib.util.module_from_spec(specification)
specification.loader.exec_module(command)


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
        for output in ("", "[]", "null", "3", "{}", '{"devices": {}}', '{"devices": null}', "<html>"):
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


if __name__ == "__main__":
    unittest.main()
