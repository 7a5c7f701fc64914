"""What several processes check, each for itself: trainings and pipelines on devices."""

import sys
from typing import Any

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import data, nn, optim
from vkbackend.framework.communication.group import Group
from vkbackend.framework.optim.divided_state import gathered, model_state

RNG = np.random.default_rng(0)
X = RNG.standard_normal((16, 3)).astype(np.float32)
Y = RNG.standard_normal((16, 1)).astype(np.float32)


def layers() -> nn.Module:
    fw.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


def fit(group: Group | None, sharded: bool, epochs: int, **options: Any) -> Any:
    """Return the weights and the numbers of a training with batches of 8 samples."""
    device: Any = fw.device("cpu") if group is None else group.device
    size = 1 if group is None else group.size
    model: nn.Module = layers()
    if sharded:
        model = nn.FSDP(model, group, auto_wrap_policy="children")
    model.to(device)
    optimizer = optim.Adam(model.parameters(), 0.01)
    trainer = optim.Trainer(optimizer, max_norm=1.0, group=group)
    sampler = data.DistributedSampler(X, 1, 0) if group is None else None
    shuffle = True if sampler is None else None
    dataset = data.TensorDataset(X, Y)
    loader = data.DataLoader(dataset, 8 // size, shuffle=shuffle, sampler=sampler)
    loss = nn.functional.mse_loss
    val = data.DataLoader(dataset, 3)
    history = trainer.fit(
        model, loader, epochs, val, loss=loss, progress=False, **options
    )
    state = gathered(model_state(model), group if sharded else None)
    return state, history.epochs[-1]


def check_fit(group: Group, sharded: bool, folder: str) -> None:
    path = f"{folder}/{sharded}"
    fit(group, sharded, 2, checkpoint=path)
    weights, numbers = fit(group, sharded, 4, checkpoint=path, resume=True)
    expected, known = fit(None, False, 4)
    for name, value in known.items():
        np.testing.assert_allclose(numbers[name], value, rtol=1e-3)
    for name, value in expected.items():
        found = weights[name].numpy()
        np.testing.assert_allclose(found, value.numpy(), rtol=1e-2, atol=1e-4)


def check_pipeline(group: Group) -> None:
    whole, loss = layers(), nn.functional.mse_loss
    model = nn.Pipeline(layers().to(group.device), 4, group, loss=loss)
    x, y = (fw.tensor(each, device=group.device) for each in (X, Y))
    found = model.step(x if model.is_first else None, y if model.is_last else None)
    expected = loss(whole(fw.tensor(X)), fw.tensor(Y))
    expected.backward()
    if found is not None:
        np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-4)
    right = dict(whole.named_parameters())
    for name, each in model.named_parameters():
        grad = right[name].grad.numpy()
        np.testing.assert_allclose(each.grad.numpy(), grad, rtol=1e-3, atol=1e-6)


def main() -> None:
    group = fw.distributed.init()
    check_pipeline(group)
    for sharded in (False, True):
        check_fit(group, sharded, sys.argv[1])
    print(f"rank {group.rank} is right", flush=True)


if __name__ == "__main__":
    main()
