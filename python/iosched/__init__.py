"""Linux I/O schedulers simulated over disk models, recordings of kernels followed, traces and records read as Arrow tables.

    >>> import iosched
    >>> simulated = iosched.simulate("random-read", iosched.Disk("hdd-7200"), ["noop", iosched.Scheduler("cfq", slice_idle=0)])
    >>> simulated.table.to_pandas()[["scheduler", "process", "iops", "latency_p99_ns"]]

Times in results are nanoseconds, sizes bytes, as in the command's JSON. What cannot be done raises `IoschedError`, whose
`hint` is the way out. Other threads of Python run meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
import operator
import os
import tempfile
from datetime import timedelta
from typing import Any, Iterable, Iterator, Mapping, Sequence, Union

import pyarrow as pa
import pyarrow.csv as pa_csv

from . import _iosched
from ._error import IoschedError
from ._evidence import convert_evidence, read_evidence
from ._iosched import __version__

__all__ = [
    "Confirmed",
    "Conformance",
    "Disk",
    "Found",
    "IoschedError",
    "Measured",
    "Record",
    "Scheduler",
    "Search",
    "Simulated",
    "Sweep",
    "Task",
    "Trace",
    "conform",
    "convert_evidence",
    "disk_models",
    "open_trace",
    "read_evidence",
    "read_record",
    "read_trace",
    "schedulers",
    "search",
    "simulate",
    "sweep",
]

Path = Union[str, "os.PathLike[str]"]
#: Seconds, or a timedelta.
Time = Union[float, timedelta]
#: Bytes, or text as "32G" (powers of 1024).
Size = Union[int, str]


def _place(of: str, place: Any) -> str:
    """A path as text, whatever bytes its name has."""
    if not isinstance(place, (str, bytes, os.PathLike)):
        raise IoschedError(f"{of} is a name or a path, not {place!r}")
    name = os.fsdecode(place)
    if not name:
        raise IoschedError(f"{of} is a name or a path, not an empty one")
    return name


def _path(of: str, place: Any) -> str:
    """A path, or an address, as text that JSON can hold."""
    path = _place(of, place)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise IoschedError(f"{of}: the name {path!r} is no UTF-8") from None
    return path


def _text(of: str, text: Any) -> str | None:
    if text is not None and not isinstance(text, str):
        raise IoschedError(f"{of} is a text, not {text!r}")
    return text


def _flag(of: str, value: Any) -> bool | None:
    """True or False, whoever's type it is (numpy has its own)."""
    if value is None:
        return None
    if isinstance(value, str) or str(value) not in ("True", "False"):
        raise IoschedError(f"{of} is True or False, not {value!r}")
    return bool(value)


def _size(of: str, size: Size | None) -> int | None:
    if size is None:
        return None
    return _iosched.parse_size(size) if isinstance(size, str) else _whole(of, size, 0, _MOST)


