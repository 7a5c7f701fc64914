"""The self-tests pass here, skip with a reason, and notice what is wrong."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import vkbackend
from vkbackend.tools.doctor import dtype_cases, kernels, report, selftest, worker
from vkbackend.tools.doctor.selftest import CaseSkipped, WrongResult

# `close` would close the device of the other tests; it is run in a process of its own.
PLAIN = [*selftest.PLAIN, *dtype_cases.STORAGE_CASES]


def position(device: vkbackend.Device) -> int:
    return vkbackend.devices().index(device.physical)


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("name", PLAIN)
def test_passes_or_is_skipped(name: str, device: vkbackend.Device) -> None:
    arguments: dict[str, Any] = {"device": position(device)}
    test = selftest.PLAIN.get(name, selftest.width)
    if name in dtype_cases.STORAGE_CASES:
        arguments["name"] = name
    said = worker.answer(test, arguments)
    if said["status"] == "skipped":
        assert name not in selftest.CORE
        assert said["reason"].startswith("the device lacks ")
    else:
        assert said["status"] == "ok", said["reason"]
        assert said["value"]


def test_matrices(device: vkbackend.Device) -> None:
    index = position(device)
    for shape in device.info.cooperative_matrix:
        values: dict[str, Any] = dataclasses.asdict(shape)
        if not dtype_cases.unknown_matrix(values):
            assert selftest.matrix(index, values) == "agrees with NumPy"
    with pytest.raises(CaseSkipped, match="cooperative"):
        selftest.no_matrix(index)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("ARITHMETIC", "2.0 + abs(v)", "2.001 + abs(v)"),
        ("INCREMENT", "x.at[i] += 1", "x.at[i] |= 1"),
        ("ATOMICS", "i & 15", "i & 7"),
    ],
)
def test_wrong_results_are_noticed(
    name: str,
    right: str,
    wrong: str,
    device: vkbackend.Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = getattr(kernels, name)
    assert right in source
    monkeypatch.setattr(kernels, name, source.replace(right, wrong))
    test = {"INCREMENT": "timeline"}.get(name, name.lower())
    with pytest.raises(WrongResult, match=r"values differ: element \d+ is"):
        selftest.PLAIN[test](position(device))


def test_check_tolerates_rounding_only() -> None:
    one = np.ones(3, np.float32)
    selftest.check("x", one * np.float32(1 + 1e-6), one)
    with pytest.raises(WrongResult, match="x: 1 of 3 values differ: element 2 is 2"):
        selftest.check("x", np.array([1, 1, 2], np.float32), one)
    with pytest.raises(WrongResult):
        selftest.check("x", np.array([3]), np.array([4]))


def test_core_tests_exist() -> None:
    assert set(selftest.CORE) <= selftest.TESTS.keys()
    shapeless = {"cooperative_matrix": []}
    asked = {request.probe for _, request in report._test_requests(shapeless, 0)}
    assert asked | {"matrix"} == selftest.TESTS.keys()
