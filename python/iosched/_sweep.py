"""Thousands of recordings under schedulers over disk models, on this machine's processors.

A task is one recording under one scheduler over one disk. Its result is one Parquet file of one row group, whose name is the
task's digest and which appears as a whole: so a task that was interrupted, or done twice by a worker that was taken for dead,
counts once, and a sweep that is begun again does only what is missing. A file says of which content of the recording and of the
disk model it was made: where that is another now, the task is done again and takes its place.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
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
import signal
import stat
import sys
import tempfile
import uuid
from collections import deque
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, Iterable, Iterator, NoReturn, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from . import Disk, IoschedError, Path, Scheduler, Trace, _arms, _disk, _options, _path, _place, _several, _simulated, simulate
from ._iosched import __version__

#: Tasks that are handed out for each processor: enough that none waits, few enough that a list of millions is not held twice.
_AHEAD = 4
#: How often a task is given to another worker here before it is called failed: its worker was killed each time.
_MOST_DEATHS = 5

#: What rows were made of, in the metadata of their file.
_CONTENTS = b"iosched.contents"


@dataclasses.dataclass(frozen=True)
class Task:
    """One recording under one scheduler over one disk."""

    trace: Trace
    scheduler: str
    disk: Disk
    options: str  # JSON, of what is asked of a simulation
    #: JSON: digests of what stood in the recording, and in a disk model of one's own.
    contents: str = ""

    @property
    def digest(self) -> str:
        """Names the task: the same for the same work, on any machine, whatever the contents are."""
        name, _, tunables = self.scheduler.partition(":")
        work = {
            "version": __version__,
            "trace": self.trace._request(),
            "scheduler": f"{name}:{','.join(sorted(tunables.split(',')))}",
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
            # Of the metadata there are those of one file alone.
            table = pq.read_table(sorted(names), filesystem=files, page_checksum_verification=True)
            return table.replace_schema_metadata(None)
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
    workers: int | None = None,
    progress: bool = False,
    **options: Any,
) -> Sweep:
    """Simulates each recording under each scheduler over each disk, and keeps the results as a Parquet dataset in `out`.

    Recordings and `out` are paths or addresses that fsspec knows (`s3://...`); what is not a local file is copied to the
    worker while it is needed. A directory stands for the recordings in it and below (of an object store where its address
    ends with `/`, or is all that is given), of blktrace's files for each CPU the first. The tasks run in `workers`
    processes. `options` are those of `simulate`, as `until` and `seed`.

    Begun again with the same arguments it goes on where it was: what is in a recording and in a disk's `.toml` file counts,
    and where that has changed, its tasks are done again and take the place of the old. A task that is named twice is done
    once. No list of tasks is kept: before each its file in `out` is looked for. Raises `IoschedError` for options and disks
    that no task can have; a recording that cannot be simulated is in `failed`, and the others go on.
    """
    # Each is gone through for every recording; recordings once, as they come.
    arms = _arms(schedulers)
    models = [_rooted(disk) for disk in _several("disks", disks, (str, bytes, os.PathLike, Disk))]
    for of, given in (("schedulers", arms), ("disks", models)):
        if not given:
            raise IoschedError(f"{of}: none is named")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise IoschedError(f"workers: a number from 1 on, not {workers!r}")
    asked = _checked(options, arms)
    for model in models:
        # One that no task can have is said before any, too.
        simulate("random-read", model, "noop", until=1e-6)
    tasks = _tasks(_recordings(traces), arms, models, asked)
    out = _absolute("out", out)
    files, place = _file_system(out)
    try:
        files.makedirs(place, exist_ok=True)
    except OSError as cause:
        raise IoschedError(f"cannot make the directory {out}: {cause.strerror or cause}") from None
    done, before = 0, 0
    failed: list[tuple[Task, str]] = []
    # Of all tasks only those that have no file: they run now, or cannot be done.
    running: set[str] = set()
    refused: set[str] = set()

    def missing() -> Iterator[Task]:
        nonlocal before
        for task in tasks:
            try:
                name = task.digest
            except IoschedError as cause:
                failed.append((task, str(cause)))
                continue
            if name in running or name in refused:
                continue
            if _made_of(files, _file_of(place, task)) == task.contents:
                before += 1
                continue
            running.add(name)
            yield task

    for task, error in _here(workers, out)(missing()):
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
    _remove_unfinished(files, place, refused)
    return Sweep(out, done, before, failed)


def _tasks(traces: Iterator[Trace], arms: Sequence[str], disks: Sequence[Disk], options: dict[str, Any]) -> Iterator[Task]:
    given = json.dumps(options, sort_keys=True)
    # They are read once: an edit in the middle of a sweep is an error of the tasks that come after it.
    of_disks = [(disk, _of_model(disk)) for disk in disks]
    for trace in traces:
        of_trace = _of_recording(trace)
        for scheduler in arms:
            for disk, of_disk in of_disks:
                yield Task(trace, scheduler, disk, given, _joined(of_trace, of_disk))


def _joined(trace: str, disk: str) -> str:
    return json.dumps({"trace": trace, "disk": disk})


def _now_in(task: Task) -> str:
    return _joined(_of_recording(task.trace), _of_model(task.disk))


def _of_file(path: str) -> str:
    """A digest of what is in a file; empty without one that can be read, of which the simulator says why."""
    digest = hashlib.sha256()
    try:
        # What is no regular file may never end.
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except (OSError, ValueError):
        return ""
    return digest.hexdigest()


def _of_recording(trace: Trace) -> str:
    """What is in a recording: of local files their contents, of objects in a store what that says of theirs."""
    try:
        files, place = _file_system(_path("trace", trace.path))
        names = _files_of(files, place)
        if "file" in _protocols(files):
            found = [_of_file(name) for name in names]
        else:
            found = [_of_object(files.info(name)) for name in names]
    except Exception:  # whatever a store raises: the worker says why
        return ""
    return found[0] if len(found) == 1 else hashlib.sha256(json.dumps(found).encode()).hexdigest()


#: What stores call the digest or the version of an object; and its time, where they have neither.
_DIGESTS = ("ETag", "etag", "md5Hash", "content_md5", "md5", "crc32c", "checksum", "version_id", "generation")
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")


def _of_object(info: dict[str, Any]) -> str:
    size = info.get("size")
    for names in (_DIGESTS, _TIMES):
        known = [f"{name}={info[name]}" for name in names if info.get(name) is not None]
        if known:
            return f"{known[0]} size={size}"
    return f"size={size}"


def _is_model_file(model: str) -> bool:
    """As the simulator tells the file of a model from the name of one."""
    return model.endswith(".toml") or "/" in model


def _of_model(disk: Disk) -> str:
    model = _path("disk", disk.model)
    return _of_file(model) if _is_model_file(model) else ""


def _made_of(files: Any, name: str) -> str | None:
    """What the rows in a file were made of; None where there is none that can be read."""
    try:
        if "file" in _protocols(files):
            # A FIFO would be waited for.
            if not os.path.isfile(name):
                return None
            # No file of Python's: where one is closed from outside of Python, Ctrl-C is lost.
            source = pa.OSFile(os.fsencode(name))
        else:
            source = pa.BufferReader(files.cat_file(name))
        with source:
            metadata = pq.read_metadata(source).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    return str(metadata.get(_CONTENTS, b"").decode(errors="replace"))


def _rooted(disk: Disk | Path) -> Disk:
    """A disk whose file is found from any directory."""
    disk = _disk(disk)
    model = _path("disk", disk.model)
    return dataclasses.replace(disk, model=os.path.abspath(model) if _is_model_file(model) else model)


def _recordings(traces: Iterable[Trace | Path] | Trace | Path) -> Iterator[Trace]:
    """Each recording, those of a directory in its place."""
    is_one = isinstance(traces, (str, bytes, os.PathLike, Trace))
    try:
        several: Iterator[Any] = iter([traces] if is_one else traces)  # type: ignore[arg-type]
    except TypeError:
        raise IoschedError(f"traces: one or several of them, not {traces!r}") from None
    return _each_recording(several, is_one)


def _each_recording(several: Iterator[Trace | Path], is_one: bool) -> Iterator[Trace]:
    for given in several:
        trace = given if isinstance(given, Trace) else Trace(given)
        path = _absolute("trace", trace.path)
        dataclasses.replace(trace, path="any")._request()  # what of it cannot be is said here; a bad name fails alone
        # Of an object store that is a request: no list of recordings costs one for each.
        if ("://" in path and not is_one and not path.endswith("/")) or not _is_directory(path):
            yield dataclasses.replace(trace, path=path)
            continue
        name = None
        for name in _below(path):
            yield dataclasses.replace(trace, path=name)
        if name is None and is_one:
            raise IoschedError(f"there is no recording in {path}")


def _is_directory(path: str) -> bool:
    if "://" not in path:
        return os.path.isdir(path)
    files, place = _file_system(path)
    return bool(files.isdir(place))


#: The file of one CPU of several that blktrace wrote, which are one recording: those with this beginning and end.
_OF_CPU = re.compile(r"(.*\.blktrace)\.[0-9]+(\.gz|\.zst)?$")


def _files_of(files: Any, place: str) -> list[str]:
    """The files of a recording: blktrace's are one for each CPU, and their common beginning names them, too."""
    directory, _, name = place.rpartition("/")
    of_cpu = _OF_CPU.match(name)
    if of_cpu is None and files.exists(place):
        return [place]
    beginning, end = (of_cpu[1], of_cpu[2]) if of_cpu else (f"{name}.blktrace", None)
    found = []
    for other in files.ls(directory or "/", detail=False):
        match = _OF_CPU.match(other.rstrip("/").rpartition("/")[2])
        if match and (match[1], match[2]) == (beginning, end):
            found.append(other)
    return sorted(found) or [place]


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
            recording = f"{of_cpu[1]}{of_cpu[2] or ''}" if of_cpu else name
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
                pq.ParquetFile(file, page_checksum_verification=True).read()
        except (pa.ArrowException, OSError) as why:
            return IoschedError(f"{name} is damaged: {why}", "remove it, and begin the sweep again, which makes it anew")
    return IoschedError(f"{place} cannot be read: {cause}")


