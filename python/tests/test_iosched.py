"""The package as a user has it: installed, with recordings and records of the repository beside it."""

import importlib.metadata
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import iosched
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

REPOSITORY = Path(os.environ["IOSCHED_REPOSITORY"])
GOLDEN = REPOSITORY / "crates/iosched-conform/tests/golden"
RECORDING = GOLDEN / "bfq-hdd1-a_rand4.txt.gz"


def test_a_load_is_simulated_under_each_scheduler_and_the_same_seed_gives_the_same():
    once, again = (
        iosched.simulate("random-read", iosched.Disk("hdd-7200-fifo", size="8G"), ["noop", "mq-deadline"], until=2, seed=3)
        for _ in range(2)
    )
    assert once.table == again.table
    assert once.table.column("scheduler").unique().to_pylist() == ["noop", "mq-deadline"]
    total = once.table.filter(pa.compute.equal(once.table["process"], "all"))
    assert total.num_rows == 2
    assert all(iops > 0 for iops in total["iops"].to_pylist())
    assert once.runs["elapsed_ns"].to_pylist() == [run["elapsed_ns"] for run in once["runs"]]
    assert once["disk_bytes"] == 8 << 30
    assert isinstance(once.table.to_pandas(), pandas.DataFrame)
    assert polars.from_arrow(once.table).height == once.table.num_rows


def test_the_three_parts_of_a_latency_are_the_whole():
    table = iosched.simulate("random-read", "ssd-sata", "none", until=timedelta(seconds=1)).table.to_pandas()
    parts = table["before_queue_mean_ns"] + table["queue_mean_ns"] + table["service_mean_ns"]
    assert (abs(parts - table["latency_mean_ns"]) <= 3).all()


def test_tunables_and_the_disks_settings_count():
    def iops(scheduler, **disk):
        table = iosched.simulate("readers-vs-writer", iosched.Disk("hdd-7200-fifo", **disk), scheduler, until=5).table
        return table.to_pandas().set_index("process").loc["all", "iops"]

    cfq = iosched.Scheduler("cfq", slice_idle=0)
    assert (str(cfq), repr(cfq)) == ("cfq:slice_idle=0", "Scheduler('cfq', slice_idle=0)")
    assert cfq == iosched.Scheduler("cfq", slice_idle=0) != iosched.Scheduler("cfq")
    assert iops(cfq) != iops("cfq")
    assert iops("noop", queue_depth=1) != iops("noop", queue_depth=32)
    assert iops("noop", slow_down=4) < iops("noop")


def test_each_scheduler_and_model_that_is_listed_can_be_simulated():
    for scheduler in iosched.schedulers():
        defaults = {tunable["name"]: tunable["default"] for tunable in scheduler["tunables"]}
        # A variable that has a name in microseconds, too, is set once.
        tunables = {name: value for name, value in defaults.items() if name.removesuffix("_us") not in defaults.keys() - {name}}
        assert len(tunables) > len(defaults) / 2 or not defaults
        iosched.simulate("random-read", "ssd-sata", iosched.Scheduler(scheduler["name"], **tunables), until=0.1)
    for model in iosched.disk_models():
        iosched.simulate("random-read", model, "noop", until=0.05)


def test_a_recording_is_read_in_batches_and_as_a_whole():
    table = iosched.read_trace(RECORDING)
    with iosched.open_trace(str(RECORDING)) as batches:
        assert sum(batch.num_rows for batch in batches) == table.num_rows > 100
    assert {"time_ns", "stage", "op", "sector", "sectors", "process"} <= set(table.column_names)
    times = table["time_ns"].to_pylist()
    assert times == sorted(times)


def test_a_recording_is_a_load(tmp_path):
    events = tmp_path / "events.txt"
    iosched.simulate("random-read", "hdd-7200-fifo", "mq-deadline", until=1, events=events)
    replayed = iosched.simulate(iosched.Trace(events, closed=True), "hdd-7200-fifo", "mq-deadline")
    assert replayed["trace"]["accesses"] > 50
    [conformance] = iosched.conform(events)
    assert conformance.agreement == 1


def test_a_recording_is_followed_and_others_are_named():
    [conformance] = iosched.conform(RECORDING)
    assert conformance["scheduler"] == "bfq"
    assert conformance.agreement > 0.9
    with pytest.raises(iosched.IoschedError, match="no-such-file") as failed:
        iosched.conform([RECORDING, "no-such-file"], "bfq")
    assert len(failed.value.failures) == 1


