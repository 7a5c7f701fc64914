"""The text fits the terminal, and holds what the report holds."""

import re
from typing import Any

import pytest

from vkbackend.tools.doctor import diagnosis, render

Report = dict[str, Any]
ESCAPE = re.compile("\033" + r"\[\d+m")


@pytest.fixture
def diagnosed(report: Report) -> Report:
    device = report["devices"]["value"]["devices"][0]
    device["features"]["bfloat16"] = False
    shape = {"m": 16, "n": 16, "k": 16, "scope": "subgroup", "saturating": False}
    types = {"a": "float16", "b": "float16", "c": "float32", "result": "float32"}
    device["cooperative_matrix"] = [{**shape, **types}]
    report["tests"] += [
        {**report["tests"][0], "name": "a", "status": "skipped", "value": None},
        {**report["tests"][0], "name": "b", "status": "crashed", "value": None},
    ]
    report["tests"][1]["reason"] = "the device lacks it"
    report["tests"][2]["reason"] = "SIGSEGV"
    device["pci_address"] = "0000:06:00.0"
    device["other_drivers"] = [{"driver": "free 4", "why_not": "lacks speed"}]
    report["diagnosis"] = diagnosis.diagnose(report)
    return report


@pytest.mark.parametrize("columns", [20, 40, 80, 132, 500])
def test_lines_fit(columns: int, diagnosed: Report) -> None:
    lines = render.render(diagnosed, columns, colour=False).splitlines()
    # Words are never broken, so a very narrow terminal wraps some itself.
    assert max(map(len, lines)) <= max(80, min(columns, 132))
    assert not any(line != line.rstrip() for line in lines)
    assert "\033" not in "".join(lines)


def test_colour_changes_nothing_else(diagnosed: Report) -> None:
    coloured = render.render(diagnosed, 132, colour=True)
    assert ESCAPE.sub("", coloured) == render.render(diagnosed, 132, colour=False)
    assert len(ESCAPE.findall(coloured)) > 20


def test_what_is_told(diagnosed: Report) -> None:
    shown = render.render(diagnosed, 132, colour=False)
    for line in (
        r"ok +libvulkan\.so\.1 +Vulkan 1\.3\.250, /usr/lib/libvulkan\.so\.1\.3\.250",
        r"ok +maker\.json +Big GPU",
        r"ok +0 +Big GPU: discrete, score 5, Vulkan 1\.3\.250, maker 1\.2\.3",
        r"1\.2\.3, PCI 0000:06:00\.0\n +also under free 4, which lacks speed",
        r"taken +0, because it is the only one",
        r"- +bfloat16 +lost: the bfloat16 type",
        r"matrix 16x16x16 +float16 x float16 \+ float32 to float32, subgroup",
        r"ok +max_shared_memory +48\.00 KiB: tiles",
        r"ok +copy +250 ms +3 GB/s",
        r"skip +a +the device lacks it",
        r"FAIL +b +250 ms +crashed: SIGSEGV",
        r"FAIL +the self-test `b` fails\n +crashed: SIGSEGV\n +-> update the driver",
        r"The library cannot work: the self-test `b` fails\.",
    ):
        assert re.search(line, shown), line


@pytest.mark.parametrize(
    ("scores", "selector", "why"),
    [
        ([5, 1], "", "it has the highest score"),
        ([5, 5], "", "it is the first of those with the highest score"),
        ([5], "", "it is the only one"),
        ([5, 1], "big", "'big' was asked for"),
    ],
)
def test_why_a_device_is_taken(
    scores: list[int], selector: str, why: str, diagnosed: Report
) -> None:
    ranked = diagnosed["devices"]["value"]
    ranked["devices"] = [{**ranked["devices"][0], "score": score} for score in scores]
    diagnosed["selector"] = selector
    assert f"because {why}" in render.render(diagnosed, 132, colour=False)


@pytest.mark.parametrize(
    "name",
    [
        *("loader", "devices", "compiler", "caches", "hardware", "pipeline_cache"),
        "processes",
        "cuda",
    ],
)
@pytest.mark.parametrize("status", ["failed", "crashed", "hung", "unasked"])
def test_any_answer_may_be_missing(name: str, status: str, report: Report) -> None:
    report[name] = {"status": status, "value": None, "reason": "gone", "seconds": 1.0}
    report["diagnosis"] = diagnosis.diagnose(report)
    shown = render.render(report, 80, colour=False)
    assert shown.splitlines()[-1].startswith("The library can")


def test_several_processes(diagnosed: Report) -> None:
    shown = render.render(diagnosed, 132, colour=False)
    assert "transport  host on one machine: shared pages, 1.00 GiB left" in shown
    assert "cuda on one machine: cards pull from each other, CUDA 12.8" in shown
    diagnosed["cuda"]["value"]["obstacle"] = "Vulkan has no card"
    shown = render.render(diagnosed, 132, colour=False)
    assert "not cuda: Vulkan has no card" in shown
    diagnosed["processes"]["value"]["mpi4py"] = ""
    shown = render.render(diagnosed, 132, colour=False)
    assert "missing; pip install 'vkbackend[mpi]'" in shown
    assert "shared pages" not in shown