_Results = Iterator["tuple[Task, str | None]"]


def _checked(options: dict[str, Any], schedulers: Sequence[str]) -> dict[str, Any]:
    """What the options of `simulate` ask for, if it has them and one of the schedulers takes them."""
    own = ("load", "disk", "schedulers", "events")
    known = {name: one.default for name, one in inspect.signature(simulate).parameters.items() if name not in own}
    for name in options:
        if name not in known:
            raise IoschedError(f"a sweep has no option {name}; there are: {', '.join(known)}")
    # With what was left out, so that it is the same as the default that is named.
    asked = _options(**{**known, **options})
    brief = {**asked, "until_seconds": min(asked.get("until_seconds", 1e-6), 1e-6)}
    # What is wrong with all tasks is said once.
    error: IoschedError | None = None
    for scheduler in schedulers:
        try:
            _simulated("random-read", Disk("null"), [scheduler], brief)
            return asked
        except IoschedError as cause:
            error = error or cause
    if error is not None:
        raise error
    return asked


def _absolute(of: str, place: Path) -> str:
    """The same place from any directory: a local path from the root, an address as it is."""
    name = _place(of, place)
    return name if "://" in name else os.path.abspath(name)


def _file_of(place: str, task: Task) -> str:
    name = task.digest
    return f"{place}/{name[:2]}/{name}.parquet"


