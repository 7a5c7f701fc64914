"""Benchmark results as JSON lines and as a table."""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import vkbackend

from .baseline import Peer
from .measure import Measurement
from .roofline import Ceiling

HERE = Path(__file__).parent
RESULTS = HERE / "results"
Record = Mapping[str, Any]


def record(
    title: str,
    dtype: str,
    measured: Measurement,
    info: vkbackend.DeviceInfo,
    peer: Peer,
    ceiling: Ceiling,
    commit: str,
) -> dict[str, Any]:
    """Return the JSON record of one result; times are milliseconds.

    `ratio` is the peer's time over ours; `of_ceiling` the share of the machine's limit
    that is reached, None where no limit is known. By the host's clock there are also
    `host_milliseconds`, until a run returned, and `counts` of a run.
    """
    case = measured.case
    least = ceiling.seconds(case.moved, case.operations)
    peer_seconds = measured.peer_seconds
    row: dict[str, Any] = {
        "workload": title,
        "dtype": dtype,
        "device": info.name,
        "driver": f"{info.driver_name} {info.driver_info}".strip(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
        "commit": commit,
        "clock": "wall" if case.wall or info.kind == "software" else "device",
        "milliseconds": _significant(measured.seconds * 1e3),
        "peer": peer.name,
        "peer_milliseconds": _significant(peer_seconds and peer_seconds * 1e3),
        "ratio": _significant(measured.ratio),
        "relative_error": _significant(measured.error),
        "tolerance": case.tolerance,
        "gigabytes_per_second": _rate(case.moved, measured.seconds * 1e9),
        "teraflops": _rate(case.operations, measured.seconds * 1e12),
        "of_ceiling": _significant(least / measured.seconds if least else None),
        "peak_mebibytes": _significant(measured.peak / 2**20),
    }
    if measured.host_seconds is not None:
        row["host_milliseconds"] = _significant(measured.host_seconds * 1e3)
        counts = measured.counts.items()
        row["counts"] = {name: _significant(count) for name, count in counts}
    return row


def _significant(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def _rate(amount: int, seconds: float) -> float | None:
    return _significant(amount / seconds) if amount else None


def wrong(row: Record) -> bool:
    """Return whether the results differed by more than they may."""
    error = row["relative_error"]
    return error is not None and not error <= row["tolerance"]


def append(row: Record, path: Path) -> None:
    """Add a line to a file of results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def file_of(info: vkbackend.DeviceInfo) -> Path:
    """Return the file that the results of a device go to."""
    name = "".join(c if c.isalnum() else "-" for c in info.name.split("(")[0].strip())
    return RESULTS / f"{name.lower()}.jsonl"


def commit() -> str:
    """Return the commit of the checkout, with "+" if it was changed since."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+"],
            cwd=HERE,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


HEADING = (
    f"{'workload':<34} {'dtype':<9} {'ms':>9} {'peer ms':>9} {'ratio':>6}"
    f" {'GB/s':>7} {'TFLOP/s':>8} {'limit':>6} {'MiB':>7} {'error':>8}"
)


def line(row: Record) -> str:
    """Return a result as a line under `HEADING`; "limit" is the share of it reached."""
    share = row["of_ceiling"]
    cells = [
        f"{row['workload']:<34} {row['dtype']:<9}",
        f"{row['milliseconds']:9.4f}",
        _cell(row["peer_milliseconds"], "9.4f", 9),
        _cell(row["ratio"], "6.2f", 6),
        _cell(row["gigabytes_per_second"], "7.0f", 7),
        _cell(row["teraflops"], "8.3g", 8),
        f"{share:6.0%}" if share else " " * 5 + "-",
        _cell(row["peak_mebibytes"], "7.0f", 7),
        _cell(row["relative_error"], "8.1e", 8),
        "WRONG" if wrong(row) else "",
    ]
    return " ".join(cells).rstrip()


def _cell(value: float | None, form: str, width: int) -> str:
    return "-".rjust(width) if value is None else f"{value:{form}}"
