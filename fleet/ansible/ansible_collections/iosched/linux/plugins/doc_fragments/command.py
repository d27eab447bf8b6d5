# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the modules document alike."""


class ModuleDocFragment:
    """The option by which modules find the command; module_utils/command.py has its argument."""

    DOCUMENTATION = r"""
options:
  executable:
    description:
      - The command, by name or path.
    type: str
    default: iosched
"""
