"""Times of training among processes, here of one."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.communication.group import Group, alone
from vkbackend.tools.bench import parallel


def test_a_row_for_each_way(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def init(transport: str) -> Group:
        group = alone()
        group._device = lambda: gpu
        return group

    monkeypatch.setattr(fw.distributed, "init", init)
    parallel.main(["--only", "gpt", "--size", "small", "--rounds", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"1 ranks, {gpu}, none: this process is alone"
    rows = [
        [each.strip() for each in line.split("|")[1:-1]]
        for line in lines[3:]
        if line.startswith("|")
    ]
    assert [row[:2] for row in rows] == [
        ["gpt", "alone"],
        ["gpt", "DataParallel, 25 MiB"],
        ["gpt", "alone"],
        ["gpt", "FSDP"],
    ]
    assert rows[0][3] == rows[2][3] == "1.000"
    assert all(float(row[2]) > 0 for row in rows)
    assert all(len(row) == 8 for row in rows)
    # Only gradients in buckets have an exchange of their own.
    assert [bool(row[5]) for row in rows] == [False, True, False, False]
    times = [line.split(": ") for line in lines[3:] if not line.startswith("|")]
    kinds = [each[0].split(", ms")[0].strip() for each in times]
    assert kinds == [row[1] for row in rows]
    assert all(len(each[1].split()) == 2 for each in times)


class _Counted(parallel.Timed):
    """A step that takes what it is told to."""

    def __init__(self, name: str, taken: list[str], times: list[float]) -> None:
        super().__init__(alone(), lambda: None)
        self.name, self.taken, self.left = name, taken, iter(times)

    def seconds(self) -> float:
        self.taken.append(self.name)
        return next(self.left)


def test_steps_are_taken_in_turn_until_times_settle() -> None:
    taken: list[str] = []
    quick = _Counted("a", taken, [2.0] * 20)
    slow = _Counted("b", taken, [9.0, 8.0, 7.0, 4.0, *[3.0] * 20])
    assert parallel.warm([quick, slow], 1e6) == 8
    parallel.measure([quick, slow], 3)
    assert taken == ["a", "b"] * 11
    assert parallel.efficiency(quick, slow) == 2 / 3
    # What never settles ends, too, at the same round on all ranks.
    falling = _Counted("c", [], [2.0**-k for k in range(40)])
    assert parallel.warm([falling], 1.9) == 5
