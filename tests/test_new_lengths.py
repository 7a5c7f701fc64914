"""A new length of a sequence or a batch needs a plan, but no kernel that is new.

Within one class of sizes: past some, as 64 rows, other kernels pay.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.codegen import epilogue_fusion
from vkbackend.framework.codegen.glsl.kernel import emit
from vkbackend.framework.codegen.lower import Lowering, structure_of
from vkbackend.framework.dispatch.primitive import Primitive
from vkbackend.framework.scheduler import lowering_cache, plan, scheduler

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
    place = fw.device(device.name)
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
    place = fw.device(device.name)
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
    place = fw.device(device.name)
    assert isinstance(place, GpuDevice)
    monkeypatch.setattr(place, "first_submitted", 16)
    monkeypatch.setattr(place, "max_pending", 16)
    monkeypatch.setattr(scheduler, "MAX_PENDING", 16)
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


class Recurrence(nn.Module):
    """An LSTM written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.of_input = nn.Linear(WIDTH, 4 * WIDTH)
        self.of_state = nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        h = c = fw.zeros_like(x[0])
        outs = []
        for given in x:
            i, f, g, o = (self.of_input(given) + self.of_state(h)).chunk(4, -1)
            c = fw.sigmoid(f) * c + fw.sigmoid(i) * fw.tanh(g)
            h = fw.sigmoid(o) * fw.tanh(c)
            outs.append(h)
        return fw.stack(outs)


def gradients(model: Recurrence, x: fw.Tensor) -> list[fw.Tensor]:
    """Return the outputs and the gradients of the parameters."""
    out = model(x)
    return [out, *fw.autograd.grad(out.square().sum(), [*model.parameters()])]


@pytest.mark.core
@pytest.mark.usefixtures("long_graphs")
def test_more_steps_are_not_more_kernels_to_plan(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels are chosen and lowered for one step, whatever the number of steps.

    Once for all plans, those of replays among them.
    """
    place = fw.device(device.name)
    model = Recurrence().to(place)
    work = {"chosen": 0, "lowered": 0}
    chosen, lowered = Primitive.dispatches, Lowering.__init__

    def choose(op: Primitive[..., Any], *args: Any) -> Any:
        # More tensors are joined in more pieces.
        work["chosen"] += op.name != "concat"
        return chosen(op, *args)

    def lower(*args: Any, **options: Any) -> None:
        work["lowered"] += 1
        lowered(*args, **options)

    monkeypatch.setattr(Primitive, "dispatches", choose)
    monkeypatch.setattr(Lowering, "__init__", lower)

    def planned(steps: int, run: Callable[..., fw.Tensor]) -> dict[str, int]:
        work.update(chosen=0, lowered=0)
        with fw.no_grad():
            run(fw.ones((steps, 5, WIDTH), device=place)).sum().item()
        return dict(work)

    replayed = fw.jit(model)
    assert planned(12, replayed)["lowered"]
    found = planned(21, replayed)
    assert found["chosen"] == 0
    assert found["lowered"] <= 2  # What sums the outputs, of a shape that is new.
    for steps in (12, 13, 14):
        planned(steps, model)
    for steps in (21, 9, 34):
        found = planned(steps, model)
        assert found["chosen"] == 0
        assert found["lowered"] <= 2  # What sums the outputs, of a shape that is new.


@pytest.mark.parametrize(
    "lengths", [(9,), pytest.param((1, 2, 3, 16, 23, 40, 65), marks=pytest.mark.wide)]
)
def test_what_steps_share_changes_no_bit(
    lengths: tuple[int, ...],
    device: vkbackend.Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside plans whose every kernel is chosen and lowered anew."""
    place = fw.device(device.name)
    assert isinstance(place, GpuDevice)
    model = Recurrence().to(place)
    rng = np.random.default_rng(0)
    given = [
        fw.tensor(rng.normal(size=(n, 5, WIDTH)).astype("f4"), device=place)
        for n in lengths
    ]
    step = fw.jit(lambda x: gradients(model, x))
    found = [[y.numpy() for y in run(x)] for x in given for run in (step, step)]
    eager = [[y.detach().numpy() for y in gradients(model, x)] for x in given]
    number = itertools.count()

    def unshared(*args: Any) -> tuple[Any, Any]:
        structure, values = structure_of(*args)
        return (structure, next(number)), values

    for module in (lowering_cache, epilogue_fusion):
        monkeypatch.setattr(module, "structure_of", unshared)
    for module in (plan, epilogue_fusion):
        monkeypatch.setattr(module, "dispatch_class", lambda _: next(number))
    place.plans.clear()
    anew = [[y.detach().numpy() for y in gradients(model, x)] for x in given]
    step = fw.jit(lambda x: gradients(model, x))
    replays = [[y.numpy() for y in run(x)] for x in given for run in (step, step)]
    for rows, others in ((found, replays), (eager, anew)):
        for row, other in zip(rows, others, strict=True):
            assert all(map(np.array_equal, row, other))
