"""Epilogue fusion: element-wise kernels fused into the matrix product they read.

A matrix product, or a convolution or its gradient by the images, whose result is read
by one element-wise kernel alone, element by element, passes it on in registers: bias,
activation, residual, scale and cast cost no memory traffic of their own, and the
product itself is never stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..autotune import autotune
from ..base.dtype import bfloat16, float16, float32
from ..base.recent_cache import RecentCache
from ..base.shape import Layout
from ..base.trace_hooks import DYNAMIC
from ..ir.kernel_call import BufferOffset, Dispatch
from ..ir.lazy_graph import Node, NodeSignature, Value
from .glsl.epilogue import epilogue_size, takes_epilogue, with_epilogue
from .ir.program import MAX_PUSH
from .lower import LoweredKernel, build_kernel, structure_of, with_values

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

Answer = Callable[[Node], Sequence[Dispatch]]

APART = frozenset(("PHASES_DOWN", "RESULT_STEP"))
"""Constants of kernels that store results of stride phases, which lie apart."""


def dispatch_class(node: Node) -> NodeSignature:
    """Return what decides the dispatches of a node, but for its values.

    A product's kernel depends on where an operand starts only by alignment; the start
    itself goes into the address. So the steps of a loop, each of which reads another
    part of a sequence, have one class.
    """
    signature = node.signature
    if signature.rebased is None or not signature.op.epilogue_dims:
        return signature
    return signature.rebased[0]


class Arguments(NamedTuple):
    """Arguments of an epilogue by name.

    Attributes
    ----------
    used, written : dict of str to (int, int)
        Slot and offset in bytes of each operand, and of each result.
    words : dict of str to number
    scalars : dict of str to (int, int)
        Node, and position among its scalars.
    """

    used: dict[str, tuple[int, int]]
    written: dict[str, tuple[int, int]]
    words: dict[str, float]
    scalars: dict[str, tuple[int, int]]


NO_EPILOGUE = Arguments({}, {}, {}, {})


class FusedEpilogue(NamedTuple):
    """Fused product and epilogue.

    Attributes
    ----------
    product : int
        Node of the product.
    kernel_group : list of int
        The element-wise nodes.
    dispatches : sequence of Dispatch
        Dispatches of the product; the last one takes the epilogue.
    kernel : LoweredKernel
        The element-wise nodes as a kernel.
    source : str
        GLSL of the last dispatch.
    """

    product: int
    kernel_group: list[int]
    dispatches: Sequence[Dispatch]
    kernel: LoweredKernel
    source: str

    def arguments(self, slots: Mapping[int, int]) -> Arguments:
        """Return the arguments that the epilogue adds to the product's kernel.

        Parameters
        ----------
        slots : mapping of int to int
            Number of each value, by `id`.
        """
        kernel = self.kernel
        return Arguments(
            {f"epilogue.{n}": (slots[id(v)], at) for n, v, at in kernel.inputs},
            {f"epilogue.{n}": (slots[id(v)], 0) for n, v in kernel.outputs},
            {f"epilogue.{n}": count for n, count in kernel.words if n != "quads"},
            {
                f"epilogue.s{k}": (self.kernel_group[member], at)
                for k, (member, at) in enumerate(kernel.scalars)
            },
        )


def fuse_epilogues(
    gpu: DeviceInfo,
    nodes: Sequence[Node],
    kernel_groups: Sequence[list[int]],
    live_out: set[int],
    external: Collection[int],
    state: Collection[int],
    known: RecentCache[Hashable, tuple[FusedEpilogue | None]],
) -> dict[int, FusedEpilogue]:
    """Return the fused epilogues, by the first node of their kernel group.

    The product then runs in the group's place, which is always possible, since nothing
    else reads it.

    Parameters
    ----------
    gpu : DeviceInfo
        Device of the plan.
    nodes : sequence of Node
    kernel_groups : sequence of list of int
        Nodes of each kernel.
    live_out : set of int
        Live-out values of kernels, by `id`.
    external, state : collection of int
        Values, by `id`, with external references, and those a replay may overwrite.
    known : RecentCache of Hashable to tuple of (FusedEpilogue or None)
        Filled: those of a loop's steps are equal but for their values.
    """
    group_of = {
        number: kernel_group[0]
        for kernel_group in kernel_groups
        for number in kernel_group
    }
    readers: dict[int, set[int]] = {}
    for number in group_of:
        for value in nodes[number].values:
            readers.setdefault(id(value), set()).add(group_of[number])
    # Products that are alone in a kernel, by the value that they make, in order.
    products = {
        id(nodes[numbers[0]].outputs[0]): place
        for place, numbers in enumerate(kernel_groups)
        if len(numbers) == 1 and nodes[numbers[0]].op.epilogue_dims
    }
    found = {}
    for kernel_group in kernel_groups:
        members = [nodes[number] for number in kernel_group]
        if not all([node.op.is_elementwise for node in members]):
            continue
        if _donates(members, live_out, state):
            continue
        read = {id(value) for node in members for value in node.values}
        places = sorted(
            (products[each] for each in read & products.keys()), reverse=True
        )
        for (product,) in [kernel_groups[place] for place in places]:
            value = nodes[product].outputs[0]
            if readers[id(value)] != {kernel_group[0]}:
                continue
            if not _in_order(nodes, kernel_group, value):
                continue
            if id(nodes[product].outputs[0]) in external:
                continue
            fused = _known_epilogue(gpu, nodes, product, kernel_group, live_out, known)
            if fused is not None:
                found[kernel_group[0]] = fused
                break
    return found


def _donates(
    members: Sequence[Node], live_out: Collection[int], state: Collection[int]
) -> bool:
    """Return whether a result could alias a donated operand if left unfused."""
    sizes = {
        (value.numel, value.dtype.itemsize)
        for node in members
        for value in node.outputs
        if id(value) in live_out
    }
    return any(
        id(value) in state and (value.numel, value.dtype.itemsize) in sizes
        for node in members
        for value in node.values
    )


def _in_order(nodes: Sequence[Node], kernel_group: list[int], value: Value) -> bool:
    """Return whether a group reads a value element by element, and all of it."""
    shape = nodes[kernel_group[0]].layouts[0].shape
    return value.dtype in (float32, float16, bfloat16) and all(
        operand.layout == Layout.contiguous(shape)
        for number in kernel_group
        for operand in nodes[number].inputs
        if operand.value is value
    )


def _known_epilogue(
    gpu: DeviceInfo,
    nodes: Sequence[Node],
    product: int,
    kernel_group: list[int],
    live_out: set[int],
    known: RecentCache[Hashable, tuple[FusedEpilogue | None]],
) -> FusedEpilogue | None:
    """Return `_fuse_epilogue`, from what is known of groups of the same structure."""
    node, members = nodes[product], [nodes[number] for number in kernel_group]
    structure, values = structure_of(members, live_out, node.outputs)
    dynamic = [isinstance(each, DYNAMIC) for row in members for each in row.numbers]
    key = structure, dispatch_class(node), tuple(dynamic)
    before = known[key]
    if before is not None:
        (found,) = before
        if found is None:
            return None
        kernel = with_values(found.kernel, values.__getitem__)
        return found._replace(product=product, kernel_group=kernel_group, kernel=kernel)
    made = _fuse_epilogue(gpu, nodes, product, kernel_group, live_out)
    known[key] = (made,)
    if made is not None:
        places = {id(value): place for place, value in enumerate(values)}
        kernel = with_values(made.kernel, lambda value: places[id(value)])
        known[key] = (made._replace(kernel=kernel),)
    return made


def _fuse_epilogue(
    gpu: DeviceInfo,
    nodes: Sequence[Node],
    product: int,
    kernel_group: list[int],
    live_out: set[int],
) -> FusedEpilogue | None:
    node = nodes[product]
    if math.prod(node.layouts[0].shape[-node.op.epilogue_dims :]) % 4:
        return None  # the four results of an epilogue lie in one row
    dispatches = _with_hook(gpu, node)
    writers = [row for row in dispatches if "out" in map(_memory, row.push.values())]
    last = dispatches[-1]
    if writers != [last] or last.push["out_"] not in ("out", BufferOffset("out", 0)):
        return None
    if not takes_epilogue(last.kernel) or last.push.get("out_column", 1) != 1:
        return None
    if not APART.isdisjoint(last.constants):
        return None
    members = [nodes[number] for number in kernel_group]
    kernel = build_kernel(
        members,
        live_out,
        product=node.outputs[0],
        by_bits=gpu.target.flushes_subnormals,
    )
    # Dynamic arguments cannot be push constants of a recording.
    numbers = [members[member].numbers[at] for member, at in kernel.scalars]
    if any(isinstance(number, DYNAMIC) for number in numbers):
        return None
    if push_size(last) + epilogue_size(kernel.program) > MAX_PUSH:
        return None
    source = with_epilogue(last.kernel, kernel.program)
    return FusedEpilogue(product, kernel_group, dispatches, kernel, source)


def _with_hook(gpu: DeviceInfo, node: Node) -> Sequence[Dispatch]:
    """Return a product's dispatches, of which the last takes an epilogue if one can.

    The candidate measured quickest alone may have no epilogue hook; the heuristic's
    choice then saves a kernel, and its memory traffic.
    """
    input_specs, params = node.op.input_specs(node), dict(node.params)
    found = node.op.dispatches(gpu, input_specs, params)
    tuning_key = node.op.tuning_key(node)
    if tuning_key is None or takes_epilogue(found[-1].kernel):
        return found
    with autotune.forced_candidate(tuning_key, autotune.DEFAULT):
        return node.op.dispatches(gpu, input_specs, params)


def _memory(value: object) -> object:
    return value.memory if isinstance(value, BufferOffset) else value


def push_size(dispatch: Dispatch) -> int:
    """Return the push constant bytes of a kernel: addresses, and 4-byte words."""
    words = sum(isinstance(value, int | float) for value in dispatch.push.values())
    return 8 * (len(dispatch.push) - words) + (4 * words + 7) // 8 * 8
