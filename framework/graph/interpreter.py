"""Interpreter of analysed graphs in NumPy: the oracle of fused execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..base.dtype import convert
from ..base.errors import GraphError
from .analyzer import MEMORY, REDUCE, FusedKernel, FusionAnalyzer, FusionResult, Node


def interpret(
    graph: FusionAnalyzer, result: FusionResult, inputs: Mapping[int, np.ndarray]
) -> dict[int, np.ndarray]:
    """Return the values that the kernels of a result store, by node.

    A kernel sees its inputs alone, and only its outputs are kept, so that a result
    with a missing output fails.

    Parameters
    ----------
    graph : FusionAnalyzer
        The graph.
    result : FusionResult
        Result of `fuse` or `unfused`.
    inputs : mapping of int to ndarray
        Values from outside, by their negative numbers.

    Raises
    ------
    GraphError
        If a value is missing or has another shape than declared.
    """
    memory = {node.id: given_value(node, inputs) for node in graph.inputs}
    for kernel in result.kernels:
        memory |= _run(graph, kernel, memory)
    return {number: value for number, value in memory.items() if number >= 0}


def given_value(node: Node, inputs: Mapping[int, np.ndarray]) -> np.ndarray:
    """Return a value from outside in its precision, checked."""
    if node.id not in inputs:
        raise GraphError(
            f"run: the input {node.id} is missing; given: {sorted(inputs)}", node.id
        )
    value = np.asarray(inputs[node.id])
    if value.shape != node.shape:
        raise GraphError(
            f"run: the input {node.id} has shape {tuple(value.shape)}; it must be"
            f" {tuple(node.shape)}",
            node.id,
        )
    return convert(value, node.dtype)


def _run(
    graph: FusionAnalyzer, kernel: FusedKernel, memory: Mapping[int, np.ndarray]
) -> dict[int, np.ndarray]:
    known = {number: memory[number] for number in kernel.inputs}
    for number in kernel.nodes:
        node = graph.nodes[number]
        operands = [known[read] for read in node.inputs]
        known[number] = convert(_computed(node, operands), node.dtype)
    return {number: known[number] for number in kernel.outputs}


def _computed(node: Node, operands: list[np.ndarray]) -> np.ndarray:
    """Return a node's result, computed in at least float32."""
    if node.op in MEMORY or node.op == "cast":
        return operands[0]
    if node.op in REDUCE:
        return _reduced(node, operands[0])
    wide = [operand.astype(node.dtype.arithmetic) for operand in operands]
    with np.errstate(all="ignore"):
        return np.asarray(_FUNCTIONS[node.op](*wide))


def _reduced(node: Node, operand: np.ndarray) -> np.ndarray:
    """Return a reduction, in float64; an empty one is 0."""
    if operand.size == 0:
        return np.zeros(node.shape)
    rows = operand.reshape(-1) if node.shape == (1,) else operand
    wide = rows.astype(np.float64) if node.dtype.is_float else rows
    answer: np.ndarray = _REDUCTIONS[node.op](wide, axis=-1, keepdims=True)
    return answer


def _sigmoid(x: np.ndarray) -> np.ndarray:
    power = np.exp(-np.abs(x))
    answer: np.ndarray = np.where(x < 0, power, 1) / (1 + power)
    return answer


def _gelu(x: np.ndarray) -> np.ndarray:
    """Return the tanh approximation of GELU."""
    inner = x.dtype.type((2 / np.pi) ** 0.5) * (x + x.dtype.type(0.044715) * x**3)
    answer: np.ndarray = x * _sigmoid(2 * inner)
    return answer


_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "gelu": _gelu,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "log": np.log,
    "neg": np.negative,
    "abs": np.abs,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": lambda x, y: x / y,
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
}
_REDUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "sum": np.sum,
    "mean": np.mean,
    "reduce_max": np.max,
    "reduce_min": np.min,
}
