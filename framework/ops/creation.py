"""Tensors from nothing: sources inside fused kernels, which read no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import TensorCore
from ..device import GpuDevice
from ..dtype import ANY, FLOAT, DType, float32
from ..graph import Node
from ..op import Op, need_feature, submit_node
from ..primitive import number
from ..rng import Stream, uniform
from ..shape import Layout, Shape

if TYPE_CHECKING:
    from ..tensor import Tensor


class Source(Op[..., Any]):
    """An op whose elements come from its scalars alone.

    Its first parameter is a tensor that gives class and device and is not read.
    """

    is_elementwise = True

    def source(
        self,
        like: TensorCore,
        shape: Shape,
        dtype: DType,
        scalars: tuple[tuple[str, float], ...],
    ) -> TensorCore:
        """Make the node pending."""
        assert isinstance(like.device, GpuDevice)
        need_feature(self.name, dtype, like.device)
        params = (("compute", dtype), ("tensors", ()))
        node = Node(self, (), (Layout.contiguous(shape),), (dtype,), params, scalars)
        return submit_node(like, node)[0]


class _Fill(Source):
    glsl = "value"
    operands = ("value",)

    def _apply(
        self, bound: dict[str, Any], tensors: dict[str, Any]
    ) -> tuple[TensorCore, ...]:
        like, shape, dtype = bound["like"], bound["shape"], bound["dtype"]
        value = number(self.name, dtype, bound["value"])
        if isinstance(like.device, GpuDevice):
            return (self.source(like, shape, dtype, (("value", value),)),)
        return (type(like).from_host(np.full(shape, value, dtype.numpy), like.device),)


class _Uniform(Source):
    def _apply(
        self, bound: dict[str, Any], tensors: dict[str, Any]
    ) -> tuple[TensorCore, ...]:
        like, stream = bound["like"], bound["stream"]
        if isinstance(like.device, GpuDevice):
            words = tuple((f"word{k}", word) for k, word in enumerate(stream))
            return (self.source(like, like.shape, float32, words),)
        draws = uniform(like.numel(), stream).reshape(like.shape)
        return (type(like).from_host(draws, like.device),)


def _fill_like(like: Tensor, shape: Shape, value: float, dtype: DType) -> Tensor:
    """Return a tensor with every element `value`, on the device of `like`."""
    raise NotImplementedError


def _random_uniform(like: Tensor, stream: Stream) -> Tensor:
    """Return uniform float32 draws from [0, 1) in the shape of `like`.

    Parameters
    ----------
    like : Tensor
        Gives shape and device; its elements are not read.
    stream : tuple of int
        Which draws, from `Generator.stream`; the same on every device.
    """
    raise NotImplementedError


fill_like = _Fill(_fill_like, ANY)
random_uniform = _Uniform(_random_uniform, FLOAT)
