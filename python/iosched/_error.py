"""The exception of this package."""

from __future__ import annotations

from typing import Sequence


class IoschedError(Exception):
    """What was asked for cannot be done. `hint` says the way out, or is None; `failures` are the messages of all recordings that
    `conform` could not follow, and empty of all else."""

    hint: str | None
    failures: list[str]

    def __init__(self, message: str = "", hint: str | None = None, failures: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.hint = hint
        self.failures = list(failures)


# As it is called everywhere, also where it is pickled.
IoschedError.__module__ = "iosched"
