#!/usr/bin/env python3
"""What a sweep costs, and whether it loses anything when nodes of its cluster die. Prints JSON lines.

    pip install 'iosched[ray]'
    python3 sweep.py cluster     # 2000 recordings x 6 schedulers on 4 nodes of this machine, 3 of which are killed on the way,
                                 # against the same sweep here, which nobody disturbs: byte for byte
    python3 sweep.py scaling     # tasks per second with two workers as a ratio to one, beside what the machine itself gives
    python3 sweep.py memory      # of a worker and of the sweep, by the length of a recording and by how many there are

The recordings are made by chance from a seed: `--traces` of them with `--accesses` each, in MSR Cambridge's format.
`scaling` wants two cores that nobody else uses. A turn is one, two, two and one workers, and its ratio that of the sums: a
machine that gets steadily slower or faster favours neither. Beside it, in the same order, stand one process and two that only
count, between them the same work: what two of the machine's processors are worth together.
"""

import argparse
import hashlib
import json
import operator
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import iosched

SCHEDULERS = ["noop", "deadline", "cfq", "mq-deadline", "kyber", "bfq"]
DISK = "ssd-sata"
#: How far `scaling` counts: about as long as its sweeps take.
COUNTED = 200_000_000
#: How many recordings of how many accesses.
SIZES = {"scaling": (40, 15_000)}


def make_traces(directory, count, accesses):
    """Each of its own mix: a share of reads, a rate, a size, a hot tenth of the volume."""
    directory.mkdir(exist_ok=True)
    for number in range(count):
        chance = random.Random(number)
        reads, rate, size = chance.uniform(0.1, 0.9), chance.uniform(200, 2000), chance.choice([4096, 8192, 65536])
        at, lines = 128166372000000000, []
        for _ in range(accesses):
            at += int(chance.expovariate(rate) * 1e7)  # in units of 100 ns
            sectors = (1 << 20) if chance.random() < 0.8 else (10 << 20)
            kind = "Read" if chance.random() < reads else "Write"
            lines.append(f"{at},host,0,{kind},{chance.randrange(sectors) * 4096},{size},0\n")
        (directory / f"{number:07}.csv").write_text("".join(lines))


def traces(directory):
    for path in sorted(directory.iterdir()):
        yield iosched.Trace(str(path), format="msr", wrap=True)


