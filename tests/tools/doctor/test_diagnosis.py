"""Each fault of a machine has its name, its level and its remedy."""

from collections.abc import Callable
from typing import Any

import pytest

from vkbackend import config
from vkbackend.tools.doctor.diagnosis import LEVELS, diagnose

Report = dict[str, Any]


@pytest.fixture(autouse=True)
def _no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    for switch in config.SWITCHES:
        monkeypatch.delenv(switch.name, raising=False)


def fail(report: Report, name: str, reason: str, status: str = "failed") -> None:
    report[name] = {"status": status, "value": None, "reason": reason, "seconds": 0.1}


def no_loader(report: Report) -> None:
    fail(
        report, "loader", "Vulkan loader: cannot be opened: tried x; install libvulkan1"
    )
    fail(report, "devices", "there is no loader", "unasked")


def no_driver(report: Report) -> None:
    report["drivers"] = []
    fail(report, "devices", "vkCreateInstance: -9: none; install mesa-vulkan-drivers")


def no_hardware(report: Report) -> None:
    report["drivers"][0]["value"]["devices"] = []
    fail(report, "devices", "vkCreateInstance: -9: none; install mesa-vulkan-drivers")


def no_layer(report: Report) -> None:
    fail(
        report, "devices", "VKBACKEND_VALIDATION: the layer is not installed; unset it"
    )


def crash(report: Report) -> None:
    report["drivers"].append({**report["drivers"][0], "manifest": "/etc/bad.json"})
    report["drivers"][1] |= {"status": "crashed", "reason": "SIGSEGV", "value": None}


def crash_of_all(report: Report) -> None:
    crash(report)
    fail(report, "devices", "ended by SIGSEGV", "crashed")


def no_library(report: Report) -> None:
    report["drivers"][0]["value"]["problem"] = "its library cannot be loaded: lib.so"


def software(report: Report) -> None:
    report["devices"]["value"]["devices"][0]["kind"] = "software"


def unusable(report: Report) -> None:
    ranked = report["devices"]["value"]
    ranked["devices"][0] |= {"score": 0, "lacks": ["timeline_semaphore"]}
    ranked |= {"chosen": None, "refusal": "Big GPU lacks it; update its driver"}


def not_selected(report: Report) -> None:
    untrusted_reason = "no device matches 'voodoo'; give an index"
    report["devices"]["value"] |= {"chosen": None, "refusal": untrusted_reason}


def hidden_gpu(report: Report) -> None:
    gpu = {"name": "NVIDIA H200", "vendor_id": 0x10DE, "node": "/dev/nvidiactl"}
    report["hardware"]["value"] = [{**gpu, "exists": False, "accessible": False}]


def locked_gpu(report: Report) -> None:
    gpu = {"name": "Intel device", "vendor_id": 0x8086, "node": "/dev/dri/renderD128"}
    report["hardware"]["value"] = [{**gpu, "exists": True, "accessible": False}]


def no_compiler(report: Report) -> None:
    fail(report, "compiler", "GLSL compiler: none found; pip install it")


def compiler_crash(report: Report) -> None:
    fail(report, "compiler", "ended by SIGSEGV", "crashed")


def old_compiler(report: Report) -> None:
    report["extensions"][-1]["value"] = False


def ancient_compiler(report: Report) -> None:
    report["extensions"][0]["value"] = False


def slow_compiler(report: Report) -> None:
    report["compiler"]["value"]["in_process"] = False


def shared(report: Report) -> None:
    report["caches"]["value"]["refused"] = "/c is open to other users: its mode is 777"


def unwritable(report: Report) -> None:
    report["caches"]["value"]["unwritable"] = "Permission denied"


def damaged(report: Report) -> None:
    report["caches"]["value"]["spirv"]["damaged"] = 2


def damaged_pipelines(report: Report) -> None:
    report["pipeline_cache"]["value"]["damage"] = "it is too short"


def unfinished(report: Report) -> None:
    report["caches"]["value"]["leftovers"] = 2


def unreadable(report: Report) -> None:
    fail(report, "caches", "no answer in 30 s", "hung")


def small_limit(report: Report) -> None:
    report["devices"]["value"]["devices"][0]["max_shared_memory"] = 16384


def chosen_driver(report: Report) -> None:
    report["variables"]["VK_DRIVER_FILES"] = "/usr/share/icd.json"


def failing_core(report: Report) -> None:
    report["tests"][0] |= {"status": "failed", "reason": "1 differs", "value": None}


