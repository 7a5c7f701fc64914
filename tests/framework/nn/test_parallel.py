"""DistributedDataParallel: PyTorch's class over the groups of several processes."""

import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework.base.process_group import ProcessGroup
from vkbackend.framework.communication.group import Group
from vkbackend.framework.distributed import default_hooks


def test_one_process() -> None:
    layer = fw.nn.Linear(2, 1)
    wrapped = fw.nn.parallel.DistributedDataParallel
    with pytest.raises(ValueError, match="no process group is initialised"):
        wrapped(layer)
    model = wrapped(layer, device_ids=[0], process_group=ProcessGroup())
    x = fw.ones(1, 2)
    with model.no_sync(), model.join():
        assert fw.equal(model(x), layer(x))
    assert [*model.state_dict()] == ["module.weight", "module.bias"]


def test_two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> fw.Tensor:
        layer = fw.nn.Linear(2, 1)
        model = fw.nn.parallel.DistributedDataParallel(
            layer, process_group=ProcessGroup(engine=group), bucket_cap_mb=1
        )
        assert model.broadcast_buffers
        model.register_comm_hook(model.process_group, default_hooks.fp16_compress_hook)
        (model(fw.full((1, 2), group.rank + 1 / 3)).sum() * 3).backward()
        return layer.weight.grad

    first, second = as_threads(monkeypatch, 2).run(work)
    assert fw.equal(first, second)
    assert first.tolist() == [[2.5, 2.5]]
