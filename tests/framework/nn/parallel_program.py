"""What several processes check, each for itself: steps of modules they share."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.communication.group import Group

STEPS = 4
ROWS = 2
"""Samples of a rank."""


class TinyGPT(nn.Module):
    """A decoder of one block, with tied embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.places = nn.Embedding(5, 8)
        self.block = nn.TransformerEncoderLayer(
            8, 4, 16, dropout=0.0, batch_first=True, norm_first=True
        )
        self.norm = nn.LayerNorm(8)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        embedded = self.tokens(x) + self.places.weight
        hidden = self.norm(self.block(embedded, mask, is_causal=True))
        return hidden @ self.tokens.weight.T


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 4))


def cnn() -> nn.Module:
    layers = nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(16, 4))


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (3,)),
    "cnn": (cnn, (3, 6, 6)),
    "gpt": (TinyGPT, (5,)),
}


def batch(name: str, step: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(step)
    shape = (rows, *CASES[name][1])
    if name == "gpt":
        return rng.integers(0, 11, shape), rng.integers(0, 11, shape)
    return rng.standard_normal(shape).astype(np.float32), rng.integers(0, 4, rows)


def loss_of(model: nn.Module, x: Any, y: Any) -> fw.Tensor:
    out = model(fw.as_tensor(x))
    wanted = fw.as_tensor(y).reshape(-1)
    return nn.functional.cross_entropy(out.reshape(wanted.shape[0], -1), wanted)


def make(name: str, seed: int) -> nn.Module:
    with fw.random.fork_rng():
        fw.manual_seed(seed)
        return CASES[name][0]()


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


def heads(group: Group, device: Any) -> None:
    """Take replayed steps with some of the heads, and eager ones with all of them."""
    own, whole = make("gpt", group.rank).to(device), make("gpt", 0)
    nn.tensor_parallel(own, group)
    mine, optimizer = (fw.optim.SGD(x.parameters(), lr=0.1) for x in (own, whole))

    @fw.jit
    def step(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        mine.zero_grad()
        loss = loss_of(own, x, y)
        loss.backward()
        mine.step()
        return loss.detach()

    for at in range(STEPS):
        x, y = batch("gpt", at, ROWS)
        found = step(*[fw.tensor(each, device=device) for each in (x, y)])
        optimizer.zero_grad()
        loss = loss_of(whole, x, y)
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(found.item(), loss.item(), rtol=1e-4)
    state = nn.whole_state_dict(own)
    for key, right in whole.state_dict().items():
        np.testing.assert_allclose(
            state[key].numpy(), right.numpy(), rtol=1e-3, atol=1e-5
        )
    assert step.replays > 1
    print(f"heads: rank {group.rank} is right", flush=True)


class Logits(nn.Module):
    """A layer that shares the weight of an embedding."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return x @ self.weight.T


def stages(device: Any) -> nn.Sequential:
    fw.manual_seed(8)
    tokens, layers = nn.Embedding(5, 4), (nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    return nn.Sequential(tokens, *layers, Logits(tokens.weight)).to(device)


def pipeline(group: Group, device: Any) -> None:
    """Take replayed steps with some of the layers, and eager ones with all of them."""
    rng, micro = np.random.default_rng(1), 3
    loss_function = nn.functional.cross_entropy
    whole = stages("cpu")
    model = nn.Pipeline(stages(device), micro, group, loss=loss_function)
    mine, optimizer = (fw.optim.AdamW(x.parameters(), lr=0.05) for x in (model, whole))

    @fw.jit
    def step(x: fw.Tensor, y: fw.Tensor) -> Any:
        mine.zero_grad()
        loss = model.step(x, y)
        model.clip_grad_norm_(0.5)
        mine.step()
        return loss

    for at in range(2 * STEPS):
        rows = 2 * micro if at < STEPS else micro + 1
        x, y = (rng.integers(0, 5, rows) for _ in range(2))
        found = step(*[fw.tensor(each, device=device) for each in (x, y)])
        optimizer.zero_grad()
        loss = loss_function(whole(fw.tensor(x)), fw.tensor(y))
        loss.backward()
        nn.utils.clip_grad_norm_(whole.parameters(), 0.5)
        optimizer.step()
        if model.is_last:
            np.testing.assert_allclose(found.item(), loss.item(), rtol=1e-4)
    every = group.gather_objects({k: x.numpy() for k, x in model.state_dict().items()})
    state = {key: x for each in every for key, x in each.items()}
    for key, right in whole.state_dict().items():
        np.testing.assert_allclose(state[key], right.numpy(), rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(state["0.weight"], state["4.weight"])
    assert step.replays >= STEPS, step.replays
    print(f"pipeline: rank {group.rank} is right", flush=True)


def parts_of_batches(group: Group, device: Any, name: str) -> None:
    """Take replayed steps on a device with parts, and eager ones with whole batches."""
    own, whole = make(name, group.rank).to(device), make(name, 0)
    model = nn.DataParallel(own, group, bucket_bytes=1024)
    mine, optimizer = (
        fw.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (own, whole)
    )

    @fw.jit
    def step(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        mine.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        mine.step()
        return group.all_gather(loss.detach())

    for at in range(STEPS):
        x, y = batch(name, at, ROWS * group.size)
        part = slice(ROWS * group.rank, ROWS * (group.rank + 1))
        losses = step(*[fw.tensor(each[part], device=device) for each in (x, y)])
        optimizer.zero_grad()
        loss = loss_of(whole, x, y)
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(losses.numpy().mean(), loss.item(), rtol=1e-4)
    for key, right in whole.state_dict().items():
        found = own.state_dict()[key].numpy()
        bits = group.gather_objects(found.tobytes())
        assert bits == bits[:1] * group.size
        np.testing.assert_allclose(found, right.numpy(), rtol=1e-3, atol=1e-5)
    assert step.replays > 1
    print(f"{name}: rank {group.rank} is right", flush=True)


def main() -> None:
    group = fw.distributed.init()
    for name in sys.argv[1:]:
        if name == "heads":
            heads(group, group.device)
        else:
            parts_of_batches(group, group.device, name)
    data_parallel(group, group.device)
    tensor_parallel(group, group.device)
    pipeline(group, group.device)


if __name__ == "__main__":
    main()
