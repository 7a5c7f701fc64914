"""Fused kernels of random chains of element-wise operations."""

import functools
import random
from importlib import import_module

import pytest

from tests.framework.codegen.graphs import apply, memory, result
from vkbackend.framework.base.dtype import DTYPES, float32, int32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen.glsl.kernel import emit
from vkbackend.framework.codegen.lower import build_kernel
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ir.lazy_graph import Node, Operand
from vkbackend.shader.compiler import compile_glsl

FUSED = 60
_UNARY = ("neg", "abs", "exp", "relu", "sqrt", "tanh", "sin", "log")
_BINARY = ("add", "sub", "mul", "hypot", "maximum", "minimum")
_INTEGER = ("add", "sub", "mul", "maximum", "minimum")
_FLOATS = ("float32", "float32", "float16", "bfloat16")


def nodes(seed: int) -> list[Node]:
    """Return a random chain of element-wise ops."""
    choose = random.Random(seed)
    integer = choose.random() < 0.3
    dtype = choose.choice(("int32", "uint8", "int16") if integer else _FLOATS)
    width = choose.choice((7, 8, 12))
    shape = (4, width)

    def leaf() -> Operand:
        kind = choose.randrange(4)
        if kind == 0:
            return memory((width,), DTYPES[dtype])
        if kind == 1:
            strides = (width + choose.randrange(3), 1)
            return memory(
                (), DTYPES[dtype], Layout(shape, strides, choose.randrange(5))
            )
        return memory(shape, DTYPES[dtype])

    compute = int32 if integer else float32
    made = [apply("add", memory(shape, DTYPES[dtype]), leaf(), compute=compute)]
    for _ in range(choose.randrange(1, 7)):
        last = result(made[-1])
        if not integer and choose.random() < 0.5:
            made.append(apply(choose.choice(_UNARY), last))
        else:
            other = leaf() if choose.random() < 0.6 else choose.randrange(1, 5)
            name = choose.choice(_INTEGER if integer else _BINARY)
            made.append(apply(name, last, other, compute=compute))
    return made


some_fused = pytest.mark.parametrize(
    "count", [FUSED // 4, pytest.param(FUSED, marks=pytest.mark.wide)]
)
"""The gate takes the first quarter of the kernels, which are random."""


@functools.cache
def fused(count: int = FUSED) -> tuple[bytes, ...]:
    """Return the modules of the first generated fused kernels."""
    import_module("vkbackend.framework")  # which fills REGISTRY
    assert {*_UNARY, *_BINARY} <= set(REGISTRY)
    found = []
    for seed in range(count):
        chain = nodes(seed)
        wanted = {id(chain[-1].outputs[0])} | {
            id(node.outputs[0]) for node in chain[:: 2 + seed % 3]
        }
        program = build_kernel(chain, wanted).program
        source = emit(program, wide=seed % 4 == 0)
        found.append(compile_glsl(source, name=f"fused {seed}"))
    return tuple(found)
