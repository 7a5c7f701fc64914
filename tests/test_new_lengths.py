"""A new length of a sequence or a batch needs a plan, but no kernel that is new.

Within one class of sizes: past some, as 64 rows, other kernels pay.
"""

from collections.abc import Callable

import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.codegen.glsl.kernel import emit
from vkbackend.framework.scheduler import scheduler

WIDTH = 8


class Attention(nn.Module):
    """A language model of one block."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.projections = nn.Linear(WIDTH, 3 * WIDTH)
        self.scores = nn.Linear(WIDTH, 11)

    def forward(self, tokens: fw.Tensor) -> fw.Tensor:
        x = self.tokens(tokens)
        parts = self.projections(self.norm(x)).unsqueeze(1).chunk(3, -1)
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.scores(nn.functional.gelu(x + mixed.squeeze(1)))


@pytest.mark.core
@pytest.mark.parametrize("jitted", [False, True])
def test_a_new_length_compiles_nothing(jitted: bool, device: vkbackend.Device) -> None:
    place = fw.device(device.info.name)
    model = Attention().to(place)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(tokens: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        scores = model(tokens).reshape((-1, 11))
        loss = nn.functional.cross_entropy(scores, tokens.reshape((-1,)))
        loss.backward()
        optimizer.step()
        return loss

    run: Callable[[fw.Tensor], fw.Tensor] = fw.jit(step) if jitted else step
    for length in (23, 24, 25, 27, 29):
        tokens = fw.zeros((3, length), "int32", place)
        before, emitted = device.counters.snapshot(), emit.cache_info().misses
        run(tokens).item()
        change = device.counters.snapshot() - before
        if length > 24:
            assert emit.cache_info().misses == emitted
            assert change.shader_compiles == change.pipeline_builds == 0


@pytest.mark.core
def test_repeated_steps_are_generated_once(device: vkbackend.Device) -> None:
    """A recurrence of any number of steps has few different kernels."""
    place = fw.device(device.info.name)
    cell = nn.Linear(WIDTH, WIDTH).to(place)

    def run(steps: int) -> int:
        emitted = emit.cache_info().misses
        x = fw.ones((5, WIDTH), device=place)
        for _ in range(steps):
            x = x + (cell(x).sigmoid() * x).tanh()
        x.mean().backward()
        assert cell.weight.grad is not None
        cell.weight.grad.sum().item()
        return emit.cache_info().misses - emitted

    run(6)
    run(7)
    assert run(12) <= 3


@pytest.mark.core
def test_what_a_read_left_does_not_move_where_a_long_graph_is_cut(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of other lengths before it give a step no plan that is new."""
    monkeypatch.setattr(scheduler, "MAX_PENDING", 16)
    place = fw.device(device.info.name)
    assert isinstance(place, GpuDevice)
    x = fw.ones(5, device=place)

    def step(length: int, left: int) -> int:
        fw.eval()
        others = [x * (k + 2) for k in range(left)]
        assert (x + 1).tolist() == [2] * 5
        assert len(place.pending) == left
        known = set(place.plans)
        y = x
        for _ in range(length):
            y = y + 1
        assert y.tolist() == [1 + length] * 5
        for k, other in enumerate(others):
            assert other.tolist() == [k + 2] * 5
        return len(set(place.plans) - known)

    step(14, 1)
    step(20, 0)
    assert step(14, 3) == 1  # Of what was left.
    assert step(14, 3) == step(14, 1) == 0
    assert step(20, 3) == 0
