#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0

DOCUMENTATION = r"""
module: iosched_facts
short_description: Tell block devices and their I/O schedulers as facts
version_added: 1.0.0
description:
  - Returns what C(iosched list --json) says of the machine as the fact C(iosched).
  - With I(advice=true) also what C(iosched advise --json) says each disk should have, without measuring.
  - Nothing is changed.
options:
  devices:
    description:
      - Devices to tell of, with what they stand on and what stands on them. A kernel name, a node, a directory or a file. All that
        are in use where none is named.
    type: list
    elements: str
    default: []
  advice:
    description:
      - Ask for advice, too.
    type: bool
    default: false
  load_class:
    description:
      - What the disks are used for, for the advice.
    type: str
    choices: [general, database, desktop, files, backup, vm]
    default: general
extends_documentation_fragment:
  - iosched.linux.command
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: Changes nothing, so there is no difference.
    support: none
  facts:
    description: Returns facts of the machine.
    support: full
author:
  - The iosched developers (@iosched)
"""

EXAMPLES = r"""
- name: Ask what disks there are
  iosched.linux.iosched_facts:

- name: Show each disk with its scheduler
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.schedulers.choice.active }}"
  loop: "{{ ansible_facts.iosched.devices | selectattr('schedulers.choice', 'defined') }}"
  loop_control:
    label: "{{ item.name }}"

- name: Ask what the disks below a directory should have
  iosched.linux.iosched_facts:
    devices: [/var/lib/postgresql]
    advice: true
    load_class: database
"""

RETURN = r"""
ansible_facts:
  description: Facts to be kept.
  type: dict
  returned: always
  contains:
    iosched:
      description: What iosched says of the machine.
      type: dict
      returned: always
      contains:
        version:
          description: The version of the command.
          type: str
          returned: always
          sample: 0.1.0
        devices:
          description: Block devices, each as C(iosched list --json) has it.
          type: list
          elements: dict
          returned: always
          sample: [{name: sda, model: ACME 4000, schedulers: {choice: {active: none, offered: [none, mq-deadline]}}}]
        advice:
          description: What each disk should have, as C(iosched advise --json) has it.
          type: list
          elements: dict
          returned: where I(advice=true)
          sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.iosched.linux.plugins.module_utils.command import ARGUMENTS, Iosched


def main():
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "str", "default": []},
            "advice": {"type": "bool", "default": False},
            "load_class": {
                "type": "str",
                "choices": ["general", "database", "desktop", "files", "backup", "vm"],
                "default": "general",
            },
            **ARGUMENTS,
        },
        supports_check_mode=True,
    )
    iosched = Iosched(module)
    devices = module.params["devices"]
    facts = {
        "version": iosched.version(),
        "devices": iosched.json("list", "--", *devices, lists=["devices"])["devices"],
    }
    if module.params["advice"]:
        answer = iosched.json("advise", "--load-class", module.params["load_class"], "--", *devices, lists=["disks"])
        facts["advice"] = answer["disks"]
    module.exit_json(changed=False, ansible_facts={"iosched": facts})


if __name__ == "__main__":
    main()
