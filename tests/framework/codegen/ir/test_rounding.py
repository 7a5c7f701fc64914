"""Choices among 2-byte floats: values as PyTorch's, and fewer roundings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.codegen.graphs import apply, memory, result
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DType, bfloat16, float16, float32
from vkbackend.framework.codegen.glsl.kernel import emit
from vkbackend.framework.codegen.ir.rounding import exact_steps, with_rounded_arguments
from vkbackend.framework.codegen.lower import build_kernel
from vkbackend.framework.ir.lazy_graph import Node

X = np.float32([0.1, -0.1, 0.3, -0.3, 1, -1, 7, np.inf, -np.inf, np.nan, 0, -0.0] * 9)
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda t, x: t.where(x > 0.2, 0.1, x),
    "where twice": lambda t, x: t.where(x.abs() > 0.2, 1 / 3, -x) * 3,
    "clamp": lambda t, x: x.clamp(-0.3, 0.1),
    "clamp, then more": lambda t, x: x.clamp_min(0.1) + x,
    "hardtanh": lambda t, x: t.nn.functional.hardtanh(x, -0.3, 0.1),
    "hardshrink": lambda t, x: t.nn.functional.hardshrink(x, 0.25),
    "relu": lambda t, x: t.relu(-x),
    "whole parts": lambda t, x: t.floor(x * 33) + t.ceil(x * 9) * t.trunc(x * 65),
    "nearest": lambda t, x: t.round(x * 255) + t.frac(x * 99),
    "signs": lambda t, x: t.sign(x) * 3 + t.copysign(x, -x * 0.1),
    "maximum": lambda t, x: t.maximum(x.abs(), x * 3) - x,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CALLS)
def test_values(name: str, dtype: str, quads: GpuDevice) -> None:
    ours = fw.tensor(X, device=quads).to(dtype)
    theirs = torch.tensor(X).to(getattr(torch, dtype))
    found = CALLS[name](fw, ours).float().numpy()
    np.testing.assert_array_equal(found, CALLS[name](torch, theirs).float().numpy())


def steps(*nodes: Node) -> frozenset[int]:
    """Return the steps of a kernel that are exact."""
    program = build_kernel(nodes, {id(nodes[-1].outputs[0])}).program
    return exact_steps(with_rounded_arguments(program))


@pytest.mark.parametrize("dtype", [float16, bfloat16])
def test_choices_are_exact(dtype: DType) -> None:
    size = apply("abs", memory((8,), dtype))
    more = apply("maximum", result(size), memory((8,), dtype))
    bounded = apply("clamp_min", result(more), 0.1)
    assert steps(size, more, bounded) == {0, 1, 2}
    total = apply("add", result(size), 1.0)
    assert steps(size, total, apply("neg", result(total))) == {0, 2}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["floor", "ceil", "trunc", "round", "frac", "sign", "copysign"]
)
def test_all_numbers_of_two_bytes(name: str, dtype: str, quads: GpuDevice) -> None:
    bits = torch.from_numpy(np.arange(-(1 << 15), 1 << 15).astype(np.int16))
    theirs = bits.view(getattr(torch, dtype))
    ours = fw.tensor(bits.numpy(), device=quads).view(getattr(fw, dtype))
    more = name == "copysign"
    found = getattr(fw, name)(ours, *([ours.flip(0)] if more else []))
    wanted = getattr(torch, name)(theirs, *([theirs.flip(0)] if more else []))
    same = found.view(fw.int16).numpy() == wanted.view(torch.int16).numpy()
    # Of NaN there are many.
    nan = found.isnan().numpy() & wanted.isnan().numpy()
    least = 0.0
    if name == "frac" and quads.gpu.info.target.flushes_subnormals:
        # A difference in float32, which takes subnormal numbers of that for 0.
        least = np.finfo(np.float32).tiny
    small = wanted.float().abs().numpy()
    zeros = (found.float().numpy() == 0) & ((small == 0) | (small < least))
    assert (same | zeros | nan).all()


@pytest.mark.parametrize("dtype", [float16, bfloat16])
def test_whole_parts_are_exact(dtype: DType) -> None:
    for name in ("floor", "ceil", "trunc", "round", "frac", "sign"):
        assert steps(apply(name, memory((8,), dtype))) == {0}
        assert steps(apply(name, memory((8,), float32), compute=dtype)) == frozenset()
    node = apply("copysign", memory((8,), dtype), memory((8,), dtype))
    assert steps(node) == {0}


def test_wider_operands_are_rounded() -> None:
    narrow, wide = memory((8,), float16), memory((), float32)
    mixed = apply("maximum", narrow, wide, compute=float16)
    assert steps(mixed) == frozenset()
    drawn = apply("neg", memory((8,), float32), compute=bfloat16)
    assert steps(drawn) == frozenset()


def test_a_number_is_rounded_once() -> None:
    node = apply("clamp_min", memory((8,), bfloat16), 0.1)
    text = emit(build_kernel([node], {id(node.outputs[0])}).program)
    assert "any(bvec2(x > min, x != x)) ? x : round_bfloat16(min)" in text
    assert "pack_bfloat16" not in text
    # Of float32 it is not.
    node = apply("clamp_min", memory((8,), float32), 0.1)
    assert "round_" not in emit(build_kernel([node], {id(node.outputs[0])}).program)