def test_a_record_has_its_trials_and_its_analysis():
    record = iosched.read_record(REPOSITORY / "docs/example-record")
    assert record.trials.num_rows > 0
    assert record.header["kind"] == "iosched-record"
    assert record.analysis["arms"]


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda: iosched.simulate("no-load"), "no built-in load", "one of"),
        (lambda: iosched.simulate(disk="no-disk"), "no disk model", None),
        (lambda: iosched.simulate(disk="no/such.toml"), "no/such.toml", None),
        (lambda: iosched.simulate(schedulers="no-scheduler"), "no-scheduler", None),
        (lambda: iosched.simulate(schedulers=iosched.Scheduler("deadline", fifo=1)), "fifo", None),
        (lambda: iosched.simulate(disk=iosched.Disk(size="32Q")), "32Q", None),
        (lambda: iosched.simulate(disk=iosched.Disk(order="best")), "best", None),
        (lambda: iosched.simulate(until=-1), "until", None),
        (lambda: iosched.simulate(until=float("nan")), "until", None),
        (lambda: iosched.simulate(iosched.Trace("no-trace")), "no-trace", None),
        (lambda: iosched.simulate(iosched.Trace(RECORDING, format="csv")), "there are", None),
        (lambda: iosched.simulate(seed=-1), "seed is a whole number from 0 on, not -1", None),
        (lambda: iosched.simulate(seed=1.5), "seed is a whole number, not 1.5", None),
        (lambda: iosched.simulate(until="10s"), "until is a number of seconds or a timedelta, not '10s'", None),
        (lambda: iosched.simulate(wbt_lat=[]), "wbt_lat is a number of seconds", None),
        (lambda: iosched.simulate(tick_phase_us="x"), "tick_phase_us is a number of microseconds", None),
        (lambda: iosched.simulate(memory="1K"), "between 1M and 1024T", None),
        (lambda: iosched.simulate(disk=iosched.Disk(size=1.5)), "size is a whole number, not 1.5", None),
        (lambda: iosched.simulate(disk=iosched.Disk(size=-5)), "size is a whole number", None),
        (lambda: iosched.simulate(iosched.Trace(RECORDING, speed=-1)), "speed is a number from", None),
        (lambda: iosched.simulate(iosched.Trace(RECORDING, speed=2, closed=True)), "closed loops have no speed", None),
        (lambda: iosched.conform(RECORDING, hz=-1), "hz is a whole number", None),
        (lambda: iosched.conform(RECORDING, hz=200), "200 ticks", None),
        (lambda: iosched.conform([]), "no recording is named", None),
        (lambda: iosched.read_trace(REPOSITORY / "docs/example-record"), "no recording", "read_record"),
        (lambda: iosched.read_record("no-record"), "no-record", None),
        (lambda: iosched.conform("no-recording"), "no-recording", None),
        (lambda: iosched.conform(REPOSITORY / "python/iosched"), "iosched holds no recording", None),
        (lambda: iosched.conform(REPOSITORY / "README.md"), "README.md does not read like a recording", None),
        (lambda: iosched.simulate(5), "load is a name or a path, not 5", None),
        (lambda: iosched.simulate(None), "load is a name or a path, not None", None),
        (lambda: iosched.simulate("no\udcffload"), "is no UTF-8", None),
        (lambda: iosched.simulate(disk=5), "disk is a name or a path, not 5", None),
        (lambda: iosched.simulate(disk=iosched.Disk(order=5)), "order is a text, not 5", None),
        (lambda: iosched.simulate(disk=iosched.Disk(write_cache="no")), "write_cache is True or False, not 'no'", None),
        (lambda: iosched.simulate(schedulers=None), "schedulers: one or a list of them, not None", None),
        (lambda: iosched.simulate(schedulers=[5]), "a scheduler is a name or a Scheduler, not 5", None),
        (lambda: iosched.Scheduler(None), "a scheduler's name is a text, not None", None),
        (lambda: iosched.simulate(iosched.Trace(RECORDING, wrap="yes")), "wrap is True or False, not 'yes'", None),
        (lambda: iosched.simulate(iosched.Trace(RECORDING, speed="2")), "speed is a number of times, not '2'", None),
        (lambda: iosched.simulate(iosched.Trace(None)), "trace is a name or a path, not None", None),
        (lambda: iosched.simulate(until="5"), "until is a number of seconds or a timedelta, not '5'", None),
        (lambda: iosched.simulate(until=10**400), "until is a number of seconds", None),
        (lambda: iosched.simulate(scsi="False"), "scsi is True or False, not 'False'", None),
        (lambda: iosched.simulate(seed=None), "seed is None", None),
        (lambda: iosched.simulate(initial=5), "initial is a text, not 5", None),
        (lambda: iosched.simulate(events=5), "events is a name or a path, not 5", None),
        (lambda: iosched.conform(5), "recordings: one or a list of them, not 5", None),
        (lambda: iosched.conform([RECORDING, 5]), "a recording is a name or a path, not 5", None),
        (lambda: iosched.conform(RECORDING, 5), "a scheduler is a name or a Scheduler, not 5", None),
        (lambda: iosched.conform(RECORDING, tick_phase_us="x"), "tick_phase_us is a number of microseconds, not 'x'", None),
        (lambda: iosched.conform(RECORDING, tunables=5), "tunables is a name or a path, not 5", None),
        (lambda: iosched.conform(RECORDING, initial=5), "initial is a text, not 5", None),
        (lambda: iosched.conform(RECORDING, non_rotational="x"), "non_rotational is True or False, not 'x'", None),
        (lambda: iosched.read_trace(5), "a recording is a name or a path, not 5", None),
        (lambda: iosched.read_record(None), "a record is a name or a path, not None", None),
    ],
)
def test_what_cannot_be_done_is_said_with_the_way_out(call, message, hint):
    with pytest.raises(iosched.IoschedError) as failed:
        call()
    assert message in str(failed.value)
    assert failed.value.hint is None or isinstance(failed.value.hint, str)
    assert hint is None or hint in (failed.value.hint or "")


