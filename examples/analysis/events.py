#!/usr/bin/env python3
"""Reads the events of a recording and shows how long the disk took, and how far it had to go.

    iosched simulate --scheduler cfq --events cfq.events      # or a trace of blktrace, or of `capture`
    iosched report cfq.events --csv > events.csv              # or --parquet events.parquet
    python3 examples/analysis/events.py events.csv service.png

Prints op,requests,mean_service_ms,p99_service_ms,mean_seek_sectors. Needs pandas and matplotlib (Debian:
python3-pandas python3-matplotlib); Parquet files need python3-pyarrow, too.
"""

import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

# Okabe and Ito's colours, as on iosched's own page.
COLOURS = {"read": "#0072b2", "write": "#d55e00", "discard": "#009e73"}


def read(path):
    """One row per event, in the order of time."""
    if path.endswith(".parquet"):
        return pd.read_parquet(path)
    return pd.read_csv(path)


def requests(events):
    """One row per request: when the disk got it, and how long it took (service_ns)."""
    key = ["device", "op", "sector"]
    # The same sectors may be asked for again: the n-th issue ends with the n-th completion.
    stages = {}
    for stage in ["issued", "completed"]:
        of_stage = events[events["stage"] == stage].copy()
        of_stage["nth"] = of_stage.groupby(key).cumcount()
        stages[stage] = of_stage
    done = stages["completed"][[*key, "nth", "time_ns"]]
    pairs = stages["issued"].merge(done, on=[*key, "nth"], suffixes=("", "_done"))
    pairs["service_ns"] = pairs["time_ns_done"] - pairs["time_ns"]
    return pairs


def seeks(events):
    """How far the disk had to go from the end of each request to the start of the next, in sectors."""
    issued = events[events["stage"] == "issued"]
    ends = (issued["sector"] + issued["sectors"]).shift()
    return (issued["sector"] - ends).abs().dropna()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("events", help="CSV or Parquet file of `iosched report`")
    parser.add_argument("picture", help="PNG or SVG file to write")
    wanted = parser.parse_args()

    events = read(wanted.events)
    figure, (times, places) = plt.subplots(1, 2, figsize=(10, 3.6))
    for op, of_op in requests(events).groupby("op"):
        ms = of_op["service_ns"] / 1e6
        seek = seeks(events[events["op"] == op]).mean()
        print(f"{op},{len(ms)},{ms.mean():.6f},{ms.quantile(0.99):.6f},{seek:.1f}")
        share = np.arange(1, len(ms) + 1) / len(ms) * 100
        times.plot(np.sort(ms), share, color=COLOURS[op], label=op)
        places.plot(of_op["time_ns"] / 1e9, of_op["sector"] * 512 / 1e9, ".", color=COLOURS[op], alpha=0.5)
    times.set_xlabel("service time, ms")
    times.set_ylabel("share of requests, %")
    times.legend()
    places.set_xlabel("time, s")
    places.set_ylabel("position on the disk, GB")
    figure.tight_layout()
    figure.savefig(wanted.picture, dpi=150)


if __name__ == "__main__":
    main()
