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
        return output.split()[-1]

    def json(self, *arguments, known_as=()):
        """What `iosched --json ARGUMENTS` prints. The module fails where it fails.

        `known_as` has pairs: text that may stand in a message, and what the user knows it as.
        """
        code, output, errors = self.module.run_command([self.path, "--json", *arguments])
        if code != 0:
            error, hint = read_error(errors)
            for text, name in known_as:
                error, hint = error.replace(text, name), hint.replace(text, name)
            self.module.fail_json(msg=f"{error}; {hint}" if hint else error, rc=code)
        try:
            return json.loads(output)
        except ValueError:
            self.module.fail_json(msg=f"`iosched --json {arguments[0]}` of {self.path} printed no JSON: {output[:200]!r}")


def read_error(text):
    """Message and hint of an error that was printed as JSON, after other lines or none."""
    lines = text.strip().splitlines()
    try:
        error = json.loads(lines[-1])
        return error["error"], error["hint"] or ""
    except (IndexError, KeyError, TypeError, ValueError):
        return text.strip() or "iosched failed without a word", ""
