"""Sweeps and searches: nothing is lost or there twice, whoever is killed."""

import dataclasses
import gzip
import io
import itertools
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from datetime import timedelta
from pathlib import Path

import iosched
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SCHEDULERS = ["noop", iosched.Scheduler("deadline", fifo_batch=1)]


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Recordings of simulated runs."""
    directory = tmp_path_factory.mktemp("traces")
    found = []
    for seed in range(12):
        events = directory / f"{seed}.txt"
        iosched.simulate("random-read", "hdd-7200-fifo", "noop", until=0.5, seed=seed, events=events)
        found.append(iosched.Trace(events, wrap=True))
    return found


def rows(sweep):
    keys = [(name, "ascending") for name in ("trace", "scheduler", "disk", "process")]
    return sweep.read().sort_by(keys)


def test_each_task_is_done_once_and_a_sweep_goes_on_where_it_was(traces, tmp_path):
    out = str(tmp_path / "out")
    first = iosched.sweep(traces[:5], SCHEDULERS, ["hdd-7200-fifo", "ssd-sata"], out=out, workers=2)
    assert (first.done, first.before, first.failed) == (20, 0, [])
    again = iosched.sweep(traces, SCHEDULERS, ["hdd-7200-fifo", "ssd-sata"], out=out, workers=2)
    assert (again.done, again.before) == (28, 20)
    table = rows(again)
    totals = table.filter(pa.compute.equal(table["process"], "all"))
    tasks = {tuple(row.values()) for row in totals.select(["trace", "scheduler", "disk"]).to_pylist()}
    assert totals.num_rows == len(tasks) == 48
    one = iosched.simulate(traces[0], "hdd-7200-fifo", "noop").table
    assert table.filter(
        pa.compute.and_(
            pa.compute.equal(table["trace"], str(traces[0].path)),
            pa.compute.and_(pa.compute.equal(table["scheduler"], "noop"), pa.compute.equal(table["disk"], "hdd-7200-fifo")),
        )
    ).select(one.column_names).sort_by("process") == one.sort_by("process")


def test_a_recording_that_is_damaged_fails_alone(traces, tmp_path):
    damaged = tmp_path / "damaged.txt"
    damaged.write_text("nonsense\n")
    found = iosched.sweep([damaged, traces[0], damaged], ["noop"], out=str(tmp_path / "out"), workers=1)
    assert found.done == 1
    [(task, error)] = found.failed
    assert task.trace.path == str(damaged) and "damaged.txt" in error


def test_a_name_that_is_no_text_fails_alone_and_an_empty_directory_is_no_sweep(traces, tmp_path):
    (tmp_path / "traces").mkdir()
    shutil.copy(traces[0].path, tmp_path / "traces/a.txt")
    shutil.copy(traces[0].path, os.fsencode(tmp_path / "traces") + b"/b\xff.txt")
    found = iosched.sweep(iosched.Trace(tmp_path / "traces", wrap=True), ["noop"], out=tmp_path / "out", workers=1)
    assert found.done == 1
    [(_, error)] = found.failed
    assert "is no UTF-8" in error
    (tmp_path / "empty").mkdir()
    with pytest.raises(iosched.IoschedError, match="no recording in .*/empty"):
        iosched.sweep(tmp_path / "empty", ["noop"], out=tmp_path / "none")


def test_a_damaged_file_of_the_dataset_is_named_and_made_anew(traces, tmp_path):
    out = str(tmp_path / "out")
    swept = iosched.sweep(traces[:3], ["noop"], out=out, workers=1)
    whole = rows(swept)
    damaged = sorted(Path(out).rglob("*.parquet"))[1]
    for contents in (damaged.read_bytes()[:-100], b"", b"nonsense" * 99):
        damaged.write_bytes(contents)
        with pytest.raises(iosched.IoschedError, match="is damaged") as failed:
            swept.read()
        assert str(damaged) in str(failed.value) and "begin the sweep again" in failed.value.hint
    damaged.unlink()
    os.mkfifo(damaged)
    again = iosched.sweep(traces[:3], ["noop"], out=out, workers=1)
    assert (again.done, again.before) == (1, 2)
    assert rows(again) == whole


def test_a_number_that_changed_on_the_disk_is_told_from_one_that_was_found(traces, tmp_path):
    swept = iosched.sweep(traces[0], "noop", out=tmp_path / "out", workers=1)
    whole = rows(swept)
    [file] = (tmp_path / "out").rglob("*.parquet")
    contents = file.read_bytes()
    metadata = pq.read_metadata(file)
    columns = [metadata.row_group(0).column(index) for index in range(metadata.num_columns)]
    # The last byte of the values, which stand behind the headers of their pages.
    ends = [(one.dictionary_page_offset or one.data_page_offset) + one.total_compressed_size for one in columns]
    for end in ends:
        file.write_bytes(contents[: end - 1] + bytes([contents[end - 1] ^ 1]) + contents[end:])
        with pytest.raises(iosched.IoschedError, match="is damaged") as failed:
            swept.read()
        assert "remove it" in failed.value.hint
    file.write_bytes(contents)
    assert rows(swept) == whole


def test_ctrl_c_is_not_lost_while_the_files_of_tasks_are_looked_at(traces, tmp_path):
    """A file of Python's that Arrow closes swallows what a signal's handler raises."""
    iosched.sweep(traces[0], "noop", out=tmp_path / "out", workers=1)
    [file] = (tmp_path / "out").rglob("*.parquet")
    files, name = iosched._sweep._file_system(str(file))
    rung = raised = 0

    def ring(*_):
        nonlocal rung
        rung += 1
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    delays = random.Random(1)
    try:
        while rung < 400:
            so_far = rung
            try:
                signal.setitimer(signal.ITIMER_REAL, delays.uniform(1e-5, 3e-3))
                while rung == so_far:
                    iosched._sweep._made_of(files, name)
            except KeyboardInterrupt:
                raised += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert raised == rung


def test_two_signals_at_once_end_a_worker_without_a_complaint():
    code = """
