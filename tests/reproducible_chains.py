"""Chains of operations that fuse in many ways, for what must have one result."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.nn import functional as F  # noqa: N812  PyTorch's habit

Function = Callable[..., list[fw.Tensor]]


def softmax(x: fw.Tensor, row: fw.Tensor) -> list[fw.Tensor]:
    shifted = x * row - (x * row).amax(-1, True)
    power = shifted.exp()
    return [power / power.sum(-1, keepdim=True), shifted.sum(-1)]


def layer_norm(x: fw.Tensor, row: fw.Tensor) -> list[fw.Tensor]:
    centred = x - x.mean(-1, keepdim=True)
    scale = (centred * centred).mean(-1, keepdim=True) + 1e-5
    return [centred * scale.rsqrt() * row + row, scale]


def moments(x: fw.Tensor, row: fw.Tensor) -> list[fw.Tensor]:
    return [(x + row).var(-1), (x * row).logsumexp(-1), (x - row).abs().sum(-1).sqrt()]


def square_sums(x: fw.Tensor, row: fw.Tensor) -> list[fw.Tensor]:
    return [(x * x + row).sum(-1), (x * x).sum(), (x * row).mean(0), x.norm()]


def over_two(x: fw.Tensor, row: fw.Tensor) -> list[fw.Tensor]:
    """Rows of two dimensions, one of them broadcast."""
    outer = x.reshape(*x.shape[:-1], -1, row.shape[-1] // 6, 6)
    scaled = outer * outer.mean((-1, -2), keepdim=True) + outer[..., :1]
    return [scaled.sum((-1, -2)), (outer + outer[..., :1]).amax((-1, -2)).exp()]


def map_only(x: fw.Tensor, row: fw.Tensor) -> list[fw.Tensor]:
    y = x * row + x
    z = fw.lerp(y, x, 0.3) - y * y
    return [
        F.gelu(z) * y + z.tanh(),
        z.sigmoid() * y + x * z,
        y.exp() - x / (z * z + 1),
    ]


def linear(x: fw.Tensor, row: fw.Tensor) -> list[fw.Tensor]:
    weight = (row[:, None] * row[None, :]).to(x.dtype)
    product = x @ weight
    return [F.gelu(product + row) * x, product.relu() * 0.5 + x, product.sum(-1)]


def columns(x: fw.Tensor, row: fw.Tensor) -> list[fw.Tensor]:
    return [(x * row).sum(0), (x.exp() * 0.1 + row).mean(0), (x * x).amax(0)]


CHAINS: dict[str, Function] = {
    each.__name__: each
    for each in (
        softmax, layer_norm, moments, square_sums, over_two, map_only, linear, columns,
    )
}  # fmt: skip
SHAPES = ((3, 24), (5, 37), (64, 96), (40, 384), (300, 512), (129, 1000), (9, 6000))
LARGE = ((4096, 384), (70, 30000), (1, 32768), (2048, 2049), (65, 4096), (513, 1026))
DTYPES = ("float32", "float16", "bfloat16")


class Chain(NamedTuple):
    """A chain, the shape that it is run for, and the dtype."""

    name: str
    shape: tuple[int, int]
    dtype: str

    def run(self, device: Device, jitted: bool) -> list[np.ndarray | None]:
        """Return the results, and the gradients of both operands."""
        rng = np.random.default_rng(self.shape)
        x, row = (rng.normal(size=size) * 0.5 for size in (self.shape, self.shape[1:]))
        inputs = [
            fw.tensor(each.astype("f4"), device=device).to(getattr(fw, self.dtype))
            for each in (x, row)
        ]
        for each in inputs:
            each.requires_grad = True

        def results() -> list[fw.Tensor]:
            for each in inputs:
                each.grad = None
            found = CHAINS[self.name](*inputs)
            total = found[0].float().sum()
            for each in found[1:]:
                total = total + each.float().mean()
            total.backward()
            return [*(each.detach() for each in found), *(each.grad for each in inputs)]

        step = fw.jit(results) if jitted else results
        for _ in range(2 if jitted else 1):
            answer = step()
        return [each if each is None else each.numpy() for each in answer]


def chains(large: bool) -> Iterator[Chain]:
    """Yield every chain of every shape and dtype that it takes."""
    shapes = (*SHAPES, *LARGE) if large else SHAPES
    for name, shape, dtype in itertools.product(CHAINS, shapes, DTYPES):
        if name == "over_two" and shape[1] % 6:
            continue
        if name == "linear" and shape[1] > 4096:
            continue
        yield Chain(name, shape, dtype)
