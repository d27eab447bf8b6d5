"""Tunables searched in simulation, by Optuna; the best few measured again with chance that the search has not seen, and then on
a device by `iosched tune`.

The best of many trials looks better than it is: it was chosen for its luck, too (the winner's curse). So what is told of a
setting is the ratio to the defaults under fresh seeds, beside the one under which it was found; and of a device the ratio
that its own trials say, with its interval.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import shlex
import signal
import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Callable, Union

from . import (
    Disk, IoschedError, Path, Record, Scheduler, Simulated, Time, Trace, _disk, _integer, _MOST, _place, _several, _whole,
    read_record, schedulers, simulate,
)  # fmt: skip

#: The least and the most of a tunable; or the values to choose from.
Range = Union["tuple[int, int]", Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Found:
    """A setting: `found` is its ratio to the defaults in the search, `fresh` those under seeds that the search has not seen
    (one for each, all paired with the defaults under the same seed)."""

    scheduler: Scheduler
    found: float
    fresh: list[float]

    @property
    def ratio(self) -> float:
        """The geometric mean of the fresh ratios: what may be expected of it."""
        return statistics.geometric_mean(self.fresh)


@dataclasses.dataclass(frozen=True)
class Search:
    """What a search found: the best settings by their fresh ratios, the defaults among them (ratio 1)."""

    objective: str
    trials: int
    best: list[Found]
    load: str | Trace | Path = dataclasses.field(repr=False)
    disk: Disk = dataclasses.field(repr=False)

    def command(self, device: str) -> str:
        """The command that measures these settings and the defaults on a real disk."""
        return shlex.join(["iosched", "tune", _place("device", device), *self._arms()])

    def confirm(
        self,
        target: Path | None = None,
        *,
        out: Path,
        loads: Sequence[str | Path] = (),
        arguments: Sequence[str] = (),
        iosched: str | Sequence[str] = "iosched",
    ) -> Confirmed:
        """Measures these settings and the defaults on a device: runs `iosched tune`, which changes the device's scheduler
        meanwhile, and needs root.

        `target` is a disk, a directory or a file as `tune` takes it; without one the disk of the search is emulated, with
        the schedulers inside it where the kernel has them not. The load is that of the search; name `loads` if that was a
        recording. `out` is the directory for the record; `arguments` are more of `tune`'s (`["--budget", "10m"]`); `iosched`
        is the command (`["sudo", "iosched"]`). Interrupted, it waits until `tune` has put back what it changed.
        """
        words = _words("iosched", [iosched] if isinstance(iosched, str) else iosched)
        if not words:
            raise IoschedError("iosched: no command is named")
        more = _words("arguments", arguments)
        out = _place("out", out)
        words += ["tune", "--quiet", *self._arms(), "--baseline", self.best[0].scheduler.name, *self._load(loads)]
        words += ["--objective", _MEASURED[self.objective]] if self.objective in _MEASURED else []
        words += _emulated(self.disk) if target is None else [_place("target", target)]
        _run([*words, *more, "--out", out])
        record = read_record(out)
        analysis = record.analysis
        contest = analysis["overall"] or analysis["loads"][0]["contest"]
        measured = {_inside(arm["arm"]): arm for arm in contest["arms"]}
        settings = []
        for found in self.best:
            arm = measured[str(found.scheduler)]
            ratio = arm["to_baseline"]
            interval = (ratio["lower"], ratio["upper"])
            settings.append(Measured(found.scheduler, found.found, found.ratio, ratio["estimate"], interval, arm["rounds"]))
        settings.sort(key=lambda setting: setting.measured, reverse=True)
        choice = analysis["choice"]
        winner = next((one.scheduler for one in settings if choice is not None and str(one.scheduler) == _inside(choice)), None)
        return Confirmed(out, analysis["conclusion"], winner, settings, record)

    def _arms(self) -> list[str]:
        arms = dict.fromkeys([self.best[0].scheduler.name, *(str(found.scheduler) for found in self.best)])
        return [word for arm in arms for word in ("--arms", arm)]

    def _load(self, loads: Sequence[str | Path]) -> list[str]:
        if loads:
            names = [_place("a load", load) for load in _several("loads", loads, (str, bytes, os.PathLike))]
        elif isinstance(self.load, Trace):
            raise IoschedError(f"{os.fspath(self.load.path)} is a recording, which no device can run: name loads=[...] that are like it")
        else:
            names = [_place("a load", self.load)]
        return [word for name in names for word in ("--load", name)]


@dataclasses.dataclass(frozen=True)
class Measured:
    """A setting on a device, each number a ratio to the defaults: `found` in the search, `ratio` under fresh seeds, `measured`
    on the device with its `interval`, which holds together with those of the other settings, from so many `rounds`."""

    scheduler: Scheduler
    found: float
    ratio: float
    measured: float
    interval: tuple[float, float]
    rounds: int


@dataclasses.dataclass(frozen=True)
class Confirmed:
    """What `tune` measured of what a search found: its `conclusion` ("winner", "equal", "undecided", ...), the `winner` if
    there is one, and the settings with the best on the device first. `record` is in the directory `out`."""

    out: str
    conclusion: str
    winner: Scheduler | None
    settings: list[Measured]
    record: Record = dataclasses.field(repr=False)


#: Our objectives as `tune` names them.
_MEASURED = {"iops": "iops", "p99": "p99"}


def _words(of: str, words: Any) -> list[str]:
    """Words of a command: not one text, whose letters would be taken for words."""
    found = [] if isinstance(words, (str, bytes)) else _several(of, words, ())
    if isinstance(words, (str, bytes)) or not all(isinstance(word, (str, os.PathLike)) for word in found):
        raise IoschedError(f'{of} is a list of words, as ["--budget", "10m"], not {words!r}')
    return [_place(of, word) for word in found]


def _inside(arm: str) -> str:
    """An arm without what says that it is served inside the disk."""
    return arm.removeprefix("served/")


def _emulated(disk: Disk) -> list[str]:
    """The options of `tune` that make this disk."""
    if disk.order is not None or disk.write_cache is not None:
        raise IoschedError("`tune` emulates no disk with another order or write cache: write it into a .toml file of its own")
    words = ["--emulate", os.fspath(disk.model)]
    for option, value in (("--size", disk.size), ("--queue-depth", disk.queue_depth), ("--slow-down", disk.slow_down)):
        words += [] if value is None else [option, str(value)]
    return words


def _code_of(process: subprocess.Popen[bytes]) -> int:
    """Waits in slices: where another package has calls restarted after SIGINT, as polars does, Ctrl-C ends no wait without a limit."""
    while True:
        try:
            return process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            pass


def _run(words: Sequence[str]) -> None:
    """Runs the command to its end; what it says when it fails is an error of ours."""
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
        except OSError as cause:
            raise IoschedError(f"cannot run {words[0]}: {cause.strerror}", "install iosched, or name the command: iosched=") from None
        try:
            code = _code_of(process)
        except BaseException:
            # From a terminal it was interrupted, too. It puts back what it changed before it ends.
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
                process.wait()
            raise
        if code == 0:
            return
        said.seek(0)
        lines = said.read().decode(errors="replace").splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    hints = [line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")]
    message = errors[0] if errors else f"it ended with code {code}: {' '.join(lines[-3:])}"
    raise IoschedError(f"{shlex.join(words)}: {message}", hints[0] if hints else None)


def _iops(simulated: Simulated) -> float:
    return float(simulated["runs"][0]["total"]["iops"])


def _inverse_p99(simulated: Simulated) -> float:
    return 1e9 / max(1, int(simulated["runs"][0]["total"]["latency"]["p99_ns"]))


_OBJECTIVES: dict[str, Callable[[Simulated], float]] = {"iops": _iops, "p99": _inverse_p99}


def search(
    scheduler: str,
    space: Mapping[str, Range],
    load: str | Trace | Path = "random-read",
    disk: Disk | str | None = None,
    *,
    objective: str | Callable[[Simulated], float] = "iops",
    trials: int = 50,
    best: int = 3,
    fresh: int = 5,
    until: Time | None = None,
    seed: int = 0,
    **options: Any,
) -> Search:
    """Searches a scheduler's tunables for the best objective over a disk model: "iops", "p99" (less is better), or a function
    of `Simulated` of which more is better.

    `space` gives each tunable its least and most (a pair) or its values (three or more). The trials of the search have the
    one `seed`; the `best` settings are then simulated under `fresh` other seeds, together with the defaults.
    """
    try:
        import optuna
    except ImportError:
        raise IoschedError("a search needs Optuna, which is not installed: pip install optuna") from None
    ranges = _ranges(scheduler, space)
    for what, count in (("trials", trials), ("best", best), ("fresh", fresh)):
        if _integer(what, count) < 1:
            raise IoschedError(f"{what}: at least 1, not {count}")
    if not callable(objective) and not (isinstance(objective, str) and objective in _OBJECTIVES):
        raise IoschedError(f"no objective is called {objective}; there are: {', '.join(_OBJECTIVES)}, or a function")
    _whole("seed", _integer("seed", seed), 0, _MOST - fresh)
    known = inspect.signature(simulate).parameters
    for name in options:
        if name not in known or name in ("schedulers", "events"):
            raise IoschedError(f"a search has no option {name}; it has those of simulate but schedulers and events")
    value = _OBJECTIVES[objective] if isinstance(objective, str) else objective

    def of(setting: Scheduler, seed: int) -> float:
        simulated = value(simulate(load, disk, setting, until=until, seed=seed, **options))
        try:
            found = float(simulated)
        except (TypeError, ValueError, OverflowError):
            raise IoschedError(f"the objective of {setting} is {simulated!r}, which is no number") from None
        if not 0 < found < math.inf:
            raise IoschedError(f"the objective of {setting} is {found}: ratios need one above 0, of which more is better")
        return found

    defaults = Scheduler(scheduler)
    at_defaults = of(defaults, seed)
    values: dict[Scheduler, float] = {}

    def tried(trial: Any) -> float:
        tunables = {name: _suggested(trial, name, range_) for name, range_ in ranges.items()}
        setting = Scheduler(scheduler, **tunables)
        if setting not in values:
            values[setting] = of(setting, seed)
        return values[setting]

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed % 2**32))
    study.optimize(tried, n_trials=trials)

    ranked = sorted(values, key=lambda setting: values[setting], reverse=True)[:best]
    seeds = range(seed + 1, seed + 1 + fresh)
    anew = {fresh_seed: of(defaults, fresh_seed) for fresh_seed in seeds}
    found = [
        Found(setting, values[setting] / at_defaults, [of(setting, fresh_seed) / anew[fresh_seed] for fresh_seed in seeds])
        for setting in ranked
    ]
    found.append(Found(defaults, 1.0, [1.0] * fresh))
    name = objective if isinstance(objective, str) else getattr(objective, "__name__", "objective")
    ordered = sorted(found, key=lambda one: one.ratio, reverse=True)
    return Search(name, len(values), ordered, load, _disk(disk))


def _ranges(scheduler: Any, space: Any) -> dict[str, list[int]]:
    """The space, if it is one."""
    known = {info["name"]: info["tunables"] for info in schedulers()}
    if not isinstance(scheduler, str) or scheduler not in known:
        raise IoschedError(f"no scheduler is called {scheduler}; there are: {', '.join(known)}")
    tunables = {tunable["name"]: tunable for tunable in known[scheduler]}
    if not isinstance(space, Mapping):
        raise IoschedError(f"space gives each tunable its range, as {{'fifo_batch': (1, 64)}}, not {space!r}")
    if not space:
        raise IoschedError(f"the space is empty; {scheduler} has: {', '.join(tunables) or 'no tunables'}")
    ranges = {}
    for name, range_ in space.items():
        if name not in tunables:
            raise IoschedError(f"{scheduler} has no tunable {name}; it has: {', '.join(tunables) or 'none'}")
        least, most = tunables[name]["min"], tunables[name]["max"]
        if isinstance(range_, (str, bytes, Mapping, Set)) or not isinstance(range_, Iterable):
            raise IoschedError(f"{name}: a pair of the least and the most, or three values and more, not {range_!r}")
        values = [_integer(f"{scheduler}'s {name}", value) for value in range_]
        if len(values) < 2 or not all(least <= value <= most for value in values) or (len(values) == 2 and values[0] > values[1]):
            raise IoschedError(f"{name}: {range_!r} is no range within {least} to {most}")
        ranges[name] = values
    return ranges


def _suggested(trial: Any, name: str, range_: Range) -> int:
    if len(range_) == 2:
        least, most = range_
        return int(trial.suggest_int(name, least, most, log=least > 0 and most / least > 100))
    return int(trial.suggest_categorical(name, list(range_)))
