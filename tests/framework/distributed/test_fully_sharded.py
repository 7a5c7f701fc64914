"""PyTorch's programs divide models, and take the steps that PyTorch takes."""

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.fsdp as theirs

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework import distributed as dist
from vkbackend.framework import nn
from vkbackend.framework.communication.group import Group
from vkbackend.framework.distributed import fsdp, fully_sharded


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.torch213
def test_signatures() -> None:
    for name in ("FullyShardedDataParallel", "fully_shard"):
        ours, other = (
            [*inspect.signature(getattr(each, name)).parameters]
            for each in (fsdp, theirs)
        )
        assert ours == other


def train(model: Any, library: Any, part: slice) -> None:
    optimizer = library.optim.Adam(model.parameters(), lr=0.1)
    for step in range(2):
        x = np.random.default_rng(step).standard_normal((6, 3)).astype(np.float32)
        optimizer.zero_grad()
        model(library.tensor(x[part])).square().mean().backward()
        optimizer.step()


def test_full_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the step of the whole batch, which PyTorch's FSDP takes, too."""
    fw.manual_seed(0)
    layers = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    state = {key: value.numpy().copy() for key, value in layers.state_dict().items()}
    whole = torch.nn.Sequential(
        torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)
    )
    whole.load_state_dict({key: torch.tensor(value) for key, value in state.items()})

    def work(group: Group) -> Any:
        made = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
        made.load_state_dict(state)
        model = fsdp.FullyShardedDataParallel(
            made,
            group,
            auto_wrap_policy=fsdp.wrap.ModuleWrapPolicy({nn.Linear}),
            sharding_strategy=fsdp.ShardingStrategy.SHARD_GRAD_OP,
            sync_module_states=True,
        )
        train(model, fw, slice(2 * group.rank, 2 * group.rank + 2))
        sharded = fsdp.StateDictType.SHARDED_STATE_DICT
        with fsdp.FullyShardedDataParallel.state_dict_type(model, sharded):
            own = sum(each.numel() for each in model.state_dict().values())
        with fsdp.FullyShardedDataParallel.summon_full_params(model):
            assert model.module[0].weight.shape == (5, 3)
        return model.state_dict(), own

    results = as_threads(monkeypatch, 3).run(work)
    train(whole, torch, slice(None))
    for found, _ in results:
        for key, value in whole.state_dict().items():
            np.testing.assert_allclose(found[key].numpy(), value.numpy(), rtol=1e-4)
    assert sum(own for _, own in results) == 32


def test_fully_shard() -> None:
    fw.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    before = model(fw.ones(1, 3)).item()
    low = fsdp.MixedPrecisionPolicy(output_dtype=fw.float64)
    assert fsdp.fully_shard([model[0]])[0] is model[0]
    assert fsdp.fully_shard(model, mp_policy=low) is model
    assert isinstance(model, fsdp.FSDPModule)
    assert isinstance(model, nn.Sequential)
    assert isinstance(model[0], fsdp.FSDPModule)
    model.set_requires_gradient_sync(False)
    model(fw.ones(1, 3)).sum().backward()
    assert model[0].weight.grad is None
    model.set_requires_gradient_sync(True)
    out = model(fw.ones(1, 3))
    assert out.dtype is fw.float64
    assert out.item() == pytest.approx(before)
    out.sum().backward()
    assert model[1].bias.grad.tolist() == [2.0]
    model.set_reshard_after_forward(False)
    model.unshard(async_op=True).wait()
    model.reshard()
    assert isinstance(fully_sharded.ShardedGradScaler(), fw.GradScaler)


def test_what_is_refused() -> None:
    layer = nn.Linear(1, 1)
    with pytest.raises(NotImplementedError, match="sharding_strategy is NO_SHARD"):
        fsdp.FullyShardedDataParallel(
            layer, sharding_strategy=fsdp.ShardingStrategy.NO_SHARD
        )
    with pytest.raises(NotImplementedError, match="parameters are to stay on the host"):
        fsdp.FullyShardedDataParallel(layer, cpu_offload=fsdp.CPUOffload(True))
    with pytest.raises(NotImplementedError, match="fully_shard: parameters are to sta"):
        fsdp.fully_shard(layer, offload_policy=fsdp.CPUOffloadPolicy())
    with pytest.raises(NotImplementedError, match="ignored_params and dp_mesh_dims"):
        fsdp.fully_shard(layer, ignored_params={layer.weight})
