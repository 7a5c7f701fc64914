"""Times of sums among processes, here of one."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.communication.group import Group, alone
from vkbackend.tools.bench import collectives


def test_a_row_for_each_size(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def init(transport: str) -> Group:
        assert transport == "any"
        group = alone()
        group._device = lambda: gpu
        return group

    monkeypatch.setattr(fw.distributed, "init", init)
    collectives.main(["--most", "16384", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"1 ranks, {gpu}, none: this process is alone"
    assert [line.split()[1] for line in lines[3:]] == ["4096", "16384"]