def _number(of: str, unit: str, value: Any) -> float:
    """A finite number, which no text is read as."""
    try:
        number = math.nan if isinstance(value, (str, bytes, bytearray)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise IoschedError(f"{of} is a number of {unit}, not {value!r}")
    return number


def _seconds(of: str, time: Time | None) -> float | None:
    if time is None:
        return None
    seconds = time.total_seconds() if isinstance(time, timedelta) else _number(of, "seconds or a timedelta", time)
    if not 0 < seconds < 1e9:
        raise IoschedError(f"{of}: {seconds:g} s is not above 0 and below 30 years")
    return seconds


def _integer(of: str, value: Any) -> int:
    """A whole number, which no fraction is rounded to."""
    try:
        return operator.index(value)
    except TypeError:
        raise IoschedError(f"{of} is a whole number, not {value!r}") from None


#: What 64 bits hold.
_MOST = (1 << 64) - 1


def _whole(of: str, value: Any, least: int, most: int) -> int | None:
    """A whole number within the range that the command has for it."""
    if value is None:
        return None
    number = _integer(of, value)
    if not least <= number <= most:
        at_most = f"from {least} to {most}" if most < 1 << 32 else f"from {least} on"
        raise IoschedError(f"{of} is a whole number {at_most}, not {number}")
    return number


def _memory(memory: Size | None) -> int | None:
    size = _size("memory", memory)
    if size is not None and not 1 << 20 <= size <= 1 << 50:
        raise IoschedError("memory: a machine has between 1M and 1024T")
    return size


def _several(of: str, given: Any, one: tuple[type, ...]) -> list[Any]:
    """What was given, as a list: one thing alone, too."""
    if isinstance(given, one):
        return [given]
    try:
        return list(given)
    except TypeError:
        raise IoschedError(f"{of}: one or a list of them, not {given!r}") from None


def _arms(given: Any) -> list[str]:
    """Schedulers with their tunables, as the command takes them."""
    arms = _several("schedulers", given, (str, Scheduler))
    for arm in arms:
        if not isinstance(arm, (str, Scheduler)):
            raise IoschedError(f"a scheduler is a name or a Scheduler, not {arm!r}")
    return [str(arm) for arm in arms]


def _disk(given: Any) -> Disk:
    return given if isinstance(given, Disk) else Disk("hdd-7200" if given is None else given)


@dataclasses.dataclass(frozen=True)
class Disk:
    """A disk model, and how the disk departs from it.

    `model` is one of `disk_models()`, or a `.toml` file of your own. `size` is in bytes or as "32G"; `order` is "fifo" or
    "shortest-access-first"; `slow_down` lets all that the disk does take so many times as long.
    """

    model: Path = "hdd-7200"
    size: Size | None = None
    queue_depth: int | None = None
    order: str | None = None
    write_cache: bool | None = None
    slow_down: int | None = None

    def _request(self) -> dict[str, Any]:
        return {
            "model": _path("disk", self.model),
            "size_bytes": _size("size", self.size),
            "queue_depth": _whole("queue_depth", self.queue_depth, 1, 65536),
            "order": _text("order", self.order),
            "write_cache": _flag("write_cache", self.write_cache),
            "slow_down": _whole("slow_down", self.slow_down, 1, (1 << 32) - 1),
        }


class Scheduler:
    """A scheduler with tunables: `Scheduler("cfq", slice_idle=0)`. Those left out have the kernel's defaults."""

    def __init__(self, name: str, **tunables: int) -> None:
        if not isinstance(name, str):
            raise IoschedError(f"a scheduler's name is a text, not {name!r}")
        for tunable in tunables:
            # As a text, which is how they go to the simulator, it would be something else.
            if not tunable or set(tunable) & set("=,:"):
                raise IoschedError(f"{name} has no tunable {tunable!r}")
        self.name = name
        self.tunables = {tunable: _integer(f"{name}'s {tunable}", value) for tunable, value in tunables.items()}

    def __str__(self) -> str:
        values = ",".join(f"{name}={value}" for name, value in self.tunables.items())
        return f"{self.name}:{values}" if values else self.name

    def __repr__(self) -> str:
        values = "".join(f", {name}={value}" for name, value in self.tunables.items())
        return f"Scheduler({self.name!r}{values})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scheduler) and (self.name, self.tunables) == (other.name, other.tunables)

    def __hash__(self) -> int:
        return hash((self.name, *sorted(self.tunables.items())))


@dataclasses.dataclass(frozen=True)
class Trace:
    """A recording as a load: each access at its time, or in closed loops, in which each process waits for what it waited
    for when it was recorded. `speed` divides the times between accesses; `wrap` folds what lies beyond the disk's end."""

    path: Path
    format: str | None = None
    device: str | None = None
    wrap: bool = False
    closed: bool = False
    speed: float | None = None

    def _request(self) -> dict[str, Any]:
        speed = None if self.speed is None else _number("speed", "times", self.speed)
        if speed is not None and not 1e-6 <= speed <= 1e6:
            raise IoschedError(f"speed is a number from 0.000001 to 1000000, not {self.speed!r}")
        if self.closed and speed is not None:
            raise IoschedError("closed loops have no speed: give one of them")
        return {
            "path": _path("trace", self.path),
            "format": _text("format", self.format),
            "device": _text("device", self.device),
            "wrap": _flag("wrap", self.wrap),
            "closed": _flag("closed", self.closed),
            "speed": speed,
        }


class _Wrapped:
    """What the command prints as JSON."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._value = value

    def to_dict(self) -> dict[str, Any]:
        """All of it, as the command's `--json` has it."""
        return dict(self._value)

    def __getitem__(self, name: str) -> Any:
        return self._value[name]


class Simulated(_Wrapped):
    """What `simulate` found."""

    @property
    def table(self) -> pa.Table:
        """A row for each scheduler and process, and one for all processes together (`process` is "all")."""
        rows = []
        for run in self._value["runs"]:
            shares = list(run["processes"])
            if len(shares) != 1 or shares[0]["name"] != "all":
                shares.append({**run["total"], "name": "all"})
            for share in shares:
                rows.append({"scheduler": run["scheduler"], "process": share["name"], **_numbers(share)})
        return pa.Table.from_pylist(rows, schema=_SHARES)

    @property
    def runs(self) -> pa.Table:
        """A row for each scheduler: what the disk did."""
        names = ("commands", "mean_seek_sectors", "sequential_share", "disk_idle_ns", "fairness", "elapsed_ns", "held_back_ns")
        rows = [{"scheduler": run["scheduler"], **{name: run[name] for name in names}} for run in self._value["runs"]]
        return pa.Table.from_pylist(rows, schema=_RUNS)

    def __repr__(self) -> str:
        runs = ", ".join(f"{run['scheduler']} {run['total']['iops']:.1f} IOPS" for run in self._value["runs"])
        return f"<Simulated {self['load']} over {self['disk']}: {runs}>"


_TIMES = ("latency", "before_queue_time", "queue_time", "service_time", "sync_latency")
_QUANTILES = ("mean", "p50", "p99", "p999", "max")
_SHARES = pa.schema(
    [("scheduler", pa.string()), ("process", pa.string()), ("accesses", pa.int64()), ("iops", pa.float64()),
     ("bytes_per_second", pa.float64()), ("syncs", pa.int64())]
    + [(f"{of.removesuffix('_time')}_{quantile}_ns", pa.int64())
       for of in _TIMES for quantile in _QUANTILES]
)  # fmt: skip
_RUNS = pa.schema(
    [("scheduler", pa.string()), ("commands", pa.int64()), ("mean_seek_sectors", pa.float64()),
     ("sequential_share", pa.float64()), ("disk_idle_ns", pa.int64()), ("fairness", pa.float64()),
     ("elapsed_ns", pa.int64()), ("held_back_ns", pa.int64())]
)  # fmt: skip
_EVENTS = pa.schema(
    [("recording", pa.string()), ("time_ns", pa.int64()), ("stage", pa.string()), ("op", pa.string()), ("sync", pa.bool_()),
     ("sector", pa.int64()), ("sectors", pa.int64()), ("device", pa.string()), ("process", pa.int32()),
     ("process_name", pa.string()), ("response_ns", pa.int64())]
)  # fmt: skip
_TRIALS = pa.schema(
    [("record", pa.string()), ("load", pa.string()), ("arm", pa.string()), ("round", pa.int32()), ("trial", pa.int32()),
     ("started_unix_s", pa.float64()), ("worker", pa.string()), ("metric", pa.string()), ("unit", pa.string()),
     ("value", pa.float64())]
)  # fmt: skip


def _columns(schema: pa.Schema) -> pa_csv.ConvertOptions:
    """CSV as these columns; an empty text stays one."""
    return pa_csv.ConvertOptions(column_types=schema, true_values=["true"], false_values=["false"])


def _numbers(share: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {name: share[name] for name in ("accesses", "iops", "bytes_per_second", "syncs")}
    for of in _TIMES:
        for quantile in _QUANTILES:
            numbers[f"{of.removesuffix('_time')}_{quantile}_ns"] = share[of][f"{quantile}_ns"]
    return numbers


class Conformance(_Wrapped):
    """How well our scheduler agrees with one recording."""

    @property
    def agreement(self) -> float | None:
        """The share of the recorded decisions that ours made, too; None of no decision."""
        agreement: float | None = self._value["agreement"]
        return agreement

    def __repr__(self) -> str:
        return f"<Conformance {self['trace']}: {self['scheduler']} agrees on {self['agreed']} of {self['decisions']} decisions>"


@dataclasses.dataclass(frozen=True)
class Record:
    """What `iosched tune` measured: `header` (machine and plan), `analysis` (as `iosched report --json`), and `trials`, an
    Arrow table of a row for each trial and metric."""

    header: dict[str, Any]
    analysis: dict[str, Any]
    trials: pa.Table


def disk_models() -> list[str]:
    """The names of the disk models."""
    return [model["name"] for model in json.loads(_iosched.disk_models())]


def schedulers() -> list[dict[str, Any]]:
    """The schedulers that can be simulated, each with its tunables: name, unit, default, min, max."""
    infos: list[dict[str, Any]] = json.loads(_iosched.scheduler_infos())
    return infos


def simulate(
    load: str | Trace | Path = "random-read",
    disk: Disk | str | None = None,
    schedulers: Sequence[Scheduler | str] | Scheduler | str = (),
    *,
    until: Time | None = None,
    seed: int = 0,
    initial: str | None = None,
    device_limit: int | None = None,
    nr_requests: int | None = None,
    max_sectors_kb: int | None = None,
    hz: int | None = None,
    tick_phase_us: float = 0.0,
    scsi: bool = False,
    cpus: int | None = None,
    hardware_queues: int | None = None,
    wbt_lat: Time | None = None,
    memory: Size | None = None,
    dirty_ratio: int | None = None,
    dirty_background_ratio: int | None = None,
    events: Path | None = None,
) -> Simulated:
    """Runs a load under schedulers over a disk model in virtual time: all of them where none is named.

    `load` is a built-in load, a fio job file, or a `Trace`. The options are those of `iosched simulate`, where `until` and
    `wbt_lat` are seconds or timedeltas. `events` is a new file for every event, for one scheduler.
    """
    options = _options(
        until=until,
        seed=seed,
        initial=initial,
        device_limit=device_limit,
        nr_requests=nr_requests,
        max_sectors_kb=max_sectors_kb,
        hz=hz,
        tick_phase_us=tick_phase_us,
        scsi=scsi,
        cpus=cpus,
        hardware_queues=hardware_queues,
        wbt_lat=wbt_lat,
        memory=memory,
        dirty_ratio=dirty_ratio,
        dirty_background_ratio=dirty_background_ratio,
    )
    if events is not None:
        options["events"] = _path("events", events)
    return _simulated(load, _disk(disk), _arms(schedulers), options)


def _options(
    *,
    until: Any,
    seed: Any,
    initial: Any,
    device_limit: Any,
    nr_requests: Any,
    max_sectors_kb: Any,
    hz: Any,
    tick_phase_us: Any,
    scsi: Any,
    cpus: Any,
    hardware_queues: Any,
    wbt_lat: Any,
    memory: Any,
    dirty_ratio: Any,
    dirty_background_ratio: Any,
) -> dict[str, Any]:
    """The options of a simulation as they are asked for, the same for the same however it was written."""
    options = {
        "initial": _text("initial", initial),
        "device_limit": _whole("device_limit", device_limit, 1, 4096),
        "nr_requests": _whole("nr_requests", nr_requests, 0, _MOST),
        "max_sectors_kb": _whole("max_sectors_kb", max_sectors_kb, 4, 1 << 20),
        "hz": _whole("hz", hz, 100, 1000),
        "tick_phase_us": _number("tick_phase_us", "microseconds", tick_phase_us),
        "scsi": _flag("scsi", scsi),
        "cpus": _whole("cpus", cpus, 1, 1024),
        "hardware_queues": _whole("hardware_queues", hardware_queues, 1, 1024),
        "wbt_lat_seconds": _seconds("wbt_lat", wbt_lat),
        "memory_bytes": _memory(memory),
        "dirty_ratio": _whole("dirty_ratio", dirty_ratio, 0, 100),
        "dirty_background_ratio": _whole("dirty_background_ratio", dirty_background_ratio, 0, 100),
        "seed": _whole("seed", seed, 0, _MOST),
        "until_seconds": _seconds("until", until),
    }
    return {name: value for name, value in options.items() if value is not None}


def _simulated(load: Any, disk: Disk, arms: Sequence[str], options: Mapping[str, Any]) -> Simulated:
    """Runs what was asked for."""
    for name in ("seed", "tick_phase_us", "scsi"):
        if name not in options:
            raise IoschedError(f"{name} is None: leave it out for the default")
    request = {
        **options,
        "disk": disk._request(),
        "schedulers": list(arms),
        "load": None if isinstance(load, Trace) else _path("load", load),
        "trace": load._request() if isinstance(load, Trace) else None,
    }
    return Simulated(json.loads(_iosched.simulate(json.dumps(request))))


def conform(
    recordings: Path | Iterable[Path],
    scheduler: Scheduler | str | None = None,
    *,
    queue_depth: int | None = None,
    hz: int | None = None,
    tick_phase_us: float | None = None,
    tunables: Path | None = None,
    initial: str | None = None,
    non_rotational: bool = False,
) -> list[Conformance]:
    """Follows recordings of a kernel's scheduler, or folders of them, decision by decision, as `iosched conform` does.

    Raises `IoschedError` if one cannot be followed: its message names the first such, and `failures` has all.
    """
    paths = [_place("a recording", path) for path in _several("recordings", recordings, (str, bytes, os.PathLike))]
    if not paths:
        raise IoschedError("no recording is named")
    followed, failures = _iosched.conform_all(
        paths,
        None if scheduler is None else _arms([scheduler])[0],
        _whole("queue_depth", queue_depth, 1, 65536),
        _whole("hz", hz, 1, 1000),
        None if tick_phase_us is None else _number("tick_phase_us", "microseconds", tick_phase_us),
        None if tunables is None else _place("tunables", tunables),
        _text("initial", initial),
        bool(_flag("non_rotational", non_rotational)),
    )
    if failures:
        raise IoschedError(*failures[0], [message for message, _ in failures])
    return [Conformance(one) for one in json.loads(followed)]


@contextlib.contextmanager
def open_trace(path: Path) -> Iterator[pa.RecordBatchReader]:
    """The events of a recording in batches: memory does not grow with it, a temporary file does.

    >>> with iosched.open_trace("sda.blktrace.0") as batches:
    ...     for batch in batches: ...
    """
    name = _place("a recording", path)
    with tempfile.TemporaryDirectory(prefix="iosched-") as directory:
        csv = os.path.join(directory, "events.csv")
        _iosched.trace_to_csv(name, csv)
        with pa_csv.open_csv(csv, convert_options=_columns(_EVENTS)) as batches:
            yield batches


def read_trace(path: Path) -> pa.Table:
    """The events of a recording (blktrace, blkparse, text of the kernel's events, fio iolog, MSR, our own; compressed or not): the columns
    of results/fleet.md, among them time_ns, stage, op, sector, sectors, device, process."""
    with open_trace(path) as batches:
        return batches.read_all()


def read_record(directory: Path) -> Record:
    """What `iosched tune` left in a results directory."""
    header, analysis, trials = _iosched.record_parts(_place("a record", directory))
    table = pa_csv.read_csv(io.BytesIO(trials.encode()), convert_options=_columns(_TRIALS))
    return Record(json.loads(header), json.loads(analysis), table)


# They stand on what is above.
from ._search import Confirmed, Found, Measured, Search, search  # noqa: E402
from ._sweep import Sweep, Task, sweep  # noqa: E402