def test_an_error_has_its_hint_and_failures_wherever_it_comes_from_and_through_pickle():
    bare = iosched.IoschedError("cannot")
    assert (str(bare), bare.hint, bare.failures) == ("cannot", None, [])
    whole = iosched.IoschedError("cannot", hint="do this", failures=["one"])
    again = pickle.loads(pickle.dumps(whole))
    assert (str(again), again.hint, again.failures) == ("cannot", "do this", ["one"])
    assert f"{type(whole).__module__}.{type(whole).__qualname__}" == "iosched.IoschedError"
    for call in (lambda: iosched.simulate(until="x"), lambda: iosched.simulate(disk="no-disk"), lambda: iosched.read_record("no-record")):
        with pytest.raises(iosched.IoschedError) as failed:
            call()
        assert failed.value.failures == [] and hasattr(failed.value, "hint")


@pytest.mark.parametrize(
    ("option", "least", "most"),
    [
        ("queue_depth", 1, 65536),
        ("slow_down", 1, (1 << 32) - 1),
        ("device_limit", 1, 4096),
        ("max_sectors_kb", 4, 1 << 20),
        ("hz", 100, 1000),
        ("cpus", 1, 1024),
        ("hardware_queues", 1, 1024),
        ("dirty_ratio", 0, 100),
        ("dirty_background_ratio", 0, 100),
        ("seed", 0, (1 << 64) - 1),
    ],
)
def test_options_have_the_ranges_of_the_command(option, least, most):
    """What is just outside neither of them takes, and the package says which option it is; what is just inside is refused by both or none."""
    of_disk = option in ("queue_depth", "slow_down")

    def is_refused(value):
        command = [os.environ["IOSCHED"], "simulate", "--scheduler", "none", "--until", "1us", f"--{option.replace('_', '-')}={value}"]
        by_command = subprocess.run(command, capture_output=True).returncode != 0
        disk = iosched.Disk(**({option: value} if of_disk else {}))
        try:
            iosched.simulate(disk=disk, schedulers="none", until=1e-6, **({} if of_disk else {option: value}))
            said = ""
        except iosched.IoschedError as cause:
            said = str(cause)
        assert bool(said) == by_command, (value, said)
        return said

    for outside in (least - 1, most + 1):
        assert is_refused(outside).startswith(f"{option} is a whole number from {least} ")
    for inside in (least, most):
        assert "whole number" not in is_refused(inside)


def test_other_threads_run_meanwhile():
    """The two are done side by side: each needs the other to have begun before it ends."""
    begun = threading.Barrier(3)
    found = []

    def work():
        begun.wait()
        found.append(iosched.simulate("random-read", "hdd-7200-fifo", "cfq", until=3).table.num_rows)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    begun.wait()
    counted = 0
    while any(thread.is_alive() for thread in threads):
        counted += 1  # this thread's turn
    for thread in threads:
        thread.join()
    assert counted > 0 and len(found) == 2


