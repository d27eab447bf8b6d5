"""Thousands of recordings under schedulers over disk models: on this machine's processors, or on a Ray cluster.

A task is one recording under one scheduler over one disk. Its result is one Parquet file of one row group, whose name is the
task's digest and which appears as a whole: so a task that was interrupted, or done twice by a worker that was taken for dead,
counts once, and a sweep that is begun again does only what is missing.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import importlib
import inspect
import io
import itertools
import json
import multiprocessing
import os
import pickle
import re
import shutil
import socket
import sys
import tempfile
import uuid
from collections import deque
from concurrent.futures.process import BrokenProcessPool
from datetime import timedelta
from typing import Any, Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from . import Disk, IoschedError, Path, Scheduler, Trace, simulate
from ._iosched import __version__

#: Tasks that are handed out for each processor: enough that none waits, few enough that a list of millions is not held twice.
_AHEAD = 4
#: How often a task is given to another worker here before it is called failed: its worker was killed each time.
_MOST_DEATHS = 5
#: The same on a cluster, where a lost node counts, too.
_MOST_LOSSES = 20


@dataclasses.dataclass(frozen=True)
class Task:
    """One recording under one scheduler over one disk."""

    trace: Trace
    scheduler: str
    disk: Disk
    options: str  # JSON, of `simulate`

    @property
    def digest(self) -> str:
        """Names the task: the same for the same work, on any machine."""
        work = {
            "version": __version__,
            "trace": self.trace._request(),
            "scheduler": self.scheduler,
            "disk": self.disk._request(),
            "options": self.options,
        }
        return hashlib.sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Sweep:
    """What a sweep did: `done` tasks now, `before` those that were there when they were reached, `failed` those that cannot be
    done."""

    out: str
    done: int
    before: int
    failed: list[tuple[Task, str]]

    def read(self) -> pa.Table:
        """All rows of the dataset."""
        files, place = _file_system(self.out)
        # Whatever else somebody has put there is none of it.
        names = [name for name in files.find(place) if _OURS.search(name)]
        if not names:
            return pa.table({})
        try:
            return pq.read_table(sorted(names), filesystem=files)
        except (pa.ArrowException, OSError) as cause:
            raise _unreadable(files, place, cause) from None


#: A file of a task within a dataset.
_OURS = re.compile(r"/([0-9a-f]{2})/\1[0-9a-f]{62}\.parquet$")


def sweep(
    traces: Iterable[Trace | Path] | Trace | Path,
    schedulers: Iterable[Scheduler | str] | Scheduler | str,
    disks: Iterable[Disk | Path] | Disk | Path = ("hdd-7200",),
    *,
    out: Path,
    address: str | None = None,
    workers: int | None = None,
    progress: bool = False,
    **options: Any,
) -> Sweep:
    """Simulates each recording under each scheduler over each disk, and keeps the results as a Parquet dataset in `out`.

    Recordings and `out` are paths or addresses that fsspec knows (`s3://...`); what is not a local file is copied to the
    worker while it is needed. A directory stands for the recordings in it and below (of an object store where its address
    ends with `/`, or is all that is given), of blktrace's files for each CPU the first. `address` is a Ray cluster's ("auto" for the one that this machine belongs to); without one
    the tasks run in `workers` processes here. `options` are those of `simulate`, as `until` and `seed`.

    Begun again with the same arguments it goes on where it was; a recording counts by its name, whatever is in it. A task that
    is named twice is done once. No list of tasks is kept: before each it is asked whether its file is in `out`. Raises
    `IoschedError` for options and disks that no task can have; a recording that cannot be simulated is in `failed`, and the others go
    on.
    """
    # Each is gone through for every recording; recordings once, as they come.
    arms = [str(scheduler) for scheduler in _several(schedulers, (str, Scheduler))]
    models = [_rooted(disk) for disk in _several(disks, (str, os.PathLike, Disk))]
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise IoschedError(f"workers: a number from 1 on, not {workers!r}")
    given = _checked(options, arms)
    for model in models:
        # One that no task can have is said before any, too.
        simulate("random-read", model, "noop", until=1e-6)
    tasks = (
        Task(trace, scheduler, disk, given)
        for trace in _recordings(traces)
        for scheduler in arms
        for disk in models
    )
    out = _absolute(out)
    files, place = _file_system(out)
    try:
        files.makedirs(place, exist_ok=True)
    except OSError as cause:
        raise IoschedError(f"cannot make the directory {out}: {cause.strerror or cause}") from None
    before = 0
    # Of all tasks only those that have no file: they run now, or cannot be done.
    running: set[str] = set()
    refused: set[str] = set()

    def missing() -> Iterator[Task]:
        nonlocal before
        for task in tasks:
            name = task.digest
            if name in running or name in refused:
                continue
            if files.isfile(_file_of(place, task)):
                before += 1
                continue
            running.add(name)
            yield task

    run = _on_ray(address, out) if address is not None else _here(workers, out)
    done, failed = 0, []
    for task, error in run(missing()):
        if error is None and not files.isfile(_file_of(place, task)):
            error = f"its rows did not come to {out}: workers on other machines need a place that all share"
        running.discard(task.digest)
        if error is None:
            done += 1
        else:
            failed.append((task, error))
            refused.add(task.digest)
        if progress:
            print(f"\r{done} done, {before} before, {len(failed)} failed", end="", file=sys.stderr, flush=True)
    if progress:
        print(file=sys.stderr)
    return Sweep(out, done, before, failed)


def _several(given: Any, one: tuple[type, ...]) -> list[Any]:
    """What was given, as a list: one thing alone, too."""
    return [given] if isinstance(given, one) else list(given)


def _rooted(disk: Disk | Path) -> Disk:
    """A disk whose file is found from any directory."""
    disk = disk if isinstance(disk, Disk) else Disk(_named(disk))
    model = _named(disk.model)
    return dataclasses.replace(disk, model=os.path.abspath(model) if model.endswith(".toml") else model)


def _recordings(traces: Iterable[Trace | Path] | Trace | Path) -> Iterator[Trace]:
    """Each recording, those of a directory in its place."""
    is_one = isinstance(traces, (str, os.PathLike, Trace))
    for given in [traces] if is_one else traces:  # type: ignore[union-attr]
        trace = given if isinstance(given, Trace) else Trace(given)  # type: ignore[arg-type]
        path = _absolute(trace.path)
        # Of an object store that is a request: no list of recordings costs one for each.
        if ("://" in path and not is_one and not path.endswith("/")) or not _is_directory(path):
            yield dataclasses.replace(trace, path=path)
            continue
        for name in _below(path):
            yield dataclasses.replace(trace, path=name)


def _is_directory(path: str) -> bool:
    if "://" not in path:
        return os.path.isdir(path)
    files, place = _file_system(path)
    return bool(files.isdir(place))


#: The file of one CPU of several that blktrace wrote, which are one recording.
_OF_CPU = re.compile(r"(.*\.blktrace)\.[0-9]+$")


def _below(directory: str) -> Iterator[str]:
    """The recordings of a directory and those below it, in order, but none that is hidden."""
    files, place = _file_system(directory)
    for at, below, names in files.walk(place):
        below_here = sorted(name for name in below if not name.startswith("."))
        if isinstance(below, list):
            below[:] = below_here
        seen: set[str] = set()
        for name in sorted(names):
            of_cpu = _OF_CPU.match(name)
            recording = of_cpu[1] if of_cpu else name
            if name.startswith(".") or recording in seen:
                continue
            seen.add(recording)
            path = f"{at.rstrip('/')}/{name}"
            yield path if "://" not in directory else files.unstrip_protocol(path)


def _unreadable(files: Any, place: str, cause: Exception) -> IoschedError:
    """Which file of a dataset cannot be read."""
    for name in sorted(name for name in files.find(place) if name.endswith(".parquet")):
        try:
            with files.open(name, "rb") as file:
                pq.ParquetFile(file).read()
        except (pa.ArrowException, OSError) as why:
            error = IoschedError(f"{name} is damaged: {why}")
            error.hint = "remove it, and begin the sweep again, which makes it anew"
            return error
    return IoschedError(f"{place} cannot be read: {cause}")


_Results = Iterator["tuple[Task, str | None]"]


def _checked(options: dict[str, Any], schedulers: Sequence[str]) -> str:
    """The options of `simulate` as JSON, if it has them and one of the schedulers takes them."""
    own = ("load", "disk", "schedulers", "events")
    known = [name for name in inspect.signature(simulate).parameters if name not in own]
    for name in options:
        if name not in known:
            raise IoschedError(f"a sweep has no option {name}; there are: {', '.join(known)}")
    given: dict[str, Any] = {
        name: value.total_seconds() if isinstance(value, timedelta) else value for name, value in options.items()
    }
    # What is wrong with all tasks is said once.
    error: IoschedError | None = None
    for scheduler in schedulers:
        try:
            simulate("random-read", "null", scheduler, **{**given, "until": 1e-6})
            if "until" in given:
                simulate("random-read", "null", scheduler, **{**given, "until": min(given["until"], 1e-6)})
            return json.dumps(given, sort_keys=True)
        except (TypeError, ValueError, OverflowError) as cause:
            raise IoschedError(f"options of a sweep: {cause}") from None
        except IoschedError as cause:
            error = error or cause
    if error is not None:
        raise error
    return json.dumps(given, sort_keys=True)


def _named(place: Any) -> str:
    """A path or an address as text."""
    name = os.fspath(place) if isinstance(place, os.PathLike) else place
    if not isinstance(name, str):
        raise IoschedError(f"{place!r} is neither a path nor an address")
    return name


def _absolute(place: Path) -> str:
    """The same place from any directory: a local path from the root, an address as it is."""
    place = _named(place)
    return place if "://" in place else os.path.abspath(place)


def _file_of(place: str, task: Task) -> str:
    name = task.digest
    return f"{place}/{name[:2]}/{name}.parquet"


def _here(workers: int | None, out: str) -> Callable[[Iterator[Task]], _Results]:
    """Does tasks in processes of this machine. One that is killed is replaced, and its task done again."""

    def run(tasks: Iterator[Task]) -> _Results:
        count = workers or os.cpu_count() or 1
        again: deque[Task] = deque()
        deaths: dict[Task, int] = {}
        source = itertools.chain(tasks)
        is_over = False
        while not is_over or again:
            waiting: dict[concurrent.futures.Future[str | None], Task] = {}
            # Not spawned: that would run the caller's script again.
            with concurrent.futures.ProcessPoolExecutor(count, multiprocessing.get_context("fork")) as pool:
                try:
                    while True:
                        # After a death one at a time, so that it is known which task brings a worker down.
                        most = 1 if again else _AHEAD * count
                        while len(waiting) < most:
                            task = again.popleft() if again else next(source, None)
                            if task is None:
                                is_over = True
                                break
                            try:
                                waiting[pool.submit(_carry_out, task, out)] = task
                            except BrokenProcessPool:
                                again.append(task)
                                raise
                        if not waiting:
                            break
                        finished, _ = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
                        for future in finished:
                            try:
                                error = future.result()
                            except (pickle.PicklingError, AttributeError, TypeError) as cause:
                                error = f"it cannot be given to another process: {cause}"
                            # Not before: a task whose worker died is done again.
                            yield waiting.pop(future), error
                except BrokenProcessPool:
                    for task in waiting.values():
                        deaths[task] = deaths.get(task, 0) + (len(waiting) == 1)
                        if deaths[task] == _MOST_DEATHS:
                            yield task, f"its worker was killed {_MOST_DEATHS} times"
                        else:
                            again.append(task)
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise

    return run


def _on_ray(address: str, out: str) -> Callable[[Iterator[Task]], _Results]:
    """Does tasks on a cluster, which gives those of a node that is lost to another one."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise IoschedError("a cluster needs Ray, which is not installed: pip install 'ray[default]'") from None

    def run(tasks: Iterator[Task]) -> _Results:
        if ray.is_initialized():
            _check_cluster(ray, address)
        else:
            try:
                _reach(address)
                ray.init(address=address, log_to_driver=False)
            except Exception as cause:
                raise IoschedError(f"no Ray cluster answers at {address}: {cause}") from None
        work = ray.remote(max_retries=_MOST_LOSSES)(_carry_out)
        waiting: dict[Any, Task] = {}
        most = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        for task in tasks:
            waiting[work.remote(task, out)] = task
            while len(waiting) >= most:
                yield _next_of(ray, waiting)
        while waiting:
            yield _next_of(ray, waiting)

    return run


