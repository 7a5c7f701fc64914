"""A table of nodes has what they read and write by number."""

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.scheduler.node_table import NodeTable


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
    table = NodeTable(nodes, slots, {id(kept.array.value)})
    assert [each.op.name for each in table.signatures] == ["add", "mul", "mul", "exp"]
    assert table.sources == [(-1,), (0, -1), (-1,), (1,)]
    assert table.reads == [(0,), (1, 0), (0,), (2,)]
    assert table.writes == [(1,), (2,), (3,), (4,)]
    assert slots[id(unused)] == 3
    assert table.external == [0, 0, 0, 1]
    assert table.live_nodes() == [0, 1, 3]
    summary = table.summaries()[1]
    assert (summary.op, summary.shape, summary.reads) == ("mul", (4,), (0, -1))
    assert (summary.external, summary.slots) == (False, (2,))