ENDED_BY_ANOTHER_THREAD = """
import os, signal, sys, threading
import iosched
sys.setswitchinterval(1e6)  # no thread is interrupted: another runs only if this one gives way by itself
gate, counted = threading.Event(), []

def other():
    gate.wait()
    counted.extend(range(1000))
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=other).start()
try:
    gate.set()
    iosched.simulate("random-read", "hdd-7200-fifo", "noop", until=1e8)  # without end
finally:
    print(len(counted))
"""


def test_another_thread_runs_while_one_simulates_without_being_interrupted():
    """Otherwise it would never end."""
    ran = subprocess.run([sys.executable, "-c", ENDED_BY_ANOTHER_THREAD], capture_output=True, text=True)
    assert ran.stdout == "1000\n", ran.stderr
    assert "in simulate" in ran.stderr and "KeyboardInterrupt" in ran.stderr


def test_a_record_of_a_newer_version_and_a_damaged_one_are_named(tmp_path):
    lines = (REPOSITORY / "docs/example-record/record.jsonl").read_text().splitlines()
    header = json.loads(lines[0])
    for schema, spoiled in ((99, "99"), (header["schema"], "record.jsonl")):
        lines[0] = json.dumps({**header, "schema": schema, **({} if schema == 99 else {"plan": None})})
        (tmp_path / "record.jsonl").write_text("\n".join(lines))
        with pytest.raises(iosched.IoschedError, match=spoiled):
            iosched.read_record(tmp_path)


def test_evidence_is_a_table_and_parquet_files_of_before_become_a_dataset(tmp_path):
    record = Path(os.environ["IOSCHED_REPOSITORY"]) / "docs/example-record"
    command = [os.environ["IOSCHED"], "evidence"]
    subprocess.run([*command, "add", record, "--to", tmp_path / "fleet", "--yes"], check=True, capture_output=True)
    table = iosched.read_evidence(tmp_path / "fleet")
    assert table.num_rows > 0 and set(table["class"].to_pylist()) == {"emulated-hdd"}
    pq.write_table(table, tmp_path / "fleet.parquet")
    assert len(pandas.read_parquet(tmp_path / "fleet.parquet")) == len(polars.read_parquet(tmp_path / "fleet.parquet"))
    # As iosched wrote them: twice, and once with fewer rounds.
    old = tmp_path / "old/class=emulated-hdd"
    old.mkdir(parents=True)
    (tmp_path / "old/.machines.key").write_text("0" * 64)
    shorter = table.slice(0, 1).set_column(22, "rounds", pa.array([2], pa.int32()))
    for name, rows in (("1", shorter), ("2", table), ("3", table)):
        counted = pa.array(["all"] * rows.num_rows)
        pq.write_table(rows.drop_columns(["class"]).append_column("p99_counted", counted), old / f"{name}.parquet")
    refused = subprocess.run([*command, "show", tmp_path / "old"], capture_output=True, text=True)
    assert refused.returncode == 12 and "iosched.convert_evidence(" in refused.stderr
    assert iosched.convert_evidence(tmp_path / "old", tmp_path / "new") == table.num_rows
    assert iosched.read_evidence(tmp_path / "new").sort_by("arm").equals(table.sort_by("arm"))
    assert (tmp_path / "new/.machines.key").stat().st_mode & 0o777 == 0o600
    shown = [subprocess.run([*command, "show", tmp_path / of, "--json"], check=True, capture_output=True) for of in ("fleet", "new")]
    assert [json.loads(one.stdout)["findings"] for one in shown][0] == json.loads(shown[1].stdout)["findings"]
    for call in (lambda: iosched.convert_evidence(tmp_path / "old", tmp_path / "new"), lambda: iosched.read_evidence(tmp_path)):
        with pytest.raises(iosched.IoschedError):
            call()


def test_an_older_python_than_is_served_is_told_so():
    wheel = Path(os.environ["IOSCHED_WHEEL"])
    assert importlib.metadata.metadata("iosched")["Requires-Python"] == ">=3.9"
    assert "-cp39-abi3-" in wheel.name
    older = ["--python-version", "3.8", "--only-binary", ":all:", "--no-deps", "--dry-run", "--target", "t"]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-index", *older, str(wheel)]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "is not a supported wheel" in refused.stderr or "requires a different Python" in refused.stderr, refused.stderr


def test_ctrl_c_ends_the_waiting():
    endless = "import iosched; print('begun', flush=True); iosched.simulate('random-read', 'hdd-7200-fifo', 'noop', until=1e8)"
    process = subprocess.Popen([sys.executable, "-c", endless], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode != 0
    assert "KeyboardInterrupt" in said
