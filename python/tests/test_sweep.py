"""Sweeps and searches: nothing is lost or there twice, whoever is killed."""

import os
import signal
import threading
from datetime import timedelta
from pathlib import Path

import iosched
import pyarrow as pa
import pytest

SCHEDULERS = ["noop", iosched.Scheduler("deadline", fifo_batch=1)]


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Recordings of simulated runs."""
    directory = tmp_path_factory.mktemp("traces")
    found = []
    for seed in range(12):
        events = directory / f"{seed}.txt"
        iosched.simulate("random-read", "hdd-7200", "noop", until=0.5, seed=seed, events=events)
        found.append(iosched.Trace(events, wrap=True))
    return found


def rows(sweep):
    keys = [(name, "ascending") for name in ("trace", "scheduler", "disk", "process")]
    return sweep.read().sort_by(keys)


def test_each_task_is_done_once_and_a_sweep_goes_on_where_it_was(traces, tmp_path):
    out = str(tmp_path / "out")
    first = iosched.sweep(traces[:5], SCHEDULERS, ["hdd-7200", "ssd-sata"], out=out, workers=2)
    assert (first.done, first.before, first.failed) == (20, 0, [])
    again = iosched.sweep(traces, SCHEDULERS, ["hdd-7200", "ssd-sata"], out=out, workers=2)
    assert (again.done, again.before) == (28, 20)
    table = rows(again)
    totals = table.filter(pa.compute.equal(table["process"], "all"))
    tasks = {tuple(row.values()) for row in totals.select(["trace", "scheduler", "disk"]).to_pylist()}
    assert totals.num_rows == len(tasks) == 48
    one = iosched.simulate(traces[0], "hdd-7200", "noop").table
    assert table.filter(
        pa.compute.and_(
            pa.compute.equal(table["trace"], str(traces[0].path)),
            pa.compute.and_(pa.compute.equal(table["scheduler"], "noop"), pa.compute.equal(table["disk"], "hdd-7200")),
        )
    ).select(one.column_names).sort_by("process") == one.sort_by("process")


def test_a_recording_that_is_damaged_fails_alone(traces, tmp_path):
    damaged = tmp_path / "damaged.txt"
    damaged.write_text("nonsense\n")
    found = iosched.sweep([damaged, traces[0], damaged], ["noop"], out=str(tmp_path / "out"), workers=1)
    assert found.done == 1
    [(task, error)] = found.failed
    assert task.trace.path == str(damaged) and "damaged.txt" in error


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
    [({"untill": 1}, "no option untill"), ({"seed": -1}, "-1"), ({"until": -1}, "until"), ({"seed": object()}, "options")],
)
def test_options_that_no_task_can_have_are_refused_before_any(traces, tmp_path, options, message):
    with pytest.raises(iosched.IoschedError, match=message):
        iosched.sweep(traces, ["noop"], out=str(tmp_path / "out"), **options)
    assert not (tmp_path / "out").exists()


def test_what_was_asked_for_tells_rows_apart(traces, tmp_path):
    disks = [iosched.Disk("hdd-7200", queue_depth=depth) for depth in (1, 32)]
    out = str(tmp_path / "q[1]")
    for _ in range(2):
        swept = iosched.sweep(traces[:1], ["noop"], disks, out=out, workers=1, until=timedelta(seconds=0.2))
    assert (swept.done, swept.before) == (0, 2)
    table = swept.read()
    assert len(set(table["task"].to_pylist())) == len(set(table["settings"].to_pylist())) == 2


def test_memory_is_a_place_like_any_other_and_options_count(traces):
    out = "memory://iosched-sweep"
    # In one process's memory: done here.
    from iosched import _sweep

    task = _sweep.Task(traces[0], "noop", iosched.Disk(), '{"seed": 7}')
    assert _sweep._carry_out(task, out) is None
    assert set(iosched.Sweep(out, 1, 0, []).read()["seed"].to_pylist()) == {7}


def test_a_cluster_whose_nodes_die_gives_the_same(traces, tmp_path):
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    import ray

    whole = iosched.sweep(traces, SCHEDULERS, out=str(tmp_path / "whole"), workers=2)
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        ray.init(address=cluster.address, log_to_driver=False)
        steps = iter(range(3))
        begun = threading.Event()

        def slowly(found):
            """Nodes die once some of the tasks are given out."""
            for index, trace in enumerate(found):
                if index == 6:
                    begun.set()
                yield trace

        def kill():
            begun.wait()
            for node in nodes:
                cluster.remove_node(node, allow_graceful=False)
                next(steps)

        thread = threading.Thread(target=kill)
        thread.start()
        beset = iosched.sweep(slowly(traces), SCHEDULERS, out=str(tmp_path / "beset"), address=cluster.address)
        begun.set()
        thread.join()
        assert next(steps) == 2, "both nodes died"
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert (beset.done, beset.failed) == (whole.done, [])
    assert rows(beset) == rows(whole)


def test_no_cluster_is_one_clear_error(traces, tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(iosched.IoschedError, match="no Ray cluster answers at 127.0.0.1:1"):
        iosched.sweep(traces, ["noop"], out=str(tmp_path / "out"), address="127.0.0.1:1")


def test_a_search_finds_what_a_grid_finds_and_tells_it_from_luck():
    load, disk = "readers-vs-writer", "hdd-7200"
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
    assert found.command("sdb").startswith("iosched tune sdb --arms deadline,")


@pytest.mark.parametrize(
    ("scheduler", "space", "message"),
    [
        ("none", {"x": (1, 2)}, "no tunable x"),
        ("deadline", {}, "empty"),
        ("deadline", {"fifo_batch": (2, 1)}, "no range"),
        ("deadline", {"fifo_batch": (1, 1 << 40)}, "no range"),
        ("no-scheduler", {"x": (1, 2)}, "there are"),
    ],
)
def test_a_search_of_nothing_is_refused(scheduler, space, message):
    with pytest.raises(iosched.IoschedError, match=message):
        iosched.search(scheduler, space)
