"""Placements are plain data, as in PyTorch."""

import inspect

import pytest
import torch.distributed.tensor
import torch.distributed.tensor.parallel as theirs

import vkbackend.framework as fw
from vkbackend.framework.distributed import placement
from vkbackend.framework.distributed.tensor import DTensor, Partial, Replicate, Shard

STYLES = (
    "ColwiseParallel", "RowwiseParallel", "SequenceParallel", "PrepareModuleInput",
    "PrepareModuleOutput",
)  # fmt: skip


def test_placements_are_pytorchs() -> None:
    of = torch.distributed.tensor
    for ours, other in (
        (Shard(1), of.Shard(1)),
        (Replicate(), of.Replicate()),
        (Partial("avg"), of.Partial("avg")),
    ):
        assert (str(ours), repr(ours)) == (str(other), repr(other))
        for name in ("is_shard", "is_replicate", "is_partial"):
            assert getattr(ours, name)() == getattr(other, name)()
        assert ours.is_shard(0) is False
    assert {Shard(1): 1}[Shard(1)] == 1
    assert not isinstance(fw.ones(1), DTensor)


@pytest.mark.parametrize("name", STYLES)
def test_styles_take_what_pytorchs_take(name: str) -> None:
    ours = inspect.signature(getattr(placement, name))
    assert [
        (each.name, each.kind, each.default) for each in ours.parameters.values()
    ] == [
        (each.name, each.kind, each.default)
        for each in inspect.signature(getattr(theirs, name)).parameters.values()
    ]


def test_a_style_raises_where_it_is_applied() -> None:
    style = placement.ColwiseParallel()
    assert style.output_layouts == (Shard(-1),)
    with pytest.raises(NotImplementedError, match="use the module itself"):
        style._apply(fw.nn.Identity(), None)
