"""Lines of results."""

import json
from pathlib import Path
from typing import Any

import vkbackend
from vkbackend.tools.bench import results
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.measure import Measurement
from vkbackend.tools.bench.roofline import Ceiling
from vkbackend.tools.bench.workload import Case

FIELDS = """
    workload dtype device driver date commit milliseconds peer peer_milliseconds ratio
    relative_error
"""


def row(device: vkbackend.Device, error: float | None = 1e-7) -> dict[str, Any]:
    case = Case(lambda: [], None, moved=1000, tolerance=1e-5)
    measured = Measurement(0.002, 0.003, error, case)
    limits = Ceiling(bytes_per_second=1e6, operations_per_second=1e9)
    return results.record(
        "sum_1", "float32", measured, device.info, Peer("numpy"), limits, "abc"
    )


def test_fields(device: vkbackend.Device) -> None:
    found = row(device)
    assert set(FIELDS.split()) <= found.keys()
    assert (found["milliseconds"], found["peer_milliseconds"]) == (2, 3)
    assert (found["ratio"], found["of_ceiling"]) == (1.5, 0.5)
    assert found["teraflops"] is None


def test_what_the_host_took_is_of_runs_by_its_clock(device: vkbackend.Device) -> None:
    assert not {"host_milliseconds", "counts"} & row(device).keys()
    case = Case(lambda: [], None)
    measured = Measurement(0.002, None, None, case, 0, 0.001, {"submits": 1 / 3})
    limits = Ceiling(bytes_per_second=1e6, operations_per_second=1e9)
    found = results.record(
        "sum_1", "float32", measured, device.info, Peer("numpy"), limits, "abc"
    )
    assert (found["host_milliseconds"], found["counts"]) == (1, {"submits": 0.33333})


def test_wrong_results_are_marked(device: vkbackend.Device) -> None:
    assert not results.wrong(row(device))
    assert not results.wrong(row(device, None))
    for error in (1e-3, float("nan")):
        assert results.wrong(row(device, error))
        assert results.line(row(device, error)).endswith("WRONG")


def test_lines_are_added(device: vkbackend.Device, tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.jsonl"
    for _ in range(2):
        results.append(row(device), path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["workload"] for line in lines] == ["sum_1"] * 2


def test_file_is_named_after_the_device(device: vkbackend.Device) -> None:
    name = results.file_of(device.info).name
    assert name.endswith(".jsonl")
    assert name == name.lower()


def test_committed_results_have_the_fields() -> None:
    for path in results.RESULTS.glob("*.jsonl"):
        for text in path.read_text(encoding="utf-8").splitlines():
            assert set(FIELDS.split()) <= json.loads(text).keys()
