"""Report of all probes, as one dictionary that is ready for JSON."""

import dataclasses
import importlib.metadata
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import vkbackend
from vkbackend import config
from vkbackend.driver import instance

from . import dtype_cases, requirements, selftest
from .subprocess_runner import Outcome, Request, ask

Json = dict[str, Any]
Progress = Callable[[str], None]

FORMAT = 1
"""Raised when a key of the report changes its meaning."""

# What changes which drivers and layers the loader takes.
_VULKAN_VARIABLES = (
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "VK_ADD_DRIVER_FILES",
    "VK_LOADER_DRIVERS_SELECT",
    "VK_LOADER_DRIVERS_DISABLE",
    "VK_LAYER_PATH",
    "VK_INSTANCE_LAYERS",
    "VK_LOADER_LAYERS_ENABLE",
    "MESA_VK_DEVICE_SELECT",
    "NVIDIA_DRIVER_CAPABILITIES",
)
_PACKAGES = ("numpy", "slangpy")
# They run without a kernel, so without a compiler.
_WITHOUT_KERNELS = ("open", "allocation", "copy", "close")


@dataclass(frozen=True)
class Options:
    """Report options: the probes to run.

    Parameters
    ----------
    device : str, default ""
        Selector of the device to test; empty means the one that the library takes.
    tests : bool, default True
        Whether to run the self-tests.
    limit_seconds : float, default 30
        Longest time for one answer.
    """

    device: str = ""
    tests: bool = True
    limit_seconds: float = 30.0


def gather(options: Options, progress: Progress = lambda name: None) -> Json:
    """Return the report, without the diagnosis."""
    selector = options.device or config.DEVICE.read()
    report: Json = {
        "format": FORMAT,
        "library": _library(),
        "switches": {row.name: os.environ.get(row.name) for row in config.SWITCHES},
        "variables": {k: os.environ[k] for k in _VULKAN_VARIABLES if k in os.environ},
        "selector": selector,
        "host_chosen": selector == "cpu",
        **_system(options, progress),
    }
    nothing = _json(Outcome("unasked", reason="there is no loader"))
    report |= {"drivers": [], "devices": nothing, "pipeline_cache": nothing}
    if report["loader"]["status"] == "ok":
        report["drivers"] = _drivers(options, progress)
        # The host is no Vulkan device; what the library would take is looked at.
        chosen = {config.DEVICE.name: "" if report["host_chosen"] else selector}
        requests = [Request("devices"), Request("pipeline_cache")]
        found = _ask(requests, options, progress, chosen)
        report["devices"], report["pipeline_cache"] = found
    report["tests"] = _tests(report, options, progress) if options.tests else []
    return report


def _library() -> Json:
    versions = {"vkbackend": vkbackend.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = ""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return {**versions, "system": system, "processors": os.cpu_count()}


def _json(outcome: Outcome) -> Json:
    return dataclasses.asdict(outcome)


def _ask(
    requests: Sequence[Request],
    options: Options,
    progress: Progress,
    environment: dict[str, str] | None = None,
) -> list[Json]:
    outcomes = ask(
        requests,
        limit_seconds=options.limit_seconds,
        environment=environment,
        progress=progress,
    )
    return [_json(outcome) for outcome in outcomes]


def _system(options: Options, progress: Progress) -> Json:
    """Ask what needs no driver."""
    names = ("loader", "hardware", "caches", "compiler", "processes", "cuda")
    found = _ask([Request(name) for name in names], options, progress)
    system: Json = dict(zip(names, found, strict=True))
    system["extensions"] = []
    if system["compiler"]["status"] == "ok":
        known = [row.name for row in requirements.EXTENSIONS]
        requests = [Request("extension", {"name": name}) for name in known]
        answers = _ask(requests, options, progress)
        system["extensions"] = [
            {"name": name, **answer}
            for name, answer in zip(known, answers, strict=True)
        ]
    return system


def _drivers(options: Options, progress: Progress) -> list[Json]:
    """Ask each driver alone, so that one that breaks is known by name."""
    rows = []
    for manifest in instance.driver_files():
        alone = {"VK_DRIVER_FILES": manifest, "VK_ICD_FILENAMES": manifest}
        alone[config.VALIDATION.name] = "0"
        request = Request("driver", {"manifest": manifest})
        (answer,) = _ask([request], options, progress, alone)
        rows.append({"manifest": manifest, **answer})
    return rows


def _tests(report: Json, options: Options, progress: Progress) -> list[Json]:
    """Run the self-tests on the device that was chosen."""
    ranked = report["devices"]["value"]
    if not ranked or ranked["chosen"] is None:
        return []
    requests = _test_requests(ranked["devices"][ranked["chosen"]], ranked["chosen"])
    skipped: list[tuple[str, Request]] = []
    if report["compiler"]["status"] != "ok":
        skipped = [row for row in requests if row[1].probe not in _WITHOUT_KERNELS]
        requests = [row for row in requests if row not in skipped]
    with tempfile.TemporaryDirectory(prefix="vkdoctor-") as scratch:
        # Caches of its own: every kernel is compiled, and the user's stay as they are.
        found = _ask(
            [request for _, request in requests],
            options,
            progress,
            {config.CACHE.name: scratch},
        )
    reason = _json(Outcome("skipped", reason="there is no GLSL compiler"))
    answered = zip(requests + skipped, found + [reason] * len(skipped), strict=True)
    return [
        {"name": name, "required": name in selftest.CORE, **answer}
        for (name, _), answer in answered
    ]


def _test_requests(device: Json, index: int) -> list[tuple[str, Request]]:
    """Return name and request of each test; a matrix test for each shape."""
    where = {"device": index}
    rows = [(name, Request(name, where)) for name in selftest.PLAIN]
    rows += [
        (name, Request("width", {**where, "name": name}))
        for name in dtype_cases.STORAGE_CASES
    ]
    shapes = {dtype_cases.matrix_name(row): row for row in device["cooperative_matrix"]}
    rows += [
        (name, Request("matrix", {**where, "shape": shape}))
        for name, shape in shapes.items()
    ]
    if not shapes:
        rows.append(("matrix", Request("no matrix", where)))
    return [*rows, ("close", Request("close", where))]
