"""Lines of a sweep, and what is printed of them."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import vkbackend

from ..baseline import Peer
from ..results import append, file_of, wrong
from .plan import SweepCase
from .timing import TOLERANCES, Measured

Line = Mapping[str, Any]

LIMITS = (0.5, 0.8, 1.0)
WORST = 20
CHANGED = 0.03
"""Share by which a time has to differ to be listed as changed."""

__all__ = ["append", "wrong"]


def path_of(info: vkbackend.DeviceInfo) -> Path:
    """Return the file that a device's sweeps go to."""
    plain = file_of(info)
    return plain.with_name(f"{plain.stem}-sweep{plain.suffix}")


def record(
    case: SweepCase,
    found: Measured | Exception,
    info: vkbackend.DeviceInfo,
    peer: Peer,
    commit: str,
) -> dict[str, Any]:
    """Return the JSON record of one case; times are milliseconds.

    It has the fields of `bench.results.record`, and `alone_milliseconds` and
    `peer_alone_milliseconds`, of a call whose result is waited for at once,
    `alone_ratio`, the `function`, the `form` and the `shape`, and of a call that
    failed the `failure`, without times.
    """
    row = {
        "workload": case.title,
        "dtype": case.dtype,
        "device": info.name,
        "driver": f"{info.driver_name} {info.driver_info}".strip(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
        "commit": commit,
        "function": case.unit.name,
        "form": case.form.name,
        "shape": list(case.form.shape),
        "direction": case.direction,
        "peer": peer.name,
        "tolerance": TOLERANCES.get(case.dtype, 1e-5),
    }
    if isinstance(found, Exception):
        return row | dict.fromkeys(_TIMED) | {"failure": _text(found)}
    theirs = found.theirs
    ratio = theirs and theirs.together / found.ours.together
    return row | {
        "clock": "wall" if found.wall else "device",
        "milliseconds": _significant(found.ours.together * 1e3),
        "peer_milliseconds": _significant(theirs and theirs.together * 1e3),
        "ratio": _significant(ratio),
        "alone_milliseconds": _significant(found.ours.alone * 1e3),
        "peer_alone_milliseconds": _significant(theirs and theirs.alone * 1e3),
        "alone_ratio": _significant(theirs and theirs.alone / found.ours.alone),
        "relative_error": _significant(found.error),
        "gigabytes_per_second": _significant(found.moved / found.ours.together / 1e9),
    }


_TIMED = (
    "milliseconds",
    "peer_milliseconds",
    "ratio",
    "alone_milliseconds",
    "peer_alone_milliseconds",
    "alone_ratio",
    "relative_error",
)


def _significant(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:200]


def read(path: Path) -> list[Line]:
    """Return the lines of a file, without a last one that was cut off."""
    lines = []
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(text))
            except ValueError:
                continue
    return lines


def key(line: Line) -> tuple[str, str]:
    """Return what tells a case from others."""
    return line["workload"], line["dtype"]


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean, NaN of nothing."""
    if not values:
        return math.nan
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(lines: Iterable[Line], show: Callable[[str], None]) -> None:
    """Print the means, the counts and the worst of the lines of a sweep."""
    lines = list(lines)
    for title, ratio, ours, theirs in (
        ("time in a row", "ratio", "milliseconds", "peer_milliseconds"),
        (
            "evaluated alone",
            "alone_ratio",
            "alone_milliseconds",
            "peer_alone_milliseconds",
        ),
    ):
        ranked = sorted((each for each in lines if each[ratio]), key=lambda e: e[ratio])
        ratios = [each[ratio] for each in ranked]
        below = ", ".join(
            f"{sum(each < limit for each in ratios)} below {limit}" for limit in LIMITS
        )
        show(
            f"{title}: {len(ranked)} cases, geometric mean of peer/ours"
            f" {geometric_mean(ratios):.3f}; {below}"
        )
        for each in ranked[:WORST]:
            show("  " + _row(each, ours, theirs, ratio))
    wrongs = [each for each in lines if each["milliseconds"] and wrong(each)]
    failed = [each for each in lines if each.get("failure")]
    if wrongs:
        show(f"WRONG: {len(wrongs)}")
    for each in wrongs:
        show(f"  {_name(each)} {each['relative_error']:.1e}")
    if failed:
        show(f"failed: {len(failed)}")
    for each in failed:
        show(f"  {_name(each)} {each['failure']}"[:150])


def _name(line: Line) -> str:
    return f"{line['workload']:<44} {line['dtype']:<9}"


def _row(line: Line, ours: str, theirs: str, ratio: str) -> str:
    mark = " WRONG" if wrong(line) else ""
    return (
        f"{_name(line)} {line[theirs] * 1e3:11.1f} / {line[ours] * 1e3:11.1f} us"
        f" {line[ratio]:7.3f}{mark}"
    )


def table(lines: Iterable[Line], show: Callable[[str], None]) -> None:
    """Print a line for each case: the peer's and our microseconds, both ways."""
    show(f"{'case':<54} {'peer us':>10} {'ours':>10} ratio | alone")
    for each in lines:
        if not each["milliseconds"]:
            show(f"{_name(each)} FAILED {each.get('failure', '')}"[:150])
            continue
        cells = [
            _cell(each["peer_milliseconds"]),
            _cell(each["milliseconds"]),
            _ratio(each["ratio"]),
            "|",
            _cell(each["peer_alone_milliseconds"]),
            _cell(each["alone_milliseconds"]),
            _ratio(each["alone_ratio"]),
            "WRONG" if wrong(each) else "",
        ]
        show(f"{_name(each)} {' '.join(cells)}".rstrip())


def _cell(milliseconds: float | None) -> str:
    return "-".rjust(10) if milliseconds is None else f"{milliseconds * 1e3:10.1f}"


def _ratio(value: float | None) -> str:
    return "-".rjust(5) if value is None else f"{value:5.2f}"


def compare(
    before: Iterable[Line], after: Iterable[Line], show: Callable[[str], None]
) -> None:
    """Print the cases whose time changed, worst first; of repeated ones the last."""
    old = {key(each): each for each in before}
    new = {key(each): each for each in after}
    shared = [name for name in old if name in new]
    for title, field in (
        ("time in a row", "milliseconds"),
        ("evaluated alone", "alone_milliseconds"),
    ):
        pairs = [
            (new[name][field] / old[name][field], name)
            for name in shared
            if new[name].get(field) and old[name].get(field)
        ]
        changed = sorted(
            (each for each in pairs if abs(each[0] - 1) > CHANGED), reverse=True
        )
        mean = geometric_mean([each for each, _ in pairs])
        show(
            f"{title}: {len(pairs)} cases in both, {len(changed)} changed by more"
            f" than {CHANGED:.0%}, after/before {mean:.3f}"
        )
        for share, name in changed:
            show(
                f"  {' '.join(name):<54} {old[name][field] * 1e3:10.1f} ->"
                f" {new[name][field] * 1e3:10.1f} us {share:6.2f}"
            )
    for name in shared:
        if bool(old[name].get("failure")) != bool(new[name].get("failure")):
            show(f"  {' '.join(name)}: failure {new[name].get('failure')}")