def _check_cluster(ray: Any, address: str) -> None:
    """Fails if this process belongs to another cluster already: Ray has one at a time."""
    if address == "auto":
        return
    there = str(ray.get_runtime_context().gcs_address)
    if _socket_of(address.rpartition("://")[2]) != _socket_of(there):
        error = IoschedError(f"this process is connected to the Ray cluster at {there} already, and not to {address}")
        error.hint = 'call ray.shutdown() before, or give address="auto" for the cluster that it is connected to'
        raise error


def _socket_of(address: str) -> tuple[str, str]:
    """A host by its number, and the port."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        host = socket.gethostbyname(host)
    return host, port


def _reach(address: str) -> None:
    """Fails if nobody listens there, of which Ray itself says nothing for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdecimal():
        socket.create_connection((host or "127.0.0.1", int(port)), timeout=30).close()


def _next_of(ray: Any, waiting: dict[Any, Task]) -> tuple[Task, str | None]:
    [reference], _ = ray.wait(list(waiting), num_returns=1)
    task = waiting.pop(reference)
    try:
        return task, ray.get(reference)
    except ray.exceptions.RayError as cause:
        # What went wrong in the task itself, and not the way that it came.
        return task, str(getattr(cause, "cause", None) or cause)


def _carry_out(task: Task, out: str) -> str | None:
    """Does a task and keeps its rows; what is wrong with it, if anything. Can be done any number of times."""
    try:
        with _local(task.trace) as trace:
            simulated = simulate(trace, task.disk, [task.scheduler], **json.loads(task.options))
    except (IoschedError, OSError) as cause:
        return str(cause)
    table = simulated.table
    size = table.num_rows
    name = task.digest
    settings = {"trace": task.trace._request(), "disk": task.disk._request(), "options": json.loads(task.options)}
    for column, value in (
        ("seed", simulated["seed"]),
        ("disk", os.fspath(task.disk.model)),
        ("trace", os.fspath(task.trace.path)),
        ("settings", json.dumps(settings, sort_keys=True)),
        ("task", name),
    ):
        table = table.add_column(0, column, [pa.array([value] * size)])
    contents = io.BytesIO()
    pq.write_table(table, contents, row_group_size=max(size, 1))
    try:
        _keep(contents.getvalue(), task, out)
    except OSError as cause:
        # The next task has no more room than this one.
        raise IoschedError(f"cannot write to {out}: {cause.strerror or cause}") from None
    return None


