"""Kernels whose invocations take two pairs of elements, a workgroup apart."""

from collections.abc import Callable
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.codegen.built_kernels import check_kernels
from tests.framework.codegen.glsl.test_kernel import GRAPHS, program_of
from tests.framework.codegen.graphs import apply, memory
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import (
    DType,
    bool_,
    complex64,
    float32,
    float64,
    int64,
)
from vkbackend.framework.codegen.elementwise_variants import (
    SPLIT,
    Variant,
    default_variant,
    with_variant,
)
from vkbackend.framework.codegen.glsl.kernel import emit
from vkbackend.framework.codegen.ir.program import push_fields
from vkbackend.framework.codegen.lower import build_kernel
from vkbackend.framework.codegen.rowwise_kernel import subgroup_of
from vkbackend.shader import compiler, reflection

WIDE = [name for name in GRAPHS if name not in ("narrow", "conversions")]
"""Graphs that write no single bytes, of which two are no word."""


def source_of(name: str, horizontal: bool = False) -> str:
    return emit(program_of(name)._replace(pairs="split"), horizontal=horizontal)


@pytest.mark.parametrize("name", WIDE)
def test_shader_is_valid(name: str) -> None:
    words = compiler.compile_glsl(source_of(name), name=f"fused/{name}")
    assert compiler.validate_spirv(words) is None


def test_siblings_take_rows() -> None:
    words = compiler.compile_glsl(source_of("wide", True), name="fused/wide")
    arguments = reflection.read_module(words).arguments
    assert arguments is not None
    assert arguments.rows is not None
    fields = [field.name for field in arguments.rows.fields]
    assert fields == [*(name for name, _ in push_fields(program_of("wide"))), "first"]


def test_stores_of_neighbours_lie_side_by_side() -> None:
    main = source_of("wide").partition("void main()")[2]
    assert "out0.at[i_0] = " in main
    assert "if (has_1) out0.at[i_1] = " in main
    assert "In_uvec4 {" in source_of("wide")


@pytest.mark.parametrize("dtype", [int64, float64, complex64])
def test_results_of_eight_bytes_are_split(dtype: DType) -> None:
    def of(*nodes: Any, live: int) -> Variant:
        wanted = {id(node.outputs[0]) for node in nodes[-live:]}
        return default_variant(build_kernel(nodes, wanted))

    double = apply("mul", memory((64,), dtype), 2)
    assert of(double, live=1) == SPLIT
    assert of(apply("cast", memory((64,)), compute=dtype), live=1) == SPLIT
    # Two single bytes are no word.
    test = apply("eq", memory((64,), dtype), 1, result=bool_)
    assert of(test, live=1) != SPLIT
    assert of(double, test, live=2) != SPLIT
    assert of(apply("neg", memory((64,), float32)), live=1) != SPLIT


Tensors = tuple[fw.Tensor, ...]


def _dtypes(x: fw.Tensor) -> Tensors:
    half = x.to("float16")
    byte = (x * 50).to("int8")
    flag = x > 0
    fw.eval(half, byte, flag)
    whole = (x * 1000).long()
    fw.eval(whole)
    return (
        x.double() * 3,
        half.double() + x,
        byte.long() - 1,
        whole + byte + flag,
        (x.double() * 2).to("float16"),
    )


def _several(x: fw.Tensor) -> Tensors:
    double = x.double() + 1
    return (double, double.float() * 2, double.to("float16"))


def _complex(x: fw.Tensor) -> Tensors:
    z = fw.complex(x, -x)
    fw.eval(z)
    return (z * z + 1, z.conj(), z[1:] * x[:-1])


def _views(x: fw.Tensor) -> Tensors:
    whole = (x * 1000).long()
    fw.eval(whole)
    return (whole[4:] * 2, whole[2:] + 1, whole[1:] - 1, whole[::3] + 5)


def _broadcast(x: fw.Tensor) -> Tensors:
    table = (x[: x.shape[0] // 12 * 12].reshape(-1, 12) * 1000).long()
    byte, half = table.to("int8"), table.to("float16")
    fw.eval(table, byte, half)
    return (
        table + table[0],
        table * table[:, :1],
        table[:, 1:] + table[:, :-1],
        table + byte[:, :1],
        table.double() + half[0],
        table.T * 2,
        byte[:, 4:].long(),
        byte[:, 1:9].long(),
    )


def _made(x: fw.Tensor) -> Tensors:
    fw.manual_seed(3)
    numbers = fw.arange(x.shape[0], dtype=fw.int64, device=x.device)
    full = fw.full((x.shape[0],), 7, dtype=fw.int64, device=x.device)
    eye = fw.eye(x.shape[0] % 64, dtype=fw.float64, device=x.device)
    return (numbers, full, eye)


def _drawn(x: fw.Tensor) -> Tensors:
    fw.manual_seed(3)
    shape, place = (x.shape[0],), x.device
    whole = fw.randint(-5, 90, shape, dtype=fw.int64, device=place)
    normal = fw.randn(shape, dtype=fw.float64, device=place)
    return (whole, normal, fw.nn.functional.dropout(x.double(), 0.5))


@pytest.mark.core
@pytest.mark.device
@pytest.mark.parametrize(
    "make", [_dtypes, _several, _complex, _views, _broadcast, _made, _drawn]
)
def test_results_are_those_of_whole_vectors(
    make: Callable[[fw.Tensor], Tensors], gpu: GpuDevice
) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    used: list[bool] = []

    def build(nodes: Any, wanted: Any, *_: Any, **__: Any) -> Any:
        kernel = build_kernel(nodes, wanted)
        program = kernel.program._replace(subgroup=subgroup_of(gpu.gpu.info))
        kernel = kernel._replace(program=program)
        used.append(default_variant(kernel) == SPLIT)
        # Workgroups of 16, so that few elements are many of them and ragged at the end.
        return with_variant(kernel, Variant("split", 16)) if used[-1] else kernel

    check_kernels(gpu, build, make, (1001, 1024, 13, 129))
    assert any(used)
