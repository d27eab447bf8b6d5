#!/usr/bin/env python3
"""Reads the tidy data of iosched and draws the ratios of its arms round by round.

    iosched report DIR --csv > trials.csv
    python3 examples/analysis/compare.py trials.csv ratios.png --baseline none

Needs pandas and matplotlib (Debian: python3-pandas python3-matplotlib). With polars the same steps are read_csv, filter,
pivot, and a division.
"""

import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

# Okabe and Ito's colours, as on iosched's own page.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]


def read(path):
    """One row per trial and metric; metrics of single workers have a name in `worker`."""
    return pd.read_csv(path, keep_default_na=False)


def ratios(data, metric, baseline):
    """Each arm's metric over the baseline's in the same round of the same load and record."""
    of_all = data[(data["worker"] == "") & (data["metric"] == metric)]
    rounds = of_all.pivot_table(index=["record", "load", "round"], columns="arm", values="value")
    return rounds.div(rounds[baseline], axis=0)


def geometric_mean(values):
    return float(np.exp(np.log(values.dropna()).mean()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="CSV file of `iosched report`")
    parser.add_argument("picture", help="PNG or SVG file to write")
    parser.add_argument("--metric", default="throughput")
    parser.add_argument("--baseline", default="none")
    wanted = parser.parse_args()

    table = ratios(read(wanted.data), wanted.metric, wanted.baseline)
    loads = list(table.index.get_level_values("load").unique())
    figure, panels = plt.subplots(1, len(loads), figsize=(5 * len(loads), 3.6), squeeze=False)
    for panel, load in zip(panels[0], loads):
        of_load = table.xs(load, level="load")
        for place, arm in enumerate(of_load.columns):
            values = of_load[arm].dropna()
            print(f"{load},{arm},{len(values)},{geometric_mean(values):.6f}")
            panel.plot(values, np.full(len(values), -place), "o", color=COLOURS[place % 6], alpha=0.6)
        panel.axvline(1, color="#57606a", linewidth=1)
        panel.set_yticks([-place for place in range(len(of_load.columns))], of_load.columns)
        panel.set_xlabel(f"{wanted.metric}, ratio to {wanted.baseline}, each round")
        panel.set_title(load)
    figure.tight_layout()
    figure.savefig(wanted.picture, dpi=150)


if __name__ == "__main__":
    main()
