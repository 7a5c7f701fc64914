"""Options of sharding are the plain data that they are in PyTorch."""

import dataclasses
import inspect
from enum import Enum

import pytest
import torch.distributed.fsdp

import vkbackend.framework as fw
from vkbackend.framework.distributed import fsdp, sharding


@pytest.mark.torch213
@pytest.mark.parametrize("name", sharding.__all__)
def test_option(name: str) -> None:
    ours, theirs = getattr(fsdp, name), getattr(torch.distributed.fsdp, name)
    if isinstance(ours, type) and issubclass(ours, Enum):
        assert [(each.name, each.value) for each in ours] == [
            (each.name, each.value) for each in theirs
        ]
    elif dataclasses.is_dataclass(ours):
        found, expected = (
            [(each.name, each.default) for each in dataclasses.fields(each)]
            for each in (ours, theirs)
        )
        if name == "MixedPrecision":
            found, expected = found[:-1], expected[:-1]
        assert found == expected
    else:
        assert [*inspect.signature(ours).parameters] == [
            *inspect.signature(theirs).parameters
        ]


def test_what_is_not_divided() -> None:
    layer = fw.nn.Linear(1, 1)
    assert not isinstance(layer, fsdp.FullyShardedDataParallel | fsdp.FSDPModule)
    fsdp.register_fsdp_forward_method(layer, "forward")
