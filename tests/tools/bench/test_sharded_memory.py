"""Peaks of memory among processes, here of one."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.communication.group import Group, alone
from vkbackend.tools.bench import sharded_memory
from vkbackend.tools.bench.models import Sizes


def test_layers_take_what_is_asked_for() -> None:
    sizes = Sizes(100, 8, 64, 4, 0)
    layer = 12 * 64**2 + 13 * 64
    assert sharded_memory.layers_of(sizes, 0) == 6
    for count in (7, 20):
        state = 16 * (100 * 64 + count * layer)
        assert sharded_memory.layers_of(sizes, state) == count


@pytest.mark.wide
def test_a_row_for_each_model(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def init(transport: str) -> Group:
        group = alone()
        group._device = lambda: gpu
        return group

    monkeypatch.setattr(fw.distributed, "init", init)
    sharded_memory.main(["--size", "small", "--gibibytes", "0.001"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"1 ranks, {gpu}, none: this process is alone"
    rows = [
        [each.strip() for each in line.split("|")[1:-1]]
        for line in lines[3:]
        if line.startswith("|")
    ]
    assert [row[0] for row in rows] == ["alone", "alone", "alone", "FSDP"]
    layers = rows[2][2]
    assert [row[2] for row in rows[2:]] == [layers, layers]
    assert [float(row[4]) > 0.9 * float(row[3]) for row in rows] == [True] * 4
    # FSDP among one process keeps what the model alone does, and trains alike.
    assert rows[2][7] == rows[3][7]
    assert f"predicted for {layers} layers on a card: " in lines[5]
    whole, predicted = float(rows[2][4]), float(lines[5].split(": ")[1].split()[0])
    assert predicted == pytest.approx(whole, rel=0.05)
    assert lines[-1].startswith("FSDP over one card: ")
