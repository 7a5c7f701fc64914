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
    parallel.main(["--only", "gpt", "--size", "small", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"1 ranks, {gpu}, none: this process is alone"
    rows = [[each.strip() for each in line.split("|")[1:-1]] for line in lines[3:]]
    assert [row[:2] for row in rows] == [
        ["gpt", "alone"],
        ["gpt", "DataParallel, 25 MiB"],
        ["gpt", "FSDP"],
    ]
    assert rows[0][3] == "1.000"
    assert all(float(row[2]) > 0 for row in rows)
