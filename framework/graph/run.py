"""Execution of analysed graphs on a device, kernel by kernel; see `analyzer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .. import ops
from ..autograd.engine import no_grad
from ..base.device import Device
from ..eager.base_tensor import evaluate
from ..tensor.factories import zeros
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from .analyzer import MEMORY, REDUCE, FusionAnalyzer, FusionResult, Node
from .interpreter import given_value


def run_fused(
    graph: FusionAnalyzer,
    result: FusionResult,
    inputs: Mapping[int, np.ndarray],
    device: Device,
) -> dict[int, Tensor]:
    """Return the values that the kernels of a result store, by node.

    The nodes of each kernel are submitted together and apart from the others, so that
    the device runs the kernels of the analysis, where its own partitioner allows them.

    Parameters
    ----------
    graph : FusionAnalyzer
        The graph.
    result : FusionResult
        Result of `fuse` or `unfused`.
    inputs : mapping of int to ndarray
        Values from outside, by their negative numbers.
    device : Device
        Where to run.

    Raises
    ------
    GraphError
        If a value is missing or has another shape than declared.
    """
    memory = {
        node.id: tensor(given_value(node, inputs), node.dtype, device)
        for node in graph.inputs
    }
    with no_grad():
        evaluate(*memory.values())
        for kernel in result.kernels:
            known = {number: memory[number] for number in kernel.inputs}
            for number in kernel.nodes:
                node = graph.nodes[number]
                known[number] = _computed(node, [known[at] for at in node.inputs])
            memory |= {number: known[number] for number in kernel.outputs}
            # Only outputs may be live-out when the kernel is planned.
            del known
            evaluate(*memory.values())
    return {number: value for number, value in memory.items() if number >= 0}


def _computed(node: Node, operands: list[Tensor]) -> Tensor:
    x = operands[0]
    if node.op in MEMORY:
        return ops.copy(x)
    if node.op == "cast":
        return x.to(node.dtype)
    if node.op in REDUCE:
        if x.numel() == 0:
            return zeros(node.shape, dtype=node.dtype, device=x.device)
        dims = None if node.shape == (1,) else -1
        total = _REDUCTIONS[node.op](x, dims, True)
        return total.reshape(node.shape).to(node.dtype)
    return _FUNCTIONS[node.op](*operands)


_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "relu": ops.relu,
    "sigmoid": ops.sigmoid,
    "tanh": ops.tanh,
    "gelu": lambda x: ops.gelu(x, "tanh"),
    "sqrt": ops.sqrt,
    "rsqrt": ops.rsqrt,
    "exp": ops.exp,
    "log": ops.log,
    "neg": ops.neg,
    "abs": ops.abs,
    "add": ops.add,
    "sub": ops.sub,
    "mul": ops.mul,
    "div": ops.div,
    "max": ops.maximum,
    "min": ops.minimum,
    "pow": ops.pow,
}
_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "sum": ops.sum,
    "mean": ops.mean,
    "reduce_max": ops.amax,
    "reduce_min": ops.amin,
}
