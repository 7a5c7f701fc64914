"""What a step has computed is freed when nothing refers to it any more.

A reference cycle would hold it until the garbage collector runs, which counts objects
and not bytes: memory of a device stays taken, and replays allocate instead of
recycling what earlier results had.
"""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import Tensor, nn
from vkbackend.framework.utils.checkpoint import checkpoint

Step = Callable[[], object]

WARM_UP, STEPS = 4, 3


def cyclic(step: Step) -> list[Any]:
    """Return the tensors that warm steps leave for the garbage collector."""
    for _ in range(WARM_UP):
        step()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(STEPS):
            step()
        gc.collect()
        return [each for each in gc.garbage if isinstance(each, Tensor)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def values(*shape: int) -> Tensor:
    """Return values to compute with, of a leaf."""
    return fw.tensor(np.random.default_rng(0).random(shape, np.float32))


class Checkpointed(nn.Module):
    """A layer that computes again what its backward pass needs."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Any:
        """Return the second layer's result."""
        return self.out(checkpoint(self.hidden, x, use_reentrant=False).relu())


MODELS: dict[str, Callable[[], nn.Module]] = {
    "perceptron": lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)),
    "checkpointed": Checkpointed,
    "recurrent": lambda: nn.Sequential(nn.Linear(6, 4), LastState()),
}


class LastState(nn.Module):
    """An LSTM's last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 2)

    def forward(self, x: Tensor) -> Any:
        """Return the states of the last layer."""
        return self.lstm(x[None])[1][0][0]


def training(name: str, place: Any) -> Step:
    """Return a step that returns tensors in containers."""
    fw.manual_seed(0)
    model = MODELS[name]().to(place)
    x = values(3, 6).to(place)
    optimizer = fw.optim.AdamW(model.parameters())

    def step() -> object:
        optimizer.zero_grad()
        with fw.autocast(x.device.type, dtype=fw.bfloat16):
            out = model(x)
        loss = (out.float() ** 2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {"loss": loss.detach(), "outputs": [out.detach()]}

    return step


@pytest.mark.parametrize("name", MODELS)
def test_a_step_on_the_host_leaves_no_tensor_in_a_cycle(name: str) -> None:
    assert not cyclic(training(name, "cpu"))


@pytest.mark.parametrize("name", ["perceptron", "checkpointed"])
def test_a_step_on_a_device_leaves_no_tensor_in_a_cycle(name: str, gpu: Any) -> None:
    assert not cyclic(training(name, gpu))


def test_a_replay_leaves_no_tensor_in_a_cycle(gpu: Any) -> None:
    assert not cyclic(fw.jit(training("perceptron", gpu)))


def test_replays_recycle_the_memory_of_earlier_results(gpu: Any) -> None:
    x = values(64, 64).to(gpu)
    step = fw.jit(lambda: [x + 1])
    gc.disable()
    try:
        for _ in range(WARM_UP):
            held = step()
        before = fw.accelerator.memory_allocated(gpu)
        for _ in range(40):
            held = step()
        assert fw.accelerator.memory_allocated(gpu) == before
        np.testing.assert_array_equal(held[0].numpy(), x.numpy() + 1)
    finally:
        gc.enable()


def test_functions_of_several_tensors_leave_no_tensor_in_a_cycle() -> None:
    x = values(4, 4)

    def gradients() -> None:
        leaf = x.clone().requires_grad_()
        (first,) = fw.autograd.grad((leaf**3).sum(), leaf, create_graph=True)
        first.sum().backward()

    for step in (
        gradients,
        lambda: fw.linalg.multi_dot([x, x + 1, x, x + 2]),
        lambda: fw.einsum("ij,jk,kl->il", x, x, x),
        lambda: fw.func.vmap(lambda row: row.sin().sum())(x),
        lambda: fw.func.jacrev(lambda row: row.sin())(x[0]),
        lambda: fw.linalg.svd(x),
        lambda: fw.distributions.Normal(x, 1.0).rsample(),
    ):
        assert not cyclic(step)


def test_an_error_holds_no_argument_when_it_is_gone(gpu: Any) -> None:
    def fail(place: Any) -> None:
        x = values(2, 3).to(place)
        for call in (
            lambda: x @ x,
            lambda: fw.cat([x, x[0]]),
            lambda: x.sum(dim="rows"),
            lambda: nn.Linear(4, 2)(x),
            lambda: fw.autograd.grad(x, x),
        ):
            with pytest.raises(Exception, match=r"."):
                call()

    assert not cyclic(lambda: fail("cpu"))
    assert not cyclic(lambda: fail(gpu))


def test_reading_a_file_leaves_no_tensor_in_a_cycle(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"

    def write_and_read() -> None:
        fw.save({"weight": values(2, 3), "steps": [1, 2]}, path)
        fw.load(path)

    assert not cyclic(write_and_read)
