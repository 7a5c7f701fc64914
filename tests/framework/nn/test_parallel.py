"""Modules over several devices are not here; over one process they are themselves."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.process_group import ProcessGroup


def test_several_devices_raise() -> None:
    with pytest.raises(NotImplementedError, match="use the module itself"):
        fw.nn.DataParallel(fw.nn.Identity())


def test_one_process() -> None:
    layer = fw.nn.Linear(2, 1)
    wrapped = fw.nn.parallel.DistributedDataParallel
    with pytest.raises(ValueError, match="no process group is initialised"):
        wrapped(layer)
    model = wrapped(layer, device_ids=[0], process_group=ProcessGroup())
    x = fw.ones(1, 2)
    with model.no_sync():
        assert fw.equal(model(x), layer(x))
    assert [*model.state_dict()] == ["module.weight", "module.bias"]
