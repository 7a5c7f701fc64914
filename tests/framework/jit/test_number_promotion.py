"""Numbers among the arguments of jitted functions: traces that serve other values."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.training import tensor
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice

pytestmark = pytest.mark.core

Case = tuple[Callable[..., Any], list[Any], int]
"""A function of a table, a cache, a row and a number; the numbers; how many traces."""

COUNT = 8


def arithmetic(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    return row * pos + (pos + 1) / 4 - (2 - pos) * row, pos * 3 - 1


def position(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    cache[:, pos] = row
    mask = fw.arange(COUNT, device=row.device) <= pos
    return (cache * mask.reshape((1, COUNT, 1))).sum(1) + table[pos]


def span(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    part = table[pos : pos + 2]
    cache[:, pos : pos + 2, :] = part * 2
    cache[0, pos] += row
    return part.sum(0), cache.narrow(1, pos, 2) + table.select(0, pos + 1)


def written(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    index = fw.tensor([pos], device=row.device)
    places = fw.arange(pos, pos + 2, device=row.device)
    return table.index_copy(0, index, row.reshape((1, 4))), places, table[pos - 1, 2]


def beside(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    index = fw.tensor([1, 0], device=row.device)
    cache[index, pos] = row
    cache[index, pos - 1, 2] = 7.0
    return cache[index, pos], cache[..., pos, index], table[pos, index]


def draws(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    return fw.rand(4, device=row.device) * pos + table[pos]


def branch(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    return row * 2 + pos if pos < 5 else row - pos


def size(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    return table[:pos].sum(0) + row


def alias(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    part = cache[:, pos]
    part += row  # reaches the cache
    return cache.sum(1)


def stale(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    part = cache[:, pos]
    cache.zero_()
    return part + row  # the zeros


def rate(table: Any, cache: Any, row: Any, lr: Any) -> Any:
    scaled = row / max(lr, 0.25)
    return (scaled - lr * row) ** 2, table.masked_fill(table > lr, lr), 1 - lr


def keys(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    return {pos: row * 2}


def host(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    made = fw.arange(4) * pos + np.arange(4) * pos
    return row + made.to(row.device) + math.sqrt(pos)


def classes(table: Any, cache: Any, row: Any, pos: Any) -> Any:
    return row * pos if type(pos) is int else row


POSITIONS = [0, 1, 2, 3, 4, 5, 3, 6]
CASES: dict[str, Case] = {
    "arithmetic": (arithmetic, [*POSITIONS, -3, 1 << 40], 3),
    "position": (position, POSITIONS, 3),
    "span": (span, POSITIONS, 3),
    "written": (written, POSITIONS[1:], 3),
    "beside": (beside, POSITIONS[1:], 3),
    "draws": (draws, POSITIONS, 3),
    "branch": (branch, POSITIONS, 4),
    "size": (size, [0, 1, 2, 3, 4, 3, 4], 5),
    "alias": (alias, [0, 1, 2, 3, 3], 5),
    "stale": (stale, [0, 1, 2, 3, 3], 5),
    "rate": (rate, [0.5, 0.25, 1e-3, 0.0, -0.0, 3.0, math.inf], 4),
    "keys": (keys, [0, 1, 2, 3, 3], 5),
    "classes": (classes, [0, 1, 2, 3, 3], 4),
    "host": (host, [0, 1, 2, 3, 3], 4),
}
"""Three traces serve all values but where the function reads them as values."""


def _texts(result: Any) -> Any:
    if isinstance(result, fw.Tensor):
        return str(result.dtype), result.numpy().tobytes(), tuple(result.shape)
    if isinstance(result, dict):
        return {(type(k), k): _texts(each) for k, each in result.items()}
    if isinstance(result, tuple):
        return [_texts(each) for each in result]
    return type(result), repr(result)


@pytest.mark.int64
@pytest.mark.parametrize("name", CASES)
def test_a_trace_serves_other_numbers(name: str, gpu: GpuDevice) -> None:
    function, numbers, traces = CASES[name]
    found: list[list[Any]] = []
    made = 0
    for run in (lambda step: step, fw.jit):
        fw.manual_seed(3)
        table = tensor(gpu, np.arange(32.0).reshape(COUNT, 4))
        cache = fw.ones((2, COUNT, 4), device=gpu)
        rows = [tensor(gpu, np.arange(4.0) - k) for k in range(len(numbers))]
        step = run(lambda row, number: function(table, cache, row, number))  # noqa: B023
        answers = [_texts(step(row, each)) for row, each in zip(rows, numbers)]
        found.append([*answers, _texts(cache)])
        made = getattr(step, "traces", 0)
    for plain, replayed in zip(*found):
        assert plain == replayed
    assert made == traces


def test_rates_and_places_of_a_training_step(gpu: GpuDevice) -> None:
    data = tensor(gpu, np.arange(24.0).reshape(6, 4) / 24)
    found, traces = [], 0
    for run in (lambda step: step, fw.jit):
        layer = nn.Linear(4, 2)
        with fw.no_grad():
            layer.weight.copy_(fw.arange(8.0).reshape(2, 4) / 8)
            layer.bias.zero_()
        layer.to(gpu)

        def step(lr: float, at: int = 0, layer: Any = layer) -> tuple[Any, int]:
            layer.zero_grad()
            loss = (layer(data[at : at + 2]) ** 2).mean() * (at + 1)
            loss.backward()
            with fw.no_grad():
                for each in layer.parameters():
                    each -= lr * each.grad
            return loss, at + 1

        jitted = run(step)
        at, losses = 0, []
        for k in range(8):
            loss, at = jitted(0.1 / (k + 1), at=at % 4)
            losses.append(float(loss))
        found.append([*losses, layer.weight.tolist(), at])
        traces = getattr(jitted, "traces", 0)
    assert found[0] == found[1]
    # Where gradients are left behind, a slice is a view, of one start.
    assert traces == 6
