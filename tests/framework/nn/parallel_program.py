"""What several processes check, each for itself: steps of modules that ranks share."""

from typing import Any

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.communication.group import Group

STEPS = 4


def made(device: Any) -> tuple[nn.Module, fw.optim.Optimizer]:
    fw.manual_seed(5)
    layers = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)
    model = nn.Sequential(*layers).to(device)
    model[1].eval()  # over the whole batch, statistics are others
    return model, fw.optim.AdamW(model.parameters(), lr=0.1)


def data_parallel(group: Group, device: Any) -> None:
    """Take replayed steps with parts of batches, and eager ones with all of them."""
    rng = np.random.default_rng(0)
    own, own_optimizer = made(device)
    whole, optimizer = made("cpu")
    model = nn.DataParallel(own, group, bucket_bytes=48)
    assert len(model.reducer.buckets) > 1

    @fw.jit
    def step(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        own_optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        own_optimizer.step()
        return group.all_gather(loss.detach())

    for _ in range(STEPS):
        x = rng.standard_normal((2 * group.size, 3)).astype(np.float32)
        y = rng.standard_normal((2 * group.size, 1)).astype(np.float32)
        part = slice(2 * group.rank, 2 * group.rank + 2)
        losses = step(*[fw.tensor(each[part], device=device) for each in (x, y)])
        optimizer.zero_grad()
        loss = ((whole(fw.tensor(x)) - fw.tensor(y)) ** 2).mean()
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(losses.numpy().mean(), loss.item(), rtol=1e-4)
    for mine, right in zip(own.state_dict().values(), whole.state_dict().values()):
        bits = group.gather_objects(mine.numpy().tobytes())
        assert bits == bits[:1] * group.size
        np.testing.assert_allclose(mine.numpy(), right.numpy(), rtol=1e-3, atol=1e-5)
    assert step.replays == STEPS - 2
    print(f"data parallel: rank {group.rank} is right", flush=True)


def tensor_parallel(group: Group, device: Any) -> None:
    """Take replayed steps with parts of layers, and eager ones with the whole."""
    rng = np.random.default_rng(1)
    plan = {"0": "column", "2": "row"}

    def made(device: Any) -> nn.Module:
        fw.manual_seed(6)
        layers = nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)
        return nn.Sequential(*layers).to(device)

    own, whole = made(device), made("cpu")
    nn.tensor_parallel(own, group, plan)
    own_optimizer, optimizer = (
        fw.optim.SGD(each.parameters(), lr=0.1) for each in (own, whole)
    )

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        own_optimizer.zero_grad()
        loss = own(x).square().mean()
        loss.backward()
        own_optimizer.step()
        return loss.detach()

    for _ in range(STEPS):
        x = rng.standard_normal((4, 3)).astype(np.float32)
        found = step(fw.tensor(x, device=device))
        optimizer.zero_grad()
        loss = whole(fw.tensor(x)).square().mean()
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(found.item(), loss.item(), rtol=1e-4)
    state = nn.whole_state_dict(own)
    for key, right in whole.state_dict().items():
        np.testing.assert_allclose(state[key].numpy(), right.numpy(), rtol=1e-3)
    assert step.replays == STEPS - 1, step.replays
    print(f"tensor parallel: rank {group.rank} is right", flush=True)


def main() -> None:
    group = fw.distributed.init()
    data_parallel(group, group.device)
    tensor_parallel(group, group.device)


main()