def contents(out):
    """Each file of a dataset with a digest of its bytes."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(out).rglob("*.parquet")}


def processor_seconds():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def measured(recordings, out, workers):
    """A sweep here, with what it took."""
    began, used = time.monotonic(), processor_seconds()
    swept = iosched.sweep(traces(recordings), SCHEDULERS, [DISK], out=str(out), workers=workers)
    took, used = time.monotonic() - began, processor_seconds() - used
    assert not swept.failed, swept.failed[0]
    return {
        "tasks": swept.done,
        "workers": workers,
        "seconds": round(took, 2),
        "processor_seconds": round(used, 2),
        "load_average": round(os.getloadavg()[0], 1),
        "sweep_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "worker_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
    }


def on_its_own(recordings, out, workers):
    """The same in a process of its own, whose memory is its own."""
    command = [sys.executable, __file__, "one", "--recordings", recordings, "--out", out, "--workers", str(workers)]
    return json.loads(subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE).stdout)


def say(**found):
    print(json.dumps(found), flush=True)


def cluster(work, options):
    import ray
    from ray.cluster_utils import Cluster

    recordings = work / "traces"
    make_traces(recordings, options.traces, options.accesses)
    whole = on_its_own(recordings, work / "whole", os.cpu_count())
    requests = options.traces * options.accesses * len(SCHEDULERS)
    per_million = round(whole["processor_seconds"] / requests * 1e6, 2)
    sizes = [path.stat().st_size for path in (work / "whole").rglob("*.parquet")]
    say(what="undisturbed", **whole, processor_seconds_per_million_requests=per_million, bytes_per_task=round(statistics.fmean(sizes)))
    tasks = options.traces * len(SCHEDULERS)
    beset = work / "beset"
    nodes_of = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        nodes = [nodes_of.add_node(num_cpus=1) for _ in range(3)]
        ray.init(address=nodes_of.address, log_to_driver=False)
        deaths, is_over = [], threading.Event()

        def kill():
            """One node at a quarter, at the half and at three quarters of the tasks."""
            for number, node in enumerate(nodes):
                done = 0
                while done < (number + 1) * tasks // 4 and not is_over.is_set():
                    time.sleep(0.2)
                    done = sum(1 for _ in beset.rglob("[0-9a-f]*.parquet"))
                if not is_over.is_set():
                    nodes_of.remove_node(node, allow_graceful=False)
                    deaths.append(done)

        killer = threading.Thread(target=kill)
        killer.start()
        began = time.monotonic()
        try:
            swept = iosched.sweep(traces(recordings), SCHEDULERS, [DISK], out=str(beset), address=nodes_of.address)
        finally:
            is_over.set()
            killer.join()
        took = time.monotonic() - began
    finally:
        ray.shutdown()
        nodes_of.shutdown()
    assert len(deaths) == 3, f"only {len(deaths)} nodes died before the sweep was over"
    assert (swept.done, swept.before, swept.failed) == (tasks, 0, []), swept
    assert contents(beset) == contents(work / "whole"), "other rows than without deaths"
    say(what="three of four nodes killed", tasks=tasks, killed_after=deaths, seconds=round(took, 1), dataset="the same, byte for byte")


def counting(processes):
    """Seconds in which so many processes count to the same number between them."""
    count = f"for _ in range({COUNTED // processes}): pass"
    began = time.monotonic()
    started = [subprocess.Popen([sys.executable, "-S", "-c", count]) for _ in range(processes)]
    for process in started:
        assert process.wait() == 0
    return time.monotonic() - began


def scaling(work, options):
    recordings = work / "traces"
    make_traces(recordings, options.traces, options.accesses)
    ratios, worth, costs = [], [], []
    for turn in range(options.turns):
        seconds, used, counted = {1: 0, 2: 0}, {1: 0, 2: 0}, {1: 0, 2: 0}
        for number, workers in enumerate((1, 2, 2, 1)):
            out = work / f"{turn}-{number}"
            swept = on_its_own(recordings, out, workers)
            shutil.rmtree(out)
            seconds[workers] += swept["seconds"]
            used[workers] += swept["processor_seconds"]
            counted[workers] += counting(workers)
        ratios.append(seconds[1] / seconds[2])
        worth.append(counted[1] / counted[2])
        costs.append(used[2] / used[1])
        found = {"ratio": ratios[-1], "counting": worth[-1], "processor_time": costs[-1]}
        say(what="turn", seconds=[round(took, 2) for took in seconds.values()], **rounded(found), load_average=swept["load_average"])
    found = {"ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios), "counting": statistics.median(worth)}
    found["ratio_to_counting"] = statistics.median(map(operator.truediv, ratios, worth))
    found["processor_time"] = statistics.median(costs)
    say(what="scaling", turns=options.turns, tasks=options.traces * len(SCHEDULERS), **rounded(found))


def rounded(found):
    return {name: round(number, 3) for name, number in found.items()}


def memory(work, options):
    for accesses in (options.accesses, 100 * options.accesses, 1000 * options.accesses):
        recordings = work / f"of-{accesses}"
        make_traces(recordings, 2, accesses)
        say(what="by length", accesses=accesses, **on_its_own(recordings, work / f"out-{accesses}", 1))
    for count in (options.traces // 10, options.traces):
        recordings = work / f"many-{count}"
        make_traces(recordings, count, 10)
        say(what="by number", traces=count, **on_its_own(recordings, work / f"out-many-{count}", os.cpu_count()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cluster", "scaling", "memory", "one"])
    parser.add_argument("--traces", type=int)
    parser.add_argument("--accesses", type=int)
    parser.add_argument("--turns", type=int, default=7)
    for name in ("--recordings", "--out"):
        parser.add_argument(name, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    usual = SIZES.get(options.what, (2000, 100))
    options.traces, options.accesses = options.traces or usual[0], options.accesses or usual[1]
    if options.what == "one":
        say(**measured(options.recordings, options.out, options.workers))
        return
    with tempfile.TemporaryDirectory(prefix="iosched-sweep-") as work:
        {"cluster": cluster, "scaling": scaling, "memory": memory}[options.what](Path(work), options)


if __name__ == "__main__":
    main()