import os, signal
from iosched import _sweep
_sweep._begin_work(os.getppid())
_sweep._is_at_work = True
both = {signal.SIGINT, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, both)
for number in both:
    signal.raise_signal(number)  # to this thread, which keeps it: Arrow has others
try:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
except KeyboardInterrupt:
    print("left")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("left\n", "")


def test_no_more_workers_are_made_than_there_are_tasks(traces, tmp_path, monkeypatch):
    made = []

    class Counted(iosched._sweep._Workers):
        def Process(self, *args, **kwargs):
            made.append(1)
            return super().Process(*args, **kwargs)

    monkeypatch.setattr(iosched._sweep, "_Workers", Counted)
    assert iosched.sweep(traces[:3], "noop", out=tmp_path / "out", workers=30).done == 3
    assert 1 <= len(made) <= 3


def test_what_killed_workers_left_is_removed_at_the_end_of_a_sweep(traces, tmp_path):
    out = tmp_path / "out"
    iosched.sweep(traces[:2], "noop", out=out, workers=1)
    [first, _] = sorted(out.rglob("*.parquet"))
    left = first.parent / f".{first.stem}.{'0' * 32}"
    another = "0" * 64
    at_work = first.parent / f".{first.stem[:2]}{another[2:]}.{'1' * 32}"
    for file in (left, at_work):
        file.write_text("PAR1")
    iosched.sweep(traces[:2], "noop", out=out, workers=1)
    # Another sweep may be at work on what is not there yet.
    assert (left.exists(), at_work.exists()) == (False, True)