def failing_extra(report: Report) -> None:
    failing_core(report)
    report["tests"][0] |= {"name": "matrix", "required": False}


@pytest.mark.parametrize(
    ("fault", "level", "title", "advice"),
    [
        (no_loader, "error", "no Vulkan loader", "install libvulkan1"),
        (no_driver, "error", "a Vulkan loader without a driver", "mesa-vulkan-drivers"),
        (no_hardware, "error", "no driver offers a device", "mesa-vulkan-drivers"),
        (no_layer, "error", "the validation layer is missing", "unset it"),
        (crash, "warning", "a driver breaks", "VK_DRIVER_FILES=/usr/share/vulkan"),
        (crash_of_all, "error", "the drivers break Vulkan", "VK_DRIVER_FILES"),
        (no_library, "warning", "a driver cannot be loaded", "reinstall the package"),
        (software, "warning", "only a software device", "install your GPU's driver"),
        (
            unusable,
            "error",
            "no device has what the library needs",
            "update its driver",
        ),
        (not_selected, "error", "the selected device", "give an index"),
        (hidden_gpu, "warning", "a GPU without a driver", "NVIDIA_DRIVER_CAPABILITIES"),
        (locked_gpu, "warning", "a GPU without a driver", "groups render and video"),
        (no_compiler, "error", "no GLSL compiler", "pip install it"),
        (compiler_crash, "error", "the GLSL compiler breaks", "VKBACKEND_GLSLANG"),
        (
            old_compiler,
            "warning",
            "a GLSL compiler that is too old",
            "vkbackend[glslang]",
        ),
        (ancient_compiler, "error", "a GLSL compiler that is too old", "pip install"),
        (slow_compiler, "note", "a slow GLSL compiler", "vkbackend[glslang]"),
        (unwritable, "warning", "caches cannot be written", "VKBACKEND_CACHE"),
        (shared, "warning", "the cache is not private", "chmod go-w"),
        (unreadable, "warning", "caches cannot be read", "VKBACKEND_CACHE"),
        (damaged, "note", "a damaged cache", "nothing to do"),
        (damaged_pipelines, "note", "a damaged cache", "nothing to do"),
        (unfinished, "note", "unfinished cache files", "nothing to do"),
        (small_limit, "note", "tiles of matrix products", "update the driver"),
        (chosen_driver, "note", "drivers by choice", "unset what hides"),
        (failing_core, "error", "the self-test `copy` fails", "update the driver"),
        (failing_extra, "warning", "the self-test `matrix` fails", "update the driver"),
    ],
)
def test_fault(
    fault: Callable[[Report], None],
    level: str,
    title: str,
    advice: str,
    report: Report,
) -> None:
    fault(report)
    said = diagnose(report)
    (problem,) = (row for row in said["problems"] if title in row["title"])
    assert problem["level"] == level
    assert advice in problem["advice"]
    assert "\n" not in problem["advice"]
    assert said["works"] == (level != "error")
    if level == "error":
        assert title in said["situation"]
    levels = [LEVELS.index(row["level"]) for row in said["problems"]]
    assert levels == sorted(levels)


def test_all_is_well(report: Report) -> None:
    assert diagnose(report) == {
        "works": True,
        "situation": "Big GPU (maker) is ready",
        "problems": [],
    }


def test_software_is_named(report: Report) -> None:
    software(report)
    assert diagnose(report)["situation"] == "only a software device, Big GPU (maker)"
    ranked = report["devices"]["value"]["devices"]
    ranked.append({**ranked[0], "kind": "discrete"})
    assert diagnose(report)["situation"] == "a software device, Big GPU (maker)"


def test_the_host_needs_no_vulkan(report: Report) -> None:
    no_loader(report)
    report["host_chosen"] = True
    said = diagnose(report)
    assert said["works"]
    assert said["problems"][-1]["title"] == "the host by choice"


@pytest.mark.parametrize("switch", [config.VALIDATION, config.POISON])
def test_switches_are_told(
    switch: config.Switch, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(switch.name, "1")
    (problem,) = diagnose(report)["problems"]
    assert problem["advice"] == f"unset {switch.name}"


def test_a_chosen_compiler_is_to_be_unset(report: Report) -> None:
    old_compiler(report)
    report["switches"][config.GLSLANG.name] = "glslangValidator"
    (problem,) = diagnose(report)["problems"]
    assert problem["advice"].endswith("and unset VKBACKEND_GLSLANG")
