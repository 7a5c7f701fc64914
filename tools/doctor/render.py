"""Renderer of a report: text aligned and wrapped to the terminal's width. Pure."""

import textwrap
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, NamedTuple

from vkbackend.memory.memory import gibibytes

from . import requirements
from .diagnosis import chosen_device

Json = dict[str, Any]

_WIDEST = 132
_NARROWEST = 40
_MARK_WIDTH = 7
_COLOURS = {"ok": "32", "FAIL": "31", "warn": "33", "note": "36", "skip": "2"}
_BOLD = "1"
_MARKS = {"ok": "ok", "skipped": "skip", "error": "FAIL", "warning": "warn"}


class Entry(NamedTuple):
    """Entry: a mark, a label, and text that is wrapped beside them."""

    mark: str
    label: str
    text: str


def render(report: Json, columns: int, colour: bool) -> str:
    """Return the text of a report with its diagnosis.

    Parameters
    ----------
    report : dict
        What `report.gather` returns, with `diagnosis`.
    columns : int
        Width of the terminal.
    colour : bool
        Whether to mark words with ANSI colours.
    """
    width = max(_NARROWEST, min(columns, _WIDEST))
    lines = []
    for title, rows in _sections(report):
        lines += [_paint(title, _BOLD, colour), *_table(list(rows), width, colour), ""]
    verdict = report["diagnosis"]
    word = "The library can work" if verdict["works"] else "The library cannot work"
    mark = _COLOURS["ok" if verdict["works"] else "FAIL"]
    said = textwrap.wrap(f"{word}: {verdict['situation']}.", width)
    lines += [_paint(line, mark, colour) for line in said]
    return "\n".join(lines)


def _paint(word: str, code: str, colour: bool) -> str:
    return f"\033[{code}m{word}\033[0m" if colour and code else word