def _keep(contents: bytes, task: Task, out: str) -> None:
    """Puts the rows of a task into the dataset, as a whole."""
    files, place = _file_system(out)
    final = _file_of(place, task)
    directory = os.path.dirname(final)
    files.makedirs(directory, exist_ok=True)
    # Elsewhere than in a directory of ours an object appears as a whole by itself.
    if "file" not in _protocols(files):
        files.pipe_file(final, contents)
        return
    new = f"{directory}/.{task.digest}.{uuid.uuid4().hex}"
    try:
        with open(new, "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, final)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


@contextlib.contextmanager
def _local(trace: Trace) -> Iterator[Trace]:
    """The recording as a local file, for as long as it is needed."""
    files, place = _file_system(os.fspath(trace.path))
    if "file" in _protocols(files):
        yield dataclasses.replace(trace, path=place)
        return
    with tempfile.TemporaryDirectory(prefix="iosched-") as directory:
        copy = os.path.join(directory, os.path.basename(place))
        with files.open(place, "rb") as source, open(copy, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        yield dataclasses.replace(trace, path=copy)


def _protocols(files: Any) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)


def _file_system(address: str) -> tuple[Any, str]:
    try:
        fsspec: Any = importlib.import_module("fsspec")
    except ImportError:
        raise IoschedError("a sweep needs fsspec, which is not installed: pip install fsspec") from None
    try:
        files, place = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as cause:
        raise IoschedError(f"{address}: {cause}") from None
    return files, place.rstrip("/")
