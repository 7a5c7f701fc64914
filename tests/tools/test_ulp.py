"""The table of errors: how they are measured, and that none is too large."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.special_cases import SPECIAL
from vkbackend.framework import ops
from vkbackend.framework.base.device import CPU, GpuDevice
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.tools import ulp

ONE, TWO = ulp.one_number(), ulp.two_numbers()
# GLSL's own, about which a driver decides.
BUILT_IN = ("sqrt", "rsqrt", "reciprocal", "div")
# Stand for the others on other drivers.
DIFFERENT = ("sin", "exp", "log", "erf", "pow", "atan2")


def test_what_is_rounded_right_is_half_a_unit_off() -> None:
    worst = ulp.worst_error(ops.square, (ONE[0][::64],), CPU)
    assert 0.49 < worst.ulp <= 0.5


def test_errors_count_in_units_of_the_result() -> None:
    def off(x: fw.Tensor) -> fw.Tensor:
        shift = 3 * 2.0**-23 if x.dtype is fw.float32 else 0.0
        return x + shift

    worst = ulp.worst_error(off, (np.array([1.0, 1.5, 4.0], np.float32),), CPU)
    assert worst.ulp == 3
    assert worst.where[0] in (1.0, 1.5)


def test_a_missing_nan_is_an_infinite_error() -> None:
    def wrong(x: fw.Tensor) -> fw.Tensor:
        return x if x.dtype is fw.float32 else x / 0.0 * 0.0

    assert ulp.worst_error(wrong, (np.ones(1, np.float32),), CPU).ulp == np.inf


def test_small_numbers_are_apart() -> None:
    def flushed(x: fw.Tensor) -> fw.Tensor:
        return ops.where(ops.abs(x) < 1e-38, 0.0, x) if x.dtype is fw.float32 else x

    inputs = (np.array([1.0, 1e-40], np.float32),)
    worst = ulp.worst_error(flushed, inputs, CPU)
    assert worst.ulp == 0
    assert worst.denormal > 1000


def test_every_float_function_of_one_number_is_in_the_table() -> None:
    own = {
        name
        for name, op in REGISTRY.items()
        if op.is_elementwise and op.names == ("x",) and fw.float32 in op.dtypes
    }
    logic = {"copy", "isnan", "isinf", "isfinite", "logical_not", "conj_physical"}
    parts = {"gelu_exact", "gelu_grad", "gelu_tanh", "lifted", "log_of_odds"}
    exact = {"has_sign", "mantissa", "exponent"}
    # Tests of their own have ranges where these are not about to vanish.
    assert own - logic - parts - exact - set(SPECIAL) <= set(ulp.UNARY)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.core] if name in DIFFERENT else [])
        for name in ulp.CUDA
        if name not in BUILT_IN
    ],
)
def test_no_worse_than_cuda(name: str, gpu: GpuDevice) -> None:
    inputs = TWO if name in ulp.BINARY else ONE
    # Devices may take numbers below 2^-126 as 0, also on the way.
    usual = [(np.abs(x) > 1e-30) | (x == 0) for x in inputs]
    few = tuple(x[np.logical_and.reduce(usual)][::13] for x in inputs)
    with fw.no_grad():
        worst = ulp.worst_error(getattr(ops, name), few, gpu)
    assert worst.ulp <= ulp.CUDA[name] + 0.5


@pytest.mark.core
def test_table(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ulp", "neg", "--device", gpu.name])
    monkeypatch.setattr(ulp, "one_number", lambda: (np.ones(4, np.float32),))
    ulp.main()
    first, _, heading, row = capsys.readouterr().out.splitlines()
    assert first == f"device: {gpu.name}"
    assert heading.split() == ["function", "ulp", "denormal", "cuda", "worst", "at"]
    assert row.split() == ["neg", "0.000", "0", "1"]


NUMBER = r"(?:-?\d[\d.]*(?:e[+-]\d+)?|-?inf|nan)"
LINE = (
    rf"\| `(\w+)` \| ({NUMBER}) \| ({NUMBER}) \| (\d*) \| ({NUMBER}(?:, {NUMBER})?) \|"
)


@pytest.mark.checkout
def test_errors_that_are_kept() -> None:
    text = ulp.TABLE.read_text(encoding="utf-8")
    assert text.startswith(ulp.HEAD)
    sections = text[len(ulp.HEAD) :].split("\n## ")[1:]
    assert sections
    for section in sections:
        name, _, driver, _, heading, rule, *lines = section.rstrip("\n").split("\n")
        assert name
        assert driver.startswith("Driver: ")
        assert heading.split(" | ")[1:4] == list(ulp.COLUMNS[1:4])
        assert set(rule) == set("| -:")
        rows = [re.fullmatch(LINE, line) for line in lines]
        assert all(rows), [line for line, row in zip(lines, rows) if not row]
        found = [row.groups() for row in rows if row]
        assert [row[0] for row in found] == [*ulp.UNARY, *ulp.BINARY]
        assert [row[3] for row in found] == [
            str(ulp.CUDA.get(row[0], "")) for row in found
        ]
        worse = {
            n
            for n, error, _, cuda, _ in found
            if cuda and float(error) > int(cuda) + 0.5
        }
        assert worse <= {*BUILT_IN, "remainder"}


def test_a_section_takes_the_place_of_the_same_devices() -> None:
    one = ulp.updated("", "## B\n\nold\n")
    assert one == f"{ulp.HEAD}\n## B\n\nold\n"
    two = ulp.updated(one, "## A\n\nfirst\n")
    assert two == f"{ulp.HEAD}\n## A\n\nfirst\n\n## B\n\nold\n"
    three = ulp.updated(two, "## B\n\nnew\n")
    assert three == f"{ulp.HEAD}\n## A\n\nfirst\n\n## B\n\nnew\n"


@pytest.mark.core
def test_keeping_the_table(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "table.md"
    command = ["ulp", "--device", gpu.name, "--write", str(file)]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(ulp, "UNARY", ("neg",))
    monkeypatch.setattr(ulp, "BINARY", ())
    monkeypatch.setattr(ulp, "one_number", lambda: (np.ones(4, np.float32),))
    for _ in range(2):
        ulp.main()
        lines = file.read_text().splitlines()
        assert lines[-1] == "| `neg` | 0.000 | 0 |  | 1 |"
        assert lines.count(f"## {gpu.gpu.info.name}") == 1
    monkeypatch.setattr(sys, "argv", [*command, "neg"])
    with pytest.raises(SystemExit):
        ulp.main()