def _table(rows: list[Entry], width: int, colour: bool) -> Iterator[str]:
    """Yield rows with one column of labels; what is too long is wrapped."""
    longest = max((len(row.label) for row in rows), default=0)
    label_width = min(longest, width // 2 - _MARK_WIDTH)
    indent = _MARK_WIDTH + (label_width + 2 if longest else 0)
    for mark, label, text in rows:
        # Paths and names are copied from the screen, so they are never broken.
        wrapped = textwrap.wrap(
            text, width - indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
        head = _paint(f"{mark:<{_MARK_WIDTH - 2}}", _COLOURS.get(mark, ""), colour)
        if len(label) > label_width:
            yield f"  {head}{label}".rstrip()
            label = ""
            head = " " * (_MARK_WIDTH - 2)
        before = f"{label:<{label_width}}  " if longest else ""
        yield f"  {head}{before}{wrapped[0]}".rstrip()
        yield from (" " * indent + line for line in wrapped[1:])


def _sections(report: Json) -> Iterator[tuple[str, Iterator[Entry]]]:
    versions = report["library"]
    yield f"vkdoctor: vkbackend {versions['vkbackend']}", _library(report)
    yield "Loader", _loader(report)
    if report["loader"]["status"] == "ok":
        yield "Drivers", _drivers(report)
        yield "Devices (higher scores are preferred)", _devices(report)
    device = chosen_device(report)
    if device is not None:
        yield f"Features of {device['name']}", _features(device)
        yield "Limits", _limits(device)
    yield "GLSL compiler", _compiler(report)
    yield "Caches", _caches(report)
    yield "Several processes", _processes(report)
    if report["tests"]:
        yield "Self-tests", _tests(report)
    yield "Diagnosis", _diagnosis(report)


def _library(report: Json) -> Iterator[Entry]:
    versions = report["library"]
    packages = f"Python {versions['python']}, NumPy {versions['numpy'] or 'missing'}"
    yield Entry("", "runs on", f"{packages}, {versions['system']}")
    chosen = {**report["switches"], **report["variables"]}
    for name, value in chosen.items():
        if value is not None:
            yield Entry("", name, value or "(empty)")


def _failure(answer: Json) -> Entry:
    return Entry("FAIL", answer["status"], answer["reason"])


def _loader(report: Json) -> Iterator[Entry]:
    answer = report["loader"]
    if answer["status"] != "ok":
        yield _failure(answer)
        return
    found = answer["value"]
    version = ".".join(map(str, found["version"]))
    yield Entry("ok", found["name"], f"Vulkan {version}, {found['path']}")
    yield Entry("", "layers", ", ".join(found["layers"]) or "none")


def _drivers(report: Json) -> Iterator[Entry]:
    for row in report["drivers"]:
        name = PurePath(row["manifest"]).name
        if row["status"] != "ok":
            yield Entry("FAIL", name, f"{row['status']}: {row['reason']}")
        elif row["value"]["problem"]:
            yield Entry("warn", name, row["value"]["problem"])
        else:
            devices = ", ".join(row["value"]["devices"])
            yield Entry("ok" if devices else "-", name, devices or "offers no device")
    if not report["drivers"]:
        yield Entry("FAIL", "none", "no driver manifest was found")


def _devices(report: Json) -> Iterator[Entry]:
    answer = report["devices"]
    if answer["status"] != "ok":
        yield _failure(answer)
        return
    ranked = answer["value"]
    for index, row in enumerate(ranked["devices"]):
        version = ".".join(map(str, row["api_version"]))
        driver = f"{row['driver_name']} {row['driver_info']}".strip()
        said = f"{row['name']}: {row['kind']}, score {row['score']}, Vulkan {version}"
        said += f", {driver}"
        if row["pci_address"]:
            said += f", PCI {row['pci_address']}"
        if row["lacks"]:
            said += f"; cannot be used, lacks {', '.join(row['lacks'])}"
        mark = "ok" if index == ranked["chosen"] else "-"
        yield Entry(mark, str(index), said)
        for other in row["other_drivers"]:
            said = f"also under {other['driver']}, which {other['why_not']}"
            yield Entry("", "", f"{said}; VK_DRIVER_FILES chooses a driver")
    if ranked["chosen"] is not None:
        yield Entry("", "taken", f"{ranked['chosen']}, {_why(report)}")


def _why(report: Json) -> str:
    """Say why the device that is taken is taken."""
    ranked = report["devices"]["value"]
    if report["selector"] and not report["host_chosen"]:
        return f"because {report['selector']!r} was asked for"
    scores = [row["score"] for row in ranked["devices"]]
    if len(scores) == 1:
        return "because it is the only one"
    if scores.count(scores[0]) > 1:
        return "because it is the first of those with the highest score"
    return "because it has the highest score"


def _features(device: Json) -> Iterator[Entry]:
    have = [name for name, there in device["features"].items() if there]
    yield Entry("ok", "has", ", ".join(have))
    for name, there in device["features"].items():
        if not there:
            yield Entry(
                "-", name, f"lost: {requirements.LOSSES.get(name, 'something new')}"
            )
    for shape in device["cooperative_matrix"]:
        size = f"{shape['m']}x{shape['n']}x{shape['k']}"
        said = f"{shape['a']} x {shape['b']} + {shape['c']} to {shape['result']}"
        yield Entry("", f"matrix {size}", f"{said}, {shape['scope']}")


def _limits(device: Json) -> Iterator[Entry]:
    for row in requirements.LIMITS:
        value = device[row.name]
        shown = " x ".join(map(str, value)) if isinstance(value, list) else f"{value:g}"
        if row.unit == "bytes":
            shown = gibibytes(value)
        elif isinstance(value, int):
            shown = str(value)
        mark = "warn" if row.wanted and value < row.wanted else "ok"
        unit = row.unit if row.unit != "bytes" else ""
        yield Entry(mark, row.name, f"{shown} {unit}".strip() + f": {row.meaning}")
    for number, heap in enumerate(device["heaps"]):
        whose = "the device's own" if heap["device_local"] else "the host's"
        yield Entry("", f"heap {number}", f"{gibibytes(heap['size'])}, {whose}")


def _compiler(report: Json) -> Iterator[Entry]:
    answer = report["compiler"]
    if answer["status"] != "ok":
        yield _failure(answer)
        return
    found = answer["value"]
    name = f"{found['name']} {found['version']}".strip()
    how = "in process" if found["in_process"] else "run for each kernel"
    yield Entry("ok", name, f"{how}, {found['path']}")
    known = [row["name"] for row in report["extensions"] if row["value"]]
    yield Entry("ok", "knows", ", ".join(known) or "nothing")
    unknown = [row["name"] for row in report["extensions"] if not row["value"]]
    if unknown:
        yield Entry("warn", "does not know", ", ".join(unknown))


def _processes(report: Json) -> Iterator[Entry]:
    answer = report["processes"]
    if answer["status"] != "ok":
        yield _failure(answer)
        return
    found = answer["value"]
    for name in ("mpi4py", "mpirun"):
        missing = "missing; pip install 'vkbackend[mpi]'"
        yield Entry("ok" if found[name] else "note", name, found[name] or missing)
    if found["mpi4py"] and found["mpirun"]:
        left = "" if found["shared"] is None else f", {gibibytes(found['shared'])} left"
        yield Entry("ok", "transport", f"host on one machine: shared pages{left}")
        yield _cuda(report["cuda"])
        yield Entry("ok", "", "mpi among machines")


def _cuda(answer: Json) -> Entry:
    if answer["status"] != "ok":
        return _failure(answer)
    found = answer["value"]
    if found["obstacle"]:
        return Entry("note", "", f"not cuda: {found['obstacle']}")
    told = f"cards pull from each other, CUDA {found['version']}"
    return Entry("ok", "", f"cuda on one machine: {told}")


_CACHES = (
    ("spirv", "kernels"),
    ("pipelines", "devices and drivers"),
    ("tuning", "devices and drivers with verdicts on kernels"),
)


def _caches(report: Json) -> Iterator[Entry]:
    answer = report["caches"]
    if answer["status"] != "ok":
        yield _failure(answer)
        return
    cache = answer["value"]
    problem = cache["unwritable"]
    state = "there" if cache["exists"] else "not there yet"
    said = f"cannot be written: {problem}" if problem else f"{state}, can be written"
    yield Entry("warn" if problem else "ok", "folder", f"{said}, {cache['folder']}")
    for name, meaning in _CACHES:
        amount = cache[name]
        said = f"{amount['files']} {meaning}, {gibibytes(amount['bytes'])}"
        damaged = amount.get("damaged", 0)
        said += f", {damaged} damaged" if damaged else ""
        yield Entry("warn" if damaged else "ok", name, said)
    own = report["pipeline_cache"]
    if own["status"] == "ok":
        damage = own["value"]["damage"]
        said = f"{gibibytes(own['value']['bytes'])}{f', {damage}' if damage else ''}"
        yield Entry("warn" if damage else "ok", "this device's", said)


def _tests(report: Json) -> Iterator[Entry]:
    for row in report["tests"]:
        mark = _MARKS.get(row["status"], "FAIL")
        said = row["value"] or row["reason"]
        if mark == "FAIL":
            said = f"{row['status']}: {said}"
        if mark != "skip":
            said = f"{row['seconds'] * 1000:5.0f} ms  {said}"
        yield Entry(mark, row["name"], said)


def _diagnosis(report: Json) -> Iterator[Entry]:
    problems = report["diagnosis"]["problems"]
    for row in problems:
        mark = _MARKS.get(row["level"], "note")
        yield Entry(mark, "", row["title"])
        yield Entry("", "", row["detail"])
        yield Entry("", "", f"-> {row['advice']}")
    if not problems:
        yield Entry("ok", "", "no problem: everything that was tried works")
