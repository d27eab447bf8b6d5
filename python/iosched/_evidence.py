"""Datasets of `iosched evidence`: as Arrow tables, and made of the Parquet files that iosched wrote before."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from pathlib import Path
from typing import Any, Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from ._error import IoschedError

_KIND = "iosched-evidence"
_SCHEMA = 3
_ROWS = "rows.jsonl.gz"
_KEY = ".machines.key"
_TEXT, _WHOLE, _NUMBER, _FLAG = pa.string(), pa.int32(), pa.float64(), pa.bool_()
_COLUMNS = pa.schema(
    [("record", _TEXT), ("machine", _TEXT), ("source", _TEXT), ("day", _WHOLE), ("program", _TEXT), ("model", _TEXT),
     ("firmware", _TEXT), ("transport", _TEXT), ("rotational", _FLAG), ("is_virtual", _FLAG), ("queue_depth", _WHOLE),
     ("kernel", _TEXT), ("file_system", _TEXT), ("load_class", _TEXT), ("load", _TEXT), ("fingerprint", _TEXT),
     ("objective", _TEXT), ("arm", _TEXT), ("against", _TEXT), ("is_baseline", _FLAG), ("log_ratio", _NUMBER),
     ("standard_error", _NUMBER), ("rounds", _WHOLE), ("p99_ratio", _NUMBER), ("cpu_ratio", _NUMBER)]
)  # fmt: skip


def read_evidence(directory: str | os.PathLike[str]) -> pa.Table:
    """The rows of a dataset, with the columns of results/fleet.md and `class`, the class of the drive.

    >>> pyarrow.parquet.write_table(iosched.read_evidence("fleet"), "fleet.parquet")
    """
    place = Path(directory) / _ROWS
    try:
        with gzip.open(place, "rt", encoding="utf-8") as lines:
            head, *rows = (json.loads(line) for line in lines)
        if not isinstance(head, dict) or (head.get("kind"), head.get("schema")) != (_KIND, _SCHEMA):
            raise IoschedError(f"{place} is no {_KIND} of schema {_SCHEMA}", "use the iosched that wrote it")
        table = pa.Table.from_pylist(rows, _COLUMNS)
    except FileNotFoundError:
        raise IoschedError(f"there is no evidence in {directory}", "convert_evidence() makes it of Parquet files") from None
    except (OSError, EOFError, ValueError, zlib.error, pa.ArrowException) as cause:
        raise IoschedError(f"cannot read {place}: {cause}") from cause
    day = table.schema.get_field_index("day")
    table = table.set_column(day, "day", table["day"].cast(pa.date32()))
    return table.append_column("class", pa.array([_class(row) for row in rows], _TEXT))


def _class(row: dict[str, Any]) -> str:
    transport = "unknown" if row["transport"] in ("", "-") else row["transport"]
    kind = {True: "hdd", False: "ssd", None: "disk"}[row["rotational"]]
    return f"{transport}-{'virtual' if row['is_virtual'] else kind}"


def convert_evidence(old: str | os.PathLike[str], new: str | os.PathLike[str]) -> int:
    """Makes a new dataset of one of Parquet files (`class=.../....parquet`), with the secret that names its machines. Of a
    comparison that is there several times, the one with the most rounds is taken. Returns how many rows it has."""
    files = sorted(Path(old).glob("class=*/[!.]*.parquet"))
    if not files:
        raise IoschedError(f"{old} has no class=.../....parquet")
    place = Path(new)
    if place.exists() and any(place.iterdir()):
        raise IoschedError(f"{new} is there already", "name a new directory")
    longest: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in _rows_of_parquet(files):
        arms = sorted((row["arm"], row["against"]))
        key = (row["record"], row["fingerprint"], row["objective"], *arms)
        if key not in longest or row["rounds"] > longest[key]["rounds"]:
            longest[key] = row
    place.mkdir(parents=True, exist_ok=True)
    key_file = Path(old) / _KEY
    if key_file.exists():
        secret = os.open(place / _KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(secret, "wb") as out:
            out.write(key_file.read_bytes())
    unfinished = place / f".{_ROWS}"
    with gzip.open(unfinished, "wt", encoding="utf-8") as out:
        for line in ({"kind": _KIND, "schema": _SCHEMA}, *longest.values()):
            out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    unfinished.rename(place / _ROWS)
    return len(longest)


def _rows_of_parquet(files: Iterable[Path]) -> Iterable[dict[str, Any]]:
    for file in files:
        try:
            # The directory is no column here; a day is a number in JSON.
            table = pq.ParquetFile(file).read(columns=_COLUMNS.names)
            day = table.schema.get_field_index("day")
            table = table.set_column(day, "day", table["day"].cast(_WHOLE))
            yield from table.select(_COLUMNS.names).cast(_COLUMNS).to_pylist()
        except (OSError, ValueError, KeyError, pa.ArrowException) as cause:
            raise IoschedError(f"cannot read {file}: {cause}", "take it from a copy, or move it away") from cause
