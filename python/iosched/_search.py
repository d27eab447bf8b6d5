"""Tunables searched in simulation, by Optuna; the best few measured again with chance that the search has not seen.

The best of many trials looks better than it is: it was chosen for its luck, too (the winner's curse). So what is told of a
setting is the ratio to the defaults under fresh seeds, beside the one under which it was found.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import Any, Callable, Mapping, Sequence, Union

from . import Disk, IoschedError, Path, Scheduler, Simulated, Time, Trace, schedulers, simulate

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

    def command(self, device: str) -> str:
        """The command that measures these settings and the defaults on a real disk."""
        arms = ",".join(dict.fromkeys([self.best[0].scheduler.name, *(str(found.scheduler) for found in self.best)]))
        return f"iosched tune {device} --arms {arms}"


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
        raise IoschedError("a search needs Optuna, which is not installed: pip install 'iosched[search]'") from None
    _check(scheduler, space, trials, best, fresh)
    if isinstance(objective, str) and objective not in _OBJECTIVES:
        raise IoschedError(f"no objective is called {objective}; there are: {', '.join(_OBJECTIVES)}, or a function")
    value = _OBJECTIVES[objective] if isinstance(objective, str) else objective

    def of(setting: Scheduler, seed: int) -> float:
        found = float(value(simulate(load, disk, setting, until=until, seed=seed, **options)))
        if not 0 < found < math.inf:
            raise IoschedError(f"the objective of {setting} is {found}: ratios need one above 0, of which more is better")
        return found

    defaults = Scheduler(scheduler)
    at_defaults = of(defaults, seed)
    values: dict[Scheduler, float] = {}

    def tried(trial: Any) -> float:
        tunables = {name: _suggested(trial, name, range_) for name, range_ in space.items()}
        setting = Scheduler(scheduler, **tunables)
        if setting not in values:
            values[setting] = of(setting, seed)
        return values[setting]

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
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
    return Search(name, len(values), sorted(found, key=lambda one: one.ratio, reverse=True))


def _check(scheduler: str, space: Mapping[str, Range], trials: int, best: int, fresh: int) -> None:
    known = {info["name"]: info["tunables"] for info in schedulers()}
    if scheduler not in known:
        raise IoschedError(f"no scheduler is called {scheduler}; there are: {', '.join(known)}")
    tunables = {tunable["name"]: tunable for tunable in known[scheduler]}
    if not space:
        raise IoschedError(f"the space is empty; {scheduler} has: {', '.join(tunables) or 'no tunables'}")
    for name, range_ in space.items():
        if name not in tunables:
            raise IoschedError(f"{scheduler} has no tunable {name}; it has: {', '.join(tunables) or 'none'}")
        least, most = tunables[name]["min"], tunables[name]["max"]
        if len(range_) < 2 or not all(least <= value <= most for value in range_) or (len(range_) == 2 and range_[0] > range_[1]):
            raise IoschedError(f"{name}: {range_!r} is no range within {least} to {most}")
    for what, count in (("trials", trials), ("best", best), ("fresh", fresh)):
        if count < 1:
            raise IoschedError(f"{what}: at least 1, not {count}")


def _suggested(trial: Any, name: str, range_: Range) -> int:
    if len(range_) == 2:
        least, most = range_
        return int(trial.suggest_int(name, least, most, log=least > 0 and most / least > 100))
    return int(trial.suggest_categorical(name, list(range_)))
