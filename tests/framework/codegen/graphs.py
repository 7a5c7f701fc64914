"""Pending graphs built by hand, for tests that need no device."""

from vkbackend.framework.base.dtype import DType, float32, promote
from vkbackend.framework.base.shape import Layout, broadcast_shapes
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ir.lazy_graph import Node, Operand, Value

Argument = Operand | float


def memory(
    shape: tuple[int, ...], dtype: DType = float32, layout: Layout | None = None
) -> Operand:
    """Return an operand whose elements are in memory; row-major unless laid out."""
    layout = layout or Layout.contiguous(shape)
    return Operand(Value(layout.numel, dtype), layout)


def apply(
    name: str,
    *arguments: Argument,
    compute: DType | None = None,
    result: DType | None = None,
) -> Node:
    """Return a node of an element-wise op, as the op itself would make it."""
    op = REGISTRY[name]
    given = dict(zip(op.operands, arguments, strict=True))
    tensors = {key: each for key, each in given.items() if isinstance(each, Operand)}
    shape = broadcast_shapes(name, *(each.layout.shape for each in tensors.values()))
    dtype = compute
    for each in tensors.values():
        if compute is None:
            dtype = promote(dtype, each.value.dtype) if dtype else each.value.dtype
    assert dtype is not None
    return Node.of(
        op,
        tuple(
            Operand(each.value, each.layout.expand(shape)) for each in tensors.values()
        ),
        (Layout.contiguous(shape),),
        (result or dtype,),
        (("compute", dtype), ("tensors", tuple(tensors))),
        tuple((key, each) for key, each in given.items() if key not in tensors),
    )


def result(node: Node) -> Operand:
    """Return a node's output as an operand of the next."""
    return Operand(node.outputs[0], node.layouts[0])
