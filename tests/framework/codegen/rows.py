"""Programs over rows, built by hand for tests that need no device."""

from types import SimpleNamespace
from typing import Any

from tests.framework.codegen.graphs import apply, memory, result
from vkbackend.driver.target import target_of
from vkbackend.framework.base.dtype import DType, float16, float32, int64, uint8
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen.ir.program import KernelProgram
from vkbackend.framework.codegen.lower import LoweredKernel
from vkbackend.framework.codegen.rowwise_kernel import build_rows
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ir.lazy_graph import Node, Operand


def device_info(kind: str, subgroup_size: int, shader_int64: bool = True) -> Any:
    """Return what code generation reads of a `DeviceInfo`."""
    info: Any = SimpleNamespace(
        kind=kind,
        subgroup_size=subgroup_size,
        min_subgroup_size=subgroup_size,
        max_subgroup_size=subgroup_size,
        subgroup_shuffle=True,
        rounds_to_float16=True,
        vendor_id=0x10DE,
        preserves_subnormals=True,
        shader_int64=shader_int64,
        max_workgroup_invocations=1024,
    )
    info.target = target_of(info)
    return info


GPU = device_info("discrete", 32)
UNLIKE: Any = SimpleNamespace(**vars(GPU) | {"max_subgroup_size": 64})
SOFTWARE = device_info("software", 8)


def reduce(
    name: str, x: Operand, *, dtype: DType | None = None, **params: object
) -> Node:
    """Return a node that reduces the last dimension."""
    shape = (*x.layout.shape[:-1], 1)
    dims = (len(shape) - 1,)
    return Node.of(
        REGISTRY[name],
        (x,),
        (Layout.contiguous(shape),),
        (dtype or x.value.dtype,),
        (("tensors", ("x",)), ("dims", dims), *params.items()),
    )


def rows_of(node: Node, shape: tuple[int, ...]) -> Operand:
    """Return the result of a reduction, broadcast to rows."""
    value, layout = result(node)
    return Operand(value, layout.expand(shape))


def softmax(rows: int = 64, columns: int = 1024, dtype: DType = float32) -> list[Node]:
    x = memory((rows, columns), dtype)
    greatest = reduce("amax", x)
    apart = apply("sub", x, rows_of(greatest, (rows, columns)))
    power = apply("exp", result(apart))
    total = reduce("sum", result(power))
    out = apply("div", result(power), rows_of(total, (rows, columns)))
    return [greatest, apart, power, total, out]


def apart_from_greatest() -> list[Node]:
    square = apply("mul", x := memory((64, 1024)), x)
    greatest = reduce("amax", result(square))
    return [
        square,
        greatest,
        apply("sub", result(square), rows_of(greatest, (64, 1024))),
    ]


def normalised() -> list[Node]:
    shape = (64, 48)
    x, weight = memory(shape), memory((48,))
    middle = reduce("sum", x, scale=1 / 48)
    apart = apply("sub", x, rows_of(middle, shape))
    square = apply("mul", result(apart), result(apart))
    variance = reduce("sum", result(square), scale=1 / 48)
    shifted = apply("add", result(variance), 1e-5)
    root = apply("rsqrt", result(shifted))
    scaled = apply("mul", result(apart), rows_of(root, shape))
    return [
        middle, apart, square, variance, shifted, root, scaled,
        apply("mul", result(scaled), weight),
    ]  # fmt: skip


def odd() -> list[Node]:
    """Rows of 7 strided halves, and what is narrow alone."""
    x = memory((), float16, Layout((5, 3, 7), (84, 28, 2), 3))
    total = reduce("sum", x)
    return [total, apply("mul", x, rows_of(total, (5, 3, 7)))]


def mean_and_variance() -> list[Node]:
    x = memory((40, 12))
    return [
        variance := reduce("var", x, divisor=11),
        apply("div", x, rows_of(variance, (40, 12))),
    ]


def counts() -> list[Node]:
    pixels = memory((3, 24), uint8)
    total = reduce("sum", pixels, dtype=int64)
    return [total, apply("mul", result(total), 2)]


def kernel(nodes: list[Node], gpu: Any, wanted: int = 1) -> LoweredKernel:
    """Return the kernel of nodes of which the last ones' values are wanted."""
    return build_rows(nodes, {id(node.outputs[0]) for node in nodes[-wanted:]}, gpu)


def program(nodes: list[Node], gpu: Any, wanted: int = 1) -> KernelProgram:
    """Return the program of the same kernel."""
    return kernel(nodes, gpu, wanted).program
