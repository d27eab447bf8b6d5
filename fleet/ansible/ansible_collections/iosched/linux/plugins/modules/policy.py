#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0

DOCUMENTATION = r"""
module: policy
short_description: Put an I/O scheduler policy in force, whole or not at all
version_added: 1.0.0
description:
  - Makes a text the policy of the machine (C(/etc/iosched/policy.toml)) with C(iosched persist --policy).
  - The policy is read whole, and the kernel is asked for every disk whether it takes the scheduler and each tunable, before
    anything is written. Then the policy, the udev rules that are made of it and the disks change together. If any of it fails,
    all of it is put back.
  - After a power failure each file is the old or the new one. The next run of this module completes the change.
  - A machine whose files and disks are as the policy says is left alone; a disk that somebody has switched since is set again.
options:
  content:
    description:
      - The policy, in TOML. Required where I(state=present).
    type: str
  state:
    description:
      - C(absent) removes the policy and what was made of it. Disks keep the scheduler that they have until the next boot.
    type: str
    choices: [present, absent]
    default: present
  why:
    description:
      - Why, in words. Kept in the history of the machine, which C(iosched log) shows.
    type: str
  later:
    description:
      - Write only. The disks stay as they are until the next boot or event.
    type: bool
    default: false
  initramfs:
    description:
      - Put the module of the scheduler of the root disk into the initramfs, and make that anew.
    type: bool
    default: false
extends_documentation_fragment:
  - iosched.linux.command
attributes:
  check_mode:
    description: Can say what would change without changing anything. The kernel is not asked then.
    support: full
  diff_mode:
    description: Shows the difference of each file and of each disk.
    support: full
author:
  - The iosched developers (@iosched)
"""

EXAMPLES = r"""
- name: Keep mq-deadline on a model of disks
  iosched.linux.policy:
    content: |
      version = 1

      [[rule]]
      name = "data"
      match = { model = "ACME 4000*" }
      scheduler = "mq-deadline"
      tunables = { fifo_batch = 4 }
    why: measured on two canaries

- name: Remove the policy
  iosched.linux.policy:
    state: absent
"""

RETURN = r"""
id:
  description: The number of the change, for C(iosched log) and C(iosched undo). Nothing where nothing was changed.
  type: int
  returned: always
  sample: 3
files:
  description: The files that are changed, with the difference.
  type: list
  elements: dict
  returned: always
  sample: [{path: /etc/iosched/policy.toml, removed: false, diff: "--- /dev/null"}]
disks:
  description: Each disk that a rule is for, what it is to have, and in what it differed before.
  type: list
  elements: dict
  returned: always
  sample: [{device: sda, rule: data, wanted: mq-deadline, deviations: []}]
adjusted:
  description: Values that the kernel took otherwise than asked.
  type: list
  elements: dict
  returned: always
  sample: []
"""

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iosched.linux.plugins.module_utils.command import ARGUMENTS, Iosched


def main():
    module = AnsibleModule(
        argument_spec={
            "content": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "why": {"type": "str"},
            "later": {"type": "bool", "default": False},
            "initramfs": {"type": "bool", "default": False},
            **ARGUMENTS,
        },
        required_if=[("state", "present", ["content"])],
        supports_check_mode=True,
    )
    wanted = module.params
    iosched = Iosched(module)
    report = put_in_force(module, iosched, wanted["content"] if wanted["state"] == "present" else "")
    try:
        result, notes = result_of(report, wanted["later"])
    except (AttributeError, KeyError, TypeError) as cause:
        module.fail_json(
            msg=f"`iosched --json persist` of {iosched.path} printed another report than this module reads ({cause!r}): another version of"
            " iosched? The change may be done: `iosched log` on the machine says so"
        )
    for note in notes:
        module.warn(note)
    module.exit_json(**result)


def result_of(report, is_later):
    """What the module returns, and the notes."""
    disks = [line for disk in report["disks"] for line in changes_of(disk, is_later)]
    result = {
        "changed": bool(report["files"] or disks),
        # A text is added to, so that nothing else passes for one.
        "diff": [{"prepared": "" + file["diff"]} for file in report["files"]] + [{"prepared": line + "\n"} for line in disks],
        "id": report["id"],
        "files": report["files"],
        "disks": report["disks"],
        "adjusted": report["adjusted"],
    }
    return result, ["" + note for note in report["notes"]]


# What is read of the command's report.
LISTS = ["files", "disks", "adjusted"]


def put_in_force(module, iosched, text):
    """Makes the text the machine's policy, or says what that would be; what the command reports."""
    options = ["--dry-run"] if module.check_mode else ["--yes"]
    if module.params["later"]:
        options.append("--later")
    if module.params["initramfs"]:
        options.append("--initramfs")
    if module.params["why"]:
        # In one word, so that none that begins with a dash is an option.
        options.append("--why=" + module.params["why"])
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as directory:
        candidate = os.path.join(directory, "policy.toml")
        with open(candidate, "w", encoding="utf-8") as file:
            file.write(text)
        return iosched.json("persist", "--policy", candidate, *options, lists=LISTS, known_as=[(candidate, "the policy")])


def changes_of(disk, is_later):
    """What is done to a disk, a line for each file of its queue."""
    if is_later:
        return []
    return [
        f"{disk['device']}: {change['file'].replace('queue/', '', 1)} {change['found']} -> {change['wanted']}"
        for change in disk["deviations"]
    ]


if __name__ == "__main__":
    main()
