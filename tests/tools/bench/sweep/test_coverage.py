"""Every declared op takes part, or its absence has a reason."""

from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.tools.bench.sweep.coverage import (
    NOT_SWEPT,
    REACHED_BY,
    missing,
    reached,
)
from vkbackend.tools.bench.sweep.units import units


def test_every_op_takes_part() -> None:
    known = units()
    assert sorted(missing(known)) == []
    assert sorted({*NOT_SWEPT, *REACHED_BY} - set(REGISTRY)) == []
    assert sorted(set(REACHED_BY.values()) - set(known)) == []
    assert "softmax_grad" in reached([known["softmax"]])
    assert "sort" not in reached([known["abs"]])