def _here(workers: int | None, out: str) -> Callable[[Iterator[Task]], _Results]:
    """Does tasks in processes of this machine. One that is killed is replaced, and its task done again."""

    def run(tasks: Iterator[Task]) -> _Results:
        most_workers = workers or os.cpu_count() or 1
        again: deque[Task] = deque()
        deaths: dict[Task, int] = {}
        # All workers are made at once: no more than there are tasks.
        first = list(itertools.islice(tasks, _AHEAD * most_workers))
        count = max(1, min(most_workers, len(first)))
        source = itertools.chain(first, tasks)
        del first
        is_over = False
        while not is_over or again:
            waiting: dict[concurrent.futures.Future[str | None], Task] = {}
            context = _Workers()
            pool = concurrent.futures.ProcessPoolExecutor(count, context, _begin_work, (os.getpid(),))
            with pool:
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
                                waiting[pool.submit(_at_work, task, out)] = task
                            except BrokenProcessPool:
                                again.append(task)
                                raise
                        if not waiting:
                            break
                        for future in _finished(waiting):
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
                    # Each removes what it has not finished, which is waited for.
                    context.interrupt()
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise

    return run


class _Workers(multiprocessing.context.ForkContext):
    """Makes processes, and keeps them, so that they can be told to leave. Not spawned: that would run the caller's script again."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Any] = []

    def Process(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        process = super().Process(*args, **kwargs)
        self.made.append(process)
        return process

    def interrupt(self) -> None:
        for process in self.made:
            if process.is_alive():
                os.kill(process.pid, signal.SIGINT)


def _finished(waiting: Iterable[concurrent.futures.Future[str | None]]) -> set[concurrent.futures.Future[str | None]]:
    """Those that have ended, once one has. In slices: where another package has calls restarted after SIGINT, Ctrl-C ends no
    wait without a limit."""
    while True:
        finished, _ = concurrent.futures.wait(waiting, timeout=0.5, return_when=concurrent.futures.FIRST_COMPLETED)
        if finished:
            return finished


#: prctl: the signal that the kernel sends when the parent is gone.
_PR_SET_PDEATHSIG = 1
_is_at_work = False


def _begin_work(parent: int) -> None:
    """What a worker begins with: it leaves when it is interrupted, and when its parent is gone, however that ended."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _leave(*_: Any) -> NoReturn:
    """Ends the worker; in the middle of a task once what that has made is removed."""
    # Another one may have come already, and Python complains of one that is to be ignored since.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stay)
    if _is_at_work:
        raise KeyboardInterrupt
    os._exit(1)


