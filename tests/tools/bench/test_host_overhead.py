"""Host costs: which calls are waited for, and the table."""

import pytest

import vkbackend
from vkbackend.tools.bench import host_overhead


def test_each_call_comes_after_a_wait() -> None:
    told: list[str] = []
    taken = host_overhead.after_a_wait(
        lambda: told.append("call"), lambda: told.append("-"), 3
    )
    assert len(taken) == 3
    assert told == ["-", "call", "-", "call", "-", "call", "-"]


def test_bursts_wait_for_nothing_within() -> None:
    told: list[str] = []
    taken = host_overhead.in_bursts(
        lambda: told.append("x"), lambda: told.append("-"), 10
    )
    assert len(taken) == 10
    assert "".join(told) == "-xxxxxxxx-xx-"


def test_quantiles() -> None:
    assert host_overhead.quantiles([*range(100, -1, -1)]) == (0, 10, 50, 90)


@pytest.mark.wide
def test_the_table(
    device: vkbackend.Device, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--peer", "numpy", "--size", "small", "--calls", "5"]
    assert host_overhead.main([*options, "--device", device.name]) == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[1:3] for line in table[2:]] == [
        ["ours", how] for _ in range(2) for how in ("ahead", "idle")
    ]


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert host_overhead.main(["--peer", "numpy", "--device", "cpu"]) == 1
    assert "no Vulkan device" in capsys.readouterr().err
