#!/usr/bin/env python3
"""How long `iosched.simulate()` takes as a ratio to the command `iosched simulate`, which must say the same. Prints JSON lines.

    python3 speed.py --iosched ../../target/release/iosched

Both are to be built for release, from the same source. A turn is Python, command, command, Python, and its ratio that of the
sums: a machine that gets steadily slower or faster favours neither. Processor time is what the work itself took, of Python
all its threads; of the command its start counts, and of Python the conversion of what it prints, but not the import.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import time

import iosched

#: Loads over disks under schedulers, with the seconds of the disk that are simulated at `--scale 1`: a second or so of ours.
CASES = [
    ("random-read", "hdd-7200", "noop", 50_000),
    ("random-read", "ssd-sata", "mq-deadline", 40),
    ("random-read", "ssd-nvme", "none", 15),
    ("readers-vs-writer", "hdd-7200", "cfq", 25_000),
    ("readers-vs-writer", "ssd-sata", "bfq", 750),
]


def took(work):
    """Seconds and processor seconds of some work, those of children that have ended among them, and what it gave."""
    before, began = processor_seconds(), time.monotonic()
    gave = work()
    return time.monotonic() - began, processor_seconds() - before, gave


def processor_seconds():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def by_python(load, disk, scheduler, until):
    return iosched.simulate(load, disk, scheduler, until=until).to_dict()


def by_command(command, load, disk, scheduler, until):
    arguments = ["simulate", "--load", load, "--disk", disk, "--scheduler", scheduler, "--until", str(until), "--json"]
    return json.loads(subprocess.run([command, *arguments], check=True, stdout=subprocess.PIPE).stdout)


def without_wall(simulated):
    """What both must say: all but the time that it took."""
    runs = [{name: value for name, value in run.items() if name != "wall_ns"} for run in simulated["runs"]]
    return {**simulated, "runs": runs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iosched", default="iosched", help="the command")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1, help="so many times as much is simulated")
    options = parser.parse_args()
    all_ratios = []
    for load, disk, scheduler, until in CASES:
        until = until * options.scale
        work = {
            "python": lambda: by_python(load, disk, scheduler, until),
            "command": lambda: by_command(options.iosched, load, disk, scheduler, until),
        }
        assert without_wall(work["python"]()) == without_wall(work["command"]()), f"{load} over {disk}: the two say different things"
        ratios, processor_ratios = [], []
        for _ in range(options.turns):
            seconds, processor = dict.fromkeys(work, 0), dict.fromkeys(work, 0)
            for who in ("python", "command", "command", "python"):
                wall, used, _ = took(work[who])
                seconds[who] += wall
                processor[who] += used
            ratios.append(seconds["python"] / seconds["command"])
            processor_ratios.append(processor["python"] / processor["command"])
        all_ratios += processor_ratios
        found = {"time": statistics.median(ratios), "processor_time": statistics.median(processor_ratios)}
        found |= {"least": min(processor_ratios), "most": max(processor_ratios), "command_seconds": seconds["command"] / 2}
        case = f"{load} over {disk} under {scheduler}"
        rounded = {name: round(number, 3) for name, number in found.items()}
        print(json.dumps({"case": case, **rounded, "load_average": round(os.getloadavg()[0], 1)}), flush=True)
    print(json.dumps({"cases": len(CASES), "turns": options.turns, "processor_time": round(statistics.median(all_ratios), 3)}))


if __name__ == "__main__":
    main()