def _stay(*_: Any) -> None:
    """It is leaving already."""


def _at_work(task: Task, out: str) -> str | None:
    global _is_at_work
    try:
        _is_at_work = True
        try:
            return _carry_out(task, out)
        finally:
            _is_at_work = False
    except KeyboardInterrupt:
        os._exit(1)


def _carry_out(task: Task, out: str) -> str | None:
    """Does a task and keeps its rows; what is wrong with it, if anything. Can be done any number of times."""
    try:
        with _local(task.trace) as trace:
            simulated = _simulated(trace, task.disk, [task.scheduler], json.loads(task.options))
    except (IoschedError, OSError) as cause:
        return str(cause)
    # After it was read: what was the same before and afterwards was so in between.
    if task.contents and _now_in(task) != task.contents:
        return "its recording or the file of its disk is another than when the task was given out: begin the sweep again"
    table = simulated.table
    size = table.num_rows
    name = task.digest
    settings = {
        "trace": task.trace._request(),
        "disk": task.disk._request(),
        "options": json.loads(task.options),
        "contents": json.loads(task.contents or "{}"),
    }
    for column, value in (
        ("seed", simulated["seed"]),
        ("disk", os.fspath(task.disk.model)),
        ("trace", os.fspath(task.trace.path)),
        ("settings", json.dumps(settings, sort_keys=True)),
        ("task", name),
    ):
        table = table.add_column(0, column, [pa.array([value] * size)])
    table = table.replace_schema_metadata({_CONTENTS: task.contents})
    contents = io.BytesIO()
    pq.write_table(table, contents, row_group_size=max(size, 1), write_page_checksum=True)
    try:
        _keep(contents.getvalue(), task, out)
    except OSError as cause:
        # The next task has no more room than this one.
        taken = f": {cause.filename2}" if cause.filename2 else ""
        raise IoschedError(f"cannot write to {out}{taken}: {cause.strerror or cause}") from None
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
        try:
            os.replace(new, final)
        except FileNotFoundError:
            # Another sweep took it for what a killed worker left: the rows are there then.
            if not os.path.isfile(final):
                raise
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


#: A file of a task that is not finished, in its directory.
_UNFINISHED = re.compile(r"\.(([0-9a-f]{2})[0-9a-f]{62})\.[0-9a-f]{32}$")


def _remove_unfinished(files: Any, place: str, refused: set[str]) -> None:
    """Removes what killed workers have left of tasks whose rows are there, or that cannot be done."""
    if "file" not in _protocols(files):
        return
    for number in range(256):
        directory = f"{place}/{number:02x}"
        with contextlib.suppress(OSError):
            for name in os.listdir(directory):
                match = _UNFINISHED.match(name)
                if match and (match[1] in refused or os.path.isfile(f"{directory}/{match[1]}.parquet")):
                    with contextlib.suppress(OSError):
                        os.unlink(f"{directory}/{name}")


@contextlib.contextmanager
def _local(trace: Trace) -> Iterator[Trace]:
    """The recording as a local file, for as long as it is needed."""
    files, place = _file_system(os.fspath(trace.path))
    if "file" in _protocols(files):
        yield dataclasses.replace(trace, path=place)
        return
    with tempfile.TemporaryDirectory(prefix="iosched-") as directory:
        for one in _files_of(files, place):
            try:
                source = files.open(one, "rb")
            except FileNotFoundError:
                # Which a store calls by a part of its address.
                raise IoschedError(f"there is no {files.unstrip_protocol(one)}") from None
            with source, open(os.path.join(directory, os.path.basename(one)), "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        yield dataclasses.replace(trace, path=os.path.join(directory, os.path.basename(place)))


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
