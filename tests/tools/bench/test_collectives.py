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
    assert all(len(line.split("|")) == 9 for line in lines[1:])


def test_times_count_once_they_have_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of little, of which there are more."""
    group, taken = alone(), iter([9.0, 8.0, 7.0, 6.0, *[5.0, 4.0] * 9])
    monkeypatch.setattr(group, "gather_objects", lambda value: [next(taken), 1.0])
    calls: list[int] = []
    assert collectives.seconds_of(group, lambda: calls.append(0), 3) == 4.0
    assert len(calls) == 12
