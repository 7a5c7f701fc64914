"""Variants of kernels: constants are replaced for a while, and the table."""

import time
from types import SimpleNamespace

import pytest

import vkbackend.framework as fw
from vkbackend.errors import ShaderError
from vkbackend.framework.base.device import GpuDevice
from vkbackend.tools.bench import variants
from vkbackend.tools.bench.variants import (
    Timing,
    Variant,
    applied,
    print_table,
    timings,
)


def test_constants_are_replaced_for_a_while(gpu: GpuDevice) -> None:
    module, table = SimpleNamespace(SIZE=1), {2: 3}
    with applied(gpu, Variant("other", [(module, "SIZE", 4), (table, 2, 5)])):
        assert (module.SIZE, table[2]) == (4, 5)
    assert (module.SIZE, table[2]) == (1, 3)


def test_what_differs_and_what_fails(
    gpu: GpuDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    module = SimpleNamespace(add=0.0)
    x = fw.tensor([1.0, 2.0], "float32", gpu)

    def run() -> list[fw.Tensor]:
        if module.add < 0:
            raise ShaderError("no such kernel")
        return [x + module.add]

    rows = [Variant(str(add), [(module, "add", add)]) for add in (0.0, 1.0, -1.0)]
    found = list(timings(gpu, rows, run, time.monotonic() + 60))
    assert [row.name for row in found] == ["0.0", "1.0"]
    assert [row.difference for row in found] == [0.0, 0.5]
    assert all(row.seconds > 0 for row in found)
    assert "no such kernel" in capsys.readouterr().err
    assert list(timings(gpu, rows, run, 0.0)) == []


def test_a_board_is_warm_before_its_timings(monkeypatch: pytest.MonkeyPatch) -> None:
    # A device whose runs take 4 ms until 30 of them have raised its clock, then 1 ms.
    batches: list[int] = []

    def clock(gpu: object, run: object, repeat: int) -> float:
        slow = max(0, min(repeat, 30 - sum(batches)))
        batches.append(repeat)
        return (slow * 0.004 + (repeat - slow) * 0.001) / repeat

    monkeypatch.setattr(variants, "device_seconds", clock)
    device = SimpleNamespace(gpu=SimpleNamespace(info=SimpleNamespace(kind="discrete")))
    assert variants._seconds(device, list) == pytest.approx(0.001)
    first, *warm, one, two, three = batches
    assert (first, one, two, three) == (1, 20, 20, 20)
    assert sum(warm) >= 30


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("kernel", [Timing("own", 2e-6, 0.0), Timing("other", 1e-6, 0.1)], 2e6)
    title, best, own = capsys.readouterr().out.splitlines()
    assert title == "kernel"
    assert best.split() == (
        ["1.0", "us", "2.00x", "2.0", "TFLOP/s", "differs", "by", "1.0e-01", "other"]
    )
    assert own.split()[0] == "*"
