"""Layers divided among ranks compute what whole ones do, with their gradients."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework import nn
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.communication.group import Group

WIDTH, HEADS, STEPS = 8, 4, 3


class Attention(nn.Module):
    """Attention that takes the number of heads from the sizes of its layers."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(WIDTH, WIDTH))
        self.q_norm = nn.RMSNorm(WIDTH // HEADS)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        layers = self.q_proj, self.k_proj, self.v_proj
        cut = *x.shape[:2], -1, WIDTH // HEADS
        q, k, v = (each(x).reshape(*cut).transpose(1, 2) for each in layers)
        found = nn.functional.scaled_dot_product_attention(
            self.q_norm(q), k, v, is_causal=True
        )
        out: fw.Tensor = self.o_proj(found.transpose(1, 2).reshape(*x.shape[:2], -1))
        return out


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.norm = nn.LayerNorm(WIDTH)
        self.gate_proj, self.up_proj = nn.Linear(WIDTH, 16), nn.Linear(WIDTH, 16)
        self.down_proj = nn.Linear(16, WIDTH, bias=False)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        x = x + self.attention(self.norm(x))
        gate = nn.functional.silu(self.gate_proj(x))
        out: fw.Tensor = x + self.down_proj(gate * self.up_proj(x))
        return out


def gpt(seed: int) -> nn.Module:
    with fw.random.fork_rng():
        fw.manual_seed(seed)
        layers = nn.Embedding(7, WIDTH), Block(), Block(), nn.Linear(WIDTH, 7)
        return nn.Sequential(*layers)


def train(model: nn.Module) -> list[float]:
    optimizer = fw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rng, losses = np.random.default_rng(0), []
    for _ in range(STEPS):
        x, y = (fw.tensor(rng.integers(0, 7, (2, 3))) for _ in range(2))
        optimizer.zero_grad()
        out = model(x)
        loss = nn.functional.cross_entropy(out.reshape(-1, 7), y.reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("size", [1, 2, pytest.param(4, marks=pytest.mark.wide)])
def test_transformer(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    models, alone = [gpt(seed) for seed in range(size)], gpt(0)

    def work(group: Group) -> Any:
        model = nn.tensor_parallel(models[group.rank], group)
        assert model[1].down_proj.weight.shape == (WIDTH, 16 // size)
        losses = train(model)
        return losses, nn.whole_state_dict(model)

    results = as_threads(monkeypatch, size, 4096).run(work)
    expected = train(alone)
    for losses, state in results:
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        assert [*state] == [*alone.state_dict()]
        for key, value in alone.state_dict().items():
            np.testing.assert_allclose(
                state[key].numpy(), value.numpy(), rtol=1e-3, atol=1e-6, err_msg=key
            )
            assert key.endswith("norm.weight") or fw.equal(
                state[key], results[0][1][key]
            )


def test_whole_inputs_and_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    wholes = [nn.Linear(4, 6) for _ in range(4)]
    alone = wholes[0], wholes[1]
    x = fw.randn(3, 4)

    def run(first: nn.Module, second: nn.Module) -> list[np.ndarray]:
        given = x.detach().clone().requires_grad_()
        (first(given).square().sum() + second(given).tanh().sum()).backward()
        found = [given, *first.parameters(), *second.parameters()]
        return [each.grad.numpy() for each in found]

    def work(group: Group) -> Any:
        at = 2 * group.rank
        column = nn.ColumnParallelLinear.from_linear(
            wholes[at], group, gather_output=True
        )
        row = nn.RowParallelLinear.from_linear(
            wholes[at + 1], group, input_is_parallel=False
        )
        assert column.whole().weight.shape == (6, 4)
        return run(column, row)

    expected = run(*alone)
    results = as_threads(monkeypatch, 2).run(work)
    for rank, found in enumerate(results):
        outputs, inputs = slice(3 * rank, 3 * rank + 3), slice(2 * rank, 2 * rank + 2)
        cut = [expected[0], expected[1][outputs], expected[2][outputs]]
        cut += [expected[3][:, inputs], expected[4]]
        for own, right in zip(found, cut):
            np.testing.assert_allclose(own, right, rtol=1e-5, atol=1e-6)


def test_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        column = nn.ColumnParallelLinear(3, 4, group, dtype=fw.float64)
        row = nn.RowParallelLinear(4, 3, group, bias=False, dtype=fw.float64)
        with pytest.raises(ShapeError, match="RowParallelLinear: in_features is 3"):
            nn.RowParallelLinear(3, 4, group)
        assert repr(row) == (
            "RowParallelLinear(in_features=4, out_features=3, bias=False, ranks=2)"
        )
        out = row(column(fw.ones(2, 3, dtype=fw.float64)))
        whole = nn.Sequential(column.whole(), row.whole())
        return out.detach().numpy(), whole(
            fw.ones(2, 3, dtype=fw.float64)
        ).detach().numpy()

    for found, expected in as_threads(monkeypatch, 2).run(work):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_options_of_the_other_kind() -> None:
    with pytest.raises(TypeError, match="takes no gather_output; it takes input_is"):
        nn.RowParallelLinear.from_linear(nn.Linear(1, 1), gather_output=True)


def test_plans_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="fits no linear layer of Linear; give one"):
        nn.tensor_parallel(nn.Linear(1, 1))
    with pytest.raises(ValueError, match="kind 'rows'; it must be 'column', 'row'"):
        nn.tensor_parallel(nn.Linear(1, 1), plan={"*": "rows"})
