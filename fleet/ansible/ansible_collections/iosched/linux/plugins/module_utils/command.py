# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the command `iosched` for modules, and reads what it prints as JSON."""

import json

# Of every module; doc_fragments/command.py describes them.
ARGUMENTS = {"executable": {"type": "str", "default": "iosched"}}


class Iosched:
    """The command on the managed machine."""

    def __init__(self, module):
        self.module = module
        wanted = module.params["executable"]
        self.path = module.get_bin_path(wanted, opt_dirs=["/usr/local/bin"])
        if self.path is None:
            module.fail_json(
                msg=f"there is no {wanted} on this machine: install it with the role iosched.linux.install, or name it with `executable`"
            )

    def version(self):
        """As in `0.1.0`."""
        _code, output, _errors = self.module.run_command([self.path, "--version"], check_rc=True)
        words = output.split()
        if len(words) != 2 or words[0] != "iosched":
            self.module.fail_json(msg=f"{self.path} is not iosched: `--version` printed {output[:200]!r}")
        return words[1]

    def json(self, *arguments, lists=(), known_as=()):
        """What `iosched --json ARGUMENTS` prints. The module fails where it fails, and where what it prints is no object that has
        these lists of objects.

        `known_as` has pairs: text that may stand in a message, and what the user knows it as.
        """
        code, output, errors = self.module.run_command([self.path, "--json", *arguments])
        if code != 0:
            error, hint = read_error(errors)
            for text, name in known_as:
                error, hint = error.replace(text, name), hint.replace(text, name)
            self.module.fail_json(msg=f"{error}; {hint}" if hint else error, rc=code)
        what = f"`iosched --json {arguments[0]}` of {self.path} printed"
        try:
            answer = json.loads(output)
        except ValueError:
            self.module.fail_json(msg=f"{what} no JSON: {output[:200]!r}")
        if not isinstance(answer, dict):
            self.module.fail_json(msg=f"{what} no object: {output[:200]!r}")
        for name in lists:
            found = answer.get(name)
            if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
                self.module.fail_json(msg=f"{what} no list of {name}: another version of iosched? {output[:200]!r}")
        return answer


def read_error(text):
    """Message and hint of an error that was printed as JSON, after other lines or none."""
    lines = text.strip().splitlines()
    try:
        error = json.loads(lines[-1])
        return str(error["error"]), str(error["hint"] or "")
    except (IndexError, KeyError, TypeError, ValueError):
        return text.strip() or "iosched failed without a word", ""
