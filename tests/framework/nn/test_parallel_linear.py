"""Layers divided among ranks compute what whole ones do, with their gradients."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework import nn
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.communication.group import Group


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


@pytest.mark.parametrize("sections", [2, (4, 8)])
def test_sections(monkeypatch: pytest.MonkeyPatch, sections: Any) -> None:
    """Each rank has its part of each projection, and all outputs come in order."""
    wholes = [nn.Linear(4, 12) for _ in range(2)]
    x, sizes = fw.randn(3, 4), [6, 6] if sections == 2 else [4, 8]

    def work(group: Group) -> Any:
        column = nn.ColumnParallelLinear.from_linear(
            wholes[group.rank], group, gather_output=True, sections=sections
        )
        out = column(x)
        (out * fw.arange(12.0)).sum().backward()
        whole = column.whole()
        column.gather_output = False
        parts = fw.split(column(x), [each // 2 for each in sizes], -1)
        grads = [each.grad.numpy() for each in column.parameters()]
        return out.detach(), [each.detach().numpy() for each in parts], whole, grads

    results = as_threads(monkeypatch, 2).run(work)
    expected = wholes[0](x)
    (expected * fw.arange(12.0)).sum().backward()
    ends = np.cumsum([0, *sizes])
    for rank, (out, parts, whole, grads) in enumerate(results):
        np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-5)
        assert fw.equal(whole.weight, wholes[0].weight)
        assert fw.equal(whole.bias, wholes[0].bias)
        own = np.concatenate(
            [
                np.array_split(np.arange(low, high), 2)[rank]
                for low, high in pairwise(ends)
            ]
        )
        found = expected.detach().numpy()[:, own]
        np.testing.assert_allclose(np.concatenate(parts, -1), found, rtol=1e-5)
        for grad, right in zip(grads, wholes[0].parameters()):
            np.testing.assert_allclose(grad, right.grad.numpy()[own], rtol=1e-5)


def test_sections_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match="sections is 3 for 4 features; it must be a"):
        nn.ColumnParallelLinear(1, 4, sections=3)
    with pytest.raises(ShapeError, match=r"sections is \(1, 2\) for 4 features"):
        nn.ColumnParallelLinear(1, 4, sections=(1, 2))
