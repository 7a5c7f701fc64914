"""Diagnosis of a report: problems, situation and remedies. Pure.

A problem has a level: with an `error` the library cannot work, with a `warning` it
works but something is lost, a `note` is worth knowing.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from vkbackend import config
from vkbackend.shader.find_compiler import REMEDY as COMPILER_REMEDY

from . import requirements

Json = dict[str, Any]

LEVELS = ("error", "warning", "note")
BROKEN = ("failed", "crashed", "hung", "unasked")

_NVIDIA_REMEDY = (
    "install the Vulkan part of NVIDIA's driver (nvidia-vulkan-icd on Debian,"
    " libnvidia-gl-... on Ubuntu); start a container with"
    " NVIDIA_DRIVER_CAPABILITIES=all"
)
_MESA_REMEDY = (
    "install the package mesa-vulkan-drivers (Debian, Ubuntu, Fedora),"
    " vulkan-radeon or vulkan-intel (Arch)"
)
_DRIVER_VARIABLES = (
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "VK_LOADER_DRIVERS_SELECT",
    "VK_LOADER_DRIVERS_DISABLE",
)


@dataclass(frozen=True)
class Problem:
    """Problem, with a one-line remedy.

    Parameters
    ----------
    level : str
        One of `LEVELS`.
    title : str
        The situation in a few words.
    detail : str
        The values.
    advice : str
        What to do.
    """

    level: str
    title: str
    detail: str
    advice: str


def diagnose(report: Json) -> Json:
    """Return whether the library can work, the situation and the problems.

    Parameters
    ----------
    report : dict
        What `report.gather` returns.

    Returns
    -------
    dict
        `works`, a bool; `situation`, a phrase; `problems`, worst first.
    """
    found = [problem for find in _FINDERS for problem in find(report)]
    found.sort(key=lambda row: LEVELS.index(row.level))
    errors = [row for row in found if row.level == "error"]
    works = not errors or report["host_chosen"]
    return {
        "works": works,
        "situation": errors[0].title if errors else _situation(report),
        "problems": [asdict(row) for row in found],
    }


def chosen_device(report: Json) -> Json | None:
    """Return the device that the library takes, if there is one."""
    ranked = report["devices"]["value"]
    if not ranked or ranked["chosen"] is None:
        return None
    device: Json = ranked["devices"][ranked["chosen"]]
    return device


def _situation(report: Json) -> str:
    device = chosen_device(report)
    if device is None:
        return "nothing was found"
    name = f"{device['name']} ({device['driver_name']})"
    if device["kind"] != "software":
        return f"{name} is ready"
    several = len(report["devices"]["value"]["devices"]) > 1
    return f"{'a' if several else 'only a'} software device, {name}"


def _split(reason: str) -> tuple[str, str]:
    """Return problem and remedy of one of the library's messages.

    They are one sentence: where: what is wrong: the values; what would be right.
    """
    problem, _, remedy = reason.rpartition("; ")
    return (problem, remedy) if problem else (reason, "report this output")


def _loader(report: Json) -> Iterator[Problem]:
    answer = report["loader"]
    if answer["status"] == "failed":
        yield Problem("error", "no Vulkan loader", *_split(answer["reason"]))
    elif answer["status"] != "ok":
        advice = "reinstall the loader; unset VK_LAYER_PATH and VK_INSTANCE_LAYERS"
        yield Problem("error", "the Vulkan loader breaks", answer["reason"], advice)


def _drivers(report: Json) -> Iterator[Problem]:
    rows = report["drivers"]
    good = [row for row in rows if row["status"] == "ok" and row["value"]["devices"]]
    for row in rows:
        name = PurePath(row["manifest"]).name
        if row["status"] in BROKEN:
            others = ":".join(other["manifest"] for other in good)
            advice = f"update or remove {name}"
            if others:
                advice += f", or leave it out with VK_DRIVER_FILES={others}"
            detail = f"{row['manifest']}: {row['reason']}"
            yield Problem("warning", "a driver breaks", detail, advice)
        elif row["value"]["problem"]:
            detail = f"{row['manifest']}: {row['value']['problem']}"
            advice = f"reinstall the package that brought {name}, or remove the file"
            yield Problem("warning", "a driver cannot be loaded", detail, advice)


def _devices(report: Json) -> Iterator[Problem]:
    answer = report["devices"]
    if report["loader"]["status"] != "ok":
        return
    if answer["status"] == "failed":
        yield Problem("error", _no_device(report), *_split(answer["reason"]))
    elif answer["status"] != "ok":
        advice = "leave the driver that breaks out with VK_DRIVER_FILES; see above"
        yield Problem("error", "the drivers break Vulkan", answer["reason"], advice)
    elif answer["value"]["chosen"] is None:
        title = "no device has what the library needs"
        if any(row["score"] for row in answer["value"]["devices"]):
            title = "the selected device cannot be used"
        yield Problem("error", title, *_split(answer["value"]["refusal"]))
    elif all(row["kind"] == "software" for row in answer["value"]["devices"]):
        names = " and ".join(row["name"] for row in answer["value"]["devices"])
        detail = f"the processor computes: {names}"
        advice = "for speed, install your GPU's driver; for tests and CI this is right"
        yield Problem("warning", "only a software device", detail, advice)


def _no_device(report: Json) -> str:
    """Return what it means that Vulkan failed to name a device."""
    if report["devices"]["reason"].startswith(config.VALIDATION.name):
        return "the validation layer is missing"
    usable = [
        row
        for row in report["drivers"]
        if row["status"] == "ok" and not row["value"]["problem"]
    ]
    if usable:
        return "a Vulkan loader, but no driver offers a device"
    return "a Vulkan loader without a driver"


def _hardware(report: Json) -> Iterator[Problem]:
    if report["loader"]["status"] != "ok" or report["hardware"]["status"] != "ok":
        return
    ranked = report["devices"]["value"] or {"devices": []}
    offered = {row["vendor_id"] for row in ranked["devices"]}
    for gpu in report["hardware"]["value"]:
        if gpu["vendor_id"] in offered:
            continue
        detail = f"the kernel shows {gpu['name']}, and no driver offers it"
        nvidia = gpu["name"].startswith("NVIDIA")
        advice = _NVIDIA_REMEDY if nvidia else _MESA_REMEDY
        if not gpu["accessible"]:
            detail += f"; {gpu['node']} is not accessible"
            if gpu["exists"]:
                advice = "add yourself to the groups render and video, log in again"
        yield Problem("warning", "a GPU without a driver", detail, advice)


def _limits(report: Json) -> Iterator[Problem]:
    device = chosen_device(report) or {}
    for row in requirements.LIMITS:
        if row.wanted and device and device[row.name] < row.wanted:
            detail = f"{row.name} is {device[row.name]}; {row.wanted} would be right"
            yield Problem("note", f"little {row.meaning}", detail, "update the driver")


def _compiler(report: Json) -> Iterator[Problem]:
    answer = report["compiler"]
    if answer["status"] == "failed":
        yield Problem("error", "no GLSL compiler", *_split(answer["reason"]))
        return
    if answer["status"] != "ok":
        advice = f"choose another compiler with {config.GLSLANG.name}"
        yield Problem("error", "the GLSL compiler breaks", answer["reason"], advice)
        return
    remedy = COMPILER_REMEDY
    if report["switches"][config.GLSLANG.name]:
        remedy += f" and unset {config.GLSLANG.name}"
    serves = {row.name: row.serves for row in requirements.EXTENSIONS}
    unknown = [row["name"] for row in report["extensions"] if not row["value"]]
    needed = [name for name in unknown if name in requirements.REQUIRED_EXTENSIONS]
    if unknown:
        lost = ", ".join(f"{name} ({serves[name]})" for name in needed or unknown)
        level = "error" if needed else "warning"
        title = "a GLSL compiler that is too old"
        yield Problem(level, title, f"it does not know {lost}", remedy)
    if not answer["value"]["in_process"]:
        detail = f"{answer['value']['name']} is run anew for each kernel"
        yield Problem("note", "a slow GLSL compiler", detail, remedy)


def _caches(report: Json) -> Iterator[Problem]:
    answer = report["caches"]
    if answer["status"] != "ok":
        advice = f"choose another folder with {config.CACHE.name}"
        yield Problem("warning", "caches cannot be read", answer["reason"], advice)
        return
    cache = answer["value"]
    if cache["unwritable"]:
        detail = (
            f"{cache['folder']}: {cache['unwritable']}; kernels are built each time"
        )
        advice = f"set {config.CACHE.name} to a folder that you may write to"
        yield Problem("warning", "caches cannot be written", detail, advice)
    if cache["refused"]:
        detail = f"{cache['refused']}; kernels are built each time"
        advice = f"chmod go-w and own it, or set {config.CACHE.name} to another folder"
        yield Problem("warning", "the cache is not private", detail, advice)
        return
    damaged = cache["spirv"]["damaged"]
    advice = "nothing to do: it is made again; if it comes back, look at the disk"
    if damaged:
        detail = f"{damaged} of {cache['spirv']['files']} compiled kernels"
        yield Problem("note", "a damaged cache", detail, advice)
    pipelines = report["pipeline_cache"]
    if pipelines["status"] == "ok" and pipelines["value"]["damage"]:
        detail = f"pipelines: {pipelines['value']['damage']}"
        yield Problem("note", "a damaged cache", detail, advice)
    if cache["leftovers"]:
        detail = f"{cache['leftovers']} files of processes that were stopped"
        advice = "nothing to do: they are removed when they are old"
        yield Problem("note", "unfinished cache files", detail, advice)


def _switches(report: Json) -> Iterator[Problem]:
    for switch in (config.VALIDATION, config.POISON):
        if switch.enabled():
            detail = f"{switch.name} is on: {switch.meaning.rstrip('.')}"
            yield Problem("note", "slower on purpose", detail, f"unset {switch.name}")
    chosen = [name for name in _DRIVER_VARIABLES if name in report["variables"]]
    if chosen:
        detail = f"other drivers are hidden by {' and '.join(chosen)}"
        advice = "unset what hides a driver that you want"
        yield Problem("note", "drivers by choice", detail, advice)
    if report["host_chosen"]:
        detail = f"{config.DEVICE.name}=cpu: tensors are computed with NumPy"
        advice = f"unset {config.DEVICE.name} to use Vulkan"
        yield Problem("note", "the host by choice", detail, advice)


def _tests(report: Json) -> Iterator[Problem]:
    for row in report["tests"]:
        if row["status"] not in BROKEN:
            continue
        level = "error" if row["required"] else "warning"
        title = f"the self-test `{row['name']}` fails"
        advice = (
            f"update the driver, or choose another device with {config.DEVICE.name};"
            " report this output"
        )
        yield Problem(level, title, f"{row['status']}: {row['reason']}", advice)


_FINDERS: tuple[Callable[[Json], Iterator[Problem]], ...] = (
    _loader,
    _devices,
    _compiler,
    _tests,
    _drivers,
    _hardware,
    _caches,
    _limits,
    _switches,
)
