"""The wiring of a graph follows its nodes and values by numbers."""

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.scheduler.wiring import Wiring


def test_nodes_and_values_by_number(gpu: GpuDevice) -> None:
    x = fw.ones(4, device=gpu)
    fw.eval(x)
    y = (x + 1) * x
    unused = (x * 3).array.value
    kept = y.exp()
    nodes = list(gpu.pending)
    slots: dict[int, int] = {}
    for node in nodes:
        for value in (*node.values, *node.outputs):
            slots.setdefault(id(value), len(slots))
    wiring = Wiring(nodes, slots, {id(kept.array.value)})
    assert [each.op.name for each in wiring.signatures] == ["add", "mul", "mul", "exp"]
    assert wiring.sources == [[-1], [0, -1], [-1], [1]]
    assert wiring.reads == [[0], [1, 0], [0], [2]]
    assert wiring.writes == [[1], [2], [3], [4]]
    assert slots[id(unused)] == 3
    assert wiring.external == [0, 0, 0, 1]
    assert wiring.live_nodes() == [0, 1, 3]