def children_of(pid):
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def test_a_worker_that_is_killed_loses_and_doubles_nothing(traces, tmp_path):
    whole = iosched.sweep(traces, SCHEDULERS, out=str(tmp_path / "whole"), workers=2)
    killed = []

    def with_deaths():
        """Workers are killed, as by the kernel for want of memory, while tasks are given out."""
        for index, trace in enumerate(traces):
            workers = children_of(os.getpid())
            if index % 4 == 3 and workers:
                os.kill(workers[0], signal.SIGKILL)
                killed.append(workers[0])
            yield trace

    beset = iosched.sweep(with_deaths(), SCHEDULERS, out=str(tmp_path / "beset"), workers=2)
    assert killed
    assert (beset.done, beset.failed) == (whole.done, [])
    assert rows(beset) == rows(whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"untill": 1}, "no option untill"),
        ({"seed": -1}, "-1"),
        ({"until": -1}, "until"),
        ({"seed": object()}, "seed is a whole number"),
        ({"until": "x"}, "until is a number of seconds"),
        ({"until": 1e12}, "until: 1e.12 s is not above 0"),
        ({"scsi": 2}, "scsi is True or False"),
        ({"initial": "/no/such/state.json"}, "state.json"),
    ],
)
def test_options_that_no_task_can_have_are_refused_before_any(traces, tmp_path, options, message):
    with pytest.raises(iosched.IoschedError, match=message):
        iosched.sweep(traces, ["noop"], out=str(tmp_path / "out"), **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("disk", ["no-disk", "no/such.toml", iosched.Disk(queue_depth=0), iosched.Disk(size="1K")])
def test_a_disk_that_no_task_can_have_is_refused_before_any(traces, tmp_path, disk):
    with pytest.raises(iosched.IoschedError):
        iosched.sweep(traces, ["noop"], ["hdd-7200-fifo", disk], out=str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_schedulers_and_disks_that_can_be_gone_through_once_are_there_for_each_recording(traces, tmp_path):
    swept = iosched.sweep(
        iter(traces[:3]), (name for name in ("noop", "deadline")), iter(["hdd-7200-fifo", "ssd-sata"]), out=tmp_path / "out", workers=1
    )
    assert (swept.done, swept.failed) == (12, [])


def test_one_thing_alone_is_one_thing(traces, tmp_path):
    for number, (what, scheduler, disk) in enumerate(
        [(traces[0], "noop", "hdd-7200-fifo"), (traces[0].path, iosched.Scheduler("noop"), iosched.Disk("hdd-7200-fifo"))]
    ):
        swept = iosched.sweep(what, scheduler, disk, out=tmp_path / str(number), workers=1)
        assert swept.done + len(swept.failed) == 1


def test_a_directory_stands_for_the_recordings_in_it(traces, tmp_path):
    below = tmp_path / "traces" / "below"
    below.mkdir(parents=True)
    for number, name in enumerate(["a.txt", "b.txt", ".hidden"]):
        shutil.copy(traces[number].path, tmp_path / "traces" / name)
    shutil.copy(traces[3].path, below / "c.txt")
    for number, given in enumerate(
        [str(tmp_path / "traces"), tmp_path / "traces", iosched.Trace(tmp_path / "traces", wrap=True), [tmp_path / "traces"]]
    ):
        swept = iosched.sweep(given, "noop", iosched.Disk(size="1T"), out=tmp_path / str(number), workers=1)
        done = swept.read()["trace"].to_pylist() if swept.done else []
        names = {Path(name).name for name in [*done, *(task.trace.path for task, _ in swept.failed)]}
        assert names == {"a.txt", "b.txt", "c.txt"}, number
    from iosched._sweep import _recordings

    # blktrace's files for each CPU are one recording; of an object store a directory is known by its slash.
    import fsspec

    store = fsspec.filesystem("memory")
    for name in ("x.blktrace.0", "x.blktrace.1", "y.txt"):
        store.pipe_file(f"/recordings/{name}", b"")
    assert [trace.path for trace in _recordings(["memory://recordings/"])] == ["memory:///recordings/x.blktrace.0", "memory:///recordings/y.txt"]
    assert [trace.path for trace in _recordings(["memory://recordings"])] == ["memory://recordings"]


def test_a_disk_of_ones_own_is_found_from_anywhere_and_named_in_the_rows(traces, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = subprocess.run([os.environ["IOSCHED"], "emulate", "models", "--toml", "hdd-7200-fifo"], capture_output=True, check=True)
    Path("mine.toml").write_bytes(made.stdout)
    swept = iosched.sweep(traces[0], "noop", [iosched.Disk(Path("mine.toml"))], out="out", workers=1)
    assert (swept.done, swept.failed) == (1, [])
    assert set(swept.read()["disk"].to_pylist()) == {str(tmp_path / "mine.toml")}


def simulated_rows(trace, disk, **options):
    table = iosched.simulate(trace, disk, "noop", **options).table
    return table.sort_by("process").to_pylist()


def swept_rows(swept):
    table = swept.read().sort_by("process")
    return table.select(table.column_names[5:]).to_pylist()


def test_what_is_in_a_disk_model_or_a_recording_counts_and_new_rows_take_the_place_of_the_old(traces, tmp_path):
    """Rows of a model that was edited since were kept as if they were the new one's."""
    command = [os.environ["IOSCHED"], "emulate", "models", "--toml"]
    models = [subprocess.run([*command, name], capture_output=True, check=True).stdout for name in ("hdd-7200-fifo", "ssd-sata")]
    disk, trace, out = tmp_path / "mine.toml", tmp_path / "trace.txt", tmp_path / "out"

    def sweep():
        return iosched.sweep(iosched.Trace(trace, wrap=True), "noop", disk, out=out, workers=1)

    seen = []
    for model, recording in ((models[0], 0), (models[1], 0), (models[1], 1), (models[0], 0)):
        disk.write_bytes(model)
        shutil.copy(traces[recording].path, trace)
        assert [(one.done, one.before) for one in (sweep(), sweep())] == [(1, 0), (0, 1)]
        rows = swept_rows(sweep())
        assert rows == simulated_rows(iosched.Trace(trace, wrap=True), iosched.Disk(disk))
        seen.append(rows)
    assert seen[0] == seen[3] and seen[0] != seen[1] != seen[2]


def test_a_recording_that_is_edited_while_it_is_simulated_gives_no_rows(traces, tmp_path):
    from iosched import _sweep

    trace = tmp_path / "trace.txt"
    shutil.copy(traces[0].path, trace)
    [task] = _sweep._tasks(iter([iosched.Trace(trace, wrap=True)]), ["noop"], [iosched.Disk()], _sweep._checked({}, ["noop"]))
    shutil.copy(traces[1].path, trace)
    assert "is another than when the task was given out" in _sweep._carry_out(task, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_what_is_asked_for_in_several_ways_is_one_task(traces, tmp_path):
    from iosched import _sweep

    def names(**given):
        options = _sweep._checked(given.pop("options", {}), ["noop"])
        arguments = {"arms": ["noop"], "disks": [iosched.Disk()], **given}
        tasks = _sweep._tasks(iter(traces[:1]), arguments["arms"], arguments["disks"], options)
        return [task.digest for task in tasks]

    plain = names()
    for options in ({"seed": 0}, {"tick_phase_us": 0}, {"scsi": False}, {"until": None}):
        assert names(options=options) == plain, options
    assert names(options={"seed": 1}) != plain
    assert names(options={"until": 1}) == names(options={"until": timedelta(seconds=1)}) != plain
    assert names(options={"memory": "1G"}) == names(options={"memory": 1 << 30})
    assert names(disks=[iosched.Disk(size="32G")]) == names(disks=[iosched.Disk(size=32 << 30)]) != plain
    swapped = [iosched.Scheduler("deadline", **dict(order)) for order in ((("fifo_batch", 1), ("read_expire", 9)), (("read_expire", 9), ("fifo_batch", 1)))]
    assert names(arms=[str(swapped[0])]) == names(arms=[str(swapped[1])])
    # As a sweep: nothing is there twice.
    out = tmp_path / "out"
    assert iosched.sweep(traces[0], "noop", out=out, workers=1).done == 1
    assert iosched.sweep(traces[0], "noop", out=out, workers=1, seed=0).before == 1


def test_the_files_of_one_recording_are_one_however_they_are_packed_and_wherever_they_are(tmp_path):
    import fsspec

    from iosched import _sweep

    store = fsspec.filesystem("memory")
    names = ["a.blktrace.0.gz", "a.blktrace.1.gz", "a.blktrace.10.gz", "b.blktrace.0", "b.blktrace.1", "b.txt"]
    for name in names:
        store.pipe_file(f"/packed/{name}", name.encode())
        (tmp_path / name).write_text(name)
    for place in ("memory://packed/", str(tmp_path)):
        found = [trace.path.rpartition("/")[2] for trace in _sweep._recordings(place)]
        assert found == ["a.blktrace.0.gz", "b.blktrace.0", "b.txt"]
    with _sweep._local(iosched.Trace("memory://packed/a.blktrace.0.gz")) as trace:
        assert sorted(os.listdir(os.path.dirname(trace.path))) == names[:3]
    with _sweep._local(iosched.Trace("memory://packed/b")) as trace:
        assert sorted(os.listdir(os.path.dirname(trace.path))) == names[3:5]
    # Each of them counts.
    for place, edit in (
        ("memory://packed/a.blktrace.0.gz", lambda: store.pipe_file("/packed/a.blktrace.10.gz", b"longer than before")),
        (str(tmp_path / "a.blktrace.0.gz"), lambda: (tmp_path / "a.blktrace.10.gz").write_text("another")),
    ):
        before = _sweep._of_recording(iosched.Trace(place))
        assert before and before == _sweep._of_recording(iosched.Trace(place))
        edit()
        assert before != _sweep._of_recording(iosched.Trace(place))
    # What never ends is not waited for.
    os.mkfifo(tmp_path / "fifo")
    assert _sweep._of_recording(iosched.Trace(tmp_path / "fifo")) == ""


IN_THE_MIDDLE = """
import sys
import iosched
iosched.sweep([iosched.Trace(path, wrap=True) for path in sys.argv[2:]], "noop", out=sys.argv[1], workers=2)
"""


def is_in_the_middle(process):
    """Whether both workers simulate, for which each has a thread besides its own, and who waits for them does so."""
    assert process.poll() is None, process.stderr.read()
    workers = children_of(process.pid)
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return len(workers) == 2 and state == "S" and all(len(os.listdir(f"/proc/{worker}/task")) > 1 for worker in workers)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_the_process_that_gave_them_work(tmp_path, number):
    """However that ends, in the middle of tasks; they waited for work for ever."""
    traces = [tmp_path / f"{index}.csv" for index in range(4)]
    for trace in traces:
        trace.write_text("".join(f"{128166372000000000 + at * 10_000},host,0,Read,{at * 4096},4096,0\n" for at in range(300_000)))
    command = [sys.executable, "-c", IN_THE_MIDDLE, str(tmp_path / "out"), *map(str, traces)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not is_in_the_middle(process):
        time.sleep(0.001)
    descriptors = [os.pidfd_open(worker) for worker in children_of(process.pid)]
    process.send_signal(number)
    _, said = process.communicate()
    assert process.returncode != 0
    for descriptor in descriptors:
        # A descriptor of a process can be read once that has ended.
        select.select([descriptor], [], [])
        os.close(descriptor)
    assert said.count("Traceback") == (number == signal.SIGINT), said
    assert [name for _, _, names in os.walk(tmp_path / "out") for name in names if name.startswith(".")] == []


def test_an_option_that_one_scheduler_alone_takes_is_an_option(traces, tmp_path):
    swept = iosched.sweep(traces[0], ["cfq"], out=tmp_path / "out", workers=1, initial="average=3")
    assert (swept.done, swept.failed) == (1, [])
    with pytest.raises(iosched.IoschedError, match="initial|average|start"):
        iosched.sweep(traces[0], ["noop"], out=tmp_path / "none", workers=1, initial="average=3")


@pytest.mark.parametrize(
    "given",
    [
        {"workers": -1}, {"workers": "2"}, {"workers": 0}, {"traces": [None]}, {"traces": None}, {"traces": 5}, {"disks": [5]},
        {"disks": None}, {"schedulers": None}, {"schedulers": [5]}, {"out": None}, {"out": 5}, {"address": 5},
        {"out": ""}, {"schedulers": []}, {"disks": []}, {"traces": [""]},
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_error_of_ours_that_names_the_argument(traces, tmp_path, given):
    arguments = {"traces": traces[:1], "schedulers": ["noop"], "out": tmp_path / "out", **given}
    [name] = given
    with pytest.raises(iosched.IoschedError, match=name.removesuffix("s")):
        iosched.sweep(**arguments)


def test_a_place_that_cannot_be_written_is_one_error_and_leaves_nothing(traces, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(iosched.IoschedError, match="cannot make the directory"):
        iosched.sweep(traces[0], "noop", out=tmp_path / "file")
    full = tmp_path / "full"
    full.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(full)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs root")
    try:
        with pytest.raises(iosched.IoschedError, match=f"cannot write to {full}/out: No space left"):
            iosched.sweep(traces[:6], SCHEDULERS, out=full / "out", workers=2)
        assert [name for _, _, names in os.walk(full) for name in names if name.startswith(".")] == []
    finally:
        subprocess.run(["umount", str(full)], check=True)


def test_what_somebody_else_put_into_a_dataset_is_none_of_it(traces, tmp_path):
    out = tmp_path / "out"
    swept = iosched.sweep(traces[:2], ["noop"], out=out, workers=1)
    whole = rows(swept)
    (out / "README.txt").write_text("x")
    (out / "zz.parquet").write_text("PAR1")
    assert rows(swept) == whole
    # What has a file's name and is none is no task that was done.
    [first, _] = sorted(out.rglob("*/*.parquet"))
    first.unlink()
    first.mkdir()
    with pytest.raises(iosched.IoschedError, match=f"cannot write to .*{first.name}: Is a directory"):
        iosched.sweep(traces[:2], ["noop"], out=out, workers=1)
    assert iosched.sweep([], ["noop"], out=tmp_path / "empty").read().num_rows == 0


def test_a_recording_that_cannot_be_given_to_a_process_fails_by_name(traces, tmp_path):
    class Mine(iosched.Trace):
        pass

    swept = iosched.sweep([Mine(traces[0].path, wrap=True), traces[1]], ["noop"], out=tmp_path / "out", workers=1)
    assert swept.done + len(swept.failed) == 2 and swept.done >= 1
    assert all("another process" in error for _, error in swept.failed)


def test_a_tunable_is_a_whole_number():
    with pytest.raises(iosched.IoschedError, match="fifo_batch is a whole number, not 1.9"):
        iosched.Scheduler("deadline", fifo_batch=1.9)
    assert str(iosched.Scheduler("deadline", fifo_batch=True)) == "deadline:fifo_batch=1"
    for name in ("fifo_batch=1,writes_starved", "", "a:b"):
        with pytest.raises(iosched.IoschedError, match="deadline has no tunable"):
            iosched.Scheduler("deadline", **{name: 1})
    for space in ({"fifo_batch": (1, 2.5)}, {"fifo_batch": [1, 2, "3"]}, {"fifo_batch": 5}):
        with pytest.raises(iosched.IoschedError, match="fifo_batch"):
            iosched.search("deadline", space, until=0.1)


def test_what_was_asked_for_tells_rows_apart(traces, tmp_path):
    disks = [iosched.Disk("hdd-7200-fifo", queue_depth=depth) for depth in (1, 32)]
    out = str(tmp_path / "q[1]")
    for _ in range(2):
        swept = iosched.sweep(traces[:1], ["noop"], disks, out=out, workers=1, until=timedelta(seconds=0.2))
    assert (swept.done, swept.before) == (0, 2)
    table = swept.read()
    assert len(set(table["task"].to_pylist())) == len(set(table["settings"].to_pylist())) == 2


def test_a_sweep_keeps_no_names_of_tasks(tmp_path, monkeypatch):
    """Of ten times as many tasks it takes no more memory: those that are there already, and those that are done now."""
    from iosched import _sweep

    class Files:
        """Every other task is there before; the others once they are done."""

        protocol = "memory"

        def __init__(self):
            self.asked = 0

        def makedirs(self, *_, **__):
            pass

        def exists(self, _):
            return True

        def info(self, _):
            return {"ETag": "always", "size": 1}

        def cat_file(self, _):
            self.asked += 1
            if self.asked % 2 == 0:
                raise FileNotFoundError
            return there

    files_of_rows = pa.table({}).replace_schema_metadata({_sweep._CONTENTS: _sweep._joined("ETag=always size=1", "")})
    rows_there = io.BytesIO()
    pq.write_table(files_of_rows, rows_there)
    there = rows_there.getvalue()

    def at_once(_workers, _out):
        return lambda tasks: ((task, None) for task in tasks)

    def most(count):
        files = Files()
        monkeypatch.setattr(_sweep, "_file_system", lambda _: (files, "/place"))
        monkeypatch.setattr(_sweep, "_here", at_once)
        tracemalloc.start()
        try:
            swept = iosched.sweep((f"/{number}" for number in range(count)), ["noop", "cfq"], out="/place")
            return swept, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    most(10)  # what is loaded once
    few, least = most(300)
    many, greatest = most(3000)
    assert (few.done + few.before, many.done + many.before) == (600, 6000)
    assert few.done == few.before and not many.failed
    assert greatest < least + 20_000, (least, greatest)


def test_a_task_that_is_named_twice_is_done_once_and_fails_once(traces, tmp_path):
    gone = tmp_path / "gone.txt"
    found = iosched.sweep([*traces[:2], gone, *traces[:2], gone], ["noop", "noop"], out=str(tmp_path / "out"), workers=1)
    assert found.done == 2 and len(found.failed) == 1
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == 2


@pytest.mark.parametrize("format", ["", ".gz"])
def test_a_worker_takes_no_more_memory_for_a_longer_recording(tmp_path, format):
    """Fifty times as long: the most that a process of its own ever held grows by less than the recording itself."""
    held, sizes = [], []
    for accesses in (5_000, 250_000):
        lines = (f"{128166372000000000 + at * 10_000},host,0,Read,{at % 1000 * 4096},4096,0\n" for at in range(accesses))
        text = "".join(lines).encode()
        trace = tmp_path / f"{accesses}.csv{format}"
        trace.write_bytes(gzip.compress(text) if format else text)
        sizes.append(len(text))
        script = (
            "import iosched, resource, sys\n"
            "trace = iosched.Trace(sys.argv[1], format='msr', wrap=True)\n"
            "found = iosched.sweep([trace], ['noop'], ['ssd-sata'], out=sys.argv[2], workers=1)\n"
            "assert found.done == 1, found.failed\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)\n"
        )
        command = [sys.executable, "-c", script, str(trace), str(tmp_path / f"out-{accesses}")]
        held.append(int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    assert sizes[1] > 10 << 20
    assert held[1] - held[0] < sizes[1] / 2, (held, sizes)


def test_memory_is_a_place_like_any_other_and_options_count(traces):
    out = "memory://iosched-sweep"
    # In one process's memory: done here.
    from iosched import _sweep

    options = _sweep._checked({"seed": 7}, ["noop"])
    [task] = _sweep._tasks(iter(traces[:1]), ["noop"], [iosched.Disk()], options)
    assert _sweep._carry_out(task, out) is None
    assert set(iosched.Sweep(out, 1, 0, []).read()["seed"].to_pylist()) == {7}
    missing = dataclasses.replace(task, trace=iosched.Trace("memory://iosched-sweep/none"))
    assert _sweep._carry_out(missing, out) == "there is no memory:///iosched-sweep/none"


def test_a_search_finds_what_a_grid_finds_and_tells_it_from_luck():
    load, disk = "readers-vs-writer", "hdd-7200-fifo"
    grid = {
        batch: iosched.simulate(load, disk, iosched.Scheduler("deadline", fifo_batch=batch), until=3)["runs"][0]["total"]["iops"]
        for batch in (1, 4, 16, 64, 256)
    }
    found = iosched.search("deadline", {"fifo_batch": (1, 4, 16, 64, 256)}, load, disk, trials=80, best=2, fresh=2, until=3)
    assert found.trials <= 5, "a setting is simulated once"
    [top, *_] = sorted(found.best, key=lambda one: one.found, reverse=True)
    assert grid[top.scheduler.tunables.get("fifo_batch", 16)] == max(grid.values())
    assert all(len(one.fresh) == 2 for one in found.best)
    assert any(one.scheduler == iosched.Scheduler("deadline") for one in found.best)
    assert found.command("sdb").startswith("iosched tune sdb --arms deadline --arms deadline:fifo_batch=")


@pytest.mark.parametrize("disk", ["hdd-7200-fifo", "ssd-sata"])
@pytest.mark.parametrize(
    ("scheduler", "space"),
    [
        ("deadline", {"fifo_batch": (1, 4, 16, 64, 256), "read_expire": (20, 100, 500, 2500), "writes_starved": (1, 2, 4, 8)}),
        ("cfq", {"slice_idle": (0, 2, 8, 16), "quantum": (1, 4, 8, 32), "slice_sync": (20, 50, 100, 200, 400)}),
    ],
)
def test_a_search_finds_better_than_defaults_where_a_full_grid_does(scheduler, space, disk):
    """With a fifth of the grid's trials, and still under seeds that it has not seen."""
    load, until = "readers-vs-writer", 1

    def iops(setting):
        return iosched.simulate(load, disk, setting, until=until)["runs"][0]["total"]["iops"]

    grid = [iosched.Scheduler(scheduler, **dict(zip(space, values))) for values in itertools.product(*space.values())]
    assert len(grid) == 80
    most = max(map(iops, grid)) / iops(scheduler)
    found = iosched.search(scheduler, space, load, disk, trials=len(grid) // 5, best=3, fresh=4, until=until)
    assert found.trials <= len(grid) // 5
    seen = max(one.found for one in found.best)
    print(f"{scheduler} on {disk}: grid {most:.3f}, found {seen:.3f}, fresh {found.best[0].ratio:.3f}")
    assert seen <= most + 1e-9, "the grid has every setting"
    if most > 1.02:
        assert seen > 1.01 and found.best[0].ratio > 1


def tune(arguments, tmp_path):
    """A command in the place of `iosched` that keeps what it was given and does this."""
    command = tmp_path / "iosched"
    command.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{tmp_path}/given\n{arguments}\n")
    command.chmod(0o755)
    return str(command)


@pytest.fixture(scope="module")
def searched():
    disk = iosched.Disk("ssd-sata", size="1G")
    return iosched.search("cfq", {"slice_idle": (0, 8), "quantum": (1, 8)}, "random-read", disk, trials=3, best=2, fresh=1, until=0.2)


def test_what_tune_refuses_is_the_error(searched, tmp_path):
    command = tune("echo 'error: sdq is busy\nhint: unmount it' >&2; exit 5", tmp_path)
    with pytest.raises(iosched.IoschedError, match="sdq is busy") as failed:
        searched.confirm("sdq", out=tmp_path / "record", arguments=["--budget", "10m"], iosched=command)
    assert failed.value.hint == "unmount it"
    given = (tmp_path / "given").read_text().splitlines()
    assert given[0] == "tune" and given[-5:] == ["sdq", "--budget", "10m", "--out", str(tmp_path / "record")]
    assert given[given.index("--baseline") + 1] == "cfq" and given[given.index("--load") + 1] == "random-read"
    arms = [value for option, value in zip(given, given[1:]) if option == "--arms"]
    assert arms[0] == "cfq" and set(arms) == {"cfq", *(str(one.scheduler) for one in searched.best)}
    with pytest.raises(iosched.IoschedError, match="cannot run /proc/none: No such file"):
        searched.confirm("sdq", out=tmp_path / "record", iosched="/proc/none")
    with pytest.raises(iosched.IoschedError, match="ended with code 3: what is this"):
        searched.confirm("sdq", out=tmp_path / "record", iosched=tune("echo what is this >&2; exit 3", tmp_path))


def test_what_cannot_be_measured_is_refused_before_anything_runs(traces, searched, tmp_path):
    command = tune("exit 0", tmp_path)
    recorded = dataclasses.replace(searched, load=traces[0])
    with pytest.raises(iosched.IoschedError, match="is a recording"):
        recorded.confirm("sdq", out=tmp_path / "record", iosched=command)
    cached = dataclasses.replace(searched, disk=iosched.Disk(write_cache=False))
    with pytest.raises(iosched.IoschedError, match="write cache"):
        cached.confirm(out=tmp_path / "record", iosched=command)
    assert not (tmp_path / "given").exists()


def test_an_interrupted_confirmation_waits_until_tune_has_put_things_back(searched, tmp_path):
    work = "trap 'sleep 0.2; touch {0}/restored; exit 130' INT TERM\ntouch {0}/begun\nwhile :; do sleep 0.05; done"
    command = tune(work.format(tmp_path), tmp_path)

    def interrupt():
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        searched.confirm("sdq", out=tmp_path / "record", iosched=command)
    thread.join()
    assert (tmp_path / "restored").exists()


@pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse") or shutil.which("fio") is None,
    reason="needs root, /dev/fuse and fio",
)
def test_the_best_are_measured_on_an_emulated_disk_with_their_scheduler_inside(searched, tmp_path):
    short = ["--fixed-rounds", "3", "--runtime", "50ms", "--no-html"]
    confirmed = searched.confirm(out=tmp_path / "record", arguments=short, iosched=os.environ["IOSCHED"])
    assert confirmed.conclusion in ("winner", "equal", "undecided")
    assert {one.scheduler for one in confirmed.settings} == {one.scheduler for one in searched.best}
    assert [one.measured for one in confirmed.settings] == sorted((one.measured for one in confirmed.settings), reverse=True)
    fresh = {one.scheduler: one.ratio for one in searched.best}
    for one in confirmed.settings:
        assert one.interval[0] <= one.measured <= one.interval[1] and one.rounds == 3
        assert one.ratio == fresh[one.scheduler]
        assert one.measured == 1 or one.scheduler != iosched.Scheduler("cfq")
    assert set(confirmed.record.analysis["arms"]) == {f"served/{one.scheduler}" for one in searched.best}


@pytest.mark.parametrize(
    ("scheduler", "space", "message"),
    [
        ("none", {"x": (1, 2)}, "no tunable x"),
        ("deadline", {}, "empty"),
        ("deadline", {"fifo_batch": (2, 1)}, "no range"),
        ("deadline", {"fifo_batch": (1, 1 << 40)}, "no range"),
        ("no-scheduler", {"x": (1, 2)}, "there are"),
        (["deadline"], {"x": (1, 2)}, "no scheduler is called"),
        ("deadline", [("fifo_batch", (1, 2))], "space gives each tunable its range"),
        ("deadline", {"fifo_batch": {1, 2}}, "a pair of the least and the most"),
        ("deadline", {"fifo_batch": "12"}, "a pair of the least and the most"),
    ],
)
def test_a_search_of_nothing_is_refused(scheduler, space, message):
    with pytest.raises(iosched.IoschedError, match=message):
        iosched.search(scheduler, space)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": "5"}, "trials is a whole number, not '5'"),
        ({"trials": 0}, "trials: at least 1"),
        ({"fresh": 1.5}, "fresh is a whole number"),
        ({"best": None}, "best is a whole number"),
        ({"seed": None}, "seed is a whole number"),
        ({"seed": -1}, "seed is a whole number from 0 on"),
        ({"objective": 5}, "no objective is called 5"),
        ({"objective": ["iops"]}, "no objective is called"),
        ({"objective": lambda simulated: None}, "is None, which is no number"),
        ({"untill": 5}, "a search has no option untill"),
        ({"events": "x"}, "a search has no option events"),
        ({"disk": 5}, "disk is a name or a path"),
    ],
)
def test_an_argument_of_a_search_that_cannot_be_is_named(options, message):
    with pytest.raises(iosched.IoschedError, match=message):
        iosched.search("deadline", {"fifo_batch": (1, 2)}, **{"until": 0.01, **options})


def test_words_of_a_command_are_no_letters(searched, tmp_path):
    command = tune("exit 3", tmp_path)
    for given in ({"arguments": "--budget 10m"}, {"arguments": [5]}, {"iosched": []}, {"iosched": 5}, {"out": 5}, {"target": 5}, {"loads": 5}):
        [name] = given
        arguments = {"target": "sdq", "out": tmp_path / "record", "iosched": command, **given}
        with pytest.raises(iosched.IoschedError, match=name.removesuffix("s").removesuffix("ed")):
            searched.confirm(**arguments)
    assert not (tmp_path / "given").exists()
    with pytest.raises(iosched.IoschedError, match="ended with code 3"):
        searched.confirm("sdq", out=tmp_path / "record", loads="mixed", iosched=command)
    given = (tmp_path / "given").read_text().splitlines()
    assert [given[at + 1] for at, word in enumerate(given) if word == "--load"] == ["mixed"]
    with pytest.raises(iosched.IoschedError, match="device is a name"):
        searched.command(5)
